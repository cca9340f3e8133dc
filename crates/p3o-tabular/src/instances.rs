//! Five CMDPs whose answers are known, and random ones.

use crate::{Cmdp, lp};
use rand::{Rng, RngExt};

/// A CMDP with its answer.
#[derive(Clone, Debug)]
pub struct Known {
    /// The problem.
    pub cmdp: Cmdp,
    /// J_R of the best policy that keeps the limits.
    pub optimum: f64,
    /// The multiplier of every limit.
    pub multipliers: Vec<f64>,
}

/// All five.
pub fn all() -> Vec<Known> {
    vec![dial(), two_dials(), detour(), switch(), grid()]
}

/// A: one state; the second action earns 1 and costs 1. d = 3 of 10 steps lets it be taken three times in ten.
pub fn dial() -> Known {
    let cmdp = bandit("A", &[0.0, 1.0], &[&[0.0, 1.0]], &[3.0]);
    Known { cmdp, optimum: 3.0, multipliers: vec![1.0] }
}

/// B: one state, two costs; actions earn 0, 2 and 3, the second has the first cost, the third the second. The multipliers
/// are the prices 2 and 3, so a penalty between them violates one limit only.
pub fn two_dials() -> Known {
    let cmdp = bandit("B", &[0.0, 2.0, 3.0], &[&[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0]], &[3.0, 4.0]);
    Known { cmdp, optimum: 18.0, multipliers: vec![2.0, 3.0] }
}

/// C: a slow way to a reward of 1, and a fast one that costs 1: all that it saves is one discount, so its multiplier is
/// 1 - gamma; 0.01 here.
pub fn detour() -> Known {
    detour_at(0.99)
}

/// The same for any discount.
pub fn detour_at(gamma: f64) -> Known {
    let limit = 0.25;
    let (start, halfway, end) = (0, 1, 2);
    let mut cmdp = empty("C", 3, 2, gamma, &[limit]);
    cmdp.lead(start, 0, halfway, 1.0);
    cmdp.lead(start, 1, end, 1.0);
    for a in 0..2 {
        cmdp.lead(halfway, a, end, 1.0);
        cmdp.lead(end, a, end, 1.0);
        cmdp.reward[halfway * 2 + a] = 1.0;
    }
    cmdp.reward[1] = 1.0;
    cmdp.costs[0][1] = 1.0;
    Known { cmdp, optimum: limit + (1.0 - limit) * gamma, multipliers: vec![1.0 - gamma] }
}

/// D: two states, and action a leads to state a. In the second state the first action earns 1, the second 2 at a cost of
/// 1: the states visited depend on the policy. J* = 90/19 + 28/19 d.
pub fn switch() -> Known {
    let mut cmdp = empty("D", 2, 2, 0.9, &[4.0]);
    for s in 0..2 {
        (0..2).for_each(|a| cmdp.lead(s, a, a, 1.0));
    }
    cmdp.reward = vec![0.0, 0.0, 1.0, 2.0];
    cmdp.costs[0][3] = 1.0;
    Known { cmdp, optimum: (90.0 + 28.0 * 4.0) / 19.0, multipliers: vec![28.0 / 19.0] }
}

/// E: a grid of 4 x 4 cells from corner to corner. Moves go astray to either side in one case of ten each and stop at
/// walls; entering the goal earns 1, entering certain cells has one of two costs.
pub fn grid() -> Known {
    const SIDE: i32 = 4;
    let moves = [(-1, 0), (1, 0), (0, -1), (0, 1)];
    let cell = |x: i32, y: i32| (SIDE * x + y) as usize;
    let goal = cell(3, 3);
    let mut cmdp = empty("E", 16, 4, 0.95, &[0.1, 0.1]);
    for s in 0..16 {
        let (x, y) = (s as i32 / SIDE, s as i32 % SIDE);
        for (a, &(dx, dy)) in moves.iter().enumerate() {
            for ((dx, dy), p) in [((dx, dy), 0.8), ((dy, dx), 0.1), ((-dy, -dx), 0.1)] {
                let inside = (0..SIDE).contains(&(x + dx)) && (0..SIDE).contains(&(y + dy));
                let to = if s == goal || !inside { s } else { cell(x + dx, y + dy) };
                cmdp.lead(s, a, to, p);
                let at = s * 4 + a;
                cmdp.reward[at] += if to == goal && s != goal { p } else { 0.0 };
                cmdp.costs[0][at] += if [cell(1, 1), cell(2, 1)].contains(&to) { p } else { 0.0 };
                cmdp.costs[1][at] += if [cell(1, 2), cell(2, 3)].contains(&to) { p } else { 0.0 };
            }
        }
    }
    let multipliers = vec![2.094_768_613_883, 0.413_216_468_742];
    Known { cmdp, optimum: 0.425_545_628_762_032, multipliers }
}

/// A random CMDP of five states, three actions and so many costs, whose limits can be kept and bind.
pub fn random(costs: usize, rng: &mut impl Rng) -> Cmdp {
    loop {
        let mut cmdp = empty("random", 5, 3, 0.9, &vec![0.0; costs]);
        cmdp.transitions = (0..15).flat_map(|_| distribution(5, rng)).collect();
        cmdp.start = distribution(5, rng);
        cmdp.reward = (0..15).map(|_| rng.random()).collect();
        cmdp.costs = (0..costs).map(|_| (0..15).map(|_| rng.random()).collect()).collect();
        // Limits three tenths of the way from the safest policy's costs to the greediest one's.
        let all: Vec<f64> = (0..15).map(|i| -cmdp.costs.iter().map(|c| c[i]).sum::<f64>()).collect();
        let (Ok(safe), Ok(greedy)) = (lp::solve(&cmdp, &all, &[], &[], None), lp::unconstrained(&cmdp)) else {
            continue;
        };
        let totals = |policy: &[f64]| cmdp.evaluate(policy).cost_totals();
        let between = totals(&safe.policy).into_iter().zip(totals(&greedy.policy));
        cmdp.limits = between.map(|(safe, greedy)| safe + 0.3 * (greedy - safe).abs() + 0.01).collect();
        if lp::constrained(&cmdp).is_ok_and(|best| best.multipliers.iter().any(|&x| x > 1e-3)) {
            return cmdp;
        }
    }
}

/// A random policy: every row uniform over all distributions.
pub fn random_policy(cmdp: &Cmdp, rng: &mut impl Rng) -> Vec<f64> {
    (0..cmdp.states).flat_map(|_| distribution(cmdp.actions, rng)).collect()
}

/// Uniform over all distributions: exponential variates over their sum.
fn distribution(n: usize, rng: &mut impl Rng) -> Vec<f64> {
    let parts: Vec<f64> = (0..n).map(|_| -libm::log(1.0 - rng.random::<f64>())).collect();
    let total: f64 = parts.iter().sum();
    parts.iter().map(|x| x / total).collect()
}

/// No transitions, rewards or costs yet; starts in the first state.
fn empty(name: &str, states: usize, actions: usize, gamma: f64, limits: &[f64]) -> Cmdp {
    let pairs = states * actions;
    let mut start = vec![0.0; states];
    start[0] = 1.0;
    Cmdp {
        name: name.to_string(),
        states,
        actions,
        transitions: vec![0.0; pairs * states],
        reward: vec![0.0; pairs],
        costs: vec![vec![0.0; pairs]; limits.len()],
        limits: limits.to_vec(),
        start,
        gamma,
    }
}

/// One state, gamma 0.9.
fn bandit(name: &str, reward: &[f64], costs: &[&[f64]], limits: &[f64]) -> Cmdp {
    let mut cmdp = empty(name, 1, reward.len(), 0.9, limits);
    cmdp.transitions.fill(1.0);
    cmdp.reward = reward.to_vec();
    cmdp.costs = costs.iter().map(|c| c.to_vec()).collect();
    cmdp
}

impl Cmdp {
    fn lead(&mut self, s: usize, a: usize, to: usize, p: f64) {
        self.transitions[(s * self.actions + a) * self.states + to] += p;
    }
}
