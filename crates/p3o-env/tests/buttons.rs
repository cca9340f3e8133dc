//! Button tasks give the motions, rewards, costs and observations of the originals.

use std::collections::BTreeMap;

use p3o_env::{OpenEnv, Quantities, tasks};

use crate::bodies::Record;
use crate::util::step_by;

/// Names of the robot's state, with the count of numbers in each.
const POINT: &[(&str, usize)] = &[("robot", 6)];
const CAR: &[(&str, usize)] = &[("qpos", 13), ("qvel", 11)];

fn split(names: &[(&'static str, usize)], record: &Record) -> Quantities {
    names.iter().map(|(name, count)| ((*name).to_owned(), record.long(*count))).collect()
}

/// A recorded step.
struct Recorded {
    state: Quantities,
    action: Vec<f32>,
    costs: [usize; 3],
    pressed: bool,
    reward: f64,
    obs: Vec<f64>,
    robot: Quantities,
    gremlins: Vec<f64>,
}

/// Steps recorded by tools/parity/buttons.py, whose files are named by task and, above 1, level.
fn recorded(file: &str, robot: &[(&'static str, usize)]) -> Vec<Recorded> {
    let record = Record::open(&format!("buttons/{file}"));
    let [numbers, gremlins, buttons, hazards, obs, steps] = [(); 6].map(|()| record.count());
    assert_eq!(numbers, robot.iter().map(|(_, count)| count).sum::<usize>());
    let read = |_| {
        let mut state = split(robot, &record);
        let rest = [("gremlins", 13 * gremlins), ("homes", 3 * gremlins), ("buttons", 2 * buttons)];
        state.append(&mut split(&rest, &record));
        state.append(&mut split(&[("hazards", 2 * hazards), ("time", 1), ("goal", 1), ("timer", 1)], &record));
        Recorded {
            state,
            action: record.short(2).iter().map(|a| *a as f32).collect(),
            costs: [(); 3].map(|()| record.count()),
            pressed: record.count() == 1,
            reward: record.long(1)[0],
            obs: record.short(obs),
            robot: split(robot, &record),
            gremlins: record.long(13 * gremlins),
        }
    };
    let all = (0..steps).map(read).collect();
    record.finish();
    all
}

/// The largest difference, relative where the expected number is above 1.
fn off(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(f, e)| (f - e).abs() / e.abs().max(1.0)).fold(0.0, f64::max)
}

fn separate(file: &str) -> Box<dyn OpenEnv> {
    let (task, level) = file.strip_suffix('2').map_or((file, 1.0), |task| (task, 2.0));
    let options = BTreeMap::from([("costs".to_owned(), 0.0), ("level".to_owned(), level)]);
    tasks::make_open(task, &options).expect("a listed task")
}

/// Compares every step; the largest differences of robot, gremlins, reward and observation of each.
fn check(task: &str, robot: &[(&'static str, usize)], sensors: usize) -> Vec<[f64; 4]> {
    let mut env = separate(task);
    let (mut all, mut seen) = (Vec::new(), [0; 4]);
    for (i, step) in recorded(task, robot).into_iter().enumerate() {
        env.set_state(step.state.clone()).expect("its state");
        let found = step_by(&mut *env, &step.action);
        let after = env.state();
        assert_eq!(found.costs, step.costs.map(|cost| cost as f32), "{task}, step {i}");
        for (sum, cost) in seen.iter_mut().zip(step.costs.into_iter().chain([usize::from(step.pressed)])) {
            *sum += cost;
        }
        let timer = if step.pressed { 10.0 } else { (step.state["timer"][0] - 1.0).max(0.0) };
        assert_eq!(after["timer"][0], timer, "{task}, step {i}");
        let obs: Vec<f64> = found.obs.iter().map(|x| f64::from(*x)).collect();
        let goal = sensors + 16..sensors + 32;
        // Which button is the next goal is a matter of chance.
        let skip = |numbers: &[f64]| -> Vec<f64> {
            let numbers = numbers.iter().enumerate().filter(|(k, _)| !(step.pressed && goal.contains(k)));
            numbers.map(|(_, x)| *x).collect()
        };
        let robots = step.robot.iter().map(|(name, expected)| off(&after[name], expected)).fold(0.0, f64::max);
        all.push([
            robots,
            off(&after["gremlins"], &step.gremlins),
            off(&[f64::from(found.outcome.reward)], &[step.reward]),
            off(&skip(&obs), &skip(&step.obs)),
        ]);
    }
    println!("{task}: steps with costs of buttons, hazards, gremlins, and presses {seen:?}");
    let steps = all.len();
    assert!(seen[0] > steps / 9 && seen[1] >= steps / 18 && seen[2] > steps / 4 && seen[3] > 0, "{task}: {seen:?}");
    all
}

/// All but a few must agree to rounding, and those few roughly.
fn judge(task: &str, all: &[[f64; 4]], few: usize, rough: f64) {
    let exact = |off: &[f64; 4]| off[0] < 1e-10 && off[1] < 1e-10 && off[2] <= 1.3e-7 && off[3] <= 1.3e-7;
    let others: Vec<&[f64; 4]> = all.iter().filter(|off| !exact(off)).collect();
    let worst = |k: usize| all.iter().filter(|off| exact(off)).map(|off| off[k]).fold(0.0, f64::max);
    println!("{task}: largest differences {:?}, others {others:?}", [0, 1, 2, 3].map(worst));
    assert!(others.len() <= few && others.iter().all(|off| off.iter().all(|x| *x < rough)), "{task}: {others:?}");
}

#[test]
fn point_button_steps_as_the_original() {
    judge("PointButton", &check("PointButton", POINT, 12), 0, 0.0);
}

/// In four steps, or right after one of them, a wheel touches a button: a cylinder and a ball, whose contact MuJoCo 2 searches for iteratively.
#[test]
fn car_button_steps_as_the_original() {
    judge("CarButton", &check("CarButton", CAR, 24), 4, 1e-3);
}

/// In one step the Point's box comes to touch a gremlin while both stand upright to the last bit. Whether that is a contact of faces or of
/// edges, with one, two or three points, is a matter of rounding in the original too: moved by 1e-13, half of its answers change.
#[test]
fn level_2_of_the_button_tasks_steps_as_the_original() {
    judge("PointButton2", &check("PointButton2", POINT, 12), 1, 0.1);
    judge("CarButton2", &check("CarButton2", CAR, 24), 0, 0.0);
}
