//! The library's errors as Python's.

use p3o::Error;
use pyo3::PyErr;
use pyo3::exceptions::{
    PyFileExistsError, PyFileNotFoundError, PyFloatingPointError, PyMemoryError, PyOSError, PyRuntimeError,
    PyValueError,
};

/// The exception for an error, with the same line.
pub fn exception(error: Error) -> PyErr {
    let line = error.to_string();
    match error {
        Error::Config(_) | Error::ConfigFile { .. } => PyValueError::new_err(line),
        Error::Task(task) => super::tasks::refuse(task),
        Error::NonFinite { .. } => PyFloatingPointError::new_err(line),
        Error::NoRun { .. } => PyFileNotFoundError::new_err(line),
        Error::NotARun { .. } | Error::Checkpoint { .. } | Error::Altered { .. } | Error::OtherSettings { .. } => {
            PyValueError::new_err(line)
        }
        Error::Occupied { .. } => PyFileExistsError::new_err(line),
        Error::StepsMade { .. } => PyValueError::new_err(line),
        Error::Io(_) => PyOSError::new_err(line),
        Error::Memory { .. } => PyMemoryError::new_err(line),
        _ => PyRuntimeError::new_err(line),
    }
}
