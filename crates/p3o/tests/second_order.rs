//! Natural gradients: products with the KL's Hessian, their inverse, and a line search that never leaves the trust region.

use crate::problem::{Gradient, Head, Problem, padded, unpadded};
use crate::util::{float_bits, rng};
use p3o::algo::Passes;
use p3o::algo::multiplier::Multiplier;
use p3o::algo::natural::{Solver, conjugate_gradients, dot, gradient, line_search, product, solve};
use p3o::algo::trpo::reach;
use p3o::engine::Engine;
use rand::RngExt;

const HEADS: [Head; 3] = Head::ALL;

const SOLVER: Solver = Solver { damping: 0.1, cg_iterations: 10, backtrack: 0.8, backtracks: 10 };

fn random(n: usize, seed: u64) -> Vec<f64> {
    let mut rng = rng(seed);
    (0..n).map(|_| f64::from(rng.random_range(-1.0f32..1.0))).collect()
}

/// Largest difference as a share of the largest entry.
fn apart(a: &Gradient, b: &Gradient) -> f64 {
    assert_eq!(a.len(), b.len());
    let largest = b.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    a.iter().zip(b).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs() / largest))
}

#[test]
fn the_fisher_product_is_the_derivative_of_the_kl_gradient() {
    for head in HEADS {
        let problem = Problem::new(head, 90, 0, 31).at_home();
        for seed in 0..3 {
            let v = random(problem.parameters(), seed);
            let at = |by: f64| {
                let direction: Vec<f64> = v.iter().map(|v| by * v).collect();
                problem.moved(&direction).gradient_by(|_, _| (0.0, 1.0))
            };
            let h = 1e-3;
            let (near, far) = ((at(h), at(-h)), (at(2.0 * h), at(-2.0 * h)));
            let differences: Gradient =
                (0..v.len()).map(|i| (8.0 * (near.0[i] - near.1[i]) - (far.0[i] - far.1[i])) / (12.0 * h)).collect();
            let exact = problem.fisher_product(&v);
            assert!(apart(&exact, &differences) <= 1e-6, "{head:?}: {:e}", apart(&exact, &differences));
            // The trainer's product in f32, which knows nothing of the old policy.
            let (mut bench, policy) = (problem.bench(), problem.policy());
            let ours = bench.engine.parts().0.fisher_product(&padded(&policy, &v));
            assert!(apart(&unpadded(&policy, &ours), &exact) <= 4e-6, "{head:?}");
        }
    }
}

#[test]
fn the_fisher_matrix_is_symmetric_and_not_negative() {
    for head in HEADS {
        let problem = Problem::new(head, 300, 0, 32).at_home();
        let (mut bench, policy) = (problem.bench(), problem.policy());
        for seed in 0..5 {
            let n = problem.parameters();
            let (u, v) = (random(n, 2 * seed), random(n, 2 * seed + 1));
            let (hu, hv) = (problem.fisher_product(&u), problem.fisher_product(&v));
            assert!((dot(&u, &hv) - dot(&v, &hu)).abs() < 1e-12 * dot(&u, &hu).abs());
            assert!(dot(&u, &hu) > 0.0);
            let (u, v) = (padded(&policy, &u), padded(&policy, &v));
            let (mut engine, _) = bench.engine.parts();
            let (hu, hv) = (engine.fisher_product(&u), engine.fisher_product(&v));
            assert!((dot(&u, &hv) - dot(&v, &hu)).abs() < 2e-6 * dot(&u, &hu).abs(), "{head:?}");
        }
    }
}

#[test]
fn damping_is_added_to_the_diagonal() {
    let problem = Problem::new(Head::Gaussian, 90, 0, 33).at_home();
    let (mut bench, config) = (problem.bench(), problem.config("trpo", &[]));
    let v = padded(&problem.policy(), &random(problem.parameters(), 1));
    let mut at =
        |damping: f64| bench.with(&config, &mut [], |update| product(update, &Solver { damping, ..SOLVER }, &v));
    let (plain, damped) = (at(0.0), at(0.25));
    for ((p, d), v) in plain.iter().zip(&damped).zip(&v) {
        assert!((d - p - 0.25 * v).abs() < 1e-15);
    }
}

#[test]
fn conjugate_gradients_solve_a_system_of_n_in_n_iterations() {
    let n = 12;
    let m: Vec<Vec<f64>> = (0..n).map(|i| random(n, i as u64)).collect();
    // M M^T + 0.5
    let times = |v: &[f64]| -> Vec<f64> {
        let inner: Vec<f64> = (0..n).map(|j| (0..n).map(|i| m[i][j] * v[i]).sum()).collect();
        (0..n).map(|i| dot(&m[i], &inner) + 0.5 * v[i]).collect()
    };
    let b = random(n, 99);
    let x = conjugate_gradients(&b, n, times);
    assert!(apart(&times(&x), &b) < 1e-9, "{:e}", apart(&times(&x), &b));
    // One iteration is steepest descent: x = b (b.b / b.H b).
    let first = conjugate_gradients(&b, 1, times);
    let factor = dot(&b, &b) / dot(&b, &times(&b));
    assert!(first.iter().zip(&b).all(|(x, b)| (x - factor * b).abs() < 1e-12));
    assert_eq!(conjugate_gradients(&[0.0; 3], 10, |_| panic!("there is nothing to solve")), [0.0; 3]);
}

#[test]
fn gradients_are_those_of_the_surrogates() {
    for head in HEADS {
        let mut problem = Problem::new(head, 90, 1, 34).at_home();
        problem.entropy = 0.05;
        let (policy, config) = (problem.policy(), problem.config("cpo", &[]));
        let solver = Solver { cg_iterations: 40, ..SOLVER };
        let (g, b, mixed, back) = problem.bench().with(&config, &mut [], |update| {
            let g = gradient(update, 0.05, 1.0, &[0.0]);
            let b = gradient(update, 0.0, 0.0, &[-1.0]);
            let mixed = gradient(update, 0.0, 0.5, &[2.0]);
            let x = solve(update, &solver, &g);
            let back = product(update, &solver, &x);
            (g, b, mixed, back)
        });
        let g_exact = problem.differences_of(5e-5, |p| p.surrogate(&p.adv_r) + p.entropy_bonus());
        let b_exact = problem.differences_of(5e-5, |p| p.surrogate(&p.adv_c[0]));
        assert!(apart(&unpadded(&policy, &g), &g_exact) <= 4e-6, "{head:?}");
        assert!(apart(&unpadded(&policy, &b), &b_exact) <= 4e-6, "{head:?}");
        let mixed_exact =
            problem.differences_of(5e-5, |p| 0.5 * p.surrogate(&p.adv_r) - 2.0 * p.surrogate(&p.adv_c[0]));
        assert!(apart(&unpadded(&policy, &mixed), &mixed_exact) <= 4e-6, "{head:?}");
        assert!(apart(&back, &g) < 1e-4, "{head:?}: {:e}", apart(&back, &g));
    }
}

/// A step of the first log deviation alone, and what the line search makes of it.
fn search(size: f64, solver: Solver, accept: impl Fn(&[f64], &[f64]) -> bool) -> (Passes, f64, bool) {
    let problem = Problem::new(Head::Gaussian, 90, 1, 35).at_home();
    let mut bench = problem.bench();
    let before = bench.policy().parameters();
    let mut step = vec![0.0; before.len()];
    step[bench.policy().net.params().len()] = size;
    let mut report = Passes::new(1);
    let config = problem.config("cpo", &["policy.target_kl=0.02"]);
    bench.with(&config, &mut [], |update| line_search(update, &solver, &step, &mut report, accept));
    let moved = f64::from(bench.policy().log_std[0]) - problem.log_std[0];
    (report, moved, float_bits(&before) == bench.bits())
}

#[test]
fn a_kl_that_is_not_finite_shrinks_the_step() {
    // Moving a log deviation by x gives a KL of (e^2x - 1) / 2 - x: infinite at 1000, 2.4e8 at 10, 0.0107 at 0.1.
    let solver = Solver { backtrack: 0.01, backtracks: 2, ..SOLVER };
    let (report, moved, _) = search(1000.0, solver, |_, _| true);
    assert!((report.fraction - 1e-4).abs() < 1e-15 && report.steps == 1, "{report:?}");
    assert!((moved - 0.1).abs() < 1e-6 && report.is_finite() && (report.kl - 0.0107).abs() < 1e-4, "{report:?}");
    // One try less finds nothing, and nothing moves.
    let (report, _, same) = search(1000.0, Solver { backtracks: 1, ..solver }, |_, _| true);
    assert_eq!((report.fraction, report.steps, same), (0.0, 0, true));
    assert!(report.is_finite() && report.kl.abs() < 1e-6);
    // A step that is no number is never taken.
    let (report, _, same) = search(f64::NAN, solver, |_, _| true);
    assert_eq!((report.fraction, report.steps, same), (0.0, 0, true));
}

#[test]
fn the_first_fraction_that_is_accepted_is_taken() {
    let tries = std::cell::Cell::new(0);
    let third = |_: &[f64], _: &[f64]| {
        tries.set(tries.get() + 1);
        tries.get() == 3
    };
    let (report, moved, _) = search(0.1, SOLVER, third);
    assert!((report.fraction - 0.64).abs() < 1e-12 && (moved - 0.064).abs() < 1e-6);
    let (report, _, same) = search(0.1, SOLVER, |_, _| false);
    assert_eq!((report.fraction, report.steps, same), (0.0, 0, true));
}

#[test]
fn a_trust_region_step_reaches_its_edge_and_gains() {
    // sqrt(2 * 0.02 / 4) = 0.1; nothing to gain, no step.
    assert!((reach(4.0, 0.02) - 0.1).abs() < 1e-15);
    assert_eq!(reach(0.0, 0.02), 0.0);
    for head in HEADS {
        let problem = Problem::new(head, 300, 0, 36).at_home();
        let mut bench = problem.bench();
        let before = bench.policy().parameters();
        let exact = ["policy.target_kl=1e-4", "trpo.damping=0.01", "trpo.cg_iterations=60"];
        let report = bench.update(&problem.config("trpo", &exact));
        assert_eq!(report.steps, 1, "{report:?}");
        let moved = bench.policy().parameters();
        let x: Vec<f64> = moved.iter().zip(&before).map(|(a, b)| f64::from(a - b) / report.fraction).collect();
        let x = unpadded(bench.policy(), &x);
        // The whole step lies on the edge x.H x / 2 = delta. So small a region is nearly quadratic: the KL is this length
        // without the damping's part.
        let undamped = dot(&x, &problem.fisher_product(&x)) / 2.0;
        let length = undamped + 0.01 * dot(&x, &x) / 2.0;
        assert!((length / 1e-4 - 1.0).abs() < 1e-2, "{head:?}: {length}");
        let kl = undamped * report.fraction.powi(2);
        assert!((report.kl / kl - 1.0).abs() < 0.05, "{head:?}: {} is not {kl}", report.kl);
        assert!(report.kl <= 1e-4 && report.loss_r < -problem.surrogate(&problem.adv_r));
    }
}

#[test]
fn trpo_lag_trades_reward_for_cost_by_its_multiplier() {
    let mut problem = Problem::new(Head::Gaussian, 300, 1, 37).at_home();
    problem.excess = vec![0.0];
    let step = |nu: f64| {
        let config = problem.config("trpo-lag", &["policy.target_kl=0.001"]);
        problem.bench().update_by(&config, &mut [Multiplier::new(nu)])
    };
    let (cheap, dear) = (step(0.01), step(10.0));
    assert!(cheap.steps == 1 && dear.steps == 1);
    // At a low price the reward grows most, at a high one the cost falls most.
    assert!(cheap.loss_r < dear.loss_r && dear.loss_c[0] < cheap.loss_c[0]);
    assert!(dear.loss_c[0] < problem.surrogate(&problem.adv_c[0]));
    // The loss is what the step improves: (L_R + nu L_C) / (1 + nu).
    assert!((dear.loss - (dear.loss_r + 10.0 * dear.loss_c[0]) / 11.0).abs() < 1e-6);
}

#[test]
fn a_batch_with_a_number_that_is_not_finite_is_reported_and_not_stepped_on() {
    for algo in ["trpo", "cpo", "pcpo", "trpo-lag", "ppo-lag", "focops", "ipo"] {
        let mut problem = Problem::new(Head::Gaussian, 90, 1, 38).at_home();
        problem.adv_r[7] = f64::NAN;
        let mut bench = problem.bench();
        let before = bench.bits();
        let report = bench.update_by(&problem.config(algo, &[]), &mut [Multiplier::new(1.0)]);
        assert!(!report.is_finite(), "{algo}: {report:?}");
        assert_eq!((report.steps, bench.bits()), (0, before), "{algo}");
    }
}
