//! The real trainer on a [`Cmdp`], and its policy as a table that can be evaluated exactly.

use crate::instances::Known;
use crate::{Cmdp, TabularEnv};
use p3o::actor::ActWorkspace;
use p3o::algo::{Constraints, Settings};
use p3o::{Algorithm, Config, ConfigError, Error, Learner, Request};
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

    /// The settings that hold at this share of the updates, from those of the beginning.
    fn at(&self, first: &Config, done: f64) -> Config {
        let late = (done - self.hold).max(0.0) / (1.0 - self.hold);
        let scale = libm::pow(self.last_step, late);
        let mut config = first.clone();
        config.policy.learning_rate *= scale;
        config.policy.target_kl *= scale * scale;
        config.policy.entropy *= (1.0 - done / self.entropy).max(0.0);
        // Critics go on following the policy.
        config.critic.learning_rate *= scale.max(0.05);
        match &mut config.own {
            Settings::P3o(own) if self.ramp > 0.0 => own.kappa *= (done / self.ramp).min(1.0),
            Settings::Ipo(own) => own.barrier *= libm::pow(self.barrier, done),
            Settings::PpoLag(own) => own.multiplier_rate *= scale,
            Settings::Focops(own) => own.multiplier_rate *= scale,
            Settings::TrpoLag(own) => own.multiplier_rate *= scale,
            Settings::P3o(_) | Settings::Ppo(_) | Settings::Trpo(_) | Settings::Cpo(_) | Settings::Pcpo(_) => {}
        }
        config
    }
}

/// What is the same for every CMDP and algorithm, as far as it has these settings: whole batches, no bonus and no corrections.
const SETTINGS: &[&str] = &[
    "rollout.envs=120",
    "rollout.lambda=0.5",
    "rollout.cost_lambda=0.5",
    "rollout.normalize_obs=false",
    "net.hidden=[]",
    "policy.learning_rate=3e-4",
    "policy.passes=40",
    "policy.minibatch=0",
    "policy.target_kl=0.02",
    "policy.entropy=0",
    "policy.entropy_below=1000",
    "constraint.correction_rate=0",
    "p3o.balance=false",
    "critic.learning_rate=0.3",
    "critic.passes=2",
    "critic.minibatch=0",
    "critic.normalize=false",
];

/// What is the same for every algorithm that keeps limits.
const CONSTRAINT: &[&str] = &["constraint.form=raw", "constraint.margin=0"];

/// An algorithm's own schedule and settings, for CMDPs whose largest multiplier is 1.
///
/// Multipliers and policy chase each other in circles; an entropy bonus calms them. It hardly moves the result, as
/// the multiplier makes up for it. They need many small updates, the others fewer large ones.
fn own(algorithm: Algorithm) -> (Schedule, &'static [&'static str]) {
    match algorithm {
        Algorithm::P3o => (
            Schedule { hold: 0.3, last_step: 0.02, average: 0.3, ..Schedule::QUICK },
            &[
                "run.steps=800_000",
                "rollout.envs=20",
                "rollout.batch=8000",
                "p3o.kappa=2",
                "policy.learning_rate=0.05",
                "policy.passes=3",
                "critic.passes=3",
            ],
        ),
        Algorithm::PpoLag => (
            Schedule::QUICK,
            &[
                "run.steps=600_000",
                "rollout.batch=1200",
                "policy.learning_rate=0.03",
                "policy.passes=2",
                "policy.entropy=0.07",
                "ppo-lag.multiplier_rate=0.015",
            ],
        ),
        Algorithm::Focops => (
            Schedule::QUICK,
            &[
                "run.steps=450_000",
                "rollout.batch=1200",
                "policy.learning_rate=0.05",
                "policy.passes=3",
                "policy.entropy=0.025",
                "focops.temperature=5",
                "focops.multiplier_rate=0.015",
            ],
        ),
        // It stays inside each limit by about 1/t, so t grows along the way.
        Algorithm::Ipo => (
            Schedule::QUICK,
            &[
                "run.steps=480_000",
                "rollout.batch=4800",
                "policy.learning_rate=0.01",
                "policy.passes=2",
                "ipo.barrier=100",
            ],
        ),
        Algorithm::TrpoLag => (
            Schedule::QUICK,
            &[
                "run.steps=450_000",
                "rollout.batch=1200",
                "policy.target_kl=0.0003",
                "policy.entropy=0.1",
                "trpo-lag.multiplier_rate=0.02",
            ],
        ),
        Algorithm::Cpo | Algorithm::Pcpo => (Schedule::NATURAL, &["run.steps=300_000", "rollout.batch=3000"]),
        // They ignore the limits.
        Algorithm::Ppo | Algorithm::Trpo => (Schedule::QUICK, &["run.steps=300_000", "rollout.batch=3000"]),
    }
}

/// What the grid needs beyond an algorithm's own settings.
const GRID: &[&str] = &[
    "run.steps=2_400_000",
    "rollout.batch=12_000",
    "rollout.lambda=0.9",
    "policy.learning_rate=0.15",
    "policy.passes=4",
    "policy.entropy=0.03",
    "constraint.smoothing=0.85",
    "critic.learning_rate=0.1",
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
/// Networks are linear in the one-hot state, so policy and critics are tables. Nothing is divided by a standard deviation:
/// kappa is in the units of the multipliers. A_C is centred: its mean is zero in theory, and in a batch it repeats the random
/// error that J_C - d has already. The penalty pulls back in every update whose estimate is over the limit and nothing pushes
/// when it is under, so J_C comes to rest where that happens in lambda / kappa of the updates: below the limit, and the
/// further the noisier the estimate.
pub fn recipe(cmdp: &Cmdp, algorithm: Algorithm, seed: u64) -> Result<(Config, Schedule), ConfigError> {
    let (schedule, own) = own(algorithm);
    Ok((config(cmdp, algorithm, seed, own)?, schedule))
}

/// Settings of a first-order algorithm for the grid of [`crate::instances::grid`], to be used with [`Schedule::PATIENT`]. All
/// short ways to its goal lead through costly cells: a policy that learns to avoid them before it knows the goal never meets
/// it, and one that is sure of its way too soon does not find the detour. An entropy bonus and a growing kappa help against
/// both. Its limits are a tenth of an event per episode, so the estimates of the costs are averaged over several batches.
pub fn grid_config(cmdp: &Cmdp, algorithm: Algorithm, seed: u64) -> Result<Config, ConfigError> {
    config(cmdp, algorithm, seed, &[own(algorithm).1, GRID].concat())
}

/// What all CMDPs and algorithms share, with an algorithm's own settings over it.
fn config(cmdp: &Cmdp, algorithm: Algorithm, seed: u64, own: &[&str]) -> Result<Config, ConfigError> {
    let env = TabularEnv::new(Arc::new(cmdp.clone()));
    let constraint = if algorithm.info().constraints == Constraints::None { &[] } else { CONSTRAINT };
    let discounts = ["gamma", "cost_gamma"].map(|name| format!("rollout.{name}={}", cmdp.gamma));
    let rest = [SETTINGS, constraint, own].concat().into_iter().map(String::from);
    let request = Request {
        set: discounts.into_iter().chain(rest).collect(),
        seed: Some(seed),
        shared: true,
        ..Request::new(&env.spec().name, algorithm.into())
    };
    Ok(request.resolve_for(env.spec())?.config)
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
        learner.retune(|config| *config = schedule.at(&first, update as f64 / updates as f64))?;
        learner.update()?;
        if (update + 1) as f64 > (1.0 - schedule.average) * updates as f64 || update + 1 == updates {
            let now = cmdp.occupancy_of(&table(&learner, cmdp));
            occupancy.iter_mut().zip(now).for_each(|(sum, x)| *sum += x);
        }
    }
    Ok(cmdp.policy_of(&occupancy))
}

/// pi(a | s) of a learner's policy for every state. Rows sum to one but for the rounding of single precision.
pub fn table(learner: &Learner, cmdp: &Cmdp) -> Vec<f64> {
    let actors = learner.actors();
    let n = cmdp.states;
    // The observations of all states: the identity matrix.
    let obs: Vec<f32> = (0..n * n).map(|i| if i % (n + 1) == 0 { 1.0 } else { 0.0 }).collect();
    let mut workspace = ActWorkspace::new(&actors);
    workspace.infer(&actors, &obs, &mut []);
    let mut logs: Vec<f32> = (0..n).flat_map(|s| workspace.row(0, s).1.to_vec()).collect();
    learner.policy().normalize_outputs(&mut logs);
    logs.iter().map(|&log| libm::exp(f64::from(log))).collect()
}
