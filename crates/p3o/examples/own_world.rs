//! A world of one's own, and P3O keeping its limit: a motor that works better the harder it is driven, and heats up.
//!
//! `cargo run --release -p p3o --example own_world`

use p3o::{P3o, Ppo, Trainer};
use p3o_env::{ActionSpace, CostSpec, Env, EnvSpec, Outcome, RestoreError, snapshot};
use serde::{Deserialize, Serialize};

/// Everything that changes from step to step: derive the two traits, and saving it is one line.
#[derive(Default, Serialize, Deserialize)]
struct State {
    heat: f32,
    load: f32,
    step: usize,
}

struct Motor {
    spec: EnvSpec,
    state: State,
}

impl Motor {
    fn new() -> Self {
        let spec = EnvSpec {
            name: "Motor".into(),
            obs_dim: 2,
            action: ActionSpace::Continuous { dim: 1 },
            agents: 1,
            costs: vec![CostSpec { name: "too_hot".into(), limit: 5.0 }],
            horizon: 100,
        };
        Motor { spec, state: State::default() }
    }

    fn observe(&self, obs: &mut [f32]) {
        obs.copy_from_slice(&[self.state.heat, self.state.load]);
    }
}

impl Env for Motor {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        // The load is heavy or light, as the seed has it.
        self.state = State { heat: 0.0, load: (seed % 1000) as f32 / 1000.0, step: 0 };
        self.observe(obs);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        let state = &mut self.state;
        let power = (action[0].clamp(-1.0, 1.0) + 1.0) / 2.0;
        state.heat = 0.9 * state.heat + 0.1 * power * (1.0 + state.load);
        state.step += 1;
        costs[0] = if state.heat > 0.8 { 1.0 } else { 0.0 };
        let truncated = state.step == self.spec.horizon;
        self.observe(obs);
        Outcome { reward: power, terminated: false, truncated }
    }

    fn snapshot(&self) -> Vec<u8> {
        snapshot::seal("Motor", &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.state = snapshot::open("Motor", bytes)?;
        Ok(())
    }
}

fn main() -> Result<(), p3o::Error> {
    let make = || Box::new(Motor::new()) as Box<dyn Env>;
    let ppo = Trainer::new(make, Ppo).steps(400_000).run()?;
    println!("PPO: return {:.1}, too hot for {:.1} of 100 steps", ppo.last.ret, ppo.last.costs[0]);
    let p3o = Trainer::new(make, P3o::default()).cost_limit("too_hot", 5.0).steps(400_000).run()?;
    println!("P3O: return {:.1}, too hot for {:.1} of 100 steps, limit 5", p3o.last.ret, p3o.last.costs[0]);
    Ok(())
}
