//! Over mini-batches the questions about the whole batch stay questions about the whole batch.

use crate::problem::{Head, Problem};
use crate::util::{float_bits, rng};
use p3o::algo::p3o::update_minibatches;
use p3o::algo::{Memory, Passes};

/// A batch collected by the present policy, whose cost advantages are `most` but for one row, which has `odd`.
fn uneven(rows: usize, most: f64, odd: f64, offset: f64) -> Problem {
    let mut problem = Problem::new(Head::Gaussian, rows, 1, 21).at_home();
    problem.adv_c = vec![vec![most; rows]];
    problem.adv_c[0][rows / 2] = odd;
    problem.offsets = vec![offset];
    problem
}

fn train(problem: &Problem, changes: &[&str]) -> (Passes, Vec<u32>) {
    let mut policy = problem.policy(1e-5);
    let batch = problem.batch();
    let mut memory = Memory::new(&policy, 1, problem.adv_c.len());
    let settings = problem.settings(changes);
    let report = update_minibatches(&mut policy, &batch.view(), &settings, &mut memory, &mut rng(2));
    (report, float_bits(policy.net.params()))
}

#[test]
fn a_mini_batch_of_the_other_sign_does_not_decide_the_gate() {
    let changes = ["algo.minibatch=2", "algo.passes=5"];
    // Over the limit: (7 - 2) / 8 = 0.625; the mini-batch with the odd row alone is under: (1 - 2) / 2 = -0.5. Under it:
    // the same with other signs. The last four mini-batches may have the odd row twice, old and new: (1 + 1 - 0.5 - 0.5)
    // / 4 = 0.25 is still over. The steps are tiny, so all ratios stay at one.
    // An offset of +-10 leaves every estimate on one side and does not enter the gradient.
    for (most, odd, sure) in [(1.0, -2.0, 10.0), (-1.0, 2.0, -10.0)] {
        let (report, after) = train(&uneven(8, most, odd, 0.0), &changes);
        assert_eq!(after, train(&uneven(8, most, odd, sure), &changes).1, "advantages {most} and {odd}");
        assert_ne!(after, train(&uneven(8, most, odd, -sure), &changes).1, "advantages {most} and {odd}");
        assert_eq!(report.penalized, [if sure > 0.0 { 1.0 } else { 0.0 }]);
    }
}

#[test]
fn a_short_last_mini_batch_weighs_as_much_as_its_rows() {
    // Parts of 4 rows and of 1. The batch is under its limit: (-4 + 1.25) / 5 = -0.55. When the odd row is the short
    // part, the parts' means are -1 and 1.25, and their plain mean, 0.125, would call it over. Should a new part 0 have the
    // odd row as well, the estimate is (-3 + 1.25 + 1.25) / 5 = -0.1: still under.
    let changes = ["algo.minibatch=4", "algo.passes=30"];
    let (report, after) = train(&uneven(5, -1.0, 1.25, 0.0), &changes);
    assert_eq!(after, train(&uneven(5, -1.0, 1.25, -10.0), &changes).1);
    assert_ne!(after, train(&uneven(5, -1.0, 1.25, 10.0), &changes).1);
    assert_eq!(report.steps, 60);
    // At ratio one, L_C is the mean advantage over the rows.
    assert!((report.loss_c[0] + 0.55).abs() < 1e-3, "{}", report.loss_c[0]);
}

#[test]
fn the_trust_region_is_asked_once_per_pass() {
    // Any KL above zero ends the passes, but only after all four parts of the first.
    let report = train(&uneven(8, 1.0, 2.0, 0.0), &["algo.minibatch=2", "algo.passes=5", "algo.target_kl=0"]).0;
    assert!(report.kl > 0.0);
    assert_eq!(report.steps, 4);
}

#[test]
fn an_adaptive_kappa_grows_once_per_pass() {
    // 1, 2, min(4, 3) = 3.
    let growth = ["algo.kappa_schedule=adaptive", "algo.kappa=1", "algo.kappa_growth=2", "algo.kappa_max=3"];
    for (passes, kappa) in [(1, 1.0), (2, 2.0), (3, 3.0)] {
        let passes = format!("algo.passes={passes}");
        let report = train(&uneven(8, 1.0, 2.0, 0.0), &[&growth[..], &["algo.minibatch=2", &passes]].concat()).0;
        assert_eq!(report.kappa, kappa);
    }
}

#[test]
fn a_mini_batch_that_is_not_finite_is_reported() {
    for spoil in [|p: &mut Problem| p.adv_r[3] = f64::NAN, |p: &mut Problem| p.adv_c[0][3] = f64::NAN] {
        let mut problem = uneven(8, 1.0, 2.0, 0.0);
        spoil(&mut problem);
        let report = train(&problem, &["algo.minibatch=2", "algo.passes=3"]).0;
        assert!(!report.is_finite(), "{report:?}");
    }
}
