//! Lanes depend on seed and index alone, restart by themselves, and add up their episodes.

use p3o_env::{Env, Lane, Navigation, PointGoal, VecEnv};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::util::{Noise, bits};

fn trace(threads: usize, steps: usize) -> (Vec<u32>, Vec<u8>) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
    pool.install(|| {
        let mut lanes = VecEnv::new(&|| Box::new(Navigation::new()), 70, 17);
        let mut noise = Noise::new(4);
        let mut trace = Vec::new();
        for _ in 0..steps {
            let actions: Vec<f32> = (0..lanes.len()).flat_map(|_| noise.action()).collect();
            lanes.step(&actions);
            trace.extend(lanes.lanes().iter().flat_map(|lane| bits(&lane.obs()[..12])));
        }
        (trace, lanes.snapshot())
    })
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let one = trace(1, 300);
    assert!(one == trace(2, 300));
    assert!(one == trace(3, 300));
}

#[test]
fn a_lane_is_the_same_alone_and_in_company() {
    let make = || Box::new(PointGoal::default()) as Box<dyn Env>;
    let mut together = VecEnv::new(&make, 6, 2);
    let mut alone = Lane::new(make(), 2, 4);
    let mut noise = Noise::new(8);
    for _ in 0..1200 {
        let actions: Vec<f32> = (0..6).flat_map(|_| noise.action()).collect();
        together.step(&actions);
        let step = alone.step(&actions[8..10]);
        assert_eq!(step, together.lanes()[4].last());
        assert_eq!(bits(alone.obs()), bits(together.lanes()[4].obs()));
        assert_eq!(alone.finished(), together.lanes()[4].finished());
    }
}

#[test]
fn lanes_differ_and_seeds_differ() {
    let make = || Box::new(PointGoal::default()) as Box<dyn Env>;
    let (a, b) = (VecEnv::new(&make, 3, 0), VecEnv::new(&make, 3, 1));
    assert_ne!(a.lanes()[0].obs(), a.lanes()[1].obs());
    assert_ne!(a.lanes()[0].obs(), b.lanes()[0].obs());
}

#[test]
fn an_ended_episode_restarts_by_itself() {
    let make = || Box::new(PointGoal::default()) as Box<dyn Env>;
    let mut lane = Lane::new(make(), 31, 2);
    // The same episodes by hand: first seed, a thousand steps, second seed.
    let mut rng = ChaCha8Rng::seed_from_u64(31);
    rng.set_stream(2);
    let mut world = PointGoal::default();
    let (mut obs, mut costs) = (vec![0.0; 60], vec![0.0; 1]);
    world.reset(rng.next_u64(), &mut obs);
    assert_eq!(lane.obs(), obs);
    let mut noise = Noise::new(3);
    let (mut ret, mut cost) = (0.0, 0.0);
    for i in 1..=1000 {
        let action = noise.action();
        let step = lane.step(&action);
        let outcome = world.step(&action, &mut obs, &mut costs);
        ret += f64::from(outcome.reward);
        cost += f64::from(costs[0]);
        assert_eq!((step.reward, step.ended()), (outcome.reward, i == 1000));
        assert_eq!(lane.costs(), costs);
        if i < 1000 {
            assert_eq!(lane.obs(), obs);
            assert_eq!((lane.running().len, lane.finished().len), (i, 0));
        }
    }
    assert_eq!(lane.final_obs(), obs);
    assert_eq!((lane.finished().ret, lane.finished().len), (ret, 1000));
    assert_eq!(lane.finished().costs, [cost]);
    assert_eq!((lane.running().ret, lane.running().len), (0.0, 0));
    world.reset(rng.next_u64(), &mut obs);
    assert_eq!(lane.obs(), obs);
}

#[test]
#[should_panic(expected = "one action of 2 numbers per lane")]
fn a_wrong_number_of_actions_is_refused() {
    VecEnv::new(&|| Box::new(PointGoal::default()), 2, 0).step(&[0.0; 3]);
}
