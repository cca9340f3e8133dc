//! The batch of one update, as the networks of one group of agents see it.

use crate::advantage::{Along, explained_variance, gae};
use crate::config::{self, Target};
use crate::engine::CriticEngine;
use crate::policy::{Behaviour, Policy};
use crate::rollout::EnvSteps;
use crate::signals::Signals;
use crate::stop::Stop;
use rayon::prelude::*;
use std::ops::Range;

/// Rows of all environments one after another, and what is computed for each of them.
///
/// The critics see all agents of a group side by side in a row per step. The actor sees one agent in a row: the stack of
/// the agents' own rows, one agent after another; a step's advantage stands for each agent's action.
#[derive(Clone, Debug, Default)]
pub struct TrainingBatch {
    /// BPTT length: rows of a sequence; 1 where networks are feed-forward.
    pub bptt: usize,
    /// What the critics see.
    pub critic_rows: Vec<f32>,
    /// What the actor sees, if it is something else.
    pub actor_rows: Option<Vec<f32>>,
    /// For each of the actor's rows whether an episode starts with it; the first agent's are the critics' too.
    pub starts: Vec<bool>,
    /// The recurrent actor's states before its rows.
    pub states: Vec<f32>,
    /// What the critics would see after the open ends of the batch.
    pub open_rows: Vec<f32>,
    /// For every environment its steps whose successor needs a bootstrap value.
    pub open_ends: Vec<Vec<u32>>,
    /// For every environment whether its last step ended an episode.
    pub ended: Vec<bool>,
    /// Outputs of the policy that collected the batch; for discrete actions their log-probabilities.
    pub outputs: Vec<f32>,
    /// Its logarithm of the standard deviation.
    pub log_std: Vec<f32>,
    /// The actions taken.
    pub actions: Vec<f32>,
    /// Their log-probabilities.
    pub log_probs: Vec<f32>,
    /// Mean entropy of the policy that collected the batch.
    pub entropy: f64,
    /// Advantages of every signal, a number per row of the actor.
    pub advantages: Vec<Vec<f32>>,
    /// What every critic is fitted to, a number per step.
    pub targets: Vec<Vec<f32>>,
    /// What every critic said, a number per step.
    values: Vec<Vec<f32>>,
    open_values: Vec<f32>,
    next_values: Vec<f32>,
    /// Ends the passes over it before their time.
    pub stop: Stop,
}

/// Which of a world's agents a group steers.
#[derive(Clone, Debug, PartialEq)]
pub struct Members {
    /// The group's own.
    pub agents: Range<usize>,
    /// How many there are in the world.
    pub all: usize,
    /// Numbers in one agent's observation.
    pub dim: usize,
}

impl TrainingBatch {
    /// An empty batch for so many signals.
    pub fn new(signals: usize, bptt: usize, members: &Members) -> Self {
        TrainingBatch {
            bptt,
            actor_rows: (members.agents.len() > 1).then(Vec::new),
            advantages: vec![Vec::new(); signals],
            targets: vec![Vec::new(); signals],
            values: vec![Vec::new(); signals],
            ..TrainingBatch::default()
        }
    }

    /// Rows that the actor sees.
    pub fn rows(&self) -> usize {
        self.log_probs.len()
    }

    /// Steps of all environments: rows that the critics see.
    pub fn steps(&self) -> usize {
        self.values[0].len()
    }

    /// What the actor sees.
    pub fn actor_rows(&self) -> &[f32] {
        self.actor_rows.as_ref().unwrap_or(&self.critic_rows)
    }

    /// The constraints' advantages.
    pub fn costs(&self) -> &[Vec<f32>] {
        &self.advantages[1..]
    }

    /// What the policy was when it collected the batch.
    pub fn old(&self) -> Behaviour<'_> {
        Behaviour { outputs: &self.outputs, log_std: &self.log_std, actions: &self.actions, log_probs: &self.log_probs }
    }

    /// Takes in what the environments did under a policy.
    pub fn gather(&mut self, envs: &[EnvSteps], members: &Members, policy: &Policy) {
        let Members { agents, all, dim } = members;
        let (together, each) = ([agents.clone()], agents.clone().map(|agent| agent..agent + 1).collect::<Vec<_>>());
        let mut shares = Vec::new();
        let mut side_by_side = |to, part: Part| share_out(&mut shares, to, envs, part, (*dim, *all), &together);
        side_by_side(&mut self.critic_rows, |e| &e.obs);
        side_by_side(&mut self.open_rows, |e| &e.open_obs);
        let mut stack = |to, part: Part, width| share_out(&mut shares, to, envs, part, (width, *all), &each);
        stack(&mut self.outputs, |e| &e.outputs, policy.net.outputs());
        stack(&mut self.actions, |e| &e.actions, policy.action_width());
        stack(&mut self.log_probs, |e| &e.log_probs, 1);
        stack(&mut self.states, |e| &e.states, policy.net.units());
        if let Some(rows) = &mut self.actor_rows {
            stack(rows, |e| &e.obs, *dim);
        }
        shares.into_par_iter().with_max_len(1).for_each(Share::copy);
        self.entropy = policy.entropy(&self.outputs);
        policy.normalize_outputs(&mut self.outputs);
        self.log_std.clone_from(&policy.log_std);
        self.starts.clear();
        for env in agents.clone().flat_map(|_| envs) {
            self.starts.push(false); // the state before a batch's first row says all
            self.starts.extend_from_slice(&env.cuts[..env.cuts.len() - 1]);
        }
        self.open_ends.resize(envs.len(), Vec::new());
        self.open_ends.iter_mut().zip(envs).for_each(|(to, env)| to.clone_from(&env.open_ends));
        self.ended = envs.iter().map(|env| env.ended).collect();
        let width = dim * agents.len();
        self.open_values.resize(self.open_rows.len() / width, 0.0);
        let steps = self.critic_rows.len() / width;
        self.next_values.resize(steps, 0.0);
        let estimates = [&mut self.advantages, &mut self.targets, &mut self.values];
        estimates.into_iter().flatten().for_each(|v| v.resize(steps, 0.0));
    }

    /// Advantages and targets of every signal (Algorithm 1, lines 3 and 4), each environment's by itself.
    pub fn estimate_advantages(
        &mut self,
        envs: &[EnvSteps],
        signals: &Signals,
        critics: &mut dyn CriticEngine,
        settings: &config::Critic,
    ) {
        let env_steps = self.steps() / envs.len();
        for (s, signal) in signals.all().iter().enumerate() {
            let (mut values, mut open_values) =
                (std::mem::take(&mut self.values[s]), std::mem::take(&mut self.open_values));
            critics.values(self, s, &mut values, &mut open_values);
            let mut open = &open_values[..];
            let own_open = envs.iter().map(|env| open.split_off(..env.open_ends.len()).unwrap_or(&[]));
            let seen = values.par_chunks(env_steps).zip(self.next_values.par_chunks_mut(env_steps));
            let made = self.advantages[s].par_chunks_mut(env_steps).zip(self.targets[s].par_chunks_mut(env_steps));
            let envs = envs.par_iter().zip(own_open.collect::<Vec<_>>());
            envs.zip(seen).zip(made).for_each(|(((env, open), (values, next_values)), (advantages, targets))| {
                env.next_values(values, open, next_values);
                let along = Along { given: &env.given[signal.column], values, next_values, cuts: &env.cuts };
                gae(&along, signal.gamma, signal.lambda, advantages, targets);
                if settings.target == Target::Lambda {
                    let estimates = values.iter().zip(advantages).map(|(v, a)| *v + *a);
                    targets.iter_mut().zip(estimates).for_each(|(target, estimate)| *target = estimate);
                }
            });
            (self.values[s], self.open_values) = (values, open_values);
        }
    }

    /// The share of the targets' variance that each critic explained.
    pub fn explained(&self) -> Vec<f64> {
        let both = self.values.par_iter().zip(&self.targets);
        both.map(|(values, targets)| explained_variance(values, targets)).collect()
    }

    /// Gives every further agent the advantages of its steps.
    pub fn repeat_advantages(&mut self, agents: usize) {
        let steps = self.steps();
        for advantages in &mut self.advantages {
            advantages.reserve_exact(steps * (agents - 1));
            (1..agents).for_each(|_| advantages.extend_from_within(..steps));
        }
    }
}

/// One kind of an environment's figures.
type Part = fn(&EnvSteps) -> &Vec<f32>;

/// What some agents did in one environment, and where it belongs in the batch.
struct Share<'a> {
    figures: &'a [f32],
    to: &'a mut [f32],
    agents: Range<usize>,
    /// Agents of the world, each with `width` numbers in a row.
    all: usize,
    width: usize,
}

impl Share<'_> {
    fn copy(self) {
        let Share { figures, to, agents, all, width } = self;
        if agents.len() == all {
            return to.copy_from_slice(figures);
        }
        let (own, size) = (agents.start * width..agents.end * width, (agents.len() * width).max(1));
        let rows = figures.chunks_exact((all * width).max(1));
        to.chunks_exact_mut(size).zip(rows).for_each(|(to, row)| to.copy_from_slice(&row[own.clone()]));
    }
}

/// Makes room for one kind of figure, and shares it out: first the environments of the first agents, then those of the next.
fn share_out<'a>(
    shares: &mut Vec<Share<'a>>,
    to: &'a mut Vec<f32>,
    envs: &'a [EnvSteps],
    part: Part,
    (width, all): (usize, usize),
    each: &[Range<usize>],
) {
    let numbers = |env: &EnvSteps, agents: &Range<usize>| part(env).len() / all * agents.len();
    let whole = each.iter().map(|agents| envs.iter().map(|env| numbers(env, agents)).sum::<usize>()).sum();
    if to.len() != whole {
        // Room for a batch and no more: buffers that grow as they need would take up to twice as much.
        to.clear();
        to.reserve_exact(whole);
        to.resize(whole, 0.0);
    }
    let mut rest = &mut to[..];
    for (agents, env) in each.iter().flat_map(|agents| envs.iter().map(move |env| (agents, env))) {
        let (to, after) = rest.split_at_mut(numbers(env, agents));
        shares.push(Share { figures: part(env), to, agents: agents.clone(), all, width });
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Net;
    use p3o_env::ActionSpace;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// A batch of some of three agents, which see one number each, and their policy.
    fn batch(agents: Range<usize>) -> (TrainingBatch, Members, Policy) {
        let members = Members { agents, all: 3, dim: 1 };
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let policy = Policy::new(&Net::default(), 1, &ActionSpace::Continuous { dim: 2 }, &mut rng);
        (TrainingBatch::new(2, 1, &members), members, policy)
    }

    /// Two environments of two steps; a number is 100 environment + 10 step + agent. The first one's last step is its open
    /// end, the second one's first ends an episode.
    fn envs() -> Vec<EnvSteps> {
        let env = |e: usize| {
            let mut env = EnvSteps { given: vec![Vec::new(); 2], ..EnvSteps::default() };
            for code in [0, 1].iter().flat_map(|t| (0..3).map(move |agent| (100 * e + 10 * t + agent) as f32)) {
                env.obs.push(code);
                env.outputs.extend([code, -code]);
                env.actions.extend([code, 0.5]);
                env.log_probs.push(code);
            }
            (env.cuts, env.ended) = (vec![e == 1, true], e == 1);
            env.open_ends = vec![1];
            env.open_obs.extend([0, 1, 2].map(|agent| (100 * e + 20 + agent) as f32));
            env
        };
        vec![env(0), env(1)]
    }

    #[test]
    fn a_shared_actor_gets_one_agent_after_another_and_the_critics_all_at_once() {
        let (mut batch, members, policy) = batch(0..3);
        batch.gather(&envs(), &members, &policy);
        let stack = [0.0, 10.0, 100.0, 110.0, 1.0, 11.0, 101.0, 111.0, 2.0, 12.0, 102.0, 112.0];
        assert_eq!(batch.actor_rows(), stack);
        assert_eq!(batch.log_probs, stack);
        assert_eq!(batch.outputs, stack.iter().flat_map(|x| [*x, -x]).collect::<Vec<f32>>());
        assert_eq!(batch.actions, stack.iter().flat_map(|x| [*x, 0.5]).collect::<Vec<f32>>());
        assert_eq!(batch.starts, [false, false, false, true].repeat(3));
        assert_eq!((batch.rows(), batch.steps()), (12, 4));
        assert_eq!(batch.critic_rows, [0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 100.0, 101.0, 102.0, 110.0, 111.0, 112.0]);
        assert_eq!(batch.open_rows, [20.0, 21.0, 22.0, 120.0, 121.0, 122.0]);
        assert_eq!((&batch.open_ends[..], &batch.ended[..]), (&[vec![1], vec![1]][..], &[false, true][..]));
        // Every agent has the advantages of its steps; the critics' targets are those of the steps.
        batch.advantages[0].copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
        batch.advantages[1].copy_from_slice(&[5.0, 6.0, 7.0, 8.0]);
        batch.repeat_advantages(3);
        assert_eq!(batch.advantages[0], [1.0, 2.0, 3.0, 4.0].repeat(3));
        assert_eq!(batch.costs(), [[5.0, 6.0, 7.0, 8.0].repeat(3)]);
        assert!(batch.targets.iter().all(|targets| targets.len() == 4));
        // The next batch begins anew.
        batch.gather(&envs(), &members, &policy);
        assert_eq!((batch.advantages[0].len(), batch.rows(), batch.starts.len()), (4, 12, 12));
    }

    #[test]
    fn an_agent_of_its_own_gets_what_a_single_one_would() {
        let (mut batch, members, policy) = batch(1..2);
        batch.gather(&envs(), &members, &policy);
        assert!(batch.actor_rows.is_none());
        for figures in [&batch.critic_rows[..], batch.actor_rows(), &batch.log_probs] {
            assert_eq!(figures, [1.0, 11.0, 101.0, 111.0]);
        }
        assert_eq!(batch.starts, [false, false, false, true]);
        assert_eq!(batch.open_rows, [21.0, 121.0]);
        batch.repeat_advantages(1);
        assert_eq!((batch.rows(), batch.steps(), batch.advantages[0].len()), (4, 4, 4));
    }
}
