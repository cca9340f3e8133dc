//! The least value of a function on a line, as both engines of bodies search for it.

const MAX_STEPS: usize = 60;

/// Where in (0, 1] a convex function is least whose slope rises in straight pieces: the zero of the slope, found by Newton's method
/// inside a shrinking bracket. `slope_at` gives slope and curvature.
#[inline]
pub(super) fn least(slope_at: impl Fn(f64) -> (f64, f64)) -> f64 {
    let (mut low, mut high, mut t) = (0.0, 1.0, 1.0);
    let (mut slope, mut curvature) = slope_at(t);
    if slope <= 0.0 {
        return 1.0;
    }
    for _ in 0..MAX_STEPS {
        let newton = t - slope / curvature;
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - t).abs() <= 1e-15 {
            break;
        }
        t = next;
        (slope, curvature) = slope_at(t);
        if slope > 0.0 {
            high = t;
        } else if slope < 0.0 {
            low = t;
        } else {
            break;
        }
    }
    t
}
