//! Where two convex shapes overlap that have no formula of their own: a cylinder and a ball, a box or another cylinder.
//!
//! MuJoCo 2.3.3 finds these contacts by Minkowski portal refinement (Snethen's XenoCollide) and so does this file: all points of the first
//! shape less all points of the second are one convex shape, which holds the origin where the two overlap. From a point inside, the
//! difference of the centres, a ray goes through the origin; a triangle of the shape's surface that the ray passes is its *portal*, which
//! is moved outwards until it lies on the surface. What comes of it is one contact, of which depth and place depend on the way there, to
//! the tolerance and beyond: so the way is the original's, its tolerance and its number of steps too. A ray ends where it enters a face,
//! which is not always the nearest one: depths of deep overlaps are too large, in the original as here.
//!
//! The original then replaces the normal by that of a round surface at the place of contact, found by experiment: of a ball always,
//! of a cylinder's side unless the place is near a flat end. Of two round surfaces it takes the middle.

use super::collide::{Solid, Touch};
use super::model::Shape;
use crate::physics::space::{Vec3, add, column, cross, dot, scale, sub};

/// The portal is on the surface when it can be moved outwards by no more than this.
const TOLERANCE: f64 = 1e-6;
const MAX_STEPS: usize = 50;
/// Smaller numbers are zero.
const ZERO: f64 = f64::EPSILON;
/// A place further along a cylinder's axis than this share of its half length is near the end,
const NEAR_END: f64 = 0.95;
/// and so is one whose distance from the end is less than this share of its distance from the side.
const END_SHARE: f64 = 0.25;

/// Finds the contact of two shapes that overlap.
pub(super) fn touch(one: &Solid, two: &Solid, found: &mut impl FnMut(Touch)) {
    let Some(overlap) = overlap(one, two) else { return };
    let pos = overlap.pos;
    let normal = match (round_normal(one, pos), round_normal(two, pos)) {
        (Some(a), Some(b)) => unit(sub(a, b)),
        (Some(a), None) => Some(a),
        (None, Some(b)) => Some(scale(-1.0, b)),
        (None, None) => Some(overlap.normal),
    };
    found(Touch { pos, normal: normal.unwrap_or(overlap.normal), hint: None, distance: -overlap.depth });
}

/// Outwards at this place, if the surface there is round.
fn round_normal(solid: &Solid, pos: Vec3) -> Option<Vec3> {
    let from = sub(pos, solid.pos);
    match solid.shape {
        Shape::Sphere => unit(from),
        Shape::Cylinder => {
            let [radius, half, _] = solid.size;
            let along = dot(solid.axis, from);
            let aside = add(from, -along, solid.axis);
            let side = (radius - dot(aside, aside).sqrt()).abs();
            let end = (half - along.abs()).abs();
            if along.abs() < NEAR_END * half && end > END_SHARE * side { unit(aside) } else { None }
        }
        _ => None,
    }
}

struct Overlap {
    depth: f64,
    /// From the first to the second.
    normal: Vec3,
    pos: Vec3,
}

/// A point of the difference of two shapes, and the points of both that it comes from.
#[derive(Clone, Copy)]
struct Vertex {
    at: Vec3,
    from: [Vec3; 2],
}

impl Vertex {
    fn new(from: [Vec3; 2]) -> Vertex {
        Vertex { at: sub(from[0], from[1]), from }
    }

    /// The furthest in a direction.
    fn furthest(one: &Solid, two: &Solid, direction: Vec3) -> Vertex {
        Vertex::new([furthest(one, direction), furthest(two, scale(-1.0, direction))])
    }
}

/// The point of a shape that is furthest in a direction; the middle of those that are.
fn furthest(solid: &Solid, direction: Vec3) -> Vec3 {
    let sign = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
    let local = |i: usize| dot(column(&solid.axes, i), direction);
    let corner = match solid.shape {
        Shape::Sphere => return add(solid.pos, solid.size[0], direction),
        Shape::Box => [0, 1, 2].map(|i| sign(local(i)) * solid.size[i]),
        Shape::Cylinder => {
            let [x, y] = [local(0), local(1)];
            let length = (x * x + y * y).sqrt();
            let [radius, half, _] = solid.size;
            let rim = |v: f64| if length > 1e-15 { v / length * radius } else { 0.0 };
            [rim(x), rim(y), sign(local(2)) * half]
        }
        shape => unreachable!("a {shape:?} has formulas for its contacts"),
    };
    (0..3).fold(solid.pos, |sum, i| add(sum, corner[i], column(&solid.axes, i)))
}

fn overlap(one: &Solid, two: &Solid) -> Option<Overlap> {
    let mut inside = Vertex::new([one.pos, two.pos]);
    if inside.at == [0.0; 3] {
        inside.at[0] = 10.0 * ZERO;
    }
    let ahead = unit(scale(-1.0, inside.at))?;
    let first = Vertex::furthest(one, two, ahead);
    if is_short(&first, ahead) {
        return None;
    }
    let aside = cross(inside.at, first.at);
    if dot(aside, aside) < ZERO {
        // The first vertex is on the ray itself.
        let depth = dot(first.at, first.at).sqrt();
        let pos = scale(0.5, add(first.from[0], 1.0, first.from[1]));
        return Some(Overlap { depth, normal: unit(first.at)?, pos });
    }
    let mut portal = Portal::discover(one, two, inside, first, unit(aside)?)?;
    portal.pass_origin(one, two)?;
    portal.reach_surface(one, two)
}

/// Whether the shape ends before the origin in this direction; also where that is not a number.
fn is_short(vertex: &Vertex, direction: Vec3) -> bool {
    let beyond = dot(vertex.at, direction);
    beyond < ZERO || beyond.is_nan()
}

/// The triangle that the ray from the inside through the origin passes.
struct Portal {
    inside: Vertex,
    corners: [Vertex; 3],
}

impl Portal {
    /// From a first corner and the direction of the second.
    fn discover(one: &Solid, two: &Solid, inside: Vertex, first: Vertex, aside: Vec3) -> Option<Portal> {
        let second = Vertex::furthest(one, two, aside);
        if is_short(&second, aside) {
            return None;
        }
        let square = |a: &Vertex, b: &Vertex| unit(cross(sub(a.at, inside.at), sub(b.at, inside.at)));
        let (mut a, mut b) = (first, second);
        let mut direction = square(&a, &b)?;
        if dot(direction, inside.at) > 0.0 {
            (a, b) = (b, a);
            direction = scale(-1.0, direction);
        }
        let is_outside = |p: &Vertex, q: &Vertex| dot(cross(p.at, q.at), inside.at) <= -ZERO;
        for _ in 0..MAX_STEPS {
            let c = Vertex::furthest(one, two, direction);
            if is_short(&c, direction) {
                return None;
            }
            if is_outside(&a, &c) {
                b = c;
            } else if is_outside(&c, &b) {
                a = c;
            } else {
                return Some(Portal { inside, corners: [a, b, c] });
            }
            direction = square(&a, &b)?;
        }
        None
    }

    /// Moves outwards until the origin is behind; none if the shape ends before.
    fn pass_origin(&mut self, one: &Solid, two: &Solid) -> Option<()> {
        for _ in 0..MAX_STEPS {
            let direction = self.direction()?;
            if dot(self.corners[0].at, direction) > -ZERO {
                return Some(());
            }
            let next = Vertex::furthest(one, two, direction);
            if dot(next.at, direction) <= -ZERO || self.is_on_surface(&next, direction) {
                return None;
            }
            self.expand(next);
        }
        None
    }

    fn reach_surface(&mut self, one: &Solid, two: &Solid) -> Option<Overlap> {
        for step in 0.. {
            let direction = self.direction()?;
            let next = Vertex::furthest(one, two, direction);
            if self.is_on_surface(&next, direction) || step > MAX_STEPS {
                let nearest = nearest(self.corners.map(|corner| corner.at));
                let depth = dot(nearest, nearest).sqrt();
                return Some(Overlap { depth, normal: unit(nearest)?, pos: self.pos(direction)? });
            }
            self.expand(next);
        }
        None
    }

    fn direction(&self) -> Option<Vec3> {
        let [a, b, c] = self.corners.map(|corner| corner.at);
        unit(cross(sub(b, a), sub(c, a)))
    }

    /// Whether the furthest vertex in the portal's direction is hardly beyond it; also where that is not a number.
    fn is_on_surface(&self, next: &Vertex, direction: Vec3) -> bool {
        let reached = self.corners.iter().map(|corner| dot(corner.at, direction)).fold(f64::NEG_INFINITY, f64::max);
        let beyond = dot(next.at, direction) - reached;
        beyond <= TOLERANCE || beyond.is_nan()
    }

    /// Takes a vertex for that corner which leaves the ray inside.
    fn expand(&mut self, next: Vertex) {
        let across = cross(next.at, self.inside.at);
        let is_left = |corner: usize| dot(self.corners[corner].at, across) > 0.0;
        let replaced = match is_left(0) {
            true if is_left(1) => 0,
            true => 2,
            false if is_left(2) => 1,
            false => 0,
        };
        self.corners[replaced] = next;
    }

    /// Where the two shapes meet: halfway between the points of both that the origin comes from.
    fn pos(&self, direction: Vec3) -> Option<Vec3> {
        let vertices = [self.inside, self.corners[0], self.corners[1], self.corners[2]];
        let [o, a, b, c] = vertices.map(|vertex| vertex.at);
        let mut shares = [dot(cross(a, b), c), dot(cross(c, b), o), dot(cross(o, a), c), dot(cross(b, a), o)];
        if shares.iter().sum::<f64>() < ZERO {
            shares = [0.0, dot(cross(b, c), direction), dot(cross(c, a), direction), dot(cross(a, b), direction)];
        }
        let whole = shares.iter().sum::<f64>();
        let mut sums = [[0.0; 3]; 2];
        for (share, vertex) in shares.iter().zip(&vertices) {
            for (sum, from) in sums.iter_mut().zip(vertex.from) {
                *sum = add(*sum, *share, from);
            }
        }
        let pos = scale(0.5 / whole, add(sums[0], 1.0, sums[1]));
        pos.iter().all(|x| x.is_finite()).then_some(pos)
    }
}

/// The point of a triangle that is nearest to the origin: a corner, on an edge, or in the middle.
fn nearest([a, b, c]: [Vec3; 3]) -> Vec3 {
    let (ab, ac) = (sub(b, a), sub(c, a));
    let [at_a, at_b, at_c] = [a, b, c].map(|corner| [-dot(ab, corner), -dot(ac, corner)]);
    if at_a[0] <= 0.0 && at_a[1] <= 0.0 {
        return a;
    }
    if at_b[0] >= 0.0 && at_b[1] <= at_b[0] {
        return b;
    }
    if at_a[0] * at_b[1] - at_b[0] * at_a[1] <= 0.0 && at_a[0] >= 0.0 && at_b[0] <= 0.0 {
        return add(a, at_a[0] / (at_a[0] - at_b[0]), ab);
    }
    if at_c[1] >= 0.0 && at_c[0] <= at_c[1] {
        return c;
    }
    if at_c[0] * at_a[1] - at_a[0] * at_c[1] <= 0.0 && at_a[1] >= 0.0 && at_c[1] <= 0.0 {
        return add(a, at_a[1] / (at_a[1] - at_c[1]), ac);
    }
    let [from_b, from_c] = [at_b[1] - at_b[0], at_c[0] - at_c[1]];
    if at_b[0] * at_c[1] - at_c[0] * at_b[1] <= 0.0 && from_b >= 0.0 && from_c >= 0.0 {
        return add(b, from_b / (from_b + from_c), sub(c, b));
    }
    let normal = cross(ab, ac);
    scale(dot(normal, a) / dot(normal, normal), normal)
}

/// None for what has no direction.
fn unit(v: Vec3) -> Option<Vec3> {
    let length = dot(v, v).sqrt();
    (length > 0.0 && length.is_finite()).then(|| scale(1.0 / length, v))
}
