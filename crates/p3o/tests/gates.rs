//! Whether a constraint is penalised is decided on the whole batch, exactly, however it was guessed.

use crate::problem::{Head, Problem, first_gradient};
use p3o::algo::Passes;
use p3o::algo::natural::dot;

/// A batch in which every ratio is 1.1 and every advantage of constraint i is `signs[i]`: L_C_i = 1.1 signs[i] + offset,
/// while the guess, which assumes a ratio of one, is signs[i] + offset.
fn uniform(signs: &[f64], offsets: &[f64]) -> Problem {
    let mut problem = Problem::new(Head::Gaussian, 130, signs.len(), 3);
    let shift = f64::from(1.1f32.ln());
    problem.old_log_probs = problem.log_probs().iter().map(|p| f64::from((p - shift) as f32)).collect();
    problem.adv_c = signs.iter().map(|&a| vec![a; problem.len()]).collect();
    problem.offsets = offsets.to_vec();
    problem
}

/// One pass: what it reports and the bits of the policy after it.
fn step(problem: &Problem) -> (Passes, Vec<u32>) {
    let mut bench = problem.bench();
    let report = bench.update(&problem.config("p3o", &["policy.learning_rate=1e-2"]));
    (report, bench.bits())
}

#[test]
fn a_wrong_guess_is_redone_with_the_true_gate() {
    // Guessed under the limit (1 - 1.05 < 0) but over it (1.1 - 1.05 > 0); guessed over (-1 + 1.05 > 0) but under
    // (-1.1 + 1.05 < 0); and both at once. An offset of +-10 leaves nothing to guess and does not enter the gradient.
    let cases: [(&[f64], &[f64], &[f64]); 3] =
        [(&[1.0], &[-1.05], &[10.0]), (&[-1.0], &[1.05], &[-10.0]), (&[1.0, -1.0], &[-1.05, 1.05], &[10.0, -10.0])];
    for (signs, offsets, sure) in cases {
        let (report, after) = step(&uniform(signs, offsets));
        let (reference, expected) = step(&uniform(signs, sure));
        assert_eq!((report.redone, reference.redone), (1, 0), "{signs:?}");
        assert_eq!(report.penalized, reference.penalized, "{signs:?}");
        assert_eq!(after, expected, "{signs:?}: not the step of the true gate");
        // With the gates the other way round the step is another one, so the comparison above can fail.
        let opposite: Vec<f64> = sure.iter().map(|o| -o).collect();
        assert_ne!(step(&uniform(signs, &opposite)).1, expected, "{signs:?}");
    }
}

#[test]
fn gates_carried_from_pass_to_pass_change_nothing() {
    let mut problem = Problem::new(Head::Gaussian, 130, 2, 5).at_home();
    problem.place(&[0.02, 0.01]);
    let mut carried = problem.bench();
    let report = carried.update(&problem.config("p3o", &["policy.learning_rate=5e-3", "policy.passes=40"]));
    // The same passes one at a time: each starts from the guess at the old policy, not from the pass before.
    let mut fresh = problem.bench();
    let single = problem.config("p3o", &["policy.learning_rate=5e-3"]);
    let singles: Vec<Passes> = (0..40).map(|_| fresh.update(&single)).collect();
    assert_eq!(carried.bits(), fresh.bits());
    for i in 0..2 {
        let share = singles.iter().map(|p| p.penalized[i]).sum::<f64>() / 40.0;
        assert!((report.penalized[i] - share).abs() < 1e-12, "constraint {i}");
        assert!(share > 0.0 && share < 1.0, "constraint {i} never changed sides, so nothing was carried");
    }
    // A pass is redone when a sign changed since the pass before; the first guess was right.
    let on = |p: &Passes| p.penalized.clone();
    let changes = singles.windows(2).filter(|w| on(&w[0]) != on(&w[1])).count();
    assert_eq!(report.redone, changes);
}

#[test]
fn a_balanced_gradient_is_shorter_by_one_plus_kappa_for_each_penalised_constraint() {
    // Two constraints: both over their limits, one, none.
    for (offsets, penalized) in [([10.0, 10.0], 2.0), ([10.0, -10.0], 1.0), ([-10.0, -10.0], 0.0)] {
        let mut problem = Problem::new(Head::Gaussian, 130, 2, 7);
        problem.offsets = offsets.to_vec();
        let gradient = |balance: &str| {
            let mut bench = problem.bench();
            bench.update(&problem.config("p3o", &["p3o.kappa=3", "policy.entropy=0", balance]));
            first_gradient(bench.policy())
        };
        let (plain, balanced) = (gradient("p3o.balance=false"), gradient("p3o.balance=true"));
        let (long, short) = (dot(&plain, &plain).sqrt(), dot(&balanced, &balanced).sqrt());
        assert!((long / short - (1.0 + 3.0 * penalized)).abs() < 1e-4, "{penalized}: {long} and {short}");
        assert!(dot(&plain, &balanced) / (long * short) > 1.0 - 1e-9);
    }
}
