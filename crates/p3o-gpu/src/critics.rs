//! Critics that are fitted together on a machine.

use crate::device::{MOST_COSTS, Outcome, Precision};
use crate::fused::{BACKWARD, Critics as Raw, FORWARD, Fused, Growing, Moment, Rows, Seen, Shape, Side, read};
use crate::machine::Machine;
use p3o::batch::TrainingBatch;
use p3o::config;
use p3o::critic::{Critic, shuffle};
use p3o_nn::Network;
use rand_chacha::ChaCha8Rng;

/// See the module.
pub(crate) struct FusedCritics {
    fused: Fused,
    /// What follows the open ends of a batch, in room for so many.
    open: Option<(Rows, usize)>,
    values: Growing,
    open_values: Growing,
    targets: Growing,
    errors: Growing,
    index: Growing,
    rows: usize,
}

impl FusedCritics {
    /// For critics, if their networks fit.
    pub fn new(machine: &mut dyn Machine, critics: &[Critic], precision: Precision) -> Outcome<Option<FusedCritics>> {
        let Network::FeedForward(net) = &critics[0].net else { return Ok(None) };
        let Some(shape) = Shape::of(net) else { return Ok(None) };
        let Some(fused) = Fused::new(machine, shape, critics.len(), precision)? else { return Ok(None) };
        Ok(Some(FusedCritics {
            fused,
            open: None,
            values: Growing::default(),
            open_values: Growing::default(),
            targets: Growing::default(),
            errors: Growing::default(),
            index: Growing::default(),
            rows: 0,
        }))
    }

    /// Takes over a host's critic.
    pub fn load(&mut self, machine: &mut dyn Machine, i: usize, critic: &Critic) -> Outcome<()> {
        let Network::FeedForward(net) = &critic.net else { return Ok(()) };
        self.fused.load(machine, i, net, &critic.adam, [&[]; 3])
    }

    /// Takes over a host's critic of which only the last layer has changed.
    pub fn load_head(&self, machine: &mut dyn Machine, i: usize, critic: &Critic) -> Outcome<()> {
        let Network::FeedForward(net) = &critic.net else { return Ok(()) };
        self.fused.load_head(machine, i, net)
    }

    /// Lets the passes see what was loaded since the batch came.
    pub fn refresh(&self, machine: &mut dyn Machine) -> Outcome<()> {
        self.fused.images(machine)
    }

    /// Gives all parameters back.
    pub fn store(&mut self, machine: &mut dyn Machine, critics: &mut [Critic]) -> Outcome<()> {
        let feed_forward = |critic| match critic {
            &mut Critic { net: Network::FeedForward(ref mut net), .. } => Some(net),
            _ => None,
        };
        let mut nets: Vec<_> = critics.iter_mut().filter_map(feed_forward).collect();
        self.fused.store(machine, &mut nets).map(drop)
    }

    /// Gives all optimisers back.
    pub fn store_optimisers(&self, machine: &mut dyn Machine, critics: &mut [Critic]) -> Outcome<()> {
        critics.iter_mut().enumerate().try_for_each(|(i, critic)| {
            let Network::FeedForward(net) = &critic.net else { return Ok(()) };
            self.fused.store_optimiser(machine, i, net, &mut critic.adam).map(drop)
        })
    }

    /// The gradient of a critic's last step, in the order of its parameters.
    pub fn gradient(&self, machine: &mut dyn Machine, i: usize, critic: &Critic) -> Outcome<Vec<f32>> {
        let Network::FeedForward(net) = &critic.net else { return Ok(Vec::new()) };
        Ok(self.fused.gradient(machine, i, net)?.0)
    }

    /// Takes in a batch, and finds every critic's values of it.
    pub fn take(&mut self, machine: &mut dyn Machine, batch: &TrainingBatch, critics: &[Critic]) -> Outcome<()> {
        let (width, count) = (critics[0].net.inputs(), critics.len());
        self.rows = batch.steps();
        let open = batch.open_rows.len() / width;
        self.fused.reserve(machine, self.rows.max(open))?;
        self.fused.take(machine, &batch.critic_rows)?;
        let room = self.fused.room_rows()?;
        self.values.room(machine, count * room * 4)?;
        self.open_values.room(machine, count * room * 4)?;
        self.evaluate(machine, critics, self.rows, None)?;
        if open > 0 {
            let (beside, most) = match self.open {
                Some(have) if have.1 >= open => have,
                _ => (self.fused.rows(machine, open)?, open),
            };
            self.open = Some((beside, most));
            self.fused.take_beside(machine, beside, &batch.open_rows)?;
            self.evaluate(machine, critics, open, Some(beside))?;
        }
        Ok(())
    }

    /// All values of the batch, or of what follows its open ends.
    fn evaluate(
        &mut self,
        machine: &mut dyn Machine,
        critics: &[Critic],
        rows: usize,
        beside: Option<Rows>,
    ) -> Outcome<()> {
        let values = if beside.is_some() { &mut self.open_values } else { &mut self.values }.room(machine, 0)?;
        let side = Side { critics: Raw { values, ..plain(critics) } };
        self.fused.pass(machine, Seen { rows, beside, index: (0, 0) }, FORWARD, side, true)
    }

    /// One critic's values, in the world's unit.
    pub fn values(
        &mut self,
        machine: &mut dyn Machine,
        i: usize,
        critic: &Critic,
        open: bool,
        values: &mut [f32],
    ) -> Outcome<()> {
        let from = if open { &mut self.open_values } else { &mut self.values }.room(machine, 0)?;
        let own = (i * self.fused.room_rows()? * 4) as u64;
        machine.read(from + own, bytemuck::cast_slice_mut(values))?;
        critic.denormalize(values);
        Ok(())
    }

    /// Takes in what the critics are to say.
    pub fn take_targets(&mut self, machine: &mut dyn Machine, batch: &TrainingBatch) -> Outcome<()> {
        self.targets.write_all(machine, &batch.targets).map(drop)
    }

    /// Fits all; returns each one's loss at the first pass.
    pub fn fit(
        &mut self,
        machine: &mut dyn Machine,
        critics: &[Critic],
        settings: &config::Critic,
        rate: f64,
        rngs: &mut [ChaCha8Rng],
    ) -> Outcome<Vec<f64>> {
        let (rows, count) = (self.rows, critics.len());
        let size = if settings.minibatch > 0 { settings.minibatch.min(rows) } else { rows };
        let parts = rows.div_ceil(size);
        let tile = self.fused.shape.tile();
        let slot = count * self.fused.room_rows()? / tile;
        // The errors of the first pass are kept; the later ones' go to one place.
        let errors = self.errors.room(machine, (parts + 1) * slot * 8)?;
        let targets = self.targets.room(machine, 0)?;
        let mut orders = vec![Vec::new(); count];
        for pass in 0..settings.passes {
            let mut index = (0, 0);
            if settings.minibatch > 0 {
                orders.iter_mut().zip(rngs.iter_mut()).for_each(|(order, rng)| shuffle(order, rows, rng));
                index = (self.index.write(machine, &orders.concat())?, rows);
            }
            for part in 0..parts {
                let here = size.min(rows - part * size);
                let to = if pass == 0 { part } else { parts };
                let raw =
                    Raw { targets, stride: rows as i32, errors: errors + (to * slot * 8) as u64, ..plain(critics) };
                let index = if index.1 > 0 { (index.0 + (part * size * 4) as u64, index.1) } else { index };
                let seen = Seen { rows: here, beside: None, index };
                self.fused.pass(machine, seen, FORWARD | BACKWARD, Side { critics: raw }, true)?;
                self.fused.step(machine, here, index, rate, Moment::default())?;
            }
        }
        let sums: Vec<f64> = read(machine, errors, parts * slot)?;
        let of = |i: usize| {
            let own = |part: usize| {
                let tiles = size.min(rows - part * size).div_ceil(tile);
                sums[part * slot + i * slot / count..][..tiles].iter().sum::<f64>()
            };
            (0..parts).map(own).sum::<f64>() / rows as f64 * critics[i].scale.deviation.powi(2)
        };
        Ok((0..count).map(of).collect())
    }
}

/// What the critics' units say, without a batch.
fn plain(critics: &[Critic]) -> Raw {
    let (mut mean, mut unit) = ([0.0; 1 + MOST_COSTS], [1.0; 1 + MOST_COSTS]);
    for (i, critic) in critics.iter().enumerate() {
        (mean[i], unit[i]) = critic.scale.unit();
    }
    Raw { targets: 0, stride: 0, mean, unit, values: 0, errors: 0 }
}
