//! What every task keeps under every value of its options: finite numbers, exact snapshots, seeds that decide all.

use std::collections::{BTreeMap, BTreeSet};

use p3o_env::tasks;
use p3o_env::{ActionSpace, Env, EnvSpec, TASKS, fnv1a};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::util::{Step, bits, frozen, reset, step_by};

/// Each task with its defaults, and with each choice of each option; several agents in both views.
fn variants() -> Vec<(String, Box<dyn Env>)> {
    let mut all = Vec::new();
    for task in TASKS {
        for options in task.variants() {
            let env = tasks::make(task.name, &options).expect("a listed task and option");
            all.push((format!("{} {options:?}", task.name), env));
            if task.has_team() {
                let team = tasks::make_team(task.name, &options).expect("it has several agents");
                all.push((format!("team {} {options:?}", task.name), team));
            }
        }
    }
    all
}

/// Mostly ordinary actions, and some no policy should ever give.
fn wild_action(spec: &EnvSpec, rng: &mut ChaCha8Rng) -> Vec<f32> {
    const WILD: [f32; 8] = [f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e9, -1e9, 1e-40, -0.0];
    let ordinary = |i: usize, rng: &mut ChaCha8Rng| match &spec.action {
        ActionSpace::Continuous { .. } => rng.random_range(-2.0..2.0),
        discrete => rng.random_range(0..discrete.heads()[i % discrete.width()]) as f32,
    };
    (0..spec.action_width())
        .map(|i| if rng.random_range(0..4) == 0 { WILD[rng.random_range(0..8)] } else { ordinary(i, rng) })
        .collect()
}

fn same(a: &Step, b: &Step) -> bool {
    bits(&a.obs) == bits(&b.obs) && bits(&a.costs) == bits(&b.costs) && a.outcome == b.outcome
}

#[test]
fn many_wild_steps_stay_finite() {
    for (name, mut env) in variants() {
        // Most of each task as it comes, fewer where an option changes it.
        let is_plain = name.ends_with("{}");
        // Bodies of many joints are slow.
        let steps = match env.spec().action_width() {
            _ if !is_plain => 10_000,
            8.. => 200_000,
            _ if name.starts_with("Car") => 200_000,
            _ => 1_000_000,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (spec, horizon) = (env.spec().clone(), env.spec().horizon);
        reset(&mut *env, 0);
        let (mut len, mut sums, mut most) = (0, vec![0.0; spec.costs.len()], vec![0.0f64; spec.costs.len()]);
        for i in 0..steps {
            let Step { obs, costs, outcome } = step_by(&mut *env, &wild_action(&spec, &mut rng));
            len += 1;
            assert!(obs.iter().all(|v| v.is_finite()) && outcome.reward.is_finite(), "{name}, step {i}");
            assert!(costs.iter().all(|c| *c == 0.0 || *c == 1.0), "{name}, step {i}: {costs:?}");
            for (i, (cost, x)) in spec.costs.iter().zip(&costs).enumerate() {
                let x = f64::from(*x);
                let greatest = cost.max_per_step.expect("every task knows its greatest cost");
                assert!((0.0..=greatest).contains(&x), "{name}: {} is {x}", cost.name);
                sums[i] += x;
                most[i] = most[i].max(x);
                let all = cost.most_per_episode(horizon).expect("it follows from the steps");
                assert!(
                    all <= greatest * horizon as f64 && sums[i] <= all,
                    "{name}: {} comes to {}",
                    cost.name,
                    sums[i]
                );
            }
            assert!(!(outcome.terminated && outcome.truncated));
            assert!(!outcome.truncated || len == horizon, "{name}: an episode is truncated after {horizon} steps");
            if outcome.terminated || outcome.truncated {
                reset(&mut *env, rng.random());
                len = 0;
                sums.fill(0.0);
            }
            assert!(len < horizon, "{name}: an episode went on after its time");
        }
        if is_plain {
            let bounds: Vec<f64> = spec.costs.iter().filter_map(|cost| cost.max_per_step).collect();
            assert_eq!(most, bounds, "{name}: the bounds of its costs are reached");
        }
    }
}

#[test]
fn a_snapshot_in_mid_episode_continues_bit_for_bit() {
    for ((name, mut env), (_, mut copy)) in variants().into_iter().zip(variants()) {
        let spec = env.spec().clone();
        for seed in 0..20 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            reset(&mut *env, seed);
            for _ in 0..seed {
                step_by(&mut *env, &wild_action(&spec, &mut rng));
            }
            copy.restore(&frozen(&*env)).unwrap_or_else(|e| panic!("{name}: {e}"));
            for i in seed..24 {
                let action = wild_action(&spec, &mut rng);
                let (a, b) = (step_by(&mut *env, &action), step_by(&mut *copy, &action));
                assert!(same(&a, &b), "{name}, seed {seed}, step {i}");
                assert_eq!(frozen(&*env), frozen(&*copy), "{name}, seed {seed}, step {i}");
            }
        }
    }
}

#[test]
fn a_seed_and_actions_decide_every_bit() {
    for ((name, mut env), (_, mut other)) in variants().into_iter().zip(variants()) {
        let spec = env.spec().clone();
        let run = |env: &mut dyn Env, seed: u64| {
            let mut rng = ChaCha8Rng::seed_from_u64(4);
            let mut trace = bits(&reset(env, seed));
            for _ in 0..20 {
                let step = step_by(env, &wild_action(&spec, &mut rng));
                trace.extend(bits(&step.obs).into_iter().chain(bits(&step.costs)));
                trace.push(step.outcome.reward.to_bits());
            }
            (trace, frozen(env))
        };
        run(&mut *other, 3);
        assert!(run(&mut *env, 9) == run(&mut *other, 9), "{name}");
        assert!(run(&mut *env, 9) != run(&mut *other, 10), "{name}");
    }
}

#[test]
fn an_action_that_is_no_number_ends_the_episode_of_every_task() {
    for (name, mut env) in variants() {
        reset(&mut *env, 3);
        let action = vec![f32::NAN; env.spec().action_width()];
        let last = step_by(&mut *env, &action);
        assert!(last.outcome.terminated && !last.outcome.truncated, "{name}");
        assert!(last.outcome.reward.is_nan() && last.obs.iter().any(|v| v.is_nan()), "{name}");
        assert!(last.costs.iter().all(|c| *c == 0.0), "{name}");
        assert!(reset(&mut *env, 4).iter().all(|v| v.is_finite()), "{name}");
    }
}

#[test]
fn snapshots_of_other_tasks_are_refused() {
    let mut all: Vec<Box<dyn Env>> =
        TASKS.iter().map(|task| tasks::make(task.name, &BTreeMap::new()).expect("a listed task")).collect();
    let snapshots: Vec<Vec<u8>> = all.iter().map(|env| frozen(&**env)).collect();
    for (i, env) in all.iter_mut().enumerate() {
        for (j, bytes) in snapshots.iter().enumerate() {
            assert_eq!(env.restore(bytes).is_ok(), i == j);
        }
        assert_eq!(frozen(&**env), snapshots[i]);
    }
}

#[test]
fn snapshots_keep_their_format() {
    // Recorded with the format's first version; another value means that saved runs cannot be continued.
    let recorded = [
        ("PointGoal", None, 0x8667_958e_a513_9874),
        ("Navigation", Some(("layout", 0.0)), 0xfaf1_8489_bb9f_2ce8),
        ("Navigation", None, 0xf6ea_ff7e_d358_afa1),
        ("AntCircle", None, 0xf994_3962_8482_f0ab),
        ("PointCircle", None, 0xbf66_57e9_749a_6942),
        ("PointGather", None, 0x1751_30b9_e716_7f21),
        ("SimpleSpread", None, 0x4962_716a_6b6b_4e53),
        ("CarGoal", None, 0xce7a_279d_e958_9d80),
        ("CarCircle", None, 0xd1d4_4f01_c24e_0565),
        ("PointCircle", Some(("rules", 1.0)), 0x658a_969d_8b95_f2d3),
        ("AntCircle", Some(("rules", 1.0)), 0x7446_bb66_dc33_2968),
        ("PointButton", None, 0x37c6_5d5a_6778_9b75),
        ("CarButton", None, 0x08f7_4776_dc64_349e),
        ("AntVelocity", None, 0xec67_a4bd_733c_acce),
        ("HalfCheetahVelocity", None, 0x9d68_07b9_d5d2_6d53),
        ("HopperVelocity", None, 0x5fec_b95b_0dd8_6ebb),
        ("Walker2dVelocity", None, 0x69a1_3469_2d70_918a),
        ("SwimmerVelocity", None, 0x8cb5_e289_e454_eb1d),
        ("HumanoidVelocity", None, 0x2f8c_dd1e_56d6_f534),
    ];
    let mut other = Vec::new();
    for (name, option, expected) in recorded {
        let options = option.into_iter().map(|(name, value): (&str, f64)| (name.to_owned(), value)).collect();
        let mut env = tasks::make(name, &options).expect("a listed task");
        let action = vec![0.5; env.spec().action_width()];
        reset(&mut *env, 7);
        for _ in 0..10 {
            step_by(&mut *env, &action);
        }
        let found = fnv1a([&frozen(&*env)[..]]);
        if found != expected {
            other.push(format!("{name}: {found:#018x}"));
        }
    }
    assert!(other.is_empty(), "{other:?}");
}

#[test]
fn every_number_has_a_name_of_its_own_and_a_unit() {
    for (name, env) in variants() {
        let (spec, labels) = (env.spec(), env.labels());
        let widths = [spec.obs_dim / spec.agents, spec.action.width()];
        for (labels, width) in [labels.observation, labels.action].iter().zip(widths) {
            let names: BTreeSet<&str> = labels.iter().map(|label| label.name.as_str()).collect();
            assert_eq!((labels.len(), names.len()), (width, width), "{name}: {labels:?}");
            assert!(labels.iter().all(|label| !label.name.is_empty() && !label.unit.is_empty()), "{name}: {labels:?}");
        }
    }
}

/// What is labelled a constant zero is one, wherever the world goes.
#[test]
fn numbers_labelled_zero_are_zero() {
    let mut zeros = 0;
    for (name, mut env) in variants() {
        let (agents, labels) = (env.spec().agents, env.labels().observation);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        reset(&mut *env, 1);
        for _ in 0..20 {
            let action = wild_action(&env.spec().clone(), &mut rng);
            let step = step_by(&mut *env, &action);
            let labels = labels.iter().cycle().take(agents * labels.len());
            for (label, x) in labels.zip(&step.obs).filter(|(label, _)| label.unit == "zero") {
                assert_eq!(*x, 0.0, "{name}: {}", label.name);
                zeros += 1;
            }
        }
    }
    assert!(zeros > 0);
}
