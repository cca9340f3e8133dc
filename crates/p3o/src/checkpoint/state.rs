//! A learner's state: written, read and checked, and only then taken over. A file with a right digest can still hold a state
//! that no run comes to, if another program wrote it: every part of it is asked for what training relies on.

use super::tensors::{MOST_STEPS, Moments, Net, Source, Store};
use super::{About, critic_names, older, prefixes, read_normalizer};
use crate::actor::state_width;
use crate::algo::multiplier::Multiplier;
use crate::config::Sum;
use crate::critic::TargetScale;
use crate::group::Group;
use crate::learner::{Learner, Progress};
use crate::normalize::Normalizer;
use rand_chacha::ChaCha8Rng;

/// One group's part of the state.
struct GroupState {
    actor: Net,
    log_std: Vec<f32>,
    log_std_moments: Moments,
    critics: Vec<(Net, TargetScale)>,
    critic_states: Vec<Vec<f32>>,
    shuffles: Vec<ChaCha8Rng>,
    normalizer: Normalizer,
    multipliers: Vec<Multiplier>,
}

/// Writes all of it.
pub(super) fn write(learner: &Learner, store: &mut Store) {
    let (names, prefixes) = (critic_names(learner.signals()), prefixes(learner.groups.len()));
    for (group, prefix) in learner.groups.iter().zip(&prefixes) {
        let at = |name: &str| format!("{prefix}{name}");
        let networks = group.engine.networks();
        let policy = &networks.policy;
        store.net(&at("actor"), &policy.net, &policy.adam);
        let (m, v, steps) = policy.adam_log_std.state();
        for (name, values) in
            [("actor.log_std", &policy.log_std[..]), ("actor.adam_m.log_std", m), ("actor.adam_v.log_std", v)]
        {
            store.floats(at(name), vec![values.len()], values);
        }
        store.value(&at("actor.log_std.adam_steps"), &steps);
        for (name, critic) in names.iter().map(|name| at(name)).zip(&networks.critics) {
            store.net(&name, &critic.net, &critic.adam);
            store.value(&format!("{name}.scale"), &critic.scale);
        }
        store.value(&at("shuffles"), &group.shuffles);
        store.value(&at("critic_states"), &group.engine.critic_states());
        store.normalizer(&at("normalizer"), &group.normalizer);
        if !group.multipliers.is_empty() {
            store.value(&at("multipliers"), &group.multipliers);
        }
    }
    store.bytes("envs", learner.collector.snapshot());
    store.value("progress", &learner.progress);
    if !learner.corrections.is_empty() {
        store.value("corrections", &learner.corrections);
    }
    if learner.config().constraint.sum == Sum::Discounted {
        store.value("discounted", &(&learner.progress.discounted, learner.collector.discounted()));
    }
}

/// Reads all of it into a learner, which stays as it was if a part cannot be used. Returns false if the worlds could not be
/// continued and have started new episodes.
pub(super) fn read(learner: &mut Learner, source: &Source, about: &About) -> Result<bool, String> {
    let names = critic_names(learner.signals());
    let prefixes = prefixes(learner.groups.len());
    let groups = learner.groups.iter().zip(&prefixes).map(|(group, prefix)| {
        GroupState::read(group, source, prefix, &names, (learner.config().rollout.envs, about.format))
    });
    let groups: Vec<GroupState> = groups.collect::<Result<_, String>>()?;
    let old = about.format == older::FORMAT_3;
    let mut progress: Progress =
        if old { source.value::<older::Progress>("progress")?.into() } else { source.value("progress")? };
    check_progress(&progress, about, learner)?;
    let corrections =
        if learner.corrections.is_empty() { Vec::new() } else { source.value::<Vec<f64>>("corrections")? };
    if corrections.len() != learner.corrections.len() || !corrections.iter().all(|c| (0.0..=1.0).contains(c)) {
        return Err("`corrections` are not those of a run with these limits".into());
    }
    let running = read_discounted(learner, source, &mut progress)?;
    let envs = source.bytes("envs")?;
    source.is_read()?;
    // What can still fail comes first.
    let width = state_width(&learner.actors());
    let continued = if old {
        let (worlds, carried) = older::envs(learner.spec(), &envs)?;
        learner.collector.restore_parts(Some(worlds), carried, width)
    } else {
        learner.collector.restore(&envs, width)
    };
    let continued = continued.map_err(|e| e.to_string())?;
    learner.progress = progress;
    learner.corrections = corrections;
    if continued {
        learner.collector.set_discounted(running);
    }
    learner.groups.iter_mut().zip(groups).for_each(|(group, state)| state.give(group, continued));
    Ok(continued)
}

/// The discounted sums where limits are held against them: into `progress` the last known means; returns those of the running
/// episodes, a row per environment.
fn read_discounted(learner: &Learner, source: &Source, progress: &mut Progress) -> Result<Vec<Vec<f64>>, String> {
    let ours = learner.config().constraint.sum;
    let theirs = if source.has("discounted") { Sum::Discounted } else { Sum::Episode };
    if theirs != ours {
        let (theirs, ours) = (theirs.word(), ours.word());
        return Err(format!("the checkpoint belongs to another run: its constraint.sum is {theirs}, not {ours}"));
    }
    if ours == Sum::Episode {
        return Ok(Vec::new());
    }
    let (means, running): (Vec<f64>, Vec<Vec<f64>>) = source.value("discounted")?;
    let costs = learner.spec().costs.len();
    let fits = |sums: &Vec<f64>| sums.len() == costs && sums.iter().all(|x| x.is_finite());
    if running.len() != learner.config().rollout.envs || !running.iter().chain([&means]).all(fits) {
        return Err("`discounted` is not one that a run comes to".into());
    }
    progress.discounted = means;
    Ok(running)
}

fn check_progress(progress: &Progress, about: &About, learner: &Learner) -> Result<(), String> {
    let Progress { updates, steps, costs, length, smoothed, .. } = progress;
    let wrong = |what: &str| Err(format!("`progress` is not one that a run comes to: {what}"));
    if (*updates, *steps) != (about.updates, about.steps) {
        return wrong(&format!("it counts {updates} updates, and the file's description {}", about.updates));
    }
    if *steps > MOST_STEPS || updates > steps {
        return wrong(&format!("{updates} updates of {steps} steps"));
    }
    if costs.len() != learner.spec().costs.len() || smoothed.len() > learner.signals().constraints().len() {
        return wrong("it has another number of costs");
    }
    if !costs.iter().chain(smoothed).chain([length]).all(|x| x.is_finite()) || *length < 0.0 {
        return wrong("a cost or length is not finite");
    }
    Ok(())
}

impl GroupState {
    fn read(
        group: &Group,
        source: &Source,
        prefix: &str,
        names: &[String],
        (envs, format): (usize, u32),
    ) -> Result<Self, String> {
        let at = |name: &str| format!("{prefix}{name}");
        let networks = group.engine.networks();
        let (policy, n) = (&networks.policy, networks.policy.log_std.len());
        let critic = |(name, critic): (&String, &crate::critic::Critic)| {
            let scale: TargetScale = source.value(&at(&format!("{name}.scale")))?;
            let valid = scale.mean.is_finite() && scale.deviation.is_finite() && scale.deviation > 0.0;
            let wrong = || format!("`{}.scale` is not a mean and a standard deviation", at(name));
            Ok((source.net(&at(name), &critic.net)?, valid.then_some(scale).ok_or_else(wrong)?))
        };
        let state = GroupState {
            actor: source.net(&at("actor"), &policy.net)?,
            log_std: source.floats(&at("actor.log_std"), &[n])?,
            log_std_moments: source.log_std_moments(&at("actor"), n)?,
            critics: names.iter().zip(&networks.critics).map(critic).collect::<Result<_, String>>()?,
            critic_states: source.value(&at("critic_states"))?,
            shuffles: source.value(&at("shuffles"))?,
            normalizer: read_normalizer(source, prefix, &group.normalizer, format)?,
            multipliers: match group.multipliers.is_empty() {
                true => Vec::new(),
                false => source.value(&at("multipliers"))?,
            },
        };
        state.check(group, envs).map_err(|(name, what)| format!("`{}` {what}", at(name)))?;
        Ok(state)
    }

    /// What is wrong, and with which part.
    fn check(&self, group: &Group, envs: usize) -> Result<(), (&'static str, String)> {
        let count = |name: &'static str, own: usize, due: usize| match own == due {
            true => Ok(()),
            false => Err((name, format!("has {own} entries, not {due}"))),
        };
        count("shuffles", self.shuffles.len(), group.shuffles.len())?;
        count("multipliers", self.multipliers.len(), group.multipliers.len())?;
        if !self.multipliers.iter().all(Multiplier::is_valid) {
            return Err(("multipliers", "holds a number that is not finite or below zero".into()));
        }
        count("critic_states", self.critic_states.len(), group.engine.critic_states().len())?;
        for (states, critic) in self.critic_states.iter().zip(&group.engine.networks().critics) {
            // Before the first update there are none.
            if !states.is_empty() {
                count("critic_states", states.len(), envs * critic.net.units())?;
            }
            if !states.iter().all(|x| x.is_finite()) {
                return Err(("critic_states", "holds a number that is not finite".into()));
            }
        }
        Ok(())
    }

    fn give(self, group: &mut Group, continued: bool) {
        let change = &mut |networks: &mut crate::engine::Networks| {
            let policy = &mut networks.policy;
            policy.net.set_params(&self.actor.parameters);
            self.actor.moments.give(&mut policy.adam);
            policy.log_std.clone_from(&self.log_std);
            self.log_std_moments.give(&mut policy.adam_log_std);
            for (critic, (net, scale)) in networks.critics.iter_mut().zip(&self.critics) {
                critic.net.set_params(&net.parameters);
                net.moments.give(&mut critic.adam);
                critic.scale = *scale;
            }
            Ok(())
        };
        group.engine.change_networks(change).expect("nothing can go wrong");
        let mut states = self.critic_states;
        if !continued {
            // New episodes start from states of zero, the critics' too.
            states.iter_mut().for_each(|states| states.fill(0.0));
        }
        group.engine.set_critic_states(states);
        group.shuffles = self.shuffles;
        group.normalizer = self.normalizer;
        group.multipliers = self.multipliers;
    }
}
