//! Running the binary, and what a run leaves behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Every number a test depends on, so that no preset decides its outcome: a run of a few milliseconds.
const SMALL: &[&str] = &[
    "rollout.envs=4",
    "rollout.batch=400",
    "rollout.gamma=0.99",
    "rollout.cost_gamma=0.99",
    "rollout.lambda=0.95",
    "rollout.cost_lambda=0.95",
    "rollout.normalize_obs=true",
    "rollout.bootstrap=true",
    "net.hidden=[16,16]",
    "net.activation=tanh",
    "net.init=orthogonal",
    "net.log_std=-0.5",
    "net.recurrent=false",
    "net.units=8",
    "net.chunk=5",
    "algo.learning_rate=1e-3",
    "algo.passes=3",
    "algo.minibatch=0",
    "algo.clip=0.2",
    "algo.target_kl=0.02",
    "algo.kl_slack=1.5",
    "algo.entropy=0",
    "algo.kappa=20",
    "algo.kappa_schedule=fixed",
    "algo.kappa_growth=1.05",
    "algo.kappa_max=40",
    "algo.balance=false",
    "algo.offset=per_step",
    "algo.cost_scale=whole",
    "algo.reward_scale=standard",
    "algo.cost_estimate=episodes",
    "algo.cost_memory=0",
    "algo.margin=0",
    "algo.barrier=20",
    "algo.temperature=1.5",
    "multiplier.init=1",
    "multiplier.learning_rate=0.05",
    "multiplier.max=10",
    "second_order.damping=0.1",
    "second_order.cg_iterations=10",
    "second_order.backtrack=0.8",
    "second_order.backtracks=10",
    "second_order.projection=kl",
    "critic.learning_rate=1e-3",
    "critic.passes=3",
    "critic.minibatch=0",
    "critic.target=return",
    "critic.normalize=true",
    "run.checkpoint_every=2",
];

/// A folder in which the binary runs.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_p3o"));
        command.current_dir(self.0.path()).args(args).stdin(Stdio::null());
        command
    }

    pub fn p3o(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// A command that must succeed without a word on stderr; returns what it printed.
    pub fn good(&self, args: &[&str]) -> String {
        let output = self.p3o(args);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{args:?}");
        text(&output.stdout)
    }

    /// A command that must fail with this code, nothing on stdout and one line on stderr, which is returned.
    pub fn bad(&self, code: i32, args: &[&str]) -> String {
        let output = self.p3o(args);
        let (told, line) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{args:?}: {line}");
        assert_eq!(told, "", "{args:?}");
        assert!(line.starts_with("p3o: ") && line.len() > 8, "{args:?}: {line:?}");
        assert_eq!((line.lines().count(), line.ends_with('\n')), (1, true), "{args:?}: not one line: {line:?}");
        line
    }

    /// Everything in the folder with its bytes, in order.
    pub fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        contents(self.0.path())
    }
}

pub fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.push((path.clone(), Vec::new()));
            all.extend(contents(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            all.push((path, bytes));
        }
    }
    all.sort();
    all
}

/// `train` with small settings and more arguments.
pub fn small<'a>(task: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    small_of("train", task, more)
}

/// Any command that trains, with small settings and more arguments.
pub fn small_of<'a>(command: &'a str, task: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let settings = SMALL.iter().flat_map(|s| ["--set", s]);
    [command, task].into_iter().chain(settings).chain(more.iter().copied()).collect()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

/// A table of text fields, the header first.
pub fn rows(folder: &Path) -> Vec<Vec<String>> {
    let csv = std::fs::read_to_string(folder.join("progress.csv")).unwrap_or_default();
    let whole = &csv[..csv.rfind('\n').map_or(0, |end| end + 1)];
    whole.lines().map(|line| line.split(',').map(String::from).collect()).collect()
}

pub fn checkpoint(folder: &Path) -> PathBuf {
    folder.join("checkpoints").join("latest.safetensors")
}

/// The checkpoint's bytes and all of progress.csv but the two columns that the machine decides.
pub fn outcome(folder: &Path) -> (Vec<u8>, Vec<Vec<String>>) {
    let mut rows = rows(folder);
    assert_eq!(rows[0][rows[0].len() - 2..], ["steps_per_s", "wall_s"]);
    rows.iter_mut().for_each(|row| row.truncate(row.len() - 2));
    (std::fs::read(checkpoint(folder)).unwrap(), rows)
}

pub fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {text}"))
}

pub fn keys(value: &serde_json::Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}
