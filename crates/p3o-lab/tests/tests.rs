//! The crate's promises, one module each.

mod reproduction;
mod sweeps;
