//! What the results say of the paper's claims, by rules that look at 95 % intervals over the seeds.

use super::data::{Claim, Kind};
use super::results::{Results, Spot};
use crate::statistics::{Interval, difference_ci95, mean_ci95};

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The intervals say the same.
    Agrees,
    /// The intervals say the opposite.
    Differs,
    /// The intervals overlap, there are fewer than two seeds, one of them failed, or the runs are too short to say.
    NotDecided,
}

/// A claim with its verdict and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// What became of it.
    pub verdict: Verdict,
    /// The figures.
    pub evidence: String,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::NotDecided => "not decided",
        }
    }

    fn of(agrees: bool, differs: bool) -> Verdict {
        match (agrees, differs) {
            (true, _) => Verdict::Agrees,
            (_, true) => Verdict::Differs,
            _ => Verdict::NotDecided,
        }
    }
}

/// Judges a claim about a group.
pub fn judge(results: &Results, (experiment, group): (usize, usize), claim: &Claim) -> Judgement {
    let place = |name: &str| Spot { experiment, group, curve: results.curve_named(experiment, group, name) };
    let cost = claim.cost.clone().unwrap_or_else(|| results.costs(experiment, group)[0].clone());
    let spots: Vec<Spot> = match claim.kind {
        Kind::StableOver => claim.all.iter().map(|name| place(name)).collect(),
        _ => [&claim.a, &claim.b].into_iter().filter(|n| !n.is_empty()).map(|name| place(name)).collect(),
    };
    let failed: usize = spots.iter().map(|spot| results.failed(*spot)).sum();
    let limit = results.limit(spots[0], &cost).unwrap_or(f64::NAN);
    let measure = |spot: &Spot| -> Vec<f64> {
        match claim.kind {
            Kind::HigherReturn | Kind::StableOver => results.returns(*spot),
            Kind::KeepsLimit | Kind::Violates | Kind::ReachesLimit | Kind::LowerCost => results.finals(*spot, &cost),
            Kind::NearerLimit => results.finals(*spot, &cost).iter().map(|c| (c - limit).abs()).collect(),
            Kind::MoreOvershoot => results.overshoots(*spot, &cost).iter().map(|o| o.share_of_steps).collect(),
            Kind::LessSteady => results.changes(*spot),
        }
    };
    let values: Vec<Vec<f64>> = spots.iter().map(measure).collect();
    let seeds = values.iter().map(Vec::len).min().unwrap_or(0);
    let intervals: Vec<Interval> = values.iter().map(|v| mean_ci95(v)).collect();
    // Runs that failed may have been the ones that tell.
    let verdict = if seeds < 2 || failed > 0 || !results.plan.scale.decides {
        Verdict::NotDecided
    } else {
        match &values[..] {
            [a, b] if claim.kind != Kind::StableOver => rule(claim.kind, &[difference_ci95(a, b)], limit, claim.within),
            _ => rule(claim.kind, &intervals, limit, claim.within),
        }
    };
    let names = spots.iter().map(|s| results.name(*s));
    let shown: Vec<String> = names.zip(&intervals).map(|(name, x)| format!("{name}: {}", range(x))).collect();
    let against = match claim.kind {
        Kind::KeepsLimit | Kind::Violates | Kind::ReachesLimit => {
            let kept = values[0].iter().filter(|cost| **cost <= limit).count();
            format!("; limit {limit}, kept by {kept} of {}", values[0].len())
        }
        Kind::HigherReturn if intervals[1].mean > 0.0 => {
            format!("; {:+.0} %", 100.0 * (intervals[0].mean / intervals[1].mean - 1.0))
        }
        _ => String::new(),
    };
    let what = match claim.kind {
        Kind::HigherReturn | Kind::StableOver => "return",
        Kind::KeepsLimit | Kind::Violates | Kind::ReachesLimit | Kind::LowerCost => cost.as_str(),
        Kind::NearerLimit => "distance to the limit",
        Kind::MoreOvershoot => "share of training over the limit",
        Kind::LessSteady => "change of return from row to row",
    };
    let left_out = if failed > 0 { format!("; {failed} failed") } else { String::new() };
    let evidence = format!("{what} of {}{against}{left_out}", shown.join(", "));
    Judgement { verdict, evidence }
}

/// The rules themselves. Of two curves `x` is the difference.
fn rule(kind: Kind, x: &[Interval], limit: f64, within: f64) -> Verdict {
    let a = &x[0];
    match kind {
        Kind::KeepsLimit => Verdict::of(a.high <= limit, a.low > limit),
        Kind::Violates => Verdict::of(a.low > limit, a.high <= limit),
        Kind::ReachesLimit => band(std::slice::from_ref(a), limit, within),
        Kind::HigherReturn | Kind::MoreOvershoot | Kind::LessSteady => Verdict::of(a.low > 0.0, a.high < 0.0),
        Kind::LowerCost | Kind::NearerLimit => Verdict::of(a.high < 0.0, a.low > 0.0),
        Kind::StableOver => band(x, x.iter().map(|x| x.mean).sum::<f64>() / x.len() as f64, within),
    }
}

/// Whether all intervals are inside a band around `centre`, or one is wholly outside.
fn band(x: &[Interval], centre: f64, within: f64) -> Verdict {
    let (low, high) = (centre - within * centre.abs(), centre + within * centre.abs());
    let inside = x.iter().all(|x| low <= x.low && x.high <= high);
    let outside = x.iter().any(|x| x.high < low || high < x.low);
    Verdict::of(inside, outside)
}

/// An estimate with the ends of its interval, as far as they are known.
pub(super) fn range(x: &Interval) -> String {
    let number = super::results::short;
    match (x.mean.is_nan(), x.low.is_finite()) {
        (true, _) => "-".into(),
        (_, false) => number(x.mean),
        _ => format!("{} ({} to {})", number(x.mean), number(x.low), number(x.high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn x(low: f64, high: f64) -> Interval {
        Interval { mean: (low + high) / 2.0, low, high }
    }

    #[test]
    fn a_limit_is_kept_broken_or_neither() {
        for (interval, kept, broken) in [
            (x(40.0, 50.0), Verdict::Agrees, Verdict::Differs),
            (x(51.0, 60.0), Verdict::Differs, Verdict::Agrees),
            (x(45.0, 55.0), Verdict::NotDecided, Verdict::NotDecided),
        ] {
            assert_eq!(rule(Kind::KeepsLimit, &[interval], 50.0, 0.0), kept);
            assert_eq!(rule(Kind::Violates, &[interval], 50.0, 0.0), broken);
        }
    }

    #[test]
    fn two_curves_differ_when_zero_is_outside_the_interval_of_their_difference() {
        for (difference, higher, lower) in [
            (x(0.1, 2.0), Verdict::Agrees, Verdict::Differs),
            (x(-2.0, -0.1), Verdict::Differs, Verdict::Agrees),
            (x(-0.1, 2.0), Verdict::NotDecided, Verdict::NotDecided),
        ] {
            assert_eq!(rule(Kind::HigherReturn, &[difference], 0.0, 0.0), higher);
            assert_eq!(rule(Kind::LowerCost, &[difference], 0.0, 0.0), lower);
        }
    }

    #[test]
    fn a_band_holds_all_of_them_or_misses_one() {
        // The mean of 90 and 110 is 100; a fifth of it is 20.
        assert_eq!(rule(Kind::StableOver, &[x(85.0, 95.0), x(105.0, 115.0)], 0.0, 0.2), Verdict::Agrees);
        // 70 and 130: 130 ± 5 lies beyond 120.
        assert_eq!(rule(Kind::StableOver, &[x(65.0, 75.0), x(125.0, 135.0)], 0.0, 0.2), Verdict::Differs);
        // 79 is below 80, but its interval reaches in.
        assert_eq!(rule(Kind::StableOver, &[x(70.0, 88.0), x(112.0, 130.0)], 0.0, 0.2), Verdict::NotDecided);
        // The limit 50 with a tenth: 45 to 55.
        assert_eq!(rule(Kind::ReachesLimit, &[x(46.0, 54.0)], 50.0, 0.1), Verdict::Agrees);
        assert_eq!(rule(Kind::ReachesLimit, &[x(30.0, 44.0)], 50.0, 0.1), Verdict::Differs);
        // Returns may be negative: -100 ± 20.
        assert_eq!(rule(Kind::StableOver, &[x(-110.0, -90.0)], 0.0, 0.2), Verdict::Agrees);
    }
}
