//! Many runs side by side, each in a folder of its own, one thread each: results do not depend on the number of threads,
//! and whole runs are the best way to keep all cores busy.
//!
//! A sweep can be killed at any moment and started again: finished runs are read, not repeated, and the others go on from
//! their checkpoints.

use p3o::record::{ProgressCsv, Table};
use p3o::run::{self, Summary, checkpoint_path, named_task};
use p3o::{Config, Error, Finish, Report, Run, checkpoint};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use toml::Value;

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
        let checkpoint = checkpoint_path(&self.folder);
        if !checkpoint.is_file() {
            return Ok(None);
        }
        self.check_settings()?;
        if checkpoint::steps(&checkpoint)? < self.steps() {
            return Ok(None);
        }
        let progress = self.folder.join("progress.csv");
        let table = ProgressCsv::read(&progress)?;
        let spec = named_task(&self.config)?().spec().clone();
        let summary = run::summary(&self.config, &spec, &table, &progress)?;
        Ok(Some((summary, table)))
    }

    /// What ended it, if it could not go on.
    pub fn failure(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.folder.join("failure.txt")).ok()?;
        text.lines().next().map(String::from)
    }

    /// The steps it is to make: whole batches.
    pub fn steps(&self) -> u64 {
        self.config.updates() * self.config.rollout.batch as u64
    }

    fn open(&self) -> Result<Run, Error> {
        if checkpoint_path(&self.folder).is_file() {
            return Run::resume(&self.folder, &named_task, None);
        }
        Run::start(self.config.clone(), &*named_task(&self.config)?, &self.folder)
    }

    /// A folder is only gone on with under the same settings. The name of the preset that they came from may differ.
    fn check_settings(&self) -> Result<(), Error> {
        match difference(&run::load_config(&self.folder)?, &self.config) {
            None => Ok(()),
            Some((theirs, ours)) => Err(Error::OtherSettings { folder: self.folder.clone(), theirs, ours }),
        }
    }
}

/// A pool of one thread, for a run that has others beside it.
pub(crate) fn one_thread() -> Result<rayon::ThreadPool, Error> {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(|e| Error::Threads(e.to_string()))
}

/// The first setting in which two runs differ, as each has it.
fn difference(a: &Config, b: &Config) -> Option<(String, String)> {
    let (of_a, of_b) = (values(a), values(b));
    let value = |values: &[(String, Value)], key: &str| values.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
    let keys = of_a.iter().chain(&of_b).map(|(key, _)| key);
    let different = keys.map(|key| (key, value(&of_a, key), value(&of_b, key))).find(|(_, a, b)| a != b);
    let show =
        |key: &str, value: Option<Value>| value.map_or_else(|| format!("no {key}"), |value| format!("{key} = {value}"));
    different.map(|(key, a, b)| (show(key, a), show(key, b)))
}

/// Everything that decides a run's numbers, by name.
fn values(config: &Config) -> Vec<(String, Value)> {
    let words = [("task", config.task.clone()), ("algo", config.method().to_string())];
    let words = words.map(|(key, word)| (key.to_string(), Value::String(word)));
    let tables = [("env", &config.env), ("limits", &config.limits)];
    let numbers = tables
        .into_iter()
        .flat_map(|(table, numbers)| numbers.iter().map(move |(key, x)| (format!("{table}.{key}"), Value::Float(*x))));
    let settings = config.settings().into_iter().map(|setting| (setting.key(), setting.value));
    words.into_iter().chain(numbers).chain(settings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use p3o::{Algorithm, Request};

    #[test]
    fn the_first_setting_that_differs_is_named() {
        let p3o = Request::new("PointGoal", Algorithm::P3o.into()).resolve().unwrap().config;
        let changed = |assignment: &str| {
            let mut config = p3o.clone();
            config.set(assignment).unwrap();
            difference(&p3o, &config)
        };
        let pair = |a: &str, b: &str| Some((a.to_string(), b.to_string()));
        assert_eq!(difference(&p3o, &p3o), None);
        assert_eq!(changed("p3o.kappa=3"), pair("p3o.kappa = 2.0", "p3o.kappa = 3.0"));
        assert_eq!(changed("limits.hazards=30"), pair("limits.hazards = 25.0", "limits.hazards = 30.0"));
        assert_eq!(changed("limits.hazards=none"), pair("limits.hazards = 25.0", "no limits.hazards"));
        assert_eq!(changed("env.level=2"), pair("no env.level", "env.level = 2.0"));
        // An algorithm has settings of its own; that it is another one comes first.
        let cpo = Request::new("PointGoal", Algorithm::Cpo.into()).resolve().unwrap().config;
        assert_eq!(difference(&p3o, &cpo), pair("algo = \"p3o\"", "algo = \"cpo\""));
        let preset = Config { preset: "paper".into(), ..p3o.clone() };
        assert_eq!(difference(&p3o, &preset), None);
    }
}
