//! `p3o bench` measures this machine.

use crate::util::{Home, json};

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn every_figure_is_there_and_positive() {
    let found = json(&Home::new().good(&["bench", "--json", "--seconds", "0.05", "--threads", "1"]));
    let all = found.as_array().expect("a list, one entry per number of threads");
    assert_eq!(all.len(), 1);
    assert_eq!(all[0]["threads"], 1);
    for name in [
        "env_steps_per_s",
        "rollout_steps_per_s",
        "train_steps_per_s",
        "update_gflops",
        "update256_gflops",
        "peak_gflops",
        "update_share",
        "update256_share",
        "peak_rss_mb",
    ] {
        // What is not finite would be null.
        let figure = all[0][name].as_f64().unwrap_or_else(|| panic!("{name} is missing in {found}"));
        assert!(figure > 0.0, "{name} is {figure}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn an_algorithm_is_measured_beside_passes_of_p3o() {
    let home = Home::new();
    let found = json(&home.good(&["bench", "--algo", "cpo", "--json", "--seconds", "0.05", "--threads", "1"]));
    let all = found.as_array().expect("a list, one entry per number of threads");
    assert_eq!((all.len(), &all[0]["algo"], &all[0]["threads"]), (1, &"cpo".into(), &1.into()));
    for name in ["update_ms", "passes40_ms", "ratio"] {
        let figure = all[0][name].as_f64().unwrap_or_else(|| panic!("{name} is missing in {found}"));
        assert!(figure > 0.0, "{name} is {figure}");
    }
    assert!(home.bad(2, &["bench", "--algo", "cpoo", "--threads", "1"]).contains("did you mean `cpo`?"));
}
