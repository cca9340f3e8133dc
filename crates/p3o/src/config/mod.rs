//! Everything that decides a run's numbers, in one value.
//!
//! A [`Config`] is made from a [`Request`]: the base values that stand beside each setting, the layers of a preset
//! (`presets/*.toml`) and single changes by [`Config::set`], checked as a whole by [`Config::check`]. Written as TOML it is
//! complete: loading it gives the same run. The file carries the version of its format; older versions are brought up to
//! date by `upgrade.rs`.

mod difference;
mod file;
mod presets;
mod reference;
mod request;
pub mod schema;
mod sections;
mod upgrade;

pub use file::VERSION;
pub use presets::{Layer, PRESETS, Preset};
pub use reference::reference;
pub use request::{Request, Resolved, make_env};
pub use schema::{Field, Needs, Section, Takes, count, known};
pub use sections::{Activation, Constraint, Critic, Decay, Init, Net, Policy, Rollout, Run, Sum, Target, Team};

use crate::algo::{self, Algorithm, Constraints, Order};
use crate::error::{ConfigError, suggest};
use p3o_env::EnvSpec;
use schema::words;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Value;

/// Parameters of a network, about. Training keeps four numbers for each, in the actor and every critic.
const LARGEST_NETWORK: f64 = 1e8;

words! {
    /// Which policies act for the agents of a world.
    Agents {
        /// One policy for the whole world; where it has several agents, it chooses for all of them at once.
        Single = "single",
        /// Every agent acts by its own observation with one shared policy; critics see all agents (Algorithm 4).
        Centralised = "centralised",
        /// Every agent has a policy and critics of its own, which see its own observation (Algorithm 3).
        Decentralised = "decentralised",
    }
}

/// An algorithm and how it is applied to the agents of a world. Its name puts `ma` before the algorithm's for several
/// agents and `-dec` behind it where each has networks of its own: `map3o`, `map3o-dec`, `mappo-lag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Method {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// How the agents share its networks.
    pub agents: Agents,
}

impl Method {
    /// All there are: every algorithm for one agent, then those for several.
    pub fn all() -> Vec<Method> {
        let mut all: Vec<Method> = Algorithm::ALL.iter().map(|&a| Method::from(a)).collect();
        for &algorithm in Algorithm::ALL.iter().filter(|a| a.info().several_agents()) {
            all.extend([Agents::Centralised, Agents::Decentralised].map(|agents| Method { algorithm, agents }));
        }
        all
    }

    /// The one of this name.
    pub fn named(name: &str) -> Result<Method, ConfigError> {
        let all: Vec<(String, Method)> = Method::all().into_iter().map(|method| (method.to_string(), method)).collect();
        known("algorithm", name, all.iter().map(|(name, _)| name.as_str()))?;
        Ok(all.into_iter().find(|(known, _)| known == name).expect("it is known").1)
    }
}

impl From<Algorithm> for Method {
    fn from(algorithm: Algorithm) -> Method {
        Method { algorithm, agents: Agents::Single }
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.algorithm.info().name;
        f.pad(&match self.agents {
            Agents::Single => name.to_string(),
            Agents::Centralised => format!("ma{name}"),
            Agents::Decentralised => format!("ma{name}-dec"),
        })
    }
}

/// A setting of a run with its value.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The section it stands in.
    pub section: &'static str,
    /// What it is.
    pub field: &'static Field,
    /// Its value.
    pub value: Value,
}

impl Setting {
    /// Its full name: `p3o.kappa`.
    pub fn key(&self) -> String {
        format!("{}.{}", self.section, self.field.name)
    }
}

/// All settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Which world.
    pub task: String,
    /// The preset that the other values started from.
    pub preset: String,
    /// How the agents share networks.
    pub agents: Agents,
    /// Options of the task.
    pub env: BTreeMap<String, f64>,
    /// Limit on each cost, summed over an episode; a cost without one is measured but not constrained.
    pub limits: BTreeMap<String, f64>,
    /// Seed, length, checkpoints.
    pub run: Run,
    /// How experience is gathered.
    pub rollout: Rollout,
    /// The networks.
    pub net: Net,
    /// The policy's update: what all algorithms share.
    pub policy: Policy,
    /// How a cost is held against its limit.
    pub constraint: Constraint,
    /// The algorithm with its own settings.
    pub own: algo::Settings,
    /// The critics' update.
    pub critic: Critic,
}

impl Config {
    /// The base values for a task.
    pub fn base(task: &str, method: Method) -> Config {
        Config {
            task: task.to_string(),
            preset: presets::BASE.to_string(),
            agents: method.agents,
            env: BTreeMap::new(),
            limits: BTreeMap::new(),
            run: Run::default(),
            rollout: Rollout::default(),
            net: Net::default(),
            policy: Policy::default(),
            constraint: Constraint::default(),
            own: method.algorithm.settings(),
            critic: Critic::default(),
        }
    }

    /// A preset for a world. Costs get the limits that the task proposes.
    pub fn preset(name: &str, method: impl Into<Method>, spec: &EnvSpec) -> Result<Config, ConfigError> {
        let request = Request { preset: name.to_string(), ..Request::new(&spec.name, method.into()) };
        Ok(request.layers(spec)?.config)
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.own.algorithm()
    }

    /// The algorithm and how it is applied to several agents.
    pub fn method(&self) -> Method {
        Method { algorithm: self.algorithm(), agents: self.agents }
    }

    /// All sections by name.
    pub fn sections(&self) -> [(&'static str, &dyn Section); 7] {
        let own = self.algorithm().info().name;
        [
            ("run", &self.run),
            ("rollout", &self.rollout),
            ("net", &self.net),
            ("policy", &self.policy),
            ("constraint", &self.constraint),
            (own, self.own.section()),
            ("critic", &self.critic),
        ]
    }

    fn section_mut(&mut self, name: &str) -> Option<&mut dyn Section> {
        Some(match name {
            "run" => &mut self.run,
            "rollout" => &mut self.rollout,
            "net" => &mut self.net,
            "policy" => &mut self.policy,
            "constraint" => &mut self.constraint,
            "critic" => &mut self.critic,
            name if name == self.algorithm().info().name => self.own.section_mut(),
            _ => return None,
        })
    }

    /// Every setting that this run's algorithm has.
    pub fn settings(&self) -> Vec<Setting> {
        let info = self.algorithm().info();
        let of = |(name, section): (&'static str, &dyn Section)| {
            let fields = section.fields().iter().filter(|field| field.needs.met_by(info));
            let value = |field: &Field| section.get(field.name).expect("a section has its own fields");
            fields.map(|field| Setting { section: name, field, value: value(field) }).collect::<Vec<_>>()
        };
        self.sections().into_iter().flat_map(of).collect()
    }

    /// The limit of each of a world's costs, in the world's order; infinite where there is none.
    pub fn limits_of(&self, spec: &EnvSpec) -> Vec<f64> {
        spec.costs.iter().map(|cost| self.limits.get(&cost.name).copied().unwrap_or(f64::INFINITY)).collect()
    }

    /// What differs from the base values, as assignments. Task, algorithm, options and limits are not among them.
    pub fn differences(&self) -> Vec<String> {
        let base = Config::base(&self.task, self.method()).settings();
        let own = self.settings().into_iter().zip(base).filter(|(own, base)| own.value != base.value);
        own.map(|(own, _)| format!("{}={}", own.key(), plain(&own.value))).collect()
    }

    /// Changes one value: `p3o.kappa=10`, `net.hidden=[128,128]`, `env.level=2`, `limits.hazards=30`.
    pub fn set(&mut self, assignment: &str) -> Result<(), ConfigError> {
        let (key, text) =
            assignment.split_once('=').ok_or_else(|| ConfigError::NotAnAssignment(assignment.to_string()))?;
        let (key, text) = (key.trim(), text.trim());
        match key.split_once('.') {
            Some(("env", option)) if !option.is_empty() => {
                let value = task_option(&self.task, option, text)?;
                self.env.insert(option.to_string(), value);
                Ok(())
            }
            Some(("limits", cost)) if !cost.is_empty() => self.set_limit(cost, text),
            _ => {
                let field = self.find(key)?;
                self.assign(key, field, &field.takes.parse(key, text)?)
            }
        }
    }

    /// Changes one limit to a number, or to `none`.
    pub fn set_limit(&mut self, cost: &str, text: &str) -> Result<(), ConfigError> {
        if text == "none" {
            self.limits.remove(cost);
            return Ok(());
        }
        let wrong = || ConfigError::WrongKind {
            key: format!("limits.{cost}"),
            takes: "a finite number or none".into(),
            given: text.into(),
        };
        self.limits.insert(cost.to_string(), schema::number(text).ok_or_else(wrong)?);
        Ok(())
    }

    /// The setting at a key, if this run's algorithm has it.
    fn find(&self, key: &str) -> Result<&'static Field, ConfigError> {
        let algorithm = self.algorithm();
        if matches!(key, "task" | "preset" | "algo" | "agents" | "version") {
            return Err(ConfigError::Chosen(key.to_string()));
        }
        let (section, name) = key.split_once('.').unwrap_or(("", key));
        let field = |(_, s): &(&str, &dyn Section)| s.fields().iter().find(|field| field.name == name);
        let all = self.sections();
        if let Some(field) = all.iter().find(|(known, _)| *known == section).and_then(field) {
            return match field.needs.met_by(algorithm.info()) {
                true => Ok(field),
                false => Err(ConfigError::WithoutEffect { key: key.into(), algorithm, needs: field.needs }),
            };
        }
        let owner = Algorithm::ALL.iter().find(|a| a.info().name == section);
        let is_theirs = |a: &&Algorithm| a.settings().section().fields().iter().any(|f| f.name == name);
        if let Some(owner) = owner.filter(is_theirs) {
            return Err(ConfigError::OfAnother { key: key.into(), owner: *owner, algorithm });
        }
        if all.iter().any(|(known, _)| *known == key) || matches!(key, "env" | "limits") {
            return Err(ConfigError::IsSection(key.to_string()));
        }
        Err(ConfigError::NoSuchSetting { key: key.into(), hint: self.hint(key, section, name) })
    }

    /// The setting that was likely meant: the same name in some section, or a similar one.
    fn hint(&self, key: &str, section: &str, name: &str) -> String {
        let keys: Vec<String> = self.settings().iter().map(Setting::key).collect();
        let same = keys.iter().find(|k| k.split_once('.').is_some_and(|(_, n)| n == name));
        let here = keys.iter().filter(|k| k.split_once('.').is_some_and(|(s, _)| s == section));
        let renamed = upgrade::RENAMED.iter().find(|(old, _)| *old == key);
        match same {
            _ if renamed.is_some() => renamed.map_or(String::new(), |(_, new)| format!("; it is `{new}` now")),
            Some(same) => format!("; did you mean `{same}`?"),
            None if section.is_empty() => {
                // Only names are compared, and the nearest one is proposed with its section.
                let bare = |k: &'_ String| k.split_once('.').map_or(String::new(), |(_, n)| n.to_string());
                let names: Vec<String> = keys.iter().map(bare).collect();
                let hint = suggest(name, names.iter().map(String::as_str));
                let near = names.iter().position(|n| hint.contains(&format!("`{n}`")));
                near.map_or(String::new(), |i| format!("; did you mean `{}`?", keys[i]))
            }
            None if here.clone().next().is_some() => suggest(key, here.map(String::as_str)),
            None => suggest(key, keys.iter().map(String::as_str)),
        }
    }

    /// Puts a value of the right kind, in range or not, where its field is.
    fn assign(&mut self, key: &str, field: &Field, value: &Value) -> Result<(), ConfigError> {
        if matches!(field.takes, Takes::Words(_)) {
            field.takes.check(key, value)?;
        }
        let (section, name) = key.split_once('.').expect("the field has been found under this key");
        let wrong =
            || ConfigError::WrongKind { key: key.into(), takes: field.takes.to_string(), given: value.to_string() };
        let section = self.section_mut(section).expect("the field has been found in this section");
        if section.set(name, value) { Ok(()) } else { Err(wrong()) }
    }

    /// Whether every value makes sense, alone and together with the world.
    pub fn check(&self, spec: &EnvSpec) -> Result<(), ConfigError> {
        for (name, limit) in &self.limits {
            known_cost(spec, name)?;
            Takes::Number(0.0, f64::INFINITY).check(&format!("limits.{name}"), &Value::Float(*limit))?;
        }
        self.check_values()?;
        let Rollout { envs, batch, .. } = self.rollout;
        if batch < envs || !batch.is_multiple_of(envs) {
            return Err(ConfigError::BatchOfEnvs { batch, envs });
        }
        self.check_networks(spec)?;
        self.check_algorithm(spec)
    }

    /// Whether every value makes sense alone.
    fn check_values(&self) -> Result<(), ConfigError> {
        for setting in self.settings() {
            setting.field.takes.check(&setting.key(), &setting.value)?;
        }
        for (key, value) in [("run.seed", self.run.seed), ("run.steps", self.run.steps)] {
            if i64::try_from(value).is_err() {
                let (takes, given) = (format!("a whole number up to {}", i64::MAX), value.to_string());
                return Err(ConfigError::OutOfRange { key: key.into(), takes, given });
            }
        }
        Ok(())
    }

    fn check_networks(&self, spec: &EnvSpec) -> Result<(), ConfigError> {
        let parameters = self.net.parameters(spec.obs_dim, spec.action.outputs());
        if parameters > LARGEST_NETWORK {
            return Err(ConfigError::TooLarge { parameters, most: LARGEST_NETWORK });
        }
        if !self.net.is_recurrent() {
            return Ok(());
        }
        if spec.obs_dim / spec.agents < 2 {
            return Err(ConfigError::NothingToNormalize { task: spec.name.clone() });
        }
        if self.net.hidden.iter().chain([&self.net.gru]).any(|&width| width < 2) {
            return Err(ConfigError::TooNarrow);
        }
        let (steps, bptt) = (self.env_steps(), self.net.bptt);
        if !steps.is_multiple_of(bptt) {
            return Err(ConfigError::Sequences { bptt, steps });
        }
        Ok(())
    }

    /// Whether the algorithm can do what it is asked for.
    fn check_algorithm(&self, spec: &EnvSpec) -> Result<(), ConfigError> {
        let (method, info) = (self.method(), self.algorithm().info());
        if self.agents != Agents::Single && spec.agents == 1 {
            return Err(ConfigError::OneAgent { method, task: spec.name.clone() });
        }
        if self.agents == Agents::Single && spec.agents > 1 {
            return Err(ConfigError::SeveralAgents { method, task: spec.name.clone(), agents: spec.agents });
        }
        if info.constraints == Constraints::One && self.limits.len() > 1 {
            return Err(ConfigError::OneLimit { method, costs: self.limits.keys().cloned().collect() });
        }
        if self.net.is_recurrent() && info.order == Order::Second {
            return Err(ConfigError::SecondOrderRecurrent { method });
        }
        Ok(())
    }

    /// The agents that share an actor and critics: all, or each on its own.
    pub fn groups(&self, spec: &EnvSpec) -> Vec<Range<usize>> {
        match self.agents {
            Agents::Decentralised => (0..spec.agents).map(|agent| agent..agent + 1).collect(),
            Agents::Single | Agents::Centralised => std::iter::once(0..spec.agents).collect(),
        }
    }

    /// Updates that make up the run.
    pub fn updates(&self) -> u64 {
        self.run.steps.div_ceil(self.rollout.batch as u64)
    }

    /// Steps that one environment makes per update.
    pub fn env_steps(&self) -> usize {
        self.rollout.batch / self.rollout.envs
    }
}

impl Net {
    /// Whether the networks have a state that goes from step to step.
    pub fn is_recurrent(&self) -> bool {
        self.gru > 0
    }

    /// The widths of its layers, such as 60-64-64-2, with the recurrent one as gru64.
    pub fn widths(&self, inputs: usize, outputs: &str) -> String {
        let gru = self.is_recurrent().then(|| format!("gru{}", self.gru));
        let before = std::iter::once(inputs).chain(self.hidden.iter().copied()).map(|n| n.to_string());
        before.chain(gru).chain([outputs.to_string()]).collect::<Vec<_>>().join("-")
    }

    /// Parameters of a network with so many inputs and outputs; floating-point, because there may be any number of them.
    pub fn parameters(&self, inputs: usize, outputs: usize) -> f64 {
        let widths: Vec<f64> = std::iter::once(&inputs).chain(&self.hidden).map(|&n| n as f64).collect();
        let dense: f64 = widths.windows(2).map(|w| (w[0] + 1.0) * w[1]).sum();
        let (last, units, outputs) = (widths[widths.len() - 1], self.gru as f64, outputs as f64);
        if !self.is_recurrent() {
            return dense + (last + 1.0) * outputs;
        }
        let gates = 3.0 * units * (last + units + 2.0);
        let norms = 2.0 * (widths.iter().sum::<f64>() + units);
        dense + gates + norms + (units + 1.0) * outputs
    }
}

/// Whether a world has a cost of this name.
fn known_cost(spec: &EnvSpec, name: &str) -> Result<(), ConfigError> {
    if spec.costs.is_empty() {
        return Err(ConfigError::NoCosts { task: spec.name.clone(), cost: name.to_string() });
    }
    known("cost", name, spec.costs.iter().map(|c| c.name.as_str()))
}

/// A value as it is written on a command line.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(word) => word.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(",")),
        Value::Float(x) => x.to_string(),
        other => other.to_string(),
    }
}

/// The options of a task among some assignments: they decide what the world shows and costs.
pub fn task_options(task: &str, assignments: &[String]) -> Result<BTreeMap<String, f64>, ConfigError> {
    let options = assignments.iter().filter_map(|text| text.trim().strip_prefix("env.")?.split_once('='));
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
        _ => schema::number(text).ok_or_else(|| ConfigError::WrongKind {
            key,
            takes: "a finite number".into(),
            given: text.into(),
        }),
    }
}
