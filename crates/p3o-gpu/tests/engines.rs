//! The engine on a device learns what the engine in host memory learns. Without a device, its stand-in shows that everything
//! around the kernels is right; with one (`--features gpu-tests`), the kernels are shown too.

use p3o::engine::{Engine, Networks, on_cpu};
use p3o::run::named_task;
use p3o::{Config, Learner, Method, Report, Request};
use p3o_gpu::device::Device;
use p3o_gpu::engine::DeviceEngine;
use p3o_gpu::host::Host;

/// Small networks, whole batches and mini-batches, all kinds of loss, both kinds of actions, normalised critics.
const RUNS: &[(&str, &str, &[&str])] = &[
    ("p3o", "PointGoal", &["policy.entropy=0.01"]),
    ("p3o", "PointGoal", &["policy.minibatch=96", "critic.minibatch=64"]),
    ("p3o", "Navigation", &["p3o.kappa_growth=1.05", "p3o.kappa=20", "critic.normalize=true"]),
    ("p3o", "PointCircle", &["net.activation=relu", "net.hidden=[33,70]"]),
    ("ppo", "PointGoal", &[]),
    ("ppo-lag", "PointGoal", &[]),
    ("focops", "PointGoal", &[]),
    ("ipo", "PointGoal", &[]),
    ("trpo", "PointGoal", &[]),
    ("trpo-lag", "PointGoal", &[]),
    ("cpo", "PointGoal", &[]),
    ("pcpo", "PointGoal", &[]),
    ("p3o", "SimpleSpread", &["policy.entropy=0.01"]),
    ("cpo", "SimpleSpread", &[]),
    ("map3o", "SimpleSpread", &["net.gru=0"]),
    ("map3o-dec", "SimpleSpread", &["net.gru=0"]),
];

fn config(algo: &str, task: &str, changes: &[&str]) -> Config {
    let small = ["rollout.envs=4", "rollout.batch=400", "net.hidden=[24,16]", "rollout.normalize_obs=true"];
    let first_order = ["policy.passes=4", "critic.passes=4", "policy.minibatch=0", "critic.minibatch=0"];
    let set = small.iter().chain(&first_order).chain(changes).map(|s| s.to_string()).collect();
    let request = Request { set, seed: Some(3), shared: true, ..Request::new(task, Method::named(algo).unwrap()) };
    request.resolve().unwrap_or_else(|e| panic!("{algo} {task}: {e}")).config
}

/// A KL near zero is a difference of numbers near one in single precision.
const ROUNDING: f64 = 1e-7;

type Maker = dyn Fn() -> Result<Box<dyn Device>, String>;

fn learner(config: &Config, device: Option<&Maker>) -> Learner {
    let make = named_task(config).unwrap();
    let engines = |networks: Networks, several: bool| -> Result<Box<dyn Engine>, String> {
        match device {
            None => on_cpu(networks, several),
            Some(device) => Ok(Box::new(DeviceEngine::new(networks, device)?)),
        }
    };
    // The maker must own what it needs.
    let learner = Learner::with_engines(config.clone(), &*make, &engines);
    learner.unwrap_or_else(|e| panic!("{e}"))
}

/// The figures of an update that do not depend on time, by name.
fn figures(r: &Report) -> Vec<(&'static str, f64)> {
    let p = &r.passes;
    vec![
        ("return", r.ret),
        ("entropy", r.entropy),
        ("passes", p.steps as f64),
        ("loss", p.loss),
        ("kl", p.kl),
        ("norm", p.gradient_norm),
        ("critic", r.critic_losses[0]),
        ("explained", r.explained[0]),
    ]
}

/// The first update starts from the same networks: all that differs is rounding. Later ones see other worlds.
fn compare(device: &Maker) {
    for (algo, task, changes) in RUNS {
        let config = config(algo, task, changes);
        // Conjugate gradients amplify the rounding of the products with an ill-conditioned matrix.
        let second_order = ["trpo", "trpo-lag", "cpo", "pcpo"].contains(algo);
        let (near, share) = if second_order { (1e-2, 0.1) } else { (2e-4, 0.02) };
        let (mut host, mut other) = (learner(&config, None), learner(&config, Some(device)));
        let (a, b) = (host.update().unwrap(), other.update().unwrap_or_else(|e| panic!("{algo} {task}: {e}")));
        for ((name, a), (_, b)) in figures(&a).into_iter().zip(figures(&b)) {
            let same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= near * a.abs().max(b.abs()) + ROUNDING;
            assert!(same, "{algo} {task} {changes:?}: {name} is {b} on the device and {a} on the host");
        }
        let parameters = |learner: &Learner| learner.policy().parameters();
        let (a, b) = (parameters(&host), parameters(&other));
        let (start, scale) = (parameters(&learner(&config, None)), a.iter().fold(0f32, |m, x| m.max(x.abs())));
        let moved = a.iter().zip(&start).fold(0f32, |m, (a, s)| m.max((a - s).abs()));
        let apart = a.iter().zip(&b).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(moved > 1e-4 * scale, "{algo} {task}: nothing was learnt");
        assert!(apart <= share * moved, "{algo} {task} {changes:?}: apart by {apart}, after moving by {moved}");
    }
}

#[test]
fn a_stand_in_learns_what_the_host_learns() {
    compare(&|| Ok(Box::new(Host::default())));
}

#[test]
fn a_device_that_fails_ends_the_update_in_a_sentence() {
    let config = config("p3o", "PointGoal", &[]);
    for after in [0, 5, 30] {
        let device: &Maker = &move || Ok(Box::new(Host::failing_after(after)));
        let mut learner = learner(&config, Some(device));
        let error = learner.update().unwrap_err().to_string();
        assert!(error.contains("the stand-in was told to fail") && error.contains("checkpoint is intact"), "{error}");
    }
}

#[test]
fn a_recurrent_network_is_refused_in_a_sentence() {
    let config = config("map3o", "SimpleSpread", &["net.gru=8"]);
    let make = named_task(&config).unwrap();
    let engines = |networks: Networks, _: bool| -> Result<Box<dyn Engine>, String> {
        Ok(Box::new(DeviceEngine::new(networks, &|| Ok(Box::new(Host::default())))?))
    };
    let error = Learner::with_engines(config, &*make, &engines).err().expect("it cannot learn there");
    assert_eq!(error.to_string(), "recurrent networks (net.gru) learn on the CPU alone");
}

#[cfg(feature = "gpu-tests")]
mod on_a_gpu {
    use super::*;
    use p3o_gpu::cuda::Cuda;

    #[test]
    fn a_gpu_learns_what_the_host_learns() {
        compare(&|| Ok(Box::new(Cuda::open(0)?)));
    }

    #[test]
    fn a_gpu_comes_to_the_same_bits_every_time() {
        for (algo, task, changes) in RUNS {
            let config = config(algo, task, changes);
            let device: &Maker = &|| Ok(Box::new(Cuda::open(0)?));
            let run = || {
                let mut learner = learner(&config, Some(device));
                (0..3).for_each(|_| drop(learner.update().unwrap()));
                learner.policy().parameters()
            };
            assert!(run() == run(), "{algo} {task} {changes:?}");
        }
    }
}
