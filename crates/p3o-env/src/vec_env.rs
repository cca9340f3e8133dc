//! Many worlds of this process as one [`VectorEnv`].
//!
//! What a world does depends on nothing but its seeds and its actions: whatever the number of threads, and whether the
//! worlds are stepped together or in parts, the numbers are the same.

use crate::{Env, EnvSpec, Outcome, RestoreError, Stepper, VectorEnv, VectorStep, WorldError, snapshot};

/// A step takes about a microsecond; fewer worlds than this do not make up for waking another thread.
const WORLDS_PER_TASK: usize = 16;

/// Worlds of one task, each an [`Env`] of its own.
pub struct VecEnv {
    worlds: Vec<Box<dyn Env>>,
    spec: EnvSpec,
    /// The seeds of the episodes that start in a step.
    seeds: Vec<u64>,
}

impl VecEnv {
    /// `count` worlds from `make`. Their episodes start with [`VectorEnv::reset`].
    ///
    /// # Panics
    ///
    /// If `count` is zero.
    pub fn new(make: &dyn Fn() -> Box<dyn Env>, count: usize) -> VecEnv {
        assert!(count > 0, "a VecEnv needs at least one world");
        let worlds: Vec<Box<dyn Env>> = (0..count).map(|_| make()).collect();
        let spec = worlds[0].spec().clone();
        VecEnv { worlds, spec, seeds: vec![0; count] }
    }

    /// The worlds in order.
    pub fn worlds(&self) -> &[Box<dyn Env>] {
        &self.worlds
    }

    /// Names these worlds in snapshots.
    fn kind(&self) -> String {
        format!("{} x {}", self.worlds.len(), self.spec.name)
    }

    fn freeze(&self) -> Option<Vec<Vec<u8>>> {
        self.worlds.iter().map(|world| world.snapshot()).collect()
    }
}

impl Stepper for VecEnv {
    fn count(&self) -> usize {
        self.worlds.len()
    }

    /// Uses the current rayon pool where there are enough worlds to share out.
    ///
    /// # Panics
    ///
    /// If there is not exactly one action per world, or if `out` has room for another number of worlds.
    fn step(
        &mut self,
        actions: &[f32],
        seed: &mut dyn FnMut(usize) -> u64,
        out: &mut VectorStep,
    ) -> Result<(), WorldError> {
        let rows = Rows::new(&mut self.worlds, &self.spec, actions, out);
        if rows.worlds.len() < 2 * WORLDS_PER_TASK {
            rows.step_all(seed);
            return Ok(());
        }
        rows.for_each(&|mut one| one.step());
        let ended = || (0..out.rewards.len()).filter(|&world| out.ended(world));
        if ended().next().is_some() {
            // The caller's seeds come one after another; the episodes can start side by side.
            ended().for_each(|world| self.seeds[world] = seed(world));
            let seeds = &self.seeds;
            Rows::new(&mut self.worlds, &self.spec, actions, out).for_each(&|mut one| {
                if one.ended() {
                    one.start(seeds[one.first]);
                }
            });
        }
        Ok(())
    }

    fn restart(&mut self, world: usize, seed: u64, obs: &mut [f32]) -> bool {
        self.worlds[world].reset(seed, obs);
        true
    }
}

impl VectorEnv for VecEnv {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// # Panics
    ///
    /// If there is not exactly one seed and one row of `obs` per world.
    fn reset(&mut self, seeds: &[u64], obs: &mut [f32]) -> Result<(), WorldError> {
        let dim = self.spec.obs_dim;
        assert_eq!(seeds.len(), self.worlds.len(), "one seed per world");
        assert_eq!(obs.len(), self.worlds.len() * dim, "one observation of {dim} numbers per world");
        for (i, (world, seed)) in self.worlds.iter_mut().zip(seeds).enumerate() {
            world.reset(*seed, &mut obs[i * dim..][..dim]);
        }
        Ok(())
    }

    fn split(&mut self, size: usize) -> Option<Vec<Box<dyn Stepper + '_>>> {
        let spec = &self.spec;
        let part = |worlds| Box::new(Part { worlds, spec }) as Box<dyn Stepper + '_>;
        Some(self.worlds.chunks_mut(size).map(part).collect())
    }

    /// `None` if one of the worlds has no snapshot.
    fn snapshot(&self) -> Option<Vec<u8>> {
        Some(snapshot::seal(&self.kind(), &self.freeze()?))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let before = self.freeze().ok_or_else(|| RestoreError::no_snapshots(&self.spec))?;
        let frozen: Vec<Vec<u8>> = snapshot::open(&self.kind(), bytes)?;
        if frozen.len() != self.worlds.len() {
            return Err(RestoreError { task: self.kind(), reason: format!("it has {} worlds", frozen.len()) });
        }
        for (i, bytes) in frozen.iter().enumerate() {
            if let Err(error) = self.worlds[i].restore(bytes) {
                for (world, bytes) in self.worlds[..=i].iter_mut().zip(&before) {
                    world.restore(bytes).expect("a world restores its own snapshot");
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Some neighbours among the worlds of a [`VecEnv`].
struct Part<'a> {
    worlds: &'a mut [Box<dyn Env>],
    spec: &'a EnvSpec,
}

impl Stepper for Part<'_> {
    fn count(&self) -> usize {
        self.worlds.len()
    }

    fn step(
        &mut self,
        actions: &[f32],
        seed: &mut dyn FnMut(usize) -> u64,
        out: &mut VectorStep,
    ) -> Result<(), WorldError> {
        Rows::new(self.worlds, self.spec, actions, out).step_all(seed);
        Ok(())
    }

    fn restart(&mut self, world: usize, seed: u64, obs: &mut [f32]) -> bool {
        self.worlds[world].reset(seed, obs);
        true
    }
}

/// One world or several neighbours, with their actions and their rows of a [`VectorStep`].
struct Rows<'a> {
    /// The number of the first world.
    first: usize,
    widths: Widths,
    worlds: &'a mut [Box<dyn Env>],
    actions: &'a [f32],
    obs: &'a mut [f32],
    rewards: &'a mut [f32],
    costs: &'a mut [f32],
    terminated: &'a mut [bool],
    truncated: &'a mut [bool],
    last_obs: &'a mut [f32],
}

/// How many numbers each world has of each kind.
#[derive(Clone, Copy)]
struct Widths {
    action: usize,
    obs: usize,
    costs: usize,
}

impl<'a> Rows<'a> {
    fn new(worlds: &'a mut [Box<dyn Env>], spec: &EnvSpec, actions: &'a [f32], out: &'a mut VectorStep) -> Rows<'a> {
        let widths = Widths { action: spec.action_width(), obs: spec.obs_dim, costs: spec.costs.len() };
        let n = worlds.len();
        assert_eq!(actions.len(), n * widths.action, "one action of {} numbers per world", widths.action);
        let VectorStep { obs, rewards, costs, terminated, truncated, last_obs } = out;
        let room = [obs.len(), rewards.len(), costs.len(), terminated.len(), truncated.len(), last_obs.len()];
        assert_eq!(room, [n * widths.obs, n, n * widths.costs, n, n, n * widths.obs], "room for {n} worlds");
        Rows { first: 0, widths, worlds, actions, obs, rewards, costs, terminated, truncated, last_obs }
    }

    /// Takes the first `n` worlds away; `None` if there are fewer.
    #[inline]
    fn take(&mut self, n: usize) -> Option<Rows<'a>> {
        let Widths { action, obs, costs } = self.widths;
        let taken = Rows {
            first: self.first,
            widths: self.widths,
            worlds: self.worlds.split_off_mut(..n)?,
            actions: self.actions.split_off(..n * action)?,
            obs: self.obs.split_off_mut(..n * obs)?,
            rewards: self.rewards.split_off_mut(..n)?,
            costs: self.costs.split_off_mut(..n * costs)?,
            terminated: self.terminated.split_off_mut(..n)?,
            truncated: self.truncated.split_off_mut(..n)?,
            last_obs: self.last_obs.split_off_mut(..n * obs)?,
        };
        self.first += n;
        Some(taken)
    }

    /// Steps one world after another, and starts the next episode where one ends.
    fn step_all(mut self, seed: &mut dyn FnMut(usize) -> u64) {
        while let Some(mut one) = self.take(1) {
            one.step();
            if one.ended() {
                one.start(seed(one.first));
            }
        }
    }

    /// Hands the worlds one by one to `task`, over the current rayon pool.
    fn for_each(mut self, task: &(impl Fn(Rows<'_>) + Sync)) {
        if self.worlds.len() >= 2 * WORLDS_PER_TASK {
            let half = self.take(self.worlds.len() / 2).expect("half of the worlds");
            rayon::join(|| half.for_each(task), || self.for_each(task));
        } else {
            while let Some(one) = self.take(1) {
                task(one);
            }
        }
    }

    /// Whether the episode of the only world ended.
    fn ended(&self) -> bool {
        self.terminated[0] || self.truncated[0]
    }

    /// Steps the only world.
    fn step(&mut self) {
        let Outcome { reward, terminated, truncated } = self.worlds[0].step(self.actions, self.obs, self.costs);
        (self.rewards[0], self.terminated[0], self.truncated[0]) = (reward, terminated, truncated);
    }

    /// Starts the next episode of the only world after one that ended.
    fn start(&mut self, seed: u64) {
        self.last_obs.copy_from_slice(self.obs);
        self.worlds[0].reset(seed, self.obs);
    }
}
