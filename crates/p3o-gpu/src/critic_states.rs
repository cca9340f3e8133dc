//! The states of a recurrent critic from batch to batch. As on the CPU it runs through every environment's steps once a batch is
//! whole, from where the last batch left it, and is then fitted on shorter sequences that begin in the states it met.

use crate::device::{Device, Floats, Outcome};
use crate::net::{Net, Rows};
use crate::recurrent::{Cut, Sequences};
use p3o::batch::TrainingBatch;

/// One critic's states.
pub(crate) struct CriticStates {
    /// Before every environment's first row; zero where an episode starts there.
    pub first: Vec<f32>,
    /// Before every sequence of the batch, once one has come.
    pub before: Option<Floats>,
    units: usize,
}

impl CriticStates {
    /// For states of so many numbers, of which there are none yet.
    pub fn new(units: usize) -> Self {
        CriticStates { first: Vec::new(), before: None, units }
    }

    /// Makes room for so many sequences.
    pub fn reserve(&mut self, device: &mut dyn Device, sequences: usize) -> Outcome<()> {
        self.before = Some(device.floats(sequences * self.units)?);
        Ok(())
    }

    /// The network's outputs for all rows x, environment by environment, and for those behind the open ends of the batch; leaves the
    /// states before every sequence, and those from which the next batch goes on.
    #[allow(clippy::too_many_arguments)] // a critic, its batch, and where its values go
    pub fn unroll(
        &mut self,
        device: &mut dyn Device,
        net: &Net,
        (x, open_x): (Floats, Floats),
        cut: Cut,
        batch: &TrainingBatch,
        values: &mut [f32],
        open_values: &mut [f32],
    ) -> Outcome<()> {
        let (envs, before) = (batch.ended.len(), self.before.ok_or("there is no batch")?);
        let steps = values.len() / envs;
        self.first.resize(envs * self.units, 0.0);
        device.write(cut.states, 0, &self.first)?;
        let sequences = Some(cut.sequences(steps, cut.states));
        let outputs = net.forward(device, Rows { x, count: values.len(), sequences })?;
        device.read(outputs, values)?;
        let [entering, after] = net.states()?;
        let firsts: Vec<u32> = (0..values.len() as u32).step_by(cut.steps).collect();
        cut.take_states(device, entering, &firsts, before)?;
        let lasts: Vec<u32> = (1..=envs).map(|env| (env * steps - 1) as u32).collect();
        cut.take_states(device, after, &lasts, cut.states)?;
        device.read(cut.states, &mut self.first)?;
        let ended = self.first.chunks_exact_mut(self.units).zip(&batch.ended).filter(|(_, ended)| **ended);
        ended.for_each(|(state, _)| state.fill(0.0));
        if open_values.is_empty() {
            return Ok(());
        }
        let ends = batch.open_ends.iter().enumerate();
        let ends: Vec<u32> = ends.flat_map(|(e, ends)| ends.iter().map(move |t| (e * steps) as u32 + t)).collect();
        cut.take_states(device, after, &ends, cut.states)?;
        let sequences = Some(Sequences { steps: 1, states: cut.states, starts: None });
        let outputs = net.forward(device, Rows { x: open_x, count: open_values.len(), sequences })?;
        device.read(outputs, open_values)
    }
}
