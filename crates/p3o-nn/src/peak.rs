//! What a processor's core can compute at most.

use crate::isa::Isa;
use crate::matrix;
use crate::real::Real;
use std::hint::black_box;
use std::time::Instant;

/// Billions of floating-point operations per second that one thread reaches with an instruction set's fused multiply-adds
/// on registers alone: the fastest of the rounds, of about 10 ms each, that fit into `seconds`, and of at least one.
pub fn peak_gflops(isa: Isa, seconds: f64) -> f64 {
    let kernels = f32::kernels(isa);
    let (mut rounds, mut best) = (1 << 14, 0.0f64);
    let start = Instant::now();
    while best == 0.0 || start.elapsed().as_secs_f64() < seconds {
        let round = Instant::now();
        let flops = matrix::burn(kernels, black_box(rounds));
        let took = round.elapsed().as_secs_f64();
        best = best.max(flops / took / 1e9);
        if took < 0.01 {
            rounds *= 2;
        }
    }
    best
}
