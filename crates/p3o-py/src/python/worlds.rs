//! Worlds that are stepped into numpy's arrays.

use super::settings::PySpec;
use super::tasks::{maker, options};
use crate::threads;
use crate::worlds::{Autoreset, Out, Worlds};
use numpy::{PyArray3, PyArrayMethods, PyReadonlyArray2, PyReadwriteArray1, PyReadwriteArray2};
use p3o_cli::Film;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Threads that step worlds: as many as there are cores, unless RAYON_NUM_THREADS says otherwise.
#[pyfunction(name = "threads")]
pub fn thread_count() -> PyResult<usize> {
    Ok(threads::pool().map_err(PyRuntimeError::new_err)?.current_num_threads())
}

/// Worlds of one task, stepped together on all cores while other Python threads run.
///
/// The classes of `p3o.envs` are what to use: they know what Gymnasium and PettingZoo expect.
#[pyclass(frozen, name = "Worlds", module = "p3o._p3o")]
pub struct PyWorlds {
    task: String,
    options: Py<PyDict>,
    autoreset: String,
    team: bool,
    spec: Py<PySpec>,
    count: usize,
    inner: Mutex<Inner>,
}

struct Inner {
    worlds: Worlds,
    /// The episode of each world so far, if they are to be drawn.
    films: Option<Vec<Film>>,
    actions: Vec<f32>,
}

#[pymethods]
impl PyWorlds {
    /// `count` worlds of a task with these options. `autoreset` is `disabled`, `next_step` or `same_step`; with `team`
    /// the agents of a task act side by side; with `film` every episode is recorded, to be drawn.
    #[new]
    #[pyo3(signature = (task, options, count, autoreset, team, film, entropy))]
    fn new(
        task: String,
        options: Bound<'_, PyDict>,
        count: usize,
        autoreset: String,
        team: bool,
        film: bool,
        entropy: u64,
    ) -> PyResult<PyWorlds> {
        if count == 0 {
            return Err(PyValueError::new_err("there must be at least one world"));
        }
        let mode = match autoreset.as_str() {
            "disabled" => Autoreset::Disabled,
            "next_step" => Autoreset::NextStep,
            "same_step" => Autoreset::SameStep,
            other => {
                let line =
                    format!("there is no autoreset mode {other:?}; the modes are disabled, next_step, same_step");
                return Err(PyValueError::new_err(line));
            }
        };
        let make = maker(&task, self::options(&task, &options)?, team)?;
        let worlds = Worlds::new(&make, count, mode, entropy);
        let spec = worlds.spec().clone();
        let films = film.then(|| (0..count).map(|i| Film::new(&spec, worlds.scene(i))).collect());
        let inner = Mutex::new(Inner { worlds, films, actions: Vec::new() });
        let spec = Py::new(options.py(), PySpec { spec, actuation: None })?;
        Ok(PyWorlds { task, options: options.unbind(), autoreset, team, spec, count, inner })
    }

    /// How many worlds there are.
    #[getter]
    fn count(&self) -> usize {
        self.count
    }

    /// What each of them looks like.
    #[getter]
    fn spec(&self, py: Python<'_>) -> Py<PySpec> {
        self.spec.clone_ref(py)
    }

    /// Begins episodes from these seeds, or from the next of its own where a world has none, and writes the first
    /// observations, a row per world. Worlds whose `chosen` is false go on, and their rows stay as they are.
    #[pyo3(signature = (seeds, obs, chosen=None))]
    fn reset(
        &self,
        py: Python<'_>,
        seeds: Vec<Option<u64>>,
        mut obs: PyReadwriteArray2<f32>,
        chosen: Option<Vec<bool>>,
    ) -> PyResult<()> {
        if seeds.len() != self.count || chosen.as_ref().is_some_and(|chosen| chosen.len() != self.count) {
            let line = format!("{} takes a seed for each of {} worlds, not {}", self.task, self.count, seeds.len());
            return Err(PyValueError::new_err(line));
        }
        let obs = row_slice(&mut obs, self.count, self.spec.get().spec.obs_dim)?;
        let mut inner = self.lock()?;
        let (inner, dim) = (&mut *inner, self.spec.get().spec.obs_dim);
        py.detach(|| {
            for i in (0..self.count).filter(|i| chosen.as_ref().is_none_or(|chosen| chosen[*i])) {
                inner.worlds.reset(i, seeds[i], &mut obs[i * dim..][..dim]);
                inner.begin_film(i);
            }
        });
        Ok(())
    }

    /// Advances every world by its action and writes what followed, a row per world. A row of `costs` is their sum and
    /// then each. `last_obs` receives the last observations of episodes that ended in this step, and has no rows unless
    /// the mode is `same_step`.
    #[expect(clippy::too_many_arguments, reason = "an array for each thing that a step gives")]
    fn step(
        &self,
        py: Python<'_>,
        actions: PyReadonlyArray2<f32>,
        mut obs: PyReadwriteArray2<f32>,
        mut rewards: PyReadwriteArray1<f64>,
        mut terminated: PyReadwriteArray1<bool>,
        mut truncated: PyReadwriteArray1<bool>,
        mut costs: PyReadwriteArray2<f64>,
        mut last_obs: PyReadwriteArray2<f32>,
    ) -> PyResult<()> {
        let spec = &self.spec.get().spec;
        let (n, dim, kinds, width) = (self.count, spec.obs_dim, spec.costs.len(), spec.action_width());
        let shape = actions.as_array().dim();
        if shape != (n, width) {
            let line = format!("{} takes actions of shape ({n}, {width}), not {shape:?}", self.task);
            return Err(PyValueError::new_err(line));
        }
        let lasts = if self.autoreset == "same_step" { n } else { 0 };
        let out = Out {
            obs: row_slice(&mut obs, n, dim)?,
            rewards: slice(&mut rewards, n)?,
            terminated: slice(&mut terminated, n)?,
            truncated: slice(&mut truncated, n)?,
            costs: row_slice(&mut costs, n, kinds + 1)?,
            last_obs: row_slice(&mut last_obs, lasts, dim)?,
        };
        let mut inner = self.lock()?;
        let inner = &mut *inner;
        inner.actions.clear();
        // A copy: while the worlds step, the array may change.
        match actions.as_slice() {
            Ok(slice) => inner.actions.extend_from_slice(slice),
            Err(_) => inner.actions.extend(actions.as_array().iter()),
        }
        inner.worlds.check(&inner.actions).map_err(PyValueError::new_err)?;
        if let Some(i) = inner.worlds.waiting() {
            let which = if n == 1 { String::new() } else { format!(" of world {i}") };
            let line = format!("{}: the episode{which} has not begun or has ended; call reset() first", self.task);
            return Err(PyRuntimeError::new_err(line));
        }
        py.detach(|| inner.step(n, out)).map_err(PyRuntimeError::new_err)
    }

    /// What world `i` looks like, as an array of rows of red, green and blue, `size` pixels wide.
    fn draw<'py>(&self, py: Python<'py>, i: usize, size: u32) -> PyResult<Bound<'py, PyArray3<u8>>> {
        if !(320..=4000).contains(&size) {
            return Err(PyValueError::new_err(format!("a picture is 320 to 4000 pixels wide, not {size}")));
        }
        let inner = self.lock()?;
        let film = inner.films.as_ref().and_then(|films| films.get(i));
        let film = film.ok_or_else(|| PyRuntimeError::new_err("these worlds were not made to be drawn"))?;
        let picture = py.detach(|| film.picture(size));
        numpy::PyArray1::from_vec(py, picture.rgb).reshape([picture.height, picture.width, 3])
    }

    fn __getnewargs__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let film = self.lock()?.films.is_some();
        let options = self.options.bind(py);
        (&self.task, options, self.count, &self.autoreset, self.team, film, 0).into_pyobject(py)
    }

    /// All that changes while the worlds run, but for films.
    fn __getstate__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let frozen = self.lock()?.worlds.snapshot();
        let none = || PyRuntimeError::new_err(format!("{} cannot be frozen", self.task));
        Ok(PyBytes::new(py, &frozen.ok_or_else(none)?))
    }

    /// Goes on from what `__getstate__` gave; films begin here.
    fn __setstate__(&self, state: &[u8]) -> PyResult<()> {
        let mut inner = self.lock()?;
        inner.worlds.restore(state).map_err(|e| PyValueError::new_err(e.to_string()))?;
        (0..self.count).for_each(|i| inner.begin_film(i));
        Ok(())
    }
}

impl PyWorlds {
    fn lock(&self) -> PyResult<MutexGuard<'_, Inner>> {
        self.inner.try_lock().map_err(|e| {
            PyRuntimeError::new_err(match e {
                TryLockError::WouldBlock => "another thread is using these worlds",
                TryLockError::Poisoned(_) => "these worlds have failed before",
            })
        })
    }
}

impl Inner {
    fn step(&mut self, n: usize, mut out: Out) -> Result<(), String> {
        let Inner { worlds, films, actions } = self;
        let begins: Vec<bool> = films.iter().flat_map(|_| 0..n).map(|i| worlds.ended(i)).collect();
        if n == 1 {
            worlds.step(actions, out.again());
        } else {
            threads::pool()?.install(|| worlds.step(actions, out.again()));
        }
        let kinds = worlds.spec().costs.len();
        let same_step = worlds.autoreset() == Autoreset::SameStep;
        for (i, film) in films.iter_mut().flatten().enumerate() {
            if begins[i] || same_step && (out.terminated[i] || out.truncated[i]) {
                *film = Film::new(worlds.spec(), worlds.scene(i));
            } else {
                let costs: Vec<f32> =
                    out.costs[i * (kinds + 1) + 1..][..kinds].iter().map(|cost| *cost as f32).collect();
                film.add(worlds.scene(i), out.rewards[i] as f32, &costs);
            }
        }
        Ok(())
    }

    /// Films world `i` from here on.
    fn begin_film(&mut self, i: usize) {
        if let Some(films) = &mut self.films {
            films[i] = Film::new(self.worlds.spec(), self.worlds.scene(i));
        }
    }
}

/// An array of rows that has this shape and lies in memory row by row.
fn row_slice<'a, T: numpy::Element>(
    array: &'a mut PyReadwriteArray2<T>,
    rows: usize,
    columns: usize,
) -> PyResult<&'a mut [T]> {
    let shape = array.as_array().dim();
    if shape.0 != rows || shape.1 != columns && rows > 0 {
        return Err(PyValueError::new_err(format!("an array of shape ({rows}, {columns}) is needed, not {shape:?}")));
    }
    Ok(array.as_slice_mut()?)
}

/// An array of this length.
fn slice<'a, T: numpy::Element>(array: &'a mut PyReadwriteArray1<T>, length: usize) -> PyResult<&'a mut [T]> {
    let found = array.as_array().dim();
    if found != length {
        return Err(PyValueError::new_err(format!("an array of length {length} is needed, not {found}")));
    }
    Ok(array.as_slice_mut()?)
}
