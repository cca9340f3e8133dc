//! The losses are the paper's, and their gradients are their derivatives.

use crate::problem::{EPSILON, Head, Problem, first_gradient};
use crate::util::{Given, Script, float_bits, on_threads, small};
use p3o::Learner;
use p3o::algo::p3o::{cost_term, loss, reward_term};
use p3o_env::ActionSpace;

const HEADS: [Head; 3] = Head::ALL;

/// Distances of the L_C_i from zero: no constraint, one and two, over and under the limit, far and near.
const GATES: [&[f64]; 9] =
    [&[], &[0.5], &[0.01], &[-0.01], &[-0.5], &[0.5, 0.3], &[0.5, -0.3], &[-0.01, 0.01], &[-0.5, -0.3]];

#[test]
fn terms_match_hand_worked_values() {
    // With eps = 0.2 the clipped ratios are 1.2 and 0.8. In the order (ratio, advantage):
    // (1.5,  2): r A =  3, c A =  2.4   min is c A: L_R term -2.4, flat.   max is r A: cost term  3,   slope  r A.
    // (1.5, -2): r A = -3, c A = -2.4   min is r A: L_R term  3,  -r A.    max is c A: cost term -2.4, flat.
    // (0.5,  2): r A =  1, c A =  1.6   min is r A: L_R term -1,  -r A.    max is c A: cost term  1.6, flat.
    // (0.5, -2): r A = -1, c A = -1.6   min is c A: L_R term  1.6, flat.   max is r A: cost term -1,   slope  r A.
    // (1.1,  2): r A =  c A = 2.2       both unclipped.
    let cases = [
        (1.5, 2.0, (-2.4, 0.0), (3.0, 3.0)),
        (1.5, -2.0, (3.0, 3.0), (-2.4, 0.0)),
        (0.5, 2.0, (-1.0, -1.0), (1.6, 0.0)),
        (0.5, -2.0, (1.6, 0.0), (-1.0, -1.0)),
        (1.1, 2.0, (-2.2, -2.2), (2.2, 2.2)),
        (1.1, -2.0, (2.2, 2.2), (-2.2, -2.2)),
        (1.5, 0.0, (0.0, 0.0), (0.0, 0.0)),
    ];
    let near = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).abs() < 1e-12 && (a.1 - b.1).abs() < 1e-12;
    for (ratio, adv, reward, cost) in cases {
        assert!(near(reward_term(ratio, adv, 0.2), reward), "L_R at {ratio}, {adv}");
        assert!(near(cost_term(ratio, adv, 0.2), cost), "L_C at {ratio}, {adv}");
    }
}

#[test]
fn weights_are_slopes_in_the_log_ratio() {
    let edges = [1.0 - EPSILON, 1.0 + EPSILON];
    let near_edges = edges.iter().flat_map(|e| [e - 1e-3, e - 1e-4, e + 1e-4, e + 1e-3]);
    let ratios: Vec<f64> = near_edges.chain([0.3, 0.9, 1.0, 1.1, 2.5]).collect();
    // Twice the step is 2e-5, which keeps the differences on their side of an edge.
    let h = 1e-5;
    for (name, term) in [("L_R", reward_term::<f64> as fn(f64, f64, f64) -> (f64, f64)), ("L_C", cost_term)] {
        let (mut flat, mut steep) = (0, 0);
        for &ratio in &ratios {
            for adv in [-1.7, -0.4, 0.4, 1.7] {
                let f = |by: f64| term((ratio.ln() + by).exp(), adv, EPSILON).0;
                let difference = (8.0 * (f(h) - f(-h)) - (f(2.0 * h) - f(-2.0 * h))) / (12.0 * h);
                let weight = term(ratio, adv, EPSILON).1;
                let error = (difference - weight).abs();
                assert!(error <= 1e-6 * weight.abs(), "{name} at {ratio}, {adv}: {weight} is not {difference}");
                *(if weight == 0.0 { &mut flat } else { &mut steep }) += 1;
            }
        }
        // Of 13 ratios 3 are beyond the edge that counts for a positive advantage and 3 beyond that for a negative one;
        // with two advantages of each sign 12 of the 52 points are flat.
        assert_eq!((flat, steep), (12, 40), "{name}");
    }
}

#[test]
fn only_constraints_over_their_limit_are_penalised() {
    // L_C_1 = 0.3 + 0.1 = 0.4 and L_C_2 = -0.4 + 0.2 = -0.2: L = -0.5 + 20 (0.4 + 0) = 7.5.
    assert!((loss(&[-0.5, 0.3, -0.4], &[0.1, 0.2], 20.0) - 7.5).abs() < 1e-12);
    // Both over: -0.5 + 20 (0.4 + 0.6) = 19.5. Both under: L_R alone. None at all: L_R alone.
    assert!((loss(&[-0.5, 0.3, -0.4], &[0.1, 1.0], 20.0) - 19.5).abs() < 1e-12);
    assert_eq!(loss(&[-0.5, 0.3, -0.4], &[-0.4, 0.3], 20.0), -0.5);
    assert_eq!(loss(&[-0.5], &[], 20.0), -0.5);
}

#[test]
fn the_gradient_is_the_derivative_of_the_penalised_loss() {
    for head in HEADS {
        for (case, distances) in GATES.iter().enumerate() {
            let mut problem = Problem::new(head, 90, distances.len(), 7 + case as u64);
            problem.place(distances);
            problem.entropy = if case % 2 == 0 { 0.0 } else { 0.05 };
            assert_eq!(problem.gates(), distances.iter().map(|d| *d > 0.0).collect::<Vec<_>>());
            let (gradient, differences) = (problem.gradient(), problem.differences(5e-5));
            let largest = gradient.iter().fold(0.0, |m: f64, g| m.max(g.abs()));
            for (i, (g, d)) in gradient.iter().zip(&differences).enumerate() {
                let error = (g - d).abs() / g.abs().max(1e-3 * largest);
                assert!(error <= 1e-6, "{head:?} {distances:?}, parameter {i}: {g} is not {d} ({error:e})");
            }
        }
    }
}

#[test]
fn a_pass_of_the_trainer_has_that_gradient_and_those_means() {
    for head in HEADS {
        for (case, distances) in GATES.iter().enumerate() {
            // Three tiles, the last one partial.
            let mut problem = Problem::new(head, 300, distances.len(), 70 + case as u64);
            problem.place(distances);
            problem.entropy = if case % 2 == 0 { 0.0 } else { 0.05 };
            let mut bench = problem.bench();
            let report = bench.update(&problem.config("p3o", &[]));
            let (ours, exact) = (first_gradient(bench.policy()), problem.gradient());
            let largest = exact.iter().fold(0.0, |m: f64, g| m.max(g.abs()));
            let worst = ours.iter().zip(&exact).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs() / largest));
            assert!(worst <= 4e-6, "{head:?} {distances:?}: off by {worst:e} of the largest entry");
            let terms = problem.terms();
            let figures = std::iter::once((report.loss_r, terms[0]))
                .chain(report.loss_c.iter().copied().zip(terms[1..].iter().copied()))
                .chain([(report.kl, problem.kl())]);
            for (a, b) in figures {
                assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{head:?} {distances:?}: {a} is not {b}");
            }
            assert!((report.loss - loss(&terms, &problem.offsets, problem.kappa)).abs() <= 2e-5 * report.loss.abs());
            assert_eq!((report.steps, report.penalized.len()), (1, distances.len()));
            for (share, distance) in report.penalized.iter().zip(*distances) {
                assert_eq!(*share, if *distance > 0.0 { 1.0 } else { 0.0 });
            }
        }
    }
}

#[test]
fn without_constraints_p3o_is_ppo() {
    let play = |step: usize, action: &[f32]| Given {
        obs: vec![step as f32 * 0.1, action[0]],
        reward: action[0],
        costs: vec![action[0].abs()],
        terminated: step == 7,
        truncated: false,
    };
    let world = Script::new(ActionSpace::Continuous { dim: 1 }, &["risk"], 7, vec![0.0, 0.0], play);
    let train = |algo: &str, limited: bool| {
        let mut config = small(algo, &world.spec, &["limits.risk=0.5"]);
        if !limited {
            config.limits.clear();
        }
        on_threads(1, || {
            let mut learner = Learner::new(config, &world.maker()).unwrap();
            let mut report = (0..3).map(|_| learner.update().unwrap()).last().unwrap();
            (report.rollout_ms, report.update_ms) = (0.0, 0.0);
            // PPO has none.
            report.passes.kappa = 0.0;
            (report, float_bits(learner.policy().net.params()), float_bits(&learner.policy().log_std))
        })
    };
    let (ppo, free, bound) = (train("ppo", true), train("p3o", false), train("p3o", true));
    assert_eq!(ppo, free);
    // Were the costs ignored in any case, the line above would prove nothing.
    assert_ne!(ppo.1, bound.1);
}
