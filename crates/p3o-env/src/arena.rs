//! The engine that the goal tasks, the button tasks and Navigation share: a robot, a goal that moves when reached, and obstacles.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::buttons::{self, Buttons};
use crate::labels::counted;
use crate::layout::{Layout, Rect};
use crate::lidar::{self, BINS, Sighting};
use crate::open_env::StateReader;
use crate::physics::articulated::cubes::{BALL, Cube, Cubes};
use crate::physics::articulated::tether::Tether;
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
    pub const BUTTON: f64 = 0.2;
    /// Where buttons are drawn, a goal has a place too, at first; then it is one of the buttons.
    pub const MARK: f64 = 0.4;
    pub const GREMLIN: f64 = 0.4;
}

/// What there is besides the robot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    /// Where the robot is to go.
    Goal,
    /// A flat disc: costs while the robot's origin is on it.
    Hazard,
    /// A solid cylinder: costs while touched.
    Pillar,
    /// A light cube: costs while pushed, and one that is a free body until it lies still.
    Vase,
    /// A solid ball: costs while touched, unless it is the goal.
    Button,
    /// A light cube that circles around a place: costs while touched.
    Gremlin,
}

impl Thing {
    /// What several of them are called, as a cost and in a state.
    fn plural(self) -> &'static str {
        match self {
            Thing::Goal => "goal",
            Thing::Hazard => "hazards",
            Thing::Pillar => "pillars",
            Thing::Vase => "vases",
            Thing::Button => "buttons",
            Thing::Gremlin => "gremlins",
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
    /// One placement per entry of `things`.
    pub layout: Layout,
    /// What there is, in the order of the layout and of the lidars. The goal comes first unless there are buttons.
    pub things: &'static [Thing],
    /// What costs, and the task's default limit.
    pub costs: &'static [(Thing, f64)],
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
    fn range(&self, which: Thing) -> Range<usize> {
        let mut start = 0;
        for (thing, placement) in self.things.iter().zip(self.layout.objects) {
            if *thing == which {
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
    /// Centre of the goal, a disc of radius 0.3 or one of the buttons.
    pub goal: [f64; 2],
    /// Centres of the hazards, discs of radius 0.2.
    pub hazards: &'a [[f64; 2]],
    /// Centres of the pillars, cylinders of radius 0.2.
    pub pillars: &'a [[f64; 2]],
    /// Centres of the vases, cubes of half-side 0.1.
    pub vases: &'a [[f64; 2]],
    /// Centres of the buttons, balls of radius 0.1.
    pub buttons: &'a [[f64; 2]],
    /// Centres of the gremlins, cubes of half-side 0.1.
    pub gremlins: &'a [[f64; 2]],
    /// Which kinds of obstacle the last step gave a cost for, in the order of [`EnvSpec::costs`] where each has its own.
    pub firing: &'a [bool],
}

/// Everything that changes while a world runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State<S> {
    rng: ChaCha8Rng,
    robot: S,
    /// In the order of the layout.
    objects: Vec<[f64; 2]>,
    goal_distance: f64,
    steps: u64,
    firing: Vec<bool>,
}

/// Objects, cubes and buttons that were read from a state.
type Taken = (Vec<[f64; 2]>, Option<Cubes>, Option<Buttons>);

/// One running world.
#[derive(Clone, Debug)]
pub(crate) struct Arena<R: Driver> {
    robot: R,
    rules: &'static Rules,
    spec: EnvSpec,
    /// Where the goal is in the list of objects.
    goal: usize,
    hazards: Range<usize>,
    pillars: Range<usize>,
    vases: Range<usize>,
    buttons: Range<usize>,
    gremlins: Range<usize>,
    pub goal_bonus: f64,
    /// How many of the sensors, counted from the first, are left out of observations.
    hidden: usize,
    /// Whether all costs are one.
    combined: bool,
    /// Vases, where they are free bodies, or gremlins, and the buttons among them; their places are among the objects too.
    free: Option<Cubes>,
    /// Where the goal is one of several buttons.
    pressing: Option<Buttons>,
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
            goal: rules.range(Thing::Goal).start,
            hazards: rules.range(Thing::Hazard),
            pillars: rules.range(Thing::Pillar),
            vases: rules.range(Thing::Vase),
            buttons: rules.range(Thing::Button),
            gremlins: rules.range(Thing::Gremlin),
            goal_bonus: 1.0,
            hidden: 0,
            combined: false,
            free: None,
            pressing: (!rules.range(Thing::Button).is_empty()).then(Buttons::default),
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

    /// A world of buttons, in the initial state of seed 0.
    pub fn among_buttons(rules: &'static Rules) -> Arena<R> {
        let mut arena = Arena::new(rules);
        arena.free = Some(Cubes::held(Tether::new(Vec::new()), &[], R::SUBSTEP));
        arena.begin(0);
        arena
    }

    /// Leaves accelerometer, velocimeter and gyro out of observations.
    pub fn hide_velocity(&mut self) {
        self.hidden = MOTION_SENSORS;
        self.spec.obs_dim = self.rules.spec(R::SENSORS).obs_dim - MOTION_SENSORS;
    }

    /// Makes one cost of all, if there are any: 1 in a step in which any of them is.
    pub fn combine_costs(&mut self, limit: f64) {
        if self.rules.costs.is_empty() {
            return;
        }
        self.combined = true;
        self.spec.costs = vec![CostSpec::new("combined", limit).per_step(1.0)];
    }

    pub fn labels(&self) -> Labels {
        let Labels { observation, action } = R::labels();
        let mut observation: Vec<Label> = observation.into_iter().skip(self.hidden).collect();
        let bins = format!("1 at the robot to 0 at {} m and beyond", lidar::RANGE);
        for thing in self.rules.things {
            observation.extend(counted(&format!("{}_lidar", thing.plural()), BINS, &bins));
        }
        Labels { observation, action }
    }

    pub fn view(&self) -> ArenaView<'_> {
        let State { robot, objects, firing, .. } = &self.state;
        let [x, y] = R::place(robot);
        ArenaView {
            robot: [x, y, R::heading(robot)],
            goal: objects[self.goal],
            hazards: &objects[self.hazards.clone()],
            pillars: &objects[self.pillars.clone()],
            vases: &objects[self.vases.clone()],
            buttons: &objects[self.buttons.clone()],
            gremlins: &objects[self.gremlins.clone()],
            firing,
        }
    }

    pub fn draw(&self, scene: &mut Scene) {
        let ArenaView { robot: [x, y, _], goal, hazards, pillars, vases, buttons, gremlins, .. } = self.view();
        let extents = self.rules.layout.objects.iter().flat_map(|placement| placement.areas).map(|area| area.max[0]);
        scene.bounds = Rect::square(extents.fold(0.0, f64::max) + 0.1);
        let robot = [x, y];
        // The cost of a contact does not tell its place: the nearest obstacle is taken.
        let nearest = |places: &[[f64; 2]]| places.iter().map(|p| distance(robot, *p)).fold(f64::INFINITY, f64::min);
        let touched = |fires: bool, place: [f64; 2], all: &[[f64; 2]]| fires && distance(robot, place) == nearest(all);

        scene.disc(Role::Goal, goal, if self.pressing.is_some() { buttons::MARK } else { GOAL_RADIUS });
        for &place in hazards {
            let crossed = self.fires(Thing::Hazard) && distance(robot, place) <= HAZARD_RADIUS;
            scene.disc(Role::Hazard, place, HAZARD_RADIUS).alarm = crossed;
        }
        let cube = |i: usize| self.free.as_ref().map(|cubes| &cubes.list()[i]);
        let block = |centre: [f64; 2], cube: Option<&Cube>| Form::Block {
            centre,
            half: [vase::HALF; 2],
            angle: cube.map_or(0.0, free_vases::heading),
        };
        for (i, &place) in vases.iter().enumerate() {
            let moves = cube(i).is_some_and(free_vases::moves);
            scene.add(Role::Vase, block(place, cube(i))).alarm =
                moves || touched(self.fires(Thing::Vase), place, vases);
        }
        for &place in buttons {
            // The goal itself never costs.
            let wrong = |place: &&[f64; 2]| **place != goal;
            let near = buttons.iter().filter(wrong).map(|p| distance(robot, *p)).fold(f64::INFINITY, f64::min);
            let alarm = self.fires(Thing::Button) && wrong(&&place) && distance(robot, place) == near;
            scene.disc(Role::Button, place, BALL).alarm = alarm;
        }
        for (i, &place) in gremlins.iter().enumerate() {
            let alarm = touched(self.fires(Thing::Gremlin), place, gremlins);
            scene.add(Role::Gremlin, block(place, cube(i))).alarm = alarm;
        }
        for &place in pillars {
            let alarm = touched(self.fires(Thing::Pillar), place, pillars);
            scene.disc(Role::Pillar, place, PILLAR_RADIUS).alarm = alarm;
        }
        self.robot.draw(&self.state.robot, scene);
        scene.agents.push(robot);
    }

    /// Whether the last step gave a cost for obstacles of this kind.
    fn fires(&self, which: Thing) -> bool {
        self.rules.costs.iter().zip(&self.state.firing).any(|((thing, _), fires)| *fires && *thing == which)
    }

    pub fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        self.begin(seed);
        let reading = self.robot.read(&self.state.robot, &[0.0; 2], &[]);
        self.observe(&reading, obs);
    }

    fn begin(&mut self, seed: u64) {
        let state = &mut self.state;
        state.rng = ChaCha8Rng::seed_from_u64(seed);
        let layout = &self.rules.layout;
        let place = match &mut self.pressing {
            Some(pressing) => {
                let place = layout.draw_once(&mut state.rng, &mut state.objects);
                *pressing = Buttons::draw(self.buttons.len(), &mut state.rng);
                state.objects[self.goal] = state.objects[self.buttons.start + pressing.goal as usize];
                place
            }
            None => layout.draw(&mut state.rng, &mut state.objects),
        };
        let theta = state.rng.random::<f64>() * std::f64::consts::TAU;
        state.robot = R::start(place, theta, &mut state.rng);
        state.goal_distance = distance(place, state.objects[self.goal]);
        state.steps = 0;
        state.firing.fill(false);
        let State { objects, rng, .. } = state;
        match (&mut self.free, self.pressing) {
            (None, _) => {}
            (Some(cubes), None) => free_vases::place(cubes, &objects[self.vases.clone()], rng),
            (Some(cubes), Some(_)) => {
                let [gremlins, buttons] = [&self.gremlins, &self.buttons].map(|range| &objects[range.clone()]);
                *cubes = buttons::gremlins(gremlins, buttons, cubes.substep(), rng);
            }
        }
    }

    /// One step in the original's order: motion, reward, costs, then the goal moves if it was reached.
    pub fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        let state = &mut self.state;
        let mut pressed = 0;
        let (reading, touched) = match &mut self.free {
            Some(cubes) => {
                let reading = self.robot.step_among(&mut state.robot, action, cubes);
                pressed = cubes.pressed();
                // Vases cost while they move, too; gremlins always move.
                let range = if self.pressing.is_some() { &self.gremlins } else { &self.vases };
                let moved = free_vases::follow(cubes, &mut state.objects[range.clone()]);
                (reading, if self.pressing.is_some() { cubes.touching() > 0 } else { moved })
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

        let distance = distance(robot, state.objects[self.goal]);
        let mut reward = state.goal_distance - distance;
        state.goal_distance = distance;

        for (i, (thing, _)) in self.rules.costs.iter().enumerate() {
            let fires = match thing {
                Thing::Goal => false,
                Thing::Hazard => on_hazard(robot, &state.objects[self.hazards.clone()]),
                Thing::Pillar => R::touching(&reading),
                Thing::Vase | Thing::Gremlin => touched,
                Thing::Button => self.pressing.is_some_and(|pressing| pressing.cost(pressed)),
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
        let reached = match &mut self.pressing {
            Some(pressing) => {
                pressing.tick();
                pressing.is_reached(pressed)
            }
            None => distance <= GOAL_RADIUS,
        };
        if reached {
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
        let place = match &mut self.pressing {
            Some(pressing) => {
                *pressing = Buttons::next(self.buttons.len(), rng);
                Some(objects[self.buttons.start + pressing.goal as usize])
            }
            None => self.rules.layout.draw_goal(rng, robot, objects),
        };
        match place {
            Some(goal) => {
                objects[self.goal] = goal;
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
        self.darken(&mut seen);
        let mut rest = &seen[..];
        for (placement, bins) in self.rules.layout.objects.iter().zip(lidars.as_chunks_mut().0) {
            let (group, later) = rest.split_at(placement.count);
            rest = later;
            bins.fill(0.0);
            lidar::light(group, bins, |value| value as f32);
        }
    }

    /// Buttons that are out of order are not seen.
    #[inline]
    fn darken(&self, seen: &mut [Sighting]) {
        if self.pressing.is_some_and(|pressing| !pressing.are_on()) {
            seen[self.buttons.clone()].fill(Sighting::default());
        }
    }

    pub fn state(&self) -> Quantities {
        let State { robot, objects, .. } = &self.state;
        let mut state = Quantities::new();
        R::write(robot, &mut state);
        for thing in self.rules.things {
            let points = objects[self.rules.range(*thing)].as_flattened();
            state.insert(thing.plural().to_owned(), points.to_vec());
        }
        let Some(cubes) = &self.free else { return state };
        match (self.pressing, cubes.tether()) {
            (Some(Buttons { goal, timer }), Some(tether)) => {
                state.insert("gremlins".to_owned(), free_vases::state(cubes));
                state.insert("homes".to_owned(), buttons::write_homes(tether.homes()));
                state.insert("time".to_owned(), vec![tether.time()]);
                state.insert("goal".to_owned(), vec![goal.into()]);
                state.insert("timer".to_owned(), vec![timer.into()]);
            }
            _ => {
                state.insert("vases".to_owned(), free_vases::state(cubes));
            }
        }
        state
    }

    pub fn set_state(&mut self, state: Quantities) -> Result<(), StateError> {
        let mut reader = StateReader::new(state);
        let robot = R::take(&mut reader)?;
        let (objects, cubes) = self.take_objects(&mut reader)?;
        let (objects, cubes, pressing) = match self.pressing {
            Some(_) => self.take_pressing(&mut reader, objects, cubes)?,
            None => (objects, cubes, None),
        };
        reader.finish()?;
        self.pressing = pressing;
        self.free = cubes;
        let state = &mut self.state;
        state.goal_distance = distance(R::place(&robot), objects[self.goal]);
        state.robot = robot;
        state.objects = objects;
        state.steps = 0;
        state.firing.fill(false);
        Ok(())
    }

    /// Where everything is; of a goal that is a button, not yet.
    fn take_objects(&self, reader: &mut StateReader) -> Result<(Vec<[f64; 2]>, Option<Cubes>), StateError> {
        let mut cubes = self.free.clone();
        let mut objects = Vec::new();
        for thing in self.rules.things {
            let count = self.rules.range(*thing).len();
            match (&mut cubes, thing) {
                (Some(cubes), Thing::Vase | Thing::Gremlin) => {
                    cubes.set(free_vases::read(&reader.list(thing.plural(), free_vases::NUMBERS * count)?));
                    objects.extend(cubes.list().iter().map(|cube| [cube.place[0], cube.place[1]]));
                }
                (Some(_), Thing::Goal) if self.pressing.is_some() => objects.push([0.0; 2]),
                _ => objects.extend(reader.points(thing.plural(), count..=count)?),
            }
        }
        Ok((objects, cubes))
    }

    /// What else a state says of buttons and gremlins.
    fn take_pressing(
        &self,
        reader: &mut StateReader,
        mut objects: Vec<[f64; 2]>,
        cubes: Option<Cubes>,
    ) -> Result<Taken, StateError> {
        let (homes, [time]) = (reader.list("homes", buttons::HOME * self.gremlins.len())?, reader.numbers("time")?);
        let [goal, timer] =
            [reader.whole("goal", self.buttons.len() as u32 - 1)?, reader.whole("timer", buttons::DELAY)?];
        objects[self.goal] = objects[self.buttons.start + goal as usize];
        let cubes = cubes.map(|cubes| {
            let tether = Tether::at(buttons::read_homes(&homes), time, cubes.substep());
            cubes.rehung(tether, &objects[self.buttons.clone()])
        });
        Ok((objects, cubes, Some(Buttons { goal, timer })))
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
        self.darken(&mut seen);
        for thing in self.rules.things {
            let mut bins = [0.0; BINS];
            lidar::light(&seen[self.rules.range(*thing)], &mut bins, |value| value);
            found.insert(format!("{}_lidar", thing.plural()), bins.to_vec());
        }
        found
    }

    pub fn snapshot(&self) -> Option<Vec<u8>> {
        let (kind, state) = (self.kind(), &self.state);
        Some(match (&self.free, self.pressing) {
            (Some(cubes), Some(pressing)) => snapshot::seal(&kind, &(state, cubes.list(), pressing, cubes.tether())),
            (Some(cubes), None) => snapshot::seal(&kind, &(state, cubes.list())),
            (None, _) => snapshot::seal(&kind, state),
        })
    }

    /// Names the world in snapshots.
    fn kind(&self) -> String {
        let vases_are_free = self.free.is_some() && self.pressing.is_none();
        format!("{}{}", self.rules.kind, if vases_are_free { " with free vases" } else { "" })
    }

    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let kind = self.kind();
        let (state, list, pressing, tether): (State<R::State>, Vec<Cube>, _, _) = match (&self.free, self.pressing) {
            (Some(_), Some(_)) => {
                let (state, list, pressing, tether): (_, _, Buttons, Option<Tether>) = snapshot::open(&kind, bytes)?;
                (state, list, Some(pressing), tether)
            }
            (Some(_), None) => {
                let (state, list) = snapshot::open(&kind, bytes)?;
                (state, list, None, None)
            }
            (None, _) => (snapshot::open(&kind, bytes)?, Vec::new(), None, None),
        };
        let fail = |reason: String| Err(RestoreError { task: kind.clone(), reason });
        if !R::fits(&state.robot) {
            return fail("its robot has another number of joints".to_owned());
        }
        let expected = [self.rules.layout.len(), self.rules.costs.len()];
        let [objects, costs] = [state.objects.len(), state.firing.len()];
        if [objects, costs] != expected {
            let [all, all_costs] = expected;
            return fail(format!("it has {objects} objects and {costs} costs instead of {all} and {all_costs}"));
        }
        if let Some(cubes) = &mut self.free {
            let (found, expected) = (list.len(), cubes.list().len());
            let homes = tether.as_ref().map_or(expected, |tether| tether.homes().len());
            let goal = pressing.map_or(0, |pressing| pressing.goal as usize);
            if found != expected || homes != expected || goal >= self.buttons.len().max(1) {
                return fail(format!(
                    "it has {found} free bodies instead of {expected}, {homes} homes and goal {goal}"
                ));
            }
            cubes.restore(&list);
            if let Some(tether) = tether {
                *cubes = std::mem::take(cubes).rehung(tether, &state.objects[self.buttons.clone()]);
            }
        }
        (self.state, self.pressing) = (state, pressing);
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
        /// obstacles by name, of a free vase or a gremlin place, quaternion, velocity and turn rates. Where there are buttons, `goal` is the
        /// number of one, `timer` for how many steps they are out of order, `homes` where gremlins circle (x, y, heading) and `time` how
        /// long they have. Derived: sensors, lidars, contacts with pillars.
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
