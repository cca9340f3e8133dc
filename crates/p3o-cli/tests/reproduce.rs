//! `p3o reproduce` makes every run of the paper's experiments once, survives any kill, and reports what is there.

use crate::util::{Home, contents, outcome, rows, text};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn runs(home: &Home, out: &str) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(home.path(out).join("runs"));
    let mut all: Vec<PathBuf> = folder.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn column(csv: &str, name: &str) -> Vec<String> {
    let at = csv.lines().next().unwrap().split(',').position(|c| c == name).unwrap();
    csv.lines().skip(1).map(|line| line.split(',').nth(at).unwrap().to_string()).collect()
}

#[test]
fn all_of_it_once_and_never_again() {
    let home = Home::new();
    let told = home.good(&["reproduce", "all", "--scale", "smoke", "--seeds", "1"]);
    // Five algorithms on two tasks, three more kappas, two more limits, four, three and three curves.
    for part in ["25 runs in reproduce, 0 of them finished", "an estimate", "done (25 of 25)", "25 of 25 runs are in"] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    assert!(told.contains("253.92 ± 11.67") && told.contains("kappa = 20"), "{told}");
    assert_eq!(runs(&home, "reproduce").len(), 25);
    let page = std::fs::read_to_string(home.path("reproduce/report/index.html")).unwrap();
    // Two tasks of the curves, two studies with a picture more each, and three tasks.
    assert_eq!(page.matches("<svg ").count(), 2 + 4 + 3);
    assert!(page.contains("p3o reproduce all --scale smoke --seeds 1 --report-only"));
    let csv = std::fs::read_to_string(home.path("reproduce/report/runs.csv")).unwrap();
    assert_eq!(column(&csv, "task").iter().filter(|t| *t == "Navigation").count(), 4);
    assert_eq!(column(&csv, "cost_2").iter().filter(|c| *c == "pillars").count(), 4);
    let before = contents(&home.path("reproduce"));
    let again = home.good(&["reproduce", "all", "--scale", "smoke", "--seeds", "1"]);
    assert!(again.contains("25 of them finished") && !again.contains("starting"), "{again}");
    assert!(before == contents(&home.path("reproduce")), "the second call changed something");
}

#[test]
fn killed_at_any_moment_it_goes_on_to_the_same_runs() {
    fn args(out: &str) -> [&str; 8] {
        ["reproduce", "pointgoal", "--scale", "smoke", "--seeds", "2", "--out", out]
    }
    let home = Home::new();
    home.good(&args("straight"));
    // With rows of the first, of the third and of the last run.
    for started in [1, 3, 6] {
        let out = format!("killed{started}");
        let mut child = home.command(&args(&out)).stdout(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while runs(&home, &out).iter().filter(|run| rows(run).len() > 3).count() < started {
            assert!(start.elapsed() < Duration::from_secs(60), "no run {started} within a minute");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let told = home.good(&args(&out));
        assert!(told.contains("6 of 6 runs are in"), "{told}");
        let all = |out: &str| -> Vec<_> { runs(&home, out).iter().map(|run| outcome(run)).collect() };
        assert!(all("straight") == all(&out), "killed with {started} runs under way");
    }
}

#[test]
fn a_report_of_what_is_finished_trains_nothing() {
    let home = Home::new();
    let report = ["reproduce", "pointgoal", "--scale", "smoke", "--seeds", "2", "--report-only"];
    assert!(home.good(&report).contains("0 of 6 runs are in"));
    home.good(&["reproduce", "pointgoal", "--scale", "smoke", "--seeds", "1"]);
    assert!(home.good(&report).contains("3 of 6 runs are in"));
    let page = std::fs::read_to_string(home.path("reproduce/report/index.html")).unwrap();
    assert!(page.contains("3 of 6 runs are finished. The rest is still to come"));
    // A report on something else keeps what is there.
    home.good(&["reproduce", "spread", "--scale", "smoke", "--seeds", "2", "--report-only"]);
    let page = std::fs::read_to_string(home.path("reproduce/report/index.html")).unwrap();
    assert!(page.contains("Figure 7") && page.contains("p3o reproduce spread pointgoal --scale smoke --seeds 2"));
    assert_eq!(runs(&home, "reproduce").len(), 3);
    // A run that cannot be read is left out and named; the others still make a report.
    std::fs::write(runs(&home, "reproduce")[0].join("config.toml"), "task = 3").unwrap();
    let told = home.good(&report);
    assert!(told.contains("2 of 6 runs are in") && told.contains("Left out: "), "{told}");
}

#[test]
fn a_run_is_one_of_train() {
    let home = Home::new();
    home.good(&["reproduce", "spread", "--scale", "smoke", "--seeds", "1"]);
    let config: &Path = &runs(&home, "reproduce")[0].join("config.toml");
    home.good(&["train", "--config", &config.display().to_string(), "--out", "alone"]);
    assert!(outcome(&home.path("alone")) == outcome(&runs(&home, "reproduce")[0]));
}

#[test]
fn wrong_usage_is_refused_before_anything_is_made() {
    let home = Home::new();
    assert!(home.bad(2, &["reproduce", "tabel1"]).contains("did you mean `table1`"));
    assert!(home.bad(2, &["reproduce", "all", "--scale", "huge"]).contains("smoke"));
    assert!(home.bad(2, &["reproduce", "all", "--seeds", "0"]).contains("--seeds"));
    assert!(text(&home.p3o(&["reproduce"]).stderr).contains("<EXPERIMENTS>"));
    assert_eq!(home.contents(), []);
}
