//! `p3o evaluate` says how safe a policy is, in words, in JSON and as an exit code.

use crate::util::{Home, json, keys, small, text};

fn trained(limit: &str) -> Home {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "800", "--out", "run", "--limit", limit]));
    home
}

#[test]
fn the_json_has_these_fields() {
    let home = trained("hazards=25");
    let found = json(&home.good(&["evaluate", "run", "--episodes", "5", "--json"]));
    let fields = "adopted algo all_episodes certify checkpoint costs deterministic episodes length options program return safe seed task \
                  trained_seed trained_steps verdict";
    assert_eq!(keys(&found), fields.split(' ').collect::<Vec<_>>());
    assert_eq!((&found["task"], &found["algo"]), (&"PointGoal".into(), &"p3o".into()));
    assert_eq!((&found["episodes"], &found["trained_steps"]), (&5.into(), &800.into()));
    assert_eq!((&found["deterministic"], &found["certify"]), (&false.into(), &false.into()));
    assert_eq!(found["program"], format!("p3o {}", env!("CARGO_PKG_VERSION")));
    for figure in [&found["return"], &found["length"]] {
        assert_eq!(keys(figure), ["ci95", "mean", "method", "sd", "spread"]);
        let [low, high] = [0, 1].map(|i| figure["ci95"][i].as_f64().unwrap());
        let mean = figure["mean"].as_f64().unwrap();
        assert!(low <= mean && mean <= high, "{figure}");
        assert_eq!(keys(&figure["spread"]), ["greatest", "least", "q05", "q25", "q50", "q75", "q95"]);
    }
    assert_eq!((&found["length"]["mean"], &found["length"]["sd"]), (&1000.0.into(), &0.0.into()));
    let cost = &found["costs"]["hazards"];
    let fields = "bounds episode_bound fewest_episodes limit mean safe sd share_bounds share_over_limit spread verdict";
    assert_eq!(keys(cost), fields.split(' ').collect::<Vec<_>>());
    for bounds in [&cost["bounds"], &cost["share_bounds"]] {
        assert_eq!(keys(bounds), ["confidence", "lower", "method", "upper"]);
        assert_eq!(bounds["confidence"], 0.95);
    }
    assert_eq!((&cost["limit"], &cost["episode_bound"]), (&25.0.into(), &1000.0.into()));
    assert_eq!((&cost["safe"], &found["safe"]), (&false.into(), &false.into()), "five episodes show nothing");
    let episodes = found["all_episodes"].as_array().unwrap();
    let mean = episodes.iter().map(|e| e["costs"]["hazards"].as_f64().unwrap()).sum::<f64>() / 5.0;
    assert_eq!((episodes.len(), &cost["mean"]), (5, &mean.into()));
    assert_eq!((keys(&episodes[0]), &episodes[4]["length"]), (vec!["costs", "length", "return"], &1000.into()));
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
    assert_eq!(text(&output.stdout), told, "the figures are shown all the same");
    let line = text(&output.stderr);
    assert!(line.starts_with("p3o: not safe: cost hazards has mean ") && line.ends_with(", limit 0\n"), "{line}");
    assert_eq!(line.lines().count(), 1);
}

#[test]
fn a_safe_policy_passes_where_safety_is_required() {
    // No episode of a thousand steps costs more.
    let home = trained("hazards=1000");
    let told = home.good(&["evaluate", "run", "--episodes", "4", "--require-safe"]);
    assert!(told.contains(" safe\n") && !told.contains("violated"), "{told}");
}

#[test]
fn one_episode_proves_little() {
    let home = trained("hazards=500");
    let output = home.p3o(&["evaluate", "run", "--episodes", "1", "--require-safe"]);
    assert_eq!(output.status.code(), Some(3));
    let (told, line) = (text(&output.stdout), text(&output.stderr));
    assert!(told.contains("\n1 episode with seed") && !told.contains("inf") && !told.contains("NaN"), "{told}");
    let row = told.lines().find(|line| line.trim().starts_with("return")).unwrap();
    assert_eq!(row.split_whitespace().skip(2).collect::<Vec<_>>(), ["-", "-"], "neither spread nor bounds: {row}");
    assert!(line.contains("not shown to be safe: cost hazards has mean"), "{line}");
    assert!(line.contains("limit 500; ") && line.contains("--certify"), "{line}");
    let found = json(&home.good(&["evaluate", "run", "--episodes", "1", "--json"]));
    assert!(found["return"]["ci95"][1].is_null() && found["return"]["sd"].is_null(), "{found}");
}

#[test]
fn a_certificate_takes_as_many_episodes_as_it_needs() {
    let home = trained("hazards=700");
    let args = ["evaluate", "run", "--certify", "--require-safe", "--json"];
    let found = json(&home.good(&args));
    assert_eq!((&found["safe"], &found["verdict"], &found["certify"]), (&true.into(), &"safe".into(), &true.into()));
    let (all, episodes) = (&found["all_episodes"], found["episodes"].as_u64().unwrap());
    assert!(episodes.is_multiple_of(32) && episodes < 1000, "{episodes}");
    let fixed = json(&home.good(&["evaluate", "run", "--episodes", &episodes.to_string(), "--json"]));
    assert_eq!(fixed["all_episodes"], *all, "the first of the same episodes");
    for threads in ["1", "2"] {
        assert_eq!(json(&home.good(&[&args[..], &["--threads", threads]].concat())), found);
    }
    let told = home.good(&["evaluate", "run", "--certify"]);
    assert!(told.contains(&format!("\nSafe after {episodes} episodes: ")), "{told}");
    // Too few, and no other verdict for that.
    let output = home.p3o(&[&args[..], &["--episodes", "2"]].concat());
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(json(&text(&output.stdout))["verdict"], "not sure");
}

#[test]
fn without_a_limit_safety_is_not_promised() {
    let home = trained("hazards=none");
    for flag in ["--certify", "--require-safe"] {
        let line = home.bad(1, &["evaluate", "run", flag]);
        assert!(line.contains("no cost of this run has a limit"), "{line}");
    }
    let told = home.good(&["evaluate", "run", "--episodes", "2"]);
    assert!(told.contains("No cost has a limit") && !told.contains("safe\n"), "{told}");
}

#[test]
fn the_verdict_says_what_it_is_about() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "400", "--out", "run", "--set", "env.level=2", "--seed", "7"]));
    let told = home.good(&["evaluate", "run", "--episodes", "2", "--deterministic", "--seed", "11"]);
    let (first, second) = (told.lines().next().unwrap(), told.lines().nth(1).unwrap());
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(first, format!("PointGoal (level=2), p3o after 400 steps with seed 7, judged by p3o {version}"));
    assert_eq!(second, "2 episodes with seed 11, likeliest actions");
    assert!(told.contains("hazards at most 1000 an episode, vases at most 1000 an episode"), "{told}");
}

#[test]
fn evaluating_changes_nothing() {
    let home = trained("hazards=25");
    let before = home.contents();
    home.good(&["evaluate", "run", "--episodes", "2"]);
    assert!(home.contents() == before);
}

#[test]
fn a_verdict_names_its_checkpoint_and_what_was_changed_by_hand() {
    let home = trained("hazards=25");
    let path = home.path("run/config.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("hazards = 25", "hazards = 999")).unwrap();
    let line = home.bad(1, &["evaluate", "run", "--episodes", "5", "--require-safe"]);
    assert!(line.contains("run/config.toml was altered: it has limits.hazards = 999.0"), "{line}");
    assert!(line.contains("p3o adopt run takes the change over, p3o adopt run --discard undoes it"), "{line}");
    home.good(&["adopt", "run"]);
    let told = home.good(&["evaluate", "run", "--episodes", "5"]);
    let found = json(&home.good(&["evaluate", "run", "--episodes", "5", "--json"]));
    let change = "limits.hazards = 999.0 (before step 800: limits.hazards = 25.0)";
    assert_eq!(found["adopted"][0], change);
    assert!(told.contains(&format!("Changed by hand and adopted: {change}.")), "{told}");
    assert!(told.contains(&format!("checkpoint {}", found["checkpoint"].as_str().unwrap())), "{told}");
}
