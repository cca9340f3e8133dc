//! `p3o compare`: several algorithms on one task, side by side.

use crate::args::CompareArgs;
use crate::device::Device;
use crate::screen::{Bars, Grid, duration, figure, say, thousands};
use crate::train::{parse_steps, shown};
use crate::{Failure, dry_run, plot, stop_on_ctrl_c};
use p3o::algo::Constraints;
use p3o::memory::check_all;
use p3o::record::{Summary as Sample, Table, write_atomic};
use p3o::run::Summary;
use p3o::{Algorithm, Config, ConfigError, Error, Method, Request, RunFolder};
use p3o_lab::figure::{Row, curves};
use p3o_lab::sweep::{Ended, Job, Place, Workers, memory, sweep, to_do};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// `p3o compare`
pub fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let methods = methods(args)?;
    let folder = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("runs/compare-{}", args.task)));
    let jobs = jobs(args, &methods, &folder)?;
    // Before any of them starts: none would be in the table.
    jobs.iter().try_for_each(Job::check_folder)?;
    let device = Device::of(&args.place)?;
    let (wanted, cores) = (args.threads.map(usize::from), rayon::current_num_threads());
    let workers = Workers::new(wanted, to_do(&jobs).count(), cores, &device);
    if args.dry_run {
        return dry_run::of_runs(&jobs, &methods, &folder, &workers);
    }
    check_all(&memory(&jobs, &workers)?)?;
    if !device.is_cpu() {
        say!("Training {}.", dry_run::at_a_time(&workers));
    }
    let stop = stop_on_ctrl_c("finishing these updates, then saving")?;
    let bars = Bars::new(&jobs);
    let ended = sweep(&jobs, &workers, &stop, &bars);
    let pace = bars.clear();
    let done = ended.iter().filter(|e| matches!(e, Ok(Some(_)))).count();
    if let Some(error) = ended.iter().find_map(|e| e.as_ref().err()) {
        return Err(Failure::Failed(format!("{error} ({done} of {} runs are done)", jobs.len())));
    }
    if stop.load(Ordering::SeqCst) && done < jobs.len() {
        say!("Saved with {done} of {} runs done. The same command goes on.", jobs.len());
        return Err(Failure::Interrupted);
    }
    let summaries: Vec<Summary> = ended.into_iter().filter_map(Ended::ok).flatten().collect();
    write_atomic(&folder.join("compare.csv"), csv(&summaries).as_bytes()).map_err(Error::from)?;
    let groups = group(&methods, &jobs)?;
    let costs: Vec<_> = summaries[0].costs.iter().map(|(name, cost)| (name.clone(), cost.limit)).collect();
    let picture = curves(&[Row { title: args.task.clone(), groups, costs }]);
    for name in ["compare.svg", "compare.png"] {
        plot::write(&picture, &folder.join(name))?;
    }
    table(args, &methods, &summaries);
    say!("\nIn {}: compare.csv, compare.svg, compare.png, a run's folder per algorithm and seed", shown(&folder));
    pace.iter().for_each(|pace| say!("{pace}"));
    Ok(())
}

/// What to compare: what is named, or the paper's algorithms, CPO only where it can keep all limits.
fn methods(args: &CompareArgs) -> Result<Vec<Method>, Failure> {
    if args.algos.is_empty() {
        let several = request(args, Algorithm::P3o.into())?.resolve()?.config.limits.len() > 1;
        let all = [Algorithm::P3o, Algorithm::Cpo, Algorithm::PpoLag, Algorithm::Focops, Algorithm::Ppo];
        let able = |a: &Algorithm| !several || a.info().constraints != Constraints::One;
        return Ok(all.into_iter().filter(able).map(Method::from).collect());
    }
    let mut methods = Vec::new();
    for algo in &args.algos {
        let method = Method::named(algo)?;
        if methods.contains(&method) {
            return Err(Failure::Usage(format!("--algos names {algo} twice")));
        }
        methods.push(method);
    }
    Ok(methods)
}

fn request(args: &CompareArgs, method: Method) -> Result<Request, Failure> {
    Ok(Request {
        preset: args.preset.clone().unwrap_or_else(|| "quick".into()),
        set: args.set.clone(),
        limits: args.limit.clone(),
        steps: args.steps.as_deref().map(parse_steps).transpose()?,
        shared: true,
        ..Request::new(&args.task, method)
    })
}

/// All algorithms with the first seed, then with the next: a table can be had early.
fn jobs(args: &CompareArgs, methods: &[Method], folder: &Path) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    for seed in 0..u64::from(args.seeds) {
        for &method in methods {
            let config = Request { seed: Some(seed), ..request(args, method)? }.resolve()?.config;
            jobs.push(Job { config, folder: folder.join(format!("{method}-seed{seed}")) });
        }
    }
    somebody_has(&args.set, &jobs)?;
    Ok(jobs)
}

/// A setting that none of the runs has or feels is a mistake.
fn somebody_has(set: &[String], jobs: &[Job]) -> Result<(), Failure> {
    for assignment in set {
        let try_on = |job: &Job| {
            let is_bptt = assignment.split('=').next().is_some_and(|key| key.trim() == "net.bptt");
            if is_bptt && !job.config.net.is_recurrent() {
                return Err(ConfigError::WithoutMemory);
            }
            Config::set(&mut job.config.clone(), assignment)
        };
        let errors: Vec<_> = jobs.iter().map(try_on).collect();
        if errors.iter().all(Result::is_err) {
            errors.into_iter().collect::<Result<(), _>>()?;
        }
    }
    Ok(())
}

/// The progress of every algorithm's runs.
fn group(methods: &[Method], jobs: &[Job]) -> Result<Vec<(String, Vec<Table>)>, Error> {
    let of = |method: &Method| {
        let own = jobs.iter().filter(|job| job.config.method() == *method);
        let tables: Result<Vec<Table>, _> = own.map(|job| RunFolder::open(&job.folder).map(|run| run.table)).collect();
        Ok((method.to_string(), tables?))
    };
    methods.iter().map(of).collect()
}

/// A row per run.
fn csv(summaries: &[Summary]) -> String {
    let mut text = "algo,seed,steps,return".to_string();
    for name in summaries[0].costs.keys() {
        let _ = write!(text, ",cost_{name},limit_{name},kept_{name}");
    }
    text += ",wall_s\n";
    for s in summaries {
        let number = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
        let _ = write!(text, "{},{},{},{}", s.algo, s.seed, s.steps, number(s.return_mean));
        for cost in s.costs.values() {
            let kept = cost.satisfied.map_or(String::new(), |ok| u8::from(ok).to_string());
            let _ = write!(text, ",{},{},{kept}", number(cost.mean), number(cost.limit));
        }
        let _ = writeln!(text, ",{}", s.wall_s);
    }
    text
}

/// Mean and standard deviation over the seeds.
fn spread(values: impl Iterator<Item = Option<f64>>) -> String {
    let values: Vec<f64> = values.map(|v| v.unwrap_or(f64::NAN)).collect();
    let sample = Sample::of(&values);
    if values.len() < 2 { figure(sample.mean) } else { format!("{} ± {}", figure(sample.mean), figure(sample.sd)) }
}

fn table(args: &CompareArgs, methods: &[Method], summaries: &[Summary]) {
    let seeds = if args.seeds == 1 { "seed 0".to_string() } else { format!("{} seeds", args.seeds) };
    say!("\n{}: {} steps, {seeds}; means over the last tenth\n", args.task, thousands(summaries[0].steps as f64));
    let limits = summaries[0].costs.iter().map(|(name, cost)| match cost.limit {
        Some(limit) => format!("cost {name} (limit {limit})"),
        None => format!("cost {name}"),
    });
    let headings: Vec<String> = ["", "return"].map(String::from).into_iter().chain(limits).collect();
    let mut headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    headings.extend(["limits kept", "time per run"]);
    let mut grid = Grid::new(&headings);
    for algo in methods.iter().map(Method::to_string) {
        let own: Vec<&Summary> = summaries.iter().filter(|s| s.algo == algo).collect();
        // A cost that no episode has shown is not one within its limit.
        let keeps = |s: &&&Summary| s.costs.values().all(|c| c.limit.is_none() || c.satisfied == Some(true));
        let kept = own.iter().filter(keeps).count();
        let mut row = vec![algo, spread(own.iter().map(|s| s.return_mean))];
        row.extend(summaries[0].costs.keys().map(|name| spread(own.iter().map(|s| s.costs[name].mean))));
        row.push(format!("{kept} of {}", own.len()));
        row.push(duration(own.iter().map(|s| s.wall_s).sum::<f64>() / own.len() as f64));
        grid.row(row);
        grid.paint(headings.len() - 2, kept == own.len());
    }
    grid.print();
}
