//! The runs of a sweep learn where they are told to, side by side, and may go on elsewhere. A stand-in in host memory is the device.

use crate::sweeps::{StopAfter, checkpoints, jobs};
use p3o::engine::{Engine, Networks};
use p3o::{Error, RunFolder};
use p3o_gpu::Precision;
use p3o_gpu::device::Device;
use p3o_gpu::engine::DeviceEngine;
use p3o_gpu::host::Host;
use p3o_lab::reproduce::estimate::estimate;
use p3o_lab::sweep::{Cpu, Ended, Job, Place, Workers, sweep};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const NAME: &str = "a stand-in for a device, tf32";

/// The stand-in; the first so many engines are made of devices that fail after so many kernels each.
#[derive(Default)]
struct StandIn {
    failing: AtomicUsize,
    after: usize,
}

impl Place for StandIn {
    fn device(&self) -> String {
        NAME.into()
    }

    fn engine(&self, networks: Networks, _: bool) -> Result<Box<dyn Engine>, String> {
        let left = self.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let another = || -> Result<Box<dyn Device>, String> {
            Ok(Box::new(if left.is_ok() { Host::failing_after(self.after) } else { Host::default() }))
        };
        Ok(Box::new(DeviceEngine::new(networks, &another, Precision::Tf32)?))
    }
}

/// Runs until `updates` were made.
fn work(jobs: &[Job], runs: usize, place: &dyn Place, updates: usize) -> Vec<Ended> {
    let stop = AtomicBool::new(false);
    let watch = StopAfter { updates: AtomicUsize::new(updates), stop: &stop };
    sweep(jobs, &Workers { runs, threads: 2, place }, &stop, &watch)
}

fn devices(job: &Job) -> Vec<String> {
    RunFolder::open(&job.folder).unwrap().devices()
}

#[test]
fn side_by_side_they_come_to_the_same_bytes_as_one_by_one() {
    let (alone, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (alone, beside) = (jobs(alone.path()), jobs(beside.path()));
    for (jobs, runs) in [(&alone, 1), (&beside, 3)] {
        let ended = work(jobs, runs, &StandIn::default(), usize::MAX);
        assert!(ended.iter().all(|ended| matches!(ended, Ok(Some(_)))));
        assert!(jobs.iter().all(|job| devices(job) == [NAME]));
    }
    assert!(checkpoints(&alone) == checkpoints(&beside));
}

#[test]
fn a_sweep_goes_on_where_it_is_told_to() {
    let home = tempfile::tempdir().unwrap();
    let jobs = jobs(home.path());
    // Three updates each: the fourth is the second run's first.
    let ended = work(&jobs, 1, &StandIn::default(), 4);
    assert!(matches!(&ended[..], [Ok(Some(_)), Ok(None), Ok(None)]));
    let ended = work(&jobs, 1, &Cpu, usize::MAX);
    assert!(ended.iter().all(|ended| matches!(ended, Ok(Some(_)))));
    assert_eq!([devices(&jobs[0]), devices(&jobs[1]), devices(&jobs[2])], [vec![NAME], vec![NAME, "cpu"], vec!["cpu"]]);
}

#[test]
fn a_failed_device_ends_the_sweep_and_every_run_goes_on() {
    let with_checkpoints = |folder: &Path| {
        let mut jobs = jobs(folder);
        jobs.iter_mut().for_each(|job| job.config.run.checkpoint_every = 1);
        jobs
    };
    // However many kernels an update has, one of these is between those of one update and of three: it fails in a later one.
    let failed = (5..).find_map(|power| {
        let home = tempfile::tempdir().unwrap();
        let place = StandIn { failing: AtomicUsize::new(1), after: 1 << power };
        let ended = work(&with_checkpoints(home.path()), 1, &place, usize::MAX);
        match <[Ended; 3]>::try_from(ended) {
            Ok([Err(Error::Device { update: 1, .. }), Ok(None), Ok(None)]) => None,
            Ok([Err(error), Ok(None), Ok(None)]) => Some((home, error)),
            other => panic!("{other:?}"),
        }
    });
    let (home, error) = failed.expect("the numbers do not end");
    let error = error.to_string();
    assert!(
        error.contains("the stand-in was told to fail; training stopped, the last checkpoint is intact"),
        "{error}"
    );
    let jobs = with_checkpoints(home.path());
    assert!(RunFolder::open(&jobs[0].folder).unwrap().steps() > 0);
    assert!(jobs[0].failure().is_some() && !jobs[1].folder.exists());
    let whole = tempfile::tempdir().unwrap();
    let whole = with_checkpoints(whole.path());
    let on = |jobs: &[Job]| work(jobs, 2, &StandIn::default(), usize::MAX);
    assert!(on(&jobs).iter().chain(&on(&whole)).all(|ended| matches!(ended, Ok(Some(_)))));
    assert!(checkpoints(&jobs) == checkpoints(&whole));
}

#[test]
fn a_run_beside_one_whose_device_failed_saves_what_it_has() {
    let home = tempfile::tempdir().unwrap();
    let mut jobs = jobs(home.path());
    // Too long to be done by then.
    jobs.iter_mut().for_each(|job| job.config.run.steps = 40_000);
    let place = StandIn { failing: AtomicUsize::new(1), after: 10 };
    let ended = work(&jobs, 2, &place, usize::MAX);
    let failed = ended.iter().filter(|ended| matches!(ended, Err(Error::Device { .. }))).count();
    let stopped = ended.iter().filter(|ended| matches!(ended, Ok(None))).count();
    assert_eq!((failed, stopped), (1, 2), "{ended:?}");
    let begun: Vec<&Job> = jobs.iter().filter(|job| job.folder.exists()).collect();
    assert!(begun.iter().all(|job| RunFolder::open(&job.folder).is_ok()) && !begun.is_empty());
}

#[test]
fn runs_tell_how_fast_their_own_device_is() {
    let home = tempfile::tempdir().unwrap();
    let jobs = &jobs(home.path())[..1];
    work(jobs, 1, &StandIn::default(), 2);
    let run = RunFolder::open(&jobs[0].folder).unwrap();
    let last = |name: &str| run.table.rows.last().unwrap()[run.table.column(name).unwrap()];
    let pace = last("wall_s") / last("steps");
    let on = |place: &dyn Place| estimate(jobs, &Workers { runs: 1, threads: 1, place }).per_step[0];
    assert_eq!(on(&StandIn::default()), pace);
    assert_ne!(on(&Cpu), pace);
}
