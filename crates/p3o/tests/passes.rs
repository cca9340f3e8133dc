//! Algorithm 2 over the full batch: kappa grows from pass to pass, and the passes end at the edge of the trust region.

use crate::problem::{Head, Problem};
use crate::util::small_task;
use p3o::Learner;
use p3o::run::named_task;

fn problem() -> Problem {
    let mut problem = Problem::new(Head::Gaussian, 130, 1, 11).at_home();
    problem.place(&[5.0]);
    problem
}

#[test]
fn kappa_grows_by_rho_up_to_its_bound_and_restarts_with_every_update() {
    let problem = problem();
    let growing = |passes: &str| {
        let growth = ["p3o.kappa=1", "p3o.kappa_growth=1.5", "p3o.kappa_max=2"];
        problem.config("p3o", &[&growth[..], &[passes]].concat())
    };
    // 1, then min(1.5, 2) = 1.5, then min(2.25, 2) = 2, then min(3, 2) = 2.
    let kappas = [1.0, 1.5, 2.0, 2.0];
    for (n, kappa) in kappas.iter().enumerate() {
        let mut bench = problem.bench();
        let config = growing(&format!("policy.passes={}", n + 1));
        assert_eq!(bench.update(&config).kappa, *kappa, "pass {}", n + 1);
        // A second update on the same policy starts over.
        assert_eq!(bench.update(&config).kappa, *kappa, "pass {} of the next update", n + 1);
    }
    // The steps themselves use those values: four passes are the same bits as four updates with one fixed kappa each.
    let (mut grown, mut fixed) = (problem.bench(), problem.bench());
    grown.update(&growing("policy.passes=4"));
    for kappa in kappas {
        fixed.update(&problem.config("p3o", &[&format!("p3o.kappa={kappa}")]));
    }
    assert_eq!(grown.bits(), fixed.bits());
}

#[test]
fn a_fixed_kappa_stays_even_above_the_bound_of_a_growing_one() {
    let problem = problem();
    let config = problem.config("p3o", &["policy.passes=4", "p3o.kappa=3", "p3o.kappa_growth=1", "p3o.kappa_max=2"]);
    assert_eq!(problem.bench().update(&config).kappa, 3.0);
}

#[test]
fn the_passes_end_before_a_step_from_outside_the_trust_region() {
    let problem = problem();
    let run = |changes: &[&str]| {
        let mut bench = problem.bench();
        let report = bench.update(&problem.config("p3o", &[&["policy.learning_rate=3e-3"], changes].concat()));
        (report, bench.bits())
    };
    // The KL that each pass sees before its step.
    let kl: Vec<f64> = (1..=6).map(|n| run(&[&format!("policy.passes={n}")]).0.kl).collect();
    assert!(kl[0].abs() < 1e-6 && kl.windows(2).all(|w| w[1] > w[0] + 1e-6), "{kl:?}");
    let middle = 0.5 * (kl[2] + kl[3]);
    // The fourth pass is the first to see more than the bound: three steps are taken and its own is not.
    let (report, after) = run(&["policy.passes=6", &format!("policy.target_kl={middle}")]);
    assert_eq!((report.steps, report.kl), (3, kl[3]));
    assert_eq!(after, run(&["policy.passes=3"]).1);
    assert!(run(&["policy.passes=6", &format!("policy.target_kl={}", middle / 8.0)]).0.steps < 3);
    // On the bound is still inside.
    assert_eq!(run(&["policy.passes=6", &format!("policy.target_kl={}", kl[3])]).0.steps, 4);
}

#[test]
fn a_batch_with_a_number_that_is_not_finite_is_reported_and_not_stepped_on() {
    for spoil in [|p: &mut Problem| p.adv_r[77] = f64::NAN, |p: &mut Problem| p.adv_c[0][77] = f64::NAN] {
        let mut problem = problem();
        spoil(&mut problem);
        let mut bench = problem.bench();
        let before = bench.bits();
        let report = bench.update(&problem.config("p3o", &["policy.passes=4"]));
        assert!(!report.is_finite(), "{report:?}");
        assert_eq!((report.steps, bench.bits()), (0, before));
    }
}

/// A policy's parameters after so many updates of a small run.
fn after_updates(updates: usize, changes: &[&str]) -> Vec<f32> {
    let config = small_task("p3o", "PointGoal", changes);
    let mut learner = Learner::new(config.clone(), &*named_task(&config).unwrap()).unwrap();
    for _ in 0..updates {
        learner.update().unwrap();
    }
    learner.policy().parameters()
}

#[test]
fn an_entropy_bonus_counts_in_its_share_of_the_run_only() {
    let steps = small_task("p3o", "PointGoal", &[]).rollout.batch * 4;
    let (four, bonus) = (format!("run.steps={steps}"), "policy.entropy=0.1");
    let after = |updates: usize, until: &str| after_updates(updates, &[&four, bonus, until]);
    let until = "policy.entropy_until=0.5";
    assert_eq!(after(2, until), after_updates(2, &[&four, bonus]));
    assert_ne!(after(3, until), after_updates(3, &[&four, bonus]));
    assert_eq!(after(1, "policy.entropy_until=0"), after_updates(1, &[&four]));
}

#[test]
fn an_entropy_bonus_counts_below_its_ceiling_only() {
    let after_an_update = |changes: &[&str]| after_updates(1, changes);
    let (without, with) = (after_an_update(&[]), after_an_update(&["policy.entropy=0.1"]));
    assert_ne!(without, with);
    // A fresh policy has ln(2 pi e) / 2 - 0.5 = 0.9189 per action.
    assert_eq!(after_an_update(&["policy.entropy=0.1", "policy.entropy_below=0.918"]), without);
    assert_eq!(after_an_update(&["policy.entropy=0.1", "policy.entropy_below=0.92"]), with);
    // PointGoal's actions have two components.
    assert_eq!(after_an_update(&["policy.entropy=0.2", "policy.entropy_mean=true"]), with);
}
