//! One GPU serves several runs of a program at a time.
#![cfg(feature = "gpu-tests")]

use p3o::engine::{Engine, Networks};
use p3o::run::named_task;
use p3o::{Algorithm, Learner, Request};
use p3o_gpu::Precision;
use p3o_gpu::cuda::Cuda;
use p3o_gpu::device::Device;
use p3o_gpu::engine::DeviceEngine;
use std::sync::Mutex;

/// Puts networks on the GPU, with queues of their own.
fn engine(gpu: &Mutex<Cuda>, networks: Networks) -> Result<Box<dyn Engine>, String> {
    let another = || -> Result<Box<dyn Device>, String> { Ok(Box::new(gpu.lock().unwrap().again()?)) };
    Ok(Box::new(DeviceEngine::new(networks, &another, Precision::Fp32)?))
}

#[test]
fn runs_side_by_side_come_to_the_bits_of_one_alone() {
    let gpu = Mutex::new(Cuda::open(0).unwrap());
    let config = Request::new("PointGoal", Algorithm::P3o.into()).resolve().unwrap().config;
    let engines = |networks: Networks, _: bool| engine(&gpu, networks);
    let run = || {
        let mut learner = Learner::with_engines(config.clone(), &*named_task(&config).unwrap(), &engines).unwrap();
        (0..3).for_each(|_| drop(learner.update().unwrap()));
        learner.policy().parameters()
    };
    let alone = run();
    std::thread::scope(|scope| {
        let beside: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        assert!(beside.into_iter().all(|run| run.join().unwrap() == alone));
    });
}

#[test]
fn a_run_of_another_shape_leaves_the_kernels_of_the_others_as_they_need_them() {
    let gpu = Mutex::new(Cuda::open(0).unwrap());
    let engines = |networks: Networks, _: bool| engine(&gpu, networks);
    let learner = |task: &str, set: &[&str]| {
        let set = set.iter().map(|s| s.to_string()).collect();
        let config = Request { set, ..Request::new(task, Algorithm::P3o.into()) }.resolve().unwrap().config;
        Learner::with_engines(config.clone(), &*named_task(&config).unwrap(), &engines).unwrap()
    };
    let mut large = learner("PointGather", &[]);
    large.update().unwrap();
    let mut small = learner("PointCircle", &["net.hidden=[16,16]", "rollout.batch=1000"]);
    small.update().unwrap();
    large.update().unwrap();
}

#[test]
fn a_gpu_copies_faster_than_it_is_sent_to() {
    let peaks = Cuda::open(0).unwrap().peaks().unwrap();
    assert!(peaks.copy_gb_s > peaks.upload_gb_s && peaks.upload_gb_s > 0.1, "{peaks:?}");
    assert!(peaks.fp32_tflops.is_none_or(|peak| peak > 0.1) && peaks.fp16_tensor_tflops.is_none_or(|peak| peak > 0.1));
}
