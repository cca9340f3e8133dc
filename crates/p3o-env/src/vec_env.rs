//! Many worlds of this process as one [`VectorEnv`].
//!
//! What a world does depends on nothing but its seeds and its actions: whether the worlds are stepped together or in
//! parts, and by however many threads, the numbers are the same.

use crate::{Env, EnvSpec, Outcome, RestoreError, Stepper, VectorEnv, VectorStep, WorldError, snapshot};
use std::ops::Range;

/// Worlds of one task, each an [`Env`] of its own.
///
/// [`step`](Stepper::step) advances one world after another. To use several threads, let each step its own part of the
/// worlds ([`split`](VectorEnv::split)).
pub struct VecEnv {
    worlds: Vec<Box<dyn Env>>,
    spec: EnvSpec,
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
        VecEnv { worlds, spec }
    }

    /// The worlds in order.
    pub fn worlds(&self) -> &[Box<dyn Env>] {
        &self.worlds
    }

    fn all(&mut self) -> Part<'_> {
        Part { worlds: &mut self.worlds, spec: &self.spec }
    }

    /// Names these worlds in snapshots.
    fn kind(&self) -> String {
        format!("{} x {}", self.worlds.len(), self.spec.name)
    }
}

impl Stepper for VecEnv {
    fn count(&self) -> usize {
        self.worlds.len()
    }

    /// # Panics
    ///
    /// If there is not exactly one action per world, or if `out` has room for another number of worlds.
    fn step(
        &mut self,
        actions: &[f32],
        seed: &mut dyn FnMut(usize) -> u64,
        out: &mut VectorStep,
    ) -> Result<(), WorldError> {
        self.all().step(actions, seed, out)
    }

    fn restart(&mut self, world: usize, seed: u64, obs: &mut [f32]) -> bool {
        self.all().restart(world, seed, obs)
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

    fn split(&mut self, worlds: Range<usize>, size: usize) -> Option<Vec<Box<dyn Stepper + '_>>> {
        let spec = &self.spec;
        let part = |worlds| Box::new(Part { worlds, spec }) as Box<dyn Stepper + '_>;
        Some(self.worlds[worlds].chunks_mut(size).map(part).collect())
    }

    /// `None` if one of the worlds has no snapshot.
    fn snapshot(&self) -> Option<Vec<u8>> {
        Some(snapshot::seal(&self.kind(), &self.freeze(0..self.worlds.len())?))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let all = 0..self.worlds.len();
        let before = self.freeze(all).ok_or_else(|| RestoreError::no_snapshots(&self.spec))?;
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

    fn freeze(&self, worlds: Range<usize>) -> Option<Vec<Vec<u8>>> {
        self.worlds[worlds].iter().map(|world| world.snapshot()).collect()
    }

    fn thaw(&mut self, first: usize, states: &[Vec<u8>]) -> Result<(), RestoreError> {
        self.worlds[first..].iter_mut().zip(states).try_for_each(|(world, state)| world.restore(state))
    }
}

/// All worlds of a [`VecEnv`], or some neighbours among them.
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
        let (width, dim, kinds) = (self.spec.action_width(), self.spec.obs_dim, self.spec.costs.len());
        let n = self.worlds.len();
        assert!(actions.len() == n * width, "one action of {width} numbers per world");
        assert!(out.has_room(n, dim, kinds), "room for {n} worlds");
        for (i, world) in self.worlds.iter_mut().enumerate() {
            let obs = &mut out.obs[i * dim..][..dim];
            let costs = &mut out.costs[i * kinds..][..kinds];
            let Outcome { reward, terminated, truncated } = world.step(&actions[i * width..][..width], obs, costs);
            (out.rewards[i], out.terminated[i], out.truncated[i]) = (reward, terminated, truncated);
            if terminated || truncated {
                out.last_obs[i * dim..][..dim].copy_from_slice(obs);
                world.reset(seed(i), obs);
            }
        }
        Ok(())
    }

    fn restart(&mut self, world: usize, seed: u64, obs: &mut [f32]) -> bool {
        self.worlds[world].reset(seed, obs);
        true
    }
}
