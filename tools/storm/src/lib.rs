//! Attacks on runs of `p3o`, from outside: the program is started as a user would, and its folder is judged by what it holds.
//!
//! [`kills`] ends it at random moments, [`calls`] lets single system calls fail or kill it, [`damage`] spoils its files. What
//! is expected is the same each time: the bytes of the run that was left alone, or one sentence that says what is wrong.

pub mod calls;
pub mod damage;
pub mod kills;
mod program;

pub use program::{Case, Ended, Outcome, Program, cases};

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An expectation that did not hold, with the folder that shows it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was done and what came of it.
    pub what: String,
    /// The folder as the failure left it.
    pub folder: PathBuf,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; kept in {}", self.what, self.folder.display())
    }
}

/// Where an attack works, and how.
#[derive(Clone, Debug)]
pub struct Storm {
    /// The program under attack.
    pub program: Program,
    /// The folder of all runs.
    pub home: PathBuf,
    /// Decides every random choice.
    pub seed: u64,
    /// Attacks at a time.
    pub jobs: usize,
}

impl Storm {
    /// Runs of every case that nothing disturbs.
    fn references(&self, cases: &[Case]) -> Result<Vec<Reference>, Finding> {
        cases.iter().map(|case| self.reference(case)).collect()
    }

    /// The folder of a run that got a signal at about a third of its updates: after `-KILL` it is as it was, after `-INT` it is
    /// saved.
    fn half(&self, case: &Case, signal: &str) -> Result<PathBuf, Finding> {
        let folder = self.home.join(format!("half-{}", case.name));
        let finding = |what: String| Finding { what, folder: folder.clone() };
        // On a busy machine the signal may come too late.
        for _ in 0..20 {
            if self.stopped(case, &folder, signal).map_err(finding)? {
                return Ok(folder);
            }
            std::fs::remove_dir_all(&folder).map_err(|e| finding(e.to_string()))?;
        }
        Err(finding("it always ended before it could be stopped".into()))
    }

    /// Whether a run was stopped before its end.
    fn stopped(&self, case: &Case, folder: &Path, signal: &str) -> Result<bool, String> {
        let mut child = program::start(&mut self.program.train(case, folder, 1))?;
        let rows = || std::fs::read_to_string(folder.join("progress.csv")).map_or(0, |text| text.lines().count());
        while rows() <= case.updates / 3 && child.try_wait().is_ok_and(|ended| ended.is_none()) {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        let id = child.id().to_string();
        Command::new("kill").args([signal, &id]).output().map_err(|e| format!("cannot start kill: {e}"))?;
        let output = child.wait_with_output().map_err(|e| e.to_string())?;
        Ok(matches!(output.status.code(), None | Some(130)))
    }

    /// The folder of a finished run with another seed.
    fn other(&self, case: &Case) -> Result<PathBuf, Finding> {
        let folder = self.home.join(format!("other-{}", case.name));
        let finding = |what: String| Finding { what, folder: folder.clone() };
        let case = case.clone().with_seed(case.seed + 1);
        let ended = self.program.wait(self.program.train(&case, &folder, 1)).map_err(finding)?;
        ended.is_good().map_err(finding)?;
        Ok(folder)
    }

    fn reference(&self, case: &Case) -> Result<Reference, Finding> {
        let folder = self.home.join(format!("reference-{}", case.name));
        let finding = |what: String| Finding { what, folder: folder.clone() };
        let started = std::time::Instant::now();
        let ended = self.program.wait(self.program.train(case, &folder, 1)).map_err(finding)?;
        let took = started.elapsed();
        ended.is_good().map_err(finding)?;
        let outcome = Outcome::of(&folder).map_err(finding)?;
        Ok(Reference { case: case.clone(), folder, outcome, took })
    }
}

/// A case, and what it comes to when it is left alone.
#[derive(Clone, Debug)]
struct Reference {
    case: Case,
    folder: PathBuf,
    outcome: Outcome,
    took: std::time::Duration,
}

impl Reference {
    /// Whether a finished run has come to the same.
    fn compare(&self, folder: &Path) -> Result<(), String> {
        self.outcome.compare(&Outcome::of(folder)?)
    }
}
