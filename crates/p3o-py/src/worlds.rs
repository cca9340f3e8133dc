//! Worlds of one task, stepped together on all cores straight into the caller's arrays.

use p3o_env::{ActionSpace, Env, EnvSpec, Outcome, RestoreError, Scene, snapshot};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

/// Fewer worlds than these are stepped by the calling thread: to wake others would take longer.
const ALONE: usize = 16;
/// Parts for each thread: so many that no thread waits long for the last of another, which began later or is slower.
const PARTS: usize = 32;

/// When a world begins its next episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autoreset {
    /// When it is told to; until then it cannot be stepped.
    Disabled,
    /// In the step after the last one, whose action counts for nothing.
    NextStep,
    /// In the last step itself.
    SameStep,
}

/// A number of worlds of one task.
pub struct Worlds {
    spec: EnvSpec,
    worlds: Vec<World>,
    autoreset: Autoreset,
}

/// One world and the seeds of its episodes.
struct World {
    env: Box<dyn Env>,
    seeds: ChaCha8Rng,
    /// Whether there is no episode to go on with.
    ended: bool,
}

/// Where a step is written, world after world.
pub struct Out<'a> {
    /// A row per world.
    pub obs: &'a mut [f32],
    /// One per world.
    pub rewards: &'a mut [f64],
    /// One per world.
    pub terminated: &'a mut [bool],
    /// One per world.
    pub truncated: &'a mut [bool],
    /// A row per world: the sum of all costs and then each, in the order of [`EnvSpec::costs`].
    pub costs: &'a mut [f64],
    /// Last observations of episodes that ended in this step, a row per world; only [`Autoreset::SameStep`] writes them.
    pub last_obs: &'a mut [f32],
}

impl Out<'_> {
    /// The same arrays for a shorter time.
    pub fn again(&mut self) -> Out<'_> {
        Out {
            obs: self.obs,
            rewards: self.rewards,
            terminated: self.terminated,
            truncated: self.truncated,
            costs: self.costs,
            last_obs: self.last_obs,
        }
    }
}

impl Worlds {
    /// `count` worlds from `make`, one at least. Episodes without a seed of their own follow from `entropy`.
    pub fn new(make: &dyn Fn() -> Box<dyn Env>, count: usize, autoreset: Autoreset, entropy: u64) -> Worlds {
        let world = |i| World { env: make(), seeds: stream(entropy, i as u64), ended: true };
        let worlds: Vec<World> = (0..count.max(1)).map(world).collect();
        Worlds { spec: worlds[0].env.spec().clone(), worlds, autoreset }
    }

    /// What every world looks like.
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.worlds.len()
    }

    /// When a world begins its next episode.
    pub fn autoreset(&self) -> Autoreset {
        self.autoreset
    }

    /// Begins an episode in world `i` and writes its first observation. From a seed follow this episode, which is the one
    /// that the task has for the seed everywhere, and those after it.
    pub fn reset(&mut self, i: usize, seed: Option<u64>, obs: &mut [f32]) {
        let world = &mut self.worlds[i];
        match seed {
            Some(seed) => {
                world.seeds = stream(seed, 0);
                world.env.reset(seed, obs);
                world.ended = false;
            }
            None => world.begin(obs),
        }
    }

    /// Whether these are actions for all worlds; otherwise what is wrong, in a sentence.
    pub fn check(&self, actions: &[f32]) -> Result<(), String> {
        let width = self.spec.action_width();
        let name = &self.spec.name;
        // All at once first, which the compiler makes vectors of.
        if !actions.iter().fold(true, |all, a| all & a.is_finite()) {
            let i = actions.iter().position(|a| !a.is_finite()).unwrap_or(0);
            return Err(format!("{name}: the action of world {} holds {}, which is not finite", i / width, actions[i]));
        }
        let heads = self.spec.action.heads();
        if let ActionSpace::Continuous { .. } = self.spec.action {
            return Ok(());
        }
        for (i, a) in actions.iter().enumerate() {
            let n = heads[i % heads.len()];
            if a.fract() != 0.0 || *a < 0.0 || *a >= n as f32 {
                return Err(format!(
                    "{name}: the action of world {} holds {a}, which is none of 0 to {}",
                    i / width,
                    n - 1
                ));
            }
        }
        Ok(())
    }

    /// The first world that waits for a reset, where none happens by itself.
    pub fn waiting(&self) -> Option<usize> {
        (self.autoreset == Autoreset::Disabled).then(|| self.worlds.iter().position(|world| world.ended)).flatten()
    }

    /// Whether world `i` has no episode to go on with.
    pub fn ended(&self, i: usize) -> bool {
        self.worlds[i].ended
    }

    /// Advances every world by its action, in the current pool of threads if there are many.
    ///
    /// # Panics
    ///
    /// If the arrays are not those of this number of worlds, or if a world waits for a reset.
    pub fn step(&mut self, actions: &[f32], out: Out) {
        assert!(self.waiting().is_none(), "every world has an episode");
        let (n, autoreset) = (self.worlds.len(), self.autoreset);
        let sizes = [self.spec.action_width(), self.spec.obs_dim, self.spec.costs.len()];
        let parts = if n < ALONE { 1 } else { (PARTS * rayon::current_num_threads()).min(n / 4) };
        let mut left = Part { worlds: &mut self.worlds, actions, out };
        if parts == 1 {
            return left.step(autoreset, sizes);
        }
        let size = n.div_ceil(parts);
        let parts: Vec<Part> = (0..n).step_by(size).map(|i| left.cut(size.min(n - i), sizes)).collect();
        parts.into_par_iter().with_max_len(1).for_each(|mut part| part.step(autoreset, sizes));
    }

    /// What world `i` looks like now.
    pub fn scene(&self, i: usize) -> Scene {
        let mut scene = Scene::default();
        self.worlds[i].env.draw(&mut scene);
        scene
    }

    /// All that changes while the worlds run; `None` if they cannot be frozen.
    pub fn snapshot(&self) -> Option<Vec<u8>> {
        let freeze = |world: &World| Some((world.env.snapshot()?, world.seeds.clone(), world.ended));
        let frozen: Option<Vec<_>> = self.worlds.iter().map(freeze).collect();
        Some(snapshot::seal(&self.kind(), &frozen?))
    }

    /// Continues from a snapshot of as many worlds of the same kind. After a failure their state is unknown.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let frozen: Vec<(Vec<u8>, ChaCha8Rng, bool)> = snapshot::open(&self.kind(), bytes)?;
        for (world, (bytes, seeds, ended)) in self.worlds.iter_mut().zip(frozen) {
            world.env.restore(&bytes)?;
            (world.seeds, world.ended) = (seeds, ended);
        }
        Ok(())
    }

    fn kind(&self) -> String {
        format!("{} x {} for Python", self.worlds.len(), self.spec.name)
    }
}

impl World {
    fn begin(&mut self, obs: &mut [f32]) {
        self.env.reset(self.seeds.next_u64(), obs);
        self.ended = false;
    }
}

/// Neighbouring worlds with their places in the arrays.
struct Part<'a> {
    worlds: &'a mut [World],
    actions: &'a [f32],
    out: Out<'a>,
}

impl<'a> Part<'a> {
    /// Takes the first `n` worlds off.
    fn cut(&mut self, n: usize, [width, dim, kinds]: [usize; 3]) -> Part<'a> {
        fn take<'a, T>(rest: &mut &'a mut [T], n: usize) -> &'a mut [T] {
            rest.split_off_mut(..n).expect("an array has room for all worlds")
        }
        let last = if self.out.last_obs.is_empty() { 0 } else { n * dim };
        Part {
            worlds: take(&mut self.worlds, n),
            actions: self.actions.split_off(..n * width).expect("there is an action for every world"),
            out: Out {
                obs: take(&mut self.out.obs, n * dim),
                rewards: take(&mut self.out.rewards, n),
                terminated: take(&mut self.out.terminated, n),
                truncated: take(&mut self.out.truncated, n),
                costs: take(&mut self.out.costs, n * (kinds + 1)),
                last_obs: take(&mut self.out.last_obs, last),
            },
        }
    }

    fn step(&mut self, autoreset: Autoreset, [width, dim, kinds]: [usize; 3]) {
        let out = &mut self.out;
        let mut costs = vec![0.0; kinds];
        for (i, world) in self.worlds.iter_mut().enumerate() {
            let obs = &mut out.obs[i * dim..][..dim];
            let Outcome { reward, terminated, truncated } = if world.ended {
                world.begin(obs);
                costs.fill(0.0);
                Outcome { reward: 0.0, terminated: false, truncated: false }
            } else {
                world.env.step(&self.actions[i * width..][..width], obs, &mut costs)
            };
            let row = &mut out.costs[i * (kinds + 1)..][..kinds + 1];
            row[0] = costs.iter().map(|cost| f64::from(*cost)).sum();
            row[1..].iter_mut().zip(&costs).for_each(|(out, cost)| *out = f64::from(*cost));
            out.rewards[i] = f64::from(reward);
            (out.terminated[i], out.truncated[i]) = (terminated, truncated);
            world.ended = terminated || truncated;
            if world.ended && autoreset == Autoreset::SameStep {
                out.last_obs[i * dim..][..dim].copy_from_slice(obs);
                world.begin(obs);
            }
        }
    }
}

/// The seeds that follow from one, for world `i`; not the numbers that an episode itself draws from it.
fn stream(seed: u64, i: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(i + 1);
    rng
}

#[cfg(test)]
mod tests {
    use super::*;
    use p3o_env::{TASKS, tasks};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    /// The arrays of a step.
    struct Arrays {
        obs: Vec<f32>,
        rewards: Vec<f64>,
        terminated: Vec<bool>,
        truncated: Vec<bool>,
        costs: Vec<f64>,
        last_obs: Vec<f32>,
    }

    impl Arrays {
        fn of(worlds: &Worlds) -> Arrays {
            let (n, spec) = (worlds.count(), worlds.spec());
            Arrays {
                obs: vec![f32::NAN; n * spec.obs_dim],
                rewards: vec![f64::NAN; n],
                terminated: vec![false; n],
                truncated: vec![false; n],
                costs: vec![f64::NAN; n * (spec.costs.len() + 1)],
                last_obs: vec![f32::NAN; n * spec.obs_dim],
            }
        }

        fn out(&mut self) -> Out<'_> {
            Out {
                obs: &mut self.obs,
                rewards: &mut self.rewards,
                terminated: &mut self.terminated,
                truncated: &mut self.truncated,
                costs: &mut self.costs,
                last_obs: &mut self.last_obs,
            }
        }
    }

    fn worlds(task: &str, count: usize, autoreset: Autoreset) -> Worlds {
        Worlds::new(&|| tasks::make(task, &Default::default()).unwrap(), count, autoreset, 7)
    }

    #[test]
    fn many_worlds_do_what_each_does_alone() {
        for task in TASKS {
            let (count, autoreset) = (2 * ALONE + 3, Autoreset::SameStep);
            let mut all = worlds(task.name, count, autoreset);
            let mut arrays = Arrays::of(&all);
            let (dim, columns, width) = (all.spec().obs_dim, all.spec().costs.len() + 1, all.spec().action_width());
            let mut single: Vec<Worlds> = (0..count).map(|_| worlds(task.name, 1, autoreset)).collect();
            let mut alone: Vec<Arrays> = single.iter().map(Arrays::of).collect();
            for i in 0..count {
                all.reset(i, Some(40 + i as u64), &mut arrays.obs[i * dim..][..dim]);
                single[i].reset(0, Some(40 + i as u64), &mut alone[i].obs);
            }
            for t in 0..30 {
                let actions: Vec<f32> = (0..count * width).map(|k| ((k + t) % 2) as f32).collect();
                all.check(&actions).unwrap();
                all.step(&actions, arrays.out());
                for i in 0..count {
                    single[i].step(&actions[i * width..][..width], alone[i].out());
                    assert_eq!(arrays.obs[i * dim..][..dim], alone[i].obs, "{} {i}", task.name);
                    assert_eq!(arrays.costs[i * columns..][..columns], alone[i].costs);
                    assert_eq!(alone[i].costs[0], alone[i].costs[1..].iter().sum::<f64>());
                    let found = (arrays.rewards[i], arrays.terminated[i], arrays.truncated[i]);
                    assert_eq!(found, (alone[i].rewards[0], alone[i].terminated[0], alone[i].truncated[0]));
                    if found.1 || found.2 {
                        assert_eq!(arrays.last_obs[i * dim..][..dim], alone[i].last_obs);
                    }
                }
            }
        }
    }

    #[test]
    fn a_seed_gives_the_tasks_own_episode() {
        // The Python tests find the same numbers.
        let recorded = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/episodes.json")).unwrap();
        let recorded: BTreeMap<String, Value> = serde_json::from_str(&recorded).unwrap();
        assert_eq!(recorded.len(), TASKS.len());
        for (task, recorded) in recorded {
            let mut env = tasks::make(&task, &Default::default()).unwrap();
            let mut obs = vec![0.0; env.spec().obs_dim];
            let mut costs = vec![0.0; env.spec().costs.len()];
            let action = vec![1.0; env.spec().action_width()];
            env.reset(recorded["seed"].as_u64().unwrap(), &mut obs);
            let first = obs.clone();
            let (mut ret, mut cost) = (0.0, 0.0);
            for _ in 0..recorded["steps"].as_u64().unwrap() {
                ret += f64::from(env.step(&action, &mut obs, &mut costs).reward);
                cost += costs.iter().map(|cost| f64::from(*cost)).sum::<f64>();
            }
            let head = |obs: &[f32]| obs.iter().take(8).map(|x| f64::from(*x)).collect::<Vec<f64>>();
            let found = json!({ "first": head(&first), "last": head(&obs), "return": ret, "cost": cost,
                                "seed": recorded["seed"], "steps": recorded["steps"] });
            assert_eq!(found, recorded, "{task}");
        }
    }

    #[test]
    fn the_next_episode_begins_when_the_mode_says() {
        let mut second_episodes = Vec::new();
        for autoreset in [Autoreset::NextStep, Autoreset::SameStep, Autoreset::Disabled] {
            // Its episodes have 25 steps.
            let mut worlds = worlds("SimpleSpread", 1, autoreset);
            let mut arrays = Arrays::of(&worlds);
            worlds.reset(0, Some(5), &mut arrays.obs);
            let mut ended = Vec::new();
            let mut last = Vec::new();
            for t in 1..=52 {
                if worlds.waiting().is_some() {
                    worlds.reset(0, None, &mut arrays.obs);
                }
                worlds.step(&[1.0, 2.0, 3.0], arrays.out());
                if arrays.truncated[0] {
                    ended.push(t);
                    last = if autoreset == Autoreset::SameStep { arrays.last_obs.clone() } else { arrays.obs.clone() };
                }
            }
            let expected: &[usize] = if autoreset == Autoreset::NextStep { &[25, 51] } else { &[25, 50] };
            assert_eq!(ended, expected, "{autoreset:?}");
            second_episodes.push(last);
        }
        assert!(second_episodes.iter().all(|last| *last == second_episodes[0]), "{second_episodes:?}");
    }

    #[test]
    fn snapshots_continue_bit_for_bit() {
        let mut first = worlds("PointGather", 3, Autoreset::NextStep);
        let mut arrays = Arrays::of(&first);
        for i in 0..3 {
            first.reset(i, None, &mut arrays.obs[..first.spec().obs_dim]);
        }
        let mut second = worlds("PointGather", 3, Autoreset::NextStep);
        second.restore(&first.snapshot().unwrap()).unwrap();
        let mut others = Arrays::of(&second);
        for _ in 0..600 {
            first.step(&[1.0, 0.1, 0.5, -0.3, -1.0, 0.7], arrays.out());
            second.step(&[1.0, 0.1, 0.5, -0.3, -1.0, 0.7], others.out());
            assert_eq!((&arrays.obs, &arrays.rewards), (&others.obs, &others.rewards));
        }
        let other = worlds("PointGather", 2, Autoreset::NextStep).restore(&first.snapshot().unwrap());
        assert!(other.unwrap_err().to_string().contains("it belongs to 3 x PointGather"));
    }

    #[test]
    fn actions_that_a_task_does_not_have_are_named() {
        let goal = worlds("PointGoal", 2, Autoreset::Disabled);
        assert_eq!(
            goal.check(&[0.0, 9.0, 0.0, f32::NAN]).unwrap_err(),
            "PointGoal: the action of world 1 holds NaN, which is not finite"
        );
        let spread = worlds("SimpleSpread", 1, Autoreset::Disabled);
        for (wrong, shown) in [(5.0, "5"), (-1.0, "-1"), (0.5, "0.5")] {
            let expected = format!("SimpleSpread: the action of world 0 holds {shown}, which is none of 0 to 4");
            assert_eq!(spread.check(&[0.0, wrong, 4.0]).unwrap_err(), expected);
        }
    }
}
