//! A GRU's way through sequences and layer normalisation on a device, of sizes for all their kernels, against the formulas in double
//! precision.

use p3o_gpu::device::{CHUNK, Device, Floats, Gru, Layer};
use p3o_gpu::host::Host;
use p3o_nn::Activation;

/// Numbers between -1 and 1 that look random.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / (1u32 << 23) as f32 - 1.0
    }

    fn some(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.next()).collect()
    }
}

fn put(device: &mut dyn Device, values: &[f32]) -> Floats {
    let to = device.floats(values.len()).unwrap();
    device.write(to, 0, values).unwrap();
    to
}

/// Rounding grows with the length of sums and with the number of steps: a few hundred here, each of 6e-8 at most, of mixed sign.
fn near(what: &str, device: &mut dyn Device, found: Floats, expected: &[f64]) {
    let mut values = vec![0.0; expected.len()];
    device.read(found, &mut values).unwrap();
    let largest = expected.iter().fold(0f64, |m, x| m.max(x.abs()));
    let apart = values.iter().zip(expected).fold(0f64, |m, (a, b)| m.max((f64::from(*a) - b).abs()));
    assert!(apart <= 1e-5 * largest, "{what}: apart by {apart}, numbers up to {largest}");
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// What goes into a GRU, and what the formulas make of it.
struct Case {
    sequences: usize,
    steps: usize,
    units: usize,
    parameters: Vec<f32>,
    states: Vec<f32>,
    starts: Vec<f32>,
    of_input: Vec<f32>,
    d: Vec<f32>,
}

/// A row's r, z, n and the state's part of the sum of n, unit by unit, and the state that entered it.
type Kept = (Vec<(f64, f64, f64, f64)>, Vec<f64>);

#[derive(Default)]
struct Expected {
    entering: Vec<f64>,
    after: Vec<f64>,
    d_of_input: Vec<f64>,
    d_of_state: Vec<f64>,
}

impl Case {
    fn new(sequences: usize, steps: usize, units: usize) -> Case {
        let (mut numbers, rows) = (Numbers(units as u32), sequences * steps);
        let scale = 1.0 / (units as f32).sqrt();
        Case {
            sequences,
            steps,
            units,
            parameters: numbers.some((units + 1) * 3 * units).iter().map(|w| scale * w).collect(),
            states: numbers.some(sequences * units),
            starts: (0..rows).map(|_| f32::from(numbers.next() > 0.6)).collect(),
            of_input: numbers.some(rows * 3 * units),
            d: numbers.some(rows * units),
        }
    }

    fn w(&self, from: usize, column: usize) -> f64 {
        f64::from(self.parameters[from * 3 * self.units + column])
    }

    /// The state's part of a gate's sum.
    fn of_state(&self, state: &[f64], column: usize) -> f64 {
        (0..self.units).map(|k| state[k] * self.w(k, column)).sum::<f64>() + self.w(self.units, column)
    }

    fn expected(&self) -> Expected {
        let (n, mut all) = (self.units, Expected::default());
        for s in 0..self.sequences {
            let mut state: Vec<f64> = self.states[s * n..][..n].iter().map(|x| f64::from(*x)).collect();
            let mut kept = Vec::new();
            for row in s * self.steps..(s + 1) * self.steps {
                if self.starts[row] != 0.0 {
                    state.fill(0.0);
                }
                let input = |column: usize| f64::from(self.of_input[row * 3 * n + column]);
                let gates = |unit: usize| {
                    let [r, z] = [unit, n + unit].map(|c| sigmoid(input(c) + self.of_state(&state, c)));
                    let hn = self.of_state(&state, 2 * n + unit);
                    (r, z, (input(2 * n + unit) + r * hn).tanh(), hn)
                };
                let gates: Vec<_> = (0..n).map(gates).collect();
                let after = gates.iter().zip(&state).map(|((_, z, new, _), h)| (1.0 - z) * new + z * h).collect();
                all.entering.extend(&state);
                kept.push((gates, std::mem::replace(&mut state, after)));
                all.after.extend(&state);
            }
            self.back(s, &kept, &mut all);
        }
        all
    }

    fn back(&self, s: usize, kept: &[Kept], all: &mut Expected) {
        let (n, first) = (self.units, s * self.steps);
        all.d_of_input.resize((first + self.steps) * 3 * n, 0.0);
        all.d_of_state.resize((first + self.steps) * 3 * n, 0.0);
        let mut carry = vec![0.0; n];
        for (row, (gates, entering)) in (first..first + self.steps).zip(kept).rev() {
            let (input, state) = (&mut all.d_of_input[row * 3 * n..], &mut all.d_of_state[row * 3 * n..]);
            let mut next = vec![0.0; n];
            for (unit, (r, z, new, hn)) in gates.iter().enumerate() {
                let d = f64::from(self.d[row * n + unit]) + carry[unit];
                let dn = d * (1.0 - z) * (1.0 - new * new);
                let (dr, dz) = (dn * hn * r * (1.0 - r), d * (entering[unit] - new) * z * (1.0 - z));
                (input[unit], input[n + unit], input[2 * n + unit]) = (dr, dz, dn);
                (state[unit], state[n + unit], state[2 * n + unit]) = (dr, dz, dn * r);
                next[unit] = d * z;
            }
            for (unit, next) in next.iter_mut().enumerate() {
                *next += (0..3 * n).map(|column| state[column] * self.w(unit, column)).sum::<f64>();
            }
            carry = if self.starts[row] == 0.0 { next } else { vec![0.0; n] };
        }
    }
}

/// Fewer and more sequences than go together, units for both kinds of kernels and at their border, one step and many.
const CASES: [(usize, usize, usize); 7] =
    [(1, 1, 2), (6, 5, 8), (9, 25, 64), (3, 4, 65), (5, 6, 63), (2, 3, 300), (4, 7, 130)];

fn check_gru(device: &mut dyn Device) {
    for (sequences, steps, units) in CASES {
        let (case, rows) = (Case::new(sequences, steps, units), sequences * steps);
        let mut room = |width: usize| device.floats(rows * width).unwrap();
        let (entering, after, gates, d_of_state) = (room(units), room(units), room(4 * units), room(3 * units));
        let gru = Gru {
            parameters: put(device, &case.parameters),
            layer: Layer { at: 0, inputs: units, outputs: 3 * units, activation: Activation::Identity },
            sequences,
            steps,
            states: put(device, &case.states),
            starts: Some(put(device, &case.starts)),
            of_input: put(device, &case.of_input),
            entering,
            after,
            gates,
            d: put(device, &case.d),
            d_of_state,
        };
        let (expected, name) = (case.expected(), |what: &str| format!("{sequences}, {steps}, {units}: {what}"));
        device.gru_forward(&gru).unwrap();
        near(&name("entering"), device, entering, &expected.entering);
        near(&name("after"), device, after, &expected.after);
        device.gru_backward(&gru).unwrap();
        near(&name("d of input"), device, gru.of_input, &expected.d_of_input);
        near(&name("d of state"), device, d_of_state, &expected.d_of_state);
        // Without restarts the first rows are those of the states.
        let states: Vec<f64> = case.states.iter().map(|x| f64::from(*x)).collect();
        device.gru_forward(&Gru { steps: 1, starts: None, ..gru }).unwrap();
        near(&name("states"), device, entering, &states);
    }
}

fn check_norm(device: &mut dyn Device) {
    for (rows, n, before) in
        [(13, 24, Activation::Tanh), (CHUNK + 90, 5, Activation::Relu), (9, 100, Activation::Identity)]
    {
        let mut numbers = Numbers(n as u32);
        let [x, d] = [(); 2].map(|()| numbers.some(rows * n));
        // Something before the layer: it does not begin where the parameters do.
        let (parameters, at) = (numbers.some(3 + 2 * n), 3);
        let (mut y, mut dx, mut gradient) = (Vec::new(), Vec::new(), vec![0.0; 2 * n]);
        for (x, d) in x.chunks(n).zip(d.chunks(n)) {
            let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / n as f64;
            let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n as f64;
            let scale = 1.0 / (variance + 1e-5).sqrt();
            let unit: Vec<f64> = x.iter().map(|x| (f64::from(*x) - mean) * scale).collect();
            let g: Vec<f64> = (0..n).map(|c| f64::from(d[c]) * f64::from(parameters[at + c])).collect();
            let (g_mean, along) = (g.iter().sum::<f64>(), g.iter().zip(&unit).map(|(g, u)| g * u).sum::<f64>());
            for c in 0..n {
                let x = f64::from(x[c]);
                let slope = match before {
                    Activation::Tanh => 1.0 - x * x,
                    Activation::Relu => f64::from(x > 0.0),
                    Activation::Identity => 1.0,
                };
                y.push(unit[c] * f64::from(parameters[at + c]) + f64::from(parameters[at + n + c]));
                dx.push(slope * scale * (g[c] - (g_mean + unit[c] * along) / n as f64));
                gradient[c] += f64::from(d[c]) * unit[c];
                gradient[n + c] += f64::from(d[c]);
            }
        }
        let layer = Layer { at, inputs: 1, outputs: n, activation: before };
        let [x, d, parameters] = [&x, &d, &parameters].map(|values| put(device, values));
        let mut room = |len: usize| device.floats(len).unwrap();
        let (to, moments, parts, total) = (room(rows * n), room(2 * rows), room(2 * 2 * n), room(3 + 2 * n));
        device.norm(x, parameters, layer, to, moments, rows).unwrap();
        near(&format!("{rows} rows of {n}: y"), device, to, &y);
        device.norm_gradient(x, moments, d, layer, parts, total, rows).unwrap();
        near(&format!("{rows} rows of {n}: gradient"), device, total, &[vec![0.0; at], gradient].concat());
        device.norm_backward(x, moments, parameters, layer, before, d, rows).unwrap();
        near(&format!("{rows} rows of {n}: dx"), device, d, &dx);
    }
}

#[test]
fn a_stand_in_goes_through_sequences_as_the_formulas_do() {
    check_gru(&mut Host::default());
}

#[test]
fn a_stand_in_normalises_as_the_formulas_do() {
    check_norm(&mut Host::default());
}

#[cfg(feature = "gpu-tests")]
mod on_a_gpu {
    use super::*;
    use p3o_gpu::cuda::Cuda;

    #[test]
    fn a_gpu_goes_through_sequences_as_the_formulas_do() {
        check_gru(&mut Cuda::open(0).unwrap());
    }

    #[test]
    fn a_gpu_normalises_as_the_formulas_do() {
        check_norm(&mut Cuda::open(0).unwrap());
    }
}
