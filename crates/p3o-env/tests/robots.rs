//! Robots of Safety-Gymnasium give the rewards, costs, ends and observations of the originals.

use std::collections::BTreeMap;

use p3o_env::tasks;

use crate::bodies::Record;
use crate::util::{reset, step};
use crate::velocity::Steps;

/// Steps recorded by tools/parity/robots.py; how many of them cost and ended.
fn check(task: &str, options: &[(&str, f64)]) -> (usize, usize) {
    let record = Record::open(&format!("robots/{task}"));
    let [nq, nv, nu, objects, obs, steps] = [(); 6].map(|()| record.count());
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let mut env = tasks::make_open(task, &options).expect("a listed task");
    assert_eq!((env.spec().obs_dim, env.spec().action_width()), (obs, nu));
    let mut found = Steps::default();
    for _ in 0..steps {
        let mut state = BTreeMap::from([("qpos".to_owned(), record.short(nq)), ("qvel".to_owned(), record.short(nv))]);
        if objects > 0 {
            for (name, count) in [("goal", 1), ("hazards", objects - 2), ("vases", 1)] {
                state.insert(name.to_owned(), record.short(2 * count));
            }
        }
        found.take(&mut *env, state, &record);
    }
    found.check(task, record);
    (found.costly, found.ended)
}

#[test]
fn car_goal_steps_as_the_original() {
    let (costly, ended) = check("CarGoal", &[]);
    assert!(costly > 10 && ended == 0, "{costly} {ended}");
}

#[test]
fn circles_step_as_the_originals() {
    for (task, options) in [("CarCircle", &[][..]), ("AntCircle", &[("rules", 1.0)])] {
        let (costly, _) = check(task, options);
        assert!(costly > 10, "{task}: {costly}");
    }
}

#[test]
fn the_car_saturates_drives_backwards_along_y_and_turns_on_the_spot() {
    let mut env = tasks::make_open("CarGoal", &BTreeMap::from([("level".to_owned(), 0.0)])).expect("a listed task");
    let mut run = |action: [f32; 2], steps: usize| {
        reset(&mut *env, 1);
        let last = (0..steps).map(|_| step(&mut *env, action)).last().expect("a step");
        (env.state()["qpos"].clone(), last.obs)
    };
    assert_eq!(run([0.0201, -0.0201], 5), run([1.0, -7.0], 5), "more than 0.02 is the same");
    assert_ne!(run([0.0199, -0.0201], 5), run([0.0201, -0.0201], 5));
    // 0.02 N m on each of the wheels against the dampers of both and of the ball: 0.78 m/s.
    let (_, obs) = run([1.0, 1.0], 200);
    assert!((-0.8..-0.75).contains(&obs[4]) && obs[3].abs() < 0.01, "{:?}", &obs[..12]);
    let (_, obs) = run([1.0, -1.0], 200);
    assert!((1.3..1.5).contains(&obs[8].abs()), "{:?}", &obs[..12]);
}
