//! A checkpoint that is damaged or belongs to something else is refused in one line, and touches nothing.

use crate::util::{named_learner as learner, one_line, small_task};
use p3o::{Config, Error, Learner, checkpoint};
use safetensors::tensor::{Dtype, TensorView, serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A learner after one update, its checkpoint, and a place for spoiled ones.
struct Fixture {
    home: TempDir,
    bytes: Vec<u8>,
    learner: Learner,
}

impl Fixture {
    fn new() -> Fixture {
        let home = tempfile::tempdir().unwrap();
        let mut trained = learner(small_task("p3o", "PointGoal", &[]));
        trained.update().unwrap();
        let path = home.path().join("good");
        checkpoint::save(&mut trained, &path).unwrap();
        let bytes = std::fs::read(path).unwrap();
        Fixture { home, bytes, learner: learner(small_task("p3o", "PointGoal", &["run.seed=5"])) }
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("spoiled")
    }

    /// What loading these bytes says.
    fn refusal(&mut self, bytes: &[u8], what: &str) -> String {
        let path = self.path();
        std::fs::write(&path, bytes).unwrap();
        refusal(&mut self.learner, &path, what)
    }

    fn state(&mut self) -> Vec<u8> {
        let path = self.home.path().join("state");
        checkpoint::save(&mut self.learner, &path).unwrap();
        std::fs::read(path).unwrap()
    }
}

fn refusal(learner: &mut Learner, path: &Path, what: &str) -> String {
    match checkpoint::load(learner, path) {
        Ok(_) => panic!("{what} was accepted"),
        Err(error @ (Error::Checkpoint { .. } | Error::Io(_))) => {
            let line = one_line(error);
            assert!(line.contains(path.to_str().unwrap()), "{what}: {line} does not name the file");
            line
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

#[test]
fn truncated_files_are_refused() {
    let mut fixture = Fixture::new();
    let (bytes, before) = (fixture.bytes.clone(), fixture.state());
    let spread = (0..150).map(|i| i * bytes.len() / 150);
    for length in (0..20).chain(spread).chain(bytes.len() - 20..bytes.len()) {
        fixture.refusal(&bytes[..length], &format!("a file cut to {length} of {} bytes", bytes.len()));
    }
    let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
    fixture.refusal(&longer, "a file with a byte too many");
    assert!(fixture.state() == before, "a refused file changed the learner");
    // The whole file is good, so it was the damage that was refused.
    let path = fixture.path();
    std::fs::write(&path, &bytes).unwrap();
    checkpoint::load(&mut fixture.learner, &path).unwrap();
    // The settings stand in the file too.
    fixture.learner.retune(|config| config.run.seed = 1).unwrap();
    assert!(fixture.state() == bytes);
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let mut fixture = Fixture::new();
    let (bytes, before) = (fixture.bytes.clone(), fixture.state());
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let spread = (0..200).map(|i| i * bytes.len() / 200);
    let in_header = (0..200).map(|i| i * header / 200);
    for (i, at) in spread.chain(in_header).chain(0..64).chain([header - 1, header, bytes.len() - 1]).enumerate() {
        for bit in [i % 8, (i + 5) % 8] {
            let mut spoiled = bytes.clone();
            spoiled[at] ^= 1 << bit;
            fixture.refusal(&spoiled, &format!("bit {bit} of byte {at} flipped (the header has {header})"));
        }
    }
    assert!(fixture.state() == before, "a refused file changed the learner");
}

#[test]
fn foreign_files_are_refused_by_what_they_are() {
    let mut fixture = Fixture::new();
    let data = [0u8; 8];
    let foreign = |metadata: Option<HashMap<String, String>>| {
        let view = TensorView::new(Dtype::F32, vec![2], &data).unwrap();
        serialize([("actor.0.weight", view)], metadata).unwrap()
    };
    let about = |text: &str| Some(HashMap::from([("p3o".to_string(), text.to_string())]));
    let tagged = Some(HashMap::from([("format".to_string(), "pt".to_string())]));
    for (bytes, what) in [(foreign(None), "safetensors without metadata"), (foreign(tagged), "another program's")] {
        assert!(fixture.refusal(&bytes, what).contains("not a checkpoint of p3o"), "{what}");
    }
    for (bytes, what) in [
        (Vec::new(), "an empty file"),
        (b"update,steps\n1,400\n".to_vec(), "a table"),
        (vec![0xff; 4096], "ones"),
        (vec![0; 4096], "zeros"),
        (foreign(about("")), "an empty description"),
        (foreign(about("{\"format\":6}")), "half a description"),
        (foreign(about("{\"format\":5}")), "half a description of an older format"),
        (foreign(about("{\"format\":4}")), "half a description of an older format"),
        (foreign(about("{\"format\":3}")), "half a description of an older format"),
    ] {
        assert!(fixture.refusal(&bytes, what).contains("damaged or not one at all"), "{what}");
    }
    // In the header the description is quoted: \"format\":6.
    let at = fixture.bytes.windows(11).position(|w| w == b"format\\\":6,").expect("the description says its format");
    let mut newer = fixture.bytes.clone();
    newer[at + 9] = b'7';
    assert!(fixture.refusal(&newer, "a newer format").contains("format 7, this program reads 3 to 6"));
}

#[test]
fn what_cannot_be_read_is_refused() {
    let mut fixture = Fixture::new();
    let (missing, folder) = (fixture.home.path().join("missing"), fixture.home.path().to_path_buf());
    assert!(refusal(&mut fixture.learner, &missing, "no file").contains("there is no such file"));
    refusal(&mut fixture.learner, &folder, "a folder");
}

#[test]
fn checkpoints_of_another_run_are_refused_by_what_differs() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path(), &fixture.bytes).unwrap();
    let without_limit = |mut config: Config| {
        config.limits.clear();
        config
    };
    let two_costs = ["env.level=2", "limits.vases=25"];
    for (config, reason) in [
        (small_task("p3o", "Navigation", &[]), "its task is PointGoal, not Navigation"),
        (small_task("ppo", "PointGoal", &[]), "its algorithm is p3o, not ppo"),
        (without_limit(small_task("p3o", "PointGoal", &[])), "its constraints is critic.reward, critic.cost.hazards"),
        (small_task("p3o", "PointGoal", &two_costs), "critic.cost.vases"),
        (small_task("p3o", "PointGoal", &["rollout.envs=5"]), "its number of environments is 4, not 5"),
        (small_task("p3o", "PointGoal", &["net.hidden=[16,8]"]), "its network is 60-16-16-2 tanh, not 60-16-8-2 tanh"),
        (small_task("p3o", "PointGoal", &["net.hidden=[16]"]), "its network is 60-16-16-2 tanh, not 60-16-2 tanh"),
        (small_task("p3o", "PointGoal", &["net.hidden=[16,16,16]"]), "not 60-16-16-16-2 tanh"),
        (small_task("p3o", "PointGoal", &["net.activation=relu"]), "not 60-16-16-2 relu"),
        (
            small_task("p3o", "PointGoal", &["rollout.normalize_obs=true"]),
            "its rollout.normalize_obs is false, not true",
        ),
    ] {
        let line = refusal(&mut learner(config), &fixture.path(), reason);
        assert!(line.contains(reason), "{line:?} does not say {reason:?}");
    }
}
