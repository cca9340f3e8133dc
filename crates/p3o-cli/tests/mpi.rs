//! One run over several processes of a real MPI: the bytes of one process, and an end in seconds when one of them is lost.
//!
//! `cargo test --release -p p3o-cli --features mpi --test mpi` needs mpirun (Open MPI). More ranks than cores are fine.

#![cfg(all(feature = "mpi", target_os = "linux"))]

#[allow(dead_code)]
mod util;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use util::{Home, checkpoint, outcome, small, text};

/// One test at a time: they have more processes than there are cores, and some measure time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The launcher, which does not mind few cores, nor a container's only user.
fn mpirun(home: &Home, ranks: usize, args: &[&str]) -> Command {
    launch(home, ranks, &[&[env!("CARGO_BIN_EXE_p3o")], args].concat())
}

fn launch(home: &Home, ranks: usize, program: &[&str]) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "-n", &ranks.to_string()]).args(program);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.current_dir(home.path("")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(home: &Home, ranks: usize, args: &[&str]) -> Output {
    mpirun(home, ranks, args).output().expect("mpirun starts (Debian: openmpi-bin)")
}

fn good(home: &Home, ranks: usize, args: &[&str]) -> String {
    let output = run(home, ranks, args);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{ranks} ranks: {args:?}");
    text(&output.stdout)
}

/// What the program itself says on standard error; the launcher says more.
fn lines(output: &Output) -> Vec<String> {
    text(&output.stderr).lines().filter(|line| line.starts_with("p3o:")).map(String::from).collect()
}

/// A command that all processes refuse with one line of the first.
fn bad(home: &Home, ranks: usize, code: i32, args: &[&str]) -> String {
    let output = run(home, ranks, args);
    let lines = lines(&output);
    assert_eq!((output.status.code(), lines.len()), (Some(code), 1), "{args:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "", "{args:?}");
    lines[0].clone()
}

#[test]
fn two_and_four_processes_come_to_the_bytes_of_one() {
    let _turn = alone();
    let kinds: [(&str, &[&str]); 5] = [
        ("PointGoal", &[]),
        ("PointGoal", &["--set", "policy.minibatch=96", "--set", "critic.minibatch=64"]),
        ("PointGoal", &["--algo", "cpo"]),
        ("PointGoal", &["--set", "net.gru=8"]),
        ("SimpleSpread", &["--algo", "map3o-dec", "--set", "policy.minibatch=50"]),
    ];
    for (i, (task, more)) in kinds.iter().enumerate() {
        let home = Home::new();
        let train =
            |out: &'static str| small(task, &[more, &["--steps", "1600", "--threads", "1", "--out", out][..]].concat());
        home.good(&train("one"));
        let told = good(&home, 2, &train("two"));
        assert!(told.contains("2 processes share the work, each on 1 threads."), "{told}");
        assert_eq!(told.matches("update 4/4").count(), 1, "one process alone speaks: {told}");
        assert!(outcome(&home.path("two")) == outcome(&home.path("one")), "kind {i}: two differ from one");
        good(&home, 4, &train("four"));
        assert!(outcome(&home.path("four")) == outcome(&home.path("one")), "kind {i}: four differ from one");
        let sitting = std::fs::read_to_string(home.path("four/provenance.toml")).unwrap();
        assert!(sitting.contains("ranks = 4"), "{sitting}");
    }
}

#[test]
fn a_run_goes_on_with_another_number_of_processes() {
    let _turn = alone();
    let home = Home::new();
    let train = |steps, out| small("PointGoal", &["--steps", steps, "--out", out, "--set", "critic.minibatch=64"]);
    home.good(&train("1600", "straight"));
    good(&home, 4, &train("800", "fewer"));
    home.good(&["resume", "fewer", "--steps", "1600"]);
    assert!(outcome(&home.path("fewer")) == outcome(&home.path("straight")));
    home.good(&train("800", "more"));
    good(&home, 3, &["resume", "more", "--steps", "1600"]);
    assert!(outcome(&home.path("more")) == outcome(&home.path("straight")));
}

/// Updates of some hundredths of a second: the launcher stops reading what its processes print when it is asked to stop, and one that
/// prints much would wait for that.
const SLOW: [&str; 2] = ["--set", "rollout.batch=8000"];

/// A run that would go on for hours.
fn endless(home: &Home, ranks: usize) -> (Child, PathBuf) {
    let folder = home.path("endless");
    let args = ["--steps", "1e9", "--threads", "1", "--out", folder.to_str().unwrap()];
    let args = [&args[..], &SLOW].concat();
    let child = mpirun(home, ranks, &small("PointGoal", &args)).spawn().expect("mpirun starts");
    let start = Instant::now();
    while std::fs::read_to_string(folder.join("progress.csv")).map_or(0, |rows| rows.lines().count()) < 8 {
        assert!(start.elapsed() < Duration::from_secs(60), "it trains");
        std::thread::sleep(Duration::from_millis(20));
    }
    (child, folder)
}

/// The process with this number of the run in a folder.
fn process(rank: usize, folder: &Path) -> String {
    let is = |pid: &PathBuf| {
        let read = |name: &str| std::fs::read(pid.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).to_string());
        let (Ok(line), Ok(variables)) = (read("cmdline"), read("environ")) else { return false };
        let own = format!("OMPI_COMM_WORLD_RANK={rank}");
        line.contains(folder.to_str().unwrap()) && variables.split('\0').any(|variable| variable == own)
    };
    let all = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let found = all.into_iter().find(is).expect("the process is there");
    found.file_name().unwrap().to_str().unwrap().to_string()
}

fn signal(name: &str, pid: &str) {
    assert!(Command::new("kill").args([name, pid]).status().unwrap().success());
}

/// What is left can go on, to the bytes of a run that nobody disturbed.
fn goes_on(home: &Home, folder: &Path) {
    let updates = p3o::run::last_checkpoint(folder).expect("the checkpoint is whole");
    let steps = (8000 * (updates + 2)).to_string();
    home.good(&["resume", folder.to_str().unwrap(), "--steps", &steps]);
    home.good(&small("PointGoal", &[&["--steps", &steps, "--out", "straight"][..], &SLOW].concat()));
    assert!(outcome(folder) == outcome(&home.path("straight")));
}

#[test]
fn a_process_that_is_killed_ends_the_others_within_seconds() {
    let _turn = alone();
    for dies in [0, 1, 2] {
        let home = Home::new();
        let (child, folder) = endless(&home, 3);
        let start = Instant::now();
        signal("-KILL", &process(dies, &folder));
        let output = child.wait_with_output().unwrap();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert!(!output.status.success());
        let lines = lines(&output);
        let [line] = &lines[..] else { panic!("not one line: {}", text(&output.stderr)) };
        let why = "p3o: another process of this run has died or does not answer: the last checkpoint is ";
        assert!(line.starts_with(why), "{line}");
        assert!(dies == 0 || line.contains("go on with p3o resume"), "{line}");
        goes_on(&home, &folder);
    }
}

#[test]
fn a_process_that_hangs_ends_the_others_when_they_have_no_more_patience() {
    let _turn = alone();
    let home = Home::new();
    let folder = home.path("endless");
    home.good(&small("PointGoal", &[&["--steps", "16000", "--out", folder.to_str().unwrap()][..], &SLOW].concat()));
    let resume = ["resume", folder.to_str().unwrap(), "--steps", "1e9", "--patience", "2", "--threads", "1"];
    let child = mpirun(&home, 3, &resume).spawn().unwrap();
    while std::fs::read_to_string(folder.join("progress.csv")).unwrap().lines().count() < 8 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (start, hangs) = (Instant::now(), process(2, &folder));
    signal("-STOP", &hangs);
    let output = child.wait_with_output().unwrap();
    assert!((1.5..15.0).contains(&start.elapsed().as_secs_f64()), "{:?}", start.elapsed());
    let lines = lines(&output);
    let [line] = &lines[..] else { panic!("not one line: {}", text(&output.stderr)) };
    assert!(
        line.starts_with("p3o: another process of this run has not answered for 2 s: the last checkpoint is "),
        "{line}"
    );
    goes_on(&home, &folder);
}

#[test]
fn asked_to_stop_all_processes_save_and_end() {
    let _turn = alone();
    for name in ["-TERM", "-INT"] {
        let home = Home::new();
        let (child, folder) = endless(&home, 3);
        signal(name, &child.id().to_string());
        let output = child.wait_with_output().unwrap();
        let (told, complained) = (text(&output.stdout), text(&output.stderr));
        assert!(told.contains("Saved after "), "{name}: {told}{complained}");
        goes_on(&home, &folder);
    }
}

#[test]
fn a_full_disk_of_the_first_process_ends_all_with_its_line() {
    let _turn = alone();
    let home = Home::new();
    home.good(&small("PointGoal", &[&["--steps", "16000", "--out", "run"][..], &SLOW].concat()));
    let before = std::fs::read(checkpoint(&home.path("run"))).unwrap();
    let scratch = home.path("run").join("checkpoints/.latest.safetensors.scratch");
    // The first checkpoint after the start is the one that cannot be written.
    let resume = ["resume", "run", "--threads", "1"];
    assert!(good(&home, 3, &resume).contains("all of its 16,000 steps are made already"));
    std::os::unix::fs::symlink("/dev/full", &scratch).unwrap();
    let line = bad_after_updates(&home, &["resume", "run", "--steps", "80000", "--threads", "1"]);
    assert!(line.contains("latest.safetensors: no space left on device"), "{line}");
    assert!(std::fs::read(checkpoint(&home.path("run"))).unwrap() == before);
    goes_on(&home, &home.path("run"));
}

fn bad_after_updates(home: &Home, args: &[&str]) -> String {
    let output = run(home, 3, args);
    let lines = lines(&output);
    assert_eq!((output.status.code(), lines.len()), (Some(1), 1), "{}", text(&output.stderr));
    lines[0].clone()
}

#[test]
fn what_would_be_trained_is_shown_once() {
    let _turn = alone();
    let told = good(&Home::new(), 2, &["train", "PointGoal", "--dry-run", "--threads", "1"]);
    assert_eq!(
        (told.matches("networks    actor").count(), told.matches("Nothing has been written.").count()),
        (1, 1),
        "{told}"
    );
}

/// The launcher kills all as soon as one has failed: the others must not fail before the first has spoken.
#[test]
fn a_first_process_that_is_late_says_why_all_the_same() {
    let _turn = alone();
    let home = Home::new();
    let late = "[ \"$OMPI_COMM_WORLD_RANK\" = 0 ] && sleep 0.5; exec \"$0\" \"$@\"";
    for (args, code) in [(&["list"][..], 2), (&["train", "PointGoal", "--stepz", "1"], 2), (&["resume", "nowhere"], 1)]
    {
        let program = [&["sh", "-c", late, env!("CARGO_BIN_EXE_p3o")], args].concat();
        let output = launch(&home, 3, &program).output().expect("mpirun starts");
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), lines(&output).len()), (Some(code), 1), "{args:?}: {said}");
    }
}

#[test]
fn what_several_processes_cannot_do_is_refused_once() {
    let _turn = alone();
    let home = Home::new();
    let line = bad(&home, 5, 1, &small("PointGoal", &["--out", "run"]));
    assert!(line.contains("5 processes cannot share the 4 worlds of rollout.envs"), "{line}");
    let line = bad(&home, 2, 2, &["train", "PointGoul"]);
    assert!(line.contains("did you mean `PointGoal`?"), "{line}");
    let line = bad(&home, 2, 2, &["train", "PointGoal", "--stepz", "1"]);
    assert!(line.contains("--stepz"), "{line}");
    let line = bad(&home, 2, 1, &["resume", "nowhere"]);
    assert!(line.contains("there is no run at nowhere"), "{line}");
    let line = bad(&home, 2, 2, &["list"]);
    assert!(line.contains("the launcher started 2 processes, and this command is for one"), "{line}");
    let line = bad(&home, 2, 2, &["compare", "PointGoal"]);
    assert!(line.contains("give each a --shard K/N"), "{line}");
    let line = bad(&home, 2, 1, &["train", "PointGoal", "--device", "cuda"]);
    assert!(line.contains("--device cuda: "), "{line}");
    assert!(std::fs::read_dir(home.path("")).unwrap().next().is_none(), "nothing was written");
}
