//! Many runs side by side, each in a folder of its own. In host memory they have one thread each: results do not depend on the
//! number of threads, and whole runs are the best way to keep all cores busy. On a device fewer runs share it and the cores.
//!
//! A sweep can be killed at any moment and started again: finished runs are read, not repeated, and the others go on from
//! their checkpoints. Several processes, on any machines, can work in one folder: a run that one of them has is passed over by
//! the others, and a [`Shard`] is a share of the runs that is fixed beforehand.

use p3o::engine::{Engine, Networks, on_cpu};
use p3o::memory::Estimate;
use p3o::record::{Table, read_text};
use p3o::run::{self, Summary, checkpoint_path, has_checkpoint, named_task, previous_checkpoint_path};
use p3o::{Config, Error, Finish, Report, RowsOnly, Run, RunFolder};
use std::cmp::Reverse;
use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::str::FromStr;
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

/// What a finished run came to.
pub struct Finished {
    /// The figures of its last tenth.
    pub summary: Summary,
    /// A row per update.
    pub table: Table,
    /// Whether its checkpoint is there; if not, the rows vouch for themselves alone.
    pub sealed: bool,
}

/// One of several shares of a sweep's runs, which any processes on any machines may take in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    number: usize,
    /// Of how many.
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let whole = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
        let parts = text.split_once('/').and_then(|(number, of)| Some((whole(number)?, whole(of)?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err("a shard is K/N, the K-th of N with K from 1 to N, for example 3/16".into()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Shard {
    /// The places of its runs among the jobs. It depends on what the jobs are and on nothing else: neither on what is finished
    /// nor on how fast a machine is. Runs that take about equally long, of one length, task and algorithm, are dealt out one
    /// after another, so that no two shards differ by more than one of them, nor by more than one run in all.
    pub fn share(&self, jobs: &[Job]) -> Vec<usize> {
        let sort = |job: &Job| (Reverse(job.steps()), job.config.task.clone(), job.config.method().to_string());
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        order.sort_by_cached_key(|&i| (sort(&jobs[i]), i));
        let mut share: Vec<usize> = order.into_iter().skip(self.number - 1).step_by(self.of).collect();
        share.sort_unstable();
        share
    }
}

/// Where the networks of runs learn.
pub trait Place: Sync {
    /// As `provenance.toml` names it.
    fn device(&self) -> String;

    /// Puts the networks of a group there; see [`p3o::engine::Maker`].
    fn engine(&self, networks: Networks, several: bool) -> Result<Box<dyn Engine>, String>;

    /// Whether it is host memory.
    fn is_cpu(&self) -> bool {
        self.device() == "cpu"
    }
}

/// Host memory.
pub struct Cpu;

impl Place for Cpu {
    fn device(&self) -> String {
        "cpu".into()
    }

    fn engine(&self, networks: Networks, several: bool) -> Result<Box<dyn Engine>, String> {
        on_cpu(networks, several)
    }
}

/// What a sweep works with.
#[derive(Clone, Copy)]
pub struct Workers<'a> {
    /// Runs at a time.
    pub runs: usize,
    /// Threads of each.
    pub threads: usize,
    /// Where their networks learn.
    pub place: &'a dyn Place,
}

impl<'a> Workers<'a> {
    /// For so many runs that are to be made on a machine of so many cores, `wanted` of them at a time. In host memory a run keeps one
    /// core busy. A device waits while a run's worlds step, and they while it learns: a few runs take turns, and share the cores.
    pub fn new(wanted: Option<usize>, runs: usize, cores: usize, place: &'a dyn Place) -> Self {
        if place.is_cpu() {
            return Workers { runs: wanted.unwrap_or(cores), threads: 1, place };
        }
        let at_a_time = wanted.unwrap_or_else(|| (cores / 4).max(2)).min(runs).max(1);
        Workers { runs: at_a_time, threads: (cores / at_a_time).max(1), place }
    }

    /// The threads of one run.
    pub(crate) fn pool(&self) -> Result<rayon::ThreadPool, Error> {
        rayon::ThreadPoolBuilder::new().num_threads(self.threads).build().map_err(|e| Error::Threads(e.to_string()))
    }
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

/// Runs the jobs until all are done or `stop` is set. For every job: its summary, none if it was stopped before its end, or
/// what went wrong. One failed run does not end the others, but a failed device does: they save what they have. A run that
/// another process has is passed over, and tried once more when all else is done: [`Error::InUse`] if it still has it.
pub fn sweep(jobs: &[Job], workers: &Workers, stop: &AtomicBool, watch: &dyn Watch) -> Vec<Ended> {
    let lost = AtomicBool::new(false);
    let over = || stop.load(Ordering::SeqCst) || lost.load(Ordering::SeqCst);
    let run = |i: usize| {
        let result = jobs[i].run(i, workers, &over, watch);
        if matches!(result, Err(Error::Device { .. })) {
            lost.store(true, Ordering::SeqCst);
        }
        result
    };
    let tell = |i: usize, result: Ended| {
        watch.ended(i, &result);
        result
    };
    let mut all = in_turn((0..jobs.len()).collect(), workers.runs, &|i| match run(i) {
        Err(Error::InUse { folder }) => {
            watch.noted(i, "another process has this run; going on with the next");
            Err(Error::InUse { folder })
        }
        result => tell(i, result),
    });
    let passed_over = (0..all.len()).filter(|&i| matches!(all[i].1, Err(Error::InUse { .. }))).collect();
    for (i, result) in in_turn(passed_over, workers.runs, &|i| tell(i, run(i))) {
        all[i].1 = result;
    }
    all.into_iter().map(|(_, ended)| ended).collect()
}

/// Does something with every index, so many at a time.
fn in_turn<T: Send>(indices: Vec<usize>, at_a_time: usize, work: &(dyn Fn(usize) -> T + Sync)) -> Vec<(usize, T)> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let indices = std::iter::from_fn(|| indices.get(next.fetch_add(1, Ordering::SeqCst)));
        indices.map(|&i| (i, work(i))).collect::<Vec<_>>()
    };
    let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..at_a_time.clamp(1, indices.len().max(1))).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().flat_map(|t| t.join().expect("a run reports its failures")).collect()
    });
    all.sort_by_key(|(i, _)| *i);
    all
}

/// The jobs that are not finished. A folder that cannot be read counts as one to fill: the sweep will say what is wrong.
pub fn to_do(jobs: &[Job]) -> impl Iterator<Item = &Job> {
    jobs.iter().filter(|job| !matches!(job.finished(), Ok(Some(_))))
}

/// What the heaviest of the jobs that are still to do take of host memory together, as many as there are at a time.
pub fn memory(jobs: &[Job], workers: &Workers) -> Result<Vec<Estimate>, Error> {
    let mut all = Vec::new();
    for job in to_do(jobs) {
        all.push(Estimate::of(&job.config, named_task(&job.config)?().spec(), workers.threads));
    }
    all.sort_by(|a, b| b.total().total_cmp(&a.total()));
    all.truncate(workers.runs);
    Ok(all)
}

impl Job {
    fn run(&self, index: usize, workers: &Workers, over: &(dyn Fn() -> bool + Sync), watch: &dyn Watch) -> Ended {
        if let Some(summary) = self.finished()? {
            run::add_summary(&self.folder, &summary)?;
            return Ok(Some(summary));
        }
        if over() {
            return Ok(None);
        }
        workers.pool()?.install(|| {
            let mut run = self.open(workers.place)?;
            watch.started(index, run.learner().progress().steps);
            run.notes().iter().for_each(|note| watch.noted(index, note));
            let finish = run.train(&mut |_, report| {
                watch.updated(index, report);
                if over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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
        Ok(self.results()?.map(|finished| finished.summary))
    }

    /// The same with the run's progress.
    pub fn results(&self) -> Result<Option<Finished>, Error> {
        if !has_checkpoint(&self.folder) {
            return self.results_of_rows();
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
        Ok(Some(Finished { summary: run.summary()?, table: run.table, sealed: true }))
    }

    /// The same of a run whose checkpoints were left on another machine.
    fn results_of_rows(&self) -> Result<Option<Finished>, Error> {
        let Some(RowsOnly { config, table, summary }) = RowsOnly::open(&self.folder)? else { return Ok(None) };
        self.check_settings(&config)?;
        Ok((summary.steps >= self.steps()).then_some(Finished { summary, table, sealed: false }))
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

    fn open(&self, place: &dyn Place) -> Result<Run, Error> {
        let engines = |networks: Networks, several: bool| place.engine(networks, several);
        if !has_checkpoint(&self.folder) {
            match Run::start_on(self.config.clone(), &*named_task(&self.config)?, &self.folder, &engines) {
                // Another process has started it meanwhile.
                Err(Error::Occupied { resumable: true, .. }) => {}
                run => return run,
            }
        }
        let run = Run::resume_on(&self.folder, &named_task, None, &engines)?;
        self.check_settings(run.learner().config())?;
        Ok(run)
    }

    /// A folder is only gone on with under the same settings. The name of the preset that they came from may differ.
    fn check_settings(&self, found: &Config) -> Result<(), Error> {
        match found.difference(&self.config) {
            None => Ok(()),
            Some((theirs, ours)) => Err(Error::OtherSettings { folder: self.folder.clone(), theirs, ours }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_makes_a_run_on_every_core_and_a_device_shares_them_out() {
        struct Elsewhere;
        impl Place for Elsewhere {
            fn device(&self) -> String {
                "a device".into()
            }

            fn engine(&self, _: Networks, _: bool) -> Result<Box<dyn Engine>, String> {
                unreachable!("nothing is trained")
            }
        }
        let device = &Elsewhere;
        let counts = |wanted, runs, cores, place: &dyn Place| {
            let workers = Workers::new(wanted, runs, cores, place);
            (workers.runs, workers.threads)
        };
        assert_eq!(counts(None, 3, 16, &Cpu), (16, 1));
        assert_eq!(counts(Some(5), 30, 16, &Cpu), (5, 1));
        assert_eq!(counts(None, 30, 16, device), (4, 4));
        assert_eq!(counts(None, 3, 16, device), (3, 5));
        assert_eq!(counts(None, 0, 16, device), (1, 16));
        assert_eq!(counts(None, 30, 2, device), (2, 1));
        assert_eq!(counts(None, 30, 1, device), (2, 1));
        assert_eq!(counts(Some(8), 30, 16, device), (8, 2));
        assert_eq!(counts(Some(32), 30, 16, device), (30, 1));
    }
}
