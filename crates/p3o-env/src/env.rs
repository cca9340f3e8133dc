//! The [`Env`] trait and what describes a world from outside.

use serde::{Deserialize, Serialize};

use crate::{Labels, Scene};

/// What an action is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ActionSpace {
    /// `dim` real numbers; the world itself clips each to [-1, 1].
    Continuous {
        /// How many numbers.
        dim: usize,
    },
    /// One of `n` discrete actions; the action slice holds its index as a single number.
    Discrete {
        /// How many actions there are.
        n: usize,
    },
    /// Several discrete actions at once; the action slice holds the index of each.
    MultiDiscrete {
        /// How many actions there are of each kind.
        sizes: Vec<usize>,
    },
}

impl ActionSpace {
    /// Length of the slice that carries one action.
    pub fn width(&self) -> usize {
        match self {
            ActionSpace::Continuous { dim } => *dim,
            ActionSpace::Discrete { .. } => 1,
            ActionSpace::MultiDiscrete { sizes } => sizes.len(),
        }
    }

    /// Numbers by which a policy says how likely each action is: a mean for each number, a logit for each discrete action.
    pub fn outputs(&self) -> usize {
        match self {
            ActionSpace::Continuous { dim } => *dim,
            ActionSpace::Discrete { n } => *n,
            ActionSpace::MultiDiscrete { sizes } => sizes.iter().fold(0, |sum, n| sum.saturating_add(*n)),
        }
    }

    /// How many discrete actions there are of each kind; none where actions are continuous.
    pub fn heads(&self) -> Vec<usize> {
        match self {
            ActionSpace::Continuous { .. } => Vec::new(),
            ActionSpace::Discrete { n } => vec![*n],
            ActionSpace::MultiDiscrete { sizes } => sizes.clone(),
        }
    }
}

/// One cost signal of a world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostSpec {
    /// Its name, for example in `--limit hazards=25`.
    pub name: String,
    /// The task's default limit on its sum over an episode.
    pub limit: f64,
    /// The greatest value of a step, if the world knows one; the least is then 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_per_step: Option<f64>,
    /// The greatest sum over an episode, if that is less than the time limit allows; the least value of a step is then 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_per_episode: Option<f64>,
}

impl CostSpec {
    /// A cost of which no greatest value is known.
    pub fn new(name: &str, limit: f64) -> CostSpec {
        CostSpec { name: name.to_owned(), limit, max_per_step: None, max_per_episode: None }
    }

    /// The same with steps that cost from 0 to `most`.
    pub fn per_step(self, most: f64) -> CostSpec {
        CostSpec { max_per_step: Some(most), ..self }
    }

    /// The same with episodes that cost from 0 to `most`.
    pub fn per_episode(self, most: f64) -> CostSpec {
        CostSpec { max_per_episode: Some(most), ..self }
    }

    /// The most that an episode of up to `horizon` steps can cost, if that is known.
    pub fn most_per_episode(&self, horizon: usize) -> Option<f64> {
        let all_steps = self.max_per_step.map(|most| most * horizon as f64);
        all_steps.into_iter().chain(self.max_per_episode).reduce(f64::min)
    }
}

/// What a world looks like from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnvSpec {
    /// The task's name.
    pub name: String,
    /// Length of an observation; for several agents, of all theirs one after another.
    pub obs_dim: usize,
    /// What an action is; for several agents, the action of one.
    pub action: ActionSpace,
    /// How many agents act, each on its own observation; 1 in an ordinary world.
    pub agents: usize,
    /// The costs, in the order in which `step` writes them.
    pub costs: Vec<CostSpec>,
    /// Time limit: the number of steps after which an episode is truncated.
    pub horizon: usize,
}

impl EnvSpec {
    /// Length of the slice that carries one action of every agent.
    pub fn action_width(&self) -> usize {
        self.agents * self.action.width()
    }
}

/// What a world makes of the numbers of a continuous action, each by itself: it is kept within `low` and `high`, multiplied
/// by `scale` and moved by `shift`. A world without one keeps them within -1 and 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Actuation {
    /// The least of each number; may be minus infinity.
    pub low: Vec<f32>,
    /// The greatest of each number; may be infinity.
    pub high: Vec<f32>,
    /// By what each is multiplied.
    pub scale: Vec<f32>,
    /// What is added to each then.
    pub shift: Vec<f32>,
}

impl Actuation {
    /// For numbers within these bounds: -1 to 1 stand for the whole range where it has two ends, and numbers stand for
    /// themselves where it has not.
    pub fn within(low: &[f32], high: &[f32]) -> Actuation {
        let bounded = |i: usize| low[i].is_finite() && high[i].is_finite();
        let each = |f: &dyn Fn(usize) -> f32| (0..low.len()).map(f).collect();
        // Halves first: the range of a number may be more than the greatest one.
        Actuation {
            low: each(&|i| if bounded(i) { -1.0 } else { low[i] }),
            high: each(&|i| if bounded(i) { 1.0 } else { high[i] }),
            scale: each(&|i| if bounded(i) { high[i] / 2.0 - low[i] / 2.0 } else { 1.0 }),
            shift: each(&|i| if bounded(i) { high[i] / 2.0 + low[i] / 2.0 } else { 0.0 }),
        }
    }

    /// Writes what the world does over the numbers of one action, or of several one after another.
    pub fn apply(&self, actions: &mut [f32]) {
        for action in actions.chunks_exact_mut(self.low.len()) {
            for (i, a) in action.iter_mut().enumerate() {
                *a = a.max(self.low[i]).min(self.high[i]) * self.scale[i] + self.shift[i];
            }
        }
    }

    /// Whether it is for actions of so many numbers.
    pub fn fits(&self, width: usize) -> bool {
        [&self.low, &self.high, &self.scale, &self.shift].iter().all(|numbers| numbers.len() == width)
    }

    /// The least and the greatest of number `i` as the world has it.
    pub fn bounds(&self, i: usize) -> (f32, f32) {
        let of = |x: f32| x * self.scale[i] + self.shift[i];
        (of(self.low[i]), of(self.high[i]))
    }
}

/// What one step gave besides the observation and the costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Reward of this step.
    pub reward: f32,
    /// The task itself ended the episode: the value of what would follow is zero.
    pub terminated: bool,
    /// The time limit ended the episode: what would follow still has a value.
    pub truncated: bool,
}

/// A world. If it has snapshots, they hold everything that changes while it runs.
pub trait Env: Send {
    /// Sizes, names and limits; they never change.
    fn spec(&self) -> &EnvSpec;

    /// Starts an episode that depends only on `seed` and the actions, and writes the first observation.
    fn reset(&mut self, seed: u64, obs: &mut [f32]);

    /// Advances one step; writes the new observation and every cost of this step.
    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome;

    /// The whole state as bytes, from which [`Env::restore`] continues bit for bit; `None` if the world cannot do that.
    fn snapshot(&self) -> Option<Vec<u8>> {
        None
    }

    /// Continues from a snapshot of the same kind of world. On failure nothing has changed.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let _ = bytes;
        Err(RestoreError::no_snapshots(self.spec()))
    }

    /// Adds the world as seen from above to an empty scene. A world that adds nothing has no picture.
    fn draw(&self, scene: &mut Scene) {
        let _ = scene;
    }

    /// What the numbers of observations and actions are. A world may say nothing.
    fn labels(&self) -> Labels {
        Labels::default()
    }
}

/// A snapshot that does not belong to this world.
#[derive(Debug, thiserror::Error)]
#[error("the snapshot does not fit {task}: {reason}")]
pub struct RestoreError {
    /// The world that was to be restored.
    pub task: String,
    /// What was wrong.
    pub reason: String,
}

impl RestoreError {
    pub(crate) fn no_snapshots(spec: &EnvSpec) -> RestoreError {
        RestoreError { task: spec.name.clone(), reason: "such worlds have no snapshots".to_owned() }
    }
}

/// Inside an `impl Env`: the methods that a wrapper answers as the world in its field `$inner` does.
macro_rules! forward_to {
    ($inner:ident) => {
        fn reset(&mut self, seed: u64, obs: &mut [f32]) {
            self.$inner.reset(seed, obs);
        }

        fn snapshot(&self) -> Option<Vec<u8>> {
            self.$inner.snapshot()
        }

        fn restore(&mut self, bytes: &[u8]) -> Result<(), $crate::RestoreError> {
            self.$inner.restore(bytes)
        }

        fn draw(&self, scene: &mut $crate::Scene) {
            self.$inner.draw(scene);
        }
    };
}
pub(crate) use forward_to;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_action_reaches_both_ends_and_an_unbounded_one_is_itself() {
        let (low, high) = ([-2.0, 0.0, f32::NEG_INFINITY, f32::NEG_INFINITY], [2.0, 10.0, f32::INFINITY, 3.0]);
        let actuation = Actuation::within(&low, &high);
        let mut actions = [-1.0, -1.0, -7.0, 7.0, 5.0, 1.0, 7.0, 2.0, 0.0, 0.5, 0.0, -9.0];
        actuation.apply(&mut actions);
        assert_eq!(actions, [-2.0, 0.0, -7.0, 3.0, 2.0, 10.0, 7.0, 2.0, 0.0, 7.5, 0.0, -9.0]);
        assert_eq!(
            (0..4).map(|i| actuation.bounds(i)).collect::<Vec<_>>(),
            low.into_iter().zip(high).collect::<Vec<_>>()
        );
        assert!(actuation.fits(4) && !actuation.fits(3));
        // A range beyond the greatest number has finite numbers still.
        let wide = Actuation::within(&[f32::MIN], &[f32::MAX]);
        assert_eq!((wide.scale[0], wide.shift[0]), (f32::MAX, 0.0));
    }
}
