//! Tensors on their way to a file and back.

use crate::normalize::Normalizer;
use crate::policy::Policy;
use p3o_nn::{Adam, Network};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// More steps than any optimiser makes: whole numbers up to here are exact in floating point, too.
pub(super) const MOST_STEPS: u64 = 1 << 53;

/// Tensors on their way to a file.
#[derive(Default)]
pub(super) struct Store(BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>);

impl Store {
    pub fn floats(&mut self, name: String, shape: Vec<usize>, values: &[f32]) {
        let mut bytes = vec![0; 4 * values.len()];
        bytes.as_chunks_mut::<4>().0.iter_mut().zip(values).for_each(|(to, x)| *to = x.to_le_bytes());
        self.0.insert(name, (Dtype::F32, shape, bytes));
    }

    fn doubles(&mut self, name: String, values: &[f64]) {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.0.insert(name, (Dtype::F64, vec![values.len()], bytes));
    }

    /// A normaliser: what other programs need of it in f32, what the next update needs in f64.
    pub fn normalizer(&mut self, name: &str, normalizer: &Normalizer) {
        let (shift, scale, clip) = normalizer.affine();
        for (part, values) in [("shift", shift), ("scale", scale), ("clip", &[clip])] {
            self.floats(format!("{name}.{part}"), vec![values.len()], values);
        }
        let (count, mean, squares) = normalizer.moments();
        for (part, values) in [("count", &[count][..]), ("mean", mean), ("squares", squares)] {
            self.doubles(format!("{name}.{part}"), values);
        }
    }

    pub fn bytes(&mut self, name: &str, bytes: Vec<u8>) {
        self.0.insert(name.to_string(), (Dtype::U8, vec![bytes.len()], bytes));
    }

    pub fn value(&mut self, name: &str, value: &impl Serialize) {
        self.bytes(name, postcard::to_stdvec(value).expect("plain data can be written to memory"));
    }

    pub fn net(&mut self, name: &str, net: &Network<f32>, adam: &Adam<f32>) {
        let (m, v, steps) = adam.state();
        for (part, flat) in [("", net.params()), (".adam_m", m), (".adam_v", v)] {
            for l in 0..net.depth() {
                let ((weights, bias), (rows, columns)) = (net.unpack(flat, l), net.shape(l));
                let layer = format!("{name}{part}.{}", net.name(l));
                self.floats(format!("{layer}.weight"), vec![rows, columns], &weights);
                self.floats(format!("{layer}.bias"), vec![bias.len()], &bias);
            }
        }
        self.value(&format!("{name}.adam_steps"), &steps);
    }

    pub fn views(&self) -> impl Iterator<Item = (&String, TensorView<'_>)> {
        self.0.iter().map(|(name, (dtype, shape, bytes))| {
            (name, TensorView::new(*dtype, shape.clone(), bytes).expect("shapes were taken from the data"))
        })
    }
}

/// What an optimiser keeps for some parameters.
pub(super) struct Moments {
    pub m: Vec<f32>,
    pub v: Vec<f32>,
    pub steps: u64,
}

/// A network with its optimiser.
pub(super) struct Net {
    pub parameters: Vec<f32>,
    pub moments: Moments,
}

/// Tensors on their way from a file. Numbers are finite where training needs them to be.
pub(super) struct Source<'a> {
    tensors: SafeTensors<'a>,
    /// Names that were asked for.
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Source<'a> {
    pub fn new(tensors: SafeTensors<'a>) -> Self {
        Source { tensors, read: RefCell::default() }
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'_>, String> {
        self.read.borrow_mut().insert(name.to_string());
        self.tensors.tensor(name).map_err(|_| format!("it has no `{name}`"))
    }

    /// Whether there is such a tensor, read or not.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    pub fn bytes(&self, name: &str) -> Result<Vec<u8>, String> {
        let tensor = self.tensor(name)?;
        match (tensor.dtype(), tensor.shape()) {
            (Dtype::U8, [_]) => Ok(tensor.data().to_vec()),
            _ => Err(format!("`{name}` is not a row of bytes")),
        }
    }

    pub fn value<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<T, String> {
        let bytes = self.bytes(name)?;
        match postcard::take_from_bytes(&bytes) {
            Ok((value, [])) => Ok(value),
            _ => Err(format!("`{name}` is damaged")),
        }
    }

    /// A number of steps.
    fn steps(&self, name: &str) -> Result<u64, String> {
        let steps = self.value(name)?;
        if steps > MOST_STEPS { Err(format!("`{name}` is {steps}, more than there can be")) } else { Ok(steps) }
    }

    pub fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let numbers: Vec<f32> = self.numbers(name, Dtype::F32, shape, f32::from_le_bytes)?;
        match numbers.iter().all(|x| x.is_finite()) {
            true => Ok(numbers),
            false => Err(format!("`{name}` holds a number that is not finite")),
        }
    }

    /// Numbers of any value.
    fn numbers<const N: usize, T>(
        &self,
        name: &str,
        dtype: Dtype,
        shape: &[usize],
        of_bytes: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, String> {
        let tensor = self.tensor(name)?;
        if tensor.dtype() != dtype || tensor.shape() != shape {
            return Err(format!("`{name}` has another shape than this run's network"));
        }
        Ok(tensor.data().as_chunks::<N>().0.iter().map(|bytes| of_bytes(*bytes)).collect())
    }

    /// A normaliser for observations like those of `fresh`.
    pub fn normalizer(&self, name: &str, fresh: &Normalizer) -> Result<Normalizer, String> {
        let at = |part: &str| format!("{name}.{part}");
        let shape = [fresh.dim()];
        let doubles = |part: &str, shape: &[usize]| self.numbers(&at(part), Dtype::F64, shape, f64::from_le_bytes);
        let used = (self.floats(&at("shift"), &shape)?, self.floats(&at("scale"), &shape)?);
        let moments = (doubles("count", &[1])?[0], doubles("mean", &shape)?, doubles("squares", &shape)?);
        let (clip, own) = (self.numbers(&at("clip"), Dtype::F32, &[1], f32::from_le_bytes)?[0], fresh.affine().2);
        match clip == own {
            true => Ok(Normalizer::of_parts(fresh.is_on(), moments, used)),
            false => Err(format!("`{}` is {clip}, not {own}", at("clip"))),
        }
    }

    /// All layers of a network, or of what its optimiser keeps for each parameter, in the network's own order.
    fn layers(&self, name: &str, net: &Network<f32>) -> Result<Vec<f32>, String> {
        let mut flat = vec![0.0; net.params().len()];
        for l in 0..net.depth() {
            let (rows, columns) = net.shape(l);
            let layer = format!("{name}.{}", net.name(l));
            let weights = self.floats(&format!("{layer}.weight"), &[rows, columns])?;
            let bias = self.floats(&format!("{layer}.bias"), &[columns])?;
            net.pack(&mut flat, l, &weights, &bias);
        }
        Ok(flat)
    }

    pub fn net(&self, name: &str, net: &Network<f32>) -> Result<Net, String> {
        let (m, v) = (self.layers(&format!("{name}.adam_m"), net)?, self.layers(&format!("{name}.adam_v"), net)?);
        let steps = self.steps(&format!("{name}.adam_steps"))?;
        let moments = Moments { m, v, steps }.checked(name)?;
        Ok(Net { parameters: self.layers(name, net)?, moments })
    }

    /// The optimiser of the log standard deviations.
    pub fn log_std_moments(&self, name: &str, n: usize) -> Result<Moments, String> {
        let m = self.floats(&format!("{name}.adam_m.log_std"), &[n])?;
        let v = self.floats(&format!("{name}.adam_v.log_std"), &[n])?;
        let steps = self.steps(&format!("{name}.log_std.adam_steps"))?;
        Moments { m, v, steps }.checked(name)
    }

    /// A policy's parameters, without its optimiser.
    pub fn policy(&self, name: &str, policy: &mut Policy) -> Result<(), String> {
        let parameters = self.layers(name, &policy.net)?;
        policy.log_std = self.floats(&format!("{name}.log_std"), &[policy.log_std.len()])?;
        policy.net.set_params(&parameters);
        Ok(())
    }

    /// That nothing is there that was not asked for.
    pub fn is_read(&self) -> Result<(), String> {
        let read = self.read.borrow();
        match self.tensors.names().into_iter().find(|name| !read.contains(*name)) {
            Some(name) => Err(format!("it holds `{name}`, which this run does not have")),
            None => Ok(()),
        }
    }
}

impl Moments {
    fn checked(self, name: &str) -> Result<Moments, String> {
        match self.v.iter().all(|v| *v >= 0.0) {
            true => Ok(self),
            false => Err(format!("the optimiser of `{name}` has a second moment below zero")),
        }
    }

    pub fn give(&self, adam: &mut Adam<f32>) {
        adam.set_state(&self.m, &self.v, self.steps);
    }
}
