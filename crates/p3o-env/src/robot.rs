//! What drives through an arena: the Point, or another robot that answers the same questions.

use rand_chacha::ChaCha8Rng;
use serde::{Serialize, de::DeserializeOwned};

use crate::labels::each;
use crate::lidar::{self, Sighting};
use crate::open_env::StateReader;
use crate::physics::articulated::cubes::Cubes;
use crate::physics::contact;
use crate::physics::point::{self, PointState, Reading};
use crate::{Form, Label, Labels, Quantities, Role, Scene, StateError, vase};

/// A robot. The value itself is the room in which it computes; all that goes on from step to step is in
/// its `State`.
pub(crate) trait Robot: Clone + std::fmt::Debug {
    /// Where it is and how it moves.
    type State: Clone + std::fmt::Debug + Serialize + DeserializeOwned;
    /// What it knows after a step.
    type Reading: Clone + std::fmt::Debug;
    /// Its sensors' numbers; accelerometer, velocimeter, gyro and magnetometer come first.
    type Sensors: AsRef<[f64]>;
    const SENSORS: usize;
    /// Its controls.
    const ACTIONS: usize;

    fn new() -> Self;
    /// At rest in this place, turned by `heading`.
    fn start(place: [f64; 2], heading: f64, rng: &mut ChaCha8Rng) -> Self::State;
    /// One step of a world among solid pillars.
    fn step(&mut self, state: &mut Self::State, action: &[f32], pillars: &[[f64; 2]]) -> Self::Reading;
    /// The same without moving.
    fn read(&mut self, state: &Self::State, action: &[f32], pillars: &[[f64; 2]]) -> Self::Reading;

    fn place(state: &Self::State) -> [f64; 2];
    /// How its place changes.
    fn velocity(state: &Self::State) -> [f64; 2];
    /// Where its x axis points.
    fn heading(state: &Self::State) -> f64;
    fn is_finite(state: &Self::State) -> bool;
    /// Whether it has not fallen.
    fn stands(_state: &Self::State) -> bool {
        true
    }
    /// Whether a state that was read has the right number of parts.
    fn fits(state: &Self::State) -> bool;

    fn sensors(reading: &Self::Reading) -> Self::Sensors;
    /// Looks at every object in turn; `seen` has room for whole batches.
    fn sight(state: &Self::State, reading: &Self::Reading, objects: &[[f64; 2]], range: f64, seen: &mut [Sighting]);

    fn draw(&self, state: &Self::State, scene: &mut Scene);
    /// Of its sensors and its action.
    fn labels() -> Labels;
    fn write(state: &Self::State, into: &mut Quantities);
    fn take(reader: &mut StateReader) -> Result<Self::State, StateError>;
}

/// A robot that pillars stop and that pushes vases.
pub(crate) trait Driver: Robot {
    /// Whether it touches a pillar.
    fn touching(reading: &Self::Reading) -> bool;
    /// Moves a vase out of the way; whether it was touched.
    fn push(state: &Self::State, reading: &Self::Reading, vase: &mut [f64; 2]) -> bool;
    /// Contacts with pillars as triples of part, pillar and gap.
    fn contacts(&mut self, state: &Self::State, pillars: &[[f64; 2]]) -> Vec<[f64; 3]>;
    /// Length of its substeps in seconds.
    const SUBSTEP: f64;
    /// One step of a world among vases that are free bodies.
    fn step_among(&mut self, state: &mut Self::State, action: &[f32], vases: &mut Cubes) -> Self::Reading;
    /// The same without moving.
    fn read_among(&mut self, state: &Self::State, action: &[f32], vases: &mut Cubes) -> Self::Reading;
}

/// Labels of the sensors that every robot has, whose x and y axes point there.
pub(crate) fn common_sensors(axes: &[&str; 3]) -> Vec<Label> {
    each("accelerometer", axes, "m/s^2")
        .chain(each("velocimeter", axes, "m/s"))
        .chain(each("gyro", axes, "rad/s"))
        .chain(each("magnetometer", axes, "of a field of 0.5 along -y"))
        .collect()
}

/// What robots share that move freely in space: `qpos` begins with a place and a quaternion.
pub(crate) mod floating {
    use crate::lidar::{self, Sighting};
    use crate::open_env::StateReader;
    use crate::physics::articulated::{self, Model, State};
    use crate::{Quantities, StateError};

    pub const MAGNETIC_FIELD: [f64; 3] = [0.0, -0.5, 0.0];

    /// A vector of the world in a frame with these axes.
    pub fn turned_back(axes: &[[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|j| axes[0][j] * v[0] + axes[1][j] * v[1] + axes[2][j] * v[2])
    }

    /// Where its x axis points, seen from above.
    pub fn heading(state: &State) -> f64 {
        let axes = articulated::axes([3, 4, 5, 6].map(|i| state.qpos[i]));
        libm::atan2(axes[1][0], axes[0][0])
    }

    /// A place and a turn about the vertical.
    pub fn put(state: &mut State, [x, y]: [f64; 2], heading: f64) {
        let (sin, cos) = libm::sincos(0.5 * heading);
        state.qpos[..2].copy_from_slice(&[x, y]);
        state.qpos[3..7].copy_from_slice(&[cos, 0.0, 0.0, sin]);
    }

    /// Whether it has the joints of this model.
    pub fn fits(state: &State, model: &Model) -> bool {
        [state.qpos.len(), state.qvel.len()] == [model.positions(), model.velocities()]
    }

    pub fn write(state: &State, into: &mut Quantities) {
        into.insert("qpos".to_owned(), state.qpos.clone());
        into.insert("qvel".to_owned(), state.qvel.clone());
    }

    pub fn take(reader: &mut StateReader, model: &Model) -> Result<State, StateError> {
        let qpos = reader.list("qpos", model.positions())?;
        let mut state = State { qpos, qvel: reader.list("qvel", model.velocities())? };
        state.normalize(model);
        Ok(state)
    }

    /// Objects lie on the ground: from a body that tips, its height counts too.
    pub fn sight(state: &State, axes: &[[f64; 3]; 3], objects: &[[f64; 2]], range: f64, seen: &mut [Sighting]) {
        let [x, y, z] = [0, 1, 2].map(|i| state.qpos[i]);
        for (objects, seen) in objects.chunks(lidar::BATCH).zip(seen.chunks_exact_mut(lidar::BATCH)) {
            let mut ego = [[0.0; 2]; lidar::BATCH];
            for (ego, object) in ego.iter_mut().zip(objects) {
                let [along, across, _] = turned_back(axes, [object[0] - x, object[1] - y, -z]);
                *ego = [along, across];
            }
            lidar::sight([0.0; 2], [1.0, 0.0], &ego, range, seen);
        }
    }
}

/// Safety Gym's Point.
#[derive(Clone, Debug)]
pub(crate) struct Point;

impl Robot for Point {
    type State = PointState;
    type Reading = Reading;
    type Sensors = [f64; 12];
    const SENSORS: usize = 12;
    const ACTIONS: usize = 2;

    fn new() -> Point {
        Point
    }

    fn start([x, y]: [f64; 2], theta: f64, _rng: &mut ChaCha8Rng) -> PointState {
        PointState { x, y, theta, ..PointState::default() }
    }

    #[inline]
    fn step(&mut self, state: &mut PointState, action: &[f32], pillars: &[[f64; 2]]) -> Reading {
        point::step(state, [f64::from(action[0]), f64::from(action[1])], pillars)
    }

    fn read(&mut self, state: &PointState, action: &[f32], pillars: &[[f64; 2]]) -> Reading {
        point::read(state, [f64::from(action[0]), f64::from(action[1])], pillars)
    }

    #[inline]
    fn place(state: &PointState) -> [f64; 2] {
        [state.x, state.y]
    }

    fn velocity(state: &PointState) -> [f64; 2] {
        [state.vx, state.vy]
    }

    fn heading(state: &PointState) -> f64 {
        state.theta
    }

    #[inline]
    fn is_finite(state: &PointState) -> bool {
        state.is_finite()
    }

    fn fits(_state: &PointState) -> bool {
        true
    }

    #[inline]
    fn sensors(reading: &Reading) -> [f64; 12] {
        reading.sensors()
    }

    #[inline]
    fn sight(state: &PointState, reading: &Reading, objects: &[[f64; 2]], range: f64, seen: &mut [Sighting]) {
        lidar::sight([state.x, state.y], reading.heading, objects, range, seen);
    }

    fn draw(&self, state: &PointState, scene: &mut Scene) {
        let PointState { x, y, theta, .. } = *state;
        let ahead = [point::ARROW_AHEAD * libm::cos(theta), point::ARROW_AHEAD * libm::sin(theta)];
        let arrow = Form::Block { centre: [x + ahead[0], y + ahead[1]], half: [point::ARROW_HALF; 2], angle: theta };
        scene.disc(Role::Agent, [x, y], point::RADIUS);
        scene.add(Role::Agent, arrow);
    }

    fn labels() -> Labels {
        let drive = each("drive", &["forward"], "force, saturates at 0.05");
        let turn = each("turn", &["left"], "wanted turn rate in 1/0.3 rad/s");
        Labels { observation: common_sensors(&["forward", "left", "up"]), action: drive.chain(turn).collect() }
    }

    fn write(state: &PointState, into: &mut Quantities) {
        let PointState { x, y, theta, vx, vy, omega } = *state;
        into.insert("robot".to_owned(), vec![x, y, theta, vx, vy, omega]);
    }

    fn take(reader: &mut StateReader) -> Result<PointState, StateError> {
        let [x, y, theta, vx, vy, omega] = reader.numbers("robot")?;
        Ok(PointState { x, y, theta, vx, vy, omega })
    }
}

impl Driver for Point {
    #[inline]
    fn touching(reading: &Reading) -> bool {
        reading.touching
    }

    #[inline]
    fn push(state: &PointState, reading: &Reading, vase: &mut [f64; 2]) -> bool {
        vase::push_out([state.x, state.y], reading.heading, vase)
    }

    fn contacts(&mut self, state: &PointState, pillars: &[[f64; 2]]) -> Vec<[f64; 3]> {
        let found = contact::contacts(state, pillars);
        found.iter().map(|c| [c.part as u8 as f64, c.pillar as f64, c.dist]).collect()
    }

    const SUBSTEP: f64 = point::SUBSTEP;

    fn step_among(&mut self, state: &mut PointState, action: &[f32], vases: &mut Cubes) -> Reading {
        point::step_among(state, [f64::from(action[0]), f64::from(action[1])], vases)
    }

    fn read_among(&mut self, state: &PointState, action: &[f32], vases: &mut Cubes) -> Reading {
        point::read_among(state, [f64::from(action[0]), f64::from(action[1])], vases)
    }
}
