//! One failing system call at a time: every call of `train` and of `resume` that touches the run's folder fails once with each of
//! several errors, fails from there on, and kills the process once. Then the run is gone on with, and compared.
//!
//! strace does it (`-e inject=CALL:error=E:when=N`). A first, undisturbed sitting says which calls there are.

use crate::program::{Ended, copy};
use crate::{Case, Finding, Reference, Storm};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The calls, and the errors that each may have.
const CALLS: &[(&str, &[&str])] = &[
    ("openat", &["ENOSPC", "EIO", "EINTR", "EMFILE", "EACCES"]),
    ("read", &["EIO", "EINTR"]),
    ("write", &["ENOSPC", "EIO", "EINTR"]),
    ("pwrite64", &["ENOSPC", "EIO", "EINTR"]),
    ("fsync", &["ENOSPC", "EIO", "EINTR"]),
    ("fdatasync", &["ENOSPC", "EIO", "EINTR"]),
    ("rename", &["ENOSPC", "EIO", "EACCES"]),
    ("renameat", &["ENOSPC", "EIO", "EACCES"]),
    ("renameat2", &["ENOSPC", "EIO", "EACCES"]),
    ("link", &["ENOSPC", "EIO", "EPERM"]),
    ("linkat", &["ENOSPC", "EIO", "EPERM"]),
    ("unlink", &["EIO", "EACCES"]),
    ("unlinkat", &["EIO", "EACCES"]),
    ("ftruncate", &["EIO", "EINTR"]),
    ("mkdir", &["ENOSPC", "EIO", "EACCES"]),
    ("mkdirat", &["ENOSPC", "EIO", "EACCES"]),
    ("flock", &["ENOLCK", "EINTR"]),
];

/// Calls to `write` that a complaint takes, at most, from whatever thread.
const COMPLAINT: usize = 8;

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Calls of undisturbed sittings that touch the folder.
    pub calls: usize,
    /// Failures and kills to be tried.
    pub planned: usize,
    /// Failures and kills that happened, by call.
    pub injected: BTreeMap<&'static str, usize>,
    /// Sittings that ended with one sentence.
    pub refused: usize,
    /// Sittings that went on to the end in spite of the failure.
    pub went_on: usize,
    /// Sittings that were killed.
    pub killed: usize,
    /// Those whose call did not come about again.
    pub missed: usize,
    /// What did not hold.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Failures and kills that happened.
    pub fn tried(&self) -> usize {
        self.injected.values().sum()
    }
}

/// A run's beginning or its second half.
struct Stage<'a> {
    reference: &'a Reference,
    /// The folder that a sitting starts from; none for a new run.
    from: Option<PathBuf>,
}

/// One failure to be tried.
struct Attempt<'a> {
    stage: &'a Stage<'a>,
    call: &'static str,
    /// `error=EIO`, with `when=N` behind it.
    inject: String,
    /// The paths among which calls are counted; none if all of the thread's are.
    paths: Vec<PathBuf>,
}

/// Whether strace can be started.
pub fn has_strace() -> bool {
    Command::new("strace").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Tries every failure of every call over runs of `cases`, in random order, for so long.
pub fn attack(
    storm: &Storm,
    cases: &[Case],
    time: Duration,
    watch: &(dyn Fn(usize, usize) + Sync),
) -> Result<Report, Finding> {
    let until = Instant::now() + time;
    let references = storm.references(cases)?;
    let mut stages = Vec::new();
    for reference in &references {
        let from = storm.half(&reference.case, "-KILL")?;
        stages.extend([None, Some(from)].map(|from| Stage { reference, from }));
    }
    let mut report = Report::default();
    let mut attempts = Vec::new();
    for stage in &stages {
        attempts.extend(plan(storm, stage, &mut report)?);
    }
    attempts.shuffle(&mut ChaCha8Rng::seed_from_u64(storm.seed));
    report.planned = attempts.len();
    let (total, next) = (Mutex::new(report), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..storm.jobs {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::SeqCst);
                    let Some(attempt) = attempts.get(i).filter(|_| Instant::now() < until) else { break };
                    let folder = storm.home.join(format!("call-{i}"));
                    let found = attempt.make(storm, &folder);
                    let mut total = total.lock().expect("no thread panics");
                    total.take(attempt, &folder, found);
                    if i.is_multiple_of(100) && i > 0 {
                        watch(i, attempts.len());
                    }
                }
            });
        }
    });
    Ok(total.into_inner().expect("no thread panics"))
}

impl Report {
    fn take(&mut self, attempt: &Attempt, folder: &Path, found: Result<Option<Ended>, String>) {
        match found {
            Ok(None) => self.missed += 1,
            Ok(Some(ended)) => {
                *self.injected.entry(attempt.call).or_default() += 1;
                match ended.code {
                    Some(0) => self.went_on += 1,
                    Some(_) => self.refused += 1,
                    None => self.killed += 1,
                }
            }
            Err(reason) => {
                *self.injected.entry(attempt.call).or_default() += 1;
                let what = format!("{}: {reason}", attempt.name());
                return self.findings.push(Finding { what, folder: folder.to_path_buf() });
            }
        }
        std::fs::remove_dir_all(folder).ok();
        std::fs::remove_file(log_of(folder)).ok();
    }
}

impl Stage<'_> {
    fn name(&self) -> String {
        format!("{} of {}", if self.from.is_some() { "resume" } else { "train" }, self.reference.case.name)
    }

    /// Makes the folder as the sitting finds it, and says what is started.
    fn prepare(&self, storm: &Storm, folder: &Path) -> Result<Command, String> {
        match &self.from {
            None => Ok(storm.program.train(&self.reference.case, folder, 1)),
            Some(from) => {
                copy(from, folder)?;
                Ok(storm.program.resume(folder, 1))
            }
        }
    }
}

impl Attempt<'_> {
    fn name(&self) -> String {
        let how = if self.paths.is_empty() { "of the thread" } else { "of the folder" };
        format!("{}, {}:{} {how}", self.stage.name(), self.call, self.inject)
    }

    /// How the sitting with the failure ended, after what followed has been found right; none if there was no failure.
    fn make(&self, storm: &Storm, folder: &Path) -> Result<Option<Ended>, String> {
        let command = self.stage.prepare(storm, folder)?;
        let log = log_of(folder);
        let mut strace = strace(&log, &command, &[self.call]);
        strace.arg("-e").arg(format!("inject={}:{}", self.call, self.inject));
        for path in &self.paths {
            strace.arg("-P").arg(self.in_folder(path, folder));
        }
        let ended = storm.program.wait(with(strace, &command))?;
        ended.is_calm()?;
        let trace = std::fs::read_to_string(&log).unwrap_or_default();
        if !trace.contains("(INJECTED)") && !trace.contains("killed by SIGKILL") {
            return Ok(None);
        }
        if let Some(1..) = ended.code {
            ended.sentence()?;
        }
        if ended.code != Some(0) {
            let again = storm.program.wait(storm.program.go_on(&self.stage.reference.case, folder, 1))?;
            again.is_good().map_err(|reason| format!("{reason} (after: {})", ended.complaint.trim()))?;
        }
        self.stage
            .reference
            .compare(folder)
            .map_err(|reason| format!("{reason} (after: {})", ended.complaint.trim()))?;
        Ok(Some(ended))
    }

    fn in_folder(&self, path: &Path, folder: &Path) -> PathBuf {
        if path.as_os_str().is_empty() { folder.to_path_buf() } else { folder.join(path) }
    }
}

fn log_of(folder: &Path) -> PathBuf {
    folder.with_extension("trace")
}

fn strace(log: &Path, command: &Command, calls: &[&str]) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-s", "0", "-o"]).arg(log).arg("-e").arg(format!("trace={}", calls.join(",")));
    if let Some(folder) = command.get_current_dir() {
        strace.current_dir(folder);
    }
    strace
}

fn with(mut strace: Command, command: &Command) -> Command {
    strace.arg("--").arg(command.get_program()).args(command.get_args());
    strace
}

/// Every failure of every call that an undisturbed sitting makes in its folder.
fn plan<'a>(storm: &Storm, stage: &'a Stage, report: &mut Report) -> Result<Vec<Attempt<'a>>, Finding> {
    let folder = storm.home.join(format!("trace-{}", stage.name().replace(' ', "-")));
    let finding = |what: String| Finding { what: format!("{}: {what}", stage.name()), folder: folder.clone() };
    let command = stage.prepare(storm, &folder).map_err(finding)?;
    let (log, names) = (log_of(&folder), CALLS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let ended = storm.program.wait(with(strace(&log, &command, &names), &command)).map_err(finding)?;
    ended.is_good().map_err(finding)?;
    stage.reference.compare(&folder).map_err(finding)?;
    let trace = std::fs::read_to_string(&log).map_err(|e| finding(e.to_string()))?;
    let seen = Trace::read(&trace, &folder);
    report.calls += seen.calls.len();
    let attempts = seen.calls.iter().flat_map(|seen_call| {
        let errors = CALLS.iter().find(|(name, _)| *name == seen_call.call).map_or(&[][..], |(_, errors)| errors);
        let nth = seen_call.nth;
        let once = errors.iter().map(move |error| format!("error={error}:when={nth}"));
        // From there on, but not for all files: something must be left to say so with.
        let ever = seen_call.by_path.then(|| format!("error=EIO:when={nth}+"));
        let all = once.chain(ever).chain([format!("signal=SIGKILL:when={nth}")]);
        let paths = if seen_call.by_path { seen.paths.clone() } else { Vec::new() };
        all.map(move |inject| Attempt { stage, call: seen_call.call, inject, paths: paths.clone() })
    });
    let attempts = attempts.collect();
    std::fs::remove_dir_all(&folder).ok();
    Ok(attempts)
}

/// The calls in a folder.
struct Trace {
    calls: Vec<Seen>,
    /// The paths in the folder that every sitting has, relative to it.
    paths: Vec<PathBuf>,
}

/// A call, and its number as strace counts.
struct Seen {
    call: &'static str,
    nth: usize,
    /// Whether it is counted among the calls on fixed paths, or among all of its thread.
    by_path: bool,
}

impl Trace {
    fn read(trace: &str, folder: &Path) -> Trace {
        let within = format!("{}", folder.display());
        let mut paths = BTreeSet::new();
        let mut calls = Vec::new();
        let (mut by_path, mut by_thread): (BTreeMap<_, usize>, BTreeMap<_, usize>) = Default::default();
        for line in trace.lines() {
            let Some((thread, rest)) = line.split_once(' ') else { continue };
            let Some((name, arguments)) = rest.trim_start().split_once('(') else { continue };
            let Some((call, _)) = CALLS.iter().find(|(call, _)| *call == name) else { continue };
            let of_thread = by_thread.entry((*call, thread.to_string())).or_default();
            *of_thread += 1;
            let of_thread = *of_thread;
            let Some(touched) = touched(arguments, &within) else { continue };
            // The names of event files hold the time: no later sitting has them.
            if touched.iter().any(|path| path.starts_with("tensorboard/")) {
                calls.push((*call, of_thread, Some(thread.to_string())));
                continue;
            }
            paths.extend(touched.into_iter().map(PathBuf::from));
            let of_path = by_path.entry(*call).or_default();
            *of_path += 1;
            calls.push((*call, *of_path, None));
        }
        // A call counted by thread would also hit another thread that makes as many, and the sentence about a failure.
        let alone = |call: &str, nth: usize, own: &str| {
            let others = by_thread.iter().filter(|((name, thread), _)| *name == call && thread != own);
            let most = others.map(|(_, count)| *count).max().unwrap_or(0);
            nth > most + if call == "write" { COMPLAINT } else { 0 }
        };
        let calls = calls.into_iter().filter_map(|(call, nth, thread)| match thread {
            None => Some(Seen { call, nth, by_path: true }),
            Some(thread) => alone(call, nth, &thread).then_some(Seen { call, nth, by_path: false }),
        });
        Trace { calls: calls.collect(), paths: paths.into_iter().collect() }
    }
}

/// The paths in a folder that a call names, relative to it; none if there are none.
fn touched(arguments: &str, folder: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in arguments.match_indices(folder) {
        let rest = &arguments[at + folder.len()..];
        let end = rest.find(['"', '>']).unwrap_or(rest.len());
        let path = &rest[..end];
        if path.is_empty() || path.starts_with('/') {
            found.push(path.trim_start_matches('/').to_string());
        }
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_as_strace_counts_them() {
        let trace = r#"
10 openat(AT_FDCWD</home>, "/lib/libc.so", O_RDONLY) = 3</lib/libc.so>
10 openat(AT_FDCWD</home>, "/lib/libm.so", O_RDONLY) = 3</lib/libm.so>
12 mkdir("/home/run", 0777) = 0
12 openat(AT_FDCWD</home>, "/home/run/.lock", O_WRONLY) = 3</home/run/.lock>
12 write(1<pipe:[7]>, ""..., 5) = 5
12 openat(AT_FDCWD</home>, "/home/run/tensorboard/events.1", O_WRONLY) = 4</home/run/tensorboard/events.1>
12 openat(AT_FDCWD</home>, "/home/run-2/a", O_WRONLY) = 4</home/run-2/a>
12 openat(AT_FDCWD</home>, "/home/run/tensorboard/events.2", O_WRONLY) = 4</home/run/tensorboard/events.2>
12 write(4</home/run/tensorboard/events.2>, ""..., 5) = 5
12 write(1<pipe:[7]>, ""..., 5) = 5
12 write(1<pipe:[7]>, ""..., 5) = 5
12 write(1<pipe:[7]>, ""..., 5) = 5
12 write(1<pipe:[7]>, ""..., 5) = 5
12 write(1<pipe:[7]>, ""..., 5) = 5
12 write(1<pipe:[7]>, ""..., 5) = 5
12 write(4</home/run/tensorboard/events.2>, ""..., 6) = 6
12 rename("/home/run/.a", "/home/run/a") = 0
12 rename("/home/run/.b", "/home/run/a") = 0
12 +++ exited with 0 +++
"#;
        let trace = Trace::read(trace, Path::new("/home/run"));
        let seen: Vec<_> = trace.calls.iter().map(|seen| (seen.call, seen.nth, seen.by_path)).collect();
        // The first event file is opened by the thread's second call, and the other thread has a second one as well. The first of
        // two events is the thread's second write, which a complaint may need.
        let expected = [
            ("mkdir", 1, true),
            ("openat", 1, true),
            ("openat", 4, false),
            ("write", 9, false),
            ("rename", 1, true),
            ("rename", 2, true),
        ];
        assert_eq!(seen, expected);
        let paths: Vec<_> = trace.paths.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(paths, ["", ".a", ".b", ".lock", "a"]);
    }
}
