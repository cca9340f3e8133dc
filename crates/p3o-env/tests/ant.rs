//! The Ant moves as in the original engine, and its circle pays and costs what the task says.

use p3o_env::physics::ant::{self, AntState};
use serde_json::Value;

fn numbers<const N: usize>(value: &Value) -> [f64; N] {
    let list: Vec<f64> = value.as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number")).collect();
    list.try_into().expect("the right length")
}

fn worst(found: &[f64], expected: &[f64]) -> f64 {
    found.iter().zip(expected).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max)
}

#[test]
fn a_step_matches_the_original_engine() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/ant.json");
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let file: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
    let tolerances: Vec<f64> =
        file["tol"].as_str().expect("tol").split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    let [on_acc, on_pos, on_vel] = tolerances.try_into().expect("three tolerances");
    let rows = file["rows"].as_array().expect("rows");
    assert!(!rows.is_empty());
    let mut errors = [0.0f64; 3];
    for (i, row) in rows.iter().enumerate() {
        let mut state = AntState { qpos: numbers(&row["qpos"]), qvel: numbers(&row["qvel"]) };
        let ctrl = numbers(&row["ctrl"]);
        let start = ant::acceleration(&state, &ctrl);
        let found = [start.contacts as u64, start.rows as u64];
        let qacc: [f64; 14] = numbers(&row["qacc"]);
        let size = qacc.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
        ant::step(&mut state, &ctrl);
        let error = [
            worst(&start.qacc, &qacc) / size,
            worst(&state.qpos, &numbers::<15>(&row["next_qpos"])),
            worst(&state.qvel, &numbers::<14>(&row["next_qvel"])),
        ];
        assert_eq!(found.map(Some), [row["ncon"].as_u64(), row["nefc"].as_u64()], "row {i}: {error:?}");
        assert!(error[0] <= on_acc && error[1] <= on_pos && error[2] <= on_vel, "row {i}: {error:?}");
        errors = std::array::from_fn(|k| errors[k].max(error[k]));
    }
    println!("largest errors of qacc (relative), qpos, qvel over {} rows: {errors:?}", rows.len());
}
