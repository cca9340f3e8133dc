//! CPO's closed-form step against a general convex solver, which knows nothing of duals.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettingsBuilder, DefaultSolver, IPSolver, NonnegativeConeT, SecondOrderConeT, SolverStatus,
};
use p3o::algo::cpo::{Case, best_step};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const DELTA: f64 = 0.01;
const N: usize = 3;

/// The largest g.x with c + b.x <= 0 and |x|^2 / 2 <= delta, by clarabel as a second-order cone program; none if nothing is
/// feasible. H is the identity here: any other is a change of coordinates.
fn solved(g: [f64; N], b: [f64; N], c: f64) -> Option<f64> {
    // Rows: b.x <= -c, then (sqrt(2 delta), x) in the cone.
    let mut rows = vec![b.to_vec(), vec![0.0; N]];
    rows.extend((0..N).map(|i| (0..N).map(|j| if i == j { -1.0 } else { 0.0 }).collect::<Vec<f64>>()));
    let mut right = vec![0.0; 2 + N];
    (right[0], right[1]) = (-c, (2.0 * DELTA).sqrt());
    let objective = g.map(|x| -x);
    let settings = DefaultSettingsBuilder::default().verbose(false).build().expect("the settings are valid");
    let cones = [NonnegativeConeT(1), SecondOrderConeT(1 + N)];
    let (quadratic, matrix) = (CscMatrix::zeros((N, N)), CscMatrix::from(&rows));
    let mut solver =
        DefaultSolver::new(&quadratic, &objective, &matrix, &right, &cones, settings).expect("well formed");
    solver.solve();
    match solver.solution.status {
        SolverStatus::Solved | SolverStatus::AlmostSolved => Some(-solver.solution.obj_val),
        _ => None,
    }
}

#[test]
fn the_closed_form_is_as_good_as_the_solvers_answer_on_a_thousand_problems() {
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    let dot = |a: &[f64; N], b: &[f64; N]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let (mut recovered, mut cut) = (0, 0);
    for round in 0..1000 {
        let g: [f64; N] = std::array::from_fn(|_| rng.random_range(-1.0..1.0));
        let b: [f64; N] = std::array::from_fn(|_| rng.random_range(-1.0..1.0));
        let (q, r, s) = (dot(&g, &g), dot(&g, &b), dot(&b, &b));
        // From deep inside the limit to far outside, in units of what the trust region can change.
        let c = rng.random_range(-1.3..1.3) * (2.0 * DELTA * s).sqrt();
        let step = best_step(q, r, s, c, DELTA);
        let x: [f64; N] = std::array::from_fn(|i| step.on_g * g[i] + step.on_b * b[i]);
        assert!(dot(&x, &x) / 2.0 <= DELTA * (1.0 + 1e-9), "round {round}: outside the trust region");
        match solved(g, b, c) {
            Some(best) => {
                assert!(c + dot(&b, &x) <= 1e-9, "round {round}: over the limit");
                let found = dot(&g, &x);
                assert!((found - best).abs() < 1e-6 * (2.0 * DELTA * q).sqrt(), "round {round}: {found} is not {best}");
                cut += usize::from(step.on_b < 0.0);
            }
            None => {
                assert_eq!(step.case, Case::Recover, "round {round}");
                recovered += 1;
            }
        }
    }
    assert!(recovered > 50 && cut > 200, "{recovered} {cut}");
}
