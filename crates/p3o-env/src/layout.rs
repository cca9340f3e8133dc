//! Random placement: objects drawn one after another, each at a distance from all that came before.
//!
//! Every object has a keepout radius. It is drawn uniformly in its areas, shrunk by that radius, and kept if it is at
//! least the sum of both radii away from everything already placed. If an object finds no place in a hundred tries, the
//! whole layout is drawn again.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

const TRIES: usize = 100;
const RESTARTS: usize = 10_000;
const GOAL_TRIES: usize = 10_000;

/// A rectangle with its sides along the axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Lower left corner.
    pub min: [f64; 2],
    /// Upper right corner.
    pub max: [f64; 2],
}

impl Rect {
    /// The square around the origin that reaches `half` in every direction.
    pub const fn square(half: f64) -> Rect {
        Rect { min: [-half, -half], max: [half, half] }
    }

    fn shrunk(self, by: f64) -> Rect {
        Rect { min: self.min.map(|a| a + by), max: self.max.map(|a| a - by) }
    }

    fn area(self) -> f64 {
        (self.max[0] - self.min[0]) * (self.max[1] - self.min[1])
    }
}

/// How one kind of object is placed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// How many objects of this kind there are.
    pub count: usize,
    /// Radius that stays free around each of them.
    pub keepout: f64,
    /// Where they may be: one of these, with probability proportional to its area after shrinking.
    pub areas: &'static [Rect],
}

impl Placement {
    fn draw(&self, rng: &mut ChaCha8Rng) -> [f64; 2] {
        let area = self.pick_area(rng);
        std::array::from_fn(|i| area.min[i] + (area.max[i] - area.min[i]) * rng.random::<f64>())
    }

    fn pick_area(&self, rng: &mut ChaCha8Rng) -> Rect {
        let mut shrunk = self.areas.iter().map(|area| area.shrunk(self.keepout));
        let last = shrunk.next_back().expect("a placement has at least one area");
        if self.areas.len() == 1 {
            return last;
        }
        let total: f64 = shrunk.clone().map(Rect::area).sum::<f64>() + last.area();
        let mut left = total * rng.random::<f64>();
        for area in shrunk {
            left -= area.area();
            if left < 0.0 {
                return area;
            }
        }
        last
    }
}

/// The rules of one world: the robot, then everything else in the order in which it is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Placement of the robot.
    pub robot: Placement,
    /// Placement of everything else; the first is the goal, of which there is one, if goals are drawn anew.
    pub objects: &'static [Placement],
}

impl Layout {
    /// Number of objects besides the robot.
    pub fn len(&self) -> usize {
        self.objects.iter().map(|kind| kind.count).sum()
    }

    /// Whether there is nothing besides the robot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keepout of every object, in the order of the objects.
    pub fn keepouts(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        self.objects.iter().flat_map(|kind| std::iter::repeat_n(kind.keepout, kind.count))
    }

    /// Draws the robot's place, which it returns, and all objects.
    ///
    /// # Panics
    ///
    /// If ten thousand layouts fail, which means that the rules ask for more than fits.
    pub fn draw(&self, rng: &mut ChaCha8Rng, objects: &mut Vec<[f64; 2]>) -> [f64; 2] {
        self.insist(|| {
            let robot = self.try_draw(rng, objects)?;
            // The goal is placed before the obstacles crowd it out, then once more among them, as on every goal reached.
            objects[0] = self.draw_goal(rng, robot, objects)?;
            Some(robot)
        })
    }

    /// The same without a goal that is drawn twice.
    ///
    /// # Panics
    ///
    /// As [`draw`](Layout::draw) does.
    pub fn draw_once(&self, rng: &mut ChaCha8Rng, objects: &mut Vec<[f64; 2]>) -> [f64; 2] {
        self.insist(|| self.try_draw(rng, objects))
    }

    fn insist(&self, mut draw: impl FnMut() -> Option<[f64; 2]>) -> [f64; 2] {
        let found = (0..RESTARTS).find_map(|_| draw());
        found.unwrap_or_else(|| panic!("the objects of this layout do not fit their areas: {self:?}"))
    }

    fn try_draw(&self, rng: &mut ChaCha8Rng, objects: &mut Vec<[f64; 2]>) -> Option<[f64; 2]> {
        objects.clear();
        let robot = self.robot.draw(rng);
        for kind in self.objects {
            for _ in 0..kind.count {
                let placed = objects.iter().zip(self.keepouts());
                let place = self.find_place(rng, kind, robot, placed, TRIES)?;
                objects.push(place);
            }
        }
        Some(robot)
    }

    /// A new place for the goal (`objects[0]`) with everything else where it is; none if ten thousand tries fail.
    pub fn draw_goal(&self, rng: &mut ChaCha8Rng, robot: [f64; 2], objects: &[[f64; 2]]) -> Option<[f64; 2]> {
        let others = objects.iter().zip(self.keepouts()).skip(1);
        self.find_place(rng, &self.objects[0], robot, others, GOAL_TRIES)
    }

    fn find_place<'a>(
        &self,
        rng: &mut ChaCha8Rng,
        kind: &Placement,
        robot: [f64; 2],
        others: impl Iterator<Item = (&'a [f64; 2], f64)> + Clone,
        tries: usize,
    ) -> Option<[f64; 2]> {
        (0..tries).find_map(|_| {
            let place = kind.draw(rng);
            let clear = apart(place, robot, kind.keepout + self.robot.keepout)
                && others.clone().all(|(other, keepout)| apart(place, *other, kind.keepout + keepout));
            clear.then_some(place)
        })
    }
}

fn apart(a: [f64; 2], b: [f64; 2], distance: f64) -> bool {
    let (dx, dy) = (a[0] - b[0], a[1] - b[1]);
    dx * dx + dy * dy >= distance * distance
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const AREA: &[Rect] = &[Rect::square(1.0)];

    #[test]
    fn a_goal_without_room_is_given_up() {
        let layout = Layout {
            robot: Placement { count: 1, keepout: 0.4, areas: AREA },
            objects: &[
                Placement { count: 1, keepout: 0.3, areas: AREA },
                Placement { count: 1, keepout: 3.0, areas: AREA },
            ],
        };
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        assert_eq!(layout.draw_goal(&mut rng, [0.9, 0.9], &[[0.0; 2], [0.0; 2]]), None);
    }

    #[test]
    #[should_panic(expected = "do not fit")]
    fn an_impossible_layout_is_reported() {
        let layout = Layout {
            robot: Placement { count: 1, keepout: 0.4, areas: AREA },
            objects: &[
                Placement { count: 1, keepout: 0.3, areas: AREA },
                Placement { count: 40, keepout: 0.3, areas: AREA },
            ],
        };
        layout.draw(&mut ChaCha8Rng::seed_from_u64(0), &mut Vec::new());
    }
}
