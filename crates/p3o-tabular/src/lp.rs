//! The best policy of a [`Cmdp`] as a linear program over occupancy measures rho(s, a) = d^pi(s) pi(a | s):
//!
//! ```text
//! maximise   J_R = 1/(1-gamma) sum rho r
//! subject to sum_a rho(s', a) - gamma sum_{s,a} P(s' | s, a) rho(s, a) = (1-gamma) mu(s')   for every s'
//!            J_C_i = 1/(1-gamma) sum rho c_i <= d_i                                          for every i
//! ```
//!
//! The multipliers of the limits are lambda_i = dJ*/dd_i. By the paper's scaling L_R = -(1-gamma)(J_R(pi) - J_R(pi_k)) and
//! L_C_i = (1-gamma)(J_C_i(pi) - d_i) for any pi_k, problem (2) of the paper is this program, with the same multipliers,
//! and problem (3) is [`penalized`].

use crate::Cmdp;
use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettingsBuilder, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus, ZeroConeT};

/// The solution of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// The objective.
    pub value: f64,
    /// The objective of the dual program; equal to `value` up to rounding, which proves both optimal.
    pub dual_value: f64,
    /// lambda_i of every limit.
    pub multipliers: Vec<f64>,
    /// The multipliers of the flow equations: V(s) of r - sum_i lambda_i c_i under the best policy.
    pub prices: Vec<f64>,
    /// rho(s, a)
    pub occupancy: Vec<f64>,
    /// pi(a | s)
    pub policy: Vec<f64>,
}

/// Why a program has no solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsolved(String);

impl std::fmt::Display for Unsolved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsolved {}

/// The best policy that keeps every limit: problem (2).
pub fn constrained(cmdp: &Cmdp) -> Result<Optimum, Unsolved> {
    solve(cmdp, &cmdp.reward, &cmdp.costs, &cmdp.limits, None)
}

/// The best policy whatever its costs.
pub fn unconstrained(cmdp: &Cmdp) -> Result<Optimum, Unsolved> {
    solve(cmdp, &cmdp.reward, &[], &[], None)
}

/// The best policy for J_R - kappa sum_i max(0, J_C_i - d_i): problem (3). Its multipliers are those of the slack rows.
pub fn penalized(cmdp: &Cmdp, kappa: f64) -> Result<Optimum, Unsolved> {
    solve(cmdp, &cmdp.reward, &cmdp.costs, &cmdp.limits, Some(kappa))
}

/// The same program for any tables in the place of the reward, the costs and the limits; `kappa` makes the limits soft.
pub fn solve(
    cmdp: &Cmdp,
    reward: &[f64],
    costs: &[Vec<f64>],
    limits: &[f64],
    kappa: Option<f64>,
) -> Result<Optimum, Unsolved> {
    let (n, pairs, m) = (cmdp.states, cmdp.states * cmdp.actions, costs.len());
    let slacks = if kappa.is_some() { m } else { 0 };
    let scale = 1.0 / (1.0 - cmdp.gamma);
    // Rows: n flow equations, m limits, then one sign per variable; columns: rho, then the slacks.
    let mut matrix = Triplets::default();
    for i in 0..pairs {
        let (s, a) = (i / cmdp.actions, i % cmdp.actions);
        for (to, p) in cmdp.next(s, a).iter().enumerate() {
            matrix.put(to, i, f64::from(u8::from(to == s)) - cmdp.gamma * p);
        }
        costs.iter().enumerate().for_each(|(k, cost)| matrix.put(n + k, i, scale * cost[i]));
    }
    (0..slacks).for_each(|k| matrix.put(n + k, pairs + k, -1.0));
    let variables = pairs + slacks;
    (0..variables).for_each(|j| matrix.put(n + m + j, j, -1.0));
    let mut right: Vec<f64> = cmdp.start.iter().map(|mu| (1.0 - cmdp.gamma) * mu).collect();
    right.extend(limits);
    right.resize(n + m + variables, 0.0);
    let mut objective: Vec<f64> = reward.iter().map(|r| -scale * r).collect();
    objective.resize(variables, kappa.unwrap_or(0.0));

    let settings = DefaultSettingsBuilder::default()
        .verbose(false)
        .max_iter(200)
        .tol_gap_abs(1e-12)
        .tol_gap_rel(1e-12)
        .tol_feas(1e-12)
        .build()
        .expect("the settings are valid");
    let quadratic = CscMatrix::zeros((variables, variables));
    let matrix = matrix.build(n + m + variables, variables);
    let cones = [ZeroConeT(n), NonnegativeConeT(m + variables)];
    let mut solver = DefaultSolver::new(&quadratic, &objective, &matrix, &right, &cones, settings)
        .map_err(|e| Unsolved(format!("the program of {} is malformed: {e}", cmdp.name)))?;
    solver.solve();
    let found = &solver.solution;
    // Almost solved: a step from the last digits asked for, as the two values then show.
    if !matches!(found.status, SolverStatus::Solved | SolverStatus::AlmostSolved) {
        return Err(Unsolved(format!("the program of {} has no solution: {}", cmdp.name, found.status)));
    }
    let occupancy = found.x[..pairs].to_vec();
    Ok(Optimum {
        value: -found.obj_val,
        dual_value: -found.obj_val_dual,
        multipliers: found.z[n..n + m].to_vec(),
        prices: found.z[..n].to_vec(),
        policy: cmdp.policy_of(&occupancy),
        occupancy,
    })
}

/// The entries of a sparse matrix.
#[derive(Default)]
struct Triplets(Vec<(usize, usize, f64)>);

impl Triplets {
    fn put(&mut self, row: usize, column: usize, value: f64) {
        if value != 0.0 {
            self.0.push((row, column, value));
        }
    }

    fn build(self, rows: usize, columns: usize) -> CscMatrix<f64> {
        let (mut i, mut j, mut x) = (Vec::new(), Vec::new(), Vec::new());
        for (row, column, value) in self.0 {
            i.push(row);
            j.push(column);
            x.push(value);
        }
        CscMatrix::new_from_triplets(rows, columns, i, j, x)
    }
}
