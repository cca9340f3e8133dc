//! Either kind of network behind one face: what trains a network need not know whether it remembers.

use crate::adam::Adam;
use crate::gru::{Gru, GruMemory, GruWorkspace};
use crate::init::Init;
use crate::mlp::{Mlp, PassMemory, Workspace};
use crate::real::Real;
use crate::sequences::Sequences;
use crate::tiles::Tiles;
use rand::Rng;

/// A network that sees one row at a time, or one that remembers.
#[derive(Clone)]
pub enum Network<E: Real> {
    /// Its output follows from its input alone.
    Plain(Mlp<E>),
    /// It has a state that goes from row to row.
    Recurrent(Gru<E>),
}

/// Memory for single steps of a [`Network`].
pub enum NetworkWork<E> {
    /// See [`Network`].
    Plain(Workspace<E>),
    /// See [`Network`].
    Recurrent(GruWorkspace<E>),
}

/// Memory for passes of a [`Network`] over a batch.
pub enum NetworkMemory<E> {
    /// See [`Network`].
    Plain(PassMemory<E>),
    /// See [`Network`].
    Recurrent(GruMemory<E>),
}

/// A batch, packed for a [`Network`]: it consists of pieces that are rows, or sequences of rows.
pub enum Batch<E> {
    /// See [`Network`].
    Plain(Tiles<E>),
    /// See [`Network`].
    Recurrent(Sequences<E>),
}

/// Consecutive rows from which a [`Batch`] is cut.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a, E> {
    /// Row-major.
    pub rows: &'a [E],
    /// Rows of a sequence; the others are for networks that remember.
    pub steps: usize,
    /// The state before every row; only those before a sequence count.
    pub states: &'a [E],
    /// For every row, whether it starts from a state of zero.
    pub starts: &'a [bool],
}

impl<'a, E> Source<'a, E> {
    /// Rows that have nothing to do with one another.
    pub fn of_rows(rows: &'a [E]) -> Self {
        Source { rows, steps: 1, states: &[], starts: &[] }
    }
}

const MIXED: &str = "memory and batches are made for one kind of network";

/// The same call for either kind.
macro_rules! either {
    ($self:expr, $it:ident => $call:expr) => {
        match $self {
            Self::Plain($it) => $call,
            Self::Recurrent($it) => $call,
        }
    };
}

impl<E: Real> Network<E> {
    /// Draws all parameters afresh.
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

    /// Numbers in a state; none for a network that does not remember.
    pub fn units(&self) -> usize {
        match self {
            Network::Plain(_) => 0,
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

    /// Layers.
    pub fn depth(&self) -> usize {
        either!(self, net => net.depth())
    }

    /// The name of layer `l`.
    pub fn name(&self, l: usize) -> String {
        match self {
            Network::Plain(_) => l.to_string(),
            Network::Recurrent(net) => net.name(l).to_string(),
        }
    }

    /// Rows and columns of the weights of layer `l`.
    pub fn shape(&self, l: usize) -> (usize, usize) {
        match self {
            Network::Plain(net) => (net.sizes()[l], net.sizes()[l + 1]),
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

    /// Memory for single steps.
    pub fn workspace(&self) -> NetworkWork<E> {
        match self {
            Network::Plain(net) => NetworkWork::Plain(net.workspace()),
            Network::Recurrent(net) => NetworkWork::Recurrent(net.workspace()),
        }
    }

    /// Memory for passes over batches of up to `chunks` parts (see [`Batch::chunks`]).
    pub fn pass_memory(&self, chunks: usize) -> NetworkMemory<E> {
        match self {
            Network::Plain(net) => NetworkMemory::Plain(net.pass_memory(chunks)),
            Network::Recurrent(net) => NetworkMemory::Recurrent(net.pass_memory(chunks)),
        }
    }

    /// An empty batch for this network.
    pub fn batch(&self) -> Batch<E> {
        match self {
            Network::Plain(net) => Batch::Plain(Tiles::new(net.inputs())),
            Network::Recurrent(net) => Batch::Recurrent(Sequences::new(net.inputs(), net.units())),
        }
    }

    /// The outputs of up to [`crate::TILE_ROWS`] rows, row-major in and out; each row's state is replaced by the next.
    pub fn infer(&self, work: &mut NetworkWork<E>, rows: &[E], states: &mut [E], out: &mut [E]) {
        match (self, work) {
            (Network::Plain(net), NetworkWork::Plain(work)) => net.infer(work, rows, out),
            (Network::Recurrent(net), NetworkWork::Recurrent(work)) => net.infer(work, rows, states, out),
            _ => unreachable!("{MIXED}"),
        }
    }

    /// The outputs of a whole batch, row-major.
    pub fn evaluate(&self, memory: &mut NetworkMemory<E>, x: &Batch<E>, out: &mut [E]) {
        match (self, memory, x) {
            (Network::Plain(net), NetworkMemory::Plain(memory), Batch::Plain(x)) => net.evaluate(memory, x, out),
            (Network::Recurrent(net), NetworkMemory::Recurrent(memory), Batch::Recurrent(x)) => {
                net.evaluate(memory, x, out);
            }
            _ => unreachable!("{MIXED}"),
        }
    }

    /// The same with the state after every row; for a network that remembers.
    pub fn unroll(&self, memory: &mut NetworkMemory<E>, x: &Batch<E>, out: &mut [E], after: &mut [E]) {
        match (self, memory, x) {
            (Network::Recurrent(net), NetworkMemory::Recurrent(memory), Batch::Recurrent(x)) => {
                net.unroll(memory, x, out, after);
            }
            _ => unreachable!("{MIXED}"),
        }
    }

    /// One pass over a batch: see [`Mlp::pass`] and [`Gru::pass`].
    pub fn pass<A: Send>(
        &self,
        memory: &mut NetworkMemory<E>,
        x: &Batch<E>,
        sums: &mut [A],
        loss: impl Fn(&mut A, usize, &[E], &mut [E]) + Sync,
    ) {
        match (self, memory, x) {
            (Network::Plain(net), NetworkMemory::Plain(memory), Batch::Plain(x)) => net.pass(memory, x, sums, loss),
            (Network::Recurrent(net), NetworkMemory::Recurrent(memory), Batch::Recurrent(x)) => {
                net.pass(memory, x, sums, loss);
            }
            _ => unreachable!("{MIXED}"),
        }
    }

    /// See [`Mlp::tangent_pass`]; only a network that does not remember has it.
    pub fn tangent_pass<A: Send>(
        &self,
        memory: &mut NetworkMemory<E>,
        x: &Batch<E>,
        direction: &[E],
        sums: &mut [A],
        loss: impl Fn(&mut A, usize, &[E], &[E], &mut [E]) + Sync,
    ) {
        match (self, memory, x) {
            (Network::Plain(net), NetworkMemory::Plain(memory), Batch::Plain(x)) => {
                net.tangent_pass(memory, x, direction, sums, loss);
            }
            _ => unreachable!("second-order steps are refused for networks that remember"),
        }
    }

    /// Applies an optimiser's step for `gradient`.
    pub fn step(&mut self, adam: &mut Adam<E>, gradient: &[E]) {
        either!(self, net => net.step(adam, gradient));
    }
}

impl<E: Real> NetworkMemory<E> {
    /// The gradient of the last pass, summed over the batch, in the order of the network's parameters.
    pub fn gradient(&self) -> &[E] {
        either!(self, memory => memory.gradient())
    }
}

impl<E: Real> Batch<E> {
    /// Packs all rows.
    pub fn fill(&mut self, source: Source<E>) {
        match self {
            Batch::Plain(x) => x.fill(source.rows),
            Batch::Recurrent(x) => x.fill(source.steps, source.rows, source.states, source.starts),
        }
    }

    /// Packs the pieces that `index` names, in its order; a sequence's number is that of its first row over its steps.
    pub fn gather(&mut self, source: Source<E>, index: &[u32]) {
        match self {
            Batch::Plain(x) => x.gather(source.rows, index),
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

    /// Rows of a piece.
    pub fn steps(&self) -> usize {
        match self {
            Batch::Plain(_) => 1,
            Batch::Recurrent(x) => x.steps(),
        }
    }

    /// For every row which one of the source's it is, after [`Batch::gather`] of the pieces `index`.
    pub fn named<'a>(&'a self, index: &'a [u32]) -> &'a [u32] {
        match self {
            Batch::Plain(_) => index,
            Batch::Recurrent(x) => x.source(),
        }
    }

    /// Parts whose sums are formed apart and added in order.
    pub fn chunks(&self) -> usize {
        either!(self, x => x.chunks())
    }
}
