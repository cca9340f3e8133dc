//! rllab's point: it turns, then jumps along its new heading; there are no forces and there is no inertia.
//!
//! ```text
//! theta += a1;   x += a0 cos theta;   y += a0 sin theta;   a0 in [-1, 1], a1 in [-0.25, 0.25]
//! ```
//!
//! The original draws velocities at the start of an episode and never touches them again. They move nothing, but they
//! are part of what its worlds observe, so they are kept.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use crate::labels::each;
use crate::{Form, Label, Role, Scene};

/// How far one step may turn, in radians.
pub const MAX_TURN: f64 = 0.25;
/// Radius of the sphere.
const RADIUS: f64 = 0.5;
/// Half the sides of the arrow, seen from above.
const ARROW_HALF: [f64; 2] = [0.5, 0.1];
/// Mass of the sphere, radius 0.5 at density 100.
const SPHERE: f64 = 100.0 * 4.0 / 3.0 * std::f64::consts::PI * 0.125;
/// Mass of the arrow, a box of half-sides 0.5, 0.1 and 0.1 at density 100.
const ARROW: f64 = 4.0;
const ARROW_AHEAD: f64 = 0.6;
/// Mass of sphere and arrow.
pub const MASS: f64 = SPHERE + ARROW;
/// How far ahead of the sphere's centre the centre of mass lies.
pub const MASS_AHEAD: f64 = ARROW * ARROW_AHEAD / MASS;
/// Height of the centre of mass.
pub const HEIGHT: f64 = 0.5;
/// Moment of inertia of the sphere about its own centre.
const SPHERE_INERTIA: f64 = 0.4 * SPHERE * 0.25;
/// Moment of inertia about the axis of the arrow.
pub const INERTIA_ALONG: f64 = SPHERE_INERTIA + ARROW * (0.04 + 0.04) / 12.0;
/// Moment of inertia about any axis through the centre of mass across the arrow.
pub const INERTIA_ACROSS: f64 = SPHERE_INERTIA
    + SPHERE * MASS_AHEAD * MASS_AHEAD
    + ARROW * (1.0 + 0.04) / 12.0
    + ARROW * (ARROW_AHEAD - MASS_AHEAD) * (ARROW_AHEAD - MASS_AHEAD);

/// Pose, and the velocities that were drawn for the initial state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RllabPoint {
    /// Position of the sphere's centre.
    pub x: f64,
    /// Position of the sphere's centre.
    pub y: f64,
    /// Heading in radians; it is not wrapped.
    pub theta: f64,
    /// The velocities along x and y and the turn rate, as drawn for the initial state.
    pub velocity: [f64; 3],
}

impl RllabPoint {
    /// A random initial state near the origin: the pose has standard deviation 0.01, the velocities 0.1.
    pub fn draw(rng: &mut impl Rng) -> RllabPoint {
        let [x, y] = normal_pair(rng);
        let [theta, vx] = normal_pair(rng);
        let [vy, w] = normal_pair(rng);
        RllabPoint { x: 0.01 * x, y: 0.01 * y, theta: 0.01 * theta, velocity: [0.1 * vx, 0.1 * vy, 0.1 * w] }
    }

    /// One step of an action in [-1, 1]^2, clipped; the position stays within `bound` of the origin on each axis.
    pub fn drive(&mut self, action: [f64; 2], bound: f64) {
        let [forward, turn] = action.map(|a| a.clamp(-1.0, 1.0));
        self.theta += MAX_TURN * turn;
        let [cos, sin] = self.heading();
        self.x = (self.x + forward * cos).clamp(-bound, bound);
        self.y = (self.y + forward * sin).clamp(-bound, bound);
    }

    /// x, y, heading and the three velocities.
    pub(crate) fn numbers(&self) -> [f64; 6] {
        let [vx, vy, w] = self.velocity;
        [self.x, self.y, self.theta, vx, vy, w]
    }

    pub(crate) fn from_numbers([x, y, theta, vx, vy, w]: [f64; 6]) -> RllabPoint {
        RllabPoint { x, y, theta, velocity: [vx, vy, w] }
    }

    /// Cosine and sine of the heading.
    pub fn heading(&self) -> [f64; 2] {
        [libm::cos(self.theta), libm::sin(self.theta)]
    }

    /// Where the centre of mass is in the plane.
    pub fn centre_of_mass(&self) -> [f64; 2] {
        let [cos, sin] = self.heading();
        [self.x + MASS_AHEAD * cos, self.y + MASS_AHEAD * sin]
    }

    /// Adds sphere and arrow to a scene.
    pub fn show(&self, scene: &mut Scene) {
        let [cos, sin] = self.heading();
        let centre = [self.x + ARROW_AHEAD * cos, self.y + ARROW_AHEAD * sin];
        scene.add(Role::Agent, Form::Block { centre, half: ARROW_HALF, angle: self.theta });
        scene.disc(Role::Agent, [self.x, self.y], RADIUS);
        scene.agents.push([self.x, self.y]);
    }

    /// Whether the pose is finite.
    pub fn is_finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite() && self.theta.is_finite()
    }
}

/// Two independent standard normal numbers, by the Box-Muller method.
fn normal_pair(rng: &mut impl Rng) -> [f64; 2] {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    let radius = (-2.0 * libm::log1p(-u)).sqrt();
    let (sin, cos) = libm::sincos(std::f64::consts::TAU * v);
    [radius * cos, radius * sin]
}

/// What the numbers of an action are.
pub(crate) fn labels() -> Vec<Label> {
    each("drive", &["forward"], "m a step")
        .chain(each("turn", &["left"], "0.25 rad a step, before the drive"))
        .collect()
}
