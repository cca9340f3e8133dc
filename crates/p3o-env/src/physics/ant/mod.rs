#![doc = include_str!("README.md")]

mod arrow;
mod constraints;
mod dynamics;
mod model;
mod newton;

use serde::{Deserialize, Serialize};

use crate::physics::articulated;
use crate::physics::space::{self, add, dot, scale};
use arrow::{Arrow, Dofs};
use constraints::{Constraints, Ground};
use model::{ANKLE_SIGNS, HIP_ACTIONS};
pub use model::{GEAR, LEGS, LIMB_RADIUS, SUBSTEP, SUBSTEPS, TORSO_RADIUS};

/// Numbers in a position: place, orientation as a quaternion (w, x, y, z), and hip and ankle of each leg.
pub const POSITIONS: usize = 15;
/// Numbers in a velocity: linear in the world, angular in the torso's frame, and hip and ankle of each leg.
pub const VELOCITIES: usize = 14;
/// Numbers in an action: hip and ankle of leg 4, then of legs 1, 2 and 3.
pub const ACTIONS: usize = 8;

/// Where the Ant is and how it moves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AntState {
    /// Place, orientation and joint angles.
    pub qpos: [f64; POSITIONS],
    /// Velocities.
    pub qvel: [f64; VELOCITIES],
}

impl Default for AntState {
    /// The reference pose, at rest: upright at a height of 0.75, every joint at 0.
    fn default() -> AntState {
        let mut qpos = [0.0; POSITIONS];
        (qpos[2], qpos[3]) = (0.75, 1.0);
        AntState { qpos, qvel: [0.0; VELOCITIES] }
    }
}

impl AntState {
    /// Whether every number is finite.
    pub fn is_finite(&self) -> bool {
        self.qpos.iter().chain(&self.qvel).all(|value| value.is_finite())
    }

    fn orientation(&self) -> [f64; 4] {
        [self.qpos[3], self.qpos[4], self.qpos[5], self.qpos[6]]
    }

    fn angles(&self) -> [[f64; 2]; LEGS] {
        std::array::from_fn(|i| [self.qpos[7 + 2 * i], ANKLE_SIGNS[i] * self.qpos[8 + 2 * i]])
    }

    /// The position after moving for `seconds` at the velocity `v`.
    fn moved(&self, v: &[f64; VELOCITIES], seconds: f64) -> [f64; POSITIONS] {
        let mut qpos = self.qpos;
        for i in 0..3 {
            qpos[i] += seconds * v[i];
        }
        qpos[3..7].copy_from_slice(&space::turned(self.orientation(), [v[3], v[4], v[5]], seconds));
        for i in 6..VELOCITIES {
            qpos[i + 1] += seconds * v[i];
        }
        qpos
    }

    /// Where hip, knee and foot of each leg are in the world.
    pub fn joints(&self) -> [[[f64; 3]; 3]; LEGS] {
        let axes = space::matrix(space::normalized(self.orientation()));
        let in_world = |v: [f64; 3]| std::array::from_fn(|i| self.qpos[i] + dot(axes[i], v));
        dynamics::legs(&self.angles()).map(|leg| [leg.hip, leg.knee, leg.foot].map(in_world))
    }

    /// Mechanical energy: of motion, and of height above the ground.
    pub fn energy(&self) -> f64 {
        let axes = space::matrix(space::normalized(self.orientation()));
        let legs = dynamics::legs(&self.angles());
        let v = to_torso(&axes, &self.qvel);
        let still = Dofs::default();
        let mut mass = Arrow::default();
        let force = dynamics::smooth(&legs, axes[2], &still, &Default::default(), &mut mass);
        // At rest the torque about the torso's centre is weight times lever, and this is its lever along the vertical.
        let lever = dot(axes[2], [mass.torso[5][1], mass.torso[3][2], mass.torso[4][0]]);
        let weight = -dot(axes[2], [force.torso[0], force.torso[1], force.torso[2]]);
        0.5 * v.dot(&mass.times(&v)) + weight * self.qpos[2] + model::GRAVITY * lever
    }
}

/// What the constraint solver found in one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acceleration {
    /// Rate of change of each velocity.
    pub qacc: [f64; VELOCITIES],
    /// Contacts with the ground.
    pub contacts: usize,
    /// Rows of the constraint problem: one per violated joint limit and four per contact.
    pub rows: usize,
}

/// The acceleration in `state` under `action`.
pub fn acceleration(state: &AntState, action: &[f64; ACTIONS]) -> Acceleration {
    let mut solver = Solver::new(action);
    let qacc = solver.acceleration(state);
    Acceleration { qacc, contacts: solver.rows.contacts(), rows: solver.rows.len() }
}

/// Advances by five substeps of classical Runge-Kutta integration.
///
/// Returns the torso's position in the very last evaluation, a predictor of the final one: that is what the original
/// engine's body positions hold after a step, and what its tasks read.
pub fn step(state: &mut AntState, action: &[f64; ACTIONS]) -> [f64; 3] {
    let mut solver = Solver::new(action);
    let mut torso = [0.0; 3];
    for _ in 0..SUBSTEPS {
        torso = solver.substep(state);
    }
    torso
}

/// The same for a state of [`bodies::ANT`](articulated::bodies::ANT), which has the same joints in the same order.
pub fn step_tables(state: &mut articulated::State, controls: &[f64]) -> [f64; 3] {
    let whole = "the Ant's engine is for the same joints";
    let articulated::State { qpos, qvel } = state;
    let mut ant = AntState { qpos: qpos[..].try_into().expect(whole), qvel: qvel[..].try_into().expect(whole) };
    let torso = step(&mut ant, controls.try_into().expect(whole));
    qpos.copy_from_slice(&ant.qpos);
    qvel.copy_from_slice(&ant.qvel);
    torso
}

/// The solver's room and its guess for the next solution; both live no longer than a step.
struct Solver {
    torque: [[f64; 2]; LEGS],
    mass: Arrow,
    rows: Constraints,
    guess: Dofs,
}

impl Solver {
    fn new(action: &[f64; ACTIONS]) -> Solver {
        let torque = std::array::from_fn(|i| {
            let [hip, ankle] = [0, 1].map(|hinge| GEAR * action[HIP_ACTIONS[i] + hinge].clamp(-1.0, 1.0));
            [hip, ANKLE_SIGNS[i] * ankle]
        });
        Solver { torque, mass: Arrow::default(), rows: Constraints::new(), guess: Dofs::default() }
    }

    fn acceleration(&mut self, state: &AntState) -> [f64; VELOCITIES] {
        let axes = space::matrix(space::normalized(state.orientation()));
        let angles = state.angles();
        let legs = dynamics::legs(&angles);
        let v = to_torso(&axes, &state.qvel);
        let force = dynamics::smooth(&legs, axes[2], &v, &self.torque, &mut self.mass);
        self.rows.find(&angles, &legs, &Ground { height: state.qpos[2], axes }, &v);
        let a = newton::minimize(&self.mass, &force, &self.rows, &self.guess);
        self.guess = a;
        from_torso(&axes, &a)
    }

    /// One Runge-Kutta step of the fourth order; the torso's position in its last evaluation.
    fn substep(&mut self, state: &mut AntState) -> [f64; 3] {
        const H: f64 = SUBSTEP;
        let k1 = self.acceleration(state);
        let v2 = along(&state.qvel, 0.5 * H, &k1);
        let k2 = self.acceleration(&AntState { qpos: state.moved(&state.qvel, 0.5 * H), qvel: v2 });
        let v3 = along(&state.qvel, 0.5 * H, &k2);
        let k3 = self.acceleration(&AntState { qpos: state.moved(&v2, 0.5 * H), qvel: v3 });
        let v4 = along(&state.qvel, H, &k3);
        let last = AntState { qpos: state.moved(&v3, H), qvel: v4 };
        let k4 = self.acceleration(&last);
        let mean = |a: &[f64; VELOCITIES], b: &[f64; VELOCITIES], c: &[f64; VELOCITIES], d: &[f64; VELOCITIES]| {
            std::array::from_fn(|i| (a[i] + 2.0 * b[i] + 2.0 * c[i] + d[i]) / 6.0)
        };
        state.qpos = state.moved(&mean(&state.qvel, &v2, &v3, &v4), H);
        state.qvel = along(&state.qvel, H, &mean(&k1, &k2, &k3, &k4));
        [last.qpos[0], last.qpos[1], last.qpos[2]]
    }
}

fn along(v: &[f64; VELOCITIES], seconds: f64, acc: &[f64; VELOCITIES]) -> [f64; VELOCITIES] {
    std::array::from_fn(|i| v[i] + seconds * acc[i])
}

/// Velocities with the linear part turned into the torso's frame and the ankles counted downwards.
fn to_torso(axes: &[[f64; 3]; 3], v: &[f64; VELOCITIES]) -> Dofs {
    let [x, y, z] = add(add(scale(v[0], axes[0]), v[1], axes[1]), v[2], axes[2]);
    Dofs {
        torso: [x, y, z, v[3], v[4], v[5]],
        legs: std::array::from_fn(|i| [v[6 + 2 * i], ANKLE_SIGNS[i] * v[7 + 2 * i]]),
    }
}

fn from_torso(axes: &[[f64; 3]; 3], a: &Dofs) -> [f64; VELOCITIES] {
    let mut acc = [0.0; VELOCITIES];
    let [x, y, z, turn @ ..] = a.torso;
    for i in 0..3 {
        acc[i] = dot(axes[i], [x, y, z]);
    }
    acc[3..6].copy_from_slice(&turn);
    for (i, [hip, ankle]) in a.legs.into_iter().enumerate() {
        (acc[6 + 2 * i], acc[7 + 2 * i]) = (hip, ANKLE_SIGNS[i] * ankle);
    }
    acc
}
