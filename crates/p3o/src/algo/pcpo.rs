//! Projection-based Constrained Policy Optimization (Yang et al., 2020), with one constraint.
//!
//! The step of TRPO, and then the shortest way back under the limit, measured by L = H (`kl`) or L = I (`l2`):
//!
//! ```text
//! x = sqrt(2 delta / q) H^-1 g - max(0, (sqrt(2 delta / q) r + c) / (b.L^-1 b)) L^-1 b
//! g = grad mean( r A_R ),  b = grad mean( r A_C )  at theta_k,    c = (J_C - d) / T     both per step and scaled alike
//! q = g.H^-1 g,  r = g.H^-1 b
//! ```
//!
//! A policy far over its limit is projected far away; such an x is shortened to x.H x / 2 = delta. The line search
//! accepts as that of CPO does.

use super::cpo::accepts;
use super::natural::{add, dot, gradient, line_search, product, solve};
use super::{Memory, Passes, PolicyBatch, trpo};
use crate::config::{Config, Projection};
use crate::policy::Policy;

/// The factors of H^-1 g and of L^-1 b in x, for s = b.L^-1 b.
pub fn projected_step(q: f64, r: f64, s: f64, c: f64, delta: f64) -> (f64, f64) {
    let reach = trpo::reach(q, delta);
    // A cost that does not depend on the policy gives no way back.
    let back = if s < 1e-10 { 0.0 } else { ((reach * r + c) / s).max(0.0) };
    (reach, -back)
}

/// One update.
pub fn update(policy: &mut Policy, batch: &PolicyBatch, config: &Config, memory: &mut Memory) -> Passes {
    let (c, delta, settings) = (batch.offsets[0], config.algo.trust_region(), &config.second_order);
    let g = gradient(policy, batch, memory, config.algo.entropy, |row| batch.adv_r[row]);
    let b = gradient(policy, batch, memory, 0.0, |row| batch.adv_c[0][row]);
    let mut x = solve(policy, batch, settings, memory, &g);
    let l_b = match settings.projection {
        Projection::Kl => solve(policy, batch, settings, memory, &b),
        Projection::L2 => b.clone(),
    };
    let (on_g, on_b) = projected_step(dot(&g, &x), dot(&b, &x), dot(&b, &l_b), c, delta);
    x.iter_mut().for_each(|x| *x *= on_g);
    add(&mut x, on_b, &l_b);
    let length = dot(&x, &product(policy, batch, settings, memory, &x)) / 2.0;
    if length > delta {
        x.iter_mut().for_each(|x| *x *= (delta / length).sqrt());
    }
    let mut report = Passes { gradient_norm: dot(&g, &g).sqrt(), ..Passes::new(1) };
    line_search(policy, batch, config, memory, &x, &mut report, |before, after| {
        accepts(c, before[0] - after[0], after[1] - before[1])
    });
    report
}
