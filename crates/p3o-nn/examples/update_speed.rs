//! GFLOP/s of forward and backward over a batch, on one and on all threads, against the measured peak.
use p3o_nn::*;
use rand_chacha::rand_core::SeedableRng;

fn main() {
    let isa = Isa::current();
    println!("{isa:?}: peak {:.0} GFLOP/s per thread", peak_gflops(isa, 0.3));
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let only = std::env::args().nth(1).and_then(|a| a.parse::<usize>().ok());
        for (rows, width, passes) in [(20_000, 64, 200), (30_000, 256, 8)] {
            if only.is_some_and(|w| w != width) {
                continue;
            }
            pool.install(|| {
                let mut net = Mlp::<f32>::new(&[60, width, width, 1], Activation::Tanh);
                net.init(Init::Orthogonal { head_gain: 1.0 }, &mut rand_chacha::ChaCha8Rng::seed_from_u64(1));
                let data: Vec<f32> = (0..rows * 60).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
                let mut x = Tiles::new(60);
                x.fill(&data);
                let mut workspace = net.pass_workspace(x.parts());
                let mut sums = vec![0.0f32; x.parts()];
                let mut best = f64::INFINITY;
                let total = std::time::Instant::now();
                for _ in 0..passes {
                    let start = std::time::Instant::now();
                    net.pass(&mut workspace, &x, &mut sums, |_, _, y, d| {
                        d.iter_mut().zip(y).for_each(|(d, y)| *d = y - 0.1)
                    });
                    best = best.min(start.elapsed().as_secs_f64());
                }
                let mean = total.elapsed().as_secs_f64() / passes as f64;
                let (f, b) = net.flops_per_row();
                let rate = (f + b) * rows as f64 / best / 1e9;
                let peak = peak_gflops(isa, 0.2) * threads as f64;
                println!(
                    "{threads} threads, {rows} x {width}: {:.2} ms a pass at best, {:.2} on average, {rate:.0} GFLOP/s, {:.0} % of peak",
                    best * 1e3,
                    mean * 1e3,
                    100.0 * rate / peak
                );
            });
        }
    }
}
