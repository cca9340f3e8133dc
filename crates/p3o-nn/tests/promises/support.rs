//! Random networks and batches, an independent forward pass, and the one measure of error.

use p3o_nn::{Activation, Mlp, Real, Tiles};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub const ACTIVATIONS: [Activation; 3] = [Activation::Tanh, Activation::Relu, Activation::Identity];

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Numbers in [-1, 1) that f32 holds exactly, so that both engines can be given the same ones.
pub fn uniform<E: Real>(n: usize, rng: &mut ChaCha8Rng) -> Vec<E> {
    (0..n).map(|_| E::of(f64::from(rng.random_range(-1.0f32..1.0)))).collect()
}

/// A vector in the order of [`Mlp::params`] from one function of (layer, inputs, outputs) per layer.
pub fn flat<E: Real>(net: &Mlp<E>, mut layer: impl FnMut(usize, usize, usize) -> (Vec<E>, Vec<E>)) -> Vec<E> {
    let mut flat = vec![E::ZERO; net.params().len()];
    for l in 0..net.depth() {
        let (weights, bias) = layer(l, net.sizes()[l], net.sizes()[l + 1]);
        net.pack(&mut flat, l, &weights, &bias);
    }
    flat
}

/// Uniform weights that keep the variance of a row, and biases in [-0.5, 0.5): no piece of the network is idle.
pub fn randomize<E: Real>(net: &mut Mlp<E>, seed: u64) {
    let mut rng = rng(seed);
    let params = flat(net, |_, inputs, outputs| {
        let bound = (3.0 / inputs as f64).sqrt();
        let weights: Vec<E> = uniform(inputs * outputs, &mut rng);
        let biases: Vec<E> = uniform(outputs, &mut rng);
        let scaled = |x: E, by: f64| E::of(f64::from((x.f64() * by) as f32));
        (weights.into_iter().map(|w| scaled(w, bound)).collect(), biases.into_iter().map(|b| scaled(b, 0.5)).collect())
    });
    net.set_params(&params);
}

pub fn random_net<E: Real>(sizes: &[usize], activation: Activation, seed: u64) -> Mlp<E> {
    let mut net = Mlp::new(sizes, activation);
    randomize(&mut net, seed);
    net
}

/// A direction in parameter space, zero in the padding, of length one.
pub fn random_direction<E: Real>(net: &Mlp<E>, seed: u64) -> Vec<E> {
    let mut rng = rng(seed);
    let mut v = flat(net, |_, inputs, outputs| (uniform(inputs * outputs, &mut rng), uniform(outputs, &mut rng)));
    let length = v.iter().map(|x| x.f64() * x.f64()).sum::<f64>().sqrt();
    v.iter_mut().for_each(|x| *x = *x / E::of(length));
    v
}

pub fn tiles<E: Real>(columns: usize, rows: &[E]) -> Tiles<E> {
    let mut tiles = Tiles::new(columns);
    tiles.fill(rows);
    tiles
}

pub fn evaluate<E: Real>(net: &Mlp<E>, x: &Tiles<E>) -> Vec<E> {
    let mut out = vec![E::ZERO; x.rows() * net.outputs()];
    net.evaluate(&mut net.pass_workspace(x.parts()), x, &mut out);
    out
}

/// Bits to compare; every NaN is the same.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

/// |a - b| relative to the larger of both, or to `scale` where both are smaller.
pub fn relative_error(a: f64, b: f64, scale: f64) -> f64 {
    if a == b { 0.0 } else { (a - b).abs() / a.abs().max(b.abs()).max(scale) }
}

/// The derivative at zero by the five-point central difference, whose error is of order h^4.
pub fn central_difference(mut f: impl FnMut(f64) -> f64, h: f64) -> f64 {
    let near = f(h) - f(-h);
    let far = f(2.0 * h) - f(-2.0 * h);
    (8.0 * near - far) / (12.0 * h)
}

/// The same network as plain loops over row-major matrices: shares nothing with the engine but its parameters.
#[derive(Clone)]
pub struct Oracle {
    pub layers: Vec<(Vec<f64>, Vec<f64>)>,
    activation: Activation,
}

impl Oracle {
    pub fn of(net: &Mlp<f64>) -> Self {
        Oracle { layers: (0..net.depth()).map(|l| net.layer(l)).collect(), activation: net.activation() }
    }

    /// The outputs of one row, and how close the nearest hidden unit is to the kink of relu.
    pub fn row(&self, x: &[f64]) -> (Vec<f64>, f64) {
        let mut x = x.to_vec();
        let mut margin = f64::INFINITY;
        for (l, (weights, bias)) in self.layers.iter().enumerate() {
            let mut y = bias.clone();
            for (x, weights) in x.iter().zip(weights.chunks_exact(bias.len())) {
                y.iter_mut().zip(weights).for_each(|(y, w)| *y += x * w);
            }
            if l + 1 < self.layers.len() {
                match self.activation {
                    Activation::Tanh => y.iter_mut().for_each(|y| *y = y.tanh()),
                    Activation::Relu => {
                        margin = y.iter().fold(margin, |m, y| m.min(y.abs()));
                        y.iter_mut().for_each(|y| *y = y.max(0.0));
                    }
                    Activation::Identity => {}
                }
            }
            x = y;
        }
        (x, margin)
    }

    /// `count` random rows; under relu none with a hidden unit within `margin` of its kink.
    pub fn rows(&self, count: usize, margin: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let inputs = self.layers[0].0.len() / self.layers[0].1.len();
        let mut rows = Vec::with_capacity(count * inputs);
        while rows.len() < count * inputs {
            let row = uniform(inputs, rng);
            if self.row(&row).1 > margin {
                rows.extend(row);
            }
        }
        rows
    }
}
