//! Over mini-batches the questions about the whole batch stay questions about the whole batch.

use crate::problem::{Head, Problem, first_gradient};
use crate::recurrence::waves;
use crate::util::{float_bits, small};
use p3o::algo::multiplier::Multiplier;
use p3o::algo::{Order, Passes};
use p3o::config::{Agents, Decay};
use p3o::{Algorithm, Config, Learner, Method};

/// A batch collected by the present policy, whose cost advantages are `most` but for one row, which has `odd`.
fn uneven(rows: usize, most: f64, odd: f64, offset: f64) -> Problem {
    let mut problem = Problem::new(Head::Gaussian, rows, 1, 21).at_home();
    problem.adv_c = vec![vec![most; rows]];
    problem.adv_c[0][rows / 2] = odd;
    problem.offsets = vec![offset];
    problem
}

fn train(problem: &Problem, changes: &[&str]) -> (Passes, Vec<u32>) {
    let mut bench = problem.bench();
    let report = bench.update(&problem.config("p3o", &[&["policy.learning_rate=1e-5"], changes].concat()));
    (report, bench.bits())
}

#[test]
fn a_mini_batch_of_the_other_sign_does_not_decide_the_gate() {
    let changes = ["policy.minibatch=2", "policy.passes=5"];
    // Over the limit: (7 - 2) / 8 = 0.625; the mini-batch with the odd row alone is under: (1 - 2) / 2 = -0.5. Under it:
    // the same with other signs. The last four mini-batches may have the odd row twice, old and new: (1 + 1 - 0.5 - 0.5)
    // / 4 = 0.25 is still over. The steps are tiny, so all ratios stay at one.
    // An offset of +-10 leaves every estimate on one side and does not enter the gradient.
    for (most, odd, sure) in [(1.0, -2.0, 10.0), (-1.0, 2.0, -10.0)] {
        let (report, after) = train(&uneven(8, most, odd, 0.0), &changes);
        assert_eq!(after, train(&uneven(8, most, odd, sure), &changes).1, "advantages {most} and {odd}");
        assert_ne!(after, train(&uneven(8, most, odd, -sure), &changes).1, "advantages {most} and {odd}");
        assert_eq!(report.penalized, [if sure > 0.0 { 1.0 } else { 0.0 }]);
    }
}

#[test]
fn a_short_last_mini_batch_weighs_as_much_as_its_rows() {
    // Parts of 4 rows and of 1. The batch is under its limit: (-4 + 1.25) / 5 = -0.55. When the odd row is the short
    // part, the parts' means are -1 and 1.25, and their plain mean, 0.125, would call it over. Should a new part 0 have the
    // odd row as well, the estimate is (-3 + 1.25 + 1.25) / 5 = -0.1: still under.
    let changes = ["policy.minibatch=4", "policy.passes=30"];
    let (report, after) = train(&uneven(5, -1.0, 1.25, 0.0), &changes);
    assert_eq!(after, train(&uneven(5, -1.0, 1.25, -10.0), &changes).1);
    assert_ne!(after, train(&uneven(5, -1.0, 1.25, 10.0), &changes).1);
    assert_eq!(report.steps, 60);
    // At ratio one, L_C is the mean advantage over the rows.
    assert!((report.loss_c[0] + 0.55).abs() < 1e-3, "{}", report.loss_c[0]);
}

#[test]
fn the_trust_region_is_asked_once_per_pass() {
    // Any KL above zero ends the passes, but only after all four parts of the first.
    let report = train(&uneven(8, 1.0, 2.0, 0.0), &["policy.minibatch=2", "policy.passes=5", "policy.target_kl=0"]).0;
    assert!(report.kl > 0.0);
    assert_eq!(report.steps, 4);
}

#[test]
fn a_growing_kappa_grows_once_per_pass() {
    // 1, 2, min(4, 3) = 3.
    let growth = ["p3o.kappa=1", "p3o.kappa_growth=2", "p3o.kappa_max=3"];
    for (passes, kappa) in [(1, 1.0), (2, 2.0), (3, 3.0)] {
        let passes = format!("policy.passes={passes}");
        let report = train(&uneven(8, 1.0, 2.0, 0.0), &[&growth[..], &["policy.minibatch=2", &passes]].concat()).0;
        assert_eq!(report.kappa, kappa);
    }
}

#[test]
fn an_average_is_over_the_steps_of_its_passes() {
    // Eight rows in mini-batches of two are four steps a pass.
    let after = |passes: usize, average: usize| {
        let (passes, average) = (format!("policy.passes={passes}"), format!("policy.average={average}"));
        let changes = ["policy.learning_rate=1e-3", "policy.minibatch=2", &passes, &average];
        train(&uneven(8, 1.0, 2.0, 0.0), &changes)
    };
    // The figures are those of the steps, which are the same; where the update ends is not.
    let (report, last) = after(1, 0);
    let (same, averaged) = after(1, 1);
    assert_eq!(report, same);
    assert_ne!(last, averaged);
    // A window that is as long as the update is not full before its end, so a longer one is the same; a shorter one forgets.
    assert_eq!(averaged, after(1, 9).1);
    assert_eq!(after(2, 2).1, after(2, 9).1);
    assert_ne!(after(2, 1).1, after(2, 2).1);
}

#[test]
fn the_average_of_whole_batches_by_hand() {
    let step = |passes: &str, average: &str| {
        let mut problem = uneven(8, 1.0, 2.0, 0.0);
        problem.adv_r = (0..8).map(|i| f64::from(i) - 3.5).collect();
        let (report, bits) = train(&problem, &["policy.learning_rate=1e-3", "policy.target_kl=1e9", passes, average]);
        (report.steps, bits.iter().map(|&b| f64::from(f32::from_bits(b))).collect::<Vec<_>>())
    };
    let [one, two, three] = ["1", "2", "3"].map(|n| {
        let (steps, after) = step(&format!("policy.passes={n}"), "policy.average=0");
        assert_eq!(steps.to_string(), n);
        after
    });
    // A window of two steps: p_1, then (p_1 + p_2) / 2, then that plus half of the way to p_3.
    let (_, averaged) = step("policy.passes=3", "policy.average=2");
    let mut moved = 0.0f64;
    for (((a, b), c), found) in one.iter().zip(&two).zip(&three).zip(&averaged) {
        let by_hand = 0.25 * a + 0.25 * b + 0.5 * c;
        assert!((found - by_hand).abs() < 1e-7, "{found} instead of {by_hand}");
        moved = moved.max((c - by_hand).abs());
    }
    assert!(moved > 1e-4, "the average is where the last step was");
}

#[test]
fn an_update_without_a_step_stays_where_it_is() {
    // A loss that is not finite.
    let mut problem = uneven(8, 1.0, 2.0, 0.0);
    problem.adv_r[3] = f64::NAN;
    let before = problem.bench().bits();
    assert_eq!(train(&problem, &["policy.average=3"]).1, before);
}

#[test]
fn a_mini_batch_that_is_not_finite_is_reported() {
    for spoil in [|p: &mut Problem| p.adv_r[3] = f64::NAN, |p: &mut Problem| p.adv_c[0][3] = f64::NAN] {
        let mut problem = uneven(8, 1.0, 2.0, 0.0);
        spoil(&mut problem);
        let report = train(&problem, &["policy.minibatch=2", "policy.passes=3"]).0;
        assert!(!report.is_finite(), "{report:?}");
    }
}

/// Two updates by a method in a world of waves, for which every mini-batch is inside the trust region.
fn two_updates(method: Method, changes: &[&str]) -> (Passes, Vec<Vec<u32>>) {
    let world = waves(if method.agents == Agents::Single { 1 } else { 2 }, 1.0);
    let fixed = ["rollout.batch=80", "net.hidden=[8]", "policy.target_kl=1e9"];
    let config = small(&method.to_string(), &world.spec, &[&fixed, changes].concat());
    let mut learner = Learner::new(config, &world.maker()).unwrap();
    learner.update().unwrap();
    let passes = learner.update().unwrap().passes;
    (passes, learner.actors().iter().map(|actor| float_bits(&actor.policy.parameters())).collect())
}

#[test]
fn every_first_order_algorithm_takes_mini_batches_for_one_and_several_agents_recurrent_or_not() {
    let mut tried = 0;
    for method in Method::all().into_iter().filter(|method| method.algorithm.info().order == Order::First) {
        for gru in ["net.gru=0", "net.gru=8"] {
            // Twenty steps of four environments, for a shared actor twice. Thirty rows are six sequences of five: three
            // mini-batches, or six. All in three passes.
            let parts = if method.agents == Agents::Centralised { 6 } else { 3 };
            let (passes, after) = two_updates(method, &[gru, "policy.minibatch=30"]);
            assert_eq!(passes.steps, 3 * parts, "{method} {gru}");
            assert!(passes.is_finite(), "{method} {gru}: {passes:?}");
            let (whole, other) = two_updates(method, &[gru]);
            assert_eq!(whole.steps, 3, "{method} {gru}");
            assert!(after != other, "{method} {gru}");
            tried += 1;
        }
    }
    // Five algorithms in three ways, with two kinds of networks.
    assert_eq!(tried, 30);
}

/// Largest difference as a share of the largest entry.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    let largest = b.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    a.iter().zip(b).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs() / largest))
}

#[test]
fn a_mini_batch_of_all_rows_has_the_gradient_of_the_whole_batch() {
    for algorithm in Algorithm::ALL.iter().filter(|a| a.info().order == Order::First) {
        for head in Head::ALL {
            // IPO measures the batch before a whole pass, and takes the last passes' word for it in mini-batches: at home,
            // where every ratio is one, both find the same.
            let mut problem = Problem::new(head, 300, 1, 61);
            if *algorithm == Algorithm::Ipo {
                problem = problem.at_home();
            }
            problem.place(&[-0.5]);
            problem.entropy = 0.05;
            let step = |minibatch: &str| {
                let mut bench = problem.bench();
                let config = problem.config(algorithm.info().name, &[minibatch]);
                let report = bench.update_by(&config, &mut [Multiplier::new(1.0)]);
                assert_eq!(report.steps, 1);
                (report, first_gradient(bench.policy()))
            };
            let (whole, expected) = step("policy.minibatch=0");
            for minibatch in ["policy.minibatch=300", "policy.minibatch=100000"] {
                let (report, gradient) = step(minibatch);
                let worst = apart(&gradient, &expected);
                assert!(worst <= 4e-6, "{algorithm} {head:?} {minibatch}: off by {worst:e} of the largest entry");
                for (a, b) in [(report.loss, whole.loss), (report.kl, whole.kl), (report.loss_r, whole.loss_r)] {
                    assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{algorithm} {head:?}: {a} is not {b}");
                }
            }
            let (_, half) = step_in_halves(&problem, algorithm.info().name);
            assert!(apart(&half, &expected) > 1e-3, "{algorithm} {head:?}: another step would be noticed");
        }
    }
}

/// What Adam remembers after two mini-batches is not one gradient.
fn step_in_halves(problem: &Problem, algo: &str) -> (Passes, Vec<f64>) {
    let mut bench = problem.bench();
    let report = bench.update_by(&problem.config(algo, &["policy.minibatch=150"]), &mut [Multiplier::new(1.0)]);
    assert_eq!(report.steps, 2);
    (report, first_gradient(bench.policy()))
}

#[test]
fn a_mini_batch_of_all_sequences_has_the_gradient_of_the_whole_batch() {
    for name in ["ppo-lag", "focops", "mappo-lag", "mafocops"] {
        let world = waves(if name.starts_with("ma") { 2 } else { 1 }, 1.0);
        let gradient = |minibatch: &str| -> Vec<f64> {
            let changes = ["rollout.batch=80", "net.hidden=[8]", "net.gru=8", "policy.passes=1", minibatch];
            let mut learner = Learner::new(small(name, &world.spec, &changes), &world.maker()).unwrap();
            assert_eq!(learner.update().unwrap().passes.steps, 1);
            // Adam's first moments are a tenth of the gradient.
            learner.policy().adam.state().0.iter().map(|&m| f64::from(m)).collect()
        };
        let worst = apart(&gradient("policy.minibatch=160"), &gradient("policy.minibatch=0"));
        assert!(worst <= 4e-6, "{name}: off by {worst:e} of the largest entry");
    }
}

#[test]
fn a_learning_rate_falls_in_a_straight_line_to_the_runs_end() {
    assert_eq!(Decay::None.apply(0.4, 0.75), 0.4);
    for (done, expected) in [(0.0, 0.4), (0.25, 0.3), (0.75, 0.1), (1.0, 0.0), (1.5, 0.0)] {
        assert!((Decay::Linear.apply(0.4, done) - expected).abs() < 1e-15);
    }
    for (done, expected) in [(0.0, 0.4), (0.5, 0.4), (0.75, 0.2), (1.0, 0.0), (1.5, 0.0)] {
        assert!((Decay::Late.apply(0.4, done) - expected).abs() < 1e-15);
    }
    let world = waves(1, 1.0);
    let config = |changes: &[&str]| -> Config {
        // Five updates.
        let fixed = ["rollout.batch=80", "run.steps=400", "policy.learning_rate=0.01", "critic.learning_rate=0.02"];
        small("p3o", &world.spec, &[&fixed, changes].concat())
    };
    let learner = |changes: &[&str]| Learner::new(config(changes), &world.maker()).unwrap();
    let outcome = |learner: &mut Learner| {
        let report = learner.update().unwrap();
        (float_bits(&learner.policy().parameters()), report.critic_losses.clone())
    };
    for (policy, critic) in [(true, false), (false, true), (true, true)] {
        let word = |decays: bool| if decays { "linear" } else { "none" };
        let decays = [format!("policy.lr_decay={}", word(policy)), format!("critic.lr_decay={}", word(critic))];
        let (mut decaying, mut constant) = (learner(&[&decays[0], &decays[1]]), learner(&[]));
        let mut by_hand = learner(&[]);
        for k in 0..5 {
            let rate = 1.0 - f64::from(k) / 5.0;
            by_hand
                .retune(|c| {
                    c.policy.learning_rate = if policy { 0.01 * rate } else { 0.01 };
                    c.critic.learning_rate = if critic { 0.02 * rate } else { 0.02 };
                })
                .unwrap();
            let found = outcome(&mut decaying);
            assert!(found == outcome(&mut by_hand), "update {k}, {decays:?}");
            assert_eq!(decaying.policy().adam.learning_rate, if policy { 0.01 * rate } else { 0.01 });
            // The first update has the whole rate, and a critic's fit shows in the update that follows it.
            let same = if policy { k == 0 } else { k <= 1 };
            assert_eq!(found == outcome(&mut constant), same, "update {k}, {decays:?}");
        }
    }
}
