//! The robot and the lidar agree with states recorded from the original engine.

use p3o_env::lidar::{self, BINS};
use p3o_env::physics::contact::{self, Part};
use p3o_env::physics::point::{self, PointState};
use serde_json::Value;

use crate::util::distance;

pub fn load(name: &str) -> Value {
    let path = format!("{}/tests/vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

pub fn rows(file: &Value) -> &[Value] {
    let rows = file["rows"].as_array().expect("rows");
    assert!(!rows.is_empty());
    rows
}

pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number")).collect()
}

pub fn pairs(value: &Value) -> Vec<[f64; 2]> {
    value.as_array().expect("a list").iter().map(|v| numbers(v).try_into().expect("two numbers")).collect()
}

fn state(value: &Value) -> PointState {
    let [x, y, theta, vx, vy, omega] = numbers(value).try_into().expect("six numbers");
    PointState { x, y, theta, vx, vy, omega }
}

/// The numbers in a file's sentence about its tolerances, in their order.
fn tolerances(file: &Value) -> Vec<f64> {
    let text = file["tol"].as_str().expect("tol");
    text.split([' ', ';', ',', '(', ')']).filter_map(|word| word.parse().ok()).collect()
}

fn check(what: &str, row: usize, found: f64, expected: f64, tolerance: f64) {
    let error = (found - expected).abs();
    assert!(
        error <= tolerance,
        "row {row}, {what}: {found} instead of {expected} (off by {error:.1e} > {tolerance:.0e})"
    );
}

#[test]
fn a_free_step_matches() {
    let file = load("point_free");
    let [on_state, on_sensors] = tolerances(&file).try_into().expect("two tolerances");
    for (i, row) in rows(&file).iter().enumerate() {
        let mut robot = state(&row["state"]);
        let action = numbers(&row["action"]).try_into().expect("two numbers");
        let reading = point::step(&mut robot, action, &[]);
        let expected = state(&row["next_state"]);
        check("x", i, robot.x, expected.x, on_state);
        check("y", i, robot.y, expected.y, on_state);
        check("theta", i, robot.theta, expected.theta, on_state);
        check("vx", i, robot.vx, expected.vx, on_state);
        check("vy", i, robot.vy, expected.vy, on_state);
        check("omega", i, robot.omega, expected.omega, on_state);
        let sensors = numbers(&row["sensors12"]);
        assert_eq!(sensors.len(), 12);
        for (found, expected) in reading.sensors().into_iter().zip(sensors) {
            check("sensor", i, found, expected, on_sensors);
        }
    }
}

#[test]
fn a_substep_against_a_pillar_matches() {
    let file = load("point_pillar");
    let pillars = pairs(&file["pillars"]);
    let [velocities, omega, positions] = tolerances(&file).try_into().expect("three tolerances");
    for (i, row) in rows(&file).iter().enumerate() {
        let start = state(&row["state"]);
        check_contacts(i, &start, &pillars, &row["contacts"]);
        let mut robot = start;
        let action = numbers(&row["action"]).try_into().expect("two numbers");
        point::substep(&mut robot, action, &pillars);
        let expected = state(&row["next_state_after_ONE_substep"]);
        check("x", i, robot.x, expected.x, positions);
        check("y", i, robot.y, expected.y, positions);
        check("theta", i, robot.theta, expected.theta, point::SUBSTEP * omega);
        check("vx", i, robot.vx, expected.vx, velocities);
        check("vy", i, robot.vy, expected.vy, velocities);
        check("omega", i, robot.omega, expected.omega, omega);
    }
}

/// The same geoms touch the same pillars. The original's collision detection is off by up to 6e-5 m, so shallower
/// contacts may be missing on either side.
fn check_contacts(row: usize, robot: &PointState, pillars: &[[f64; 2]], recorded: &Value) {
    const NOISE: f64 = 1e-4;
    let found = contact::contacts(robot, pillars);
    let mut expected = Vec::new();
    for contact in recorded.as_array().expect("a list") {
        let names = [contact[0].as_str().expect("a name"), contact[1].as_str().expect("a name")];
        let part = if names.contains(&"pointarrow") { Part::Arrow } else { Part::Sphere };
        let pillar = names.iter().find_map(|n| n.strip_prefix("pillar")).expect("a pillar").parse().expect("an index");
        let dist = contact[2].as_f64().expect("a number");
        expected.push((part, pillar, dist));
        let same = found.iter().find(|c| c.part == part && c.pillar == pillar);
        match same {
            Some(same) => check("contact distance", row, same.dist, dist, NOISE),
            None => assert!(dist > -NOISE, "row {row}: contact {contact} not found"),
        }
    }
    for c in found {
        let known =
            expected.iter().any(|(part, pillar, _): &(Part, usize, f64)| c.part == *part && c.pillar == *pillar);
        assert!(known || c.dist > -NOISE, "row {row}: {c:?} is not in the recording");
    }
}

#[test]
fn lidar_and_hazard_cost_match() {
    let file = load("lidar");
    for (i, row) in rows(&file).iter().enumerate() {
        let [x, y, theta] = ["x", "y", "theta"].map(|key| row[key].as_f64().expect("a number"));
        let heading = [libm::cos(theta), libm::sin(theta)];
        let hazards = pairs(&row["hazards"]);
        let goal: [f64; 2] = numbers(&row["goal"]).try_into().expect("two numbers");
        let groups =
            [("goal_lidar", vec![goal]), ("hazards_lidar", hazards.clone()), ("vases_lidar", pairs(&row["vases"]))];
        for (key, objects) in groups {
            let mut bins = [0.0; BINS];
            lidar::scan([x, y], heading, &objects, &mut bins);
            let expected = numbers(&row[key]);
            assert_eq!(expected.len(), BINS);
            for (found, expected) in bins.into_iter().zip(expected) {
                check(key, i, found, expected, 1e-12);
            }
        }
        let on_hazard = hazards.iter().any(|h| distance(*h, [x, y]) <= 0.2);
        assert_eq!(row["cost"].as_f64(), Some(f64::from(u8::from(on_hazard))), "row {i}");
        // The robot drives at most 1.5 m/s for 0.02 s; a goal that was reached adds one.
        let reward = row["reward"].as_f64().expect("a number");
        assert!(reward.abs() < 0.035 || (reward - 1.0).abs() < 0.035, "row {i}: {reward}");
    }
}
