//! The experiments, the rows of the contest and the scales as they stand in `experiments/*.toml`.

use p3o::config::known;
use p3o::{Config, ConfigError, Error, Method, Request};
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;
use std::ops::Range;

/// Experiments that belong together, and the words in which a report speaks of them.
#[derive(Debug)]
pub struct Book {
    /// The command that runs them, and the folder where it puts them by itself.
    pub command: &'static str,
    /// The report's title.
    pub title: &'static str,
    /// Where they come from.
    pub source: &'static str,
    /// What figures from there are called.
    pub quoted: &'static str,
    /// What a claim is called.
    pub says: &'static str,
    /// The heading over all verdicts.
    pub verdicts: &'static str,
    /// Whether figures from there are of likeliest actions, so that last policies are played with theirs.
    pub likeliest: bool,
    experiments: &'static [(&'static str, &'static str)],
}

/// The paper's tables and figures, in its order, and what goes beyond them.
pub static PAPER: Book = Book {
    command: "reproduce",
    title: "P3O: the paper's experiments, run again",
    source: "Zhang et al., Penalized Proximal Policy Optimization for Safe Reinforcement Learning (IJCAI 2022).",
    quoted: "the paper's",
    says: "the paper says",
    verdicts: "What became of the paper's claims",
    likeliest: false,
    experiments: &[
        ("table1", include_str!("../../experiments/table1.toml")),
        ("single", include_str!("../../experiments/single.toml")),
        ("kappa", include_str!("../../experiments/kappa.toml")),
        ("limits", include_str!("../../experiments/limits.toml")),
        ("navigation", include_str!("../../experiments/navigation.toml")),
        ("spread", include_str!("../../experiments/spread.toml")),
        ("pointgoal", include_str!("../../experiments/pointgoal.toml")),
        ("rivals", include_str!("../../experiments/rivals.toml")),
    ],
};

/// The tasks on which the field publishes results.
pub static BENCHMARK: Book = Book {
    command: "benchmark",
    title: "p3o: the benchmark of safe reinforcement learning",
    source: "The tasks of Safety-Gymnasium 1.0.0. Published: OmniSafe's table of on-policy algorithms, 10^7 steps, a limit of 25, \
             means and standard deviations; its P3O neither clips the cost's surrogate nor weighs the offset by 1 - gamma.",
    quoted: "published",
    says: "the goal",
    verdicts: "What became of the goals",
    likeliest: true,
    experiments: &[
        ("velocity", include_str!("../../experiments/velocity.toml")),
        ("goal", include_str!("../../experiments/goal.toml")),
    ],
};

const CONTEST: &str = include_str!("../../experiments/contest.toml");
const SCALES: &str = include_str!("../../experiments/scales.toml");

/// The seeds of reported runs. Settings are chosen on others, from its end on.
pub const REPORTED_SEEDS: Range<u64> = 100..1000;

/// From so many steps on a run is a long one: it has the updates for larger batches.
pub const LONG: u64 = 10_000_000;

/// A table or figure of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What it is called on the command line.
    #[serde(skip)]
    pub name: String,
    /// What it belongs to.
    #[serde(skip, default = "paper")]
    pub book: &'static Book,
    /// What it is called in the paper.
    pub title: String,
    /// What it shows.
    pub about: String,
    /// Its place among the experiments when runs are made: the lowest first.
    pub turn: u8,
    /// Whether its learning curves are drawn.
    #[serde(default = "yes")]
    pub figures: bool,
    /// One for each task.
    pub group: Vec<Group>,
}

/// The part of an experiment on one task.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The world.
    pub task: String,
    /// What costs are measured against by curves that train without a limit on them.
    #[serde(default)]
    pub limits: BTreeMap<String, f64>,
    /// The setting that its curves vary, if it is one number.
    #[serde(default)]
    pub study: Option<String>,
    /// A curve beside which the others can hardly be told apart: its figure has a second row without it.
    #[serde(default)]
    pub towering: Option<String>,
    /// The curves whose learning is drawn; all if none are named.
    #[serde(default)]
    pub drawn: Vec<String>,
    /// What is compared.
    pub curves: Vec<Curve>,
    /// What the paper says of it.
    #[serde(default)]
    pub claims: Vec<Claim>,
}

/// A row of the contest: an algorithm with its own settings, the same for all tasks at every scale.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// As the report calls it.
    pub name: String,
    /// By the name that the command line has for it.
    #[serde(deserialize_with = "method")]
    pub algo: Method,
    /// The preset that it starts from, if not the scale's.
    #[serde(default)]
    pub preset: Option<String>,
    /// Its own settings; its algorithm must have all of them.
    pub set: Vec<String>,
    /// Settings beside them in runs of [`LONG`] steps and more.
    #[serde(default)]
    pub long: Vec<String>,
    /// Every difference from the paper's or the algorithm's original settings.
    pub differs: String,
    /// Whether its settings were chosen by trials; the paper's were not, and those who ignore costs have none of their own.
    #[serde(default = "yes")]
    pub chosen: bool,
}

/// A row of the contest in an experiment, run with several seeds.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "WrittenCurve")]
pub struct Curve {
    /// As the experiment calls it.
    pub name: String,
    /// The row's name.
    pub row: String,
    /// The row's algorithm.
    pub algo: Method,
    /// The row's preset, if it has its own.
    pub preset: Option<String>,
    /// The number that it has for the setting of a study.
    pub at: Option<f64>,
    /// The row's settings and its own; its algorithm must have all of them.
    pub set: Vec<String>,
    /// The row's settings for long runs.
    pub long: Vec<String>,
    /// Its own limits, NAME=NUMBER or NAME=none.
    pub limit: Vec<String>,
    /// The paper's means and halves of their 95 % intervals, of `return` and of costs.
    pub paper: BTreeMap<String, (f64, f64)>,
}

/// A curve as it stands in a file: a row by name and what is different.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCurve {
    row: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    at: Option<f64>,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    limit: Vec<String>,
    #[serde(default)]
    paper: BTreeMap<String, (f64, f64)>,
}

impl TryFrom<WrittenCurve> for Curve {
    type Error = ConfigError;

    fn try_from(written: WrittenCurve) -> Result<Curve, ConfigError> {
        let WrittenCurve { row, name, at, set, limit, paper } = written;
        let Row { algo, preset, set: own, long, .. } = Row::named(&row)?;
        let (name, set) = (name.unwrap_or(row.clone()), [own, set].concat());
        Ok(Curve { name, row, algo, preset, at, set, long, limit, paper })
    }
}

/// A sentence of the paper as a rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Which rule.
    pub kind: Kind,
    /// What the paper says.
    pub paper: String,
    /// The curve it is about.
    #[serde(default)]
    pub a: String,
    /// The curve it is compared with.
    #[serde(default)]
    pub b: String,
    /// The curves it is about, for `stable_over`.
    #[serde(default)]
    pub all: Vec<String>,
    /// The cost it is about; the task's only one if not given.
    #[serde(default)]
    pub cost: Option<String>,
    /// The cost that `earlier_over` compares it with.
    #[serde(default)]
    pub than: Option<String>,
    /// The curve whose runs those of `a` must differ from for anything to be said: a constraint that never worked proves nothing.
    #[serde(default)]
    pub unlike: Option<String>,
    /// The share of the return or of the limit within which `stable_over` and `reaches_limit` hold.
    #[serde(default)]
    pub within: f64,
    /// The share of the return of `b` by which that of `a` is higher; a negative one allows it to be so much lower.
    #[serde(default)]
    pub by: f64,
    /// The return that `earns` asks for.
    #[serde(default)]
    pub least: f64,
}

/// What a claim says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The cost of `a` is at most its limit.
    KeepsLimit,
    /// The cost of `a` is over its limit.
    Violates,
    /// The cost of `a` is within a share of the limit that it was trained for.
    ReachesLimit,
    /// `a` earns more than `b`, by a share of it.
    HigherReturn,
    /// The last policies of `a` earn at least so much with their likeliest actions.
    Earns,
    /// `a` costs less than `b`.
    LowerCost,
    /// The cost of `a` is nearer to its limit than that of `b`.
    NearerLimit,
    /// `a` is over its limit in more of its training than `b`.
    MoreOvershoot,
    /// The return of `a` changes more from update to update than that of `b`.
    LessSteady,
    /// The returns of all curves are within a share of their mean.
    StableOver,
    /// The cost of `a` is over its limit earlier in training than another cost.
    EarlierOver,
}

/// How large the experiments are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// What it is called on the command line.
    #[serde(skip)]
    pub name: String,
    /// What it is for.
    pub about: String,
    /// The preset that everything starts from.
    pub preset: String,
    /// The seed of the first run of every curve.
    pub first_seed: u64,
    /// Runs of every curve.
    pub seeds: u16,
    /// Whether its runs are long enough to decide anything.
    pub decides: bool,
    /// Settings of all tasks and algorithms; an algorithm that does not have one of them goes without it.
    #[serde(default)]
    pub set: Vec<String>,
    /// What differs from task to task.
    #[serde(default)]
    pub tasks: BTreeMap<String, TaskScale>,
}

/// What a scale changes for one task, for all algorithms alike.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskScale {
    /// Environment steps, if not the preset's; may be written as 2e6.
    #[serde(default, deserialize_with = "steps")]
    pub steps: Option<u64>,
    /// Runs of every curve, if not the scale's.
    #[serde(default)]
    pub seeds: Option<u16>,
    /// Settings over those of all tasks.
    #[serde(default)]
    pub set: Vec<String>,
}

fn yes() -> bool {
    true
}

fn paper() -> &'static Book {
    &PAPER
}

pub(super) fn method<'de, D: Deserializer<'de>>(from: D) -> Result<Method, D::Error> {
    Method::named(&String::deserialize(from)?).map_err(de::Error::custom)
}

pub(super) fn steps<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let number = f64::deserialize(from)?;
    let whole = number >= 1.0 && number.fract() == 0.0;
    whole.then_some(Some(number as u64)).ok_or_else(|| de::Error::custom(format!("{number} is not a number of steps")))
}

impl Book {
    /// All experiments.
    pub fn all(&'static self) -> Vec<Experiment> {
        let read = |(name, text): &(&str, &str)| {
            let experiment: Experiment =
                toml::from_str(text).unwrap_or_else(|e| panic!("experiments/{name}.toml: {e}"));
            Experiment { name: name.to_string(), book: self, ..experiment }
        };
        self.experiments.iter().map(read).collect()
    }

    /// Those with these names; `all` stands for every one.
    pub fn named(&'static self, names: &[String]) -> Result<Vec<Experiment>, ConfigError> {
        let there_are = self.experiments.iter().map(|e| e.0).chain(["all"]);
        names.iter().try_for_each(|name| known("experiment", name, there_are.clone()))?;
        let wanted = |e: &Experiment| names.iter().any(|n| *n == e.name || n == "all");
        Ok(self.all().into_iter().filter(wanted).collect())
    }
}

impl Row {
    /// All of them.
    pub fn all() -> Vec<Row> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Contest {
            row: Vec<Row>,
        }
        toml::from_str::<Contest>(CONTEST).unwrap_or_else(|e| panic!("experiments/contest.toml: {e}")).row
    }

    /// The one with this name.
    pub fn named(name: &str) -> Result<Row, ConfigError> {
        let rows = Row::all();
        known("row", name, rows.iter().map(|row| row.name.as_str()))?;
        Ok(rows.into_iter().find(|row| row.name == name).expect("it is known"))
    }
}

impl Scale {
    /// Scales by name; what is wrong with them, if anything is.
    pub fn read(text: &str) -> Result<BTreeMap<String, Scale>, String> {
        let scales: BTreeMap<String, Scale> = toml::from_str(text).map_err(|e| e.to_string())?;
        for (name, scale) in &scales {
            scale.check_seeds(scale.most_seeds()).map_err(|e| format!("{name}: {e}"))?;
        }
        Ok(scales)
    }

    /// The one with this name.
    pub fn named(name: &str) -> Result<Scale, ConfigError> {
        let mut scales = Scale::read(SCALES).unwrap_or_else(|e| panic!("experiments/scales.toml: {e}"));
        known("scale", name, scales.keys().map(String::as_str))?;
        let scale = scales.remove(name).expect("it is known");
        Ok(Scale { name: name.to_string(), ..scale })
    }

    /// Runs of every curve on a task.
    pub fn seeds_of(&self, task: &str) -> u16 {
        self.tasks.get(task).and_then(|t| t.seeds).unwrap_or(self.seeds)
    }

    /// Runs of a curve on the task that has most.
    pub(super) fn most_seeds(&self) -> u16 {
        self.tasks.values().filter_map(|t| t.seeds).fold(self.seeds, u16::max)
    }

    /// Whether so many runs have seeds of [`REPORTED_SEEDS`] alone.
    pub(super) fn check_seeds(&self, seeds: u16) -> Result<(), ConfigError> {
        let Range { start, end } = REPORTED_SEEDS;
        let last = (self.first_seed + u64::from(seeds)).saturating_sub(1);
        let outside = [self.first_seed, last].into_iter().find(|seed| !REPORTED_SEEDS.contains(seed));
        outside.map_or(Ok(()), |seed| {
            let takes = format!("at least {start} and below {end} where results are reported");
            Err(ConfigError::OutOfRange { key: "a seed".into(), takes, given: seed.to_string() })
        })
    }

    /// What a curve asks for: what the scale and the task share between all algorithms, and the row's and the curve's settings over it.
    pub fn request(&self, task: &str, curve: &Curve) -> Request {
        let of_task = self.tasks.get(task);
        let steps = of_task.and_then(|t| t.steps).map(|steps| format!("run.steps={steps}"));
        let shared = of_task.map(|t| t.set.as_slice()).unwrap_or_default();
        let mut settings = [&self.set, steps.as_slice(), shared, &curve.set].concat();
        if steps_of(&settings).is_some_and(|steps| steps >= LONG) {
            settings.extend_from_slice(&curve.long);
        }
        Request {
            preset: curve.preset.as_ref().unwrap_or(&self.preset).clone(),
            set: settings,
            limits: curve.limit.clone(),
            shared: true,
            ..Request::new(task, curve.algo)
        }
    }

    /// A curve's configuration with seed 0.
    pub fn config(&self, task: &str, curve: &Curve) -> Result<Config, Error> {
        let config = self.request(task, curve).resolve()?.config;
        // The request passes over what its algorithm does not have, but a curve's own settings must apply.
        curve.set.iter().chain(&curve.long).try_for_each(|setting| config.clone().set(setting))?;
        Ok(config)
    }

    /// The same request with nothing to pass over: without settings that the algorithm does not have and without those that
    /// later ones replace.
    pub fn exact_request(&self, task: &str, curve: &Curve) -> Result<Request, Error> {
        let (request, config) = (self.request(task, curve), self.config(task, curve)?);
        let applies = |setting: &&String| config.clone().set(setting).is_ok();
        let mut set: Vec<String> = Vec::new();
        for setting in request.set.iter().filter(applies) {
            set.retain(|earlier| key(earlier) != key(setting));
            set.push(setting.clone());
        }
        Ok(Request { set, shared: false, ..request })
    }
}

/// The steps that settings ask for, if they do.
fn steps_of(settings: &[String]) -> Option<u64> {
    let last = settings.iter().rfind(|setting| key(setting) == "run.steps")?;
    last.split_once('=')?.1.trim().replace('_', "").parse().ok()
}

/// What an assignment changes.
fn key(assignment: &str) -> &str {
    assignment.split('=').next().unwrap_or_default().trim()
}
