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
//! PPO. `algo.balance`, which the paper does not have, divides the gradient by 1 + kappa times the penalised constraints.

use super::{Memory, Passes, PolicyBatch, descend, mean};
use crate::config::{Algo, KappaSchedule};
use crate::critic::shuffle;
use crate::policy::{PassSums, Policy};
use p3o_nn::Real;
use rand_chacha::ChaCha8Rng;

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

/// The penalised loss (cppo5) from the batch means: `terms` holds L_R and the means of the cost terms.
pub fn loss(terms: &[f64], offsets: &[f64], kappa: f64) -> f64 {
    let penalty = terms[1..].iter().zip(offsets).map(|(mean, offset)| (mean + offset).max(0.0));
    terms[0] + kappa * penalty.sum::<f64>()
}

/// Algorithm 2, line 5: kappa for the next pass.
fn next_kappa(kappa: f64, settings: &Algo) -> f64 {
    match settings.kappa_schedule {
        KappaSchedule::Fixed => kappa,
        KappaSchedule::Adaptive => (settings.kappa_growth * kappa).min(settings.kappa_max),
    }
}

/// Algorithm 2: passes over one batch.
pub fn update(policy: &mut Policy, batch: &PolicyBatch, settings: &Algo, memory: &mut Memory) -> Passes {
    let mut kappa = settings.kappa;
    // At theta_k every ratio is one, so L_C_i is the mean advantage plus the offset.
    let mut gates: Vec<bool> = batch.adv_c.iter().zip(batch.offsets).map(|(a, o)| mean(a) + o > 0.0).collect();
    let mut report = Passes::new(gates.len());
    descend(policy, settings, memory, &mut report, |policy, memory, report| {
        // The gates are guessed from the last pass; should an L_C_i prove to be on the other side, the pass is redone.
        loop {
            penalized_pass(policy, batch, settings, memory, None, kappa, &gates);
            let means = &memory.sums.terms[1..];
            let truth = means.iter().zip(batch.offsets).map(|(mean, offset)| mean + offset > 0.0);
            if truth.clone().eq(gates.iter().copied()) {
                break;
            }
            gates.iter_mut().zip(truth).for_each(|(gate, truth)| *gate = truth);
            report.redone += 1;
        }
        report.observe(&memory.sums, loss(&memory.sums.terms, batch.offsets, kappa));
        report.penalize(&gates);
        report.kappa = kappa;
        kappa = next_kappa(kappa, settings);
    });
    report
}

/// The same over mini-batches. Whether a constraint is penalised is decided on its mean over the last batch's worth of
/// mini-batches, never on one of them; the KL likewise, once per pass.
pub fn update_minibatches(
    policy: &mut Policy,
    batch: &PolicyBatch,
    settings: &Algo,
    memory: &mut Memory,
    rng: &mut ChaCha8Rng,
) -> Passes {
    // A piece of the batch is a row, or a sequence where the policy remembers.
    let steps = batch.x.steps();
    let (total, size) = (batch.x.rows() / steps, (settings.minibatch / steps).max(1));
    // A part weighs as much as its pieces: the last one may be short.
    let share = |pieces: usize| pieces as f64 / total as f64;
    let shares = (0..total).step_by(size).map(|first| share(size.min(total - first)));
    let mut recent: Vec<Vec<f64>> =
        batch.adv_c.iter().map(|a| shares.clone().map(|share| share * mean(a)).collect()).collect();
    let mut kappa = settings.kappa;
    let mut report = Passes::new(recent.len());
    for _ in 0..settings.passes {
        shuffle(&mut memory.order, total, rng);
        let order = std::mem::take(&mut memory.order);
        let mut epoch = PassSums::new(1 + recent.len());
        let mut gates = Vec::new();
        for (part, pieces) in order.chunks(size).enumerate() {
            gates = recent.iter().zip(batch.offsets).map(|(m, o)| m.iter().sum::<f64>() + o > 0.0).collect();
            penalized_pass(policy, batch, settings, memory, Some(pieces), kappa, &gates);
            epoch.add(&memory.sums, share(pieces.len()));
            if !memory.sums.is_finite() {
                break;
            }
            recent.iter_mut().zip(&memory.sums.terms[1..]).for_each(|(r, m)| r[part] = share(pieces.len()) * m);
            report.stepped(policy.step(&memory.policy));
        }
        memory.order = order;
        report.observe(&epoch, loss(&epoch.terms, batch.offsets, kappa));
        report.penalize(&gates);
        report.kappa = kappa;
        if !memory.sums.is_finite() || epoch.kl > settings.trust_region() {
            break;
        }
        kappa = next_kappa(kappa, settings);
    }
    report
}

/// Gradient of L over some pieces of the batch (all without `pieces`), balanced if wanted, and the means L_R, L_C_i - offset_i and KL in `memory.sums`.
fn penalized_pass(
    policy: &Policy,
    batch: &PolicyBatch,
    settings: &Algo,
    memory: &mut Memory,
    pieces: Option<&[u32]>,
    kappa: f64,
    gates: &[bool],
) {
    let (epsilon, kappa) = (settings.clip as f32, kappa as f32);
    let penalized = gates.iter().filter(|gate| **gate).count() as f32;
    let share = if settings.balance { 1.0 / (1.0 + kappa * penalized) } else { 1.0 };
    let weight = |terms: &mut [f64], row: usize, ratio: f32| {
        let (term, mut w) = reward_term(ratio, batch.adv_r[row], epsilon);
        terms[0] += f64::from(term);
        for (i, adv_c) in batch.adv_c.iter().enumerate() {
            let (term, slope) = cost_term(ratio, adv_c[row], epsilon);
            terms[1 + i] += f64::from(term);
            if gates[i] {
                w += kappa * slope;
            }
        }
        share * w
    };
    let (x, rows) = match pieces {
        None => (batch.x, None),
        Some(pieces) => {
            memory.picked.gather(batch.source, pieces);
            (&memory.picked, Some(memory.picked.named(pieces)))
        }
    };
    let entropy = settings.entropy as f32;
    policy.pass(&mut memory.policy, x, rows, &batch.old, entropy, &mut memory.sums, weight);
}
