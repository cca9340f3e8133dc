//! Where the Ant's parts are, its mass matrix and the forces on it, all in the torso's frame.
//!
//! A leg is flat: with u its horizontal direction after the hip, z the torso's axis and w = z x u, thigh and shin lie
//! in the plane of u and z, the hip turns about z and the ankle about w. In these terms most entries of the mass matrix
//! are zero or constant, and none depends on how the torso lies in the world.

use super::arrow::{Arrow, Dofs};
use super::model::{
    ARMATURE, Capsule, DAMPING, DIRECTIONS, GRAVITY, LEGS, LENGTH, SHIN, THIGH, TOTAL_MASS, TRUNK_INERTIA,
};
use crate::physics::space::{Vec3, add, cross, dot, scale};

const Z: Vec3 = [0.0, 0.0, 1.0];

/// One leg, relative to the torso's centre.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leg {
    /// Direction of the capsule that is fixed to the torso.
    pub out: Vec3,
    /// Direction of the thigh.
    pub thigh: Vec3,
    /// z x thigh: the ankle's axis.
    pub axis: Vec3,
    /// Direction of the shin.
    pub shin: Vec3,
    pub hip: Vec3,
    pub knee: Vec3,
    pub foot: Vec3,
    sin: f64,
    cos: f64,
}

impl Leg {
    fn new(number: usize, [hip, ankle]: [f64; 2]) -> Leg {
        let [x, y] = DIRECTIONS[number];
        let (s, c) = libm::sincos(hip);
        let (sin, cos) = libm::sincos(ankle);
        let out = [x, y, 0.0];
        let thigh = [c * x - s * y, s * x + c * y, 0.0];
        let shin = [cos * thigh[0], cos * thigh[1], -sin];
        let hip = scale(LENGTH, out);
        let knee = add(hip, LENGTH, thigh);
        let foot = add(knee, 2.0 * LENGTH, shin);
        Leg { out, thigh, axis: [-thigh[1], thigh[0], 0.0], shin, hip, knee, foot, sin, cos }
    }
}

/// The four legs at these angles of hip and ankle.
pub(super) fn legs(angles: &[[f64; 2]; LEGS]) -> [Leg; LEGS] {
    // Not by a closure: each leg would be copied four times.
    let [a, b, c, d] = *angles;
    [Leg::new(0, a), Leg::new(1, b), Leg::new(2, c), Leg::new(3, d)]
}

/// Finds the mass matrix, and returns the force that is there without constraints: gravity, inertia, damping and `torque`.
/// `up` is the world's vertical. A matrix that is returned would be copied while it is still being written.
pub(super) fn smooth(legs: &[Leg; LEGS], up: Vec3, v: &Dofs, torque: &[[f64; 2]; LEGS], mass: &mut Arrow) -> Dofs {
    let omega = [v.torso[3], v.torso[4], v.torso[5]];
    let spin: Vec3 = std::array::from_fn(|i| TRUNK_INERTIA[i] * omega[i]);
    let mut sums = Sums {
        moment: [0.0; 3],
        inertia: [TRUNK_INERTIA[0], 0.0, TRUNK_INERTIA[1], 0.0, 0.0, TRUNK_INERTIA[2]],
        // The trunk's own gravity and all other weight: each body adds only its inertial force.
        force: scale(TOTAL_MASS * GRAVITY, up),
        torque: cross(omega, spin),
    };
    let mut force = Dofs::default();
    for (i, leg) in legs.iter().enumerate() {
        (mass.side[i], mass.leg[i]) = leg_mass(leg, &mut sums);
        let bias = leg_bias(leg, up, omega, v.legs[i], &mut sums);
        force.legs[i] = std::array::from_fn(|j| torque[i][j] - DAMPING * v.legs[i][j] - bias[j]);
    }
    for i in 0..3 {
        force.torso[i] = -sums.force[i];
        force.torso[3 + i] = -sums.torque[i];
        mass.torso[i] = [0.0; 6];
        mass.torso[i][i] = TOTAL_MASS;
    }
    let [x, y, z] = sums.moment;
    let [xx, yx, yy, zx, zy, zz] = sums.inertia;
    mass.torso[3] = [0.0, -z, y, xx, 0.0, 0.0];
    mass.torso[4] = [z, 0.0, -x, yx, yy, 0.0];
    mass.torso[5] = [-y, x, 0.0, zx, zy, zz];
    force
}

/// What the bodies contribute to the torso's block and force.
struct Sums {
    /// Mass times place.
    moment: Vec3,
    /// Lower triangle of the inertia about the torso's centre.
    inertia: [f64; 6],
    force: Vec3,
    torque: Vec3,
}

impl Sums {
    /// A capsule along `d` with its middle at `c`.
    fn add_mass(&mut self, body: Capsule, d: Vec3, c: Vec3) {
        self.moment = add(self.moment, body.mass, c);
        let level = body.across + body.mass * dot(c, c);
        let (long, m) = (body.axial - body.across, body.mass);
        let entry = |i: usize, j: usize| long * d[i] * d[j] - m * c[i] * c[j];
        self.inertia[0] += level + entry(0, 0);
        self.inertia[1] += entry(1, 0);
        self.inertia[2] += level + entry(1, 1);
        self.inertia[3] += entry(2, 0);
        self.inertia[4] += entry(2, 1);
        self.inertia[5] += level + entry(2, 2);
    }

    fn add_force(&mut self, place: Vec3, force: Vec3, torque: Vec3) {
        self.force = add(self.force, 1.0, force);
        self.torque = add(add(self.torque, 1.0, cross(place, force)), 1.0, torque);
    }
}

/// The middles of thigh and shin.
fn middles(leg: &Leg) -> (Vec3, Vec3) {
    (add(leg.hip, LENGTH / 2.0, leg.thigh), add(leg.knee, LENGTH, leg.shin))
}

/// How the middle of the shin moves with the ankle's angle.
fn swing(leg: &Leg) -> Vec3 {
    scale(-LENGTH, [leg.sin * leg.thigh[0], leg.sin * leg.thigh[1], leg.cos])
}

/// A leg's columns and block of the mass matrix.
fn leg_mass(leg: &Leg, sums: &mut Sums) -> ([[f64; 6]; 2], [f64; 3]) {
    let (thigh, shin) = middles(leg);
    sums.add_mass(THIGH, leg.thigh, thigh);
    sums.add_mass(SHIN, leg.shin, shin);
    let reach = LENGTH + LENGTH * leg.cos;
    let long = SHIN.axial - SHIN.across;

    let on_thigh = scale(THIGH.mass * LENGTH / 2.0, leg.axis);
    let on_shin = scale(SHIN.mass * reach, leg.axis);
    let hip_force = add(on_thigh, 1.0, on_shin);
    let mut hip_torque = add(cross(thigh, on_thigh), 1.0, cross(shin, on_shin));
    hip_torque = add(hip_torque, -long * leg.sin, leg.shin);
    hip_torque[2] += THIGH.across + SHIN.across;

    let ankle_force = scale(SHIN.mass, swing(leg));
    let ankle_torque = add(cross(shin, ankle_force), SHIN.across, leg.axis);

    let hip = THIGH.mass * LENGTH * LENGTH / 4.0
        + THIGH.across
        + SHIN.mass * reach * reach
        + SHIN.across
        + long * leg.sin * leg.sin
        + ARMATURE;
    let ankle = SHIN.mass * LENGTH * LENGTH + SHIN.across + ARMATURE;
    ([join(hip_force, hip_torque), join(ankle_force, ankle_torque)], [hip, 0.0, ankle])
}

/// The forces that hip and ankle need to keep a leg from accelerating; its pull on the torso goes into the sums.
fn leg_bias(leg: &Leg, up: Vec3, omega: Vec3, [hip_rate, ankle_rate]: [f64; 2], sums: &mut Sums) -> [f64; 2] {
    let (thigh, shin) = middles(leg);
    let weight = scale(GRAVITY, up);

    let thigh_omega = add(omega, hip_rate, Z);
    let thigh_alpha = scale(hip_rate, cross(omega, Z));
    let hip_acc = cross(omega, cross(omega, leg.hip));
    // Of a point one unit along the thigh, relative to the hip.
    let along = add(cross(thigh_alpha, leg.thigh), 1.0, cross(thigh_omega, cross(thigh_omega, leg.thigh)));
    let thigh_force = scale(THIGH.mass, add(hip_acc, LENGTH / 2.0, along));
    let thigh_torque = gyroscopic(THIGH, leg.thigh, thigh_omega, thigh_alpha);

    let shin_omega = add(thigh_omega, ankle_rate, leg.axis);
    let shin_alpha = add(thigh_alpha, ankle_rate, cross(thigh_omega, leg.axis));
    let knee_acc = add(hip_acc, LENGTH, along);
    let along = add(cross(shin_alpha, leg.shin), 1.0, cross(shin_omega, cross(shin_omega, leg.shin)));
    let shin_force = scale(SHIN.mass, add(knee_acc, LENGTH, along));
    let shin_torque = gyroscopic(SHIN, leg.shin, shin_omega, shin_alpha);

    sums.add_force(thigh, thigh_force, thigh_torque);
    sums.add_force(shin, shin_force, shin_torque);
    // The torso's force has the whole weight already; its torque and the hinges do not.
    let pull = add(scale(THIGH.mass, thigh), SHIN.mass, shin);
    sums.torque = add(sums.torque, 1.0, cross(pull, weight));
    let (on_thigh, on_shin) = (add(thigh_force, THIGH.mass, weight), add(shin_force, SHIN.mass, weight));
    let hip = LENGTH / 2.0 * dot(leg.axis, on_thigh)
        + (LENGTH + LENGTH * leg.cos) * dot(leg.axis, on_shin)
        + thigh_torque[2]
        + shin_torque[2];
    [hip, dot(swing(leg), on_shin) + dot(leg.axis, shin_torque)]
}

/// I alpha + omega x I omega of a capsule along `d`.
fn gyroscopic(body: Capsule, d: Vec3, omega: Vec3, alpha: Vec3) -> Vec3 {
    let times = |x: Vec3| add(scale(body.across, x), (body.axial - body.across) * dot(d, x), d);
    add(times(alpha), 1.0, cross(omega, times(omega)))
}

fn join(a: Vec3, b: Vec3) -> [f64; 6] {
    [a[0], a[1], a[2], b[0], b[1], b[2]]
}

#[cfg(test)]
mod tests {
    use super::super::model::{HINGE_WEIGHTS, LIMB_WEIGHTS, TORSO_WEIGHT};
    use super::*;

    /// A third of the trace of J M^-1 J' for a point of leg 1 that the first `hinges` hinges move.
    fn weight(mass: &Arrow, leg: &Leg, point: Vec3, hinges: usize) -> f64 {
        let mut sum = 0.0;
        for i in 0..3 {
            let mut d = [0.0; 3];
            d[i] = 1.0;
            let mut row = Dofs { torso: join(d, cross(point, d)), ..Dofs::default() };
            let levers = [cross(Z, add(point, -1.0, leg.hip)), cross(leg.axis, add(point, -1.0, leg.knee))];
            for (out, lever) in row.legs[0].iter_mut().zip(levers).take(hinges) {
                *out = dot(lever, d);
            }
            sum += row.dot(&mass.solve(&row));
        }
        sum / 3.0
    }

    #[test]
    fn the_weights_of_constraints_follow_from_the_mass_matrix() {
        let legs = legs(&[[0.0; 2]; LEGS]);
        let mut mass = Arrow::default();
        smooth(&legs, Z, &Dofs::default(), &[[0.0; 2]; LEGS], &mut mass);
        let check = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-13, "{found} {expected}");
        for (hinge, expected) in HINGE_WEIGHTS.into_iter().enumerate() {
            let mut unit = Dofs::default();
            unit.legs[2][hinge] = 1.0;
            check(unit.dot(&mass.solve(&unit)), expected);
        }
        let leg = &legs[0];
        let (thigh, shin) = middles(leg);
        check(weight(&mass, leg, [0.0; 3], 0), TORSO_WEIGHT);
        check(weight(&mass, leg, scale(0.5, leg.hip), 0), LIMB_WEIGHTS[0]);
        check(weight(&mass, leg, thigh, 1), LIMB_WEIGHTS[1]);
        check(weight(&mass, leg, shin, 2), LIMB_WEIGHTS[2]);
    }

    #[test]
    fn masses_are_the_originals() {
        let check = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
        check(THIGH.mass, 0.0391577537284667);
        check(THIGH.across, 5.679660831928e-4);
        check(THIGH.axial, 1.1844189805957e-4);
        check(SHIN.mass, 0.06759220453268024);
        check(SHIN.across, 2.67479066003818e-3);
        check(SHIN.axial, 2.0943214063305e-4);
    }

    #[test]
    fn solving_undoes_multiplying() {
        let legs = legs(&[[0.3, 0.7], [-0.2, 1.1], [0.1, 0.5], [0.0, 0.9]]);
        let mut mass = Arrow::default();
        smooth(&legs, Z, &Dofs::default(), &[[0.0; 2]; LEGS], &mut mass);
        let torso = [0.3, -1.0, 2.0, 0.7, -0.4, 1.5];
        let x = Dofs { torso, legs: [[1.0, -2.0], [0.5, 0.25], [-3.0, 0.1], [2.0, 4.0]] };
        let error = mass.solve(&mass.times(&x)).plus(-1.0, &x);
        assert!(error.dot(&error) < 1e-26, "{error:?}");
    }
}
