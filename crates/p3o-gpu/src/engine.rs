//! An engine whose networks and batches live on devices: one for the actor, one for the critics, which may work at the same time.
//!
//! The host keeps a copy of the networks to act with. It is brought up to date in [`Engine::check`], once per update; what
//! fails on the way is said there too.

use crate::device::{Device, Doubles, Floats, Indices, Loss, MOST_COSTS, Outcome, PolicyRows, ROWS, ValueRows};
use crate::net::Net;
use p3o::algo::natural::Surrogate;
use p3o::batch::TrainingBatch;
use p3o::config;
use p3o::critic::{Critic, shuffle};
use p3o::engine::{CriticEngine, EXTRA_TERMS, Engine, Networks, PolicyEngine, RowLoss, Sums};
use p3o::policy::Policy;
use rand_chacha::ChaCha8Rng;

/// See the module.
pub struct DeviceEngine {
    networks: Networks,
    actor: ActorSide,
    critics: CriticSide,
    /// Whether the devices are ahead of the host.
    ahead: bool,
}

/// The actor and what it learns from.
struct ActorSide {
    device: Box<dyn Device>,
    net: Net,
    log_std: Floats,
    heads: Indices,
    /// Room for a batch, once one has come.
    batch: Option<ActorBatch>,
    /// The last pass's.
    d_log_std: Vec<f32>,
    norm: f64,
    failed: Option<String>,
}

#[derive(Clone, Copy)]
struct ActorBatch {
    rows: usize,
    x: Floats,
    outputs: Floats,
    actions: Floats,
    log_probs: Floats,
    advantages: Floats,
    log_std: Floats,
    picked: Floats,
    index: Indices,
    parts: Doubles,
    sums: Doubles,
}

/// The critics and what they learn from.
struct CriticSide {
    device: Box<dyn Device>,
    nets: Vec<Net>,
    batch: Option<CriticBatch>,
    order: Vec<u32>,
    failed: Option<String>,
}

struct CriticBatch {
    rows: usize,
    x: Floats,
    open: Floats,
    targets: Vec<Floats>,
    picked: Floats,
    index: Indices,
    parts: Doubles,
    sums: Doubles,
}

/// What came out; of several failures the first is kept.
fn keep<T>(failed: &mut Option<String>, found: Outcome<T>) -> Option<T> {
    found.map_err(|error| failed.get_or_insert(error).len()).ok()
}

/// The rows of a mini-batch side by side, with their numbers, or all rows as they are.
fn pick(
    device: &mut dyn Device,
    pieces: Option<&[u32]>,
    (x, picked): (Floats, Floats),
    index: Indices,
    width: usize,
) -> Outcome<(Floats, Option<Indices>)> {
    let Some(pieces) = pieces else { return Ok((x, None)) };
    device.write_indices(index, pieces)?;
    device.gather(x, index, picked, pieces.len(), width)?;
    Ok((picked, Some(index)))
}

impl DeviceEngine {
    /// For these networks; `device` makes a device for each side.
    pub fn new(networks: Networks, device: &dyn Fn() -> Outcome<Box<dyn Device>>) -> Outcome<Self> {
        if networks.critics.len() > 1 + MOST_COSTS {
            return Err(format!("a device keeps at most {MOST_COSTS} limits"));
        }
        let (mut first, mut second) = (device()?, device()?);
        let Networks { policy, critics } = &networks;
        let net = Net::new(&mut *first, &policy.net)?;
        let log_std = first.floats(policy.log_std.len().max(1))?;
        let heads = first.indices(policy.heads.len().max(1))?;
        let sizes: Vec<u32> = policy.heads.iter().map(|n| *n as u32).collect();
        first.write_indices(heads, &sizes)?;
        let nets = critics.iter().map(|critic| Net::new(&mut *second, &critic.net)).collect::<Outcome<_>>()?;
        let d_log_std = vec![0.0; policy.log_std.len()];
        let actor = ActorSide { device: first, net, log_std, heads, batch: None, d_log_std, norm: 0.0, failed: None };
        let critics = CriticSide { device: second, nets, batch: None, order: Vec::new(), failed: None };
        let mut engine = DeviceEngine { networks, actor, critics, ahead: false };
        engine.load()?;
        Ok(engine)
    }

    /// Brings the devices up to date.
    fn load(&mut self) -> Outcome<()> {
        let Networks { policy, critics } = &self.networks;
        self.actor.load(policy)?;
        let CriticSide { device, nets, .. } = &mut self.critics;
        nets.iter_mut().zip(critics).try_for_each(|(net, critic)| net.load(&mut **device, &critic.net, &critic.adam))
    }

    /// Brings the host up to date.
    fn store(&mut self) -> Outcome<()> {
        let Networks { policy, critics } = &mut self.networks;
        let ActorSide { device, net, .. } = &mut self.actor;
        net.store(&mut **device, &mut policy.net, &mut policy.adam)?;
        let CriticSide { device, nets, .. } = &mut self.critics;
        let all = nets.iter().zip(critics);
        all.into_iter().try_for_each(|(net, critic)| net.store(&mut **device, &mut critic.net, &mut critic.adam))
    }
}

impl Engine for DeviceEngine {
    fn name(&self) -> String {
        self.actor.device.name()
    }

    fn networks(&self) -> &Networks {
        &self.networks
    }

    fn change_networks(&mut self, change: &mut dyn FnMut(&mut Networks) -> Result<(), String>) -> Result<(), String> {
        change(&mut self.networks)?;
        self.load()
    }

    fn critic_states(&self) -> Vec<Vec<f32>> {
        Vec::new()
    }

    fn set_critic_states(&mut self, _: Vec<Vec<f32>>) {}

    fn upload(&mut self, batch: &TrainingBatch) {
        self.ahead = true;
        let (policy, critics) = (&self.networks.policy, &self.networks.critics);
        let taken = self.actor.upload(batch, policy);
        keep(&mut self.actor.failed, taken);
        let taken = self.critics.upload(batch, critics);
        keep(&mut self.critics.failed, taken);
    }

    fn upload_targets(&mut self, batch: &TrainingBatch) {
        let taken = self.actor.upload_advantages(batch);
        keep(&mut self.actor.failed, taken);
        let taken = self.critics.upload_targets(batch);
        keep(&mut self.critics.failed, taken);
    }

    fn parts(&mut self) -> (Box<dyn PolicyEngine + '_>, Box<dyn CriticEngine + '_>) {
        let Networks { policy, critics } = &mut self.networks;
        let (actor, side) = (&mut self.actor, &mut self.critics);
        (Box::new(DeviceActor { policy, side: actor }), Box::new(DeviceCritics { critics, side }))
    }

    fn check(&mut self) -> Result<(), String> {
        if let Some(failed) = self.actor.failed.take().or(self.critics.failed.take()) {
            return Err(failed);
        }
        if std::mem::take(&mut self.ahead) { self.store() } else { Ok(()) }
    }
}

impl ActorSide {
    fn load(&mut self, policy: &Policy) -> Outcome<()> {
        self.net.load(&mut *self.device, &policy.net, &policy.adam)?;
        self.device.write(self.log_std, 0, &policy.log_std)
    }

    fn upload(&mut self, batch: &TrainingBatch, policy: &Policy) -> Outcome<()> {
        let ActorSide { device, net, batch: room, .. } = self;
        let (rows, n, width) = (batch.rows(), policy.net.outputs(), policy.action_width());
        if room.is_none_or(|room| room.rows < rows) {
            net.reserve(&mut **device, rows)?;
            let sums = 1 + batch.advantages.len() + EXTRA_TERMS + policy.log_std.len();
            *room = Some(ActorBatch {
                rows,
                x: device.floats(rows * policy.net.inputs())?,
                outputs: device.floats(rows * n)?,
                actions: device.floats(rows * width)?,
                log_probs: device.floats(rows)?,
                advantages: device.floats(rows * batch.advantages.len())?,
                log_std: device.floats(policy.log_std.len().max(1))?,
                picked: device.floats(rows * policy.net.inputs())?,
                index: device.indices(rows)?,
                parts: device.doubles(rows.div_ceil(ROWS) * sums)?,
                sums: device.doubles(sums)?,
            });
        }
        let room = room.expect("it was just made");
        for (to, values) in [
            (room.x, batch.actor_rows()),
            (room.outputs, &batch.outputs),
            (room.actions, &batch.actions),
            (room.log_probs, &batch.log_probs),
            (room.log_std, &batch.log_std),
        ] {
            device.write(to, 0, values)?;
        }
        Ok(())
    }

    fn upload_advantages(&mut self, batch: &TrainingBatch) -> Outcome<()> {
        let Some(room) = self.batch else { return Ok(()) };
        let rows = batch.rows();
        batch.advantages.iter().enumerate().try_for_each(|(s, adv)| self.device.write(room.advantages, s * rows, adv))
    }

    /// Forward, and what the rows say; leaves the gradient with respect to the outputs unless it only `measures`.
    #[allow(clippy::too_many_arguments)] // a policy, its batch and what to do with them
    fn look(
        &mut self,
        policy: &Policy,
        batch: &TrainingBatch,
        pieces: Option<&[u32]>,
        loss: Loss,
        entropy: f32,
        measures: bool,
    ) -> Outcome<Sums> {
        let room = self.batch.ok_or("there is no batch")?;
        let rows = pieces.map_or(batch.rows(), <[u32]>::len);
        let width = policy.net.inputs();
        let (x, index) = pick(&mut *self.device, pieces, (room.x, room.picked), room.index, width)?;
        let outputs = self.net.forward(&mut *self.device, x, rows)?;
        let look = PolicyRows {
            outputs,
            old_outputs: room.outputs,
            actions: room.actions,
            log_probs: room.log_probs,
            advantages: room.advantages,
            log_std: self.log_std,
            old_log_std: room.log_std,
            heads: self.heads,
            index,
            d: (!measures).then(|| self.net.d_outputs()),
            parts: room.parts,
            rows,
            all: batch.rows(),
            n: policy.net.outputs(),
            width: policy.action_width(),
            discrete: policy.is_discrete(),
            entropy,
            share: 1.0 / rows as f32,
            loss,
        };
        self.device.policy_rows(&look)?;
        let count = look.sums();
        self.device.add_doubles(room.parts, room.sums, rows.div_ceil(ROWS), count)?;
        if !measures {
            self.net.backward(&mut *self.device, x, rows)?;
            self.net.square(&mut *self.device, room.parts)?;
        }
        let mut sums = vec![0.0; count];
        self.device.read_doubles(room.sums, &mut sums)?;
        if !measures {
            let mut square = [0.0];
            self.device.read_doubles(room.parts, &mut square)?;
            self.norm = square[0].sqrt();
            let slopes = &sums[1 + loss.terms()..];
            self.d_log_std.iter_mut().zip(slopes).for_each(|(d, slope)| *d = *slope as f32);
        }
        let share = 1.0 / rows as f64;
        Ok(Sums { kl: share * sums[0], terms: sums[1..=loss.terms()].iter().map(|t| share * t).collect() })
    }
}

/// The actor's side of a [`DeviceEngine`].
struct DeviceActor<'a> {
    policy: &'a mut Policy,
    side: &'a mut ActorSide,
}

impl DeviceActor<'_> {
    /// What came out, or figures that end every loop.
    fn sums(&mut self, found: Outcome<Sums>, terms: usize) -> Sums {
        let found = self.keep(found).filter(|_| self.side.failed.is_none());
        found.unwrap_or_else(|| Sums { kl: f64::NAN, terms: vec![f64::NAN; terms] })
    }

    /// What came out, or nothing and the reason is kept.
    fn keep<T>(&mut self, found: Outcome<T>) -> Option<T> {
        keep(&mut self.side.failed, found)
    }
}

impl PolicyEngine for DeviceActor<'_> {
    fn pass(&mut self, batch: &TrainingBatch, pieces: Option<&[u32]>, loss: &RowLoss, entropy: f32) -> Sums {
        let loss = Loss::of(loss);
        let found = self.side.look(self.policy, batch, pieces, loss, entropy, false);
        self.sums(found, loss.terms())
    }

    fn measure(&mut self, batch: &TrainingBatch) -> Sums {
        let plain = RowLoss::Surrogate(Surrogate { reward: 1.0, costs: vec![0.0; batch.costs().len()] });
        let loss = Loss::of(&plain);
        let found = self.side.look(self.policy, batch, None, loss, 0.0, true);
        self.sums(found, loss.terms())
    }

    fn step(&mut self, learning_rate: f64) -> f64 {
        let (policy, side) = (&mut *self.policy, &mut *self.side);
        policy.adam_log_std.learning_rate = learning_rate;
        policy.adam_log_std.step_few(&mut policy.log_std, &side.d_log_std);
        let stepped = side.net.step(&mut *side.device, learning_rate);
        let stepped = stepped.and_then(|()| side.device.write(side.log_std, 0, &policy.log_std));
        self.keep(stepped).map_or(f64::NAN, |()| self.side.norm)
    }

    fn gradient(&mut self) -> Vec<f64> {
        let side = &mut *self.side;
        let found = side.net.packed(&mut *side.device, &self.policy.net, side.net.gradient);
        let of_net = self.keep(found).unwrap_or_else(|| vec![f32::NAN; self.policy.net.params().len()]);
        of_net.iter().chain(&self.side.d_log_std).map(|&g| f64::from(g)).collect()
    }

    fn fisher_product(&mut self, v: &[f64]) -> Vec<f64> {
        let (of_net, of_log_std) = v.split_at(self.policy.net.params().len());
        let direction: Vec<f32> = of_net.iter().map(|&v| v as f32).collect();
        let found = self.side.fisher(self.policy, &direction);
        let product = self.keep(found).unwrap_or_else(|| vec![f32::NAN; direction.len()]);
        product.iter().map(|&p| f64::from(p)).chain(of_log_std.iter().map(|v| 2.0 * v)).collect()
    }

    fn parameters(&mut self) -> Vec<f32> {
        let side = &mut *self.side;
        let found = side.net.packed(&mut *side.device, &self.policy.net, side.net.parameters);
        let of_net = self.keep(found).unwrap_or_else(|| vec![f32::NAN; self.policy.net.params().len()]);
        of_net.iter().chain(&self.policy.log_std).copied().collect()
    }

    fn set_parameters(&mut self, parameters: &[f32]) {
        self.policy.set_parameters(parameters);
        let loaded = self.side.load(self.policy);
        self.keep(loaded);
    }
}

impl ActorSide {
    fn fisher(&mut self, policy: &Policy, direction: &[f32]) -> Outcome<Vec<f32>> {
        let room = self.batch.ok_or("there is no batch")?;
        let (device, net, rows) = (&mut *self.device, &mut self.net, room.rows);
        let outputs = net.forward(device, room.x, rows)?;
        let tangents = net.tangents(device, &policy.net, direction, room.x, rows)?;
        let shape = (policy.net.outputs(), policy.action_width(), policy.is_discrete());
        let (d, share) = (net.d_outputs(), 1.0 / rows as f32);
        device.fisher_rows(outputs, tangents, self.log_std, self.heads, d, rows, shape, share)?;
        net.backward(device, room.x, rows)?;
        net.packed(device, &policy.net, net.gradient)
    }
}

impl CriticSide {
    fn upload(&mut self, batch: &TrainingBatch, critics: &[Critic]) -> Outcome<()> {
        let CriticSide { device, nets, batch: room, .. } = self;
        let (rows, width) = (batch.steps(), critics[0].net.inputs());
        if room.as_ref().is_none_or(|room| room.rows < rows) {
            nets.iter_mut().try_for_each(|net| net.reserve(&mut **device, rows))?;
            *room = Some(CriticBatch {
                rows,
                x: device.floats(rows * width)?,
                open: device.floats(rows * width)?,
                targets: critics.iter().map(|_| device.floats(rows)).collect::<Outcome<_>>()?,
                picked: device.floats(rows * width)?,
                index: device.indices(rows)?,
                parts: device.doubles(rows.div_ceil(ROWS))?,
                sums: device.doubles(1)?,
            });
        }
        let room = room.as_ref().expect("it was just made");
        device.write(room.x, 0, &batch.critic_rows)?;
        device.write(room.open, 0, &batch.open_rows)
    }

    fn upload_targets(&mut self, batch: &TrainingBatch) -> Outcome<()> {
        let Some(room) = &self.batch else { return Ok(()) };
        let both = room.targets.iter().zip(&batch.targets);
        both.into_iter().try_for_each(|(to, targets)| self.device.write(*to, 0, targets))
    }

    fn values(&mut self, critic: usize, scale: (f32, f32), open: bool, values: &mut [f32]) -> Outcome<()> {
        let Some(room) = &self.batch else { return Err("there is no batch".into()) };
        if values.is_empty() {
            return Ok(());
        }
        let x = if open { room.open } else { room.x };
        let outputs = self.nets[critic].forward(&mut *self.device, x, values.len())?;
        self.device.read(outputs, values)?;
        values.iter_mut().for_each(|v| *v = scale.1.mul_add(*v, scale.0));
        Ok(())
    }

    /// One gradient step; leaves the sum of the squared errors before it.
    fn descend(&mut self, critic: usize, pieces: Option<&[u32]>, scale: (f32, f32), rate: f64) -> Outcome<()> {
        let Some(room) = &self.batch else { return Err("there is no batch".into()) };
        let (device, net) = (&mut *self.device, &mut self.nets[critic]);
        let rows = pieces.map_or(room.rows, <[u32]>::len);
        let (x, index) = pick(device, pieces, (room.x, room.picked), room.index, net.inputs())?;
        let values = net.forward(device, x, rows)?;
        let (mean, unit) = scale;
        device.value_rows(&ValueRows {
            values,
            targets: room.targets[critic],
            index,
            d: net.d_outputs(),
            parts: room.parts,
            rows,
            mean,
            unit,
            share: 2.0 / rows as f32,
        })?;
        net.backward(device, x, rows)?;
        net.step(device, rate)?;
        device.add_doubles(room.parts, room.sums, rows.div_ceil(ROWS), 1)
    }

    /// The sum of the squared errors of the last step.
    fn loss(&mut self) -> Outcome<f64> {
        let Some(room) = &self.batch else { return Err("there is no batch".into()) };
        let mut sum = [0.0];
        self.device.read_doubles(room.sums, &mut sum)?;
        Ok(sum[0])
    }

    fn fit(
        &mut self,
        critic: usize,
        host: &Critic,
        settings: &config::Critic,
        rate: f64,
        rng: &mut ChaCha8Rng,
    ) -> Outcome<f64> {
        let scale = (host.scale.mean as f32, (1.0 / host.scale.deviation) as f32);
        let total = self.batch.as_ref().map_or(0, |room| room.rows);
        let mut first = 0.0;
        for pass in 0..settings.passes {
            let mut sum = 0.0;
            if settings.minibatch == 0 {
                self.descend(critic, None, scale, rate)?;
                if pass == 0 {
                    sum = self.loss()?;
                }
            } else {
                let mut order = std::mem::take(&mut self.order);
                shuffle(&mut order, total, rng);
                for part in order.chunks(settings.minibatch.max(1)) {
                    self.descend(critic, Some(part), scale, rate)?;
                    if pass == 0 {
                        sum += self.loss()?;
                    }
                }
                self.order = order;
            }
            if pass == 0 {
                first = sum / total as f64 * host.scale.deviation.powi(2);
            }
        }
        Ok(first)
    }
}

/// The critics' side of a [`DeviceEngine`].
struct DeviceCritics<'a> {
    critics: &'a mut [Critic],
    side: &'a mut CriticSide,
}

impl CriticEngine for DeviceCritics<'_> {
    fn values(&mut self, _: &TrainingBatch, critic: usize, values: &mut [f32], open_values: &mut [f32]) {
        let scale = &self.critics[critic].scale;
        let scale = (scale.mean as f32, scale.deviation as f32);
        let found = self.side.values(critic, scale, false, values);
        let found = found.and_then(|()| self.side.values(critic, scale, true, open_values));
        keep(&mut self.side.failed, found);
    }

    fn fit(
        &mut self,
        batch: &TrainingBatch,
        critic: usize,
        settings: &config::Critic,
        learning_rate: f64,
        rng: &mut ChaCha8Rng,
    ) -> f64 {
        let (host, side) = (&mut self.critics[critic], &mut *self.side);
        let mut loaded = Ok(());
        if settings.normalize {
            host.rescale(&batch.targets[critic]);
            loaded = side.nets[critic].load(&mut *side.device, &host.net, &host.adam);
        }
        let found = loaded.and_then(|()| side.fit(critic, host, settings, learning_rate, rng));
        keep(&mut side.failed, found).unwrap_or(f64::NAN)
    }
}
