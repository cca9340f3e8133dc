//! A learner as one safetensors file, and back, bit for bit; or only its policies, as an [`Agent`].
//!
//! Networks and optimisers are named tensors that other tools can read (`actor.0.weight` is row-major
//! `[input, output]`; `agent.2.actor.0.weight` where every agent has its own); the environments, random streams, counters
//! and normaliser are byte tensors. The metadata says what the file is, with the run's settings and the world's description,
//! and carries a checksum over all of it. Nothing in it depends on time, threads or place.
//!
//! Format 4 is written; format 3, which had no settings in it and kept environments otherwise, is read too (`format_3.rs`).

mod format_3;

use crate::agent::{Agent, Mind};
use crate::config::{Config, make_env};
use crate::error::Error;
use crate::learner::Learner;
use crate::normalize::Normalizer;
use crate::policy::Policy;
use crate::record::{fnv1a, write_atomic};
use crate::run::{checkpoint_path, load_config};
use crate::signals::Signals;
use p3o_env::EnvSpec;
use p3o_nn::{Adam, Network};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

const FORMAT: u32 = 4;
const KEY: &str = "p3o";
const DAMAGED: &str = "the checkpoint is damaged or not one at all";

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config: Option<String>,
    /// The world's description as TOML, which holds every number. Format 3 has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spec: Option<String>,
    checksum: String,
}

/// The one entry that every format has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// How far it has come, which every format says alike.
#[derive(Deserialize)]
struct Made {
    steps: u64,
}

/// Tensors on their way to a file.
#[derive(Default)]
struct Store(BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>);

impl Store {
    fn floats(&mut self, name: String, shape: Vec<usize>, values: &[f32]) {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.0.insert(name, (Dtype::F32, shape, bytes));
    }

    fn bytes(&mut self, name: &str, bytes: Vec<u8>) {
        self.0.insert(name.to_string(), (Dtype::U8, vec![bytes.len()], bytes));
    }

    fn value(&mut self, name: &str, value: &impl Serialize) {
        self.bytes(name, postcard::to_stdvec(value).expect("plain data can be written to memory"));
    }

    fn net(&mut self, name: &str, net: &Network<f32>, adam: &Adam<f32>) {
        let (m, v, steps) = adam.state();
        for (part, flat) in [("", net.params()), (".adam_m", m), (".adam_v", v)] {
            for l in 0..net.depth() {
                let ((weights, bias), (rows, columns)) = (net.unpack(flat, l), net.shape(l));
                let layer = format!("{name}{part}.{}", net.name(l));
                self.floats(format!("{layer}.weight"), vec![rows, columns], &weights);
                self.floats(format!("{layer}.bias"), vec![bias.len()], &bias);
            }
        }
        self.value(&format!("{name}.adam_steps"), &steps);
    }
}

/// Tensors on their way from a file.
struct Source<'a>(SafeTensors<'a>);

impl Source<'_> {
    fn bytes(&self, name: &str) -> Result<&[u8], String> {
        self.0.tensor(name).map(|t| t.data()).map_err(|_| format!("it has no `{name}`"))
    }

    fn value<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<T, String> {
        postcard::from_bytes(self.bytes(name)?).map_err(|_| format!("`{name}` is damaged"))
    }

    fn floats(&self, name: &str, len: usize) -> Result<Vec<f32>, String> {
        let tensor = self.0.tensor(name).map_err(|_| format!("it has no `{name}`"))?;
        if tensor.dtype() != Dtype::F32 || tensor.data().len() != 4 * len {
            return Err(format!("`{name}` has another shape than this run's network"));
        }
        let numbers = tensor.data().as_chunks::<4>().0.iter();
        Ok(numbers.map(|b| f32::from_le_bytes(*b)).collect())
    }

    /// All layers of a network, or of what its optimiser keeps for each parameter, in the network's own order.
    fn layers(&self, name: &str, net: &Network<f32>) -> Result<Vec<f32>, String> {
        let mut flat = vec![0.0; net.params().len()];
        for l in 0..net.depth() {
            let (rows, columns) = net.shape(l);
            let layer = format!("{name}.{}", net.name(l));
            let weights = self.floats(&format!("{layer}.weight"), rows * columns)?;
            let bias = self.floats(&format!("{layer}.bias"), columns)?;
            net.pack(&mut flat, l, &weights, &bias);
        }
        Ok(flat)
    }

    fn net(&self, name: &str, net: &mut Network<f32>, adam: &mut Adam<f32>) -> Result<(), String> {
        let (m, v) = (self.layers(&format!("{name}.adam_m"), net)?, self.layers(&format!("{name}.adam_v"), net)?);
        let parameters = self.layers(name, net)?;
        net.set_params(&parameters);
        adam.set_state(&m, &v, self.value(&format!("{name}.adam_steps"))?);
        Ok(())
    }

    /// A policy's parameters, without its optimiser.
    fn policy(&self, name: &str, policy: &mut Policy) -> Result<(), String> {
        let parameters = self.layers(name, &policy.net)?;
        policy.net.set_params(&parameters);
        policy.log_std = self.floats(&format!("{name}.log_std"), policy.log_std.len())?;
        Ok(())
    }
}

/// Writes the whole state of a learner, atomically.
pub fn save(learner: &Learner, path: &Path) -> Result<(), Error> {
    Ok(write_atomic(path, &to_bytes(learner))?)
}

fn to_bytes(learner: &Learner) -> Vec<u8> {
    let mut store = Store::default();
    let (names, prefixes) = (critic_names(learner.signals()), prefixes(learner.groups.len()));
    for (group, prefix) in learner.groups.iter().zip(&prefixes) {
        let at = |name: &str| format!("{prefix}{name}");
        let networks = group.engine.networks();
        let policy = &networks.policy;
        store.net(&at("actor"), &policy.net, &policy.adam);
        let (m, v, steps) = policy.adam_log_std.state();
        for (name, values) in
            [("actor.log_std", &policy.log_std[..]), ("actor.adam_m.log_std", m), ("actor.adam_v.log_std", v)]
        {
            store.floats(at(name), vec![values.len()], values);
        }
        store.value(&at("actor.log_std.adam_steps"), &steps);
        for (name, critic) in names.iter().map(|name| at(name)).zip(&networks.critics) {
            store.net(&name, &critic.net, &critic.adam);
            store.value(&format!("{name}.scale"), &critic.scale);
        }
        store.value(&at("shuffles"), &group.shuffles);
        store.value(&at("critic_states"), &group.engine.critic_states());
        store.value(&at("normalizer"), &group.normalizer);
        if !group.multipliers.is_empty() {
            store.value(&at("multipliers"), &group.multipliers);
        }
    }
    store.bytes("envs", learner.collector.snapshot());
    store.value("progress", &learner.progress);
    let mut about = describe(learner);
    let parts = store.0.iter().map(|(name, (_, _, bytes))| (name.as_str(), &bytes[..]));
    about.checksum = checksum(&about, parts);
    let views = store.0.iter().map(|(name, (dtype, shape, bytes))| {
        (name, TensorView::new(*dtype, shape.clone(), bytes).expect("shapes were taken from the data"))
    });
    // One key alone: a map of several would be written in random order.
    let about = serde_json::to_string(&about).expect("plain data can be written to memory");
    serialize(views, Some(HashMap::from([(KEY.to_string(), about)]))).expect("the tensors were just made")
}

/// The steps that a file says its learner had made; nothing else of it is read or checked.
pub fn steps(path: &Path) -> Result<u64, Error> {
    let bytes = read(path)?;
    let header = SafeTensors::read_metadata(&bytes).ok().and_then(|(_, header)| header.metadata().clone());
    let made = header.as_ref().and_then(|m| m.get(KEY)).and_then(|about| serde_json::from_str(about).ok());
    made.map(|Made { steps }| steps).ok_or_else(|| wrong(path, DAMAGED.into()))
}

/// Continues from a file that [`save`] wrote for the same task, algorithm and networks. Returns false if the worlds could not
/// be continued and have started new episodes.
pub fn load(learner: &mut Learner, path: &Path) -> Result<bool, Error> {
    let bytes = read(path)?;
    from_bytes(learner, &bytes).map_err(|reason| wrong(path, reason))
}

/// The policies of a run's folder or of a single checkpoint.
pub fn load_agent(path: &Path) -> Result<Agent, Error> {
    if path.is_file() {
        return open_agent(path, None);
    }
    let config = load_config(path)?;
    open_agent(&checkpoint_path(path), Some(config))
}

fn open_agent(path: &Path, config: Option<Config>) -> Result<Agent, Error> {
    let bytes = read(path)?;
    let (about, source) = open(&bytes).map_err(|reason| wrong(path, reason))?;
    let config = match (config, &about.config) {
        (Some(config), _) => config,
        (None, Some(text)) => {
            Config::from_toml(text).map_err(|error| Error::ConfigFile { path: path.to_path_buf(), error })?
        }
        (None, None) => {
            let reason = format!("a checkpoint of format {} is opened by its run's folder", about.format);
            return Err(wrong(path, reason));
        }
    };
    let spec = match &about.spec {
        Some(spec) => toml::from_str(spec).map_err(|_| wrong(path, DAMAGED.into()))?,
        None => make_env(config.method(), &config.task, &config.env)?.spec().clone(),
    };
    config.check(&spec)?;
    let own = description(&config, &spec, &Signals::new(&config, &spec));
    let minds = compare(&about, &own).and_then(|()| minds(&config, &spec, &source)).map_err(|r| wrong(path, r))?;
    Ok(Agent { config, spec, steps: about.steps, minds })
}

fn minds(config: &Config, spec: &EnvSpec, source: &Source) -> Result<Vec<Mind>, String> {
    let groups = config.groups(spec);
    let mut minds = Vec::new();
    for (prefix, agents) in prefixes(groups.len()).iter().zip(groups) {
        let dim = spec.obs_dim / spec.agents;
        // The stream decides nothing: all it draws is replaced.
        let mut policy = Policy::new(&config.net, dim, spec.action, &mut ChaCha8Rng::seed_from_u64(0));
        source.policy(&format!("{prefix}actor"), &mut policy)?;
        let normalizer: Normalizer = source.value(&format!("{prefix}normalizer"))?;
        if normalizer.dim() != dim {
            return Err(format!("`{prefix}normalizer` is for observations of {} numbers, not {dim}", normalizer.dim()));
        }
        minds.push(Mind { policy, normalizer, agents });
    }
    Ok(minds)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path)
        .map_err(|e| std::io::Error::new(e.kind(), format!("cannot read {}: {}", path.display(), plain(&e))).into())
}

fn wrong(path: &Path, reason: String) -> Error {
    Error::Checkpoint { path: path.to_path_buf(), reason }
}

/// An undamaged file of a known format.
fn open(bytes: &[u8]) -> Result<(About, Source<'_>), String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|_| DAMAGED)?;
    let about = header.metadata().as_ref().and_then(|m| m.get(KEY)).ok_or("this is not a checkpoint of p3o")?;
    // The format first, on its own: another one may describe itself in other words.
    let format: Format = serde_json::from_str(about).map_err(|_| DAMAGED)?;
    if !matches!(format.format, format_3::FORMAT | FORMAT) {
        let known = format!("{} and {FORMAT}", format_3::FORMAT);
        return Err(format!("the checkpoint has format {}, this program reads {known}", format.format));
    }
    let about: About = serde_json::from_str(about).map_err(|_| DAMAGED)?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|_| DAMAGED)?;
    let mut parts: Vec<(String, &[u8])> = tensors.tensors().into_iter().map(|(n, t)| (n, t.data())).collect();
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    if about.checksum != checksum(&about, parts.iter().map(|(n, b)| (n.as_str(), *b))) {
        return Err("the checkpoint is damaged: its checksum does not match".into());
    }
    Ok((about, Source(tensors)))
}

fn from_bytes(learner: &mut Learner, bytes: &[u8]) -> Result<bool, String> {
    let (about, source) = open(bytes)?;
    compare(&about, &describe(learner))?;
    fill(learner, &source, about.format)
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

fn fill(learner: &mut Learner, source: &Source, format: u32) -> Result<bool, String> {
    let (names, prefixes) = (critic_names(learner.signals()), prefixes(learner.groups.len()));
    for (group, prefix) in learner.groups.iter_mut().zip(&prefixes) {
        let at = |name: &str| format!("{prefix}{name}");
        group.engine.change_networks(&mut |networks| {
            let policy = &mut networks.policy;
            source.net(&at("actor"), &mut policy.net, &mut policy.adam)?;
            let n = policy.log_std.len();
            policy.log_std = source.floats(&at("actor.log_std"), n)?;
            let m = source.floats(&at("actor.adam_m.log_std"), n)?;
            let v = source.floats(&at("actor.adam_v.log_std"), n)?;
            policy.adam_log_std.set_state(&m, &v, source.value(&at("actor.log_std.adam_steps"))?);
            for (name, critic) in names.iter().map(|name| at(name)).zip(&mut networks.critics) {
                source.net(&name, &mut critic.net, &mut critic.adam)?;
                critic.scale = source.value(&format!("{name}.scale"))?;
            }
            Ok(())
        })?;
        group.shuffles = source.value(&at("shuffles"))?;
        group.engine.set_critic_states(source.value(&at("critic_states"))?);
        group.normalizer = source.value(&at("normalizer"))?;
        if !group.multipliers.is_empty() {
            group.multipliers = source.value(&at("multipliers"))?;
        }
    }
    if format == format_3::FORMAT {
        let (worlds, carried) = format_3::envs(learner.spec(), source.bytes("envs")?)?;
        learner.progress = source.value::<format_3::Progress>("progress")?.into();
        return learner.collector.restore_parts(Some(worlds), carried).map_err(|e| e.to_string());
    }
    learner.progress = source.value("progress")?;
    let continued = learner.collector.restore(source.bytes("envs")?).map_err(|e| e.to_string())?;
    if !continued {
        // New episodes start from states of zero, the critics' too.
        for group in &mut learner.groups {
            let zero = group.engine.critic_states().iter().map(|states| vec![0.0; states.len()]).collect();
            group.engine.set_critic_states(zero);
        }
    }
    Ok(continued)
}

/// What stands before the names of each group's tensors: nothing, or the agent where every one has its own.
fn prefixes(groups: usize) -> Vec<String> {
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
        ..about
    }
}

/// What follows from the settings and the world alone.
fn description(config: &Config, spec: &EnvSpec, signals: &Signals) -> About {
    let outputs = match spec.action {
        p3o_env::ActionSpace::Continuous { dim } => dim,
        p3o_env::ActionSpace::Discrete { n } => n,
    };
    let unit = config.net.is_recurrent().then(|| format!("gru{}", config.net.gru));
    let widths = std::iter::once(spec.obs_dim / spec.agents).chain(config.net.hidden.iter().copied());
    let widths = widths.map(|w| w.to_string()).chain(unit).chain([outputs.to_string()]);
    About {
        format: FORMAT,
        task: spec.name.clone(),
        algo: config.method().to_string(),
        obs_dim: spec.obs_dim,
        network: format!("{} {}", widths.collect::<Vec<_>>().join("-"), config.net.activation.word()),
        normalize_obs: config.rollout.normalize_obs,
        critics: critic_names(signals),
        envs: config.rollout.envs,
        updates: 0,
        steps: 0,
        config: None,
        spec: None,
        checksum: String::new(),
    }
}

/// FNV-1a over the description (without the checksum itself) and every tensor's name and bytes.
fn checksum<'a>(about: &About, parts: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let blank = About { checksum: String::new(), ..about.clone() };
    let text = serde_json::to_string(&blank).expect("plain data can be written to memory");
    let parts = parts.flat_map(|(name, bytes)| [name.as_bytes(), bytes]);
    let hash = fnv1a(std::iter::once(text.as_bytes()).chain(parts));
    format!("{hash:016x}")
}

fn plain(e: &std::io::Error) -> String {
    if e.kind() == std::io::ErrorKind::NotFound { "there is no such file".into() } else { e.to_string() }
}
