//! A run's last policy, played with its likeliest actions: what published tables show. A figure of training is of drawn actions,
//! whose noise costs return and, where a limit is sharp, most of the cost.

use crate::sweep::Job;
use p3o::evaluate::{Settings, evaluate};
use p3o::record::{read_text, write_atomic};
use p3o::run::named_task;
use p3o::{Agent, Error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The file in a run's folder.
const FILE: &str = "likeliest.json";
/// Bytes of it, at most.
const LONGEST: u64 = 1 << 20;
const HOW: Settings = Settings { episodes: EPISODES, seed: 1_000_000, deterministic: true };

/// Episodes of each policy.
pub const EPISODES: usize = 50;

/// Means over the episodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Likeliest {
    /// Steps that the policy was trained for.
    pub trained_steps: u64,
    /// The digest of its checkpoint.
    pub checkpoint: Option<String>,
    /// Episodes played.
    pub episodes: usize,
    /// Return.
    #[serde(rename = "return")]
    pub ret: f64,
    /// Every cost.
    pub costs: BTreeMap<String, f64>,
}

impl Likeliest {
    /// What was written of a finished run; none if nothing was, or of a policy that is no longer its last.
    pub fn of(job: &Job) -> Option<Likeliest> {
        let text = read_text(&job.folder.join(FILE), LONGEST).ok()?;
        let found: Likeliest = serde_json::from_str(&text).ok()?;
        (found.trained_steps == job.steps() && found.episodes == EPISODES).then_some(found)
    }

    /// Plays a finished run's last policy and writes what came of it.
    pub fn play(job: &Job) -> Result<(), Error> {
        let agent = Agent::load(&job.folder)?;
        let played = evaluate(&agent, &*named_task(agent.config())?, &HOW)?;
        let likeliest = Likeliest {
            trained_steps: played.trained_steps,
            checkpoint: played.checkpoint,
            episodes: played.episodes,
            ret: played.ret.mean,
            costs: played.costs.into_iter().map(|(name, cost)| (name, cost.mean)).collect(),
        };
        likeliest.write(&job.folder)
    }

    /// Writes it to a run's folder.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).expect("plain data can be written to memory");
        Ok(write_atomic(&folder.join(FILE), text.as_bytes())?)
    }
}
