//! Runs that older versions made can be evaluated, drawn, listed and resumed.

use crate::util::{Home, json};
use std::path::{Path, PathBuf};

/// Every run of version 1.
fn runs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p3o/tests/fixtures/version-1");
    let mut runs: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    runs.retain(|path| path.is_dir());
    runs.sort();
    assert!(runs.len() >= 19, "{} runs", runs.len());
    runs
}

#[test]
fn they_are_evaluated_to_the_same_figures() {
    let home = Home::new();
    for run in runs() {
        let text = home.good(&["evaluate", run.to_str().unwrap(), "--episodes", "3", "--seed", "5", "--json"]);
        let (now, then) = (json(&text), json(&std::fs::read_to_string(run.join("evaluation.json")).unwrap()));
        for key in ["task", "algo", "trained_steps", "episodes"] {
            assert_eq!(now[key], then[key], "{}: {key}", run.display());
        }
        for key in ["mean", "sd", "ci95"] {
            assert_eq!(now["return"][key], then["return"][key], "{}: {key}", run.display());
            assert_eq!(now["length"][key], then["length"][key], "{}: {key}", run.display());
        }
        for (name, cost) in then["costs"].as_object().unwrap() {
            for key in ["mean", "sd", "limit", "share_over_limit"] {
                assert_eq!(now["costs"][name][key], cost[key], "{}: {name}, {key}", run.display());
            }
        }
    }
}

#[test]
fn they_are_drawn_and_plotted_together() {
    let home = Home::new();
    for run in runs() {
        home.good(&["render", run.to_str().unwrap(), "-o", "agent.png"]);
        assert!(home.path("agent.png").metadata().unwrap().len() > 1000, "{}", run.display());
    }
    let all: Vec<String> = runs().iter().map(|run| run.to_str().unwrap().to_string()).collect();
    let args: Vec<&str> = std::iter::once("plot").chain(all.iter().map(String::as_str)).collect();
    assert!(home.good(&args).contains("map3o-dec (1)"));
}
