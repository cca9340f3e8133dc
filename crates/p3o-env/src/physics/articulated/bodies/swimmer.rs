//! swimmer: what MuJoCo 2.3.3 makes of gymnasium 0.28.1's `swimmer.xml`. Written by tools/parity/bodies.py.

use crate::physics::articulated::model::{Actuator, Body, Geom, Integrator, Joint, Kind, Model, Shape, Soft};

/// The body of `swimmer.xml`.
#[rustfmt::skip]
pub static SWIMMER: Model = Model {
name: "swimmer",
timestep: 0.01, substeps: 4, integrator: Integrator::RungeKutta,
gravity: [0.0, 0.0, -9.81], density: 4000.0, viscosity: 0.1,
qpos: &[0.0, 0.0, 0.0, 0.0, 0.0],
bodies: &[
    Body { name: "torso", parent: 0, pos: [0.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0], mass: 35.604716740684324, inertia: [3.9175660390264717, 3.9175660390264717, 0.17383479349863523], ipos: [1.0, 0.0, 0.0], iquat: [0.7071067811865476, 0.0, 0.7071067811865475, 0.0], weight: [0.010965286758709189, 0.05094161117373485] },
    Body { name: "mid", parent: 1, pos: [0.5, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0], mass: 35.604716740684324, inertia: [3.9175660390264717, 3.9175660390264717, 0.17383479349863523], ipos: [-0.5, 0.0, 0.0], iquat: [0.7071067811865476, 0.0, 0.7071067811865475, 0.0], weight: [0.00884358066872071, 0.033190150607631023] },
    Body { name: "back", parent: 2, pos: [-1.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0], mass: 35.604716740684324, inertia: [3.9175660390264717, 3.9175660390264717, 0.17383479349863523], ipos: [-0.5, 0.0, 0.0], iquat: [0.7071067811865476, 0.0, 0.7071067811865475, 0.0], weight: [0.010978250641502577, 0.05233040646463097] },
],
joints: &[
    Joint { name: "slider1", body: 1, kind: Kind::Slide, pos: [0.0, 0.0, 0.0], axis: [1.0, 0.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.1, range: None, margin: 0.0, weight: 0.009353298865707413, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "slider2", body: 1, kind: Kind::Slide, pos: [0.0, 0.0, 0.0], axis: [0.0, 1.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.1, range: None, margin: 0.0, weight: 0.13620963069013733, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "free_body_rot", body: 1, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, 0.0, 1.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.1, range: None, margin: 0.0, weight: 0.15282483352120455, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "motor1_rot", body: 2, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, 0.0, 1.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.1, range: Some([-1.7453292519943295, 1.7453292519943295]), margin: 0.0, weight: 0.38529334162134676, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "motor2_rot", body: 3, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [0.0, 0.0, 1.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.1, range: Some([-1.7453292519943295, 1.7453292519943295]), margin: 0.0, weight: 0.3933336741383495, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
],
geoms: &[
    Geom { name: "floor", body: 0, shape: Shape::Plane, size: [40.0, 40.0, 0.1], pos: [0.0, 0.0, -0.1], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "", body: 1, shape: Shape::Capsule, size: [0.1, 0.5, 0.0], pos: [1.0, 0.0, 0.0], quat: [0.7071067811865476, 0.0, 0.7071067811865475, 0.0] },
    Geom { name: "", body: 2, shape: Shape::Capsule, size: [0.1, 0.5, 0.0], pos: [-0.5, 0.0, 0.0], quat: [0.7071067811865476, 0.0, 0.7071067811865475, 0.0] },
    Geom { name: "", body: 3, shape: Shape::Capsule, size: [0.1, 0.5, 0.0], pos: [-0.5, 0.0, 0.0], quat: [0.7071067811865476, 0.0, 0.7071067811865475, 0.0] },
],
actuators: &[
    Actuator { name: "", joint: 3, gear: 150.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
    Actuator { name: "", joint: 4, gear: 150.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: None },
],
pairs: &[
],
};
