//! PointCircle: run counter-clockwise around a large circle and stay between two lines (CPO's Point-Circle, light).
//!
//! rllab's point moves from p - (dx, dy) to p = (x, y); with d = 15
//!
//! ```text
//! reward = (-dx y + dy x) / (1 + | |p| - d |)        cost "boundary" = 1 if |x| > 2.5, limit 5
//! ```
//!
//! and an episode is truncated after 65 steps. There are no walls; x and y are the sphere's centre. The robot starts
//! near the origin, as rllab's does; [`CircleStart::Circle`] puts it on the circle instead.
//!
//! Why 5: noise of standard deviation e^-0.5 costs 20 an episode, running along the circle at full speed costs 58 for a
//! return of 614, standing still costs nothing. Five steps of 65 allow the edge of the band to be touched and no more:
//! a new policy violates the limit, the reward alone leads far beyond it, and it can be kept.
//!
//! The task of the same name in Safety-Gymnasium has other rules, another robot and another size: `circle.rs`.
//!
//! Observation, 5 numbers of order one: x / d, y / d, cos theta, sin theta, (|p| - d) / d. The heading is not given as
//! an angle because theta is not wrapped and means nothing beyond its direction.

use std::f64::consts::TAU;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::labels::each;
use crate::layout::Rect;
use crate::open_env::{StateReader, quantities};
use crate::physics::rllab_point::{self, RllabPoint};
use crate::{
    ActionSpace, CircleStart, CostSpec, Env, EnvSpec, Form, Labels, OpenEnv, Outcome, Quantities, RestoreError, Role,
    Scene, StateError, snapshot,
};

const HORIZON: usize = 65;
const RADIUS: f64 = 15.0;
const X_LIMIT: f64 = 2.5;
const COST_LIMIT: f64 = 5.0;

/// Everything that changes while the world runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    robot: RllabPoint,
    steps: u64,
}

/// The PointCircle world.
///
/// An action that is not a number shows up as NaN in the reward and the observation of that step and terminates the
/// episode.
#[derive(Clone, Debug)]
pub struct PointCircle {
    spec: EnvSpec,
    start: CircleStart,
    state: State,
}

impl Default for PointCircle {
    fn default() -> PointCircle {
        PointCircle::new(CircleStart::Origin)
    }
}

impl PointCircle {
    /// A world whose episodes start there, in the initial state of seed 0.
    pub fn new(start: CircleStart) -> PointCircle {
        let spec = EnvSpec {
            name: "PointCircle".to_owned(),
            obs_dim: 5,
            action: ActionSpace::Continuous { dim: 2 },
            agents: 1,
            costs: vec![CostSpec::new("boundary", COST_LIMIT).per_step(1.0)],
            horizon: HORIZON,
        };
        let mut world = PointCircle { spec, start, state: State { robot: RllabPoint::default(), steps: 0 } };
        world.begin(0);
        world
    }

    /// The robot.
    pub fn robot(&self) -> &RllabPoint {
        &self.state.robot
    }

    /// Names the start too: the observations are alike, but the episodes that follow would differ.
    fn kind(&self) -> String {
        format!("PointCircle from the {:?}", self.start)
    }

    fn begin(&mut self, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut robot = RllabPoint::draw(&mut rng);
        if self.start == CircleStart::Circle {
            let (sin, cos) = libm::sincos(TAU * rng.random::<f64>());
            robot.x += RADIUS * cos;
            robot.y += RADIUS * sin;
        }
        self.state = State { robot, steps: 0 };
    }

    fn observe(&self, obs: &mut [f32]) {
        let robot = &self.state.robot;
        let [cos, sin] = robot.heading();
        let beyond = radius(robot) - RADIUS;
        let values = [robot.x / RADIUS, robot.y / RADIUS, cos, sin, beyond / RADIUS];
        obs.copy_from_slice(&values.map(|v| v as f32));
    }
}

fn radius(robot: &RllabPoint) -> f64 {
    (robot.x * robot.x + robot.y * robot.y).sqrt()
}

impl Env for PointCircle {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        self.begin(seed);
        self.observe(obs);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        let before = self.state.robot;
        let robot = &mut self.state.robot;
        robot.drive([f64::from(action[0]), f64::from(action[1])], f64::INFINITY);
        let (dx, dy) = (robot.x - before.x, robot.y - before.y);
        let reward = (-dx * robot.y + dy * robot.x) / (1.0 + (radius(robot) - RADIUS).abs());
        costs[0] = f32::from(u8::from(robot.x.abs() > X_LIMIT));
        let terminated = !robot.is_finite();
        self.state.steps += 1;
        let truncated = !terminated && self.state.steps >= HORIZON as u64;
        self.observe(obs);
        Outcome { reward: reward as f32, terminated, truncated }
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        Some(snapshot::seal(&self.kind(), &self.state))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.state = snapshot::open(&self.kind(), bytes)?;
        Ok(())
    }

    fn draw(&self, scene: &mut Scene) {
        let State { robot, steps } = &self.state;
        scene.bounds = Rect::square(RADIUS + 2.0);
        scene.add(Role::Track, Form::Ring { centre: [0.0; 2], radius: RADIUS });
        for side in [-1.0, 1.0] {
            scene.upright(Role::Limit, side * X_LIMIT).alarm = *steps > 0 && side * robot.x > X_LIMIT;
        }
        robot.show(scene);
    }

    fn labels(&self) -> Labels {
        let observation = each("position", &["x", "y"], "15 m")
            .chain(each("heading", &["cos", "sin"], "1"))
            .chain(each("circle", &["beyond"], "15 m, negative inside"));
        Labels { observation: observation.collect(), action: rllab_point::labels() }
    }
}

/// State: `robot` (x, y, heading, and the three velocities that were drawn). Nothing is derived.
impl OpenEnv for PointCircle {
    fn state(&self) -> Quantities {
        quantities([("robot", &self.state.robot.numbers())])
    }

    fn set_state(&mut self, state: Quantities) -> Result<(), StateError> {
        let mut reader = StateReader::new(state);
        let robot = RllabPoint::from_numbers(reader.numbers("robot")?);
        reader.finish()?;
        self.state = State { robot, steps: 0 };
        Ok(())
    }

    fn derived(&self, _action: &[f32]) -> Quantities {
        Quantities::new()
    }
}
