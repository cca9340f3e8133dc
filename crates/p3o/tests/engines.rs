//! Algorithms ask an engine for passes and see nothing of what is behind it.

use crate::problem::{Head, Problem};
use crate::util::rng;
use p3o::Algorithm;
use p3o::algo::focops::{self, Proximal};
use p3o::algo::multiplier::Multiplier;
use p3o::algo::natural::Surrogate;
use p3o::algo::p3o::{Clipped, cost_term, reward_term};
use p3o::algo::{Order, Passes, Update};
use p3o::batch::TrainingBatch;
use p3o::engine::{Engine, PolicyEngine, RowLoss, Sums};

/// What an engine was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Calls {
    passes: usize,
    measures: usize,
    steps: usize,
    products: usize,
    moves: usize,
}

/// Another engine's answers, counted, up to one from which on nothing is finite.
struct Counting<'a> {
    inner: Box<dyn PolicyEngine + 'a>,
    calls: Calls,
    fails_at: usize,
}

impl Counting<'_> {
    fn answer(&self, sums: Sums) -> Sums {
        let failed = self.calls.passes + self.calls.measures >= self.fails_at;
        if failed { Sums { kl: f64::NAN, terms: sums.terms.iter().map(|_| f64::NAN).collect() } } else { sums }
    }
}

impl PolicyEngine for Counting<'_> {
    fn pass(&mut self, batch: &TrainingBatch, pieces: Option<&[u32]>, loss: &RowLoss, entropy: f32) -> Sums {
        self.calls.passes += 1;
        let sums = self.inner.pass(batch, pieces, loss, entropy);
        self.answer(sums)
    }

    fn measure(&mut self, batch: &TrainingBatch) -> Sums {
        self.calls.measures += 1;
        let sums = self.inner.measure(batch);
        self.answer(sums)
    }

    fn step(&mut self, learning_rate: f64) -> f64 {
        self.calls.steps += 1;
        self.inner.step(learning_rate)
    }

    fn gradient(&mut self) -> Vec<f64> {
        self.inner.gradient()
    }

    fn fisher_product(&mut self, v: &[f64]) -> Vec<f64> {
        self.calls.products += 1;
        self.inner.fisher_product(v)
    }

    fn parameters(&mut self) -> Vec<f32> {
        self.inner.parameters()
    }

    fn set_parameters(&mut self, parameters: &[f32]) {
        self.calls.moves += 1;
        self.inner.set_parameters(parameters);
    }
}

/// One update by way of a stand-in: the report, what was asked for, and the policy's bits.
fn update(problem: &Problem, algo: &str, changes: &[&str], fails_at: usize) -> (Passes, Calls, Vec<u32>) {
    let (mut bench, config) = (problem.bench(), problem.config(algo, changes));
    let mut engine = Counting { inner: bench.engine.parts().0, calls: Calls::default(), fails_at };
    let report = config.own.update(&mut Update {
        engine: &mut engine,
        batch: &bench.batch,
        offsets: &bench.offsets,
        excess: &bench.excess,
        limits: &[1.0; 16],
        settings: &config.policy,
        learning_rate: config.policy.learning_rate,
        multipliers: &mut [Multiplier::new(1.0)],
        rng: &mut rng(2),
    });
    let calls = engine.calls;
    drop(engine);
    (report, calls, bench.bits())
}

fn problem() -> Problem {
    let mut problem = Problem::new(Head::Gaussian, 90, 1, 51).at_home();
    problem.place(&[0.01]);
    problem
}

#[test]
fn every_algorithm_trains_through_a_stand_in_for_the_engine() {
    let problem = problem();
    for algorithm in Algorithm::ALL {
        let (info, first_order) = (algorithm.info(), algorithm.info().order == Order::First);
        let changes = if first_order { &["policy.passes=4"][..] } else { &["policy.target_kl=0.002"] };
        let (report, calls, after) = update(&problem, info.name, changes, usize::MAX);
        let mut bench = problem.bench();
        let direct = bench.update_by(&problem.config(info.name, changes), &mut [Multiplier::new(1.0)]);
        assert_eq!(report, direct, "{}", info.name);
        assert!(after == bench.bits(), "{}: another update", info.name);
        assert!(after != problem.bench().bits(), "{}: nothing moved", info.name);
        if first_order {
            // One pass and one step after another, and nothing of what second-order steps need.
            let measures = if *algorithm == Algorithm::Ipo { 4 } else { 0 };
            let expected = Calls { passes: 4 + report.redone, measures, steps: 4, products: 0, moves: 0 };
            assert_eq!(calls, expected, "{}", info.name);
        } else {
            // Gradients, products, and a line search that measures where it stands after every move.
            assert!(calls.steps == 0 && calls.products > 0 && calls.moves > 0, "{}: {calls:?}", info.name);
            assert!((1..=2).contains(&calls.passes), "{}: {calls:?}", info.name);
            assert_eq!(calls.measures, 1 + calls.moves, "{}", info.name);
        }
    }
}

#[test]
fn an_engine_that_fails_ends_the_passes() {
    let problem = problem();
    for algorithm in Algorithm::ALL {
        let (info, first_order) = (algorithm.info(), algorithm.info().order == Order::First);
        let changes = if first_order { &["policy.passes=6"][..] } else { &["policy.target_kl=0.002"] };
        let (report, calls, after) = update(&problem, info.name, changes, 3);
        if first_order {
            assert!(!report.is_finite(), "{}: {report:?}", info.name);
            // P3O, which guesses, may repeat the one that failed.
            assert!(calls.steps < 3 && calls.passes <= 4 && report.steps == calls.steps, "{}: {calls:?}", info.name);
        } else {
            // A line search in which nothing is finite leaves the policy where it was.
            assert!(report.steps == 0 && after == problem.bench().bits(), "{}", info.name);
        }
    }
}

#[test]
fn the_weights_of_a_row_are_those_of_the_sample_functions() {
    let advantages = vec![vec![0.5f32, -1.25], vec![-0.75, 2.0], vec![1.5, -0.5]];
    for (row, (ratio, kl)) in [(1.5f32, 0.02f32), (0.6, 0.005)].into_iter().enumerate() {
        let [r, a, b] = [0, 1, 2].map(|signal| advantages[signal][row]);
        // P3O: clipped costs, one of which has a factor of zero, and a scale of the whole.
        let loss = Clipped { epsilon: 0.2, clip_costs: true, reward: 0.5, costs: vec![3.0, 0.0], scale: 0.25 };
        let mut terms = [0.0; 5];
        let w = loss.weigh(&advantages, row, ratio, &mut terms);
        let (reward, cost, other) = (reward_term(ratio, r, 0.2), cost_term(ratio, a, 0.2), cost_term(ratio, b, 0.2));
        assert_eq!(w, 0.25 * (0.5 * reward.1 + 3.0 * cost.1));
        assert_eq!(terms, [reward.0, cost.0, other.0, 0.0, 0.0].map(f64::from));
        // PPO-L and IPO: plain costs.
        let mut terms = [0.0; 5];
        let w = Clipped { clip_costs: false, ..loss }.weigh(&advantages, row, ratio, &mut terms);
        assert_eq!(w, 0.25 * (0.5 * reward.1 + 3.0 * (ratio * a)));
        assert_eq!(terms, [reward.0, ratio * a, ratio * b, 0.0, 0.0].map(f64::from));
        // FOCOPS: one state inside the trust region, one outside.
        let loss = Proximal { multipliers: vec![0.5, 2.0], lambda: 1.5, delta: 0.01 };
        let mut terms = [0.0; 5];
        let (term, w, u) = focops::sample(ratio, kl, r - 0.5 * a - 2.0 * b, 1.5, 0.01);
        assert_eq!(loss.weigh(&advantages, row, ratio, kl, &mut terms), (w, u));
        assert_eq!(terms, [-ratio * r, ratio * a, ratio * b, term, u].map(f64::from));
        assert_eq!(u, if kl > 0.01 { 0.0 } else { 1.0 });
        // The plain surrogate of a mixed advantage.
        let mut terms = [0.0; 5];
        let w = Surrogate { reward: 0.5, costs: vec![1.0, -2.0] }.weigh(&advantages, row, ratio, &mut terms);
        assert_eq!(w, -ratio * (0.5 * r - (a - 2.0 * b)));
        assert_eq!(terms, [-ratio * r, ratio * a, ratio * b, 0.0, 0.0].map(f64::from));
    }
}
