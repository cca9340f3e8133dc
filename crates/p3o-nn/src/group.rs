//! Some sequences side by side, and the kernels called on their matrices with every length checked.
//!
//! All matrices of a group have one row per sequence and step, step after step, and are panel-major with one stride; so the
//! rows of one step are a matrix too, which begins that many rows further on.

use crate::cell::{Cell, CellBack, Norm, NormBack};
use crate::kernels::{Dots, Epilogue, Kernels, Outer, PANEL, Product, panels};
use crate::real::Real;

/// Rows that go through one layer after the other while they are in the first-level cache.
const BLOCK_ROWS: usize = 60;

/// The shape of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub sequences: usize,
    pub steps: usize,
}

impl Group {
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

    /// The rows in blocks: where each begins and how many it has.
    pub fn blocks(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.rows()).step_by(BLOCK_ROWS).map(move |first| (first, (self.rows() - first).min(BLOCK_ROWS)))
    }

    /// Writes one row and zeros into its padding.
    pub fn put<E: Real>(self, matrix: &mut [E], row: usize, values: &[E]) {
        for (p, part) in values.chunks(PANEL).enumerate() {
            let to = &mut matrix[p * self.stride() + row * PANEL..][..PANEL];
            to[..part.len()].copy_from_slice(part);
            to[part.len()..].fill(E::ZERO);
        }
    }

    /// Reads one row.
    pub fn get<E: Real>(self, matrix: &[E], row: usize, values: &mut [E]) {
        for (p, part) in values.chunks_mut(PANEL).enumerate() {
            part.copy_from_slice(&matrix[p * self.stride() + row * PANEL..][..part.len()]);
        }
    }
}

/// What a product is added to.
pub(crate) enum Start<'a, E> {
    Zero,
    Bias(&'a [E]),
    /// What the result's place holds.
    Itself,
}

/// What both ways through a layer normalisation need of it.
pub(crate) struct NormParts<'a, E> {
    pub columns: usize,
    pub gain: &'a [E],
    pub mask: &'a [E],
}

/// The kernels on the first `rows` rows of matrices whose panels are `stride` apart.
pub(crate) struct Call<E: 'static> {
    pub kernels: &'static Kernels<E>,
    pub stride: usize,
    pub rows: usize,
}

impl<E: Real> Call<E> {
    fn covers(&self, matrix: &[E], panels: usize) -> bool {
        panels == 0 || matrix.len() >= (panels - 1) * self.stride + self.rows * PANEL
    }

    /// y = start + x w, over `outer` whole panels of y.
    #[allow(clippy::too_many_arguments)] // the operands of one matrix product
    pub fn product(&self, x: &[E], inner: usize, w: &[E], start: Start<E>, y: &mut [E], outer: usize, end: Epilogue) {
        assert!(matches!(end, Epilogue::None | Epilogue::Tanh | Epilogue::Relu));
        assert!(self.covers(x, panels(inner)) && self.covers(y, outer) && w.len() >= outer * inner * PANEL);
        let bias = match start {
            Start::Bias(bias) => {
                assert!(bias.len() >= outer * PANEL);
                bias.as_ptr()
            }
            _ => std::ptr::null(),
        };
        let args = Product {
            x: x.as_ptr(),
            x_stride: self.stride,
            inner,
            w: w.as_ptr(),
            bias,
            accumulate: matches!(start, Start::Itself),
            y: y.as_mut_ptr(),
            y_stride: self.stride,
            outer: outer * PANEL,
            rows: self.rows,
            h: std::ptr::null(),
            epilogue: end,
        };
        // SAFETY: the lengths were just checked, and the table was chosen for this processor.
        unsafe { (self.kernels.product)(&args) }
    }

    /// g += x^T d over `d_panels` whole panels of d.
    pub fn outer(&self, x: &[E], x_columns: usize, d: &[E], d_panels: usize, g: &mut [E]) {
        assert!(self.covers(x, panels(x_columns)) && self.covers(d, d_panels));
        assert!(g.len() >= d_panels * x_columns * PANEL);
        let args = Outer {
            x: x.as_ptr(),
            x_stride: self.stride,
            x_columns,
            d: d.as_ptr(),
            d_stride: self.stride,
            d_columns: d_panels * PANEL,
            rows: self.rows,
            g: g.as_mut_ptr(),
        };
        // SAFETY: as above.
        unsafe { (self.kernels.outer)(&args) }
    }

    /// g += the sum of d's rows, over whole panels.
    pub fn column_sums(&self, d: &[E], d_panels: usize, g: &mut [E]) {
        assert!(self.covers(d, d_panels) && g.len() >= d_panels * PANEL);
        // SAFETY: as above.
        unsafe { (self.kernels.column_sums)(d.as_ptr(), self.stride, d_panels * PANEL, self.rows, g.as_mut_ptr()) }
    }

    /// y = bias + x w for few outputs, row-major; `w` packed `[panel of inputs][output][32]`.
    pub fn dots(&self, x: &[E], inner: usize, w: &[E], bias: &[E], outputs: usize, y: &mut [E]) {
        assert!(self.covers(x, panels(inner)) && w.len() >= panels(inner) * outputs * PANEL);
        assert!(bias.len() >= outputs && y.len() >= self.rows * outputs);
        let (x, w, bias, y) = (x.as_ptr(), w.as_ptr(), bias.as_ptr(), y.as_mut_ptr());
        let args = Dots { x, x_stride: self.stride, inner, w, bias, outputs, y, rows: self.rows };
        // SAFETY: as above.
        unsafe { (self.kernels.dots)(&args) }
    }

    fn fits(&self, norm: &NormParts<E>, x: &[E], mean: &[E], scale: &[E]) -> bool {
        let width = panels(norm.columns) * PANEL;
        let (gain, mask) = (norm.gain.len() >= width, norm.mask.len() >= width);
        gain && mask && self.covers(x, panels(norm.columns)) && mean.len().min(scale.len()) >= self.rows
    }

    pub fn norm(&self, norm: NormParts<E>, bias: &[E], x: &[E], y: &mut [E], [mean, scale]: [&mut [E]; 2]) {
        assert!(self.fits(&norm, x, mean, scale) && self.covers(y, panels(norm.columns)));
        assert!(bias.len() >= panels(norm.columns) * PANEL);
        let args = Norm {
            x: x.as_ptr(),
            y: y.as_mut_ptr(),
            stride: self.stride,
            columns: norm.columns,
            rows: self.rows,
            gain: norm.gain.as_ptr(),
            bias: bias.as_ptr(),
            mask: norm.mask.as_ptr(),
            mean: mean.as_mut_ptr(),
            scale: scale.as_mut_ptr(),
        };
        // SAFETY: as above.
        unsafe { (self.kernels.norm)(&args) }
    }

    pub fn norm_back(
        &self,
        norm: NormParts<E>,
        x: &[E],
        [mean, scale]: [&[E]; 2],
        d: &mut [E],
        [d_gain, d_bias]: [&mut [E]; 2],
        epilogue: Option<Epilogue>,
    ) {
        let width = panels(norm.columns) * PANEL;
        assert!(self.fits(&norm, x, mean, scale) && self.covers(d, panels(norm.columns)));
        assert!(d_gain.len() >= width && d_bias.len() >= width);
        let args = NormBack {
            x: x.as_ptr(),
            d: d.as_mut_ptr(),
            stride: self.stride,
            columns: norm.columns,
            rows: self.rows,
            gain: norm.gain.as_ptr(),
            mask: norm.mask.as_ptr(),
            mean: mean.as_ptr(),
            scale: scale.as_ptr(),
            d_gain: d_gain.as_mut_ptr(),
            d_bias: d_bias.as_mut_ptr(),
            epilogue,
        };
        // SAFETY: as above.
        unsafe { (self.kernels.norm_back)(&args) }
    }

    /// One step of the cell; `entering` begins with this step's states and has the next step's `next` further on. `starts`
    /// are the next step's flags, `None` at the last one.
    pub fn cell(&self, gates: &mut [E], panels: usize, entering: &mut [E], state: &mut [E], starts: Option<&[bool]>) {
        let next = self.rows * PANEL;
        let reach = &entering[if starts.is_some() { next } else { 0 }..];
        assert!(self.covers(gates, 4 * panels) && self.covers(reach, panels) && self.covers(state, panels));
        assert!(starts.is_none_or(|s| s.len() >= self.rows));
        let base = entering.as_mut_ptr();
        let args = Cell {
            gates: gates.as_mut_ptr(),
            stride: self.stride,
            panels,
            rows: self.rows,
            entering: base,
            state: state.as_mut_ptr(),
            next: if starts.is_some() { base.wrapping_add(next) } else { std::ptr::null_mut() },
            next_starts: starts.map_or(std::ptr::null(), <[bool]>::as_ptr),
        };
        // SAFETY: as above.
        unsafe { (self.kernels.cell)(&args) }
    }

    /// The same step back. `starts` are the next step's flags, `None` at the last one.
    pub fn cell_back(
        &self,
        gates: &mut [E],
        panels: usize,
        entering: &[E],
        d_state: &[E],
        carry: &mut [E],
        starts: Option<&[bool]>,
    ) {
        assert!(self.covers(gates, 4 * panels) && self.covers(entering, panels));
        assert!(self.covers(d_state, panels) && self.covers(carry, panels));
        assert!(starts.is_none_or(|s| s.len() >= self.rows));
        let args = CellBack {
            gates: gates.as_mut_ptr(),
            stride: self.stride,
            panels,
            rows: self.rows,
            entering: entering.as_ptr(),
            d_state: d_state.as_ptr(),
            carry: carry.as_mut_ptr(),
            next_starts: starts.map_or(std::ptr::null(), <[bool]>::as_ptr),
        };
        // SAFETY: as above.
        unsafe { (self.kernels.cell_back)(&args) }
    }
}
