//! A trained policy without a trainer: load it, let it act.

use crate::actor::{ActWorkspace, Actor, agents, state_width};
use crate::checkpoint;
use crate::config::Config;
use crate::error::Error;
use crate::normalize::Normalizer;
use crate::policy::Policy;
use p3o_env::{ActionSpace, Actuation, EnvSpec};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;
use std::path::Path;

/// Policies with their normalisers, as a run's checkpoint holds them. It needs no environment and builds none of those that a
/// run trains in.
///
/// ```no_run
/// use p3o::Agent;
///
/// let agent = Agent::load("runs/PointGoal-p3o-seed0".as_ref())?;
/// let mut state = agent.start(1);
/// let mut action = vec![0.0; agent.spec().action_width()];
/// let obs = vec![0.0; agent.spec().obs_dim];
/// agent.act(&obs, &mut state, None, &mut action);
/// # Ok::<(), p3o::Error>(())
/// ```
pub struct Agent {
    pub(crate) config: Config,
    pub(crate) spec: EnvSpec,
    pub(crate) steps: u64,
    /// One, or one per agent of the world.
    pub(crate) minds: Vec<Mind>,
    pub(crate) digest: Option<String>,
    pub(crate) adopted: Vec<String>,
    pub(crate) actuation: Option<Actuation>,
}

/// One policy of an [`Agent`].
pub(crate) struct Mind {
    pub policy: Policy,
    pub normalizer: Normalizer,
    pub agents: Range<usize>,
}

impl Mind {
    fn actor(&self) -> Actor<'_> {
        Actor { policy: &self.policy, normalizer: &self.normalizer, agents: self.agents.clone() }
    }
}

/// What acting needs from step to step: the states of recurrent policies, and workspace.
pub struct AgentState {
    states: Vec<f32>,
    workspace: ActWorkspace,
    worlds: usize,
}

impl AgentState {
    /// Starts a new episode in one world.
    pub fn restart(&mut self, world: usize) {
        let width = self.states.len() / self.worlds;
        self.states[world * width..][..width].fill(0.0);
    }

    /// The states of recurrent policies, a row per world.
    pub fn states(&self) -> &[f32] {
        &self.states
    }

    /// The same, to go on from other ones.
    pub fn states_mut(&mut self) -> &mut [f32] {
        &mut self.states
    }
}

impl Agent {
    /// From a run's folder, or from a checkpoint in one.
    pub fn load(path: &Path) -> Result<Agent, Error> {
        checkpoint::load_agent(path)
    }

    /// The settings it was trained with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What its world looks like: sizes, actions, costs.
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// Environment steps that it was trained for.
    pub fn trained_steps(&self) -> u64 {
        self.steps
    }

    /// The digest of the checkpoint it comes from, which vouches for its settings and limits; none if it comes from a learner or
    /// from a checkpoint of an older version.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Settings of its run that were changed by hand and adopted, each with its old and new value.
    pub fn adopted(&self) -> &[String] {
        &self.adopted
    }

    /// The limit of each of the world's costs; infinite where there was none.
    pub fn limits(&self) -> Vec<f64> {
        self.config.limits_of(&self.spec)
    }

    /// The normaliser of an agent's observations: [`Normalizer::affine`] has its numbers.
    pub fn normalizer(&self, agent: usize) -> &Normalizer {
        let mind = self.minds.iter().find(|mind| mind.agents.contains(&agent)).expect("an agent of this world");
        &mind.normalizer
    }

    /// What its world makes of continuous actions; none if it clips them to [`Agent::action_bounds`] and no more.
    pub fn actuation(&self) -> Option<&Actuation> {
        self.actuation.as_ref()
    }

    /// Writes what the world does over the numbers of actions: clipped, and in the world's own units.
    pub fn actuate(&self, actions: &mut [f32]) {
        match (&self.actuation, self.action_bounds()) {
            (Some(actuation), _) => actuation.apply(actions),
            (None, Some((low, high))) => actions.iter_mut().for_each(|a| *a = a.clamp(low, high)),
            (None, None) => {}
        }
    }

    /// The bounds to which a world clips each number of a continuous action; none for discrete actions. A world with an
    /// [`Agent::actuation`] has its own.
    pub fn action_bounds(&self) -> Option<(f32, f32)> {
        match self.spec.action {
            ActionSpace::Continuous { .. } => Some((-1.0, 1.0)),
            ActionSpace::Discrete { .. } | ActionSpace::MultiDiscrete { .. } => None,
        }
    }

    /// What acts, in the order of the agents.
    pub fn actors(&self) -> Vec<Actor<'_>> {
        self.minds.iter().map(Mind::actor).collect()
    }

    /// The state in which so many worlds begin their episodes.
    pub fn start(&self, worlds: usize) -> AgentState {
        let actors = self.actors();
        AgentState { states: vec![0.0; worlds * state_width(&actors)], workspace: ActWorkspace::new(&actors), worlds }
    }

    /// Acts in all worlds of a state: `obs` has a row of [`EnvSpec::obs_dim`] numbers per world, `actions` gets one of
    /// [`EnvSpec::action_width`]. With a random stream per world actions are drawn, without they are the likeliest. A world
    /// clips continuous actions to [-1, 1] itself.
    pub fn act(&self, obs: &[f32], state: &mut AgentState, rngs: Option<&mut [ChaCha8Rng]>, actions: &mut [f32]) {
        let actors = self.actors();
        state.workspace.infer(&actors, obs, &mut state.states);
        let mut rngs = rngs.map(|rngs| rngs.iter_mut());
        for (world, actions) in actions.chunks_exact_mut(self.spec.action_width()).enumerate() {
            let mut rng = rngs.as_mut().and_then(Iterator::next);
            let width = self.spec.action.width();
            for ((agent, actor), action) in agents(&actors).zip(actions.chunks_exact_mut(width)) {
                let (_, outputs) = state.workspace.row(agent, world);
                match &mut rng {
                    Some(rng) => drop(actor.policy.act(outputs, action, rng)),
                    None => actor.policy.act_greedily(outputs, action),
                }
            }
        }
    }
}
