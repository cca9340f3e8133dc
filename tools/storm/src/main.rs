//! `cargo run --release -p storm -- kills`: attacks on runs of p3o, with counts and an exit code.

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use storm::{Case, Finding, Program, Storm, calls, cases, damage, kills};

/// Attack runs of p3o and say what does not hold. Exit code 1 if anything does not.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    attack: Attack,
    /// The program to attack [default: p3o, built from this workspace].
    #[arg(long, global = true, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where the runs go; those that show a failure stay [default: a folder in the system's temporary one].
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Decides every random choice; when exactly a process dies is up to the system.
    #[arg(long, global = true, default_value_t = 0)]
    seed: u64,
    /// Attacks at a time [default: the number of cores].
    #[arg(long, global = true)]
    jobs: Option<usize>,
}

#[derive(Subcommand)]
enum Attack {
    /// Kill runs at random moments and resume them, until they are finished.
    Kills {
        /// Processes to kill.
        #[arg(long, default_value_t = 1000)]
        kills: usize,
    },
    /// Let every system call on a run's folder fail once, and kill the run at every one.
    Calls {
        /// Minutes to take at most.
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
    },
    /// Damage a file of finished and half-finished runs, and see what the commands that read it make of it.
    Damage {
        /// Files to damage.
        #[arg(long, default_value_t = 400)]
        trials: usize,
    },
}

fn main() -> ExitCode {
    match attack(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(line) => {
            eprintln!("storm: {line}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything held.
fn attack(cli: &Cli) -> Result<bool, String> {
    let program = match &cli.program {
        Some(path) => std::path::absolute(path).map_err(|e| e.to_string())?,
        None => build()?,
    };
    let home = cli.home.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("storm-{}", std::process::id())));
    std::fs::create_dir_all(&home).map_err(|e| format!("cannot make {}: {e}", home.display()))?;
    let home = home.canonicalize().map_err(|e| e.to_string())?;
    let jobs = cli.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1);
    let storm = Storm { program: Program(program), home, seed: cli.seed, jobs };
    let started = Instant::now();
    let findings = match &cli.attack {
        Attack::Kills { kills } => run_kills(&storm, *kills)?,
        Attack::Calls { minutes } => run_calls(&storm, *minutes)?,
        Attack::Damage { trials } => run_damage(&storm, *trials)?,
    };
    println!("{:.0} s", started.elapsed().as_secs_f64());
    for finding in &findings {
        println!("FAILED {finding}");
    }
    if findings.is_empty() {
        std::fs::remove_dir_all(&storm.home).ok();
    }
    Ok(findings.is_empty())
}

fn run_kills(storm: &Storm, kills: usize) -> Result<Vec<Finding>, String> {
    let watch = |done: usize| println!("{done} kills");
    let report = kills::attack(storm, &cases(), kills, &watch).map_err(|finding| finding.to_string())?;
    println!(
        "{} kills ({} before the first checkpoint, {} in the middle of a file's replacement), {} resumes, {} runs finished, {} differences",
        report.kills,
        report.early,
        report.in_writes,
        report.resumes,
        report.finished,
        report.findings.len()
    );
    Ok(report.findings)
}

fn run_calls(storm: &Storm, minutes: f64) -> Result<Vec<Finding>, String> {
    if !calls::has_strace() {
        return Err("calls needs strace, which cannot be started: install it (apt install strace)".into());
    }
    let watch = |done: usize, all: usize| println!("{done} of {all} failures");
    let time = Duration::from_secs_f64(60.0 * minutes);
    let report = calls::attack(storm, &short_cases(4), time, &watch).map_err(|finding| finding.to_string())?;
    let by_call: Vec<String> = report.injected.iter().map(|(call, count)| format!("{call} {count}")).collect();
    println!(
        "{} calls, {} of {} failures tried ({}; {} did not come about): {} ended with one sentence, {} went on, {} were killed, {} failed",
        report.calls,
        report.tried(),
        report.planned,
        by_call.join(", "),
        report.missed,
        report.refused,
        report.went_on,
        report.killed,
        report.findings.len()
    );
    Ok(report.findings)
}

fn run_damage(storm: &Storm, trials: usize) -> Result<Vec<Finding>, String> {
    let watch = |done: usize| println!("{done} of {trials} damaged files");
    let report = damage::attack(storm, &short_cases(24), trials, &watch).map_err(|finding| finding.to_string())?;
    let failed: usize = report.findings.values().map(|(count, _)| count).sum();
    println!(
        "{} damaged files: commands refused {} with one sentence, named {} in place of a run in a list, gave for {} what they give for the whole \
         run, and failed {failed} \
         (in {} ways)",
        report.trials,
        report.refused,
        report.left_out,
        report.same,
        report.findings.len()
    );
    let example = |(kind, (count, finding)): (String, (usize, Finding))| Finding {
        what: format!("{kind}, {count} times, such as: {}", finding.what),
        folder: finding.folder,
    };
    Ok(report.findings.into_iter().map(example).collect())
}

/// Short runs of one agent and of a team.
fn short_cases(updates: usize) -> Vec<Case> {
    let some = cases().into_iter().filter(|case| ["p3o", "map3o"].contains(&case.name));
    some.map(|case| case.with_updates(updates)).collect()
}

/// Builds the program beside this one, in the same profile.
fn build() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = own.parent().unwrap_or(Path::new("."));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "--locked", "--package", "p3o-cli"]);
    command.args((!cfg!(debug_assertions)).then_some("--release"));
    let status = command.status().map_err(|e| format!("cannot start cargo: {e}"))?;
    let program = folder.join("p3o");
    match status.success() && program.is_file() {
        true => Ok(program),
        false => Err("p3o could not be built; name one with --program".into()),
    }
}
