//! `p3o env-step`: worlds for other programs, one JSON object per line in and out.
//!
//! In: `{"task": "AntCircle", "options": {"obs": 29}, "state": {"qpos": [..], "qvel": [..]}, "actions": [[..], ..]}`.
//! Options that are not given have their defaults. In place of a state there may be a seed, `"seed": 7`, whose episode begins;
//! without either it is that of seed 0. States are the named lists of `p3o_env::OpenEnv`; an action is a list too, of one
//! index for a task with discrete actions. Where a seed is given, actions may be left out.
//!
//! Out: `{"start": {"state", "derived", "obs"}, "steps": [{"state", "derived", "obs", "reward", "costs", "terminated",
//! "truncated"}, ..]}`. States and derived quantities are f64; actions, observation, reward and costs pass through f32,
//! as in training. Derived quantities after a step are those of the new state under the action that led there; at the
//! start, under the first action, or one of zeros if there is none. The first observation is that of an episode's reset, so
//! that there is none where a state was given. No step follows one that ended the episode. What is not finite is written as null.

use crate::Failure;
use crate::screen::say;
use p3o_env::{ActionSpace, OpenEnv, Quantities, tasks};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::BufRead;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    task: String,
    #[serde(default)]
    options: BTreeMap<String, f64>,
    state: Option<Quantities>,
    seed: Option<u64>,
    actions: Option<Vec<Vec<f64>>>,
}

#[derive(Serialize)]
struct Answer {
    start: Start,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Start {
    #[serde(flatten)]
    moment: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    obs: Option<Vec<f64>>,
}

#[derive(Serialize)]
struct Moment {
    state: Quantities,
    derived: Quantities,
}

#[derive(Serialize)]
struct Step {
    #[serde(flatten)]
    moment: Moment,
    obs: Vec<f64>,
    reward: f64,
    costs: BTreeMap<String, f64>,
    terminated: bool,
    truncated: bool,
}

/// `p3o env-step`
pub fn env_step() -> Result<(), Failure> {
    for (i, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line.map_err(|e| Failure::Failed(format!("cannot read line {}: {e}", i + 1)))?;
        let answer = answer(&line).map_err(|problem| Failure::Usage(format!("line {}: {problem}", i + 1)))?;
        say!("{}", serde_json::to_string(&answer).expect("numbers and names always have a JSON form"));
    }
    Ok(())
}

/// What a line of JSON holds, or what is wrong with it and where.
pub fn read_json<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|e| {
        let (text, place) = (e.to_string(), format!(" at line 1 column {}", e.column()));
        format!("{} (column {})", text.trim_end_matches(&place), e.column())
    })
}

fn answer(line: &str) -> Result<Answer, String> {
    let request: Request = read_json(line)?;
    let mut world = tasks::make_open(&request.task, &request.options).map_err(|e| e.to_string())?;
    let obs = match (request.state, request.seed) {
        (Some(_), Some(_)) => return Err("an episode begins from a state or from a seed, not from both".into()),
        (Some(state), None) => {
            world.set_state(state).map_err(|e| e.to_string())?;
            None
        }
        (None, seed) => {
            let mut obs = vec![0.0; world.spec().obs_dim];
            world.reset(seed.unwrap_or(0), &mut obs);
            Some(obs.into_iter().map(f64::from).collect())
        }
    };
    let given = match (request.actions, request.seed) {
        (Some(actions), _) => actions,
        (None, Some(_)) => Vec::new(),
        (None, None) => return Err("missing field `actions`".into()),
    };
    let actions = given.iter().enumerate().map(|(i, action)| checked(i, action, &world.spec().action));
    let actions: Vec<Vec<f32>> = actions.collect::<Result<_, _>>()?;
    if actions.is_empty() && request.seed.is_none() {
        return Err("there are no actions; give at least one".into());
    }
    let still = vec![0.0; world.spec().action_width()];
    let start = Start { moment: moment(&*world, actions.first().unwrap_or(&still)), obs };
    let mut steps: Vec<Step> = Vec::new();
    for action in &actions {
        steps.push(step(&mut *world, action));
        if steps.last().is_some_and(|s| s.terminated || s.truncated) {
            break;
        }
    }
    Ok(Answer { start, steps })
}

/// The action as the world takes it.
fn checked(i: usize, action: &[f64], space: &ActionSpace) -> Result<Vec<f32>, String> {
    let (i, found, expected) = (i + 1, action.len(), space.width());
    if found != expected {
        return Err(format!("action {i} has {found} numbers instead of {expected}"));
    }
    let narrow: Vec<f32> = action.iter().map(|a| *a as f32).collect();
    if narrow.iter().any(|a| !a.is_finite()) {
        return Err(format!("action {i} holds a number that is not finite as f32"));
    }
    let wrong = |(a, n): &(&f64, usize)| a.fract() != 0.0 || !(0.0..*n as f64).contains(*a);
    match action.iter().zip(space.heads()).find(wrong) {
        Some((a, n)) => Err(format!("action {i} is {a} and not a whole number from 0 to {}", n - 1)),
        None => Ok(narrow),
    }
}

fn moment(world: &dyn OpenEnv, action: &[f32]) -> Moment {
    Moment { state: world.state(), derived: world.derived(action) }
}

fn step(world: &mut dyn OpenEnv, action: &[f32]) -> Step {
    let mut obs = vec![0.0; world.spec().obs_dim];
    let mut costs = vec![0.0; world.spec().costs.len()];
    let outcome = world.step(action, &mut obs, &mut costs);
    let names = world.spec().costs.iter().map(|cost| cost.name.clone());
    Step {
        costs: names.zip(costs.into_iter().map(f64::from)).collect(),
        obs: obs.into_iter().map(f64::from).collect(),
        reward: f64::from(outcome.reward),
        terminated: outcome.terminated,
        truncated: outcome.truncated,
        moment: moment(world, action),
    }
}
