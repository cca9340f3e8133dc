//! Trials: how the settings of the contest's rows are chosen. Every algorithm has equally many candidates, all of which train on
//! the same tasks with the same steps and with seeds that no reported run has.

use super::data::{Curve, REPORTED_SEEDS, Scale, method, steps};
use super::plan::Jobs;
use super::results::{Known, Outcome, flag, number, quoted};
use crate::sweep::Job;
use p3o::algo::Constraints;
use p3o::config::Agents;
use p3o::{Error, Method};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const TRIALS: &str = include_str!("../../experiments/trials.toml");

/// What stands in `experiments/trials.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trials {
    /// The seed of every first run.
    pub first_seed: u64,
    /// What is trained on.
    #[serde(rename = "task")]
    pub tasks: Vec<TrialTask>,
    /// What is tried, algorithm by algorithm.
    #[serde(rename = "trials")]
    pub algorithms: Vec<Candidates>,
}

/// A task of the trials.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialTask {
    /// The world.
    pub task: String,
    /// Whether it is for algorithms of several agents; if not, it is for those of one.
    #[serde(default)]
    pub several_agents: bool,
    /// Whether it is for those alone that can keep several limits.
    #[serde(default)]
    pub several_limits: bool,
    /// Environment steps; a scale that decides nothing has its own.
    #[serde(deserialize_with = "steps")]
    pub steps: Option<u64>,
    /// Runs of every candidate.
    pub seeds: u16,
    /// The return that counts as 1.
    pub reference: f64,
    /// The return that counts as 0.
    #[serde(default)]
    pub floor: f64,
}

/// What is tried of an algorithm.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidates {
    /// By the name that the command line has for it.
    #[serde(deserialize_with = "method")]
    pub algo: Method,
    /// Settings, one list for each.
    pub candidates: Vec<Vec<String>>,
}

impl Trials {
    /// Reads them; says what is wrong with them, if anything is.
    pub fn read(text: &str) -> Result<Trials, String> {
        let trials: Trials = toml::from_str(text).map_err(|e| e.to_string())?;
        if trials.first_seed < REPORTED_SEEDS.end {
            return Err(format!("seeds start at {}, below {}", trials.first_seed, REPORTED_SEEDS.end));
        }
        let count = trials.algorithms.first().map_or(0, |first| first.candidates.len());
        for Candidates { algo, candidates } in &trials.algorithms {
            if candidates.len() != count {
                return Err(format!("{algo} has {} candidates, the first algorithm {count}", candidates.len()));
            }
            let has = |key: &str| candidates.iter().flatten().any(|setting| setting.starts_with(key));
            let info = algo.algorithm.info();
            if info.multipliers && !has(&format!("{}.multiplier_rate=", info.name)) {
                return Err(format!("no candidate of {algo} has another rate of its multipliers"));
            }
        }
        Ok(trials)
    }

    /// Those of the contest.
    pub fn of_contest() -> Trials {
        Trials::read(TRIALS).unwrap_or_else(|e| panic!("experiments/trials.toml: {e}"))
    }

    /// The tasks of an algorithm.
    pub fn tasks_of(&self, algo: Method) -> impl Iterator<Item = &TrialTask> {
        let is_for = move |task: &&TrialTask| {
            let keeps = algo.algorithm.info().constraints;
            task.several_agents == (algo.agents != Agents::Single)
                && (!task.several_limits || keeps == Constraints::Any)
        };
        self.tasks.iter().filter(is_for)
    }
}

/// What a run is worth: its return on the task's scale, from 0 at the floor to 1 at the reference, less twice the share by which
/// each cost is over its limit. For an algorithm that ignores costs only the return counts. None for a run without a whole episode.
pub fn score(task: &TrialTask, algo: Method, outcome: &Outcome) -> Option<f64> {
    let earned = (outcome.summary.return_mean? - task.floor) / (task.reference - task.floor);
    if algo.algorithm.info().constraints == Constraints::None {
        return Some(earned);
    }
    let over = outcome.summary.costs.values().filter_map(|cost| Some((cost.mean, cost.limit?)));
    let over: Option<f64> = over.map(|(mean, limit)| Some((mean? / limit - 1.0).max(0.0))).sum();
    Some(earned - 2.0 * over?)
}

/// The place of the best score, the first of equals; none if there is none.
pub fn best(scores: &[Option<f64>]) -> Option<usize> {
    let known = scores.iter().enumerate().filter_map(|(i, score)| Some((i, (*score)?)));
    known.rev().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i)
}

/// The runs of the trials at a scale.
pub struct TrialPlan {
    /// What is tried.
    pub trials: Trials,
    /// Every run once, the first seeds first.
    pub jobs: Vec<Job>,
    /// A short name for every run.
    pub names: Vec<String>,
    /// For every algorithm and candidate: the place of its task among the trials', and of its run among the jobs.
    pub runs: Vec<Vec<Vec<(usize, usize)>>>,
}

impl TrialPlan {
    /// At a scale, with another number of seeds if wanted, in `folder`.
    pub fn new(trials: Trials, mut scale: Scale, seeds: Option<u16>, folder: &Path) -> Result<TrialPlan, Error> {
        if scale.decides {
            for task in &trials.tasks {
                scale.tasks.entry(task.task.clone()).or_default().steps = task.steps;
            }
        }
        let mut all = Jobs::new(&scale.name, folder);
        let mut runs: Vec<Vec<Vec<(usize, usize)>>> =
            trials.algorithms.iter().map(|a| vec![Vec::new(); a.candidates.len()]).collect();
        let most = trials.tasks.iter().map(|task| seeds.unwrap_or(task.seeds)).max().unwrap_or(0);
        for run in 0..most {
            for (a, Candidates { algo, candidates }) in trials.algorithms.iter().enumerate() {
                for (c, settings) in candidates.iter().enumerate() {
                    let name = format!("{algo} {}", c + 1);
                    for task in trials.tasks_of(*algo).filter(|task| run < seeds.unwrap_or(task.seeds)) {
                        let config = scale.config(&task.task, &curve(&name, *algo, settings))?;
                        let job = all.add(&config, trials.first_seed + u64::from(run), &name);
                        let place = trials.tasks.iter().position(|t| t.task == task.task).expect("it is one of them");
                        runs[a][c].push((place, job));
                    }
                }
            }
        }
        let Jobs { jobs, names, .. } = all;
        Ok(TrialPlan { trials, jobs, names, runs })
    }

    /// A candidate's score, the mean over its tasks of the mean over its seeds; none while a run is missing or if one failed.
    pub fn score(&self, algorithm: usize, candidate: usize, known: &[Known]) -> Option<f64> {
        let algo = self.trials.algorithms[algorithm].algo;
        let mut of_task: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for &(task, job) in &self.runs[algorithm][candidate] {
            of_task.entry(task).or_default().push(score(&self.trials.tasks[task], algo, known[job].outcome()?)?);
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Some(mean(&of_task.values().map(|scores| mean(scores)).collect::<Vec<_>>()))
    }

    /// The candidate of an algorithm with the best score, once no run of it is missing.
    pub fn chosen(&self, algorithm: usize, known: &[Known]) -> Option<usize> {
        let runs = self.runs[algorithm].iter().flatten();
        let is_over = |job: usize| !matches!(known[job], Known::Nothing);
        let scores: Vec<Option<f64>> =
            (0..self.runs[algorithm].len()).map(|c| self.score(algorithm, c, known)).collect();
        best(&scores).filter(|_| runs.into_iter().all(|&(_, job)| is_over(job)))
    }

    /// A row for every finished run of every candidate.
    pub fn csv(&self, known: &[Known]) -> String {
        let mut text = "algo,candidate,settings,task,seed,steps,return,length".to_string();
        let costs = known.iter().filter_map(|k| Some(k.outcome()?.summary.costs.len())).max().unwrap_or(0);
        (1..=costs).for_each(|i| text += &format!(",cost_{i},mean_{i},limit_{i},kept_{i}"));
        text += ",kept,score,candidate_score,chosen\n";
        for (a, Candidates { algo, candidates }) in self.trials.algorithms.iter().enumerate() {
            let chosen = self.chosen(a, known);
            for (c, settings) in candidates.iter().enumerate() {
                let settings = quoted(&settings.join(" "));
                let whole = number(self.score(a, c, known));
                for &(task, job) in &self.runs[a][c] {
                    let Some(outcome) = known[job].outcome() else { continue };
                    let (s, task) = (&outcome.summary, &self.trials.tasks[task]);
                    let _ = write!(text, "{algo},{},{settings},{},{},{}", c + 1, s.task, s.seed, s.steps);
                    let _ = write!(text, ",{},{}", number(s.return_mean), number(outcome.length));
                    for (name, cost) in &s.costs {
                        let kept = cost.satisfied.map_or("", flag);
                        let _ = write!(text, ",{name},{},{},{kept}", number(cost.mean), number(cost.limit));
                    }
                    text += &",".repeat(4 * (costs - s.costs.len()));
                    let kept = flag(s.costs.values().all(|cost| cost.satisfied != Some(false)));
                    let own = number(score(task, *algo, outcome));
                    let _ = writeln!(text, ",{kept},{own},{whole},{}", flag(chosen == Some(c)));
                }
            }
        }
        text
    }
}

/// A candidate as a curve.
fn curve(name: &str, algo: Method, settings: &[String]) -> Curve {
    let (name, set) = (name.to_string(), settings.to_vec());
    let (long, limit, paper) = (Vec::new(), Vec::new(), BTreeMap::new());
    Curve { row: name.clone(), name, algo, preset: None, at: None, set, long, limit, paper }
}
