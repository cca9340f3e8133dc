//! Runs in their folders, as Python reads them.

use super::errors::exception;
use super::settings::parse;
use numpy::PyArray1;
use p3o::{Error, RunFolder};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use toml::Value;

/// A run read and checked: its task, method, seed, steps, settings, limits, progress and summary.
#[pyfunction]
pub fn read_run(py: Python<'_>, folder: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let run = py.detach(|| RunFolder::open(&folder)).map_err(exception)?;
    let config = &run.config;
    let dict = PyDict::new(py);
    dict.set_item("task", &config.task)?;
    dict.set_item("method", config.method().to_string())?;
    dict.set_item("seed", config.run.seed)?;
    dict.set_item("steps", run.steps())?;
    dict.set_item("planned", config.run.steps)?;
    let settings = PyDict::new(py);
    for setting in config.settings() {
        settings.set_item(setting.key(), native(py, &setting.value)?)?;
    }
    config.env.iter().try_for_each(|(name, value)| settings.set_item(format!("env.{name}"), value))?;
    dict.set_item("settings", settings)?;
    let limits = PyDict::new(py);
    for (cost, limit) in run.spec.costs.iter().zip(config.limits_of(&run.spec)) {
        limits.set_item(&cost.name, limit.is_finite().then_some(limit))?;
    }
    dict.set_item("limits", limits)?;
    let progress = PyDict::new(py);
    for (i, name) in run.table.columns.iter().enumerate() {
        let column = run.table.rows.iter().map(|row| row[i]);
        progress.set_item(name, PyArray1::from_iter(py, column))?;
    }
    dict.set_item("progress", progress)?;
    let summary = run.summary().map_err(exception)?;
    let summary = serde_json::to_string(&summary).map_err(|e| PyValueError::new_err(e.to_string()))?;
    dict.set_item("summary", py.import("json")?.call_method1("loads", (summary,))?)?;
    Ok(dict)
}

/// The curves of a run as a drawing (SVG).
#[pyfunction]
pub fn curves(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    let draw = || {
        let run = RunFolder::open(&folder)?;
        let limits = run.config.limits_of(&run.spec).into_iter().map(|limit| limit.is_finite().then_some(limit));
        let costs: Vec<_> = run.spec.costs.iter().map(|cost| cost.name.clone()).zip(limits).collect();
        Ok(p3o_lab::figure::progress(&run.table, &costs).svg())
    };
    py.detach(draw).map_err(exception)
}

/// The folder that a new run of these settings has if none is named.
#[pyfunction]
pub fn free_folder(config: &str) -> PyResult<PathBuf> {
    Ok(p3o_cli::free_folder(&parse(config)?))
}

/// Writes the policy of a run to an ONNX file. In tasks of p3o it is measured over so many episodes first.
#[pyfunction]
pub fn export(py: Python<'_>, folder: PathBuf, output: PathBuf, episodes: u32) -> PyResult<()> {
    const SEED: u64 = 1_000_000;
    let write = |folder: &Path| p3o_cli::export_policy(folder, &output, episodes, SEED);
    py.detach(|| write(&folder)).map_err(PyValueError::new_err)
}

/// A setting's value.
fn native<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Integer(n) => n.into_pyobject(py)?.into_any(),
        Value::Float(x) => x.into_pyobject(py)?.into_any(),
        Value::Boolean(b) => b.into_pyobject(py)?.to_owned().into_any(),
        Value::Array(items) => {
            let items = items.iter().map(|item| native(py, item)).collect::<PyResult<Vec<_>>>()?;
            items.into_pyobject(py)?.into_any()
        }
        other => p3o::config::plain(other).into_pyobject(py)?.into_any(),
    })
}

/// Leaves the curves of a run that has ended in its folder, as the command line does.
pub fn draw(run: &p3o::Run) -> Result<(), Error> {
    run.summary().map_or(Ok(()), |summary| p3o_cli::draw(summary, run.folder()))
}
