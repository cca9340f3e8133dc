//! Safety Gym's Car: two driven wheels and a ball that rolls by itself, under a body that can tip.
//!
//! The body is [`bodies::CAR`], moved as MuJoCo does. It drives along the negative y axis of its own frame. Motors saturate at
//! a control of 0.02. Where the Point has a heading, the Car has an orientation in space: sensors and lidars are turned by
//! all of it, as in the original, and see a little less when it tips.
//!
//! Sensors, 24 numbers: accelerometer, velocimeter, gyro, magnetometer, then the ball's angular velocity and its rotation matrix, row by
//! row.
//!
//! An episode begins with wheels and ball on the ground to the last bit: which of them the first observation's accelerometer feels is
//! a matter of rounding, in the original as well as here. A step later all rest.

use rand_chacha::ChaCha8Rng;

use crate::labels::{counted, each};
use crate::lidar::Sighting;
use crate::open_env::StateReader;
use crate::physics::articulated::cubes::Cubes;
use crate::physics::articulated::{self, Contact, Obstacle, Pusher, bodies};
use crate::physics::contact::PILLAR_RADIUS;
use crate::robot::{Driver, Robot, common_sensors, floating};
use crate::{Form, Labels, Quantities, Role, Scene, StateError, vase};

/// Where the ball's quaternion and rates begin.
const BALL: [usize; 2] = [9, 8];

/// Everything of the Car seen from above lies inside: wheels at the sides, bumpers before and behind. Counter-clockwise.
const OUTLINE: [[f64; 2]; 10] = [
    [0.155, 0.05],
    [0.155, 0.15],
    [0.1, 0.16],
    [-0.1, 0.16],
    [-0.155, 0.15],
    [-0.155, 0.05],
    [-0.1, -0.1],
    [-0.05, -0.175],
    [0.05, -0.175],
    [0.1, -0.1],
];

/// Farther from the Car's origin than the edges of its wheels, hypot(0.155, 0.15, 0.1) = 0.238, nothing touches it.
const REACH: f64 = 0.24;
/// A step of the world.
const SECONDS: f64 = bodies::CAR.timestep * bodies::CAR.substeps as f64;
/// Gravity, motors and the ground change the velocity by less than this within a step, in m/s.
const GAIN: f64 = 3.0;

/// The Car.
#[derive(Clone)]
pub(crate) struct Car {
    body: Pusher,
}

impl std::fmt::Debug for Car {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Car")
    }
}

/// What the Car senses at one moment.
#[derive(Clone, Debug)]
pub(crate) struct CarReading {
    sensors: [f64; Car::SENSORS],
    /// Axes of the body, in columns.
    axes: [[f64; 3]; 3],
    /// Whether a pillar is touched.
    touching: bool,
}

impl Car {
    /// Reads the sensors of the last evaluation, which was of this state.
    fn sense(&self, state: &articulated::State) -> CarReading {
        let axes = self.body.told().orientation(1);
        let (a, v, gravity) = (self.body.told().acceleration(), &state.qvel, bodies::CAR.gravity);
        let mut sensors = [0.0; Car::SENSORS];
        sensors[..3].copy_from_slice(&floating::turned_back(&axes, [0, 1, 2].map(|i| a[i] - gravity[i])));
        sensors[3..6].copy_from_slice(&floating::turned_back(&axes, [v[0], v[1], v[2]]));
        sensors[6..9].copy_from_slice(&v[3..6]);
        sensors[9..12].copy_from_slice(&floating::turned_back(&axes, floating::MAGNETIC_FIELD));
        let [pose, rate] = BALL;
        sensors[12..15].copy_from_slice(&v[rate..rate + 3]);
        let ball = articulated::axes([0, 1, 2, 3].map(|i| state.qpos[pose + i]));
        sensors[15..].copy_from_slice(ball.as_flattened());
        let touching = self.bumps().next().is_some();
        CarReading { sensors, axes, touching }
    }

    /// The contacts of the last evaluation with things that stood in the way, and the number of each thing.
    fn bumps(&self) -> impl Iterator<Item = (&Contact, usize)> {
        let numbered = |contact: &'_ Contact| contact.geoms[0].checked_sub(bodies::CAR.geoms.len());
        self.body.told().contacts().iter().filter_map(move |contact| Some((contact, numbered(contact)?)))
    }

    /// Has pillars stand in the way that can be reached within `seconds`.
    fn surround(&mut self, state: &articulated::State, seconds: f64, pillars: &[[f64; 2]]) {
        let [vx, vy] = Car::velocity(state);
        let reach = PILLAR_RADIUS + REACH + seconds * (vx.abs() + vy.abs() + GAIN);
        let place = Car::place(state);
        let near = |pillar: &&[f64; 2]| {
            let (dx, dy) = (pillar[0] - place[0], pillar[1] - place[1]);
            dx * dx + dy * dy < reach * reach
        };
        self.body.alone().surround(&mut pillars.iter().filter(near).map(|pillar| Obstacle::pillar(*pillar)));
    }
}

fn controls(action: &[f32]) -> [f64; 2] {
    [f64::from(action[0]), f64::from(action[1])]
}

impl Robot for Car {
    type State = articulated::State;
    type Reading = CarReading;
    type Sensors = [f64; 24];
    const SENSORS: usize = 24;
    const ACTIONS: usize = 2;

    fn new() -> Car {
        Car { body: Pusher::default() }
    }

    fn start(place: [f64; 2], heading: f64, _rng: &mut ChaCha8Rng) -> articulated::State {
        let mut state = articulated::State::of(&bodies::CAR);
        floating::put(&mut state, place, heading);
        state
    }

    fn step(&mut self, state: &mut articulated::State, action: &[f32], pillars: &[[f64; 2]]) -> CarReading {
        self.surround(state, SECONDS, pillars);
        self.body.alone().step(state, &controls(action));
        self.read(state, action, pillars)
    }

    fn read(&mut self, state: &articulated::State, action: &[f32], pillars: &[[f64; 2]]) -> CarReading {
        self.surround(state, 0.0, pillars);
        self.body.alone().look(state, &controls(action));
        self.sense(state)
    }

    fn place(state: &articulated::State) -> [f64; 2] {
        [state.qpos[0], state.qpos[1]]
    }

    fn velocity(state: &articulated::State) -> [f64; 2] {
        [state.qvel[0], state.qvel[1]]
    }

    fn heading(state: &articulated::State) -> f64 {
        floating::heading(state)
    }

    fn is_finite(state: &articulated::State) -> bool {
        state.is_finite()
    }

    fn fits(state: &articulated::State) -> bool {
        floating::fits(state, &bodies::CAR)
    }

    fn sensors(reading: &CarReading) -> [f64; 24] {
        reading.sensors
    }

    fn sight(
        state: &articulated::State,
        reading: &CarReading,
        objects: &[[f64; 2]],
        range: f64,
        seen: &mut [Sighting],
    ) {
        floating::sight(state, &reading.axes, objects, range, seen);
    }

    fn draw(&self, state: &articulated::State, scene: &mut Scene) {
        let ([x, y], angle) = (Car::place(state), Car::heading(state));
        let (sin, cos) = libm::sincos(angle);
        let at = |[u, v]: [f64; 2]| [x + cos * u - sin * v, y + sin * u + cos * v];
        let block = |centre, half| Form::Block { centre: at(centre), half, angle };
        for side in [-0.13, 0.13] {
            scene.add(Role::Limb, block([side, 0.1], [0.025, 0.05]));
        }
        scene.disc(Role::Limb, at([0.0, -0.1]), 0.05);
        scene.add(Role::Agent, block([0.0, 0.15], [0.1, 0.01]));
        scene.add(Role::Agent, block([0.0, 0.125], [0.01, 0.025]));
        scene.add(Role::Agent, block([0.0, -0.165], [0.05, 0.01]));
        scene.add(Role::Agent, block([0.0, -0.13], [0.05, 0.03]));
        scene.add(Role::Agent, block([0.0, 0.0], [0.1, 0.1]));
    }

    fn labels() -> Labels {
        let axes = ["x", "y", "z"];
        let mut observation = common_sensors(&axes);
        observation.extend(each("ball_turn", &axes, "rad/s"));
        observation.extend(counted("ball_rotation", 9, "row by row of its matrix"));
        Labels { observation, action: each("wheel", &["left", "right"], "torque in N m, saturates at 0.02").collect() }
    }

    fn write(state: &articulated::State, into: &mut Quantities) {
        floating::write(state, into);
    }

    fn take(reader: &mut StateReader) -> Result<articulated::State, StateError> {
        floating::take(reader, &bodies::CAR)
    }
}

impl Driver for Car {
    fn touching(reading: &CarReading) -> bool {
        reading.touching
    }

    fn push(state: &articulated::State, reading: &CarReading, vase: &mut [f64; 2]) -> bool {
        let ([cos, sin], place) = ([reading.axes[0][0], reading.axes[1][0]], Car::place(state));
        let length = (cos * cos + sin * sin).sqrt();
        vase::push_out_of(&OUTLINE, place, [cos / length, sin / length], vase)
    }

    /// A part is a geom of [`bodies::CAR`].
    fn contacts(&mut self, state: &articulated::State, pillars: &[[f64; 2]]) -> Vec<[f64; 3]> {
        self.body.alone().surround(&mut pillars.iter().map(|pillar| Obstacle::pillar(*pillar)));
        self.body.alone().look(state, &[0.0; 2]);
        self.bumps().map(|(contact, pillar)| [contact.geoms[1] as f64, pillar as f64, contact.distance]).collect()
    }

    const SUBSTEP: f64 = bodies::CAR.timestep;

    fn step_among(&mut self, state: &mut articulated::State, action: &[f32], vases: &mut Cubes) -> CarReading {
        let [vx, vy] = Car::velocity(state);
        vases.forget();
        let reach = REACH + SECONDS * (vx.abs() + vy.abs() + GAIN);
        if vases.leave_alone(Car::place(state), reach, bodies::CAR.substeps) {
            return self.step(state, action, &[]);
        }
        self.surround(state, 0.0, &[]);
        self.body.step(state, &controls(action), vases);
        self.read_among(state, action, vases)
    }

    fn read_among(&mut self, state: &articulated::State, action: &[f32], vases: &mut Cubes) -> CarReading {
        self.body.look(state, &controls(action), vases);
        self.sense(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physics::articulated::model::Shape;

    #[test]
    fn the_outline_is_convex_and_holds_every_part() {
        let mut physics = articulated::build(&bodies::CAR);
        physics.look(&articulated::State::of(&bodies::CAR), &[0.0; 2]);
        let mut corners = Vec::new();
        for geom in bodies::CAR.geoms.iter().filter(|geom| geom.shape != Shape::Plane) {
            let place = physics.place(geom.body);
            let [x, y] = [0, 1].map(|i| place[i] + geom.pos[i]);
            let half = match geom.shape {
                Shape::Box => [geom.size[0], geom.size[1]],
                // Wheels roll along y.
                Shape::Cylinder => [geom.size[1], geom.size[0]],
                _ => [geom.size[0]; 2],
            };
            corners.extend(
                [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]].map(|s| [x + s[0] * half[0], y + s[1] * half[1]]),
            );
        }
        let mut reached = 0;
        for i in 0..OUTLINE.len() {
            let (a, b) = (OUTLINE[i], OUTLINE[(i + 1) % OUTLINE.len()]);
            let left = |p: &[f64; 2]| (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]);
            assert!(corners.iter().all(|p| left(p) > -1e-15), "{a:?}");
            assert!(left(&OUTLINE[(i + 2) % OUTLINE.len()]) > 0.0, "{a:?}");
            reached += usize::from(corners.iter().any(|p| (p[0] - a[0]).abs() + (p[1] - a[1]).abs() < 1e-15));
        }
        assert_eq!(reached, OUTLINE.len(), "each corner is one of the parts'");
    }
}
