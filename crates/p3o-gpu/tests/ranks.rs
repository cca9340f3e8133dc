//! Several processes with a device each come to the bytes of one: every network has an owner, which tells the others what it has become.
//! The processes are threads, the devices stand-ins.

use p3o::engine::{Engine, Networks};
use p3o::run::{checkpoint_path, follow, named_task};
use p3o::{Config, Error, Learner, Method, Ranks, Request, Run, ranks};
use p3o_gpu::device::{Device, Precision};
use p3o_gpu::engine::DeviceEngine;
use p3o_gpu::host::Host;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

fn config(algo: &str, task: &str, changes: &[&str]) -> Config {
    let small = ["rollout.envs=4", "rollout.batch=400", "net.hidden=[24,16]", "rollout.normalize_obs=true"];
    let passes = ["policy.passes=3", "critic.passes=3", "policy.minibatch=0", "critic.minibatch=0", "run.steps=1200"];
    let set = small.iter().chain(&passes).chain(changes).map(|s| s.to_string()).collect();
    let request = Request { set, seed: Some(1003), shared: true, ..Request::new(task, Method::named(algo).unwrap()) };
    request.resolve().unwrap_or_else(|e| panic!("{algo} {task}: {e}")).config
}

/// One process's part of a run; the device of one of them may fail after so many kernels.
fn train(config: &Config, ranks: &Ranks, folder: &Path, fails: Option<(usize, usize)>) -> Result<(), Error> {
    let device = || -> Result<Box<dyn Device>, String> {
        Ok(Box::new(match fails {
            Some((rank, after)) if rank == ranks.rank() => Host::failing_after(after),
            _ => Host::default(),
        }))
    };
    let engines = |networks: Networks, _: bool| -> Result<Box<dyn Engine>, String> {
        Ok(Box::new(DeviceEngine::new(networks, &device, Precision::Fp32)?))
    };
    let mut learner = Learner::with_ranks(config.clone(), &*named_task(config)?, &engines, ranks)?;
    match ranks.is_first() {
        true => Run::start_learner(learner, folder)?.train(&mut |_, _| ControlFlow::Continue(())).map(drop),
        false => follow(&mut learner, &|| false).map(drop),
    }
}

fn on_ranks<T: Send>(size: usize, act: impl Fn(Ranks) -> T + Sync) -> Vec<T> {
    let act = &act;
    std::thread::scope(|scope| {
        let ranks = ranks::threads(size, Duration::from_secs(60));
        let running: Vec<_> = ranks.into_iter().map(|ranks| scope.spawn(move || act(ranks))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn devices_of_several_processes_come_to_the_bytes_of_one() {
    let runs: [(&str, &str, &[&str]); 5] = [
        ("p3o", "PointGoal", &[]),
        ("ppo-lag", "PointGoal", &["policy.minibatch=96", "critic.minibatch=64"]),
        ("cpo", "PointGoal", &["critic.normalize=true"]),
        ("map3o", "SimpleSpread", &["net.gru=8", "net.bptt=10"]),
        ("map3o-dec", "SimpleSpread", &["net.gru=8", "net.bptt=5", "rollout.batch=240"]),
    ];
    for (algo, task, changes) in runs {
        let (config, home) = (config(algo, task, changes), tempfile::tempdir().unwrap());
        let outcome = |size: usize| {
            let folder = home.path().join(size.to_string());
            on_ranks(size, |ranks| train(&config, &ranks, &folder, None)).into_iter().for_each(Result::unwrap);
            std::fs::read(checkpoint_path(&folder)).unwrap()
        };
        let alone = outcome(1);
        assert!([2, 3].into_iter().all(|size| outcome(size) == alone), "{algo} {task} {changes:?}");
    }
}

#[test]
fn a_device_that_fails_ends_all_processes_with_its_sentence() {
    let (config, home) = (config("p3o", "PointGoal", &[]), tempfile::tempdir().unwrap());
    for (fails, after) in [(0, 30), (1, 30), (1, 0)] {
        let folder = home.path().join(format!("{fails} {after}"));
        for end in on_ranks(3, |ranks| train(&config, &ranks, &folder, Some((fails, after)))) {
            let error = end.unwrap_err().to_string();
            assert!(error.starts_with("update 1: ") && error.contains("was told to fail"), "{error}");
        }
    }
}
