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
/// region; over mini-batches it is known after a pass of steps. With `policy.average` it ends at the average of its last steps.
///
/// An engine that can makes all passes by itself; what it saw is then gone through again here, so that figures and decisions have
/// one source.
pub fn descend(update: &mut Update, objective: &mut impl Objective, report: &mut Passes) {
    let steps = Parts::of(update).steps();
    let Update { engine, batch, offsets, excess, limits, settings, learning_rate, multipliers, rng } = update;
    let descent = Descent {
        passes: (0..settings.passes).map(|ahead| objective.rule(ahead)).collect(),
        entropy: settings.entropy as f32,
        learning_rate: *learning_rate,
        target_kl: settings.target_kl,
        minibatch: (settings.minibatch > 0).then(|| (settings.minibatch, rng.clone())),
        average: settings.average * steps,
    };
    let mut playback = engine.descend(batch, &descent).map(|record| Playback { record, at: 0 });
    let mut averaging = Averaging { engine: &mut **engine, descent: &descent, taken: 0, mean: Vec::new() };
    let engine: &mut dyn PolicyEngine = match &mut playback {
        Some(playback) => playback,
        None => &mut averaging,
    };
    let (batch, learning_rate) = (*batch, *learning_rate);
    let mut passes = Update { engine, batch, offsets, excess, limits, settings, learning_rate, multipliers, rng };
    descend_by_passes(&mut passes, objective, report);
    averaging.finish();
}

/// An engine that keeps the moving average of its parameters if the descent asks for one. Steps follow the noise of their mini-batches, which
/// the average leaves out, and with it the KL that the noise costs.
struct Averaging<'a> {
    engine: &'a mut dyn PolicyEngine,
    descent: &'a Descent,
    taken: usize,
    mean: Vec<f64>,
}

impl Averaging<'_> {
    /// Goes to the average.
    fn finish(self) {
        if self.taken > 0 {
            let mean: Vec<f32> = self.mean.iter().map(|&value| value as f32).collect();
            self.engine.set_parameters(&mean);
        }
    }
}

impl PolicyEngine for Averaging<'_> {
    fn pass(&mut self, batch: &TrainingBatch, pieces: Option<&[u32]>, loss: &RowLoss, entropy: f32) -> Sums {
        self.engine.pass(batch, pieces, loss, entropy)
    }

    fn measure(&mut self, batch: &TrainingBatch) -> Sums {
        self.engine.measure(batch)
    }

    fn step(&mut self, learning_rate: f64) -> f64 {
        let norm = self.engine.step(learning_rate);
        if self.descent.average > 0 {
            let now = self.engine.parameters();
            self.taken += 1;
            self.mean.resize(now.len(), 0.0);
            let share = self.descent.share_of_average(self.taken);
            self.mean.iter_mut().zip(&now).for_each(|(mean, &value)| *mean += share * (f64::from(value) - *mean));
        }
        norm
    }

    fn gradient(&mut self) -> Vec<f64> {
        self.engine.gradient()
    }

    fn fisher_product(&mut self, v: &[f64]) -> Vec<f64> {
        self.engine.fisher_product(v)
    }

    fn parameters(&mut self) -> Vec<f32> {
        self.engine.parameters()
    }

    fn set_parameters(&mut self, parameters: &[f32]) {
        self.engine.set_parameters(parameters);
    }
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

/// How a pass goes through the batch's pieces: rows, or sequences where the policy is recurrent.
struct Parts {
    total: usize,
    size: usize,
}

impl Parts {
    fn of(update: &Update) -> Parts {
        let (bptt, minibatch) = (update.batch.bptt, update.settings.minibatch);
        let total = update.batch.rows() / bptt;
        Parts { total, size: if minibatch > 0 { (minibatch / bptt).max(1) } else { total } }
    }

    /// Steps in a pass.
    fn steps(&self) -> usize {
        self.total.div_ceil(self.size)
    }
}

/// The same over mini-batches. The means that a loss depends on are those over the last batch's worth of mini-batches,
/// never of one of them; the KL likewise, once per pass.
fn descend_in_parts(update: &mut Update, objective: &mut impl Objective, report: &mut Passes) {
    let Parts { total, size } = Parts::of(update);
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
