//! An engine whose networks and batches live on devices: one for the actor, one for the critics, which may work at the same time.
//!
//! Feed-forward networks of ordinary size learn by whole passes on tensor cores (`actor.rs`, `critics.rs`); for other
//! networks, and for what only second-order algorithms ask, a pass is made layer by layer.
//!
//! The host keeps a copy of the networks to act with. It is brought up to date in [`Engine::check`], once per update; what
//! fails on the way is said there too. Adam's moments stay where they are until somebody saves them ([`Engine::sync`]).

use crate::actor::FusedActor;
use crate::critic_states::CriticStates;
use crate::critics::FusedCritics;
use crate::device::{
    Device, Doubles, Floats, Indices, Loss, MOST_COSTS, Outcome, PolicyRows, Precision, ROWS, ValueRows,
};
use crate::net::{Net, Rows};
use crate::recurrent::Cut;
use p3o::algo::natural::Surrogate;
use p3o::batch::TrainingBatch;
use p3o::config;
use p3o::critic::{Critic, shuffle};
use p3o::engine::{CriticEngine, Descent, EXTRA_TERMS, Engine, Networks, PolicyEngine, Record, RowLoss, Sums};
use p3o::policy::Policy;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// See the module.
pub struct DeviceEngine {
    networks: Networks,
    actor: ActorSide,
    critics: CriticSide,
    precision: Precision,
    /// Whether the devices are ahead of the host.
    ahead: bool,
    /// Whether they were since the host's optimisers were brought up to date.
    late: bool,
}

/// The actor and what it learns from.
struct ActorSide {
    device: Box<dyn Device>,
    net: Net,
    log_std: Floats,
    heads: Indices,
    /// Makes descents.
    fused: Option<FusedActor>,
    /// Which of the two has the newest policy.
    leads: Leads,
    /// Whether `net` has the batch.
    has_batch: bool,
    /// Room for a batch, once one has come.
    batch: Option<ActorBatch>,
    /// The last pass's.
    d_log_std: Vec<f32>,
    norm: f64,
    failed: Option<String>,
}

/// Where an actor's newest parameters are.
#[derive(Clone, Copy, PartialEq)]
enum Leads {
    Both,
    Fused,
    Layers,
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
    /// How a recurrent actor's rows are cut; the states before each sequence are there too.
    cut: Option<Cut>,
}

impl ActorBatch {
    /// So many rows, from the first one on.
    fn first(&self, count: usize) -> Rows {
        let sequences = self.cut.map(|cut| cut.sequences(cut.steps, cut.states));
        Rows { x: self.x, count, sequences }
    }
}

/// The critics and what they learn from.
struct CriticSide {
    device: Box<dyn Device>,
    /// All of them, where they fit.
    fused: Option<FusedCritics>,
    nets: Vec<Net>,
    /// One per recurrent critic.
    states: Vec<CriticStates>,
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
    /// How recurrent critics' rows are cut.
    cut: Option<Cut>,
}

/// What came out; of several failures the first is kept.
fn keep<T>(failed: &mut Option<String>, found: Outcome<T>) -> Option<T> {
    found.map_err(|error| failed.get_or_insert(error).len()).ok()
}

/// The rows of a mini-batch side by side, with their numbers, or all rows as they are. Its pieces are rows, or sequences.
fn pick(
    device: &mut dyn Device,
    pieces: Option<&[u32]>,
    all: Rows,
    (picked, index): (Floats, Indices),
    cut: Option<Cut>,
    width: usize,
) -> Outcome<(Rows, Option<Indices>)> {
    let Some(pieces) = pieces else { return Ok((all, None)) };
    let steps = cut.map_or(1, |cut| cut.steps as u32);
    let rows: Vec<u32> = pieces.iter().flat_map(|piece| piece * steps..(piece + 1) * steps).collect();
    device.write_indices(index, &rows)?;
    device.gather(all.x, index, picked, rows.len(), width)?;
    let cut = cut.zip(all.sequences).map(|(cut, all)| cut.pick(device, all, pieces, index));
    Ok((Rows { x: picked, count: rows.len(), sequences: cut.transpose()? }, Some(index)))
}

impl DeviceEngine {
    /// For these networks; `device` makes a device for each side.
    pub fn new(
        networks: Networks,
        device: &dyn Fn() -> Outcome<Box<dyn Device>>,
        precision: Precision,
    ) -> Outcome<Self> {
        Self::with(networks, device, Some(precision))
    }

    /// The same with every pass made layer by layer.
    pub fn by_layers(networks: Networks, device: &dyn Fn() -> Outcome<Box<dyn Device>>) -> Outcome<Self> {
        Self::with(networks, device, None)
    }

    /// Whole passes are made in this precision, where there are any.
    fn with(
        networks: Networks,
        device: &dyn Fn() -> Outcome<Box<dyn Device>>,
        whole: Option<Precision>,
    ) -> Outcome<Self> {
        if networks.critics.len() > 1 + MOST_COSTS {
            return Err(format!("a device keeps at most {MOST_COSTS} limits"));
        }
        let (mut first, mut second) = (device()?, device()?);
        let Networks { policy, critics } = &networks;
        let fused = first.machine().zip(whole);
        let fused = fused.map_or(Ok(None), |(machine, precision)| FusedActor::new(machine, policy, precision))?;
        let net = Net::new(&mut *first, &policy.net)?;
        let log_std = first.floats(policy.log_std.len().max(1))?;
        let heads = first.indices(policy.heads.len().max(1))?;
        let sizes: Vec<u32> = policy.heads.iter().map(|n| *n as u32).collect();
        first.write_indices(heads, &sizes)?;
        let d_log_std = vec![0.0; policy.log_std.len()];
        let actor = ActorSide {
            device: first,
            net,
            log_std,
            heads,
            leads: Leads::Both,
            fused,
            has_batch: false,
            batch: None,
            d_log_std,
            norm: 0.0,
            failed: None,
        };
        let fused = second.machine().zip(whole);
        let fused = fused.map_or(Ok(None), |(machine, precision)| FusedCritics::new(machine, critics, precision))?;
        let layered = if fused.is_some() { &[][..] } else { critics };
        let nets = layered.iter().map(|critic| Net::new(&mut *second, &critic.net)).collect::<Outcome<_>>()?;
        let recurrent = critics.iter().filter(|critic| critic.net.units() > 0);
        let states = recurrent.map(|critic| CriticStates::new(critic.net.units())).collect();
        let critics = CriticSide { device: second, fused, nets, states, batch: None, order: Vec::new(), failed: None };
        let precision = whole.unwrap_or_default();
        let mut engine = DeviceEngine { networks, actor, critics, precision, ahead: false, late: false };
        engine.load()?;
        Ok(engine)
    }

    /// The gradient of the actor's last pass, or of the last step of its last descent, in the order of its parameters.
    pub fn actor_gradient(&mut self) -> Outcome<Vec<f32>> {
        let (policy, side) = (&self.networks.policy, &mut self.actor);
        if let Some((fused, machine)) =
            side.fused.as_ref().filter(|_| side.leads == Leads::Fused).zip(side.device.machine())
        {
            return fused.gradient(machine, policy);
        }
        let mut all = side.net.packed(&mut *side.device, &policy.net, side.net.gradient)?;
        all.extend_from_slice(&side.d_log_std);
        Ok(all)
    }

    /// The gradient of a critic's mean squared error at the last step of its last fit, in its network's unit and in the order of its
    /// parameters.
    pub fn critic_gradient(&mut self, critic: usize) -> Outcome<Vec<f32>> {
        let host = &self.networks.critics[critic];
        let CriticSide { device, fused, nets, .. } = &mut self.critics;
        if let Some((fused, machine)) = fused.as_ref().zip(device.machine()) {
            return fused.gradient(machine, critic, host);
        }
        nets[critic].packed(&mut **device, &host.net, nets[critic].gradient)
    }

    /// Whether the actor and the critics learn by whole passes.
    pub fn is_fused(&self) -> [bool; 2] {
        [self.actor.fused.is_some(), self.critics.fused.is_some()]
    }

    /// Brings the devices up to date.
    fn load(&mut self) -> Outcome<()> {
        let Networks { policy, critics } = &self.networks;
        self.actor.load(policy)?;
        self.critics.load(critics)
    }

    /// Brings the host up to date, but for the optimisers.
    fn store(&mut self) -> Outcome<()> {
        let Networks { policy, critics } = &mut self.networks;
        let (of_actor, of_critics) = rayon::join(|| self.actor.store(policy), || self.critics.store(critics));
        of_actor.and(of_critics)
    }
}

impl Engine for DeviceEngine {
    fn name(&self) -> String {
        self.precision.beside(self.actor.device.name())
    }

    fn networks(&self) -> &Networks {
        &self.networks
    }

    fn sync(&mut self) -> Result<(), String> {
        self.check()?;
        if self.late {
            let Networks { policy, critics } = &mut self.networks;
            self.actor.store_optimisers(policy)?;
            self.critics.store_optimisers(critics)?;
            self.late = false;
        }
        Ok(())
    }

    fn change_networks(&mut self, change: &mut dyn FnMut(&mut Networks) -> Result<(), String>) -> Result<(), String> {
        self.sync()?;
        change(&mut self.networks)?;
        self.load()
    }

    fn critic_states(&self) -> Vec<Vec<f32>> {
        self.critics.states.iter().map(|states| states.first.clone()).collect()
    }

    fn set_critic_states(&mut self, all: Vec<Vec<f32>>) {
        self.critics.states.iter_mut().zip(all).for_each(|(states, first)| states.first = first);
    }

    fn upload(&mut self, batch: &TrainingBatch) {
        self.ahead = true;
        self.actor.has_batch = false;
        let taken = self.critics.upload(batch, &self.networks.critics);
        keep(&mut self.critics.failed, taken);
    }

    fn upload_targets(&mut self, batch: &TrainingBatch) {
        let taken = self.critics.upload_targets(batch);
        keep(&mut self.critics.failed, taken);
    }

    fn parts(&mut self) -> (Box<dyn PolicyEngine + '_>, Box<dyn CriticEngine + '_>) {
        let Networks { policy, critics } = &mut self.networks;
        let (actor, side) = (&mut self.actor, &mut self.critics);
        (Box::new(DeviceActor { policy, side: actor }), Box::new(DeviceCritics { critics, side }))
    }

    fn is_elsewhere(&self) -> bool {
        true
    }

    fn check(&mut self) -> Result<(), String> {
        if let Some(failed) = self.actor.failed.take().or(self.critics.failed.take()) {
            return Err(failed);
        }
        if std::mem::take(&mut self.ahead) {
            self.late = true;
            self.store()?;
        }
        Ok(())
    }
}

impl ActorSide {
    fn load(&mut self, policy: &Policy) -> Outcome<()> {
        if let Some((fused, machine)) = self.fused.as_mut().zip(self.device.machine()) {
            fused.load(machine, policy)?;
        }
        self.leads = Leads::Both;
        self.load_layers(policy)
    }

    /// Gives the parameters back.
    fn store(&mut self, policy: &mut Policy) -> Outcome<()> {
        match self.fused.as_mut().filter(|_| self.leads == Leads::Fused).zip(self.device.machine()) {
            Some((fused, machine)) => fused.store(machine, policy),
            None => self.net.store(&mut *self.device, &mut policy.net),
        }
    }

    /// Gives the optimisers back; that of `log_std` is the host's own where layers lead.
    fn store_optimisers(&mut self, policy: &mut Policy) -> Outcome<()> {
        match self.fused.as_mut().filter(|_| self.leads == Leads::Fused).zip(self.device.machine()) {
            Some((fused, machine)) => fused.store_optimisers(machine, policy),
            None => self.net.store_optimiser(&mut *self.device, &policy.net, &mut policy.adam),
        }
    }

    fn load_layers(&mut self, policy: &Policy) -> Outcome<()> {
        self.net.load(&mut *self.device, &policy.net, &policy.adam)?;
        self.device.write(self.log_std, 0, &policy.log_std)
    }

    /// Lets the layers have the newest policy, if they do not have it.
    fn lead_by_layers(&mut self, policy: &mut Policy) -> Outcome<()> {
        if self.leads == Leads::Fused {
            self.store(policy)?;
            self.store_optimisers(policy)?;
            self.load_layers(policy)?;
            self.leads = Leads::Both;
        }
        Ok(())
    }

    /// The same the other way round.
    fn lead_by_fused(&mut self, policy: &mut Policy) -> Outcome<()> {
        if self.leads == Leads::Layers {
            self.store(policy)?;
            self.store_optimisers(policy)?;
            if let Some((fused, machine)) = self.fused.as_mut().zip(self.device.machine()) {
                fused.load(machine, policy)?;
            }
        }
        self.leads = Leads::Fused;
        Ok(())
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
                cut: Cut::new(&mut **device, rows, batch.bptt, policy.net.units())?,
            });
        }
        let room = room.expect("it was just made");
        if let Some(cut) = room.cut {
            cut.upload(&mut **device, &batch.starts)?;
            let before = batch.states.chunks_exact(policy.net.units()).step_by(cut.steps);
            device.write(cut.states, 0, &before.flatten().copied().collect::<Vec<f32>>())?;
        }
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
        policy: &mut Policy,
        batch: &TrainingBatch,
        pieces: Option<&[u32]>,
        loss: Loss,
        entropy: f32,
        measures: bool,
    ) -> Outcome<Sums> {
        if !std::mem::replace(&mut self.has_batch, true) {
            self.upload(batch, policy)?;
            self.upload_advantages(batch)?;
        }
        self.lead_by_layers(policy)?;
        let room = self.batch.ok_or("there is no batch")?;
        let (to, width) = ((room.picked, room.index), policy.net.inputs());
        let (x, index) = pick(&mut *self.device, pieces, room.first(batch.rows()), to, room.cut, width)?;
        let rows = x.count;
        let outputs = self.net.forward(&mut *self.device, x)?;
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
            self.net.backward(&mut *self.device, x)?;
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

    fn descend(&mut self, batch: &TrainingBatch, descent: &Descent) -> Option<Record> {
        self.side.fused.as_ref()?;
        let ready = self.side.lead_by_fused(self.policy);
        let (fused, machine) = self.side.fused.as_mut().zip(self.side.device.machine())?;
        let found = ready.and_then(|()| fused.descend(machine, self.policy, batch, descent));
        Some(self.keep(found).unwrap_or_default())
    }

    fn measure(&mut self, batch: &TrainingBatch) -> Sums {
        let plain = RowLoss::Surrogate(Surrogate { reward: 1.0, costs: vec![0.0; batch.costs().len()] });
        let loss = Loss::of(&plain);
        let found = self.side.look(self.policy, batch, None, loss, 0.0, true);
        self.sums(found, loss.terms())
    }

    fn step(&mut self, learning_rate: f64) -> f64 {
        let (policy, side) = (&mut *self.policy, &mut *self.side);
        side.leads = Leads::Layers;
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
        let ready = self.side.lead_by_layers(self.policy);
        let side = &mut *self.side;
        let found = ready.and_then(|()| side.net.packed(&mut *side.device, &self.policy.net, side.net.parameters));
        let of_net = self.keep(found).unwrap_or_else(|| vec![f32::NAN; self.policy.net.params().len()]);
        of_net.iter().chain(&self.policy.log_std).copied().collect()
    }

    fn set_parameters(&mut self, parameters: &[f32]) {
        let ready = self.side.lead_by_layers(self.policy);
        self.policy.set_parameters(parameters);
        let side = &mut *self.side;
        side.leads = Leads::Layers;
        let loaded = ready.and_then(|()| side.net.load_parameters(&mut *side.device, &self.policy.net));
        let loaded = loaded.and_then(|()| side.device.write(side.log_std, 0, &self.policy.log_std));
        self.keep(loaded);
    }
}

impl ActorSide {
    fn fisher(&mut self, policy: &Policy, direction: &[f32]) -> Outcome<Vec<f32>> {
        let room = self.batch.ok_or("there is no batch")?;
        let (device, net, x, rows) = (&mut *self.device, &mut self.net, room.first(room.rows), room.rows);
        let outputs = net.forward(device, x)?;
        let tangents = net.tangents(device, &policy.net, direction, x)?;
        let shape = (policy.net.outputs(), policy.action_width(), policy.is_discrete());
        let (d, share) = (net.d_outputs(), 1.0 / rows as f32);
        device.fisher_rows(outputs, tangents, self.log_std, self.heads, d, rows, shape, share)?;
        net.backward(device, x)?;
        net.packed(device, &policy.net, net.gradient)
    }
}

impl CriticSide {
    fn load(&mut self, critics: &[Critic]) -> Outcome<()> {
        let CriticSide { device, fused, nets, .. } = self;
        if let Some((fused, machine)) = fused.as_mut().zip(device.machine()) {
            let mut all = critics.iter().enumerate();
            return all.try_for_each(|(i, critic)| fused.load(machine, i, critic));
        }
        nets.iter_mut().zip(critics).try_for_each(|(net, critic)| net.load(&mut **device, &critic.net, &critic.adam))
    }

    /// Gives the parameters back.
    fn store(&mut self, critics: &mut [Critic]) -> Outcome<()> {
        let CriticSide { device, fused, nets, .. } = self;
        if let Some((fused, machine)) = fused.as_mut().zip(device.machine()) {
            return fused.store(machine, critics);
        }
        nets.iter().zip(critics).try_for_each(|(net, critic)| net.store(&mut **device, &mut critic.net))
    }

    /// Gives the optimisers back.
    fn store_optimisers(&mut self, critics: &mut [Critic]) -> Outcome<()> {
        let CriticSide { device, fused, nets, .. } = self;
        if let Some((fused, machine)) = fused.as_ref().zip(device.machine()) {
            return fused.store_optimisers(machine, critics);
        }
        let mut all = nets.iter().zip(critics);
        all.try_for_each(|(net, critic)| net.store_optimiser(&mut **device, &critic.net, &mut critic.adam))
    }

    fn upload(&mut self, batch: &TrainingBatch, critics: &[Critic]) -> Outcome<()> {
        let CriticSide { device, fused, nets, states, batch: room, .. } = self;
        if let Some((fused, machine)) = fused.as_mut().zip(device.machine()) {
            return fused.take(machine, batch, critics);
        }
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
                cut: Cut::new(&mut **device, rows, batch.bptt, critics[0].net.units())?,
            });
            states.iter_mut().try_for_each(|states| states.reserve(&mut **device, rows / batch.bptt))?;
        }
        let room = room.as_ref().expect("it was just made");
        if let Some(cut) = room.cut {
            cut.upload(&mut **device, &batch.starts[..rows])?;
        }
        device.write(room.x, 0, &batch.critic_rows)?;
        device.write(room.open, 0, &batch.open_rows)
    }

    fn upload_targets(&mut self, batch: &TrainingBatch) -> Outcome<()> {
        if let Some((fused, machine)) = self.fused.as_mut().zip(self.device.machine()) {
            return fused.take_targets(machine, batch);
        }
        let Some(room) = &self.batch else { return Ok(()) };
        let both = room.targets.iter().zip(&batch.targets);
        both.into_iter().try_for_each(|(to, targets)| self.device.write(*to, 0, targets))
    }

    /// The values of all rows and of those behind the open ends of the batch.
    fn values(
        &mut self,
        batch: &TrainingBatch,
        critic: usize,
        host: &Critic,
        values: &mut [f32],
        open_values: &mut [f32],
    ) -> Outcome<()> {
        if let Some((fused, machine)) = self.fused.as_mut().zip(self.device.machine()) {
            fused.values(machine, critic, host, false, values)?;
            return fused.values(machine, critic, host, true, open_values);
        }
        self.outputs(batch, critic, values, open_values)?;
        host.denormalize(values);
        host.denormalize(open_values);
        Ok(())
    }

    /// What the network says of them, which is in its own unit.
    fn outputs(
        &mut self,
        batch: &TrainingBatch,
        critic: usize,
        values: &mut [f32],
        open_values: &mut [f32],
    ) -> Outcome<()> {
        let Some(room) = &self.batch else { return Err("there is no batch".into()) };
        let (device, net) = (&mut *self.device, &self.nets[critic]);
        if let (Some(cut), Some(states)) = (room.cut, self.states.get_mut(critic)) {
            return states.unroll(device, net, (room.x, room.open), cut, batch, values, open_values);
        }
        for (x, values) in [(room.x, values), (room.open, open_values)] {
            if !values.is_empty() {
                let outputs = net.forward(device, Rows { x, count: values.len(), sequences: None })?;
                device.read(outputs, values)?;
            }
        }
        Ok(())
    }

    /// One gradient step; leaves the gradient and the sum of the squared errors before it.
    fn descend(&mut self, critic: usize, pieces: Option<&[u32]>, scale: (f32, f32), rate: f64) -> Outcome<()> {
        let Some(room) = &self.batch else { return Err("there is no batch".into()) };
        let (device, net) = (&mut *self.device, &mut self.nets[critic]);
        let before = self.states.get(critic).and_then(|states| states.before);
        let sequences = room.cut.zip(before).map(|(cut, before)| cut.sequences(cut.steps, before));
        let all = Rows { x: room.x, count: room.rows, sequences };
        let (x, index) = pick(device, pieces, all, (room.picked, room.index), room.cut, net.inputs())?;
        let rows = x.count;
        let values = net.forward(device, x)?;
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
        net.backward(device, x)?;
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
        let scale = host.scale.unit();
        let total = self.batch.as_ref().map_or(0, |room| room.rows);
        let steps = self.batch.as_ref().and_then(|room| room.cut).map_or(1, |cut| cut.steps);
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
                shuffle(&mut order, total / steps, rng);
                for part in order.chunks((settings.minibatch / steps).max(1)) {
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
    fn values(&mut self, batch: &TrainingBatch, critic: usize, values: &mut [f32], open_values: &mut [f32]) {
        let found = self.side.values(batch, critic, &self.critics[critic], values, open_values);
        keep(&mut self.side.failed, found);
    }

    fn fit_all(
        &mut self,
        batch: &TrainingBatch,
        settings: &config::Critic,
        learning_rate: f64,
        rngs: &mut [ChaCha8Rng],
    ) -> Vec<f64> {
        let side = &mut *self.side;
        let Some((fused, machine)) = side.fused.as_mut().zip(side.device.machine()) else {
            let fit = |(i, rng)| self.fit(batch, i, settings, learning_rate, rng);
            return rngs.iter_mut().enumerate().map(fit).collect();
        };
        let mut loaded = Ok(());
        if settings.normalize {
            let both = self.critics.par_iter_mut().zip(&batch.targets);
            both.for_each(|(critic, targets)| critic.rescale(targets));
            let mut all = self.critics.iter().enumerate();
            loaded = all.try_for_each(|(i, critic)| fused.load_head(machine, i, critic));
            loaded = loaded.and_then(|()| fused.refresh(machine));
        }
        let found = loaded.and_then(|()| fused.fit(machine, self.critics, settings, learning_rate, rngs));
        keep(&mut side.failed, found).unwrap_or_else(|| vec![f64::NAN; self.critics.len()])
    }
}

impl DeviceCritics<'_> {
    /// Fits one critic layer by layer; returns its loss at the first pass.
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
            loaded = side.nets[critic].load_head(&mut *side.device, &host.net);
        }
        let found = loaded.and_then(|()| side.fit(critic, host, settings, learning_rate, rng));
        keep(&mut side.failed, found).unwrap_or(f64::NAN)
    }
}
