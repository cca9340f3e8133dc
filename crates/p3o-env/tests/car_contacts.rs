//! The Car meets solid things as in the original engine.

use p3o_env::physics::articulated::cubes::{Cube, Cubes};
use p3o_env::physics::articulated::{self, Obstacle, Physics, Pusher, State, bodies};
use p3o_env::{CarNavigation, Env, OpenEnv};

use crate::bodies::{Record, error};
use crate::cubes::moving;
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
    let Summary { count, other, exact, worst } = Summary::of("pillars", &compared);
    assert_eq!(other, 0, "contacts and rows are the same");
    assert!(10 * exact[0] > 8 * count && worst[0] < 2e-3, "{exact:?} {worst:?}");
    assert!(10 * exact[1] > 6 * count && worst[1] < 2e-4 && worst[2] < 5e-3, "{exact:?} {worst:?}");
}

/// Whether contacts are the same, and errors of acceleration, place and velocity, relative to the largest number.
type Compared = (bool, f64, f64, f64);

struct Summary {
    count: usize,
    /// States with other contacts.
    other: usize,
    /// States in which acceleration, and velocities after a step, agree to rounding.
    exact: [usize; 2],
    /// Largest errors of acceleration, place and velocity.
    worst: [f64; 3],
}

impl Summary {
    fn of(name: &str, compared: &[Compared]) -> Summary {
        let worst = |of: fn(&Compared) -> f64| compared.iter().map(of).fold(0.0, f64::max);
        let exact = |of: fn(&Compared) -> f64| compared.iter().filter(|state| of(state) < 1e-12).count();
        let summary = Summary {
            count: compared.len(),
            other: compared.iter().filter(|state| !state.0).count(),
            exact: [exact(|s| s.1), exact(|s| s.3)],
            worst: [worst(|s| s.1), worst(|s| s.2), worst(|s| s.3)],
        };
        let Summary { count, other, exact, worst } = &summary;
        println!(
            "{name}: {count} states, {other} with other contacts; exact in acceleration and after a step: {exact:?}; worst {worst:?}"
        );
        let mut errors: Vec<f64> = compared.iter().map(|state| state.3).collect();
        errors.sort_by(f64::total_cmp);
        println!(
            "velocities after a step: nine of ten within {:.1e}, 99 % within {:.1e}",
            errors[count * 9 / 10],
            errors[count * 99 / 100]
        );
        summary
    }
}

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

/// A recorded state of the Car among vases and what follows from it.
struct Among {
    /// Contacts of vases with the Car, all of theirs, and between vases.
    counts: [usize; 3],
    state: State,
    cubes: Vec<Cube>,
    control: Vec<f64>,
    acceleration: Vec<f64>,
    after: [Vec<f64>; 2],
}

fn among_vases() -> Vec<Among> {
    let record = Record::open("car_vases");
    let [states, vases] = [record.count(), record.count()];
    let (nq, nv) = (13 + 7 * vases, 11 + 6 * vases);
    let read = |_| {
        let counts = [(); 3].map(|()| record.count());
        let (qpos, qvel) = (record.long(nq), record.long(nv));
        let cube = |i: usize| moving(&qpos[13 + 7 * i..], &qvel[11 + 6 * i..]);
        Among {
            counts,
            cubes: (0..vases).map(cube).collect(),
            state: State { qpos: qpos[..13].to_vec(), qvel: qvel[..11].to_vec() },
            control: record.short(2),
            acceleration: record.long(nv),
            after: [record.long(nq), record.long(nv)],
        }
    };
    let all = (0..states).map(read).collect();
    record.finish();
    all
}

/// Positions and velocities in the order of the record.
fn flat(state: &State, cubes: &Cubes) -> [Vec<f64>; 2] {
    let [mut places, mut rates] = [state.qpos.clone(), state.qvel.clone()];
    for cube in cubes.list() {
        places.extend(cube.place.iter().chain(&cube.turn));
        rates.extend(cube.velocity.iter().chain(&cube.spin));
    }
    [places, rates]
}

#[test]
fn the_car_pushes_vases_as_in_the_original() {
    let mut pusher = Pusher::default();
    let all = among_vases();
    let mut compared = Vec::new();
    assert!(all.iter().filter(|state| state.counts[0] > 0).count() >= 60, "states of all kinds");
    assert!(all.iter().any(|state| state.counts[2] > 0));
    for Among { counts, mut state, cubes, control, acceleration, after } in all {
        let fresh = || Cubes::new(cubes.clone()).with_substep(bodies::CAR.timestep);
        let mut vases = fresh();
        pusher.look(&state, &control, &mut vases);
        let found = vases.contacts();
        let own = error(pusher.told().acceleration(), &acceleration[..11]);
        let mut vases = fresh();
        pusher.step(&mut state, &control, &mut vases);
        let [places, rates] = flat(&state, &vases);
        compared.push((found == counts[..2], own, error(&places, &after[0]), error(&rates, &after[1])));
    }
    let Summary { count, other, exact, worst } = Summary::of("vases", &compared);
    // Of boxes side by side some corners count here and not in the original.
    assert_eq!(other, 0, "contacts are the same");
    assert!(10 * exact[0] >= 9 * count && worst[0] < 1e-3, "{exact:?} {worst:?}");
    assert!(10 * exact[1] >= 8 * count && worst[1] < 1e-2 && worst[2] < 0.1, "{exact:?} {worst:?}");
}
