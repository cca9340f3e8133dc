//! Steps per second of every task on one core, under random actions.
//!
//! `cargo run --release -p p3o-env --example env_speed [steps] [task]`; without a task all are measured, and the Ant, by
//! far the slowest, takes a twentieth of the steps.

use std::time::Instant;

use p3o_env::{ActionSpace, VecEnv, VectorEnv, VectorStep, WorldError, tasks};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn main() -> Result<(), WorldError> {
    let given: usize = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(2_000_000);
    let only = std::env::args().nth(2);
    for task in p3o_env::TASKS.iter().filter(|task| only.as_deref().is_none_or(|name| name == task.name)) {
        let steps = if task.name == "AntCircle" && only.is_none() { given.div_ceil(20) } else { given };
        let make = || tasks::make(task.name, &Default::default()).expect("a listed task exists");
        let mut world = VecEnv::new(&make, 1);
        let space = world.spec().action.clone();
        let width = space.width();
        // Actions are drawn beforehand, so that only the world is timed.
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut draw = |i: usize| match &space {
            ActionSpace::Continuous { .. } => rng.random_range(-1.0..1.0),
            discrete => rng.random_range(0..discrete.heads()[i % width]) as f32,
        };
        let actions: Vec<f32> = (0..width * 65_536).map(&mut draw).collect();
        let mut seeds = ChaCha8Rng::seed_from_u64(1);
        let mut step = VectorStep::new(world.spec(), 1);
        world.reset(&[seeds.next_u64()], &mut step.obs)?;
        // As a trainer does, which steps parts of its worlds on every thread.
        let part = &mut world.split(0..1, 1).expect("these worlds can be stepped apart")[0];
        let mut total = 0.0;
        let start = Instant::now();
        for action in actions.chunks_exact(width).cycle().take(steps) {
            part.step(action, &mut |_| seeds.next_u64(), &mut step)?;
            total += f64::from(step.rewards[0]);
        }
        let rate = steps as f64 / start.elapsed().as_secs_f64();
        println!("{:<12} {rate:>12.0} steps/s (mean reward {:+.5})", task.name, total / steps as f64);
    }
    Ok(())
}
