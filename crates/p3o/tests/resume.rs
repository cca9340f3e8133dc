//! A run that stops and goes on is the same run, to the bit, whatever the number of threads.

use crate::util::{bits, copy_folder, on_threads, small_task, task_of};
use p3o::config::Agents;
use p3o::record::{ProgressCsv, Table};
use p3o::run::{checkpoint_path, named_task};
use p3o::{Config, Finish, Learner, Method, Run, checkpoint};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

/// Six updates of 500 steps per environment: episodes of 1000 steps are under way at every second checkpoint.
const LONG: &[&str] = &["rollout.batch=2000", "run.steps=12000", "run.checkpoint_every=3", "critic.normalize=true"];

/// Sixty steps are two episodes of SimpleSpread and a part.
const TEAM: [&str; 3] = ["rollout.batch=240", "run.steps=1440", "rollout.normalize_obs=true"];

fn config(task: &str, changes: &[&str]) -> Config {
    config_of("p3o", task, changes)
}

fn config_of(algo: &str, task: &str, changes: &[&str]) -> Config {
    small_task(algo, task, &[LONG, changes].concat())
}

/// Trains to the end. A kill just after the fifth row was written, two rows after the checkpoint, would leave `killed`.
fn straight(config: &Config, threads: usize, folder: &Path, killed: &Path) {
    on_threads(threads, || {
        let make = named_task(config).unwrap();
        let mut run = Run::start(config.clone(), &*make, folder).unwrap();
        let finish = run.train(&mut |run, report| {
            if report.update == 5 {
                copy_folder(run.folder(), killed);
            }
            ControlFlow::Continue(())
        });
        assert_eq!(finish.unwrap(), Finish::Done);
    });
    let rows = std::fs::OpenOptions::new().append(true).open(killed.join("progress.csv"));
    rows.unwrap().write_all(b"6,12000,").unwrap();
}

fn resume(folder: &Path, threads: usize, from: u64, steps: Option<u64>) {
    on_threads(threads, || {
        let mut run = Run::resume(folder, &named_task, steps).unwrap();
        assert_eq!(run.learner().progress().updates, from);
        assert_eq!(run.train(&mut |_, _| ControlFlow::Continue(())).unwrap(), Finish::Done);
    });
}

/// The checkpoint's bytes and all of progress.csv but what the machine decides.
fn outcome(folder: &Path) -> (Vec<u8>, Vec<String>, Vec<Vec<u64>>) {
    let Table { columns, rows } = ProgressCsv::read(&folder.join("progress.csv")).unwrap();
    let (names, machine) = columns.split_at(columns.len() - 2);
    assert_eq!(machine, ["steps_per_s", "wall_s"]);
    let rows = rows.iter().map(|row| bits(&row[..names.len()])).collect();
    (std::fs::read(checkpoint_path(folder)).unwrap(), names.to_vec(), rows)
}

/// Straight on one and on two threads, and killed and resumed in every combination: one outcome.
fn check(name: &str, config: &Config) -> Vec<u8> {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    straight(config, 1, &at("one"), &at("one killed"));
    straight(config, 2, &at("two"), &at("two killed"));
    let expected = outcome(&at("one"));
    let table = ProgressCsv::read(&at("one").join("progress.csv")).unwrap();
    let ended = table.rows.iter().map(|row| row[table.column("episodes").unwrap()]).sum::<f64>();
    assert!(table.rows.len() == 6 && ended > 4.0, "{name}: {ended} episodes ended on the way");
    assert!(outcome(&at("two")) == expected, "{name}: two threads differ from one");
    for (killed, threads) in [("one killed", 1), ("one killed", 2), ("two killed", 1), ("two killed", 2)] {
        assert_eq!(ProgressCsv::read(&at(killed).join("progress.csv")).unwrap().rows.len(), 5);
        let copy = at(&format!("{killed} {threads}"));
        copy_folder(&at(killed), &copy);
        resume(&copy, threads, 3, None);
        assert!(outcome(&copy) == expected, "{name}: {killed}, resumed on {threads}, differs from straight");
    }
    expected.0
}

#[test]
fn a_killed_run_resumes_to_the_same_bits_on_any_number_of_threads() {
    let mini = ["policy.minibatch=96", "critic.minibatch=64"];
    let normal = ["rollout.normalize_obs=true"];
    let falling = ["policy.lr_decay=linear", "critic.lr_decay=linear"];
    let outcomes = [
        check("full batch", &config("PointGoal", &[])),
        check("full batch, normalised", &config("PointGoal", &normal)),
        check("mini-batches", &config("PointGoal", &mini)),
        check("mini-batches, normalised", &config("PointGoal", &[&mini[..], &normal].concat())),
        check("learning rates that fall", &config("PointGoal", &[&mini[..], &falling].concat())),
        check("averaged steps", &config("PointGoal", &[&mini[..], &["policy.average=2"]].concat())),
        check("limits on discounted sums", &config("PointGoal", &["constraint.sum=discounted"])),
        check("networks that remember", &config("PointGoal", &["net.gru=8"])),
        check("a team that remembers", &config_of("map3o", "SimpleSpread", &[&TEAM[..], &["net.gru=8"]].concat())),
        check(
            "two constraints",
            &config("Navigation", &["p3o.kappa_growth=1.05", "constraint.form=literal", "constraint.smoothing=0.5"]),
        ),
    ];
    // The settings do something: no two kinds of run come to the same.
    for (i, a) in outcomes.iter().enumerate() {
        assert!(outcomes[..i].iter().all(|b| a != b));
    }
}

#[test]
fn every_algorithm_resumes_to_the_same_bits() {
    let one = |method: &Method| {
        let (name, task) = (method.to_string(), task_of(*method));
        let changes = if method.agents == Agents::Single { &[][..] } else { &TEAM[..] };
        (check(&name, &config_of(&name, task, changes)), name)
    };
    let outcomes: Vec<(Vec<u8>, String)> = Method::all().iter().map(one).collect();
    for (i, (a, name)) in outcomes.iter().enumerate() {
        assert!(outcomes[..i].iter().all(|(b, _)| a != b), "{name} comes to the same as another");
    }
}

#[test]
fn a_checkpoint_holds_all_that_the_next_number_depends_on() {
    let home = tempfile::tempdir().unwrap();
    let (half, whole, other) = (home.path().join("half"), home.path().join("whole"), home.path().join("other"));
    let changes = [
        "rollout.normalize_obs=true",
        "policy.minibatch=130",
        "constraint.smoothing=0.5",
        "constraint.correction_rate=0.1",
        "net.gru=8",
    ];
    let config = config("PointGoal", &changes);
    let make = named_task(&config).unwrap();
    let mut learner = Learner::new(config.clone(), &*make).unwrap();
    let report = |learner: &mut Learner| {
        let mut report = learner.update().unwrap();
        (report.rollout_ms, report.update_ms) = (0.0, 0.0);
        format!("{report:?}")
    };
    (0..3).for_each(|_| drop(report(&mut learner)));
    checkpoint::save(&mut learner, &half).unwrap();
    let expected: Vec<String> = (0..3).map(|_| report(&mut learner)).collect();
    checkpoint::save(&mut learner, &whole).unwrap();
    // A learner that began with another seed and has lived: nothing of its own past may remain. The settings stand in the
    // file as well, so the seed is set back before the files are compared.
    let mut other_seed = config.clone();
    other_seed.run.seed = 99;
    let mut fresh = Learner::new(other_seed, &*make).unwrap();
    fresh.update().unwrap();
    assert!(checkpoint::load(&mut fresh, &half).unwrap(), "the worlds go on");
    fresh.retune(|config| config.run.seed = learner.config().run.seed).unwrap();
    assert_eq!((0..3).map(|_| report(&mut fresh)).collect::<Vec<_>>(), expected);
    checkpoint::save(&mut fresh, &other).unwrap();
    assert!(std::fs::read(other).unwrap() == std::fs::read(whole).unwrap());
}

#[test]
fn a_run_taken_further_equals_one_that_was_meant_to_go_so_far() {
    let home = tempfile::tempdir().unwrap();
    let (far, near, scrap) = (home.path().join("far"), home.path().join("near"), home.path().join("scrap"));
    let config = config("PointGoal", &[]);
    straight(&config, 1, &far, &scrap);
    on_threads(1, || {
        let mut short = config.clone();
        short.run.steps = 8000;
        let mut run = Run::start(short, &*named_task(&config).unwrap(), &near).unwrap();
        assert_eq!(run.train(&mut |_, _| ControlFlow::Continue(())).unwrap(), Finish::Done);
    });
    let finished = outcome(&near);
    // Without a new goal there is nothing left to do.
    resume(&near, 1, 4, None);
    assert!(outcome(&near) == finished);
    resume(&near, 1, 4, Some(12_000));
    assert!(outcome(&near) == outcome(&far));
    // The folder remembers the new goal.
    assert_eq!(p3o::run::load_config(&near).unwrap().run.steps, 12_000);
}

#[test]
fn an_interrupted_run_is_saved_at_that_update() {
    let home = tempfile::tempdir().unwrap();
    let (whole, part, scrap) = (home.path().join("whole"), home.path().join("part"), home.path().join("scrap"));
    let config = config("PointGoal", &["run.checkpoint_every=100"]);
    straight(&config, 1, &whole, &scrap);
    on_threads(1, || {
        let mut run = Run::start(config.clone(), &*named_task(&config).unwrap(), &part).unwrap();
        let finish = run.train(&mut |_, report| match report.update {
            2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        assert_eq!(finish.unwrap(), Finish::Interrupted);
    });
    resume(&part, 1, 2, None);
    assert!(outcome(&part) == outcome(&whole));
}

#[test]
fn a_run_in_use_cannot_be_resumed() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    let config = config("PointGoal", &[]);
    let run = Run::start(config.clone(), &*named_task(&config).unwrap(), &folder).unwrap();
    let refused = Run::resume(&folder, &named_task, None).err().expect("the folder is in use");
    assert!(crate::util::one_line(refused).contains("in use by another process"));
    drop(run);
    Run::resume(&folder, &named_task, None).unwrap();
}
