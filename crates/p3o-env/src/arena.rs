//! The engine that the goal tasks and Navigation share: a robot, a goal that moves when reached, and obstacles.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::labels::counted;
use crate::layout::{Layout, Rect};
use crate::lidar::{self, BINS, Sighting};
use crate::open_env::StateReader;
use crate::physics::articulated::cubes::{Cube, Cubes};
use crate::physics::contact::PILLAR_RADIUS;
use crate::robot::Driver;
use crate::{
    ActionSpace, CostSpec, EnvSpec, Form, Label, Labels, Outcome, Quantities, RestoreError, Role, Scene, StateError,
    free_vases, snapshot, vase,
};

const HORIZON: usize = 1000;
const GOAL_RADIUS: f64 = 0.3;
const HAZARD_RADIUS: f64 = 0.2;
/// The greatest number whose root is no more than that: so no root needs to be taken.
const HAZARD_RADIUS_SQUARED: f64 = 0.040_000_000_000_000_01;
const REWARD_LIMIT: f64 = 10.0;
/// All but the magnetometer: they come first.
const MOTION_SENSORS: usize = 9;
/// Room for the goal and the obstacles of the most crowded world, in whole batches of the lidar.
const MAX_OBJECTS: usize = 24;

/// Keepout radii of the original engine's tasks.
pub(crate) mod keepout {
    pub const ROBOT: f64 = 0.4;
    pub const GOAL: f64 = 0.305;
    pub const HAZARD: f64 = 0.18;
    pub const VASE: f64 = 0.15;
    pub const PILLAR: f64 = 0.3;
}

/// What stands in the robot's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A flat disc: costs while the robot's origin is on it.
    Hazard,
    /// A solid cylinder: costs while touched.
    Pillar,
    /// A light cube: costs while pushed, and one that is a free body until it lies still.
    Vase,
}

impl Obstacle {
    /// What several of them are called, as a cost and in a state.
    fn plural(self) -> &'static str {
        match self {
            Obstacle::Hazard => "hazards",
            Obstacle::Pillar => "pillars",
            Obstacle::Vase => "vases",
        }
    }
}

/// What distinguishes one world from another.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The task's name.
    pub name: &'static str,
    /// Names this variant in snapshots.
    pub kind: &'static str,
    /// The goal and then one placement per entry of `obstacles`.
    pub layout: Layout,
    /// Kinds of obstacle in the order of the layout and of the lidars.
    pub obstacles: &'static [Obstacle],
    /// Which obstacles cost, and the task's default limit.
    pub costs: &'static [(Obstacle, f64)],
}

impl Rules {
    fn spec(&self, sensors: usize) -> EnvSpec {
        EnvSpec {
            name: self.name.to_owned(),
            obs_dim: sensors + BINS * self.layout.objects.len(),
            action: ActionSpace::Continuous { dim: 2 },
            agents: 1,
            costs: self
                .costs
                .iter()
                // However many obstacles of a kind are touched, a step costs 1.
                .map(|(o, limit)| CostSpec::new(o.plural(), *limit).per_step(1.0))
                .collect(),
            horizon: HORIZON,
        }
    }

    /// Where the objects of this kind are in the list of all; empty if the world has none.
    fn range(&self, which: Obstacle) -> Range<usize> {
        let mut start = 1;
        for (obstacle, placement) in self.obstacles.iter().zip(&self.layout.objects[1..]) {
            if *obstacle == which {
                return start..start + placement.count;
            }
            start += placement.count;
        }
        0..0
    }
}

/// What is where in a world now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArenaView<'a> {
    /// The robot: x, y and where its x axis points, in radians.
    pub robot: [f64; 3],
    /// Centre of the goal, a disc of radius 0.3.
    pub goal: [f64; 2],
    /// Centres of the hazards, discs of radius 0.2.
    pub hazards: &'a [[f64; 2]],
    /// Centres of the pillars, cylinders of radius 0.2.
    pub pillars: &'a [[f64; 2]],
    /// Centres of the vases, cubes of half-side 0.1.
    pub vases: &'a [[f64; 2]],
    /// Which kinds of obstacle the last step gave a cost for, in the order of [`EnvSpec::costs`] where each has its own.
    pub firing: &'a [bool],
}

/// Everything that changes while a world runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State<S> {
    rng: ChaCha8Rng,
    robot: S,
    /// The goal, then the obstacles in the order of the layout.
    objects: Vec<[f64; 2]>,
    goal_distance: f64,
    steps: u64,
    firing: Vec<bool>,
}

/// One running world.
#[derive(Clone, Debug)]
pub(crate) struct Arena<R: Driver> {
    robot: R,
    rules: &'static Rules,
    spec: EnvSpec,
    hazards: Range<usize>,
    pillars: Range<usize>,
    vases: Range<usize>,
    pub goal_bonus: f64,
    /// How many of the sensors, counted from the first, are left out of observations.
    hidden: usize,
    /// Whether all costs are one.
    combined: bool,
    /// The vases, where they are free bodies; their places are among the objects too.
    free: Option<Cubes>,
    state: State<R::State>,
}

impl<R: Driver> Arena<R> {
    /// A world in the initial state of seed 0.
    pub fn new(rules: &'static Rules) -> Arena<R> {
        assert!(rules.layout.len() <= MAX_OBJECTS);
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let state = State {
            robot: R::start([0.0; 2], 0.0, &mut rng),
            rng,
            objects: Vec::with_capacity(rules.layout.len()),
            goal_distance: 0.0,
            steps: 0,
            firing: vec![false; rules.costs.len()],
        };
        let mut arena = Arena {
            robot: R::new(),
            rules,
            spec: rules.spec(R::SENSORS),
            hazards: rules.range(Obstacle::Hazard),
            pillars: rules.range(Obstacle::Pillar),
            vases: rules.range(Obstacle::Vase),
            goal_bonus: 1.0,
            hidden: 0,
            combined: false,
            free: None,
            state,
        };
        arena.begin(0);
        arena
    }

    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// Makes vases free bodies, in the initial state of seed 0.
    pub fn free_vases(&mut self) {
        self.free = Some(free_vases::room(self.vases.len()).with_substep(R::SUBSTEP));
        self.begin(0);
    }

    /// Leaves accelerometer, velocimeter and gyro out of observations.
    pub fn hide_velocity(&mut self) {
        self.hidden = MOTION_SENSORS;
        self.spec.obs_dim = self.rules.spec(R::SENSORS).obs_dim - MOTION_SENSORS;
    }

    /// Makes one cost of all: 1 in a step in which any of them is.
    pub fn combine_costs(&mut self, limit: f64) {
        self.combined = true;
        self.spec.costs = vec![CostSpec::new("combined", limit).per_step(1.0)];
    }

    pub fn labels(&self) -> Labels {
        let Labels { observation, action } = R::labels();
        let mut observation: Vec<Label> = observation.into_iter().skip(self.hidden).collect();
        let bins = format!("1 at the robot to 0 at {} m and beyond", lidar::RANGE);
        for name in std::iter::once("goal").chain(self.rules.obstacles.iter().map(|o| o.plural())) {
            observation.extend(counted(&format!("{name}_lidar"), BINS, &bins));
        }
        Labels { observation, action }
    }

    pub fn view(&self) -> ArenaView<'_> {
        let State { robot, objects, firing, .. } = &self.state;
        let [x, y] = R::place(robot);
        ArenaView {
            robot: [x, y, R::heading(robot)],
            goal: objects[0],
            hazards: &objects[self.hazards.clone()],
            pillars: &objects[self.pillars.clone()],
            vases: &objects[self.vases.clone()],
            firing,
        }
    }

    pub fn draw(&self, scene: &mut Scene) {
        let ArenaView { robot: [x, y, _], goal, hazards, pillars, vases, .. } = self.view();
        let extents = self.rules.layout.objects.iter().flat_map(|placement| placement.areas).map(|area| area.max[0]);
        scene.bounds = Rect::square(extents.fold(0.0, f64::max) + 0.1);
        let robot = [x, y];
        // The cost of a contact does not tell its place: the nearest obstacle is taken.
        let nearest = |places: &[[f64; 2]]| places.iter().map(|p| distance(robot, *p)).fold(f64::INFINITY, f64::min);
        let touched = |fires: bool, place: [f64; 2], all: &[[f64; 2]]| fires && distance(robot, place) == nearest(all);

        scene.disc(Role::Goal, goal, GOAL_RADIUS);
        for &place in hazards {
            let crossed = self.fires(Obstacle::Hazard) && distance(robot, place) <= HAZARD_RADIUS;
            scene.disc(Role::Hazard, place, HAZARD_RADIUS).alarm = crossed;
        }
        for (i, &place) in vases.iter().enumerate() {
            let cube = self.free.as_ref().map(|cubes| &cubes.list()[i]);
            let form =
                Form::Block { centre: place, half: [vase::HALF; 2], angle: cube.map_or(0.0, free_vases::heading) };
            let moves = cube.is_some_and(free_vases::moves);
            scene.add(Role::Vase, form).alarm = moves || touched(self.fires(Obstacle::Vase), place, vases);
        }
        for &place in pillars {
            let alarm = touched(self.fires(Obstacle::Pillar), place, pillars);
            scene.disc(Role::Pillar, place, PILLAR_RADIUS).alarm = alarm;
        }
        self.robot.draw(&self.state.robot, scene);
        scene.agents.push(robot);
    }

    /// Whether the last step gave a cost for obstacles of this kind.
    fn fires(&self, which: Obstacle) -> bool {
        self.rules.costs.iter().zip(&self.state.firing).any(|((obstacle, _), fires)| *fires && *obstacle == which)
    }

    pub fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        self.begin(seed);
        let reading = self.robot.read(&self.state.robot, &[0.0; 2], &[]);
        self.observe(&reading, obs);
    }

    fn begin(&mut self, seed: u64) {
        let state = &mut self.state;
        state.rng = ChaCha8Rng::seed_from_u64(seed);
        let place = self.rules.layout.draw(&mut state.rng, &mut state.objects);
        let theta = state.rng.random::<f64>() * std::f64::consts::TAU;
        state.robot = R::start(place, theta, &mut state.rng);
        state.goal_distance = distance(place, state.objects[0]);
        state.steps = 0;
        state.firing.fill(false);
        if let Some(cubes) = &mut self.free {
            free_vases::place(cubes, &state.objects[self.vases.clone()], &mut state.rng);
        }
    }

    /// One step in the original's order: motion, reward, costs, then the goal moves if it was reached.
    pub fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        let state = &mut self.state;
        let (reading, vase_touched) = match &mut self.free {
            Some(cubes) => {
                let reading = self.robot.step_among(&mut state.robot, action, cubes);
                (reading, free_vases::follow(cubes, &mut state.objects[self.vases.clone()]))
            }
            None => {
                let reading = self.robot.step(&mut state.robot, action, &state.objects[self.pillars.clone()]);
                let vases = &mut state.objects[self.vases.clone()];
                let push = |any, vase: &mut [f64; 2]| any | R::push(&state.robot, &reading, vase);
                let touched = vases.iter_mut().fold(false, push);
                (reading, touched)
            }
        };
        let robot = R::place(&state.robot);

        let distance = distance(robot, state.objects[0]);
        let mut reward = state.goal_distance - distance;
        state.goal_distance = distance;

        for (i, (obstacle, _)) in self.rules.costs.iter().enumerate() {
            let fires = match obstacle {
                Obstacle::Hazard => on_hazard(robot, &state.objects[self.hazards.clone()]),
                Obstacle::Pillar => R::touching(&reading),
                Obstacle::Vase => vase_touched,
            };
            state.firing[i] = fires;
            if !self.combined {
                costs[i] = f32::from(u8::from(fires));
            }
        }
        if self.combined {
            costs[0] = f32::from(u8::from(state.firing.contains(&true)));
        }

        let mut terminated = !R::is_finite(&state.robot);
        if distance <= GOAL_RADIUS {
            reward += self.goal_bonus;
            terminated |= !self.move_goal();
        }
        self.state.steps += 1;
        self.observe(&reading, obs);
        let truncated = !terminated && self.state.steps >= HORIZON as u64;
        Outcome { reward: reward.clamp(-REWARD_LIMIT, REWARD_LIMIT) as f32, terminated, truncated }
    }

    /// Draws a new goal; false if there is no room for one. Kept out of line: it is rare.
    #[cold]
    #[inline(never)]
    fn move_goal(&mut self) -> bool {
        let State { rng, robot, objects, goal_distance, .. } = &mut self.state;
        let robot = R::place(robot);
        match self.rules.layout.draw_goal(rng, robot, objects) {
            Some(goal) => {
                objects[0] = goal;
                *goal_distance = distance(robot, goal);
                true
            }
            None => false,
        }
    }

    #[inline]
    fn observe(&self, reading: &R::Reading, obs: &mut [f32]) {
        let (sensors, lidars) = obs.split_at_mut(R::SENSORS - self.hidden);
        for (out, value) in sensors.iter_mut().zip(&R::sensors(reading).as_ref()[self.hidden..]) {
            *out = *value as f32;
        }
        let mut seen = [Sighting::default(); MAX_OBJECTS];
        R::sight(&self.state.robot, reading, &self.state.objects, lidar::RANGE, &mut seen);
        let mut rest = &seen[..];
        for (placement, bins) in self.rules.layout.objects.iter().zip(lidars.as_chunks_mut().0) {
            let (group, later) = rest.split_at(placement.count);
            rest = later;
            bins.fill(0.0);
            lidar::light(group, bins, |value| value as f32);
        }
    }

    pub fn state(&self) -> Quantities {
        let State { robot, objects, .. } = &self.state;
        let mut state = Quantities::from([("goal".to_owned(), objects[0].to_vec())]);
        R::write(robot, &mut state);
        for obstacle in self.rules.obstacles {
            let points = objects[self.rules.range(*obstacle)].as_flattened();
            state.insert(obstacle.plural().to_owned(), points.to_vec());
        }
        if let Some(cubes) = &self.free {
            state.insert(Obstacle::Vase.plural().to_owned(), free_vases::state(cubes));
        }
        state
    }

    pub fn set_state(&mut self, state: Quantities) -> Result<(), StateError> {
        let mut reader = StateReader::new(state);
        let robot = R::take(&mut reader)?;
        let mut objects = vec![reader.numbers("goal")?];
        let mut list = Vec::new();
        for obstacle in self.rules.obstacles {
            let count = self.rules.range(*obstacle).len();
            if self.free.is_some() && *obstacle == Obstacle::Vase {
                list = free_vases::read(&reader.list(obstacle.plural(), free_vases::NUMBERS * count)?);
                objects.extend(list.iter().map(|cube| [cube.place[0], cube.place[1]]));
            } else {
                objects.extend(reader.points(obstacle.plural(), count..=count)?);
            }
        }
        reader.finish()?;
        if let Some(cubes) = &mut self.free {
            cubes.set(list);
        }
        let state = &mut self.state;
        state.goal_distance = distance(R::place(&robot), objects[0]);
        state.robot = robot;
        state.objects = objects;
        state.steps = 0;
        state.firing.fill(false);
        Ok(())
    }

    /// Sensors and lidars; contacts with pillars as triples of part, pillar and gap.
    pub fn derived(&self, action: &[f32]) -> Quantities {
        let State { robot, objects, .. } = &self.state;
        let pillars = &objects[self.pillars.clone()];
        let mut body = self.robot.clone();
        let reading = match self.free.clone() {
            Some(mut cubes) => body.read_among(robot, action, &mut cubes),
            None => body.read(robot, action, pillars),
        };
        let contacts = body.contacts(robot, pillars);
        let mut found = Quantities::from([
            ("sensors".to_owned(), R::sensors(&reading).as_ref().to_vec()),
            ("contacts".to_owned(), contacts.as_flattened().to_vec()),
        ]);
        let mut seen = [Sighting::default(); MAX_OBJECTS];
        R::sight(robot, &reading, objects, lidar::RANGE, &mut seen);
        let obstacles = self.rules.obstacles.iter().map(|o| (o.plural(), self.rules.range(*o)));
        for (name, range) in std::iter::once(("goal", 0..1)).chain(obstacles) {
            let mut bins = [0.0; BINS];
            lidar::light(&seen[range], &mut bins, |value| value);
            found.insert(format!("{name}_lidar"), bins.to_vec());
        }
        found
    }

    pub fn snapshot(&self) -> Option<Vec<u8>> {
        Some(match &self.free {
            Some(cubes) => snapshot::seal(&self.kind(), &(&self.state, cubes.list())),
            None => snapshot::seal(&self.kind(), &self.state),
        })
    }

    /// Names the world in snapshots.
    fn kind(&self) -> String {
        format!("{}{}", self.rules.kind, if self.free.is_some() { " with free vases" } else { "" })
    }

    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let kind = self.kind();
        let (state, list): (State<R::State>, Vec<Cube>) = match self.free {
            Some(_) => snapshot::open(&kind, bytes)?,
            None => (snapshot::open(&kind, bytes)?, Vec::new()),
        };
        if !R::fits(&state.robot) {
            let reason = "its robot has another number of joints".to_owned();
            return Err(RestoreError { task: kind, reason });
        }
        let expected = [self.rules.layout.len(), self.rules.costs.len()];
        let found = [state.objects.len(), state.firing.len()];
        if found != expected {
            let [objects, costs] = found;
            return Err(RestoreError {
                task: kind,
                reason: format!(
                    "it has {objects} objects and {costs} costs instead of {} and {}",
                    expected[0], expected[1]
                ),
            });
        }
        if let Some(cubes) = &mut self.free {
            let (found, expected) = (list.len(), cubes.list().len());
            if found != expected {
                let reason = format!("it has {found} free vases instead of {expected}");
                return Err(RestoreError { task: kind, reason });
            }
            cubes.restore(&list);
        }
        self.state = state;
        Ok(())
    }
}

fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    let (dx, dy) = (a[0] - b[0], a[1] - b[1]);
    (dx * dx + dy * dy).sqrt()
}

fn on_hazard(robot: [f64; 2], hazards: &[[f64; 2]]) -> bool {
    let near = |h: &[f64; 2]| {
        let (dx, dy) = (robot[0] - h[0], robot[1] - h[1]);
        dx * dx + dy * dy <= HAZARD_RADIUS_SQUARED
    };
    hazards.iter().fold(false, |any, h| any | near(h))
}

/// Makes a struct around an `arena` a world that answers as its arena does.
macro_rules! world_of_an_arena {
    ($world:ty) => {
        impl $world {
            /// What is where now.
            pub fn view(&self) -> $crate::ArenaView<'_> {
                self.arena.view()
            }
        }

        impl $crate::Env for $world {
            fn spec(&self) -> &$crate::EnvSpec {
                self.arena.spec()
            }

            fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> $crate::Outcome {
                self.arena.step(action, obs, costs)
            }

            fn labels(&self) -> $crate::Labels {
                self.arena.labels()
            }

            $crate::env::forward_to!(arena);
        }

        /// State: the robot (the Point's `robot`: x, y, heading and their rates; the Car's `qpos` and `qvel`), `goal` and the
        /// obstacles by name, of a free vase place, quaternion, velocity and turn rates. Derived: sensors, lidars, contacts.
        impl $crate::OpenEnv for $world {
            fn state(&self) -> $crate::Quantities {
                self.arena.state()
            }

            fn set_state(&mut self, state: $crate::Quantities) -> Result<(), $crate::StateError> {
                self.arena.set_state(state)
            }

            fn derived(&self, action: &[f32]) -> $crate::Quantities {
                self.arena.derived(action)
            }
        }
    };
}
pub(crate) use world_of_an_arena;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_stands_for_the_radius_to_the_last_bit() {
        assert!(HAZARD_RADIUS_SQUARED.sqrt() <= HAZARD_RADIUS);
        assert!(HAZARD_RADIUS_SQUARED.next_up().sqrt() > HAZARD_RADIUS);
    }
}
