//! The losses of PPO-L, FOCOPS and IPO are theirs, and their gradients are the derivatives.

use crate::problem::{EPSILON, Gradient, Head, Problem, first_gradient};
use p3o::algo::multiplier::Multiplier;
use p3o::algo::p3o::reward_term;
use p3o::algo::{focops, ipo, ppo_lag};

const HEADS: [Head; 3] = Head::ALL;
const LAMBDA: f64 = 1.5;
const BARRIER: f64 = 20.0;

/// To 1e-6 of each entry, or of a thousandth of the largest.
fn check_derivative(what: &str, gradient: &Gradient, differences: &Gradient) {
    let largest = gradient.iter().fold(0.0, |m: f64, g| m.max(g.abs()));
    assert!(largest > 1e-3, "{what}: a gradient of zero proves nothing");
    for (i, (g, d)) in gradient.iter().zip(differences).enumerate() {
        let error = (g - d).abs() / g.abs().max(1e-3 * largest);
        assert!(error <= 1e-6, "{what}, parameter {i}: {g} is not {d} ({error:e})");
    }
}

/// The trainer's first gradient, in f32, against that in f64.
fn check_trainer(what: &str, ours: &Gradient, exact: &Gradient) {
    let largest = exact.iter().fold(0.0, |m: f64, g| m.max(g.abs()));
    let worst = ours.iter().zip(exact).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs() / largest));
    assert!(worst <= 4e-6, "{what}: off by {worst:e} of the largest entry");
}

fn near(what: &str, a: f64, b: f64) {
    assert!((a - b).abs() <= 2e-6 * b.abs().max(1.0), "{what}: {a} is not {b}");
}

fn mean_of(problem: &Problem, term: impl Fn(usize, f64, f64) -> f64) -> f64 {
    let samples = problem.ratios().into_iter().zip(problem.kls()).enumerate();
    samples.map(|(row, (ratio, kl))| term(row, ratio, kl)).sum::<f64>() / problem.len() as f64
}

fn prices(nu: &[f64]) -> Vec<Multiplier> {
    nu.iter().map(|&nu| Multiplier::new(nu)).collect()
}

#[test]
fn ppo_lag_has_the_gradient_of_its_loss() {
    for head in HEADS {
        for (case, nu) in [&[][..], &[0.05], &[1.0], &[3.0], &[0.5, 2.0]].into_iter().enumerate() {
            let what = format!("{head:?} {nu:?}");
            let mut problem = Problem::new(head, 90, nu.len(), 100 + case as u64);
            problem.entropy = if case % 2 == 0 { 0.0 } else { 0.05 };
            // The loss as PPO-L is defined: (L_R + sum nu mean(r A_C)) / (1 + sum nu).
            let loss = |p: &Problem| {
                let costs = nu.iter().zip(&p.adv_c).map(|(nu, adv)| nu * p.surrogate(adv)).sum::<f64>();
                (p.terms()[0] + costs) / (1.0 + nu.iter().sum::<f64>())
            };
            let (x_r, x_c) = ppo_lag::shares(nu);
            let exact = problem.gradient_by(|row, ratio| {
                let costs = problem.adv_c.iter().zip(&x_c).map(|(adv, x)| x * ratio * adv[row]).sum::<f64>();
                (x_r * reward_term(ratio, problem.adv_r[row], EPSILON).1 + costs, 0.0)
            });
            check_derivative(&what, &exact, &problem.differences_of(5e-5, |p| loss(p) - p.entropy_bonus()));
            let mut bench = problem.bench();
            let report = bench.update_by(&problem.config("ppo-lag", &[]), &mut prices(nu));
            check_trainer(&what, &first_gradient(bench.policy()), &exact);
            near("loss", report.loss, loss(&problem));
            near("loss_r", report.loss_r, problem.terms()[0]);
            near("kl", report.kl, problem.kl());
            for (found, adv) in report.loss_c.iter().zip(&problem.adv_c) {
                near("loss_c", *found, problem.surrogate(adv));
            }
        }
    }
}

#[test]
fn focops_samples_by_hand() {
    // r A / lambda = 1.2 * 3 / 1.5 = 2.4. On the edge is inside; beyond it the state has no part.
    let (term, w, u) = focops::sample(1.2, 0.005, 3.0, 1.5, 0.01);
    assert!((term - (0.005 - 2.4f64)).abs() < 1e-12 && (w + 2.4f64).abs() < 1e-12 && u == 1.0);
    assert_eq!(focops::sample(1.0, 0.01, 0.0, 1.5, 0.01), (0.01, 0.0, 1.0));
    assert_eq!(focops::sample(1.2, 0.010_001, 3.0, 1.5, 0.01), (0.0, 0.0, 0.0));
}

/// A trust region whose edge is in the widest gap between the KLs of the middle third: no small step moves a state over it.
fn edge(problem: &Problem) -> f64 {
    let mut kls = problem.kls();
    kls.sort_by(f64::total_cmp);
    let gaps = kls.windows(2).skip(kls.len() / 3).take(kls.len() / 3);
    let widest = gaps.max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0]))).unwrap();
    assert!(widest[1] - widest[0] > 5e-3, "{widest:?}");
    (widest[0] + widest[1]) / 2.0
}

#[test]
fn focops_has_the_gradient_of_its_loss_on_both_sides_of_the_indicator() {
    for head in HEADS {
        for (case, nu) in [&[][..], &[1.0], &[0.5, 2.0]].into_iter().enumerate() {
            let mut problem = Problem::new(head, 90, nu.len(), 200 + case as u64);
            problem.entropy = if case % 2 == 0 { 0.0 } else { 0.05 };
            let all = problem.kls().iter().fold(0.0f64, |m, &kl| m.max(kl)) + 1.0;
            for delta in [edge(&problem), all] {
                let what = format!("{head:?} {nu:?} {delta}");
                let advantage = |p: &Problem, row: usize| {
                    p.adv_r[row] - nu.iter().zip(&p.adv_c).map(|(nu, adv)| nu * adv[row]).sum::<f64>()
                };
                // The loss as FOCOPS is defined.
                let loss = |p: &Problem| {
                    mean_of(p, |row, r, kl| if kl <= delta { kl - r * advantage(p, row) / LAMBDA } else { 0.0 })
                };
                let kls = problem.kls();
                let exact = problem.gradient_by(|row, ratio| {
                    let (_, w, u) = focops::sample(ratio, kls[row], advantage(&problem, row), LAMBDA, delta);
                    (w, u)
                });
                check_derivative(&what, &exact, &problem.differences_of(5e-5, |p| loss(p) - p.entropy_bonus()));
                let config = problem.config("focops", &[&format!("policy.target_kl={delta}")]);
                let inside = kls.iter().filter(|kl| **kl <= delta).count() as f64 / kls.len() as f64;
                let mut bench = problem.bench();
                let report = bench.update_by(&config, &mut prices(nu));
                near("loss", report.loss, loss(&problem));
                near("inside", report.inside, inside);
                near("loss_r", report.loss_r, -problem.surrogate(&problem.adv_r));
                // A mean KL beyond the edge ends the passes before the step.
                assert_eq!(report.steps, usize::from(problem.kl() <= delta), "{what}");
                if report.steps == 1 {
                    check_trainer(&what, &first_gradient(bench.policy()), &exact);
                }
            }
        }
    }
}

#[test]
fn a_state_outside_the_trust_region_does_not_move_focops() {
    // Close to home all but one state are inside; the mean is, too.
    let mut problem = Problem::new(Head::Gaussian, 90, 1, 9).at_home();
    problem.old_outputs[0] += 1.0;
    let delta = 0.02;
    assert!(problem.kl() < delta && problem.kls()[0] > delta);
    let step = |problem: &Problem| {
        let mut bench = problem.bench();
        let report = bench.update_by(&problem.config("focops", &["policy.target_kl=0.02"]), &mut prices(&[1.0]));
        (report.steps, report.inside, first_gradient(bench.policy()))
    };
    let mut other = problem.clone();
    other.adv_r[0] += 100.0;
    other.old_outputs[0] -= 0.25;
    assert_eq!(step(&problem), step(&other));
    assert!((step(&problem).1 - 89.0 / 90.0).abs() < 1e-12);
    other.adv_r[1] += 100.0;
    assert_ne!(step(&problem).2, step(&other).2);
}

#[test]
fn ipo_shares_by_hand() {
    let near = |found: (f64, Vec<f64>), expected: (f64, Vec<f64>)| {
        let pairs = found.1.iter().zip(&expected.1).chain([(&found.0, &expected.0)]);
        pairs.into_iter().for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{found:?} is not {expected:?}"));
    };
    // Slopes 1 / (20 * 0.5) = 0.1 and 1 / (20 * 0.05) = 1.
    near(ipo::shares(&[-0.5], 20.0), (1.0 / 1.1, vec![0.1 / 1.1]));
    near(ipo::shares(&[-0.5, -0.05], 20.0), (1.0 / 2.1, vec![0.1 / 2.1, 1.0 / 2.1]));
    near(ipo::shares(&[], 20.0), (1.0, vec![]));
    // On the limit there is no barrier: only the costs that are over it count.
    near(ipo::shares(&[0.0], 20.0), (0.0, vec![1.0]));
    near(ipo::shares(&[0.3, -0.5, 0.1], 20.0), (0.0, vec![0.5, 0.0, 0.5]));
    // There is no jump on the way to it.
    let (reward, cost) = ipo::shares(&[-1e-12], 20.0);
    assert!(reward < 1e-9 && (cost[0] - 1.0).abs() < 1e-9);
}

#[test]
fn ipo_has_the_gradient_of_its_loss_on_both_sides_of_the_limit() {
    let places: [&[f64]; 9] =
        [&[], &[-0.5], &[-0.02], &[0.02], &[0.5], &[-0.5, -0.2], &[-0.5, 0.3], &[0.02, -0.02], &[0.2, 0.3]];
    for head in HEADS {
        for (case, places) in places.iter().enumerate() {
            let what = format!("{head:?} {places:?}");
            let mut problem = Problem::new(head, 90, places.len(), 300 + case as u64);
            problem.entropy = if case % 2 == 0 { 0.0 } else { 0.05 };
            problem.offsets = places.iter().zip(&problem.adv_c).map(|(v, adv)| v - problem.surrogate(adv)).collect();
            let violations = |p: &Problem| -> Vec<f64> {
                p.adv_c.iter().zip(&p.offsets).map(|(adv, offset)| p.surrogate(adv) + offset).collect()
            };
            let over = places.iter().filter(|v| **v >= 0.0).count();
            let slopes: f64 = places.iter().map(|v| 1.0 / (-BARRIER * v)).sum();
            // With a barrier, L / (1 + sum of slopes); without, the mean of what is over the limit.
            let scaled = |p: &Problem| {
                let v = violations(p);
                if over > 0 {
                    return v.iter().map(|v| v.max(0.0)).sum::<f64>() / over as f64;
                }
                (p.terms()[0] - v.iter().map(|v| (-v).ln()).sum::<f64>() / BARRIER) / (1.0 + slopes)
            };
            let (x_r, x_c) = ipo::shares(places, BARRIER);
            let exact = problem.gradient_by(|row, ratio| {
                let costs = problem.adv_c.iter().zip(&x_c).map(|(adv, x)| x * ratio * adv[row]).sum::<f64>();
                (x_r * reward_term(ratio, problem.adv_r[row], EPSILON).1 + costs, 0.0)
            });
            check_derivative(&what, &exact, &problem.differences_of(5e-5, |p| scaled(p) - p.entropy_bonus()));
            let mut bench = problem.bench();
            let report = bench.update(&problem.config("ipo", &[]));
            check_trainer(&what, &first_gradient(bench.policy()), &exact);
            let expected = scaled(&problem) * if over > 0 { over as f64 } else { 1.0 + slopes };
            near("loss", report.loss, expected);
            let recovering: Vec<f64> = places.iter().map(|v| f64::from(u8::from(*v >= 0.0))).collect();
            assert_eq!(report.penalized, recovering, "{what}");
        }
    }
}

#[test]
fn without_constraints_they_are_ppo() {
    let problem = Problem::new(Head::Gaussian, 130, 0, 4).at_home();
    let train = |algo: &str| {
        let mut bench = problem.bench();
        let report = bench.update(&problem.config(algo, &["policy.passes=5"]));
        (report.steps, report.loss.to_bits(), bench.bits())
    };
    assert_eq!(train("ppo-lag"), train("ppo"));
    assert_eq!(train("ipo"), train("ppo"));
}
