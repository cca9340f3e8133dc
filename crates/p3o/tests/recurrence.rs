//! Networks that remember: what they saw is in their states, episodes do not leak into one another, and a task that
//! needs memory is solved by them alone.

use crate::util::{Given, Script, float_bits, on_threads, rng, small};
use p3o::evaluate::{Settings, evaluate};
use p3o::rollout::Collector;
use p3o::{Learner, Report};
use p3o_env::{ActionSpace, CostSpec, Env, EnvSpec, Outcome, RestoreError, VecEnv, snapshot};
use rand::RngExt;

const RECURRENT: &[&str] = &["net.hidden=[8]", "net.gru=8", "net.bptt=5"];

/// Episodes of seven steps in batches of twenty: some begin in one batch and end in the next.
pub fn waves(agents: usize, unseen: f32) -> Script {
    let seen = move |t: usize| {
        let (sin, cos) = (libm::sinf(t as f32), libm::cosf(t as f32));
        [sin, cos, 0.3, unseen * sin, unseen + cos, 0.3][..3 * agents].to_vec()
    };
    let mut world = Script::new(ActionSpace::Discrete { n: 3 }, &["risk"], 7, seen(0), move |t, action| Given {
        obs: seen(t),
        reward: (t % 3) as f32 * action[0],
        costs: vec![f32::from(u8::from(t % 4 == 0))],
        terminated: false,
        truncated: t == 7,
    });
    world.spec.agents = agents;
    world
}

fn learner(algo: &str, world: &Script, changes: &[&str]) -> Learner {
    let settings = [RECURRENT, &["rollout.batch=80", "rollout.normalize_obs=true"], changes].concat();
    Learner::new(small(algo, &world.spec, &settings), &world.maker()).unwrap()
}

#[test]
fn a_pass_finds_the_very_outputs_that_acted() {
    // With a step size of zero the policy of a pass is the one that acted: every ratio is one and the KL is zero, to the
    // bit, if and only if the pass goes through the same states.
    for bptt in ["net.bptt=20", "net.bptt=5", "net.bptt=1"] {
        for (algo, agents) in [("p3o", 1), ("map3o", 2), ("map3o-dec", 2)] {
            let world = waves(agents, 1.0);
            let mut learner = learner(algo, &world, &[bptt, "policy.learning_rate=0"]);
            for update in 0..4 {
                let Report { passes, .. } = learner.update().unwrap();
                assert_eq!((passes.steps, passes.kl.to_bits()), (3, 0.0f64.to_bits()), "{algo} {bptt} {update}");
            }
        }
    }
}

#[test]
fn an_agents_memory_holds_nothing_that_another_saw() {
    for algo in ["map3o", "map3o-dec"] {
        let mut learner = learner(algo, &waves(2, 1.0), &["policy.learning_rate=0.01"]);
        (0..4).for_each(|_| drop(learner.update().unwrap()));
        // Nobody's action matters to what is seen, so the second agent's world can be changed for whole episodes.
        let outputs = |unseen: f32| -> Vec<Vec<u32>> {
            let worlds = VecEnv::new(&waves(2, unseen).maker(), 3);
            let mut collector = Collector::new(Box::new(worlds), 20, 3, true).unwrap();
            collector.collect(&learner.actors()).unwrap();
            collector.envs.iter().map(|env| float_bits(&env.outputs)).collect()
        };
        for (plain, changed) in outputs(1.0).iter().zip(&outputs(-0.3)) {
            for (step, (a, b)) in plain.chunks(6).zip(changed.chunks(6)).enumerate() {
                assert!(a[..3] == b[..3], "{algo}: the first agent noticed at step {step}");
                assert!(a[3..] != b[3..], "{algo}: the second agent did not notice at step {step}");
            }
        }
    }
}

#[test]
fn an_update_is_the_same_on_any_number_of_threads() {
    for changes in [&[][..], &["policy.minibatch=30", "critic.minibatch=20", "critic.normalize=true"]] {
        let run = |threads| {
            on_threads(threads, || {
                let mut learner = learner("map3o", &waves(2, 1.0), changes);
                let reports: Vec<Report> = (0..3).map(|_| learner.update().unwrap()).collect();
                (float_bits(learner.policy().net.params()), reports[2].critic_losses.clone())
            })
        };
        assert!(run(1) == run(3));
    }
}

/// Shows a sign once, then nothing, and asks for it at the end. A wrong answer is also what may not happen often.
struct Riddle {
    spec: EnvSpec,
    sign: f32,
    step: usize,
}

const WAIT: usize = 5;

impl Riddle {
    fn make() -> Box<dyn Env> {
        let spec = EnvSpec {
            name: "Riddle".into(),
            obs_dim: 2,
            action: ActionSpace::Discrete { n: 2 },
            agents: 1,
            costs: vec![CostSpec::new("wrong", 0.1)],
            horizon: WAIT,
        };
        Box::new(Riddle { spec, sign: 1.0, step: 0 })
    }
}

impl Env for Riddle {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        (self.sign, self.step) = (if rng(seed).random::<bool>() { 1.0 } else { -1.0 }, 0);
        obs.copy_from_slice(&[self.sign, 0.0]);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        self.step += 1;
        let asked = self.step == WAIT;
        let right = (action[0] == 1.0) == (self.sign == 1.0);
        obs.copy_from_slice(&[0.0, f32::from(u8::from(self.step + 1 == WAIT))]);
        costs[0] = f32::from(u8::from(asked && !right));
        let reward = f32::from(u8::from(asked && right));
        Outcome { reward, terminated: asked, truncated: false }
    }

    fn snapshot(&self) -> Option<Vec<u8>> {
        Some(snapshot::seal("Riddle", &(self.sign, self.step)))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        (self.sign, self.step) = snapshot::open("Riddle", bytes)?;
        Ok(())
    }
}

#[test]
fn a_riddle_that_needs_memory_is_solved_with_memory_alone() {
    let played = |gru: &str| {
        let changes = [
            "rollout.envs=32",
            "rollout.batch=640",
            "rollout.gamma=0.95",
            "net.hidden=[8]",
            gru,
            "net.bptt=20",
            "policy.learning_rate=0.01",
            "critic.learning_rate=0.01",
            "policy.passes=10",
            "p3o.kappa=2",
        ];
        let mut learner = Learner::new(small("p3o", Riddle::make().spec(), &changes), &Riddle::make).unwrap();
        (0..60).for_each(|_| drop(learner.update().unwrap()));
        let settings = Settings { episodes: 500, seed: 9, deterministic: false };
        let found = evaluate(&learner.agent(), &Riddle::make, &settings).unwrap();
        (found.ret.mean, found.costs["wrong"].mean)
    };
    // Without memory every answer is right half the time; 0.6 is more than four deviations of 500 coin tosses away.
    let (right, wrong) = played("net.gru=0");
    assert!(right < 0.6 && wrong > 0.4, "{right} {wrong}");
    let (right, wrong) = played("net.gru=8");
    assert!(right > 0.95 && wrong < 0.05, "{right} {wrong}");
}
