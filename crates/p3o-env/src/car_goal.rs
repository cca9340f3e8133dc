//! CarGoal: PointGoal's arena with the Car in the Point's place (Safety-Gymnasium's `SafetyCarGoal{0,1,2}-v0`).
//!
//! Levels, vases, reward and costs are PointGoal's. Observation: 24 numbers of sensors ([`crate::physics::articulated::bodies::CAR`]'s
//! accelerometer, velocimeter, gyro and magnetometer, the rear ball's angular velocity and rotation), then lidars of 16 bins for
//! goal, hazards and vases: 40 numbers at level 0, 72 at levels 1 and 2. A step is 0.04 s, twice the Point's.

use crate::arena::{Arena, Rules, world_of_an_arena};
use crate::car::Car;
use crate::point_goal::{level_0, level_1, level_2};
use crate::{GoalLevel, Vases};

static LEVEL_0: Rules = level_0("CarGoal", "CarGoal level 0");
static LEVEL_1: Rules = level_1("CarGoal", "CarGoal level 1");
static LEVEL_2: Rules = level_2("CarGoal", "CarGoal level 2");

/// The CarGoal world.
///
/// An episode is truncated after 1000 steps. It terminates only if no new goal can be placed or if the state is no longer
/// finite: an action that is not a number shows up as NaN in the reward and the observation of that step.
#[derive(Clone, Debug)]
pub struct CarGoal {
    arena: Arena<Car>,
}

impl Default for CarGoal {
    fn default() -> CarGoal {
        CarGoal::new(GoalLevel::default())
    }
}

impl CarGoal {
    /// A world of this level, in the initial state of seed 0. Vases are free at level 2 and simple below.
    pub fn new(level: GoalLevel) -> CarGoal {
        CarGoal::with_vases(level, Vases::of(level))
    }

    /// The same with vases that move in this way.
    pub fn with_vases(level: GoalLevel, vases: Vases) -> CarGoal {
        let rules = match level {
            GoalLevel::Zero => &LEVEL_0,
            GoalLevel::One => &LEVEL_1,
            GoalLevel::Two => &LEVEL_2,
        };
        let mut arena = Arena::new(rules);
        if vases == Vases::Free {
            arena.free_vases();
        }
        CarGoal { arena }
    }

    /// The same world with one cost, which is 1 in a step in which hazards or vases cost.
    pub fn with_combined_cost(mut self) -> CarGoal {
        self.arena.combine_costs(25.0);
        self
    }

    /// The same world with another reward for reaching the goal (1 by default).
    pub fn with_goal_bonus(mut self, bonus: f64) -> CarGoal {
        self.arena.goal_bonus = bonus;
        self
    }
}

world_of_an_arena!(CarGoal);
