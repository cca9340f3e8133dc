//! Trust Region Policy Optimization (Schulman et al., 2015), which ignores costs.
//!
//! ```text
//! maximise g.x  subject to  x.H x / 2 <= delta:    x = sqrt(2 delta / g.H^-1 g) H^-1 g
//! g = grad mean( r A_R )  at theta_k
//! ```
//!
//! The line search takes the first fraction of x with KL <= delta for which mean(r A_R) does not fall.

use super::natural::{Solver, dot, gradient, line_search, solve, solver_settings};
use super::{Column, Constraints, Info, Order, Passes, Update, ppo_lag};

/// What it is and needs.
pub const INFO: Info = Info {
    name: "trpo",
    summary: "Trust Region Policy Optimization: second order, ignores the costs",
    constraints: Constraints::None,
    order: Order::Second,
    multipliers: false,
};

solver_settings! {}

/// Its own columns of progress.csv.
pub const COLUMNS: &[Column] = &[Column::STEP_FRACTION];

/// sqrt(2 delta / q), for q = g.H^-1 g: how far along H^-1 g the trust region reaches; zero with nothing to gain.
pub fn reach(q: f64, delta: f64) -> f64 {
    if q < 1e-12 { 0.0 } else { (2.0 * delta / q).sqrt() }
}

/// The step for the advantage x_R A_R - sum_i x_i A_C_i: TRPO's own for x_R = 1, and TRPO-L's for its shares.
pub(super) fn step(update: &mut Update, solver: &Solver, x_r: f64, x_c: &[f64], report: &mut Passes) {
    let g = gradient(update, update.settings.entropy, x_r, x_c);
    let mut x = solve(update, solver, &g);
    let reach = reach(dot(&g, &x), update.settings.target_kl);
    x.iter_mut().for_each(|x| *x *= reach);
    report.gradient_norm = dot(&g, &g).sqrt();
    let end = line_search(update, solver, &x, report, |before, after| {
        ppo_lag::loss(after, x_r, x_c) <= ppo_lag::loss(before, x_r, x_c)
    });
    report.loss = ppo_lag::loss(&end.terms, x_r, x_c);
}

/// One update.
pub fn update(settings: &Settings, update: &mut Update) -> Passes {
    let mut report = Passes::new(0);
    step(update, &settings.solver(), 1.0, &[], &mut report);
    report
}
