//! TRPO-Lagrangian, a primal-dual method (Ray et al., 2019): the step of TRPO for
//!
//! ```text
//! A = (A_R - sum_i nu_i A_C_i) / (1 + sum_i nu_i)
//! ```
//!
//! with the multipliers of PPO-L, which move first.

use super::multiplier::follow;
use super::natural::solver_settings;
use super::{Column, Constraints, Info, Order, Passes, Update, ppo_lag, trpo};

/// What it is and needs.
pub const INFO: Info = Info {
    name: "trpo-lag",
    summary: "TRPO with a Lagrange multiplier for each constraint",
    constraints: Constraints::Any,
    order: Order::Second,
    multipliers: true,
};

solver_settings! {
    /// Initial multiplier of each constraint.
    multiplier: f64 = 1.0, Number(0.0, 1e6);
    /// Learning rate of the multipliers.
    multiplier_rate: f64 = 0.05, Number(0.0, 1e6);
    /// Largest multiplier.
    multiplier_max: f64 = 1e6, Number(0.0, 1e6);
}

/// Its own columns of progress.csv.
pub const COLUMNS: &[Column] = &[Column::MULTIPLIER, Column::STEP_FRACTION];

/// One update.
pub fn update(settings: &Settings, update: &mut Update) -> Passes {
    let (rate, max) = (settings.multiplier_rate, settings.multiplier_max);
    let nu = follow(update.multipliers, update.excess, |m, excess| m.step_adam(excess, rate, max));
    let (x_r, x_c) = ppo_lag::shares(&nu);
    let mut report = Passes { multipliers: nu, ..Passes::new(update.offsets.len()) };
    trpo::step(update, &settings.solver(), x_r, &x_c, &mut report);
    report
}
