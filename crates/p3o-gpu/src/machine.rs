//! Memory and kernels as a driver has them, for what launches kernels by name with plain arguments.

use crate::device::Outcome;
use std::ffi::c_void;
use std::sync::atomic::AtomicI32;

/// A kernel that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(pub usize);

/// An address in a machine's memory.
pub type Address = u64;

/// Two numbers that kernels write and the host reads while they run.
pub struct Mailbox {
    /// Where kernels write them.
    pub address: Address,
    /// Where the host reads them.
    pub numbers: &'static [AtomicI32; 2],
}

/// See the module. What it is asked for is done in order.
pub trait Machine: Send {
    /// Room for so many bytes, all zero, as long as the machine lives.
    fn allocate(&mut self, bytes: usize) -> Outcome<Address>;
    /// Copies to the machine; the bytes are free for other use when it returns.
    fn write(&mut self, to: Address, bytes: &[u8]) -> Outcome<()>;
    /// Copies from the machine once all before it is done.
    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Outcome<()>;
    /// Bytes of shared memory that a block of a kernel may have.
    fn shared(&self) -> usize;
    /// Finds a kernel that will be launched with so many bytes of shared memory.
    fn kernel(&mut self, name: &str, shared: u32) -> Outcome<Kernel>;
    /// Launches a kernel; `arguments` are the addresses of its arguments.
    fn launch(&mut self, kernel: Kernel, grid: [u32; 3], threads: u32, arguments: &mut [*mut c_void]) -> Outcome<()>;
    /// A mailbox of its own.
    fn mailbox(&mut self) -> Outcome<Mailbox>;
    /// What has gone wrong, if anything; does not wait.
    fn trouble(&mut self) -> Outcome<()>;
}
