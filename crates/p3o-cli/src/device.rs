//! `--device`: where the networks learn.

use crate::Failure;
use p3o::engine::{Engine, Networks, on_cpu};
use p3o_gpu::cuda::Cuda;
use p3o_gpu::engine::DeviceEngine;

/// Where the networks learn.
pub enum Device {
    /// In host memory.
    Cpu,
    /// On a GPU.
    Cuda(Box<Cuda>),
}

impl Device {
    /// From its name: `cpu`, `cuda`, `cuda:N`, or `auto`, which takes a GPU where there is one.
    pub fn named(name: &str) -> Result<Device, Failure> {
        let failed = |reason: String| Failure::Failed(format!("--device {name}: {reason}"));
        let open = |number: usize| Cuda::open(number).map(|gpu| Device::Cuda(Box::new(gpu)));
        match (name, name.strip_prefix("cuda:").map(str::parse)) {
            ("cpu", _) => Ok(Device::Cpu),
            ("auto", _) => Ok(open(0).unwrap_or(Device::Cpu)),
            ("cuda", _) => open(0).map_err(failed),
            (_, Some(Ok(number))) => open(number).map_err(failed),
            _ => Err(Failure::Usage(format!("--device takes cpu, cuda, cuda:N or auto, not `{name}`"))),
        }
    }

    /// Puts the networks of a group there.
    pub fn engine(&self, networks: Networks, several: bool) -> Result<Box<dyn Engine>, String> {
        match self {
            Device::Cpu => on_cpu(networks, several),
            Device::Cuda(gpu) => {
                let another = || -> Result<Box<dyn p3o_gpu::device::Device>, String> { Ok(Box::new(gpu.again()?)) };
                Ok(Box::new(DeviceEngine::new(networks, &another)?))
            }
        }
    }
}
