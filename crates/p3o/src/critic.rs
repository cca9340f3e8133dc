//! A critic per signal: V(s) fitted to the discounted sum of what follows.
//!
//! Adam moves every weight by about its learning rate, whatever the targets' unit is: returns in the hundreds would be
//! out of reach for many updates. So a critic may learn (target - mean) / standard deviation, with running statistics of the
//! targets, and V(s) = mean + standard deviation * net(s). When the statistics move, the output layer is corrected so that V stays
//! the same function (van Hasselt et al., NIPS 2016).

use crate::advantage::moments;
use crate::config::{Critic as Settings, Net};
use crate::policy::{all_finite, network};
use crate::ranks::Ranks;
use crate::reduce::reduce;
use crate::stop::Stop;
use p3o_nn::{Adam, Batch, Network, PassWorkspace, Source, parts_of};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The value of one signal.
pub struct Critic {
    /// From observation to value in the unit of `scale`.
    pub net: Network<f32>,
    /// Its optimiser.
    pub adam: Adam<f32>,
    /// The unit of the network's output.
    pub scale: TargetScale,
}

/// Running mean and standard deviation of a critic's targets; zero and one as long as nothing was seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetScale {
    /// The running mean.
    pub mean: f64,
    /// The running standard deviation.
    pub deviation: f64,
    seen: bool,
}

/// Share of the old statistics that an update keeps.
const KEPT: f64 = 0.9;
/// Targets that hardly vary are not blown up.
const LEAST_DEVIATION: f64 = 1e-3;
/// Values that a thread takes into another unit at a time, at least.
const SHARE: usize = 4096;

impl TargetScale {
    const PLAIN: TargetScale = TargetScale { mean: 0.0, deviation: 1.0, seen: false };

    /// The mean, and one divided by the deviation, as a network learns with them.
    pub fn unit(&self) -> (f32, f32) {
        (self.mean as f32, (1.0 / self.deviation) as f32)
    }

    /// With one more batch taken in; the first one alone decides.
    fn after(self, targets: &[f32]) -> TargetScale {
        let (mean, deviation) = moments(targets);
        let kept = if self.seen { KEPT } else { 0.0 };
        TargetScale {
            mean: kept * self.mean + (1.0 - kept) * mean,
            deviation: (kept * self.deviation + (1.0 - kept) * deviation).max(LEAST_DEVIATION),
            seen: true,
        }
    }
}

/// Workspace for fitting a critic.
pub struct CriticWorkspace {
    net: PassWorkspace<f32>,
    sums: Vec<f64>,
    order: Vec<u32>,
    picked: Batch<f32>,
    /// Ends a fit before its time.
    pub stop: Stop,
    /// The processes that share evaluations, and fits over whole batches.
    pub ranks: Ranks,
}

impl Critic {
    /// A fresh critic.
    pub fn new(net: &Net, obs_dim: usize, rng: &mut ChaCha8Rng) -> Self {
        let net = network(net, obs_dim, 1, 1.0, rng);
        Critic { adam: Adam::new(net.params().len(), 0.0), net, scale: TargetScale::PLAIN }
    }

    /// Workspace for batches of up to `parts` parts.
    pub fn workspace(&self, parts: usize) -> CriticWorkspace {
        CriticWorkspace {
            net: self.net.pass_workspace(parts),
            sums: vec![0.0; parts.max(1)],
            order: Vec::new(),
            picked: self.net.batch(),
            stop: Stop::default(),
            ranks: Ranks::default(),
        }
    }

    /// Values of a whole batch.
    pub fn evaluate(&self, workspace: &mut CriticWorkspace, x: &Batch<f32>, out: &mut [f32]) {
        evaluate(&workspace.ranks, &self.net, &mut workspace.net, x, out);
        self.denormalize(out);
    }

    /// The same with the state after every row; for a recurrent critic.
    pub fn unroll(&self, workspace: &mut CriticWorkspace, x: &Batch<f32>, out: &mut [f32], after: &mut [f32]) {
        let (ranks, units) = (&workspace.ranks, self.net.units());
        let rows = |rank: usize| x.rows_of(ranks.share(rank, x.pieces()));
        let own = rows(ranks.rank());
        let places = [&mut out[own.clone()], &mut after[own.start * units..own.end * units]];
        self.net.unroll_some(&mut workspace.net, x, ranks.own(x.pieces()), places);
        ranks.complete_numbers(out, &rows);
        ranks.complete_numbers(after, &|rank| rows(rank).start * units..rows(rank).end * units);
        self.denormalize(out);
    }

    /// Takes what the network says into the targets' unit.
    pub fn denormalize(&self, out: &mut [f32]) {
        if self.scale.seen {
            let (mean, deviation) = (self.scale.mean as f32, self.scale.deviation as f32);
            out.par_iter_mut().with_min_len(SHARE).for_each(|v| *v = deviation.mul_add(*v, mean));
        }
    }

    /// Takes in the targets' statistics; V stays the same function, unless it has learnt nothing yet.
    pub fn rescale(&mut self, targets: &[f32]) {
        let (old, new) = (self.scale, self.scale.after(targets));
        self.scale = new;
        if !old.seen {
            return;
        }
        let head = self.net.depth() - 1;
        let (mut weights, mut bias) = self.net.layer(head);
        let ratio = old.deviation / new.deviation;
        weights.iter_mut().for_each(|w| *w = (f64::from(*w) * ratio) as f32);
        bias[0] = (f64::from(bias[0]) * ratio + (old.mean - new.mean) / new.deviation) as f32;
        self.net.set_layer(head, &weights, &bias);
    }

    /// Minimises mean (V(s) - target)^2 over the batch (Algorithm 1, lines 6 and 7); `source` is what it was
    /// packed from, for mini-batches. Returns the loss at the first pass.
    pub fn fit(
        &mut self,
        workspace: &mut CriticWorkspace,
        settings: &Settings,
        x: &Batch<f32>,
        source: Source<f32>,
        targets: &[f32],
        rng: &mut ChaCha8Rng,
    ) -> f64 {
        if settings.normalize {
            self.rescale(targets);
        }
        workspace.net.share(workspace.ranks.peers().filter(|_| settings.minibatch == 0));
        let mut first = 0.0;
        for pass in 0..settings.passes {
            if workspace.stop.is_asked_for() {
                break;
            }
            let loss = if settings.minibatch == 0 {
                self.descend(workspace, x, true, |row| targets[row])
            } else {
                self.fit_minibatches(workspace, settings.minibatch / x.steps(), source, targets, rng)
            };
            if pass == 0 {
                first = loss;
            }
        }
        first
    }

    fn fit_minibatches(
        &mut self,
        workspace: &mut CriticWorkspace,
        size: usize,
        source: Source<f32>,
        targets: &[f32],
        rng: &mut ChaCha8Rng,
    ) -> f64 {
        shuffle(&mut workspace.order, targets.len() / source.steps, rng);
        let order = std::mem::take(&mut workspace.order);
        let mut picked = std::mem::replace(&mut workspace.picked, self.net.batch());
        let mut loss = 0.0;
        for part in order.chunks(size.max(1)) {
            picked.gather(source, part);
            let rows = picked.named(part);
            loss += self.descend(workspace, &picked, false, |i| targets[rows[i] as usize]) * rows.len() as f64;
        }
        (workspace.order, workspace.picked) = (order, picked);
        loss / targets.len() as f64
    }

    /// One gradient step, `shared` by all processes or this one's alone; returns the loss before it, in the targets' unit.
    fn descend(
        &mut self,
        workspace: &mut CriticWorkspace,
        x: &Batch<f32>,
        shared: bool,
        target: impl Fn(usize) -> f32 + Sync,
    ) -> f64 {
        let parts = x.parts();
        workspace.sums.resize(parts.max(workspace.sums.len()), 0.0);
        let sums = &mut workspace.sums[..parts];
        sums.fill(0.0);
        let share = 2.0 / x.rows() as f32;
        let (mean, unit) = self.scale.unit();
        self.net.pass(&mut workspace.net, x, sums, |sum, first, values, d| {
            for (i, (v, d)) in values.iter().zip(d).enumerate() {
                let error = v - (target(first + i) - mean) * unit;
                *sum += f64::from(error * error);
                *d = share * error;
            }
        });
        if shared {
            let ranks = &workspace.ranks;
            ranks.complete_numbers(sums, &|rank| parts_of(rank, ranks.size(), parts));
        }
        self.net.step(&mut self.adam, workspace.net.gradient());
        reduce(0.0, sums.iter().copied()) / x.rows() as f64 * self.scale.deviation.powi(2)
    }

    /// Whether every parameter is finite.
    pub fn is_finite(&self) -> bool {
        all_finite(self.net.params())
    }
}

/// The outputs of a whole batch, of which every process computes its share.
pub(crate) fn evaluate(
    ranks: &Ranks,
    net: &Network<f32>,
    workspace: &mut PassWorkspace<f32>,
    x: &Batch<f32>,
    out: &mut [f32],
) {
    let (pieces, width) = (x.pieces(), net.outputs());
    if pieces < ranks.size() {
        // Less than it would take to tell the others.
        return net.evaluate(workspace, x, out);
    }
    let place = |rank: usize| {
        let rows = x.rows_of(ranks.share(rank, pieces));
        rows.start * width..rows.end * width
    };
    net.evaluate_some(workspace, x, ranks.own(pieces), &mut out[place(ranks.rank())]);
    ranks.complete_numbers(out, &place);
}

/// 0..n in random order (Fisher and Yates).
pub fn shuffle(order: &mut Vec<u32>, n: usize, rng: &mut impl Rng) {
    order.clear();
    order.extend(0..n as u32);
    for i in (1..n).rev() {
        order.swap(i, rng.random_range(0..=i));
    }
}
