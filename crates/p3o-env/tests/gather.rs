//! PointGather moves, senses, collects and ends as rllab's does.

use std::collections::HashSet;

use p3o_env::physics::rllab_point::{INERTIA_ACROSS, INERTIA_ALONG, MASS, RllabPoint};
use p3o_env::point_gather::{self, Item};
use p3o_env::{ActionSpace, Env, GatherObs, PointGather};

use crate::original_engine::{load, numbers, rows};
use crate::util::{Noise, distance, reset, step};

fn apple(x: f64, y: f64) -> Item {
    Item { at: [x, y], bomb: false }
}

fn largest_difference(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn readings_agree_with_the_original() {
    let file = load("gather");
    let mut worst: f64 = 0.0;
    for row in rows(&file) {
        let pose = ["x", "y", "theta"].map(|key| row[key].as_f64().expect("a number"));
        let robot = RllabPoint { x: pose[0], y: pose[1], theta: pose[2], ..RllabPoint::default() };
        let objects = row["objects"].as_array().expect("a list").iter().map(numbers);
        let items: Vec<Item> = objects.map(|o| Item { at: [o[0], o[1]], bomb: o[2] == 1.0 }).collect();
        let [apples, bombs] = point_gather::readings(&robot, &items);
        worst = worst.max(largest_difference(&robot.centre_of_mass(), &numbers(&row["com"])));
        worst = worst.max(largest_difference(&apples, &numbers(&row["apple_readings"])));
        worst = worst.max(largest_difference(&bombs, &numbers(&row["bomb_readings"])));

        let mut reversed = items.clone();
        reversed.reverse();
        assert_eq!(point_gather::readings(&robot, &reversed), [apples, bombs], "the nearest item counts");
    }
    println!("largest difference from the original's readings: {worst:e}");
    assert!(worst < 1e-13, "{worst:e}");
}

#[test]
fn sizes_and_costs_are_the_papers() {
    for (obs, dim) in [(GatherObs::Full, 86), (GatherObs::Compact, 29)] {
        let world = PointGather::new(obs);
        let spec = world.spec();
        assert_eq!((spec.obs_dim, spec.horizon), (dim, 100));
        assert_eq!(spec.action, ActionSpace::Continuous { dim: 2 });
        assert_eq!((spec.costs.len(), spec.costs[0].name.as_str(), spec.costs[0].limit), (1, "bombs", 0.5));
    }
}

#[test]
fn items_lie_on_the_lattice() {
    let mut world = PointGather::default();
    let mut seen = HashSet::new();
    for seed in 0..5000 {
        reset(&mut world, seed);
        let items = world.items();
        assert_eq!(items.iter().map(|item| item.bomb).collect::<Vec<_>>(), [[false; 8], [true; 8]].concat());
        let cells: HashSet<[i32; 2]> = items.iter().map(|item| item.at.map(|v| v as i32)).collect();
        assert_eq!(cells.len(), 16, "no two items in one place");
        assert!(items.iter().all(|item| item.at.iter().all(|v| [-6.0, -4.0, -2.0, 0.0, 2.0, 4.0].contains(v))));
        assert!(!cells.contains(&[0, 0]));
        seen.extend(cells);
    }
    assert_eq!(seen.len(), 35, "every cell but the origin is used");
}

#[test]
fn the_start_is_near_the_origin() {
    let mut world = PointGather::default();
    let mut squares = [0.0; 6];
    let episodes = 4000;
    for seed in 0..episodes {
        reset(&mut world, seed);
        let RllabPoint { x, y, theta, velocity: [vx, vy, w] } = *world.robot();
        for (sum, value) in squares.iter_mut().zip([x, y, theta, vx, vy, w]) {
            *sum += value * value / episodes as f64;
        }
    }
    // The standard error of an estimated standard deviation is 1 / sqrt(2 * 4000) = 1.1 % of it.
    for (square, sigma) in squares.into_iter().zip([0.01, 0.01, 0.01, 0.1, 0.1, 0.1]) {
        assert!((square.sqrt() / sigma - 1.0).abs() < 0.05, "{squares:?}");
    }
}

#[test]
fn the_point_turns_and_then_jumps() {
    // Half a turn of 0.25 and half a jump of 1: theta = 0.125, then 0.5 (cos 0.125, sin 0.125) = (0.49610, 0.06234).
    let mut robot = RllabPoint::default();
    robot.drive([0.5, 0.5], 7.0);
    assert_eq!(robot.theta, 0.125);
    assert!((robot.x - 0.49610).abs() < 1e-5 && (robot.y - 0.06234).abs() < 1e-5);
    // Actions are clipped before they are scaled.
    let mut robot = RllabPoint::default();
    robot.drive([9.0, -9.0], 7.0);
    assert_eq!(robot.theta, -0.25);
    assert!((robot.x.hypot(robot.y) - 1.0).abs() < 1e-12);
    // Twenty jumps lead to the wall.
    let mut robot = RllabPoint::default();
    (0..20).for_each(|_| robot.drive([1.0, 0.0], 7.0));
    assert_eq!((robot.x, robot.y), (7.0, 0.0));
}

#[test]
fn an_item_exactly_to_the_left_lights_the_last_bin() {
    let robot = RllabPoint::default();
    let [centre, _] = robot.centre_of_mass();
    let [apples, _] = point_gather::readings(&robot, &[apple(centre, 3.0)]);
    assert_eq!(apples, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5]);
    let [apples, _] = point_gather::readings(&robot, &[apple(centre, -3.0)]);
    assert_eq!(apples[0], 0.5);
    // Ahead is the boundary between bins 4 and 5; behind is dark.
    let [apples, _] = point_gather::readings(&robot, &[apple(centre + 3.0, 0.0), apple(centre - 1.0, 0.0)]);
    assert_eq!(apples, [0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn near_items_hide_far_ones_of_their_kind() {
    let robot = RllabPoint::default();
    let items = [apple(2.0, 0.1), apple(4.0, 0.1), Item { at: [5.0, 0.1], bomb: true }];
    let [apples, bombs] = point_gather::readings(&robot, &items);
    let nearest = distance(robot.centre_of_mass(), [2.0, 0.1]);
    assert_eq!(apples[5], 1.0 - nearest / 6.0);
    assert!(bombs[5] > 0.0 && bombs[5] < apples[5]);
}

#[test]
fn rewards_and_costs_follow_from_the_places() {
    let mut world = PointGather::default();
    let mut noise = Noise::new(3);
    let (mut apples, mut bombs) = (0, 0);
    for seed in 0..200 {
        reset(&mut world, seed);
        for i in 1..=100 {
            let before = world.items().to_vec();
            let result = step(&mut world, noise.action());
            let centre = world.robot().centre_of_mass();
            let (caught, left): (Vec<Item>, Vec<Item>) =
                before.into_iter().partition(|item| distance(item.at, centre) < 1.0);
            assert_eq!(world.items(), left);
            assert!(caught.len() <= 1);
            let bomb = caught.iter().filter(|item| item.bomb).count();
            let apple = caught.len() - bomb;
            assert_eq!((result.outcome.reward, result.costs[0]), (apple as f32 - bomb as f32, bomb as f32));
            assert_eq!((result.outcome.terminated, result.outcome.truncated), (left.is_empty(), i == 100));
            (apples, bombs) = (apples + apple, bombs + bomb);
        }
    }
    println!("random: {apples} apples and {bombs} bombs in 200 episodes");
    assert!(apples > 100 && bombs > 100, "{apples} {bombs}");
}

#[test]
fn the_last_item_ends_the_task() {
    let mut world = PointGather::default();
    let bomb = Item { at: [0.0, 2.0], bomb: true };
    world.place(RllabPoint::default(), &[apple(1.5, 0.0), bomb]);
    let first = step(&mut world, [1.0, 0.0]);
    assert_eq!((first.outcome.reward, first.outcome.terminated, first.costs[0]), (1.0, false, 0.0));
    // Back, and from the origin along the y axis: only the bomb is left.
    let facing_bomb = RllabPoint { theta: std::f64::consts::FRAC_PI_2, ..RllabPoint::default() };
    world.place(facing_bomb, &[bomb]);
    let last = step(&mut world, [1.0, 0.0]);
    assert_eq!((last.outcome.reward, last.costs[0]), (-1.0, 1.0));
    assert!(last.outcome.terminated && !last.outcome.truncated);
}

#[test]
fn the_observations_are_laid_out_as_documented() {
    let (mut full, mut compact) = (PointGather::new(GatherObs::Full), PointGather::new(GatherObs::Compact));
    let mut noise = Noise::new(5);
    reset(&mut full, 6);
    reset(&mut compact, 6);
    for _ in 0..30 {
        let action = noise.action();
        let (obs, small) = (step(&mut full, action).obs, step(&mut compact, action).obs);
        let RllabPoint { x, y, theta, velocity: [vx, vy, w] } = *full.robot();
        let [cx, cy] = full.robot().centre_of_mass();
        let (sin, cos) = theta.sin_cos();
        let readings = point_gather::readings(full.robot(), full.items()).concat();
        let head = [x, y, theta, vx, vy, w];
        let mut expected = head.to_vec();
        expected.extend([0.0; 10]);
        let [along, across] = [INERTIA_ALONG, INERTIA_ACROSS];
        expected.extend([along * cos * cos + across * sin * sin, along * sin * sin + across * cos * cos, across]);
        expected.extend([(along - across) * sin * cos, 0.0, 0.0, 0.0, 0.0, 0.0, MASS]);
        expected.extend([0.0; 6]);
        // The centre of mass moves with the body's velocity plus w times its offset, turned by a quarter.
        expected.extend([0.0, 0.0, w, vx - w * (cy - y), vy + w * (cx - x), 0.0]);
        expected.extend([0.0; 28]);
        expected.extend(&readings);
        let expected: Vec<f32> = expected.iter().map(|v| *v as f32).collect();
        assert_eq!(obs.len(), expected.len());
        assert!(obs.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6), "{obs:?}\n{expected:?}");
        let expected: Vec<f32> = [&head[..], &[cx, cy, 0.5], &readings].concat().iter().map(|v| *v as f32).collect();
        assert_eq!(small, expected);
    }
}

#[test]
fn the_constants_of_the_body_are_the_originals() {
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
    assert!((MASS - 56.35987755982989).abs() < 1e-12);
    assert!(close(INERTIA_ALONG, 5.262654) && close(INERTIA_ACROSS, 6.920454), "{INERTIA_ALONG} {INERTIA_ACROSS}");
}
