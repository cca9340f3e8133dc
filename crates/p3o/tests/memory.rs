//! A run takes about as much memory as was estimated before.
#![cfg(target_os = "linux")]

use p3o::memory::{Estimate, bytes};
use p3o::run::named_task;
use p3o::{Method, Request, Run};
use std::ops::ControlFlow;
use std::process::Command;

/// The variable by which this binary tells itself which run to make.
const CASE: &str = "P3O_MEMORY_CASE";
/// Bounds of the estimate as a share of what is taken: a little below it for what the allocator rounds up and keeps, more above
/// it for what is not there at the same moment, such as a checkpoint and the vectors of a step of second order.
const BOUNDS: (f64, f64) = (0.9, 1.3);

/// A run of one update: method, task, settings, threads.
type Case = (&'static str, &'static str, &'static [&'static str], usize);

const CASES: &[Case] = &[
    ("p3o", "PointGoal", &["rollout.batch=80000"], 1),
    ("p3o", "PointGoal", &["rollout.batch=80000"], 16),
    ("p3o", "PointGoal", &["rollout.batch=100000", "rollout.normalize_obs=false", "rollout.envs=10"], 2),
    ("p3o", "PointGoal", &["rollout.batch=40000", "rollout.envs=20000"], 2),
    ("p3o", "Navigation", &["rollout.batch=600", "net.hidden=[512,512]"], 2),
    ("cpo", "PointGoal", &["rollout.batch=600", "net.hidden=[700,700]"], 2),
    ("p3o", "PointGather", &["rollout.batch=60000", "policy.minibatch=30000", "critic.minibatch=30000"], 2),
    ("map3o", "SimpleSpread", &["rollout.batch=20000", "net.gru=64"], 2),
    ("map3o-dec", "SimpleSpread", &["rollout.batch=5000", "net.gru=128"], 3),
    ("p3o", "PointGoal", &["rollout.batch=10000", "rollout.envs=20", "net.gru=64", "net.bptt=25"], 4),
];

/// The settings of a case, made quick.
fn request((method, task, set, _): &Case) -> Request {
    let quick = ["critic.passes=1", "policy.passes=1", "run.checkpoint_every=1", "rollout.envs=100"];
    let set = quick.iter().chain(*set).map(ToString::to_string).collect();
    Request { set, shared: true, ..Request::new(task, Method::named(method).unwrap()) }
}

/// Makes the run in this process; says what was estimated and what was taken.
fn play(case: &Case) {
    let mut config = request(case).resolve().unwrap().config;
    config.run.steps = config.rollout.batch as u64;
    let home = tempfile::tempdir().unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(case.3).build().unwrap();
    pool.install(|| {
        let make = named_task(&config).unwrap();
        let estimate = Estimate::of(&config, make().spec(), case.3);
        let mut run = Run::start(config, &*make, &home.path().join("run")).unwrap();
        run.train(&mut |_, _| ControlFlow::Continue(())).unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: f64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        println!("measured {} {}", estimate.total(), peak * 1024.0);
        for item in estimate.items {
            println!("    {:<16}{}", item.name, bytes(item.bytes));
        }
    });
}

#[test]
fn a_run_takes_about_what_was_estimated() {
    if let Some(case) = std::env::var_os(CASE) {
        return play(&CASES[case.to_str().unwrap().parse::<usize>().unwrap()]);
    }
    let mut told = String::new();
    let mut wrong = 0;
    for (i, case) in CASES.iter().enumerate() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "a_run_takes_about_what_was_estimated", "--nocapture"]).env(CASE, i.to_string());
        let out = child.output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let line = text.lines().find_map(|line| line.split_once("measured ")).map(|(_, numbers)| numbers);
        let line = line.unwrap_or_else(|| panic!("{case:?}: {text}{}", String::from_utf8_lossy(&out.stderr)));
        let numbers: Vec<f64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
        let (estimated, taken) = (numbers[0], numbers[1]);
        let share = estimated / taken;
        let good = taken > 8e7 && (BOUNDS.0..BOUNDS.1).contains(&share);
        wrong += usize::from(!good);
        told += &format!("{share:.2} {} of {} {case:?}\n", bytes(estimated), bytes(taken));
        told.extend(text.lines().filter(|line| line.starts_with("    ")).map(|line| format!("{line}\n")));
    }
    assert_eq!(wrong, 0, "\n{told}");
}
