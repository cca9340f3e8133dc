//! The Ant's circle pays and costs what the task says, ends when it should, and repeats itself bit for bit.

use p3o_env::physics::ant::AntState;
use p3o_env::{ActionSpace, AntCircle, CircleStart, Env, snapshot, tasks};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::util::{bits, frozen, reset};

/// Gaussian noise of standard deviation e^-0.5, where training starts.
fn noise(rng: &mut ChaCha8Rng) -> [f32; 8] {
    let sigma = (-0.5f32).exp();
    [(); 8].map(|()| {
        let z: f32 = StandardNormal.sample(rng);
        sigma * z
    })
}

struct Step {
    obs: Vec<f32>,
    cost: f32,
    reward: f32,
    terminated: bool,
    truncated: bool,
}

fn step(world: &mut dyn Env, action: [f32; 8]) -> Step {
    let mut obs = vec![f32::NAN; world.spec().obs_dim];
    let mut cost = [f32::NAN];
    let outcome = world.step(&action, &mut obs, &mut cost);
    Step { obs, cost: cost[0], reward: outcome.reward, terminated: outcome.terminated, truncated: outcome.truncated }
}

/// A snapshot of a world in this state, its fields in their order.
fn sealed(ant: AntState) -> Vec<u8> {
    snapshot::seal("AntCircle", &(ant, [ant.qpos[0], ant.qpos[1]], 0u64))
}

#[test]
fn sizes_and_costs_are_the_papers() {
    let world = AntCircle::default();
    let spec = world.spec();
    assert_eq!((spec.obs_dim, spec.action.clone(), spec.horizon), (113, ActionSpace::Continuous { dim: 8 }, 1000));
    assert_eq!(spec.costs.len(), 1);
    assert_eq!((&spec.costs[0].name[..], spec.costs[0].limit), ("boundary", 50.0));
}

#[test]
fn options_reach_the_world() {
    let make = |name: &str, value: f64| {
        tasks::make("AntCircle", &[(name.to_owned(), value)].into()).expect("an option of the Ant")
    };
    let mut short = make("obs", 29.0);
    assert_eq!(short.spec().obs_dim, 29);
    let long = reset(&mut AntCircle::default(), 4);
    assert_eq!(bits(&reset(&mut *short, 4)), bits(&long[..29]));
    assert!(long[29..].iter().all(|v| *v == 0.0) && long.len() == 113);
    let origin = reset(&mut *make("start", 1.0), 4);
    assert!(origin[0].abs() <= 0.1 && origin[1].abs() <= 0.1);
    assert_eq!(origin[2..], long[2..]);
    assert!((long[0].hypot(long[1]) - 10.0).abs() < 1e-5);
    for (x, both, one) in [(-5.0, 1.0, 0.0), (5.0, 1.0, 1.0), (0.0, 0.0, 0.0)] {
        let mut ant = AntState::default();
        ant.qpos[0] = x;
        for (mut world, expected) in [(make("one_sided", 0.0), both), (make("one_sided", 1.0), one)] {
            world.restore(&sealed(ant)).expect("a state of this world");
            assert_eq!(step(&mut *world, [0.0; 8]).cost, expected);
        }
    }
}

#[test]
fn an_episode_starts_near_the_reference_pose() {
    let mut world = AntCircle::default();
    let mut spread = 0.0;
    for seed in 0..500 {
        reset(&mut world, seed);
        let AntState { qpos, qvel } = world.ant();
        let pose = AntState::default().qpos;
        assert!(qpos.iter().zip(&pose).skip(2).all(|(q, p)| (q - p).abs() <= 0.1));
        assert!((qpos[0].hypot(qpos[1]) - 10.0).abs() < 1e-12);
        spread += qvel.iter().map(|v| v * v).sum::<f64>() / (14.0 * 500.0);
    }
    // The mean of 7000 squares of deviation 0.1: 0.01 with a standard error of 0.00017.
    assert!((spread - 0.01).abs() < 0.001, "{spread}");
}

#[test]
fn reward_and_cost_follow_from_the_place() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut world = AntCircle::default();
    let mut seen = [0; 2];
    for seed in 0..20 {
        reset(&mut world, seed);
        loop {
            let [x0, y0] = world.place();
            let last = step(&mut world, noise(&mut rng));
            let [x, y] = world.place();
            let (vx, vy) = ((x - x0) / 0.05, (y - y0) / 0.05);
            let reward = (-vx * y + vy * x) / (1.0 + (x.hypot(y) - 10.0).abs());
            assert!((f64::from(last.reward) - reward).abs() < 1e-5 * (1.0 + reward.abs()));
            assert_eq!(last.cost == 1.0, x.abs() > 3.0);
            seen[usize::from(last.cost == 1.0)] += 1;
            let ant = world.ant();
            // The place is that of the integrator's last evaluation, within millimetres of the final one.
            assert!((x - ant.qpos[0]).abs() < 0.01 && (y - ant.qpos[1]).abs() < 0.01);
            let raw: Vec<f32> = ant.qpos.iter().chain(&ant.qvel).map(|v| *v as f32).collect();
            assert_eq!(last.obs[..29], raw);
            assert_eq!(last.terminated, !(0.2..=1.0).contains(&ant.qpos[2]));
            if last.terminated || last.truncated {
                break;
            }
        }
    }
    assert!(seen[0] > 100 && seen[1] > 100, "{seen:?}");
}

#[test]
fn a_torso_too_high_or_too_low_ends_the_episode() {
    // One step later: falling from above, resting, leaping, and pressed into the ground by a hard landing.
    let mut seen = [false; 3];
    for (height, speed) in [(1.5, 0.0), (0.75, 0.0), (0.75, 10.0), (0.5, -20.0), (0.5, -40.0), (0.5, -80.0)] {
        let mut ant = AntState::default();
        (ant.qpos[2], ant.qvel[2]) = (height, speed);
        let mut world = AntCircle::default();
        world.restore(&sealed(ant)).expect("a state of this world");
        let last = step(&mut world, [0.0; 8]);
        let z = world.ant().qpos[2];
        let place = usize::from(z >= 0.2) + usize::from(z > 1.0);
        seen[place] = true;
        assert_eq!((last.terminated, last.truncated), (place != 1, false), "{height} became {z}");
    }
    assert_eq!(seen, [true; 3]);
}

#[test]
fn a_resting_ant_lives_until_the_time_limit() {
    let mut world = AntCircle::default();
    for seed in 0..5 {
        reset(&mut world, seed);
        for i in 1..=1000 {
            let last = step(&mut world, [0.0; 8]);
            assert_eq!((last.terminated, last.truncated), (false, i == 1000), "step {i}");
        }
        assert!(world.ant().qvel.iter().all(|v| v.abs() < 0.05), "it has come to rest: {:?}", world.ant());
    }
}

#[test]
fn an_action_that_is_no_number_shows_and_ends_the_episode() {
    let mut world = AntCircle::default();
    for i in 0..8 {
        reset(&mut world, 3);
        let mut action = [0.0; 8];
        action[i] = f32::NAN;
        let last = step(&mut world, action);
        assert!(last.terminated && !last.truncated);
        assert!(last.reward.is_nan() && last.obs.iter().any(|v| v.is_nan()));
        assert_eq!(last.cost, 0.0);
        assert!(reset(&mut world, 4).iter().all(|v| v.is_finite()));
    }
}

#[test]
fn actions_are_clipped() {
    let mut world = AntCircle::default();
    let [far, near] = [f32::INFINITY, 1.0].map(|a| {
        reset(&mut world, 3);
        bits(&step(&mut world, [a, -a, a, a, -a, a, -a, -a]).obs)
    });
    assert_eq!(far, near);
}

#[test]
fn extreme_actions_keep_every_number_finite() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut world = AntCircle::default();
    let mut seed = 0;
    reset(&mut world, seed);
    for i in 0..20_000 {
        let last = step(&mut world, noise(&mut rng).map(|a| a.signum() * 1e6));
        assert!(last.reward.is_finite() && last.obs.iter().all(|v| v.is_finite()), "step {i}");
        if last.terminated || last.truncated {
            seed += 1;
            reset(&mut world, seed);
        }
    }
}

#[test]
fn it_continues_from_any_snapshot_bit_for_bit() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut world = AntCircle::default();
    let mut copy = AntCircle::default();
    reset(&mut world, 21);
    for _ in 0..60 {
        let bytes = frozen(&world);
        copy.restore(&bytes).expect("the same kind of world");
        assert_eq!(frozen(&copy), bytes);
        let action = noise(&mut rng);
        let [a, b] = [&mut world, &mut copy].map(|w| step(w, action));
        assert_eq!((bits(&a.obs), a.reward.to_bits(), a.cost), (bits(&b.obs), b.reward.to_bits(), b.cost));
        assert_eq!(world.snapshot(), copy.snapshot());
    }
    assert!(world.restore(&frozen(&p3o_env::Navigation::new())).is_err());
}

#[test]
fn an_episode_depends_on_its_seed_alone() {
    let run = |world: &mut AntCircle, seed: u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let mut trace = bits(&reset(world, seed));
        for _ in 0..100 {
            let last = step(world, noise(&mut rng));
            trace.extend(bits(&last.obs));
            trace.push(last.reward.to_bits());
        }
        trace
    };
    let mut world = AntCircle::default();
    let first = run(&mut world, 11);
    assert!(run(&mut world, 12) != first);
    assert!(run(&mut world, 11) == first);
    assert!(run(&mut AntCircle::default(), 11) == first);
}

/// Mean length, cost and return of episodes under noise.
fn random_policy(start: CircleStart, episodes: u64) -> [f64; 3] {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut world = AntCircle::new(start);
    let mut sums = [0.0; 3];
    for seed in 0..episodes {
        reset(&mut world, seed);
        loop {
            let last = step(&mut world, noise(&mut rng));
            for (sum, value) in sums.iter_mut().zip([1.0, last.cost, last.reward]) {
                *sum += f64::from(value) / episodes as f64;
            }
            if last.terminated || last.truncated {
                break;
            }
        }
    }
    sums
}

#[test]
fn a_random_ant_falls_early_and_outside_the_band() {
    // Over 3000 episodes: length 194, cost 159, return 3, with standard deviations of 292, 274 and 184 per episode. The
    // original's 60 episodes gave 163, 114 and -42, which is within two of their standard errors.
    let [length, cost, ret] = random_policy(CircleStart::Circle, 150);
    assert!((100.0..290.0).contains(&length) && (75.0..245.0).contains(&cost), "{length} {cost}");
    assert!(ret.abs() < 60.0, "{ret}");
    // Over 1000 episodes: length 186, cost 6.6 with a standard deviation of 49, return 0.7 with 13.
    let [length, cost, ret] = random_policy(CircleStart::Origin, 150);
    assert!((100.0..290.0).contains(&length) && cost < 22.0 && ret.abs() < 5.0, "{length} {cost} {ret}");
}

#[test]
fn four_starts_out_of_five_are_outside_the_band() {
    let mut world = AntCircle::default();
    let outside = (0..2000).filter(|seed| reset(&mut world, *seed)[0].abs() > 3.0).count();
    // 1 - (2 / pi) asin 0.3 = 0.806, with a standard error of 0.009.
    assert!((0.775..0.837).contains(&(outside as f64 / 2000.0)), "{outside}");
}
