//! Interior-point Policy Optimization (Liu et al., 2020).
//!
//! Every update minimises a reward surrogate with a logarithmic barrier in front of each limit,
//!
//! ```text
//! L(theta)   = L_R(theta) - (1/t) sum_i log(-V_i(theta))
//! L_R(theta) = mean( -min(r A_R, clip(r, 1-eps, 1+eps) A_R) )
//! V_i(theta) = mean( r A_C_i ) + offset_i                                 the surrogate violation
//! grad L     = grad L_R + sum_i s_i grad V_i,   s_i = 1 / (-t V_i)
//! ```
//!
//! by passes of Adam over the batch until the mean KL leaves the trust region. Where some V_i >= 0 there is no barrier:
//! the policy is infeasible, and the pass lowers those costs alone. The step is along grad L / (1 + sum_i s_i): a
//! barrier that is nearly touched would otherwise fill Adam's moments for the next thousand steps, and like this it turns into
//! the pure cost reduction without a jump.
//!
//! A logarithm does not feel the scale of V_i, but 1/t has the units of L_R. Standardised advantages make L_R small, so
//! that t has to be larger than where the reward is counted in returns.

use super::ppo_lag::{self, mixed};
use super::{Column, Constraints, Foresight, Info, Objective, Order, Passes, Update, descend};
use crate::config::schema::settings;
use crate::engine::{RowLoss, Rule, Sums};

/// What it is and needs.
pub const INFO: Info = Info {
    name: "ipo",
    summary: "Interior-point Policy Optimization: PPO with a logarithmic barrier in front of each limit",
    constraints: Constraints::Any,
    order: Order::First,
    multipliers: false,
};

settings! {
    /// Its own settings.
    Settings {
        /// Epsilon of the clipped ratio.
        clip: f64 = 0.2, Number(1e-9, 1.0);
        /// t of the barrier log(-x) / t: the larger, the steeper and nearer to the limit.
        barrier: f64 = 1000.0, Number(1e-9, 1e12);
    }
}

/// Its own columns of progress.csv.
pub const COLUMNS: &[Column] = &[Column::Each("recovering", |p| &p.penalized)];

/// The shares of grad L_R and of every grad V_i in the step.
pub fn shares(violations: &[f64], t: f64) -> (f64, Vec<f64>) {
    let violated = violations.iter().filter(|v| **v >= 0.0).count();
    if violated > 0 {
        return (0.0, violations.iter().map(|&v| if v >= 0.0 { 1.0 / violated as f64 } else { 0.0 }).collect());
    }
    // The slopes are the prices that the limits have here.
    ppo_lag::shares(&violations.iter().map(|v| 1.0 / (-t * v)).collect::<Vec<_>>())
}

/// L from L_R and the violations; where there is no barrier, the sum of the violations.
pub fn loss(loss_r: f64, violations: &[f64], t: f64) -> f64 {
    if violations.iter().any(|v| *v >= 0.0) {
        return violations.iter().map(|v| v.max(0.0)).sum();
    }
    loss_r - violations.iter().map(|v| libm::log(-v)).sum::<f64>() / t
}

struct Barrier<'a> {
    settings: &'a Settings,
    offsets: &'a [f64],
}

impl Barrier<'_> {
    fn violations(&self, means: &[f64]) -> Vec<f64> {
        means.iter().zip(self.offsets).map(|(mean, offset)| mean + offset).collect()
    }
}

impl Objective for Barrier<'_> {
    fn foresight(&self) -> Foresight {
        Foresight::Measure
    }

    fn loss(&self, means: &[f64]) -> RowLoss {
        let (x_r, x_c) = shares(&self.violations(means), self.settings.barrier);
        mixed(self.settings.clip, x_r, &x_c)
    }

    fn rule(&self, _: usize) -> (RowLoss, Rule) {
        let any = mixed(self.settings.clip, 1.0, &vec![1.0; self.offsets.len()]);
        (any, Rule::Barrier { offsets: self.offsets.to_vec(), t: self.settings.barrier })
    }

    fn observe(&mut self, sums: &Sums, means: &[f64], report: &mut Passes) {
        let violations = self.violations(means);
        report.observe(sums, loss(sums.terms[0], &violations, self.settings.barrier));
        report.penalize(violations.iter().map(|v| *v >= 0.0));
    }
}

/// One update.
pub fn update(settings: &Settings, update: &mut Update) -> Passes {
    let offsets = update.offsets;
    let mut report = Passes::new(offsets.len());
    descend(update, &mut Barrier { settings, offsets }, &mut report);
    report
}
