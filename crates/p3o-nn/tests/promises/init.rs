//! First parameters, the packed layout, and its padding.

use super::support::*;
use p3o_nn::{Activation, Adam, Init, Mlp, Real, Tiles};

/// The Gram matrix of the shorter side's vectors is gain^2 on the diagonal and zero beside it.
fn check_orthogonal<E: Real>(sizes: &[usize], activation: Activation, head_gain: f64) {
    let mut net = Mlp::<E>::new(sizes, activation);
    net.init(Init::Orthogonal { head_gain }, &mut rng(1));
    for l in 0..net.depth() {
        let (inputs, outputs) = (sizes[l], sizes[l + 1]);
        let hidden = if activation == Activation::Relu { 2f64.sqrt() } else { 1.0 };
        let gain = if l + 1 == net.depth() { head_gain } else { hidden };
        let (weights, bias) = net.layer(l);
        let at = |i: usize, o: usize| weights[i * outputs + o].f64();
        let short = inputs.min(outputs);
        for a in 0..short {
            for b in 0..=a {
                let dot: f64 = if inputs <= outputs {
                    (0..outputs).map(|o| at(a, o) * at(b, o)).sum()
                } else {
                    (0..inputs).map(|i| at(i, a) * at(i, b)).sum()
                };
                let expected = if a == b { gain * gain } else { 0.0 };
                let error = (dot - expected).abs() / (gain * gain);
                assert!(error <= 1e-6, "{sizes:?} {activation:?}, layer {l}: {a} . {b} = {dot}, not {expected}");
            }
        }
        assert!(bias.iter().all(|&b| b == E::ZERO));
    }
}

#[test]
fn orthogonal_matrices_are() {
    for activation in ACTIVATIONS {
        check_orthogonal::<f64>(&[17, 70, 64, 33, 2], activation, 0.01);
        check_orthogonal::<f32>(&[60, 64, 64, 1], activation, 1.0);
        check_orthogonal::<f32>(&[5, 40], activation, 0.1);
    }
}

/// All within the bound, most of it used, and the variance that of a uniform distribution, bound^2 / 3: over n draws it
/// is off by bound^2 sqrt(4 / 45 / n) in the mean square.
#[test]
fn glorot_is_uniform_within_its_bound() {
    let mut net = Mlp::<f32>::new(&[60, 64, 40], Activation::Tanh);
    net.init(Init::Glorot, &mut rng(1));
    for l in 0..2 {
        let (weights, bias) = net.layer(l);
        let n = weights.len() as f64;
        let bound = (6.0 / (net.sizes()[l] + net.sizes()[l + 1]) as f64).sqrt();
        let largest = weights.iter().fold(0.0, |m: f64, w| m.max(w.f64().abs()));
        assert!(largest <= bound * (1.0 + 1e-7) && largest > 0.99 * bound, "{largest} of {bound}");
        let variance = weights.iter().map(|w| w.f64() * w.f64()).sum::<f64>() / n;
        let off = (variance - bound * bound / 3.0).abs() / (bound * bound * (4.0 / 45.0 / n).sqrt());
        assert!(off < 4.0, "variance off by {off} standard errors");
        assert!(bias.iter().all(|&b| b == 0.0));
    }
}

#[test]
fn same_seed_same_network() {
    for init in [Init::Glorot, Init::Orthogonal { head_gain: 0.5 }] {
        let draw = |seed| {
            let mut net = Mlp::<f32>::new(&[5, 17, 2], Activation::Tanh);
            net.init(init, &mut rng(seed));
            net.params().to_vec()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}

/// Numbers that name their place, so that none can stand in for another.
#[test]
fn packing_round_trips() {
    for sizes in [&[5, 1][..], &[33, 40], &[5, 17, 2], &[70, 64, 33, 40]] {
        let mut net = Mlp::<f64>::new(sizes, Activation::Tanh);
        let name = |l: usize, i: usize, o: usize| (l * 1_000_000 + i * 1000 + o + 1) as f64;
        let layer = |l: usize, inputs: usize, outputs: usize| {
            let weights: Vec<f64> = (0..inputs * outputs).map(|k| name(l, k / outputs, k % outputs)).collect();
            (weights, (0..outputs).map(|o| -name(l, 0, o)).collect::<Vec<f64>>())
        };
        let packed = flat(&net, layer);
        let count: usize = sizes.windows(2).map(|s| (s[0] + 1) * s[1]).sum();
        assert_eq!(packed.iter().filter(|&&p| p != 0.0).count(), count, "two parameters in one place");
        net.set_params(&packed);
        for l in 0..net.depth() {
            assert_eq!(net.layer(l), layer(l, sizes[l], sizes[l + 1]));
            assert_eq!(net.unpack(&packed, l), net.layer(l));
        }
        assert_eq!(net.params(), packed);
        // Rows that lie further apart, with something between them that is nobody's.
        let mut again = vec![0.0; packed.len()];
        for l in 0..net.depth() {
            let (inputs, outputs) = (sizes[l], sizes[l + 1]);
            let (mut rows, mut bias) = (vec![0.5; inputs * (outputs + 3)], vec![0.0; outputs]);
            net.unpack_into(&packed, l, outputs + 3, &mut rows, &mut bias);
            for (i, row) in rows.chunks_exact(outputs + 3).enumerate() {
                assert_eq!(row[..outputs], layer(l, inputs, outputs).0[i * outputs..][..outputs]);
                assert_eq!(row[outputs..], [0.5; 3]);
            }
            net.pack_from(&mut again, l, outputs + 3, &rows, &bias);
        }
        assert_eq!(again, packed);
    }
}

/// What is kept beside the parameters follows them: a pass, there and back, is that of a network which was made so.
#[test]
fn a_network_changed_in_place_is_the_one_that_was_set() {
    let sizes = [5, 40, 33, 17, 2];
    let gradient = |net: &Mlp<f32>| {
        let x = tiles(5, &uniform::<f32>(5 * 150, &mut rng(3)));
        let mut workspace = net.pass_workspace(x.parts());
        net.pass(&mut workspace, &x, &mut vec![(); x.parts()], |(), _, y, d| d.copy_from_slice(y));
        workspace.gradient().to_vec()
    };
    let (first, second) = (random_net::<f32>(&sizes, Activation::Tanh, 1), random_net(&sizes, Activation::Tanh, 2));
    let mut changed = first.clone();
    changed.change_params(|net, params| {
        (0..net.depth()).for_each(|l| net.pack(params, l, &second.layer(l).0, &second.layer(l).1));
    });
    assert_eq!((changed.params(), gradient(&changed)), (second.params(), gradient(&second)));
    for l in 0..first.depth() {
        let (mut params, (weights, bias)) = (first.params().to_vec(), second.layer(l));
        first.pack(&mut params, l, &weights, &bias);
        let (mut set, mut changed) = (first.clone(), first.clone());
        set.set_params(&params);
        changed.set_layer(l, &weights, &bias);
        assert_eq!((changed.params(), gradient(&changed)), (set.params(), gradient(&set)), "layer {l}");
        assert_ne!(gradient(&changed), gradient(&first));
    }
}

/// Places of the flat vector that no layer uses.
fn padding(net: &Mlp<f32>) -> Vec<usize> {
    let used = flat(net, |_, inputs, outputs| (vec![1.0; inputs * outputs], vec![1.0; outputs]));
    (0..used.len()).filter(|&i| used[i] == 0.0).collect()
}

fn train(net: &mut Mlp<f32>, adam: &mut Adam<f32>, x: &Tiles<f32>) -> Vec<f32> {
    let mut workspace = net.pass_workspace(x.parts());
    let mut seen = Vec::new();
    for _ in 0..3 {
        net.pass(&mut workspace, x, &mut vec![(); x.parts()], |(), _, y, d| d.copy_from_slice(y));
        seen.extend_from_slice(workspace.gradient());
        let direction = workspace.gradient().to_vec();
        net.step(adam, &direction);
        net.tangent_pass(&mut workspace, x, &direction, &mut vec![(); x.parts()], |(), _, _, t, d| {
            d.copy_from_slice(t)
        });
        seen.extend_from_slice(workspace.gradient());
    }
    seen
}

/// Gradients, moments and parameters are zero in the padding after passes and steps: norms and dot products over the
/// flat vectors need not know of it. The narrow layers below wide ones share their deltas' workspace.
#[test]
fn padding_stays_exactly_zero() {
    for sizes in [&[5, 1][..], &[33, 40], &[5, 17, 2], &[70, 64, 33, 40], &[5, 5, 17, 64, 5], &[17, 5, 64, 33, 64, 1]] {
        for activation in ACTIVATIONS {
            let mut net = random_net::<f32>(sizes, activation, 1);
            let places = padding(&net);
            let len = net.params().len();
            let mut adam = Adam::new(len, 1e-2);
            let x = tiles(sizes[0], &uniform(250 * sizes[0], &mut rng(2)));
            let gradients = train(&mut net, &mut adam, &x);
            let (m, v, _) = adam.state();
            for (what, flat) in [("gradient", &gradients[..]), ("parameters", net.params()), ("m", m), ("v", v)] {
                for flat in flat.chunks_exact(len) {
                    assert!(flat.iter().any(|&p| p != 0.0));
                    let stained = places.iter().filter(|&&i| flat[i] != 0.0).count();
                    assert_eq!(stained, 0, "{what} of {sizes:?} {activation:?}: padding that is not zero");
                }
            }
        }
    }
}
