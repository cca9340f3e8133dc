//! PPO-Lagrangian, PPO-L in the paper (Ray et al., 2019).
//!
//! Every update first moves the multipliers, one step of Adam on the p_i of nu_i = softplus(p_i), and then minimises
//!
//! ```text
//! L(theta)        = (L_R(theta) + sum_i nu_i L_surr_i(theta)) / (1 + sum_i nu_i)
//! L_R(theta)      = mean( -min(r A_R, clip(r, 1-eps, 1+eps) A_R) )
//! L_surr_i(theta) = mean( r A_C_i )                                       plain, without a clip
//! dp_i            = lr Adam(J_C_i - d_i)
//! ```
//!
//! by passes of Adam over the batch until the mean KL leaves the trust region. Both kinds of advantage are standardised,
//! as for P3O, so that nu means the same on every task; the divisor keeps the step's size when nu grows.

use super::multiplier::follow;
use super::p3o::Clipped;
use super::{Column, Constraints, Foresight, Info, Objective, Order, Passes, Update, descend};
use crate::config::schema::settings;
use crate::engine::{RowLoss, Rule, Sums};

/// What it is and needs.
pub const INFO: Info = Info {
    name: "ppo-lag",
    summary: "PPO with a Lagrange multiplier for each constraint",
    constraints: Constraints::Any,
    order: Order::First,
    multipliers: true,
};

settings! {
    /// Its own settings.
    Settings {
        /// Epsilon of the clipped ratio.
        clip: f64 = 0.2, Number(1e-9, 1.0);
        /// Initial multiplier of each constraint.
        multiplier: f64 = 1.0, Number(0.0, 1e6);
        /// Learning rate of the multipliers.
        multiplier_rate: f64 = 0.05, Number(0.0, 1e6);
        /// Largest multiplier.
        multiplier_max: f64 = 1e6, Number(0.0, 1e6);
    }
}

/// Its own columns of progress.csv.
pub const COLUMNS: &[Column] = &[Column::MULTIPLIER];

/// The shares 1 / (1 + sum nu) of the reward and nu_i / (1 + sum nu) of every cost in the loss.
pub fn shares(nu: &[f64]) -> (f64, Vec<f64>) {
    let whole = 1.0 + nu.iter().sum::<f64>();
    (1.0 / whole, nu.iter().map(|nu| nu / whole).collect())
}

/// L from the batch means L_R and L_surr_i.
pub fn loss(terms: &[f64], x_r: f64, x_c: &[f64]) -> f64 {
    x_r * terms[0] + terms[1..].iter().zip(x_c).map(|(term, x)| x * term).sum::<f64>()
}

/// x_R L_R + sum_i x_i L_surr_i
struct Mixed {
    epsilon: f64,
    x_r: f64,
    x_c: Vec<f64>,
}

impl Objective for Mixed {
    fn foresight(&self) -> Foresight {
        Foresight::None
    }

    fn loss(&self, _: &[f64]) -> RowLoss {
        mixed(self.epsilon, self.x_r, &self.x_c)
    }

    fn rule(&self, _: usize) -> (RowLoss, Rule) {
        (self.loss(&[]), Rule::Fixed)
    }

    fn observe(&mut self, sums: &Sums, _: &[f64], report: &mut Passes) {
        report.observe(sums, loss(&sums.terms, self.x_r, &self.x_c));
    }
}

/// x_R L_R + sum_i x_i L_surr_i, sample by sample.
pub(super) fn mixed(epsilon: f64, x_r: f64, x_c: &[f64]) -> RowLoss {
    let costs = x_c.iter().map(|&x| x as f32).collect();
    RowLoss::Clipped(Clipped { epsilon: epsilon as f32, clip_costs: false, reward: x_r as f32, costs, scale: 1.0 })
}

/// One update.
pub fn update(settings: &Settings, update: &mut Update) -> Passes {
    let (rate, max) = (settings.multiplier_rate, settings.multiplier_max);
    let nu = follow(update.multipliers, update.excess, |m, excess| m.step_adam(excess, rate, max));
    let (x_r, x_c) = shares(&nu);
    let mut report = Passes { multipliers: nu, ..Passes::new(update.offsets.len()) };
    descend(update, &mut Mixed { epsilon: settings.clip, x_r, x_c }, &mut report);
    report
}
