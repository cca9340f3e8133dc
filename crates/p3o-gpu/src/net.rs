//! A network with its optimiser on a device.

use crate::device::{CHUNK, Device, Doubles, Floats, Layer, Outcome};
use crate::recurrent::{Recurrent, Sequences};
use p3o_nn::adam::rates;
use p3o_nn::{Activation, Adam, Network};

/// See the module.
pub(crate) struct Net {
    layers: Vec<Layer>,
    pub parameters: Floats,
    m: Floats,
    v: Floats,
    pub gradient: Floats,
    direction: Floats,
    squares: Doubles,
    inputs: usize,
    len: usize,
    steps: u64,
    epsilon: f64,
    work: Option<Work>,
    /// The way through a recurrent network; none: feed-forward.
    recurrent: Option<Recurrent>,
}

/// Some rows for a network.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub x: Floats,
    pub count: usize,
    /// For a recurrent network.
    pub sequences: Option<Sequences>,
}

/// Room for so many rows on their way through a feed-forward network.
struct Work {
    rows: usize,
    values: Vec<Floats>,
    /// Made when they are first asked for.
    tangents: Vec<Floats>,
    deltas: Vec<Floats>,
    parts: Floats,
}

impl Net {
    /// Like a host's network.
    pub fn new(device: &mut dyn Device, net: &Network<f32>) -> Outcome<Net> {
        // The last layers are linear: the head, and before it a GRU's two and its normalisation.
        let (activation, linear) = match net {
            Network::FeedForward(net) => (net.activation(), 1),
            Network::Recurrent(net) => (net.activation(), 4),
        };
        let mut at = 0;
        let layers: Vec<Layer> = (0..net.depth())
            .map(|l| {
                let (inputs, outputs) = net.shape(l);
                let activation = if l + linear < net.depth() { activation } else { Activation::Identity };
                let layer = Layer { at, inputs, outputs, activation };
                at += layer.len();
                layer
            })
            .collect();
        let mut floats = || device.floats(at);
        let (parameters, m, v, gradient, direction) = (floats()?, floats()?, floats()?, floats()?, floats()?);
        Ok(Net {
            recurrent: (net.units() > 0).then(|| Recurrent::new(&layers)),
            layers,
            parameters,
            m,
            v,
            gradient,
            direction,
            squares: device.doubles(at.div_ceil(CHUNK))?,
            inputs: net.inputs(),
            len: at,
            steps: 0,
            epsilon: 0.0,
            work: None,
        })
    }

    /// Takes over a host's network.
    pub fn load(&mut self, device: &mut dyn Device, net: &Network<f32>, adam: &Adam<f32>) -> Outcome<()> {
        let (m, v, steps) = adam.state();
        (self.steps, self.epsilon) = (steps, adam.epsilon);
        self.load_parameters(device, net)?;
        [(self.m, m), (self.v, v)].into_iter().try_for_each(|(to, flat)| device.write(to, 0, &self.unpacked(net, flat)))
    }

    /// Takes over its parameters alone.
    pub fn load_parameters(&self, device: &mut dyn Device, net: &Network<f32>) -> Outcome<()> {
        device.write(self.parameters, 0, &self.unpacked(net, net.params()))
    }

    /// Takes over its last layer, where nothing else has changed.
    pub fn load_head(&self, device: &mut dyn Device, net: &Network<f32>) -> Outcome<()> {
        let ((weights, bias), last) = (net.layer(net.depth() - 1), self.layers[self.layers.len() - 1]);
        device.write(self.parameters, last.at, &[weights, bias].concat())
    }

    /// Gives the parameters back.
    pub fn store(&self, device: &mut dyn Device, net: &mut Network<f32>) -> Outcome<()> {
        let parameters = self.packed(device, net, self.parameters)?;
        net.set_params(&parameters);
        Ok(())
    }

    /// Gives the optimiser back.
    pub fn store_optimiser(&self, device: &mut dyn Device, net: &Network<f32>, adam: &mut Adam<f32>) -> Outcome<()> {
        let [m, v] = [self.packed(device, net, self.m)?, self.packed(device, net, self.v)?];
        adam.set_state(&m, &v, self.steps);
        Ok(())
    }

    /// Numbers for each parameter from the host's order into the device's.
    fn unpacked(&self, net: &Network<f32>, flat: &[f32]) -> Vec<f32> {
        (0..self.layers.len())
            .flat_map(|l| {
                let (weights, bias) = net.unpack(flat, l);
                [weights, bias].concat()
            })
            .collect()
    }

    /// The same back, read from the device.
    pub fn packed(&self, device: &mut dyn Device, net: &Network<f32>, from: Floats) -> Outcome<Vec<f32>> {
        let mut own = vec![0.0; self.len];
        device.read(from, &mut own)?;
        let mut flat = vec![0.0; net.params().len()];
        for (l, layer) in self.layers.iter().enumerate() {
            net.pack(&mut flat, l, &own[layer.at..layer.bias()], &own[layer.bias()..layer.at + layer.len()]);
        }
        Ok(flat)
    }

    /// Makes room for so many rows.
    pub fn reserve(&mut self, device: &mut dyn Device, rows: usize) -> Outcome<()> {
        if let Some(recurrent) = &mut self.recurrent {
            return recurrent.reserve(device, rows);
        }
        if self.work.as_ref().is_some_and(|work| work.rows >= rows) {
            return Ok(());
        }
        let (values, deltas) = (self.for_each_output(device, rows)?, self.for_each_output(device, rows)?);
        let tangents = Vec::new();
        let largest = self.layers.iter().map(Layer::len).max().unwrap_or(0);
        let parts = device.floats(rows.div_ceil(CHUNK) * largest)?;
        self.work = Some(Work { rows, values, tangents, deltas, parts });
        Ok(())
    }

    /// Room for every layer's outputs.
    fn for_each_output(&self, device: &mut dyn Device, rows: usize) -> Outcome<Vec<Floats>> {
        self.layers.iter().map(|layer| device.floats(rows * layer.outputs)).collect()
    }

    /// Numbers in a row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The states before and after each of the rows that have just gone forward through a recurrent network.
    pub fn states(&self) -> Outcome<[Floats; 2]> {
        Ok(self.recurrent.as_ref().ok_or("a feed-forward network has no states")?.states())
    }

    fn work(&self) -> &Work {
        self.work.as_ref().expect("room was made")
    }

    /// The outputs for these rows.
    pub fn forward(&self, device: &mut dyn Device, rows: Rows) -> Outcome<Floats> {
        if let Some(recurrent) = &self.recurrent {
            return recurrent.forward(device, self.parameters, rows);
        }
        let work = self.work();
        let inputs = std::iter::once(rows.x).chain(work.values.iter().copied());
        for ((layer, x), y) in self.layers.iter().zip(inputs).zip(&work.values) {
            device.forward(x, self.parameters, *layer, *y, rows.count)?;
        }
        Ok(*work.values.last().expect("a network has layers"))
    }

    /// Where the gradient with respect to the outputs is expected.
    pub fn d_outputs(&self) -> Floats {
        if let Some(recurrent) = &self.recurrent {
            return recurrent.d_outputs();
        }
        *self.work().deltas.last().expect("a network has layers")
    }

    /// The gradient from that with respect to the outputs; the rows have just gone forward.
    pub fn backward(&self, device: &mut dyn Device, rows: Rows) -> Outcome<()> {
        if let Some(recurrent) = &self.recurrent {
            return recurrent.backward(device, self.parameters, self.gradient, rows);
        }
        let (Rows { x, count, .. }, Work { values, deltas, parts, .. }) = (rows, self.work());
        for (l, layer) in self.layers.iter().enumerate().rev() {
            let input = if l == 0 { x } else { values[l - 1] };
            device.weight_gradient(input, deltas[l], *layer, *parts, self.gradient, count)?;
            if l > 0 {
                let before = self.layers[l - 1].activation;
                device.backward(deltas[l], self.parameters, *layer, input, before, deltas[l - 1], count)?;
            }
        }
        Ok(())
    }

    /// Sums the gradient's squares into one number.
    pub fn square(&self, device: &mut dyn Device, to: Doubles) -> Outcome<()> {
        device.squares(self.gradient, self.squares, self.len)?;
        device.add_doubles(self.squares, to, self.len.div_ceil(CHUNK), 1)
    }

    /// The tangents of the outputs along a direction of the parameters, in the host's order; the rows have just gone forward.
    pub fn tangents(
        &mut self,
        device: &mut dyn Device,
        net: &Network<f32>,
        direction: &[f32],
        Rows { x, count, .. }: Rows,
    ) -> Outcome<Floats> {
        if self.recurrent.is_some() {
            return Err("second-order steps are refused for recurrent networks".into());
        }
        device.write(self.direction, 0, &self.unpacked(net, direction))?;
        if self.work().tangents.is_empty() {
            let tangents = self.for_each_output(device, self.work().rows)?;
            self.work.as_mut().expect("room was made").tangents = tangents;
        }
        let Work { values, tangents, .. } = self.work();
        for (l, layer) in self.layers.iter().enumerate() {
            let (input, tx) = if l == 0 { (x, None) } else { (values[l - 1], Some(tangents[l - 1])) };
            device.forward_tangent(
                input,
                tx,
                self.parameters,
                self.direction,
                *layer,
                values[l],
                tangents[l],
                count,
            )?;
        }
        Ok(*tangents.last().expect("a network has layers"))
    }

    /// A step of Adam along the gradient.
    pub fn step(&mut self, device: &mut dyn Device, learning_rate: f64) -> Outcome<()> {
        self.steps += 1;
        let (step, root) = rates(learning_rate, self.steps);
        let rates = [step as f32, root as f32, self.epsilon as f32];
        device.adam(self.parameters, self.m, self.v, self.gradient, self.len, rates)
    }
}
