//! Every gradient is the derivative of what the forward pass computes: to 1e-6 of a central difference in f64.

use super::support::*;
use p3o_nn::{Activation, Mlp};

const TOLERANCE: f64 = 1e-6;
/// Step of the central differences: their truncation and rounding errors are then both below 1e-11 of the loss.
const STEP: f64 = 1e-4;
/// Hidden units of relu stay this far from zero. Inputs are below 1 and later layers keep the size of a row, so two
/// steps do not carry a unit across its kink; `loss_of_row` asserts it.
const MARGIN: f64 = 2e-3;
/// Entries smaller than this part of the largest one in the same piece (a layer's weights, or its biases) are compared
/// on that scale: their own size is no larger than the cancellation in the sum over rows.
const SCALE: f64 = 1e-3;

/// A smooth function of a row's outputs that couples them, and differs from row to row; writes its derivative.
fn loss(row: usize, y: &[f64], d: &mut [f64]) -> f64 {
    let total: f64 = y.iter().sum();
    let mut loss = 0.1 * total * total;
    for (o, (y, d)) in y.iter().zip(d).enumerate() {
        let weight = 1.0 + 0.5 * (0.7 * row as f64 + 1.3 * o as f64).cos();
        loss += weight * (y.sin() + 0.2 * y * y);
        *d = weight * (y.cos() + 0.4 * y) + 0.2 * total;
    }
    loss
}

fn loss_of_row(oracle: &Oracle, row: usize, x: &[f64]) -> f64 {
    let (y, margin) = oracle.row(x);
    assert!(margin > 0.25 * MARGIN, "a step came too close to a kink");
    loss(row, &y, &mut vec![0.0; y.len()])
}

/// The difference of two networks' losses, row by row so that equal parts cancel before they are summed.
fn derivative(oracle: &Oracle, x: &[f64], inputs: usize, change: impl Fn(&mut Oracle, f64)) -> f64 {
    let moved = [1.0, -1.0, 2.0, -2.0].map(|steps| {
        let mut moved = oracle.clone();
        change(&mut moved, steps * STEP);
        moved
    });
    let rows = x.chunks_exact(inputs).enumerate();
    rows.map(|(r, x)| {
        let at = |i: usize| loss_of_row(&moved[i], r, x);
        (8.0 * (at(0) - at(1)) - (at(2) - at(3))) / (12.0 * STEP)
    })
    .sum()
}

/// Up to `most` indices below `len`, spread evenly, the first and the last among them.
fn spread(len: usize, most: usize) -> impl Iterator<Item = usize> {
    let count = len.min(most);
    (0..count).map(move |i| if count == 1 { 0 } else { i * (len - 1) / (count - 1) })
}

fn check_piece(what: &str, gradient: &[f64], numeric: impl Fn(usize) -> f64) {
    let scale = SCALE * gradient.iter().fold(0.0, |m: f64, g| m.max(g.abs()));
    for k in spread(gradient.len(), 7) {
        let expected = numeric(k);
        let error = relative_error(gradient[k], expected, scale);
        assert!(error <= TOLERANCE, "{what}[{k}]: {} is not {expected}, error {error:e}", gradient[k]);
    }
}

/// One pass: the gradient in the order of the parameters.
fn gradient(net: &Mlp<f64>, oracle: &Oracle, x: &[f64]) -> Vec<f64> {
    let (tiles, n) = (tiles(net.inputs(), x), net.outputs());
    let mut workspace = net.pass_workspace(tiles.parts());
    let mut sums = vec![0.0; tiles.parts()];
    net.pass(&mut workspace, &tiles, &mut sums, |sum, first, y, d| {
        for (r, (y, d)) in y.chunks_exact(n).zip(d.chunks_exact_mut(n)).enumerate() {
            *sum += loss(first + r, y, d);
        }
    });
    let rows = x.chunks_exact(net.inputs()).enumerate();
    let expected: f64 = rows.map(|(r, x)| loss_of_row(oracle, r, x)).sum();
    assert!(relative_error(sums.iter().sum(), expected, 1.0) < 1e-12, "the loss of the pass itself");
    workspace.gradient().to_vec()
}

/// Samples every piece, then all parameters at once along a random direction.
fn check_parameters(sizes: &[usize], activation: Activation, rows: usize) {
    let what = format!("{sizes:?} {activation:?} {rows} rows");
    let net = random_net::<f64>(sizes, activation, 1);
    let oracle = Oracle::of(&net);
    let x = oracle.rows(rows, MARGIN, &mut rng(2));
    let gradient = gradient(&net, &oracle, &x);
    for l in 0..net.depth() {
        let (weights, bias) = net.unpack(&gradient, l);
        check_piece(&format!("{what}, weights {l}"), &weights, |k| {
            derivative(&oracle, &x, sizes[0], |net, step| net.layers[l].0[k] += step)
        });
        check_piece(&format!("{what}, biases {l}"), &bias, |k| {
            derivative(&oracle, &x, sizes[0], |net, step| net.layers[l].1[k] += step)
        });
    }
    let direction = random_direction(&net, 3);
    let along: f64 = gradient.iter().zip(&direction).map(|(g, v)| g * v).sum();
    let length = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    let expected = derivative(&oracle, &x, sizes[0], |oracle, step| {
        for (l, (weights, bias)) in oracle.layers.iter_mut().enumerate() {
            let (v, u) = net.unpack(&direction, l);
            weights.iter_mut().zip(v).for_each(|(w, v)| *w += step * v);
            bias.iter_mut().zip(u).for_each(|(b, u)| *b += step * u);
        }
    });
    let error = relative_error(along, expected, SCALE * length);
    assert!(error <= TOLERANCE, "{what}, along a direction: {along} is not {expected}, error {error:e}");
}

fn check_inputs(sizes: &[usize], activation: Activation, rows: usize) {
    let what = format!("{sizes:?} {activation:?} {rows} rows");
    let net = random_net::<f64>(sizes, activation, 4);
    let oracle = Oracle::of(&net);
    let x = oracle.rows(rows, MARGIN, &mut rng(5));
    let (inputs, outputs) = (net.inputs(), net.outputs());
    let mut d_output = vec![0.0; rows * outputs];
    for (r, (x, d)) in x.chunks_exact(inputs).zip(d_output.chunks_exact_mut(outputs)).enumerate() {
        loss(r, &oracle.row(x).0, d);
    }
    let mut d_input = vec![0.0; rows * inputs];
    net.input_gradient(&tiles(inputs, &x), &d_output, &mut d_input);
    for (r, (x, d)) in x.chunks_exact(inputs).zip(d_input.chunks_exact(inputs)).enumerate() {
        check_piece(&format!("{what}, input {r}"), d, |k| {
            let moved = |step: f64| {
                let mut x = x.to_vec();
                x[k] += step;
                loss_of_row(&oracle, r, &x)
            };
            central_difference(moved, STEP)
        });
    }
}

/// Depths one to four with every mixture of odd, narrow and wide layers and one to forty outputs.
const SHAPES: [&[usize]; 12] = [
    &[5, 1],
    &[64, 2],
    &[33, 40],
    &[5, 17, 2],
    &[17, 33, 1],
    &[70, 64, 40],
    &[1, 1, 1],
    &[17, 64, 33, 5],
    &[33, 5, 70, 40],
    &[5, 33, 64, 17, 2],
    &[17, 70, 5, 33, 1],
    &[5, 5, 17, 64, 5],
];

#[test]
fn parameters_of_every_shape() {
    for sizes in SHAPES {
        for activation in ACTIVATIONS {
            check_parameters(sizes, activation, 7);
        }
    }
}

#[test]
fn parameters_of_every_shape_over_two_tiles() {
    for sizes in SHAPES {
        check_parameters(sizes, Activation::Tanh, 121);
    }
}

/// 119 to 121 straddle a tile; 2500 rows are 21 tiles in 16 parts, some of one tile and some of two.
#[test]
fn parameters_at_the_edges_of_tiles_and_parts() {
    for rows in [1, 7, 119, 120, 121, 500, 2500] {
        for activation in ACTIVATIONS {
            check_parameters(&[5, 17, 2], activation, rows);
        }
        check_parameters(&[5, 17, 33, 5], Activation::Tanh, rows);
        check_parameters(&[17, 5], Activation::Identity, rows);
    }
}

#[test]
fn inputs_of_every_shape() {
    for sizes in SHAPES {
        for activation in ACTIVATIONS {
            check_inputs(sizes, activation, 7);
        }
    }
}

#[test]
fn inputs_at_the_edges_of_tiles_and_parts() {
    for rows in [1, 119, 120, 121, 500, 2500] {
        check_inputs(&[5, 17, 2], Activation::Tanh, rows);
        check_inputs(&[33, 5], Activation::Identity, rows);
    }
}

/// A second pass on the same workspace starts from zero, also after a batch with more parts.
#[test]
fn workspace_keeps_nothing_from_the_pass_before() {
    let net = random_net::<f64>(&[5, 17, 33, 2], Activation::Tanh, 1);
    let (long, short) = (uniform(2500 * 5, &mut rng(6)), uniform(250 * 5, &mut rng(7)));
    let run = |workspace: &mut _, x: &[f64]| {
        let x = tiles(5, x);
        let mut sums = vec![(); x.parts()];
        net.pass(workspace, &x, &mut sums, |(), first, y, d| {
            loss(first, y, d);
        });
    };
    let (mut fresh, mut used) = (net.pass_workspace(3), net.pass_workspace(16));
    run(&mut fresh, &short);
    run(&mut used, &long);
    assert_ne!(fresh.gradient(), used.gradient());
    run(&mut used, &short);
    assert_eq!(fresh.gradient(), used.gradient());
}
