//! One number, or two side by side: what is written for [`Lanes`] computes one limb of a body, or two of the same form at once.
//!
//! A processor adds and multiplies two numbers as fast as one, and each is rounded as if it were alone, so the results are the same to
//! the last bit.

use std::ops::{Add, Mul, Neg, Sub};

/// What vectors are made of.
pub(crate) trait Lanes:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// From a number for each lane.
    fn each(number: impl Fn(usize) -> f64) -> Self;
    fn sincos(self) -> (Self, Self);
}

impl Lanes for f64 {
    #[inline(always)]
    fn each(number: impl Fn(usize) -> f64) -> f64 {
        number(0)
    }

    #[inline(always)]
    fn sincos(self) -> (f64, f64) {
        libm::sincos(self)
    }
}

/// Two numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Two(wide::f64x2);

impl Two {
    #[inline(always)]
    pub fn new(numbers: [f64; 2]) -> Two {
        Two(wide::f64x2::new(numbers))
    }

    /// The same number twice.
    #[inline(always)]
    pub fn both(number: f64) -> Two {
        Two(wide::f64x2::splat(number))
    }

    #[inline(always)]
    pub fn numbers(self) -> [f64; 2] {
        self.0.to_array()
    }
}

impl Lanes for Two {
    #[inline(always)]
    fn each(number: impl Fn(usize) -> f64) -> Two {
        Two::new([number(0), number(1)])
    }

    #[inline(always)]
    fn sincos(self) -> (Two, Two) {
        let [one, two] = self.numbers().map(libm::sincos);
        (Two::new([one.0, two.0]), Two::new([one.1, two.1]))
    }
}

impl Add for Two {
    type Output = Two;

    #[inline(always)]
    fn add(self, other: Two) -> Two {
        Two(self.0 + other.0)
    }
}

impl Sub for Two {
    type Output = Two;

    #[inline(always)]
    fn sub(self, other: Two) -> Two {
        Two(self.0 - other.0)
    }
}

impl Mul for Two {
    type Output = Two;

    #[inline(always)]
    fn mul(self, other: Two) -> Two {
        Two(self.0 * other.0)
    }
}

impl Neg for Two {
    type Output = Two;

    #[inline(always)]
    fn neg(self) -> Two {
        Two(-self.0)
    }
}
