//! Cubes and a robot that pushes them move as in the original engine.

use p3o_env::physics::articulated::cubes::{Cube, Cubes};
use p3o_env::physics::point::{self, PointState};

use crate::bodies::Record;

/// A recorded state and what follows from it; tools/parity/vases.py wrote it.
struct Recorded {
    contacts: [usize; 2],
    /// Of those, between cubes.
    between: usize,
    robot: PointState,
    cubes: Vec<Cube>,
    control: [f64; 2],
    after_substep: Vec<f64>,
    after_step: Vec<f64>,
    accelerometer: Vec<f64>,
}

/// A cube from the beginnings of what MuJoCo has of its pose and of its rates.
pub fn moving(pose: &[f64], motion: &[f64]) -> Cube {
    Cube {
        place: std::array::from_fn(|k| pose[k]),
        turn: std::array::from_fn(|k| pose[3 + k]),
        velocity: std::array::from_fn(|k| motion[k]),
        spin: std::array::from_fn(|k| motion[3 + k]),
        resting: false,
    }
}

fn recorded() -> Vec<Recorded> {
    let record = Record::open("cubes");
    let [states, cubes] = [record.count(), record.count()];
    let (nq, nv) = (3 + 7 * cubes, 3 + 6 * cubes);
    let read = |_| {
        let (contacts, between) = ([record.count(), record.count()], record.count());
        let (qpos, qvel, ctrl) = (record.long(nq), record.long(nv), record.long(2));
        let robot = PointState { x: qpos[0], y: qpos[1], theta: qpos[2], vx: qvel[0], vy: qvel[1], omega: qvel[2] };
        let cube = |i: usize| moving(&qpos[3 + 7 * i..], &qvel[3 + 6 * i..]);
        Recorded {
            contacts,
            between,
            robot,
            cubes: (0..cubes).map(cube).collect(),
            control: [ctrl[0], ctrl[1]],
            after_substep: record.long(nq + nv),
            after_step: record.long(nq + nv),
            accelerometer: record.long(3),
        }
    };
    let all = (0..states).map(read).collect();
    record.finish();
    all
}

/// Positions and velocities in the order of the record.
fn flat(robot: &PointState, cubes: &Cubes) -> Vec<f64> {
    let PointState { x, y, theta, vx, vy, omega } = *robot;
    let mut all = vec![x, y, theta];
    cubes.list().iter().for_each(|cube| all.extend(cube.place.iter().chain(&cube.turn)));
    all.extend([vx, vy, omega]);
    cubes.list().iter().for_each(|cube| all.extend(cube.velocity.iter().chain(&cube.spin)));
    all
}

fn difference(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let differences = found.iter().zip(expected).map(|(f, e)| (f - e).abs());
    differences.fold(0.0, |most, d| if d.is_nan() { f64::INFINITY } else { most.max(d) })
}

/// Each recorded state with how many contacts it has here, and how far it is from the record after a substep and after a step.
fn compared() -> Vec<(Recorded, [usize; 2], f64, f64)> {
    let compare = |state: Recorded| {
        let fresh = || (state.robot, Cubes::new(state.cubes.clone()));
        let (robot, mut cubes) = fresh();
        point::read_among(&robot, state.control, &mut cubes);
        let contacts = cubes.contacts();

        let (mut robot, mut cubes) = fresh();
        point::substep_among(&mut robot, state.control, &mut cubes);
        let one = difference(&flat(&robot, &cubes), &state.after_substep);

        let (mut robot, mut cubes) = fresh();
        let [ahead, left] = point::step_among(&mut robot, state.control, &mut cubes).acceleration;
        let felt = difference(&[ahead, left], &state.accelerometer[..2]);
        let ten = difference(&flat(&robot, &cubes), &state.after_step).max(1e-3 * felt);
        (state, contacts, one, ten)
    };
    recorded().into_iter().map(compare).collect()
}

#[test]
fn contacts_and_motion_are_the_originals() {
    let all = compared();
    let count = |holds: fn(&Recorded) -> bool| all.iter().filter(|(state, ..)| holds(state)).count();
    assert!(
        count(|state| state.contacts[0] > 0) >= 80 && count(|state| state.between > 0) >= 50,
        "states of all kinds"
    );
    // Where edges touch, rarely a second point counts in the original and not here.
    let differ = all.iter().filter(|(state, contacts, ..)| *contacts != state.contacts).count();
    assert!(differ <= 1, "{differ} states have other contacts");
    let same = || all.iter().filter(|(state, contacts, ..)| *contacts == state.contacts);
    let worst = same().map(|(.., one, _)| *one).fold(0.0, f64::max);
    assert!(worst < 1e-9, "after a substep {worst:e}");
    let far: Vec<f64> = all.iter().map(|(.., ten)| *ten).filter(|ten| *ten > 1e-9).collect();
    assert!(far.len() <= 3, "after a step {far:?}");
}

#[test]
fn a_cube_at_rest_stays_and_wakes_when_touched() {
    let lying = Cube::lying([0.5, 0.02], 0.3);
    let mut cubes = Cubes::new(vec![lying, Cube::lying([-1.0, 0.0], 1.0)]);
    let mut robot = PointState::default();
    let mut touched = 0;
    for _ in 0..150 {
        let before = cubes.list()[0];
        point::step_among(&mut robot, [1.0, 0.0], &mut cubes);
        touched += usize::from(cubes.touching() > 0);
        if touched == 0 {
            assert_eq!(cubes.list()[0], before);
        }
    }
    assert!(touched > 5 && cubes.list()[0].place[0] > 0.6, "{touched} {:?}", cubes.list()[0]);
    assert_eq!(cubes.list()[1], Cube::lying([-1.0, 0.0], 1.0));
    // Left behind, it comes to rest.
    for _ in 0..200 {
        point::step_among(&mut robot, [-1.0, 0.0], &mut cubes);
    }
    assert!(cubes.list()[0].resting && cubes.list()[0].speed() == 0.0, "{:?}", cubes.list()[0]);
}

#[test]
fn a_cube_at_rest_lies_where_the_ground_carries_it() {
    let mut awake = Cube::lying([0.0, 0.0], 0.4);
    awake.resting = false;
    let mut cubes = Cubes::new(vec![awake]);
    let mut robot = PointState { x: 3.0, ..PointState::default() };
    point::substep_among(&mut robot, [0.0, 0.0], &mut cubes);
    let found = cubes.list()[0];
    assert!(found.resting && difference(&found.place, &awake.place) < 1e-14, "{found:?}");
}

#[test]
fn a_tipped_cube_falls_on_a_side() {
    // Balanced on an edge, a little off: it falls, and lies flat with another side up.
    let (sin, cos) = f64::sin_cos(0.5 * 0.9);
    let place = [0.0, 0.0, 0.145];
    let tipped = Cube { place, turn: [cos, sin, 0.0, 0.0], velocity: [0.0; 3], spin: [0.0; 3], resting: false };
    let mut cubes = Cubes::new(vec![tipped]);
    let mut robot = PointState { x: 3.0, ..PointState::default() };
    for _ in 0..300 {
        point::step_among(&mut robot, [0.0, 0.0], &mut cubes);
    }
    let cube = cubes.list()[0];
    let up = cube.axes()[2];
    assert!(cube.resting && up[1].abs() > 1.0 - 1e-6 && (cube.place[2] - 0.1).abs() < 1e-4, "{cube:?} {up:?}");
}

#[test]
fn what_is_not_finite_does_not_panic() {
    let mut cubes = Cubes::new(vec![Cube::lying([0.25, 0.0], 0.0), Cube::lying([0.5, 0.0], 0.0)]);
    let mut robot = PointState { vx: 1.0, ..PointState::default() };
    point::step_among(&mut robot, [f64::NAN, 0.0], &mut cubes);
    assert!(!robot.is_finite());
    let mut thrown = cubes.list().to_vec();
    thrown[0].velocity = [f64::NAN; 3];
    thrown[0].resting = false;
    cubes.set(thrown);
    let mut robot = PointState::default();
    point::step_among(&mut robot, [1.0, 0.0], &mut cubes);
}
