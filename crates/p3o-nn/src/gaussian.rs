//! Diagonal Gaussian policies with a state-independent logarithm of the standard deviation.
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
    let (mut squares, mut log_norm) = (E::ZERO, E::ZERO);
    for ((&m, &s), &a) in mean.iter().zip(log_std).zip(action) {
        let z = (a - m) * (-s).exp();
        squares += z * z;
        log_norm += s + E::of(HALF_LN_2PI);
    }
    -(E::of(0.5) * squares + log_norm)
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

/// Adds `weight` times M t to `product`, where M is the Fisher matrix of the mean: the Hessian of [`kl`] where both
/// policies are the same. That of `log_std` is twice the identity, and there are no mixed terms.
pub fn fisher<E: Real>(log_std: &[E], tangent: &[E], weight: E, product: &mut [E]) {
    for ((p, &t), &s) in product.iter_mut().zip(tangent).zip(log_std) {
        *p += weight * t * (E::of(-2.0) * s).exp();
    }
}

/// A new policy and the old one it is compared with; what does not depend on the row is computed once.
#[derive(Clone, Debug, Default)]
pub struct Against<E> {
    inverse: Vec<E>,
    old_inverse: Vec<E>,
    /// Derivative of [`kl`] with respect to each log standard deviation.
    kl_slope: Vec<E>,
    /// The terms of [`log_prob`] and [`kl`] that are the same in every row.
    log_norm: E,
    kl_base: E,
}

impl<E: Real> Against<E> {
    /// Sets both log standard deviations; allocates nothing after the first time.
    pub fn set(&mut self, log_std: &[E], old_log_std: &[E]) {
        self.inverse.clear();
        self.inverse.extend(log_std.iter().map(|&s| (-s).exp()));
        self.old_inverse.clear();
        self.old_inverse.extend(old_log_std.iter().map(|&s| (-s).exp()));
        self.kl_slope.clear();
        let slopes = log_std.iter().zip(old_log_std).map(|(&s, &o)| (E::of(2.0) * (s - o)).exp() - E::ONE);
        self.kl_slope.extend(slopes);
        self.log_norm = log_std.iter().fold(E::ZERO, |sum, &s| sum + (s + E::of(HALF_LN_2PI)));
        // With equal means only the standard deviations are left.
        self.kl_base = kl(log_std, log_std, log_std, old_log_std);
    }

    /// [`log_prob`] of the new policy, to the bit.
    #[inline]
    pub fn log_prob(&self, mean: &[E], action: &[E]) -> E {
        let mut squares = E::ZERO;
        for ((&m, &a), &inverse) in mean.iter().zip(action).zip(&self.inverse) {
            let z = (a - m) * inverse;
            squares += z * z;
        }
        -(E::of(0.5) * squares + self.log_norm)
    }

    /// [`log_prob_grad`] of the new policy.
    #[inline]
    pub fn log_prob_grad(&self, mean: &[E], action: &[E], weight: E, d_mean: &mut [E], d_log_std: &mut [E]) {
        for (i, &inverse) in self.inverse.iter().enumerate() {
            let z = (action[i] - mean[i]) * inverse;
            d_mean[i] += weight * z * inverse;
            d_log_std[i] += weight * (z * z - E::ONE);
        }
    }

    /// [`kl`] from the old policy to the new one.
    #[inline]
    pub fn kl(&self, mean: &[E], old_mean: &[E]) -> E {
        let mut squares = E::ZERO;
        for ((&m, &o), &inverse) in mean.iter().zip(old_mean).zip(&self.old_inverse) {
            let shift = (m - o) * inverse;
            squares += shift * shift;
        }
        E::of(0.5) * squares + self.kl_base
    }

    /// [`kl_grad`] from the old policy to the new one.
    #[inline]
    pub fn kl_grad(&self, mean: &[E], old_mean: &[E], weight: E, d_mean: &mut [E], d_log_std: &mut [E]) {
        for (i, &inverse) in self.old_inverse.iter().enumerate() {
            d_mean[i] += weight * (mean[i] - old_mean[i]) * inverse * inverse;
            d_log_std[i] += weight * self.kl_slope[i];
        }
    }

    /// [`fisher`] of the new policy.
    #[inline]
    pub fn fisher(&self, tangent: &[E], weight: E, product: &mut [E]) {
        for ((p, &t), &inverse) in product.iter_mut().zip(tangent).zip(&self.inverse) {
            *p += weight * t * inverse * inverse;
        }
    }
}
