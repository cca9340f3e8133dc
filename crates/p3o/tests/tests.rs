//! The crate's promises, one module each.

mod advantages;
mod configuration;
mod cpo;
mod critics;
mod damage;
mod episode_ends;
mod first_order;
mod fixtures;
mod gates;
mod golden;
mod learning;
mod losses;
mod memory;
mod minibatches;
mod multipliers;
mod paper;
mod passes;
mod problem;
mod resume;
mod second_order;
mod teams;
mod util;
mod violation;
