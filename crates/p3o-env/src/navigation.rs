//! Navigation: the paper's task with two obstacles and two costs.
//!
//! Hazards lie around the start, so that a random policy violates their limit; pillars stand in a ring outside, so that
//! only a policy that has learned to drive meets them. The paper does not publish its layout; this one reproduces what it
//! says about both. Observation: 12 sensor numbers as in PointGoal, then lidars of 16 bins for goal, hazards and pillars.

use crate::arena::{Arena, Obstacle, Rules, keepout, world_of_an_arena};
use crate::layout::{Layout, Placement, Rect};

const OUTER: f64 = 2.2;
const INNER: f64 = 1.2;

/// The square ring between `INNER` and `OUTER`: strips above and below over the full width, and one on either side.
const RING: &[Rect] = &[
    Rect { min: [-OUTER, INNER], max: [OUTER, OUTER] },
    Rect { min: [-OUTER, -OUTER], max: [OUTER, -INNER] },
    Rect { min: [INNER, -INNER], max: [OUTER, INNER] },
    Rect { min: [-OUTER, -INNER], max: [-INNER, INNER] },
];

static RULES: Rules = Rules {
    name: "Navigation",
    kind: "Navigation",
    layout: Layout {
        robot: Placement { count: 1, keepout: keepout::ROBOT, areas: &[Rect::square(0.8)] },
        objects: &[
            Placement { count: 1, keepout: keepout::GOAL, areas: &[Rect::square(OUTER)] },
            Placement { count: 8, keepout: keepout::HAZARD, areas: &[Rect::square(INNER)] },
            Placement { count: 6, keepout: keepout::PILLAR, areas: RING },
        ],
    },
    obstacles: &[Obstacle::Hazard, Obstacle::Pillar],
    costs: &[(Obstacle::Hazard, 25.0), (Obstacle::Pillar, 20.0)],
};

/// The Navigation world.
///
/// An episode is truncated after 1000 steps. It terminates only if no new goal can be placed or if the state is no longer
/// finite: an action that is not a number shows up as NaN in the reward and the observation of that step.
#[derive(Clone, Debug)]
pub struct Navigation {
    arena: Arena,
}

impl Default for Navigation {
    fn default() -> Navigation {
        Navigation::new()
    }
}

impl Navigation {
    /// A world in the initial state of seed 0.
    pub fn new() -> Navigation {
        Navigation { arena: Arena::new(&RULES) }
    }

    /// The same world with another reward for reaching the goal (1 by default; 0 is the paper's literal formula).
    pub fn with_goal_bonus(mut self, bonus: f64) -> Navigation {
        self.arena.goal_bonus = bonus;
        self
    }
}

world_of_an_arena!(Navigation);
