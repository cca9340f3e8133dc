//! A CUDA device. The driver is loaded when the first one is opened; the kernels are embedded.
#![allow(unsafe_code)] // launches of kernels, each with its reason

use crate::device::{CHUNK, Device, Doubles, Floats, Gru, Indices, Layer, Loss, Outcome, PolicyRows, ROWS, ValueRows};
use crate::fused::{Behaviour, whole};
use crate::machine::{Address, Kernel, Machine, Mailbox};
use bytemuck::{cast_slice, cast_slice_mut};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError,
    LaunchConfig, PinnedHostSlice, PushKernelArg, result, sys,
};
use cudarc::nvrtc::Ptx;
use p3o_nn::Activation;
use rayon::prelude::*;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::atomic::AtomicI32;
use std::sync::{Arc, Mutex};

/// Made from the sources beside them by `tools/kernels`: code for some GPUs, and PTX for all others.
const KERNELS: [&[u8]; 2] = [include_bytes!("../kernels/p3o.fatbin"), include_bytes!("../kernels/gru.fatbin")];
const FUSED: &[u8] = include_bytes!("../kernels/fused.fatbin");
const PEAK: &[u8] = include_bytes!("../kernels/peak.fatbin");
/// Rows of a block of a product.
const TILE: usize = 128;
/// Columns of a block, and those up to which the narrow form of a product is taken.
const WIDE: usize = 128;
const NARROW: usize = 16;
/// Sequences of a block that takes them through a GRU, and the units up to which its weights fit its registers.
const GROUP: usize = 4;
const UNITS: usize = 64;
/// Bytes of each half of the pinned memory, and of what one thread copies at a time.
const HALF: usize = 4 << 20;
const PIECE: usize = 1 << 18;

/// See the module. Its work is done in the order in which it is asked for.
pub struct Cuda {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    modules: [Arc<CudaModule>; KERNELS.len()],
    kernels: Kernels,
    floats: Vec<CudaSlice<f32>>,
    doubles: Vec<CudaSlice<f64>>,
    indices: Vec<CudaSlice<u32>>,
    fused: Arc<Fused>,
    found: Vec<(sys::CUfunction, u32)>,
    allocated: Vec<sys::CUdeviceptr>,
    /// Made when something is first sent or fetched.
    staging: Option<Staging>,
}

// SAFETY: functions and addresses of the driver may be used from any thread to which the context is bound, and every use binds it.
unsafe impl Send for Cuda {}

/// The module of `fused.cu`, as long as some device uses it.
struct Fused {
    module: sys::CUmodule,
    /// The most dynamic shared memory that anyone has asked for, kernel by kernel: all networks on a device share its functions.
    shared: Mutex<HashMap<String, u32>>,
}

// SAFETY: the driver's modules belong to a context, not to a thread.
unsafe impl Send for Fused {}
// SAFETY: as above; functions are looked up in it under the driver's own locks.
unsafe impl Sync for Fused {}

/// Pinned memory on the way to a device and back: the device takes bytes from there by itself while the host copies the next.
struct Staging {
    halves: [Half; 2],
    /// The half in use, and how many of its bytes are.
    half: usize,
    used: usize,
}

struct Half {
    memory: PinnedHostSlice<u8>,
    /// Comes behind the last copy from here to the device.
    taken: CudaEvent,
}

impl Staging {
    fn new(context: &Arc<CudaContext>) -> Result<Staging, DriverError> {
        let half = || {
            // SAFETY: no byte is read that was not written before, by the host or by the device.
            let memory = unsafe { context.alloc_pinned_with_flags(HALF, 0) }?;
            Ok::<_, DriverError>(Half { memory, taken: context.new_event(None)? })
        };
        Ok(Staging { halves: [half()?, half()?], half: 0, used: 0 })
    }

    /// Room for up to [`HALF`] bytes that no earlier copy needs any more, and what is to come behind a copy from there.
    fn room(&mut self, bytes: usize) -> Result<(&mut [u8], &CudaEvent), DriverError> {
        if self.used + bytes > HALF {
            (self.half, self.used) = (1 - self.half, 0);
            self.halves[self.half].taken.synchronize()?;
        }
        let own = self.used..self.used + bytes;
        self.used = own.end.next_multiple_of(64);
        let Half { memory, taken } = &mut self.halves[self.half];
        Ok((&mut memory.as_mut_slice()?[own], taken))
    }
}

/// Copies bytes, on several threads where they are many.
fn copy(from: &[u8], to: &mut [u8]) {
    if from.len() <= PIECE {
        return to.copy_from_slice(from);
    }
    to.par_chunks_mut(PIECE).zip(from.par_chunks(PIECE)).for_each(|(to, from)| to.copy_from_slice(from));
}

struct Kernels {
    forward: Product,
    tangent: Product,
    backward: Product,
    weights: Product,
    add_parts: CudaFunction,
    add_double_parts: CudaFunction,
    squares: CudaFunction,
    gather: CudaFunction,
    adam: CudaFunction,
    policy_rows: CudaFunction,
    fisher_rows: CudaFunction,
    value_rows: CudaFunction,
    norm_forward: CudaFunction,
    norm_backward: CudaFunction,
    norm_weights: CudaFunction,
    gru_forward: Product,
    gru_backward: Product,
}

/// A product, or a GRU's way, in its wide and its narrow form.
struct Product {
    wide: CudaFunction,
    narrow: CudaFunction,
}

/// The argument of the kernel `policy_rows`, field by field.
#[repr(C)]
#[derive(Clone, Copy)]
struct PolicyArgs {
    behaviour: Behaviour,
    outputs: u64,
    index: u64,
    d: u64,
    parts: u64,
    rows: i32,
    share: f32,
    loss: Loss,
}

// SAFETY: plain numbers in C layout, without padding that the kernel would read.
unsafe impl DeviceRepr for PolicyArgs {}

/// The argument of the kernels of a GRU, field by field.
#[repr(C)]
#[derive(Clone, Copy)]
struct GruArgs {
    w: u64,
    b: u64,
    states: u64,
    starts: u64,
    of_input: u64,
    entering: u64,
    after: u64,
    gates: u64,
    d: u64,
    d_of_state: u64,
    sequences: i32,
    steps: i32,
    units: i32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for GruArgs {}

fn told(error: DriverError) -> String {
    match error.0 {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => "the GPU has too little free memory for this run".into(),
        _ => format!("the GPU failed: {error}"),
    }
}

/// How many CUDA devices there are; an error says why there is none.
pub fn count() -> Outcome<usize> {
    // SAFETY: it only looks for the driver's library.
    if !unsafe { sys::is_culib_present() } {
        return Err("there is no CUDA driver (libcuda) on this machine".into());
    }
    let none = |error: DriverError| format!("the CUDA driver found no usable GPU ({error})");
    CudaContext::device_count().map(|count| count as usize).map_err(none)
}

impl Cuda {
    /// The device of this number.
    pub fn open(number: usize) -> Outcome<Cuda> {
        let there_are = count()?;
        if number >= there_are {
            return Err(format!("there is no GPU {number}: this machine has {there_are}, counted from 0"));
        }
        let context = CudaContext::new(number).map_err(told)?;
        // SAFETY: a device uses its own buffers alone, all on its one stream, which needs no events to keep its order.
        unsafe { context.disable_event_tracking() };
        let too_old = |error: DriverError| {
            format!("the GPU's driver does not take these kernels ({error}): it must be of version 580 or newer")
        };
        let module = |code: &[u8]| context.load_module(Ptx::from_binary(code.to_vec())).map_err(too_old);
        let modules = [module(KERNELS[0])?, module(KERNELS[1])?];
        // SAFETY: the image is a whole fat binary that lives as long as the program.
        let fused = unsafe { result::module::load_data(FUSED.as_ptr().cast()) }.map_err(too_old)?;
        Cuda::with(context, modules, Arc::new(Fused { module: fused, shared: Mutex::default() }))
    }

    /// Another queue of work on the same device.
    pub fn again(&self) -> Outcome<Cuda> {
        Cuda::with(Arc::clone(&self.context), self.modules.clone(), Arc::clone(&self.fused))
    }

    fn with(context: Arc<CudaContext>, modules: [Arc<CudaModule>; KERNELS.len()], fused: Arc<Fused>) -> Outcome<Cuda> {
        let stream = context.new_stream().map_err(told)?;
        let [p3o, gru] = &modules;
        let kernel = |name: &str| p3o.load_function(name).map_err(told);
        let of_gru = |name: &str| gru.load_function(name).map_err(told);
        let product =
            |name: &str| Ok::<_, String>(Product { wide: kernel(name)?, narrow: kernel(&format!("{name}_narrow"))? });
        let kernels = Kernels {
            forward: product("forward")?,
            tangent: product("tangent")?,
            backward: product("backward")?,
            weights: product("weights")?,
            add_parts: kernel("add_parts")?,
            add_double_parts: kernel("add_double_parts")?,
            squares: kernel("squares")?,
            gather: kernel("gather")?,
            adam: kernel("adam")?,
            policy_rows: kernel("policy_rows")?,
            fisher_rows: kernel("fisher_rows")?,
            value_rows: kernel("value_rows")?,
            norm_forward: of_gru("norm_forward")?,
            norm_backward: of_gru("norm_backward")?,
            norm_weights: of_gru("norm_weights")?,
            gru_forward: Product { wide: of_gru("gru_forward_wide")?, narrow: of_gru("gru_forward")? },
            gru_backward: Product { wide: of_gru("gru_backward_wide")?, narrow: of_gru("gru_backward")? },
        };
        let (floats, doubles, indices) = (Vec::new(), Vec::new(), Vec::new());
        let (found, allocated, staging) = (Vec::new(), Vec::new(), None);
        Ok(Cuda { context, stream, modules, kernels, floats, doubles, indices, fused, found, allocated, staging })
    }

    /// Copies bytes to an address; they are free for other use when it returns.
    fn send(&mut self, to: u64, bytes: &[u8]) -> Result<(), DriverError> {
        self.context.bind_to_thread()?;
        for (i, part) in bytes.chunks(HALF).enumerate() {
            let (room, taken) = staging(&mut self.staging, &self.context)?.room(part.len())?;
            copy(part, room);
            // SAFETY: the caller writes within a live buffer, and the room stays as it is until `taken` has come.
            unsafe { result::memcpy_htod_async(to + (i * HALF) as u64, room, self.stream.cu_stream()) }?;
            taken.record(&self.stream)?;
        }
        Ok(())
    }

    /// Copies bytes from an address, once all that was asked for before is done.
    fn fetch(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), DriverError> {
        self.context.bind_to_thread()?;
        for (i, part) in bytes.chunks_mut(HALF).enumerate() {
            let (room, _) = staging(&mut self.staging, &self.context)?.room(part.len())?;
            // SAFETY: the caller reads within a live buffer; nobody looks into the room before the stream is done.
            unsafe { result::memcpy_dtoh_async(room, from + (i * HALF) as u64, self.stream.cu_stream()) }?;
            self.stream.synchronize()?;
            copy(room, part);
        }
        Ok(())
    }

    /// Where some numbers begin.
    fn at(&self, floats: Floats, offset: usize) -> u64 {
        self.floats[floats.0].device_ptr(&self.stream).0 + 4 * offset as u64
    }

    fn double_at(&self, doubles: Doubles) -> u64 {
        self.doubles[doubles.0].device_ptr(&self.stream).0
    }

    fn index_at(&self, indices: Indices) -> u64 {
        self.indices[indices.0].device_ptr(&self.stream).0
    }

    fn gru_args(&self, p: &Gru) -> GruArgs {
        GruArgs {
            w: self.at(p.parameters, p.layer.at),
            b: self.at(p.parameters, p.layer.bias()),
            states: self.at(p.states, 0),
            starts: p.starts.map_or(0, |starts| self.at(starts, 0)),
            of_input: self.at(p.of_input, 0),
            entering: self.at(p.entering, 0),
            after: self.at(p.after, 0),
            gates: self.at(p.gates, 0),
            d: self.at(p.d, 0),
            d_of_state: self.at(p.d_of_state, 0),
            sequences: whole(p.sequences),
            steps: whole(p.steps),
            units: whole(p.layer.inputs),
        }
    }
}

/// The pinned memory, made when it is first asked for.
fn staging<'a>(made: &'a mut Option<Staging>, context: &Arc<CudaContext>) -> Result<&'a mut Staging, DriverError> {
    if made.is_none() {
        *made = Some(Staging::new(context)?);
    }
    Ok(made.as_mut().expect("it was just made"))
}

fn number(activation: Activation) -> i32 {
    match activation {
        Activation::Tanh => 0,
        Activation::Relu => 1,
        Activation::Identity => 2,
    }
}

impl Product {
    /// The form for so many columns, and blocks of 256 threads over the tiles of so many matrices.
    fn tiles(&self, rows: usize, columns: usize, matrices: usize) -> (&CudaFunction, LaunchConfig) {
        let (form, width) = if columns <= NARROW { (&self.narrow, NARROW) } else { (&self.wide, WIDE) };
        let grid_dim = (columns.div_ceil(width) as u32, rows.div_ceil(TILE) as u32, matrices as u32);
        (form, LaunchConfig { grid_dim, block_dim: (256, 1, 1), shared_mem_bytes: 0 })
    }
}

/// The form of a GRU's kernel for its units, a block for each group of sequences; the wide form's blocks have so many threads.
fn of_gru<'a>(forms: &'a Product, p: &Gru, threads: u32) -> (&'a CudaFunction, LaunchConfig) {
    let (form, threads) = if p.layer.inputs <= UNITS { (&forms.narrow, 256) } else { (&forms.wide, threads) };
    let grid_dim = (p.sequences.div_ceil(GROUP) as u32, 1, 1);
    (form, LaunchConfig { grid_dim, block_dim: (threads, 1, 1), shared_mem_bytes: 0 })
}

/// Blocks of so many threads, a thread for each of n.
fn threads(n: usize, per_block: usize) -> LaunchConfig {
    let grid_dim = (n.div_ceil(per_block).max(1) as u32, 1, 1);
    LaunchConfig { grid_dim, block_dim: (per_block as u32, 1, 1), shared_mem_bytes: 0 }
}

/// Launches a kernel with these arguments.
macro_rules! launch {
    ($self:ident, $kernel:ident, $config:expr, $($argument:expr),* $(,)?) => {
        launch!($self, (&$self.kernels.$kernel, $config), $($argument),*)
    };
    ($self:ident, $kernel_and_config:expr, $($argument:expr),* $(,)?) => {{
        $self.context.bind_to_thread().map_err(told)?;
        let (kernel, config) = $kernel_and_config;
        let mut launch = $self.stream.launch_builder(kernel);
        $(launch.arg($argument);)*
        // SAFETY: the arguments are those of the kernel in its source, in number, order and type; every address is that of a live
        // buffer of this device, and the engine asks for no more rows than it has made room for.
        unsafe { launch.launch(config) }.map_err(told)?;
        Ok(())
    }};
}

impl Device for Cuda {
    fn name(&self) -> String {
        self.context.name().unwrap_or_else(|_| "a CUDA device".into())
    }

    fn machine(&mut self) -> Option<&mut dyn Machine> {
        Some(self)
    }

    fn floats(&mut self, len: usize) -> Outcome<Floats> {
        self.floats.push(self.stream.alloc_zeros(len.max(1)).map_err(told)?);
        Ok(Floats(self.floats.len() - 1))
    }

    fn doubles(&mut self, len: usize) -> Outcome<Doubles> {
        self.doubles.push(self.stream.alloc_zeros(len.max(1)).map_err(told)?);
        Ok(Doubles(self.doubles.len() - 1))
    }

    fn indices(&mut self, len: usize) -> Outcome<Indices> {
        self.indices.push(self.stream.alloc_zeros(len.max(1)).map_err(told)?);
        Ok(Indices(self.indices.len() - 1))
    }

    fn write(&mut self, to: Floats, at: usize, values: &[f32]) -> Outcome<()> {
        let to = self.floats[to.0].slice(at..at + values.len()).device_ptr(&self.stream).0;
        self.send(to, cast_slice(values)).map_err(told)
    }

    fn write_indices(&mut self, to: Indices, values: &[u32]) -> Outcome<()> {
        let to = self.indices[to.0].slice(..values.len()).device_ptr(&self.stream).0;
        self.send(to, cast_slice(values)).map_err(told)
    }

    fn read(&mut self, from: Floats, values: &mut [f32]) -> Outcome<()> {
        let from = self.floats[from.0].slice(..values.len()).device_ptr(&self.stream).0;
        self.fetch(from, cast_slice_mut(values)).map_err(told)
    }

    fn read_doubles(&mut self, from: Doubles, values: &mut [f64]) -> Outcome<()> {
        let from = self.doubles[from.0].slice(..values.len()).device_ptr(&self.stream).0;
        self.fetch(from, cast_slice_mut(values)).map_err(told)
    }

    fn forward(&mut self, x: Floats, parameters: Floats, layer: Layer, y: Floats, rows: usize) -> Outcome<()> {
        let Layer { at, inputs, outputs, activation } = layer;
        let (x, w, b) = (self.at(x, 0), self.at(parameters, at), self.at(parameters, layer.bias()));
        let (y, [r, i, o], activation) = (self.at(y, 0), [rows, inputs, outputs].map(whole), number(activation));
        launch!(self, self.kernels.forward.tiles(rows, outputs, 1), &x, &w, &b, &y, &r, &i, &o, &activation)
    }

    fn forward_tangent(
        &mut self,
        x: Floats,
        tx: Option<Floats>,
        parameters: Floats,
        direction: Floats,
        layer: Layer,
        y: Floats,
        ty: Floats,
        rows: usize,
    ) -> Outcome<()> {
        let Layer { at, inputs, outputs, activation } = layer;
        let (x, tx) = (self.at(x, 0), tx.map_or(0, |tx| self.at(tx, 0)));
        let (w, v, c) = (self.at(parameters, at), self.at(direction, at), self.at(direction, layer.bias()));
        let (y, ty, [r, i, o]) = (self.at(y, 0), self.at(ty, 0), [rows, inputs, outputs].map(whole));
        let activation = number(activation);
        launch!(
            self,
            self.kernels.tangent.tiles(rows, outputs, 1),
            &x,
            &tx,
            &w,
            &v,
            &c,
            &y,
            &ty,
            &r,
            &i,
            &o,
            &activation
        )
    }

    fn backward(
        &mut self,
        d: Floats,
        parameters: Floats,
        layer: Layer,
        x: Floats,
        before: Activation,
        dx: Floats,
        rows: usize,
    ) -> Outcome<()> {
        let Layer { at, inputs, outputs, .. } = layer;
        let (d, w, x, dx) = (self.at(d, 0), self.at(parameters, at), self.at(x, 0), self.at(dx, 0));
        let ([r, i, o], before) = ([rows, inputs, outputs].map(whole), number(before));
        launch!(self, self.kernels.backward.tiles(rows, inputs, 1), &d, &w, &x, &dx, &r, &i, &o, &before)
    }

    fn weight_gradient(
        &mut self,
        x: Floats,
        d: Floats,
        layer: Layer,
        parts: Floats,
        gradient: Floats,
        rows: usize,
    ) -> Outcome<()> {
        let Layer { at, inputs, outputs, .. } = layer;
        let (x, d, parts, total) = (self.at(x, 0), self.at(d, 0), self.at(parts, 0), self.at(gradient, at));
        let (count, [r, i, o, chunk]) = (rows.div_ceil(CHUNK), [rows, inputs, outputs, CHUNK].map(whole));
        let summed: Outcome<()> =
            launch!(self, self.kernels.weights.tiles(inputs, outputs, count), &x, &d, &parts, &r, &i, &o, &chunk);
        summed?;
        let [count, len] = [count, layer.len()].map(whole);
        launch!(self, add_parts, threads(layer.len(), 256), &parts, &total, &count, &len)
    }

    fn squares(&mut self, of: Floats, parts: Doubles, len: usize) -> Outcome<()> {
        let (of, parts, [n, chunk]) = (self.at(of, 0), self.double_at(parts), [len, CHUNK].map(whole));
        launch!(self, squares, threads(len.div_ceil(CHUNK) * ROWS, ROWS), &of, &parts, &n, &chunk)
    }

    fn add_doubles(&mut self, parts: Doubles, total: Doubles, count: usize, len: usize) -> Outcome<()> {
        let (parts, total, [count, n]) = (self.double_at(parts), self.double_at(total), [count, len].map(whole));
        launch!(self, add_double_parts, threads(len, 32), &parts, &total, &count, &n)
    }

    fn gather(&mut self, from: Floats, index: Indices, to: Floats, rows: usize, width: usize) -> Outcome<()> {
        let (from, index, to) = (self.at(from, 0), self.index_at(index), self.at(to, 0));
        let [r, w] = [rows, width].map(whole);
        launch!(self, gather, threads(rows * width, 256), &from, &index, &to, &r, &w)
    }

    fn adam(
        &mut self,
        p: Floats,
        m: Floats,
        v: Floats,
        g: Floats,
        len: usize,
        [step, root, epsilon]: [f32; 3],
    ) -> Outcome<()> {
        let ([p, m, v, g], n) = ([p, m, v, g].map(|floats| self.at(floats, 0)), whole(len));
        launch!(self, adam, threads(len, 256), &p, &m, &v, &g, &n, &step, &root, &epsilon)
    }

    fn policy_rows(&mut self, p: &PolicyRows) -> Outcome<()> {
        let behaviour = Behaviour {
            outputs: self.at(p.old_outputs, 0),
            actions: self.at(p.actions, 0),
            log_probs: self.at(p.log_probs, 0),
            advantages: self.at(p.advantages, 0),
            old_log_std: self.at(p.old_log_std, 0),
            log_std: self.at(p.log_std, 0),
            heads: self.index_at(p.heads),
            all: whole(p.all),
            n: whole(p.n),
            width: whole(p.width),
            discrete: i32::from(p.discrete),
            entropy: p.entropy,
        };
        let args = PolicyArgs {
            behaviour,
            outputs: self.at(p.outputs, 0),
            index: p.index.map_or(0, |index| self.index_at(index)),
            d: p.d.map_or(0, |d| self.at(d, 0)),
            parts: self.double_at(p.parts),
            rows: whole(p.rows),
            share: p.share,
            loss: p.loss,
        };
        launch!(self, policy_rows, threads(p.rows, ROWS), &args)
    }

    fn fisher_rows(
        &mut self,
        outputs: Floats,
        tangents: Floats,
        log_std: Floats,
        heads: Indices,
        d: Floats,
        rows: usize,
        (n, width, discrete): (usize, usize, bool),
        share: f32,
    ) -> Outcome<()> {
        let [outputs, tangents, log_std, d] = [outputs, tangents, log_std, d].map(|floats| self.at(floats, 0));
        let (heads, [r, n, w], discrete) = (self.index_at(heads), [rows, n, width].map(whole), i32::from(discrete));
        let config = threads(rows, ROWS);
        launch!(self, fisher_rows, config, &outputs, &tangents, &log_std, &heads, &d, &r, &n, &w, &discrete, &share)
    }

    fn value_rows(&mut self, p: &ValueRows) -> Outcome<()> {
        let (values, targets, d) = (self.at(p.values, 0), self.at(p.targets, 0), self.at(p.d, 0));
        let (index, parts) = (p.index.map_or(0, |index| self.index_at(index)), self.double_at(p.parts));
        let (r, config) = (whole(p.rows), threads(p.rows, ROWS));
        launch!(self, value_rows, config, &values, &targets, &index, &d, &parts, &r, &p.mean, &p.unit, &p.share)
    }

    fn norm(
        &mut self,
        x: Floats,
        parameters: Floats,
        layer: Layer,
        y: Floats,
        moments: Floats,
        rows: usize,
    ) -> Outcome<()> {
        let (x, gain, bias) = (self.at(x, 0), self.at(parameters, layer.at), self.at(parameters, layer.bias()));
        let (y, moments, [r, c]) = (self.at(y, 0), self.at(moments, 0), [rows, layer.outputs].map(whole));
        launch!(self, norm_forward, threads(rows * 32, 256), &x, &gain, &bias, &y, &moments, &r, &c)
    }

    fn norm_gradient(
        &mut self,
        x: Floats,
        moments: Floats,
        d: Floats,
        layer: Layer,
        parts: Floats,
        gradient: Floats,
        rows: usize,
    ) -> Outcome<()> {
        let [x, moments, d, parts] = [x, moments, d, parts].map(|floats| self.at(floats, 0));
        let (total, count) = (self.at(gradient, layer.at), rows.div_ceil(CHUNK));
        let [r, c, chunk] = [rows, layer.outputs, CHUNK].map(whole);
        let grid_dim = (layer.outputs.div_ceil(32) as u32, count as u32, 1);
        let config = LaunchConfig { grid_dim, block_dim: (512, 1, 1), shared_mem_bytes: 0 };
        let summed: Outcome<()> = launch!(self, norm_weights, config, &x, &moments, &d, &parts, &r, &c, &chunk);
        summed?;
        let [count, len] = [count, layer.len()].map(whole);
        launch!(self, add_parts, threads(layer.len(), 256), &parts, &total, &count, &len)
    }

    fn norm_backward(
        &mut self,
        x: Floats,
        moments: Floats,
        parameters: Floats,
        layer: Layer,
        before: Activation,
        d: Floats,
        rows: usize,
    ) -> Outcome<()> {
        let (x, moments, gain) = (self.at(x, 0), self.at(moments, 0), self.at(parameters, layer.at));
        let (d, [r, c], before) = (self.at(d, 0), [rows, layer.outputs].map(whole), number(before));
        launch!(self, norm_backward, threads(rows * 32, 256), &x, &moments, &gain, &d, &r, &c, &before)
    }

    fn gru_forward(&mut self, gru: &Gru) -> Outcome<()> {
        let args = self.gru_args(gru);
        launch!(self, of_gru(&self.kernels.gru_forward, gru, 256), &args)
    }

    fn gru_backward(&mut self, gru: &Gru) -> Outcome<()> {
        let args = self.gru_args(gru);
        launch!(self, of_gru(&self.kernels.gru_backward, gru, 1024), &args)
    }
}

impl Machine for Cuda {
    fn allocate(&mut self, bytes: usize) -> Outcome<Address> {
        self.context.bind_to_thread().map_err(told)?;
        // SAFETY: the room is kept until the device is dropped, and zeroed on the stream on which it is used.
        let address = unsafe { result::malloc_sync(bytes.max(16)) }.map_err(told)?;
        self.allocated.push(address);
        // SAFETY: it was just made, of that size.
        unsafe { result::memset_d8_async(address, 0, bytes.max(16), self.stream.cu_stream()) }.map_err(told)?;
        Ok(address)
    }

    fn write(&mut self, to: Address, bytes: &[u8]) -> Outcome<()> {
        self.send(to, bytes).map_err(told)
    }

    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Outcome<()> {
        self.fetch(from, bytes).map_err(told)
    }

    fn shared(&self) -> usize {
        let most = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        self.context.attribute(most).map_or(0, |bytes| bytes as usize)
    }

    fn kernel(&mut self, name: &str, shared: u32) -> Outcome<Kernel> {
        self.context.bind_to_thread().map_err(told)?;
        let c_name = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: the module is loaded as long as `fused` lives.
        let function = unsafe { result::module::get_function(self.fused.module, c_name) }.map_err(told)?;
        let mut asked = self.fused.shared.lock().expect("nothing panics with it");
        let largest = asked.entry(name.to_string()).or_default();
        *largest = shared.max(*largest);
        let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function was just found.
        unsafe { result::function::set_function_attribute(function, most, *largest as i32) }
            .map_err(|_| format!("this GPU has too little shared memory for the kernel {name}"))?;
        drop(asked);
        self.found.push((function, shared));
        Ok(Kernel(self.found.len() - 1))
    }

    fn launch(&mut self, kernel: Kernel, grid: [u32; 3], threads: u32, arguments: &mut [*mut c_void]) -> Outcome<()> {
        self.context.bind_to_thread().map_err(told)?;
        let ((function, shared), [x, y, z]) = (self.found[kernel.0], grid);
        let stream = self.stream.cu_stream();
        // SAFETY: `fused.rs` gives each kernel the arguments that it has in `fused.cu`, in layout and order, with addresses of
        // this device's room.
        unsafe { result::launch_kernel(function, (x, y, z), (threads, 1, 1), shared, stream, arguments) }.map_err(told)
    }

    fn mailbox(&mut self) -> Outcome<Mailbox> {
        self.context.bind_to_thread().map_err(told)?;
        const DEVICE_MAP: u32 = 2;
        // SAFETY: the room is aligned and kept until the program ends: the host may look into it at any time.
        let place = unsafe { result::malloc_host(size_of::<[AtomicI32; 2]>(), DEVICE_MAP) }.map_err(told)?;
        // SAFETY: it was just made, of that size; all bits are valid for its numbers, which only atomics touch here.
        let numbers = unsafe { &*place.cast::<[AtomicI32; 2]>() };
        Ok(Mailbox { address: place as u64, numbers })
    }

    fn trouble(&mut self) -> Outcome<()> {
        self.context.bind_to_thread().map_err(told)?;
        // SAFETY: the stream is the device's own.
        let state = unsafe { sys::cuStreamQuery(self.stream.cu_stream()) };
        match state {
            sys::CUresult::CUDA_SUCCESS | sys::CUresult::CUDA_ERROR_NOT_READY => Ok(()),
            failed => Err(told(DriverError(failed))),
        }
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // A device that failed cannot give anything back, and need not.
        if self.context.bind_to_thread().is_err() || self.stream.synchronize().is_err() {
            return;
        }
        for address in self.allocated.drain(..) {
            // SAFETY: it was made by `allocate`, and nothing runs that could use it.
            let _ = unsafe { result::free_sync(address) };
        }
    }
}

/// What a device reaches by itself, each at its fastest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    /// 10^9 bytes a second of a copy within its memory, those read and those written.
    pub copy_gb_s: f64,
    /// 10^9 bytes a second from pinned memory of the host.
    pub upload_gb_s: f64,
    /// 10^12 operations a second in single precision.
    pub fp32_tflops: Option<f64>,
    /// 10^12 operations a second of the tensor cores, products of half precision summed in single.
    pub fp16_tensor_tflops: Option<f64>,
}

/// Bytes that are copied within a device's memory and those that are sent to it.
const COPIED: usize = 1 << 30;
const UPLOADED: usize = 1 << 26;
/// How often something is measured, and how often it is done in each measurement.
const ROUNDS: usize = 5;
const REPEATS: usize = 20;

impl Cuda {
    /// Measures what the device reaches.
    pub fn peaks(&self) -> Outcome<Peaks> {
        self.context.bind_to_thread().map_err(told)?;
        Ok(Peaks {
            copy_gb_s: self.copy_gb_s().map_err(told)?,
            upload_gb_s: self.upload_gb_s().map_err(told)?,
            // Operations of a thread and round: 16 chains of two; of a warp's 32 threads: 8 products of 16 x 16 by 16 x 8.
            fp32_tflops: Some(self.tflops("peak_fp32", 32.0)?),
            fp16_tensor_tflops: Some(self.tflops("peak_fp16", 8.0 * 2.0 * 2048.0 / 32.0)?),
        })
    }

    /// The rate of a kernel of `peak.cu` of which a thread makes so many operations a round.
    fn tflops(&self, name: &str, operations: f64) -> Outcome<f64> {
        const THREADS: u32 = 256;
        const ROUNDS_OF_KERNEL: i32 = 1 << 14;
        let module = self.context.load_module(Ptx::from_binary(PEAK.to_vec())).map_err(told)?;
        let kernel = module.load_function(name).map_err(told)?;
        let count = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let blocks = 8 * self.context.attribute(count).map_err(told)? as u32;
        let out = self.stream.alloc_zeros::<f32>((blocks * THREADS) as usize).map_err(told)?;
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
        let seconds = self.fastest(&mut || {
            let mut launch = self.stream.launch_builder(&kernel);
            launch.arg(&out).arg(&ROUNDS_OF_KERNEL);
            // SAFETY: these are the kernel's arguments, and there is room for a number of every thread.
            unsafe { launch.launch(config) }.map(drop)
        });
        let rounds = f64::from(blocks * THREADS) * f64::from(ROUNDS_OF_KERNEL);
        Ok(rounds * operations / seconds.map_err(told)? / 1e12)
    }

    fn copy_gb_s(&self) -> Result<f64, DriverError> {
        let from = self.stream.alloc_zeros::<u8>(COPIED)?;
        let mut to = self.stream.alloc_zeros::<u8>(COPIED)?;
        let seconds = self.fastest(&mut || self.stream.memcpy_dtod(&from, &mut to))?;
        Ok(2.0 * COPIED as f64 / seconds / 1e9)
    }

    fn upload_gb_s(&self) -> Result<f64, DriverError> {
        // SAFETY: every byte is written before any is read.
        let mut from = unsafe { self.context.alloc_pinned::<u8>(UPLOADED)? };
        from.as_mut_slice()?.fill(1);
        let mut to = self.stream.alloc_zeros::<u8>(UPLOADED)?;
        let seconds = self.fastest(&mut || self.stream.memcpy_htod(&from, &mut to))?;
        Ok(UPLOADED as f64 / seconds / 1e9)
    }

    /// Seconds on the device that some work takes, in the fastest of several rounds.
    fn fastest(&self, work: &mut dyn FnMut() -> Result<(), DriverError>) -> Result<f64, DriverError> {
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let mut best = f64::INFINITY;
        work()?;
        for _ in 0..ROUNDS {
            let start = self.stream.record_event(timed)?;
            (0..REPEATS).try_for_each(|_| work())?;
            let end = self.stream.record_event(timed)?;
            best = best.min(f64::from(start.elapsed_ms(&end)?) / 1e3 / REPEATS as f64);
        }
        Ok(best)
    }
}
