//! From what a user of Python asks for to the settings of a run.

use super::errors::exception;
use super::tasks::{maker, options, refuse};
use p3o::algo::Constraints;
use p3o::{Agents, Config, Method, Request};
use p3o_env::{ActionSpace, Actuation, CostSpec, EnvSpec, tasks};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Every way to train: its name, a line about it, whether it is for several agents, and how many limits it keeps.
#[pyfunction]
pub fn methods(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let method = |method: Method| {
        let info = method.algorithm.info();
        let dict = PyDict::new(py);
        dict.set_item("name", method.to_string())?;
        dict.set_item("summary", info.summary)?;
        dict.set_item("agents", method.agents.word())?;
        let limits = match info.constraints {
            Constraints::None => "none",
            Constraints::One => "one",
            Constraints::Any => "any",
        };
        dict.set_item("limits", limits)?;
        let own = method.algorithm.settings();
        let own = own.section().fields().iter().map(|field| (field.name, field.doc.trim()));
        dict.set_item("settings", own.collect::<Vec<_>>())?;
        Ok(dict)
    };
    Method::all().into_iter().map(method).collect()
}

/// What a world looks like from outside.
#[pyclass(frozen, name = "Spec", module = "p3o._p3o")]
pub struct PySpec {
    pub spec: EnvSpec,
    pub actuation: Option<Actuation>,
}

#[pymethods]
impl PySpec {
    /// A world of Python. Costs are names with their limits, if they have any. Actions are continuous with `low` and
    /// `high`, or there are so many discrete ones as `sizes` say, a single one with `discrete`.
    #[new]
    #[pyo3(signature = (name, obs_dim, agents, horizon, costs, *, low=None, high=None, sizes=None, discrete=false))]
    #[expect(clippy::too_many_arguments, reason = "what a description consists of, by name")]
    fn new(
        name: String,
        obs_dim: usize,
        agents: usize,
        horizon: usize,
        costs: Vec<(String, Option<f64>)>,
        low: Option<Vec<f32>>,
        high: Option<Vec<f32>>,
        sizes: Option<Vec<usize>>,
        discrete: bool,
    ) -> PyResult<PySpec> {
        let cost = |(name, limit): (String, Option<f64>)| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            match !name.is_empty() && name.chars().all(plain) {
                true => Ok(CostSpec::new(&name, limit.unwrap_or(f64::INFINITY))),
                false => Err(PyValueError::new_err(format!(
                    "the name of a cost consists of letters, digits, `_`, `-` and `.`, unlike {name:?}"
                ))),
            }
        };
        let costs = costs.into_iter().map(cost).collect::<PyResult<_>>()?;
        let (action, actuation) = match (low, high, sizes) {
            (Some(low), Some(high), None) if low.len() == high.len() => {
                (ActionSpace::Continuous { dim: low.len() }, Some(Actuation::within(&low, &high)))
            }
            (None, None, Some(sizes)) if discrete && sizes.len() == 1 => (ActionSpace::Discrete { n: sizes[0] }, None),
            (None, None, Some(sizes)) => (ActionSpace::MultiDiscrete { sizes }, None),
            _ => return Err(PyValueError::new_err("actions have two bounds each, or sizes")),
        };
        if action.width() == 0 || action.heads().contains(&0) || obs_dim == 0 || agents == 0 || horizon == 0 {
            return Err(PyValueError::new_err(format!("{name} shows nothing or has no actions")));
        }
        Ok(PySpec { spec: EnvSpec { name, obs_dim, action, agents, costs, horizon }, actuation })
    }

    /// The world's name.
    #[getter]
    fn name(&self) -> &str {
        &self.spec.name
    }

    /// Length of an observation; for several agents, of all theirs one after another.
    #[getter]
    fn obs_dim(&self) -> usize {
        self.spec.obs_dim
    }

    /// How many agents act.
    #[getter]
    fn agents(&self) -> usize {
        self.spec.agents
    }

    /// How many numbers a continuous action of one agent has, or none.
    #[getter]
    fn continuous(&self) -> Option<usize> {
        if let ActionSpace::Continuous { dim } = self.spec.action { Some(dim) } else { None }
    }

    /// How many discrete actions of each kind one agent has; empty where actions are continuous.
    #[getter]
    fn heads(&self) -> Vec<usize> {
        self.spec.action.heads()
    }

    /// Whether the only discrete action is a number by itself and not a row of one.
    #[getter]
    fn discrete(&self) -> bool {
        matches!(self.spec.action, ActionSpace::Discrete { .. })
    }

    /// Names of the costs.
    #[getter]
    fn costs(&self) -> Vec<&str> {
        self.spec.costs.iter().map(|cost| cost.name.as_str()).collect()
    }

    /// The limits on the sum of each cost over an episode; infinity where there is none.
    #[getter]
    fn limits(&self) -> Vec<f64> {
        self.spec.costs.iter().map(|cost| cost.limit).collect()
    }
}

/// The description of a task of p3o with these options, as a method sees it.
#[pyfunction]
pub fn world_of(task: &str, given: &Bound<'_, PyDict>, method: &str) -> PyResult<PySpec> {
    let method = Method::named(method).map_err(|e| PyValueError::new_err(e.to_string()))?;
    tasks::find(task).map_err(refuse)?;
    let make = maker(task, options(task, given)?, method.agents != Agents::Single)?;
    Ok(PySpec { spec: make().spec().clone(), actuation: None })
}

/// A whole configuration as text (config.toml) for a world. `set` are names of settings with their values: a name without
/// a section is one of the method's own. `limits` are costs with theirs. Tasks of p3o take their options by `set` too.
#[pyfunction]
#[pyo3(signature = (spec, native, method, preset, set, limits, seed, steps=None))]
#[expect(clippy::too_many_arguments, reason = "what a request consists of, by name")]
pub fn configure(
    spec: &PySpec,
    native: bool,
    method: &str,
    preset: String,
    set: Vec<(String, String)>,
    limits: Vec<String>,
    seed: Option<u64>,
    steps: Option<u64>,
) -> PyResult<String> {
    let refuse = |e: p3o::ConfigError| PyValueError::new_err(e.to_string());
    let method = Method::named(method).map_err(refuse)?;
    let own = method.algorithm.settings();
    let key = |name: &str| match own.section().fields().iter().any(|field| field.name == name) {
        true => format!("{}.{name}", method.algorithm),
        false => name.to_string(),
    };
    let set = set.iter().map(|(name, value)| format!("{}={value}", key(name))).collect();
    let request = Request { preset, set, limits, seed, steps, ..Request::new(&spec.spec.name, method) };
    let resolved = match native {
        true => request.resolve().map_err(exception)?,
        false => request.resolve_for(&spec.spec).map_err(refuse)?,
    };
    Ok(resolved.config.to_toml())
}

/// A configuration from its text.
pub fn parse(text: &str) -> PyResult<Config> {
    Config::from_toml(text).map_err(|e| PyValueError::new_err(e.to_string()))
}
