//! Vectors, quaternions and rotations.

use super::lanes::Lanes;

pub(crate) type Vec3<T = f64> = [T; 3];
pub(crate) type Quat = [f64; 4];
/// Columns are the axes of the turned frame: `m[i][j]` is component i of axis j.
pub(crate) type Mat3<T = f64> = [[T; 3]; 3];

#[inline(always)]
pub(crate) fn dot<T: Lanes>(a: Vec3<T>, b: Vec3<T>) -> T {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

#[inline(always)]
pub(crate) fn cross<T: Lanes>(a: Vec3<T>, b: Vec3<T>) -> Vec3<T> {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// `a + s b`
#[inline(always)]
pub(crate) fn add<T: Lanes>(a: Vec3<T>, s: T, b: Vec3<T>) -> Vec3<T> {
    [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]]
}

/// `a + b`
#[inline(always)]
pub(crate) fn sum<T: Lanes>(a: Vec3<T>, b: Vec3<T>) -> Vec3<T> {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

#[inline(always)]
pub(crate) fn sub<T: Lanes>(a: Vec3<T>, b: Vec3<T>) -> Vec3<T> {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

#[inline(always)]
pub(crate) fn scale<T: Lanes>(s: T, a: Vec3<T>) -> Vec3<T> {
    [s * a[0], s * a[1], s * a[2]]
}

#[inline(always)]
pub(crate) fn times<T: Lanes>(m: &Mat3<T>, v: Vec3<T>) -> Vec3<T> {
    [dot(m[0], v), dot(m[1], v), dot(m[2], v)]
}

#[inline(always)]
pub(crate) fn column<T: Lanes>(m: &Mat3<T>, j: usize) -> Vec3<T> {
    [m[0][j], m[1][j], m[2][j]]
}

#[inline(always)]
pub(crate) fn product<T: Lanes>(a: &Mat3<T>, b: &Mat3<T>) -> Mat3<T> {
    let entry = |i: usize, j: usize| a[i][0] * b[0][j] + a[i][1] * b[1][j] + a[i][2] * b[2][j];
    let row = |i: usize| [entry(i, 0), entry(i, 1), entry(i, 2)];
    [row(0), row(1), row(2)]
}

/// The rotation that a unit quaternion stands for.
#[inline]
pub(crate) fn matrix([w, x, y, z]: Quat) -> Mat3 {
    [
        [w * w + x * x - y * y - z * z, 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), w * w - x * x + y * y - z * z, 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
}

pub(crate) fn rotate(q: Quat, v: Vec3) -> Vec3 {
    times(&matrix(q), v)
}

#[inline]
pub(crate) fn compose([a, b, c, d]: Quat, [w, x, y, z]: Quat) -> Quat {
    [
        a * w - b * x - c * y - d * z,
        a * x + b * w + c * z - d * y,
        a * y - b * z + c * w + d * x,
        a * z + b * y - c * x + d * w,
    ]
}

#[inline]
pub(crate) fn normalized(q: Quat) -> Quat {
    let norm = (q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]).sqrt();
    if norm < 1e-15 { [1.0, 0.0, 0.0, 0.0] } else { q.map(|v| v / norm) }
}

/// The orientation `q` after turning for `seconds` at the rate `omega` in its own frame.
#[inline]
pub(crate) fn turned(q: Quat, omega: Vec3, seconds: f64) -> Quat {
    let rate = dot(omega, omega).sqrt();
    if rate < 1e-15 {
        return normalized(q);
    }
    let (sin, cos) = libm::sincos(0.5 * rate * seconds);
    let [x, y, z] = scale(sin / rate, omega);
    normalized(compose(q, [cos, x, y, z]))
}

pub(crate) const IDENTITY: Mat3 = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// A turn by an angle, given by its sine and cosine, about an axis of length 1.
#[inline(always)]
pub(crate) fn about<T: Lanes>(axis: Vec3<T>, (s, c): (T, T)) -> Mat3<T> {
    let [x, y, z] = axis;
    let [a, b, d] = scale(T::each(|_| 1.0) - c, axis);
    [
        [c + x * a, x * b - z * s, x * d + y * s],
        [y * a + z * s, c + y * b, y * d - x * s],
        [z * a - y * s, z * b + x * s, c + z * d],
    ]
}
