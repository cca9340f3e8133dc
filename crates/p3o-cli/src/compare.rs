//! `p3o compare`: several algorithms on one task, side by side.

use crate::args::CompareArgs;
use crate::device::Device;
use crate::screen::{Bars, Grid, duration, figure, say, thousands};
use crate::train::{parse_steps, shown};
use crate::{Failure, dry_run, plot, sitting, stop_on_ctrl_c};
use p3o::algo::Constraints;
use p3o::memory::check_all;
use p3o::record::{Summary as Sample, Table, write_atomic};
use p3o::run::Summary;
use p3o::{Algorithm, Config, ConfigError, Error, Method, Request};
use p3o_lab::figure::{Row, curves};
use p3o_lab::reproduce::results::unsealed;
use p3o_lab::sweep::{Finished, Job, Workers, memory, sweep, to_do};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// `p3o compare`
pub fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let methods = methods(args)?;
    let folder = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("runs/compare-{}", args.task)));
    let all = jobs(args, &methods, &folder)?;
    if args.report_only {
        return report(args, &methods, &all, &folder);
    }
    let share: Vec<Job> = sitting::share(args.shard, &all).into_iter().map(|i| all[i].clone()).collect();
    // Before any of them starts: none would be in the table.
    share.iter().try_for_each(Job::check_folder)?;
    let device = Device::of(&args.place)?;
    let (wanted, cores) = (args.threads.map(usize::from), rayon::current_num_threads());
    let workers = Workers::new(wanted, to_do(&share).count(), cores, &device);
    if args.dry_run && !share.is_empty() {
        return dry_run::of_runs(&about(args, &methods, &share, &all), &share, &folder, &workers);
    }
    let pace = train(args, &share, &workers)?;
    if args.shard.is_none() {
        report(args, &methods, &all, &folder)?;
    }
    pace.iter().for_each(|pace| say!("{pace}"));
    Ok(())
}

/// Which runs there are.
fn about(args: &CompareArgs, methods: &[Method], share: &[Job], all: &[Job]) -> String {
    let names: Vec<String> = methods.iter().map(Method::to_string).collect();
    let of = args.shard.map_or(String::new(), |shard| format!(" of {} (shard {shard})", all.len()));
    format!("{}{of}: {} with seeds 0 to {}", share.len(), names.join(", "), args.seeds - 1)
}

/// Runs what is not finished yet; returns a sentence on this sitting if it made more than one run.
fn train(args: &CompareArgs, jobs: &[Job], workers: &Workers) -> Result<Option<String>, Failure> {
    check_all(&memory(jobs, workers)?)?;
    if !workers.place.is_cpu() {
        say!("Training {}.", dry_run::at_a_time(workers));
    }
    let stop = stop_on_ctrl_c(Some("finishing these updates, then saving"))?;
    let bars = Bars::new(jobs);
    let ended = sweep(jobs, workers, &stop, &bars);
    let pace = bars.clear();
    let verdict = sitting::verdict(jobs, &ended, jobs.len(), stop.load(Ordering::SeqCst));
    if let Some(shard) = args.shard {
        let done = ended.iter().filter(|e| matches!(e, Ok(Some(_)))).count();
        sitting::conclude(shard, done, jobs.len(), &format!("{} --report-only", command(args)));
    }
    verdict.map(|()| pace)
}

/// What makes all runs and the table again.
fn command(args: &CompareArgs) -> String {
    let mut words = vec![args.task.clone()];
    if !args.algos.is_empty() {
        words.extend(["--algos".to_string(), args.algos.join(",")]);
    }
    words.extend(["--seeds".to_string(), args.seeds.to_string()]);
    let once = [("--steps", &args.steps), ("--preset", &args.preset)];
    let once = once.into_iter().filter_map(|(flag, value)| Some((flag, value.as_ref()?)));
    let limits = args.limit.iter().map(|limit| ("--limit", limit));
    let settings = args.set.iter().map(|setting| ("--set", setting));
    for (flag, value) in once.chain(limits).chain(settings) {
        words.extend([flag.to_string(), shown(Path::new(value))]);
    }
    words.extend(args.out.iter().flat_map(|out| ["--out".to_string(), shown(out)]));
    format!("p3o compare {}", words.join(" "))
}

/// The table on the screen, and the table and curves in the folder, of what is finished.
fn report(args: &CompareArgs, methods: &[Method], jobs: &[Job], folder: &Path) -> Result<(), Failure> {
    let _lock = sitting::report_lock(folder)?;
    let (mut runs, mut troubles) = (Vec::new(), Vec::new());
    for job in jobs {
        match job.results() {
            Ok(run) => runs.extend(run),
            Err(error) => troubles.push(error),
        }
    }
    if runs.is_empty() {
        let none = format!("none of the {} runs in {} is finished", jobs.len(), shown(folder));
        return Err(troubles.into_iter().next().map_or(Failure::Failed(none), Failure::from));
    }
    let summaries: Vec<&Summary> = runs.iter().map(|run| &run.summary).collect();
    write_atomic(&folder.join("compare.csv"), csv(&summaries).as_bytes()).map_err(Error::from)?;
    let costs: Vec<_> = summaries[0].costs.iter().map(|(name, cost)| (name.clone(), cost.limit)).collect();
    let picture = curves(&[Row { title: args.task.clone(), groups: group(methods, &runs), costs }]);
    for name in ["compare.svg", "compare.png"] {
        plot::write(&picture, &folder.join(name))?;
    }
    table(args, methods, &summaries);
    let (done, planned, shown) = (runs.len(), jobs.len(), shown(folder));
    say!("\n{done} of {planned} runs are in. In {shown}: compare.csv, compare.svg, compare.png, a folder per run");
    unsealed(runs.iter().filter(|run| !run.sealed).count()).iter().for_each(|line| say!("{line}"));
    troubles.iter().for_each(|trouble| say!("Left out: {trouble}"));
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
fn group(methods: &[Method], runs: &[Finished]) -> Vec<(String, Vec<Table>)> {
    let of = |algo: String| {
        let own = runs.iter().filter(|run| run.summary.algo == algo);
        let tables: Vec<Table> = own.map(|run| run.table.clone()).collect();
        (algo, tables)
    };
    methods.iter().map(|method| of(method.to_string())).filter(|(_, tables)| !tables.is_empty()).collect()
}

/// A row per run.
fn csv(summaries: &[&Summary]) -> String {
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

fn table(args: &CompareArgs, methods: &[Method], summaries: &[&Summary]) {
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
        let own: Vec<&Summary> = summaries.iter().filter(|s| s.algo == algo).copied().collect();
        if own.is_empty() {
            continue;
        }
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
