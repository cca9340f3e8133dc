//! A small batch on which the penalised loss and its gradient are worked out in f64, apart from the trainer.

use crate::util::{Script, rng, set_if_known, small, small_net};
use p3o::Config;
use p3o::algo::multiplier::Multiplier;
use p3o::algo::p3o::{cost_term, loss, reward_term};
use p3o::algo::{Passes, Update};
use p3o::batch::{Members, TrainingBatch};
use p3o::critic::Critic;
use p3o::engine::cpu::CpuEngine;
use p3o::engine::{Engine, Networks};
use p3o::policy::Policy;
use p3o_env::ActionSpace;
use p3o_nn::{Activation, Mlp, Tiles, categorical, gaussian};
use rand::RngExt;
use std::ops::Range;

pub const EPSILON: f64 = 0.2;
pub const OBS: usize = 3;
const HIDDEN: usize = 5;
const ACTIONS: usize = 2;

/// Far inside the clip range, near both sides of both edges, and far outside.
const RATIOS: [f64; 9] = [0.5, 0.795, 0.805, 0.9, 1.0, 1.1, 1.195, 1.205, 1.6];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Head {
    Gaussian,
    Categorical,
    /// Two discrete actions at once.
    Several,
}

impl Head {
    pub const ALL: [Head; 3] = [Head::Gaussian, Head::Categorical, Head::Several];

    /// The discrete actions of each kind.
    fn sizes(self) -> &'static [usize] {
        match self {
            Head::Gaussian => &[],
            Head::Categorical => &[4],
            Head::Several => &[3, 2],
        }
    }
}

/// All numbers are held exactly by f32, so that both precisions work on the same batch.
#[derive(Clone)]
pub struct Problem {
    pub net: Mlp<f64>,
    pub head: Head,
    /// Empty for discrete actions.
    pub log_std: Vec<f64>,
    pub rows: Vec<f64>,
    pub actions: Vec<f64>,
    pub old_outputs: Vec<f64>,
    pub old_log_std: Vec<f64>,
    pub old_log_probs: Vec<f64>,
    pub adv_r: Vec<f64>,
    pub adv_c: Vec<Vec<f64>>,
    pub offsets: Vec<f64>,
    pub excess: Vec<f64>,
    pub kappa: f64,
    pub entropy: f64,
}

/// One number per parameter: every layer's weights and biases, then the logarithms of the deviations.
pub type Gradient = Vec<f64>;

fn f32ed(x: f64) -> f64 {
    f64::from(x as f32)
}

impl Problem {
    /// `rows` rows whose ratios run through [`RATIOS`] and whose advantages have both signs at each of them.
    pub fn new(head: Head, rows: usize, constraints: usize, seed: u64) -> Problem {
        let mut rng = rng(seed);
        let outputs = if head == Head::Gaussian { ACTIONS } else { head.sizes().iter().sum() };
        let mut uniform = |n: usize, by: f64| -> Vec<f64> {
            (0..n).map(|_| f32ed(by * f64::from(rng.random_range(-1.0f32..1.0)))).collect()
        };
        let mut net = Mlp::new(&[OBS, HIDDEN, outputs], Activation::Tanh);
        let mut flat = vec![0.0; net.params().len()];
        net.pack(&mut flat, 0, &uniform(OBS * HIDDEN, 1.0), &uniform(HIDDEN, 0.5));
        net.pack(&mut flat, 1, &uniform(HIDDEN * outputs, 0.7), &uniform(outputs, 0.5));
        net.set_params(&flat);
        let log_std = if head == Head::Gaussian { vec![-0.5, -0.25] } else { Vec::new() };
        let old_log_std = log_std.iter().map(|s| s + 0.125).collect();
        let actions = match head {
            Head::Gaussian => uniform(rows * ACTIONS, 1.0),
            _ => (0..rows).flat_map(|i| head.sizes().iter().map(move |n| ((i / 5) % n) as f64)).collect(),
        };
        let mut advantages = || -> Vec<f64> {
            let sizes = uniform(rows, 1.0).into_iter();
            sizes.enumerate().map(|(i, a)| f32ed(if i % 2 == 0 { 0.2 + a.abs() } else { -0.2 - a.abs() })).collect()
        };
        let adv_r = advantages();
        let adv_c = (0..constraints).map(|_| advantages()).collect();
        let mut problem = Problem {
            net,
            head,
            log_std,
            rows: uniform(rows * OBS, 1.0),
            actions,
            old_outputs: uniform(rows * outputs, 1.0),
            old_log_std,
            old_log_probs: Vec::new(),
            adv_r,
            adv_c,
            offsets: vec![0.0; constraints],
            excess: vec![0.0; constraints],
            kappa: 20.0,
            entropy: 0.0,
        };
        let now = problem.log_probs();
        problem.old_log_probs = now.iter().zip(RATIOS.iter().cycle()).map(|(p, r)| f32ed(p - r.ln())).collect();
        problem
    }

    pub fn len(&self) -> usize {
        self.adv_r.len()
    }

    /// Where each discrete action of a row has its outputs, and which it is.
    fn taken(&self, row: usize) -> Vec<(Range<usize>, usize)> {
        let sizes = self.head.sizes();
        let starts = sizes.iter().scan(0, |end, n| Some(std::mem::replace(end, *end + n)));
        let actions = self.actions[row * sizes.len()..].iter().map(|&action| action as usize);
        starts.zip(sizes).map(|(start, n)| start..start + n).zip(actions).collect()
    }

    fn tiles(&self) -> Tiles<f64> {
        let mut x = Tiles::new(OBS);
        x.fill(&self.rows);
        x
    }

    pub fn outputs(&self) -> Vec<f64> {
        let (x, mut out) = (self.tiles(), vec![0.0; self.len() * self.net.outputs()]);
        self.net.evaluate(&mut self.net.pass_workspace(x.parts()), &x, &mut out);
        out
    }

    fn log_prob(&self, outputs: &[f64], row: usize) -> f64 {
        match self.head {
            Head::Gaussian => {
                gaussian::log_prob(outputs, &self.log_std, &self.actions[row * ACTIONS..(row + 1) * ACTIONS])
            }
            _ => self.taken(row).into_iter().map(|(at, action)| categorical::log_prob(&outputs[at], action)).sum(),
        }
    }

    pub fn log_probs(&self) -> Vec<f64> {
        let outputs = self.outputs();
        outputs.chunks_exact(self.net.outputs()).enumerate().map(|(row, out)| self.log_prob(out, row)).collect()
    }

    pub fn ratios(&self) -> Vec<f64> {
        self.log_probs().iter().zip(&self.old_log_probs).map(|(new, old)| (new - old).exp()).collect()
    }

    /// L_R and the means of the cost terms, straight from their definitions.
    pub fn terms(&self) -> Vec<f64> {
        let (ratios, n) = (self.ratios(), self.len() as f64);
        let clipped = |r: f64| r.clamp(1.0 - EPSILON, 1.0 + EPSILON);
        let reward = ratios.iter().zip(&self.adv_r).map(|(&r, a)| -(r * a).min(clipped(r) * a)).sum::<f64>() / n;
        let cost = |adv: &Vec<f64>| ratios.iter().zip(adv).map(|(&r, a)| (r * a).max(clipped(r) * a)).sum::<f64>() / n;
        std::iter::once(reward).chain(self.adv_c.iter().map(cost)).collect()
    }

    /// Puts every L_C_i at the given distance from zero.
    pub fn place(&mut self, distances: &[f64]) {
        let terms = self.terms();
        self.offsets = distances.iter().zip(&terms[1..]).map(|(d, mean)| d - mean).collect();
    }

    /// (cppo5) minus the entropy bonus.
    pub fn loss(&self) -> f64 {
        loss(&self.terms(), &self.offsets, self.kappa) - self.entropy_bonus()
    }

    /// `entropy` times the mean entropy.
    pub fn entropy_bonus(&self) -> f64 {
        let outputs = self.outputs();
        let entropy = match self.head {
            Head::Gaussian => gaussian::entropy(&self.log_std),
            _ => {
                let rows = outputs.chunks_exact(self.net.outputs()).enumerate();
                let heads = rows.flat_map(|(row, out)| self.taken(row).into_iter().map(move |(at, _)| &out[at]));
                heads.map(categorical::entropy).sum::<f64>() / self.len() as f64
            }
        };
        self.entropy * entropy
    }

    /// KL from the old policy in every state.
    pub fn kls(&self) -> Vec<f64> {
        let (outputs, k) = (self.outputs(), self.net.outputs());
        let pairs = outputs.chunks_exact(k).zip(self.old_outputs.chunks_exact(k));
        let kl = pairs.enumerate().map(|(row, (new, old))| match self.head {
            Head::Gaussian => gaussian::kl(new, &self.log_std, old, &self.old_log_std),
            _ => self.taken(row).into_iter().map(|(at, _)| categorical::kl(&new[at.clone()], &old[at])).sum(),
        });
        kl.collect()
    }

    /// Mean KL from the old policy.
    pub fn kl(&self) -> f64 {
        self.kls().iter().sum::<f64>() / self.len() as f64
    }

    /// Means of r a for some advantages.
    pub fn surrogate(&self, advantages: &[f64]) -> f64 {
        self.ratios().iter().zip(advantages).map(|(r, a)| r * a).sum::<f64>() / self.len() as f64
    }

    /// Whether each constraint is over, decided on the batch's mean.
    pub fn gates(&self) -> Vec<bool> {
        self.terms()[1..].iter().zip(&self.offsets).map(|(mean, offset)| mean + offset > 0.0).collect()
    }

    /// Mean of w grad log pi, minus the entropy bonus: the form in which the trainer assembles the gradient of (cppo5).
    pub fn gradient(&self) -> Gradient {
        let gates = self.gates();
        self.gradient_by(|row, ratio| {
            let mut w = reward_term(ratio, self.adv_r[row], EPSILON).1;
            for (adv, _) in self.adv_c.iter().zip(&gates).filter(|(_, on)| **on) {
                w += self.kappa * cost_term(ratio, adv[row], EPSILON).1;
            }
            (w, 0.0)
        })
    }

    /// Mean of w grad log pi + u grad KL, minus the entropy bonus, with (w, u) = `weights(row, ratio)`.
    pub fn gradient_by(&self, weights: impl Fn(usize, f64) -> (f64, f64) + Sync) -> Gradient {
        let (x, ratios, n) = (self.tiles(), self.ratios(), self.len() as f64);
        let mut memory = self.net.pass_workspace(x.parts());
        let mut sums = vec![vec![0.0; self.log_std.len()]; x.parts()];
        let k = self.net.outputs();
        self.net.pass(&mut memory, &x, &mut sums, |d_log_std, first, outputs, d_outputs| {
            for (i, (out, d)) in outputs.chunks_exact(k).zip(d_outputs.chunks_exact_mut(k)).enumerate() {
                let row = first + i;
                let (w, u) = weights(row, ratios[row]);
                let was = &self.old_outputs[row * k..(row + 1) * k];
                d.fill(0.0);
                match self.head {
                    Head::Gaussian => {
                        let action = &self.actions[row * ACTIONS..(row + 1) * ACTIONS];
                        gaussian::log_prob_grad(out, &self.log_std, action, w / n, d, d_log_std);
                        gaussian::kl_grad(out, &self.log_std, was, &self.old_log_std, u / n, d, d_log_std);
                        d_log_std.iter_mut().for_each(|g| *g -= self.entropy / n);
                    }
                    _ => {
                        for (at, action) in self.taken(row) {
                            let (out, was, d) = (&out[at.clone()], &was[at.clone()], &mut d[at]);
                            categorical::log_prob_grad(out, action, w / n, d);
                            categorical::kl_grad(out, was, u / n, d);
                            categorical::entropy_grad(out, -self.entropy / n, d);
                        }
                    }
                }
            }
        });
        let mut all = flatten(&self.net, memory.gradient());
        all.extend((0..self.log_std.len()).map(|i| sums.iter().map(|s| s[i]).sum::<f64>()));
        all
    }

    /// The derivative of [`Problem::loss`] along every parameter by the five-point central difference.
    pub fn differences(&self, h: f64) -> Gradient {
        self.differences_of(h, Problem::loss)
    }

    /// The same of any function of the policy.
    pub fn differences_of(&self, h: f64, f: impl Fn(&Problem) -> f64) -> Gradient {
        let n = self.parameters();
        let along = |i: usize| {
            let at = |by: f64| {
                let mut direction = vec![0.0; n];
                direction[i] = by;
                f(&self.moved(&direction))
            };
            (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h)
        };
        (0..n).map(along).collect()
    }

    /// How many parameters there are.
    pub fn parameters(&self) -> usize {
        flatten(&self.net, self.net.params()).len() + self.log_std.len()
    }

    /// With parameters moved by so much each.
    pub fn moved(&self, by: &[f64]) -> Problem {
        let mut moved = self.clone();
        let mut flat = flatten(&self.net, self.net.params());
        let (net, log_std) = by.split_at(flat.len());
        flat.iter_mut().zip(net).for_each(|(p, by)| *p += by);
        moved.net.set_params(&packed(&self.net, &flat));
        moved.log_std.iter_mut().zip(log_std).for_each(|(p, by)| *p += by);
        moved
    }

    /// H v by a forward-mode pass in f64, without damping.
    pub fn fisher_product(&self, v: &[f64]) -> Gradient {
        let (x, k, n) = (self.tiles(), self.net.outputs(), self.len() as f64);
        let (net, log_std) = v.split_at(v.len() - self.log_std.len());
        let mut memory = self.net.pass_workspace(x.parts());
        let direction = packed(&self.net, net);
        self.net.tangent_pass(&mut memory, &x, &direction, &mut vec![(); x.parts()], |(), _, outputs, tangents, d| {
            d.fill(0.0);
            for (i, out) in outputs.chunks_exact(k).enumerate() {
                let row = i * k..(i + 1) * k;
                match self.head {
                    Head::Gaussian => gaussian::fisher(&self.log_std, &tangents[row.clone()], 1.0 / n, &mut d[row]),
                    _ => {
                        let (tangents, d) = (&tangents[row.clone()], &mut d[row]);
                        for (at, _) in self.taken(0) {
                            categorical::fisher(&out[at.clone()], &tangents[at.clone()], 1.0 / n, &mut d[at]);
                        }
                    }
                }
            }
        });
        flatten(&self.net, memory.gradient()).into_iter().chain(log_std.iter().map(|v| 2.0 * v)).collect()
    }

    /// The trainer's own policy with these parameters.
    pub fn policy(&self) -> Policy {
        let action = match self.head {
            Head::Gaussian => ActionSpace::Continuous { dim: ACTIONS },
            Head::Categorical => ActionSpace::Discrete { n: self.net.outputs() },
            Head::Several => ActionSpace::MultiDiscrete { sizes: self.head.sizes().to_vec() },
        };
        let mut policy = Policy::new(&small_net(&["net.hidden=[5]"]), OBS, &action, &mut rng(0));
        let mut flat = vec![0.0; policy.net.params().len()];
        for l in 0..self.net.depth() {
            let (weights, bias) = self.net.layer(l);
            policy.net.pack(&mut flat, l, &floats(&weights), &floats(&bias));
        }
        policy.net.set_params(&flat);
        policy.log_std = floats(&self.log_std);
        policy
    }

    /// The batch as the trainer takes it.
    pub fn batch(&self) -> TrainingBatch {
        let mut batch = TrainingBatch::new(1 + self.adv_c.len(), 1, &Members { agents: 0..1, all: 1, dim: OBS });
        batch.critic_rows = floats(&self.rows);
        batch.starts = vec![false; self.len()];
        batch.outputs = floats(&self.old_outputs);
        self.policy().normalize_outputs(&mut batch.outputs);
        batch.log_std = floats(&self.old_log_std);
        batch.actions = floats(&self.actions);
        batch.log_probs = floats(&self.old_log_probs);
        batch.advantages = std::iter::once(&self.adv_r).chain(&self.adv_c).map(|a| floats(a)).collect();
        batch
    }

    /// The trainer with this problem before it.
    pub fn bench(&self) -> Bench {
        let batch = self.batch();
        let critic = |_| Critic::new(&small_net(&[]), OBS, &mut rng(0));
        let critics = (0..=self.adv_c.len()).map(critic).collect();
        let mut engine = CpuEngine::new(Networks { policy: self.policy(), critics }, false);
        engine.upload(&batch);
        Bench { engine, batch, offsets: self.offsets.clone(), excess: self.excess.clone() }
    }

    /// Makes the present policy the one that collected the batch: every ratio is one.
    pub fn at_home(mut self) -> Problem {
        self.old_log_probs = self.log_probs().into_iter().map(f32ed).collect();
        self.old_outputs = self.outputs().into_iter().map(f32ed).collect();
        self.old_log_std = self.log_std.clone();
        self
    }

    /// Settings of an algorithm for one pass of the trainer on this problem, without a stop.
    pub fn config(&self, algo: &str, changes: &[&str]) -> Config {
        let mut config = small(algo, &Script::default().spec, &["policy.target_kl=1e9"]);
        let own = [format!("p3o.kappa={}", self.kappa), format!("policy.entropy={}", self.entropy)];
        let clips = ["p3o", "ppo", "ppo-lag", "ipo"].map(|algo| format!("{algo}.clip={EPSILON}"));
        own.iter().chain(&clips).for_each(|assignment| set_if_known(&mut config, assignment));
        set_if_known(&mut config, "policy.passes=1");
        changes.iter().for_each(|change| config.set(change).unwrap_or_else(|e| panic!("{algo}: {change}: {e}")));
        config
    }
}

/// An engine with a policy and a batch.
pub struct Bench {
    pub engine: CpuEngine,
    pub batch: TrainingBatch,
    pub offsets: Vec<f64>,
    pub excess: Vec<f64>,
}

impl Bench {
    pub fn policy(&self) -> &Policy {
        &self.engine.networks().policy
    }

    /// The bits of all parameters.
    pub fn bits(&self) -> Vec<u32> {
        crate::util::float_bits(&self.policy().parameters())
    }

    /// Calls `f` with what an algorithm's update is given.
    pub fn with<T>(&mut self, config: &Config, multipliers: &mut [Multiplier], f: impl FnOnce(&mut Update) -> T) -> T {
        let (mut actor, _) = self.engine.parts();
        f(&mut Update {
            engine: &mut *actor,
            batch: &self.batch,
            offsets: &self.offsets,
            excess: &self.excess,
            limits: &[2.0; 16],
            settings: &config.policy,
            learning_rate: config.policy.learning_rate,
            multipliers,
            rng: &mut rng(2),
        })
    }

    /// One update of any algorithm.
    pub fn update_by(&mut self, config: &Config, multipliers: &mut [Multiplier]) -> Passes {
        self.with(config, multipliers, |update| config.own.update(update))
    }

    /// One update of an algorithm without multipliers.
    pub fn update(&mut self, config: &Config) -> Passes {
        self.update_by(config, &mut [])
    }
}

/// A vector in the order of [`Policy::parameters`], in the order of a [`Gradient`].
pub fn unpadded(policy: &Policy, vector: &[f64]) -> Gradient {
    let (net, log_std) = vector.split_at(policy.net.params().len());
    let net: Vec<f32> = net.iter().map(|&x| x as f32).collect();
    let mut all = Vec::new();
    for l in 0..policy.net.depth() {
        let (weights, bias) = policy.net.unpack(&net, l);
        all.extend(weights.iter().chain(&bias).map(|&x| f64::from(x)));
    }
    all.extend(log_std);
    all
}

/// The inverse: padded for a policy.
pub fn padded(policy: &Policy, mut values: &[f64]) -> Vec<f64> {
    let mut flat = vec![0.0; policy.net.params().len()];
    for l in 0..policy.net.depth() {
        let (inputs, outputs) = (policy.net.sizes()[l], policy.net.sizes()[l + 1]);
        let (weights, rest) = values.split_at(inputs * outputs);
        let (bias, rest) = rest.split_at(outputs);
        policy.net.pack(&mut flat, l, &floats(weights), &floats(bias));
        values = rest;
    }
    flat.iter().map(|&x| f64::from(x)).chain(values.iter().copied()).collect()
}

/// The gradient of a policy's first step: Adam's first moments start at zero and become a tenth of it.
pub fn first_gradient(policy: &Policy) -> Gradient {
    let tenth = f64::from(1.0 - 0.9f32);
    let (net, log_std) = (policy.adam.state().0, policy.adam_log_std.state().0);
    let mut all: Vec<f64> = Vec::new();
    for l in 0..policy.net.depth() {
        let (weights, bias) = policy.net.unpack(net, l);
        all.extend(weights.iter().chain(&bias).map(|&m| f64::from(m) / tenth));
    }
    all.extend(log_std.iter().map(|&m| f64::from(m) / tenth));
    all
}

fn flatten(net: &Mlp<f64>, flat: &[f64]) -> Vec<f64> {
    (0..net.depth())
        .flat_map(|l| {
            let (weights, bias) = net.unpack(flat, l);
            weights.into_iter().chain(bias)
        })
        .collect()
}

fn packed(net: &Mlp<f64>, mut values: &[f64]) -> Vec<f64> {
    let mut flat = vec![0.0; net.params().len()];
    for l in 0..net.depth() {
        let (inputs, outputs) = (net.sizes()[l], net.sizes()[l + 1]);
        let (weights, rest) = values.split_at(inputs * outputs);
        let (bias, rest) = rest.split_at(outputs);
        net.pack(&mut flat, l, weights, bias);
        values = rest;
    }
    flat
}

pub fn floats(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&x| x as f32).collect()
}
