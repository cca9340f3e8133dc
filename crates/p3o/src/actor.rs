//! What acts in the world: policies, the agents they steer, and the one way in which they act.

use crate::normalize::Normalizer;
use crate::policy::Policy;
use p3o_nn::{StepWorkspace, TILE_ROWS};
use std::ops::Range;

/// A policy with its view of the world. Each agent's action follows from that agent's own observation alone.
#[derive(Clone)]
pub struct Actor<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// Of one agent's observation.
    pub normalizer: &'a Normalizer,
    /// The agents it steers; `0..1` in an ordinary world.
    pub agents: Range<usize>,
}

/// Every agent with its actor, in the agents' order.
pub fn agents<'a>(actors: &'a [Actor<'a>]) -> impl Iterator<Item = (usize, &'a Actor<'a>)> {
    actors.iter().flat_map(|actor| actor.agents.clone().map(move |agent| (agent, actor)))
}

/// Writes what an agent's policy sees, given the observations of all agents in a row.
pub fn see(actor: &Actor, agent: usize, obs: &[f32], seen: &mut [f32]) {
    let dim = actor.normalizer.dim();
    actor.normalizer.apply(&obs[agent * dim..(agent + 1) * dim], seen);
}

/// Numbers in the states of all agents of one world; none where policies are feed-forward.
pub fn state_width(actors: &[Actor]) -> usize {
    agents(actors).count() * actors[0].policy.net.units()
}

/// Workspace for acting in several worlds at once. The actors' networks are alike.
pub struct ActWorkspace {
    net: StepWorkspace<f32>,
    /// For each agent in turn, a row per world.
    seen: Vec<f32>,
    outputs: Vec<f32>,
    states: Vec<f32>,
    worlds: usize,
    dim: usize,
    width: usize,
}

impl ActWorkspace {
    /// For the networks of these actors.
    pub fn new(actors: &[Actor]) -> Self {
        let policy = actors[0].policy;
        ActWorkspace {
            net: policy.net.step_workspace(),
            seen: Vec::new(),
            outputs: Vec::new(),
            states: Vec::new(),
            worlds: 0,
            dim: actors[0].normalizer.dim(),
            width: policy.net.outputs(),
        }
    }

    /// What every policy says to the observations of all agents, a row per world; `states` has the states of all agents, a
    /// row per world too, and gets the next ones.
    pub fn infer(&mut self, actors: &[Actor], obs: &[f32], states: &mut [f32]) {
        let count = agents(actors).count();
        let (dim, width, units) = (self.dim, self.width, actors[0].policy.net.units());
        let worlds = obs.len() / (count * dim);
        self.worlds = worlds;
        self.seen.resize(worlds * count * dim, 0.0);
        self.outputs.resize(worlds * count * width, 0.0);
        self.states.resize(worlds * units, 0.0);
        for (agent, actor) in agents(actors) {
            let seen = &mut self.seen[agent * worlds * dim..][..worlds * dim];
            let outputs = &mut self.outputs[agent * worlds * width..][..worlds * width];
            for (world, seen) in seen.chunks_exact_mut(dim).enumerate() {
                see(actor, agent, &obs[world * count * dim..][..count * dim], seen);
            }
            for (world, state) in self.states.chunks_exact_mut(units.max(1)).enumerate() {
                state.copy_from_slice(&states[(world * count + agent) * units..][..units]);
            }
            for first in (0..worlds).step_by(TILE_ROWS) {
                let end = worlds.min(first + TILE_ROWS);
                let state = &mut self.states[first * units..end * units];
                let rows = &seen[first * dim..end * dim];
                actor.policy.net.infer(&mut self.net, rows, state, &mut outputs[first * width..end * width]);
            }
            for (world, state) in self.states.chunks_exact(units.max(1)).enumerate() {
                states[(world * count + agent) * units..][..units].copy_from_slice(state);
            }
        }
    }

    /// What an agent's policy saw in a world and what it said, after [`ActWorkspace::infer`].
    pub fn row(&self, agent: usize, world: usize) -> (&[f32], &[f32]) {
        let row = agent * self.worlds + world;
        (&self.seen[row * self.dim..][..self.dim], &self.outputs[row * self.width..][..self.width])
    }
}
