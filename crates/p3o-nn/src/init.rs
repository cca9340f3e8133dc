//! Initial parameters.

use crate::activation::Activation;
use crate::gru::Gru;
use crate::mlp::Mlp;
use crate::real::Real;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// How the initial weights are drawn; biases start at zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Orthogonal matrices, scaled by sqrt(2) for relu, 1 otherwise, and by `head_gain` in the last layer.
    Orthogonal {
        /// Scale of the last layer.
        head_gain: f64,
    },
    /// Uniform in +-sqrt(6 / (inputs + outputs)) in every layer (Glorot and Bengio, 2010), as in the code of
    /// safety-starter-agents.
    Glorot,
}

impl<E: Real> Mlp<E> {
    /// Draws all initial parameters.
    pub fn init(&mut self, init: Init, rng: &mut impl Rng) {
        let mut flat = vec![E::ZERO; self.params().len()];
        let depth = self.depth();
        for l in 0..depth {
            let (inputs, outputs) = (self.sizes()[l], self.sizes()[l + 1]);
            let weights = match init {
                Init::Orthogonal { head_gain } => {
                    let hidden = if self.activation() == Activation::Relu { std::f64::consts::SQRT_2 } else { 1.0 };
                    orthogonal(inputs, outputs, if l + 1 == depth { head_gain } else { hidden }, rng)
                }
                Init::Glorot => glorot(inputs, outputs, rng),
            };
            let weights: Vec<E> = weights.into_iter().map(E::of).collect();
            self.pack(&mut flat, l, &weights, &vec![E::ZERO; outputs]);
        }
        self.set_params(&flat);
    }
}

impl<E: Real> Gru<E> {
    /// Draws all initial parameters. As in MAPPO, `Orthogonal` scales dense layers by 5/3 for tanh and leaves the GRU's
    /// two matrices unscaled; normalisations start as the identity.
    pub fn init(&mut self, init: Init, rng: &mut impl Rng) {
        let mut flat = vec![E::ZERO; self.params().len()];
        for l in 0..self.depth() {
            let (inputs, outputs) = self.shape(l);
            let gain = |head_gain| match (self.name(l), self.activation()) {
                ("head", _) => head_gain,
                ("gru_input" | "gru_state", _) | (_, Activation::Identity) => 1.0,
                (_, Activation::Tanh) => 5.0 / 3.0,
                (_, Activation::Relu) => std::f64::consts::SQRT_2,
            };
            let weights = match init {
                _ if self.is_norm(l) => vec![1.0; outputs],
                Init::Orthogonal { head_gain } => orthogonal(inputs, outputs, gain(head_gain), rng),
                Init::Glorot => glorot(inputs, outputs, rng),
            };
            let weights: Vec<E> = weights.into_iter().map(E::of).collect();
            self.pack(&mut flat, l, &weights, &vec![E::ZERO; outputs]);
        }
        self.set_params(&flat);
    }
}

fn glorot(inputs: usize, outputs: usize, rng: &mut impl Rng) -> Vec<f64> {
    let bound = (6.0 / (inputs + outputs) as f64).sqrt();
    (0..inputs * outputs).map(|_| rng.random_range(-bound..bound)).collect()
}

/// A row-major `inputs` x `outputs` matrix whose shorter side's vectors are orthonormal, times `gain`: Gram-Schmidt on
/// Gaussian vectors, each orthogonalised twice so that rounding errors stay small.
fn orthogonal(inputs: usize, outputs: usize, gain: f64, rng: &mut impl Rng) -> Vec<f64> {
    let (count, len) = (inputs.min(outputs), inputs.max(outputs));
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    while basis.len() < count {
        let mut v: Vec<f64> = (0..len).map(|_| rng.sample(StandardNormal)).collect();
        for _ in 0..2 {
            for b in &basis {
                let dot: f64 = v.iter().zip(b).map(|(x, y)| x * y).sum();
                v.iter_mut().zip(b).for_each(|(x, y)| *x -= dot * y);
            }
        }
        let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        // A vector that lies almost in the span of the others would be mostly rounding error.
        if norm > 1e-6 {
            v.iter_mut().for_each(|x| *x /= norm);
            basis.push(v);
        }
    }
    let at = |i: usize, o: usize| if inputs <= outputs { basis[i][o] } else { basis[o][i] };
    (0..inputs * outputs).map(|k| gain * at(k / outputs, k % outputs)).collect()
}
