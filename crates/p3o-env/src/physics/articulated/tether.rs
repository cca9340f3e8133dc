//! What carries Safety-Gymnasium's gremlins: each cube is welded softly to a carrier that goes around a circle.
//!
//! The weld is MuJoCo's: six rows that always pull, three for the place and three for the turn, as the vector part of the quaternion
//! that is left to go. All of them act on one cube, so they become a part of its mass matrix and of the force on it:
//!
//! ```text
//! a' M a / 2 - f' a + weight |J a - target|^2 / 2 = a' (M + weight J' J) a / 2 - (f + weight J' target)' a + ...
//! target = -damping J v - stiffness impedance r
//! ```
//!
//! Where a cube is left to itself, its acceleration has a closed form ([`Pull::alone`]).

use serde::{Deserialize, Serialize};

use super::constraints::reference;
use super::cubes::{Cube, GRAVITY, INERTIA, MASS, WEIGHT};
use super::model::Soft;
use crate::physics::space::{Vec3, add, compose, cross, dot, scale, sub};

/// Radius of the circle that every carrier goes around, once in 2 pi seconds.
const TRAVEL: f64 = 0.35;
/// The carrier's height. A cube keeps its place beside the carrier, as it was at the start: its own height comes on top of this, and it hovers.
const HEIGHT: f64 = 0.1;
const SOFT: Soft = Soft { reference: [0.02, 1.5], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] };

/// Where a cube is beside its carrier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Home {
    /// Its centre.
    pub place: [f64; 3],
    /// A quaternion.
    pub turn: [f64; 4],
}

/// The carrier of all cubes, and the time that it goes by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tether {
    pub(super) homes: Vec<Home>,
    carrier: [f64; 3],
    time: f64,
}

impl Tether {
    /// At the beginning: the carrier is at the origin until it is moved for the first time.
    pub fn new(homes: Vec<Home>) -> Tether {
        Tether { homes, carrier: [0.0; 3], time: 0.0 }
    }

    /// The same at a later time, the last move being a moment ago.
    pub fn at(homes: Vec<Home>, time: f64, moment: f64) -> Tether {
        let mut tether = Tether { homes, carrier: [0.0; 3], time: time - moment };
        if time > 0.0 {
            tether.carry();
        }
        Tether { time, ..tether }
    }

    /// Where each cube is beside the carrier.
    pub fn homes(&self) -> &[Home] {
        &self.homes
    }

    /// In seconds.
    pub fn time(&self) -> f64 {
        self.time
    }

    /// Moves the carrier to where it is at this time.
    pub(super) fn carry(&mut self) {
        let (sin, cos) = libm::sincos(self.time);
        self.carrier = [sin * TRAVEL, cos * TRAVEL, HEIGHT];
    }

    pub(super) fn advance(&mut self, substep: f64) {
        self.time += substep;
    }

    fn apart(&self, which: usize, cube: &Cube) -> Vec3 {
        sub(add(self.homes[which].place, 1.0, self.carrier), cube.place)
    }

    /// How far a cube can get in so many seconds if nothing touches it: in all, and up or down.
    pub(super) fn range(&self, which: usize, cube: &Cube, seconds: f64) -> [f64; 2] {
        let apart = self.apart(which, cube);
        // The weld is damped beyond the critical ratio: a cube at rest makes less than a tenth of its way in 10 ms and never overshoots.
        let range = |apart: f64, speed: f64| seconds * (speed + 10.0 * apart + TRAVEL);
        // Carriers keep their height.
        let level = range(0.0, 0.0);
        [range(dot(apart, apart).sqrt(), cube.speed()), range(apart[2].abs(), cube.velocity[2].abs()) - level]
    }

    /// How a cube is pulled.
    pub(super) fn pull(&self, which: usize, cube: &Cube) -> Pull {
        let apart = self.apart(which, cube);
        let [w, x, y, z] = cube.turn;
        let [real, i, j, k] = compose([w, -x, -y, -z], self.homes[which].turn);
        let to_turn = [i, j, k];
        let (stiffness, damping, impedance) = reference(&SOFT, (dot(apart, apart) + dot(to_turn, to_turn)).sqrt());
        let weight = impedance / ((1.0 - impedance) * WEIGHT);
        let spring = stiffness * impedance;
        // J = (v x - real) / 2 takes rates about the cube's axes to the rate of the vector v; J' = (-v x - real) / 2.
        let half = |sign: f64, u: Vec3| scale(0.5, add(scale(sign, cross(to_turn, u)), -real, u));
        let target = add(scale(-damping, half(1.0, cube.spin)), -spring, to_turn);
        Pull {
            weight,
            real,
            to_turn,
            is_turned: to_turn != [0.0; 3] || cube.spin != [0.0; 3],
            force: scale(weight, add(scale(spring, apart), -damping, cube.velocity)),
            moment: scale(weight, half(-1.0, target)),
        }
    }
}

/// A weld's share of a cube's equation.
pub(super) struct Pull {
    weight: f64,
    /// The turn that is left to go, a quaternion.
    real: f64,
    to_turn: Vec3,
    is_turned: bool,
    force: Vec3,
    moment: Vec3,
}

impl Pull {
    /// `weight J' J` of turning is `a 1 - b v v'`.
    fn turning(&self) -> [f64; 2] {
        let b = 0.25 * self.weight;
        [b * (self.real * self.real + dot(self.to_turn, self.to_turn)), b]
    }

    /// Adds it to the lower half of a cube's mass matrix and to the force on it.
    pub fn load<const D: usize>(&self, mass: &mut [[f64; D]], force: &mut [f64]) {
        let [a, b] = self.turning();
        for k in 0..3 {
            mass[k][k] += self.weight;
            mass[k + 3][k + 3] += a;
            for l in 0..=k {
                mass[k + 3][l + 3] -= b * self.to_turn[k] * self.to_turn[l];
            }
            force[k] += self.force[k];
            force[k + 3] += self.moment[k];
        }
    }

    /// The acceleration of a cube that touches nothing.
    pub fn alone(&self) -> [f64; 6] {
        let force = sub(self.force, [0.0, 0.0, MASS * GRAVITY]);
        let mut acceleration = [0.0; 6];
        acceleration[..3].copy_from_slice(&scale(1.0 / (MASS + self.weight), force));
        if self.is_turned {
            let [a, b] = self.turning();
            let a = a + INERTIA;
            let along = b * dot(self.to_turn, self.moment) / (a - b * dot(self.to_turn, self.to_turn));
            acceleration[3..].copy_from_slice(&scale(1.0 / a, add(self.moment, along, self.to_turn)));
        }
        acceleration
    }
}
