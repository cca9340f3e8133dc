//! Forward mode: the outputs' derivative along a direction in parameter space, and products with J^T M J.

use super::support::*;
use p3o_nn::{Activation, Mlp, Tiles};

const SHAPES: [&[usize]; 6] =
    [&[33, 40], &[5, 17, 2], &[70, 64, 40], &[17, 64, 33, 5], &[5, 5, 17, 64, 5], &[17, 70, 5, 33, 1]];

/// The outputs' tangents along `direction`.
fn tangents(net: &Mlp<f64>, x: &Tiles<f64>, direction: &[f64]) -> Vec<f64> {
    let n = net.outputs();
    let mut found: Vec<(usize, Vec<f64>)> = vec![(usize::MAX, Vec::new()); x.parts()];
    net.tangent_pass(&mut net.pass_workspace(x.parts()), x, direction, &mut found, |(start, all), first, _, t, d| {
        *start = first.min(*start);
        assert_eq!(*start * n + all.len(), first * n, "the tiles of a part come in order");
        all.extend(t);
        d.fill(0.0);
    });
    found.into_iter().flat_map(|(_, t)| t).collect()
}

/// To 1e-6 of the central difference, or of a hundredth of the largest tangent where that is more.
fn check_tangents(sizes: &[usize], activation: Activation, rows: usize) {
    let (step, margin) = (1e-4, 2e-3);
    let net = random_net::<f64>(sizes, activation, 1);
    let oracle = Oracle::of(&net);
    let x = oracle.rows(rows, margin, &mut rng(2));
    let direction = random_direction(&net, 3);
    let moved = [1.0, -1.0, 2.0, -2.0].map(|steps: f64| {
        let params: Vec<f64> = net.params().iter().zip(&direction).map(|(p, v)| p + steps * step * v).collect();
        let mut moved = net.clone();
        moved.set_params(&params);
        Oracle::of(&moved)
    });
    let expected: Vec<f64> = x
        .chunks_exact(net.inputs())
        .flat_map(|x| {
            let y = moved.each_ref().map(|net| net.row(x));
            assert!(y.iter().all(|(_, m)| *m > 0.25 * margin), "a step came too close to a kink");
            let [a, b, c, d] = y.map(|(y, _)| y);
            (0..a.len()).map(move |o| (8.0 * (a[o] - b[o]) - (c[o] - d[o])) / (12.0 * step)).collect::<Vec<_>>()
        })
        .collect();
    let found = tangents(&net, &tiles(net.inputs(), &x), &direction);
    assert_eq!(found.len(), expected.len());
    let scale = 1e-2 * expected.iter().fold(0.0, |m: f64, t| m.max(t.abs()));
    for (k, (&a, &b)) in found.iter().zip(&expected).enumerate() {
        let error = relative_error(a, b, scale);
        assert!(error <= 1e-6, "{sizes:?} {activation:?} {rows} rows, [{k}]: {a} is not {b}, error {error:e}");
    }
}

#[test]
fn tangents_of_every_shape() {
    for sizes in SHAPES {
        for activation in ACTIVATIONS {
            check_tangents(sizes, activation, 7);
        }
    }
}

#[test]
fn tangents_at_the_edges_of_tiles_and_parts() {
    for rows in [1, 119, 120, 121, 500, 2500] {
        check_tangents(&[5, 17, 2], Activation::Tanh, rows);
        check_tangents(&[5, 33, 5, 2], Activation::Tanh, rows);
    }
}

/// J^T M J v against J formed row by row, each row one backward pass with a single one in d loss / d output; M is
/// diagonal and differs from output to output. Both are sums of the same terms, so only rounding separates them.
fn check_gauss_newton(sizes: &[usize], activation: Activation, rows: usize) {
    let net = random_net::<f64>(sizes, activation, 1);
    let x = tiles(net.inputs(), &uniform(rows * net.inputs(), &mut rng(2)));
    let direction = random_direction(&net, 3);
    let metric = |k: usize| 1.0 + (k % 3) as f64;
    let n = net.outputs();

    let mut workspace = net.pass_workspace(x.parts());
    let mut expected = vec![0.0; net.params().len()];
    for k in 0..rows * n {
        net.pass(&mut workspace, &x, &mut vec![(); x.parts()], |(), first, _, d| {
            d.iter_mut().enumerate().for_each(|(i, d)| *d = if first * n + i == k { 1.0 } else { 0.0 });
        });
        let along: f64 = workspace.gradient().iter().zip(&direction).map(|(j, v)| j * v).sum();
        expected.iter_mut().zip(workspace.gradient()).for_each(|(e, j)| *e += j * metric(k) * along);
    }

    net.tangent_pass(&mut workspace, &x, &direction, &mut vec![(); x.parts()], |(), first, _, t, d| {
        for (i, (d, t)) in d.iter_mut().zip(t).enumerate() {
            *d = metric(first * n + i) * t;
        }
    });
    let scale = expected.iter().fold(0.0, |m: f64, e| m.max(e.abs()));
    assert!(scale > 0.0);
    for (k, (&a, &b)) in workspace.gradient().iter().zip(&expected).enumerate() {
        assert!((a - b).abs() <= 1e-12 * scale, "{sizes:?} {activation:?} {rows} rows, [{k}]: {a} is not {b}");
    }
}

#[test]
fn gauss_newton_product_is_that_of_the_explicit_matrix() {
    for activation in ACTIVATIONS {
        check_gauss_newton(&[5, 17, 2], activation, 7);
        check_gauss_newton(&[5, 17, 33, 3], activation, 7);
    }
    check_gauss_newton(&[17, 40], Activation::Tanh, 3);
    check_gauss_newton(&[5, 17, 2], Activation::Tanh, 121);
}

/// What the network computes is not changed by asking for its tangents.
#[test]
fn outputs_are_those_of_evaluate() {
    let net = random_net::<f64>(&[17, 64, 33, 5], Activation::Tanh, 1);
    let x = tiles(17, &uniform(119 * 17, &mut rng(2)));
    let mut seen: [Vec<f64>; 1] = [Vec::new()];
    let direction = random_direction(&net, 3);
    net.tangent_pass(&mut net.pass_workspace(1), &x, &direction, &mut seen, |seen, _, y, _, d| {
        seen.extend(y);
        d.fill(0.0);
    });
    assert_eq!(seen[0], evaluate(&net, &x));
}
