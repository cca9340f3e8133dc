//! The states of a recurrent critic. It is not needed while experience is collected, so its states are computed once a batch
//! is whole: the critic runs through every environment's steps from where the last batch left it, and is then fitted on
//! shorter sequences that begin in the states it met.

use crate::critic::{Critic, CriticWorkspace};
use p3o_nn::{Batch, Network, Source};

/// One critic's states and batches.
pub(super) struct CriticStates {
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

impl CriticStates {
    pub fn new(net: &Network<f32>) -> Self {
        CriticStates {
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

    /// The values of all rows, environment by environment; leaves `x` to be fitted on. `ended` says for every environment
    /// whether its last step ended an episode; the states of `seen` are not read.
    pub fn unroll(
        &mut self,
        ended: &[bool],
        critic: &Critic,
        workspace: &mut CriticWorkspace,
        seen: Source<f32>,
        values: &mut [f32],
    ) {
        let (units, steps) = (self.units, values.len() / ended.len());
        let width = steps * units;
        self.first.resize(ended.len() * units, 0.0);
        self.before.resize(values.len() * units, 0.0);
        self.after.resize(values.len() * units, 0.0);
        for (before, first) in self.before.chunks_exact_mut(width).zip(self.first.chunks_exact(units)) {
            before[..units].copy_from_slice(first);
        }
        self.whole.fill(Source { steps, states: &self.before, ..seen });
        critic.unroll(workspace, &self.whole, values, &mut self.after);
        for (i, (before, after)) in self.before.chunks_exact_mut(width).zip(self.after.chunks_exact(width)).enumerate()
        {
            before[units..].copy_from_slice(&after[..width - units]);
            let next = &mut self.first[i * units..][..units];
            next.copy_from_slice(&after[width - units..]);
            if ended[i] {
                next.fill(0.0);
            }
        }
        self.x.fill(Source { states: &self.before, ..seen });
    }

    /// The values behind the open ends of the batch just gone through.
    pub fn look_ahead(
        &mut self,
        open_ends: &[Vec<u32>],
        critic: &Critic,
        workspace: &mut CriticWorkspace,
        rows: &[f32],
        values: &mut [f32],
    ) {
        let (units, steps) = (self.units, self.after.len() / self.units / open_ends.len());
        self.open_states.clear();
        for (i, ends) in open_ends.iter().enumerate() {
            for &t in ends {
                self.open_states.extend_from_slice(&self.after[(i * steps + t as usize) * units..][..units]);
            }
        }
        if values.is_empty() {
            return;
        }
        let starts = vec![false; values.len()];
        self.open.fill(Source { rows, steps: 1, states: &self.open_states, starts: &starts });
        critic.evaluate(workspace, &self.open, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Net;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::ops::Range;

    const DIM: usize = 3;

    /// The steps with which episodes of two environments end. The second one's first episode ends with its fourth step,
    /// which will be a batch's last.
    const ENDS: [&[usize]; 2] = [&[5], &[3]];

    /// Values of the steps in `range` of two environments, and of what follows.
    fn values(
        states: &mut CriticStates,
        critic: &Critic,
        rows: &[f32],
        steps: usize,
        range: Range<usize>,
    ) -> [Vec<f32>; 2] {
        let row = |env: usize, t: usize| &rows[(env * steps + t) * DIM..][..DIM];
        let part: Vec<f32> = (0..2).flat_map(|env| range.clone().flat_map(move |t| row(env, t).to_vec())).collect();
        let next: Vec<f32> = (0..2).flat_map(|env| row(env, range.end % steps).to_vec()).collect();
        let starts = |ends: &&[usize]| -> Vec<bool> {
            range.clone().map(|t| t > range.start && ends.contains(&(t - 1))).collect()
        };
        let starts: Vec<bool> = ENDS.iter().flat_map(starts).collect();
        let ended = ENDS.map(|ends| ends.contains(&(range.end - 1)));
        let open_ends = vec![vec![(range.len() - 1) as u32]; 2];
        let (mut values, mut ahead) = (vec![0.0; 2 * range.len()], vec![0.0; 2]);
        let seen = Source { rows: &part, steps: 2, states: &[], starts: &starts };
        let mut workspace = critic.workspace(16);
        states.unroll(&ended, critic, &mut workspace, seen, &mut values);
        states.look_ahead(&open_ends, critic, &mut workspace, &next, &mut ahead);
        // What is fitted afterwards is the same function of the same rows.
        let mut fitted = values.clone();
        critic.evaluate(&mut workspace, &states.x, &mut fitted);
        assert_eq!(fitted, values);
        [values, ahead]
    }

    #[test]
    fn a_cut_between_batches_changes_no_value() {
        let net = Net { hidden: vec![6], gru: 5, ..Net::default() };
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let critic = Critic::new(&net, DIM, &mut rng);
        let rows: Vec<f32> = (0..2 * 8 * DIM).map(|_| rng.random_range(-1.0..1.0)).collect();
        let mut states = CriticStates::new(&critic.net);
        let [whole, _] = values(&mut states, &critic, &rows, 8, 0..8);
        let mut states = CriticStates::new(&critic.net);
        let [first, ahead] = values(&mut states, &critic, &rows, 8, 0..4);
        let [second, _] = values(&mut states, &critic, &rows, 8, 4..8);
        assert_eq!([&first[..4], &second[..4], &first[4..], &second[4..]].concat(), whole);
        // The first environment's episode goes on: the value behind its open end is that of the next row. The second one's
        // row belongs to a new episode, so what would have followed the old one has another value.
        assert_eq!(ahead[0], second[0]);
        assert!(ahead[1] != second[4]);
        assert!(states.first[..5].iter().all(|&h| h != 0.0));
    }
}
