//! Trust Region Policy Optimization (Schulman et al., 2015), and TRPO-Lagrangian, a primal-dual method.
//!
//! ```text
//! maximise g.x  subject to  x.H x / 2 <= delta:    x = sqrt(2 delta / g.H^-1 g) H^-1 g
//! g    = grad mean( r A )  at theta_k
//! A    = A_R                                                      TRPO
//! A    = (A_R - sum_i nu_i A_C_i) / (1 + sum_i nu_i)              TRPO-L, with the multipliers of PPO-L
//! ```
//!
//! The line search takes the first fraction of x with KL <= delta for which mean(r A) does not fall. TRPO has no
//! constraints, and so no multipliers.

use super::multiplier::{Multiplier, follow};
use super::natural::{dot, gradient, line_search, solve};
use super::{Memory, Passes, PolicyBatch, ppo_lag};
use crate::config::Config;
use crate::policy::Policy;

/// sqrt(2 delta / q), for q = g.H^-1 g: how far along H^-1 g the trust region reaches; zero with nothing to gain.
pub fn reach(q: f64, delta: f64) -> f64 {
    if q < 1e-12 { 0.0 } else { (2.0 * delta / q).sqrt() }
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
    let (x_r, x_c) = ppo_lag::shares(&nu);
    let advantage = |row: usize| {
        let costs = batch.adv_c.iter().zip(&x_c).map(|(adv_c, &x)| x as f32 * adv_c[row]);
        x_r as f32 * batch.adv_r[row] - costs.sum::<f32>()
    };
    let g = gradient(policy, batch, memory, config.algo.entropy, advantage);
    let mut x = solve(policy, batch, &config.second_order, memory, &g);
    let reach = reach(dot(&g, &x), config.algo.trust_region());
    x.iter_mut().for_each(|x| *x *= reach);
    let constraints = batch.adv_c.len();
    let mut report = Passes { gradient_norm: dot(&g, &g).sqrt(), multipliers: nu, ..Passes::new(constraints) };
    line_search(policy, batch, config, memory, &x, &mut report, |before, after| {
        ppo_lag::loss(after, x_r, &x_c) <= ppo_lag::loss(before, x_r, &x_c)
    });
    report.loss = ppo_lag::loss(&memory.sums.terms, x_r, &x_c);
    report
}
