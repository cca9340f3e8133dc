//! How far a cost is over its limit is measured in the units of its advantages.

use crate::util::{Given, Script, rng, small};
use p3o::algo::p3o::{Form, Measured, cost_term, estimate, offset, standardize, standardize_reward};
use p3o::config::{Sum, Team};
use p3o::{Learner, checkpoint};
use p3o_env::ActionSpace;
use rand::RngExt;

const FORMS: [Form; 5] = [Form::Literal, Form::Scaled, Form::PerStep, Form::Centred, Form::Raw];

fn near(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-9, "{actual} is not {expected}");
}

#[test]
fn every_form_has_a_word() {
    assert_eq!(FORMS.map(Form::word), Form::WORDS);
}

#[test]
fn estimates_by_hand() {
    // Episodes of 1000 steps that ended cost 35; the steps of this batch cost 0.03 each, so 30 in an episode.
    let cost = Measured { per_episode: 35.0, per_step: 0.03, length: 1000.0 };
    for (form, expected) in FORMS.into_iter().zip([35.0, 30.0, 30.0, 30.0, 35.0]) {
        near(estimate(form, &cost), expected);
    }
}

#[test]
fn offsets_by_hand() {
    // A cost of 35 over a limit of 25, episodes of 1000 steps, gamma 0.99: 0.01 (35 - 25) = 0.1 to the letter and
    // (35 - 25) / 1000 = 0.01 per step. The literal reading is ten times the other.
    for (form, expected) in FORMS.into_iter().zip([0.1, 0.1, 0.01, 0.01, 0.01]) {
        near(offset(form, 10.0, 1000.0, 0.99), expected);
    }
}

/// N agents each choose 1 with probability p, and a step costs as many as do: J = N p in episodes of one step. All move to q at
/// once. What the constraint is then, by the agents' mean surrogate over all joint choices; the ratio clips nowhere.
fn team_constraint(team: Team, n: usize, p: f64, q: f64, limit: f64) -> f64 {
    let mean: f64 = (0..1_u32 << n)
        .map(|choices| {
            let ones = f64::from(choices.count_ones());
            let likelihood = p.powf(ones) * (1.0 - p).powf(n as f64 - ones);
            let ratio = |agent: usize| if choices >> agent & 1 == 1 { q / p } else { (1.0 - q) / (1.0 - p) };
            let advantage = ones - n as f64 * p;
            let terms = (0..n).map(|agent| cost_term(ratio(agent), advantage, 10.0).0);
            likelihood * terms.sum::<f64>() / n as f64
        })
        .sum();
    mean + offset(Form::Raw, n as f64 * p - limit, 1.0, 0.99) / team.parts(n)
}

#[test]
fn a_team_is_at_its_limit_where_its_constraint_is_zero() {
    for (n, limit) in [(1, 0.3), (2, 0.9), (3, 1.2), (5, 2.0)] {
        let at_limit = limit / n as f64;
        // From above the limit and from below it.
        for p in [0.5, 0.1] {
            near(team_constraint(Team::Together, n, p, at_limit, limit), 0.0);
            // Alone each agent goes as far as would be right for it, and all together N times as far: J + N (d - J).
            let cost = n as f64 * p;
            let far = (cost + n as f64 * (limit - cost)) / n as f64;
            near(team_constraint(Team::Alone, n, p, far, limit), 0.0);
            assert_eq!((far - at_limit).abs() > 0.01, n > 1);
        }
    }
}

#[test]
fn every_form_is_zero_on_the_limit_and_has_the_sign_of_the_violation() {
    for form in FORMS {
        // Episodes of 4 steps that cost 1 each, gamma 0.5.
        let at = |limit: f64| {
            let cost = estimate(form, &Measured { per_episode: 4.0, per_step: 1.0, length: 4.0 });
            standardize(form, &mut [2.0, 6.0], offset(form, cost - limit, 4.0, 0.5))
        };
        near(at(4.0), 0.0);
        assert!(at(3.0) > 0.1 && at(5.0) < -0.1, "{form:?}: {} and {}", at(3.0), at(5.0));
    }
}

#[test]
fn scales_by_hand() {
    // Mean (2 + 6) / 2 = 4, deviation 2, offset 0.5. Standardised: -1 and 1.
    for (form, expected, after) in [
        (Form::Literal, 0.5, [-1.0, 1.0]),
        (Form::Scaled, 0.25, [-1.0, 1.0]),
        (Form::PerStep, 0.25, [-1.0, 1.0]),
        (Form::Centred, 0.5, [-2.0, 2.0]),
        (Form::Raw, 0.5, [-2.0, 2.0]),
    ] {
        let mut advantages = [2.0, 6.0];
        assert_eq!((standardize(form, &mut advantages, 0.5), advantages), (expected, after), "{form:?}");
        // The reward is standardised or left as it is.
        let mut advantages = [2.0, 6.0];
        standardize_reward(form, &mut advantages);
        assert_eq!(advantages, if form == Form::Raw { [2.0, 6.0] } else { [-1.0, 1.0] }, "{form:?}");
    }
}

#[test]
fn a_cost_that_never_varied_has_advantages_of_zero() {
    for form in [Form::Literal, Form::Scaled, Form::PerStep] {
        let mut advantages = [0.1; 7];
        assert!(standardize(form, &mut advantages, -0.5).is_finite());
        assert_eq!(advantages, [0.0; 7], "{form:?}");
    }
}

/// Random advantages of mean zero and random ratios of mean one.
fn batch(seed: u64) -> (Vec<f32>, Vec<f64>) {
    let mut rng = rng(seed);
    let half: Vec<f32> = (0..32).map(|_| rng.random_range(0.5f32..3.0)).collect();
    let signs = half.iter().flat_map(|&a| [a, -a]).collect();
    let ratios = (0..32).map(|_| rng.random_range(0.0..0.9)).flat_map(|r| [1.0 + r, 1.0 - r]).collect();
    (signs, ratios)
}

#[test]
fn dividing_the_whole_constraint_keeps_its_feasible_set() {
    let (mut over, mut under, mut moved) = (0, 0, 0);
    for seed in 0..200 {
        let (advantages, ratios) = batch(seed);
        let n = ratios.len() as f64;
        let mean = |a: &[f32]| a.iter().zip(&ratios).map(|(&a, &r)| cost_term(r, f64::from(a), 0.2).0).sum::<f64>() / n;
        let offset = (seed as f64 - 100.0) / 60.0;
        let raw = mean(&advantages) + offset;
        let deviation = (advantages.iter().map(|&a| f64::from(a).powi(2)).sum::<f64>() / n).sqrt();
        let constraint = |form: Form| {
            let mut scaled = advantages.clone();
            standardize(form, &mut scaled, offset) + mean(&scaled)
        };
        for form in [Form::Scaled, Form::PerStep] {
            let found = constraint(form);
            assert!((found - raw / deviation).abs() < 1e-6, "{found} is not {raw} / {deviation}");
            assert_eq!(found > 0.0, raw > 0.0);
        }
        // Advantages of mean zero stay as they are in the raw form; the literal one scales them and not the offset.
        assert!((constraint(Form::Raw) - raw).abs() < 1e-6);
        moved += usize::from((constraint(Form::Literal) > 0.0) != (raw > 0.0));
        *(if raw > 0.0 { &mut over } else { &mut under }) += 1;
    }
    assert!(over > 20 && under > 20, "{over} over and {under} under");
    assert!(moved > 0, "the literal form has another feasible set");
}

#[test]
fn the_rewards_advantage_is_standardised_or_left_as_it_is() {
    // Every episode is one step with the reward 3, so every advantage is 3 - V. Standardised they are all zero; as they are,
    // L_R at the first pass is V - 3, whose square is the critic's loss.
    let world = Script::new(ActionSpace::Discrete { n: 2 }, &[], 5, vec![1.0], |_, _| Given {
        obs: vec![1.0],
        reward: 3.0,
        costs: Vec::new(),
        terminated: true,
        truncated: false,
    });
    let first = |form: &str| {
        let config = small("p3o", &world.spec, &["policy.passes=1", &format!("constraint.form={form}")]);
        Learner::new(config, &world.maker()).unwrap().update().unwrap()
    };
    for form in ["literal", "scaled", "per_step"] {
        assert_eq!(first(form).passes.loss_r, 0.0, "{form}");
    }
    let report = first("raw");
    let (loss_r, distance) = (report.passes.loss_r, report.critic_losses[0].sqrt());
    assert!(loss_r < -0.1 && (loss_r + distance).abs() < 1e-5, "{loss_r} {distance}");
}

/// Episodes of ten steps of which the third, sixth and ninth cost 1.
fn every_third() -> Script {
    Script::new(ActionSpace::Discrete { n: 2 }, &["risk"], 10, vec![0.0], |t, _| Given {
        obs: vec![t as f32 / 10.0],
        reward: 0.0,
        costs: vec![f32::from(u8::from(t % 3 == 0))],
        terminated: false,
        truncated: t == 10,
    })
}

#[test]
fn a_discounted_sum_is_held_against_the_limit() {
    // With gamma 0.5 an episode comes to 0.5^2 + 0.5^5 + 0.5^8, and its steps count (1 - 0.5^10) / 0.5 together.
    let (sum, weight) = (0.25 + 0.03125 + 0.00390625, 1.998_046_875);
    near(Sum::Discounted.weight(10.0, 0.5), weight);
    near(Sum::Discounted.weight(10.0, 0.999), (0..10).map(|t| 0.999_f64.powi(t)).sum());
    near(Sum::Episode.weight(10.0, 0.5), 10.0);
    let world = every_third();
    // Two environments make 25 steps per batch: every second episode goes on in the next one.
    let settings = ["rollout.envs=2", "rollout.batch=50", "rollout.cost_gamma=0.5", "constraint.margin=0"];
    for (form, offset) in [("literal", 0.5 * (sum - 0.25)), ("raw", (sum - 0.25) / weight)] {
        let form = format!("constraint.form={form}");
        let own = ["constraint.sum=discounted", "limits.risk=0.25", &form];
        let config = small("p3o", &world.spec, &[&settings[..], &own].concat());
        let mut learner = Learner::new(config, &world.maker()).unwrap();
        for _ in 0..4 {
            let report = learner.update().unwrap();
            assert!(report.episodes > 0);
            near(report.discounted[0], sum);
            near(report.costs[0], 3.0);
            near(report.excess[0], sum - 0.25);
            near(report.offsets[0], offset);
        }
    }
    // Before an episode has ended, the batch's cost per step stands in: 1 of 4 steps, which count 1.998.
    let short = ["rollout.envs=1", "rollout.batch=4", "rollout.cost_gamma=0.5", "constraint.margin=0"];
    let config = small("p3o", &world.spec, &[&short[..], &["constraint.sum=discounted", "limits.risk=0.25"]].concat());
    let report = Learner::new(config, &world.maker()).unwrap().update().unwrap();
    assert_eq!(report.episodes, 0);
    near(report.excess[0], weight / 4.0 - 0.25);
}

#[test]
fn a_learner_keeps_the_sum_that_it_began_with() {
    let world = every_third();
    let learner = |sum: &str| {
        let settings = ["rollout.envs=2", "rollout.batch=50", &format!("constraint.sum={sum}")];
        Learner::new(small("p3o", &world.spec, &settings), &world.maker()).unwrap()
    };
    let home = tempfile::tempdir().unwrap();
    for (saved, other) in [("episode", "discounted"), ("discounted", "episode")] {
        let path = home.path().join(saved);
        let mut first = learner(saved);
        first.update().unwrap();
        checkpoint::save(&mut first, &path).unwrap();
        let line = checkpoint::load(&mut learner(other), &path).unwrap_err().to_string();
        assert!(line.ends_with(&format!("its constraint.sum is {saved}, not {other}")), "{line}");
        assert!(checkpoint::load(&mut learner(saved), &path).unwrap());
        let changed = first.retune(|config| config.constraint.sum = Sum::of(other).unwrap());
        assert!(changed.unwrap_err().to_string().contains("constraint.sum"));
    }
}
