//! Train policies that earn reward and keep their costs under limits.
//!
//! Data flows one way: environments -> [`rollout`] -> [`batch`] and [`advantage`] -> [`algo`] on an [`engine`] -> metrics and
//! [`checkpoint`]. A [`Learner`] is that loop's body; a [`Run`] puts it in a folder; a [`Trainer`] is the short way from a
//! program; an [`Agent`] is what comes out: a policy that acts.

pub mod actor;
pub mod advantage;
mod agent;
pub mod algo;
pub mod batch;
pub mod checkpoint;
pub mod confidence;
pub mod config;
pub mod critic;
pub mod engine;
pub mod error;
pub mod evaluate;
pub mod folder;
mod group;
pub mod learner;
pub mod memory;
pub mod normalize;
pub mod onnx;
mod owners;
pub mod policy;
mod provenance;
pub mod ranks;
pub mod record;
pub mod reduce;
pub mod rollout;
pub mod run;
pub mod signals;
mod stop;
mod trainer;
#[doc = include_str!("../../../docs/tutorial.md")]
pub mod tutorial {}

pub use agent::{Agent, AgentState};
pub use algo::Algorithm;
pub use config::{Agents, Config, Method, Request};
pub use error::{ConfigError, Error};
pub use folder::{RowsOnly, RunFolder};
pub use learner::{Learner, Report};
pub use ranks::Ranks;
pub use run::{Finish, Run};
pub use stop::Stop;
pub use trainer::{Trained, Trainer};
