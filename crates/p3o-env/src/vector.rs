//! Worlds in batches: the traits behind which a trainer sees many worlds, wherever they run.
//!
//! [`VecEnv`](crate::VecEnv) implements them for worlds of this process. A simulator with its own batches, a world of
//! another language or one behind a network connection implements them itself.

use crate::{Actuation, EnvSpec, RestoreError};
use std::ops::Range;

/// What one step of several worlds gave, world after world.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorStep {
    /// What the policy sees next, a row per world: where an episode ended, the first observation of the next one.
    pub obs: Vec<f32>,
    /// The reward of each world.
    pub rewards: Vec<f32>,
    /// The costs, a row per world in the order of [`EnvSpec::costs`].
    pub costs: Vec<f32>,
    /// Where the task itself ended the episode: nothing that would follow has a value.
    pub terminated: Vec<bool>,
    /// Where a time limit ended the episode: what would have followed still has a value.
    pub truncated: Vec<bool>,
    /// The last observation of an episode that ended with this step, a row per world. Rows of other worlds mean
    /// nothing.
    pub last_obs: Vec<f32>,
}

impl VectorStep {
    /// Room for a step of `count` worlds.
    pub fn new(spec: &EnvSpec, count: usize) -> Self {
        VectorStep {
            obs: vec![0.0; count * spec.obs_dim],
            rewards: vec![0.0; count],
            costs: vec![0.0; count * spec.costs.len()],
            terminated: vec![false; count],
            truncated: vec![false; count],
            last_obs: vec![0.0; count * spec.obs_dim],
        }
    }

    /// Whether it is a step of `count` worlds with observations of `dim` numbers and so many costs.
    #[inline]
    pub(crate) fn has_room(&self, count: usize, dim: usize, costs: usize) -> bool {
        self.obs.len() == count * dim
            && self.rewards.len() == count
            && self.costs.len() == count * costs
            && self.terminated.len() == count
            && self.truncated.len() == count
            && self.last_obs.len() == count * dim
    }

    /// Whether the episode of this world ended with the step.
    pub fn ended(&self, world: usize) -> bool {
        self.terminated[world] || self.truncated[world]
    }
}

/// A world or a simulator that failed: an exception, a lost connection. What it says is shown on one line.
#[derive(Debug, thiserror::Error)]
#[error("{}", one_line(.0))]
pub struct WorldError(pub String);

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// Worlds that are stepped together.
pub trait Stepper: Send {
    /// How many worlds; constant.
    fn count(&self) -> usize;

    /// Advances every world by its action; `actions` holds one action of [`EnvSpec::action_width`] numbers after
    /// another, and `out` has room for this number of worlds ([`VectorStep::new`]).
    ///
    /// Where an episode ends, the next one starts in the same step from the seed that `seed(world)` gives, unless the world
    /// is one of those [`waiting`](Stepper::waiting) then. It is called at most once per ended episode, in the order of the
    /// worlds. Worlds that seed themselves ignore what it gives, or do not ask.
    ///
    /// After an error the worlds are in no particular state, and `out` means nothing.
    fn step(
        &mut self,
        actions: &[f32],
        seed: &mut dyn FnMut(usize) -> u64,
        out: &mut VectorStep,
    ) -> Result<(), WorldError>;

    /// The worlds whose next step takes no action and only begins an episode, as it is with worlds that begin the next one
    /// late: until then their observation is the last one of the episode before. Empty if episodes always follow at once.
    fn waiting(&self) -> &[bool] {
        &[]
    }

    /// Ends the episode of one world early and starts the next; `obs` is that world's row, which receives the first
    /// observation. Returns false, with nothing changed, if the worlds cannot do that.
    fn restart(&mut self, world: usize, seed: u64, obs: &mut [f32]) -> bool {
        let _ = (world, seed, obs);
        false
    }
}

/// Worlds of one task in a batch.
///
/// The first call is [`reset`](VectorEnv::reset) or [`restore`](VectorEnv::restore); then steps follow.
pub trait VectorEnv: Stepper {
    /// What every world looks like; constant.
    fn spec(&self) -> &EnvSpec;

    /// What the worlds make of continuous actions; `None` if they keep each number within -1 and 1.
    fn actuation(&self) -> Option<&Actuation> {
        None
    }

    /// Starts new episodes everywhere, world i from `seeds[i]`, and writes the first observations, a row per world.
    fn reset(&mut self, seeds: &[u64], obs: &mut [f32]) -> Result<(), WorldError>;

    /// Parts of up to `size` (at least one) of these worlds that may be stepped by different threads at their own pace, in the
    /// order of the worlds; each part counts its worlds from 0. `None` if all must be stepped together.
    fn split(&mut self, worlds: Range<usize>, size: usize) -> Option<Vec<Box<dyn Stepper + '_>>> {
        let _ = (worlds, size);
        None
    }

    /// The state of all worlds as bytes, from which [`VectorEnv::restore`] continues bit for bit. The observations that
    /// the last step gave are not part of it: the caller has them. `None` if the worlds cannot be frozen; a resumed run
    /// then starts new episodes.
    fn snapshot(&self) -> Option<Vec<u8>> {
        None
    }

    /// Continues from a snapshot of as many worlds of the same kind. On failure nothing has changed.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let _ = bytes;
        Err(RestoreError::no_snapshots(self.spec()))
    }

    /// The states of some worlds, one by one, for other worlds of the same kind in another process. `None` if they cannot be
    /// frozen or must be stepped together.
    fn freeze(&self, worlds: Range<usize>) -> Option<Vec<Vec<u8>>> {
        let _ = worlds;
        None
    }

    /// Takes over what [`VectorEnv::freeze`] gave for the worlds from `first` on.
    fn thaw(&mut self, first: usize, states: &[Vec<u8>]) -> Result<(), RestoreError> {
        let _ = (first, states);
        Err(RestoreError::no_snapshots(self.spec()))
    }
}
