//! Safe calls of the kernels: every other module computes through this one.
//!
//! A matrix is a slice in the panel-major layout of [`crate::kernels`]. Each function here checks once that its slices
//! cover what the kernel reads and writes, and then calls it; borrows make sure that what is written overlaps nothing
//! else.
//!
//! All calls are safe for the same two reasons, which the comments at the `unsafe` blocks name in short:
//!
//! - *Lengths:* a matrix of n panels covers its rows if it has at least (n - 1) strides and one panel of those rows, and
//!   the kernels stay inside the rows and panels that their arguments describe.
//! - *Instructions:* a [`Kernels`] table can only be had from [`Real::kernels`], which checks that the processor has its
//!   instructions.

use crate::activation::Activation;
use crate::cell::{Cell, CellBack, Norm, NormBack};
use crate::kernels::{AdamStep, Dots, Kernels, Outer, PANEL, Product, padded, panels};
use crate::real::Real;
use crate::simd::LANES;

/// Writes one row of a matrix; leaves its padding as it is.
pub(crate) fn put_row<E: Real>(matrix: &mut [E], stride: usize, row: usize, values: &[E]) {
    for (p, part) in values.chunks(PANEL).enumerate() {
        matrix[p * stride + row * PANEL..][..part.len()].copy_from_slice(part);
    }
}

/// Reads one row of a matrix.
pub(crate) fn get_row<E: Real>(matrix: &[E], stride: usize, row: usize, values: &mut [E]) {
    for (p, part) in values.chunks_mut(PANEL).enumerate() {
        part.copy_from_slice(&matrix[p * stride + row * PANEL..][..part.len()]);
    }
}

/// y += x; whole vectors.
pub(crate) fn add<E: Real>(kernels: &Kernels<E>, y: &mut [E], x: &[E]) {
    assert!(x.len() == y.len() && x.len().is_multiple_of(LANES));
    // SAFETY: lengths: both slices have x.len() elements, a multiple of the lanes. Instructions: see the module.
    unsafe { (kernels.add)(y.as_mut_ptr(), x.as_ptr(), x.len()) }
}

/// The numbers of one step of Adam that are the same for all parameters.
pub(crate) struct AdamRates<E> {
    pub beta1: E,
    pub beta2: E,
    /// lr / (1 - beta1^t)
    pub step: E,
    /// 1 / sqrt(1 - beta2^t)
    pub root: E,
    pub epsilon: E,
}

/// One step of Adam on parameters and their two moments; whole vectors.
pub(crate) fn adam<E: Real>(
    kernels: &Kernels<E>,
    rates: AdamRates<E>,
    params: &mut [E],
    grads: &[E],
    [m, v]: [&mut [E]; 2],
) {
    let n = params.len();
    assert!(grads.len() == n && m.len() == n && v.len() == n && n.is_multiple_of(LANES));
    let args = AdamStep {
        n,
        params: params.as_mut_ptr(),
        grads: grads.as_ptr(),
        m: m.as_mut_ptr(),
        v: v.as_mut_ptr(),
        beta1: rates.beta1,
        beta2: rates.beta2,
        step: rates.step,
        root: rates.root,
        epsilon: rates.epsilon,
    };
    // SAFETY: lengths: all four slices have n elements, a multiple of the lanes. Instructions: see the module.
    unsafe { (kernels.adam)(&args) }
}

/// Keeps the processor busy with fused multiply-adds on registers; returns how many operations they were.
pub(crate) fn burn<E: Real>(kernels: &Kernels<E>, rounds: usize) -> f64 {
    // SAFETY: lengths: it has no pointers. Instructions: see the module.
    std::hint::black_box(unsafe { (kernels.burn)(rounds) });
    rounds as f64 * kernels.burn_flops as f64
}

/// A matrix to read: its elements and how many columns count.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, E>(pub &'a [E], pub usize);

/// A matrix to write: its elements and how many columns count.
pub(crate) struct ViewMut<'a, E>(pub &'a mut [E], pub usize);

/// What a product is added to.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a, E> {
    Zero,
    /// The same row everywhere.
    Bias(&'a [E]),
    /// What the result's place holds.
    Accumulate,
}

/// What happens to a product before it is stored.
#[derive(Clone, Copy)]
pub(crate) enum End<'a, E> {
    Store,
    Activate(Activation),
    /// Times the activation's derivative, expressed by the activation's value, which is laid out like the result.
    TimesSlope(Activation, &'a [E]),
}

/// What both directions through a layer normalisation need of it.
pub(crate) struct NormParams<'a, E> {
    pub columns: usize,
    pub gain: &'a [E],
    /// One in a column, zero in the padding.
    pub mask: &'a [E],
}

/// Matrices of `rows` rows whose panels are `stride` elements apart.
pub(crate) struct Matrices<E: 'static> {
    kernels: &'static Kernels<E>,
    stride: usize,
    rows: usize,
}

impl<E: Real> Matrices<E> {
    pub fn new(kernels: &'static Kernels<E>, stride: usize, rows: usize) -> Self {
        assert!(rows * PANEL <= stride, "panels must not overlap");
        Matrices { kernels, stride, rows }
    }

    /// Whether `matrix` has all rows of so many panels.
    fn covers(&self, matrix: &[E], panels: usize) -> bool {
        panels == 0 || matrix.len() >= (panels - 1) * self.stride + self.rows * PANEL
    }

    /// y = end(start + x w), `w` packed `[panel of y][column of x][32]`.
    pub fn product(&self, x: View<E>, w: &[E], start: Start<E>, y: ViewMut<E>, end: End<E>) {
        let (View(x, inner), ViewMut(y, outer)) = (x, y);
        assert!(self.covers(x, panels(inner)) && self.covers(y, panels(outer)) && w.len() >= padded(outer) * inner);
        let bias = match start {
            Start::Bias(bias) => {
                assert!(bias.len() >= padded(outer));
                bias.as_ptr()
            }
            Start::Zero | Start::Accumulate => std::ptr::null(),
        };
        let (epilogue, h) = match end {
            End::Store => (Activation::Identity.forward(), std::ptr::null()),
            End::Activate(activation) => (activation.forward(), std::ptr::null()),
            End::TimesSlope(activation, h) => {
                assert!(self.covers(h, panels(outer)));
                (activation.slope(), h.as_ptr())
            }
        };
        let args = Product {
            x: x.as_ptr(),
            x_stride: self.stride,
            inner,
            w: w.as_ptr(),
            bias,
            accumulate: matches!(start, Start::Accumulate),
            y: y.as_mut_ptr(),
            y_stride: self.stride,
            outer,
            rows: self.rows,
            h,
            epilogue,
        };
        // SAFETY: lengths of x, w, y, and of bias and h where the kernel reads them: checked above. Instructions: see the
        // module.
        unsafe { (self.kernels.product)(&args) }
    }

    /// g += x^T d, `g` packed `[panel of d][column of x][32]`.
    pub fn outer(&self, x: View<E>, d: View<E>, g: &mut [E]) {
        let (View(x, x_columns), View(d, d_columns)) = (x, d);
        assert!(self.covers(x, panels(x_columns)) && self.covers(d, panels(d_columns)));
        assert!(g.len() >= padded(d_columns) * x_columns);
        let args = Outer {
            x: x.as_ptr(),
            x_stride: self.stride,
            x_columns,
            d: d.as_ptr(),
            d_stride: self.stride,
            d_columns,
            rows: self.rows,
            g: g.as_mut_ptr(),
        };
        // SAFETY: lengths: checked above. Instructions: see the module.
        unsafe { (self.kernels.outer)(&args) }
    }

    /// g += the sum of d's rows.
    pub fn column_sums(&self, d: View<E>, g: &mut [E]) {
        let View(d, columns) = d;
        assert!(self.covers(d, panels(columns)) && g.len() >= padded(columns));
        // SAFETY: lengths: checked above. Instructions: see the module.
        unsafe { (self.kernels.column_sums)(d.as_ptr(), self.stride, columns, self.rows, g.as_mut_ptr()) }
    }

    /// y = bias + x w for few outputs, or y += x w without a bias; `w` packed `[panel of x][output][32]`, `y` row-major.
    pub fn dots(&self, x: View<E>, w: &[E], bias: Option<&[E]>, outputs: usize, y: &mut [E]) {
        let View(x, inner) = x;
        assert!(self.covers(x, panels(inner)) && w.len() >= padded(inner) * outputs);
        assert!(bias.is_none_or(|b| b.len() >= outputs) && y.len() >= self.rows * outputs);
        let args = Dots {
            x: x.as_ptr(),
            x_stride: self.stride,
            inner,
            w: w.as_ptr(),
            bias: bias.map_or(std::ptr::null(), <[E]>::as_ptr),
            outputs,
            y: y.as_mut_ptr(),
            rows: self.rows,
        };
        // SAFETY: lengths: checked above. Instructions: see the module.
        unsafe { (self.kernels.dots)(&args) }
    }

    fn fits(&self, norm: &NormParams<E>, x: &[E], mean: &[E], scale: &[E]) -> bool {
        let width = padded(norm.columns);
        let (gain, mask) = (norm.gain.len() >= width, norm.mask.len() >= width);
        gain && mask && self.covers(x, panels(norm.columns)) && mean.len().min(scale.len()) >= self.rows
    }

    /// Layer normalisation from `x` to `y`; writes the mean and 1 / standard deviation of every row.
    pub fn norm(&self, norm: NormParams<E>, bias: &[E], x: &[E], y: &mut [E], [mean, scale]: [&mut [E]; 2]) {
        assert!(self.fits(&norm, x, mean, scale) && self.covers(y, panels(norm.columns)));
        assert!(bias.len() >= padded(norm.columns));
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
        // SAFETY: lengths: checked above. Instructions: see the module.
        unsafe { (self.kernels.norm)(&args) }
    }

    /// Backward through a layer normalisation: adds to the gradients of gain and bias. With an activation, `d` becomes
    /// d loss / dx times the slope of that activation, whose value `x` is; without one `d` stays as it is.
    pub fn norm_back(
        &self,
        norm: NormParams<E>,
        x: &[E],
        [mean, scale]: [&[E]; 2],
        d: &mut [E],
        [d_gain, d_bias]: [&mut [E]; 2],
        slope: Option<Activation>,
    ) {
        let width = padded(norm.columns);
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
            epilogue: slope.map(Activation::slope),
        };
        // SAFETY: lengths: checked above. Instructions: see the module.
        unsafe { (self.kernels.norm_back)(&args) }
    }

    /// One step of the GRU's cell with states of `units` numbers. `entering` begins with this step's states; the next
    /// step's follow right behind its rows. `starts` are the next step's flags, `None` at the last step.
    pub fn cell(&self, gates: &mut [E], units: usize, entering: &mut [E], state: &mut [E], starts: Option<&[bool]>) {
        let (panels, next) = (panels(units), self.rows * PANEL);
        let written = &entering[if starts.is_some() { next } else { 0 }..];
        assert!(self.covers(gates, 4 * panels) && self.covers(written, panels) && self.covers(state, panels));
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
        // SAFETY: lengths: checked above; this step's states end before the next step's do. `entering` and `next` come
        // from one exclusive borrow and the kernel reads a row of the one before it writes a row of the other.
        // Instructions: see the module.
        unsafe { (self.kernels.cell)(&args) }
    }

    /// The same step backward. `starts` are the next step's flags, `None` at the last step.
    pub fn cell_back(
        &self,
        gates: &mut [E],
        units: usize,
        entering: &[E],
        d_state: &[E],
        carry: &mut [E],
        starts: Option<&[bool]>,
    ) {
        let panels = panels(units);
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
        // SAFETY: lengths: checked above. Instructions: see the module.
        unsafe { (self.kernels.cell_back)(&args) }
    }
}
