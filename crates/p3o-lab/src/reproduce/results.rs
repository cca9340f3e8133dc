//! What the finished runs of a plan came to, and the small tables of it.

use super::likeliest::Likeliest;
use super::plan::Plan;
use crate::statistics::{self, Overshoot};
use crate::sweep::{Finished, Job};
use p3o::algo::Constraints;
use p3o::record::{Summary as Sample, Table, write_atomic};
use p3o::run::{Summary, named_task};
use p3o::{Config, Error, RowsOnly};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::Path;
use std::rc::Rc;

/// One finished run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The figures of its last tenth.
    pub summary: Summary,
    /// A row per update.
    pub progress: Table,
    /// Mean length of the episodes that ended in the last tenth; none if none ended.
    pub length: Option<f64>,
    /// Mean cost of a step in the last tenth.
    pub per_step: BTreeMap<String, f64>,
    /// The limits that it trained for: what its margin left of them.
    pub trained_for: BTreeMap<String, f64>,
    /// Whether a checkpoint vouches for its rows.
    pub sealed: bool,
    /// Its last policy, where it was played with its likeliest actions.
    pub likeliest: Option<Likeliest>,
}

/// Where a curve stands in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Which experiment.
    pub experiment: usize,
    /// Which of its groups.
    pub group: usize,
    /// Which curve of the group.
    pub curve: usize,
}

/// What is known of a run.
#[derive(Clone)]
pub enum Known {
    /// It is finished.
    Outcome(Rc<Outcome>),
    /// It is not finished.
    Nothing,
    /// It cannot be read, or could not go on.
    Trouble(String),
}

/// All runs of a plan.
pub struct Results<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// A place per job.
    pub known: Vec<Known>,
}

impl Outcome {
    /// Of a run with these settings and a checkpoint.
    pub fn new(config: &Config, summary: Summary, progress: Table) -> Outcome {
        let ignores = config.algorithm().info().constraints == Constraints::None;
        let limits = config.limits.iter().filter(|_| !ignores);
        let trained_for = limits.map(|(name, limit)| (name.clone(), limit * (1.0 - config.constraint.margin)));
        let per_step =
            |name: &String| Some((name.clone(), late_mean(&progress, &format!("cost_per_step_{name}"), None)?));
        Outcome {
            length: late_mean(&progress, "length", Some("episodes")),
            per_step: summary.costs.keys().filter_map(per_step).collect(),
            trained_for: trained_for.collect(),
            summary,
            progress,
            sealed: true,
            likeliest: None,
        }
    }

    /// Whether two runs came to the very same results.
    fn is_like(&self, other: &Outcome) -> bool {
        let means = |o: &Outcome| o.summary.costs.values().map(|cost| cost.mean).collect::<Vec<_>>();
        self.summary.return_mean == other.summary.return_mean && means(self) == means(other)
    }

    /// The steps after which a cost was over a limit for the first time; all steps if it never was.
    fn first_over(&self, cost: &str, limit: f64) -> f64 {
        let (steps, costs) = (column(&self.progress, "steps"), column(&self.progress, &format!("cost_{cost}")));
        let over = steps.iter().zip(&costs).find(|(_, cost)| **cost > limit).map(|(steps, _)| *steps);
        over.or(steps.last().copied()).unwrap_or(f64::NAN)
    }
}

/// The mean of a column over the last tenth of the steps, weighted by another column if one is named; none without values.
fn late_mean(table: &Table, name: &str, weight: Option<&str>) -> Option<f64> {
    let (steps, value) = (table.column("steps")?, table.column(name)?);
    let weight = weight.map(|weight| table.column(weight));
    let end = table.rows.last()?[steps];
    let (mut sum, mut weights) = (0.0, 0.0);
    for row in table.rows.iter().filter(|row| row[steps] > 0.9 * end && row[value].is_finite()) {
        let w = weight.map_or(Some(1.0), |at| Some(row[at?]))?;
        sum += w * row[value];
        weights += w;
    }
    (weights > 0.0).then_some(sum / weights)
}

impl Known {
    /// What is known of a job.
    pub fn of(job: &Job) -> Known {
        match (job.results(), job.failure()) {
            (Ok(Some(Finished { summary, table, sealed })), _) => {
                let likeliest = Likeliest::of(job);
                Known::Outcome(Rc::new(Outcome { sealed, likeliest, ..Outcome::new(&job.config, summary, table) }))
            }
            (Ok(None), None) => Known::Nothing,
            (Ok(None), Some(failure)) => Known::Trouble(format!("{}: {failure}", job.folder.display())),
            (Err(error), _) => Known::Trouble(error.to_string()),
        }
    }

    /// The run's results, if it is finished.
    pub fn outcome(&self) -> Option<&Outcome> {
        if let Known::Outcome(outcome) = self { Some(outcome) } else { None }
    }

    /// What is wrong with it, if anything is.
    pub fn trouble(&self) -> Option<&str> {
        if let Known::Trouble(trouble) = self { Some(trouble) } else { None }
    }
}

impl<'a> Results<'a> {
    /// Reads what is there.
    pub fn read(plan: &'a Plan) -> Self {
        Results { plan, known: plan.jobs.iter().map(Known::of).collect() }
    }

    /// What is known of the runs of another plan, as far as they are this one's too.
    pub fn of_plan<'b>(&self, plan: &'b Plan) -> Results<'b> {
        let known: HashMap<&Path, &Known> =
            self.plan.jobs.iter().zip(&self.known).map(|(job, known)| (job.folder.as_path(), known)).collect();
        let find = |job: &Job| known.get(job.folder.as_path()).map_or(Known::Nothing, |known| (*known).clone());
        Results { plan, known: plan.jobs.iter().map(find).collect() }
    }

    /// The finished runs.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.known.iter().filter_map(Known::outcome)
    }

    /// How many runs are finished.
    pub fn finished(&self) -> usize {
        self.outcomes().count()
    }

    /// A sentence on finished runs whose checkpoints are not there, if there are any.
    pub fn unsealed(&self) -> Option<String> {
        unsealed(self.outcomes().filter(|run| !run.sealed).count())
    }

    /// What is wrong with runs that cannot be read or could not go on.
    pub fn troubles(&self) -> impl Iterator<Item = &str> {
        self.known.iter().filter_map(Known::trouble)
    }

    /// Every curve of a group.
    pub fn spots(&self, experiment: usize, group: usize) -> Vec<Spot> {
        let curves = 0..self.plan.experiments[experiment].group[group].curves.len();
        curves.map(|curve| Spot { experiment, group, curve }).collect()
    }

    /// The place of a curve in its group.
    pub fn curve_named(&self, experiment: usize, group: usize, name: &str) -> usize {
        let curves = &self.plan.experiments[experiment].group[group].curves;
        curves
            .iter()
            .position(|c| c.name == name)
            .unwrap_or_else(|| panic!("no curve `{name}` in the experiment's file"))
    }

    /// What a curve is called.
    pub fn name(&self, s: Spot) -> &str {
        &self.plan.experiments[s.experiment].group[s.group].curves[s.curve].name
    }

    /// The places of a curve's runs among the plan's jobs.
    pub fn jobs(&self, s: Spot) -> &[usize] {
        &self.plan.runs[s.experiment][s.group][s.curve]
    }

    /// The finished runs of a curve.
    pub fn of(&self, s: Spot) -> Vec<&Outcome> {
        self.jobs(s).iter().filter_map(|&run| self.known[run].outcome()).collect()
    }

    /// How many runs of a curve cannot be read or could not go on.
    pub fn failed(&self, s: Spot) -> usize {
        self.jobs(s).iter().filter(|&&run| self.known[run].trouble().is_some()).count()
    }

    /// How many runs a curve is to have.
    pub fn planned(&self, s: Spot) -> usize {
        self.jobs(s).len()
    }

    /// The costs of a group's task by name, in its order.
    pub fn costs(&self, experiment: usize, group: usize) -> Vec<String> {
        let config = &self.plan.jobs[self.plan.runs[experiment][group][0][0]].config;
        let spec = named_task(config).expect("the plan has made it once")().spec().clone();
        spec.costs.into_iter().map(|cost| cost.name).collect()
    }

    /// What a curve's cost is measured against: the group's limit, or the one it is trained with.
    pub fn limit(&self, s: Spot, cost: &str) -> Option<f64> {
        let config = &self.plan.jobs[self.jobs(s)[0]].config;
        let common = &self.plan.experiments[s.experiment].group[s.group].limits;
        common.get(cost).or(config.limits.get(cost)).copied()
    }

    /// The limit of a cost if it is the same for all curves of a group.
    pub fn common_limit(&self, experiment: usize, group: usize, cost: &str) -> Option<f64> {
        let spots = self.spots(experiment, group);
        let first = self.limit(spots[0], cost);
        first.filter(|_| spots.iter().all(|s| self.limit(*s, cost) == first))
    }

    /// How many of a curve's finished runs are within every limit.
    pub fn kept(&self, s: Spot) -> usize {
        let within = |name: &String, mean: Option<f64>| {
            self.limit(s, name).is_none_or(|limit| mean.is_some_and(|mean| mean <= limit))
        };
        let keeps = |run: &&&Outcome| run.summary.costs.iter().all(|(name, cost)| within(name, cost.mean));
        self.of(s).iter().filter(keeps).count()
    }

    /// The returns of a curve's runs over the last tenth.
    pub fn returns(&self, s: Spot) -> Vec<f64> {
        self.of(s).iter().filter_map(|run| run.summary.return_mean).collect()
    }

    /// A cost of a curve's runs over the last tenth.
    pub fn finals(&self, s: Spot, cost: &str) -> Vec<f64> {
        self.of(s).iter().filter_map(|run| run.summary.costs.get(cost)?.mean).collect()
    }

    /// The returns of a curve's last policies with their likeliest actions, as far as they were played.
    pub fn likeliest_returns(&self, s: Spot) -> Vec<f64> {
        self.of(s).iter().filter_map(|run| Some(run.likeliest.as_ref()?.ret)).collect()
    }

    /// A cost of the same.
    pub fn likeliest_costs(&self, s: Spot, cost: &str) -> Vec<f64> {
        self.of(s).iter().filter_map(|run| run.likeliest.as_ref()?.costs.get(cost).copied()).collect()
    }

    /// The mean lengths of episodes of a curve's runs over the last tenth.
    pub fn lengths(&self, s: Spot) -> Vec<f64> {
        self.of(s).iter().filter_map(|run| run.length).collect()
    }

    /// What a step of a curve's runs cost over the last tenth.
    pub fn per_step(&self, s: Spot, cost: &str) -> Vec<f64> {
        self.of(s).iter().filter_map(|run| run.per_step.get(cost).copied()).collect()
    }

    /// The limits that a curve's runs really trained for; none if they ignored the cost.
    pub fn trained_for(&self, s: Spot, cost: &str) -> Vec<f64> {
        self.of(s).iter().filter_map(|run| run.trained_for.get(cost).copied()).collect()
    }

    /// A cost of a curve's runs over the last tenth, in units of the limits that they really trained for.
    pub fn reached(&self, s: Spot, cost: &str) -> Vec<f64> {
        let share = |run: &&Outcome| Some(run.summary.costs.get(cost)?.mean? / run.trained_for.get(cost)?);
        self.of(s).iter().filter_map(share).collect()
    }

    /// The steps by which a cost of a curve's runs was over its limit earlier than another.
    pub fn earlier_over(&self, s: Spot, cost: &str, than: &str) -> Vec<f64> {
        let Some((limit, other)) = self.limit(s, cost).zip(self.limit(s, than)) else { return Vec::new() };
        self.of(s).iter().map(|run| run.first_over(than, other) - run.first_over(cost, limit)).collect()
    }

    /// Whether all of these curves came to the very same results, run by run.
    pub fn are_alike(&self, spots: &[Spot]) -> bool {
        let alike = |pair: &[Spot]| {
            let (a, b) = (self.of(pair[0]), self.of(pair[1]));
            !a.is_empty() && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_like(b))
        };
        spots.len() > 1 && spots.windows(2).all(alike)
    }

    /// How a curve's runs were over a limit while they learned.
    pub fn overshoots(&self, s: Spot, cost: &str) -> Vec<Overshoot> {
        let Some(limit) = self.limit(s, cost) else { return Vec::new() };
        let over = |run: &&Outcome| statistics::overshoot(&column(&run.progress, &format!("cost_{cost}")), limit);
        self.of(s).iter().map(over).collect()
    }

    /// How much the return of a curve's runs changes from row to row in the second half of training: the standard
    /// deviation of the changes, run by run.
    pub fn changes(&self, s: Spot) -> Vec<f64> {
        let unsteady = |run: &&Outcome| {
            let rows = column(&run.progress, "return");
            let known: Vec<f64> = rows[rows.len() / 2..].iter().copied().filter(|r| r.is_finite()).collect();
            Sample::of(&known.windows(2).map(|w| w[1] - w[0]).collect::<Vec<_>>()).sd
        };
        self.of(s).iter().map(unsteady).filter(|sd| sd.is_finite()).collect()
    }

    /// Writes `runs.csv`, a row per finished run, and `curves.csv`, a row per curve of every experiment.
    pub fn write_csv(&self, folder: &Path) -> Result<(), Error> {
        write_atomic(&folder.join("runs.csv"), self.runs_csv().as_bytes())?;
        Ok(write_atomic(&folder.join("curves.csv"), self.curves_csv().as_bytes())?)
    }

    /// Writes every finished run to `folder`, as far as reports read it: settings, summary, and the columns of its progress that they use.
    /// Copied among the runs of a sweep, these count as finished there. A run that is there already stays as it is.
    pub fn write_runs(&self, folder: &Path) -> Result<(), Error> {
        for (known, job) in self.known.iter().zip(&self.plan.jobs) {
            let Some(outcome) = known.outcome() else { continue };
            let folder = folder.join(job.folder.file_name().expect("a run has a name"));
            let there = Job { config: job.config.clone(), folder };
            let table = outcome.progress.with(&|column| is_reported(column));
            let same = |found: &Finished| found.table == table && found.summary == outcome.summary;
            if !matches!(there.results(), Ok(Some(found)) if same(&found)) {
                let (config, summary) = (job.config.clone(), outcome.summary.clone());
                RowsOnly { config, table, summary }.write(&there.folder)?;
            }
            if let Some(likeliest) = outcome.likeliest.as_ref().filter(|of| Likeliest::of(&there).as_ref() != Some(*of))
            {
                likeliest.write(&there.folder)?;
            }
        }
        Ok(())
    }

    fn runs_csv(&self) -> String {
        let done = || self.known.iter().zip(&self.plan.jobs).filter_map(|(known, job)| Some((known.outcome()?, job)));
        let costs = done().map(|(o, _)| o.summary.costs.len()).max().unwrap_or(0);
        let mut text = "run,task,algo,scale,seed,steps,wall_s,return,length".to_string();
        let likeliest = self.plan.book().likeliest;
        if likeliest {
            text += ",likeliest_return";
        }
        for i in 1..=costs {
            let _ = write!(text, ",cost_{i},mean_{i},per_step_{i},limit_{i},trained_for_{i},kept_{i}");
            let _ = write!(text, ",over_share_{i},over_mean_{i},over_worst_{i}");
            if likeliest {
                let _ = write!(text, ",likeliest_{i}");
            }
        }
        text.push('\n');
        for (outcome, job) in done() {
            let Outcome { summary: s, progress, .. } = outcome;
            let run = job.folder.file_name().unwrap_or_default().to_string_lossy();
            let _ = write!(text, "{run},{},{},{},{},{}", s.task, s.algo, self.plan.scale.name, s.seed, s.steps);
            let _ = write!(text, ",{:.1},{},{}", s.wall_s, number(s.return_mean), number(outcome.length));
            let played = outcome.likeliest.as_ref();
            if likeliest {
                let _ = write!(text, ",{}", number(played.map(|played| played.ret)));
            }
            for (name, cost) in &s.costs {
                let kept = cost.satisfied.map_or("", flag);
                let of = |map: &BTreeMap<String, f64>| number(map.get(name).copied());
                let _ = write!(text, ",{name},{},{}", number(cost.mean), of(&outcome.per_step));
                let _ = write!(text, ",{},{},{kept}", number(cost.limit), of(&outcome.trained_for));
                let over =
                    cost.limit.map(|limit| statistics::overshoot(&column(progress, &format!("cost_{name}")), limit));
                for figure in [over.map(|o| o.share_of_steps), over.map(|o| o.mean_excess), over.map(|o| o.worst)] {
                    let _ = write!(text, ",{}", number(figure));
                }
                if likeliest {
                    let _ = write!(text, ",{}", number(played.and_then(|played| played.costs.get(name).copied())));
                }
            }
            text += &",".repeat((9 + usize::from(likeliest)) * (costs - s.costs.len()));
            text.push('\n');
        }
        text
    }

    fn curves_csv(&self) -> String {
        let groups = || {
            let of = |(e, experiment): (usize, &super::Experiment)| {
                (0..experiment.group.len()).map(move |g| (e, g)).collect::<Vec<_>>()
            };
            self.plan.experiments.iter().enumerate().flat_map(of)
        };
        let costs = groups().map(|(e, g)| self.costs(e, g).len()).max().unwrap_or(0);
        let mut text =
            "experiment,task,curve,algo,seeds,return,return_low,return_high,return_iqm,iqm_low,iqm_high,length,kept"
                .to_string();
        for i in 1..=costs {
            let _ = write!(text, ",cost_{i},mean_{i},low_{i},high_{i},per_step_{i},limit_{i},trained_for_{i}");
        }
        text.push('\n');
        for (e, g) in groups() {
            let (experiment, names) = (&self.plan.experiments[e], self.costs(e, g));
            for spot in self.spots(e, g) {
                let (group, returns) = (&experiment.group[g], self.returns(spot));
                let (name, algo) = (self.name(spot), &group.curves[spot.curve].algo);
                let name = quoted(name);
                let _ = write!(text, "{},{},{name},{algo},{}", experiment.name, group.task, self.of(spot).len());
                for x in [statistics::mean_ci95(&returns), statistics::iqm_ci95(&[returns], 0)] {
                    let _ = write!(text, ",{},{},{}", finite(x.mean), finite(x.low), finite(x.high));
                }
                let mean = |values: &[f64]| finite(statistics::mean_ci95(values).mean);
                let _ = write!(text, ",{},{}", mean(&self.lengths(spot)), self.kept(spot));
                for cost in &names {
                    let x = statistics::mean_ci95(&self.finals(spot, cost));
                    let _ = write!(text, ",{cost},{},{},{}", finite(x.mean), finite(x.low), finite(x.high));
                    let limit = number(self.limit(spot, cost));
                    let (per_step, trained_for) = (self.per_step(spot, cost), self.trained_for(spot, cost));
                    let _ = write!(text, ",{},{limit},{}", mean(&per_step), mean(&trained_for));
                }
                text += &",".repeat(7 * (costs - names.len()));
                text.push('\n');
            }
        }
        text
    }
}

/// A sentence on so many runs without a checkpoint; none on none.
pub fn unsealed(runs: usize) -> Option<String> {
    match runs {
        0 => None,
        1 => Some("1 run without a checkpoint: its rows vouch for themselves alone.".into()),
        _ => Some(format!("{runs} runs without a checkpoint: their rows vouch for themselves alone.")),
    }
}

/// Whether reports use a column of a run's progress.
fn is_reported(column: &str) -> bool {
    ["update", "steps", "episodes", "return", "length", "wall_s"].contains(&column) || column.starts_with("cost_")
}

fn column(table: &Table, name: &str) -> Vec<f64> {
    let at = table.column(name).expect("progress.csv has been written by this program");
    table.rows.iter().map(|row| row[at]).collect()
}

/// Yes or no as a field of a CSV file.
pub(super) fn flag(is: bool) -> &'static str {
    if is { "1" } else { "0" }
}

/// A field of a CSV file.
pub(super) fn quoted(text: &str) -> String {
    if text.contains(',') { format!("\"{text}\"") } else { text.to_string() }
}

pub(super) fn number(x: Option<f64>) -> String {
    x.map_or(String::new(), finite)
}

fn finite(x: f64) -> String {
    if x.is_finite() { x.to_string() } else { String::new() }
}

/// A figure for people: three or four digits that matter.
pub fn short(x: f64) -> String {
    match x.abs() {
        a if !a.is_finite() => "-".into(),
        a if a >= 100.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}
