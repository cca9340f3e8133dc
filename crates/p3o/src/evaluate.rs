//! Episodes of a trained policy, and what can be said about it from them.
//!
//! A limit is on the mean of a cost over episodes. Three statements are made of it: *safe*, if the upper bound of the mean is
//! within the limit; *violated*, if the lower bound is above it; otherwise *not sure*. The bounds are those of [`confidence`],
//! which hold with 95 % each whatever the costs are distributed like. "Safe" of several costs needs each of them to be
//! safe, so that a policy that breaks a limit is called safe only if the bound of that very cost fails: at most five times in a
//! hundred, however many costs there are.

use crate::agent::{Agent, AgentState};
use crate::confidence::{self, Bounded, CONFIDENCE, clopper_pearson};
use crate::error::Error;
use crate::record;
use crate::rollout::{Episode, env_stream};
use p3o_env::{Env, EnvSpec, Outcome};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;

/// How to evaluate.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Episodes to play; for [`certify`] at most.
    pub episodes: usize,
    /// Decides every random number.
    pub seed: u64,
    /// Take the likeliest action instead of drawing one.
    pub deterministic: bool,
}

/// What can be said of a cost and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The mean is within the limit.
    Safe,
    /// Neither is shown.
    #[serde(rename = "not sure")]
    NotSure,
    /// The mean is above the limit.
    Violated,
}

impl Verdict {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Safe => "safe",
            Verdict::NotSure => "not sure",
            Verdict::Violated => "violated",
        }
    }
}

/// How a number is spread over episodes: the least and the greatest, and quantiles between the two nearest ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub least: f64,
    /// 5 % are less.
    pub q05: f64,
    /// 25 % are less.
    pub q25: f64,
    /// The median.
    pub q50: f64,
    /// 75 % are less.
    pub q75: f64,
    /// 95 % are less.
    pub q95: f64,
    /// The greatest.
    pub greatest: f64,
}

/// Mean, standard deviation and spread of a number whose range is not known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Mean over episodes.
    pub mean: f64,
    /// Standard deviation between episodes.
    pub sd: f64,
    /// Lower and upper bound of the mean, both at once with 95 % if it is normal.
    pub ci95: (f64, f64),
    /// Where the bounds come from.
    pub method: &'static str,
    /// Quantiles.
    pub spread: Spread,
}

/// Bounds that hold with 95 % each, whatever the distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// The lower bound.
    pub lower: f64,
    /// The upper bound.
    pub upper: f64,
    /// The probability with which each of them holds.
    pub confidence: f64,
    /// Where they come from.
    pub method: &'static str,
}

const STUDENT: &str = "Student's t, two-sided, approximate";
const BETTING: &str = "betting, each side alone, after any number of episodes";
const BINOMIAL: &str = "Clopper-Pearson, each side alone, for this number of episodes";

/// One cost of an [`Evaluation`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CostFigure {
    /// Mean over episodes.
    pub mean: f64,
    /// Standard deviation between episodes.
    pub sd: f64,
    /// The most that an episode can cost, if the world knows it.
    pub episode_bound: Option<f64>,
    /// Bounds of the mean; none without `episode_bound`.
    pub bounds: Option<Bounds>,
    /// Quantiles.
    pub spread: Spread,
    /// Its limit, if it has one.
    pub limit: Option<f64>,
    /// Share of the episodes that were over the limit.
    pub share_over_limit: Option<f64>,
    /// Bounds of the probability that an episode is over the limit.
    pub share_bounds: Option<Bounds>,
    /// What is said of the limit.
    pub verdict: Option<Verdict>,
    /// Whether that is [`Verdict::Safe`].
    pub safe: Option<bool>,
    /// Fewer episodes than these can never show that the limit is kept; none where no number can.
    pub fewest_episodes: Option<usize>,
}

/// One episode of an [`Evaluation`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Played {
    /// Sum of the rewards.
    #[serde(rename = "return")]
    pub ret: f64,
    /// Number of steps.
    pub length: usize,
    /// Sum of each cost.
    pub costs: BTreeMap<String, f64>,
}

/// What an evaluation found, and of what.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// The program and its version.
    pub program: String,
    /// The world.
    pub task: String,
    /// Its options, where they were set.
    pub options: BTreeMap<String, f64>,
    /// The algorithm that trained the policy.
    pub algo: String,
    /// Environment steps it was trained for.
    pub trained_steps: u64,
    /// The seed it was trained with.
    pub trained_seed: u64,
    /// The digest of its checkpoint, which vouches for settings and limits; none where nothing does.
    pub checkpoint: Option<String>,
    /// Settings, such as limits, that were changed by hand and adopted.
    pub adopted: Vec<String>,
    /// Episodes played.
    pub episodes: usize,
    /// The seed of the evaluation.
    pub seed: u64,
    /// Whether actions were the likeliest ones.
    pub deterministic: bool,
    /// Whether the number of episodes was left open until the verdict was clear.
    pub certify: bool,
    /// Return of an episode.
    #[serde(rename = "return")]
    pub ret: Figure,
    /// Length of an episode.
    pub length: Figure,
    /// Every cost.
    pub costs: BTreeMap<String, CostFigure>,
    /// What is said of all limits together; none without limits.
    pub verdict: Option<Verdict>,
    /// Whether that is [`Verdict::Safe`].
    pub safe: Option<bool>,
    /// Every episode, in the order of the environments, round after round.
    pub all_episodes: Vec<Played>,
}

/// How far [`certify`] has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Episodes played.
    pub episodes: usize,
    /// Every limited cost: name, mean, bounds of the mean, limit.
    pub costs: Vec<(String, f64, (f64, f64), f64)>,
}

/// Environments that play side by side; fixed, so that the episodes do not depend on the number of threads.
pub const SIDE_BY_SIDE: usize = 32;

/// Plays a fixed number of episodes. Each environment plays its share to the end, so that short episodes are not preferred.
pub fn evaluate(agent: &Agent, make: &dyn Fn() -> Box<dyn Env>, settings: &Settings) -> Result<Evaluation, Error> {
    let mut table = Table::new(agent, make, settings)?;
    table.play(settings.episodes)?;
    Ok(table.describe(&table.bounds(), false))
}

/// Plays episodes until every limited cost is safe or one is violated, at most so many as are set: a beginning of those that
/// [`evaluate`] plays. `watch` is told from time to time how it stands.
pub fn certify(
    agent: &Agent,
    make: &dyn Fn() -> Box<dyn Env>,
    settings: &Settings,
    watch: &mut dyn FnMut(&Standing),
) -> Result<Evaluation, Error> {
    let mut table = Table::new(agent, make, settings)?;
    let limited: Vec<usize> = (0..table.limits.len()).filter(|i| table.limits[*i].is_finite()).collect();
    let Some(_) = limited.first() else { return Err(Error::NoLimit) };
    if let Some(i) = limited.iter().find(|i| table.most[**i].is_none()) {
        return Err(Error::NoBound(table.spec.costs[*i].name.clone()));
    }
    let mut bounds: Vec<Option<(f64, f64)>> = table.most.iter().map(|most| Some((0.0, (*most)?))).collect();
    while table.played < settings.episodes {
        table.play(next_look(table.played).min(settings.episodes))?;
        // The bounds hold at all times at once, so the narrowest so far do.
        for (best, now) in bounds.iter_mut().zip(table.bounds()) {
            *best = best.zip(now).map(|(best, now)| (best.0.max(now.0), best.1.min(now.1)));
        }
        let verdict = |i: &usize| verdict(bounds[*i], table.limits[*i]);
        watch(&table.standing(&limited, &bounds));
        if limited.iter().all(|i| verdict(i) == Verdict::Safe)
            || limited.iter().any(|i| verdict(i) == Verdict::Violated)
        {
            break;
        }
    }
    Ok(table.describe(&bounds, true))
}

/// After how many episodes [`certify`] looks next: every round at first, later after every sixty-fourth part more, in whole
/// rounds.
pub fn next_look(played: usize) -> usize {
    played + SIDE_BY_SIDE * (played / (64 * SIDE_BY_SIDE)).max(1)
}

fn verdict(bounds: Option<(f64, f64)>, limit: f64) -> Verdict {
    match bounds {
        Some((_, upper)) if upper <= limit => Verdict::Safe,
        Some((lower, _)) if lower > limit => Verdict::Violated,
        _ => Verdict::NotSure,
    }
}

/// The environments with what they have played.
struct Table<'a> {
    agent: &'a Agent,
    settings: &'a Settings,
    /// That of the world as it is now.
    spec: EnvSpec,
    /// The most that an episode can come to, for each cost.
    most: Vec<Option<f64>>,
    limits: Vec<f64>,
    players: Vec<Player>,
    played: usize,
}

impl<'a> Table<'a> {
    fn new(agent: &'a Agent, make: &dyn Fn() -> Box<dyn Env>, settings: &'a Settings) -> Result<Table<'a>, Error> {
        if !fit(agent) {
            return Err(Error::UnfitPolicy);
        }
        let count = settings.episodes.clamp(1, SIDE_BY_SIDE);
        let envs: Vec<Box<dyn Env>> = (0..count).map(|_| make()).collect();
        let spec = envs[0].spec().clone();
        let [theirs, ours] = [agent.spec(), &spec].map(shape);
        if theirs != ours {
            return Err(Error::OtherWorld { theirs, ours });
        }
        let most = spec.costs.iter().map(|cost| cost.most_per_episode(spec.horizon)).collect();
        let players = envs.into_iter().enumerate().map(|(i, env)| Player::new(agent, env, i, settings)).collect();
        Ok(Table { agent, settings, spec, most, limits: agent.limits(), players, played: 0 })
    }

    /// Plays on until there are so many episodes.
    fn play(&mut self, episodes: usize) -> Result<(), Error> {
        let (agent, spec, count) = (self.agent, &self.spec, self.players.len());
        let players = self.players.par_iter_mut().enumerate().map(|(i, player)| {
            let share = episodes / count + usize::from(i < episodes % count);
            player.play(agent, spec, share, self.settings.deterministic)
        });
        // The first failure in the order of the environments, whichever thread was first.
        players.collect::<Vec<_>>().into_iter().collect::<Result<(), Error>>()?;
        self.played = episodes;
        Ok(())
    }

    /// All episodes, round after round.
    fn episodes(&self) -> impl Iterator<Item = &Episode> {
        let count = self.players.len();
        (0..self.played).map(move |k| &self.players[k % count].episodes[k / count])
    }

    fn costs(&self, i: usize) -> Vec<f64> {
        // Rounding may take a sum beyond what its steps allow.
        let most = self.most[i].unwrap_or(f64::INFINITY);
        self.episodes().map(|episode| episode.costs[i].min(most)).collect()
    }

    /// Lower and upper bound of the mean of each cost whose episodes are bounded.
    fn bounds(&self) -> Vec<Option<(f64, f64)>> {
        let of = |(i, most): (usize, &Option<f64>)| {
            let sample = Bounded::new(&self.costs(i), (*most)?);
            Some((sample.lower(), sample.upper()))
        };
        self.most.iter().enumerate().map(of).collect()
    }

    fn standing(&self, limited: &[usize], bounds: &[Option<(f64, f64)>]) -> Standing {
        let cost = |i: &usize| {
            let mean = record::Summary::of(&self.costs(*i)).mean;
            Some((self.spec.costs[*i].name.clone(), mean, bounds[*i]?, self.limits[*i]))
        };
        Standing { episodes: self.played, costs: limited.iter().filter_map(cost).collect() }
    }

    fn describe(&self, bounds: &[Option<(f64, f64)>], certify: bool) -> Evaluation {
        let (agent, config) = (self.agent, self.agent.config());
        let figure = |pick: &dyn Fn(&Episode) -> f64| {
            let values: Vec<f64> = self.episodes().map(pick).collect();
            let summary = record::Summary::of(&values);
            let (mean, sd, ci95) = (summary.mean, summary.sd, summary.mean_ci95());
            Figure { mean, sd, ci95, method: STUDENT, spread: spread(values) }
        };
        let names = || self.spec.costs.iter().map(|cost| cost.name.clone());
        let costs: BTreeMap<String, CostFigure> =
            names().enumerate().map(|(i, name)| (name, self.cost(i, bounds[i], certify))).collect();
        let verdicts: Vec<Verdict> = costs.values().filter_map(|cost| cost.verdict).collect();
        let verdict = match &verdicts[..] {
            [] => None,
            all if all.contains(&Verdict::Violated) => Some(Verdict::Violated),
            all if all.contains(&Verdict::NotSure) => Some(Verdict::NotSure),
            _ => Some(Verdict::Safe),
        };
        let played = |e: &Episode| {
            let costs = names().zip(e.costs.iter().copied()).collect();
            Played { ret: e.ret, length: e.len, costs }
        };
        Evaluation {
            program: format!("p3o {}", env!("CARGO_PKG_VERSION")),
            task: config.task.clone(),
            options: config.env.clone(),
            algo: config.method().to_string(),
            trained_steps: agent.trained_steps(),
            trained_seed: config.run.seed,
            checkpoint: agent.digest().map(String::from),
            adopted: agent.adopted().to_vec(),
            episodes: self.played,
            seed: self.settings.seed,
            deterministic: self.settings.deterministic,
            certify,
            ret: figure(&|e| e.ret),
            length: figure(&|e| e.len as f64),
            costs,
            verdict,
            safe: verdict.map(|verdict| verdict == Verdict::Safe),
            all_episodes: self.episodes().map(played).collect(),
        }
    }

    fn cost(&self, i: usize, bounds: Option<(f64, f64)>, certify: bool) -> CostFigure {
        let (values, most, limit) = (self.costs(i), self.most[i], self.limits[i]);
        let limit = Some(limit).filter(|limit| limit.is_finite());
        let over = limit.map(|limit| values.iter().map(|x| f64::from(u8::from(*x > limit))).collect::<Vec<f64>>());
        let share_bounds = over.as_ref().map(|over| {
            let sample = Bounded::new(over, 1.0);
            let (lower, upper) = if certify {
                (sample.lower(), sample.upper())
            } else {
                clopper_pearson(over.iter().sum::<f64>() as usize, over.len())
            };
            Bounds { lower, upper, confidence: CONFIDENCE, method: if certify { BETTING } else { BINOMIAL } }
        });
        let verdict = limit.map(|limit| verdict(bounds, limit));
        let summary = record::Summary::of(&values);
        CostFigure {
            mean: summary.mean,
            sd: summary.sd,
            episode_bound: most,
            bounds: bounds.map(|(lower, upper)| Bounds { lower, upper, confidence: CONFIDENCE, method: BETTING }),
            spread: spread(values),
            limit,
            share_over_limit: over.map(|over| over.iter().sum::<f64>() / over.len() as f64),
            share_bounds,
            verdict,
            safe: verdict.map(|verdict| verdict == Verdict::Safe),
            fewest_episodes: limit.zip(most).and_then(|(limit, most)| confidence::fewest(limit, most)),
        }
    }
}

/// Whether every number of the policies and of what they see is finite. A discrete action shows nothing of that.
fn fit(agent: &Agent) -> bool {
    let finite = |values: &[f32]| values.iter().all(|x| x.is_finite());
    agent.actors().iter().all(|actor| {
        let (shift, scale, _) = actor.normalizer.affine();
        actor.policy.is_finite() && finite(shift) && finite(scale)
    })
}

/// What a policy and its world must have in common.
fn shape(spec: &EnvSpec) -> String {
    let EnvSpec { name, obs_dim, action, agents, costs, .. } = spec;
    let costs: Vec<&str> = costs.iter().map(|cost| cost.name.as_str()).collect();
    let costs = if costs.is_empty() { "none".to_string() } else { costs.join(", ") };
    format!("{name} ({obs_dim} observations, {action:?}, agents: {agents}, costs: {costs})")
}

fn spread(mut values: Vec<f64>) -> Spread {
    values.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let rank = share * (values.len() - 1) as f64;
        let (below, above) = (values[rank.floor() as usize], values[rank.ceil() as usize]);
        below + (above - below) * rank.fract()
    };
    let [least, q05, q25, q50, q75, q95, greatest] = [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0].map(quantile);
    Spread { least, q05, q25, q50, q75, q95, greatest }
}

/// One environment, in the middle of an episode.
struct Player {
    env: Box<dyn Env>,
    index: usize,
    rng: ChaCha8Rng,
    state: AgentState,
    obs: Vec<f32>,
    costs: Vec<f32>,
    actions: Vec<f32>,
    running: Episode,
    episodes: Vec<Episode>,
}

impl Player {
    fn new(agent: &Agent, mut env: Box<dyn Env>, index: usize, settings: &Settings) -> Player {
        let spec = agent.spec();
        let mut rng = env_stream(settings.seed, index);
        let (mut obs, costs) = (vec![0.0; spec.obs_dim], vec![0.0; spec.costs.len()]);
        env.reset(rng.next_u64(), &mut obs);
        let (running, actions) = (Episode::new(costs.len()), vec![0.0; spec.action_width()]);
        Player { env, index, rng, state: agent.start(1), obs, costs, actions, running, episodes: Vec::new() }
    }

    /// Plays on until it has played `share` episodes.
    fn play(&mut self, agent: &Agent, spec: &EnvSpec, share: usize, deterministic: bool) -> Result<(), Error> {
        while self.episodes.len() < share {
            if let Some(x) = self.obs.iter().find(|x| !x.is_finite()) {
                return Err(self.unfit(format!("the observation is {x}")));
            }
            let stream = (!deterministic).then(|| std::slice::from_mut(&mut self.rng));
            agent.act(&self.obs, &mut self.state, stream, &mut self.actions);
            let outcome = self.env.step(&self.actions, &mut self.obs, &mut self.costs);
            self.running.add(outcome.reward, &self.costs);
            self.look(spec, outcome).map_err(|what| self.unfit(what))?;
            if outcome.terminated || outcome.truncated {
                self.episodes.push(self.running.finish());
                self.state.restart(0);
                self.env.reset(self.rng.next_u64(), &mut self.obs);
            }
        }
        Ok(())
    }

    /// Looks for what would make all that follows meaningless.
    fn look(&self, spec: &EnvSpec, outcome: Outcome) -> Result<(), String> {
        let numbers = [("action", &self.actions[..]), ("reward", &[outcome.reward]), ("observation", &self.obs)];
        for (what, numbers) in numbers {
            if let Some(x) = numbers.iter().find(|x| !x.is_finite()) {
                return Err(format!("the {what} is {x}"));
            }
        }
        for ((cost, x), sum) in spec.costs.iter().zip(&self.costs).zip(&self.running.costs) {
            let (name, x) = (&cost.name, f64::from(*x));
            let most = cost.max_per_step.unwrap_or(f64::INFINITY);
            let known = cost.most_per_episode(spec.horizon).is_some();
            if !x.is_finite() || known && !(0.0..=most).contains(&x) {
                return Err(format!("the cost {name} is {x}{}", within(cost.max_per_step)));
            }
            // The sum has rounding of its own.
            if cost.max_per_episode.is_some_and(|most| *sum > most * (1.0 + 1e-9)) {
                return Err(format!("the episode's cost {name} is {sum}{}", within(cost.max_per_episode)));
            }
        }
        if self.running.len == spec.horizon && !outcome.terminated && !outcome.truncated {
            return Err("the episode goes on beyond the world's time limit".into());
        }
        Ok(())
    }

    fn unfit(&self, what: String) -> Error {
        Error::Unfit { env: self.index, episode: self.episodes.len() + 1, step: self.running.len, what }
    }
}

fn within(most: Option<f64>) -> String {
    most.map_or(String::new(), |most| format!(", which is not within its bounds of 0 and {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Learner, Request};
    use p3o_env::{SimpleSpread, Team, tasks};

    fn agent(task: &'static str) -> (Agent, impl Fn() -> Box<dyn Env>) {
        let make = move || tasks::make(task, &BTreeMap::new()).expect("a listed task");
        let request = Request { set: vec!["net.hidden=[8]".into()], ..Request::new(task, Algorithm::P3o.into()) };
        let config = request.resolve().expect("settings of a listed task").config;
        (Learner::new(config, &make).expect("a fresh learner").agent(), make)
    }

    const THREE: Settings = Settings { episodes: 3, seed: 1, deterministic: false };

    /// Continuous actions would be NaN and end every episode at once, free of cost; discrete ones would be the last.
    #[test]
    fn a_policy_with_a_weight_that_is_no_number_is_never_safe() {
        for task in ["PointGoal", "SimpleSpread"] {
            let spoil: [fn(&mut Agent); 3] = [
                |agent| {
                    let policy = &mut agent.minds[0].policy;
                    let mut parameters = policy.parameters();
                    parameters[3] = f32::NAN;
                    policy.set_parameters(&parameters);
                },
                |agent| {
                    let policy = &mut agent.minds[0].policy;
                    let mut parameters = policy.parameters();
                    let last = parameters.len() - 1;
                    parameters[last] = f32::INFINITY;
                    policy.set_parameters(&parameters);
                },
                |agent| {
                    let mut seen = crate::normalize::Moments::new(agent.minds[0].normalizer.dim());
                    seen.see(&vec![f32::NAN; agent.minds[0].normalizer.dim()]);
                    agent.minds[0].normalizer.take([seen]);
                },
            ];
            for (i, spoil) in spoil.into_iter().enumerate() {
                let (mut agent, make) = agent(task);
                assert!(evaluate(&agent, &make, &THREE).is_ok(), "{task}");
                spoil(&mut agent);
                assert!(matches!(evaluate(&agent, &make, &THREE), Err(Error::UnfitPolicy)), "{task}, {i}");
                assert!(matches!(certify(&agent, &make, &THREE, &mut |_| {}), Err(Error::UnfitPolicy)), "{task}, {i}");
            }
        }
    }

    #[test]
    fn a_policy_is_judged_in_its_own_world_alone() {
        let (agent, _) = agent("SimpleSpread");
        let team = || -> Box<dyn Env> { Box::new(Team::new(SimpleSpread::default())) };
        let Err(error) = evaluate(&agent, &team, &THREE) else { panic!("it was judged") };
        assert!(matches!(error, Error::OtherWorld { .. }), "{error}");
    }

    #[test]
    fn quantiles_lie_between_ranks() {
        // Ranks 0 to 4: 0.05 is rank 0.2, 0.95 is rank 3.8.
        let found = spread(vec![40.0, 0.0, 20.0, 10.0, 30.0]);
        let expected = Spread { least: 0.0, q05: 2.0, q25: 10.0, q50: 20.0, q75: 30.0, q95: 38.0, greatest: 40.0 };
        assert_eq!(found, expected);
        let one = spread(vec![7.0]);
        assert_eq!((one.least, one.q50, one.greatest), (7.0, 7.0, 7.0));
    }

    #[test]
    fn a_verdict_needs_its_bound() {
        assert_eq!(verdict(Some((1.0, 5.0)), 5.0), Verdict::Safe);
        assert_eq!(verdict(Some((1.0, 5.1)), 5.0), Verdict::NotSure);
        assert_eq!(verdict(Some((5.0, 6.0)), 5.0), Verdict::NotSure);
        assert_eq!(verdict(Some((5.1, 6.0)), 5.0), Verdict::Violated);
        assert_eq!(verdict(None, 5.0), Verdict::NotSure);
    }
}
