//! Episodes of a trained policy, and what can be said about it from them.

use crate::agent::Agent;
use crate::record;
use crate::rollout::{Episode, env_stream};
use p3o_env::Env;
use rand::Rng;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;

/// How to evaluate.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Episodes to play.
    pub episodes: usize,
    /// Decides every random number.
    pub seed: u64,
    /// Take the likeliest action instead of drawing one.
    pub deterministic: bool,
}

/// Mean, standard deviation and a 95 % confidence interval of the mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Mean over episodes.
    pub mean: f64,
    /// Standard deviation between episodes.
    pub sd: f64,
    /// Lower and upper bound of the mean (Student's t).
    pub ci95: (f64, f64),
}

/// One cost of an [`Evaluation`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CostFigure {
    /// Its mean and spread.
    #[serde(flatten)]
    pub figure: Figure,
    /// Its limit, if it has one.
    pub limit: Option<f64>,
    /// Share of the episodes that were over the limit.
    pub share_over_limit: Option<f64>,
    /// Whether even the upper bound of the mean is within the limit.
    pub safe: Option<bool>,
}

/// What an evaluation found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// The world.
    pub task: String,
    /// The algorithm that trained the policy.
    pub algo: String,
    /// Environment steps it was trained for.
    pub trained_steps: u64,
    /// Episodes played.
    pub episodes: usize,
    /// Whether actions were the likeliest ones.
    pub deterministic: bool,
    /// Return of an episode.
    #[serde(rename = "return")]
    pub ret: Figure,
    /// Length of an episode.
    pub length: Figure,
    /// Every cost.
    pub costs: BTreeMap<String, CostFigure>,
    /// Whether every limited cost is safe.
    pub safe: bool,
}

/// Environments that play side by side; fixed, so that the episodes do not depend on the number of threads.
const SIDE_BY_SIDE: usize = 32;

/// Plays episodes. Each environment plays its share to the end, so that short episodes are not preferred.
pub fn evaluate(agent: &Agent, make: &dyn Fn() -> Box<dyn Env>, settings: &Settings) -> Evaluation {
    let count = settings.episodes.min(SIDE_BY_SIDE);
    let envs: Vec<Box<dyn Env>> = (0..count).map(|_| make()).collect();
    let played: Vec<Vec<Episode>> = envs
        .into_par_iter()
        .enumerate()
        .map(|(i, env)| {
            let share = settings.episodes / count + usize::from(i < settings.episodes % count);
            play(agent, env, i, share, settings)
        })
        .collect();
    let episodes: Vec<Episode> = played.into_iter().flatten().collect();
    describe(agent, &episodes, settings)
}

/// Environment `i` plays `share` episodes.
fn play(agent: &Agent, mut env: Box<dyn Env>, i: usize, share: usize, settings: &Settings) -> Vec<Episode> {
    let spec = agent.spec();
    let mut rng = env_stream(settings.seed, i);
    let (mut obs, mut costs) = (vec![0.0; spec.obs_dim], vec![0.0; spec.costs.len()]);
    let (mut actions, mut state) = (vec![0.0; spec.action_width()], agent.start(1));
    let mut running = Episode::new(costs.len());
    let mut episodes = Vec::with_capacity(share);
    env.reset(rng.next_u64(), &mut obs);
    while episodes.len() < share {
        let stream = (!settings.deterministic).then(|| std::slice::from_mut(&mut rng));
        agent.act(&obs, &mut state, stream, &mut actions);
        let outcome = env.step(&actions, &mut obs, &mut costs);
        running.add(outcome.reward, &costs);
        if outcome.terminated || outcome.truncated {
            episodes.push(running.finish());
            state.restart(0);
            env.reset(rng.next_u64(), &mut obs);
        }
    }
    episodes
}

fn describe(agent: &Agent, episodes: &[Episode], settings: &Settings) -> Evaluation {
    let figure = |pick: &dyn Fn(&Episode) -> f64| {
        let values: Vec<f64> = episodes.iter().map(pick).collect();
        let summary = record::Summary::of(&values);
        Figure { mean: summary.mean, sd: summary.sd, ci95: summary.mean_ci95() }
    };
    let cost = |i: usize| {
        let (figure, limit) = (figure(&|e| e.costs[i]), agent.limits()[i]);
        let over = episodes.iter().filter(|e| e.costs[i] > limit).count() as f64 / episodes.len() as f64;
        let limited = limit.is_finite();
        CostFigure {
            figure,
            limit: limited.then_some(limit),
            share_over_limit: limited.then_some(over),
            safe: limited.then_some(figure.ci95.1 <= limit),
        }
    };
    let names = agent.spec().costs.iter().map(|c| c.name.clone());
    let costs: BTreeMap<String, CostFigure> = names.enumerate().map(|(i, name)| (name, cost(i))).collect();
    Evaluation {
        task: agent.config().task.clone(),
        algo: agent.config().method().to_string(),
        trained_steps: agent.trained_steps(),
        episodes: episodes.len(),
        deterministic: settings.deterministic,
        ret: figure(&|e| e.ret),
        length: figure(&|e| e.len as f64),
        safe: costs.values().all(|c| c.safe != Some(false)),
        costs,
    }
}
