//! Safety Gym's pseudo-lidar: sixteen directions around the robot, brightest where an object is close.
//!
//! An object at distance d and bearing phi lights bin floor(phi / (2 pi / 16)) with s = max(0, 3 - d) / 3, the next bin
//! with alias * s and the previous with (1 - alias) * s, where alias is the fraction of the bin that phi has passed.

/// Number of directions.
pub const BINS: usize = 16;
/// Objects farther than this are unseen.
pub const RANGE: f64 = 3.0;

/// Where an object appears to the robot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sighting {
    /// Direction in [0, 16], counter-clockwise from straight ahead, in units of one bin.
    pub bearing: f64,
    /// From 1 for an object on the robot to 0 for one out of range.
    pub strength: f64,
}

/// Adds what the robot sees of `objects` to `bins`, each of which keeps its brightest value.
///
/// `heading` is the cosine and sine of the robot's heading.
pub fn scan(robot: [f64; 2], heading: [f64; 2], objects: &[[f64; 2]], bins: &mut [f64; BINS]) {
    for chunk in objects.chunks(BATCH) {
        let mut seen = [Sighting::default(); BATCH];
        sight(robot, heading, chunk, RANGE, &mut seen);
        light(&seen[..chunk.len()], bins, |value| value);
    }
}

/// Objects are looked at this many at a time, which lets the compiler use vector instructions.
pub(crate) const BATCH: usize = 4;

/// Looks at every object in turn; `seen` must be as long as `objects` rounded up to whole batches.
#[inline]
pub(crate) fn sight(robot: [f64; 2], heading: [f64; 2], objects: &[[f64; 2]], range: f64, seen: &mut [Sighting]) {
    let [cos, sin] = heading;
    for (objects, seen) in objects.chunks(BATCH).zip(seen.chunks_exact_mut(BATCH)) {
        let (mut dx, mut dy) = ([0.0; BATCH], [0.0; BATCH]);
        for (i, object) in objects.iter().enumerate() {
            (dx[i], dy[i]) = (object[0] - robot[0], object[1] - robot[1]);
        }
        let mut bearings = [0.0; BATCH];
        let mut strengths = [0.0; BATCH];
        for i in 0..BATCH {
            bearings[i] = bearing([cos * dx[i] + sin * dy[i], cos * dy[i] - sin * dx[i]]);
            let distance = (dx[i] * dx[i] + dy[i] * dy[i]).sqrt();
            // NaN, from a robot whose position is not a number, counts as unseen.
            strengths[i] = brighter(range - distance, 0.0) / range;
        }
        for i in 0..BATCH {
            seen[i] = Sighting { bearing: bearings[i], strength: strengths[i] };
        }
    }
}

/// Lights the bin of every sighting and, in part, the two beside it.
///
/// `round` makes a value what a bin holds. If it keeps the order of numbers, it may as well be applied to what the bins
/// are in the end; here it saves reading them again while they are still on their way to memory.
#[inline]
pub(crate) fn light<T: Copy + PartialOrd>(seen: &[Sighting], bins: &mut [T; BINS], round: impl Fn(f64) -> T) {
    for &Sighting { bearing, strength } in seen {
        // A bearing of exactly 16 (a hair below a full turn, rounded up) ends bin 15, which lights the same bins as bin 0.
        let bin = (bearing as i32).clamp(0, BINS as i32 - 1) as usize;
        let alias = bearing - bin as f64;
        let next = (bin + 1) % BINS;
        let previous = (bin + BINS - 1) % BINS;
        bins[bin] = brighter(round(strength), bins[bin]);
        bins[next] = brighter(round(alias * strength), bins[next]);
        bins[previous] = brighter(round((1.0 - alias) * strength), bins[previous]);
    }
}

/// The greater of two numbers, `old` if `new` is NaN; one instruction where `f64::max` needs several.
#[inline(always)]
fn brighter<T: PartialOrd>(new: T, old: T) -> T {
    if new > old { new } else { old }
}

/// The angle of a vector in [0, 16], in units of one bin; zero for the zero vector.
///
/// The vector is folded into the first octant, turned back by the nearest multiple of a bin (0, 1 or 2), and the angle
/// that remains, at most half a bin, comes from the series of the arctangent. There are no branches.
#[inline(always)]
pub fn bearing(ego: [f64; 2]) -> f64 {
    /// tan of half a bin and of one and a half.
    const TAN_HALF: f64 = 0.198_912_367_379_658;
    const TAN_THREE_HALVES: f64 = 0.668_178_637_919_298_9;
    /// Cosine and sine of one bin and of two.
    const COS_1: f64 = 0.923_879_532_511_286_7;
    const SIN_1: f64 = 0.382_683_432_365_089_8;
    const COS_2: f64 = std::f64::consts::FRAC_1_SQRT_2;
    const BINS_PER_RADIAN: f64 = 8.0 * std::f64::consts::FRAC_1_PI;

    let (ax, ay) = (ego[0].abs(), ego[1].abs());
    let steep = ay > ax;
    let (long, short) = if steep { (ay, ax) } else { (ax, ay) };
    let past_half = short > long * TAN_HALF;
    let past_three_halves = short > long * TAN_THREE_HALVES;
    let cos = if past_three_halves {
        COS_2
    } else if past_half {
        COS_1
    } else {
        1.0
    };
    let sin = if past_three_halves {
        COS_2
    } else if past_half {
        SIN_1
    } else {
        0.0
    };
    let turn = if past_three_halves {
        2.0
    } else if past_half {
        1.0
    } else {
        0.0
    };
    // The zero vector has no direction; any positive divisor gives it the angle zero.
    let along = long * cos + short * sin;
    let along = if along > 0.0 { along } else { 1.0 };
    let across = short * cos - long * sin;
    let octant = turn + BINS_PER_RADIAN * small_arctangent(across / along);
    let quadrant = if steep { 4.0 - octant } else { octant };
    let half = if ego[0] < 0.0 { 8.0 - quadrant } else { quadrant };
    if ego[1] < 0.0 { 16.0 - half } else { half }
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
