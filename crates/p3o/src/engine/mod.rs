//! The boundary between algorithms and networks: what is behind it may live elsewhere than in host memory.
//!
//! An [`Engine`] holds the networks of one group of agents, their optimisers and the batch of an update. An algorithm asks
//! it for passes: forward, a weight per row, backward. "Every algorithm is one weight per row" keeps the boundary narrow:
//! a [`RowLoss`] is a few numbers, and what comes back is a [`Sums`]. [`cpu::CpuEngine`] fuses the three steps of a pass.
//!
//! Nothing here returns an error. An engine that fails (a lost device, no memory) answers with sums that are not finite,
//! which ends every loop of passes, and says why in [`Engine::check`], which the learner asks once per update.
//!
//! Every total over a batch is formed from parts that are fixed by the batch's size, and added in their order in one place:
//! gradients in `p3o_nn`, everything else in [`crate::reduce`]. Where several processes share a batch, their parts are brought
//! together before ([`crate::ranks`]).

pub mod cpu;
mod critic_states;

use crate::algo::focops::Proximal;
use crate::algo::natural::Surrogate;
use crate::algo::p3o::Clipped;
use crate::batch::TrainingBatch;
use crate::config;
use crate::critic::Critic;
use crate::policy::Policy;
use crate::ranks::Ranks;
use crate::reduce::Part;
use rand_chacha::ChaCha8Rng;

/// A loss as an engine sees it: what weight each row of a batch has in the gradient. The formulas stand in the algorithms'
/// files; an algorithm whose weights have another form adds it here and to every engine.
#[derive(Clone, Debug, PartialEq)]
pub enum RowLoss {
    /// The reward's clipped surrogate and the costs', clipped or plain, each with a factor: P3O, PPO, PPO-L, IPO.
    Clipped(Clipped),
    /// FOCOPS: plain surrogates with multipliers and the KL, where it is small enough.
    Proximal(Proximal),
    /// Plain surrogates with factors: the gradients of TRPO and its kin.
    Surrogate(Surrogate),
}

/// How the factors of a [`RowLoss`] follow from the batch's mean cost surrogates, in a form that an engine can evaluate by
/// itself, between the two halves of a pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// They do not.
    Fixed,
    /// A cost's factor counts where its mean plus its offset is positive; with `balance` the gradient is divided by one plus
    /// the sum of those that count. See [`crate::algo::p3o::gates`].
    Gates {
        /// What stands beside each mean.
        offsets: Vec<f64>,
        /// See `p3o.balance`.
        balance: bool,
    },
    /// The shares of the reward and of every cost are those of a barrier of this height; see [`crate::algo::ipo::shares`].
    Barrier {
        /// What stands beside each mean.
        offsets: Vec<f64>,
        /// t of the barrier log(-x) / t.
        t: f64,
    },
}

/// Several passes of Adam over the batch, for an engine that needs no host between them.
#[derive(Clone, Debug)]
pub struct Descent {
    /// What is minimised, pass by pass.
    pub passes: Vec<(RowLoss, Rule)>,
    /// Factor of the entropy.
    pub entropy: f32,
    /// Adam's.
    pub learning_rate: f64,
    /// The mean KL that ends it.
    pub target_kl: f64,
    /// Rows of a mini-batch and what shuffles them; none: whole batches.
    pub minibatch: Option<(usize, ChaCha8Rng)>,
    /// Steps over which the parameters are averaged, so that the descent ends at their moving average; 0: at its last step.
    pub average: usize,
}

impl Descent {
    /// The part of the descent's step of this number, the first of which is 1, in the average: steps count alike while they are fewer than
    /// the average is over, and then as in an exponential one.
    pub fn share_of_average(&self, step: usize) -> f64 {
        1.0 / step.min(self.average).max(1) as f64
    }
}

/// What a [`Descent`] saw and did.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The sums of every pass, or mini-batch, in order; those of the last may have ended it without a step.
    pub sums: Vec<Sums>,
    /// Norm of the last gradient.
    pub gradient_norm: f64,
}

/// Terms that an algorithm may count beside the reward's and the costs'.
pub const EXTRA_TERMS: usize = 2;

/// Means over a batch, or over a part of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// KL(pi_theta || pi_k) over states.
    pub kl: f64,
    /// The loss terms: the reward's, then each constraint's, then [`EXTRA_TERMS`].
    pub terms: Vec<f64>,
}

impl Sums {
    /// With so many terms of zero.
    pub fn zero(terms: usize) -> Self {
        Sums { kl: 0.0, terms: vec![0.0; terms] }
    }

    /// Adds `share` times another's.
    pub fn add(&mut self, other: &Sums, share: f64) {
        if self.terms.is_empty() {
            self.terms.resize(other.terms.len(), 0.0);
        }
        self.kl += share * other.kl;
        self.terms.iter_mut().zip(&other.terms).for_each(|(t, o)| *t += share * o);
    }

    /// These sums' part in the means over so many rows.
    pub fn scaled(&self, rows: usize) -> Sums {
        let share = 1.0 / rows as f64;
        Sums { kl: share * self.kl, terms: self.terms.iter().map(|t| share * t).collect() }
    }

    /// Whether nothing is infinite or NaN.
    pub fn is_finite(&self) -> bool {
        self.kl.is_finite() && self.terms.iter().all(|t| t.is_finite())
    }

    /// Back to zero.
    pub fn clear(&mut self) {
        self.kl = 0.0;
        self.terms.fill(0.0);
    }
}

impl Part for Sums {
    fn merge(&mut self, next: Sums) {
        self.add(&next, 1.0);
    }
}

/// The networks of one group of agents, with their optimisers.
pub struct Networks {
    /// The actor.
    pub policy: Policy,
    /// Of the reward, then of every constraint.
    pub critics: Vec<Critic>,
}

impl Networks {
    /// Whether every parameter is finite.
    pub fn is_finite(&self) -> bool {
        self.policy.is_finite() && self.critics.iter().all(Critic::is_finite)
    }
}

/// Puts the networks of a group into an engine; the second argument says whether the critics see several agents in a row, and so
/// other rows than the actor. What goes wrong is a sentence.
pub type Maker<'a> = dyn Fn(Networks, bool) -> Result<Box<dyn Engine>, String> + 'a;

/// The maker of [`cpu::CpuEngine`]s.
pub fn on_cpu(networks: Networks, several: bool) -> Result<Box<dyn Engine>, String> {
    Ok(Box::new(cpu::CpuEngine::new(networks, several)))
}

/// Where one group's networks live and learn.
pub trait Engine: Send {
    /// Where it is, for the record of a run.
    fn name(&self) -> String {
        "cpu".into()
    }

    /// The networks, as they stand between two updates. What their optimisers keep may be older, until [`Engine::sync`].
    fn networks(&self) -> &Networks;

    /// Brings the optimisers in [`Engine::networks`] up to date too: they are not needed to act, only to be saved.
    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Replaces parameters and optimisers by those that `change` leaves.
    fn change_networks(&mut self, change: &mut dyn FnMut(&mut Networks) -> Result<(), String>) -> Result<(), String>;

    /// Each recurrent critic's states between this batch and the next.
    fn critic_states(&self) -> Vec<Vec<f32>>;

    /// Goes on from the states of [`Engine::critic_states`].
    fn set_critic_states(&mut self, states: Vec<Vec<f32>>);

    /// Takes in a batch: observations, actions and what the old policy said of them.
    fn upload(&mut self, batch: &TrainingBatch);

    /// Takes in the advantages and the critics' targets, once they are known.
    fn upload_targets(&mut self, batch: &TrainingBatch);

    /// The actor's part and the critics', which may work at the same time.
    fn parts(&mut self) -> (Box<dyn PolicyEngine + '_>, Box<dyn CriticEngine + '_>);

    /// Lets processes that hold the same batch share whatever is asked about the whole of it. An engine that works elsewhere does not.
    fn share_out(&mut self, _: &Ranks) {}

    /// Whether it works elsewhere than on the host's cores, so that actor and critics should be asked at the same time.
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// What went wrong since the last call, if anything did.
    fn check(&mut self) -> Result<(), String>;
}

/// What an algorithm asks of an engine. The batch is the uploaded one: an engine that has it elsewhere does not read it.
pub trait PolicyEngine: Send {
    /// One pass over some pieces of the batch (all without `pieces`): leaves the gradient of the loss minus `entropy` times
    /// the mean entropy, and returns the means over those rows.
    fn pass(&mut self, batch: &TrainingBatch, pieces: Option<&[u32]>, loss: &RowLoss, entropy: f32) -> Sums;

    /// A whole descent, if the engine can make it by itself.
    fn descend(&mut self, _: &TrainingBatch, _: &Descent) -> Option<Record> {
        None
    }

    /// The means of the plain surrogates -r A_R and r A_C_i and of the KL over the whole batch, without a gradient.
    fn measure(&mut self, batch: &TrainingBatch) -> Sums;

    /// A step of Adam along the gradient of the last pass; returns the gradient's norm.
    fn step(&mut self, learning_rate: f64) -> f64;

    /// The gradient of the last pass, in the order of [`PolicyEngine::parameters`].
    fn gradient(&mut self) -> Vec<f64>;

    /// H v without damping, H the Hessian of the mean KL at the policy that collected the batch.
    fn fisher_product(&mut self, v: &[f64]) -> Vec<f64>;

    /// All parameters of the policy.
    fn parameters(&mut self) -> Vec<f32>;

    /// Replaces all parameters of the policy.
    fn set_parameters(&mut self, parameters: &[f32]);
}

/// What the critics' fit asks of an engine.
pub trait CriticEngine: Send {
    /// The values of every row by one critic, and of what follows the open ends of the batch.
    fn values(&mut self, batch: &TrainingBatch, critic: usize, values: &mut [f32], open_values: &mut [f32]);

    /// Fits every critic to its targets; returns each one's loss at the first pass.
    fn fit_all(
        &mut self,
        batch: &TrainingBatch,
        settings: &config::Critic,
        learning_rate: f64,
        rngs: &mut [ChaCha8Rng],
    ) -> Vec<f64>;

    /// The same for one critic, where they are fitted one by one.
    fn fit_one(
        &mut self,
        _: &TrainingBatch,
        _critic: usize,
        _: &config::Critic,
        _learning_rate: f64,
        _: &mut ChaCha8Rng,
    ) -> Option<f64> {
        None
    }
}
