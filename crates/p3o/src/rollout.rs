//! Experience: the policies act in all environments, every environment steps on, and leaves its steps in a buffer of its
//! own. Random streams, sums over episodes and recurrent states belong to the collector; a world knows nothing of them.

use crate::actor::{ActWorkspace, Actor, agents, see, state_width};
use crate::error::Error;
use crate::policy::all_finite;
use crate::ranks::Ranks;
use crate::stop::Stop;
use p3o_env::{EnvSpec, RestoreError, Stepper, VectorEnv, VectorStep, WorldError};
use p3o_nn::TILE_ROWS;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Sums over one episode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// Sum of the rewards, undiscounted.
    pub ret: f64,
    /// Sum of each cost, in the order of [`EnvSpec::costs`].
    pub costs: Vec<f64>,
    /// Number of steps.
    pub len: usize,
    /// Sum of each cost discounted; empty unless asked for, and no part of a snapshot.
    #[serde(skip)]
    pub discounted: Vec<f64>,
}

impl Episode {
    /// Before the first step.
    pub fn new(costs: usize) -> Episode {
        Episode { ret: 0.0, costs: vec![0.0; costs], len: 0, discounted: Vec::new() }
    }

    /// Takes in a step.
    pub fn add(&mut self, reward: f32, costs: &[f32]) {
        self.ret += f64::from(reward);
        self.costs.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += f64::from(*cost));
        self.len += 1;
    }

    /// Takes the costs of the step that follows into the discounted sums.
    fn discount(&mut self, gamma: f64, costs: &[f32]) {
        let factor = libm::pow(gamma, self.len as f64);
        self.discounted.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += factor * f64::from(*cost));
    }

    /// What it has come to; the next one starts from zero.
    pub fn finish(&mut self) -> Episode {
        let next = Episode { discounted: vec![0.0; self.discounted.len()], ..Episode::new(self.costs.len()) };
        std::mem::replace(self, next)
    }
}

/// What one environment did during one batch. Where there are several agents, a row holds theirs one after another.
#[derive(Clone, Debug, Default)]
pub struct EnvSteps {
    /// Observations as the policies saw them, one row per step.
    pub obs: Vec<f32>,
    /// The same before normalisation; empty when there is none.
    pub raw: Vec<f32>,
    /// The recurrent policies' states before each step.
    pub states: Vec<f32>,
    /// The policies' outputs.
    pub outputs: Vec<f32>,
    /// Actions.
    pub actions: Vec<f32>,
    /// Their log-probabilities.
    pub log_probs: Vec<f32>,
    /// The reward, then every cost: one vector over the steps each.
    pub given: Vec<Vec<f32>>,
    /// Whether the next step belongs to another episode (or batch).
    pub cuts: Vec<bool>,
    /// Steps whose successor needs a bootstrap value.
    pub open_ends: Vec<u32>,
    /// The successors' observations as the policies would see them, one row per open end.
    pub open_obs: Vec<f32>,
    /// Episodes that ended.
    pub episodes: Vec<Episode>,
    /// The first observation that was not finite: step and entry.
    pub broken: Option<(usize, usize)>,
    /// Whether the last step ended an episode.
    pub ended: bool,
}

/// What an environment carries from batch to batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EnvState {
    /// Episodes' seeds and the noise of actions.
    pub rng: ChaCha8Rng,
    /// The running episode.
    pub episode: Episode,
    /// Steps after which the first episode is truncated, if before its time.
    pub first_cut: Option<usize>,
}

/// Environments and the steps of the batch being collected.
pub struct Collector {
    worlds: Box<dyn VectorEnv>,
    spec: EnvSpec,
    /// One per environment.
    pub envs: Vec<EnvSteps>,
    pub(crate) carried: Carried,
    /// One per thread; boxed, so that no two of them lie on one cache line.
    #[allow(clippy::vec_box)]
    workspaces: Vec<Box<Workspace>>,
    plan: Plan,
    /// Ends a batch before it is whole.
    pub(crate) stop: Stop,
    /// The processes that share the worlds, and what they send each other.
    ranks: Ranks,
    mail: [Vec<u8>; 2],
}

/// All that the next batch depends on besides the worlds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Carried {
    pub envs: Vec<EnvState>,
    /// What the policies see next, a row per environment.
    pub obs: Vec<f32>,
    /// The recurrent policies' states, a row per environment; zero at an episode's start.
    pub states: Vec<f32>,
}

/// What the steps of a batch have in common.
#[derive(Clone, Copy)]
struct Plan {
    /// Steps that each environment makes per batch.
    steps: usize,
    /// Whether the future of a truncated episode has a value.
    bootstrap: bool,
    /// The discount of the costs where their discounted sums are asked for.
    cost_gamma: Option<f64>,
}

/// For the environments that one thread steps together.
struct Workspace {
    act: ActWorkspace,
    actions: Vec<f32>,
    step: VectorStep,
    /// Environments whose step only begins an episode.
    begins: Vec<bool>,
}

/// The random stream of one environment.
pub fn env_stream(seed: u64, index: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(index as u64);
    rng
}

impl Collector {
    /// For worlds that make `steps` steps each per batch.
    pub fn new(mut worlds: Box<dyn VectorEnv>, steps: usize, seed: u64, bootstrap: bool) -> Result<Self, WorldError> {
        let (spec, count) = (worlds.spec().clone(), worlds.count());
        let costs = spec.costs.len();
        let env = |i: usize| EnvState { rng: env_stream(seed, i), episode: Episode::new(costs), first_cut: None };
        let mut envs: Vec<EnvState> = (0..count).map(env).collect();
        // Episodes that fit a batch exactly should start with it; others should not all end in the same one.
        if !steps.is_multiple_of(spec.horizon) {
            let first_cut = |i: usize| ((i + 1) * spec.horizon / count).max(1);
            envs.iter_mut().enumerate().for_each(|(i, env)| env.first_cut = Some(first_cut(i)));
        }
        let mut obs = vec![0.0; count * spec.obs_dim];
        let seeds: Vec<u64> = envs.iter_mut().map(|env| env.rng.next_u64()).collect();
        worlds.reset(&seeds, &mut obs)?;
        let empty = EnvSteps { given: vec![Vec::new(); 1 + costs], ..EnvSteps::default() };
        Ok(Collector {
            worlds,
            envs: vec![empty; count],
            carried: Carried { envs, obs, states: Vec::new() },
            workspaces: Vec::new(),
            plan: Plan { steps, bootstrap, cost_gamma: None },
            stop: Stop::default(),
            ranks: Ranks::default(),
            mail: Default::default(),
            spec,
        })
    }

    /// Lets every process step its share of the worlds, of which each has all.
    pub(crate) fn share_out(&mut self, ranks: &Ranks) -> Result<(), Error> {
        let count = self.envs.len();
        if ranks.size() > count {
            return Err(Error::TooManyRanks { ranks: ranks.size(), worlds: count });
        }
        if !ranks.is_alone() && self.worlds.split(0..count, count).is_none() {
            return Err(Error::OneProcess);
        }
        self.ranks = ranks.clone();
        Ok(())
    }

    /// Asks for discounted sums of the costs, from the episodes' first steps on.
    pub fn discount(&mut self, gamma: f64) {
        self.plan.cost_gamma = Some(gamma);
        self.clear_discounted();
    }

    fn clear_discounted(&mut self) {
        let costs = self.spec.costs.len();
        self.carried.envs.iter_mut().for_each(|env| env.episode.discounted = vec![0.0; costs]);
    }

    /// The running episodes' discounted sums, one row per environment.
    pub(crate) fn discounted(&self) -> Vec<Vec<f64>> {
        self.carried.envs.iter().map(|env| env.episode.discounted.clone()).collect()
    }

    /// Continues from such sums.
    pub(crate) fn set_discounted(&mut self, sums: Vec<Vec<f64>>) {
        self.carried.envs.iter_mut().zip(sums).for_each(|(env, sums)| env.episode.discounted = sums);
    }

    /// Collects one batch in this process's worlds. Those that can be split are shared out over the threads; what each does is independent of that.
    /// The actors stand in the order of their agents, and their networks are alike.
    ///
    /// Every world makes as many steps of a batch as the others. Where some spend calls on beginning an episode, the others go
    /// on meanwhile: what they do beyond their part counts for their episodes and is not learned from.
    pub fn collect(&mut self, actors: &[Actor]) -> Result<(), WorldError> {
        let Collector { worlds, spec, envs: steps, carried, workspaces, plan, stop, ranks, .. } = self;
        let (dim, width, own) = (spec.obs_dim, state_width(actors), ranks.own(steps.len()));
        carried.states.resize(steps.len() * width, 0.0);
        let count = own.len();
        let size = count.div_ceil(rayon::current_num_threads()).min(TILE_ROWS);
        // What a thread writes in every step it allocates itself, so that no two threads write to one cache line.
        let empty = || Workspace {
            act: ActWorkspace::new(actors),
            actions: Vec::new(),
            step: VectorStep::default(),
            begins: Vec::new(),
        };
        let mut ready = |parts: usize| workspaces.resize_with(parts.max(workspaces.len()), || Box::new(empty()));
        let Carried { envs, obs, states } = carried;
        let (envs, steps) = (&mut envs[own.clone()], &mut steps[own.clone()]);
        let (obs, states) = (&mut obs[own.start * dim..own.end * dim], &mut states[own.start * width..own.end * width]);
        let Some(parts) = worlds.split(own, size) else {
            ready(1);
            let part = Part { envs, steps, obs, states };
            return workspaces[0].run(&mut **worlds, part, actors, spec, *plan, stop);
        };
        ready(parts.len());
        parts
            .into_par_iter()
            .zip(envs.par_chunks_mut(size))
            .zip(steps.par_chunks_mut(size))
            .zip(obs.par_chunks_mut(size * dim))
            .zip(rows_mut(states, width, size, count))
            .zip(workspaces.par_iter_mut())
            .map(|(((((mut worlds, envs), steps), obs), states), workspace)| {
                workspace.run(&mut *worlds, Part { envs, steps, obs, states }, actors, spec, *plan, stop)
            })
            .collect()
    }

    /// Brings together what all processes collected, so that each has the whole batch and all that is carried on; or what went wrong
    /// in the worlds of one of them. Observations before normalisation stay where they are.
    pub(crate) fn join(&mut self, collected: Result<(), WorldError>) -> Result<Result<(), WorldError>, Error> {
        if self.ranks.is_alone() {
            return Ok(collected);
        }
        let (ranks, count) = (self.ranks.clone(), self.envs.len());
        let [mut own, mut all] = std::mem::take(&mut self.mail);
        own.clear();
        pack_value(&mut own, &collected.as_ref().err().map(|error| &error.0));
        if collected.is_ok() {
            self.pack(ranks.own(count), &mut own);
        }
        let places = ranks.gather_into(&own, &mut all)?;
        let mut failed = None;
        for (rank, place) in places.into_iter().enumerate() {
            let mut bytes = &all[place];
            let said: Option<Option<String>> = unpack_value(&mut bytes);
            match said.ok_or_else(|| ranks.misunderstood())? {
                Some(reason) => failed = failed.or(Some(WorldError(reason))),
                None if rank == ranks.rank() => {}
                None => self.unpack(ranks.share(rank, count), bytes).ok_or_else(|| ranks.misunderstood())?,
            }
        }
        self.mail = [own, all];
        Ok(failed.map_or(Ok(()), Err))
    }

    fn pack(&self, worlds: Range<usize>, bytes: &mut Vec<u8>) {
        for (steps, env) in self.envs[worlds.clone()].iter().zip(&self.carried.envs[worlds.clone()]) {
            steps.pack(bytes);
            pack_value(bytes, &(env, &env.episode.discounted));
        }
        let (count, Carried { obs, states, .. }) = (self.envs.len(), &self.carried);
        for rows in [obs, states] {
            let width = rows.len() / count;
            pack_floats(bytes, &rows[worlds.start * width..worlds.end * width]);
        }
    }

    fn unpack(&mut self, worlds: Range<usize>, mut bytes: &[u8]) -> Option<()> {
        let count = self.envs.len();
        for (steps, env) in self.envs[worlds.clone()].iter_mut().zip(&mut self.carried.envs[worlds.clone()]) {
            steps.unpack(&mut bytes)?;
            (*env, env.episode.discounted) = unpack_value::<(EnvState, Vec<f64>)>(&mut bytes)?;
        }
        for rows in [&mut self.carried.obs, &mut self.carried.states] {
            let width = rows.len() / count;
            let mut own = Vec::new();
            unpack_floats(&mut bytes, &mut own)?;
            rows.get_mut(worlds.start * width..worlds.end * width)
                .filter(|to| to.len() == own.len())?
                .copy_from_slice(&own);
        }
        bytes.is_empty().then_some(())
    }

    /// Brings the states of all worlds to the first process, which can then save them.
    pub(crate) fn gather_worlds(&mut self) -> Result<(), Error> {
        if self.ranks.is_alone() {
            return Ok(());
        }
        let (ranks, count) = (self.ranks.clone(), self.envs.len());
        let all = ranks.gather_values(self.worlds.freeze(ranks.own(count)))?;
        if ranks.is_first() {
            for (rank, states) in all.iter().enumerate().skip(1) {
                let Some(states) = states else { continue };
                let thawed = self.worlds.thaw(ranks.share(rank, count).start, states);
                thawed.map_err(|error| Error::Ranks(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Whether the worlds can be frozen.
    pub(crate) fn has_snapshots(&self) -> bool {
        self.worlds.snapshot().is_some()
    }

    /// All that the next batch depends on, as bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        postcard::to_stdvec(&(self.worlds.snapshot(), &self.carried)).expect("plain numbers can be written to memory")
    }

    /// Continues from a snapshot, with recurrent states of `width` numbers per environment. Worlds that cannot be frozen start new
    /// episodes: then this returns false.
    pub fn restore(&mut self, bytes: &[u8], width: usize) -> Result<bool, RestoreError> {
        let wrong = |reason: &str| RestoreError { task: self.spec.name.clone(), reason: reason.to_string() };
        let (worlds, carried) = postcard::from_bytes(bytes).map_err(|_| wrong("it is damaged"))?;
        self.restore_parts(worlds, carried, width)
    }

    pub(crate) fn restore_parts(
        &mut self,
        worlds: Option<Vec<u8>>,
        carried: Carried,
        width: usize,
    ) -> Result<bool, RestoreError> {
        let wrong = |reason: &str| RestoreError { task: self.spec.name.clone(), reason: reason.to_string() };
        let (count, costs) = (self.envs.len(), self.spec.costs.len());
        if carried.envs.len() != count || carried.obs.len() != count * self.spec.obs_dim {
            return Err(wrong("it has another number of environments"));
        }
        // Before the first batch there are no states.
        let states = [0, count * width].contains(&carried.states.len());
        if !states || carried.envs.iter().any(|env| env.episode.costs.len() != costs) {
            return Err(wrong("an environment has costs or states of another length"));
        }
        let sums = carried.envs.iter().flat_map(|env| env.episode.costs.iter().chain([&env.episode.ret]));
        if !all_finite(&carried.obs) || !all_finite(&carried.states) || !sums.into_iter().all(|x| x.is_finite()) {
            return Err(wrong("an environment has a number that is not finite"));
        }
        if let Some(bytes) = worlds {
            self.worlds.restore(&bytes)?;
            self.carried = carried;
            return Ok(true);
        }
        self.carried = carried;
        let Carried { envs, obs, states } = &mut self.carried;
        states.fill(0.0);
        envs.iter_mut().for_each(|env| (env.episode, env.first_cut) = (Episode::new(costs), None));
        let seeds: Vec<u64> = envs.iter_mut().map(|env| env.rng.next_u64()).collect();
        self.worlds.reset(&seeds, obs).map_err(|e| wrong(&e.to_string()))?;
        if self.plan.cost_gamma.is_some() {
            self.clear_discounted();
        }
        Ok(false)
    }
}

/// Blocks of up to `size` rows of `width` numbers; of rows without numbers as many empty blocks.
fn rows_mut(all: &mut [f32], width: usize, size: usize, count: usize) -> Vec<&mut [f32]> {
    if width == 0 {
        return (0..count.div_ceil(size)).map(|_| &mut [][..]).collect();
    }
    all.chunks_mut(size * width).collect()
}

/// The environments that one thread steps together.
struct Part<'a> {
    envs: &'a mut [EnvState],
    steps: &'a mut [EnvSteps],
    obs: &'a mut [f32],
    states: &'a mut [f32],
}

impl Workspace {
    fn run(
        &mut self,
        worlds: &mut dyn Stepper,
        part: Part,
        actors: &[Actor],
        spec: &EnvSpec,
        plan: Plan,
        stop: &Stop,
    ) -> Result<(), WorldError> {
        let Part { envs, steps, obs, states } = part;
        let count = envs.len();
        let (dim, width) = (spec.obs_dim, states.len() / count);
        if self.step.rewards.len() != count {
            self.step = VectorStep::new(spec, count);
        }
        self.step.obs.copy_from_slice(obs);
        self.actions.resize(count * spec.action_width(), 0.0);
        for steps in &mut *steps {
            steps.clear();
            steps.reserve(plan.steps, spec, actors, width);
        }
        while steps.iter().any(|s| s.len() < plan.steps) && !stop.is_asked_for() {
            self.begins.clear();
            self.begins.extend_from_slice(worlds.waiting());
            self.begins.resize(count, false);
            for (i, steps) in steps.iter_mut().enumerate().filter(|(i, s)| !self.begins[*i] && s.len() < plan.steps) {
                steps.states.extend_from_slice(&states[i * width..][..width]);
            }
            self.act.infer(actors, &self.step.obs, states);
            let actions = self.actions.chunks_exact_mut(spec.action_width());
            for (i, ((env, steps), actions)) in envs.iter_mut().zip(&mut *steps).zip(actions).enumerate() {
                let raw = &self.step.obs[i * dim..][..dim];
                match () {
                    () if self.begins[i] => continue,
                    () if steps.len() == plan.steps => draw(&self.act, i, actors, actions, &mut env.rng),
                    () => {
                        steps.inspect(steps.len(), raw);
                        if actors[0].normalizer.is_on() {
                            steps.raw.extend_from_slice(raw);
                        }
                        steps.act(&self.act, i, actors, actions, &mut env.rng);
                    }
                }
            }
            worlds.step(&self.actions, &mut |i| envs[i].rng.next_u64(), &mut self.step)?;
            for (i, (env, steps)) in envs.iter_mut().zip(&mut *steps).enumerate() {
                let begins = self.begins[i];
                let partial = !begins && env.cut_short(worlds, i, dim, &mut self.step);
                if begins || steps.take(env, i, partial, &self.step, actors, plan) {
                    states[i * width..][..width].fill(0.0);
                }
            }
            if steps.iter().any(|s| s.broken.is_some()) {
                break;
            }
        }
        obs.copy_from_slice(&self.step.obs);
        Ok(())
    }
}

impl EnvState {
    /// Ends the first episode before its time, if its turn has come and the worlds can be restarted one by one; returns
    /// whether it did.
    fn cut_short(&mut self, worlds: &mut dyn Stepper, i: usize, dim: usize, step: &mut VectorStep) -> bool {
        if self.first_cut != Some(self.episode.len + 1) || step.ended(i) {
            return false;
        }
        self.first_cut = None;
        let row = i * dim..(i + 1) * dim;
        step.last_obs[row.clone()].copy_from_slice(&step.obs[row.clone()]);
        // The seed is drawn only where it is used.
        let mut ahead = self.rng.clone();
        let restarted = worlds.restart(i, ahead.next_u64(), &mut step.obs[row]);
        if restarted {
            (self.rng, step.truncated[i]) = (ahead, true);
        }
        restarted
    }
}

/// Draws every agent's action in environment `i` for a step that no batch holds.
fn draw(act: &ActWorkspace, i: usize, actors: &[Actor], actions: &mut [f32], rng: &mut ChaCha8Rng) {
    let width = actors[0].policy.action_width();
    for ((agent, actor), action) in agents(actors).zip(actions.chunks_exact_mut(width)) {
        actor.policy.act(act.row(agent, i).1, action, rng);
    }
}

fn pack_floats(to: &mut Vec<u8>, values: &[f32]) {
    to.extend((values.len() as u64).to_le_bytes());
    to.extend_from_slice(bytemuck::cast_slice(values));
}

fn unpack_floats(from: &mut &[u8], values: &mut Vec<f32>) -> Option<()> {
    let length = u64::from_le_bytes(from.split_off(..8)?.try_into().ok()?) as usize;
    let bytes = from.split_off(..length.checked_mul(4)?)?;
    values.resize(length, 0.0);
    bytemuck::cast_slice_mut(values).copy_from_slice(bytes);
    Some(())
}

fn pack_value(to: &mut Vec<u8>, value: &impl Serialize) {
    to.extend(postcard::to_stdvec(value).expect("plain data can be written to memory"));
}

fn unpack_value<T: DeserializeOwned>(from: &mut &[u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(from).ok()?;
    *from = rest;
    Some(value)
}

/// What an environment's steps hold beside numbers in rows.
type Marks = (Vec<bool>, Vec<u32>, Vec<Episode>, Vec<Vec<f64>>, Option<(usize, usize)>, bool);

impl EnvSteps {
    /// Everything for another process, but for observations before normalisation.
    fn pack(&self, to: &mut Vec<u8>) {
        let rows = [&self.obs, &self.states, &self.outputs, &self.actions, &self.log_probs, &self.open_obs];
        rows.into_iter().chain(&self.given).for_each(|values| pack_floats(to, values));
        let EnvSteps { cuts, open_ends, episodes, broken, ended, .. } = self;
        let discounted: Vec<&Vec<f64>> = episodes.iter().map(|episode| &episode.discounted).collect();
        pack_value(to, &(cuts, open_ends, episodes, discounted, broken, ended));
    }

    fn unpack(&mut self, from: &mut &[u8]) -> Option<()> {
        let EnvSteps { obs, states, outputs, actions, log_probs, open_obs, given, .. } = self;
        let rows = [obs, states, outputs, actions, log_probs, open_obs];
        rows.into_iter().chain(given).try_for_each(|values| unpack_floats(from, values))?;
        let discounted;
        let marks: Marks = unpack_value(from)?;
        (self.cuts, self.open_ends, self.episodes, discounted, self.broken, self.ended) = marks;
        self.episodes.iter_mut().zip(discounted).for_each(|(episode, sums)| episode.discounted = sums);
        Some(())
    }

    /// Steps so far.
    fn len(&self) -> usize {
        self.cuts.len()
    }

    fn clear(&mut self) {
        let rows = [&mut self.obs, &mut self.raw, &mut self.states, &mut self.outputs, &mut self.actions];
        rows.into_iter().chain([&mut self.log_probs, &mut self.open_obs]).for_each(Vec::clear);
        self.given.iter_mut().for_each(Vec::clear);
        self.cuts.clear();
        self.open_ends.clear();
        self.episodes.clear();
        self.broken = None;
    }

    /// Makes room for a batch, so that no buffer grows beyond it.
    fn reserve(&mut self, steps: usize, spec: &EnvSpec, actors: &[Actor], states: usize) {
        let raw = if actors[0].normalizer.is_on() { spec.obs_dim } else { 0 };
        let outputs = spec.agents * actors[0].policy.net.outputs();
        let rows = [(&mut self.obs, spec.obs_dim), (&mut self.raw, raw), (&mut self.states, states)];
        let acted = [(&mut self.outputs, outputs), (&mut self.actions, spec.action_width())];
        let rows = rows.into_iter().chain(acted).chain([(&mut self.log_probs, spec.agents)]);
        rows.for_each(|(buffer, width)| buffer.reserve_exact(steps * width));
        self.given.iter_mut().for_each(|given| given.reserve_exact(steps));
        self.cuts.reserve_exact(steps);
    }

    /// Draws every agent's action in environment `i`.
    fn act(&mut self, act: &ActWorkspace, i: usize, actors: &[Actor], actions: &mut [f32], rng: &mut ChaCha8Rng) {
        let width = actors[0].policy.action_width();
        for ((agent, actor), action) in agents(actors).zip(actions.chunks_exact_mut(width)) {
            let (seen, outputs) = act.row(agent, i);
            self.obs.extend_from_slice(seen);
            self.outputs.extend_from_slice(outputs);
            self.log_probs.push(actor.policy.act(outputs, action, rng));
        }
        self.actions.extend_from_slice(actions);
    }

    /// Takes in what a step of environment `i` gave; returns whether it ended the episode, a `partial` one perhaps.
    /// A step beyond the batch counts for its episode alone.
    fn take(
        &mut self,
        env: &mut EnvState,
        i: usize,
        partial: bool,
        step: &VectorStep,
        actors: &[Actor],
        plan: Plan,
    ) -> bool {
        let costs = self.given.len() - 1;
        let costs = &step.costs[i * costs..][..costs];
        if let Some(gamma) = plan.cost_gamma {
            env.episode.discount(gamma, costs);
        }
        env.episode.add(step.rewards[i], costs);
        let (t, ended) = (self.len(), step.ended(i));
        if ended {
            env.first_cut = None;
            let episode = env.episode.finish();
            if !partial {
                self.episodes.push(episode);
            }
        }
        if t == plan.steps {
            self.ended |= ended;
            return ended;
        }
        self.given[0].push(step.rewards[i]);
        self.given[1..].iter_mut().zip(costs).for_each(|(given, &cost)| given.push(cost));
        let last = t + 1 == plan.steps;
        self.ended = ended;
        self.cuts.push(ended || last);
        if (plan.bootstrap && step.truncated[i] && !step.terminated[i]) || (last && !ended) {
            self.open_ends.push(t as u32);
            let dim = step.obs.len() / step.rewards.len();
            let next = if ended { &step.last_obs } else { &step.obs };
            let next = &next[i * dim..][..dim];
            for (agent, actor) in agents(actors) {
                let from = self.open_obs.len();
                self.open_obs.resize(from + actor.normalizer.dim(), 0.0);
                see(actor, agent, next, &mut self.open_obs[from..]);
            }
            self.inspect(t + 1, next);
        }
        ended
    }

    /// V(s_{t+1}) along the batch: the next row's value, zero after a termination, or a bootstrap, of which `open` has one per open end.
    pub(crate) fn next_values(&self, values: &[f32], open: &[f32], next: &mut [f32]) {
        let following = values[1..].iter().chain([&0.0]).zip(&self.cuts);
        next.iter_mut().zip(following).for_each(|(next, (&v, &cut))| *next = if cut { 0.0 } else { v });
        for (&t, &value) in self.open_ends.iter().zip(open) {
            next[t as usize] = value;
        }
    }

    /// Notes the first observation that is not finite, as the environment gave it: the normaliser's bounds would make an
    /// infinite entry a finite one.
    fn inspect(&mut self, t: usize, obs: &[f32]) {
        if !all_finite(obs) {
            let entry = obs.iter().position(|x| !x.is_finite()).unwrap_or(0);
            self.broken.get_or_insert((t, entry));
        }
    }
}
