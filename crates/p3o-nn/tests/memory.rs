//! Every kernel in little, on shapes that fill no tile and no panel: small enough for Miri (`tools/miri`), which sees any access
//! outside of what a pointer may reach.

use p3o_nn::{Activation, Adam, Gru, Init, Mlp, Real, Sequences, Tiles};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Numbers in [-1, 1] without a pattern that shows in a few rows.
fn numbers<E: Real>(n: usize) -> Vec<E> {
    (0..n).map(|i| E::of((i * 37 % 101) as f64 / 50.0 - 1.0)).collect()
}

fn near<E: Real>(found: E, expected: E) {
    assert!((found - expected).f64().abs() < 1e-5, "{found:?} is not {expected:?}");
}

/// The sum of a row-major matrix's column.
fn column_sum<E: Real>(matrix: &[E], columns: usize, column: usize) -> E {
    matrix.chunks_exact(columns).map(|row| row[column]).sum()
}

fn perceptron<E: Real>(activation: Activation, rows: usize) {
    let mut net = Mlp::<E>::new(&[7, 33, 2], activation);
    net.init(Init::Glorot, &mut ChaCha8Rng::seed_from_u64(1));
    let data = numbers::<E>(rows * 7);
    let mut x = Tiles::new(7);
    x.fill(&data);
    let mut workspace = net.pass_workspace(x.parts());
    let mut out = vec![E::ZERO; rows * 2];
    net.evaluate(&mut workspace, &x, &mut out);
    // A row at a time and all at once.
    let (mut work, mut alone) = (net.step_workspace(), vec![E::ZERO; rows * 2]);
    data.chunks_exact(7).zip(alone.chunks_exact_mut(2)).for_each(|(x, y)| net.infer(&mut work, x, y));
    assert_eq!(alone, out);

    // With d = y the gradient of the last bias is the sum of the outputs.
    net.pass(&mut workspace, &x, &mut vec![(); x.parts()], |(), _, y, d| d.copy_from_slice(y));
    let gradient = workspace.gradient().to_vec();
    let (_, bias) = net.unpack(&gradient, 1);
    (0..2).for_each(|o| near(bias[o], column_sum(&out, 2, o)));
    // Along the gradient of its bias an output changes by exactly that.
    let mut direction = vec![E::ZERO; gradient.len()];
    net.pack(&mut direction, 1, &[E::ZERO; 66], &[E::ONE, E::of(2.0)]);
    net.tangent_pass(&mut workspace, &x, &direction, &mut vec![(); x.parts()], |(), _, _, t, d| {
        assert!(t.chunks_exact(2).all(|t| t == [E::ONE, E::of(2.0)]));
        d.copy_from_slice(t);
    });
    let mut d_input = vec![E::ZERO; rows * 7];
    net.input_gradient(&x, &out, &mut d_input);
    assert!(d_input.iter().all(|d| d.finite()) && d_input.iter().any(|d| *d != E::ZERO));

    let (before, mut adam) = (net.params().to_vec(), Adam::new(net.params().len(), 1e-2));
    net.step(&mut adam, &gradient);
    assert!(net.params().iter().all(|p| p.finite()) && net.params() != before);
}

#[test]
fn perceptrons() {
    perceptron::<f32>(Activation::Tanh, 7);
    perceptron::<f32>(Activation::Relu, 1);
    perceptron::<f64>(Activation::Identity, 5);
}

fn recurrent<E: Real>(activation: Activation, sequences: usize) {
    const STEPS: usize = 3;
    let (inputs, units, rows) = (5, 17, sequences * STEPS);
    let mut net = Gru::<E>::new(&[inputs, 6, units, 2], activation);
    net.init(Init::Glorot, &mut ChaCha8Rng::seed_from_u64(1));
    let (data, states) = (numbers::<E>(rows * inputs), numbers::<E>(rows * units));
    // The first sequence begins an episode in its middle.
    let starts: Vec<bool> = (0..rows).map(|row| row == 1).collect();
    let mut x = Sequences::new(inputs, units);
    x.fill(STEPS, &data, &states, &starts);
    let mut workspace = net.pass_workspace(x.parts());
    let (mut out, mut unrolled) = (vec![E::ZERO; rows * 2], vec![E::ZERO; rows * 2]);
    let mut after = vec![E::ZERO; rows * units];
    net.evaluate(&mut workspace, &x, &mut out);
    net.unroll(&mut workspace, &x, &mut unrolled, &mut after);
    assert_eq!(out, unrolled);
    // A step at a time and the whole sequence.
    let mut work = net.step_workspace();
    for s in 0..sequences {
        let mut state = states[s * STEPS * units..][..units].to_vec();
        for row in s * STEPS..(s + 1) * STEPS {
            let mut y = [E::ZERO; 2];
            if starts[row] {
                state.fill(E::ZERO);
            }
            net.infer(&mut work, &data[row * inputs..][..inputs], &mut state, &mut y);
            assert_eq!((&y[..], &state[..]), (&out[row * 2..][..2], &after[row * units..][..units]));
        }
    }
    net.pass(&mut workspace, &x, &mut vec![(); x.parts()], |(), _, y, d| d.copy_from_slice(y));
    let gradient = workspace.gradient().to_vec();
    let (_, bias) = net.unpack(&gradient, net.depth() - 1);
    (0..2).for_each(|o| near(bias[o], column_sum(&out, 2, o)));
    let (before, mut adam) = (net.params().to_vec(), Adam::new(net.params().len(), 1e-2));
    net.step(&mut adam, &gradient);
    assert!(net.params().iter().all(|p| p.finite()) && net.params() != before);
}

#[test]
fn recurrent_networks() {
    recurrent::<f32>(Activation::Tanh, 2);
    recurrent::<f64>(Activation::Relu, 1);
}
