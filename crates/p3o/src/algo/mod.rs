//! The algorithms: pure functions of a batch. Nothing here does IO, knows an environment or starts a thread.

pub mod p3o;
pub mod violation;

use crate::policy::{Behaviour, PassSums, Policy, PolicyMemory};
use p3o_nn::Tiles;

/// What a policy's update sees.
pub struct PolicyBatch<'a> {
    /// Observations, packed.
    pub x: &'a Tiles<f32>,
    /// The same row-major, for mini-batches.
    pub rows: &'a [f32],
    /// The policy that collected them.
    pub old: Behaviour<'a>,
    /// Reward advantages.
    pub adv_r: &'a [f32],
    /// Cost advantages of every constraint.
    pub adv_c: &'a [Vec<f32>],
    /// What stands beside their mean in each L_C_i.
    pub offsets: &'a [f64],
}

/// Memory of a policy's update.
pub struct Memory {
    policy: PolicyMemory,
    sums: PassSums,
    order: Vec<u32>,
    picked: Tiles<f32>,
}

impl Memory {
    /// For batches of up to `chunks` parts and `constraints` constraints.
    pub fn new(policy: &Policy, chunks: usize, constraints: usize) -> Self {
        Memory {
            policy: policy.memory(chunks, 1 + constraints),
            sums: PassSums::new(1 + constraints),
            order: Vec::new(),
            picked: Tiles::new(policy.net.inputs()),
        }
    }

    /// The part that evaluates a policy.
    pub fn policy(&mut self) -> &mut PolicyMemory {
        &mut self.policy
    }
}

/// What the passes of one update did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Passes {
    /// Steps taken.
    pub steps: usize,
    /// Passes done again because a constraint's sign had been guessed wrong.
    pub redone: usize,
    /// The whole loss at the last pass.
    pub loss: f64,
    /// L_R at the last pass.
    pub loss_r: f64,
    /// The mean cost terms at the last pass, without offsets.
    pub loss_c: Vec<f64>,
    /// Mean KL at the last pass, before its step.
    pub kl: f64,
    /// Kappa at the last pass.
    pub kappa: f64,
    /// Share of the passes in which each constraint was penalised.
    pub penalized: Vec<f64>,
    /// Norm of the last gradient.
    pub gradient_norm: f64,
    observed: usize,
}

impl Passes {
    fn new(constraints: usize) -> Self {
        Passes { loss_c: vec![0.0; constraints], penalized: vec![0.0; constraints], ..Passes::default() }
    }

    fn observe(&mut self, sums: &PassSums, loss: f64, kappa: f64, gates: &[bool]) {
        (self.loss, self.loss_r, self.kl, self.kappa) = (loss, sums.terms[0], sums.kl, kappa);
        self.loss_c.copy_from_slice(&sums.terms[1..]);
        self.observed += 1;
        for (share, &gate) in self.penalized.iter_mut().zip(gates) {
            *share += (f64::from(u8::from(gate)) - *share) / self.observed as f64;
        }
    }

    fn stepped(&mut self, gradient_norm: f64) {
        self.gradient_norm = gradient_norm;
        self.steps += 1;
    }

    /// Whether the loss and the gradient stayed finite.
    pub fn is_finite(&self) -> bool {
        // The cost terms too: a NaN among them disappears in max(0, L_C_i).
        let figures = [self.loss, self.kl, self.gradient_norm];
        figures.iter().chain(&self.loss_c).all(|x| x.is_finite())
    }
}

/// Mean of a batch, summed in f64 in order.
fn mean(values: &[f32]) -> f64 {
    values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len() as f64
}
