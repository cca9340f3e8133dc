//! A CUDA device. The driver is loaded when the first one is opened; the kernels are embedded.
#![allow(unsafe_code)] // launches of kernels, each with its reason

use crate::device::{CHUNK, Device, Doubles, Floats, Indices, Layer, Loss, Outcome, PolicyRows, ROWS, ValueRows};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError, LaunchConfig,
    PushKernelArg, sys,
};
use cudarc::nvrtc::Ptx;
use p3o_nn::Activation;
use std::sync::Arc;

/// Made from `p3o.cu` by `tools/kernels`.
const KERNELS: &str = include_str!("../kernels/p3o.ptx");
/// Rows of a block of a product.
const TILE: usize = 128;
/// Columns of a block, and those up to which the narrow form of a product is taken.
const WIDE: usize = 128;
const NARROW: usize = 16;

/// See the module. Its work is done in the order in which it is asked for.
pub struct Cuda {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
    kernels: Kernels,
    floats: Vec<CudaSlice<f32>>,
    doubles: Vec<CudaSlice<f64>>,
    indices: Vec<CudaSlice<u32>>,
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
}

/// A product in its wide and its narrow form.
struct Product {
    wide: CudaFunction,
    narrow: CudaFunction,
}

/// The argument of the kernel `policy_rows`, field by field.
#[repr(C)]
#[derive(Clone, Copy)]
struct PolicyArgs {
    outputs: u64,
    old_outputs: u64,
    actions: u64,
    log_probs: u64,
    advantages: u64,
    log_std: u64,
    old_log_std: u64,
    heads: u64,
    index: u64,
    d: u64,
    parts: u64,
    rows: i32,
    all: i32,
    outputs_per_row: i32,
    width: i32,
    discrete: i32,
    entropy: f32,
    share: f32,
    loss: Loss,
}

// SAFETY: plain numbers in C layout, without padding that the kernel would read.
unsafe impl DeviceRepr for PolicyArgs {}

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
        let module = context.load_module(Ptx::from_src(KERNELS)).map_err(|error| {
            format!("the GPU's driver does not take these kernels ({error}): it must be of version 580 or newer")
        })?;
        Cuda::with(context, module)
    }

    /// Another queue of work on the same device.
    pub fn again(&self) -> Outcome<Cuda> {
        Cuda::with(Arc::clone(&self.context), Arc::clone(&self.module))
    }

    fn with(context: Arc<CudaContext>, module: Arc<CudaModule>) -> Outcome<Cuda> {
        let stream = context.new_stream().map_err(told)?;
        let kernel = |name: &str| module.load_function(name).map_err(told);
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
        };
        let (floats, doubles, indices) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Cuda { context, stream, module, kernels, floats, doubles, indices })
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
}

fn whole(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
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
        // SAFETY: the arguments are those of the kernel in `p3o.cu`, in number, order and type; every address is that of a live
        // buffer of this device, and the engine asks for no more rows than it has made room for.
        unsafe { launch.launch(config) }.map_err(told)?;
        Ok(())
    }};
}

impl Device for Cuda {
    fn name(&self) -> String {
        self.context.name().unwrap_or_else(|_| "a CUDA device".into())
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
        if values.is_empty() {
            return Ok(());
        }
        self.context.bind_to_thread().map_err(told)?;
        let mut place = self.floats[to.0].slice_mut(at..at + values.len());
        self.stream.memcpy_htod(values, &mut place).map_err(told)
    }

    fn write_indices(&mut self, to: Indices, values: &[u32]) -> Outcome<()> {
        if values.is_empty() {
            return Ok(());
        }
        self.context.bind_to_thread().map_err(told)?;
        let mut place = self.indices[to.0].slice_mut(0..values.len());
        self.stream.memcpy_htod(values, &mut place).map_err(told)
    }

    fn read(&mut self, from: Floats, values: &mut [f32]) -> Outcome<()> {
        if values.is_empty() {
            return Ok(());
        }
        self.context.bind_to_thread().map_err(told)?;
        self.stream.memcpy_dtoh(&self.floats[from.0].slice(0..values.len()), values).map_err(told)?;
        self.stream.synchronize().map_err(told)
    }

    fn read_doubles(&mut self, from: Doubles, values: &mut [f64]) -> Outcome<()> {
        self.context.bind_to_thread().map_err(told)?;
        self.stream.memcpy_dtoh(&self.doubles[from.0].slice(0..values.len()), values).map_err(told)?;
        self.stream.synchronize().map_err(told)
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
        let args = PolicyArgs {
            outputs: self.at(p.outputs, 0),
            old_outputs: self.at(p.old_outputs, 0),
            actions: self.at(p.actions, 0),
            log_probs: self.at(p.log_probs, 0),
            advantages: self.at(p.advantages, 0),
            log_std: self.at(p.log_std, 0),
            old_log_std: self.at(p.old_log_std, 0),
            heads: self.index_at(p.heads),
            index: p.index.map_or(0, |index| self.index_at(index)),
            d: p.d.map_or(0, |d| self.at(d, 0)),
            parts: self.double_at(p.parts),
            rows: whole(p.rows),
            all: whole(p.all),
            outputs_per_row: whole(p.n),
            width: whole(p.width),
            discrete: i32::from(p.discrete),
            entropy: p.entropy,
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
}
