//! A batch of sequences cut into groups, packed the way the kernels read it.

use crate::buffer::Buffer;
use crate::group::Group;
use crate::kernels::{PANEL, panels};
use crate::real::Real;
use crate::reduce;

/// Sequences of a group: one register tile's height, so that all steps of a group fit the second-level cache together.
const GROUP: usize = 12;

/// A batch of sequences of equal length with the states they begin in, time-major within each group. Its rows are
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
            let (group, within, from) = (self.group(s / GROUP), s % GROUP, first(s));
            self.states[s * units..][..units].copy_from_slice(&states[from * units..][..units]);
            let before = s / GROUP * GROUP * steps;
            let data = &mut self.data[before * panels(columns) * PANEL..];
            for t in 0..steps {
                let row = t * group.sequences + within;
                self.source[s * steps + t] = (from + t) as u32;
                self.starts[before + row] = starts[from + t];
                group.put(data, row, &rows[(from + t) * columns..][..columns]);
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

    pub(crate) fn groups(&self) -> usize {
        self.count.div_ceil(GROUP)
    }

    pub(crate) fn group(&self, g: usize) -> Group {
        Group { sequences: (self.count - g * GROUP).min(GROUP), steps: self.steps }
    }

    /// The largest group.
    pub(crate) fn largest(&self) -> Group {
        Group { sequences: self.count.min(GROUP), steps: self.steps }
    }

    /// The first row of a group, its packed rows, its sequences' first states, and its flags in the order of its rows.
    pub(crate) fn parts(&self, g: usize) -> (usize, &[E], &[E], &[bool]) {
        let (first, rows) = (g * GROUP * self.steps, self.group(g).rows());
        let width = panels(self.columns) * PANEL;
        let sequences = self.group(g).sequences;
        (
            first,
            &self.data[first * width..][..rows * width],
            &self.states[g * GROUP * self.units..][..sequences * self.units],
            &self.starts[first..][..rows],
        )
    }

    /// Parts whose sums are formed apart and added in order.
    pub fn chunks(&self) -> usize {
        reduce::parts(self.groups())
    }

    /// The groups of one part.
    pub(crate) fn chunk(&self, c: usize) -> std::ops::Range<usize> {
        reduce::part(self.groups(), c)
    }
}
