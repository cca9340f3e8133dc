//! Categorical policies over logits.
//!
//! All functions take one row of logits; `action` is an index into it.

use crate::real::Real;
use rand::{Rng, RngExt};

/// From a logit to its log probability. The largest logit and the logarithm of the sum are subtracted one after the other:
/// their own sum would round away the second where the first is large.
fn normalized<E: Real>(logits: &[E]) -> impl Fn(E) -> E + use<E> {
    let top = logits.iter().copied().fold(logits[0], |a, b| if b > a { b } else { a });
    let log_sum = logits.iter().map(|&x| (x - top).exp()).sum::<E>().ln();
    move |x| (x - top) - log_sum
}

/// Draws a discrete action.
pub fn sample<E: Real>(logits: &[E], rng: &mut impl Rng) -> usize {
    let log_p = normalized(logits);
    let mut left: f64 = rng.random();
    for (i, &x) in logits.iter().enumerate() {
        left -= log_p(x).exp().f64();
        if left < 0.0 {
            return i;
        }
    }
    // Rounding may leave a remainder: it goes to an action whose probability is not zero.
    mode(logits)
}

/// The most likely discrete action, the first among equals.
pub fn mode<E: Real>(logits: &[E]) -> usize {
    (1..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best })
}

/// log pi(action)
pub fn log_prob<E: Real>(logits: &[E], action: usize) -> E {
    normalized(logits)(logits[action])
}

/// Adds `weight` times the gradient of [`log_prob`].
pub fn log_prob_grad<E: Real>(logits: &[E], action: usize, weight: E, d_logits: &mut [E]) {
    let log_p = normalized(logits);
    for (i, (d, &x)) in d_logits.iter_mut().zip(logits).enumerate() {
        let chosen = if i == action { E::ONE } else { E::ZERO };
        *d += weight * (chosen - log_p(x).exp());
    }
}

/// Entropy.
pub fn entropy<E: Real>(logits: &[E]) -> E {
    let log_p = normalized(logits);
    -logits.iter().map(|&x| log_p(x).exp() * log_p(x)).sum::<E>()
}

/// Adds `weight` times the gradient of [`entropy`].
pub fn entropy_grad<E: Real>(logits: &[E], weight: E, d_logits: &mut [E]) {
    let (log_p, entropy) = (normalized(logits), entropy(logits));
    for (d, &x) in d_logits.iter_mut().zip(logits) {
        *d -= weight * log_p(x).exp() * (log_p(x) + entropy);
    }
}

/// KL(new || old)
pub fn kl<E: Real>(logits: &[E], old_logits: &[E]) -> E {
    let (new, old) = (normalized(logits), normalized(old_logits));
    logits.iter().zip(old_logits).map(|(&x, &y)| new(x).exp() * (new(x) - old(y))).sum()
}

/// Adds `weight` times the gradient of [`kl`] with respect to the new logits.
pub fn kl_grad<E: Real>(logits: &[E], old_logits: &[E], weight: E, d_logits: &mut [E]) {
    let (new, old, kl) = (normalized(logits), normalized(old_logits), kl(logits, old_logits));
    for ((d, &x), &y) in d_logits.iter_mut().zip(logits).zip(old_logits) {
        *d += weight * new(x).exp() * (new(x) - old(y) - kl);
    }
}

/// Adds `weight` times M t to `product`, where M is the Fisher matrix of the logits: the Hessian of [`kl`] where both
/// policies are the same, diag(p) - p p^T.
pub fn fisher<E: Real>(logits: &[E], tangent: &[E], weight: E, product: &mut [E]) {
    let log_p = normalized(logits);
    let mean: E = logits.iter().zip(tangent).map(|(&x, &t)| log_p(x).exp() * t).sum();
    for ((p, &x), &t) in product.iter_mut().zip(logits).zip(tangent) {
        *p += weight * log_p(x).exp() * (t - mean);
    }
}

/// Subtracts the logarithm of the sum, so that logits become log probabilities.
pub fn normalize<E: Real>(logits: &mut [E]) {
    let log_p = normalized(logits);
    logits.iter_mut().for_each(|x| *x = log_p(*x));
}

/// All functions that a pass needs of one row, from one exponential per discrete action.
pub struct Row<'a, E> {
    logits: &'a [E],
    top: E,
    log_sum: E,
}

impl<'a, E: Real> Row<'a, E> {
    /// For a row of logits; writes their probabilities.
    pub fn new(logits: &'a [E], probabilities: &mut [E]) -> Self {
        let top = logits.iter().copied().fold(logits[0], |a, b| if b > a { b } else { a });
        probabilities.iter_mut().zip(logits).for_each(|(p, &x)| *p = (x - top).exp());
        let sum = probabilities.iter().copied().sum::<E>();
        let unit = E::ONE / sum;
        probabilities.iter_mut().for_each(|p| *p *= unit);
        Row { logits, top, log_sum: sum.ln() }
    }

    /// The same row from what [`Row::scale`] gave for its logits.
    pub(crate) fn scaled(logits: &'a [E], [top, log_sum]: [E; 2]) -> Self {
        Row { logits, top, log_sum }
    }

    /// What turns a logit into a log-probability.
    pub(crate) fn scale(&self) -> [E; 2] {
        [self.top, self.log_sum]
    }

    /// log pi(action)
    pub fn log_prob(&self, action: usize) -> E {
        (self.logits[action] - self.top) - self.log_sum
    }

    /// KL(new || old) for the log probabilities of the old policy, as [`normalize`] computes them.
    pub fn kl(&self, probabilities: &[E], old: &[E]) -> E {
        let terms = probabilities.iter().zip(old).enumerate();
        terms.map(|(i, (&p, &q))| p * (self.log_prob(i) - q)).sum()
    }

    /// From probabilities to the gradient of `w` log pi(action) + `e` entropy, in place.
    pub fn gradient(&self, action: usize, w: E, e: E, probabilities: &mut [E]) {
        if e == E::ZERO {
            probabilities.iter_mut().for_each(|p| *p = -w * *p);
        } else {
            let entropy = -probabilities.iter().enumerate().map(|(i, &p)| p * self.log_prob(i)).sum::<E>();
            for (i, p) in probabilities.iter_mut().enumerate() {
                *p = -*p * (w + e * (self.log_prob(i) + entropy));
            }
        }
        probabilities[action] += w;
    }
}
