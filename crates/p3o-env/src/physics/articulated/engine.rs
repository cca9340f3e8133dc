//! What all bodies share: motors, springs, dampers and limits of joints, the search for the acceleration, and time.

#![expect(clippy::needless_range_loop, reason = "several arrays share each index, as in the formulas")]

use super::Physics;
use super::constraints::Block;
use super::model::{Integrator, Kind, Model, Soft};
use super::newton::Problem;
use super::obstacle::Obstacle;
use super::tree::Tree;

/// Two geoms that feel each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contact {
    /// Which; obstacles are counted on from the last geom.
    pub geoms: [usize; 2],
    /// Where, between the two.
    pub pos: [f64; 3],
    /// From the first to the second.
    pub normal: [f64; 3],
    /// How far they are apart; negative if they overlap.
    pub distance: f64,
    /// The force that the first puts on the second there.
    pub force: [f64; 3],
    /// The torque, where friction resists spinning or rolling.
    pub torque: [f64; 3],
}

/// A body's motion about the centre of mass of its whole tree, turning before moving, as MuJoCo has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Inertia (xx, yy, zz, xy, xz, yz), mass times distance, mass (`cinert`).
    pub inertia: [f64; 10],
    /// Velocity (`cvel`).
    pub velocity: [f64; 6],
    /// Torque and force of all contacts (`cfrc_ext`).
    pub force: [f64; 6],
}

/// The part of the equations that knows how links move: in a plane or in space.
pub(super) trait Mechanism<const N: usize, const D: usize, const K: usize>: Send {
    fn tree(&self) -> &Tree<N, D>;
    /// Sets the mass matrix, subtracts the bias from the force and adds the blocks of contacts.
    fn evaluate(&mut self, qpos: &[f64], qvel: &[f64; N], problem: &mut Problem<N, D, K>);
    /// Moves `qpos` for `seconds` at the velocity `v`.
    fn advance(&self, qpos: &mut [f64], v: &[f64; N], seconds: f64);
    fn place(&self, body: usize) -> [f64; 3];
    fn orientation(&self, body: usize) -> [[f64; 3]; 3];
    fn centre(&self, body: usize) -> [f64; 3];
    fn contacts(&self) -> &[Contact];
    /// Sets the force of a contact from those along its rows.
    fn weigh(&mut self, contact: usize, forces: &[f64; K]);
    /// What stands in the way from now on.
    fn surround(&mut self, obstacles: &mut dyn Iterator<Item = Obstacle>);
    /// None where bodies stay in a plane.
    fn moments(&self, body: usize) -> Option<Moments>;
}

/// A limited joint of one degree of freedom.
#[derive(Clone, Debug)]
struct Limit {
    dof: usize,
    position: usize,
    range: [f64; 2],
    margin: f64,
    weight: f64,
    soft: Soft,
}

#[derive(Clone, Debug)]
struct Motor {
    dof: usize,
    gear: f64,
    gain: f64,
    brake: f64,
    force: [f64; 2],
}

/// A spring of one degree of freedom.
#[derive(Clone, Debug)]
struct Spring {
    dof: usize,
    position: usize,
    stiffness: f64,
    rest: f64,
}

/// A body that moves: the model, laid out, and the room that a step needs.
#[derive(Clone, Debug)]
pub(super) struct Engine<M, const N: usize, const D: usize, const K: usize> {
    pub(super) model: &'static Model,
    pub(super) mechanism: M,
    pub(super) problem: Problem<N, D, K>,
    armature: [f64; N],
    damping: [f64; N],
    limits: Vec<Limit>,
    springs: Vec<Spring>,
    motors: Vec<Motor>,
    is_damped: bool,
    /// Controls within their ranges.
    controls: Vec<f64>,
    /// Forces of the motors on the joints.
    torque: [f64; N],
    pub(super) acceleration: [f64; N],
    start: Vec<f64>,
    pose: Vec<f64>,
}

impl<M, const N: usize, const D: usize, const K: usize> Engine<M, N, D, K>
where
    M: Mechanism<N, D, K>,
{
    pub fn new(model: &'static Model, mechanism: M) -> Engine<M, N, D, K> {
        let (mut armature, mut damping) = ([0.0; N], [0.0; N]);
        let (mut limits, mut springs, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        let (mut dof, mut position) = (0, 0);
        for joint in model.joints {
            addresses.push(dof);
            let width = joint.kind.velocities();
            armature[dof..dof + width].fill(joint.armature);
            damping[dof..dof + width].fill(joint.damping);
            let is_single = matches!(joint.kind, Kind::Slide | Kind::Hinge);
            assert!(is_single || joint.range.is_none() && joint.stiffness == 0.0, "only slides and hinges have limits");
            if let Some(range) = joint.range {
                let (margin, weight, soft) = (joint.margin, joint.weight, joint.soft);
                limits.push(Limit { dof, position, range, margin, weight, soft });
            }
            if joint.stiffness != 0.0 {
                springs.push(Spring { dof, position, stiffness: joint.stiffness, rest: joint.spring });
            }
            dof += width;
            position += joint.kind.positions();
        }
        assert!(dof == N && position == model.qpos.len(), "{} has {dof} degrees of freedom", model.name);
        let motors = model.actuators.iter().map(|motor| Motor {
            dof: addresses[motor.joint],
            gear: motor.gear,
            gain: motor.gain,
            brake: motor.brake,
            force: motor.force.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]),
        });
        Engine {
            model,
            mechanism,
            problem: Problem::with_room(limits.len() + 4 * model.geoms.len()),
            armature,
            damping,
            limits,
            springs,
            motors: motors.collect(),
            is_damped: damping.iter().any(|d| *d > 0.0),
            controls: vec![0.0; model.actuators.len()],
            torque: [0.0; N],
            acceleration: [0.0; N],
            start: model.qpos.to_vec(),
            pose: model.qpos.to_vec(),
        }
    }

    pub(super) fn control(&mut self, ctrl: &[f64]) {
        assert_eq!(ctrl.len(), self.model.actuators.len(), "{} has so many motors", self.model.name);
        for (control, (motor, given)) in self.controls.iter_mut().zip(self.model.actuators.iter().zip(ctrl)) {
            *control = motor
                .control
                .map_or(*given, |[low, high]| if given.is_nan() { *given } else { given.clamp(low, high) });
        }
    }

    /// The acceleration at a position and velocity; becomes the guess of the next search.
    fn accelerate(&mut self, qpos: &[f64], qvel: &[f64; N]) -> [f64; N] {
        self.assemble(qpos, qvel);
        self.acceleration = self.problem.minimize(self.mechanism.tree(), &self.acceleration);
        self.acceleration
    }

    /// The problem whose solution is the acceleration.
    pub(super) fn assemble(&mut self, qpos: &[f64], qvel: &[f64; N]) {
        let problem = &mut self.problem;
        problem.blocks.clear();
        self.torque = [0.0; N];
        for (motor, control) in self.motors.iter().zip(&self.controls) {
            let force = motor.gain * control - motor.brake * motor.gear * qvel[motor.dof];
            // Written so that a force that is NaN stays it.
            let force = if force < motor.force[0] { motor.force[0] } else { force };
            let force = if force > motor.force[1] { motor.force[1] } else { force };
            self.torque[motor.dof] += motor.gear * force;
        }
        for i in 0..N {
            problem.force[i] = self.torque[i] - self.damping[i] * qvel[i];
        }
        for spring in &self.springs {
            problem.force[spring.dof] -= spring.stiffness * (qpos[spring.position] - spring.rest);
        }
        let tree = self.mechanism.tree();
        for (number, limit) in self.limits.iter().enumerate() {
            let value = qpos[limit.position];
            for (sign, distance) in [(1.0, value - limit.range[0]), (-1.0, limit.range[1] - value)] {
                if distance < limit.margin {
                    let block = problem.blocks.next();
                    block.key = number;
                    block.along(tree, limit.dof, tree.depth[limit.dof]);
                    block.rows[0][0] = sign;
                    block.soften(&limit.soft, distance - limit.margin, limit.weight, qvel);
                }
            }
        }
        self.mechanism.evaluate(qpos, qvel, problem);
        let tree = self.mechanism.tree();
        for i in 0..N {
            problem.mass.0[i][tree.depth[i]] += self.armature[i];
        }
    }

    fn runge_kutta(&mut self, qpos: &mut [f64], qvel: &mut [f64; N]) {
        let h = self.model.timestep;
        let mut pose = std::mem::take(&mut self.pose);
        let start = *qvel;
        let along =
            |by: f64, acceleration: &[f64; N]| -> [f64; N] { std::array::from_fn(|i| start[i] + by * acceleration[i]) };
        let first = self.accelerate(qpos, &start);
        let second_v = along(0.5 * h, &first);
        pose.copy_from_slice(qpos);
        self.mechanism.advance(&mut pose, &start, 0.5 * h);
        let second = self.accelerate(&pose, &second_v);
        let third_v = along(0.5 * h, &second);
        pose.copy_from_slice(qpos);
        self.mechanism.advance(&mut pose, &second_v, 0.5 * h);
        let third = self.accelerate(&pose, &third_v);
        let fourth_v = along(h, &third);
        pose.copy_from_slice(qpos);
        self.mechanism.advance(&mut pose, &third_v, h);
        let fourth = self.accelerate(&pose, &fourth_v);
        let mean = |a: &[f64; N], b: &[f64; N], c: &[f64; N], d: &[f64; N]| -> [f64; N] {
            std::array::from_fn(|i| (a[i] + 2.0 * b[i] + 2.0 * c[i] + d[i]) / 6.0)
        };
        self.mechanism.advance(qpos, &mean(&start, &second_v, &third_v, &fourth_v), h);
        *qvel = along(h, &mean(&first, &second, &third, &fourth));
        self.pose = pose;
    }

    /// Velocity, then position; as if the dampers acted on the velocity after the substep.
    fn euler(&mut self, qpos: &mut [f64], qvel: &mut [f64; N]) {
        let acceleration = self.accelerate(qpos, qvel);
        self.glide(qpos, qvel, acceleration);
    }

    /// Moves for a substep at the acceleration of the problem at hand.
    pub(super) fn glide(&self, qpos: &mut [f64], qvel: &mut [f64; N], mut acceleration: [f64; N]) {
        let h = self.model.timestep;
        if self.is_damped {
            let tree = self.mechanism.tree();
            let mut matrix = self.problem.mass;
            let right = matrix.times(tree, &acceleration);
            for i in 0..N {
                matrix.0[i][tree.depth[i]] += h * self.damping[i];
            }
            acceleration = matrix.solve(tree, &right);
        }
        for i in 0..N {
            qvel[i] += h * acceleration[i];
        }
        self.mechanism.advance(qpos, qvel, h);
    }

    pub(super) fn velocities(qvel: &[f64]) -> [f64; N] {
        qvel.try_into().expect("qvel has a number for each degree of freedom")
    }

    /// Writes the forces of the last evaluation's contacts.
    fn weigh(&mut self) {
        for (block, values) in self.problem.blocks.iter().zip(&self.problem.values) {
            if let Some(contact) = block.contact {
                self.mechanism.weigh(contact, &block.forces(values));
            }
        }
    }
}

impl<M, const N: usize, const D: usize, const K: usize> Physics for Engine<M, N, D, K>
where
    M: Mechanism<N, D, K> + Clone + 'static,
{
    fn model(&self) -> &'static Model {
        self.model
    }

    fn step(&mut self, state: &mut super::State, ctrl: &[f64]) {
        self.control(ctrl);
        self.acceleration = [0.0; N];
        self.problem.forget();
        let mut qvel = Self::velocities(&state.qvel);
        for _ in 0..self.model.substeps {
            match self.model.integrator {
                Integrator::RungeKutta => self.runge_kutta(&mut state.qpos, &mut qvel),
                Integrator::Euler => self.euler(&mut state.qpos, &mut qvel),
            }
        }
        state.qvel.copy_from_slice(&qvel);
        self.weigh();
    }

    fn look(&mut self, state: &super::State, ctrl: &[f64]) {
        self.control(ctrl);
        self.acceleration = [0.0; N];
        self.problem.forget();
        let qvel = Self::velocities(&state.qvel);
        let mut pose = std::mem::take(&mut self.start);
        pose.copy_from_slice(&state.qpos);
        self.accelerate(&pose, &qvel);
        self.start = pose;
        self.weigh();
    }

    fn surround(&mut self, obstacles: &mut dyn Iterator<Item = Obstacle>) {
        self.mechanism.surround(obstacles);
    }

    fn acceleration(&self) -> &[f64] {
        &self.acceleration
    }

    fn motor_forces(&self) -> &[f64] {
        &self.torque
    }

    fn rows(&self) -> usize {
        let rows = |block: &Block<D, K>| block.plain as usize + 2 * (block.len - 1);
        self.problem.blocks.iter().map(rows).sum()
    }

    fn contacts(&self) -> &[Contact] {
        self.mechanism.contacts()
    }

    fn place(&self, body: usize) -> [f64; 3] {
        self.mechanism.place(body)
    }

    fn orientation(&self, body: usize) -> [[f64; 3]; 3] {
        self.mechanism.orientation(body)
    }

    fn centre(&self, body: usize) -> [f64; 3] {
        self.mechanism.centre(body)
    }

    fn moments(&self, body: usize) -> Option<Moments> {
        self.mechanism.moments(body)
    }

    fn boxed(&self) -> Box<dyn Physics> {
        Box::new(self.clone())
    }
}
