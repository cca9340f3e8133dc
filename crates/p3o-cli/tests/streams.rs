//! Standard error and standard output may be closed or full: the work, what is saved and the exit code stay right.

#![cfg(target_os = "linux")]

use crate::util::{Home, checkpoint, outcome, rows, small, text};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Ways to lose standard error, as a shell writes them.
const LOST: [&str; 3] = ["2>&-", "2>/dev/full", "2> >(exec true)"];

/// A command with its streams redirected by a shell, which it replaces.
fn redirected(home: &Home, args: &[&str], streams: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("exec \"$0\" \"$@\" {streams}"), env!("CARGO_BIN_EXE_p3o")]).args(args);
    command.current_dir(home.path("")).stdin(Stdio::null());
    command
}

fn status(home: &Home, args: &[&str], streams: &str) -> ExitStatus {
    redirected(home, args, streams).output().unwrap().status
}

#[test]
fn a_lost_standard_error_changes_no_exit_code() {
    let home = Home::new();
    for streams in LOST {
        for (args, code) in [
            (&["list"][..], 0),
            (&["train", "PointGaol"], 2),
            (&["train", "--nonsense"], 2),
            (&["evaluate", "nowhere"], 1),
            (&["--help"], 0),
            (&[], 2),
        ] {
            assert_eq!(status(&home, args, streams).code(), Some(code), "{args:?} {streams}");
        }
    }
    assert_eq!(home.contents(), []);
}

#[test]
fn an_interrupt_without_standard_error_saves() {
    let home = Home::new();
    let settings =
        ["--set", "rollout.batch=2000", "--set", "critic.passes=40", "--set", "run.checkpoint_every=1000000"];
    for (i, streams) in LOST.iter().enumerate() {
        let out = format!("run{i}");
        let more = [&settings[..], &["--steps", "1e9", "--out", &out]].concat();
        let mut child = redirected(&home, &small("PointGoal", &more), streams).stdout(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while rows(&home.path(&out)).len() < 3 {
            assert!(start.elapsed() < Duration::from_secs(60), "no second update within a minute");
            std::thread::sleep(Duration::from_millis(2));
        }
        let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(interrupt.success());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{streams}");
        // The only other checkpoint is that of update 0.
        let saved = rows(&home.path(&out)).len() - 1;
        let steps = (2000 * saved).to_string();
        assert!(checkpoint(&home.path(&out)).exists(), "{streams}");
        let told = home.bad(1, &["resume", &out, "--steps", "2000"]);
        assert!(told.contains(&format!("has made {steps} steps already")), "{told}");
    }
}

/// The one update of this run takes minutes, so that only the second interrupt can end it soon.
#[test]
fn a_second_interrupt_is_heard_without_standard_error() {
    let home = Home::new();
    let settings = ["--set", "rollout.batch=400000", "--set", "policy.passes=100000", "--set", "policy.target_kl=1e9"];
    for (i, streams) in LOST.iter().enumerate() {
        let out = format!("run{i}");
        let more = [&settings[..], &["--steps", "400000", "--out", &out]].concat();
        let mut child = redirected(&home, &small("PointGoal", &more), streams).stdout(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while !home.path(&out).join("progress.csv").exists() {
            assert!(start.elapsed() < Duration::from_secs(60), "no run within a minute");
            std::thread::sleep(Duration::from_millis(2));
        }
        let ended = loop {
            Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
            if let Some(ended) = child.try_wait().unwrap() {
                break ended;
            }
        };
        assert_eq!((ended.code(), rows(&home.path(&out)).len()), (Some(130), 1), "{streams}");
    }
}

#[test]
fn a_run_with_both_streams_lost_is_the_same_run() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "800", "--out", "straight"]));
    let args = small("PointGoal", &["--steps", "800", "--out", "lost"]);
    assert_eq!(status(&home, &args, ">&- 2>&-").code(), Some(0));
    assert!(outcome(&home.path("lost")) == outcome(&home.path("straight")));
}

#[test]
fn help_that_cannot_be_printed_is_a_failure_unless_its_reader_has_gone() {
    let home = Home::new();
    for args in [&["--help"][..], &["--version"], &["train", "--help"], &["help", "train"]] {
        let output = redirected(&home, args, ">/dev/full").output().unwrap();
        let line = text(&output.stderr);
        assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{args:?}: {line}");
        assert!(line.starts_with("p3o: cannot write to standard output"), "{line}");
        for streams in ["> >(exec true)", ">&-"] {
            assert_eq!(status(&home, args, streams).code(), Some(0), "{args:?} {streams}");
        }
    }
}
