//! The real trainer on a [`Cmdp`], and its policy as a table that can be evaluated exactly.

use crate::instances::Known;
use crate::{Cmdp, TabularEnv};
use p3o::{Config, ConfigError, Error, Learner};
use p3o_env::Env;
use std::sync::Arc;

/// How settings change while a policy is trained; shares are of the updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Share with full steps. Then steps, of multipliers too, and trust region shrink, so that the noise of single batches
    /// averages out: one of them tells the cost of an episode to a few percent at best.
    pub hold: f64,
    /// The last step as a share of the first.
    pub last_step: f64,
    /// Share over which kappa grows to its value, so that the reward is found before the costs close the way to it.
    pub ramp: f64,
    /// Share over which the entropy bonus shrinks to nothing; infinite where it stays.
    pub entropy: f64,
    /// The last t of IPO's barrier as a multiple of the first.
    pub barrier: f64,
    /// Share at the end over which the result is averaged.
    pub average: f64,
}

impl Schedule {
    /// For problems without much to explore.
    pub const QUICK: Schedule =
        Schedule { hold: 0.4, last_step: 0.1, ramp: 0.0, entropy: f64::INFINITY, barrier: 1000.0, average: 0.5 };
    /// For second-order steps, which do not shrink by themselves but must not stop too soon either.
    pub const NATURAL: Schedule = Schedule { hold: 0.3, last_step: 0.3, ..Schedule::QUICK };
    /// For a reward behind costs.
    pub const PATIENT: Schedule =
        Schedule { hold: 0.5, last_step: 0.03, ramp: 0.4, entropy: 0.4, barrier: 1.0, average: 0.2 };

    /// Sets what holds at this share of the updates, from what was set at the beginning.
    fn apply(&self, config: &mut Config, first: &Config, done: f64) {
        let late = (done - self.hold).max(0.0) / (1.0 - self.hold);
        let scale = libm::pow(self.last_step, late);
        config.algo.learning_rate = first.algo.learning_rate * scale;
        config.algo.target_kl = first.algo.target_kl * scale * scale;
        config.algo.entropy = first.algo.entropy * (1.0 - done / self.entropy).max(0.0);
        config.algo.barrier = first.algo.barrier * libm::pow(self.barrier, done);
        config.multiplier.learning_rate = first.multiplier.learning_rate * scale;
        if self.ramp > 0.0 {
            config.algo.kappa = first.algo.kappa * (done / self.ramp).min(1.0);
        }
        // Critics go on following the policy.
        config.critic.learning_rate = first.critic.learning_rate * scale.max(0.05);
    }
}

/// What is the same for every CMDP and algorithm.
const SETTINGS: &[&str] = &[
    "rollout.envs=120",
    "rollout.lambda=0.5",
    "rollout.cost_lambda=0.5",
    "rollout.normalize_obs=false",
    "net.hidden=[]",
    "algo.target_kl=0.02",
    "algo.offset=per_step",
    "algo.cost_scale=none",
    "algo.reward_scale=none",
    "algo.cost_estimate=episodes",
    "algo.margin=0",
    "critic.learning_rate=0.3",
    "critic.passes=2",
    "critic.normalize=false",
];

/// Each algorithm's own settings and schedule, for CMDPs whose largest multiplier is 1.
///
/// Multipliers and policy chase each other in circles; an entropy bonus calms them. It hardly moves the result, as
/// the multiplier makes up for it. They need many small updates, the others fewer large ones.
const RECIPES: &[(&str, Schedule, &[&str])] = &[
    (
        "p3o",
        Schedule { hold: 0.3, last_step: 0.02, average: 0.3, ..Schedule::QUICK },
        &[
            "steps=800_000",
            "rollout.envs=20",
            "rollout.batch=8000",
            "algo.kappa=2",
            "algo.cost_scale=centred",
            "algo.learning_rate=0.05",
            "algo.passes=3",
            "critic.passes=3",
        ],
    ),
    (
        "ppo-lag",
        Schedule::QUICK,
        &[
            "steps=600_000",
            "rollout.batch=1200",
            "algo.learning_rate=0.03",
            "algo.passes=2",
            "algo.entropy=0.07",
            "multiplier.learning_rate=0.015",
        ],
    ),
    (
        "focops",
        Schedule::QUICK,
        &[
            "steps=450_000",
            "rollout.batch=1200",
            "algo.learning_rate=0.05",
            "algo.passes=3",
            "algo.temperature=5",
            "algo.entropy=0.025",
            "multiplier.learning_rate=0.015",
        ],
    ),
    // Inside by about 1/t for each limit, so t grows along the way.
    (
        "ipo",
        Schedule::QUICK,
        &[
            "steps=480_000",
            "rollout.batch=4800",
            "algo.cost_scale=centred",
            "algo.learning_rate=0.01",
            "algo.passes=2",
            "algo.barrier=100",
        ],
    ),
    (
        "trpo-lag",
        Schedule::QUICK,
        &[
            "steps=450_000",
            "rollout.batch=1200",
            "algo.target_kl=0.0003",
            "algo.entropy=0.1",
            "multiplier.learning_rate=0.02",
        ],
    ),
    ("cpo", Schedule::NATURAL, &["steps=300_000", "rollout.batch=3000"]),
    ("pcpo", Schedule::NATURAL, &["steps=300_000", "rollout.batch=3000"]),
];

/// The same problem with its reward counted in units of its largest multiplier. That makes this multiplier 1, so that one
/// set of settings serves all.
pub fn in_its_price(known: &Known) -> Known {
    let price = known.multipliers.iter().copied().fold(0.0, f64::max);
    let mut priced = known.clone();
    priced.cmdp.reward.iter_mut().for_each(|r| *r /= price);
    priced.multipliers.iter_mut().for_each(|m| *m /= price);
    priced.optimum /= price;
    priced
}

/// Settings and schedule under which an algorithm solves a small CMDP with episodes of about ten steps in half a second.
///
/// Networks are linear in the one-hot state, so policy and critics are tables. Nothing is divided by a deviation: kappa stands
/// in the units of the multipliers. Where the loss has a gate or a barrier, A_C is centred: its mean is zero in theory, and in
/// a batch it repeats the chance that J_C - d has already. The penalty pulls back in every update whose estimate is over the
/// limit and nothing pushes when it is under, so J_C comes to rest where that happens in lambda / kappa of the updates:
/// below the limit, and the further the noisier the estimate.
pub fn recipe(cmdp: &Cmdp, algo: &str, seed: u64) -> Result<(Config, Schedule), ConfigError> {
    let env = TabularEnv::new(Arc::new(cmdp.clone()));
    let mut config = Config::preset("quick", algo, env.spec())?;
    let gamma = cmdp.gamma;
    let common = [format!("seed={seed}"), format!("rollout.gamma={gamma}"), format!("rollout.cost_gamma={gamma}")];
    let own = RECIPES.iter().find(|recipe| recipe.0 == algo);
    let (schedule, own) = own.map_or((Schedule::QUICK, &[][..]), |recipe| (recipe.1, recipe.2));
    for assignment in common.iter().map(String::as_str).chain(SETTINGS.iter().chain(own).copied()) {
        config.set(assignment)?;
    }
    Ok((config, schedule))
}

/// Settings for the grid of [`crate::instances::grid`], to be used with [`Schedule::PATIENT`]. All short ways to its goal
/// lead through costly cells: a policy that learns to avoid them before it knows the goal never meets it, and one that is
/// sure of its way too soon does not find the detour. An entropy bonus and a growing kappa help against both. Its limits are
/// a tenth of an event per episode, so the estimates of the costs are averaged over several batches.
pub fn grid_config(cmdp: &Cmdp, algo: &str, seed: u64) -> Result<Config, ConfigError> {
    let (mut config, _) = recipe(cmdp, algo, seed)?;
    for assignment in [
        "steps=2_400_000",
        "rollout.batch=12_000",
        "rollout.lambda=0.9",
        "algo.learning_rate=0.15",
        "algo.passes=4",
        "algo.cost_memory=0.85",
        "algo.entropy=0.03",
        "critic.learning_rate=0.1",
    ] {
        config.set(assignment)?;
    }
    Ok(config)
}

/// Trains on a CMDP and returns as a table the policy with the mean occupancy of the last ones, whose return and costs are
/// the means of theirs: with multipliers only such means are known to converge.
pub fn train(cmdp: &Cmdp, config: Config, schedule: &Schedule) -> Result<Vec<f64>, Error> {
    let shared = Arc::new(cmdp.clone());
    let make = move || Box::new(TabularEnv::new(shared.clone())) as Box<dyn Env>;
    let (updates, first) = (config.updates(), config.clone());
    let mut learner = Learner::new(config, &make)?;
    let mut occupancy = vec![0.0; cmdp.states * cmdp.actions];
    for update in 0..updates {
        schedule.apply(&mut learner.config, &first, update as f64 / updates as f64);
        learner.update()?;
        if (update + 1) as f64 > (1.0 - schedule.average) * updates as f64 || update + 1 == updates {
            let now = cmdp.occupancy_of(&table(&learner, cmdp));
            occupancy.iter_mut().zip(now).for_each(|(sum, x)| *sum += x);
        }
    }
    Ok(cmdp.policy_of(&occupancy))
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
        policy.outputs(&mut work, &seen, &mut [], &mut logits);
        let top = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
        let weights: Vec<f64> = logits.iter().map(|&x| libm::exp(f64::from(x - top))).collect();
        let total: f64 = weights.iter().sum();
        all.extend(weights.iter().map(|w| w / total));
    }
    all
}
