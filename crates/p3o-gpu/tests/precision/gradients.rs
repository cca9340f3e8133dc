//! One pass against double precision: every tensor of the gradient, the loss terms, the KL, the critics, Fisher products.

use crate::batches::{Case, SLACK, losses, make, normal};
use crate::reference::{Actor, Gradient, Net, Pass, Tensors, critic_pass, largest, narrow, unpacked, wide};
use crate::{Maker, UNIT};
use p3o::batch::TrainingBatch;
use p3o::config::{self, Activation};
use p3o::critic::{Critic, shuffle};
use p3o::engine::cpu::CpuEngine;
use p3o::engine::{Engine, Networks, RowLoss, Sums};
use p3o_env::ActionSpace;
use p3o_gpu::engine::DeviceEngine;
use p3o_gpu::host::Host;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// The error of a tensor of a gradient as a share of its size, at most.
///
/// A tensor's size is its largest entry or, if that is more, the largest root of the sum of the squares of what the rows add to an
/// entry ([`Gradient::sizes`]): about what the entry would be if the rows' signs were random. In a tensor of few entries the rows
/// may cancel beyond that by chance, and the share of the largest entry alone, which is shown too, has no bound then.
///
/// What to expect: such a sum is a random walk. In a chain of n additions the roundings add up to UNIT sqrt(n / 6) of its final
/// size, 9 UNIT for the 512 rows of a chunk; what a row adds is a product of a dozen rounded numbers and good to about 10 UNIT;
/// and the largest of some thousand errors is four deviations out, each of which is the root of a third of the bound:
/// 4 sqrt((9^2 + 10^2) / 3) UNIT = 1.9e-6.
pub const GRADIENT: f64 = 5e-6;

/// The error of a mean of terms as a share of their mean magnitude, at most. A term is an advantage times a ratio, the exponential of a
/// difference of two log-probabilities of ten or so, of which each is rounded a few times.
const TERMS: f64 = 40.0 * UNIT;

/// The error of a mean KL beyond [`kl_floor`] as a share of it, at most.
const KL: f64 = 1e-5;

/// The error of a critic's values as a share of the largest one, at most: three layers of sums of up to 256 products.
const VALUES: f64 = 32.0 * UNIT;

/// What may be off.
#[derive(Clone, Copy)]
pub struct Limits {
    pub gradient: f64,
    pub terms: f64,
    pub kl: f64,
    /// Of a KL, beyond [`kl_floor`].
    pub floor: f64,
    pub values: f64,
}

/// In single precision.
pub const SINGLE: Limits = Limits { gradient: GRADIENT, terms: TERMS, kl: KL, floor: 0.0, values: VALUES };

/// What a mean KL may be off however small it is.
///
/// For continuous actions the KL has (e^2x - 1) / 2 - x, x being the difference of the logarithms of the deviations, for each action:
/// an exponential near one, which a device knows to two units in the last place, 4 UNIT max(1, e^2x), of which half counts. It
/// is the same in every row and does not average out. The rest is half the square of (out - was) / sigma: with outputs that are
/// good to eta sigma it is off by sqrt(2 KL) eta. By the inequality of the means that is less than 1e-5 KL and the floor 2 UNIT together as
/// long as eta < 2 sqrt(1e-5 UNIT) = 1.5e-6.
///
/// For discrete actions it is the mean of x - was, where x = (out - top) - log sum is good to
/// UNIT (|out - top| + 2 log sum + |x| + 3), in the mean over n actions at most UNIT (5 ln n + 3). Its sign is random from row to
/// row, and three deviations of a mean over many rows are enough.
pub fn kl_floor(actor: &Actor, batch: &TrainingBatch, rows: usize) -> f64 {
    if actor.heads.is_empty() {
        let both = actor.log_std().iter().zip(&batch.log_std);
        return both.map(|(s, &o)| 2.0 * UNIT * (2.0 * (s - f64::from(o))).exp().max(1.0)).sum();
    }
    let of_head = |&n: &usize| UNIT * (5.0 * (n as f64).ln() + 3.0);
    actor.heads.iter().map(of_head).sum::<f64>() * (3.0 / (rows as f64).sqrt()).min(1.0)
}

pub fn continuous(dim: usize) -> ActionSpace {
    ActionSpace::Continuous { dim }
}

/// Observations whose numbers differ by powers of ten.
fn powers_of_ten(name: &'static str) -> Case {
    Case { magnitudes: [-3.0, 4.0], ..Case::new(name, 24, &[32, 32], continuous(2), 400) }
}

/// Shapes and numbers of all kinds.
pub fn cases() -> Vec<Case> {
    let new = Case::new;
    let three = ActionSpace::MultiDiscrete { sizes: vec![5, 5, 5] };
    let uneven = ActionSpace::MultiDiscrete { sizes: vec![3, 2, 7] };
    let relu = |case: Case| Case { activation: Activation::Relu, ..case };
    vec![
        new("60-64-64-2", 60, &[64, 64], continuous(2), 1000),
        new("113-256-256-8", 113, &[256, 256], continuous(8), 700),
        relu(new("ReLU 28-33-70-3", 28, &[33, 70], continuous(3), 600)),
        Case { costs: 3, ..new("one hidden layer, three constraints", 17, &[40], continuous(2), 300) },
        new("three hidden layers", 20, &[24, 32, 16], continuous(2), 400),
        Case { costs: 0, ..new("no hidden layer, no constraint", 30, &[], continuous(4), 300) },
        Case { activation: Activation::Identity, ..new("identity", 9, &[11, 13], continuous(2), 300) },
        new("three discrete actions", 30, &[32, 24], three.clone(), 500),
        Case { costs: 2, ..relu(new("uneven discrete actions, ReLU", 13, &[20, 9], uneven, 300)) },
        Case { agents: 3, ..new("three agents", 9, &[24, 16], three, 150) },
        powers_of_ten("observations from 1e-3 to 1e4"),
        Case { advantages: 1000.0, ..new("advantages times 1000", 20, &[32, 24], continuous(2), 400) },
        Case { edges: true, costs: 2, ..new("ratios at the edges", 20, &[32, 24], continuous(2), 400) },
        Case { moved: 1e-4, ..new("a policy that hardly moved", 20, &[32, 24], continuous(2), 300) },
        Case { moved: 0.0, ..new("a policy that has not moved", 20, &[32, 24], continuous(2), 300) },
        new("one row", 5, &[6], continuous(1), 1),
        new("128 rows", 5, &[6], continuous(1), 128),
        new("513 rows", 5, &[6], continuous(1), 513),
        new("200-64-16", 200, &[64], continuous(16), 200),
        new("100-128-128-96-5", 100, &[128, 128, 96], continuous(5), 200),
    ]
}

/// The worst figure so far, and of what it is.
#[derive(Clone, Default)]
pub struct Worst {
    pub figure: f64,
    pub of: String,
}

impl Worst {
    pub fn see(&mut self, figure: f64, of: impl FnOnce() -> String) {
        if figure > self.figure || figure.is_nan() {
            *self = Worst { figure, of: of() };
        }
    }
}

/// The error of every tensor as a share of its size and as a share of its largest entry.
pub fn errors(found: &Tensors, expected: &Gradient, first_outputs: usize) -> Vec<[f64; 2]> {
    let [sizes, entries] = [true, false].map(|rows| expected.sizes(first_outputs, rows));
    let of = |t: usize, sizes: &[f64]| {
        let errors = found[t].iter().zip(&expected.sums[t]).map(|(a, b)| (a - b).abs());
        let shares: Vec<f64> = errors.zip(sizes).map(|(e, size)| if e == 0.0 { 0.0 } else { e / size }).collect();
        largest(&shares)
    };
    (0..found.len()).map(|t| [of(t, &sizes[t]), of(t, &entries[t])]).collect()
}

/// A tensor's name.
fn name(tensor: usize, depth: usize) -> String {
    match (tensor / 2, tensor % 2) {
        (layer, _) if layer == depth => "log_std".into(),
        (layer, 0) => format!("weights {layer}"),
        (layer, _) => format!("bias {layer}"),
    }
}

/// The worst figures of an engine in a case.
#[derive(Clone)]
pub struct Figures {
    limits: Limits,
    pub gradient: Worst,
    /// As a share of the largest entry alone.
    pub of_entry: Worst,
    /// Of the network's gradient.
    pub norm: Worst,
    pub terms: Worst,
    /// As a share of what it may be off.
    pub kl: Worst,
    pub values: Worst,
    /// The critics' losses.
    pub losses: Worst,
}

impl Figures {
    pub fn new(limits: Limits) -> Figures {
        let [gradient, of_entry, norm, terms, kl, values, losses] = Default::default();
        Figures { limits, gradient, of_entry, norm, terms, kl, values, losses }
    }

    pub fn see_gradient(&mut self, found: &Tensors, expected: &Gradient, net: &Net, of: &str) {
        let depth = net.sizes.len() - 1;
        for (i, [error, of_entry]) in errors(found, expected, net.sizes[1]).into_iter().enumerate() {
            self.gradient.see(error, || format!("{of}: {}", name(i, depth)));
            self.of_entry.see(of_entry, || format!("{of}: {}", name(i, depth)));
        }
    }

    /// The norm of the network's gradient, `log_std` left out.
    pub fn see_norm(&mut self, found: f64, expected: &Gradient, net: &Net, of: &str) {
        let tensors = &expected.sums[..2 * (net.sizes.len() - 1)];
        let norm = tensors.iter().flatten().map(|g| g * g).sum::<f64>().sqrt();
        self.norm.see((found - norm).abs() / norm, || of.into());
    }

    pub fn see_sums(&mut self, found: &Sums, pass: &Pass, floor: f64, of: &str) {
        assert_eq!(found.terms.len(), pass.terms.len(), "{of}");
        for (i, ((a, b), size)) in found.terms.iter().zip(&pass.terms).zip(&pass.sizes).enumerate() {
            // Where no row adds anything, nothing may come out.
            self.terms.see(if a == b { 0.0 } else { (a - b).abs() / size }, || format!("{of}: term {i}"));
        }
        let (error, kl) = ((found.kl - pass.kl).abs(), pass.kl);
        self.kl.see(error / (self.limits.kl * kl + self.limits.floor + floor), || {
            format!("{of}: {error:.1e} of {kl:.1e}")
        });
    }

    pub fn show(&self, case: &Case, engine: &str) {
        println!("{}, {engine}", case.name);
        for (what, Worst { figure, of }) in [
            ("gradient, of a tensor's size", &self.gradient),
            ("gradient, of its largest entry", &self.of_entry),
            ("norm", &self.norm),
            ("terms", &self.terms),
            ("KL, of what it may be off", &self.kl),
            ("values", &self.values),
            ("critics' losses", &self.losses),
        ] {
            if !of.is_empty() {
                println!("    {what:32} {figure:.1e}  {of}");
            }
        }
    }

    pub fn hold(&self, case: &Case) {
        let limits = self.limits;
        for (Worst { figure, of }, most) in [
            (&self.gradient, limits.gradient),
            (&self.norm, limits.gradient),
            (&self.terms, limits.terms),
            (&self.kl, 1.0),
            (&self.values, limits.values),
            (&self.losses, limits.gradient),
        ] {
            assert!(*figure <= most, "{}, {of}: {figure:e} is over {most:e}", case.name);
        }
    }
}

/// The actor's gradient, tensor by tensor.
pub fn split(networks: &Networks, gradient: &[f64]) -> Tensors {
    let (net, log_std) = gradient.split_at(networks.policy.net.params().len());
    let mut tensors = unpacked(&networks.policy.net, &narrow(net));
    tensors.push(log_std.to_vec());
    tensors
}

/// A pass: its name, its loss, its rows and the factor of the entropy.
type Kind = (String, RowLoss, Vec<u32>, f32);

/// Passes of every kind over all rows and over some; for large networks, which take the stand-in long, two of them.
fn kinds(batch: &TrainingBatch, networks: &Networks) -> Vec<Kind> {
    let all: Vec<u32> = (0..batch.rows() as u32).collect();
    let some: Vec<u32> = all.iter().rev().copied().filter(|row| row % 3 != 1).collect();
    let losses = losses(&networks.policy, batch).into_iter();
    let both = losses.flat_map(|(name, loss)| {
        let more = format!("{name}, some rows and entropy");
        [(name.to_string(), loss.clone(), all.clone(), 0.0), (more, loss, some.clone(), 0.01)]
    });
    both.take(if is_large(networks) { 2 } else { 8 }).collect()
}

pub fn is_large(networks: &Networks) -> bool {
    networks.policy.net.params().len() > 50_000
}

/// What an engine's actor makes of all passes.
fn see_actor(engine: &mut dyn Engine, networks: &Networks, batch: &TrainingBatch) -> Figures {
    let (actor, mut figures) = (Actor::of(&networks.policy), Figures::new(SINGLE));
    let (mut engine, _) = engine.parts();
    for (name, loss, rows, entropy) in kinds(batch, networks) {
        let pieces = (rows.len() != batch.rows()).then_some(&rows[..]);
        let pass = actor.pass(batch, &rows, &loss, f64::from(entropy));
        assert!(pass.slack > SLACK, "{name}: {:e} from a kink", pass.slack);
        let sums = engine.pass(batch, pieces, &loss, entropy);
        figures.see_gradient(&split(networks, &engine.gradient()), &pass.gradient, &actor.net, &name);
        // A step of length zero tells the norm and changes nothing that is looked at here.
        figures.see_norm(engine.step(0.0), &pass.gradient, &actor.net, &name);
        let floor = kl_floor(&actor, batch, rows.len());
        figures.see_sums(&sums, &pass, floor, &name);
        if let (RowLoss::Surrogate(_), None) = (&loss, pieces) {
            figures.see_sums(&engine.measure(batch), &pass, floor, "measured");
        }
    }
    figures
}

/// A product with the Fisher matrix, along a direction that changes every weight by about its own size.
fn see_fisher(engine: &mut dyn Engine, networks: &Networks, batch: &TrainingBatch, figures: &mut Figures) {
    let (actor, net) = (Actor::of(&networks.policy), &networks.policy.net);
    let (rng, mut flat) = (&mut ChaCha8Rng::seed_from_u64(1), vec![0.0; net.params().len()]);
    for l in 0..net.depth() {
        let draw = |of: Vec<f32>| of.iter().map(|x| x * normal(rng)).collect::<Vec<f32>>();
        let [weights, bias] = <[Vec<f32>; 2]>::from(net.layer(l)).map(draw);
        net.pack(&mut flat, l, &weights, &bias);
    }
    let mut direction = unpacked(net, &flat);
    direction.push(actor.log_std().to_vec());
    let both: Vec<f64> = wide(&flat).iter().chain(actor.log_std()).copied().collect();
    let product = split(networks, &engine.parts().0.fisher_product(&both));
    let mut expected = actor.fisher_product(batch, &direction);
    let of_log_std = expected.sums.last_mut().expect("it is always there");
    of_log_std.iter_mut().zip(actor.log_std()).for_each(|(p, v)| *p = 2.0 * v);
    figures.see_gradient(&product, &expected, &actor.net, "Fisher product");
}

/// The critics' values, and their losses and gradients at a step of length zero, over whole batches and mini-batches.
pub fn see_critics(engine: &mut DeviceEngine, networks: &Networks, batch: &TrainingBatch, figures: &mut Figures) {
    let steps = batch.steps();
    for minibatch in [0, minibatch(steps)] {
        let settings = config::Critic { passes: 1, minibatch, normalize: false, ..config::Critic::default() };
        let mut rngs: Vec<_> = (0..networks.critics.len() as u64).map(ChaCha8Rng::seed_from_u64).collect();
        let orders: Vec<Vec<Vec<u32>>> = rngs.iter().map(|rng| parts(steps, minibatch, rng)).collect();
        let losses = engine.parts().1.fit_all(batch, &settings, 0.0, &mut rngs);
        for (c, critic) in networks.critics.iter().enumerate() {
            let (net, of) = (Net::of(&critic.net), format!("critic {c}, mini-batches of {minibatch}"));
            let pass = |rows: &[u32]| critic_pass(critic, &net, batch, &batch.targets[c], rows);
            let mut passes: Vec<_> = orders[c].iter().map(|rows| pass(rows)).collect();
            let parts = passes.iter().zip(&orders[c]).map(|((loss, ..), rows)| loss * rows.len() as f64);
            let loss = parts.sum::<f64>() / steps as f64 * critic.scale.deviation.powi(2);
            figures.losses.see((losses[c] - loss).abs() / loss, || of.clone());
            let (_, gradient, values) = passes.pop().expect("a batch has rows");
            let found = engine.critic_gradient(c).unwrap_or_else(|e| panic!("{e}"));
            figures.see_gradient(&unpacked(&critic.net, &found), &gradient, &net, &of);
            if minibatch == 0 {
                see_values(engine, critic, c, batch, &values, figures);
            }
        }
    }
}

/// Those of the batch and of what follows its open end.
fn see_values(
    engine: &mut DeviceEngine,
    critic: &Critic,
    c: usize,
    batch: &TrainingBatch,
    expected: &[f64],
    figures: &mut Figures,
) {
    let net = Net::of(&critic.net);
    let open = batch.open_rows.chunks_exact(net.sizes[0]).map(|x| net.outputs(&wide(x))[0]);
    let open = open.map(|value| critic.scale.mean + critic.scale.deviation * value);
    let expected: Vec<f64> = expected.iter().copied().chain(open).collect();
    let mut found = vec![f32::NAN; expected.len()];
    let (values, open_values) = found.split_at_mut(batch.steps());
    engine.parts().1.values(batch, c, values, open_values);
    let errors: Vec<f64> = found.iter().zip(&expected).map(|(&a, b)| f64::from(a) - b).collect();
    figures.values.see(largest(&errors) / largest(&expected), || format!("critic {c}"));
}

/// Rows of a mini-batch, of which three make a batch.
pub fn minibatch(rows: usize) -> usize {
    rows.div_ceil(3)
}

/// The rows of every mini-batch of a pass, or of the batch.
pub fn parts(rows: usize, minibatch: usize, rng: &ChaCha8Rng) -> Vec<Vec<u32>> {
    let mut order: Vec<u32> = (0..rows as u32).collect();
    if minibatch == 0 {
        return vec![order];
    }
    shuffle(&mut order, rows, &mut rng.clone());
    order.chunks(minibatch).map(<[u32]>::to_vec).collect()
}

/// Every figure of a device, and beside it what the engine in host memory does with the same actor.
fn check(device: &Maker) {
    for (seed, case) in cases().iter().enumerate() {
        let (networks, batch) = make(case, seed as u64);
        let copy = || make(case, seed as u64).0;
        let mut host = CpuEngine::new(copy(), case.agents > 1);
        host.upload(&batch);
        let of_host = see_actor(&mut host, &networks, &batch);
        of_host.show(case, "the engine in host memory");
        let mut engine = DeviceEngine::by_layers(copy(), device).unwrap_or_else(|e| panic!("{e}"));
        engine.upload(&batch);
        engine.upload_targets(&batch);
        let mut figures = see_actor(&mut engine, &networks, &batch);
        see_critics(&mut engine, &networks, &batch, &mut figures);
        if !is_large(&networks) {
            see_fisher(&mut engine, &networks, &batch, &mut figures);
        }
        figures.show(case, &engine.name());
        figures.hold(case);
        engine.check().unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Observations of 1e4 with weights of the usual size: a sum before a tanh is in the thousands and rounded by 1e-4, and near one the
/// slope 1 - y^2 has few digits. That is so in any engine of single precision; a device has at most one digit less than the
/// engine in host memory.
fn check_saturated(device: &Maker) {
    let case = Case { balanced: false, ..powers_of_ten("saturated by observations up to 1e4") };
    let ((networks, batch), copy) = (make(&case, 0), || make(&case, 0).0);
    let device = DeviceEngine::by_layers(copy(), device).unwrap_or_else(|e| panic!("{e}"));
    let engines: [Box<dyn Engine>; 2] = [Box::new(CpuEngine::new(copy(), false)), Box::new(device)];
    let [host, device] = engines.map(|mut engine| {
        engine.upload(&batch);
        engine.upload_targets(&batch);
        let figures = see_actor(&mut *engine, &networks, &batch);
        figures.show(&case, &engine.name());
        figures.gradient.figure
    });
    assert!(device <= 10.0 * host, "{device:e} on the device, {host:e} on the host");
}

#[test]
fn a_stand_in_computes_what_double_precision_does() {
    check(&|| Ok(Box::new(Host::default())));
    check_saturated(&|| Ok(Box::new(Host::default())));
}

#[cfg(feature = "gpu-tests")]
#[test]
fn a_gpu_computes_what_double_precision_does() {
    let gpu = p3o_gpu::cuda::Cuda::open(0).unwrap_or_else(|e| panic!("{e}"));
    check(&|| Ok(Box::new(gpu.again()?)));
    check_saturated(&|| Ok(Box::new(gpu.again()?)));
}

/// What the comparison would say of a device that rounds weights to the ten bits of TF32.
#[test]
fn coarser_arithmetic_is_seen() {
    for (seed, case) in cases().iter().enumerate().filter(|(_, case)| !case.hidden.contains(&256)) {
        let (networks, batch) = make(case, seed as u64);
        let mut coarse = make(case, seed as u64).0;
        let bits = |x: &f32| f32::from_bits((x.to_bits() + (1 << 12)) & !((1 << 13) - 1));
        let rounded: Vec<f32> = coarse.policy.net.params().iter().map(bits).collect();
        coarse.policy.net.set_params(&rounded);
        let mut engine = CpuEngine::new(coarse, case.agents > 1);
        engine.upload(&batch);
        let found = see_actor(&mut engine, &networks, &batch).gradient;
        assert!(found.figure > 10.0 * GRADIENT, "{}: {:e}", case.name, found.figure);
    }
}

/// Entries of a tensor to look at: the largest and two more.
fn some_of(tensor: &[f64]) -> Vec<usize> {
    let top = (0..tensor.len()).max_by(|&a, &b| tensor[a].abs().total_cmp(&tensor[b].abs()));
    top.into_iter().chain([tensor.len() / 3, tensor.len() * 7 / 9]).filter(|&i| i < tensor.len()).collect()
}

/// Holds a gradient against central differences of what it is the gradient of, entry by entry. A step is 1e-6 of what a weight's
/// input is divided by, too short to come to a kink.
fn compare(net: &Net, rows: &[f32], gradient: &Tensors, objective: impl Fn(&Net) -> f64, of: &str) {
    let (inputs, outputs) = (net.sizes[0], net.sizes[1]);
    for (t, tensor) in gradient.iter().enumerate() {
        for i in some_of(tensor) {
            let column = rows.chunks_exact(inputs).map(|row| f64::from(row[i / outputs % inputs]).powi(2));
            let scale = if t == 0 { (column.sum::<f64>() / (rows.len() / inputs) as f64).sqrt() } else { 1.0 };
            let at = |step: f64| {
                let mut moved = net.clone();
                moved.tensors[t][i] += step;
                objective(&moved)
            };
            let h = 1e-6 / scale;
            let (found, first) = ((at(h) - at(-h)) / (2.0 * h), i / outputs * outputs);
            let size = if t == 0 { largest(&tensor[first..first + outputs]) } else { largest(tensor) };
            let (error, expected) = ((found - tensor[i]).abs(), tensor[i]);
            assert!(error <= 1e-6 * size, "{of}, tensor {t} [{i}]: {found:e} by differences, {expected:e} by formula");
        }
    }
}

#[test]
fn the_reference_is_the_gradient_of_its_objective() {
    for (seed, case) in cases().into_iter().enumerate() {
        let case = Case { steps: case.steps.min(if case.hidden.contains(&256) { 5 } else { 20 }), ..case };
        let (networks, batch) = make(&case, seed as u64);
        let actor = Actor::of(&networks.policy);
        for (kind, loss, rows, entropy) in kinds(&batch, &networks) {
            let pass = |net: &Net| {
                let actor = Actor { net: net.clone(), heads: actor.heads.clone() };
                actor.pass(&batch, &rows, &loss, f64::from(entropy))
            };
            let (gradient, of) = (pass(&actor.net).gradient.sums, format!("{}, {kind}", case.name));
            compare(&actor.net, batch.actor_rows(), &gradient, |net| pass(net).objective, &of);
        }
        let all: Vec<u32> = (0..batch.steps() as u32).collect();
        for (critic, targets) in networks.critics.iter().zip(&batch.targets) {
            let (net, of) = (Net::of(&critic.net), format!("{}, a critic", case.name));
            let gradient = critic_pass(critic, &net, &batch, targets, &all).1.sums;
            let loss = |net: &Net| critic_pass(critic, net, &batch, targets, &all).0;
            compare(&net, &batch.critic_rows, &gradient, loss, &of);
        }
    }
}
