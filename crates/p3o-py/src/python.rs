//! What Python sees.

use pyo3::prelude::*;
use std::ffi::OsString;

/// The compiled part of p3o.
#[pymodule]
mod _p3o {
    #[pymodule_export]
    use super::main;

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
