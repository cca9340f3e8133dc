//! How long a sweep will take, from runs that have been made and short measurements of the others.

use crate::sweep::{Job, Place, Workers};
use p3o::run::named_task;
use p3o::{Config, Error, Learner, Method, RunFolder};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What is known of the time that jobs take.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Seconds until all are done.
    pub seconds: f64,
    /// Steps that every job still has to make.
    pub left: Vec<u64>,
    /// Seconds that a step of every job takes.
    pub per_step: Vec<f64>,
    /// Jobs that have nothing left to do.
    pub finished: usize,
}

/// The most steps on which a run's speed is measured, unless its environments make more at once.
pub const LARGEST_PROBE: usize = 10_000;
/// The same on a device, which only a whole batch keeps busy.
pub const LARGEST_DEVICE_PROBE: usize = 100_000;

/// Runs that take equally long per step, as far as an estimate goes.
type Sort = (String, Method);

fn sort(job: &Job) -> Sort {
    (job.config.task.clone(), job.config.method())
}

/// Estimates the time that is left.
pub fn estimate(jobs: &[Job], workers: &Workers) -> Estimate {
    let device = workers.place.device();
    let made: Vec<Made> = jobs.iter().map(|job| Made::of(job, &device)).collect();
    let left: Vec<u64> = jobs.iter().zip(&made).map(|(job, made)| job.steps().saturating_sub(made.steps)).collect();
    let mut speeds = past(jobs, &made);
    let mut unknown: BTreeMap<Sort, &Config> = BTreeMap::new();
    for (job, _) in jobs.iter().zip(&left).filter(|(_, left)| **left > 0) {
        if !speeds.contains_key(&sort(job)) {
            unknown.entry(sort(job)).or_insert(&job.config);
        }
    }
    speeds.extend(probe_all(&unknown.into_iter().collect::<Vec<_>>(), workers));
    let per_step: Vec<f64> = jobs.iter().map(|job| speeds.get(&sort(job)).copied().unwrap_or(0.0)).collect();
    let times = left.iter().zip(&per_step).map(|(left, pace)| *left as f64 * pace);
    let finished = left.iter().filter(|left| **left == 0).count();
    Estimate { seconds: makespan(times, workers.runs), left, per_step, finished }
}

impl Estimate {
    /// Whether a job has nothing left to do, not even its summary.
    pub fn is_over(&self, index: usize, job: &Job) -> bool {
        self.left[index] == 0 && job.folder.join("summary.json").is_file()
    }
}

/// What is there of a job.
#[derive(Default)]
struct Made {
    /// Steps up to its checkpoint.
    steps: u64,
    /// Seconds and steps of its last row, if they tell how fast this device is.
    last: Option<(f64, f64)>,
}

impl Made {
    /// A folder that cannot be read counts as empty: the sweep will say what is wrong.
    fn of(job: &Job, device: &str) -> Made {
        let Ok(run) = RunFolder::open(&job.folder) else {
            // Without its checkpoints a run may still be finished.
            let is_finished = matches!(job.finished(), Ok(Some(_)));
            return Made { steps: if is_finished { job.steps() } else { 0 }, last: None };
        };
        let at = run.table.column("wall_s").zip(run.table.column("steps"));
        let last = run.table.rows.last().filter(|_| run.devices().iter().all(|used| used == device));
        let last = last.zip(at).map(|(row, (wall, steps))| (row[wall], row[steps]));
        Made { steps: run.steps(), last }
    }
}

/// Seconds per step of the runs that are there already.
fn past(jobs: &[Job], made: &[Made]) -> BTreeMap<Sort, f64> {
    let mut sums: BTreeMap<Sort, (f64, f64)> = BTreeMap::new();
    for (job, (wall, steps)) in jobs.iter().zip(made).filter_map(|(job, made)| Some((job, made.last?))) {
        let sum = sums.entry(sort(job)).or_default();
        *sum = (sum.0 + wall, sum.1 + steps);
    }
    sums.into_iter().map(|(sort, (wall, steps))| (sort, wall / steps)).collect()
}

/// Measures as many at once as the sweep will make. What cannot be measured is left out: the sweep will say why.
fn probe_all(configs: &[(Sort, &Config)], workers: &Workers) -> Vec<(Sort, f64)> {
    let (next, speeds) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..workers.runs.min(configs.len()) {
            scope.spawn(|| {
                while let Some((sort, config)) = configs.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let speed = probe(config, workers).ok().map(|speed| (sort.clone(), speed));
                    speeds.lock().expect("nothing panics with it").extend(speed);
                }
            });
        }
    });
    speeds.into_inner().expect("nothing panics with it")
}

fn probe(config: &Config, workers: &Workers) -> Result<f64, Error> {
    workers.pool()?.install(|| seconds_per_step(config, workers.place))
}

/// Seconds per step on the current threads: the second of two updates on a tenth of the batch and at most [`LARGEST_PROBE`]
/// steps, whose passes are as many as the whole one's; on a device of the batch and at most [`LARGEST_DEVICE_PROBE`] steps.
pub fn seconds_per_step(config: &Config, place: &dyn Place) -> Result<f64, Error> {
    let mut config = config.clone();
    let sequence = if config.net.is_recurrent() { config.net.bptt } else { 1 };
    let batch = config.rollout.batch;
    let (steps, most) = if place.is_cpu() { (batch / 10, LARGEST_PROBE) } else { (batch, LARGEST_DEVICE_PROBE) };
    config.rollout.batch = steps.clamp(1, most).next_multiple_of(config.rollout.envs * sequence);
    let batch = config.rollout.batch as f64;
    let make = named_task(&config)?;
    let mut learner = Learner::with_engines(config, &*make, &|networks, several| place.engine(networks, several))?;
    learner.update()?;
    let start = Instant::now();
    learner.update()?;
    Ok(start.elapsed().as_secs_f64() / batch)
}

/// When the last job ends if every worker takes the next one as soon as it is free.
fn makespan(times: impl Iterator<Item = f64>, workers: usize) -> f64 {
    let mut free = vec![0.0; workers.max(1)];
    for time in times {
        let first = free.iter_mut().min_by(|a, b| f64::total_cmp(a, b)).expect("there is a worker");
        *first += time;
    }
    free.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_takes_the_next_job_when_it_is_free() {
        // The first takes 5 alone; the second 3, then 1 and 2.
        assert_eq!(makespan([5.0, 3.0, 1.0, 2.0].into_iter(), 2), 6.0);
        assert_eq!(makespan([5.0, 3.0].into_iter(), 1), 8.0);
        assert_eq!(makespan(std::iter::empty(), 4), 0.0);
    }
}
