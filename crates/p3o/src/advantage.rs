//! Generalised advantage estimates and value targets: pure functions of slices.

/// One signal (the reward or a cost) along the steps of one environment.
pub struct Along<'a> {
    /// What each step gave.
    pub given: &'a [f32],
    /// The critic's value of each step's observation.
    pub values: &'a [f32],
    /// The critic's value of the observation after each step: zero where the task terminated, the bootstrap where the
    /// time limit or the batch cut the episode.
    pub next_values: &'a [f32],
    /// Whether the next entry belongs to another episode (or there is none).
    pub cuts: &'a [bool],
}

/// Fills the advantages and the value targets of one environment's steps.
///
/// With delta_t = x_t + gamma V(s_{t+1}) - V(s_t), the advantage is sum_k (gamma lambda)^k delta_{t+k} and the target the
/// discounted sum of what follows (Algorithm 1, lines 3 and 4), both up to the next cut and with its bootstrap.
pub fn gae(signal: &Along, gamma: f64, lambda: f64, advantages: &mut [f32], targets: &mut [f32]) {
    let (mut advantage, mut target) = (0.0, 0.0);
    for t in (0..signal.given.len()).rev() {
        let (x, next) = (f64::from(signal.given[t]), f64::from(signal.next_values[t]));
        if signal.cuts[t] {
            (advantage, target) = (0.0, next);
        }
        let delta = x + gamma * next - f64::from(signal.values[t]);
        advantage = delta + gamma * lambda * advantage;
        target = x + gamma * target;
        advantages[t] = advantage as f32;
        targets[t] = target as f32;
    }
}

/// Mean and standard deviation of a batch of advantages, summed in f64 in order.
pub fn moments(values: &[f32]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    let variance = values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt())
}

/// Maps a batch to (x - shift) / scale.
pub fn rescale(values: &mut [f32], shift: f64, scale: f64) {
    values.iter_mut().for_each(|x| *x = ((f64::from(*x) - shift) / scale) as f32);
}

/// 1 - var(target - value) / var(target); zero where the targets do not vary.
pub fn explained_variance(values: &[f32], targets: &[f32]) -> f64 {
    let n = values.len() as f64;
    // Two sums side by side take as long as one.
    let both = || values.iter().zip(targets).map(|(v, t)| (f64::from(*t), f64::from(t - v)));
    let sums = both().fold((0.0, 0.0), |sums, (t, e)| (sums.0 + t, sums.1 + e));
    let (mean, mean_error) = (sums.0 / n, sums.1 / n);
    let squares = both().map(|(t, e)| ((t - mean).powi(2), (e - mean_error).powi(2)));
    let squares = squares.fold((0.0, 0.0), |sums, (t, e)| (sums.0 + t, sums.1 + e));
    let spread = (squares.0 / n).sqrt();
    if spread < 1e-12 { 0.0 } else { 1.0 - squares.1 / n / (spread * spread) }
}
