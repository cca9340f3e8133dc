//! Projection-based Constrained Policy Optimization (Yang et al., 2020), with one constraint.
//!
//! The step of TRPO, and then the shortest way back under the limit, measured by L = H (`kl`) or L = I (`l2`):
//!
//! ```text
//! x = sqrt(2 delta / q) H^-1 g - max(0, (sqrt(2 delta / q) r + c) / (b.L^-1 b)) L^-1 b
//! g = grad mean( r A_R ),  b = grad mean( r A_C )  at theta_k,    c the offset, (J_C - d) / T for `per_step`, scaled alike
//! q = g.H^-1 g,  r = g.H^-1 b
//! ```
//!
//! A policy far over its limit is projected far away; such an x is shortened to x.H x / 2 = delta. The line search
//! accepts as that of CPO does.

use super::cpo::{gradients, search};
use super::natural::{add, dot, product, solve, solver_settings};
use super::{Column, Constraints, Info, Order, Passes, Update, trpo};
use crate::config::schema::words;

/// What it is and needs.
pub const INFO: Info = Info {
    name: "pcpo",
    summary: "Projection-based CPO: TRPO's step, projected back under the limit; one constraint",
    constraints: Constraints::One,
    order: Order::Second,
    multipliers: false,
};

words! {
    /// In which measure PCPO projects back under the limit.
    Projection {
        /// The KL of policies.
        Kl = "kl",
        /// The distance of parameters.
        L2 = "l2",
    }
}

solver_settings! {
    /// Measure of the projection back under the limit: the KL of policies or the distance of parameters.
    projection: Projection = Projection::Kl, Words(Projection::WORDS);
}

/// Its own columns of progress.csv.
pub const COLUMNS: &[Column] = &[Column::STEP_FRACTION];

/// The factors of H^-1 g and of L^-1 b in x, for s = b.L^-1 b.
pub fn projected_step(q: f64, r: f64, s: f64, c: f64, delta: f64) -> (f64, f64) {
    let reach = trpo::reach(q, delta);
    // A cost that does not depend on the policy gives no way back.
    let back = if s < 1e-10 { 0.0 } else { ((reach * r + c) / s).max(0.0) };
    (reach, -back)
}

/// One update. Without a constraint it is TRPO's.
pub fn update(settings: &Settings, update: &mut Update) -> Passes {
    let (solver, delta) = (settings.solver(), update.settings.target_kl);
    let mut report = Passes::new(update.offsets.len());
    let [c] = *update.offsets else {
        trpo::step(update, &solver, 1.0, &[], &mut report);
        return report;
    };
    let (g, b) = gradients(update);
    let mut x = solve(update, &solver, &g);
    let l_b = match settings.projection {
        Projection::Kl => solve(update, &solver, &b),
        Projection::L2 => b.clone(),
    };
    let (on_g, on_b) = projected_step(dot(&g, &x), dot(&b, &x), dot(&b, &l_b), c, delta);
    x.iter_mut().for_each(|x| *x *= on_g);
    add(&mut x, on_b, &l_b);
    let length = dot(&x, &product(update, &solver, &x)) / 2.0;
    if length > delta {
        x.iter_mut().for_each(|x| *x *= (delta / length).sqrt());
    }
    report.gradient_norm = dot(&g, &g).sqrt();
    search(update, &solver, &x, c, &mut report);
    report
}
