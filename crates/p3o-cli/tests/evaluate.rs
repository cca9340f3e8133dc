//! `p3o evaluate` says how safe a policy is, in words, in JSON and as an exit code.

use crate::util::{Home, json, keys, small};

fn trained(limit: &str) -> Home {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "800", "--out", "run", "--limit", limit]));
    home
}

#[test]
fn the_json_has_these_fields() {
    let home = trained("hazards=25");
    let found = json(&home.good(&["evaluate", "run", "--episodes", "5", "--json"]));
    let fields = ["algo", "costs", "deterministic", "episodes", "length", "return", "safe", "task", "trained_steps"];
    assert_eq!(keys(&found), fields);
    assert_eq!((&found["task"], &found["algo"]), (&"PointGoal".into(), &"p3o".into()));
    assert_eq!((&found["episodes"], &found["trained_steps"]), (&5.into(), &800.into()));
    assert_eq!(found["deterministic"], false);
    for figure in [&found["return"], &found["length"]] {
        assert_eq!(keys(figure), ["ci95", "mean", "sd"]);
        let [low, high] = [0, 1].map(|i| figure["ci95"][i].as_f64().unwrap());
        let mean = figure["mean"].as_f64().unwrap();
        assert!(low <= mean && mean <= high, "{figure}");
    }
    assert_eq!((&found["length"]["mean"], &found["length"]["sd"]), (&1000.0.into(), &0.0.into()));
    let cost = &found["costs"]["hazards"];
    assert_eq!(keys(cost), ["ci95", "limit", "mean", "safe", "sd", "share_over_limit"]);
    assert_eq!(cost["limit"], 25.0);
    assert_eq!(cost["safe"], cost["ci95"][1].as_f64().unwrap() <= 25.0);
    assert_eq!(found["safe"], cost["safe"]);
}

#[test]
fn the_episodes_do_not_depend_on_the_number_of_threads() {
    let home = trained("hazards=25");
    for more in [&["--json"][..], &[], &["--deterministic", "--json"], &["--seed", "9", "--json"]] {
        let on =
            |threads: &str| home.good(&[&["evaluate", "run", "--episodes", "6", "--threads", threads], more].concat());
        assert_eq!(on("1"), on("2"), "{more:?}");
    }
    let json = |more: &[&str]| home.good(&[&["evaluate", "run", "--episodes", "6", "--json"], more].concat());
    let (drawn, likeliest, other) = (json(&[]), json(&["--deterministic"]), json(&["--seed", "9"]));
    assert!(drawn != likeliest && drawn != other, "the options do nothing");
}

#[test]
fn an_unsafe_policy_fails_where_safety_is_required() {
    // An untrained policy in twenty episodes between eight hazards crosses some.
    let home = trained("hazards=0");
    let args = ["evaluate", "run", "--episodes", "20"];
    let told = home.good(&args);
    assert!(told.contains("cost hazards") && told.contains("violated"), "{told}");
    let output = home.p3o(&[&args[..], &["--require-safe"]].concat());
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), told, "the figures are shown all the same");
}

#[test]
fn a_safe_policy_passes_where_safety_is_required() {
    let home = trained("hazards=1e6");
    let told = home.good(&["evaluate", "run", "--episodes", "4", "--require-safe"]);
    assert!(told.contains(" safe\n") && !told.contains("violated"), "{told}");
}

#[test]
fn one_episode_proves_nothing() {
    let home = trained("hazards=1e6");
    let output = home.p3o(&["evaluate", "run", "--episodes", "1", "--require-safe", "--json"]);
    assert_eq!(output.status.code(), Some(3), "its mean has no upper bound");
    let found = json(&String::from_utf8(output.stdout).unwrap());
    assert!(found["costs"]["hazards"]["ci95"][1].is_null(), "{found}");
}

#[test]
fn evaluating_changes_nothing() {
    let home = trained("hazards=25");
    let before = home.contents();
    home.good(&["evaluate", "run", "--episodes", "2"]);
    assert!(home.contents() == before);
}
