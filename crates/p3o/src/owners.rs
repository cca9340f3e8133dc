//! Which process improves which network of a group, where a run has several.
//!
//! Passes over whole batches are shared by all of them. Mini-batches are too small for that, and a device elsewhere is one process's own:
//! then every network has an owner, which improves it and tells the others what it has become.

use crate::algo::multiplier::Multiplier;
use crate::algo::{Order, Passes};
use crate::batch::TrainingBatch;
use crate::config;
use crate::critic::{Critic, TargetScale};
use crate::engine::{CriticEngine, Networks};
use crate::error::Error;
use crate::group::{Group, Round};
use crate::policy::Policy;
use crate::ranks::Ranks;
use p3o_nn::{Adam, Network};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// The process that owns the actor, where one does.
const ACTORS: usize = 0;

/// Who improves what.
pub(crate) struct Owners {
    size: usize,
    /// Whether networks learn elsewhere than on the host's cores.
    pub elsewhere: bool,
    actor: bool,
    critics: bool,
}

/// What the improvement of a group came to.
pub(crate) struct Outcome {
    pub passes: Passes,
    pub critic_losses: Vec<f64>,
}

impl Owners {
    pub fn of(round: &Round, elsewhere: bool) -> Owners {
        let (config, several) = (round.config, !round.ranks.is_alone());
        let first_order = config.algorithm().info().order == Order::First;
        Owners {
            size: round.ranks.size(),
            elsewhere,
            actor: several && (elsewhere || (config.policy.minibatch > 0 && first_order)),
            critics: several && (elsewhere || config.critic.minibatch > 0),
        }
    }

    /// The owner of a critic: not the actor's, if that can be helped. On a device they learn together.
    pub fn critic(&self, critic: usize) -> usize {
        let others = (self.size - 1).max(1);
        (1 + if self.elsewhere { 0 } else { critic % others }) % self.size
    }

    /// Whether this process owns a network.
    pub fn is_anyone(&self, rank: usize) -> bool {
        rank == ACTORS || rank == self.critic(0)
    }

    /// Whether every network has an owner, so that nothing is shared while they learn.
    pub fn are_all(&self) -> bool {
        self.actor && self.critics
    }

    /// Whether a process takes part in the policy's passes.
    pub fn acts(&self, rank: usize) -> bool {
        !self.actor || rank == ACTORS
    }

    /// Fits the critics that a process takes part in; returns the losses of these.
    pub fn fit(
        &self,
        rank: usize,
        critics: &mut dyn CriticEngine,
        batch: &TrainingBatch,
        settings: &config::Critic,
        learning_rate: f64,
        rngs: &mut [ChaCha8Rng],
    ) -> Vec<f64> {
        if !self.critics || (self.elsewhere && rank == self.critic(0)) {
            return critics.fit_all(batch, settings, learning_rate, rngs);
        }
        let fit = |(i, rng): (usize, &mut ChaCha8Rng)| {
            let own = !self.elsewhere && rank == self.critic(i);
            let loss = own.then(|| critics.fit_one(batch, i, settings, learning_rate, rng)).flatten();
            loss.unwrap_or(f64::NAN)
        };
        rngs.iter_mut().enumerate().map(fit).collect()
    }
}

/// The values that critics of one process give.
pub(crate) struct OwnersValues<'a> {
    pub critics: &'a mut dyn CriticEngine,
    pub ranks: &'a Ranks,
    pub owner: usize,
}

impl CriticEngine for OwnersValues<'_> {
    fn values(&mut self, batch: &TrainingBatch, critic: usize, values: &mut [f32], open_values: &mut [f32]) {
        let mut bytes = Vec::new();
        if self.ranks.rank() == self.owner {
            self.critics.values(batch, critic, values, open_values);
            bytes.extend_from_slice(bytemuck::cast_slice(values));
            bytes.extend_from_slice(bytemuck::cast_slice(open_values));
        }
        // What went wrong is asked for when the update is over.
        if self.ranks.broadcast(self.owner, &mut bytes).is_ok() && bytes.len() == 4 * (values.len() + open_values.len())
        {
            let (own, open) = bytes.split_at(4 * values.len());
            bytemuck::cast_slice_mut(values).copy_from_slice(own);
            bytemuck::cast_slice_mut(open_values).copy_from_slice(open);
        }
    }

    fn fit_all(
        &mut self,
        batch: &TrainingBatch,
        settings: &config::Critic,
        learning_rate: f64,
        rngs: &mut [ChaCha8Rng],
    ) -> Vec<f64> {
        self.critics.fit_all(batch, settings, learning_rate, rngs)
    }
}

/// A network with its optimiser.
#[derive(Serialize, Deserialize)]
struct NetState {
    parameters: Vec<f32>,
    moments: Moments,
}

/// What an optimiser keeps.
type Moments = (Vec<f32>, Vec<f32>, u64);

fn moments(adam: &Adam<f32>) -> Moments {
    let (m, v, steps) = adam.state();
    (m.to_vec(), v.to_vec(), steps)
}

impl NetState {
    fn of(net: &Network<f32>, adam: &Adam<f32>) -> NetState {
        NetState { parameters: net.params().to_vec(), moments: moments(adam) }
    }

    fn give(&self, net: &mut Network<f32>, adam: &mut Adam<f32>) {
        net.set_params(&self.parameters);
        adam.set_state(&self.moments.0, &self.moments.1, self.moments.2);
    }
}

/// What an owner made of the actor.
#[derive(Serialize, Deserialize)]
struct ActorState {
    net: NetState,
    log_std: Vec<f32>,
    log_std_moments: Moments,
    multipliers: Vec<Multiplier>,
    shuffle: ChaCha8Rng,
    passes: Passes,
}

impl ActorState {
    fn of(policy: &Policy, multipliers: &[Multiplier], shuffle: &ChaCha8Rng, passes: &Passes) -> ActorState {
        ActorState {
            net: NetState::of(&policy.net, &policy.adam),
            log_std: policy.log_std.clone(),
            log_std_moments: moments(&policy.adam_log_std),
            multipliers: multipliers.to_vec(),
            shuffle: shuffle.clone(),
            passes: passes.clone(),
        }
    }

    fn give(&self, policy: &mut Policy) {
        self.net.give(&mut policy.net, &mut policy.adam);
        policy.log_std.clone_from(&self.log_std);
        let (m, v, steps) = &self.log_std_moments;
        policy.adam_log_std.set_state(m, v, *steps);
    }
}

/// What an owner made of a critic.
#[derive(Serialize, Deserialize)]
struct CriticState {
    net: NetState,
    scale: TargetScale,
    shuffle: ChaCha8Rng,
    loss: f64,
    /// Its states between this batch and the next, where it is recurrent.
    states: Option<Vec<f32>>,
}

impl CriticState {
    fn give(&self, critic: &mut Critic) {
        self.net.give(&mut critic.net, &mut critic.adam);
        critic.scale = self.scale;
    }
}

impl Group {
    /// Lets every process have what the owners made of their networks. What failed on a device of one of them fails everywhere.
    pub(crate) fn settle(&mut self, round: &Round, owners: &Owners, mut outcome: Outcome) -> Result<Outcome, Error> {
        let (ranks, rank) = (round.ranks, round.ranks.rank());
        if !owners.actor && !owners.critics {
            return Ok(outcome);
        }
        let failed = |what| Error::Device { update: round.update, what };
        let synced = if owners.is_anyone(rank) { self.engine.sync() } else { Ok(()) };
        if owners.elsewhere {
            let all: Vec<Result<(), String>> = ranks.gather_values(synced)?;
            all.into_iter().collect::<Result<(), String>>().map_err(failed)?;
        }
        if owners.actor {
            let own = (rank == ACTORS).then(|| {
                let policy = &self.engine.networks().policy;
                ActorState::of(policy, &self.multipliers, &self.shuffles[0], &outcome.passes)
            });
            let state = ranks.broadcast_value(ACTORS, own)?;
            if rank != ACTORS {
                self.change(&mut |networks| state.give(&mut networks.policy)).map_err(failed)?;
                self.multipliers.clone_from(&state.multipliers);
                self.shuffles[0] = state.shuffle;
                outcome.passes = state.passes;
            }
        }
        let critics = if owners.critics { self.engine.networks().critics.len() } else { 0 };
        for i in 0..critics {
            let owner = owners.critic(i);
            let own = (rank == owner).then(|| self.critic_state(i, outcome.critic_losses[i]));
            let state: CriticState = ranks.broadcast_value(owner, own)?;
            if rank != owner {
                self.change(&mut |networks| state.give(&mut networks.critics[i])).map_err(failed)?;
                self.shuffles[1 + i] = state.shuffle;
                outcome.critic_losses[i] = state.loss;
                if let Some(states) = state.states {
                    let mut all = self.engine.critic_states();
                    all[i] = states;
                    self.engine.set_critic_states(all);
                }
            }
        }
        Ok(outcome)
    }

    fn critic_state(&self, i: usize, loss: f64) -> CriticState {
        let Critic { net, adam, scale } = &self.engine.networks().critics[i];
        let states = self.engine.critic_states().into_iter().nth(i);
        CriticState { net: NetState::of(net, adam), scale: *scale, shuffle: self.shuffles[1 + i].clone(), loss, states }
    }

    fn change(&mut self, change: &mut dyn FnMut(&mut Networks)) -> Result<(), String> {
        self.engine.change_networks(&mut |networks| {
            change(networks);
            Ok(())
        })
    }
}
