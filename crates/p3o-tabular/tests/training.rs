//! The real trainer on CMDPs whose best policy is known. What it learns is evaluated exactly, not by episodes.

use p3o::{Algorithm, Config};
use p3o_tabular::instances::{self, Known};
use p3o_tabular::training::Schedule;
use p3o_tabular::{Evaluation, training};
use rayon::prelude::*;

/// The instances, by their letters, that each algorithm must solve; P3O solves the grid E as well, below. CPO and PCPO can
/// keep one limit only. C has gamma 0.9 here: at 0.99 few episodes end in a batch. C says little about the return: a policy
/// that never takes the fast way still earns 0.973 of the optimum, and FOCOPS, at 0.05 to 0.54 of the limit, earns 0.974.
///
/// Left out, with the figures of seeds 0 to 4 as shares of the optimum and of the limits:
///
/// * PPO-Lagrangian on C (cost 1.14 to 1.36) and on E (return 0.35 at most);
/// * FOCOPS on E (return 0.60 to 0.82, cost up to 1.40);
/// * IPO on D (return 0.94 to 0.96 at full cost) and on E (no return);
/// * TRPO-Lagrangian, whose steps have the size of the trust region however small the gain: costs of 0.79 to 1.13 on A, up
///   to 1.30 on B, returns of 0.79 to 0.96 on D. On C it is within the tolerance, at 0.71 to 0.81 of the limit.
const SOLVED: &[(Algorithm, &str)] = &[
    (Algorithm::P3o, "ABCD"),
    (Algorithm::PpoLag, "ABD"),
    (Algorithm::Focops, "ABCD"),
    (Algorithm::Ipo, "ABC"),
    (Algorithm::Cpo, "ACD"),
    (Algorithm::Pcpo, "ACD"),
];

const SEEDS: u64 = 5;

/// How far return and costs may be off, as a share.
const TOLERANCE: f64 = 0.03;

/// The instances whose episodes are short enough to be learnt in a second, in units of their prices.
fn small() -> Vec<Known> {
    let all = [instances::dial(), instances::two_dials(), instances::detour_at(0.9), instances::switch()];
    all.iter().map(training::in_its_price).collect()
}

/// What an algorithm makes of an instance. P3O's kappa is twice the largest multiplier, which is 1.
fn trained(known: &Known, algorithm: Algorithm, seed: u64) -> Evaluation {
    let (config, schedule) = training::recipe(&known.cmdp, algorithm, seed).unwrap();
    run(known, config, &schedule)
}

/// What P3O makes of an instance with another kappa.
fn trained_with(known: &Known, kappa: f64) -> Evaluation {
    let (mut config, schedule) = training::recipe(&known.cmdp, Algorithm::P3o, 0).unwrap();
    config.set(&format!("p3o.kappa={kappa}")).unwrap();
    run(known, config, &schedule)
}

fn run(known: &Known, config: Config, schedule: &Schedule) -> Evaluation {
    // The batches are too small to share out; the runs themselves go side by side.
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    known.cmdp.evaluate(&one_thread.install(|| training::train(&known.cmdp, config, schedule)).unwrap())
}

/// What is wrong with a result, if anything.
fn verdict(known: &Known, e: &Evaluation) -> Option<String> {
    let (earned, costs) = (e.reward.total / known.optimum, shares(known, e));
    let good = earned >= 1.0 - TOLERANCE && costs.iter().all(|c| *c <= 1.0 + TOLERANCE);
    (!good).then(|| format!("{earned:.3} of the optimum at {costs:.3?} of the limits"))
}

/// Costs as shares of their limits.
fn shares(known: &Known, e: &Evaluation) -> Vec<f64> {
    e.cost_totals().iter().zip(&known.cmdp.limits).map(|(cost, limit)| cost / limit).collect()
}

#[test]
fn every_algorithm_has_a_recipe() {
    let known = training::in_its_price(&instances::dial());
    for &algorithm in Algorithm::ALL {
        let (config, _) = training::recipe(&known.cmdp, algorithm, 3).unwrap();
        assert_eq!((config.algorithm(), config.run.seed, config.rollout.gamma), (algorithm, 3, 0.9));
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn the_best_policy_within_the_limits_is_found() {
    let small = small();
    let solved = |known: &Known, instances: &str| instances.contains(&known.cmdp.name);
    let pairs = small.iter().flat_map(|known| {
        let algorithms = SOLVED.iter().filter(move |(_, instances)| solved(known, instances));
        algorithms.map(move |(algorithm, _)| (known, *algorithm))
    });
    let runs: Vec<(&Known, Algorithm, u64)> =
        pairs.flat_map(|(known, algorithm)| (0..SEEDS).map(move |seed| (known, algorithm, seed))).collect();
    let wrong: Vec<String> = runs
        .into_par_iter()
        .filter_map(|(known, algorithm, seed)| {
            let found = verdict(known, &trained(known, algorithm, seed))?;
            Some(format!("{}, {algorithm}, seed {seed}: {found}", known.cmdp.name))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("; "));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn a_penalty_below_the_largest_multiplier_breaks_a_limit() {
    // Above it none is broken: the test before this one has twice the largest multiplier.
    small().par_iter().for_each(|known| {
        let costs = shares(known, &trained_with(known, 0.7));
        assert!(costs.iter().any(|c| *c > 1.5), "{}: {costs:?} of the limits", known.cmdp.name);
    });
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn a_penalty_between_two_multipliers_keeps_one_limit_of_two() {
    // B has the multipliers 2/3 and 1. With kappa 5/6 all that the first limit leaves goes to the second cost: 7 of 4.
    let known = training::in_its_price(&instances::two_dials());
    let costs = trained_with(&known, 5.0 / 6.0).cost_totals();
    assert!((costs[0] - 3.0).abs() < 0.15 * 3.0 && costs[1] > 6.0, "{costs:?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn the_grid_of_two_limits_is_solved() {
    let known = training::in_its_price(&instances::grid());
    let wrong: Vec<String> = (0..SEEDS)
        .into_par_iter()
        .filter_map(|seed| {
            let config = training::grid_config(&known.cmdp, Algorithm::P3o, seed).unwrap();
            verdict(&known, &run(&known, config, &Schedule::PATIENT)).map(|found| format!("seed {seed}: {found}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("; "));
}
