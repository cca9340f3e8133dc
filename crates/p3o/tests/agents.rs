//! A trained policy acts without its trainer: from a run's folder or from the checkpoint alone, in one world or in many.

use crate::util::{Given, Script, float_bits, named_learner, one_line, rng, small, small_task};
use p3o::evaluate::{CostFigure, Evaluation, Figure, Settings, evaluate};
use p3o::record::Summary;
use p3o::run::{checkpoint_path, named_task};
use p3o::{Agent, Config, Error, Learner, Run};
use p3o_env::ActionSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Every kind of policy: continuous and discrete, feed-forward and recurrent, one, shared and several.
fn kinds() -> Vec<(String, Config)> {
    let short = ["rollout.batch=240", "run.steps=480", "rollout.normalize_obs=true", "policy.learning_rate=0.01"];
    let recurrent = [&short[..], &["net.gru=8"]].concat();
    let kinds =
        [("p3o", "PointGoal"), ("p3o", "SimpleSpread"), ("map3o", "SimpleSpread"), ("map3o-dec", "SimpleSpread")];
    let of = |&(method, task): &(&str, &str)| {
        [("", &short[..]), (" recurrent", &recurrent)]
            .map(|(kind, changes)| (format!("{method} in {task}{kind}"), small_task(method, task, changes)))
    };
    kinds.iter().flat_map(of).collect()
}

/// What an agent does in some worlds over several steps, drawn or likeliest, as bits; some worlds restart on the way.
fn acts(agent: &Agent, observations: &[Vec<f32>], worlds: usize, mut rngs: Option<Vec<ChaCha8Rng>>) -> Vec<Vec<u32>> {
    let (mut state, width) = (agent.start(worlds), agent.spec().action_width());
    let act = |(t, obs): (usize, &Vec<f32>)| {
        if t == 3 {
            (0..worlds).step_by(2).for_each(|world| state.restart(world));
        }
        let mut actions = vec![0.0; worlds * width];
        agent.act(obs, &mut state, rngs.as_deref_mut(), &mut actions);
        float_bits(&actions)
    };
    observations.iter().enumerate().map(act).collect()
}

/// Rows of random observations for some steps of some worlds.
fn observations(agent: &Agent, worlds: usize, steps: usize) -> Vec<Vec<f32>> {
    let mut rng = rng(8);
    let row = |_| (0..worlds * agent.spec().obs_dim).map(|_| rng.random_range(-2.0..2.0)).collect();
    (0..steps).map(row).collect()
}

fn streams(worlds: usize) -> Option<Vec<ChaCha8Rng>> {
    Some((0..worlds as u64).map(|i| rng(100 + i)).collect())
}

#[test]
fn the_folder_and_the_checkpoint_alone_give_what_was_trained() {
    for (kind, config) in kinds() {
        let home = tempfile::tempdir().unwrap();
        let (folder, alone) = (home.path().join("run"), home.path().join("policy"));
        let mut run = Run::start(config.clone(), &*named_task(&config).unwrap(), &folder).unwrap();
        run.train(&mut |_, _| ControlFlow::Continue(())).unwrap();
        std::fs::copy(checkpoint_path(&folder), &alone).unwrap();
        let trained = run.learner().agent();
        drop(run);
        let seen = observations(&trained, 3, 6);
        let (drawn, likeliest) = (acts(&trained, &seen, 3, streams(3)), acts(&trained, &seen, 3, None));
        assert_ne!(drawn, likeliest, "{kind}");
        assert_eq!(acts(&trained, &seen, 3, None), likeliest, "{kind}: the likeliest action is one");
        let others = Some(vec![rng(1), rng(2), rng(3)]);
        assert_ne!(acts(&trained, &seen, 3, others), drawn, "{kind}: other streams draw other actions");
        for path in [&folder, &checkpoint_path(&folder), &alone] {
            let agent = Agent::load(path).unwrap_or_else(|e| panic!("{kind}: {e}"));
            assert_eq!((agent.config(), agent.trained_steps()), (&config, 480), "{kind}");
            assert_eq!((agent.spec(), agent.limits()), (trained.spec(), trained.limits()), "{kind}");
            assert_eq!(acts(&agent, &seen, 3, streams(3)), drawn, "{kind} from {}", path.display());
            assert_eq!(acts(&agent, &seen, 3, None), likeliest, "{kind} from {}", path.display());
        }
        // Training has changed something, so that another policy would have been noticed.
        let fresh = named_learner(config).agent();
        assert_ne!(acts(&fresh, &seen, 3, streams(3)), drawn, "{kind}");
    }
}

#[test]
fn a_batch_of_worlds_acts_as_each_of_them_alone() {
    // More worlds than the networks take in at once.
    let worlds = 2 * (p3o_nn::TILE_ROWS / 2 + 3);
    for (kind, config) in kinds() {
        let mut learner = named_learner(config);
        learner.update().unwrap();
        let agent = learner.agent();
        let seen = observations(&agent, worlds, 5);
        let (dim, width) = (agent.spec().obs_dim, agent.spec().action_width());
        for drawn in [true, false] {
            let together = acts(&agent, &seen, worlds, streams(worlds).filter(|_| drawn));
            // The second world does not restart on the way, so it is looked at beside one that does.
            for pair in (0..worlds).step_by(2).filter(|pair| pair % 20 == 0 || pair + 2 == worlds) {
                let part: Vec<Vec<f32>> = seen.iter().map(|obs| obs[pair * dim..][..2 * dim].to_vec()).collect();
                let rngs = streams(worlds).filter(|_| drawn).map(|all| all[pair..pair + 2].to_vec());
                for (step, (own, all)) in acts(&agent, &part, 2, rngs).iter().zip(&together).enumerate() {
                    assert!(*own == all[pair * width..][..2 * width], "{kind}: worlds {pair} and next, step {step}");
                }
            }
            let first: Vec<Vec<f32>> = seen.iter().map(|obs| obs[..dim].to_vec()).collect();
            let alone = acts(&agent, &first, 1, streams(1).filter(|_| drawn));
            assert!(alone.iter().zip(&together).all(|(own, all)| *own == all[..width]), "{kind}");
        }
    }
}

#[test]
fn a_restart_forgets_one_world_and_no_other() {
    let mut learner = named_learner(small_task("map3o", "SimpleSpread", &["rollout.batch=100", "net.gru=8"]));
    learner.update().unwrap();
    let agent = learner.agent();
    let (mut state, mut actions) = (agent.start(3), vec![0.0; 3 * agent.spec().action_width()]);
    agent.act(&observations(&agent, 3, 1)[0], &mut state, None, &mut actions);
    let before = state.states().to_vec();
    // Three agents of eight numbers each.
    assert!(before.len() == 3 * 24 && before.chunks(24).all(|world| world.iter().any(|h| *h != 0.0)));
    state.restart(1);
    assert!(state.states()[24..48].iter().all(|h| *h == 0.0));
    assert_eq!((&state.states()[..24], &state.states()[48..]), (&before[..24], &before[48..]));
}

#[test]
fn an_agent_needs_no_world_that_is_known_by_name() {
    let world = Script::new(ActionSpace::Discrete { n: 3 }, &["risk"], 10, vec![0.5, 0.25], |step, _| Given {
        obs: vec![step as f32, 1.0],
        reward: 0.0,
        costs: vec![0.0],
        terminated: false,
        truncated: step == 10,
    });
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    let config = small("p3o", &world.spec, &[]);
    Run::start(config.clone(), &world.maker(), &folder).unwrap();
    let agent = Agent::load(&folder).unwrap();
    assert_eq!((agent.spec(), agent.config(), agent.trained_steps()), (&world.spec, &config, 0));
    let found = evaluate(&agent, &world.maker(), &Settings { episodes: 3, seed: 1, deterministic: true }).unwrap();
    assert_eq!((found.episodes, found.length.mean), (3, 10.0));
    let learner = Learner::new(config, &world.maker()).unwrap();
    let seen = observations(&agent, 2, 4);
    assert_eq!(acts(&agent, &seen, 2, streams(2)), acts(&learner.agent(), &seen, 2, streams(2)));
}

#[test]
fn what_is_no_policy_is_refused_in_one_line() {
    let home = tempfile::tempdir().unwrap();
    let config = small_task("p3o", "PointGoal", &[]);
    let folder = home.path().join("run");
    Run::start(config.clone(), &*named_task(&config).unwrap(), &folder).unwrap();
    let refusal = |path: &Path| one_line(Agent::load(path).err().expect("it is no policy"));
    let nowhere = home.path().join("nowhere");
    assert!(matches!(Agent::load(&nowhere), Err(Error::NoRun { folder }) if folder == nowhere));
    assert!(refusal(&nowhere).contains(nowhere.to_str().unwrap()));
    assert!(refusal(home.path()).contains("is not a run: it has no config.toml"));
    let text = home.path().join("text");
    std::fs::write(&text, "no checkpoint").unwrap();
    assert!(refusal(&text).contains("damaged or not one at all"));
    // Settings of another network, and a checkpoint with a flipped bit.
    std::fs::write(folder.join("config.toml"), small_task("p3o", "PointGoal", &["net.hidden=[8]"]).to_toml()).unwrap();
    assert!(refusal(&folder).contains(
        "config.toml was altered: it has net.hidden = [8], and latest.safetensors has net.hidden = [16, 16]"
    ));
    let mut bytes = std::fs::read(checkpoint_path(&folder)).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(checkpoint_path(&folder), bytes).unwrap();
    assert!(refusal(&checkpoint_path(&folder)).contains("its digest does not match"));
}

/// The folders of runs of version 1, whose checkpoints have format 3.
fn version_1() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-1");
    let mut runs: Vec<PathBuf> = std::fs::read_dir(all).unwrap().map(|e| e.unwrap().path()).collect();
    runs.retain(|run| run.is_dir());
    runs.sort();
    runs
}

#[test]
fn a_checkpoint_of_format_3_is_opened_by_its_folder_alone() {
    for run in version_1() {
        let path = checkpoint_path(&run);
        let line = one_line(Agent::load(&path).err().expect("it says nothing of its settings"));
        let reason = "a checkpoint of format 3 is opened by its run's folder";
        assert_eq!(line, format!("{}: {reason}", path.display()));
        let agent = Agent::load(&run).unwrap_or_else(|e| panic!("{}: {e}", run.display()));
        assert!(agent.trained_steps() > 0);
        assert!(agent.actors().iter().all(|actor| actor.policy.is_finite()));
    }
}

/// An evaluation as version 1 wrote it, with Student's t for the costs too.
#[derive(serde::Serialize)]
struct Version1 {
    task: String,
    algo: String,
    trained_steps: u64,
    episodes: usize,
    deterministic: bool,
    #[serde(rename = "return")]
    ret: Figure1,
    length: Figure1,
    costs: BTreeMap<String, Cost1>,
    safe: bool,
}

#[derive(serde::Serialize)]
struct Figure1 {
    mean: f64,
    sd: f64,
    ci95: (f64, f64),
}

#[derive(serde::Serialize)]
struct Cost1 {
    #[serde(flatten)]
    figure: Figure1,
    limit: Option<f64>,
    share_over_limit: Option<f64>,
    safe: Option<bool>,
}

impl Version1 {
    fn of(e: &Evaluation) -> Version1 {
        let figure = |f: &Figure| Figure1 { mean: f.mean, sd: f.sd, ci95: f.ci95 };
        let cost = |(name, cost): (&String, &CostFigure)| {
            let values: Vec<f64> = e.all_episodes.iter().map(|episode| episode.costs[name]).collect();
            let figure = Figure1 { mean: cost.mean, sd: cost.sd, ci95: Summary::of(&values).mean_ci95() };
            let safe = cost.limit.map(|limit| figure.ci95.1 <= limit);
            (name.clone(), Cost1 { figure, limit: cost.limit, share_over_limit: cost.share_over_limit, safe })
        };
        let costs: BTreeMap<String, Cost1> = e.costs.iter().map(cost).collect();
        Version1 {
            task: e.task.clone(),
            algo: e.algo.clone(),
            trained_steps: e.trained_steps,
            episodes: e.episodes,
            deterministic: e.deterministic,
            ret: figure(&e.ret),
            length: figure(&e.length),
            safe: costs.values().all(|cost| cost.safe != Some(false)),
            costs,
        }
    }
}

/// The recordings were made with the seed 5, by the program that made the runs.
#[test]
fn runs_of_version_1_are_evaluated_to_what_was_recorded() {
    let mut compared = 0;
    for run in version_1() {
        let text = std::fs::read_to_string(run.join("evaluation.json")).unwrap();
        let recorded: serde_json::Value = serde_json::from_str(&text).unwrap();
        let agent = Agent::load(&run).unwrap();
        let episodes = recorded["episodes"].as_u64().unwrap() as usize;
        let deterministic = recorded["deterministic"].as_bool().unwrap();
        let settings = Settings { episodes, seed: 5, deterministic };
        let found = evaluate(&agent, &*named_task(agent.config()).unwrap(), &settings).unwrap();
        let found = serde_json::to_string_pretty(&Version1::of(&found)).unwrap();
        assert_eq!(found, text.trim_end(), "{}", run.display());
        compared += 1;
    }
    assert!(compared >= 19);
}

#[test]
fn what_an_agent_does_to_observations_and_actions_can_be_read() {
    let config = small_task("p3o", "PointGoal", &["rollout.normalize_obs=true", "run.steps=800"]);
    let mut learner = named_learner(config);
    (0..2).for_each(|_| drop(learner.update().unwrap()));
    let agent = learner.agent();
    assert_eq!(agent.action_bounds(), Some((-1.0, 1.0)));
    let (shift, scale, bound) = agent.normalizer(0).affine();
    let obs: Vec<f32> = (0..agent.spec().obs_dim).map(|i| i as f32 - 30.0).collect();
    let by_hand: Vec<f32> =
        obs.iter().zip(shift).zip(scale).map(|((x, m), s)| ((x - m) * s).clamp(-bound, bound)).collect();
    let mut seen = vec![0.0; obs.len()];
    agent.normalizer(0).apply(&obs, &mut seen);
    assert_eq!(seen, by_hand);
    assert!(seen.contains(&bound) && scale.iter().any(|s| *s != 1.0), "neither the scale nor the bound did anything");
    let discrete = named_learner(small_task("p3o", "SimpleSpread", &[])).agent();
    assert_eq!(discrete.action_bounds(), None);
    assert_eq!(discrete.normalizer(0).affine().2, f32::INFINITY);
}
