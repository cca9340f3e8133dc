//! The Ant moves as in the original engine, and as mechanics demands.

use p3o_env::physics::ant::{self, AntState};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

fn numbers<const N: usize>(value: &Value) -> [f64; N] {
    let list: Vec<f64> = value.as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number")).collect();
    list.try_into().expect("the right length")
}

/// The largest difference; what is no number is infinitely wrong.
fn worst(found: &[f64], expected: &[f64]) -> f64 {
    if found.iter().any(|f| !f.is_finite()) {
        return f64::INFINITY;
    }
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
        assert!(start.qacc.iter().all(|value| value.is_finite()), "row {i}: {start:?}");
        let found = [start.contacts as u64, start.rows as u64];
        let qacc: [f64; 14] = numbers(&row["qacc"]);
        // Relative entry by entry, with 1 for the smallest.
        let relative = |(f, e): (&f64, &f64)| (f - e).abs() / e.abs().max(1.0);
        ant::step(&mut state, &ctrl);
        let error = [
            start.qacc.iter().zip(&qacc).map(relative).fold(0.0, f64::max),
            worst(&state.qpos, &numbers::<15>(&row["next_qpos"])),
            worst(&state.qvel, &numbers::<14>(&row["next_qvel"])),
        ];
        assert_eq!(found.map(Some), [row["ncon"].as_u64(), row["nefc"].as_u64()], "row {i}: {error:?}");
        assert!(error[0] <= on_acc && error[1] <= on_pos && error[2] <= on_vel, "row {i}: {error:?}");
        errors = std::array::from_fn(|k| errors[k].max(error[k]));
    }
    println!("largest errors of qacc (relative), qpos, qvel over {} rows: {errors:?}", rows.len());
}

/// Any pose and motion at this height, with joints between -0.3 and 0.3 (ankles from 0.6 to 1.1 downwards if `inside`).
fn random_state(rng: &mut ChaCha8Rng, height: f64, inside: bool) -> AntState {
    let mut state = AntState::default();
    let mut draw = |size: f64| rng.random_range(-size..size);
    state.qpos[2] = height;
    for value in &mut state.qpos[3..7] {
        *value += draw(0.5);
    }
    for (i, value) in state.qpos[7..].iter_mut().enumerate() {
        *value = draw(0.3);
        if inside && i % 2 == 1 {
            *value = (if i == 1 || i == 7 { 1.0 } else { -1.0 }) * (0.85 + 0.8 * *value);
        }
    }
    for value in &mut state.qvel {
        *value = draw(3.0);
    }
    state
}

#[test]
fn in_free_flight_energy_is_lost_to_damping_alone() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    // Each hinge brakes with 1 N m per rad/s, so it takes the square of its rate from the energy.
    let lost = |state: &AntState| state.qvel[6..].iter().map(|rate| rate * rate).sum::<f64>();
    for i in 0..50 {
        let mut state = random_state(&mut rng, 10.0, true);
        // Slow hinges stay inside their limits for the whole step.
        state.qvel[6..].iter_mut().for_each(|rate| *rate *= 0.5);
        assert_eq!(ant::acceleration(&state, &[0.0; 8]).rows, 0);
        let (energy, loss) = (state.energy(), lost(&state));
        ant::step(&mut state, &[0.0; 8]);
        assert_eq!(ant::acceleration(&state, &[0.0; 8]).rows, 0);
        // The trapezium rule over 0.05 s is good to a part in a thousand here.
        let expected = 0.025 * (loss + lost(&state));
        let found = energy - state.energy();
        assert!((found - expected).abs() < 1e-3 * (1.0 + expected), "{i}: lost {found} instead of {expected}");
    }
}

#[test]
fn the_ground_looks_the_same_in_every_direction() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut touching = 0;
    for i in 0..200 {
        let height = rng.random_range(0.35..0.6);
        let state = random_state(&mut rng, height, false);
        let action = std::array::from_fn(|_| rng.random_range(-1.0..1.0));
        let angle: f64 = rng.random_range(-3.0..3.0);
        let mut turned = state;
        let (s, c) = (angle / 2.0).sin_cos();
        let [w, x, y, z] = [state.qpos[3], state.qpos[4], state.qpos[5], state.qpos[6]];
        turned.qpos[3..7].copy_from_slice(&[c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w]);
        let rotate = |v: &mut [f64]| {
            let (s, c) = angle.sin_cos();
            (v[0], v[1]) = (c * v[0] - s * v[1], s * v[0] + c * v[1]);
        };
        rotate(&mut turned.qvel);
        let mut expected = ant::acceleration(&state, &action);
        rotate(&mut expected.qacc);
        let found = ant::acceleration(&turned, &action);
        touching += usize::from(found.contacts > 0);
        assert_eq!(found.contacts, expected.contacts);
        let size = expected.qacc.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
        assert!(worst(&found.qacc, &expected.qacc) < 1e-11 * size, "{i}: {found:?} {expected:?}");
    }
    assert!(touching > 100, "{touching}");
}

#[test]
fn nothing_sends_the_ant_to_infinity() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut state = AntState::default();
    let mut fastest = 0.0f64;
    for i in 0..20_000 {
        // Full torques of one sign or the other, huge ones that are clipped, held for a while or changing each step.
        let size = if i % 2000 < 1000 { 1.0 } else { 1e30 };
        let sign = |on: bool| if on { size } else { -size };
        let action = if i % 100 < 50 { [sign(i % 200 < 100); 8] } else { [(); 8].map(|()| sign(rng.random())) };
        ant::step(&mut state, &action);
        assert!(state.is_finite() && state.energy().is_finite(), "step {i}: {state:?}");
        fastest = state.qvel.iter().fold(fastest, |m, v| m.max(v.abs()));
    }
    assert!(fastest < 100.0, "{fastest}");
}
