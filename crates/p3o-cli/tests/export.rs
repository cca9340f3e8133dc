//! `p3o export` writes a policy that other programs run; `p3o act` runs it for them.

use crate::util::{Home, checkpoint, json, small, text};
use p3o::{Algorithm, Request, Run};
use p3o_env::{ActionSpace, Env, EnvSpec, Outcome};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::process::{Output, Stdio};

/// A world that the program does not know by name.
struct Lamp(EnvSpec);

impl Env for Lamp {
    fn spec(&self) -> &EnvSpec {
        &self.0
    }

    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        obs.fill(seed as f32 / u64::MAX as f32);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], _costs: &mut [f32]) -> Outcome {
        obs.fill(action[0]);
        Outcome { reward: action[0], terminated: false, truncated: true }
    }
}

#[test]
fn a_policy_of_a_world_that_cannot_be_made_leaves_unmeasured() {
    let (home, action) = (Home::new(), ActionSpace::Continuous { dim: 1 });
    let spec = EnvSpec { name: "Lamp".into(), obs_dim: 2, action, agents: 1, costs: Vec::new(), horizon: 1 };
    let make = || -> Box<dyn Env> { Box::new(Lamp(spec.clone())) };
    let mut config = Request::new("Lamp", Algorithm::Ppo.into()).resolve_for(&spec).unwrap().config;
    ["rollout.envs=2", "rollout.batch=20", "run.steps=20"].iter().for_each(|change| config.set(change).unwrap());
    let mut run = Run::start(config, &make, &home.path("run")).unwrap();
    run.train(&mut |_, _| ControlFlow::Continue(())).unwrap();
    drop(run);
    let line = home.bad(1, &["export", "run", "-o", "policy.onnx"]);
    assert!(line.contains("Lamp") && line.contains("--episodes 0 exports the policy"), "{line}");
    assert!(!home.path("policy.onnx").exists());
    home.good(&["export", "run", "-o", "policy.onnx", "--episodes", "0"]);
    assert_eq!(answers(&home, &[], "[0.1, 0.2]\n")[0].len(), 1);
}

/// A small run in this folder.
fn trained(home: &Home, task: &str, more: &[&str]) {
    let arguments = [more, &["--steps", "800", "--seed", "1", "--out", "run"]].concat();
    assert!(home.p3o(&small(task, &arguments)).status.success());
}

fn act(home: &Home, options: &[&str], input: &[u8]) -> Output {
    let mut command = home.command(&[&["act", "run"], options].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that has refused something reads no further.
    child.stdin.take().unwrap().write_all(input).ok();
    child.wait_with_output().unwrap()
}

/// What is answered to lines that are all good.
fn answers(home: &Home, options: &[&str], lines: &str) -> Vec<Vec<f64>> {
    let output = act(home, options, lines.as_bytes());
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{lines}");
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn raw_answers(home: &Home, options: &[&str], numbers: &[f32]) -> Vec<f32> {
    let input: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    let output = act(home, &[&["--raw"], options].concat(), &input);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    output.stdout.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Some observation of PointCircle.
fn observation(i: usize) -> Vec<f32> {
    (0..5).map(|k| ((7 * i + 3 * k) as f32 * 0.61).sin()).collect()
}

fn line(obs: &[f32]) -> String {
    serde_json::to_string(obs).unwrap() + "\n"
}

#[test]
fn a_policy_is_written_with_what_was_measured_of_it() {
    let home = Home::new();
    trained(&home, "PointCircle", &[]);
    let told = home.good(&["export", "run", "-o", "policy.onnx", "--episodes", "8", "--seed", "4"]);
    assert!(told.starts_with("policy.onnx: ") && told.contains("over 8 episodes"), "{told}");
    assert!(told.contains("  cost boundary ") && told.contains(", limit 5: "), "{told}");
    let bytes = std::fs::read(home.path("policy.onnx")).unwrap();
    // The figures are those of `evaluate`, and the file names its checkpoint.
    let evaluate = ["evaluate", "run", "--deterministic", "--episodes", "8", "--seed", "4", "--json"];
    let found = json(&home.good(&evaluate));
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds(&found["return"].to_string()), "no {}", found["return"]);
    assert!(holds(&found["costs"].to_string()), "no {}", found["costs"]);
    assert!(holds(found["checkpoint"].as_str().unwrap()));
    assert!(holds("{\"name\":\"circle_beyond\",\"unit\":\"15 m, negative inside\"}"));
    // The same again, and over the old file.
    home.good(&["export", "run", "-o", "policy.onnx", "--episodes", "8", "--seed", "4", "--threads", "1"]);
    assert!(std::fs::read(home.path("policy.onnx")).unwrap() == bytes);
    // A checkpoint alone will do; nothing need be measured.
    let file = checkpoint(&home.path("run"));
    let told = home.good(&["export", file.to_str().unwrap(), "-o", "other.onnx", "--episodes", "0"]);
    assert!(told.contains("nothing was measured"), "{told}");
}

#[test]
fn exports_that_cannot_be_are_refused() {
    let home = Home::new();
    trained(&home, "PointCircle", &[]);
    assert!(home.bad(2, &["export", "run", "-o", "policy.pt"]).contains("FILE.onnx, not policy.pt"));
    assert!(home.bad(2, &["export", "run"]).contains("--output"));
    assert!(home.bad(2, &["export", "run", "-o", "a.onnx", "--episodes", "-1"]).contains("-1"));
    home.bad(1, &["export", "nowhere", "-o", "a.onnx"]);
    home.bad(1, &["export", "run", "-o", "nowhere/a.onnx", "--episodes", "0"]);
    assert!(!home.path("a.onnx").exists());
}

#[test]
fn lines_and_raw_numbers_get_the_same_actions() {
    let home = Home::new();
    trained(&home, "PointCircle", &[]);
    let all: Vec<Vec<f32>> = (0..20).map(observation).collect();
    let by_lines = answers(&home, &[], &all.iter().map(|obs| line(obs)).collect::<String>());
    let raw = raw_answers(&home, &[], &all.concat());
    assert_eq!((by_lines.len(), raw.len()), (20, 40));
    assert_eq!(by_lines.concat().iter().map(|a| *a as f32).collect::<Vec<_>>(), raw);
    assert!(raw.iter().all(|a| a.abs() <= 1.0) && raw[0] != raw[2]);
    // They are the agent's own.
    let agent = p3o::Agent::load(&home.path("run")).unwrap();
    let mut action = [0.0; 2];
    agent.act(&all[19], &mut agent.start(1), None, &mut action);
    assert_eq!(raw[38..], action.map(|a| a.clamp(-1.0, 1.0)));
}

#[test]
fn each_answer_comes_before_the_next_observation_is_sent() {
    let home = Home::new();
    trained(&home, "PointCircle", &[]);
    let mut child = home.command(&["act", "run"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    for i in 0..3 {
        input.write_all(line(&observation(i)).as_bytes()).unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert_eq!(json(&answer).as_array().unwrap().len(), 2);
    }
    drop(input);
    assert_eq!((output.read_to_end(&mut Vec::new()).unwrap(), child.wait().unwrap().code()), (0, Some(0)));
}

#[test]
fn a_recurrent_policy_remembers_until_it_is_told_to_start() {
    let home = Home::new();
    trained(&home, "PointCircle", &["--set", "net.gru=8"]);
    let obs = observation(1);
    let start = format!("{{\"start\": true, \"obs\": {}}}\n", line(&obs).trim());
    let goes_on = format!("{{\"obs\": {}}}\n", line(&obs).trim());
    let found = answers(&home, &[], &[line(&obs), line(&obs), goes_on, start, line(&obs)].concat());
    assert_ne!(found[0], found[1]);
    assert_ne!(found[1], found[2]);
    assert_eq!([&found[3], &found[4]], [&found[0], &found[1]]);
    let flagged = |flag: f32| [&[flag], &obs[..]].concat();
    let raw = raw_answers(&home, &["--starts"], &[flagged(1.0), flagged(0.0), flagged(0.0), flagged(1.0)].concat());
    let expected: Vec<f32> = found[..4].concat().iter().map(|a| *a as f32).collect();
    assert_eq!(raw, expected);
}

#[test]
fn drawn_actions_follow_from_the_seed() {
    let home = Home::new();
    trained(&home, "PointCircle", &[]);
    let lines = line(&observation(1)).repeat(6);
    let drawn = |seed: &str| answers(&home, &["--sample", "--seed", seed], &lines);
    let likeliest = answers(&home, &[], &lines);
    assert!(likeliest.iter().all(|action| *action == likeliest[0]));
    assert_eq!(drawn("3"), drawn("3"));
    assert_ne!(drawn("3"), drawn("4"));
    assert_ne!(drawn("3")[0], drawn("3")[1]);
    assert!(drawn("3").concat().iter().all(|a| a.abs() <= 1.0));
    assert!(home.bad(2, &["act", "run", "--seed", "3"]).contains("--sample"));
    assert!(home.bad(2, &["act", "run", "--starts"]).contains("--raw"));
    home.bad(1, &["act", "nowhere"]);
}

#[test]
fn discrete_actions_are_indices_for_every_agent() {
    for algo in ["p3o", "map3o", "map3o-dec"] {
        let home = Home::new();
        trained(&home, "SimpleSpread", &["--algo", algo]);
        let obs: Vec<f32> = (0..54).map(|k| (k as f32 * 0.37).cos()).collect();
        let output = act(&home, &[], line(&obs).as_bytes());
        let found: Value = json(&text(&output.stdout));
        let indices: Vec<u64> = found.as_array().unwrap().iter().map(|i| i.as_u64().expect("a whole number")).collect();
        assert!(indices.len() == 3 && indices.iter().all(|i| *i < 5), "{algo}: {indices:?}");
        home.good(&["export", "run", "-o", "policy.onnx", "--episodes", "2"]);
    }
}

#[test]
fn observations_that_cannot_be_used_are_refused_in_one_sentence() {
    let home = Home::new();
    trained(&home, "PointCircle", &[]);
    for (second, parts) in [
        ("[1, 2, 3, 4]", &["5", "4 numbers"][..]),
        ("[1, 2, 3, 4, 5, 6]", &["6 numbers instead of 5"]),
        ("[1, 2, NaN, 4, 5]", &["column"]),
        ("[1, 2, null, 4, 5]", &["number 3", "null"]),
        ("[1, 2, 1e39, 4, 5]", &["number 3", "not finite"]),
        ("[1, 2, 1e999, 4, 5]", &["out of range"]),
        ("[[1, 2, 3, 4, 5]]", &["number 1", "not a number"]),
        ("1 2 3 4 5", &["column"]),
        ("", &["EOF"]),
        ("nonsense", &["column"]),
        ("\"reset\"", &["a line is a list of numbers"]),
        ("{\"obs\": 3}", &["a line is a list of numbers"]),
        ("{\"obs\": [1, 2, 3, 4, 5], \"start\": 1}", &["a line is a list of numbers"]),
        ("{\"obs\": [1, 2, 3, 4, 5], \"begin\": true}", &["unknown field \"begin\""]),
    ] {
        let output = act(&home, &[], format!("{}{second}\n", line(&observation(1))).as_bytes());
        refused(&output, "line 2: ", parts, second);
        assert_eq!(text(&output.stdout).lines().count(), 1, "{second}: the first line was good");
    }
    refused(&act(&home, &[], b"[1, 2, \xff"), "line 1: ", &["not text"], "bytes");
    let raw = |numbers: &[f32]| -> Vec<u8> { numbers.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let good = raw(&observation(1));
    for (options, more, parts) in [
        (&["--raw"][..], raw(&[1.0; 3]), &["observation 2", "ends after 12 of its 20 bytes"][..]),
        (&["--raw"], vec![1], &["observation 2", "ends after 1 of its 20 bytes"]),
        (&["--raw"], raw(&[0.0, f32::NAN, 0.0, 0.0, 0.0]), &["observation 2", "number 2", "NaN"]),
        (&["--raw"], raw(&[0.0, 0.0, f32::INFINITY, 0.0, 0.0]), &["observation 2", "number 3", "inf"]),
    ] {
        let output = act(&home, options, &[&good[..], &more].concat());
        refused(&output, "observation 2: ", parts, "raw");
        assert_eq!(output.stdout.len(), 8);
    }
    let output = act(&home, &["--raw", "--starts"], &[&raw(&[0.5]), &good[..]].concat());
    refused(&output, "observation 1: ", &["0.5", "not 0 or 1"], "starts");
}

fn refused(output: &Output, place: &str, parts: &[&str], input: &str) {
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{input}: {told}");
    assert!(told.starts_with(&format!("p3o: {place}")) && told.lines().count() == 1, "{input}: {told:?}");
    parts.iter().for_each(|part| assert!(told.contains(part), "{input}: no {part:?} in {told}"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_goes_away_ends_it_quietly_and_a_full_disk_does_not() {
    let home = Home::new();
    trained(&home, "PointCircle", &[]);
    let lines = line(&observation(1)).repeat(20_000);
    std::fs::write(home.path("lines"), lines).unwrap();
    for (streams, code) in [("< lines | head -1", 0), ("< lines > /dev/full", 1)] {
        let script = format!("set -o pipefail; \"$0\" act run {streams}");
        let mut command = std::process::Command::new("bash");
        let output = command.args(["-c", &script, env!("CARGO_BIN_EXE_p3o")]).current_dir(home.path("")).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(code), "{streams}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr).lines().count(), code as usize, "{streams}");
    }
}
