//! Checkpoints of older versions. Formats 3 and 4 have a weaker checksum, FNV-1a over their description and the tensors' names
//! and bytes. Format 3 has no settings in it, and kept the environments with their random streams and episodes otherwise, and
//! the counters. Up to format 5 the normaliser was a byte tensor.

use super::About;
use super::DAMAGED;
use crate::learner;
use crate::record::fnv1a;
use crate::rollout::{Carried, EnvState, Episode};
use p3o_env::{EnvSpec, snapshot};
use rand_chacha::ChaCha8Rng;
use safetensors::tensor::SafeTensors;
use serde::{Deserialize, Serialize};

pub(super) const FORMAT_3: u32 = 3;
pub(super) const FORMAT_4: u32 = 4;
pub(super) const FORMAT_5: u32 = 5;

/// What such a checkpoint says of itself. The checksum is over this very text.
#[derive(Serialize, Deserialize)]
struct OldAbout {
    format: u32,
    task: String,
    algo: String,
    obs_dim: usize,
    network: String,
    normalize_obs: bool,
    critics: Vec<String>,
    envs: usize,
    updates: u64,
    steps: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spec: Option<String>,
    checksum: String,
}

/// The description of an undamaged file.
pub(super) fn about(text: &str, tensors: &SafeTensors) -> Result<About, String> {
    let mut old: OldAbout = serde_json::from_str(text).map_err(|_| DAMAGED)?;
    let claimed = std::mem::take(&mut old.checksum);
    let blank = serde_json::to_string(&old).expect("plain data can be written to memory");
    let mut parts = tensors.tensors();
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    let parts = parts.iter().flat_map(|(name, tensor)| [name.as_bytes(), tensor.data()]);
    if claimed != format!("{:016x}", fnv1a(std::iter::once(blank.as_bytes()).chain(parts))) {
        return Err("the checkpoint is damaged: its checksum does not match".into());
    }
    Ok(About {
        format: old.format,
        task: old.task,
        algo: old.algo,
        obs_dim: old.obs_dim,
        network: old.network,
        normalize_obs: old.normalize_obs,
        critics: old.critics,
        envs: old.envs,
        updates: old.updates,
        steps: old.steps,
        config: old.config,
        spec: old.spec,
        rows: None,
        adopted: Vec::new(),
        actuation: None,
        digest: String::new(),
    })
}

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
        learner::Progress {
            updates: old.updates,
            steps: old.steps,
            costs: old.costs,
            length: old.length,
            smoothed,
            ..Default::default()
        }
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
