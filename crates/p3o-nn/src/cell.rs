//! The loops of layer normalisation and of the GRU's cell, over panel-major matrices like those of [`crate::kernels`].
//!
//! Every row is computed by itself, in the same order of operations whatever its neighbours.
//!
//! Safety: every `unsafe fn` here has the contract of [`crate::kernels::Kernels`], and each `unsafe` block relies on it.

use crate::kernels::{Epilogue, PANEL, finish, panels};
use crate::real::Real;
use crate::simd::{LANES, Simd};

/// Added to the variance before the root.
const EPSILON: f64 = 1e-5;

/// y = gain (x - mean) / sqrt(variance + epsilon) + bias in every row; mean and 1 / sqrt are kept for the way back.
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

/// The way back: adds to the gradients of gain and bias, and replaces d loss / dy by d loss / dx times the slope of the
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
    /// `None` where no one needs d loss / dx.
    pub epilogue: Option<Epilogue>,
}

/// One step of some sequences. The four blocks of `gates` hold, `panels` panels each, W_in x + b_in, then the sums of both
/// sides for r and for z, then W_hn h + b_hn; afterwards n, r, z, and the last as it was.
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

/// The way back: the blocks of `gates` become the gradients of the sums they were made from.
pub(crate) struct CellBack<E> {
    pub gates: *mut E,
    pub stride: usize,
    pub panels: usize,
    pub rows: usize,
    pub entering: *const E,
    /// d loss / d state by way of this step's output.
    pub d_state: *const E,
    /// In: d loss / d state by way of the next step. Out: d loss / d entering, but for the way through the gates.
    pub carry: *mut E,
    /// Where the next step starts an episode the carry does not count; null where there is no next step.
    pub next_starts: *const bool,
}

/// a - b
#[inline(always)]
unsafe fn minus<S: Simd>(a: S::V, b: S::V) -> S::V {
    unsafe { S::fnma(b, S::splat(S::E::ONE), a) }
}

#[inline(always)]
pub(crate) unsafe fn norm<S: Simd>(a: &Norm<S::E>) {
    let share = S::E::of(1.0 / a.columns as f64);
    let vectors = panels(a.columns) * 2;
    let at = |v: usize| v / 2 * a.stride + v % 2 * LANES;
    for first in (0..a.rows).step_by(LANES) {
        let count = (a.rows - first).min(LANES);
        let mut variance = [S::E::ZERO; LANES];
        let mut scale = [S::E::ZERO; LANES];
        unsafe {
            for (r, variance) in variance[..count].iter_mut().enumerate() {
                let x = a.x.add((first + r) * PANEL);
                let mut sum = S::splat(S::E::ZERO);
                for v in 0..vectors {
                    sum = S::add(sum, S::load(x.add(at(v))));
                }
                let mean = S::sum(sum) * share;
                *a.mean.add(first + r) = mean;
                let mean = S::splat(mean);
                let mut squares = S::splat(S::E::ZERO);
                for v in 0..vectors {
                    let off =
                        S::where_positive(S::load(a.mask.add(v * LANES)), minus::<S>(S::load(x.add(at(v))), mean));
                    squares = S::fma(off, off, squares);
                }
                *variance = S::sum(squares) * share;
            }
            // One root and one division for sixteen rows.
            let root = S::sqrt(S::add(S::load(variance.as_ptr()), S::splat(S::E::of(EPSILON))));
            S::store(scale.as_mut_ptr(), S::div(S::splat(S::E::ONE), root));
            for (r, &scale) in scale[..count].iter().enumerate() {
                *a.scale.add(first + r) = scale;
                let row = (first + r) * PANEL;
                let (mean, scale) = (S::splat(*a.mean.add(first + r)), S::splat(scale));
                for v in 0..vectors {
                    let unit = S::mul(minus::<S>(S::load(a.x.add(row + at(v))), mean), scale);
                    let y = S::fma(unit, S::load(a.gain.add(v * LANES)), S::load(a.bias.add(v * LANES)));
                    S::store(a.y.add(row + at(v)), S::where_positive(S::load(a.mask.add(v * LANES)), y));
                }
            }
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn norm_back<S: Simd>(a: &NormBack<S::E>) {
    let vectors = panels(a.columns) * 2;
    let at = |v: usize| v / 2 * a.stride + v % 2 * LANES;
    for v in 0..vectors {
        unsafe {
            let (mut d_gain, mut d_bias) = (S::load(a.d_gain.add(v * LANES)), S::load(a.d_bias.add(v * LANES)));
            for r in 0..a.rows {
                let place = r * PANEL + at(v);
                let d = S::load(a.d.add(place));
                let off = minus::<S>(S::load(a.x.add(place)), S::splat(*a.mean.add(r)));
                d_gain = S::fma(S::mul(off, S::splat(*a.scale.add(r))), d, d_gain);
                d_bias = S::add(d_bias, d);
            }
            S::store(a.d_gain.add(v * LANES), d_gain);
            S::store(a.d_bias.add(v * LANES), d_bias);
        }
    }
    unsafe {
        match a.epilogue {
            None => {}
            // Picked outside the loop over rows.
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
    let vectors = panels(a.columns) * 2;
    let at = |v: usize| v / 2 * a.stride + v % 2 * LANES;
    for r in 0..a.rows {
        unsafe {
            let (x, d) = (a.x.add(r * PANEL), a.d.add(r * PANEL));
            let (mean, scale) = (S::splat(*a.mean.add(r)), S::splat(*a.scale.add(r)));
            let mut sum = S::splat(S::E::ZERO);
            let mut along = S::splat(S::E::ZERO);
            for v in 0..vectors {
                let g = S::mul(S::load(d.add(at(v))), S::load(a.gain.add(v * LANES)));
                sum = S::add(sum, g);
                along = S::fma(g, S::mul(minus::<S>(S::load(x.add(at(v))), mean), scale), along);
            }
            let (sum, along) = (S::splat(S::sum(sum) * share), S::splat(S::sum(along) * share));
            for v in 0..vectors {
                let g = S::mul(S::load(d.add(at(v))), S::load(a.gain.add(v * LANES)));
                let unit = S::mul(minus::<S>(S::load(x.add(at(v))), mean), scale);
                let dx = S::mul(scale, S::fnma(unit, along, minus::<S>(g, sum)));
                let dx = finish::<S>(dx, x.add(at(v)), epilogue);
                S::store(d.add(at(v)), S::where_positive(S::load(a.mask.add(v * LANES)), dx));
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
    let block = a.panels * a.stride;
    for panel in 0..a.panels {
        for row in 0..a.rows {
            for v in 0..2 {
                let at = panel * a.stride + row * PANEL + v * LANES;
                unsafe {
                    let gates = a.gates.add(at);
                    let r = sigmoid::<S>(S::load(gates.add(block)));
                    let z = sigmoid::<S>(S::load(gates.add(2 * block)));
                    let n = S::tanh(S::fma(r, S::load(gates.add(3 * block)), S::load(gates)));
                    // (1 - z) n + z h
                    let h = S::fma(z, minus::<S>(S::load(a.entering.add(at)), n), n);
                    S::store(gates, n);
                    S::store(gates.add(block), r);
                    S::store(gates.add(2 * block), z);
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
    let block = a.panels * a.stride;
    for panel in 0..a.panels {
        for row in 0..a.rows {
            let carried = unsafe { !a.next_starts.is_null() && !*a.next_starts.add(row) };
            for v in 0..2 {
                let at = panel * a.stride + row * PANEL + v * LANES;
                unsafe {
                    let one = S::splat(S::E::ONE);
                    let gates = a.gates.add(at);
                    let (n, r) = (S::load(gates), S::load(gates.add(block)));
                    let (z, hn) = (S::load(gates.add(2 * block)), S::load(gates.add(3 * block)));
                    let mut d = S::load(a.d_state.add(at));
                    if carried {
                        d = S::add(d, S::load(a.carry.add(at)));
                    }
                    let rest = minus::<S>(one, z);
                    let dn = S::mul(S::mul(d, rest), S::fnma(n, n, one));
                    let dz = S::mul(S::mul(d, minus::<S>(S::load(a.entering.add(at)), n)), S::mul(z, rest));
                    let dr = S::mul(S::mul(dn, hn), S::mul(r, minus::<S>(one, r)));
                    S::store(gates, dn);
                    S::store(gates.add(block), dr);
                    S::store(gates.add(2 * block), dz);
                    S::store(gates.add(3 * block), S::mul(dn, r));
                    S::store(a.carry.add(at), S::mul(d, z));
                }
            }
        }
    }
}
