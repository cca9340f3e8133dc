//! The crate's promises, one module each.

mod claims;
mod evaluation;
mod programs;
mod reproduction;
mod steps;
mod sweeps;
mod training;
mod world;
