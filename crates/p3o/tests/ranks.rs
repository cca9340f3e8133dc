//! One run over several processes has the bytes of one process: whatever their number, for every algorithm. The processes are threads here;
//! they share nothing but the messages that they send.

use crate::util::{bits, named_learner, on_threads, small_task, task_of};
use p3o::config::Agents;
use p3o::record::ProgressCsv;
use p3o::run::{Opened, checkpoint_path, follow, named_task};
use p3o::{Config, Error, Finish, Learner, Method, Ranks, Run, checkpoint, engine, ranks};
use p3o_env::{Env, EnvSpec, Outcome, RestoreError};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

/// Episodes of PointGoal begin and end within a batch, and checkpoints are saved on the way.
const LONG: [&str; 6] = [
    "rollout.envs=5",
    "rollout.batch=2500",
    "run.steps=7500",
    "run.checkpoint_every=2",
    "critic.normalize=true",
    "rollout.normalize_obs=true",
];
const TEAM: [&str; 3] = ["rollout.batch=300", "run.steps=900", "net.gru=6"];

fn config(algo: &str, task: &str, changes: &[&str]) -> Config {
    let team: &[&str] = if Method::named(algo).unwrap().agents == Agents::Single { &[] } else { &TEAM };
    small_task(algo, task, &[&LONG, team, changes].concat())
}

/// What each of so many processes comes to, each on so many threads.
fn on_ranks<T: Send>(size: usize, threads: usize, act: impl Fn(Ranks) -> T + Sync) -> Vec<T> {
    let act = &act;
    std::thread::scope(|scope| {
        let ranks = ranks::threads(size, PATIENCE);
        let running: Vec<_> = ranks.into_iter().map(|r| scope.spawn(move || on_threads(threads, || act(r)))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn learner(config: &Config, ranks: &Ranks) -> Result<Learner, Error> {
    Learner::with_ranks(config.clone(), &*named_task(config)?, &engine::on_cpu, ranks)
}

/// One process's part of a run that starts in a folder; the first one stops after so many updates.
fn start(config: &Config, ranks: &Ranks, folder: &Path, until: u64) -> Result<Finish, Error> {
    let mut learner = learner(config, ranks)?;
    match ranks.is_first() {
        true => train(Run::start_learner(learner, folder)?, until),
        false => follow(&mut learner, &|| false),
    }
}

/// The same of one that goes on; only the first process sees the folder.
fn go_on(ranks: &Ranks, folder: &Path) -> Result<Finish, Error> {
    let opened: Option<Opened> = ranks.is_first().then(|| Run::open(folder)).transpose()?;
    let sent = opened.as_ref().map(|opened| (opened.config(None).to_toml(), opened.checkpoint().to_vec()));
    let (settings, checkpoint) = ranks.broadcast_value(0, sent)?;
    let mut learner = learner(&Config::from_toml(&settings)?, ranks)?;
    match opened {
        Some(opened) => train(opened.go_on(learner)?, u64::MAX),
        None => {
            checkpoint::load_bytes(&mut learner, checkpoint)?;
            follow(&mut learner, &|| false)
        }
    }
}

fn train(mut run: Run, until: u64) -> Result<Finish, Error> {
    run.train(&mut |_, report| match report.update < until {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    })
}

/// The checkpoint's bytes and all of progress.csv but what the machine decides.
fn outcome(folder: &Path) -> (Vec<u8>, Vec<Vec<u64>>) {
    let table = ProgressCsv::read(&folder.join("progress.csv")).unwrap();
    let rows = table.rows.iter().map(|row| bits(&row[..row.len() - 2])).collect();
    (std::fs::read(checkpoint_path(folder)).unwrap(), rows)
}

/// Straight on some numbers of ranks and threads, and begun on one number and taken up on another: one outcome.
fn check(name: &str, config: &Config) -> Vec<u8> {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let mut run = on_threads(1, || Run::start(config.clone(), &*named_task(config).unwrap(), &at("one")).unwrap());
    assert_eq!(on_threads(1, || run.train(&mut |_, _| ControlFlow::Continue(()))).unwrap(), Finish::Done);
    let expected = outcome(&at("one"));
    assert_eq!(expected.1.len(), 3);
    for (size, threads) in [(2, 1), (3, 2), (4, 1)] {
        let folder = at(&format!("{size}"));
        for finish in on_ranks(size, threads, |ranks| start(config, &ranks, &folder, u64::MAX)) {
            assert_eq!(finish.unwrap(), Finish::Done, "{name}");
        }
        assert!(outcome(&folder) == expected, "{name}: {size} ranks on {threads} threads each differ from one");
    }
    for (before, after) in [(4, 1), (1, 4), (2, 3)] {
        let folder = at(&format!("{before} to {after}"));
        for finish in on_ranks(before, 1, |ranks| start(config, &ranks, &folder, 1)) {
            assert_eq!(finish.unwrap(), Finish::Interrupted, "{name}");
        }
        for finish in on_ranks(after, 1, |ranks| go_on(&ranks, &folder)) {
            assert_eq!(finish.unwrap(), Finish::Done, "{name}");
        }
        assert!(outcome(&folder) == expected, "{name}: from {before} ranks to {after} differs from one");
    }
    expected.0
}

#[test]
fn any_number_of_ranks_comes_to_the_same_bytes() {
    let mini = ["policy.minibatch=96", "critic.minibatch=64"];
    let outcomes = [
        check("whole batches", &config("p3o", "PointGoal", &[])),
        check("mini-batches", &config("p3o", "PointGoal", &mini)),
        check("mini-batches of the policy alone", &config("p3o", "PointGoal", &mini[..1])),
        check("mini-batches of the critics alone", &config("p3o", "PointGoal", &mini[1..])),
        check("averaged steps over whole batches", &config("p3o", "PointGoal", &["policy.average=2"])),
        check("averaged steps", &config("p3o", "PointGoal", &[&mini[..], &["policy.average=1"]].concat())),
        check("networks that remember", &config("p3o", "PointGoal", &["net.gru=8"])),
        check(
            "networks that remember, in mini-batches",
            &config("p3o", "PointGoal", &[&mini[..], &["net.gru=8"]].concat()),
        ),
        check("limits on discounted sums", &config("p3o", "PointGoal", &["constraint.sum=discounted"])),
        check("two constraints", &config("p3o", "Navigation", &mini)),
        check("discrete actions of a team", &config("map3o", "SimpleSpread", &["policy.minibatch=150"])),
        check("every agent on its own", &config("map3o-dec", "SimpleSpread", &["critic.minibatch=50"])),
        check(
            "every agent on its own, averaged",
            &config("map3o-dec", "SimpleSpread", &["critic.minibatch=50", "policy.average=2"]),
        ),
    ];
    for (i, a) in outcomes.iter().enumerate() {
        assert!(outcomes[..i].iter().all(|b| a != b), "the settings do something");
    }
}

#[test]
fn every_algorithm_comes_to_the_same_bytes_on_ranks() {
    for method in Method::all() {
        let name = method.to_string();
        check(&name, &config(&name, task_of(method), &[]));
    }
}

/// A world that is broken from some step on in one of its copies.
struct Brittle {
    spec: EnvSpec,
    copy: usize,
    step: usize,
}

impl Env for Brittle {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, _: u64, obs: &mut [f32]) {
        obs.fill(0.5);
    }

    fn step(&mut self, _: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        self.step += 1;
        obs.fill(if self.copy == 4 && self.step > 600 { f32::NAN } else { 0.25 });
        costs.fill(0.0);
        Outcome { reward: 1.0, terminated: false, truncated: false }
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        None
    }

    fn restore(&mut self, _: &[u8]) -> Result<(), RestoreError> {
        unreachable!("there are no snapshots")
    }
}

#[test]
fn a_world_that_breaks_on_one_rank_ends_all_with_the_same_words() {
    let config = config("p3o", "PointGoal", &[]);
    let spec = named_learner(config.clone()).spec().clone();
    let fail = |ranks: Ranks| {
        let copies = std::cell::Cell::new(0usize);
        let make = || {
            // The first is made to be looked at.
            let copy = copies.replace(copies.get() + 1).wrapping_sub(1);
            Box::new(Brittle { spec: spec.clone(), copy, step: 0 }) as Box<dyn Env>
        };
        let mut learner = Learner::with_ranks(config.clone(), &make, &engine::on_cpu, &ranks).unwrap();
        learner.update().unwrap();
        learner.update().unwrap_err().to_string()
    };
    let [alone] = &on_ranks(1, 1, fail)[..] else { panic!("one rank") };
    assert!(alone.contains("environment 4 gave an observation that is not finite (step 101 of the batch"), "{alone}");
    assert!(on_ranks(3, 1, fail).iter().all(|error| error == alone));
}

#[test]
fn a_rank_that_dies_is_an_error_of_all_others() {
    let config = config("p3o", "PointGoal", &[]);
    for dies in [0, 1, 3] {
        let errors = on_ranks(4, 1, |ranks| {
            let mut learner = learner(&config, &ranks).unwrap();
            learner.update().unwrap();
            (ranks.rank() != dies).then(|| learner.update().map(drop).unwrap_err())
        });
        for error in errors.into_iter().flatten() {
            assert!(matches!(error, Error::Ranks(_)), "{error}");
            assert!(crate::util::one_line(error).contains("of this run has died"));
        }
    }
}

#[test]
fn what_the_first_rank_cannot_write_ends_all() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    let config = config("p3o", "PointGoal", &[]);
    let ends = on_ranks(3, 1, |ranks| {
        let mut learner = learner(&config, &ranks).unwrap();
        if !ranks.is_first() {
            return follow(&mut learner, &|| false).unwrap_err();
        }
        let mut run = Run::start_learner(learner, &folder).unwrap();
        let removed = &mut |run: &Run, _: &p3o::Report| {
            std::fs::remove_dir_all(run.folder()).unwrap();
            ControlFlow::Continue(())
        };
        run.train(removed).unwrap_err()
    });
    assert!(!matches!(ends[0], Error::OtherRank | Error::Ranks(_)), "{}", ends[0]);
    assert!(ends[1..].iter().all(|end| matches!(end, Error::OtherRank)));
}

#[test]
fn a_stop_at_any_rank_stops_all_after_an_update() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    let config = config("p3o", "PointGoal", &[]);
    let ends = on_ranks(3, 1, |ranks| {
        let mut learner = learner(&config, &ranks).unwrap();
        let stop = ranks.rank() == 2;
        if ranks.is_first() {
            return train(Run::start_learner(learner, &folder).unwrap(), u64::MAX).unwrap();
        }
        follow(&mut learner, &|| stop).unwrap()
    });
    assert_eq!(ends, [Finish::Interrupted; 3]);
    assert_eq!(Run::resume(&folder, &named_task, None).unwrap().learner().progress().updates, 1);
}

#[test]
fn more_ranks_than_worlds_are_refused() {
    let config = config("p3o", "PointGoal", &[]);
    let errors = on_ranks(6, 1, |ranks| learner(&config, &ranks).err().expect("there are five worlds").to_string());
    let line = "6 processes cannot share the 5 worlds of rollout.envs: each needs one of its own";
    assert!(errors.iter().all(|error| error == line), "{errors:?}");
}
