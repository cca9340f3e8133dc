//! The crate's promises, one module each.

mod episodes;
mod lanes;
mod layouts;
mod original_engine;
mod robot;
mod snapshots;
mod statistics;
mod task_list;
mod util;
mod vases;
