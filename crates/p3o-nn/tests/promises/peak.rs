//! The measured peak is one: no kernel of the same instruction set is faster.

use super::support::*;
use p3o_nn::{Activation, Isa, Mlp, Tiles, peak_gflops};
use std::time::Instant;

/// GFLOP/s of products alone: the forward pass of one wide layer without an activation.
fn products(net: &Mlp<f32>, x: &Tiles<f32>) -> f64 {
    let (mut workspace, mut out) = (net.pass_workspace(1), vec![0.0; x.rows() * net.outputs()]);
    let start = Instant::now();
    net.evaluate(&mut workspace, x, &mut out);
    net.flops_per_row().0 * x.rows() as f64 / start.elapsed().as_secs_f64() / 1e9
}

#[test]
#[ignore = "measures time: run it alone, on a machine that does nothing else"]
fn no_product_is_faster_than_the_peak() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    // Without vectors a fused multiply-add may be a call of a function, and then there is no peak to speak of.
    for &isa in Isa::available().iter().filter(|&&isa| isa != Isa::Scalar) {
        let mut net = Mlp::<f32>::on(isa, &[256, 256, 1], Activation::Identity);
        let params = flat(&net, |_, inputs, outputs| (vec![0.01; inputs * outputs], vec![0.0; outputs]));
        net.set_params(&params);
        let x = tiles(256, &uniform(2400 * 256, &mut rng(1)));
        let (mut peak, mut rate) = (0.0f64, 0.0f64);
        for _ in 0..30 {
            peak = peak.max(peak_gflops(isa, 0.05));
            rate = rate.max(pool.install(|| products(&net, &x)));
        }
        println!("{isa:?}: peak {peak:.2} GFLOP/s, products {rate:.2}");
        assert!(rate <= peak, "{isa:?}: a product at {rate:.2} GFLOP/s beats the peak of {peak:.2}");
    }
}
