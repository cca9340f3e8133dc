//! Running mean and deviation of observations.

use serde::{Deserialize, Serialize};

/// Brings observations to zero mean and unit deviation by what was seen before this update; the identity when off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Normalizer {
    on: bool,
    count: f64,
    mean: Vec<f64>,
    /// Sum of squared deviations from the mean.
    squares: Vec<f64>,
    /// What is subtracted and multiplied until the next [`Normalizer::refresh`].
    shift: Vec<f32>,
    scale: Vec<f32>,
}

/// Normalised values are kept within this many deviations.
const BOUND: f32 = 10.0;

impl Normalizer {
    /// For observations of `dim` numbers.
    pub fn new(dim: usize, on: bool) -> Self {
        Normalizer {
            on,
            count: 0.0,
            mean: vec![0.0; dim],
            squares: vec![0.0; dim],
            shift: vec![0.0; dim],
            scale: vec![1.0; dim],
        }
    }

    /// Whether it does anything.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Numbers in an observation.
    pub fn dim(&self) -> usize {
        self.mean.len()
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

    /// Takes in one observation (Welford's update), without effect on `apply` yet.
    pub fn see(&mut self, obs: &[f32]) {
        self.count += 1.0;
        let share = 1.0 / self.count;
        for ((&x, mean), squares) in obs.iter().zip(&mut self.mean).zip(&mut self.squares) {
            let before = f64::from(x) - *mean;
            *mean += before * share;
            *squares += before * (f64::from(x) - *mean);
        }
    }

    /// Lets `apply` use all that was seen.
    pub fn refresh(&mut self) {
        for i in 0..self.dim() {
            self.shift[i] = self.mean[i] as f32;
            self.scale[i] = (1.0 / (self.squares[i] / self.count).sqrt().max(1e-4)) as f32;
        }
    }
}
