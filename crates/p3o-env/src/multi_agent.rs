//! Worlds of several agents, and two ways to see one as an [`Env`].
//!
//! [`MultiAgentEnv`] has the shape of [`Env`] with agents as a leading dimension of observations and actions: all
//! slices are one agent after another. Agents share reward and costs, as in the paper. [`Team`] keeps the agents apart:
//! an actor reads the slices agent by agent, while a central critic reads them whole. [`Joint`] lets an algorithm for a
//! single agent act for all of them at once.

use crate::env::forward_to;
use crate::{ActionSpace, Env, EnvSpec, Label, Labels, Outcome, RestoreError, Scene};

/// A world of several agents that share its reward and its costs.
pub trait MultiAgentEnv: Send {
    /// How many agents there are; it never changes.
    fn agents(&self) -> usize;

    /// The length of one agent's observation and the action of one agent; the number of agents, the costs and the horizon
    /// are those of the whole world.
    fn spec(&self) -> &EnvSpec;

    /// Starts an episode that depends only on `seed` and the actions, and writes every agent's first observation.
    fn reset(&mut self, seed: u64, obs: &mut [f32]);

    /// Advances one step by one action per agent; writes every agent's observation and the shared costs.
    fn step(&mut self, actions: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome;

    /// The whole state as bytes, from which [`MultiAgentEnv::restore`] continues bit for bit; `None` if the world cannot
    /// do that.
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

    /// What the numbers of one agent's observation and action are. A world may say nothing.
    fn labels(&self) -> Labels {
        Labels::default()
    }
}

/// All agents as a single one: its observation is all of theirs one after another, its action one of each.
///
/// An action that is not a number shows up as NaN in the reward and the observation of that step and terminates the
/// episode.
#[derive(Clone, Debug)]
pub struct Joint<E> {
    world: E,
    spec: EnvSpec,
    /// One action per agent, kept to avoid allocating in every step.
    actions: Vec<f32>,
}

impl<E: MultiAgentEnv> Joint<E> {
    /// The joint view of this world. Where agents have discrete actions, the joint one has all of them side by side.
    pub fn new(world: E) -> Joint<E> {
        let (agents, single) = (world.agents(), world.spec());
        let action = match &single.action {
            ActionSpace::Continuous { dim } => ActionSpace::Continuous { dim: dim * agents },
            discrete => ActionSpace::MultiDiscrete { sizes: discrete.heads().repeat(agents) },
        };
        Joint::with_action(world, action)
    }

    /// The same with a single discrete action in place of several: if each of `m` agents has `n`, there are `n^m`. Agent i
    /// takes digit i of its index in base `n`, the lowest digit first; an index that is too large is clipped.
    pub fn product(world: E) -> Joint<E> {
        match world.spec().action {
            ActionSpace::Discrete { n } => {
                let all = n.saturating_pow(world.agents() as u32);
                Joint::with_action(world, ActionSpace::Discrete { n: all })
            }
            _ => Joint::new(world),
        }
    }

    fn with_action(world: E, action: ActionSpace) -> Joint<E> {
        let (agents, single) = (world.agents(), world.spec());
        let spec = EnvSpec { obs_dim: single.obs_dim * agents, action, agents: 1, ..single.clone() };
        let actions = vec![0.0; single.action.width() * agents];
        Joint { world, spec, actions }
    }

    /// The world itself.
    pub fn world(&self) -> &E {
        &self.world
    }

    /// The world itself, to be changed.
    pub fn world_mut(&mut self) -> &mut E {
        &mut self.world
    }

    /// Writes each agent's part of a joint action.
    fn split(&mut self, action: &[f32]) {
        match (&self.world.spec().action, &self.spec.action) {
            (ActionSpace::Discrete { n }, ActionSpace::Discrete { n: all }) => {
                // The cast of a negative number is zero.
                let mut rest = (action[0] as usize).min(all - 1);
                for part in &mut self.actions {
                    *part = (rest % n) as f32;
                    rest /= n;
                }
            }
            _ => self.actions.copy_from_slice(action),
        }
    }
}

impl<E: MultiAgentEnv> Env for Joint<E> {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        if action.iter().any(|a| a.is_nan()) {
            return not_a_number(obs, costs);
        }
        self.split(action);
        self.world.step(&self.actions, obs, costs)
    }

    fn labels(&self) -> Labels {
        let mut labels = self.world.labels().repeated(self.world.agents());
        if let (ActionSpace::Discrete { n }, true) = (&self.spec.action, labels.action.len() > 1) {
            let unit = format!("one of {n}, agent i's action in digit i, the lowest first");
            labels.action = vec![Label { name: "joint".to_owned(), unit }];
        }
        labels
    }

    forward_to!(world);
}

/// The agents of a world side by side: observations and actions are those of one agent after another.
///
/// An action that is not a number shows up as NaN in the reward and the observation of that step and terminates the
/// episode.
#[derive(Clone, Debug)]
pub struct Team<E> {
    world: E,
    spec: EnvSpec,
}

impl<E: MultiAgentEnv> Team<E> {
    /// This world's agents side by side.
    pub fn new(world: E) -> Team<E> {
        let (agents, single) = (world.agents(), world.spec());
        let spec = EnvSpec { obs_dim: single.obs_dim * agents, agents, ..single.clone() };
        Team { world, spec }
    }
}

impl<E: MultiAgentEnv> Env for Team<E> {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        if action.iter().any(|a| a.is_nan()) {
            return not_a_number(obs, costs);
        }
        self.world.step(action, obs, costs)
    }

    fn labels(&self) -> Labels {
        self.world.labels()
    }

    forward_to!(world);
}

/// The answer to an action that is not a number.
fn not_a_number(obs: &mut [f32], costs: &mut [f32]) -> Outcome {
    obs.fill(f32::NAN);
    costs.fill(0.0);
    Outcome { reward: f32::NAN, terminated: true, truncated: false }
}
