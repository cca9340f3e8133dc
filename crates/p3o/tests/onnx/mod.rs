//! An exported policy does what the agent does: a small reader and interpreter of ONNX files runs the graph beside it.

mod file;
mod interpreter;

use crate::util::{named_learner, small_task};
use file::{Axis, Model, Value};
use interpreter::{Tensor, run};
use p3o::evaluate::{Settings, evaluate};
use p3o::run::named_task;
use p3o::{Agent, onnx};
use p3o_env::{Env, Labels};
use serde_json::json;
use std::collections::BTreeMap;

type Case = (&'static str, &'static str, &'static [&'static str]);

/// Every kind of network, action and team, with and without normalisation.
const CASES: &[Case] = &[
    ("p3o", "PointGoal", &["rollout.normalize_obs=true"]),
    ("p3o", "PointGoal", &["rollout.normalize_obs=false", "net.activation=relu"]),
    ("p3o", "PointCircle", &["rollout.normalize_obs=true", "net.activation=identity", "net.hidden=[7]"]),
    ("p3o", "AntCircle", &["rollout.normalize_obs=true", "net.hidden=[40,33]"]),
    ("p3o", "PointGoal", &["rollout.normalize_obs=true", "net.gru=9"]),
    ("p3o", "PointGather", &["rollout.normalize_obs=true", "net.gru=33", "net.hidden=[8]", "net.activation=relu"]),
    ("p3o", "SimpleSpread", &["rollout.normalize_obs=true"]),
    ("p3o", "SimpleSpread", &["rollout.normalize_obs=true", "net.gru=8"]),
    ("p3o", "SimpleSpread", &["rollout.normalize_obs=true", "env.joint=product"]),
    ("map3o", "SimpleSpread", &["rollout.normalize_obs=true", "net.gru=0"]),
    ("map3o", "SimpleSpread", &["rollout.normalize_obs=true", "net.gru=8"]),
    ("map3o-dec", "SimpleSpread", &["rollout.normalize_obs=true", "net.gru=0"]),
    ("map3o-dec", "SimpleSpread", &["rollout.normalize_obs=true", "net.gru=8"]),
];

type Make = Box<dyn Fn() -> Box<dyn Env>>;

/// A policy after two updates so large that its actions are far from zero, and the world it was trained in.
fn trained((algo, task, changes): &Case) -> (Agent, Make) {
    let large = ["net.init=glorot", "policy.learning_rate=0.03", "policy.target_kl=1000"];
    let changes: Vec<&str> = changes.iter().copied().chain(large).collect();
    let config = small_task(algo, task, &changes);
    let make = named_task(&config).unwrap();
    let mut learner = named_learner(config);
    (0..2).for_each(|_| drop(learner.update().unwrap()));
    (learner.agent(), make)
}

fn exported(agent: &Agent) -> Model {
    Model::read(&onnx::to_bytes(agent, &Labels::default(), None).unwrap())
}

/// Batch, and agents where there are several, before the last axis.
fn shape(agent: &Agent, batch: usize, last: usize) -> Vec<usize> {
    match agent.spec().agents {
        1 => vec![batch, last],
        agents => vec![batch, agents, last],
    }
}

/// Whether a tensor is of the shape that the file promises for so many rows.
fn fits(value: &Value, tensor: &Tensor, batch: usize, agents: usize) -> bool {
    let length = |axis: &Axis| match axis {
        Axis::Any(name) if name == "batch" => batch,
        Axis::Any(name) if name == "agents" => agents,
        Axis::Any(name) => panic!("axis {name}"),
        Axis::Fixed(n) => *n,
    };
    let whole = tensor.values.iter().all(|x| x.fract() == 0.0);
    tensor.shape == value.shape.iter().map(length).collect::<Vec<_>>() && (whole || !value.whole)
}

/// One step of the graph; the states are empty for a feed-forward policy.
fn graph_step(model: &Model, agent: &Agent, obs: &[f32], states: &[f32], batch: usize) -> BTreeMap<String, Tensor> {
    let rows = batch * agent.spec().agents;
    let mut inputs = vec![("obs", Tensor::of(&shape(agent, batch, obs.len() / rows), obs))];
    if !states.is_empty() {
        inputs.push(("state", Tensor::of(&shape(agent, batch, states.len() / rows), states)));
    }
    let found = run(model, &inputs);
    for value in &model.outputs {
        let tensor = &found[&value.name];
        assert!(fits(value, tensor, batch, agent.spec().agents), "{value:?} is {:?}", tensor.shape);
    }
    found
}

/// Largest difference of two rows of numbers.
fn distance(found: &Tensor, expected: &[f32]) -> f64 {
    assert_eq!(found.values.len(), expected.len());
    found.values.iter().zip(expected).map(|(a, b)| (a - f64::from(*b)).abs()).fold(0.0, f64::max)
}

#[test]
fn the_graph_acts_as_the_agent_does() {
    const WORLDS: usize = 3;
    let (mut beyond, mut clipped) = (0, 0);
    for case in CASES {
        let (agent, make) = trained(case);
        let (model, spec) = (exported(&agent), agent.spec().clone());
        let mut worlds: Vec<Box<dyn Env>> = (0..WORLDS).map(|_| make()).collect();
        let mut obs = vec![0.0; WORLDS * spec.obs_dim];
        for (i, (world, obs)) in worlds.iter_mut().zip(obs.chunks_exact_mut(spec.obs_dim)).enumerate() {
            world.reset(i as u64, obs);
        }
        let mut state = agent.start(WORLDS);
        let mut actions = vec![0.0; WORLDS * spec.action_width()];
        let (mut costs, mut seen) = (vec![0.0; spec.costs.len()], std::collections::BTreeSet::new());
        for step in 0..30 {
            // One world starts anew while the others go on.
            if step == 11 {
                state.restart(1);
            }
            // What lies far outside of what was seen in training is clipped alike.
            if step == 5 && agent.config().rollout.normalize_obs {
                obs.iter_mut().for_each(|x| *x = 1e4 * (*x - 0.5));
                clipped += 1;
            }
            let found = graph_step(&model, &agent, &obs, state.states(), WORLDS);
            agent.act(&obs, &mut state, None, &mut actions);
            beyond += actions.iter().filter(|a| a.abs() > 1.0 && agent.action_bounds().is_some()).count();
            if let Some((low, high)) = agent.action_bounds() {
                actions.iter_mut().for_each(|a| *a = a.clamp(low, high));
            }
            let off = distance(&found["action"], &actions);
            assert!(off < 1e-5, "{case:?}, step {step}: action off by {off}");
            if !state.states().is_empty() {
                let off = distance(&found["next_state"], state.states());
                assert!(off < 1e-5, "{case:?}, step {step}: state off by {off}");
            }
            seen.extend(actions.iter().map(|a| a.to_bits()));
            for (i, world) in worlds.iter_mut().enumerate() {
                let obs = &mut obs[i * spec.obs_dim..][..spec.obs_dim];
                let outcome = world.step(&actions[i * spec.action_width()..][..spec.action_width()], obs, &mut costs);
                if outcome.terminated || outcome.truncated {
                    world.reset(100 + step, obs);
                    state.restart(i);
                }
            }
        }
        assert!(seen.len() > 1, "{case:?}: one action for everything");
    }
    assert!(beyond > 0 && clipped > 0, "nothing was beyond its bounds");
}

#[test]
fn the_file_says_what_goes_in_and_out() {
    for case in CASES {
        let (agent, _) = trained(case);
        let (model, spec, units) = (exported(&agent), agent.spec(), agent.actors()[0].policy.net.units());
        assert_eq!((model.ir_version, model.opset), (8, 17));
        assert_eq!(model.producer, ("p3o".into(), env!("CARGO_PKG_VERSION").into()));
        let any = |name: &str| Axis::Any(name.into());
        let leading = match (case.0, spec.agents) {
            (_, 1) => vec![any("batch")],
            ("map3o-dec", agents) => vec![any("batch"), Axis::Fixed(agents)],
            _ => vec![any("batch"), any("agents")],
        };
        let value = |name: &str, whole, last| {
            let shape = leading.iter().cloned().chain([Axis::Fixed(last)]).collect();
            Value { name: name.into(), whole, shape }
        };
        let mut inputs = vec![value("obs", false, spec.obs_dim / spec.agents)];
        let mut outputs = vec![value("action", agent.action_bounds().is_none(), spec.action.width())];
        if units > 0 {
            inputs.push(value("state", false, units));
            outputs.push(value("next_state", false, units));
        }
        assert_eq!((&model.inputs, &model.outputs), (&inputs, &outputs), "{case:?}");
        let prefix = if case.0 == "map3o-dec" { "agent.1." } else { "" };
        let normalized = model.constants.contains_key(&format!("{prefix}normalizer.shift"));
        assert_eq!(normalized, agent.config().rollout.normalize_obs, "{case:?}");
        // Every constant is used.
        let used: Vec<&String> = model.nodes.iter().flat_map(|node| &node.inputs).collect();
        let idle = model.constants.keys().find(|name| !used.contains(name));
        assert_eq!(idle, None, "{case:?}");
    }
}

#[test]
fn agents_that_share_a_policy_may_act_alone() {
    for gru in [&["net.gru=0"], &["net.gru=8"]] {
        let (agent, make) = trained(&("map3o", "SimpleSpread", gru));
        let model = exported(&agent);
        let spec = agent.spec();
        let (dim, units) = (spec.obs_dim / spec.agents, agent.actors()[0].policy.net.units());
        let mut obs = vec![0.0; spec.obs_dim];
        make().reset(5, &mut obs);
        let mut actions = vec![0.0; spec.action_width()];
        agent.act(&obs, &mut agent.start(1), None, &mut actions);
        for (obs, action) in obs.chunks_exact(dim).zip(&actions) {
            let mut inputs = vec![("obs", Tensor::of(&[1, 1, dim], obs))];
            if units > 0 {
                inputs.push(("state", Tensor::of(&[1, 1, units], &vec![0.0; units])));
            }
            assert_eq!(run(&model, &inputs)["action"].values, [f64::from(*action)]);
        }
    }
}

#[test]
fn the_metadata_says_what_the_policy_is() {
    let changes = &["rollout.normalize_obs=true", "env.level=2", "limits.hazards=20", "run.seed=9"];
    let (agent, make) = trained(&("p3o", "PointGoal", changes));
    let measured = evaluate(&agent, &*make, &Settings { episodes: 2, seed: 3, deterministic: true }).unwrap();
    let bytes = onnx::to_bytes(&agent, &make().labels(), Some(&measured)).unwrap();
    assert_eq!(bytes, onnx::to_bytes(&agent, &make().labels(), Some(&measured)).unwrap());
    let model = Model::read(&bytes);
    let metadata: BTreeMap<&str, &str> = model.metadata.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(metadata.len(), model.metadata.len(), "a name stands there twice");
    let plain = ["p3o", "task", "algorithm", "steps", "seed", "checkpoint", "agents", "policies"].map(|k| metadata[k]);
    // It comes from a learner, so no checkpoint vouches for it.
    assert_eq!(plain, [env!("CARGO_PKG_VERSION"), "PointGoal", "p3o", "800", "9", "", "1", "1"]);
    let parsed = |key: &str| -> serde_json::Value { serde_json::from_str(metadata[key]).unwrap() };
    assert_eq!(parsed("task_options"), json!({"level": 2.0}));
    assert_eq!(parsed("adopted"), json!([]));
    assert_eq!(parsed("limits"), json!({"hazards": 20.0, "vases": null}));
    let observation = parsed("observation");
    assert_eq!(observation.as_array().unwrap().len(), agent.spec().obs_dim);
    assert_eq!(observation[3], json!({"name": "velocimeter_forward", "unit": "m/s"}));
    assert_eq!(observation[12]["name"], "goal_lidar_0");
    assert_eq!(observation[59]["name"], "vases_lidar_15");
    let action = parsed("action");
    assert_eq!(action.as_array().unwrap().len(), 2);
    assert_eq!(
        (&action[1]["name"], &action[1]["low"], &action[1]["high"]),
        (&json!("turn_left"), &json!(-1.0), &json!(1.0))
    );
    let found = parsed("evaluation");
    // Read from text as well, which may round a number's last digit.
    let expected: serde_json::Value = serde_json::from_str(&serde_json::to_string(&measured).unwrap()).unwrap();
    assert_eq!(found["return"], expected["return"]);
    assert_eq!(found["costs"], expected["costs"]);
    assert!(found["costs"]["hazards"]["bounds"]["upper"].is_number());
    assert_eq!(
        (&found["episodes"], &found["deterministic"], &found["all_episodes"]),
        (&json!(2), &json!(true), &json!(null))
    );
}

#[test]
fn a_world_that_says_nothing_still_has_names() {
    let (agent, _) = trained(&("map3o-dec", "SimpleSpread", &["net.gru=0"]));
    let metadata: BTreeMap<String, String> = exported(&agent).metadata.into_iter().collect();
    let parsed = |key: &str| -> serde_json::Value { serde_json::from_str(&metadata[key]).unwrap() };
    assert_eq!(parsed("observation")[17], json!({"name": "obs_17", "unit": ""}));
    assert_eq!(parsed("action"), json!([{"name": "action_0", "unit": "", "choices": 5}]));
    assert_eq!((metadata["agents"].as_str(), metadata["policies"].as_str()), ("3", "3"));
    assert_eq!(parsed("evaluation"), json!(null));
}
