//! What Python sees.

mod agent;
mod errors;
mod runs;
mod settings;
mod tasks;
mod train;
mod worlds;

use pyo3::prelude::*;
use std::ffi::OsString;

/// The compiled part of p3o.
#[pymodule]
mod _p3o {
    #[pymodule_export]
    use super::agent::PyAgent;
    #[pymodule_export]
    use super::bench_environments;
    #[pymodule_export]
    use super::main;
    #[pymodule_export]
    use super::runs::{curves, export, free_folder, read_run};
    #[pymodule_export]
    use super::settings::{PySpec, configure, methods, world_of};
    #[pymodule_export]
    use super::tasks::all_tasks;
    #[pymodule_export]
    use super::train::{start, train};
    #[pymodule_export]
    use super::worlds::PyWorlds;
    #[pymodule_export]
    use super::worlds::thread_count;

    /// The version of p3o.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

/// Runs the program p3o with these arguments, of which the first is its name, and gives its exit code.
#[pyfunction]
fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| p3o_cli::main_with(args))
}

/// The environment steps a second that `p3o bench` measures on so many threads, in which Python has no part.
#[pyfunction]
fn bench_environments(py: Python<'_>, threads: usize, seconds: f64) -> PyResult<f64> {
    py.detach(|| p3o_cli::environment_rate(threads, seconds)).map_err(pyo3::exceptions::PyRuntimeError::new_err)
}
