//! What the passes of one update did.

use super::cpo::Case;
use crate::engine::Sums;

/// A column of progress.csv that only some algorithms have.
#[derive(Clone, Copy)]
pub enum Column {
    /// One figure.
    One(&'static str, fn(&Passes) -> f64),
    /// One figure for each constraint; the name is followed by the cost's.
    Each(&'static str, fn(&Passes) -> &[f64]),
}

impl Column {
    /// The multiplier of each constraint.
    pub const MULTIPLIER: Column = Column::Each("multiplier", |p| &p.multipliers);
    /// What a line search took of the proposed step.
    pub const STEP_FRACTION: Column = Column::One("step_fraction", |p| p.fraction);

    /// Names and values for these constraints.
    pub fn figures(&self, passes: &Passes, costs: &[&str]) -> Vec<(String, f64)> {
        match *self {
            Column::One(name, value) => vec![(name.to_string(), value(passes))],
            Column::Each(name, values) => {
                let value = |i: usize| values(passes).get(i).copied().unwrap_or(f64::NAN);
                costs.iter().enumerate().map(|(i, cost)| (format!("{name}_{cost}"), value(i))).collect()
            }
        }
    }
}

/// What the passes of one update did.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Passes {
    /// Steps taken.
    pub steps: usize,
    /// Passes done again because a constraint's sign had been guessed wrong.
    pub redone: usize,
    /// The whole loss at the last pass.
    pub loss: f64,
    /// L_R at the last pass.
    pub loss_r: f64,
    /// The mean cost terms at the last pass, without offsets.
    pub loss_c: Vec<f64>,
    /// Mean KL at the last pass, before its step.
    pub kl: f64,
    /// Kappa at the last pass.
    pub kappa: f64,
    /// Share of the passes in which each constraint was penalised, or, for IPO, violated.
    pub penalized: Vec<f64>,
    /// Norm of the last gradient.
    pub gradient_norm: f64,
    /// The multiplier of each constraint, where the algorithm has them.
    pub multipliers: Vec<f64>,
    /// FOCOPS: share of the states inside the trust region at the last pass.
    pub inside: f64,
    /// Second order: what the line search took of the proposed step; zero when it took nothing.
    pub fraction: f64,
    /// CPO: what the limit meant for the step.
    pub case: Option<Case>,
    pub(super) observed: usize,
}

impl Passes {
    /// Before the first pass.
    pub fn new(constraints: usize) -> Self {
        Passes { loss_c: vec![0.0; constraints], penalized: vec![0.0; constraints], ..Passes::default() }
    }

    /// The means over several actors' passes; those of one are its own.
    pub fn mean<'a>(all: impl Iterator<Item = &'a Passes> + Clone) -> Passes {
        let count = all.clone().count() as f64;
        let of = |figure: fn(&Passes) -> f64| all.clone().map(figure).sum::<f64>() / count;
        let rows = |figures: fn(&Passes) -> &Vec<f64>| mean_rows(all.clone().map(figures));
        Passes {
            steps: of(|p| p.steps as f64).round() as usize,
            redone: of(|p| p.redone as f64).round() as usize,
            loss: of(|p| p.loss),
            loss_r: of(|p| p.loss_r),
            loss_c: rows(|p| &p.loss_c),
            kl: of(|p| p.kl),
            kappa: of(|p| p.kappa),
            penalized: rows(|p| &p.penalized),
            gradient_norm: of(|p| p.gradient_norm),
            multipliers: rows(|p| &p.multipliers),
            inside: of(|p| p.inside),
            fraction: of(|p| p.fraction),
            case: all.clone().next().and_then(|p| p.case),
            observed: of(|p| p.observed as f64).round() as usize,
        }
    }

    /// Takes in a pass with this loss.
    pub fn observe(&mut self, sums: &Sums, loss: f64) {
        (self.loss, self.loss_r, self.kl) = (loss, sums.terms[0], sums.kl);
        let constraints = self.loss_c.len();
        self.loss_c.copy_from_slice(&sums.terms[1..=constraints]);
        self.observed += 1;
    }

    /// Counts which constraints the pass just observed penalised.
    pub fn penalize(&mut self, gates: impl Iterator<Item = bool>) {
        for (share, gate) in self.penalized.iter_mut().zip(gates) {
            *share += (f64::from(u8::from(gate)) - *share) / self.observed as f64;
        }
    }

    /// Counts a step.
    pub fn stepped(&mut self, gradient_norm: f64) {
        self.gradient_norm = gradient_norm;
        self.steps += 1;
    }

    /// Whether the loss and the gradient stayed finite.
    pub fn is_finite(&self) -> bool {
        // The cost terms too: a NaN among them disappears in max(0, L_C_i).
        let figures = [self.loss, self.kl, self.gradient_norm];
        figures.iter().chain(&self.loss_c).all(|x| x.is_finite())
    }
}

/// The mean of some rows of figures, entry by entry.
pub(crate) fn mean_rows<'a>(rows: impl Iterator<Item = &'a Vec<f64>>) -> Vec<f64> {
    let (mut sums, mut count) = (Vec::new(), 0.0);
    for row in rows {
        if sums.is_empty() {
            sums.clone_from(row);
        } else {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        count += 1.0;
    }
    sums.iter().map(|sum| sum / count).collect()
}
