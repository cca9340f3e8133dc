//! half_cheetah: what MuJoCo 2.3.3 makes of gymnasium 0.28.1's `half_cheetah.xml`. Written by tools/parity/bodies.py.

use crate::physics::articulated::model::{Actuator, Body, Geom, Integrator, Joint, Kind, Model, Pair, Shape, Soft};

/// The body of `half_cheetah.xml`.
#[rustfmt::skip]
pub static HALF_CHEETAH: Model = Model {
name: "half_cheetah",
timestep: 0.01, substeps: 5, integrator: Integrator::Euler,
gravity: [0.0, 0.0, -9.81], density: 0.0, viscosity: 0.0,
qpos: &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
bodies: &[
    Body { name: "torso", parent: 0, pos: [0.0, 0.0, 0.7], quat: [1.0, 0.0, 0.0, 0.0], mass: 6.25020920502092, inertia: [0.8971176881117434, 0.8856554522351578, 0.017960923407966355], ipos: [0.15238987816307403, 0.0, 0.025398313027179008], iquat: [0.5224297915933467, 0.476515595605991, 0.476515595605991, 0.5224297915933467], weight: [0.06415751945610274, 0.13878235399525823] },
    Body { name: "bthigh", parent: 1, pos: [-0.5, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0], mass: 1.5435146443514645, inertia: [0.01684433958158996, 0.01684433958158996, 0.0015760215899581589], ipos: [0.1, 0.0, -0.13], iquat: [-0.32328956686350335, -0.0, -0.9463000876874145, -0.0], weight: [0.09691101560963145, 1.00990763098024] },
    Body { name: "bshin", parent: 2, pos: [0.16, 0.0, -0.25], quat: [1.0, 0.0, 0.0, 0.0], mass: 1.5874476987447697, inertia: [0.018267419079497905, 0.018267419079497905, 0.0016225027615062756], ipos: [-0.14, 0.0, -0.07], iquat: [0.5276199315484069, -0.0, -0.8494805517684643, -0.0], weight: [0.12720922534654558, 1.4725773619987157] },
    Body { name: "bfoot", parent: 3, pos: [-0.28, 0.0, -0.14], quat: [1.0, 0.0, 0.0, 0.0], mass: 1.0953974895397491, inertia: [0.0063524232635983275, 0.0063524232635983275, 0.0011019136401673642], ipos: [0.03, 0.0, -0.097], iquat: [0.9909013312045479, -0.0, -0.1345903110073483, -0.0], weight: [0.24374928349017175, 3.7721405817129994] },
    Body { name: "fthigh", parent: 1, pos: [0.5, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0], mass: 1.4380753138075317, inertia: [0.013739643347280341, 0.013739643347280341, 0.0014644667782426782], ipos: [-0.07, 0.0, -0.12], iquat: [0.9663899781345132, 0.0, 0.2570805518921551, 0.0], weight: [0.08148379481367075, 1.0918034788160569] },
    Body { name: "fshin", parent: 5, pos: [-0.14, 0.0, -0.24], quat: [1.0, 0.0, 0.0, 0.0], mass: 1.200836820083682, inertia: [0.008222108619246861, 0.008222108619246861, 0.001213468451882845], ipos: [0.065, 0.0, -0.09], iquat: [0.955336489125606, -0.0, -0.29552020666133955, -0.0], weight: [0.13199681790077375, 1.8871844608672588] },
    Body { name: "ffoot", parent: 6, pos: [0.13, 0.0, -0.18], quat: [1.0, 0.0, 0.0, 0.0], mass: 0.8845188284518829, inertia: [0.003529109456066946, 0.003529109456066946, 0.0008788040167364017], ipos: [0.045, 0.0, -0.07], iquat: [0.955336489125606, -0.0, -0.29552020666133955, -0.0], weight: [0.2661441029233888, 4.19715992726029] },
],
joints: &[
    Joint { name: "rootx", body: 1, kind: Kind::Slide, pos: [0.0, 0.0, 0.0], axis: [1.0, 0.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.0, range: None, margin: 0.0, weight: 0.10673572816871127, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.03, 0.5, 2.0] } },
    Joint { name: "rootz", body: 1, kind: Kind::Slide, pos: [0.0, 0.0, 0.0], axis: [0.0, 0.0, 1.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.0, range: None, margin: 0.0, weight: 0.08459229161068713, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.03, 0.5, 2.0] } },
    Joint { name: "rooty", body: 1, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, 1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.0, range: None, margin: 0.0, weight: 0.4163470619857747, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.03, 0.5, 2.0] } },
    Joint { name: "bthigh", body: 2, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, 1.0, 0.0], stiffness: 240.0, spring: 0.0, damping: 6.0, armature: 0.1, range: Some([-0.52, 1.05]), margin: 0.0, weight: 2.7297886448848923, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.03, 0.5, 2.0] } },
    Joint { name: "bshin", body: 3, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, 1.0, 0.0], stiffness: 180.0, spring: 0.0, damping: 4.5, armature: 0.1, range: Some([-0.785, 0.785]), margin: 0.0, weight: 5.893248984162906, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.03, 0.5, 2.0] } },
    Joint { name: "bfoot", body: 4, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, 1.0, 0.0], stiffness: 120.0, spring: 0.0, damping: 3.0, armature: 0.1, range: Some([-0.4, 0.785]), margin: 0.0, weight: 8.894877004054676, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.03, 0.5, 2.0] } },
    Joint { name: "fthigh", body: 5, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, 1.0, 0.0], stiffness: 180.0, spring: 0.0, damping: 4.5, armature: 0.1, range: Some([-1.0, 0.7]), margin: 0.0, weight: 3.0813926054768763, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.03, 0.5, 2.0] } },
    Joint { name: "fshin", body: 6, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, 1.0, 0.0], stiffness: 120.0, spring: 0.0, damping: 3.0, armature: 0.1, range: Some([-1.2, 0.87]), margin: 0.0, weight: 6.882795962275772, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.03, 0.5, 2.0] } },
    Joint { name: "ffoot", body: 7, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, 1.0, 0.0], stiffness: 60.0, spring: 0.0, damping: 1.5, armature: 0.1, range: Some([-0.5, 0.5]), margin: 0.0, weight: 9.468134962769764, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.03, 0.5, 2.0] } },
],
geoms: &[
    Geom { name: "floor", body: 0, shape: Shape::Plane, size: [40.0, 40.0, 40.0], pos: [0.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "torso", body: 1, shape: Shape::Capsule, size: [0.046, 0.5, 0.0], pos: [0.0, 0.0, 0.0], quat: [0.7071067811865476, 0.0, -0.7071067811865475, 0.0] },
    Geom { name: "head", body: 1, shape: Shape::Capsule, size: [0.046, 0.15, 0.0], pos: [0.6, 0.0, 0.1], quat: [0.9068700422993367, 0.0, 0.42141040136664804, 0.0] },
    Geom { name: "bthigh", body: 2, shape: Shape::Capsule, size: [0.046, 0.145, 0.0], pos: [0.1, 0.0, -0.13], quat: [-0.32328956686350335, -0.0, -0.9463000876874145, -0.0] },
    Geom { name: "bshin", body: 3, shape: Shape::Capsule, size: [0.046, 0.15, 0.0], pos: [-0.14, 0.0, -0.07], quat: [0.5276199315484069, -0.0, -0.8494805517684643, -0.0] },
    Geom { name: "bfoot", body: 4, shape: Shape::Capsule, size: [0.046, 0.094, 0.0], pos: [0.03, 0.0, -0.097], quat: [0.9909013312045479, -0.0, -0.1345903110073483, -0.0] },
    Geom { name: "fthigh", body: 5, shape: Shape::Capsule, size: [0.046, 0.133, 0.0], pos: [-0.07, 0.0, -0.12], quat: [0.9663899781345132, 0.0, 0.2570805518921551, 0.0] },
    Geom { name: "fshin", body: 6, shape: Shape::Capsule, size: [0.046, 0.106, 0.0], pos: [0.065, 0.0, -0.09], quat: [0.955336489125606, -0.0, -0.29552020666133955, -0.0] },
    Geom { name: "ffoot", body: 7, shape: Shape::Capsule, size: [0.046, 0.07, 0.0], pos: [0.045, 0.0, -0.07], quat: [0.955336489125606, -0.0, -0.29552020666133955, -0.0] },
],
actuators: &[
    Actuator { name: "bthigh", joint: 3, gear: 120.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "bshin", joint: 4, gear: 90.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "bfoot", joint: 5, gear: 60.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "fthigh", joint: 6, gear: 120.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "fshin", joint: 7, gear: 60.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "ffoot", joint: 8, gear: 30.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
],
pairs: &[
    Pair { geoms: [0, 1], dimensions: 3, friction: [0.4, 0.4, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [0, 2], dimensions: 3, friction: [0.4, 0.4, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [0, 3], dimensions: 3, friction: [0.4, 0.4, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [0, 4], dimensions: 3, friction: [0.4, 0.4, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [0, 5], dimensions: 3, friction: [0.4, 0.4, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [0, 6], dimensions: 3, friction: [0.4, 0.4, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [0, 7], dimensions: 3, friction: [0.4, 0.4, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.01, 0.5, 2.0] } },
    Pair { geoms: [0, 8], dimensions: 3, friction: [0.4, 0.4, 0.1, 0.1, 0.1], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.0001, 0.8, 0.01, 0.5, 2.0] } },
],
};
