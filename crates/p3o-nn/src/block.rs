//! The sequences that a GRU takes through its layers together.
//!
//! All matrices of a block have one row per step and sequence, step after step, and the same stride. The rows of one
//! step are therefore a matrix of their own, which begins that many rows further on.

use crate::kernels::{PANEL, panels};
use crate::matrix::{get_row, put_row};
use crate::real::Real;

/// Rows of a strip: they go through one layer after the other while they are in the first-level cache.
const STRIP_ROWS: usize = 60;

/// The shape of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub sequences: usize,
    pub steps: usize,
}

impl Block {
    pub fn rows(self) -> usize {
        self.sequences * self.steps
    }

    /// Elements from one panel of a matrix to the next.
    pub fn stride(self) -> usize {
        self.rows() * PANEL
    }

    /// Elements of a matrix with `columns` columns.
    pub fn len(self, columns: usize) -> usize {
        panels(columns) * self.stride()
    }

    /// Where the rows of step `t` begin.
    pub fn step(self, t: usize) -> usize {
        t * self.sequences * PANEL
    }

    /// The rows in strips: the first row of each and how many it has.
    pub fn strips(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.rows()).step_by(STRIP_ROWS).map(move |first| (first, (self.rows() - first).min(STRIP_ROWS)))
    }

    /// Writes one row, and zeros into its padding.
    pub fn put<E: Real>(self, matrix: &mut [E], row: usize, values: &[E]) {
        put_row(matrix, self.stride(), row, values);
        let (last, filled) = (values.len() / PANEL, values.len() % PANEL);
        if filled > 0 {
            matrix[last * self.stride() + row * PANEL..][filled..PANEL].fill(E::ZERO);
        }
    }

    /// Reads one row.
    pub fn get<E: Real>(self, matrix: &[E], row: usize, values: &mut [E]) {
        get_row(matrix, self.stride(), row, values);
    }
}
