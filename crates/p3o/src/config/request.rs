//! From what a user asks for to a configuration: base values, the preset's layers, single changes.

use super::{Agents, Config, Method, Preset, known_cost, task_options};
use crate::algo;
use crate::error::{ConfigError, Error};
use p3o_env::{Env, EnvSpec, TaskError, tasks};
use std::collections::BTreeMap;

/// What a user asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The world.
    pub task: String,
    /// The algorithm and how it is applied to agents.
    pub method: Method,
    /// The preset to start from.
    pub preset: String,
    /// Single settings, `p3o.kappa=10`; later ones win.
    pub set: Vec<String>,
    /// Single limits, `hazards=30` or `hazards=none`.
    pub limits: Vec<String>,
    /// The seed, if not the preset's.
    pub seed: Option<u64>,
    /// Environment steps, if not the preset's.
    pub steps: Option<u64>,
    /// Whether settings that the algorithm does not have are passed over, as where several algorithms share them.
    pub shared: bool,
}

/// A checked configuration, and where its values come from.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The configuration.
    pub config: Config,
    /// For each setting that a layer or a change has decided: which one.
    pub origins: BTreeMap<String, String>,
}

impl Request {
    /// The `quick` preset as it is.
    pub fn new(task: &str, method: Method) -> Request {
        Request {
            task: task.to_string(),
            method,
            preset: "quick".to_string(),
            set: Vec::new(),
            limits: Vec::new(),
            seed: None,
            steps: None,
            shared: false,
        }
    }

    /// For a task by name.
    pub fn resolve(&self) -> Result<Resolved, Error> {
        let options = task_options(&self.task, &self.set)?;
        let env = make_env(self.method, &self.task, &options)?;
        Ok(self.resolve_for(env.spec())?)
    }

    /// For a world of this description.
    pub fn resolve_for(&self, spec: &EnvSpec) -> Result<Resolved, ConfigError> {
        let mut resolved = self.layers(spec)?;
        let changes = Changes { set: &self.set, limits: &self.limits, seed: self.seed, steps: self.steps };
        resolved.apply(&changes, self.shared)?;
        resolved.check(spec, self.shared)?;
        Ok(resolved)
    }

    /// Base values and the preset's layers, with the limits that the task proposes.
    pub(super) fn layers(&self, spec: &EnvSpec) -> Result<Resolved, ConfigError> {
        let preset = Preset::named(&self.preset)?;
        let mut config = Config { preset: self.preset.clone(), ..Config::base(&spec.name, self.method) };
        config.limits = spec.costs.iter().map(|c| (c.name.clone(), c.limit)).collect();
        let mut origins = BTreeMap::new();
        let asked = self.asked_steps(&config);
        for layer in &preset.layers {
            if !layer.is_for(&spec.name, self.method, asked.unwrap_or(config.run.steps)) {
                continue;
            }
            for (key, value) in &layer.set {
                match config.find(key) {
                    Ok(field) => config.assign(key, field, &layer.value(value, spec))?,
                    // A layer may speak of settings that only some of its algorithms have.
                    Err(ConfigError::OfAnother { .. } | ConfigError::WithoutEffect { .. }) => continue,
                    Err(error) => return Err(error),
                }
                origins.insert(key.clone(), format!("{}: {}", self.preset, layer.name));
            }
        }
        Ok(Resolved { config, origins })
    }

    /// The steps that are asked for, if not the preset's. What is wrong with them is said when they are set.
    fn asked_steps(&self, config: &Config) -> Option<u64> {
        let set = self.set.iter().rfind(|text| text.split('=').next().is_some_and(|key| key.trim() == "run.steps"));
        let of_set = set.and_then(|assignment| {
            let mut config = config.clone();
            config.set(assignment).ok()?;
            Some(config.run.steps)
        });
        self.steps.or(of_set)
    }
}

/// The origin of a single change.
const SET: &str = "set";

/// Single changes.
struct Changes<'a> {
    set: &'a [String],
    limits: &'a [String],
    seed: Option<u64>,
    steps: Option<u64>,
}

impl Resolved {
    /// A complete configuration with single changes.
    pub fn change(
        config: Config,
        set: &[String],
        limits: &[String],
        seed: Option<u64>,
        steps: Option<u64>,
    ) -> Result<Resolved, Error> {
        let mut resolved = Resolved { config, origins: BTreeMap::new() };
        resolved.apply(&Changes { set, limits, seed, steps }, false)?;
        let config = &resolved.config;
        resolved.check(make_env(config.method(), &config.task, &config.env)?.spec(), false)?;
        Ok(resolved)
    }

    /// The base values of an algorithm with single changes, for no task in particular.
    pub fn base(method: Method, set: &[String]) -> Result<Resolved, ConfigError> {
        if let Some(text) = set.iter().find(|text| text.starts_with("env.") || text.starts_with("limits.")) {
            let key = text.split('=').next().unwrap_or_default().to_string();
            return Err(ConfigError::NoSuchSetting { key, hint: " without a task".into() });
        }
        let mut resolved = Resolved { config: Config::base("", method), origins: BTreeMap::new() };
        resolved.apply(&Changes { set, limits: &[], seed: None, steps: None }, false)?;
        resolved.config.check_values()?;
        Ok(resolved)
    }

    /// Whether the configuration makes sense, and whether the changes do: those of single settings must have an effect, but
    /// `shared` ones only where they can.
    fn check(&self, spec: &EnvSpec, shared: bool) -> Result<(), ConfigError> {
        let Resolved { config, origins } = self;
        for cost in origins.keys().filter_map(|key| key.strip_prefix("limits.")) {
            known_cost(spec, cost)?;
        }
        config.check(spec)?;
        let is_set = |key: &str| origins.get(key).is_some_and(|origin| origin == SET);
        if !shared && is_set("net.bptt") && !config.net.is_recurrent() {
            return Err(ConfigError::WithoutMemory);
        }
        let of_all = if config.agents == Agents::Centralised { spec.agents } else { 1 };
        let batch = config.rollout.batch;
        for (key, minibatch, rows) in [
            ("policy.minibatch", config.policy.minibatch, batch * of_all),
            ("critic.minibatch", config.critic.minibatch, batch),
        ] {
            if is_set(key) && minibatch > rows {
                return Err(ConfigError::Minibatch { key: key.into(), minibatch, rows });
            }
        }
        let own = |name: &str| format!("{}.{name}", config.algorithm());
        match &config.own {
            algo::Settings::P3o(p3o)
                if ["kappa", "kappa_growth", "kappa_max"].iter().any(|name| is_set(&own(name)))
                    && p3o.kappa_growth > 1.0
                    && p3o.kappa > p3o.kappa_max =>
            {
                Err(ConfigError::Shrinks { kappa: p3o.kappa, kappa_max: p3o.kappa_max })
            }
            _ => Ok(()),
        }
    }

    fn apply(&mut self, changes: &Changes, shared: bool) -> Result<(), ConfigError> {
        let Resolved { config, origins } = self;
        one_limit_each(changes)?;
        for assignment in changes.set {
            match config.set(assignment) {
                Err(ConfigError::OfAnother { .. } | ConfigError::WithoutEffect { .. }) if shared => {}
                result => {
                    result?;
                    let key = assignment.split('=').next().unwrap_or_default().trim();
                    origins.insert(key.to_string(), SET.to_string());
                }
            }
        }
        for limit in changes.limits {
            let (cost, text) = limit.split_once('=').ok_or_else(|| ConfigError::NotALimit(limit.clone()))?;
            config.set_limit(cost.trim(), text.trim())?;
            origins.insert(format!("limits.{}", cost.trim()), SET.to_string());
        }
        let run = &mut config.run;
        for (key, wanted, value) in
            [("run.seed", changes.seed, &mut run.seed), ("run.steps", changes.steps, &mut run.steps)]
        {
            if let Some(wanted) = wanted {
                *value = wanted;
                origins.insert(key.to_string(), SET.to_string());
            }
        }
        Ok(())
    }
}

/// Where a later setting replaces an earlier one, two limits on one cost are a mistake.
fn one_limit_each(changes: &Changes) -> Result<(), ConfigError> {
    let of_set = changes.set.iter().filter_map(|text| text.trim().strip_prefix("limits."));
    let mut costs: Vec<&str> = Vec::new();
    for text in of_set.chain(changes.limits.iter().map(String::as_str)) {
        let cost = text.split('=').next().unwrap_or_default().trim();
        if costs.contains(&cost) {
            return Err(ConfigError::LimitTwice(cost.to_string()));
        }
        costs.push(cost);
    }
    Ok(())
}

/// A task as a method sees it: several agents side by side if it is for them, steered by one joint action if not.
pub fn make_env(method: Method, task: &str, options: &BTreeMap<String, f64>) -> Result<Box<dyn Env>, TaskError> {
    match method.agents {
        Agents::Single => tasks::make(task, options),
        Agents::Centralised | Agents::Decentralised => tasks::make_team(task, options),
    }
}
