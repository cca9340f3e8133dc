//! Episodes with everything a picture needs, recorded while `evaluate` plays them.

use p3o::evaluate::{Settings, evaluate};
use p3o::{Agent, Error};
use p3o_env::{Env, EnvSpec, Outcome, Scene};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

/// A world at one step of an episode, with the sums so far.
pub struct Moment {
    /// What there is to see.
    pub scene: Scene,
    /// Return so far.
    pub ret: f64,
    /// Each cost so far.
    pub costs: Vec<f64>,
    /// Whether the last step cost something.
    pub fired: bool,
}

impl Moment {
    /// The start of an episode in a world with so many costs.
    pub fn start(scene: Scene, costs: usize) -> Moment {
        Moment { scene, ret: 0.0, costs: vec![0.0; costs], fired: false }
    }

    /// The moment that follows by a step.
    pub fn next(&self, scene: Scene, reward: f32, costs: &[f32]) -> Moment {
        Moment {
            scene,
            ret: self.ret + f64::from(reward),
            costs: self.costs.iter().zip(costs).map(|(sum, cost)| sum + f64::from(*cost)).collect(),
            fired: costs.iter().any(|cost| *cost > 0.0),
        }
    }
}

/// One episode from its start to its end; the index is the step.
pub type Reel = Vec<Moment>;

/// The very episodes that [`evaluate`] plays with these settings.
pub fn film(agent: &Agent, make: &dyn Fn() -> Box<dyn Env>, settings: &Settings) -> Result<Vec<Reel>, Error> {
    let reels: RefCell<Vec<Arc<Mutex<Vec<Reel>>>>> = RefCell::default();
    let watched = || -> Box<dyn Env> {
        let reel = Arc::default();
        reels.borrow_mut().push(Arc::clone(&reel));
        Box::new(Watched { world: make(), reels: reel })
    };
    evaluate(agent, &watched, settings)?;
    let take = |reels: Arc<Mutex<Vec<Reel>>>| {
        let mut episodes = std::mem::take(&mut *reels.lock().unwrap_or_else(PoisonError::into_inner));
        // A world that has finished an episode has begun another.
        episodes.pop();
        episodes
    };
    Ok(reels.into_inner().into_iter().flat_map(take).collect())
}

/// A world that leaves a reel of each of its episodes.
struct Watched {
    world: Box<dyn Env>,
    reels: Arc<Mutex<Vec<Reel>>>,
}

impl Watched {
    fn scene(&self) -> Scene {
        let mut scene = Scene::default();
        self.world.draw(&mut scene);
        scene
    }

    fn with_reels(&self, change: impl FnOnce(&mut Vec<Reel>)) {
        change(&mut self.reels.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Env for Watched {
    fn spec(&self) -> &EnvSpec {
        self.world.spec()
    }

    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        self.world.reset(seed, obs);
        let start = Moment::start(self.scene(), self.spec().costs.len());
        self.with_reels(|reels| reels.push(vec![start]));
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        let outcome = self.world.step(action, obs, costs);
        let scene = self.scene();
        self.with_reels(|reels| {
            let reel = reels.last_mut().expect("an episode begins with a reset");
            let before = reel.last().expect("a reel begins with its start");
            reel.push(before.next(scene, outcome.reward, costs));
        });
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p3o_env::{TASKS, tasks};

    #[test]
    fn a_reel_holds_every_scene_and_fires_exactly_with_the_costs() {
        for task in TASKS {
            let make = || tasks::make(task.name, &Default::default()).expect("a listed task");
            let reels = Arc::default();
            let mut watched = Watched { world: make(), reels: Arc::clone(&reels) };
            let mut world = make();
            let action = vec![0.7; world.spec().action.width()];
            let (mut obs, mut costs) = (vec![0.0; world.spec().obs_dim], vec![0.0; world.spec().costs.len()]);
            let (mut scenes, mut fired, mut sums) = (Vec::new(), Vec::new(), vec![0.0; costs.len()]);
            for seed in 0..6 {
                world.reset(seed, &mut obs);
                watched.reset(seed, &mut obs);
                for step in 0..25 {
                    if step > 0 {
                        watched.step(&action, &mut obs, &mut costs);
                        world.step(&action, &mut obs, &mut costs);
                        sums.iter_mut().zip(&costs).for_each(|(sum, cost)| *sum += f64::from(*cost));
                    }
                    let mut scene = Scene::default();
                    world.draw(&mut scene);
                    scenes.push(scene);
                    fired.push(step > 0 && costs.iter().any(|cost| *cost > 0.0));
                }
            }
            let reels = reels.lock().unwrap();
            let moments = || reels.iter().flatten();
            assert_eq!(reels.iter().map(Vec::len).collect::<Vec<_>>(), [25; 6], "{}", task.name);
            assert!(moments().map(|m| &m.scene).eq(&scenes), "{}", task.name);
            assert!(moments().map(|m| m.fired).eq(fired), "{}", task.name);
            let total = |i: usize| reels.iter().map(|reel| reel[24].costs[i]).sum::<f64>();
            assert!(sums.iter().enumerate().all(|(i, sum)| *sum == total(i)), "{}: {sums:?}", task.name);
        }
    }
}
