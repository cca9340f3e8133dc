//! Advantages and value targets are what their definitions say.

use crate::util::rng;
use p3o::advantage::{Along, gae, moments, rescale};
use rand::RngExt;

/// One environment's steps with random episode ends.
struct Steps {
    given: Vec<f32>,
    values: Vec<f32>,
    next_values: Vec<f32>,
    cuts: Vec<bool>,
}

impl Steps {
    /// Each end is a termination, worth nothing, or a truncation, worth a bootstrap; the last step is cut by the batch.
    fn random(n: usize, seed: u64) -> Steps {
        let mut rng = rng(seed);
        let mut uniform = |n: usize| -> Vec<f32> { (0..n).map(|_| rng.random_range(-2.0..2.0)).collect() };
        let (given, values, bootstraps, ends) = (uniform(n), uniform(n), uniform(n), uniform(n));
        let cuts: Vec<bool> = (0..n).map(|t| t + 1 == n || ends[t].abs() < 0.3).collect();
        let next = |t: usize| match (cuts[t], ends[t] > 0.0) {
            (false, _) => values[t + 1],
            (true, true) if t + 1 < n => 0.0,
            (true, _) => bootstraps[t],
        };
        Steps { next_values: (0..n).map(next).collect(), given, values, cuts }
    }

    fn gae(&self, gamma: f64, lambda: f64) -> (Vec<f32>, Vec<f32>) {
        let Steps { given, values, next_values, cuts } = self;
        let (mut advantages, mut targets) = (vec![f32::NAN; given.len()], vec![f32::NAN; given.len()]);
        gae(&Along { given, values, next_values, cuts }, gamma, lambda, &mut advantages, &mut targets);
        (advantages, targets)
    }

    /// The definitions, a sum over the rest of the episode for every step.
    fn definitions(&self, gamma: f64, lambda: f64) -> Vec<(f64, f64)> {
        let one = |t: usize| {
            let end = (t..).find(|&k| self.cuts[k]).unwrap();
            let at = |v: &[f32], k: usize| f64::from(v[k]);
            let delta = |k: usize| at(&self.given, k) + gamma * at(&self.next_values, k) - at(&self.values, k);
            let advantage = (t..=end).map(|k| (gamma * lambda).powi((k - t) as i32) * delta(k)).sum::<f64>();
            let gathered = (t..=end).map(|k| gamma.powi((k - t) as i32) * at(&self.given, k)).sum::<f64>();
            (advantage, gathered + gamma.powi((end - t + 1) as i32) * at(&self.next_values, end))
        };
        (0..self.given.len()).map(one).collect()
    }
}

/// To the rounding of an f32.
fn check(actual: f32, expected: f64, what: &str) {
    let error = (f64::from(actual) - expected).abs();
    assert!(error <= 1e-7 * expected.abs().max(1.0), "{what}: {actual} is not {expected}");
}

#[test]
fn estimates_equal_the_quadratic_time_definitions() {
    for seed in 0..50 {
        let steps = Steps::random(1 + 7 * seed as usize, seed);
        for (gamma, lambda) in [(0.99, 0.97), (0.9, 0.0), (0.9, 1.0), (0.0, 0.5), (0.999, 1.0)] {
            let (advantages, targets) = steps.gae(gamma, lambda);
            for (t, (advantage, target)) in steps.definitions(gamma, lambda).into_iter().enumerate() {
                check(advantages[t], advantage, &format!("advantage {t}, seed {seed}, {gamma}, {lambda}"));
                check(targets[t], target, &format!("target {t}, seed {seed}, {gamma}, {lambda}"));
            }
        }
    }
}

#[test]
fn lambda_zero_is_one_step_and_lambda_one_is_target_minus_value() {
    let steps = Steps::random(200, 9);
    let (one_step, targets) = steps.gae(0.9, 0.0);
    let (whole, same_targets) = steps.gae(0.9, 1.0);
    assert_eq!(targets, same_targets);
    for t in 0..200 {
        let [x, v, next] = [steps.given[t], steps.values[t], steps.next_values[t]].map(f64::from);
        check(one_step[t], x + 0.9 * next - v, "lambda 0");
        // The target is itself rounded to f32, at most 2^-24 of about 20.
        let error = (f64::from(whole[t]) - (f64::from(targets[t]) - v)).abs();
        assert!(error <= 2.0 * 20.0 / f64::from(1 << 24), "lambda 1 at {t}: off by {error}");
    }
}

#[test]
fn three_steps_by_hand() {
    // gamma = lambda = 1/2. Terminated: next values 1, 1.5, 0.
    //   delta = 1 + 0.5 - 0.5 = 1,  2 + 0.75 - 1 = 1.75,  3 + 0 - 1.5 = 1.5
    //   A_2 = 1.5,  A_1 = 1.75 + 0.25 * 1.5 = 2.125,  A_0 = 1 + 0.25 * 2.125 = 1.53125
    //   targets 3,  2 + 0.5 * 3 = 3.5,  1 + 0.5 * 3.5 = 2.75
    // Truncated before a state of value 4: delta_2 = 3 + 2 - 1.5 = 3.5
    //   A_2 = 3.5,  A_1 = 1.75 + 0.875 = 2.625,  A_0 = 1 + 0.65625 = 1.65625
    //   targets 3 + 2 = 5,  2 + 2.5 = 4.5,  1 + 2.25 = 3.25
    let run = |last: f32| {
        let steps = Steps {
            given: vec![1.0, 2.0, 3.0],
            values: vec![0.5, 1.0, 1.5],
            next_values: vec![1.0, 1.5, last],
            cuts: vec![false, false, true],
        };
        steps.gae(0.5, 0.5)
    };
    assert_eq!(run(0.0), (vec![1.53125, 2.125, 1.5], vec![2.75, 3.5, 3.0]));
    assert_eq!(run(4.0), (vec![1.65625, 2.625, 3.5], vec![3.25, 4.5, 5.0]));
}

#[test]
fn nothing_flows_over_an_episode_end() {
    // Two episodes in one batch equal each by itself, wherever the end lies.
    let whole = Steps::random(60, 4);
    let (advantages, targets) = whole.gae(0.99, 0.95);
    let ends: Vec<usize> = (0..60).filter(|&t| whole.cuts[t]).collect();
    assert!(ends.len() > 3, "the batch has episodes to tell apart");
    let mut start = 0;
    for end in ends {
        let part = |v: &[f32]| v[start..=end].to_vec();
        let own = Steps {
            given: part(&whole.given),
            values: part(&whole.values),
            next_values: part(&whole.next_values),
            cuts: whole.cuts[start..=end].to_vec(),
        };
        assert_eq!(own.gae(0.99, 0.95), (part(&advantages), part(&targets)));
        start = end + 1;
    }
}

#[test]
fn moments_and_rescaling_by_hand() {
    // Mean (1 + 3 + 5 + 7) / 4 = 4, variance (9 + 1 + 1 + 9) / 4 = 5.
    let mut values = [1.0, 3.0, 5.0, 7.0];
    assert_eq!(moments(&values), (4.0, 5f64.sqrt()));
    rescale(&mut values, 4.0, 2.0);
    assert_eq!(values, [-1.5, -0.5, 0.5, 1.5]);
}
