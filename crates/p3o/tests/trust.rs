//! Nothing altered goes unnoticed: settings, limits, rows and checkpoint vouch for one another, and every reader asks them.

use crate::util::{copy_folder, named_learner, on_threads, one_line, small_task};
use p3o::record::ProgressCsv;
use p3o::run::{checkpoint_path, named_task, previous_checkpoint_path};
use p3o::{Agent, Config, Error, Finish, Learner, Run, RunFolder, checkpoint};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const CHANGES: &[&str] = &["run.steps=2400", "run.checkpoint_every=2"];

fn config() -> Config {
    small_task("p3o", "PointGoal", CHANGES)
}

/// Trains for so many updates, or to the end.
fn train(run: &mut Run, updates: u64) -> Finish {
    let watch = &mut |_: &Run, report: &p3o::Report| match report.update >= updates {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    run.train(watch).unwrap()
}

fn start(folder: &Path) -> Run {
    Run::start(config(), &*named_task(&config()).unwrap(), folder).unwrap()
}

/// A run of six updates.
fn finished() -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    on_threads(1, || assert_eq!(train(&mut start(&folder), u64::MAX), Finish::Done));
    (home, folder)
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// What every reader says of a run that was altered; they say the same.
fn refusal(folder: &Path) -> String {
    let (table, latest) = (std::fs::read(folder.join("progress.csv")), std::fs::read(checkpoint_path(folder)));
    let of_open = one_line(RunFolder::open(folder).err().expect("it was altered"));
    let of_agent = one_line(Agent::load(folder).err().expect("it was altered"));
    let of_resume = one_line(Run::resume(folder, &named_task, None).err().expect("it was altered"));
    let of_more = one_line(Run::resume(folder, &named_task, Some(4800)).err().expect("it was altered"));
    assert_eq!([&of_agent, &of_resume, &of_more], [&of_open; 3]);
    // Nothing was changed by refusing it.
    assert!(std::fs::read(folder.join("progress.csv")).ok() == table.ok(), "rows were deleted");
    assert!(std::fs::read(checkpoint_path(folder)).ok() == latest.ok());
    of_open
}

#[test]
fn an_edited_limit_is_refused_until_it_is_adopted_or_undone() {
    let (_home, folder) = finished();
    let path = folder.join("config.toml");
    let original = text(&path);
    let edited = original.replace("hazards = 25", "hazards = 65");
    assert_ne!(edited, original);
    std::fs::write(&path, &edited).unwrap();
    assert_eq!(
        refusal(&folder),
        format!(
            "{} was altered: it has limits.hazards = 65.0, and latest.safetensors has limits.hazards = 25.0",
            path.display()
        )
    );
    // A checkpoint alone still has its own limit.
    assert_eq!(Agent::load(&checkpoint_path(&folder)).unwrap().limits(), [25.0]);

    Run::discard_changes(&folder).unwrap();
    assert_eq!(text(&path), original);
    assert_eq!(Agent::load(&folder).unwrap().limits(), [25.0]);

    std::fs::write(&path, &edited).unwrap();
    let change = "limits.hazards = 65.0 (before step 2400: limits.hazards = 25.0)";
    assert_eq!(Run::adopt(&folder, &named_task).unwrap(), [change]);
    let agent = Agent::load(&folder).unwrap();
    assert_eq!((agent.limits(), agent.adopted()), (vec![65.0], &[change.to_string()][..]));
    assert!(Run::adopt(&folder, &named_task).unwrap().is_empty(), "there is nothing left to adopt");
    // The checkpoint never forgets it.
    on_threads(1, || train(&mut Run::resume(&folder, &named_task, Some(3200)).unwrap(), u64::MAX));
    assert_eq!(Agent::load(&folder).unwrap().adopted(), [change]);
}

#[test]
fn settings_that_would_make_another_run_cannot_be_adopted() {
    let (_home, folder) = finished();
    let path = folder.join("config.toml");
    let edited = text(&path).replace("hidden = [16, 16]", "hidden = [16, 8]");
    std::fs::write(&path, edited).unwrap();
    assert!(refusal(&folder).contains("it has net.hidden = [16, 8]"));
    let error = one_line(Run::adopt(&folder, &named_task).unwrap_err());
    assert!(error.contains("its network is 60-16-16-2 tanh, not 60-16-8-2 tanh"), "{error}");
}

#[test]
fn a_comment_in_the_settings_alters_nothing() {
    let (_home, folder) = finished();
    let path = folder.join("config.toml");
    std::fs::write(&path, format!("# the good one\n{}", text(&path))).unwrap();
    RunFolder::open(&folder).unwrap();
    assert!(Run::adopt(&folder, &named_task).unwrap().is_empty());
}

#[test]
fn altered_rows_are_refused_and_none_is_deleted() {
    let (home, whole) = finished();
    let rows: Vec<String> = text(&whole.join("progress.csv")).split_inclusive('\n').map(String::from).collect();
    assert_eq!(rows.len(), 7);
    let number = |row: &str| row.replacen("400", "401", 1);
    let other = |i: usize, row: String| {
        let mut rows = rows.clone();
        rows[i] = row;
        rows.concat()
    };
    let cases = [
        ("another number", other(3, rows[3].replacen("3,", "30,", 1)), "line 4 was altered"),
        ("another speed", other(1, rows[1].replacen("400", "401", 1)), "line 2 was altered"),
        ("no number", other(2, rows[2].replacen("2,", "x,", 1)), "line 3: \"x\" is not a number"),
        ("a row less", rows[..6].concat(), "it has 5 rows, and latest.safetensors was saved after 6"),
        ("no rows", rows[0].clone(), "it has 0 rows"),
        ("another column", other(0, rows[0].replacen("return", "retorn", 1)), "line 2 was altered"),
    ];
    assert_ne!(number(&rows[1]), rows[1]);
    for (i, (what, altered, reason)) in cases.iter().enumerate() {
        let folder = home.path().join(format!("case {i}"));
        copy_folder(&whole, &folder);
        std::fs::write(folder.join("progress.csv"), altered).unwrap();
        let line = refusal(&folder);
        assert!(line.contains("progress.csv was altered: ") && line.contains(reason), "{what}: {line}");
    }
}

#[test]
fn rows_of_another_run_are_refused_although_they_are_whole() {
    let (home, folder) = finished();
    let other = home.path().join("other");
    let config = small_task("p3o", "PointGoal", &[CHANGES, &["run.seed=7"]].concat());
    on_threads(1, || {
        let mut run = Run::start(config.clone(), &*named_task(&config).unwrap(), &other).unwrap();
        train(&mut run, u64::MAX);
    });
    std::fs::copy(other.join("progress.csv"), folder.join("progress.csv")).unwrap();
    assert!(refusal(&folder).ends_with("its rows are not those that latest.safetensors was saved after"));
    // Adopted on purpose, the run says so ever after.
    let adopted = Run::adopt(&folder, &named_task).unwrap();
    assert_eq!(adopted, ["progress.csv as it was at step 2400: its rows were not those of the checkpoint"]);
    assert_eq!(Agent::load(&folder).unwrap().adopted(), adopted);
}

#[test]
fn rows_ahead_of_the_checkpoint_are_read_and_checked() {
    let home = tempfile::tempdir().unwrap();
    let (folder, killed) = (home.path().join("run"), home.path().join("killed"));
    on_threads(1, || {
        start(&folder).train(&mut |run, report| {
            if report.update == 5 {
                copy_folder(run.folder(), &killed);
            }
            ControlFlow::Continue(())
        })
    })
    .unwrap();
    let run = RunFolder::open(&killed).unwrap();
    assert_eq!((run.steps(), run.table.rows.len()), (1600, 5));
    let path = killed.join("progress.csv");
    let rows = text(&path);
    std::fs::write(&path, rows.replacen("\n5,2000,", "\n5,2001,", 1)).unwrap();
    assert_ne!(text(&path), rows);
    assert!(refusal(&killed).contains("line 6 was altered"));
}

/// A file and what resuming says of it.
fn resumed(folder: &Path) -> (Vec<String>, Vec<u8>) {
    on_threads(1, || {
        let mut run = Run::resume(folder, &named_task, None).unwrap();
        let notes = run.notes().to_vec();
        assert_eq!(train(&mut run, u64::MAX), Finish::Done);
        (notes, std::fs::read(checkpoint_path(folder)).unwrap())
    })
}

#[test]
fn a_damaged_checkpoint_has_an_earlier_one_to_fall_back_on() {
    let (home, whole) = finished();
    let expected = std::fs::read(checkpoint_path(&whole)).unwrap();
    type Damage = fn(&Path);
    let flip: Damage = |path| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(path, bytes).unwrap();
    };
    let cases: [(&str, Damage, &str); 3] = [
        ("flipped", flip, "its digest does not match"),
        ("empty", |path| std::fs::write(path, "").unwrap(), "damaged or not one at all"),
        ("gone", |path| std::fs::remove_file(path).unwrap(), "there is no such file"),
    ];
    for (name, damage, reason) in cases {
        let folder = home.path().join(name);
        copy_folder(&whole, &folder);
        damage(&checkpoint_path(&folder));
        let damaged = std::fs::read(checkpoint_path(&folder)).ok();
        // Only whoever writes the run falls back: a verdict is about the checkpoint that it names.
        assert!(one_line(Agent::load(&folder).err().unwrap()).contains(reason), "{name}");
        let (notes, bytes) = resumed(&folder);
        let [note] = &notes[..] else { panic!("{name}: {notes:?}") };
        let previous = previous_checkpoint_path(&folder);
        assert!(note.contains(reason) && note.contains(previous.to_str().unwrap()), "{name}: {note}");
        assert!(note.contains("saved after update 4"), "{name}: {note}");
        assert!(bytes == expected, "{name}: another end");
        assert!(std::fs::read(checkpoint_path(&folder).with_file_name("damaged.safetensors")).ok() == damaged);
        // The next time there is nothing to say.
        assert_eq!(resumed(&folder), (Vec::new(), expected.clone()), "{name}");
    }
    // With both gone there is nothing to go on from.
    flip(&checkpoint_path(&whole));
    flip(&previous_checkpoint_path(&whole));
    let line = one_line(Run::resume(&whole, &named_task, None).err().unwrap());
    assert!(line.contains("latest.safetensors") && line.contains("digest does not match"), "{line}");
}

/// Changed settings come to config.next.toml, then into the checkpoint, then to config.toml. A kill may come at any moment.
#[test]
fn a_change_of_steps_survives_a_kill_at_any_moment() {
    let (home, before) = finished();
    let after = home.path().join("after");
    copy_folder(&before, &after);
    drop(Run::resume(&after, &named_task, Some(4800)).unwrap());
    let next = |folder: &Path| folder.join("config.next.toml");
    assert!(!next(&after).exists() && RunFolder::open(&after).unwrap().config.run.steps == 4800);
    assert_ne!(text(&after.join("config.toml")), text(&before.join("config.toml")));
    // Killed before the checkpoint was saved: the change has not been made.
    let early = home.path().join("early");
    copy_folder(&before, &early);
    std::fs::copy(after.join("config.toml"), next(&early)).unwrap();
    assert_eq!(RunFolder::open(&early).unwrap().config.run.steps, 2400);
    drop(Run::resume(&early, &named_task, None).unwrap());
    assert!(!next(&early).exists() && RunFolder::open(&early).unwrap().config.run.steps == 2400);
    // Killed after it: the change has been made.
    let late = home.path().join("late");
    copy_folder(&after, &late);
    std::fs::rename(late.join("config.toml"), next(&late)).unwrap();
    std::fs::copy(before.join("config.toml"), late.join("config.toml")).unwrap();
    assert_eq!(RunFolder::open(&late).unwrap().config.run.steps, 4800);
    drop(Run::resume(&late, &named_task, None).unwrap());
    assert!(!next(&late).exists());
    assert_eq!(text(&late.join("config.toml")), text(&after.join("config.toml")));
}

#[test]
fn a_finished_run_is_not_overwritten_by_a_slow_start() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    // One process builds its networks while another trains in the same folder from beginning to end.
    let slow = named_learner(config());
    on_threads(1, || train(&mut start(&folder), u64::MAX));
    let (csv, latest) = (text(&folder.join("progress.csv")), std::fs::read(checkpoint_path(&folder)).unwrap());
    let error = Run::start_learner(slow, &folder).err().expect("the folder is taken");
    assert!(matches!(error, Error::Occupied { resumable: true, .. }), "{error}");
    assert_eq!(text(&folder.join("progress.csv")), csv);
    assert!(std::fs::read(checkpoint_path(&folder)).unwrap() == latest);
}

#[cfg(unix)]
#[test]
fn a_run_whose_lock_is_removed_stops_and_leaves_its_checkpoint() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    on_threads(1, || {
        let error = start(&folder).train(&mut |run, report| {
            if report.update == 3 {
                std::fs::remove_file(run.folder().join(".lock")).unwrap();
            }
            ControlFlow::Continue(())
        });
        assert!(one_line(error.unwrap_err()).contains(".lock was removed or replaced"));
    });
    let run = RunFolder::open(&folder).unwrap();
    assert_eq!((run.steps(), run.table.rows.len()), (800, 3));
}

#[test]
fn a_failed_resume_leaves_the_summary() {
    let (_home, folder) = finished();
    let summary = folder.join("summary.json");
    std::fs::write(&summary, "{}").unwrap();
    let error = Run::resume(&folder, &named_task, Some(1200)).err().expect("fewer than were made");
    assert!(matches!(error, Error::StepsMade { made: 2400, .. }), "{error}");
    // The events cannot be written.
    std::fs::remove_dir_all(folder.join("tensorboard")).unwrap();
    std::fs::write(folder.join("tensorboard"), "in the way").unwrap();
    assert!(Run::resume(&folder, &named_task, Some(4800)).is_err());
    assert!(summary.exists());
    assert_eq!(RunFolder::open(&folder).unwrap().config.run.steps, 2400);
}

#[test]
fn a_folder_says_what_trained_it() {
    let (_home, folder) = finished();
    on_threads(2, || train(&mut Run::resume(&folder, &named_task, Some(3200)).unwrap(), u64::MAX));
    let provenance: toml::Table = toml::from_str(&text(&folder.join("provenance.toml"))).unwrap();
    let sittings = provenance["sitting"].as_array().unwrap();
    let of = |key: &str| sittings.iter().map(|sitting| sitting[key].clone()).collect::<Vec<_>>();
    let numbers = |a: i64, b: i64| vec![toml::Value::Integer(a), toml::Value::Integer(b)];
    assert_eq!((of("from_step"), of("threads")), (numbers(0, 2400), numbers(1, 2)));
    assert_eq!(sittings[0]["program"].as_str(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(sittings[0]["instructions"].as_str(), Some(p3o_nn::instruction_set()));
    assert!(!sittings[0]["cpu"].as_str().unwrap().is_empty());
}

/// A run of an older version vouches for nothing beyond its checkpoint; adopted it is sealed.
#[test]
fn an_older_run_is_sealed_by_adopting_it() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    copy_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-1/p3o-PointGoal"), &folder);
    assert_eq!(RunFolder::open(&folder).unwrap().digest(), None);
    let adopted = Run::adopt(&folder, &named_task).unwrap();
    assert_eq!(adopted, ["a checkpoint of an older version, sealed as it is"]);
    let run = RunFolder::open(&folder).unwrap();
    assert!(run.digest().is_some());
    let path = folder.join("progress.csv");
    let table = ProgressCsv::read(&path).unwrap();
    let steps = table.rows[1][table.column("steps").unwrap()];
    std::fs::write(&path, text(&path).replacen(&format!("2,{steps},"), &format!("2,{},", steps + 1.0), 1)).unwrap();
    assert!(refusal(&folder).contains("its rows are not those"));
}

/// States with a right digest that no run comes to.
mod states {
    use super::*;
    use p3o::algo::multiplier::Multiplier;
    use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
    use std::collections::{BTreeMap, HashMap};

    type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

    /// A checkpoint that anything can be done to.
    struct Opened {
        tensors: Tensors,
        metadata: HashMap<String, String>,
    }

    impl Opened {
        fn of(learner: &mut Learner) -> Opened {
            let file = tempfile::NamedTempFile::new().unwrap();
            checkpoint::save(learner, file.path()).unwrap();
            let bytes = std::fs::read(file.path()).unwrap();
            let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
            let tensors = SafeTensors::deserialize(&bytes).unwrap();
            let owned = |(name, t): (String, TensorView)| (name, (t.dtype(), t.shape().to_vec(), t.data().to_vec()));
            let tensors = tensors.tensors().into_iter().map(owned).collect();
            Opened { tensors, metadata: header.metadata().clone().unwrap() }
        }

        /// What loading it says, with the digest that belongs to it.
        fn refusal(&self, learner: &mut Learner) -> String {
            let views = self
                .tensors
                .iter()
                .map(|(name, (dtype, shape, bytes))| (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
            let bytes = serialize(views, Some(self.metadata.clone())).unwrap();
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), checkpoint::reseal(bytes).expect("it is a checkpoint")).unwrap();
            match checkpoint::load(learner, file.path()) {
                Ok(_) => "nothing is wrong".into(),
                Err(error) => one_line(error).split_once(": ").unwrap().1.to_string(),
            }
        }

        fn set<T: serde::Serialize>(&mut self, name: &str, value: &T) {
            let bytes = postcard::to_stdvec(value).unwrap();
            *self.tensors.get_mut(name).unwrap_or_else(|| panic!("there is no {name}")) =
                (Dtype::U8, vec![bytes.len()], bytes);
        }

        fn first_number(&mut self, name: &str, x: f32) {
            self.tensors.get_mut(name).unwrap().2[..4].copy_from_slice(&x.to_le_bytes());
        }
    }

    /// PPO-L with normalised observations and recurrent networks: it has every part that a checkpoint can have.
    fn trained() -> (Learner, Learner) {
        let changes = ["rollout.normalize_obs=true", "net.gru=8", "constraint.correction_rate=0.1"];
        let config = small_task("ppo-lag", "PointGoal", &changes);
        let mut learner = named_learner(config.clone());
        learner.update().unwrap();
        (learner, named_learner(config))
    }

    #[test]
    fn a_state_that_no_run_comes_to_is_refused_by_what_is_wrong_with_it() {
        let (mut trained, mut fresh) = trained();
        let mut good = || Opened::of(&mut trained);
        let empty: &[u8] = &[];
        type Change<'a> = Box<dyn Fn(&mut Opened) + 'a>;
        let number = |name: &'static str, x: f32| -> Change { Box::new(move |f| f.first_number(name, x)) };
        let value = |name: &'static str, bytes: Vec<u8>| -> Change {
            Box::new(move |f| {
                f.tensors.get_mut(name).unwrap().clone_from(&(Dtype::U8, vec![bytes.len()], bytes.clone()))
            })
        };
        let first_double = |name: &'static str, x: f64| -> Change {
            Box::new(move |f| f.tensors.get_mut(name).unwrap().2[..8].copy_from_slice(&x.to_le_bytes()))
        };
        let gone = |name: &'static str| -> Change { Box::new(move |f| drop(f.tensors.remove(name).unwrap())) };
        let progress = |updates: u64, steps: u64, costs: &[f64], length: f64| {
            postcard::to_stdvec(&(updates, steps, costs, length, &[1.0][..])).unwrap()
        };
        let mut nan = Multiplier::new(1.0);
        nan.nu = f64::NAN;
        let cases: Vec<(Change, &str)> = vec![
            (number("actor.head.weight", f32::NAN), "`actor.head.weight` holds a number that is not finite"),
            (number("actor.log_std", f32::INFINITY), "`actor.log_std` holds a number that is not finite"),
            (
                number("actor.adam_m.head.bias", f32::INFINITY),
                "`actor.adam_m.head.bias` holds a number that is not finite",
            ),
            (
                number("critic.reward.adam_v.head.weight", -1.0),
                "the optimiser of `critic.reward` has a second moment below",
            ),
            (
                value("actor.adam_steps", postcard::to_stdvec(&(1u64 << 63)).unwrap()),
                "`actor.adam_steps` is 9223372036854",
            ),
            (
                value("critic.reward.scale", postcard::to_stdvec(&(0.0, 0.0, true)).unwrap()),
                "`critic.reward.scale` is not",
            ),
            (gone("shuffles"), "it has no `shuffles`"),
            (gone("multipliers"), "it has no `multipliers`"),
            (value("shuffles", postcard::to_stdvec(&empty).unwrap()), "`shuffles` has 0 entries, not 3"),
            (value("multipliers", postcard::to_stdvec(&empty).unwrap()), "`multipliers` has 0 entries, not 1"),
            (
                value("multipliers", postcard::to_stdvec(&vec![nan.clone()]).unwrap()),
                "`multipliers` holds a number that is not finite",
            ),
            (value("multipliers", vec![1, 2, 3]), "`multipliers` is damaged"),
            (gone("corrections"), "it has no `corrections`"),
            (value("corrections", postcard::to_stdvec(&[2.0][..]).unwrap()), "`corrections` are not those of a run"),
            (number("normalizer.scale", f32::INFINITY), "`normalizer.scale` holds a number that is not finite"),
            (number("normalizer.shift", f32::NAN), "`normalizer.shift` holds a number that is not finite"),
            (number("normalizer.clip", 9.0), "`normalizer.clip` is 9, not 10"),
            (number("normalizer.clip", f32::NAN), "`normalizer.clip` is NaN, not 10"),
            (first_double("normalizer.count", f64::NAN), "`normalizer` holds a number that is not finite"),
            (first_double("normalizer.count", -1.0), "`normalizer` holds a number that is not finite"),
            (first_double("normalizer.mean", f64::INFINITY), "`normalizer` holds a number that is not finite"),
            (first_double("normalizer.squares", -1.0), "a spread below zero"),
            (gone("normalizer.shift"), "it has no `normalizer.shift`"),
            (
                Box::new(|f| drop(f.tensors.insert("normalizer.mean".into(), (Dtype::F64, vec![1], vec![0; 8])))),
                "`normalizer.mean` has another shape than this run's network",
            ),
            (
                value("critic_states", postcard::to_stdvec(&vec![vec![0f32; 5], vec![]]).unwrap()),
                "`critic_states` has 5 entries",
            ),
            (
                value("progress", progress(1 << 63, 400, &[1.0], 9.0)),
                "`progress` is not one that a run comes to: it counts",
            ),
            (value("progress", progress(1, 400, &[f64::NAN], 9.0)), "a cost or length is not finite"),
            (value("progress", progress(1, 400, &[1.0, 2.0], 9.0)), "it has another number of costs"),
            (
                Box::new(|f| drop(f.tensors.insert("extra".into(), (Dtype::U8, vec![1], vec![0])))),
                "it holds `extra`, which this run does not have",
            ),
            (
                Box::new(|f| f.tensors.get_mut("actor.head.weight").unwrap().1.reverse()),
                "`actor.head.weight` has another shape than this run's network",
            ),
            (
                Box::new(|f| f.tensors.get_mut("actor.head.weight").unwrap().0 = Dtype::I32),
                "`actor.head.weight` has another shape than this run's network",
            ),
            (Box::new(|f| f.tensors.get_mut("progress").unwrap().0 = Dtype::I8), "`progress` is not a row of bytes"),
        ];
        let state = |learner: &mut Learner| Opened::of(learner).tensors;
        let before = state(&mut fresh);
        for (change, reason) in &cases {
            let mut file = good();
            change(&mut file);
            let said = file.refusal(&mut fresh);
            assert!(said.contains(reason), "{said:?} does not say {reason:?}");
            assert!(state(&mut fresh) == before, "{reason}: it changed the learner");
        }
        // What the description says is held against the counters.
        let mut file = good();
        let about = file.metadata.get_mut("p3o").unwrap();
        *about = about.replace("\"updates\":1,", &format!("\"updates\":{},", 1u64 << 63));
        file.set("progress", &(1u64 << 63, 400u64, &[1.0][..], 9.0, &[1.0][..]));
        assert!(file.refusal(&mut fresh).contains("9223372036854775808 updates of 400 steps"));
        // None of this was a mistake of the test's own.
        assert_eq!(good().refusal(&mut fresh), "nothing is wrong");
    }

    #[test]
    fn a_policy_with_a_broken_weight_or_normaliser_does_not_act() {
        let (mut trained, _) = trained();
        for (name, bytes) in
            [("actor.head.weight", f32::NAN), ("actor.log_std", f32::INFINITY), ("normalizer.scale", f32::NAN)]
                .map(|(name, x)| (name, x.to_le_bytes()))
        {
            let mut file = Opened::of(&mut trained);
            file.tensors.get_mut(name).unwrap().2[..4].copy_from_slice(&bytes);
            let views = file
                .tensors
                .iter()
                .map(|(name, (dtype, shape, bytes))| (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
            let bytes = checkpoint::reseal(serialize(views, Some(file.metadata.clone())).unwrap()).unwrap();
            let path = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(path.path(), bytes).unwrap();
            let error = one_line(Agent::load(path.path()).err().expect("it is not finite"));
            assert!(error.contains(&format!("`{name}` holds a number that is not finite")), "{error}");
        }
    }
}
