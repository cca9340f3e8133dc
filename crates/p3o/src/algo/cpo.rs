//! Constrained Policy Optimization (Achiam et al., 2017), with one constraint.
//!
//! ```text
//! maximise g.x  subject to  c + b.x <= 0  and  x.H x / 2 <= delta
//! g = grad mean( r A_R ),  b = grad mean( r A_C )  at theta_k,    c the offset, (J_C - d) / T for `per_step`, scaled alike
//! q = g.H^-1 g,  r = g.H^-1 b,  s = b.H^-1 b,  A = q - r^2/s,  B = 2 delta - c^2/s
//! ```
//!
//! Where b ~ 0, or c < 0 and B < 0, all of the trust region is feasible: the step of TRPO. Where c > 0 and B < 0 none of
//! it is: x = -sqrt(2 delta / s) H^-1 b. Otherwise the limit cuts the trust region, and with the dual variables
//!
//! ```text
//! x  = H^-1 (g - nu b) / lam,   nu = max(0, (lam c + r) / s)
//! D(lam) = D_a = (A/lam + B lam)/2 - r c/s       where lam c + r > 0,   least at lam_a = sqrt(A/B)
//!          D_b = (q/lam + 2 delta lam)/2         elsewhere,             least at lam_b = sqrt(q / (2 delta))
//! ```
//!
//! where lam is the better of lam_a and lam_b, each brought into its interval; these end at lam = -r/c. The line search
//! takes the first fraction of x with KL <= delta, a cost surrogate that grows by no more than max(-c, 0), and a reward
//! surrogate that does not fall, unless the policy is over its limit (c > 0) and may have to pay for coming back.

use super::natural::{Solver, add, dot, gradient, line_search, solve, solver_settings};
use super::{Column, Constraints, Info, Order, Passes, Update, trpo};

/// What it is and needs.
pub const INFO: Info = Info {
    name: "cpo",
    summary: "Constrained Policy Optimization: second order, one constraint",
    constraints: Constraints::One,
    order: Order::Second,
    multipliers: false,
};

solver_settings! {}

/// Its own columns of progress.csv.
pub const COLUMNS: &[Column] =
    &[Column::STEP_FRACTION, Column::One("case", |p| p.case.map_or(f64::NAN, |case| f64::from(case as u8)))];

/// What the limit means for the trust region. The numbers are those of the column `case` in progress.csv.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Case {
    /// Nothing: all of it is feasible, or the cost does not depend on the policy.
    Free = 0,
    /// It cuts the region, and the policy is feasible.
    Feasible = 1,
    /// It cuts the region, and the policy is not feasible.
    Infeasible = 2,
    /// None of it is feasible.
    Recover = 3,
}

/// x = `on_g` H^-1 g + `on_b` H^-1 b
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Which case it is.
    pub case: Case,
    /// Factor of H^-1 g.
    pub on_g: f64,
    /// Factor of H^-1 b.
    pub on_b: f64,
}

/// The best step in the linear and quadratic model.
pub fn best_step(q: f64, r: f64, s: f64, c: f64, delta: f64) -> Step {
    let free = Step { case: Case::Free, on_g: trpo::reach(q, delta), on_b: 0.0 };
    if s < 1e-10 {
        return free;
    }
    let (a, b) = ((q - r * r / s).max(0.0), 2.0 * delta - c * c / s);
    if b <= 0.0 {
        return if c < 0.0 { free } else { Step { case: Case::Recover, on_g: 0.0, on_b: -(2.0 * delta / s).sqrt() } };
    }
    // Where lam c + r > 0 the constraint has a price: below the edge for c < 0, above it for c > 0.
    let edge = (-r / c).max(0.0);
    let (price, no_price) = match c {
        c if c < 0.0 => ((0.0, edge), (edge, f64::INFINITY)),
        c if c > 0.0 => ((edge, f64::INFINITY), (0.0, edge)),
        _ if r > 0.0 => ((0.0, f64::INFINITY), (0.0, 0.0)),
        _ => ((0.0, 0.0), (0.0, f64::INFINITY)),
    };
    // Never zero: x is divided by it.
    let inside = |lam: f64, (low, high): (f64, f64)| lam.min(high).max(low).max(1e-12);
    let (lam_a, lam_b) = (inside((a / b).sqrt(), price), inside((q / (2.0 * delta)).sqrt(), no_price));
    let dual = |lam: f64| {
        if lam * c + r > 0.0 { (a / lam + b * lam) / 2.0 - r * c / s } else { (q / lam + 2.0 * delta * lam) / 2.0 }
    };
    let lam = if dual(lam_a) <= dual(lam_b) { lam_a } else { lam_b };
    let nu = ((lam * c + r) / s).max(0.0);
    let case = if c > 0.0 { Case::Infeasible } else { Case::Feasible };
    Step { case, on_g: 1.0 / lam, on_b: -nu / lam }
}

/// Whether the line search takes a step that changes the surrogates so.
pub fn accepts(c: f64, reward_change: f64, cost_change: f64) -> bool {
    (reward_change >= 0.0 || c > 0.0) && cost_change <= (-c).max(0.0)
}

/// g and b.
pub(super) fn gradients(update: &mut Update) -> (Vec<f64>, Vec<f64>) {
    let g = gradient(update, update.settings.entropy, 1.0, &[0.0]);
    (g, gradient(update, 0.0, 0.0, &[-1.0]))
}

/// The line search of CPO and PCPO along x.
pub(super) fn search(update: &mut Update, solver: &Solver, x: &[f64], c: f64, report: &mut Passes) {
    line_search(update, solver, x, report, |before, after| accepts(c, before[0] - after[0], after[1] - before[1]));
}

/// One update. Without a constraint it is TRPO's.
pub fn update(settings: &Settings, update: &mut Update) -> Passes {
    let solver = settings.solver();
    let mut report = Passes::new(update.offsets.len());
    let [c] = *update.offsets else {
        trpo::step(update, &solver, 1.0, &[], &mut report);
        return report;
    };
    let (g, b) = gradients(update);
    let (h_g, h_b) = (solve(update, &solver, &g), solve(update, &solver, &b));
    let step = best_step(dot(&g, &h_g), dot(&g, &h_b), dot(&b, &h_b), c, update.settings.target_kl);
    let mut x = vec![0.0; g.len()];
    add(&mut x, step.on_g, &h_g);
    add(&mut x, step.on_b, &h_b);
    (report.gradient_norm, report.case) = (dot(&g, &g).sqrt(), Some(step.case));
    search(update, &solver, &x, c, &mut report);
    report
}
