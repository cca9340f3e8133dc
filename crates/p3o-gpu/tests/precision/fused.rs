//! Whole passes on tensor cores against double precision: the sums of a descent, the loss that the machine chose, the gradient of its
//! last step, and the critics. A step of length zero leaves the networks as they are.

use crate::Maker;
use crate::batches::{Case, EPSILON, losses, make};
use crate::gradients::{
    Figures, Limits, SINGLE, cases, continuous, errors, is_large, kl_floor, minibatch, parts, see_critics, split,
};
use crate::reference::{Actor, Pass, wide};
use p3o::algo::{Passes, Update, ipo, p3o as penalized};
use p3o::batch::TrainingBatch;
use p3o::config::{self, Activation};
use p3o::engine::{Descent, Engine, Networks, PolicyEngine, Record, RowLoss, Rule, Sums};
use p3o_env::ActionSpace;
use p3o_gpu::Precision;
use p3o_gpu::engine::DeviceEngine;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// What products of eleven bits may be off.
///
/// An operand is off by 2^-12 = 2.4e-4 at most, with a deviation of the root of a third of that. What a row adds to a gradient has come
/// through the operands of up to five products of matrices, which makes sqrt(10 / 3) 2.4e-4 = 4.5e-4; the worst of some thousand
/// entries is four deviations out, 1.8e-3, and up to twice as much where few rows make up an entry. Values and terms go forward
/// only, through six operands: 3.4e-4, four deviations 1.4e-3.
///
/// Outputs that are off by eta deviations change a KL by sqrt(2 KL) eta, with a random sign in every row, and by eta^2 / 2 in all: for
/// eta = 1e-3 and sixteen actions less than 1e-5.
const COARSE: Limits = Limits { gradient: 4e-3, terms: 2e-3, kl: 2e-3, floor: 1e-5, values: 2e-3 };

/// An engine that an algorithm is given in the place of one: it notes what it is asked for, and answers with sums that are known.
#[derive(Default)]
struct Spy {
    sums: Vec<Sums>,
    steps: usize,
    asked: Option<Descent>,
    losses: Vec<RowLoss>,
}

impl Spy {
    fn look(&self) -> Sums {
        let none = Sums { kl: f64::NAN, terms: vec![f64::NAN; 32] };
        self.sums.get(self.steps).cloned().unwrap_or(none)
    }
}

impl PolicyEngine for Spy {
    fn pass(&mut self, _: &TrainingBatch, _: Option<&[u32]>, loss: &RowLoss, _: f32) -> Sums {
        self.losses.push(loss.clone());
        self.look()
    }

    fn descend(&mut self, _: &TrainingBatch, descent: &Descent) -> Option<Record> {
        self.asked = Some(descent.clone());
        None
    }

    fn measure(&mut self, _: &TrainingBatch) -> Sums {
        self.look()
    }

    fn step(&mut self, _: f64) -> f64 {
        self.steps += 1;
        0.0
    }

    fn gradient(&mut self) -> Vec<f64> {
        unreachable!("a descent of first order asks for steps alone")
    }

    fn fisher_product(&mut self, _: &[f64]) -> Vec<f64> {
        unreachable!("a descent of first order asks for steps alone")
    }

    fn parameters(&mut self) -> Vec<f32> {
        unreachable!("a descent of first order asks for steps alone")
    }

    fn set_parameters(&mut self, _: &[f32]) {
        unreachable!("a descent of first order asks for steps alone")
    }
}

/// Where a loss comes from.
#[derive(Clone, Debug)]
enum Source {
    Fixed(RowLoss),
    /// P3O with or without `balance`, or IPO; bit i says whether cost i is over its limit.
    P3o(bool, u32),
    Ipo(u32),
}

/// One pass over whole batches or mini-batches.
#[derive(Clone, Debug)]
struct Look {
    name: String,
    source: Source,
    minibatch: usize,
    entropy: f32,
}

impl Look {
    /// What the algorithm does with this engine.
    fn play(&self, batch: &TrainingBatch, offsets: &[f64], spy: &mut Spy) {
        let entropy = f64::from(self.entropy);
        let settings = config::Policy {
            passes: 1,
            minibatch: self.minibatch,
            target_kl: f64::INFINITY,
            entropy,
            ..config::Policy::default()
        };
        let (rng, clip) = (&mut order(), f64::from(EPSILON));
        let mut update = Update {
            engine: spy,
            batch,
            offsets,
            excess: offsets,
            limits: &[1.0; 16],
            settings: &settings,
            learning_rate: 0.0,
            multipliers: &mut [],
            rng,
        };
        let _: Passes = match &self.source {
            Source::Fixed(_) => return,
            Source::P3o(balance, _) => {
                let own = penalized::Settings { clip, balance: *balance, ..penalized::Settings::default() };
                penalized::update(&own, &mut update)
            }
            Source::Ipo(_) => ipo::update(&ipo::Settings { clip, ..ipo::Settings::default() }, &mut update),
        };
    }

    /// What a machine is asked for.
    fn descent(&self, batch: &TrainingBatch, offsets: &[f64]) -> Descent {
        if let Source::Fixed(loss) = &self.source {
            return Descent {
                passes: vec![(loss.clone(), Rule::Fixed)],
                entropy: self.entropy,
                learning_rate: 0.0,
                target_kl: f64::INFINITY,
                minibatch: (self.minibatch > 0).then(|| (self.minibatch, order())),
                average: 0,
            };
        }
        let mut spy = Spy::default();
        self.play(batch, offsets, &mut spy);
        spy.asked.expect("an algorithm asks for a descent first")
    }

    /// The loss of the last step, for the sums that a machine found.
    fn chosen(&self, batch: &TrainingBatch, offsets: &[f64], sums: &[Sums]) -> RowLoss {
        if let Source::Fixed(loss) = &self.source {
            return loss.clone();
        }
        let mut spy = Spy { sums: sums.to_vec(), ..Spy::default() };
        self.play(batch, offsets, &mut spy);
        assert_eq!(spy.steps, sums.len(), "{}", self.name);
        let loss = spy.losses.pop().expect("an algorithm makes passes");
        let RowLoss::Clipped(factors) = &loss else { panic!("{}: {loss:?}", self.name) };
        for (i, factor) in factors.costs.iter().enumerate() {
            let counts = match self.source {
                Source::Ipo(0) | Source::Fixed(_) => true,
                Source::P3o(_, over) | Source::Ipo(over) => over >> i & 1 == 1,
            };
            assert_eq!(*factor != 0.0, counts, "{}: cost {i}", self.name);
        }
        loss
    }

    /// Offsets with which each cost is a little over its limit or under it in the last step of a pass.
    fn offsets(&self, batch: &TrainingBatch, passes: &[Pass], parts: &[Vec<u32>], slack: f64) -> Vec<f64> {
        let (Source::P3o(_, over) | Source::Ipo(over)) = self.source else { return Vec::new() };
        let share = |part: usize| parts[part].len() as f64 / batch.rows() as f64;
        let of = |i: usize| {
            // Of the last mini-batch nothing is known yet but what the policy that collected the batch says.
            let last = if self.minibatch > 0 { parts.len() - 1 } else { parts.len() };
            let known: f64 = (0..last).map(|part| share(part) * passes[part].terms[1 + i]).sum();
            let mean = wide(&batch.costs()[i]).iter().sum::<f64>() / batch.rows() as f64;
            let rest: f64 = (last..parts.len()).map(|part| share(part) * mean).sum();
            let sign = if over >> i & 1 == 1 { 1.0 } else { -1.0 };
            sign * 100.0 * slack * passes[0].sizes[1 + i] - known - rest
        };
        (0..batch.costs().len()).map(of).collect()
    }
}

/// What orders mini-batches.
fn order() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(11)
}

/// Passes of every kind; for large networks, which take long, some of them.
fn looks(networks: &Networks, batch: &TrainingBatch, precision: Precision) -> Vec<Look> {
    let (size, mut all) = (minibatch(batch.rows()), Vec::new());
    let mut add = |name: &str, source: &Source, minibatch: usize, entropy: f32| {
        let name = if minibatch > 0 { format!("{name}, mini-batches") } else { name.into() };
        all.push(Look { name, source: source.clone(), minibatch, entropy });
    };
    for (name, mut loss) in losses(&networks.policy, batch) {
        if let (RowLoss::Proximal(loss), Precision::Tf32) = (&mut loss, precision) {
            loss.delta = f32::MAX;
        }
        add(name, &Source::Fixed(loss.clone()), 0, 0.0);
        add(name, &Source::Fixed(loss), size, 0.01);
    }
    // Of a single row the clip may leave nothing that a factor could change.
    if !batch.costs().is_empty() && batch.rows() > 32 {
        add("gates", &Source::P3o(false, 0b1010), size, 0.0);
        add("barrier", &Source::Ipo(0), 0, 0.0);
        add("gates", &Source::P3o(false, 0b0101), 0, 0.01);
        add("balanced gates", &Source::P3o(true, 0b1010), 0, 0.0);
        add("balanced gates", &Source::P3o(true, 0b0101), size, 0.0);
        add("barrier", &Source::Ipo(0), size, 0.0);
        add("recovery", &Source::Ipo(0b0101), 0, 0.0);
        add("recovery", &Source::Ipo(0b0101), size, 0.0);
    }
    if is_large(networks) {
        all = [0, 1, 8, 9].into_iter().filter_map(|i| all.get(i).cloned()).collect();
    }
    all
}

/// What an actor makes of a pass.
fn see(
    engine: &mut DeviceEngine,
    networks: &Networks,
    batch: &TrainingBatch,
    look: &Look,
    case: &Case,
    figures: &mut Figures,
) {
    let (actor, name) = (Actor::of(&networks.policy), &look.name);
    let parts = parts(batch.rows(), look.minibatch, &order());
    let entropy = f64::from(look.entropy);
    let none = look.descent(batch, &vec![0.0; batch.costs().len()]);
    let every = &none.passes[0].0;
    let mut passes: Vec<Pass> = parts.iter().map(|rows| actor.pass(batch, rows, every, entropy)).collect();
    let offsets = look.offsets(batch, &passes, &parts, case.slack);
    let record = engine.parts().0.descend(batch, &look.descent(batch, &offsets)).expect("this network fits");
    assert_eq!(record.sums.len(), passes.len(), "{name}");
    for ((found, pass), rows) in record.sums.iter().zip(&passes).zip(&parts) {
        assert!(pass.slack > case.slack, "{name}: {:e} from a kink", pass.slack);
        figures.see_sums(found, pass, kl_floor(&actor, batch, rows.len()), name);
    }
    let gradient = engine.actor_gradient().unwrap_or_else(|e| panic!("{e}"));
    let gradient = split(networks, &wide(&gradient));
    let (chosen, open) = (look.chosen(batch, &offsets, &record.sums), passes.pop().expect("a batch has rows"));
    let pass = if chosen == *every {
        open
    } else {
        let shares = errors(&gradient, &open.gradient, actor.net.sizes[1]).into_iter().map(|[of_size, _]| of_size);
        assert!(shares.fold(0.0, f64::max) > 0.05, "{name}: another loss would not be seen");
        actor.pass(batch, parts.last().expect("a batch has rows"), &chosen, entropy)
    };
    figures.see_gradient(&gradient, &pass.gradient, &actor.net, name);
    figures.see_norm(record.gradient_norm, &pass.gradient, &actor.net, name);
}

/// Every figure of whole passes in a case.
fn check(device: &Maker, case: &Case, seed: u64, precision: Precision) {
    let (networks, batch) = make(case, seed);
    let engine = DeviceEngine::new(make(case, seed).0, device, precision);
    let mut engine = engine.unwrap_or_else(|e| panic!("{e}"));
    if case.hidden.is_empty() {
        return assert_eq!(engine.is_fused(), [false; 2]);
    }
    assert_eq!(engine.is_fused(), [true; 2], "{}", case.name);
    engine.upload(&batch);
    engine.upload_targets(&batch);
    let mut figures = Figures::new(if precision == Precision::Fp32 { SINGLE } else { COARSE });
    for look in looks(&networks, &batch, precision) {
        see(&mut engine, &networks, &batch, &look, case, &mut figures);
    }
    see_critics(&mut engine, &networks, &batch, &mut figures);
    figures.show(case, &format!("whole passes, {}", engine.name()));
    engine.check().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(engine.networks().policy.parameters(), networks.policy.parameters(), "{}", case.name);
    for (found, critic) in engine.networks().critics.iter().zip(&networks.critics) {
        assert_eq!(found.net.params(), critic.net.params(), "{}", case.name);
    }
    figures.hold(case);
}

/// Cases for products of eleven bits: no row is so near to a kink of the loss that these would decide on which side it is.
fn coarse_cases() -> Vec<Case> {
    let new = Case::new;
    let all = vec![
        new("60-64-64-2", 60, &[64, 64], continuous(2), 1000),
        new("113-256-256-8", 113, &[256, 256], continuous(8), 700),
        new("200-128-96-16", 200, &[128, 96], continuous(16), 400),
        Case { activation: Activation::Relu, ..new("ReLU 28-20-9-3", 28, &[20, 9], continuous(3), 600) },
        Case { activation: Activation::Identity, ..new("identity", 9, &[11, 13], continuous(2), 300) },
        Case {
            costs: 3,
            ..new("discrete actions", 30, &[32, 24], ActionSpace::MultiDiscrete { sizes: vec![3, 2, 7] }, 500)
        },
    ];
    all.into_iter().map(|case| Case { slack: 5e-4, ..case }).collect()
}

#[cfg(feature = "emulation")]
mod emulated {
    use super::*;
    use crate::emulation::maker;

    /// The cases with fewer rows.
    fn short(cases: Vec<Case>) -> impl Iterator<Item = (u64, Case)> {
        let short = |case: Case| {
            let most = match case.name {
                "513 rows" => case.steps,
                _ if case.hidden.contains(&256) => 70,
                _ => 150,
            };
            Case { steps: case.steps.min(most), ..case }
        };
        (0..).zip(cases.into_iter().map(short))
    }

    #[test]
    fn the_emulated_kernels_compute_what_double_precision_does() {
        for (seed, case) in short(cases()) {
            check(&maker(false), &case, seed, Precision::Fp32);
        }
    }

    #[test]
    fn the_emulated_kernels_of_tf32_are_as_accurate_as_it_is() {
        for (seed, case) in short(coarse_cases()) {
            check(&maker(false), &case, seed, Precision::Tf32);
        }
    }

    /// The first three cases have networks of the three widths.
    #[test]
    fn the_emulated_kernels_do_not_depend_on_copies_that_take_long() {
        for (seed, case) in short(cases()).take(3) {
            check(&maker(true), &case, seed, Precision::Fp32);
        }
    }
}

#[cfg(feature = "gpu-tests")]
mod on_a_gpu {
    use super::*;
    use p3o_gpu::cuda::Cuda;

    #[test]
    fn whole_passes_on_a_gpu_compute_what_double_precision_does() {
        let gpu = Cuda::open(0).unwrap_or_else(|e| panic!("{e}"));
        for (seed, case) in (0..).zip(cases()) {
            check(&|| Ok(Box::new(gpu.again()?)), &case, seed, Precision::Fp32);
        }
    }

    #[test]
    fn whole_passes_of_tf32_on_a_gpu_are_as_accurate_as_it_is() {
        let gpu = Cuda::open(0).unwrap_or_else(|e| panic!("{e}"));
        for (seed, case) in (0..).zip(coarse_cases()) {
            check(&|| Ok(Box::new(gpu.again()?)), &case, seed, Precision::Tf32);
        }
    }
}
