//! The command line of p3o: arguments in, exit codes and pictures out. Only this crate prints.
//!
//! It is a library, so that the Python package brings the same program.

mod act;
mod args;
mod bench;
mod compare;
mod device;
mod dry_run;
mod env_step;
mod evaluate;
mod export;
mod list;
#[cfg(feature = "mpi")]
mod mpi;
mod party;
mod plot;
mod render;
mod reproduce;
mod screen;
mod settings;
mod sitting;
mod train;
mod verify;

use args::{Cli, Command};
use clap::Parser;
use clap::error::ErrorKind;
use p3o::ConfigError;
use p3o::error::{suggest, visible};
use p3o_env::TaskError;
use p3o_lab::sweep::Place;
use p3o_nn::Isa;
pub use render::{Film, Picture};
use screen::{must_print, tell};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
pub use train::{draw, free_folder};

/// Why a command did not succeed.
pub(crate) enum Failure {
    /// One clear line, exit code 1.
    Failed(String),
    /// The command was not used rightly: one clear line, exit code 2.
    Usage(String),
    /// Everything is saved, exit code 130.
    Interrupted,
    /// A limit is not shown to be kept: one line that says which and why, exit code 3.
    Unsafe(String),
    /// One clear line with a code of its own.
    Coded(u8, String),
    /// The first process of the run says why and ends with a code. This one ends with none: a launcher kills all processes as soon as one
    /// of them has failed, and the first might not have spoken yet.
    Quiet,
}

impl Failure {
    /// Its line for those who have no flags.
    fn without_flags(self) -> String {
        match self {
            Failure::Failed(line) | Failure::Usage(line) | Failure::Unsafe(line) | Failure::Coded(_, line) => {
                line.replace("--", "")
            }
            Failure::Interrupted | Failure::Quiet => "it was interrupted".to_string(),
        }
    }

    /// Its code and its line.
    fn in_words(&self) -> (u8, String) {
        match self {
            Failure::Failed(line) => (1, line.clone()),
            Failure::Usage(line) => (2, line.clone()),
            Failure::Unsafe(line) => (3, line.clone()),
            Failure::Coded(code, line) => (*code, line.clone()),
            Failure::Interrupted => (130, String::new()),
            Failure::Quiet => (0, String::new()),
        }
    }
}

impl From<p3o::Error> for Failure {
    /// The library's line, with the flags that help.
    fn from(e: p3o::Error) -> Self {
        use p3o::Error::{Altered, Checkpoint, Config, NotARun, Occupied, OtherSettings, StepsMade, Task};
        match e {
            Config(e) => e.into(),
            Task(e) => {
                let hint = match &e {
                    TaskError::UnknownTask { name, known } => suggest(name, known.iter().copied()),
                    TaskError::UnknownOption { name, known, .. } => suggest(name, known.iter().copied()),
                    TaskError::OfPython { .. }
                    | TaskError::OutOfRange { .. }
                    | TaskError::NoEffect { .. }
                    | TaskError::OneAgent { .. } => String::new(),
                };
                Failure::Usage(format!("{e}{hint}"))
            }
            Occupied { ref folder, resumable: true } => Failure::Failed(format!(
                "{e}; name another folder with --out (to go on with it: p3o resume {})",
                train::shown(folder)
            )),
            Occupied { .. } | OtherSettings { .. } => Failure::Failed(format!("{e}; name another folder with --out")),
            Altered { ref folder, ref path, .. } => {
                let run = train::shown(folder);
                let discard = match path.file_name() {
                    Some(name) if name == "config.toml" => format!(", p3o adopt {run} --discard undoes it"),
                    _ => String::new(),
                };
                Failure::Failed(format!("{e} (p3o adopt {run} takes the change over{discard})"))
            }
            Checkpoint { ref path, .. } if path.with_file_name("previous.safetensors").is_file() => {
                let run = path.parent().and_then(Path::parent).unwrap_or(path);
                let run = train::shown(run);
                Failure::Failed(format!("{e} (p3o resume {run} goes on from the checkpoint before it)"))
            }
            NotARun { ref folder, .. } if p3o::run::has_checkpoint(folder) => {
                let run = train::shown(folder);
                Failure::Failed(format!("{e} (p3o adopt {run} --discard writes it anew from the checkpoint)"))
            }
            StepsMade { .. } => Failure::Failed(format!("{e}: name more with --steps")),
            _ => Failure::Failed(e.to_string()),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(e: ConfigError) -> Self {
        Failure::Usage(match e {
            ConfigError::NotALimit(text) => format!("--limit takes NAME=NUMBER or NAME=none, not `{}`", visible(&text)),
            ConfigError::OneLimit { .. } => format!("{e}: --limit NAME=none"),
            ConfigError::Chosen(ref key) if key == "algo" || key == "preset" => format!("{e}: --{key} chooses it"),
            _ => e.to_string(),
        })
    }
}

/// Runs the program with these arguments, of which the first is its own name, and gives its exit code.
pub fn main_with(args: impl IntoIterator<Item = OsString>) -> u8 {
    let code = answer(args);
    // Only a program's own end would do it.
    std::io::stdout().flush().ok();
    code
}

/// Environment steps a second on so many threads, as `p3o bench` measures them; otherwise why there are no threads.
pub fn environment_rate(threads: usize, seconds: f64) -> Result<f64, String> {
    match pool(Some(threads)) {
        Ok(pool) => Ok(pool.install(|| bench::environments(threads, seconds))),
        Err(_) => Err(format!("cannot start {threads} threads")),
    }
}

/// Where networks learn, by what `--device` and `--precision` take; otherwise why not.
pub fn place(device: &str, precision: &str) -> Result<Box<dyn Place + Send>, String> {
    let args = args::DeviceArgs { device: device.to_string(), precision: precision.to_string() };
    device::Device::of(&args).map(|device| Box::new(device) as Box<dyn Place + Send>).map_err(Failure::without_flags)
}

/// Writes a run's policy to an ONNX file as `p3o export` does; otherwise why not.
pub fn export_policy(run: &Path, output: &Path, episodes: u32, seed: u64) -> Result<(), String> {
    export::write(run, output, episodes, seed, None).map(drop).map_err(Failure::without_flags)
}

fn answer(args: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) if e.use_stderr() && e.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            if party::speaks() {
                return complain(&one_line(&e.to_string()), 2);
            }
            // Most likely the first process says the same, and a launcher would kill it before it can; but of a sweep's shards this
            // one alone may have been given nonsense, so it fails in any case.
            std::thread::sleep(Duration::from_secs(2));
            return 2;
        }
        Err(e) => return help(&e),
    };
    if let Err(e) = survive_full_files() {
        return complain(&format!("cannot listen for signals: {e}"), 1);
    }
    let outcome = choose_instructions().and_then(|()| party::check(&cli.command)).and_then(|()| run(cli.command));
    match outcome.map_err(|failure| failure.in_words()) {
        Ok(()) => 0,
        // Where there is no line, it has been said.
        Err((code, line)) if line.is_empty() => code,
        Err((code, line)) => complain(&line, code),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Train(args) => train::train(&args),
        Command::Resume(args) => train::resume(&args),
        Command::Adopt(args) => train::adopt(&args),
        Command::Evaluate(args) => evaluate::evaluate(&args),
        Command::Render(args) => render::render(&args),
        Command::Export(args) => export::export(&args),
        Command::Act(args) => act::act(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Plot(args) => plot::plot(&args),
        Command::Reproduce(args) => reproduce::reproduce(args),
        Command::Benchmark(args) => reproduce::benchmark(args),
        Command::List => list::list(),
        Command::Settings(args) => settings::settings(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::EnvStep => env_step::env_step(),
        Command::Verify(args) => verify::verify(&args),
    }
}

/// P3O_ISA names the instructions that networks compute with, instead of the best that the processor has.
fn choose_instructions() -> Result<(), Failure> {
    let Some(name) = std::env::var_os("P3O_ISA").filter(|name| !name.is_empty()) else { return Ok(()) };
    let chosen = Isa::named(&name.to_string_lossy()).and_then(Isa::choose);
    chosen.map_err(|e| Failure::Usage(format!("P3O_ISA: {e}")))
}

/// What was asked for (the version, a page of help), or the page of help where nothing was.
fn help(page: &clap::Error) -> u8 {
    let printed = page.print();
    if page.use_stderr() {
        return 2;
    }
    must_print(printed);
    0
}

/// One line whatever the user's words in it hold.
fn complain(line: &str, code: u8) -> u8 {
    let plain = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    tell!("p3o: {}", line.chars().map(plain).collect::<String>());
    code
}

/// clap's message with its tips, without its pages on usage.
fn one_line(message: &str) -> String {
    let paragraphs = message.trim_start_matches("error: ").split("\n\n").filter(|p| !p.starts_with("Usage:"));
    let lines: Vec<String> = paragraphs.map(|p| p.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.join("; ").trim_end_matches('.').to_string()
}

/// A file that outgrows the limit of its process (`ulimit -f`) is an error of that write, not the end of the program: with the
/// signal caught, the system reports it like a full disk.
#[cfg(unix)]
fn survive_full_files() -> std::io::Result<()> {
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()).map(drop)
}

#[cfg(not(unix))]
fn survive_full_files() -> std::io::Result<()> {
    Ok(())
}

/// A pool of the wanted number of threads, or of as many as there are cores.
pub(crate) fn pool(threads: Option<usize>) -> Result<rayon::ThreadPool, Failure> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0))
        .build()
        .map_err(|e| Failure::Failed(format!("cannot start threads: {e}")))
}

/// Sets the flag at the first Ctrl-C, which may say what happens now; the second one ends the program at once.
pub(crate) fn stop_on_ctrl_c(what: Option<&'static str>) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if heard.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        if let Some(what) = what {
            tell!("\np3o: {what}; press Ctrl-C again to quit at once");
        }
    })
    .map_err(|e| Failure::Failed(format!("cannot listen for Ctrl-C: {e}")))?;
    Ok(stop)
}
