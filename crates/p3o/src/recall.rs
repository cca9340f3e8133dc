//! A recurrent critic on its way through the batches. It acts nowhere, so its states are found when a batch is whole: it
//! goes through every environment's steps once, from where the last batch left it, and is then fitted on shorter
//! sequences that begin in the states it met.

use crate::critic::{Critic, CriticMemory};
use crate::rollout::LaneSteps;
use p3o_nn::{Batch, Network, Source};

/// One critic's states and batches.
pub(crate) struct Recall {
    /// The batch in sequences, for fits.
    pub x: Batch<f32>,
    /// The state before every row.
    pub before: Vec<f32>,
    /// The state before every environment's first row; zero where an episode starts there.
    pub first: Vec<f32>,
    after: Vec<f32>,
    /// Environments' whole ways.
    whole: Batch<f32>,
    /// What is behind open ends, as sequences of one step.
    open: Batch<f32>,
    open_states: Vec<f32>,
    units: usize,
}

impl Recall {
    pub fn new(net: &Network<f32>) -> Self {
        Recall {
            x: net.batch(),
            before: Vec::new(),
            first: Vec::new(),
            after: Vec::new(),
            whole: net.batch(),
            open: net.batch(),
            open_states: Vec::new(),
            units: net.units(),
        }
    }

    /// The values of all rows, environment by environment; leaves `x` to be fitted on. The states of `seen` are this one's
    /// affair.
    pub fn go_through(
        &mut self,
        lanes: &[LaneSteps],
        critic: &Critic,
        memory: &mut CriticMemory,
        seen: Source<f32>,
        values: &mut [f32],
    ) {
        let (units, horizon) = (self.units, values.len() / lanes.len());
        let lane = horizon * units;
        self.first.resize(lanes.len() * units, 0.0);
        self.before.resize(values.len() * units, 0.0);
        self.after.resize(values.len() * units, 0.0);
        for (before, first) in self.before.chunks_exact_mut(lane).zip(self.first.chunks_exact(units)) {
            before[..units].copy_from_slice(first);
        }
        self.whole.fill(Source { steps: horizon, states: &self.before, ..seen });
        critic.unroll(memory, &self.whole, values, &mut self.after);
        for (i, (before, after)) in self.before.chunks_exact_mut(lane).zip(self.after.chunks_exact(lane)).enumerate() {
            before[units..].copy_from_slice(&after[..lane - units]);
            let next = &mut self.first[i * units..][..units];
            next.copy_from_slice(&after[lane - units..]);
            if lanes[i].ended {
                next.fill(0.0);
            }
        }
        self.x.fill(Source { states: &self.before, ..seen });
    }

    /// The values behind the open ends of the batch just gone through.
    pub fn look_ahead(
        &mut self,
        lanes: &[LaneSteps],
        critic: &Critic,
        memory: &mut CriticMemory,
        rows: &[f32],
        values: &mut [f32],
    ) {
        let (units, horizon) = (self.units, self.after.len() / self.units / lanes.len());
        self.open_states.clear();
        for (i, lane) in lanes.iter().enumerate() {
            for &t in &lane.open_ends {
                self.open_states.extend_from_slice(&self.after[(i * horizon + t as usize) * units..][..units]);
            }
        }
        if values.is_empty() {
            return;
        }
        let starts = vec![false; values.len()];
        self.open.fill(Source { rows, steps: 1, states: &self.open_states, starts: &starts });
        critic.evaluate(memory, &self.open, values);
    }
}
