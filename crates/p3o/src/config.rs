//! Everything that decides a run's numbers, in one value that is valid once it exists.
//!
//! A [`Config`] starts from a preset, takes single changes by [`Config::set`], and is checked as a whole by
//! [`Config::check`]. Written as TOML it is complete: loading it gives the same run.

use crate::error::{ConfigError, suggest};
use p3o_env::EnvSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// The algorithms by name.
pub const ALGORITHMS: &[(&str, &str)] = &[
    ("p3o", "Penalized Proximal Policy Optimization: keeps every cost under its limit"),
    ("ppo", "Proximal Policy Optimization: ignores the costs (P3O without constraints)"),
    ("ppo-lag", "PPO with a Lagrange multiplier for each constraint"),
    ("focops", "First Order Constrained Optimization in Policy Space: multipliers, a step in the space of policies"),
    ("ipo", "Interior-point Policy Optimization: PPO with a logarithmic barrier in front of each limit"),
    ("trpo", "Trust Region Policy Optimization: second order, ignores the costs"),
    ("trpo-lag", "TRPO with a Lagrange multiplier for each constraint"),
    ("cpo", "Constrained Policy Optimization: second order, one constraint"),
    ("pcpo", "Projection-based CPO: TRPO's step, projected back under the limit; one constraint"),
    ("map3o", "P3O for several agents: one shared actor on an agent's own observation, critics on all of them"),
    ("map3o-dec", "P3O for several agents, decentralised: each has its own actor and critics on its own observation"),
    ("mappo", "PPO for several agents: ignores the costs (MAP3O without constraints)"),
    ("mappo-lag", "MAPPO with a Lagrange multiplier for each constraint"),
];

/// The algorithms for several agents that act each by its own observation.
pub const MULTI_AGENT: &[&str] = &["map3o", "map3o-dec", "mappo", "mappo-lag"];

/// The algorithms that ignore every limit.
pub const UNCONSTRAINED: &[&str] = &["ppo", "trpo", "mappo"];
/// Those with a multiplier for each constraint.
pub const WITH_MULTIPLIERS: &[&str] = &["ppo-lag", "focops", "trpo-lag", "mappo-lag"];
/// Those whose step needs the curvature of the policy.
pub const SECOND_ORDER: &[&str] = &["trpo", "trpo-lag", "cpo", "pcpo"];
/// Those that can keep one limit only.
pub const ONE_CONSTRAINT: &[&str] = &["cpo", "pcpo"];
/// Those with P3O's loss, whose passes may be over mini-batches.
const PENALTY: &[&str] = &["p3o", "ppo", "map3o", "map3o-dec", "mappo"];

/// Where `quick` differs for a task: for all algorithms, and for those that take mini-batches (docs/experiments.md).
const TUNED: &[(&str, &[&str], &[&str])] = &[
    (
        "AntCircle",
        &[
            "rollout.batch=8000",
            "rollout.lambda=0.9",
            "algo.learning_rate=6e-4",
            "algo.target_kl=0.02",
            "critic.normalize=true",
            "critic.minibatch=2000",
            "critic.passes=10",
        ],
        &["algo.minibatch=2000", "algo.passes=20", "algo.kappa=10", "algo.balance=true"],
    ),
    ("PointGather", &["critic.normalize=true"], &[]),
    ("PointCircle", &["rollout.cost_lambda=0.95", "algo.offset=per_step"], &[]),
];

/// Parameters of a network, about. Training keeps four numbers for each, in the actor and every critic.
const LARGEST_NETWORK: f64 = 1e8;

/// The presets by name.
pub const PRESETS: &[(&str, &str)] = &[
    ("quick", "minutes on two cores: 64x64 networks, batches of 20,000"),
    ("paper", "the paper's tables: 256x256 networks, batches of 30,000, 80 passes, 10^7 steps"),
];

/// An enum whose values are written as words, with "did you mean" for a word that is none of them.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$about:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum $name { $($(#[$about])* $variant,)* }

        impl TryFrom<String> for $name {
            type Error = ConfigError;
            fn try_from(word: String) -> Result<Self, ConfigError> {
                known($what, &word, [$($word),*])?;
                Ok(match word.as_str() { $($word => $name::$variant,)* _ => unreachable!("it is known") })
            }
        }

        impl From<$name> for String {
            fn from(choice: $name) -> String {
                match choice { $($name::$variant => $word.to_string(),)* }
            }
        }
    };
}

choices! {
    /// The function between layers.
    Activation, "activation" {
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// max(0, x)
        Relu = "relu",
        /// x
        Identity = "identity",
    }
}

choices! {
    /// How first weights are drawn.
    Init, "initialisation" {
        /// Orthogonal, with a small last layer for the policy.
        Orthogonal = "orthogonal",
        /// As in the code base of the paper.
        Glorot = "glorot",
    }
}

choices! {
    /// How kappa develops over the passes of an update.
    KappaSchedule, "kappa schedule" {
        /// Not at all.
        Fixed = "fixed",
        /// It grows with every pass and starts anew with every update (Algorithm 2, line 5).
        Adaptive = "adaptive",
    }
}

choices! {
    /// How far the episode cost is over its limit, in units of the cost advantage; see [`crate::algo::violation`].
    Offset, "offset" {
        /// (J - d) / T
        PerStep = "per_step",
        /// (1 - gamma)(J^gamma - d^gamma)
        Discounted = "discounted",
        /// (1 - gamma)(J - d)
        Paper = "paper",
    }
}

choices! {
    /// What of a constraint is standardised; see [`crate::algo::violation`].
    CostScale, "cost scale" {
        /// The advantage and the offset.
        Whole = "whole",
        /// The same, with the advantage's mean kept as part of the constraint.
        WholeMean = "whole_mean",
        /// The advantage alone.
        Advantage = "advantage",
        /// Nothing, but the advantage's mean is taken off.
        Centred = "centred",
        /// Nothing.
        None = "none",
    }
}

choices! {
    /// What of the reward's advantage is standardised.
    RewardScale, "reward scale" {
        /// All of it: zero mean and unit deviation.
        Standard = "standard",
        /// Nothing: with `cost_scale = none` too, kappa is in the units of reward per cost.
        None = "none",
    }
}

choices! {
    /// Where the cost of an episode is taken from.
    CostEstimate, "cost estimate" {
        /// The episodes that ended in the batch.
        Episodes = "episodes",
        /// The batch's mean cost per step times the length of an episode: no lag when episodes span several batches.
        Steps = "steps",
    }
}

choices! {
    /// In which measure PCPO projects back under the limit.
    Projection, "projection" {
        /// The KL of policies.
        Kl = "kl",
        /// The distance of parameters.
        L2 = "l2",
    }
}

choices! {
    /// What a critic is fitted to.
    Target, "critic target" {
        /// The discounted sum of what follows (Algorithm 1, lines 3 and 4).
        Return = "return",
        /// Value plus advantage estimate.
        Lambda = "lambda",
    }
}

/// All settings of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Which world.
    pub task: String,
    /// The preset that the other values started from.
    pub preset: String,
    /// Decides every random number of the run.
    pub seed: u64,
    /// Environment steps to train for; rounded up to whole batches.
    pub steps: u64,
    /// Options of the task.
    pub env: BTreeMap<String, f64>,
    /// Limit on each cost, summed over an episode; a cost without one is measured but not constrained.
    pub limits: BTreeMap<String, f64>,
    /// How experience is gathered.
    pub rollout: Rollout,
    /// The networks.
    pub net: Net,
    /// The policy's update.
    pub algo: Algo,
    /// Multipliers, for the algorithms that have them.
    pub multiplier: Multiplier,
    /// The step of second-order algorithms.
    pub second_order: SecondOrder,
    /// The critics' update.
    pub critic: Critic,
    /// The run's folder.
    pub run: Run,
}

/// How experience is gathered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollout {
    /// Environments side by side.
    pub envs: usize,
    /// Steps per update over all of them.
    pub batch: usize,
    /// Discount of the reward.
    pub gamma: f64,
    /// Discount of the costs.
    pub cost_gamma: f64,
    /// Lambda of the reward's generalised advantage estimate.
    pub lambda: f64,
    /// Lambda of the costs' estimates.
    pub cost_lambda: f64,
    /// Whether observations are brought to zero mean and unit deviation by running statistics.
    pub normalize_obs: bool,
    /// Whether the future of an episode that the clock ends still has a value; if not, its end is the end of all sums.
    pub bootstrap: bool,
}

/// The networks: an actor and one critic per signal, alike but for their outputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Net {
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Function between layers: tanh, relu or identity.
    pub activation: Activation,
    /// First weights: orthogonal, or glorot as in the code base of the paper.
    pub init: Init,
    /// First logarithm of the policy's deviation.
    pub log_std: f64,
    /// Whether actor and critics remember: a gated recurrent unit behind the hidden layers, and layer normalisation
    /// before and after each, as in MAPPO. It needs observations of several numbers.
    pub recurrent: bool,
    /// Width of the recurrent unit.
    pub units: usize,
    /// Steps through which its gradients flow back; divides the steps that an environment makes per update.
    pub chunk: usize,
}

/// The policy's update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Algo {
    /// p3o, ppo, ppo-lag, focops, ipo, trpo, trpo-lag, cpo or pcpo; for several agents map3o, map3o-dec, mappo, mappo-lag.
    pub name: String,
    /// Step size of Adam.
    pub learning_rate: f64,
    /// Passes over the batch at most.
    pub passes: usize,
    /// Rows of a mini-batch, for p3o and ppo and their multi-agent kin; 0 takes the whole batch at once.
    pub minibatch: usize,
    /// Epsilon of the clipped ratio.
    pub clip: f64,
    /// Mean KL from the old policy at which the passes end.
    pub target_kl: f64,
    /// The passes end at this multiple of `target_kl`.
    pub kl_slack: f64,
    /// Weight of the entropy bonus.
    pub entropy: f64,
    /// Penalty factor; the first one of every update where the schedule is adaptive.
    pub kappa: f64,
    /// fixed, or adaptive: kappa grows with every pass.
    pub kappa_schedule: KappaSchedule,
    /// Factor by which an adaptive kappa grows.
    pub kappa_growth: f64,
    /// Where an adaptive kappa stops growing.
    pub kappa_max: f64,
    /// Whether P3O's step is along the gradient of L / (1 + kappa times the number of penalised constraints): as long with
    /// a penalty as without, so that Adam's memory of the one does not shorten the other.
    pub balance: bool,
    /// How far the episode cost is over its limit, in units of the cost advantage: per_step, discounted or paper.
    pub offset: Offset,
    /// What is standardised: whole (the constraint, offset included), whole_mean (and the advantage's mean kept),
    /// advantage (leaving the offset as it is), centred (its mean alone is taken off) or none.
    pub cost_scale: CostScale,
    /// What of the reward's advantage is standardised: standard (all of it) or none.
    pub reward_scale: RewardScale,
    /// Where the cost of an episode is taken from: episodes (those that ended in the batch) or steps (the batch's mean
    /// cost per step times the length of an episode: no lag when episodes span several batches).
    pub cost_estimate: CostEstimate,
    /// How much of the last update's estimate of a cost stays in the next: 0 forgets it; 0.9 averages over ten updates.
    pub cost_memory: f64,
    /// Share of each limit held back as a safety margin.
    pub margin: f64,
    /// t of IPO's barrier log(-x) / t: the larger, the steeper and nearer to the limit.
    pub barrier: f64,
    /// lambda of FOCOPS: the larger, the closer its target stays to the old policy.
    pub temperature: f64,
}

impl Net {
    /// Weights of a network with so many inputs, about.
    fn parameters(&self, inputs: usize) -> f64 {
        let widths: Vec<f64> = std::iter::once(&inputs).chain(&self.hidden).map(|&n| n as f64).collect();
        let dense: f64 = widths.windows(2).map(|w| w[0] * w[1]).sum();
        let (last, units) = (widths[widths.len() - 1], self.units as f64);
        dense + if self.recurrent { 3.0 * units * (last + units) } else { 0.0 }
    }
}

impl Algo {
    /// Mean KL at which the passes end, and to which second-order steps reach.
    pub fn trust_region(&self) -> f64 {
        self.target_kl * self.kl_slack
    }
}

/// Lagrange multipliers of ppo-lag, trpo-lag and focops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Multiplier {
    /// First value.
    pub init: f64,
    /// Step size per update: of Adam for ppo-lag and trpo-lag, of the plain gradient for focops.
    pub learning_rate: f64,
    /// Largest value.
    pub max: f64,
}

/// The step of trpo, trpo-lag, cpo and pcpo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondOrder {
    /// Added to the diagonal of the KL's Hessian.
    pub damping: f64,
    /// Iterations of conjugate gradients.
    pub cg_iterations: usize,
    /// Factor by which the line search shortens a step that it does not take.
    pub backtrack: f64,
    /// How often it does so before it leaves the policy as it was.
    pub backtracks: usize,
    /// How PCPO projects: kl (the nearest policy) or l2 (the nearest parameters).
    pub projection: Projection,
}

/// The critics' update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Critic {
    /// Step size of Adam.
    pub learning_rate: f64,
    /// Passes over the batch.
    pub passes: usize,
    /// Rows of a mini-batch; 0 takes the whole batch at once.
    pub minibatch: usize,
    /// What a critic is fitted to: return (the discounted sum of what follows) or lambda (value plus advantage estimate).
    pub target: Target,
    /// Whether a critic learns its targets in units of their running mean and deviation.
    pub normalize: bool,
}

/// The run's folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Updates between two checkpoints.
    pub checkpoint_every: u64,
}

impl Config {
    /// A preset for a world. Costs get the limits that the task proposes.
    pub fn preset(name: &str, algo: &str, spec: &EnvSpec) -> Result<Config, ConfigError> {
        known("algorithm", algo, ALGORITHMS.iter().map(|a| a.0))?;
        known("preset", name, PRESETS.iter().map(|p| p.0))?;
        let limits = spec.costs.iter().map(|c| (c.name.clone(), c.limit)).collect();
        let mut config = Config {
            task: spec.name.clone(),
            preset: name.to_string(),
            seed: 0,
            steps: 2_000_000,
            env: BTreeMap::new(),
            limits,
            rollout: Rollout {
                envs: 100,
                batch: 20_000,
                gamma: 0.99,
                cost_gamma: 0.99,
                lambda: 0.95,
                cost_lambda: 0.5,
                normalize_obs: true,
                bootstrap: true,
            },
            net: Net {
                hidden: vec![64, 64],
                activation: Activation::Tanh,
                init: Init::Orthogonal,
                log_std: -0.5,
                recurrent: false,
                units: 64,
                chunk: 25,
            },
            algo: Algo {
                name: algo.to_string(),
                learning_rate: 3e-4,
                passes: 40,
                minibatch: 0,
                clip: 0.2,
                target_kl: 0.01,
                kl_slack: 1.0,
                entropy: 0.0,
                kappa: 2.0,
                kappa_schedule: KappaSchedule::Fixed,
                kappa_growth: 1.05,
                kappa_max: 40.0,
                balance: false,
                offset: Offset::Paper,
                cost_scale: CostScale::Whole,
                reward_scale: RewardScale::Standard,
                cost_estimate: CostEstimate::Steps,
                cost_memory: 0.0,
                margin: 0.2,
                barrier: 1000.0,
                temperature: 1.5,
            },
            multiplier: Multiplier { init: 1.0, learning_rate: 0.05, max: 1e6 },
            second_order: SecondOrder {
                damping: 0.1,
                cg_iterations: 10,
                backtrack: 0.8,
                backtracks: 10,
                projection: Projection::Kl,
            },
            critic: Critic { learning_rate: 1e-3, passes: 40, minibatch: 0, target: Target::Return, normalize: false },
            run: Run { checkpoint_every: 10 },
        };
        if name == "paper" {
            config.follow_the_paper(spec);
        }
        config.suit_the_algorithm();
        if MULTI_AGENT.contains(&algo) {
            config.suit_a_team(spec);
        }
        if name == "quick" {
            config.suit_the_task()?;
        }
        Ok(config)
    }

    /// Where the other algorithms differ from P3O in both presets.
    fn suit_the_algorithm(&mut self) {
        if !PENALTY.contains(&self.algo.name.as_str()) {
            // CPO, PCPO and IPO weigh the offset against the surrogate, so the two must be commensurate.
            self.algo.offset = Offset::PerStep;
            self.algo.cost_scale = CostScale::Whole;
        }
        if self.algo.name == "focops" {
            self.multiplier.learning_rate = 0.01;
            self.multiplier.max = 2.0;
        }
    }

    /// What measurements on single tasks came to; whole batches are all that some algorithms take.
    fn suit_the_task(&mut self) -> Result<(), ConfigError> {
        let Some((_, settings, in_parts)) = TUNED.iter().find(|tuned| tuned.0 == self.task) else { return Ok(()) };
        let in_parts = if PENALTY.contains(&self.algo.name.as_str()) { *in_parts } else { &[] };
        settings.iter().chain(in_parts).try_for_each(|setting| self.set(setting))
    }

    /// Where several agents differ: episodes so short that each is whole in a batch and its end is the end of its sums, and
    /// few passes, as MAPPO has them.
    fn suit_a_team(&mut self, spec: &EnvSpec) {
        let paper = self.preset == "paper";
        self.rollout.envs = if paper { 40 } else { 128 };
        self.rollout.batch = self.rollout.envs * spec.horizon;
        (self.rollout.lambda, self.rollout.cost_lambda) = (0.95, if paper { 0.95 } else { 0.5 });
        self.rollout.normalize_obs = true;
        self.rollout.bootstrap = false;
        self.net.hidden = vec![64, 64];
        self.net.init = Init::Orthogonal;
        self.net.recurrent = true;
        self.net.chunk = spec.horizon;
        (self.algo.passes, self.critic.passes) = (10, 10);
        self.algo.entropy = 0.01;
        self.critic.normalize = true;
        if paper {
            self.steps = 5_000_000;
        } else {
            (self.algo.passes, self.algo.learning_rate, self.algo.target_kl) = (20, 1e-3, 0.03);
            // An episode of 25 steps makes this four times the paper's offset.
            self.algo.offset = Offset::PerStep;
            self.algo.margin = 0.4;
        }
    }

    /// The paper's two tables, and what its code base does where they are silent.
    fn follow_the_paper(&mut self, spec: &EnvSpec) {
        self.steps = 10_000_000;
        self.rollout = Rollout {
            envs: 30,
            batch: 30 * spec.horizon,
            gamma: 0.99,
            cost_gamma: 0.99,
            lambda: 0.97,
            cost_lambda: 0.97,
            normalize_obs: false,
            bootstrap: true,
        };
        self.net.hidden = vec![256, 256];
        self.net.init = Init::Glorot;
        self.algo.passes = 80;
        self.algo.kappa = 20.0;
        self.algo.offset = Offset::Paper;
        self.algo.cost_scale = CostScale::Advantage;
        self.algo.cost_estimate = CostEstimate::Episodes;
        self.algo.margin = 0.0;
        self.algo.barrier = 20.0;
        self.critic.passes = 80;
    }

    /// Changes one value: `algo.kappa=10`, `net.hidden=[128,128]`, `env.level=2`.
    pub fn set(&mut self, assignment: &str) -> Result<(), ConfigError> {
        let (key, text) = assignment
            .split_once('=')
            .ok_or_else(|| ConfigError::new(format!("`{assignment}` is not of the form key=value")))?;
        let (key, text) = (key.trim(), text.trim());
        let mut table =
            toml::Table::try_from(&*self).map_err(|e| ConfigError::new(format!("cannot change {key}: {e}")))?;
        let slot = find(&mut table, key)?;
        let value = match key.strip_prefix("env.") {
            Some(option) => toml::Value::Float(task_option(&self.task, option, text)?),
            None => parse(key, text, slot.as_ref())?,
        };
        insert(&mut table, key, value);
        *self = table.try_into().map_err(|e: toml::de::Error| ConfigError::new(format!("{key}: {}", e.message())))?;
        Ok(())
    }

    /// Changes one limit: `hazards=30`, or `hazards=none` for no limit.
    pub fn set_limit(&mut self, text: &str) -> Result<(), ConfigError> {
        let wrong = |what: String| Err(ConfigError::new(what));
        let Some((name, value)) = text.split_once('=') else {
            return wrong(format!("--limit takes NAME=NUMBER, not `{text}`"));
        };
        match (value, value.parse::<f64>()) {
            ("none", _) => self.limits.remove(name),
            (_, Ok(number)) => self.limits.insert(name.to_string(), number),
            (_, Err(_)) => return wrong(format!("--limit {name} takes a number or none, not `{value}`")),
        };
        Ok(())
    }

    /// Reads a complete configuration.
    pub fn from_toml(text: &str) -> Result<Config, ConfigError> {
        toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(0, |s| text[..s.start].matches('\n').count() + 1);
            let message = e.message();
            // serde says: unknown field `kapa`, expected one of `name`, ...
            let mut quoted = message.split('`').skip(1).step_by(2);
            let hint = match (message.starts_with("unknown field"), quoted.next()) {
                (true, Some(wrong)) => suggest(wrong, quoted),
                _ => String::new(),
            };
            let what =
                if hint.is_empty() { message.to_string() } else { message.split(',').next().unwrap().to_string() };
            ConfigError::new(format!("line {line}: {what}{hint}"))
        })
    }

    /// Writes it all, as [`Config::from_toml`] reads it.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a configuration is always representable")
    }

    /// Whether every value makes sense, alone and together with the world.
    pub fn check(&self, spec: &EnvSpec) -> Result<(), ConfigError> {
        known("algorithm", &self.algo.name, ALGORITHMS.iter().map(|a| a.0))?;
        known("preset", &self.preset, PRESETS.iter().map(|p| p.0))?;
        for (name, limit) in &self.limits {
            let costs = spec.costs.iter().map(|c| c.name.as_str());
            if spec.costs.is_empty() {
                return Err(ConfigError::new(format!("{} has no costs, so it cannot limit `{name}`", spec.name)));
            }
            known("cost", name, costs)?;
            range(&format!("limit of {name}"), *limit, 0.0, f64::INFINITY)?;
        }
        let (r, a, c) = (&self.rollout, &self.algo, &self.critic);
        range("steps", self.steps as f64, 1.0, f64::INFINITY)?;
        range("rollout.envs", r.envs as f64, 1.0, 65_536.0)?;
        range("rollout.batch", r.batch as f64, 2.0, 1e8)?;
        range("rollout.gamma", r.gamma, 0.0, 0.999_999)?;
        range("rollout.cost_gamma", r.cost_gamma, 0.0, 0.999_999)?;
        range("rollout.lambda", r.lambda, 0.0, 1.0)?;
        range("rollout.cost_lambda", r.cost_lambda, 0.0, 1.0)?;
        range("net.log_std", self.net.log_std, -20.0, 5.0)?;
        range("algo.learning_rate", a.learning_rate, 0.0, 1.0)?;
        range("algo.passes", a.passes as f64, 1.0, 1e6)?;
        range("algo.clip", a.clip, 1e-9, 1.0)?;
        range("algo.target_kl", a.target_kl, 0.0, f64::MAX)?;
        range("algo.kl_slack", a.kl_slack, 1e-9, 1e9)?;
        range("algo.entropy", a.entropy, 0.0, 1e6)?;
        range("algo.kappa", a.kappa, 0.0, 1e12)?;
        range("algo.kappa_growth", a.kappa_growth, 1.0, 1e6)?;
        range("algo.kappa_max", a.kappa_max, 0.0, 1e12)?;
        range("algo.cost_memory", a.cost_memory, 0.0, 0.999)?;
        range("algo.margin", a.margin, 0.0, 1.0)?;
        range("algo.barrier", a.barrier, 1e-9, 1e12)?;
        range("algo.temperature", a.temperature, 1e-9, 1e12)?;
        range("multiplier.init", self.multiplier.init, 0.0, 1e6)?;
        range("multiplier.learning_rate", self.multiplier.learning_rate, 0.0, 1e6)?;
        range("multiplier.max", self.multiplier.max, 0.0, 1e6)?;
        range("second_order.damping", self.second_order.damping, 0.0, 1e6)?;
        range("second_order.cg_iterations", self.second_order.cg_iterations as f64, 1.0, 1e6)?;
        range("second_order.backtrack", self.second_order.backtrack, 1e-3, 0.999)?;
        range("second_order.backtracks", self.second_order.backtracks as f64, 0.0, 1e6)?;
        range("critic.learning_rate", c.learning_rate, 0.0, 1.0)?;
        range("critic.passes", c.passes as f64, 0.0, 1e6)?;
        range("run.checkpoint_every", self.run.checkpoint_every as f64, 1.0, f64::INFINITY)?;
        for (name, value) in [("seed", self.seed), ("steps", self.steps)] {
            if i64::try_from(value).is_err() {
                return Err(ConfigError::new(format!("{name} must be at most {}, not {value}", i64::MAX)));
            }
        }
        if r.batch < r.envs || !r.batch.is_multiple_of(r.envs) {
            return Err(ConfigError::new(format!(
                "rollout.batch ({}) must be a multiple of rollout.envs ({})",
                r.batch, r.envs
            )));
        }
        if self.net.hidden.iter().any(|&n| n == 0 || n > 65_536) {
            return Err(ConfigError::new("net.hidden needs widths between 1 and 65536".to_string()));
        }
        range("net.units", self.net.units as f64, 1.0, 65_536.0)?;
        range("net.chunk", self.net.chunk as f64, 1.0, 1e8)?;
        let parameters = self.net.parameters(spec.obs_dim);
        if parameters > LARGEST_NETWORK {
            return Err(ConfigError::new(format!(
                "net.hidden and net.units make networks of {parameters:.1e} parameters; more than {LARGEST_NETWORK:.0e} are \
                 refused"
            )));
        }
        if self.net.recurrent && spec.obs_dim / spec.agents < 2 {
            return Err(ConfigError::new(format!(
                "net.recurrent normalises every observation in itself, which leaves nothing of the single number that {} \
                 shows",
                spec.name
            )));
        }
        if self.net.recurrent && self.net.hidden.iter().chain([&self.net.units]).any(|&width| width < 2) {
            return Err(ConfigError::new(
                "net.recurrent normalises every layer in itself, so net.hidden and net.units need widths of at least 2"
                    .to_string(),
            ));
        }
        let steps = r.batch / r.envs;
        if self.net.recurrent && !steps.is_multiple_of(self.net.chunk) {
            return Err(ConfigError::new(format!(
                "net.chunk ({}) must divide the steps that an environment makes per update ({steps}: rollout.batch / \
                 rollout.envs)",
                self.net.chunk
            )));
        }
        self.check_algorithm(spec)
    }

    /// Whether the algorithm can do what it is asked for.
    fn check_algorithm(&self, spec: &EnvSpec) -> Result<(), ConfigError> {
        let name = self.algo.name.as_str();
        let agents = spec.agents;
        match (MULTI_AGENT.contains(&name), agents) {
            (true, 1) => {
                return Err(ConfigError::new(format!(
                    "{name} is for several agents, and {} has one; the tasks of several agents are {}",
                    spec.name,
                    p3o_env::tasks::teams().join(", ")
                )));
            }
            (false, 2..) => {
                return Err(ConfigError::new(format!(
                    "{name} is for one agent, and {} has {agents}: use {}, or let one joint choice steer them",
                    spec.name,
                    MULTI_AGENT.join(", ")
                )));
            }
            _ => {}
        }
        if ONE_CONSTRAINT.contains(&name) && self.limits.len() > 1 {
            let costs: Vec<&str> = self.limits.keys().map(String::as_str).collect();
            return Err(ConfigError::new(format!(
                "{name} can keep one limit only, not {} ({}): use p3o, which keeps any number, or free the others with \
                 --limit NAME=none",
                costs.len(),
                costs.join(", ")
            )));
        }
        if self.net.recurrent && SECOND_ORDER.contains(&name) {
            return Err(ConfigError::new(format!(
                "{name} needs second derivatives, which recurrent networks do not have here: set net.recurrent=false"
            )));
        }
        if self.algo.minibatch > 0 && !PENALTY.contains(&name) {
            return Err(ConfigError::new(format!(
                "algo.minibatch must be 0 for {name}, which takes the whole batch at once; {} take mini-batches",
                PENALTY.join(", ")
            )));
        }
        Ok(())
    }

    /// The agents that share an actor and critics: all, or each on its own.
    pub fn groups(&self, spec: &EnvSpec) -> Vec<Range<usize>> {
        match self.algo.name.as_str() {
            "map3o-dec" => (0..spec.agents).map(|agent| agent..agent + 1).collect(),
            _ => std::iter::once(0..spec.agents).collect(),
        }
    }

    /// Updates that make up the run.
    pub fn updates(&self) -> u64 {
        self.steps.div_ceil(self.rollout.batch as u64)
    }
}

/// The options of a task among some assignments: they decide what the world shows and costs.
pub fn task_options(task: &str, assignments: &[String]) -> Result<BTreeMap<String, f64>, ConfigError> {
    let options = assignments.iter().filter_map(|text| text.strip_prefix("env.")?.split_once('='));
    options.map(|(name, text)| Ok((name.trim().to_string(), task_option(task, name.trim(), text.trim())?))).collect()
}

/// The value of a task's option: a number, or for some a word.
fn task_option(task: &str, option: &str, text: &str) -> Result<f64, ConfigError> {
    let key = format!("env.{option}");
    match p3o_env::tasks::words(task, option) {
        Some(words) if text.parse::<f64>().is_err() => {
            known(&format!("value of {key}"), text, words.iter().copied())?;
            Ok(words.iter().position(|word| *word == text).unwrap_or(0) as f64)
        }
        _ => match parse(&key, text, None)? {
            toml::Value::Float(number) => Ok(number),
            _ => unreachable!("what is like nothing is a number"),
        },
    }
}

/// The value at a dotted key; none for a key that may be added (a limit or a task option).
fn find(table: &mut toml::Table, key: &str) -> Result<Option<toml::Value>, ConfigError> {
    let mut here: &toml::Table = table;
    let parts: Vec<&str> = key.split('.').collect();
    for (i, part) in parts.iter().enumerate() {
        let last = i + 1 == parts.len();
        match here.get(*part) {
            Some(toml::Value::Table(inner)) if !last => here = inner,
            Some(toml::Value::Table(_)) => {
                return Err(ConfigError::new(format!("`{key}` is a group of settings, not one")));
            }
            Some(value) if last => return Ok(Some(value.clone())),
            None if last && (parts[0] == "limits" || parts[0] == "env") && i == 1 => return Ok(None),
            _ => {
                let prefix = if i == 0 { String::new() } else { format!("{}.", parts[..i].join(".")) };
                let names: Vec<String> = here.keys().map(|k| format!("{prefix}{k}")).collect();
                let near = suggest(key, names.iter().map(String::as_str));
                // A name that stands in some group is likelier meant than a similar one here.
                let home = homes(table, parts[parts.len() - 1]);
                let hint = if home.is_empty() { near } else { format!("; did you mean `{home}`?") };
                return Err(ConfigError::new(format!("there is no setting `{key}`{hint}")));
            }
        }
    }
    unreachable!("the last part always returns")
}

/// The full key of a setting called `name` in some group.
fn homes(table: &toml::Table, name: &str) -> String {
    table
        .iter()
        .filter_map(|(group, value)| {
            value.as_table().filter(|t| t.contains_key(name)).map(|_| format!("{group}.{name}"))
        })
        .next()
        .unwrap_or_default()
}

/// Reads a value of the kind that stands there already.
fn parse(key: &str, text: &str, like: Option<&toml::Value>) -> Result<toml::Value, ConfigError> {
    let wrong = |kind: &str| ConfigError::new(format!("{key} takes {kind}, not `{text}`"));
    Ok(match like {
        Some(toml::Value::Integer(_)) => toml::Value::Integer(count(text).ok_or_else(|| wrong("a whole number"))?),
        Some(toml::Value::Boolean(_)) => toml::Value::Boolean(text.parse().map_err(|_| wrong("true or false"))?),
        Some(toml::Value::String(_)) => toml::Value::String(text.trim_matches('"').to_string()),
        Some(toml::Value::Array(_)) => {
            let inner = text.trim_start_matches('[').trim_end_matches(']');
            let items = inner.split(',').filter(|s| !s.trim().is_empty());
            let items: Option<Vec<toml::Value>> = items.map(|s| count(s.trim()).map(toml::Value::Integer)).collect();
            toml::Value::Array(items.ok_or_else(|| wrong("whole numbers such as [64,64]"))?)
        }
        _ => {
            let number: f64 = text.parse().map_err(|_| wrong("a number"))?;
            if !number.is_finite() {
                return Err(wrong("a finite number"));
            }
            toml::Value::Float(number)
        }
    })
}

/// A whole number, also written as 2e6.
pub fn count(text: &str) -> Option<i64> {
    if let Ok(n) = text.replace('_', "").parse::<i64>() {
        return (n >= 0).then_some(n);
    }
    let x: f64 = text.parse().ok()?;
    (x >= 0.0 && x.fract() == 0.0 && x < 9e15).then_some(x as i64)
}

fn insert(table: &mut toml::Table, key: &str, value: toml::Value) {
    match key.split_once('.') {
        Some((group, rest)) => {
            let inner = table.get_mut(group).and_then(toml::Value::as_table_mut).expect("find has walked here");
            insert(inner, rest, value);
        }
        None => {
            table.insert(key.to_string(), value);
        }
    }
}

/// Whether a name is among those there are; if not, the nearest of them is proposed.
pub fn known<'a>(kind: &str, name: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> Result<(), ConfigError> {
    if names.clone().into_iter().any(|n| n == name) {
        return Ok(());
    }
    let list: Vec<&str> = names.clone().into_iter().collect();
    let hint = suggest(name, names);
    Err(ConfigError::new(format!("unknown {kind} `{name}`{hint} (there is: {})", list.join(", "))))
}

fn range(name: &str, value: f64, low: f64, high: f64) -> Result<(), ConfigError> {
    if value.is_finite() && value >= low && value <= high {
        return Ok(());
    }
    let bounds = if high > 1e9 { format!("at least {low}") } else { format!("between {low} and {high}") };
    Err(ConfigError::new(format!("{name} must be {bounds} and finite, not {value}")))
}
