//! Safety Gym's Point robot in the plane, to the last digit MuJoCo gives it.
//!
//! A sphere of radius 0.1 with a cube ("arrow") of half-side 0.05 centred 0.1 ahead of it slides on two damped axes and
//! turns on a damped hinge. With heading theta, C = cos theta, S = sin theta, MuJoCo's equation of motion is
//!
//! ```text
//! M = | m      0     -m c S |        | F C + m c C w^2 - b vx |
//!     | 0      m      m c C |    f = | F S + m c S w^2 - b vy |
//!     | -m c S m c C  I_o   |        | T - b_th w             |
//!
//! (M + h diag(b, b, b_th)) acc = f + f_contact;   v += h acc;   q += h v
//! ```
//!
//! The slide damping is the same in every direction, so the equation may be turned into the frame of the robot's heading,
//! where M is constant and the forward axis separates from the other two. [`step`] works in that frame: what remains
//! of the 3x3 solve are four constants, and the frame itself turns by the tiny angle h w after each substep.
//!
//! The drive saturates at an action of 0.05 and the turn servo is unstable in its linear band (one substep multiplies a
//! deviation by -3.9): the chatter of the turn rate is the benchmark's own and is kept.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use crate::physics::articulated::cubes::{Cubes, Part, Robot, SmallRooms};
use crate::physics::contact::{self, Contacts};

/// Length of a substep in seconds.
pub const SUBSTEP: f64 = 0.002;
/// Substeps in one step of a world.
pub const SUBSTEPS: usize = 10;
/// Radius of the robot's sphere.
pub const RADIUS: f64 = 0.1;
/// Half the side of the arrow.
pub const ARROW_HALF: f64 = 0.05;
/// How far ahead of the robot's origin the arrow is centred.
pub const ARROW_AHEAD: f64 = 0.1;

/// m: sphere and arrow at density 1.
pub(crate) const MASS: f64 = 0.005188790204786391;
/// c: how far ahead of the origin the centre of mass lies.
const MASS_AHEAD: f64 = 0.01927231513576232;
/// I_o: moment of inertia about the origin.
pub(crate) const INERTIA: f64 = 2.8421827485812244e-05;
/// m c, which couples turning and sideways motion.
pub(crate) const COUPLING: f64 = MASS * MASS_AHEAD;
const SLIDE_DAMPING: f64 = 0.01;
const TURN_DAMPING: f64 = 0.005;
const GEAR: f64 = 0.3;
const DRIVE_LIMIT: f64 = 0.05;
/// How easily a force moves the robot's body, on average over three directions.
pub(crate) const INVERSE_WEIGHT: f64 = 2.0 / (3.0 * MASS);
const SPHERE_FRICTION: [f64; 3] = [1.0, 0.01, 0.01];
/// From the origin to beyond the arrow's far corners, hypot(0.15, 0.05, 0.05) = 0.1658.
const FAR: f64 = 0.166;
const GRAVITY: f64 = 9.81;
const MAGNETIC_FIELD: f64 = 0.5;

/// The inverse of a mass matrix in the robot's own frame: forward alone, sideways and turning coupled.
struct Inverse {
    forward: f64,
    side: f64,
    cross: f64,
    turn: f64,
}

impl Inverse {
    const fn of(mass: f64, inertia: f64) -> Inverse {
        let det = mass * inertia - COUPLING * COUPLING;
        Inverse { forward: 1.0 / mass, side: inertia / det, cross: -COUPLING / det, turn: mass / det }
    }

    #[inline]
    fn times(&self, f: [f64; 3]) -> [f64; 3] {
        [self.forward * f[0], self.side * f[1] + self.cross * f[2], self.cross * f[1] + self.turn * f[2]]
    }
}

/// M^-1: what the accelerometer and the contact solver use.
const PLAIN: Inverse = Inverse::of(MASS, INERTIA);
/// (M + h diag(b, b, b_th))^-1: damping is integrated implicitly.
const DAMPED: Inverse = Inverse::of(MASS + SUBSTEP * SLIDE_DAMPING, INERTIA + SUBSTEP * TURN_DAMPING);

/// Pose and velocity in the world frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PointState {
    /// Position of the sphere's centre.
    pub x: f64,
    /// Position of the sphere's centre.
    pub y: f64,
    /// Heading in radians; it is never wrapped.
    pub theta: f64,
    /// Velocity along x.
    pub vx: f64,
    /// Velocity along y.
    pub vy: f64,
    /// Turn rate in radians per second.
    pub omega: f64,
}

impl PointState {
    /// Whether every number is finite.
    pub fn is_finite(&self) -> bool {
        // One infinity or NaN makes the whole sum so; the numbers of a healthy state are far too small to overflow.
        (self.x + self.y + self.theta + self.vx + self.vy + self.omega).is_finite()
    }
}

/// What the robot senses at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Cosine and sine of the heading.
    pub heading: [f64; 2],
    /// Acceleration of the origin, forward and to the left.
    pub acceleration: [f64; 2],
    /// Velocity of the origin, forward and to the left.
    pub velocity: [f64; 2],
    /// Turn rate.
    pub omega: f64,
    /// Whether the sphere or the arrow touches a pillar.
    pub touching: bool,
}

impl Reading {
    /// Accelerometer, velocimeter, gyro and magnetometer, three numbers each.
    #[inline]
    pub fn sensors(&self) -> [f64; 12] {
        let [[cos, sin], [ax, ay], [vx, vy]] = [self.heading, self.acceleration, self.velocity];
        let field = [-MAGNETIC_FIELD * sin, -MAGNETIC_FIELD * cos];
        [ax, ay, GRAVITY, vx, vy, 0.0, 0.0, 0.0, self.omega, field[0], field[1], 0.0]
    }
}

/// Advances one step of a world (ten substeps under one action) and reads the sensors at its end.
///
/// `pillars` are centres of solid cylinders of radius [`contact::PILLAR_RADIUS`]. An action that is not a number makes
/// the state so too; it does not panic.
#[inline]
pub fn step(state: &mut PointState, action: [f64; 2], pillars: &[[f64; 2]]) -> Reading {
    let pillars = if contact::reachable(state, SUBSTEP * SUBSTEPS as f64, pillars) { pillars } else { &[] };
    let control = clip(action);
    let mut frame = Frame::of(state);
    // Two loops, so that the usual one, with nothing near, keeps the whole frame in registers.
    if pillars.is_empty() {
        for _ in 0..SUBSTEPS {
            frame = frame.moved(frame.force(control));
        }
    } else {
        for _ in 0..SUBSTEPS {
            frame = frame.moved(frame.force_with_contact(control, pillars));
        }
    }
    *state = frame.state();
    frame.read(control, pillars)
}

thread_local! {
    /// What the search for forces between cubes and the robot needs: nothing of it outlives a call, so the worlds of a thread share it.
    static ROOMS: RefCell<SmallRooms> = RefCell::new(SmallRooms::new());
}

/// Advances one step among cubes that can be pushed, and reads the sensors at its end.
#[inline]
pub fn step_among(state: &mut PointState, action: [f64; 2], cubes: &mut Cubes) -> Reading {
    // Drive, servo and centrifugal force change the velocity by less than 1 m/s within a step.
    let far = FAR + SUBSTEP * SUBSTEPS as f64 * (state.vx.abs() + state.vy.abs() + 1.0);
    cubes.forget();
    if cubes.leave_alone([state.x, state.y], far, SUBSTEPS) {
        return step(state, action, &[]);
    }
    step_in_touch(state, clip(action), cubes)
}

/// A step in which cubes may move.
#[cold]
#[inline(never)]
fn step_in_touch(state: &mut PointState, control: [f64; 2], cubes: &mut Cubes) -> Reading {
    ROOMS.with_borrow_mut(|rooms| {
        let mut frame = Frame::of(state);
        for _ in 0..SUBSTEPS {
            cubes.carry();
            let force = frame.force_among(control, cubes, rooms);
            cubes.advance();
            frame = frame.moved(force);
        }
        *state = frame.state();
        frame.read_among(control, cubes, rooms)
    })
}

/// Advances a single substep among cubes.
pub fn substep_among(state: &mut PointState, action: [f64; 2], cubes: &mut Cubes) {
    cubes.forget();
    ROOMS.with_borrow_mut(|rooms| {
        let frame = Frame::of(state);
        cubes.carry();
        let force = frame.force_among(clip(action), cubes, rooms);
        cubes.advance();
        *state = frame.moved(force).state();
    });
}

/// Reads the sensors among cubes without moving, with `action` applied.
pub fn read_among(state: &PointState, action: [f64; 2], cubes: &mut Cubes) -> Reading {
    cubes.forget();
    ROOMS.with_borrow_mut(|rooms| Frame::of(state).read_among(clip(action), cubes, rooms))
}

/// Advances a single substep.
pub fn substep(state: &mut PointState, action: [f64; 2], pillars: &[[f64; 2]]) {
    let frame = Frame::of(state);
    *state = frame.moved(frame.force_with_contact(clip(action), pillars)).state();
}

/// Reads the sensors without moving, with `action` applied.
pub fn read(state: &PointState, action: [f64; 2], pillars: &[[f64; 2]]) -> Reading {
    Frame::of(state).read(clip(action), pillars)
}

fn clip(action: [f64; 2]) -> [f64; 2] {
    action.map(|a| a.clamp(-1.0, 1.0))
}

/// The state seen along the robot's heading.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub x: f64,
    pub y: f64,
    pub theta: f64,
    pub cos: f64,
    pub sin: f64,
    /// Velocity forward, to the left, and turn rate.
    pub v: [f64; 3],
}

impl Frame {
    pub fn of(state: &PointState) -> Frame {
        let PointState { x, y, theta, vx, vy, omega } = *state;
        let (sin, cos) = libm::sincos(theta);
        Frame { x, y, theta, cos, sin, v: [cos * vx + sin * vy, cos * vy - sin * vx, omega] }
    }

    fn state(&self) -> PointState {
        let [forward, left, omega] = self.v;
        PointState {
            x: self.x,
            y: self.y,
            theta: self.theta,
            vx: self.cos * forward - self.sin * left,
            vy: self.sin * forward + self.cos * left,
            omega,
        }
    }

    /// f: drive, servo, centrifugal force and damping.
    #[inline(always)]
    fn force(&self, control: [f64; 2]) -> [f64; 3] {
        let [forward, left, omega] = self.v;
        let drive = GEAR * control[0].clamp(-DRIVE_LIMIT, DRIVE_LIMIT);
        let servo = GEAR * (control[1] - GEAR * omega).clamp(-DRIVE_LIMIT, DRIVE_LIMIT);
        [
            drive + COUPLING * omega * omega - SLIDE_DAMPING * forward,
            -SLIDE_DAMPING * left,
            servo - TURN_DAMPING * omega,
        ]
    }

    /// f and the force of the pillars that the robot overlaps.
    #[cold]
    #[inline(never)]
    fn force_with_contact(self, control: [f64; 2], pillars: &[[f64; 2]]) -> [f64; 3] {
        let mut force = self.force(control);
        let contacts = Contacts::find(&self, pillars);
        if contacts.any_active() {
            let (_, push) = contacts.solve(PLAIN.times(force), &self.v);
            for (f, p) in force.iter_mut().zip(push) {
                *f += p;
            }
        }
        force
    }

    /// f and the force of the cubes that the robot touches.
    fn force_among(&self, control: [f64; 2], cubes: &mut Cubes, rooms: &mut SmallRooms) -> [f64; 3] {
        let force = self.force(control);
        let pivot = [self.x, self.y, RADIUS];
        let (ahead, left) = ([self.cos, self.sin, 0.0], [-self.sin, self.cos, 0.0]);
        let up = [0.0, 0.0, 1.0];
        let motions = [[[0.0; 3], ahead], [[0.0; 3], left], [up, [0.0; 3]]];
        let arrow = [self.x + ARROW_AHEAD * self.cos, self.y + ARROW_AHEAD * self.sin, RADIUS];
        let axes = [[self.cos, -self.sin, 0.0], [self.sin, self.cos, 0.0], up];
        let parts = [
            Part::ball(pivot, RADIUS, SPHERE_FRICTION, INVERSE_WEIGHT, pivot, motions),
            Part::cube(arrow, ARROW_HALF, axes, INVERSE_WEIGHT, pivot, motions),
        ];
        let mass = [[MASS, 0.0, 0.0], [0.0, MASS, COUPLING], [0.0, COUPLING, INERTIA]];
        let robot = Robot::new(mass, force, self.v, &parts, FAR);
        let push = cubes.evaluate(&robot, rooms).push;
        std::array::from_fn(|i| force[i] + push[i])
    }

    fn read_among(self, control: [f64; 2], cubes: &mut Cubes, rooms: &mut SmallRooms) -> Reading {
        let acc = PLAIN.times(self.force_among(control, cubes, rooms));
        Reading { acceleration: [acc[0], acc[1]], ..self.read(control, &[]) }
    }

    /// One substep under this force.
    #[inline(always)]
    fn moved(self, force: [f64; 3]) -> Frame {
        let acc = DAMPED.times(force);
        let [forward, left, omega] = std::array::from_fn(|i| self.v[i] + SUBSTEP * acc[i]);
        let angle = SUBSTEP * omega;
        let [c, s] = small_rotation(angle);
        Frame {
            x: self.x + SUBSTEP * (self.cos * forward - self.sin * left),
            y: self.y + SUBSTEP * (self.sin * forward + self.cos * left),
            theta: self.theta + angle,
            cos: self.cos * c - self.sin * s,
            sin: self.sin * c + self.cos * s,
            v: [forward * c + left * s, left * c - forward * s, omega],
        }
    }

    #[inline]
    fn read(self, control: [f64; 2], pillars: &[[f64; 2]]) -> Reading {
        let free = PLAIN.times(self.force(control));
        let (acc, touching) = if pillars.is_empty() { (free, false) } else { self.feel(free, pillars) };
        Reading {
            heading: [self.cos, self.sin],
            acceleration: [acc[0], acc[1]],
            velocity: [self.v[0], self.v[1]],
            omega: self.v[2],
            touching,
        }
    }

    /// The acceleration with contact, and whether there is any.
    #[cold]
    #[inline(never)]
    fn feel(self, free: [f64; 3], pillars: &[[f64; 2]]) -> ([f64; 3], bool) {
        let contacts = Contacts::find(&self, pillars);
        let acc = if contacts.any_active() { contacts.solve(free, &self.v).0 } else { free };
        (acc, !contacts.list().is_empty())
    }
}

/// Cosine and sine of the angle turned in one substep.
///
/// The series is cut where its error falls below 1e-15 at the bound; at the robot's own turn rates (below 4 rad/s) it is
/// exact to the last bit.
#[inline(always)]
fn small_rotation(angle: f64) -> [f64; 2] {
    const BOUND: f64 = 0.05;
    if angle.abs() <= BOUND {
        let a2 = angle * angle;
        let a4 = a2 * a2;
        let cos = (1.0 - a2 * (1.0 / 2.0)) + a4 * (1.0 / 24.0 - a2 * (1.0 / 720.0));
        let sin = angle * ((1.0 - a2 * (1.0 / 6.0)) + a4 * (1.0 / 120.0 - a2 * (1.0 / 5040.0)));
        [cos, sin]
    } else {
        let (sin, cos) = libm::sincos(angle);
        [cos, sin]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    #[test]
    fn constants_follow_from_the_geometry() {
        let sphere = 4.0 / 3.0 * PI * RADIUS.powi(3);
        let side = 2.0 * ARROW_HALF;
        let cube = side.powi(3);
        let mass = sphere + cube;
        let ahead = ARROW_AHEAD * cube / mass;
        let about_origin = 0.4 * sphere * RADIUS * RADIUS + cube * side * side / 6.0 + cube * ARROW_AHEAD * ARROW_AHEAD;
        assert!((mass / MASS - 1.0).abs() < 1e-15);
        assert!((ahead / MASS_AHEAD - 1.0).abs() < 1e-15);
        assert!((about_origin / INERTIA - 1.0).abs() < 1e-15);
    }

    #[test]
    fn small_rotation_agrees_with_the_library() {
        for i in -20_000..=20_000 {
            let angle = f64::from(i) * 4e-6;
            let [cos, sin] = small_rotation(angle);
            assert!((cos - libm::cos(angle)).abs() < 2e-15 && (sin - libm::sin(angle)).abs() < 2e-16, "{angle}");
        }
    }

    #[test]
    fn heading_turned_bit_by_bit_agrees_with_fresh_cosines() {
        let mut state = PointState { theta: 1.0, vx: 0.3, ..PointState::default() };
        let mut worst: f64 = 0.0;
        for i in 0..5000 {
            let action = [libm::sin(0.37 * f64::from(i)), libm::cos(0.11 * f64::from(i * i))];
            let heading = step(&mut state, action, &[]).heading;
            worst = worst.max((heading[0] - libm::cos(state.theta)).abs());
            worst = worst.max((heading[1] - libm::sin(state.theta)).abs());
        }
        // Fifty turns away from zero the angle itself is only known to 1e-14.
        assert!(worst < 1e-12, "{worst}");
    }
}
