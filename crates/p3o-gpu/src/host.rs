//! A stand-in for a device in host memory: every kernel of `kernels/p3o.cu` again, with the same parts in the same order. It is
//! there for tests, and slow.

use crate::device::{CHUNK, Device, Doubles, Floats, Indices, Layer, Loss, Outcome, PolicyRows, ROWS, ValueRows};
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
}

fn activate(x: f32, activation: Activation) -> f32 {
    match activation {
        Activation::Tanh => x.tanh(),
        Activation::Relu => x.max(0.0),
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
    let clip = |r: f32| r.max(1.0 - e).min(1.0 + e);
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
            if kl > loss.delta {
                return (terms, 0.0, 0.0);
            }
            let gain = ratio * advantage / loss.lambda;
            (terms[1 + costs], terms[2 + costs]) = (f64::from(kl - gain), 1.0);
            (terms, -gain, 1.0)
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

impl Device for Host {
    fn name(&self) -> String {
        "a stand-in for a device".into()
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
}
