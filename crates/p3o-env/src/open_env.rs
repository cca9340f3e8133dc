//! Worlds opened up: states that can be set and read by name, in full precision.
//!
//! Training needs none of this. It is for looking inside and for comparing a world with the engine it follows; `p3o
//! env-step` offers it to other programs. Points of the plane are written one after another: x, y, x, y.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::Env;

/// Lists of numbers by name.
pub type Quantities = BTreeMap<String, Vec<f64>>;

/// A world whose state can be set and read.
pub trait OpenEnv: Env {
    /// Where everything is and how it moves: all that changes except the time and the random stream.
    fn state(&self) -> Quantities;

    /// Starts an episode in this state instead of a random one. A state that does not fit changes nothing.
    fn set_state(&mut self, state: Quantities) -> Result<(), StateError>;

    /// What the physics computes from the current state under `action`, before it is rounded to an observation.
    fn derived(&self, action: &[f32]) -> Quantities;
}

/// Why a state does not fit a world.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StateError {
    /// A list is missing.
    #[error("the state has no {0:?}")]
    Missing(&'static str),
    /// A list that the world does not have.
    #[error("the state of this task has no {name:?}; it has {}", .known.join(", "))]
    Unknown {
        /// Its name.
        name: String,
        /// The names that it has.
        known: Vec<&'static str>,
    },
    /// A list is too short or too long.
    #[error("{name:?} has {found} numbers instead of {expected}")]
    Length {
        /// Its name.
        name: &'static str,
        /// How many numbers it has.
        found: usize,
        /// How many it should have.
        expected: String,
    },
    /// A number that should be one of a few.
    #[error("{name:?} is not a whole number from 0 to {most}")]
    NotAmong {
        /// Its name.
        name: &'static str,
        /// The greatest that it can be.
        most: u32,
    },
    /// A list holds infinity or NaN.
    #[error("{0:?} holds a number that is not finite")]
    NotFinite(&'static str),
}

/// Takes the lists of a state one by one, checking each.
pub(crate) struct StateReader {
    left: Quantities,
    taken: Vec<&'static str>,
}

impl StateReader {
    pub fn new(state: Quantities) -> StateReader {
        StateReader { left: state, taken: Vec::new() }
    }

    fn take(&mut self, name: &'static str) -> Result<Vec<f64>, StateError> {
        self.taken.push(name);
        let values = self.left.remove(name).ok_or(StateError::Missing(name))?;
        if values.iter().any(|v| !v.is_finite()) {
            return Err(StateError::NotFinite(name));
        }
        Ok(values)
    }

    /// A list of exactly `N` numbers.
    pub fn numbers<const N: usize>(&mut self, name: &'static str) -> Result<[f64; N], StateError> {
        let wrong = |v: Vec<f64>| StateError::Length { name, found: v.len(), expected: N.to_string() };
        self.take(name)?.try_into().map_err(wrong)
    }

    /// A list of exactly `len` numbers.
    pub fn list(&mut self, name: &'static str, len: usize) -> Result<Vec<f64>, StateError> {
        let values = self.take(name)?;
        if values.len() == len {
            return Ok(values);
        }
        Err(StateError::Length { name, found: values.len(), expected: len.to_string() })
    }

    /// A whole number from 0 to `most`.
    pub fn whole(&mut self, name: &'static str, most: u32) -> Result<u32, StateError> {
        let [value] = self.numbers(name)?;
        (0..=most).find(|whole| f64::from(*whole) == value).ok_or(StateError::NotAmong { name, most })
    }

    /// A list of points; `count` says how many there may be.
    pub fn points(&mut self, name: &'static str, count: RangeInclusive<usize>) -> Result<Vec<[f64; 2]>, StateError> {
        let values = self.take(name)?;
        if values.len() % 2 == 1 || !count.contains(&(values.len() / 2)) {
            let [low, high] = [2 * count.start(), 2 * count.end()];
            let expected = if low == high { low.to_string() } else { format!("an even number from {low} to {high}") };
            return Err(StateError::Length { name, found: values.len(), expected });
        }
        Ok(values.chunks_exact(2).map(|p| [p[0], p[1]]).collect())
    }

    /// Checks that nothing is left over.
    pub fn finish(mut self) -> Result<(), StateError> {
        match self.left.pop_first() {
            Some((name, _)) => Err(StateError::Unknown { name, known: self.taken }),
            None => Ok(()),
        }
    }
}

/// These lists by name.
pub(crate) fn quantities<const N: usize>(lists: [(&str, &[f64]); N]) -> Quantities {
    lists.into_iter().map(|(name, values)| (name.to_owned(), values.to_vec())).collect()
}
