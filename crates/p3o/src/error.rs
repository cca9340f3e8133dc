//! What can go wrong, each in one clear line. Nothing here speaks of a command line: that adds its own words.

use crate::algo::Algorithm;
use crate::config::{Agents, Method, Needs};
use crate::memory::{Item, bytes};
use std::path::PathBuf;

/// A setting that cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// No `=` in it.
    #[error("`{}` is not of the form key=value", visible(.0))]
    NotAnAssignment(String),
    /// No `=` in it.
    #[error("`{}` is not of the form NAME=NUMBER or NAME=none", visible(.0))]
    NotALimit(String),
    /// There is no such setting.
    #[error("there is no setting `{}`{hint}", visible(key))]
    NoSuchSetting {
        /// What was asked for.
        key: String,
        /// What was likely meant.
        hint: String,
    },
    /// A section, not a setting.
    #[error("`{0}` is a group of settings, not one")]
    IsSection(String),
    /// Task, preset, algorithm or agents.
    #[error("`{0}` decides which settings there are, so it is chosen before them and cannot be one of the changes")]
    Chosen(String),
    /// A value of the wrong kind.
    #[error("{} takes {takes}, not `{}`", visible(key), visible(given))]
    WrongKind {
        /// The setting.
        key: String,
        /// What it takes.
        takes: String,
        /// What it was given.
        given: String,
    },
    /// A value out of range.
    #[error("{key} must be {takes}, not {}", visible(given))]
    OutOfRange {
        /// The setting.
        key: String,
        /// What it takes.
        takes: String,
        /// What it was given.
        given: String,
    },
    /// A name that is none of those there are.
    #[error("unknown {} `{}`{hint} (there is: {})", visible(kind), visible(name), there_is.join(", "))]
    Unknown {
        /// What it was to name.
        kind: String,
        /// The name.
        name: String,
        /// What was likely meant.
        hint: String,
        /// All there are.
        there_is: Vec<String>,
    },
    /// A setting of another algorithm.
    #[error("{key} is a setting of {owner}, and this run trains by {algorithm}")]
    OfAnother {
        /// The setting.
        key: String,
        /// Whose it is.
        owner: Algorithm,
        /// The run's algorithm.
        algorithm: Algorithm,
    },
    /// A setting of another kind of algorithm.
    #[error("{key} has no effect on {algorithm}: it is for {}", for_whom(*needs))]
    WithoutEffect {
        /// The setting.
        key: String,
        /// The run's algorithm.
        algorithm: Algorithm,
        /// What it would need.
        needs: Needs,
    },
    /// A limit in a world without costs.
    #[error("{task} has no costs, so it cannot limit `{}`", visible(cost))]
    NoCosts {
        /// The world.
        task: String,
        /// What was to be limited.
        cost: String,
    },
    /// More than one limit for one cost.
    #[error("the limit of `{}` is given twice", visible(.0))]
    LimitTwice(String),
    /// A BPTT length for networks without memory.
    #[error("net.bptt has no effect on feed-forward networks: set net.gru as well")]
    WithoutMemory,
    /// A mini-batch that is more than the whole.
    #[error("{key} ({minibatch}) is more than the {rows} rows of a batch: 0 takes the whole batch at once")]
    Minibatch {
        /// The setting.
        key: String,
        /// Rows of a mini-batch.
        minibatch: usize,
        /// Rows of a batch.
        rows: usize,
    },
    /// A penalty factor that would grow downwards.
    #[error("p3o.kappa ({kappa}) cannot grow to p3o.kappa_max ({kappa_max}), which is below it")]
    Shrinks {
        /// Where it starts.
        kappa: f64,
        /// Where it stops.
        kappa_max: f64,
    },
    /// A batch that environments cannot share evenly.
    #[error("rollout.batch ({batch}) must be a multiple of rollout.envs ({envs})")]
    BatchOfEnvs {
        /// Steps of a batch.
        batch: usize,
        /// Environments.
        envs: usize,
    },
    /// Networks beyond all memory.
    #[error("net.hidden and net.gru make networks of {parameters:.1e} parameters; more than {most:.0e} are refused")]
    TooLarge {
        /// Parameters of one network, about.
        parameters: f64,
        /// The largest there may be.
        most: f64,
    },
    /// A recurrent network on a single number.
    #[error(
        "net.gru normalises every observation in itself, which leaves nothing of the single number that {task} shows"
    )]
    NothingToNormalize {
        /// The world.
        task: String,
    },
    /// Layers of one unit cannot be normalised.
    #[error("net.gru normalises every layer in itself, so net.hidden and net.gru need widths of at least 2")]
    TooNarrow,
    /// Sequences that do not fit the batch.
    #[error(
        "net.bptt ({bptt}) must divide the steps that an environment makes per update ({steps}: rollout.batch / \
         rollout.envs)"
    )]
    Sequences {
        /// The wanted length.
        bptt: usize,
        /// Steps of one environment.
        steps: usize,
    },
    /// A method for several agents in a world of one.
    #[error("{method} is for several agents, and {task} has one")]
    OneAgent {
        /// The method.
        method: Method,
        /// The world.
        task: String,
    },
    /// A method for one agent in a world of several.
    #[error(
        "{method} is for one agent, and {task} shows {agents} side by side: use {}, or let one joint action steer them",
        side_by_side(*method)
    )]
    SeveralAgents {
        /// The method.
        method: Method,
        /// The world.
        task: String,
        /// How many it has.
        agents: usize,
    },
    /// More limits than the algorithm can keep.
    #[error("{method} can keep one limit only, not {} ({}): use p3o, which keeps any number, or take the others away", costs.len(), costs.join(", "))]
    OneLimit {
        /// The method.
        method: Method,
        /// The limited costs.
        costs: Vec<String>,
    },
    /// Second derivatives of recurrent networks.
    #[error("{method} needs second derivatives, which recurrent networks do not have here: set net.gru=0")]
    SecondOrderRecurrent {
        /// The method.
        method: Method,
    },
    /// A setting that may not change between updates.
    #[error("{0} cannot change while a run goes on")]
    Fixed(String),
    /// A setting that a file lacks.
    #[error("missing setting `{0}`")]
    Missing(String),
    /// A file that is no TOML, or not this program's.
    #[error("line {line}: {}", visible(message))]
    Syntax {
        /// Where.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// An error in a file.
    #[error("line {line}: {error}")]
    AtLine {
        /// Where.
        line: usize,
        /// What is wrong.
        error: Box<ConfigError>,
    },
    /// A file of a later program.
    #[error(
        "these settings have version {version}, and this program reads versions up to {known}: it takes a newer p3o"
    )]
    Newer {
        /// The file's.
        version: i64,
        /// This program's.
        known: i64,
    },
    /// A value of an older version that no longer exists.
    #[error("{key} = {} of an older version of these settings no longer exists", visible(value))]
    NoLonger {
        /// The setting.
        key: String,
        /// Its value.
        value: String,
    },
}

/// The method for several agents that is nearest to one for a single agent; second-order steps have none of their own.
fn side_by_side(method: Method) -> Method {
    let algorithm = if method.algorithm.info().several_agents() { method.algorithm } else { Algorithm::P3o };
    Method { algorithm, agents: Agents::Centralised }
}

fn for_whom(needs: Needs) -> &'static str {
    match needs {
        Needs::Nothing => "all algorithms",
        Needs::FirstOrder => "first-order algorithms, which make several passes over a batch",
        Needs::Constraints => "algorithms that keep limits",
    }
}

/// Why a run did not start or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting that cannot be, in a file.
    #[error("{}: {error}", path.display())]
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: ConfigError,
    },
    /// A task that cannot be made.
    #[error(transparent)]
    Task(#[from] p3o_env::TaskError),
    /// A world that failed while it was stepped.
    #[error("update {update}: a world failed: {error}; training stopped, the last checkpoint is intact")]
    World {
        /// The update in which it happened.
        update: u64,
        /// What it said.
        error: p3o_env::WorldError,
    },
    /// A number that is infinite or NaN where training needs a finite one.
    #[error("update {update}: {what}; training stopped, the last checkpoint is intact")]
    NonFinite {
        /// The update in which it appeared.
        update: u64,
        /// Where it appeared.
        what: String,
    },
    /// A request to stop in the middle of an update, which is then as if it had never begun.
    #[error("training was stopped in update {update}")]
    Stopped {
        /// The update.
        update: u64,
    },
    /// A device that failed in an update.
    #[error("update {update}: {what}; training stopped, the last checkpoint is intact")]
    Device {
        /// The update in which it happened.
        update: u64,
        /// What went wrong.
        what: String,
    },
    /// A process of the run that does not answer.
    #[error("{0}")]
    Ranks(String),
    /// A process of the run that cannot go on, and has said why itself.
    #[error("another process of this run cannot go on")]
    OtherRank,
    /// More processes than worlds.
    #[error("{ranks} processes cannot share the {worlds} worlds of rollout.envs: each needs one of its own")]
    TooManyRanks {
        /// Processes of the run.
        ranks: usize,
        /// Worlds of the run.
        worlds: usize,
    },
    /// Worlds that cannot be shared out.
    #[error("these worlds are stepped together and cannot be shared out over processes")]
    OneProcess,
    /// A file that could not be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A checkpoint that is damaged or belongs to something else.
    #[error("{}: {}", path.display(), visible(reason))]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of a run that is no longer what the run wrote.
    #[error("{} was altered: {what}", path.display())]
    Altered {
        /// The run's folder.
        folder: PathBuf,
        /// The file.
        path: PathBuf,
        /// How it shows.
        what: String,
    },
    /// A folder for a new run that holds something already.
    #[error("{} exists already", folder.display())]
    Occupied {
        /// The folder.
        folder: PathBuf,
        /// Whether it holds a run that can go on.
        resumable: bool,
    },
    /// A run that another process is writing.
    #[error("the run {} is in use by another process; stop that one or choose another folder", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// Nothing where a run was named.
    #[error("there is no run at {}", folder.display())]
    NoRun {
        /// The place.
        folder: PathBuf,
    },
    /// A folder that is no run's.
    #[error("{} is not a run: {reason}", folder.display())]
    NotARun {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A folder with a run of other settings than are asked for.
    #[error("{} holds a run with other settings ({theirs}, not {ours})", folder.display())]
    OtherSettings {
        /// The folder.
        folder: PathBuf,
        /// A line of its settings.
        theirs: String,
        /// The same line as it was asked for.
        ours: String,
    },
    /// Fewer steps asked for than were made.
    #[error("{} has made {made} steps already", folder.display())]
    StepsMade {
        /// The run's folder.
        folder: PathBuf,
        /// The steps it has made.
        made: u64,
    },
    /// progress.csv without a column that every run has.
    #[error("{}: it has no column `{column}`", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// What is missing.
        column: String,
    },
    /// Threads that cannot be had.
    #[error("cannot start a thread: {0}")]
    Threads(String),
    /// Something in an episode on which no statement about a policy can rest.
    #[error("environment {env}, episode {episode}, step {step}: {what}; nothing is said of this policy")]
    Unfit {
        /// The environment, from 0.
        env: usize,
        /// Its episode, from 1.
        episode: usize,
        /// The step in it, from 1; 0 is its start.
        step: usize,
        /// What there was.
        what: String,
    },
    /// A policy with parameters that are no numbers.
    #[error("the policy has parameters that are not finite; nothing is said of it")]
    UnfitPolicy,
    /// A policy for another world than it was to be judged in.
    #[error("the policy is for {theirs}, not for {ours}")]
    OtherWorld {
        /// The policy's.
        theirs: String,
        /// The one there is.
        ours: String,
    },
    /// Nothing that could be kept or not.
    #[error("no cost of this run has a limit, so nothing can be said of its safety")]
    NoLimit,
    /// More than an ONNX file can hold.
    #[error("the policy takes {}, more than the 2 GiB that an ONNX file can hold", bytes(*.0 as f64))]
    TooLargeForOnnx(usize),
    /// A cost that could be anything.
    #[error("no bound of the cost {0} is known, so no number of episodes shows that its limit is kept")]
    NoBound(String),
    /// A device that networks cannot learn on.
    #[error("{0}")]
    Engine(String),
    /// More memory than there is.
    #[error(
        "{} about {} of memory, and {} are free{}",
        would_take(*runs),
        bytes(*takes),
        bytes(*free),
        largest.as_ref().map_or(String::new(), mostly)
    )]
    Memory {
        /// Runs at a time.
        runs: usize,
        /// Bytes that they would take.
        takes: f64,
        /// Bytes that can be had.
        free: f64,
        /// Their largest part.
        largest: Option<Item>,
    },
}

/// What someone has written, with its line breaks and other control characters spelled out: it is to stand in one line.
pub fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

fn mostly(Item { name, bytes: size, settings }: &Item) -> String {
    format!(": {} of it for the {name} ({settings})", bytes(*size))
}

fn would_take(runs: usize) -> String {
    if runs == 1 { "this would take".into() } else { format!("{runs} runs at a time would take") }
}

/// "; did you mean `x`?" for the nearest of `names`, or nothing when none is near.
pub fn suggest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let lower = wrong.to_lowercase();
    names
        .into_iter()
        .map(|n| (strsim::jaro_winkler(&lower, &n.to_lowercase()), n))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(String::new(), |(_, n)| format!("; did you mean `{n}`?"))
}
