//! Gaussian and categorical policies, one and several at once: worked numbers, gradients, divergences, draws, and extreme logits.

use super::support::*;
use p3o_nn::{categorical, gaussian, multi_categorical};
use rand::rand_core::TryRng;
use std::convert::Infallible;
use std::f64::consts::LN_2;

/// Asserts that `analytic` is the derivative of `f` at `at`, to 1e-6 of each entry or of a thousandth of the largest.
fn check_derivative(what: &str, at: &[f64], analytic: &[f64], f: impl Fn(&[f64]) -> f64) {
    let scale = 1e-3 * analytic.iter().fold(0.0, |m: f64, g| m.max(g.abs()));
    for k in 0..at.len() {
        let moved = |step: f64| {
            let mut at = at.to_vec();
            at[k] += step;
            f(&at)
        };
        let expected = central_difference(moved, 1e-3);
        let error = relative_error(analytic[k], expected, scale);
        assert!(error <= 1e-6, "{what}[{k}]: {} is not {expected}, error {error:e}", analytic[k]);
    }
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-14, "{a} is not {b}");
}

const MEAN: [f64; 3] = [0.3, -1.2, 2.0];
const LOG_STD: [f64; 3] = [-0.5, 0.4, -1.1];
const OLD_MEAN: [f64; 3] = [0.1, -0.9, 2.2];
const OLD_LOG_STD: [f64; 3] = [-0.3, 0.1, -1.0];
const ACTION: [f64; 3] = [0.7, -2.0, 1.8];
const WEIGHT: f64 = -1.7;

/// Dimension one: mean 0.5, standard deviation 2, action 1.5, so z = 0.5;
/// dimension two: mean -1, standard deviation 1, action 0, z = 1.
/// log pi = -(0.125 + ln 2 + 0.918938533204673) - (0.5 + 0 + 0.918938533204673) = -3.156024246969291
/// entropy = 2 * (0.5 + 0.918938533204673) + ln 2 = 3.531024246969291
#[test]
fn gaussian_worked_by_hand() {
    let log_std = [LN_2, 0.0];
    close(gaussian::log_prob(&[0.5, -1.0], &log_std, &[1.5, 0.0]), -3.156_024_246_969_291);
    close(gaussian::entropy(&log_std), 3.531_024_246_969_291);
}

/// N(1, 1) against N(0, 4): ln 2 + (1 + 1) / 8 - 1/2 = 0.443147180559945; the other way round
/// -ln 2 + (4 + 1) / 2 - 1/2 = 1.306852819440055.
#[test]
fn gaussian_kl_worked_by_hand() {
    close(gaussian::kl(&[1.0], &[0.0], &[0.0], &[LN_2]), 0.443_147_180_559_945_3);
    close(gaussian::kl(&[0.0], &[LN_2], &[1.0], &[0.0]), 1.306_852_819_440_054_7);
    assert_eq!(gaussian::kl(&MEAN, &LOG_STD, &MEAN, &LOG_STD), 0.0);
}

#[test]
fn gaussian_gradients() {
    // They add to what is there, here one.
    let (mut d_mean, mut d_log_std) = ([1.0; 3], [1.0; 3]);
    gaussian::log_prob_grad(&MEAN, &LOG_STD, &ACTION, WEIGHT, &mut d_mean, &mut d_log_std);
    let added = |d: [f64; 3]| d.map(|d| d - 1.0);
    check_derivative("mean", &MEAN, &added(d_mean), |m| WEIGHT * gaussian::log_prob(m, &LOG_STD, &ACTION));
    check_derivative("log_std", &LOG_STD, &added(d_log_std), |s| WEIGHT * gaussian::log_prob(&MEAN, s, &ACTION));

    let (mut d_mean, mut d_log_std) = ([1.0; 3], [1.0; 3]);
    gaussian::kl_grad(&MEAN, &LOG_STD, &OLD_MEAN, &OLD_LOG_STD, WEIGHT, &mut d_mean, &mut d_log_std);
    let kl = |m: &[f64], s: &[f64]| WEIGHT * gaussian::kl(m, s, &OLD_MEAN, &OLD_LOG_STD);
    check_derivative("kl, mean", &MEAN, &added(d_mean), |m| kl(m, &LOG_STD));
    check_derivative("kl, log_std", &LOG_STD, &added(d_log_std), |s| kl(&MEAN, s));

    check_derivative("entropy", &LOG_STD, &[1.0; 3], gaussian::entropy);
}

/// The Fisher matrix is the Hessian of the KL where both policies are the same: its product is the KL gradient's derivative.
#[test]
fn fisher_products_are_derivatives_of_the_kl_gradient() {
    let (tangent, h) = ([0.4, -1.0, 0.7, 0.2, -0.5], 1e-4);
    let mut product = [1.0; 3];
    gaussian::fisher(&LOG_STD, &tangent[..3], WEIGHT, &mut product);
    let mut packed = [1.0; 3];
    let mut against = gaussian::Against::default();
    against.set(&LOG_STD, &OLD_LOG_STD);
    against.fisher(&tangent[..3], WEIGHT, &mut packed);
    for i in 0..3 {
        let at = |step: f64| {
            let moved: Vec<f64> = MEAN.iter().zip(tangent).map(|(m, t)| m + step * t).collect();
            let (mut d, mut d_log_std) = ([0.0; 3], [0.0; 3]);
            gaussian::kl_grad(&moved, &LOG_STD, &MEAN, &LOG_STD, WEIGHT, &mut d, &mut d_log_std);
            d[i]
        };
        let expected = central_difference(at, h);
        assert!(relative_error(product[i] - 1.0, expected, 1e-3) <= 1e-6, "mean {i}");
        assert!((packed[i] - product[i]).abs() < 1e-14, "mean {i}");
        // Of each log standard deviation it is two.
        let at = |step: f64| {
            let mut moved = LOG_STD;
            moved[i] += step;
            let (mut d, mut d_log_std) = ([0.0; 3], [0.0; 3]);
            gaussian::kl_grad(&MEAN, &moved, &MEAN, &LOG_STD, 1.0, &mut d, &mut d_log_std);
            d_log_std[i]
        };
        assert!(relative_error(2.0, central_difference(at, h), 1e-3) <= 1e-6, "log_std {i}");
    }
    let mut product = [1.0; 5];
    categorical::fisher(&LOGITS, &tangent, WEIGHT, &mut product);
    for i in 0..5 {
        let at = |step: f64| {
            let moved: Vec<f64> = LOGITS.iter().zip(tangent).map(|(x, t)| x + step * t).collect();
            let mut d = [0.0; 5];
            categorical::kl_grad(&moved, &LOGITS, WEIGHT, &mut d);
            d[i]
        };
        assert!(relative_error(product[i] - 1.0, central_difference(at, h), 1e-3) <= 1e-6, "logit {i}");
    }
}

#[test]
fn what_is_worked_out_once_gives_the_same_kl_gradient() {
    let mut against = gaussian::Against::default();
    against.set(&LOG_STD, &OLD_LOG_STD);
    let (mut d, mut s) = (([1.0; 3], [1.0; 3]), ([1.0; 3], [1.0; 3]));
    gaussian::kl_grad(&MEAN, &LOG_STD, &OLD_MEAN, &OLD_LOG_STD, WEIGHT, &mut d.0, &mut s.0);
    against.kl_grad(&MEAN, &OLD_MEAN, WEIGHT, &mut d.1, &mut s.1);
    assert!(d.0.iter().chain(&s.0).zip(d.1.iter().chain(&s.1)).all(|(a, b)| (a - b).abs() < 1e-14));
}

/// Over 100,000 draws the mean is off by sigma / sqrt(n) and the variance by sigma^2 sqrt(2 / n), in the mean square;
/// the divergence is the mean of log pi - log pi_old, the entropy that of -log pi. All within four standard errors.
#[test]
fn gaussian_draws() {
    let (n, mut rng) = (100_000, rng(1));
    let mut action = [0.0; 3];
    let (mut sum, mut squares) = ([0.0; 3], [0.0; 3]);
    let (mut kl, mut entropy) = (Mean::default(), Mean::default());
    for _ in 0..n {
        gaussian::sample(&MEAN, &LOG_STD, &mut action, &mut rng);
        let log_prob = gaussian::log_prob(&MEAN, &LOG_STD, &action);
        kl.add(log_prob - gaussian::log_prob(&OLD_MEAN, &OLD_LOG_STD, &action));
        entropy.add(-log_prob);
        for i in 0..3 {
            sum[i] += action[i];
            squares[i] += (action[i] - MEAN[i]).powi(2);
        }
    }
    let n = f64::from(n);
    for i in 0..3 {
        let variance = (2.0 * LOG_STD[i]).exp();
        let mean_off = (sum[i] / n - MEAN[i]) / (variance / n).sqrt();
        let variance_off = (squares[i] / n - variance) / (variance * (2.0 / n).sqrt());
        assert!(mean_off.abs() < 4.0 && variance_off.abs() < 4.0, "[{i}]: off by {mean_off}, {variance_off}");
    }
    kl.check(gaussian::kl(&MEAN, &LOG_STD, &OLD_MEAN, &OLD_LOG_STD));
    entropy.check(gaussian::entropy(&LOG_STD));
}

#[derive(Default)]
struct Mean {
    n: f64,
    sum: f64,
    squares: f64,
}

impl Mean {
    fn add(&mut self, x: f64) {
        self.n += 1.0;
        self.sum += x;
        self.squares += x * x;
    }

    /// Asserts that `expected` is within four standard errors.
    fn check(&self, expected: f64) {
        let mean = self.sum / self.n;
        let error = ((self.squares / self.n - mean * mean) / self.n).sqrt();
        assert!((mean - expected).abs() < 4.0 * error, "{expected} is not {mean} +- {error}");
    }
}

const LOGITS: [f64; 5] = [0.3, -1.2, 2.0, 0.0, 0.9];
const OLD_LOGITS: [f64; 5] = [0.1, -0.7, 1.5, 0.4, 1.1];

/// exp of the logits is 1, 2, 5, of sum 8: p = 1/8, 1/4, 5/8.
/// log pi(1) = ln 1/4 = -1.386294361119891
/// entropy = ln(8) / 8 + ln(4) / 4 + 5/8 ln(8/5) = 0.259930193 + 0.346573590 + 0.293752268 = 0.900256051268537
/// KL from three equally likely actions: ln 3 - entropy = 0.198356237399573
#[test]
fn categorical_worked_by_hand() {
    let logits = [0.0, LN_2, 5f64.ln()];
    close(categorical::log_prob(&logits, 1), -1.386_294_361_119_890_6);
    close(categorical::entropy(&logits), 0.900_256_051_268_536_8);
    close(categorical::kl(&logits, &[7.0; 3]), 0.198_356_237_399_573);
    assert_eq!(categorical::mode(&logits), 2);
    assert_eq!(categorical::mode(&[1.0, 3.0, 3.0]), 1);
    assert_eq!(categorical::kl(&LOGITS, &LOGITS), 0.0);
}

/// Against sums over probabilities, and the same for logits that are all moved by a constant.
#[test]
fn categorical_kl_is_the_sum() {
    let probabilities = |logits: &[f64; 5]| {
        let total: f64 = logits.iter().map(|x| x.exp()).sum();
        logits.map(|x| x.exp() / total)
    };
    let (p, q) = (probabilities(&LOGITS), probabilities(&OLD_LOGITS));
    let expected: f64 = p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum();
    close(categorical::kl(&LOGITS, &OLD_LOGITS), expected);
    close(categorical::kl(&LOGITS.map(|x| x + 3.0), &OLD_LOGITS.map(|x| x - 2.0)), expected);
    close((0..5).map(|i| categorical::log_prob(&LOGITS, i).exp()).sum(), 1.0);
}

#[test]
fn categorical_gradients() {
    // They add to what is there, here one.
    let added = |d: [f64; 5]| d.map(|d| d - 1.0);
    for action in 0..5 {
        let mut d = [1.0; 5];
        categorical::log_prob_grad(&LOGITS, action, WEIGHT, &mut d);
        check_derivative("log_prob", &LOGITS, &added(d), |x| WEIGHT * categorical::log_prob(x, action));
    }
    let mut d = [1.0; 5];
    categorical::entropy_grad(&LOGITS, WEIGHT, &mut d);
    check_derivative("entropy", &LOGITS, &added(d), |x| WEIGHT * categorical::entropy(x));
    let mut d = [1.0; 5];
    categorical::kl_grad(&LOGITS, &OLD_LOGITS, WEIGHT, &mut d);
    check_derivative("kl", &LOGITS, &added(d), |x| WEIGHT * categorical::kl(x, &OLD_LOGITS));
}

/// Pearson's statistic of the counts has four degrees of freedom: above 18.5 once in a thousand seeds.
#[test]
fn categorical_draws() {
    let (n, mut rng) = (100_000, rng(1));
    let mut counts = [0.0; 5];
    for _ in 0..n {
        counts[categorical::sample(&LOGITS, &mut rng)] += 1.0;
    }
    let statistic: f64 = (0..5)
        .map(|i| {
            let expected = f64::from(n) * categorical::log_prob(&LOGITS, i).exp();
            (counts[i] - expected).powi(2) / expected
        })
        .sum();
    assert!(statistic < 18.5, "{statistic}: {counts:?}");
}

#[test]
fn extreme_logits_stay_finite() {
    let logits = [1e4f32, -1e4, 0.0, 1e4];
    let old = [-1e4f32, 1e4, 1e4, 0.0];
    let ln_2 = LN_2 as f32;
    for (action, expected) in [(0, -ln_2), (1, -2e4 - ln_2), (2, -1e4 - ln_2), (3, -ln_2)] {
        let found = categorical::log_prob(&logits, action);
        assert!((found - expected).abs() <= 1e-7 * expected.abs(), "{found} is not {expected}");
    }
    assert!((categorical::entropy(&logits) - ln_2).abs() <= 1e-7);
    // Half on an action that is 2e4 below, half on one that is 1e4 below.
    let kl = categorical::kl(&logits, &old);
    assert!((kl - 1.5e4).abs() <= 1e-7 * 1.5e4, "{kl}");
    let mut d = [0.0; 4];
    categorical::log_prob_grad(&logits, 1, 1.0, &mut d);
    categorical::entropy_grad(&logits, 1.0, &mut d);
    categorical::kl_grad(&logits, &old, 1.0, &mut d);
    assert!(d.iter().all(|d| d.is_finite()), "{d:?}");
    let mut rng = rng(1);
    assert!((0..1000).all(|_| [0, 3].contains(&categorical::sample(&logits, &mut rng))));
}

/// Always the largest number below one.
struct Highest;

impl TryRng for Highest {
    type Error = Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::MAX)
    }
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::MAX)
    }
    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        dst.fill(u8::MAX);
        Ok(())
    }
}

/// The probabilities add up to one only to rounding; what is left over must not go to an action that has none.
#[test]
fn impossible_actions_are_never_drawn() {
    let mut rng = rng(1);
    for _ in 0..100 {
        let mut logits: Vec<f32> = uniform(5, &mut rng);
        logits.push(-1e4);
        let action = categorical::sample(&logits, &mut Highest);
        assert!(action < 5, "drew an action of probability zero from {logits:?}");
    }
}

/// `Against` is the plain functions with the constants worked out once: the same log-probability to the bit (a fresh
/// policy's ratio must be exactly one), the same KL and gradient up to rounding.
#[test]
fn against_agrees_with_the_plain_functions() {
    let mut against = gaussian::Against::default();
    for k in 0..200 {
        let x = |i: usize| ((k * 7 + i * 13) % 29) as f32 / 10.0 - 1.4;
        let (mean, old_mean, action) = ([x(0), x(1)], [x(2), x(3)], [x(4), x(5)]);
        let (log_std, old_log_std) = ([x(6) * 0.5, x(7) * 0.5], [x(8) * 0.5, x(9) * 0.5]);
        against.set(&log_std, &old_log_std);
        let plain = gaussian::log_prob(&mean, &log_std, &action);
        assert_eq!(against.log_prob(&mean, &action).to_bits(), plain.to_bits());
        let kl = gaussian::kl(&mean, &log_std, &old_mean, &old_log_std);
        assert!((against.kl(&mean, &old_mean) - kl).abs() <= 1e-5 * (1.0 + kl.abs()));
        let (mut d1, mut s1, mut d2, mut s2) = ([0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2]);
        gaussian::log_prob_grad(&mean, &log_std, &action, 0.7, &mut d1, &mut s1);
        against.log_prob_grad(&mean, &action, 0.7, &mut d2, &mut s2);
        assert_eq!((d1, s1), (d2, s2));
    }
}

#[test]
fn a_row_agrees_with_the_functions_one_by_one() {
    let mut old = OLD_LOGITS;
    categorical::normalize(&mut old);
    close(old.iter().map(|x| x.exp()).sum(), 1.0);
    let mut p = [0.0; 5];
    let row = categorical::Row::new(&LOGITS, &mut p);
    for (action, &probability) in p.iter().enumerate() {
        close(row.log_prob(action), categorical::log_prob(&LOGITS, action));
        close(probability, categorical::log_prob(&LOGITS, action).exp());
    }
    close(row.kl(&p, &old), categorical::kl(&LOGITS, &OLD_LOGITS));
    for (action, e) in (0..5).flat_map(|action| [(action, 0.0), (action, -0.7)]) {
        let (mut found, mut expected) = (p, [0.0; 5]);
        row.gradient(action, 1.3, e, &mut found);
        categorical::log_prob_grad(&LOGITS, action, 1.3, &mut expected);
        categorical::entropy_grad(&LOGITS, e, &mut expected);
        found.iter().zip(expected).for_each(|(f, e)| close(*f, e));
    }
}

#[test]
fn a_policy_has_no_divergence_from_itself_to_the_last_bit() {
    let mut old = LOGITS.map(|x| x as f32);
    categorical::normalize(&mut old);
    let (logits, mut p) = (LOGITS.map(|x| x as f32), [0.0; 5]);
    assert_eq!(categorical::Row::new(&logits, &mut p).kl(&p, &old), 0.0);
}

/// Heads of two and three logits in [`LOGITS`].
const SIZES: [usize; 2] = [2, 3];

/// exp of the logits is 1, 3 and 1, 2, 5: p = 1/4, 3/4 and 1/8, 1/4, 5/8.
/// log pi(1, 2) = ln 3/4 + ln 5/8 = -0.757685701697516
/// entropy = (ln(4) / 4 + 3/4 ln(4/3)) + 0.900256051268537 = 0.562335144618808 + 0.900256051268537 = 1.462591195887345
/// KL from equally likely actions: (ln 2 - 0.562335144618808) + (ln 3 - 0.900256051268537) = 0.329168273340710
#[test]
fn several_discrete_actions_worked_by_hand() {
    let logits = [0.0, 3f64.ln(), 0.0, LN_2, 5f64.ln()];
    close(multi_categorical::log_prob(&SIZES, &logits, &[1.0, 2.0]), -0.757_685_701_697_516_4);
    close(multi_categorical::entropy(&SIZES, &logits), 1.462_591_195_887_344_7);
    close(multi_categorical::kl(&SIZES, &logits, &[4.0, 4.0, 7.0, 7.0, 7.0]), 0.329_168_273_340_710_4);
    let mut actions = [9.0; 2];
    multi_categorical::mode(&SIZES, &logits, &mut actions);
    assert_eq!(actions, [1.0, 2.0]);
    let mut log_probs = logits;
    multi_categorical::normalize(&SIZES, &mut log_probs);
    log_probs.iter().zip([0.25f64, 0.75, 0.125, 0.25, 0.625]).for_each(|(found, p)| close(*found, p.ln()));
}

#[test]
fn several_discrete_actions_have_these_gradients() {
    let mut rows = multi_categorical::Rows::new(&SIZES);
    for (actions, e) in [([0.0, 0.0], 0.0), ([1.0, 2.0], 0.0), ([0.0, 1.0], -0.7), ([1.0, 0.0], 0.4)] {
        let mut d = [0.0; 5];
        rows.set(&LOGITS, &mut d);
        close(rows.log_prob(&LOGITS, &actions), multi_categorical::log_prob(&SIZES, &LOGITS, &actions));
        let mut old = OLD_LOGITS;
        multi_categorical::normalize(&SIZES, &mut old);
        close(rows.kl(&LOGITS, &d, &old), multi_categorical::kl(&SIZES, &LOGITS, &OLD_LOGITS));
        rows.gradient(&LOGITS, &actions, WEIGHT, e, &mut d);
        let f = |x: &[f64]| {
            WEIGHT * multi_categorical::log_prob(&SIZES, x, &actions) + e * multi_categorical::entropy(&SIZES, x)
        };
        check_derivative("log_prob and entropy", &LOGITS, &d, f);
    }
    // It adds to what is there, here one.
    let mut d = [1.0; 5];
    multi_categorical::kl_grad(&SIZES, &LOGITS, &OLD_LOGITS, WEIGHT, &mut d);
    let kl = |x: &[f64]| WEIGHT * multi_categorical::kl(&SIZES, x, &OLD_LOGITS);
    check_derivative("kl", &LOGITS, &d.map(|d| d - 1.0), kl);
    let (tangent, mut product) = ([0.4, -1.0, 0.7, 0.2, -0.5], [1.0; 5]);
    multi_categorical::fisher(&SIZES, &LOGITS, &tangent, WEIGHT, &mut product);
    for i in 0..5 {
        let at = |step: f64| {
            let moved: Vec<f64> = LOGITS.iter().zip(tangent).map(|(x, t)| x + step * t).collect();
            let mut d = [0.0; 5];
            multi_categorical::kl_grad(&SIZES, &moved, &LOGITS, WEIGHT, &mut d);
            d[i]
        };
        assert!(relative_error(product[i] - 1.0, central_difference(at, 1e-4), 1e-3) <= 1e-6, "logit {i}");
    }
}

/// Pearson's statistic over all six pairs has five degrees of freedom: above 20.5 once in a thousand seeds.
#[test]
fn several_discrete_actions_are_drawn_on_their_own() {
    let (n, mut rng) = (100_000, rng(1));
    let (mut counts, mut actions) = ([0.0; 6], [0.0; 2]);
    for _ in 0..n {
        multi_categorical::sample(&SIZES, &LOGITS, &mut actions, &mut rng);
        counts[actions[0] as usize * 3 + actions[1] as usize] += 1.0;
    }
    let expected = |i: usize| {
        let pair = [(i / 3) as f64, (i % 3) as f64];
        f64::from(n) * multi_categorical::log_prob(&SIZES, &LOGITS, &pair).exp()
    };
    let statistic: f64 = (0..6).map(|i| (counts[i] - expected(i)).powi(2) / expected(i)).sum();
    assert!(statistic < 20.5, "{statistic}: {counts:?}");
}

/// What a policy of one discrete action trains to does not depend on that there may be several.
#[test]
fn one_discrete_action_is_the_categorical_policy_to_the_bit() {
    let (logits, mut old) = (LOGITS.map(|x| x as f32), OLD_LOGITS.map(|x| x as f32));
    categorical::normalize(&mut old);
    let (mut found, mut expected) = ([0.0f32; 5], [0.0f32; 5]);
    let mut rows = multi_categorical::Rows::new(&[5]);
    rows.set(&logits, &mut found);
    let row = categorical::Row::new(&logits, &mut expected);
    assert_eq!(rows.log_prob(&logits, &[3.0]).to_bits(), row.log_prob(3).to_bits());
    assert_eq!(rows.kl(&logits, &found, &old).to_bits(), row.kl(&expected, &old).to_bits());
    rows.gradient(&logits, &[3.0], 1.3, -0.2, &mut found);
    row.gradient(3, 1.3, -0.2, &mut expected);
    assert_eq!(found.map(f32::to_bits), expected.map(f32::to_bits));
}
