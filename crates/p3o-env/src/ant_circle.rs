//! AntCircle: run around a circle without leaving a band (the `AntCircle` of the mujoco-circle worlds).
//!
//! ```text
//! reward = (x v_y - y v_x) / (1 + | |p| - 10 |)      cost "boundary" = 1 if |x| > 3, limit 50
//! ```
//!
//! with p = (x, y) the torso's position and v its mean velocity over the step of 0.05 s. Running counter-clockwise on
//! the circle of radius 10 pays most, but leaves the band |x| <= 3 twice per round. An episode terminates when the
//! torso's height leaves [0.2, 1] or the state is no longer finite, and is truncated after 1000 steps.
//!
//! Observation: position (15 numbers), velocity (14), then 84 zeros where the original has contact forces: MuJoCo 2
//! leaves them empty. [`AntCircle::with_short_observation`] drops the zeros.
//!
//! p is read where the original reads it: in the last evaluation of the integrator, which is a fraction of a millimetre
//! off the final position. Height and observation use the final position.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use crate::labels::{counted, each};
use crate::layout::Rect;
use crate::open_env::{StateReader, quantities};
use crate::physics::ant::{
    self, ACTIONS, AntState, LIMB_RADIUS, POSITIONS, SUBSTEP, SUBSTEPS, TORSO_RADIUS, VELOCITIES,
};
use crate::{
    ActionSpace, CostSpec, Env, EnvSpec, Form, Label, Labels, OpenEnv, Outcome, Quantities, RestoreError, Role, Scene,
    StateError, snapshot,
};

const NAME: &str = "AntCircle";
const HORIZON: usize = 1000;
const LIMIT: f64 = 50.0;
const RADIUS: f64 = 10.0;
const BAND: f64 = 3.0;
const HEIGHTS: std::ops::RangeInclusive<f64> = 0.2..=1.0;
const SECONDS: f64 = SUBSTEP * SUBSTEPS as f64;
const MOTION: usize = POSITIONS + VELOCITIES;
/// Six numbers for each of the 13 bodies and the world.
const CONTACT_FORCES: usize = 14 * 6;

/// Where episodes of a circle task start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircleStart {
    /// Anywhere on the circle: mostly outside the band.
    Circle,
    /// At the centre, up to the noise of the initial state.
    Origin,
}

/// Everything that changes while the world runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    ant: AntState,
    /// The torso's position as reward and cost read it.
    place: [f64; 2],
    steps: u64,
}

/// The AntCircle world.
#[derive(Clone, Debug)]
pub struct AntCircle {
    spec: EnvSpec,
    start: CircleStart,
    one_sided: bool,
    state: State,
}

impl Default for AntCircle {
    fn default() -> AntCircle {
        AntCircle::new(CircleStart::Circle)
    }
}

impl AntCircle {
    /// A world whose episodes start there, in the initial state of seed 0.
    pub fn new(start: CircleStart) -> AntCircle {
        let spec = EnvSpec {
            name: NAME.to_owned(),
            obs_dim: MOTION + CONTACT_FORCES,
            action: ActionSpace::Continuous { dim: ACTIONS },
            agents: 1,
            costs: vec![CostSpec::new("boundary", LIMIT).per_step(1.0)],
            horizon: HORIZON,
        };
        let state = begin(start, 0);
        AntCircle { spec, start, one_sided: false, state }
    }

    /// The same world with the 29 numbers of an observation that are not always zero.
    pub fn with_short_observation(mut self) -> AntCircle {
        self.spec.obs_dim = MOTION;
        self
    }

    /// The same world with a wall at x = 3 alone, as the paper's formula reads without the bars of its figure.
    pub fn with_one_wall(mut self) -> AntCircle {
        self.one_sided = true;
        self
    }

    /// The Ant now.
    pub fn ant(&self) -> &AntState {
        &self.state.ant
    }

    /// The torso's position (x, y) as reward and cost read it.
    pub fn place(&self) -> [f64; 2] {
        self.state.place
    }

    fn outside(&self, x: f64) -> bool {
        if self.one_sided { x > BAND } else { x.abs() > BAND }
    }

    fn observe(&self, obs: &mut [f32]) {
        let AntState { qpos, qvel } = &self.state.ant;
        let (motion, zeros) = obs.split_at_mut(MOTION);
        for (out, value) in motion.iter_mut().zip(qpos.iter().chain(qvel)) {
            *out = *value as f32;
        }
        zeros.fill(0.0);
    }
}

/// The reference pose with noise: uniform on all positions (the quaternion too), normal on all velocities.
fn begin(start: CircleStart, seed: u64) -> State {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut ant = AntState::default();
    for value in &mut ant.qpos {
        *value += rng.random_range(-0.1..0.1);
    }
    for value in &mut ant.qvel {
        let z: f64 = StandardNormal.sample(&mut rng);
        *value = 0.1 * z;
    }
    if start == CircleStart::Circle {
        let (sin, cos) = libm::sincos(rng.random::<f64>() * std::f64::consts::TAU);
        (ant.qpos[0], ant.qpos[1]) = (RADIUS * cos, RADIUS * sin);
    }
    State { place: [ant.qpos[0], ant.qpos[1]], ant, steps: 0 }
}

impl Env for AntCircle {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        self.state = begin(self.start, seed);
        self.observe(obs);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        let state = &mut self.state;
        let action = std::array::from_fn(|i| f64::from(action[i]));
        let [x, y, _] = ant::step(&mut state.ant, &action);
        let [vx, vy] = [(x - state.place[0]) / SECONDS, (y - state.place[1]) / SECONDS];
        let off_circle = ((x * x + y * y).sqrt() - RADIUS).abs();
        let reward = (x * vy - y * vx) / (1.0 + off_circle);
        state.place = [x, y];
        state.steps += 1;
        let terminated = !state.ant.is_finite() || !HEIGHTS.contains(&state.ant.qpos[2]);
        let truncated = !terminated && state.steps >= HORIZON as u64;
        costs[0] = f32::from(u8::from(self.outside(x)));
        self.observe(obs);
        Outcome { reward: reward as f32, terminated, truncated }
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        Some(snapshot::seal(NAME, &self.state))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.state = snapshot::open(NAME, bytes)?;
        Ok(())
    }

    fn draw(&self, scene: &mut Scene) {
        let State { ant, place: [at, _], steps } = &self.state;
        scene.bounds = Rect::square(RADIUS + 2.0);
        scene.close_up = Some(1.5);
        scene.add(Role::Track, Form::Ring { centre: [0.0; 2], radius: RADIUS });
        for x in if self.one_sided { &[BAND][..] } else { &[-BAND, BAND] } {
            scene.upright(Role::Limit, *x).alarm = *steps > 0 && self.outside(*at) && at.signum() == x.signum();
        }
        let torso = [ant.qpos[0], ant.qpos[1]];
        for leg in ant.joints() {
            let [hip, knee, foot] = leg.map(|[x, y, _]| [x, y]);
            for ends in [[torso, hip], [hip, knee], [knee, foot]] {
                scene.add(Role::Limb, Form::Line { ends, radius: LIMB_RADIUS });
            }
        }
        scene.disc(Role::Agent, torso, TORSO_RADIUS);
        scene.agents.push(torso);
    }

    fn labels(&self) -> Labels {
        const JOINTS: [&str; 8] = ["hip_1", "ankle_1", "hip_2", "ankle_2", "hip_3", "ankle_3", "hip_4", "ankle_4"];
        const MOTORS: [&str; 8] = ["hip_4", "ankle_4", "hip_1", "ankle_1", "hip_2", "ankle_2", "hip_3", "ankle_3"];
        let mut observation: Vec<Label> = each("position", &["x", "y", "z"], "m")
            .chain(each("orientation", &["w", "x", "y", "z"], "quaternion"))
            .chain(each("angle", &JOINTS, "rad"))
            .chain(each("velocity", &["x", "y", "z"], "m/s"))
            .chain(each("turn", &["x", "y", "z"], "rad/s, in the torso's frame"))
            .chain(each("rate", &JOINTS, "rad/s"))
            .collect();
        observation.extend(counted("contact_force", self.spec.obs_dim - MOTION, "zero"));
        Labels { observation, action: each("torque", &MOTORS, &format!("{} N m", ant::GEAR)).collect() }
    }
}

/// State: `qpos` and `qvel`. Derived: `qacc`, the numbers of `contacts` and constraint `rows`, and the torso's `place` as
/// reward and cost read it.
impl OpenEnv for AntCircle {
    fn state(&self) -> Quantities {
        let AntState { qpos, qvel } = &self.state.ant;
        quantities([("qpos", qpos), ("qvel", qvel)])
    }

    fn set_state(&mut self, state: Quantities) -> Result<(), StateError> {
        let mut reader = StateReader::new(state);
        let ant = AntState { qpos: reader.numbers("qpos")?, qvel: reader.numbers("qvel")? };
        reader.finish()?;
        self.state = State { place: [ant.qpos[0], ant.qpos[1]], ant, steps: 0 };
        Ok(())
    }

    fn derived(&self, action: &[f32]) -> Quantities {
        let action = std::array::from_fn(|i| f64::from(action[i]));
        let found = ant::acceleration(&self.state.ant, &action);
        let [contacts, rows] = [found.contacts, found.rows].map(|count| [count as f64]);
        quantities([("qacc", &found.qacc), ("contacts", &contacts), ("rows", &rows), ("place", &self.state.place)])
    }
}
