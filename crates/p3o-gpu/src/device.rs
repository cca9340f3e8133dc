//! What a device does: it keeps numbers and runs kernels on them. `kernels/p3o.cu` and `gru.cu` say what each kernel computes.

use crate::machine::Machine;
use p3o::engine::{EXTRA_TERMS, RowLoss};
use p3o_nn::Activation;

/// Constraints of a loss, at most.
pub const MOST_COSTS: usize = 16;
/// Rows that are summed apart in a layer's gradient.
pub const CHUNK: usize = 512;
/// Rows of a block that looks at rows one by one; their sums are added apart.
pub const ROWS: usize = 128;

/// Some numbers on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floats(pub usize);

/// Some numbers of double precision on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubles(pub usize);

/// Some whole numbers on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indices(pub usize);

/// A layer's numbers within the parameters of a network: weights `[inputs, outputs]` and then the bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Where they begin.
    pub at: usize,
    /// Its inputs.
    pub inputs: usize,
    /// Its outputs.
    pub outputs: usize,
    /// What follows the sums.
    pub activation: Activation,
}

impl Layer {
    /// Where its bias begins.
    pub fn bias(&self) -> usize {
        self.at + self.inputs * self.outputs
    }

    /// How many numbers it has.
    pub fn len(&self) -> usize {
        (self.inputs + 1) * self.outputs
    }

    /// Whether it has none, which no layer has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A [`RowLoss`] in numbers, laid out as the kernels read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// 0 clipped, 1 proximal, 2 surrogate.
    pub kind: i32,
    /// Whether the cost surrogates are clipped.
    pub clip_costs: i32,
    /// Constraints.
    pub costs: i32,
    /// See [`p3o::algo::p3o::Clipped`].
    pub epsilon: f32,
    /// Factor of the reward's surrogate.
    pub reward: f32,
    /// Factor of all.
    pub scale: f32,
    /// See [`p3o::algo::focops::Proximal`].
    pub lambda: f32,
    /// See [`p3o::algo::focops::Proximal`].
    pub delta: f32,
    /// Factors of the costs' surrogates, or multipliers.
    pub factors: [f32; MOST_COSTS],
}

impl Loss {
    /// From the algorithms' form of it.
    pub fn of(loss: &RowLoss) -> Loss {
        let factors = |given: &[f32]| {
            let mut factors = [0.0; MOST_COSTS];
            factors[..given.len()].copy_from_slice(given);
            factors
        };
        let plain = Loss {
            kind: 2,
            clip_costs: 0,
            costs: 0,
            epsilon: 0.0,
            reward: 1.0,
            scale: 1.0,
            lambda: 1.0,
            delta: 0.0,
            factors: [0.0; MOST_COSTS],
        };
        match loss {
            RowLoss::Clipped(l) => Loss {
                kind: 0,
                clip_costs: i32::from(l.clip_costs),
                costs: l.costs.len() as i32,
                epsilon: l.epsilon,
                reward: l.reward,
                scale: l.scale,
                factors: factors(&l.costs),
                ..plain
            },
            RowLoss::Proximal(l) => Loss {
                kind: 1,
                costs: l.multipliers.len() as i32,
                lambda: l.lambda,
                delta: l.delta,
                factors: factors(&l.multipliers),
                ..plain
            },
            RowLoss::Surrogate(l) => {
                Loss { costs: l.costs.len() as i32, reward: l.reward, factors: factors(&l.costs), ..plain }
            }
        }
    }

    /// Terms that a row adds to.
    pub fn terms(&self) -> usize {
        1 + self.costs as usize + EXTRA_TERMS
    }
}

/// What a policy's outputs are held against, row by row.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRows {
    /// Its outputs.
    pub outputs: Floats,
    /// Those of the policy that collected the batch.
    pub old_outputs: Floats,
    /// The actions taken.
    pub actions: Floats,
    /// Their log-probabilities then.
    pub log_probs: Floats,
    /// Of every signal, one after another.
    pub advantages: Floats,
    /// The policy's logarithm of the standard deviation.
    pub log_std: Floats,
    /// That of the policy that collected the batch.
    pub old_log_std: Floats,
    /// Logits of each discrete action.
    pub heads: Indices,
    /// The rows of a mini-batch.
    pub index: Option<Indices>,
    /// Where the gradient with respect to the outputs goes; none: only measure.
    pub d: Option<Floats>,
    /// Sums of each block of [`ROWS`]: the KL, the terms, the slopes of `log_std`.
    pub parts: Doubles,
    /// Rows to look at.
    pub rows: usize,
    /// Rows of the batch.
    pub all: usize,
    /// Outputs in a row.
    pub n: usize,
    /// Numbers in an action.
    pub width: usize,
    /// Whether actions are discrete.
    pub discrete: bool,
    /// Factor of the entropy.
    pub entropy: f32,
    /// One divided by the rows.
    pub share: f32,
    /// What is minimised.
    pub loss: Loss,
}

impl PolicyRows {
    /// Sums of a block.
    pub fn sums(&self) -> usize {
        1 + self.loss.terms() + if self.discrete || self.d.is_none() { 0 } else { self.n }
    }
}

/// A critic's values and what they are to be, row by row.
#[derive(Clone, Copy, Debug)]
pub struct ValueRows {
    /// What the network says.
    pub values: Floats,
    /// What it is to say, in the world's unit.
    pub targets: Floats,
    /// The rows of a mini-batch.
    pub index: Option<Indices>,
    /// Where the gradient goes.
    pub d: Floats,
    /// The sum of squares of each block of [`ROWS`].
    pub parts: Doubles,
    /// Rows to look at.
    pub rows: usize,
    /// Mean of the network's unit.
    pub mean: f32,
    /// One divided by the deviation of the network's unit.
    pub unit: f32,
    /// Factor of an error in the gradient.
    pub share: f32,
}

/// What the products of a pass are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// As accurate as single precision.
    #[default]
    Fp32,
    /// Operands of eleven bits, sums in single precision: what TF32 is.
    Tf32,
}

impl Precision {
    /// A device's name, with the precision where it is not the usual one.
    pub fn beside(self, name: String) -> String {
        match self {
            Precision::Fp32 => name,
            Precision::Tf32 => format!("{name}, tf32"),
        }
    }
}

/// Sequences of rows on their way through a GRU, forward and then back. Where there are three numbers for a unit they are those
/// of the gates r, z and n, each gate's units side by side.
#[derive(Clone, Copy, Debug)]
pub struct Gru {
    /// Those of the network.
    pub parameters: Floats,
    /// From the state to the gates: as many inputs as there are units, three times as many outputs.
    pub layer: Layer,
    /// How many sequences there are; the rows of each follow one another.
    pub sequences: usize,
    /// Rows of a sequence.
    pub steps: usize,
    /// The state before each sequence.
    pub states: Floats,
    /// For each row not zero where it starts from a state of zero; none: no row does.
    pub starts: Option<Floats>,
    /// The input's part of the gates' sums, bias included, three numbers for a unit; on the way back the gradient replaces it.
    pub of_input: Floats,
    /// The state before each row.
    pub entering: Floats,
    /// The state after it.
    pub after: Floats,
    /// Four numbers for a unit: r, z, n, and the state's part of the sum of n.
    pub gates: Floats,
    /// The gradient of `after` by the same row's outputs; the way back uses it up.
    pub d: Floats,
    /// Where the gradient of the state's part of the gates' sums goes, three numbers for a unit.
    pub d_of_state: Floats,
}

/// What went wrong, in a sentence.
pub type Outcome<T> = Result<T, String>;

/// Keeps numbers and runs kernels on them, one after another.
pub trait Device: Send {
    /// Its name.
    fn name(&self) -> String;

    /// The machine behind it, where whole passes can be made on tensor cores.
    fn machine(&mut self) -> Option<&mut dyn Machine> {
        None
    }

    /// Room for numbers, at first zero.
    fn floats(&mut self, len: usize) -> Outcome<Floats>;
    /// The same for double precision.
    fn doubles(&mut self, len: usize) -> Outcome<Doubles>;
    /// The same for whole numbers.
    fn indices(&mut self, len: usize) -> Outcome<Indices>;
    /// Writes the first numbers.
    fn write(&mut self, to: Floats, at: usize, values: &[f32]) -> Outcome<()>;
    /// Writes the first numbers.
    fn write_indices(&mut self, to: Indices, values: &[u32]) -> Outcome<()>;
    /// Reads the first numbers.
    fn read(&mut self, from: Floats, values: &mut [f32]) -> Outcome<()>;
    /// Reads the first numbers.
    fn read_doubles(&mut self, from: Doubles, values: &mut [f64]) -> Outcome<()>;

    /// y = activation(x w + b)
    fn forward(&mut self, x: Floats, parameters: Floats, layer: Layer, y: Floats, rows: usize) -> Outcome<()>;
    /// The tangent of y along a direction of the parameters.
    #[allow(clippy::too_many_arguments)] // a layer, its direction, and both at a point
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
    ) -> Outcome<()>;
    /// dx = activation'(x) (d w^T), where `before` is the activation that x came from.
    #[allow(clippy::too_many_arguments)] // a layer and what goes through it
    fn backward(
        &mut self,
        d: Floats,
        parameters: Floats,
        layer: Layer,
        x: Floats,
        before: Activation,
        dx: Floats,
        rows: usize,
    ) -> Outcome<()>;
    /// The gradient of a layer's numbers, x^T d and the sums of d, in parts of [`CHUNK`] rows that are added in their order.
    #[allow(clippy::too_many_arguments)] // a layer and what goes through it
    fn weight_gradient(
        &mut self,
        x: Floats,
        d: Floats,
        layer: Layer,
        parts: Floats,
        gradient: Floats,
        rows: usize,
    ) -> Outcome<()>;
    /// The sums of squares of each [`CHUNK`] of the first numbers.
    fn squares(&mut self, of: Floats, parts: Doubles, len: usize) -> Outcome<()>;
    /// Parts of some numbers, added in their order.
    fn add_doubles(&mut self, parts: Doubles, total: Doubles, count: usize, len: usize) -> Outcome<()>;
    /// Rows by their numbers.
    fn gather(&mut self, from: Floats, index: Indices, to: Floats, rows: usize, width: usize) -> Outcome<()>;
    /// A step of Adam on the first numbers.
    #[allow(clippy::too_many_arguments)] // an optimiser's state and its rates
    fn adam(&mut self, p: Floats, m: Floats, v: Floats, g: Floats, len: usize, rates: [f32; 3]) -> Outcome<()>;
    /// Ratio, KL, weights and the gradient of the outputs.
    fn policy_rows(&mut self, rows: &PolicyRows) -> Outcome<()>;
    /// The Fisher matrix of the outputs times their tangents, times `share`.
    #[allow(clippy::too_many_arguments)] // a policy's outputs and tangents
    fn fisher_rows(
        &mut self,
        outputs: Floats,
        tangents: Floats,
        log_std: Floats,
        heads: Indices,
        d: Floats,
        rows: usize,
        shape: (usize, usize, bool),
        share: f32,
    ) -> Outcome<()>;
    /// A critic's errors.
    fn value_rows(&mut self, rows: &ValueRows) -> Outcome<()>;

    /// Layer normalisation: y = gain (x - mean) / sqrt(variance + 1e-5) + bias in every row. The layer's weights are the gain; two
    /// numbers of every row are kept in `moments`.
    fn norm(
        &mut self,
        x: Floats,
        parameters: Floats,
        layer: Layer,
        y: Floats,
        moments: Floats,
        rows: usize,
    ) -> Outcome<()>;
    /// The gradient of gain and bias, in parts of [`CHUNK`] rows that are added in their order.
    #[allow(clippy::too_many_arguments)] // a layer and what goes through it
    fn norm_gradient(
        &mut self,
        x: Floats,
        moments: Floats,
        d: Floats,
        layer: Layer,
        parts: Floats,
        gradient: Floats,
        rows: usize,
    ) -> Outcome<()>;
    /// Replaces d loss / dy by d loss / dx times activation'(x), where `before` is the activation that x came from.
    #[allow(clippy::too_many_arguments)] // a layer and what goes through it
    fn norm_backward(
        &mut self,
        x: Floats,
        moments: Floats,
        parameters: Floats,
        layer: Layer,
        before: Activation,
        d: Floats,
        rows: usize,
    ) -> Outcome<()>;
    /// A GRU's states and gates, step by step.
    fn gru_forward(&mut self, gru: &Gru) -> Outcome<()>;
    /// The gradients of its gates' sums, step by step from the last one; the sequences have just gone forward.
    fn gru_backward(&mut self, gru: &Gru) -> Outcome<()>;
}
