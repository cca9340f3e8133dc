//! The recurrent network: its equations, its gradient, and the same bits step by step, in batches and on any machine.

use super::support::*;
use p3o_nn::{Activation, Adam, Gru, GruPassWorkspace, Init, Isa, Real, Sequences};

/// Inputs, states and flags, all row-major and sequence by sequence; only the states of first rows count.
struct Batch<E> {
    steps: usize,
    rows: Vec<E>,
    states: Vec<E>,
    starts: Vec<bool>,
}

impl<E: Real> Batch<E> {
    /// About one row in five starts an episode.
    fn random(net: &Gru<E>, count: usize, steps: usize, seed: u64) -> Self {
        let (rng, n) = (&mut rng(seed), count * steps);
        let (rows, states) = (uniform(n * net.inputs(), rng), uniform(n * net.units(), rng));
        let starts = uniform::<f64>(n, rng).into_iter().map(|u| u < -0.6).collect();
        Batch { steps, rows, states, starts }
    }

    fn packed(&self, net: &Gru<E>) -> Sequences<E> {
        let mut x = Sequences::new(net.inputs(), net.units());
        x.fill(self.steps, &self.rows, &self.states, &self.starts);
        x
    }
}

fn flat_gru<E: Real>(net: &Gru<E>, mut layer: impl FnMut(usize, usize, usize) -> (Vec<E>, Vec<E>)) -> Vec<E> {
    let mut flat = vec![E::ZERO; net.params().len()];
    for l in 0..net.depth() {
        let (inputs, outputs) = net.shape(l);
        let (weights, bias) = layer(l, inputs, outputs);
        net.pack(&mut flat, l, &weights, &bias);
    }
    flat
}

/// Weights that keep the variance of a row, gains between a half and one and a half, biases in [-0.5, 0.5).
fn random_gru<E: Real>(isa: Isa, sizes: &[usize], activation: Activation, seed: u64) -> Gru<E> {
    let (mut net, rng) = (Gru::on(isa, sizes, activation), &mut rng(seed));
    let params = flat_gru(&net, |l, inputs, outputs| {
        let (weights, bias) = (uniform::<f64>(inputs * outputs, rng), uniform::<f64>(outputs, rng));
        let bound = (3.0 / inputs as f64).sqrt();
        let weight = |w: f64| if net.is_norm(l) { 1.0 + 0.5 * w } else { bound * w };
        let round = |x: f64| E::of(f64::from(x as f32));
        (weights.into_iter().map(|w| round(weight(w))).collect(), bias.into_iter().map(|b| round(0.5 * b)).collect())
    });
    net.set_params(&params);
    net
}

fn evaluate_gru<E: Real>(net: &Gru<E>, x: &Sequences<E>) -> Vec<E> {
    let mut out = vec![E::ZERO; x.rows() * net.outputs()];
    net.evaluate(&mut net.pass_workspace(x.parts()), x, &mut out);
    out
}

/// The same network as plain loops over row-major matrices, one row after the other.
#[derive(Clone)]
struct Plain {
    layers: Vec<(Vec<f64>, Vec<f64>)>,
    activation: Activation,
}

fn linear(x: &[f64], (weights, bias): &(Vec<f64>, Vec<f64>)) -> Vec<f64> {
    let n = bias.len();
    (0..n).map(|o| bias[o] + x.iter().enumerate().map(|(i, x)| x * weights[i * n + o]).sum::<f64>()).collect()
}

fn layer_norm(x: &[f64], (gain, bias): &(Vec<f64>, Vec<f64>)) -> Vec<f64> {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let standard_deviation = (x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n + 1e-5).sqrt();
    (0..x.len()).map(|i| (x[i] - mean) / standard_deviation * gain[i] + bias[i]).collect()
}

impl Plain {
    fn of(net: &Gru<f64>) -> Self {
        Plain { layers: (0..net.depth()).map(|l| net.layer(l)).collect(), activation: net.activation() }
    }

    /// What enters the recurrent unit, and how close the nearest dense unit is to the kink of relu.
    fn base(&self, x: &[f64]) -> (Vec<f64>, f64) {
        let mut x = layer_norm(x, &self.layers[0]);
        let mut margin = f64::INFINITY;
        for pair in self.layers[1..self.layers.len() - 4].chunks_exact(2) {
            let mut y = linear(&x, &pair[0]);
            match self.activation {
                Activation::Tanh => y.iter_mut().for_each(|y| *y = y.tanh()),
                Activation::Relu => {
                    margin = y.iter().fold(margin, |m, y| m.min(y.abs()));
                    y.iter_mut().for_each(|y| *y = y.max(0.0));
                }
                Activation::Identity => {}
            }
            x = layer_norm(&y, &pair[1]);
        }
        (x, margin)
    }

    /// The outputs of one row; `h` becomes the state after it.
    fn step(&self, x: &[f64], h: &mut [f64]) -> Vec<f64> {
        let [input, state, norm, head] = &self.layers[self.layers.len() - 4..] else { unreachable!() };
        let (i, s) = (linear(&self.base(x).0, input), linear(h, state));
        let n = h.len();
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        for (k, h) in h.iter_mut().enumerate() {
            let r = sigmoid(i[k] + s[k]);
            let z = sigmoid(i[n + k] + s[n + k]);
            let new = (i[2 * n + k] + r * s[2 * n + k]).tanh();
            *h = (1.0 - z) * new + z * *h;
        }
        linear(&layer_norm(h, norm), head)
    }

    /// The outputs of one sequence of a batch.
    fn sequence(&self, batch: &Batch<f64>, s: usize) -> Vec<Vec<f64>> {
        let (units, first) = (self.layers[self.layers.len() - 2].0.len(), s * batch.steps);
        let inputs = self.layers[0].0.len();
        let mut h = batch.states[first * units..][..units].to_vec();
        let row = |t: usize| {
            if batch.starts[first + t] {
                h.fill(0.0);
            }
            self.step(&batch.rows[(first + t) * inputs..][..inputs], &mut h)
        };
        (0..batch.steps).map(row).collect()
    }
}

/// Shapes with no, one and two dense layers; narrow, odd and wide; the last one is MAPPO's.
const SHAPES: [&[usize]; 6] =
    [&[3, 2, 1], &[5, 17, 2], &[17, 5, 33, 3], &[4, 33, 6, 40], &[6, 8, 70, 20, 5], &[18, 64, 64, 64, 5]];

/// With one input the normalised row is zero, so x is that norm's bias, 1; the state is h = 2.
///
///     r = sigmoid(1 x + 1 - 1 h + 0) = sigmoid(0) = 1/2
///     z = sigmoid(ln 3 x) = 3/4
///     n = tanh(ln 2 x - 1 + r (h / 2 + 1)) = tanh(ln 2) = 3/5
///     h' = 1/4 3/5 + 3/4 2 = 1.65
#[test]
fn one_step_by_hand() {
    let mut net = Gru::<f64>::new(&[1, 1, 1], Activation::Tanh);
    let mut flat = vec![0.0; net.params().len()];
    net.pack(&mut flat, 0, &[7.0], &[1.0]);
    net.pack(&mut flat, 1, &[1.0, 3f64.ln(), 2f64.ln()], &[1.0, 0.0, -1.0]);
    net.pack(&mut flat, 2, &[-1.0, 0.0, 0.5], &[0.0, 0.0, 1.0]);
    net.set_params(&flat);
    let (mut state, mut out) = ([2.0], [0.0]);
    net.infer(&mut net.step_workspace(), &[123.0], &mut state, &mut out);
    assert!((state[0] - 1.65).abs() < 1e-15, "{state:?}");
    assert_eq!(out, [0.0]);
}

/// Without weights r = z = 1/2 and n = 0, so the state is halved: (4, -2) becomes (2, -1), with mean 1/2 and variance 9/4.
#[test]
fn the_norm_and_the_head_by_hand() {
    let mut net = Gru::<f64>::new(&[1, 2, 1], Activation::Tanh);
    let mut flat = vec![0.0; net.params().len()];
    net.pack(&mut flat, 3, &[2.0, 3.0], &[1.0, -1.0]);
    net.pack(&mut flat, 4, &[1.0, 10.0], &[0.25]);
    net.set_params(&flat);
    let (mut state, mut out) = ([4.0, -2.0], [0.0]);
    net.infer(&mut net.step_workspace(), &[1.0], &mut state, &mut out);
    assert_eq!(state, [2.0, -1.0]);
    let u = 1.5 / (2.25f64 + 1e-5).sqrt();
    assert!((out[0] - (0.25 + (2.0 * u + 1.0) + 10.0 * (-3.0 * u - 1.0))).abs() < 1e-13, "{out:?}");
}

#[test]
fn outputs_are_those_of_plain_loops() {
    for sizes in SHAPES {
        for activation in ACTIVATIONS {
            let net = random_gru::<f64>(Isa::current(), sizes, activation, 1);
            let single = random_gru::<f32>(Isa::current(), sizes, activation, 1);
            let (batch, plain) = (Batch::random(&net, 29, 7, 2), Plain::of(&net));
            let expected: Vec<f64> = (0..29).flat_map(|s| plain.sequence(&batch, s)).flatten().collect();
            let found = evaluate_gru(&net, &batch.packed(&net));
            let narrow = evaluate_gru(&single, &Batch::random(&single, 29, 7, 2).packed(&single));
            for (k, expected) in expected.into_iter().enumerate() {
                assert!((found[k] - expected).abs() < 1e-12, "{sizes:?} {activation:?} [{k}]");
                assert!((narrow[k].f64() - expected).abs() < 1e-5, "{sizes:?} {activation:?} [{k}] in f32");
            }
        }
    }
}

/// A smooth function of a row's outputs that couples them, and differs from row to row; writes its derivative.
fn loss(row: usize, y: &[f64], d: &mut [f64]) -> f64 {
    let total: f64 = y.iter().sum();
    let mut loss = 0.1 * total * total;
    for (o, (y, d)) in y.iter().zip(d).enumerate() {
        let weight = 1.0 + 0.5 * (0.7 * row as f64 + 1.3 * o as f64).cos();
        loss += weight * y.sin();
        *d = weight * y.cos() + 0.2 * total;
    }
    loss
}

fn gradient(net: &Gru<f64>, workspace: &mut GruPassWorkspace<f64>, batch: &Batch<f64>) -> (Vec<f64>, f64) {
    let (x, n) = (batch.packed(net), net.outputs());
    let mut sums = vec![0.0; x.parts()];
    net.pass(workspace, &x, &mut sums, |sum, first, y, d| {
        for (r, (y, d)) in y.chunks_exact(n).zip(d.chunks_exact_mut(n)).enumerate() {
            *sum += loss(first + r, y, d);
        }
    });
    (workspace.gradient().to_vec(), sums.iter().sum())
}

fn loss_of_sequence(plain: &Plain, batch: &Batch<f64>, s: usize) -> f64 {
    let rows = plain.sequence(batch, s).into_iter().enumerate();
    rows.map(|(t, y)| loss(s * batch.steps + t, &y, &mut vec![0.0; y.len()])).sum()
}

/// Every `stride`-th parameter of every piece against central differences of the plain loops. Entries smaller than a
/// thousandth of the piece's largest are compared on that scale.
fn check_gradient(sizes: &[usize], activation: Activation, count: usize, steps: usize, stride: usize) {
    let what = format!("{sizes:?} {activation:?} {count} x {steps}");
    let net = random_gru::<f64>(Isa::current(), sizes, activation, 1);
    let (mut batch, plain) = (Batch::random(&net, count, steps, 2), Plain::of(&net));
    let rng = &mut rng(3);
    // Away from the kinks of relu: none may be crossed by a step below.
    for row in batch.rows.chunks_exact_mut(sizes[0]) {
        while plain.base(row).1 < 5e-3 {
            row.copy_from_slice(&uniform(row.len(), rng));
        }
    }
    let (found, total) = gradient(&net, &mut net.pass_workspace(16), &batch);
    let expected: f64 = (0..count).map(|s| loss_of_sequence(&plain, &batch, s)).sum();
    assert!(relative_error(total, expected, 1.0) < 1e-12, "{what}: the loss of the pass itself");
    let derivative = |change: &dyn Fn(&mut Plain, f64)| {
        let along = |s: usize| {
            let at = |step: f64| {
                let mut moved = plain.clone();
                change(&mut moved, step);
                loss_of_sequence(&moved, &batch, s)
            };
            central_difference(at, 2e-4)
        };
        (0..count).map(along).sum::<f64>()
    };
    for l in 0..net.depth() {
        let (weights, bias) = net.unpack(&found, l);
        let largest = |piece: &[f64]| 1e-3 * piece.iter().fold(0.0, |m: f64, g| m.max(g.abs()));
        let check = |k: usize, found: f64, scale: f64, kind: &str, expected: f64| {
            let error = relative_error(found, expected, scale);
            let name = net.name(l);
            assert!(error <= 1e-6, "{what}, {kind} of {name} [{k}]: {found} is not {expected}, error {error:e}");
        };
        for k in (0..weights.len()).step_by(stride) {
            check(k, weights[k], largest(&weights), "weights", derivative(&|p, step| p.layers[l].0[k] += step));
        }
        for k in (0..bias.len()).step_by(stride) {
            check(k, bias[k], largest(&bias), "biases", derivative(&|p, step| p.layers[l].1[k] += step));
        }
    }
}

#[test]
fn every_parameter_has_its_gradient() {
    check_gradient(&[5, 7, 4, 2], Activation::Tanh, 3, 6, 1);
    check_gradient(&[4, 3, 2], Activation::Tanh, 3, 6, 1);
    for activation in ACTIVATIONS {
        check_gradient(&[4, 6, 5, 3, 2], activation, 3, 6, 1);
    }
}

/// 12 sequences are a block; 200 are 17 blocks in 16 parts.
#[test]
fn gradients_of_wide_networks_and_many_blocks() {
    check_gradient(&[6, 33, 17, 3], Activation::Tanh, 3, 5, 61);
    check_gradient(&[18, 64, 64, 64, 5], Activation::Tanh, 2, 4, 1013);
    check_gradient(&[3, 4, 40, 40], Activation::Identity, 2, 4, 211);
    for count in [1, 11, 12, 13, 200] {
        check_gradient(&[3, 4, 5, 2], Activation::Tanh, count, 3, 23);
    }
    check_gradient(&[3, 4, 5, 2], Activation::Tanh, 13, 1, 23);
}

/// Also after a batch of more, longer or shorter sequences.
#[test]
fn workspace_keeps_nothing_from_the_pass_before() {
    let net = random_gru::<f64>(Isa::current(), &[5, 17, 33, 2], Activation::Tanh, 1);
    let (long, short) = (Batch::random(&net, 200, 9, 2), Batch::random(&net, 14, 4, 3));
    let mut used = net.pass_workspace(16);
    for (first, then) in [(&long, &short), (&short, &long)] {
        let fresh = gradient(&net, &mut net.pass_workspace(16), then).0;
        gradient(&net, &mut used, first);
        assert!(gradient(&net, &mut used, then).0 == fresh);
    }
}

fn bits_of_loss(sum: &mut f32, first: usize, y: &[f32], d: &mut [f32]) {
    for (i, (d, y)) in d.iter_mut().zip(y).enumerate() {
        *d = y - 0.01 * ((first + i) % 50) as f32;
        *sum += *d * *d;
    }
}

/// Outputs, sums and gradient of a pass, then parameters and moments after four steps.
fn all_results(mut net: Gru<f32>, batch: &Batch<f32>) -> Vec<Vec<u32>> {
    let x = batch.packed(&net);
    let mut workspace = net.pass_workspace(x.parts());
    let mut sums = vec![0.0; x.parts()];
    net.pass(&mut workspace, &x, &mut sums, bits_of_loss);
    let mut results = vec![bits(&evaluate_gru(&net, &x)), bits(&sums), bits(workspace.gradient())];
    let mut adam = Adam::new(net.params().len(), 3e-3);
    for _ in 0..4 {
        net.step(&mut adam, workspace.gradient());
        net.pass(&mut workspace, &x, &mut vec![0.0; x.parts()], bits_of_loss);
    }
    results.extend([bits(net.params()), bits(adam.state().0), bits(adam.state().1)]);
    results
}

#[test]
fn one_two_and_three_threads() {
    for (count, steps) in [(13, 7), (100, 10), (250, 5)] {
        let net = random_gru::<f32>(Isa::current(), &[18, 33, 64, 5], Activation::Tanh, 1);
        let batch = Batch::random(&net, count, steps, 2);
        let on = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let expected = on(1).install(|| all_results(net.clone(), &batch));
        for threads in [2, 3] {
            let pool = on(threads);
            for _ in 0..3 {
                let found = pool.install(|| all_results(net.clone(), &batch));
                assert!(found == expected, "{count} x {steps} on {threads} threads");
            }
        }
    }
}

#[test]
fn every_instruction_set() {
    for sizes in SHAPES {
        let run = |isa| {
            let net = random_gru::<f32>(isa, sizes, Activation::Tanh, 1);
            let batch = Batch::random(&net, 19, 6, 2);
            all_results(net, &batch)
        };
        let expected = run(Isa::Scalar);
        for &isa in Isa::available() {
            assert!(run(isa) == expected, "{sizes:?} on {isa:?}");
        }
    }
}

/// What a rollout saw, one row at a time or many, is what a pass sees with the same parameters, to the bit: the ratio of
/// probabilities is exactly one.
#[test]
fn a_step_at_a_time_is_the_whole_sequence() {
    for &isa in Isa::available() {
        for sizes in [&[5, 17, 2][..], &[18, 64, 64, 64, 5]] {
            let net = random_gru::<f32>(isa, sizes, Activation::Tanh, 1);
            let (count, steps, inputs, units, n) = (31, 9, net.inputs(), net.units(), net.outputs());
            let batch = Batch::random(&net, count, steps, 2);
            let whole = evaluate_gru(&net, &batch.packed(&net));
            let x = batch.packed(&net);
            net.pass(&mut net.pass_workspace(16), &x, &mut vec![(); x.parts()], |(), first, y, d| {
                assert_eq!(bits(y), bits(&whole[first * n..][..y.len()]));
                d.fill(0.0);
            });
            let mut work = net.step_workspace();
            for at_once in [1, 7, count] {
                let mut states: Vec<f32> =
                    (0..count).flat_map(|s| batch.states[s * steps * units..][..units].to_vec()).collect();
                for t in 0..steps {
                    let row = |s: usize| s * steps + t;
                    let x: Vec<f32> =
                        (0..count).flat_map(|s| batch.rows[row(s) * inputs..][..inputs].to_vec()).collect();
                    let mut out = vec![0.0; count * n];
                    (0..count).filter(|&s| batch.starts[row(s)]).for_each(|s| states[s * units..][..units].fill(0.0));
                    let parts = x.chunks(at_once * inputs).zip(states.chunks_mut(at_once * units));
                    for ((x, states), out) in parts.zip(out.chunks_mut(at_once * n)) {
                        net.infer(&mut work, x, states, out);
                    }
                    for s in 0..count {
                        assert_eq!(bits(&out[s * n..][..n]), bits(&whole[row(s) * n..][..n]), "{s} {t} on {isa:?}");
                    }
                }
            }
        }
    }
}

/// A sequence named twice, in another order, and after a larger batch: the outputs are those of its own rows.
#[test]
fn gathered_sequences_are_the_sequences_themselves() {
    let net = random_gru::<f32>(Isa::current(), &[5, 17, 20, 3], Activation::Tanh, 1);
    let batch = Batch::random(&net, 40, 6, 2);
    let mut x = batch.packed(&net);
    let all = evaluate_gru(&net, &x);
    let first: Vec<u32> = (0..15).map(|i| i * 7 % 10 * 4 * 6).collect();
    x.gather(6, &first, &batch.rows, &batch.states, &batch.starts);
    assert_eq!((x.rows(), x.count(), x.steps(), x.parts()), (90, 15, 6, 2));
    let expected: Vec<f32> = x.source().iter().flat_map(|&r| all[r as usize * 3..][..3].to_vec()).collect();
    assert!(first.iter().enumerate().all(|(s, &f)| x.source()[s * 6 + 5] == f + 5));
    assert_eq!(bits(&evaluate_gru(&net, &x)), bits(&expected));
}

/// Whole episodes cut into thirds that begin in the states on the way have the same outputs, to the bit.
#[test]
fn states_on_the_way_continue_the_sequence() {
    let net = random_gru::<f32>(Isa::current(), &[5, 17, 20, 3], Activation::Tanh, 1);
    let mut batch = Batch::random(&net, 17, 12, 2);
    let x = batch.packed(&net);
    let whole = evaluate_gru(&net, &x);
    let (mut out, mut after) = (vec![0.0; whole.len()], vec![0.0; x.rows() * net.units()]);
    net.unroll(&mut net.pass_workspace(2), &x, &mut out, &mut after);
    assert_eq!(bits(&out), bits(&whole));
    // The state before a row is the one after its predecessor; before an episode's start it does not count.
    batch.states[20..].copy_from_slice(&after[..after.len() - 20]);
    let first = Batch::random(&net, 17, 12, 2).states;
    (0..17).for_each(|s| batch.states[s * 240..][..20].copy_from_slice(&first[s * 240..][..20]));
    batch.steps = 4;
    assert_eq!(bits(&evaluate_gru(&net, &batch.packed(&net))), bits(&whole));
}

/// A bad number is seen in its sequence from there to the next start, in the gradient, and nowhere else.
#[test]
fn not_a_number_stays_in_its_episode() {
    for &isa in Isa::available() {
        let net = random_gru::<f32>(isa, &[5, 17, 20, 3], Activation::Tanh, 1);
        let mut batch = Batch::random(&net, 14, 6, 2);
        batch.starts.fill(false);
        batch.starts[3 * 6 + 4] = true;
        let clean = evaluate_gru(&net, &batch.packed(&net));
        let run = |workspace: &mut GruPassWorkspace<f32>, batch: &Batch<f32>| {
            net.pass(workspace, &batch.packed(&net), &mut [(); 2], |(), _, y, d| d.copy_from_slice(y));
            workspace.gradient().to_vec()
        };
        let mut workspace = net.pass_workspace(2);
        let expected = run(&mut workspace, &batch);
        let good = std::mem::replace(&mut batch.rows[(3 * 6 + 2) * 5], f32::NAN);
        let bad = evaluate_gru(&net, &batch.packed(&net));
        for (r, (bad, clean)) in bad.chunks_exact(3).zip(clean.chunks_exact(3)).enumerate() {
            if r == 3 * 6 + 2 || r == 3 * 6 + 3 {
                assert!(bad.iter().all(|y| y.is_nan()), "row {r} on {isa:?}");
            } else {
                assert_eq!(bits(bad), bits(clean), "row {r} on {isa:?}");
            }
        }
        let spoilt = run(&mut workspace, &batch);
        assert!((0..net.depth()).all(|l| net.unpack(&spoilt, l).0.iter().any(|g| !g.is_finite())));
        batch.rows[(3 * 6 + 2) * 5] = good;
        assert_eq!(bits(&run(&mut workspace, &batch)), bits(&expected));
    }
}

/// Numbers that name their place, so that none can stand in for another; places of no parameter stay zero in training.
#[test]
fn packing_round_trips_and_its_padding_stays_zero() {
    for sizes in SHAPES {
        let mut net = Gru::<f32>::new(sizes, Activation::Tanh);
        let name = |l: usize, k: usize| (l * 100_000 + k + 1) as f32;
        let layer = |l: usize, inputs: usize, outputs: usize| {
            let weights: Vec<f32> = (0..inputs * outputs).map(|k| name(l, k)).collect();
            (weights, (0..outputs).map(|o| -name(l, o)).collect::<Vec<f32>>())
        };
        let packed = flat_gru(&net, layer);
        let count: usize = (0..net.depth()).map(|l| (net.shape(l).0 + 1) * net.shape(l).1).sum();
        assert_eq!(packed.iter().filter(|&&p| p != 0.0).count(), count, "two parameters in one place");
        net.set_params(&packed);
        for l in 0..net.depth() {
            assert_eq!(net.layer(l), layer(l, net.shape(l).0, net.shape(l).1), "{}", net.name(l));
        }
        let mut net = random_gru::<f32>(Isa::current(), sizes, Activation::Relu, 1);
        let x = Batch::random(&net, 30, 4, 2).packed(&net);
        let (mut workspace, mut adam) = (net.pass_workspace(3), Adam::new(packed.len(), 1e-2));
        for _ in 0..3 {
            net.pass(&mut workspace, &x, &mut [(); 3], |(), _, y, d| d.copy_from_slice(y));
            net.step(&mut adam, workspace.gradient());
        }
        for flat in [net.params(), workspace.gradient(), adam.state().0, adam.state().1] {
            assert!(flat.iter().any(|&p| p != 0.0));
            assert!(packed.iter().zip(flat).all(|(&used, &p)| used != 0.0 || p == 0.0), "{sizes:?}: stained padding");
        }
    }
}

/// Gains of MAPPO: 5/3 for tanh, sqrt(2) for relu, 1 in both of the unit's matrices over all three gates, the head's own.
#[test]
fn orthogonal_matrices_with_the_gains_of_mappo() {
    for (activation, dense) in [(Activation::Tanh, 5.0 / 3.0), (Activation::Relu, 2f64.sqrt())] {
        let mut net = Gru::<f64>::new(&[18, 64, 64, 64, 5], activation);
        net.init(Init::Orthogonal { head_gain: 0.01 }, &mut rng(1));
        for l in 0..net.depth() {
            let ((weights, bias), (inputs, outputs)) = (net.layer(l), net.shape(l));
            assert!(bias.iter().all(|&b| b == 0.0));
            if net.is_norm(l) {
                assert!(weights.iter().all(|&w| w == 1.0));
                continue;
            }
            let gain: f64 = match net.name(l) {
                "dense0" | "dense1" => dense,
                "gru_input" | "gru_state" => 1.0,
                "head" => 0.01,
                other => panic!("no such layer: {other}"),
            };
            let (short, long) = (inputs.min(outputs), inputs.max(outputs));
            let at = |a: usize, k: usize| {
                if inputs <= outputs { weights[a * outputs + k] } else { weights[k * outputs + a] }
            };
            for (a, b) in (0..short).flat_map(|a| (0..=a).map(move |b| (a, b))) {
                let dot: f64 = (0..long).map(|k| at(a, k) * at(b, k)).sum();
                let expected = if a == b { gain * gain } else { 0.0 };
                assert!((dot - expected).abs() <= 1e-12 * gain * gain, "{}: {a} . {b} = {dot}", net.name(l));
            }
        }
    }
}
