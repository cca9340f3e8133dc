//! Worlds: the [`Env`] trait, the vectorised stepper, and the tasks themselves.
//!
//! A world is anything that implements [`Env`]: it writes observations and named costs into slices and can be frozen
//! to bytes and continued bit for bit. [`VecEnv`] runs many of them side by side; [`tasks::make`] builds the ones that
//! come with the crate by name. Worlds of several agents implement [`MultiAgentEnv`]; [`Joint`] makes an [`Env`] of one.
//!
//! ```
//! use p3o_env::{VecEnv, tasks};
//!
//! let make = || tasks::make("PointGoal", &Default::default()).expect("the task exists");
//! let mut worlds = VecEnv::new(&make, 4, 0);
//! worlds.step(&[1.0, 0.5].repeat(4));
//! println!("reward {}, costs {:?}", worlds.lanes()[0].last().reward, worlds.lanes()[0].costs());
//! ```

mod ant_circle;
mod arena;
mod env;
mod hash;
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
mod scene;
mod simple_spread;
pub mod snapshot;
pub mod tasks;
mod vase;
mod vec_env;

pub use ant_circle::{AntCircle, CircleStart};
pub use arena::ArenaView;
pub use env::{ActionSpace, CostSpec, Env, EnvSpec, Outcome, RestoreError};
pub use hash::fnv1a;
pub use multi_agent::{Joint, MultiAgentEnv, Team};
pub use navigation::Navigation;
pub use open_env::{OpenEnv, Quantities, StateError};
pub use point_circle::PointCircle;
pub use point_gather::{GatherObs, PointGather};
pub use point_goal::{GoalLevel, PointGoal};
pub use scene::{Form, Role, Scene, Shape};
pub use simple_spread::{SimpleSpread, SpreadReward, SpreadSemantics};
pub use tasks::{TASKS, TaskError, TaskInfo};
pub use vec_env::{Episode, Lane, LaneStep, VecEnv};
