//! PointGather: collect apples and leave the bombs (rllab's PointGather with the paper's numbers).
//!
//! Eight apples and eight bombs lie on a lattice of spacing 2. Whatever comes nearer than 1 to the robot's centre of
//! mass is collected: an apple gives reward 1, a bomb gives reward -1 and cost 1 ("bombs", limit 0.5). An episode
//! terminates when nothing is left and is truncated after 100 steps. Noise of standard deviation e^-0.5 collects about
//! 1.2 apples and 1.1 bombs an episode.
//!
//! Two observations carry the same information:
//!
//! | numbers | contents in order |
//! |---|---|
//! | 86 | rllab's full one: pose 3, velocity 3, inertia of world and body 20, velocities of world and body 12, 28 zeros (actuator forces, contact forces, contact distances, displacement of the centre of mass), readings 20 |
//! | 29 | pose 3, velocity 3, centre of mass 3, readings 20 |
//!
//! The velocity is noise of the initial state and never changes. The contact entries are deliberately zero: where the
//! original's are not, at its walls, they reach a million.

use std::f64::consts::{FRAC_PI_2, PI, TAU};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::labels::{counted, each};
use crate::layout::Rect;
use crate::open_env::{StateReader, quantities};
use crate::physics::rllab_point::{self, HEIGHT, INERTIA_ACROSS, INERTIA_ALONG, MASS, MASS_AHEAD, RllabPoint};
use crate::{
    ActionSpace, CostSpec, Env, EnvSpec, Label, Labels, OpenEnv, Outcome, Quantities, RestoreError, Role, Scene,
    StateError, snapshot,
};

/// Bins of each sensor.
pub const BINS: usize = 10;
const SENSOR_RANGE: f64 = 6.0;
const KIND: &str = "PointGather";
const HORIZON: usize = 100;
const APPLES: usize = 8;
const BOMBS: usize = 8;
const BOMB_LIMIT: f64 = 0.5;
const WALL: f64 = 7.0;
const SPACING: f64 = 2.0;
const CATCH_DISTANCE: f64 = 1.0;
/// Radius of an item in a picture; in the world itself it is a point.
const ITEM_RADIUS: f64 = 0.35;

/// Which observation the world writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatherObs {
    /// rllab's 86 numbers, as in the paper.
    #[default]
    Full,
    /// 29 numbers without constants.
    Compact,
}

/// Something to collect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Where it lies.
    pub at: [f64; 2],
    /// A bomb; otherwise an apple.
    pub bomb: bool,
}

/// Everything that changes while the world runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    robot: RllabPoint,
    items: Vec<Item>,
    steps: u64,
}

/// The PointGather world.
///
/// An action that is not a number shows up as NaN in the reward and the observation of that step and terminates the
/// episode.
#[derive(Clone, Debug)]
pub struct PointGather {
    spec: EnvSpec,
    obs: GatherObs,
    state: State,
}

impl Default for PointGather {
    fn default() -> PointGather {
        PointGather::new(GatherObs::default())
    }
}

impl PointGather {
    /// A world with this observation, in the initial state of seed 0.
    pub fn new(obs: GatherObs) -> PointGather {
        let obs_dim = match obs {
            GatherObs::Full => 86,
            GatherObs::Compact => 29,
        };
        let spec = EnvSpec {
            name: "PointGather".to_owned(),
            obs_dim,
            action: ActionSpace::Continuous { dim: 2 },
            agents: 1,
            // Bombs lie 2 apart and are caught within less than 1, so that no two are caught at once.
            costs: vec![CostSpec::new("bombs", BOMB_LIMIT).per_step(1.0).per_episode(BOMBS as f64)],
            horizon: HORIZON,
        };
        let items = Vec::with_capacity(APPLES + BOMBS);
        let mut world = PointGather { spec, obs, state: State { robot: RllabPoint::default(), items, steps: 0 } };
        world.begin(0);
        world
    }

    /// Starts an episode with this robot and these items instead of random ones.
    ///
    /// # Panics
    ///
    /// If there are more than sixteen items.
    pub fn place(&mut self, robot: RllabPoint, items: &[Item]) {
        assert!(items.len() <= APPLES + BOMBS, "there are at most {} items", APPLES + BOMBS);
        self.state = State { robot, items: items.to_vec(), steps: 0 };
    }

    /// The robot.
    pub fn robot(&self) -> &RllabPoint {
        &self.state.robot
    }

    /// What has not been collected yet.
    pub fn items(&self) -> &[Item] {
        &self.state.items
    }

    fn begin(&mut self, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let State { robot, items, steps } = &mut self.state;
        items.clear();
        while items.len() < APPLES + BOMBS {
            // The original's bounds: -6 occurs and +6 does not.
            let at = [(); 2].map(|()| SPACING * f64::from(rng.random_range(-3..=2)));
            let near_start = at[0] * at[0] + at[1] * at[1] < SPACING * SPACING;
            if !near_start && items.iter().all(|item| item.at != at) {
                items.push(Item { at, bomb: items.len() >= APPLES });
            }
        }
        *robot = RllabPoint::draw(&mut rng);
        *steps = 0;
    }

    fn observe(&self, obs: &mut [f32]) {
        let State { robot, items, .. } = &self.state;
        let [cx, cy] = robot.centre_of_mass();
        let [vx, vy, w] = robot.velocity;
        let head = [robot.x, robot.y, robot.theta, vx, vy, w];
        let [apples, bombs] = readings(robot, items);
        obs.fill(0.0);
        write(obs, 0, &head);
        let sensors = match self.obs {
            GatherObs::Compact => {
                write(obs, 6, &[cx, cy, HEIGHT]);
                9
            }
            GatherObs::Full => {
                // Of each pair, world and body, the world's part is zero.
                let [cos, sin] = robot.heading();
                let xx = INERTIA_ALONG * cos * cos + INERTIA_ACROSS * sin * sin;
                let yy = INERTIA_ALONG * sin * sin + INERTIA_ACROSS * cos * cos;
                let xy = (INERTIA_ALONG - INERTIA_ACROSS) * sin * cos;
                write(obs, 16, &[xx, yy, INERTIA_ACROSS, xy, 0.0, 0.0, 0.0, 0.0, 0.0, MASS]);
                write(obs, 32, &[0.0, 0.0, w, vx - w * MASS_AHEAD * sin, vy + w * MASS_AHEAD * cos, 0.0]);
                66
            }
        };
        write(obs, sensors, &apples);
        write(obs, sensors + BINS, &bombs);
    }
}

fn write(obs: &mut [f32], start: usize, values: &[f64]) {
    for (out, value) in obs[start..].iter_mut().zip(values) {
        *out = *value as f32;
    }
}

/// What the robot senses of apples and of bombs: per bin of the half circle ahead, right to left, 1 - d / 6 for the
/// nearest one within 6 of the centre of mass.
pub fn readings(robot: &RllabPoint, items: &[Item]) -> [[f64; BINS]; 2] {
    let centre = robot.centre_of_mass();
    let [cos, sin] = robot.heading();
    let mut bins = [[0.0f64; BINS]; 2];
    for Item { at, bomb } in items {
        let (dx, dy) = (at[0] - centre[0], at[1] - centre[1]);
        let distance = (dx * dx + dy * dy).sqrt();
        // What is clearly behind needs no angle.
        if distance > SENSOR_RANGE || dx * cos + dy * sin < -1e-6 {
            continue;
        }
        let mut angle = (libm::atan2(dy, dx) - robot.theta).rem_euclid(TAU);
        if angle > PI {
            angle -= TAU;
        }
        if angle.abs() > FRAC_PI_2 {
            continue;
        }
        // An item exactly to the left lies on the upper edge of the last bin.
        let bin = (((angle + FRAC_PI_2) / (PI / BINS as f64)) as usize).min(BINS - 1);
        let reading = &mut bins[usize::from(*bomb)][bin];
        // The nearest item has the highest reading, so the order of the items does not matter.
        *reading = reading.max(1.0 - distance / SENSOR_RANGE);
    }
    bins
}

impl Env for PointGather {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        self.begin(seed);
        self.observe(obs);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        let State { robot, items, steps } = &mut self.state;
        robot.drive([f64::from(action[0]), f64::from(action[1])], WALL);
        *steps += 1;
        let [x, y] = robot.centre_of_mass();
        let (mut reward, mut cost) = (0.0, 0.0);
        items.retain(|Item { at, bomb }| {
            let (dx, dy) = (at[0] - x, at[1] - y);
            let caught = dx * dx + dy * dy < CATCH_DISTANCE * CATCH_DISTANCE;
            if caught {
                reward += if *bomb { -1.0 } else { 1.0 };
                cost += f32::from(u8::from(*bomb));
            }
            !caught
        });
        if !robot.is_finite() {
            reward = f32::NAN;
        }
        costs[0] = cost;
        let terminated = items.is_empty() || !robot.is_finite();
        let truncated = !terminated && *steps >= HORIZON as u64;
        self.observe(obs);
        Outcome { reward, terminated, truncated }
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        Some(snapshot::seal(KIND, &self.state))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let state: State = snapshot::open(KIND, bytes)?;
        if state.items.len() > APPLES + BOMBS {
            let reason = format!("it has {} items, more than {}", state.items.len(), APPLES + BOMBS);
            return Err(RestoreError { task: KIND.to_owned(), reason });
        }
        self.state = state;
        Ok(())
    }

    fn draw(&self, scene: &mut Scene) {
        let State { robot, items, .. } = &self.state;
        scene.bounds = Rect::square(WALL + 1.0);
        let corners = [[-WALL, -WALL], [WALL, -WALL], [WALL, WALL], [-WALL, WALL]];
        for i in 0..4 {
            scene.line(Role::Wall, corners[i], corners[(i + 1) % 4]);
        }
        for Item { at, bomb } in items {
            scene.disc(if *bomb { Role::Bomb } else { Role::Apple }, *at, ITEM_RADIUS);
        }
        robot.show(scene);
    }

    fn labels(&self) -> Labels {
        let mut observation: Vec<Label> = each("position", &["x", "y"], "m")
            .chain(each("heading", &["angle"], "rad, not wrapped"))
            .chain(each("velocity", &["x", "y"], "m/s, constant"))
            .chain(each("velocity", &["turn"], "rad/s, constant"))
            .collect();
        match self.obs {
            GatherObs::Compact => observation.extend(each("mass_centre", &["x", "y", "z"], "m")),
            GatherObs::Full => {
                const INERTIA: [&str; 10] = ["xx", "yy", "zz", "xy", "xz", "yz", "mx", "my", "mz", "mass"];
                const MOTION: [&str; 6] = ["turn_x", "turn_y", "turn_z", "x", "y", "z"];
                let inertia = each("world_inertia", &INERTIA, "zero").chain(each("body_inertia", &INERTIA, "SI"));
                let motion = each("world_motion", &MOTION, "zero").chain(each("body_motion", &MOTION, "rad/s, m/s"));
                observation.extend(inertia.chain(motion));
                observation.extend(counted("unused", 28, "zero"));
            }
        }
        for name in ["apples", "bombs"] {
            observation.extend(counted(name, BINS, "1 at the robot to 0 at 6 m and beyond, right to left"));
        }
        Labels { observation, action: rllab_point::labels() }
    }
}

/// State: `robot` (x, y, heading, and the three velocities that were drawn), and the `apples` and `bombs` that are left.
/// Derived: the readings of each.
impl OpenEnv for PointGather {
    fn state(&self) -> Quantities {
        let State { robot, items, .. } = &self.state;
        let [apples, bombs] = [false, true].map(|bomb| {
            let places = items.iter().filter(|item| item.bomb == bomb).map(|item| item.at);
            places.flatten().collect::<Vec<f64>>()
        });
        quantities([("robot", &robot.numbers()), ("apples", &apples), ("bombs", &bombs)])
    }

    fn set_state(&mut self, state: Quantities) -> Result<(), StateError> {
        let mut reader = StateReader::new(state);
        let robot = RllabPoint::from_numbers(reader.numbers("robot")?);
        let apples = reader.points("apples", 0..=APPLES)?;
        let bombs = reader.points("bombs", 0..=BOMBS)?;
        reader.finish()?;
        let apples = apples.into_iter().map(|at| Item { at, bomb: false });
        let bombs = bombs.into_iter().map(|at| Item { at, bomb: true });
        self.state = State { robot, items: apples.chain(bombs).collect(), steps: 0 };
        Ok(())
    }

    fn derived(&self, _action: &[f32]) -> Quantities {
        let [apples, bombs] = readings(&self.state.robot, &self.state.items);
        quantities([("apple_readings", &apples), ("bomb_readings", &bombs)])
    }
}
