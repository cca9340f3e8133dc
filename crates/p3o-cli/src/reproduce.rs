//! `p3o reproduce`: the paper's experiments, from an empty folder to a report.

use crate::args::ReproduceArgs;
use crate::screen::{Bars, Grid, duration, figure, say};
use crate::train::shown;
use crate::{Failure, stop_on_ctrl_c};
use p3o::record::Summary as Sample;
use p3o_lab::reproduce::estimate::{Estimate, estimate};
use p3o_lab::reproduce::{Experiment, Plan, Results, Scale};
use p3o_lab::sweep::{Job, sweep};
use std::sync::atomic::Ordering;

/// `p3o reproduce`
pub fn reproduce(args: &ReproduceArgs) -> Result<(), Failure> {
    let experiments = Experiment::named(&args.experiments)?;
    let plan = Plan::new(experiments, Scale::named(&args.scale)?, args.seeds, &args.out)?;
    let trained = if args.report_only { Ok(()) } else { train(args, &plan) };
    report(args, &plan)?;
    trained
}

/// Runs what is not finished yet.
fn train(args: &ReproduceArgs, plan: &Plan) -> Result<(), Failure> {
    let workers = args.threads.map_or_else(rayon::current_num_threads, usize::from);
    let estimate = estimate(&plan.jobs, workers)?;
    announce(args, plan, &estimate, workers);
    let open: Vec<usize> = (0..plan.jobs.len()).filter(|&i| !estimate.is_over(i, &plan.jobs[i])).collect();
    let jobs: Vec<Job> = open.iter().map(|&i| plan.jobs[i].clone()).collect();
    let names = open.iter().map(|&i| plan.names[i].clone()).collect();
    // The bar for all counts microseconds, so that fast and slow tasks move it alike.
    let weights = open.iter().map(|&i| estimate.per_step[i] * 1e6).collect();
    let stop = stop_on_ctrl_c("finishing these updates, then saving")?;
    let bars = Bars::weighted(&jobs, names, weights);
    let ended = sweep(&jobs, workers, &stop, &bars);
    bars.clear();
    if let Some(error) = ended.iter().find_map(|e| e.as_ref().err()) {
        let failed = ended.iter().filter(|e| e.is_err()).count();
        return Err(Failure::Failed(format!("{error} ({failed} of {} runs failed)", plan.jobs.len())));
    }
    if stop.load(Ordering::SeqCst) && ended.iter().any(|e| matches!(e, Ok(None))) {
        say!("\nSaved. The same command goes on.");
        return Err(Failure::Interrupted);
    }
    Ok(())
}

fn announce(args: &ReproduceArgs, plan: &Plan, estimate: &Estimate, workers: usize) {
    let (runs, finished) = (plan.jobs.len(), estimate.finished);
    let names = args.experiments.join(", ");
    say!("{names} at scale {}: {runs} runs in {}, {finished} of them finished", plan.scale.name, shown(&args.out));
    if finished < runs {
        let time = duration(estimate.seconds.max(1.0));
        let runs = if workers == 1 { "one run".to_string() } else { format!("{workers} runs") };
        say!("About {time} with {runs} at a time: an estimate from short measurements and from runs made before.\n");
    }
}

/// Tables on the screen and files in the report's folder.
fn report(args: &ReproduceArgs, plan: &Plan) -> Result<(), Failure> {
    let results = Results::read(plan)?;
    let folder = args.out.join("report");
    std::fs::create_dir_all(&folder).map_err(|e| Failure::Failed(format!("cannot make {}: {e}", folder.display())))?;
    results.write_csv(&folder)?;
    for (e, experiment) in plan.experiments.iter().enumerate() {
        for g in 0..experiment.group.len() {
            say!("\n{}; {}, means over the last tenth\n", experiment.title, experiment.group[g].task);
            table(&results, e, g);
        }
    }
    say!("\n{} of {} runs are in. In {}: runs.csv", results.finished(), plan.jobs.len(), shown(&folder));
    Ok(())
}

/// A row per curve, with the paper's figures where it has any.
fn table(results: &Results, e: usize, g: usize) {
    let group = &results.plan.experiments[e].group[g];
    let costs = results.costs(e, g);
    let in_paper = group.curves.iter().any(|c| !c.paper.is_empty());
    let mut headings = vec!["".to_string(), "seeds".into(), "return".into()];
    for name in &costs {
        let limit = results.common_limit(e, g, name);
        headings.push(limit.map_or(name.clone(), |limit| format!("{name} ({limit})")));
    }
    headings.push("limits kept".into());
    if in_paper {
        headings
            .extend(std::iter::once("return").chain(costs.iter().map(String::as_str)).map(|n| format!("paper: {n}")));
    }
    let mut grid = Grid::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    for (c, curve) in group.curves.iter().enumerate() {
        let runs = results.of(e, g, c);
        let mut row = vec![curve.name.clone(), runs.len().to_string()];
        row.push(spread(runs.iter().map(|r| r.summary.return_mean)));
        row.extend(costs.iter().map(|name| spread(runs.iter().map(|r| r.summary.costs[name].mean))));
        row.push(format!("{} of {}", results.kept(e, g, c), runs.len()));
        if in_paper {
            let quoted = |name: &str| curve.paper.get(name).map_or(String::new(), |(m, h)| format!("{m} ± {h}"));
            row.extend(std::iter::once("return").chain(costs.iter().map(String::as_str)).map(quoted));
        }
        grid.row(row);
    }
    grid.print();
}

/// Mean and deviation over the seeds.
fn spread(values: impl Iterator<Item = Option<f64>>) -> String {
    let values: Vec<f64> = values.flatten().collect();
    let sample = Sample::of(&values);
    match values.len() {
        0 => "-".into(),
        1 => figure(sample.mean),
        _ => format!("{} ± {}", figure(sample.mean), figure(sample.sd)),
    }
}
