//! The engine in host memory: forward, weights per row and backward are one fused pass over tiles that stay in the cache.

use super::critic_states::CriticStates;
use super::{CriticEngine, EXTRA_TERMS, Engine, Networks, PolicyEngine, RowLoss, Sums};
use crate::algo::natural::add_terms;
use crate::batch::TrainingBatch;
use crate::config;
use crate::critic::{Critic, CriticWorkspace, evaluate};
use crate::policy::{Behaviour, Policy, norm};
use crate::ranks::Ranks;
use crate::reduce::{Part, reduce};
use p3o_nn::multi_categorical::{self, Rows};
use p3o_nn::{Batch, PassWorkspace, Source, gaussian, parts_of};
use rand_chacha::ChaCha8Rng;

/// Parts of a batch that are summed apart, at most.
const PARTS: usize = p3o_nn::MAX_PARTS;

/// See the module.
pub struct CpuEngine {
    networks: Networks,
    actor: ActorSide,
    critics: CriticSide,
    /// The rows packed for the actor, and for the critics where they see them too.
    x: Batch<f32>,
    /// The processes that share passes over whole batches.
    ranks: Ranks,
}

/// What the actor's passes need.
struct ActorSide {
    net: PassWorkspace<f32>,
    sums: Vec<PartSums>,
    d_log_std: Vec<f32>,
    against: gaussian::Against<f32>,
    outputs: Vec<f32>,
    direction: Vec<f32>,
    picked: Batch<f32>,
}

/// What the critics' fits need.
struct CriticSide {
    workspaces: Vec<CriticWorkspace>,
    /// One per recurrent critic.
    states: Vec<CriticStates>,
    /// What the critics see, packed, where it is not what the actor sees.
    x: Option<Batch<f32>>,
    open_x: Batch<f32>,
}

/// Sums over one part of a batch.
#[derive(Clone, Debug, Default)]
struct PartSums {
    sums: Sums,
    /// Gradient of the loss with respect to `log_std`.
    d_log_std: Vec<f32>,
    /// The row at hand, where actions are discrete.
    discrete: Rows<f32>,
}

impl CpuEngine {
    /// For these networks; `several` if the critics see several agents in a row, and so other rows than the actor.
    pub fn new(networks: Networks, several: bool) -> Self {
        let Networks { policy, critics } = &networks;
        let d_log_std = vec![0.0; policy.log_std.len()];
        let sums = PartSums {
            sums: Sums::zero(critics.len() + EXTRA_TERMS),
            d_log_std: d_log_std.clone(),
            discrete: Rows::new(&policy.heads),
        };
        let actor = ActorSide {
            net: policy.net.pass_workspace(PARTS),
            sums: vec![sums; PARTS],
            d_log_std,
            against: gaussian::Against::default(),
            outputs: Vec::new(),
            direction: Vec::new(),
            picked: policy.net.batch(),
        };
        let recurrent = critics.iter().filter(|critic| critic.net.units() > 0);
        let states: Vec<CriticStates> = recurrent.map(|critic| CriticStates::new(&critic.net)).collect();
        let critics = CriticSide {
            workspaces: critics.iter().map(|critic| critic.workspace(PARTS)).collect(),
            x: (several && states.is_empty()).then(|| critics[0].net.batch()),
            states,
            open_x: critics[0].net.batch(),
        };
        CpuEngine { x: policy.net.batch(), actor, critics, networks, ranks: Ranks::default() }
    }

    fn sides(&mut self) -> (CpuActor<'_>, CpuCritics<'_>) {
        let CpuEngine { networks: Networks { policy, critics }, actor, critics: side, x, ranks } = self;
        (CpuActor { policy, side: actor, x, ranks }, CpuCritics { critics, side, x })
    }
}

impl Engine for CpuEngine {
    fn networks(&self) -> &Networks {
        &self.networks
    }

    fn change_networks(&mut self, change: &mut dyn FnMut(&mut Networks) -> Result<(), String>) -> Result<(), String> {
        change(&mut self.networks)
    }

    fn critic_states(&self) -> Vec<Vec<f32>> {
        self.critics.states.iter().map(|states| states.first.clone()).collect()
    }

    fn set_critic_states(&mut self, all: Vec<Vec<f32>>) {
        self.critics.states.iter_mut().zip(all).for_each(|(states, first)| states.first = first);
    }

    fn upload(&mut self, batch: &TrainingBatch) {
        self.x.fill(source(batch, batch.actor_rows(), &batch.states));
        // Recurrent critics pack rows themselves: their states differ.
        if self.critics.states.is_empty() {
            self.critics.open_x.fill(Source::of_rows(&batch.open_rows));
            if let Some(x) = &mut self.critics.x {
                x.fill(Source::of_rows(&batch.critic_rows));
            }
        }
    }

    fn upload_targets(&mut self, _: &TrainingBatch) {}

    fn share_out(&mut self, ranks: &Ranks) {
        self.ranks = ranks.clone();
        self.critics.workspaces.iter_mut().for_each(|workspace| workspace.ranks = ranks.clone());
    }

    fn parts(&mut self) -> (Box<dyn PolicyEngine + '_>, Box<dyn CriticEngine + '_>) {
        let (actor, critics) = self.sides();
        (Box::new(actor), Box::new(critics))
    }

    fn check(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Rows of a batch with the states before them.
fn source<'a>(batch: &'a TrainingBatch, rows: &'a [f32], states: &'a [f32]) -> Source<'a, f32> {
    Source { rows, steps: batch.bptt, states, starts: &batch.starts }
}

/// The actor's side of a [`CpuEngine`].
struct CpuActor<'a> {
    policy: &'a mut Policy,
    side: &'a mut ActorSide,
    x: &'a Batch<f32>,
    ranks: &'a Ranks,
}

impl PolicyEngine for CpuActor<'_> {
    fn pass(&mut self, batch: &TrainingBatch, pieces: Option<&[u32]>, loss: &RowLoss, entropy: f32) -> Sums {
        let adv = &batch.advantages[..];
        if let Some(pieces) = pieces {
            self.side.picked.gather(source(batch, batch.actor_rows(), &batch.states), pieces);
        }
        match loss {
            RowLoss::Clipped(loss) => self.weighted_pass::<false>(batch, pieces, entropy, |terms, row, ratio, _| {
                (loss.weigh(adv, row, ratio, terms), 0.0)
            }),
            RowLoss::Proximal(loss) => self.weighted_pass::<true>(batch, pieces, entropy, |terms, row, ratio, kl| {
                loss.weigh(adv, row, ratio, kl, terms)
            }),
            RowLoss::Surrogate(loss) => self.weighted_pass::<false>(batch, pieces, entropy, |terms, row, ratio, _| {
                (loss.weigh(adv, row, ratio, terms), 0.0)
            }),
        }
    }

    fn measure(&mut self, batch: &TrainingBatch) -> Sums {
        let (policy, old) = (&*self.policy, batch.old());
        let mut outputs = std::mem::take(&mut self.side.outputs);
        outputs.resize(self.x.rows() * policy.net.outputs(), 0.0);
        evaluate(self.ranks, &policy.net, &mut self.side.net, self.x, &mut outputs);
        self.side.against.set(&policy.log_std, old.log_std);
        let sums = &mut self.side.sums[0].sums;
        sums.clear();
        for (row, out) in outputs.chunks_exact(policy.net.outputs()).enumerate() {
            let (ratio, kl) = compare(policy, &self.side.against, &old, row, out);
            sums.kl += f64::from(kl);
            add_terms(&batch.advantages, row, ratio, &mut sums.terms);
        }
        self.side.outputs = outputs;
        sums.scaled(self.x.rows())
    }

    fn step(&mut self, learning_rate: f64) -> f64 {
        let gradient = self.side.net.gradient();
        (self.policy.adam.learning_rate, self.policy.adam_log_std.learning_rate) = (learning_rate, learning_rate);
        self.policy.net.step(&mut self.policy.adam, gradient);
        self.policy.adam_log_std.step_few(&mut self.policy.log_std, &self.side.d_log_std);
        norm(gradient)
    }

    fn gradient(&mut self) -> Vec<f64> {
        self.side.net.gradient().iter().chain(&self.side.d_log_std).map(|&g| f64::from(g)).collect()
    }

    /// J^T M J v for the network, twice the identity for `log_std`.
    fn fisher_product(&mut self, v: &[f64]) -> Vec<f64> {
        let (policy, side, x) = (&*self.policy, &mut *self.side, self.x);
        let (n, share) = (policy.net.outputs(), 1.0 / x.rows() as f32);
        let (v_net, v_log_std) = v.split_at(policy.net.params().len());
        side.direction.clear();
        side.direction.extend(v_net.iter().map(|&v| v as f32));
        side.against.set(&policy.log_std, &policy.log_std);
        let against = &side.against;
        let mut nothing = vec![(); x.parts()];
        side.net.share(self.ranks.peers());
        policy.net.tangent_pass(&mut side.net, x, &side.direction, &mut nothing, |(), _, outputs, tangents, d| {
            d.fill(0.0);
            let rows = outputs.chunks_exact(n).zip(tangents.chunks_exact(n)).zip(d.chunks_exact_mut(n));
            for ((out, tangent), d) in rows {
                if policy.is_discrete() {
                    multi_categorical::fisher(&policy.heads, out, tangent, share, d);
                } else {
                    against.fisher(tangent, share, d);
                }
            }
        });
        let product = side.net.gradient().iter().map(|&p| f64::from(p));
        product.chain(v_log_std.iter().map(|v| 2.0 * v)).collect()
    }

    fn parameters(&mut self) -> Vec<f32> {
        self.policy.parameters()
    }

    fn set_parameters(&mut self, parameters: &[f32]) {
        self.policy.set_parameters(parameters);
    }
}

impl CpuActor<'_> {
    /// The gradient of mean_t (w_t log pi(a_t | s_t) + u_t KL(pi_theta || pi_k)(s_t)) minus `entropy` times the mean entropy, with
    /// (w_t, u_t) = `weights(terms, row, ratio, kl)`; u_t counts only with `KL`.
    fn weighted_pass<const KL: bool>(
        &mut self,
        batch: &TrainingBatch,
        pieces: Option<&[u32]>,
        entropy: f32,
        weights: impl Fn(&mut [f64], usize, f32, f32) -> (f32, f32) + Sync,
    ) -> Sums {
        let (policy, side, old) = (&*self.policy, &mut *self.side, batch.old());
        let (x, rows) = match pieces {
            None => (self.x, None),
            Some(pieces) => (&side.picked, Some(side.picked.named(pieces))),
        };
        let parts = x.parts();
        let (n, width) = (policy.net.outputs(), policy.action_width());
        let share = 1.0 / x.rows() as f32;
        while side.sums.len() < parts {
            side.sums.push(side.sums[0].clone());
        }
        side.net.share(self.ranks.peers().filter(|_| pieces.is_none()));
        let sums = &mut side.sums[..parts];
        sums.iter_mut().for_each(PartSums::clear);
        side.against.set(&policy.log_std, old.log_std);
        let against = &side.against;
        policy.net.pass(&mut side.net, x, sums, |PartSums { sums, d_log_std, discrete }, first, outputs, d_outputs| {
            for (i, (out, d)) in outputs.chunks_exact(n).zip(d_outputs.chunks_exact_mut(n)).enumerate() {
                let row = rows.map_or(first + i, |rows| rows[first + i] as usize);
                let action = &old.actions[row * width..][..width];
                let was = &old.outputs[row * n..][..n];
                let mut weigh = |ratio: f32, kl: f32| {
                    sums.kl += f64::from(kl);
                    let (w, u) = weights(&mut sums.terms, row, ratio, kl);
                    (w * share, u * share)
                };
                if policy.is_discrete() {
                    discrete.set(out, d);
                    let ratio = libm::expf(discrete.log_prob(out, action) - old.log_probs[row]);
                    let (w, u) = weigh(ratio, discrete.kl(out, d, was));
                    discrete.gradient(out, action, w, -entropy * share, d);
                    if KL {
                        multi_categorical::kl_grad(&policy.heads, out, was, u, d);
                    }
                } else {
                    let (ratio, kl) = compare(policy, against, &old, row, out);
                    let (w, u) = weigh(ratio, kl);
                    d.fill(0.0);
                    against.log_prob_grad(out, action, w, d, d_log_std);
                    d_log_std.iter_mut().for_each(|g| *g -= entropy * share);
                    if KL {
                        against.kl_grad(out, was, u, d, d_log_std);
                    }
                }
            }
        });
        if pieces.is_none() {
            complete(self.ranks, &mut side.sums[..parts]);
        }
        let zero = PartSums { d_log_std: vec![0.0; side.d_log_std.len()], ..PartSums::default() };
        let total = reduce(zero, side.sums[..parts].iter().map(|part| part.scaled(x.rows())));
        side.d_log_std.copy_from_slice(&total.d_log_std);
        total.sums
    }
}

/// Brings together the sums of a batch's parts that the processes have.
fn complete(ranks: &Ranks, parts: &mut [PartSums]) {
    if ranks.is_alone() {
        return;
    }
    let width = 1 + parts[0].sums.terms.len() + parts[0].d_log_std.len();
    let numbers = |part: &PartSums| {
        let terms = part.sums.terms.iter().copied();
        std::iter::once(part.sums.kl).chain(terms).chain(part.d_log_std.iter().map(|&d| f64::from(d))).collect()
    };
    let mut all: Vec<f64> = parts.iter().flat_map(|part| -> Vec<f64> { numbers(part) }).collect();
    let own = |rank: usize| parts_of(rank, ranks.size(), parts.len());
    ranks.complete_numbers(&mut all, &|rank| own(rank).start * width..own(rank).end * width);
    for (part, all) in parts.iter_mut().zip(all.chunks_exact(width)) {
        let (terms, d_log_std) = all[1..].split_at(part.sums.terms.len());
        part.sums.kl = all[0];
        part.sums.terms.copy_from_slice(terms);
        part.d_log_std.iter_mut().zip(d_log_std).for_each(|(to, &d)| *to = d as f32);
    }
}

/// The ratio pi_theta / pi_k at a row's action and KL(pi_theta || pi_k) in its state, for the outputs there.
#[inline(always)] // part of the inner loop of every pass
fn compare(policy: &Policy, against: &gaussian::Against<f32>, old: &Behaviour, row: usize, out: &[f32]) -> (f32, f32) {
    let (n, width) = (out.len(), policy.action_width());
    let action = &old.actions[row * width..][..width];
    let was = &old.outputs[row * n..][..n];
    let (log_prob, kl) = if policy.is_discrete() {
        (multi_categorical::log_prob(&policy.heads, out, action), multi_categorical::kl(&policy.heads, out, was))
    } else {
        (against.log_prob(out, action), against.kl(out, was))
    };
    (libm::expf(log_prob - old.log_probs[row]), kl)
}

impl Part for PartSums {
    fn merge(&mut self, next: PartSums) {
        self.sums.merge(next.sums);
        self.d_log_std.iter_mut().zip(&next.d_log_std).for_each(|(t, p)| *t += p);
    }
}

impl PartSums {
    /// Its part in the means over so many rows; weights per row have been scaled already.
    fn scaled(&self, rows: usize) -> PartSums {
        PartSums { sums: self.sums.scaled(rows), d_log_std: self.d_log_std.clone(), ..PartSums::default() }
    }

    fn clear(&mut self) {
        self.sums.clear();
        self.d_log_std.fill(0.0);
    }
}

/// The critics' side of a [`CpuEngine`].
struct CpuCritics<'a> {
    critics: &'a mut [Critic],
    side: &'a mut CriticSide,
    x: &'a Batch<f32>,
}

impl CriticEngine for CpuCritics<'_> {
    fn values(&mut self, batch: &TrainingBatch, critic: usize, values: &mut [f32], open_values: &mut [f32]) {
        let CriticSide { workspaces, states, x, open_x } = &mut *self.side;
        let (network, workspace) = (&self.critics[critic], &mut workspaces[critic]);
        if let Some(states) = states.get_mut(critic) {
            let starts = &batch.starts[..values.len()];
            let seen = Source { rows: &batch.critic_rows, steps: batch.bptt, states: &[], starts };
            states.unroll(&batch.ended, network, workspace, seen, values);
            states.look_ahead(&batch.open_ends, network, workspace, &batch.open_rows, open_values);
        } else {
            network.evaluate(workspace, x.as_ref().unwrap_or(self.x), values);
            network.evaluate(workspace, open_x, open_values);
        }
    }

    fn fit_all(
        &mut self,
        batch: &TrainingBatch,
        settings: &config::Critic,
        learning_rate: f64,
        rngs: &mut [ChaCha8Rng],
    ) -> Vec<f64> {
        let fit = |(i, rng)| self.fit(batch, i, settings, learning_rate, rng);
        rngs.iter_mut().enumerate().map(fit).collect()
    }

    fn fit_one(
        &mut self,
        batch: &TrainingBatch,
        critic: usize,
        settings: &config::Critic,
        learning_rate: f64,
        rng: &mut ChaCha8Rng,
    ) -> Option<f64> {
        Some(self.fit(batch, critic, settings, learning_rate, rng))
    }
}

impl CpuCritics<'_> {
    /// Fits one critic; returns its loss at the first pass.
    fn fit(
        &mut self,
        batch: &TrainingBatch,
        critic: usize,
        settings: &config::Critic,
        learning_rate: f64,
        rng: &mut ChaCha8Rng,
    ) -> f64 {
        let CriticSide { workspaces, states, x, .. } = &mut *self.side;
        let shared = x.as_ref().unwrap_or(self.x);
        let (x, before) = states.get(critic).map_or((shared, &[][..]), |own| (&own.x, &own.before[..]));
        let starts = &batch.starts[..batch.targets[critic].len()];
        let source = Source { rows: &batch.critic_rows, steps: batch.bptt, states: before, starts };
        self.critics[critic].adam.learning_rate = learning_rate;
        workspaces[critic].stop.clone_from(&batch.stop);
        self.critics[critic].fit(&mut workspaces[critic], settings, x, source, &batch.targets[critic], rng)
    }
}
