//! Training from a program: one builder, one call.

use crate::config::Config;
use crate::error::Error;
use crate::learner::{Learner, Report};
use p3o_env::Env;

/// Trains a policy in any world that implements [`Env`], without files.
///
/// ```
/// use p3o::{P3o, Trainer};
///
/// let report = Trainer::new(|| Box::new(p3o_env::PointGoal::default()), P3o::default())
///     .cost_limit("hazards", 25.0)
///     .set("rollout.batch=2000")
///     .set("algo.passes=2")
///     .steps(4_000)
///     .run()?;
/// assert_eq!(report.last.steps, 4_000);
/// # Ok::<(), p3o::Error>(())
/// ```
pub struct Trainer {
    make: Box<dyn Fn() -> Box<dyn Env>>,
    algo: &'static str,
    settings: Vec<String>,
    steps: Option<u64>,
}

/// Penalized Proximal Policy Optimization.
#[derive(Clone, Debug, Default)]
pub struct P3o {
    /// Penalty factor, if not the preset's.
    pub kappa: Option<f64>,
}

/// An algorithm for [`Trainer::new`].
pub trait Algorithm {
    /// Its name in a [`Config`].
    fn name(&self) -> &'static str;
    /// What it changes of the preset.
    fn settings(&self) -> Vec<String>;
}

impl Algorithm for P3o {
    fn name(&self) -> &'static str {
        "p3o"
    }
    fn settings(&self) -> Vec<String> {
        self.kappa.map(|k| format!("algo.kappa={k}")).into_iter().collect()
    }
}

/// Algorithms that take the preset as it is.
macro_rules! plain {
    ($($(#[$doc:meta])* $type:ident = $name:literal,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $type;

        impl Algorithm for $type {
            fn name(&self) -> &'static str {
                $name
            }
            fn settings(&self) -> Vec<String> {
                Vec::new()
            }
        }
    )*};
}

plain! {
    /// Proximal Policy Optimization, which ignores the costs.
    Ppo = "ppo",
    /// PPO with a Lagrange multiplier for each constraint.
    PpoLag = "ppo-lag",
    /// First Order Constrained Optimization in Policy Space.
    Focops = "focops",
    /// Interior-point Policy Optimization.
    Ipo = "ipo",
    /// Trust Region Policy Optimization, which ignores the costs.
    Trpo = "trpo",
    /// TRPO with a Lagrange multiplier for each constraint.
    TrpoLag = "trpo-lag",
    /// Constrained Policy Optimization, for one constraint.
    Cpo = "cpo",
    /// Projection-based Constrained Policy Optimization, for one constraint.
    Pcpo = "pcpo",
    /// P3O for several agents (`p3o_env::Team`) with one shared policy and critics that see all.
    Map3o = "map3o",
    /// P3O for several agents, each with a policy and critics of its own.
    Map3oDec = "map3o-dec",
    /// PPO for several agents, which ignores the costs.
    Mappo = "mappo",
    /// PPO for several agents with a Lagrange multiplier for each constraint.
    MappoLag = "mappo-lag",
}

/// What training came to.
pub struct Trained {
    /// The learner, with its policy.
    pub learner: Learner,
    /// The report of the last update.
    pub last: Report,
}

impl Trainer {
    /// For the worlds that `make` makes.
    pub fn new(make: impl Fn() -> Box<dyn Env> + 'static, algo: impl Algorithm) -> Self {
        Trainer { make: Box::new(make), algo: algo.name(), settings: algo.settings(), steps: None }
    }

    /// Limits a cost, summed over an episode.
    pub fn cost_limit(self, name: &str, limit: f64) -> Self {
        self.set(&format!("limits.{name}={limit}"))
    }

    /// Environment steps to train for.
    pub fn steps(mut self, steps: u64) -> Self {
        self.steps = Some(steps);
        self
    }

    /// Decides every random number.
    pub fn seed(self, seed: u64) -> Self {
        self.set(&format!("seed={seed}"))
    }

    /// Any other setting, as on the command line: `net.hidden=[128,128]`.
    pub fn set(mut self, assignment: &str) -> Self {
        self.settings.push(assignment.to_string());
        self
    }

    /// Trains on the current rayon pool.
    pub fn run(self) -> Result<Trained, Error> {
        let spec = (self.make)().spec().clone();
        let mut config = Config::preset("quick", self.algo, &spec)?;
        for assignment in &self.settings {
            config.set(assignment)?;
        }
        config.steps = self.steps.unwrap_or(config.steps);
        let updates = config.updates();
        let mut learner = Learner::new(config, &*self.make)?;
        let mut last = Report::default();
        for _ in 0..updates {
            last = learner.update()?;
        }
        Ok(Trained { learner, last })
    }
}
