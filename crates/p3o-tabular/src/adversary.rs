//! Worst cases of Theorem 3: a search for small CMDPs and pairs of policies whose error comes close to its bound.
//!
//! The worst reward and costs for given transitions and policies are known: the error is at most eps ‖d^pi - d^pi_k‖_1 for
//! each signal, and is that much where E_{a ~ pi} A^{pi_k}(s, a) is eps with the sign of d^pi(s) - d^pi_k(s). So the search
//! is over transitions, start and the two policies alone: ascent along one coordinate after another, from random points.

use crate::Cmdp;
use crate::verify::{ApproximationError, approximation_error};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const ACTIONS: usize = 2;

/// What a search leaves as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// The discount.
    pub gamma: f64,
    /// The penalty factor.
    pub kappa: f64,
    /// m, the number of costs.
    pub costs: usize,
    /// The largest |E_{a ~ pi} A_R^{pi_k}|.
    pub reward_size: f64,
    /// The same of every cost.
    pub cost_size: f64,
    /// The least delta: how far the policies are apart.
    pub apart: f64,
}

/// The settings that are searched. Between them every factor of the bound is large in one and small in another.
pub const SETTINGS: [Setting; 5] = [
    Setting { gamma: 0.1, kappa: 20.0, costs: 2, reward_size: 5.0, cost_size: 5.0, apart: 0.0 },
    Setting { gamma: 0.1, kappa: 20.0, costs: 3, reward_size: 0.2, cost_size: 0.2, apart: 2.0 },
    Setting { gamma: 0.5, kappa: 20.0, costs: 2, reward_size: 1.0, cost_size: 5.0, apart: 0.0 },
    Setting { gamma: 0.5, kappa: 0.1, costs: 1, reward_size: 5.0, cost_size: 1.0, apart: 0.0 },
    Setting { gamma: 0.9, kappa: 1.0, costs: 1, reward_size: 5.0, cost_size: 5.0, apart: 0.0 },
];

/// A CMDP and two policies.
#[derive(Clone, Debug)]
pub struct WorstCase {
    /// What it was searched under.
    pub setting: Setting,
    /// The problem.
    pub cmdp: Cmdp,
    /// pi_k
    pub old: Vec<f64>,
    /// pi
    pub new: Vec<f64>,
    /// The two sides of Theorem 3.
    pub found: ApproximationError,
}

/// The worst case that was found under each of [`SETTINGS`], decided by `seed`.
pub fn worst_cases(seed: u64) -> Vec<WorstCase> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    SETTINGS.iter().map(|setting| search(setting, &mut rng)).collect()
}

/// The best of several ascents with two, three and four states.
fn search(setting: &Setting, rng: &mut impl Rng) -> WorstCase {
    const ASCENTS: usize = 8;
    let starts = (2..=4).flat_map(|states| [states; ASCENTS]);
    let tops = starts.map(|states| climb(setting, states, rng));
    tops.max_by(|a, b| score(a).total_cmp(&score(b))).expect("there is an ascent")
}

/// The error as a share of its bound, less where the policies are too close, 0 where only rounding tells them apart.
fn score(case: &WorstCase) -> f64 {
    const ROUNDING: f64 = 1e-9;
    let delta = case.found.terms.delta;
    let weight = if delta < ROUNDING { 0.0 } else { (delta / case.setting.apart).min(1.0) };
    if weight == 0.0 { 0.0 } else { weight * case.found.ratio() }
}

/// Ascent from a random point of the unit cube, with steps that are halved where none along a coordinate gains.
fn climb(setting: &Setting, states: usize, rng: &mut impl Rng) -> WorstCase {
    const LEAST_GAIN: f64 = 1e-4;
    let mut point: Vec<f64> = (0..coordinates(states)).map(|_| rng.random()).collect();
    let mut top = case(setting, states, &point);
    let mut step = 0.5;
    while step > 0.01 {
        let before = score(&top);
        for i in 0..point.len() {
            for way in [step, -step] {
                let here = point[i];
                point[i] = (here + way).clamp(0.0, 1.0);
                let tried = case(setting, states, &point);
                if score(&tried) > score(&top) {
                    top = tried;
                } else {
                    point[i] = here;
                }
            }
        }
        if score(&top) < before + LEAST_GAIN {
            step /= 2.0;
        }
    }
    top
}

/// Numbers that make a case: the start and, per state, where each action leads, the old policy, the way to the new one.
fn coordinates(states: usize) -> usize {
    states + states * (ACTIONS * states + 2 * ACTIONS + 1)
}

/// The worst signals for the transitions, start and policies that a point of the unit cube stands for.
fn case(setting: &Setting, states: usize, point: &[f64]) -> WorstCase {
    let (start, rest) = point.split_at(states);
    let (mut transitions, mut old, mut new) = (vec![], vec![], vec![]);
    for row in rest.chunks_exact(ACTIONS * states + 2 * ACTIONS + 1) {
        let (next, policies) = row.split_at(ACTIONS * states);
        next.chunks_exact(states).for_each(|weights| transitions.extend(shares(weights)));
        let (weights, way) = policies.split_at(ACTIONS);
        let before = shares(weights);
        // The logits move by up to a thousandth or by up to ten.
        let reach = libm::pow(10.0, 4.0 * way[ACTIONS] - 3.0);
        let after: Vec<f64> = before.iter().zip(way).map(|(p, x)| p * libm::exp(reach * (2.0 * x - 1.0))).collect();
        new.extend(shares(&after));
        old.extend(before);
    }
    let pairs = states * ACTIONS;
    let mut cmdp = Cmdp {
        name: "worst case".to_string(),
        states,
        actions: ACTIONS,
        transitions,
        reward: vec![0.0; pairs],
        costs: vec![],
        limits: vec![],
        start: shares(start),
        gamma: setting.gamma,
    };
    let signal = worst_signal(&cmdp, &old, &new);
    cmdp.reward = signal.iter().map(|x| setting.reward_size * x).collect();
    cmdp.costs = vec![signal.iter().map(|x| -setting.cost_size * x).collect(); setting.costs];
    // Far below what any policy costs: every cost is penalised under both distributions of states.
    cmdp.limits = vec![-2.0 * setting.cost_size / (1.0 - setting.gamma); setting.costs];
    let found = approximation_error(&cmdp, &old, &new, setting.kappa);
    WorstCase { setting: *setting, cmdp, old, new, found }
}

/// A signal with V^{pi_k} = 0 and E_{a ~ pi} A^{pi_k}(s, a) = sign(d^pi(s) - d^pi_k(s)), or 0 where the policies agree.
///
/// (pi / pi_k - 1) has mean 0 under pi_k and chi^2 under pi, their divergence.
fn worst_signal(cmdp: &Cmdp, old: &[f64], new: &[f64]) -> Vec<f64> {
    let (k, pi) = (cmdp.evaluate(old).visits, cmdp.evaluate(new).visits);
    let rows = new.chunks_exact(ACTIONS).zip(old.chunks_exact(ACTIONS)).zip(pi.iter().zip(&k));
    rows.flat_map(|((p, q), (pi, k))| {
        let excess = move |(p, q): (&f64, &f64)| if *q > 0.0 { p / q - 1.0 } else { 0.0 };
        let chi2: f64 = p.iter().zip(q).map(|(p, q)| p * excess((p, q))).sum();
        let sign = if chi2 < 1e-9 || pi == k { 0.0 } else { (pi - k).signum() };
        p.iter().zip(q).map(move |pair| if sign == 0.0 { 0.0 } else { sign * excess(pair) / chi2 })
    })
    .collect()
}

/// Weights over their sum; equal shares if all are 0.
fn shares(weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| if total > 0.0 { w / total } else { 1.0 / weights.len() as f64 }).collect()
}
