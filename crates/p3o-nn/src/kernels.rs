//! The kernels: loops over matrices, compiled for every instruction set.
//!
//! Matrices of activations are *panel-major*: columns are cut into panels of 32, and a panel is `[row][32]`, so that the
//! rows of a register tile lie a constant 128 bytes apart and the columns of a row are contiguous. Weights are packed
//! `[output panel][input][32]`. A register tile holds several rows by one panel (or half of one) and runs over the inner
//! dimension in order, so each output is one fixed chain of fused multiply-adds whatever the tile's shape.
//!
//! Safety: every `unsafe fn` here has the contract of [`Kernels`], and each `unsafe` block relies on it. The loops stay
//! inside the rows, columns and panels that their arguments describe, and the instructions of `S` are those for which
//! `table!` compiles them. Pointers that step through a matrix may leave it after the last step, hence `wrapping_add`.

use crate::cell::{Cell, CellBack, Norm, NormBack};
use crate::isa::Isa;
use crate::real::Real;
use crate::simd::{LANES, Scalar, Simd};

/// Columns of a panel.
pub(crate) const PANEL: usize = 32;

/// Panels that `columns` columns fill.
pub(crate) const fn panels(columns: usize) -> usize {
    columns.div_ceil(PANEL)
}

/// `columns` with the padding of the last panel.
pub(crate) const fn padded(columns: usize) -> usize {
    panels(columns) * PANEL
}

/// What happens to a product before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Epilogue {
    /// Stored as it is.
    None,
    Tanh,
    Relu,
    /// Times 1 - h^2, h being the activation stored at the same place.
    TanhSlope,
    /// Times one where h > 0, else zero.
    ReluSlope,
}

/// y = epilogue(start + x w), `rows` rows.
pub(crate) struct Product<E> {
    pub x: *const E,
    /// Elements from one panel of `x` to the next.
    pub x_stride: usize,
    /// Columns of `x`: the inner dimension.
    pub inner: usize,
    /// Packed `[panel of y][inner][32]`.
    pub w: *const E,
    /// Start of every row (a bias), or null for zero.
    pub bias: *const E,
    /// Start from what `y` holds instead.
    pub accumulate: bool,
    pub y: *mut E,
    pub y_stride: usize,
    /// Columns of `y`.
    pub outer: usize,
    pub rows: usize,
    /// Activations for the slope epilogues, laid out like `y`.
    pub h: *const E,
    pub epilogue: Epilogue,
}

/// g += x^T d over `rows` rows, `g` packed like weights: `[panel of d][column of x][32]`.
pub(crate) struct Outer<E> {
    pub x: *const E,
    pub x_stride: usize,
    pub x_columns: usize,
    pub d: *const E,
    pub d_stride: usize,
    pub d_columns: usize,
    pub rows: usize,
    pub g: *mut E,
}

/// `y[row][o] = start + sum over i of x[row][i] w[o][i]`, for few outputs; the start is `bias[o]`, or `y` itself for a null
/// bias; `w` packed `[panel of i][o][32]`, `y` row-major.
pub(crate) struct Dots<E> {
    pub x: *const E,
    pub x_stride: usize,
    pub inner: usize,
    pub w: *const E,
    pub bias: *const E,
    pub outputs: usize,
    pub y: *mut E,
    pub rows: usize,
}

/// One step of Adam over `n` parameters; the moments' bias corrections are in `step` and `root`.
pub(crate) struct AdamStep<E> {
    pub n: usize,
    pub params: *mut E,
    pub grads: *const E,
    pub m: *mut E,
    pub v: *mut E,
    pub beta1: E,
    pub beta2: E,
    /// lr / (1 - beta1^t)
    pub step: E,
    /// 1 / sqrt(1 - beta2^t)
    pub root: E,
    pub epsilon: E,
}

/// The kernels compiled for one instruction set.
///
/// Calling one is unsafe: the pointers must cover what the fields describe, whole panels of 32 columns wide (the padding
/// is read and written), and the processor must have the instructions.
pub struct Kernels<E> {
    pub(crate) product: unsafe fn(&Product<E>),
    pub(crate) outer: unsafe fn(&Outer<E>),
    /// `g[column] += sum over rows of d`: (d, stride, columns, rows, g)
    pub(crate) column_sums: unsafe fn(*const E, usize, usize, usize, *mut E),
    pub(crate) dots: unsafe fn(&Dots<E>),
    pub(crate) norm: unsafe fn(&Norm<E>),
    pub(crate) norm_back: unsafe fn(&NormBack<E>),
    pub(crate) cell: unsafe fn(&Cell<E>),
    pub(crate) cell_back: unsafe fn(&CellBack<E>),
    pub(crate) adam: unsafe fn(&AdamStep<E>),
    /// y += x over n elements, n a multiple of 16.
    pub(crate) add: unsafe fn(*mut E, *const E, usize),
    /// So many rounds of independent fused multiply-adds on vectors that stay in registers: the processor's peak.
    pub(crate) burn: unsafe fn(usize) -> E,
    /// Floating-point operations of a round of `burn`.
    pub(crate) burn_flops: usize,
}

#[inline(always)]
pub(crate) unsafe fn finish<S: Simd>(v: S::V, h: *const S::E, epilogue: Epilogue) -> S::V {
    unsafe {
        match epilogue {
            Epilogue::None => v,
            Epilogue::Tanh => S::tanh(v),
            // In this order NaN stays NaN.
            Epilogue::Relu => S::max(S::splat(S::E::ZERO), v),
            Epilogue::TanhSlope => {
                let h = S::load(h);
                S::mul(v, S::fnma(h, h, S::splat(S::E::ONE)))
            }
            Epilogue::ReluSlope => S::where_positive(S::load(h), v),
        }
    }
}

/// One register tile of a product: MR rows by NV vectors of outputs.
#[inline(always)]
unsafe fn product_tile<S: Simd, const MR: usize, const NV: usize>(
    a: &Product<S::E>,
    row: usize,
    panel: usize,
    first: usize,
) {
    unsafe {
        let at = panel * a.y_stride + row * PANEL + first * LANES;
        let mut acc = [[S::splat(S::E::ZERO); NV]; MR];
        for (r, acc) in acc.iter_mut().enumerate() {
            for (v, acc) in acc.iter_mut().enumerate() {
                if a.accumulate {
                    *acc = S::load(a.y.add(at + r * PANEL + v * LANES));
                } else if !a.bias.is_null() {
                    *acc = S::load(a.bias.add(panel * PANEL + (first + v) * LANES));
                }
            }
        }
        let mut w = a.w.add(panel * a.inner * PANEL + first * LANES);
        let mut x = a.x.add(row * PANEL);
        let mut left = a.inner;
        while left > 0 {
            let k_count = left.min(PANEL);
            for k in 0..k_count {
                let mut wv = [S::splat(S::E::ZERO); NV];
                for (v, wv) in wv.iter_mut().enumerate() {
                    *wv = S::load(w.add(v * LANES));
                }
                w = w.wrapping_add(PANEL);
                for (r, acc) in acc.iter_mut().enumerate() {
                    let xv = S::splat(*x.add(r * PANEL + k));
                    for (acc, wv) in acc.iter_mut().zip(wv) {
                        *acc = S::fma(xv, wv, *acc);
                    }
                }
            }
            left -= k_count;
            x = x.wrapping_add(a.x_stride);
        }
        for (r, acc) in acc.iter().enumerate() {
            for (v, acc) in acc.iter().enumerate() {
                S::store(a.y.add(at + r * PANEL + v * LANES), *acc);
            }
        }
        // Not in the loop above: it would be too long to unroll, and the accumulators would be spilled.
        if a.epilogue != Epilogue::None {
            for r in 0..MR {
                for v in 0..NV {
                    let offset = at + r * PANEL + v * LANES;
                    let y = a.y.add(offset);
                    S::store(y, finish::<S>(S::load(y), a.h.wrapping_add(offset), a.epilogue));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn product_columns<S: Simd, const MR: usize, const NV: usize>(a: &Product<S::E>, panel: usize, first: usize) {
    let mut row = 0;
    // SAFETY: every tile stays inside `rows`.
    unsafe {
        while a.rows - row >= MR {
            product_tile::<S, MR, NV>(a, row, panel, first);
            row += MR;
        }
        if a.rows - row >= 8 {
            product_tile::<S, 8, NV>(a, row, panel, first);
            row += 8;
        }
        if a.rows - row >= 4 {
            product_tile::<S, 4, NV>(a, row, panel, first);
            row += 4;
        }
        while a.rows > row {
            product_tile::<S, 1, NV>(a, row, panel, first);
            row += 1;
        }
    }
}

#[inline(always)]
unsafe fn product_for<S: Simd, const MR: usize, const NV: usize>(a: &Product<S::E>) {
    for panel in 0..panels(a.outer) {
        let vectors = (a.outer - panel * PANEL).min(PANEL).div_ceil(LANES);
        unsafe {
            if vectors >= NV {
                for first in (0..vectors).step_by(NV) {
                    product_columns::<S, MR, NV>(a, panel, first);
                }
            } else {
                product_columns::<S, MR, 1>(a, panel, 0);
            }
        }
    }
}

/// The epilogue is chosen outside the loops, so that each copy of them has only its own.
#[inline(always)]
unsafe fn product<S: Simd, const MR: usize, const NV: usize>(a: &Product<S::E>) {
    macro_rules! with {
        ($epilogue:expr) => {
            unsafe { product_for::<S, MR, NV>(&Product { epilogue: $epilogue, ..*a }) }
        };
    }
    match a.epilogue {
        Epilogue::None => with!(Epilogue::None),
        Epilogue::Tanh => with!(Epilogue::Tanh),
        Epilogue::Relu => with!(Epilogue::Relu),
        Epilogue::TanhSlope => with!(Epilogue::TanhSlope),
        Epilogue::ReluSlope => with!(Epilogue::ReluSlope),
    }
}

/// One register tile of an outer product: MR columns of x by NV vectors of d.
#[inline(always)]
unsafe fn outer_tile<S: Simd, const MR: usize, const NV: usize>(
    a: &Outer<S::E>,
    column: usize,
    panel: usize,
    first: usize,
) {
    unsafe {
        let g = a.g.add((panel * a.x_columns + column) * PANEL + first * LANES);
        let mut acc = [[S::splat(S::E::ZERO); NV]; MR];
        for (i, acc) in acc.iter_mut().enumerate() {
            for (v, acc) in acc.iter_mut().enumerate() {
                *acc = S::load(g.add(i * PANEL + v * LANES));
            }
        }
        // Without rows these lie outside already.
        let mut x = a.x.wrapping_add(column / PANEL * a.x_stride + column % PANEL);
        let mut d = a.d.wrapping_add(panel * a.d_stride + first * LANES);
        for _ in 0..a.rows {
            let mut dv = [S::splat(S::E::ZERO); NV];
            for (v, dv) in dv.iter_mut().enumerate() {
                *dv = S::load(d.add(v * LANES));
            }
            for (i, acc) in acc.iter_mut().enumerate() {
                let xv = S::splat(*x.add(i));
                for (acc, dv) in acc.iter_mut().zip(dv) {
                    *acc = S::fma(xv, dv, *acc);
                }
            }
            x = x.wrapping_add(PANEL);
            d = d.wrapping_add(PANEL);
        }
        for (i, acc) in acc.iter().enumerate() {
            for (v, acc) in acc.iter().enumerate() {
                S::store(g.add(i * PANEL + v * LANES), *acc);
            }
        }
    }
}

/// MR must divide 32 so that a tile never crosses a panel of x.
#[inline(always)]
unsafe fn outer_columns<S: Simd, const MR: usize, const NV: usize>(a: &Outer<S::E>, panel: usize, first: usize) {
    let mut column = 0;
    // SAFETY: every tile stays inside `x_columns` and inside one panel of x.
    unsafe {
        while a.x_columns - column >= MR {
            outer_tile::<S, MR, NV>(a, column, panel, first);
            column += MR;
        }
        if a.x_columns - column >= 4 {
            outer_tile::<S, 4, NV>(a, column, panel, first);
            column += 4;
        }
        if a.x_columns - column >= 2 {
            outer_tile::<S, 2, NV>(a, column, panel, first);
            column += 2;
        }
        if a.x_columns > column {
            outer_tile::<S, 1, NV>(a, column, panel, first);
        }
    }
}

#[inline(always)]
unsafe fn outer<S: Simd, const MR: usize, const NV: usize>(a: &Outer<S::E>) {
    for panel in 0..panels(a.d_columns) {
        let vectors = (a.d_columns - panel * PANEL).min(PANEL).div_ceil(LANES);
        unsafe {
            if vectors >= NV {
                for first in (0..vectors).step_by(NV) {
                    outer_columns::<S, MR, NV>(a, panel, first);
                }
            } else {
                outer_columns::<S, MR, 1>(a, panel, 0);
            }
        }
    }
}

#[inline(always)]
unsafe fn column_sums<S: Simd>(d: *const S::E, stride: usize, columns: usize, rows: usize, g: *mut S::E) {
    for panel in 0..panels(columns) {
        unsafe {
            let g = g.add(panel * PANEL);
            let d = d.add(panel * stride);
            let (mut low, mut high) = (S::load(g), S::load(g.add(LANES)));
            for r in 0..rows {
                low = S::add(low, S::load(d.add(r * PANEL)));
                high = S::add(high, S::load(d.add(r * PANEL + LANES)));
            }
            S::store(g, low);
            // The second half of a half-filled panel may hold old values: products do not write it.
            if columns - panel * PANEL > LANES {
                S::store(g.add(LANES), high);
            }
        }
    }
}

#[inline(always)]
unsafe fn dots<S: Simd>(a: &Dots<S::E>) {
    for o in 0..a.outputs {
        for r in 0..a.rows {
            unsafe {
                let mut low = S::splat(S::E::ZERO);
                let mut high = S::splat(S::E::ZERO);
                for p in 0..panels(a.inner) {
                    let x = a.x.add(p * a.x_stride + r * PANEL);
                    let w = a.w.add((p * a.outputs + o) * PANEL);
                    low = S::fma(S::load(x), S::load(w), low);
                    high = S::fma(S::load(x.add(LANES)), S::load(w.add(LANES)), high);
                }
                let y = a.y.add(r * a.outputs + o);
                let start = if a.bias.is_null() { *y } else { *a.bias.add(o) };
                *y = start + S::sum(S::add(low, high));
            }
        }
    }
}

#[inline(always)]
unsafe fn adam<S: Simd>(a: &AdamStep<S::E>) {
    unsafe {
        let (beta1, beta2) = (S::splat(a.beta1), S::splat(a.beta2));
        let (one_less1, one_less2) = (S::splat(S::E::ONE - a.beta1), S::splat(S::E::ONE - a.beta2));
        let (step, root, epsilon) = (S::splat(a.step), S::splat(a.root), S::splat(a.epsilon));
        for i in (0..a.n).step_by(LANES) {
            let g = S::load(a.grads.add(i));
            let m = S::fma(beta1, S::load(a.m.add(i)), S::mul(one_less1, g));
            let v = S::fma(beta2, S::load(a.v.add(i)), S::mul(one_less2, S::mul(g, g)));
            S::store(a.m.add(i), m);
            S::store(a.v.add(i), v);
            let denominator = S::fma(S::sqrt(v), root, epsilon);
            let p = S::load(a.params.add(i));
            S::store(a.params.add(i), S::fnma(step, S::div(m, denominator), p));
        }
    }
}

#[inline(always)]
unsafe fn add<S: Simd>(y: *mut S::E, x: *const S::E, n: usize) {
    for i in (0..n).step_by(LANES) {
        unsafe { S::store(y.add(i), S::add(S::load(y.add(i)), S::load(x.add(i)))) };
    }
}

/// CHAINS vectors, each a chain of fused multiply-adds that waits for nothing but itself. There must be enough of them to
/// cover the instruction's latency on all its ports, and few enough to stay in registers with the two constants.
#[inline(always)]
unsafe fn burn<S: Simd, const CHAINS: usize>(rounds: usize) -> S::E {
    unsafe {
        // All different and unknown to the compiler: it could compute equal chains once.
        let starts: [[S::E; LANES]; CHAINS] =
            std::array::from_fn(|i| std::array::from_fn(|lane| S::E::of((i * LANES + lane) as f64)));
        let starts = std::hint::black_box(starts);
        let mut chains: [S::V; CHAINS] = std::array::from_fn(|i| S::load(starts[i].as_ptr()));
        let [a, b] = std::hint::black_box([0.999, 0.5]).map(|x| S::splat(S::E::of(x)));
        for _ in 0..rounds {
            for chain in &mut chains {
                *chain = S::fma(*chain, a, b);
            }
        }
        // One sum over lanes: AVX-512F alone sums them in the lower half of the registers, where the chains would not fit.
        let mut total = chains[0];
        for chain in &chains[1..] {
            total = S::add(total, *chain);
        }
        S::sum(total)
    }
}

macro_rules! table {
    ($name:ident, $simd:ty, $e:ty, $mr:literal, $nv:literal, $gr:literal, $chains:literal $(, $feature:literal)?) => {
        mod $name {
            use super::*;
            $(#[target_feature(enable = $feature)])?
            unsafe fn product(a: &Product<$e>) {
                unsafe { super::product::<$simd, $mr, $nv>(a) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn outer(a: &Outer<$e>) {
                unsafe { super::outer::<$simd, $gr, $nv>(a) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn column_sums(d: *const $e, stride: usize, columns: usize, rows: usize, g: *mut $e) {
                unsafe { super::column_sums::<$simd>(d, stride, columns, rows, g) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn dots(a: &Dots<$e>) {
                unsafe { super::dots::<$simd>(a) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn norm(a: &Norm<$e>) {
                unsafe { crate::cell::norm::<$simd>(a) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn norm_back(a: &NormBack<$e>) {
                unsafe { crate::cell::norm_back::<$simd>(a) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn cell(a: &Cell<$e>) {
                unsafe { crate::cell::cell::<$simd>(a) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn cell_back(a: &CellBack<$e>) {
                unsafe { crate::cell::cell_back::<$simd>(a) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn adam(a: &AdamStep<$e>) {
                unsafe { super::adam::<$simd>(a) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn add(y: *mut $e, x: *const $e, n: usize) {
                unsafe { super::add::<$simd>(y, x, n) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn burn(rounds: usize) -> $e {
                unsafe { super::burn::<$simd, $chains>(rounds) }
            }
            pub(super) static TABLE: Kernels<$e> = Kernels {
                product,
                outer,
                column_sums,
                dots,
                norm,
                norm_back,
                cell,
                cell_back,
                adam,
                add,
                burn,
                burn_flops: 2 * LANES * $chains,
            };
        }
    };
}

// Name, vectors, numbers; rows and vectors of a product's register tile, columns of an outer product's; chains of `burn`:
// 20 of 32 zmm registers, 12 of 16 ymm, and for arrays 24 of the 32 that a processor with 128-bit vectors has.
#[cfg(target_arch = "x86_64")]
table!(avx512, crate::simd::Avx512, f32, 12, 2, 8, 20, "avx512f,avx2,fma");
#[cfg(target_arch = "x86_64")]
table!(avx2, crate::simd::Avx2, f32, 6, 1, 4, 6, "avx2,fma");
table!(scalar32, Scalar<f32>, f32, 4, 1, 4, 6);
table!(scalar64, Scalar<f64>, f64, 4, 1, 4, 3);

pub(crate) fn for_f32(isa: Isa) -> &'static Kernels<f32> {
    assert!(Isa::available().contains(&isa), "this processor has no {isa:?}");
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &avx512::TABLE,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &avx2::TABLE,
        _ => &scalar32::TABLE,
    }
}

pub(crate) fn for_f64() -> &'static Kernels<f64> {
    &scalar64::TABLE
}
