//! Policies are evaluated exactly.

use p3o_tabular::instances::{self, random_policy};
use p3o_tabular::{Cmdp, Evaluation, Values};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance, "{a} is not {b}");
}

fn signals(e: &Evaluation) -> Vec<&Values> {
    std::iter::once(&e.reward).chain(&e.costs).collect()
}

fn cmdps() -> Vec<Cmdp> {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut all: Vec<Cmdp> = instances::all().into_iter().map(|known| known.cmdp).collect();
    all.extend((1..=3).map(|costs| instances::random(costs, &mut rng)));
    all
}

#[test]
fn two_states_by_hand() {
    // D under "always action 1": s0 earns nothing, s1 earns 2 and costs 1 for ever, so with gamma 0.9
    // V(s1) = 2 / 0.1 = 20, V(s0) = 0.9 * 20 = 18; half as much for the cost. A tenth of the time is spent in s0.
    let d = instances::switch().cmdp;
    let e = d.evaluate(&[0.0, 1.0, 0.0, 1.0]);
    close(e.reward.total, 18.0, 1e-12);
    close(e.costs[0].total, 9.0, 1e-12);
    close(e.visits[0], 0.1, 1e-14);
    // Q(s1, 0) = 1 + 0.9 V(s0) = 17.2, so A = -2.8; Q(s0, 0) = 0.9 * 18 = 16.2, so A = -1.8.
    for (found, expected) in e.reward.advantage.iter().zip([-1.8, 0.0, -2.8, 0.0]) {
        close(*found, expected, 1e-12);
    }
}

#[test]
fn one_state_by_formula() {
    // B with shares (0.5, 0.2, 0.3) of ten steps: 10 (0.4 + 0.9) = 13, and costs 2 and 3.
    let e = instances::two_dials().cmdp.evaluate(&[0.5, 0.2, 0.3]);
    close(e.reward.total, 13.0, 1e-12);
    close(e.costs[0].total, 2.0, 1e-12);
    close(e.costs[1].total, 3.0, 1e-12);
}

#[test]
fn values_satisfy_bellmans_equations_and_visits_the_flow() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for cmdp in cmdps() {
        let policy = random_policy(&cmdp, &mut rng);
        let e = cmdp.evaluate(&policy);
        close(e.visits.iter().sum(), 1.0, 1e-12);
        for (values, table) in signals(&e).into_iter().zip(std::iter::once(&cmdp.reward).chain(&cmdp.costs)) {
            // The occupancy and V are two ways to J.
            let occupancy = cmdp.occupancy_of(&policy);
            let total: f64 = occupancy.iter().zip(table).map(|(rho, x)| rho * x).sum();
            close(total / (1.0 - cmdp.gamma), values.total, 1e-10);
            cmdp.mean(&policy, &values.q).iter().zip(&values.v).for_each(|(q, v)| close(*q, *v, 1e-11));
            cmdp.mean(&policy, &values.advantage).iter().for_each(|a| close(*a, 0.0, 1e-11));
        }
    }
}

#[test]
fn the_papers_losses_are_differences_of_totals_for_any_old_policy() {
    // L_R = -(1-gamma)(J_R(pi) - J_R(pi_k)) and L_C + (1-gamma)(J_C(pi_k) - d) = (1-gamma)(J_C(pi) - d), with the left sides
    // as the paper writes them: E over s ~ d^pi and a ~ pi_k of r A^{pi_k}, r = pi / pi_k.
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for cmdp in cmdps() {
        for _ in 0..10 {
            let (old, new) = (random_policy(&cmdp, &mut rng), random_policy(&cmdp, &mut rng));
            let (k, pi) = (cmdp.evaluate(&old), cmdp.evaluate(&new));
            for (at_k, at_pi) in signals(&k).into_iter().zip(signals(&pi)) {
                let weighted = old.iter().zip(&new).zip(&at_k.advantage).enumerate();
                let mean: f64 =
                    weighted.map(|(i, ((old, new), a))| pi.visits[i / cmdp.actions] * old * (new / old) * a).sum();
                close(mean, (1.0 - cmdp.gamma) * (at_pi.total - at_k.total), 1e-9);
            }
        }
    }
}

#[test]
fn occupancies_and_policies_are_each_others_inverse() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for cmdp in cmdps().into_iter().filter(|c| c.name == "random") {
        let policy = random_policy(&cmdp, &mut rng);
        let back = cmdp.policy_of(&cmdp.occupancy_of(&policy));
        policy.iter().zip(&back).for_each(|(p, q)| close(*p, *q, 1e-12));
    }
    // A state that is never visited has no policy of its own.
    assert_eq!(instances::switch().cmdp.policy_of(&[0.0, 0.0, 0.25, 0.75]), [0.5, 0.5, 0.25, 0.75]);
}
