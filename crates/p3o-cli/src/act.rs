//! `p3o act`: a trained policy for other programs, one action for every observation.
//!
//! As JSON lines: `[0.1, -2.5, ..]` in, an observation as the world gives it; `[0.3, -1.0]` out, the action, within -1 and 1 or
//! as a world of Python has it, or indices where actions are discrete. Several agents stand one after another in both. `{"obs": [..], "start": true}` says
//! that an episode starts here, so that a recurrent policy starts from a state of zero; it also does so at the first line.
//!
//! With `--raw` as little-endian f32, observation after observation in and action after action out, in numbers without anything
//! between them; with `--starts` one more number stands before each observation, 1 where an episode starts and 0 elsewhere.
//!
//! Every answer is written out before the next observation is read. The first observation that cannot be used ends the program.

use crate::Failure;
use crate::args::ActArgs;
use p3o::rollout::env_stream;
use p3o::{Agent, AgentState};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use std::io::{BufRead, ErrorKind, Read, Write};

/// `p3o act`
pub fn act(args: &ActArgs) -> Result<(), Failure> {
    let agent = Agent::load(&args.run)?;
    let rng = args.sample.then(|| env_stream(args.seed, 0));
    let mut actor = Actor { state: agent.start(1), rng, action: vec![0.0; agent.spec().action_width()], agent };
    let done = if args.raw { raw(&mut actor, args.starts) } else { lines(&mut actor) };
    match done {
        Err(Ended::Refused(problem)) => Err(Failure::Usage(problem)),
        Err(Ended::Input(e)) => Err(Failure::Failed(format!("cannot read standard input: {e}"))),
        Err(Ended::Output(e)) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("cannot write to standard output: {e}")))
        }
        // Nobody reads on.
        Ok(()) | Err(Ended::Output(_)) => Ok(()),
    }
}

/// Why there are no more actions.
enum Ended {
    Refused(String),
    Input(std::io::Error),
    Output(std::io::Error),
}

struct Actor {
    agent: Agent,
    state: AgentState,
    rng: Option<ChaCha8Rng>,
    action: Vec<f32>,
}

impl Actor {
    /// The action for one observation, or what is wrong with it.
    fn answer(&mut self, obs: &[f32], start: bool) -> Result<&[f32], String> {
        let expected = self.agent.spec().obs_dim;
        if obs.len() != expected {
            return Err(format!("the observation has {} numbers instead of {expected}", obs.len()));
        }
        if let Some(i) = obs.iter().position(|x| !x.is_finite()) {
            return Err(format!("number {} of the observation is {} and not finite as f32", i + 1, obs[i]));
        }
        if start {
            self.state.restart(0);
        }
        self.agent.act(obs, &mut self.state, self.rng.as_mut().map(std::slice::from_mut), &mut self.action);
        self.agent.actuate(&mut self.action);
        Ok(&self.action)
    }
}

fn lines(actor: &mut Actor) -> Result<(), Ended> {
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let discrete = actor.agent.action_bounds().is_none();
    for (i, line) in input.lines().enumerate() {
        let refused = |problem| Ended::Refused(format!("line {}: {problem}", i + 1));
        let line = match line {
            Err(e) if e.kind() == ErrorKind::InvalidData => return Err(refused("it is not text".into())),
            line => line.map_err(Ended::Input)?,
        };
        let (obs, start) = parse(&line).map_err(refused)?;
        let action = actor.answer(&obs, start).map_err(refused)?;
        let answer = match discrete {
            true => serde_json::to_string(&action.iter().map(|a| *a as u32).collect::<Vec<_>>()),
            false => serde_json::to_string(action),
        };
        let answer = answer.expect("numbers always have a JSON form") + "\n";
        output.write_all(answer.as_bytes()).and_then(|()| output.flush()).map_err(Ended::Output)?;
    }
    Ok(())
}

/// The observation of a line, and whether an episode starts with it.
fn parse(line: &str) -> Result<(Vec<f32>, bool), String> {
    const FORM: &str = "a line is a list of numbers, or {\"obs\": [numbers], \"start\": true}";
    let (obs, start) = match crate::env_step::read_json(line)? {
        Value::Array(obs) => (obs, false),
        Value::Object(mut fields) => {
            let Some(Value::Array(obs)) = fields.remove("obs") else { return Err(FORM.into()) };
            let start = fields.remove("start").unwrap_or(Value::Bool(false)).as_bool().ok_or(FORM)?;
            if let Some(name) = fields.keys().next() {
                return Err(format!("unknown field {name:?}; {FORM}"));
            }
            (obs, start)
        }
        _ => return Err(FORM.into()),
    };
    let numbers = obs.iter().enumerate().map(|(i, x)| match x.as_f64() {
        Some(x) => Ok(x as f32),
        None => Err(format!("number {} of the observation is {x} and not a number", i + 1)),
    });
    Ok((numbers.collect::<Result<_, _>>()?, start))
}

fn raw(actor: &mut Actor, starts: bool) -> Result<(), Ended> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut bytes = vec![0; 4 * (actor.agent.spec().obs_dim + usize::from(starts))];
    for count in 1.. {
        let refused = |problem| Ended::Refused(format!("observation {count}: {problem}"));
        match fill(&mut input, &mut bytes).map_err(Ended::Input)? {
            0 => break,
            found if found < bytes.len() => {
                return Err(refused(format!("the input ends after {found} of its {} bytes", bytes.len())));
            }
            _ => {}
        }
        let numbers: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let (flag, obs) = numbers.split_at(usize::from(starts));
        let start = match flag {
            [] | [0.0] => false,
            [1.0] => true,
            _ => return Err(refused(format!("the number before it is {} and not 0 or 1", flag[0]))),
        };
        let action = actor.answer(obs, start).map_err(refused)?;
        let answer: Vec<u8> = action.iter().flat_map(|a| a.to_le_bytes()).collect();
        output.write_all(&answer).and_then(|()| output.flush()).map_err(Ended::Output)?;
    }
    Ok(())
}

/// Reads until the buffer is full or the input ends; returns how many bytes there were.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut found = 0;
    while found < bytes.len() {
        match input.read(&mut bytes[found..]) {
            Ok(0) => break,
            Ok(n) => found += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}
