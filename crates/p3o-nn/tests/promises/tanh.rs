//! tanh in f32, seen through a network of one unit with weight one: its output is tanh(input) and nothing else.

use super::support::*;
use p3o_nn::{Activation, Isa, Mlp};

/// Largest error, in units in the last place of the exact value rounded to f32. Over every f32 from 2^-14 to 12 it
/// is 6.381, at 6.325041, and 17 numbers are above 6.
const ULPS: f64 = 6.4;

/// A network that computes tanh(weight * input).
fn unit(isa: Isa, weight: f32) -> Mlp<f32> {
    let mut net = Mlp::on(isa, &[1, 1, 1], Activation::Tanh);
    let params = flat(&net, |l, _, _| (vec![if l == 0 { weight } else { 1.0 }], vec![0.0]));
    net.set_params(&params);
    net
}

fn tanh(x: &[f32]) -> Vec<f32> {
    evaluate(&unit(Isa::current(), 1.0), &tiles(1, x))
}

/// The gap from |exact| as f32 to the next number.
fn ulp(exact: f64) -> f64 {
    let x = exact.abs() as f32;
    f64::from(f32::from_bits(x.to_bits() + 1)) - f64::from(x)
}

/// The largest error in ulps; also asserts |tanh| <= 1 and that the function is odd to the bit.
fn worst(x: &[f32]) -> (f64, f32) {
    let negated: Vec<f32> = x.iter().map(|x| -x).collect();
    let (y, opposite) = (tanh(x), tanh(&negated));
    let mut worst = (0.0, 0.0);
    for ((&x, &y), &opposite) in x.iter().zip(&y).zip(&opposite) {
        assert!(y.abs() <= 1.0 && y == -opposite, "tanh({x}) = {y}, tanh(-{x}) = {opposite}");
        let exact = libm::tanh(f64::from(x));
        let error = (f64::from(y) - exact).abs() / ulp(exact);
        if error > worst.0 {
            worst = (error, x);
        }
    }
    worst
}

/// Every 101st of the f32 from 2^-14 to 12, over two million numbers.
#[test]
fn few_ulps_over_the_whole_range() {
    let (from, to) = (2f32.powi(-14).to_bits(), 12f32.to_bits());
    let numbers: Vec<u32> = (from..=to).step_by(101).collect();
    for part in numbers.chunks(100_000) {
        let x: Vec<f32> = part.iter().map(|&b| f32::from_bits(b)).collect();
        let (error, at) = worst(&x);
        assert!(error <= ULPS, "{error} ulp at {at}");
    }
}

/// An even sweep of [-12, 12], where most of the binary sweep's numbers are not.
#[test]
fn few_ulps_evenly_spaced() {
    let x: Vec<f32> = (0..=480_000).map(|i| i as f32 / 40_000.0).collect();
    let (error, at) = worst(&x);
    assert!(error <= ULPS, "{error} ulp at {at}");
}

/// Down to the smallest denormal, where tanh(x) is x.
#[test]
fn tiny_numbers_and_denormals() {
    let x: Vec<f32> = (0..2f32.powi(-14).to_bits()).step_by(9973).chain(0..100).map(f32::from_bits).collect();
    let (error, at) = worst(&x);
    assert!(error <= ULPS, "{error} ulp at {at}");
    assert_eq!(tanh(&[0.0, -0.0]), [0.0, 0.0]);
}

/// The value from 9 on, two ulp below one.
const SATURATED: f32 = 1.0 - 2.0 * (f32::EPSILON / 2.0);

#[test]
fn saturates() {
    let x: Vec<f32> =
        (9f32.to_bits()..f32::MAX.to_bits()).step_by(100_003).chain([f32::MAX.to_bits()]).map(f32::from_bits).collect();
    assert!(tanh(&x).iter().all(|&y| y == SATURATED));
    for &isa in Isa::available() {
        // 1e30 * 1e30 is infinite; an infinite input itself would meet the zero weights of the padding, which is NaN.
        let overflow = unit(isa, 1e30);
        let found = evaluate(&overflow, &tiles(1, &[1e30, -1e30, f32::NAN]));
        assert!(found[0] == SATURATED && found[1] == -SATURATED && found[2].is_nan(), "{found:?} on {isa:?}");
    }
}
