//! How far a cost is over its limit is measured in the units of its advantages.

use crate::util::{Given, Script, rng, small};
use p3o::Learner;
use p3o::algo::p3o::cost_term;
use p3o::algo::violation::{EpisodeCost, offset, scale};
use p3o::config::{CostScale, Offset};
use p3o_env::ActionSpace;
use rand::RngExt;

fn near(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-9, "{actual} is not {expected}");
}

#[test]
fn offsets_by_hand() {
    // Limit 25, episodes of 1000 steps, gamma 0.99. 0.99^1000 = e^(1000 ln 0.99) = e^-10.0503358535 = 4.317124741e-5, so
    // d^gamma = 25 (1 - 4.317124741e-5) / (1000 * 0.01) = 2.5 * 0.99995682875 = 2.49989207188.
    let cost = EpisodeCost { episode: 35.0, discounted: 3.5, length: 1000.0, limit: 25.0 };
    near(offset(Offset::Discounted, &cost, 0.99), 0.01 * (3.5 - 2.499_892_071_88));
    // (35 - 25) / 1000 and 0.01 (35 - 25): the literal reading is ten times the other.
    near(offset(Offset::PerStep, &cost, 0.99), 0.01);
    near(offset(Offset::Paper, &cost, 0.99), 0.1);
}

#[test]
fn every_form_is_zero_on_the_limit_and_has_the_sign_of_the_violation() {
    // One unit of cost in each of 4 steps, gamma 0.5: discounted 1 + 0.5 + 0.25 + 0.125 = 1.875, just as the limit 4 is.
    for form in [Offset::Discounted, Offset::PerStep, Offset::Paper] {
        let at = |limit: f64| {
            let cost = EpisodeCost { episode: 4.0, discounted: 1.875, length: 4.0, limit };
            offset(form, &cost, 0.5)
        };
        near(at(4.0), 0.0);
        assert!(at(3.0) > 0.1 && at(5.0) < -0.1, "{form:?}: {} and {}", at(3.0), at(5.0));
    }
}

#[test]
fn scales_by_hand() {
    // Mean (2 + 6) / 2 = 4, deviation 2, offset 0.5. Standardised: -1 and 1.
    for (form, expected, after) in [
        (CostScale::Whole, 0.25, [-1.0, 1.0]),
        (CostScale::WholeMean, 2.25, [-1.0, 1.0]),
        (CostScale::Advantage, 0.5, [-1.0, 1.0]),
        (CostScale::Centred, 0.5, [-2.0, 2.0]),
        (CostScale::None, 0.5, [2.0, 6.0]),
    ] {
        let mut advantages = [2.0, 6.0];
        assert_eq!((scale(form, &mut advantages, 0.5), advantages), (expected, after), "{form:?}");
    }
}

#[test]
fn a_cost_that_never_varied_has_advantages_of_zero() {
    for form in [CostScale::Whole, CostScale::WholeMean, CostScale::Advantage] {
        let mut advantages = [0.1; 7];
        assert!(scale(form, &mut advantages, -0.5).is_finite());
        assert_eq!(advantages, [0.0; 7], "{form:?}");
    }
}

/// Random advantages of mean zero and random ratios of mean one.
fn batch(seed: u64) -> (Vec<f32>, Vec<f64>) {
    let mut rng = rng(seed);
    let half: Vec<f32> = (0..32).map(|_| rng.random_range(0.5f32..3.0)).collect();
    let signs = half.iter().flat_map(|&a| [a, -a]).collect();
    let ratios = (0..32).map(|_| rng.random_range(0.0..0.9)).flat_map(|r| [1.0 + r, 1.0 - r]).collect();
    (signs, ratios)
}

#[test]
fn dividing_the_whole_constraint_keeps_its_feasible_set() {
    let (mut over, mut under) = (0, 0);
    for seed in 0..200 {
        let (advantages, ratios) = batch(seed);
        let n = ratios.len() as f64;
        let mean = |a: &[f32]| a.iter().zip(&ratios).map(|(&a, &r)| cost_term(r, f64::from(a), 0.2).0).sum::<f64>() / n;
        let offset = (seed as f64 - 100.0) / 60.0;
        let raw = mean(&advantages) + offset;
        let deviation = (advantages.iter().map(|&a| f64::from(a).powi(2)).sum::<f64>() / n).sqrt();
        let mut scaled = advantages.clone();
        let constraint = scale(CostScale::Whole, &mut scaled, offset) + mean(&scaled);
        assert!((constraint - raw / deviation).abs() < 1e-6, "{constraint} is not {raw} / {deviation}");
        assert_eq!(constraint > 0.0, raw > 0.0);
        *(if raw > 0.0 { &mut over } else { &mut under }) += 1;
    }
    assert!(over > 20 && under > 20, "{over} over and {under} under");
}

#[test]
fn keeping_the_mean_keeps_the_feasible_set_of_advantages_with_a_mean() {
    // For ratios of mean one, mean(r A) = sigma mean(r Ahat) + mu, so the whole constraint is divided by sigma.
    for seed in 0..50 {
        let (advantages, ratios) = batch(seed);
        let n = ratios.len() as f64;
        let shifted: Vec<f32> = advantages.iter().map(|a| a + 0.75).collect();
        let mean = |a: &[f32]| a.iter().zip(&ratios).map(|(&a, r)| r * f64::from(a)).sum::<f64>() / n;
        let deviation = (advantages.iter().map(|&a| f64::from(a).powi(2)).sum::<f64>() / n).sqrt();
        let mut scaled = shifted.clone();
        let constraint = scale(CostScale::WholeMean, &mut scaled, -0.3) + mean(&scaled);
        let expected = (mean(&shifted) - 0.3) / deviation;
        assert!((constraint - expected).abs() < 1e-6, "{constraint} is not {expected}");
    }
}

#[test]
fn the_rewards_advantage_is_standardised_or_left_as_it_is() {
    // Every episode is one step with the reward 3, so every advantage is 3 - V. Standardised they are all zero; as they are,
    // L_R at the first pass is V - 3, whose square is the critic's loss.
    let world = Script::new(ActionSpace::Discrete { n: 2 }, &[], 5, vec![1.0], |_, _| Given {
        obs: vec![1.0],
        reward: 3.0,
        costs: Vec::new(),
        terminated: true,
        truncated: false,
    });
    let first = |scale: &str| {
        let config = small("p3o", &world.spec, &["algo.passes=1", scale]);
        Learner::new(config, &world.maker()).unwrap().update().unwrap()
    };
    assert_eq!(first("algo.reward_scale=standard").passes.loss_r, 0.0);
    let report = first("algo.reward_scale=none");
    let (loss_r, distance) = (report.passes.loss_r, report.critic_losses[0].sqrt());
    assert!(loss_r < -0.1 && (loss_r + distance).abs() < 1e-5, "{loss_r} {distance}");
}
