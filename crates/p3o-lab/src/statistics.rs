//! What a few runs say: means and interquartile means with their intervals, p values and their correction for many claims,
//! and how well limits were kept.
//!
//! Interquartile means, stratified bootstrap and probability of improvement are those of Agarwal et al., "Deep
//! Reinforcement Learning at the Edge of the Statistical Precipice" (2021).

use p3o::record::Summary;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 10_000;

/// An estimate with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate itself: a mean, or an interquartile mean.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// How well a sum of means can be told from a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tails {
    /// The one-sided p value of its being above the number: small where it is.
    pub above: f64,
    /// The same of its being below.
    pub below: f64,
}

/// How far and how long a cost was above its limit during training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overshoot {
    /// Share of the rows above the limit; as rows are equally many steps apart, this is a share of the steps.
    pub share_of_steps: f64,
    /// Mean over all rows of max(0, cost - limit).
    pub mean_excess: f64,
    /// The largest max(0, cost - limit).
    pub worst: f64,
}

/// The mean with Student's t interval; with fewer than two values the interval is the whole real line.
pub fn mean_ci95(values: &[f64]) -> Interval {
    let summary = Summary::of(values);
    let (low, high) = summary.mean_ci95();
    Interval { mean: summary.mean, low, high }
}

/// The difference between the means of two samples with Welch's interval.
pub fn difference_ci95(a: &[f64], b: &[f64]) -> Interval {
    let (a, b) = (Summary::of(a), Summary::of(b));
    let (low, high) = a.difference_ci95(&b);
    Interval { mean: a.mean - b.mean, low, high }
}

/// Tests Σ weight · mean of samples of two values and more against a number: Student's test for one sample, Welch's for a
/// difference. Where there is no spread at all, the sum is above, below or neither.
pub fn contrast(samples: &[(f64, &[f64])], number: f64) -> Tails {
    let (mut difference, mut variance, mut rest) = (-number, 0.0, 0.0);
    for (weight, values) in samples {
        let s = Summary::of(values);
        let share = (weight * s.sd).powi(2) / s.n as f64;
        difference += weight * s.mean;
        variance += share;
        rest += share * share / (s.n as f64 - 1.0);
    }
    if variance == 0.0 {
        let p = |holds: bool| if holds { 0.0 } else { 1.0 };
        return Tails { above: p(difference > 0.0), below: p(difference < 0.0) };
    }
    // Welch and Satterthwaite's degrees of freedom, rounded down as for intervals, but not by an error of rounding.
    let (t, dof) = (difference / variance.sqrt(), (variance * variance / rest + 1e-9).floor());
    Tails { above: student_t_cdf(-t, dof), below: student_t_cdf(t, dof) }
}

/// The probability that Student's t is at most `t`; degrees of freedom need not be whole.
pub fn student_t_cdf(t: f64, dof: f64) -> f64 {
    // Of |T| ≥ |t| (Abramowitz & Stegun 26.7.1).
    let outside = incomplete_beta(dof / (dof + t * t), dof / 2.0, 0.5);
    if t > 0.0 { 1.0 - outside / 2.0 } else { outside / 2.0 }
}

/// The regularised incomplete beta function I_x(a, b) by its continued fraction (Abramowitz & Stegun 26.5.8), which
/// converges fast for x < (a + 1) / (a + b + 2); beyond that I_x(a, b) = 1 - I_{1-x}(b, a).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 || x.is_nan() {
        return x;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = libm::exp(a * libm::log(x) + b * libm::log1p(-x) - beta) / a;
    // Lentz's way from the front: every step multiplies by the ratio of two convergents.
    let (mut c, mut d) = (1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..1000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for term in [even, odd] {
            d = 1.0 / (1.0 + term * d);
            c = 1.0 + term / c;
            fraction *= c * d;
        }
        if fraction == before {
            break;
        }
    }
    front * fraction
}

/// Which hypotheses Holm's step-down rejects, so that the probability of a single wrong rejection among all of them is at
/// most `level`.
pub fn holm(p: &[f64], level: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&i, &k| p[i].total_cmp(&p[k]));
    let mut rejected = vec![false; p.len()];
    for (rank, &i) in order.iter().enumerate() {
        if p[i] > level / (p.len() - rank) as f64 || p[i].is_nan() {
            break;
        }
        rejected[i] = true;
    }
    rejected
}

/// The interquartile mean: the mean without the lowest and the highest quarter.
///
/// If n is no multiple of four, the whole part of n / 4 is cut from each end and all others count fully, as
/// `scipy.stats.trim_mean(values, 0.25)` does, which rliable calls. NaN if there are no values or one is NaN.
pub fn iqm(values: &[f64]) -> f64 {
    iqm_of(&mut values.to_vec())
}

fn iqm_of(values: &mut [f64]) -> f64 {
    // Sorting would put NaN at an end, where it is cut off unseen.
    if values.is_empty() || values.iter().any(|v| v.is_nan()) {
        return f64::NAN;
    }
    values.sort_by(f64::total_cmp);
    let cut = values.len() / 4;
    let middle = &values[cut..values.len() - cut];
    middle.iter().sum::<f64>() / middle.len() as f64
}

/// The interquartile mean of all runs of all strata, with a percentile bootstrap interval.
///
/// A stratum is a task and holds its runs' results, on a scale that all tasks share. A resample draws, in each stratum,
/// as many runs as it has, with replacement. The same `seed` gives the same interval. Where no stratum has two runs, the
/// interval is the whole real line.
pub fn iqm_ci95(strata: &[Vec<f64>], seed: u64) -> Interval {
    let mut pool = strata.concat();
    let mean = iqm_of(&mut pool);
    if mean.is_nan() {
        return Interval { mean, low: mean, high: mean };
    }
    if strata.iter().all(|runs| runs.len() < 2) {
        return Interval { mean, low: f64::NEG_INFINITY, high: f64::INFINITY };
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut resample = || {
        pool.clear();
        for runs in strata.iter().filter(|runs| !runs.is_empty()) {
            pool.extend(runs.iter().map(|_| runs[rng.random_range(0..runs.len())]));
        }
        iqm_of(&mut pool)
    };
    let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    means.sort_by(f64::total_cmp);
    Interval { mean, low: percentile(&means, 0.025), high: percentile(&means, 0.975) }
}

/// Between the two nearest ranks, linearly, as `numpy.percentile` does.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    below + (above - below) * rank.fract()
}

/// The probability that a run of `a` is better than one of `b`: the mean of \[a > b\] + \[a = b\] / 2 over all pairs, which
/// is Mann and Whitney's U over its largest value. NaN if a side is empty or holds NaN.
pub fn probability_of_improvement(a: &[f64], b: &[f64]) -> f64 {
    let score = |x: f64, y: f64| match x.partial_cmp(&y) {
        Some(std::cmp::Ordering::Greater) => 1.0,
        Some(std::cmp::Ordering::Equal) => 0.5,
        Some(std::cmp::Ordering::Less) => 0.0,
        None => f64::NAN,
    };
    let sum: f64 = a.iter().flat_map(|&x| b.iter().map(move |&y| score(x, y))).sum();
    sum / (a.len() * b.len()) as f64
}

/// Over the rows of one progress.csv; rows without a value are left out, and without any all figures are NaN.
pub fn overshoot(costs: &[f64], limit: f64) -> Overshoot {
    let excess: Vec<f64> = costs.iter().filter(|c| !c.is_nan()).map(|c| (c - limit).max(0.0)).collect();
    let n = excess.len() as f64;
    Overshoot {
        share_of_steps: excess.iter().filter(|e| **e > 0.0).count() as f64 / n,
        mean_excess: excess.iter().sum::<f64>() / n,
        worst: excess.iter().copied().fold(f64::NAN, f64::max),
    }
}

/// The share of seeds whose final cost is within the limit; a seed without a cost has not kept it. NaN without seeds.
pub fn kept(finals: &[f64], limit: f64) -> f64 {
    finals.iter().filter(|cost| **cost <= limit).count() as f64 / finals.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(actual: f64, expected: f64) {
        assert!((actual - expected).abs() <= 1e-7, "{actual} is not {expected}");
    }

    #[test]
    fn a_mean_has_students_interval() {
        // Mean 5; squared deviations 4 + 0 + 4 = 8, sd = √(8 / 2) = 2; t₀.₉₇₅(2) = 4.30265273;
        // half width 4.30265273 · 2 / √3 = 4.96827542.
        let interval = mean_ci95(&[3.0, 5.0, 7.0]);
        check(interval.mean, 5.0);
        check(interval.low, 5.0 - 4.96827542);
        check(interval.high, 5.0 + 4.96827542);
        let one = mean_ci95(&[3.0]);
        assert_eq!(one, Interval { mean: 3.0, low: f64::NEG_INFINITY, high: f64::INFINITY });
        assert_eq!(iqm_ci95(&[vec![3.0]], 0), one, "one run tells nothing of its spread");
    }

    #[test]
    fn students_distribution_matches_its_closed_forms_and_published_tables() {
        // One degree of freedom: 1/2 + atan(t) / π. Two: 1/2 + t / (2 √(2 + t²)).
        for t in [-40.0, -3.0, -0.5, 0.0, 0.1, 1.0, 2.5, 12.0] {
            check(student_t_cdf(t, 1.0), 0.5 + libm::atan(t) / std::f64::consts::PI);
            check(student_t_cdf(t, 2.0), 0.5 + t / (2.0 * (2.0 + t * t).sqrt()));
        }
        for (dof, t) in [(1.0, 12.7062047), (4.0, 2.77644511), (9.0, 2.26215716), (29.0, 2.04522964)] {
            check(student_t_cdf(t, dof), 0.975);
            check(student_t_cdf(-t, dof), 0.025);
        }
        // Far out nothing cancels: for two degrees 1/2 - t / (2 √(2 + t²)) tends to 1 / (2 t²).
        assert!((student_t_cdf(-1e4, 2.0) / 5e-9 - 1.0).abs() < 1e-6);
        // Many degrees are the normal distribution's 0.975.
        assert!((student_t_cdf(1.959_964, 1e6) - 0.975).abs() < 1e-6);
        assert!(student_t_cdf(2.0, 4.0) < student_t_cdf(2.0, 4.5) && student_t_cdf(2.0, 4.5) < student_t_cdf(2.0, 5.0));
    }

    #[test]
    fn a_sum_of_means_is_tested_as_by_its_interval() {
        // 3, 5, 7 are 5 ± 4.96827542: their interval's ends are 0.025 away.
        let one = contrast(&[(1.0, &[3.0, 5.0, 7.0])], 5.0 - 4.96827542);
        check(one.above, 0.025);
        check(one.below, 0.975);
        // Squares of deviations 4 + 0 + 4 and 1 + 0 + 1, so variances 4 and 1 and shares 4/3 and 1/3. The second counts
        // doubly: shares 4/3 and 4/3, (8/3)² / (2 · (4/3)² / 2) = 4 degrees, t = (5 - 2 · 1) / √(8/3).
        let two = contrast(&[(1.0, &[3.0, 5.0, 7.0]), (-2.0, &[0.0, 1.0, 2.0])], 0.0);
        check(two.above, 1.0 - student_t_cdf(3.0 / (8.0_f64 / 3.0).sqrt(), 4.0));
        check(two.above + two.below, 1.0);
        let far = difference_ci95(&[3.0, 5.0, 7.0], &[0.0, 1.0, 2.0]);
        check(contrast(&[(1.0, &[3.0, 5.0, 7.0]), (-1.0, &[0.0, 1.0, 2.0])], far.low).above, 0.025);
        assert_eq!(contrast(&[(1.0, &[2.0, 2.0])], 1.0), Tails { above: 0.0, below: 1.0 });
        assert_eq!(contrast(&[(1.0, &[2.0, 2.0])], 2.0), Tails { above: 1.0, below: 1.0 });
    }

    #[test]
    fn holm_goes_on_until_the_first_that_is_too_large() {
        // Sorted 0.01, 0.015, 0.03, 0.04 against 0.05 / 4 = 0.0125, 0.05 / 3 = 0.0167, 0.05 / 2 = 0.025: the third fails, and
        // with it the fourth, which alone would be below 0.05 / 1.
        assert_eq!(holm(&[0.03, 0.01, 0.04, 0.015], 0.05), [false, true, false, true]);
        assert_eq!(holm(&[0.02, 0.02, 0.02], 0.05), [false; 3]);
        assert_eq!(holm(&[0.05, f64::NAN], 0.05), [false, false]);
        assert!(holm(&[], 0.05).is_empty());
    }

    #[test]
    fn an_interquartile_mean_leaves_a_quarter_off_each_end() {
        // Eight: two off each end leave 3, 4, 5, 8, whose mean is 5.
        assert_eq!(iqm(&[100.0, 4.0, 3.0, 1.0, -50.0, 5.0, 8.0, 9.0]), 5.0);
        // Seven: one off each end leaves 2, 3, 4, 5, 11: 25 / 5. Three: nothing is cut, 12 / 3.
        assert_eq!(iqm(&[11.0, 2.0, 90.0, 3.0, 5.0, 1.0, 4.0]), 5.0);
        assert_eq!(iqm(&[1.0, 2.0, 9.0]), 4.0);
    }

    #[test]
    fn a_missing_result_is_not_cut_off_unseen() {
        assert!(iqm(&[]).is_nan() && iqm(&[1.0, 2.0, 3.0, f64::NAN]).is_nan());
        let interval = iqm_ci95(&[vec![1.0, f64::NAN, 2.0, 3.0]], 0);
        assert!(interval.mean.is_nan() && interval.low.is_nan() && interval.high.is_nan());
        assert!(iqm_ci95(&[], 0).mean.is_nan());
    }

    #[test]
    fn a_bootstrap_interval_by_hand() {
        // Seven zeros and a one: a resample of eight has k ones, binomial with p = 1/8, and of the middle four k - 2 are
        // ones. P(k ≥ 3) = 1 - 0.3436 - 0.3927 - 0.1963 = 0.0674 and P(k ≥ 4) = 0.0674 - 0.0561 = 0.0113 are on
        // either side of 0.025, so the upper end is (3 - 2) / 4; the lower is 0.
        let mut runs = vec![0.0; 7];
        runs.push(1.0);
        assert_eq!(iqm_ci95(&[runs], 5), Interval { mean: 0.0, low: 0.0, high: 0.25 });
        // Two runs, nothing is cut: 0, 1/2 or 1 with probabilities 1/4, 1/2, 1/4.
        assert_eq!(iqm_ci95(&[vec![0.0, 1.0]], 5), Interval { mean: 0.5, low: 0.0, high: 1.0 });
    }

    #[test]
    fn runs_are_resampled_within_their_stratum() {
        // Whatever is drawn, four of eight are 0 and four are 1: the middle four have mean 1/2. Drawn from all eight, the
        // ones would be 0 to 8.
        let interval = iqm_ci95(&[vec![0.0; 4], vec![1.0; 4]], 1);
        assert_eq!(interval, Interval { mean: 0.5, low: 0.5, high: 0.5 });
    }

    #[test]
    fn the_seed_decides_the_interval() {
        let strata = [vec![0.1, 0.7, 0.3, 0.9, 0.4], vec![0.2, 0.6, 0.55, 0.8, 0.35]];
        assert_eq!(iqm_ci95(&strata, 3), iqm_ci95(&strata, 3));
        assert_ne!(iqm_ci95(&strata, 3), iqm_ci95(&strata, 4));
    }

    #[test]
    fn percentiles_lie_between_ranks() {
        // Rank 0.25 · 3 = 0.75: 10 + 0.75 · (20 - 10).
        assert_eq!(percentile(&[10.0, 20.0, 40.0, 80.0], 0.25), 17.5);
    }

    #[test]
    fn improvement_counts_pairs() {
        // Six pairs: 3 beats 1 and 2 and ties with 3, 2 beats 1, ties with 2 and loses to 3: (1 + 1 + ½ + 1 + ½ + 0) / 6.
        check(probability_of_improvement(&[3.0, 2.0], &[1.0, 2.0, 3.0]), 4.0 / 6.0);
        assert_eq!(probability_of_improvement(&[1.0], &[2.0, 3.0]), 0.0);
        assert!(probability_of_improvement(&[], &[1.0]).is_nan());
        assert!(probability_of_improvement(&[f64::NAN], &[1.0]).is_nan());
    }

    #[test]
    fn overshoot_is_how_far_and_how_long() {
        // Above 25: 35 by 10 and 27 by 2, of four rows with a value: 2 / 4, 12 / 4, and 10.
        let costs = [35.0, f64::NAN, 27.0, 25.0, 10.0];
        assert_eq!(overshoot(&costs, 25.0), Overshoot { share_of_steps: 0.5, mean_excess: 3.0, worst: 10.0 });
        assert_eq!(overshoot(&[1.0], 25.0), Overshoot { share_of_steps: 0.0, mean_excess: 0.0, worst: 0.0 });
        let none = overshoot(&[f64::NAN], 25.0);
        assert!(none.share_of_steps.is_nan() && none.mean_excess.is_nan() && none.worst.is_nan());
    }

    #[test]
    fn a_limit_is_kept_up_to_its_last_digit() {
        // 25 is within 25; 25.01 is not, nor is a seed whose cost is unknown: 2 of 4.
        assert_eq!(kept(&[25.0, 25.01, 3.0, f64::NAN], 25.0), 0.5);
        assert!(kept(&[], 25.0).is_nan());
    }
}
