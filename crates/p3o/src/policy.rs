//! The actor: a network and the distribution that its outputs parametrise.

use crate::config::{self, Net};
use p3o_env::ActionSpace;
use p3o_nn::{Activation, Adam, Gru, Init, Mlp, Network, gaussian, multi_categorical};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// A network of the configured shape from `inputs` to `outputs`.
pub fn network(net: &Net, inputs: usize, outputs: usize, head_gain: f64, rng: &mut ChaCha8Rng) -> Network<f32> {
    let activation = match net.activation {
        config::Activation::Tanh => Activation::Tanh,
        config::Activation::Relu => Activation::Relu,
        config::Activation::Identity => Activation::Identity,
    };
    let units = net.is_recurrent().then_some(net.gru);
    let sizes: Vec<usize> =
        std::iter::once(inputs).chain(net.hidden.iter().copied()).chain(units).chain([outputs]).collect();
    let mut network = match units {
        None => Network::FeedForward(Mlp::new(&sizes, activation)),
        Some(_) => Network::Recurrent(Gru::new(&sizes, activation)),
    };
    let init = match net.init {
        config::Init::Orthogonal => Init::Orthogonal { head_gain },
        config::Init::Glorot => Init::Glorot,
    };
    network.init(init, rng);
    network
}

/// A policy pi(a | s).
#[derive(Clone)]
pub struct Policy {
    /// From observation to mean action or logits.
    pub net: Network<f32>,
    /// Logarithm of the standard deviation of each action; empty for discrete actions.
    pub log_std: Vec<f32>,
    /// How many logits each discrete action has; empty for continuous ones.
    pub heads: Vec<usize>,
    /// Optimiser of the network.
    pub adam: Adam<f32>,
    /// Optimiser of `log_std`.
    pub adam_log_std: Adam<f32>,
}

/// What the policy was when the batch was collected.
pub struct Behaviour<'a> {
    /// Network outputs for every row; for discrete actions their log-probabilities.
    pub outputs: &'a [f32],
    /// Its logarithm of the standard deviation.
    pub log_std: &'a [f32],
    /// The actions taken, one row each.
    pub actions: &'a [f32],
    /// Their log-probabilities.
    pub log_probs: &'a [f32],
}

impl Policy {
    /// A fresh policy.
    pub fn new(net: &Net, obs_dim: usize, action: &ActionSpace, rng: &mut ChaCha8Rng) -> Self {
        let heads = action.heads();
        let log_std = if heads.is_empty() { vec![net.log_std as f32; action.width()] } else { Vec::new() };
        let net = network(net, obs_dim, action.outputs(), 0.01, rng);
        let (adam, adam_log_std) = (Adam::new(net.params().len(), 0.0), Adam::new(log_std.len(), 0.0));
        Policy { net, log_std, heads, adam, adam_log_std }
    }

    /// Whether actions are discrete.
    pub fn is_discrete(&self) -> bool {
        !self.heads.is_empty()
    }

    /// Numbers in an action.
    pub fn action_width(&self) -> usize {
        if self.is_discrete() { self.heads.len() } else { self.log_std.len() }
    }

    /// Draws an action for one row of outputs and returns its log-probability.
    pub fn act(&self, outputs: &[f32], action: &mut [f32], rng: &mut ChaCha8Rng) -> f32 {
        if self.is_discrete() {
            multi_categorical::sample(&self.heads, outputs, action, rng);
        } else {
            gaussian::sample(outputs, &self.log_std, action, rng);
        }
        self.log_prob(outputs, action)
    }

    /// The likeliest action for one row of outputs.
    pub fn act_greedily(&self, outputs: &[f32], action: &mut [f32]) {
        if self.is_discrete() {
            multi_categorical::mode(&self.heads, outputs, action);
        } else {
            action.copy_from_slice(outputs);
        }
    }

    fn log_prob(&self, outputs: &[f32], action: &[f32]) -> f32 {
        if self.is_discrete() {
            multi_categorical::log_prob(&self.heads, outputs, action)
        } else {
            gaussian::log_prob(outputs, &self.log_std, action)
        }
    }

    /// Mean entropy of the policy; for discrete actions, of the given rows of outputs.
    pub fn entropy(&self, outputs: &[f32]) -> f64 {
        if !self.is_discrete() {
            return f64::from(gaussian::entropy(&self.log_std));
        }
        let n = self.net.outputs();
        let of_row = |row: &[f32]| f64::from(multi_categorical::entropy(&self.heads, row));
        let rows: Vec<f64> = outputs.par_chunks_exact(n).map(of_row).collect();
        rows.iter().sum::<f64>() / rows.len() as f64
    }

    /// Turns rows of logits into log-probabilities, as [`Behaviour`] holds them.
    pub fn normalize_outputs(&self, outputs: &mut [f32]) {
        if self.is_discrete() {
            let rows = outputs.par_chunks_exact_mut(self.net.outputs());
            rows.for_each(|row| multi_categorical::normalize(&self.heads, row));
        }
    }

    /// All parameters: the network's in its own order, padding included, then `log_std`.
    pub fn parameters(&self) -> Vec<f32> {
        self.net.params().iter().chain(&self.log_std).copied().collect()
    }

    /// Replaces all parameters by some in the order of [`Policy::parameters`].
    pub fn set_parameters(&mut self, parameters: &[f32]) {
        let (net, log_std) = parameters.split_at(self.net.params().len());
        self.net.set_params(net);
        self.log_std.copy_from_slice(log_std);
    }

    /// Whether every parameter is finite.
    pub fn is_finite(&self) -> bool {
        all_finite(self.net.params()) && all_finite(&self.log_std)
    }
}

/// Whether no number is infinite or NaN. No early exit, so that it compiles to a few vector instructions.
pub fn all_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    !values.iter().fold(false, |bad, x| bad | (x.to_bits() & EXPONENT == EXPONENT))
}

/// Euclidean norm; not finite if any entry is not.
pub fn norm(values: &[f32]) -> f64 {
    values.iter().map(|&g| f64::from(g) * f64::from(g)).sum::<f64>().sqrt()
}
