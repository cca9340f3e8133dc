//! Milliseconds and GFLOP/s of a recurrent network forward and back through time, against the measured peak.
use p3o_nn::*;
use rand_chacha::rand_core::SeedableRng;

fn main() {
    const STEPS: usize = 25;
    let isa = Isa::current();
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for (what, sizes) in [("GRU alone", &[64, 64, 1][..]), ("whole network", &[18, 64, 64, 64, 5])] {
            pool.install(|| {
                let rows = 120 * STEPS;
                let mut net = Gru::<f32>::new(sizes, Activation::Tanh);
                net.init(Init::Orthogonal { head_gain: 1.0 }, &mut rand_chacha::ChaCha8Rng::seed_from_u64(1));
                let data: Vec<f32> = (0..rows * sizes[0]).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
                let starts: Vec<bool> = (0..rows).map(|r| r % 40 == 0).collect();
                let mut x = Sequences::new(sizes[0], 64);
                x.fill(STEPS, &data, &vec![0.0; rows * 64], &starts);
                let mut workspace = net.pass_workspace(x.parts());
                let (mut out, mut sums) = (vec![0.0; rows * net.outputs()], vec![0.0f32; x.parts()]);
                let (mut best, mut best_forward, mut peak) = (f64::INFINITY, f64::INFINITY, 0.0f64);
                for round in 0..400 {
                    if round % 40 == 0 {
                        peak = peak.max(peak_gflops(isa, 0.03));
                    }
                    let start = std::time::Instant::now();
                    net.pass(&mut workspace, &x, &mut sums, |_, _, y, d| {
                        d.iter_mut().zip(y).for_each(|(d, y)| *d = y - 0.1)
                    });
                    best = best.min(start.elapsed().as_secs_f64());
                    let start = std::time::Instant::now();
                    net.evaluate(&mut workspace, &x, &mut out);
                    best_forward = best_forward.min(start.elapsed().as_secs_f64());
                }
                let (f, b) = net.flops_per_row();
                let rate = (f + b) * rows as f64 / best / 1e9;
                println!(
                    "{isa:?}, {threads} threads, {what} {sizes:?}, 120 x {STEPS}: {:.2} ms a pass at best, {:.2} forward only, {rate:.0} GFLOP/s, {:.0} % of peak {peak:.0}",
                    best * 1e3,
                    best_forward * 1e3,
                    100.0 * rate / (peak * threads as f64)
                );
            });
        }
    }
}
