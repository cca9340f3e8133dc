//! The paper's claims, computed: exact policy evaluation and linear programs on the five known CMDPs and on random ones.
//!
//! Every claim is a function that returns a [`Check`]. Where the paper says a little more than is true, a check with the
//! verdict [`Verdict::Finding`] shows the exception; it is no failure, for the algorithm does not rest on it.

use crate::adversary::{self, WorstCase};
use crate::cmdp::dot;
use crate::lp::{self, Unsolved};
use crate::{Cmdp, Evaluation, instances};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// How much the two sides of an equation between programs may differ: they are solved to about 1e-11.
const TOLERANCE: f64 = 1e-7;

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It holds wherever it was computed.
    Holds,
    /// It does not.
    Fails,
    /// An exception to the paper's words, shown by an example.
    Finding,
}

/// One claim and what was computed about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What the paper says.
    pub claim: String,
    /// What was computed.
    pub computed: String,
    /// What came of it.
    pub verdict: Verdict,
}

impl Check {
    fn new(claim: &str, holds: bool, computed: String) -> Check {
        let verdict = if holds { Verdict::Holds } else { Verdict::Fails };
        Check { claim: claim.to_string(), computed, verdict }
    }

    /// An exception that is there as described; if it is not, the description is wrong and the check fails.
    fn finding(claim: &str, there: bool, computed: String) -> Check {
        let verdict = if there { Verdict::Finding } else { Verdict::Fails };
        Check { claim: claim.to_string(), computed, verdict }
    }
}

/// How much to compute.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Decides every random CMDP and policy.
    pub seed: u64,
    /// Random CMDPs beside the five known ones.
    pub random: usize,
    /// Pairs of policies per CMDP for Theorem 3.
    pub pairs: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { seed: 0, random: 40, pairs: 500 }
    }
}

/// All claims, in the paper's order.
pub fn all(effort: &Effort) -> Result<Vec<Check>, Unsolved> {
    let mut rng = ChaCha8Rng::seed_from_u64(effort.seed);
    let mut cmdps: Vec<Cmdp> = instances::all().into_iter().map(|known| known.cmdp).collect();
    cmdps.extend((0..effort.random).map(|i| instances::random(1 + i % 3, &mut rng)));
    let greedy = lp::unconstrained(&instances::switch().cmdp)?.policy;
    Ok(vec![
        performance_difference(&cmdps, &mut rng),
        proposition_1(&cmdps, &mut rng)?,
        proposition_1_from_outside(&instances::switch().cmdp, &greedy)?,
        theorem_2(&cmdps, 1.01)?,
        theorem_2_below(&cmdps, 0.99)?,
        theorem_2_at_equality(&instances::dial().cmdp)?,
        theorem_3(&cmdps, effort.pairs, 20.0, &mut rng),
        theorem_3_worst(&adversary::worst_cases(effort.seed), |case| case.found.bound),
    ])
}

/// The lemma under everything: J(pi) - J(pi_k) = 1/(1-gamma) E_{s ~ d^pi, a ~ pi} A^{pi_k}(s, a), for every signal.
pub fn performance_difference(cmdps: &[Cmdp], rng: &mut impl Rng) -> Check {
    const PAIRS: usize = 20;
    let mut worst: f64 = 0.0;
    for cmdp in cmdps {
        for _ in 0..PAIRS {
            let (old, new) = (instances::random_policy(cmdp, rng), instances::random_policy(cmdp, rng));
            let (before, after) = (cmdp.evaluate(&old), cmdp.evaluate(&new));
            let signals = std::iter::once((&before.reward, &after.reward)).chain(before.costs.iter().zip(&after.costs));
            for (k, pi) in signals {
                let mean = dot(&after.visits, &cmdp.mean(&new, &k.advantage));
                worst = worst.max((pi.total - k.total - mean / (1.0 - cmdp.gamma)).abs());
            }
        }
    }
    Check::new(
        "Lemma 1: J(π) - J(π_k) = E[A^π_k] / (1-γ)",
        worst < 1e-9,
        format!("{} pairs of policies on {} CMDPs: largest error {worst:.0e}", PAIRS * cmdps.len(), cmdps.len()),
    )
}

/// Problem (1) literally: the new policy maximises E A_R^{pi_k} under limits on E A_C_i^{pi_k}, over s ~ d^pi.
fn improve(cmdp: &Cmdp, old: &Evaluation) -> Result<Evaluation, Unsolved> {
    let advantages: Vec<Vec<f64>> = old.costs.iter().map(|c| c.advantage.clone()).collect();
    let left: Vec<f64> = cmdp.limits.iter().zip(&old.costs).map(|(d, c)| d - c.total).collect();
    let found = lp::solve(cmdp, &old.reward.advantage, &advantages, &left, None)?;
    Ok(cmdp.evaluate(&found.policy))
}

/// By how much the worst limit is exceeded.
fn excess(cmdp: &Cmdp, at: &Evaluation) -> f64 {
    cmdp.limits.iter().zip(&at.costs).map(|(d, c)| c.total - d).fold(f64::NEG_INFINITY, f64::max)
}

/// Proposition 1: problem (1) never lowers the return of a policy that keeps the limits, and its solution keeps them.
pub fn proposition_1(cmdps: &[Cmdp], rng: &mut impl Rng) -> Result<Check, Unsolved> {
    const STARTS: usize = 5;
    let (mut least_gain, mut worst_excess) = (f64::INFINITY, f64::NEG_INFINITY);
    for cmdp in cmdps {
        for _ in 0..STARTS {
            let start = cmdp.evaluate(&feasible_policy(cmdp, rng)?);
            let first = improve(cmdp, &start)?;
            let second = improve(cmdp, &first)?;
            let gains = [first.reward.total - start.reward.total, second.reward.total - first.reward.total];
            least_gain = gains.into_iter().fold(least_gain, f64::min);
            worst_excess = worst_excess.max(excess(cmdp, &first)).max(excess(cmdp, &second));
        }
    }
    let updates = 2 * STARTS * cmdps.len();
    Ok(Check::new(
        "Proposition 1: problem (1) raises the return and keeps the limits",
        least_gain > -TOLERANCE && worst_excess < TOLERANCE,
        format!(
            "{updates} exact updates of feasible policies: least gain {least_gain:.0e}, largest excess {worst_excess:.0e}"
        ),
    ))
}

/// Proposition 1 speaks of every pi_k, but the return of one that breaks a limit may have to fall.
pub fn proposition_1_from_outside(cmdp: &Cmdp, policy: &[f64]) -> Result<Check, Unsolved> {
    let start = cmdp.evaluate(policy);
    let end = improve(cmdp, &start)?;
    let (from, to) = (start.reward.total, end.reward.total);
    Ok(Check::finding(
        "  ... from a π_k that breaks a limit",
        excess(cmdp, &start) > TOLERANCE && excess(cmdp, &end) < TOLERANCE && to < from - TOLERANCE,
        format!("{}: the limit is met at once, while the return falls from {from:.2} to {to:.2}", cmdp.name),
    ))
}

/// A random policy that keeps the limits: a mixture in occupancy of the safest policy and any other.
fn feasible_policy(cmdp: &Cmdp, rng: &mut impl Rng) -> Result<Vec<f64>, Unsolved> {
    let pairs = 0..cmdp.states * cmdp.actions;
    let careful: Vec<f64> = pairs.map(|i| -cmdp.costs.iter().map(|c| c[i]).sum::<f64>()).collect();
    let safe = lp::solve(cmdp, &careful, &cmdp.costs, &cmdp.limits, None)?.occupancy;
    let other = cmdp.occupancy_of(&instances::random_policy(cmdp, rng));
    let room = cmdp.limits.iter().zip(&cmdp.costs).map(|(d, c)| {
        let total = |rho: &[f64]| dot(rho, c) / (1.0 - cmdp.gamma);
        let (safe, other) = (total(&safe), total(&other));
        if other <= *d { 1.0 } else { ((d - safe) / (other - safe)).max(0.0) }
    });
    let t = room.fold(1.0, f64::min) * rng.random::<f64>();
    let mixed: Vec<f64> = safe.iter().zip(&other).map(|(s, o)| (1.0 - t) * s + t * o).collect();
    Ok(cmdp.policy_of(&mixed))
}

fn norm(multipliers: &[f64]) -> f64 {
    multipliers.iter().copied().fold(0.0, f64::max)
}

/// Theorem 2: problems (2) and (3) have the same solutions for kappa = `factor` times the largest multiplier.
///
/// The optimum of (2) is a minimiser of (3) when both have the same value. Every minimiser of (3) is one of (2) when a
/// smaller kappa still has that value: a minimiser that broke a limit would do better there.
pub fn theorem_2(cmdps: &[Cmdp], factor: f64) -> Result<Check, Unsolved> {
    let (mut gap, mut worst_excess): (f64, f64) = (0.0, f64::NEG_INFINITY);
    for cmdp in cmdps {
        let best = lp::constrained(cmdp)?;
        let threshold = norm(&best.multipliers);
        for kappa in [factor * threshold, 0.5 * (1.0 + factor) * threshold] {
            let soft = lp::penalized(cmdp, kappa)?;
            gap = gap.max((soft.value - best.value).abs());
            worst_excess = worst_excess.max(excess(cmdp, &cmdp.evaluate(&soft.policy)));
        }
    }
    Ok(Check::new(
        "Theorem 2: (2) and (3) share their solutions for κ > ‖λ‖∞",
        gap < TOLERANCE && worst_excess < TOLERANCE,
        format!(
            "κ = {factor} ‖λ‖∞, {} CMDPs: values differ by {gap:.0e}, largest excess {worst_excess:.0e}",
            cmdps.len()
        ),
    ))
}

/// The other side of Theorem 2's threshold: every minimiser of (3) breaks a limit for kappa = `factor` times the largest
/// multiplier, since (3) then has a better value than any policy that keeps them.
pub fn theorem_2_below(cmdps: &[Cmdp], factor: f64) -> Result<Check, Unsolved> {
    let (mut violated, mut least) = (0, f64::INFINITY);
    for cmdp in cmdps {
        let best = lp::constrained(cmdp)?;
        let soft = lp::penalized(cmdp, factor * norm(&best.multipliers))?;
        let over = excess(cmdp, &cmdp.evaluate(&soft.policy));
        violated += usize::from(soft.value > best.value + TOLERANCE && over > TOLERANCE);
        least = least.min(over);
    }
    Ok(Check::new(
        "  ... and not for a smaller κ",
        violated == cmdps.len(),
        format!("κ = {factor} ‖λ‖∞: {violated} of {} break a limit, by {least:.0e} or more", cmdps.len()),
    ))
}

/// Theorem 2 is stated for kappa >= the largest multiplier. At equality (3) has more minimisers than (2): the one found just
/// below the threshold breaks a limit and is as good as the constrained optimum.
pub fn theorem_2_at_equality(cmdp: &Cmdp) -> Result<Check, Unsolved> {
    let best = lp::constrained(cmdp)?;
    let kappa = norm(&best.multipliers);
    let other = cmdp.evaluate(&lp::penalized(cmdp, 0.99 * kappa)?.policy);
    let over: f64 = cmdp.limits.iter().zip(&other.costs).map(|(d, c)| (c.total - d).max(0.0)).sum();
    let value = other.reward.total - kappa * over;
    Ok(Check::finding(
        "  ... nor for κ = ‖λ‖∞, which the paper includes",
        (value - best.value).abs() < TOLERANCE && over > TOLERANCE,
        format!(
            "{}, κ = {kappa:.2}: a policy that costs {:.2} is as good in (3) as the best one within the limit of {:.2}",
            cmdp.name, other.costs[0].total, cmdp.limits[0]
        ),
    ))
}

/// Theorem 3: |L^pi - L^pi_k| <= (1 + kappa m) gamma eps sqrt(2 delta) / (1 - gamma), the error of taking states from
/// d^{pi_k} instead of d^pi, for random pairs of policies near and far.
pub fn theorem_3(cmdps: &[Cmdp], pairs: usize, kappa: f64, rng: &mut impl Rng) -> Check {
    let mut largest: f64 = 0.0;
    for cmdp in cmdps {
        for _ in 0..pairs {
            let old = instances::random_policy(cmdp, rng);
            let new = moved(cmdp, &old, rng);
            largest = largest.max(approximation_error(cmdp, &old, &new, kappa).ratio());
        }
    }
    Check::new(
        "Theorem 3: |(3) - (4)| ≤ (1+κm) γ ε √(2δ) / (1-γ)",
        largest <= 1.0,
        format!(
            "{} pairs of policies on {} CMDPs, κ = {kappa}: largest error is {largest:.3} of its bound",
            pairs * cmdps.len(),
            cmdps.len()
        ),
    )
}

/// Theorem 3 where it is hardest: no case that was searched for breaks `bound`, and the worst one comes close to it, so that
/// neither a smaller bound nor a much larger one passes. The paper's bound is `case.found.bound`.
pub fn theorem_3_worst(cases: &[WorstCase], bound: impl Fn(&WorstCase) -> f64) -> Check {
    const CLOSE: f64 = 0.9;
    let ratios: Vec<f64> = cases.iter().map(|case| case.found.error / bound(case)).collect();
    let mut by_gamma: Vec<(f64, f64)> = vec![];
    for (case, &ratio) in cases.iter().zip(&ratios) {
        match by_gamma.iter_mut().find(|(gamma, _)| *gamma == case.setting.gamma) {
            Some((_, top)) => *top = top.max(ratio),
            None => by_gamma.push((case.setting.gamma, ratio)),
        }
    }
    let tops: Vec<String> = by_gamma.iter().map(|(gamma, top)| format!("{top:.3} (γ = {gamma})")).collect();
    Check::new(
        "  ... and the worst CMDPs come close to it",
        ratios.iter().all(|r| *r <= 1.0) && ratios.iter().any(|r| *r >= CLOSE),
        format!("searched among 2 to 4 states: largest error is {} of its bound", tops.join(", ")),
    )
}

/// The two sides of Theorem 3.
#[derive(Clone, Copy, Debug)]
pub struct ApproximationError {
    /// |L^pi - L^pi_k|
    pub error: f64,
    /// What it may be at most.
    pub bound: f64,
    /// What the bound is made of.
    pub terms: Terms,
}

/// What the bound of Theorem 3 is made of.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The penalty factor.
    pub kappa: f64,
    /// m, the number of costs.
    pub costs: f64,
    /// The discount.
    pub gamma: f64,
    /// eps: the largest |E_{a ~ pi} A^{pi_k}(s, a)| of any signal in any state.
    pub epsilon: f64,
    /// E_{s ~ d^{pi_k}} KL(pi || pi_k)
    pub delta: f64,
}

impl Terms {
    /// (1 + kappa m) gamma eps sqrt(2 delta) / (1 - gamma)
    pub fn bound(&self) -> f64 {
        let Terms { kappa, costs, gamma, epsilon, delta } = self;
        (1.0 + kappa * costs) * gamma * epsilon * (2.0 * delta).sqrt() / (1.0 - gamma)
    }
}

impl ApproximationError {
    /// The error as a share of its bound; 0 of 0 is 0.
    pub fn ratio(&self) -> f64 {
        if self.error == 0.0 { 0.0 } else { self.error / self.bound }
    }
}

/// The two sides of Theorem 3 for one pair of policies.
pub fn approximation_error(cmdp: &Cmdp, old: &[f64], new: &[f64], kappa: f64) -> ApproximationError {
    let (k, pi) = (cmdp.evaluate(old), cmdp.evaluate(new));
    let reward = cmdp.mean(new, &k.reward.advantage);
    let costs: Vec<Vec<f64>> = k.costs.iter().map(|c| cmdp.mean(new, &c.advantage)).collect();
    let loss = |visits: &[f64]| {
        let penalty = costs.iter().zip(&k.costs).zip(&cmdp.limits);
        let penalty = penalty.map(|((a, c), d)| (dot(visits, a) + (1.0 - cmdp.gamma) * (c.total - d)).max(0.0));
        -dot(visits, &reward) + kappa * penalty.sum::<f64>()
    };
    let epsilon = costs.iter().chain([&reward]).flatten().fold(0.0f64, |top, x| top.max(x.abs()));
    let per_state = new.chunks_exact(cmdp.actions).zip(old.chunks_exact(cmdp.actions)).map(|(p, q)| kl(p, q));
    let delta: f64 = per_state.zip(&k.visits).map(|(kl, d)| kl * d).sum();
    let terms = Terms { kappa, costs: cmdp.costs.len() as f64, gamma: cmdp.gamma, epsilon, delta };
    ApproximationError { error: (loss(&pi.visits) - loss(&k.visits)).abs(), bound: terms.bound(), terms }
}

fn kl(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).filter(|(p, _)| **p > 0.0).map(|(p, q)| p * libm::log(p / q)).sum()
}

/// A policy at a random distance from `old`: its logits moved by up to a thousandth or by up to five.
fn moved(cmdp: &Cmdp, old: &[f64], rng: &mut impl Rng) -> Vec<f64> {
    let reach = 5.0 * libm::pow(10.0, -3.7 * rng.random::<f64>());
    let rows = old.chunks_exact(cmdp.actions);
    rows.flat_map(|row| {
        let weights: Vec<f64> = row.iter().map(|p| p * libm::exp(reach * (2.0 * rng.random::<f64>() - 1.0))).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(move |w| w / total)
    })
    .collect()
}
