//! Policies that leave: a trained policy as an ONNX file, which runs without p3o.
//!
//! The graph holds all that lies between an observation and an action: normalisation, network, the likeliest action and its
//! bounds. With `D` numbers in an observation, `A` in an action and `U` in a state:
//!
//! | | one agent | several agents |
//! |---|---|---|
//! | input `obs`, f32 | `[batch, D]` | `[batch, agents, D]` |
//! | input `state`, f32, where the policy is recurrent: zero where an episode starts | `[batch, U]` | `[batch, agents, U]` |
//! | output `action`: f32 within -1 and 1 (in the units of a world of Python), or i64 indices where actions are discrete | `[batch, A]` | `[batch, agents, A]` |
//! | output `next_state`, f32, where the policy is recurrent | `[batch, U]` | `[batch, agents, U]` |
//!
//! The batch is of any size. Where agents share a policy, so is the number of agents: each acts by its own row, and one
//! may be alone. Where every agent has its own policy, there are as many as were trained, each with its own part of the graph.
//!
//! The metadata says what the policy is: see [`metadata`] and docs/deploy.md.

mod metadata;
mod model;

use crate::agent::{Agent, Mind};
use crate::checkpoint::prefixes;
use crate::error::Error;
use crate::evaluate::Evaluation;
use model::{Attribute, Axis, Element, Graph, Value};
use p3o_env::{ActionSpace, Actuation, Labels};
use p3o_nn::{Activation, Network};

pub use metadata::metadata;

/// What a protocol-buffer file can hold.
const MOST_BYTES: usize = i32::MAX as usize;

/// The bytes of an ONNX file. `labels` are those of the world, if it says what its numbers are; `measured` is an evaluation
/// of this agent.
pub fn to_bytes(agent: &Agent, labels: &Labels, measured: Option<&Evaluation>) -> Result<Vec<u8>, Error> {
    let spec = agent.spec();
    let (dim, width, units) = (spec.obs_dim / spec.agents, spec.action.width(), agent.minds[0].policy.net.units());
    let leading = match (spec.agents, agent.minds.len()) {
        (1, _) => vec![Axis::Any("batch")],
        (_, 1) => vec![Axis::Any("batch"), Axis::Any("agents")],
        (agents, _) => vec![Axis::Any("batch"), Axis::Fixed(agents)],
    };
    let value = |name, element, last: usize, doc| {
        let shape = leading.iter().cloned().chain([Axis::Fixed(last)]).collect();
        Value { name, element, shape, doc }
    };
    let mut inputs = vec![value("obs", Element::Float, dim, "as the world gives it, not normalised")];
    let mut outputs = vec![match spec.action {
        ActionSpace::Continuous { .. } if agent.actuation.is_some() => {
            value("action", Element::Float, width, "the likeliest, in the world's units and within its bounds")
        }
        ActionSpace::Continuous { .. } => value("action", Element::Float, width, "the likeliest, within -1 and 1"),
        _ => value("action", Element::Int, width, "the index of the likeliest"),
    }];
    if units > 0 {
        inputs.push(value("state", Element::Float, units, "zero where an episode starts"));
        outputs.push(value("next_state", Element::Float, units, "the state of the next step"));
    }
    let bytes = graph(agent).model(&inputs, &outputs, &metadata(agent, labels, measured));
    if bytes.len() > MOST_BYTES { Err(Error::TooLargeForOnnx(bytes.len())) } else { Ok(bytes) }
}

/// From `obs` and `state` to `action` and `next_state`.
fn graph(agent: &Agent) -> Graph {
    let mut graph = Graph::default();
    match (&agent.actuation, &agent.spec().action) {
        (Some(Actuation { low, high, scale, shift }), _) => {
            for (name, numbers) in [("low", low), ("high", high), ("scale", scale), ("shift", shift)] {
                graph.floats(&format!("action.{name}"), &[numbers.len()], numbers);
            }
        }
        (None, ActionSpace::Continuous { .. }) => {
            graph.floats("action.low", &[], &[-1.0]);
            graph.floats("action.high", &[], &[1.0]);
        }
        (None, _) => {}
    }
    let [mind] = &agent.minds[..] else {
        apart(&mut graph, agent);
        return graph;
    };
    Part { graph: &mut graph, prefix: "", actuated: agent.actuation.is_some() }.policy(
        mind,
        ["obs", "state"],
        ["action", "next_state"],
    );
    graph
}

/// Every agent's own policy on its own rows.
fn apart(graph: &mut Graph, agent: &Agent) {
    let recurrent = agent.minds[0].policy.net.units() > 0;
    let names = |what: &str| -> Vec<String> {
        prefixes(agent.minds.len()).iter().map(|prefix| format!("{prefix}{what}")).collect()
    };
    graph.ints("agents.axis", &[1], &[1]);
    let all = ["obs", "state", "action", "next_state"].map(names);
    for (i, (mind, prefix)) in agent.minds.iter().zip(prefixes(agent.minds.len())).enumerate() {
        let [obs, state, action, next] = [0, 1, 2, 3].map(|k| all[k][i].as_str());
        let index = format!("{prefix}index");
        graph.ints(&index, &[], &[i]);
        graph.node("Gather", &["obs", &index], &[obs], &[Attribute::Int("axis", 1)]);
        if recurrent {
            graph.node("Gather", &["state", &index], &[state], &[Attribute::Int("axis", 1)]);
        }
        let (rows, next_rows) = (format!("{action}.rows"), format!("{next}.rows"));
        Part { graph, prefix: &prefix, actuated: agent.actuation.is_some() }.policy(
            mind,
            [obs, state],
            [&rows, &next_rows],
        );
        graph.node("Unsqueeze", &[&rows, "agents.axis"], &[action], &[]);
        if recurrent {
            graph.node("Unsqueeze", &[&next_rows, "agents.axis"], &[next], &[]);
        }
    }
    let mut join = |parts: &[String], whole: &str| {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        graph.node("Concat", &parts, &[whole], &[Attribute::Int("axis", 1)]);
    };
    join(&all[2], "action");
    if recurrent {
        join(&all[3], "next_state");
    }
}

/// One policy's part of a graph. Constants have the names of a checkpoint's tensors.
struct Part<'a> {
    graph: &'a mut Graph,
    prefix: &'a str,
    /// Whether the world's own units stand in the graph.
    actuated: bool,
}

impl Part<'_> {
    fn at(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// One operator with one output; returns its name.
    fn apply(&mut self, operator: &str, inputs: &[&str], name: &str) -> String {
        let output = self.at(name);
        self.graph.node(operator, inputs, &[&output], &[]);
        output
    }

    fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> String {
        let name = self.at(name);
        self.graph.floats(&name, shape, values);
        name
    }

    fn policy(&mut self, mind: &Mind, [obs, state]: [&str; 2], [action, next]: [&str; 2]) {
        let seen = self.normalized(mind, obs);
        let net = &mind.policy.net;
        let outputs = match net {
            Network::FeedForward(_) => self.feed_forward(net, seen),
            Network::Recurrent(_) => self.recurrent(net, seen, state, next),
        };
        match &mind.policy.heads[..] {
            [] if self.actuated => {
                let above = self.apply("Max", &[&outputs, "action.low"], "action.above");
                let within = self.apply("Min", &[&above, "action.high"], "action.within");
                let scaled = self.apply("Mul", &[&within, "action.scale"], "action.scaled");
                self.graph.node("Add", &[&scaled, "action.shift"], &[action], &[]);
            }
            [] => self.graph.node("Clip", &[&outputs, "action.low", "action.high"], &[action], &[]),
            heads => self.likeliest(heads, &outputs, action),
        }
    }

    fn normalized(&mut self, mind: &Mind, obs: &str) -> String {
        if !mind.normalizer.is_on() {
            return obs.to_string();
        }
        let (shift, scale, clip) = mind.normalizer.affine();
        let shift = self.floats("normalizer.shift", &[shift.len()], shift);
        let scale = self.floats("normalizer.scale", &[scale.len()], scale);
        let [low, high] =
            [("low", -clip), ("high", clip)].map(|(name, x)| self.floats(&format!("normalizer.{name}"), &[], &[x]));
        let shifted = self.apply("Sub", &[obs, &shift], "shifted");
        let scaled = self.apply("Mul", &[&shifted, &scale], "scaled");
        self.apply("Clip", &[&scaled, &low, &high], "seen")
    }

    /// x W + b of layer `l`.
    fn dense(&mut self, net: &Network<f32>, l: usize, x: &str) -> String {
        let ((weights, bias), (rows, columns), layer) = (net.layer(l), net.shape(l), net.name(l));
        let weights = self.floats(&format!("actor.{layer}.weight"), &[rows, columns], &weights);
        let bias = self.floats(&format!("actor.{layer}.bias"), &[columns], &bias);
        let product = self.apply("MatMul", &[x, &weights], &format!("{layer}.product"));
        self.apply("Add", &[&product, &bias], &format!("{layer}.sum"))
    }

    fn activated(&mut self, net: &Network<f32>, l: usize, x: String) -> String {
        let operator = match net.activation() {
            Activation::Tanh => "Tanh",
            Activation::Relu => "Relu",
            Activation::Identity => return x,
        };
        self.apply(operator, &[&x], &format!("{}.hidden", net.name(l)))
    }

    fn feed_forward(&mut self, net: &Network<f32>, mut x: String) -> String {
        let last = net.depth() - 1;
        for l in 0..last {
            x = self.dense(net, l, &x);
            x = self.activated(net, l, x);
        }
        self.dense(net, last, &x)
    }

    /// Normalisations and dense layers in turn, the cell, a normalisation and the head: see `p3o_nn::Gru`.
    fn recurrent(&mut self, net: &Network<f32>, seen: String, state: &str, next: &str) -> String {
        let last = net.depth() - 1;
        let mut x = self.norm(net, 0, &seen);
        for l in (1..last - 3).step_by(2) {
            x = self.dense(net, l, &x);
            x = self.activated(net, l, x);
            x = self.norm(net, l + 1, &x);
        }
        let [by_input, by_state] = [self.dense(net, last - 3, &x), self.dense(net, last - 2, state)];
        self.cell(net.units(), [&by_input, &by_state], state, next);
        x = self.norm(net, last - 1, next);
        self.dense(net, last, &x)
    }

    fn norm(&mut self, net: &Network<f32>, l: usize, x: &str) -> String {
        let ((gain, bias), layer) = (net.layer(l), net.name(l));
        let gain = self.floats(&format!("actor.{layer}.weight"), &[gain.len()], &gain);
        let bias = self.floats(&format!("actor.{layer}.bias"), &[bias.len()], &bias);
        let output = self.at(&format!("{layer}.normed"));
        let attributes = [Attribute::Int("axis", -1), Attribute::Float("epsilon", p3o_nn::NORM_EPSILON as f32)];
        self.graph.node("LayerNormalization", &[x, &gain, &bias], &[&output], &attributes);
        output
    }

    /// The GRU's gates: r, z and n of the input and of the state, side by side.
    fn cell(&mut self, units: usize, sums: [&str; 2], state: &str, next: &str) {
        let sizes = self.at("gru.sizes");
        self.graph.ints(&sizes, &[3], &[units; 3]);
        let [input, own] =
            ["input", "state"].map(|side| ["r", "z", "n"].map(|gate| self.at(&format!("gru.{side}.{gate}"))));
        for (sum, parts) in sums.iter().zip([&input, &own]) {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            self.graph.node("Split", &[sum, &sizes], &parts, &[Attribute::Int("axis", -1)]);
        }
        let [r, z] = [0, 1].map(|gate| {
            let name = ["r", "z"][gate];
            let sum = self.apply("Add", &[&input[gate], &own[gate]], &format!("gru.{name}.sum"));
            self.apply("Sigmoid", &[&sum], &format!("gru.{name}"))
        });
        let remembered = self.apply("Mul", &[&r, &own[2]], "gru.remembered");
        let sum = self.apply("Add", &[&input[2], &remembered], "gru.n.sum");
        let n = self.apply("Tanh", &[&sum], "gru.n");
        // (1 - z) n + z h
        let change = self.apply("Sub", &[state, &n], "gru.change");
        let kept = self.apply("Mul", &[&z, &change], "gru.kept");
        self.graph.node("Add", &[&n, &kept], &[next], &[]);
    }

    /// The index of the greatest logit of each head, the first of equals.
    fn likeliest(&mut self, heads: &[usize], logits: &str, action: &str) {
        let axis = || [Attribute::Int("axis", -1)];
        if let [_] = heads {
            return self.graph.node("ArgMax", &[logits], &[action], &axis());
        }
        let sizes = self.at("heads.sizes");
        self.graph.ints(&sizes, &[heads.len()], heads);
        let names = |what: &str| (0..heads.len()).map(|i| self.at(&format!("head.{i}.{what}"))).collect::<Vec<_>>();
        let (parts, indices) = (names("logits"), names("index"));
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let indices: Vec<&str> = indices.iter().map(String::as_str).collect();
        self.graph.node("Split", &[logits, &sizes], &parts, &axis());
        parts.iter().zip(&indices).for_each(|(part, index)| self.graph.node("ArgMax", &[part], &[index], &axis()));
        self.graph.node("Concat", &indices, &[action], &axis());
    }
}
