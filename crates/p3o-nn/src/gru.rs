//! A network that remembers: layer normalisation, dense layers each followed by one, a gated recurrent unit, one more
//! normalisation, and a linear head. This is the actor and the critic of MAPPO (Yu et al., 2022).
//!
//! The unit, with W_i from its input x and W_h from its state h, each with biases:
//!
//! ```text
//! r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
//! n = tanh(W_in x + b_in + r (W_hn h + b_hn))       h' = (1 - z) n + z h
//! ```

use crate::activation::Activation;
use crate::adam::Adam;
use crate::buffer::Buffer;
use crate::group::Group;
use crate::kernels::{Kernels, PANEL, padded, panels};
use crate::matrix::{End, Matrices, NormParams, Start, View, ViewMut};
use crate::mlp::{PassMemory, transpose, with_own};
use crate::real::Real;
use crate::reduce;
use crate::sequences::Sequences;
use crate::simd::Isa;
use crate::tiles::TILE_ROWS;
use rayon::prelude::*;
use std::sync::Mutex;

/// How a piece's weights are stored.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A gain and a bias per column.
    Norm,
    /// `[panel of outputs][input][32]`
    Dense,
    /// The same, each gate in panels of its own; the block in which r, z and n stand.
    Gates([usize; 3]),
    /// `[panel of inputs][output][32]`, as in a perceptron.
    Head,
}

/// Where a piece's numbers stand in the flat parameter vector.
#[derive(Clone, Debug)]
struct Piece {
    name: String,
    inputs: usize,
    outputs: usize,
    weights: usize,
    bias: usize,
    kind: Kind,
}

impl Piece {
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

    /// The column in which output `o` stands.
    fn column(&self, o: usize) -> usize {
        match self.kind {
            Kind::Gates(blocks) => {
                let units = self.outputs / 3;
                blocks[o / units] * padded(units) + o % units
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
    pieces: Vec<Piece>,
    params: Buffer<E>,
    /// Transposed weights of the pieces that have some and are not the head, for the way back.
    transposed: Vec<Buffer<E>>,
    /// The unit's biases of both sides together, for n (the input's alone), r and z.
    gate_bias: Buffer<E>,
    /// One in a column and zero in the padding, for every normalisation.
    masks: Vec<Buffer<E>>,
    kernels: &'static Kernels<E>,
}

/// Memory for taking a group of sequences through a network and back.
pub struct GruWorkspace<E> {
    input: Buffer<E>,
    /// What each dense layer made, before its normalisation.
    dense: Vec<Buffer<E>>,
    /// What each normalisation made, the unit's included; on the way back the gradient with respect to it.
    normed: Vec<Buffer<E>>,
    /// Per normalisation: mean and 1 / deviation of every row.
    moments: Vec<[Buffer<E>; 2]>,
    gates: Buffer<E>,
    entering: Buffer<E>,
    state: Buffer<E>,
    carry: Buffer<E>,
    d_output_packed: Buffer<E>,
    /// In the order of the group's rows.
    by_step: Buffer<E>,
    /// Sequence by sequence.
    output: Buffer<E>,
    d_output: Buffer<E>,
}

/// Memory for passes of a [`Gru`] over a batch.
pub type GruMemory<E> = PassMemory<E, GruWorkspace<E>>;

impl<E: Real> Gru<E> {
    /// A network of the given widths: inputs, dense layers, the recurrent unit, outputs. The gains of normalisations are
    /// one, all other parameters zero.
    pub fn new(sizes: &[usize], activation: Activation) -> Self {
        Gru::on(Isa::detect(), sizes, activation)
    }

    /// The same on a chosen set of instructions.
    pub fn on(isa: Isa, sizes: &[usize], activation: Activation) -> Self {
        assert!(sizes.len() >= 3 && sizes.iter().all(|&n| n > 0), "a network needs an input, a unit and an output");
        let pieces = pieces(sizes);
        let masks = pieces.iter().filter(|p| matches!(p.kind, Kind::Norm)).map(|p| {
            let mut mask = Buffer::zeros(padded(p.outputs));
            mask[..p.outputs].fill(E::ONE);
            mask
        });
        let transposed = pieces.iter().filter(|p| matches!(p.kind, Kind::Dense | Kind::Gates(_)));
        let units = sizes[sizes.len() - 2];
        let mut net = Gru {
            sizes: sizes.to_vec(),
            activation,
            params: Buffer::zeros(pieces[pieces.len() - 1].end()),
            transposed: transposed.map(|p| Buffer::zeros(padded(p.inputs) * p.extent().0 * PANEL)).collect(),
            gate_bias: Buffer::zeros(3 * padded(units)),
            masks: masks.collect(),
            pieces,
            kernels: E::kernels(isa),
        };
        for norm in net.pieces.iter().filter(|p| matches!(p.kind, Kind::Norm)) {
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

    /// Layers: normalisations, dense layers, the unit's two sides, the head.
    pub fn depth(&self) -> usize {
        self.pieces.len()
    }

    /// The name of layer `l`.
    pub fn name(&self, l: usize) -> &str {
        &self.pieces[l].name
    }

    /// Rows and columns of the weights of layer `l`: one row of gains for a normalisation.
    pub fn shape(&self, l: usize) -> (usize, usize) {
        (self.pieces[l].inputs, self.pieces[l].outputs)
    }

    /// Whether layer `l` is a normalisation.
    pub fn is_norm(&self, l: usize) -> bool {
        matches!(self.pieces[l].kind, Kind::Norm)
    }

    /// Layer `l` as (weights row-major `[input][output]`, biases); the unit's outputs are r, z and n side by side.
    pub fn layer(&self, l: usize) -> (Vec<E>, Vec<E>) {
        self.unpack(&self.params, l)
    }

    /// Layer `l` of any vector in the order of [`Gru::params`], such as a gradient or an optimiser's moments.
    pub fn unpack(&self, flat: &[E], l: usize) -> (Vec<E>, Vec<E>) {
        let piece = &self.pieces[l];
        let places = (0..piece.inputs * piece.outputs).map(|k| piece.at(k / piece.outputs, k % piece.outputs));
        let biases = (0..piece.outputs).map(|o| flat[piece.bias + piece.column(o)]);
        (places.map(|at| flat[at]).collect(), biases.collect())
    }

    /// The inverse of [`Gru::unpack`]: writes layer `l` into a flat vector.
    pub fn pack(&self, flat: &mut [E], l: usize, weights: &[E], bias: &[E]) {
        let piece = &self.pieces[l];
        assert_eq!((weights.len(), bias.len()), (piece.inputs * piece.outputs, piece.outputs));
        for (k, &w) in weights.iter().enumerate() {
            flat[piece.at(k / piece.outputs, k % piece.outputs)] = w;
        }
        for (o, &b) in bias.iter().enumerate() {
            flat[piece.bias + piece.column(o)] = b;
        }
    }

    /// Floating-point operations of the matrix products for one row of a long sequence: forward, and backward to the
    /// weights.
    pub fn flops_per_row(&self) -> (f64, f64) {
        let matrices = self.pieces.iter().filter(|p| !matches!(p.kind, Kind::Norm));
        let forward: f64 = matrices.map(|p| 2.0 * (p.inputs * p.outputs) as f64).sum();
        (forward, 2.0 * forward)
    }

    /// Memory for some sequences through this network.
    pub fn workspace(&self) -> GruWorkspace<E> {
        let none = || Buffer::zeros(0);
        let norms = self.masks.len();
        let mut work = GruWorkspace {
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
        self.make_room(&mut work, Group { sequences: TILE_ROWS, steps: 1 });
        work
    }

    fn make_room(&self, work: &mut GruWorkspace<E>, group: Group) {
        let (units, outputs) = (self.units(), self.outputs());
        work.input.reserve_zeroed(group.len(self.inputs()));
        work.normed.iter_mut().zip(&self.masks).for_each(|(b, mask)| b.reserve_zeroed(group.len(mask.len())));
        work.dense.iter_mut().zip(&self.masks[1..]).for_each(|(b, mask)| b.reserve_zeroed(group.len(mask.len())));
        work.moments.iter_mut().flatten().for_each(|b| b.reserve_zeroed(group.rows()));
        work.gates.reserve_zeroed(4 * group.len(units));
        for state in [&mut work.entering, &mut work.state, &mut work.carry] {
            state.reserve_zeroed(group.len(units));
        }
        work.d_output_packed.reserve_zeroed(group.len(outputs));
        for rows in [&mut work.by_step, &mut work.output, &mut work.d_output] {
            rows.reserve_zeroed(group.rows() * outputs);
        }
    }

    /// Memory for passes over batches of up to `chunks` parts (see [`Sequences::chunks`]).
    pub fn pass_memory(&self, chunks: usize) -> GruMemory<E> {
        PassMemory {
            works: vec![Mutex::new(self.workspace())],
            gradients: (0..chunks.max(1)).map(|_| Buffer::zeros(self.params.len())).collect(),
        }
    }

    /// One step for up to [`TILE_ROWS`] rows, row-major in and out: the outputs, and in place of each row's state the one
    /// after the step. Where an episode starts the state to pass in is zero.
    pub fn infer(&self, work: &mut GruWorkspace<E>, rows: &[E], states: &mut [E], out: &mut [E]) {
        let count = rows.len() / self.inputs();
        assert!(count <= TILE_ROWS && rows.len() == count * self.inputs() && out.len() == count * self.outputs());
        assert_eq!(states.len(), count * self.units());
        let group = Group { sequences: count, steps: 1 };
        self.make_room(work, group);
        let mut input = std::mem::replace(&mut work.input, Buffer::zeros(0));
        for (r, row) in rows.chunks_exact(self.inputs()).enumerate() {
            group.put(&mut input, r, row);
        }
        self.forward(work, group, &input, states, None);
        work.input = input;
        for (r, state) in states.chunks_exact_mut(self.units()).enumerate() {
            group.get(&work.state, r, state);
        }
        out.copy_from_slice(&work.output);
    }

    /// Makes sure that every thread of the current pool has a workspace large enough.
    fn prepare(&self, memory: &mut GruMemory<E>, x: &Sequences<E>) {
        while memory.works.len() < rayon::current_num_threads() {
            memory.works.push(Mutex::new(self.workspace()));
        }
        for work in &mut memory.works {
            self.make_room(work.get_mut().expect("a panic elsewhere has ended the pass already"), x.largest());
        }
    }

    /// The outputs of a whole batch, row-major, sequence by sequence.
    pub fn evaluate(&self, memory: &mut GruMemory<E>, x: &Sequences<E>, out: &mut [E]) {
        assert_eq!(out.len(), x.rows() * self.outputs());
        self.prepare(memory, x);
        out.par_chunks_mut(x.largest().rows() * self.outputs()).enumerate().for_each(|(g, out)| {
            self.forward_group(memory, x, g, |work| out.copy_from_slice(&work.output));
        });
    }

    /// The same with the state after every row: to cut long sequences into shorter ones whose first states are not out of
    /// date, or to go on from.
    pub fn unroll(&self, memory: &mut GruMemory<E>, x: &Sequences<E>, out: &mut [E], after: &mut [E]) {
        assert_eq!((out.len(), after.len()), (x.rows() * self.outputs(), x.rows() * self.units()));
        self.prepare(memory, x);
        let rows = x.largest().rows();
        let parts = out.par_chunks_mut(rows * self.outputs()).zip(after.par_chunks_mut(rows * self.units()));
        parts.enumerate().for_each(|(g, (out, after))| {
            self.forward_group(memory, x, g, |work| {
                out.copy_from_slice(&work.output);
                let group = x.group(g);
                for (row, to) in after.chunks_exact_mut(self.units()).enumerate() {
                    let (s, t) = (row / group.steps, row % group.steps);
                    group.get(&work.state, t * group.sequences + s, to);
                }
            });
        });
    }

    /// One group forward; `take` reads what it made.
    fn forward_group(&self, memory: &GruMemory<E>, x: &Sequences<E>, g: usize, take: impl FnOnce(&GruWorkspace<E>)) {
        assert_eq!((x.columns(), x.units()), (self.inputs(), self.units()));
        let (_, tile, states, starts) = x.parts(g);
        with_own(&memory.works, |work| {
            self.make_room(work, x.group(g));
            self.forward(work, x.group(g), tile, states, Some(starts));
            take(work);
        });
    }

    /// One pass over a batch: every group of sequences forward, `loss` writes d loss / d output, and back through time to
    /// the weights; the states that sequences begin in are data.
    ///
    /// `loss(sums, first_row, outputs, d_outputs)` sees whole sequences, row-major, in order within a part; `sums` has one
    /// entry per part, in which `loss` may add up what it likes. The gradient is left in `memory`. The bits depend on the
    /// batch alone, not on the number of threads.
    pub fn pass<A: Send>(
        &self,
        memory: &mut GruMemory<E>,
        x: &Sequences<E>,
        sums: &mut [A],
        loss: impl Fn(&mut A, usize, &[E], &mut [E]) + Sync,
    ) {
        let chunks = x.chunks();
        assert!(x.rows() > 0, "a pass needs at least one row");
        assert_eq!((x.columns(), x.units()), (self.inputs(), self.units()));
        assert_eq!(sums.len(), chunks, "one sum per part of the batch");
        self.prepare(memory, x);
        let PassMemory { works, gradients } = memory;
        let run = |c: usize, gradient: &mut Buffer<E>, sums: &mut A| {
            gradient.fill(E::ZERO);
            with_own(works, |work| {
                for g in x.chunk(c) {
                    let (first, tile, states, starts) = x.parts(g);
                    self.make_room(work, x.group(g));
                    self.forward(work, x.group(g), tile, states, Some(starts));
                    loss(sums, first, &work.output, &mut work.d_output);
                    self.backward(work, x.group(g), tile, starts, gradient);
                }
            });
        };
        reduce::sum_parts(self.kernels, &mut gradients[..chunks], sums, &run);
    }

    /// Applies an optimiser's step for `gradient`.
    pub fn step(&mut self, adam: &mut Adam<E>, gradient: &[E]) {
        adam.step(self.kernels, &mut self.params, gradient);
        self.refresh();
    }

    /// Brings up to date what is derived from the parameters.
    fn refresh(&mut self) {
        let matrices = self.pieces.iter().filter(|p| matches!(p.kind, Kind::Dense | Kind::Gates(_)));
        for (piece, to) in matrices.zip(&mut self.transposed) {
            transpose(piece.weights_of(&self.params), piece.inputs, piece.extent().0 * PANEL, to);
        }
        let [input, state] = self.unit();
        let (input, state) = (input.bias_of(&self.params), state.bias_of(&self.params));
        let block = padded(self.units());
        self.gate_bias.copy_from_slice(input);
        self.gate_bias[block..].iter_mut().zip(state).for_each(|(b, &s)| *b += s);
    }

    fn dense_layers(&self) -> usize {
        self.sizes.len() - 3
    }

    fn dense(&self, l: usize) -> &Piece {
        &self.pieces[1 + 2 * l]
    }

    /// The unit's weights from its input and from its state.
    fn unit(&self) -> [&Piece; 2] {
        let first = 1 + 2 * self.dense_layers();
        [&self.pieces[first], &self.pieces[first + 1]]
    }

    fn head(&self) -> &Piece {
        &self.pieces[self.pieces.len() - 1]
    }

    /// The inputs' normalisation, then those of the dense layers, then the unit's.
    fn norm(&self, k: usize) -> &Piece {
        &self.pieces[if k <= self.dense_layers() { 2 * k } else { 2 * k + 1 }]
    }

    fn norm_params(&self, k: usize) -> NormParams<'_, E> {
        let piece = self.norm(k);
        NormParams { columns: piece.outputs, gain: piece.weights_of(&self.params), mask: &self.masks[k] }
    }

    fn matrices(&self, group: Group, rows: usize) -> Matrices<E> {
        Matrices::new(self.kernels, group.stride(), rows)
    }

    /// Fills `work.output`; `work` has been given room for the group. `starts` may be left out where there is a single step from a given state.
    fn forward(&self, work: &mut GruWorkspace<E>, group: Group, tile: &[E], states: &[E], starts: Option<&[bool]>) {
        for (s, state) in states.chunks_exact(self.units()).enumerate() {
            group.put(&mut work.entering, s, state);
            if starts.is_some_and(|starts| starts[s]) {
                (0..panels(self.units()))
                    .for_each(|p| work.entering[p * group.stride() + s * PANEL..][..PANEL].fill(E::ZERO));
            }
        }
        for (first, rows) in group.blocks() {
            self.forward_base(work, &self.matrices(group, rows), first, tile);
        }
        self.forward_steps(work, group, starts);
        let (head, n, last) = (self.head(), self.outputs(), self.dense_layers() + 1);
        let (w, bias) = (head.weights_of(&self.params), head.bias_of(&self.params));
        for (first, rows) in group.blocks() {
            let GruWorkspace { moments, normed, state, by_step, .. } = work;
            let matrices = self.matrices(group, rows);
            self.forward_norm(&matrices, &mut moments[last], last, first, state, &mut normed[last]);
            let x = View(&normed[last][first * PANEL..], head.inputs);
            matrices.dots(x, w, Some(bias), n, &mut by_step[first * n..]);
        }
        for (row, from) in work.by_step.chunks_exact(n).enumerate() {
            let (t, s) = (row / group.sequences, row % group.sequences);
            work.output[(s * group.steps + t) * n..][..n].copy_from_slice(from);
        }
    }

    /// A block of rows from the input to the input's side of the gates.
    fn forward_base(&self, work: &mut GruWorkspace<E>, matrices: &Matrices<E>, first: usize, tile: &[E]) {
        let GruWorkspace { moments, normed, dense, gates, .. } = work;
        let at = first * PANEL;
        self.forward_norm(matrices, &mut moments[0], 0, first, tile, &mut normed[0]);
        for l in 0..self.dense_layers() {
            let (piece, end) = (self.dense(l), End::Activate(self.activation));
            let (w, bias) = (piece.weights_of(&self.params), Start::Bias(piece.bias_of(&self.params)));
            let (x, y) = (View(&normed[l][at..], piece.inputs), &mut dense[l]);
            matrices.product(x, w, bias, ViewMut(&mut y[at..], padded(piece.outputs)), end);
            self.forward_norm(matrices, &mut moments[l + 1], l + 1, first, y, &mut normed[l + 1]);
        }
        let [input, _] = self.unit();
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

    /// Step by step, the state's side of the gates and the cell.
    fn forward_steps(&self, work: &mut GruWorkspace<E>, group: Group, starts: Option<&[bool]>) {
        let [_, state] = self.unit();
        let (units, width) = (self.units(), padded(self.units()));
        let GruWorkspace { gates, entering, state: after, .. } = work;
        let (w_rz, w_n) = state.weights_of(&self.params).split_at(2 * width * units);
        let b_n = &state.bias_of(&self.params)[2 * width..];
        let one = self.matrices(group, group.sequences);
        let block = group.len(units);
        for t in 0..group.steps {
            let at = group.step(t);
            let h = &mut entering[at..];
            let (rz, n) = gates[block + at..].split_at_mut(2 * block);
            one.product(View(h, units), w_rz, Start::Accumulate, ViewMut(rz, 2 * width), End::Store);
            one.product(View(h, units), w_n, Start::Bias(b_n), ViewMut(n, width), End::Store);
            let next = (t + 1 < group.steps).then(|| &starts.expect("steps have flags")[(t + 1) * group.sequences..]);
            one.cell(&mut gates[at..], units, h, &mut after[at..], next);
        }
    }

    /// Adds the group's gradient for `work.d_output`. Each gradient with respect to what a normalisation made takes that
    /// matrix's place as soon as it is no longer needed.
    fn backward(&self, work: &mut GruWorkspace<E>, group: Group, tile: &[E], starts: &[bool], gradient: &mut [E]) {
        for (row, d) in work.d_output.chunks_exact(self.outputs()).enumerate() {
            let (s, t) = (row / group.steps, row % group.steps);
            group.put(&mut work.d_output_packed, t * group.sequences + s, d);
        }
        for (first, rows) in group.blocks() {
            self.backward_head(work, &self.matrices(group, rows), first, gradient);
        }
        self.backward_steps(work, group, starts);
        for (first, rows) in group.blocks() {
            self.backward_base(work, group, &self.matrices(group, rows), first, tile, gradient);
        }
    }

    /// From d loss / d output to d loss / d state by way of the same step's output.
    fn backward_head(&self, work: &mut GruWorkspace<E>, matrices: &Matrices<E>, first: usize, gradient: &mut [E]) {
        let (head, n, last, at) = (self.head(), self.outputs(), self.dense_layers() + 1, first * PANEL);
        let GruWorkspace { moments, normed, state, d_output_packed, .. } = work;
        let (d, y) = (&d_output_packed[at..], &mut normed[last]);
        let [g, g_bias] = head.split(gradient);
        let (w, width) = (head.weights_of(&self.params), padded(head.inputs));
        matrices.outer(View(d, n), View(&y[at..], width), g);
        matrices.column_sums(View(d, padded(n)), g_bias);
        matrices.product(View(d, n), w, Start::Zero, ViewMut(&mut y[at..], width), End::Store);
        self.backward_norm(matrices, &moments[last], last, first, state, y, gradient, Some(Activation::Identity));
    }

    /// Back through time, to the gradient with respect to the sums behind the gates.
    fn backward_steps(&self, work: &mut GruWorkspace<E>, group: Group, starts: &[bool]) {
        let (units, width) = (self.units(), padded(self.units()));
        let GruWorkspace { normed, gates, entering, carry, .. } = work;
        let d_state = &normed[self.dense_layers() + 1];
        let one = self.matrices(group, group.sequences);
        let block = group.len(units);
        let transposed = &self.transposed[self.dense_layers() + 1];
        for t in (0..group.steps).rev() {
            let at = group.step(t);
            let next = (t + 1 < group.steps).then(|| &starts[(t + 1) * group.sequences..]);
            one.cell_back(&mut gates[at..], units, &entering[at..], &d_state[at..], carry, next);
            if t > 0 {
                let (d, carry) = (View(&gates[block + at..], 3 * width), ViewMut(carry, width));
                one.product(d, transposed, Start::Accumulate, carry, End::Store);
            }
        }
    }

    /// A block of rows from the sums behind the gates to the inputs' normalisation.
    fn backward_base(
        &self,
        work: &mut GruWorkspace<E>,
        group: Group,
        matrices: &Matrices<E>,
        first: usize,
        tile: &[E],
        gradient: &mut [E],
    ) {
        let ([input, state], width, at) = (self.unit(), 3 * padded(self.units()), first * PANEL);
        let GruWorkspace { moments, normed, dense, gates, entering, .. } = work;
        let behind = View(&gates[group.len(self.units()) + at..], width);
        let [g, g_bias] = state.split(gradient);
        matrices.outer(View(&entering[at..], self.units()), behind, g);
        matrices.column_sums(behind, g_bias);
        let (layers, x) = (self.dense_layers(), &mut normed[self.dense_layers()][at..]);
        self.backward_dense(matrices, input, &self.transposed[layers], x, View(&gates[at..], width), gradient);
        for l in (0..layers).rev() {
            let piece = self.dense(l);
            let (before, own) = normed.split_at_mut(l + 1);
            let (x, d, slope) = (&mut before[l][at..], &mut own[0], Some(self.activation));
            self.backward_norm(matrices, &moments[l + 1], l + 1, first, &dense[l], d, gradient, slope);
            let d = View(&d[at..], padded(piece.outputs));
            self.backward_dense(matrices, piece, &self.transposed[l], x, d, gradient);
        }
        self.backward_norm(matrices, &moments[0], 0, first, tile, &mut normed[0], gradient, None);
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
        piece: &Piece,
        transposed: &[E],
        x: &mut [E],
        d: View<E>,
        gradient: &mut [E],
    ) {
        let [g, g_bias] = piece.split(gradient);
        matrices.outer(View(x, piece.inputs), d, g);
        matrices.column_sums(d, g_bias);
        matrices.product(d, transposed, Start::Zero, ViewMut(x, padded(piece.inputs)), End::Store);
    }
}

/// All pieces of a network in the order of its parameters.
fn pieces(sizes: &[usize]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut add = |name: &str, inputs: usize, outputs: usize, kind: Kind| {
        let weights = pieces.last().map_or(0, Piece::end);
        let mut piece = Piece { name: name.to_string(), inputs, outputs, weights, bias: 0, kind };
        let (columns, rows, _) = piece.extent();
        piece.bias = weights + columns * rows * PANEL;
        pieces.push(piece);
    };
    let (outputs, units, before) = (sizes[sizes.len() - 1], sizes[sizes.len() - 2], &sizes[..sizes.len() - 2]);
    add("input_norm", 1, sizes[0], Kind::Norm);
    for (l, pair) in before.windows(2).enumerate() {
        add(&format!("dense{l}"), pair[0], pair[1], Kind::Dense);
        add(&format!("dense{l}_norm"), 1, pair[1], Kind::Norm);
    }
    // In the cell the blocks are n, r, z, and the state's side of n: each side's three are neighbours.
    add("gru_input", before[before.len() - 1], 3 * units, Kind::Gates([1, 2, 0]));
    add("gru_state", units, 3 * units, Kind::Gates([0, 1, 2]));
    add("gru_norm", 1, units, Kind::Norm);
    add("head", units, outputs, Kind::Head);
    pieces
}
