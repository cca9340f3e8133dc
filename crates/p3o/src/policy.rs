//! The actor: a network and the distribution that its outputs parametrise.

use crate::config::{self, Net};
use p3o_env::ActionSpace;
use p3o_nn::{Activation, Adam, Batch, Gru, Init, Mlp, Network, NetworkMemory, NetworkWork, categorical, gaussian};
use rand_chacha::ChaCha8Rng;

/// A network of the configured shape from `inputs` to `outputs`.
pub fn network(net: &Net, inputs: usize, outputs: usize, head_gain: f64, rng: &mut ChaCha8Rng) -> Network<f32> {
    let activation = match net.activation {
        config::Activation::Tanh => Activation::Tanh,
        config::Activation::Relu => Activation::Relu,
        config::Activation::Identity => Activation::Identity,
    };
    let units = net.recurrent.then_some(net.units);
    let sizes: Vec<usize> =
        std::iter::once(inputs).chain(net.hidden.iter().copied()).chain(units).chain([outputs]).collect();
    let mut network = match units {
        None => Network::Plain(Mlp::new(&sizes, activation)),
        Some(_) => Network::Recurrent(Gru::new(&sizes, activation)),
    };
    let init = match net.init {
        config::Init::Orthogonal => Init::Orthogonal { head_gain },
        config::Init::Glorot => Init::Glorot,
    };
    network.init(init, rng);
    network
}

/// A policy pi(a | s).
pub struct Policy {
    /// From observation to mean action or logits.
    pub net: Network<f32>,
    /// Logarithm of the deviation of each action; empty for choices.
    pub log_std: Vec<f32>,
    /// Optimiser of the network.
    pub adam: Adam<f32>,
    /// Optimiser of `log_std`.
    pub adam_log_std: Adam<f32>,
}

/// What the policy was when the batch was collected.
pub struct Behaviour<'a> {
    /// Network outputs for every row; for choices their log-probabilities.
    pub outputs: &'a [f32],
    /// Its logarithm of the deviation.
    pub log_std: &'a [f32],
    /// The actions taken, one row each.
    pub actions: &'a [f32],
    /// Their log-probabilities.
    pub log_probs: &'a [f32],
}

/// Sums over one part of a batch, added in order over the parts; or means over all of it.
#[derive(Clone, Debug, Default)]
pub struct PassSums {
    /// Sum of KL(pi_theta || pi_k) over states.
    pub kl: f64,
    /// Sums of the loss terms that the algorithm named.
    pub terms: Vec<f64>,
    /// Gradient of the loss with respect to `log_std`.
    d_log_std: Vec<f32>,
}

/// Memory for passes of a policy.
pub struct PolicyMemory {
    net: NetworkMemory<f32>,
    sums: Vec<PassSums>,
    d_log_std: Vec<f32>,
    against: gaussian::Against<f32>,
    outputs: Vec<f32>,
    direction: Vec<f32>,
}

impl Policy {
    /// A fresh policy.
    pub fn new(net: &Net, obs_dim: usize, action: ActionSpace, learning_rate: f64, rng: &mut ChaCha8Rng) -> Self {
        let (outputs, log_std) = match action {
            ActionSpace::Continuous { dim } => (dim, vec![net.log_std as f32; dim]),
            ActionSpace::Discrete { n } => (n, Vec::new()),
        };
        let net = network(net, obs_dim, outputs, 0.01, rng);
        Policy {
            adam: Adam::new(net.params().len(), learning_rate),
            adam_log_std: Adam::new(log_std.len(), learning_rate),
            net,
            log_std,
        }
    }

    /// Whether actions are choices.
    pub fn is_discrete(&self) -> bool {
        self.log_std.is_empty()
    }

    /// Numbers in an action.
    pub fn action_width(&self) -> usize {
        if self.is_discrete() { 1 } else { self.log_std.len() }
    }

    /// Outputs for some rows of observations; a recurrent policy's state for each row is replaced by the next.
    pub fn outputs(&self, work: &mut NetworkWork<f32>, obs: &[f32], states: &mut [f32], out: &mut [f32]) {
        self.net.infer(work, obs, states, out);
    }

    /// Draws an action for one row of outputs and returns its log-probability.
    pub fn act(&self, outputs: &[f32], action: &mut [f32], rng: &mut ChaCha8Rng) -> f32 {
        if self.is_discrete() {
            action[0] = categorical::sample(outputs, rng) as f32;
        } else {
            gaussian::sample(outputs, &self.log_std, action, rng);
        }
        self.log_prob(outputs, action)
    }

    /// The likeliest action for one row of outputs.
    pub fn act_greedily(&self, outputs: &[f32], action: &mut [f32]) {
        if self.is_discrete() {
            action[0] = categorical::mode(outputs) as f32;
        } else {
            action.copy_from_slice(outputs);
        }
    }

    fn log_prob(&self, outputs: &[f32], action: &[f32]) -> f32 {
        if self.is_discrete() {
            categorical::log_prob(outputs, action[0] as usize)
        } else {
            gaussian::log_prob(outputs, &self.log_std, action)
        }
    }

    /// Mean entropy of the policy; for choices, of the given rows of outputs.
    pub fn entropy(&self, outputs: &[f32]) -> f64 {
        if !self.is_discrete() {
            return f64::from(gaussian::entropy(&self.log_std));
        }
        let n = self.net.outputs();
        let sum: f64 = outputs.chunks_exact(n).map(|row| f64::from(categorical::entropy(row))).sum();
        sum / (outputs.len() / n) as f64
    }

    /// Turns rows of logits into log-probabilities, as [`Behaviour`] holds them.
    pub fn normalize_outputs(&self, outputs: &mut [f32]) {
        if self.is_discrete() {
            outputs.chunks_exact_mut(self.net.outputs()).for_each(categorical::normalize);
        }
    }

    /// Memory for passes over batches of up to `chunks` parts whose algorithm has `terms` loss terms.
    pub fn memory(&self, chunks: usize, terms: usize) -> PolicyMemory {
        let d_log_std = vec![0.0; self.log_std.len()];
        let sums = PassSums { kl: 0.0, terms: vec![0.0; terms], d_log_std: d_log_std.clone() };
        PolicyMemory {
            net: self.net.pass_memory(chunks),
            sums: vec![sums; chunks.max(1)],
            d_log_std,
            against: gaussian::Against::default(),
            outputs: Vec::new(),
            direction: Vec::new(),
        }
    }

    /// One pass: the gradient of mean_t w_t log pi(a_t | s_t), with w_t = `weight(terms, row, ratio)`, minus
    /// `entropy` times the mean entropy. `weight` adds each sample's loss terms to `terms`; `total` gets all means.
    /// Where `x` is a pick of the batch's rows, `rows` names them.
    #[allow(clippy::too_many_arguments)] // the batch, three settings and two destinations
    pub fn pass(
        &self,
        memory: &mut PolicyMemory,
        x: &Batch<f32>,
        rows: Option<&[u32]>,
        old: &Behaviour,
        entropy: f32,
        total: &mut PassSums,
        weight: impl Fn(&mut [f64], usize, f32) -> f32 + Sync,
    ) {
        let weights = |terms: &mut [f64], row: usize, ratio: f32, _kl: f32| (weight(terms, row, ratio), 0.0);
        self.weighted_pass::<false>(memory, x, rows, old, entropy, total, weights);
    }

    /// Like [`Policy::pass`] over a whole batch, with the gradient of mean_t u_t KL(pi_theta || pi_k)(s_t) added:
    /// (w_t, u_t) = `weights(terms, row, ratio, kl)`.
    pub fn pass_with_kl(
        &self,
        memory: &mut PolicyMemory,
        x: &Batch<f32>,
        old: &Behaviour,
        entropy: f32,
        total: &mut PassSums,
        weights: impl Fn(&mut [f64], usize, f32, f32) -> (f32, f32) + Sync,
    ) {
        self.weighted_pass::<true>(memory, x, None, old, entropy, total, weights);
    }

    #[allow(clippy::too_many_arguments)] // those of `pass`
    fn weighted_pass<const KL: bool>(
        &self,
        memory: &mut PolicyMemory,
        x: &Batch<f32>,
        rows: Option<&[u32]>,
        old: &Behaviour,
        entropy: f32,
        total: &mut PassSums,
        weights: impl Fn(&mut [f64], usize, f32, f32) -> (f32, f32) + Sync,
    ) {
        let chunks = x.chunks();
        let (n, width) = (self.net.outputs(), self.action_width());
        let share = 1.0 / x.rows() as f32;
        let sums = &mut memory.sums[..chunks];
        sums.iter_mut().for_each(PassSums::clear);
        memory.against.set(&self.log_std, old.log_std);
        let against = &memory.against;
        self.net.pass(&mut memory.net, x, sums, |sums, first, outputs, d_outputs| {
            for (i, (out, d)) in outputs.chunks_exact(n).zip(d_outputs.chunks_exact_mut(n)).enumerate() {
                let row = rows.map_or(first + i, |rows| rows[first + i] as usize);
                let action = &old.actions[row * width..][..width];
                let was = &old.outputs[row * n..][..n];
                let mut weigh = |ratio: f32, kl: f32| {
                    sums.kl += f64::from(kl);
                    let (w, u) = weights(&mut sums.terms, row, ratio, kl);
                    (w * share, u * share)
                };
                if self.is_discrete() {
                    let (choice, row_of) = (action[0] as usize, categorical::Row::new(out, d));
                    let ratio = libm::expf(row_of.log_prob(choice) - old.log_probs[row]);
                    let (w, u) = weigh(ratio, row_of.kl(d, was));
                    row_of.gradient(choice, w, -entropy * share, d);
                    if KL {
                        categorical::kl_grad(out, was, u, d);
                    }
                } else {
                    let (ratio, kl) = self.compare(against, old, row, out);
                    let (w, u) = weigh(ratio, kl);
                    d.fill(0.0);
                    against.log_prob_grad(out, action, w, d, &mut sums.d_log_std);
                    sums.d_log_std.iter_mut().for_each(|g| *g -= entropy * share);
                    if KL {
                        against.kl_grad(out, was, u, d, &mut sums.d_log_std);
                    }
                }
            }
        });
        total.clear();
        memory.d_log_std.fill(0.0);
        for part in &memory.sums[..chunks] {
            total.add(part, 1.0 / x.rows() as f64);
            memory.d_log_std.iter_mut().zip(&part.d_log_std).for_each(|(t, p)| *t += p);
        }
    }

    /// The ratio pi_theta / pi_k at a row's action and KL(pi_theta || pi_k) in its state, for the outputs there.
    #[inline(always)] // part of the inner loop of every pass
    fn compare(&self, against: &gaussian::Against<f32>, old: &Behaviour, row: usize, out: &[f32]) -> (f32, f32) {
        let (n, width) = (out.len(), self.action_width());
        let action = &old.actions[row * width..][..width];
        let was = &old.outputs[row * n..][..n];
        let (log_prob, kl) = if self.is_discrete() {
            (categorical::log_prob(out, action[0] as usize), categorical::kl(out, was))
        } else {
            (against.log_prob(out, action), against.kl(out, was))
        };
        (libm::expf(log_prob - old.log_probs[row]), kl)
    }

    /// What a pass would leave in `total`, without a gradient: `term(terms, row, ratio)` adds each sample's loss terms.
    pub fn measure(
        &self,
        memory: &mut PolicyMemory,
        x: &Batch<f32>,
        old: &Behaviour,
        total: &mut PassSums,
        term: impl Fn(&mut [f64], usize, f32),
    ) {
        let mut outputs = std::mem::take(&mut memory.outputs);
        outputs.resize(x.rows() * self.net.outputs(), 0.0);
        self.evaluate(memory, x, &mut outputs);
        memory.against.set(&self.log_std, old.log_std);
        let sums = &mut memory.sums[0];
        sums.clear();
        for (row, out) in outputs.chunks_exact(self.net.outputs()).enumerate() {
            let (ratio, kl) = self.compare(&memory.against, old, row, out);
            sums.kl += f64::from(kl);
            term(&mut sums.terms, row, ratio);
        }
        total.clear();
        total.add(sums, 1.0 / x.rows() as f64);
        memory.outputs = outputs;
    }

    /// H v, where H is the Hessian of the mean KL(pi_theta || pi_k) at theta = theta_k, this policy: J^T M J for the
    /// network, twice the identity for `log_std`. Vectors are in the order of [`Policy::parameters`].
    pub fn fisher_product(&self, memory: &mut PolicyMemory, x: &Batch<f32>, v: &[f64]) -> Vec<f64> {
        let (n, share) = (self.net.outputs(), 1.0 / x.rows() as f32);
        let (v_net, v_log_std) = v.split_at(self.net.params().len());
        memory.direction.clear();
        memory.direction.extend(v_net.iter().map(|&v| v as f32));
        memory.against.set(&self.log_std, &self.log_std);
        let against = &memory.against;
        let mut nothing = vec![(); x.chunks()];
        self.net.tangent_pass(&mut memory.net, x, &memory.direction, &mut nothing, |(), _, outputs, tangents, d| {
            d.fill(0.0);
            let rows = outputs.chunks_exact(n).zip(tangents.chunks_exact(n)).zip(d.chunks_exact_mut(n));
            for ((out, tangent), d) in rows {
                if self.is_discrete() {
                    categorical::fisher(out, tangent, share, d);
                } else {
                    against.fisher(tangent, share, d);
                }
            }
        });
        let product = memory.net.gradient().iter().map(|&p| f64::from(p));
        product.chain(v_log_std.iter().map(|v| 2.0 * v)).collect()
    }

    /// All parameters: the network's in its own order, padding included, then `log_std`.
    pub fn parameters(&self) -> Vec<f32> {
        self.net.params().iter().chain(&self.log_std).copied().collect()
    }

    /// Replaces all parameters by some in the order of [`Policy::parameters`].
    pub fn set_parameters(&mut self, parameters: &[f32]) {
        let (net, log_std) = parameters.split_at(self.net.params().len());
        self.net.set_params(net);
        self.log_std.copy_from_slice(log_std);
    }

    /// The gradient of the last pass in the order of [`Policy::parameters`].
    pub fn gradient(&self, memory: &PolicyMemory) -> Vec<f64> {
        memory.net.gradient().iter().chain(&memory.d_log_std).map(|&g| f64::from(g)).collect()
    }

    /// Applies Adam to the gradient of the last pass. Returns the gradient's norm.
    pub fn step(&mut self, memory: &PolicyMemory) -> f64 {
        let gradient = memory.net.gradient();
        self.net.step(&mut self.adam, gradient);
        self.adam_log_std.step_few(&mut self.log_std, &memory.d_log_std);
        norm(gradient)
    }

    /// Outputs for a whole batch.
    pub fn evaluate(&self, memory: &mut PolicyMemory, x: &Batch<f32>, out: &mut [f32]) {
        self.net.evaluate(&mut memory.net, x, out);
    }

    /// Whether every parameter is finite.
    pub fn is_finite(&self) -> bool {
        self.net.params().iter().chain(&self.log_std).all(|p| p.is_finite())
    }
}

impl PassSums {
    /// For an algorithm with `terms` loss terms.
    pub fn new(terms: usize) -> Self {
        PassSums { kl: 0.0, terms: vec![0.0; terms], d_log_std: Vec::new() }
    }

    /// Adds `share` times another's sums.
    pub fn add(&mut self, other: &PassSums, share: f64) {
        self.kl += share * other.kl;
        self.terms.iter_mut().zip(&other.terms).for_each(|(t, o)| *t += share * o);
    }

    /// Whether nothing is infinite or NaN.
    pub fn is_finite(&self) -> bool {
        self.kl.is_finite() && self.terms.iter().all(|t| t.is_finite())
    }

    fn clear(&mut self) {
        self.kl = 0.0;
        self.terms.fill(0.0);
        self.d_log_std.fill(0.0);
    }
}

/// Euclidean norm; not finite if any entry is not.
pub fn norm(values: &[f32]) -> f64 {
    values.iter().map(|&g| f64::from(g) * f64::from(g)).sum::<f64>().sqrt()
}
