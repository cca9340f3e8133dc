//! Many worlds side by side, each with a random stream of its own.
//!
//! A [`Lane`] depends on nothing but its world, the seed and its index: whatever the number of threads, and whether
//! lanes are stepped together by [`VecEnv::step`] or one at a time by their owner, the numbers are the same.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{Env, EnvSpec, Outcome, RestoreError, snapshot};

/// Sums over one episode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// Sum of the rewards, undiscounted.
    pub ret: f64,
    /// Sum of each cost, in the order of [`EnvSpec::costs`].
    pub costs: Vec<f64>,
    /// Number of steps.
    pub len: usize,
}

impl Episode {
    fn empty(costs: usize) -> Episode {
        Episode { ret: 0.0, costs: vec![0.0; costs], len: 0 }
    }

    fn add(&mut self, reward: f32, costs: &[f32]) {
        self.ret += f64::from(reward);
        for (sum, cost) in self.costs.iter_mut().zip(costs) {
            *sum += f64::from(*cost);
        }
        self.len += 1;
    }

    fn clear(&mut self) {
        self.ret = 0.0;
        self.costs.fill(0.0);
        self.len = 0;
    }
}

/// What one step of a lane gave besides observation and costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneStep {
    /// Reward of this step.
    pub reward: f32,
    /// The task itself ended the episode: the future is worth nothing.
    pub terminated: bool,
    /// The clock ended the episode: [`Lane::final_obs`] still has a value.
    pub truncated: bool,
    /// The episode was truncated before its time by [`VecEnv::stagger`]: its sums are not those of a whole one.
    pub partial: bool,
}

impl LaneStep {
    /// Whether the episode ended; [`Lane::finished`] then holds its sums.
    pub fn ended(&self) -> bool {
        self.terminated || self.truncated
    }
}

/// One environment with its own random stream and running episode.
pub struct Lane {
    env: Box<dyn Env>,
    rng: ChaCha8Rng,
    record: Record,
}

/// What a lane remembers besides its world and its random stream.
#[derive(Clone, Serialize, Deserialize)]
struct Record {
    obs: Vec<f32>,
    final_obs: Vec<f32>,
    costs: Vec<f32>,
    last: LaneStep,
    running: Episode,
    finished: Episode,
    /// Steps after which the first episode is truncated, if before its time.
    first_cut: Option<usize>,
}

impl Lane {
    /// Starts the first episode of `env` on stream `index` of `seed`.
    pub fn new(mut env: Box<dyn Env>, seed: u64, index: u64) -> Lane {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(index);
        let (dim, costs) = (env.spec().obs_dim, env.spec().costs.len());
        let mut obs = vec![0.0; dim];
        env.reset(rng.next_u64(), &mut obs);
        let record = Record {
            obs,
            final_obs: vec![0.0; dim],
            costs: vec![0.0; costs],
            last: LaneStep::default(),
            running: Episode::empty(costs),
            finished: Episode::empty(costs),
            first_cut: None,
        };
        Lane { env, rng, record }
    }

    /// What the policy sees next.
    pub fn obs(&self) -> &[f32] {
        &self.record.obs
    }

    /// The last observation of the episode that has just ended; valid after a step that ended one.
    pub fn final_obs(&self) -> &[f32] {
        &self.record.final_obs
    }

    /// The costs of the last step.
    pub fn costs(&self) -> &[f32] {
        &self.record.costs
    }

    /// The rest of the last step.
    pub fn last(&self) -> LaneStep {
        self.record.last
    }

    /// Sums of the running episode so far.
    pub fn running(&self) -> &Episode {
        &self.record.running
    }

    /// Sums of the episode that ended last; empty before the first end.
    pub fn finished(&self) -> &Episode {
        &self.record.finished
    }

    /// The lane's random stream; the noise of a policy is drawn from here too.
    pub fn rng(&mut self) -> &mut ChaCha8Rng {
        &mut self.rng
    }

    /// The world.
    pub fn env(&self) -> &dyn Env {
        &*self.env
    }

    /// Advances one step; when that ends the episode, the next one has begun on return.
    pub fn step(&mut self, action: &[f32]) -> LaneStep {
        let Record { obs, final_obs, costs, last, running, finished, first_cut } = &mut self.record;
        let Outcome { reward, terminated, truncated } = self.env.step(action, obs, costs);
        running.add(reward, costs);
        let partial = !terminated && !truncated && *first_cut == Some(running.len);
        *last = LaneStep { reward, terminated, truncated: truncated || partial, partial };
        if last.ended() {
            *first_cut = None;
            std::mem::swap(running, finished);
            running.clear();
            std::mem::swap(obs, final_obs);
            self.env.reset(self.rng.next_u64(), obs);
        }
        *last
    }
}

/// One lane in a snapshot.
#[derive(Serialize, Deserialize)]
struct FrozenLane {
    env: Vec<u8>,
    rng: ChaCha8Rng,
    record: Record,
}

/// All lanes, and the description of the world they share.
pub struct VecEnv {
    lanes: Vec<Lane>,
    spec: EnvSpec,
}

impl VecEnv {
    /// `n` worlds from `make`, lane i on stream i of `seed`.
    ///
    /// # Panics
    ///
    /// If `n` is zero.
    pub fn new(make: &dyn Fn() -> Box<dyn Env>, n: usize, seed: u64) -> VecEnv {
        assert!(n > 0, "a VecEnv needs at least one lane");
        let lanes: Vec<Lane> = (0..n).map(|i| Lane::new(make(), seed, i as u64)).collect();
        let spec = lanes[0].env.spec().clone();
        VecEnv { lanes, spec }
    }

    /// Truncates the lanes' first episodes after different numbers of steps, so that from then on episodes end evenly
    /// over time instead of all at once. To be called before the first step.
    pub fn stagger(&mut self) {
        let (n, horizon) = (self.lanes.len(), self.spec.horizon);
        for (i, lane) in self.lanes.iter_mut().enumerate() {
            lane.record.first_cut = Some(((i + 1) * horizon / n).max(1));
        }
    }

    /// What every world looks like.
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// Number of lanes.
    #[expect(clippy::len_without_is_empty, reason = "there is always at least one lane")]
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// The lanes in order.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// The lanes in order, to be stepped one by one or in the caller's own parallel loop.
    pub fn lanes_mut(&mut self) -> &mut [Lane] {
        &mut self.lanes
    }

    /// Steps all lanes over the current rayon pool; `actions` holds one action after another. The results are read from
    /// the lanes.
    ///
    /// # Panics
    ///
    /// If `actions` does not hold exactly one action per lane.
    pub fn step(&mut self, actions: &[f32]) {
        // A step takes about a microsecond; fewer than this many do not repay waking another thread.
        const LANES_PER_TASK: usize = 16;
        let width = self.spec.action_width();
        assert_eq!(actions.len(), width * self.lanes.len(), "one action of {width} numbers per lane");
        self.lanes.par_iter_mut().zip(actions.par_chunks_exact(width)).with_min_len(LANES_PER_TASK).for_each(
            |(lane, action)| {
                lane.step(action);
            },
        );
    }

    fn kind(&self) -> String {
        format!("VecEnv of {} {}", self.lanes.len(), self.spec.name)
    }

    /// Everything: random streams, worlds, observations and sums.
    pub fn snapshot(&self) -> Vec<u8> {
        let freeze =
            |lane: &Lane| FrozenLane { env: lane.env.snapshot(), rng: lane.rng.clone(), record: lane.record.clone() };
        let frozen: Vec<FrozenLane> = self.lanes.iter().map(freeze).collect();
        snapshot::seal(&self.kind(), &frozen)
    }

    /// Continues from a snapshot of as many lanes of the same world, bit for bit. On failure nothing has changed.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let frozen: Vec<FrozenLane> = snapshot::open(&self.kind(), bytes)?;
        let fail = |reason: String| RestoreError { task: self.kind(), reason };
        if frozen.len() != self.lanes.len() {
            return Err(fail(format!("it has {} lanes", frozen.len())));
        }
        if let Some(bad) = frozen.iter().position(|lane| !lane.record.fits(&self.spec)) {
            return Err(fail(format!("lane {bad} has observations or costs of another length")));
        }
        let before: Vec<Vec<u8>> = self.lanes.iter().map(|lane| lane.env.snapshot()).collect();
        for (i, lane) in frozen.iter().enumerate() {
            if let Err(error) = self.lanes[i].env.restore(&lane.env) {
                for (lane, bytes) in self.lanes.iter_mut().zip(&before).take(i) {
                    lane.env.restore(bytes).expect("a world restores its own snapshot");
                }
                return Err(error);
            }
        }
        for (lane, FrozenLane { rng, record, .. }) in self.lanes.iter_mut().zip(frozen) {
            (lane.rng, lane.record) = (rng, record);
        }
        Ok(())
    }
}

impl Record {
    fn fits(&self, spec: &EnvSpec) -> bool {
        let lengths = [self.costs.len(), self.running.costs.len(), self.finished.costs.len()];
        self.obs.len() == spec.obs_dim
            && self.final_obs.len() == spec.obs_dim
            && lengths.iter().all(|&len| len == spec.costs.len())
    }
}
