//! Articulated bodies move as in the original engine.

use std::cell::Cell;

use p3o_env::physics::articulated::{self, Model, Physics, State, bodies};

/// Recorded numbers, read one after another; tools/parity/bodies.py says in which order.
pub struct Record {
    bytes: Vec<u8>,
    at: Cell<usize>,
}

impl Record {
    pub fn open(name: &str) -> Record {
        let path = format!("{}/tests/vectors/{name}.bin", env!("CARGO_MANIFEST_DIR"));
        Record { bytes: std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}")), at: Cell::new(0) }
    }

    fn take<const N: usize>(&self) -> [u8; N] {
        let at = self.at.replace(self.at.get() + N);
        self.bytes[at..at + N].try_into().expect("so many bytes")
    }

    pub fn count(&self) -> usize {
        u32::from_le_bytes(self.take()) as usize
    }

    pub fn short(&self, len: usize) -> Vec<f64> {
        (0..len).map(|_| f64::from(f32::from_le_bytes(self.take()))).collect()
    }

    pub fn long(&self, len: usize) -> Vec<f64> {
        (0..len).map(|_| f64::from_le_bytes(self.take())).collect()
    }

    pub fn finish(&self) {
        assert_eq!(self.at.get(), self.bytes.len(), "all was read");
    }
}

/// The largest difference, relative to the largest number; what is no number is infinitely wrong.
pub fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    if found.iter().any(|f| !f.is_finite()) {
        return f64::INFINITY;
    }
    let size = expected.iter().fold(1.0f64, |m, e| m.max(e.abs()));
    found.iter().zip(expected).map(|(f, e)| (f - e).abs() / size).fold(0.0, f64::max)
}

/// What observations and rewards read besides the state.
fn read(physics: &dyn Physics) -> Vec<f64> {
    let bodies = 1..=physics.model().bodies.len();
    let mut all: Vec<f64> = bodies.clone().flat_map(|body| physics.place(body)).collect();
    all.extend(bodies.clone().flat_map(|body| physics.centre(body)));
    all.extend(physics.motor_forces());
    let moments: Vec<_> = bodies.filter_map(|body| physics.moments(body)).collect();
    all.extend(moments.iter().flat_map(|m| m.inertia));
    all.extend(moments.iter().flat_map(|m| m.velocity));
    all.extend(moments.iter().flat_map(|m| m.force));
    all
}

fn check(model: &'static Model, tolerance: f64) {
    let record = Record::open(&format!("bodies/{}", model.name));
    let [nq, nv, nu, states, readings, every] = [(); 6].map(|()| record.count());
    let mut physics = articulated::build(model);
    let mut worst = [0.0f64; 3];
    let (mut wrong, mut worst_reading) = (0, 0.0f64);
    for i in 0..states {
        let mut state = State { qpos: record.short(nq), qvel: record.short(nv) };
        let ctrl = record.short(nu);
        let expected = [record.count(), record.count()];
        let [qacc, qpos, qvel] = [nv, nq, nv].map(|len| record.long(len));
        physics.look(&state, &ctrl);
        let found = [physics.contacts().len(), physics.rows()];
        let at_start = error(physics.acceleration(), &qacc);
        physics.step(&mut state, &ctrl);
        let errors = [at_start, error(&state.qpos, &qpos), error(&state.qvel, &qvel)];
        if found != expected || errors.iter().any(|e| *e > tolerance) {
            println!("{}, state {i}: {found:?} contacts and rows instead of {expected:?}; {errors:?}", model.name);
            wrong += 1;
        }
        worst = std::array::from_fn(|k| worst[k].max(errors[k]));
        if i % every == 0 {
            let off = error(&read(&*physics), &record.long(readings));
            assert!(off <= tolerance, "{}, state {i}: readings are off by {off}", model.name);
            worst_reading = worst_reading.max(off);
        }
    }
    record.finish();
    println!(
        "{}: largest errors of qacc, qpos, qvel over {states} states: {worst:?}, of readings {worst_reading:?}",
        model.name
    );
    assert_eq!(wrong, 0, "{}", model.name);
}

#[test]
fn half_cheetah_matches_the_original_engine() {
    check(&bodies::HALF_CHEETAH, 1e-9);
}

#[test]
fn hopper_matches_the_original_engine() {
    check(&bodies::HOPPER, 1e-9);
}

#[test]
fn walker2d_matches_the_original_engine() {
    check(&bodies::WALKER2D, 1e-9);
}

#[test]
fn swimmer_matches_the_original_engine() {
    check(&bodies::SWIMMER, 1e-9);
}

#[test]
fn ant_matches_the_original_engine() {
    check(&bodies::ANT, 1e-9);
}

#[test]
fn humanoid_matches_the_original_engine() {
    check(&bodies::HUMANOID, 1e-9);
}

#[test]
fn car_matches_the_original_engine() {
    check(&bodies::CAR, 1e-9);
}

#[test]
fn safety_gymnasiums_ant_matches_the_original_engine() {
    check(&bodies::SAFETY_ANT, 1e-9);
}
