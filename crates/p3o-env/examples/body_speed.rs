//! Steps per second of an articulated body on one core under random controls:
//! `cargo run --release -p p3o-env --example body_speed BODY [STEPS]`.
//!
//! The body begins anew after 1000 steps or when it leaves the heights of its task. `ant` is moved by the engine that its tasks use,
//! `ant_by_tables` by the one for all bodies.

use std::time::Instant;

use p3o_env::physics::ant;
use p3o_env::physics::articulated::{State, bodies, build};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn main() {
    let name = std::env::args().nth(1).unwrap_or_else(|| "half_cheetah".to_owned());
    let steps: usize = std::env::args().nth(2).and_then(|word| word.parse().ok()).unwrap_or(100_000);
    let all = [
        (&bodies::HALF_CHEETAH, 1, -9.0..9.0),
        (&bodies::HOPPER, 1, 0.7..9.0),
        (&bodies::WALKER2D, 1, 0.8..2.0),
        (&bodies::SWIMMER, 2, -900.0..900.0),
        (&bodies::ANT, 2, 0.2..1.0),
        (&bodies::HUMANOID, 2, 1.0..2.0),
        (&bodies::CAR, 2, -9.0..9.0),
        (&bodies::SAFETY_ANT, 2, -9.0..9.0),
    ];
    let body = if name == "ant_by_tables" { "ant" } else { &name };
    let Some((model, at, heights)) = all.into_iter().find(|(model, ..)| model.name == body) else {
        println!("there is no body {name:?}");
        return;
    };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let controls: Vec<Vec<f64>> = (0..4096)
        .map(|_| {
            model.actuators.iter().map(|m| rng.random_range(-1.0..1.0) * m.control.map_or(1.0, |c| c[1])).collect()
        })
        .collect();
    let mut physics = build(model);
    let start = State::of(model);
    let (mut state, mut begun) = (start.clone(), 0);
    let clock = Instant::now();
    for (i, ctrl) in controls.iter().cycle().take(steps).enumerate() {
        if name == "ant" {
            ant::step_tables(&mut state, ctrl);
        } else {
            physics.step(&mut state, ctrl);
        }
        if i - begun >= 1000 || !heights.contains(&state.qpos[at]) {
            (state, begun) = (start.clone(), i);
            state.qpos.iter_mut().for_each(|q| *q += rng.random_range(-0.01..0.01));
        }
    }
    println!("{name:<14} {:>10.0} steps/s", steps as f64 / clock.elapsed().as_secs_f64());
}
