//! The Ant's fast equations are the textbook's: bodies in the world's frame, dense matrices, no cleverness.
//!
//! The recorded states touch the ground with feet only. Here every part does, in every position.

use p3o_env::physics::ant::{self, AntState};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

type Vec3 = [f64; 3];
type Dof = [f64; 14];

fn dot<const N: usize>(a: &[f64; N], b: &[f64; N]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn cross(a: Vec3, b: Vec3) -> Vec3 {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn add<const N: usize>(a: [f64; N], s: f64, b: [f64; N]) -> [f64; N] {
    std::array::from_fn(|i| a[i] + s * b[i])
}

/// `v` turned by the unit quaternion `q`.
fn rotate(q: [f64; 4], v: Vec3) -> Vec3 {
    let u = [q[1], q[2], q[3]];
    let t = cross(u, v).map(|x| 2.0 * x);
    add(add(v, q[0], t), 1.0, cross(u, t))
}

fn times(a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
    let (u, v) = ([a[1], a[2], a[3]], [b[1], b[2], b[3]]);
    let w = add(add(cross(u, v), a[0], v), b[0], u);
    [a[0] * b[0] - dot(&u, &v), w[0], w[1], w[2]]
}

/// One body: pose, Jacobians by column (of the origin and of the angular velocity), velocity and bias accelerations.
#[derive(Clone, Copy)]
pub struct Body {
    q: [f64; 4],
    p: Vec3,
    jp: [Vec3; 14],
    jr: [Vec3; 14],
    w: Vec3,
    a: Vec3,
    al: Vec3,
    /// Far end of the capsule in the body's frame; zero for the ball.
    end: Vec3,
    radius: f64,
    weight: f64,
}

impl Body {
    fn child(&self, offset: Vec3, end: Vec3, weight: f64) -> Body {
        let r = rotate(self.q, offset);
        Body {
            p: add(self.p, 1.0, r),
            jp: std::array::from_fn(|k| add(self.jp[k], 1.0, cross(self.jr[k], r))),
            a: add(add(self.a, 1.0, cross(self.al, r)), 1.0, cross(self.w, cross(self.w, r))),
            end,
            radius: 0.08,
            weight,
            ..*self
        }
    }

    fn hinged(mut self, axis: Vec3, dof: usize, angle: f64, rate: f64) -> Body {
        let u = rotate(self.q, axis);
        self.al = add(self.al, rate, cross(self.w, u));
        self.w = add(self.w, rate, u);
        self.jr[dof] = u;
        let (s, c) = (angle / 2.0).sin_cos();
        self.q = times(self.q, [c, s * axis[0], s * axis[1], s * axis[2]]);
        self
    }

    /// Both ends of the capsule in the world.
    pub fn ends(&self) -> [Vec3; 2] {
        [self.p, add(self.p, 1.0, rotate(self.q, self.end))]
    }

    /// Mass, and inertia along and across the axis.
    fn inertia(&self) -> [f64; 3] {
        let (r, l) = (self.radius, dot(&self.end, &self.end).sqrt() / 2.0);
        let pi = std::f64::consts::PI;
        let (c, s) = (5.0 * pi * r * r * 2.0 * l, 5.0 * 4.0 / 3.0 * pi * r.powi(3));
        let across = c * (3.0 * r * r + 4.0 * l * l) / 12.0 + s * (0.4 * r * r + l * l + 0.75 * l * r);
        [c + s, c * r * r / 2.0 + 0.4 * s * r * r, across]
    }
}

pub fn bodies(state: &AntState) -> Vec<Body> {
    let AntState { qpos, qvel } = state;
    let q = [qpos[3], qpos[4], qpos[5], qpos[6]];
    let q = q.map(|v| v / dot(&q, &q).sqrt());
    let zero = [[0.0; 3]; 14];
    let unit = |i: usize| std::array::from_fn(|k| if k == i { 1.0 } else { 0.0 });
    let (mut jp, mut jr) = (zero, zero);
    for i in 0..3 {
        jp[i] = unit(i);
        jr[3 + i] = rotate(q, unit(i));
    }
    let w = rotate(q, [qvel[3], qvel[4], qvel[5]]);
    let p = [qpos[0], qpos[1], qpos[2]];
    let (a, al, end) = ([0.0; 3], [0.0; 3], [0.0; 3]);
    let torso = Body { q, p, jp, jr, w, a, al, end, radius: 0.25, weight: 1.1014374991441784 };
    let mut list = vec![torso];
    for (i, [x, y]) in [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]].into_iter().enumerate() {
        let (near, far) = ([0.2 * x, 0.2 * y, 0.0], [0.4 * x, 0.4 * y, 0.0]);
        let (hip, ankle) = (6 + 2 * i, 7 + 2 * i);
        let h = 0.5f64.sqrt();
        let axis = if i % 2 == 0 { [-h, h, 0.0] } else { [h, h, 0.0] };
        let fixed = torso.child([0.0; 3], near, 1.1804717947906862);
        let thigh = fixed.child(near, near, 1.8087762335752944).hinged([0.0, 0.0, 1.0], hip, qpos[hip + 1], qvel[hip]);
        let shin = thigh.child(near, far, 3.9844133285769883).hinged(axis, ankle, qpos[ankle + 1], qvel[ankle]);
        list.extend([fixed, thigh, shin]);
    }
    list
}

/// The mass matrix and the force without constraints.
fn smooth(list: &[Body], v: &Dof, ctrl: &[f64; 8]) -> ([Dof; 14], Dof) {
    let (mut m, mut f) = ([[0.0; 14]; 14], [0.0; 14]);
    for b in list {
        let [mass, axial, across] = b.inertia();
        let c = rotate(b.q, b.end.map(|x| x / 2.0));
        let length = dot(&c, &c).sqrt();
        let d = if length > 0.0 { c.map(|x| x / length) } else { c };
        let axial = if length > 0.0 { axial } else { across };
        let turn = |x: Vec3| add(x.map(|x| across * x), (axial - across) * dot(&d, &x), d);
        let jc: [Vec3; 14] = std::array::from_fn(|k| add(b.jp[k], 1.0, cross(b.jr[k], c)));
        let acc = add(add(b.a, 1.0, cross(b.al, c)), 1.0, cross(b.w, cross(b.w, c)));
        let force = add(acc, 9.81, [0.0, 0.0, 1.0]).map(|x| mass * x);
        let torque = add(turn(b.al), 1.0, cross(b.w, turn(b.w)));
        for i in 0..14 {
            f[i] -= dot(&jc[i], &force) + dot(&b.jr[i], &torque);
            for j in 0..14 {
                m[i][j] += mass * dot(&jc[i], &jc[j]) + dot(&b.jr[i], &turn(b.jr[j]));
            }
        }
    }
    for (k, dof) in [12, 13, 6, 7, 8, 9, 10, 11].into_iter().enumerate() {
        f[dof] += 150.0 * ctrl[k].clamp(-1.0, 1.0) - v[dof];
        m[dof][dof] += 1.0;
    }
    (m, f)
}

/// J, D and aref of one constraint.
struct Row(Dof, f64, f64);

fn row(j: Dof, v: &Dof, violation: f64, scale: f64) -> Row {
    let s = (violation.abs() / 0.001).min(1.0);
    let y = if s <= 0.5 { 2.0 * s * s } else { 1.0 - 2.0 * (1.0 - s).powi(2) };
    let imp = 0.9 + 0.05 * y;
    let (k, b) = (1.0 / (0.95f64 * 0.02).powi(2), 2.0 / (0.95 * 0.02));
    Row(j, imp / ((1.0 - imp) * scale), -b * dot(&j, v) - k * imp * violation)
}

fn constraints(list: &[Body], state: &AntState) -> Vec<Row> {
    let v = &state.qvel;
    let mut rows = Vec::new();
    for k in 0..8 {
        let degrees =
            if k % 2 == 0 { [-30.0, 30.0] } else { [[30.0, 70.0], [-70.0, -30.0]][usize::from(k == 3 || k == 5)] };
        let [low, high] = degrees.map(f64::to_radians);
        let weight = [0.9826359559730787, 0.9951024317528863][k % 2];
        for (sign, gap) in [(1.0, state.qpos[7 + k] - low), (-1.0, high - state.qpos[7 + k])] {
            if gap < 0.0 {
                let mut j = [0.0; 14];
                j[6 + k] = sign;
                rows.push(row(j, v, gap, weight));
            }
        }
    }
    for b in list {
        let axis = rotate(b.q, b.end);
        let ball = dot(&axis, &axis) == 0.0;
        let t = if ball { [0.0, 1.0, 0.0] } else { [axis[0], axis[1], 0.0] };
        let t = t.map(|x| x / dot(&t, &t).sqrt());
        for offset in if ball { vec![[0.0; 3]] } else { vec![[0.0; 3], axis] } {
            let gap = b.p[2] + offset[2] - b.radius;
            if gap < 0.01 {
                let at = add(offset, -(b.radius + gap / 2.0), [0.0, 0.0, 1.0]);
                for edge in [[t[0], t[1]], [-t[0], -t[1]], [-t[1], t[0]], [t[1], -t[0]]] {
                    let d = [edge[0], edge[1], 1.0];
                    let j = std::array::from_fn(|k| dot(&d, &add(b.jp[k], 1.0, cross(b.jr[k], at))));
                    rows.push(row(j, v, gap - 0.01, 4.0 * b.weight));
                }
            }
        }
    }
    rows
}

/// Gaussian elimination; the matrix is positive definite.
fn solve(mut m: [Dof; 14], mut x: Dof) -> Dof {
    for j in 0..14 {
        for i in j + 1..14 {
            let factor = m[i][j] / m[j][j];
            m[i] = add(m[i], -factor, m[j]);
            x[i] -= factor * x[j];
        }
    }
    for i in (0..14).rev() {
        let rest: f64 = (i + 1..14).map(|j| m[i][j] * x[j]).sum();
        x[i] = (x[i] - rest) / m[i][i];
    }
    x
}

fn gradient(m: &[Dof; 14], f: &Dof, rows: &[Row], a: &Dof) -> Dof {
    let mut g = std::array::from_fn(|i| dot(&m[i], a) - f[i]);
    for Row(j, d, aref) in rows {
        g = add(g, d * (dot(j, a) - aref).min(0.0), *j);
    }
    g
}

/// Newton's method with a line search by bisection.
fn textbook(state: &AntState, ctrl: &[f64; 8]) -> (Dof, usize) {
    let list = bodies(state);
    let (m, f) = smooth(&list, &state.qvel, ctrl);
    let rows = constraints(&list, state);
    let mut a = solve(m, f);
    for _ in 0..100 {
        let g = gradient(&m, &f, &rows, &a);
        let mut h = m;
        for Row(j, d, _) in rows.iter().filter(|Row(j, _, aref)| dot(j, &a) < *aref) {
            for i in 0..14 {
                h[i] = add(h[i], d * j[i], *j);
            }
        }
        let p = solve(h, g.map(|x| -x));
        let slope = |t: f64| dot(&p, &gradient(&m, &f, &rows, &add(a, t, p)));
        let (mut low, mut high) = (0.0, 1.0);
        while slope(1.0) > 1e-9 && high - low > 1e-14 {
            let middle = 0.5 * (low + high);
            *(if slope(middle) > 0.0 { &mut high } else { &mut low }) = middle;
        }
        a = add(a, high, p);
        if dot(&g, &g) < 1e-22 {
            break;
        }
    }
    (a, rows.len())
}

#[test]
fn the_fast_acceleration_is_the_textbooks() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut most, mut largest) = (0, 0.0f64);
    for i in 0..400 {
        let mut state = AntState::default();
        state.qpos[2] = rng.random_range(0.02..0.8);
        state.qpos[3..7].iter_mut().for_each(|q| *q = rng.random_range(-1.0..1.0));
        state.qpos[7..].iter_mut().for_each(|q| *q = rng.random_range(-1.4..1.4));
        state.qvel.iter_mut().for_each(|v| *v = rng.random_range(-5.0..5.0));
        let ctrl = std::array::from_fn(|_| rng.random_range(-1.5..1.5));
        let (expected, rows) = textbook(&state, &ctrl);
        let found = ant::acceleration(&state, &ctrl);
        assert_eq!(found.rows, rows, "{i}");
        assert!(found.qacc.iter().chain(&expected).all(|value| value.is_finite()), "{i}");
        let size = expected.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
        let error = found.qacc.iter().zip(&expected).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max) / size;
        assert!(error < 1e-11, "{i}: off by {error:.1e} with {rows} rows");
        (most, largest) = (most.max(rows), largest.max(error));
    }
    assert!(most > 50, "{most}");
    println!("at most {most} rows, largest relative error {largest:.1e}");
}
