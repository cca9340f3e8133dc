//! Vectors and matrices over the Ant's fourteen degrees of freedom.
//!
//! Legs feel each other only through the torso. Every matrix of the problem therefore is an arrow: a 6x6 block of the
//! torso, a 2x2 block per leg, and a 6x2 block that joins each leg to the torso.

#![expect(clippy::needless_range_loop, reason = "several arrays share each index, as in the formulas")]

use super::model::LEGS;
use crate::physics::lanes::Two;

/// One number per degree of freedom.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Dofs {
    /// Linear, then angular, both in the torso's frame.
    pub torso: [f64; 6],
    /// Hip and ankle of each leg, the ankle counted downwards.
    pub legs: [[f64; 2]; LEGS],
}

impl Dofs {
    /// `self + factor * other`
    pub fn plus(&self, factor: f64, other: &Dofs) -> Dofs {
        let mut sum = *self;
        for (s, o) in sum.torso.iter_mut().zip(&other.torso) {
            *s += factor * o;
        }
        for (s, o) in sum.legs.as_flattened_mut().iter_mut().zip(other.legs.as_flattened()) {
            *s += factor * o;
        }
        sum
    }

    pub fn dot(&self, other: &Dofs) -> f64 {
        let torso: f64 = self.torso.iter().zip(&other.torso).map(|(a, b)| a * b).sum();
        let legs: f64 = self.legs.as_flattened().iter().zip(other.legs.as_flattened()).map(|(a, b)| a * b).sum();
        torso + legs
    }
}

/// A symmetric positive matrix of the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrow {
    /// Lower triangle of the torso's block; the rest is not read.
    pub torso: [[f64; 6]; 6],
    /// For each leg the columns of hip and ankle in the torso's rows.
    pub side: [[[f64; 6]; 2]; LEGS],
    /// For each leg hip-hip, hip-ankle, ankle-ankle.
    pub leg: [[f64; 3]; LEGS],
}

impl Arrow {
    pub fn times(&self, x: &Dofs) -> Dofs {
        let mut y = Dofs::default();
        for i in 0..6 {
            y.torso[i] += self.torso[i][i] * x.torso[i];
            for j in 0..i {
                y.torso[i] += self.torso[i][j] * x.torso[j];
                y.torso[j] += self.torso[i][j] * x.torso[i];
            }
        }
        for ((side, leg), (x_leg, y_leg)) in self.side.iter().zip(&self.leg).zip(x.legs.iter().zip(&mut y.legs)) {
            *y_leg = [leg[0] * x_leg[0] + leg[1] * x_leg[1], leg[1] * x_leg[0] + leg[2] * x_leg[1]];
            for i in 0..6 {
                y.torso[i] += side[0][i] * x_leg[0] + side[1][i] * x_leg[1];
                y_leg[0] += side[0][i] * x.torso[i];
                y_leg[1] += side[1][i] * x.torso[i];
            }
        }
        y
    }

    /// The x of `self * x = right`: legs are eliminated into the torso's block, which is then factored as L D L'.
    pub fn solve(&self, right: &Dofs) -> Dofs {
        let mut torso = self.torso;
        let mut x = *right;
        let inverse = self.leg.map(|[a, b, c]| {
            let scale = 1.0 / (a * c - b * b);
            [c * scale, -b * scale, a * scale]
        });
        for l in 0..LEGS {
            let ([hip, ankle], [p, q, r]) = (&self.side[l], inverse[l]);
            let [f, g] = right.legs[l];
            let (hip, ankle) = (pairs(hip), pairs(ankle));
            for k in 0..3 {
                let s = Two::both(p) * hip[k] + Two::both(q) * ankle[k];
                let t = Two::both(q) * hip[k] + Two::both(r) * ankle[k];
                let right = &mut x.torso.as_chunks_mut().0[k];
                *right = (Two::new(*right) - (s * Two::both(f) + t * Two::both(g))).numbers();
                for (i, (s, t)) in s.numbers().into_iter().zip(t.numbers()).enumerate() {
                    let row = torso[2 * k + i].as_chunks_mut().0;
                    for ((entries, hip), ankle) in row.iter_mut().zip(&hip).zip(&ankle).take(k + 1) {
                        let sum = Two::both(s) * *hip + Two::both(t) * *ankle;
                        *entries = (Two::new(*entries) - sum).numbers();
                    }
                }
            }
        }
        solve_torso(&mut torso, &mut x.torso);
        for l in 0..LEGS {
            let ([p, q, r], [hip, ankle]) = (inverse[l], &self.side[l]);
            let [mut f, mut g] = right.legs[l];
            for i in 0..6 {
                f -= hip[i] * x.torso[i];
                g -= ankle[i] * x.torso[i];
            }
            x.legs[l] = [p * f + q * g, q * f + r * g];
        }
        x
    }
}

fn pairs(numbers: &[f64; 6]) -> [Two; 3] {
    let [a, b, c, d, e, f] = *numbers;
    [[a, b], [c, d], [e, f]].map(Two::new)
}

/// Solves with the lower triangle of a 6x6 matrix in place.
fn solve_torso(m: &mut [[f64; 6]; 6], x: &mut [f64; 6]) {
    let mut inverse = [0.0; 6];
    for j in 0..6 {
        inverse[j] = 1.0 / m[j][j];
        for i in j + 1..6 {
            let factor = m[i][j] * inverse[j];
            for k in j + 1..=i {
                m[i][k] -= factor * m[k][j];
            }
            x[i] -= factor * x[j];
        }
    }
    for i in (0..6).rev() {
        for k in i + 1..6 {
            x[i] -= m[k][i] * x[k];
        }
        x[i] *= inverse[i];
    }
}
