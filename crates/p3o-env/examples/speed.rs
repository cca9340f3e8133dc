use p3o_env::physics::articulated::{self, State, bodies};
use std::time::Instant;
fn main() {
    let only = std::env::args().nth(1);
    for (model, low, high) in [(&bodies::HALF_CHEETAH,-1e9,1e9), (&bodies::HOPPER,0.7,1e9), (&bodies::WALKER2D,0.8,2.0), (&bodies::SWIMMER,-1e9,1e9), (&bodies::ANT,0.2,1.0), (&bodies::HUMANOID,1.0,2.0)] {
        if only.as_ref().is_some_and(|o| o != model.name) { continue; }
        let mut physics = articulated::build(model);
        let nu = model.actuators.len();
        let z = if model.positions() == model.velocities() { 1 } else { 2 };
        let steps = if only.is_some() {200_000} else {20_000};
        let mut x: u64 = 88172645463325252;
        let mut rnd = || { x ^= x << 13; x ^= x >> 7; x ^= x << 17; (x >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0 };
        let mut best = f64::INFINITY;
        let reps = if only.is_some() {1} else {5};
        let mut contacts = 0; let mut resets = 0;
        for _ in 0..reps {
            let mut state = State::of(model);
            let mut ctrl = vec![0.0; nu];
            let t = Instant::now();
            for i in 0..steps {
                for (c, a) in ctrl.iter_mut().zip(model.actuators) { *c = rnd() * a.control.unwrap()[1]; }
                physics.step(&mut state, &ctrl);
                contacts += physics.contacts().len();
                let h = state.qpos[z];
                if i % 1000 == 999 || (z + nu > 3 && !(low..high).contains(&h)) || (model.name == "hopper" && state.qpos[2].abs() > 0.2) { state = State::of(model); for q in &mut state.qpos { *q += 0.01 * rnd(); } resets += 1; }
            }
            best = best.min(t.elapsed().as_secs_f64());
        }
        println!("{:14} {:9.0} steps/s  {:.3} us/evaluation, {:.2} contacts, {} resets", model.name, steps as f64 / best, best / (steps * model.substeps * if model.integrator == p3o_env::physics::articulated::model::Integrator::Euler {1} else {4}) as f64 * 1e6, contacts as f64 / (steps * reps) as f64, resets);
    }
}
