//! The kernels of layer normalisation and of the GRU's cell, over panel-major matrices like those of [`crate::kernels`].
//!
//! Every row is computed by itself, in an order of operations that does not depend on the other rows.
//!
//! Safety: every `unsafe fn` here has the contract of [`crate::kernels::Kernels`], and each `unsafe` block relies on it.

use crate::kernels::{Epilogue, PANEL, finish, panels};
use crate::real::Real;
use crate::simd::{LANES, Simd};

/// Added to the variance of a layer normalisation before the root.
pub const EPSILON: f64 = 1e-5;

/// y = gain (x - mean) / sqrt(variance + epsilon) + bias in every row; mean and 1 / sqrt are kept for the backward pass.
pub(crate) struct Norm<E> {
    pub x: *const E,
    pub y: *mut E,
    /// Elements from one panel to the next, in every matrix.
    pub stride: usize,
    pub columns: usize,
    pub rows: usize,
    pub gain: *const E,
    pub bias: *const E,
    /// One in a column, zero in the padding.
    pub mask: *const E,
    pub mean: *mut E,
    pub scale: *mut E,
}

/// The backward pass: adds to the gradients of gain and bias, and replaces d loss / dy by d loss / dx times the slope of the
/// activation that made x.
pub(crate) struct NormBack<E> {
    pub x: *const E,
    pub d: *mut E,
    pub stride: usize,
    pub columns: usize,
    pub rows: usize,
    pub gain: *const E,
    pub mask: *const E,
    pub mean: *const E,
    pub scale: *const E,
    pub d_gain: *mut E,
    pub d_bias: *mut E,
    /// `None` where d loss / dx is not needed.
    pub epilogue: Option<Epilogue>,
}

/// One step of some sequences. `gates` holds four matrices of `panels` panels each: W_in x + b_in, then the sums over
/// input and state for r and for z, then W_hn h + b_hn. Afterwards they hold n, r, z, and the last one as it was.
pub(crate) struct Cell<E> {
    pub gates: *mut E,
    pub stride: usize,
    pub panels: usize,
    pub rows: usize,
    /// The state at the beginning of the step.
    pub entering: *const E,
    /// The state after it.
    pub state: *mut E,
    /// The state at the beginning of the next step, or null for none: zero where an episode starts.
    pub next: *mut E,
    pub next_starts: *const bool,
}

/// The backward pass: the matrices of `gates` become the gradients with respect to the sums that they held before the step.
pub(crate) struct CellBack<E> {
    pub gates: *mut E,
    pub stride: usize,
    pub panels: usize,
    pub rows: usize,
    pub entering: *const E,
    /// d loss / d state through this step's output.
    pub d_state: *const E,
    /// In: d loss / d state through the next step. Out: d loss / d entering without what passes through the gates.
    pub carry: *mut E,
    /// The carry is ignored where the next step starts an episode; null where there is no next step.
    pub next_starts: *const bool,
}

/// a - b
#[inline(always)]
unsafe fn minus<S: Simd>(a: S::V, b: S::V) -> S::V {
    unsafe { S::fnma(b, S::splat(S::E::ONE), a) }
}

/// x - mean, and zero in the padding, where x is zero.
#[inline(always)]
unsafe fn off<S: Simd>(x: *const S::E, mean: S::V, mask: *const S::E) -> S::V {
    unsafe { S::fnma(mean, S::load(mask), S::load(x)) }
}

/// Folds `f(offset, column, sum so far)` over a row's vectors and sums the lanes.
#[inline(always)]
unsafe fn row_sum<S: Simd>(columns: usize, stride: usize, row: usize, f: impl Fn(usize, usize, S::V) -> S::V) -> S::E {
    unsafe {
        let (mut low, mut high) = (S::splat(S::E::ZERO), S::splat(S::E::ZERO));
        for p in 0..panels(columns) {
            let (at, column) = (p * stride + row * PANEL, p * PANEL);
            low = f(at, column, low);
            high = f(at + LANES, column + LANES, high);
        }
        S::sum(S::add(low, high))
    }
}

/// Sixteen rows at a time: their sums do not wait for each other, and they share one root and one division.
#[inline(always)]
pub(crate) unsafe fn norm<S: Simd>(a: &Norm<S::E>) {
    let (width, share) = (a.columns, S::E::of(1.0 / a.columns as f64));
    for first in (0..a.rows).step_by(LANES) {
        let count = (a.rows - first).min(LANES);
        let mut means = [S::E::ZERO; LANES];
        let mut scales = [S::E::ZERO; LANES];
        unsafe {
            for (r, mean) in means[..count].iter_mut().enumerate() {
                let sum = row_sum::<S>(width, a.stride, first + r, |at, _, sum| S::add(sum, S::load(a.x.add(at))));
                *mean = sum * share;
            }
            for (r, scale) in scales[..count].iter_mut().enumerate() {
                let mean = S::splat(means[r]);
                let squares = row_sum::<S>(width, a.stride, first + r, |at, column, sum| {
                    let off = off::<S>(a.x.add(at), mean, a.mask.add(column));
                    S::fma(off, off, sum)
                });
                *scale = squares * share;
            }
            let root = S::sqrt(S::add(S::load(scales.as_ptr()), S::splat(S::E::of(EPSILON))));
            S::store(scales.as_mut_ptr(), S::div(S::splat(S::E::ONE), root));
            for r in 0..count {
                *a.mean.add(first + r) = means[r];
                *a.scale.add(first + r) = scales[r];
                norm_row::<S>(a, first + r, S::splat(means[r]), S::splat(scales[r]));
            }
        }
    }
}

#[inline(always)]
unsafe fn norm_row<S: Simd>(a: &Norm<S::E>, row: usize, mean: S::V, scale: S::V) {
    for p in 0..panels(a.columns) {
        for v in [0, LANES] {
            let (at, column) = (p * a.stride + row * PANEL + v, p * PANEL + v);
            unsafe {
                let unit = S::mul(off::<S>(a.x.add(at), mean, a.mask.add(column)), scale);
                S::store(a.y.add(at), S::fma(unit, S::load(a.gain.add(column)), S::load(a.bias.add(column))));
            }
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn norm_back<S: Simd>(a: &NormBack<S::E>) {
    for p in 0..panels(a.columns) {
        for v in [0, LANES] {
            unsafe {
                let (to_gain, to_bias) = (a.d_gain.add(p * PANEL + v), a.d_bias.add(p * PANEL + v));
                let (mut d_gain, mut d_bias) = (S::load(to_gain), S::load(to_bias));
                for r in 0..a.rows {
                    let at = p * a.stride + r * PANEL + v;
                    let d = S::load(a.d.add(at));
                    let off = minus::<S>(S::load(a.x.add(at)), S::splat(*a.mean.add(r)));
                    d_gain = S::fma(S::mul(off, S::splat(*a.scale.add(r))), d, d_gain);
                    d_bias = S::add(d_bias, d);
                }
                S::store(to_gain, d_gain);
                S::store(to_bias, d_bias);
            }
        }
    }
    unsafe {
        match a.epilogue {
            None => {}
            // Chosen outside the loop over rows.
            Some(Epilogue::TanhSlope) => norm_back_rows::<S>(a, Epilogue::TanhSlope),
            Some(Epilogue::ReluSlope) => norm_back_rows::<S>(a, Epilogue::ReluSlope),
            Some(_) => norm_back_rows::<S>(a, Epilogue::None),
        }
    }
}

/// With u the normalised row and g = gain dy: dx = scale (g - mean(g) - u mean(g u)).
#[inline(always)]
unsafe fn norm_back_rows<S: Simd>(a: &NormBack<S::E>, epilogue: Epilogue) {
    let share = S::E::of(1.0 / a.columns as f64);
    for r in 0..a.rows {
        unsafe {
            let (mean, scale) = (S::splat(*a.mean.add(r)), S::splat(*a.scale.add(r)));
            let mut sums = [S::splat(S::E::ZERO); 2];
            let mut alongs = [S::splat(S::E::ZERO); 2];
            for p in 0..panels(a.columns) {
                for (v, (sum, along)) in sums.iter_mut().zip(&mut alongs).enumerate() {
                    let (at, column) = (p * a.stride + r * PANEL + v * LANES, p * PANEL + v * LANES);
                    let g = S::mul(S::load(a.d.add(at)), S::load(a.gain.add(column)));
                    *sum = S::add(*sum, g);
                    *along = S::fma(g, S::mul(off::<S>(a.x.add(at), mean, a.mask.add(column)), scale), *along);
                }
            }
            let sum = S::splat(S::sum(S::add(sums[0], sums[1])) * share);
            let along = S::splat(S::sum(S::add(alongs[0], alongs[1])) * share);
            for p in 0..panels(a.columns) {
                for v in [0, LANES] {
                    let (at, column) = (p * a.stride + r * PANEL + v, p * PANEL + v);
                    let g = S::mul(S::load(a.d.add(at)), S::load(a.gain.add(column)));
                    let unit = S::mul(off::<S>(a.x.add(at), mean, a.mask.add(column)), scale);
                    let g = S::fnma(sum, S::load(a.mask.add(column)), g);
                    let dx = S::mul(scale, S::fnma(unit, along, g));
                    S::store(a.d.add(at), finish::<S>(dx, a.x.add(at), epilogue));
                }
            }
        }
    }
}

/// 1 / (1 + e^-x), as tanh.
#[inline(always)]
unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let half = S::splat(S::E::of(0.5));
        S::fma(half, S::tanh(S::mul(half, x)), half)
    }
}

#[inline(always)]
pub(crate) unsafe fn cell<S: Simd>(a: &Cell<S::E>) {
    let gate = a.panels * a.stride;
    for panel in 0..a.panels {
        for row in 0..a.rows {
            for v in 0..2 {
                let at = panel * a.stride + row * PANEL + v * LANES;
                unsafe {
                    let gates = a.gates.add(at);
                    let r = sigmoid::<S>(S::load(gates.add(gate)));
                    let z = sigmoid::<S>(S::load(gates.add(2 * gate)));
                    let n = S::tanh(S::fma(r, S::load(gates.add(3 * gate)), S::load(gates)));
                    // (1 - z) n + z h
                    let h = S::fma(z, minus::<S>(S::load(a.entering.add(at)), n), n);
                    S::store(gates, n);
                    S::store(gates.add(gate), r);
                    S::store(gates.add(2 * gate), z);
                    S::store(a.state.add(at), h);
                    if !a.next.is_null() {
                        let zero = S::splat(S::E::ZERO);
                        S::store(a.next.add(at), if *a.next_starts.add(row) { zero } else { h });
                    }
                }
            }
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn cell_back<S: Simd>(a: &CellBack<S::E>) {
    let gate = a.panels * a.stride;
    for panel in 0..a.panels {
        for row in 0..a.rows {
            let carried = unsafe { !a.next_starts.is_null() && !*a.next_starts.add(row) };
            for v in 0..2 {
                let at = panel * a.stride + row * PANEL + v * LANES;
                unsafe {
                    let one = S::splat(S::E::ONE);
                    let gates = a.gates.add(at);
                    let (n, r) = (S::load(gates), S::load(gates.add(gate)));
                    let (z, hn) = (S::load(gates.add(2 * gate)), S::load(gates.add(3 * gate)));
                    let mut d = S::load(a.d_state.add(at));
                    if carried {
                        d = S::add(d, S::load(a.carry.add(at)));
                    }
                    let rest = minus::<S>(one, z);
                    let dn = S::mul(S::mul(d, rest), S::fnma(n, n, one));
                    let dz = S::mul(S::mul(d, minus::<S>(S::load(a.entering.add(at)), n)), S::mul(z, rest));
                    let dr = S::mul(S::mul(dn, hn), S::mul(r, minus::<S>(one, r)));
                    S::store(gates, dn);
                    S::store(gates.add(gate), dr);
                    S::store(gates.add(2 * gate), dz);
                    S::store(gates.add(3 * gate), S::mul(dn, r));
                    S::store(a.carry.add(at), S::mul(d, z));
                }
            }
        }
    }
}
