//! Safety Gym's pseudo-lidar: sixteen directions around the robot, brightest where an object is close.
//!
//! An object at distance d and bearing phi lights bin floor(phi / (2 pi / 16)) with s = max(0, 3 - d) / 3, the next bin
//! with alias * s and the previous with (1 - alias) * s, where alias is the fraction of the bin that phi has passed.

/// Number of directions.
pub const BINS: usize = 16;
/// Objects farther than this are unseen.
pub const RANGE: f64 = 3.0;

/// Adds what the robot sees of `objects` to `bins`, each of which keeps its brightest value.
///
/// `heading` is the cosine and sine of the robot's heading.
#[inline]
pub fn scan(robot: [f64; 2], heading: [f64; 2], objects: &[[f64; 2]], bins: &mut [f64; BINS]) {
    for object in objects {
        let (dx, dy) = (object[0] - robot[0], object[1] - robot[1]);
        let distance = (dx * dx + dy * dy).sqrt();
        // Also false when the robot's place is not a number.
        if distance < RANGE {
            let ego = [heading[0] * dx + heading[1] * dy, heading[0] * dy - heading[1] * dx];
            light(bins, bearing(ego), (RANGE - distance) / RANGE);
        }
    }
}

#[inline(always)]
fn light(bins: &mut [f64; BINS], bearing: f64, strength: f64) {
    // A bearing of exactly 16 (a hair below a full turn, rounded up) ends bin 15, which lights the same bins as bin 0.
    let bin = (bearing as usize).min(BINS - 1);
    let alias = bearing - bin as f64;
    let next = (bin + 1) % BINS;
    let previous = (bin + BINS - 1) % BINS;
    bins[bin] = bins[bin].max(strength);
    bins[next] = bins[next].max(alias * strength);
    bins[previous] = bins[previous].max((1.0 - alias) * strength);
}

/// The angle of a vector in [0, 16], in units of one bin; zero for the zero vector.
///
/// The vector is folded into the first octant, turned back by the nearest multiple of a bin (0, 1 or 2), and the angle
/// that remains, at most half a bin, comes from the series of the arctangent.
#[inline(always)]
pub fn bearing(ego: [f64; 2]) -> f64 {
    /// tan of half a bin and of one and a half.
    const TAN_HALF: f64 = 0.198_912_367_379_658;
    const TAN_THREE_HALVES: f64 = 0.668_178_637_919_298_9;
    /// Cosine and sine of 0, 1 and 2 bins.
    const TURNS: [[f64; 2]; 3] = [
        [1.0, 0.0],
        [0.923_879_532_511_286_7, 0.382_683_432_365_089_8],
        [std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::FRAC_1_SQRT_2],
    ];
    const BINS_PER_RADIAN: f64 = 8.0 * std::f64::consts::FRAC_1_PI;

    let (ax, ay) = (ego[0].abs(), ego[1].abs());
    let steep = ay > ax;
    let (long, short) = if steep { (ay, ax) } else { (ax, ay) };
    let turn = usize::from(short > long * TAN_HALF) + usize::from(short > long * TAN_THREE_HALVES);
    let [cos, sin] = TURNS[turn];
    let along = long * cos + short * sin;
    let across = short * cos - long * sin;
    let tangent = if along > 0.0 { across / along } else { 0.0 };
    let octant = turn as f64 + BINS_PER_RADIAN * small_arctangent(tangent);
    let quadrant = if steep { 4.0 - octant } else { octant };
    let half = if ego[0] < 0.0 { 8.0 - quadrant } else { quadrant };
    let full = if ego[1] < 0.0 { 16.0 - half } else { half };
    // Rounding may leave a vector on an axis a hair below it.
    full.max(0.0)
}

/// arctan z for |z| <= 0.2, where the first term left out is below 4e-18.
#[inline(always)]
fn small_arctangent(z: f64) -> f64 {
    let q = z * z;
    let q2 = q * q;
    let q4 = q2 * q2;
    let low = (1.0 - q * (1.0 / 3.0)) + q2 * (1.0 / 5.0 - q * (1.0 / 7.0));
    let middle = (1.0 / 9.0 - q * (1.0 / 11.0)) + q2 * (1.0 / 13.0 - q * (1.0 / 15.0));
    let high = (1.0 / 17.0 - q * (1.0 / 19.0)) + q2 * (1.0 / 21.0);
    z * (low + q4 * (middle + q4 * high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    #[test]
    fn bearing_agrees_with_the_arctangent() {
        let mut worst: f64 = 0.0;
        for i in 0..200_000 {
            let angle = f64::from(i) * 2.0 * PI / 200_000.0;
            let reach = 0.01 + f64::from(i % 97);
            let ego = [reach * libm::cos(angle), reach * libm::sin(angle)];
            let full = libm::atan2(ego[1], ego[0]);
            let expected = (if full < 0.0 { full + 2.0 * PI } else { full }) * 8.0 / PI;
            let error = (bearing(ego) - expected).abs();
            worst = worst.max(error.min(16.0 - error));
        }
        // One unit in the last place of a bearing near 16 is 1.8e-15.
        assert!(worst < 6e-15, "{worst}");
    }

    #[test]
    fn a_quarter_turn_is_four_bins() {
        for (ego, expected) in [([1.0, 0.0], 0.0), ([0.0, 2.0], 4.0), ([-3.0, 0.0], 8.0), ([0.0, -0.5], 12.0)] {
            assert_eq!(bearing(ego), expected);
        }
    }

    #[test]
    fn an_object_on_the_robot_is_seen_ahead() {
        let mut bins = [0.0; BINS];
        scan([0.3, 0.4], [1.0, 0.0], &[[0.3, 0.4]], &mut bins);
        let mut expected = [0.0; BINS];
        // Bearing zero: bin 0 whole, alias 0 for bin 1, 1 - alias = 1 for bin 15.
        (expected[0], expected[15]) = (1.0, 1.0);
        assert_eq!(bins, expected);
    }

    #[test]
    fn far_or_undefined_objects_are_unseen() {
        let mut bins = [0.0; BINS];
        scan([0.0, 0.0], [1.0, 0.0], &[[3.0, 0.1], [f64::NAN, 0.0]], &mut bins);
        scan([f64::NAN, 0.0], [f64::NAN; 2], &[[0.0, 0.0]], &mut bins);
        assert_eq!(bins, [0.0; BINS]);
    }
}
