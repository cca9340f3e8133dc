//! Where boxes touch balls and each other.
//!
//! Two boxes overlap unless one of fifteen axes separates them: the normals of their faces, and what is square to an edge of each.
//! The axis along which they overlap least is the normal of the contact. Along it the facing side of each box is a
//! parallelogram; the corners of what the two have in common are the points of contact, as deep as the sides overlap there.
//!
//! Four habits of MuJoCo 2.3.3 are kept, found by experiment. Where the normal is that of a face, distances are half of the
//! depth, and the other box meets it with a side only if that is turned away by less than 30 degrees about each of its edges; otherwise with an edge or a
//! corner alone. Where the normal belongs to two edges, of all corners of the first box only one is looked at. And edges win where they are less
//! deep by more than rounding, so that a face against an upright edge is mostly a contact of edges.

#![expect(clippy::needless_range_loop, reason = "several arrays share each index, as in the formulas")]

use super::collide::{Solid, Touch};
use crate::physics::space::{Vec3, add, column, cross, dot, scale, sub};

/// Edges that are so nearly parallel have no axis of their own.
const PARALLEL: f64 = 1e-6;
/// A side that is turned away so far, by the sine, is none: the edge or corner that it is turned to is left.
const TURNED: f64 = 0.5;
/// By how much edges must be less deep than a face to be taken.
const ROUNDING: f64 = 1e-13;

pub(super) fn ball_box(ball: &Solid, cuboid: &Solid, margin: f64, found: &mut impl FnMut(Touch)) {
    let apart = sub(ball.pos, cuboid.pos);
    let local: Vec3 = std::array::from_fn(|i| dot(column(&cuboid.axes, i), apart));
    let nearest: Vec3 = std::array::from_fn(|i| local[i].clamp(-cuboid.size[i], cuboid.size[i]));
    let gap = sub(nearest, local);
    let length = dot(gap, gap).sqrt();
    let radius = ball.size[0];
    let world = |v: Vec3| {
        let mut sum = [0.0; 3];
        for i in 0..3 {
            sum = add(sum, v[i], column(&cuboid.axes, i));
        }
        sum
    };
    if length > 0.0 {
        let distance = length - radius;
        if distance < margin {
            let normal = world(scale(1.0 / length, gap));
            let pos = add(ball.pos, radius + 0.5 * distance, normal);
            found(Touch { pos, normal, hint: None, distance });
        }
    } else if length == 0.0 {
        // The ball's centre is in the box: out by the nearest side.
        let room: Vec3 = std::array::from_fn(|i| cuboid.size[i] - local[i].abs());
        let axis = (0..3).min_by(|a, b| room[*a].total_cmp(&room[*b])).unwrap_or(0);
        let normal = scale(-local[axis].signum(), column(&cuboid.axes, axis));
        let mut half = local;
        half[axis] *= 0.5;
        found(Touch { pos: add(cuboid.pos, 1.0, world(half)), normal, hint: None, distance: -radius });
    }
}

pub(super) fn boxes(one: &Solid, two: &Solid, margin: f64, found: &mut impl FnMut(Touch)) {
    let Some(axis) = least_overlap(one, two, margin) else { return };
    let normal = axis.normal;
    let sides = [Side::of(one, normal), Side::of(two, scale(-1.0, normal))];
    let plane = Plane::across(normal);
    let flat = [plane.flatten(&sides[0]), plane.flatten(&sides[1])];
    let share = if axis.face.is_some() { 0.5 } else { 1.0 };
    let mut point = |at: [f64; 2]| {
        let heights = [sides[0].height(&plane, at), sides[1].height(&plane, at)];
        let depth = heights[1] - heights[0];
        if depth < margin {
            let pos = add(plane.place(at), 0.5 * (heights[0] + heights[1]), normal);
            found(Touch { pos, normal, hint: None, distance: share * depth });
        }
    };
    // Which corners of each side are looked at; only a whole side can hold those of the other.
    let fronts = [0, 1]
        .map(|i| if axis.face == Some(1 - i) { CORNERS.map(|corner| sides[i].leans_to(corner)) } else { [true; 4] });
    let whole = fronts.map(|front| front == [true; 4]);
    let corners = |i: usize| (0..4).filter(move |k| fronts[i][*k]).map(|k| CORNERS[k]);
    if axis.face.is_none() {
        if let Some(corner) = sides[0].favourites().into_iter().find(|corner| flat[1].holds(flat[0].corner(*corner))) {
            point(flat[0].corner(corner));
        }
    } else if whole[1] {
        corners(0).map(|corner| flat[0].corner(corner)).filter(|at| flat[1].holds(*at)).for_each(&mut point);
    }
    if whole[0] {
        corners(1).map(|corner| flat[1].corner(corner)).filter(|at| flat[0].holds(*at)).for_each(&mut point);
    }
    let edge = |i: usize, k: usize| {
        let next = (k + 1) % 4;
        (fronts[i][k] && fronts[i][next]).then(|| [flat[i].corner(CORNERS[k]), flat[i].corner(CORNERS[next])])
    };
    for first in (0..4).filter_map(|k| edge(0, k)) {
        for second in (0..4).filter_map(|k| edge(1, k)) {
            if let Some(at) = crossing(first, second) {
                point(at);
            }
        }
    }
}

/// The axis along which two boxes overlap least.
struct Axis {
    /// From the first to the second.
    normal: Vec3,
    /// Of which box it is a face's normal; none if it belongs to two edges.
    face: Option<usize>,
}

/// None if the boxes do not overlap.
fn least_overlap(one: &Solid, two: &Solid, margin: f64) -> Option<Axis> {
    let apart = sub(two.pos, one.pos);
    let reach = dot(one.size, one.size).sqrt() + dot(two.size, two.size).sqrt() + margin;
    // Asked so that places that are not finite do not overlap.
    let is_near = dot(apart, apart) < reach * reach;
    if !is_near {
        return None;
    }
    let axes = [one, two].map(|solid| [0, 1, 2].map(|i| column(&solid.axes, i)));
    let seen = |solid: usize, axis: Vec3| {
        let size = [one, two][solid].size;
        (0..3).map(|i| size[i] * dot(axes[solid][i], axis).abs()).sum::<f64>()
    };
    let gap = |axis: Vec3| dot(apart, axis).abs() - seen(0, axis) - seen(1, axis);
    let towards = |axis: Vec3| if dot(apart, axis) < 0.0 { scale(-1.0, axis) } else { axis };

    let mut best = f64::NEG_INFINITY;
    let mut found = Axis { normal: [0.0; 3], face: None };
    for (i, axis) in axes.into_iter().flatten().enumerate() {
        let gap = gap(axis);
        if gap >= margin {
            return None;
        }
        if gap > best {
            best = gap;
            found = Axis { normal: towards(axis), face: Some(i / 3) };
        }
    }
    best += ROUNDING;
    for first in axes[0] {
        for second in axes[1] {
            let axis = cross(first, second);
            let length = dot(axis, axis).sqrt();
            if length < PARALLEL {
                continue;
            }
            let axis = scale(1.0 / length, axis);
            let gap = gap(axis);
            if gap >= margin {
                return None;
            }
            if gap > best {
                best = gap;
                found = Axis { normal: towards(axis), face: None };
            }
        }
    }
    Some(found)
}

/// Signs of the corners of a side, in their order around it.
const CORNERS: [[f64; 2]; 4] = [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]];

/// The side of a box that faces along a direction.
struct Side {
    centre: Vec3,
    /// From the centre to the middle of two edges.
    halves: [Vec3; 2],
    outward: Vec3,
    /// Which of the box's axes is its own, and on which end of it the side is.
    axis: usize,
    positive: bool,
    /// Towards which end of each of its edges it is turned away: -1, 1, or 0 where that is little.
    lean: [f64; 2],
}

impl Side {
    fn of(solid: &Solid, direction: Vec3) -> Side {
        let along: Vec3 = std::array::from_fn(|i| dot(column(&solid.axes, i), direction));
        let mut axis = 0;
        for i in 1..3 {
            if along[i].abs() > along[axis].abs() {
                axis = i;
            }
        }
        let positive = along[axis] > 0.0;
        let outward = scale(if positive { 1.0 } else { -1.0 }, column(&solid.axes, axis));
        let [a, b] = [[1, 2], [0, 2], [0, 1]][axis];
        let halves = [a, b].map(|i| scale(solid.size[i], column(&solid.axes, i)));
        let lean = [a, b].map(|i| if along[i].abs() > TURNED { along[i].signum() } else { 0.0 });
        Side { centre: add(solid.pos, solid.size[axis], outward), halves, outward, axis, positive, lean }
    }

    /// How far along the plane's normal the side is, at a place of the plane.
    fn height(&self, plane: &Plane, at: [f64; 2]) -> f64 {
        dot(self.outward, sub(self.centre, plane.place(at))) / dot(self.outward, plane.normal)
    }

    /// Whether a corner is on the edge, or is the corner, that the side is turned to.
    fn leans_to(&self, corner: [f64; 2]) -> bool {
        (0..2).all(|i| self.lean[i] == 0.0 || self.lean[i] == corner[i])
    }

    /// Signs of the corners in the order in which MuJoCo looks at them where edges touch: the first inside the other side is
    /// the only one that it takes.
    fn favourites(&self) -> [[f64; 2]; 4] {
        let [a, b] = match (self.axis, self.positive) {
            (0 | 1, true) => [-1.0, 1.0],
            (2, false) => [1.0, -1.0],
            _ => [-1.0, -1.0],
        };
        [[a, b], [a, -b], [-a, b], [-a, -b]]
    }
}

/// The plane through the world's origin that is square to a normal.
struct Plane {
    normal: Vec3,
    across: [Vec3; 2],
}

impl Plane {
    fn across(normal: Vec3) -> Plane {
        let hint = if normal[0].abs() < 0.5 { [1.0, 0.0, 0.0] } else { [0.0, 1.0, 0.0] };
        let first = cross(normal, hint);
        let first = scale(1.0 / dot(first, first).sqrt(), first);
        Plane { normal, across: [first, cross(normal, first)] }
    }

    fn project(&self, v: Vec3) -> [f64; 2] {
        self.across.map(|axis| dot(axis, v))
    }

    fn place(&self, at: [f64; 2]) -> Vec3 {
        add(scale(at[0], self.across[0]), at[1], self.across[1])
    }

    fn flatten(&self, side: &Side) -> Flat {
        let halves = side.halves.map(|half| self.project(half));
        let [p, q] = halves;
        Flat { centre: self.project(side.centre), halves, area: p[0] * q[1] - p[1] * q[0] }
    }
}

/// A side as seen along the normal: a parallelogram.
struct Flat {
    centre: [f64; 2],
    halves: [[f64; 2]; 2],
    area: f64,
}

impl Flat {
    fn corner(&self, [a, b]: [f64; 2]) -> [f64; 2] {
        std::array::from_fn(|i| self.centre[i] + a * self.halves[0][i] + b * self.halves[1][i])
    }

    fn holds(&self, at: [f64; 2]) -> bool {
        let [x, y] = [at[0] - self.centre[0], at[1] - self.centre[1]];
        let [p, q] = self.halves;
        let reach = self.area.abs();
        (x * q[1] - y * q[0]).abs() <= reach && (p[0] * y - p[1] * x).abs() <= reach
    }
}

/// Where two stretches cross; none if they are parallel.
fn crossing([a, b]: [[f64; 2]; 2], [c, d]: [[f64; 2]; 2]) -> Option<[f64; 2]> {
    let [ab, cd, ac] = [[a, b], [c, d], [a, c]].map(|[from, to]| [to[0] - from[0], to[1] - from[1]]);
    let area = |p: [f64; 2], q: [f64; 2]| p[0] * q[1] - p[1] * q[0];
    let whole = area(ab, cd);
    if whole.abs() < 1e-14 {
        return None;
    }
    let (t, u) = (area(ac, cd) / whole, area(ac, ab) / whole);
    let inside = |x: f64| (0.0..=1.0).contains(&x);
    (inside(t) && inside(u)).then(|| [a[0] + t * ab[0], a[1] + t * ab[1]])
}
