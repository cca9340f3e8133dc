//! `p3o reproduce` makes every run of the paper's experiments once, survives any kill, and reports what is there.

use crate::util::{Home, contents, json, outcome, rows, text};
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
    // Ten rows on two tasks, four more kappas, two more limits of four, five, five and four curves, five and four rivals more.
    for part in ["55 runs in reproduce, 0 of them finished", "an estimate", "done (55 of 55)", "55 of 55 runs are in"] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    assert!(told.contains("253.92 ± 11.67") && told.contains("kappa = 20"), "{told}");
    assert_eq!(runs(&home, "reproduce").len(), 55);
    let page = std::fs::read_to_string(home.path("reproduce/report/index.html")).unwrap();
    // Two tasks of the curves, two studies with a picture more each, three tasks, and two with all rivals.
    assert_eq!(page.matches("<svg ").count(), 2 + 4 + 3 + 2);
    assert!(page.contains("p3o reproduce all --scale smoke --seeds 1 --report-only"));
    let csv = std::fs::read_to_string(home.path("reproduce/report/runs.csv")).unwrap();
    assert_eq!(column(&csv, "task").iter().filter(|t| *t == "Navigation").count(), 9);
    assert_eq!(column(&csv, "cost_2").iter().filter(|c| *c == "pillars").count(), 9);
    assert!(column(&csv, "seed").iter().all(|seed| seed == "100"));
    let before = contents(&home.path("reproduce"));
    let again = home.good(&["reproduce", "all", "--scale", "smoke", "--seeds", "1"]);
    assert!(again.contains("55 of them finished") && !again.contains("starting"), "{again}");
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
    for started in [1, 3, 8] {
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
        assert!(told.contains("8 of 8 runs are in"), "{told}");
        let all = |out: &str| -> Vec<_> { runs(&home, out).iter().map(|run| outcome(run)).collect() };
        assert!(all("straight") == all(&out), "killed with {started} runs under way");
    }
}

#[test]
fn a_report_of_what_is_finished_trains_nothing() {
    let home = Home::new();
    let report = ["reproduce", "pointgoal", "--scale", "smoke", "--seeds", "2", "--report-only"];
    assert!(home.good(&report).contains("0 of 8 runs are in"));
    home.good(&["reproduce", "pointgoal", "--scale", "smoke", "--seeds", "1"]);
    assert!(home.good(&report).contains("4 of 8 runs are in"));
    let page = std::fs::read_to_string(home.path("reproduce/report/index.html")).unwrap();
    assert!(page.contains("4 of 8 runs are finished. The rest is still to come"));
    // A report on something else keeps what is there.
    home.good(&["reproduce", "spread", "--scale", "smoke", "--seeds", "2", "--report-only"]);
    let page = std::fs::read_to_string(home.path("reproduce/report/index.html")).unwrap();
    assert!(page.contains("Figure 7") && page.contains("p3o reproduce spread pointgoal --scale smoke --seeds 2"));
    assert_eq!(runs(&home, "reproduce").len(), 4);
    // A run that cannot be read is left out and named; the others still make a report.
    std::fs::write(runs(&home, "reproduce")[0].join("config.toml"), "task = 3").unwrap();
    let told = home.good(&report);
    assert!(told.contains("3 of 8 runs are in") && told.contains("Left out: "), "{told}");
}

#[test]
fn trials_are_runs_of_other_seeds_with_a_table() {
    let home = Home::new();
    let told = home.good(&["reproduce", "trials", "--scale", "smoke", "--seeds", "1"]);
    assert!(told.contains("trials at scale smoke") && told.contains("In reproduce/report: trials.csv"), "{told}");
    let table = std::fs::read_to_string(home.path("reproduce/report/trials.csv")).unwrap();
    assert!(column(&table, "seed").iter().all(|seed| seed == "1000"), "{table}");
    let algorithms: std::collections::BTreeSet<String> = column(&table, "algo").into_iter().collect();
    assert_eq!(algorithms.len(), 10, "{algorithms:?}");
    // Finished, they are read and not made again.
    let again = home.good(&["reproduce", "trials", "--scale", "smoke", "--seeds", "1"]);
    assert!(!again.contains("starting"), "{again}");
    assert_eq!(std::fs::read_to_string(home.path("reproduce/report/trials.csv")).unwrap(), table);
}

#[test]
fn one_task_of_an_experiment_can_be_trained_first() {
    let home = Home::new();
    let told = home.good(&["reproduce", "table1", "--scale", "smoke", "--seeds", "1", "--only", "PointGather"]);
    assert!(
        told.contains("10 runs in reproduce, 0 of them finished") && told.contains("10 of 20 runs are in"),
        "{told}"
    );
    assert!(runs(&home, "reproduce").iter().all(|run| run.to_string_lossy().contains("/PointGather-")));
}

#[test]
fn one_row_of_the_benchmark_can_be_trained_first() {
    let home = Home::new();
    let smoke = ["benchmark", "HopperVelocity", "--scale", "smoke", "--seeds", "1"];
    let told = home.good(&[&smoke[..], &["--row", "CPO", "--row", "P3O"]].concat());
    assert!(told.contains(" 2 runs in benchmark, 0 of them finished"), "{told}");
    let made: Vec<String> = runs(&home, "benchmark").iter().map(|run| run.display().to_string()).collect();
    let is_of = |algo: &str| made.iter().filter(|run| run.contains(&format!("/HopperVelocity-{algo}-smoke-"))).count();
    assert_eq!((made.len(), is_of("cpo"), is_of("p3o")), (2, 1, 1), "{made:?}");
}

#[test]
fn the_benchmark_plays_last_policies_with_their_likeliest_actions() {
    let home = Home::new();
    let smoke = ["benchmark", "HopperVelocity", "--scale", "smoke", "--seeds", "1", "--row", "P3O"];
    home.good(&smoke);
    let run = runs(&home, "benchmark")[0].display().to_string();
    let written = || std::fs::read_to_string(home.path(&run).join("likeliest.json")).unwrap();
    let played = json(&written());
    let evaluated = json(&home.good(&["evaluate", &run, "--episodes", "50", "--deterministic", "--json"]));
    assert_eq!(played["return"], evaluated["return"]["mean"]);
    assert_eq!(played["costs"]["velocity"], evaluated["costs"]["velocity"]["mean"]);
    assert_eq!(played["checkpoint"], evaluated["checkpoint"]);
    let table = std::fs::read_to_string(home.path("benchmark/report/runs.csv")).unwrap();
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (head, figures) = (lines.next().unwrap(), lines.next().unwrap());
    let of = |column: &str| figures[head.iter().position(|name| *name == column).unwrap()].to_string();
    assert_eq!(of("likeliest_return"), played["return"].to_string());
    // It is played once, and again when what was written is of another policy.
    let (before, first) = (written(), played["return"].to_string());
    home.good(&smoke);
    assert_eq!(written(), before);
    for broken in [before.replace(&first, "7.0").replace("\"trained_steps\": ", "\"trained_steps\": 1"), "{".into()] {
        std::fs::write(home.path(&run).join("likeliest.json"), broken).unwrap();
        home.good(&[&smoke[..], &["--report-only"]].concat());
        assert_eq!(written(), before);
    }
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
    assert!(home.bad(2, &["reproduce", "all", "--seeds", "901"]).contains("--seeds"));
    assert!(home.bad(2, &["reproduce", "table1", "--only", "PointGaol"]).contains("did you mean `PointG"));
    assert!(home.bad(2, &["reproduce", "trials", "table1"]).contains("run alone"));
    assert!(home.bad(2, &["benchmark", "--row", "CPU"]).contains("did you mean `CPO`"));
    assert!(home.bad(2, &["reproduce", "trials", "--row", "CPO"]).contains("choose the settings of rows"));
    assert!(text(&home.p3o(&["reproduce"]).stderr).contains("<EXPERIMENTS>"));
    assert_eq!(home.contents(), []);
}
