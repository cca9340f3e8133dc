//! First Order Constrained Optimization in Policy Space (Zhang et al., 2020).
//!
//! Every update first moves the multipliers and then minimises
//!
//! ```text
//! L(theta) = mean_s( [KL(s) <= delta] (KL(s) - r (A_R - sum_i nu_i A_C_i) / lambda) )
//! KL(s)    = KL(pi_theta || pi_k)(s)
//! nu_i    <- clamp(nu_i + lr (J_C_i - d_i), 0, nu_max)        or lr (J_C_i - d_i) / d_i
//! ```
//!
//! by passes of Adam over the batch until the mean KL exceeds delta. A state outside the trust region has no part in
//! the gradient.

use super::multiplier::follow;
use super::{Column, Constraints, Foresight, Info, Objective, Order, Passes, Update, descend};
use crate::config::schema::settings;
use crate::engine::{RowLoss, Rule, Sums};
use p3o_nn::Real;

/// What it is and needs.
pub const INFO: Info = Info {
    name: "focops",
    summary: "First Order Constrained Optimization in Policy Space: multipliers, a step in the space of policies",
    constraints: Constraints::Any,
    order: Order::First,
    multipliers: true,
};

settings! {
    /// Its own settings.
    Settings {
        /// lambda: the larger, the closer its target stays to the old policy.
        temperature: f64 = 1.5, Number(1e-9, 1e12);
        /// Initial multiplier of each constraint.
        multiplier: f64 = 1.0, Number(0.0, 1e6);
        /// Learning rate of the multipliers.
        multiplier_rate: f64 = 0.01, Number(0.0, 1e6);
        /// Whether J_C - d is measured in units of d, so that one rate does for limits of any size.
        multiplier_relative: bool = false, Switch;
        /// Largest multiplier.
        multiplier_max: f64 = 2.0, Number(0.0, 1e6);
    }
}

/// Its own columns of progress.csv.
pub const COLUMNS: &[Column] = &[Column::MULTIPLIER, Column::One("inside", |p| p.inside)];

/// One sample of L: its term, the weight of grad log pi, and that of grad KL.
#[inline]
pub fn sample<E: Real>(ratio: E, kl: E, advantage: E, lambda: E, delta: E) -> (E, E, E) {
    if kl <= delta {
        let gain = ratio * advantage / lambda;
        (kl - gain, -gain, E::ONE)
    } else {
        (E::ZERO, E::ZERO, E::ZERO)
    }
}

/// L sample by sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Proximal {
    /// nu_i
    pub multipliers: Vec<f32>,
    /// lambda
    pub lambda: f32,
    /// delta
    pub delta: f32,
}

impl Proximal {
    /// Adds one sample's loss terms, the term of L and the share inside the trust region behind them; returns the weights
    /// of grad log pi and of grad KL.
    #[inline(always)] // part of the inner loop of every pass
    pub fn weigh(&self, advantages: &[Vec<f32>], row: usize, ratio: f32, kl: f32, terms: &mut [f64]) -> (f32, f32) {
        let m = self.multipliers.len();
        let mut advantage = advantages[0][row];
        terms[0] -= f64::from(ratio * advantage);
        for (i, (adv_c, nu)) in advantages[1..].iter().zip(&self.multipliers).enumerate() {
            terms[1 + i] += f64::from(ratio * adv_c[row]);
            advantage -= nu * adv_c[row];
        }
        let (term, w, u) = sample(ratio, kl, advantage, self.lambda, self.delta);
        terms[1 + m] += f64::from(term);
        terms[2 + m] += f64::from(u);
        (w, u)
    }
}

impl Objective for Proximal {
    fn foresight(&self) -> Foresight {
        Foresight::None
    }

    fn loss(&self, _: &[f64]) -> RowLoss {
        RowLoss::Proximal(self.clone())
    }

    fn rule(&self, _: usize) -> (RowLoss, Rule) {
        (self.loss(&[]), Rule::Fixed)
    }

    fn observe(&mut self, sums: &Sums, _: &[f64], report: &mut Passes) {
        let m = self.multipliers.len();
        report.observe(sums, sums.terms[1 + m]);
        report.inside = sums.terms[2 + m];
    }
}

/// One update.
pub fn update(settings: &Settings, update: &mut Update) -> Passes {
    let (rate, max) = (settings.multiplier_rate, settings.multiplier_max);
    let unit = |limit: f64| if settings.multiplier_relative && limit > 0.0 { limit } else { 1.0 };
    let excess: Vec<f64> = update.excess.iter().zip(update.limits).map(|(excess, &d)| excess / unit(d)).collect();
    let nu = follow(update.multipliers, &excess, |m, excess| m.step_projected(excess, rate, max));
    let multipliers = nu.iter().map(|&nu| nu as f32).collect();
    let (lambda, delta) = (settings.temperature as f32, update.settings.target_kl as f32);
    let mut report = Passes { multipliers: nu, ..Passes::new(update.offsets.len()) };
    descend(update, &mut Proximal { multipliers, lambda, delta }, &mut report);
    report
}
