//! The engine on a device learns what the engine in host memory learns. Without a device, its stand-in shows that everything
//! around the kernels is right, and the source of the kernels of whole passes is shown on the CPU (`--features emulation`); with one
//! (`--features gpu-tests`), all kernels are shown.

use p3o::engine::{Engine, Networks, on_cpu};
use p3o::run::named_task;
use p3o::{Config, Learner, Method, Report, Request, checkpoint};
use p3o_gpu::device::{Device, Precision};
use p3o_gpu::engine::DeviceEngine;
use p3o_gpu::host::Host;

/// An algorithm, a task and changes of settings.
type Run = (&'static str, &'static str, &'static [&'static str]);

/// Small networks whose updates are whole passes, of the critics alone where the algorithm is of second order: whole batches and
/// mini-batches, all kinds of loss, both kinds of actions, normalised critics, critics that see other rows than the actor.
const FUSED: &[Run] = &[
    ("p3o", "PointGoal", &["policy.entropy=0.01"]),
    ("p3o", "PointGoal", &["policy.minibatch=96", "critic.minibatch=64"]),
    ("p3o", "PointGoal", &["policy.minibatch=96", "policy.average=2"]),
    ("p3o", "PointGoal", &["policy.average=3"]),
    // The KL ends both before their last pass, as `averages_meet_the_end_of_a_trust_region` shows.
    ("p3o", "PointGoal", ENDS_EARLY[0]),
    ("p3o", "PointGoal", ENDS_EARLY[1]),
    ("p3o", "Navigation", &["p3o.kappa_growth=1.05", "p3o.kappa=20", "critic.normalize=true"]),
    ("p3o", "PointCircle", &["net.activation=relu", "net.hidden=[33,70]"]),
    ("focops", "PointGoal", &[]),
    ("ipo", "PointGoal", &[]),
    ("cpo", "PointGoal", &[]),
    ("p3o", "SimpleSpread", &["policy.entropy=0.01"]),
    ("map3o", "SimpleSpread", &["net.gru=0"]),
];

/// Averages of steps whose descents the KL ends: over whole batches and over mini-batches.
const ENDS_EARLY: [&[&str]; 2] = [
    &["policy.average=3", "policy.passes=40", "policy.target_kl=0.001"],
    &["policy.average=3", "policy.passes=40", "policy.target_kl=0.001", "policy.minibatch=96"],
];

/// Other algorithms and teams; recurrent networks of few units, of as many as one kernel takes and of more, with and without layers
/// before the GRU.
const OTHERS: &[Run] = &[
    ("ppo", "PointGoal", &[]),
    ("ppo-lag", "PointGoal", &[]),
    ("trpo", "PointGoal", &[]),
    ("trpo-lag", "PointGoal", &[]),
    ("pcpo", "PointGoal", &[]),
    ("cpo", "SimpleSpread", &[]),
    ("map3o-dec", "SimpleSpread", &["net.gru=0"]),
    ("map3o", "SimpleSpread", &["net.gru=8", "net.bptt=10", "policy.entropy=0.01"]),
    ("map3o", "SimpleSpread", &["net.gru=8", "net.bptt=4", "policy.minibatch=150", "critic.minibatch=70"]),
    ("map3o", "SimpleSpread", &[]),
    ("map3o", "SimpleSpread", &["policy.minibatch=300", "critic.minibatch=100", "critic.normalize=true"]),
    ("map3o-dec", "SimpleSpread", &["net.gru=8", "net.bptt=5", "net.hidden=[]"]),
    ("map3o-dec", "SimpleSpread", &["policy.minibatch=100", "net.activation=relu", "rollout.batch=200"]),
    ("map3o-dec", "SimpleSpread", &["net.gru=70", "net.bptt=10", "rollout.batch=120"]),
    ("p3o", "PointGoal", &["net.gru=33", "net.bptt=20", "critic.minibatch=64"]),
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
            Some(device) => Ok(Box::new(DeviceEngine::new(networks, device, Precision::Fp32)?)),
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

/// Holds the figures of an update on a device against those in host memory.
fn same(what: &str, a: &Report, b: &Report, near: f64) {
    for ((name, a), (_, b)) in figures(a).into_iter().zip(figures(b)) {
        let same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= near * a.abs().max(b.abs()) + ROUNDING;
        assert!(same, "{what}: {name} is {b} on the device and {a} on the host");
    }
}

/// The first update starts from the same networks: all that differs is rounding. Later ones see other worlds.
fn compare<'a>(device: &Maker, runs: impl IntoIterator<Item = &'a Run>) {
    for (algo, task, changes) in runs {
        let config = config(algo, task, changes);
        // Conjugate gradients amplify the rounding of the products with an ill-conditioned matrix.
        let second_order = ["trpo", "trpo-lag", "cpo", "pcpo"].contains(algo);
        let (near, share) = if second_order { (1e-2, 0.1) } else { (2e-4, 0.02) };
        let (mut host, mut other) = (learner(&config, None), learner(&config, Some(device)));
        let (a, b) = (host.update().unwrap(), other.update().unwrap_or_else(|e| panic!("{algo} {task}: {e}")));
        same(&format!("{algo} {task} {changes:?}"), &a, &b, near);
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
fn averages_meet_the_end_of_a_trust_region() {
    for changes in ENDS_EARLY {
        let config = config("p3o", "PointGoal", changes);
        let steps = learner(&config, None).update().unwrap().passes.steps;
        let all = 40 * if config.policy.minibatch > 0 { 400usize.div_ceil(config.policy.minibatch) } else { 1 };
        assert!(3 < steps && steps < all, "{steps} of {all}");
    }
}

/// Episodes have 25 steps: in batches of 80 steps per environment they go on from one to the next, in those of 50 a batch ends with one.
const CARRIED: &[&[&str]] = &[
    &["net.gru=8", "net.bptt=10", "rollout.batch=200"],
    &["net.gru=8", "net.bptt=10", "rollout.batch=320"],
    &[
        "net.gru=20",
        "net.bptt=20",
        "rollout.batch=320",
        "policy.minibatch=120",
        "critic.minibatch=100",
        "critic.normalize=true",
    ],
];

/// Where nothing is learnt, later updates see the same worlds too, and the critics' values depend on the states that they were left
/// in. In the third update each side goes on from the other's checkpoint.
fn carry_over(device: &Maker) {
    let home = tempfile::tempdir().unwrap();
    for (algo, changes) in ["map3o", "map3o-dec"].iter().flat_map(|algo| CARRIED.iter().map(move |c| (algo, c))) {
        let fixed = ["policy.learning_rate=0", "critic.learning_rate=0"];
        let config = config(algo, "SimpleSpread", &[changes, &fixed[..]].concat());
        let (mut host, mut other) = (learner(&config, None), learner(&config, Some(device)));
        for update in 1..=3 {
            let (a, b) = (host.update().unwrap(), other.update().unwrap());
            same(&format!("{algo} {changes:?}, update {update}"), &a, &b, 2e-4);
            if update == 2 {
                let [of_host, of_other] = ["host", "other"].map(|name| home.path().join(name));
                checkpoint::save(&mut host, &of_host).unwrap();
                checkpoint::save(&mut other, &of_other).unwrap();
                (host, other) = (learner(&config, None), learner(&config, Some(device)));
                assert!(checkpoint::load(&mut host, &of_other).unwrap());
                assert!(checkpoint::load(&mut other, &of_host).unwrap());
            }
        }
    }
}

#[test]
fn a_stand_in_learns_what_the_host_learns() {
    compare(&|| Ok(Box::new(Host::default())), FUSED.iter().chain(OTHERS));
}

#[test]
fn a_device_that_fails_ends_the_update_in_a_sentence() {
    let configs = [config("p3o", "PointGoal", &[]), config("map3o", "SimpleSpread", &["net.gru=8"])];
    for (config, after) in configs.iter().flat_map(|config| [0, 5, 30, 60].map(|after| (config, after))) {
        let device: &Maker = &move || Ok(Box::new(Host::failing_after(after)));
        let mut learner = learner(config, Some(device));
        let error = learner.update().unwrap_err().to_string();
        assert!(error.contains("the stand-in was told to fail") && error.contains("checkpoint is intact"), "{error}");
    }
}

#[test]
fn a_stand_in_keeps_the_states_of_critics_as_the_host_does() {
    carry_over(&|| Ok(Box::new(Host::default())));
}

/// Feed-forward networks: those that learn by whole passes where a device can make them, and those that learn layer by layer.
const FEED_FORWARD: &[(&str, &str, &[&str])] = &[
    ("p3o", "PointGoal", &[]),
    ("p3o", "PointGoal", &["policy.minibatch=96", "critic.minibatch=64", "critic.normalize=true"]),
    ("p3o", "Navigation", &["critic.normalize=true"]),
    ("trpo-lag", "PointGoal", &["critic.normalize=true"]),
    ("map3o-dec", "SimpleSpread", &["net.gru=0"]),
    ("p3o", "PointGoal", &["policy.minibatch=96", "policy.average=2"]),
    ("map3o-dec", "SimpleSpread", &["net.gru=8", "net.bptt=5", "policy.average=2"]),
    ("p3o", "PointGoal", &["net.hidden=[300]", "policy.passes=2", "critic.passes=2"]),
];

/// A run that stops after two updates and goes on is the same run, to the byte, and so is one that never saved anything before.
fn resume(device: &Maker, runs: &[(&str, &str, &[&str])]) {
    let home = tempfile::tempdir().unwrap();
    for (algo, task, changes) in runs {
        let config = config(algo, task, changes);
        let at = |name: &str| home.path().join(name);
        let bytes = |learner: &mut Learner, name: &str| {
            checkpoint::save(learner, &at(name)).unwrap();
            std::fs::read(at(name)).unwrap()
        };
        let mut straight = learner(&config, Some(device));
        (0..2).for_each(|_| drop(straight.update().unwrap()));
        let stopped = bytes(&mut straight, "stopped");
        let mut resumed = learner(&config, Some(device));
        assert!(checkpoint::load(&mut resumed, &at("stopped")).unwrap());
        assert!(bytes(&mut resumed, "loaded") == stopped, "{algo} {changes:?}");
        for learner in [&mut straight, &mut resumed] {
            learner.update().unwrap();
        }
        let end = bytes(&mut straight, "straight");
        assert!(bytes(&mut resumed, "resumed") == end, "{algo} {changes:?}");
        let mut unsaved = learner(&config, Some(device));
        (0..3).for_each(|_| drop(unsaved.update().unwrap()));
        assert!(bytes(&mut unsaved, "unsaved") == end, "{algo} {changes:?}");
    }
}

/// The same for all kinds of networks.
fn resume_all(device: &Maker) {
    let carried = ["map3o", "map3o-dec"].iter().flat_map(|algo| CARRIED.iter().map(|c| (*algo, "SimpleSpread", *c)));
    resume(device, &carried.chain(FEED_FORWARD.iter().copied()).collect::<Vec<_>>());
}

#[test]
fn a_stand_in_goes_on_from_a_checkpoint_to_the_same_bytes() {
    resume_all(&|| Ok(Box::new(Host::default())));
}

#[cfg(feature = "emulation")]
mod emulation;

#[cfg(feature = "emulation")]
#[test]
fn the_emulated_kernels_learn_what_the_host_learns() {
    compare(&emulation::maker(false), FUSED);
}

#[cfg(feature = "emulation")]
#[test]
fn the_emulated_kernels_go_on_from_a_checkpoint_to_the_same_bytes() {
    resume(&emulation::maker(false), &[FEED_FORWARD[1], FEED_FORWARD[2], FEED_FORWARD[5]]);
}

#[cfg(feature = "gpu-tests")]
mod on_a_gpu {
    use super::*;
    use p3o_gpu::cuda::Cuda;

    #[test]
    fn a_gpu_learns_what_the_host_learns() {
        compare(&|| Ok(Box::new(Cuda::open(0)?)), FUSED.iter().chain(OTHERS));
    }

    #[test]
    fn a_gpu_keeps_the_states_of_critics_as_the_host_does() {
        carry_over(&|| Ok(Box::new(Cuda::open(0)?)));
    }

    #[test]
    fn a_gpu_goes_on_from_a_checkpoint_to_the_same_bytes() {
        resume_all(&|| Ok(Box::new(Cuda::open(0)?)));
    }

    #[test]
    fn a_gpu_comes_to_the_same_bits_every_time() {
        for (algo, task, changes) in FUSED.iter().chain(OTHERS) {
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
