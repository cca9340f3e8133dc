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
        if self.numbers().iter().all(|x| (1e-7..0.785).contains(&x.abs())) {
            return near_zero(self);
        }
        let [one, two] = self.numbers().map(libm::sincos);
        (Two::new([one.0, two.0]), Two::new([one.1, two.1]))
    }
}

/// Sines and cosines of angles that are less than an eighth of a turn and not tiny: what libm computes for each of these, step by step, so
/// that the bits are the same.
#[inline(always)]
fn near_zero(x: Two) -> (Two, Two) {
    let [s1, s2, s3, s4, s5, s6] = [
        -1.666_666_666_666_663_2e-1,
        8.333_333_333_322_49e-3,
        -1.984_126_982_985_795e-4,
        2.755_731_370_707_006_8e-6,
        -2.505_076_025_340_686_3e-8,
        1.589_690_995_211_55e-10,
    ]
    .map(Two::both);
    let [c1, c2, c3, c4, c5, c6] = [
        4.166_666_666_666_66e-2,
        -1.388_888_888_887_411e-3,
        2.480_158_728_947_673e-5,
        -2.755_731_435_139_066_3e-7,
        2.087_572_321_298_175e-9,
        -1.135_964_755_778_819_5e-11,
    ]
    .map(Two::both);
    let z = x * x;
    let w = z * z;
    let r = s2 + z * (s3 + z * s4) + z * w * (s5 + z * s6);
    let sine = x + z * x * (s1 + z * r);
    let r = z * (c1 + z * (c2 + z * c3)) + w * w * (c4 + z * (c5 + z * c6));
    let half = Two::both(0.5) * z;
    let one = Two::both(1.0);
    let rest = one - half;
    (sine, rest + ((one - rest - half) + z * r))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::FRAC_PI_4;

    #[test]
    fn two_sines_and_cosines_are_those_of_libm() {
        let mut angles = vec![0.0, 1e-300, 1e-9, 1e-7, 0.784_999_999, 0.785, FRAC_PI_4, 2.0, 40.0, f64::INFINITY];
        angles.extend((0..20_000).map(|i| f64::from(i) * 1.234e-4));
        for (i, angle) in angles.iter().enumerate() {
            let pair = [*angle, -angles[(7 * i + 3) % angles.len()]];
            let (sines, cosines) = Two::new(pair).sincos();
            for (lane, angle) in pair.into_iter().enumerate() {
                let (sine, cosine) = libm::sincos(angle);
                assert_eq!(sines.numbers()[lane].to_bits(), sine.to_bits(), "sine of {angle}");
                assert_eq!(cosines.numbers()[lane].to_bits(), cosine.to_bits(), "cosine of {angle}");
            }
        }
    }
}
