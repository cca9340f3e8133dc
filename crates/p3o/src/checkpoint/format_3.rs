//! What format 3 kept otherwise: the environments with their random streams and episodes, and the counters.

use crate::learner;
use crate::rollout::{Carried, EnvState, Episode};
use p3o_env::{EnvSpec, snapshot};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

pub(super) const FORMAT: u32 = 3;

/// One environment.
#[derive(Deserialize)]
struct OldEnv {
    env: Vec<u8>,
    rng: ChaCha8Rng,
    obs: Vec<f32>,
    _final_obs: Vec<f32>,
    _costs: Vec<f32>,
    _last: (f32, bool, bool, bool),
    running: Episode,
    _finished: Episode,
    first_cut: Option<usize>,
}

/// What the collector carried from batch to batch.
#[derive(Deserialize)]
struct Running {
    _discount: f64,
    _discounted_costs: Vec<f64>,
    states: Vec<f32>,
}

/// The counters.
#[derive(Deserialize)]
pub(super) struct Progress {
    updates: u64,
    steps: u64,
    costs: Vec<f64>,
    _discounted: Vec<f64>,
    length: f64,
    /// Of every constraint the cost and the discounted cost.
    remembered: Vec<(f64, f64)>,
}

impl From<Progress> for learner::Progress {
    fn from(old: Progress) -> Self {
        let smoothed = old.remembered.iter().map(|(cost, _)| *cost).collect();
        learner::Progress { updates: old.updates, steps: old.steps, costs: old.costs, length: old.length, smoothed }
    }
}

/// The worlds' snapshot as it is taken today, and what the collector carries.
pub(super) fn envs(spec: &EnvSpec, bytes: &[u8]) -> Result<(Vec<u8>, Carried), String> {
    let damaged = |_| "`envs` is damaged".to_string();
    let (worlds, running): (Vec<u8>, Vec<Running>) = postcard::from_bytes(bytes).map_err(damaged)?;
    let kind = format!("VecEnv of {} {}", running.len(), spec.name);
    let lanes: Vec<OldEnv> = snapshot::open(&kind, &worlds).map_err(|e| e.to_string())?;
    let mut carried = Carried { envs: Vec::new(), obs: Vec::new(), states: Vec::new() };
    for (lane, running) in lanes.iter().zip(running) {
        let (rng, episode, first_cut) = (lane.rng.clone(), lane.running.clone(), lane.first_cut);
        carried.envs.push(EnvState { rng, episode, first_cut });
        carried.obs.extend_from_slice(&lane.obs);
        carried.states.extend(running.states);
    }
    let frozen: Vec<Vec<u8>> = lanes.into_iter().map(|lane| lane.env).collect();
    Ok((snapshot::seal(&format!("{} x {}", frozen.len(), spec.name), &frozen), carried))
}
