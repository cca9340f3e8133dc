//! Categorical policies over logits.
//!
//! All functions take one row of logits; `choice` is an index into it.

use crate::real::Real;
use rand::{Rng, RngExt};

/// log sum exp, safe for large logits.
fn log_sum<E: Real>(logits: &[E]) -> E {
    let top = logits.iter().copied().fold(logits[0], |a, b| if b > a { b } else { a });
    top + logits.iter().map(|&x| (x - top).exp()).sum::<E>().ln()
}

/// Draws a choice.
pub fn sample<E: Real>(logits: &[E], rng: &mut impl Rng) -> usize {
    let log_sum = log_sum(logits);
    let mut left: f64 = rng.random();
    for (i, &x) in logits.iter().enumerate() {
        left -= (x - log_sum).exp().f64();
        if left < 0.0 {
            return i;
        }
    }
    logits.len() - 1
}

/// The likeliest choice, the first of equals.
pub fn mode<E: Real>(logits: &[E]) -> usize {
    (1..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best })
}

/// log pi(choice)
pub fn log_prob<E: Real>(logits: &[E], choice: usize) -> E {
    logits[choice] - log_sum(logits)
}

/// Adds `weight` times the gradient of [`log_prob`].
pub fn log_prob_grad<E: Real>(logits: &[E], choice: usize, weight: E, d_logits: &mut [E]) {
    let log_sum = log_sum(logits);
    for (i, (d, &x)) in d_logits.iter_mut().zip(logits).enumerate() {
        let chosen = if i == choice { E::ONE } else { E::ZERO };
        *d += weight * (chosen - (x - log_sum).exp());
    }
}

/// Entropy.
pub fn entropy<E: Real>(logits: &[E]) -> E {
    let log_sum = log_sum(logits);
    -logits.iter().map(|&x| (x - log_sum).exp() * (x - log_sum)).sum::<E>()
}

/// Adds `weight` times the gradient of [`entropy`].
pub fn entropy_grad<E: Real>(logits: &[E], weight: E, d_logits: &mut [E]) {
    let (log_sum, entropy) = (log_sum(logits), entropy(logits));
    for (d, &x) in d_logits.iter_mut().zip(logits) {
        let log_p = x - log_sum;
        *d -= weight * log_p.exp() * (log_p + entropy);
    }
}

/// KL(new || old)
pub fn kl<E: Real>(logits: &[E], old_logits: &[E]) -> E {
    let (new, old) = (log_sum(logits), log_sum(old_logits));
    logits.iter().zip(old_logits).map(|(&x, &y)| (x - new).exp() * ((x - new) - (y - old))).sum()
}

/// Adds `weight` times the gradient of [`kl`] with respect to the new logits.
pub fn kl_grad<E: Real>(logits: &[E], old_logits: &[E], weight: E, d_logits: &mut [E]) {
    let (new, old, kl) = (log_sum(logits), log_sum(old_logits), kl(logits, old_logits));
    for ((d, &x), &y) in d_logits.iter_mut().zip(logits).zip(old_logits) {
        let gap = (x - new) - (y - old);
        *d += weight * (x - new).exp() * (gap - kl);
    }
}
