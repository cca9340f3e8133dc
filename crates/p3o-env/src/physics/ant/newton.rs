//! The acceleration as the minimum of a convex function; the folder's README explains it.

use super::arrow::{Arrow, Dofs};
use super::constraints::{Constraints, Gaps, MAX_ROWS};
use crate::physics::line;

/// Far more than ever needed (one to three are typical): a bound for states that are not finite.
const MAX_STEPS: usize = 60;

/// argmin over a of `a' M a / 2 - f' a + sum_i D_i min(0, J_i a - aref_i)^2 / 2`, from a guess that affects only the
/// number of steps.
pub(super) fn minimize(mass: &Arrow, force: &Dofs, rows: &Constraints, guess: &Dofs) -> Dofs {
    let mut a = *guess;
    let (mut gaps, mut target_gaps): (Gaps, Gaps) = ([0.0; MAX_ROWS], [0.0; MAX_ROWS]);
    let mut active = rows.gaps(&a, &mut gaps);
    for _ in 0..MAX_STEPS {
        let (mut hessian, mut right) = (*mass, *force);
        rows.load(active, &mut hessian, &mut right);
        let target = hessian.solve(&right);
        let target_active = rows.gaps(&target, &mut target_gaps);
        let direction = target.plus(-1.0, &a);
        // Either the same rows push at both ends, and the quadratic's minimum is the function's; or a row is at its
        // target to the last digit, and it does not matter on which side.
        if target_active == active || direction.dot(&direction) <= 1e-30 * target.dot(&target) {
            return target;
        }
        let t = search(mass, force, rows, (&a, &direction), (&gaps, &target_gaps));
        a = a.plus(t, &direction);
        for (gap, target) in gaps[..rows.len()].iter_mut().zip(&target_gaps) {
            *gap += t * (target - *gap);
        }
        active = rows.below(&gaps);
    }
    a
}

/// Where in (0, 1] the function is least on the line `a + t direction`.
fn search(
    mass: &Arrow,
    force: &Dofs,
    rows: &Constraints,
    (a, direction): (&Dofs, &Dofs),
    (from, to): (&Gaps, &Gaps),
) -> f64 {
    let along = mass.times(direction);
    let (start, bend) = (along.dot(a) - direction.dot(force), along.dot(direction));
    line::least(|t| {
        let (slope, curvature) = rows.slope(from, to, t);
        (start + t * bend + slope, bend + curvature)
    })
}
