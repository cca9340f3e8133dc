//! walker2d: what MuJoCo 2.3.3 makes of gymnasium 0.28.1's `walker2d.xml`. Written by tools/parity/bodies.py.

use crate::physics::articulated::model::{Actuator, Body, Geom, Integrator, Joint, Kind, Model, Pair, Shape, Soft};

/// The body of `walker2d.xml`.
#[rustfmt::skip]
pub static WALKER2D: Model = Model {
name: "walker2d",
timestep: 0.002, substeps: 4, integrator: Integrator::RungeKutta,
gravity: [0.0, 0.0, -9.81], density: 0.0, viscosity: 0.0,
qpos: &[0.0, 1.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
bodies: &[
    Body { name: "torso", parent: 0, pos: [0.0, 0.0, 1.25], quat: [1.0, 0.0, 0.0, 0.0], mass: 3.6651914291880923, inertia: [0.069245938072875, 0.069245938072875, 0.004450589592585541], ipos: [0.0, 0.0, 0.0], iquat: [1.0, 0.0, 0.0, 0.0], weight: [0.08531649802320407, 2.0083040351270576] },
    Body { name: "thigh", parent: 1, pos: [0.0, 0.0, -0.19999999999999996], quat: [1.0, 0.0, 0.0, 0.0], mass: 4.057890510886818, inertia: [0.09329875682692194, 0.09329875682692194, 0.004941463444708948], ipos: [0.0, 0.0, -0.2250000000000001], iquat: [1.0, 0.0, 0.0, 0.0], weight: [0.06051637875212596, 1.0533598620693116] },
    Body { name: "leg", parent: 2, pos: [0.0, 0.0, -0.7000000000000001], quat: [1.0, 0.0, 0.0, 0.0], mass: 2.7813566959781637, inertia: [0.07230254017320971, 0.07230254017320971, 0.0021821921450855186], ipos: [0.0, 0.0, 0.0], iquat: [1.0, 0.0, 0.0, 0.0], weight: [0.06299719488697496, 0.8837297160737604] },
    Body { name: "foot", parent: 3, pos: [0.2, 0.0, -0.35], quat: [1.0, 0.0, 0.0, 0.0], mass: 3.1667253948185117, inertia: [0.02399774663482943, 0.02399774663482943, 0.005374385384349131], ipos: [-0.1, 0.0, 0.1], iquat: [0.7071067811865476, 0.0, -0.7071067811865475, 0.0], weight: [0.13474576502547686, 5.47595536545701] },
    Body { name: "thigh_left", parent: 1, pos: [0.0, 0.0, -0.19999999999999996], quat: [1.0, 0.0, 0.0, 0.0], mass: 4.057890510886818, inertia: [0.09329875682692194, 0.09329875682692194, 0.004941463444708948], ipos: [0.0, 0.0, -0.2250000000000001], iquat: [1.0, 0.0, 0.0, 0.0], weight: [0.060516378752125975, 1.0533598620693116] },
    Body { name: "leg_left", parent: 5, pos: [0.0, 0.0, -0.7000000000000001], quat: [1.0, 0.0, 0.0, 0.0], mass: 2.7813566959781637, inertia: [0.07230254017320971, 0.07230254017320971, 0.0021821921450855186], ipos: [0.0, 0.0, 0.0], iquat: [1.0, 0.0, 0.0, 0.0], weight: [0.06299719488697493, 0.8837297160737604] },
    Body { name: "foot_left", parent: 6, pos: [0.2, 0.0, -0.35], quat: [1.0, 0.0, 0.0, 0.0], mass: 3.1667253948185117, inertia: [0.02399774663482943, 0.02399774663482943, 0.005374385384349131], ipos: [-0.1, 0.0, 0.1], iquat: [0.7071067811865476, 0.0, -0.7071067811865475, 0.0], weight: [0.13474576502547686, 5.47595536545701] },
],
joints: &[
    Joint { name: "rootx", body: 1, kind: Kind::Slide, pos: [0.0, 0.0, -1.25], axis: [1.0, 0.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.0, range: None, margin: 0.0, weight: 0.2074303103435548, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "rootz", body: 1, kind: Kind::Slide, pos: [0.0, 0.0, -1.25], axis: [0.0, 0.0, 1.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.0, range: None, margin: 0.0, weight: 0.04851918372605742, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "rooty", body: 1, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, 1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.0, range: None, margin: 0.0, weight: 6.024912105381173, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "thigh_joint", body: 2, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, -1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.1, armature: 0.01, range: Some([-2.6179938779914944, 0.0]), margin: 0.0, weight: 12.106152843486353, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "leg_joint", body: 3, kind: Kind::Hinge, pos: [0.0, 0.0, 0.25], axis: [0.0, -1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.1, armature: 0.01, range: Some([-2.6179938779914944, 0.0]), margin: 0.0, weight: 9.59529493718361, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "foot_joint", body: 4, kind: Kind::Hinge, pos: [-0.2, 0.0, 0.1], axis: [0.0, -1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.1, armature: 0.01, range: Some([-0.7853981633974483, 0.7853981633974483]), margin: 0.0, weight: 18.211422123604848, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "thigh_left_joint", body: 5, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, -1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.1, armature: 0.01, range: Some([-2.6179938779914944, 0.0]), margin: 0.0, weight: 12.106152843486353, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "leg_left_joint", body: 6, kind: Kind::Hinge, pos: [0.0, 0.0, 0.25], axis: [0.0, -1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.1, armature: 0.01, range: Some([-2.6179938779914944, 0.0]), margin: 0.0, weight: 9.59529493718361, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "foot_left_joint", body: 7, kind: Kind::Hinge, pos: [-0.2, 0.0, 0.1], axis: [0.0, -1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.1, armature: 0.01, range: Some([-0.7853981633974483, 0.7853981633974483]), margin: 0.0, weight: 18.211422123604848, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
],
geoms: &[
    Geom { name: "floor", body: 0, shape: Shape::Plane, size: [40.0, 40.0, 40.0], pos: [0.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "torso_geom", body: 1, shape: Shape::Capsule, size: [0.05, 0.19999999999999996, 0.0], pos: [0.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "thigh_geom", body: 2, shape: Shape::Capsule, size: [0.05, 0.22500000000000003, 0.0], pos: [0.0, 0.0, -0.2250000000000001], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "leg_geom", body: 3, shape: Shape::Capsule, size: [0.04, 0.25, 0.0], pos: [0.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "foot_geom", body: 4, shape: Shape::Capsule, size: [0.06, 0.1, 0.0], pos: [-0.1, 0.0, 0.1], quat: [0.7071067811865476, 0.0, -0.7071067811865475, 0.0] },
    Geom { name: "thigh_left_geom", body: 5, shape: Shape::Capsule, size: [0.05, 0.22500000000000003, 0.0], pos: [0.0, 0.0, -0.2250000000000001], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "leg_left_geom", body: 6, shape: Shape::Capsule, size: [0.04, 0.25, 0.0], pos: [0.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "foot_left_geom", body: 7, shape: Shape::Capsule, size: [0.06, 0.1, 0.0], pos: [-0.1, 0.0, 0.1], quat: [0.7071067811865476, 0.0, -0.7071067811865475, 0.0] },
],
actuators: &[
    Actuator { name: "", joint: 3, gear: 100.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "", joint: 4, gear: 100.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "", joint: 5, gear: 100.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "", joint: 6, gear: 100.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "", joint: 7, gear: 100.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "", joint: 8, gear: 100.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
],
pairs: &[
    Pair { geoms: [0, 1], dimensions: 3, friction: [0.9, 0.9, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 2], dimensions: 3, friction: [0.9, 0.9, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 3], dimensions: 3, friction: [0.9, 0.9, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 4], dimensions: 3, friction: [0.9, 0.9, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 5], dimensions: 3, friction: [0.9, 0.9, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 6], dimensions: 3, friction: [0.9, 0.9, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 7], dimensions: 3, friction: [1.9, 1.9, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
],
};
