//! What the results say of the paper's claims.
//!
//! A claim has two one-sided p values over the seeds: of what it says and of the opposite. Twice the smaller is its p value, so that
//! below 0.05 stands what a 95 % interval leaves no doubt about. Over all claims of a report, each counted once, Holm's correction
//! decides which of them agree or differ: the probability of one wrong verdict among all is at most [`LEVEL`].

use super::data::{Claim, Kind};
use super::results::{Results, Spot, short};
use crate::statistics::{Interval, Tails, contrast, difference_ci95, holm, mean_ci95};
use std::collections::HashMap;

/// The probability of a single wrong verdict in a report, at most.
pub const LEVEL: f64 = 0.05;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The results say the same.
    Agrees,
    /// The results say the opposite.
    Differs,
    /// The results leave it open among so many claims, there are fewer than two seeds, one of them failed, the compared runs are
    /// the same, or they are too short to say.
    NotDecided,
}

/// A claim with its verdict and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// What became of it.
    pub verdict: Verdict,
    /// The figures.
    pub evidence: String,
    /// The experiment that has the same claim about the same runs before, and where it counts.
    pub before: Option<usize>,
}

/// The verdicts of a report.
pub struct Judged {
    /// For every experiment and group those of its claims.
    pub claims: Vec<Vec<Vec<Judgement>>>,
    /// How many different claims there are.
    pub distinct: usize,
    /// How many of them would be decided but for the correction.
    pub undecided: usize,
}

/// A claim before all are looked at together.
struct Weighed {
    /// What distinguishes it.
    key: String,
    evidence: String,
    p: Sides,
}

/// The p values of a claim: of what it says, and of the opposite.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sides {
    agrees: f64,
    differs: f64,
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
}

impl Sides {
    /// Nothing can be said.
    const OPEN: Sides = Sides { agrees: 1.0, differs: 1.0 };

    /// The claim that a sum is above a number.
    fn above(tails: Tails) -> Sides {
        Sides { agrees: tails.above, differs: tails.below }
    }

    /// The claim that it is below.
    fn below(tails: Tails) -> Sides {
        Sides { agrees: tails.below, differs: tails.above }
    }

    /// The claim that all of several sums are above their lower and below their upper ends (two one-sided tests each).
    fn inside(ends: &[(Tails, Tails)]) -> Sides {
        let agrees = ends.iter().map(|(low, high)| low.above.max(high.below)).fold(0.0, f64::max);
        let outside = ends.iter().map(|(low, high)| low.below.min(high.above)).fold(1.0, f64::min);
        // One of several is outside: Bonferroni's.
        Sides { agrees, differs: (outside * ends.len() as f64).min(1.0) }
    }

    /// Of a verdict for either side.
    fn p(self) -> f64 {
        (2.0 * self.agrees.min(self.differs)).min(1.0)
    }

    fn verdict(self, is_decided: bool) -> Verdict {
        match is_decided {
            true if self.agrees < self.differs => Verdict::Agrees,
            true => Verdict::Differs,
            false => Verdict::NotDecided,
        }
    }
}

/// Judges all claims of a plan's experiments.
pub fn judge(results: &Results) -> Judged {
    let mut weighed: Vec<Weighed> = Vec::new();
    let mut first: HashMap<String, (usize, usize)> = HashMap::new();
    let mut places: Vec<(usize, usize, usize, Option<usize>)> = Vec::new();
    for (e, experiment) in results.plan.experiments.iter().enumerate() {
        for (g, group) in experiment.group.iter().enumerate() {
            for claim in &group.claims {
                let claim = weigh(results, (e, g), claim);
                let known = first.get(&claim.key).copied();
                let (index, before) = known.map_or((weighed.len(), None), |(index, e)| (index, Some(e)));
                if before.is_none() {
                    first.insert(claim.key.clone(), (index, e));
                    weighed.push(claim);
                }
                places.push((e, g, index, before));
            }
        }
    }
    let p: Vec<f64> = weighed.iter().map(|claim| claim.p.p()).collect();
    let decided = holm(&p, LEVEL);
    let empty = |e: &super::Experiment| vec![Vec::new(); e.group.len()];
    let mut claims: Vec<Vec<Vec<Judgement>>> = results.plan.experiments.iter().map(empty).collect();
    for (e, g, index, before) in places {
        let Weighed { p, evidence, .. } = &weighed[index];
        let title = |e: usize| results.plan.experiments[e].title.split(':').next().unwrap_or_default();
        let repeated =
            before.map_or(String::new(), |e| format!("; the same runs and claim as in {}: counted there", title(e)));
        let evidence = format!("{evidence}{repeated}");
        claims[e][g].push(Judgement { verdict: p.verdict(decided[index]), evidence, before });
    }
    let undecided = p.iter().zip(&decided).filter(|(p, decided)| **p <= LEVEL && !**decided).count();
    Judged { claims, distinct: weighed.len(), undecided }
}

/// What one claim about a group rests on.
fn weigh(results: &Results, (experiment, group): (usize, usize), claim: &Claim) -> Weighed {
    let place = |name: &str| Spot { experiment, group, curve: results.curve_named(experiment, group, name) };
    let cost = claim.cost.clone().unwrap_or_else(|| results.costs(experiment, group)[0].clone());
    let than = claim.than.clone().unwrap_or_default();
    let spots: Vec<Spot> = match claim.kind {
        Kind::StableOver => claim.all.iter().map(|name| place(name)).collect(),
        _ => [&claim.a, &claim.b].into_iter().filter(|n| !n.is_empty()).map(|name| place(name)).collect(),
    };
    let failed: usize = spots.iter().map(|spot| results.failed(*spot)).sum();
    let limit = results.limit(spots[0], &cost).unwrap_or(f64::NAN);
    let measure = |spot: &Spot| -> Vec<f64> {
        match claim.kind {
            Kind::HigherReturn | Kind::StableOver => results.returns(*spot),
            Kind::Earns => results.likeliest_returns(*spot),
            Kind::KeepsLimit | Kind::Violates | Kind::LowerCost => results.finals(*spot, &cost),
            Kind::ReachesLimit => results.reached(*spot, &cost),
            Kind::NearerLimit => results.finals(*spot, &cost).iter().map(|c| (c - limit).abs()).collect(),
            Kind::MoreOvershoot => results.overshoots(*spot, &cost).iter().map(|o| o.share_of_steps).collect(),
            Kind::LessSteady => results.changes(*spot),
            Kind::EarlierOver => results.earlier_over(*spot, &cost, &than),
        }
    };
    let values: Vec<Vec<f64>> = spots.iter().map(measure).collect();
    let seeds = values.iter().map(Vec::len).min().unwrap_or(0);
    let alike = results.are_alike(&spots)
        || claim.unlike.as_ref().is_some_and(|name| results.are_alike(&[spots[0], place(name)]));
    // Runs that failed may have been the ones that tell.
    let is_open = seeds < 2 || failed > 0 || alike || !results.plan.scale.decides;
    let p = if is_open { Sides::OPEN } else { sides(claim, &values, limit) };
    let runs: Vec<&[usize]> = spots.iter().map(|spot| results.jobs(*spot)).collect();
    let key = format!("{:?} {runs:?} {cost} {than} {limit} {} {} {}", claim.kind, claim.by, claim.within, claim.least);
    let mut evidence = format!("{} of {}", what(claim, &cost, &than), figures(results, claim, &spots, &values));
    evidence += &against(claim, &values, limit);
    if alike {
        let of = claim.unlike.as_ref().map_or(String::new(), |name| format!(" as those of {name}"));
        evidence += &format!("; the runs are the same{of}");
    }
    if failed > 0 {
        evidence += &format!("; {failed} failed");
    }
    if !is_open {
        evidence += &if p.p() < 1e-4 { "; p < 0.0001".to_string() } else { format!("; p = {:.4}", p.p()) };
    }
    Weighed { key, evidence, p }
}

/// The rules themselves, for one, two or several samples.
fn sides(claim: &Claim, values: &[Vec<f64>], limit: f64) -> Sides {
    let against = |number: f64| contrast(&[(1.0, &values[0][..])], number);
    let less = |weight: f64| contrast(&[(1.0, &values[0][..]), (-weight, &values[1][..])], 0.0);
    match claim.kind {
        Kind::KeepsLimit => Sides::below(against(limit)),
        Kind::Violates => Sides::above(against(limit)),
        Kind::ReachesLimit => Sides::inside(&[(against(1.0 - claim.within), against(1.0 + claim.within))]),
        Kind::HigherReturn => Sides::above(less(goal(claim.by, &values[1]))),
        Kind::Earns => Sides::above(against(claim.least)),
        Kind::MoreOvershoot | Kind::LessSteady => Sides::above(less(1.0)),
        Kind::LowerCost | Kind::NearerLimit => Sides::below(less(1.0)),
        Kind::EarlierOver => Sides::above(against(0.0)),
        Kind::StableOver => stable(values, claim.within),
    }
}

/// What `b` is multiplied by to be higher by a share of its size: returns may be negative.
fn goal(by: f64, b: &[f64]) -> f64 {
    1.0 + by * mean_ci95(b).mean.signum()
}

/// Whether the mean of each sample is within a share of the mean of all.
fn stable(values: &[Vec<f64>], within: f64) -> Sides {
    let share = 1.0 / values.len() as f64;
    let centre: f64 = values.iter().map(|v| share * mean_ci95(v).mean).sum();
    let ends = (0..values.len()).map(|i| {
        // The mean of sample i, less so much of the mean of all.
        let end = |part: f64| {
            let weight = |k: usize| if k == i { 1.0 - part * share } else { -part * share };
            let weighted: Vec<(f64, &[f64])> = values.iter().enumerate().map(|(k, v)| (weight(k), &v[..])).collect();
            contrast(&weighted, 0.0)
        };
        let away = within * centre.signum();
        (end(1.0 - away), end(1.0 + away))
    });
    Sides::inside(&ends.collect::<Vec<_>>())
}

/// What a claim measures.
fn what(claim: &Claim, cost: &str, than: &str) -> String {
    match claim.kind {
        Kind::HigherReturn | Kind::StableOver => "return".into(),
        Kind::Earns => "return of the likeliest actions".into(),
        Kind::KeepsLimit | Kind::Violates | Kind::LowerCost => cost.into(),
        Kind::ReachesLimit => format!("{cost} by the limit trained for"),
        Kind::NearerLimit => "distance to the limit".into(),
        Kind::MoreOvershoot => "share of training over the limit".into(),
        Kind::LessSteady => "change of return from row to row".into(),
        Kind::EarlierOver => format!("steps by which {cost} is over its limit before {than}"),
    }
}

/// Means with their intervals.
fn figures(results: &Results, claim: &Claim, spots: &[Spot], values: &[Vec<f64>]) -> String {
    let shown = |(spot, values): (&Spot, &Vec<f64>)| format!("{}: {}", results.name(*spot), range(&mean_ci95(values)));
    let mut text = spots.iter().zip(values).map(shown).collect::<Vec<_>>().join(", ");
    // Without a run of the other its mean has no sign.
    if claim.kind == Kind::HigherReturn && claim.by != 0.0 && !values[1].is_empty() {
        let goal = goal(claim.by, &values[1]);
        let b: Vec<f64> = values[1].iter().map(|x| goal * x).collect();
        text += &format!("; less {goal:.2} times the other: {}", range(&difference_ci95(&values[0], &b)));
    }
    text
}

/// What the figures are held against.
fn against(claim: &Claim, values: &[Vec<f64>], limit: f64) -> String {
    match claim.kind {
        Kind::KeepsLimit | Kind::Violates => {
            let kept = values[0].iter().filter(|cost| **cost <= limit).count();
            format!("; limit {limit}, kept by {kept} of {}", values[0].len())
        }
        Kind::HigherReturn => {
            let (a, b) = (mean_ci95(&values[0]).mean, mean_ci95(&values[1]).mean);
            if b > 0.0 && a.is_finite() { format!("; {:+.0} %", 100.0 * (a / b - 1.0)) } else { String::new() }
        }
        Kind::Earns => format!("; at least {}", claim.least),
        _ => String::new(),
    }
}

/// An estimate with the ends of its interval, as far as they are known.
pub(super) fn range(x: &Interval) -> String {
    match (x.mean.is_nan(), x.low.is_finite()) {
        (true, _) => "-".into(),
        (_, false) => short(x.mean),
        _ => format!("{} ({} to {})", short(x.mean), short(x.low), short(x.high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five values around a mean, one tenth of it apart: the half-width of its interval is 2.776 · 0.158 / √5 = 0.196 of it.
    fn around(mean: f64) -> Vec<f64> {
        [0.8, 0.9, 1.0, 1.1, 1.2].map(|share| share * mean).to_vec()
    }

    fn claim(kind: Kind, within: f64, by: f64) -> Claim {
        let (a, b) = ("a".to_string(), "b".to_string());
        Claim {
            kind,
            paper: String::new(),
            a,
            b,
            all: Vec::new(),
            cost: None,
            than: None,
            unlike: None,
            within,
            by,
            least: 30.0,
        }
    }

    fn check(claim: &Claim, values: &[Vec<f64>], limit: f64, expected: Verdict) {
        let sides = sides(claim, values, limit);
        assert_eq!(sides.verdict(sides.p() <= LEVEL), expected, "{claim:?} of {values:?}: {sides:?}");
    }

    #[test]
    fn a_return_is_reached_missed_or_neither() {
        // 40 ± 7.9, 20 ± 3.9 and 33 ± 6.5 against 30.
        let earns = claim(Kind::Earns, 0.0, 0.0);
        check(&earns, &[around(40.0)], 50.0, Verdict::Agrees);
        check(&earns, &[around(20.0)], 50.0, Verdict::Differs);
        check(&earns, &[around(33.0)], 50.0, Verdict::NotDecided);
    }

    #[test]
    fn a_limit_is_kept_broken_or_neither() {
        // 40 ± 7.9, 65 ± 12.8 and 45 ± 8.8 against 50.
        for (mean, kept, broken) in [
            (40.0, Verdict::Agrees, Verdict::Differs),
            (65.0, Verdict::Differs, Verdict::Agrees),
            (45.0, Verdict::NotDecided, Verdict::NotDecided),
        ] {
            check(&claim(Kind::KeepsLimit, 0.0, 0.0), &[around(mean)], 50.0, kept);
            check(&claim(Kind::Violates, 0.0, 0.0), &[around(mean)], 50.0, broken);
        }
    }

    #[test]
    fn more_by_a_share_can_be_contradicted_by_less_and_by_little_more() {
        let is = |by: f64, a: f64, b: f64, expected| {
            check(&claim(Kind::HigherReturn, 0.0, by), &[around(a), around(b)], 0.0, expected);
        };
        // 100 ± 20 and 200 ± 39: twice as much is more, and more by a fifth, but not three times as much.
        is(0.0, 200.0, 100.0, Verdict::Agrees);
        is(0.2, 200.0, 100.0, Verdict::Agrees);
        is(2.0, 200.0, 100.0, Verdict::Differs);
        is(0.9, 200.0, 100.0, Verdict::NotDecided);
        is(0.0, 100.0, 200.0, Verdict::Differs);
        // Two fifths less are allowed, or a tenth; half as much is less than that.
        is(-0.4, 100.0, 100.0, Verdict::Agrees);
        is(-0.1, 100.0, 100.0, Verdict::NotDecided);
        is(-0.1, 50.0, 100.0, Verdict::Differs);
        // Returns may be negative: three tenths more than -100 is -70.
        is(0.3, -40.0, -100.0, Verdict::Agrees);
        is(0.3, -100.0, -100.0, Verdict::Differs);
        check(&claim(Kind::LowerCost, 0.0, 0.0), &[around(100.0), around(200.0)], 0.0, Verdict::Agrees);
    }

    #[test]
    fn a_band_holds_all_of_them_or_misses_one() {
        // Five values a hundredth apart: the half-width is 0.0196 of their mean.
        let narrow = |mean: f64| [0.98, 0.99, 1.0, 1.01, 1.02].map(|share| share * mean).to_vec();
        let stable = claim(Kind::StableOver, 0.2, 0.0);
        // The mean of 90 and 110 is 100; a fifth of it is 20.
        check(&stable, &[narrow(90.0), narrow(110.0)], 0.0, Verdict::Agrees);
        check(&stable, &[narrow(70.0), narrow(130.0)], 0.0, Verdict::Differs);
        check(&stable, &[narrow(80.0), narrow(120.0)], 0.0, Verdict::NotDecided);
        check(&stable, &[around(90.0), around(110.0)], 0.0, Verdict::NotDecided);
        check(&stable, &[narrow(-90.0), narrow(-110.0)], 0.0, Verdict::Agrees);
        check(&stable, &[narrow(-70.0), narrow(-130.0)], 0.0, Verdict::Differs);
        // A tenth around one.
        let reaches = claim(Kind::ReachesLimit, 0.1, 0.0);
        check(&reaches, &[narrow(1.05)], 0.0, Verdict::Agrees);
        check(&reaches, &[narrow(0.85)], 0.0, Verdict::Differs);
        check(&reaches, &[narrow(1.15)], 0.0, Verdict::Differs);
        check(&reaches, &[narrow(1.1)], 0.0, Verdict::NotDecided);
    }

    #[test]
    fn one_of_many_outside_a_band_is_counted_as_many() {
        let far = Tails { above: 0.99, below: 0.01 };
        let near = Tails { above: 0.3, below: 0.7 };
        // Three samples: 3 · 0.01; agreement is as weak as its weakest part, 0.99.
        let of_three = Sides::inside(&[(far, near), (near, near), (near, near)]);
        assert_eq!(of_three, Sides { agrees: 0.99, differs: 0.03 });
        assert_eq!(of_three.p(), 0.06);
    }

    #[test]
    fn what_comes_earlier_is_earlier_in_the_mean() {
        let earlier = claim(Kind::EarlierOver, 0.0, 0.0);
        check(&earlier, &[vec![1e5, 2e5, 1.5e5]], 0.0, Verdict::Agrees);
        check(&earlier, &[vec![-1e5, -2e5, -1.5e5]], 0.0, Verdict::Differs);
        check(&earlier, &[vec![0.0, 0.0, 0.0]], 0.0, Verdict::NotDecided);
    }
}
