//! Simple vases: cubes of half-side 0.1 that weigh nothing beside the robot.
//!
//! The original's vases are free bodies of eight milligrams that tumble when hit (`free_vases.rs`). A simple vase keeps its sides along the
//! axes, slides where the robot pushes it, stops at once, and pushes neither the robot nor other vases.

use crate::physics::point::{ARROW_AHEAD, ARROW_HALF, RADIUS};

/// Half the side of a vase.
pub(crate) const HALF: f64 = 0.1;
/// Farther than the two outer radii, hypot(0.1, 0.1) and hypot(0.15, 0.05), no contact is possible.
const REACH: f64 = 0.1415 + 0.1582;
/// Left between robot and vase after a push, so that rounding cannot leave them overlapping.
const SLACK: f64 = 1e-9;

/// Moves a vase out of the robot; whether it was touched.
pub(crate) fn push_out(robot: [f64; 2], heading: [f64; 2], vase: &mut [f64; 2]) -> bool {
    let offset = minus(*vase, robot);
    if offset[0] * offset[0] + offset[1] * offset[1] >= REACH * REACH {
        return false;
    }
    let mut touched = false;
    // Leaving the sphere may enter the arrow and the other way round; between them the pushes soon agree.
    for _ in 0..16 {
        let Some(push) = overlap(robot, heading, *vase) else { return touched };
        *vase = plus(*vase, push);
        touched = true;
    }
    if overlap(robot, heading, *vase).is_some() {
        let away = minus(*vase, robot);
        let length = (away[0] * away[0] + away[1] * away[1]).sqrt();
        let direction = if length > 0.0 { away.map(|a| a / length) } else { heading };
        *vase = plus(robot, direction.map(|a| a * REACH));
    }
    touched
}

/// The same for a robot whose outline from above is convex, given counter-clockwise in its own frame.
pub(crate) fn push_out_of(outline: &[[f64; 2]], robot: [f64; 2], heading: [f64; 2], vase: &mut [f64; 2]) -> bool {
    let [cos, sin] = heading;
    let offset = minus(*vase, robot);
    let ego = [cos * offset[0] + sin * offset[1], cos * offset[1] - sin * offset[0]];
    let Some([x, y]) = overlap_outline(outline, [cos, -sin], ego) else { return false };
    *vase = plus(*vase, [cos * x - sin * y, sin * x + cos * y]);
    true
}

/// The shortest push out of a convex outline, in whose frame the vase is at `vase` and the world's x axis along `side`.
///
/// Two convex shapes overlap unless a direction square to a side of one of them separates them; the shallowest gives the push.
pub(crate) fn overlap_outline(outline: &[[f64; 2]], side: [f64; 2], vase: [f64; 2]) -> Option<[f64; 2]> {
    let dot = |a: [f64; 2], b: [f64; 2]| a[0] * b[0] + a[1] * b[1];
    let up = [-side[1], side[0]];
    let mut best = (f64::INFINITY, [0.0; 2]);
    let mut separates = |axis: [f64; 2], reach: f64| {
        let depth = reach + HALF * (dot(axis, side).abs() + dot(axis, up).abs()) - dot(axis, vase);
        if depth < best.0 {
            best = (depth, axis.map(|a| a * (depth + SLACK)));
        }
        // Written so that a depth that is NaN separates.
        depth <= 0.0 || depth.is_nan()
    };
    for axis in [side, up, side.map(|a| -a), up.map(|a| -a)] {
        let reach = outline.iter().map(|corner| dot(axis, *corner)).fold(f64::NEG_INFINITY, f64::max);
        if separates(axis, reach) {
            return None;
        }
    }
    for (i, corner) in outline.iter().enumerate() {
        let edge = minus(outline[(i + 1) % outline.len()], *corner);
        let length = dot(edge, edge).sqrt();
        let axis = [edge[1] / length, -edge[0] / length];
        if separates(axis, dot(axis, *corner)) {
            return None;
        }
    }
    Some(best.1)
}

/// The shortest push that frees the vase from the part of the robot it overlaps, if any.
pub(crate) fn overlap(robot: [f64; 2], heading: [f64; 2], vase: [f64; 2]) -> Option<[f64; 2]> {
    let arrow = [robot[0] + ARROW_AHEAD * heading[0], robot[1] + ARROW_AHEAD * heading[1]];
    overlap_circle(robot, vase).or_else(|| overlap_square(arrow, heading, vase))
}

fn overlap_circle(robot: [f64; 2], vase: [f64; 2]) -> Option<[f64; 2]> {
    let offset = minus(vase, robot);
    let gap = offset.map(|a| a - a.clamp(-HALF, HALF));
    let distance = (gap[0] * gap[0] + gap[1] * gap[1]).sqrt();
    if distance > 0.0 {
        let depth = RADIUS - distance;
        return (depth > 0.0).then(|| gap.map(|a| a / distance * (depth + SLACK)));
    }
    if offset[0].is_nan() || offset[1].is_nan() {
        return None;
    }
    // The robot's centre is inside the vase: leave by the nearest side.
    let axis = usize::from(offset[1].abs() > offset[0].abs());
    let mut push = [0.0; 2];
    push[axis] = (HALF + RADIUS + SLACK - offset[axis].abs()).copysign(offset[axis]);
    Some(push)
}

/// Two squares overlap unless one of their four side directions separates them; the shallowest gives the push.
fn overlap_square(arrow: [f64; 2], heading: [f64; 2], vase: [f64; 2]) -> Option<[f64; 2]> {
    let offset = minus(vase, arrow);
    let [cos, sin] = heading;
    // Half-width of a square seen along the other's axes.
    let spread = cos.abs() + sin.abs();
    let axes = [
        ([1.0, 0.0], HALF + ARROW_HALF * spread),
        ([0.0, 1.0], HALF + ARROW_HALF * spread),
        ([cos, sin], HALF * spread + ARROW_HALF),
        ([-sin, cos], HALF * spread + ARROW_HALF),
    ];
    let mut best = (f64::INFINITY, [0.0; 2]);
    for (axis, reach) in axes {
        let along = axis[0] * offset[0] + axis[1] * offset[1];
        let depth = reach - along.abs();
        if depth <= 0.0 {
            return None;
        }
        if depth < best.0 {
            best = (depth, axis.map(|a| a * (depth + SLACK).copysign(along)));
        }
    }
    best.0.is_finite().then_some(best.1)
}

fn plus(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

fn minus(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] - b[0], a[1] - b[1]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_overlap_is_resolved_and_reported() {
        for i in 0..40 {
            for j in 0..40 {
                for k in 0..24 {
                    let start = [f64::from(i - 20) * 0.02, f64::from(j - 20) * 0.02];
                    let angle = f64::from(k) * 0.27;
                    let heading = [libm::cos(angle), libm::sin(angle)];
                    let mut vase = start;
                    let before = overlap([0.0; 2], heading, vase).is_some();
                    assert_eq!(push_out([0.0; 2], heading, &mut vase), before);
                    assert!(overlap([0.0; 2], heading, vase).is_none(), "{start:?} {angle}");
                    assert!(before || vase == start);
                }
            }
        }
    }

    #[test]
    fn an_outline_frees_every_vase_by_one_push() {
        // A kite; the vase's place is tried on a grid, so that every side of both is the shallowest somewhere.
        let outline = [[0.15, 0.0], [0.0, 0.1], [-0.1, 0.0], [0.0, -0.12]];
        let mut pushed = 0;
        for i in 0..40 {
            for j in 0..40 {
                for k in 0..24 {
                    let (start, robot) = ([f64::from(i - 20) * 0.02, f64::from(j - 20) * 0.02], [0.3, -0.2]);
                    let angle = f64::from(k) * 0.27;
                    let heading = [libm::cos(angle), libm::sin(angle)];
                    let mut vase = plus(robot, start);
                    if push_out_of(&outline, robot, heading, &mut vase) {
                        pushed += 1;
                        assert!(!push_out_of(&outline, robot, heading, &mut vase), "{start:?} {angle}");
                    } else {
                        assert_eq!(vase, plus(robot, start));
                        // No corner of the one is in the other.
                        assert!(start[0].abs() > HALF || start[1].abs() > HALF);
                    }
                }
            }
        }
        assert!(pushed > 1000, "{pushed}");
        // Ahead along x: the tip is at 0.15, the vase's near side must be there too.
        let mut vase = [0.24, 0.0];
        assert!(push_out_of(&outline, [0.0; 2], [1.0, 0.0], &mut vase));
        assert!((vase[0] - 0.25).abs() < 1e-8 && vase[1] == 0.0, "{vase:?}");
    }

    #[test]
    fn a_vase_ahead_is_pushed_along_the_heading() {
        // The arrow's tip is at 0.15, the vase's near side must be there too: centre at 0.25.
        let mut vase = [0.24, 0.0];
        assert!(push_out([0.0; 2], [1.0, 0.0], &mut vase));
        assert!((vase[0] - 0.25).abs() < 1e-8 && vase[1] == 0.0, "{vase:?}");
    }
}
