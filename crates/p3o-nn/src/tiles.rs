//! A batch of rows cut into tiles, packed the way the kernels read it.

use crate::buffer::Buffer;
use crate::kernels::{PANEL, padded};
use crate::matrix::put_row;
use crate::real::Real;
use crate::reduce;

/// Rows of a tile: small enough that a tile's activations stay in the second-level cache through all layers, and a
/// multiple of every register tile's height.
pub const TILE_ROWS: usize = 120;

/// Elements from one panel of a tile to the next.
pub(crate) const TILE_STRIDE: usize = TILE_ROWS * PANEL;

/// A batch of rows, panel-major within each tile.
pub struct Tiles<E> {
    data: Buffer<E>,
    rows: usize,
    columns: usize,
}

impl<E: Real> Tiles<E> {
    /// An empty batch of rows with `columns` numbers each.
    pub fn new(columns: usize) -> Self {
        Tiles { data: Buffer::zeros(0), rows: 0, columns }
    }

    /// Packs `rows` rows, the row-major contents of `source`.
    pub fn fill(&mut self, source: &[E]) {
        assert_eq!(source.len() % self.columns, 0, "a batch must consist of whole rows");
        let columns = self.columns;
        self.set_rows(source.len() / columns);
        for r in 0..self.rows {
            self.put(r, &source[r * columns..(r + 1) * columns]);
        }
    }

    /// Packs the rows of `source` that `index` names, in its order.
    pub fn gather(&mut self, source: &[E], index: &[u32]) {
        let columns = self.columns;
        self.set_rows(index.len());
        for (r, &i) in index.iter().enumerate() {
            self.put(r, &source[i as usize * columns..(i as usize + 1) * columns]);
        }
    }

    fn set_rows(&mut self, rows: usize) {
        self.rows = rows;
        self.data.reserve_zeroed(rows.div_ceil(TILE_ROWS) * self.tile_len());
    }

    fn put(&mut self, row: usize, values: &[E]) {
        let from = row / TILE_ROWS * self.tile_len();
        put_row(&mut self.data[from..], TILE_STRIDE, row % TILE_ROWS, values);
    }

    fn tile_len(&self) -> usize {
        padded(self.columns) * TILE_ROWS
    }

    /// Rows in the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers in a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Tiles in the batch.
    pub fn count(&self) -> usize {
        self.rows.div_ceil(TILE_ROWS)
    }

    /// The packed tile and how many of its rows count.
    pub(crate) fn tile(&self, t: usize) -> (&[E], usize) {
        let len = self.tile_len();
        (&self.data[t * len..(t + 1) * len], (self.rows - t * TILE_ROWS).min(TILE_ROWS))
    }

    /// Parts of the batch: each is summed apart, and their sums are added in a fixed order.
    pub fn parts(&self) -> usize {
        reduce::parts(self.count())
    }

    /// The tiles of one part.
    pub(crate) fn part(&self, part: usize) -> std::ops::Range<usize> {
        reduce::part(self.count(), part)
    }
}
