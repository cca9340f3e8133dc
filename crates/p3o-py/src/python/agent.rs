//! Policies that act for Python.

use super::errors::exception;
use super::settings::{PySpec, parse};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use p3o::{Agent, Learner};
use p3o_env::{Actuation, EnvSpec, Stepper, VectorEnv, VectorStep, WorldError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A policy.
#[pyclass(frozen, name = "Agent", module = "p3o._p3o")]
pub struct PyAgent {
    agent: Agent,
    noise: Mutex<ChaCha8Rng>,
}

/// Rows of numbers for Python.
type Rows<'py> = Bound<'py, PyArray2<f32>>;

#[pymethods]
impl PyAgent {
    /// The policy of a run's folder or of a single checkpoint; `seed` decides the actions that are drawn.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, seed: u64) -> PyResult<PyAgent> {
        let agent = py.detach(|| Agent::load(&path)).map_err(exception)?;
        Ok(PyAgent { agent, noise: Mutex::new(ChaCha8Rng::seed_from_u64(seed)) })
    }

    /// The policy with which a run of these settings in such worlds begins.
    #[staticmethod]
    fn untrained(py: Python<'_>, config: &str, spec: &PySpec, seed: u64) -> PyResult<PyAgent> {
        let config = parse(config)?;
        let count = config.rollout.envs;
        let worlds = still(spec.spec.clone(), spec.actuation.clone(), count);
        let agent = py.detach(|| Ok(Learner::with_worlds(config, worlds)?.agent())).map_err(exception)?;
        Ok(PyAgent { agent, noise: Mutex::new(ChaCha8Rng::seed_from_u64(seed)) })
    }

    /// What its world looks like.
    #[getter]
    fn spec(&self) -> PySpec {
        PySpec { spec: self.agent.spec().clone(), actuation: self.agent.actuation().cloned() }
    }

    /// The name of the way in which it was trained.
    #[getter]
    fn method(&self) -> String {
        self.agent.config().method().to_string()
    }

    /// Its limits by the names of the costs; none where there was none.
    #[getter]
    fn limits(&self) -> Vec<(String, Option<f64>)> {
        let costs = self.agent.spec().costs.iter().zip(self.agent.limits());
        costs.map(|(cost, limit)| (cost.name.clone(), limit.is_finite().then_some(limit))).collect()
    }

    /// Environment steps that it was trained for.
    #[getter]
    fn steps(&self) -> u64 {
        self.agent.trained_steps()
    }

    /// Numbers in the state of a recurrent policy, of all agents together; 0 for a feed-forward one.
    #[getter]
    fn state_width(&self) -> usize {
        self.agent.start(1).states().len()
    }

    /// The actions for some observations, a row for each, and the next states: those of recurrent policies, of zero where an
    /// episode starts. Actions are in the world's own units, discrete ones are counted from 0.
    #[pyo3(signature = (obs, states, deterministic))]
    fn act<'py>(
        &self,
        py: Python<'py>,
        obs: PyReadonlyArray2<'py, f32>,
        states: Option<PyReadonlyArray2<'py, f32>>,
        deterministic: bool,
    ) -> PyResult<(Rows<'py>, Rows<'py>)> {
        let spec = self.agent.spec();
        let (n, dim) = obs.as_array().dim();
        if dim != spec.obs_dim {
            let line = format!("{} shows observations of {} numbers, not {dim}", spec.name, spec.obs_dim);
            return Err(PyValueError::new_err(line));
        }
        let rows: Vec<f32> = obs.as_array().iter().copied().collect();
        if let Some(i) = rows.iter().position(|x| !x.is_finite()) {
            return Err(PyValueError::new_err(format!("number {} of the observation is {}", i % dim, rows[i])));
        }
        let mut state = self.agent.start(n);
        if let Some(states) = states {
            let given: Vec<f32> = states.as_array().iter().copied().collect();
            if given.len() != state.states().len() {
                let wanted = state.states().len() / n.max(1);
                return Err(PyValueError::new_err(format!("a state is {wanted} numbers for each of {n} observations")));
            }
            state.states_mut().copy_from_slice(&given);
        }
        let mut actions = vec![0.0; n * spec.action_width()];
        py.detach(|| {
            let mut noise: Option<Vec<ChaCha8Rng>> = (!deterministic).then(|| self.streams(n));
            self.agent.act(&rows, &mut state, noise.as_deref_mut(), &mut actions);
            self.agent.actuate(&mut actions);
        });
        let table = |numbers: Vec<f32>| {
            let width = numbers.len() / n.max(1);
            PyArray1::from_vec(py, numbers).reshape([n, width])
        };
        Ok((table(actions)?, table(state.states().to_vec())?))
    }
}

impl PyAgent {
    /// A stream of random numbers for each of `n` observations.
    fn streams(&self, n: usize) -> Vec<ChaCha8Rng> {
        let mut noise = self.noise.lock().unwrap_or_else(PoisonError::into_inner);
        (0..n).map(|_| ChaCha8Rng::seed_from_u64(noise.next_u64())).collect()
    }
}

/// Worlds that are never stepped, for a learner that never learns.
pub fn still(spec: EnvSpec, actuation: Option<Actuation>, count: usize) -> Box<dyn VectorEnv> {
    Box::new(Still { spec, actuation, count })
}

/// See [`still`].
struct Still {
    spec: EnvSpec,
    actuation: Option<Actuation>,
    count: usize,
}

impl Stepper for Still {
    fn count(&self) -> usize {
        self.count
    }

    fn step(&mut self, _: &[f32], _: &mut dyn FnMut(usize) -> u64, _: &mut VectorStep) -> Result<(), WorldError> {
        Err(WorldError("there is no world".into()))
    }
}

impl VectorEnv for Still {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn actuation(&self) -> Option<&Actuation> {
        self.actuation.as_ref()
    }

    fn reset(&mut self, _: &[u64], obs: &mut [f32]) -> Result<(), WorldError> {
        obs.fill(0.0);
        Ok(())
    }
}
