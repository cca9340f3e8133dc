//! A row that is not a number is seen: in its own outputs, in the gradient, and nowhere else.

use super::support::*;
use p3o_nn::{Activation, Isa, Mlp};

const SIZES: [usize; 4] = [17, 33, 20, 3];
const ROWS: usize = 250;
const BAD: [usize; 3] = [0, 119, 200];

fn nets() -> impl Iterator<Item = Mlp<f32>> {
    Isa::available().iter().flat_map(|&isa| {
        ACTIVATIONS.map(|activation| {
            let mut net = Mlp::on(isa, &SIZES, activation);
            randomize(&mut net, 1);
            net
        })
    })
}

/// The clean batch and one in which a single number of each bad row is NaN.
fn batches() -> (Vec<f32>, Vec<f32>) {
    let clean: Vec<f32> = uniform(ROWS * SIZES[0], &mut rng(2));
    let mut bad = clean.clone();
    BAD.iter().for_each(|r| bad[r * SIZES[0] + r % SIZES[0]] = f32::NAN);
    (clean, bad)
}

#[test]
fn outputs_are_nan_in_that_row_only() {
    let (clean, bad) = batches();
    for net in nets() {
        let (expected, found) = (evaluate(&net, &tiles(17, &clean)), evaluate(&net, &tiles(17, &bad)));
        for (r, (found, expected)) in found.chunks_exact(3).zip(expected.chunks_exact(3)).enumerate() {
            if BAD.contains(&r) {
                assert!(found.iter().all(|y| y.is_nan()), "row {r} of {:?}: {found:?}", net.activation());
            } else {
                assert_eq!(bits(found), bits(expected), "row {r} of {:?}", net.activation());
            }
        }
    }
}

fn gradient(net: &Mlp<f32>, workspace: &mut p3o_nn::MlpPassWorkspace<f32>, x: &[f32]) -> Vec<f32> {
    let x = tiles(17, x);
    net.pass(workspace, &x, &mut [(); 3], |(), _, y, d| d.copy_from_slice(y));
    workspace.gradient().to_vec()
}

/// The gradient is not finite, and the workspace it passed through is not spoilt for the next batch.
#[test]
fn gradient_is_not_finite_once() {
    let (clean, bad) = batches();
    for net in nets() {
        let expected = gradient(&net, &mut net.pass_workspace(3), &clean);
        assert!(expected.iter().all(|g| g.is_finite()));
        let mut workspace = net.pass_workspace(3);
        let spoilt = gradient(&net, &mut workspace, &bad);
        for l in 0..net.depth() {
            let (weights, bias) = net.unpack(&spoilt, l);
            assert!(weights.iter().any(|g| !g.is_finite()), "weights {l} of {:?}", net.activation());
            let relu_hides_it = net.activation() == Activation::Relu && l + 1 < net.depth();
            assert!(relu_hides_it || bias.iter().any(|g| !g.is_finite()), "biases {l} of {:?}", net.activation());
        }
        assert_eq!(bits(&gradient(&net, &mut workspace, &clean)), bits(&expected));
    }
}
