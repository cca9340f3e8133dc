//! The crate's promises, one module each.

mod claims;
mod evaluation;
mod programs;
mod steps;
mod training;
mod world;
