//! The crate's promises, one module each.

mod advantages;
mod configuration;
mod critics;
mod damage;
mod episode_ends;
mod gates;
mod learning;
mod losses;
mod minibatches;
mod paper;
mod passes;
mod problem;
mod resume;
mod util;
mod violation;
