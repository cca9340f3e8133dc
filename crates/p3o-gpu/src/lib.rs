//! The update on a device: networks, batch and optimisers live in its memory, and the host asks for passes.
//!
//! A [`device::Device`] does what the kernels in `kernels/p3o.cu` do: [`cuda::Cuda`] on a CUDA device, [`host::Host`] as a stand-in in
//! host memory, which shows without a device that everything around the kernels is right. [`engine::DeviceEngine`] is an
//! [`p3o::engine::Engine`] on any of them.

pub mod cuda;
pub mod device;
pub mod engine;
pub mod host;
mod net;
