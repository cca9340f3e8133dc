//! The bodies, as tools/parity/bodies.py writes them.

#![allow(clippy::approx_constant, reason = "the numbers are the original's")]

mod ant;
mod car;
mod half_cheetah;
mod hopper;
mod humanoid;
mod safety_ant;
mod swimmer;
mod walker2d;

pub use ant::ANT;
pub use car::CAR;
pub use half_cheetah::HALF_CHEETAH;
pub use hopper::HOPPER;
pub use humanoid::HUMANOID;
pub use safety_ant::SAFETY_ANT;
pub use swimmer::SWIMMER;
pub use walker2d::WALKER2D;
