//! A snapshot continues bit for bit; foreign or damaged bytes are refused without harm.

use p3o_env::physics::point::PointState;
use p3o_env::{Env, GoalLevel, Navigation, PointGoal, VecEnv, snapshot};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::util::{Noise, all_worlds, bits, reset, step, towards_goal};

#[test]
fn a_world_continues_where_it_was() {
    for (mut world, mut copy) in all_worlds().into_iter().zip(all_worlds()) {
        reset(&mut *world, 21);
        // Long enough to reach goals, so that the world's own random stream has moved on.
        for _ in 0..700 {
            let action = towards_goal(&world.view());
            step(&mut *world, action);
        }
        let bytes = world.snapshot();
        copy.restore(&bytes).expect("the same kind of world");
        assert_eq!(copy.snapshot(), bytes);
        for _ in 0..300 {
            let action = towards_goal(&world.view());
            let (a, b) = (step(&mut *world, action), step(&mut *copy, action));
            assert_eq!((bits(&a.obs), a.costs, a.outcome), (bits(&b.obs), b.costs, b.outcome));
        }
        assert_eq!(copy.snapshot(), world.snapshot());
    }
}

fn navigation_lanes() -> VecEnv {
    VecEnv::new(&|| Box::new(Navigation::new()), 5, 9)
}

fn run(lanes: &mut VecEnv, noise: &mut Noise, steps: usize) -> Vec<u32> {
    let mut trace = Vec::new();
    for _ in 0..steps {
        let actions: Vec<f32> = (0..lanes.len()).flat_map(|_| noise.action()).collect();
        lanes.step(&actions);
        for lane in lanes.lanes_mut() {
            // As a policy would: this moves the lane's stream.
            let draw: f32 = lane.rng().random();
            trace.extend(bits(lane.obs()));
            trace.extend(bits(lane.costs()));
            trace.extend([lane.last().reward.to_bits(), draw.to_bits()]);
        }
    }
    trace
}

#[test]
fn lanes_continue_where_they_were() {
    let mut lanes = navigation_lanes();
    run(&mut lanes, &mut Noise::new(1), 1500);
    let bytes = lanes.snapshot();
    let expected = run(&mut lanes, &mut Noise::new(2), 700);
    let mut copy = navigation_lanes();
    copy.restore(&bytes).expect("the same lanes");
    assert_eq!(copy.snapshot(), bytes);
    assert_eq!(copy.lanes()[0].finished().len, 1000);
    assert!(run(&mut copy, &mut Noise::new(2), 700) == expected);
    assert_eq!(copy.snapshot(), lanes.snapshot());
}

#[test]
fn every_position_of_a_random_stream_survives() {
    // The generator buffers 64 words; a snapshot must not round to a buffer.
    let mut lanes = VecEnv::new(&|| Box::new(PointGoal::default()), 1, 4);
    let mut copy = VecEnv::new(&|| Box::new(PointGoal::default()), 1, 5);
    for i in 0..200 {
        copy.restore(&lanes.snapshot()).expect("the same lanes");
        let [a, b] = [&mut lanes, &mut copy].map(|lanes| {
            let rng = lanes.lanes_mut()[0].rng();
            if i % 3 == 0 { u64::from(rng.random::<u32>()) } else { rng.random::<u64>() }
        });
        assert_eq!(a, b, "draw {i}");
    }
}

#[test]
fn foreign_snapshots_are_named() {
    let complain = |env: &mut dyn Env, bytes: &[u8]| env.restore(bytes).expect_err("foreign").to_string();
    let mut goal = PointGoal::default();
    let message = complain(&mut goal, &Navigation::new().snapshot());
    assert_eq!(message, "the snapshot does not fit PointGoal level 1: it belongs to Navigation");
    let message = complain(&mut goal, &PointGoal::new(GoalLevel::Two).snapshot());
    assert!(message.contains("PointGoal level 2"), "{message}");
    assert!(complain(&mut goal, b"hello").contains("not a snapshot"));
    assert!(complain(&mut goal, &[]).contains("not a snapshot"));

    let mut lanes = navigation_lanes();
    let fewer = VecEnv::new(&|| Box::new(Navigation::new()), 4, 9).snapshot();
    let message = lanes.restore(&fewer).expect_err("another number of lanes").to_string();
    assert!(message.contains("5 Navigation") && message.contains("4 Navigation"), "{message}");
}

#[test]
fn wrong_contents_under_the_right_name_are_refused() {
    let mut goal = PointGoal::default();
    let before = goal.snapshot();
    assert!(goal.restore(&snapshot::seal("PointGoal level 1", &(1u8, 2.0f64))).is_err());
    assert!(goal.restore(&snapshot::seal("PointGoal level 1", &vec![0u8; 4000])).is_err());
    assert_eq!(goal.snapshot(), before);
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
    check_damage(&goal.snapshot(), |bytes| (goal.restore(bytes).is_err(), goal.snapshot()));
    let mut lanes = VecEnv::new(&|| Box::new(PointGoal::default()), 2, 3);
    check_damage(&lanes.snapshot(), |bytes| (lanes.restore(bytes).is_err(), lanes.snapshot()));
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
