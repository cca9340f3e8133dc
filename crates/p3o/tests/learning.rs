//! P3O learns: it earns what the limits allow and keeps to them, where PPO does not.

use crate::util::{Given, Script, on_threads, small};
use p3o::Learner;
use p3o_env::ActionSpace;

/// Episodes of five steps that all look alike.
const STEPS: usize = 5;

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
    let seed = format!("seed={seed}");
    let changes = [
        &seed,
        "rollout.envs=8",
        "rollout.gamma=0.9",
        "net.hidden=[8]",
        "net.log_std=-1.5",
        "algo.learning_rate=3e-3",
        "algo.passes=10",
        "critic.learning_rate=1e-2",
        "critic.passes=10",
    ];
    let config = small(algo, &world.spec, &[&changes, limits].concat());
    on_threads(1, || {
        let mut learner = Learner::new(config, &world.maker()).unwrap();
        let reports: Vec<_> = (0..updates).map(|_| learner.update().unwrap()).collect();
        let last = &reports[updates - updates / 10..];
        let mean = |pick: &dyn Fn(&p3o::Report) -> f64| last.iter().map(pick).sum::<f64>() / last.len() as f64;
        (mean(&|r| r.ret), (0..world.spec.costs.len()).map(|i| mean(&|r| r.costs[i])).collect())
    })
}

#[test]
fn zz() {
    let one = world(ActionSpace::Continuous { dim: 1 }, &["effort"], |action| {
        let a = action[0].clamp(-1.0, 1.0);
        (a, vec![a * a])
    });
    let two = world(ActionSpace::Continuous { dim: 2 }, &["left", "right"], |action| {
        let [a, b] = [action[0], action[1]].map(|a| a.clamp(-1.0, 1.0));
        (a + b, vec![a * a, b * b])
    });
    let disc = world(ActionSpace::Discrete { n: 2 }, &["risk"], |action| (action[0], vec![action[0]]));
    for (name, w, l) in [("one", &one, &["limits.effort=1.25"][..]), ("two", &two, &["limits.left=1.25", "limits.right=0.45"]), ("disc", &disc, &["limits.risk=1.5"])] {
        for updates in [100, 200, 400] {
            for seed in 0..4 {
                let t = std::time::Instant::now();
                let p = train("p3o", w, updates, seed, l);
                let q = train("ppo", w, updates, seed, l);
                println!("{name} {updates} {seed} p3o {p:.3?} ppo {q:.3?} {:.2} s", t.elapsed().as_secs_f64());
            }
        }
    }
}
