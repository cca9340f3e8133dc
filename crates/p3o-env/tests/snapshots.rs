//! A snapshot continues bit for bit; foreign or damaged bytes are refused without harm.

use std::cell::Cell;

use p3o_env::physics::point::PointState;
use p3o_env::{
    Env, EnvSpec, GoalLevel, Joint, MultiAgentEnv, Navigation, Outcome, PointGoal, SimpleSpread, Stepper, Team, VecEnv,
    VectorEnv, VectorStep, snapshot,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::util::{Noise, Seeds, all_worlds, bits, frozen, reset, step, towards_goal};

#[test]
fn a_world_continues_where_it_was() {
    for (mut world, mut copy) in all_worlds().into_iter().zip(all_worlds()) {
        reset(&mut *world, 21);
        // Long enough to reach goals, so that the world's own random stream has moved on.
        for _ in 0..700 {
            let action = towards_goal(&world.view());
            step(&mut *world, action);
        }
        let bytes = frozen(&*world);
        copy.restore(&bytes).expect("the same kind of world");
        assert_eq!(frozen(&*copy), bytes);
        for _ in 0..300 {
            let action = towards_goal(&world.view());
            let (a, b) = (step(&mut *world, action), step(&mut *copy, action));
            assert_eq!((bits(&a.obs), a.costs, a.outcome), (bits(&b.obs), b.costs, b.outcome));
        }
        assert_eq!(copy.snapshot(), world.snapshot());
    }
}

fn navigation(count: usize) -> VecEnv {
    VecEnv::new(&|| Box::new(Navigation::new()), count)
}

fn frozen_all(worlds: &VecEnv) -> Vec<u8> {
    worlds.snapshot().expect("these worlds have snapshots")
}

/// Steps the worlds under noise and returns everything that the steps gave.
fn run(worlds: &mut VecEnv, noise: &mut Noise, seeds: &mut Seeds, steps: usize) -> Vec<u32> {
    let mut trace = Vec::new();
    let mut step = VectorStep::new(worlds.spec(), worlds.count());
    for _ in 0..steps {
        let actions: Vec<f32> = (0..worlds.count()).flat_map(|_| noise.action()).collect();
        worlds.step(&actions, &mut |world| seeds.next(world), &mut step).expect("these worlds do not fail");
        trace.extend([&step.obs, &step.rewards, &step.costs].into_iter().flat_map(|values| bits(values)));
        trace.extend((0..worlds.count()).map(|world| u32::from(step.ended(world))));
    }
    trace
}

/// Five worlds in their second episode.
fn busy_worlds() -> VecEnv {
    let mut worlds = navigation(5);
    let mut seeds = Seeds::new(9, 5);
    worlds.reset(&seeds.all(), &mut [0.0; 300]).expect("these worlds do not fail");
    let trace = run(&mut worlds, &mut Noise::new(1), &mut seeds, 1500);
    assert_eq!(trace.chunks(5 * 64).filter(|step| step[step.len() - 5..] == [1; 5]).count(), 1);
    worlds
}

#[test]
fn a_batch_continues_where_it_was() {
    let mut worlds = busy_worlds();
    let bytes = frozen_all(&worlds);
    let expected = run(&mut worlds, &mut Noise::new(2), &mut Seeds::new(3, 5), 700);
    let mut copy = navigation(5);
    copy.restore(&bytes).expect("the same worlds");
    assert_eq!(frozen_all(&copy), bytes);
    assert!(run(&mut copy, &mut Noise::new(2), &mut Seeds::new(3, 5), 700) == expected);
    assert_eq!(frozen_all(&copy), frozen_all(&worlds));
}

#[test]
fn every_position_of_a_random_stream_survives() {
    // The generator buffers 64 words; a snapshot must not round to a buffer.
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for i in 0..200 {
        let mut copy: ChaCha8Rng =
            snapshot::open("a stream", &snapshot::seal("a stream", &rng)).expect("its own bytes");
        let [a, b] = [&mut rng, &mut copy]
            .map(|rng| if i % 3 == 0 { u64::from(rng.random::<u32>()) } else { rng.random::<u64>() });
        assert_eq!(a, b, "draw {i}");
    }
}

#[test]
fn a_batch_is_restored_whole_or_not_at_all() {
    let mut worlds = busy_worlds();
    let before = frozen_all(&worlds);
    let other = frozen(&Navigation::new());
    let mut refuse = |bytes: &[u8]| {
        let message = worlds.restore(bytes).expect_err("it does not fit").to_string();
        assert!(frozen_all(&worlds) == before, "{message}");
        message
    };
    let message = refuse(&frozen_all(&navigation(4)));
    assert_eq!(message, "the snapshot does not fit 5 x Navigation: it belongs to 4 x Navigation");
    let message = refuse(&snapshot::seal("5 x Navigation", &vec![&other; 4]));
    assert_eq!(message, "the snapshot does not fit 5 x Navigation: it has 4 worlds");
    let foreign = frozen(&PointGoal::default());
    let message = refuse(&snapshot::seal("5 x Navigation", &vec![&other, &other, &other, &foreign, &other]));
    assert_eq!(message, "the snapshot does not fit Navigation with a fence: it belongs to PointGoal level 1");
    assert!(worlds.restore(&snapshot::seal("5 x Navigation", &vec![&other; 5])).is_ok());
    assert!(frozen_all(&worlds) != before);
}

/// A world without snapshots.
struct Fleeting(PointGoal);

impl Env for Fleeting {
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

#[test]
fn snapshots_are_optional() {
    let mut world = Fleeting(PointGoal::default());
    assert_eq!(world.snapshot(), None);
    let message = world.restore(&frozen(&PointGoal::default())).expect_err("it has none").to_string();
    assert_eq!(message, "the snapshot does not fit PointGoal: such worlds have no snapshots");

    // One such world is enough for a batch to have none, and the others are left alone.
    let built = Cell::new(0);
    let make = || -> Box<dyn Env> {
        built.set(built.get() + 1);
        let world = PointGoal::default();
        if built.get() == 3 { Box::new(Fleeting(world)) } else { Box::new(world) }
    };
    let mut worlds = VecEnv::new(&make, 3);
    worlds.reset(&[5, 6, 7], &mut [0.0; 180]).expect("these worlds do not fail");
    let before: Vec<Option<Vec<u8>>> = worlds.worlds().iter().map(|world| world.snapshot()).collect();
    assert!(before[0].is_some() && before[1].is_some() && before[2].is_none());
    assert_eq!(worlds.snapshot(), None);
    let bytes = frozen_all(&VecEnv::new(&|| Box::new(PointGoal::default()), 3));
    assert!(worlds.restore(&bytes).is_err());
    assert!(worlds.worlds().iter().map(|world| world.snapshot()).eq(before));
}

#[test]
fn several_agents_need_no_snapshots_either() {
    /// A world of several agents without snapshots.
    struct Pair(SimpleSpread);
    impl MultiAgentEnv for Pair {
        fn agents(&self) -> usize {
            self.0.agents()
        }

        fn spec(&self) -> &EnvSpec {
            self.0.spec()
        }

        fn reset(&mut self, seed: u64, obs: &mut [f32]) {
            self.0.reset(seed, obs);
        }

        fn step(&mut self, actions: &[f32], obs: &mut [f32], costs: &mut [f32]) -> Outcome {
            self.0.step(actions, obs, costs)
        }
    }
    let views: [Box<dyn Env>; 2] =
        [Box::new(Team::new(Pair(SimpleSpread::default()))), Box::new(Joint::new(Pair(SimpleSpread::default())))];
    for mut view in views {
        assert_eq!(view.snapshot(), None);
        let message = view.restore(&[]).expect_err("it has none").to_string();
        assert_eq!(message, "the snapshot does not fit SimpleSpread: such worlds have no snapshots");
    }
}

#[test]
fn foreign_snapshots_are_named() {
    let complain = |env: &mut dyn Env, bytes: &[u8]| env.restore(bytes).expect_err("foreign").to_string();
    let mut goal = PointGoal::default();
    let message = complain(&mut goal, &frozen(&Navigation::new()));
    assert_eq!(message, "the snapshot does not fit PointGoal level 1: it belongs to Navigation with a fence");
    let message = complain(&mut goal, &frozen(&PointGoal::new(GoalLevel::Two)));
    assert!(message.contains("PointGoal level 2"), "{message}");
    assert!(complain(&mut goal, b"hello").contains("not a snapshot"));
    assert!(complain(&mut goal, &[]).contains("not a snapshot"));
}

#[test]
fn wrong_contents_under_the_right_name_are_refused() {
    let mut goal = PointGoal::default();
    let before = frozen(&goal);
    assert!(goal.restore(&snapshot::seal("PointGoal level 1", &(1u8, 2.0f64))).is_err());
    assert!(goal.restore(&snapshot::seal("PointGoal level 1", &vec![0u8; 4000])).is_err());
    assert_eq!(frozen(&goal), before);
}

#[test]
fn a_wrong_number_of_objects_or_costs_is_refused() {
    // The fields of the state in their order; level 1 has a goal, eight hazards and a vase, and one cost.
    let state = |objects: usize, costs: usize| {
        let rng = ChaCha8Rng::seed_from_u64(1);
        let robot = PointState::default();
        snapshot::seal("PointGoal level 1", &(rng, robot, vec![[0.5; 2]; objects], 1.0f64, 3u64, vec![false; costs]))
    };
    let mut goal = PointGoal::default();
    assert!(goal.restore(&state(10, 1)).is_ok());
    for (objects, costs) in [(0, 1), (9, 1), (11, 1), (10, 0), (10, 2)] {
        let message = goal.restore(&state(objects, costs)).expect_err("wrong counts").to_string();
        let expected = format!("{objects} objects and {costs} costs instead of 10 and 1");
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn damaged_snapshots_are_refused_and_change_nothing() {
    let mut goal = PointGoal::default();
    check_damage(&frozen(&goal), |bytes| (goal.restore(bytes).is_err(), frozen(&goal)));
    let mut worlds = VecEnv::new(&|| Box::new(PointGoal::default()), 2);
    check_damage(&frozen_all(&worlds), |bytes| (worlds.restore(bytes).is_err(), frozen_all(&worlds)));
}

fn check_damage(good: &[u8], mut restore: impl FnMut(&[u8]) -> (bool, Vec<u8>)) {
    for len in 0..good.len() {
        assert!(restore(&good[..len]).0, "cut at {len}");
    }
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    for _ in 0..3000 {
        let mut bytes = good.to_vec();
        let at = rng.random_range(0..bytes.len());
        bytes[at] ^= 1 << rng.random_range(0..8);
        let (refused, now) = restore(&bytes);
        assert!(refused && now == good, "flip at {at}");
    }
    let mut longer = good.to_vec();
    longer.push(0);
    assert!(restore(&longer).0);
}
