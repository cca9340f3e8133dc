//! The loop's body: collect, advantages, update. Everything that a run's next number depends on lives here.

use crate::advantage::{Signal, gae, moments, rescale};
use crate::algo::multiplier::Multiplier;
use crate::algo::violation::{self, EpisodeCost};
use crate::algo::{self, Memory, Passes, PolicyBatch};
use crate::config::{Config, CostEstimate, RewardScale, Target, UNCONSTRAINED, WITH_MULTIPLIERS};
use crate::critic::{Critic, CriticMemory};
use crate::error::Error;
use crate::normalize::Normalizer;
use crate::policy::{Behaviour, Policy};
use crate::rollout::{Collector, LaneSteps};
use p3o_env::{Env, EnvSpec};
use p3o_nn::Tiles;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::time::Instant;

/// Random streams beside those of the environments, which count up from zero.
const INIT_STREAM: u64 = u64::MAX;
const SHUFFLE_STREAM: u64 = u64::MAX - 1;

/// A policy, its critics and its environments in the middle of training.
pub struct Learner {
    /// All settings.
    pub config: Config,
    spec: EnvSpec,
    /// Indices of the costs that are constraints.
    constraints: Vec<usize>,
    /// Limits of all costs; infinite where there is none.
    limits: Vec<f64>,
    pub(crate) policy: Policy,
    /// Of the reward, then of every constraint.
    pub(crate) critics: Vec<Critic>,
    pub(crate) normalizer: Normalizer,
    pub(crate) collector: Collector,
    pub(crate) shuffles: Vec<ChaCha8Rng>,
    pub(crate) progress: Progress,
    /// One per constraint, for algorithms that have them.
    pub(crate) multipliers: Vec<Multiplier>,
    scratch: Scratch,
}

/// Counters and estimates that outlive an update.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Progress {
    /// Updates done.
    pub updates: u64,
    /// Environment steps done.
    pub steps: u64,
    /// The last known mean cost, discounted cost of every cost, and length of an episode.
    pub costs: Vec<f64>,
    /// See `costs`.
    pub discounted: Vec<f64>,
    /// See `costs`; zero before the first episode has ended.
    pub length: f64,
    /// Of every constraint the episode's cost and discounted cost, averaged over updates as `algo.cost_memory` says.
    pub remembered: Vec<(f64, f64)>,
}

impl Progress {
    /// Takes in an estimate of constraint `i`'s cost and discounted cost; returns the average that stands for it.
    fn remember(&mut self, i: usize, memory: f64, now: (f64, f64)) -> (f64, f64) {
        if self.remembered.len() == i {
            self.remembered.push(now);
        }
        let kept = &mut self.remembered[i];
        *kept = (memory * kept.0 + (1.0 - memory) * now.0, memory * kept.1 + (1.0 - memory) * now.1);
        *kept
    }
}

/// What one update saw and did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Updates done, this one included.
    pub update: u64,
    /// Environment steps done.
    pub steps: u64,
    /// Episodes that ended in this batch; where there were none, the episode figures are NaN.
    pub episodes: usize,
    /// Mean return of an episode.
    pub ret: f64,
    /// Mean length of an episode.
    pub length: f64,
    /// Mean of every cost over an episode.
    pub costs: Vec<f64>,
    /// Mean of every cost over a step: early death cannot lower it.
    pub costs_per_step: Vec<f64>,
    /// Offset of every constraint as it stood in the loss.
    pub offsets: Vec<f64>,
    /// How far every constraint's episode cost was over its limit, margin included.
    pub excess: Vec<f64>,
    /// What the policy's passes did.
    pub passes: Passes,
    /// Entropy of the policy before the update.
    pub entropy: f64,
    /// Loss of every critic before its fit.
    pub critic_losses: Vec<f64>,
    /// Share of the targets' variance that every critic explained before its fit.
    pub explained: Vec<f64>,
    /// Milliseconds of collecting and of updating.
    pub rollout_ms: f64,
    /// See `rollout_ms`.
    pub update_ms: f64,
}

/// Memory that is kept from update to update.
struct Scratch {
    memory: Memory,
    critic_memory: Vec<CriticMemory>,
    x: Tiles<f32>,
    open_x: Tiles<f32>,
    rows: Vec<f32>,
    open_rows: Vec<f32>,
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

impl Learner {
    /// A fresh learner for a checked configuration.
    pub fn new(config: Config, make: &dyn Fn() -> Box<dyn Env>) -> Result<Self, Error> {
        let spec = make().spec().clone();
        config.check(&spec)?;
        let r = &config.rollout;
        let collector = Collector::new(make, r.envs, r.batch / r.envs, config.seed, r.cost_gamma);
        let limit = |name: &str| config.limits.get(name).copied().unwrap_or(f64::INFINITY);
        let limits: Vec<f64> = spec.costs.iter().map(|c| limit(&c.name)).collect();
        let constraints: Vec<usize> = match config.algo.name.as_str() {
            name if UNCONSTRAINED.contains(&name) => Vec::new(),
            _ => (0..limits.len()).filter(|&i| limits[i].is_finite()).collect(),
        };
        let mut rng = stream(config.seed, INIT_STREAM);
        let policy = Policy::new(&config.net, spec.obs_dim, spec.action, config.algo.learning_rate, &mut rng);
        let critics: Vec<Critic> = (0..=constraints.len())
            .map(|_| Critic::new(&config.net, spec.obs_dim, config.critic.learning_rate, &mut rng))
            .collect();
        let m = constraints.len();
        let chunks = 16;
        let scratch = Scratch {
            memory: Memory::new(&policy, chunks, m),
            critic_memory: critics.iter().map(|c| c.memory(chunks)).collect(),
            x: Tiles::new(spec.obs_dim),
            open_x: Tiles::new(spec.obs_dim),
            rows: Vec::new(),
            open_rows: Vec::new(),
            outputs: Vec::new(),
            actions: Vec::new(),
            log_probs: Vec::new(),
            values: Vec::new(),
            open_values: Vec::new(),
            next_values: Vec::new(),
            targets: vec![Vec::new(); 1 + m],
            adv_r: Vec::new(),
            adv_c: vec![Vec::new(); m],
        };
        let progress =
            Progress { costs: vec![0.0; limits.len()], discounted: vec![0.0; limits.len()], ..Progress::default() };
        let multiplied = WITH_MULTIPLIERS.contains(&config.algo.name.as_str());
        let multipliers = if multiplied { vec![Multiplier::new(config.multiplier.init); m] } else { Vec::new() };
        Ok(Learner {
            normalizer: Normalizer::new(spec.obs_dim, r.normalize_obs),
            shuffles: (0..2 + m as u64).map(|i| stream(config.seed, SHUFFLE_STREAM - i)).collect(),
            config,
            spec,
            constraints,
            limits,
            policy,
            critics,
            collector,
            progress,
            multipliers,
            scratch,
        })
    }

    /// The world's description.
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// Limits of all costs; infinite where there is none.
    pub fn limits(&self) -> &[f64] {
        &self.limits
    }

    /// Indices of the costs that the loss constrains.
    pub fn constraints(&self) -> &[usize] {
        &self.constraints
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The observations' normaliser.
    pub fn normalizer(&self) -> &Normalizer {
        &self.normalizer
    }

    /// Updates and steps done.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// One update: collect, advantages, policy, critics (Algorithm 1, one round).
    pub fn update(&mut self) -> Result<Report, Error> {
        let start = Instant::now();
        self.collector.collect(&self.policy, &self.normalizer);
        self.check_observations()?;
        let rollout_ms = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        self.scratch.gather(&self.collector.lanes);
        let mut report = self.tally();
        self.estimate_advantages(&mut report);
        self.improve(&mut report);
        self.check_numbers(&report)?;
        for lane in &self.collector.lanes {
            lane.raw.chunks_exact(self.spec.obs_dim).for_each(|obs| self.normalizer.see(obs));
        }
        if self.normalizer.is_on() {
            self.normalizer.refresh();
        }
        (report.rollout_ms, report.update_ms) = (rollout_ms, start.elapsed().as_secs_f64() * 1e3);
        Ok(report)
    }

    /// Counts what the batch holds and brings the estimates of the costs up to date.
    fn tally(&mut self) -> Report {
        let costs = self.limits.len();
        self.progress.updates += 1;
        self.progress.steps += self.config.rollout.batch as u64;
        let mut report = Report {
            update: self.progress.updates,
            steps: self.progress.steps,
            costs: vec![0.0; costs],
            costs_per_step: vec![0.0; costs],
            ..Report::default()
        };
        let mut discounted = vec![0.0; costs];
        for lane in &self.collector.lanes {
            for episode in &lane.episodes {
                report.episodes += 1;
                report.ret += episode.ret;
                report.length += episode.length as f64;
                report.costs.iter_mut().zip(&episode.costs).for_each(|(sum, c)| *sum += c);
                discounted.iter_mut().zip(&episode.discounted).for_each(|(sum, c)| *sum += c);
            }
            for (sum, costs) in report.costs_per_step.iter_mut().zip(&lane.given[1..]) {
                *sum += costs.iter().map(|&c| f64::from(c)).sum::<f64>() / self.config.rollout.batch as f64;
            }
        }
        // 0 / 0 is NaN: the honest mean over no episodes.
        let n = report.episodes as f64;
        report.ret /= n;
        report.length /= n;
        report.costs.iter_mut().chain(&mut discounted).for_each(|c| *c /= n);
        if report.episodes > 0 {
            self.progress.costs.clone_from(&report.costs);
            self.progress.discounted = discounted;
            self.progress.length = report.length;
        } else if self.progress.length == 0.0 {
            // No episode has ever ended: what this batch cost per step stands in for it.
            let (horizon, gamma) = (self.spec.horizon as f64, self.config.rollout.cost_gamma);
            let discounted_horizon = (1.0 - libm::pow(gamma, horizon)) / (1.0 - gamma);
            self.progress.costs = report.costs_per_step.iter().map(|c| c * horizon).collect();
            self.progress.discounted = report.costs_per_step.iter().map(|c| c * discounted_horizon).collect();
        }
        report
    }

    /// Advantages and targets of every signal, standardised, and the constraints' offsets.
    fn estimate_advantages(&mut self, report: &mut Report) {
        let Learner { scratch: s, collector, critics, config, progress, constraints, .. } = self;
        let r = &config.rollout;
        let cost_gamma = r.cost_gamma;
        let horizon = collector.horizon;
        for (i, critic) in critics.iter().enumerate() {
            critic.evaluate(&mut s.critic_memory[i], &s.x, &mut s.values);
            critic.evaluate(&mut s.critic_memory[i], &s.open_x, &mut s.open_values);
            let given = if i == 0 { 0 } else { 1 + constraints[i - 1] };
            let advantages = if i == 0 { &mut s.adv_r } else { &mut s.adv_c[i - 1] };
            let (gamma, lambda) = if i == 0 { (r.gamma, r.lambda) } else { (cost_gamma, r.cost_lambda) };
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
        if config.algo.reward_scale == RewardScale::Standard {
            let (mean, deviation) = moments(&s.adv_r);
            rescale(&mut s.adv_r, mean, deviation.max(1e-8));
        }
        let length = if progress.length > 0.0 { progress.length } else { self.spec.horizon as f64 };
        let discounted_length = (1.0 - libm::pow(cost_gamma, length)) / (1.0 - cost_gamma);
        for (i, &cost) in constraints.iter().enumerate() {
            let per_step = report.costs_per_step[cost];
            let (episode, discounted) = match config.algo.cost_estimate {
                CostEstimate::Steps => (per_step * length, per_step * discounted_length),
                CostEstimate::Episodes => (progress.costs[cost], progress.discounted[cost]),
            };
            let (episode, discounted) = progress.remember(i, config.algo.cost_memory, (episode, discounted));
            let estimate =
                EpisodeCost { episode, discounted, length, limit: self.limits[cost] * (1.0 - config.algo.margin) };
            let offset = violation::offset(config.algo.offset, &estimate, cost_gamma);
            report.offsets.push(violation::scale(config.algo.cost_scale, &mut s.adv_c[i], offset));
            report.excess.push(estimate.episode - estimate.limit);
        }
    }

    /// The policy's passes and the critics' fits.
    fn improve(&mut self, report: &mut Report) {
        let Learner { scratch: s, policy, critics, config, shuffles, multipliers, .. } = self;
        report.entropy = policy.entropy(&s.outputs);
        // Settings may be changed between updates, as a schedule does.
        policy.adam.learning_rate = config.algo.learning_rate;
        policy.adam_log_std.learning_rate = config.algo.learning_rate;
        critics.iter_mut().for_each(|critic| critic.adam.learning_rate = config.critic.learning_rate);
        let old_log_std = policy.log_std.clone();
        policy.normalize_outputs(&mut s.outputs);
        let batch = PolicyBatch {
            x: &s.x,
            rows: &s.rows,
            old: Behaviour { outputs: &s.outputs, log_std: &old_log_std, actions: &s.actions, log_probs: &s.log_probs },
            adv_r: &s.adv_r,
            adv_c: &s.adv_c,
            offsets: &report.offsets,
            excess: &report.excess,
        };
        let (policy_rng, critic_rngs) = shuffles.split_at_mut(1);
        let memory = &mut s.memory;
        let mut act = || algo::update(policy, &batch, config, multipliers, memory, &mut policy_rng[0]);
        let parts = critics.iter_mut().zip(&mut s.critic_memory).zip(&s.targets).zip(critic_rngs);
        let fit = || -> Vec<f64> {
            parts
                .map(|(((critic, memory), targets), rng)| {
                    critic.fit(memory, &config.critic, &s.x, &s.rows, targets, rng)
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

    fn check_observations(&self) -> Result<(), Error> {
        // The update that this batch is for has not been counted yet.
        let broken = |what| Error::NonFinite { update: self.progress.updates + 1, what };
        for (e, lane) in self.collector.lanes.iter().enumerate() {
            if let Some((step, entry)) = lane.broken {
                return Err(broken(format!(
                    "environment {e} gave an observation that is not finite (step {step} of the batch, entry {entry})"
                )));
            }
            for (i, given) in lane.given.iter().enumerate() {
                if let Some(step) = given.iter().position(|x| !x.is_finite()) {
                    let name = if i == 0 { "reward" } else { &self.spec.costs[i - 1].name };
                    return Err(broken(format!(
                        "environment {e} gave a {name} that is not finite (step {step} of the batch)"
                    )));
                }
            }
        }
        Ok(())
    }

    fn check_numbers(&self, report: &Report) -> Result<(), Error> {
        let passes = &report.passes;
        let broken = |what| Error::NonFinite { update: report.update, what };
        if !passes.is_finite() {
            return Err(broken(format!(
                "the policy's update is not finite (loss {}, KL {}, gradient norm {})",
                passes.loss, passes.kl, passes.gradient_norm
            )));
        }
        if let Some(i) = report.critic_losses.iter().position(|l| !l.is_finite()) {
            return Err(broken(format!("the loss of critic {i} is not finite")));
        }
        if !self.policy.is_finite() || !self.critics.iter().all(Critic::is_finite) {
            return Err(broken("a network has a parameter that is not finite".to_string()));
        }
        Ok(())
    }
}

impl LaneSteps {
    /// V(s_{t+1}) along the batch: the next row's value, zero after a termination, or the next of the bootstraps.
    fn next_values<'a>(&self, values: &[f32], open: &mut impl Iterator<Item = &'a f32>, next: &mut Vec<f32>) {
        next.clear();
        next.extend(values[1..].iter().chain([&0.0]).zip(&self.cuts).map(|(&v, &cut)| if cut { 0.0 } else { v }));
        for (&t, &value) in self.open_ends.iter().zip(open) {
            next[t as usize] = value;
        }
    }
}

impl Scratch {
    /// Puts the lanes' steps one after the other.
    fn gather(&mut self, lanes: &[LaneSteps]) {
        let flat = |to: &mut Vec<f32>, part: fn(&LaneSteps) -> &Vec<f32>| {
            to.clear();
            lanes.iter().for_each(|l| to.extend_from_slice(part(l)));
        };
        flat(&mut self.rows, |l| &l.obs);
        flat(&mut self.open_rows, |l| &l.open_obs);
        flat(&mut self.outputs, |l| &l.outputs);
        flat(&mut self.actions, |l| &l.actions);
        flat(&mut self.log_probs, |l| &l.log_probs);
        self.x.fill(&self.rows);
        self.open_x.fill(&self.open_rows);
        let n = self.x.rows();
        self.open_values.resize(self.open_x.rows(), 0.0);
        for v in [&mut self.values, &mut self.adv_r].into_iter().chain(&mut self.targets).chain(&mut self.adv_c) {
            v.resize(n, 0.0);
        }
    }
}

fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
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

    #[test]
    fn a_remembered_cost_starts_at_the_first_estimate_and_follows_the_next() {
        let mut progress = Progress::default();
        assert_eq!(progress.remember(0, 0.75, (8.0, 4.0)), (8.0, 4.0));
        assert_eq!(progress.remember(1, 0.75, (1.0, 1.0)), (1.0, 1.0));
        // 0.75 * 8 + 0.25 * 4 = 7 and 0.75 * 4 + 0.25 * 0 = 3.
        assert_eq!(progress.remember(0, 0.75, (4.0, 0.0)), (7.0, 3.0));
        assert_eq!(progress.remember(0, 0.0, (5.0, 2.0)), (5.0, 2.0), "no memory: the estimate itself");
    }
}
