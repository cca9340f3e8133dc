//! Light cubes that lie on the ground, and a robot that pushes them.
//!
//! A cube is a free body: it is pushed, turns, tips over and slides on, as MuJoCo 2.3.3 moves Safety-Gymnasium's vases. The robot and all
//! cubes that touch each other are solved together, by the same search as the bodies of this folder; a cube that only
//! lies on the ground is a problem of its own. What would be one large problem in MuJoCo falls apart into these without any change of its
//! solution.
//!
//! A cube at rest is left alone: it costs nothing and keeps its place to the last bit until something touches it. Left to itself in MuJoCo,
//! its velocity falls by half every 10 ms towards a place 43.6 um deep in the ground; here it is at rest from [`REST`] on.
//!
//! Cubes may be held by a [`Tether`], as gremlins are, and balls may stand among them, as buttons do; then none is ever at rest.
//!
//! `tests/cubes.rs` compares recorded substeps and steps.

#![expect(clippy::needless_range_loop, reason = "several arrays share each index, as in the formulas")]

use serde::{Deserialize, Serialize};

use super::collide::{Solid, Touch, tangents, touches};
use super::constraints::Block;
use super::model::{Shape, Soft};
use super::newton::Problem;
use super::tether::{Home, Tether};
use super::tree::Tree;
use crate::physics::space::{IDENTITY, Mat3, Vec3, add, column, cross, dot, matrix, normalized, scale, sub, turned};

/// Half the side of a cube.
pub const HALF: f64 = 0.1;
/// In kg: a density of 0.001.
pub(super) const MASS: f64 = 8.000000000000001e-6;
/// About any axis: a cube has the same moment about all.
pub(super) const INERTIA: f64 = MASS * (2.0 * HALF) * (2.0 * HALF) / 6.0;
/// How easily a force moves a cube, the scale of its contacts.
pub(super) const WEIGHT: f64 = 1.0 / MASS;
pub(super) const GRAVITY: f64 = 9.81;
/// From a cube's centre to its corners.
const REACH: f64 = 0.173_205_080_756_887_75;
/// How far the ground gives way under a cube at rest.
const SINK: f64 = 4.361_947_990_653_980_4e-5;
/// A cube that moves, turns (at its corners) and gains less than this in m/s is at rest. It costs from 1e-4 on.
pub const REST: f64 = 1e-9;
/// A substep of the Point's worlds, in seconds.
const SUBSTEP: f64 = 0.002;
/// Radius of the balls that stand among cubes, on the ground.
pub const BALL: f64 = 0.1;
/// Most cubes in a world.
pub const MOST: usize = 10;

/// Sliding, spinning and rolling friction of cubes and ground; of two that touch, the greater counts.
const FRICTION: [f64; 3] = [1.0, 0.005, 0.0001];
const SOFT: Soft = Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] };

/// Where a cube is and how it moves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cube {
    /// Its centre.
    pub place: [f64; 3],
    /// A quaternion (w, x, y, z).
    pub turn: [f64; 4],
    /// Of its centre.
    pub velocity: [f64; 3],
    /// Turn rates about its own axes.
    pub spin: [f64; 3],
    /// Whether it lies still until it is touched.
    pub resting: bool,
}

impl Cube {
    /// At rest on the ground, turned about the vertical.
    pub fn lying(place: [f64; 2], angle: f64) -> Cube {
        let (sin, cos) = libm::sincos(0.5 * angle);
        Cube {
            place: [place[0], place[1], HALF - SINK],
            turn: [cos, 0.0, 0.0, sin],
            velocity: [0.0; 3],
            spin: [0.0; 3],
            resting: true,
        }
    }

    /// In m/s.
    pub fn speed(&self) -> f64 {
        dot(self.velocity, self.velocity).sqrt()
    }

    /// Its axes, in columns.
    pub fn axes(&self) -> [[f64; 3]; 3] {
        matrix(self.turn)
    }

    fn solid(&self) -> Solid {
        let axes = matrix(self.turn);
        Solid { shape: Shape::Box, size: [HALF; 3], pos: self.place, axis: column(&axes, 2), axes }
    }

    fn advance(&mut self, acceleration: &[f64; 6], substep: f64) {
        for i in 0..3 {
            self.velocity[i] += substep * acceleration[i];
            self.spin[i] += substep * acceleration[i + 3];
        }
        self.place = add(self.place, substep, self.velocity);
        self.turn = turned(self.turn, self.spin, substep);
    }

    /// The same for one that is held: if it does not turn, its turn stays as it is to the last bit.
    fn swing(&mut self, acceleration: &[f64; 6], substep: f64) {
        if self.spin != [0.0; 3] || acceleration[3..] != [0.0; 3] {
            return self.advance(acceleration, substep);
        }
        self.velocity = add(self.velocity, substep, [acceleration[0], acceleration[1], acceleration[2]]);
        self.place = add(self.place, substep, self.velocity);
    }

    fn settle(&mut self, acceleration: &[f64; 6], substep: f64) {
        let small = |v: f64| v.abs() < REST;
        let still = (0..3).all(|i| small(self.velocity[i]) && small(REACH * self.spin[i]));
        let steady = (0..3).all(|i| small(substep * acceleration[i]) && small(substep * REACH * acceleration[i + 3]));
        if still && steady {
            (self.velocity, self.spin, self.resting) = ([0.0; 3], [0.0; 3], true);
        }
    }
}

/// A shape of a robot with R degrees of freedom.
pub(crate) struct Part<const R: usize> {
    solid: Solid,
    friction: [f64; 3],
    /// How easily a force moves it.
    weight: f64,
    pivot: Vec3,
    /// How each degree of freedom turns it and moves its point at the pivot.
    motions: [[Vec3; 2]; R],
}

impl<const R: usize> Part<R> {
    pub fn ball(
        centre: Vec3,
        radius: f64,
        friction: [f64; 3],
        weight: f64,
        pivot: Vec3,
        motions: [[Vec3; 2]; R],
    ) -> Self {
        Part { solid: ball(centre, radius), friction, weight, pivot, motions }
    }

    /// With the friction of cubes.
    pub(super) fn of(solid: Solid, weight: f64, pivot: Vec3, motions: [[Vec3; 2]; R]) -> Self {
        Part { solid, friction: FRICTION, weight, pivot, motions }
    }

    /// With the friction of cubes.
    pub fn cube(centre: Vec3, half: f64, axes: Mat3, weight: f64, pivot: Vec3, motions: [[Vec3; 2]; R]) -> Self {
        let solid = Solid { shape: Shape::Box, size: [half; 3], pos: centre, axis: column(&axes, 2), axes };
        Part { solid, friction: FRICTION, weight, pivot, motions }
    }
}

fn ball(centre: Vec3, radius: f64) -> Solid {
    Solid { shape: Shape::Sphere, size: [radius; 3], pos: centre, axis: [0.0, 0.0, 1.0], axes: IDENTITY }
}

/// What the search must know of a robot.
pub(crate) struct Robot<'a, const R: usize> {
    /// Only the lower triangle is read.
    pub(super) mass: [[f64; R]; R],
    /// Of everything but contacts.
    pub(super) force: [f64; R],
    pub(super) velocity: [f64; R],
    pub(super) parts: &'a [Part<R>],
    /// All of it is within this distance of the pivot of its parts.
    pub(super) reach: f64,
    /// Its contacts with what is no cube.
    pub(super) own: &'a [Block<12, 6>],
    /// Of its acceleration.
    pub(super) guess: [f64; R],
}

impl<'a, const R: usize> Robot<'a, R> {
    /// One that touches nothing but cubes.
    pub fn new(mass: [[f64; R]; R], force: [f64; R], velocity: [f64; R], parts: &'a [Part<R>], reach: f64) -> Self {
        Robot { mass, force, velocity, parts, reach, own: &[], guess: [0.0; R] }
    }
}

/// What cubes and balls do to a robot.
pub(crate) struct Felt<const R: usize> {
    /// Their force.
    pub push: [f64; R],
    /// The acceleration of a robot that touches any, with its own contacts.
    pub acceleration: Option<[f64; R]>,
}

/// One side of a contact; what does not move comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Ground,
    /// Which ball.
    Ball(usize),
    /// Which part.
    Robot(usize),
    /// Which cube.
    Cube(usize),
}

impl Side {
    fn is_fixed(self) -> bool {
        matches!(self, Side::Ground | Side::Ball(_))
    }
}

#[derive(Clone, Copy, Debug)]
struct Contact {
    sides: [Side; 2],
    touch: Touch,
    friction: [f64; 3],
    /// Sum over both sides.
    weight: f64,
}

/// Room for the search of one thread's worlds: problems of a cube alone, and of the robot with one, two, four and all cubes.
pub(crate) struct Rooms<const D: usize, const A: usize, const B: usize, const C: usize, const E: usize> {
    alone: Room<6, D>,
    one: Room<A, D>,
    two: Room<B, D>,
    four: Room<C, D>,
    all: Room<E, D>,
    contacts: Vec<Contact>,
}

/// Rooms for a robot of three degrees of freedom.
pub(crate) type SmallRooms = Rooms<12, 9, 15, 27, 63>;
/// Rooms for one of eleven.
pub(crate) type LargeRooms = Rooms<20, 17, 23, 35, 71>;

struct Room<const N: usize, const D: usize> {
    problem: Problem<N, D, 6>,
    tree: Tree<N, D>,
}

impl<const N: usize, const D: usize> Room<N, D> {
    /// `robot` degrees of freedom that all move each other, and as many cubes as fit.
    fn new(robot: usize) -> Room<N, D> {
        assert!(D >= 12 && D >= robot + 6 && (N - robot).is_multiple_of(6));
        let parents: Vec<Option<usize>> = (0..N)
            .map(|i| if i == 0 || (i >= robot && (i - robot).is_multiple_of(6)) { None } else { Some(i - 1) })
            .collect();
        Room { problem: Problem::with_room(16), tree: Tree::new(&parents) }
    }
}

impl<const D: usize, const A: usize, const B: usize, const C: usize, const E: usize> Rooms<D, A, B, C, E> {
    pub fn new() -> Self {
        let robot = A - 6;
        assert!(B == robot + 12 && C == robot + 24 && E == robot + 6 * MOST, "one, two, four and all cubes");
        Rooms {
            alone: Room::new(0),
            one: Room::new(robot),
            two: Room::new(robot),
            four: Room::new(robot),
            all: Room::new(robot),
            contacts: Vec::with_capacity(64),
        }
    }
}

/// The cubes of a world.
#[derive(Clone, Debug, Default)]
pub struct Cubes {
    list: Vec<Cube>,
    solids: Vec<Solid>,
    /// Of the last evaluation: three of the centre, three about the cube's axes.
    accelerations: Vec<[f64; 6]>,
    /// Number of points where the robot touched a cube in the last evaluation.
    touching: usize,
    /// Number of all points of contact.
    contacts: usize,
    /// In seconds.
    substep: f64,
    balls: Vec<Solid>,
    /// A bit for each ball that the robot touched in the last evaluation.
    pressed: u32,
    tether: Option<Tether>,
}

impl Cubes {
    /// At most [`MOST`].
    pub fn new(list: Vec<Cube>) -> Cubes {
        assert!(list.len() <= MOST, "more than {MOST} cubes");
        let solids = list.iter().map(Cube::solid).collect();
        Cubes { accelerations: vec![[0.0; 6]; list.len()], list, solids, substep: SUBSTEP, ..Cubes::default() }
    }

    /// Cubes that are held, each where its home is, among balls in these places; a substep takes so many seconds.
    pub fn held(tether: Tether, balls: &[[f64; 2]], substep: f64) -> Cubes {
        let at =
            |home: &Home| Cube { place: home.place, turn: home.turn, resting: false, ..Cube::lying([0.0; 2], 0.0) };
        let mut cubes = Cubes::new(tether.homes().iter().map(at).collect()).with_substep(substep);
        cubes.balls = balls.iter().map(|place| ball([place[0], place[1], BALL], BALL)).collect();
        cubes.tether = Some(tether);
        cubes
    }

    /// The same cubes where they are, held by this and among these balls.
    pub(crate) fn rehung(self, tether: Tether, balls: &[[f64; 2]]) -> Cubes {
        let mut cubes = Cubes::held(tether, balls, self.substep);
        cubes.restore(&self.list);
        cubes
    }

    /// In seconds.
    pub(crate) fn substep(&self) -> f64 {
        self.substep
    }

    /// What holds them.
    pub fn tether(&self) -> Option<&Tether> {
        self.tether.as_ref()
    }

    /// A bit for each ball that the robot touched in the last evaluation.
    pub fn pressed(&self) -> u32 {
        self.pressed
    }

    /// The same beside a robot with other substeps, in seconds, than the Point's.
    pub fn with_substep(mut self, substep: f64) -> Cubes {
        self.substep = substep;
        self
    }

    /// All of them.
    pub fn list(&self) -> &[Cube] {
        &self.list
    }

    /// Replaces one of them.
    pub(crate) fn put(&mut self, which: usize, cube: Cube) {
        (self.list[which], self.solids[which]) = (cube, cube.solid());
        self.forget();
    }

    /// Replaces all of them by as many others, as they were.
    pub(crate) fn restore(&mut self, list: &[Cube]) {
        list.iter().enumerate().for_each(|(i, cube)| self.put(i, *cube));
    }

    /// Replaces all of them by as many others, of which it finds out whether they are at rest.
    pub fn set(&mut self, list: impl IntoIterator<Item = Cube>) {
        let mut room = Room::<6, 12>::new(0);
        for (i, mut cube) in list.into_iter().enumerate() {
            let length = cube.turn.iter().map(|x| x * x).sum::<f64>();
            // One that has the right length keeps its last digits.
            if (length - 1.0).abs() > 1e-12 {
                cube.turn = normalized(cube.turn);
            }
            cube.resting = false;
            self.put(i, cube);
            self.list[i].resting = self.tether.is_none() && self.lies_still(i, &mut room);
        }
        self.forget();
    }

    /// Whether a cube without velocity is where the ground carries it.
    fn lies_still(&mut self, which: usize, room: &mut Room<6, 12>) -> bool {
        let Cube { velocity, spin, .. } = self.list[which];
        if velocity != [0.0; 3] || spin != [0.0; 3] {
            return false;
        }
        let mut contacts = Vec::new();
        touch_ground(which, &self.solids[which], &mut contacts);
        let group = Group { members: 1 << which, with_robot: false };
        let mut felt = Felt { push: [], acceleration: None };
        self.solve(&group, None::<&Robot<'_, 0>>, room, &contacts, &mut felt);
        // It was left at rest when it gained less than REST in a substep, and lost as little by its last velocity.
        let gain = |a: &f64| (a * self.substep).abs() < 2.0 * REST;
        let [ahead, turning] = [&self.accelerations[which][..3], &self.accelerations[which][3..]];
        ahead.iter().all(gain) && turning.iter().all(|a| gain(&(REACH * a)))
    }

    /// Numbers of contact points of the last evaluation: with the robot, and all.
    pub fn contacts(&self) -> [usize; 2] {
        [self.touching, self.contacts]
    }

    /// In how many points the robot touched cubes in the last evaluation.
    pub fn touching(&self) -> usize {
        self.touching
    }

    /// Forgets all but the cubes themselves: what follows then depends on them alone.
    pub(crate) fn forget(&mut self) {
        self.accelerations.fill([0.0; 6]);
        (self.touching, self.contacts, self.pressed) = (0, 0, 0);
    }

    /// Moves everything for so many substeps, if a robot that stays within this distance of a place cannot touch anything in
    /// that time, and cubes that move touch nothing either; whether that is so.
    pub(crate) fn leave_alone(&mut self, centre: [f64; 2], reach: f64, substeps: usize) -> bool {
        if self.tether.is_none() {
            return self.is_idle(centre, reach);
        }
        if !self.is_apart(centre, reach, substeps as f64 * self.substep) {
            return false;
        }
        let Cubes { list, solids, tether: Some(tether), substep, .. } = self else { return false };
        for _ in 0..substeps {
            tether.carry();
            for (i, cube) in list.iter_mut().enumerate() {
                cube.swing(&tether.pull(i, cube).alone(), *substep);
            }
            tether.advance(*substep);
        }
        for (solid, cube) in solids.iter_mut().zip(list) {
            *solid = cube.solid();
        }
        true
    }

    /// Moves what holds the cubes to where it is now.
    pub(crate) fn carry(&mut self) {
        if let Some(tether) = &mut self.tether {
            tether.carry();
        }
    }

    /// Whether cubes that are held touch neither each other nor anything else for so many seconds.
    fn is_apart(&self, centre: [f64; 2], reach: f64, seconds: f64) -> bool {
        let Some(tether) = &self.tether else { return false };
        let near = |a: &[f64], b: &[f64], reach: f64| {
            let (dx, dy) = (a[0] - b[0], a[1] - b[1]);
            dx * dx + dy * dy < reach * reach
        };
        if self.balls.iter().any(|ball| near(&ball.pos, &centre, reach + BALL)) {
            return false;
        }
        let mut ranges = [0.0; MOST];
        for (i, cube) in self.list.iter().enumerate() {
            let [range, rise] = tether.range(i, cube, seconds);
            let range = range + REACH;
            let alone = cube.place[2] - rise > REACH
                && !near(&cube.place, &centre, reach + range)
                && !self.balls.iter().any(|ball| near(&ball.pos, &cube.place, BALL + range))
                && !self.list[..i].iter().zip(ranges).any(|(other, its)| near(&other.place, &cube.place, its + range));
            if !alone {
                return false;
            }
            ranges[i] = range;
        }
        true
    }

    /// Whether none moves and none is within this distance, seen from above.
    pub(crate) fn is_idle(&self, centre: [f64; 2], reach: f64) -> bool {
        let reach = reach + REACH;
        self.list.iter().all(|cube| {
            let (dx, dy) = (cube.place[0] - centre[0], cube.place[1] - centre[1]);
            // Not turned round: a robot that is nowhere reaches nothing.
            let near = dx * dx + dy * dy < reach * reach;
            cube.resting && !near
        }) && self.tether.is_none()
    }

    /// Finds the accelerations of all cubes that are not at rest, and what they do to the robot.
    pub(crate) fn evaluate<
        const R: usize,
        const D: usize,
        const A: usize,
        const B: usize,
        const C: usize,
        const E: usize,
    >(
        &mut self,
        robot: &Robot<'_, R>,
        rooms: &mut Rooms<D, A, B, C, E>,
    ) -> Felt<R> {
        rooms.contacts.clear();
        self.find(robot, &mut rooms.contacts);
        let mut felt = Felt { push: [0.0; R], acceleration: None };
        let (mut done, mut robot_waits) = (0u32, self.pressed != 0);
        for first in 0..self.list.len() {
            if self.list[first].resting || done >> first & 1 == 1 {
                continue;
            }
            let group = Group::of(first, &rooms.contacts);
            done |= group.members;
            let count = group.members.count_ones();
            robot_waits &= !group.with_robot;
            if let (Some(tether), true) = (&self.tether, group.is_free(&rooms.contacts)) {
                self.accelerations[first] = tether.pull(first, &self.list[first]).alone();
                continue;
            }
            let (contacts, all) = (&rooms.contacts, &mut felt);
            match (group.with_robot, count) {
                (false, 1) => self.solve(&group, None::<&Robot<'_, R>>, &mut rooms.alone, contacts, all),
                (_, 1) => self.solve(&group, Some(robot), &mut rooms.one, contacts, all),
                (_, 2) => self.solve(&group, Some(robot), &mut rooms.two, contacts, all),
                (_, 3 | 4) => self.solve(&group, Some(robot), &mut rooms.four, contacts, all),
                _ => self.solve(&group, Some(robot), &mut rooms.all, contacts, all),
            }
        }
        if robot_waits {
            // It touches balls and no cube.
            let group = Group { members: 0, with_robot: true };
            self.solve(&group, Some(robot), &mut rooms.one, &rooms.contacts, &mut felt);
        }
        felt
    }

    /// Moves the cubes for a substep by the accelerations of the last evaluation.
    pub(crate) fn advance(&mut self) {
        for (i, cube) in self.list.iter_mut().enumerate() {
            if !cube.resting {
                let acceleration = &self.accelerations[i];
                if self.tether.is_some() {
                    cube.swing(acceleration, self.substep);
                } else {
                    cube.advance(acceleration, self.substep);
                    cube.settle(acceleration, self.substep);
                }
                self.solids[i] = cube.solid();
            }
        }
        if let Some(tether) = &mut self.tether {
            tether.advance(self.substep);
        }
    }

    /// Finds all contacts and wakes the cubes that are touched.
    fn find<const R: usize>(&mut self, robot: &Robot<'_, R>, contacts: &mut Vec<Contact>) {
        let Cubes { list, solids, accelerations, touching, contacts: number, balls, pressed, .. } = self;
        let mut wake = |list: &mut [Cube], which: usize| {
            if std::mem::take(&mut list[which].resting) {
                accelerations[which] = [0.0; 6];
            }
        };
        let weights = |part: &Part<R>| part.weight + WEIGHT;
        let frictions = |part: &Part<R>| std::array::from_fn(|i| part.friction[i].max(FRICTION[i]));
        for which in 0..list.len() {
            for (number, part) in robot.parts.iter().enumerate() {
                // A robot that is nowhere is not near.
                if !is_near(solids[which].pos, part.pivot, robot.reach + REACH) {
                    continue;
                }
                let friction = frictions(part);
                let sides = [Side::Robot(number), Side::Cube(which)];
                touches(&part.solid, &solids[which], 0.0, |touch| {
                    contacts.push(Contact { sides, touch, friction, weight: weights(part) });
                    wake(list, which);
                });
            }
        }
        *touching = contacts.len();
        *pressed = 0;
        for (which, ball) in balls.iter().enumerate() {
            for (number, part) in robot.parts.iter().enumerate() {
                if is_near(ball.pos, part.pivot, robot.reach + BALL) {
                    let sides = [Side::Ball(which), Side::Robot(number)];
                    touches(ball, &part.solid, 0.0, |touch| {
                        contacts.push(Contact { sides, touch, friction: frictions(part), weight: part.weight });
                        *pressed |= 1 << which;
                    });
                }
            }
        }
        // A cube that is touched may touch others: each that moves looks around once.
        let mut looked = 0u32;
        while let Some(one) = (0..list.len()).find(|i| !list[*i].resting && looked >> i & 1 == 0) {
            looked |= 1 << one;
            for (which, ball) in balls.iter().enumerate() {
                if is_near(ball.pos, solids[one].pos, BALL + REACH) {
                    let sides = [Side::Ball(which), Side::Cube(one)];
                    touches(ball, &solids[one], 0.0, |touch| {
                        contacts.push(Contact { sides, touch, friction: FRICTION, weight: WEIGHT });
                    });
                }
            }
            for two in (0..list.len()).filter(|two| *two != one && looked >> two & 1 == 0) {
                if !is_near(solids[one].pos, solids[two].pos, 2.0 * REACH) {
                    continue;
                }
                let (a, b) = (one.min(two), one.max(two));
                let sides = [Side::Cube(a), Side::Cube(b)];
                touches(&solids[a], &solids[b], 0.0, |touch| {
                    contacts.push(Contact { sides, touch, friction: FRICTION, weight: 2.0 * WEIGHT });
                    wake(list, two);
                });
            }
            touch_ground(one, &solids[one], contacts);
        }
        *number = contacts.len();
    }

    /// Solves a group; adds what its cubes do to the robot.
    fn solve<const R: usize, const N: usize, const D: usize>(
        &mut self,
        group: &Group,
        robot: Option<&Robot<'_, R>>,
        room: &mut Room<N, D>,
        contacts: &[Contact],
        felt: &mut Felt<R>,
    ) {
        let Room { problem, tree } = room;
        let base = if robot.is_some() { R } else { 0 };
        let (mut velocity, mut guess) = ([0.0; N], [0.0; N]);
        problem.force = [0.0; N];
        problem.blocks.clear();
        problem.forget();
        if let Some(robot) = robot {
            velocity[..R].copy_from_slice(&robot.velocity);
            problem.force[..R].copy_from_slice(&robot.force);
            for i in 0..R {
                problem.mass.0[i][..=i].copy_from_slice(&robot.mass[i][..=i]);
            }
            guess[..R].copy_from_slice(&robot.guess);
        }
        let own = robot.filter(|_| group.with_robot).map_or(&[][..], |robot| robot.own);
        own.iter().for_each(|own| problem.blocks.next().take(own));
        for at in (base..N).step_by(6) {
            for k in 0..6 {
                problem.mass.0[at + k] = [0.0; D];
                problem.mass.0[at + k][k] = if k < 3 { MASS } else { INERTIA };
            }
        }
        for (slot, which) in group.cubes().enumerate() {
            let (at, cube) = (base + 6 * slot, &self.list[which]);
            velocity[at..at + 3].copy_from_slice(&cube.velocity);
            velocity[at + 3..at + 6].copy_from_slice(&cube.spin);
            guess[at..at + 6].copy_from_slice(&self.accelerations[which]);
            problem.force[at + 2] = -MASS * GRAVITY;
            if let Some(tether) = &self.tether {
                tether.pull(which, cube).load(&mut problem.mass.0[at..at + 6], &mut problem.force[at..at + 6]);
            }
        }
        for contact in contacts.iter().filter(|contact| group.has(contact)) {
            let block = problem.blocks.next();
            self.lay(contact, group, robot, base, block);
            let mu = contact.friction[0];
            let weight = 2.0 * mu * mu * (contact.weight + mu * mu * contact.weight);
            block.soften(&SOFT, contact.touch.distance, weight, &velocity);
        }
        let acceleration = problem.minimize(tree, &guess);
        for (slot, which) in group.cubes().enumerate() {
            let at = base + 6 * slot;
            self.accelerations[which].copy_from_slice(&acceleration[at..at + 6]);
        }
        if group.with_robot {
            felt.acceleration = Some(std::array::from_fn(|i| acceleration[i]));
        }
        // Only the robot's contacts begin with the first degree of freedom.
        let robots = |block: &Block<D, 6>| robot.is_some() && block.dofs[0] == 0;
        let with_cubes = problem.blocks.iter().zip(&problem.values).skip(own.len());
        for (block, values) in with_cubes.filter(|(block, _)| robots(block)) {
            let forces = block.forces(values);
            for d in 0..R {
                felt.push[d] += (0..block.len).map(|k| block.rows[k][d] * forces[k]).sum::<f64>();
            }
        }
    }

    /// The rows of a contact.
    fn lay<const R: usize, const D: usize>(
        &self,
        contact: &Contact,
        group: &Group,
        robot: Option<&Robot<'_, R>>,
        base: usize,
        block: &mut Block<D, 6>,
    ) {
        let [first, second] = tangents(&contact.touch);
        let frame = [contact.touch.normal, first, second];
        let [slide, spin, roll] = contact.friction;
        block.start = 0;
        block.is_chain = contact.sides[0].is_fixed();
        (block.len, block.plain, block.width) = (6, 0.0, 0);
        block.friction = [0.0, slide, slide, spin, roll, roll];
        let mut entry = |dof: usize, turn: Vec3, go: Vec3| {
            let at = block.width;
            block.dofs[at] = dof as u8;
            for k in 0..3 {
                block.rows[k][at] = dot(frame[k], go);
                block.rows[k + 3][at] = dot(frame[k], turn);
            }
            block.width += 1;
        };
        for (side, sign) in contact.sides.into_iter().zip([-1.0, 1.0]) {
            match (side, robot) {
                (Side::Robot(part), Some(robot)) => {
                    let part = &robot.parts[part];
                    let arm = sub(contact.touch.pos, part.pivot);
                    for (dof, [turn, go]) in part.motions.iter().enumerate() {
                        let turn = scale(sign, *turn);
                        entry(dof, turn, add(scale(sign, *go), 1.0, cross(turn, arm)));
                    }
                }
                (Side::Cube(which), _) => {
                    let at = base + 6 * group.slot(which);
                    let arm = sub(contact.touch.pos, self.list[which].place);
                    for k in 0..3 {
                        let mut go = [0.0; 3];
                        go[k] = sign;
                        entry(at + k, [0.0; 3], go);
                    }
                    for k in 0..3 {
                        let turn = scale(sign, column(&self.solids[which].axes, k));
                        entry(at + 3 + k, turn, cross(turn, arm));
                    }
                }
                _ => {}
            }
        }
    }
}

const GROUND: Solid =
    Solid { shape: Shape::Plane, size: [0.0; 3], pos: [0.0; 3], axis: [0.0, 0.0, 1.0], axes: IDENTITY };

fn touch_ground(which: usize, solid: &Solid, contacts: &mut Vec<Contact>) {
    let sides = [Side::Ground, Side::Cube(which)];
    touches(&GROUND, solid, 0.0, |touch| {
        contacts.push(Contact { sides, touch, friction: FRICTION, weight: WEIGHT });
    });
}

fn is_near(a: Vec3, b: Vec3, reach: f64) -> bool {
    let apart = sub(a, b);
    dot(apart, apart) < reach * reach
}

/// Cubes that touch each other, directly or through the robot.
struct Group {
    /// A bit for each cube.
    members: u32,
    with_robot: bool,
}

impl Group {
    fn of(first: usize, contacts: &[Contact]) -> Group {
        let mut group = Group { members: 1 << first, with_robot: false };
        loop {
            let before = (group.members, group.with_robot);
            for contact in contacts {
                if !contact.sides[0].is_fixed() && contact.sides.iter().any(|side| group.holds(*side)) {
                    contact.sides.iter().for_each(|side| group.join(*side));
                }
            }
            if before == (group.members, group.with_robot) {
                return group;
            }
        }
    }

    fn holds(&self, side: Side) -> bool {
        match side {
            Side::Ground | Side::Ball(_) => false,
            Side::Robot(_) => self.with_robot,
            Side::Cube(which) => self.members >> which & 1 == 1,
        }
    }

    fn join(&mut self, side: Side) {
        match side {
            Side::Ground | Side::Ball(_) => {}
            Side::Robot(_) => self.with_robot = true,
            Side::Cube(which) => self.members |= 1 << which,
        }
    }

    fn has(&self, contact: &Contact) -> bool {
        self.holds(contact.sides[1])
    }

    /// Whether it is one cube that nothing touches.
    fn is_free(&self, contacts: &[Contact]) -> bool {
        !self.with_robot && self.members.is_power_of_two() && !contacts.iter().any(|contact| self.has(contact))
    }

    fn cubes(&self) -> impl Iterator<Item = usize> {
        let members = self.members;
        (0..MOST).filter(move |which| members >> which & 1 == 1)
    }

    /// Place of a cube among the members.
    fn slot(&self, which: usize) -> usize {
        (self.members & ((1 << which) - 1)).count_ones() as usize
    }
}
