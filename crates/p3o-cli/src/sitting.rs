//! How a sitting of a sweep ends: what became of its runs, the last line of a shard, and one writer of a report.

use crate::Failure;
use crate::screen::say;
use crate::train::shown;
use p3o::Error;
use p3o::record::RunLock;
use p3o_lab::sweep::{Ended, Job, Shard};
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long another process may take to write a report.
const PATIENCE: Duration = Duration::from_secs(120);

/// The wanted share of the runs; all of them if there is no shard.
pub fn share(shard: Option<Shard>, jobs: &[Job]) -> Vec<usize> {
    shard.map_or_else(|| (0..jobs.len()).collect(), |shard| shard.share(jobs))
}

/// An error if a run failed, was stopped or is another process's: only with all of its runs done has a sweep succeeded. `runs` is
/// how many it has with those that were done before.
pub fn verdict(jobs: &[Job], ended: &[Ended], runs: usize, stopped: bool) -> Result<(), Failure> {
    let is_in_use = |error: &&Error| matches!(error, Error::InUse { .. });
    let mut errors = ended.iter().filter_map(|e| e.as_ref().err()).filter(|error| !is_in_use(error));
    if let Some(error) = errors.next() {
        return Err(Failure::Failed(format!("{error} ({} of {runs} runs failed)", 1 + errors.count())));
    }
    let left = ended.iter().filter(|e| !matches!(e, Ok(Some(_)))).count();
    if stopped && left > 0 {
        say!("\nSaved with {} of {runs} runs done. The same command goes on.", runs - left);
        return Err(Failure::Interrupted);
    }
    let in_use = jobs.iter().zip(ended).filter(|(_, e)| e.as_ref().err().as_ref().is_some_and(is_in_use));
    in_use.for_each(|(job, _)| say!("Still another process's: {}", shown(&job.folder)));
    match left {
        0 => Ok(()),
        _ => Err(Failure::Failed(format!(
            "another process still has {left} of {runs} runs, named above; when it has ended, the same command sees to them"
        ))),
    }
}

/// The last line of a shard; `report` is the command that puts the shards together.
pub fn conclude(shard: Shard, done: usize, runs: usize, report: &str) {
    let what = if runs == 0 { "it has none of the runs".into() } else { format!("{done} of its {runs} runs are done") };
    say!("\nShard {shard}: {what}. When all shards are:  {report}");
}

/// Keeps other processes from writing the same report, and waits for one that does; none where nothing can be
/// locked.
pub fn report_lock(folder: &Path) -> Result<Option<RunLock>, Failure> {
    let start = Instant::now();
    loop {
        match RunLock::acquire(folder) {
            Err(e) if e.kind() == ErrorKind::ResourceBusy && start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(e) if e.kind() == ErrorKind::ResourceBusy => {
                let folder = shown(folder);
                return Err(Failure::Failed(format!(
                    "another process is writing the report in {folder}: try again later"
                )));
            }
            lock => return Ok(lock.ok()),
        }
    }
}
