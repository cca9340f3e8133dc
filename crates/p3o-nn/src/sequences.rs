//! A batch of sequences cut into blocks, packed the way the kernels read it.

use crate::block::Block;
use crate::buffer::Buffer;
use crate::kernels::{PANEL, panels};
use crate::real::Real;
use crate::reduce;

/// Sequences of a block: the height of one register tile, so that all steps of a block fit the second-level cache together.
const BLOCK_SEQUENCES: usize = 12;

/// A batch of sequences of equal length with the states they begin in, time-major within each block. Its rows are
/// numbered sequence by sequence.
pub struct Sequences<E> {
    data: Buffer<E>,
    states: Vec<E>,
    starts: Vec<bool>,
    source: Vec<u32>,
    count: usize,
    steps: usize,
    columns: usize,
    units: usize,
}

impl<E: Real> Sequences<E> {
    /// An empty batch for rows of `columns` numbers and states of `units`.
    pub fn new(columns: usize, units: usize) -> Self {
        Sequences {
            data: Buffer::zeros(0),
            states: Vec::new(),
            starts: Vec::new(),
            source: Vec::new(),
            count: 0,
            steps: 0,
            columns,
            units,
        }
    }

    /// Cuts consecutive rows into sequences of `steps` steps. `states` has a state for every row, of which only those
    /// before a sequence's first row count; `starts` says for every row whether an episode starts with it, from a
    /// state of zero.
    pub fn fill(&mut self, steps: usize, rows: &[E], states: &[E], starts: &[bool]) {
        assert!(steps > 0 && starts.len().is_multiple_of(steps), "a batch must consist of whole sequences");
        assert_eq!(rows.len(), starts.len() * self.columns, "as many rows as flags");
        self.put(steps, starts.len() / steps, |s| s * steps, rows, states, starts);
    }

    /// The same for the sequences whose first rows `first` names, in its order.
    pub fn gather(&mut self, steps: usize, first: &[u32], rows: &[E], states: &[E], starts: &[bool]) {
        assert!(steps > 0, "a sequence has at least one step");
        self.put(steps, first.len(), |s| first[s] as usize, rows, states, starts);
    }

    fn put(
        &mut self,
        steps: usize,
        count: usize,
        first: impl Fn(usize) -> usize,
        rows: &[E],
        states: &[E],
        starts: &[bool],
    ) {
        let (columns, units) = (self.columns, self.units);
        assert_eq!(states.len(), starts.len() * units, "as many states as flags");
        (self.steps, self.count) = (steps, count);
        self.data.reserve_zeroed(count * steps * panels(columns) * PANEL);
        self.states.resize(count * units, E::ZERO);
        self.starts.resize(count * steps, false);
        self.source.resize(count * steps, 0);
        for s in 0..count {
            let (block, within, from) = (self.block(s / BLOCK_SEQUENCES), s % BLOCK_SEQUENCES, first(s));
            self.states[s * units..][..units].copy_from_slice(&states[from * units..][..units]);
            let before = s / BLOCK_SEQUENCES * BLOCK_SEQUENCES * steps;
            let data = &mut self.data[before * panels(columns) * PANEL..];
            for t in 0..steps {
                let row = t * block.sequences + within;
                self.source[s * steps + t] = (from + t) as u32;
                self.starts[before + row] = starts[from + t];
                block.put(data, row, &rows[(from + t) * columns..][..columns]);
            }
        }
    }

    /// Rows of all sequences together.
    pub fn rows(&self) -> usize {
        self.count * self.steps
    }

    /// Numbers in a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Sequences in the batch.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Steps of a sequence.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Numbers in a state.
    pub fn units(&self) -> usize {
        self.units
    }

    /// For every row of the batch, which one of those given to [`Sequences::fill`] or [`Sequences::gather`] it is.
    pub fn source(&self) -> &[u32] {
        &self.source
    }

    pub(crate) fn blocks(&self) -> usize {
        self.count.div_ceil(BLOCK_SEQUENCES)
    }

    pub(crate) fn block(&self, b: usize) -> Block {
        Block { sequences: (self.count - b * BLOCK_SEQUENCES).min(BLOCK_SEQUENCES), steps: self.steps }
    }

    /// The largest block.
    pub(crate) fn largest(&self) -> Block {
        Block { sequences: self.count.min(BLOCK_SEQUENCES), steps: self.steps }
    }

    /// The first row of a block, its packed rows, the states its sequences begin in, and its flags in the order of its rows.
    pub(crate) fn data(&self, b: usize) -> (usize, &[E], &[E], &[bool]) {
        let (first, rows) = (b * BLOCK_SEQUENCES * self.steps, self.block(b).rows());
        let width = panels(self.columns) * PANEL;
        let sequences = self.block(b).sequences;
        (
            first,
            &self.data[first * width..][..rows * width],
            &self.states[b * BLOCK_SEQUENCES * self.units..][..sequences * self.units],
            &self.starts[first..][..rows],
        )
    }

    /// Parts of the batch: each is summed apart, and their sums are added in a fixed order.
    pub fn parts(&self) -> usize {
        reduce::parts(self.blocks())
    }

    /// The blocks of one part.
    pub(crate) fn part(&self, part: usize) -> std::ops::Range<usize> {
        reduce::part(self.blocks(), part)
    }
}
