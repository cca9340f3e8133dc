//! Run fast, but not too fast: Safety-Gymnasium's velocity tasks (`SafetyAntVelocity-v1` and its kin).
//!
//! ```text
//! reward = w v_x + alive - effort |action|^2         cost "velocity" = 1 if v > limit, limit 25
//! ```
//!
//! v_x is the mean velocity along x over the step; v is the same for the runners in a plane, and the speed over ground for Ant and
//! Humanoid. Weights and limits are in [`Runner`]'s table. Hopper, Walker, Ant and Humanoid terminate when they fall; any
//! episode terminates when its state is no longer finite, and is truncated after 1000 steps.
//!
//! The Ant's place and the Humanoid's centre of mass are read where the original reads them: in the last evaluation of the
//! integrator, which is a fraction of a millimetre off the final position.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use crate::labels::each;
use crate::layout::Rect;
use crate::open_env::{StateReader, quantities};
use crate::physics::ant;
use crate::physics::articulated::model::{Kind, Shape};
use crate::physics::articulated::{self, Model, Physics, bodies};
use crate::{
    ActionSpace, CostSpec, Env, EnvSpec, Form, Label, Labels, OpenEnv, Outcome, Quantities, RestoreError, Role, Scene,
    StateError, snapshot,
};

const HORIZON: usize = 1000;
const LIMIT: f64 = 25.0;
/// An action beyond this many times its range takes the effort of one there, so that every reward is finite.
const FARTHEST: f32 = 1000.0;

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// Four legs.
    Ant,
    /// Two legs in a plane, and no way to fall.
    HalfCheetah,
    /// One leg in a plane.
    Hopper,
    /// Two legs in a plane.
    Walker2d,
    /// Three links in a plane of water.
    Swimmer,
    /// Arms and legs.
    Humanoid,
}

/// What the velocity is the change of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The first position of the state.
    Position,
    /// The torso in the last evaluation.
    Torso,
    /// The centre of mass in the last evaluation.
    Mass,
}

/// A task's numbers.
#[derive(Debug)]
struct Task {
    name: &'static str,
    model: &'static Model,
    place: Place,
    /// The velocity above which a step costs.
    limit: f64,
    forward: f64,
    alive: f64,
    effort: f64,
    /// Size of the noise at the start; on velocities it is normal if `normal`, else uniform like that on positions.
    noise: f64,
    normal: bool,
    /// The first positions, which are not observed.
    hidden: usize,
    /// Observed velocities are kept within.
    clip: f64,
    stands: fn(&articulated::State) -> bool,
}

static TASKS: [Task; 6] = [
    Task {
        name: "AntVelocity",
        model: &bodies::ANT,
        place: Place::Torso,
        limit: 2.6222,
        forward: 1.0,
        alive: 1.0,
        effort: 0.5,
        noise: 0.1,
        normal: true,
        hidden: 2,
        clip: f64::INFINITY,
        stands: |state| (0.2..=1.0).contains(&state.qpos[2]),
    },
    Task {
        name: "HalfCheetahVelocity",
        model: &bodies::HALF_CHEETAH,
        place: Place::Position,
        limit: 3.2096,
        forward: 1.0,
        alive: 0.0,
        effort: 0.1,
        noise: 0.1,
        normal: true,
        hidden: 1,
        clip: f64::INFINITY,
        stands: |_| true,
    },
    Task {
        name: "HopperVelocity",
        model: &bodies::HOPPER,
        place: Place::Position,
        limit: 0.7402,
        forward: 1.0,
        alive: 1.0,
        effort: 1e-3,
        noise: 5e-3,
        normal: false,
        hidden: 1,
        clip: 10.0,
        stands: |state| {
            let moderate = state.qpos[2..].iter().chain(&state.qvel).all(|x| x.abs() < 100.0);
            moderate && state.qpos[1] > 0.7 && state.qpos[2].abs() < 0.2
        },
    },
    Task {
        name: "Walker2dVelocity",
        model: &bodies::WALKER2D,
        place: Place::Position,
        limit: 2.3415,
        forward: 1.0,
        alive: 1.0,
        effort: 1e-3,
        noise: 5e-3,
        normal: false,
        hidden: 1,
        clip: 10.0,
        stands: |state| state.qpos[1] > 0.8 && state.qpos[1] < 2.0 && state.qpos[2].abs() < 1.0,
    },
    Task {
        name: "SwimmerVelocity",
        model: &bodies::SWIMMER,
        place: Place::Position,
        limit: 0.2282,
        forward: 1.0,
        alive: 0.0,
        effort: 1e-4,
        noise: 0.1,
        normal: false,
        hidden: 2,
        clip: f64::INFINITY,
        stands: |_| true,
    },
    Task {
        name: "HumanoidVelocity",
        model: &bodies::HUMANOID,
        place: Place::Mass,
        limit: 1.4149,
        forward: 1.25,
        alive: 5.0,
        effort: 0.1,
        noise: 1e-2,
        normal: false,
        hidden: 2,
        clip: f64::INFINITY,
        stands: |state| state.qpos[2] > 1.0 && state.qpos[2] < 2.0,
    },
];

impl Runner {
    fn task(self) -> &'static Task {
        &TASKS[self as usize]
    }
}

/// Everything that changes while the world runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    body: articulated::State,
    /// Where the velocity of the next step is counted from.
    place: [f64; 2],
    /// Whether the last step was too fast.
    too_fast: bool,
    steps: u64,
}

/// A velocity task.
pub struct Velocity {
    spec: EnvSpec,
    runner: Runner,
    task: &'static Task,
    physics: Box<dyn Physics>,
    state: State,
    controls: Vec<f64>,
}

impl std::fmt::Debug for Velocity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Velocity").field("runner", &self.runner).field("state", &self.state).finish_non_exhaustive()
    }
}

impl Clone for Velocity {
    fn clone(&self) -> Velocity {
        Velocity {
            spec: self.spec.clone(),
            runner: self.runner,
            task: self.task,
            physics: self.physics.boxed(),
            state: self.state.clone(),
            controls: self.controls.clone(),
        }
    }
}

impl Velocity {
    /// A world in the initial state of seed 0.
    pub fn new(runner: Runner) -> Velocity {
        let task = runner.task();
        let model = task.model;
        let motion = model.positions() + model.velocities() - task.hidden;
        // Inertia, velocity and contact force of every body and the world, and the motors' forces.
        let moments = if runner == Runner::Humanoid { 22 * (model.bodies.len() + 1) + model.velocities() } else { 0 };
        let spec = EnvSpec {
            name: task.name.to_owned(),
            obs_dim: motion + moments,
            action: ActionSpace::Continuous { dim: model.actuators.len() },
            agents: 1,
            costs: vec![CostSpec::new("velocity", LIMIT).per_step(1.0)],
            horizon: HORIZON,
        };
        let body = articulated::State::of(model);
        let mut world = Velocity {
            spec,
            runner,
            task,
            physics: articulated::build(model),
            state: State { body, place: [0.0; 2], too_fast: false, steps: 0 },
            controls: vec![0.0; model.actuators.len()],
        };
        world.begin(0);
        world
    }

    /// The body now.
    pub fn body(&self) -> &articulated::State {
        &self.state.body
    }

    /// The reference pose with noise on every position and velocity.
    fn begin(&mut self, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let Task { model, noise, normal, .. } = *self.task;
        let mut body = articulated::State::of(model);
        for value in &mut body.qpos {
            *value += rng.random_range(-noise..noise);
        }
        for value in &mut body.qvel {
            *value = if normal {
                let z: f64 = StandardNormal.sample(&mut rng);
                noise * z
            } else {
                rng.random_range(-noise..noise)
            };
        }
        self.start(body);
    }

    fn start(&mut self, mut body: articulated::State) {
        body.normalize(self.task.model);
        self.controls.fill(0.0);
        self.physics.look(&body, &self.controls);
        self.state = State { body, place: [0.0; 2], too_fast: false, steps: 0 };
        self.state.place = self.place();
    }

    /// What the velocity is the change of, after a step or a look.
    fn place(&self) -> [f64; 2] {
        match self.task.place {
            Place::Position => [self.state.body.qpos[0], 0.0],
            Place::Torso => {
                let [x, y, _] = self.physics.place(1);
                [x, y]
            }
            Place::Mass => {
                let (mut sum, mut mass) = ([0.0; 2], 0.0);
                for (i, body) in self.task.model.bodies.iter().enumerate() {
                    let [x, y, _] = self.physics.centre(i + 1);
                    sum = [sum[0] + body.mass * x, sum[1] + body.mass * y];
                    mass += body.mass;
                }
                [sum[0] / mass, sum[1] / mass]
            }
        }
    }

    /// Moves the body; what the velocity is the change of.
    fn advance(&mut self) -> [f64; 2] {
        if self.runner != Runner::Ant {
            self.physics.step(&mut self.state.body, &self.controls);
            return self.place();
        }
        // The same to rounding, by the engine that is laid out for this body alone and a third faster.
        let [x, y, _] = ant::step_tables(&mut self.state.body, &self.controls);
        [x, y]
    }

    fn observe(&self, obs: &mut [f32]) {
        let articulated::State { qpos, qvel } = &self.state.body;
        let clip = self.task.clip;
        let mut out = obs.iter_mut();
        let mut put = |value: f64| {
            if let Some(out) = out.next() {
                *out = value as f32;
            }
        };
        qpos[self.task.hidden..].iter().for_each(|x| put(*x));
        // Written so that a velocity that is NaN stays NaN.
        qvel.iter().for_each(|v| put(if v.abs() > clip { clip.copysign(*v) } else { *v }));
        if self.runner == Runner::Humanoid {
            let moments: Vec<_> = (1..=self.task.model.bodies.len()).filter_map(|b| self.physics.moments(b)).collect();
            [0.0; 10].into_iter().chain(moments.iter().flat_map(|m| m.inertia)).for_each(&mut put);
            [0.0; 6].into_iter().chain(moments.iter().flat_map(|m| m.velocity)).for_each(&mut put);
            self.physics.motor_forces().iter().for_each(|f| put(*f));
            // The original has no contact forces before the first step.
            let felt = if self.state.steps > 0 { 1.0 } else { 0.0 };
            [0.0; 6].into_iter().chain(moments.iter().flat_map(|m| m.force)).for_each(|f| put(felt * f));
        }
    }
}

impl Env for Velocity {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        self.begin(seed);
        self.observe(obs);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        let task = self.task;
        let mut effort = 0.0;
        for (control, (motor, action)) in self.controls.iter_mut().zip(task.model.actuators.iter().zip(action)) {
            let most = motor.control.map_or(1.0, |[_, high]| high);
            // As in the original: the motors clip an action, its effort is that of the action as it was given.
            *control = most * f64::from(action.clamp(-1.0, 1.0));
            effort += (most * f64::from(action.clamp(-FARTHEST, FARTHEST))).powi(2);
        }
        let place = self.advance();
        let seconds = task.model.timestep * task.model.substeps as f64;
        let [vx, vy] = [0, 1].map(|i| (place[i] - self.state.place[i]) / seconds);
        let speed = if task.place == Place::Position { vx } else { (vx * vx + vy * vy).sqrt() };
        let state = &mut self.state;
        (state.place, state.too_fast) = (place, speed > task.limit);
        state.steps += 1;
        let terminated = !state.body.is_finite() || !(task.stands)(&state.body);
        let truncated = !terminated && state.steps >= HORIZON as u64;
        costs[0] = f32::from(u8::from(state.too_fast));
        self.observe(obs);
        let reward = task.forward * vx + task.alive - task.effort * effort;
        Outcome { reward: reward as f32, terminated, truncated }
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        Some(snapshot::seal(self.task.name, &self.state))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let state: State = snapshot::open(self.task.name, bytes)?;
        let lengths = [state.body.qpos.len(), state.body.qvel.len()];
        if lengths != [self.task.model.positions(), self.task.model.velocities()] {
            let reason = "its body has another number of joints".to_owned();
            return Err(RestoreError { task: self.task.name.to_owned(), reason });
        }
        self.state = state;
        Ok(())
    }

    /// Runners from the side, Ant and Swimmer from above. The picture goes along with them, past a line for every metre.
    fn draw(&self, scene: &mut Scene) {
        let model = self.task.model;
        let mut physics = self.physics.boxed();
        physics.look(&self.state.body, &vec![0.0; model.actuators.len()]);
        let from_above = matches!(self.runner, Runner::Ant | Runner::Swimmer);
        let [x0, ..] = physics.place(1);
        let seen = |[x, y, z]: [f64; 3]| [x - x0, if from_above { y } else { z }];
        scene.bounds = if from_above { Rect::square(2.5) } else { Rect { min: [-2.0, -0.25], max: [2.0, 2.25] } };
        for metre in -3..=3 {
            let x = f64::from(metre) + x0.floor() - x0;
            let Rect { min, max } = scene.bounds;
            let top = if from_above { max[1] } else { 0.0 };
            if x > min[0] && x < max[0] {
                scene.line(Role::Track, [x, min[1]], [x, top]);
            }
        }
        if !from_above {
            let Rect { min, max } = scene.bounds;
            scene.line(Role::Wall, [min[0], 0.0], [max[0], 0.0]);
        }
        for geom in model.geoms.iter().filter(|geom| geom.shape != Shape::Plane) {
            let (at, axes) = (physics.place(geom.body), physics.orientation(geom.body));
            let turn = articulated::axes(geom.quat);
            let in_world = |v: [f64; 3]| -> [f64; 3] {
                std::array::from_fn(|i| at[i] + axes[i][0] * v[0] + axes[i][1] * v[1] + axes[i][2] * v[2])
            };
            let end = |s: f64| seen(in_world(std::array::from_fn(|i| geom.pos[i] + s * geom.size[1] * turn[i][2])));
            let role = if geom.body == 1 { Role::Agent } else { Role::Limb };
            let radius = geom.size[0];
            let form = match geom.shape {
                Shape::Sphere => Form::Disc { centre: seen(in_world(geom.pos)), radius },
                _ => Form::Line { ends: [end(1.0), end(-1.0)], radius },
            };
            scene.add(role, form).alarm = role == Role::Agent && self.state.too_fast;
        }
        scene.agents.push(seen(physics.place(1)));
    }

    fn labels(&self) -> Labels {
        let model = self.task.model;
        let label = |name: String, unit: &str| Label { name, unit: unit.to_owned() };
        let (mut positions, mut velocities, mut forces) = (Vec::new(), Vec::new(), Vec::new());
        for joint in model.joints {
            let (name, kind) = (joint.name, joint.kind);
            match kind {
                Kind::Slide | Kind::Hinge => {
                    let unit = if kind == Kind::Hinge { "rad" } else { "m" };
                    positions.push(label(format!("position_{name}"), unit));
                    velocities.push(label(format!("velocity_{name}"), &format!("{unit}/s")));
                    forces.push(label(format!("motor_{name}"), "N m"));
                }
                Kind::Free | Kind::Ball => {
                    positions.extend(each("position", &["x", "y", "z"], "m"));
                    positions.extend(each("orientation", &["w", "x", "y", "z"], "quaternion"));
                    velocities.extend(each("velocity", &["x", "y", "z"], "m/s"));
                    velocities.extend(each("turn", &["x", "y", "z"], "rad/s, in the torso's frame"));
                    forces.extend(each("motor", &["x", "y", "z", "turn_x", "turn_y", "turn_z"], "zero"));
                }
            }
        }
        let mut observation = positions.split_off(self.task.hidden);
        observation.extend(velocities);
        if self.runner == Runner::Humanoid {
            let of_all = |of: &str, parts: &[(&str, &str)]| -> Vec<Label> {
                let names = std::iter::once("world").chain(model.bodies.iter().map(|body| body.name));
                names
                    .flat_map(|body| {
                        let unit = move |unit: &str| if body == "world" { "zero".to_owned() } else { unit.to_owned() };
                        parts.iter().map(move |(part, of_part)| Label {
                            name: format!("{of}_{body}_{part}"),
                            unit: unit(of_part),
                        })
                    })
                    .collect()
            };
            let inertia = ["xx", "yy", "zz", "xy", "xz", "yz"].map(|part| (part, "kg m^2"));
            let mass = [("x", "kg m"), ("y", "kg m"), ("z", "kg m"), ("mass", "kg")];
            let six =
                |turn, go| [("turn_x", turn), ("turn_y", turn), ("turn_z", turn), ("x", go), ("y", go), ("z", go)];
            observation.extend(of_all("inertia", &[&inertia[..], &mass[..]].concat()));
            observation.extend(of_all("motion", &six("rad/s", "m/s")));
            observation.extend(forces);
            observation.extend(of_all("contact", &six("N m", "N")));
        }
        let action = model.actuators.iter().map(|motor| {
            let torque = motor.gear * motor.gain * motor.control.map_or(1.0, |[_, high]| high);
            label(format!("torque_{}", model.joints[motor.joint].name), &format!("{torque} N m"))
        });
        Labels { observation, action: action.collect() }
    }
}

/// State: `qpos` and `qvel`. Derived: `qacc`, the numbers of `contacts` and constraint `rows`, and the `place` that the velocity is
/// the change of.
impl OpenEnv for Velocity {
    fn state(&self) -> Quantities {
        let articulated::State { qpos, qvel } = &self.state.body;
        quantities([("qpos", qpos), ("qvel", qvel)])
    }

    fn set_state(&mut self, state: Quantities) -> Result<(), StateError> {
        let mut reader = StateReader::new(state);
        let model = self.task.model;
        let qpos = reader.list("qpos", model.positions())?;
        let qvel = reader.list("qvel", model.velocities())?;
        reader.finish()?;
        self.start(articulated::State { qpos, qvel });
        Ok(())
    }

    fn derived(&self, action: &[f32]) -> Quantities {
        let motors = self.task.model.actuators.iter().zip(action);
        let most = motors.map(|(motor, a)| motor.control.map_or(1.0, |[_, high]| high) * f64::from(a.clamp(-1.0, 1.0)));
        let mut physics = self.physics.boxed();
        physics.look(&self.state.body, &most.collect::<Vec<f64>>());
        let [contacts, rows] = [physics.contacts().len(), physics.rows()].map(|count| [count as f64]);
        let place = &self.state.place;
        quantities([("qacc", physics.acceleration()), ("contacts", &contacts), ("rows", &rows), ("place", place)])
    }
}
