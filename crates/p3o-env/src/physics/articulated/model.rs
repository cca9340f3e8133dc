//! A body as data: a tree of links with their joints, shapes and motors.
//!
//! Everything is in MuJoCo's units, order and conventions. Quaternions are (w, x, y, z). Body 0 is the world, which is not
//! listed: body i is `bodies[i - 1]`.

/// A whole body, or several that share a ground.
#[derive(Debug)]
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// Length of a substep in seconds.
    pub timestep: f64,
    /// Substeps in one step of a world.
    pub substeps: usize,
    /// How a substep is taken.
    pub integrator: Integrator,
    /// In m/s^2.
    pub gravity: [f64; 3],
    /// Of the medium, in kg/m^3.
    pub density: f64,
    /// Of the medium, in Pa s.
    pub viscosity: f64,
    /// The reference pose, which is also where episodes start.
    pub qpos: &'static [f64],
    /// Its links; a parent stands before its children.
    pub bodies: &'static [Body],
    /// In the order of their numbers in `qpos` and `qvel`; those of one body stand together.
    pub joints: &'static [Joint],
    /// What can touch or be drawn.
    pub geoms: &'static [Geom],
    /// What drives it.
    pub actuators: &'static [Actuator],
    /// Which geoms can touch each other.
    pub pairs: &'static [Pair],
}

/// How a substep is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrator {
    /// Velocity first, then position; the dampers of joints are taken implicitly.
    Euler,
    /// The classical method of fourth order.
    RungeKutta,
}

/// A rigid link.
#[derive(Debug)]
pub struct Body {
    /// Its name.
    pub name: &'static str,
    /// The body it hangs on.
    pub parent: usize,
    /// Where it is in the parent's frame in the reference pose.
    pub pos: [f64; 3],
    /// How it is turned there.
    pub quat: [f64; 4],
    /// In kg.
    pub mass: f64,
    /// About the principal axes.
    pub inertia: [f64; 3],
    /// The centre of mass.
    pub ipos: [f64; 3],
    /// The principal axes.
    pub iquat: [f64; 4],
    /// How easily a force and a torque move it in the reference pose: the scale of its contacts.
    pub weight: [f64; 2],
}

/// What a joint lets a body do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything: three velocities in the world's frame, three angular ones in the body's.
    Free,
    /// Turn about a point.
    Ball,
    /// Move along an axis.
    Slide,
    /// Turn about an axis.
    Hinge,
}

impl Kind {
    /// Numbers in `qpos`.
    pub fn positions(self) -> usize {
        match self {
            Kind::Free => 7,
            Kind::Ball => 4,
            Kind::Slide | Kind::Hinge => 1,
        }
    }

    /// Numbers in `qvel`.
    pub fn velocities(self) -> usize {
        match self {
            Kind::Free => 6,
            Kind::Ball => 3,
            Kind::Slide | Kind::Hinge => 1,
        }
    }
}

/// A joint between a body and its parent.
#[derive(Debug)]
pub struct Joint {
    /// Its name.
    pub name: &'static str,
    /// The body that it moves.
    pub body: usize,
    /// What it lets the body do.
    pub kind: Kind,
    /// Its place in the body's frame.
    pub pos: [f64; 3],
    /// Its axis in the body's frame.
    pub axis: [f64; 3],
    /// Of its spring.
    pub stiffness: f64,
    /// Where the spring rests.
    pub spring: f64,
    /// Force against its velocity.
    pub damping: f64,
    /// Added to its inertia.
    pub armature: f64,
    /// Its lowest and highest value, if it has limits.
    pub range: Option<[f64; 2]>,
    /// From how near on a limit is felt.
    pub margin: f64,
    /// The scale of its limits: its entry of the inverse mass matrix in the reference pose.
    pub weight: f64,
    /// How soft its limits are.
    pub soft: Soft,
}

/// A shape. Its z axis is the axis of capsules and cylinders and the normal of planes.
#[derive(Debug)]
pub struct Geom {
    /// Its name.
    pub name: &'static str,
    /// The body it is fixed to.
    pub body: usize,
    /// What it is.
    pub shape: Shape,
    /// Radius; radius and half length; half sides.
    pub size: [f64; 3],
    /// Its centre in the body's frame.
    pub pos: [f64; 3],
    /// How it is turned there.
    pub quat: [f64; 4],
}

/// What a geom is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Endless.
    Plane,
    /// A ball.
    Sphere,
    /// A cylinder with round ends.
    Capsule,
    /// A cylinder.
    Cylinder,
    /// A cuboid.
    Box,
}

/// A motor: force = gain control - brake velocity, on a joint by a gear.
#[derive(Debug)]
pub struct Actuator {
    /// Its name.
    pub name: &'static str,
    /// Which joint it drives.
    pub joint: usize,
    /// Force on the joint per force of the motor.
    pub gear: f64,
    /// Force per control.
    pub gain: f64,
    /// Force per velocity.
    pub brake: f64,
    /// Controls are kept within.
    pub control: Option<[f64; 2]>,
    /// Forces are kept within.
    pub force: Option<[f64; 2]>,
}

/// Two geoms that can touch, the simpler shape first.
#[derive(Debug)]
pub struct Pair {
    /// Which.
    pub geoms: [usize; 2],
    /// 1: no friction; 3: sliding; 4: and spinning; 6: and rolling.
    pub dimensions: usize,
    /// Coefficients along two tangents, about the normal and about two tangents.
    pub friction: [f64; 5],
    /// From how near on they feel each other.
    pub margin: f64,
    /// How soft their contacts are.
    pub soft: Soft,
}

/// How soft a constraint is: MuJoCo's `solref` and `solimp`, both already within their bounds.
#[derive(Clone, Copy, Debug)]
pub struct Soft {
    /// Time constant and damping ratio.
    pub reference: [f64; 2],
    /// Impedance at no violation and from a width on, that width, and the middle and power of the way between.
    pub impedance: [f64; 5],
}

impl Model {
    /// Numbers in `qpos`.
    pub fn positions(&self) -> usize {
        self.joints.iter().map(|joint| joint.kind.positions()).sum()
    }

    /// Numbers in `qvel`.
    pub fn velocities(&self) -> usize {
        self.joints.iter().map(|joint| joint.kind.velocities()).sum()
    }
}
