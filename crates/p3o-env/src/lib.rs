//! Worlds: environments with rewards and named costs, one at a time or in batches.
//!
//! A world is anything that implements [`Env`]: it writes observations and named costs into slices and may offer
//! snapshots, from which it continues bit for bit. [`tasks::make`] builds the worlds that come with the crate by name.
//! Worlds of several agents implement [`MultiAgentEnv`]; [`Joint`] and [`Team`] make an [`Env`] of one.
//!
//! A trainer sees worlds in batches, as a [`VectorEnv`]. [`VecEnv`] makes one of many worlds of this process.
//!
//! ```
//! use p3o_env::{Stepper, VecEnv, VectorEnv, VectorStep, tasks};
//!
//! let make = || tasks::make("PointGoal", &Default::default()).expect("the task exists");
//! let mut worlds = VecEnv::new(&make, 4);
//! let mut step = VectorStep::new(worlds.spec(), worlds.count());
//! worlds.reset(&[1, 2, 3, 4], &mut step.obs)?;
//! // Episodes that follow are numbered on from the first four.
//! let mut next = 4;
//! let mut seed = |_world| {
//!     next += 1;
//!     next
//! };
//! worlds.step(&[1.0, 0.5].repeat(4), &mut seed, &mut step)?;
//! println!("rewards {:?}, costs {:?}", step.rewards, step.costs);
//! # Ok::<(), p3o_env::WorldError>(())
//! ```

mod ant_circle;
mod arena;
mod button_tasks;
mod buttons;
mod car;
mod car_goal;
mod circle;
mod env;
mod free_vases;
mod hash;
mod labels;
pub mod layout;
pub mod lidar;
mod math;
mod multi_agent;
mod navigation;
mod open_env;
pub mod physics;
mod point_circle;
pub mod point_gather;
mod point_goal;
mod robot;
mod safety_ant;
mod scene;
mod simple_spread;
pub mod snapshot;
pub mod tasks;
mod vase;
mod vec_env;
mod vector;
mod velocity;

pub use ant_circle::{AntCircle, CircleStart};
pub use arena::ArenaView;
pub use button_tasks::{ButtonLevel, CarButton, PointButton};
pub use car_goal::CarGoal;
pub use env::{ActionSpace, Actuation, CostSpec, Env, EnvSpec, Outcome, RestoreError};
pub use hash::fnv1a;
pub use labels::{Label, Labels};
pub use multi_agent::{Joint, MultiAgentEnv, Team};
pub use navigation::{CarNavigation, Navigation, Pillars};
pub use open_env::{OpenEnv, Quantities, StateError};
pub use point_circle::PointCircle;
pub use point_gather::{GatherObs, PointGather};
pub use point_goal::{GoalLevel, PointGoal, Vases};
pub use scene::{Form, Role, Scene, Shape};
pub use simple_spread::{SimpleSpread, SpreadReward, SpreadSemantics};
pub use tasks::{TASKS, TaskError, TaskInfo};
pub use vec_env::VecEnv;
pub use vector::{Stepper, VectorEnv, VectorStep, WorldError};
pub use velocity::{Runner, Velocity};
