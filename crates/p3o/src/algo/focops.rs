//! First Order Constrained Optimization in Policy Space (Zhang et al., 2020).
//!
//! Every update first moves the multipliers and then minimises
//!
//! ```text
//! L(theta) = mean_s( [KL(s) <= delta] (KL(s) - r (A_R - sum_i nu_i A_C_i) / lambda) )
//! KL(s)    = KL(pi_theta || pi_k)(s)
//! nu_i    <- clamp(nu_i + lr (J_C_i - d_i), 0, nu_max)
//! ```
//!
//! by passes of Adam over the batch until the mean KL exceeds delta. A state outside the trust region has no part in
//! the gradient.

use super::multiplier::{Multiplier, follow};
use super::{Memory, Passes, PolicyBatch, descend};
use crate::config::Config;
use crate::policy::Policy;
use p3o_nn::Real;

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

/// One update.
pub fn update(
    policy: &mut Policy,
    batch: &PolicyBatch,
    config: &Config,
    multipliers: &mut [Multiplier],
    memory: &mut Memory,
) -> Passes {
    let nu = follow(multipliers, batch.excess, |m, excess| m.step_projected(excess, &config.multiplier));
    let prices: Vec<f32> = nu.iter().map(|&nu| nu as f32).collect();
    let m = nu.len();
    let mut report = Passes { multipliers: nu, ..Passes::new(m) };
    let (lambda, delta) = (config.algo.temperature as f32, config.algo.trust_region() as f32);
    let weights = |terms: &mut [f64], row: usize, ratio: f32, kl: f32| {
        let mut advantage = batch.adv_r[row];
        terms[0] -= f64::from(ratio * advantage);
        for (i, adv_c) in batch.adv_c.iter().enumerate() {
            terms[1 + i] += f64::from(ratio * adv_c[row]);
            advantage -= prices[i] * adv_c[row];
        }
        let (term, w, u) = sample(ratio, kl, advantage, lambda, delta);
        terms[1 + m] += f64::from(term);
        terms[2 + m] += f64::from(u);
        (w, u)
    };
    let entropy = config.algo.entropy as f32;
    descend(policy, &config.algo, memory, &mut report, |policy, memory, report| {
        policy.pass_with_kl(&mut memory.policy, batch.x, &batch.old, entropy, &mut memory.sums, weights);
        report.observe(&memory.sums, memory.sums.terms[1 + m]);
        report.inside = memory.sums.terms[2 + m];
    });
    report
}
