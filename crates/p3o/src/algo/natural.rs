//! What the second-order algorithms share: H, H^-1 v, and the line search.
//!
//! ```text
//! H   = Hessian of mean_s KL(pi_theta || pi_k)(s) at theta_k, plus damping     (theta includes the log standard deviations)
//! H v = J^T M J v + damping v       one pass forward with tangents and back; M the Fisher matrix of the policy's outputs
//! ```

use super::{Passes, Update};
use crate::engine::{RowLoss, Sums};

/// The settings of the step: fields of the same names stand in each second-order algorithm's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solver {
    /// Added to the diagonal of H.
    pub damping: f64,
    /// Iterations of conjugate gradients.
    pub cg_iterations: usize,
    /// Factor between two fractions that the line search tries.
    pub backtrack: f64,
    /// How often it tries again.
    pub backtracks: usize,
}

/// The own settings of a second-order algorithm: those of the step, and more if it has them.
macro_rules! solver_settings {
    ($($more:tt)*) => {
        $crate::config::schema::settings! {
            /// Its own settings.
            Settings {
                /// Added to the diagonal of the KL's Hessian.
                damping: f64 = 0.1, Number(0.0, 1e6);
                /// Iterations of conjugate gradients.
                cg_iterations: usize = 10, Count(1, 1_000_000);
                /// Factor between two step sizes that the line search tries.
                backtrack: f64 = 0.8, Number(1e-3, 0.999);
                /// How often the line search tries a smaller step.
                backtracks: usize = 10, Count(0, 1_000_000);
                $($more)*
            }
        }

        impl Settings {
            fn solver(&self) -> $crate::algo::natural::Solver {
                let Settings { damping, cg_iterations, backtrack, backtracks, .. } = *self;
                $crate::algo::natural::Solver { damping, cg_iterations, backtrack, backtracks }
            }
        }
    };
}
pub(super) use solver_settings;

/// -r (x_R A_R - sum_i x_i A_C_i) sample by sample: minus the surrogate of a mixed advantage.
#[derive(Clone, Debug, PartialEq)]
pub struct Surrogate {
    /// x_R
    pub reward: f32,
    /// x_i
    pub costs: Vec<f32>,
}

impl Surrogate {
    /// Adds one sample's loss terms and returns the weight of its grad log pi.
    #[inline(always)] // part of the inner loop of every pass
    pub fn weigh(&self, advantages: &[Vec<f32>], row: usize, ratio: f32, terms: &mut [f64]) -> f32 {
        add_terms(advantages, row, ratio, terms);
        let costs = advantages[1..].iter().zip(&self.costs).map(|(adv_c, x)| x * adv_c[row]);
        -ratio * (self.reward * advantages[0][row] - costs.sum::<f32>())
    }
}

/// The plain surrogates of one sample: -r A_R and every r A_C_i.
#[inline(always)] // part of the inner loop of every pass
pub fn add_terms(advantages: &[Vec<f32>], row: usize, ratio: f32, terms: &mut [f64]) {
    terms[0] -= f64::from(ratio * advantages[0][row]);
    for (term, adv_c) in terms[1..].iter_mut().zip(&advantages[1..]) {
        *term += f64::from(ratio * adv_c[row]);
    }
}

/// Gradient of mean(r (x_R A_R - sum_i x_i A_C_i)) at theta_k, where r = 1, plus `entropy` times that of the mean entropy.
pub fn gradient(update: &mut Update, entropy: f64, reward: f64, costs: &[f64]) -> Vec<f64> {
    let costs = costs.iter().map(|&x| x as f32).collect();
    let loss = RowLoss::Surrogate(Surrogate { reward: reward as f32, costs });
    update.engine.pass(update.batch, None, &loss, entropy as f32);
    update.engine.gradient().iter().map(|g| -g).collect()
}

/// H v
pub fn product(update: &mut Update, solver: &Solver, v: &[f64]) -> Vec<f64> {
    if update.batch.stop.is_asked_for() {
        return v.to_vec();
    }
    let mut product = update.engine.fisher_product(v);
    product.iter_mut().zip(v).for_each(|(p, v)| *p += solver.damping * v);
    product
}

/// H^-1 v
pub fn solve(update: &mut Update, solver: &Solver, v: &[f64]) -> Vec<f64> {
    conjugate_gradients(v, solver.cg_iterations, |p| product(update, solver, p))
}

/// An x with H x = b, up to so many iterations or until the residual is 1e-5 of b. H is known by its products.
pub fn conjugate_gradients(b: &[f64], iterations: usize, mut product: impl FnMut(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let (mut x, mut residual, mut direction) = (vec![0.0; b.len()], b.to_vec(), b.to_vec());
    let mut square = dot(b, b);
    let enough = 1e-10 * square;
    for _ in 0..iterations {
        if square <= enough {
            break;
        }
        let h_direction = product(&direction);
        let step = square / dot(&direction, &h_direction);
        add(&mut x, step, &direction);
        add(&mut residual, -step, &h_direction);
        let before = std::mem::replace(&mut square, dot(&residual, &residual));
        direction.iter_mut().zip(&residual).for_each(|(d, r)| *d = r + square / before * *d);
    }
    x
}

/// Moves the policy from theta_k by the largest fraction of `step`, of those that backtracking tries, whose mean KL is
/// inside the trust region and whose surrogates `accept(before, after)` takes: the means of -r A_R and of every r A_C_i.
/// Where there is none the policy stays. `report` gets the outcome; returns the means where the policy ends.
pub fn line_search(
    update: &mut Update,
    solver: &Solver,
    step: &[f64],
    report: &mut Passes,
    accept: impl Fn(&[f64], &[f64]) -> bool,
) -> Sums {
    let start = update.engine.parameters();
    let before = update.engine.measure(update.batch);
    let inside = |sums: &Sums| sums.is_finite() && sums.kl <= update.settings.target_kl;
    let mut fraction = 1.0;
    for _ in 0..=solver.backtracks {
        if update.batch.stop.is_asked_for() {
            break;
        }
        let moved: Vec<f32> = start.iter().zip(step).map(|(&p, s)| (f64::from(p) + fraction * s) as f32).collect();
        update.engine.set_parameters(&moved);
        let after = update.engine.measure(update.batch);
        if inside(&after) && accept(&before.terms, &after.terms) {
            report.observe(&after, after.terms[0]);
            (report.fraction, report.steps) = (fraction, 1);
            return after;
        }
        fraction *= solver.backtrack;
    }
    update.engine.set_parameters(&start);
    report.observe(&before, before.terms[0]);
    before
}

/// a.b, in order.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// to += factor v
pub fn add(to: &mut [f64], factor: f64, v: &[f64]) {
    to.iter_mut().zip(v).for_each(|(t, v)| *t += factor * v);
}
