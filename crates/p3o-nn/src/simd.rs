//! Vectors of sixteen numbers on every instruction set.
//!
//! Every kernel is written once over [`Simd`], whose vectors always have sixteen lanes: one AVX-512 register, two AVX2
//! registers, or an array. Each operation is a single correctly rounded one (a fused multiply-add counts as one), and
//! reductions follow one fixed tree, so the three give the same bits.

use crate::real::Real;

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// A set of instructions on sixteen-lane vectors.
///
/// # Safety
/// The methods may only run where the instructions exist: inside a function compiled with their `target_feature`, called
/// after [`Isa::available`](crate::Isa::available) named it. Pointers must be valid for sixteen elements; no alignment is assumed.
#[allow(clippy::missing_safety_doc)] // one contract for all, stated above
pub(crate) unsafe trait Simd: Copy + 'static {
    type E: Real;
    type V: Copy;
    unsafe fn splat(x: Self::E) -> Self::V;
    unsafe fn load(p: *const Self::E) -> Self::V;
    unsafe fn store(p: *mut Self::E, v: Self::V);
    /// a * b + c
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// c - a * b
    unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sqrt(a: Self::V) -> Self::V;
    /// The larger one; `b` where either is not a number.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// The smaller one; `b` where either is not a number.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// `b` where `a > 0`, else zero.
    unsafe fn where_positive(a: Self::V, b: Self::V) -> Self::V;
    /// Sum of the lanes: lane i with i+8, then i+4, i+2, i+1.
    unsafe fn sum(a: Self::V) -> Self::E;
    unsafe fn tanh(x: Self::V) -> Self::V;
    /// `0x7EF311C3 - bits`: a first guess at 1/x for positive normal f32, good to 12 %.
    unsafe fn reciprocal_guess(x: Self::V) -> Self::V;
}

/// tanh of f32 lanes as x P(x^2) / Q(x^2), fitted for the least relative error on [-9, 9] (1.2e-7 before rounding); beyond
/// it the value stays that at 9, two ulp below one. At most 6.4 ulp off over every f32 from 2^-14 to 12; nine in ten are
/// within two. The quotient is a guessed reciprocal, two Newton steps and one correction, because a 512-bit division would
/// take longer than the rest. NaN stays NaN.
#[inline(always)]
unsafe fn tanh_f32<S: Simd<E = f32>>(x: S::V) -> S::V {
    const P: [f32; 6] = [0.999_999_94, 0.129_164_3, 2.918_019e-3, 9.246_694e-6, -1.273_149_6e-8, 1.815_757_7e-11];
    const Q: [f32; 4] = [1.0, 0.462_496_94, 2.375_124_4e-2, 2.277_519_6e-4];
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        // The operand order keeps NaN: min and max return their second operand when either is not a number.
        let c = S::min(S::splat(9.0), S::max(S::splat(-9.0), x));
        let u = S::mul(c, c);
        let mut p = S::splat(P[5]);
        for i in (0..5).rev() {
            p = S::fma(p, u, S::splat(P[i]));
        }
        let mut q = S::splat(Q[3]);
        for i in (0..3).rev() {
            q = S::fma(q, u, S::splat(Q[i]));
        }
        let n = S::mul(c, p);
        let two = S::splat(2.0);
        let mut r = S::reciprocal_guess(q);
        r = S::mul(r, S::fnma(q, r, two));
        r = S::mul(r, S::fnma(q, r, two));
        let y = S::mul(n, r);
        let y = S::fma(r, S::fnma(q, y, n), y);
        S::min(S::splat(1.0), S::max(S::splat(-1.0), y))
    }
}

/// Arrays of f32 or f64.
#[derive(Clone, Copy)]
pub(crate) struct Scalar<E>(std::marker::PhantomData<E>);

#[inline(always)]
fn zip<E: Real>(a: [E; LANES], b: [E; LANES], f: impl Fn(E, E) -> E) -> [E; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

macro_rules! scalar {
    ($e:ty, $tanh:expr, $guess:expr) => {
        // SAFETY: only loads and stores through pointers that the caller vouches for; no special instructions.
        unsafe impl Simd for Scalar<$e> {
            type E = $e;
            type V = [$e; LANES];
            #[inline(always)]
            unsafe fn splat(x: $e) -> Self::V {
                [x; LANES]
            }
            #[inline(always)]
            unsafe fn load(p: *const $e) -> Self::V {
                // SAFETY: the caller's pointer holds sixteen elements.
                unsafe { p.cast::<Self::V>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store(p: *mut $e, v: Self::V) {
                // SAFETY: the caller's pointer holds sixteen elements.
                unsafe { p.cast::<Self::V>().write_unaligned(v) }
            }
            #[inline(always)]
            unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
            }
            #[inline(always)]
            unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                std::array::from_fn(|i| (-a[i]).mul_add(b[i], c[i]))
            }
            #[inline(always)]
            unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
                zip(a, b, |x, y| x + y)
            }
            #[inline(always)]
            unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
                zip(a, b, |x, y| x * y)
            }
            #[inline(always)]
            unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
                zip(a, b, |x, y| x / y)
            }
            #[inline(always)]
            unsafe fn sqrt(a: Self::V) -> Self::V {
                a.map(|x| x.sqrt())
            }
            #[inline(always)]
            unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
                zip(a, b, |x, y| if x > y { x } else { y })
            }
            #[inline(always)]
            unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
                zip(a, b, |x, y| if x < y { x } else { y })
            }
            #[inline(always)]
            unsafe fn where_positive(a: Self::V, b: Self::V) -> Self::V {
                zip(a, b, |x, y| if x > 0.0 { y } else { 0.0 })
            }
            #[inline(always)]
            unsafe fn sum(mut a: Self::V) -> $e {
                for half in [8, 4, 2, 1] {
                    for i in 0..half {
                        a[i] += a[i + half];
                    }
                }
                a[0]
            }
            #[inline(always)]
            unsafe fn tanh(x: Self::V) -> Self::V {
                $tanh(x)
            }
            #[inline(always)]
            unsafe fn reciprocal_guess(x: Self::V) -> Self::V {
                x.map($guess)
            }
        }
    };
}

scalar!(
    f32,
    // SAFETY: arrays need no special instructions.
    |x| unsafe { tanh_f32::<Scalar<f32>>(x) },
    |x: f32| f32::from_bits(0x7EF3_11C3u32.wrapping_sub(x.to_bits()))
);
scalar!(f64, |x: [f64; LANES]| x.map(libm::tanh), |x: f64| 1.0 / x);

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! Safety: each `unsafe` block here rests on the contract of [`Simd`], which its caller has taken over.

    use super::{Simd, tanh_f32};
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub(crate) struct Avx512;

    // SAFETY: every method is AVX-512F, which the trait's contract makes the caller guarantee.
    unsafe impl Simd for Avx512 {
        type E = f32;
        type V = __m512;
        #[inline(always)]
        unsafe fn splat(x: f32) -> __m512 {
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> __m512 {
            unsafe { _mm512_loadu_ps(p) }
        }
        #[inline(always)]
        unsafe fn store(p: *mut f32, v: __m512) {
            unsafe { _mm512_storeu_ps(p, v) }
        }
        #[inline(always)]
        unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn fnma(a: __m512, b: __m512, c: __m512) -> __m512 {
            unsafe { _mm512_fnmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn div(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_div_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn sqrt(a: __m512) -> __m512 {
            unsafe { _mm512_sqrt_ps(a) }
        }
        #[inline(always)]
        unsafe fn max(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_max_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn min(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_min_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn where_positive(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, _mm512_setzero_ps()), b) }
        }
        #[inline(always)]
        unsafe fn sum(a: __m512) -> f32 {
            unsafe {
                let high = _mm512_castps512_ps256(_mm512_shuffle_f32x4::<0b1110>(a, a));
                sum8(_mm256_add_ps(_mm512_castps512_ps256(a), high))
            }
        }
        #[inline(always)]
        unsafe fn tanh(x: __m512) -> __m512 {
            unsafe { tanh_f32::<Self>(x) }
        }
        #[inline(always)]
        unsafe fn reciprocal_guess(x: __m512) -> __m512 {
            unsafe { _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32(0x7EF3_11C3), _mm512_castps_si512(x))) }
        }
    }

    #[inline(always)]
    unsafe fn sum8(a: __m256) -> f32 {
        unsafe {
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_shuffle_ps::<1>(a, a)))
        }
    }

    #[derive(Clone, Copy)]
    pub(crate) struct Avx2;

    type Pair = [__m256; 2];

    // SAFETY: every method is AVX2 or FMA, which the trait's contract makes the caller guarantee.
    unsafe impl Simd for Avx2 {
        type E = f32;
        type V = Pair;
        #[inline(always)]
        unsafe fn splat(x: f32) -> Pair {
            unsafe { [_mm256_set1_ps(x); 2] }
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Pair {
            unsafe { [_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))] }
        }
        #[inline(always)]
        unsafe fn store(p: *mut f32, v: Pair) {
            unsafe {
                _mm256_storeu_ps(p, v[0]);
                _mm256_storeu_ps(p.add(8), v[1]);
            }
        }
        #[inline(always)]
        unsafe fn fma(a: Pair, b: Pair, c: Pair) -> Pair {
            unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
        }
        #[inline(always)]
        unsafe fn fnma(a: Pair, b: Pair, c: Pair) -> Pair {
            unsafe { [_mm256_fnmadd_ps(a[0], b[0], c[0]), _mm256_fnmadd_ps(a[1], b[1], c[1])] }
        }
        #[inline(always)]
        unsafe fn add(a: Pair, b: Pair) -> Pair {
            unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
        }
        #[inline(always)]
        unsafe fn mul(a: Pair, b: Pair) -> Pair {
            unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
        }
        #[inline(always)]
        unsafe fn div(a: Pair, b: Pair) -> Pair {
            unsafe { [_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])] }
        }
        #[inline(always)]
        unsafe fn sqrt(a: Pair) -> Pair {
            unsafe { [_mm256_sqrt_ps(a[0]), _mm256_sqrt_ps(a[1])] }
        }
        #[inline(always)]
        unsafe fn max(a: Pair, b: Pair) -> Pair {
            unsafe { [_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])] }
        }
        #[inline(always)]
        unsafe fn min(a: Pair, b: Pair) -> Pair {
            unsafe { [_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])] }
        }
        #[inline(always)]
        unsafe fn where_positive(a: Pair, b: Pair) -> Pair {
            unsafe {
                let zero = _mm256_setzero_ps();
                [
                    _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(a[0], zero), b[0]),
                    _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(a[1], zero), b[1]),
                ]
            }
        }
        #[inline(always)]
        unsafe fn sum(a: Pair) -> f32 {
            unsafe { sum8(_mm256_add_ps(a[0], a[1])) }
        }
        #[inline(always)]
        unsafe fn tanh(x: Pair) -> Pair {
            unsafe { tanh_f32::<Self>(x) }
        }
        #[inline(always)]
        unsafe fn reciprocal_guess(x: Pair) -> Pair {
            unsafe {
                let magic = _mm256_set1_epi32(0x7EF3_11C3);
                [
                    _mm256_castsi256_ps(_mm256_sub_epi32(magic, _mm256_castps_si256(x[0]))),
                    _mm256_castsi256_ps(_mm256_sub_epi32(magic, _mm256_castps_si256(x[1]))),
                ]
            }
        }
    }
}
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};
