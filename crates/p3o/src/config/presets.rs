//! Presets: layers of settings over the base values, as they stand in `presets/*.toml`.

use super::Method;
use super::schema::known;
use crate::error::ConfigError;
use p3o_env::EnvSpec;
use serde::Deserialize;
use toml::{Table, Value};

/// The preset that changes nothing.
pub(super) const BASE: &str = "base";

/// The presets by name, with their files.
pub const PRESETS: &[(&str, &str)] =
    &[("quick", include_str!("../../presets/quick.toml")), ("paper", include_str!("../../presets/paper.toml"))];

/// A preset as it stands in its file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// What it is for, in one line.
    pub about: String,
    /// Later ones over earlier ones.
    #[serde(rename = "layer")]
    pub layers: Vec<Layer>,
}

/// Settings for some tasks or algorithms.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// What a listing of settings calls it.
    pub name: String,
    /// The tasks it is for; all if there are none.
    #[serde(default)]
    pub tasks: Vec<String>,
    /// The algorithms it is for; all if there are none.
    #[serde(default)]
    pub algos: Vec<String>,
    /// How the agents share networks; any way if there is none.
    #[serde(default)]
    pub agents: Vec<String>,
    /// Runs of fewer steps go without it.
    #[serde(default)]
    pub from_steps: u64,
    /// The measurement that chose the values.
    pub why: String,
    /// Settings with their values. A count may be written in episodes: "30 episodes" are thirty times the time limit.
    pub set: Table,
}

impl Preset {
    /// The one of this name.
    pub fn named(name: &str) -> Result<Preset, ConfigError> {
        if name == BASE {
            return Ok(Preset { about: "the base values alone".into(), layers: Vec::new() });
        }
        known("preset", name, PRESETS.iter().map(|p| p.0))?;
        let (_, text) = PRESETS.iter().find(|p| p.0 == name).expect("it is known");
        Ok(toml::from_str(text).unwrap_or_else(|e| panic!("presets/{name}.toml: {e}")))
    }
}

impl Layer {
    /// Whether it is for this task, method and number of steps.
    pub(super) fn is_for(&self, task: &str, method: Method, steps: u64) -> bool {
        let named = |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
        steps >= self.from_steps
            && named(&self.tasks, task)
            && named(&self.algos, method.algorithm.info().name)
            && named(&self.agents, method.agents.word())
    }

    /// A value for this world.
    pub(super) fn value(&self, value: &Value, spec: &EnvSpec) -> Value {
        let episodes = value.as_str().and_then(|text| text.split_once(" episode")).and_then(|(n, _)| n.parse().ok());
        episodes.map_or_else(|| value.clone(), |n: i64| Value::Integer(n * spec.horizon as i64))
    }
}
