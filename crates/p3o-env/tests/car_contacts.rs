//! The Car meets solid things as in the original engine.

use p3o_env::physics::articulated::{self, Obstacle, Physics, State, bodies};
use p3o_env::{CarNavigation, Env, OpenEnv};

use crate::bodies::{Record, error};
use crate::util::{reset, step};

/// A recorded state and what follows from it; tools/parity/car.py wrote it.
struct Against {
    /// All contacts, those with pillars, and rows.
    counts: [usize; 3],
    pillars: Vec<[f64; 2]>,
    state: State,
    control: Vec<f64>,
    acceleration: Vec<f64>,
    after: [Vec<f64>; 2],
}

fn against_pillars() -> Vec<Against> {
    let record = Record::open("car_pillars");
    let [states, pillars] = [record.count(), record.count()];
    let read = |_| Against {
        counts: [(); 3].map(|()| record.count()),
        pillars: record.short(2 * pillars).as_chunks().0.to_vec(),
        state: State { qpos: record.short(13), qvel: record.short(11) },
        control: record.short(2),
        acceleration: record.long(11),
        after: [record.long(13), record.long(11)],
    };
    let all = (0..states).map(read).collect();
    record.finish();
    all
}

fn with_pillars(physics: &dyn Physics) -> usize {
    physics.contacts().iter().filter(|contact| contact.geoms[0] >= bodies::CAR.geoms.len()).count()
}

#[test]
fn pillars_stop_the_car_as_in_the_original() {
    let mut physics = articulated::build(&bodies::CAR);
    let all = against_pillars();
    assert!(all.iter().filter(|state| state.counts[1] > 0).count() > 100, "states of all kinds");
    let mut compared = Vec::new();
    for recorded in all {
        let Against { counts, pillars, mut state, control, acceleration, after } = recorded;
        physics.surround(&mut pillars.iter().map(|pillar| Obstacle::pillar(*pillar)));
        physics.look(&state, &control);
        let found = [physics.contacts().len(), with_pillars(&*physics), physics.rows()];
        let at_start = error(physics.acceleration(), &acceleration);
        physics.step(&mut state, &control);
        compared.push((found == counts, at_start, error(&state.qpos, &after[0]), error(&state.qvel, &after[1])));
    }
    let worst = |of: fn(&Compared) -> f64| compared.iter().map(of).fold(0.0, f64::max);
    let exact = |of: fn(&Compared) -> f64| compared.iter().filter(|state| of(state) < 1e-12).count();
    let [other, count] = [compared.iter().filter(|state| !state.0).count(), compared.len()];
    let (acceleration, place, velocity) = (worst(|s| s.1), worst(|s| s.2), worst(|s| s.3));
    let [at_start, after] = [exact(|s| s.1), exact(|s| s.3)];
    println!(
        "{count} states, {other} with other contacts; acceleration: {at_start} exact, worst {acceleration:e}; a step: {after} exact, worst {place:e}, {velocity:e}"
    );
    assert_eq!(other, 0, "contacts and rows are the same");
    assert!(10 * at_start > 8 * count && acceleration < 2e-3, "{at_start} {acceleration}");
    assert!(10 * after > 6 * count && place < 1e-4 && velocity < 2e-3, "{after} {place} {velocity}");
}

/// Whether contacts are the same, and errors of acceleration, place and velocity, relative to the largest number.
type Compared = (bool, f64, f64, f64);

/// A Car at the origin that heads for the negative y, full speed ahead for two seconds; where it comes to.
fn driven_against(obstacles: &[Obstacle]) -> [f64; 3] {
    let mut physics = articulated::build(&bodies::CAR);
    let mut state = State::of(&bodies::CAR);
    physics.surround(&mut obstacles.iter().copied());
    for _ in 0..50 {
        physics.step(&mut state, &[0.02; 2]);
    }
    assert!(state.is_finite());
    [0, 1, 2].map(|i| state.qpos[i])
}

#[test]
fn every_kind_of_obstacle_stops_the_car() {
    assert!(driven_against(&[])[1] < -1.0);
    let level = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    // The bumper is 0.175 ahead; a ball is met at its height of 0.05 to 0.15.
    for (obstacle, front) in [
        (Obstacle::pillar([0.0, -0.8]), -0.6),
        (Obstacle::ball([0.0, -0.8, 0.1], 0.1), -0.7),
        (Obstacle::cuboid([0.0, -0.8, 0.1], [0.1; 3], level), -0.7),
    ] {
        let [_, y, _] = driven_against(&[obstacle]);
        assert!((y - 0.175 - front).abs() < 0.05, "{obstacle:?}: {y}");
    }
    let aside = driven_against(&[Obstacle::pillar([2.0, 0.0])]);
    assert_eq!(aside, driven_against(&[]), "what is far away is not felt");
}

#[test]
fn navigation_by_car_costs_where_a_pillar_is_touched() {
    let mut world = CarNavigation::new();
    assert_eq!((world.spec().obs_dim, world.labels().observation.len()), (72, 72));
    reset(&mut world, 0);
    let mut state = world.state();
    let mut pillars = vec![0.0; 28];
    pillars.as_chunks_mut().0.iter_mut().enumerate().for_each(|(i, place)| *place = [2.0, 0.4 * i as f64]);
    pillars[..2].copy_from_slice(&[0.0, -0.8]);
    state.insert("pillars".to_owned(), pillars);
    state.insert("qpos".to_owned(), bodies::CAR.qpos.to_vec());
    state.insert("qvel".to_owned(), vec![0.0; 11]);
    state.insert("goal".to_owned(), vec![1.0, 1.0]);
    world.set_state(state).expect("a state of this world");
    let mut touched = 0;
    for i in 0..50 {
        let costs = step(&mut world, [1.0, 1.0]).costs;
        let contacts = world.derived(&[1.0, 1.0])["contacts"].clone();
        assert_eq!(costs[1] > 0.0, !contacts.is_empty(), "step {i}");
        // The front bumper is geom 4.
        assert!(contacts.as_chunks::<3>().0.iter().all(|c| c[0] == 4.0 && c[1] == 0.0 && c[2] < 0.0), "{contacts:?}");
        touched += usize::from(costs[1] > 0.0);
        assert!(i > 10 || touched == 0);
    }
    assert!(touched > 10, "{touched}");
}

#[test]
fn a_car_that_is_nowhere_does_not_panic() {
    for broken in [f64::NAN, f64::INFINITY, 1e300] {
        let mut physics = articulated::build(&bodies::CAR);
        let mut state = State::of(&bodies::CAR);
        state.qpos[0] = 0.35;
        state.qvel[4] = broken;
        physics.surround(&mut std::iter::once(Obstacle::pillar([0.0, 0.0])));
        physics.step(&mut state, &[0.02, -0.02]);
    }
    // On top of each other, in the middle of a pillar, and inside of it.
    for place in [0.0, 1e-9, 0.05] {
        let mut physics = articulated::build(&bodies::CAR);
        let mut state = State::of(&bodies::CAR);
        physics.surround(&mut std::iter::once(Obstacle::pillar([place, 0.0])));
        physics.step(&mut state, &[0.02, -0.02]);
        assert!(state.is_finite());
    }
}
