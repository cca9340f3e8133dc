//! What a run would take is shown before, and refused where the machine does not have it.

use crate::util::{Home, small, small_of, text};

#[test]
fn a_dry_run_shows_what_would_be_trained_and_leaves_nothing() {
    let home = Home::new();
    let told = home.good(&small("PointGoal", &["--steps", "5000", "--threads", "2", "--dry-run"]));
    // Parameters: 61 * 16 + 17 * 16 + 17 * 2 of the actor, 61 * 16 + 17 * 16 + 17 of a critic.
    for part in [
        "PointGoal by p3o; differs from the base settings in: ",
        "\nfolder      runs/PointGoal-p3o-seed0\n",
        "\ntraining    13 updates of 400 steps in 4 environments: 5,200 steps\n",
        "\nlimits      hazards 25\n",
        "\nnetworks    actor: 60-16-16-2, 1,282 parameters\n",
        "\n            a critic of each of reward, hazards: 60-16-16-1, 1,265 parameters\n",
        "\nmemory      about ",
        "\n            step buffers ",
        " on 2 threads, measured on two small updates\n",
        "\nNothing has been written.\n",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    assert_eq!(home.contents(), []);
}

#[test]
fn a_dry_run_refuses_what_the_run_would() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "2000", "--out", "run"]));
    let line = home.bad(1, &small("PointGoal", &["--out", "run", "--dry-run"]));
    assert!(line.contains("run exists already; name another folder with --out"), "{line}");
}

#[test]
fn a_dry_comparison_speaks_for_all_its_runs() {
    let home = Home::new();
    let args = ["--algos", "p3o,cpo", "--seeds", "2", "--steps", "4000", "--threads", "2", "--dry-run"];
    let told = home.good(&small_of("compare", "PointGoal", &args));
    for part in [
        "runs        4: p3o, cpo with seeds 0 to 1\n",
        "\nfolder      runs/compare-PointGoal\n",
        "\ntraining    10 updates of 400 steps in 4 environments: 4,000 steps\n",
        "that are free, 2 runs at a time\n",
        " with 2 runs at a time, measured on small updates",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    assert_eq!(home.contents(), []);
}

/// What the binary says on stderr where it may have `kilobytes` of address space, and its exit code.
#[cfg(target_os = "linux")]
fn limited(home: &Home, kilobytes: usize, args: &[&str]) -> (Option<i32>, String) {
    let command = home.command(args);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("ulimit -v {kilobytes}; exec \"$0\" \"$@\"")]).arg(command.get_program());
    let output = shell.args(command.get_args()).current_dir(home.path("")).output().unwrap();
    (output.status.code(), text(&output.stderr))
}

#[test]
#[cfg(target_os = "linux")]
fn what_does_not_fit_is_refused_before_any_of_it_is_taken() {
    let home = Home::new();
    let huge = ["--set", "rollout.batch=1e8", "--steps", "1e8"];
    let refused = |args: &[&str], parts: &[&str]| {
        let (code, line) = limited(&home, 4_000_000, args);
        assert_eq!((code, line.lines().count()), (Some(1), 1), "{line}");
        parts.iter().for_each(|part| assert!(line.contains(part), "no {part:?} in {line}"));
    };
    let size =
        [" GB of memory, and ", " are free: 51 GB of it for the step buffers (rollout.batch=100000000 with 60 numbers"];
    refused(&small("PointGoal", &huge), &[&["p3o: this would take about 106"], &size[..]].concat());
    refused(&small("PointGoal", &[&huge[..], &["--dry-run"]].concat()), &size);
    let three = small_of("compare", "PointGoal", &[&huge[..], &["--algos", "p3o", "--threads", "3"]].concat());
    refused(&three, &["p3o: 3 runs at a time would take about 319 GB", " 153 GB of it for the step buffers"]);
    assert_eq!(home.contents(), []);
}

#[test]
#[cfg(target_os = "linux")]
fn what_fits_into_little_is_trained() {
    let home = Home::new();
    let args = small("PointGoal", &["--steps", "2000", "--threads", "1", "--out", "run"]);
    assert_eq!(limited(&home, 1_000_000, &args), (Some(0), String::new()));
}
