//! A world's scene shows its state: the same places and sizes, and alarms where a step cost.

use p3o_env::physics::ant::AntState;
use p3o_env::{
    ActionSpace, AntCircle, Env, Form, GoalLevel, Joint, MultiAgentEnv, Navigation, PointCircle, PointGather,
    PointGoal, Role, Scene, SimpleSpread, SpreadSemantics, TASKS, tasks,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::ant_textbook;
use crate::util::{Noise, Visible, all_worlds, distance, frozen, reset, step, step_by, towards, towards_goal};

fn seen(env: &dyn Env) -> Scene {
    let mut scene = Scene::default();
    env.draw(&mut scene);
    scene
}

fn discs(scene: &Scene, wanted: Role) -> Vec<([f64; 2], f64)> {
    let of_role = scene.shapes.iter().filter(|shape| shape.role == wanted);
    of_role
        .filter_map(|shape| match shape.form {
            Form::Disc { centre, radius } => Some((centre, radius)),
            _ => None,
        })
        .collect()
}

fn blocks(scene: &Scene, wanted: Role) -> Vec<([f64; 2], [f64; 2], f64)> {
    let of_role = scene.shapes.iter().filter(|shape| shape.role == wanted);
    of_role
        .filter_map(|shape| match shape.form {
            Form::Block { centre, half, angle } => Some((centre, half, angle)),
            _ => None,
        })
        .collect()
}

fn alarms(scene: &Scene, role: Role) -> usize {
    scene.shapes.iter().filter(|shape| shape.role == role && shape.alarm).count()
}

fn all_at(places: &[[f64; 2]], radius: f64) -> Vec<([f64; 2], f64)> {
    places.iter().map(|place| (*place, radius)).collect()
}

#[test]
fn arenas_show_their_robot_goal_and_obstacles() {
    for mut world in all_worlds() {
        for seed in 0..3 {
            reset(&mut *world, seed);
            for _ in 0..30 {
                let action = towards_goal(&world.view());
                step(&mut *world, action);
                let (scene, view) = (seen(&*world), world.view());
                let [x, y, theta] = view.robot;
                assert_eq!(scene.agents, [[x, y]]);
                assert_eq!(discs(&scene, Role::Agent), [([x, y], 0.1)]);
                let arrow = [x + 0.1 * libm::cos(theta), y + 0.1 * libm::sin(theta)];
                assert_eq!(blocks(&scene, Role::Agent), [(arrow, [0.05; 2], theta)]);
                assert_eq!(discs(&scene, Role::Goal), [(view.goal, 0.3)]);
                assert_eq!(discs(&scene, Role::Hazard), all_at(view.hazards, 0.2));
                assert_eq!(discs(&scene, Role::Pillar), all_at(view.pillars, 0.2));
                let vases: Vec<_> = view.vases.iter().map(|at| (*at, [0.1; 2])).collect();
                let shown: Vec<_> = blocks(&scene, Role::Vase).iter().map(|(at, half, _)| (*at, *half)).collect();
                assert_eq!(shown, vases);
            }
        }
    }
}

/// Drives at an obstacle of this role, so that costs occur, and compares alarms with what each step wrote as cost
/// number `cost`.
fn check_arena_alarms(mut world: impl Visible, role: Role, cost: usize) {
    let mut fired = 0;
    for seed in 0..4 {
        reset(&mut world, seed);
        assert!(seen(&world).shapes.iter().all(|shape| !shape.alarm));
        for i in 0..900 {
            let view = world.view();
            let targets = match role {
                Role::Hazard => view.hazards,
                Role::Pillar => view.pillars,
                _ => view.vases,
            };
            let action = towards(&view, targets[i / 300]);
            let costs = step(&mut world, action).costs;
            let count = alarms(&seen(&world), role);
            assert_eq!(count > 0, costs[cost] > 0.0, "{role:?}");
            fired += count;
        }
    }
    assert!(fired > 0, "{role:?}: nothing was tested");
}

#[test]
fn obstacles_raise_an_alarm_exactly_when_they_cost() {
    check_arena_alarms(PointGoal::default(), Role::Hazard, 0);
    check_arena_alarms(PointGoal::new(GoalLevel::Two), Role::Hazard, 0);
    check_arena_alarms(PointGoal::new(GoalLevel::Two), Role::Vase, 1);
    check_arena_alarms(Navigation::new(), Role::Hazard, 0);
    check_arena_alarms(Navigation::new(), Role::Pillar, 1);
}

#[test]
fn the_ant_shows_the_bodies_of_the_textbook() {
    let mut world = AntCircle::default();
    for seed in 0..4 {
        reset(&mut world, seed);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..40 {
            let action: Vec<f32> = (0..8).map(|_| rng.random_range(-1.0..1.0)).collect();
            step_by(&mut world, &action);
            let scene = seen(&world);
            let ant: &AntState = world.ant();
            assert_eq!(discs(&scene, Role::Agent), [([ant.qpos[0], ant.qpos[1]], 0.25)]);
            let limbs: Vec<_> = scene.shapes.iter().filter(|shape| shape.role == Role::Limb).collect();
            // The torso comes first; of each leg follow the fixed part, the thigh and the shin.
            let bodies = ant_textbook::bodies(ant);
            assert_eq!((limbs.len(), bodies.len()), (12, 13));
            for (limb, body) in limbs.iter().zip(&bodies[1..]) {
                let Form::Line { ends: [from, to], radius } = limb.form else { panic!("{limb:?}") };
                let [near, far] = body.ends();
                assert_eq!(radius, 0.08);
                assert!(distance(from, [near[0], near[1]]) < 1e-12 && distance(to, [far[0], far[1]]) < 1e-12);
            }
        }
    }
}

#[test]
fn limit_lines_raise_an_alarm_on_the_side_that_costs() {
    let lines = |scene: &Scene| -> Vec<(f64, bool)> {
        let limits = scene.shapes.iter().filter(|shape| shape.role == Role::Limit);
        limits
            .map(|shape| match shape.form {
                Form::Line { ends: [[x, low], [end, high]], .. } if x == end && low < -10.0 && high > 10.0 => {
                    (x, shape.alarm)
                }
                other => panic!("{other:?}"),
            })
            .collect()
    };
    let one_wall = AntCircle::default().with_one_wall();
    let worlds: [(Box<dyn Env>, &[f64], f64); 3] = [
        (Box::new(AntCircle::default()), &[-3.0, 3.0], 10.0),
        (Box::new(one_wall), &[3.0], 10.0),
        (Box::new(PointCircle::default()), &[-2.5, 2.5], 15.0),
    ];
    for (mut world, walls, radius) in worlds {
        let mut costly = 0;
        let action = vec![0.6; world.spec().action.width()];
        for seed in 0..12 {
            reset(&mut *world, seed);
            assert!(lines(&seen(&*world)).iter().all(|(_, alarm)| !alarm));
            for _ in 0..20 {
                let last = step_by(&mut *world, &action);
                let scene = seen(&*world);
                let cost = last.costs[0] > 0.0;
                costly += usize::from(cost);
                let found: Vec<f64> = lines(&scene).iter().map(|(x, _)| *x).collect();
                assert_eq!(found, walls);
                for (x, alarm) in lines(&scene) {
                    assert_eq!(alarm, cost && scene.agents[0][0].signum() == x.signum());
                }
                let track = Form::Ring { centre: [0.0; 2], radius };
                assert!(scene.shapes.iter().any(|shape| shape.role == Role::Track && shape.form == track));
                if last.outcome.terminated {
                    break;
                }
            }
        }
        assert!(costly > 0, "nothing was tested");
    }
}

#[test]
fn gathered_items_leave_the_scene() {
    let mut world = PointGather::default();
    let mut noise = Noise::new(0);
    reset(&mut world, 1);
    for _ in 0..100 {
        step(&mut world, noise.action());
        let scene = seen(&world);
        for (role, bomb) in [(Role::Apple, false), (Role::Bomb, true)] {
            let left: Vec<_> = world.items().iter().filter(|item| item.bomb == bomb).map(|item| item.at).collect();
            let shown: Vec<_> = discs(&scene, role).into_iter().map(|(at, _)| at).collect();
            assert_eq!(shown, left);
        }
        assert_eq!(scene.agents, [[world.robot().x, world.robot().y]]);
    }
    assert!(world.items().len() < 16, "nothing was gathered");
}

#[test]
fn colliding_agents_raise_an_alarm_also_as_one() {
    let mut world = Joint::new(SimpleSpread::new(3, SpreadSemantics::default()));
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut costly = 0;
    for seed in 0..40 {
        reset(&mut world, seed);
        assert_eq!(alarms(&seen(&world), Role::Agent), 0);
        for _ in 0..25 {
            let cost = step_by(&mut world, &[(); 3].map(|()| rng.random_range(0..5) as f32)).costs[0];
            let (scene, inside) = (seen(&world), world.world());
            let places = &inside.particles().positions;
            assert_eq!(&scene.agents, places);
            assert_eq!(discs(&scene, Role::Agent), all_at(places, 0.15));
            assert_eq!(discs(&scene, Role::Landmark), all_at(inside.landmarks(), 0.05));
            let collide = |i: usize| (0..inside.agents()).any(|j| j != i && distance(places[i], places[j]) < 0.3);
            let of_agents = scene.shapes.iter().filter(|shape| shape.role == Role::Agent);
            of_agents.enumerate().for_each(|(i, shape)| assert_eq!(shape.alarm, collide(i)));
            assert_eq!(alarms(&scene, Role::Agent) > 0, cost > 0.0);
            costly += usize::from(cost > 0.0);
        }
    }
    assert!(costly > 0, "nothing was tested");
}

#[test]
fn every_task_has_a_picture_that_its_snapshot_keeps() {
    for task in TASKS {
        let make = || tasks::make(task.name, &Default::default()).expect("a listed task");
        let (mut world, mut copy) = (make(), make());
        reset(&mut *world, 5);
        let start = seen(&*world);
        for _ in 0..10 {
            let action = match &world.spec().action {
                ActionSpace::Continuous { dim } => vec![0.4; *dim],
                discrete => vec![1.0; discrete.width()],
            };
            step_by(&mut *world, &action);
        }
        let scene = seen(&*world);
        assert!(!scene.agents.is_empty() && scene.agents != start.agents, "{}", task.name);
        for place in &start.agents {
            let inside = (0..2).all(|i| (start.bounds.min[i]..=start.bounds.max[i]).contains(&place[i]));
            assert!(inside, "{}: {place:?}", task.name);
        }
        copy.restore(&frozen(&*world)).expect("a snapshot of the same task");
        assert_eq!(seen(&*copy), scene, "{}", task.name);
    }
}

#[test]
fn a_world_that_draws_nothing_has_an_empty_scene() {
    struct Plain(PointCircle);
    impl Env for Plain {
        fn spec(&self) -> &p3o_env::EnvSpec {
            self.0.spec()
        }
        fn reset(&mut self, seed: u64, obs: &mut [f32]) {
            self.0.reset(seed, obs);
        }
        fn step(&mut self, action: &[f32], obs: &mut [f32], costs: &mut [f32]) -> p3o_env::Outcome {
            self.0.step(action, obs, costs)
        }
    }
    assert_eq!(seen(&Plain(PointCircle::default())), Scene::default());
}
