//! The Adam optimiser (Kingma and Ba, 2015).

use crate::buffer::Buffer;
use crate::kernels::Kernels;
use crate::matrix::{self, AdamRates};
use crate::real::Real;

/// Decay rate of the first moment.
pub const BETA1: f64 = 0.9;
/// Decay rate of the second moment.
pub const BETA2: f64 = 0.999;
/// Added to the root of the second moment, unless an optimiser says otherwise.
pub const EPSILON: f64 = 1e-8;

/// 1 - beta^steps: what a moment that started at zero is divided by after `steps` steps, to make up for its start.
pub fn bias_correction(beta: f64, steps: u64) -> f64 {
    1.0 - libm::pow(beta, steps as f64)
}

/// lr / (1 - beta1^t) and 1 / sqrt(1 - beta2^t) for the step that makes it `steps`.
pub fn rates(learning_rate: f64, steps: u64) -> (f64, f64) {
    let [first, second] = [BETA1, BETA2].map(|beta| bias_correction(beta, steps));
    (learning_rate / first, 1.0 / second.sqrt())
}

/// Adam with the usual decay rates, [`BETA1`] and [`BETA2`].
#[derive(Clone)]
pub struct Adam<E: Real> {
    /// Step size.
    pub learning_rate: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    m: Buffer<E>,
    v: Buffer<E>,
    steps: u64,
}

impl<E: Real> Adam<E> {
    /// For `len` parameters, with both moments zero.
    pub fn new(len: usize, learning_rate: f64) -> Self {
        Adam { learning_rate, epsilon: EPSILON, m: Buffer::zeros(len), v: Buffer::zeros(len), steps: 0 }
    }

    /// First moments, second moments, steps taken: the whole state to save.
    pub fn state(&self) -> (&[E], &[E], u64) {
        (&self.m, &self.v, self.steps)
    }

    /// Continues from a saved state.
    pub fn set_state(&mut self, m: &[E], v: &[E], steps: u64) {
        self.m.copy_from_slice(m);
        self.v.copy_from_slice(v);
        self.steps = steps;
    }

    pub(crate) fn step(&mut self, kernels: &Kernels<E>, params: &mut [E], grads: &[E]) {
        let (step, root) = self.advance();
        let rates = AdamRates { beta1: E::of(BETA1), beta2: E::of(BETA2), step, root, epsilon: E::of(self.epsilon) };
        matrix::adam(kernels, rates, params, grads, [&mut self.m, &mut self.v]);
    }

    /// The same step, to the bit, on a few loose parameters, such as the log standard deviations of a policy.
    pub fn step_few(&mut self, params: &mut [E], grads: &[E]) {
        assert!(params.len() == grads.len() && self.m.len() == params.len());
        let (step, root) = self.advance();
        let (beta1, beta2) = (E::of(BETA1), E::of(BETA2));
        for (i, (p, &g)) in params.iter_mut().zip(grads).enumerate() {
            self.m[i] = beta1.mul_add(self.m[i], (E::ONE - beta1) * g);
            self.v[i] = beta2.mul_add(self.v[i], (E::ONE - beta2) * (g * g));
            let denominator = E::of(self.v[i].f64().sqrt()).mul_add(root, E::of(self.epsilon));
            *p = (-step).mul_add(self.m[i] / denominator, *p);
        }
    }

    /// Counts a step; returns lr / (1 - beta1^t) and 1 / sqrt(1 - beta2^t).
    fn advance(&mut self) -> (E, E) {
        self.steps += 1;
        let (step, root) = rates(self.learning_rate, self.steps);
        (E::of(step), E::of(root))
    }
}
