//! The signals that a run learns from: the reward first, then every cost with a limit. All of training numbers them so:
//! critics, advantages, loss terms.

use crate::algo::Constraints;
use crate::config::Config;
use p3o_env::EnvSpec;

/// One signal.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// `reward`, or the cost's name.
    pub name: String,
    /// Its place in what the world gives: the reward is 0, the costs follow in the world's order.
    pub column: usize,
    /// What a cost may come to over an episode, margin not taken off; infinite for the reward.
    pub limit: f64,
    /// Discount.
    pub gamma: f64,
    /// Lambda of the generalised advantage estimate.
    pub lambda: f64,
}

/// The signals that are learned, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Signals(Vec<Signal>);

impl Signals {
    /// Those of a run: costs without a limit are measured only, and so are all costs for an algorithm that ignores them.
    pub fn new(config: &Config, spec: &EnvSpec) -> Signals {
        let r = &config.rollout;
        let reward =
            Signal { name: "reward".into(), column: 0, limit: f64::INFINITY, gamma: r.gamma, lambda: r.lambda };
        let ignores = config.algorithm().info().constraints == Constraints::None;
        let cost = |(i, name): (usize, &String)| {
            let limit = *config.limits.get(name).filter(|_| !ignores)?;
            let (gamma, lambda) = (r.cost_gamma, r.cost_lambda);
            Some(Signal { name: name.clone(), column: 1 + i, limit, gamma, lambda })
        };
        let costs = spec.costs.iter().map(|c| &c.name).enumerate().filter_map(cost);
        Signals(std::iter::once(reward).chain(costs).collect())
    }

    /// All of them.
    pub fn all(&self) -> &[Signal] {
        &self.0
    }

    /// The constraints: all but the reward.
    pub fn constraints(&self) -> &[Signal] {
        &self.0[1..]
    }

    /// The constraints' names.
    pub fn constraint_names(&self) -> Vec<&str> {
        self.constraints().iter().map(|signal| signal.name.as_str()).collect()
    }
}
