//! Experiments: many runs at once, their pictures, and problems small enough that every answer is known exactly.
//!
//! [`sweep`] trains many runs side by side; [`statistics`] says what they show; [`figure`] draws them.
//! A [`Cmdp`] evaluates any policy by a linear solve; [`lp`] finds its best policy and the multipliers of its limits;
//! [`instances`] holds five with known answers, and random ones; [`verify`] puts the paper's claims to the test on them;
//! [`TabularEnv`] and [`training`] let the real trainer loose on them, so that what it learns can be compared with the
//! optimum.

mod cmdp;
pub mod figure;
pub mod instances;
pub mod letters;
pub mod lp;
pub mod reproduce;
pub mod statistics;
pub mod sweep;
mod tabular;
pub mod training;
pub mod verify;

pub use cmdp::{Cmdp, Evaluation, Values};
pub use tabular::TabularEnv;
