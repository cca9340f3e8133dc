//! SimpleSpread: every agent goes to its landmark, and no two agents may collide (OpenAI's `simple_spread`, with the
//! paper's reward and cost).
//!
//! ```text
//! reward = -sum_i |p_i - landmark_i|        cost "collisions" = 1 if any two agents are nearer than 0.3, limit 0.5
//! ```
//!
//! Both are shared and read after the step; an episode has 25 steps. Each of N agents has five discrete actions, to do
//! nothing or to push along one axis, and sees 6 N numbers: its velocity and position, each landmark and then each
//! other agent relative to itself, and the others' messages, which are always zero here (2 numbers each).
//!
//! Per episode of three agents, random actions collide 0.85 times and return -87, standing still 0.02 and -79, going
//! straight to the landmarks 3.5 and -24: the limit matters and can be kept.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::labels::{counted, each};
use crate::layout::Rect;
use crate::open_env::{StateReader, quantities};
use crate::physics::particles::{CONTACT_DISTANCE, MAX_PARTICLES, Order, Particles, distance};
use crate::{
    ActionSpace, CostSpec, EnvSpec, Joint, Label, Labels, MultiAgentEnv, OpenEnv, Outcome, Quantities, RestoreError,
    Role, Scene, StateError, snapshot,
};

const HORIZON: usize = 25;
const COLLISION_LIMIT: f64 = 0.5;
const ACTIONS: usize = 5;
const PUSH: f64 = 5.0;
/// Radius of a landmark in a picture; agents pass through it.
const LANDMARK_RADIUS: f64 = 0.05;

/// Whose rules of motion apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpreadSemantics {
    /// OpenAI's: velocity first; the actions are nothing, +x, -x, +y, -y.
    #[default]
    OpenAi,
    /// MPE2's (PettingZoo's): position first; the actions are nothing, -x, +x, -y, +y.
    Mpe2,
}

/// Which distances the reward adds up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpreadReward {
    /// From each agent to the landmark of its own number: the paper's.
    #[default]
    Matched,
    /// From each landmark to the nearest agent: the original's, without its collision term.
    Cover,
}

/// Everything that changes while the world runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    agents: Particles,
    landmarks: Vec<[f64; 2]>,
    steps: u64,
}

/// The SimpleSpread world.
#[derive(Clone, Debug)]
pub struct SimpleSpread {
    spec: EnvSpec,
    semantics: SpreadSemantics,
    reward: SpreadReward,
    own_first: bool,
    state: State,
}

impl Default for SimpleSpread {
    fn default() -> SimpleSpread {
        SimpleSpread::new(3, SpreadSemantics::default())
    }
}

impl SimpleSpread {
    /// A world of `agents` agents and as many landmarks, in the initial state of seed 0.
    ///
    /// # Panics
    ///
    /// If there are fewer than two agents or more than eight.
    pub fn new(agents: usize, semantics: SpreadSemantics) -> SimpleSpread {
        assert!((2..=MAX_PARTICLES).contains(&agents), "SimpleSpread has two to eight agents, not {agents}");
        let spec = EnvSpec {
            name: "SimpleSpread".to_owned(),
            obs_dim: 6 * agents,
            action: ActionSpace::Discrete { n: ACTIONS },
            agents,
            costs: vec![CostSpec::new("collisions", COLLISION_LIMIT).per_step(1.0)],
            horizon: HORIZON,
        };
        let here = vec![[0.0; 2]; agents];
        let state = State { agents: Particles::at_rest(here.clone()), landmarks: here, steps: 0 };
        let mut world = SimpleSpread { spec, semantics, reward: SpreadReward::default(), own_first: false, state };
        world.begin(0);
        world
    }

    /// The same world with another reward.
    pub fn with_reward(mut self, reward: SpreadReward) -> SimpleSpread {
        self.reward = reward;
        self
    }

    /// The same world, in which agent i sees landmarks i, i + 1, ... in this order, and then the other agents in the
    /// same order. Otherwise agents that share a policy could not tell which landmark is theirs: nothing else in an
    /// observation depends on the agent's number.
    pub fn with_own_first(mut self) -> SimpleSpread {
        self.own_first = true;
        self
    }

    /// Starts an episode from these positions, with every agent at rest.
    ///
    /// # Panics
    ///
    /// If there are not as many of each as the world has agents.
    pub fn place(&mut self, agents: &[[f64; 2]], landmarks: &[[f64; 2]]) {
        let n = self.agents();
        assert_eq!([agents.len(), landmarks.len()], [n; 2], "one position per agent and per landmark");
        self.state = State { agents: Particles::at_rest(agents.to_vec()), landmarks: landmarks.to_vec(), steps: 0 };
    }

    /// Where the agents are and how fast they move.
    pub fn particles(&self) -> &Particles {
        &self.state.agents
    }

    /// Where the landmarks are.
    pub fn landmarks(&self) -> &[[f64; 2]] {
        &self.state.landmarks
    }

    /// The reward of the current positions.
    pub fn reward(&self) -> f64 {
        let State { agents, landmarks, .. } = &self.state;
        let at = &agents.positions;
        let nearest = |l: &[f64; 2]| at.iter().map(|p| distance(*p, *l)).fold(f64::INFINITY, f64::min);
        -match self.reward {
            SpreadReward::Matched => at.iter().zip(landmarks).map(|(p, l)| distance(*p, *l)).sum::<f64>(),
            SpreadReward::Cover => landmarks.iter().map(nearest).sum::<f64>(),
        }
    }

    fn kind(&self) -> String {
        format!("SimpleSpread of {} agents ({:?})", self.agents(), self.semantics)
    }

    fn begin(&mut self, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let State { agents, landmarks, steps } = &mut self.state;
        for place in agents.positions.iter_mut().chain(landmarks) {
            *place = [(); 2].map(|()| rng.random_range(-1.0..1.0));
        }
        agents.velocities.fill([0.0; 2]);
        *steps = 0;
    }

    fn force(&self, action: usize) -> [f64; 2] {
        let (low, high) = match self.semantics {
            SpreadSemantics::OpenAi => (PUSH, -PUSH),
            SpreadSemantics::Mpe2 => (-PUSH, PUSH),
        };
        match action {
            0 => [0.0, 0.0],
            1 => [low, 0.0],
            2 => [high, 0.0],
            3 => [0.0, low],
            _ => [0.0, high],
        }
    }

    fn observe(&self, obs: &mut [f32]) {
        let Particles { positions, velocities } = &self.state.agents;
        for (i, out) in obs.chunks_exact_mut(self.spec.obs_dim).enumerate() {
            let here = positions[i];
            let relative = |p: &[f64; 2]| [p[0] - here[0], p[1] - here[1]];
            let (n, first) = (positions.len(), if self.own_first { i } else { 0 });
            let order = || (first..first + n).map(|j| j % n);
            let others = order().filter(|j| *j != i).map(|j| &positions[j]);
            let seen = order().map(|j| &self.state.landmarks[j]).chain(others).map(relative);
            out.fill(0.0);
            for (pair, value) in out.chunks_exact_mut(2).zip([velocities[i], here].into_iter().chain(seen)) {
                pair.copy_from_slice(&value.map(|v| v as f32));
            }
        }
    }
}

impl MultiAgentEnv for SimpleSpread {
    fn agents(&self) -> usize {
        self.state.landmarks.len()
    }

    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        self.begin(seed);
        self.observe(obs);
    }

    /// An action that is too large counts as the last one; one that is negative or not a number as doing nothing.
    fn step(&mut self, actions: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        let mut forces = [[0.0; 2]; MAX_PARTICLES];
        for (force, action) in forces.iter_mut().zip(actions) {
            *force = self.force(*action as usize);
        }
        let order = match self.semantics {
            SpreadSemantics::OpenAi => Order::VelocityFirst,
            SpreadSemantics::Mpe2 => Order::PositionFirst,
        };
        self.state.agents.step(&forces, order);
        self.state.steps += 1;
        costs[0] = f32::from(u8::from(self.state.agents.overlapping_pairs() > 0));
        self.observe(obs);
        let truncated = self.state.steps >= HORIZON as u64;
        Outcome { reward: self.reward() as f32, terminated: false, truncated }
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        Some(snapshot::seal(&self.kind(), &self.state))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let state: State = snapshot::open(&self.kind(), bytes)?;
        let found = [state.agents.positions.len(), state.agents.velocities.len(), state.landmarks.len()];
        if found != [self.agents(); 3] {
            let reason = format!("it has {found:?} positions, velocities and landmarks");
            return Err(RestoreError { task: self.kind(), reason });
        }
        self.state = state;
        Ok(())
    }

    fn draw(&self, scene: &mut Scene) {
        let State { agents: Particles { positions, .. }, landmarks, steps } = &self.state;
        scene.bounds = Rect::square(1.4);
        // Which landmark belongs to which agent matters only to the paper's reward.
        if self.reward == SpreadReward::Matched {
            for (from, to) in positions.iter().zip(landmarks) {
                scene.line(Role::Landmark, *from, *to);
            }
        }
        for (i, &here) in positions.iter().enumerate() {
            let others = positions.iter().enumerate().filter(|(j, _)| *j != i);
            let collides = others.into_iter().any(|(_, p)| distance(here, *p) < CONTACT_DISTANCE);
            scene.disc(Role::Agent, here, CONTACT_DISTANCE / 2.0).alarm = *steps > 0 && collides;
        }
        for &place in landmarks {
            scene.disc(Role::Landmark, place, LANDMARK_RADIUS);
        }
        scene.agents.clone_from(positions);
    }

    fn labels(&self) -> Labels {
        let n = self.agents();
        let order = if self.own_first { "the agent's own is number 0" } else { "in the world's order" };
        let mut observation: Vec<Label> =
            each("velocity", &["x", "y"], "1/s").chain(each("position", &["x", "y"], "1")).collect();
        for (what, count) in [("landmark", n), ("other", n - 1)] {
            for i in 0..count {
                let unit = format!("1, from the agent; {order}");
                observation.extend(each(&format!("{what}_{i}"), &["x", "y"], &unit));
            }
        }
        observation.extend(counted("message", 2 * (n - 1), "zero"));
        let pushes = match self.semantics {
            SpreadSemantics::OpenAi => "nothing, +x, -x, +y, -y",
            SpreadSemantics::Mpe2 => "nothing, -x, +x, -y, +y",
        };
        Labels { observation, action: vec![Label { name: "push".to_owned(), unit: pushes.to_owned() }] }
    }
}

/// State: `positions` and `velocities` of the agents, and the `landmarks`. Derived: the reward of the current positions.
impl OpenEnv for Joint<SimpleSpread> {
    fn state(&self) -> Quantities {
        let State { agents, landmarks, .. } = &self.world().state;
        let lists = [("positions", &agents.positions), ("velocities", &agents.velocities), ("landmarks", landmarks)];
        quantities(lists.map(|(name, points)| (name, points.as_flattened())))
    }

    fn set_state(&mut self, state: Quantities) -> Result<(), StateError> {
        let n = self.world().agents();
        let mut reader = StateReader::new(state);
        let positions = reader.points("positions", n..=n)?;
        let velocities = reader.points("velocities", n..=n)?;
        let landmarks = reader.points("landmarks", n..=n)?;
        reader.finish()?;
        self.world_mut().state = State { agents: Particles { positions, velocities }, landmarks, steps: 0 };
        Ok(())
    }

    fn derived(&self, _action: &[f32]) -> Quantities {
        quantities([("reward", &[self.world().reward()])])
    }
}
