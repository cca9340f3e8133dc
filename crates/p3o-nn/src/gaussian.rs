//! Diagonal Gaussian policies with a state-independent logarithm of the deviation.
//!
//! All functions take one row: `mean`, `log_std` and `action` have one entry per action dimension.

use crate::real::Real;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

const HALF_LN_2PI: f64 = 0.918_938_533_204_672_8;

/// Draws an action.
pub fn sample<E: Real>(mean: &[E], log_std: &[E], action: &mut [E], rng: &mut impl Rng) {
    for ((a, &m), &s) in action.iter_mut().zip(mean).zip(log_std) {
        let noise: f64 = rng.sample(StandardNormal);
        *a = m + s.exp() * E::of(noise);
    }
}

/// log pi(action)
pub fn log_prob<E: Real>(mean: &[E], log_std: &[E], action: &[E]) -> E {
    let half = E::of(0.5);
    let terms = mean.iter().zip(log_std).zip(action).map(|((&m, &s), &a)| {
        let z = (a - m) * (-s).exp();
        half * z * z + s + E::of(HALF_LN_2PI)
    });
    -terms.sum::<E>()
}

/// Adds `weight` times the gradient of [`log_prob`] to `d_mean` and `d_log_std`.
pub fn log_prob_grad<E: Real>(
    mean: &[E],
    log_std: &[E],
    action: &[E],
    weight: E,
    d_mean: &mut [E],
    d_log_std: &mut [E],
) {
    for i in 0..mean.len() {
        let inverse = (-log_std[i]).exp();
        let z = (action[i] - mean[i]) * inverse;
        d_mean[i] += weight * z * inverse;
        d_log_std[i] += weight * (z * z - E::ONE);
    }
}

/// Entropy; its gradient is one for every entry of `log_std` and zero for the mean.
pub fn entropy<E: Real>(log_std: &[E]) -> E {
    log_std.iter().map(|&s| s + E::of(0.5 + HALF_LN_2PI)).sum()
}

/// KL(new || old)
pub fn kl<E: Real>(mean: &[E], log_std: &[E], old_mean: &[E], old_log_std: &[E]) -> E {
    let (half, two) = (E::of(0.5), E::of(2.0));
    (0..mean.len())
        .map(|i| {
            let inverse = (-old_log_std[i]).exp();
            let shift = (mean[i] - old_mean[i]) * inverse;
            let shrink = (two * (log_std[i] - old_log_std[i])).exp();
            half * (shrink + shift * shift - E::ONE) - (log_std[i] - old_log_std[i])
        })
        .sum()
}

/// Adds `weight` times the gradient of [`kl`] with respect to the new policy.
#[allow(clippy::too_many_arguments)] // two distributions, a weight and two destinations
pub fn kl_grad<E: Real>(
    mean: &[E],
    log_std: &[E],
    old_mean: &[E],
    old_log_std: &[E],
    weight: E,
    d_mean: &mut [E],
    d_log_std: &mut [E],
) {
    let two = E::of(2.0);
    for i in 0..mean.len() {
        let inverse = (-old_log_std[i]).exp();
        d_mean[i] += weight * (mean[i] - old_mean[i]) * inverse * inverse;
        d_log_std[i] += weight * ((two * (log_std[i] - old_log_std[i])).exp() - E::ONE);
    }
}
