//! The update on a device: networks, batch and optimisers live in its memory, and the host asks for passes.
//!
//! A [`device::Device`] does what the kernels in `kernels/p3o.cu` and `gru.cu` do: [`cuda::Cuda`] on a CUDA device, [`host::Host`] as a stand-in in
//! host memory, which shows without a device that everything around the kernels is right. [`engine::DeviceEngine`] is an
//! [`p3o::engine::Engine`] on any of them.

mod actor;
mod critic_states;
mod critics;
pub mod cuda;
pub mod device;
pub mod engine;
mod fused;
pub mod host;
pub mod machine;
mod net;
mod recurrent;

pub use device::Precision;
