//! A stand-in for a device in host memory: every kernel of `kernels/p3o.cu` and `gru.cu` again, with the same parts in the same
//! order. It is there for tests, and slow.

use crate::device::{CHUNK, Device, Doubles, Floats, Gru, Indices, Layer, Loss, Outcome, PolicyRows, ROWS, ValueRows};
use crate::machine::Machine;
use p3o_nn::Activation;

/// See the module.
#[derive(Default)]
pub struct Host {
    floats: Vec<Vec<f32>>,
    doubles: Vec<Vec<f64>>,
    indices: Vec<Vec<u32>>,
    /// Fails from so many kernels on.
    fails_after: Option<usize>,
    kernels: usize,
    machine: Option<Box<dyn Machine>>,
}

fn activate(x: f32, activation: Activation) -> f32 {
    match activation {
        Activation::Tanh => x.tanh(),
        // In this form NaN stays NaN, as below.
        Activation::Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        Activation::Identity => x,
    }
}

/// The derivative of an activation from its value.
fn slope(y: f32, activation: Activation) -> f32 {
    match activation {
        Activation::Tanh => 1.0 - y * y,
        Activation::Relu => f32::from(y > 0.0),
        Activation::Identity => 1.0,
    }
}

impl Host {
    /// One that fails from so many kernels on, as a lost device would.
    pub fn failing_after(kernels: usize) -> Self {
        Host { fails_after: Some(kernels), ..Host::default() }
    }

    /// One with a machine for whole passes.
    pub fn with(machine: Box<dyn Machine>) -> Self {
        Host { machine: Some(machine), ..Host::default() }
    }

    fn launch(&mut self) -> Outcome<()> {
        self.kernels += 1;
        match self.fails_after {
            Some(most) if self.kernels > most => Err("the stand-in was told to fail".into()),
            _ => Ok(()),
        }
    }
}

/// A row's terms, and the weights of its grad log pi and of its grad KL.
fn weigh(loss: &Loss, advantages: &[f32], rows: usize, row: usize, ratio: f32, kl: f32) -> (Vec<f64>, f32, f32) {
    let (reward, costs, e) = (advantages[row], loss.costs as usize, loss.epsilon);
    let cost = |i: usize| advantages[(1 + i) * rows + row];
    let mut terms = vec![0.0; loss.terms()];
    let clip = |r: f32| match r {
        r if r < 1.0 - e => 1.0 - e,
        r if r > 1.0 + e => 1.0 + e,
        r => r,
    };
    match loss.kind {
        0 => {
            let (plain, clipped) = (ratio * reward, clip(ratio) * reward);
            let active = if reward > 0.0 { ratio < 1.0 + e } else { ratio > 1.0 - e };
            terms[0] = f64::from(-if plain < clipped { plain } else { clipped });
            let mut w = loss.reward * if active { -plain } else { 0.0 };
            for i in 0..costs {
                let (plain, clipped) = (ratio * cost(i), clip(ratio) * cost(i));
                let active = if cost(i) > 0.0 { ratio > 1.0 - e } else { ratio < 1.0 + e };
                let worse = if plain > clipped { plain } else { clipped };
                terms[1 + i] = f64::from(if loss.clip_costs == 0 { plain } else { worse });
                if loss.factors[i] != 0.0 {
                    w += loss.factors[i] * if loss.clip_costs == 0 || active { plain } else { 0.0 };
                }
            }
            (terms, loss.scale * w, 0.0)
        }
        1 => {
            let mut advantage = reward;
            terms[0] = f64::from(-(ratio * reward));
            for i in 0..costs {
                terms[1 + i] = f64::from(ratio * cost(i));
                advantage -= loss.factors[i] * cost(i);
            }
            let gain = ratio * advantage / loss.lambda;
            if kl <= loss.delta {
                (terms[1 + costs], terms[2 + costs]) = (f64::from(kl - gain), 1.0);
                (terms, -gain, 1.0)
            } else {
                (terms, 0.0, 0.0)
            }
        }
        _ => {
            let mut sum = 0.0;
            terms[0] = f64::from(-(ratio * reward));
            for i in 0..costs {
                terms[1 + i] = f64::from(ratio * cost(i));
                sum += loss.factors[i] * cost(i);
            }
            (terms, -ratio * (loss.reward * reward - sum), 0.0)
        }
    }
}

/// Log-probabilities of the logits of one discrete action.
fn normalized(logits: &[f32]) -> Vec<f32> {
    let top = logits.iter().copied().fold(logits[0], f32::max);
    let log_sum = logits.iter().map(|x| (x - top).exp()).sum::<f32>().ln();
    logits.iter().map(|x| x - top - log_sum).collect()
}

/// The numbers of each discrete action within a row.
fn heads(sizes: &[u32]) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    sizes.iter().scan(0, |at, &n| {
        *at += n as usize;
        Some(*at - n as usize..*at)
    })
}

/// The sum over a row as a warp forms it: each lane adds every 32nd number, then halves of the lanes are added.
fn warp_sum(columns: usize, add: impl Fn(usize, f32) -> f32) -> f32 {
    let mut lanes: [f32; 32] = std::array::from_fn(|lane| (lane..columns).step_by(32).fold(0.0, |sum, c| add(c, sum)));
    for half in [16, 8, 4, 2, 1] {
        (0..half).for_each(|lane| lanes[lane] += lanes[lane + half]);
    }
    lanes[0]
}

/// Units up to which the weights of a GRU stay in registers.
const UNITS: usize = 64;

/// The sum over the units, or over the units of each of some gates, as the threads of a unit form it: in four slices.
fn sliced(units: usize, gates: usize, add: impl Fn(usize, f32) -> f32) -> f32 {
    let of = |slice: usize| {
        let mut sum = 0.0;
        for gate in (0..gates).map(|gate| gate * units) {
            for first in (4 * slice..units).step_by(16) {
                sum = (first..units.min(first + 4)).fold(sum, |sum, k| add(gate + k, sum));
            }
        }
        sum
    };
    (of(0) + of(1)) + (of(2) + of(3))
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

impl Host {
    fn restarts(&self, gru: &Gru, row: usize) -> bool {
        gru.starts.is_some_and(|starts| self.floats[starts.0][row] != 0.0)
    }

    /// One row's way through a GRU from the state that enters it.
    fn cell(&mut self, gru: &Gru, row: usize) {
        let (n, p, b) = (gru.layer.inputs, &self.floats[gru.parameters.0], gru.layer.bias());
        let (w, entering) = (&p[gru.layer.at..b], &self.floats[gru.entering.0][row * n..][..n]);
        let of_input = &self.floats[gru.of_input.0][row * 3 * n..][..3 * n];
        let of_state = |column: usize| {
            let add = |k: usize, sum: f32| w[k * 3 * n + column].mul_add(entering[k], sum);
            let sum = if n <= UNITS { sliced(n, 1, add) } else { (0..n).fold(0.0, |sum, k| add(k, sum)) };
            sum + p[b + column]
        };
        let mut gates = vec![0.0; 4 * n];
        let mut after = vec![0.0; n];
        for unit in 0..n {
            let [r, z] = [unit, n + unit].map(|column| sigmoid(of_input[column] + of_state(column)));
            let hn = of_state(2 * n + unit);
            let new = r.mul_add(hn, of_input[2 * n + unit]).tanh();
            (gates[unit], gates[n + unit], gates[2 * n + unit], gates[3 * n + unit]) = (r, z, new, hn);
            after[unit] = z.mul_add(entering[unit] - new, new);
        }
        self.floats[gru.gates.0][row * 4 * n..][..4 * n].copy_from_slice(&gates);
        self.floats[gru.after.0][row * n..][..n].copy_from_slice(&after);
    }

    /// One row's way back from the whole gradient of the state after it.
    fn cell_back(&mut self, gru: &Gru, row: usize, whole: &[f32]) {
        let n = gru.layer.inputs;
        for (unit, d) in whole.iter().enumerate() {
            let [r, z, new, hn] = [0, 1, 2, 3].map(|gate| self.floats[gru.gates.0][(4 * row + gate) * n + unit]);
            let dn = d * (1.0 - z) * (1.0 - new * new);
            let dz = d * (self.floats[gru.entering.0][row * n + unit] - new) * (z * (1.0 - z));
            let dr = dn * hn * (r * (1.0 - r));
            for (gate, (input, state)) in [(dr, dr), (dz, dz), (dn, dn * r)].into_iter().enumerate() {
                self.floats[gru.of_input.0][(3 * row + gate) * n + unit] = input;
                self.floats[gru.d_of_state.0][(3 * row + gate) * n + unit] = state;
            }
        }
    }

    /// What a row's gradient gives to the state before it, by way of the gates' sums.
    fn by_sums(&self, gru: &Gru, row: usize, unit: usize) -> f32 {
        let n = gru.layer.inputs;
        let w = &self.floats[gru.parameters.0][gru.layer.at + unit * 3 * n..][..3 * n];
        let d = &self.floats[gru.d_of_state.0][row * 3 * n..][..3 * n];
        let add = |k: usize, sum: f32| w[k].mul_add(d[k], sum);
        if n <= UNITS { sliced(n, 3, add) } else { warp_sum(3 * n, add) }
    }
}

impl Device for Host {
    fn name(&self) -> String {
        "a stand-in for a device".into()
    }

    fn machine(&mut self) -> Option<&mut dyn Machine> {
        Some(&mut **self.machine.as_mut()?)
    }

    fn floats(&mut self, len: usize) -> Outcome<Floats> {
        self.floats.push(vec![0.0; len]);
        Ok(Floats(self.floats.len() - 1))
    }

    fn doubles(&mut self, len: usize) -> Outcome<Doubles> {
        self.doubles.push(vec![0.0; len]);
        Ok(Doubles(self.doubles.len() - 1))
    }

    fn indices(&mut self, len: usize) -> Outcome<Indices> {
        self.indices.push(vec![0; len]);
        Ok(Indices(self.indices.len() - 1))
    }

    fn write(&mut self, to: Floats, at: usize, values: &[f32]) -> Outcome<()> {
        self.floats[to.0][at..][..values.len()].copy_from_slice(values);
        Ok(())
    }

    fn write_indices(&mut self, to: Indices, values: &[u32]) -> Outcome<()> {
        self.indices[to.0][..values.len()].copy_from_slice(values);
        Ok(())
    }

    fn read(&mut self, from: Floats, values: &mut [f32]) -> Outcome<()> {
        values.copy_from_slice(&self.floats[from.0][..values.len()]);
        Ok(())
    }

    fn read_doubles(&mut self, from: Doubles, values: &mut [f64]) -> Outcome<()> {
        values.copy_from_slice(&self.doubles[from.0][..values.len()]);
        Ok(())
    }

    fn forward(&mut self, x: Floats, parameters: Floats, layer: Layer, y: Floats, rows: usize) -> Outcome<()> {
        self.launch()?;
        let Layer { at, inputs, outputs, activation } = layer;
        let mut out = std::mem::take(&mut self.floats[y.0]);
        let (x, p) = (&self.floats[x.0], &self.floats[parameters.0]);
        for r in 0..rows {
            for c in 0..outputs {
                let sum = (0..inputs).fold(0.0, |s, k| x[r * inputs + k].mul_add(p[at + k * outputs + c], s));
                out[r * outputs + c] = activate(sum + p[layer.bias() + c], activation);
            }
        }
        self.floats[y.0] = out;
        Ok(())
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
        self.launch()?;
        let Layer { at, inputs, outputs, activation } = layer;
        let mut out = std::mem::take(&mut self.floats[ty.0]);
        let (x, p, v, y) =
            (&self.floats[x.0], &self.floats[parameters.0], &self.floats[direction.0], &self.floats[y.0]);
        for r in 0..rows {
            for c in 0..outputs {
                let mut sum = (0..inputs).fold(0.0, |s, k| x[r * inputs + k].mul_add(v[at + k * outputs + c], s));
                if let Some(tx) = tx {
                    let tx = &self.floats[tx.0];
                    sum = (0..inputs).fold(sum, |s, k| tx[r * inputs + k].mul_add(p[at + k * outputs + c], s));
                }
                out[r * outputs + c] = slope(y[r * outputs + c], activation) * (sum + v[layer.bias() + c]);
            }
        }
        self.floats[ty.0] = out;
        Ok(())
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
        self.launch()?;
        let Layer { at, inputs, outputs, .. } = layer;
        let mut out = std::mem::take(&mut self.floats[dx.0]);
        let (d, p, x) = (&self.floats[d.0], &self.floats[parameters.0], &self.floats[x.0]);
        for r in 0..rows {
            for c in 0..inputs {
                let sum = (0..outputs).fold(0.0, |s, k| d[r * outputs + k].mul_add(p[at + c * outputs + k], s));
                out[r * inputs + c] = slope(x[r * inputs + c], before) * sum;
            }
        }
        self.floats[dx.0] = out;
        Ok(())
    }

    fn weight_gradient(
        &mut self,
        x: Floats,
        d: Floats,
        layer: Layer,
        _: Floats,
        gradient: Floats,
        rows: usize,
    ) -> Outcome<()> {
        self.launch()?;
        let Layer { at, inputs, outputs, .. } = layer;
        let mut out = std::mem::take(&mut self.floats[gradient.0]);
        let (x, d) = (&self.floats[x.0], &self.floats[d.0]);
        for i in 0..=inputs {
            for c in 0..outputs {
                let part = |first: usize| {
                    let end = (first + CHUNK).min(rows);
                    (first..end).fold(0.0f32, |s, k| {
                        let left = if i == inputs { 1.0 } else { x[k * inputs + i] };
                        left.mul_add(d[k * outputs + c], s)
                    })
                };
                out[at + i * outputs + c] = (0..rows).step_by(CHUNK).map(part).sum();
            }
        }
        self.floats[gradient.0] = out;
        Ok(())
    }

    fn squares(&mut self, of: Floats, parts: Doubles, len: usize) -> Outcome<()> {
        self.launch()?;
        let chunks = self.floats[of.0][..len].chunks(CHUNK);
        let sums: Vec<f64> = chunks.map(|c| c.iter().map(|&x| f64::from(x) * f64::from(x)).sum()).collect();
        self.doubles[parts.0][..sums.len()].copy_from_slice(&sums);
        Ok(())
    }

    fn add_doubles(&mut self, parts: Doubles, total: Doubles, count: usize, len: usize) -> Outcome<()> {
        self.launch()?;
        for i in 0..len {
            self.doubles[total.0][i] = (0..count).map(|part| self.doubles[parts.0][part * len + i]).sum();
        }
        Ok(())
    }

    fn gather(&mut self, from: Floats, index: Indices, to: Floats, rows: usize, width: usize) -> Outcome<()> {
        self.launch()?;
        for r in 0..rows {
            let at = self.indices[index.0][r] as usize * width;
            let row = self.floats[from.0][at..at + width].to_vec();
            self.floats[to.0][r * width..][..width].copy_from_slice(&row);
        }
        Ok(())
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
        self.launch()?;
        for i in 0..len {
            let g = self.floats[g.0][i];
            self.floats[m.0][i] = 0.9 * self.floats[m.0][i] + 0.1 * g;
            self.floats[v.0][i] = 0.999 * self.floats[v.0][i] + 0.001 * g * g;
            let (m, v) = (self.floats[m.0][i], self.floats[v.0][i]);
            self.floats[p.0][i] -= step * m / (v.sqrt() * root + epsilon);
        }
        Ok(())
    }

    fn policy_rows(&mut self, p: &PolicyRows) -> Outcome<()> {
        self.launch()?;
        let mut gradient = p.d.map_or(Vec::new(), |d| std::mem::take(&mut self.floats[d.0]));
        let f = |floats: Floats| &self.floats[floats.0][..];
        let (log_std, old_log_std, sizes) = (f(p.log_std), f(p.old_log_std), &self.indices[p.heads.0][..]);
        let sizes = if p.discrete { &sizes[..p.width] } else { &[] };
        let (n, sums) = (p.n, p.sums());
        let mut parts = vec![0.0; p.rows.div_ceil(ROWS) * sums];
        for i in 0..p.rows {
            let row = p.index.map_or(i, |index| self.indices[index.0][i] as usize);
            let (out, was) = (&f(p.outputs)[i * n..][..n], &f(p.old_outputs)[row * n..][..n]);
            let action = &f(p.actions)[row * p.width..][..p.width];
            let (mut log_prob, mut kl) = (0.0, 0.0);
            if p.discrete {
                for (range, taken) in heads(sizes).zip(action) {
                    let x = normalized(&out[range.clone()]);
                    log_prob += x[*taken as usize];
                    kl += x.iter().zip(&was[range]).map(|(x, was)| x.exp() * (x - was)).sum::<f32>();
                }
            } else {
                for a in 0..n {
                    let (s, o) = (log_std[a], old_log_std[a]);
                    let (z, shift) = ((action[a] - out[a]) * (-s).exp(), (out[a] - was[a]) * (-o).exp());
                    log_prob -= 0.5 * z * z + s + 0.918_938_5;
                    kl += 0.5 * (shift * shift + (2.0 * (s - o)).exp() - 1.0) - (s - o);
                }
            }
            let ratio = (log_prob - f(p.log_probs)[row]).exp();
            let (terms, w, u) = weigh(&p.loss, f(p.advantages), p.all, row, ratio, kl);
            let (w, u) = (w * p.share, u * p.share);
            let part = &mut parts[i / ROWS * sums..][..sums];
            part[0] += f64::from(kl);
            part[1..].iter_mut().zip(&terms).for_each(|(sum, term)| *sum += term);
            if p.d.is_none() {
                continue;
            }
            let d = &mut gradient[i * n..][..n];
            if p.discrete {
                for (range, taken) in heads(sizes).zip(action) {
                    let (x, was) = (normalized(&out[range.clone()]), &was[range.clone()]);
                    let entropy = -x.iter().map(|x| x.exp() * x).sum::<f32>();
                    let kl = x.iter().zip(was).map(|(x, was)| x.exp() * (x - was)).sum::<f32>();
                    for (a, d) in d[range].iter_mut().enumerate() {
                        let (q, chosen) = (x[a].exp(), f32::from(a == *taken as usize));
                        *d = w * (chosen - q)
                            + p.entropy * p.share * q * (x[a] + entropy)
                            + u * q * (x[a] - was[a] - kl);
                    }
                }
            } else {
                for a in 0..n {
                    let (inverse, old) = ((-log_std[a]).exp(), (-old_log_std[a]).exp());
                    let z = (action[a] - out[a]) * inverse;
                    d[a] = w * z * inverse + u * (out[a] - was[a]) * old * old;
                    let wider = (2.0 * (log_std[a] - old_log_std[a])).exp() - 1.0;
                    part[1 + terms.len() + a] += f64::from(w * (z * z - 1.0) - p.entropy * p.share + u * wider);
                }
            }
        }
        self.doubles[p.parts.0][..parts.len()].copy_from_slice(&parts);
        if let Some(d) = p.d {
            self.floats[d.0] = gradient;
        }
        Ok(())
    }

    fn fisher_rows(
        &mut self,
        outputs: Floats,
        tangents: Floats,
        log_std: Floats,
        sizes: Indices,
        d: Floats,
        rows: usize,
        (n, width, discrete): (usize, usize, bool),
        share: f32,
    ) -> Outcome<()> {
        self.launch()?;
        let mut product = std::mem::take(&mut self.floats[d.0]);
        let f = |floats: Floats| &self.floats[floats.0][..];
        for i in 0..rows {
            let (out, t, d) = (&f(outputs)[i * n..][..n], &f(tangents)[i * n..][..n], &mut product[i * n..][..n]);
            if discrete {
                for range in heads(&self.indices[sizes.0][..width]) {
                    let q: Vec<f32> = normalized(&out[range.clone()]).iter().map(|x| x.exp()).collect();
                    let t = &t[range.clone()];
                    let mean = q.iter().zip(t).map(|(q, t)| q * t).sum::<f32>();
                    d[range].iter_mut().zip(q.iter().zip(t)).for_each(|(d, (q, t))| *d = share * q * (t - mean));
                }
            } else {
                (0..n).for_each(|a| d[a] = share * t[a] * (-2.0 * f(log_std)[a]).exp());
            }
        }
        self.floats[d.0] = product;
        Ok(())
    }

    fn value_rows(&mut self, p: &ValueRows) -> Outcome<()> {
        self.launch()?;
        let mut parts = vec![0.0; p.rows.div_ceil(ROWS)];
        for i in 0..p.rows {
            let row = p.index.map_or(i, |index| self.indices[index.0][i] as usize);
            let error = self.floats[p.values.0][i] - (self.floats[p.targets.0][row] - p.mean) * p.unit;
            self.floats[p.d.0][i] = p.share * error;
            parts[i / ROWS] += f64::from(error * error);
        }
        self.doubles[p.parts.0][..parts.len()].copy_from_slice(&parts);
        Ok(())
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
        self.launch()?;
        let n = layer.outputs;
        for row in 0..rows {
            let x = self.floats[x.0][row * n..][..n].to_vec();
            let mean = warp_sum(n, |c, sum| sum + x[c]) / n as f32;
            let variance = warp_sum(n, |c, sum| (x[c] - mean).mul_add(x[c] - mean, sum)) / n as f32;
            let scale = 1.0 / (variance + 1e-5).sqrt();
            for (c, x) in x.iter().enumerate() {
                let p = &self.floats[parameters.0];
                self.floats[y.0][row * n + c] = ((x - mean) * scale).mul_add(p[layer.at + c], p[layer.bias() + c]);
            }
            self.floats[moments.0][2 * row..][..2].copy_from_slice(&[mean, scale]);
        }
        Ok(())
    }

    fn norm_gradient(
        &mut self,
        x: Floats,
        moments: Floats,
        d: Floats,
        layer: Layer,
        _: Floats,
        gradient: Floats,
        rows: usize,
    ) -> Outcome<()> {
        self.launch()?;
        let n = layer.outputs;
        for c in 0..n {
            let (x, moments, d) = (&self.floats[x.0], &self.floats[moments.0], &self.floats[d.0]);
            let unit = |row: usize| (x[row * n + c] - moments[2 * row]) * moments[2 * row + 1];
            let part = |first: usize, add: &dyn Fn(f32, usize) -> f32| -> f32 {
                let end = (first + CHUNK).min(rows);
                (0..16).map(|warp| (first + warp..end).step_by(16).fold(0.0, add)).sum()
            };
            let sum = |add: &dyn Fn(f32, usize) -> f32| (0..rows).step_by(CHUNK).map(|first| part(first, add)).sum();
            let gain: f32 = sum(&|sum, row| unit(row).mul_add(d[row * n + c], sum));
            let bias: f32 = sum(&|sum, row| sum + d[row * n + c]);
            self.floats[gradient.0][layer.at + c] = gain;
            self.floats[gradient.0][layer.bias() + c] = bias;
        }
        Ok(())
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
        self.launch()?;
        let n = layer.outputs;
        for row in 0..rows {
            let (x, moments) = (&self.floats[x.0][row * n..][..n], &self.floats[moments.0][2 * row..][..2]);
            let unit: Vec<f32> = x.iter().map(|x| (x - moments[0]) * moments[1]).collect();
            let gain = &self.floats[parameters.0][layer.at..][..n];
            let g: Vec<f32> = self.floats[d.0][row * n..][..n].iter().zip(gain).map(|(d, gain)| d * gain).collect();
            let mean = warp_sum(n, |c, sum| sum + g[c]) / n as f32;
            let along = warp_sum(n, |c, sum| g[c].mul_add(unit[c], sum)) / n as f32;
            let dx = |c: usize| slope(x[c], before) * (moments[1] * (g[c] - mean - unit[c] * along));
            let dx: Vec<f32> = (0..n).map(dx).collect();
            self.floats[d.0][row * n..][..n].copy_from_slice(&dx);
        }
        Ok(())
    }

    fn gru_forward(&mut self, gru: &Gru) -> Outcome<()> {
        self.launch()?;
        let n = gru.layer.inputs;
        for (s, t) in (0..gru.sequences).flat_map(|s| (0..gru.steps).map(move |t| (s, t))) {
            let row = s * gru.steps + t;
            let entering = match t {
                _ if self.restarts(gru, row) => vec![0.0; n],
                0 => self.floats[gru.states.0][s * n..][..n].to_vec(),
                _ => self.floats[gru.after.0][(row - 1) * n..][..n].to_vec(),
            };
            self.floats[gru.entering.0][row * n..][..n].copy_from_slice(&entering);
            self.cell(gru, row);
        }
        Ok(())
    }

    fn gru_backward(&mut self, gru: &Gru) -> Outcome<()> {
        self.launch()?;
        let n = gru.layer.inputs;
        for s in 0..gru.sequences {
            let mut carry = vec![0.0; n];
            for row in (s * gru.steps..(s + 1) * gru.steps).rev() {
                let own = &self.floats[gru.d.0][row * n..][..n];
                let whole: Vec<f32> = own.iter().zip(&carry).map(|(d, carry)| d + carry).collect();
                self.cell_back(gru, row, &whole);
                let z = &self.floats[gru.gates.0][(4 * row + 1) * n..][..n];
                let before = |unit: usize| whole[unit].mul_add(z[unit], self.by_sums(gru, row, unit));
                carry = if self.restarts(gru, row) { vec![0.0; n] } else { (0..n).map(before).collect() };
            }
        }
        Ok(())
    }
}
