//! P3O learns: it earns what the limits allow and keeps to them, where PPO does not.

use crate::util::{Given, Script, on_threads, set_if_known, small};
use p3o::run::named_task;
use p3o::{Learner, Method, Request};
use p3o_env::ActionSpace;

/// Episodes of five steps that all look alike.
const STEPS: usize = 5;

const SEEDS: u64 = 2;

fn world(
    action: ActionSpace,
    costs: &[&str],
    rule: impl Fn(&[f32]) -> (f32, Vec<f32>) + Send + Sync + 'static,
) -> Script {
    Script::new(action, costs, STEPS, vec![1.0], move |step, action| {
        let (reward, costs) = rule(action);
        Given { obs: vec![1.0], reward, costs, terminated: step == STEPS, truncated: false }
    })
}

/// Mean return and costs of an episode over the last tenth of the updates.
fn train(algo: &str, world: &Script, updates: usize, seed: u64, limits: &[&str]) -> (f64, Vec<f64>) {
    train_to(algo, world, updates, updates / 10, seed, limits)
}

/// The same over so many of the last updates.
fn train_to(algo: &str, world: &Script, updates: usize, last: usize, seed: u64, limits: &[&str]) -> (f64, Vec<f64>) {
    let seed = format!("run.seed={seed}");
    let changes = [
        &seed,
        "rollout.envs=8",
        "rollout.gamma=0.9",
        "rollout.cost_gamma=0.9",
        "net.hidden=[8]",
        "net.log_std=-1.5",
        "critic.learning_rate=1e-2",
        "critic.passes=10",
    ];
    let mut config = small(algo, &world.spec, &changes);
    ["policy.learning_rate=1e-3", "policy.passes=10", "p3o.kappa=2"]
        .iter()
        .for_each(|change| set_if_known(&mut config, change));
    limits.iter().for_each(|change| config.set(change).unwrap());
    on_threads(1, || {
        let mut learner = Learner::new(config, &world.maker()).unwrap();
        let reports: Vec<_> = (0..updates).map(|_| learner.update().unwrap()).collect();
        let last = &reports[updates - last..];
        let mean = |pick: &dyn Fn(&p3o::Report) -> f64| last.iter().map(pick).sum::<f64>() / last.len() as f64;
        (mean(&|r| r.ret), (0..world.spec.costs.len()).map(|i| mean(&|r| r.costs[i])).collect())
    })
}

/// One action a in [-1, 1] per step: reward a, cost a^2.
fn effort() -> Script {
    world(ActionSpace::Continuous { dim: 1 }, &["effort"], |action| {
        let a = action[0].clamp(-1.0, 1.0);
        (a, vec![a * a])
    })
}

/// Two choices: nothing, or a reward of 1 at a cost of 1.
fn temptation() -> Script {
    world(ActionSpace::Discrete { n: 2 }, &["risk"], |action| (action[0], vec![action[0]]))
}

#[test]
fn a_binding_limit_is_kept_and_used() {
    // Five steps may cost 1.25, so 0.25 each: the best is a = 0.5 without spread, a return of 2.5. Unbounded it is a = 1.
    for seed in 0..SEEDS {
        let (earned, costs) = train("p3o", &effort(), 300, seed, &["limits.effort=1.25"]);
        assert!(costs[0] <= 1.25 && earned >= 2.4, "seed {seed}: earned {earned} at {costs:?}");
        let (earned, costs) = train("ppo", &effort(), 300, seed, &["limits.effort=1.25"]);
        assert!(costs[0] > 4.5 && earned > 4.5, "seed {seed}: PPO earned {earned} at {costs:?}");
    }
}

#[test]
fn every_algorithm_keeps_a_binding_limit_and_uses_it() {
    // The best is 2.5 at 1.25, as above. A barrier with t = 20 stays a little away from the limit.
    for algo in ["focops", "ipo", "cpo", "pcpo"] {
        let changes: &[&str] = match algo {
            "focops" => &["limits.effort=1.25", "focops.multiplier_rate=0.01"],
            _ => &["limits.effort=1.25"],
        };
        let (earned, costs) = train(algo, &effort(), 300, 0, changes);
        assert!(costs[0] <= 1.3 && earned >= 2.2, "{algo} earned {earned} at {costs:?}");
    }
    let (earned, costs) = train("trpo", &effort(), 300, 0, &["limits.effort=1.25"]);
    assert!(costs[0] > 4.0 && earned > 4.0, "TRPO earned {earned} at {costs:?}");
}

#[test]
fn multipliers_hold_the_cost_around_its_limit() {
    // Their costs swing around the limit of 1.25, and so are judged over half of the updates. Without one it is 5.
    for algo in ["ppo-lag", "trpo-lag"] {
        let rate = format!("{algo}.multiplier_rate=0.02");
        let changes = ["limits.effort=1.25", &rate, "policy.target_kl=0.003"];
        let (earned, costs) = train_to(algo, &effort(), 300, 150, 0, &changes);
        assert!(costs[0] > 0.6 && costs[0] < 1.7 && earned > 1.5, "{algo} earned {earned} at {costs:?}");
    }
}

#[test]
fn two_limits_are_kept_and_used_at_once() {
    // 1.25 and 0.45 over five steps are 0.25 and 0.09 each: the best is a = 0.5 and b = 0.3, a return of 5 * 0.8 = 4.
    let both = world(ActionSpace::Continuous { dim: 2 }, &["left", "right"], |action| {
        let [a, b] = [action[0], action[1]].map(|a| a.clamp(-1.0, 1.0));
        (a + b, vec![a * a, b * b])
    });
    let limits = ["limits.left=1.25", "limits.right=0.45"];
    for seed in 0..SEEDS {
        let (earned, costs) = train("p3o", &both, 300, seed, &limits);
        assert!(costs[0] <= 1.25 && costs[1] <= 0.45, "seed {seed}: {costs:?}");
        assert!(earned >= 3.75, "seed {seed}: earned {earned} at {costs:?}");
        let (_, costs) = train("ppo", &both, 300, seed, &limits);
        assert!(costs[0] > 4.5 && costs[1] > 4.5, "seed {seed}: PPO at {costs:?}");
    }
}

#[test]
fn a_limit_on_choices_is_kept_and_used() {
    // A return of 1.5 costs 1.5, the limit; PPO always takes the reward: 5.
    for seed in 0..SEEDS {
        let (earned, costs) = train("p3o", &temptation(), 150, seed, &["limits.risk=1.5", "p3o.kappa=5"]);
        assert!(costs[0] <= 1.5 && earned >= 1.3, "seed {seed}: earned {earned} at {costs:?}");
        let (_, costs) = train("ppo", &temptation(), 150, seed, &["limits.risk=1.5"]);
        assert!(costs[0] > 4.9, "seed {seed}: PPO at {costs:?}");
    }
}

#[test]
fn the_penalty_is_exact_above_the_multiplier_and_fails_below_it() {
    // Reward and cost are the same number here, and so are their standardised advantages: the multiplier of the limit
    // is one. With half of it the reward wins whatever the cost; with twice it the limit holds up to the noise of a batch.
    for seed in 0..SEEDS {
        let at = |kappa: &str| train("p3o", &temptation(), 150, seed, &["limits.risk=1.5", kappa]).1[0];
        let (below, above) = (at("p3o.kappa=0.5"), at("p3o.kappa=2"));
        assert!(below > 4.5, "seed {seed}: a cost of {below} under a penalty that is too small");
        assert!((above - 1.5).abs() < 0.08, "seed {seed}: a cost of {above} for a limit of 1.5");
    }
}

/// With a Glorot head Adam's first step leaves the trust region at once, and one pass of 80 is made (a KL of 0.21 on PointGoal, 0.56 on
/// PointGather, 0.12 on AntCircle).
#[test]
fn the_first_update_of_the_papers_preset_makes_passes_on_every_task_of_the_paper() {
    let of_the_paper = ["PointGoal", "Navigation", "AntCircle", "PointCircle", "PointGather", "SimpleSpread"];
    for task in p3o_env::TASKS.iter().filter(|task| of_the_paper.contains(&task.name)) {
        let method = Method::named(if task.has_team() { "map3o" } else { "p3o" }).unwrap();
        let set = ["policy.passes=6", "critic.passes=1"].map(String::from).to_vec();
        let request = Request { preset: "paper".into(), set, seed: Some(1000), ..Request::new(task.name, method) };
        let config = request.resolve().unwrap().config;
        let make = named_task(&config).unwrap();
        let passes = Learner::new(config, &*make).unwrap().update().unwrap().passes;
        assert!(passes.kl < 0.05, "{}: a KL of {}", task.name, passes.kl);
        assert!(passes.steps >= 5, "{}: {} passes", task.name, passes.steps);
    }
}
