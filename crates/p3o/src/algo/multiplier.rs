//! Lagrange multipliers: the price of each constraint, which follows J_C - d from update to update.
//!
//! ```text
//! PPO-L, TRPO-L:  nu = softplus(p),  p by one step of Adam on -p (J_C - d)
//! FOCOPS:         nu <- clamp(nu + lr (J_C - d), 0, nu_max)
//! ```

use p3o_nn::adam::{BETA1, BETA2, EPSILON, bias_correction};
use serde::{Deserialize, Serialize};

/// One multiplier with all that its next value depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Multiplier {
    /// The multiplier itself.
    pub nu: f64,
    p: f64,
    m: f64,
    v: f64,
    steps: u64,
}

impl Multiplier {
    /// A fresh one of value nu_0.
    pub fn new(nu: f64) -> Self {
        // softplus(p) = nu for p = ln(e^nu - 1); no p makes it zero, so a p far down has to do.
        let p = if nu > 30.0 { nu } else { libm::log(libm::expm1(nu).max(1e-8)) };
        Multiplier { nu, p, m: 0.0, v: 0.0, steps: 0 }
    }

    /// Whether it is one that a run can come to.
    pub fn is_valid(&self) -> bool {
        [self.nu, self.p, self.m, self.v].iter().all(|x| x.is_finite()) && self.nu >= 0.0 && self.v >= 0.0
    }

    /// One step of Adam on -p (J_C - d), whose slope in p is d - J_C.
    pub fn step_adam(&mut self, excess: f64, rate: f64, max: f64) {
        let slope = -excess;
        self.steps += 1;
        self.m = BETA1 * self.m + (1.0 - BETA1) * slope;
        self.v = BETA2 * self.v + (1.0 - BETA2) * slope * slope;
        let (m, v) = (self.m / bias_correction(BETA1, self.steps), self.v / bias_correction(BETA2, self.steps));
        self.p -= rate * m / (v.sqrt() + EPSILON);
        self.nu = softplus(self.p).min(max);
    }

    /// One projected step along J_C - d.
    pub fn step_projected(&mut self, excess: f64, rate: f64, max: f64) {
        self.nu = (self.nu + rate * excess).clamp(0.0, max);
    }
}

/// Moves each multiplier by its constraint's J_C - d and returns the new values.
pub fn follow(multipliers: &mut [Multiplier], excess: &[f64], step: impl Fn(&mut Multiplier, f64)) -> Vec<f64> {
    multipliers.iter_mut().zip(excess).for_each(|(multiplier, &excess)| step(multiplier, excess));
    multipliers.iter().map(|m| m.nu).collect()
}

/// ln(1 + e^p)
fn softplus(p: f64) -> f64 {
    p.max(0.0) + libm::log1p(libm::exp(-p.abs()))
}
