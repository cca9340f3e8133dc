//! Experience: every environment steps on by itself under the policy, and leaves its steps in a buffer of its own.

use crate::actor::{Actor, agents};
use p3o_env::{Env, Lane, RestoreError, VecEnv};
use p3o_nn::{NetworkWork, TILE_ROWS};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// An episode that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Sum of rewards.
    pub ret: f64,
    /// Steps.
    pub length: usize,
    /// Sum of each cost.
    pub costs: Vec<f64>,
    /// Discounted sum of each cost.
    pub discounted: Vec<f64>,
}

/// What one environment did during one batch. Where there are several agents, a row holds theirs one after another.
pub struct LaneSteps {
    /// Observations as the policies saw them, one row per step.
    pub obs: Vec<f32>,
    /// The same before normalisation; empty when there is none.
    pub raw: Vec<f32>,
    /// The policies' states before each step, where they remember.
    pub states: Vec<f32>,
    /// The policies' outputs.
    pub outputs: Vec<f32>,
    /// Actions.
    pub actions: Vec<f32>,
    /// Their log-probabilities.
    pub log_probs: Vec<f32>,
    /// The reward, then every cost: one vector over the steps each.
    pub given: Vec<Vec<f32>>,
    /// Whether the next step belongs to another episode (or batch).
    pub cuts: Vec<bool>,
    /// Steps whose successor needs a bootstrap value, and those successors' observations as the policy would see them.
    pub open_ends: Vec<u32>,
    /// One row per open end.
    pub open_obs: Vec<f32>,
    /// Episodes that ended.
    pub episodes: Vec<Ended>,
    /// The first observation that was not finite: step and entry.
    pub broken: Option<(usize, usize)>,
    /// Whether the last step ended an episode.
    pub ended: bool,
    running: Running,
}

/// What the running episode has left behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Running {
    discount: f64,
    /// Discounted.
    costs: Vec<f64>,
    /// The policies' states; zero at an episode's start.
    states: Vec<f32>,
}

/// Environments and the steps of the batch being collected.
pub struct Collector {
    envs: VecEnv,
    /// One per environment.
    pub lanes: Vec<LaneSteps>,
    shares: Vec<Share>,
    /// Steps each environment makes per batch.
    pub horizon: usize,
    /// Whether the future of a truncated episode has a value.
    pub bootstrap: bool,
    gamma: f64,
}

/// What a collector's steps have in common.
#[derive(Clone, Copy)]
struct Clock {
    horizon: usize,
    bootstrap: bool,
    gamma: f64,
}

/// Scratch of the environments that one thread steps together: for each agent in turn, a row per environment.
struct Share {
    work: NetworkWork<f32>,
    obs: Vec<f32>,
    states: Vec<f32>,
    outputs: Vec<f32>,
}

impl Collector {
    /// `count` environments that make `horizon` steps each per batch.
    pub fn new(make: &dyn Fn() -> Box<dyn Env>, count: usize, horizon: usize, seed: u64, gamma: f64) -> Self {
        let mut envs = VecEnv::new(make, count, seed);
        // Episodes that fit a batch exactly should start with it; others should not all end in the same one.
        if !horizon.is_multiple_of(envs.spec().horizon) {
            envs.stagger();
        }
        let costs = envs.spec().costs.len();
        Collector {
            lanes: (0..count).map(|_| LaneSteps::new(costs)).collect(),
            shares: Vec::new(),
            envs,
            horizon,
            bootstrap: true,
            gamma,
        }
    }

    /// The environments.
    pub fn envs(&self) -> &VecEnv {
        &self.envs
    }

    /// Collects one batch. The environments are shared out over the threads; what each does is independent of that. The
    /// actors stand in the order of their agents, and their networks are alike.
    pub fn collect(&mut self, actors: &[&Actor]) {
        let count = self.lanes.len();
        let size = count.div_ceil(rayon::current_num_threads()).min(TILE_ROWS);
        while self.shares.len() < count.div_ceil(size) {
            self.shares.push(Share {
                work: actors[0].policy.net.workspace(),
                obs: Vec::new(),
                states: Vec::new(),
                outputs: Vec::new(),
            });
        }
        let clock = Clock { horizon: self.horizon, bootstrap: self.bootstrap, gamma: self.gamma };
        self.envs
            .lanes_mut()
            .par_chunks_mut(size)
            .zip(self.lanes.par_chunks_mut(size))
            .zip(&mut self.shares)
            .for_each(|((lanes, steps), share)| share.run(lanes, steps, actors, clock));
    }

    /// All that the next batch depends on, as bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        let running: Vec<&Running> = self.lanes.iter().map(|l| &l.running).collect();
        postcard::to_stdvec(&(self.envs.snapshot(), running)).expect("plain numbers can be written to memory")
    }

    /// Continues from a snapshot.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let wrong = |reason: &str| RestoreError { task: self.envs.spec().name.clone(), reason: reason.to_string() };
        let (envs, running): (Vec<u8>, Vec<Running>) =
            postcard::from_bytes(bytes).map_err(|_| wrong("it is damaged"))?;
        let costs = self.envs.spec().costs.len();
        if running.len() != self.lanes.len() || running.iter().any(|r| r.costs.len() != costs) {
            return Err(wrong("it has another number of environments"));
        }
        self.envs.restore(&envs)?;
        self.lanes.iter_mut().zip(running).for_each(|(lane, r)| lane.running = r);
        Ok(())
    }
}

impl Share {
    fn run(&mut self, lanes: &mut [Lane], steps: &mut [LaneSteps], actors: &[&Actor], clock: Clock) {
        let (dim, n) = (actors[0].normalizer.dim(), actors[0].policy.net.outputs());
        let (count, rows) = (lanes.len(), lanes.len() * agents(actors).count());
        let units = actors[0].policy.net.units();
        self.obs.resize(rows * dim, 0.0);
        self.states.resize(count * units, 0.0);
        self.outputs.resize(rows * n, 0.0);
        for steps in &mut *steps {
            steps.clear();
            steps.running.states.resize(rows / count * units, 0.0);
        }
        for t in 0..clock.horizon {
            for (agent, actor) in agents(actors) {
                let obs = &mut self.obs[agent * count * dim..][..count * dim];
                let outputs = &mut self.outputs[agent * count * n..][..count * n];
                let own = agent * units..(agent + 1) * units;
                for (i, (lane, steps)) in lanes.iter().zip(&mut *steps).enumerate() {
                    actor.see(agent, lane.obs(), &mut obs[i * dim..][..dim]);
                    let state = &steps.running.states[own.clone()];
                    self.states[i * units..][..units].copy_from_slice(state);
                    steps.states.extend_from_slice(state);
                }
                actor.policy.outputs(&mut self.work, obs, &mut self.states, outputs);
                for (i, steps) in steps.iter_mut().enumerate() {
                    steps.running.states[own.clone()].copy_from_slice(&self.states[i * units..][..units]);
                }
            }
            for (i, (lane, steps)) in lanes.iter_mut().zip(&mut *steps).enumerate() {
                let at = steps.actions.len();
                for (agent, actor) in agents(actors) {
                    let row = agent * count + i;
                    steps.act(lane, actor, &self.obs[row * dim..][..dim], &self.outputs[row * n..][..n]);
                }
                steps.advance(lane, actors, at, clock, t + 1 == clock.horizon);
            }
            if steps.iter().any(|s| s.broken.is_some()) {
                return;
            }
        }
    }
}

impl LaneSteps {
    pub(crate) fn new(costs: usize) -> Self {
        LaneSteps {
            obs: Vec::new(),
            raw: Vec::new(),
            states: Vec::new(),
            outputs: Vec::new(),
            actions: Vec::new(),
            log_probs: Vec::new(),
            given: vec![Vec::new(); 1 + costs],
            cuts: Vec::new(),
            open_ends: Vec::new(),
            open_obs: Vec::new(),
            episodes: Vec::new(),
            broken: None,
            ended: false,
            running: Running { discount: 1.0, costs: vec![0.0; costs], states: Vec::new() },
        }
    }

    fn clear(&mut self) {
        let rows = [&mut self.obs, &mut self.raw, &mut self.states, &mut self.outputs, &mut self.actions];
        rows.into_iter().chain([&mut self.log_probs]).for_each(Vec::clear);
        self.given.iter_mut().for_each(Vec::clear);
        self.cuts.clear();
        self.open_ends.clear();
        self.open_obs.clear();
        self.episodes.clear();
        self.broken = None;
    }

    /// Draws one agent's action.
    fn act(&mut self, lane: &mut Lane, actor: &Actor, obs: &[f32], outputs: &[f32]) {
        self.obs.extend_from_slice(obs);
        self.outputs.extend_from_slice(outputs);
        let at = self.actions.len();
        self.actions.resize(at + actor.policy.action_width(), 0.0);
        self.log_probs.push(actor.policy.act(outputs, &mut self.actions[at..], lane.rng()));
    }

    /// Steps the world by the actions from `at` on.
    fn advance(&mut self, lane: &mut Lane, actors: &[&Actor], at: usize, clock: Clock, last: bool) {
        let t = self.cuts.len();
        self.inspect(t, lane.obs());
        if actors[0].normalizer.is_on() {
            self.raw.extend_from_slice(lane.obs());
        }
        let step = lane.step(&self.actions[at..]);
        self.given[0].push(step.reward);
        for (i, &cost) in lane.costs().iter().enumerate() {
            self.given[1 + i].push(cost);
            self.running.costs[i] += self.running.discount * f64::from(cost);
        }
        self.running.discount *= clock.gamma;
        if step.ended() {
            self.finish(lane, step.partial);
        }
        self.ended = step.ended();
        self.cuts.push(step.ended() || last);
        if (clock.bootstrap && step.truncated && !step.terminated) || (last && !step.ended()) {
            self.open_ends.push(t as u32);
            let next = if step.ended() { lane.final_obs() } else { lane.obs() };
            for (agent, actor) in agents(actors) {
                let from = self.open_obs.len();
                self.open_obs.resize(from + actor.normalizer.dim(), 0.0);
                actor.see(agent, next, &mut self.open_obs[from..]);
            }
            self.inspect(t + 1, next);
        }
    }

    /// V(s_{t+1}) along the batch: the next row's value, zero after a termination, or the next of the bootstraps.
    pub(crate) fn next_values<'a>(
        &self,
        values: &[f32],
        open: &mut impl Iterator<Item = &'a f32>,
        next: &mut Vec<f32>,
    ) {
        next.clear();
        next.extend(values[1..].iter().chain([&0.0]).zip(&self.cuts).map(|(&v, &cut)| if cut { 0.0 } else { v }));
        for (&t, &value) in self.open_ends.iter().zip(open) {
            next[t as usize] = value;
        }
    }

    /// Notes the first observation that is not finite, as the environment gave it: the normaliser's bounds would make an
    /// infinite entry a finite one.
    fn inspect(&mut self, t: usize, obs: &[f32]) {
        if !all_finite(obs) {
            let entry = obs.iter().position(|x| !x.is_finite()).unwrap_or(0);
            self.broken.get_or_insert((t, entry));
        }
    }

    fn finish(&mut self, lane: &Lane, partial: bool) {
        let episode = lane.finished();
        if !partial {
            self.episodes.push(Ended {
                ret: episode.ret,
                length: episode.len,
                costs: episode.costs.clone(),
                discounted: self.running.costs.clone(),
            });
        }
        self.running.discount = 1.0;
        self.running.costs.fill(0.0);
        self.running.states.fill(0.0);
    }
}

/// No early exit, so that it compiles to a few vector instructions.
fn all_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    !values.iter().fold(false, |bad, x| bad | (x.to_bits() & EXPONENT == EXPONENT))
}
