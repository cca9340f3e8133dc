//! The real trainer on a [`Cmdp`], and its policy as a table that can be evaluated exactly.

use crate::{Cmdp, TabularEnv};
use p3o::{Config, ConfigError, Error, Learner};
use p3o_env::Env;
use std::sync::Arc;

/// How settings change while a policy is trained; shares are of the updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Share with full steps. Then steps and trust region shrink, so that the noise of single batches averages out: one of
    /// them tells the cost of an episode to a few percent at best.
    pub hold: f64,
    /// The last step as a share of the first.
    pub last_step: f64,
    /// Share over which kappa grows to its value, so that the reward is found before the costs close the way to it.
    pub ramp: f64,
    /// Share over which the entropy bonus shrinks to nothing.
    pub entropy: f64,
}

impl Schedule {
    /// For problems without much to explore.
    pub const QUICK: Schedule = Schedule { hold: 0.3, last_step: 0.02, ramp: 0.0, entropy: 0.8 };
    /// For a reward behind costs.
    pub const PATIENT: Schedule = Schedule { hold: 0.6, last_step: 0.03, ramp: 0.4, entropy: 0.8 };

    /// Sets what holds at this share of the updates, from what was set at the beginning.
    fn apply(&self, config: &mut Config, first: &Config, done: f64) {
        let late = (done - self.hold).max(0.0) / (1.0 - self.hold);
        let scale = libm::pow(self.last_step, late);
        config.algo.learning_rate = first.algo.learning_rate * scale;
        config.algo.target_kl = first.algo.target_kl * scale * scale;
        config.algo.entropy = first.algo.entropy * (1.0 - done / self.entropy).max(0.0);
        if self.ramp > 0.0 {
            config.algo.kappa = first.algo.kappa * (done / self.ramp).min(1.0);
        }
        // Critics go on following the policy.
        config.critic.learning_rate = first.critic.learning_rate * scale.max(0.05);
    }
}

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

/// Settings for the grid of [`crate::instances::grid`], to be used with [`Schedule::PATIENT`]. All short ways to its goal
/// lead through costly cells: a policy that learns to avoid them before it knows the goal never meets it, and one that is
/// sure of its way too soon does not find the detour. An entropy bonus and a growing kappa help against both.
pub fn grid_config(cmdp: &Cmdp, algo: &str, seed: u64) -> Result<Config, ConfigError> {
    let mut config = config(cmdp, algo, seed)?;
    for assignment in [
        "steps=2_400_000",
        "rollout.lambda=0.9",
        "algo.learning_rate=0.15",
        "algo.passes=4",
        "algo.entropy=0.06",
        "critic.learning_rate=0.1",
    ] {
        config.set(assignment)?;
    }
    Ok(config)
}

/// Trains on a CMDP and returns the policy as a table.
pub fn train(cmdp: &Cmdp, config: Config, schedule: &Schedule) -> Result<Vec<f64>, Error> {
    let shared = Arc::new(cmdp.clone());
    let make = move || Box::new(TabularEnv::new(shared.clone())) as Box<dyn Env>;
    let (updates, first) = (config.updates(), config.clone());
    let mut learner = Learner::new(config, &make)?;
    for update in 0..updates {
        schedule.apply(&mut learner.config, &first, update as f64 / updates as f64);
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
