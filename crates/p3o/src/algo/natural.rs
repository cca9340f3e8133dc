//! What the second-order algorithms share: H, H^-1 v, and the line search.
//!
//! ```text
//! H   = Hessian of mean_s KL(pi_theta || pi_k)(s) at theta_k, plus damping     (theta includes the log deviations)
//! H v = J^T M J v + damping v       one pass forward with tangents and back; M the Fisher matrix of the policy's outputs
//! ```

use super::{Memory, Passes, PolicyBatch, measure};
use crate::config::{Config, SecondOrder};
use crate::policy::{PassSums, Policy};

/// Gradient of mean(r a) at theta_k, where r = 1, plus `entropy` times that of the mean entropy.
pub fn gradient(
    policy: &Policy,
    batch: &PolicyBatch,
    memory: &mut Memory,
    entropy: f64,
    advantage: impl Fn(usize) -> f32 + Sync,
) -> Vec<f64> {
    let weight = |_: &mut [f64], row: usize, ratio: f32| -ratio * advantage(row);
    policy.pass(&mut memory.policy, batch.x, None, &batch.old, entropy as f32, &mut memory.sums, weight);
    policy.gradient(&memory.policy).iter().map(|g| -g).collect()
}

/// H v
pub fn product(
    policy: &Policy,
    batch: &PolicyBatch,
    settings: &SecondOrder,
    memory: &mut Memory,
    v: &[f64],
) -> Vec<f64> {
    let mut product = policy.fisher_product(&mut memory.policy, batch.x, v);
    product.iter_mut().zip(v).for_each(|(p, v)| *p += settings.damping * v);
    product
}

/// H^-1 v
pub fn solve(policy: &Policy, batch: &PolicyBatch, settings: &SecondOrder, memory: &mut Memory, v: &[f64]) -> Vec<f64> {
    conjugate_gradients(v, settings.cg_iterations, |p| product(policy, batch, settings, memory, p))
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
/// Where there is none the policy stays. `report` and `memory.sums` get the outcome.
pub fn line_search(
    policy: &mut Policy,
    batch: &PolicyBatch,
    config: &Config,
    memory: &mut Memory,
    step: &[f64],
    report: &mut Passes,
    accept: impl Fn(&[f64], &[f64]) -> bool,
) {
    let start = policy.parameters();
    measure(policy, batch, memory);
    let before = memory.sums.clone();
    let inside = |sums: &PassSums| sums.is_finite() && sums.kl <= config.algo.trust_region();
    let mut fraction = 1.0;
    for _ in 0..=config.second_order.backtracks {
        let moved: Vec<f32> = start.iter().zip(step).map(|(&p, s)| (f64::from(p) + fraction * s) as f32).collect();
        policy.set_parameters(&moved);
        measure(policy, batch, memory);
        if inside(&memory.sums) && accept(&before.terms, &memory.sums.terms) {
            report.observe(&memory.sums, memory.sums.terms[0]);
            (report.fraction, report.steps) = (fraction, 1);
            return;
        }
        fraction *= config.second_order.backtrack;
    }
    policy.set_parameters(&start);
    memory.sums = before;
    report.observe(&memory.sums, memory.sums.terms[0]);
}

/// a.b, in order.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// to += factor v
pub fn add(to: &mut [f64], factor: f64, v: &[f64]) {
    to.iter_mut().zip(v).for_each(|(t, v)| *t += factor * v);
}
