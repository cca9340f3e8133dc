//! Simple vases give way: they are pushed, never overlap the robot after a step, and cost while pushed at level 2. Free vases slide on and cost until they lie still.

use p3o_env::{CarGoal, Env, GoalLevel, OpenEnv, PointGoal, Vases};

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
        let mut world = PointGoal::with_vases(level, Vases::Simple);
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

/// Vases of a world's state, thirteen numbers each.
fn free(world: &dyn OpenEnv) -> Vec<[f64; 13]> {
    world.state()["vases"].as_chunks::<13>().0.to_vec()
}

fn speed(vase: &[f64; 13]) -> f64 {
    vase[7..10].iter().map(|v| v * v).sum::<f64>().sqrt()
}

#[test]
fn a_free_vase_slides_on_and_costs_until_it_lies_still() {
    let mut world = PointGoal::new(GoalLevel::Two);
    let (mut moving, mut alone, mut turned) = (0, 0, 0);
    for seed in 0..5 {
        reset(&mut world, seed);
        let start = free(&world);
        for i in 0..400 {
            let view = world.view();
            // Into the first vase, and then away from it.
            let action = if i % 100 < 80 { towards(&view, view.vases[0]) } else { [-1.0, 0.0] };
            let costs = step(&mut world, action).costs;
            let (vases, view) = (free(&world), world.view());
            let moves = vases.iter().any(|vase| speed(vase) >= 1e-4);
            assert!(costs[1] == 1.0 || !moves, "seed {seed}, step {i}");
            let far = view.vases.iter().all(|place| distance(*place, [view.robot[0], view.robot[1]]) > 0.31);
            assert!(costs[1] == 0.0 || moves || !far, "seed {seed}, step {i}: what is far is not touched");
            assert!(view.vases.iter().zip(&vases).all(|(place, vase)| place[..] == vase[..2]));
            moving += usize::from(moves);
            alone += usize::from(moves && far);
        }
        // Heading of a vase that stands: twice the angle of its quaternion.
        let angle = |vase: &[f64; 13]| 2.0 * vase[6].atan2(vase[3]);
        turned += usize::from((angle(&free(&world)[0]) - angle(&start[0])).abs() > 0.1);
    }
    assert!(moving > 200 && alone > 0 && turned > 2, "{moving} {alone} {turned}");
}

#[test]
fn a_state_of_free_vases_says_all_of_them() {
    let mut world = PointGoal::new(GoalLevel::Two);
    let mut copy = world.clone();
    reset(&mut world, 3);
    let mut moving = 0;
    for i in 0..300 {
        copy.set_state(world.state()).expect("a state of this world");
        assert_eq!(copy.state(), world.state());
        let action = towards(&world.view(), world.view().vases[0]);
        let (a, b) = (step(&mut world, action), step(&mut copy, action));
        // A goal that is reached is drawn anew, by each for itself.
        if a.outcome.reward > 0.5 {
            continue;
        }
        // The state holds the heading as an angle, and its cosine is found anew.
        let (ours, theirs) = (free(&world), free(&copy));
        let apart = |(a, b): (&[f64; 13], &[f64; 13])| a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        assert!(ours.iter().zip(&theirs).map(apart).fold(0.0, f64::max) < 1e-9, "step {i}");
        assert_eq!(a.costs, b.costs, "step {i}");
        moving += usize::from(ours.iter().any(|vase| speed(vase) > 0.0));
    }
    assert!(moving > 50, "{moving}");
    let mut short = world.state();
    short.insert("vases".to_owned(), vec![0.0; 20]);
    let message = world.set_state(short).expect_err("too few").to_string();
    assert_eq!(message, "\"vases\" has 20 numbers instead of 130");
}

#[test]
fn a_combined_cost_is_one_where_either_is() {
    let mut both = PointGoal::new(GoalLevel::Two);
    let mut one = PointGoal::new(GoalLevel::Two).with_combined_cost();
    let costs = &one.spec().costs;
    assert_eq!((costs.len(), &*costs[0].name, costs[0].limit), (1, "combined", 25.0));
    let mut counts = [0; 3];
    for seed in 0..10 {
        reset(&mut both, seed);
        reset(&mut one, seed);
        for i in 0..500 {
            let view = both.view();
            let aim = if i % 200 < 100 { view.hazards[0] } else { view.vases[0] };
            let action = towards(&view, aim);
            let (a, b) = (step(&mut both, action), step(&mut one, action));
            assert_eq!(b.costs, [a.costs[0].max(a.costs[1])]);
            assert_eq!(a.obs, b.obs);
            (0..2).for_each(|k| counts[k] += usize::from(a.costs[k] > 0.0));
            counts[2] += usize::from(a.costs == [1.0, 1.0]);
        }
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn the_car_pushes_free_vases_which_push_each_other() {
    let mut world = CarGoal::new(GoalLevel::Two);
    reset(&mut world, 0);
    // Two vases ahead of a Car that heads for the negative y, the others far away.
    let lying = |x: f64, y: f64| [x, y, 0.0999563805, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let mut vases: Vec<[f64; 13]> = (0..10).map(|i| lying(f64::from(i) - 5.0, 4.0)).collect();
    (vases[0], vases[1]) = (lying(0.02, -0.5), lying(0.0, -0.75));
    let mut state = world.state();
    state.insert("qpos".to_owned(), p3o_env::physics::articulated::bodies::CAR.qpos.to_vec());
    state.insert("qvel".to_owned(), vec![0.0; 11]);
    state.insert("vases".to_owned(), vases.concat());
    state.insert("goal".to_owned(), vec![2.0, 2.0]);
    world.set_state(state).expect("a state of this world");
    let far: Vec<_> = free(&world)[2..].to_vec();
    let mut costly = 0;
    for i in 0..60 {
        let costs = step(&mut world, [1.0, 1.0]).costs;
        let moves = free(&world).iter().any(|vase| speed(vase) >= 1e-4);
        assert!(costs[1] == 1.0 || !moves, "step {i}");
        costly += usize::from(costs[1] == 1.0);
        assert!(i > 4 || costly == 0, "nothing is touched yet");
    }
    let vases = free(&world);
    assert!(costly > 20 && vases[0][1] < -0.7 && vases[1][1] < -0.9, "{costly} {:?}", &vases[..2]);
    assert_eq!(vases[2..], far[..], "what is not touched stays");
}
