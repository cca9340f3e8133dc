//! Termination is not truncation, episodes may outlast batches, and a world that breaks is named.

use crate::util::{Given, Script, one_line, small};
use p3o::{Config, Error, Learner, Run, checkpoint};
use p3o_env::{ActionSpace, Env};
use safetensors::SafeTensors;
use std::cell::Cell;
use std::ops::ControlFlow;

const ONE: ActionSpace = ActionSpace::Continuous { dim: 1 };

/// A ring of three states, each seen as its own unit vector; every step gives reward 1 and cost 2. After three steps the
/// episode ends: by itself, or by the clock.
fn ring(terminates: bool) -> Script {
    let unit = |state: usize| (0..3).map(|i| if i == state { 1.0 } else { 0.0 }).collect::<Vec<f32>>();
    Script::new(ONE, &["risk"], 3, unit(0), move |step, _| Given {
        obs: unit(step % 3),
        reward: 1.0,
        costs: vec![2.0],
        terminated: terminates && step == 3,
        truncated: !terminates && step == 3,
    })
}

/// The values that a linear critic has found for the three states.
fn learned_values(world: &Script, extra: &str) -> [[f32; 3]; 2] {
    // Batches of 5 steps per environment cut every second episode in the middle.
    let changes = [
        "rollout.envs=2",
        "rollout.batch=10",
        "rollout.gamma=0.5",
        "rollout.cost_gamma=0.5",
        "net.hidden=[]",
        "critic.learning_rate=0.02",
        "critic.passes=20",
        extra,
    ];
    let mut learner = Learner::new(small("p3o", &world.spec, &changes), &world.maker()).unwrap();
    (0..200).for_each(|_| drop(learner.update().unwrap()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    checkpoint::save(&mut learner, &path).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let read = |name: String| -> Vec<f32> {
        let data = tensors.tensor(&name).unwrap().data().to_vec();
        data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    ["critic.reward", "critic.cost.risk"].map(|critic| {
        let (weights, bias) = (read(format!("{critic}.0.weight")), read(format!("{critic}.0.bias")));
        [0, 1, 2].map(|state| weights[state] + bias[0])
    })
}

fn check_values(world: &Script, expected: [f32; 3]) {
    check_values_with(world, "rollout.bootstrap=true", expected);
}

fn check_values_with(world: &Script, setting: &str, expected: [f32; 3]) {
    let [reward, cost] = learned_values(world, setting);
    for state in 0..3 {
        assert!((reward[state] - expected[state]).abs() < 1e-3, "{reward:?} is not {expected:?}");
        // The cost is twice the reward.
        assert!((cost[state] - 2.0 * expected[state]).abs() < 2e-3, "{cost:?} is not twice {expected:?}");
    }
}

#[test]
fn after_a_termination_nothing_follows() {
    // gamma 1/2: V_2 = 1, V_1 = 1 + V_2 / 2 = 1.5, V_0 = 1 + V_1 / 2 = 1.75.
    check_values(&ring(true), [1.75, 1.5, 1.0]);
}

#[test]
fn after_a_truncation_the_future_has_its_value() {
    // The clock changes nothing about the ring: V = 1 + V / 2 = 2 everywhere.
    check_values(&ring(false), [2.0, 2.0, 2.0]);
}

#[test]
fn without_bootstrap_the_clocks_end_is_the_end() {
    // As after a termination; where a batch cuts an episode, the rest of it still counts.
    check_values_with(&ring(false), "rollout.bootstrap=false", [1.75, 1.5, 1.0]);
}

#[test]
fn a_termination_on_the_last_tick_is_a_termination() {
    let mut world = ring(true);
    let play = world.play.clone();
    world.play = std::sync::Arc::new(move |step, action| {
        let given = play(step, action);
        Given { truncated: given.terminated, ..given }
    });
    check_values(&world, [1.75, 1.5, 1.0]);
}

/// One batch of four steps of the ring that terminates, in which every observation is zero and so worth zero to a fresh
/// critic: its first loss is the mean squared target.
fn first_batch(changes: &[&str]) -> p3o::Report {
    let mut world = ring(true);
    (world.first, world.spec.obs_dim) = (vec![0.0], 1);
    let play = world.play.clone();
    world.play = std::sync::Arc::new(move |step, action| Given { obs: vec![0.0], ..play(step, action) });
    let fixed = ["rollout.envs=1", "rollout.batch=4", "rollout.gamma=0.5", "rollout.cost_gamma=0.25"];
    let config = small("p3o", &world.spec, &[&fixed, changes].concat());
    Learner::new(config, &world.maker()).unwrap().update().unwrap()
}

#[test]
fn targets_of_a_first_batch_by_hand() {
    // Reward 1, gamma 1/2: targets 1.75, 1.5, 1 and, cut by the batch, 1 + 0 / 2; (3.0625 + 2.25 + 1 + 1) / 4 = 1.828125.
    // Cost 2, gamma 1/4: 2 + 2.5 / 4 = 2.625, 2.5, 2 and 2; (6.890625 + 6.25 + 4 + 4) / 4 = 5.28515625.
    let report = first_batch(&["critic.target=return"]);
    assert_eq!(report.critic_losses, [1.828125, 5.28515625]);
    assert_eq!((report.episodes, report.ret, report.length), (1, 3.0, 3.0));
    assert_eq!((&report.costs[..], &report.costs_per_step[..]), (&[6.0][..], &[2.0][..]));
}

#[test]
fn lambda_targets_of_a_first_batch_by_hand() {
    // Value plus advantage with value zero. Reward, gamma lambda = 1/4: 1 + 1.25 / 4 = 1.3125, 1.25, 1 and 1;
    // (1.72265625 + 1.5625 + 1 + 1) / 4 = 1.3212890625. Cost, lambda 0: the cost of the step alone, 2^2 = 4.
    let report = first_batch(&["critic.target=lambda", "rollout.lambda=0.5", "rollout.cost_lambda=0"]);
    assert_eq!(report.critic_losses, [1.3212890625, 4.0]);
}

/// Episodes of 100 steps, for batches of 40. A step costs 1/4 up to the 40th and 1/2 after it: 40 in all.
fn long_episodes() -> Script {
    Script::new(ONE, &["risk"], 100, vec![1.0], |step, _| Given {
        obs: vec![1.0],
        reward: 1.0,
        costs: vec![if step <= 40 { 0.25 } else { 0.5 }],
        terminated: false,
        truncated: step == 100,
    })
}

#[test]
fn the_last_known_episode_cost_stands_until_another_episode_ends() {
    let world = long_episodes();
    let changes = ["rollout.envs=1", "rollout.batch=40", "limits.risk=30", "constraint.form=raw"];
    let mut learner = Learner::new(small("p3o", &world.spec, &changes), &world.maker()).unwrap();
    // Batch 1 costs 1/4 per step and no episode is known: J = 100 / 4 = 25 stands in, (25 - 30) / 100 = -0.05.
    // Batch 2 costs 1/2: (50 - 30) / 100 = 0.2. In batch 3, steps 81 to 100 and 1 to 20, an episode ends: 20 / 2 + 20 / 4 =
    // 15 in 40 steps, (40 - 30) / 100 = 0.1. Batch 4 is steps 21 to 60: 20 / 4 + 20 / 2 again, no end, and the last known
    // J = 40 stands: 0.1. Batch 5 is steps 61 to 100: 1/2 per step, and another end.
    let expected = [(0, 0.25, -0.05), (0, 0.5, 0.2), (1, 0.375, 0.1), (0, 0.375, 0.1), (1, 0.5, 0.1)];
    for (batch, (episodes, per_step, offset)) in expected.into_iter().enumerate() {
        let report = learner.update().unwrap();
        assert_eq!(report.episodes, episodes, "batch {}", batch + 1);
        assert_eq!(report.costs_per_step, [per_step], "batch {}", batch + 1);
        assert!((report.offsets[0] - offset).abs() < 1e-12, "batch {}: {}", batch + 1, report.offsets[0]);
        // Means over no episodes are NaN; others are those of the episodes.
        let known = if episodes == 0 { f64::NAN } else { 40.0 };
        assert!(report.costs[0] == known || (report.costs[0].is_nan() && known.is_nan()), "batch {}", batch + 1);
        assert_eq!(report.ret.is_nan(), episodes == 0);
    }
}

/// Offset and J_C - d of five batches of 40 steps against a limit of 30.
fn five_batches(changes: &[&str]) -> Vec<(f64, f64)> {
    let world = long_episodes();
    let fixed = ["rollout.envs=1", "rollout.batch=40", "limits.risk=30"];
    let config = small("p3o", &world.spec, &[&fixed, changes].concat());
    let mut learner = Learner::new(config, &world.maker()).unwrap();
    let reports = (0..5).map(|_| learner.update().unwrap());
    reports.map(|report| (report.offsets[0], report.excess[0])).collect()
}

#[test]
fn a_cost_estimated_from_steps_does_not_wait_for_an_episode_to_end() {
    // The batches cost 1/4, 1/2, 3/8, 3/8 and 1/2 per step, so 25, 50, 37.5, 37.5 and 50 in an episode of 100 steps.
    let expected = [-5.0, 20.0, 7.5, 7.5, 20.0];
    for form in ["constraint.form=per_step", "constraint.form=scaled"] {
        for ((offset, excess), expected) in five_batches(&[form]).into_iter().zip(expected) {
            assert!((excess - expected).abs() < 1e-10, "{form}: {excess} is not {expected}");
            // The offset is that in another unit.
            assert_eq!(offset > 0.0, excess > 0.0, "{form}: {offset}");
        }
    }
}

#[test]
fn a_cost_estimated_from_episodes_stands_until_another_one_ends() {
    // 25 and 50 stand in for the first episode, as above; then it is 40. (1 - 0.99)(J - d) and (J - d) / 100 are the same.
    let expected = [-5.0, 20.0, 10.0, 10.0, 10.0];
    for form in ["constraint.form=literal", "constraint.form=raw"] {
        for ((offset, excess), expected) in five_batches(&[form]).into_iter().zip(expected) {
            assert!((excess - expected).abs() < 1e-10, "{form}: {excess} is not {expected}");
            assert!((offset - expected / 100.0).abs() < 1e-12, "{form}: {offset}");
        }
    }
}

#[test]
fn a_margin_is_held_back_from_the_limit() {
    // Half of 30 is 15: the episode that ends in the third batch is over by (40 - 15) / 100.
    assert!((five_batches(&["constraint.form=raw", "constraint.margin=0.5"])[2].0 - 0.25).abs() < 1e-12);
}

#[test]
fn a_correction_grows_while_the_cost_is_over_its_limit_and_never_falls_below_zero() {
    // J is 25, 50 and then 40 against 30: a sixth under, two thirds and a third over, which count as a quarter. So 0, 0.1 / 4 =
    // 0.025, 0.05, 0.075 and 0.1 of 30 are added to J - 30.
    let found = five_batches(&["constraint.form=raw", "constraint.correction_rate=0.1"]);
    for ((_, excess), expected) in found.into_iter().zip([-5.0, 20.75, 11.5, 12.25, 13.0]) {
        assert!((excess - expected).abs() < 1e-10, "{excess} is not {expected}");
    }
    // With a margin of a tenth the cost is to come to 27, and a bound holds the correction: 13 + 0.06 * 27 in the end.
    let bounded = ["constraint.correction_max=0.06", "constraint.correction_rate=0.1", "constraint.margin=0.1"];
    let (_, last) = five_batches(&[&["constraint.form=raw"][..], &bounded].concat())[4];
    assert!((last - 14.62).abs() < 1e-10, "{last}");
}

#[test]
fn a_smoothed_cost_keeps_a_share_of_what_it_was() {
    // 25, then (25 + 50) / 2 = 37.5, (37.5 + 40) / 2 = 38.75, 39.375 and 39.6875; 30 off.
    let found = five_batches(&["constraint.form=raw", "constraint.smoothing=0.5"]);
    for ((_, excess), expected) in found.into_iter().zip([-5.0, 7.5, 8.75, 9.375, 9.6875]) {
        assert!((excess - expected).abs() < 1e-10, "{excess} is not {expected}");
    }
}

#[test]
fn episodes_cut_short_to_spread_their_ends_are_not_counted() {
    let world = long_episodes();
    let changes = ["rollout.envs=4", "rollout.batch=160"];
    let mut learner = Learner::new(small("p3o", &world.spec, &changes), &world.maker()).unwrap();
    // The first episodes are cut after 25, 50, 75 and 100 steps; of these only the last is whole. The next ends are after
    // 125, 150, 175 and 200 steps, in the fourth and fifth batch of 40. A part of an episode would cost less than 40.
    for expected in [0, 0, 1, 2, 2] {
        let report = learner.update().unwrap();
        assert_eq!(report.episodes, expected);
        if expected > 0 {
            assert_eq!((report.costs[0], report.length, report.ret), (40.0, 100.0, 100.0));
        }
    }
}

/// What is spoiled, and by which number.
#[derive(Clone, Copy)]
enum Spoil {
    Obs(usize, f32),
    Reward(f32),
    Cost(f32),
}

/// Trains four environments with batches of 10 steps each, of which the last one breaks at a step of its first episode
/// of `length`.
fn break_at(step: usize, spoil: Spoil, length: usize, changes: &[&str]) -> Error {
    let world = |bad: bool| {
        Script::new(ONE, &["fuel", "risk"], length, vec![0.5, 0.5], move |now, action| {
            let mut given = Given {
                obs: vec![action[0], now as f32 / 100.0],
                reward: action[0],
                costs: vec![0.0, action[0].abs()],
                terminated: false,
                truncated: now == length,
            };
            match spoil {
                _ if !bad || now != step => {}
                Spoil::Obs(entry, value) => given.obs[entry] = value,
                Spoil::Reward(value) => given.reward = value,
                Spoil::Cost(value) => given.costs[1] = value,
            }
            given
        })
    };
    // The first world is made to be looked at, the next four are the environments.
    let made = Cell::new(0);
    let make = || -> Box<dyn Env> {
        made.set(made.get() + 1);
        Box::new(world(made.get() == 5))
    };
    let changes = [&["rollout.batch=40"][..], changes].concat();
    let mut learner = Learner::new(small("p3o", &world(false).spec, &changes), &make).unwrap();
    (0..5).find_map(|_| learner.update().err()).expect("the world breaks within five batches")
}

fn check_broken(error: Error, at_update: u64, parts: &[&str]) {
    assert!(matches!(error, Error::NonFinite { update, .. } if update == at_update), "{error}");
    let line = one_line(error);
    for part in parts.iter().chain(&["environment 3"]) {
        assert!(line.contains(part), "{line:?} does not say {part:?}");
    }
}

#[test]
fn a_world_that_breaks_is_named_with_the_place() {
    // Steps of a batch count from zero: the fifth step gives reward and cost 4, and the observation before step 5.
    check_broken(break_at(5, Spoil::Reward(f32::NAN), 1000, &[]), 1, &["reward", "step 4"]);
    check_broken(break_at(5, Spoil::Reward(f32::NEG_INFINITY), 1000, &[]), 1, &["reward", "step 4"]);
    check_broken(break_at(5, Spoil::Cost(f32::NAN), 1000, &[]), 1, &["risk", "step 4"]);
    check_broken(break_at(5, Spoil::Cost(f32::INFINITY), 1000, &[]), 1, &["risk", "step 4"]);
    check_broken(break_at(5, Spoil::Obs(1, f32::NAN), 1000, &[]), 1, &["observation", "step 5", "entry 1"]);
    check_broken(break_at(5, Spoil::Obs(0, f32::INFINITY), 1000, &[]), 1, &["observation", "step 5", "entry 0"]);
    // After the last step of a batch, and after the last of an episode, where only the critics look.
    check_broken(break_at(10, Spoil::Obs(1, f32::NAN), 1000, &[]), 1, &["observation", "step 10", "entry 1"]);
    check_broken(break_at(7, Spoil::Obs(1, f32::NAN), 7, &[]), 1, &["observation", "step 7", "entry 1"]);
}

#[test]
fn the_update_in_which_a_world_breaks_is_named() {
    check_broken(break_at(25, Spoil::Reward(f32::NAN), 1000, &[]), 3, &["reward", "step 4"]);
    check_broken(break_at(25, Spoil::Obs(1, f32::NAN), 1000, &[]), 3, &["observation", "step 5", "entry 1"]);
}

#[test]
fn normalised_observations_hide_nothing() {
    let normal = ["rollout.normalize_obs=true"];
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for (step, place) in [(25, "step 5"), (30, "step 10")] {
            let error = break_at(step, Spoil::Obs(1, value), 1000, &normal);
            check_broken(error, 3, &["observation", place, "entry 1"]);
        }
    }
}

#[test]
fn a_run_in_a_world_that_breaks_leaves_its_last_checkpoint_and_a_note() {
    let world = Script::new(ONE, &["risk"], 1000, vec![1.0], |step, _| Given {
        obs: vec![1.0],
        reward: if step == 35 { f32::NAN } else { 0.0 },
        costs: vec![0.0],
        terminated: false,
        truncated: false,
    });
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    let config = small("p3o", &world.spec, &["rollout.batch=40", "run.checkpoint_every=2"]);
    let mut training = Run::start(config, &world.maker(), &folder).unwrap();
    let error = training.train(&mut |_, _| ControlFlow::Continue(())).unwrap_err();
    let line = one_line(error);
    assert!(line.starts_with("update 4: "), "{line}");
    drop(training);
    let note = std::fs::read_to_string(folder.join("failure.txt")).unwrap();
    assert!(note.starts_with(&line) && note.contains("seed 1"), "{note}");
    let maker = move |_: &Config| -> Result<Box<dyn Fn() -> Box<dyn Env>>, Error> { Ok(Box::new(world.maker())) };
    let resumed = Run::resume(&folder, &maker, None).unwrap();
    let learner = resumed.learner();
    assert_eq!((learner.progress().updates, learner.policy().is_finite()), (2, true));
}
