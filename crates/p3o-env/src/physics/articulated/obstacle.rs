//! Solid things that stand in a body's way.

use super::collide::{Solid, Touch, radius, touches};
use super::model::Shape;
use crate::physics::contact::PILLAR_RADIUS;
use crate::physics::space::{IDENTITY, column, scale};

/// Half the height of a pillar.
const PILLAR_HALF: f64 = 0.5;

/// Something that nothing moves, of the ground's stuff: what is true of a geom's contacts with the ground, friction and softness, is true
/// of its contacts with an obstacle.
#[derive(Clone, Copy, Debug)]
pub struct Obstacle {
    pub(super) solid: Solid,
    /// Everything of it is within this distance of its centre.
    pub(super) reach: f64,
}

impl Obstacle {
    /// An upright cylinder on the ground, as Safety-Gymnasium has them.
    pub fn pillar([x, y]: [f64; 2]) -> Obstacle {
        Obstacle::of(Shape::Cylinder, [PILLAR_RADIUS, PILLAR_HALF, 0.0], [x, y, PILLAR_HALF], IDENTITY)
    }

    /// A ball.
    pub fn ball(place: [f64; 3], radius: f64) -> Obstacle {
        Obstacle::of(Shape::Sphere, [radius, 0.0, 0.0], place, IDENTITY)
    }

    /// A box with these half sides along its axes, which stand in columns.
    pub fn cuboid(place: [f64; 3], half: [f64; 3], axes: [[f64; 3]; 3]) -> Obstacle {
        Obstacle::of(Shape::Box, half, place, axes)
    }

    fn of(shape: Shape, size: [f64; 3], pos: [f64; 3], axes: [[f64; 3]; 3]) -> Obstacle {
        Obstacle { solid: Solid { shape, size, pos, axis: column(&axes, 2), axes }, reach: radius(shape, size) }
    }

    /// Calls `found` with every place where a body's geom overlaps it; normals point to the geom.
    pub(super) fn touches(&self, geom: &Solid, mut found: impl FnMut(Touch)) {
        // The simpler shape goes first, and of two alike the geom, as in the original: it matters where the place of contact is searched for.
        if simplicity(self.solid.shape) < simplicity(geom.shape) {
            touches(&self.solid, geom, 0.0, found);
        } else {
            touches(geom, &self.solid, 0.0, |touch| found(Touch { normal: scale(-1.0, touch.normal), ..touch }));
        }
    }
}

/// The order of shapes in pairs.
fn simplicity(shape: Shape) -> usize {
    match shape {
        Shape::Plane => 0,
        Shape::Sphere => 1,
        Shape::Capsule => 2,
        Shape::Cylinder => 3,
        Shape::Box => 4,
    }
}
