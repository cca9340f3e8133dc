//! What a row adds to a pass stands three times: in the algorithms (`algo/*.rs`), in the kernel `policy_rows` and in its stand-in.
//! Here rows of all kinds go straight through `Device::policy_rows`, without networks. Ratio and KL are asked for row by row and held
//! against double precision; what follows from them is held against the algorithms' own functions, which get that very ratio and KL: so
//! both are on the same side of every edge, and rows can stand exactly on one.

use p3o::algo::focops::Proximal;
use p3o::algo::natural::Surrogate;
use p3o::algo::p3o::Clipped;
use p3o::engine::{EXTRA_TERMS, RowLoss};
use p3o_gpu::device::{Device, Doubles, Floats, Indices, Layer, Loss, MOST_COSTS, PolicyRows, ROWS};
use p3o_gpu::host::Host;
use p3o_nn::multi_categorical::{self, Rows};
use p3o_nn::{Activation, gaussian};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Rows that are drawn, and copies of one row on each edge.
const DRAWN: usize = 10_000;
const COPIES: usize = 64;
const ALL: usize = DRAWN + 2 * COPIES;
/// The unit of rounding of single precision.
const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&x| f64::from(x)).collect()
}

fn normal(rng: &mut ChaCha8Rng) -> f32 {
    let mut drawn = [0.0];
    gaussian::sample(&[0.0], &[0.0], &mut drawn, rng);
    drawn[0]
}

/// What a policy says of some rows, and said when it collected them.
struct Policy {
    /// Logits of each discrete action; none for continuous ones.
    heads: Vec<usize>,
    /// Outputs in a row, numbers in an action.
    n: usize,
    width: usize,
    outputs: Vec<f32>,
    old_outputs: Vec<f32>,
    actions: Vec<f32>,
    log_probs: Vec<f32>,
    log_std: Vec<f32>,
    old_log_std: Vec<f32>,
    /// Of the reward and of as many costs as there may be.
    advantages: Vec<Vec<f32>>,
}

impl Policy {
    /// Rows whose ratios are spread around one.
    fn draw(heads: &[usize], n: usize, seed: u64) -> Policy {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let discrete = !heads.is_empty();
        let mut draw = |len: usize, by: f32| (0..len).map(|_| by * normal(rng)).collect::<Vec<f32>>();
        let old_outputs = draw(ALL * n, 1.0);
        let outputs = old_outputs.iter().zip(draw(ALL * n, 0.2)).map(|(old, by)| old + by).collect();
        let old_log_std = draw(if discrete { 0 } else { n }, 0.5);
        let log_std = old_log_std.iter().zip(draw(n, 0.1)).map(|(old, by)| old + by).collect();
        let width = if discrete { heads.len() } else { n };
        let (actions, log_probs) = (vec![0.0; ALL * width], vec![0.0; ALL]);
        let heads = heads.to_vec();
        let mut all = Policy {
            heads,
            n,
            width,
            outputs,
            old_outputs,
            actions,
            log_probs,
            log_std,
            old_log_std,
            advantages: Vec::new(),
        };
        all.act(rng);
        all.give_advantages(rng);
        all
    }

    /// Draws the actions of the old policy; the last rows are copies of two.
    fn act(&mut self, rng: &mut ChaCha8Rng) {
        let Policy { heads, n, width, .. } = self;
        for row in 0..ALL {
            let (was, action) = (&mut self.old_outputs[row * *n..][..*n], &mut self.actions[row * *width..][..*width]);
            self.log_probs[row] = if heads.is_empty() {
                gaussian::sample(was, &self.old_log_std, action, rng);
                gaussian::log_prob(was, &self.old_log_std, action)
            } else {
                multi_categorical::normalize(heads, was);
                multi_categorical::sample(heads, was, action, rng);
                multi_categorical::log_prob(heads, was, action)
            };
        }
        let above = (0..DRAWN).find(|&row| (1.05..1.5).contains(&self.row(row).0)).expect("one of so many");
        let below = (0..DRAWN).find(|&row| (0.6..0.95).contains(&self.row(row).0)).expect("one of so many");
        for row in DRAWN..ALL {
            let from = if row < DRAWN + COPIES { above } else { below };
            for (numbers, width) in [
                (&mut self.outputs, self.n),
                (&mut self.old_outputs, self.n),
                (&mut self.actions, self.width),
                (&mut self.log_probs, 1),
            ] {
                numbers.copy_within(from * width..(from + 1) * width, row * width);
            }
        }
    }

    /// Advantages of all sizes and signs; one in ten is zero.
    fn give_advantages(&mut self, rng: &mut ChaCha8Rng) {
        let mut one = || match rng.next_u32() % 10 {
            0 => 0.0,
            power => normal(rng) * 10f32.powi(power as i32 % 5 - 2),
        };
        self.advantages = (0..=MOST_COSTS).map(|_| (0..ALL).map(|_| one()).collect()).collect();
    }

    fn is_discrete(&self) -> bool {
        !self.heads.is_empty()
    }

    fn part<'a>(&self, of: &'a [f32], row: usize) -> &'a [f32] {
        let width = of.len() / ALL;
        &of[row * width..][..width]
    }

    /// Ratio and KL of a row in double precision, and how far off single precision may be: of the ratio as a share of it.
    fn row(&self, row: usize) -> (f64, f64, [f64; 2]) {
        let [out, was, action] = [&self.outputs, &self.old_outputs, &self.actions].map(|of| wide(self.part(of, row)));
        let before = f64::from(self.log_probs[row]);
        let (log_prob, kl, error, kl_error) = if self.is_discrete() {
            let (mut rows, mut p) = (Rows::new(&self.heads), vec![0.0; self.n]);
            rows.set(&out, &mut p);
            let error =
                (0..self.n).map(|a| UNIT * self.logit_error(row, a)).fold(0.0, f64::max) * self.heads.len() as f64;
            (rows.log_prob(&out, &action), rows.kl(&out, &p, &was), error, error)
        } else {
            let (log_std, old) = (wide(&self.log_std), wide(&self.old_log_std));
            let (log_prob, kl) =
                (gaussian::log_prob(&out, &log_std, &action), gaussian::kl(&out, &log_std, &was, &old));
            // Squares of numbers that are good to 6 UNIT, as an exponential to 4 of them, and sums of all.
            let logs: f64 = log_std.iter().map(|s| s.abs() + 1.0).sum();
            let sizes = log_prob.abs() + 2.0 * logs;
            let base: f64 = log_std.iter().zip(&old).map(|(s, o)| 2.0 + 4.0 * (2.0 * (s - o)).exp()).sum();
            (log_prob, kl, 16.0 * UNIT * sizes, UNIT * (16.0 * kl + base))
        };
        let ratio = (log_prob - before).exp();
        (ratio, kl, [error + UNIT * (4.0 + 2.0 * (log_prob - before).abs()), kl_error])
    }

    /// How many UNIT a logarithm of a probability may be off: (x - top) - ln(sum).
    fn logit_error(&self, row: usize, a: usize) -> f64 {
        let (out, mut at) = (self.part(&self.outputs, row), 0);
        let head = self.heads.iter().map(|&n| {
            at += n;
            at - n..at
        });
        let head = &out[head.into_iter().find(|head| head.contains(&a)).expect("a logit has a head")];
        let spread = head.iter().fold(0.0f32, |most, x| head.iter().fold(most, |most, y| most.max(x - y)));
        8.0 + 4.0 * f64::from(spread) + 4.0 * (head.len() as f64).ln()
    }
}

/// The rows on a device.
struct Bench {
    policy: Policy,
    device: Box<dyn Device>,
    rows: PolicyRows,
    outputs: Floats,
    picked: Floats,
    d: Floats,
    index: Indices,
}

/// What a device says of some rows: the sums of each block, and the slopes of each output.
struct Found {
    blocks: Vec<Vec<f64>>,
    d: Vec<f32>,
}

fn told<T>(outcome: Result<T, String>) -> T {
    outcome.unwrap_or_else(|e| panic!("{e}"))
}

impl Bench {
    fn new(policy: Policy, mut device: Box<dyn Device>) -> Bench {
        let mut write = |numbers: &[f32]| {
            let floats = told(device.floats(numbers.len().max(1)));
            told(device.write(floats, 0, numbers));
            floats
        };
        let Policy { n, width, .. } = policy;
        let [outputs, old_outputs, actions] = [&policy.outputs, &policy.old_outputs, &policy.actions].map(|x| write(x));
        let [log_probs, log_std, old_log_std] =
            [&policy.log_probs, &policy.log_std, &policy.old_log_std].map(|x| write(x));
        let [picked, d] = [0; 2].map(|_| write(&vec![0.0; ALL * n]));
        let advantages = write(&policy.advantages.concat());
        let (heads, index) = (told(device.indices(policy.heads.len().max(1))), told(device.indices(ALL)));
        let sizes: Vec<u32> = policy.heads.iter().map(|&n| n as u32).collect();
        told(device.write_indices(heads, &sizes));
        let parts: Doubles = told(device.doubles(ALL.div_ceil(ROWS) * (1 + 1 + MOST_COSTS + EXTRA_TERMS + n)));
        let rows = PolicyRows {
            outputs,
            old_outputs,
            actions,
            log_probs,
            advantages,
            log_std,
            old_log_std,
            heads,
            index: None,
            d: None,
            parts,
            rows: ALL,
            all: ALL,
            n,
            width,
            discrete: policy.is_discrete(),
            entropy: 0.0,
            share: 1.0,
            loss: Loss::of(&plain(0)),
        };
        Bench { policy, device, rows, outputs, picked, d, index }
    }

    /// Looks at the rows of a mini-batch, or at all; with slopes or without.
    fn look(&mut self, loss: &RowLoss, entropy: f32, pieces: Option<&[u32]>, slopes: bool) -> Found {
        let n = self.policy.n;
        if let Some(pieces) = pieces {
            told(self.device.write_indices(self.index, pieces));
            told(self.device.gather(self.outputs, self.index, self.picked, pieces.len(), n));
        }
        let rows = PolicyRows {
            outputs: if pieces.is_some() { self.picked } else { self.outputs },
            index: pieces.map(|_| self.index),
            d: slopes.then_some(self.d),
            rows: pieces.map_or(ALL, <[u32]>::len),
            entropy,
            loss: Loss::of(loss),
            ..self.rows
        };
        let mut d = vec![f32::NAN; rows.rows * n];
        if slopes {
            told(self.device.write(self.d, 0, &d));
        }
        told(self.device.policy_rows(&rows));
        let mut sums = vec![f64::NAN; rows.rows.div_ceil(ROWS) * rows.sums()];
        told(self.device.read_doubles(rows.parts, &mut sums));
        if slopes {
            told(self.device.read(self.d, &mut d));
        }
        Found { blocks: sums.chunks_exact(rows.sums()).map(<[f64]>::to_vec).collect(), d }
    }

    /// Ratio and KL of every row as the device has them. The advantages are ones for this.
    fn ratios(&mut self) -> Vec<(f32, f32)> {
        told(self.device.write(self.rows.advantages, 0, &[1.0; ALL]));
        let mut one = |row: usize| {
            let found = self.look(&plain(0), 0.0, Some(&[row as u32]), false);
            let [kl, term, ..] = found.blocks[0][..] else { panic!("a KL and a term") };
            ((-term) as f32, kl as f32)
        };
        let all = (0..ALL).map(&mut one).collect();
        told(self.device.write(self.rows.advantages, 0, &self.policy.advantages.concat()));
        all
    }
}

/// Plain surrogates.
fn plain(costs: usize) -> RowLoss {
    RowLoss::Surrogate(Surrogate { reward: 1.0, costs: vec![0.0; costs] })
}

/// A row's weights of grad log pi and grad KL by the algorithms' own functions, which add its terms; and how far another order of
/// roundings may take them.
fn weigh(loss: &RowLoss, adv: &[Vec<f32>], row: usize, (ratio, kl): (f32, f32), terms: &mut [f64]) -> (f32, f32, f64) {
    let (w, u, reward, factors, scale) = match loss {
        RowLoss::Clipped(l) => (l.weigh(adv, row, ratio, terms), 0.0, l.reward, &l.costs, l.scale),
        RowLoss::Proximal(l) => {
            let (w, u) = l.weigh(adv, row, ratio, kl, terms);
            (w, u, 1.0, &l.multipliers, 1.0 / l.lambda)
        }
        RowLoss::Surrogate(l) => (l.weigh(adv, row, ratio, terms), 0.0, l.reward, &l.costs, 1.0),
    };
    let costs: f32 = factors.iter().zip(&adv[1..]).map(|(x, adv)| (x * adv[row]).abs()).sum();
    let size = f64::from(scale * ratio * ((reward * adv[0][row]).abs() + costs));
    (w, u, UNIT * (4 + factors.len()) as f64 * size)
}

/// A sum and how far it may be off.
#[derive(Clone, Copy, Default)]
struct Near(f64, f64);

impl Near {
    fn add(&mut self, x: f64, error: f64) {
        self.0 += x;
        self.1 += error;
    }

    /// Holds a number against it; returns which share of what it may be off it is.
    fn hold(self, found: f64, of: &dyn Fn() -> String) -> f64 {
        let (Near(expected, allowed), error) = (self, (found - self.0).abs());
        assert!(error <= allowed, "{}: {found:e} instead of {expected:e}, {allowed:e} is allowed", of());
        if error == 0.0 { 0.0 } else { error / allowed }
    }
}

/// Holds what a device makes of rows against the algorithms' functions; returns the largest share of what slopes and sums may be off.
fn compare(
    bench: &mut Bench,
    loss: &RowLoss,
    entropy: f32,
    pieces: Option<&[u32]>,
    ratios: &[(f32, f32)],
    of: &str,
) -> [f64; 2] {
    let mut most = [0f64; 2];
    let found = bench.look(loss, entropy, pieces, true);
    let (policy, count) = (&bench.policy, Loss::of(loss).terms());
    let adv = &policy.advantages[..count - EXTRA_TERMS];
    let all: Vec<u32> = (0..ALL as u32).collect();
    let exact = if let RowLoss::Proximal(_) = loss { count - EXTRA_TERMS } else { count };
    for (b, block) in pieces.unwrap_or(&all).chunks(ROWS).enumerate() {
        let slopes = if policy.is_discrete() { 0 } else { policy.n };
        let mut sums = vec![Near::default(); 1 + count + slopes];
        for (i, &row) in block.iter().enumerate() {
            let (row, at) = (row as usize, b * ROWS + i);
            let (ratio, kl) = ratios[row];
            let mut terms = vec![0.0; count];
            let (w, u, error) = weigh(loss, adv, row, (ratio, kl), &mut terms);
            sums[0].add(f64::from(kl), 1e-13 * f64::from(kl.abs()));
            for (t, (sum, term)) in sums[1..].iter_mut().zip(terms).enumerate() {
                // A term is one rounded product, and only their sum's order differs; FOCOPS's has a few roundings of its own.
                let own = if t == exact { error + UNIT * f64::from(kl.abs()) } else { 0.0 };
                sum.add(term, own + 1e-13 * term.abs());
            }
            let (d, d_log_std) = policy.slopes(row, (w, u, error), entropy);
            for (a, (found, expected)) in found.d[at * policy.n..][..policy.n].iter().zip(d).enumerate() {
                let of = || format!("{of}: slope {a} of row {row} (ratio {ratio}, KL {kl})");
                most[0] = most[0].max(expected.hold(f64::from(*found), &of));
            }
            sums[1 + count..].iter_mut().zip(d_log_std).for_each(|(sum, Near(d, error))| sum.add(d, error));
        }
        for (s, (sum, found)) in sums.iter().zip(&found.blocks[b]).enumerate() {
            most[1] = most[1].max(sum.hold(*found, &|| format!("{of}: sum {s} of block {b}")));
        }
    }
    most
}

impl Policy {
    /// The gradient of w log pi(a|s) + u KL(s) - entropy H(s) of a row: with respect to its outputs and to `log_std`.
    fn slopes(&self, row: usize, (w, u, error): (f32, f32, f64), entropy: f32) -> (Vec<Near>, Vec<Near>) {
        let [out, was, action] = [&self.outputs, &self.old_outputs, &self.actions].map(|of| wide(self.part(of, row)));
        let [w, u, entropy] = [w, u, entropy].map(f64::from);
        let off = error + 16.0 * UNIT * w.abs();
        if self.is_discrete() {
            let part = |w: f64, e: f64, u: f64| {
                let (mut rows, mut d) = (Rows::new(&self.heads), vec![0.0; self.n]);
                rows.set(&out, &mut d);
                rows.gradient(&out, &action, w, e, &mut d);
                multi_categorical::kl_grad(&self.heads, &out, &was, u, &mut d);
                d
            };
            let (d, mut p) = (part(w, -entropy, u), vec![0.0; self.n]);
            Rows::new(&self.heads).set(&out, &mut p);
            let near = |a: usize| {
                let own = UNIT * self.logit_error(row, a);
                // A probability is off by its logarithm's error; so are the means over all actions that it is multiplied with.
                let sizes = w.abs() + entropy * (p[a].ln().abs() + 3.0) + u.abs() * ((p[a].ln() - was[a]).abs() + 3.0);
                Near(d[a], off + own * p[a] * sizes)
            };
            return ((0..self.n).map(near).collect(), Vec::new());
        }
        let both = (0..self.n).map(|a| {
            let (s, o) = (f64::from(self.log_std[a]), f64::from(self.old_log_std[a]));
            let (z, shift, wider) =
                ((action[a] - out[a]) * (-s).exp(), (out[a] - was[a]) * (-2.0 * o).exp(), (2.0 * (s - o)).exp());
            let d =
                Near(w * z * (-s).exp() + u * shift, off * (z * (-s).exp()).abs() + 16.0 * UNIT * (u * shift).abs());
            let slope = w * (z * z - 1.0) - entropy + u * (wider - 1.0);
            (d, Near(slope, off * (z * z + 1.0) + UNIT * (2.0 * entropy + 8.0 * u * wider + 2.0 * slope.abs())))
        });
        both.unzip()
    }
}

/// Every kind of loss for 0 to 16 costs, with rows exactly on the edges of the clip and of the trust region.
fn check(device: &dyn Fn() -> Box<dyn Device>) {
    for (seed, (heads, n)) in [(&[][..], 1), (&[], 3), (&[4], 4), (&[5, 2, 3], 10)].into_iter().enumerate() {
        let mut bench = Bench::new(Policy::draw(heads, n, seed as u64), device());
        let ratios = bench.ratios();
        let mut most = [0f64; 4];
        let mut see = |what: usize, share: f64| most[what] = most[what].max(share);
        for (row, &(ratio, kl)) in ratios.iter().enumerate() {
            let (expected, expected_kl, [error, kl_error]) = bench.policy.row(row);
            let of = |what: &'static str| move || format!("{heads:?}: {what} of row {row}");
            see(0, Near(expected, error * expected).hold(f64::from(ratio), &of("ratio")));
            see(1, Near(expected_kl, kl_error).hold(f64::from(kl), &of("KL")));
        }
        let ((above, kl), (below, _)) = (ratios[DRAWN], ratios[DRAWN + COPIES]);
        let epsilons = [0.2, above - 1.0, 1.0 - below];
        assert!(1.0 + epsilons[1] == above && 1.0 - epsilons[2] == below, "exactly on the edges");
        let mut middle: Vec<f32> = ratios.iter().map(|(_, kl)| *kl).collect();
        middle.sort_by(f32::total_cmp);
        let deltas = [middle[ALL * 2 / 3], kl, kl.next_down()];
        let some: Vec<u32> = (0..ALL as u32).rev().filter(|row| row % 5 > 0).collect();
        for m in (0..=MOST_COSTS).step_by(if seed % 2 == 0 { 1 } else { 5 }) {
            let (epsilon, delta) = (epsilons[m % 3], deltas[m % 3]);
            let pieces = (m % 4 == 3).then_some(&some[..]);
            let entropy = if m % 2 == 0 { 0.01 } else { 0.0 };
            // Every third gate is shut.
            let factors: Vec<f32> = (0..m).map(|i| if i % 3 == 1 { 0.0 } else { 0.5 + i as f32 }).collect();
            for loss in losses(&factors, epsilon, delta) {
                let of = format!("{heads:?} {loss:?}");
                let shares = compare(&mut bench, &loss, entropy, pieces, &ratios, &of);
                (2..).zip(shares).for_each(|(what, share)| see(what, share));
            }
            let (sums, all) = (bench.look(&plain(m), 0.0, None, false), bench.look(&plain(m), 0.0, None, true));
            let both = sums.blocks.iter().zip(&all.blocks);
            both.for_each(|(sums, all)| assert_eq!(sums[..], all[..sums.len()], "measuring changes nothing"));
        }
        println!("{n} outputs, heads {heads:?}: shares of what ratios, KL, slopes and sums may be off: {most:.2?}");
    }
}

/// A loss of every kind with these factors.
fn losses(factors: &[f32], epsilon: f32, delta: f32) -> [RowLoss; 4] {
    let clipped = |clip_costs: bool, reward: f32, scale: f32| {
        RowLoss::Clipped(Clipped { epsilon, clip_costs, reward, costs: factors.to_vec(), scale })
    };
    [
        clipped(true, 1.0, 1.0 / 3.0),
        clipped(false, 0.3, 1.0),
        RowLoss::Proximal(Proximal { multipliers: factors.to_vec(), lambda: 1.5, delta }),
        RowLoss::Surrogate(Surrogate { reward: 0.7, costs: factors.to_vec() }),
    ]
}

/// Something that is not finite in one row.
fn poison(policy: &mut Policy, what: usize) -> &'static str {
    const ROW: usize = 7;
    let (n, width) = (policy.n, policy.width);
    match what {
        0 => policy.log_probs[ROW] = f32::NAN,
        1 => policy.log_probs[ROW] = f32::NEG_INFINITY,
        2 => policy.outputs[ROW * n] = f32::NAN,
        3 => policy.outputs[ROW * n] = f32::INFINITY,
        4 => policy.old_outputs[ROW * n] = f32::NAN,
        5 => policy.advantages[0][ROW] = f32::NAN,
        6 => policy.advantages[1][ROW] = f32::INFINITY,
        // An action that is no number has no index.
        _ if policy.is_discrete() => policy.log_probs[ROW] = f32::INFINITY,
        _ => policy.actions[ROW * width] = f32::NAN,
    }
    [
        "log_prob NaN",
        "log_prob -inf",
        "output NaN",
        "output inf",
        "old output NaN",
        "advantage NaN",
        "cost inf",
        "action",
    ][what]
}

impl Policy {
    /// Ratio and KL of a row as the engine in host memory has them.
    fn single(&self, row: usize) -> (f32, f32) {
        let [out, was, action] = [&self.outputs, &self.old_outputs, &self.actions].map(|of| self.part(of, row));
        let (log_prob, kl) = if self.is_discrete() {
            let (mut rows, mut p) = (Rows::new(&self.heads), vec![0.0; self.n]);
            rows.set(out, &mut p);
            (rows.log_prob(out, action), rows.kl(out, &p, was))
        } else {
            let mut against = gaussian::Against::default();
            against.set(&self.log_std, &self.old_log_std);
            (against.log_prob(out, action), against.kl(out, was))
        };
        ((log_prob - self.log_probs[row]).exp(), kl)
    }
}

/// Sums that are not finite end an update, so a device's must be finite where the algorithms' are and nowhere else.
fn check_poisoned(device: &dyn Fn() -> Box<dyn Device>) {
    for (heads, n) in [(&[][..], 2), (&[5, 2, 3], 10)] {
        for what in 0..8 {
            let mut policy = Policy::draw(heads, n, 9);
            let name = poison(&mut policy, what);
            let mut bench = Bench::new(policy, device());
            for loss in losses(&[0.5, 0.0], 0.2, 0.1) {
                let found = bench.look(&loss, 0.0, None, true).blocks.swap_remove(0);
                let (policy, count) = (&bench.policy, Loss::of(&loss).terms());
                let (mut kl, mut terms) = (0.0, vec![0.0; count]);
                for row in 0..ROWS {
                    let both = policy.single(row);
                    weigh(&loss, &policy.advantages[..3], row, both, &mut terms);
                    kl += f64::from(both.1);
                }
                let expected: Vec<bool> = std::iter::once(kl).chain(terms).map(f64::is_finite).collect();
                let found: Vec<bool> = found[..=count].iter().map(|x| x.is_finite()).collect();
                assert_eq!(found, expected, "{heads:?}, {name}, {loss:?}: which of the KL and the terms are finite");
            }
        }
    }
}

/// A number that is not one makes all outputs of its row the same, and of no other row.
fn check_layers(device: &dyn Fn() -> Box<dyn Device>) {
    const INPUTS: usize = 5;
    const OUTPUTS: usize = 20;
    for activation in [Activation::Tanh, Activation::Relu, Activation::Identity] {
        let mut device = device();
        let layer = Layer { at: 0, inputs: INPUTS, outputs: OUTPUTS, activation };
        let [x, parameters, y] = [3 * INPUTS, layer.len(), 3 * OUTPUTS].map(|len| told(device.floats(len)));
        let rows = [[0.5; INPUTS], [0.5, 0.5, f32::NAN, 0.5, 0.5], [0.5; INPUTS]].concat();
        told(device.write(x, 0, &rows));
        told(device.write(parameters, 0, &vec![0.1; layer.len()]));
        told(device.forward(x, parameters, layer, y, 3));
        let mut out = vec![0.0; 3 * OUTPUTS];
        told(device.read(y, &mut out));
        for (row, out) in out.chunks_exact(OUTPUTS).enumerate() {
            assert!(out.iter().all(|y| y.is_nan() == (row == 1)), "{activation:?}, row {row}: {out:?}");
        }
    }
}

#[test]
fn a_stand_in_weighs_rows_as_the_algorithms_do() {
    check(&|| Box::new(Host::default()));
}

#[test]
fn what_is_not_finite_is_seen_on_a_stand_in() {
    check_poisoned(&|| Box::new(Host::default()));
    check_layers(&|| Box::new(Host::default()));
}

#[cfg(feature = "gpu-tests")]
mod on_a_gpu {
    use super::*;
    use p3o_gpu::cuda::Cuda;

    #[test]
    fn a_gpu_weighs_rows_as_the_algorithms_do() {
        let gpu = told(Cuda::open(0));
        check(&|| Box::new(told(gpu.again())));
    }

    #[test]
    fn what_is_not_finite_is_seen_on_a_gpu() {
        let gpu = told(Cuda::open(0));
        check_poisoned(&|| Box::new(told(gpu.again())));
        check_layers(&|| Box::new(told(gpu.again())));
    }
}
