//! A feed-forward network with its optimiser on a device.

use crate::device::{CHUNK, Device, Doubles, Floats, Layer, Outcome};
use p3o_nn::adam::{BETA1, BETA2, bias_correction};
use p3o_nn::{Activation, Adam, Network};

/// See the module.
pub(crate) struct Net {
    layers: Vec<Layer>,
    pub parameters: Floats,
    m: Floats,
    v: Floats,
    pub gradient: Floats,
    direction: Floats,
    len: usize,
    steps: u64,
    epsilon: f64,
    work: Option<Work>,
}

/// Room for so many rows on their way through.
struct Work {
    rows: usize,
    values: Vec<Floats>,
    /// Made when they are first asked for.
    tangents: Vec<Floats>,
    deltas: Vec<Floats>,
    parts: Floats,
    squares: Doubles,
}

impl Net {
    /// Like a host's network; none if it is recurrent.
    pub fn new(device: &mut dyn Device, net: &Network<f32>) -> Outcome<Net> {
        let Network::FeedForward(mlp) = net else {
            return Err("recurrent networks (net.gru) learn on the CPU alone".into());
        };
        let mut at = 0;
        let layers: Vec<Layer> = mlp
            .sizes()
            .windows(2)
            .enumerate()
            .map(|(l, size)| {
                let last = l + 2 == mlp.sizes().len();
                let activation = if last { Activation::Identity } else { mlp.activation() };
                let layer = Layer { at, inputs: size[0], outputs: size[1], activation };
                at += layer.len();
                layer
            })
            .collect();
        let mut floats = || device.floats(at);
        let (parameters, m, v, gradient, direction) = (floats()?, floats()?, floats()?, floats()?, floats()?);
        Ok(Net { layers, parameters, m, v, gradient, direction, len: at, steps: 0, epsilon: 0.0, work: None })
    }

    /// Takes over a host's network.
    pub fn load(&mut self, device: &mut dyn Device, net: &Network<f32>, adam: &Adam<f32>) -> Outcome<()> {
        let (m, v, steps) = adam.state();
        (self.steps, self.epsilon) = (steps, adam.epsilon);
        for (to, flat) in [(self.parameters, net.params()), (self.m, m), (self.v, v)] {
            device.write(to, 0, &self.unpacked(net, flat))?;
        }
        Ok(())
    }

    /// Gives it back.
    pub fn store(&self, device: &mut dyn Device, net: &mut Network<f32>, adam: &mut Adam<f32>) -> Outcome<()> {
        let [m, v] = [self.packed(device, net, self.m)?, self.packed(device, net, self.v)?];
        let parameters = self.packed(device, net, self.parameters)?;
        net.set_params(&parameters);
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
        if self.work.as_ref().is_some_and(|work| work.rows >= rows) {
            return Ok(());
        }
        let (values, deltas) = (self.for_each_output(device, rows)?, self.for_each_output(device, rows)?);
        let tangents = Vec::new();
        let largest = self.layers.iter().map(Layer::len).max().unwrap_or(0);
        let parts = device.floats(rows.div_ceil(CHUNK) * largest)?;
        let squares = device.doubles(self.len.div_ceil(CHUNK))?;
        self.work = Some(Work { rows, values, tangents, deltas, parts, squares });
        Ok(())
    }

    /// Room for every layer's outputs.
    fn for_each_output(&self, device: &mut dyn Device, rows: usize) -> Outcome<Vec<Floats>> {
        self.layers.iter().map(|layer| device.floats(rows * layer.outputs)).collect()
    }

    /// Numbers in a row.
    pub fn inputs(&self) -> usize {
        self.layers[0].inputs
    }

    fn work(&self) -> &Work {
        self.work.as_ref().expect("room was made")
    }

    /// The outputs for these rows.
    pub fn forward(&self, device: &mut dyn Device, x: Floats, rows: usize) -> Outcome<Floats> {
        let work = self.work();
        let inputs = std::iter::once(x).chain(work.values.iter().copied());
        for ((layer, x), y) in self.layers.iter().zip(inputs).zip(&work.values) {
            device.forward(x, self.parameters, *layer, *y, rows)?;
        }
        Ok(*work.values.last().expect("a network has layers"))
    }

    /// Where the gradient with respect to the outputs is expected.
    pub fn d_outputs(&self) -> Floats {
        *self.work().deltas.last().expect("a network has layers")
    }

    /// The gradient from that with respect to the outputs; the rows have just gone forward.
    pub fn backward(&self, device: &mut dyn Device, x: Floats, rows: usize) -> Outcome<()> {
        let Work { values, deltas, parts, .. } = self.work();
        for (l, layer) in self.layers.iter().enumerate().rev() {
            let input = if l == 0 { x } else { values[l - 1] };
            device.weight_gradient(input, deltas[l], *layer, *parts, self.gradient, rows)?;
            if l > 0 {
                let before = self.layers[l - 1].activation;
                device.backward(deltas[l], self.parameters, *layer, input, before, deltas[l - 1], rows)?;
            }
        }
        Ok(())
    }

    /// Sums the gradient's squares into one number.
    pub fn square(&self, device: &mut dyn Device, to: Doubles) -> Outcome<()> {
        let squares = self.work().squares;
        device.squares(self.gradient, squares, self.len)?;
        device.add_doubles(squares, to, self.len.div_ceil(CHUNK), 1)
    }

    /// The tangents of the outputs along a direction of the parameters, in the host's order; the rows have just gone forward.
    pub fn tangents(
        &mut self,
        device: &mut dyn Device,
        net: &Network<f32>,
        direction: &[f32],
        x: Floats,
        rows: usize,
    ) -> Outcome<Floats> {
        device.write(self.direction, 0, &self.unpacked(net, direction))?;
        if self.work().tangents.is_empty() {
            let tangents = self.for_each_output(device, self.work().rows)?;
            self.work.as_mut().expect("room was made").tangents = tangents;
        }
        let Work { values, tangents, .. } = self.work();
        for (l, layer) in self.layers.iter().enumerate() {
            let (input, tx) = if l == 0 { (x, None) } else { (values[l - 1], Some(tangents[l - 1])) };
            device.forward_tangent(input, tx, self.parameters, self.direction, *layer, values[l], tangents[l], rows)?;
        }
        Ok(*tangents.last().expect("a network has layers"))
    }

    /// A step of Adam along the gradient.
    pub fn step(&mut self, device: &mut dyn Device, learning_rate: f64) -> Outcome<()> {
        self.steps += 1;
        let [first, second] = [BETA1, BETA2].map(|beta| bias_correction(beta, self.steps));
        let rates = [(learning_rate / first) as f32, (1.0 / second.sqrt()) as f32, self.epsilon as f32];
        device.adam(self.parameters, self.m, self.v, self.gradient, self.len, rates)
    }
}
