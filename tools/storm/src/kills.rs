//! Kills at random moments: a run is started, killed and resumed until it is finished, and then compared.

use crate::program::{PATIENCE, end, has_checkpoint, names, start};
use crate::{Case, Ended, Finding, Reference, Storm};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// What came of the kills.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Processes killed.
    pub kills: usize,
    /// Those before the first checkpoint.
    pub early: usize,
    /// Those in the middle of a file's replacement.
    pub in_writes: usize,
    /// Processes started with `resume`.
    pub resumes: usize,
    /// Runs finished and compared.
    pub finished: usize,
    /// Runs that did not come to the same, could not be gone on with, or panicked.
    pub findings: Vec<Finding>,
}

/// When a process is killed.
enum Moment {
    /// So long after its start.
    After(Duration),
    /// So long after so many changes of its folder of checkpoints.
    Change(usize, Duration),
    /// Never.
    Never,
}

/// Kills so many processes over runs of all `cases`. `watch` is told now and then how many there have been.
pub fn attack(storm: &Storm, cases: &[Case], kills: usize, watch: &(dyn Fn(usize) + Sync)) -> Result<Report, Finding> {
    let references = storm.references(cases)?;
    let (total, next, done) = (Mutex::new(Report::default()), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..storm.jobs {
            scope.spawn(|| {
                while done.load(Ordering::SeqCst) < kills {
                    let run = next.fetch_add(1, Ordering::SeqCst);
                    let reference = &references[run % references.len()];
                    let mut rng = ChaCha8Rng::seed_from_u64(storm.seed);
                    rng.set_stream(run as u64);
                    let folder = storm.home.join(format!("run-{run}"));
                    let mut victim = Victim { storm, reference, folder, rng, report: Report::default() };
                    let killed = || {
                        let now = done.fetch_add(1, Ordering::SeqCst) + 1;
                        if now.is_multiple_of(100) {
                            watch(now);
                        }
                    };
                    victim.go_through(&|| done.load(Ordering::SeqCst) < kills, &killed);
                    add(&mut total.lock().expect("no thread panics"), victim.report);
                }
            });
        }
    });
    Ok(total.into_inner().expect("no thread panics"))
}

fn add(total: &mut Report, one: Report) {
    total.kills += one.kills;
    total.early += one.early;
    total.in_writes += one.in_writes;
    total.resumes += one.resumes;
    total.finished += one.finished;
    total.findings.extend(one.findings);
}

/// One run that is killed again and again.
struct Victim<'a> {
    storm: &'a Storm,
    reference: &'a Reference,
    folder: PathBuf,
    rng: ChaCha8Rng,
    report: Report,
}

impl Victim<'_> {
    /// To the end of the run; the folder stays if something was wrong.
    fn go_through(&mut self, more: &dyn Fn() -> bool, killed: &dyn Fn()) {
        let before = self.report.kills;
        match self.sittings(more, killed) {
            Ok(()) => {
                self.report.finished += 1;
                std::fs::remove_dir_all(&self.folder).ok();
            }
            Err(reason) => {
                let (name, kills) = (self.reference.case.name, self.report.kills - before);
                let what = format!("{name}, after {kills} kills: {reason}");
                self.report.findings.push(Finding { what, folder: self.folder.clone() });
            }
        }
    }

    fn sittings(&mut self, more: &dyn Fn() -> bool, killed: &dyn Fn()) -> Result<(), String> {
        loop {
            let moment = if more() { self.moment() } else { Moment::Never };
            let (threads, checkpoints) = (self.rng.random_range(1..3), self.folder.join("checkpoints"));
            let command = self.storm.program.go_on(&self.reference.case, &self.folder, threads);
            self.report.resumes += usize::from(command.get_args().next().is_some_and(|first| first == "resume"));
            let ended = match moment {
                Moment::Never => self.storm.program.wait(command)?,
                moment => sit(command, &moment, &checkpoints)?,
            };
            ended.is_calm()?;
            if ended.code.is_some() {
                ended.is_good()?;
                return self.reference.compare(&self.folder);
            }
            killed();
            self.report.kills += 1;
            let is_scratch = |folder: &Path| names(folder).iter().any(|name| name.ends_with(".scratch"));
            self.report.in_writes += usize::from(is_scratch(&self.folder) || is_scratch(&checkpoints));
            self.report.early += usize::from(!has_checkpoint(&self.folder));
        }
    }

    /// A third each: anywhere, early, and around a checkpoint.
    fn moment(&mut self) -> Moment {
        let (whole, share) = (self.reference.took, self.rng.random::<f64>());
        match self.rng.random_range(0..3) {
            0 => Moment::After(whole.mul_f64(share)),
            1 => Moment::After(whole.mul_f64(0.2 * share)),
            _ => Moment::Change(self.rng.random_range(1..12), Duration::from_micros(1500).mul_f64(share)),
        }
    }
}

/// Starts a process and kills it at its moment, unless it ends before.
fn sit(mut command: std::process::Command, moment: &Moment, checkpoints: &Path) -> Result<Ended, String> {
    let changed = || -> Option<SystemTime> { std::fs::metadata(checkpoints).ok()?.modified().ok() };
    let (started, mut seen, mut changes) = (Instant::now(), changed(), 0);
    let mut child = start(&mut command)?;
    let mut deadline = match moment {
        Moment::After(delay) => Some(started + *delay),
        _ => None,
    };
    while child.try_wait().map_err(|e| e.to_string())?.is_none() {
        let now = Instant::now();
        if now - started > PATIENCE {
            end(child)?;
            return Err(format!("it had not ended after {} s", PATIENCE.as_secs()));
        }
        if deadline.is_some_and(|deadline| now >= deadline) {
            break;
        }
        if let (Moment::Change(nth, delay), None) = (moment, deadline) {
            let latest = changed();
            changes += usize::from(latest != seen);
            seen = latest;
            deadline = (changes >= *nth).then(|| now + *delay);
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    end(child)
}
