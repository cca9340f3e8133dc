//! Adam: worked numbers, one arithmetic for both entries, and a state that carries on.

use super::support::*;
use p3o_nn::{Activation, Adam, Mlp, Real};

/// Two steps from p = 1 with lr = 0.1, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, gradients 0.5 and then -2:
///
/// t = 1: m = 0.1 * 0.5 = 0.05            m / (1 - 0.9)   = 0.5
///        v = 0.001 * 0.25 = 0.00025      v / (1 - 0.999) = 0.25, root 0.5
///        p = 1 - 0.1 * 0.5 / (0.5 + 1e-8) = 0.900000002
/// t = 2: m = 0.9 * 0.05 + 0.1 * -2 = -0.155                m / (1 - 0.81)     = -0.815789473684...
///        v = 0.999 * 0.00025 + 0.001 * 4 = 0.00424975      v / (1 - 0.998001) = 2.12593796898..., root 1.45805965...
///        p = 0.900000002 + 0.1 * 0.815789473684 / 1.458059669 = 0.95595035102...
#[test]
fn two_steps_worked_by_hand() {
    let mut adam = Adam::<f64>::new(1, 0.1);
    assert_eq!(adam.epsilon, 1e-8);
    let mut p = [1.0];
    adam.step_few(&mut p, &[0.5]);
    assert!((p[0] - (1.0 - 0.05 / 0.500_000_01)).abs() < 1e-15, "{}", p[0]);
    assert!((adam.state().0[0] - 0.05).abs() < 1e-16 && (adam.state().1[0] - 0.00025).abs() < 1e-18);
    adam.step_few(&mut p, &[-2.0]);
    assert!((adam.state().0[0] + 0.155).abs() < 1e-16 && (adam.state().1[0] - 0.004_249_75).abs() < 1e-17);
    let expected = (1.0 - 0.05 / 0.500_000_01) + 0.1 * (0.155 / 0.19) / ((0.004_249_75f64 / 0.001_999).sqrt() + 1e-8);
    assert!((p[0] - expected).abs() < 1e-14, "{} is not {expected}", p[0]);
    assert!((p[0] - 0.955_950_351_02).abs() < 1e-11, "{}", p[0]);
    assert_eq!(adam.state().2, 2);
}

/// The kernel on a network's parameters and the loop on loose ones are the same function, to the bit.
fn check_step_is_step_few<E: Real>() {
    let mut net = random_net::<E>(&[5, 17, 33, 2], Activation::Tanh, 1);
    let n = net.params().len();
    let mut loose = net.params().to_vec();
    let (mut adam, mut few) = (Adam::<E>::new(n, 3e-3), Adam::<E>::new(n, 3e-3));
    for step in 0..20 {
        let gradient: Vec<E> = uniform(n, &mut rng(step));
        net.step(&mut adam, &gradient);
        few.step_few(&mut loose, &gradient);
        assert!(adam.state() == few.state() && net.params() == loose, "step {step}");
    }
}

#[test]
fn step_is_step_few() {
    check_step_is_step_few::<f32>();
    check_step_is_step_few::<f64>();
}

fn train(net: &mut Mlp<f32>, adam: &mut Adam<f32>, steps: usize) {
    let x = tiles(5, &uniform(130 * 5, &mut rng(9)));
    let mut workspace = net.pass_workspace(2);
    for _ in 0..steps {
        net.pass(&mut workspace, &x, &mut [(); 2], |(), _, y, d| d.iter_mut().zip(y).for_each(|(d, y)| *d = y - 0.3));
        net.step(adam, workspace.gradient());
    }
}

#[test]
fn saved_state_continues_bit_for_bit() {
    let mut net = random_net::<f32>(&[5, 17, 33, 2], Activation::Tanh, 1);
    let mut adam = Adam::new(net.params().len(), 1e-3);
    train(&mut net, &mut adam, 5);

    let mut other = Mlp::new(net.sizes(), net.activation());
    other.set_params(net.params());
    let mut restored = Adam::new(net.params().len(), 1e-3);
    let (m, v, steps) = adam.state();
    restored.set_state(m, v, steps);
    assert!(m.iter().any(|&m| m != 0.0) && steps == 5);

    train(&mut net, &mut adam, 5);
    train(&mut other, &mut restored, 5);
    assert_eq!(bits(net.params()), bits(other.params()));
    assert_eq!(adam.state(), restored.state());
}

/// A gradient of constant sign lowers a parameter by nearly the learning rate each step, whatever its size.
#[test]
fn step_size_does_not_depend_on_the_gradients_scale() {
    for size in [1e-4, 1.0, 1e6] {
        let (mut adam, mut p) = (Adam::<f64>::new(2, 0.01), [0.0; 2]);
        for _ in 0..10 {
            adam.step_few(&mut p, &[size, -size]);
        }
        // epsilon takes 1e-8 / 1e-4 of the smallest one.
        assert!((p[0] + 0.1).abs() < 2e-5 && (p[1] - 0.1).abs() < 2e-5, "{p:?}");
    }
}
