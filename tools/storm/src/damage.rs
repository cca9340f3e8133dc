//! Files of a run with flipped bits, cut off, gone or from elsewhere: every command that reads the run either ends with one
//! sentence that names the file, or gives what it gives for the undamaged run.

use crate::program::{Ended, copy, names};
use crate::{Case, Finding, Outcome, Reference, Storm};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The run's folder as the commands name it.
const RUN: &str = "runs/run";
/// The commands, `resume` last: it changes the folder.
const COMMANDS: [&str; 4] = ["list", "plot", "evaluate", "resume"];

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Folders with one damaged file.
    pub trials: usize,
    /// Commands that refused with one sentence.
    pub refused: usize,
    /// Lists of runs that name the file instead of showing the run.
    pub left_out: usize,
    /// Commands that gave what they give for the undamaged run.
    pub same: usize,
    /// What did not hold, each kind with how often and one folder that shows it.
    pub findings: BTreeMap<String, (usize, Finding)>,
}

/// What happens to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Cut,
    Longer,
    Zeros,
    Empty,
    Missing,
    OtherRun,
    OtherFile,
}

/// A flipped bit and a cut may strike anywhere, so they come more often than the others.
const CHOICES: [Damage; 14] = {
    use Damage::{Cut, Empty, Flip, Longer, Missing, OtherFile, OtherRun, Zeros};
    [Flip, Flip, Flip, Flip, Cut, Cut, Cut, Cut, Longer, Zeros, Empty, Missing, OtherRun, OtherFile]
};

impl Damage {
    fn name(self) -> &'static str {
        match self {
            Damage::Flip => "with a flipped bit",
            Damage::Cut => "cut off",
            Damage::Longer => "with bytes behind its end",
            Damage::Zeros => "with a block of zeros",
            Damage::Empty => "empty",
            Damage::Missing => "missing",
            Damage::OtherRun => "of a run with another seed",
            Damage::OtherFile => "with the content of another file",
        }
    }

    /// Damages a file; says where, or nothing if it is as it was.
    fn strike(self, base: &Base, file: &str, run: &Path, rng: &mut ChaCha8Rng) -> Result<Option<String>, String> {
        let path = run.join(file);
        let failed = |e: std::io::Error| format!("cannot damage {}: {e}", path.display());
        let before = std::fs::read(&path).map_err(failed)?;
        let (mut bytes, at) = (before.clone(), rng.random_range(0..before.len()));
        let mut place = format!(" at byte {at} of {}", before.len());
        match self {
            Damage::Flip => {
                let bit = rng.random_range(0..8);
                bytes[at] ^= 1 << bit;
                place = format!(", bit {bit}{place}");
            }
            Damage::Cut => bytes.truncate(at),
            Damage::Longer => bytes.extend((0..rng.random_range(1..64)).map(|_| rng.random::<u8>())),
            Damage::Zeros => {
                let end = (at + 512).min(bytes.len());
                bytes[at..end].fill(0);
            }
            Damage::Empty => bytes.clear(),
            Damage::Missing => {
                std::fs::remove_file(&path).map_err(failed)?;
                return Ok(Some(String::new()));
            }
            Damage::OtherRun => {
                bytes =
                    std::fs::read(base.other.join(file)).or_else(|_| std::fs::read(base.latest())).map_err(failed)?
            }
            Damage::OtherFile => {
                let other = if file == "config.toml" { "progress.csv" } else { "config.toml" };
                bytes = std::fs::read(run.join(other)).map_err(failed)?;
            }
        }
        if bytes == before {
            return Ok(None);
        }
        std::fs::write(&path, bytes).map_err(failed)?;
        let is_somewhere = matches!(self, Damage::Flip | Damage::Cut | Damage::Zeros);
        Ok(Some(if is_somewhere { place } else { String::new() }))
    }
}

/// An undamaged folder, and what the commands give for it.
struct Base<'a> {
    reference: &'a Reference,
    kind: &'static str,
    folder: PathBuf,
    /// The same run with another seed.
    other: PathBuf,
    given: BTreeMap<&'static str, Given>,
}

impl Base<'_> {
    fn latest(&self) -> PathBuf {
        self.other.join("checkpoints/latest.safetensors")
    }

    /// The files that a run cannot be gone on with without.
    fn files(&self) -> Vec<String> {
        let mut checkpoints = names(&self.folder.join("checkpoints"));
        checkpoints.retain(|name| name.ends_with(".safetensors"));
        checkpoints.sort();
        let checkpoints = checkpoints.iter().map(|name| format!("checkpoints/{name}"));
        checkpoints.chain(["config.toml", "progress.csv"].map(String::from)).collect()
    }
}

/// What a command came to.
#[derive(Clone, Debug, PartialEq)]
enum Given {
    /// All runs.
    List(String),
    Text(String),
    Picture(Vec<u8>),
    Run(Outcome),
}

/// Damages one file at a time of finished and of half-finished runs of `cases`, so many times.
pub fn attack(storm: &Storm, cases: &[Case], trials: usize, watch: &(dyn Fn(usize) + Sync)) -> Result<Report, Finding> {
    let references = storm.references(cases)?;
    let mut bases = Vec::new();
    for reference in &references {
        let other = storm.other(&reference.case)?;
        for (kind, folder) in
            [("finished", reference.folder.clone()), ("half-finished", storm.half(&reference.case, "-INT")?)]
        {
            let mut base = Base { reference, kind, folder, other: other.clone(), given: BTreeMap::new() };
            let home = storm.home.join(format!("whole-{kind}-{}", reference.case.name));
            base.given = given(storm, &base, &home).map_err(|what| Finding { what, folder: home })?;
            bases.push(base);
        }
    }
    let (total, next) = (Mutex::new(Report::default()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..storm.jobs {
            scope.spawn(|| {
                loop {
                    let trial = next.fetch_add(1, Ordering::SeqCst);
                    if trial >= trials {
                        break;
                    }
                    let mut rng = ChaCha8Rng::seed_from_u64(storm.seed);
                    rng.set_stream(trial as u64);
                    let home = storm.home.join(format!("damage-{trial}"));
                    let found = try_one(storm, &bases[trial % bases.len()], &home, &mut rng);
                    let kept = total.lock().expect("no thread panics").take(found, &home);
                    if !kept {
                        std::fs::remove_dir_all(&home).ok();
                    }
                    if trial.is_multiple_of(100) && trial > 0 {
                        watch(trial);
                    }
                }
            });
        }
    });
    Ok(total.into_inner().expect("no thread panics"))
}

impl Report {
    /// Returns whether the folder shows something new.
    fn take(&mut self, found: Trial, home: &Path) -> bool {
        self.trials += 1;
        self.refused += found.refused;
        self.left_out += found.left_out;
        self.same += found.same;
        let mut is_new = false;
        for (kind, detail) in found.findings {
            let finding = || Finding { what: detail, folder: home.to_path_buf() };
            let entry = self.findings.entry(kind).or_insert_with(|| (0, finding()));
            entry.0 += 1;
            is_new |= entry.0 == 1;
        }
        is_new
    }
}

/// What one damaged folder came to; findings by kind, with details.
#[derive(Default)]
struct Trial {
    refused: usize,
    left_out: usize,
    same: usize,
    findings: Vec<(String, String)>,
}

fn try_one(storm: &Storm, base: &Base, home: &Path, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let files = base.files();
    let (file, damage) = (&files[rng.random_range(0..files.len())], CHOICES[rng.random_range(0..CHOICES.len())]);
    let run = home.join(RUN);
    let struck = copy(&base.folder, &run).and_then(|()| damage.strike(base, file, &run, rng));
    let place = match struck {
        Ok(Some(place)) => place,
        Ok(None) => return trial,
        Err(reason) => {
            trial.findings.push(("the folder could not be damaged".into(), reason));
            return trial;
        }
    };
    let name = Path::new(file).file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let about = format!("{name} {} in a {} run", damage.name(), base.kind);
    for command in COMMANDS {
        let found = match attempt(storm, command, home) {
            Ok((ended, given)) => judge(&ended, given, &base.given[command], &name),
            Err(reason) => Err((reason.clone(), reason)),
        };
        match found {
            Ok(Judged::Refused) => trial.refused += 1,
            Ok(Judged::LeftOut) => trial.left_out += 1,
            Ok(Judged::Same) => trial.same += 1,
            Err((kind, detail)) => {
                let detail = format!("{}, {command}, {file}{place}: {detail}", base.reference.case.name);
                trial.findings.push((format!("{command}, {about}: {kind}"), detail));
            }
        }
    }
    trial
}

/// What a command made of a damaged file, where that was right.
#[derive(Debug, PartialEq)]
enum Judged {
    /// It failed with one sentence that names the file.
    Refused,
    /// It lists all runs, and names the file in place of this one.
    LeftOut,
    /// It gave what it gives for the undamaged run.
    Same,
}

/// What a command made of a damaged file; a kind and a detail if that was wrong.
fn judge(ended: &Ended, given: Result<Given, String>, whole: &Given, file: &str) -> Result<Judged, (String, String)> {
    let with = |kind: &str, detail: &str| (kind.to_string(), detail.trim().to_string());
    ended.is_calm().map_err(|detail| with("a panic", &detail))?;
    if ended.code != Some(0) {
        let sentence = ended.sentence().map_err(|detail| with("not one sentence", &detail))?;
        return match sentence.contains(file) {
            true => Ok(Judged::Refused),
            false => Err(with("the sentence does not name the file", sentence)),
        };
    }
    match (given, whole) {
        (Err(detail), _) => Err(with("success without a result", &detail)),
        (Ok(given), _) if given == *whole => Ok(Judged::Same),
        (Ok(Given::List(list)), Given::List(whole)) if leaves_out(&list, whole, file) => Ok(Judged::LeftOut),
        (Ok(Given::List(list)), _) => Err(with("other results", list.lines().last().unwrap_or_default())),
        (Ok(Given::Run(run)), Given::Run(whole)) => {
            Err(with("other results", &whole.compare(&run).err().unwrap_or_default()))
        }
        (Ok(_), _) => Err(with("other results", &ended.complaint)),
    }
}

/// Whether every line about the run names the file or is as it was, and at least one names it.
fn leaves_out(list: &str, whole: &str, file: &str) -> bool {
    let mut about = list.lines().filter(|line| line.contains(RUN)).peekable();
    let names = |line: &str| line.contains(file);
    about.clone().any(names) && about.all(|line| names(line) || whole.lines().any(|known| known == line))
}

/// What every command gives for the undamaged folder.
fn given(storm: &Storm, base: &Base, home: &Path) -> Result<BTreeMap<&'static str, Given>, String> {
    copy(&base.folder, &home.join(RUN))?;
    let mut all = BTreeMap::new();
    for command in COMMANDS {
        let (ended, given) = attempt(storm, command, home)?;
        ended.is_good().map_err(|reason| format!("{command} of an undamaged run: {reason}"))?;
        all.insert(command, given?);
    }
    match &all["resume"] {
        Given::Run(run) => base.reference.outcome.compare(run)?,
        _ => return Err("resume gives a run".into()),
    }
    Ok(all)
}

/// Starts a command beside the run's folder; how it ended and what it gave.
fn attempt(storm: &Storm, command: &str, home: &Path) -> Result<(Ended, Result<Given, String>), String> {
    let arguments: &[&str] = match command {
        "list" => &["list"],
        "plot" => &["plot", RUN, "-o", "plot.svg"],
        "evaluate" => &["evaluate", RUN, "--json", "--episodes", "2", "--threads", "1"],
        _ => &["resume", RUN, "--threads", "1"],
    };
    let mut started = storm.program.command(arguments);
    started.current_dir(home);
    let ended = storm.program.wait(started)?;
    let given = match command {
        "list" => Ok(Given::List(ended.told.clone())),
        "evaluate" => Ok(Given::Text(ended.told.clone())),
        "plot" => std::fs::read(home.join("plot.svg")).map(Given::Picture).map_err(|e| e.to_string()),
        _ => Outcome::of(&home.join(RUN)).map(Given::Run),
    };
    Ok((ended, given))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32, complaint: &str) -> Ended {
        Ended { code: Some(code), told: String::new(), complaint: complaint.into() }
    }

    #[test]
    fn a_command_refuses_by_name_or_gives_the_same() {
        let whole = Given::Text("return 3".into());
        let kind = |ended: &Ended, given: &str| {
            judge(ended, Ok(Given::Text(given.into())), &whole, "config.toml").map_err(|(kind, _)| kind)
        };
        assert_eq!(kind(&ended(0, ""), "return 3"), Ok(Judged::Same));
        assert_eq!(kind(&ended(1, "p3o: runs/run/config.toml: line 3: no\n"), ""), Ok(Judged::Refused));
        assert_eq!(kind(&ended(0, ""), "return 4"), Err("other results".into()));
        assert_eq!(kind(&ended(1, "p3o: no\n"), ""), Err("the sentence does not name the file".into()));
        assert_eq!(kind(&ended(1, "p3o: config.toml: no\nno\n"), ""), Err("not one sentence".into()));
        assert_eq!(kind(&ended(101, "panicked at config.toml\n"), ""), Err("a panic".into()));
        let lost = judge(&ended(0, ""), Err("no picture".into()), &whole, "config.toml");
        assert_eq!(lost, Err(("success without a result".into(), "no picture".into())));
    }

    #[test]
    fn a_list_leaves_out_a_run_by_the_name_of_its_file() {
        let whole = "Runs\n  runs/run  400  3.5\n";
        let is_left_out = |list: &str| leaves_out(list, whole, "config.toml");
        assert!(is_left_out("Runs\n  left out: runs/run/config.toml: line 3: no\n"));
        assert!(is_left_out("Runs\n  runs/run  400  3.5\n  runs/run/config.toml was altered\n"));
        assert!(!is_left_out("Runs\n"));
        assert!(!is_left_out("Runs\n  left out: runs/run/progress.csv: line 3: no\n"));
        assert!(!is_left_out("Runs\n  runs/run  400  3.6\n  runs/run/config.toml was altered\n"));
    }
}
