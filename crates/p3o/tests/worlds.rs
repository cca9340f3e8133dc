//! Worlds of one's own: such as cannot be frozen, cut short, split over threads, or relied upon.

use crate::recurrence::waves;
use crate::util::{Given, Script, copy_folder, float_bits, on_threads, one_line, small, small_task};
use p3o::record::ProgressCsv;
use p3o::run::{Maker, checkpoint_path, named_task};
use p3o::{Agent, Config, Error, Finish, Learner, Report, Run, checkpoint};
use p3o_env::{ActionSpace, Env, EnvSpec, Outcome, RestoreError, Stepper, VecEnv, VectorEnv, VectorStep, WorldError};
use std::ops::ControlFlow;
use std::path::Path;

/// A world that cannot be frozen.
struct Unfrozen(Box<dyn Env>);

impl Env for Unfrozen {
    fn spec(&self) -> &EnvSpec {
        self.0.spec()
    }
    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        self.0.reset(seed, obs);
    }
    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        self.0.step(action, obs, costs)
    }
}

/// Finds the maker of a configuration's world, as runs ask for it.
type Found = Result<Box<dyn Fn() -> Box<dyn Env>>, Error>;

fn unfrozen_task(config: &Config) -> Found {
    let make = named_task(config)?;
    Ok(Box::new(move || Box::new(Unfrozen(make()))))
}

/// Six updates of 500 steps per environment, in episodes of 1000.
fn long() -> Config {
    small_task(
        "p3o",
        "PointGoal",
        &["rollout.batch=2000", "run.steps=12000", "rollout.normalize_obs=true", "net.gru=8"],
    )
}

/// Resumes a copy of a run; returns whether its worlds have restarted, and the episodes that ended in every further update.
fn resumed(folder: &Path, copy: &Path, find: &Maker) -> (bool, Vec<usize>, Vec<u8>) {
    copy_folder(folder, copy);
    let mut run = Run::resume(copy, find, None).unwrap();
    let (restarted, mut episodes) = (run.has_restarted(), Vec::new());
    let finish = run.train(&mut |_, report| {
        episodes.push(report.episodes);
        ControlFlow::Continue(())
    });
    assert_eq!(finish.unwrap(), Finish::Done);
    assert_eq!(ProgressCsv::read(&copy.join("progress.csv")).unwrap().rows.len(), 6);
    (restarted, episodes, std::fs::read(checkpoint_path(copy)).unwrap())
}

/// A run that is interrupted after its third update.
fn interrupted(config: &Config, make: &dyn Fn() -> Box<dyn Env>, folder: &Path) {
    let mut run = Run::start(config.clone(), make, folder).unwrap();
    assert!(!run.has_restarted());
    let finish = run.train(&mut |_, report| match report.update {
        3 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert_eq!(finish.unwrap(), Finish::Interrupted);
}

#[test]
fn a_world_without_snapshots_starts_new_episodes_when_its_run_is_resumed() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let config = long();
    interrupted(&config, &*unfrozen_task(&config).unwrap(), &at("unfrozen"));
    let before = Agent::load(&at("unfrozen")).unwrap();
    // All is kept but the worlds: new episodes of 1000 steps begin at once and end together, with the second update.
    let (restarted, episodes, after) = resumed(&at("unfrozen"), &at("again"), &unfrozen_task);
    assert_eq!((restarted, episodes), (true, vec![0, 4, 0]));
    let trained = Agent::load(&at("again")).unwrap();
    let parameters = |agent: &Agent| float_bits(&agent.actors()[0].policy.parameters());
    assert!((before.trained_steps(), trained.trained_steps()) == (6000, 12_000));
    assert!(parameters(&before) != parameters(&trained) && trained.actors()[0].policy.is_finite());
    // The new episodes follow from the run too: resumed once more it comes to the same.
    assert!(resumed(&at("unfrozen"), &at("and again"), &unfrozen_task).2 == after);
    // The same worlds with snapshots go on where they were: their first episodes were cut after 250, 500, 750 and 1000 steps,
    // so that two end in every update of 500 steps.
    interrupted(&config, &*named_task(&config).unwrap(), &at("frozen"));
    let (restarted, episodes, other) = resumed(&at("frozen"), &at("goes on"), &named_task);
    assert_eq!((restarted, episodes), (false, vec![2, 2, 2]));
    assert!(other != after);
}

#[test]
fn recurrent_critics_begin_the_new_episodes_from_states_of_zero() {
    let home = tempfile::tempdir().unwrap();
    let (folder, saved) = (home.path().join("run"), home.path().join("saved"));
    let config = long();
    assert!(config.net.is_recurrent());
    let states = |path: &Path| -> Vec<f32> {
        let bytes = std::fs::read(path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let states: Vec<Vec<f32>> = postcard::from_bytes(file.tensor("critic_states").unwrap().data()).unwrap();
        states.concat()
    };
    interrupted(&config, &*unfrozen_task(&config).unwrap(), &folder);
    let before = states(&p3o::run::checkpoint_path(&folder));
    assert!(before.iter().any(|h| *h != 0.0), "nothing to forget");
    let mut resumed = Learner::new(config.clone(), &*unfrozen_task(&config).unwrap()).unwrap();
    assert!(!checkpoint::load(&mut resumed, &p3o::run::checkpoint_path(&folder)).unwrap());
    checkpoint::save(&mut resumed, &saved).unwrap();
    assert_eq!(states(&saved), vec![0.0; before.len()]);
}

#[test]
fn a_snapshot_is_kept_by_worlds_that_have_one_and_refused_by_others() {
    let home = tempfile::tempdir().unwrap();
    let config = small_task("p3o", "PointGoal", &[]);
    type Way = (&'static str, fn(&Config) -> Found);
    let ways: [Way; 2] = [("frozen", named_task), ("unfrozen", unfrozen_task)];
    for (name, find) in ways {
        let folder = home.path().join(name);
        drop(Run::start(config.clone(), &*find(&config).unwrap(), &folder).unwrap());
        assert_eq!(Run::resume(&folder, &find, None).unwrap().has_restarted(), name == "unfrozen");
    }
    // A snapshot cannot be given to worlds that have none.
    let folder = home.path().join("frozen");
    let line = one_line(Run::resume(&folder, &unfrozen_task, None).err().expect("no snapshots"));
    assert!(line.contains("such worlds have no snapshots"), "{line}");
}

/// Worlds of which some abilities are hidden.
struct Limited {
    worlds: VecEnv,
    /// Whether single worlds can be restarted.
    restarts: bool,
    /// Steps until all of them fail.
    left: usize,
}

impl Limited {
    fn new(make: &dyn Fn() -> Box<dyn Env>, count: usize) -> Limited {
        Limited { worlds: VecEnv::new(make, count), restarts: true, left: usize::MAX }
    }
}

impl Stepper for Limited {
    fn count(&self) -> usize {
        self.worlds.count()
    }
    fn step(
        &mut self,
        actions: &[f32],
        seed: &mut dyn FnMut(usize) -> u64,
        out: &mut VectorStep,
    ) -> Result<(), WorldError> {
        if self.left == 0 {
            return Err(WorldError("the simulator has gone:\n  connection reset".into()));
        }
        self.left -= 1;
        self.worlds.step(actions, seed, out)
    }
    fn restart(&mut self, world: usize, seed: u64, obs: &mut [f32]) -> bool {
        self.restarts && self.worlds.restart(world, seed, obs)
    }
}

/// All but [`VectorEnv::split`].
impl VectorEnv for Limited {
    fn spec(&self) -> &EnvSpec {
        self.worlds.spec()
    }
    fn reset(&mut self, seeds: &[u64], obs: &mut [f32]) -> Result<(), WorldError> {
        if self.left == 0 {
            return Err(WorldError("nobody answers".into()));
        }
        self.worlds.reset(seeds, obs)
    }
    fn snapshot(&self) -> Option<Vec<u8>> {
        self.worlds.snapshot()
    }
    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.worlds.restore(bytes)
    }
}

/// Three updates: all reports but for the time, and the checkpoint.
fn three_updates(mut learner: Learner) -> (Vec<String>, Vec<u8>) {
    let report = |_| {
        let report = Report { rollout_ms: 0.0, update_ms: 0.0, ..learner.update().unwrap() };
        format!("{report:?}")
    };
    let reports = (0..3).map(report).collect();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("checkpoint");
    checkpoint::save(&mut learner, &path).unwrap();
    (reports, std::fs::read(path).unwrap())
}

#[test]
fn worlds_that_cannot_be_split_give_the_same_bits_as_worlds_split_over_threads() {
    for (method, agents, gru) in [("p3o", 1, "net.gru=0"), ("p3o", 1, "net.gru=8"), ("map3o-dec", 2, "net.gru=8")] {
        let world = waves(agents, 1.0);
        let changes = ["rollout.envs=7", "rollout.batch=140", "rollout.normalize_obs=true", gru];
        let config = small(method, &world.spec, &changes);
        let split =
            |threads| on_threads(threads, || three_updates(Learner::new(config.clone(), &world.maker()).unwrap()));
        let whole = |threads| {
            on_threads(threads, || {
                let worlds = Box::new(Limited::new(&world.maker(), 7));
                three_updates(Learner::with_worlds(config.clone(), worlds).unwrap())
            })
        };
        let expected = split(1);
        assert!(split(3) == expected && whole(1) == expected && whole(3) == expected, "{method} {gru}");
    }
}

/// Episodes of 100 steps, for batches of 40 per environment.
fn long_episodes() -> Script {
    Script::new(ActionSpace::Continuous { dim: 1 }, &["risk"], 100, vec![1.0], |step, _| Given {
        obs: vec![1.0],
        reward: 1.0,
        costs: vec![0.5],
        terminated: false,
        truncated: step == 100,
    })
}

#[test]
fn worlds_that_cannot_be_cut_short_play_whole_episodes_from_the_start() {
    let world = long_episodes();
    let config = small("p3o", &world.spec, &["rollout.batch=160"]);
    let worlds = Limited { restarts: false, ..Limited::new(&world.maker(), 4) };
    let mut learner = Learner::with_worlds(config, Box::new(worlds)).unwrap();
    // All four end after 100 and after 200 steps: in the third and in the fifth batch of 40.
    for expected in [0, 0, 4, 0, 4] {
        let report = learner.update().unwrap();
        assert_eq!(report.episodes, expected);
        if expected > 0 {
            assert_eq!((report.costs[0], report.length, report.ret), (50.0, 100.0, 100.0));
        }
    }
}

#[test]
fn as_many_worlds_are_needed_as_the_settings_say() {
    let world = long_episodes();
    let worlds = Box::new(Limited::new(&world.maker(), 3));
    let error = Learner::with_worlds(small("p3o", &world.spec, &[]), worlds).err().expect("four are asked for");
    assert_eq!(one_line(error), "rollout.envs must be 3, the number of worlds, not 4");
}

#[test]
fn a_world_that_fails_ends_the_run_with_its_last_checkpoint_intact() {
    let world = long_episodes();
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    let config = small("p3o", &world.spec, &["rollout.batch=160", "run.steps=1600", "run.checkpoint_every=2"]);
    let worlds = |left| Box::new(Limited { left, ..Limited::new(&world.maker(), 4) });
    // 150 steps are three batches of 40 and a part.
    let mut run = Run::start_learner(Learner::with_worlds(config.clone(), worlds(150)).unwrap(), &folder).unwrap();
    let mut at_second = Vec::new();
    let error = run.train(&mut |run, report| {
        if report.update == 3 {
            at_second = std::fs::read(checkpoint_path(run.folder())).unwrap();
        }
        ControlFlow::Continue(())
    });
    let error = error.unwrap_err();
    assert!(matches!(error, Error::World { update: 4, .. }), "{error}");
    let line = one_line(error);
    let expected = "update 4: a world failed: the simulator has gone: connection reset; training stopped, the last \
                    checkpoint is intact";
    assert_eq!(line, expected);
    drop(run);
    let note = std::fs::read_to_string(folder.join("failure.txt")).unwrap();
    assert!(note.starts_with(&line), "{note}");
    assert!(std::fs::read(checkpoint_path(&folder)).unwrap() == at_second);
    assert_eq!(Agent::load(&folder).unwrap().trained_steps(), 320);
    // In worlds that answer again it goes on, to what a run without the failure comes to.
    let mut run = Run::resume_learner(Learner::with_worlds(config.clone(), worlds(1000)).unwrap(), &folder).unwrap();
    assert_eq!((run.learner().progress().updates, run.has_restarted()), (2, false));
    assert_eq!(run.train(&mut |_, _| ControlFlow::Continue(())).unwrap(), Finish::Done);
    let whole = home.path().join("whole");
    let mut straight = Run::start(config.clone(), &world.maker(), &whole).unwrap();
    straight.train(&mut |_, _| ControlFlow::Continue(())).unwrap();
    assert!(std::fs::read(checkpoint_path(&folder)).unwrap() == std::fs::read(checkpoint_path(&whole)).unwrap());
    // One that fails from the start makes no learner.
    let error = Learner::with_worlds(config, worlds(0)).err().expect("nobody answers");
    assert!(one_line(error).starts_with("update 1: a world failed: nobody answers"));
}

/// Worlds that begin an episode in the step after the last one, in which their action counts for nothing.
struct Late {
    worlds: Vec<Box<dyn Env>>,
    spec: EnvSpec,
    /// The seeds of episodes that have yet to begin.
    next: Vec<u64>,
    waiting: Vec<bool>,
}

impl Late {
    fn new(make: &dyn Fn() -> Box<dyn Env>, count: usize) -> Late {
        let worlds: Vec<Box<dyn Env>> = (0..count).map(|_| make()).collect();
        Late { spec: worlds[0].spec().clone(), worlds, next: vec![0; count], waiting: vec![false; count] }
    }
}

impl Stepper for Late {
    fn count(&self) -> usize {
        self.worlds.len()
    }
    fn waiting(&self) -> &[bool] {
        &self.waiting
    }
    fn step(
        &mut self,
        actions: &[f32],
        seed: &mut dyn FnMut(usize) -> u64,
        out: &mut VectorStep,
    ) -> Result<(), WorldError> {
        let (dim, width, costs) = (self.spec.obs_dim, self.spec.action_width(), self.spec.costs.len());
        for (i, world) in self.worlds.iter_mut().enumerate() {
            let obs = &mut out.obs[i * dim..][..dim];
            if self.waiting[i] {
                world.reset(self.next[i], obs);
                // None of this may be learned from.
                (out.rewards[i], out.terminated[i], out.truncated[i]) = (f32::NAN, false, false);
                out.costs[i * costs..][..costs].fill(f32::NAN);
                self.waiting[i] = false;
                continue;
            }
            let given = world.step(&actions[i * width..][..width], obs, &mut out.costs[i * costs..][..costs]);
            (out.rewards[i], out.terminated[i], out.truncated[i]) = (given.reward, given.terminated, given.truncated);
            if given.terminated || given.truncated {
                out.last_obs[i * dim..][..dim].copy_from_slice(obs);
                (self.next[i], self.waiting[i]) = (seed(i), true);
            }
        }
        Ok(())
    }
}

impl VectorEnv for Late {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }
    fn reset(&mut self, seeds: &[u64], obs: &mut [f32]) -> Result<(), WorldError> {
        self.waiting.fill(false);
        let rows = obs.chunks_exact_mut(self.spec.obs_dim).zip(seeds);
        self.worlds.iter_mut().zip(rows).for_each(|(world, (obs, seed))| world.reset(*seed, obs));
        Ok(())
    }
}

/// Reports of updates but for the time.
fn reports(worlds: Box<dyn VectorEnv>, config: &Config, updates: usize) -> Vec<String> {
    let mut learner = Learner::with_worlds(config.clone(), worlds).unwrap();
    let report = |_| {
        let report = Report { rollout_ms: 0.0, update_ms: 0.0, ..learner.update().unwrap() };
        format!("{report:?}")
    };
    (0..updates).map(report).collect()
}

#[test]
fn worlds_that_begin_episodes_late_give_the_same_batches() {
    for (method, agents, gru) in [("p3o", 1, "net.gru=0"), ("p3o", 1, "net.gru=8"), ("map3o-dec", 2, "net.gru=8")] {
        let world = waves(agents, 1.0);
        let changes = ["rollout.envs=7", "rollout.batch=140", "rollout.normalize_obs=true", gru];
        let config = small(method, &world.spec, &changes);
        let at_once = Limited { restarts: false, ..Limited::new(&world.maker(), 7) };
        let late = Late::new(&world.maker(), 7);
        assert_eq!(reports(Box::new(late), &config, 5), reports(Box::new(at_once), &config, 5), "{method} {gru}");
    }
}

#[test]
fn worlds_go_on_while_others_begin_and_that_counts_for_their_episodes_alone() {
    let world = Script::new(ActionSpace::Discrete { n: 2 }, &["risk"], 100, vec![1.0], |step, _| Given {
        obs: vec![1.0],
        reward: 1.0,
        costs: vec![0.5],
        terminated: false,
        truncated: step == 10,
    });
    let config = small("p3o", &world.spec, &["rollout.envs=2", "rollout.batch=60"]);
    /// The second world is five steps ahead of the first when both begin.
    struct Ahead(Late);
    impl Stepper for Ahead {
        fn count(&self) -> usize {
            self.0.count()
        }
        fn waiting(&self) -> &[bool] {
            self.0.waiting()
        }
        fn step(
            &mut self,
            actions: &[f32],
            seed: &mut dyn FnMut(usize) -> u64,
            out: &mut VectorStep,
        ) -> Result<(), WorldError> {
            self.0.step(actions, seed, out)
        }
    }
    impl VectorEnv for Ahead {
        fn spec(&self) -> &EnvSpec {
            self.0.spec()
        }
        fn reset(&mut self, seeds: &[u64], obs: &mut [f32]) -> Result<(), WorldError> {
            self.0.reset(seeds, obs)?;
            for _ in 0..5 {
                self.0.worlds[1].step(&[0.0], &mut [0.0], &mut [0.0]);
            }
            Ok(())
        }
    }
    let mut learner = Learner::with_worlds(config, Box::new(Ahead(Late::new(&world.maker(), 2)))).unwrap();
    // World 0 makes 30 steps of a batch in 32 calls: it begins after 10 and 20. World 1 begins after 5, 15 and 25 and needs 33, so
    // that world 0 begins its fourth episode in the 33rd call and goes on from its first step in the next batch.
    let report = learner.update().unwrap();
    assert_eq!((report.episodes, report.length), (6, (3.0 * 10.0 + 5.0 + 10.0 + 10.0) / 6.0));
    // In the next one both have 30 steps again, and every episode is whole.
    let report = learner.update().unwrap();
    assert_eq!((report.length, report.ret, report.costs[0]), (10.0, 10.0, 5.0));
    assert_eq!(report.costs_per_step[0], 0.5);
}

#[test]
fn a_request_to_stop_ends_an_update_in_its_middle_and_saves_the_one_before() {
    use p3o::Stop;
    /// Asks for a stop in some step.
    struct Stopping(Limited, Stop, usize);
    impl Stepper for Stopping {
        fn count(&self) -> usize {
            self.0.count()
        }
        fn step(
            &mut self,
            actions: &[f32],
            seed: &mut dyn FnMut(usize) -> u64,
            out: &mut VectorStep,
        ) -> Result<(), WorldError> {
            self.2 -= 1;
            if self.2 == 0 {
                self.1.ask();
            }
            self.0.step(actions, seed, out)
        }
    }
    impl VectorEnv for Stopping {
        fn spec(&self) -> &EnvSpec {
            self.0.spec()
        }
        fn reset(&mut self, seeds: &[u64], obs: &mut [f32]) -> Result<(), WorldError> {
            self.0.reset(seeds, obs)
        }
    }
    let world = long_episodes();
    let home = tempfile::tempdir().unwrap();
    let config = small("p3o", &world.spec, &["rollout.batch=160", "run.steps=1600", "run.checkpoint_every=100"]);
    let train = |name: &str, at: usize| {
        let (folder, stop) = (home.path().join(name), Stop::default());
        let worlds = Stopping(Limited::new(&world.maker(), 4), stop.clone(), at);
        let mut run =
            Run::start_learner(Learner::with_worlds(config.clone(), Box::new(worlds)).unwrap(), &folder).unwrap();
        let finish = run.train_until(Some(&stop), &mut |_, _| ControlFlow::Continue(())).unwrap();
        (finish, folder)
    };
    // Four worlds make 40 steps of a batch each. In the 90th two updates are done and the third is begun.
    let (finish, folder) = train("middle", 90);
    assert_eq!(finish, Finish::Interrupted);
    let found = p3o::RunFolder::open(&folder).unwrap();
    assert_eq!((found.steps(), found.table.rows.len()), (320, 2));
    // What was saved is what a run has after two updates, and not a step of the third.
    let whole = home.path().join("whole");
    let worlds = Box::new(Limited { restarts: false, ..Limited::new(&world.maker(), 4) });
    let mut run = Run::start_learner(Learner::with_worlds(config.clone(), worlds).unwrap(), &whole).unwrap();
    let two =
        |_: &Run, report: &Report| if report.update == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    run.train(&mut { two }).unwrap();
    let tensors = |folder: &std::path::Path| {
        let bytes = std::fs::read(checkpoint_path(folder)).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        // Of worlds that cannot be frozen there is no state.
        let mut all: Vec<(String, Vec<u8>)> = file
            .iter()
            .filter(|(name, _)| name.contains("actor"))
            .map(|(name, t)| (name.to_string(), t.data().to_vec()))
            .collect();
        all.sort();
        all
    };
    assert!(!tensors(&folder).is_empty() && tensors(&folder) == tensors(&whole));
    // In the first update nothing has to be saved.
    let (finish, folder) = train("first", 10);
    assert_eq!((finish, p3o::RunFolder::open(&folder).unwrap().steps()), (Finish::Interrupted, 0));
    assert!(!folder.join("failure.txt").exists());
}
