//! The arguments, as typed.

use clap::{Args, Parser, Subcommand};
use p3o_lab::sweep::Shard;
use std::path::PathBuf;

/// Longer than an update of ordinary size takes any process.
const PATIENCE: u32 = 120;

/// Train policies that earn reward and keep their costs under limits.
#[derive(Parser)]
#[command(name = "p3o", version, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Train a policy and leave a run's folder behind.
    Train(TrainArgs),
    /// Go on with a run where its last checkpoint left it.
    Resume(ResumeArgs),
    /// Take over a config.toml or progress.csv that was changed by hand; until then every command refuses the run.
    Adopt(AdoptArgs),
    /// Play episodes with a trained policy and say how safe it is.
    Evaluate(EvaluateArgs),
    /// Draw episodes of a trained policy from above, with their costs against the limits.
    Render(RenderArgs),
    /// Write a trained policy as an ONNX file, with its normalisation inside and what was measured of it in the metadata.
    Export(ExportArgs),
    /// Act for other programs: observations as JSON lines or raw floats in, an action for each out.
    Act(ActArgs),
    /// Train several algorithms on one task with the same settings and put their results side by side.
    Compare(CompareArgs),
    /// Draw the learning curves of runs: a row for each task, a line for each algorithm with the spread over its runs.
    Plot(PlotArgs),
    /// Run the paper's experiments on all cores and report what agrees with it; killed and started again, it goes on.
    Reproduce(ReproduceArgs),
    /// Run the tasks on which the field publishes results, all algorithms on all cores, and report them beside those; started again, it goes on.
    Benchmark(BenchmarkArgs),
    /// Show the tasks with their costs and options, the algorithms, the presets, and the runs in ./runs.
    List,
    /// Show every setting of a run with its value, its meaning, what it takes, and where the value comes from.
    Settings(SettingsArgs),
    /// Measure the speed of this machine, or of a GPU beside it: environments, training, and the share of the peak.
    Bench(BenchArgs),
    /// Step worlds for other programs: JSON lines with task, seed or state, and actions in, what followed out.
    EnvStep,
    /// Compute the paper's claims on small problems whose answers are known, and say which hold.
    Verify(VerifyArgs),
}

/// Where networks learn.
#[derive(Args)]
pub struct DeviceArgs {
    /// Where the networks learn: cpu, cuda, cuda:N, or auto, which takes a GPU where there is one.
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// What a GPU multiplies in: fp32, or tf32, which is faster and rounds every factor to 10 bits of fraction.
    #[arg(long, default_value = "fp32")]
    pub precision: String,
}

/// Arguments of `train`.
#[derive(Args)]
pub struct TrainArgs {
    /// The world, for example PointGoal; `p3o list` shows all.
    #[arg(required_unless_present = "config")]
    pub task: Option<String>,
    /// The algorithm [default: p3o].
    #[arg(long)]
    pub algo: Option<String>,
    /// The settings to start from [default: quick].
    #[arg(long)]
    pub preset: Option<String>,
    /// Limit of a cost over an episode, NAME=NUMBER; NAME=none only measures it. May be given several times.
    #[arg(long, value_name = "NAME=LIMIT")]
    pub limit: Vec<String>,
    /// Decides every random number of the run.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Environment steps, for example 2e6.
    #[arg(long, allow_negative_numbers = true)]
    pub steps: Option<String>,
    /// Change any setting, for example p3o.kappa=10; `p3o settings` shows all. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Start from a complete config.toml instead of a preset.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["task", "algo", "preset"])]
    pub config: Option<PathBuf>,
    /// The run's folder [default: runs/TASK-ALGO-seedN].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Threads to use; the results do not depend on it [default: all cores].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Where its networks learn.
    #[command(flatten)]
    pub place: DeviceArgs,
    /// Of several processes that make one run (mpirun): how long one waits for another before it gives up.
    #[arg(long, value_name = "SECONDS", default_value_t = PATIENCE, value_parser = clap::value_parser!(u32).range(1..))]
    pub patience: u32,
    /// Show what would be trained, with its memory and its time; train nothing and write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `compare`.
#[derive(Args)]
pub struct CompareArgs {
    /// The world, for example PointGoal; `p3o list` shows all.
    pub task: String,
    /// The algorithms, separated by commas [default: p3o,cpo,ppo-lag,focops,ppo; without cpo where there are several limits].
    #[arg(long, value_delimiter = ',')]
    pub algos: Vec<String>,
    /// Runs of each algorithm, with the seeds 0, 1, ...
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub seeds: u16,
    /// Environment steps of each run, for example 1e6.
    #[arg(long)]
    pub steps: Option<String>,
    /// The settings to start from [default: quick].
    #[arg(long)]
    pub preset: Option<String>,
    /// Limit of a cost over an episode, NAME=NUMBER; NAME=none only measures it. May be given several times.
    #[arg(long, value_name = "NAME=LIMIT")]
    pub limit: Vec<String>,
    /// Change a setting of all runs that have it, for example rollout.gamma=0.98. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The folder of all runs; started again with the same arguments, what is there goes on [default: runs/compare-TASK].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at a time; the results do not depend on it [default: all cores; with a GPU a quarter, at least 2].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Where its networks learn.
    #[command(flatten)]
    pub place: DeviceArgs,
    /// Train the K-th of N shares of the runs alone, in any order and on any machines; --report-only puts them together.
    #[arg(long, value_name = "K/N", conflicts_with = "report_only")]
    pub shard: Option<Shard>,
    /// Train nothing; compare what is finished.
    #[arg(long, visible_alias = "report", conflicts_with = "dry_run")]
    pub report_only: bool,
    /// Show what would be trained, with its memory and its time; train nothing and write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `plot`.
#[derive(Args)]
pub struct PlotArgs {
    /// Folders of runs, or folders with runs inside, such as those of `compare`.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// The picture, FILE.svg or FILE.png [default: both plot.svg and plot.png].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `reproduce`.
#[derive(Args)]
pub struct ReproduceArgs {
    /// table1, single, kappa, limits, navigation, spread, pointgoal, rivals or all; trials, alone, are the runs that choose settings.
    #[arg(required = true)]
    pub experiments: Vec<String>,
    /// Train on this task alone; the report has all that is finished. May be given several times.
    #[arg(long, value_name = "TASK")]
    pub only: Vec<String>,
    /// How.
    #[command(flatten)]
    pub how: SeriesArgs,
}

/// Arguments of `benchmark`.
#[derive(Args)]
pub struct BenchmarkArgs {
    /// The tasks to train on; the report has all that is finished [default: all].
    pub tasks: Vec<String>,
    /// How.
    #[command(flatten)]
    pub how: SeriesArgs,
}

/// What commands have in common that make a report of many runs.
#[derive(Args)]
pub struct SeriesArgs {
    /// smoke: seconds, to see that it works; cpu: hours on two cores; paper: its networks and 10^7 steps; published: 10^7 steps and 64x64 networks, as the benchmark is published.
    #[arg(long, default_value = "cpu")]
    pub scale: String,
    /// Runs of each curve, with the seeds 100, 101, ..., of trials 1000, 1001, ... [default: the scale's, 2 to 5].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=900))]
    pub seeds: Option<u16>,
    /// Train this row of the contest alone, for example CPO; the report has all that is finished. May be given several times.
    #[arg(long, value_name = "ROW")]
    pub row: Vec<String>,
    /// The folder of all runs and of the report [default: named like the command].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at a time; the results do not depend on it [default: all cores; with a GPU a quarter, at least 2].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Where its networks learn.
    #[command(flatten)]
    pub place: DeviceArgs,
    /// Train the K-th of N shares of the runs alone, in any order and on any machines; --report-only puts them together.
    #[arg(long, value_name = "K/N", conflicts_with = "report_only")]
    pub shard: Option<Shard>,
    /// Train nothing; report what is finished.
    #[arg(long, visible_alias = "report")]
    pub report_only: bool,
}

/// Arguments of `settings`.
#[derive(Args)]
pub struct SettingsArgs {
    /// The world, for example PointGoal [default: the settings that all tasks start from].
    pub task: Option<String>,
    /// The algorithm [default: p3o].
    #[arg(long)]
    pub algo: Option<String>,
    /// The settings to start from [default: quick].
    #[arg(long)]
    pub preset: Option<String>,
    /// Change any setting, for example p3o.kappa=10. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Limit of a cost over an episode, NAME=NUMBER; NAME=none only measures it. May be given several times.
    #[arg(long, value_name = "NAME=LIMIT", requires = "task")]
    pub limit: Vec<String>,
    /// Decides every random number of the run.
    #[arg(long, requires = "task")]
    pub seed: Option<u64>,
    /// Environment steps, for example 2e6.
    #[arg(long, requires = "task", allow_negative_numbers = true)]
    pub steps: Option<String>,
    /// Print the reference of all settings of all algorithms as Markdown.
    #[arg(long, conflicts_with_all = ["task", "algo", "preset", "set"])]
    pub markdown: bool,
}

/// Arguments of `resume`.
#[derive(Args)]
pub struct ResumeArgs {
    /// The run's folder.
    pub run: PathBuf,
    /// Train to this many steps instead of those the run was started with.
    #[arg(long)]
    pub steps: Option<String>,
    /// Threads to use; the results do not depend on it [default: all cores].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Where its networks learn.
    #[command(flatten)]
    pub place: DeviceArgs,
    /// Of several processes that make one run (mpirun): how long one waits for another before it gives up.
    #[arg(long, value_name = "SECONDS", default_value_t = PATIENCE, value_parser = clap::value_parser!(u32).range(1..))]
    pub patience: u32,
}

/// Arguments of `adopt`.
#[derive(Args)]
pub struct AdoptArgs {
    /// The run's folder.
    pub run: PathBuf,
    /// Do not take it over: write config.toml anew from the run's checkpoint.
    #[arg(long)]
    pub discard: bool,
}

/// Arguments of `evaluate`.
#[derive(Args)]
pub struct EvaluateArgs {
    /// The run's folder.
    pub run: PathBuf,
    /// Episodes to play; with --certify at most [default: 100, with --certify 10000].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub episodes: Option<u32>,
    /// Play until every limit is shown to be kept or one to be violated.
    #[arg(long)]
    pub certify: bool,
    /// Decides every random number of the evaluation.
    #[arg(long, default_value_t = 1_000_000)]
    pub seed: u64,
    /// Take the likeliest action instead of drawing one.
    #[arg(long)]
    pub deterministic: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Exit with 3 unless the upper 95 % bound of every limited cost's mean is within its limit.
    #[arg(long)]
    pub require_safe: bool,
    /// Threads to use; the results do not depend on it [default: all cores].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// Arguments of `render`.
#[derive(Args)]
pub struct RenderArgs {
    /// The run's folder.
    pub run: PathBuf,
    /// agent.gif: an animation; agent.png: one picture with the whole way; frames/: a folder of numbered PNGs.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Episodes to show.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub episodes: u32,
    /// Decides every random number; the episodes are those that `evaluate` plays with it.
    #[arg(long, default_value_t = 1_000_000)]
    pub seed: u64,
    /// Take the likeliest action instead of drawing one.
    #[arg(long)]
    pub deterministic: bool,
    /// Show every so many steps [default: so many that an episode has up to 250 frames].
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u32).range(1..))]
    pub every: Option<u32>,
    /// Frames in a second [default: 5 to 25, so that an episode takes about ten seconds].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=50))]
    pub fps: Option<u16>,
    /// Width in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = 480, value_parser = clap::value_parser!(u32).range(320..=4000))]
    pub size: u32,
}

/// Arguments of `export`.
#[derive(Args)]
pub struct ExportArgs {
    /// The run's folder.
    pub run: PathBuf,
    /// The file, FILE.onnx.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Episodes to measure return and costs by, with the likeliest actions; 0 measures nothing.
    #[arg(long, default_value_t = 100)]
    pub episodes: u32,
    /// Decides every random number of the episodes.
    #[arg(long, default_value_t = 1_000_000)]
    pub seed: u64,
    /// Threads to use; the results do not depend on it [default: all cores].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// Arguments of `act`.
#[derive(Args)]
pub struct ActArgs {
    /// The run's folder.
    pub run: PathBuf,
    /// Little-endian f32 in and out, with nothing between them, instead of JSON lines.
    #[arg(long)]
    pub raw: bool,
    /// One more number stands before each observation: 1 where an episode starts, otherwise 0.
    #[arg(long, requires = "raw")]
    pub starts: bool,
    /// Draw actions instead of taking the likeliest.
    #[arg(long)]
    pub sample: bool,
    /// Decides which actions are drawn.
    #[arg(long, requires = "sample", default_value_t = 0)]
    pub seed: u64,
}

/// Arguments of `bench`.
#[derive(Args)]
pub struct BenchArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Thread counts to measure [default: 1 and all cores; beside a GPU all cores].
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Vec<u16>,
    /// Where its networks learn.
    #[command(flatten)]
    pub place: DeviceArgs,
    /// Measure the policy's update of this algorithm beside 40 passes of P3O, instead of the machine.
    #[arg(long)]
    pub algo: Option<String>,
    /// Seconds per figure; more are steadier.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Put a GPU's updates beside those of a file that tools/torch_update.py has written.
    #[arg(long, value_name = "FILE", conflicts_with = "algo")]
    pub against: Option<PathBuf>,
    /// Measure one run over N processes [2] against one process with N threads, and what messages between them cost.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "2", conflicts_with_all = ["algo", "against"])]
    #[arg(value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub ranks: Option<u16>,
    /// What starts processes for --ranks; `-n N` and this program follow.
    #[arg(long, requires = "ranks", default_value = "mpirun")]
    pub launcher: String,
    /// One of the processes that --ranks starts.
    #[arg(long, hide = true)]
    pub as_rank: Option<String>,
}

/// Arguments of `verify`.
#[derive(Args)]
pub struct VerifyArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Decides every random problem and policy.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}
