//! `p3o reproduce`: the paper's experiments, from an empty folder to a report.

use crate::args::ReproduceArgs;
use crate::device::Device;
use crate::dry_run::at_a_time;
use crate::screen::{Bars, Grid, duration, say};
use crate::train::shown;
use crate::{Failure, stop_on_ctrl_c};
use p3o::memory::check_all;
use p3o_lab::reproduce::document::Block;
use p3o_lab::reproduce::estimate::{Estimate, estimate};
use p3o_lab::reproduce::{Experiment, Plan, Results, Scale, report};
use p3o_lab::sweep::{Job, Workers, memory, sweep, to_do};
use std::path::Path;
use std::sync::atomic::Ordering;

/// `p3o reproduce`
pub fn reproduce(args: &ReproduceArgs) -> Result<(), Failure> {
    let experiments = Experiment::named(&args.experiments)?;
    let plan = Plan::new(experiments, Scale::named(&args.scale)?, args.seeds, &args.out)?;
    let device = if args.report_only { None } else { Some(Device::of(&args.place)?) };
    let trained = device.map_or(Ok(None), |device| train(args, &plan, &device));
    report(args, &plan)?;
    trained?.iter().for_each(|pace| say!("{pace}"));
    Ok(())
}

/// Runs what is not finished yet; returns a sentence on this sitting if it made more than one run.
fn train(args: &ReproduceArgs, plan: &Plan, device: &Device) -> Result<Option<String>, Failure> {
    let (wanted, cores) = (args.threads.map(usize::from), rayon::current_num_threads());
    let workers = Workers::new(wanted, to_do(&plan.jobs).count(), cores, device);
    check_all(&memory(&plan.jobs, &workers)?)?;
    let estimate = estimate(&plan.jobs, &workers);
    announce(args, plan, &estimate, &workers);
    let open: Vec<usize> = (0..plan.jobs.len()).filter(|&i| !estimate.is_over(i, &plan.jobs[i])).collect();
    let jobs: Vec<Job> = open.iter().map(|&i| plan.jobs[i].clone()).collect();
    let names = open.iter().map(|&i| plan.names[i].clone()).collect();
    // The bar for all counts microseconds, so that fast and slow tasks move it alike.
    let weights = open.iter().map(|&i| estimate.per_step[i] * 1e6).collect();
    let stop = stop_on_ctrl_c("finishing these updates, then saving")?;
    let bars = Bars::weighted(&jobs, names, weights);
    let ended = sweep(&jobs, &workers, &stop, &bars);
    let pace = bars.clear();
    if let Some(error) = ended.iter().find_map(|e| e.as_ref().err()) {
        let failed = ended.iter().filter(|e| e.is_err()).count();
        return Err(Failure::Failed(format!("{error} ({failed} of {} runs failed)", plan.jobs.len())));
    }
    if stop.load(Ordering::SeqCst) && ended.iter().any(|e| matches!(e, Ok(None))) {
        say!("\nSaved. The same command goes on.");
        return Err(Failure::Interrupted);
    }
    Ok(pace)
}

fn announce(args: &ReproduceArgs, plan: &Plan, estimate: &Estimate, workers: &Workers) {
    let (runs, finished) = (plan.jobs.len(), estimate.finished);
    let names = args.experiments.join(", ");
    say!("{names} at scale {}: {runs} runs in {}, {finished} of them finished", plan.scale.name, shown(&args.out));
    if finished < runs {
        let time = duration(estimate.seconds.max(1.0));
        let how = at_a_time(workers);
        say!("About {time} with {how}: an estimate from short measurements and from runs made before.\n");
    }
}

/// Tables on the screen and files in the report's folder.
fn report(args: &ReproduceArgs, plan: &Plan) -> Result<(), Failure> {
    let everything = Plan::new(Experiment::all(), plan.scale.clone(), args.seeds, &args.out)?;
    let all = Results::read(&everything);
    let results = all.of_plan(plan);
    tables(&results);
    let folder = args.out.join("report");
    std::fs::create_dir_all(&folder).map_err(|e| Failure::Failed(format!("cannot make {}: {e}", folder.display())))?;
    let whole = Plan::new(reported(plan, &all), plan.scale.clone(), args.seeds, &args.out)?;
    report::write(&all.of_plan(&whole), &command(args, &whole), &folder)?;
    let (folder, runs) = (shown(&folder), plan.jobs.len());
    say!("\n{} of {runs} runs are in. In {folder}: index.html, README.md, curves.csv, runs.csv", results.finished());
    results.troubles().for_each(|trouble| say!("Left out: {trouble}"));
    Ok(())
}

/// A table for every task of every experiment, but for those that have been there already.
fn tables(results: &Results) {
    let mut printed: Vec<(Vec<Vec<String>>, &str)> = Vec::new();
    for (e, experiment) in results.plan.experiments.iter().enumerate() {
        for (g, group) in experiment.group.iter().enumerate() {
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

/// What makes this report again.
fn command(args: &ReproduceArgs, plan: &Plan) -> String {
    let names: Vec<&str> = plan.experiments.iter().map(|e| e.name.as_str()).collect();
    let names = if names.len() == Experiment::all().len() { "all".to_string() } else { names.join(" ") };
    let seeds = args.seeds.map_or(String::new(), |seeds| format!(" --seeds {seeds}"));
    let out = if args.out == Path::new("reproduce") { String::new() } else { format!(" --out {}", shown(&args.out)) };
    format!("p3o reproduce {names} --scale {}{seeds}{out}", plan.scale.name)
}
