//! `p3o env-step` steps worlds from given states and refuses what it cannot read.

use crate::util::{Home, json, keys, text};
use serde_json::{Value, json as object};
use std::io::Write;
use std::process::{Output, Stdio};

fn env_step(lines: &str) -> Output {
    let home = Home::new();
    let mut command = home.command(&["env-step"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// One line in, one object out.
fn good(line: &Value) -> Value {
    let output = env_step(&format!("{line}\n"));
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{line}");
    json(&text(&output.stdout))
}

/// A good line and then a bad one: one answer, and one complaint that names line 2 and holds every part.
fn bad(line: &str, parts: &[&str]) {
    let output = env_step(&format!("{}\n{line}\n", object!({"task": "PointCircle", "actions": [[0, 0]]})));
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}: {complaint}");
    assert_eq!(text(&output.stdout).lines().count(), 1, "{line}");
    assert!(complaint.starts_with("p3o: line 2: ") && complaint.lines().count() == 1, "{line}: {complaint:?}");
    for part in parts {
        assert!(complaint.contains(part), "{line}: no {part:?} in {complaint}");
    }
}

#[test]
fn a_state_is_stepped_by_every_action() {
    // rllab's point turns by a quarter of the second number, then jumps by the first along its new heading.
    let robot = [1.0, 2.0, 0.25, 0.1, 0.2, 0.3];
    let found = good(&object!({"task": "PointCircle", "state": {"robot": robot}, "actions": [[1, -1], [0.5, 0]]}));
    assert_eq!(found["start"]["state"], object!({"robot": robot}));
    let steps = found["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0]["state"]["robot"], object!([2.0, 2.0, 0.0, 0.1, 0.2, 0.3]));
    assert_eq!(steps[1]["state"]["robot"], object!([2.5, 2.0, 0.0, 0.1, 0.2, 0.3]));
    let names = ["costs", "derived", "obs", "reward", "state", "terminated", "truncated"];
    assert_eq!(keys(&steps[1]), names);
    assert_eq!(steps[1]["costs"], object!({"boundary": 0.0}));
    // -dx y / (1 + 15 - |p|) = -0.5 * 2 / (16 - sqrt(10.25)), to the precision of f32.
    let reward = steps[1]["reward"].as_f64().unwrap();
    assert!((reward + 1.0 / (16.0 - 10.25f64.sqrt())).abs() < 1e-8, "{reward}");
}

#[test]
fn numbers_come_back_with_every_bit() {
    let x = 0.1 + 0.2;
    let qpos: Vec<f64> = (0..15).map(|i| if i == 2 { 0.75 } else { x / f64::from(i + 1) }).collect();
    let state = object!({"qpos": qpos, "qvel": vec![x; 14]});
    let found = good(&object!({"task": "AntCircle", "options": {"obs": 29}, "state": state, "actions": [vec![0; 8]]}));
    assert_eq!(found["start"]["state"], state);
    assert_eq!(found["start"]["derived"]["qacc"].as_array().unwrap().len(), 14);
    assert_eq!(found["steps"][0]["obs"].as_array().unwrap().len(), 29);
}

#[test]
fn what_one_step_gives_is_a_state_for_the_next() {
    let actions = [
        ("PointGoal", vec![0.5, 1.0]),
        ("Navigation", vec![0.5, 1.0]),
        ("AntCircle", vec![0.3; 8]),
        ("PointGather", vec![0.5, 0.5]),
        ("SimpleSpread", vec![2.0, 1.0, 0.0]),
    ];
    for (task, action) in actions {
        let both = good(&object!({"task": task, "actions": [action, action]}));
        let first = &both["steps"][0]["state"];
        let second = good(&object!({"task": task, "state": first, "actions": [action]}));
        assert_eq!(second["start"]["state"], *first, "{task}");
        assert_eq!(second["steps"][0]["state"], both["steps"][1]["state"], "{task}");
        assert_eq!(second["steps"][0]["obs"], both["steps"][1]["obs"], "{task}");
    }
}

#[test]
fn a_seed_begins_its_episode_with_the_first_observation() {
    for (task, action) in [("PointGoal", vec![0.5, 1.0]), ("SimpleSpread", vec![2.0, 1.0, 0.0])] {
        let of = |seed: u64| good(&object!({"task": task, "seed": seed, "actions": [action]}));
        let mut world = p3o_env::tasks::make(task, &Default::default()).unwrap();
        let mut first = vec![0.0; world.spec().obs_dim];
        world.reset(7, &mut first);
        let expected: Vec<f64> = first.iter().map(|x| f64::from(*x)).collect();
        assert_eq!(of(7)["start"]["obs"], object!(expected), "{task}");
        assert_ne!(of(8)["start"]["obs"], of(7)["start"]["obs"], "{task}");
        // The episode of seed 0 is the one without a seed, and its state alone leads to the same step.
        assert_eq!(good(&object!({"task": task, "actions": [action]})), of(0), "{task}");
        let by_state = good(&object!({"task": task, "state": of(7)["start"]["state"], "actions": [action]}));
        assert_eq!(by_state["steps"], of(7)["steps"], "{task}");
        assert_eq!(by_state["start"]["obs"], Value::Null, "{task}: a state has no first observation");
        // Without actions there is the start alone.
        for nothing in [object!({"task": task, "seed": 7}), object!({"task": task, "seed": 7, "actions": []})] {
            let found = good(&nothing);
            assert_eq!((&found["start"]["obs"], &found["steps"]), (&of(7)["start"]["obs"], &object!([])), "{task}");
            assert_eq!(found["start"]["state"], of(7)["start"]["state"], "{task}");
        }
    }
}

#[test]
fn an_episode_that_ended_takes_no_more_steps() {
    // A torso above 1 m ends the Ant's episode.
    let mut qpos = [0.0; 15];
    (qpos[2], qpos[3]) = (3.0, 1.0);
    let found =
        good(&object!({"task": "AntCircle", "state": {"qpos": qpos, "qvel": vec![0; 14]}, "actions": vec![[0; 8]; 2]}));
    assert_eq!(found["steps"].as_array().unwrap().len(), 1);
    assert_eq!(found["steps"][0]["terminated"], true);
}

#[test]
fn lines_that_cannot_be_read_are_refused() {
    bad("{\"task\": ", &["EOF", "column"]);
    bad("", &["EOF"]);
    bad(r#"{"task": "PointCircle", "actions": [[NaN, 0]]}"#, &["column"]);
    bad(r#"{"task": "PointCircle", "actions": [[1e999, 0]]}"#, &["out of range"]);
    bad(r#"{"task": "PointCircle"}"#, &["actions"]);
    bad(r#"{"task": "PointCircle", "action": [0, 0]}"#, &["unknown field `action`", "`actions`"]);
    bad(r#"{"task": "Chess", "actions": [[0]]}"#, &["Chess", "PointGoal, Navigation"]);
    bad(r#"{"task": "PointCircle", "seed": -1}"#, &["-1"]);
    bad(r#"{"task": "PointCircle", "seed": 1.5}"#, &["1.5"]);
    bad(r#"{"task": "PointCircle", "seed": 1, "state": {"robot": [1, 2, 3, 4, 5, 6]}}"#, &["not from both"]);
    bad(r#"{"task": "PointGoal", "options": {"level": 7}, "actions": [[0, 0]]}"#, &["level = 7", "one of 0, 1, 2"]);
}

#[test]
fn states_that_do_not_fit_are_refused() {
    let line = |state: &str| format!(r#"{{"task": "PointCircle", "state": {state}, "actions": [[0, 0]]}}"#);
    bad(&line("{}"), &["no \"robot\""]);
    bad(&line(r#"{"robot": [1, 2, 3]}"#), &["\"robot\" has 3 numbers instead of 6"]);
    bad(&line(r#"{"robot": [1, 2, 3, 4, 5, 6], "goal": [1, 2]}"#), &["no \"goal\"", "it has robot"]);
    bad(&line(r#"{"robot": [1, 2, 3, 4, 5, null]}"#), &["null"]);
    let gather = |apples: &str| {
        format!(
            r#"{{"task": "PointGather", "state": {{"robot": [0,0,0,0,0,0], "apples": {apples}, "bombs": []}}, "actions": [[0, 0]]}}"#
        )
    };
    bad(&gather("[1, 2, 3]"), &["\"apples\" has 3 numbers", "even number from 0 to 16"]);
    let spread = r#"{"task": "SimpleSpread", "state": {"positions": [0, 0], "velocities": [], "landmarks": []}, "actions": [[0, 0, 0]]}"#;
    bad(spread, &["\"positions\" has 2 numbers instead of 6"]);
}

#[test]
fn actions_that_do_not_fit_are_refused() {
    bad(r#"{"task": "PointCircle", "actions": []}"#, &["no actions"]);
    bad(r#"{"task": "PointCircle", "actions": [[0, 0], [0]]}"#, &["action 2 has 1 numbers instead of 2"]);
    bad(r#"{"task": "PointCircle", "actions": [[1e300, 0]]}"#, &["action 1", "not finite"]);
    for index in ["-1", "125", "1.5"] {
        let product = r#""options": {"joint": 1}"#;
        let line = format!(r#"{{"task": "SimpleSpread", {product}, "actions": [[{index}]]}}"#);
        bad(&line, &["action 1 is", index, "from 0 to 124"]);
        let line = format!(r#"{{"task": "SimpleSpread", "actions": [[4, 0, {index}]]}}"#);
        bad(&line, &["action 1 is", index, "from 0 to 4"]);
    }
}
