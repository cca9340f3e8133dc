//! A recurrent network: layer normalisation, dense layers each followed by one, a gated recurrent unit (GRU), one more
//! normalisation, and a linear head. This is the actor and the critic of MAPPO (Yu et al., 2022).
//!
//! The GRU, with weights W_i for its input x and W_h for its state h, each with biases:
//!
//! ```text
//! r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
//! n = tanh(W_in x + b_in + r (W_hn h + b_hn))       h' = (1 - z) n + z h
//! ```

use crate::activation::Activation;
use crate::adam::Adam;
use crate::block::Block;
use crate::buffer::Buffer;
use crate::isa::Isa;
use crate::kernels::{Kernels, PANEL, padded, panels};
use crate::matrix::{End, Matrices, NormParams, Start, View, ViewMut};
use crate::mlp::transpose;
use crate::real::Real;
use crate::reduce;
use crate::sequences::Sequences;
use crate::tiles::TILE_ROWS;
use crate::workspace::PassBuffers;
use rayon::prelude::*;
use std::ops::Range;

/// How a layer's weights are stored.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A gain and a bias per column.
    Norm,
    /// `[panel of outputs][input][32]`
    Dense,
    /// The same, each gate in panels of its own; the places of r, z and n among the gates.
    Gates([usize; 3]),
    /// `[panel of inputs][output][32]`, as the last layer of an [`crate::Mlp`].
    Head,
}

/// Where a layer's parameters are in the flat vector of all parameters.
#[derive(Clone, Debug)]
struct Layer {
    name: String,
    inputs: usize,
    outputs: usize,
    weights: usize,
    bias: usize,
    kind: Kind,
}

impl Layer {
    /// Panels of weights, rows in each, panels of biases.
    fn extent(&self) -> (usize, usize, usize) {
        let outputs = panels(self.outputs);
        match self.kind {
            Kind::Norm => (outputs, 1, outputs),
            Kind::Dense => (outputs, self.inputs, outputs),
            Kind::Gates(_) => (3 * panels(self.outputs / 3), self.inputs, 3 * panels(self.outputs / 3)),
            Kind::Head => (panels(self.inputs), self.outputs, outputs),
        }
    }

    fn end(&self) -> usize {
        self.bias + self.extent().2 * PANEL
    }

    /// The column of output `o`.
    fn column(&self, o: usize) -> usize {
        match self.kind {
            Kind::Gates(places) => {
                let units = self.outputs / 3;
                places[o / units] * padded(units) + o % units
            }
            _ => o,
        }
    }

    /// Position of the weight from input `i` to output `o`.
    fn at(&self, i: usize, o: usize) -> usize {
        let (column, row) = if matches!(self.kind, Kind::Head) { (i, o) } else { (self.column(o), i) };
        self.weights + (column / PANEL * self.extent().1 + row) * PANEL + column % PANEL
    }

    fn weights_of<'a, E>(&self, flat: &'a [E]) -> &'a [E] {
        &flat[self.weights..self.bias]
    }

    fn bias_of<'a, E>(&self, flat: &'a [E]) -> &'a [E] {
        &flat[self.bias..self.end()]
    }

    fn split<'a, E>(&self, flat: &'a mut [E]) -> [&'a mut [E]; 2] {
        let (weights, bias) = flat[self.weights..self.end()].split_at_mut(self.bias - self.weights);
        [weights, bias]
    }
}

/// A recurrent network. Its parameters live in one flat, padded vector in the layout of the kernels; the padding is zero
/// and stays zero.
#[derive(Clone)]
pub struct Gru<E: Real> {
    sizes: Vec<usize>,
    activation: Activation,
    layers: Vec<Layer>,
    params: Buffer<E>,
    /// Transposed weights of the dense layers and of the GRU, for the backward pass.
    transposed: Vec<Buffer<E>>,
    /// The GRU's biases: of the input for n, the sum of the input's and the state's for r and z.
    gate_bias: Buffer<E>,
    /// One in a column and zero in the padding, for every normalisation.
    masks: Vec<Buffer<E>>,
    kernels: &'static Kernels<E>,
}

/// Scratch space of a [`Gru`] for one block of sequences, forward and backward.
pub struct GruStepWorkspace<E> {
    input: Buffer<E>,
    /// Each dense layer's output, before its normalisation.
    dense: Vec<Buffer<E>>,
    /// Each normalisation's output; in the backward pass the gradient with respect to it.
    normed: Vec<Buffer<E>>,
    /// Per normalisation: mean and 1 / standard deviation of every row.
    moments: Vec<[Buffer<E>; 2]>,
    gates: Buffer<E>,
    entering: Buffer<E>,
    state: Buffer<E>,
    carry: Buffer<E>,
    d_output_packed: Buffer<E>,
    /// In the order of the block's rows.
    by_step: Buffer<E>,
    /// Sequence by sequence.
    output: Buffer<E>,
    d_output: Buffer<E>,
}

/// Scratch space of a [`Gru`] for passes over a batch.
pub type GruPassWorkspace<E> = PassBuffers<E, GruStepWorkspace<E>>;

impl<E: Real> Gru<E> {
    /// A network of the given widths: inputs, dense layers, the GRU, outputs. The gains of normalisations are
    /// one, all other parameters zero.
    pub fn new(sizes: &[usize], activation: Activation) -> Self {
        Gru::on(Isa::current(), sizes, activation)
    }

    /// The same on a chosen set of instructions.
    pub fn on(isa: Isa, sizes: &[usize], activation: Activation) -> Self {
        assert!(sizes.len() >= 3 && sizes.iter().all(|&n| n > 0), "a network needs an input, a GRU and an output");
        let layers = layers(sizes);
        let masks = layers.iter().filter(|l| matches!(l.kind, Kind::Norm)).map(|l| {
            let mut mask = Buffer::zeros(padded(l.outputs));
            mask[..l.outputs].fill(E::ONE);
            mask
        });
        let transposed = layers.iter().filter(|l| matches!(l.kind, Kind::Dense | Kind::Gates(_)));
        let units = sizes[sizes.len() - 2];
        let mut net = Gru {
            sizes: sizes.to_vec(),
            activation,
            params: Buffer::zeros(layers[layers.len() - 1].end()),
            transposed: transposed.map(|l| Buffer::zeros(padded(l.inputs) * l.extent().0 * PANEL)).collect(),
            gate_bias: Buffer::zeros(3 * padded(units)),
            masks: masks.collect(),
            layers,
            kernels: E::kernels(isa),
        };
        for norm in net.layers.iter().filter(|l| matches!(l.kind, Kind::Norm)) {
            net.params[norm.weights..][..norm.outputs].fill(E::ONE);
        }
        net
    }

    /// The widths, inputs first.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Numbers in an input.
    pub fn inputs(&self) -> usize {
        self.sizes[0]
    }

    /// Numbers in a state.
    pub fn units(&self) -> usize {
        self.sizes[self.sizes.len() - 2]
    }

    /// Numbers in an output.
    pub fn outputs(&self) -> usize {
        self.sizes[self.sizes.len() - 1]
    }

    /// The function between dense layers.
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// All parameters in the kernels' order, padding included.
    pub fn params(&self) -> &[E] {
        &self.params
    }

    /// Replaces all parameters; `params` is in the order of [`Gru::params`], zero where that is padding.
    pub fn set_params(&mut self, params: &[E]) {
        self.params.copy_from_slice(params);
        self.refresh();
    }

    /// Replaces layer `l` by one in the form of [`Gru::layer`].
    pub fn set_layer(&mut self, l: usize, weights: &[E], bias: &[E]) {
        let mut params = std::mem::replace(&mut self.params, Buffer::zeros(0));
        self.pack(&mut params, l, weights, bias);
        self.params = params;
        self.refresh();
    }

    /// Number of layers: normalisations, dense layers, the GRU's weights for its input and for its state, the head.
    pub fn depth(&self) -> usize {
        self.layers.len()
    }

    /// The name of layer `l`.
    pub fn name(&self, l: usize) -> &str {
        &self.layers[l].name
    }

    /// Rows and columns of the weights of layer `l`: one row of gains for a normalisation.
    pub fn shape(&self, l: usize) -> (usize, usize) {
        (self.layers[l].inputs, self.layers[l].outputs)
    }

    /// Whether layer `l` is a normalisation.
    pub fn is_norm(&self, l: usize) -> bool {
        matches!(self.layers[l].kind, Kind::Norm)
    }

    /// Layer `l` as (weights row-major `[input][output]`, biases); the GRU's outputs are r, z and n side by side.
    pub fn layer(&self, l: usize) -> (Vec<E>, Vec<E>) {
        self.unpack(&self.params, l)
    }

    /// Layer `l` of any vector in the order of [`Gru::params`], such as a gradient or an optimiser's moments.
    pub fn unpack(&self, flat: &[E], l: usize) -> (Vec<E>, Vec<E>) {
        let layer = &self.layers[l];
        let places = (0..layer.inputs * layer.outputs).map(|k| layer.at(k / layer.outputs, k % layer.outputs));
        let biases = (0..layer.outputs).map(|o| flat[layer.bias + layer.column(o)]);
        (places.map(|at| flat[at]).collect(), biases.collect())
    }

    /// The inverse of [`Gru::unpack`]: writes layer `l` into a flat vector.
    pub fn pack(&self, flat: &mut [E], l: usize, weights: &[E], bias: &[E]) {
        let layer = &self.layers[l];
        assert_eq!((weights.len(), bias.len()), (layer.inputs * layer.outputs, layer.outputs));
        for (k, &w) in weights.iter().enumerate() {
            flat[layer.at(k / layer.outputs, k % layer.outputs)] = w;
        }
        for (o, &b) in bias.iter().enumerate() {
            flat[layer.bias + layer.column(o)] = b;
        }
    }

    /// Floating-point operations of the matrix products for one row of a long sequence: forward, and backward to the
    /// weights.
    pub fn flops_per_row(&self) -> (f64, f64) {
        let matrices = self.layers.iter().filter(|l| !matches!(l.kind, Kind::Norm));
        let forward: f64 = matrices.map(|l| 2.0 * (l.inputs * l.outputs) as f64).sum();
        (forward, 2.0 * forward)
    }

    /// Scratch space for [`Gru::infer`].
    pub fn step_workspace(&self) -> GruStepWorkspace<E> {
        let none = || Buffer::zeros(0);
        let norms = self.masks.len();
        let mut work = GruStepWorkspace {
            input: none(),
            dense: (0..norms - 2).map(|_| none()).collect(),
            normed: (0..norms).map(|_| none()).collect(),
            moments: (0..norms).map(|_| [none(), none()]).collect(),
            gates: none(),
            entering: none(),
            state: none(),
            carry: none(),
            d_output_packed: none(),
            by_step: none(),
            output: none(),
            d_output: none(),
        };
        self.make_room(&mut work, Block { sequences: TILE_ROWS, steps: 1 });
        work
    }

    fn make_room(&self, work: &mut GruStepWorkspace<E>, block: Block) {
        let (units, outputs) = (self.units(), self.outputs());
        work.input.reserve_zeroed(block.len(self.inputs()));
        work.normed.iter_mut().zip(&self.masks).for_each(|(b, mask)| b.reserve_zeroed(block.len(mask.len())));
        work.dense.iter_mut().zip(&self.masks[1..]).for_each(|(b, mask)| b.reserve_zeroed(block.len(mask.len())));
        work.moments.iter_mut().flatten().for_each(|b| b.reserve_zeroed(block.rows()));
        work.gates.reserve_zeroed(4 * block.len(units));
        for state in [&mut work.entering, &mut work.state, &mut work.carry] {
            state.reserve_zeroed(block.len(units));
        }
        work.d_output_packed.reserve_zeroed(block.len(outputs));
        for rows in [&mut work.by_step, &mut work.output, &mut work.d_output] {
            rows.reserve_zeroed(block.rows() * outputs);
        }
    }

    /// Scratch space for passes over batches of up to `parts` parts (see [`Sequences::parts`]).
    pub fn pass_workspace(&self, parts: usize) -> GruPassWorkspace<E> {
        PassBuffers::new(self.step_workspace(), parts, self.params.len())
    }

    /// One step for up to [`TILE_ROWS`] rows, row-major in and out: the outputs, and in place of each row's state the one
    /// after the step. Where an episode starts the state to pass in is zero.
    pub fn infer(&self, work: &mut GruStepWorkspace<E>, rows: &[E], states: &mut [E], out: &mut [E]) {
        let count = rows.len() / self.inputs();
        assert!(count <= TILE_ROWS && rows.len() == count * self.inputs() && out.len() == count * self.outputs());
        assert_eq!(states.len(), count * self.units());
        let block = Block { sequences: count, steps: 1 };
        self.make_room(work, block);
        let mut input = std::mem::replace(&mut work.input, Buffer::zeros(0));
        for (r, row) in rows.chunks_exact(self.inputs()).enumerate() {
            block.put(&mut input, r, row);
        }
        self.forward(work, block, &input, states, None);
        work.input = input;
        for (r, state) in states.chunks_exact_mut(self.units()).enumerate() {
            block.get(&work.state, r, state);
        }
        out.copy_from_slice(&work.output);
    }

    /// Gives every thread of the current pool a workspace that is large enough.
    fn prepare(&self, workspace: &mut GruPassWorkspace<E>, x: &Sequences<E>) {
        workspace.prepare(|| self.step_workspace(), |work| self.make_room(work, x.largest()));
    }

    /// The outputs of a whole batch, row-major, sequence by sequence.
    pub fn evaluate(&self, workspace: &mut GruPassWorkspace<E>, x: &Sequences<E>, out: &mut [E]) {
        assert_eq!(out.len(), x.rows() * self.outputs());
        self.evaluate_some(workspace, x, 0..x.blocks(), out);
    }

    /// The outputs of some blocks of sequences; `out` is for their rows alone.
    pub fn evaluate_some(
        &self,
        workspace: &mut GruPassWorkspace<E>,
        x: &Sequences<E>,
        blocks: Range<usize>,
        out: &mut [E],
    ) {
        self.prepare(workspace, x);
        out.par_chunks_mut(x.largest().rows() * self.outputs()).zip(blocks).for_each(|(out, b)| {
            self.forward_block(workspace, x, b, |work| out.copy_from_slice(&work.output));
        });
    }

    /// The same with the state after every row: to cut long sequences into shorter ones whose first states are not out of
    /// date, or to go on from.
    pub fn unroll(&self, workspace: &mut GruPassWorkspace<E>, x: &Sequences<E>, out: &mut [E], after: &mut [E]) {
        assert_eq!((out.len(), after.len()), (x.rows() * self.outputs(), x.rows() * self.units()));
        self.unroll_some(workspace, x, 0..x.blocks(), [out, after]);
    }

    /// The same for some blocks of sequences: outputs and states of their rows alone.
    pub fn unroll_some(
        &self,
        workspace: &mut GruPassWorkspace<E>,
        x: &Sequences<E>,
        blocks: Range<usize>,
        [out, after]: [&mut [E]; 2],
    ) {
        self.prepare(workspace, x);
        let rows = x.largest().rows();
        let own = out.par_chunks_mut(rows * self.outputs()).zip(after.par_chunks_mut(rows * self.units()));
        own.zip(blocks).for_each(|((out, after), b)| {
            self.forward_block(workspace, x, b, |work| {
                out.copy_from_slice(&work.output);
                let block = x.block(b);
                for (row, to) in after.chunks_exact_mut(self.units()).enumerate() {
                    let (s, t) = (row / block.steps, row % block.steps);
                    block.get(&work.state, t * block.sequences + s, to);
                }
            });
        });
    }

    /// One block forward; `take` reads the result.
    fn forward_block(
        &self,
        workspace: &GruPassWorkspace<E>,
        x: &Sequences<E>,
        b: usize,
        take: impl FnOnce(&GruStepWorkspace<E>),
    ) {
        assert_eq!((x.columns(), x.units()), (self.inputs(), self.units()));
        let (_, packed, states, starts) = x.data(b);
        workspace.per_thread().with_own(|work| {
            self.make_room(work, x.block(b));
            self.forward(work, x.block(b), packed, states, Some(starts));
            take(work);
        });
    }

    /// One pass over a batch: every block of sequences forward, then `loss` writes d loss / d output, then backward through
    /// time to the weights. The states in which sequences begin are constants.
    ///
    /// `loss(sums, first_row, outputs, d_outputs)` sees whole sequences, row-major, in order within a part; `sums` has one
    /// entry per part, in which `loss` may add up whatever it needs. The gradient is left in `workspace`. The bits depend
    /// on the batch alone, not on the number of threads.
    pub fn pass<A: Send>(
        &self,
        workspace: &mut GruPassWorkspace<E>,
        x: &Sequences<E>,
        sums: &mut [A],
        loss: impl Fn(&mut A, usize, &[E], &mut [E]) + Sync,
    ) {
        let parts = x.parts();
        assert!(x.rows() > 0, "a pass needs at least one row");
        assert_eq!((x.columns(), x.units()), (self.inputs(), self.units()));
        assert_eq!(sums.len(), parts, "one sum per part of the batch");
        self.prepare(workspace, x);
        let (per_thread, gradients, peers) = workspace.split(parts);
        let run = |part: usize, gradient: &mut Buffer<E>, sums: &mut A| {
            gradient.fill(E::ZERO);
            per_thread.with_own(|work| {
                for b in x.part(part) {
                    let (first, packed, states, starts) = x.data(b);
                    self.make_room(work, x.block(b));
                    self.forward(work, x.block(b), packed, states, Some(starts));
                    loss(sums, first, &work.output, &mut work.d_output);
                    self.backward(work, x.block(b), packed, starts, gradient);
                }
            });
        };
        reduce::sum_parts(self.kernels, peers, gradients, sums, &run);
    }

    /// Applies an optimiser's step for `gradient`.
    pub fn step(&mut self, adam: &mut Adam<E>, gradient: &[E]) {
        adam.step(self.kernels, &mut self.params, gradient);
        self.refresh();
    }

    /// Computes what is derived from the parameters.
    fn refresh(&mut self) {
        let matrices = self.layers.iter().filter(|l| matches!(l.kind, Kind::Dense | Kind::Gates(_)));
        for (layer, to) in matrices.zip(&mut self.transposed) {
            transpose(layer.weights_of(&self.params), layer.inputs, layer.extent().0 * PANEL, to);
        }
        let [input, state] = self.recurrent();
        let (input, state) = (input.bias_of(&self.params), state.bias_of(&self.params));
        let gate = padded(self.units());
        self.gate_bias.copy_from_slice(input);
        self.gate_bias[gate..].iter_mut().zip(state).for_each(|(b, &s)| *b += s);
    }

    fn dense_layers(&self) -> usize {
        self.sizes.len() - 3
    }

    fn dense(&self, l: usize) -> &Layer {
        &self.layers[1 + 2 * l]
    }

    /// The GRU's weights for its input and for its state.
    fn recurrent(&self) -> [&Layer; 2] {
        let first = 1 + 2 * self.dense_layers();
        [&self.layers[first], &self.layers[first + 1]]
    }

    fn head(&self) -> &Layer {
        &self.layers[self.layers.len() - 1]
    }

    /// The inputs' normalisation, then those of the dense layers, then the GRU's.
    fn norm(&self, k: usize) -> &Layer {
        &self.layers[if k <= self.dense_layers() { 2 * k } else { 2 * k + 1 }]
    }

    fn norm_params(&self, k: usize) -> NormParams<'_, E> {
        let layer = self.norm(k);
        NormParams { columns: layer.outputs, gain: layer.weights_of(&self.params), mask: &self.masks[k] }
    }

    fn matrices(&self, block: Block, rows: usize) -> Matrices<E> {
        Matrices::new(self.kernels, block.stride(), rows)
    }

    /// Fills `work.output`; `work` has been given room for the block. `starts` may be left out where there is a single step
    /// from a given state.
    fn forward(
        &self,
        work: &mut GruStepWorkspace<E>,
        block: Block,
        packed: &[E],
        states: &[E],
        starts: Option<&[bool]>,
    ) {
        for (s, state) in states.chunks_exact(self.units()).enumerate() {
            block.put(&mut work.entering, s, state);
            if starts.is_some_and(|starts| starts[s]) {
                (0..panels(self.units()))
                    .for_each(|p| work.entering[p * block.stride() + s * PANEL..][..PANEL].fill(E::ZERO));
            }
        }
        for (first, rows) in block.strips() {
            self.forward_base(work, &self.matrices(block, rows), first, packed);
        }
        self.forward_steps(work, block, starts);
        let (head, n, last) = (self.head(), self.outputs(), self.dense_layers() + 1);
        let (w, bias) = (head.weights_of(&self.params), head.bias_of(&self.params));
        for (first, rows) in block.strips() {
            let GruStepWorkspace { moments, normed, state, by_step, .. } = work;
            let matrices = self.matrices(block, rows);
            self.forward_norm(&matrices, &mut moments[last], last, first, state, &mut normed[last]);
            let x = View(&normed[last][first * PANEL..], head.inputs);
            matrices.dots(x, w, Some(bias), n, &mut by_step[first * n..]);
        }
        for (row, from) in work.by_step.chunks_exact(n).enumerate() {
            let (t, s) = (row / block.sequences, row % block.sequences);
            work.output[(s * block.steps + t) * n..][..n].copy_from_slice(from);
        }
    }

    /// A strip of rows from the network's input to what it contributes to the gates.
    fn forward_base(&self, work: &mut GruStepWorkspace<E>, matrices: &Matrices<E>, first: usize, packed: &[E]) {
        let GruStepWorkspace { moments, normed, dense, gates, .. } = work;
        let at = first * PANEL;
        self.forward_norm(matrices, &mut moments[0], 0, first, packed, &mut normed[0]);
        for l in 0..self.dense_layers() {
            let (layer, end) = (self.dense(l), End::Activate(self.activation));
            let (w, bias) = (layer.weights_of(&self.params), Start::Bias(layer.bias_of(&self.params)));
            let (x, y) = (View(&normed[l][at..], layer.inputs), &mut dense[l]);
            matrices.product(x, w, bias, ViewMut(&mut y[at..], padded(layer.outputs)), end);
            self.forward_norm(matrices, &mut moments[l + 1], l + 1, first, y, &mut normed[l + 1]);
        }
        let [input, _] = self.recurrent();
        let x = View(&normed[self.dense_layers()][at..], input.inputs);
        let (w, bias) = (input.weights_of(&self.params), Start::Bias(&self.gate_bias));
        matrices.product(x, w, bias, ViewMut(&mut gates[at..], 3 * padded(self.units())), End::Store);
    }

    fn forward_norm(
        &self,
        matrices: &Matrices<E>,
        [mean, scale]: &mut [Buffer<E>; 2],
        k: usize,
        first: usize,
        x: &[E],
        y: &mut [E],
    ) {
        let (at, bias) = (first * PANEL, self.norm(k).bias_of(&self.params));
        matrices.norm(self.norm_params(k), bias, &x[at..], &mut y[at..], [&mut mean[first..], &mut scale[first..]]);
    }

    /// Step by step, what the state contributes to the gates, and the cell.
    fn forward_steps(&self, work: &mut GruStepWorkspace<E>, block: Block, starts: Option<&[bool]>) {
        let [_, state] = self.recurrent();
        let (units, width) = (self.units(), padded(self.units()));
        let GruStepWorkspace { gates, entering, state: after, .. } = work;
        let (w_rz, w_n) = state.weights_of(&self.params).split_at(2 * width * units);
        let b_n = &state.bias_of(&self.params)[2 * width..];
        let one = self.matrices(block, block.sequences);
        let gate = block.len(units);
        for t in 0..block.steps {
            let at = block.step(t);
            let h = &mut entering[at..];
            let (rz, n) = gates[gate + at..].split_at_mut(2 * gate);
            one.product(View(h, units), w_rz, Start::Accumulate, ViewMut(rz, 2 * width), End::Store);
            one.product(View(h, units), w_n, Start::Bias(b_n), ViewMut(n, width), End::Store);
            let next = (t + 1 < block.steps).then(|| &starts.expect("steps have flags")[(t + 1) * block.sequences..]);
            one.cell(&mut gates[at..], units, h, &mut after[at..], next);
        }
    }

    /// Adds the block's gradient for `work.d_output`. The gradient with respect to a normalisation's output replaces that
    /// output as soon as it is no longer needed.
    fn backward(
        &self,
        work: &mut GruStepWorkspace<E>,
        block: Block,
        packed: &[E],
        starts: &[bool],
        gradient: &mut [E],
    ) {
        for (row, d) in work.d_output.chunks_exact(self.outputs()).enumerate() {
            let (s, t) = (row / block.steps, row % block.steps);
            block.put(&mut work.d_output_packed, t * block.sequences + s, d);
        }
        for (first, rows) in block.strips() {
            self.backward_head(work, &self.matrices(block, rows), first, gradient);
        }
        self.backward_steps(work, block, starts);
        for (first, rows) in block.strips() {
            self.backward_base(work, block, &self.matrices(block, rows), first, packed, gradient);
        }
    }

    /// From d loss / d output to d loss / d state through the same step's output.
    fn backward_head(&self, work: &mut GruStepWorkspace<E>, matrices: &Matrices<E>, first: usize, gradient: &mut [E]) {
        let (head, n, last, at) = (self.head(), self.outputs(), self.dense_layers() + 1, first * PANEL);
        let GruStepWorkspace { moments, normed, state, d_output_packed, .. } = work;
        let (d, y) = (&d_output_packed[at..], &mut normed[last]);
        let [g, g_bias] = head.split(gradient);
        let (w, width) = (head.weights_of(&self.params), padded(head.inputs));
        matrices.outer(View(d, n), View(&y[at..], width), g);
        matrices.column_sums(View(d, padded(n)), g_bias);
        matrices.product(View(d, n), w, Start::Zero, ViewMut(&mut y[at..], width), End::Store);
        self.backward_norm(matrices, &moments[last], last, first, state, y, gradient, Some(Activation::Identity));
    }

    /// Backward through time, to the gradient with respect to the gates' sums, before their activations.
    fn backward_steps(&self, work: &mut GruStepWorkspace<E>, block: Block, starts: &[bool]) {
        let (units, width) = (self.units(), padded(self.units()));
        let GruStepWorkspace { normed, gates, entering, carry, .. } = work;
        let d_state = &normed[self.dense_layers() + 1];
        let one = self.matrices(block, block.sequences);
        let gate = block.len(units);
        let transposed = &self.transposed[self.dense_layers() + 1];
        for t in (0..block.steps).rev() {
            let at = block.step(t);
            let next = (t + 1 < block.steps).then(|| &starts[(t + 1) * block.sequences..]);
            one.cell_back(&mut gates[at..], units, &entering[at..], &d_state[at..], carry, next);
            if t > 0 {
                let (d, carry) = (View(&gates[gate + at..], 3 * width), ViewMut(carry, width));
                one.product(d, transposed, Start::Accumulate, carry, End::Store);
            }
        }
    }

    /// A strip of rows from the gates' sums to the inputs' normalisation.
    fn backward_base(
        &self,
        work: &mut GruStepWorkspace<E>,
        block: Block,
        matrices: &Matrices<E>,
        first: usize,
        packed: &[E],
        gradient: &mut [E],
    ) {
        let ([input, state], width, at) = (self.recurrent(), 3 * padded(self.units()), first * PANEL);
        let GruStepWorkspace { moments, normed, dense, gates, entering, .. } = work;
        let sums = View(&gates[block.len(self.units()) + at..], width);
        let [g, g_bias] = state.split(gradient);
        matrices.outer(View(&entering[at..], self.units()), sums, g);
        matrices.column_sums(sums, g_bias);
        let (layers, x) = (self.dense_layers(), &mut normed[self.dense_layers()][at..]);
        self.backward_dense(matrices, input, &self.transposed[layers], x, View(&gates[at..], width), gradient);
        for l in (0..layers).rev() {
            let layer = self.dense(l);
            let (before, own) = normed.split_at_mut(l + 1);
            let (x, d, slope) = (&mut before[l][at..], &mut own[0], Some(self.activation));
            self.backward_norm(matrices, &moments[l + 1], l + 1, first, &dense[l], d, gradient, slope);
            let d = View(&d[at..], padded(layer.outputs));
            self.backward_dense(matrices, layer, &self.transposed[l], x, d, gradient);
        }
        self.backward_norm(matrices, &moments[0], 0, first, packed, &mut normed[0], gradient, None);
    }

    #[allow(clippy::too_many_arguments)] // the operands of one layer
    fn backward_norm(
        &self,
        matrices: &Matrices<E>,
        [mean, scale]: &[Buffer<E>; 2],
        k: usize,
        first: usize,
        x: &[E],
        d: &mut [E],
        gradient: &mut [E],
        slope: Option<Activation>,
    ) {
        let (at, moments) = (first * PANEL, [&mean[first..], &scale[first..]]);
        matrices.norm_back(self.norm_params(k), &x[at..], moments, &mut d[at..], self.norm(k).split(gradient), slope);
    }

    /// Adds a layer's gradient for `d` and replaces its inputs by the gradient with respect to them.
    fn backward_dense(
        &self,
        matrices: &Matrices<E>,
        layer: &Layer,
        transposed: &[E],
        x: &mut [E],
        d: View<E>,
        gradient: &mut [E],
    ) {
        let [g, g_bias] = layer.split(gradient);
        matrices.outer(View(x, layer.inputs), d, g);
        matrices.column_sums(d, g_bias);
        matrices.product(d, transposed, Start::Zero, ViewMut(x, padded(layer.inputs)), End::Store);
    }
}

/// All layers of a network in the order of its parameters.
fn layers(sizes: &[usize]) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    let mut add = |name: &str, inputs: usize, outputs: usize, kind: Kind| {
        let weights = layers.last().map_or(0, Layer::end);
        let mut layer = Layer { name: name.to_string(), inputs, outputs, weights, bias: 0, kind };
        let (columns, rows, _) = layer.extent();
        layer.bias = weights + columns * rows * PANEL;
        layers.push(layer);
    };
    let (outputs, units, before) = (sizes[sizes.len() - 1], sizes[sizes.len() - 2], &sizes[..sizes.len() - 2]);
    add("input_norm", 1, sizes[0], Kind::Norm);
    for (l, pair) in before.windows(2).enumerate() {
        add(&format!("dense{l}"), pair[0], pair[1], Kind::Dense);
        add(&format!("dense{l}_norm"), 1, pair[1], Kind::Norm);
    }
    // The cell's gates are n from the input, r, z, and n from the state: each layer writes three neighbours.
    add("gru_input", before[before.len() - 1], 3 * units, Kind::Gates([1, 2, 0]));
    add("gru_state", units, 3 * units, Kind::Gates([0, 1, 2]));
    add("gru_norm", 1, units, Kind::Norm);
    add("head", units, outputs, Kind::Head);
    layers
}
