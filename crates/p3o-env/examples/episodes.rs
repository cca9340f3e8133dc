//! Episodes of a task: `cargo run --release -p p3o-env --example episodes TASK [EPISODES] [SEED | seek] [HOLD] [OPTION=NUMBER ...]`.
//!
//! Actions are uniform within [-1, 1], and each is held for so many steps (1 unless given); with `seek`, in worlds with a goal's lidar, they
//! drive where it is brightest, and where HOLD is above 1, each time with a chance of one in four, as they would without. Prints a line per episode: return, sum of each cost, where there are several the number of
//! steps with any, length.

use std::collections::BTreeMap;
use std::f32::consts::TAU;

use p3o_env::tasks;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn main() -> Result<(), p3o_env::TaskError> {
    let (options, args): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.contains('='));
    let task = args.first().map_or("PointGoal", String::as_str);
    let number = |i: usize, default: u64| args.get(i).and_then(|word| word.parse().ok()).unwrap_or(default);
    let (episodes, seed, hold) = (number(1, 100), number(2, 0), number(3, 1));
    let seeks = args.get(2).is_some_and(|word| word == "seek");
    let option = |word: &String| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    let options: BTreeMap<String, f64> = options.iter().filter_map(option).collect();
    let mut env = tasks::make(task, &options)?;
    let (mut obs, mut costs) = (vec![0.0; env.spec().obs_dim], vec![0.0; env.spec().costs.len()]);
    let mut action = vec![0.0; env.spec().action_width()];
    let goal = env.labels().observation.iter().position(|label| label.name.starts_with("goal_lidar"));
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..episodes {
        env.reset(rng.random(), &mut obs);
        let (mut ret, mut sums, mut any, mut len) = (0.0, vec![0.0; costs.len()], 0, 0);
        let mut wanders = !seeks;
        loop {
            if len % hold == 0 && seeks && hold > 1 {
                wanders = rng.random_range(0..4) == 0;
            }
            if let (false, Some(goal)) = (wanders, goal) {
                action.copy_from_slice(&seek(&obs[goal..goal + 16], task.starts_with("Car")));
            } else if len % hold == 0 {
                action.iter_mut().for_each(|a| *a = rng.random_range(-1.0..1.0));
            }
            let outcome = env.step(&action, &mut obs, &mut costs);
            ret += f64::from(outcome.reward);
            sums.iter_mut().zip(&costs).for_each(|(sum, cost)| *sum += f64::from(*cost));
            any += usize::from(costs.iter().any(|cost| *cost > 0.0));
            len += 1;
            if outcome.terminated || outcome.truncated {
                break;
            }
        }
        let mut words = vec![ret.to_string()];
        words.extend(sums.iter().map(f64::to_string));
        if sums.len() > 1 {
            words.push(any.to_string());
        }
        println!("{} {len}", words.join(" "));
    }
    Ok(())
}

/// Towards the goal: forward as far as it is ahead, and turning by twice its angle.
fn seek(lidar: &[f32], by_car: bool) -> [f32; 2] {
    let (mut x, mut y) = (0.0, 0.0);
    for (i, bin) in lidar.iter().enumerate() {
        let angle = (i as f32 + 0.5) * TAU / 16.0;
        x += bin * angle.cos();
        y += bin * angle.sin();
    }
    if by_car {
        // It drives along its negative y axis, by torques of two wheels that saturate at 0.02.
        (x, y) = (-y, x);
    }
    let off = y.atan2(x);
    let [ahead, turn] = if x == 0.0 && y == 0.0 { [1.0, 0.3] } else { [off.cos(), 2.0 * off] };
    if by_car {
        return [ahead + turn, ahead - turn].map(|torque| 0.02 * torque.clamp(-1.0, 1.0));
    }
    [ahead.clamp(-1.0, 1.0), turn.clamp(-1.0, 1.0)]
}
