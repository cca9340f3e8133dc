//! Where shapes touch, as MuJoCo finds it: the tangents of a contact matter, since its friction pyramid is not round.

use super::model::Shape;
use super::{boxes, convex};
use crate::physics::space::{Mat3, Vec3, add, column, cross, dot, scale, sub, times};

/// A shape where it is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solid {
    pub shape: Shape,
    pub size: [f64; 3],
    pub pos: Vec3,
    /// The third of its axes.
    pub axis: Vec3,
    /// All of them, kept up for boxes and cylinders.
    pub axes: Mat3,
}

/// One place where two shapes are near.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub pos: Vec3,
    /// From the first shape to the second.
    pub normal: Vec3,
    /// First tangent before it is made square to the normal, where the shapes have one.
    pub hint: Option<Vec3>,
    pub distance: f64,
}

/// Of a ball about the centre that holds the whole shape; a plane counts as a point.
pub(super) fn radius(shape: Shape, size: [f64; 3]) -> f64 {
    match shape {
        Shape::Plane => 0.0,
        Shape::Sphere => size[0],
        Shape::Capsule => size[0] + size[1],
        Shape::Cylinder => (size[0] * size[0] + size[1] * size[1]).sqrt(),
        Shape::Box => dot(size, size).sqrt(),
    }
}

/// Calls `found` with every place where two shapes are nearer than the margin; the first is the simpler one. A cylinder and what is no plane
/// have to overlap.
pub(super) fn touches(one: &Solid, two: &Solid, margin: f64, mut found: impl FnMut(Touch)) {
    let found = &mut found;
    match (one.shape, two.shape) {
        (Shape::Plane, Shape::Sphere) => plane_ball(one, two.pos, two.size[0], None, margin, found),
        (Shape::Plane, Shape::Capsule) => {
            let axis = two.axis;
            for end in [1.0, -1.0] {
                plane_ball(one, add(two.pos, end * two.size[1], axis), two.size[0], Some(axis), margin, found);
            }
        }
        (Shape::Plane, Shape::Cylinder) => plane_cylinder(one, two, margin, found),
        (Shape::Plane, Shape::Box) => plane_box(one, two, margin, found),
        (Shape::Sphere, Shape::Sphere) => balls(one, one.pos, two, two.pos, margin, found),
        (Shape::Sphere, Shape::Capsule) => {
            let axis = scale(two.size[1], two.axis);
            let x = (dot(axis, sub(one.pos, two.pos)) / dot(axis, axis)).clamp(-1.0, 1.0);
            balls(one, one.pos, two, add(two.pos, x, axis), margin, found);
        }
        (Shape::Capsule, Shape::Capsule) => capsules(one, two, margin, found),
        (Shape::Sphere, Shape::Box) => boxes::ball_box(one, two, margin, found),
        (Shape::Box, Shape::Box) => boxes::boxes(one, two, margin, found),
        (Shape::Sphere | Shape::Cylinder, Shape::Cylinder) | (Shape::Cylinder, Shape::Box) => {
            convex::touch(one, two, found)
        }
        (one, two) => unreachable!("no body has a {one:?} that touches a {two:?}"),
    }
}

fn plane_ball(
    plane: &Solid,
    centre: Vec3,
    radius: f64,
    hint: Option<Vec3>,
    margin: f64,
    found: &mut impl FnMut(Touch),
) {
    let normal = plane.axis;
    let distance = dot(sub(centre, plane.pos), normal) - radius;
    // Written so that a distance that is NaN is no contact.
    if distance < margin {
        let pos = add(centre, -distance / 2.0 - radius, normal);
        found(Touch { pos, normal, hint, distance });
    }
}

/// The lowest point of the rim, the one beyond it on the other rim, and two more on the lower rim a third of a turn on.
fn plane_cylinder(plane: &Solid, cylinder: &Solid, margin: f64, found: &mut impl FnMut(Touch)) {
    let normal = plane.axis;
    let [radius, half, _] = cylinder.size;
    let mut axis = cylinder.axis;
    let mut along = dot(normal, axis);
    if along > 0.0 {
        (axis, along) = (scale(-1.0, axis), -along);
    }
    let height = dot(sub(cylinder.pos, plane.pos), normal);
    let down = sub(scale(along, axis), normal);
    let length = dot(down, down).sqrt();
    let down = if length >= 1e-15 { scale(radius / length, down) } else { scale(radius, column(&cylinder.axes, 0)) };
    let fall = dot(down, normal);
    let (axis, along) = (scale(half, axis), along * half);
    let mut touch = |place: Vec3, distance: f64| {
        let near = distance < margin;
        if near {
            let pos = add(add(cylinder.pos, 1.0, place), -distance / 2.0, normal);
            found(Touch { pos, normal, hint: None, distance });
        }
        near
    };
    if !touch(add(down, 1.0, axis), height + along + fall) {
        return;
    }
    touch(sub(down, axis), height - along + fall);
    let aside = cross(down, axis);
    let aside = scale(radius * 3.0f64.sqrt() / 2.0 / dot(aside, aside).sqrt(), aside);
    for side in [1.0, -1.0] {
        let place = add(add(scale(side, aside), 1.0, axis), -0.5, down);
        touch(place, height + along - fall * 0.5);
    }
}

/// The first four of its corners that are low enough.
fn plane_box(plane: &Solid, cuboid: &Solid, margin: f64, found: &mut impl FnMut(Touch)) {
    let normal = plane.axis;
    let height = dot(sub(cuboid.pos, plane.pos), normal);
    let mut count = 0;
    for i in 0..8 {
        let side = |bit: usize| if i >> bit & 1 == 1 { cuboid.size[bit] } else { -cuboid.size[bit] };
        let corner = times(&cuboid.axes, [side(0), side(1), side(2)]);
        let below = dot(normal, corner);
        let distance = height + below;
        let near = distance < margin && below <= 0.0;
        if near && count < 4 {
            count += 1;
            let pos = add(add(cuboid.pos, 1.0, corner), -distance / 2.0, normal);
            found(Touch { pos, normal, hint: None, distance });
        }
    }
}

/// Balls in these places, with the radii and axes of two shapes.
fn balls(one: &Solid, a: Vec3, two: &Solid, b: Vec3, margin: f64, found: &mut impl FnMut(Touch)) {
    let gap = sub(b, a);
    let length = dot(gap, gap).sqrt();
    let distance = length - one.size[0] - two.size[0];
    if distance < margin {
        let normal = if length < 1e-15 { unit(cross(one.axis, two.axis)) } else { scale(1.0 / length, gap) };
        let pos = add(a, one.size[0] + distance / 2.0, normal);
        found(Touch { pos, normal, hint: None, distance });
    }
}

/// Far more than rounding changes squares of distances by.
const SLACK: f64 = 1e-9;

fn capsules(one: &Solid, two: &Solid, margin: f64, found: &mut impl FnMut(Touch)) {
    let (s, t) = (scale(one.size[1], one.axis), scale(two.size[1], two.axis));
    let apart = sub(one.pos, two.pos);
    let (ss, st, tt) = (dot(s, s), -dot(s, t), dot(t, t));
    let (u, v) = (-dot(s, apart), dot(t, apart));
    // Mostly they lie apart as seen along the line between their centres.
    let square = dot(apart, apart);
    let (gap, reach) = (square - u.abs() - v.abs(), one.size[0] + two.size[0] + margin);
    if gap > 0.0 && gap * gap > square * reach * reach * (1.0 + SLACK) {
        return;
    }
    let determinant = ss * tt - st * st;
    let clip = |x: f64| x.clamp(-1.0, 1.0);
    let mut count = 0;
    let mut at = |x: f64, y: f64| {
        balls(one, add(one.pos, x, s), two, add(two.pos, y, t), margin, &mut |touch| {
            count += 1;
            found(touch);
        });
        count
    };
    if determinant.abs() >= 1e-15 {
        let (mut x, mut y) = ((tt * u - st * v) / determinant, (ss * v - st * u) / determinant);
        if x.abs() > 1.0 {
            x = x.signum();
            y = (v - x * st) / tt;
        }
        if y.abs() > 1.0 {
            y = y.signum();
            x = clip((u - y * st) / ss);
        }
        at(x, y);
        return;
    }
    // Side by side: ends against the other's line, until two touch.
    at(1.0, clip((v - st) / tt));
    if at(-1.0, clip((v + st) / tt)) < 2 && at(clip((u - st) / ss), 1.0) < 2 {
        at(clip((u + st) / ss), -1.0);
    }
}

/// The vector with length 1; one without a direction becomes the world's x.
pub(super) fn unit(v: Vec3) -> Vec3 {
    let length = dot(v, v).sqrt();
    if length < 1e-15 { [1.0, 0.0, 0.0] } else { scale(1.0 / length, v) }
}

/// Two tangents: the first is the hint, or the world's y or z, made square to the normal.
pub(super) fn tangents(touch: &Touch) -> [Vec3; 2] {
    let normal = touch.normal;
    let hint = touch.hint.unwrap_or(if normal[1].abs() < 0.5 { [0.0, 1.0, 0.0] } else { [0.0, 0.0, 1.0] });
    let first = unit(add(hint, -dot(normal, hint), normal));
    [first, cross(normal, first)]
}
