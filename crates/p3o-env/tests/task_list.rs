//! Tasks are built by name; a mistake is answered with the alternatives.

use std::collections::BTreeMap;

use p3o_env::{Env, GoalLevel, PointGoal, TASKS, TaskError, tasks};

use crate::util::{bits, frozen, reset};

fn options(pairs: &[(&str, f64)]) -> BTreeMap<String, f64> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

fn complaint(name: &str, pairs: &[(&str, f64)]) -> TaskError {
    tasks::make(name, &options(pairs)).err().expect("a mistake")
}

#[test]
fn every_listed_task_can_be_built_and_its_defaults_are_allowed() {
    for task in TASKS {
        let env = tasks::make(task.name, &BTreeMap::new()).expect("a listed task");
        assert_eq!(env.spec().name, task.name);
        for option in task.options {
            assert!(option.allowed.contains(option.default), "{} {}", task.name, option.name);
            if tasks::has_effect(task.name, option.name, &BTreeMap::new()) {
                let given = options(&[(option.name, option.default)]);
                let same = tasks::make(task.name, &given).expect("its default");
                assert_eq!(frozen(&*same), frozen(&*env));
            }
        }
    }
}

#[test]
fn options_reach_the_world() {
    let mut by_name = tasks::make("PointGoal", &options(&[("level", 2.0)])).expect("level 2");
    let mut typed = PointGoal::new(GoalLevel::Two);
    assert_eq!(by_name.spec(), typed.spec());
    assert_eq!(bits(&reset(&mut *by_name, 1)), bits(&reset(&mut typed, 1)));
    assert_eq!(tasks::make("PointGoal", &options(&[("level", 0.0)])).expect("level 0").spec().obs_dim, 28);
}

#[test]
fn hidden_velocity_leaves_the_rest_as_it_was() {
    let (mut open, mut hidden) = (PointGoal::default(), PointGoal::default().with_hidden_velocity());
    assert_eq!((open.spec().obs_dim, hidden.spec().obs_dim), (60, 51));
    let (mut seen, mut left, mut costs) = (vec![0.0; 60], vec![0.0; 51], [0.0]);
    open.reset(3, &mut seen);
    hidden.reset(3, &mut left);
    for _ in 0..20 {
        assert_eq!(bits(&seen[9..]), bits(&left), "the magnetometer and the lidars");
        let outcome = open.step(&[0.6, -0.3], &mut seen, &mut costs);
        assert_eq!(hidden.step(&[0.6, -0.3], &mut left, &mut costs), outcome);
    }
    assert!(seen[..9].iter().any(|x| x.abs() > 0.1), "there was something to hide");
    let mut by_name = tasks::make("PointGoal", &options(&[("hide", 1.0)])).expect("a listed option");
    assert_eq!(bits(&reset(&mut *by_name, 1)), bits(&reset(&mut hidden, 1)));
    assert_eq!(tasks::words("PointGoal", "hide"), Some(&["nothing", "velocity"][..]));
    assert_eq!(tasks::words("PointGoal", "level"), None);
}

#[test]
fn mistakes_name_the_alternatives() {
    assert_eq!(
        complaint("PointGaol", &[]).to_string(),
        "there is no task \"PointGaol\"; the tasks are PointGoal, Navigation, AntCircle, PointCircle, PointGather, SimpleSpread, CarGoal, CarCircle, PointButton, CarButton, \
         AntVelocity, HalfCheetahVelocity, HopperVelocity, Walker2dVelocity, SwimmerVelocity, HumanoidVelocity"
    );
    assert_eq!(
        complaint("Navigation", &[("level", 1.0)]).to_string(),
        "Navigation has no option \"level\"; its options are goal_bonus, layout, robot"
    );
    assert_eq!(
        complaint("PointGoal", &[("level", 3.0)]).to_string(),
        "PointGoal: level = 3 is not allowed; it must be one of 0, 1, 2"
    );
    assert_eq!(
        complaint("PointGoal", &[("goal_bonus", -1.0)]).to_string(),
        "PointGoal: goal_bonus = -1 is not allowed; it must be a finite number of at least 0"
    );
    for (task, given, message) in [
        ("PointGoal", &[("costs", 1.0)][..], "PointGoal: costs has no effect where level is 1; it needs level = 2"),
        (
            "CarButton",
            &[("costs", 0.0), ("level", 0.0)],
            "CarButton: costs has no effect where level is 0; it needs level = 1 or 2",
        ),
        (
            "CarGoal",
            &[("costs", 0.0), ("level", 0.0)],
            "CarGoal: costs has no effect where level is 0; it needs level = 2",
        ),
        (
            "CarGoal",
            &[("vases", 1.0), ("level", 0.0)],
            "CarGoal: vases has no effect where level is 0; it needs level = 1 or 2",
        ),
        (
            "AntCircle",
            &[("rules", 2.0), ("start", 1.0)],
            "AntCircle: start has no effect where rules is circle2; it needs rules = paper",
        ),
    ] {
        assert_eq!(complaint(task, given).to_string(), message);
    }
    for value in [f64::NAN, f64::INFINITY] {
        assert!(matches!(complaint("Navigation", &[("goal_bonus", value)]), TaskError::OutOfRange { .. }));
    }
}

#[test]
fn only_worlds_of_several_agents_have_a_team() {
    for task in TASKS {
        match tasks::make_team(task.name, &BTreeMap::new()) {
            Ok(team) => assert!(task.has_team() && team.spec().agents > 1),
            Err(error) => {
                let line = error.to_string();
                assert!(
                    line.starts_with(task.name) && line.ends_with("the tasks of several agents are SimpleSpread"),
                    "{line}"
                );
            }
        }
        assert_eq!(tasks::make(task.name, &BTreeMap::new()).expect("a listed task").spec().agents, 1);
    }
    let wrong = tasks::make_team("SimpleSpread", &options(&[("agents", 9.0)])).err().expect("a mistake");
    assert!(matches!(wrong, TaskError::OutOfRange { .. }));
}

#[test]
fn worlds_of_python_are_named_as_such() {
    for name in ["gymnasium:CartPole-v1", "pettingzoo:chase", "python:Line"] {
        let line = complaint(name, &[]).to_string();
        assert!(line.starts_with(&format!("{name} is a world of Python, which this program cannot make")), "{line}");
    }
}
