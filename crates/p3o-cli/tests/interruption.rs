//! However a run is stopped, resuming it gives the run that was never stopped.

#![cfg(unix)]

use crate::util::{Home, outcome, rows, small, text};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Updates of some 50 ms, so that there is time to stop between them; a checkpoint every third.
const SLOW: [&str; 12] = [
    "--set",
    "rollout.batch=2000",
    "--set",
    "net.hidden=[64,64]",
    "--set",
    "critic.passes=40",
    "--set",
    "run.checkpoint_every=3",
    "--steps",
    "50000",
    "--seed",
    "5",
];

fn train(home: &Home, out: &str, threads: &str) {
    home.good(&small("PointGoal", &[&SLOW[..], &["--out", out, "--threads", threads]].concat()));
}

/// Starts the same run and waits until the row of the fifth update is there.
fn under_way(home: &Home, out: &str, threads: &str) -> Child {
    let args = small("PointGoal", &[&SLOW[..], &["--out", out, "--threads", threads]].concat());
    let child = home.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while rows(&home.path(out)).len() < 6 {
        assert!(start.elapsed() < Duration::from_secs(60), "no fifth update within a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

fn unfinished(folder: &Path) {
    let updates = rows(folder).len() - 1;
    assert!((5..25).contains(&updates), "stopped after {updates} of 25 updates");
    assert!(!folder.join("summary.json").exists(), "it had finished");
}

#[test]
fn a_killed_run_resumes_to_the_run_that_was_not_killed() {
    let home = Home::new();
    train(&home, "straight", "1");
    let expected = outcome(&home.path("straight"));
    for (out, threads, later) in [("one", "1", "2"), ("two", "2", "1")] {
        let mut child = under_way(&home, out, threads);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "killed, not ended");
        unfinished(&home.path(out));
        let told = home.good(&["resume", out, "--threads", later]);
        assert!(told.contains("update 25/25") && !told.contains("update 1/25"), "{told}");
        assert!(outcome(&home.path(out)) == expected, "killed on {threads}, resumed on {later}");
    }
}

#[test]
fn an_interrupted_run_is_saved_and_says_how_to_go_on() {
    let home = Home::new();
    train(&home, "straight", "2");
    let expected = outcome(&home.path("straight"));
    for (signal, out) in [("-INT", "it's mine"), ("-TERM", "other")] {
        let child = under_way(&home, out, "2");
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let told = text(&output.stdout);
        assert_eq!(output.status.code(), Some(130), "{told}");
        assert!(text(&output.stderr).contains("finishing this update, then saving"));
        let updates = rows(&home.path(out)).len() - 1;
        assert!((5..25).contains(&updates), "stopped after {updates} of 25 updates");
        // The command is printed so that a shell takes it as it stands.
        let last = told.lines().last().unwrap();
        let command = last.split("Go on with:  p3o ").nth(1).unwrap_or_else(|| panic!("no command in {last:?}"));
        let script = format!("'{}' {command}", env!("CARGO_BIN_EXE_p3o"));
        let shell = Command::new("sh").args(["-c", &script]).current_dir(home.path("")).output().unwrap();
        assert_eq!((shell.status.code(), text(&shell.stderr).as_str()), (Some(0), ""));
        let (said, first) = (text(&shell.stdout), format!("update {}/25", updates + 1));
        let mut lines = said.lines();
        assert!(lines.next().is_some_and(|line| line.contains(": going on at step ")), "{said}");
        assert!(
            lines.next().is_some_and(|line| line.starts_with(&first)),
            "it went on from the interrupted update: {said}"
        );
        assert!(outcome(&home.path(out)) == expected, "after {signal}");
    }
}

#[test]
fn a_run_that_is_being_trained_cannot_be_resumed() {
    let home = Home::new();
    let mut child = under_way(&home, "run", "1");
    let line = home.bad(1, &["resume", "run"]);
    assert!(line.contains("in use by another process"), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
    // The kill has released it.
    home.good(&["resume", "run", "--steps", "12000"]);
}
