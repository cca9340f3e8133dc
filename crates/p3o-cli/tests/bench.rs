//! `p3o bench` measures this machine.

use crate::util::{Home, json, text};

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

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn on_the_cpu_the_table_is_what_it_is_without_a_device() {
    let args = ["bench", "--seconds", "0.02", "--threads", "1", "--device", "cpu", "--precision", "fp32"];
    // Figures differ from run to run, the words beside them do not.
    let words = |line: &str| line.split("  ").find(|part| !part.is_empty()).unwrap_or("").trim().to_string();
    let told: Vec<String> = Home::new().good(&args).lines().map(words).collect();
    let instructions = told[0].split(',').next().unwrap();
    let expected = format!(
        "{instructions}, PointGoal; networks 64x64 unless said otherwise||1 thread|environment steps/s|with inference|with \
         training (batch 20,000, 40 passes)|peak GFLOP/s, {instructions}|update GFLOP/s|share of peak|update GFLOP/s, \
         256x256|share of peak|peak memory of training, MB"
    );
    // A note may follow where an update was faster than the peak.
    assert_eq!(told[..12].join("|"), expected);
}

#[test]
fn figures_of_another_program_are_for_a_gpu() {
    let home = Home::new();
    std::fs::write(home.path("torch.json"), "{}").unwrap();
    for device in ["cpu", "auto"] {
        let output = home.p3o(&["bench", "--seconds", "0.01", "--device", device, "--against", "torch.json"]);
        let line = text(&output.stderr);
        // On a machine with a GPU `auto` takes it, and then the file is the next to be refused.
        let expected = ["p3o: --against is for updates on a GPU", "p3o: torch.json: this is not what"];
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(expected.iter().any(|start| line.starts_with(start)) && line.lines().count() == 1, "{line}");
    }
    home.bad(2, &["bench", "--algo", "cpo", "--against", "torch.json"]);
}
