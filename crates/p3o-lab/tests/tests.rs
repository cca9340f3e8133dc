//! The crate's promises, one module each.

mod devices;
mod reproduction;
mod sweeps;
mod trials;
