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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use p3o_env::{Env, PointGoal};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const DIM: usize = 3;

    /// A lane whose episodes end at the given steps of `range`.
    fn lane(range: std::ops::Range<usize>, ends: &[usize]) -> LaneSteps {
        let mut lane = LaneSteps::new(0);
        lane.cuts = range.clone().map(|t| ends.contains(&t) || t + 1 == range.end).collect();
        lane.ended = ends.contains(&(range.end - 1));
        lane.open_ends = vec![(range.len() - 1) as u32];
        lane
    }

    /// Values of the steps in `range` of two lanes, whose episodes end at the steps `ENDS`, and of what follows.
    fn values(
        recall: &mut Recall,
        critic: &Critic,
        rows: &[f32],
        steps: usize,
        range: std::ops::Range<usize>,
    ) -> [Vec<f32>; 2] {
        let lanes: Vec<LaneSteps> = ENDS.iter().map(|ends| lane(range.clone(), ends)).collect();
        let of_lane = |l: usize, t: usize| &rows[(l * steps + t) * DIM..][..DIM];
        let part: Vec<f32> = (0..2).flat_map(|l| range.clone().flat_map(move |t| of_lane(l, t).to_vec())).collect();
        let next: Vec<f32> = (0..2).flat_map(|l| of_lane(l, range.end % steps).to_vec()).collect();
        let starts = |lane: &LaneSteps| -> Vec<bool> { [&[false][..], &lane.cuts[..range.len() - 1]].concat() };
        let starts: Vec<bool> = lanes.iter().flat_map(starts).collect();
        let (mut values, mut ahead) = (vec![0.0; 2 * range.len()], vec![0.0; 2]);
        let seen = Source { rows: &part, steps: 2, states: &[], starts: &starts };
        let mut memory = critic.memory(16);
        recall.go_through(&lanes, critic, &mut memory, seen, &mut values);
        recall.look_ahead(&lanes, critic, &mut memory, &next, &mut ahead);
        // What is fitted afterwards is the same function of the same rows.
        let mut fitted = values.clone();
        critic.evaluate(&mut memory, &recall.x, &mut fitted);
        assert_eq!(fitted, values);
        [values, ahead]
    }

    /// The second lane's first episode ends with its fourth step, which will be a batch's last.
    const ENDS: [&[usize]; 2] = [&[5], &[3]];

    #[test]
    fn a_cut_between_batches_changes_no_value() {
        let mut config = Config::preset("quick", "p3o", PointGoal::default().spec()).unwrap();
        (config.net.recurrent, config.net.hidden, config.net.units) = (true, vec![6], 5);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let critic = Critic::new(&config.net, DIM, 1e-3, &mut rng);
        let rows: Vec<f32> = (0..2 * 8 * DIM).map(|_| rng.random_range(-1.0..1.0)).collect();
        let mut recall = Recall::new(&critic.net);
        let [whole, _] = values(&mut recall, &critic, &rows, 8, 0..8);
        let mut recall = Recall::new(&critic.net);
        let [first, ahead] = values(&mut recall, &critic, &rows, 8, 0..4);
        let [second, _] = values(&mut recall, &critic, &rows, 8, 4..8);
        assert_eq!([&first[..4], &second[..4], &first[4..], &second[4..]].concat(), whole);
        // The first lane's episode goes on: the value behind its open end is that of the next row. The second lane's row
        // belongs to a new episode, so what would have followed the old one has another value.
        assert_eq!(ahead[0], second[0]);
        assert!(ahead[1] != second[4]);
        assert!(recall.first[..5].iter().all(|&h| h != 0.0));
    }
}
