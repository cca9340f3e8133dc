//! A device's arithmetic against double precision: gradients, loss terms and KL of one pass, and how far many steps may drift
//! apart. Layer by layer with the stand-in for a device always; whole passes by the kernels' own source on the CPU with `--features
//! emulation`; both on a CUDA device with `--features gpu-tests`. `--nocapture` shows the figures.

mod batches;
mod drift;
#[cfg(feature = "emulation")]
#[path = "../emulation/mod.rs"]
mod emulation;
#[cfg(any(feature = "emulation", feature = "gpu-tests"))]
mod fused;
mod gradients;
mod reference;

use p3o_gpu::device::Device;

/// Makes a device.
type Maker<'a> = dyn Fn() -> Result<Box<dyn Device>, String> + 'a;

/// The unit of rounding of single precision.
const UNIT: f64 = 1.0 / (1u64 << 24) as f64;
