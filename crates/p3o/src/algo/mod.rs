//! The algorithms: pure functions of a batch. Nothing here does IO, knows an environment or starts a thread.

pub mod cpo;
pub mod focops;
pub mod ipo;
pub mod multiplier;
pub mod natural;
pub mod p3o;
pub mod pcpo;
pub mod ppo_lag;
pub mod trpo;
pub mod violation;

use crate::config::{Algo, Config};
use crate::policy::{Behaviour, PassSums, Policy, PolicyMemory};
use multiplier::Multiplier;
use p3o_nn::{Batch, Source};
use rand_chacha::ChaCha8Rng;

/// One update of the policy by the configured algorithm. `multipliers` has one entry per constraint where the algorithm
/// has multipliers, and none elsewhere.
pub fn update(
    policy: &mut Policy,
    batch: &PolicyBatch,
    config: &Config,
    multipliers: &mut [Multiplier],
    memory: &mut Memory,
    rng: &mut ChaCha8Rng,
) -> Passes {
    match config.algo.name.as_str() {
        "ppo-lag" | "mappo-lag" => ppo_lag::update(policy, batch, config, multipliers, memory),
        "focops" => focops::update(policy, batch, config, multipliers, memory),
        "ipo" => ipo::update(policy, batch, &config.algo, memory),
        "cpo" if !batch.adv_c.is_empty() => cpo::update(policy, batch, config, memory),
        "pcpo" if !batch.adv_c.is_empty() => pcpo::update(policy, batch, config, memory),
        // Without a constraint CPO and PCPO are TRPO, as P3O is PPO.
        "trpo" | "trpo-lag" | "cpo" | "pcpo" => trpo::update(policy, batch, config, multipliers, memory),
        _ if config.algo.minibatch > 0 => p3o::update_minibatches(policy, batch, &config.algo, memory, rng),
        _ => p3o::update(policy, batch, &config.algo, memory),
    }
}

/// What a policy's update sees.
pub struct PolicyBatch<'a> {
    /// Observations, packed.
    pub x: &'a Batch<f32>,
    /// What they were packed from, for mini-batches.
    pub source: Source<'a, f32>,
    /// The policy that collected them.
    pub old: Behaviour<'a>,
    /// Reward advantages.
    pub adv_r: &'a [f32],
    /// Cost advantages of every constraint.
    pub adv_c: &'a [Vec<f32>],
    /// What stands beside their mean in each L_C_i.
    pub offsets: &'a [f64],
    /// J_C_i - d_i, the cost of an episode over its limit.
    pub excess: &'a [f64],
}

/// Memory of a policy's update.
pub struct Memory {
    policy: PolicyMemory,
    sums: PassSums,
    order: Vec<u32>,
    picked: Batch<f32>,
}

impl Memory {
    /// For batches of up to `chunks` parts and `constraints` constraints.
    pub fn new(policy: &Policy, chunks: usize, constraints: usize) -> Self {
        // The reward's, the costs', and two for what an algorithm counts beside them.
        let terms = 1 + constraints + 2;
        Memory {
            policy: policy.memory(chunks, terms),
            sums: PassSums::new(terms),
            order: Vec::new(),
            picked: policy.net.batch(),
        }
    }

    /// The part that evaluates a policy.
    pub fn policy(&mut self) -> &mut PolicyMemory {
        &mut self.policy
    }
}

/// What the passes of one update did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Passes {
    /// Steps taken.
    pub steps: usize,
    /// Passes done again because a constraint's sign had been guessed wrong.
    pub redone: usize,
    /// The whole loss at the last pass.
    pub loss: f64,
    /// L_R at the last pass.
    pub loss_r: f64,
    /// The mean cost terms at the last pass, without offsets.
    pub loss_c: Vec<f64>,
    /// Mean KL at the last pass, before its step.
    pub kl: f64,
    /// Kappa at the last pass.
    pub kappa: f64,
    /// Share of the passes in which each constraint was penalised, or, for IPO, violated.
    pub penalized: Vec<f64>,
    /// Norm of the last gradient.
    pub gradient_norm: f64,
    /// The multiplier of each constraint, where the algorithm has them.
    pub multipliers: Vec<f64>,
    /// FOCOPS: share of the states inside the trust region at the last pass.
    pub inside: f64,
    /// Second order: what the line search took of the proposed step; zero when it took nothing.
    pub fraction: f64,
    /// CPO: what the limit meant for the step.
    pub case: Option<cpo::Case>,
    observed: usize,
}

impl Passes {
    /// Before the first pass.
    pub fn new(constraints: usize) -> Self {
        Passes { loss_c: vec![0.0; constraints], penalized: vec![0.0; constraints], ..Passes::default() }
    }

    /// The means over several actors' passes; those of one are its own.
    pub fn mean<'a>(all: impl Iterator<Item = &'a Passes> + Clone) -> Passes {
        let count = all.clone().count() as f64;
        let of = |figure: fn(&Passes) -> f64| all.clone().map(figure).sum::<f64>() / count;
        let rows = |figures: fn(&Passes) -> &Vec<f64>| mean_rows(all.clone().map(figures));
        Passes {
            steps: of(|p| p.steps as f64).round() as usize,
            redone: of(|p| p.redone as f64).round() as usize,
            loss: of(|p| p.loss),
            loss_r: of(|p| p.loss_r),
            loss_c: rows(|p| &p.loss_c),
            kl: of(|p| p.kl),
            kappa: of(|p| p.kappa),
            penalized: rows(|p| &p.penalized),
            gradient_norm: of(|p| p.gradient_norm),
            multipliers: rows(|p| &p.multipliers),
            inside: of(|p| p.inside),
            fraction: of(|p| p.fraction),
            case: all.clone().next().and_then(|p| p.case),
            observed: of(|p| p.observed as f64).round() as usize,
        }
    }

    fn observe(&mut self, sums: &PassSums, loss: f64) {
        (self.loss, self.loss_r, self.kl) = (loss, sums.terms[0], sums.kl);
        let constraints = self.loss_c.len();
        self.loss_c.copy_from_slice(&sums.terms[1..=constraints]);
        self.observed += 1;
    }

    /// Counts which constraints the pass just observed penalised.
    fn penalize(&mut self, gates: &[bool]) {
        for (share, &gate) in self.penalized.iter_mut().zip(gates) {
            *share += (f64::from(u8::from(gate)) - *share) / self.observed as f64;
        }
    }

    fn stepped(&mut self, gradient_norm: f64) {
        self.gradient_norm = gradient_norm;
        self.steps += 1;
    }

    /// What this algorithm alone reports: columns of progress.csv and their values. `costs` names the constraints.
    pub fn own_figures(&self, algo: &str, costs: &[&str]) -> Vec<(String, f64)> {
        let each = |kind: &str, values: &[f64]| -> Vec<(String, f64)> {
            let value = |i: usize| values.get(i).copied().unwrap_or(f64::NAN);
            costs.iter().enumerate().map(|(i, cost)| (format!("{kind}_{cost}"), value(i))).collect()
        };
        let one = |name: &str, value: f64| vec![(name.to_string(), value)];
        let fraction = one("step_fraction", self.fraction);
        match algo {
            "ppo-lag" | "mappo-lag" => each("multiplier", &self.multipliers),
            "focops" => [each("multiplier", &self.multipliers), one("inside", self.inside)].concat(),
            "ipo" => each("recovering", &self.penalized),
            "trpo-lag" => [each("multiplier", &self.multipliers), fraction].concat(),
            "cpo" => [fraction, one("case", self.case.map_or(f64::NAN, |case| f64::from(case as u8)))].concat(),
            "trpo" | "pcpo" => fraction,
            _ => {
                let rest = [one("kappa", self.kappa), one("redone", self.redone as f64)].concat();
                [each("penalized", &self.penalized), rest].concat()
            }
        }
    }

    /// Whether the loss and the gradient stayed finite.
    pub fn is_finite(&self) -> bool {
        // The cost terms too: a NaN among them disappears in max(0, L_C_i).
        let figures = [self.loss, self.kl, self.gradient_norm];
        figures.iter().chain(&self.loss_c).all(|x| x.is_finite())
    }
}

/// Steps of Adam over the whole batch until the mean KL from pi_k leaves the trust region. `pass` leaves a gradient in
/// the memory and reports what it observed; the KL of a pass is known before its step, which is then not taken.
fn descend(
    policy: &mut Policy,
    settings: &Algo,
    memory: &mut Memory,
    report: &mut Passes,
    mut pass: impl FnMut(&Policy, &mut Memory, &mut Passes),
) {
    for _ in 0..settings.passes {
        pass(policy, memory, report);
        if !memory.sums.is_finite() || memory.sums.kl > settings.trust_region() {
            break;
        }
        report.stepped(policy.step(&memory.policy));
    }
}

/// Gradient of x_R L_R + sum_i x_i L_surr_i over the whole batch, with the clipped L_R of PPO and the plain cost
/// surrogates L_surr_i = mean(r A_C_i); the means themselves in `memory.sums`.
fn mixed_pass(policy: &Policy, batch: &PolicyBatch, settings: &Algo, memory: &mut Memory, x_r: f64, x_c: &[f64]) {
    let (epsilon, entropy, x_r) = (settings.clip as f32, settings.entropy as f32, x_r as f32);
    let weight = |terms: &mut [f64], row: usize, ratio: f32| {
        let (term, slope) = p3o::reward_term(ratio, batch.adv_r[row], epsilon);
        terms[0] += f64::from(term);
        let mut w = x_r * slope;
        for (i, adv_c) in batch.adv_c.iter().enumerate() {
            // The derivative of r A is r A grad log pi: the term is its own weight.
            let term = ratio * adv_c[row];
            terms[1 + i] += f64::from(term);
            w += x_c[i] as f32 * term;
        }
        w
    };
    policy.pass(&mut memory.policy, batch.x, None, &batch.old, entropy, &mut memory.sums, weight);
}

/// The means of -r A_R, of every r A_C_i and of the KL over the whole batch, without a gradient, in `memory.sums`.
fn measure(policy: &Policy, batch: &PolicyBatch, memory: &mut Memory) {
    policy.measure(&mut memory.policy, batch.x, &batch.old, &mut memory.sums, |terms, row, ratio| {
        terms[0] -= f64::from(ratio * batch.adv_r[row]);
        for (term, adv_c) in terms[1..].iter_mut().zip(batch.adv_c) {
            *term += f64::from(ratio * adv_c[row]);
        }
    });
}

/// The mean of some rows of figures, entry by entry.
pub(crate) fn mean_rows<'a>(rows: impl Iterator<Item = &'a Vec<f64>>) -> Vec<f64> {
    let (mut sums, mut count) = (Vec::new(), 0.0);
    for row in rows {
        if sums.is_empty() {
            sums.clone_from(row);
        } else {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        count += 1.0;
    }
    sums.iter().map(|sum| sum / count).collect()
}

/// Mean of a batch, summed in f64 in order.
fn mean(values: &[f32]) -> f64 {
    values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len() as f64
}
