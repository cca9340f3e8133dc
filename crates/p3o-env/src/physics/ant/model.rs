//! The Ant's numbers: masses, inertias, lengths, limits and the weights of its constraints.

use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

/// Length of a substep in seconds.
pub const SUBSTEP: f64 = 0.01;
/// Substeps in one step of the world.
pub const SUBSTEPS: usize = 5;
/// Torque in newton metres of an action of 1.
pub const GEAR: f64 = 150.0;

pub(super) const GRAVITY: f64 = 9.81;
/// Added to each hinge's own inertia.
pub(super) const ARMATURE: f64 = 1.0;
/// Torque against each hinge's rate.
pub(super) const DAMPING: f64 = 1.0;

/// How many legs the Ant has.
pub const LEGS: usize = 4;
/// Horizontal directions of the legs; hips and knees lie on them when the hips are at 0.
pub(super) const DIRECTIONS: [[f64; 2]; LEGS] = [
    [FRAC_1_SQRT_2, FRAC_1_SQRT_2],
    [-FRAC_1_SQRT_2, FRAC_1_SQRT_2],
    [-FRAC_1_SQRT_2, -FRAC_1_SQRT_2],
    [FRAC_1_SQRT_2, -FRAC_1_SQRT_2],
];
/// Ankle axes are +-(z x direction); with this sign the angle counts downwards in every leg.
pub(super) const ANKLE_SIGNS: [f64; LEGS] = [1.0, -1.0, -1.0, 1.0];
/// Which action drives the hip of each leg; the next one drives its ankle.
pub(super) const HIP_ACTIONS: [usize; LEGS] = [2, 4, 6, 0];

const DENSITY: f64 = 5.0;
/// Radius of the torso's sphere.
pub const TORSO_RADIUS: f64 = 0.25;
/// Radius of every capsule of a leg.
pub const LIMB_RADIUS: f64 = 0.08;
/// Length of the two inner capsules of a leg; the outer one is twice as long.
pub(super) const LENGTH: f64 = 0.2 * SQRT_2;

/// A capsule's mass and its inertia about its middle, along and across its axis.
#[derive(Clone, Copy)]
pub(super) struct Capsule {
    pub mass: f64,
    pub axial: f64,
    pub across: f64,
}

const fn capsule(half: f64) -> Capsule {
    const R: f64 = LIMB_RADIUS;
    let cylinder = DENSITY * PI * R * R * 2.0 * half;
    let caps = sphere(R);
    Capsule {
        mass: cylinder + caps,
        axial: cylinder * R * R / 2.0 + 0.4 * caps * R * R,
        across: cylinder * (3.0 * R * R + 4.0 * half * half) / 12.0
            + caps * (0.4 * R * R + half * half + 0.75 * half * R),
    }
}

const fn sphere(radius: f64) -> f64 {
    DENSITY * 4.0 / 3.0 * PI * radius * radius * radius
}

/// Between hip and knee.
pub(super) const THIGH: Capsule = capsule(LENGTH / 2.0);
/// Below the knee.
pub(super) const SHIN: Capsule = capsule(LENGTH);

/// The torso's sphere and the four capsules that are fixed to it; their common centre is the origin.
pub(super) const TRUNK_MASS: f64 = sphere(TORSO_RADIUS) + 4.0 * THIGH.mass;
/// Diagonal of the trunk's inertia: by symmetry it has nothing else.
pub(super) const TRUNK_INERTIA: [f64; 3] = {
    let ball = 0.4 * sphere(TORSO_RADIUS) * TORSO_RADIUS * TORSO_RADIUS;
    let across = THIGH.across + THIGH.mass * LENGTH * LENGTH / 4.0;
    let level = ball + 2.0 * (THIGH.axial + across);
    [level, level, ball + 4.0 * across]
};
pub(super) const TOTAL_MASS: f64 = TRUNK_MASS + 4.0 * (THIGH.mass + SHIN.mass);

const DEGREE: f64 = PI / 180.0;
/// Lowest and highest angle of hip and ankle, the ankle's counted downwards.
pub(super) const RANGES: [[f64; 2]; 2] = [[-30.0 * DEGREE, 30.0 * DEGREE], [30.0 * DEGREE, 70.0 * DEGREE]];

/// Diagonal of the inverse mass matrix at the reference pose, for hip and ankle.
pub(super) const HINGE_WEIGHTS: [f64; 2] = [0.9826359559730787, 0.9951024317528863];
/// Mean translational entry of the inverse mass matrix at the reference pose, as seen at a body's centre of mass.
pub(super) const TORSO_WEIGHT: f64 = 1.1014374991441784;
/// The same for the capsule fixed to the torso, the thigh and the shin.
pub(super) const LIMB_WEIGHTS: [f64; 3] = [1.1804717947906862, 1.8087762335752944, 3.9844133285769883];

/// A contact is felt from this distance on.
pub(super) const MARGIN: f64 = 0.01;
/// K and B of every constraint: a critically damped spring with time constant 0.02 s.
pub(super) const STIFFNESS: f64 = 1.0 / (0.95 * 0.95 * 0.02 * 0.02);
pub(super) const RESTITUTION: f64 = 2.0 / (0.95 * 0.02);

/// How hard a constraint is that is violated by `x`: 0.9 at the edge, 0.95 from a millimetre on.
pub(super) fn impedance(x: f64) -> f64 {
    let s = (x.abs() / 0.001).min(1.0);
    let y = if s <= 0.5 { 2.0 * s * s } else { 1.0 - 2.0 * (1.0 - s) * (1.0 - s) };
    0.9 + 0.05 * y
}
