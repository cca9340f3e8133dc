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

use super::multiplier::{Multiplier, follow};
use super::{Memory, Passes, PolicyBatch, descend, mixed_pass};
use crate::config::Config;
use crate::policy::Policy;

/// The shares 1 / (1 + sum nu) of the reward and nu_i / (1 + sum nu) of every cost in the loss.
pub fn shares(nu: &[f64]) -> (f64, Vec<f64>) {
    let whole = 1.0 + nu.iter().sum::<f64>();
    (1.0 / whole, nu.iter().map(|nu| nu / whole).collect())
}

/// L from the batch means L_R and L_surr_i.
pub fn loss(terms: &[f64], x_r: f64, x_c: &[f64]) -> f64 {
    x_r * terms[0] + terms[1..].iter().zip(x_c).map(|(term, x)| x * term).sum::<f64>()
}

/// One update.
pub fn update(
    policy: &mut Policy,
    batch: &PolicyBatch,
    config: &Config,
    multipliers: &mut [Multiplier],
    memory: &mut Memory,
) -> Passes {
    let nu = follow(multipliers, batch.excess, |m, excess| m.step_adam(excess, &config.multiplier));
    let (x_r, x_c) = shares(&nu);
    let mut report = Passes { multipliers: nu, ..Passes::new(batch.adv_c.len()) };
    descend(policy, &config.algo, memory, &mut report, |policy, memory, report| {
        mixed_pass(policy, batch, &config.algo, memory, x_r, &x_c);
        report.observe(&memory.sums, loss(&memory.sums.terms, x_r, &x_c));
    });
    report
}
