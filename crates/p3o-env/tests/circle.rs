//! PointCircle pays for running around the circle and charges for leaving the band.

use p3o_env::{CircleStart, Env, PointCircle};

use crate::util::{Noise, reset, step};

#[test]
fn rewards_and_costs_follow_from_the_places() {
    for start in [CircleStart::Origin, CircleStart::Circle] {
        let mut world = PointCircle::new(start);
        let mut noise = Noise::new(2);
        for seed in 0..200 {
            reset(&mut world, seed);
            for i in 1..=65 {
                let before = *world.robot();
                let action = if seed % 2 == 0 { noise.action() } else { chase(&world) };
                let result = step(&mut world, action);
                let now = *world.robot();
                let (dx, dy) = (now.x - before.x, now.y - before.y);
                let radius = now.x.hypot(now.y);
                let reward = (-dx * now.y + dy * now.x) / (1.0 + (radius - 15.0).abs());
                assert!((f64::from(result.outcome.reward) - reward).abs() < 1e-5);
                assert_eq!(result.costs[0], if now.x.abs() > 2.5 { 1.0 } else { 0.0 });
                assert_eq!((result.outcome.terminated, result.outcome.truncated), (false, i == 65));
                assert!((result.obs[0] - (now.x / 15.0) as f32).abs() < 1e-6);
                assert!((result.obs[1] - (now.y / 15.0) as f32).abs() < 1e-6);
                assert!((result.obs[2] - now.theta.cos() as f32).abs() < 1e-6);
                assert!((result.obs[3] - now.theta.sin() as f32).abs() < 1e-6);
                assert!((result.obs[4] - ((radius - 15.0) / 15.0) as f32).abs() < 1e-6);
            }
        }
    }
}

#[test]
fn a_lap_by_hand() {
    // From (15, 0) facing +y one full jump ends at (15, 1): reward (15 * 1) / (1 + sqrt(226) - 15) = 15 / 1.0333.
    let mut world = PointCircle::new(CircleStart::Circle);
    let seed = (0..).find(|&seed| {
        reset(&mut world, seed);
        world.robot().x > 14.99
    });
    reset(&mut world, seed.expect("some start lies there"));
    let (x, y) = (world.robot().x, world.robot().y);
    assert!((x.hypot(y) - 15.0).abs() < 0.06);
    // The robot faces +x within noise; six quarter turns of 0.25 rad without moving bring it to +y.
    let mut reward = 0.0;
    for turn in [1.0; 6] {
        reward += step(&mut world, [0.0, turn]).outcome.reward;
    }
    assert_eq!(reward, 0.0, "turning in place pays nothing");
    let result = step(&mut world, [1.0, 0.28]);
    assert!((14.0..15.5).contains(&result.outcome.reward), "{}", result.outcome.reward);
    assert_eq!(result.costs[0], 1.0);
}

/// Steers along the circle, or out to it, whatever it costs.
fn chase(world: &PointCircle) -> [f32; 2] {
    let robot = world.robot();
    let radius = robot.x.hypot(robot.y);
    let outward = ((15.0 - radius) / 3.0).clamp(-1.0, 1.0);
    let (ox, oy) = (robot.x / radius.max(1e-9), robot.y / radius.max(1e-9));
    let along = (1.0 - outward * outward).sqrt();
    let wanted = (outward * oy + along * ox).atan2(outward * ox - along * oy);
    let turn = (wanted - robot.theta + std::f64::consts::PI).rem_euclid(std::f64::consts::TAU) - std::f64::consts::PI;
    [1.0, (turn / 0.25).clamp(-1.0, 1.0) as f32]
}

/// Mean cost and return of an episode.
fn means(world: &mut PointCircle, episodes: u64, mut policy: impl FnMut(&PointCircle) -> [f32; 2]) -> [f64; 2] {
    let (mut cost, mut ret) = (0.0, 0.0);
    for seed in 0..episodes {
        reset(&mut *world, seed);
        for _ in 0..world.spec().horizon {
            let action = policy(world);
            let result = step(&mut *world, action);
            cost += f64::from(result.costs[0]);
            ret += f64::from(result.outcome.reward);
        }
    }
    [cost / episodes as f64, ret / episodes as f64]
}

#[test]
fn the_limit_binds_and_can_be_kept() {
    let mut world = PointCircle::default();
    let limit = world.spec().costs[0].limit;
    let mut noise = Noise::new(1);
    let [random_cost, random_return] = means(&mut world, 2000, |_| noise.action());
    let [chase_cost, chase_return] = means(&mut world, 200, chase);
    println!("random {random_cost} {random_return}; along the circle {chase_cost} {chase_return}");
    assert!(chase_cost > limit, "{chase_cost}");
    assert!(chase_return > 10.0 * random_return.abs());
    let [still_cost, still_return] = means(&mut world, 100, |_| [0.0, 0.0]);
    assert_eq!([still_cost, still_return], [0.0, 0.0]);
}
