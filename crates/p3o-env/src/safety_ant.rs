//! Safety-Gymnasium's Ant: four legs, a quarter of the size of Gymnasium's, that falls when its torso comes below 0.08 m.
//!
//! Sensors, 40 numbers: accelerometer, velocimeter, gyro and magnetometer of a site 0.02 m below the torso's centre, the joints'
//! rates, the site's height, the torso's turn in the world's frame, and sine and cosine of every joint.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::labels::each;
use crate::lidar::Sighting;
use crate::open_env::StateReader;
use crate::physics::articulated::model::Shape;
use crate::physics::articulated::{self, Physics, State, bodies};
use crate::physics::space::{add, column, cross, matrix, times};
use crate::robot::{Robot, common_sensors, floating};
use crate::{Form, Labels, Quantities, Role, Scene, StateError};

const MOTORS: usize = 8;
const JOINTS: [&str; MOTORS] = ["hip_1", "ankle_1", "hip_2", "ankle_2", "hip_3", "ankle_3", "hip_4", "ankle_4"];
/// Where the sensors are in the torso's frame.
const SITE: [f64; 3] = [0.0, 0.0, -0.02];
const FALLEN: f64 = 0.08;

/// Safety-Gymnasium's Ant.
#[derive(Clone)]
pub(crate) struct SafetyAnt {
    physics: Box<dyn Physics>,
}

impl std::fmt::Debug for SafetyAnt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SafetyAnt")
    }
}

/// What it senses at one moment.
#[derive(Clone, Debug)]
pub(crate) struct AntReading {
    sensors: [f64; SafetyAnt::SENSORS],
    axes: [[f64; 3]; 3],
}

fn controls(action: &[f32]) -> [f64; MOTORS] {
    std::array::from_fn(|i| f64::from(action[i]))
}

impl Robot for SafetyAnt {
    type State = State;
    type Reading = AntReading;
    type Sensors = [f64; 40];
    const SENSORS: usize = 40;
    const ACTIONS: usize = MOTORS;

    fn new() -> SafetyAnt {
        SafetyAnt { physics: articulated::build(&bodies::SAFETY_ANT) }
    }

    /// Legs stand on bent ankles, up to a little noise.
    fn start(place: [f64; 2], heading: f64, rng: &mut ChaCha8Rng) -> State {
        let mut state = State::of(&bodies::SAFETY_ANT);
        floating::put(&mut state, place, heading);
        for (i, angle) in state.qpos[7..].iter_mut().enumerate() {
            let noise = rng.random_range(-0.1..0.1);
            *angle = if i % 2 == 0 { noise } else { std::f64::consts::FRAC_PI_2 + noise };
            // The ankles of the second and third leg bend the other way.
            if i == 3 || i == 5 {
                *angle = -*angle;
            }
        }
        state
    }

    fn step(&mut self, state: &mut State, action: &[f32], pillars: &[[f64; 2]]) -> AntReading {
        self.physics.step(state, &controls(action));
        self.read(state, action, pillars)
    }

    fn read(&mut self, state: &State, action: &[f32], _pillars: &[[f64; 2]]) -> AntReading {
        self.physics.look(state, &controls(action));
        let axes = self.physics.orientation(1);
        let (a, v, gravity) = (self.physics.acceleration(), &state.qvel, bodies::SAFETY_ANT.gravity);
        let (turn, turning) = ([v[3], v[4], v[5]], [a[3], a[4], a[5]]);
        // The site is beside the origin: what turns moves it.
        let acceleration = floating::turned_back(&axes, [0, 1, 2].map(|i| a[i] - gravity[i]));
        let acceleration = add(acceleration, 1.0, add(cross(turning, SITE), 1.0, cross(turn, cross(turn, SITE))));
        let velocity = add(floating::turned_back(&axes, [v[0], v[1], v[2]]), 1.0, cross(turn, SITE));
        let mut sensors = [0.0; SafetyAnt::SENSORS];
        sensors[..3].copy_from_slice(&acceleration);
        sensors[3..6].copy_from_slice(&velocity);
        sensors[6..9].copy_from_slice(&turn);
        sensors[9..12].copy_from_slice(&floating::turned_back(&axes, floating::MAGNETIC_FIELD));
        sensors[12..20].copy_from_slice(&v[6..]);
        sensors[20] = state.qpos[2] + times(&axes, SITE)[2];
        sensors[21..24].copy_from_slice(&times(&axes, turn));
        for (out, angle) in sensors[24..].chunks_exact_mut(2).zip(&state.qpos[7..]) {
            let (sin, cos) = libm::sincos(*angle);
            out.copy_from_slice(&[sin, cos]);
        }
        AntReading { sensors, axes }
    }

    fn place(state: &State) -> [f64; 2] {
        [state.qpos[0], state.qpos[1]]
    }

    fn velocity(state: &State) -> [f64; 2] {
        [state.qvel[0], state.qvel[1]]
    }

    fn heading(state: &State) -> f64 {
        floating::heading(state)
    }

    fn is_finite(state: &State) -> bool {
        state.is_finite()
    }

    fn stands(state: &State) -> bool {
        state.qpos[2] > FALLEN
    }

    fn fits(state: &State) -> bool {
        floating::fits(state, &bodies::SAFETY_ANT)
    }

    fn sensors(reading: &AntReading) -> [f64; 40] {
        reading.sensors
    }

    fn sight(state: &State, reading: &AntReading, objects: &[[f64; 2]], range: f64, seen: &mut [Sighting]) {
        floating::sight(state, &reading.axes, objects, range, seen);
    }

    fn draw(&self, state: &State, scene: &mut Scene) {
        let mut physics = self.physics.boxed();
        physics.look(state, &[0.0; MOTORS]);
        for geom in bodies::SAFETY_ANT.geoms.iter().filter(|geom| geom.shape != Shape::Plane) {
            let (at, axes) = (physics.place(geom.body), physics.orientation(geom.body));
            let along = column(&matrix(geom.quat), 2);
            let end = |s: f64| {
                let [x, y, _] = add(at, 1.0, times(&axes, add(geom.pos, s * geom.size[1], along)));
                [x, y]
            };
            let radius = geom.size[0];
            match geom.shape {
                Shape::Sphere => scene.disc(Role::Agent, end(0.0), radius),
                _ => scene.add(Role::Limb, Form::Line { ends: [end(-1.0), end(1.0)], radius }),
            };
        }
    }

    fn labels() -> Labels {
        let axes = ["x", "y", "z"];
        let mut observation = common_sensors(&axes);
        observation.extend(each("rate", &JOINTS, "rad/s"));
        observation.extend(each("site", &["height"], "m"));
        observation.extend(each("turn", &axes, "rad/s, in the world's frame"));
        observation.extend(JOINTS.into_iter().flat_map(|joint| each(joint, &["sin", "cos"], "1").collect::<Vec<_>>()));
        Labels { observation, action: each("torque", &JOINTS, "150 N m").collect() }
    }

    fn write(state: &State, into: &mut Quantities) {
        floating::write(state, into);
    }

    fn take(reader: &mut StateReader) -> Result<State, StateError> {
        floating::take(reader, &bodies::SAFETY_ANT)
    }
}
