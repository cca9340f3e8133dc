//! The loop's body: collect, advantages, update. Everything that a run's next number depends on lives here.

use crate::actor::Actor;
use crate::agent::{Agent, Mind};
use crate::algo::p3o::{Measured, estimate};
use crate::algo::{Passes, mean_rows};
use crate::config::{Config, Constraint, Sum};
use crate::engine;
use crate::error::{ConfigError, Error};
use crate::group::{Group, GroupReport, Round};
use crate::memory;
use crate::policy::{Policy, all_finite};
use crate::ranks::Ranks;
use crate::reduce::{Part, reduce};
use crate::rollout::{Collector, EnvSteps, Episode};
use crate::signals::Signals;
use crate::stop::Stop;
use p3o_env::{Actuation, Env, EnvSpec, VecEnv, VectorEnv};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::time::Instant;

/// Random streams beside those of the environments, which count up from zero.
const INIT_STREAM: u64 = u64::MAX;
const SHUFFLE_STREAM: u64 = u64::MAX - 1;

/// Policies, their critics and their environments in the middle of training.
pub struct Learner {
    config: Config,
    spec: EnvSpec,
    signals: Signals,
    /// One, or one per agent.
    pub(crate) groups: Vec<Group>,
    pub(crate) collector: Collector,
    pub(crate) progress: Progress,
    /// What is taken off every constraint's training limit, where it is corrected.
    pub(crate) corrections: Vec<f64>,
    /// Settings of its run that were changed by hand and adopted, as sentences.
    pub(crate) adopted: Vec<String>,
    /// What the worlds make of continuous actions, if not what ours do.
    pub(crate) actuation: Option<Actuation>,
    stop: Stop,
    ranks: Ranks,
}

/// Counters and estimates that outlive an update.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Progress {
    /// Updates done.
    pub updates: u64,
    /// Environment steps done.
    pub steps: u64,
    /// The last known mean of every cost over an episode, in the world's order.
    pub costs: Vec<f64>,
    /// The last known mean length of an episode; zero before the first has ended.
    pub length: f64,
    /// J_C of every constraint, averaged over updates as `constraint.smoothing` says.
    pub smoothed: Vec<f64>,
    /// The last known mean of every cost's discounted sum, where limits are held against it. A checkpoint keeps it apart.
    #[serde(skip)]
    pub discounted: Vec<f64>,
}

impl Progress {
    /// Takes in an estimate of constraint `i`'s J_C; returns the average that stands for it.
    fn smooth(&mut self, i: usize, smoothing: f64, now: f64) -> f64 {
        if self.smoothed.len() == i {
            self.smoothed.push(now);
        }
        let kept = &mut self.smoothed[i];
        *kept = smoothing * *kept + (1.0 - smoothing) * now;
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
    /// Mean of every cost over an episode, in the world's order.
    pub costs: Vec<f64>,
    /// Mean of every cost's discounted sum over an episode; empty unless `constraint.sum` asks for it.
    pub discounted: Vec<f64>,
    /// Mean of every cost over a step: early death cannot lower it.
    pub costs_per_step: Vec<f64>,
    /// Offset of every constraint as it stood in the loss.
    pub offsets: Vec<f64>,
    /// How far every constraint's episode cost was over its limit, margin and correction included.
    pub excess: Vec<f64>,
    /// What is taken off every constraint's training limit, where it is corrected.
    pub corrections: Vec<f64>,
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
    /// A fresh learner in the worlds that `make` makes.
    pub fn new(config: Config, make: &dyn Fn() -> Box<dyn Env>) -> Result<Self, Error> {
        Self::with_engines(config, make, &engine::on_cpu)
    }

    /// The same with its networks where `engines` puts them.
    pub fn with_engines(
        config: Config,
        make: &dyn Fn() -> Box<dyn Env>,
        engines: &engine::Maker,
    ) -> Result<Self, Error> {
        // Before so many worlds are made: their number may make no sense.
        let spec = make().spec().clone();
        config.check(&spec)?;
        memory::check(&config, &spec)?;
        let worlds = Box::new(VecEnv::new(make, config.rollout.envs));
        Self::assemble(config, spec, worlds, engines)
    }

    /// The same for one of several processes that make one run: the worlds and the passes are shared out.
    pub fn with_ranks(
        config: Config,
        make: &dyn Fn() -> Box<dyn Env>,
        engines: &engine::Maker,
        ranks: &Ranks,
    ) -> Result<Self, Error> {
        let mut learner = Self::with_engines(config, make, engines)?;
        learner.collector.share_out(ranks)?;
        learner.groups.iter_mut().for_each(|group| group.engine.share_out(ranks));
        learner.ranks = ranks.clone();
        Ok(learner)
    }

    /// A fresh learner in some worlds, `rollout.envs` of them.
    pub fn with_worlds(config: Config, worlds: Box<dyn VectorEnv>) -> Result<Self, Error> {
        Self::with_worlds_on(config, worlds, &engine::on_cpu)
    }

    /// The same with its networks where `engines` puts them.
    pub fn with_worlds_on(config: Config, worlds: Box<dyn VectorEnv>, engines: &engine::Maker) -> Result<Self, Error> {
        let spec = worlds.spec().clone();
        config.check(&spec)?;
        if worlds.count() != config.rollout.envs {
            let (takes, given) = (format!("{}, the number of worlds", worlds.count()), config.rollout.envs.to_string());
            return Err(ConfigError::OutOfRange { key: "rollout.envs".into(), takes, given }.into());
        }
        memory::check(&config, &spec)?;
        Self::assemble(config, spec, worlds, engines)
    }

    fn assemble(
        config: Config,
        spec: EnvSpec,
        worlds: Box<dyn VectorEnv>,
        engines: &engine::Maker,
    ) -> Result<Self, Error> {
        let (steps, bootstrap) = (config.env_steps(), config.rollout.bootstrap);
        let actuation = worlds.actuation().cloned();
        let mut collector = Collector::new(worlds, steps, config.run.seed, bootstrap)
            .map_err(|error| Error::World { update: 1, error })?;
        if config.constraint.sum == Sum::Discounted {
            collector.discount(config.rollout.cost_gamma);
        }
        let signals = Signals::new(&config, &spec);
        let streams = 1 + signals.all().len();
        let mut rng = stream(config.run.seed, INIT_STREAM);
        let groups = config.groups(&spec).into_iter().enumerate().map(|(g, agents)| {
            let shuffles = (0..streams).map(|i| stream(config.run.seed, SHUFFLE_STREAM - (g * streams + i) as u64));
            Group::new(&config, &spec, agents, &signals, shuffles.collect(), &mut rng, engines)
        });
        let groups = groups.collect::<Result<_, String>>().map_err(Error::Engine)?;
        let progress = Progress {
            costs: vec![0.0; spec.costs.len()],
            discounted: vec![0.0; spec.costs.len()],
            ..Progress::default()
        };
        let corrected = if config.constraint.correction_rate > 0.0 { signals.constraints().len() } else { 0 };
        let corrections = vec![0.0; corrected];
        let (adopted, stop, ranks) = (Vec::new(), Stop::default(), Ranks::default());
        Ok(Learner { config, spec, signals, groups, collector, progress, corrections, adopted, actuation, stop, ranks })
    }

    /// All settings, checked.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes settings between two updates, as a schedule does. Those that decide the shape of what is learned stay.
    pub fn retune(&mut self, change: impl FnOnce(&mut Config)) -> Result<(), ConfigError> {
        let mut config = self.config.clone();
        change(&mut config);
        config.check(&self.spec)?;
        let old = &self.config;
        let same = [
            (
                "the task, its options or its limits",
                config.task == old.task && config.env == old.env && config.limits == old.limits,
            ),
            ("the algorithm", config.method() == old.method()),
            ("the preset", config.preset == old.preset),
            ("rollout", config.rollout == old.rollout),
            ("net", config.net == old.net),
            ("constraint.sum", config.constraint.sum == old.constraint.sum),
        ];
        if let Some((what, _)) = same.iter().find(|(_, same)| !same) {
            return Err(ConfigError::Fixed(what.to_string()));
        }
        self.config = config;
        Ok(())
    }

    /// Where its networks learn.
    pub fn device(&self) -> String {
        self.groups[0].engine.name()
    }

    /// The world's description.
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// What is learned: the reward, then the costs with limits.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Limits of all costs, in the world's order; infinite where there is none.
    pub fn limits(&self) -> Vec<f64> {
        self.config.limits_of(&self.spec)
    }

    /// What acts, in the order of the agents: one actor, or one per agent.
    pub fn actors(&self) -> Vec<Actor<'_>> {
        self.groups.iter().map(Group::actor).collect()
    }

    /// The policies as they stand, to act without the learner.
    pub fn agent(&self) -> Agent {
        let mind = |group: &Group| Mind {
            policy: group.engine.networks().policy.clone(),
            normalizer: group.normalizer.clone(),
            agents: group.members.agents.clone(),
        };
        let minds = self.groups.iter().map(mind).collect();
        Agent {
            config: self.config.clone(),
            spec: self.spec.clone(),
            steps: self.progress.steps,
            minds,
            digest: None,
            adopted: self.adopted.clone(),
            actuation: self.actuation.clone(),
        }
    }

    /// The policy; of several, the first agent's.
    pub fn policy(&self) -> &Policy {
        &self.groups[0].engine.networks().policy
    }

    /// Brings all that a checkpoint holds to the host.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        let lost = |what| Error::Device { update: self.progress.updates, what };
        self.groups.iter_mut().try_for_each(|group| group.engine.sync()).map_err(lost)
    }

    /// The processes that make the run, of which this is one.
    pub fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// Updates and steps done.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Lets this request end an update before its time. The learner is then in no particular state and is not to be used on.
    pub fn heed(&mut self, stop: &Stop) {
        self.stop.clone_from(stop);
        self.collector.stop.clone_from(stop);
        self.groups.iter_mut().for_each(|group| group.batch.stop.clone_from(stop));
    }

    fn check_stop(&self, update: u64) -> Result<(), Error> {
        if self.stop.is_asked_for() { Err(Error::Stopped { update }) } else { Ok(()) }
    }

    /// One update: collect, advantages, policy, critics (Algorithm 1, one round).
    pub fn update(&mut self) -> Result<Report, Error> {
        let start = Instant::now();
        let actors: Vec<Actor> = self.groups.iter().map(Group::actor).collect();
        let collected = self.collector.collect(&actors);
        self.check_stop(self.progress.updates + 1)?;
        let failed = |error| Error::World { update: self.progress.updates + 1, error };
        self.collector.join(collected)?.map_err(failed)?;
        self.check_observations()?;
        let rollout_ms = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        let done = self.progress.updates as f64 / self.config.updates() as f64;
        let mut report = self.tally();
        report.excess = self.estimate_costs(&report);
        report.corrections.clone_from(&self.corrections);
        let Learner { groups, collector, config, signals, .. } = self;
        let length = episode_length(&self.progress, &self.spec);
        let (ranks, update) = (&self.ranks, report.update);
        let round = Round { config, signals, excess: &report.excess, length, done, update, ranks };
        let parts = groups.iter_mut().map(|group| group.update(&collector.envs, &round));
        let parts: Vec<GroupReport> = parts.collect::<Result<_, Error>>()?;
        ranks.check()?;
        report.take(&parts);
        self.check_stop(report.update)?;
        self.check_numbers(&report)?;
        (report.rollout_ms, report.update_ms) = (rollout_ms, start.elapsed().as_secs_f64() * 1e3);
        Ok(report)
    }

    /// Counts what the batch holds and brings the estimates of the costs up to date.
    fn tally(&mut self) -> Report {
        let costs = self.spec.costs.len();
        self.progress.updates += 1;
        self.progress.steps += self.config.rollout.batch as u64;
        let mut report = Report {
            update: self.progress.updates,
            steps: self.progress.steps,
            costs: vec![0.0; costs],
            discounted: vec![0.0; if self.config.constraint.sum == Sum::Discounted { costs } else { 0 }],
            ..Report::default()
        };
        let batch = self.config.rollout.batch as f64;
        let parts = self.collector.envs.iter().map(|env| Tally::of(env, batch));
        let tally = reduce(Tally { episodes: Vec::new(), costs_per_step: vec![0.0; costs] }, parts);
        for episode in &tally.episodes {
            report.episodes += 1;
            report.ret += episode.ret;
            report.length += episode.len as f64;
            report.costs.iter_mut().zip(&episode.costs).for_each(|(sum, c)| *sum += c);
            report.discounted.iter_mut().zip(&episode.discounted).for_each(|(sum, c)| *sum += c);
        }
        report.costs_per_step = tally.costs_per_step;
        // 0 / 0 is NaN: the honest mean over no episodes.
        let n = report.episodes as f64;
        report.ret /= n;
        report.length /= n;
        report.costs.iter_mut().chain(&mut report.discounted).for_each(|c| *c /= n);
        if report.episodes > 0 {
            self.progress.costs.clone_from(&report.costs);
            self.progress.discounted.clone_from(&report.discounted);
            self.progress.length = report.length;
        } else if self.progress.length == 0.0 {
            // No episode has ever ended: what this batch cost per step stands in for it.
            let horizon = self.spec.horizon as f64;
            let costs = |weight: f64| report.costs_per_step.iter().map(|c| c * weight).collect();
            self.progress.costs = costs(horizon);
            self.progress.discounted = costs(Sum::Discounted.weight(horizon, self.config.rollout.cost_gamma));
        }
        report
    }

    /// J_C_i - d_i of every constraint, margin and correction taken off d_i.
    fn estimate_costs(&mut self, report: &Report) -> Vec<f64> {
        let Learner { config, progress, signals, spec, corrections, .. } = self;
        let (settings, length) = (&config.constraint, episode_length(progress, spec));
        let excess = |(i, signal): (usize, &crate::signals::Signal)| {
            let cost = signal.column - 1;
            let (per_episode, per_step) = (progress.costs[cost], report.costs_per_step[cost]);
            let now = match settings.sum {
                Sum::Episode => estimate(settings.form, &Measured { per_episode, per_step, length }),
                Sum::Discounted => progress.discounted[cost],
            };
            let aim = signal.limit * (1.0 - settings.margin);
            let correction = corrections.get_mut(i).map_or(0.0, |correction| {
                *correction = next_correction(*correction, now, aim, settings);
                *correction
            });
            progress.smooth(i, settings.smoothing, now) - aim * (1.0 - correction)
        };
        signals.constraints().iter().enumerate().map(excess).collect()
    }

    fn check_observations(&self) -> Result<(), Error> {
        // The update that this batch is for has not been counted yet.
        let broken = |what| Error::NonFinite { update: self.progress.updates + 1, what };
        // The first step, and there the first environment: however the environments were shared out.
        let first = self.collector.envs.iter().enumerate().filter_map(|(e, env)| Some((env.broken?, e)));
        if let Some(((step, entry), e)) = first.min_by_key(|((step, _), e)| (*step, *e)) {
            return Err(broken(format!(
                "environment {e} gave an observation that is not finite (step {step} of the batch, entry {entry})"
            )));
        }
        for (e, env) in self.collector.envs.iter().enumerate() {
            for (i, given) in env.given.iter().enumerate() {
                if !all_finite(given) {
                    let step = given.iter().position(|x| !x.is_finite()).unwrap_or(0);
                    let name = if i == 0 { "reward" } else { &self.spec.costs[i - 1].name };
                    return Err(broken(format!(
                        "environment {e} gave a {name} that is not finite (step {step} of the batch)"
                    )));
                }
            }
        }
        Ok(())
    }

    fn check_numbers(&mut self, report: &Report) -> Result<(), Error> {
        let passes = &report.passes;
        let broken = |what| Error::NonFinite { update: report.update, what };
        let lost = |what| Error::Device { update: report.update, what };
        self.groups.iter_mut().try_for_each(|group| group.engine.check()).map_err(lost)?;
        if !passes.is_finite() {
            return Err(broken(format!(
                "the policy's update is not finite (loss {}, KL {}, gradient norm {})",
                passes.loss, passes.kl, passes.gradient_norm
            )));
        }
        if let Some(i) = report.critic_losses.iter().position(|l| !l.is_finite()) {
            return Err(broken(format!("the loss of critic {i} is not finite")));
        }
        if !self.groups.iter().all(|group| group.engine.networks().is_finite()) {
            return Err(broken("a network has a parameter that is not finite".to_string()));
        }
        Ok(())
    }
}

/// What one environment's part of a batch holds.
struct Tally {
    /// Those that ended.
    episodes: Vec<Episode>,
    /// Its share in the batch's mean of every cost over a step.
    costs_per_step: Vec<f64>,
}

impl Tally {
    fn of(env: &EnvSteps, batch: f64) -> Tally {
        let share = |costs: &Vec<f32>| costs.iter().map(|&c| f64::from(c)).sum::<f64>() / batch;
        Tally { episodes: env.episodes.clone(), costs_per_step: env.given[1..].iter().map(share).collect() }
    }
}

impl Part for Tally {
    fn merge(&mut self, next: Tally) {
        self.episodes.extend(next.episodes);
        self.costs_per_step.iter_mut().zip(&next.costs_per_step).for_each(|(sum, c)| *sum += c);
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

/// The next correction of a constraint whose cost should come to `aim`: an integral controller, which makes up for what the
/// surrogates promise and do not keep.
fn next_correction(correction: f64, cost: f64, aim: f64, settings: &Constraint) -> f64 {
    // No correction helps with a limit of zero. Far from the limit the policy has to move first.
    let error = if aim > 0.0 { (cost / aim - 1.0).clamp(-0.25, 0.25) } else { 0.0 };
    (correction + settings.correction_rate * error).clamp(0.0, settings.correction_max)
}

/// Mean length of an episode; the time limit before the first has ended.
fn episode_length(progress: &Progress, spec: &EnvSpec) -> f64 {
    if progress.length > 0.0 { progress.length } else { spec.horizon as f64 }
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
    fn a_smoothed_cost_starts_at_the_first_estimate_and_follows_the_next() {
        let mut progress = Progress::default();
        assert_eq!(progress.smooth(0, 0.75, 8.0), 8.0);
        assert_eq!(progress.smooth(1, 0.75, 1.0), 1.0);
        // 0.75 * 8 + 0.25 * 4 = 7.
        assert_eq!(progress.smooth(0, 0.75, 4.0), 7.0);
        assert_eq!(progress.smooth(0, 0.0, 5.0), 5.0, "no smoothing: the estimate itself");
    }
}
