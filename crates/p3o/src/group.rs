//! An actor, its critics and the agents they are for: what an update improves.
//!
//! An ordinary world has one group of one agent. MAP3O has one group of all agents: its actor sees each agent's own
//! observation, its critics all of them at once, and every agent's action has the team's advantage (Algorithm 4). In
//! MAP3O (dec) every agent is a group of its own, whose critics see no more than its actor does (Algorithm 3).

use crate::actor::Actor;
use crate::advantage::{Signal, gae, moments, rescale};
use crate::algo::multiplier::Multiplier;
use crate::algo::violation::{self, EpisodeCost};
use crate::algo::{self, Memory, Passes, PolicyBatch};
use crate::config::{Config, RewardScale, Target, WITH_MULTIPLIERS};
use crate::critic::{Critic, CriticMemory};
use crate::normalize::Normalizer;
use crate::policy::{Behaviour, Policy};
use crate::recall::Recall;
use crate::rollout::{Collector, LaneSteps};
use p3o_env::EnvSpec;
use p3o_nn::{Batch, Source};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// See the module.
pub(crate) struct Group {
    pub actor: Actor,
    /// Of the reward, then of every constraint.
    pub critics: Vec<Critic>,
    /// The policy's, then each critic's.
    pub shuffles: Vec<ChaCha8Rng>,
    /// One per constraint, for algorithms that have them.
    pub multipliers: Vec<Multiplier>,
    /// Agents in the world, this group's and others'.
    all: usize,
    scratch: Scratch,
}

/// What one group saw and did in an update.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupReport {
    /// Offset of every constraint as it stood in the loss.
    pub offsets: Vec<f64>,
    pub passes: Passes,
    pub entropy: f64,
    pub critic_losses: Vec<f64>,
    pub explained: Vec<f64>,
}

/// A batch of observations, row-major and packed.
struct Rows {
    rows: Vec<f32>,
    x: Batch<f32>,
}

/// Memory that is kept from update to update.
struct Scratch {
    memory: Memory,
    critic_memory: Vec<CriticMemory>,
    /// What the critics see: a row per step, all the group's agents side by side.
    seen: Rows,
    /// What the actor sees: a row per step and agent, one agent after another. None for one agent, where it is `seen`.
    own: Option<Rows>,
    /// Where episodes start among the critics' rows; then the same for each further agent.
    starts: Vec<bool>,
    /// The actor's states before its rows, if it has any.
    states: Vec<f32>,
    /// One per critic that remembers.
    recalls: Vec<Recall>,
    /// Steps of a sequence.
    chunk: usize,
    open_rows: Vec<f32>,
    open_x: Batch<f32>,
    outputs: Vec<f32>,
    actions: Vec<f32>,
    log_probs: Vec<f32>,
    values: Vec<f32>,
    open_values: Vec<f32>,
    next_values: Vec<f32>,
    /// Of the reward, then of every constraint.
    targets: Vec<Vec<f32>>,
    adv_r: Vec<f32>,
    adv_c: Vec<Vec<f32>>,
}

impl Group {
    /// A fresh group of these agents for so many constraints.
    pub fn new(
        config: &Config,
        spec: &EnvSpec,
        agents: Range<usize>,
        constraints: usize,
        shuffles: Vec<ChaCha8Rng>,
        rng: &mut ChaCha8Rng,
    ) -> Self {
        let dim = spec.obs_dim / spec.agents;
        let seen = dim * agents.len();
        let policy = Policy::new(&config.net, dim, spec.action, config.algo.learning_rate, rng);
        let critics: Vec<Critic> =
            (0..=constraints).map(|_| Critic::new(&config.net, seen, config.critic.learning_rate, rng)).collect();
        let chunks = 16;
        let rows = |x| Rows { rows: Vec::new(), x };
        let several = agents.len() > 1;
        let scratch = Scratch {
            memory: Memory::new(&policy, chunks, constraints),
            critic_memory: critics.iter().map(|c| c.memory(chunks)).collect(),
            seen: rows(critics[0].net.batch()),
            own: several.then(|| rows(policy.net.batch())),
            starts: Vec::new(),
            states: Vec::new(),
            recalls: critics.iter().filter(|_| config.net.recurrent).map(|c| Recall::new(&c.net)).collect(),
            chunk: if config.net.recurrent { config.net.chunk } else { 1 },
            open_rows: Vec::new(),
            open_x: critics[0].net.batch(),
            outputs: Vec::new(),
            actions: Vec::new(),
            log_probs: Vec::new(),
            values: Vec::new(),
            open_values: Vec::new(),
            next_values: Vec::new(),
            targets: vec![Vec::new(); 1 + constraints],
            adv_r: Vec::new(),
            adv_c: vec![Vec::new(); constraints],
        };
        let multiplied = WITH_MULTIPLIERS.contains(&config.algo.name.as_str());
        let first = Multiplier::new(config.multiplier.init);
        Group {
            actor: Actor { policy, normalizer: Normalizer::new(dim, config.rollout.normalize_obs), agents },
            critics,
            shuffles,
            multipliers: if multiplied { vec![first; constraints] } else { Vec::new() },
            all: spec.agents,
            scratch,
        }
    }

    /// Advantages, policy, critics. `constraints` are indices of costs, `costs` what is known of each of them.
    pub fn update(
        &mut self,
        collector: &Collector,
        config: &Config,
        constraints: &[usize],
        costs: &[EpisodeCost],
    ) -> GroupReport {
        let mut report = GroupReport::default();
        self.gather(&collector.lanes);
        self.estimate_advantages(collector, config, constraints, &mut report);
        self.standardize(config, costs, &mut report);
        self.improve(config, costs, &mut report);
        self.take_in(&collector.lanes);
        report
    }

    /// Puts the lanes' steps one after the other.
    fn gather(&mut self, lanes: &[LaneSteps]) {
        let (s, agents, all) = (&mut self.scratch, self.actor.agents.clone(), self.all);
        let (dim, policy) = (self.actor.normalizer.dim(), &self.actor.policy);
        let side_by_side = |to: &mut Vec<f32>, part: Part| {
            to.clear();
            pick(to, lanes, part, dim, all, agents.clone());
        };
        let stack = |to: &mut Vec<f32>, part: Part, width: usize| {
            to.clear();
            agents.clone().for_each(|agent| pick(to, lanes, part, width, all, agent..agent + 1));
        };
        side_by_side(&mut s.seen.rows, |l| &l.obs);
        side_by_side(&mut s.open_rows, |l| &l.open_obs);
        stack(&mut s.outputs, |l| &l.outputs, policy.net.outputs());
        stack(&mut s.actions, |l| &l.actions, policy.action_width());
        stack(&mut s.log_probs, |l| &l.log_probs, 1);
        stack(&mut s.states, |l| &l.states, policy.net.units());
        s.starts.clear();
        for lane in agents.clone().flat_map(|_| lanes) {
            s.starts.push(false); // the state before a batch's first row says all
            s.starts.extend_from_slice(&lane.cuts[..lane.cuts.len() - 1]);
        }
        if let Some(own) = &mut s.own {
            stack(&mut own.rows, |l| &l.obs, dim);
        }
        s.pack();
        let n = s.seen.rows.len() / (dim * agents.len());
        s.open_values.resize(s.open_rows.len() / (dim * agents.len()), 0.0);
        for v in [&mut s.values, &mut s.adv_r].into_iter().chain(&mut s.targets).chain(&mut s.adv_c) {
            v.resize(n, 0.0);
        }
    }

    /// Advantages and targets of every signal.
    fn estimate_advantages(
        &mut self,
        collector: &Collector,
        config: &Config,
        constraints: &[usize],
        report: &mut GroupReport,
    ) {
        let Group { scratch: s, critics, .. } = self;
        let (r, horizon) = (&config.rollout, collector.horizon);
        for (i, critic) in critics.iter().enumerate() {
            let memory = &mut s.critic_memory[i];
            if let Some(recall) = s.recalls.get_mut(i) {
                let seen =
                    Source { rows: &s.seen.rows, steps: s.chunk, states: &[], starts: &s.starts[..s.values.len()] };
                recall.go_through(&collector.lanes, critic, memory, seen, &mut s.values);
                recall.look_ahead(&collector.lanes, critic, memory, &s.open_rows, &mut s.open_values);
            } else {
                critic.evaluate(memory, &s.seen.x, &mut s.values);
                critic.evaluate(memory, &s.open_x, &mut s.open_values);
            }
            let given = if i == 0 { 0 } else { 1 + constraints[i - 1] };
            let advantages = if i == 0 { &mut s.adv_r } else { &mut s.adv_c[i - 1] };
            let (gamma, lambda) = if i == 0 { (r.gamma, r.lambda) } else { (r.cost_gamma, r.cost_lambda) };
            let mut open = s.open_values.iter();
            for (e, lane) in collector.lanes.iter().enumerate() {
                let range = e * horizon..(e + 1) * horizon;
                lane.next_values(&s.values[range.clone()], &mut open, &mut s.next_values);
                let signal = Signal {
                    given: &lane.given[given],
                    values: &s.values[range.clone()],
                    next_values: &s.next_values,
                    cuts: &lane.cuts,
                };
                gae(&signal, gamma, lambda, &mut advantages[range.clone()], &mut s.targets[i][range]);
            }
            if config.critic.target == Target::Lambda {
                let estimates = s.values.iter().zip(&*advantages).map(|(v, a)| v + a);
                s.targets[i].iter_mut().zip(estimates).for_each(|(target, estimate)| *target = estimate);
            }
            report.explained.push(explained_variance(&s.values, &s.targets[i]));
        }
    }

    /// Standardises the advantages, finds the constraints' offsets, and gives every agent the advantages of its steps.
    fn standardize(&mut self, config: &Config, costs: &[EpisodeCost], report: &mut GroupReport) {
        let s = &mut self.scratch;
        if config.algo.reward_scale == RewardScale::Standard {
            let (mean, deviation) = moments(&s.adv_r);
            rescale(&mut s.adv_r, mean, deviation.max(1e-8));
        }
        for (adv_c, cost) in s.adv_c.iter_mut().zip(costs) {
            let offset = violation::offset(config.algo.offset, cost, config.rollout.cost_gamma);
            report.offsets.push(violation::scale(config.algo.cost_scale, adv_c, offset));
        }
        let steps = s.values.len();
        for advantages in std::iter::once(&mut s.adv_r).chain(&mut s.adv_c) {
            (1..self.actor.agents.len()).for_each(|_| advantages.extend_from_within(..steps));
        }
    }

    /// The policy's passes and the critics' fits.
    fn improve(&mut self, config: &Config, costs: &[EpisodeCost], report: &mut GroupReport) {
        let Group { actor: Actor { policy, .. }, critics, shuffles, multipliers, scratch: s, .. } = self;
        report.entropy = policy.entropy(&s.outputs);
        // Settings may be changed between updates, as a schedule does.
        policy.adam.learning_rate = config.algo.learning_rate;
        policy.adam_log_std.learning_rate = config.algo.learning_rate;
        critics.iter_mut().for_each(|critic| critic.adam.learning_rate = config.critic.learning_rate);
        let old_log_std = policy.log_std.clone();
        policy.normalize_outputs(&mut s.outputs);
        let own = s.own.as_ref().unwrap_or(&s.seen);
        let source = Source { rows: &own.rows, steps: s.chunk, states: &s.states, starts: &s.starts };
        let excess: Vec<f64> = costs.iter().map(EpisodeCost::excess).collect();
        let batch = PolicyBatch {
            x: &own.x,
            source,
            old: Behaviour { outputs: &s.outputs, log_std: &old_log_std, actions: &s.actions, log_probs: &s.log_probs },
            adv_r: &s.adv_r,
            adv_c: &s.adv_c,
            offsets: &report.offsets,
            excess: &excess,
        };
        let (policy_rng, critic_rngs) = shuffles.split_at_mut(1);
        let memory = &mut s.memory;
        let mut act = || algo::update(policy, &batch, config, multipliers, memory, &mut policy_rng[0]);
        let parts = critics.iter_mut().zip(&mut s.critic_memory).zip(&s.targets).zip(critic_rngs);
        let (seen, recalls, starts) = (&s.seen, &s.recalls, &s.starts[..s.values.len()]);
        let fit = || -> Vec<f64> {
            parts
                .enumerate()
                .map(|(i, (((critic, memory), targets), rng))| {
                    let (x, states) = recalls.get(i).map_or((&seen.x, &[][..]), |own| (&own.x, &own.before[..]));
                    let source = Source { rows: &seen.rows, steps: s.chunk, states, starts };
                    critic.fit(memory, &config.critic, x, source, targets, rng)
                })
                .collect()
        };
        // Mini-batches are too small to share out; actor and critics then have a thread each.
        (report.passes, report.critic_losses) = if config.algo.minibatch > 0 || config.critic.minibatch > 0 {
            rayon::join(act, fit)
        } else {
            (act(), fit())
        };
    }

    /// Lets the normaliser take in what the group's agents saw.
    fn take_in(&mut self, lanes: &[LaneSteps]) {
        let Actor { normalizer, agents, .. } = &mut self.actor;
        if !normalizer.is_on() {
            return;
        }
        let dim = normalizer.dim();
        for row in lanes.iter().flat_map(|lane| lane.raw.chunks_exact(self.all * dim)) {
            row[agents.start * dim..agents.end * dim].chunks_exact(dim).for_each(|obs| normalizer.see(obs));
        }
        normalizer.refresh();
    }

    /// Each critic's states between this batch and the next, if they remember.
    pub fn critic_states(&self) -> Vec<Vec<f32>> {
        self.scratch.recalls.iter().map(|recall| recall.first.clone()).collect()
    }

    /// Goes on from the states of [`Group::critic_states`].
    pub fn set_critic_states(&mut self, states: Vec<Vec<f32>>) {
        self.scratch.recalls.iter_mut().zip(states).for_each(|(recall, first)| recall.first = first);
    }

    /// Whether every parameter is finite.
    pub fn is_finite(&self) -> bool {
        self.actor.policy.is_finite() && self.critics.iter().all(Critic::is_finite)
    }
}

impl Scratch {
    /// Packs the rows for the networks. Critics that remember pack their own: their states differ.
    fn pack(&mut self) {
        let actors = |rows| Source { rows, steps: self.chunk, states: &self.states, starts: &self.starts };
        match &mut self.own {
            Some(own) => own.x.fill(actors(&own.rows)),
            None => self.seen.x.fill(actors(&self.seen.rows)),
        }
        if self.recalls.is_empty() {
            self.open_x.fill(Source::of_rows(&self.open_rows));
            if self.own.is_some() {
                self.seen.x.fill(Source::of_rows(&self.seen.rows));
            }
        }
    }
}

/// One kind of a lane's figures.
type Part = fn(&LaneSteps) -> &Vec<f32>;

/// Appends these agents' share of every row of one kind of figure, of which each of `all` agents has `width`.
fn pick(to: &mut Vec<f32>, lanes: &[LaneSteps], part: Part, width: usize, all: usize, agents: Range<usize>) {
    for figures in lanes.iter().map(part) {
        if agents.len() == all {
            to.extend_from_slice(figures);
        } else {
            let rows = figures.chunks_exact((all * width).max(1));
            rows.for_each(|row| to.extend_from_slice(&row[agents.start * width..agents.end * width]));
        }
    }
}

/// 1 - var(target - value) / var(target); zero where the targets do not vary.
fn explained_variance(values: &[f32], targets: &[f32]) -> f64 {
    let (_, spread) = moments(targets);
    if spread < 1e-12 {
        return 0.0;
    }
    let n = values.len() as f64;
    let errors = || values.iter().zip(targets).map(|(v, t)| f64::from(t - v));
    let mean = errors().sum::<f64>() / n;
    1.0 - errors().map(|e| (e - mean).powi(2)).sum::<f64>() / n / (spread * spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use p3o_env::{ActionSpace, CostSpec};
    use rand::SeedableRng;

    /// A group of three agents that see one number each.
    fn group(agents: Range<usize>) -> (Group, Config) {
        let cost = CostSpec { name: "risk".into(), limit: 1.0 };
        let action = ActionSpace::Discrete { n: 2 };
        let spec = EnvSpec { name: "Three".into(), obs_dim: 3, action, agents: 3, costs: vec![cost], horizon: 2 };
        let mut config = Config::preset("quick", "map3o", &spec).unwrap();
        for change in ["algo.reward_scale=none", "net.recurrent=false"] {
            config.set(change).unwrap();
        }
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        (Group::new(&config, &spec, agents, 0, vec![rng.clone()], &mut rng), config)
    }

    /// Two environments of two steps; a number is 100 environment + 10 step + agent.
    fn lanes() -> Vec<LaneSteps> {
        let lane = |e: usize| {
            let mut lane = LaneSteps::new(1);
            for code in [0, 1].iter().flat_map(|t| (0..3).map(move |agent| (100 * e + 10 * t + agent) as f32)) {
                lane.obs.push(code);
                lane.outputs.extend([code, -code]);
                lane.actions.push(code);
                lane.log_probs.push(code);
            }
            lane.cuts = vec![e == 1, true];
            lane.open_obs.extend([0, 1, 2].map(|agent| (100 * e + 20 + agent) as f32));
            lane
        };
        vec![lane(0), lane(1)]
    }

    #[test]
    fn a_shared_actor_gets_one_agent_after_another_and_the_critics_all_at_once() {
        let (mut group, config) = group(0..3);
        group.gather(&lanes());
        let s = &mut group.scratch;
        let stack = [0.0, 10.0, 100.0, 110.0, 1.0, 11.0, 101.0, 111.0, 2.0, 12.0, 102.0, 112.0];
        let own = s.own.as_ref().unwrap();
        for figures in [&own.rows, &s.actions, &s.log_probs] {
            assert_eq!(figures, &stack);
        }
        assert_eq!(s.outputs, stack.iter().flat_map(|x| [*x, -x]).collect::<Vec<f32>>());
        assert_eq!(s.starts, [false, false, false, true].repeat(3));
        assert_eq!((own.x.rows(), own.x.columns()), (12, 1));
        assert_eq!(s.seen.rows, [0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 100.0, 101.0, 102.0, 110.0, 111.0, 112.0]);
        assert_eq!((s.seen.x.rows(), s.seen.x.columns()), (4, 3));
        assert_eq!(s.open_rows, [20.0, 21.0, 22.0, 120.0, 121.0, 122.0]);
        // Every agent has the advantages of its steps.
        s.adv_r.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
        group.standardize(&config, &[], &mut GroupReport::default());
        assert_eq!(group.scratch.adv_r, [1.0, 2.0, 3.0, 4.0].repeat(3));
        // The next batch begins anew.
        group.gather(&lanes());
        assert_eq!((group.scratch.adv_r.len(), group.scratch.actions.len()), (4, 12));
    }

    #[test]
    fn an_agent_of_its_own_gets_what_a_single_one_would() {
        let (mut group, config) = group(1..2);
        group.gather(&lanes());
        let s = &group.scratch;
        assert!(s.own.is_none());
        for figures in [&s.seen.rows, &s.actions, &s.log_probs] {
            assert_eq!(figures, &[1.0, 11.0, 101.0, 111.0]);
        }
        assert_eq!(s.open_rows, [21.0, 121.0]);
        group.standardize(&config, &[], &mut GroupReport::default());
        assert_eq!(group.scratch.adv_r.len(), 4);
    }
}
