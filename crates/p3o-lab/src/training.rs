//! The real trainer on a [`Cmdp`], and its policy as a table that can be evaluated exactly.

use crate::{Cmdp, TabularEnv};
use p3o::{Config, ConfigError, Error, Learner};
use p3o_env::Env;
use std::sync::Arc;

/// Share of the updates with full steps, and the last steps of policy and critics as shares of the first.
const HOLD: f64 = 0.3;
const LAST_STEP: f64 = 0.02;
const LAST_CRITIC_STEP: f64 = 0.05;

/// What is the same for every CMDP.
const SETTINGS: &[&str] = &[
    "steps=800_000",
    "rollout.envs=20",
    "rollout.batch=8000",
    "rollout.lambda=0.5",
    "rollout.cost_lambda=0.5",
    "rollout.normalize_obs=false",
    "net.hidden=[]",
    "algo.learning_rate=0.05",
    "algo.passes=3",
    "algo.target_kl=0.02",
    "algo.offset=per_step",
    "algo.cost_scale=none",
    "algo.reward_scale=none",
    "algo.cost_estimate=episodes",
    "algo.margin=0",
    "critic.learning_rate=0.3",
    "critic.passes=3",
    "critic.normalize=false",
];

/// Settings under which an algorithm solves a small CMDP with episodes of about ten steps in a second or two.
///
/// Networks are linear in the one-hot state, so policy and critics are tables. Nothing is standardised: kappa stands in the
/// units of the multipliers. The advantages look a few steps ahead only, since the mean of A_C, zero in theory, is part of
/// the constraint, and a longer look multiplies its noise.
///
/// The grid of [`crate::instances::grid`] is not solved so: its first moves all lead through costly cells, and a policy that
/// has learnt to avoid them no longer meets the goal.
pub fn config(cmdp: &Cmdp, algo: &str, seed: u64) -> Result<Config, ConfigError> {
    let env = TabularEnv::new(Arc::new(cmdp.clone()));
    let mut config = Config::preset("quick", algo, env.spec())?;
    let gamma = cmdp.gamma;
    let own = [format!("seed={seed}"), format!("rollout.gamma={gamma}"), format!("rollout.cost_gamma={gamma}")];
    for assignment in own.iter().map(String::as_str).chain(SETTINGS.iter().copied()) {
        config.set(assignment)?;
    }
    Ok(config)
}

/// Trains on a CMDP and returns the policy as a table.
///
/// Steps and trust region shrink from a third of the way on, so that the noise of single batches averages out: a limit on an
/// episode's cost is only known to a few percent from one of them.
pub fn train(cmdp: &Cmdp, config: Config) -> Result<Vec<f64>, Error> {
    let shared = Arc::new(cmdp.clone());
    let make = move || Box::new(TabularEnv::new(shared.clone())) as Box<dyn Env>;
    let (updates, full, critic_step) = (config.updates(), config.algo.clone(), config.critic.learning_rate);
    let mut learner = Learner::new(config, &make)?;
    for update in 0..updates {
        let late = (update as f64 / updates as f64 - HOLD).max(0.0) / (1.0 - HOLD);
        let scale = libm::pow(LAST_STEP, late);
        let algo = &mut learner.config.algo;
        (algo.learning_rate, algo.target_kl) = (full.learning_rate * scale, full.target_kl * scale * scale);
        learner.config.critic.learning_rate = critic_step * scale.max(LAST_CRITIC_STEP);
        learner.update()?;
    }
    Ok(table(&learner, cmdp))
}

/// pi(a | s) of a learner's policy for every state.
pub fn table(learner: &Learner, cmdp: &Cmdp) -> Vec<f64> {
    let (policy, normalizer) = (learner.policy(), learner.normalizer());
    let mut work = policy.net.workspace();
    let (mut obs, mut seen) = (vec![0.0; cmdp.states], vec![0.0; cmdp.states]);
    let mut logits = vec![0.0; cmdp.actions];
    let mut all = Vec::new();
    for s in 0..cmdp.states {
        obs.fill(0.0);
        obs[s] = 1.0;
        normalizer.apply(&obs, &mut seen);
        policy.outputs(&mut work, &seen, &mut logits);
        let top = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
        let weights: Vec<f64> = logits.iter().map(|&x| libm::exp(f64::from(x - top))).collect();
        let total: f64 = weights.iter().sum();
        all.extend(weights.iter().map(|w| w / total));
    }
    all
}
