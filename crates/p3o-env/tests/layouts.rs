//! Every episode starts with room around everything and no cost.

use crate::util::{Visible, all_worlds, distance, reset, step};

/// Keepouts of robot, goal, hazards, pillars and vases in the original's tasks.
const ROBOT: f64 = 0.4;
const GOAL: f64 = 0.305;
const HAZARD: f64 = 0.18;
const PILLAR: f64 = 0.3;
const VASE: f64 = 0.15;

/// All places in a scene with their keepouts.
pub fn places(world: &dyn Visible) -> Vec<([f64; 2], f64)> {
    let scene = world.view();
    let [x, y, _] = scene.robot;
    let mut all = vec![([x, y], ROBOT), (scene.goal, GOAL)];
    for (group, keepout) in [(scene.hazards, HAZARD), (scene.pillars, PILLAR), (scene.vases, VASE)] {
        all.extend(group.iter().map(|place| (*place, keepout)));
    }
    all
}

fn check_keepouts(world: &dyn Visible, seed: u64) {
    let all = places(world);
    for (i, (a, keep_a)) in all.iter().enumerate() {
        for (b, keep_b) in &all[..i] {
            assert!(distance(*a, *b) >= keep_a + keep_b - 1e-12, "{} seed {seed}", world.spec().name);
        }
    }
}

#[test]
fn keepouts_hold_in_ten_thousand_layouts() {
    for mut world in all_worlds() {
        for seed in 0..10_000 {
            reset(&mut *world, seed);
            check_keepouts(&*world, seed);
        }
    }
}

#[test]
fn no_episode_starts_with_a_cost() {
    for mut world in all_worlds() {
        for seed in 0..10_000 {
            reset(&mut *world, seed);
            assert!(world.view().firing.iter().all(|fires| !fires));
            // From rest the robot moves less than a millimetre in one step.
            let first = step(&mut *world, [1.0, 1.0]);
            assert!(first.costs.iter().all(|cost| *cost == 0.0), "{} seed {seed}", world.spec().name);
        }
    }
}

#[test]
fn objects_stay_in_their_areas() {
    for mut world in all_worlds() {
        // The arena, and how far out pillars stand.
        let (level_extents, outer) = match (world.view().hazards.len(), world.view().pillars.len()) {
            (0, _) => (1.0, 0.0),
            (8, 0) => (1.5, 0.0),
            (10, _) => (2.0, 0.0),
            (_, 6) => (2.2, 2.2),
            _ => (2.6, 1.9),
        };
        let navigation = world.spec().name == "Navigation";
        let reach = |at: [f64; 2]| at[0].abs().max(at[1].abs());
        let mut farthest: f64 = 0.0;
        for seed in 0..2000 {
            reset(&mut *world, seed);
            let scene = world.view();
            for (place, keepout) in places(&*world) {
                assert!(reach(place) <= level_extents - keepout);
            }
            farthest = farthest.max(reach(scene.goal));
            if navigation {
                assert!(reach([scene.robot[0], scene.robot[1]]) <= 0.8 - ROBOT);
                assert!(scene.hazards.iter().all(|h| reach(*h) <= 1.2 - HAZARD));
                let ring = 1.2 + PILLAR..=outer - PILLAR;
                assert!(scene.pillars.iter().all(|p| ring.contains(&reach(*p))));
            }
        }
        assert!(farthest > level_extents - GOAL - 0.01, "goals use the whole arena");
    }
}

#[test]
fn the_ring_of_pillars_is_uniform() {
    // Shrunk by 0.3 the strips measure 3.8 x 0.4 above and below and 0.4 x 1.8 at the sides: 1.52 of 4.48 are above.
    // Six pillars that avoid each other fill the ring a little more evenly; 0.02 is four standard errors.
    let mut world = p3o_env::Navigation::with_pillars(p3o_env::Pillars::Scattered);
    let (mut above, mut all) = (0.0, 0.0);
    for seed in 0..2000 {
        reset(&mut world, seed);
        let pillars = world.view().pillars;
        above += pillars.iter().filter(|p| p[1] >= 1.5).count() as f64;
        all += pillars.len() as f64;
    }
    let share: f64 = above / all;
    assert!((share - 1.52 / 4.48).abs() < 0.02, "{share}");
}
