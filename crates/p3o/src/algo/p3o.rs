//! Penalized Proximal Policy Optimization (Zhang et al., IJCAI 2022).
//!
//! With r = pi_theta(a|s) / pi_k(a|s), every update minimises equation (cppo5)
//!
//! ```text
//! L(theta)     = L_R(theta) + kappa sum_i max(0, L_C_i(theta))
//! L_R(theta)   = mean( -min(r A_R, clip(r, 1-eps, 1+eps) A_R) )                       (L_R_CLIP)
//! L_C_i(theta) = mean(  max(r A_C_i, clip(r, 1-eps, 1+eps) A_C_i) ) + offset_i        (L_C_CLIP)
//! offset_i     = (1 - gamma)(J_C_i - d_i)
//! ```
//!
//! by passes of Adam over the batch until the mean KL from pi_k leaves the trust region (Algorithm 2). The max stands
//! outside the mean: whether constraint i is penalised is a question about the whole batch. Without constraints this is
//! PPO. `p3o.balance`, which the paper does not have, divides the gradient by 1 + kappa times the penalised constraints.
//!
//! The page in the order in which an update goes through it: [`estimate`] of J_C, [`offset`], [`standardize`], the
//! [`reward_term`] and [`cost_term`] of a sample, the gate and the [`loss`] in `Penalty`, and [`update`].

use super::{Column, Constraints, Foresight, Info, Objective, Order, Passes, Update, descend};
use crate::advantage::{moments, rescale};
use crate::config::schema::{settings, words};
use crate::engine::{RowLoss, Rule, Sums};
use p3o_nn::Real;

/// What it is and needs.
pub const INFO: Info = Info {
    name: "p3o",
    summary: "Penalized Proximal Policy Optimization: keeps every cost under its limit",
    constraints: Constraints::Any,
    order: Order::First,
    multipliers: false,
};

settings! {
    /// Its own settings.
    Settings {
        /// Epsilon of the clipped ratio.
        clip: f64 = 0.2, Number(1e-9, 1.0);
        /// Penalty factor; the first one of every update where it grows.
        kappa: f64 = 2.0, Number(0.0, 1e12);
        /// Factor by which kappa grows with every pass of an update (Algorithm 2, line 5); 1: it is fixed.
        kappa_growth: f64 = 1.0, Number(1.0, 1e6);
        /// Where a growing kappa stops.
        kappa_max: f64 = 40.0, Number(0.0, 1e12);
        /// Whether the gradient is divided by 1 + kappa times the number of penalised constraints, for Adam's sake.
        balance: bool = false, Switch;
    }
}

/// Its own columns of progress.csv.
pub const COLUMNS: &[Column] = &[
    Column::Each("penalized", |p| &p.penalized),
    Column::One("kappa", |p| p.kappa),
    Column::One("redone", |p| p.redone as f64),
];

words! {
    /// How a constraint is put: where J_C comes from, the offset beside the surrogate, and what is standardised.
    ///
    /// The mean of r A_C is a cost per step, so the offset beside it should be one too. The paper's (1 - gamma)(J - d) is one
    /// for discounted J and d, but its J and d are undiscounted sums over an episode of T steps: it is (1 - gamma) T times the
    /// difference per step. sigma is the standard deviation of the batch's cost advantages.
    ///
    /// | form | J_C from | offset | cost advantage | reward advantage |
    /// |---|---|---|---|---|
    /// | `literal` | ended episodes | (1 - gamma)(J - d) | standardised | standardised |
    /// | `scaled` | cost per step | (1 - gamma)(J - d) / sigma | standardised | standardised |
    /// | `per_step` | cost per step | (J - d) / (T sigma) | standardised | standardised |
    /// | `centred` | cost per step | (J - d) / T | its mean taken off | standardised |
    /// | `raw` | ended episodes | (J - d) / T | its mean taken off | as it is |
    ///
    /// Dividing a whole constraint by sigma keeps its feasible set; `literal` does not. With `raw` kappa is in the units of
    /// reward per cost, as the theorem's multipliers are.
    Form {
        /// The paper to the letter.
        Literal = "literal",
        /// The literal offset, scaled with the advantage; no lag where episodes span several batches.
        Scaled = "scaled",
        /// Commensurate with the surrogate.
        PerStep = "per_step",
        /// Costs keep their unit, as in the code base of PPO-L and TRPO-L.
        Centred = "centred",
        /// Nothing is divided by a standard deviation.
        Raw = "raw",
    }
}

/// What a batch says of one cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Mean sum over the episodes that ended, or that ended last.
    pub per_episode: f64,
    /// Mean over the batch's steps.
    pub per_step: f64,
    /// Mean length of an episode.
    pub length: f64,
}

/// J_C: the cost of an episode.
pub fn estimate(form: Form, cost: &Measured) -> f64 {
    match form {
        Form::Literal | Form::Raw => cost.per_episode,
        Form::Scaled | Form::PerStep | Form::Centred => cost.per_step * cost.length,
    }
}

/// The offset for J - d = `excess`, in units of an unscaled cost advantage; `weight` is what the steps of an episode count in J, T
/// where it is not discounted.
pub fn offset(form: Form, excess: f64, weight: f64, gamma: f64) -> f64 {
    match form {
        Form::Literal | Form::Scaled => (1.0 - gamma) * excess,
        Form::PerStep | Form::Centred | Form::Raw => excess / weight,
    }
}

/// Standardises a cost's advantages in place and returns the offset that belongs to them.
pub fn standardize(form: Form, advantages: &mut [f32], offset: f64) -> f64 {
    let (mu, sigma) = moments(advantages);
    // A cost that never varied has no direction to learn from; its advantages become zero, not noise.
    let sigma = if matches!(form, Form::Centred | Form::Raw) { 1.0 } else { sigma.max(1e-8) };
    rescale(advantages, mu, sigma);
    match form {
        Form::Scaled | Form::PerStep => offset / sigma,
        Form::Literal | Form::Centred | Form::Raw => offset,
    }
}

/// Standardises the reward's advantages in place.
pub fn standardize_reward(form: Form, advantages: &mut [f32]) {
    if form != Form::Raw {
        let (mu, sigma) = moments(advantages);
        rescale(advantages, mu, sigma.max(1e-8));
    }
}

/// One sample of L_R: its term, and the weight w of its gradient w grad log pi.
#[inline]
pub fn reward_term<E: Real>(ratio: E, adv_r: E, epsilon: E) -> (E, E) {
    let (plain, clipped) = (ratio * adv_r, clip(ratio, epsilon) * adv_r);
    let active = if adv_r > E::ZERO { ratio < E::ONE + epsilon } else { ratio > E::ONE - epsilon };
    (-if plain < clipped { plain } else { clipped }, if active { -plain } else { E::ZERO })
}

/// One sample of the mean in L_C_i: its term, and the weight of its gradient.
#[inline]
pub fn cost_term<E: Real>(ratio: E, adv_c: E, epsilon: E) -> (E, E) {
    let (plain, clipped) = (ratio * adv_c, clip(ratio, epsilon) * adv_c);
    let active = if adv_c > E::ZERO { ratio > E::ONE - epsilon } else { ratio < E::ONE + epsilon };
    (if plain > clipped { plain } else { clipped }, if active { plain } else { E::ZERO })
}

#[inline]
fn clip<E: Real>(ratio: E, epsilon: E) -> E {
    let (low, high) = (E::ONE - epsilon, E::ONE + epsilon);
    if ratio < low {
        low
    } else if ratio > high {
        high
    } else {
        ratio
    }
}

/// scale (reward L_R + sum_i costs_i L_C_i) sample by sample. PPO-L and IPO have the same form with plain cost surrogates.
#[derive(Clone, Debug, PartialEq)]
pub struct Clipped {
    /// Epsilon of the clipped ratio.
    pub epsilon: f32,
    /// Whether the cost surrogates are clipped too.
    pub clip_costs: bool,
    /// Factor of L_R.
    pub reward: f32,
    /// Factor of each L_C_i.
    pub costs: Vec<f32>,
    /// Factor of the whole gradient.
    pub scale: f32,
}

impl Clipped {
    /// Adds one sample's loss terms and returns the weight of its grad log pi.
    #[inline(always)] // part of the inner loop of every pass
    pub fn weigh(&self, advantages: &[Vec<f32>], row: usize, ratio: f32, terms: &mut [f64]) -> f32 {
        let (term, slope) = reward_term(ratio, advantages[0][row], self.epsilon);
        terms[0] += f64::from(term);
        let mut w = self.reward * slope;
        for (i, (adv_c, &factor)) in advantages[1..].iter().zip(&self.costs).enumerate() {
            let (term, slope) = match self.clip_costs {
                true => cost_term(ratio, adv_c[row], self.epsilon),
                // The derivative of r A is r A grad log pi: the term is its own weight.
                false => (ratio * adv_c[row], ratio * adv_c[row]),
            };
            terms[1 + i] += f64::from(term);
            if factor != 0.0 {
                w += factor * slope;
            }
        }
        self.scale * w
    }
}

/// The penalised loss (cppo5) from the batch means: `terms` holds L_R and the means of the cost terms.
pub fn loss(terms: &[f64], offsets: &[f64], kappa: f64) -> f64 {
    let penalty = terms[1..].iter().zip(offsets).map(|(mean, offset)| (mean + offset).max(0.0));
    terms[0] + kappa * penalty.sum::<f64>()
}

/// Whether each constraint is penalised: L_C_i > 0, by its mean over the whole batch.
pub fn gates<'a>(means: &'a [f64], offsets: &'a [f64]) -> impl Iterator<Item = bool> + 'a {
    means.iter().zip(offsets).map(|(mean, offset)| mean + offset > 0.0)
}

/// Algorithm 2, line 5: kappa for the next pass.
fn next_kappa(kappa: f64, settings: &Settings) -> f64 {
    if settings.kappa_growth > 1.0 { (settings.kappa_growth * kappa).min(settings.kappa_max) } else { kappa }
}

/// (cppo5) with the kappa of one pass.
struct Penalty<'a> {
    settings: &'a Settings,
    offsets: &'a [f64],
    kappa: f64,
}

impl Objective for Penalty<'_> {
    fn foresight(&self) -> Foresight {
        Foresight::Guess
    }

    fn loss(&self, means: &[f64]) -> RowLoss {
        let kappa = self.kappa as f32;
        let costs: Vec<f32> = gates(means, self.offsets).map(|gate| if gate { kappa } else { 0.0 }).collect();
        let penalized = gates(means, self.offsets).filter(|gate| *gate).count() as f32;
        let scale = if self.settings.balance { 1.0 / (1.0 + kappa * penalized) } else { 1.0 };
        let epsilon = self.settings.clip as f32;
        RowLoss::Clipped(Clipped { epsilon, clip_costs: true, reward: 1.0, costs, scale })
    }

    fn rule(&self, ahead: usize) -> (RowLoss, Rule) {
        let kappa = (0..ahead).fold(self.kappa, |kappa, _| next_kappa(kappa, self.settings)) as f32;
        let (epsilon, costs) = (self.settings.clip as f32, vec![kappa; self.offsets.len()]);
        let every = Clipped { epsilon, clip_costs: true, reward: 1.0, costs, scale: 1.0 };
        (RowLoss::Clipped(every), Rule::Gates { offsets: self.offsets.to_vec(), balance: self.settings.balance })
    }

    fn observe(&mut self, sums: &Sums, means: &[f64], report: &mut Passes) {
        report.observe(sums, loss(&sums.terms, self.offsets, self.kappa));
        report.penalize(gates(means, self.offsets));
        report.kappa = self.kappa;
        self.kappa = next_kappa(self.kappa, self.settings);
    }
}

/// One update (Algorithm 2).
pub fn update(settings: &Settings, update: &mut Update) -> Passes {
    let offsets = update.offsets;
    let mut report = Passes::new(offsets.len());
    descend(update, &mut Penalty { settings, offsets, kappa: settings.kappa }, &mut report);
    report
}
