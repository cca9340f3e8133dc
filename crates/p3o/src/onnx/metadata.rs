//! What an exported policy says of itself.

use crate::agent::Agent;
use crate::evaluate::Evaluation;
use p3o_env::{ActionSpace, Actuation, Label, Labels};
use serde_json::{Value, json};

/// Names and values, in order. Values with a structure are JSON:
///
/// | name | value |
/// |---|---|
/// | `p3o` | version of the program that wrote the file |
/// | `task`, `task_options` | the world and its options, where they were set |
/// | `algorithm`, `steps`, `seed` | how the policy was trained |
/// | `checkpoint` | the digest of its checkpoint; empty if it has none |
/// | `adopted` | settings that were changed by hand, a list |
/// | `agents`, `policies` | how many agents act, and whether by one policy or one each |
/// | `observation` | for every number of an observation, in order: `name` and `unit` |
/// | `action` | for every number of an action, in order: `name`, `unit`, and `low` and `high` or how many `choices` |
/// | `limits` | the limit of every cost over an episode that it was trained under; null where it had none |
/// | `evaluation` | what `p3o evaluate --deterministic --json` says, without the episodes; null if nothing was measured |
pub fn metadata(agent: &Agent, labels: &Labels, measured: Option<&Evaluation>) -> Vec<(String, String)> {
    let (spec, config) = (agent.spec(), agent.config());
    let dim = spec.obs_dim / spec.agents;
    let observation: Vec<Value> = named("obs", dim, &labels.observation).collect();
    let limits = spec.costs.iter().zip(agent.limits());
    // JSON has no infinity: a cost without a limit has null.
    let limits: serde_json::Map<String, Value> =
        limits.map(|(cost, limit)| (cost.name.clone(), limit.into())).collect();
    let entries = [
        ("p3o", env!("CARGO_PKG_VERSION").to_string()),
        ("task", config.task.clone()),
        ("task_options", json!(config.env).to_string()),
        ("algorithm", config.method().to_string()),
        ("steps", agent.trained_steps().to_string()),
        ("seed", config.run.seed.to_string()),
        ("checkpoint", agent.digest().unwrap_or_default().to_string()),
        ("adopted", json!(agent.adopted()).to_string()),
        ("agents", spec.agents.to_string()),
        ("policies", agent.minds.len().to_string()),
        ("observation", json!(observation).to_string()),
        ("action", json!(action(&spec.action, &labels.action, agent.actuation())).to_string()),
        ("limits", json!(limits).to_string()),
        ("evaluation", json!(measured.map(without_episodes)).to_string()),
    ];
    entries.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// So many numbers with what the world says of them; with a name at least, if it says nothing.
fn named<'a>(what: &'a str, count: usize, labels: &'a [Label]) -> impl Iterator<Item = Value> + 'a {
    let known = labels.len() == count;
    (0..count).map(move |i| if known { json!(labels[i]) } else { json!({"name": format!("{what}_{i}"), "unit": ""}) })
}

fn action(space: &ActionSpace, labels: &[Label], actuation: Option<&Actuation>) -> Vec<Value> {
    let heads = space.heads();
    let mut numbers: Vec<Value> = named("action", space.width(), labels).collect();
    for (i, number) in numbers.iter_mut().enumerate() {
        match heads.get(i) {
            Some(choices) => number["choices"] = json!(choices),
            None => {
                // JSON has no infinity: an action without a bound has null.
                let (low, high) = actuation.map_or((-1.0, 1.0), |actuation| actuation.bounds(i));
                (number["low"], number["high"]) = (json!(low), json!(high));
            }
        }
    }
    numbers
}

fn without_episodes(evaluation: &Evaluation) -> Value {
    let mut value = json!(evaluation);
    value.as_object_mut().expect("an evaluation has fields").remove("all_episodes");
    value
}
