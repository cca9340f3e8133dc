//! One pass in double precision, in plain loops, row by row: nothing here is shared with an engine but the formulas of the
//! algorithms and of the policies' heads, which are written for any precision. Central differences check it.

use p3o::algo::{focops, p3o as penalized};
use p3o::batch::TrainingBatch;
use p3o::critic::Critic;
use p3o::engine::RowLoss;
use p3o::policy::Policy;
use p3o_nn::multi_categorical::{self, Rows};
use p3o_nn::{Activation, Network, gaussian};

/// Some numbers for every parameter: each layer's weights `[input][output]` and its bias, then whatever else there is.
pub type Tensors = Vec<Vec<f64>>;

pub fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&x| f64::from(x)).collect()
}

pub fn narrow(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|&x| x as f32).collect()
}

/// A flat vector in the order of a network's parameters, layer by layer.
pub fn unpacked(net: &Network<f32>, flat: &[f32]) -> Tensors {
    let layers = (0..net.depth()).map(|l| net.unpack(flat, l));
    layers.flat_map(|(weights, bias)| [wide(&weights), wide(&bias)]).collect()
}

/// The largest magnitude.
pub fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |most, x| if x.abs() > most || x.is_nan() { x.abs() } else { most })
}

/// A network: its widths and parameters.
#[derive(Clone)]
pub struct Net {
    pub sizes: Vec<usize>,
    pub activation: Activation,
    pub tensors: Tensors,
}

impl Net {
    pub fn of(net: &Network<f32>) -> Net {
        let Network::FeedForward(mlp) = net else { panic!("a feed-forward network") };
        let tensors = unpacked(net, net.params());
        Net { sizes: mlp.sizes().to_vec(), activation: mlp.activation(), tensors }
    }

    fn depth(&self) -> usize {
        self.sizes.len() - 1
    }

    /// Every layer's values for one row, and how near the nearest sum comes to the kink of a ReLU, as a share of its terms.
    pub fn forward(&self, x: &[f64]) -> (Tensors, f64) {
        let (mut values, mut slack): (Tensors, f64) = (Vec::new(), f64::INFINITY);
        for l in 0..self.depth() {
            let (weights, bias) = (&self.tensors[2 * l], &self.tensors[2 * l + 1]);
            let (mut sums, mut terms) = (bias.clone(), wide_abs(bias));
            for (x, row) in values.last().map_or(x, |v| v).iter().zip(weights.chunks_exact(bias.len())) {
                sums.iter_mut().zip(row).for_each(|(sum, w)| *sum += x * w);
                terms.iter_mut().zip(row).for_each(|(sum, w)| *sum += (x * w).abs());
            }
            if l + 1 < self.depth() {
                match self.activation {
                    Activation::Tanh => sums.iter_mut().for_each(|x| *x = x.tanh()),
                    Activation::Relu => {
                        slack = sums.iter().zip(&terms).fold(slack, |least, (sum, all)| least.min(sum.abs() / all));
                        sums.iter_mut().for_each(|x| *x = x.max(0.0));
                    }
                    Activation::Identity => {}
                }
            }
            values.push(sums);
        }
        (values, slack)
    }

    /// Adds the gradient for a row that went forward and the gradient with respect to its outputs.
    pub fn backward(&self, x: &[f64], values: &Tensors, d: &[f64], gradient: &mut Gradient) {
        let mut d = d.to_vec();
        for l in (0..self.depth()).rev() {
            let input = if l == 0 { x } else { &values[l - 1] };
            gradient.add(2 * l, input, &d);
            gradient.add(2 * l + 1, &[1.0], &d);
            if l > 0 {
                let slope = |y: f64| match self.activation {
                    Activation::Tanh => 1.0 - y * y,
                    Activation::Relu => f64::from(y > 0.0),
                    Activation::Identity => 1.0,
                };
                let rows = self.tensors[2 * l].chunks_exact(d.len());
                let dot = |row: &[f64]| row.iter().zip(&d).map(|(w, d)| w * d).sum::<f64>();
                d = input.iter().zip(rows).map(|(&y, row)| slope(y) * dot(row)).collect();
            }
        }
    }

    pub fn outputs(&self, x: &[f64]) -> Vec<f64> {
        self.forward(x).0.pop().expect("a network has layers")
    }
}

fn wide_abs(numbers: &[f64]) -> Vec<f64> {
    numbers.iter().map(|x| x.abs()).collect()
}

fn zeros_like(tensors: &Tensors) -> Tensors {
    tensors.iter().map(|t| vec![0.0; t.len()]).collect()
}

/// A sum over rows for every parameter.
#[derive(Clone)]
pub struct Gradient {
    pub sums: Tensors,
    /// The sums of the squares of what each row adds.
    pub squares: Tensors,
}

impl Gradient {
    fn zero(tensors: &Tensors) -> Gradient {
        Gradient { sums: zeros_like(tensors), squares: zeros_like(tensors) }
    }

    /// The size of the tensor that each entry belongs to: its largest entry and, if `rows` count, at least the largest root of the sum of
    /// the squares of what the rows add to one. The first layer's weights count input by input: an observation's numbers may differ by
    /// powers of ten, and so do their gradients.
    pub fn sizes(&self, first_outputs: usize, rows: bool) -> Tensors {
        let of = |sums: &[f64], squares: &[f64]| {
            let size = if rows { largest(sums).max(largest(squares).sqrt()) } else { largest(sums) };
            vec![size; sums.len()]
        };
        let both = self.sums.iter().zip(&self.squares).enumerate();
        let sizes = both.map(|(t, (sums, squares))| {
            let part = if t == 0 { first_outputs } else { sums.len().max(1) };
            sums.chunks(part).zip(squares.chunks(part)).flat_map(|(s, q)| of(s, q)).collect()
        });
        sizes.collect()
    }

    /// Adds the products of all x and d to a tensor.
    fn add(&mut self, tensor: usize, x: &[f64], d: &[f64]) {
        let rows = self.sums[tensor].chunks_exact_mut(d.len()).zip(self.squares[tensor].chunks_exact_mut(d.len()));
        for ((sums, squares), x) in rows.zip(x) {
            for ((sum, square), d) in sums.iter_mut().zip(squares).zip(d) {
                *sum += x * d;
                *square += (x * d) * (x * d);
            }
        }
    }
}

/// What a pass comes to.
pub struct Pass {
    pub kl: f64,
    pub terms: Vec<f64>,
    /// The mean magnitude of each term: a mean of numbers of both signs may be as near to zero as it likes.
    pub sizes: Vec<f64>,
    /// What the gradient is the gradient of.
    pub objective: f64,
    pub gradient: Gradient,
    /// How near the nearest ratio, KL or sum comes to where the loss has a kink.
    pub slack: f64,
}

/// A policy. Its parameters are the network's tensors and then the logarithm of the standard deviation.
#[derive(Clone)]
pub struct Actor {
    pub net: Net,
    pub heads: Vec<usize>,
}

/// What one row says of a policy.
pub struct Row {
    pub log_prob: f64,
    pub ratio: f64,
    pub kl: f64,
    entropy: f64,
}

impl Actor {
    pub fn of(policy: &Policy) -> Actor {
        let mut net = Net::of(&policy.net);
        net.tensors.push(wide(&policy.log_std));
        Actor { net, heads: policy.heads.clone() }
    }

    pub fn log_std(&self) -> &[f64] {
        self.net.tensors.last().expect("it is always there")
    }

    /// A row by its outputs.
    pub fn row(&self, batch: &TrainingBatch, row: usize, out: &[f64]) -> Row {
        let (action, was) = (self.action(batch, row), wide(&batch.outputs[row * out.len()..][..out.len()]));
        let (log_prob, kl, entropy) = if self.heads.is_empty() {
            let log_std = self.log_std();
            let kl = gaussian::kl(out, log_std, &was, &wide(&batch.log_std));
            (gaussian::log_prob(out, log_std, &action), kl, gaussian::entropy(log_std))
        } else {
            let (mut rows, mut p) = (Rows::new(&self.heads), vec![0.0; out.len()]);
            rows.set(out, &mut p);
            // The old log-probabilities as they are: they sum up to one as well as single precision can say.
            let (log_prob, kl) = (rows.log_prob(out, &action), rows.kl(out, &p, &was));
            (log_prob, kl, multi_categorical::entropy(&self.heads, out))
        };
        Row { log_prob, ratio: (log_prob - f64::from(batch.log_probs[row])).exp(), kl, entropy }
    }

    fn action(&self, batch: &TrainingBatch, row: usize) -> Vec<f64> {
        let width = if self.heads.is_empty() { self.log_std().len() } else { self.heads.len() };
        wide(&batch.actions[row * width..][..width])
    }

    /// The numbers of a row that the actor sees.
    pub fn seen(&self, batch: &TrainingBatch, row: usize) -> Vec<f64> {
        let n = self.net.sizes[0];
        wide(&batch.actor_rows()[row * n..][..n])
    }

    /// The pass of `PolicyEngine::pass` over these rows.
    pub fn pass(&self, batch: &TrainingBatch, rows: &[u32], loss: &RowLoss, entropy: f64) -> Pass {
        let share = 1.0 / rows.len() as f64;
        let count = batch.advantages.len() + p3o::engine::EXTRA_TERMS;
        let mut pass = Pass {
            kl: 0.0,
            terms: vec![0.0; count],
            sizes: vec![0.0; count],
            objective: 0.0,
            gradient: Gradient::zero(&self.net.tensors),
            slack: f64::INFINITY,
        };
        for &row in rows {
            let row = row as usize;
            let x = self.seen(batch, row);
            let (values, slack) = self.net.forward(&x);
            let out = values.last().expect("a network has layers");
            let found = self.row(batch, row, out);
            let weighed = Weighed::of(loss, batch, row, found.ratio, found.kl);
            pass.kl += share * found.kl;
            for ((sum, size), term) in pass.terms.iter_mut().zip(&mut pass.sizes).zip(&weighed.terms) {
                *sum += share * term;
                *size += share * term.abs();
            }
            pass.objective += share * (weighed.loss - entropy * found.entropy);
            pass.slack = pass.slack.min(slack).min(weighed.slack);
            let weights = [weighed.w, weighed.u, entropy].map(|x| share * x);
            let (d, d_log_std) = self.slopes(batch, row, out, weights);
            self.net.backward(&x, &values, &d, &mut pass.gradient);
            if !d_log_std.is_empty() {
                pass.gradient.add(self.net.tensors.len() - 1, &[1.0], &d_log_std);
            }
        }
        pass
    }

    /// The gradient of w log pi(a|s) + u KL(s) - e entropy(s) with respect to the outputs and to `log_std`.
    fn slopes(&self, batch: &TrainingBatch, row: usize, out: &[f64], [w, u, e]: [f64; 3]) -> (Vec<f64>, Vec<f64>) {
        let (action, was) = (self.action(batch, row), wide(&batch.outputs[row * out.len()..][..out.len()]));
        let (mut d, log_std) = (vec![0.0; out.len()], self.log_std());
        // The entropy's slope is one for every entry.
        let mut d_log_std = vec![-e; log_std.len()];
        if self.heads.is_empty() {
            gaussian::log_prob_grad(out, log_std, &action, w, &mut d, &mut d_log_std);
            gaussian::kl_grad(out, log_std, &was, &wide(&batch.log_std), u, &mut d, &mut d_log_std);
        } else {
            let mut rows = Rows::new(&self.heads);
            rows.set(out, &mut d);
            rows.gradient(out, &action, w, -e, &mut d);
            multi_categorical::kl_grad(&self.heads, out, &was, u, &mut d);
        }
        (d, d_log_std)
    }

    /// J^T M J v over all rows, v being a direction of the network's parameters: the outputs' tangents by central differences,
    /// which are good to about 1e-9 here.
    pub fn fisher_product(&self, batch: &TrainingBatch, v: &Tensors) -> Gradient {
        let (mut product, h) = (Gradient::zero(&self.net.tensors), 1e-5);
        let moved = |by: f64| {
            let mut net = self.net.clone();
            let both = net.tensors.iter_mut().flatten().zip(v.iter().flatten());
            both.for_each(|(p, v)| *p += by * v);
            net
        };
        let (ahead, behind) = (moved(h), moved(-h));
        let share = 1.0 / batch.rows() as f64;
        for row in 0..batch.rows() {
            let x = self.seen(batch, row);
            let (values, _) = self.net.forward(&x);
            let both = ahead.outputs(&x).into_iter().zip(behind.outputs(&x));
            let tangent: Vec<f64> = both.map(|(a, b)| (a - b) / (2.0 * h)).collect();
            let (out, mut d) = (values.last().expect("a network has layers"), vec![0.0; tangent.len()]);
            if self.heads.is_empty() {
                gaussian::fisher(self.log_std(), &tangent, share, &mut d);
            } else {
                multi_categorical::fisher(&self.heads, out, &tangent, share, &mut d);
            }
            self.net.backward(&x, &values, &d, &mut product);
        }
        product
    }
}

/// What a loss makes of a row: its terms, its part in the objective, the weights of grad log pi and of grad KL.
pub struct Weighed {
    pub terms: Vec<f64>,
    pub loss: f64,
    pub w: f64,
    pub u: f64,
    slack: f64,
}

impl Weighed {
    pub fn of(loss: &RowLoss, batch: &TrainingBatch, row: usize, ratio: f64, kl: f64) -> Weighed {
        let adv: Vec<f64> = batch.advantages.iter().map(|of| f64::from(of[row])).collect();
        let (reward, costs) = (adv[0], &adv[1..]);
        let dot = |factors: &[f32]| factors.iter().zip(costs).map(|(&x, adv)| f64::from(x) * adv).sum::<f64>();
        let mut terms = vec![-ratio * reward];
        terms.extend(costs.iter().map(|adv| ratio * adv));
        terms.resize(adv.len() + p3o::engine::EXTRA_TERMS, 0.0);
        match loss {
            RowLoss::Clipped(l) => {
                let [e, scale, factor] = [l.epsilon, l.scale, l.reward].map(f64::from);
                let mut w;
                (terms[0], w) = penalized::reward_term(ratio, reward, e);
                let mut sum = factor * terms[0];
                w *= factor;
                for (i, (&adv, &factor)) in costs.iter().zip(&l.costs).enumerate() {
                    let (term, slope) = match l.clip_costs {
                        true => penalized::cost_term(ratio, adv, e),
                        false => (ratio * adv, ratio * adv),
                    };
                    terms[1 + i] = term;
                    sum += f64::from(factor) * term;
                    w += f64::from(factor) * slope;
                }
                let slack = (ratio - 1.0 - e).abs().min((ratio - 1.0 + e).abs());
                Weighed { terms, loss: scale * sum, w: scale * w, u: 0.0, slack }
            }
            RowLoss::Proximal(l) => {
                let advantage = reward - dot(&l.multipliers);
                let (lambda, delta) = (f64::from(l.lambda), f64::from(l.delta));
                let (term, w, u) = focops::sample(ratio, kl, advantage, lambda, delta);
                (terms[adv.len()], terms[adv.len() + 1]) = (term, u);
                Weighed { terms, loss: term, w, u, slack: (kl - delta).abs() / delta }
            }
            RowLoss::Surrogate(l) => {
                let w = -ratio * (f64::from(l.reward) * reward - dot(&l.costs));
                Weighed { terms, loss: w, w, u: 0.0, slack: f64::INFINITY }
            }
        }
    }
}

/// The mean squared error of a critic in its network's unit over these steps, its gradient, and the values in the targets' unit.
pub fn critic_pass(
    critic: &Critic,
    net: &Net,
    batch: &TrainingBatch,
    targets: &[f32],
    rows: &[u32],
) -> (f64, Gradient, Vec<f64>) {
    let (mut loss, mut gradient, mut values) = (0.0, Gradient::zero(&net.tensors), Vec::new());
    let (share, width) = (1.0 / rows.len() as f64, net.sizes[0]);
    for row in rows.iter().map(|&row| row as usize) {
        let x = wide(&batch.critic_rows[row * width..][..width]);
        let (layers, _) = net.forward(&x);
        let value = layers.last().expect("a network has layers")[0];
        let error = value - (f64::from(targets[row]) - critic.scale.mean) / critic.scale.deviation;
        loss += share * error * error;
        net.backward(&x, &layers, &[2.0 * share * error], &mut gradient);
        values.push(critic.scale.mean + critic.scale.deviation * value);
    }
    (loss, gradient, values)
}
