//! The particle world of OpenAI's multi-agent tasks: discs in the plane that are pushed, dragged, and push each other.
//!
//! With delta = p_i - p_j, D = |delta| and k = 0.001, discs i and j of radius 0.15 feel the forces f and -f,
//!
//! ```text
//! f = 100 (delta / D) k ln(1 + exp(-(D - 0.3) / k));     v <- 0.75 v + 0.1 f;     p <- p + 0.1 v
//! ```
//!
//! The order of the two updates is the difference between the original world and its successor: see [`Order`].

use serde::{Deserialize, Serialize};

use crate::math::exp_of_negative;

/// The most discs a world may have.
pub const MAX_PARTICLES: usize = 8;
/// Discs nearer than this overlap.
pub const CONTACT_DISTANCE: f64 = 0.3;
const TIME_STEP: f64 = 0.1;
const DAMPING: f64 = 0.25;
const CONTACT_FORCE: f64 = 100.0;
const CONTACT_MARGIN: f64 = 1e-3;

/// What is updated first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Velocity, then position with the new velocity: OpenAI's world.
    #[default]
    VelocityFirst,
    /// Position with the old velocity, then velocity: MPE2's world.
    PositionFirst,
}

/// Positions and velocities of all discs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Particles {
    /// Where each is.
    pub positions: Vec<[f64; 2]>,
    /// How fast each moves.
    pub velocities: Vec<[f64; 2]>,
}

impl Particles {
    /// Discs at rest.
    ///
    /// # Panics
    ///
    /// If there are more than [`MAX_PARTICLES`].
    pub fn at_rest(positions: Vec<[f64; 2]>) -> Particles {
        assert!(positions.len() <= MAX_PARTICLES, "a world has at most {MAX_PARTICLES} discs");
        let velocities = vec![[0.0; 2]; positions.len()];
        Particles { positions, velocities }
    }

    /// One step under these forces, one per disc, and the contact forces at the current positions.
    pub fn step(&mut self, forces: &[[f64; 2]], order: Order) {
        let n = self.positions.len();
        let mut total = [[0.0; 2]; MAX_PARTICLES];
        total[..n].copy_from_slice(&forces[..n]);
        for i in 0..n {
            for j in i + 1..n {
                let force = contact_force(self.positions[i], self.positions[j]);
                for axis in 0..2 {
                    total[i][axis] += force[axis];
                    total[j][axis] -= force[axis];
                }
            }
        }
        for ((position, velocity), force) in self.positions.iter_mut().zip(&mut self.velocities).zip(&total) {
            for axis in 0..2 {
                let old = velocity[axis];
                let new = old * (1.0 - DAMPING) + force[axis] * TIME_STEP;
                velocity[axis] = new;
                position[axis] += TIME_STEP
                    * match order {
                        Order::VelocityFirst => new,
                        Order::PositionFirst => old,
                    };
            }
        }
    }

    /// How many pairs overlap.
    pub fn overlapping_pairs(&self) -> usize {
        let at = &self.positions;
        let overlaps = |i: usize| at[..i].iter().filter(|p| distance(**p, at[i]) < CONTACT_DISTANCE).count();
        (0..at.len()).map(overlaps).sum()
    }
}

/// The force of the disc at `b` on the one at `a`; zero if both are at the same point, where it has no direction.
fn contact_force(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    let delta = [a[0] - b[0], a[1] - b[1]];
    let distance = distance(a, b);
    if distance == 0.0 {
        return [0.0; 2];
    }
    let penetration = softplus(-(distance - CONTACT_DISTANCE) / CONTACT_MARGIN) * CONTACT_MARGIN;
    delta.map(|d| CONTACT_FORCE * d / distance * penetration)
}

/// ln(1 + e^x) without overflow.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + libm::log1p(exp_of_negative(-x.abs()))
}

/// Distance in the plane.
pub fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    let (dx, dy) = (a[0] - b[0], a[1] - b[1]);
    (dx * dx + dy * dy).sqrt()
}
