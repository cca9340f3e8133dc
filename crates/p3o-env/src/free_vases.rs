//! Vases that are free bodies ([`cubes`](crate::physics::articulated::cubes)), as a world has them.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::physics::articulated::cubes::{Cube, Cubes};

/// A vase that is faster costs, in m/s.
const FAST: f64 = 1e-4;
/// Numbers of a vase in a state: place, quaternion, velocity, turn rates about its own axes.
pub(crate) const NUMBERS: usize = 13;

/// As many vases, somewhere.
pub(crate) fn room(count: usize) -> Cubes {
    Cubes::new(vec![Cube::lying([0.0, 0.0], 0.0); count])
}

/// Puts the vases down at these places, each turned at random.
pub(crate) fn place(cubes: &mut Cubes, places: &[[f64; 2]], rng: &mut ChaCha8Rng) {
    for (i, place) in places.iter().enumerate() {
        cubes.put(i, Cube::lying(*place, rng.random::<f64>() * std::f64::consts::TAU));
    }
}

/// Writes down where the vases are; whether they cost: one is touched, or still moves.
pub(crate) fn follow(cubes: &Cubes, places: &mut [[f64; 2]]) -> bool {
    let mut any = cubes.touching() > 0;
    for (place, cube) in places.iter_mut().zip(cubes.list()) {
        *place = [cube.place[0], cube.place[1]];
        any |= moves(cube);
    }
    any
}

/// Whether a vase is fast enough to cost.
pub(crate) fn moves(cube: &Cube) -> bool {
    !cube.resting && cube.speed() >= FAST
}

/// The angle of a vase as seen from above: of that of its axes which is most level.
pub(crate) fn heading(cube: &Cube) -> f64 {
    let axes = cube.axes();
    let level = (0..3).min_by(|a, b| axes[2][*a].abs().total_cmp(&axes[2][*b].abs())).unwrap_or(0);
    libm::atan2(axes[1][level], axes[0][level])
}

pub(crate) fn state(cubes: &Cubes) -> Vec<f64> {
    let numbers =
        |cube: &Cube| -> Vec<f64> { [&cube.place[..], &cube.turn[..], &cube.velocity[..], &cube.spin[..]].concat() };
    cubes.list().iter().flat_map(numbers).collect()
}

/// The vases of a state.
pub(crate) fn read(numbers: &[f64]) -> Vec<Cube> {
    let cube = |n: &[f64]| Cube {
        place: std::array::from_fn(|k| n[k]),
        turn: std::array::from_fn(|k| n[3 + k]),
        velocity: std::array::from_fn(|k| n[7 + k]),
        spin: std::array::from_fn(|k| n[10 + k]),
        resting: false,
    };
    numbers.chunks_exact(NUMBERS).map(cube).collect()
}
