//! The experiments and scales as they stand in `experiments/*.toml`.

use p3o::config::known;
use p3o::{Config, ConfigError, Error, Method, Request};
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;

/// Every experiment by name, in the order of the paper.
const EXPERIMENTS: &[(&str, &str)] = &[
    ("table1", include_str!("../../experiments/table1.toml")),
    ("single", include_str!("../../experiments/single.toml")),
    ("kappa", include_str!("../../experiments/kappa.toml")),
    ("limits", include_str!("../../experiments/limits.toml")),
    ("navigation", include_str!("../../experiments/navigation.toml")),
    ("spread", include_str!("../../experiments/spread.toml")),
    ("pointgoal", include_str!("../../experiments/pointgoal.toml")),
];
const SCALES: &str = include_str!("../../experiments/scales.toml");

/// A table or figure of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What it is called on the command line.
    #[serde(skip)]
    pub name: String,
    /// What it is called in the paper.
    pub title: String,
    /// What it shows.
    pub about: String,
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
    /// What is compared.
    pub curves: Vec<Curve>,
    /// What the paper says of it.
    #[serde(default)]
    pub claims: Vec<Claim>,
}

/// An algorithm with its settings, run with several seeds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// As the paper calls it.
    pub name: String,
    /// By the name that the command line has for it.
    #[serde(deserialize_with = "method")]
    pub algo: Method,
    /// The number that it has for the setting of a study.
    #[serde(default)]
    pub at: Option<f64>,
    /// Its own settings; its algorithm must have all of them.
    #[serde(default)]
    pub set: Vec<String>,
    /// Its own limits, NAME=NUMBER or NAME=none.
    #[serde(default)]
    pub limit: Vec<String>,
    /// The paper's means and halves of their 95 % intervals, of `return` and of costs.
    #[serde(default)]
    pub paper: BTreeMap<String, (f64, f64)>,
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
    /// The share of the return or of the limit within which `stable_over` and `reaches_limit` hold.
    #[serde(default)]
    pub within: f64,
}

/// What a claim says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The cost of `a` is at most its limit.
    KeepsLimit,
    /// The cost of `a` is over its limit.
    Violates,
    /// The cost of `a` is within a share of its limit.
    ReachesLimit,
    /// `a` earns more than `b`.
    HigherReturn,
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

fn method<'de, D: Deserializer<'de>>(from: D) -> Result<Method, D::Error> {
    Method::named(&String::deserialize(from)?).map_err(de::Error::custom)
}

fn steps<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let number = f64::deserialize(from)?;
    let whole = number >= 1.0 && number.fract() == 0.0;
    whole.then_some(Some(number as u64)).ok_or_else(|| de::Error::custom(format!("{number} is not a number of steps")))
}

impl Experiment {
    /// All of them.
    pub fn all() -> Vec<Experiment> {
        let read = |(name, text): &(&str, &str)| {
            let experiment: Experiment =
                toml::from_str(text).unwrap_or_else(|e| panic!("experiments/{name}.toml: {e}"));
            Experiment { name: name.to_string(), ..experiment }
        };
        EXPERIMENTS.iter().map(read).collect()
    }

    /// Those with these names; `all` stands for every one.
    pub fn named(names: &[String]) -> Result<Vec<Experiment>, ConfigError> {
        let there_are = EXPERIMENTS.iter().map(|e| e.0).chain(["all"]);
        names.iter().try_for_each(|name| known("experiment", name, there_are.clone()))?;
        let wanted = |e: &Experiment| names.iter().any(|n| *n == e.name || n == "all");
        Ok(Self::all().into_iter().filter(wanted).collect())
    }
}

impl Scale {
    /// The one with this name.
    pub fn named(name: &str) -> Result<Scale, ConfigError> {
        let mut scales: BTreeMap<String, Scale> =
            toml::from_str(SCALES).unwrap_or_else(|e| panic!("experiments/scales.toml: {e}"));
        known("scale", name, scales.keys().map(String::as_str))?;
        let scale = scales.remove(name).expect("it is known");
        Ok(Scale { name: name.to_string(), ..scale })
    }

    /// Runs of every curve on a task.
    pub fn seeds_of(&self, task: &str) -> u16 {
        self.tasks.get(task).and_then(|t| t.seeds).unwrap_or(self.seeds)
    }

    /// What a curve asks for: what the scale and the task share between all algorithms, and the curve's own settings over it.
    pub fn request(&self, task: &str, curve: &Curve) -> Request {
        let of_task = self.tasks.get(task);
        let steps = of_task.and_then(|t| t.steps).map(|steps| format!("run.steps={steps}"));
        let shared = of_task.map(|t| t.set.as_slice()).unwrap_or_default();
        let settings = [&self.set, shared, &curve.set].concat();
        Request {
            preset: self.preset.clone(),
            set: steps.into_iter().chain(settings).collect(),
            limits: curve.limit.clone(),
            shared: true,
            ..Request::new(task, curve.algo)
        }
    }

    /// A curve's configuration with seed 0.
    pub fn config(&self, task: &str, curve: &Curve) -> Result<Config, Error> {
        let config = self.request(task, curve).resolve()?.config;
        // The request passes over what its algorithm does not have, but a curve's own settings must apply.
        curve.set.iter().try_for_each(|setting| config.clone().set(setting))?;
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

/// What an assignment changes.
fn key(assignment: &str) -> &str {
    assignment.split('=').next().unwrap_or_default().trim()
}
