//! The Point robot against solid pillars: MuJoCo's soft contact, reduced to the plane.
//!
//! Each contact contributes the ten edges of a friction pyramid (`condim` 6). In planar motion six of them coincide with
//! the normal, so five rows remain, the middle one with sixfold weight:
//!
//! ```text
//! Jn + mu1 Jt, Jn - mu1 Jt, 6 x Jn, Jn + mu4 Jw, Jn - mu4 Jw        Jw = (0, 0, 1)
//!
//! a = argmin 1/2 (a - a0)' M (a - a0) + 1/2 sum_i D_i min(0, J_i a - aref_i)^2
//! aref = -B J v - K imp dist,   D = imp / (4 (1 - imp) w),   f_contact = sum_i J_i' D_i max(0, aref_i - J_i a)
//! ```
//!
//! Everything is expressed in the robot's own frame (see [`super::point`]), where M is constant.

use super::point::{ARROW_AHEAD, ARROW_HALF, COUPLING, Frame, INERTIA, INVERSE_WEIGHT, MASS, PointState, RADIUS};

/// Radius of every pillar.
pub const PILLAR_RADIUS: f64 = 0.2;

/// K and B: a critically damped spring with time constant 0.02 s, scaled by the largest impedance.
const STIFFNESS: f64 = 1.0 / (0.95 * 0.95 * 0.02 * 0.02);
const DAMPING: f64 = 2.0 / (0.95 * 0.02);
/// Sliding friction mu1, the same for both geoms.
const SLIDING: f64 = 1.0;

const MAX_CONTACTS: usize = 8;
const ROWS: usize = 5;

/// Which part of the robot touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The sphere of radius 0.1.
    Sphere,
    /// The cube ahead of it.
    Arrow,
}

/// One place where the robot meets a pillar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contact {
    /// Part of the robot.
    pub part: Part,
    /// Index of the pillar.
    pub pillar: usize,
    /// Signed gap; negative when the two overlap.
    pub dist: f64,
    /// Unit vector from the pillar to the robot, in the robot's frame.
    normal: [f64; 2],
    /// Contact point relative to the robot's origin, in the robot's frame.
    point: [f64; 2],
}

/// All contacts (gap zero or negative) of the robot in this pose.
pub fn contacts(state: &PointState, pillars: &[[f64; 2]]) -> Vec<Contact> {
    Contacts::find(&Frame::of(state), pillars).list().to_vec()
}

/// Whether the robot could touch any pillar within the next `seconds`.
pub(crate) fn reachable(state: &PointState, seconds: f64, pillars: &[[f64; 2]]) -> bool {
    // Pillar radius and the arrow's far corners, hypot(0.15, 0.05) = 0.1582 from the origin.
    const TOUCH: f64 = PILLAR_RADIUS + 0.1582;
    // Drive, servo and centrifugal force change the velocity by less than 1 m/s within a step, which is 0.02 s.
    let reach = TOUCH + seconds * (state.vx.abs() + state.vy.abs() + 1.0);
    let near = |p: &[f64; 2]| {
        let (dx, dy) = (p[0] - state.x, p[1] - state.y);
        dx * dx + dy * dy < reach * reach
    };
    pillars.iter().any(near)
}

/// The contacts of one moment, without allocation.
pub(crate) struct Contacts {
    list: [Contact; MAX_CONTACTS],
    len: usize,
}

impl Contacts {
    /// Pillars do not overlap, so the robot can meet only a few at once; more than [`MAX_CONTACTS`] are ignored.
    pub fn find(frame: &Frame, pillars: &[[f64; 2]]) -> Contacts {
        const NONE: Contact = Contact { part: Part::Sphere, pillar: 0, dist: 0.0, normal: [0.0; 2], point: [0.0; 2] };
        let mut found = Contacts { list: [NONE; MAX_CONTACTS], len: 0 };
        for (pillar, centre) in pillars.iter().enumerate() {
            let (dx, dy) = (centre[0] - frame.x, centre[1] - frame.y);
            let ego = [frame.cos * dx + frame.sin * dy, frame.cos * dy - frame.sin * dx];
            // Closest points of the two parts to the pillar's centre; the sphere's own radius is added to the pillar's.
            let on_arrow = [
                ego[0].clamp(ARROW_AHEAD - ARROW_HALF, ARROW_AHEAD + ARROW_HALF),
                ego[1].clamp(-ARROW_HALF, ARROW_HALF),
            ];
            for (part, closest, radius) in [(Part::Sphere, [0.0; 2], RADIUS), (Part::Arrow, on_arrow, 0.0)] {
                let gap = [closest[0] - ego[0], closest[1] - ego[1]];
                let length = (gap[0] * gap[0] + gap[1] * gap[1]).sqrt();
                let dist = length - radius - PILLAR_RADIUS;
                if dist <= 0.0 && found.len < MAX_CONTACTS {
                    // A centre inside the robot has no nearest side; backing out is as good as any.
                    let normal = if length > 0.0 { [gap[0] / length, gap[1] / length] } else { [-1.0, 0.0] };
                    let along = PILLAR_RADIUS + 0.5 * dist;
                    let point = [ego[0] + normal[0] * along, ego[1] + normal[1] * along];
                    found.list[found.len] = Contact { part, pillar, dist, normal, point };
                    found.len += 1;
                }
            }
        }
        found
    }

    pub fn list(&self) -> &[Contact] {
        &self.list[..self.len]
    }

    /// A gap of exactly zero is a contact that pushes nothing.
    pub fn any_active(&self) -> bool {
        self.list().iter().any(|c| c.dist < 0.0)
    }

    /// Acceleration with contact, and the contact force, given the acceleration `free` without.
    pub fn solve(&self, free: [f64; 3], v: &[f64; 3]) -> ([f64; 3], [f64; 3]) {
        let mut rows = [Row::default(); MAX_CONTACTS * ROWS];
        let mut used = 0;
        for contact in self.list().iter().filter(|c| c.dist < 0.0) {
            rows[used..used + ROWS].copy_from_slice(&contact.rows(v));
            used += ROWS;
        }
        Problem { free, rows: &rows[..used] }.solve()
    }
}

impl Contact {
    fn rows(&self, v: &[f64; 3]) -> [Row; ROWS] {
        let [nx, ny] = self.normal;
        let [rx, ry] = self.point;
        let normal = [nx, ny, ny * rx - nx * ry];
        let tangent = [-ny, nx, nx * rx + ny * ry];
        let rolling = match self.part {
            Part::Sphere => 0.01,
            Part::Arrow => 1e-4,
        };
        let impedance = impedance(self.dist);
        let weight =
            impedance / (2.0 * SLIDING * SLIDING * (1.0 - impedance) * INVERSE_WEIGHT * (1.0 + SLIDING * SLIDING));
        let row = |scale: f64, side: [f64; 3], copies: f64| {
            let j = std::array::from_fn(|i| normal[i] + scale * side[i]);
            Row { j, target: -DAMPING * dot(&j, v) - STIFFNESS * impedance * self.dist, weight: copies * weight }
        };
        let spin = [0.0, 0.0, 1.0];
        [
            row(SLIDING, tangent, 1.0),
            row(-SLIDING, tangent, 1.0),
            row(0.0, tangent, 6.0),
            row(rolling, spin, 1.0),
            row(-rolling, spin, 1.0),
        ]
    }
}

/// How hard a constraint is at this depth: 0.9 at the surface, 0.95 from one millimetre on.
fn impedance(dist: f64) -> f64 {
    let s = (dist.abs() / 0.001).min(1.0);
    let y = if s <= 0.5 { 2.0 * s * s } else { 1.0 - 2.0 * (1.0 - s) * (1.0 - s) };
    0.9 + 0.05 * y
}

/// One edge of a friction pyramid: J, aref and D.
#[derive(Clone, Copy, Default)]
struct Row {
    j: [f64; 3],
    target: f64,
    weight: f64,
}

impl Row {
    /// J a - aref; the row pushes while this is negative.
    fn slack(&self, a: &[f64; 3]) -> f64 {
        dot(&self.j, a) - self.target
    }
}

/// The convex problem in the module's head.
struct Problem<'a> {
    free: [f64; 3],
    rows: &'a [Row],
}

impl Problem<'_> {
    /// Newton's method with an exact line search; a few iterations settle the active set, after which a step is exact.
    fn solve(&self) -> ([f64; 3], [f64; 3]) {
        let mut a = self.free;
        for _ in 0..50 {
            let (gradient, hessian) = self.derivatives(&a);
            // Forces are of order one newton: this is their last few digits.
            if dot(&gradient, &gradient) <= 1e-28 {
                break;
            }
            let direction = solve_symmetric(&hessian, gradient.map(|g| -g));
            let t = self.line_search(&a, &direction);
            a = std::array::from_fn(|i| a[i] + t * direction[i]);
        }
        let mut force = [0.0; 3];
        for row in self.rows {
            let push = row.weight * (-row.slack(&a)).max(0.0);
            for (f, j) in force.iter_mut().zip(row.j) {
                *f += push * j;
            }
        }
        (a, force)
    }

    fn derivatives(&self, a: &[f64; 3]) -> ([f64; 3], [[f64; 3]; 3]) {
        let mut gradient = mass_times(&std::array::from_fn(|i| a[i] - self.free[i]));
        let mut hessian = [[MASS, 0.0, 0.0], [0.0, MASS, COUPLING], [0.0, COUPLING, INERTIA]];
        for row in self.rows {
            let slack = row.slack(a);
            if slack < 0.0 {
                let push = row.j.map(|j| row.weight * j);
                for i in 0..3 {
                    gradient[i] += slack * push[i];
                    hessian[i] = std::array::from_fn(|k| hessian[i][k] + push[i] * row.j[k]);
                }
            }
        }
        (gradient, hessian)
    }

    /// The minimum along `direction` over [0, 1]: the slope is piecewise linear and rising, so Newton's method inside a
    /// shrinking bracket finds its root exactly.
    fn line_search(&self, a: &[f64; 3], direction: &[f64; 3]) -> f64 {
        let inertia = mass_times(direction);
        let at_start = dot(&inertia, &std::array::from_fn(|i| a[i] - self.free[i]));
        let curvature = dot(&inertia, direction);
        let slope = |t: f64| {
            let (mut value, mut rise) = (at_start + t * curvature, curvature);
            for row in self.rows {
                let along = dot(&row.j, direction);
                let slack = row.slack(a) + t * along;
                if slack < 0.0 {
                    value += row.weight * slack * along;
                    rise += row.weight * along * along;
                }
            }
            (value, rise)
        };
        let (mut low, mut high, mut t) = (0.0, 1.0, 1.0);
        let tolerance = 1e-14 * slope(0.0).0.abs();
        for _ in 0..60 {
            let (value, rise) = slope(t);
            // Newton's own step is exact while the active set stays: a slope that only rounding lifts above zero is none.
            if value.abs() <= tolerance || (t == 1.0 && value < 0.0) {
                break;
            }
            if value > 0.0 {
                high = t
            } else {
                low = t
            }
            let next = t - value / rise;
            t = if next > low && next < high { next } else { 0.5 * (low + high) };
        }
        t
    }
}

fn dot(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// M a in the robot's frame.
fn mass_times(a: &[f64; 3]) -> [f64; 3] {
    [MASS * a[0], MASS * a[1] + COUPLING * a[2], COUPLING * a[1] + INERTIA * a[2]]
}

/// Solves h x = b for a positive definite h by its LDL' factors.
fn solve_symmetric(h: &[[f64; 3]; 3], b: [f64; 3]) -> [f64; 3] {
    let l10 = h[1][0] / h[0][0];
    let l20 = h[2][0] / h[0][0];
    let d1 = h[1][1] - l10 * h[1][0];
    let below = h[2][1] - l20 * h[1][0];
    let l21 = below / d1;
    let d2 = h[2][2] - l20 * h[2][0] - l21 * below;
    let y1 = b[1] - l10 * b[0];
    let y2 = b[2] - l20 * b[0] - l21 * y1;
    let x2 = y2 / d2;
    let x1 = y1 / d1 - l21 * x2;
    [b[0] / h[0][0] - l10 * x1 - l20 * x2, x1, x2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solution_is_the_minimum() {
        // Pushed into two pillars at once with a spin: at the minimum M (a - a0) equals the contact force.
        let state = PointState { vx: 0.4, vy: 0.1, omega: 2.0, ..PointState::default() };
        let pillars = [[0.2, 0.22], [0.23, -0.2]];
        let contacts = Contacts::find(&Frame::of(&state), &pillars);
        assert!(contacts.list().len() >= 3, "{:?}", contacts.list());
        let free = [3.0, -1.0, 40.0];
        let (a, force) = contacts.solve(free, &[0.4, 0.1, 2.0]);
        let balance = mass_times(&std::array::from_fn(|i| a[i] - free[i]));
        for i in 0..3 {
            assert!((balance[i] - force[i]).abs() < 1e-14, "{balance:?} {force:?}");
        }
    }

    #[test]
    fn a_pillar_on_top_of_the_robot_is_survived() {
        for centre in [[0.0, 0.0], [0.1, 0.0], [0.05, 0.0]] {
            let mut state = PointState::default();
            super::super::point::step(&mut state, [1.0, 1.0], &[centre]);
            assert!(state.is_finite());
        }
    }
}
