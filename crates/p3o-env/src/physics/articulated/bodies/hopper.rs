//! hopper: what MuJoCo 2.3.3 makes of gymnasium 0.28.1's `hopper.xml`. Written by tools/parity/bodies.py.

use crate::physics::articulated::model::{Actuator, Body, Geom, Integrator, Joint, Kind, Model, Pair, Shape, Soft};

/// The body of `hopper.xml`.
#[rustfmt::skip]
pub static HOPPER: Model = Model {
name: "hopper",
timestep: 0.002, substeps: 4, integrator: Integrator::RungeKutta,
gravity: [0.0, 0.0, -9.81], density: 0.0, viscosity: 0.0,
qpos: &[0.0, 1.25, 0.0, 0.0, 0.0, 0.0],
bodies: &[
    Body { name: "torso", parent: 0, pos: [0.0, 0.0, 1.25], quat: [1.0, 0.0, 0.0, 0.0], mass: 3.6651914291880923, inertia: [0.069245938072875, 0.069245938072875, 0.004450589592585541], ipos: [0.0, 0.0, 0.0], iquat: [1.0, 0.0, 0.0, 0.0], weight: [0.08492239638897521, 0.3528354711504767] },
    Body { name: "thigh", parent: 1, pos: [0.0, 0.0, -0.19999999999999996], quat: [1.0, 0.0, 0.0, 0.0], mass: 4.057890510886818, inertia: [0.09329875682692194, 0.09329875682692194, 0.004941463444708948], ipos: [0.0, 0.0, -0.2250000000000001], iquat: [1.0, 0.0, 0.0, 0.0], weight: [0.05192331014610704, 0.16376851159851913] },
    Body { name: "leg", parent: 2, pos: [0.0, 0.0, -0.7000000000000001], quat: [1.0, 0.0, 0.0, 0.0], mass: 2.7813566959781637, inertia: [0.07230254017320971, 0.07230254017320971, 0.0021821921450855186], ipos: [0.0, 0.0, 0.0], iquat: [1.0, 0.0, 0.0, 0.0], weight: [0.04959511864425975, 0.17633242341688493] },
    Body { name: "foot", parent: 3, pos: [0.13, 0.0, -0.35], quat: [1.0, 0.0, 0.0, 0.0], mass: 5.315574769873931, inertia: [0.1035230805900054, 0.1035230805900054, 0.009242314259448886], ipos: [-0.065, 0.0, 0.1], iquat: [0.7071067811865476, 0.0, -0.7071067811865475, 0.0], weight: [0.06690271076821869, 0.4390001310729386] },
],
joints: &[
    Joint { name: "rootx", body: 1, kind: Kind::Slide, pos: [0.0, 0.0, -1.25], axis: [1.0, 0.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.0, range: None, margin: 0.0, weight: 0.19092791547060126, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "rootz", body: 1, kind: Kind::Slide, pos: [0.0, 0.0, -1.25], axis: [0.0, 0.0, 1.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.0, range: None, margin: 0.0, weight: 0.06383927369632438, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "rooty", body: 1, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, 1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.0, range: None, margin: 0.0, weight: 1.0585064134514302, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "thigh_joint", body: 2, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, -1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 1.0, armature: 1.0, range: Some([-2.6179938779914944, 0.0]), margin: 0.0, weight: 0.9173573040079771, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "leg_joint", body: 3, kind: Kind::Hinge, pos: [0.0, 0.0, 0.25], axis: [0.0, -1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 1.0, armature: 1.0, range: Some([-2.6179938779914944, 0.0]), margin: 0.0, weight: 0.8423092317158409, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "foot_joint", body: 4, kind: Kind::Hinge, pos: [-0.13, 0.0, 0.1], axis: [0.0, -1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 1.0, armature: 1.0, range: Some([-0.7853981633974483, 0.7853981633974483]), margin: 0.0, weight: 0.9000381439194957, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
],
geoms: &[
    Geom { name: "floor", body: 0, shape: Shape::Plane, size: [20.0, 20.0, 0.125], pos: [0.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "torso_geom", body: 1, shape: Shape::Capsule, size: [0.05, 0.19999999999999996, 0.0], pos: [0.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "thigh_geom", body: 2, shape: Shape::Capsule, size: [0.05, 0.22500000000000003, 0.0], pos: [0.0, 0.0, -0.2250000000000001], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "leg_geom", body: 3, shape: Shape::Capsule, size: [0.04, 0.25, 0.0], pos: [0.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "foot_geom", body: 4, shape: Shape::Capsule, size: [0.06, 0.195, 0.0], pos: [-0.065, 0.0, 0.1], quat: [0.7071067811865476, 0.0, -0.7071067811865475, 0.0] },
],
actuators: &[
    Actuator { name: "", joint: 3, gear: 200.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "", joint: 4, gear: 200.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "", joint: 5, gear: 200.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
],
pairs: &[
    Pair { geoms: [0, 1], dimensions: 3, friction: [1.0, 1.0, 0.005, 0.0001, 0.0001], margin: 0.001, soft: Soft { reference: [0.02, 1.0], impedance: [0.8, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [0, 2], dimensions: 3, friction: [1.0, 1.0, 0.005, 0.0001, 0.0001], margin: 0.001, soft: Soft { reference: [0.02, 1.0], impedance: [0.8, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [0, 3], dimensions: 3, friction: [1.0, 1.0, 0.005, 0.0001, 0.0001], margin: 0.001, soft: Soft { reference: [0.02, 1.0], impedance: [0.8, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [0, 4], dimensions: 3, friction: [2.0, 2.0, 0.005, 0.0001, 0.0001], margin: 0.001, soft: Soft { reference: [0.02, 1.0], impedance: [0.8, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [1, 3], dimensions: 1, friction: [0.9, 0.9, 0.005, 0.0001, 0.0001], margin: 0.001, soft: Soft { reference: [0.02, 1.0], impedance: [0.8, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [1, 4], dimensions: 1, friction: [2.0, 2.0, 0.005, 0.0001, 0.0001], margin: 0.001, soft: Soft { reference: [0.02, 1.0], impedance: [0.8, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [2, 4], dimensions: 1, friction: [2.0, 2.0, 0.005, 0.0001, 0.0001], margin: 0.001, soft: Soft { reference: [0.02, 1.0], impedance: [0.8, 0.8, 0.01, 0.5, 2.0] } },
],
};
