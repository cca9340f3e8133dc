//! Bodies that move: the physics of the tasks, without rewards and costs.

pub mod ant;
pub mod articulated;
pub mod contact;
pub(crate) mod lanes;
mod line;
pub mod particles;
pub mod point;
pub mod rllab_point;
pub(crate) mod space;
