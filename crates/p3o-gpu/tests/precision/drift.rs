//! How far ten updates may take two engines apart, on one batch: no world answers in between, which would amplify any difference.
//!
//! One engine after t steps of Adam is held against the same steps in double precision. At each step its gradient g is off by e, at
//! most [`GRADIENT`] times its tensor's size S. With the corrected moments m = sum_k a_k g_k and v = sum_k b_k g_k^2 over the steps so far
//! (the a_k add up to one, and so do the b_k) the step of a parameter is
//!
//! ```text
//! s = rate m / (sqrt(v) + epsilon)
//! ```
//!
//! and to first order it is off by
//!
//! ```text
//! rate / (sqrt(v) + epsilon) (sum_k a_k e_k - m / (sqrt(v) + epsilon) sum_k b_k g_k e_k / sqrt(v))
//! ```
//!
//! where the second sum is at most sqrt(v) times the largest e (Cauchy and Schwarz). So with c = |m| / (sqrt(v) + epsilon)
//!
//! ```text
//! |ds| <= rate (1 + c) GRADIENT max S / (sqrt(v) + epsilon)                            (1)
//! |ds| <= 2 rate q                                                                     (2)
//! ```
//!
//! (2) for any e: m is at most q = sqrt(sum_k a_k^2 / b_k) times sqrt(v), again by Cauchy and Schwarz. It is what remains where a
//! gradient is no larger than its rounding: Adam makes a full step of it in either direction. epsilon matters only for gradients
//! below it, 1e-8. Beside this a step is rounded itself: 0.999 is known to UNIT / 2, and so 1 - 0.999 to UNIT / 2 / 0.001 of itself, of
//! which the root of v has a half; the moments are chains of up to forty rounded steps, of which v has the longer one and a root that
//! halves it, 64 UNIT with all else; and a parameter is rounded by UNIT of it:
//!
//! ```text
//! |ds| <= rate UNIT (c / 4 / 0.001 + 64 q) + UNIT |p|                                  (3)
//! ```
//!
//! The sum of min((1), (2)) + (3) over all steps bounds the drift if nothing feeds back. It does: a parameter that is off changes the
//! next gradients. By how much a difference grows until the last step is measured in double precision, for differences in the shape of
//! the bound with random signs, put in at several steps: `growth` is the most of them. (A measurement, no proof: signs that conspire
//! may grow more; but then the sum takes all signs to conspire.) The drift of one engine is at most growth times the sum, in the mean
//! over all parameters; that of two engines from one another twice that.
//!
//! Edges of the clip and of the trust region do not enter: in this batch no ratio and no KL comes nearer to one than [`SLACK`] at any
//! step, which is asserted. A row on an edge would count for one engine and not for the other.
//!
//! What is measured is a hundredth of the bound: roundings have random signs. The host is further off than a device because its
//! 1 - 0.999 is 1.3e-5 too small, which makes its steps 6.4e-6 longer; the kernel has 0.001.

use crate::UNIT;
use crate::batches::{Case, SLACK, losses, make, normal};
use crate::gradients::{GRADIENT, split};
use crate::reference::{Actor, Gradient, Net, Tensors, critic_pass, unpacked, wide};
use p3o::batch::TrainingBatch;
use p3o::config;
use p3o::engine::cpu::CpuEngine;
use p3o::engine::{Descent, Engine, Networks, RowLoss, Rule};
use p3o_env::ActionSpace;
#[cfg(any(feature = "emulation", feature = "gpu-tests"))]
use p3o_gpu::Precision;
use p3o_gpu::engine::DeviceEngine;
use p3o_gpu::host::Host;
use p3o_nn::adam::{BETA1, BETA2, EPSILON, bias_correction};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

const UPDATES: usize = 10;
const PASSES: usize = 4;
const STEPS: usize = UPDATES * PASSES;
const RATE: f64 = 3e-4;

/// Where the steps in double precision lead, and how far off an engine may be if nothing feeds back.
struct Path {
    end: Tensors,
    allowed: Tensors,
}

/// Steps of Adam from `start`; a `nudge` is added before a step of this number.
fn walk(
    start: &Tensors,
    gradient: &dyn Fn(&Tensors) -> Gradient,
    outputs: usize,
    nudge: Option<(usize, &Tensors)>,
) -> Path {
    let zeros = || start.iter().map(|t| vec![0.0; t.len()]).collect::<Tensors>();
    let (mut p, mut m, mut v, mut sizes, mut allowed) = (start.clone(), zeros(), zeros(), zeros(), zeros());
    for step in 1..=STEPS {
        if let Some((at, by)) = nudge
            && at == step
        {
            p.iter_mut().flatten().zip(by.iter().flatten()).for_each(|(p, by)| *p += by);
        }
        let g = gradient(&p);
        let now = g.sizes(outputs, true);
        let [first, second] = [BETA1, BETA2].map(|beta| bias_correction(beta, step as u64));
        let q = largest_quotient(step);
        for t in 0..p.len() {
            for i in 0..p[t].len() {
                m[t][i] = BETA1 * m[t][i] + (1.0 - BETA1) * g.sums[t][i];
                v[t][i] = BETA2 * v[t][i] + (1.0 - BETA2) * g.sums[t][i].powi(2);
                sizes[t][i] = now[t][i].max(sizes[t][i]);
                let (m, root) = (m[t][i] / first, (v[t][i] / second).sqrt() + EPSILON);
                let c = m.abs() / root;
                let of_gradient = RATE * (1.0 + c) * GRADIENT * sizes[t][i] / root;
                let own = RATE * UNIT * (c / 4.0 / (1.0 - BETA2) + 64.0 * q) + UNIT * p[t][i].abs();
                allowed[t][i] += of_gradient.min(2.0 * RATE * q) + own;
                p[t][i] -= RATE * m / root;
            }
        }
    }
    Path { end: p, allowed }
}

/// The most that the quotient of the corrected moments can be after so many steps.
fn largest_quotient(steps: usize) -> f64 {
    let [first, second] = [BETA1, BETA2].map(|beta| bias_correction(beta, steps as u64));
    let part = |k: i32| ((1.0 - BETA1) * BETA1.powi(k) / first).powi(2) / ((1.0 - BETA2) * BETA2.powi(k) / second);
    (0..steps as i32).map(part).sum::<f64>().sqrt()
}

/// The mean distance of two sets of parameters.
fn apart(a: &Tensors, b: &Tensors) -> f64 {
    let both = a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| (a - b).abs());
    both.sum::<f64>() / a.iter().map(Vec::len).sum::<usize>() as f64
}

/// The most that a small difference grows until the last step.
fn growth(start: &Tensors, path: &Path, gradient: &dyn Fn(&Tensors) -> Gradient, outputs: usize) -> f64 {
    let rng = &mut ChaCha8Rng::seed_from_u64(4);
    let zero: Tensors = start.iter().map(|t| vec![0.0; t.len()]).collect();
    let of = |step: usize| {
        let mut sign = |x: &f64| x * f64::from(normal(rng)).signum();
        let nudge: Tensors = path.allowed.iter().map(|t| t.iter().map(&mut sign).collect()).collect();
        apart(&walk(start, gradient, outputs, Some((step, &nudge))).end, &path.end) / apart(&nudge, &zero)
    };
    (1..=STEPS).step_by(STEPS / 8).map(of).fold(1.0, f64::max)
}

/// What the steps of one network come to, in double precision.
struct Bound {
    name: String,
    start: Tensors,
    path: Path,
    growth: f64,
}

impl Bound {
    fn new(name: &str, net: &Net, gradient: &dyn Fn(&Tensors) -> Gradient) -> Bound {
        let path = walk(&net.tensors, gradient, net.sizes[1], None);
        let growth = growth(&net.tensors, &path, gradient, net.sizes[1]);
        Bound { name: name.into(), start: net.tensors.clone(), path, growth }
    }

    /// What one engine may be off in the mean.
    fn allowed(&self) -> f64 {
        let zero: Tensors = self.start.iter().map(|t| vec![0.0; t.len()]).collect();
        self.growth * apart(&self.path.allowed, &zero)
    }

    fn moved(&self) -> f64 {
        apart(&self.path.end, &self.start)
    }

    /// Holds where an engine on the host and one on a device ended.
    fn hold(&self, host: &Tensors, device: &Tensors) {
        let [a, b, both] = [apart(host, &self.path.end), apart(device, &self.path.end), apart(host, device)];
        let (allowed, moved) = (self.allowed(), self.moved());
        println!(
            "{}: a parameter moved by {moved:.1e} in {STEPS} steps, and differences grew {:.2} fold",
            self.name, self.growth
        );
        println!("    from double precision: host {a:.1e}, device {b:.1e}, at most {allowed:.1e}");
        println!("    from one another: {both:.1e}, at most {:.1e}", 2.0 * allowed);
        assert!(a <= allowed && b <= allowed && both <= 2.0 * allowed, "{}", self.name);
        // A bound that a wrong step could hide under would show nothing.
        assert!(2.0 * allowed < 0.01 * moved, "{}: {allowed:e} is much beside {moved:e}", self.name);
    }
}

fn tensors(networks: &Networks, parameters: &[f32]) -> Tensors {
    split(networks, &wide(parameters))
}

/// The actor's steps along one loss.
fn step(engine: &mut dyn Engine, batch: &TrainingBatch, loss: &RowLoss, rate: f64) -> Vec<f32> {
    engine.upload(batch);
    engine.upload_targets(batch);
    let descent = Descent {
        passes: vec![(loss.clone(), Rule::Fixed); STEPS],
        entropy: 0.0,
        learning_rate: rate,
        target_kl: f64::INFINITY,
        minibatch: None,
        average: 0,
    };
    let (mut actor, _) = engine.parts();
    if actor.descend(batch, &descent).is_none() {
        for _ in 0..STEPS {
            actor.pass(batch, None, loss, 0.0);
            actor.step(rate);
        }
    }
    drop(actor);
    engine.check().unwrap_or_else(|e| panic!("{e}"));
    engine.networks().policy.parameters()
}

/// The critics' fits.
fn fit(engine: &mut dyn Engine, batch: &TrainingBatch) -> Vec<Vec<f32>> {
    engine.upload(batch);
    engine.upload_targets(batch);
    let settings = config::Critic { passes: PASSES, minibatch: 0, normalize: false, ..config::Critic::default() };
    let mut rngs = vec![ChaCha8Rng::seed_from_u64(0); batch.targets.len()];
    for _ in 0..UPDATES {
        engine.parts().1.fit_all(batch, &settings, RATE, &mut rngs);
    }
    engine.check().unwrap_or_else(|e| panic!("{e}"));
    engine.networks().critics.iter().map(|critic| critic.net.params().to_vec()).collect()
}

fn case() -> Case {
    Case { moved: 0.02, ..Case::new("ten updates", 10, &[24, 16], ActionSpace::Continuous { dim: 2 }, 200) }
}

/// Of a batch whose rows stay away from the edges.
const SEED: u64 = 3;

fn check(engine: &dyn Fn(Networks) -> Result<DeviceEngine, String>) {
    let (networks, batch) = make(&case(), SEED);
    let copy = || make(&case(), SEED).0;
    let on_device = || engine(copy()).unwrap_or_else(|e| panic!("{e}"));
    let (actor, all) = (Actor::of(&networks.policy), (0..batch.rows() as u32).collect::<Vec<_>>());
    for (name, loss) in losses(&networks.policy, &batch) {
        let gradient = |p: &Tensors| {
            let net = Net { tensors: p.clone(), ..actor.net.clone() };
            let pass = Actor { net, heads: Vec::new() }.pass(&batch, &all, &loss, 0.0);
            assert!(pass.slack > SLACK, "{name}: {:e} from a kink", pass.slack);
            pass.gradient
        };
        let bound = Bound::new(name, &actor.net, &gradient);
        let host = step(&mut CpuEngine::new(copy(), false), &batch, &loss, RATE);
        let device = step(&mut on_device(), &batch, &loss, RATE);
        bound.hold(&tensors(&networks, &host), &tensors(&networks, &device));
        let wrong = step(&mut CpuEngine::new(copy(), false), &batch, &loss, 1.001 * RATE);
        let found = apart(&tensors(&networks, &wrong), &bound.path.end);
        assert!(found > bound.allowed(), "{name}: a rate that is a thousandth too large must show");
    }
    let (host, device) = (fit(&mut CpuEngine::new(copy(), false), &batch), fit(&mut on_device(), &batch));
    for (c, critic) in networks.critics.iter().enumerate() {
        let net = Net::of(&critic.net);
        let gradient = |p: &Tensors| {
            let net = Net { tensors: p.clone(), ..net.clone() };
            critic_pass(critic, &net, &batch, &batch.targets[c], &all).1
        };
        let bound = Bound::new(&format!("critic {c}"), &net, &gradient);
        bound.hold(&unpacked(&critic.net, &host[c]), &unpacked(&critic.net, &device[c]));
    }
}

#[test]
fn ten_updates_drift_no_further_than_rounding_may_take_them() {
    check(&|networks| DeviceEngine::by_layers(networks, &|| Ok(Box::new(Host::default()))));
}

#[cfg(feature = "emulation")]
#[test]
fn ten_updates_of_the_emulated_kernels_drift_no_further_than_rounding_may_take_them() {
    check(&|networks| DeviceEngine::new(networks, &crate::emulation::maker(false), Precision::Fp32));
}

#[cfg(feature = "gpu-tests")]
#[test]
fn ten_updates_on_a_gpu_drift_no_further_than_rounding_may_take_them() {
    let gpu = p3o_gpu::cuda::Cuda::open(0).unwrap_or_else(|e| panic!("{e}"));
    let device: &crate::Maker = &|| Ok(Box::new(gpu.again()?));
    check(&|networks| DeviceEngine::by_layers(networks, device));
    check(&|networks| DeviceEngine::new(networks, device, Precision::Fp32));
}
