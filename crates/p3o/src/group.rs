//! The agents that share networks, and their update: advantages, policy, critics.
//!
//! An ordinary world has one group of one agent. MAP3O has one group of all agents: its actor sees each agent's own
//! observation, its critics all of them at once, and every agent's action has the team's advantage (Algorithm 4). In
//! MAP3O (dec) every agent is a group of its own, whose critics see no more than its actor does (Algorithm 3). The
//! algorithms know nothing of it.

use crate::actor::Actor;
use crate::algo::multiplier::Multiplier;
use crate::algo::{Passes, Update, p3o};
use crate::batch::{Members, TrainingBatch};
use crate::config::{Config, Constraint};
use crate::critic::Critic;
use crate::engine::{self, Engine, Networks};
use crate::error::Error;
use crate::normalize::{Moments, Normalizer};
use crate::owners::{Outcome, Owners, OwnersValues};
use crate::policy::Policy;
use crate::ranks::Ranks;
use crate::rollout::EnvSteps;
use crate::signals::Signals;
use p3o_env::EnvSpec;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use std::ops::Range;

/// See the module.
pub(crate) struct Group {
    pub members: Members,
    /// Of one agent's observation; agents that share a policy share the statistics too.
    pub normalizer: Normalizer,
    pub engine: Box<dyn Engine>,
    /// The policy's, then each critic's.
    pub shuffles: Vec<ChaCha8Rng>,
    /// One per constraint, for algorithms that have them.
    pub multipliers: Vec<Multiplier>,
    pub batch: TrainingBatch,
}

/// What one group saw and did in an update.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupReport {
    /// Offset of every constraint as it stood in the loss.
    pub offsets: Vec<f64>,
    pub passes: Passes,
    pub entropy: f64,
    pub critic_losses: Vec<f64>,
    pub explained: Vec<f64>,
}

/// What all groups of an update have in common.
pub(crate) struct Round<'a> {
    pub config: &'a Config,
    pub signals: &'a Signals,
    /// J_C_i - d_i of every constraint.
    pub excess: &'a [f64],
    /// Mean length of an episode.
    pub length: f64,
    /// Share of the run that is done.
    pub done: f64,
    /// Its number.
    pub update: u64,
    /// The processes that share the work.
    pub ranks: &'a Ranks,
}

impl Group {
    /// A fresh group of these agents.
    pub fn new(
        config: &Config,
        spec: &EnvSpec,
        agents: Range<usize>,
        signals: &Signals,
        shuffles: Vec<ChaCha8Rng>,
        rng: &mut ChaCha8Rng,
        engines: &engine::Maker,
    ) -> Result<Self, String> {
        let dim = spec.obs_dim / spec.agents;
        let members = Members { agents, all: spec.agents, dim };
        let policy = Policy::new(&config.net, dim, &spec.action, rng);
        let seen = dim * members.agents.len();
        let critics = signals.all().iter().map(|_| Critic::new(&config.net, seen, rng)).collect();
        let bptt = if config.net.is_recurrent() { config.net.bptt } else { 1 };
        let initial = || config.own.section().get("multiplier").and_then(|value| value.as_float());
        let first = config.algorithm().info().multipliers.then(initial).flatten().map(Multiplier::new);
        Ok(Group {
            normalizer: Normalizer::new(dim, config.rollout.normalize_obs),
            engine: engines(Networks { policy, critics }, members.agents.len() > 1)?,
            shuffles,
            multipliers: first.map_or(Vec::new(), |first| vec![first; signals.constraints().len()]),
            batch: TrainingBatch::new(signals.all().len(), bptt, &members),
            members,
        })
    }

    /// What acts for the group.
    pub fn actor(&self) -> Actor<'_> {
        let policy = &self.engine.networks().policy;
        Actor { policy, normalizer: &self.normalizer, agents: self.members.agents.clone() }
    }

    /// Advantages, policy, critics.
    pub fn update(&mut self, envs: &[EnvSteps], round: &Round) -> Result<GroupReport, Error> {
        let Round { config, signals, ranks, .. } = *round;
        self.batch.gather(envs, &self.members, &self.engine.networks().policy);
        let owners = Owners::of(round, self.engine.is_elsewhere());
        let learns_here = !owners.elsewhere || owners.is_anyone(ranks.rank());
        if learns_here {
            self.engine.upload(&self.batch);
        }
        let (_, mut critics) = self.engine.parts();
        if owners.elsewhere && !ranks.is_alone() {
            let mut of_owner = OwnersValues { critics: &mut *critics, ranks, owner: owners.critic(0) };
            self.batch.estimate_advantages(envs, signals, &mut of_owner, &config.critic);
        } else {
            self.batch.estimate_advantages(envs, signals, &mut *critics, &config.critic);
        }
        drop(critics);
        let offsets = self.standardize(round);
        if learns_here {
            self.engine.upload_targets(&self.batch);
        }
        self.improve(envs, round, &owners, offsets)
    }

    /// Standardises the advantages and finds the constraints' offsets.
    fn standardize(&mut self, round: &Round) -> Vec<f64> {
        let Constraint { form, sum, team, .. } = round.config.constraint;
        let parts = team.parts(self.members.all);
        let [reward, costs @ ..] = &mut self.batch.advantages[..] else { unreachable!("the reward is always there") };
        let signals = round.signals.constraints().par_iter().zip(round.excess);
        let of_costs = costs.par_iter_mut().zip(signals).map(|(adv_c, (signal, &excess))| {
            let weight = sum.weight(round.length, signal.gamma);
            p3o::standardize(form, adv_c, p3o::offset(form, excess, weight, signal.gamma) / parts)
        });
        let ((), offsets) = rayon::join(|| p3o::standardize_reward(form, reward), || of_costs.collect());
        self.batch.repeat_advantages(self.members.agents.len());
        offsets
    }

    /// The policy's passes and the critics' fits, and what needs neither of them.
    fn improve(
        &mut self,
        envs: &[EnvSteps],
        round: &Round,
        owners: &Owners,
        offsets: Vec<f64>,
    ) -> Result<GroupReport, Error> {
        let Group { members, normalizer, engine, shuffles, multipliers, batch } = self;
        let (batch, config, ranks) = (&*batch, round.config, round.ranks);
        let (policy_rng, critic_rngs) = shuffles.split_at_mut(1);
        let (mut actor, mut critics) = engine.parts();
        let mut policy = config.policy.clone();
        let components = (batch.actions.len() / batch.rows()) as f64;
        if policy.entropy_mean {
            policy.entropy /= components;
        }
        if batch.entropy >= policy.entropy_below * components || round.done >= policy.entropy_until {
            policy.entropy = 0.0;
        }
        let limits: Vec<f64> = round.signals.constraints().iter().map(|signal| signal.limit).collect();
        let mut update = Update {
            engine: &mut *actor,
            batch,
            offsets: &offsets,
            excess: round.excess,
            limits: &limits,
            settings: &policy,
            learning_rate: config.policy.lr_decay.apply(config.policy.learning_rate, round.done),
            multipliers,
            rng: &mut policy_rng[0],
        };
        let rate = config.critic.lr_decay.apply(config.critic.learning_rate, round.done);
        let mut act = || owners.acts(ranks.rank()).then(|| config.own.update(&mut update));
        let mut fit = || owners.fit(ranks.rank(), &mut *critics, batch, &config.critic, rate, critic_rngs);
        let rest = || (own_moments(normalizer, members, &envs[ranks.own(envs.len())]), batch.explained());
        // Mini-batches are too small to share out; actor and critics then have a thread each.
        let minibatches = config.policy.minibatch > 0 || config.critic.minibatch > 0;
        let at_once = (minibatches || owners.elsewhere) && (ranks.is_alone() || owners.are_all());
        let (passes, (critic_losses, (moments, explained))) = match at_once {
            true => rayon::join(act, || rayon::join(fit, rest)),
            false => (act(), (fit(), rest())),
        };
        drop((actor, critics));
        if normalizer.is_on() {
            normalizer.take(ranks.gather_values(moments)?.into_iter().flatten());
        }
        let outcome = Outcome { passes: passes.unwrap_or_default(), critic_losses };
        let Outcome { passes, critic_losses } = self.settle(round, owners, outcome)?;
        Ok(GroupReport { passes, critic_losses, explained, entropy: self.batch.entropy, offsets })
    }
}

/// The moments of what the group's agents saw in some environments, one by one; none if nobody asks.
fn own_moments(normalizer: &Normalizer, members: &Members, envs: &[EnvSteps]) -> Vec<Moments> {
    if !normalizer.is_on() {
        return Vec::new();
    }
    let Members { agents, all, dim } = members;
    let of = |env: &EnvSteps| {
        let mut moments = Moments::new(*dim);
        for row in env.raw.chunks_exact(all * dim) {
            row[agents.start * dim..agents.end * dim].chunks_exact(*dim).for_each(|obs| moments.see(obs));
        }
        moments
    };
    envs.par_iter().map(of).collect()
}
