//! `--device` says where the networks learn, `--precision` in what precision a GPU multiplies.

use crate::util::{Home, outcome, small, small_of};

/// Every command that trains or measures, with what it needs.
fn commands<'a>(more: &[&'a str]) -> Vec<Vec<&'a str>> {
    let with = |args: &[&'a str]| [args, more].concat();
    vec![
        small("PointGoal", &with(&["--out", "run"])),
        small("PointGoal", &with(&["--out", "run", "--dry-run"])),
        with(&["resume", "run"]),
        small_of("compare", "PointGoal", &with(&["--algos", "p3o", "--steps", "400"])),
        small_of("compare", "PointGoal", &with(&["--algos", "p3o", "--steps", "400", "--dry-run"])),
        with(&["reproduce", "pointgoal", "--scale", "smoke"]),
        with(&["bench", "--seconds", "0.01"]),
        with(&["bench", "--seconds", "0.01", "--algo", "cpo"]),
    ]
}

#[test]
fn a_device_that_is_not_there_is_a_sentence_and_nothing_is_made() {
    let home = Home::new();
    for args in commands(&["--device", "tpu"]) {
        assert_eq!(home.bad(2, &args), "p3o: --device takes cpu, cuda, cuda:N or auto, not `tpu`\n");
    }
    for name in ["cuda:x", "cuda:", "cuda:-1", "CPU", "", "gpu\n"] {
        for args in commands(&["--device", name]) {
            assert!(home.bad(2, &args).starts_with("p3o: --device takes cpu, cuda, cuda:N or auto, not `"), "{name:?}");
        }
    }
    // Where there are GPUs, there are not so many.
    for args in commands(&["--device", "cuda:999"]) {
        let line = home.bad(1, &args);
        assert!(line.starts_with("p3o: --device cuda:999: the"), "{line}");
    }
    assert_eq!(home.contents(), []);
}

#[test]
fn a_precision_that_is_not_there_is_a_sentence_and_nothing_is_made() {
    let home = Home::new();
    for (precision, expected) in [
        ("fp16", "p3o: --precision takes fp32 or tf32, not `fp16`\n"),
        ("TF32", "p3o: --precision takes fp32 or tf32, not `TF32`\n"),
        ("tf32", "p3o: --precision tf32 takes a GPU: name one with --device\n"),
    ] {
        for args in commands(&["--precision", precision]) {
            assert_eq!(home.bad(2, &args), expected, "{args:?}");
        }
        for args in commands(&["--precision", precision, "--device", "cpu"]) {
            assert_eq!(home.bad(2, &args), expected, "{args:?}");
        }
    }
    assert_eq!(home.contents(), []);
}

#[test]
fn the_cpu_is_what_it_is_without_a_device() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "400", "--out", "a"]));
    home.good(&small("PointGoal", &["--steps", "400", "--out", "b", "--device", "cpu", "--precision", "fp32"]));
    assert!(outcome(&home.path("a")) == outcome(&home.path("b")));
    let provenance = std::fs::read_to_string(home.path("a/provenance.toml")).unwrap();
    assert!(provenance.contains("device = \"cpu\""), "{provenance}");
}

#[test]
fn a_comparison_on_the_cpu_is_what_it_is_without_a_device() {
    let home = Home::new();
    let args = |out: &'static str, more: &[&'static str]| {
        let fixed = ["--algos", "p3o,ppo", "--seeds", "1", "--steps", "400", "--out", out];
        small_of("compare", "PointGoal", &[&fixed, more].concat())
    };
    home.good(&args("a", &[]));
    home.good(&args("b", &["--device", "cpu", "--precision", "fp32"]));
    for run in ["p3o-seed0", "ppo-seed0"] {
        assert!(outcome(&home.path("a").join(run)) == outcome(&home.path("b").join(run)), "{run}");
    }
}

#[test]
fn a_sitting_of_several_runs_says_how_many_it_makes_in_an_hour() {
    let home = Home::new();
    let two = small_of("compare", "PointGoal", &["--algos", "p3o,ppo", "--seeds", "1", "--steps", "400", "--out", "c"]);
    let told = home.good(&two);
    let line = told.lines().last().unwrap();
    assert!(line.starts_with("In this sitting: 2 runs in ") && line.ends_with(" runs per hour."), "{told}");
    // Nothing is left to do, and then one run of two.
    assert!(!home.good(&two).contains("per hour"));
    std::fs::remove_dir_all(home.path("c/ppo-seed0")).unwrap();
    assert!(!home.good(&two).contains("per hour"));
    let told = home.good(&["reproduce", "pointgoal", "--scale", "smoke", "--seeds", "1"]);
    assert!(told.lines().last().unwrap().starts_with("In this sitting: 4 runs in "), "{told}");
    assert!(!home.good(&["reproduce", "pointgoal", "--scale", "smoke", "--seeds", "1"]).contains("per hour"));
}
