//! The tasks and their options in Python's words.

use p3o::error::suggest;
use p3o_env::tasks::{self, Allowed, OptionInfo};
use p3o_env::{Env, TASKS, TaskError};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;

/// Every task: its name, a line about it, its options with a line each, and whether it has several agents.
#[pyfunction(name = "tasks")]
pub fn all_tasks(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let option = |info: &OptionInfo| -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("name", info.name)?;
        match info.allowed {
            Allowed::Words(_) => dict.set_item("default", info.default_word())?,
            _ => dict.set_item("default", info.default)?,
        }
        dict.set_item("allowed", info.allowed.to_string())?;
        dict.set_item("summary", info.summary)?;
        Ok(dict)
    };
    let task = |info: &p3o_env::TaskInfo| {
        let dict = PyDict::new(py);
        dict.set_item("name", info.name)?;
        dict.set_item("summary", info.summary)?;
        dict.set_item("options", info.options.iter().map(option).collect::<PyResult<Vec<_>>>()?)?;
        dict.set_item("several_agents", info.has_team())?;
        Ok(dict)
    };
    TASKS.iter().map(task).collect()
}

/// The options of a task as the library knows them: numbers, and words as their places.
pub fn options(task: &str, given: &Bound<'_, PyDict>) -> PyResult<BTreeMap<String, f64>> {
    given.iter().map(|(name, value)| named(task, &name.extract::<String>()?, &value)).collect()
}

fn named(task: &str, name: &str, value: &Bound<'_, PyAny>) -> PyResult<(String, f64)> {
    let Ok(word) = value.extract::<String>() else {
        let number = value.extract::<f64>();
        let shown = || value.repr().map_or("this value".to_owned(), |shown| shown.to_string());
        let number = number.map_err(|_| {
            PyTypeError::new_err(format!("{task}: {name} = {} is neither a number nor a word", shown()))
        })?;
        return Ok((name.to_owned(), number));
    };
    let info = tasks::find(task).map_err(refuse)?;
    let Some(option) = info.options.iter().find(|option| option.name == name) else {
        // Which options there are is the same answer for words and numbers.
        return Ok((name.to_owned(), f64::NAN));
    };
    let place = tasks::words(task, name).and_then(|words| words.iter().position(|known| *known == word));
    let place = place.ok_or_else(|| {
        PyValueError::new_err(format!("{task}: {name} = {word:?} is not allowed; it must be {}", option.allowed))
    })?;
    Ok((name.to_owned(), place as f64))
}

/// How to make a world of the task, or of its agents side by side.
pub fn maker(task: &str, options: BTreeMap<String, f64>, team: bool) -> PyResult<impl Fn() -> Box<dyn Env> + use<>> {
    let task = task.to_owned();
    let make = move || if team { tasks::make_team(&task, &options) } else { tasks::make(&task, &options) };
    make().map_err(refuse)?;
    Ok(move || make().expect("it was made before"))
}

/// The library's sentence, with the name that was perhaps meant.
pub fn refuse(e: TaskError) -> PyErr {
    let hint = match &e {
        TaskError::UnknownTask { name, known } => suggest(name, known.iter().copied()),
        TaskError::UnknownOption { name, known, .. } => suggest(name, known.iter().copied()),
        TaskError::OfPython { .. }
        | TaskError::OutOfRange { .. }
        | TaskError::NoEffect { .. }
        | TaskError::OneAgent { .. } => String::new(),
    };
    PyValueError::new_err(format!("{e}{hint}"))
}
