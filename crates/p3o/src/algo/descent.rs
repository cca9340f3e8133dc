//! What the first-order algorithms share: passes of Adam over the batch, whole or in mini-batches, until the mean KL from
//! pi_k leaves the trust region (Algorithm 2).

use super::{Passes, Update, mean};
use crate::batch::TrainingBatch;
use crate::critic::shuffle;
use crate::engine::{Descent, EXTRA_TERMS, PolicyEngine, Record, RowLoss, Rule, Sums};

/// What an algorithm minimises, pass by pass.
pub trait Objective {
    /// How its loss depends on the batch's mean cost surrogates.
    fn foresight(&self) -> Foresight;

    /// The loss of a pass in which the mean surrogates of the costs are `means`, offsets not included.
    fn loss(&self, means: &[f64]) -> RowLoss;

    /// The loss of the pass that is so many ahead of the next, for the means that the rule is given then.
    fn rule(&self, ahead: usize) -> (RowLoss, Rule);

    /// Takes in a pass: its sums and the means that its loss was made for.
    fn observe(&mut self, sums: &Sums, means: &[f64], report: &mut Passes);
}

/// How a loss depends on the batch's mean cost surrogates, which are only known after a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foresight {
    /// Not at all.
    None,
    /// By their signs: those of the last pass are taken, and the pass is repeated if it proves them wrong.
    Guess,
    /// Smoothly: a forward pass measures them first.
    Measure,
}

/// Minimises an objective. Over whole batches the KL of a pass is known before its step, which is not taken outside the trust
/// region; over mini-batches it is known after a pass of steps.
///
/// An engine that can makes all passes by itself; what it saw is then gone through again here, so that figures and decisions have
/// one source.
pub fn descend(update: &mut Update, objective: &mut impl Objective, report: &mut Passes) {
    let settings = update.settings;
    let descent = Descent {
        passes: (0..settings.passes).map(|ahead| objective.rule(ahead)).collect(),
        entropy: settings.entropy as f32,
        learning_rate: update.learning_rate,
        target_kl: settings.target_kl,
        minibatch: (settings.minibatch > 0).then(|| (settings.minibatch, update.rng.clone())),
    };
    let Some(record) = update.engine.descend(update.batch, &descent) else {
        return descend_by_passes(update, objective, report);
    };
    let mut playback = Playback { record, at: 0 };
    let Update { batch, offsets, excess, limits, settings, learning_rate, .. } = *update;
    let (multipliers, rng) = (&mut *update.multipliers, &mut *update.rng);
    let engine = &mut playback;
    let mut again = Update { engine, batch, offsets, excess, limits, settings, learning_rate, multipliers, rng };
    descend_by_passes(&mut again, objective, report);
}

/// Passes that were made already: a pass is the one at hand until its step is taken.
struct Playback {
    record: Record,
    at: usize,
}

impl Playback {
    /// Figures that are not finite end every loop: an engine that failed has no more of them.
    fn look(&self, costs: usize) -> Sums {
        let none = || Sums { kl: f64::NAN, terms: vec![f64::NAN; 1 + costs + EXTRA_TERMS] };
        self.record.sums.get(self.at).cloned().unwrap_or_else(none)
    }
}

impl PolicyEngine for Playback {
    fn pass(&mut self, batch: &TrainingBatch, _: Option<&[u32]>, _: &RowLoss, _: f32) -> Sums {
        self.look(batch.costs().len())
    }

    fn measure(&mut self, batch: &TrainingBatch) -> Sums {
        self.look(batch.costs().len())
    }

    fn step(&mut self, _: f64) -> f64 {
        self.at += 1;
        self.record.gradient_norm
    }

    fn gradient(&mut self) -> Vec<f64> {
        unreachable!("a descent of first order asks for steps alone")
    }

    fn fisher_product(&mut self, _: &[f64]) -> Vec<f64> {
        unreachable!("a descent of first order asks for steps alone")
    }

    fn parameters(&mut self) -> Vec<f32> {
        unreachable!("a descent of first order asks for steps alone")
    }

    fn set_parameters(&mut self, _: &[f32]) {
        unreachable!("a descent of first order asks for steps alone")
    }
}

fn descend_by_passes(update: &mut Update, objective: &mut impl Objective, report: &mut Passes) {
    if update.settings.minibatch > 0 {
        return descend_in_parts(update, objective, report);
    }
    let (m, entropy) = (update.offsets.len(), update.settings.entropy as f32);
    // At theta_k every ratio is one, and a surrogate's mean is that of the advantages.
    let mut means: Vec<f64> = update.batch.costs().iter().map(|adv| mean(adv)).collect();
    for _ in 0..update.settings.passes {
        if update.batch.stop.is_asked_for() {
            break;
        }
        if objective.foresight() == Foresight::Measure {
            means.copy_from_slice(&update.engine.measure(update.batch).terms[1..=m]);
        }
        let sums = loop {
            let loss = objective.loss(&means);
            let sums = update.engine.pass(update.batch, None, &loss, entropy);
            if objective.foresight() != Foresight::Guess {
                break sums;
            }
            means.copy_from_slice(&sums.terms[1..=m]);
            if objective.loss(&means) == loss {
                break sums;
            }
            report.redone += 1;
        };
        objective.observe(&sums, &means, report);
        if !sums.is_finite() || sums.kl > update.settings.target_kl {
            break;
        }
        report.stepped(update.engine.step(update.learning_rate));
    }
}

/// The same over mini-batches. The means that a loss depends on are those over the last batch's worth of mini-batches,
/// never of one of them; the KL likewise, once per pass.
fn descend_in_parts(update: &mut Update, objective: &mut impl Objective, report: &mut Passes) {
    // A piece of the batch is a row, or a sequence where the policy is recurrent.
    let bptt = update.batch.bptt;
    let (total, size) = (update.batch.rows() / bptt, (update.settings.minibatch / bptt).max(1));
    // A mini-batch weighs as much as its pieces: the last one may be short.
    let weight = |pieces: usize| pieces as f64 / total as f64;
    let weights = (0..total).step_by(size).map(|first| weight(size.min(total - first)));
    let mut recent: Vec<Vec<f64>> =
        update.batch.costs().iter().map(|adv| weights.clone().map(|weight| weight * mean(adv)).collect()).collect();
    let (entropy, mut order) = (update.settings.entropy as f32, Vec::new());
    for _ in 0..update.settings.passes {
        if update.batch.stop.is_asked_for() {
            break;
        }
        shuffle(&mut order, total, update.rng);
        let mut pass = Sums::default();
        let mut means = Vec::new();
        let mut finite = true;
        for (part, pieces) in order.chunks(size).enumerate() {
            means = recent.iter().map(|parts| parts.iter().sum::<f64>()).collect();
            let sums = update.engine.pass(update.batch, Some(pieces), &objective.loss(&means), entropy);
            pass.add(&sums, weight(pieces.len()));
            finite = sums.is_finite();
            if !finite {
                break;
            }
            recent.iter_mut().zip(&sums.terms[1..]).for_each(|(r, m)| r[part] = weight(pieces.len()) * m);
            report.stepped(update.engine.step(update.learning_rate));
        }
        objective.observe(&pass, &means, report);
        if !finite || pass.kl > update.settings.target_kl {
            break;
        }
    }
}
