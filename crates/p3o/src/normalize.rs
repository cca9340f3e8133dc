//! Running mean and standard deviation of observations.

use crate::reduce::{Part, reduce};
use serde::{Deserialize, Serialize};

/// Count, mean and spread of some observations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    count: f64,
    mean: Vec<f64>,
    /// Sum of squared differences from the mean.
    squares: Vec<f64>,
}

impl Moments {
    /// Of no observation of `dim` numbers.
    pub fn new(dim: usize) -> Self {
        Moments { count: 0.0, mean: vec![0.0; dim], squares: vec![0.0; dim] }
    }

    /// Takes in one observation (Welford's update).
    pub fn see(&mut self, obs: &[f32]) {
        self.count += 1.0;
        let share = 1.0 / self.count;
        for ((&x, mean), squares) in obs.iter().zip(&mut self.mean).zip(&mut self.squares) {
            let before = f64::from(x) - *mean;
            *mean += before * share;
            *squares += before * (f64::from(x) - *mean);
        }
    }
}

impl Part for Moments {
    /// The moments of both together (Chan et al., 1979).
    fn merge(&mut self, next: Moments) {
        if next.count == 0.0 {
            return;
        }
        let count = self.count + next.count;
        let share = next.count / count;
        let ours = self.mean.iter_mut().zip(&mut self.squares);
        for ((mean, squares), (next_mean, next_squares)) in ours.zip(next.mean.iter().zip(&next.squares)) {
            let between = next_mean - *mean;
            *mean += between * share;
            *squares += next_squares + between * between * self.count * share;
        }
        self.count = count;
    }
}

/// Brings observations to zero mean and unit standard deviation by what was seen before this update; the identity when off.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Normalizer {
    on: bool,
    moments: Moments,
    /// What is subtracted and multiplied until the next [`Normalizer::take`].
    shift: Vec<f32>,
    scale: Vec<f32>,
}

/// Normalised values are kept within this many standard deviations.
const BOUND: f32 = 10.0;

impl Normalizer {
    /// For observations of `dim` numbers.
    pub fn new(dim: usize, on: bool) -> Self {
        Normalizer { on, moments: Moments::new(dim), shift: vec![0.0; dim], scale: vec![1.0; dim] }
    }

    /// Whether it does anything.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Numbers in an observation.
    pub fn dim(&self) -> usize {
        self.shift.len()
    }

    /// Writes the normalised `obs`.
    pub fn apply(&self, obs: &[f32], out: &mut [f32]) {
        if !self.on {
            out.copy_from_slice(obs);
            return;
        }
        for (((o, &x), &shift), &scale) in out.iter_mut().zip(obs).zip(&self.shift).zip(&self.scale) {
            // clamp passes a NaN on, as it must: the trainer looks for it.
            *o = ((x - shift) * scale).clamp(-BOUND, BOUND);
        }
    }

    /// Takes in what was seen, part after part; `apply` uses it from here on.
    pub fn take(&mut self, parts: impl IntoIterator<Item = Moments>) {
        let none = Moments::new(0);
        self.moments = reduce(std::mem::replace(&mut self.moments, none), parts);
        let Moments { count, mean, squares } = &self.moments;
        for i in 0..self.shift.len() {
            self.shift[i] = mean[i] as f32;
            self.scale[i] = (1.0 / (squares[i] / count).sqrt().max(1e-4)) as f32;
        }
    }

    /// That it is one that a run can come to which started from `fresh`: what is wrong with it, if not.
    pub(crate) fn check(&self, fresh: &Normalizer) -> Result<(), String> {
        let (dim, Moments { count, mean, squares }) = (fresh.dim(), &self.moments);
        let lengths = [self.shift.len(), self.scale.len(), mean.len(), squares.len()];
        if let Some(length) = lengths.into_iter().find(|length| *length != dim) {
            return Err(format!("is for observations of {length} numbers, not {dim}"));
        }
        let used = self.shift.iter().chain(&self.scale).map(|x| f64::from(*x));
        let finite = mean.iter().chain(squares).chain([count]).copied().chain(used).all(f64::is_finite);
        if !finite || *count < 0.0 || squares.iter().any(|x| *x < 0.0) {
            return Err("holds a number that is not finite, or a spread below zero".into());
        }
        if self.on != fresh.on { Err(format!("is {}", if self.on { "on" } else { "off" })) } else { Ok(()) }
    }

    /// How many observations it has taken in, their mean, and their sum of squared differences from it.
    pub(crate) fn moments(&self) -> (f64, &[f64], &[f64]) {
        (self.moments.count, &self.moments.mean, &self.moments.squares)
    }

    /// One with these moments, and with what it uses of them.
    pub(crate) fn of_parts(
        on: bool,
        (count, mean, squares): (f64, Vec<f64>, Vec<f64>),
        (shift, scale): (Vec<f32>, Vec<f32>),
    ) -> Normalizer {
        Normalizer { on, moments: Moments { count, mean, squares }, shift, scale }
    }

    /// What is subtracted from an observation, by what the rest is multiplied, and the bound on the result's size: the
    /// identity when off.
    pub fn affine(&self) -> (&[f32], &[f32], f32) {
        (&self.shift, &self.scale, if self.on { BOUND } else { f32::INFINITY })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_two_parts_are_those_of_the_whole() {
        // 1, 2, 3 and 10, 12: mean 28 / 5 = 5.6, squares 4.6^2 + 3.6^2 + 2.6^2 + 4.4^2 + 6.4^2 = 101.2.
        let of = |values: &[f32]| {
            let mut moments = Moments::new(1);
            values.iter().for_each(|x| moments.see(&[*x]));
            moments
        };
        let merged = reduce(of(&[1.0, 2.0, 3.0]), [Moments::new(1), of(&[10.0, 12.0])]);
        assert_eq!(merged.count, 5.0);
        assert!((merged.mean[0] - 5.6).abs() < 1e-12 && (merged.squares[0] - 101.2).abs() < 1e-12, "{merged:?}");
        // The first part of all is taken as it is.
        assert_eq!(reduce(Moments::new(1), [of(&[3.0, 5.0])]), of(&[3.0, 5.0]));
    }
}
