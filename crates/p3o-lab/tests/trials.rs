//! Settings are chosen by equal trials on seeds that no reported run has, and the rows of the contest are what was chosen.

use p3o::algo::{Constraints, Order};
use p3o::config::Agents;
use p3o::record::Table;
use p3o::run::{CostSummary, Summary};
use p3o::{Algorithm, Method};
use p3o_lab::reproduce::results::{Known, Outcome};
use p3o_lab::reproduce::trials::{TrialTask, best, score};
use p3o_lab::reproduce::{Row, Scale, TrialPlan, Trials};
use p3o_lab::sweep::Job;
use std::collections::BTreeSet;
use std::path::Path;

fn plan(scale: &str) -> TrialPlan {
    TrialPlan::new(Trials::of_contest(), Scale::named(scale).unwrap(), None, Path::new("out")).unwrap()
}

/// A file of two algorithms.
fn text(first_seed: u64, p3o: &str, lag: &str) -> String {
    let head =
        format!("first_seed = {first_seed}\n[[task]]\ntask = \"PointGoal\"\nsteps = 1e5\nseeds = 2\nreference = 8\n");
    format!(
        "{head}[[trials]]\nalgo = \"p3o\"\ncandidates = {p3o}\n[[trials]]\nalgo = \"ppo-lag\"\ncandidates = {lag}\n"
    )
}

const P3O: &str = r#"[[], ["policy.minibatch=250"]]"#;
const LAG: &str = r#"[["policy.minibatch=500"], ["ppo-lag.multiplier_rate=0.1"]]"#;

#[test]
fn unequal_trials_are_refused() {
    assert!(Trials::read(&text(1000, P3O, LAG)).is_ok());
    let refused = |first_seed: u64, p3o: &str, lag: &str| Trials::read(&text(first_seed, p3o, lag)).unwrap_err();
    assert_eq!(refused(999, P3O, LAG), "seeds start at 999, below 1000");
    let three = r#"[["policy.minibatch=500"], ["ppo-lag.multiplier_rate=0.1"], []]"#;
    assert_eq!(refused(1000, P3O, three), "ppo-lag has 3 candidates, the first algorithm 2");

    let fixed = r#"[["policy.minibatch=500"], []]"#;
    assert_eq!(refused(1000, P3O, fixed), "no candidate of ppo-lag has another rate of its multipliers");
}

#[test]
fn every_algorithm_of_the_contest_is_tried_alike() {
    for scale in ["smoke", "cpu", "paper"] {
        let plan = plan(scale);
        assert!(plan.jobs.iter().all(|job| job.config.run.seed >= 1000));
        for (algorithm, runs) in plan.trials.algorithms.iter().zip(&plan.runs) {
            let tasks: u16 = plan.trials.tasks_of(algorithm.algo).map(|task| task.seeds).sum();
            assert!(tasks > 0 && runs.iter().all(|runs| runs.len() == usize::from(tasks)), "{}", algorithm.algo);
            // Every candidate has runs of its own: what a preset has for long runs makes no two of them alike.
            let jobs: Vec<usize> = runs.iter().flatten().map(|&(_, job)| job).collect();
            let different: BTreeSet<usize> = jobs.iter().copied().collect();
            assert_eq!(different.len(), jobs.len(), "{} at scale {scale}", algorithm.algo);
        }
        // All but those that ignore costs.
        for row in Row::all() {
            let tried = plan.trials.algorithms.iter().any(|a| a.algo == row.algo);
            assert_eq!(tried, row.algo.algorithm.info().constraints != Constraints::None, "{}", row.name);
        }
        // Everybody of first order who learns alone learns from mini-batches.
        let first = |job: &&Job| job.config.algorithm().info().order == Order::First;
        let alone = plan.jobs.iter().filter(first).filter(|job| job.config.agents == Agents::Single);
        assert!(alone.clone().count() > 0 && alone.into_iter().all(|job| job.config.policy.minibatch > 0));
    }
    // The steps are those of the trials, not those of the contest.
    let cpu = plan("cpu");
    let steps = |task: &str| cpu.trials.tasks.iter().find(|t| t.task == task).unwrap().steps.unwrap();
    assert!(cpu.jobs.iter().all(|job| job.config.run.steps == steps(&job.config.task)));
}

/// The candidate of an algorithm that a table marks as chosen, for each of its runs. Settings may hold commas; the first two
/// columns and the last one do not.
fn chosen_in<'a>(csv: &'a str, algo: &str) -> Vec<&'a str> {
    let of_algo = csv.lines().filter(|line| line.split(',').next() == Some(algo) && line.ends_with(",1"));
    of_algo.filter_map(|line| line.split(',').nth(1)).collect()
}

#[test]
fn the_contest_has_what_was_chosen() {
    let trials = Trials::of_contest();
    let report = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/trials.csv");
    let report = std::fs::read_to_string(report).ok();
    for row in Row::all().into_iter().filter(|row| row.chosen) {
        let algorithm = trials.algorithms.iter().find(|a| a.algo == row.algo).expect("it is tried");
        let all = [row.set.clone(), row.long.clone()].concat();
        let place = algorithm.candidates.iter().position(|settings| *settings == all);
        let place = place.unwrap_or_else(|| panic!("the settings of {} are no candidate of {}", row.name, row.algo));
        let Some(report) = &report else { continue };
        if !report.lines().any(|line| line.split(',').next() == Some(&row.algo.to_string())) {
            continue;
        }
        let chosen = chosen_in(report, &row.algo.to_string());
        let expected = (place + 1).to_string();
        assert!(!chosen.is_empty() && chosen.iter().all(|c| *c == expected), "{}: {chosen:?}", row.name);
    }
}

fn task(reference: f64, floor: f64) -> TrialTask {
    TrialTask {
        task: "PointGoal".into(),
        several_agents: false,
        several_limits: false,
        steps: None,
        seeds: 1,
        reference,
        floor,
    }
}

/// A run with this return and this mean of its cost, whose limit is 25.
fn outcome(plan: &TrialPlan, job: usize, ret: Option<f64>, cost: Option<f64>) -> Outcome {
    let config = &plan.jobs[job].config;
    let satisfied = cost.map(|cost| cost <= 25.0);
    let costs = [("hazards".to_string(), CostSummary { mean: cost, limit: Some(25.0), satisfied })].into();
    let (task, algo, seed) = (config.task.clone(), config.method().to_string(), config.run.seed);
    let summary = Summary { task, algo, seed, steps: 1000, wall_s: 1.0, steps_per_s: 1.0, return_mean: ret, costs };
    Outcome::new(config, summary, Table { columns: Vec::new(), rows: Vec::new() })
}

#[test]
fn a_score_is_the_return_less_twice_the_excess() {
    let plan = plan("smoke");
    let run = |ret: f64, cost: f64| outcome(&plan, 0, Some(ret), Some(cost));
    let p3o: Method = Algorithm::P3o.into();
    let of = |task: &TrialTask, ret: f64, cost: f64| score(task, p3o, &run(ret, cost)).unwrap();
    // 15 of 20; at 30 the cost is a fifth over 25, which takes 2 / 5.
    assert_eq!(of(&task(20.0, 0.0), 15.0, 25.0), 0.75);
    assert!((of(&task(20.0, 0.0), 15.0, 30.0) - 0.35).abs() < 1e-12);
    // Half of the way from -80 to -40.
    assert_eq!(of(&task(-40.0, -80.0), -60.0, 1.0), 0.5);
    // Who ignores costs is chosen by the return alone.
    assert_eq!(score(&task(20.0, 0.0), Algorithm::Ppo.into(), &run(15.0, 30.0)), Some(0.75));
    // No whole episode, no score.
    assert_eq!(score(&task(20.0, 0.0), p3o, &outcome(&plan, 0, None, None)), None);
    assert_eq!(score(&task(20.0, 0.0), p3o, &outcome(&plan, 0, Some(1.0), None)), None);
}

#[test]
fn the_first_of_the_best_is_chosen() {
    assert_eq!(best(&[Some(0.1), None, Some(0.4), Some(0.4)]), Some(2));
    assert_eq!((best(&[None, None]), best(&[])), (None, None));
}

#[test]
fn a_choice_waits_for_all_runs_and_passes_over_those_that_fail() {
    let trials = Trials::read(&text(1000, P3O, LAG)).unwrap();
    let plan = TrialPlan::new(trials, Scale::named("smoke").unwrap(), None, Path::new("out")).unwrap();
    // Two algorithms, two candidates, two seeds.
    assert_eq!(plan.jobs.len(), 8);
    let mut known = vec![Known::Nothing; 8];
    let job = |candidate: usize, seed: usize| plan.runs[0][candidate][seed].1;
    for (candidate, seed, ret) in [(0, 0, 2.0), (0, 1, 4.0), (1, 0, 5.0)] {
        let job = job(candidate, seed);
        known[job] = Known::Outcome(outcome(&plan, job, Some(ret), Some(20.0)).into());
    }
    assert_eq!((plan.score(0, 0, &known), plan.score(0, 1, &known)), (Some(0.375), None));
    assert_eq!(plan.chosen(0, &known), None);
    let last = job(1, 1);
    known[last] = Known::Trouble("loss is not finite".into());
    assert_eq!(plan.chosen(0, &known), Some(0));
    known[last] = Known::Outcome(outcome(&plan, last, Some(3.0), Some(20.0)).into());
    assert_eq!(plan.chosen(0, &known), Some(1));
    let csv = plan.csv(&known);
    let expected = "algo,candidate,settings,task,seed,steps,return,length,cost_1,mean_1,limit_1,kept_1,kept,score,candidate_score,chosen\n\
                    p3o,1,,PointGoal,1000,1000,2,,hazards,20,25,1,1,0.25,0.375,0\n\
                    p3o,1,,PointGoal,1001,1000,4,,hazards,20,25,1,1,0.5,0.375,0\n\
                    p3o,2,policy.minibatch=250,PointGoal,1000,1000,5,,hazards,20,25,1,1,0.625,0.5,1\n\
                    p3o,2,policy.minibatch=250,PointGoal,1001,1000,3,,hazards,20,25,1,1,0.375,0.5,1\n";
    assert_eq!(csv, expected);
    assert_eq!((chosen_in(&csv, "p3o"), chosen_in(&csv, "ppo-lag")), (vec!["2", "2"], vec![]));
}
