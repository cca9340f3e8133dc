//! How far a cost is over its limit, in the units of its advantage.
//!
//! The mean of r A_C is a cost per step; the offset beside it in L_C must be one too. The paper's (1 - gamma)(J - d) is
//! one for discounted J and d, but its J and d are undiscounted sums over an episode. The three readings, for an episode
//! of T steps that cost J against the limit d:
//!
//! | offset | value | |
//! |---|---|---|
//! | `discounted` | (1 - gamma)(J^gamma - d^gamma) | J^gamma the discounted cost of an episode, d^gamma = d (1 - gamma^T) / (T (1 - gamma)) |
//! | `per_step` | (J - d) / T | what CPO's code base does |
//! | `paper` | (1 - gamma)(J - d) | read literally; ten times `per_step` for T = 1000 and gamma = 0.99 |

use crate::advantage::{moments, rescale};
use crate::config::{CostScale, Offset};

/// What an update knows of one cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpisodeCost {
    /// Mean cost of an episode.
    pub episode: f64,
    /// Mean discounted cost of an episode.
    pub discounted: f64,
    /// Mean length of an episode.
    pub length: f64,
    /// Its limit.
    pub limit: f64,
}

impl EpisodeCost {
    /// How far an episode is over its limit.
    pub fn excess(&self) -> f64 {
        self.episode - self.limit
    }
}

/// The offset in units of an un-normalised cost advantage.
pub fn offset(form: Offset, cost: &EpisodeCost, gamma: f64) -> f64 {
    match form {
        Offset::Discounted => {
            let limit = cost.limit * (1.0 - libm::pow(gamma, cost.length)) / (cost.length * (1.0 - gamma));
            (1.0 - gamma) * (cost.discounted - limit)
        }
        Offset::PerStep => (cost.episode - cost.limit) / cost.length,
        Offset::Paper => (1.0 - gamma) * (cost.episode - cost.limit),
    }
}

/// Standardises a cost's advantages in place and returns the offset that belongs to them.
///
/// Dividing a whole constraint by sigma > 0 keeps its feasible set: `whole` and `whole_mean` do that, the latter keeping
/// the advantages' mean mu as part of the constraint. `advantage` standardises the advantages alone, `none` nothing. mu is
/// zero in theory and, like J - d, known only up to the batch's chance: `centred` takes off that alone.
pub fn scale(form: CostScale, advantages: &mut [f32], offset: f64) -> f64 {
    if form == CostScale::None {
        return offset;
    }
    let (mu, sigma) = moments(advantages);
    // A cost that never varied has no direction to learn from; its advantages become zero, not noise.
    let sigma = if form == CostScale::Centred { 1.0 } else { sigma.max(1e-8) };
    rescale(advantages, mu, sigma);
    match form {
        CostScale::Whole => offset / sigma,
        CostScale::WholeMean => (offset + mu) / sigma,
        CostScale::Advantage | CostScale::Centred | CostScale::None => offset,
    }
}
