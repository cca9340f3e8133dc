//! Feed-forward networks of one shape that see the same rows and learn on tensor cores: whole passes, as `kernels/fused.cu`
//! makes them. The structures with a fixed layout are those of that file, field by field.

use crate::device::{Loss, MOST_COSTS, Outcome, Precision};
use crate::machine::{Address, Kernel, Machine};
use bytemuck::{cast_slice, cast_slice_mut};
use p3o::engine::Rule;
use p3o_nn::adam::rates;
use p3o_nn::{Activation, Adam, Mlp};
use rayon::prelude::*;
use std::ffi::c_void;

/// Rows of the largest tile, and those whose gradients have one factor.
const LARGEST_TILE: usize = 128;
const BLOCK_ROWS: usize = 64;
/// Outputs after padding.
pub(crate) const OUTPUTS: usize = 16;
const THREADS: usize = 128;
const MOST_NETS: usize = 1 + MOST_COSTS;
/// Inputs after padding, at most: a tile of them must fit on a chip.
const MOST_INPUTS: usize = 256;

/// Which halves of a pass are made.
pub(crate) const FORWARD: i32 = 1;
pub(crate) const BACKWARD: i32 = 2;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Networks {
    pub parameters: Address,
    m: Address,
    v: Address,
    pub gradient: Address,
    images: Address,
    columns: Address,
    image: i64,
    count: i32,
    pub length: i32,
    inputs: i32,
    layers: i32,
    outputs: i32,
    activation: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inputs {
    rows: Address,
    low: i64,
    pub index: Address,
    pub stride: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    h: Address,
    d: Address,
    e: Address,
    scales: Address,
    biases: Address,
    outputs: Address,
    pub rows: i32,
    pub room: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawRule {
    kind: i32,
    balance: i32,
    barrier: f64,
    most_kl: f64,
    offsets: [f64; MOST_COSTS],
}

impl RawRule {
    pub fn of(rule: &Rule, most_kl: f64) -> RawRule {
        let plain = RawRule { most_kl, ..RawRule::default() };
        let beside = |given: &[f64]| {
            let mut offsets = [0.0; MOST_COSTS];
            offsets[..given.len()].copy_from_slice(given);
            offsets
        };
        match rule {
            Rule::Fixed => plain,
            Rule::Gates { offsets, balance } => {
                RawRule { kind: 1, balance: i32::from(*balance), offsets: beside(offsets), ..plain }
            }
            Rule::Barrier { offsets, t } => RawRule { kind: 2, barrier: *t, offsets: beside(offsets), ..plain },
        }
    }
}

/// The policy that collected the batch, as the kernels read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Behaviour {
    /// Its outputs.
    pub outputs: Address,
    /// What it did.
    pub actions: Address,
    /// With which logarithm of the probability.
    pub log_probs: Address,
    /// Of every signal, one after another.
    pub advantages: Address,
    /// Its logarithm of the standard deviation.
    pub old_log_std: Address,
    /// That of the policy at hand.
    pub log_std: Address,
    /// Logits of each discrete action.
    pub heads: Address,
    /// Rows of the batch.
    pub all: i32,
    /// Outputs of a row.
    pub n: i32,
    /// Numbers in an action.
    pub width: i32,
    /// Whether actions are discrete.
    pub discrete: i32,
    /// Factor of the entropy.
    pub entropy: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Actor {
    pub behaviour: Behaviour,
    pub loss: Loss,
    pub rule: RawRule,
    pub control: Address,
    pub told: Address,
    pub outputs: Address,
    pub parts: Address,
    pub slopes: Address,
    pub log: Address,
    pub recent: Address,
    pub number: i32,
    pub part: i32,
    pub of: i32,
    pub weight: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Critics {
    pub targets: Address,
    pub stride: i32,
    pub mean: [f32; MOST_NETS],
    pub unit: [f32; MOST_NETS],
    pub values: Address,
    pub errors: Address,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Side {
    pub actor: Actor,
    pub critics: Critics,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Pass {
    nets: Networks,
    x: Inputs,
    work: Work,
    phases: i32,
    critic: i32,
    side: Side,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Weights {
    nets: Networks,
    x: Inputs,
    work: Work,
    parts: Address,
    control: Address,
    number: i32,
    chunk: i32,
    share: f32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct AdamStep {
    nets: Networks,
    parts: Address,
    biases: Address,
    outputs: Address,
    slopes: Address,
    squares: Address,
    control: Address,
    log: Address,
    recent: Address,
    number: i32,
    chunks: i32,
    tiles: i32,
    room: i32,
    part: i32,
    of: i32,
    costs: i32,
    weight: f64,
    share: f32,
    epsilon: f32,
    steps: [f32; MOST_NETS],
    roots: [f32; MOST_NETS],
    mean: Address,
    recent_share: f32,
}

/// Where a step belongs in an actor's descent; see `Actor`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moment {
    pub control: Address,
    pub log: Address,
    pub recent: Address,
    pub slopes: Address,
    pub number: i32,
    pub part: i32,
    pub of: i32,
    pub costs: i32,
    pub weight: f64,
    /// Room for the moving average of the parameters, or 0, and the part of this step in it.
    pub mean: Address,
    pub recent_share: f32,
}

/// What the networks have in common.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    inputs: usize,
    hidden: Vec<usize>,
    outputs: usize,
    activation: Activation,
    /// Of a hidden layer, padded.
    width: usize,
    /// Of an input, padded.
    across: usize,
}

impl Shape {
    /// That of a network, unless it does not fit.
    pub fn of(net: &Mlp<f32>) -> Option<Shape> {
        let [inputs, hidden @ .., outputs] = net.sizes() else { return None };
        let widest = *hidden.iter().max()?;
        let width = [64, 128, 256].into_iter().find(|&width| widest <= width)?;
        let across = inputs.next_multiple_of(64);
        let fits = across <= MOST_INPUTS && *outputs <= OUTPUTS && hidden.len() <= 8;
        let (hidden, activation) = (hidden.to_vec(), net.activation());
        fits.then_some(Shape { inputs: *inputs, hidden, outputs: *outputs, activation, width, across })
    }

    /// Each layer's inputs and outputs: as they are, and padded.
    fn layers(&self) -> impl Iterator<Item = [(usize, usize); 2]> + '_ {
        let last = self.hidden.len();
        (0..=last).map(move |l| {
            let before = if l == 0 { (self.inputs, self.across) } else { (self.hidden[l - 1], self.width) };
            let after = if l == last { (self.outputs, OUTPUTS) } else { (self.hidden[l], self.width) };
            [before, after]
        })
    }

    /// Padded numbers of a network, with those of `log_std` behind.
    pub fn length(&self) -> usize {
        self.layers().map(|[before, after]| (before.1 + 1) * after.1).sum::<usize>() + OUTPUTS
    }

    /// Where `log_std` begins.
    pub fn tail(&self) -> usize {
        self.length() - OUTPUTS
    }

    /// Rows of a tile.
    pub fn tile(&self) -> usize {
        if self.width == 64 { 128 } else { 64 }
    }

    /// Threads of a block that takes a tile through.
    fn threads_of_net(&self) -> u32 {
        if self.width == 128 { 256 } else { 128 }
    }

    /// Blocks of 16 inputs in a stage of the weights' image.
    fn depth(&self) -> usize {
        256 / self.width
    }

    /// Bytes of shared memory of a block that takes a tile through, and of one that multiplies what it left.
    fn shared(&self, planes: usize) -> [usize; 2] {
        let (tile, across, stages) = (self.tile(), self.across.max(self.width), if self.width == 64 { 2 } else { 3 });
        let beside = if across > 64 { 0 } else { tile * OUTPUTS * 4 };
        let stage = self.depth() * self.width * 16 * planes * 2;
        let columns = if self.width == 64 { 64 } else { 128 };
        let of_weights = 4 * planes * 32 * (64 + 8 + columns + 8) * 2 + 128;
        [1024 + planes * tile * across * 2 + stages * stage + beside, of_weights]
    }

    /// Rows of a part of the gradient.
    fn chunk(&self) -> usize {
        if self.width == 64 { 512 } else { 1024 }
    }
}

/// See the module.
pub(crate) struct Fused {
    pub shape: Shape,
    raw: Networks,
    planes: usize,
    kernels: [Kernel; 3],
    columns: Kernel,
    split: Kernel,
    /// Of each network's optimiser.
    steps: Vec<u64>,
    epsilon: f32,
    squares: Address,
    /// Room for batches, once one has come.
    room: Option<Room>,
    /// What was read last of all networks.
    read: Vec<f32>,
}

/// Room for so many rows.
struct Room {
    work: Work,
    parts: Address,
    /// Rows as they come, and as two planes of halves.
    x: Rows,
}

/// Rows of inputs.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    plain: Address,
    planes: Address,
    room: usize,
}

/// What a pass looks at: the first `rows` of the batch, or rows beside it, or those that `index` names.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub rows: usize,
    pub beside: Option<Rows>,
    /// Where the rows' numbers are, and from one network's to the next's.
    pub index: (Address, usize),
}

/// Reads some numbers.
pub(crate) fn read<T: bytemuck::Pod>(machine: &mut dyn Machine, from: Address, len: usize) -> Outcome<Vec<T>> {
    let mut numbers = vec![T::zeroed(); len];
    machine.read(from, cast_slice_mut(&mut numbers))?;
    Ok(numbers)
}

/// Room that grows when more is asked for.
#[derive(Default)]
pub(crate) struct Growing {
    address: Address,
    bytes: usize,
}

impl Growing {
    /// Room for so many bytes; what was there may be gone.
    pub fn room(&mut self, machine: &mut dyn Machine, bytes: usize) -> Outcome<Address> {
        if self.bytes < bytes {
            (self.address, self.bytes) = (machine.allocate(bytes)?, bytes);
        }
        Ok(self.address)
    }

    /// Writes numbers.
    pub fn write<T: bytemuck::Pod>(&mut self, machine: &mut dyn Machine, numbers: &[T]) -> Outcome<Address> {
        let to = self.room(machine, size_of_val(numbers).max(16))?;
        machine.write(to, cast_slice(numbers))?;
        Ok(to)
    }

    /// Writes numbers one after another.
    pub fn write_all(&mut self, machine: &mut dyn Machine, all: &[Vec<f32>]) -> Outcome<Address> {
        let to = self.room(machine, all.iter().map(|numbers| 4 * numbers.len()).sum::<usize>().max(16))?;
        all.iter().try_fold(to, |at, numbers| {
            machine.write(at, cast_slice(numbers))?;
            Ok::<_, String>(at + 4 * numbers.len() as u64)
        })?;
        Ok(to)
    }
}

/// As the kernels count.
pub(crate) fn whole(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn argument<T>(value: &mut T) -> *mut c_void {
    std::ptr::from_mut(value).cast()
}

impl Fused {
    /// For so many networks of a shape; none if the machine's blocks have too little shared memory for it.
    pub fn new(machine: &mut dyn Machine, shape: Shape, count: usize, precision: Precision) -> Outcome<Option<Fused>> {
        let (name, planes) = match precision {
            Precision::Fp32 => ("fp32", 2),
            Precision::Tf32 => ("tf32", 1),
        };
        let [of_net, of_weights] = shape.shared(planes);
        if of_net.max(of_weights) > machine.shared() {
            return Ok(None);
        }
        let (length, width, layers) = (shape.length(), shape.width, shape.hidden.len());
        let block = width * 16 * planes;
        // Forward, the last layer both ways, backward.
        let blocks = shape.across / 16 + 2 * (layers - 1) * width / 16 + shape.depth().max(2);
        let mut kernel = |what: &str, shared: usize| machine.kernel(&format!("{what}_{width}_{name}"), shared as u32);
        let kernels = [kernel("net", of_net)?, kernel("weights", of_weights)?, kernel("adam", 1024)?];
        let (columns, split) = (machine.kernel("columns", 64)?, machine.kernel("split", 0)?);
        let mut numbers = |len: usize| machine.allocate(len * 4);
        let raw = Networks {
            parameters: numbers(count * length)?,
            m: numbers(count * length)?,
            v: numbers(count * length)?,
            gradient: numbers(count * length)?,
            columns: numbers(shape.across)?,
            images: numbers(count * blocks * block / 2)?,
            image: (blocks * block) as i64,
            count: whole(count),
            length: whole(length),
            inputs: whole(shape.across),
            layers: whole(layers),
            outputs: whole(shape.outputs),
            activation: match shape.activation {
                Activation::Tanh => 0,
                Activation::Relu => 1,
                Activation::Identity => 2,
            },
        };
        let squares = machine.allocate(count * Self::blocks(&shape) * 8)?;
        let steps = vec![0; count];
        let (room, read) = (None, Vec::new());
        Ok(Some(Fused { shape, raw, planes, kernels, columns, split, steps, epsilon: 0.0, squares, room, read }))
    }

    /// Blocks of a step of Adam: of four weights a thread, of eight biases each, of `log_std`.
    fn blocks(shape: &Shape) -> usize {
        let weights: usize = shape.layers().map(|[before, after]| before.1 * after.1).sum();
        (weights / 4).div_ceil(THREADS) + (shape.hidden.len() * shape.width + OUTPUTS) / 8 + 1
    }

    fn count(&self) -> usize {
        self.steps.len()
    }

    /// A host's numbers in the device's order; `tail` is `log_std`'s.
    fn padded(&self, net: &Mlp<f32>, flat: &[f32], tail: &[f32]) -> Vec<f32> {
        let mut all = vec![0.0; self.shape.length()];
        let mut rest = &mut all[..];
        for (l, [before, after]) in self.shape.layers().enumerate() {
            let (weights, behind) = rest.split_at_mut(before.1 * after.1);
            let (bias, behind) = behind.split_at_mut(after.1);
            net.unpack_into(flat, l, after.1, weights, &mut bias[..after.0]);
            rest = behind;
        }
        rest[..tail.len()].copy_from_slice(tail);
        all
    }

    /// The reverse, but for the tail; `flat` is zero where it has padding.
    fn unpad(&self, net: &Mlp<f32>, mut all: &[f32], flat: &mut [f32]) {
        for (l, [before, after]) in self.shape.layers().enumerate() {
            let (weights, behind) = all.split_at(before.1 * after.1);
            let (bias, behind) = behind.split_at(after.1);
            net.pack_from(flat, l, after.1, weights, &bias[..after.0]);
            all = behind;
        }
    }

    fn unpadded(&self, net: &Mlp<f32>, all: &[f32]) -> Vec<f32> {
        let mut flat = vec![0.0; net.params().len()];
        self.unpad(net, all, &mut flat);
        flat
    }

    /// Takes over a host's network; the tails are those of `log_std`, its moments first.
    pub fn load(
        &mut self,
        machine: &mut dyn Machine,
        network: usize,
        net: &Mlp<f32>,
        adam: &Adam<f32>,
        [tail, tail_m, tail_v]: [&[f32]; 3],
    ) -> Outcome<()> {
        let (m, v, steps) = adam.state();
        (self.steps[network], self.epsilon) = (steps, adam.epsilon as f32);
        let own = (network * self.shape.length() * 4) as u64;
        let all = [(self.raw.parameters, net.params(), tail), (self.raw.m, m, tail_m), (self.raw.v, v, tail_v)];
        all.into_iter()
            .try_for_each(|(to, flat, tail)| machine.write(to + own, cast_slice(&self.padded(net, flat, tail))))
    }

    /// Takes over the last layer of a host's network, of which nothing else has changed.
    pub fn load_head(&self, machine: &mut dyn Machine, network: usize, net: &Mlp<f32>) -> Outcome<()> {
        let (head, room) = (self.shape.hidden.len(), self.shape.width * OUTPUTS);
        let mut layer = vec![0.0; room + OUTPUTS];
        let (weights, bias) = layer.split_at_mut(room);
        net.unpack_into(net.params(), head, OUTPUTS, weights, &mut bias[..self.shape.outputs]);
        let at = network * self.shape.length() + self.shape.tail() - room - OUTPUTS;
        machine.write(self.raw.parameters + (at * 4) as u64, cast_slice(&layer))
    }

    /// Gives all parameters back; returns the first network's tail.
    pub fn store(&mut self, machine: &mut dyn Machine, nets: &mut [&mut Mlp<f32>]) -> Outcome<&[f32]> {
        let mut read = std::mem::take(&mut self.read);
        read.resize(self.count() * self.shape.length(), 0.0);
        machine.read(self.raw.parameters, cast_slice_mut(&mut read))?;
        let each = nets.par_iter_mut().zip(read.par_chunks(self.shape.length()));
        each.for_each(|(net, all)| net.change_params(|net, params| self.unpad(net, all, params)));
        self.read = read;
        Ok(&self.read[self.shape.tail()..self.shape.length()])
    }

    /// Gives an optimiser back; returns the tails of its moments.
    pub fn store_optimiser(
        &self,
        machine: &mut dyn Machine,
        network: usize,
        net: &Mlp<f32>,
        adam: &mut Adam<f32>,
    ) -> Outcome<[Vec<f32>; 2]> {
        let mut take = |from: Address| self.numbers(machine, from, network);
        let [m, v] = [take(self.raw.m)?, take(self.raw.v)?];
        adam.set_state(&self.unpadded(net, &m), &self.unpadded(net, &v), self.steps[network]);
        Ok([m, v].map(|all| all[self.shape.tail()..].to_vec()))
    }

    fn numbers(&self, machine: &mut dyn Machine, from: Address, network: usize) -> Outcome<Vec<f32>> {
        let length = self.shape.length();
        read(machine, from + (network * length * 4) as u64, length)
    }

    /// The gradient of the last step, in the host's order, and that of `log_std`.
    pub fn gradient(&self, machine: &mut dyn Machine, network: usize, net: &Mlp<f32>) -> Outcome<(Vec<f32>, Vec<f32>)> {
        let all = self.numbers(machine, self.raw.gradient, network)?;
        Ok((self.unpadded(net, &all), all[self.shape.tail()..].to_vec()))
    }

    /// Where `log_std` is.
    pub fn log_std(&self) -> Address {
        self.raw.parameters + (self.shape.tail() * 4) as u64
    }

    /// Room for so many rows of inputs.
    pub fn rows(&self, machine: &mut dyn Machine, rows: usize) -> Outcome<Rows> {
        let room = rows.next_multiple_of(LARGEST_TILE).max(LARGEST_TILE);
        let planes = machine.allocate(self.planes * room * self.shape.across * 2)?;
        Ok(Rows { plain: machine.allocate(rows.max(1) * self.shape.inputs * 4)?, planes, room })
    }

    /// Makes room for so many rows.
    pub fn reserve(&mut self, machine: &mut dyn Machine, rows: usize) -> Outcome<()> {
        let room = rows.next_multiple_of(LARGEST_TILE);
        if self.room.as_ref().is_some_and(|have| have.work.room as usize >= room) {
            return Ok(());
        }
        let (count, layers) = (self.count(), self.shape.hidden.len());
        let planes = count * layers * self.planes * room * self.shape.width * 2;
        let work = Work {
            h: machine.allocate(planes)?,
            d: machine.allocate(planes)?,
            e: machine.allocate(count * self.planes * room * OUTPUTS * 2)?,
            scales: machine.allocate(count * room / BLOCK_ROWS * 4)?,
            biases: machine.allocate(count * layers * room / BLOCK_ROWS * 512 * 4)?,
            outputs: machine.allocate(count * room / BLOCK_ROWS * OUTPUTS * 4)?,
            rows: 0,
            room: whole(room),
        };
        let parts = machine.allocate(room.div_ceil(self.shape.chunk()) * count * self.shape.length() * 4)?;
        let x = self.rows(machine, rows)?;
        self.room = Some(Room { work, parts, x });
        Ok(())
    }

    /// Rows that there is room for.
    pub fn room_rows(&self) -> Outcome<usize> {
        Ok(self.room()?.work.room as usize)
    }

    fn room(&self) -> Outcome<&Room> {
        self.room.as_ref().ok_or_else(|| "there is no batch".into())
    }

    /// Takes in the rows of a batch: with their columns' factors the weights' images are made anew.
    pub fn take(&mut self, machine: &mut dyn Machine, rows: &[f32]) -> Outcome<()> {
        let (x, inputs) = (self.room()?.x, self.shape.inputs);
        machine.write(x.plain, cast_slice(rows))?;
        let (mut from, mut to) = (x.plain, self.raw.columns);
        let [mut count, mut inputs] = [rows.len() / inputs, inputs].map(whole);
        let mut arguments = [argument(&mut from), argument(&mut to), argument(&mut count), argument(&mut inputs)];
        machine.launch(self.columns, [self.shape.across as u32, 1, 1], THREADS as u32, &mut arguments)?;
        self.divide(machine, x, count as usize)?;
        self.images(machine)
    }

    /// Takes in other rows beside the batch, with the same factors.
    pub fn take_beside(&self, machine: &mut dyn Machine, x: Rows, rows: &[f32]) -> Outcome<()> {
        machine.write(x.plain, cast_slice(rows))?;
        self.divide(machine, x, rows.len() / self.shape.inputs)
    }

    /// Rows into planes of halves.
    fn divide(&self, machine: &mut dyn Machine, x: Rows, rows: usize) -> Outcome<()> {
        let (mut from, mut columns, mut to) = (x.plain, self.raw.columns, x.planes);
        let mut distance = self.distance(x);
        let sizes = [rows, x.room, self.shape.inputs, self.shape.across];
        let [mut rows, mut room, mut inputs, mut across] = sizes.map(whole);
        let mut arguments = [
            argument(&mut from),
            argument(&mut columns),
            argument(&mut to),
            argument(&mut distance),
            argument(&mut rows),
            argument(&mut room),
            argument(&mut inputs),
            argument(&mut across),
        ];
        let pieces = x.room * self.shape.across / 8;
        machine.launch(self.split, [pieces.div_ceil(THREADS) as u32, 1, 1], THREADS as u32, &mut arguments)
    }

    /// From one plane of rows to the other.
    fn distance(&self, x: Rows) -> i64 {
        if self.planes == 2 { (x.room * self.shape.across) as i64 } else { 0 }
    }

    /// Makes the weights' images from the parameters.
    pub fn images(&self, machine: &mut dyn Machine) -> Outcome<()> {
        let step = AdamStep { nets: self.raw, ..AdamStep::default() };
        self.launch_adam(machine, step)
    }

    fn launch_adam(&self, machine: &mut dyn Machine, mut step: AdamStep) -> Outcome<()> {
        let grid = [Self::blocks(&self.shape) as u32, self.count() as u32, 1];
        machine.launch(self.kernels[2], grid, THREADS as u32, &mut [argument(&mut step)])
    }

    /// Forward, backward or both.
    pub fn pass(
        &self,
        machine: &mut dyn Machine,
        Seen { rows, beside, index }: Seen,
        phases: i32,
        side: Side,
        critic: bool,
    ) -> Outcome<()> {
        let room = self.room()?;
        let work = Work { rows: whole(rows), ..room.work };
        let x = self.inputs(beside.unwrap_or(room.x), index);
        let mut pass = Pass { nets: self.raw, x, work, phases, critic: i32::from(critic), side };
        let grid = [rows.div_ceil(self.shape.tile()) as u32, self.count() as u32, 1];
        machine.launch(self.kernels[0], grid, self.shape.threads_of_net(), &mut [argument(&mut pass)])
    }

    fn inputs(&self, x: Rows, (index, stride): (Address, usize)) -> Inputs {
        Inputs { rows: x.planes, low: self.distance(x), index, stride: whole(stride) }
    }

    /// The gradient of the rows that have just gone forward and backward, and a step of Adam along it.
    pub fn step(
        &mut self,
        machine: &mut dyn Machine,
        rows: usize,
        index: (Address, usize),
        learning_rate: f64,
        moment: Moment,
    ) -> Outcome<()> {
        let (room, chunk, count) = (self.room()?, self.shape.chunk(), self.count());
        let chunks = rows.div_ceil(chunk);
        let share = (1.0 / rows as f64) as f32;
        let mut weights = Weights {
            nets: self.raw,
            x: self.inputs(room.x, index),
            work: Work { rows: whole(rows), ..room.work },
            parts: room.parts,
            control: moment.control,
            number: moment.number,
            chunk: whole(chunk),
            share,
        };
        let (width, layers) = (self.shape.width, self.shape.hidden.len());
        // Pieces of 64 inputs by 128 outputs, or by all.
        let columns = width.div_ceil(128);
        let pieces = (self.shape.across + (layers - 1) * width) / 64 * columns + width / 64;
        let grid = [pieces as u32, chunks as u32, count as u32];
        machine.launch(self.kernels[1], grid, THREADS as u32, &mut [argument(&mut weights)])?;
        let mut step = AdamStep {
            nets: self.raw,
            parts: room.parts,
            biases: room.work.biases,
            outputs: room.work.outputs,
            slopes: moment.slopes,
            squares: self.squares,
            control: moment.control,
            log: moment.log,
            recent: moment.recent,
            number: moment.number,
            chunks: whole(chunks),
            tiles: whole(rows.div_ceil(self.shape.tile())),
            room: room.work.room,
            part: moment.part,
            of: moment.of,
            costs: moment.costs,
            weight: moment.weight,
            share,
            epsilon: self.epsilon,
            mean: moment.mean,
            recent_share: moment.recent_share,
            ..AdamStep::default()
        };
        for (network, steps) in self.steps.iter_mut().enumerate() {
            *steps += 1;
            let (rate, root) = rates(learning_rate, *steps);
            (step.steps[network], step.roots[network]) = (rate as f32, root as f32);
        }
        self.launch_adam(machine, step)
    }

    /// Takes over the first network's parameters from elsewhere on the device.
    pub fn adopt(&self, machine: &mut dyn Machine, from: Address) -> Outcome<()> {
        let all = self.numbers(machine, from, 0)?;
        machine.write(self.raw.parameters, cast_slice(&all))
    }

    /// Takes back the count of steps that were asked for and not made.
    pub fn forget_steps(&mut self, steps: u64) {
        self.steps.iter_mut().for_each(|made| *made -= steps);
    }

    /// The norm of a network's last gradient.
    pub fn norm(&self, machine: &mut dyn Machine, network: usize) -> Outcome<f64> {
        let blocks = Self::blocks(&self.shape);
        let squares: Vec<f64> = read(machine, self.squares + (network * blocks * 8) as u64, blocks)?;
        Ok(squares.iter().sum::<f64>().sqrt())
    }
}
