//! A policy that breaks its limit is called safe at most five times in a hundred, whatever its costs are distributed like and
//! however often one looks; a policy that keeps it well is called safe soon; and nothing is said where a number is none.
//!
//! The tables of docs/evaluation.md are compared with what is computed here.

use crate::util::{Given, Script, one_line, rng, small};
use p3o::confidence::{Bounded, Stakes};
use p3o::evaluate::{Evaluation, Settings, Verdict, certify, evaluate, next_look};
use p3o::record::Summary;
use p3o::{Agent, Error, Learner};
use p3o_env::{ActionSpace, CostSpec};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

const BOUND: f64 = 1000.0;
const LIMIT: f64 = 25.0;

/// As many equally likely numbers in [0, BOUND] as describe a distribution.
type Population = Vec<f64>;

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The same multiplied by one number and cut off at the bound, so that its mean is this one.
fn scaled(population: &[f64], to: f64) -> Population {
    let by = |factor: f64| -> Population { population.iter().map(|x| (factor * x).min(BOUND)).collect() };
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        *(if mean(&by(middle)) < to { &mut low } else { &mut high }) = middle;
    }
    by(high)
}

/// Hazards of a PointGoal policy in ten thousand episodes; docs/evaluation.md has the commands that made it.
fn real() -> Population {
    let text = include_str!("fixtures/pointgoal-costs.csv");
    let rows = text.lines().skip(1).map(|line| line.split_once(',').unwrap());
    let costs: Population = rows.flat_map(|(x, n)| vec![x.parse().unwrap(); n.parse().unwrap()]).collect();
    assert_eq!(costs.len(), 10_000);
    costs
}

/// Distributions with this mean.
fn populations(mean: f64) -> Vec<(&'static str, Population)> {
    let places = || (0..400).map(|i| (f64::from(i) + 0.5) / 400.0);
    let lognormal = places().map(|u| (1.5 * 2f64.sqrt() * inverse_erf(2.0 * u - 1.0)).exp());
    // All or nothing: as many episodes at the bound as the mean takes.
    let full = (mean / BOUND * 20_000.0).round() as usize;
    let all_or_nothing = (0..20_000).map(|i| if i < full { BOUND } else { 0.0 });
    let rarely = places().map(|u| if u < 0.95 { 0.0 } else { 1.0 });
    vec![
        ("0 or 1000", all_or_nothing.collect()),
        ("95 % zeros", scaled(&rarely.collect::<Vec<_>>(), mean)),
        ("lognormal", scaled(&lognormal.collect::<Vec<_>>(), mean)),
        ("uniform", scaled(&places().collect::<Vec<_>>(), mean)),
        ("a policy's", scaled(&real(), mean)),
    ]
}

/// By bisection; enough for quantiles.
fn inverse_erf(y: f64) -> f64 {
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        *(if libm::erf(middle) < y { &mut low } else { &mut high }) = middle;
    }
    low
}

fn draws(population: &[f64], n: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    (0..n).map(|_| population[rng.random_range(0..population.len())]).collect()
}

/// Every repetition has its own stream, so that threads decide nothing.
fn repetitions<T: Send>(count: u64, of: impl Fn(&mut ChaCha8Rng) -> T + Sync) -> Vec<T> {
    (0..count).into_par_iter().map(|i| of(&mut rng(1000 + i))).collect()
}

/// The table's rows must stand in the document.
fn documented(rows: &[Vec<String>]) {
    let document = include_str!("../../../docs/evaluation.md");
    let lines = rows.iter().map(|cells| format!("| {} |", cells.join(" | ")));
    let missing: Vec<String> = lines.filter(|line| !document.lines().any(|known| known == line)).collect();
    assert!(missing.is_empty(), "docs/evaluation.md lacks\n{}", missing.join("\n"));
}

fn percent(count: usize, of: u64) -> String {
    format!("{:.1} %", 100.0 * count as f64 / of as f64)
}

const SIZES: [usize; 7] = [2, 5, 10, 20, 30, 100, 300];

/// The true mean is at the limit, where a wrong bound is likeliest; just above it, where "safe" is wrong, it is less likely.
#[test]
fn bounds_hold_for_any_distribution_and_at_all_times_at_once() {
    const TRIES: u64 = 1000;
    let looks: Vec<usize> = (1..40).chain((40..=300).step_by(20)).collect();
    let mut rows = Vec::new();
    for over in [1.0, 1.02] {
        for (name, population) in populations(over * LIMIT) {
            let truth = mean(&population);
            assert!((truth - over * LIMIT).abs() < 1e-9, "{name}: {truth}");
            let found = repetitions(TRIES, |rng| {
                let costs = draws(&population, 300, rng);
                let at = |n: &usize| {
                    let sample = Bounded::new(&costs[..*n], BOUND);
                    [sample.shows_below(truth), sample.shows_above(truth), sample.shows_below(LIMIT)]
                };
                let ever = looks.iter().map(at).fold([false; 3], |a, b| [a[0] | b[0], a[1] | b[1], a[2] | b[2]]);
                SIZES.iter().map(at).chain([ever]).collect::<Vec<[bool; 3]>>()
            });
            let wrong = |k: usize, side: usize| found.iter().filter(|wrong| wrong[k][side]).count();
            for (k, side) in (0..=SIZES.len()).flat_map(|k| [(k, 0), (k, 1), (k, 2)]) {
                let (count, when) = (wrong(k, side), SIZES.get(k).map_or("ever".into(), usize::to_string));
                assert!(20 * count as u64 <= TRIES, "{name}, {when}, side {side}: {count} of {TRIES} wrong");
            }
            if over == 1.0 {
                let shares = (0..=SIZES.len()).map(|k| percent(wrong(k, 0), TRIES));
                rows.push(std::iter::once(name.to_string()).chain(shares).collect());
            }
        }
    }
    documented(&rows);
}

#[test]
fn a_dangerous_policy_that_looks_harmless_is_not_called_safe() {
    const TRIES: u64 = 2000;
    let population = real();
    let truth = mean(&population);
    assert!(truth > 39.0, "{truth}: far beyond the limit");
    let mut rows = [vec!["Student's t".to_string()], vec!["betting".to_string()]];
    for n in SIZES {
        let found = repetitions(TRIES, |rng| {
            let costs = draws(&population, n, rng);
            [Summary::of(&costs).mean_ci95().1 <= LIMIT, Bounded::new(&costs, BOUND).shows_below(LIMIT)]
        });
        let [student, betting] = [0, 1].map(|method| found.iter().filter(|x| x[method]).count());
        assert!(
            n > 30 || 5 * student as u64 > TRIES,
            "{n} episodes: t was wrong {student} times, which is why it was given up"
        );
        assert!(20 * betting as u64 <= TRIES, "{n} episodes: {betting} of {TRIES} wrong");
        rows[0].push(percent(student, TRIES));
        rows[1].push(percent(betting, TRIES));
    }
    documented(&rows);
}

/// Maurer and Pontil's empirical Bernstein bound (2009) for a single number of episodes.
fn empirical_bernstein(costs: &[f64]) -> f64 {
    let (summary, n) = (Summary::of(costs), costs.len() as f64);
    let log = (2.0 / 0.05f64).ln();
    summary.mean + summary.sd * (2.0 * log / n).sqrt() + 7.0 * BOUND * log / (3.0 * (n - 1.0))
}

/// Episodes that it takes until `safe` says so, in the looks of [`certify`]; the middle one of many repetitions.
fn episodes(population: &[f64], safe: impl Fn(&[f64]) -> bool + Sync) -> usize {
    let mut found = repetitions(41, |rng| {
        let mut costs = Vec::new();
        loop {
            costs.extend(draws(population, next_look(costs.len()) - costs.len(), rng));
            if safe(&costs) || costs.len() > 20_000 {
                return costs.len();
            }
        }
    });
    found.sort_unstable();
    found[20]
}

#[test]
fn a_policy_that_keeps_its_limit_is_soon_called_safe() {
    let shares = [0.2, 0.5, 0.8, 0.9];
    let of = |safe: &(dyn Fn(&[f64]) -> bool + Sync)| shares.map(|s| episodes(&scaled(&real(), s * LIMIT), safe));
    let with = |upper: Stakes| {
        of(&move |costs| Bounded::with_stakes(costs, BOUND, [upper.clone(), Stakes::lower()]).shows_below(LIMIT))
    };
    let chosen = of(&|costs| Bounded::new(costs, BOUND).shows_below(LIMIT));
    let rows = [
        ("stakes 2^-i, weights 1/(i+1)² (chosen)", chosen),
        ("stakes 2^-i, equal weights", with(Stakes::lower())),
        ("the stake 1/4 alone", with(Stakes::new([(0.25, 1.0)]))),
        ("empirical Bernstein", of(&|costs| empirical_bernstein(costs) <= LIMIT)),
    ];
    let mut table = Vec::new();
    for (name, row) in rows {
        assert!(row.iter().zip(chosen).take(3).all(|(other, own)| own <= *other), "{name}: {row:?}, ours {chosen:?}");
        let cells = row.iter().map(|n| if *n > 20_000 { "more than 20000".into() } else { n.to_string() });
        table.push(std::iter::once(name.to_string()).chain(cells).collect::<Vec<_>>());
    }
    documented(&table);
}

/// An untrained policy, whose actions are drawn around zero, in a world with episodes of four steps.
struct Judged {
    agent: Agent,
    world: Script,
}

impl Judged {
    fn new(costs: &[CostSpec], play: impl Fn(usize, f32) -> Given + Send + Sync + 'static) -> Judged {
        let names: Vec<&str> = costs.iter().map(|cost| cost.name.as_str()).collect();
        let action = ActionSpace::Continuous { dim: 1 };
        let mut world = Script::new(action, &names, 4, vec![1.0], move |step, action| play(step, action[0]));
        world.spec.costs = costs.to_vec();
        let learner = Learner::new(small("p3o", &world.spec, &[]), &world.maker()).unwrap();
        Judged { agent: learner.agent(), world }
    }

    /// With costs that follow from the action alone.
    fn by_action(costs: &[CostSpec], of: impl Fn(f32) -> Vec<f32> + Send + Sync + 'static) -> Judged {
        Judged::new(costs, move |step, action| given(step, of(action)))
    }

    fn evaluate(&self, episodes: usize) -> Result<Evaluation, Error> {
        evaluate(&self.agent, &self.world.maker(), &settings(episodes))
    }

    fn certify(&self, episodes: usize) -> Result<Evaluation, Error> {
        certify(&self.agent, &self.world.maker(), &settings(episodes), &mut |_| {})
    }
}

fn settings(episodes: usize) -> Settings {
    Settings { episodes, seed: 3, deterministic: false }
}

fn given(step: usize, costs: Vec<f32>) -> Given {
    Given { obs: vec![1.0], reward: 1.0, costs, terminated: false, truncated: step == 4 }
}

/// One step in six or so.
fn sometimes(action: f32) -> Vec<f32> {
    vec![f32::from(u8::from(action > 0.6))]
}

fn risk(limit: f64) -> CostSpec {
    CostSpec::new("risk", limit).per_step(1.0)
}

fn refusal(found: Result<Evaluation, Error>) -> String {
    one_line(found.expect_err("nothing can be said of it"))
}

#[test]
fn a_certificate_comes_from_the_first_of_the_same_episodes() {
    for (limit, expected) in [(3.0, Verdict::Safe), (0.1, Verdict::Violated)] {
        let judged = Judged::by_action(&[risk(limit)], sometimes);
        let found = judged.certify(5000).unwrap();
        assert_eq!((found.verdict, found.certify), (Some(expected), true), "{limit}: {:?}", found.costs);
        assert!(found.episodes < 1000 && found.episodes.is_multiple_of(32), "{}", found.episodes);
        let all = judged.evaluate(1000).unwrap();
        assert_eq!(all.all_episodes[..found.episodes], found.all_episodes);
        assert_eq!(judged.evaluate(7).unwrap().all_episodes, all.all_episodes[..7]);
        let different: std::collections::BTreeSet<u64> =
            all.all_episodes.iter().map(|episode| episode.costs["risk"] as u64).collect();
        assert!(different.len() > 2, "{different:?}");
    }
}

#[test]
fn threads_decide_nothing() {
    let judged = || Judged::by_action(&[risk(1.0)], sometimes);
    let on = |threads| crate::util::on_threads(threads, || judged().certify(3000).unwrap());
    assert_eq!(on(1), on(3));
}

#[test]
fn what_is_not_shown_within_the_budget_is_not_claimed() {
    let judged = Judged::by_action(&[risk(1.0)], sometimes);
    let truth = judged.evaluate(20_000).unwrap().costs["risk"].mean;
    // So near the limit that forty episodes cannot tell.
    let judged = Judged::by_action(&[risk(1.02 * truth)], sometimes);
    let found = judged.certify(40).unwrap();
    assert_eq!((found.episodes, found.verdict, found.safe), (40, Some(Verdict::NotSure), Some(false)));
    assert_eq!(judged.evaluate(40).unwrap().all_episodes, found.all_episodes);
}

#[test]
fn every_figure_follows_from_the_episodes() {
    let found = Judged::by_action(&[risk(1.5)], sometimes).evaluate(100).unwrap();
    let costs: Vec<f64> = found.all_episodes.iter().map(|episode| episode.costs["risk"]).collect();
    let (cost, summary, sample) = (&found.costs["risk"], Summary::of(&costs), Bounded::new(&costs, 4.0));
    assert_eq!((cost.mean, cost.sd, cost.episode_bound), (summary.mean, summary.sd, Some(4.0)));
    assert_eq!((cost.spread.least, cost.spread.greatest), (summary.min, summary.max));
    let bounds = cost.bounds.unwrap();
    assert_eq!((bounds.lower, bounds.upper, bounds.confidence), (sample.lower(), sample.upper(), 0.95));
    let over = costs.iter().filter(|x| **x > 1.5).count();
    let (lower, upper) = p3o::confidence::clopper_pearson(over, 100);
    let share = cost.share_bounds.unwrap();
    assert_eq!((cost.share_over_limit, share.lower, share.upper), (Some(over as f64 / 100.0), lower, upper));
    assert!(over > 0 && share.method.contains("Clopper"));
    assert_eq!((found.ret.mean, found.length.mean, found.length.spread.q50), (4.0, 4.0, 4.0));
}

#[test]
fn all_limits_must_be_kept_and_one_violated_is_enough() {
    let costs = |first, second| [risk(first), CostSpec::new("wear", second).per_step(2.0), CostSpec::new("heat", 9.0)];
    let of = |action: f32| vec![sometimes(action)[0], 2.0 * sometimes(-action)[0], 100.0 * action];
    let judge = |first, second| {
        let mut judged = Judged::by_action(&costs(first, second), of);
        judged.agent = {
            let config = small("p3o", &judged.world.spec, &["limits.heat=none"]);
            Learner::new(config, &judged.world.maker()).unwrap().agent()
        };
        judged.certify(5000).unwrap()
    };
    let both = judge(3.0, 6.0);
    assert_eq!((both.verdict, both.costs["heat"].verdict), (Some(Verdict::Safe), None));
    assert!(both.costs["heat"].mean.is_finite() && both.costs["heat"].bounds.is_none());
    let one = judge(3.0, 0.1);
    assert_eq!((one.verdict, one.costs["wear"].verdict), (Some(Verdict::Violated), Some(Verdict::Violated)));
    // Free of cost, but of a limit that nothing can show.
    let judged = Judged::by_action(&[risk(3.0), CostSpec::new("wear", 0.0).per_step(1.0)], |_| vec![0.0, 0.0]);
    let found = judged.certify(320).unwrap();
    assert_eq!((found.verdict, found.episodes), (Some(Verdict::NotSure), 320));
    assert_eq!((found.costs["risk"].safe, found.costs["wear"].fewest_episodes), (Some(true), None));
}

#[test]
fn a_cost_that_could_be_anything_is_never_safe() {
    let mut judged = Judged::by_action(&[CostSpec::new("risk", 3.0)], sometimes);
    let found = judged.evaluate(200).unwrap();
    assert_eq!((found.verdict, found.costs["risk"].bounds), (Some(Verdict::NotSure), None));
    assert!(refusal(judged.certify(200)).contains("no bound of the cost risk is known"));
    // The world decides that, not what the run once stored of it.
    judged.world.spec.costs = vec![risk(3.0)];
    assert_eq!(judged.certify(5000).unwrap().verdict, Some(Verdict::Safe));
}

#[test]
fn without_limits_there_is_nothing_to_certify() {
    let mut judged = Judged::by_action(&[risk(3.0)], sometimes);
    let config = small("p3o", &judged.world.spec, &["limits.risk=none"]);
    judged.agent = Learner::new(config, &judged.world.maker()).unwrap().agent();
    let found = judged.evaluate(5).unwrap();
    assert_eq!((found.verdict, found.safe, found.costs["risk"].limit), (None, None, None));
    assert!(refusal(judged.certify(100)).contains("no cost of this run has a limit"));
}

/// One step of one episode is enough; all are named with their place.
#[test]
fn what_is_no_number_ends_the_evaluation() {
    type Spoil = fn(&mut Given);
    let cases: [(Spoil, &str); 7] = [
        (|given| given.reward = f32::NAN, "the reward is NaN"),
        (|given| given.obs[0] = f32::INFINITY, "the observation is inf"),
        (|given| given.costs[0] = f32::NAN, "the cost risk is NaN"),
        (|given| given.costs[0] = 1.5, "the cost risk is 1.5, which is not within its bounds of 0 and 1"),
        (|given| given.costs[0] = -0.5, "the cost risk is -0.5, which"),
        (|given| (given.obs, given.reward, given.terminated) = (vec![f32::NAN], f32::NAN, true), "the reward is NaN"),
        (|given| given.truncated = false, "the episode goes on beyond the world's time limit"),
    ];
    for (spoil, what) in cases {
        let judged = Judged::new(&[risk(3.0)], move |step, action| {
            let mut given = given(step, sometimes(action));
            if step == 4 {
                spoil(&mut given);
            }
            given
        });
        for found in [judged.evaluate(100), judged.certify(100)] {
            let line = refusal(found);
            let expected = format!("environment 0, episode 1, step 4: {what}");
            assert!(line.starts_with(&expected), "{line} instead of {expected}");
        }
    }
    let mut judged = Judged::by_action(&[risk(3.0)], sometimes);
    judged.world.first = vec![f32::NAN];
    assert!(refusal(judged.evaluate(1)).starts_with("environment 0, episode 1, step 0: the observation is NaN"));
    let sums = [risk(3.0).per_episode(2.0)];
    let line = refusal(Judged::by_action(&sums, |_| vec![1.0]).evaluate(1));
    assert!(line.contains("step 3: the episode's cost risk is 3, which is not within its bounds of 0 and 2"), "{line}");
}
