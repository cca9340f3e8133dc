//! Proximal Policy Optimization (Schulman et al., 2017), which ignores costs.
//!
//! ```text
//! L(theta) = mean( -min(r A_R, clip(r, 1-eps, 1+eps) A_R) )
//! ```
//!
//! by passes of Adam over the batch until the mean KL leaves the trust region: P3O without constraints.

use super::p3o::Clipped;
use super::{Column, Constraints, Foresight, Info, Objective, Order, Passes, Update, descend};
use crate::config::schema::settings;
use crate::engine::{RowLoss, Rule, Sums};

/// What it is and needs.
pub const INFO: Info = Info {
    name: "ppo",
    summary: "Proximal Policy Optimization: ignores the costs (P3O without constraints)",
    constraints: Constraints::None,
    order: Order::First,
    multipliers: false,
};

settings! {
    /// Its own settings.
    Settings {
        /// Epsilon of the clipped ratio.
        clip: f64 = 0.2, Number(1e-9, 1.0);
    }
}

/// Its own columns of progress.csv.
pub const COLUMNS: &[Column] = &[];

struct Surrogate {
    epsilon: f32,
}

impl Objective for Surrogate {
    fn foresight(&self) -> Foresight {
        Foresight::None
    }

    fn loss(&self, _: &[f64]) -> RowLoss {
        let (epsilon, costs) = (self.epsilon, Vec::new());
        RowLoss::Clipped(Clipped { epsilon, clip_costs: false, reward: 1.0, costs, scale: 1.0 })
    }

    fn rule(&self, _: usize) -> (RowLoss, Rule) {
        (self.loss(&[]), Rule::Fixed)
    }

    fn observe(&mut self, sums: &Sums, _: &[f64], report: &mut Passes) {
        report.observe(sums, sums.terms[0]);
    }
}

/// One update.
pub fn update(settings: &Settings, update: &mut Update) -> Passes {
    let mut report = Passes::new(0);
    descend(update, &mut Surrogate { epsilon: settings.clip as f32 }, &mut report);
    report
}
