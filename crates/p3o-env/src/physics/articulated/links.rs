//! Where a link is, how it moves and what inertia it has: the formulas for one link in space, or for two of the same form at once.
//!
//! Motions and forces are six numbers, turning before moving, about the centre of mass of the whole tree.

use crate::physics::lanes::Lanes;
use crate::physics::space::{Mat3, Vec3, about, column, cross, dot, product, scale, sub, sum, times};

pub(super) type Six<T = f64> = [T; 6];

#[inline(always)]
pub(super) fn angular<T: Lanes>(v: &Six<T>) -> Vec3<T> {
    [v[0], v[1], v[2]]
}

#[inline(always)]
pub(super) fn linear<T: Lanes>(v: &Six<T>) -> Vec3<T> {
    [v[3], v[4], v[5]]
}

#[inline(always)]
pub(super) fn six<T: Lanes>(a: Vec3<T>, b: Vec3<T>) -> Six<T> {
    [a[0], a[1], a[2], b[0], b[1], b[2]]
}

#[inline(always)]
pub(super) fn plus<T: Lanes>(a: &Six<T>, b: &Six<T>) -> Six<T> {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5]]
}

#[inline(always)]
pub(super) fn scaled<T: Lanes>(s: T, v: &Six<T>) -> Six<T> {
    [s * v[0], s * v[1], s * v[2], s * v[3], s * v[4], s * v[5]]
}

#[inline(always)]
pub(super) fn inner<T: Lanes>(a: &Six<T>, b: &Six<T>) -> T {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3] + a[4] * b[4] + a[5] * b[5]
}

/// How a motion changes that is fixed to something moving at `v`.
#[inline(always)]
fn carried<T: Lanes>(v: &Six<T>, motion: &Six<T>) -> Six<T> {
    let (w, u) = (angular(v), linear(v));
    let (a, b) = (angular(motion), linear(motion));
    six(cross(w, a), sum(cross(w, b), cross(u, a)))
}

/// The same for a force.
#[inline(always)]
fn carried_force<T: Lanes>(v: &Six<T>, force: &Six<T>) -> Six<T> {
    let (w, u) = (angular(v), linear(v));
    let (a, b) = (angular(force), linear(force));
    six(sum(cross(w, a), cross(u, b)), cross(w, b))
}

/// Inertia times motion; the inertia as in [`Moments`](super::Moments).
#[inline(always)]
pub(super) fn momentum<T: Lanes>(i: &[T; 10], v: &Six<T>) -> Six<T> {
    let (w, u, h) = (angular(v), linear(v), [i[6], i[7], i[8]]);
    let turn = [
        i[0] * w[0] + i[3] * w[1] + i[4] * w[2],
        i[3] * w[0] + i[1] * w[1] + i[5] * w[2],
        i[4] * w[0] + i[5] * w[1] + i[2] * w[2],
    ];
    six(sum(turn, cross(h, u)), sub(scale(i[9], u), cross(h, w)))
}

/// Mass, centre of mass and inertia about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mass<T = f64> {
    pub mass: T,
    pub com: Vec3<T>,
    pub inertia: Mat3<T>,
}

impl<T: Lanes> Mass<T> {
    /// The spatial inertia when its frame has these axes and its centre is at `h` from the tree's centre.
    #[inline(always)]
    pub fn about(&self, axes: &Mat3<T>, h: Vec3<T>) -> [T; 10] {
        let local = product(axes, &self.inertia);
        let entry = |i: usize, j: usize| dot(local[i], axes[j]);
        let (m, square) = (self.mass, dot(h, h));
        [
            entry(0, 0) + m * (square - h[0] * h[0]),
            entry(1, 1) + m * (square - h[1] * h[1]),
            entry(2, 2) + m * (square - h[2] * h[2]),
            entry(0, 1) - m * h[0] * h[1],
            entry(0, 2) - m * h[0] * h[2],
            entry(1, 2) - m * h[1] * h[2],
            m * h[0],
            m * h[1],
            m * h[2],
            m,
        ]
    }
}

/// An inertia that is round: `across` the same in all directions, less the square of `lack` along it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round<T = f64> {
    pub across: T,
    pub lack: Vec3<T>,
}

impl<T: Lanes> Round<T> {
    /// As [`Mass::about`].
    #[inline(always)]
    fn about(&self, mass: T, axes: &Mat3<T>, h: Vec3<T>) -> [T; 10] {
        let (across, u, k) = (self.across, times(axes, self.lack), scale(mass, h));
        let (x, y, z) = (h[0] * k[0], h[1] * k[1], h[2] * k[2]);
        [
            across + y + z - u[0] * u[0],
            across + x + z - u[1] * u[1],
            across + x + y - u[2] * u[2],
            -h[0] * k[1] - u[0] * u[1],
            -h[0] * k[2] - u[0] * u[2],
            -h[1] * k[2] - u[1] * u[2],
            k[0],
            k[1],
            k[2],
            mass,
        ]
    }
}

/// Where a hinge is in its link's frame and how it turns.
#[derive(Clone, Debug)]
pub(super) struct Hinge<T = f64> {
    pub pos: Vec3<T>,
    pub is_centred: bool,
    pub axis: Vec3<T>,
    /// The number and sign of the axis, if it is one of the frame's.
    pub plain: Option<(usize, T)>,
    pub reference: T,
}

/// What of a link never changes, besides its joints.
#[derive(Clone, Debug)]
pub(super) struct Form<T = f64> {
    pub pos: Vec3<T>,
    /// None if it is not turned.
    pub turn: Option<Mat3<T>>,
    pub mass: Mass<T>,
    pub round: Option<Round<T>>,
}

/// Place and axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<T = f64> {
    pub at: Vec3<T>,
    pub axes: Mat3<T>,
}

/// Where a link is and how it moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<T = f64> {
    pub frame: Frame<T>,
    pub com: Vec3<T>,
    /// Inertia of the link and all that hangs on it.
    pub composite: [T; 10],
    pub velocity: Six<T>,
    pub acceleration: Six<T>,
    pub force: Six<T>,
}

impl<T: Lanes> Form<T> {
    /// The frame before its joints turn it.
    #[inline(always)]
    pub fn begin(&self, parent: &Frame<T>) -> Frame<T> {
        let at = sum(parent.at, times(&parent.axes, self.pos));
        let axes = self.turn.as_ref().map_or(parent.axes, |turn| product(&parent.axes, turn));
        Frame { at, axes }
    }

    /// The inertia, and the force that it takes to move at `v` and accelerate at `a`.
    #[inline(always)]
    pub fn weigh(&self, axes: &Mat3<T>, h: Vec3<T>, v: &Six<T>, a: &Six<T>) -> ([T; 10], Six<T>) {
        let inertia = match &self.round {
            Some(round) => round.about(self.mass.mass, axes, h),
            None => self.mass.about(axes, h),
        };
        let force = plus(&momentum(&inertia, a), &carried_force(v, &momentum(&inertia, v)));
        (inertia, force)
    }
}

impl<T: Lanes> Frame<T> {
    /// The place of something fixed here.
    #[inline(always)]
    pub fn place(&self, pos: Vec3<T>) -> Vec3<T> {
        sum(self.at, times(&self.axes, pos))
    }

    /// Turns about the hinge; returns its axis and place.
    #[inline(always)]
    pub fn turn(&mut self, hinge: &Hinge<T>, q: T) -> Six<T> {
        let anchor = if hinge.is_centred { self.at } else { self.place(hinge.pos) };
        let angle = q - hinge.reference;
        let axis = match hinge.plain {
            Some((0, sign)) => self.spin::<0, 1, 2>(sign, angle),
            Some((1, sign)) => self.spin::<1, 2, 0>(sign, angle),
            Some((_, sign)) => self.spin::<2, 0, 1>(sign, angle),
            None => {
                let axis = times(&self.axes, hinge.axis);
                self.axes = product(&self.axes, &about(hinge.axis, angle.sincos()));
                axis
            }
        };
        if !hinge.is_centred {
            self.at = sub(anchor, times(&self.axes, hinge.pos));
        }
        six(axis, anchor)
    }

    /// Turns about axis K of its own; I and J are the next ones.
    #[inline(always)]
    fn spin<const K: usize, const I: usize, const J: usize>(&mut self, sign: T, angle: T) -> Vec3<T> {
        let axis = scale(sign, column(&self.axes, K));
        let (s, c) = (sign * angle).sincos();
        for row in &mut self.axes {
            (row[I], row[J]) = (c * row[I] + s * row[J], c * row[J] - s * row[I]);
        }
        axis
    }
}

/// The motion about a centre that an axis and its place stand for.
#[inline(always)]
pub(super) fn turning<T: Lanes>(axis_and_place: &Six<T>, centre: Vec3<T>) -> Six<T> {
    let (axis, place) = (angular(axis_and_place), linear(axis_and_place));
    six(axis, cross(axis, sub(centre, place)))
}

/// Adds a joint's step to velocity and acceleration: it is carried by what moves before it.
#[inline(always)]
pub(super) fn go<T: Lanes>(v: &mut Six<T>, a: &mut Six<T>, step: &Six<T>) {
    *a = plus(a, &carried(v, step));
    *v = plus(v, step);
}
