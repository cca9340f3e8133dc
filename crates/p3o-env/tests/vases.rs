//! Vases give way: they are pushed, never overlap the robot after a step, and cost while pushed at level 2.

use p3o_env::{GoalLevel, PointGoal};

use crate::util::{distance, reset, step, towards};

/// Whether a square of half-side 0.1 overlaps the robot's disc or arrow, by sampling the robot's outline.
fn overlaps(robot: [f64; 3], vase: [f64; 2]) -> bool {
    let [x, y, theta] = robot;
    let inside = |px: f64, py: f64| (px - vase[0]).abs() < 0.1 - 1e-6 && (py - vase[1]).abs() < 0.1 - 1e-6;
    let on_disc = (0..360).any(|i| {
        let angle = f64::from(i).to_radians();
        inside(x + 0.1 * angle.cos(), y + 0.1 * angle.sin())
    });
    let on_arrow = (0..=20).any(|i| {
        let along = f64::from(i - 10) * 0.005;
        [[0.05, along], [-0.05, along], [along, 0.05], [along, -0.05]].iter().any(|edge| {
            let (forward, left) = (0.1 + edge[0], edge[1]);
            inside(x + forward * theta.cos() - left * theta.sin(), y + forward * theta.sin() + left * theta.cos())
        })
    });
    let corner_in_disc = [[0.1, 0.1], [0.1, -0.1], [-0.1, 0.1], [-0.1, -0.1]]
        .iter()
        .any(|c| distance([vase[0] + c[0], vase[1] + c[1]], [x, y]) < 0.1 - 1e-6);
    on_disc || on_arrow || corner_in_disc
}

#[test]
fn a_vase_is_pushed_and_never_overlaps() {
    for level in [GoalLevel::One, GoalLevel::Two] {
        let mut world = PointGoal::new(level);
        let mut pushed = 0;
        for seed in 0..5 {
            reset(&mut world, seed);
            for _ in 0..400 {
                let before = world.view().vases.to_vec();
                let action = towards(&world.view(), before[0]);
                let result = step(&mut world, action);
                let scene = world.view();
                assert!(scene.vases.iter().all(|vase| !overlaps(scene.robot, *vase)));
                let moved = scene.vases != before;
                pushed += usize::from(moved);
                if level == GoalLevel::Two {
                    assert_eq!(result.costs[1] == 1.0, moved, "a vase costs exactly while it is pushed");
                }
            }
        }
        assert!(pushed > 100, "{pushed}");
    }
}

#[test]
fn the_robot_does_not_feel_a_vase() {
    // Driven into the vase, the robot moves exactly as it would on empty ground.
    let mut world = PointGoal::new(GoalLevel::One);
    reset(&mut world, 0);
    let mut free = p3o_env::physics::point::PointState::default();
    [free.x, free.y, free.theta] = world.view().robot;
    for _ in 0..400 {
        let action = towards(&world.view(), world.view().vases[0]);
        step(&mut world, action);
        p3o_env::physics::point::step(&mut free, action.map(f64::from), &[]);
        assert_eq!(world.view().robot, [free.x, free.y, free.theta]);
    }
}
