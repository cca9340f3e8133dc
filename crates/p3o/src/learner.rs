//! The loop's body: collect, advantages, update. Everything that a run's next number depends on lives here.

use crate::actor::Actor;
use crate::algo::violation::EpisodeCost;
use crate::algo::{Passes, mean_rows};
use crate::config::{Config, CostEstimate, UNCONSTRAINED};
use crate::error::Error;
use crate::group::{Group, GroupReport};
use crate::normalize::Normalizer;
use crate::policy::Policy;
use crate::rollout::Collector;
use p3o_env::{Env, EnvSpec};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::time::Instant;

/// Random streams beside those of the environments, which count up from zero.
const INIT_STREAM: u64 = u64::MAX;
const SHUFFLE_STREAM: u64 = u64::MAX - 1;

/// Policies, their critics and their environments in the middle of training.
pub struct Learner {
    /// All settings.
    pub config: Config,
    spec: EnvSpec,
    /// Indices of the costs that are constraints.
    constraints: Vec<usize>,
    /// Limits of all costs; infinite where there is none.
    limits: Vec<f64>,
    /// One, or one per agent.
    pub(crate) groups: Vec<Group>,
    pub(crate) collector: Collector,
    pub(crate) progress: Progress,
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

/// What one update saw and did. Where every agent has its own policy and critics, their figures are means over the agents.
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

impl Learner {
    /// A fresh learner for a checked configuration.
    pub fn new(config: Config, make: &dyn Fn() -> Box<dyn Env>) -> Result<Self, Error> {
        let spec = make().spec().clone();
        config.check(&spec)?;
        let r = &config.rollout;
        let mut collector = Collector::new(make, r.envs, r.batch / r.envs, config.seed, r.cost_gamma);
        collector.bootstrap = r.bootstrap;
        let limit = |name: &str| config.limits.get(name).copied().unwrap_or(f64::INFINITY);
        let limits: Vec<f64> = spec.costs.iter().map(|c| limit(&c.name)).collect();
        let constraints: Vec<usize> = match config.algo.name.as_str() {
            name if UNCONSTRAINED.contains(&name) => Vec::new(),
            _ => (0..limits.len()).filter(|&i| limits[i].is_finite()).collect(),
        };
        let m = constraints.len();
        let mut rng = stream(config.seed, INIT_STREAM);
        let groups = config.groups(&spec).into_iter().enumerate().map(|(g, agents)| {
            let shuffles = (0..2 + m).map(|i| stream(config.seed, SHUFFLE_STREAM - (g * (2 + m) + i) as u64));
            Group::new(&config, &spec, agents, m, shuffles.collect(), &mut rng)
        });
        let groups = groups.collect();
        let progress =
            Progress { costs: vec![0.0; limits.len()], discounted: vec![0.0; limits.len()], ..Progress::default() };
        Ok(Learner { config, spec, constraints, limits, groups, collector, progress })
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

    /// What acts, in the order of the agents: one actor, or one per agent.
    pub fn actors(&self) -> Vec<&Actor> {
        self.groups.iter().map(|group| &group.actor).collect()
    }

    /// The policy; of several, the first agent's.
    pub fn policy(&self) -> &Policy {
        &self.groups[0].actor.policy
    }

    /// Its observations' normaliser.
    pub fn normalizer(&self) -> &Normalizer {
        &self.groups[0].actor.normalizer
    }

    /// Updates and steps done.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// One update: collect, advantages, policy, critics (Algorithm 1, one round).
    pub fn update(&mut self) -> Result<Report, Error> {
        let start = Instant::now();
        let actors: Vec<&Actor> = self.groups.iter().map(|group| &group.actor).collect();
        self.collector.collect(&actors);
        self.check_observations()?;
        let rollout_ms = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        let mut report = self.tally();
        let costs = self.estimate_costs(&report);
        let Learner { groups, collector, config, constraints, .. } = self;
        let parts: Vec<GroupReport> =
            groups.iter_mut().map(|group| group.update(collector, config, constraints, &costs)).collect();
        report.excess = costs.iter().map(EpisodeCost::excess).collect();
        report.take(&parts);
        self.check_numbers(&report)?;
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

    /// What is known of every constraint's cost and limit.
    fn estimate_costs(&mut self, report: &Report) -> Vec<EpisodeCost> {
        let Learner { config, progress, constraints, limits, .. } = self;
        let cost_gamma = config.rollout.cost_gamma;
        let length = if progress.length > 0.0 { progress.length } else { self.spec.horizon as f64 };
        let discounted_length = (1.0 - libm::pow(cost_gamma, length)) / (1.0 - cost_gamma);
        let estimate = |(i, &cost): (usize, &usize)| {
            let per_step = report.costs_per_step[cost];
            let (episode, discounted) = match config.algo.cost_estimate {
                CostEstimate::Steps => (per_step * length, per_step * discounted_length),
                CostEstimate::Episodes => (progress.costs[cost], progress.discounted[cost]),
            };
            let (episode, discounted) = progress.remember(i, config.algo.cost_memory, (episode, discounted));
            EpisodeCost { episode, discounted, length, limit: limits[cost] * (1.0 - config.algo.margin) }
        };
        constraints.iter().enumerate().map(estimate).collect()
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
        if !self.groups.iter().all(Group::is_finite) {
            return Err(broken("a network has a parameter that is not finite".to_string()));
        }
        Ok(())
    }
}

impl Report {
    /// Takes in the means of what the groups saw and did.
    fn take(&mut self, parts: &[GroupReport]) {
        let means = |figures: fn(&GroupReport) -> &Vec<f64>| mean_rows(parts.iter().map(figures));
        self.offsets = means(|part| &part.offsets);
        self.critic_losses = means(|part| &part.critic_losses);
        self.explained = means(|part| &part.explained);
        self.entropy = parts.iter().map(|part| part.entropy).sum::<f64>() / parts.len() as f64;
        self.passes = Passes::mean(parts.iter().map(|part| &part.passes));
    }
}

fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
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
