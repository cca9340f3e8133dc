//! From what a user asks for to a configuration: base values, the preset's layers, single changes.

use super::{Agents, Config, Method, Preset, task_options};
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
        resolved.config.check(spec)?;
        Ok(resolved)
    }

    /// Base values and the preset's layers, with the limits that the task proposes.
    pub(super) fn layers(&self, spec: &EnvSpec) -> Result<Resolved, ConfigError> {
        let preset = Preset::named(&self.preset)?;
        let mut config = Config { preset: self.preset.clone(), ..Config::base(&spec.name, self.method) };
        config.limits = spec.costs.iter().map(|c| (c.name.clone(), c.limit)).collect();
        let mut origins = BTreeMap::new();
        for layer in preset.layers.iter().filter(|layer| layer.is_for(&spec.name, self.method)) {
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
}

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
        config.check(make_env(config.method(), &config.task, &config.env)?.spec())?;
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

    fn apply(&mut self, changes: &Changes, shared: bool) -> Result<(), ConfigError> {
        let Resolved { config, origins } = self;
        for assignment in changes.set {
            match config.set(assignment) {
                Err(ConfigError::OfAnother { .. } | ConfigError::WithoutEffect { .. }) if shared => {}
                result => {
                    result?;
                    let key = assignment.split('=').next().unwrap_or_default().trim();
                    origins.insert(key.to_string(), "set".to_string());
                }
            }
        }
        for limit in changes.limits {
            let (cost, text) = limit.split_once('=').ok_or_else(|| ConfigError::NotALimit(limit.clone()))?;
            config.set_limit(cost.trim(), text.trim())?;
            origins.insert(format!("limits.{}", cost.trim()), "set".to_string());
        }
        let run = &mut config.run;
        for (key, wanted, value) in
            [("run.seed", changes.seed, &mut run.seed), ("run.steps", changes.steps, &mut run.steps)]
        {
            if let Some(wanted) = wanted {
                *value = wanted;
                origins.insert(key.to_string(), "set".to_string());
            }
        }
        Ok(())
    }
}

/// A task as a method sees it: several agents side by side if it is for them, steered by one joint action if not.
pub fn make_env(method: Method, task: &str, options: &BTreeMap<String, f64>) -> Result<Box<dyn Env>, TaskError> {
    match method.agents {
        Agents::Single => tasks::make(task, options),
        Agents::Centralised | Agents::Decentralised => tasks::make_team(task, options),
    }
}
