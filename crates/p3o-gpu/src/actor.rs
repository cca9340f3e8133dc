//! An actor that makes whole descents on a machine: the KL's stop and the constraints' gates are decided there, and the host only
//! keeps ahead of it.

use crate::device::{Loss, Outcome, Precision};
use crate::fused::{
    Actor, BACKWARD, Behaviour, FORWARD, Fused, Growing, Moment, OUTPUTS, RawRule, Seen, Shape, Side, read,
};
use crate::machine::{Address, Machine, Mailbox};
use bytemuck::cast_slice;
use p3o::batch::TrainingBatch;
use p3o::critic::shuffle;
use p3o::engine::{Descent, EXTRA_TERMS, Record, Sums};
use p3o::policy::Policy;
use p3o_nn::Network;
use std::sync::atomic::Ordering;

/// Launches that the host is ahead of what it knows: whole batches, and mini-batches.
const AHEAD: [i32; 2] = [2, 16];
/// Looks into the mailbox between two at the machine's health.
const LOOKS: u32 = 100_000;

/// See the module.
pub(crate) struct FusedActor {
    fused: Fused,
    mailbox: Mailbox,
    control: Address,
    heads: Address,
    batch: ActorRows,
    outputs: Growing,
    parts: Growing,
    slopes: Growing,
    log: Growing,
    recent: Growing,
    index: Growing,
    mean: Growing,
}

/// What the policy that collected the batch said and did.
#[derive(Default)]
struct ActorRows {
    outputs: Growing,
    actions: Growing,
    log_probs: Growing,
    advantages: Growing,
    log_std: Growing,
}

/// Words of `Control` in fused.cu: until, looked, and a number of double precision.
const CONTROL: usize = 4;

impl FusedActor {
    /// For a policy, if its network fits.
    pub fn new(machine: &mut dyn Machine, policy: &Policy, precision: Precision) -> Outcome<Option<FusedActor>> {
        let Network::FeedForward(net) = &policy.net else { return Ok(None) };
        let Some(shape) = Shape::of(net) else { return Ok(None) };
        let heads = machine.allocate(policy.heads.len().max(1) * 4)?;
        let sizes: Vec<i32> = policy.heads.iter().map(|&n| n as i32).collect();
        machine.write(heads, cast_slice(&sizes))?;
        let Some(fused) = Fused::new(machine, shape, 1, precision)? else { return Ok(None) };
        Ok(Some(FusedActor {
            fused,
            mailbox: machine.mailbox()?,
            control: machine.allocate(CONTROL * 4)?,
            heads,
            batch: ActorRows::default(),
            outputs: Growing::default(),
            parts: Growing::default(),
            slopes: Growing::default(),
            log: Growing::default(),
            recent: Growing::default(),
            index: Growing::default(),
            mean: Growing::default(),
        }))
    }

    /// Takes over the host's policy.
    pub fn load(&mut self, machine: &mut dyn Machine, policy: &Policy) -> Outcome<()> {
        let Network::FeedForward(net) = &policy.net else { return Ok(()) };
        let (m, v, _) = policy.adam_log_std.state();
        self.fused.load(machine, 0, net, &policy.adam, [&policy.log_std, m, v])
    }

    /// Gives its parameters back.
    pub fn store(&mut self, machine: &mut dyn Machine, policy: &mut Policy) -> Outcome<()> {
        let Network::FeedForward(net) = &mut policy.net else { return Ok(()) };
        let tail = self.fused.store(machine, &mut [net])?;
        let n = policy.log_std.len();
        policy.log_std.copy_from_slice(&tail[..n]);
        Ok(())
    }

    /// Gives its optimisers back.
    pub fn store_optimisers(&self, machine: &mut dyn Machine, policy: &mut Policy) -> Outcome<()> {
        let Network::FeedForward(net) = &policy.net else { return Ok(()) };
        let [m, v] = self.fused.store_optimiser(machine, 0, net, &mut policy.adam)?;
        let n = policy.log_std.len();
        policy.adam_log_std.set_state(&m[..n], &v[..n], policy.adam.state().2);
        Ok(())
    }

    /// The gradient of the last step, in the order of the policy's parameters.
    pub fn gradient(&self, machine: &mut dyn Machine, policy: &Policy) -> Outcome<Vec<f32>> {
        let Network::FeedForward(net) = &policy.net else { return Ok(Vec::new()) };
        let (mut of_net, of_log_std) = self.fused.gradient(machine, 0, net)?;
        of_net.extend_from_slice(&of_log_std[..policy.log_std.len()]);
        Ok(of_net)
    }

    /// Takes in a batch.
    fn take(
        &mut self,
        machine: &mut dyn Machine,
        batch: &TrainingBatch,
        policy: &Policy,
        entropy: f32,
    ) -> Outcome<Behaviour> {
        let rows = batch.rows();
        self.fused.reserve(machine, rows)?;
        self.fused.take(machine, batch.actor_rows())?;
        let to = &mut self.batch;
        Ok(Behaviour {
            outputs: to.outputs.write(machine, &batch.outputs)?,
            actions: to.actions.write(machine, &batch.actions)?,
            log_probs: to.log_probs.write(machine, &batch.log_probs)?,
            advantages: to.advantages.write_all(machine, &batch.advantages)?,
            old_log_std: to.log_std.write(machine, &batch.log_std)?,
            log_std: self.fused.log_std(),
            heads: self.heads,
            all: rows as i32,
            n: policy.net.outputs() as i32,
            width: policy.action_width() as i32,
            discrete: i32::from(policy.is_discrete()),
            entropy,
        })
    }

    /// See the module.
    pub fn descend(
        &mut self,
        machine: &mut dyn Machine,
        policy: &Policy,
        batch: &TrainingBatch,
        descent: &Descent,
    ) -> Outcome<Record> {
        let behaviour = self.take(machine, batch, policy, descent.entropy)?;
        let (rows, costs) = (batch.rows(), batch.costs().len());
        let size = descent.minibatch.as_ref().map_or(rows, |(size, _)| (*size).clamp(1, rows));
        let parts = rows.div_ceil(size);
        let of = if descent.minibatch.is_some() { parts } else { 0 };
        let weight = |part: usize| size.min(rows - part * size) as f64 / rows as f64;
        let (tiles, figures) = (rows.div_ceil(self.fused.shape.tile()), 2 + costs + EXTRA_TERMS);
        let mut actor = Actor {
            behaviour,
            loss: Loss::of(&descent.passes[0].0),
            rule: RawRule::default(),
            control: self.control,
            told: self.mailbox.address,
            outputs: self.outputs.room(machine, self.fused.room_rows()? * OUTPUTS * 4)?,
            parts: self.parts.room(machine, tiles * figures * 8)?,
            slopes: self.slopes.room(machine, tiles * OUTPUTS * 8)?,
            log: self.log.room(machine, descent.passes.len() * parts * figures * 8)?,
            recent: 0,
            number: 0,
            part: 0,
            of: of as i32,
            weight: 0.0,
        };
        // At theta_k every ratio is one, and a surrogate's mean is that of the advantages. Whole batches ask for none.
        let mean = |adv: &[f32]| adv.iter().map(|&x| f64::from(x)).sum::<f64>() / adv.len() as f64;
        let recent: Vec<f64> = batch
            .costs()
            .iter()
            .filter(|_| of > 0)
            .map(|adv| mean(adv))
            .flat_map(|mean| (0..of).map(move |part| weight(part) * mean))
            .collect();
        actor.recent = self.recent.write(machine, &recent)?;
        machine.write(self.control, cast_slice(&[i32::MAX, 0, 0, 0]))?;
        self.mailbox.numbers[0].store(i32::MAX, Ordering::SeqCst);
        self.mailbox.numbers[1].store(0, Ordering::SeqCst);
        let mut shuffled = descent.minibatch.as_ref().map(|(_, rng)| (rng.clone(), Vec::new()));
        let mean = if descent.average > 0 { self.mean.room(machine, self.fused.shape.length() * 4)? } else { 0 };
        let mut asked = 0;
        'passes: for (loss, rule) in &descent.passes {
            let mut index = 0;
            if let Some((rng, order)) = &mut shuffled {
                if self.is_over(machine, asked, of > 0)? {
                    break;
                }
                shuffle(order, rows, rng);
                index = self.index.write(machine, order)?;
            }
            (actor.loss, actor.rule) = (Loss::of(loss), RawRule::of(rule, descent.target_kl));
            for part in 0..parts {
                if self.is_over(machine, asked, of > 0)? {
                    break 'passes;
                }
                (actor.number, actor.part, actor.weight) = (asked, part as i32, weight(part));
                let here = size.min(rows - part * size);
                let index = (if of > 0 { index + (part * size * 4) as u64 } else { 0 }, 0);
                for phase in [FORWARD, BACKWARD] {
                    let seen = Seen { rows: here, beside: None, index };
                    self.fused.pass(machine, seen, phase, Side { actor }, false)?;
                }
                let moment = Moment {
                    control: self.control,
                    log: actor.log,
                    recent: actor.recent,
                    slopes: actor.slopes,
                    number: asked,
                    part: part as i32,
                    of: of as i32,
                    costs: costs as i32,
                    weight: actor.weight,
                    mean,
                    recent_share: descent.share_of_average(asked as usize + 1) as f32,
                };
                self.fused.step(machine, here, index, descent.learning_rate, moment)?;
                asked += 1;
            }
        }
        let control: Vec<i32> = read(machine, self.control, CONTROL)?;
        let (until, looked) = (control[0], control[1]);
        let taken = until.min(asked);
        self.fused.forget_steps((asked - taken) as u64);
        if mean != 0 && taken > 0 {
            self.fused.adopt(machine, mean)?;
        }
        let log: Vec<f64> = read(machine, actor.log, looked as usize * figures)?;
        let sums = log.chunks_exact(figures).map(|look| Sums { kl: look[0], terms: look[1..].to_vec() });
        Ok(Record { sums: sums.collect(), gradient_norm: self.fused.norm(machine, 0)? })
    }

    /// Waits until the host is not too far ahead; whether the descent has ended before launch `next`.
    fn is_over(&self, machine: &mut dyn Machine, next: i32, minibatches: bool) -> Outcome<bool> {
        let [until, looked] = self.mailbox.numbers;
        for look in 1.. {
            if until.load(Ordering::Acquire) <= next {
                return Ok(true);
            }
            if looked.load(Ordering::Acquire) >= next - AHEAD[usize::from(minibatches)] {
                break;
            }
            if look % LOOKS == 0 {
                machine.trouble()?;
            }
            std::hint::spin_loop();
        }
        Ok(false)
    }
}
