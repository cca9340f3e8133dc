//! The program under attack, and what its runs leave behind.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Columns of progress.csv that depend on the machine or on the other columns' text.
const MACHINE: [&str; 3] = ["steps_per_s", "wall_s", "check"];
/// Longer than any of these runs takes on a slow and busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Steps of an update.
const BATCH: usize = 200;

/// A small run: updates of milliseconds, a checkpoint at every one or two.
#[derive(Clone, Debug)]
pub struct Case {
    /// The algorithm.
    pub name: &'static str,
    /// Its updates.
    pub updates: usize,
    /// Decides every random number of the run.
    pub seed: u64,
    task: &'static str,
    settings: &'static [&'static str],
}

/// First and second order, multipliers, and a team that remembers.
pub fn cases() -> Vec<Case> {
    let of = |name, task, settings| Case { name, updates: 24, seed: 3, task, settings };
    vec![
        of("p3o", "PointGoal", &["run.checkpoint_every=1"]),
        of("ppo-lag", "PointGoal", &["run.checkpoint_every=2"]),
        of("cpo", "PointGoal", &["run.checkpoint_every=1"]),
        of("map3o", "SimpleSpread", &["run.checkpoint_every=2", "net.gru=8"]),
    ]
}

impl Case {
    /// The same with another number of updates.
    pub fn with_updates(self, updates: usize) -> Case {
        Case { updates, ..self }
    }

    /// The same with another seed.
    pub fn with_seed(self, seed: u64) -> Case {
        Case { seed, ..self }
    }

    /// The arguments of `p3o train` for a run into `folder`.
    fn arguments(&self, folder: &Path, threads: usize) -> Vec<String> {
        let (out, steps) = (folder.display().to_string(), (BATCH * self.updates).to_string());
        let seed = self.seed.to_string();
        let mut all = vec!["train", self.task, "--algo", self.name, "--seed", &seed, "--steps", &steps, "--out", &out]
            .into_iter()
            .map(String::from)
            .collect::<Vec<_>>();
        all.extend(["--threads".into(), threads.to_string(), "--set".into(), format!("rollout.batch={BATCH}")]);
        let shared = ["rollout.envs=2", "net.hidden=8", "policy.passes=4", "critic.passes=4"];
        let second_order = |setting: &&str| self.name == "cpo" && setting.starts_with("policy.passes");
        let settings = shared.iter().filter(|setting| !second_order(setting)).chain(self.settings);
        all.extend(settings.flat_map(|setting| ["--set".to_string(), setting.to_string()]));
        all
    }
}

/// The program `p3o`.
#[derive(Clone, Debug)]
pub struct Program(pub PathBuf);

/// How a process ended by itself.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub told: String,
    /// What it complained of.
    pub complaint: String,
}

impl Ended {
    /// Whether it has done what it was to do.
    pub fn is_good(&self) -> Result<(), String> {
        self.is_calm()?;
        if self.code == Some(0) { Ok(()) } else { Err(format!("it failed: {}", self.complaint.trim())) }
    }

    /// Whether it has ended without a panic: by itself or by a kill.
    pub fn is_calm(&self) -> Result<(), String> {
        match self.complaint.contains("panicked at") || self.code == Some(101) {
            true => Err(format!("it panicked: {}", self.complaint.trim())),
            false => Ok(()),
        }
    }

    /// The one sentence of a failure.
    pub fn sentence(&self) -> Result<&str, String> {
        let line = self.complaint.trim_end();
        let is_one = self.complaint.starts_with("p3o: ") && line.lines().count() == 1;
        if is_one { Ok(line) } else { Err(format!("its complaint is not one sentence: {:?}", self.complaint)) }
    }
}

impl Program {
    /// The command that starts a run into `folder`.
    pub fn train(&self, case: &Case, folder: &Path, threads: usize) -> Command {
        self.command(case.arguments(folder, threads))
    }

    /// The command that goes on with a run.
    pub fn resume(&self, folder: &Path, threads: usize) -> Command {
        self.command([
            OsStr::new("resume"),
            folder.as_os_str(),
            OsStr::new("--threads"),
            OsStr::new(&threads.to_string()),
        ])
    }

    /// What a user would type who sees this folder: `resume` if there is a checkpoint, `train` if there is none.
    pub fn go_on(&self, case: &Case, folder: &Path, threads: usize) -> Command {
        if has_checkpoint(folder) { self.resume(folder, threads) } else { self.train(case, folder, threads) }
    }

    /// The program with these arguments.
    pub fn command(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(&self.0);
        command.args(arguments);
        command
    }

    /// Runs a command to its end, which must come.
    pub fn wait(&self, mut command: Command) -> Result<Ended, String> {
        let mut child = start(&mut command)?;
        let started = Instant::now();
        while child.try_wait().map_err(|e| e.to_string())?.is_none() {
            if started.elapsed() > PATIENCE {
                end(child)?;
                return Err(format!("it had not ended after {} s", PATIENCE.as_secs()));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        end(child)
    }
}

/// Starts a command with its output kept. The output of these runs is far smaller than a pipe.
pub(crate) fn start(command: &mut Command) -> Result<Child, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|e| format!("cannot start {:?}: {e}", command.get_program()))
}

/// Kills a process that is still there, and says how it ended.
pub(crate) fn end(mut child: Child) -> Result<Ended, String> {
    // One that has ended by itself cannot be killed, and need not be.
    child.kill().ok();
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ended { code: output.status.code(), told: text(&output.stdout), complaint: text(&output.stderr) })
}

/// Whether a run has come as far as a checkpoint.
pub(crate) fn has_checkpoint(folder: &Path) -> bool {
    names(&folder.join("checkpoints")).iter().any(|name| name.ends_with(".safetensors"))
}

/// The names in a folder; none if it is not there.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Copies a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("cannot copy {}: {e}", from.display());
    std::fs::create_dir_all(to).map_err(failed)?;
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let target = to.join(entry.file_name());
        match entry.file_type().map_err(failed)?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => drop(std::fs::copy(entry.path(), &target).map_err(failed)?),
        }
    }
    Ok(())
}

/// What a finished run has come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    checkpoint: Vec<u8>,
    rows: Vec<Vec<String>>,
}

impl Outcome {
    /// The last checkpoint's bytes, and progress.csv without the columns that the machine decides.
    pub fn of(folder: &Path) -> Result<Outcome, String> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))
        };
        let checkpoint = read("checkpoints/latest.safetensors")?;
        let text = String::from_utf8(read("progress.csv")?).map_err(|_| "progress.csv is no text".to_string())?;
        let header: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
        let kept = |line: &str| {
            let fields = line.split(',').enumerate();
            fields
                .filter(|(i, _)| !header.get(*i).is_some_and(|name| MACHINE.contains(name)))
                .map(|(_, f)| f.into())
                .collect()
        };
        Ok(Outcome { checkpoint, rows: text.lines().map(kept).collect() })
    }

    /// Whether another run has come to the same, byte for byte.
    pub fn compare(&self, other: &Outcome) -> Result<(), String> {
        if self.rows != other.rows {
            let differs = self.rows.iter().zip(&other.rows).position(|(a, b)| a != b);
            let at = differs.unwrap_or(self.rows.len().min(other.rows.len())) + 1;
            return Err(format!("progress.csv differs from the undisturbed run's in line {at}"));
        }
        if self.checkpoint != other.checkpoint {
            return Err("the last checkpoint differs from the undisturbed run's".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "update,return,steps_per_s,wall_s,check\n";

    fn outcome(home: &Path, name: &str, checkpoint: &[u8], rows: &str) -> Outcome {
        let folder = home.join(name);
        std::fs::create_dir_all(folder.join("checkpoints")).unwrap();
        std::fs::write(folder.join("checkpoints/latest.safetensors"), checkpoint).unwrap();
        std::fs::write(folder.join("progress.csv"), format!("{HEADER}{rows}")).unwrap();
        Outcome::of(&folder).unwrap()
    }

    #[test]
    fn runs_are_compared_but_for_what_the_machine_decides() {
        let home = tempfile::tempdir().unwrap();
        let reference = outcome(home.path(), "reference", b"weights", "1,0.5,100,2,ab\n2,0.75,100,4,cd\n");
        let compare = |name: &str, checkpoint: &[u8], rows: &str| {
            reference.compare(&outcome(home.path(), name, checkpoint, rows)).expect_err(name)
        };
        let differs = |line| format!("progress.csv differs from the undisturbed run's in line {line}");
        assert_eq!(
            reference.compare(&outcome(home.path(), "slow", b"weights", "1,0.5,7,9,xy\n2,0.75,8,9,zw\n")),
            Ok(())
        );
        assert_eq!(compare("row", b"weights", "1,0.5,100,2,ab\n2,0.7,100,4,cd\n"), differs(3));
        assert_eq!(compare("short", b"weights", "1,0.5,100,2,ab\n"), differs(3));
        assert_eq!(compare("long", b"weights", "1,0.5,100,2,ab\n2,0.75,100,4,cd\n3,1,1,1,ef\n"), differs(4));
        assert_eq!(compare("twice", b"weights", "1,0.5,100,2,ab\n1,0.5,100,2,ab\n2,0.75,100,4,cd\n"), differs(3));
        let other = compare("weights", b"weightt", "1,0.5,100,2,ab\n2,0.75,100,4,cd\n");
        assert_eq!(other, "the last checkpoint differs from the undisturbed run's");
        assert!(Outcome::of(&home.path().join("nowhere")).is_err());
    }

    #[test]
    fn a_complaint_is_one_sentence_and_no_panic() {
        let ended =
            |code, complaint: &str| Ended { code: Some(code), told: String::new(), complaint: complaint.into() };
        assert_eq!(ended(1, "p3o: no space left\n").sentence(), Ok("p3o: no space left"));
        assert!(ended(1, "p3o: one\nand two\n").sentence().is_err());
        assert!(ended(1, "").sentence().is_err());
        assert!(ended(1, "p3o: no space left\n").is_calm().is_ok());
        assert!(ended(1, "p3o: no space left\n").is_good().is_err());
        assert!(ended(101, "thread 'main' panicked at src/main.rs:1:1\n").is_calm().is_err());
    }
}
