//! Train policies that earn reward and keep their costs under hard limits.
//!
//! Data flows one way: environments -> [`rollout`] -> [`advantage`] -> [`algo`] -> metrics and [`checkpoint`]. A
//! [`Learner`] is that loop's body; a [`Run`] puts it in a folder; a [`Trainer`] is the short way from a program.

pub mod actor;
pub mod advantage;
pub mod algo;
pub mod checkpoint;
pub mod config;
pub mod critic;
pub mod error;
pub mod evaluate;
mod group;
pub mod learner;
pub mod normalize;
pub mod policy;
mod recall;
pub mod record;
pub mod rollout;
pub mod run;
mod trainer;

pub use config::Config;
pub use error::{ConfigError, Error};
pub use learner::{Learner, Report};
pub use run::{Finish, Run};
pub use trainer::{
    Algorithm, Cpo, Focops, Ipo, Map3o, Map3oDec, Mappo, MappoLag, P3o, Pcpo, Ppo, PpoLag, Trained, Trainer, Trpo,
    TrpoLag,
};
