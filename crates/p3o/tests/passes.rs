//! Algorithm 2 over the full batch: kappa grows from pass to pass, and the passes end at the edge of the trust region.

use crate::problem::{Head, Problem};
use crate::util::float_bits;

fn problem() -> Problem {
    let mut problem = Problem::new(Head::Gaussian, 130, 1, 11).at_home();
    problem.place(&[5.0]);
    problem
}

#[test]
fn an_adaptive_kappa_grows_by_rho_up_to_its_bound_and_restarts_with_every_update() {
    let problem = problem();
    let batch = problem.batch();
    let adaptive = |passes: &str| {
        let growth = ["algo.kappa_schedule=adaptive", "algo.kappa=1", "algo.kappa_growth=1.5", "algo.kappa_max=2"];
        problem.settings(&[&growth[..], &[passes]].concat())
    };
    // 1, then min(1.5, 2) = 1.5, then min(2.25, 2) = 2, then min(3, 2) = 2.
    let kappas = [1.0, 1.5, 2.0, 2.0];
    for (n, kappa) in kappas.iter().enumerate() {
        let mut policy = problem.policy(1e-3);
        let settings = adaptive(&format!("algo.passes={}", n + 1));
        assert_eq!(batch.update(&mut policy, &settings).kappa, *kappa, "pass {}", n + 1);
        // A second update on the same policy starts over.
        assert_eq!(batch.update(&mut policy, &settings).kappa, *kappa, "pass {} of the next update", n + 1);
    }
    // The steps themselves use those values: four passes are the same bits as four updates with one fixed kappa each.
    let (mut grown, mut fixed) = (problem.policy(1e-3), problem.policy(1e-3));
    batch.update(&mut grown, &adaptive("algo.passes=4"));
    for kappa in kappas {
        batch.update(&mut fixed, &problem.settings(&[&format!("algo.kappa={kappa}")]));
    }
    assert_eq!(float_bits(grown.net.params()), float_bits(fixed.net.params()));
}

#[test]
fn a_fixed_kappa_stays() {
    let problem = problem();
    let settings = problem.settings(&["algo.passes=4", "algo.kappa=3", "algo.kappa_growth=2"]);
    assert_eq!(problem.batch().update(&mut problem.policy(1e-3), &settings).kappa, 3.0);
}

#[test]
fn the_passes_end_before_a_step_from_outside_the_trust_region() {
    let problem = problem();
    let batch = problem.batch();
    let run = |changes: &[&str]| {
        let mut policy = problem.policy(3e-3);
        let report = batch.update(&mut policy, &problem.settings(changes));
        (report, float_bits(policy.net.params()))
    };
    // The KL that each pass sees before its step.
    let kl: Vec<f64> = (1..=6).map(|n| run(&[&format!("algo.passes={n}")]).0.kl).collect();
    assert!(kl[0].abs() < 1e-6 && kl.windows(2).all(|w| w[1] > w[0] + 1e-6), "{kl:?}");
    let middle = 0.5 * (kl[2] + kl[3]);
    // The fourth pass is the first to see more than the bound: three steps are taken and its own is not.
    let (report, after) = run(&["algo.passes=6", &format!("algo.target_kl={middle}")]);
    assert_eq!((report.steps, report.kl), (3, kl[3]));
    assert_eq!(after, run(&["algo.passes=3"]).1);
    // The bound is the product of target and slack.
    let target = format!("algo.target_kl={}", middle / 8.0);
    assert_eq!(run(&["algo.passes=6", &target, "algo.kl_slack=8"]).0.steps, 3);
    assert!(run(&["algo.passes=6", &target]).0.steps < 3);
    // On the bound is still inside.
    assert_eq!(run(&["algo.passes=6", &format!("algo.target_kl={}", kl[3])]).0.steps, 4);
}

#[test]
fn a_batch_with_a_number_that_is_not_finite_is_reported_and_not_stepped_on() {
    for spoil in [|p: &mut Problem| p.adv_r[77] = f64::NAN, |p: &mut Problem| p.adv_c[0][77] = f64::NAN] {
        let mut problem = problem();
        spoil(&mut problem);
        let mut policy = problem.policy(1e-3);
        let before = float_bits(policy.net.params());
        let report = problem.batch().update(&mut policy, &problem.settings(&["algo.passes=4"]));
        assert!(!report.is_finite(), "{report:?}");
        assert_eq!((report.steps, float_bits(policy.net.params())), (0, before));
    }
}
