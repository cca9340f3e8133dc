//! A random policy meets what the paper says it meets: hazards above their limit, pillars hardly ever.

use p3o_env::{Env, Navigation, Pillars, PointGoal};

use crate::util::{Noise, Seeds, Visible, reset, step, towards_goal};

/// Mean cost per episode of each kind, and mean return, under noise.
fn random_policy(world: &mut dyn Env, episodes: usize) -> (Vec<f64>, f64) {
    let mut seeds = Seeds::new(1, 1);
    let mut noise = Noise::new(5);
    let mut costs = vec![0.0; world.spec().costs.len()];
    let mut ret = 0.0;
    for _ in 0..episodes {
        reset(&mut *world, seeds.next(0));
        loop {
            let result = step(&mut *world, noise.action());
            ret += f64::from(result.outcome.reward) / episodes as f64;
            for (sum, cost) in costs.iter_mut().zip(&result.costs) {
                *sum += f64::from(*cost) / episodes as f64;
            }
            if result.outcome.terminated || result.outcome.truncated {
                break;
            }
        }
    }
    (costs, ret)
}

fn greedy_policy(world: &mut dyn Visible, episodes: u64) -> (Vec<f64>, f64) {
    let mut costs = vec![0.0; world.spec().costs.len()];
    let mut ret = 0.0;
    for seed in 0..episodes {
        reset(&mut *world, seed);
        for _ in 0..1000 {
            let action = towards_goal(&world.view());
            let result = step(&mut *world, action);
            ret += f64::from(result.outcome.reward) / episodes as f64;
            for (sum, cost) in costs.iter_mut().zip(&result.costs) {
                *sum += f64::from(*cost) / episodes as f64;
            }
        }
    }
    (costs, ret)
}

#[test]
fn a_random_navigator_violates_the_hazards_but_not_the_pillars() {
    // Scattered, over 6000 episodes: hazards 77 with a standard deviation of 131 per episode, so 13 for this mean; pillars 0.16.
    // A fence, over 1000 episodes: hazards 82, pillars 0.41.
    for (pillars, most) in [(Pillars::Scattered, 2.0), (Pillars::Fence, 4.0)] {
        let (costs, _) = random_policy(&mut Navigation::with_pillars(pillars), 100);
        assert!((30.0..135.0).contains(&costs[0]), "{pillars:?}: hazards {}", costs[0]);
        assert!(costs[1] < most, "{pillars:?}: pillars {}", costs[1]);
    }
}

#[test]
fn a_greedy_navigator_violates_both_where_pillars_are_scattered() {
    let (costs, ret) = greedy_policy(&mut Navigation::with_pillars(Pillars::Scattered), 40);
    // Over 1000 episodes: hazards 42, pillars 165, return 17.5.
    assert!(costs[0] > 25.0 && costs[1] > 60.0, "{costs:?}");
    assert!((12.0..24.0).contains(&ret), "{ret}");
}

#[test]
fn a_fence_stops_who_does_not_look() {
    let (costs, ret) = greedy_policy(&mut Navigation::with_pillars(Pillars::Fence), 40);
    // Over 1000 episodes: hazards 17, pillars 609, return 7.4.
    assert!(costs[1] > 250.0 && ret < 14.0, "{costs:?} {ret}");
}

#[test]
fn point_goal_costs_are_in_the_originals_range() {
    let (costs, ret) = random_policy(&mut PointGoal::default(), 100);
    // Over 6000 episodes: 42 with a standard deviation of 99 per episode, so 10 for this mean; return -0.1.
    assert!((8.0..75.0).contains(&costs[0]) && ret.abs() < 1.0, "{costs:?} {ret}");
    let (costs, ret) = greedy_policy(&mut PointGoal::default(), 40);
    // Over 1000 episodes: hazards 43, return 19.7.
    assert!((25.0..65.0).contains(&costs[0]) && (15.0..25.0).contains(&ret), "{costs:?} {ret}");
}
