//! Ground truth: constrained MDPs small enough that every answer is known exactly.
//!
//! A [`Cmdp`] evaluates any policy by a linear solve; [`lp`] finds its best policy and the multipliers of its limits;
//! [`instances`] holds five with known answers, and random ones; [`verify`] computes the paper's claims on them
//! and on the worst cases of [`adversary`].
//! [`TabularEnv`] makes a world of a CMDP and [`training`] runs the real trainer on it, so that what it learns can be
//! compared with the optimum.

pub mod adversary;
mod cmdp;
pub mod instances;
pub mod lp;
mod tabular;
pub mod training;
pub mod verify;

pub use cmdp::{Cmdp, Evaluation, Values};
pub use tabular::TabularEnv;
