//! Training from a program: one builder, one call.

use crate::agent::Agent;
use crate::config::{Method, Request};
use crate::error::Error;
use crate::learner::{Learner, Report};
use p3o_env::Env;

/// Trains a policy in any world that implements [`Env`], without files.
///
/// ```
/// use p3o::{Algorithm, Trainer};
///
/// let trained = Trainer::new(|| Box::new(p3o_env::PointGoal::default()), Algorithm::P3o)
///     .cost_limit("hazards", 25.0)
///     .set("rollout.batch=2000")
///     .set("policy.passes=2")
///     .steps(4_000)
///     .run()?;
/// assert_eq!(trained.last.steps, 4_000);
/// # Ok::<(), p3o::Error>(())
/// ```
pub struct Trainer {
    make: Box<dyn Fn() -> Box<dyn Env>>,
    request: Request,
}

/// What training came to.
pub struct Trained {
    /// The policy, ready to act.
    pub agent: Agent,
    /// The report of the last update.
    pub last: Report,
}

impl Trainer {
    /// For the worlds that `make` makes, by an [`Algorithm`](crate::Algorithm) or a [`Method`] for several agents.
    pub fn new(make: impl Fn() -> Box<dyn Env> + 'static, method: impl Into<Method>) -> Self {
        Trainer { make: Box::new(make), request: Request::new("", method.into()) }
    }

    /// Starts from another preset than `quick`.
    pub fn preset(mut self, name: &str) -> Self {
        self.request.preset = name.to_string();
        self
    }

    /// Limits a cost, summed over an episode.
    pub fn cost_limit(mut self, name: &str, limit: f64) -> Self {
        self.request.limits.push(format!("{name}={limit}"));
        self
    }

    /// Environment steps to train for.
    pub fn steps(mut self, steps: u64) -> Self {
        self.request.steps = Some(steps);
        self
    }

    /// Decides every random number.
    pub fn seed(mut self, seed: u64) -> Self {
        self.request.seed = Some(seed);
        self
    }

    /// Any other setting, as on the command line: `net.hidden=[128,128]`.
    pub fn set(mut self, assignment: &str) -> Self {
        self.request.set.push(assignment.to_string());
        self
    }

    /// Trains on the current rayon pool.
    pub fn run(self) -> Result<Trained, Error> {
        let spec = (self.make)().spec().clone();
        let config = self.request.resolve_for(&spec)?.config;
        let updates = config.updates();
        let mut learner = Learner::new(config, &*self.make)?;
        let mut last = Report::default();
        for _ in 0..updates {
            last = learner.update()?;
        }
        Ok(Trained { agent: learner.agent(), last })
    }
}
