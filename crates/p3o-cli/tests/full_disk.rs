//! A full disk ends a run in one clear line and costs nothing that was saved.

#![cfg(target_os = "linux")]

use crate::util::{Home, checkpoint, outcome, small, text};
use std::process::Command;

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_last_one() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "1600", "--out", "straight"]));
    home.good(&small("PointGoal", &["--steps", "800", "--out", "run"]));
    let (run, before) = (home.path("run"), outcome(&home.path("run")));
    // The scratch file of the next checkpoint leads to a device that is always full.
    std::os::unix::fs::symlink("/dev/full", run.join("checkpoints/.latest.safetensors.scratch")).unwrap();
    let output = home.p3o(&["resume", "run", "--steps", "1600"]);
    let line = text(&output.stderr);
    assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert!(line.contains("latest.safetensors: no space left on device"), "{line}");
    assert!(std::fs::read(checkpoint(&run)).unwrap() == before.0, "the last checkpoint changed");
    // With room again the run goes on from it; the new goal was not taken.
    let told = home.good(&["resume", "run"]);
    assert!(told.contains("all of its 800 steps are made already"), "{told}");
    home.good(&["resume", "run", "--steps", "1600"]);
    assert!(outcome(&run) == outcome(&home.path("straight")));
}

/// Exit code of the script below where the system does not let it mount.
const NOT_PERMITTED: i32 = 77;

/// A file system of its own, filled to the brim between two sittings of a run.
const SCRIPT: &str = r#"
mount -t tmpfs -o size=2m tmpfs disk 2>/dev/null || exit 77
"$P3O" "$@" --steps 800 --out disk/run >/dev/null || exit 70
cp disk/run/checkpoints/latest.safetensors before
dd if=/dev/zero of=disk/filler bs=1k >/dev/null 2>&1
"$P3O" resume disk/run --steps 40000 >/dev/null 2>told
echo $? >code
cp disk/run/checkpoints/latest.safetensors after
rm disk/filler
"$P3O" resume disk/run --steps 1600 >/dev/null || exit 71
cp -r disk/run run
"#;

#[test]
fn a_full_file_system_ends_a_run_in_one_line() {
    let home = Home::new();
    std::fs::create_dir(home.path("disk")).unwrap();
    home.good(&small("PointGoal", &["--steps", "1600", "--out", "straight"]));
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", SCRIPT, "sh"]).args(small("PointGoal", &[]));
    command.env("P3O", env!("CARGO_BIN_EXE_p3o")).current_dir(home.path(""));
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) if output.status.code() == Some(NOT_PERMITTED) || text(&output.stderr).starts_with("unshare:") => {
            eprintln!("skipped: mounting is not permitted here");
            return;
        }
        Ok(output) => panic!("{:?}: {}", output.status, text(&output.stderr)),
        Err(_) => {
            eprintln!("skipped: there is no unshare here");
            return;
        }
    }
    let read = |name: &str| std::fs::read(home.path(name)).unwrap();
    let told = text(&read("told"));
    assert_eq!((text(&read("code")).trim(), told.lines().count()), ("1", 1), "{told}");
    assert!(told.starts_with("p3o: ") && told.contains("no space left on device"), "{told}");
    assert!(read("before") == read("after"), "the last checkpoint changed");
    // With room again the run goes on as if nothing had been.
    assert!(outcome(&home.path("run")) == outcome(&home.path("straight")));
}

/// A limit on the size of files ends a run like a full disk: the system would rather kill the program.
#[test]
fn a_limit_on_file_sizes_ends_a_run_in_one_line() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "1600", "--out", "straight"]));
    home.good(&small("PointGoal", &["--steps", "800", "--out", "run"]));
    let run = home.path("run");
    let before = std::fs::read(checkpoint(&run)).unwrap();
    // In blocks of 1024 bytes: nothing at all, and enough for every file but the checkpoint.
    for (blocks, file) in [(0, "run/tensorboard/"), (before.len() / 1024, "latest.safetensors")] {
        let script = format!("ulimit -f {blocks}; exec '{}' resume run --steps 1600", env!("CARGO_BIN_EXE_p3o"));
        let output = Command::new("bash").args(["-c", &script]).current_dir(home.path("")).output().unwrap();
        let line = text(&output.stderr);
        assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{:?} {line}", output.status);
        assert!(line.starts_with("p3o: cannot write ") && line.contains(file), "{line}");
        assert!(line.ends_with(": file too large (see ulimit -f)\n"), "{line}");
        assert!(std::fs::read(checkpoint(&run)).unwrap() == before, "the last checkpoint changed");
    }
    home.good(&["resume", "run", "--steps", "1600"]);
    assert!(outcome(&run) == outcome(&home.path("straight")));
}

#[test]
fn results_that_cannot_be_printed_are_a_failure() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "400", "--out", "run"]));
    for args in [&["evaluate", "run", "--episodes", "1", "--json"][..], &["list"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = home.command(args).stdout(full).output().unwrap();
        let line = text(&output.stderr);
        assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{args:?}: {line}");
        assert!(line.starts_with("p3o: cannot write to standard output"), "{line}");
    }
}
