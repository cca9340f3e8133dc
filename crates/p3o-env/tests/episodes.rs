//! Episodes run as the task says: sizes, rewards, goals, ends.

use p3o_env::{ActionSpace, Env, GoalLevel, Navigation, PointGoal};

use crate::layouts::places;
use crate::util::{Noise, Visible, all_worlds, bits, distance, reset, step, towards_goal};

#[test]
fn sizes_and_costs_are_the_papers() {
    let describe = |env: &dyn Env| {
        let spec = env.spec();
        assert_eq!(spec.action, ActionSpace::Continuous { dim: 2 });
        assert_eq!(spec.horizon, 1000);
        let costs: Vec<(String, f64)> = spec.costs.iter().map(|c| (c.name.clone(), c.limit)).collect();
        (spec.name.clone(), spec.obs_dim, costs)
    };
    let cost = |name: &str, limit: f64| (name.to_owned(), limit);
    let goal = |level| describe(&PointGoal::new(level));
    assert_eq!(goal(GoalLevel::Zero), ("PointGoal".to_owned(), 28, vec![]));
    assert_eq!(goal(GoalLevel::One), ("PointGoal".to_owned(), 60, vec![cost("hazards", 25.0)]));
    assert_eq!(goal(GoalLevel::Two).2, vec![cost("hazards", 25.0), cost("vases", 25.0)]);
    assert_eq!(goal(GoalLevel::Two).1, 60);
    let navigation = describe(&Navigation::new());
    assert_eq!(navigation, ("Navigation".to_owned(), 60, vec![cost("hazards", 25.0), cost("pillars", 20.0)]));
}

#[test]
fn the_time_limit_truncates_after_exactly_a_thousand_steps() {
    for mut world in all_worlds() {
        let mut noise = Noise::new(1);
        reset(&mut *world, 7);
        for i in 1..=1000 {
            let outcome = step(&mut *world, noise.action()).outcome;
            assert_eq!((outcome.terminated, outcome.truncated), (false, i == 1000), "step {i}");
        }
    }
}

#[test]
fn an_episode_depends_on_its_seed_alone() {
    for mut world in all_worlds() {
        let first = reset(&mut *world, 11);
        let mut noise = Noise::new(2);
        for _ in 0..50 {
            step(&mut *world, noise.action());
        }
        assert_eq!(bits(&reset(&mut *world, 11)), bits(&first));
        assert_ne!(bits(&reset(&mut *world, 12)), bits(&first));
    }
}

#[test]
fn a_reached_goal_moves_and_the_reward_does_not_jump() {
    let mut reached = 0;
    for mut world in all_worlds() {
        for seed in 0..4 {
            reset(&mut *world, seed);
            for _ in 0..1000 {
                reached += usize::from(check_one_step(&mut *world));
            }
        }
    }
    assert!(reached > 60, "only {reached} goals reached");
}

/// Drives one step towards the goal and checks reward, distance and new goal; whether the goal was reached.
fn check_one_step(world: &mut dyn Visible) -> bool {
    let before = world.view();
    let (goal, [x, y, _]) = (before.goal, before.robot);
    let start = distance([x, y], goal);
    let action = towards_goal(&before);
    let reward = f64::from(step(&mut *world, action).outcome.reward);
    let after = world.view();
    let robot = [after.robot[0], after.robot[1]];
    let approach = start - distance(robot, goal);
    assert!(approach.abs() < 0.035, "the robot drives at most 1.5 m/s");
    if after.goal == goal {
        assert!((reward - approach).abs() < 1e-6);
        assert!(distance(robot, goal) > 0.3);
        return false;
    }
    assert!(distance(robot, goal) <= 0.3);
    assert!((reward - 1.0 - approach).abs() < 1e-6);
    for (place, keepout) in places(world).into_iter().filter(|(place, _)| *place != after.goal) {
        assert!(distance(place, after.goal) >= keepout + 0.305 - 1e-12);
    }
    true
}

#[test]
fn without_bonus_the_reward_is_the_approach_alone() {
    let mut world = Navigation::new().with_goal_bonus(0.0);
    let mut goals = 0;
    for seed in 0..4 {
        reset(&mut world, seed);
        for _ in 0..1000 {
            let goal = world.view().goal;
            let action = towards_goal(&world.view());
            assert!(step(&mut world, action).outcome.reward.abs() < 0.035);
            goals += usize::from(world.view().goal != goal);
        }
    }
    assert!(goals > 4, "{goals}");
}

#[test]
fn the_first_observation_is_a_robot_at_rest() {
    for mut world in all_worlds() {
        let obs = reset(&mut *world, 5);
        assert_eq!(obs[..9], [0.0, 0.0, 9.81, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let theta = world.view().robot[2];
        assert!((obs[9] + 0.5 * theta.sin() as f32).abs() < 1e-6);
        assert!((obs[10] + 0.5 * theta.cos() as f32).abs() < 1e-6);
        assert!(obs[12..].iter().all(|value| (0.0..=1.0).contains(value)));
    }
}

#[test]
fn lidars_come_in_the_order_goal_hazards_then_the_rest() {
    for mut world in all_worlds() {
        let obs = reset(&mut *world, 8);
        let scene = world.view();
        let [x, y, _] = scene.robot;
        let groups = [&[scene.goal][..], scene.hazards, scene.pillars, scene.vases];
        let seen = groups.into_iter().filter(|group| !group.is_empty());
        for (group, bins) in seen.zip(obs[12..].chunks(16)) {
            // The brightest bin belongs to the nearest object: s = (3 - d) / 3.
            let nearest = group.iter().map(|place| distance(*place, [x, y])).fold(f64::INFINITY, f64::min);
            let brightest = bins.iter().copied().fold(0.0, f32::max);
            assert!((f64::from(brightest) - (3.0 - nearest).max(0.0) / 3.0).abs() < 1e-6);
        }
    }
}

#[test]
fn an_action_that_is_no_number_shows_and_ends_the_episode() {
    for mut world in all_worlds() {
        for action in [[f32::NAN, 0.0], [0.0, f32::NAN], [f32::NAN; 2]] {
            reset(&mut *world, 3);
            let last = step(&mut *world, action);
            assert!(last.outcome.terminated && !last.outcome.truncated);
            assert!(last.outcome.reward.is_nan());
            assert!(last.obs.iter().any(|value| value.is_nan()));
            assert!(last.costs.iter().all(|cost| *cost == 0.0));
            assert!(reset(&mut *world, 4).iter().all(|value| value.is_finite()));
        }
    }
}

#[test]
fn an_infinite_action_is_clipped() {
    for mut world in all_worlds() {
        reset(&mut *world, 3);
        let clipped = step(&mut *world, [1.0, -1.0]);
        reset(&mut *world, 3);
        assert_eq!(step(&mut *world, [f32::INFINITY, f32::NEG_INFINITY]), clipped);
    }
}

#[test]
fn the_scene_tells_which_costs_fire() {
    for mut world in all_worlds() {
        let mut fired = 0;
        for seed in 0..10 {
            reset(&mut *world, seed);
            for _ in 0..500 {
                let action = towards_goal(&world.view());
                let costs = step(&mut *world, action).costs;
                let expected: Vec<f32> = world.view().firing.iter().map(|fires| f32::from(u8::from(*fires))).collect();
                assert_eq!(costs, expected);
                fired += usize::from(costs.contains(&1.0));
                let [x, y, _] = world.view().robot;
                let on_hazard = world.view().hazards.iter().any(|h| distance(*h, [x, y]) <= 0.2);
                assert_eq!(on_hazard, costs.first() == Some(&1.0));
            }
        }
        assert!(fired > 0 || world.spec().costs.is_empty());
    }
}
