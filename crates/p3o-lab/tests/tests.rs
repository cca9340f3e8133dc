//! The crate's promises, one module each.

mod devices;
mod reproduction;
mod shards;
mod sweeps;
mod trials;
