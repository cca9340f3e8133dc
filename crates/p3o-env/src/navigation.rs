//! Navigation: the paper's task with two obstacles and two costs.
//!
//! Hazards lie around the start, so that a random policy violates their limit; pillars stand outside, so that only a policy
//! that has learned to drive meets them. The paper does not publish its layout; these reproduce what it says about both.
//!
//! | pillars | arena | hazards | pillars |
//! |---|---|---|---|
//! | scattered | +-2.2 | 8 within +-1.2 | 6 in the square ring from 1.2 to 2.2 |
//! | fence | +-2.6 | 8 within +-1.2 | 14 in the square ring from 1.2 to 1.9 |
//!
//! Scattered pillars are easy to drive around: a trained PPO keeps their limit without being asked to. The fence lies between
//! the start and many of the goals, with gaps not much wider than the robot, and a trained PPO violates both limits.
//! Observation: 12 sensor numbers as in PointGoal, then lidars of 16 bins for goal, hazards and pillars.
//!
//! The paper's robot is the Point. The Car can have its place: its own 24 sensor numbers come before the lidars. It is 0.31 m wide, the Point
//! 0.2 m, and the narrowest gaps between pillars, 0.2 m, are closed to it.

use crate::arena::{Arena, Rules, Thing, keepout, world_of_an_arena};
use crate::car::Car;
use crate::layout::{Layout, Placement, Rect};
use crate::robot::Point;

/// How the pillars stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pillars {
    /// A few in a wide ring, with room to pass between any two: the layout of versions up to 0.2.
    Scattered,
    /// Many in a narrow ring inside the arena.
    #[default]
    Fence,
}

/// Hazards lie inside of this, pillars outside.
const INNER: f64 = 1.2;

/// The square ring between `INNER` and `outer`: strips above and below over the full width, and one on either side.
const fn ring(outer: f64) -> [Rect; 4] {
    [
        Rect { min: [-outer, INNER], max: [outer, outer] },
        Rect { min: [-outer, -outer], max: [outer, -INNER] },
        Rect { min: [INNER, -INNER], max: [outer, INNER] },
        Rect { min: [-outer, -INNER], max: [-INNER, INNER] },
    ]
}

const ROBOT: Placement = Placement { count: 1, keepout: keepout::ROBOT, areas: &[Rect::square(0.8)] };
const GOAL: Placement = Placement { count: 1, keepout: keepout::GOAL, areas: &[] };
const HAZARDS: Placement = Placement { count: 8, keepout: keepout::HAZARD, areas: &[Rect::square(INNER)] };
const PILLARS: Placement = Placement { count: 0, keepout: keepout::PILLAR, areas: &[] };
const THINGS: &[Thing] = &[Thing::Goal, Thing::Hazard, Thing::Pillar];
const COSTS: &[(Thing, f64)] = &[(Thing::Hazard, 25.0), (Thing::Pillar, 20.0)];

const SCATTERED_LAYOUT: Layout = Layout {
    robot: ROBOT,
    objects: &[
        Placement { areas: &[Rect::square(2.2)], ..GOAL },
        HAZARDS,
        Placement { count: 6, areas: &ring(2.2), ..PILLARS },
    ],
};

const FENCE_LAYOUT: Layout = Layout {
    robot: ROBOT,
    objects: &[
        Placement { areas: &[Rect::square(2.6)], ..GOAL },
        HAZARDS,
        Placement { count: 14, areas: &ring(1.9), ..PILLARS },
    ],
};

/// The rules of a layout, whoever drives; `kind` names the variant in snapshots.
const fn rules(kind: &'static str, layout: Layout) -> Rules {
    Rules { name: "Navigation", kind, layout, things: THINGS, costs: COSTS }
}

static SCATTERED: Rules = rules("Navigation", SCATTERED_LAYOUT);
static FENCE: Rules = rules("Navigation with a fence", FENCE_LAYOUT);
static CAR_SCATTERED: Rules = rules("Navigation by car", SCATTERED_LAYOUT);
static CAR_FENCE: Rules = rules("Navigation by car with a fence", FENCE_LAYOUT);

/// Makes a world of a robot and its rules, scattered and as a fence.
macro_rules! navigation_world {
    ($(#[$doc:meta])* $world:ident, $robot:ty, $scattered:expr, $fence:expr) => {
        $(#[$doc])*
        ///
        /// An episode is truncated after 1000 steps. It terminates only if no new goal can be placed or if the state is no longer
        /// finite: an action that is not a number shows up as NaN in the reward and the observation of that step.
        #[derive(Clone, Debug)]
        pub struct $world {
            arena: Arena<$robot>,
        }

        impl Default for $world {
            fn default() -> $world {
                $world::new()
            }
        }

        impl $world {
            /// A world in the initial state of seed 0.
            pub fn new() -> $world {
                $world::with_pillars(Pillars::default())
            }

            /// The same with pillars that stand so.
            pub fn with_pillars(pillars: Pillars) -> $world {
                let rules = match pillars {
                    Pillars::Scattered => &$scattered,
                    Pillars::Fence => &$fence,
                };
                $world { arena: Arena::new(rules) }
            }

            /// The same world with another reward for reaching the goal (1 by default; 0 is the paper's literal formula).
            pub fn with_goal_bonus(mut self, bonus: f64) -> $world {
                self.arena.goal_bonus = bonus;
                self
            }
        }

        world_of_an_arena!($world);
    };
}

navigation_world! {
    /// The Navigation world.
    Navigation, Point, SCATTERED, FENCE
}

navigation_world! {
    /// The Navigation world with the Car in the Point's place: an observation of 72 numbers, and steps of 0.04 s.
    CarNavigation, Car, CAR_SCATTERED, CAR_FENCE
}
