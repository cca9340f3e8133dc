//! A CMDP as a world: its episodes are worth what the CMDP says.

use p3o_env::{Env, Outcome};
use p3o_tabular::{Cmdp, TabularEnv, instances};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// One world that starts its next episode when one has ended.
struct Play {
    env: TabularEnv,
    obs: Vec<f32>,
    costs: Vec<f32>,
    seeds: ChaCha8Rng,
}

impl Play {
    fn new(cmdp: &Cmdp, seed: u64) -> Play {
        let (obs, costs) = (vec![0.0; cmdp.states], vec![0.0; cmdp.costs.len()]);
        let env = TabularEnv::new(Arc::new(cmdp.clone()));
        let mut play = Play { env, obs, costs, seeds: ChaCha8Rng::seed_from_u64(seed) };
        play.env.reset(play.seeds.random(), &mut play.obs);
        play
    }

    fn step(&mut self, action: usize) -> Outcome {
        let outcome = self.env.step(&[action as f32], &mut self.obs, &mut self.costs);
        if outcome.truncated {
            self.env.reset(self.seeds.random(), &mut self.obs);
        }
        outcome
    }
}

/// The state that a one-hot row shows.
fn state(obs: &[f32]) -> usize {
    assert!(obs.iter().sum::<f32>() == 1.0 && obs.iter().all(|x| *x == 0.0 || *x == 1.0), "{obs:?}");
    obs.iter().position(|x| *x == 1.0).unwrap()
}

fn choose(policy: &[f64], cmdp: &Cmdp, s: usize, rng: &mut ChaCha8Rng) -> usize {
    let mut left: f64 = rng.random();
    (0..cmdp.actions - 1)
        .find(|a| {
            left -= policy[s * cmdp.actions + a];
            left < 0.0
        })
        .unwrap_or(cmdp.actions - 1)
}

#[test]
fn sums_over_episodes_have_the_discounted_totals_as_their_means() {
    const EPISODES: usize = 20_000;
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    for known in instances::all() {
        let cmdp = &known.cmdp;
        let policy = instances::random_policy(cmdp, &mut rng);
        let exact = cmdp.evaluate(&policy);
        let mut play = Play::new(cmdp, 4);
        // The return, the length and the costs, each with its squares; and the states.
        let mut sums = vec![(0.0, 0.0); 2 + cmdp.costs.len()];
        let mut running = vec![0.0; sums.len()];
        let mut seen = vec![0.0; cmdp.states];
        let (mut episodes, mut steps) = (0, 0.0);
        while episodes < EPISODES {
            let s = state(&play.obs);
            seen[s] += 1.0;
            steps += 1.0;
            let outcome = play.step(choose(&policy, cmdp, s, &mut rng));
            let given = [outcome.reward, 1.0].into_iter().chain(play.costs.iter().copied());
            running.iter_mut().zip(given).for_each(|(sum, x)| *sum += f64::from(x));
            if outcome.truncated {
                episodes += 1;
                sums.iter_mut().zip(&running).for_each(|(sum, x)| *sum = (sum.0 + x, sum.1 + x * x));
                running.fill(0.0);
            }
        }
        let expected = [exact.reward.total, 1.0 / (1.0 - cmdp.gamma)].into_iter().chain(exact.cost_totals());
        for ((sum, squares), expected) in sums.into_iter().zip(expected) {
            let mean = sum / EPISODES as f64;
            let error = ((squares / EPISODES as f64 - mean * mean) / EPISODES as f64).sqrt();
            assert!((mean - expected).abs() <= 4.0 * error, "{}: {mean} is not {expected} ± {error}", cmdp.name);
        }
        // The states of a batch follow d^pi; they come in episodes, so a share's error is that of far fewer draws.
        for (count, d) in seen.iter().zip(&exact.visits) {
            let error = (d * (1.0 - d).max(0.0) / EPISODES as f64).sqrt();
            assert!((count / steps - d).abs() <= 4.0 * error + 1e-9, "{}: {} is not {d}", cmdp.name, count / steps);
        }
    }
}

#[test]
fn a_world_is_described_by_its_cmdp() {
    let env = TabularEnv::new(Arc::new(instances::grid().cmdp));
    let spec = env.spec();
    assert_eq!((spec.name.as_str(), spec.obs_dim, spec.horizon), ("TabularE", 16, 600));
    let costs: Vec<(&str, f64)> = spec.costs.iter().map(|c| (c.name.as_str(), c.limit)).collect();
    assert_eq!(costs, [("cost1", 0.1), ("cost2", 0.1)]);
}

#[test]
fn no_step_terminates_and_the_clock_truncates() {
    let mut play = Play::new(&instances::dial().cmdp, 1);
    let ends = (0..2000).filter(|_| {
        let outcome = play.step(1);
        assert!(!outcome.terminated);
        outcome.truncated
    });
    // One in ten, with a standard deviation of 13.
    assert!((140..=260).contains(&ends.count()));
}

#[test]
fn a_restored_world_goes_on_with_the_same_bits() {
    let make = || TabularEnv::new(Arc::new(instances::grid().cmdp));
    let (mut first, mut second) = (make(), make());
    let (mut obs, mut costs) = (vec![0.0; 16], vec![0.0; 2]);
    first.reset(7, &mut obs);
    (0..5).for_each(|_| _ = first.step(&[1.0], &mut obs, &mut costs));
    second.restore(&first.snapshot().unwrap()).unwrap();
    let mut play = |env: &mut TabularEnv| -> Vec<(Vec<f32>, bool)> {
        (0..200)
            .map(|i| (env.step(&[(i % 4) as f32], &mut obs, &mut costs), obs.clone()))
            .map(|(o, x)| (x, o.truncated))
            .collect()
    };
    assert_eq!(play(&mut first), play(&mut second));
}

#[test]
fn a_snapshot_of_another_cmdp_is_refused() {
    let a = TabularEnv::new(Arc::new(instances::dial().cmdp));
    let mut b = TabularEnv::new(Arc::new(instances::grid().cmdp));
    let error = b.restore(&a.snapshot().unwrap()).unwrap_err().to_string();
    assert!(error.contains("TabularE") && error.contains("TabularA"), "{error}");
}
