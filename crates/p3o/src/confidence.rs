//! Bounds of means and shares that hold with 95 % confidence for any distribution, without a large sample.
//!
//! An episode's cost is mostly zero and sometimes large, so that a few episodes look harmless and Student's t, which takes them
//! for normal, calls a dangerous policy safe. What is known of a cost is its range [0, B], and that is enough.
//!
//! **Upper bound of a mean.** Suppose that the mean mu of independent X_1, X_2, ... in \[0, B\] is at least m. Bet on the
//! contrary: start with a fortune of 1 and multiply it, after each episode, by 1 + c (m - X) / (B - m) with a fixed stake
//! c in (0, 1]. As X <= B, the factor is at least 1 - c >= 0, and its expectation is 1 + c (m - mu) / (B - m) <= 1: the fortune is
//! a nonnegative supermartingale. So is a mixture of stakes with weights that sum to one,
//!
//! ```text
//! K_n(m) = sum_j w_j prod_i (1 + c_j (m - X_i) / (B - m)),
//! ```
//!
//! and by Ville's inequality (1939) P(K_n(m) >= 20 for some n) <= 1/20. As (m - x) / (B - m) does not decrease in m, neither
//! does K_n. Take m = mu: with 95 % confidence K_n(mu) < 20 at all n, so that mu is below every m with K_n(m) >= 20, and the
//! smallest of those is an upper bound. It holds at all n at once: one may look after every episode and stop when one likes. K_n
//! does not depend on the order of the episodes.
//!
//! **Lower bound.** B - X lies in \[0, B\] too. The factor becomes 1 + c (X - m) / m, which does not increase in m, and the
//! greatest m with K_n(m) >= 20 is the bound.
//!
//! Both are bounds of confidence sequences by betting (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
//! betting", 2024). Each alone holds with 95 %.
//!
//! **Share of a fixed number of episodes.** Clopper and Pearson's bounds (1934), from the tails of the binomial distribution
//! itself. They are narrower, but for one number of episodes, chosen in advance.

/// The probability with which each bound holds.
pub const CONFIDENCE: f64 = 0.95;
/// The fortune that refutes a mean: 1 / (1 - [`CONFIDENCE`]).
const REFUTED: f64 = 20.0;

/// Stakes c = 2^-i with the weights for an upper and for a lower bound. A cost's limit is usually a small part of B, where large
/// stakes win the upper bound and small ones the lower. Chosen by the episodes that they need (docs/evaluation.md).
const STAKES: [(f64, [f64; 2]); 11] = {
    let mut stakes = [(1.0, [1.0, 1.0]); 11];
    let mut i = 1;
    while i < 11 {
        let place = i as f64 + 1.0;
        stakes[i] = (0.5 * stakes[i - 1].0, [1.0 / (place * place), 1.0]);
        i += 1;
    }
    stakes
};

/// Stakes with their weights, which sum to one.
#[derive(Clone, Debug)]
pub struct Stakes(Vec<(f64, f64)>);

impl Stakes {
    /// # Panics
    ///
    /// If a stake is not in (0, 1] or a weight is not positive and finite.
    pub fn new(stakes: impl IntoIterator<Item = (f64, f64)>) -> Stakes {
        let stakes: Vec<(f64, f64)> = stakes.into_iter().collect();
        let sum: f64 = stakes.iter().map(|(_, weight)| weight).sum();
        let valid = |(c, w): &(f64, f64)| *c > 0.0 && *c <= 1.0 && *w > 0.0;
        assert!(sum.is_finite() && stakes.iter().all(valid), "stakes in (0, 1] with positive weights");
        Stakes(stakes.iter().map(|(c, w)| (*c, w / sum)).collect())
    }

    /// Those for upper bounds.
    pub fn upper() -> Stakes {
        Stakes::new(STAKES.map(|(c, [weight, _])| (c, weight)))
    }

    /// Those for lower bounds.
    pub fn lower() -> Stakes {
        Stakes::new(STAKES.map(|(c, [_, weight])| (c, weight)))
    }
}

/// A sample of independent numbers in \[0, B\].
#[derive(Clone, Debug)]
pub struct Bounded {
    bound: f64,
    mean: f64,
    /// Each number once, in order, and how often it occurs.
    counts: Vec<(f64, f64)>,
    stakes: [Stakes; 2],
}

impl Bounded {
    /// # Panics
    ///
    /// If the bound is not finite, or a number is not in \[0, bound\].
    pub fn new(values: &[f64], bound: f64) -> Bounded {
        Bounded::with_stakes(values, bound, [Stakes::upper(), Stakes::lower()])
    }

    /// The same with other stakes for the upper and the lower bound. They must not depend on the numbers.
    pub fn with_stakes(values: &[f64], bound: f64, stakes: [Stakes; 2]) -> Bounded {
        assert!(bound.is_finite(), "a finite bound");
        assert!(values.iter().all(|x| (0.0..=bound).contains(x)), "numbers from 0 to {bound}");
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let counts = sorted.chunk_by(|a, b| a == b).map(|alike| (alike[0], alike.len() as f64)).collect();
        let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
        Bounded { bound, mean, counts, stakes }
    }

    /// Whether a mean of `m` or more is refuted: K_n(m) >= 20 for the upper bound.
    pub fn shows_below(&self, m: f64) -> bool {
        0.0 < m && m < self.bound && self.refutes(&self.stakes[0], |x| (m - x) / (self.bound - m))
    }

    /// Whether a mean of `m` or less is refuted: K_n(m) >= 20 for the lower bound.
    pub fn shows_above(&self, m: f64) -> bool {
        0.0 < m && m < self.bound && self.refutes(&self.stakes[1], |x| (x - m) / m)
    }

    /// The upper bound of the mean.
    pub fn upper(&self) -> f64 {
        // At the sample's own mean nothing is won: the mean of the logarithms is at most the logarithm of the mean, 1.
        let (mut below, mut above) = (self.mean, self.bound);
        while let Some(middle) = self.between(below, above) {
            *(if self.shows_below(middle) { &mut above } else { &mut below }) = middle;
        }
        above
    }

    /// The lower bound of the mean.
    pub fn lower(&self) -> f64 {
        let (mut below, mut above) = (0.0, self.mean);
        while let Some(middle) = self.between(below, above) {
            *(if self.shows_above(middle) { &mut below } else { &mut above }) = middle;
        }
        below
    }

    fn between(&self, below: f64, above: f64) -> Option<f64> {
        (above - below > 1e-12 * self.bound).then_some(0.5 * (below + above))
    }

    /// Whether the fortune of all stakes together, multiplied by 1 + c `gain`(x) for each x, has come to [`REFUTED`].
    fn refutes(&self, stakes: &Stakes, gain: impl Fn(f64) -> f64) -> bool {
        let fortune = |(c, weight): &(f64, f64)| {
            let log = |(x, count): &(f64, f64)| count * libm::log1p(c * gain(*x));
            libm::log(*weight) + self.counts.iter().map(log).sum::<f64>()
        };
        let logs: Vec<f64> = stakes.0.iter().map(fortune).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most > f64::NEG_INFINITY
            && most + libm::log(logs.iter().map(|log| libm::exp(log - most)).sum()) >= libm::log(REFUTED)
    }
}

/// How many numbers in \[0, bound\] it takes at least to show that their mean is less than `m`: as many as do when all are
/// zero. None if no number of them can.
pub fn fewest(m: f64, bound: f64) -> Option<usize> {
    if m >= bound {
        return Some(1);
    }
    let zeros = |n: usize| Bounded { counts: vec![(0.0, n as f64)], ..Bounded::new(&[], bound) };
    let mut enough = 1usize;
    while !zeros(enough).shows_below(m) {
        enough = enough.checked_mul(2).filter(|n| *n < 1 << 50)?;
    }
    let (mut few, mut enough) = (enough / 2, enough);
    while enough - few > 1 {
        let middle = few + (enough - few) / 2;
        *(if zeros(middle).shows_below(m) { &mut enough } else { &mut few }) = middle;
    }
    Some(enough)
}

/// Clopper and Pearson's lower and upper bound of a probability after `k` of `n` trials, each with 95 %.
pub fn clopper_pearson(k: usize, n: usize) -> (f64, f64) {
    assert!(k <= n && n > 0, "{k} of {n}");
    // Seen from the failures, the lower bound is the upper one.
    (1.0 - upper_share(n - k, n), upper_share(k, n))
}

/// The p at which k or fewer of n successes have a probability of 1 - [`CONFIDENCE`].
fn upper_share(k: usize, n: usize) -> f64 {
    if k == n {
        return 1.0;
    }
    let (mut below, mut above) = (k as f64 / n as f64, 1.0);
    while above - below > 1e-15 {
        let middle = 0.5 * (below + above);
        if middle <= below || middle >= above {
            break;
        }
        *(if lower_tail(k, n, middle) <= 1.0 - CONFIDENCE { &mut above } else { &mut below }) = middle;
    }
    above
}

/// P(k or fewer of n successes), each of probability p in (k / n, 1), where the terms fall from k down.
fn lower_tail(k: usize, n: usize, p: f64) -> f64 {
    let (i, all) = (k as f64, n as f64);
    let choose = libm::lgamma(all + 1.0) - libm::lgamma(i + 1.0) - libm::lgamma(all - i + 1.0);
    let first = libm::exp(choose + i * libm::log(p) + (all - i) * libm::log1p(-p));
    let (mut term, mut sum) = (first, 0.0);
    for i in (1..=k).rev() {
        sum += term;
        term *= i as f64 / (n - i + 1) as f64 * (1.0 - p) / p;
    }
    sum + term
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected}");
    }

    fn whole() -> [Stakes; 2] {
        [Stakes::new([(1.0, 1.0)]), Stakes::new([(1.0, 1.0)])]
    }

    const COSTS: [f64; 8] = [0.0, 0.0, 3.0, 0.0, 41.0, 0.0, 7.0, 0.0];

    #[test]
    fn bounds_of_equal_numbers_by_hand() {
        // With the stake 1 a zero multiplies the fortune by 1 + m / (1 - m) = 1 / (1 - m): n of them refute m when
        // (1 - m)^n = 1/20. A one multiplies the other fortune by 1 / m.
        for n in [1, 2, 10, 59, 1000] {
            let tail = 20f64.powf(-1.0 / n as f64);
            let zeros = Bounded::with_stakes(&vec![0.0; n], 1.0, whole());
            check(zeros.upper(), 1.0 - tail, 1e-11);
            assert_eq!(zeros.lower(), 0.0);
            let ones = Bounded::with_stakes(&vec![1.0; n], 1.0, whole());
            check(ones.lower(), tail, 1e-11);
            assert_eq!(ones.upper(), 1.0);
        }
    }

    #[test]
    fn two_stakes_by_hand() {
        // Stakes 1 and 1/2 with weights 3/4 and 1/4, two numbers 0 and 1/2, bound 1, m = 0.9: the gains are 0.9 / 0.1 = 9 and
        // 0.4 / 0.1 = 4, so that K = 3/4 · 10 · 5 + 1/4 · 5.5 · 3 = 37.5 + 4.125 = 41.625. At 0.8 they are 4 and 1.5:
        // 3/4 · 5 · 2.5 + 1/4 · 3 · 1.75 = 10.6875. K = 20 where 3/4 (1+a)(1+b) + 1/4 (1+a/2)(1+b/2) = 20.
        let stakes = Stakes::new([(1.0, 3.0), (0.5, 1.0)]);
        let two = Bounded::with_stakes(&[0.5, 0.0], 1.0, [stakes.clone(), stakes]);
        assert!(two.shows_below(0.9) && !two.shows_below(0.8));
        let m = two.upper();
        let (a, b) = (m / (1.0 - m), (m - 0.5) / (1.0 - m));
        check(0.75 * (1.0 + a) * (1.0 + b) + 0.25 * (1.0 + a / 2.0) * (1.0 + b / 2.0), 20.0, 1e-7);
    }

    #[test]
    fn a_lower_bound_is_an_upper_one_seen_from_the_other_end() {
        let stakes = || [Stakes::upper(), Stakes::upper()];
        let mirrored: Vec<f64> = COSTS.iter().map(|x| 50.0 - x).collect();
        let (sample, other) =
            (Bounded::with_stakes(&COSTS, 50.0, stakes()), Bounded::with_stakes(&mirrored, 50.0, stakes()));
        check(sample.lower(), 50.0 - other.upper(), 1e-9);
        check(sample.upper(), 50.0 - other.lower(), 1e-9);
        assert!(sample.lower() > 0.01 && sample.upper() < 49.9);
    }

    #[test]
    fn what_is_shown_and_the_bounds_agree() {
        let sample = Bounded::new(&COSTS, 50.0);
        let (lower, upper) = (sample.lower(), sample.upper());
        let mean = COSTS.iter().sum::<f64>() / 8.0;
        assert!(0.0 < lower && lower < mean && mean < upper && upper < 50.0, "{lower} {upper}");
        for i in 1..500 {
            let m = f64::from(i) / 10.0;
            assert_eq!(sample.shows_below(m), m >= upper, "{m}");
            assert_eq!(sample.shows_above(m), m <= lower, "{m}");
        }
    }

    #[test]
    fn the_order_of_the_numbers_changes_no_bit_and_their_unit_only_the_scale() {
        let mut backwards = COSTS;
        backwards.reverse();
        let (a, b) = (Bounded::new(&COSTS, 50.0), Bounded::new(&backwards, 50.0));
        assert_eq!((a.lower(), a.upper()), (b.lower(), b.upper()));
        let scaled = Bounded::new(&COSTS.map(|x| x / 50.0), 1.0);
        check(50.0 * scaled.upper(), a.upper(), 1e-9);
        check(50.0 * scaled.lower(), a.lower(), 1e-9);
    }

    #[test]
    fn nothing_is_known_without_numbers_and_all_without_a_range() {
        let none = Bounded::new(&[], 10.0);
        assert_eq!((none.lower(), none.upper()), (0.0, 10.0));
        let constant = Bounded::new(&[0.0, 0.0], 0.0);
        assert_eq!((constant.lower(), constant.upper()), (0.0, 0.0));
        // An episode at the bound takes all that the stake 1 had won.
        let full = Bounded::new(&[10.0; 5], 10.0);
        assert_eq!(full.upper(), 10.0);
        assert!(full.lower() > 2.0, "{}", full.lower());
    }

    #[test]
    fn so_many_zeros_are_needed() {
        // The stake 1 alone: (1 - 25 / 1000)^n <= 1/20 from n = 119 on, as 118.3 solves it. A mixture takes a few more.
        let fewest = fewest(25.0, 1000.0).unwrap();
        assert!((119..150).contains(&fewest), "{fewest}");
        let zeros = |n: usize| Bounded::new(&vec![0.0; n], 1000.0);
        assert!(zeros(fewest).upper() <= 25.0 && zeros(fewest - 1).upper() > 25.0);
        assert_eq!(super::fewest(0.0, 10.0), None);
        assert_eq!(super::fewest(10.0, 10.0), Some(1));
    }

    #[test]
    #[should_panic(expected = "numbers from 0 to 10")]
    fn a_number_beyond_the_bound_is_a_mistake() {
        Bounded::new(&[0.0, 10.1], 10.0);
    }

    #[test]
    #[should_panic(expected = "numbers from 0 to 10")]
    fn what_is_no_number_is_a_mistake() {
        Bounded::new(&[0.0, f64::NAN], 10.0);
    }

    #[test]
    fn shares_match_their_closed_forms() {
        for n in [1, 2, 10, 100, 10_000] {
            // None of n: (1 - p)^n = 1/20.
            let tail = 0.05f64.powf(1.0 / n as f64);
            check(clopper_pearson(0, n).1, 1.0 - tail, 1e-12);
            check(clopper_pearson(n, n).0, tail, 1e-12);
            assert_eq!((clopper_pearson(0, n).0, clopper_pearson(n, n).1), (0.0, 1.0));
        }
        // One of n: (1 - p)^n + n p (1 - p)^(n-1) = 1/20.
        let p = clopper_pearson(1, 30).1;
        check((1.0 - p).powi(30) + 30.0 * p * (1.0 - p).powi(29), 0.05, 1e-12);
    }

    #[test]
    fn shares_match_published_tables() {
        // The 5 % and 95 % quantiles of Beta(3, 8) and Beta(4, 7): the 90 % interval of 3 in 10.
        let (lower, upper) = clopper_pearson(3, 10);
        check(lower, 0.0872644, 1e-6);
        check(upper, 0.6066242, 1e-6);
    }

    #[test]
    fn a_tail_adds_up_what_the_binomial_gives() {
        // n = 4, p = 0.6: 0.0256 + 0.1536 = 0.1792; with the next term, 0.3456, 0.5248.
        check(lower_tail(1, 4, 0.6), 0.1792, 1e-14);
        check(lower_tail(2, 4, 0.6), 0.5248, 1e-14);
    }
}
