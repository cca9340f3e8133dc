//! What several promises need: small settings, threads, and a world whose every number is chosen by the test.

use p3o::config::{Agents, Net, make_env};
use p3o::run::named_task;
use p3o::{Config, ConfigError, Learner, Method};
use p3o_env::{ActionSpace, CostSpec, Env, EnvSpec, Outcome, RestoreError, snapshot};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::sync::Arc;

/// Every number a test depends on, of every algorithm, so that no preset decides its outcome.
pub const SMALL: &str = include_str!("small_settings.txt");

/// The method of this name.
pub fn method(name: &str) -> Method {
    Method::named(name).unwrap()
}

/// Sets what the algorithm has, and passes over what it does not have.
pub fn set_if_known(config: &mut Config, assignment: &str) {
    match config.set(assignment) {
        Ok(()) | Err(ConfigError::OfAnother { .. } | ConfigError::WithoutEffect { .. }) => {}
        Err(error) => panic!("{assignment}: {error}"),
    }
}

/// Small settings for a world, with some of them changed. A change that the algorithm does not have is a mistake.
pub fn small(name: &str, spec: &EnvSpec, changes: &[&str]) -> Config {
    let mut config = Config::preset("quick", method(name), spec).unwrap();
    SMALL.lines().for_each(|assignment| set_if_known(&mut config, assignment));
    changes.iter().for_each(|change| config.set(change).unwrap_or_else(|e| panic!("{name}: {change}: {e}")));
    config
}

/// The same for a task by name.
pub fn small_task(name: &str, task: &str, changes: &[&str]) -> Config {
    small(name, &spec_for(name, task), changes)
}

/// A task as a method sees it.
pub fn spec_for(name: &str, task: &str) -> EnvSpec {
    make_env(method(name), task, &Default::default()).unwrap().spec().clone()
}

/// A task that the method can be tried on.
pub fn task_of(method: Method) -> &'static str {
    if method.agents == Agents::Single { "PointGoal" } else { "SimpleSpread" }
}

/// A fresh learner in a task known by name.
pub fn named_learner(config: Config) -> Learner {
    let make = named_task(&config).unwrap();
    Learner::new(config, &*make).unwrap()
}

pub fn small_net(changes: &[&str]) -> Net {
    small("p3o", &Script::default().spec, changes).net
}

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Runs `f` on so many threads.
pub fn on_threads<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
}

/// An error's text, which must be one line.
pub fn one_line(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    assert!(!text.trim().is_empty() && !text.contains('\n'), "not one line: {text:?}");
    text
}

/// Bits to compare; every NaN is the same.
pub fn bits(row: &[f64]) -> Vec<u64> {
    row.iter().map(|x| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }).collect()
}

pub fn float_bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What one step of a [`Script`] gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    pub obs: Vec<f32>,
    pub reward: f32,
    pub costs: Vec<f32>,
    pub terminated: bool,
    pub truncated: bool,
}

/// A step's figures from its number in the episode (one is the first) and the action.
type Play = dyn Fn(usize, &[f32]) -> Given + Send + Sync;

/// A world that plays a function.
#[derive(Clone)]
pub struct Script {
    pub spec: EnvSpec,
    pub first: Vec<f32>,
    pub play: Arc<Play>,
    step: usize,
}

impl Default for Script {
    /// One observation, one action, one cost `risk`, and nothing ever happens.
    fn default() -> Self {
        let nothing = Given { obs: vec![1.0], reward: 0.0, costs: vec![0.0], terminated: false, truncated: false };
        Script::new(ActionSpace::Continuous { dim: 1 }, &["risk"], 10, vec![1.0], move |_, _| nothing.clone())
    }
}

impl Script {
    pub fn new(
        action: ActionSpace,
        costs: &[&str],
        horizon: usize,
        first: Vec<f32>,
        play: impl Fn(usize, &[f32]) -> Given + Send + Sync + 'static,
    ) -> Script {
        let costs = costs.iter().map(|name| CostSpec::new(name, 1.0)).collect();
        let spec = EnvSpec { name: "Script".into(), obs_dim: first.len(), action, agents: 1, costs, horizon };
        Script { spec, first, play: Arc::new(play), step: 0 }
    }

    pub fn maker(&self) -> impl Fn() -> Box<dyn Env> + 'static {
        let script = self.clone();
        move || Box::new(script.clone())
    }
}

impl Env for Script {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, _seed: u64, obs: &mut [f32]) {
        self.step = 0;
        obs.copy_from_slice(&self.first);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        self.step += 1;
        let given = (self.play)(self.step, action);
        obs.copy_from_slice(&given.obs);
        costs.copy_from_slice(&given.costs);
        Outcome { reward: given.reward, terminated: given.terminated, truncated: given.truncated }
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        Some(snapshot::seal(&self.spec.name, &self.step))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.step = snapshot::open(&self.spec.name, bytes)?;
        Ok(())
    }
}
