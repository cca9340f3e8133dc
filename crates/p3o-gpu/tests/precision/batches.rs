//! Networks and batches as training makes them: a policy acts, the batch is gathered from what it did, and then the policy moves
//! on. Observations, advantages and targets are drawn.

use crate::reference::{Actor, Net, wide};
use p3o::algo::focops::Proximal;
use p3o::algo::natural::Surrogate;
use p3o::algo::p3o::Clipped;
use p3o::batch::{Members, TrainingBatch};
use p3o::config::{self, Activation};
use p3o::critic::Critic;
use p3o::engine::{Networks, RowLoss};
use p3o::policy::Policy;
use p3o::rollout::EnvSteps;
use p3o_env::ActionSpace;
use p3o_nn::{Network, gaussian};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Epsilon of the clipped ratio.
pub const EPSILON: f32 = 0.2;
/// What [`Case::slack`] is for single precision.
pub const SLACK: f64 = 1e-5;

/// A kind of batch.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    pub inputs: usize,
    pub hidden: &'static [usize],
    pub activation: Activation,
    pub action: ActionSpace,
    pub agents: usize,
    pub steps: usize,
    pub costs: usize,
    /// How far the policy has moved since it collected the batch.
    pub moved: f32,
    /// Powers of ten of the first number of an observation and of the last.
    pub magnitudes: [f32; 2],
    /// Whether the first layer's weights make up for them; otherwise most units are saturated.
    pub balanced: bool,
    /// Factor of the advantages.
    pub advantages: f32,
    /// Whether most ratios stand close to the edges of the clip.
    pub edges: bool,
    /// No ratio, KL or sum comes nearer to a kink of the loss than this, or rounding would decide on which side it is.
    pub slack: f64,
}

impl Case {
    pub fn new(name: &'static str, inputs: usize, hidden: &'static [usize], action: ActionSpace, steps: usize) -> Case {
        Case {
            name,
            inputs,
            hidden,
            activation: Activation::Tanh,
            action,
            agents: 1,
            steps,
            costs: 1,
            moved: 0.1,
            magnitudes: [0.0, 0.0],
            balanced: true,
            advantages: 1.0,
            edges: false,
            slack: SLACK,
        }
    }

    /// The factor of each number of an observation.
    fn scales(&self) -> Vec<f32> {
        let [low, high] = self.magnitudes;
        let share = |i: usize| i as f32 / (self.inputs - 1).max(1) as f32;
        (0..self.inputs).map(|i| 10f32.powf(low + share(i) * (high - low))).collect()
    }
}

pub fn normal(rng: &mut ChaCha8Rng) -> f32 {
    let mut drawn = [0.0];
    gaussian::sample(&[0.0], &[0.0], &mut drawn, rng);
    drawn[0]
}

/// Changes every weight by about `by` over the root of a unit's inputs, and every bias by `by`.
pub fn stir(net: &mut Network<f32>, by: f32, rng: &mut ChaCha8Rng) {
    let mut flat = net.params().to_vec();
    for l in 0..net.depth() {
        let ((mut weights, mut bias), (inputs, _)) = (net.layer(l), net.shape(l));
        weights.iter_mut().for_each(|w| *w += by * normal(rng) / (inputs as f32).sqrt());
        bias.iter_mut().for_each(|b| *b += by * normal(rng));
        net.pack(&mut flat, l, &weights, &bias);
    }
    net.set_params(&flat);
}

/// Divides the weights of each input by its factor, if the case asks for it.
fn balance(net: &mut Network<f32>, case: &Case) {
    if !case.balanced {
        return;
    }
    let scales = case.scales();
    let (mut flat, (mut weights, bias), (_, outputs)) = (net.params().to_vec(), net.layer(0), net.shape(0));
    let rows = weights.chunks_exact_mut(outputs).zip(scales.iter().cycle());
    rows.for_each(|(row, scale)| row.iter_mut().for_each(|w| *w /= scale));
    net.pack(&mut flat, 0, &weights, &bias);
    net.set_params(&flat);
}

/// The networks after they moved, and the batch that was collected before.
pub fn make(case: &Case, seed: u64) -> (Networks, TrainingBatch) {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let settings = config::Net { hidden: case.hidden.to_vec(), activation: case.activation, ..config::Net::default() };
    let mut old = Policy::new(&settings, case.inputs, &case.action, rng);
    stir(&mut old.net, 0.3, rng);
    let mut policy = old.clone();
    stir(&mut policy.net, case.moved, rng);
    policy.log_std.iter_mut().for_each(|s| *s += 0.3 * case.moved * normal(rng));
    balance(&mut old.net, case);
    balance(&mut policy.net, case);
    let critic = |_| {
        let mut critic = Critic::new(&settings, case.agents * case.inputs, rng);
        stir(&mut critic.net, 0.3, rng);
        balance(&mut critic.net, case);
        critic
    };
    let mut critics: Vec<Critic> = (0..=case.costs).map(critic).collect();
    let env = act(case, &old, &policy, &critics, rng);
    let members = Members { agents: 0..case.agents, all: case.agents, dim: case.inputs };
    let mut batch = TrainingBatch::new(critics.len(), 1, &members);
    batch.gather(&[env], &members, &old);
    for (advantages, targets) in batch.advantages.iter_mut().zip(&mut batch.targets) {
        advantages.iter_mut().for_each(|a| *a = case.advantages * normal(rng));
        targets.iter_mut().for_each(|t| *t = 5.0 + 3.0 * normal(rng));
    }
    batch.repeat_advantages(case.agents);
    // The last critic learns standardised targets.
    critics.last_mut().expect("the reward's").rescale(batch.targets.last().expect("the reward's"));
    place_ratios(case, &policy, &mut batch, rng);
    (Networks { policy, critics }, batch)
}

/// The steps of one environment under the old policy. Where a unit of any network comes too near to its kink, another
/// observation is drawn.
fn act(case: &Case, old: &Policy, policy: &Policy, critics: &[Critic], rng: &mut ChaCha8Rng) -> EnvSteps {
    let scales = case.scales();
    let (actor, all) = (Actor::of(policy), critics.iter().map(|c| Net::of(&c.net)).collect::<Vec<_>>());
    let mut env = EnvSteps { given: vec![Vec::new(); critics.len()], ..EnvSteps::default() };
    let mut work = old.net.step_workspace();
    let mut observe = || loop {
        let rows = (0..case.agents).flat_map(|_| &scales);
        let obs: Vec<f32> = rows.map(|scale| scale * normal(rng)).collect();
        let seen = |net: &Net, x: &[f32]| net.forward(&wide(x)).1 > case.slack;
        if obs.chunks_exact(case.inputs).all(|x| seen(&actor.net, x)) && all.iter().all(|net| seen(net, &obs)) {
            return obs;
        }
    };
    let observations: Vec<Vec<f32>> = (0..=case.steps).map(|_| observe()).collect();
    for obs in &observations[..case.steps] {
        for x in obs.chunks_exact(case.inputs) {
            let (mut outputs, mut action) = (vec![0.0; old.net.outputs()], vec![0.0; old.action_width()]);
            old.net.infer(&mut work, x, &mut [], &mut outputs);
            env.log_probs.push(old.act(&outputs, &mut action, rng));
            env.outputs.extend(outputs);
            env.actions.extend(action);
        }
        env.obs.extend(obs);
        env.cuts.push(false);
    }
    env.open_ends = vec![case.steps as u32 - 1];
    env.open_obs.clone_from(&observations[case.steps]);
    env
}

/// Moves ratios from the kinks, and in the case of `edges` most of them close to one, between ten and a thousand times the slack
/// and not so far that they would come to the other one.
fn place_ratios(case: &Case, policy: &Policy, batch: &mut TrainingBatch, rng: &mut ChaCha8Rng) {
    let (actor, epsilon) = (Actor::of(policy), f64::from(EPSILON));
    for row in 0..batch.rows() {
        let out = actor.net.outputs(&actor.seen(batch, row));
        let found = actor.row(batch, row, &out);
        let near = |edge: f64| (found.ratio - edge).abs() < 10.0 * case.slack;
        let away = (100.0 * case.slack * 10f64.powf(0.5 * f64::from(normal(rng)).clamp(-2.0, 2.0))).min(0.1);
        let side = if normal(rng) > 0.0 { 1.0 + away } else { 1.0 - away };
        let edge = if normal(rng) > 0.0 { 1.0 + epsilon } else { 1.0 - epsilon };
        if (case.edges && row % 4 > 0) || near(1.0 + epsilon) || near(1.0 - epsilon) {
            batch.log_probs[row] = (found.log_prob - (edge * side).ln()) as f32;
        }
    }
}

/// A loss of every kind for so many costs.
pub fn losses(policy: &Policy, batch: &TrainingBatch) -> Vec<(&'static str, RowLoss)> {
    let costs = batch.costs().len();
    // P3O's gate is shut for the first of several constraints.
    let factors: Vec<f32> = (0..costs).map(|i| if costs > 1 && i == 0 { 0.0 } else { 2.0 + i as f32 }).collect();
    let clipped = |clip_costs: bool, reward: f32, scale: f32| {
        RowLoss::Clipped(Clipped { epsilon: EPSILON, clip_costs, reward, costs: factors.clone(), scale })
    };
    let proximal = Proximal { multipliers: factors.clone(), lambda: 1.5, delta: delta(policy, batch) };
    vec![
        ("p3o", clipped(true, 1.0, 1.0 / 3.0)),
        ("ppo-lag", clipped(false, 0.3, 1.0)),
        ("focops", RowLoss::Proximal(proximal)),
        ("trpo", RowLoss::Surrogate(Surrogate { reward: 0.7, costs: factors.clone() })),
    ]
}

/// A KL that about two in three rows are under, in the middle of the widest gap there; all rows where none is large enough to be told
/// from rounding.
fn delta(policy: &Policy, batch: &TrainingBatch) -> f32 {
    let actor = Actor::of(policy);
    let kl = |row: usize| actor.row(batch, row, &actor.net.outputs(&actor.seen(batch, row))).kl;
    let mut all: Vec<f64> = (0..batch.rows()).map(kl).collect();
    all.sort_by(f64::total_cmp);
    let middle = &all[all.len() * 6 / 10..all.len() * 8 / 10];
    let gap = middle.windows(2).max_by(|a, b| (a[1] / a[0]).total_cmp(&(b[1] / b[0])));
    gap.map_or(2.0 * all[0], |pair| 0.5 * (pair[0] + pair[1])).max(1e-3) as f32
}
