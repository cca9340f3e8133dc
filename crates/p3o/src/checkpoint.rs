//! A learner as one safetensors file, and back, bit for bit; or only its policies, as an [`Agent`].
//!
//! Networks and optimisers are named tensors that other tools can read (`actor.0.weight` is row-major
//! `[input, output]`; `agent.2.actor.0.weight` where every agent has its own), and so is the normaliser of observations
//! (`normalizer.shift`, `.scale` and `.clip`, and the moments that they come from); the environments, random streams and
//! counters are byte tensors. The metadata says what the file is, with the run's settings, the world's description and a
//! digest of the rows of `progress.csv` so far, and carries a digest of the whole file (`checkpoint/seal.rs`). Nothing in it depends on time,
//! threads or place.
//!
//! Format 6 is written; 3 to 5 are read too (`checkpoint/older.rs`).

mod older;
mod seal;
mod state;
mod tensors;

use crate::agent::{Agent, Mind};
use crate::config::{Config, make_env};
use crate::error::Error;
use crate::folder::RunFolder;
use crate::learner::Learner;
use crate::memory;
use crate::normalize::Normalizer;
use crate::policy::Policy;
use crate::record::{read_file, write_atomic};
use crate::signals::Signals;
use p3o_env::{Actuation, EnvSpec};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use safetensors::tensor::{SafeTensors, serialize};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tensors::{Source, Store};

const FORMAT: u32 = 6;
const KEY: &str = "p3o";
const DAMAGED: &str = "the checkpoint is damaged or not one at all";
/// No checkpoint is as large as this.
const MOST_BYTES: u64 = 1 << 36;

/// What a checkpoint says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct About {
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
    /// As in config.toml. Format 3 has none.
    config: Option<String>,
    /// The world's description as TOML, which holds every number. Format 3 has none.
    spec: Option<String>,
    /// The digest of as many rows of progress.csv as there were updates; none outside of a run's folder.
    rows: Option<String>,
    /// Settings that were changed by hand and adopted.
    adopted: Vec<String>,
    /// What the worlds make of continuous actions, as TOML, which holds infinite numbers too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    actuation: Option<String>,
    digest: String,
}

/// The one entry that every format has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// An undamaged checkpoint.
pub(crate) struct Checkpoint {
    path: PathBuf,
    bytes: Vec<u8>,
    about: About,
}

/// Writes the whole state of a learner, atomically. The learner stays as it is; it may have to bring parts of its state back
/// from a device first.
pub fn save(learner: &mut Learner, path: &Path) -> Result<(), Error> {
    Ok(write_atomic(path, &to_bytes(learner, None)?)?)
}

/// The same in memory, with the digest of the run's rows.
pub(crate) fn to_bytes(learner: &mut Learner, rows: Option<String>) -> Result<Vec<u8>, Error> {
    learner.sync()?;
    let mut store = Store::default();
    state::write(learner, &mut store);
    let about = About { rows, ..describe(learner) };
    // One key alone: a map of several would be written in random order.
    let about = serde_json::to_string(&about).expect("plain data can be written to memory");
    let metadata = HashMap::from([(KEY.to_string(), about)]);
    Ok(seal::seal(serialize(store.views(), Some(metadata)).expect("the tensors were just made")))
}

/// Continues from a file that [`save`] wrote for the same task, algorithm and networks. Returns false if the worlds could not
/// be continued and have started new episodes.
pub fn load(learner: &mut Learner, path: &Path) -> Result<bool, Error> {
    Checkpoint::read(path)?.restore(learner)
}

/// The same from the bytes of such a file.
pub fn load_bytes(learner: &mut Learner, bytes: Vec<u8>) -> Result<bool, Error> {
    Checkpoint::of(bytes, Path::new("checkpoint"))?.restore(learner)
}

/// The policies of a run's folder or of a single checkpoint.
pub fn load_agent(path: &Path) -> Result<Agent, Error> {
    if path.is_file() {
        return Checkpoint::read(path)?.agent(None);
    }
    let run = RunFolder::open(path)?;
    run.checkpoint.agent(Some(run.config))
}

/// A file whose tensors were altered, with the digest that belongs to it now; none if it is no checkpoint. It lets tests reach
/// what lies behind the digest.
#[doc(hidden)]
pub fn reseal(bytes: Vec<u8>) -> Option<Vec<u8>> {
    let about: About = serde_json::from_str(&metadata(&bytes).ok()?).ok()?;
    seal::reseal(bytes, &about.digest)
}

fn metadata(bytes: &[u8]) -> Result<String, String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|_| DAMAGED)?;
    let about = header.metadata().as_ref().and_then(|m| m.get(KEY));
    Ok(about.ok_or("this is not a checkpoint of p3o")?.clone())
}

/// The description of an undamaged file of a known format.
fn inspect(bytes: &[u8]) -> Result<About, String> {
    let text = metadata(bytes)?;
    // The format first, on its own: another one may describe itself in other words.
    let Format { format } = serde_json::from_str(&text).map_err(|_| DAMAGED)?;
    let tensors = || SafeTensors::deserialize(bytes).map_err(|_| DAMAGED);
    match format {
        older::FORMAT_3 | older::FORMAT_4 => older::about(&text, &tensors()?),
        older::FORMAT_5 | FORMAT => {
            let about: About = serde_json::from_str(&text).map_err(|_| DAMAGED)?;
            tensors()?;
            match seal::is_whole(bytes, &about.digest) {
                true => Ok(about),
                false => Err("the checkpoint is damaged: its digest does not match".into()),
            }
        }
        _ => Err(format!("the checkpoint has format {format}, this program reads {} to {FORMAT}", older::FORMAT_3)),
    }
}

impl Checkpoint {
    /// Reads a file and checks that it is whole.
    pub fn read(path: &Path) -> Result<Checkpoint, Error> {
        Checkpoint::of(read_file(path, MOST_BYTES)?, path)
    }

    fn of(bytes: Vec<u8>, path: &Path) -> Result<Checkpoint, Error> {
        let about = inspect(&bytes).map_err(|reason| wrong(path, reason))?;
        Ok(Checkpoint { path: path.to_path_buf(), bytes, about })
    }

    /// The file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Updates that its learner had made.
    pub fn updates(&self) -> u64 {
        self.about.updates
    }

    /// Environment steps that its learner had made.
    pub fn steps(&self) -> u64 {
        self.about.steps
    }

    /// Its settings, if its format has them.
    pub fn config(&self) -> Result<Option<Config>, Error> {
        let read = |text: &String| Config::from_toml(text);
        let path = || self.path.clone();
        self.about.config.as_ref().map(read).transpose().map_err(|error| Error::ConfigFile { path: path(), error })
    }

    /// The digest of the run's rows, if its format has one.
    pub fn rows(&self) -> Option<&str> {
        self.about.rows.as_deref()
    }

    /// The digest of the file, if its format has one: older ones do not vouch for the run's settings and rows.
    pub fn digest(&self) -> Option<&str> {
        (self.about.format >= older::FORMAT_5).then_some(&self.about.digest)
    }

    /// The world's description.
    pub fn spec(&self, config: &Config) -> Result<EnvSpec, Error> {
        match &self.about.spec {
            Some(spec) => toml::from_str(spec).map_err(|_| wrong(&self.path, DAMAGED.into())),
            None => Ok(make_env(config.method(), &config.task, &config.env)?.spec().clone()),
        }
    }

    /// Lets a learner go on from here; see [`load`].
    pub fn restore(&self, learner: &mut Learner) -> Result<bool, Error> {
        let own = describe(learner);
        if self.about.actuation != own.actuation {
            let reason = "the checkpoint belongs to another run: its world has other bounds of actions";
            return Err(wrong(&self.path, reason.into()));
        }
        let continued = compare(&self.about, &own)
            .and_then(|()| state::read(learner, &self.source(), &self.about))
            .map_err(|reason| wrong(&self.path, reason))?;
        learner.adopted.clone_from(&self.about.adopted);
        Ok(continued)
    }

    /// Its policies. Format 3 needs the settings of its run's folder.
    pub fn agent(&self, config: Option<Config>) -> Result<Agent, Error> {
        let Some(config) = self.config()?.or(config) else {
            let reason = format!("a checkpoint of format {} is opened by its run's folder", self.about.format);
            return Err(wrong(&self.path, reason));
        };
        let spec = self.spec(&config)?;
        config.check(&spec)?;
        memory::check_all(&[memory::Estimate::of_agent(&config, &spec, 1)])?;
        let own = description(&config, &spec, &Signals::new(&config, &spec));
        let minds = compare(&self.about, &own).and_then(|()| minds(&config, &spec, &self.source(), self.about.format));
        let minds = minds.map_err(|reason| wrong(&self.path, reason))?;
        let (digest, adopted) = (self.digest().map(String::from), self.about.adopted.clone());
        let actuation = self.about.actuation.as_ref().map(|text| toml::from_str::<Actuation>(text)).transpose();
        let actuation = actuation.map_err(|_| wrong(&self.path, DAMAGED.into()))?;
        if actuation.as_ref().is_some_and(|actuation| !actuation.fits(spec.action.width())) {
            return Err(wrong(&self.path, DAMAGED.into()));
        }
        Ok(Agent { config, spec, steps: self.steps(), minds, digest, adopted, actuation })
    }

    fn source(&self) -> Source<'_> {
        Source::new(SafeTensors::deserialize(&self.bytes).expect("it was read when it was opened"))
    }
}

fn minds(config: &Config, spec: &EnvSpec, source: &Source, format: u32) -> Result<Vec<Mind>, String> {
    let groups = config.groups(spec);
    let mut minds = Vec::new();
    for (prefix, agents) in prefixes(groups.len()).iter().zip(groups) {
        let dim = spec.obs_dim / spec.agents;
        // The stream decides nothing: all it draws is replaced.
        let mut policy = Policy::new(&config.net, dim, &spec.action, &mut ChaCha8Rng::seed_from_u64(0));
        source.policy(&format!("{prefix}actor"), &mut policy)?;
        let fresh = Normalizer::new(dim, config.rollout.normalize_obs);
        let normalizer = read_normalizer(source, prefix, &fresh, format)?;
        minds.push(Mind { policy, normalizer, agents });
    }
    Ok(minds)
}

/// The normaliser of a group, which started from `fresh`.
fn read_normalizer(source: &Source, prefix: &str, fresh: &Normalizer, format: u32) -> Result<Normalizer, String> {
    let name = format!("{prefix}normalizer");
    let normalizer = match format {
        FORMAT => source.normalizer(&name, fresh)?,
        _ => source.value(&name)?,
    };
    normalizer.check(fresh).map_err(|what| format!("`{name}` {what}"))?;
    Ok(normalizer)
}

fn wrong(path: &Path, reason: String) -> Error {
    Error::Checkpoint { path: path.to_path_buf(), reason }
}

/// Whether a file is for the same networks in the same world.
fn compare(about: &About, own: &About) -> Result<(), String> {
    for (what, theirs, ours) in [
        ("task", &about.task, &own.task),
        ("algorithm", &about.algo, &own.algo),
        ("constraints", &about.critics.join(", "), &own.critics.join(", ")),
        ("observation size", &about.obs_dim.to_string(), &own.obs_dim.to_string()),
        ("network", &about.network, &own.network),
        ("rollout.normalize_obs", &about.normalize_obs.to_string(), &own.normalize_obs.to_string()),
        ("number of environments", &about.envs.to_string(), &own.envs.to_string()),
    ] {
        if theirs != ours {
            return Err(format!("the checkpoint belongs to another run: its {what} is {theirs}, not {ours}"));
        }
    }
    Ok(())
}

/// What stands before the names of each group's tensors: nothing, or the agent where every one has its own.
pub(crate) fn prefixes(groups: usize) -> Vec<String> {
    (0..groups).map(|agent| if groups == 1 { String::new() } else { format!("agent.{agent}.") }).collect()
}

fn critic_names(signals: &Signals) -> Vec<String> {
    let costs = signals.constraints().iter().map(|signal| format!("critic.cost.{}", signal.name));
    std::iter::once("critic.reward".to_string()).chain(costs).collect()
}

fn describe(learner: &Learner) -> About {
    let about = description(learner.config(), learner.spec(), learner.signals());
    About {
        updates: learner.progress.updates,
        steps: learner.progress.steps,
        config: Some(learner.config().to_toml()),
        spec: Some(toml::to_string(learner.spec()).expect("plain data can be written to memory")),
        adopted: learner.adopted.clone(),
        actuation: learner.actuation.as_ref().map(|a| toml::to_string(a).expect("plain data can be written to memory")),
        ..about
    }
}

/// What follows from the settings and the world alone.
fn description(config: &Config, spec: &EnvSpec, signals: &Signals) -> About {
    // Several discrete actions stand side by side: 5+5+5.
    let heads = spec.action.heads().iter().map(usize::to_string).collect::<Vec<_>>().join("+");
    let outputs = if heads.is_empty() { spec.action.outputs().to_string() } else { heads };
    let widths = config.net.widths(spec.obs_dim / spec.agents, &outputs);
    About {
        format: FORMAT,
        task: spec.name.clone(),
        algo: config.method().to_string(),
        obs_dim: spec.obs_dim,
        network: format!("{widths} {}", config.net.activation.word()),
        normalize_obs: config.rollout.normalize_obs,
        critics: critic_names(signals),
        envs: config.rollout.envs,
        updates: 0,
        steps: 0,
        config: None,
        spec: None,
        rows: None,
        adopted: Vec::new(),
        actuation: None,
        digest: seal::BLANK.into(),
    }
}
