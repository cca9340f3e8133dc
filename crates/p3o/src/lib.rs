//! Train policies that earn reward and keep their costs under hard limits.

pub mod advantage;
pub mod algo;
pub mod config;
pub mod critic;
pub mod error;
pub mod learner;
pub mod normalize;
pub mod policy;
pub mod record;
pub mod rollout;

pub use config::Config;
pub use error::{ConfigError, Error};
pub use learner::{Learner, Report};
