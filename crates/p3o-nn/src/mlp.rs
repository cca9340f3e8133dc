//! Multi-layer perceptrons of any depth and width: forward, backward, and in forward mode.

use crate::activation::Activation;
use crate::adam::Adam;
use crate::buffer::Buffer;
use crate::isa::Isa;
use crate::kernels::{Kernels, PANEL, padded, panels};
use crate::matrix::{End, Matrices, Start, View, ViewMut, get_row, put_row};
use crate::real::Real;
use crate::reduce;
use crate::tiles::{TILE_ROWS, TILE_STRIDE, Tiles};
use crate::workspace::PassBuffers;
use rayon::prelude::*;
use std::ops::Range;

/// Where a layer's parameters are in the flat vector of all parameters.
#[derive(Clone, Copy, Debug)]
struct Layer {
    inputs: usize,
    outputs: usize,
    weights: usize,
    bias: usize,
    /// The last layer is stored transposed, `[panel of inputs][output][32]`: it has few outputs, its forward is dot
    /// products, and its backward then needs no repacking.
    head: bool,
}

impl Layer {
    fn weight_len(&self) -> usize {
        let (outer, inner) = if self.head { (self.inputs, self.outputs) } else { (self.outputs, self.inputs) };
        padded(outer) * inner
    }

    fn bias_len(&self) -> usize {
        padded(self.outputs)
    }

    /// Position of the weight from input `i` to output `o`.
    fn at(&self, i: usize, o: usize) -> usize {
        let (column, row, rows) = if self.head { (i, o, self.outputs) } else { (o, i, self.inputs) };
        self.weights + (column / PANEL * rows + row) * PANEL + column % PANEL
    }

    /// The weights of input `i` in runs that lie side by side: the first output of each, and its place.
    fn runs(&self, i: usize) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let (layer, longest) = (*self, if self.head { 1 } else { PANEL });
        (0..layer.outputs).step_by(longest).map(move |o| {
            let at = layer.at(i, o);
            (o, at..at + longest.min(layer.outputs - o))
        })
    }
}

/// A multi-layer perceptron. Its parameters live in one flat, padded vector in the layout of the kernels; the padding is
/// zero and stays zero.
#[derive(Clone)]
pub struct Mlp<E: Real> {
    sizes: Vec<usize>,
    activation: Activation,
    layers: Vec<Layer>,
    params: Buffer<E>,
    /// Transposed weights of the hidden layers after the first, for the backward pass.
    transposed: Vec<Buffer<E>>,
    kernels: &'static Kernels<E>,
}

/// Scratch space of an [`Mlp`] for one tile, forward and backward.
pub struct MlpStepWorkspace<E> {
    input: Buffer<E>,
    hidden: Vec<Buffer<E>>,
    tangent: Vec<Buffer<E>>,
    delta: [Buffer<E>; 2],
    output: Vec<E>,
    d_output: Vec<E>,
    output_tangent: Vec<E>,
    d_output_packed: Buffer<E>,
}

/// Scratch space of an [`Mlp`] for passes over a batch.
pub type MlpPassWorkspace<E> = PassBuffers<E, MlpStepWorkspace<E>>;

/// Packs weights `[panel of outputs][input][32]` as `[panel of inputs][output][32]`.
pub(crate) fn transpose<E: Real>(weights: &[E], inputs: usize, outputs: usize, to: &mut [E]) {
    for (panel, rows) in weights.chunks_exact(inputs * PANEL).enumerate() {
        let in_panel = (outputs - panel * PANEL).min(PANEL);
        for (i, row) in rows.chunks_exact(PANEL).enumerate() {
            let column = &mut to[(i / PANEL * outputs + panel * PANEL) * PANEL + i % PANEL..];
            for (o, &w) in row[..in_panel].iter().enumerate() {
                column[o * PANEL] = w;
            }
        }
    }
}

impl<E: Real> Mlp<E> {
    /// A network of the given widths, inputs first and outputs last, with all parameters zero.
    pub fn new(sizes: &[usize], activation: Activation) -> Self {
        Mlp::on(Isa::current(), sizes, activation)
    }

    /// The same on a chosen set of instructions.
    pub fn on(isa: Isa, sizes: &[usize], activation: Activation) -> Self {
        assert!(sizes.len() >= 2 && sizes.iter().all(|&n| n > 0), "a network needs an input and an output");
        let mut layers = Vec::new();
        let mut len = 0;
        for (l, pair) in sizes.windows(2).enumerate() {
            let mut layer =
                Layer { inputs: pair[0], outputs: pair[1], weights: len, bias: 0, head: l + 2 == sizes.len() };
            layer.bias = len + layer.weight_len();
            len = layer.bias + layer.bias_len();
            layers.push(layer);
        }
        let transposed =
            layers[..layers.len() - 1].iter().skip(1).map(|l| Buffer::zeros(padded(l.inputs) * l.outputs)).collect();
        Mlp {
            sizes: sizes.to_vec(),
            activation,
            layers,
            params: Buffer::zeros(len),
            transposed,
            kernels: E::kernels(isa),
        }
    }

    /// The widths, inputs first.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Numbers in an input.
    pub fn inputs(&self) -> usize {
        self.sizes[0]
    }

    /// Numbers in an output.
    pub fn outputs(&self) -> usize {
        self.sizes[self.sizes.len() - 1]
    }

    /// The function between layers.
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// All parameters in the kernels' order, padding included.
    pub fn params(&self) -> &[E] {
        &self.params
    }

    /// Replaces all parameters; `params` is in the order of [`Mlp::params`], zero where that is padding.
    pub fn set_params(&mut self, params: &[E]) {
        self.params.copy_from_slice(params);
        self.refresh();
    }

    /// The same in place: `change` is given this network, but for its parameters, and these, whose padding stays zero.
    pub fn change_params(&mut self, change: impl FnOnce(&Self, &mut [E])) {
        let mut params = std::mem::replace(&mut self.params, Buffer::zeros(0));
        change(self, &mut params);
        self.params = params;
        self.refresh();
    }

    /// Replaces layer `l` by one in the form of [`Mlp::layer`].
    pub fn set_layer(&mut self, l: usize, weights: &[E], bias: &[E]) {
        let mut params = std::mem::replace(&mut self.params, Buffer::zeros(0));
        self.pack(&mut params, l, weights, bias);
        self.params = params;
        // Only hidden layers after the first are kept transposed too.
        if (1..self.depth() - 1).contains(&l) {
            let mut transposed = std::mem::replace(&mut self.transposed[l - 1], Buffer::zeros(0));
            self.transpose(&self.layers[l], &mut transposed);
            self.transposed[l - 1] = transposed;
        }
    }

    /// Layer `l` as (weights row-major `[input][output]`, biases).
    pub fn layer(&self, l: usize) -> (Vec<E>, Vec<E>) {
        self.unpack(&self.params, l)
    }

    /// Number of layers.
    pub fn depth(&self) -> usize {
        self.layers.len()
    }

    /// Layer `l` of any vector in the order of [`Mlp::params`], such as a gradient or an optimiser's moments.
    pub fn unpack(&self, flat: &[E], l: usize) -> (Vec<E>, Vec<E>) {
        let layer = &self.layers[l];
        let (mut weights, mut bias) = (vec![E::ZERO; layer.inputs * layer.outputs], vec![E::ZERO; layer.outputs]);
        self.unpack_into(flat, l, layer.outputs, &mut weights, &mut bias);
        (weights, bias)
    }

    /// The same into rows of weights that begin `stride` numbers apart; what lies between them stays as it is.
    pub fn unpack_into(&self, flat: &[E], l: usize, stride: usize, weights: &mut [E], bias: &mut [E]) {
        let layer = &self.layers[l];
        for i in 0..layer.inputs {
            let row = &mut weights[i * stride..][..layer.outputs];
            layer.runs(i).for_each(|(o, places)| row[o..o + places.len()].copy_from_slice(&flat[places]));
        }
        bias.copy_from_slice(&flat[layer.bias..layer.bias + layer.outputs]);
    }

    /// The inverse of [`Mlp::unpack`]: writes layer `l` into a flat vector.
    pub fn pack(&self, flat: &mut [E], l: usize, weights: &[E], bias: &[E]) {
        let layer = &self.layers[l];
        assert_eq!(weights.len(), layer.inputs * layer.outputs);
        self.pack_from(flat, l, layer.outputs, weights, bias);
    }

    /// The inverse of [`Mlp::unpack_into`].
    pub fn pack_from(&self, flat: &mut [E], l: usize, stride: usize, weights: &[E], bias: &[E]) {
        let layer = &self.layers[l];
        for i in 0..layer.inputs {
            let row = &weights[i * stride..][..layer.outputs];
            layer.runs(i).for_each(|(o, places)| flat[places.clone()].copy_from_slice(&row[o..o + places.len()]));
        }
        flat[layer.bias..layer.bias + layer.outputs].copy_from_slice(bias);
    }

    /// Floating-point operations of the matrix products for one row: forward, and backward to the weights.
    pub fn flops_per_row(&self) -> (f64, f64) {
        let forward: f64 = self.layers.iter().map(|l| 2.0 * (l.inputs * l.outputs) as f64).sum();
        let first = 2.0 * (self.layers[0].inputs * self.layers[0].outputs) as f64;
        (forward, 2.0 * forward - first)
    }

    /// Scratch space for [`Mlp::infer`].
    pub fn step_workspace(&self) -> MlpStepWorkspace<E> {
        let tile = |n: usize| Buffer::zeros(panels(n) * TILE_STRIDE);
        let hidden = &self.sizes[1..self.sizes.len() - 1];
        let widest = hidden.iter().copied().max().unwrap_or(0);
        MlpStepWorkspace {
            input: tile(self.inputs()),
            hidden: hidden.iter().map(|&n| tile(n)).collect(),
            tangent: Vec::new(),
            delta: [tile(widest), tile(widest)],
            output: vec![E::ZERO; TILE_ROWS * self.outputs()],
            d_output: vec![E::ZERO; TILE_ROWS * self.outputs()],
            output_tangent: vec![E::ZERO; TILE_ROWS * self.outputs()],
            d_output_packed: tile(self.outputs()),
        }
    }

    /// Scratch space for passes over batches of up to `parts` parts (see [`Tiles::parts`]).
    pub fn pass_workspace(&self, parts: usize) -> MlpPassWorkspace<E> {
        PassBuffers::new(self.step_workspace(), parts, self.params.len())
    }

    /// The outputs of up to [`TILE_ROWS`] rows, row-major in and out.
    pub fn infer(&self, work: &mut MlpStepWorkspace<E>, rows: &[E], out: &mut [E]) {
        let count = rows.len() / self.inputs();
        assert!(count <= TILE_ROWS && rows.len() == count * self.inputs() && out.len() == count * self.outputs());
        let mut input = std::mem::replace(&mut work.input, Buffer::zeros(0));
        for (r, row) in rows.chunks_exact(self.inputs()).enumerate() {
            put_row(&mut input, TILE_STRIDE, r, row);
        }
        self.forward_tile(work, &input, count);
        work.input = input;
        out.copy_from_slice(&work.output[..out.len()]);
    }

    /// The outputs of a whole batch, row-major.
    pub fn evaluate(&self, workspace: &mut MlpPassWorkspace<E>, x: &Tiles<E>, out: &mut [E]) {
        assert_eq!(out.len(), x.rows() * self.outputs());
        self.evaluate_some(workspace, x, 0..x.count(), out);
    }

    /// The outputs of some tiles; `out` is for their rows alone.
    pub fn evaluate_some(&self, workspace: &mut MlpPassWorkspace<E>, x: &Tiles<E>, tiles: Range<usize>, out: &mut [E]) {
        assert_eq!(x.columns(), self.inputs());
        workspace.prepare(|| self.step_workspace(), |_| ());
        let (per_thread, width) = (workspace.per_thread(), TILE_ROWS * self.outputs());
        out.par_chunks_mut(width).zip(tiles).with_max_len(4).for_each(|(out, t)| {
            let (tile, rows) = x.tile(t);
            per_thread.with_own(|work| {
                self.forward_tile(work, tile, rows);
                out.copy_from_slice(&work.output[..out.len()]);
            });
        });
    }

    /// One pass over a batch: every tile forward, then `loss` writes d loss / d output, then backward to the weights.
    ///
    /// `loss(sums, first_row, outputs, d_outputs)` sees whole tiles, row-major, in order within a part; `sums` has one
    /// entry per part, in which `loss` may add up whatever it needs. The gradient is left in `workspace`. The bits depend
    /// on the batch alone, not on the number of threads.
    pub fn pass<A: Send>(
        &self,
        workspace: &mut MlpPassWorkspace<E>,
        x: &Tiles<E>,
        sums: &mut [A],
        loss: impl Fn(&mut A, usize, &[E], &mut [E]) + Sync,
    ) {
        self.pass_with(workspace, x, sums, |work, tile, rows, first, sums| {
            self.forward_tile(work, tile, rows);
            let n = rows * self.outputs();
            loss(sums, first, &work.output[..n], &mut work.d_output[..n]);
        });
    }

    /// Like [`Mlp::pass`], with the outputs' derivative along `direction` in parameter space between outputs and
    /// d_outputs: `loss(sums, first_row, outputs, tangents, d_outputs)`. With d_outputs = M tangents this is the
    /// product of a Gauss-Newton or Fisher matrix J^T M J with `direction`.
    pub fn tangent_pass<A: Send>(
        &self,
        workspace: &mut MlpPassWorkspace<E>,
        x: &Tiles<E>,
        direction: &[E],
        sums: &mut [A],
        loss: impl Fn(&mut A, usize, &[E], &[E], &mut [E]) + Sync,
    ) {
        assert_eq!(direction.len(), self.params.len());
        // For all threads at once: which of them take part in the first passes is not known.
        let grow = |work: &mut MlpStepWorkspace<E>| {
            if work.tangent.is_empty() {
                work.tangent = work.hidden.clone();
            }
        };
        workspace.prepare(|| self.step_workspace(), grow);
        self.pass_with(workspace, x, sums, |work, tile, rows, first, sums| {
            self.forward_tile(work, tile, rows);
            self.tangent_tile(work, tile, rows, direction);
            let n = rows * self.outputs();
            let MlpStepWorkspace { output, output_tangent, d_output, .. } = work;
            loss(sums, first, &output[..n], &output_tangent[..n], &mut d_output[..n]);
        });
    }

    fn pass_with<A: Send>(
        &self,
        workspace: &mut MlpPassWorkspace<E>,
        x: &Tiles<E>,
        sums: &mut [A],
        front: impl Fn(&mut MlpStepWorkspace<E>, &[E], usize, usize, &mut A) + Sync,
    ) {
        let parts = x.parts();
        assert!(x.rows() > 0, "a pass needs at least one row");
        assert_eq!((x.columns(), sums.len()), (self.inputs(), parts), "one sum per part of the batch");
        workspace.prepare(|| self.step_workspace(), |_| ());
        let (per_thread, gradients, peers) = workspace.split(parts);
        let run = |part: usize, gradient: &mut Buffer<E>, sums: &mut A| {
            gradient.fill(E::ZERO);
            per_thread.with_own(|work| {
                for t in x.part(part) {
                    let (tile, rows) = x.tile(t);
                    front(work, tile, rows, t * TILE_ROWS, sums);
                    self.backward_tile(work, tile, rows, gradient);
                }
            });
        };
        reduce::sum_parts(self.kernels, peers, gradients, sums, &run);
    }

    /// The gradient with respect to the inputs, row-major, for given d loss / d output.
    pub fn input_gradient(&self, x: &Tiles<E>, d_output: &[E], d_input: &mut [E]) {
        assert_eq!((d_output.len(), d_input.len()), (x.rows() * self.outputs(), x.rows() * self.inputs()));
        let (work, gradient) = (&mut self.step_workspace(), &mut Buffer::<E>::zeros(self.params.len()));
        let first = &self.layers[0];
        let mut weights = Buffer::zeros(padded(first.inputs) * first.outputs);
        self.transpose(first, &mut weights);
        let mut out = Buffer::zeros(panels(self.inputs()) * TILE_STRIDE);
        for t in 0..x.count() {
            let (tile, rows) = x.tile(t);
            let (n, from) = (rows * self.outputs(), t * TILE_ROWS * self.outputs());
            self.forward_tile(work, tile, rows);
            work.d_output[..n].copy_from_slice(&d_output[from..from + n]);
            let last = self.backward_tile(work, tile, rows, gradient);
            let delta = if first.head { &work.d_output_packed } else { &work.delta[last] };
            let (delta, to) = (View(delta, first.outputs), ViewMut(&mut out, first.inputs));
            self.matrices(rows).product(delta, &weights, Start::Zero, to, End::Store);
            for r in 0..rows {
                let row = &mut d_input[(t * TILE_ROWS + r) * self.inputs()..][..self.inputs()];
                get_row(&out, TILE_STRIDE, r, row);
            }
        }
    }

    /// Applies an optimiser's step for `gradient`.
    pub fn step(&mut self, adam: &mut Adam<E>, gradient: &[E]) {
        adam.step(self.kernels, &mut self.params, gradient);
        self.refresh();
    }

    /// Computes the transposed weights from the parameters.
    fn refresh(&mut self) {
        let mut transposed = std::mem::take(&mut self.transposed);
        for (layer, to) in self.layers.iter().skip(1).zip(&mut transposed) {
            self.transpose(layer, to);
        }
        self.transposed = transposed;
    }

    /// Packs a layer's weights as `[panel of inputs][output][32]`.
    fn transpose(&self, layer: &Layer, to: &mut [E]) {
        let weights = &self.params[layer.weights..layer.bias];
        if layer.head {
            to.copy_from_slice(weights);
            return;
        }
        transpose(weights, layer.inputs, layer.outputs, to);
    }

    fn matrices(&self, rows: usize) -> Matrices<E> {
        Matrices::new(self.kernels, TILE_STRIDE, rows)
    }

    /// The last layer's outputs for these parameters (or a direction in parameter space). With the bias they replace
    /// what `y` holds, without it they are added to it.
    fn head_outputs(&self, x: &[E], params: &[E], with_bias: bool, y: &mut [E], rows: usize) {
        let head = self.layers[self.layers.len() - 1];
        let (w, bias) = (&params[head.weights..head.bias], with_bias.then_some(&params[head.bias..]));
        self.matrices(rows).dots(View(x, head.inputs), w, bias, head.outputs, y);
    }

    /// Fills `work.hidden` and `work.output`.
    fn forward_tile(&self, work: &mut MlpStepWorkspace<E>, tile: &[E], rows: usize) {
        let MlpStepWorkspace { hidden, output, .. } = work;
        let (head, matrices) = (self.layers.len() - 1, self.matrices(rows));
        for (l, layer) in self.layers[..head].iter().enumerate() {
            let (before, own) = hidden.split_at_mut(l);
            let x = View(before.last().map_or(tile, |h| h), layer.inputs);
            let (w, bias) = (&self.params[layer.weights..layer.bias], Start::Bias(&self.params[layer.bias..]));
            matrices.product(x, w, bias, ViewMut(&mut own[0], layer.outputs), End::Activate(self.activation));
        }
        self.head_outputs(hidden.last().map_or(tile, |h| h), &self.params, true, output, rows);
    }

    /// Fills `work.output_tangent`, the outputs' derivative along `direction`; `work.hidden` is that of the forward pass.
    fn tangent_tile(&self, work: &mut MlpStepWorkspace<E>, tile: &[E], rows: usize, direction: &[E]) {
        let MlpStepWorkspace { hidden, tangent, output_tangent, .. } = work;
        let (head, matrices) = (self.layers.len() - 1, self.matrices(rows));
        for (l, layer) in self.layers[..head].iter().enumerate() {
            let (before, own) = tangent.split_at_mut(l);
            let (y, slope) = (&mut own[0], End::TimesSlope(self.activation, &hidden[l]));
            let x = View(if l == 0 { tile } else { &hidden[l - 1] }, layer.inputs);
            let (dw, db) = (&direction[layer.weights..layer.bias], Start::Bias(&direction[layer.bias..]));
            match before.last() {
                None => matrices.product(x, dw, db, ViewMut(y, layer.outputs), slope),
                Some(dx) => {
                    matrices.product(x, dw, db, ViewMut(y, layer.outputs), End::Store);
                    let (dx, w) = (View(dx, layer.inputs), &self.params[layer.weights..layer.bias]);
                    matrices.product(dx, w, Start::Accumulate, ViewMut(y, layer.outputs), slope);
                }
            }
        }
        self.head_outputs(hidden.last().map_or(tile, |h| h), direction, true, output_tangent, rows);
        if let Some(dx) = tangent.last() {
            self.head_outputs(dx, &self.params, false, output_tangent, rows);
        }
    }

    /// Adds the tile's gradient for `work.d_output`; returns which delta buffer holds the first layer's.
    fn backward_tile(&self, work: &mut MlpStepWorkspace<E>, tile: &[E], rows: usize, gradient: &mut [E]) -> usize {
        let MlpStepWorkspace { hidden, delta, d_output, d_output_packed, .. } = work;
        let (head, matrices) = (self.layers[self.layers.len() - 1], self.matrices(rows));
        for (r, row) in d_output.chunks_exact(head.outputs).take(rows).enumerate() {
            put_row(d_output_packed, TILE_STRIDE, r, row);
        }
        let x = View(hidden.last().map_or(tile, |h| h), head.inputs);
        let d_head = View(d_output_packed, head.outputs);
        matrices.outer(d_head, x, &mut gradient[head.weights..head.bias]);
        matrices.column_sums(d_head, &mut gradient[head.bias..]);
        let mut current = 0;
        for l in (0..self.layers.len() - 1).rev() {
            let (layer, above) = (self.layers[l], self.layers[l + 1]);
            let (one, two) = delta.split_at_mut(1);
            let (from, to) = if current == 0 { (&two[0], &mut one[0]) } else { (&one[0], &mut two[0]) };
            let (d, w): (View<E>, &[E]) = if above.head {
                (d_head, &self.params[above.weights..above.bias])
            } else {
                (View(from, above.outputs), &self.transposed[l])
            };
            let slope = End::TimesSlope(self.activation, &hidden[l]);
            matrices.product(d, w, Start::Zero, ViewMut(to, layer.outputs), slope);
            let x = View(if l == 0 { tile } else { &hidden[l - 1] }, layer.inputs);
            let d = View(to, layer.outputs);
            matrices.outer(x, d, &mut gradient[layer.weights..layer.bias]);
            matrices.column_sums(d, &mut gradient[layer.bias..]);
            current = 1 - current;
        }
        1 - current
    }
}
