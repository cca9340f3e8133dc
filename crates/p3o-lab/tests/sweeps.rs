//! A sweep can be stopped at any moment and goes on; what is finished stays as it is.

use p3o::run::named_task;
use p3o::{Algorithm, Error, Report, Request};
use p3o_lab::sweep::{Cpu, Ended, Job, Watch, Workers, sweep};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Sets the flag after some updates of all runs together.
pub struct StopAfter<'a> {
    pub updates: AtomicUsize,
    pub stop: &'a AtomicBool,
}

impl Watch for StopAfter<'_> {
    fn started(&self, _: usize, _: u64) {}
    fn noted(&self, job: usize, note: &str) {
        panic!("job {job}: {note}");
    }

    fn updated(&self, _: usize, _: &Report) {
        if self.updates.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.stop.store(true, Ordering::SeqCst);
        }
    }
    fn ended(&self, _: usize, _: &Ended) {}
}

pub fn jobs(folder: &Path) -> Vec<Job> {
    let small = ["rollout.envs=4", "rollout.batch=400", "net.hidden=[8]", "policy.passes=2"];
    let config = |seed: u64| {
        let request = Request {
            set: small.map(String::from).to_vec(),
            seed: Some(seed),
            steps: Some(1200),
            ..Request::new("PointGather", Algorithm::P3o.into())
        };
        request.resolve().expect("known settings").config
    };
    (0..3).map(|seed| Job { config: config(seed), folder: folder.join(format!("seed{seed}")) }).collect()
}

pub fn checkpoints(jobs: &[Job]) -> Vec<Vec<u8>> {
    jobs.iter().map(|job| std::fs::read(p3o::run::checkpoint_path(&job.folder)).expect("a checkpoint")).collect()
}

fn on_cpu(runs: usize) -> Workers<'static> {
    Workers { runs, threads: 1, place: &Cpu }
}

/// Runs until `updates` were made; how many jobs are done then.
fn work(jobs: &[Job], workers: usize, updates: usize) -> usize {
    let stop = AtomicBool::new(false);
    let watch = StopAfter { updates: AtomicUsize::new(updates), stop: &stop };
    let ended = sweep(jobs, &on_cpu(workers), &stop, &watch);
    assert_eq!(ended.len(), jobs.len());
    ended.into_iter().filter(|e| e.as_ref().expect("no run fails").is_some()).count()
}

#[test]
fn stopped_and_started_again_on_other_threads_it_ends_in_the_same_bytes() {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (whole, parts) = (jobs(whole.path()), jobs(parts.path()));
    assert_eq!(work(&whole, 2, usize::MAX), 3);
    // Three updates each: the fourth is the second run's first.
    assert_eq!(work(&parts, 1, 4), 1);
    assert!(p3o::run::checkpoint_path(&parts[1].folder).exists() && !parts[2].folder.exists());
    assert_eq!(work(&parts, 3, usize::MAX), 3);
    assert!(checkpoints(&whole) == checkpoints(&parts));
}

#[test]
fn a_folder_without_its_first_checkpoint_is_started_afresh() {
    let home = tempfile::tempdir().unwrap();
    let jobs = jobs(home.path());
    std::fs::create_dir_all(jobs[0].folder.join("checkpoints")).unwrap();
    std::fs::write(jobs[0].folder.join("config.toml"), "half a li").unwrap();
    std::fs::write(jobs[0].folder.join(".progress.csv.scratch"), "upd").unwrap();
    assert_eq!(work(&jobs[..1], 1, usize::MAX), 1);
    // Anything else in a folder is somebody's, and stays.
    std::fs::create_dir_all(&jobs[1].folder).unwrap();
    std::fs::write(jobs[1].folder.join("thesis.txt"), "all of it").unwrap();
    let stop = AtomicBool::new(false);
    let ended = sweep(&jobs[1..], &on_cpu(1), &stop, &StopAfter { updates: AtomicUsize::new(usize::MAX), stop: &stop });
    assert!(matches!(&ended[0], Err(Error::Occupied { resumable: false, .. })));
    assert!(matches!(&ended[1], Ok(Some(_))), "one failed run does not end the others");
}

#[test]
fn a_finished_run_knows_its_task() {
    let home = tempfile::tempdir().unwrap();
    let jobs = jobs(home.path());
    assert!(jobs[0].finished().unwrap().is_none());
    work(&jobs[..1], 1, usize::MAX);
    let summary = jobs[0].finished().unwrap().expect("it is done");
    assert_eq!((summary.steps, summary.seed), (1200, 0));
    assert!(named_task(&jobs[0].config).is_ok());
}

#[test]
fn a_run_killed_between_its_last_row_and_its_last_checkpoint_is_not_finished() {
    let home = tempfile::tempdir().unwrap();
    let jobs = jobs(home.path());
    let checkpoint = p3o::run::checkpoint_path(&jobs[0].folder);
    // A checkpoint after every update; the one of the second is kept aside.
    let mut job = jobs[0].clone();
    job.config.run.checkpoint_every = 1;
    assert_eq!(work(std::slice::from_ref(&job), 1, 2), 0);
    let second = std::fs::read(&checkpoint).unwrap();
    assert_eq!(work(std::slice::from_ref(&job), 1, usize::MAX), 1);
    let last = std::fs::read(&checkpoint).unwrap();
    std::fs::write(&checkpoint, &second).unwrap();
    assert!(job.finished().unwrap().is_none(), "all rows are there, the last checkpoint is not");
    assert_eq!(work(std::slice::from_ref(&job), 1, usize::MAX), 1);
    assert!(std::fs::read(&checkpoint).unwrap() == last);
    // Killed later still, before its summary was written.
    std::fs::remove_file(job.folder.join("summary.json")).unwrap();
    assert_eq!(work(std::slice::from_ref(&job), 1, usize::MAX), 1);
    assert!(job.folder.join("summary.json").is_file());
}

#[test]
fn a_summary_is_of_the_whole_run_or_not_there() {
    let home = tempfile::tempdir().unwrap();
    let job = &jobs(home.path())[0];
    assert_eq!(work(std::slice::from_ref(job), 1, 1), 0);
    let summary = job.folder.join("summary.json");
    assert!(std::fs::read_to_string(&summary).unwrap().contains("\"steps\": 400"));
    // A kill in the next sitting would leave this folder.
    drop(p3o::Run::resume(&job.folder, &named_task, None).unwrap());
    assert!(!summary.exists());
}

#[test]
fn a_row_file_with_another_column_is_named() {
    let home = tempfile::tempdir().unwrap();
    let job = &jobs(home.path())[0];
    assert_eq!(work(std::slice::from_ref(job), 1, usize::MAX), 1);
    let progress = job.folder.join("progress.csv");
    let text = std::fs::read_to_string(&progress).unwrap().replacen(",return,", ",retrun,", 1);
    std::fs::write(&progress, text).unwrap();
    let error = job.finished().unwrap_err();
    assert!(matches!(&error, Error::Altered { path, .. } if *path == progress), "{error}");
}

#[test]
fn a_folder_with_a_run_of_other_settings_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let job = &jobs(home.path())[0];
    assert_eq!(work(std::slice::from_ref(job), 1, 1), 0);
    let mut other = job.clone();
    other.config.set("policy.passes=3").unwrap();
    let Err(Error::OtherSettings { folder, theirs, ours }) = other.finished() else { panic!("it was not refused") };
    assert_eq!(
        (folder, theirs.as_str(), ours.as_str()),
        (job.folder.clone(), "policy.passes = 2", "policy.passes = 3")
    );
    // What counts are the settings, not how their file is written.
    let path = job.folder.join("config.toml");
    let text = std::fs::read_to_string(&path).unwrap().replace("passes = 2", "passes = +2 # two");
    std::fs::write(&path, text).unwrap();
    assert_eq!(work(std::slice::from_ref(job), 1, usize::MAX), 1);
}
