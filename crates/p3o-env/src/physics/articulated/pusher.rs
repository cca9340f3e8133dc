//! The Car among light cubes.
//!
//! While it touches none, the Car is a problem of its own, as on empty ground. Where it does, its mass matrix, forces and contacts with the
//! ground become part of the problem that [`Cubes`] solve.

use std::cell::RefCell;

use super::cubes::{Cubes, LargeRooms, Robot};
use super::engine::{Engine, Mechanism};
use super::spatial::Spatial;
use super::tree::{Full, Tree};
use super::{Physics, State, bodies, parents};

const DOFS: usize = 11;
/// Shapes of the Car.
const GEOMS: usize = bodies::CAR.geoms.len() - 1;
/// From the centre of mass to beyond the edges of the wheels.
const REACH: f64 = 0.26;

type CarEngine = Engine<Spatial<DOFS, 12, 6>, DOFS, 12, 6>;

/// The Car as one that can push cubes.
#[derive(Clone)]
pub struct Pusher {
    engine: Box<CarEngine>,
}

thread_local! {
    /// What the search needs: nothing of it outlives a call, so the worlds of a thread share it.
    static ROOMS: RefCell<LargeRooms> = RefCell::new(LargeRooms::new());
}

impl Default for Pusher {
    fn default() -> Pusher {
        let model = &bodies::CAR;
        Pusher { engine: Box::new(Engine::new(model, Spatial::new(model, Tree::new(&parents(model))))) }
    }
}

impl Pusher {
    /// The Car where there are no cubes.
    pub fn alone(&mut self) -> &mut dyn Physics {
        &mut *self.engine
    }

    /// What it tells of the last evaluation. Of contacts among cubes it finds no forces.
    pub fn told(&self) -> &dyn Physics {
        &*self.engine
    }

    /// Advances by one step of a world.
    pub fn step(&mut self, state: &mut State, ctrl: &[f64], cubes: &mut Cubes) {
        self.advance(state, ctrl, cubes, bodies::CAR.substeps);
    }

    /// Advances by a single substep.
    pub fn substep(&mut self, state: &mut State, ctrl: &[f64], cubes: &mut Cubes) {
        self.advance(state, ctrl, cubes, 1);
    }

    /// Evaluates this moment without moving.
    pub fn look(&mut self, state: &State, ctrl: &[f64], cubes: &mut Cubes) {
        self.engine.begin(ctrl, cubes);
        self.engine.accelerate_among(&state.qpos, &CarEngine::velocities(&state.qvel), cubes);
    }

    fn advance(&mut self, state: &mut State, ctrl: &[f64], cubes: &mut Cubes, substeps: usize) {
        self.engine.begin(ctrl, cubes);
        let mut qvel = CarEngine::velocities(&state.qvel);
        for _ in 0..substeps {
            cubes.carry();
            self.engine.accelerate_among(&state.qpos, &qvel, cubes);
            self.engine.glide(&mut state.qpos, &mut qvel, self.engine.acceleration);
            cubes.advance();
        }
        state.qvel.copy_from_slice(&qvel);
    }
}

impl CarEngine {
    /// What follows depends on the state alone.
    fn begin(&mut self, ctrl: &[f64], cubes: &mut Cubes) {
        self.control(ctrl);
        self.acceleration = [0.0; DOFS];
        self.problem.forget();
        cubes.forget();
    }

    fn accelerate_among(&mut self, qpos: &[f64], qvel: &[f64; DOFS], cubes: &mut Cubes) {
        self.assemble(qpos, qvel);
        let tree = self.mechanism.tree();
        let felt = if cubes.is_idle([qpos[0], qpos[1]], REACH) {
            None
        } else {
            // The ground is geom 0.
            let parts: [_; GEOMS] = std::array::from_fn(|i| self.mechanism.part(i + 1));
            let robot = Robot {
                mass: Full::of(&self.problem.mass, tree).0,
                force: self.problem.force,
                velocity: *qvel,
                parts: &parts,
                reach: REACH,
                own: &self.problem.blocks,
                guess: self.acceleration,
            };
            ROOMS.with_borrow_mut(|rooms| cubes.evaluate(&robot, rooms)).acceleration
        };
        self.acceleration = match felt {
            Some(acceleration) => acceleration,
            None => self.problem.minimize(tree, &self.acceleration),
        };
    }
}
