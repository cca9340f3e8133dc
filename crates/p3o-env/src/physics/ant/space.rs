//! Vectors in space.

pub(super) type Vec3 = [f64; 3];

#[inline]
pub(super) fn dot(a: Vec3, b: Vec3) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

#[inline]
pub(super) fn cross(a: Vec3, b: Vec3) -> Vec3 {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// `a + s b`
#[inline]
pub(super) fn add(a: Vec3, s: f64, b: Vec3) -> Vec3 {
    [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]]
}

#[inline]
pub(super) fn scale(s: f64, a: Vec3) -> Vec3 {
    [s * a[0], s * a[1], s * a[2]]
}

/// Columns of the rotation that a unit quaternion (w, x, y, z) stands for, transposed: row i is the world's axis i in
/// the body's frame.
pub(super) fn world_axes([w, x, y, z]: [f64; 4]) -> [Vec3; 3] {
    [
        [w * w + x * x - y * y - z * z, 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), w * w - x * x + y * y - z * z, 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
}

pub(super) fn normalized(q: [f64; 4]) -> [f64; 4] {
    let norm = (q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]).sqrt();
    if norm < 1e-15 { [1.0, 0.0, 0.0, 0.0] } else { q.map(|v| v / norm) }
}

/// The orientation `q` after turning for `seconds` at the body-frame rate `omega`.
pub(super) fn turned(q: [f64; 4], omega: Vec3, seconds: f64) -> [f64; 4] {
    let rate = dot(omega, omega).sqrt();
    if rate < 1e-15 {
        return normalized(q);
    }
    let (sin, c) = libm::sincos(0.5 * rate * seconds);
    let [x, y, z] = scale(sin / rate, omega);
    let [a, b, d, e] = q;
    normalized([
        a * c - b * x - d * y - e * z,
        a * x + b * c + d * z - e * y,
        a * y - b * z + d * c + e * x,
        a * z + b * y - d * x + e * c,
    ])
}
