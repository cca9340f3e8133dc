//! A CMDP as a world that the trainer can live in.

use crate::Cmdp;
use p3o_env::{ActionSpace, CostSpec, Env, EnvSpec, Outcome, RestoreError, snapshot};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A [`Cmdp`] as an [`Env`]: the observation is the state as a one-hot row, the costs are `cost1`, `cost2`, and so on.
///
/// A CMDP is discounted and never ends; the trainer knows episodes and limits on their plain sums. A clock joins the two:
/// after every step it stops the episode with probability 1 - gamma, as a truncation. Step t is then reached with
/// probability gamma^t, so that
///
/// * the plain sum of a signal over an episode has J as its expectation, and a limit on it is the CMDP's limit;
/// * the states of a batch are distributed as d^pi, the distribution of the paper's loss;
/// * an episode has 1 / (1 - gamma) steps on average, so the offset per step, (J_C - d) / T, is the paper's (1 - gamma)(J_C - d).
///
/// The clock says nothing about the state, so the future keeps its value: with `rollout.gamma` and `rollout.cost_gamma` set
/// to gamma the critics, which bootstrap a truncated step, learn V of the CMDP. [`crate::training::recipe`] sets all this.
pub struct TabularEnv {
    cmdp: Arc<Cmdp>,
    spec: EnvSpec,
    state: State,
}

/// What changes from step to step.
#[derive(Clone, Serialize, Deserialize)]
struct State {
    cell: usize,
    steps: usize,
    rng: ChaCha8Rng,
}

impl TabularEnv {
    /// A world with the CMDP's limits.
    pub fn new(cmdp: Arc<Cmdp>) -> TabularEnv {
        let costs = cmdp.limits.iter().zip(&cmdp.costs).enumerate().map(|(i, (&limit, table))| {
            let steps = || table.iter().map(|&cost| f64::from(cost as f32));
            let cost = CostSpec::new(&format!("cost{}", i + 1), limit);
            if steps().all(|c| c >= 0.0) { cost.per_step(steps().fold(0.0, f64::max)) } else { cost }
        });
        let spec = EnvSpec {
            name: format!("Tabular{}", cmdp.name),
            obs_dim: cmdp.states,
            action: ActionSpace::Discrete { n: cmdp.actions },
            agents: 1,
            costs: costs.collect(),
            // An episode reaches this with probability e^-30: every limit is the clock's.
            horizon: (30.0 / (1.0 - cmdp.gamma)).ceil() as usize,
        };
        TabularEnv { cmdp, spec, state: State { cell: 0, steps: 0, rng: ChaCha8Rng::seed_from_u64(0) } }
    }

    fn observe(&self, obs: &mut [f32]) {
        obs.fill(0.0);
        obs[self.state.cell] = 1.0;
    }
}

/// Draws an index with these probabilities.
fn draw(probabilities: &[f64], rng: &mut ChaCha8Rng) -> usize {
    let mut left: f64 = rng.random();
    for (i, p) in probabilities.iter().enumerate() {
        left -= p;
        if left < 0.0 {
            return i;
        }
    }
    // What rounding left over: to an index that is possible.
    probabilities.iter().rposition(|&p| p > 0.0).expect("some index is possible")
}

impl Env for TabularEnv {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let cell = draw(&self.cmdp.start, &mut rng);
        self.state = State { cell, steps: 0, rng };
        self.observe(obs);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        let (s, a) = (self.state.cell, action[0] as usize);
        let at = s * self.cmdp.actions + a;
        costs.iter_mut().zip(&self.cmdp.costs).for_each(|(cost, table)| *cost = table[at] as f32);
        self.state.cell = draw(self.cmdp.next(s, a), &mut self.state.rng);
        self.state.steps += 1;
        let rings = self.state.rng.random::<f64>() >= self.cmdp.gamma;
        self.observe(obs);
        Outcome {
            reward: self.cmdp.reward[at] as f32,
            terminated: false,
            truncated: rings || self.state.steps == self.spec.horizon,
        }
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        Some(snapshot::seal(&self.spec.name, &self.state))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let state: State = snapshot::open(&self.spec.name, bytes)?;
        if state.cell >= self.cmdp.states {
            let reason = format!("it stands in state {} of {}", state.cell, self.cmdp.states);
            return Err(RestoreError { task: self.spec.name.clone(), reason });
        }
        self.state = state;
        Ok(())
    }
}
