//! Episodes of a trained policy, and what can be said about it from them.

use crate::actor::{Actor, agents};
use crate::learner::Learner;
use crate::record;
use p3o_env::{Env, Episode, Lane, VecEnv};
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

/// Mean, deviation and a 95 % confidence interval of the mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Mean over episodes.
    pub mean: f64,
    /// Deviation between episodes.
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
const LANES: usize = 32;

/// Plays episodes. Each environment plays its share to the end, so that short episodes are not preferred.
pub fn evaluate(learner: &Learner, make: &dyn Fn() -> Box<dyn Env>, settings: &Settings) -> Evaluation {
    // Not the learner itself: its environments belong to one thread.
    let actors = learner.actors();
    let lanes = settings.episodes.min(LANES);
    let mut envs = VecEnv::new(make, lanes, settings.seed);
    let played: Vec<Vec<Episode>> = envs
        .lanes_mut()
        .par_iter_mut()
        .enumerate()
        .map(|(i, lane)| {
            let share = settings.episodes / lanes + usize::from(i < settings.episodes % lanes);
            play(&actors, lane, share, settings.deterministic)
        })
        .collect();
    let episodes: Vec<Episode> = played.into_iter().flatten().collect();
    describe(learner, &episodes, settings)
}

fn play(actors: &[&Actor], lane: &mut Lane, share: usize, deterministic: bool) -> Vec<Episode> {
    let (policy, normalizer) = (&actors[0].policy, &actors[0].normalizer);
    let (mut work, width) = (policy.net.workspace(), policy.action_width());
    let mut obs = vec![0.0; normalizer.dim()];
    let mut outputs = vec![0.0; policy.net.outputs()];
    let (count, units) = (agents(actors).count(), policy.net.units());
    let (mut actions, mut states) = (vec![0.0; count * width], vec![0.0; count * units]);
    let mut episodes = Vec::with_capacity(share);
    while episodes.len() < share {
        for ((agent, actor), action) in agents(actors).zip(actions.chunks_exact_mut(width)) {
            actor.see(agent, lane.obs(), &mut obs);
            actor.policy.outputs(&mut work, &obs, &mut states[agent * units..][..units], &mut outputs);
            if deterministic {
                actor.policy.act_greedily(&outputs, action);
            } else {
                actor.policy.act(&outputs, action, lane.rng());
            }
        }
        if lane.step(&actions).ended() {
            episodes.push(lane.finished().clone());
            states.fill(0.0);
        }
    }
    episodes
}

fn describe(learner: &Learner, episodes: &[Episode], settings: &Settings) -> Evaluation {
    let figure = |pick: &dyn Fn(&Episode) -> f64| {
        let values: Vec<f64> = episodes.iter().map(pick).collect();
        let summary = record::Summary::of(&values);
        Figure { mean: summary.mean, sd: summary.sd, ci95: summary.mean_ci95() }
    };
    let cost = |i: usize| {
        let (figure, limit) = (figure(&|e| e.costs[i]), learner.limits()[i]);
        let over = episodes.iter().filter(|e| e.costs[i] > limit).count() as f64 / episodes.len() as f64;
        let limited = limit.is_finite();
        CostFigure {
            figure,
            limit: limited.then_some(limit),
            share_over_limit: limited.then_some(over),
            safe: limited.then_some(figure.ci95.1 <= limit),
        }
    };
    let names = learner.spec().costs.iter().map(|c| c.name.clone());
    let costs: BTreeMap<String, CostFigure> = names.enumerate().map(|(i, name)| (name, cost(i))).collect();
    Evaluation {
        task: learner.config.task.clone(),
        algo: learner.config.algo.name.clone(),
        trained_steps: learner.progress().steps,
        episodes: episodes.len(),
        deterministic: settings.deterministic,
        ret: figure(&|e| e.ret),
        length: figure(&|e| e.len as f64),
        safe: costs.values().all(|c| c.safe != Some(false)),
        costs,
    }
}
