//! The f64 engine computes what plain loops compute, and the f32 engine agrees with it to rounding.

use super::support::*;
use p3o_nn::{Activation, Mlp};

const SHAPES: [&[usize]; 6] =
    [&[33, 40], &[5, 17, 2], &[70, 64, 40], &[17, 64, 33, 5], &[60, 64, 64, 1], &[17, 70, 5, 33, 2]];

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |m, v| m.max(v.abs()))
}

#[test]
fn f64_engine_computes_the_plain_loops() {
    for sizes in SHAPES {
        for activation in ACTIVATIONS {
            let net = random_net::<f64>(sizes, activation, 1);
            let oracle = Oracle::of(&net);
            let x: Vec<f64> = uniform(130 * sizes[0], &mut rng(2));
            let expected: Vec<f64> = x.chunks_exact(sizes[0]).flat_map(|x| oracle.row(x).0).collect();
            let found = evaluate(&net, &tiles(sizes[0], &x));
            let bound = 1e-14 * largest(&expected);
            let error = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(error <= bound, "{sizes:?} {activation:?}: {error:e} is over {bound:e}");
        }
    }
}

fn twins(sizes: &[usize], activation: Activation) -> (Mlp<f32>, Mlp<f64>) {
    let (single, double) = (random_net::<f32>(sizes, activation, 1), random_net::<f64>(sizes, activation, 1));
    assert!(single.params().iter().zip(double.params()).all(|(a, b)| f64::from(*a) == *b), "not the same network");
    (single, double)
}

/// Outputs within 1e-6 of the largest output of the batch, sixteen units in the last place of f32.
#[test]
fn f32_outputs_are_those_of_f64() {
    for sizes in SHAPES {
        for activation in ACTIVATIONS {
            let (single, double) = twins(sizes, activation);
            let x: Vec<f32> = uniform(500 * sizes[0], &mut rng(2));
            let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let found = evaluate(&single, &tiles(sizes[0], &x));
            let expected = evaluate(&double, &tiles(sizes[0], &wide));
            let bound = 1e-6 * largest(&expected);
            let error = found.iter().zip(&expected).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max);
            assert!(error <= bound, "{sizes:?} {activation:?}: {error:e} is over {bound:e}");
        }
    }
}

/// Gradients: each of a layer's pieces within 8 units of rounding (2^-24) of its own size, as vectors; the worst here has
/// 3.6. A weight's gradient is a chain of at most 240 fused multiply-adds (two tiles) and 16 additions; n roundings of
/// random sign, relative to a sum that is on average half the final one, add up to about sqrt(n / 3) / 2 units, here 5.
#[test]
fn f32_gradients_are_those_of_f64() {
    for sizes in SHAPES {
        for activation in [Activation::Tanh, Activation::Identity] {
            let (single, double) = twins(sizes, activation);
            let x: Vec<f32> = uniform(2500 * sizes[0], &mut rng(2));
            let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();

            let (x, wide) = (tiles(sizes[0], &x), tiles(sizes[0], &wide));
            let (mut low, mut high) = (single.pass_workspace(16), double.pass_workspace(16));
            single.pass(&mut low, &x, &mut [(); 16], |(), _, y, d| {
                d.iter_mut().zip(y).for_each(|(d, y)| *d = 1.0 + 0.5 * y);
            });
            double.pass(&mut high, &wide, &mut [(); 16], |(), _, y, d| {
                d.iter_mut().zip(y).for_each(|(d, y)| *d = 1.0 + 0.5 * y);
            });
            for l in 0..single.depth() {
                let (a, b) = (single.unpack(low.gradient(), l), double.unpack(high.gradient(), l));
                for (piece, found, expected) in [("weights", a.0, b.0), ("biases", a.1, b.1)] {
                    let size = expected.iter().map(|b| b * b).sum::<f64>().sqrt();
                    let gap = found.iter().zip(&expected).map(|(&a, b)| (f64::from(a) - b).powi(2)).sum::<f64>().sqrt();
                    let units = gap / size * f64::from(1 << 24);
                    assert!(units <= 8.0, "{sizes:?} {activation:?}, {piece} {l}: {units} units of rounding");
                }
            }
        }
    }
}
