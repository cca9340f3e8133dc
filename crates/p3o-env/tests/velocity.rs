//! Velocity tasks give the rewards, costs, ends and observations of the originals.

use p3o_env::{OpenEnv, Quantities, tasks};

use crate::bodies::Record;
use crate::util::step_by;

/// Recorded steps of an original beside ours.
#[derive(Default)]
pub struct Steps {
    pub costly: usize,
    pub ended: usize,
    count: usize,
    /// Largest differences of reward and observation.
    worst: [f64; 2],
}

impl Steps {
    /// Takes one from a state; the record has the action, u32 cost and terminated, f64 reward, and the next observation.
    pub fn take(&mut self, env: &mut dyn OpenEnv, state: Quantities, record: &Record) {
        let [nu, obs] = [env.spec().action_width(), env.spec().obs_dim];
        let action: Vec<f32> = record.short(nu).iter().map(|a| *a as f32).collect();
        let (cost, terminated) = (record.count(), record.count() == 1);
        let reward = record.long(1)[0];
        let expected = record.short(obs);
        env.set_state(state).expect("its state");
        let step = step_by(env, &action);
        let (task, i) = (&env.spec().name, self.count);
        assert_eq!((step.costs[0], step.outcome.terminated), (cost as f32, terminated), "{task}, step {i}");
        let off = |found: f32, expected: f64| (f64::from(found) - expected).abs() / expected.abs().max(1.0);
        self.worst[0] = self.worst[0].max(off(step.outcome.reward, reward));
        self.worst[1] = step.obs.iter().zip(&expected).map(|(f, e)| off(*f, *e)).fold(self.worst[1], f64::max);
        self.costly += cost;
        self.ended += usize::from(terminated);
        self.count += 1;
    }

    /// After the last of a task.
    pub fn check(&self, task: &str, record: Record) {
        record.finish();
        println!("{task}: largest differences of reward and observation {:?}", self.worst);
        // Half a unit in the last place of an f32 is 6e-8 of its size.
        assert!(self.worst.iter().all(|off| *off <= 1.3e-7), "{task}: {:?}", self.worst);
    }
}

#[test]
fn steps_match_the_original_tasks() {
    let (mut costly, mut ended) = (0, 0);
    for task in
        ["Ant", "HalfCheetah", "Hopper", "Walker2d", "Swimmer", "Humanoid"].map(|body| format!("{body}Velocity"))
    {
        let record = Record::open(&format!("velocity/{task}"));
        let [nq, nv, nu, obs, steps] = [(); 5].map(|()| record.count());
        let mut env = tasks::make_open(&task, &Default::default()).expect("a listed task");
        assert_eq!((env.spec().obs_dim, env.spec().action_width()), (obs, nu));
        let mut found = Steps::default();
        for _ in 0..steps {
            let [qpos, qvel] = [nq, nv].map(|len| record.short(len));
            found.take(&mut *env, [("qpos".to_owned(), qpos), ("qvel".to_owned(), qvel)].into(), &record);
        }
        found.check(&task, record);
        costly += found.costly;
        ended += found.ended;
    }
    assert!(costly > 60 && ended > 60, "{costly} {ended}");
}
