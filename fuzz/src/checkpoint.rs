//! Learners and agents from arbitrary checkpoints.

use super::altered::{Input, alter};
use super::one_line;
use p3o::run::named_task;
use p3o::{Agent, Config, Learner, Method, Request, checkpoint as file};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::OnceLock;

const KEY: &str = "p3o";

/// Small runs: a first-order one, one with a multiplier, one of the second order, and teams that remember.
const RUNS: [(&str, &str, &str); 5] = [
    ("PointGoal", "p3o", "rollout.normalize_obs=true"),
    ("PointGoal", "ppo-lag", "critic.normalize=true"),
    ("PointCircle", "cpo", "rollout.normalize_obs=false"),
    ("SimpleSpread", "map3o", "net.gru=2"),
    ("SimpleSpread", "map3o-dec", "net.gru=2"),
];

fn config(run: usize) -> Config {
    let (task, method, own) = RUNS[run];
    let method = Method::named(method).expect("a listed method");
    let mut set =
        ["rollout.envs=2", "rollout.batch=8", "net.hidden=2", "critic.passes=1", own].map(String::from).to_vec();
    if method.to_string().starts_with("ma") {
        set.push("net.bptt=4".into());
    }
    let request = Request { set, steps: Some(1000), ..Request::new(task, method) };
    request.resolve().expect("these settings are valid").config
}

fn learner(run: usize) -> Learner {
    static ALL: OnceLock<Vec<Config>> = OnceLock::new();
    let config = ALL.get_or_init(|| (0..RUNS.len()).map(config).collect())[run].clone();
    let make = named_task(&config).expect("a listed task");
    Learner::new(config, &*make).expect("these settings are valid")
}

/// A checkpoint of every run after two updates.
fn checkpoints() -> &'static [Vec<u8>] {
    static ALL: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let trained = |run| {
            let mut learner = learner(run);
            learner.update().expect("two updates of a small run");
            learner.update().expect("two updates of a small run");
            let file = tempfile::NamedTempFile::new().expect("there is room for temporary files");
            saved(&mut learner, file.path())
        };
        (0..RUNS.len()).map(trained).collect()
    })
}

fn saved(learner: &mut Learner, path: &Path) -> Vec<u8> {
    file::save(learner, path).expect("there is room for temporary files");
    std::fs::read(path).expect("it was just written")
}

/// Any bytes as a checkpoint, bare or with the digest that they need: refused in one line, or a learner that is the same when it
/// is saved and loaded again, and learns or says in one line why it cannot; and an agent that acts.
pub fn checkpoint(data: &[u8]) {
    let mut input = Input(data);
    let run = input.choice(RUNS.len());
    let bytes = match input.choice(2) {
        0 => input.0.to_vec(),
        _ => match altered(&checkpoints()[run], &mut input).and_then(file::reseal) {
            Some(bytes) => bytes,
            None => return,
        },
    };
    let home = tempfile::tempdir().expect("there is room for temporary files");
    let path = home.path().join("checkpoint.safetensors");
    std::fs::write(&path, bytes).expect("there is room for temporary files");
    match Agent::load(&path) {
        Ok(agent) => act(&agent),
        Err(error) => one_line(error),
    }
    let mut first = learner(run);
    if let Err(error) = file::load(&mut first, &path) {
        return one_line(error);
    }
    let once = saved(&mut first, &path);
    let mut second = learner(run);
    file::load(&mut second, &path).expect("a learner's own checkpoint");
    assert!(saved(&mut second, &path) == once, "saved and loaded again, a learner differs");
    if let Err(error) = first.update() {
        one_line(error);
    }
}

fn act(agent: &Agent) {
    let mut state = agent.start(1);
    let mut action = vec![0.0; agent.spec().action_width()];
    agent.act(&vec![0.5; agent.spec().obs_dim], &mut state, None, &mut action);
}

/// A good checkpoint with some tensors altered, left out or of another shape, or with another description.
fn altered(good: &[u8], input: &mut Input) -> Option<Vec<u8>> {
    let tensors = SafeTensors::deserialize(good).ok()?;
    let mut parts: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)> =
        tensors.iter().map(|(name, t)| (name.into(), (t.dtype(), t.shape().to_vec(), t.data().to_vec()))).collect();
    let mut about = about(good)?.into_bytes();
    while !input.is_empty() && !parts.is_empty() {
        let (kind, which) = (input.choice(8), input.byte());
        // Half of the time one of those that are not plain numbers.
        let structured = |part: &(Dtype, Vec<usize>, Vec<u8>)| part.0 == Dtype::U8 || kind % 2 == 0;
        let names: Vec<String> = parts.iter().filter(|(_, part)| structured(part)).map(|(n, _)| n.clone()).collect();
        let Some(name) = names.get(which % names.len().max(1)).cloned() else { continue };
        match kind {
            6 => drop(parts.remove(&name)),
            7 => alter(&mut about, input),
            _ => {
                let (dtype, shape, bytes) = parts.get_mut(&name).expect("it was just listed");
                let before = bytes.len();
                alter(bytes, input);
                if bytes.len() != before {
                    bytes.truncate(bytes.len() - bytes.len() % (dtype.bitsize() / 8).max(1));
                    *shape = vec![bytes.len() * 8 / dtype.bitsize()];
                }
            }
        }
    }
    let views = parts.iter().map(|(name, (dtype, shape, bytes))| {
        (name, TensorView::new(*dtype, shape.clone(), bytes).expect("shapes follow the bytes"))
    });
    serialize(views, Some(HashMap::from([(KEY.to_string(), String::from_utf8(about).ok()?)]))).ok()
}

fn about(bytes: &[u8]) -> Option<String> {
    let (_, header) = SafeTensors::read_metadata(bytes).ok()?;
    header.metadata().as_ref()?.get(KEY).cloned()
}
