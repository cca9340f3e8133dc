//! Random episodes of a task: `cargo run --release -p p3o-env --example episodes TASK [EPISODES] [SEED] [HOLD] [OPTION=NUMBER ...]`.
//!
//! Actions are uniform within [-1, 1], and each is held for so many steps (1 unless given). Prints a line per episode: return, sum
//! of the first cost, length.

use p3o_env::tasks;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn main() -> Result<(), p3o_env::TaskError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let task = args.first().map_or("PointGoal", String::as_str);
    let number = |i: usize, default: u64| args.get(i).and_then(|word| word.parse().ok()).unwrap_or(default);
    let (episodes, seed, hold) = (number(1, 100), number(2, 0), number(3, 1));
    let options = args.iter().skip(4).filter_map(|word| word.split_once('='));
    let options = options.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect();
    let mut env = tasks::make(task, &options)?;
    let (mut obs, mut costs) = (vec![0.0; env.spec().obs_dim], vec![0.0; env.spec().costs.len()]);
    let mut action = vec![0.0; env.spec().action_width()];
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..episodes {
        env.reset(rng.random(), &mut obs);
        let (mut ret, mut cost, mut len) = (0.0, 0.0, 0);
        loop {
            if len % hold == 0 {
                action.iter_mut().for_each(|a| *a = rng.random_range(-1.0..1.0));
            }
            let outcome = env.step(&action, &mut obs, &mut costs);
            ret += f64::from(outcome.reward);
            cost += f64::from(costs[0]);
            len += 1;
            if outcome.terminated || outcome.truncated {
                break;
            }
        }
        println!("{ret} {cost} {len}");
    }
    Ok(())
}
