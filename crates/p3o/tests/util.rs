//! What several promises need: small settings, threads, and a world whose every number is chosen by the test.

use p3o::Config;
use p3o::config::{MULTI_AGENT, Net};
use p3o::run::make_for;
use p3o_env::{ActionSpace, CostSpec, Env, EnvSpec, Outcome, RestoreError, snapshot};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::sync::Arc;

/// Every number a test depends on, so that no preset decides its outcome.
const SMALL: &[&str] = &[
    "seed=1",
    "steps=2000",
    "rollout.envs=4",
    "rollout.batch=400",
    "rollout.gamma=0.99",
    "rollout.cost_gamma=0.99",
    "rollout.lambda=0.95",
    "rollout.cost_lambda=0.95",
    "rollout.normalize_obs=false",
    "rollout.bootstrap=true",
    "net.hidden=[16,16]",
    "net.activation=tanh",
    "net.init=orthogonal",
    "net.log_std=-0.5",
    "net.recurrent=false",
    "net.units=8",
    "net.chunk=5",
    "algo.learning_rate=1e-3",
    "algo.passes=3",
    "algo.minibatch=0",
    "algo.clip=0.2",
    "algo.target_kl=0.02",
    "algo.kl_slack=1.5",
    "algo.entropy=0",
    "algo.kappa=20",
    "algo.kappa_schedule=fixed",
    "algo.kappa_growth=1.05",
    "algo.kappa_max=40",
    "algo.balance=false",
    "algo.offset=per_step",
    "algo.cost_scale=whole",
    "algo.reward_scale=standard",
    "algo.cost_estimate=episodes",
    "algo.cost_memory=0",
    "algo.margin=0",
    "algo.barrier=20",
    "algo.temperature=1.5",
    "multiplier.init=1",
    "multiplier.learning_rate=0.05",
    "multiplier.max=10",
    "second_order.damping=0.1",
    "second_order.cg_iterations=10",
    "second_order.backtrack=0.8",
    "second_order.backtracks=10",
    "second_order.projection=kl",
    "critic.learning_rate=1e-3",
    "critic.passes=3",
    "critic.minibatch=0",
    "critic.target=return",
    "critic.normalize=false",
    "run.checkpoint_every=2",
];

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Small settings for a world, with some of them changed.
pub fn small(algo: &str, spec: &EnvSpec, changes: &[&str]) -> Config {
    let mut config = Config::preset("quick", algo, spec).unwrap();
    for assignment in SMALL.iter().chain(changes) {
        config.set(assignment).unwrap();
    }
    config
}

/// The same for a task by name.
pub fn small_task(algo: &str, task: &str, changes: &[&str]) -> Config {
    small(algo, make_for(algo, task, &Default::default()).unwrap().spec(), changes)
}

/// A task that the algorithm can be tried on.
pub fn task_of(algo: &str) -> &'static str {
    if MULTI_AGENT.contains(&algo) { "SimpleSpread" } else { "PointGoal" }
}

pub fn small_net(changes: &[&str]) -> Net {
    small("p3o", &Script::default().spec, changes).net
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
        let costs = costs.iter().map(|name| CostSpec { name: name.to_string(), limit: 1.0 }).collect();
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

    fn snapshot(&self) -> Vec<u8> {
        snapshot::seal(&self.spec.name, &self.step)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.step = snapshot::open(&self.spec.name, bytes)?;
        Ok(())
    }
}
