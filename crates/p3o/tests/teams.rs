//! Several agents: each acts by its own observation alone, and learns from what its group sees.

use crate::util::{Given, Script, bits, float_bits, method, on_threads, small, small_task};
use p3o::config::make_env;
use p3o::evaluate::{Settings, evaluate};
use p3o::rollout::Collector;
use p3o::run::named_task;
use p3o::{Config, Learner, Trainer, checkpoint};
use p3o_env::{ActionSpace, Env, EnvSpec, Outcome, RestoreError, SimpleSpread, SpreadSemantics, Team, VecEnv};
use safetensors::SafeTensors;

/// Both kinds: one shared actor, and one per agent.
const BOTH: [&str; 2] = ["map3o", "map3o-dec"];

/// Episodes of 25 steps, some of them under way when a batch ends.
const SHORT: &[&str] = &["rollout.batch=240", "rollout.normalize_obs=true", "net.hidden=[8]"];

/// A world in which one agent's observation is replaced by another number in every entry.
struct Blinded {
    world: Box<dyn Env>,
    agent: usize,
}

impl Blinded {
    fn blind(&self, obs: &mut [f32]) {
        let dim = obs.len() / self.world.spec().agents;
        obs[self.agent * dim..(self.agent + 1) * dim].fill(0.7);
    }
}

impl Env for Blinded {
    fn spec(&self) -> &EnvSpec {
        self.world.spec()
    }
    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        self.world.reset(seed, obs);
        self.blind(obs);
    }
    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        let outcome = self.world.step(action, obs, costs);
        self.blind(obs);
        outcome
    }
    fn snapshot(&self) -> Option<Vec<u8>> {
        self.world.snapshot()
    }
    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.world.restore(bytes)
    }
}

fn trained(algo: &str, changes: &[&str], updates: usize) -> Learner {
    let config = small_task(algo, "SimpleSpread", &[SHORT, changes].concat());
    let mut learner = Learner::new(config.clone(), &*named_task(&config).unwrap()).unwrap();
    (0..updates).for_each(|_| drop(learner.update().unwrap()));
    learner
}

#[test]
fn what_one_agent_sees_changes_no_other_agents_distribution() {
    for algo in BOTH {
        let learner = trained(algo, &["policy.learning_rate=0.02"], 4);
        let outputs = |make: &dyn Fn() -> Box<dyn Env>| -> Vec<Vec<u32>> {
            let mut collector = Collector::new(Box::new(VecEnv::new(make, 5)), 1, 3, true).unwrap();
            collector.collect(&learner.actors()).unwrap();
            collector.envs.iter().map(|env| float_bits(&env.outputs)).collect()
        };
        let make = || make_env(method(algo), "SimpleSpread", &Default::default()).unwrap();
        let plain = outputs(&make);
        for agent in 0..3 {
            let blinded = outputs(&|| Box::new(Blinded { world: make(), agent }));
            for (seen, plain) in blinded.iter().zip(&plain) {
                for (other, (a, b)) in seen.chunks(5).zip(plain.chunks(5)).enumerate() {
                    assert_eq!(a == b, other != agent, "{algo}: agent {agent} was blinded, look at {other}");
                }
            }
        }
    }
}

#[test]
fn agents_share_an_actor_or_have_their_own() {
    for agents in 2..=8 {
        let option = format!("env.agents={agents}");
        let spec = make_env(method("map3o"), "SimpleSpread", &[("agents".to_string(), f64::from(agents))].into())
            .unwrap()
            .spec()
            .clone();
        for algo in BOTH {
            let config = small(algo, &spec, &[SHORT, &[&option]].concat());
            let mut learner = Learner::new(config.clone(), &*named_task(&config).unwrap()).unwrap();
            let report = learner.update().unwrap();
            let steered: Vec<_> = learner.actors().iter().map(|actor| actor.agents.clone()).collect();
            let n = agents as usize;
            if algo == "map3o" {
                assert_eq!((steered.len(), steered[0].clone()), (1, 0..n));
            } else {
                assert_eq!(steered, (0..n).map(|i| i..i + 1).collect::<Vec<_>>());
                // No two of them are alike, before or after.
                let params = |i: usize| float_bits(learner.actors()[i].policy.net.params());
                assert!((0..n).all(|i| (0..i).all(|j| params(i) != params(j))));
            }
            assert!(learner.actors().iter().all(|actor| actor.policy.net.inputs() == 6 * n));
            assert!(report.passes.steps > 0 && report.critic_losses.len() == 2, "{algo}");
        }
    }
}

/// A team of two by script: agent 0 sees the step, agent 1 its square; nobody's action matters.
fn script(agents: usize) -> Script {
    let seen = move |t: usize| {
        let t = t as f32;
        [t / 10.0, t * t / 100.0][..agents].to_vec()
    };
    let choice = ActionSpace::Discrete { n: 3 };
    let mut world = Script::new(choice, &["risk"], 10, seen(0), move |t, _| Given {
        obs: seen(t),
        reward: (t % 4) as f32,
        costs: vec![f32::from(u8::from(t % 3 == 0))],
        terminated: false,
        truncated: t == 10,
    });
    world.spec.agents = agents;
    world
}

/// A tensor of a learner's checkpoint.
fn tensor(learner: &mut Learner, name: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    checkpoint::save(learner, &path).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    tensors.tensor(name).unwrap_or_else(|_| panic!("no {name}")).data().to_vec()
}

fn three_updates(algo: &str, world: &Script) -> Learner {
    let changes = ["rollout.envs=2", "rollout.batch=50", "rollout.normalize_obs=true", "critic.normalize=true"];
    let mut learner = Learner::new(small(algo, &world.spec, &changes), &world.maker()).unwrap();
    (0..3).for_each(|_| drop(learner.update().unwrap()));
    learner
}

#[test]
fn a_decentralised_agents_critics_learn_what_a_learner_of_its_own_would() {
    // The first agent starts from the same weights as a single one, and sees the same steps: its targets are the same, to
    // the bit, through three updates. Batches cut every second episode.
    let (mut single, mut dec) = (three_updates("p3o", &script(1)), three_updates("map3o-dec", &script(2)));
    for name in ["critic.reward.0.weight", "critic.cost.risk.1.weight", "critic.cost.risk.scale", "normalizer.squares"]
    {
        assert!(tensor(&mut single, name) == tensor(&mut dec, &format!("agent.0.{name}")), "{name}");
        assert!(tensor(&mut single, name) != tensor(&mut dec, &format!("agent.1.{name}")), "{name}");
    }
}

#[test]
fn a_teams_offset_is_shared_out_among_its_agents() {
    // Steps 3, 6 and 9 of an episode's ten cost 1, the limit is 1: (3 - 1) / 10 per step, between two agents a half of it each.
    let settings =
        ["rollout.envs=2", "rollout.batch=20", "constraint.form=raw", "constraint.margin=0", "limits.risk=1"];
    for (algo, agents, team, expected) in [
        ("map3o", 2, "together", 0.1),
        ("map3o-dec", 2, "together", 0.1),
        ("map3o", 2, "alone", 0.2),
        ("map3o-dec", 2, "alone", 0.2),
        ("p3o", 1, "together", 0.2),
    ] {
        let (world, team) = (script(agents), format!("constraint.team={team}"));
        let config = small(algo, &world.spec, &[&settings[..], &[&*team]].concat());
        let report = Learner::new(config, &world.maker()).unwrap().update().unwrap();
        assert!((report.offsets[0] - expected).abs() < 1e-12, "{algo} {team}: {:?}", report.offsets);
    }
}

#[test]
fn an_update_is_the_same_on_any_number_of_threads() {
    for algo in ["map3o", "map3o-dec", "mappo", "mappo-lag", "mafocops", "maipo-dec"] {
        for changes in [&[][..], &["policy.minibatch=96", "critic.minibatch=64"]] {
            let run = |threads| {
                on_threads(threads, || {
                    let mut learner = trained(algo, &[&["rollout.envs=8"], changes].concat(), 3);
                    let params: Vec<_> = learner.actors().iter().map(|a| float_bits(a.policy.net.params())).collect();
                    (params, tensor(&mut learner, "envs"))
                })
            };
            assert!(run(1) == run(3), "{algo}");
        }
    }
}

#[test]
fn a_team_is_evaluated_like_any_policy() {
    for algo in BOTH {
        let learner = trained(algo, &[], 2);
        let (agent, make) = (learner.agent(), named_task(learner.config()).unwrap());
        let play =
            |deterministic| evaluate(&agent, &*make, &Settings { episodes: 10, seed: 1, deterministic }).unwrap();
        let (drawn, likeliest) = (play(false), play(true));
        assert_eq!((drawn.episodes, drawn.length.mean), (10, 25.0));
        assert!(drawn.ret.mean < 0.0 && bits(&[drawn.ret.mean]) != bits(&[likeliest.ret.mean]));
        assert_eq!(play(false), drawn);
    }
}

#[test]
fn a_program_trains_a_team_of_its_own() {
    let make = || Box::new(Team::new(SimpleSpread::new(2, SpreadSemantics::Mpe2))) as Box<dyn Env>;
    let trained = Trainer::new(make, method("map3o")).cost_limit("collisions", 1.0).steps(6400).run().unwrap();
    assert_eq!((trained.last.steps, trained.last.length), (6400, 25.0));
    let config: &Config = trained.agent.config();
    assert!(!config.rollout.bootstrap && config.rollout.batch == 3200);
}
