//! Bodies that move: the equations beneath the tasks, free of rewards and costs.

pub mod ant;
pub mod contact;
pub mod particles;
pub mod point;
pub mod rllab_point;
