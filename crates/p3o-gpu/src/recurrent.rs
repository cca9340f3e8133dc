//! What a recurrent network has on a device beside its parameters: the way of rows through its layers. See [`p3o_nn::Gru`].

use crate::device::{CHUNK, Device, Floats, Gru, Indices, Layer, Outcome};
use crate::net::Rows;
use p3o_nn::Activation;

/// How some rows are cut into sequences.
#[derive(Clone, Copy)]
pub(crate) struct Sequences {
    /// Rows of a sequence.
    pub steps: usize,
    /// The state before each sequence.
    pub states: Floats,
    /// For each row not zero where it starts from a state of zero; none: no row does.
    pub starts: Option<Floats>,
}

/// The layers by what they do, and room for rows on their way through.
pub(crate) struct Recurrent {
    /// Of the inputs, of each dense layer, of the GRU.
    norms: Vec<Layer>,
    dense: Vec<Layer>,
    /// To the gates from the input and from the state.
    input: Layer,
    state: Layer,
    head: Layer,
    work: Option<Work>,
}

struct Work {
    rows: usize,
    /// What each dense layer says, before its normalisation.
    dense: Vec<Floats>,
    /// What each normalisation says, the gradient of it, and two numbers of each row.
    normed: Vec<Floats>,
    d_normed: Vec<Floats>,
    moments: Vec<Floats>,
    of_input: Floats,
    entering: Floats,
    after: Floats,
    gates: Floats,
    d_of_state: Floats,
    outputs: Floats,
    d_outputs: Floats,
    parts: Floats,
}

impl Recurrent {
    /// From all layers in the order of [`p3o_nn::Gru`]: the inputs' normalisation, dense layers with theirs, the GRU's two, its
    /// normalisation, the head.
    pub fn new(layers: &[Layer]) -> Recurrent {
        let (before, behind) = layers.split_at(layers.len() - 4);
        let [input, state, norm, head] = *behind else { unreachable!("there are four behind the dense layers") };
        let norms = before.iter().step_by(2).copied().chain([norm]).collect();
        Recurrent { norms, dense: before.iter().skip(1).step_by(2).copied().collect(), input, state, head, work: None }
    }

    /// Numbers in a state.
    pub fn units(&self) -> usize {
        self.state.inputs
    }

    /// Makes room for so many rows.
    pub fn reserve(&mut self, device: &mut dyn Device, rows: usize) -> Outcome<()> {
        if self.work.as_ref().is_some_and(|work| work.rows >= rows) {
            return Ok(());
        }
        let (units, outputs) = (self.units(), self.head.outputs);
        let all = || self.norms.iter().chain(&self.dense).chain([&self.input, &self.state, &self.head]);
        let largest = all().map(Layer::len).max().unwrap_or(0);
        let mut room = |width: usize| device.floats(rows * width);
        let mut each = |layers: &[Layer]| layers.iter().map(|layer| room(layer.outputs)).collect::<Outcome<Vec<_>>>();
        let (dense, normed, d_normed) = (each(&self.dense)?, each(&self.norms)?, each(&self.norms)?);
        self.work = Some(Work {
            rows,
            dense,
            normed,
            d_normed,
            moments: self.norms.iter().map(|_| room(2)).collect::<Outcome<_>>()?,
            of_input: room(3 * units)?,
            entering: room(units)?,
            after: room(units)?,
            gates: room(4 * units)?,
            d_of_state: room(3 * units)?,
            outputs: room(outputs)?,
            d_outputs: room(outputs)?,
            parts: device.floats(rows.div_ceil(CHUNK) * largest)?,
        });
        Ok(())
    }

    fn work(&self) -> &Work {
        self.work.as_ref().expect("room was made")
    }

    /// Where the gradient with respect to the outputs is expected.
    pub fn d_outputs(&self) -> Floats {
        self.work().d_outputs
    }

    /// The states before and after each of the rows that have just gone forward.
    pub fn states(&self) -> [Floats; 2] {
        [self.work().entering, self.work().after]
    }

    fn gru(&self, parameters: Floats, rows: Rows) -> Outcome<Gru> {
        let Sequences { steps, states, starts } = rows.sequences.ok_or("a recurrent network takes sequences")?;
        let Work { of_input, entering, after, gates, d_normed, d_of_state, .. } = self.work();
        Ok(Gru {
            parameters,
            layer: self.state,
            sequences: rows.count / steps,
            steps,
            states,
            starts,
            of_input: *of_input,
            entering: *entering,
            after: *after,
            gates: *gates,
            d: d_normed[self.dense.len() + 1],
            d_of_state: *d_of_state,
        })
    }

    /// The outputs for these rows.
    pub fn forward(&self, device: &mut dyn Device, parameters: Floats, rows: Rows) -> Outcome<Floats> {
        let (work, count, last) = (self.work(), rows.count, self.dense.len() + 1);
        let norm = |device: &mut dyn Device, k: usize, x: Floats| {
            device.norm(x, parameters, self.norms[k], work.normed[k], work.moments[k], count)
        };
        norm(device, 0, rows.x)?;
        for (l, layer) in self.dense.iter().enumerate() {
            device.forward(work.normed[l], parameters, *layer, work.dense[l], count)?;
            norm(device, l + 1, work.dense[l])?;
        }
        device.forward(work.normed[last - 1], parameters, self.input, work.of_input, count)?;
        device.gru_forward(&self.gru(parameters, rows)?)?;
        norm(device, last, work.after)?;
        device.forward(work.normed[last], parameters, self.head, work.outputs, count)?;
        Ok(work.outputs)
    }

    /// The gradient from that with respect to the outputs; the rows have just gone forward.
    pub fn backward(&self, device: &mut dyn Device, parameters: Floats, gradient: Floats, rows: Rows) -> Outcome<()> {
        let (work, count, last) = (self.work(), rows.count, self.dense.len() + 1);
        let Work { dense, normed, d_normed, moments, parts, .. } = work;
        let weights = |device: &mut dyn Device, layer: Layer, x: Floats, d: Floats| {
            device.weight_gradient(x, d, layer, *parts, gradient, count)
        };
        // Through normalisation k, which saw x: the gradient of its numbers, then that of x in place of that of its outputs.
        let through_norm = |device: &mut dyn Device, k: usize, x: Floats, before: Activation| {
            device.norm_gradient(x, moments[k], d_normed[k], self.norms[k], *parts, gradient, count)?;
            device.norm_backward(x, moments[k], parameters, self.norms[k], before, d_normed[k], count)
        };
        // Through a layer that saw the outputs of normalisation k, from the gradient d of its sums.
        let through = |device: &mut dyn Device, layer: Layer, d: Floats, k: usize| {
            weights(device, layer, normed[k], d)?;
            device.backward(d, parameters, layer, normed[k], Activation::Identity, d_normed[k], count)
        };
        through(device, self.head, work.d_outputs, last)?;
        through_norm(device, last, work.after, Activation::Identity)?;
        device.gru_backward(&self.gru(parameters, rows)?)?;
        weights(device, self.state, work.entering, work.d_of_state)?;
        through(device, self.input, work.of_input, last - 1)?;
        for (l, layer) in self.dense.iter().enumerate().rev() {
            through_norm(device, l + 1, dense[l], layer.activation)?;
            through(device, *layer, d_normed[l + 1], l)?;
        }
        device.norm_gradient(rows.x, moments[0], d_normed[0], self.norms[0], *parts, gradient, count)
    }
}

/// How a batch is cut into sequences, and room for a mini-batch of them.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    /// Rows of a sequence.
    pub steps: usize,
    /// Room for a state of each row.
    pub states: Floats,
    units: usize,
    starts: Floats,
    picked_states: Floats,
    picked_starts: Floats,
    index: Indices,
}

impl Cut {
    /// Room for so many rows; none if the network has no state.
    pub fn new(device: &mut dyn Device, rows: usize, steps: usize, units: usize) -> Outcome<Option<Cut>> {
        if units == 0 {
            return Ok(None);
        }
        Ok(Some(Cut {
            steps,
            states: device.floats(rows * units)?,
            units,
            starts: device.floats(rows)?,
            picked_states: device.floats(rows / steps * units)?,
            picked_starts: device.floats(rows)?,
            index: device.indices(rows)?,
        }))
    }

    /// Takes in which rows start an episode.
    pub fn upload(&self, device: &mut dyn Device, starts: &[bool]) -> Outcome<()> {
        let starts: Vec<f32> = starts.iter().map(|&starts| f32::from(starts)).collect();
        device.write(self.starts, 0, &starts)
    }

    /// The batch in sequences of so many steps, which begin in these states.
    pub fn sequences(&self, steps: usize, states: Floats) -> Sequences {
        Sequences { steps, states, starts: Some(self.starts) }
    }

    /// The states of some rows, or of some sequences.
    pub fn take_states(&self, device: &mut dyn Device, from: Floats, rows: &[u32], to: Floats) -> Outcome<()> {
        device.write_indices(self.index, rows)?;
        device.gather(from, self.index, to, rows.len(), self.units)
    }

    /// Those sequences of a mini-batch, whose rows' numbers are in `rows`.
    pub fn pick(&self, device: &mut dyn Device, all: Sequences, pieces: &[u32], rows: Indices) -> Outcome<Sequences> {
        self.take_states(device, all.states, pieces, self.picked_states)?;
        device.gather(self.starts, rows, self.picked_starts, pieces.len() * all.steps, 1)?;
        Ok(Sequences { states: self.picked_states, starts: Some(self.picked_starts), ..all })
    }
}
