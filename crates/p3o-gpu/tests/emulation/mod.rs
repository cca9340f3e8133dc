//! A machine that runs the kernels' own source on the CPU: compiled once by `c++` and loaded.
#![allow(unsafe_code)] // memory by its address and calls into the library, each with its reason

use libloading::{Library, Symbol};
use p3o_gpu::device::{Device, Outcome};
use p3o_gpu::host::Host;
use p3o_gpu::machine::{Address, Kernel, Machine, Mailbox};
use std::ffi::{CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicI32;
use std::sync::{LazyLock, Mutex};

type Emulate = unsafe extern "C" fn(*const c_char, *const c_uint, c_uint, c_ulong, c_int, *mut *mut c_void) -> c_int;

/// The library; it runs one kernel at a time. It is made where there is none of these sources and flags yet.
static LIBRARY: LazyLock<Mutex<Library>> = LazyLock::new(|| {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let mut flags = vec!["-O2", "-ftree-vectorize", "-fno-strict-aliasing", "-std=c++20", "-DEMULATE"];
    flags.extend(["-fPIC", "-shared", "-w", "-x", "c++"]);
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
        flags.extend(["-mavx2", "-mfma", "-mf16c"]);
    }
    let mut all = blake3::Hasher::new();
    all.update(flags.concat().as_bytes());
    for name in ["fused.cu", "rows.h", "device.h", "emulate.h", "emulate.cpp"] {
        all.update(&std::fs::read(kernels.join(name)).unwrap());
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let made = folder.join(format!("emulated-{}.so", &all.finalize().to_hex()[..16]));
    if !made.exists() {
        let sources = ["fused.cu", "emulate.cpp"].map(|name| kernels.join(name));
        let scratch = folder.join(format!("emulated-{}.tmp", std::process::id()));
        let done = Command::new("c++").args(&flags).args(sources).arg("-o").arg(&scratch).status();
        assert!(done.expect("a C++ compiler, c++, is needed").success());
        std::fs::rename(scratch, &made).unwrap();
    }
    // SAFETY: it was made from these sources, and its initialisers only fill a table.
    Mutex::new(unsafe { Library::new(&made) }.unwrap())
});

/// Makes a stand-in with such a machine; copies in the background land at once if `early`, else as late as they may.
pub fn maker(early: bool) -> impl Fn() -> Outcome<Box<dyn Device>> {
    move || Ok(Box::new(Host::with(Box::new(Emulation { early, ..Emulation::default() }))))
}

/// See the module.
#[derive(Default)]
struct Emulation {
    early: bool,
    memory: Vec<Vec<u128>>,
    kernels: Vec<(CString, u32)>,
}

impl Machine for Emulation {
    fn allocate(&mut self, bytes: usize) -> Outcome<Address> {
        self.memory.push(vec![0; bytes.div_ceil(16).max(1)]);
        Ok(self.memory.last().unwrap().as_ptr() as Address)
    }

    fn write(&mut self, to: Address, bytes: &[u8]) -> Outcome<()> {
        self.find(to, bytes.len());
        // SAFETY: the room is there, and nothing else uses it now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
        Ok(())
    }

    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Outcome<()> {
        self.find(from, bytes.len());
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn shared(&self) -> usize {
        // What an A100 gives.
        163 << 10
    }

    fn kernel(&mut self, name: &str, shared: u32) -> Outcome<Kernel> {
        self.kernels.push((CString::new(name).unwrap(), shared));
        Ok(Kernel(self.kernels.len() - 1))
    }

    fn launch(&mut self, kernel: Kernel, grid: [u32; 3], threads: u32, arguments: &mut [*mut c_void]) -> Outcome<()> {
        let (name, shared) = &self.kernels[kernel.0];
        let library = LIBRARY.lock().unwrap();
        // SAFETY: the symbol has this type in emulate.cpp.
        let emulate: Symbol<Emulate> = unsafe { library.get(b"emulate\0") }.unwrap();
        // SAFETY: the arguments are those of the kernel, with addresses of this machine's memory.
        let code = unsafe {
            let (early, shared) = (c_int::from(self.early), c_ulong::from(*shared));
            emulate(name.as_ptr(), grid.as_ptr(), threads, shared, early, arguments.as_mut_ptr())
        };
        if code == 0 { Ok(()) } else { Err(format!("there is no kernel {name:?}")) }
    }

    fn mailbox(&mut self) -> Outcome<Mailbox> {
        let numbers: &'static [AtomicI32; 2] = Box::leak(Box::default());
        Ok(Mailbox { address: numbers.as_ptr() as Address, numbers })
    }

    fn trouble(&mut self) -> Outcome<()> {
        Ok(())
    }
}

impl Emulation {
    /// Panics unless the room is this machine's own.
    fn find(&self, at: Address, len: usize) {
        let within = |room: &Vec<u128>| {
            let start = room.as_ptr() as usize;
            (start..=start + 16 * room.len()).contains(&(at as usize)) && at as usize + len <= start + 16 * room.len()
        };
        assert!(len == 0 || self.memory.iter().any(within), "an address outside of the machine's memory");
    }
}
