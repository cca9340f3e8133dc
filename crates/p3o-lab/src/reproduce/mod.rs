//! The paper's experiments and the field's benchmark, from data to verdicts.
//!
//! [`data`] reads what is to be run and what the paper says of it from `experiments/*.toml`; [`plan`] makes runs of it, each in
//! a folder named by what it is, so that experiments share them; [`estimate`] says how long they will take; [`results`] reads
//! what has been finished; [`verdict`] holds it against the paper's claims; [`report`] tells it all, by way of [`document`].
//! [`likeliest`] plays last policies for those experiments whose published figures are of such. [`trials`] are the runs by which settings are chosen before.

pub mod data;
pub mod document;
pub mod estimate;
pub mod likeliest;
pub mod plan;
pub mod report;
pub mod results;
pub mod trials;
pub mod verdict;

pub use data::{BENCHMARK, Book, Experiment, PAPER, Row, Scale};
pub use plan::Plan;
pub use results::Results;
pub use trials::{TrialPlan, Trials};
