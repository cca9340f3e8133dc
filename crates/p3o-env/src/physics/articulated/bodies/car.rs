//! car: what MuJoCo 2.3.3 makes of safety-gymnasium 1.0.0's `car.xml`. Written by tools/parity/bodies.py.

use crate::physics::articulated::model::{Actuator, Body, Geom, Integrator, Joint, Kind, Model, Pair, Shape, Soft};

/// The body of `car.xml`.
#[rustfmt::skip]
pub static CAR: Model = Model {
name: "car",
timestep: 0.004, substeps: 10, integrator: Integrator::Euler,
gravity: [0.0, 0.0, -9.81], density: 0.0, viscosity: 0.0,
qpos: &[0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
bodies: &[
    Body { name: "agent", parent: 0, pos: [0.0, 0.0, 0.1], quat: [1.0, 0.0, 0.0, 0.0], mass: 0.023900000000000008, inertia: [0.00022844207194350612, 0.00017390058228730832, 9.481184367713572e-05], ipos: [0.0, 0.003953974895397486, 0.00100418410041841], iquat: [0.5059805120609867, 0.49394708361777145, -0.49394708361777145, 0.5059805120609867], weight: [33.25482695440256, 4122.369895938456] },
    Body { name: "left", parent: 1, pos: [-0.1, 0.1, -0.05], quat: [1.0, 0.0, 0.0, 0.0], mass: 0.001963495408493621, inertia: [1.6362461737446845e-06, 1.6362461737446845e-06, 2.4543692606170267e-06], ipos: [-0.03, 0.0, 0.0], iquat: [0.7071067811865476, 0.0, -0.7071067811865475, 0.0], weight: [104.22126662744733, 138608.79239885657] },
    Body { name: "right", parent: 1, pos: [0.1, 0.1, -0.05], quat: [1.0, 0.0, 0.0, 0.0], mass: 0.001963495408493621, inertia: [1.6362461737446845e-06, 1.6362461737446845e-06, 2.4543692606170267e-06], ipos: [0.03, 0.0, 0.0], iquat: [0.7071067811865476, 0.0, -0.7071067811865475, 0.0], weight: [104.22126662744733, 138608.79239885657] },
    Body { name: "rear", parent: 1, pos: [0.0, -0.1, -0.05], quat: [1.0, 0.0, 0.0, 0.0], mass: 0.0026179938779914945, inertia: [2.6179938779914947e-06, 2.6179938779914947e-06, 2.6179938779914947e-06], ipos: [0.0, 0.0, 0.0], iquat: [1.0, 0.0, 0.0, 0.0], weight: [64.22877695034232, 381971.863420549] },
],
joints: &[
    Joint { name: "agent", body: 1, kind: Kind::Free, pos: [0.0, 0.0, 0.0], axis: [0.0, 0.0, 1.0], stiffness: 0.0, spring: 0.0, damping: 0.0, armature: 0.0, range: None, margin: 0.0, weight: 33.28122518837893, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "left", body: 2, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [1.0, 0.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.001, armature: 0.0, range: None, margin: 0.0, weight: 411414.04112175014, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "right", body: 3, kind: Kind::Hinge, pos: [0.0, 0.0, 0.0], axis: [1.0, 0.0, 0.0], stiffness: 0.0, spring: 0.0, damping: 0.001, armature: 0.0, range: None, margin: 0.0, weight: 411414.04112175014, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Joint { name: "rear", body: 4, kind: Kind::Ball, pos: [0.0, 0.0, 0.0], axis: [0.0, 0.0, 1.0], stiffness: 0.0, spring: 0.0, damping: 0.001, armature: 0.0, range: None, margin: 0.0, weight: 386094.23331648746, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
],
geoms: &[
    Geom { name: "floor", body: 0, shape: Shape::Plane, size: [5.0, 5.0, 0.1], pos: [0.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "agent", body: 1, shape: Shape::Box, size: [0.1, 0.1, 0.05], pos: [0.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "back_bumper", body: 1, shape: Shape::Box, size: [0.1, 0.01, 0.05], pos: [0.0, 0.15, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "back_connector", body: 1, shape: Shape::Box, size: [0.01, 0.025, 0.03], pos: [0.0, 0.125, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "front_bumper", body: 1, shape: Shape::Box, size: [0.05, 0.01, 0.05], pos: [0.0, -0.165, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "front_connector", body: 1, shape: Shape::Box, size: [0.05, 0.03, 0.01], pos: [0.0, -0.13, 0.04], quat: [1.0, 0.0, 0.0, 0.0] },
    Geom { name: "left", body: 2, shape: Shape::Cylinder, size: [0.05, 0.025, 0.0], pos: [-0.03, 0.0, 0.0], quat: [0.7071067811865476, 0.0, -0.7071067811865475, 0.0] },
    Geom { name: "right", body: 3, shape: Shape::Cylinder, size: [0.05, 0.025, 0.0], pos: [0.03, 0.0, 0.0], quat: [0.7071067811865476, 0.0, -0.7071067811865475, 0.0] },
    Geom { name: "rear", body: 4, shape: Shape::Sphere, size: [0.05, 0.0, 0.0], pos: [0.0, 0.0, 0.0], quat: [1.0, 0.0, 0.0, 0.0] },
],
actuators: &[
    Actuator { name: "left", joint: 1, gear: 1.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: Some([-0.02, 0.02]) },
    Actuator { name: "right", joint: 2, gear: 1.0, gain: 1.0, brake: 0.0, control: Some([-1.0, 1.0]), force: Some([-0.02, 0.02]) },
],
pairs: &[
    Pair { geoms: [0, 1], dimensions: 6, friction: [1.0, 1.0, 0.005, 0.0001, 0.0001], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 2], dimensions: 6, friction: [1.0, 1.0, 0.005, 0.0001, 0.0001], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 3], dimensions: 6, friction: [1.0, 1.0, 0.005, 0.0001, 0.0001], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 4], dimensions: 6, friction: [1.0, 1.0, 0.005, 0.0001, 0.0001], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 5], dimensions: 6, friction: [1.0, 1.0, 0.005, 0.0001, 0.0001], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 6], dimensions: 6, friction: [1.0, 1.0, 0.005, 0.0001, 0.0001], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 7], dimensions: 6, friction: [1.0, 1.0, 0.005, 0.0001, 0.0001], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
    Pair { geoms: [0, 8], dimensions: 6, friction: [1.0, 1.0, 0.005, 0.0001, 0.0001], margin: 0.0, soft: Soft { reference: [0.02, 1.0], impedance: [0.9, 0.95, 0.001, 0.5, 2.0] } },
],
};
