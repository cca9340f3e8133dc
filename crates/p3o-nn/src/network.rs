//! Feed-forward and recurrent networks with the same functions, so that training code need not distinguish them.

use crate::activation::Activation;
use crate::adam::Adam;
use crate::gru::{Gru, GruPassWorkspace, GruStepWorkspace};
use crate::init::Init;
use crate::mlp::{Mlp, MlpPassWorkspace, MlpStepWorkspace};
use crate::real::Real;
use crate::reduce::Peers;
use crate::sequences::Sequences;
use crate::tiles::{TILE_ROWS, Tiles};
use rand::Rng;
use std::ops::Range;
use std::sync::Arc;

/// A feed-forward or a recurrent network.
#[derive(Clone)]
pub enum Network<E: Real> {
    /// The output depends on the input alone.
    FeedForward(Mlp<E>),
    /// The output also depends on a state that is carried from row to row.
    Recurrent(Gru<E>),
}

/// Scratch space of a [`Network`] for single steps.
pub enum StepWorkspace<E> {
    /// See [`Network`].
    FeedForward(MlpStepWorkspace<E>),
    /// See [`Network`].
    Recurrent(GruStepWorkspace<E>),
}

/// Scratch space of a [`Network`] for passes over a batch.
pub enum PassWorkspace<E> {
    /// See [`Network`].
    FeedForward(MlpPassWorkspace<E>),
    /// See [`Network`].
    Recurrent(GruPassWorkspace<E>),
}

/// A batch, packed for a [`Network`]. Its items are rows, or sequences of rows for a recurrent network.
pub enum Batch<E> {
    /// See [`Network`].
    FeedForward(Tiles<E>),
    /// See [`Network`].
    Recurrent(Sequences<E>),
}

/// Consecutive rows from which a [`Batch`] is cut.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a, E> {
    /// Row-major.
    pub rows: &'a [E],
    /// Rows of a sequence. This and the fields below are for recurrent networks.
    pub steps: usize,
    /// The state before every row; only the one before a sequence's first row is used.
    pub states: &'a [E],
    /// For every row, whether it starts from a state of zero.
    pub starts: &'a [bool],
}

impl<'a, E> Source<'a, E> {
    /// Rows that are independent of one another.
    pub fn of_rows(rows: &'a [E]) -> Self {
        Source { rows, steps: 1, states: &[], starts: &[] }
    }
}

const MIXED: &str = "workspaces and batches are made for one kind of network";

/// The same call for either kind.
macro_rules! either {
    ($self:expr, $it:ident => $call:expr) => {
        match $self {
            Self::FeedForward($it) => $call,
            Self::Recurrent($it) => $call,
        }
    };
}

impl<E: Real> Network<E> {
    /// Draws all initial parameters.
    pub fn init(&mut self, init: Init, rng: &mut impl Rng) {
        either!(self, net => net.init(init, rng));
    }

    /// The widths, inputs first.
    pub fn sizes(&self) -> &[usize] {
        either!(self, net => net.sizes())
    }

    /// Numbers in an input.
    pub fn inputs(&self) -> usize {
        either!(self, net => net.inputs())
    }

    /// Numbers in an output.
    pub fn outputs(&self) -> usize {
        either!(self, net => net.outputs())
    }

    /// The function between layers.
    pub fn activation(&self) -> Activation {
        either!(self, net => net.activation())
    }

    /// Numbers in a state; zero for a feed-forward network.
    pub fn units(&self) -> usize {
        match self {
            Network::FeedForward(_) => 0,
            Network::Recurrent(net) => net.units(),
        }
    }

    /// All parameters in the kernels' order, padding included.
    pub fn params(&self) -> &[E] {
        either!(self, net => net.params())
    }

    /// Replaces all parameters; `params` is in the order of [`Network::params`], zero where that is padding.
    pub fn set_params(&mut self, params: &[E]) {
        either!(self, net => net.set_params(params));
    }

    /// Replaces layer `l` by one in the form of [`Network::layer`].
    pub fn set_layer(&mut self, l: usize, weights: &[E], bias: &[E]) {
        either!(self, net => net.set_layer(l, weights, bias));
    }

    /// Number of layers.
    pub fn depth(&self) -> usize {
        either!(self, net => net.depth())
    }

    /// The name of layer `l`.
    pub fn name(&self, l: usize) -> String {
        match self {
            Network::FeedForward(_) => l.to_string(),
            Network::Recurrent(net) => net.name(l).to_string(),
        }
    }

    /// Rows and columns of the weights of layer `l`.
    pub fn shape(&self, l: usize) -> (usize, usize) {
        match self {
            Network::FeedForward(net) => (net.sizes()[l], net.sizes()[l + 1]),
            Network::Recurrent(net) => net.shape(l),
        }
    }

    /// Layer `l` as (weights row-major `[input][output]`, biases).
    pub fn layer(&self, l: usize) -> (Vec<E>, Vec<E>) {
        either!(self, net => net.layer(l))
    }

    /// Layer `l` of any vector in the order of [`Network::params`].
    pub fn unpack(&self, flat: &[E], l: usize) -> (Vec<E>, Vec<E>) {
        either!(self, net => net.unpack(flat, l))
    }

    /// The inverse of [`Network::unpack`]: writes layer `l` into a flat vector.
    pub fn pack(&self, flat: &mut [E], l: usize, weights: &[E], bias: &[E]) {
        either!(self, net => net.pack(flat, l, weights, bias));
    }

    /// Floating-point operations of the matrix products for one row: forward, and backward to the weights.
    pub fn flops_per_row(&self) -> (f64, f64) {
        either!(self, net => net.flops_per_row())
    }

    /// Scratch space for single steps.
    pub fn step_workspace(&self) -> StepWorkspace<E> {
        match self {
            Network::FeedForward(net) => StepWorkspace::FeedForward(net.step_workspace()),
            Network::Recurrent(net) => StepWorkspace::Recurrent(net.step_workspace()),
        }
    }

    /// Scratch space for passes over batches of up to `parts` parts (see [`Batch::parts`]).
    pub fn pass_workspace(&self, parts: usize) -> PassWorkspace<E> {
        match self {
            Network::FeedForward(net) => PassWorkspace::FeedForward(net.pass_workspace(parts)),
            Network::Recurrent(net) => PassWorkspace::Recurrent(net.pass_workspace(parts)),
        }
    }

    /// An empty batch for this network.
    pub fn batch(&self) -> Batch<E> {
        match self {
            Network::FeedForward(net) => Batch::FeedForward(Tiles::new(net.inputs())),
            Network::Recurrent(net) => Batch::Recurrent(Sequences::new(net.inputs(), net.units())),
        }
    }

    /// The outputs of up to [`crate::TILE_ROWS`] rows, row-major in and out; each row's state is replaced by the next.
    pub fn infer(&self, work: &mut StepWorkspace<E>, rows: &[E], states: &mut [E], out: &mut [E]) {
        match (self, work) {
            (Network::FeedForward(net), StepWorkspace::FeedForward(work)) => net.infer(work, rows, out),
            (Network::Recurrent(net), StepWorkspace::Recurrent(work)) => net.infer(work, rows, states, out),
            _ => unreachable!("{MIXED}"),
        }
    }

    /// The outputs of a whole batch, row-major.
    pub fn evaluate(&self, workspace: &mut PassWorkspace<E>, x: &Batch<E>, out: &mut [E]) {
        self.evaluate_some(workspace, x, 0..x.pieces(), out);
    }

    /// The outputs of some of a batch's pieces ([`Batch::pieces`]), row-major: `out` is for their rows alone.
    pub fn evaluate_some(&self, workspace: &mut PassWorkspace<E>, x: &Batch<E>, pieces: Range<usize>, out: &mut [E]) {
        match (self, workspace, x) {
            (Network::FeedForward(net), PassWorkspace::FeedForward(workspace), Batch::FeedForward(x)) => {
                net.evaluate_some(workspace, x, pieces, out)
            }
            (Network::Recurrent(net), PassWorkspace::Recurrent(workspace), Batch::Recurrent(x)) => {
                net.evaluate_some(workspace, x, pieces, out);
            }
            _ => unreachable!("{MIXED}"),
        }
    }

    /// The same with the state after every row of these pieces; for a recurrent network.
    pub fn unroll_some(
        &self,
        workspace: &mut PassWorkspace<E>,
        x: &Batch<E>,
        pieces: Range<usize>,
        out_and_after: [&mut [E]; 2],
    ) {
        match (self, workspace, x) {
            (Network::Recurrent(net), PassWorkspace::Recurrent(workspace), Batch::Recurrent(x)) => {
                net.unroll_some(workspace, x, pieces, out_and_after);
            }
            _ => unreachable!("{MIXED}"),
        }
    }

    /// One pass over a batch: see [`Mlp::pass`] and [`Gru::pass`].
    pub fn pass<A: Send>(
        &self,
        workspace: &mut PassWorkspace<E>,
        x: &Batch<E>,
        sums: &mut [A],
        loss: impl Fn(&mut A, usize, &[E], &mut [E]) + Sync,
    ) {
        match (self, workspace, x) {
            (Network::FeedForward(net), PassWorkspace::FeedForward(workspace), Batch::FeedForward(x)) => {
                net.pass(workspace, x, sums, loss)
            }
            (Network::Recurrent(net), PassWorkspace::Recurrent(workspace), Batch::Recurrent(x)) => {
                net.pass(workspace, x, sums, loss);
            }
            _ => unreachable!("{MIXED}"),
        }
    }

    /// See [`Mlp::tangent_pass`]; only a feed-forward network has it.
    pub fn tangent_pass<A: Send>(
        &self,
        workspace: &mut PassWorkspace<E>,
        x: &Batch<E>,
        direction: &[E],
        sums: &mut [A],
        loss: impl Fn(&mut A, usize, &[E], &[E], &mut [E]) + Sync,
    ) {
        match (self, workspace, x) {
            (Network::FeedForward(net), PassWorkspace::FeedForward(workspace), Batch::FeedForward(x)) => {
                net.tangent_pass(workspace, x, direction, sums, loss);
            }
            _ => unreachable!("second-order steps are refused for recurrent networks"),
        }
    }

    /// Applies an optimiser's step for `gradient`.
    pub fn step(&mut self, adam: &mut Adam<E>, gradient: &[E]) {
        either!(self, net => net.step(adam, gradient));
    }
}

impl<E: Real> PassWorkspace<E> {
    /// Lets processes that hold the same batch share the passes from here on, or none.
    pub fn share(&mut self, peers: Option<Arc<dyn Peers>>) {
        either!(self, workspace => workspace.share(peers));
    }

    /// The gradient of the last pass, summed over the batch, in the order of the network's parameters.
    pub fn gradient(&self) -> &[E] {
        either!(self, workspace => workspace.gradient())
    }
}

impl<E: Real> Batch<E> {
    /// Packs all rows.
    pub fn fill(&mut self, source: Source<E>) {
        match self {
            Batch::FeedForward(x) => x.fill(source.rows),
            Batch::Recurrent(x) => x.fill(source.steps, source.rows, source.states, source.starts),
        }
    }

    /// Packs the items that `index` names, in its order; a sequence's number is that of its first row divided by its steps.
    pub fn gather(&mut self, source: Source<E>, index: &[u32]) {
        match self {
            Batch::FeedForward(x) => x.gather(source.rows, index),
            Batch::Recurrent(x) => {
                let first: Vec<u32> = index.iter().map(|i| i * source.steps as u32).collect();
                x.gather(source.steps, &first, source.rows, source.states, source.starts);
            }
        }
    }

    /// Rows in the batch.
    pub fn rows(&self) -> usize {
        either!(self, x => x.rows())
    }

    /// Numbers in a row.
    pub fn columns(&self) -> usize {
        either!(self, x => x.columns())
    }

    /// Rows of an item.
    pub fn steps(&self) -> usize {
        match self {
            Batch::FeedForward(_) => 1,
            Batch::Recurrent(x) => x.steps(),
        }
    }

    /// For every row of the batch, which row of the source it is, after [`Batch::gather`] of the items `index`.
    pub fn named<'a>(&'a self, index: &'a [u32]) -> &'a [u32] {
        match self {
            Batch::FeedForward(_) => index,
            Batch::Recurrent(x) => x.source(),
        }
    }

    /// Pieces that a network takes through its layers one by one: tiles of rows, or blocks of sequences.
    pub fn pieces(&self) -> usize {
        match self {
            Batch::FeedForward(x) => x.count(),
            Batch::Recurrent(x) => x.blocks(),
        }
    }

    /// The rows of some pieces.
    pub fn rows_of(&self, pieces: Range<usize>) -> Range<usize> {
        let each = match self {
            Batch::FeedForward(_) => TILE_ROWS,
            Batch::Recurrent(x) => x.largest().rows(),
        };
        (pieces.start * each).min(self.rows())..(pieces.end * each).min(self.rows())
    }

    /// Parts of the batch: each is summed apart, and their sums are added in a fixed order.
    pub fn parts(&self) -> usize {
        either!(self, x => x.parts())
    }
}
