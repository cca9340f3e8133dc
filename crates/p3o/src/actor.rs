//! What acts in the world: a policy and the agents that it steers.

use crate::normalize::Normalizer;
use crate::policy::Policy;
use std::ops::Range;

/// A policy with its view of the world. Each agent's action follows from that agent's own observation alone.
pub struct Actor {
    /// The policy.
    pub policy: Policy,
    /// Of one agent's observation; where several agents share the policy, they share the statistics too.
    pub normalizer: Normalizer,
    /// The agents it steers; `0..1` in an ordinary world.
    pub agents: Range<usize>,
}

impl Actor {
    /// Writes what the policy sees when it acts for an agent, given the observations of all in a row.
    pub fn see(&self, agent: usize, obs: &[f32], seen: &mut [f32]) {
        let dim = self.normalizer.dim();
        self.normalizer.apply(&obs[agent * dim..(agent + 1) * dim], seen);
    }
}

/// Every agent with its actor, in the agents' order.
pub fn agents<'a>(actors: &'a [&Actor]) -> impl Iterator<Item = (usize, &'a Actor)> {
    actors.iter().flat_map(|&actor| actor.agents.clone().map(move |agent| (agent, actor)))
}
