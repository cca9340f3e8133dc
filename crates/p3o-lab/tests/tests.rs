//! The crate's promises, one module each.

mod claims;
mod evaluation;
mod programs;
mod sweeps;
mod training;
mod world;
