//! `p3o compare` trains several algorithms with the same settings and puts them side by side.

use crate::util::{Home, contents, outcome, small, small_of};

const TWO: &[&str] = &["--algos", "p3o,ppo", "--seeds", "2", "--steps", "1600", "--out", "c"];

#[test]
fn a_table_a_csv_and_a_picture_hold_every_algorithm() {
    let home = Home::new();
    let told = home.good(&small_of("compare", "PointGather", TWO));
    for part in ["1,600 steps, 2 seeds", "cost bombs (limit 0.5)", "limits kept", " of 2", " ± "] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    let csv = std::fs::read_to_string(home.path("c/compare.csv")).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(rows[0], ["algo", "seed", "steps", "return", "cost_bombs", "limit_bombs", "kept_bombs", "wall_s"]);
    let who: Vec<String> = rows[1..].iter().map(|r| r[..3].join(" ")).collect();
    assert_eq!(who, ["p3o 0 1600", "ppo 0 1600", "p3o 1 1600", "ppo 1 1600"]);
    let svg = std::fs::read_to_string(home.path("c/compare.svg")).unwrap();
    assert_eq!(svg.matches("<polyline").count(), 4, "two panels of two algorithms");
    assert!(svg.contains(">p3o<") && svg.contains(">ppo<"));
    assert!(tiny_skia::Pixmap::load_png(home.path("c/compare.png")).is_ok());
}

#[test]
fn a_team_stands_beside_its_joint_choice() {
    let home = Home::new();
    let three = ["--algos", "p3o,map3o,map3o-dec", "--seeds", "1", "--steps", "800", "--out", "c"];
    let told = home.good(&small_of("compare", "SimpleSpread", &three));
    assert!(["p3o ", "map3o ", "map3o-dec "].iter().all(|algo| told.contains(algo)), "{told}");
}

#[test]
fn its_runs_are_those_of_train_and_are_not_made_twice() {
    let home = Home::new();
    home.good(&small_of("compare", "PointGoal", TWO));
    home.good(&small("PointGoal", &["--algo", "ppo", "--seed", "1", "--steps", "1600", "--out", "one"]));
    assert!(outcome(&home.path("one")) == outcome(&home.path("c/ppo-seed1")));
    let before = contents(&home.path("c"));
    home.good(&small_of("compare", "PointGoal", TWO));
    assert!(before == contents(&home.path("c")), "the second call changed something");
}

#[test]
fn what_is_unfinished_goes_on_and_what_differs_is_refused() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "800", "--out", "c/p3o-seed0"]));
    // A run of 800 steps is not one of 1,600. Nothing is trained before that is known.
    let line = home.bad(1, &small_of("compare", "PointGoal", TWO));
    assert!(line.contains("other settings (run.steps = 800, not run.steps = 1600)"), "{line}");
    assert!(line.ends_with("; name another folder with --out\n"), "{line}");
    assert!(!home.path("c/ppo-seed0").exists());
    home.good(&["resume", "c/p3o-seed0", "--steps", "1200"]);
    let toml = std::fs::read_to_string(home.path("c/p3o-seed0/config.toml")).unwrap();
    std::fs::write(home.path("c/p3o-seed0/config.toml"), toml.replace("steps = 1200", "steps = 1600")).unwrap();
    let line = home.p3o(&small_of("compare", "PointGoal", TWO));
    assert!(
        String::from_utf8_lossy(&line.stderr).contains("c/p3o-seed0/config.toml was altered: it has run.steps = 1600")
    );
    home.good(&["adopt", "c/p3o-seed0"]);
    home.good(&small_of("compare", "PointGoal", TWO));
    home.good(&small("PointGoal", &["--steps", "1600", "--out", "one"]));
    // The checkpoints differ in what was adopted.
    assert!(outcome(&home.path("one")).1 == outcome(&home.path("c/p3o-seed0")).1);
}

#[test]
fn wrong_usage_is_refused_before_anything_is_made() {
    let home = Home::new();
    assert!(home.bad(2, &["compare", "PointGoal", "--algos", "p3o,ppoo"]).contains("`ppoo`"));
    for (algos, reason) in
        [("p3o,p3o", "names p3o twice"), ("p3o,P3O", "did you mean `p3o`?"), ("p3o,", "unknown algorithm ``")]
    {
        assert!(home.bad(2, &["compare", "PointGoal", "--algos", algos]).contains(reason), "{algos}");
    }
    assert!(home.bad(2, &["compare", "PointGaol"]).contains("PointGoal"));
    assert!(home.bad(2, &["compare", "PointGoal", "--seeds", "0"]).contains("--seeds"));
    assert_eq!(home.contents(), []);
}
