//! What several promises need: drivers, and a loop that runs them.

use p3o_env::{ArenaView, Env, GoalLevel, Navigation, Outcome, Pillars, PointGoal};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// A world whose inside can be looked at.
pub trait Visible: Env {
    fn view(&self) -> ArenaView<'_>;
}

impl Visible for PointGoal {
    fn view(&self) -> ArenaView<'_> {
        PointGoal::view(self)
    }
}

impl Visible for Navigation {
    fn view(&self) -> ArenaView<'_> {
        Navigation::view(self)
    }
}

/// Every variant of every task.
pub fn all_worlds() -> Vec<Box<dyn Visible>> {
    let levels = [GoalLevel::Zero, GoalLevel::One, GoalLevel::Two];
    let mut worlds: Vec<Box<dyn Visible>> = Vec::new();
    worlds.extend(levels.map(|level| Box::new(PointGoal::new(level)) as Box<dyn Visible>));
    let pillars = [Pillars::Scattered, Pillars::Fence];
    worlds.extend(pillars.map(|pillars| Box::new(Navigation::with_pillars(pillars)) as Box<dyn Visible>));
    worlds
}

/// Gaussian noise of standard deviation e^-0.5, where training starts.
pub struct Noise(pub ChaCha8Rng);

impl Noise {
    pub fn new(seed: u64) -> Noise {
        Noise(ChaCha8Rng::seed_from_u64(seed))
    }

    pub fn action(&mut self) -> [f32; 2] {
        let sigma = (-0.5f32).exp();
        [(); 2].map(|()| {
            let z: f32 = StandardNormal.sample(&mut self.0);
            sigma * z
        })
    }
}

/// Turns towards the goal and drives when it lies ahead.
pub fn towards_goal(scene: &ArenaView<'_>) -> [f32; 2] {
    towards(scene, scene.goal)
}

/// Turns towards `target` and drives when it lies ahead.
pub fn towards(scene: &ArenaView<'_>, target: [f64; 2]) -> [f32; 2] {
    let [x, y, theta] = scene.robot;
    let (dx, dy) = (target[0] - x, target[1] - y);
    let (ahead, left) = (theta.cos() * dx + theta.sin() * dy, theta.cos() * dy - theta.sin() * dx);
    let bearing = left.atan2(ahead);
    let drive = if bearing.abs() < 0.5 { 1.0 } else { 0.0 };
    [drive, (1.5 * bearing).clamp(-1.0, 1.0) as f32]
}

pub fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    ((a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)).sqrt()
}

/// What one step gave, in full.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub obs: Vec<f32>,
    pub costs: Vec<f32>,
    pub outcome: Outcome,
}

pub fn step(world: &mut dyn Env, action: [f32; 2]) -> Step {
    step_by(world, &action)
}

/// One step by an action of any width.
pub fn step_by(world: &mut dyn Env, action: &[f32]) -> Step {
    let mut obs = vec![f32::NAN; world.spec().obs_dim];
    let mut costs = vec![f32::NAN; world.spec().costs.len()];
    let outcome = world.step(action, &mut obs, &mut costs);
    Step { obs, costs, outcome }
}

pub fn reset(world: &mut dyn Env, seed: u64) -> Vec<f32> {
    let mut obs = vec![f32::NAN; world.spec().obs_dim];
    world.reset(seed, &mut obs);
    obs
}

/// The state of a world that has snapshots.
pub fn frozen(world: &dyn Env) -> Vec<u8> {
    world.snapshot().expect("this world has snapshots")
}

/// Where the seeds of episodes come from: a random stream per world.
pub struct Seeds(Vec<ChaCha8Rng>);

impl Seeds {
    pub fn new(seed: u64, worlds: usize) -> Seeds {
        let stream = |world: usize| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(world as u64);
            rng
        };
        Seeds((0..worlds).map(stream).collect())
    }

    pub fn next(&mut self, world: usize) -> u64 {
        self.0[world].next_u64()
    }

    /// The next seed of every world.
    pub fn all(&mut self) -> Vec<u64> {
        (0..self.0.len()).map(|world| self.next(world)).collect()
    }
}

/// Bits, so that NaN and the sign of zero count too.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}
