//! CarGoal: PointGoal's arena with the Car in the Point's place (Safety-Gymnasium's `SafetyCarGoal{0,1,2}-v0`).
//!
//! Levels, vases, reward and costs are PointGoal's. Observation: 24 numbers of sensors ([`crate::physics::articulated::bodies::CAR`]'s
//! accelerometer, velocimeter, gyro and magnetometer, the rear ball's angular velocity and rotation), then lidars of 16 bins for
//! goal, hazards and vases: 40 numbers at level 0, 72 at levels 1 and 2. A step is 0.04 s, twice the Point's.

use crate::arena::Rules;
use crate::car::Car;
use crate::point_goal::{goal_world, level_0, level_1, level_2};

static LEVEL_0: Rules = level_0("CarGoal", "CarGoal level 0");
static LEVEL_1: Rules = level_1("CarGoal", "CarGoal level 1");
static LEVEL_2: Rules = level_2("CarGoal", "CarGoal level 2");

goal_world! {
    /// The CarGoal world.
    CarGoal, Car, [&LEVEL_0, &LEVEL_1, &LEVEL_2]
}
