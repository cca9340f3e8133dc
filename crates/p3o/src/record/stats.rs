//! Mean, spread and confidence bounds of a few independent numbers, such as one result per seed.

use serde::Serialize;

/// What a sample of independent numbers says about where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How many numbers there are.
    pub n: usize,
    /// Their mean; NaN if there are none.
    pub mean: f64,
    /// The sample standard deviation, with n - 1 in the denominator; NaN if there are fewer than two numbers.
    pub sd: f64,
    /// The least of them; NaN if there are none or one of them is NaN.
    pub min: f64,
    /// The greatest of them; NaN if there are none or one of them is NaN.
    pub max: f64,
}

/// A confidence level: the probability `p` below the quantile, and that quantile `z` of the normal distribution.
struct Level {
    p: f64,
    z: f64,
}

const TWO_SIDED_95: Level = Level { p: 0.975, z: 1.959_963_984_540_054 };
const ONE_SIDED_95: Level = Level { p: 0.95, z: 1.644_853_626_951_472_7 };

/// Above this many degrees of freedom the expansion around the normal quantile is exact to twelve digits.
const MAX_EXACT_DOF: usize = 400;

impl Summary {
    /// Summarises `values`.
    pub fn of(values: &[f64]) -> Summary {
        let n = values.len();
        let Some(&first) = values.first() else {
            return Summary { n, mean: f64::NAN, sd: f64::NAN, min: f64::NAN, max: f64::NAN };
        };
        // Sums of differences, so that equal values have exactly that mean and no spread at all.
        let mean = first + values.iter().map(|x| x - first).sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
        let sd = if n < 2 { f64::NAN } else { (squares / (n - 1) as f64).sqrt() };
        let pick = |better: fn(&f64, &f64) -> bool| {
            values.iter().copied().fold(first, |best, x| if x.is_nan() || better(&x, &best) { x } else { best })
        };
        Summary { n, mean, sd, min: pick(f64::lt), max: pick(f64::gt) }
    }

    /// The two-sided 95 % confidence interval of the mean, `mean ± t₀.₉₇₅(n-1) · sd / √n`.
    ///
    /// Fewer than two numbers say nothing about their spread: the interval is then all of the real line.
    pub fn mean_ci95(&self) -> (f64, f64) {
        match self.half_width(&TWO_SIDED_95) {
            Some(half) => (self.mean - half, self.mean + half),
            None => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    /// The one-sided 95 % upper confidence bound of the mean, `mean + t₀.₉₅(n-1) · sd / √n`.
    ///
    /// Fewer than two numbers bound nothing: the bound is then infinite.
    pub fn upper95_one_sided(&self) -> f64 {
        self.half_width(&ONE_SIDED_95).map_or(f64::INFINITY, |half| self.mean + half)
    }

    /// The two-sided 95 % confidence interval of the difference between this mean and another's (Welch); the fractional
    /// degrees of freedom are rounded down, to the wider interval.
    pub fn difference_ci95(&self, other: &Summary) -> (f64, f64) {
        let share = |s: &Summary| s.sd * s.sd / s.n as f64;
        let (a, b) = (share(self), share(other));
        let rest = |s: &Summary, share: f64| share * share / (s.n as f64 - 1.0);
        let difference = self.mean - other.mean;
        if self.n < 2 || other.n < 2 {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        if a + b == 0.0 {
            return (difference, difference);
        }
        let dof = (a + b) * (a + b) / (rest(self, a) + rest(other, b));
        let half = student_t_quantile(&TWO_SIDED_95, (dof as usize).max(1)) * (a + b).sqrt();
        (difference - half, difference + half)
    }

    fn half_width(&self, level: &Level) -> Option<f64> {
        let dof = self.n.checked_sub(1).filter(|&dof| dof > 0)?;
        Some(student_t_quantile(level, dof) * self.sd / (self.n as f64).sqrt())
    }
}

fn student_t_quantile(level: &Level, dof: usize) -> f64 {
    if dof > MAX_EXACT_DOF { expanded_quantile(level.z, dof) } else { bisected_quantile(level.p, dof) }
}

/// The central probability `P(|T| < t)` of Student's t, by its finite sums (Abramowitz & Stegun 26.7.3 and 26.7.4).
///
/// All terms are positive, so nothing cancels.
fn central_probability(t: f64, dof: usize) -> f64 {
    let nu = dof as f64;
    let sin = t / (nu + t * t).sqrt();
    let cos_squared = nu / (nu + t * t);
    let odd = dof % 2 == 1;
    let mut term = if odd { cos_squared.sqrt() } else { 1.0 };
    let mut sum = 0.0;
    // The powers of the cosine are 1, 3, ..., dof - 2 for an odd dof and 0, 2, ..., dof - 2 for an even one.
    let mut power = if odd { 1 } else { 0 };
    while power + 2 <= dof {
        sum += term;
        term *= cos_squared * (power + 1) as f64 / (power + 2) as f64;
        power += 2;
    }
    if odd { (libm::atan(t / nu.sqrt()) + sin * sum) * std::f64::consts::FRAC_2_PI } else { sin * sum }
}

fn bisected_quantile(p: f64, dof: usize) -> f64 {
    let central = 2.0 * p - 1.0;
    let (mut low, mut high) = (0.0, 1.0);
    while central_probability(high, dof) < central {
        high *= 2.0;
    }
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return middle;
        }
        if central_probability(middle, dof) < central {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// The expansion in 1/dof around the normal quantile `z` (Abramowitz & Stegun 26.7.5).
fn expanded_quantile(z: f64, dof: usize) -> f64 {
    let nu = dof as f64;
    let y = z * z;
    let g1 = z * (y + 1.0) / 4.0;
    let g2 = z * ((5.0 * y + 16.0) * y + 3.0) / 96.0;
    let g3 = z * (((3.0 * y + 19.0) * y + 17.0) * y - 15.0) / 384.0;
    let g4 = z * ((((79.0 * y + 776.0) * y + 1482.0) * y - 1920.0) * y - 945.0) / 92160.0;
    z + (g1 + (g2 + (g3 + g4 / nu) / nu) / nu) / nu
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected}");
    }

    #[test]
    fn quantiles_match_published_tables() {
        let two_sided = [
            (1, 12.7062047),
            (2, 4.30265273),
            (3, 3.18244631),
            (4, 2.77644511),
            (9, 2.26215716),
            (29, 2.04522964),
            (199, 1.97195654),
        ];
        for (dof, t) in two_sided {
            check(student_t_quantile(&TWO_SIDED_95, dof), t, 1e-7);
        }
        for (dof, t) in [(1, 6.31375151), (2, 2.91998558), (9, 1.83311293)] {
            check(student_t_quantile(&ONE_SIDED_95, dof), t, 1e-7);
        }
    }

    #[test]
    fn one_and_two_degrees_of_freedom_match_their_closed_forms() {
        // dof 1 is the Cauchy distribution: t = tan(π (p - 1/2)). dof 2: t = (2p - 1) / √(2 p (1 - p)).
        for level in [TWO_SIDED_95, ONE_SIDED_95] {
            let p = level.p;
            check(student_t_quantile(&level, 1), (std::f64::consts::PI * (p - 0.5)).tan(), 1e-12);
            check(student_t_quantile(&level, 2), (2.0 * p - 1.0) / (2.0 * p * (1.0 - p)).sqrt(), 1e-12);
        }
    }

    #[test]
    fn the_two_methods_agree_where_they_meet_and_tend_to_the_normal() {
        for level in [TWO_SIDED_95, ONE_SIDED_95] {
            for dof in [MAX_EXACT_DOF, MAX_EXACT_DOF + 1] {
                check(bisected_quantile(level.p, dof), expanded_quantile(level.z, dof), 2e-12);
            }
            check(student_t_quantile(&level, usize::MAX), level.z, 1e-15);
            let mut previous = f64::INFINITY;
            for dof in 1..2 * MAX_EXACT_DOF {
                let t = student_t_quantile(&level, dof);
                assert!(t < previous && t > level.z, "dof {dof}: {t} after {previous}");
                previous = t;
            }
        }
    }

    #[test]
    fn five_numbers_by_hand() {
        // Mean (2 + 4 + 4 + 5 + 10) / 5 = 5; squared deviations 9 + 1 + 1 + 0 + 25 = 36; sd = √(36 / 4) = 3.
        // Half width 2.77644511 · 3 / √5 = 8.32933533 / 2.23606798 = 3.72499200.
        let summary = Summary::of(&[4.0, 2.0, 10.0, 4.0, 5.0]);
        assert_eq!(summary, Summary { n: 5, mean: 5.0, sd: 3.0, min: 2.0, max: 10.0 });
        let (low, high) = summary.mean_ci95();
        check(low, 1.275008, 1e-6);
        check(high, 8.724992, 1e-6);
    }

    #[test]
    fn ten_numbers_by_hand() {
        // 1 to 10: mean 5.5, squared deviations 2 (0.25 + 2.25 + 6.25 + 12.25 + 20.25) = 82.5, sd = √(82.5 / 9);
        // sd / √10 = √(82.5 / 90) = 0.95742711, and the bound is 5.5 + 1.83311293 · 0.95742711 = 7.25507201.
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let summary = Summary::of(&values);
        check(summary.sd, 3.027_650_354, 1e-9);
        check(summary.upper95_one_sided(), 7.255072, 1e-6);
    }

    #[test]
    fn two_samples_by_hand() {
        // Variances 4 and 16 of four numbers each: shares 1 and 4, 25 / (1/3 + 16/3) = 4.41 degrees of freedom, so four
        // with t = 2.776445; the half-width is 2.776445 sqrt(5) = 6.208320.
        let a = Summary { n: 4, mean: 10.0, sd: 2.0, min: 0.0, max: 0.0 };
        let b = Summary { n: 4, mean: 3.0, sd: 4.0, min: 0.0, max: 0.0 };
        let (low, high) = a.difference_ci95(&b);
        check(low, 7.0 - 6.208_320, 1e-5);
        check(high, 7.0 + 6.208_320, 1e-5);
        let (back, _) = b.difference_ci95(&a);
        check(back, -high, 1e-12);
        let alike = Summary { sd: 0.0, ..a };
        assert_eq!(alike.difference_ci95(&alike), (0.0, 0.0));
        let one = Summary::of(&[1.0]);
        assert_eq!(a.difference_ci95(&one), (f64::NEG_INFINITY, f64::INFINITY));
    }

    #[test]
    fn too_few_numbers_bound_nothing() {
        let one = Summary::of(&[3.0]);
        assert_eq!((one.n, one.mean, one.min, one.max), (1, 3.0, 3.0, 3.0));
        assert!(one.sd.is_nan());
        let none = Summary::of(&[]);
        assert_eq!(none.n, 0);
        assert!(none.mean.is_nan() && none.sd.is_nan() && none.min.is_nan() && none.max.is_nan());
        for summary in [one, none] {
            assert_eq!(summary.mean_ci95(), (f64::NEG_INFINITY, f64::INFINITY));
            assert_eq!(summary.upper95_one_sided(), f64::INFINITY);
        }
    }

    #[test]
    fn equal_numbers_have_no_spread() {
        // 0.1 summed ten times is 0.9999999999999999, a tenth of which is not 0.1.
        let summary = Summary::of(&[0.1; 10]);
        assert_eq!(summary, Summary { n: 10, mean: 0.1, sd: 0.0, min: 0.1, max: 0.1 });
        assert_eq!(summary.mean_ci95(), (0.1, 0.1));
    }

    #[test]
    fn a_large_offset_costs_no_digits() {
        // The sample 4, 7, 13, 16 has mean 10 and variance (36 + 9 + 9 + 36) / 3 = 30.
        let summary = Summary::of(&[1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]);
        assert_eq!((summary.mean, summary.sd), (1e9 + 10.0, 30f64.sqrt()));
    }

    #[test]
    fn nan_shows_wherever_it_stands() {
        for values in [[f64::NAN, 1.0, 2.0], [1.0, f64::NAN, 2.0], [1.0, 2.0, f64::NAN]] {
            let summary = Summary::of(&values);
            assert!(summary.mean.is_nan() && summary.sd.is_nan() && summary.min.is_nan() && summary.max.is_nan());
            assert!(summary.upper95_one_sided().is_nan());
        }
    }
}
