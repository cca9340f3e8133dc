//! A learner as one safetensors file, and back, bit for bit.
//!
//! Networks and optimisers are named tensors that other tools can read (`actor.0.weight` is row-major
//! `[input, output]`; `agent.2.actor.0.weight` where every agent has its own); the environments, random streams, counters and normaliser are byte tensors. The metadata says what
//! the file is and carries a checksum over all of it. Nothing in it depends on time, threads or place.

use crate::config::Config;
use crate::error::Error;
use crate::learner::Learner;
use crate::record::{fnv1a, write_atomic};
use p3o_nn::{Adam, Network};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

const FORMAT: u32 = 3;
const KEY: &str = "p3o";
const DAMAGED: &str = "the checkpoint is damaged or not one at all";

/// What a checkpoint says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

    fn net(&self, name: &str, net: &mut Network<f32>, adam: &mut Adam<f32>) -> Result<(), String> {
        let mut flats = [vec![0.0; net.params().len()], vec![0.0; net.params().len()], vec![0.0; net.params().len()]];
        for (part, flat) in ["", ".adam_m", ".adam_v"].iter().zip(&mut flats) {
            for l in 0..net.depth() {
                let (rows, columns) = net.shape(l);
                let layer = format!("{name}{part}.{}", net.name(l));
                let weights = self.floats(&format!("{layer}.weight"), rows * columns)?;
                let bias = self.floats(&format!("{layer}.bias"), columns)?;
                net.pack(flat, l, &weights, &bias);
            }
        }
        net.set_params(&flats[0]);
        adam.set_state(&flats[1], &flats[2], self.value(&format!("{name}.adam_steps"))?);
        Ok(())
    }
}

/// Writes the whole state of a learner, atomically.
pub fn save(learner: &Learner, path: &Path) -> Result<(), Error> {
    Ok(write_atomic(path, &to_bytes(learner))?)
}

fn to_bytes(learner: &Learner) -> Vec<u8> {
    let mut store = Store::default();
    let (names, prefixes) = (critic_names(learner), prefixes(learner));
    for (group, prefix) in learner.groups.iter().zip(&prefixes) {
        let at = |name: &str| format!("{prefix}{name}");
        let policy = &group.actor.policy;
        store.net(&at("actor"), &policy.net, &policy.adam);
        let (m, v, steps) = policy.adam_log_std.state();
        for (name, values) in
            [("actor.log_std", &policy.log_std[..]), ("actor.adam_m.log_std", m), ("actor.adam_v.log_std", v)]
        {
            store.floats(at(name), vec![values.len()], values);
        }
        store.value(&at("actor.log_std.adam_steps"), &steps);
        for (name, critic) in names.iter().map(|name| at(name)).zip(&group.critics) {
            store.net(&name, &critic.net, &critic.adam);
            store.value(&format!("{name}.scale"), &critic.scale);
        }
        store.value(&at("shuffles"), &group.shuffles);
        store.value(&at("critic_states"), &group.critic_states());
        store.value(&at("normalizer"), &group.actor.normalizer);
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
    made.map(|Made { steps }| steps)
        .ok_or_else(|| Error::Checkpoint { path: path.to_path_buf(), reason: DAMAGED.into() })
}

/// Continues from a file that [`save`] wrote for the same task, algorithm and networks.
pub fn load(learner: &mut Learner, path: &Path) -> Result<(), Error> {
    let bytes = read(path)?;
    from_bytes(learner, &bytes).map_err(|reason| Error::Checkpoint { path: path.to_path_buf(), reason })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path)
        .map_err(|e| std::io::Error::new(e.kind(), format!("cannot read {}: {}", path.display(), plain(&e))).into())
}

fn from_bytes(learner: &mut Learner, bytes: &[u8]) -> Result<(), String> {
    let damaged = DAMAGED;
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|_| damaged)?;
    let about = header.metadata().as_ref().and_then(|m| m.get(KEY)).ok_or("this is not a checkpoint of p3o")?;
    // The format first, on its own: another one may describe itself in other words.
    let format: Format = serde_json::from_str(about).map_err(|_| damaged)?;
    if format.format != FORMAT {
        return Err(format!("the checkpoint has format {}, this program reads {FORMAT}", format.format));
    }
    let about: About = serde_json::from_str(about).map_err(|_| damaged)?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|_| damaged)?;
    let mut parts: Vec<(String, &[u8])> = tensors.tensors().into_iter().map(|(n, t)| (n, t.data())).collect();
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    if about.checksum != checksum(&about, parts.iter().map(|(n, b)| (n.as_str(), *b))) {
        return Err("the checkpoint is damaged: its checksum does not match".into());
    }
    let own = describe(learner);
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
    fill(learner, &Source(tensors))
}

fn fill(learner: &mut Learner, source: &Source) -> Result<(), String> {
    let (names, prefixes) = (critic_names(learner), prefixes(learner));
    for (group, prefix) in learner.groups.iter_mut().zip(&prefixes) {
        let at = |name: &str| format!("{prefix}{name}");
        let policy = &mut group.actor.policy;
        source.net(&at("actor"), &mut policy.net, &mut policy.adam)?;
        let n = policy.log_std.len();
        policy.log_std = source.floats(&at("actor.log_std"), n)?;
        let (m, v) = (source.floats(&at("actor.adam_m.log_std"), n)?, source.floats(&at("actor.adam_v.log_std"), n)?);
        policy.adam_log_std.set_state(&m, &v, source.value(&at("actor.log_std.adam_steps"))?);
        for (name, critic) in names.iter().map(|name| at(name)).zip(&mut group.critics) {
            source.net(&name, &mut critic.net, &mut critic.adam)?;
            critic.scale = source.value(&format!("{name}.scale"))?;
        }
        group.shuffles = source.value(&at("shuffles"))?;
        group.set_critic_states(source.value(&at("critic_states"))?);
        group.actor.normalizer = source.value(&at("normalizer"))?;
        if !group.multipliers.is_empty() {
            group.multipliers = source.value(&at("multipliers"))?;
        }
    }
    learner.collector.restore(source.bytes("envs")?).map_err(|e| e.to_string())?;
    learner.progress = source.value("progress")?;
    Ok(())
}

/// What stands before the names of each group's tensors: nothing, or the agent where every one has its own.
fn prefixes(learner: &Learner) -> Vec<String> {
    let groups = &learner.groups;
    let name = |first: usize| if groups.len() == 1 { String::new() } else { format!("agent.{first}.") };
    groups.iter().map(|group| name(group.actor.agents.start)).collect()
}

fn critic_names(learner: &Learner) -> Vec<String> {
    let costs = learner.constraints().iter().map(|&i| format!("critic.cost.{}", learner.spec().costs[i].name));
    std::iter::once("critic.reward".to_string()).chain(costs).collect()
}

fn describe(learner: &Learner) -> About {
    let Config { algo, rollout, net, .. } = &learner.config;
    let network = &learner.policy().net;
    let mut widths: Vec<String> = network.sizes().iter().map(usize::to_string).collect();
    if let Network::Recurrent(_) = network {
        let unit = widths.len() - 2;
        widths[unit].insert_str(0, "gru");
    }
    About {
        format: FORMAT,
        task: learner.spec().name.clone(),
        algo: algo.name.clone(),
        obs_dim: learner.spec().obs_dim,
        network: format!("{} {}", widths.join("-"), String::from(net.activation)),
        normalize_obs: rollout.normalize_obs,
        critics: critic_names(learner),
        envs: rollout.envs,
        updates: learner.progress.updates,
        steps: learner.progress.steps,
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
