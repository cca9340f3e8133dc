//! What the finished runs of a plan came to, and the small tables of it.

use super::plan::Plan;
use p3o::Error;
use p3o::record::{ProgressCsv, Table, write_atomic};
use p3o::run::{Summary, named_task};
use std::fmt::Write;
use std::path::Path;

/// One finished run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The figures of its last tenth.
    pub summary: Summary,
    /// A row per update.
    pub progress: Table,
}

/// All runs of a plan; none for one that is not finished.
pub struct Results<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// A place per job.
    pub outcomes: Vec<Option<Outcome>>,
}

impl<'a> Results<'a> {
    /// Reads what is there.
    pub fn read(plan: &'a Plan) -> Result<Self, Error> {
        let read = |job: &crate::sweep::Job| {
            let Some(summary) = job.finished()? else { return Ok(None) };
            let progress = ProgressCsv::read(&job.folder.join("progress.csv"))?;
            Ok(Some(Outcome { summary, progress }))
        };
        let outcomes: Result<_, Error> = plan.jobs.iter().map(read).collect();
        Ok(Results { plan, outcomes: outcomes? })
    }

    /// How many runs are finished.
    pub fn finished(&self) -> usize {
        self.outcomes.iter().flatten().count()
    }

    /// The finished runs of a curve.
    pub fn of(&self, experiment: usize, group: usize, curve: usize) -> Vec<&Outcome> {
        self.plan.runs[experiment][group][curve].iter().filter_map(|&run| self.outcomes[run].as_ref()).collect()
    }

    /// The costs of a group's task by name, in its order.
    pub fn costs(&self, experiment: usize, group: usize) -> Vec<String> {
        let config = &self.plan.jobs[self.plan.runs[experiment][group][0][0]].config;
        let spec = named_task(config).expect("the plan has made it once")().spec().clone();
        spec.costs.into_iter().map(|cost| cost.name).collect()
    }

    /// What a curve's cost is measured against: the group's limit, or the one it is trained with.
    pub fn limit(&self, experiment: usize, group: usize, curve: usize, cost: &str) -> Option<f64> {
        let config = &self.plan.jobs[self.plan.runs[experiment][group][curve][0]].config;
        let common = &self.plan.experiments[experiment].group[group].limits;
        common.get(cost).or(config.limits.get(cost)).copied()
    }

    /// The limit of a cost if it is the same for all curves of a group.
    pub fn common_limit(&self, experiment: usize, group: usize, cost: &str) -> Option<f64> {
        let curves = 0..self.plan.experiments[experiment].group[group].curves.len();
        let mut limits = curves.map(|curve| self.limit(experiment, group, curve, cost));
        let first = limits.next().flatten();
        first.filter(|_| limits.all(|limit| limit == first))
    }

    /// How many of a curve's finished runs are within every limit.
    pub fn kept(&self, experiment: usize, group: usize, curve: usize) -> usize {
        let within = |name: &String, mean: Option<f64>| {
            self.limit(experiment, group, curve, name).is_none_or(|limit| mean.is_some_and(|mean| mean <= limit))
        };
        let runs = self.of(experiment, group, curve);
        runs.iter().filter(|run| run.summary.costs.iter().all(|(name, cost)| within(name, cost.mean))).count()
    }

    /// Writes `runs.csv`, a row per finished run.
    pub fn write_csv(&self, folder: &Path) -> Result<(), Error> {
        Ok(write_atomic(&folder.join("runs.csv"), self.runs_csv().as_bytes())?)
    }

    fn runs_csv(&self) -> String {
        let done = || self.outcomes.iter().zip(&self.plan.jobs).filter_map(|(o, job)| Some((o.as_ref()?, job)));
        let costs = done().map(|(o, _)| o.summary.costs.len()).max().unwrap_or(0);
        let mut text = "run,task,algo,scale,seed,steps,wall_s,return".to_string();
        for i in 1..=costs {
            let _ = write!(text, ",cost_{i},mean_{i},limit_{i},kept_{i}");
        }
        text.push('\n');
        for (Outcome { summary: s, .. }, job) in done() {
            let run = job.folder.file_name().unwrap_or_default().to_string_lossy();
            let _ = write!(text, "{run},{},{},{},{},{}", s.task, s.algo, self.plan.scale.name, s.seed, s.steps);
            let _ = write!(text, ",{:.1},{}", s.wall_s, number(s.return_mean));
            for (name, cost) in &s.costs {
                let kept = cost.satisfied.map_or("", |ok| if ok { "1" } else { "0" });
                let _ = write!(text, ",{name},{},{},{kept}", number(cost.mean), number(cost.limit));
            }
            text += &",".repeat(4 * (costs - s.costs.len()));
            text.push('\n');
        }
        text
    }
}

fn number(x: Option<f64>) -> String {
    x.map_or(String::new(), |x| x.to_string())
}
