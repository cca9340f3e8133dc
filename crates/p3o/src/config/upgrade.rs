//! Configurations of older versions, as what they mean today.
//!
//! Version 1 had no `version`, kept the settings of all algorithms in three sections that every run carried, and put a
//! constraint together from three settings. What it could say and today's settings cannot is refused by name. Version 2 is
//! today's file but for how a policy chooses for several agents and for what version 3 lacks: some settings, and worlds
//! that have been laid out anew. Version 4 is today's file but for vases, which stopped at once, and entropy bonuses, and for what version
//! 5 lacks: an update could not end at an average.

use super::sections::{Activation, Constraint, Init, Policy, Sum, Target, Team};
use super::{Agents, Config, Method, known};
use crate::algo::p3o::Form;
use crate::algo::{Constraints, Settings};
use crate::error::{ConfigError, suggest};
use p3o_env::tasks;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Settings of version 1 that have another name today.
pub(super) const RENAMED: &[(&str, &str)] = &[
    ("net.recurrent", "net.gru"),
    ("net.units", "net.gru"),
    ("net.chunk", "net.bptt"),
    ("algo.kl_slack", "policy.target_kl"),
    ("algo.kappa_schedule", "p3o.kappa_growth"),
    ("algo.offset", "constraint.form"),
    ("algo.cost_scale", "constraint.form"),
    ("algo.cost_estimate", "constraint.form"),
    ("algo.reward_scale", "constraint.form"),
    ("algo.cost_memory", "constraint.smoothing"),
];

/// Version 2 had one way only in which a policy chose for several agents: one of all their combinations.
pub(super) fn version_2(mut config: Config) -> Config {
    if config.agents == Agents::Single && tasks::words(&config.task, tasks::JOINT).is_some() {
        config.env.entry(tasks::JOINT.to_string()).or_insert(1.0);
    }
    config
}

/// What version 3 did not say: a bonus had no ceiling, limits were held as they are against an episode's plain sum, every agent of a
/// team had the whole gap to close, and FOCOPS's multipliers moved by plain costs.
pub(super) fn settings_of_version_3(mut table: Table) -> Table {
    let (policy, constraint) = (Policy::default(), Constraint::default());
    let word = |word: &str| Value::String(word.to_string());
    for (section, name, value) in [
        ("policy", "entropy_below", Value::Float(policy.entropy_below)),
        ("constraint", "correction_rate", Value::Float(constraint.correction_rate)),
        ("constraint", "correction_max", Value::Float(constraint.correction_max)),
        ("constraint", "sum", word(Sum::Episode.word())),
        ("constraint", "team", word(Team::Alone.word())),
        ("focops", "multiplier_relative", Value::Boolean(false)),
    ] {
        // An algorithm has no other's section, and one without constraints an empty one of them.
        let section = table.get_mut(section).and_then(Value::as_table_mut).filter(|section| !section.is_empty());
        if let Some(section) = section {
            section.entry(name).or_insert(value);
        }
    }
    table
}

/// Worlds of version 3 had their former layouts only.
pub(super) fn version_3(mut config: Config) -> Config {
    if tasks::words(&config.task, tasks::LAYOUT).is_some() {
        config.env.entry(tasks::LAYOUT.to_string()).or_insert(0.0);
    }
    config
}

/// What version 4 did not say: a bonus was for the sum of the components' entropies, and for the whole run.
pub(super) fn settings_of_version_4(mut table: Table) -> Table {
    if let Some(policy) = table.get_mut("policy").and_then(Value::as_table_mut) {
        policy.entry("entropy_mean").or_insert(Value::Boolean(false));
        policy.entry("entropy_until").or_insert(Value::Float(1.0));
    }
    table
}

/// What version 5 did not say: an update by passes ended at its last step. Algorithms of second order have no passes.
pub(super) fn settings_of_version_5(mut table: Table) -> Table {
    let policy = table.get_mut("policy").and_then(Value::as_table_mut);
    if let Some(policy) = policy.filter(|policy| policy.contains_key("passes")) {
        policy.entry("average").or_insert(Value::Integer(0));
    }
    table
}

/// Vases of version 4 were simple ones only.
pub(super) fn version_4(mut config: Config) -> Config {
    if tasks::has_effect(&config.task, tasks::VASES, &config.env) {
        config.env.entry(tasks::VASES.to_string()).or_insert(0.0);
    }
    config
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Version1 {
    task: String,
    preset: String,
    seed: u64,
    steps: u64,
    env: BTreeMap<String, f64>,
    limits: BTreeMap<String, f64>,
    rollout: Rollout,
    net: Net,
    algo: Algo,
    multiplier: Multiplier,
    second_order: SecondOrder,
    critic: Critic,
    run: Run,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rollout {
    envs: usize,
    batch: usize,
    gamma: f64,
    cost_gamma: f64,
    lambda: f64,
    cost_lambda: f64,
    normalize_obs: bool,
    bootstrap: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Net {
    hidden: Vec<usize>,
    activation: String,
    init: String,
    log_std: f64,
    recurrent: bool,
    units: usize,
    chunk: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Algo {
    name: String,
    learning_rate: f64,
    passes: usize,
    minibatch: usize,
    clip: f64,
    target_kl: f64,
    kl_slack: f64,
    entropy: f64,
    kappa: f64,
    kappa_schedule: String,
    kappa_growth: f64,
    kappa_max: f64,
    balance: bool,
    offset: String,
    cost_scale: String,
    reward_scale: String,
    cost_estimate: String,
    cost_memory: f64,
    margin: f64,
    barrier: f64,
    temperature: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Multiplier {
    init: f64,
    learning_rate: f64,
    max: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecondOrder {
    damping: f64,
    cg_iterations: usize,
    backtrack: f64,
    backtracks: usize,
    projection: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Critic {
    learning_rate: f64,
    passes: usize,
    minibatch: usize,
    target: String,
    normalize: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    checkpoint_every: u64,
}

/// Reads a file of version 1.
pub(super) fn version_1(text: &str) -> Result<Config, ConfigError> {
    let old: Version1 = toml::from_str(text).map_err(|e| {
        let message = e.message().lines().next().unwrap_or_default().to_string();
        // serde says: unknown field `kapa`, expected one of `name`, ...
        let mut quoted = message.split('`').skip(1).step_by(2);
        let hint = match (message.starts_with("unknown field"), quoted.next()) {
            (true, Some(wrong)) => suggest(wrong, quoted),
            _ => String::new(),
        };
        let what = if hint.is_empty() { &*message } else { message.split(',').next().unwrap_or_default() };
        let line = e.span().map_or(1, |s| text[..s.start].matches('\n').count() + 1);
        ConfigError::Syntax { line, message: format!("{what}{hint}") }
    })?;
    old.upgrade()
}

impl Version1 {
    fn upgrade(self) -> Result<Config, ConfigError> {
        let method = Method::named(&self.algo.name)?;
        let word = |key: &str, word: &str| ConfigError::NoLonger { key: key.into(), value: word.into() };
        let mut config = Config { preset: self.preset.clone(), ..Config::base(&self.task, method) };
        (config.run.seed, config.run.steps) = (self.seed, self.steps);
        config.run.checkpoint_every = self.run.checkpoint_every;
        (config.env, config.limits) = (self.env.clone(), self.limits.clone());
        let r = &self.rollout;
        config.rollout = super::Rollout {
            envs: r.envs,
            batch: r.batch,
            gamma: r.gamma,
            cost_gamma: r.cost_gamma,
            lambda: r.lambda,
            cost_lambda: r.cost_lambda,
            normalize_obs: r.normalize_obs,
            bootstrap: r.bootstrap,
        };
        let n = &self.net;
        config.net = super::Net {
            hidden: n.hidden.clone(),
            activation: Activation::of(&n.activation).ok_or_else(|| word("net.activation", &n.activation))?,
            init: Init::of(&n.init).ok_or_else(|| word("net.init", &n.init))?,
            log_std: n.log_std,
            gru: if n.recurrent { n.units } else { 0 },
            bptt: n.chunk,
        };
        let a = &self.algo;
        config.policy = super::Policy {
            learning_rate: a.learning_rate,
            passes: a.passes,
            minibatch: a.minibatch,
            target_kl: a.target_kl * a.kl_slack,
            entropy: a.entropy,
            ..config.policy
        };
        config.constraint = super::Constraint {
            form: self.form(&config)?,
            margin: a.margin,
            smoothing: a.cost_memory,
            sum: Sum::Episode,
            team: Team::Alone,
            ..super::Constraint::default()
        };
        for (key, given, words) in [
            ("algo.kappa_schedule", &a.kappa_schedule, &["fixed", "adaptive"][..]),
            ("second_order.projection", &self.second_order.projection, &["kl", "l2"]),
        ] {
            known(key, given, words.iter().copied())?;
        }
        config.own = self.own(config.own);
        let c = &self.critic;
        config.critic = super::Critic {
            learning_rate: c.learning_rate,
            passes: c.passes,
            minibatch: c.minibatch,
            target: Target::of(&c.target).ok_or_else(|| word("critic.target", &c.target))?,
            normalize: c.normalize,
            ..config.critic
        };
        // Version 1 kept values that have no effect on the algorithm; today's file has no place for them.
        Config::from_toml(&config.to_toml()).map(version_4).map(version_3).map(version_2)
    }

    /// The form that three settings of the constraint and one of the reward are today.
    fn form(&self, config: &Config) -> Result<Form, ConfigError> {
        let a = &self.algo;
        let parts = (&*a.offset, &*a.cost_scale, &*a.cost_estimate, &*a.reward_scale);
        let ignores_costs = config.algorithm().info().constraints == Constraints::None;
        let no_longer = || {
            let value = format!("{}, {}, {}, {}", parts.0, parts.1, parts.2, parts.3);
            let key = "algo.offset, cost_scale, cost_estimate, reward_scale".to_string();
            Err(ConfigError::NoLonger { key, value })
        };
        if ignores_costs && parts.3 != "standard" {
            return no_longer();
        }
        Ok(match parts {
            ("paper", "advantage", "episodes", "standard") => Form::Literal,
            ("paper", "whole", "steps", "standard") => Form::Scaled,
            // The cost per step times an episode's length is the mean cost of an episode, but for the last digits where
            // episodes are whole in a batch.
            ("per_step", "whole", "steps" | "episodes", "standard") => Form::PerStep,
            ("per_step", "centred", "episodes", "none") => Form::Raw,
            // Without a constraint the form has no effect.
            (.., "standard") if config.limits.is_empty() => config.constraint.form,
            (.., "standard") if config.algorithm().info().constraints == Constraints::None => config.constraint.form,
            _ => return no_longer(),
        })
    }

    /// The algorithm's own settings; each takes those that it has.
    fn own(&self, mut own: Settings) -> Settings {
        let (a, m, s) = (&self.algo, &self.multiplier, &self.second_order);
        let growth = if a.kappa_schedule == "adaptive" { a.kappa_growth } else { 1.0 };
        for (name, value) in [
            ("clip", a.clip),
            ("kappa", a.kappa),
            ("kappa_growth", growth),
            ("kappa_max", a.kappa_max),
            ("barrier", a.barrier),
            ("temperature", a.temperature),
            ("multiplier", m.init),
            ("multiplier_rate", m.learning_rate),
            ("multiplier_max", m.max),
            ("damping", s.damping),
            ("backtrack", s.backtrack),
        ] {
            own.section_mut().set(name, &Value::Float(value));
        }
        for (name, value) in [("cg_iterations", s.cg_iterations), ("backtracks", s.backtracks)] {
            own.section_mut().set(name, &Value::Integer(value as i64));
        }
        own.section_mut().set("balance", &Value::Boolean(a.balance));
        own.section_mut().set("projection", &Value::String(s.projection.clone()));
        own
    }
}
