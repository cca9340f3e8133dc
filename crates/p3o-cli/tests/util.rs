//! Running the binary, and what a run leaves behind.

use p3o::{Algorithm, Config, Method};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Every number a test depends on, so that no preset decides its outcome: a run of a few milliseconds. The library's tests have
/// the same list.
const SMALL: &str = include_str!("../../p3o/tests/small_settings.txt");
/// Where these tests differ.
const OWN: [&str; 2] = ["rollout.normalize_obs=true", "critic.normalize=true"];

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

/// Any command that trains, with small settings and more arguments. How long a run is and its seed stay open.
pub fn small_of<'a>(command: &'a str, task: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let algo = more.iter().position(|arg| *arg == "--algo").map_or("p3o", |at| more[at + 1]);
    let method = Method::named(algo).unwrap_or(Algorithm::P3o.into());
    let mut config = Config::base(task, method);
    let has = |setting: &&str| config.set(setting).is_ok();
    let settings = SMALL.lines().filter(|s| !s.starts_with("run.seed") && !s.starts_with("run.steps"));
    // A BPTT length is refused where nothing is recurrent.
    let recurrent = more.iter().any(|arg| arg.starts_with("net.gru="));
    let settings = settings.filter(|s| recurrent || !s.starts_with("net.bptt="));
    let settings: Vec<&str> = settings.chain(OWN).filter(has).collect();
    let settings = settings.into_iter().flat_map(|s| ["--set", s]);
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

/// The checkpoint's bytes and all of progress.csv but the columns that the machine decides.
pub fn outcome(folder: &Path) -> (Vec<u8>, Vec<Vec<String>>) {
    let mut rows = rows(folder);
    assert_eq!(rows[0][rows[0].len() - 3..], ["steps_per_s", "wall_s", "check"]);
    rows.iter_mut().for_each(|row| row.truncate(row.len() - 3));
    (std::fs::read(checkpoint(folder)).unwrap(), rows)
}

pub fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {text}"))
}

pub fn keys(value: &serde_json::Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}
