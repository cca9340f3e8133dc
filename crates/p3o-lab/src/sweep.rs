//! Many runs side by side, each in a folder of its own, one thread each: results do not depend on the number of threads,
//! and whole runs are the best way to keep all cores busy.
//!
//! A sweep can be killed at any moment and started again: finished runs are read, not repeated, and the others go on from
//! their checkpoints.

use p3o::memory::Estimate;
use p3o::record::{Table, read_text};
use p3o::run::{self, Summary, checkpoint_path, has_checkpoint, named_task, previous_checkpoint_path};
use p3o::{Config, Error, Finish, Report, Run, RunFolder};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of a failure.txt, at most.
const LONGEST_FAILURE: u64 = 1 << 20;

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its settings.
    pub config: Config,
    /// Where it lives.
    pub folder: PathBuf,
}

/// What a sweep tells while it works; `job` is an index into its jobs.
pub trait Watch: Sync {
    /// A worker has taken up this job; `steps` of it were done in an earlier sitting.
    fn started(&self, job: usize, steps: u64);
    /// Something to know about it, in a sentence.
    fn noted(&self, job: usize, note: &str);
    /// It has made one more update.
    fn updated(&self, job: usize, report: &Report);
    /// It is done, stopped or failed.
    fn ended(&self, job: usize, ended: &Ended);
}

/// How one job ended.
pub type Ended = Result<Option<Summary>, Error>;

/// Runs the jobs on `workers` threads until all are done or `stop` is set. For every job: its summary, none if it was
/// stopped before its end, or what went wrong; one failed run does not end the others.
pub fn sweep(jobs: &[Job], workers: usize, stop: &AtomicBool, watch: &dyn Watch) -> Vec<Ended> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut ended = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::SeqCst);
            let Some(job) = jobs.get(i) else { return ended };
            let result = job.run(i, stop, watch);
            watch.ended(i, &result);
            ended.push((i, result));
        }
    };
    let mut all: Vec<(usize, Ended)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers.clamp(1, jobs.len().max(1))).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|t| t.join().expect("a run reports its failures")).collect()
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, ended)| ended).collect()
}

/// What the heaviest of the jobs that are still to do take together, so many at a time.
pub fn memory(jobs: &[Job], workers: usize) -> Result<Vec<Estimate>, Error> {
    let mut all = Vec::new();
    // A folder that cannot be read counts as one to fill: the sweep will say what is wrong.
    for job in jobs.iter().filter(|job| !matches!(job.finished(), Ok(Some(_)))) {
        all.push(Estimate::of(&job.config, named_task(&job.config)?().spec(), 1));
    }
    all.sort_by(|a, b| b.total().total_cmp(&a.total()));
    all.truncate(workers);
    Ok(all)
}

impl Job {
    fn run(&self, index: usize, stop: &AtomicBool, watch: &dyn Watch) -> Ended {
        if let Some(summary) = self.finished()? {
            // It may have been killed after its last checkpoint.
            if !self.folder.join("summary.json").is_file() {
                run::write_summary(&self.folder, &summary)?;
            }
            return Ok(Some(summary));
        }
        if stop.load(Ordering::SeqCst) {
            return Ok(None);
        }
        one_thread()?.install(|| {
            let mut run = self.open()?;
            watch.started(index, run.learner().progress().steps);
            run.notes().iter().for_each(|note| watch.noted(index, note));
            let finish = run.train(&mut |_, report| {
                watch.updated(index, report);
                if stop.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            match finish {
                Finish::Done => Ok(run.summary().cloned()),
                Finish::Interrupted => Ok(None),
            }
        })
    }

    /// The summary of a run whose checkpoint says that it has made all its steps; none if there is no such run yet. The
    /// rows of progress.csv may be ahead of the checkpoint: a run killed then is not finished.
    pub fn finished(&self) -> Result<Option<Summary>, Error> {
        Ok(self.results()?.map(|(summary, _)| summary))
    }

    /// The same with the run's progress.
    pub fn results(&self) -> Result<Option<(Summary, Table)>, Error> {
        if !has_checkpoint(&self.folder) {
            return Ok(None);
        }
        let run = match RunFolder::open(&self.folder) {
            // There is another to go on from.
            Err(_) if !checkpoint_path(&self.folder).exists() => return Ok(None),
            Err(Error::Checkpoint { .. }) if previous_checkpoint_path(&self.folder).exists() => return Ok(None),
            run => run?,
        };
        self.check_settings(&run.config)?;
        if run.steps() < self.steps() {
            return Ok(None);
        }
        Ok(Some((run.summary()?, run.table)))
    }

    /// Whether its folder is free for it: without a run, or with a whole one of the same settings.
    pub fn check_folder(&self) -> Result<(), Error> {
        self.results().map(drop)
    }

    /// What ended it, if it could not go on.
    pub fn failure(&self) -> Option<String> {
        let text = read_text(&self.folder.join("failure.txt"), LONGEST_FAILURE).ok()?;
        text.lines().next().map(String::from)
    }

    /// The steps it is to make: whole batches.
    pub fn steps(&self) -> u64 {
        self.config.updates() * self.config.rollout.batch as u64
    }

    fn open(&self) -> Result<Run, Error> {
        if has_checkpoint(&self.folder) {
            return Run::resume(&self.folder, &named_task, None);
        }
        Run::start(self.config.clone(), &*named_task(&self.config)?, &self.folder)
    }

    /// A folder is only gone on with under the same settings. The name of the preset that they came from may differ.
    fn check_settings(&self, found: &Config) -> Result<(), Error> {
        match found.difference(&self.config) {
            None => Ok(()),
            Some((theirs, ours)) => Err(Error::OtherSettings { folder: self.folder.clone(), theirs, ours }),
        }
    }
}

/// A pool of one thread, for a run that has others beside it.
pub(crate) fn one_thread() -> Result<rayon::ThreadPool, Error> {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(|e| Error::Threads(e.to_string()))
}
