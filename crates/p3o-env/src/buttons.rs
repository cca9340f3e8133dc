//! Buttons, of which one is the goal, and gremlins that circle among them, as a world has them.
//!
//! After the goal was pressed another button, or the same, is the goal, and for ten steps pressing a wrong one costs nothing; in that time
//! the buttons' lidar is dark. The goal can be pressed at any time.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::physics::articulated::cubes::{Cube, Cubes, HALF};
use crate::physics::articulated::tether::{Home, Tether};

/// Radius of the disc that shows which button is the goal.
pub(crate) const MARK: f64 = 0.2;
/// How many steps buttons are out of order after the goal was pressed.
pub(crate) const DELAY: u32 = 10;
/// Numbers of a gremlin's home in a state: place and turn about the vertical.
pub(crate) const HOME: usize = 3;

/// Which button is the goal, and for how many steps the others are out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Buttons {
    pub goal: u32,
    pub timer: u32,
}

impl Buttons {
    /// One of so many, chosen at random.
    pub fn draw(count: usize, rng: &mut ChaCha8Rng) -> Buttons {
        Buttons { goal: rng.random_range(0..count as u32), timer: 0 }
    }

    /// The next goal after this one was pressed.
    pub fn next(count: usize, rng: &mut ChaCha8Rng) -> Buttons {
        Buttons { timer: DELAY, ..Buttons::draw(count, rng) }
    }

    /// Whether buttons cost and can be seen.
    pub fn are_on(self) -> bool {
        self.timer == 0
    }

    /// Whether it costs that these buttons are pressed.
    pub fn cost(self, pressed: u32) -> bool {
        self.are_on() && pressed & !(1 << self.goal) != 0
    }

    /// Whether the goal is among the pressed ones.
    pub fn is_reached(self, pressed: u32) -> bool {
        pressed >> self.goal & 1 == 1
    }

    pub fn tick(&mut self) {
        self.timer = self.timer.saturating_sub(1);
    }
}

/// Gremlins around these places, each turned at random, among these buttons.
pub(crate) fn gremlins(places: &[[f64; 2]], buttons: &[[f64; 2]], substep: f64, rng: &mut ChaCha8Rng) -> Cubes {
    let homes = places.iter().map(|place| home(*place, rng.random::<f64>() * std::f64::consts::TAU)).collect();
    Cubes::held(Tether::new(homes), buttons, substep)
}

fn home([x, y]: [f64; 2], angle: f64) -> Home {
    let Cube { turn, .. } = Cube::lying([x, y], angle);
    Home { place: [x, y, HALF], turn }
}

/// What a state says of homes.
pub(crate) fn write_homes(homes: &[Home]) -> Vec<f64> {
    homes
        .iter()
        .flat_map(|home| [home.place[0], home.place[1], 2.0 * libm::atan2(home.turn[3], home.turn[0])])
        .collect()
}

/// The homes of a state.
pub(crate) fn read_homes(numbers: &[f64]) -> Vec<Home> {
    numbers.as_chunks::<HOME>().0.iter().map(|[x, y, angle]| home([*x, *y], *angle)).collect()
}
