#![doc = include_str!("README.md")]

pub mod bodies;
mod boxes;
mod collide;
mod constraints;
mod convex;
pub mod cubes;
mod engine;
mod links;
pub mod model;
mod newton;
mod obstacle;
mod planar;
mod pusher;
mod spatial;
pub mod tether;
mod tree;
mod twins;

pub use engine::{Contact, Moments};
use model::Kind;
pub use model::Model;
pub use obstacle::Obstacle;
pub use pusher::Pusher;
use serde::{Deserialize, Serialize};

use engine::Engine;
use planar::Planar;
use spatial::Spatial;
use tree::Tree;

use crate::physics::space;

/// Where a body is and how it moves, in MuJoCo's order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// A free joint has a position and a quaternion here.
    pub qpos: Vec<f64>,
    /// A free joint has three velocities in the world's frame and three rates in its own.
    pub qvel: Vec<f64>,
}

impl State {
    /// The reference pose at rest.
    pub fn of(model: &Model) -> State {
        State { qpos: model.qpos.to_vec(), qvel: vec![0.0; model.velocities()] }
    }

    /// Makes quaternions as long as they should be.
    pub fn normalize(&mut self, model: &Model) {
        let mut at = 0;
        for joint in model.joints {
            let quaternion = match joint.kind {
                Kind::Free => Some(at + 3),
                Kind::Ball => Some(at),
                Kind::Slide | Kind::Hinge => None,
            };
            if let Some(from) = quaternion {
                let q = &mut self.qpos[from..from + 4];
                let unit = space::normalized([q[0], q[1], q[2], q[3]]);
                q.copy_from_slice(&unit);
            }
            at += joint.kind.positions();
        }
    }

    /// Whether every number is finite.
    pub fn is_finite(&self) -> bool {
        self.qpos.iter().chain(&self.qvel).all(|v| v.is_finite())
    }
}

/// A body that moves. What it tells besides the state is of its last evaluation: after a step by Runge-Kutta, that is the last
/// of the four, a predictor of the final state, as the original engine has it.
pub trait Physics: Send {
    /// The body.
    fn model(&self) -> &'static Model;

    /// Advances by one step of a world under these controls.
    fn step(&mut self, state: &mut State, ctrl: &[f64]);

    /// Evaluates this moment without moving.
    fn look(&mut self, state: &State, ctrl: &[f64]);

    /// What stands in its way from now on, in place of what did before. In a plane nothing can.
    fn surround(&mut self, obstacles: &mut dyn Iterator<Item = Obstacle>);

    /// Rate of change of each velocity.
    fn acceleration(&self) -> &[f64];

    /// Force of the motors on each degree of freedom (MuJoCo's `qfrc_actuator`).
    fn motor_forces(&self) -> &[f64];

    /// Rows of the constraint problem.
    fn rows(&self) -> usize;

    /// What feels each other.
    fn contacts(&self) -> &[Contact];

    /// Origin of a body's frame (MuJoCo's `xpos`).
    fn place(&self, body: usize) -> [f64; 3];

    /// Axes of a body's frame, in columns (MuJoCo's `xmat`).
    fn orientation(&self, body: usize) -> [[f64; 3]; 3];

    /// A body's centre of mass (MuJoCo's `xipos`).
    fn centre(&self, body: usize) -> [f64; 3];

    /// A body's inertia, velocity and contact forces as observations have them; none where bodies stay in a plane.
    fn moments(&self, body: usize) -> Option<Moments>;

    /// A copy.
    fn boxed(&self) -> Box<dyn Physics>;
}

impl Clone for Box<dyn Physics> {
    fn clone(&self) -> Box<dyn Physics> {
        (**self).boxed()
    }
}

/// A body ready to move.
///
/// Each is laid out for the size of its tree, so that only the sizes of the bodies in [`bodies`] are known.
pub fn build(model: &'static Model) -> Box<dyn Physics> {
    let parents = parents(model);
    let rows = model.pairs.iter().map(|pair| pair.dimensions).max();
    match (parents.len(), depth(&parents)) {
        (9, 6) => planar::<9, 6>(model, &parents),
        (6, 6) => planar::<6, 6>(model, &parents),
        (5, 5) => planar::<5, 5>(model, &parents),
        (11, 9) => spatial::<11, 12, 6>(model, &parents),
        (14, 8) if rows == Some(6) => spatial::<14, 8, 6>(model, &parents),
        (14, 8) => spatial::<14, 8, 3>(model, &parents),
        (23, 13) => spatial::<23, 16, 3>(model, &parents),
        (dofs, depth) => panic!("no engine has been laid out for {dofs} degrees of freedom, {depth} deep"),
    }
}

fn planar<const N: usize, const D: usize>(model: &'static Model, parents: &[Option<usize>]) -> Box<dyn Physics> {
    Box::new(Engine::new(model, Planar::<N, D>::new(model, Tree::new(parents))))
}

fn spatial<const N: usize, const D: usize, const K: usize>(
    model: &'static Model,
    parents: &[Option<usize>],
) -> Box<dyn Physics> {
    Box::new(Engine::new(model, Spatial::<N, D, K>::new(model, Tree::new(parents))))
}

/// The degree of freedom before each on the way from the root.
fn parents(model: &Model) -> Vec<Option<usize>> {
    let mut last: Vec<Option<usize>> = vec![None];
    let mut parents = Vec::new();
    let mut joints = model.joints.iter().peekable();
    for (i, body) in model.bodies.iter().enumerate() {
        let mut before = last[body.parent];
        while let Some(joint) = joints.next_if(|joint| joint.body == i + 1) {
            for _ in 0..joint.kind.velocities() {
                parents.push(before);
                before = Some(parents.len() - 1);
            }
        }
        last.push(before);
    }
    parents
}

/// Length of the longest way from the root.
fn depth(parents: &[Option<usize>]) -> usize {
    let mut depths: Vec<usize> = Vec::new();
    for parent in parents {
        depths.push(parent.map_or(1, |parent| depths[parent] + 1));
    }
    depths.into_iter().max().unwrap_or(0)
}

/// The axes, in columns, of a frame that is turned by a quaternion.
pub fn axes(quat: [f64; 4]) -> [[f64; 3]; 3] {
    space::matrix(quat)
}
