//! A constrained MDP as tables, and the exact evaluation of a policy.

/// A constrained MDP with finitely many states S and actions A, discounted, without end.
///
/// Tables are row-major: `reward[s * actions + a]`, `transitions[(s * actions + a) * states + next]`. A policy is a table
/// like `reward` whose rows sum to one.
#[derive(Clone, Debug, PartialEq)]
pub struct Cmdp {
    /// How it is called.
    pub name: String,
    /// Number of states.
    pub states: usize,
    /// Number of actions.
    pub actions: usize,
    /// P(next | s, a)
    pub transitions: Vec<f64>,
    /// r(s, a)
    pub reward: Vec<f64>,
    /// c_i(s, a)
    pub costs: Vec<Vec<f64>>,
    /// d_i, the limit on J_C_i.
    pub limits: Vec<f64>,
    /// mu(s), where an episode starts.
    pub start: Vec<f64>,
    /// The discount.
    pub gamma: f64,
}

/// One signal (the reward or a cost) under a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// J, the discounted sum from the start.
    pub total: f64,
    /// V(s)
    pub v: Vec<f64>,
    /// Q(s, a)
    pub q: Vec<f64>,
    /// A(s, a) = Q(s, a) - V(s)
    pub advantage: Vec<f64>,
}

/// A policy evaluated exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// d^pi(s), the discounted share of time spent in each state.
    pub visits: Vec<f64>,
    /// The reward.
    pub reward: Values,
    /// Every cost.
    pub costs: Vec<Values>,
}

impl Cmdp {
    /// V, Q, A and J of every signal, and d^pi, by solving their linear equations.
    pub fn evaluate(&self, policy: &[f64]) -> Evaluation {
        let (n, gamma) = (self.states, self.gamma);
        assert_eq!(policy.len(), n * self.actions, "a policy has one row of probabilities per state");
        let mut system = vec![vec![0.0; n]; n];
        for (s, row) in system.iter_mut().enumerate() {
            row[s] = 1.0;
            for a in 0..self.actions {
                let p = gamma * policy[s * self.actions + a];
                row.iter_mut().zip(self.next(s, a)).for_each(|(x, next)| *x -= p * next);
            }
        }
        let transposed: Vec<Vec<f64>> = (0..n).map(|s| system.iter().map(|row| row[s]).collect()).collect();
        let start: Vec<f64> = self.start.iter().map(|mu| (1.0 - gamma) * mu).collect();
        let visits = solve(transposed, vec![start]).remove(0);
        let signals = || std::iter::once(&self.reward).chain(&self.costs);
        let means = signals().map(|signal| self.mean(policy, signal)).collect();
        let values = solve(system, means);
        let mut all = signals().zip(values).map(|(signal, v)| self.values(signal, v));
        let reward = all.next().expect("there is a reward");
        Evaluation { visits, reward, costs: all.collect() }
    }

    fn values(&self, signal: &[f64], v: Vec<f64>) -> Values {
        let pairs = || (0..self.states).flat_map(|s| (0..self.actions).map(move |a| (s, a)));
        let q: Vec<f64> = pairs().zip(signal).map(|((s, a), x)| x + self.gamma * dot(self.next(s, a), &v)).collect();
        let advantage = pairs().zip(&q).map(|((s, _), q)| q - v[s]).collect();
        Values { total: dot(&self.start, &v), v, q, advantage }
    }

    /// P(. | s, a)
    pub fn next(&self, s: usize, a: usize) -> &[f64] {
        &self.transitions[(s * self.actions + a) * self.states..][..self.states]
    }

    /// sum_a pi(a | s) table(s, a) for every state.
    pub fn mean(&self, policy: &[f64], table: &[f64]) -> Vec<f64> {
        policy.chunks_exact(self.actions).zip(table.chunks_exact(self.actions)).map(|(p, x)| dot(p, x)).collect()
    }

    /// The policy with this occupancy rho(s, a) = d^pi(s) pi(a | s), uniform in states that are never visited.
    pub fn policy_of(&self, occupancy: &[f64]) -> Vec<f64> {
        let rows = occupancy.chunks_exact(self.actions);
        rows.flat_map(|row| {
            let total: f64 = row.iter().map(|x| x.max(0.0)).sum();
            let share = move |x: &f64| if total > 0.0 { x.max(0.0) / total } else { 1.0 / row.len() as f64 };
            row.iter().map(share)
        })
        .collect()
    }

    /// rho(s, a) = d^pi(s) pi(a | s)
    pub fn occupancy_of(&self, policy: &[f64]) -> Vec<f64> {
        let visits = self.evaluate(policy).visits;
        policy.iter().enumerate().map(|(i, p)| visits[i / self.actions] * p).collect()
    }
}

impl Evaluation {
    /// J_C_i of every cost.
    pub fn cost_totals(&self) -> Vec<f64> {
        self.costs.iter().map(|c| c.total).collect()
    }
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Solves M x = b for every b by Gaussian elimination with partial pivoting.
fn solve(mut m: Vec<Vec<f64>>, mut right: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let n = m.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| m[i][k].abs().total_cmp(&m[j][k].abs())).expect("there is a row");
        m.swap(k, pivot);
        right.iter_mut().for_each(|b| b.swap(k, pivot));
        let (above, below) = m.split_at_mut(k + 1);
        let top = &above[k];
        for (i, row) in below.iter_mut().enumerate() {
            let factor = row[k] / top[k];
            row[k..].iter_mut().zip(&top[k..]).for_each(|(x, t)| *x -= factor * t);
            right.iter_mut().for_each(|b| b[k + 1 + i] -= factor * b[k]);
        }
    }
    for b in &mut right {
        for k in (0..n).rev() {
            b[k] = (b[k] - dot(&m[k][k + 1..], &b[k + 1..])) / m[k][k];
        }
    }
    right
}
