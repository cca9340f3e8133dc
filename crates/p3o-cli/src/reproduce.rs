//! `p3o reproduce` and `p3o benchmark`: the paper's experiments and the field's tasks, from an empty folder to a report.

use crate::args::{BenchmarkArgs, ReproduceArgs, SeriesArgs};
use crate::device::Device;
use crate::dry_run::at_a_time;
use crate::screen::{Bars, Grid, duration, say};
use crate::train::shown;
use crate::{Failure, sitting, stop_on_ctrl_c};
use p3o::config::known;
use p3o::memory::check_all;
use p3o::record::write_atomic;
use p3o::run::has_checkpoint;
use p3o_lab::reproduce::document::Block;
use p3o_lab::reproduce::estimate::{Estimate, estimate};
use p3o_lab::reproduce::likeliest::Likeliest;
use p3o_lab::reproduce::results::{self, Known};
use p3o_lab::reproduce::{BENCHMARK, Book, Experiment, PAPER, Plan, Results, Scale, TrialPlan, Trials, report};
use p3o_lab::sweep::{Job, Workers, memory, sweep, to_do};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// What the runs are called that choose settings.
const TRIALS: &str = "trials";

/// What is asked for: runs of some experiments, and a report of them.
struct Series {
    book: &'static Book,
    experiments: Vec<String>,
    only: Vec<String>,
    out: PathBuf,
    how: SeriesArgs,
}

impl Series {
    fn new(book: &'static Book, experiments: Vec<String>, only: Vec<String>, how: SeriesArgs) -> Series {
        let out = how.out.clone().unwrap_or_else(|| PathBuf::from(book.command));
        Series { book, experiments, only, out, how }
    }
}

/// `p3o reproduce`
pub fn reproduce(args: ReproduceArgs) -> Result<(), Failure> {
    let series = Series::new(&PAPER, args.experiments, args.only, args.how);
    if series.experiments.iter().any(|name| name == TRIALS) { trials(&series) } else { experiments(&series) }
}

/// `p3o benchmark`
pub fn benchmark(args: BenchmarkArgs) -> Result<(), Failure> {
    let all = BENCHMARK.all().into_iter().map(|experiment| experiment.name).collect();
    experiments(&Series::new(&BENCHMARK, all, args.tasks, args.how))
}

/// The runs of experiments and what they say.
fn experiments(args: &Series) -> Result<(), Failure> {
    let experiments = args.book.named(&args.experiments)?;
    let plan = Plan::new(experiments, Scale::named(&args.how.scale)?, args.how.seeds, &args.out)?;
    let (jobs, names) = wanted(args, &plan.jobs, &plan.names, &plan.rows())?;
    let device = device(args)?;
    let names_of = |plan: &Plan| plan.experiments.iter().map(|e| e.name.clone()).collect::<Vec<_>>();
    let trained = train(args, device.as_ref(), &jobs, &names, &command(args, &names_of(&plan)));
    if args.book.likeliest {
        play(&jobs)?;
    }
    if args.how.shard.is_none() {
        report(args, &plan, &|plan| command(args, &names_of(plan)))?;
    }
    trained?.iter().for_each(|pace| say!("{pace}"));
    Ok(())
}

/// Plays the last policies of finished runs whose checkpoints are here and that were not played yet.
fn play(jobs: &[Job]) -> Result<(), Failure> {
    let is_open = |job: &&Job| has_checkpoint(&job.folder) && matches!(job.finished(), Ok(Some(_)));
    for job in jobs.iter().filter(is_open).filter(|job| Likeliest::of(job).is_none()) {
        Likeliest::play(job)?;
    }
    Ok(())
}

/// The runs by which the settings of the contest are chosen, and the table of them.
fn trials(args: &Series) -> Result<(), Failure> {
    if args.experiments.len() > 1 {
        return Err(Failure::Usage(format!("{TRIALS} are run alone, without experiments beside them")));
    }
    if !args.how.row.is_empty() {
        return Err(Failure::Usage(format!("{TRIALS} choose the settings of rows, so none of them can be picked")));
    }
    let plan = TrialPlan::new(Trials::of_contest(), Scale::named(&args.how.scale)?, args.how.seeds, &args.out)?;
    let (jobs, names) = wanted(args, &plan.jobs, &plan.names, &[])?;
    let device = device(args)?;
    let trained = train(args, device.as_ref(), &jobs, &names, &command(args, &args.experiments));
    if args.how.shard.is_none() {
        report_trials(args, &plan)?;
    }
    trained?.iter().for_each(|pace| say!("{pace}"));
    Ok(())
}

/// The table of what is finished of them.
fn report_trials(args: &Series, plan: &TrialPlan) -> Result<(), Failure> {
    let _lock = sitting::report_lock(&args.out)?;
    let made: Vec<Known> = plan.jobs.iter().map(Known::of).collect();
    let folder = report_folder(args)?;
    write_atomic(&folder.join("trials.csv"), plan.csv(&made).as_bytes()).map_err(p3o::Error::from)?;
    let mut grid = Grid::new(&["algorithm", "candidate", "score", "", "settings"]);
    for (a, algorithm) in plan.trials.algorithms.iter().enumerate() {
        let chosen = plan.chosen(a, &made);
        for (c, settings) in algorithm.candidates.iter().enumerate() {
            let score = plan.score(a, c, &made).map_or("-".to_string(), |score| format!("{score:.3}"));
            let mark = if chosen == Some(c) { "chosen" } else { "" };
            let settings = settings.join(" ");
            grid.row(vec![algorithm.algo.to_string(), (c + 1).to_string(), score, mark.to_string(), settings]);
        }
    }
    grid.print();
    let (done, runs) = (made.iter().filter(|k| k.outcome().is_some()).count(), plan.jobs.len());
    say!("\n{done} of {runs} runs are in. In {}: trials.csv", shown(&folder));
    let unsealed = made.iter().filter_map(Known::outcome).filter(|run| !run.sealed).count();
    results::unsealed(unsealed).iter().for_each(|line| say!("{line}"));
    made.iter().filter_map(Known::trouble).for_each(|trouble| say!("Left out: {trouble}"));
    Ok(())
}

/// The runs that are to be trained, of the wanted tasks and rows and of the shard, with their names.
fn wanted(
    args: &Series,
    jobs: &[Job],
    names: &[String],
    rows: &[BTreeSet<&str>],
) -> Result<(Vec<Job>, Vec<String>), Failure> {
    let tasks: BTreeSet<&str> = jobs.iter().map(|job| job.config.task.as_str()).collect();
    args.only.iter().try_for_each(|task| known("task", task, tasks.iter().copied()))?;
    let all_rows: BTreeSet<&str> = rows.iter().flatten().copied().collect();
    args.how.row.iter().try_for_each(|row| known("row", row, all_rows.iter().copied()))?;
    let is_wanted = |i: usize| {
        let of_row = || args.how.row.iter().any(|row| rows[i].contains(row.as_str()));
        (args.only.is_empty() || args.only.contains(&jobs[i].config.task)) && (args.how.row.is_empty() || of_row())
    };
    let wanted = (0..jobs.len()).filter(|&i| is_wanted(i)).map(|i| (jobs[i].clone(), names[i].clone()));
    let (jobs, names): (Vec<Job>, Vec<String>) = wanted.unzip();
    let share = sitting::share(args.how.shard, &jobs);
    Ok(share.into_iter().map(|i| (jobs[i].clone(), names[i].clone())).unzip())
}

/// Where the runs learn; nowhere if only a report is wanted.
fn device(args: &Series) -> Result<Option<Device>, Failure> {
    if args.how.report_only { Ok(None) } else { Device::of(&args.how.place).map(Some) }
}

/// Runs what is not finished yet, if there is a device for it; returns a sentence on this sitting if it made more than one run.
/// `again` is the command without what only this sitting wants.
fn train(
    args: &Series,
    device: Option<&Device>,
    all: &[Job],
    names: &[String],
    again: &str,
) -> Result<Option<String>, Failure> {
    let Some(device) = device else { return Ok(None) };
    let (wanted, cores) = (args.how.threads.map(usize::from), rayon::current_num_threads());
    let workers = Workers::new(wanted, to_do(all).count(), cores, device);
    check_all(&memory(all, &workers)?)?;
    let estimate = estimate(all, &workers);
    announce(args, all.len(), &estimate, &workers);
    let open: Vec<usize> = (0..all.len()).filter(|&i| !estimate.is_over(i, &all[i])).collect();
    let jobs: Vec<Job> = open.iter().map(|&i| all[i].clone()).collect();
    let names = open.iter().map(|&i| names[i].clone()).collect();
    // The bar for all counts microseconds, so that fast and slow tasks move it alike.
    let weights = open.iter().map(|&i| estimate.per_step[i] * 1e6).collect();
    let stop = stop_on_ctrl_c(Some("finishing these updates, then saving"))?;
    let bars = Bars::weighted(&jobs, names, weights);
    let ended = sweep(&jobs, &workers, &stop, &bars);
    let pace = bars.clear();
    let verdict = sitting::verdict(&jobs, &ended, all.len(), stop.load(Ordering::SeqCst));
    if let Some(shard) = args.how.shard {
        let left = ended.iter().filter(|e| !matches!(e, Ok(Some(_)))).count();
        sitting::conclude(shard, all.len() - left, all.len(), &format!("{again} --report-only"));
    }
    verdict.map(|()| pace)
}

fn announce(args: &Series, runs: usize, estimate: &Estimate, workers: &Workers) {
    let (names, finished) = (args.experiments.join(", "), estimate.finished);
    let shard = args.how.shard.map_or(String::new(), |shard| format!(", shard {shard}"));
    say!(
        "{names} at scale {}{shard}: {runs} runs in {}, {finished} of them finished",
        args.how.scale,
        shown(&args.out)
    );
    if finished < runs {
        let time = duration(estimate.seconds.max(1.0));
        let how = at_a_time(workers);
        say!("About {time} with {how}: an estimate from short measurements and from runs made before.\n");
    }
}

/// Tables on the screen and files in the report's folder; `command` makes the report of a plan again.
fn report(args: &Series, plan: &Plan, command: &dyn Fn(&Plan) -> String) -> Result<(), Failure> {
    let _lock = sitting::report_lock(&args.out)?;
    let everything = Plan::new(args.book.all(), plan.scale.clone(), args.how.seeds, &args.out)?;
    let all = Results::read(&everything);
    let results = all.of_plan(plan);
    tables(&results);
    let folder = report_folder(args)?;
    let whole = Plan::new(reported(plan, &all), plan.scale.clone(), args.how.seeds, &args.out)?;
    report::write(&all.of_plan(&whole), &command(&whole), &folder)?;
    let (folder, runs) = (shown(&folder), plan.jobs.len());
    say!("\n{} of {runs} runs are in. In {folder}: index.html, README.md, curves.csv, runs.csv", results.finished());
    results.unsealed().iter().for_each(|line| say!("{line}"));
    results.troubles().for_each(|trouble| say!("Left out: {trouble}"));
    Ok(())
}

fn report_folder(args: &Series) -> Result<PathBuf, Failure> {
    let folder = args.out.join("report");
    std::fs::create_dir_all(&folder).map_err(|e| Failure::Failed(format!("cannot make {}: {e}", folder.display())))?;
    Ok(folder)
}

/// A table for every task of every experiment, but for those that have been there already.
fn tables(results: &Results) {
    let mut printed: Vec<(Vec<Vec<String>>, &str)> = Vec::new();
    for (e, experiment) in results.plan.experiments.iter().enumerate() {
        for (g, group) in experiment.group.iter().enumerate() {
            if results.spots(e, g).into_iter().all(|spot| results.of(spot).is_empty()) {
                say!("\n{}; {}: no run is in", experiment.title, group.task);
                continue;
            }
            let Block::Table { head, rows } = report::means(results, (e, g)) else { continue };
            let figures: Vec<Vec<String>> = rows.iter().map(|row| row[..3].to_vec()).collect();
            if let Some((_, before)) = printed.iter().find(|(other, _)| *other == figures) {
                say!("\n{}; {}: the same runs as in {before}", experiment.title, group.task);
                continue;
            }
            say!("\n{}; {}, ± is half of the 95 % interval\n", experiment.title, group.task);
            let mut grid = Grid::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
            rows.into_iter().for_each(|row| grid.row(row));
            grid.print();
            printed.push((figures, &experiment.title));
        }
    }
}

/// The experiments that were asked for, and those that have runs of every curve already.
fn reported(plan: &Plan, all: &Results) -> Vec<Experiment> {
    let is_there = |e: usize| {
        let groups = 0..all.plan.experiments[e].group.len();
        groups.flat_map(|g| all.spots(e, g)).all(|spot| !all.of(spot).is_empty())
    };
    let wanted = |name: &str| plan.experiments.iter().any(|e| e.name == name);
    let kept = all.plan.experiments.iter().enumerate().filter(|(e, x)| wanted(&x.name) || is_there(*e));
    kept.map(|(_, experiment)| experiment.clone()).collect()
}

/// What makes runs and report again.
fn command(args: &Series, names: &[String]) -> String {
    let (command, all) = (args.book.command, names.len() == args.book.all().len());
    let names = match () {
        () if args.book.command == BENCHMARK.command => String::new(),
        () if all => " all".to_string(),
        () => format!(" {}", names.join(" ")),
    };
    let seeds = args.how.seeds.map_or(String::new(), |seeds| format!(" --seeds {seeds}"));
    let out = if args.out == Path::new(command) { String::new() } else { format!(" --out {}", shown(&args.out)) };
    format!("p3o {command}{names} --scale {}{seeds}{out}", args.how.scale)
}
