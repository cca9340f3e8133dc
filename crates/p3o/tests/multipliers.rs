//! Multipliers follow the cost of an episode over its limit.

use crate::problem::{Head, Problem};
use p3o::algo::multiplier::Multiplier;

const RATE: f64 = 0.05;
const MAX: f64 = 1.5;

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-6, "{a} is not {b}");
}

#[test]
fn adam_on_the_softplus_by_hand() {
    // softplus(p) = 1 for p = ln(e - 1) = 0.5413249. The first step of Adam is one learning rate, whatever the excess.
    // Over the limit: p = 0.5913249, nu = ln(1 + e^p) = ln(1 + 1.8063800) = 1.0318954. Under it: p = 0.4913249,
    // nu = ln(1 + 1.6344802) = 0.9686859.
    for (excess, expected) in [(4.0, 1.031_895_4), (400.0, 1.031_895_4), (-4.0, 0.968_685_9), (0.0, 1.0)] {
        let mut multiplier = Multiplier::new(1.0);
        multiplier.step_adam(excess, RATE, MAX);
        close(multiplier.nu, expected);
    }
    // An excess of 4, then one of -2: slopes -4 and 2. Moments: m = -0.4, then 0.9 * -0.4 + 0.1 * 2 = -0.16; v = 0.016, then
    // 0.999 * 0.016 + 0.001 * 4 = 0.019984. Corrected: -0.16 / 0.19 = -0.8421053 and 0.019984 / 0.001999 = 9.9969985, of
    // root 3.1618031. So p = 0.5913249 + 0.05 * 0.8421053 / 3.1618031 = 0.6046417, nu = ln(1 + 1.8305962) = 1.0404874.
    let mut multiplier = Multiplier::new(1.0);
    multiplier.step_adam(4.0, RATE, MAX);
    multiplier.step_adam(-2.0, RATE, MAX);
    close(multiplier.nu, 1.040_487_4);
}

#[test]
fn the_softplus_keeps_multipliers_positive_and_the_bound_holds() {
    let mut multiplier = Multiplier::new(1.0);
    (0..400).for_each(|_| multiplier.step_adam(-10.0, RATE, MAX));
    assert!(multiplier.nu > 0.0 && multiplier.nu < 1e-6, "{}", multiplier.nu);
    let mut multiplier = Multiplier::new(1.0);
    (0..400).for_each(|_| multiplier.step_adam(10.0, RATE, MAX));
    assert_eq!(multiplier.nu, 1.5);
    // Far up the softplus is the identity; far down nearly zero.
    for (first, expected) in [(0.0, 0.0), (1e-3, 1e-3), (40.0, 40.0), (1000.0, 1000.0)] {
        let mut multiplier = Multiplier::new(first);
        multiplier.step_adam(0.0, RATE, 1e6);
        close(multiplier.nu, expected);
    }
}

#[test]
fn the_projected_step_by_hand() {
    // 1 + 0.05 * 4 = 1.2; 1.2 + 0.05 * 8 = 1.6 is cut to 1.5; 1.5 - 0.05 * 20 = 0.5; 0.5 - 1 is cut to 0; and back up.
    let mut multiplier = Multiplier::new(1.0);
    for (excess, expected) in [(4.0, 1.2), (8.0, 1.5), (-20.0, 0.5), (-20.0, 0.0), (2.0, 0.1)] {
        multiplier.step_projected(excess, RATE, MAX);
        assert!((multiplier.nu - expected).abs() < 1e-12, "{} is not {expected}", multiplier.nu);
    }
}

#[test]
fn an_update_moves_each_multiplier_by_its_own_excess_before_the_policy() {
    let mut problem = Problem::new(Head::Gaussian, 90, 2, 6).at_home();
    problem.excess = vec![3.0, -3.0];
    for algo in ["ppo-lag", "trpo-lag", "focops"] {
        let config = problem.config(algo, &[&format!("{algo}.multiplier_max=1.5")]);
        let mut multipliers = vec![Multiplier::new(1.0); 2];
        let report = problem.bench().update_by(&config, &mut multipliers);
        let nu: Vec<f64> = multipliers.iter().map(|m| m.nu).collect();
        // The values above for the first step of Adam, and 1 +- 0.05 * 3.
        let expected = if algo == "focops" { [1.15, 0.85] } else { [1.031_895_4, 0.968_685_9] };
        nu.iter().zip(expected).for_each(|(a, b)| close(*a, b));
        assert_eq!(report.multipliers, nu, "{algo}");
        let figures = config.algorithm().columns().iter().flat_map(|column| column.figures(&report, &["a", "b"]));
        let expected = [("multiplier_a".to_string(), nu[0]), ("multiplier_b".to_string(), nu[1])];
        assert_eq!(figures.take(2).collect::<Vec<_>>(), expected, "{algo}");
    }
}

#[test]
fn a_relative_multiplier_moves_by_the_share_of_its_limit() {
    let mut problem = Problem::new(Head::Gaussian, 90, 2, 6).at_home();
    problem.excess = vec![3.0, -3.0];
    let mut multipliers = vec![Multiplier::new(1.0); 2];
    problem.bench().update_by(&problem.config("focops", &["focops.multiplier_relative=true"]), &mut multipliers);
    // Limits are 2: 1 +- 0.05 * 3 / 2.
    multipliers.iter().zip([1.075, 0.925]).for_each(|(multiplier, expected)| close(multiplier.nu, expected));
}
