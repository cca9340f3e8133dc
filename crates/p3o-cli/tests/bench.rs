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
