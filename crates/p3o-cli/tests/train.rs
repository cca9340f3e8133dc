//! `p3o train` leaves a complete folder behind and says what happened.

use crate::util::{Home, checkpoint, contents, json, keys, outcome, rows, small};

/// Two updates of 500 steps in four environments: the first episodes of 1000 steps end with the second.
const TWO_UPDATES: [&str; 6] = ["--set", "rollout.batch=2000", "--steps", "4e3", "--seed", "3"];

#[test]
fn a_run_is_a_folder_with_everything_in_it() {
    let home = Home::new();
    let told = home.good(&small("PointGoal", &[&TWO_UPDATES[..], &["--out", "run", "--threads", "1"]].concat()));
    let run = home.path("run");
    let mut names: Vec<String> = contents(&run)
        .iter()
        .map(|(path, _)| path.strip_prefix(&run).unwrap().to_str().unwrap().to_string())
        .map(|name| if name.contains("tfevents") { "tensorboard/events".into() } else { name })
        .collect();
    names.sort();
    let expected = [
        ".lock",
        "checkpoints",
        "checkpoints/latest.safetensors",
        "checkpoints/previous.safetensors",
        "config.toml",
        "progress.csv",
        "progress.svg",
        "provenance.toml",
        "summary.json",
        "tensorboard",
        "tensorboard/events",
    ];
    assert_eq!(names, expected);

    let rows = rows(&run);
    assert_eq!(rows.len(), 3, "a header and a row per update");
    assert_eq!(rows[0][..6], ["update", "steps", "episodes", "return", "length", "cost_hazards"]);
    assert_eq!((&rows[1][..2], &rows[2][..2]), (&["1".into(), "2000".into()][..], &["2".into(), "4000".into()][..]));

    // Not a terminal: a line per update, then the table.
    let updates: Vec<&str> = told.lines().filter(|line| line.starts_with("update ")).collect();
    assert_eq!(updates.len(), 2, "{told}");
    assert!(updates[0].starts_with("update 1/2  steps 2,000  return "), "{told}");
    assert!(updates[1].starts_with("update 2/2  steps 4,000  return ") && updates[1].contains("hazards "), "{told}");
    for part in ["PointGoal, p3o, seed 3: 4,000 steps in ", "cost hazards", "satisfied", "Next:  p3o evaluate run\n"] {
        let violated = part == "satisfied" && told.contains("violated");
        assert!(told.contains(part) || violated, "no {part:?} in {told}");
    }
    assert!(!told.contains('\u{1b}'), "colours for a file: {told:?}");
}

#[test]
fn the_summary_has_these_keys() {
    let home = Home::new();
    home.good(&small("PointGoal", &[&TWO_UPDATES[..], &["--out", "run", "--limit", "hazards=30"]].concat()));
    let summary = std::fs::read_to_string(home.path("run").join("summary.json")).unwrap();
    // As written: serde_json's maps are sorted, so the order is read off the text.
    let order = ["task", "algo", "seed", "steps", "wall_s", "steps_per_s", "return_mean", "costs"];
    let places: Vec<usize> = order.iter().map(|key| summary.find(&format!("\"{key}\":")).expect(key)).collect();
    assert!(places.is_sorted(), "{summary}");
    let value = json(&summary);
    let mut sorted = order;
    sorted.sort_unstable();
    assert_eq!(keys(&value), sorted);
    assert_eq!((&value["task"], &value["algo"]), (&"PointGoal".into(), &"p3o".into()));
    assert_eq!((&value["seed"], &value["steps"]), (&3.into(), &4000.into()));
    assert!(value["wall_s"].as_f64().unwrap() > 0.0 && value["steps_per_s"].as_f64().unwrap() > 0.0);
    assert!(value["return_mean"].as_f64().unwrap().is_finite());
    assert_eq!(keys(&value["costs"]), ["hazards"]);
    let cost = &value["costs"]["hazards"];
    assert_eq!(keys(cost), ["limit", "mean", "satisfied"]);
    assert_eq!(cost["limit"], 30.0);
    assert_eq!(cost["satisfied"], cost["mean"].as_f64().unwrap() <= 30.0);
}

#[test]
fn a_cost_without_a_limit_is_measured_and_not_judged() {
    let home = Home::new();
    home.good(&small("Navigation", &[&TWO_UPDATES[..], &["--out", "run", "--limit", "pillars=none"]].concat()));
    let value = json(&std::fs::read_to_string(home.path("run").join("summary.json")).unwrap());
    let pillars = &value["costs"]["pillars"];
    assert!(pillars["mean"].is_number() && pillars["limit"].is_null() && pillars["satisfied"].is_null(), "{pillars}");
    assert!(value["costs"]["hazards"]["limit"].is_number());
}

#[test]
fn the_written_configuration_gives_the_same_run() {
    let home = Home::new();
    let own =
        ["--out", "run", "--threads", "1", "--limit", "hazards=7", "--set", "env.goal_bonus=0.5", "--algo", "p3o"];
    home.good(&small("PointGoal", &[&TWO_UPDATES[..], &own].concat()));
    home.good(&["train", "--config", "run/config.toml", "--out", "again", "--threads", "2"]);
    assert!(outcome(&home.path("again")) == outcome(&home.path("run")));
    let config = |name: &str| std::fs::read(home.path(name).join("config.toml")).unwrap();
    assert_eq!(config("run"), config("again"));
    // Other arguments still count: another seed is another run.
    home.good(&["train", "--config", "run/config.toml", "--out", "other", "--seed", "4"]);
    assert!(outcome(&home.path("other")) != outcome(&home.path("run")));
}

#[test]
fn runs_without_a_name_find_their_own_folders_and_are_listed() {
    let home = Home::new();
    let args = small("PointGoal", &["--steps", "400", "--seed", "3", "--algo", "ppo"]);
    home.good(&args);
    home.good(&args);
    let (first, second) = (home.path("runs/PointGoal-ppo-seed3"), home.path("runs/PointGoal-ppo-seed3-2"));
    assert!(checkpoint(&first).is_file() && checkpoint(&second).is_file());
    assert!(outcome(&first) == outcome(&second));
    let listed = home.good(&["list"]);
    for part in ["PointGoal ", "Navigation ", "hazards (limit 25)", "env.level", "p3o ", "ppo ", "quick ", "paper "] {
        assert!(listed.contains(part), "no {part:?} in {listed}");
    }
    assert!(listed.contains("runs/PointGoal-ppo-seed3 ") && listed.contains("runs/PointGoal-ppo-seed3-2 "), "{listed}");
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_training() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;
    let home = Home::new();
    let args = small("PointGoal", &["--steps", "8000", "--out", "run"]);
    let mut child = home.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut about, mut first) = (String::new(), String::new());
    let mut stdout = BufReader::with_capacity(1, child.stdout.take().unwrap());
    stdout.read_line(&mut about).unwrap();
    stdout.read_line(&mut first).unwrap();
    drop(stdout);
    let mut complaints = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert_eq!((child.wait().unwrap().code(), complaints.as_str()), (Some(0), ""));
    assert!(
        about.starts_with("PointGoal by p3o; differs from the base settings in: ")
            && about.contains("p3o.kappa=20, ")
            && about.trim_end().ends_with("(set)")
    );
    assert!(first.starts_with("update 1/20"), "{first}");
    assert_eq!(rows(&home.path("run")).len(), 21);
    assert!(home.path("run").join("summary.json").is_file());
}
