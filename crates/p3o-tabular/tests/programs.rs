//! The programs find the known optima, with multipliers that are slopes, and prove them by their duals.

use p3o_tabular::instances::{self, Known};
use p3o_tabular::{Cmdp, lp};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn close(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found} is not {expected}");
}

fn random(count: usize) -> Vec<Cmdp> {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    (0..count).map(|i| instances::random(1 + i % 3, &mut rng)).collect()
}

#[test]
fn the_known_optima_and_multipliers_are_found() {
    for Known { cmdp, optimum, multipliers } in instances::all() {
        let best = lp::constrained(&cmdp).unwrap();
        let what = format!("{} ", cmdp.name);
        close(&(what.clone() + "J*"), best.value, optimum, 1e-9);
        for (found, expected) in best.multipliers.iter().zip(&multipliers) {
            close(&(what.clone() + "lambda"), *found, *expected, 1e-8);
        }
        // The policy itself has that return and meets its limits, all of which bind.
        let e = cmdp.evaluate(&best.policy);
        close(&(what.clone() + "J of the policy"), e.reward.total, optimum, 1e-8);
        for (cost, limit) in e.cost_totals().iter().zip(&cmdp.limits) {
            close(&(what.clone() + "cost"), *cost, *limit, 1e-8);
        }
    }
}

#[test]
fn the_best_policies_are_those_worked_out_by_hand() {
    let policy = |known: Known| lp::constrained(&known.cmdp).unwrap().policy;
    let check = |found: &[f64], expected: &[f64]| {
        found.iter().zip(expected).for_each(|(p, q)| close("probability", *p, *q, 1e-8));
    };
    check(&policy(instances::dial()), &[0.7, 0.3]);
    check(&policy(instances::two_dials()), &[0.3, 0.3, 0.4]);
    // The fast way as often as the limit allows.
    check(&policy(instances::detour())[..2], &[0.75, 0.25]);
    // pi(1 | s0) = 1, pi(1 | s1) = 38/63.
    check(&policy(instances::switch()), &[0.0, 1.0, 25.0 / 63.0, 38.0 / 63.0]);
}

#[test]
fn the_optimum_of_the_switch_is_linear_in_its_limit() {
    for limit in [0.0, 1.0, 2.5, 6.0, 9.0] {
        let mut cmdp = instances::switch().cmdp;
        cmdp.limits = vec![limit];
        close("J*", lp::constrained(&cmdp).unwrap().value, (90.0 + 28.0 * limit) / 19.0, 1e-9);
    }
}

#[test]
fn without_limits_the_known_values_are_reached() {
    let free = |known: Known| {
        let best = lp::unconstrained(&known.cmdp).unwrap();
        (best.value, known.cmdp.evaluate(&best.policy).cost_totals())
    };
    let (j, costs) = free(instances::switch());
    close("D", j, 18.0, 1e-9);
    close("D's cost", costs[0], 9.0, 1e-8);
    let (j, _) = free(instances::grid());
    close("E", j, 0.7229764997, 1e-9);
    // Many paths of the grid are equally short, so costs differ between best policies. These belong to one of them: limits
    // there take nothing away.
    let mut cmdp = instances::grid().cmdp;
    cmdp.limits = vec![1.0986170566, 0.2038572779];
    close("E within the costs of one of its best policies", lp::constrained(&cmdp).unwrap().value, j, 1e-8);
}

#[test]
fn the_grid_is_the_recorded_one() {
    let text = include_str!("vectors/cmdp.json");
    let recorded = &serde_json::from_str::<serde_json::Value>(text).unwrap()["E"];
    fn flat(value: &serde_json::Value) -> Vec<f64> {
        value.as_array().map_or_else(|| vec![value.as_f64().unwrap()], |all| all.iter().flat_map(flat).collect())
    }
    let cmdp = instances::grid().cmdp;
    let all_close = |what: &str, found: &[f64], expected: Vec<f64>, tolerance: f64| {
        assert_eq!(found.len(), expected.len(), "{what}");
        found.iter().zip(&expected).for_each(|(a, b)| close(what, *a, *b, tolerance));
    };
    all_close("P", &cmdp.transitions, flat(&recorded["P"]), 1e-15);
    all_close("r", &cmdp.reward, flat(&recorded["r"]), 1e-15);
    all_close("C", &cmdp.costs.concat(), flat(&recorded["C"]), 1e-15);
    all_close("mu", &cmdp.start, flat(&recorded["mu"]), 0.0);
    all_close("d", &cmdp.limits, flat(&recorded["d"]), 0.0);
    all_close("gamma", &[cmdp.gamma], flat(&recorded["gamma"]), 0.0);
    let best = lp::constrained(&cmdp).unwrap();
    all_close("J_R", &[best.value], flat(&recorded["J_R"]), 1e-9);
    all_close("lambda", &best.multipliers, flat(&recorded["lam"]), 1e-8);
    // Whatever is done in the goal comes to the same; elsewhere the best policy is the only one.
    let recorded_rho = flat(&recorded["rho"]);
    all_close("rho", &best.occupancy[..60], recorded_rho[..60].to_vec(), 1e-8);
    close("rho of the goal", best.occupancy[60..].iter().sum(), recorded_rho[60..].iter().sum(), 1e-8);
    let free = lp::unconstrained(&cmdp).unwrap();
    all_close("unconstrained J", &[free.value], flat(&recorded["unconstrained_J"]), 1e-9);
}

#[test]
fn the_grid_with_wider_limits() {
    let mut cmdp = instances::grid().cmdp;
    cmdp.limits = vec![0.2, 0.2];
    let best = lp::constrained(&cmdp).unwrap();
    close("J*", best.value, 0.5960025053, 1e-9);
    close("lambda 1", best.multipliers[0], 1.2329684179, 1e-8);
    close("lambda 2", best.multipliers[1], 0.2432167698, 1e-8);
}

#[test]
fn multipliers_are_the_slopes_of_the_optimum() {
    let known = instances::all().into_iter().map(|known| known.cmdp);
    for cmdp in known.chain(random(6)) {
        let multipliers = lp::constrained(&cmdp).unwrap().multipliers;
        for (i, lambda) in multipliers.iter().enumerate() {
            let step = 1e-4 * cmdp.limits[i];
            let at = |step: f64| {
                let mut moved = cmdp.clone();
                moved.limits[i] += step;
                lp::constrained(&moved).unwrap().value
            };
            // J* is piecewise linear, so within a piece the difference is exact.
            close(&format!("{} lambda {i}", cmdp.name), (at(step) - at(-step)) / (2.0 * step), *lambda, 1e-5);
        }
    }
}

#[test]
fn the_dual_proves_every_optimum() {
    let known = instances::all().into_iter().map(|known| known.cmdp);
    for cmdp in known.chain(random(20)) {
        let best = lp::constrained(&cmdp).unwrap();
        close("dual value", best.dual_value, best.value, 1e-9);
        // The dual program, written out: V(s) >= r - lambda c + gamma E V for all s and a, and mu.V + lambda.d is the value.
        // The flow's multipliers are those of rho(s) = (1-gamma) mu(s) + ..., so V is they times 1 - gamma.
        let v: Vec<f64> = best.prices.iter().map(|y| y * (1.0 - cmdp.gamma)).collect();
        let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        close("mu.V + lambda.d", sum(&cmdp.start, &v) + sum(&best.multipliers, &cmdp.limits), best.value, 1e-8);
        assert!(best.multipliers.iter().all(|&x| x > -1e-12));
        for (s, v_s) in v.iter().enumerate() {
            for a in 0..cmdp.actions {
                let at = s * cmdp.actions + a;
                let cost: f64 = best.multipliers.iter().zip(&cmdp.costs).map(|(lambda, c)| lambda * c[at]).sum();
                let worth = cmdp.reward[at] - cost + cmdp.gamma * sum(cmdp.next(s, a), &v);
                assert!(*v_s >= worth - 1e-7, "{} ({s}, {a}): {v_s} < {worth}", cmdp.name);
            }
        }
    }
}

#[test]
fn penalised_optima_on_both_sides_of_the_threshold() {
    let at = |known: Known, kappa: f64| {
        let best = lp::penalized(&known.cmdp, kappa).unwrap();
        let e = known.cmdp.evaluate(&best.policy);
        (e.reward.total, e.cost_totals())
    };
    let (j, costs) = at(instances::switch(), 1.47);
    close("D below", j, 18.0, 1e-6);
    close("D's cost below", costs[0], 9.0, 1e-6);
    let (j, costs) = at(instances::switch(), 1.4737);
    close("D above", j, 202.0 / 19.0, 1e-6);
    close("D's cost above", costs[0], 4.0, 1e-6);
    // Between the multipliers 2 and 3 of B only the second limit is broken: all steps that the first leaves go there.
    let (_, costs) = at(instances::two_dials(), 2.5);
    close("B's first cost", costs[0], 3.0, 1e-6);
    close("B's second cost", costs[1], 7.0, 1e-6);
    let (_, costs) = at(instances::grid(), 2.09);
    close("E's first cost below", costs[0], 0.1265, 1e-4);
    close("E's second cost below", costs[1], 0.1, 1e-6);
    let (j, costs) = at(instances::grid(), 2.095);
    close("E above", j, instances::grid().optimum, 1e-6);
    costs.iter().for_each(|c| close("E's cost above", *c, 0.1, 1e-6));
}

#[test]
fn limits_that_nobody_can_keep_are_said_to_be_so() {
    let mut cmdp = instances::dial().cmdp;
    cmdp.limits = vec![-1.0];
    let error = lp::constrained(&cmdp).unwrap_err().to_string();
    assert!(error.contains("program of A has no solution"), "{error}");
    assert!(lp::penalized(&cmdp, 1.0).is_ok());
}

#[test]
fn random_cmdps_depend_on_the_seed_alone_and_their_limits_bind() {
    assert_eq!(random(4), random(4));
    for cmdp in random(6) {
        let free = lp::unconstrained(&cmdp).unwrap();
        assert!(lp::constrained(&cmdp).unwrap().value < free.value - 1e-6);
        cmdp.transitions.chunks(cmdp.states).for_each(|row| close("P", row.iter().sum(), 1.0, 1e-12));
    }
}
