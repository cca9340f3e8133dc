//! The two number types: f32 for training, f64 for checks.

use crate::isa::Isa;
use crate::kernels::Kernels;
use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

/// A floating-point type the networks run on. Training uses `f32`; `f64` runs the same code for checks of gradients.
pub trait Real:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + Sum
    + bytemuck::Pod
    + 'static
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The nearest number of this type.
    fn of(x: f64) -> Self;
    /// The same number in f64.
    fn f64(self) -> f64;
    /// e^x, the same bits on every machine.
    fn exp(self) -> Self;
    /// Natural logarithm, the same bits on every machine.
    fn ln(self) -> Self;
    /// self * a + b, rounded once.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// Neither infinite nor NaN.
    fn finite(self) -> bool;
    #[doc(hidden)]
    fn kernels(isa: Isa) -> &'static Kernels<Self>;
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    fn of(x: f64) -> f32 {
        x as f32
    }
    fn f64(self) -> f64 {
        f64::from(self)
    }
    fn exp(self) -> f32 {
        libm::expf(self)
    }
    fn ln(self) -> f32 {
        libm::logf(self)
    }
    fn mul_add(self, a: f32, b: f32) -> f32 {
        f32::mul_add(self, a, b)
    }
    fn finite(self) -> bool {
        self.is_finite()
    }
    fn kernels(isa: Isa) -> &'static Kernels<f32> {
        crate::kernels::for_f32(isa)
    }
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    fn of(x: f64) -> f64 {
        x
    }
    fn f64(self) -> f64 {
        self
    }
    fn exp(self) -> f64 {
        libm::exp(self)
    }
    fn ln(self) -> f64 {
        libm::log(self)
    }
    fn mul_add(self, a: f64, b: f64) -> f64 {
        f64::mul_add(self, a, b)
    }
    fn finite(self) -> bool {
        self.is_finite()
    }
    fn kernels(_: Isa) -> &'static Kernels<f64> {
        crate::kernels::for_f64()
    }
}
