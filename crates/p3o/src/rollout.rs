//! Experience: every environment steps on by itself under the policy, and leaves its steps in a buffer of its own.

use crate::normalize::Normalizer;
use crate::policy::Policy;
use p3o_env::{Env, Lane, RestoreError, VecEnv};
use p3o_nn::{TILE_ROWS, Workspace};
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

/// What one environment did during one batch.
pub struct LaneSteps {
    /// Observations as the policy saw them, one row per step.
    pub obs: Vec<f32>,
    /// The same before normalisation; empty when there is none.
    pub raw: Vec<f32>,
    /// The policy's outputs.
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
    running: Running,
}

/// Discounted costs of the running episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Running {
    discount: f64,
    costs: Vec<f64>,
}

/// Environments and the steps of the batch being collected.
pub struct Collector {
    envs: VecEnv,
    /// One per environment.
    pub lanes: Vec<LaneSteps>,
    groups: Vec<Group>,
    /// Steps each environment makes per batch.
    pub horizon: usize,
    gamma: f64,
}

/// Scratch of the environments that one thread steps together.
struct Group {
    work: Workspace<f32>,
    obs: Vec<f32>,
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
        let lane = || LaneSteps {
            obs: Vec::new(),
            raw: Vec::new(),
            outputs: Vec::new(),
            actions: Vec::new(),
            log_probs: Vec::new(),
            given: vec![Vec::new(); 1 + costs],
            cuts: Vec::new(),
            open_ends: Vec::new(),
            open_obs: Vec::new(),
            episodes: Vec::new(),
            broken: None,
            running: Running { discount: 1.0, costs: vec![0.0; costs] },
        };
        Collector { lanes: (0..count).map(|_| lane()).collect(), groups: Vec::new(), envs, horizon, gamma }
    }

    /// The environments.
    pub fn envs(&self) -> &VecEnv {
        &self.envs
    }

    /// Collects one batch. The environments are shared out over the threads; what each does is independent of that.
    pub fn collect(&mut self, policy: &Policy, normalizer: &Normalizer) {
        let count = self.lanes.len();
        let size = count.div_ceil(rayon::current_num_threads()).min(TILE_ROWS);
        while self.groups.len() < count.div_ceil(size) {
            self.groups.push(Group { work: policy.net.workspace(), obs: Vec::new(), outputs: Vec::new() });
        }
        let (horizon, gamma) = (self.horizon, self.gamma);
        self.envs
            .lanes_mut()
            .par_chunks_mut(size)
            .zip(self.lanes.par_chunks_mut(size))
            .zip(&mut self.groups)
            .for_each(|((lanes, steps), group)| group.run(lanes, steps, policy, normalizer, horizon, gamma));
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

impl Group {
    fn run(
        &mut self,
        lanes: &mut [Lane],
        steps: &mut [LaneSteps],
        policy: &Policy,
        normalizer: &Normalizer,
        horizon: usize,
        gamma: f64,
    ) {
        let (dim, n) = (normalizer.dim(), policy.net.outputs());
        self.obs.resize(lanes.len() * dim, 0.0);
        self.outputs.resize(lanes.len() * n, 0.0);
        steps.iter_mut().for_each(LaneSteps::clear);
        for t in 0..horizon {
            for (lane, row) in lanes.iter().zip(self.obs.chunks_exact_mut(dim)) {
                normalizer.apply(lane.obs(), row);
            }
            policy.outputs(&mut self.work, &self.obs, &mut self.outputs);
            let rows = self.obs.chunks_exact(dim).zip(self.outputs.chunks_exact(n));
            for ((lane, steps), (obs, outputs)) in lanes.iter_mut().zip(&mut *steps).zip(rows) {
                steps.advance(lane, policy, normalizer, obs, outputs, gamma, t + 1 == horizon);
            }
            if steps.iter().any(|s| s.broken.is_some()) {
                return;
            }
        }
    }
}

impl LaneSteps {
    fn clear(&mut self) {
        for v in [&mut self.obs, &mut self.raw, &mut self.outputs, &mut self.actions, &mut self.log_probs] {
            v.clear();
        }
        self.given.iter_mut().for_each(Vec::clear);
        self.cuts.clear();
        self.open_ends.clear();
        self.open_obs.clear();
        self.episodes.clear();
        self.broken = None;
    }

    #[allow(clippy::too_many_arguments)] // one step's world, policy and place in the batch
    fn advance(
        &mut self,
        lane: &mut Lane,
        policy: &Policy,
        normalizer: &Normalizer,
        obs: &[f32],
        outputs: &[f32],
        gamma: f64,
        last: bool,
    ) {
        let t = self.cuts.len();
        self.inspect(t, lane.obs());
        self.obs.extend_from_slice(obs);
        if normalizer.is_on() {
            self.raw.extend_from_slice(lane.obs());
        }
        self.outputs.extend_from_slice(outputs);
        let at = self.actions.len();
        self.actions.resize(at + policy.action_width(), 0.0);
        self.log_probs.push(policy.act(outputs, &mut self.actions[at..], lane.rng()));
        let step = lane.step(&self.actions[at..]);
        self.given[0].push(step.reward);
        for (i, &cost) in lane.costs().iter().enumerate() {
            self.given[1 + i].push(cost);
            self.running.costs[i] += self.running.discount * f64::from(cost);
        }
        self.running.discount *= gamma;
        if step.ended() {
            self.finish(lane, step.partial);
        }
        self.cuts.push(step.ended() || last);
        if (step.truncated && !step.terminated) || (last && !step.ended()) {
            self.open_ends.push(t as u32);
            let from = self.open_obs.len();
            self.open_obs.resize(from + obs.len(), 0.0);
            let next = if step.ended() { lane.final_obs() } else { lane.obs() };
            normalizer.apply(next, &mut self.open_obs[from..]);
            self.inspect(t + 1, next);
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
    }
}

/// No early exit, so that it compiles to a few vector instructions.
fn all_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    !values.iter().fold(false, |bad, x| bad | (x.to_bits() & EXPONENT == EXPONENT))
}
