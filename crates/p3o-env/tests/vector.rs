//! Worlds in batches: they depend on their seeds and actions alone, start the next episode by themselves, and can be
//! taken apart.

use p3o_env::{
    ActionSpace, Env, EnvSpec, Navigation, Outcome, PointCircle, PointGoal, Stepper, VecEnv, VectorEnv, VectorStep,
    WorldError,
};
use rayon::prelude::*;

use crate::util::{Noise, Seeds, bits, reset};

/// An ended episode: the step, the world, and the seed of the next episode.
type Seeded = (usize, usize, u64);

/// What a run of worlds gave: for every world the bits of every step, and the ends in the order of the calls.
#[derive(PartialEq)]
struct Trace {
    worlds: Vec<Vec<u32>>,
    ends: Vec<Seeded>,
}

fn record(step: &VectorStep, spec: &EnvSpec, world: usize, trace: &mut Vec<u32>) {
    let (dim, costs) = (spec.obs_dim, spec.costs.len());
    trace.extend(bits(&step.obs[world * dim..][..dim]));
    trace.extend(bits(&step.costs[world * costs..][..costs]));
    trace.push(step.rewards[world].to_bits());
    trace.extend([step.terminated[world], step.truncated[world]].map(u32::from));
    if step.ended(world) {
        trace.extend(bits(&step.last_obs[world * dim..][..dim]));
    }
}

/// Steps some worlds, of which the first has number `first` among all, under noise of their own.
fn run(stepper: &mut dyn Stepper, spec: &EnvSpec, first: usize, steps: usize) -> Trace {
    let count = stepper.count();
    let mut noise: Vec<Noise> = (first..first + count).map(|world| Noise::new(100 + world as u64)).collect();
    let mut seeds = Seeds::new(18, first + count);
    let mut trace = Trace { worlds: vec![Vec::new(); count], ends: Vec::new() };
    let mut step = VectorStep::new(spec, count);
    for t in 0..steps {
        let actions: Vec<f32> = noise.iter_mut().flat_map(Noise::action).collect();
        let mut seed = |world: usize| {
            let seed = seeds.next(first + world);
            trace.ends.push((t, first + world, seed));
            seed
        };
        stepper.step(&actions, &mut seed, &mut step).expect("these worlds do not fail");
        for (world, trace) in trace.worlds.iter_mut().enumerate() {
            record(&step, spec, world, trace);
        }
    }
    trace
}

/// Worlds at different times of their first episodes.
fn worlds(make: &dyn Fn() -> Box<dyn Env>, count: usize) -> VecEnv {
    let mut worlds = VecEnv::new(make, count);
    let spec = worlds.spec().clone();
    let mut step = VectorStep::new(&spec, count);
    worlds.reset(&Seeds::new(17, count).all(), &mut step.obs).expect("these worlds do not fail");
    for i in 0..count.min(50) {
        let no_end = &mut |_| unreachable!("no episode ends so early");
        worlds.step(&vec![0.1; count * spec.action_width()], no_end, &mut step).expect("these worlds do not fail");
        assert!(worlds.restart(i, i as u64, &mut vec![0.0; spec.obs_dim]));
    }
    worlds
}

fn navigation() -> Box<dyn Env> {
    Box::new(Navigation::new())
}

fn circle() -> Box<dyn Env> {
    Box::new(PointCircle::default())
}

const MAKERS: [fn() -> Box<dyn Env>; 2] = [navigation, circle];

#[test]
fn how_the_worlds_are_split_changes_no_bit() {
    for make in MAKERS {
        let mut together = worlds(&make, 70);
        let spec = together.spec().clone();
        let expected = run(&mut together, &spec, 0, 300);
        assert!(expected.ends.is_sorted(), "seeds are asked for step by step, in the order of the worlds");
        assert_eq!(expected.ends.is_empty(), spec.horizon > 300);
        for size in [1, 9, 16, 35, 64, 70, 100] {
            let mut apart = worlds(&make, 70);
            let mut parts = apart.split(0..70, size).expect("they can be stepped apart");
            let counts: Vec<usize> = parts.iter().map(|part| part.count()).collect();
            assert_eq!(counts.iter().sum::<usize>(), 70);
            assert!(counts[..counts.len() - 1].iter().all(|count| *count == size));
            // Every part at its own pace, the last one first.
            let mut traces: Vec<Trace> = Vec::new();
            for (i, part) in parts.iter_mut().enumerate().rev() {
                traces.insert(0, run(&mut **part, &spec, i * size, 300));
            }
            drop(parts);
            check_parts(traces, &expected);
            assert!(apart.snapshot() == together.snapshot(), "parts of {size}");
        }
    }
}

fn check_parts(traces: Vec<Trace>, expected: &Trace) {
    let mut ends: Vec<Seeded> = traces.iter().flat_map(|trace| trace.ends.clone()).collect();
    ends.sort();
    assert!(ends == expected.ends);
    let worlds: Vec<Vec<u32>> = traces.into_iter().flat_map(|trace| trace.worlds).collect();
    assert!(worlds == expected.worlds);
}

/// As processes do it that have all worlds each: one steps the first of them, another the rest.
#[test]
fn worlds_stepped_in_two_places_come_to_the_state_of_one() {
    for make in MAKERS {
        let (mut together, mut here, mut there) = (worlds(&make, 10), worlds(&make, 10), worlds(&make, 10));
        let spec = together.spec().clone();
        run(&mut together, &spec, 0, 300);
        let step = |all: &mut VecEnv, own: std::ops::Range<usize>| {
            let mut parts = all.split(own.clone(), 2).expect("they can be stepped apart");
            assert_eq!(parts.iter().map(|part| part.count()).sum::<usize>(), own.len());
            parts.iter_mut().enumerate().for_each(|(i, part)| drop(run(&mut **part, &spec, own.start + 2 * i, 300)));
        };
        step(&mut here, 0..6);
        step(&mut there, 6..10);
        assert!(here.snapshot() != together.snapshot(), "its other worlds stand where they stood");
        here.thaw(6, &there.freeze(6..10).expect("they have snapshots")).expect("of the same kind");
        assert!(here.snapshot() == together.snapshot());
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for make in MAKERS {
        let mut together = worlds(&make, 40);
        let spec = together.spec().clone();
        let expected = run(&mut together, &spec, 0, 300);
        for threads in 1..=3 {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            let mut apart = worlds(&make, 40);
            let mut parts = apart.split(0..40, 7).expect("they can be stepped apart");
            let step = |(i, part): (usize, &mut Box<dyn Stepper + '_>)| run(&mut **part, &spec, i * 7, 300);
            check_parts(pool.install(|| parts.par_iter_mut().enumerate().map(step).collect()), &expected);
            drop(parts);
            assert!(apart.snapshot() == together.snapshot(), "{threads} threads");
        }
    }
}

#[test]
fn a_world_is_the_same_alone_and_in_company() {
    let make = || Box::new(PointGoal::default()) as Box<dyn Env>;
    let seeds = Seeds::new(2, 6).all();
    let (mut together, mut alone) = (VecEnv::new(&make, 6), make());
    let spec = together.spec().clone();
    let mut step = VectorStep::new(&spec, 6);
    together.reset(&seeds, &mut step.obs).expect("these worlds do not fail");
    let mut obs = reset(&mut *alone, seeds[4]);
    assert_eq!(bits(&step.obs[4 * 60..5 * 60]), bits(&obs));
    let mut noise = Noise::new(8);
    let mut costs = [0.0];
    for i in 1..=1200 {
        let actions: Vec<f32> = (0..6).flat_map(|_| noise.action()).collect();
        together.step(&actions, &mut |world| 70 + world as u64, &mut step).expect("these worlds do not fail");
        let outcome = alone.step(&actions[8..10], &mut obs, &mut costs);
        assert_eq!((step.rewards[4], step.costs[4]), (outcome.reward, costs[0]));
        assert_eq!((step.terminated[4], step.truncated[4]), (outcome.terminated, i == 1000));
        if i == 1000 {
            assert_eq!(bits(&step.last_obs[4 * 60..5 * 60]), bits(&obs));
            alone.reset(74, &mut obs);
        }
        assert_eq!(bits(&step.obs[4 * 60..5 * 60]), bits(&obs));
    }
}

#[test]
fn another_seed_is_another_episode() {
    let mut worlds = VecEnv::new(&|| Box::new(PointGoal::default()), 3);
    let mut obs = [0.0; 180];
    worlds.reset(&[5, 6, 5], &mut obs).expect("these worlds do not fail");
    assert_ne!(obs[..60], obs[60..120]);
    assert_eq!(obs[..60], obs[120..]);
}

/// A world that shows its seed, its time and its action, and whose seed decides how the episode ends: after 2 + seed % 5
/// steps, by termination if the seed is even. It has no snapshots.
struct Showing {
    spec: EnvSpec,
    seed: u64,
    time: u64,
}

impl Showing {
    fn boxed() -> Box<dyn Env> {
        let spec = EnvSpec {
            name: "Showing".to_owned(),
            obs_dim: 3,
            action: ActionSpace::Continuous { dim: 1 },
            agents: 1,
            costs: Vec::new(),
            horizon: 6,
        };
        Box::new(Showing { spec, seed: 0, time: 0 })
    }
}

impl Env for Showing {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: u64, obs: &mut [f32]) {
        (self.seed, self.time) = (seed, 0);
        obs.copy_from_slice(&[seed as f32, 0.0, 0.0]);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
        assert!(costs.is_empty());
        self.time += 1;
        obs.copy_from_slice(&[self.seed as f32, self.time as f32, action[0]]);
        let ended = self.time == 2 + self.seed % 5;
        let terminated = ended && self.seed.is_multiple_of(2);
        Outcome { reward: action[0], terminated, truncated: ended && !terminated }
    }
}

#[test]
fn ends_and_starts_are_those_of_each_world() {
    for count in [1, 5, 100] {
        let mut worlds = VecEnv::new(&Showing::boxed, count);
        let mut step = VectorStep::new(worlds.spec(), count);
        // Seed and time of every world, as they should be.
        let mut expected: Vec<(u64, u64)> = (0..count as u64).map(|seed| (seed, 0)).collect();
        let seeds: Vec<u64> = (0..count as u64).collect();
        worlds.reset(&seeds, &mut step.obs).expect("these worlds do not fail");
        assert!((0..count).all(|i| step.obs[3 * i..][..3] == [i as f32, 0.0, 0.0]));
        let mut next = 1000;
        for t in 0..40 {
            let actions: Vec<f32> = (0..count).map(|i| (t * i) as f32).collect();
            let (mut asked, first) = (Vec::new(), next);
            let mut seed = |world| {
                asked.push(world);
                next += 1;
                next - 1
            };
            worlds.step(&actions, &mut seed, &mut step).expect("these worlds do not fail");
            let ended: Vec<usize> = (0..count).filter(|i| step.ended(*i)).collect();
            assert_eq!(asked, ended);
            let mut fresh = first..;
            for (i, (seed, time)) in expected.iter_mut().enumerate() {
                *time += 1;
                let seen = [*seed as f32, *time as f32, actions[i]];
                let ends = *time == 2 + *seed % 5;
                assert_eq!(step.rewards[i], actions[i]);
                assert_eq!((step.terminated[i], step.truncated[i]), (ends && *seed % 2 == 0, ends && *seed % 2 == 1));
                if ends {
                    assert_eq!(step.last_obs[3 * i..][..3], seen);
                    (*seed, *time) = (fresh.next().expect("there are enough"), 0);
                    assert_eq!(step.obs[3 * i..][..3], [*seed as f32, 0.0, 0.0]);
                } else {
                    assert_eq!(step.obs[3 * i..][..3], seen);
                }
            }
            assert_eq!(fresh.start, next);
        }
        assert_eq!(worlds.snapshot(), None);
    }
}

#[test]
fn an_action_that_is_no_number_shows_in_the_last_observation() {
    let mut worlds = VecEnv::new(&|| Box::new(PointGoal::default()), 2);
    let mut step = VectorStep::new(worlds.spec(), 2);
    worlds.reset(&[1, 2], &mut step.obs).expect("these worlds do not fail");
    worlds.step(&[0.0, 0.0, f32::NAN, 0.0], &mut |_| 3, &mut step).expect("these worlds do not fail");
    assert_eq!((&step.terminated[..], &step.truncated[..]), (&[false, true][..], &[false; 2][..]));
    assert!(step.last_obs[60..].iter().any(|value| value.is_nan()));
    assert_eq!(step.obs[60..], reset(&mut PointGoal::default(), 3));
}

#[test]
fn a_restart_begins_another_episode_in_one_world() {
    let mut worlds = VecEnv::new(&Showing::boxed, 4);
    let mut step = VectorStep::new(worlds.spec(), 4);
    worlds.reset(&[4, 4, 4, 4], &mut step.obs).expect("these worlds do not fail");
    worlds.step(&[0.5; 4], &mut |_| unreachable!("no episode ends"), &mut step).expect("these worlds do not fail");
    assert!(worlds.restart(1, 8, &mut step.obs[3..6]));
    assert_eq!(step.obs[3..6], [8.0, 0.0, 0.0]);
    let mut parts = worlds.split(0..4, 3).expect("they can be stepped apart");
    // World 3 is the first of the second part.
    assert!(parts[1].restart(0, 9, &mut step.obs[9..]));
    assert_eq!(step.obs[9..], [9.0, 0.0, 0.0]);
    drop(parts);
    worlds.step(&[0.5; 4], &mut |_| unreachable!("no episode ends"), &mut step).expect("these worlds do not fail");
    assert_eq!(step.obs, [4.0, 2.0, 0.5, 8.0, 1.0, 0.5, 4.0, 2.0, 0.5, 9.0, 1.0, 0.5]);
}

/// Two worlds somewhere else: they seed themselves and cannot be split, restarted or frozen.
struct Remote {
    spec: EnvSpec,
    connected: bool,
}

impl Stepper for Remote {
    fn count(&self) -> usize {
        2
    }

    fn step(
        &mut self,
        actions: &[f32],
        _seed: &mut dyn FnMut(usize) -> u64,
        out: &mut VectorStep,
    ) -> Result<(), WorldError> {
        if !self.connected {
            return Err(WorldError("Traceback:\n  File \"world.py\"\nOSError: no answer\n".to_owned()));
        }
        out.rewards.copy_from_slice(actions);
        self.connected = false;
        Ok(())
    }
}

impl VectorEnv for Remote {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, _seeds: &[u64], obs: &mut [f32]) -> Result<(), WorldError> {
        obs.fill(1.0);
        if self.connected { Ok(()) } else { Err(WorldError("no answer".to_owned())) }
    }
}

#[test]
fn worlds_elsewhere_may_fail_and_offer_less() {
    let spec = Showing::boxed().spec().clone();
    let mut step = VectorStep::new(&spec, 2);
    let mut remote: Box<dyn VectorEnv> = Box::new(Remote { spec, connected: true });
    assert!(remote.split(0..1, 1).is_none() && remote.snapshot().is_none());
    let message = remote.restore(&[]).expect_err("it has none").to_string();
    assert_eq!(message, "the snapshot does not fit Showing: such worlds have no snapshots");
    assert!(!remote.restart(0, 1, &mut step.obs[..3]));
    assert_eq!(step.obs, [0.0; 6]);
    assert!(remote.reset(&[1, 2], &mut step.obs).is_ok());
    assert!(remote.step(&[0.5, 0.25], &mut |_| 0, &mut step).is_ok());
    assert_eq!((&step.obs[..], &step.rewards[..]), (&[1.0; 6][..], &[0.5, 0.25][..]));
    let error = remote.step(&[0.5, 0.25], &mut |_| 0, &mut step).expect_err("it is not connected");
    assert_eq!(error.to_string(), "Traceback: File \"world.py\" OSError: no answer");
    assert_eq!(remote.reset(&[1, 2], &mut step.obs).expect_err("it is not connected").to_string(), "no answer");
}

fn two_points() -> (VecEnv, VectorStep) {
    let worlds = VecEnv::new(&|| Box::new(PointGoal::default()), 2);
    let step = VectorStep::new(worlds.spec(), 2);
    (worlds, step)
}

#[test]
#[should_panic(expected = "one action of 2 numbers per world")]
fn a_wrong_number_of_actions_is_refused() {
    let (mut worlds, mut step) = two_points();
    let _ = worlds.step(&[0.0; 3], &mut |_| 0, &mut step);
}

#[test]
#[should_panic(expected = "room for 2 worlds")]
fn room_for_another_number_of_worlds_is_refused() {
    let (mut worlds, _) = two_points();
    let mut step = VectorStep::new(worlds.spec(), 3);
    let _ = worlds.step(&[0.0; 4], &mut |_| 0, &mut step);
}

#[test]
#[should_panic(expected = "one seed per world")]
fn a_wrong_number_of_seeds_is_refused() {
    let (mut worlds, mut step) = two_points();
    let _ = worlds.reset(&[0; 3], &mut step.obs);
}

#[test]
#[should_panic(expected = "at least one world")]
fn no_worlds_at_all_are_refused() {
    VecEnv::new(&Showing::boxed, 0);
}
