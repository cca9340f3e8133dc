//! What holds the Ant back: joint limits and the ground, as rows of a soft constraint problem.

use super::arrow::{Arrow, Dofs};
use super::dynamics::Leg;
use super::model::{
    HINGE_WEIGHTS, LEGS, LIMB_RADIUS, LIMB_WEIGHTS, MARGIN, RANGES, RESTITUTION, STIFFNESS, TORSO_RADIUS, TORSO_WEIGHT,
    impedance,
};
use crate::physics::space::{Vec3, add, cross, dot, scale};

/// Torso, and both ends of three capsules per leg.
const MAX_CONTACTS: usize = 1 + 6 * LEGS;
/// A hinge is beyond at most one of its limits; a contact has four rows.
pub(super) const MAX_ROWS: usize = 2 * LEGS + 4 * MAX_CONTACTS;

/// `J a >= target`, softly: falling short by r costs `weight r^2 / 2`.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    torso: [f64; 6],
    leg: [f64; 2],
    /// Whose hinges `leg` are; with zeros there, any.
    number: usize,
    /// Joint limits do not involve the torso.
    reaches_torso: bool,
    weight: f64,
    target: f64,
}

/// J a - target of every row.
pub(super) type Gaps = [f64; MAX_ROWS];

/// The constraints of one moment, in room that is used again.
#[derive(Clone, Debug)]
pub(super) struct Constraints {
    rows: Vec<Row>,
    contacts: usize,
}

/// How the torso lies and moves.
pub(super) struct Ground {
    /// Height of the torso's centre.
    pub height: f64,
    /// The world's axes in the torso's frame.
    pub axes: [Vec3; 3],
}

/// One sphere that may touch the ground.
struct Candidate {
    centre: Vec3,
    radius: f64,
    /// First tangent before projection onto the ground.
    along: Vec3,
    weight: f64,
    /// 0 for the trunk, 1 for a thigh, 2 for a shin: how many hinges move it.
    hinges: usize,
    number: usize,
}

impl Constraints {
    pub fn new() -> Constraints {
        // An array of rows would be filled and copied in every step.
        Constraints { rows: Vec::with_capacity(MAX_ROWS), contacts: 0 }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many contacts there are.
    pub fn contacts(&self) -> usize {
        self.contacts
    }

    /// Finds the constraints of this moment.
    pub fn find(&mut self, angles: &[[f64; 2]; LEGS], legs: &[Leg; LEGS], ground: &Ground, v: &Dofs) {
        self.rows.clear();
        self.contacts = 0;
        for (number, angles) in angles.iter().enumerate() {
            for (hinge, angle) in angles.iter().enumerate() {
                let [low, high] = RANGES[hinge];
                self.limit(number, hinge, 1.0, angle - low, v);
                self.limit(number, hinge, -1.0, high - angle, v);
            }
        }
        let up = ground.axes[2];
        let trunk = |along, radius, weight| Candidate { centre: [0.0; 3], radius, along, weight, hinges: 0, number: 0 };
        self.contact(&trunk(ground.axes[1], TORSO_RADIUS, TORSO_WEIGHT), legs, ground, v);
        let clear = |centre: Vec3| ground.height + dot(up, centre) - LIMB_RADIUS >= MARGIN;
        let origin_clear = clear([0.0; 3]);
        for (number, leg) in legs.iter().enumerate() {
            let ends = [[[0.0; 3], leg.hip], [leg.hip, leg.knee], [leg.knee, leg.foot]];
            let free = [origin_clear, clear(leg.hip), clear(leg.knee), clear(leg.foot)];
            if free == [true; 4] {
                continue;
            }
            let along = [leg.out, leg.thigh, leg.shin];
            for (hinges, (ends, along)) in ends.into_iter().zip(along).enumerate() {
                for (end, centre) in ends.into_iter().enumerate() {
                    if !free[hinges + end] {
                        let weight = LIMB_WEIGHTS[hinges];
                        let limb = Candidate { centre, radius: LIMB_RADIUS, along, weight, hinges, number };
                        self.contact(&limb, legs, ground, v);
                    }
                }
            }
        }
    }

    fn limit(&mut self, number: usize, hinge: usize, sign: f64, distance: f64, v: &Dofs) {
        if distance < 0.0 {
            let hard = impedance(distance);
            let mut row = Row { number, weight: hard / ((1.0 - hard) * HINGE_WEIGHTS[hinge]), ..Row::default() };
            row.leg[hinge] = sign;
            row.target = -RESTITUTION * sign * v.legs[number][hinge] - STIFFNESS * hard * distance;
            self.rows.push(row);
        }
    }

    /// Adds the four edges of the friction pyramid, n +- t1 and n +- t2 (the friction coefficient is 1).
    fn contact(&mut self, it: &Candidate, legs: &[Leg; LEGS], ground: &Ground, v: &Dofs) {
        let up = ground.axes[2];
        let distance = ground.height + dot(up, it.centre) - it.radius;
        // Written so that a distance that is NaN is no contact.
        let near = distance < MARGIN;
        if !near {
            return;
        }
        let point = add(it.centre, -(it.radius + distance / 2.0), up);
        let level = add(it.along, -dot(it.along, up), up);
        let norm = dot(level, level).sqrt();
        // An upright capsule has no direction on the ground; the original then takes the world's x.
        let first = if norm < 1e-15 { ground.axes[0] } else { scale(1.0 / norm, level) };
        let second = cross(up, first);
        let leg = &legs[it.number];
        let hip_lever = cross([0.0, 0.0, 1.0], add(point, -1.0, leg.hip));
        let ankle_lever = cross(leg.axis, add(point, -1.0, leg.knee));

        let hard = impedance(distance - MARGIN);
        let weight = hard / ((1.0 - hard) * 4.0 * it.weight);
        let spring = -STIFFNESS * hard * (distance - MARGIN);
        for (sign, tangent) in [(1.0, first), (-1.0, first), (1.0, second), (-1.0, second)] {
            let d = add(up, sign, tangent);
            let turn = cross(point, d);
            let hip = if it.hinges >= 1 { dot(hip_lever, d) } else { 0.0 };
            let ankle = if it.hinges >= 2 { dot(ankle_lever, d) } else { 0.0 };
            let torso = [d[0], d[1], d[2], turn[0], turn[1], turn[2]];
            let mut row = Row { torso, leg: [hip, ankle], number: it.number, reaches_torso: true, weight, target: 0.0 };
            row.target = spring - RESTITUTION * row.times(v);
            self.rows.push(row);
        }
        self.contacts += 1;
    }

    /// Writes how far each row is above its target; returns which ones are below, one bit each.
    pub fn gaps(&self, a: &Dofs, gaps: &mut Gaps) -> u128 {
        for (gap, row) in gaps.iter_mut().zip(&self.rows) {
            *gap = row.times(a) - row.target;
        }
        self.below(gaps)
    }

    /// Which rows are below their target, one bit each.
    pub fn below(&self, gaps: &Gaps) -> u128 {
        gaps[..self.len()].iter().enumerate().fold(0, |bits, (i, gap)| bits | (u128::from(*gap < 0.0) << i))
    }

    /// Adds the rows whose bits are set to the quadratic problem `matrix * a = right`.
    pub fn load(&self, active: u128, matrix: &mut Arrow, right: &mut Dofs) {
        for (i, row) in self.rows.iter().enumerate() {
            if active >> i & 1 == 1 {
                row.load(matrix, right);
            }
        }
    }

    /// Slope and curvature of the rows' cost at `t` along a line on which the gaps go from `from` to `to`.
    pub fn slope(&self, from: &Gaps, to: &Gaps, t: f64) -> (f64, f64) {
        let (mut slope, mut curvature) = (0.0, 0.0);
        for ((row, from), to) in self.rows.iter().zip(from).zip(to) {
            let rate = to - from;
            let gap = from + t * rate;
            if gap < 0.0 {
                slope += row.weight * rate * gap;
                curvature += row.weight * rate * rate;
            }
        }
        (slope, curvature)
    }
}

impl Row {
    #[inline]
    fn times(&self, a: &Dofs) -> f64 {
        let [hip, ankle] = a.legs[self.number];
        let hinges = self.leg[0] * hip + self.leg[1] * ankle;
        if !self.reaches_torso {
            return hinges;
        }
        let (j, x) = (&self.torso, &a.torso);
        (j[0] * x[0] + j[1] * x[1] + j[2] * x[2]) + (j[3] * x[3] + j[4] * x[4] + j[5] * x[5]) + hinges
    }

    #[inline]
    fn load(&self, matrix: &mut Arrow, right: &mut Dofs) {
        let n = self.number;
        let [hip, ankle] = self.leg;
        let (by_hip, by_ankle) = (self.weight * hip, self.weight * ankle);
        matrix.leg[n][0] += by_hip * hip;
        matrix.leg[n][1] += by_hip * ankle;
        matrix.leg[n][2] += by_ankle * ankle;
        right.legs[n][0] += by_hip * self.target;
        right.legs[n][1] += by_ankle * self.target;
        if !self.reaches_torso {
            return;
        }
        for i in 0..6 {
            let by = self.weight * self.torso[i];
            right.torso[i] += by * self.target;
            matrix.side[n][0][i] += by_hip * self.torso[i];
            matrix.side[n][1][i] += by_ankle * self.torso[i];
            // The upper triangle is not read, but whole rows of six are quicker to add.
            for j in 0..6 {
                matrix.torso[i][j] += by * self.torso[j];
            }
        }
    }
}
