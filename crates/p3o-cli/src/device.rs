//! `--device` and `--precision`: where the networks learn, and in what precision.

use crate::Failure;
use crate::args::DeviceArgs;
use p3o::engine::{Engine, Networks};
use p3o::error::visible;
use p3o_gpu::Precision;
use p3o_gpu::cuda::{Cuda, count};
use p3o_gpu::device::Device as _;
use p3o_gpu::engine::DeviceEngine;
use p3o_lab::sweep::{Cpu, Place};
use std::sync::{Mutex, MutexGuard};

/// Where the networks learn.
pub enum Device {
    /// In host memory.
    Cpu,
    /// On a GPU. All runs of the program share it, each with queues of its own.
    Cuda {
        /// The GPU.
        gpu: Box<Mutex<Cuda>>,
        /// What it multiplies in.
        precision: Precision,
    },
}

impl Device {
    /// The one that was asked for.
    pub fn of(args: &DeviceArgs) -> Result<Device, Failure> {
        Device::of_process(args, 0)
    }

    /// The same for one of several processes on a machine, which have a GPU each as far as there are as many.
    pub fn of_process(args: &DeviceArgs, number: usize) -> Result<Device, Failure> {
        let precision = match args.precision.as_str() {
            "fp32" => Precision::Fp32,
            "tf32" => Precision::Tf32,
            other => return Err(Failure::Usage(format!("--precision takes fp32 or tf32, not `{}`", visible(other)))),
        };
        Device::named(&args.device, precision, number)
    }

    /// From its name: `cpu`, `cuda`, `cuda:N`, or `auto`, which takes a GPU where there is one.
    fn named(name: &str, precision: Precision, number: usize) -> Result<Device, Failure> {
        let failed = |reason: String| Failure::Failed(format!("--device {name}: {reason}"));
        let open =
            |number: usize| Cuda::open(number).map(|gpu| Device::Cuda { gpu: Box::new(Mutex::new(gpu)), precision });
        let own = || number % count().unwrap_or(1).max(1);
        let device = match (name, name.strip_prefix("cuda:").map(str::parse)) {
            ("cpu", _) => Device::Cpu,
            ("auto", _) => open(own()).unwrap_or(Device::Cpu),
            ("cuda", _) => open(own()).map_err(failed)?,
            (_, Some(Ok(number))) => open(number).map_err(failed)?,
            _ => {
                let line = format!("--device takes cpu, cuda, cuda:N or auto, not `{}`", visible(name));
                return Err(Failure::Usage(line));
            }
        };
        match device {
            // A setting without effect would be believed to have one.
            Device::Cpu if precision != Precision::default() => {
                let found = if name == "auto" { ", and --device auto found none" } else { ": name one with --device" };
                Err(Failure::Usage(format!("--precision tf32 takes a GPU{found}")))
            }
            device => Ok(device),
        }
    }
}

/// The GPU for one thread, to ask it for a queue.
pub fn locked(gpu: &Mutex<Cuda>) -> MutexGuard<'_, Cuda> {
    gpu.lock().expect("nothing panics with it")
}

impl Place for Device {
    fn device(&self) -> String {
        match self {
            Device::Cpu => Cpu.device(),
            Device::Cuda { gpu, precision } => precision.beside(locked(gpu).name()),
        }
    }

    fn engine(&self, networks: Networks, several: bool) -> Result<Box<dyn Engine>, String> {
        match self {
            Device::Cpu => Cpu.engine(networks, several),
            Device::Cuda { gpu, precision } => {
                let another =
                    || -> Result<Box<dyn p3o_gpu::device::Device>, String> { Ok(Box::new(locked(gpu).again()?)) };
                Ok(Box::new(DeviceEngine::new(networks, &another, *precision)?))
            }
        }
    }
}
