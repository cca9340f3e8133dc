//! `p3o train` and `p3o resume`.

use crate::args::{AdoptArgs, ResumeArgs, TrainArgs};
use crate::device::Device;
use crate::screen::{Grid, Progress, duration, figure, say, thousands};
use crate::{Failure, dry_run, pool, stop_on_ctrl_c};
use p3o::config::{Resolved, count};
use p3o::error::visible;
use p3o::record::{ProgressCsv, read_text_stream, write_atomic};
use p3o::run::{Summary, named_task};
use p3o::{Config, Error, Finish, Method, Request, Run};
use p3o_lab::sweep::Place;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Bytes of a file of settings, at most.
const LONGEST_CONFIG: u64 = 1 << 20;

/// `p3o train`
pub fn train(args: &TrainArgs) -> Result<(), Failure> {
    let Resolved { config, origins } = resolve(args)?;
    let folder = args.out.clone().unwrap_or_else(|| free_folder(&config));
    let threads = args.threads.map(usize::from);
    let about = differences(&config, &origins);
    let device = Device::of(&args.place)?;
    if args.dry_run {
        return dry_run::of_run(&about, &config, &folder, threads, &device);
    }
    drive(threads, Some(about), move || {
        let make = named_task(&config)?;
        Run::start_on(config, &*make, &folder, &|networks, several| device.engine(networks, several))
    })
}

/// `p3o adopt`
pub fn adopt(args: &AdoptArgs) -> Result<(), Failure> {
    let run = shown(&args.run);
    if args.discard {
        Run::discard_changes(&args.run)?;
        say!("{run}: config.toml holds the settings of the run's checkpoint again.");
        return Ok(());
    }
    let changes = Run::adopt(&args.run, &named_task)?;
    if changes.is_empty() {
        say!("{run}: nothing was altered.");
        return Ok(());
    }
    say!("{run}: adopted and sealed into its checkpoint, which will always say so:");
    changes.iter().for_each(|change| say!("  {change}"));
    Ok(())
}

/// `p3o resume`
pub fn resume(args: &ResumeArgs) -> Result<(), Failure> {
    let steps = args.steps.as_deref().map(parse_steps).transpose()?;
    let folder = args.run.clone();
    if folder.is_file() {
        let of = folder.ancestors().skip(1).find(|above| above.join("config.toml").is_file());
        let hint = of.map_or(String::new(), |run| format!("; go on with p3o resume {}", shown(run)));
        return Err(Failure::Failed(format!("{} is a file, not a run's folder{hint}", folder.display())));
    }
    let device = Device::of(&args.place)?;
    drive(args.threads.map(usize::from), None, move || {
        Run::resume_on(&folder, &named_task, steps, &|networks, several| device.engine(networks, several))
    })
}

/// From arguments to a valid configuration.
fn resolve(args: &TrainArgs) -> Result<Resolved, Failure> {
    let (seed, steps) = (args.seed, args.steps.as_deref().map(parse_steps).transpose()?);
    let Some(path) = &args.config else {
        let task = args.task.as_deref().expect("clap requires a task without --config");
        let method = Method::named(args.algo.as_deref().unwrap_or("p3o"))?;
        let preset = args.preset.clone().unwrap_or_else(|| "quick".into());
        let (set, limits) = (args.set.clone(), args.limit.clone());
        return Ok(Request { preset, set, limits, seed, steps, ..Request::new(task, method) }.resolve()?);
    };
    let text = read_text_stream(path, LONGEST_CONFIG).map_err(Error::from)?;
    let config = Config::from_toml(&text).map_err(|e| Failure::Usage(format!("{}: {e}", path.display())))?;
    Ok(Resolved::change(config, &args.set, &args.limit, seed, steps)?)
}

pub fn parse_steps(text: &str) -> Result<u64, Failure> {
    count(text).filter(|&n| n > 0).map(|n| n as u64).ok_or_else(|| {
        Failure::Usage(format!("--steps takes a positive whole number such as 2000000 or 2e6, not `{}`", visible(text)))
    })
}

/// One line on what differs from the base values, layer by layer.
fn differences(config: &Config, origins: &BTreeMap<String, String>) -> String {
    let value = |key: &str| match key.split_once('.') {
        Some(("env", name)) => Some(config.env.get(name)?.to_string()),
        Some(("limits", name)) => Some(config.limits.get(name).map_or("none".into(), f64::to_string)),
        _ => None,
    };
    let of_task = origins.keys().filter_map(|key| Some(format!("{key}={}", value(key)?)));
    let mut layers: Vec<(&str, Vec<String>)> = Vec::new();
    for text in of_task.chain(config.differences()) {
        let key = text.split('=').next().unwrap_or_default();
        let origin = origins.get(key).map_or("file", String::as_str);
        match layers.iter_mut().find(|(layer, _)| *layer == origin) {
            Some((_, settings)) => settings.push(text),
            None => layers.push((origin, vec![text])),
        }
    }
    let layers: Vec<String> =
        layers.iter().map(|(origin, settings)| format!("{} ({origin})", settings.join(", "))).collect();
    let all = if layers.is_empty() { "nothing".to_string() } else { layers.join("; ") };
    format!("{} by {}; differs from the base settings in: {all}", config.task, config.method())
}

/// runs/TASK-ALGO-seedN, with a number behind it where that exists.
pub fn free_folder(config: &Config) -> PathBuf {
    // A world of Python says where it comes from, and may have any name.
    let task = config.task.rsplit(':').next().unwrap_or_default();
    let plain = |c: char| if c.is_alphanumeric() || "._-+".contains(c) { c } else { '-' };
    let task: String = task.chars().map(plain).collect();
    let name = format!("runs/{task}-{}-seed{}", config.method(), config.run.seed);
    let numbered = (2..).map(|i| PathBuf::from(format!("{name}-{i}")));
    std::iter::once(PathBuf::from(&name)).chain(numbered).find(|p| !p.exists()).expect("the numbers do not end")
}

/// Opens a run, says what it is `about`, and trains it to its end, with a bar, Ctrl-C and a table.
fn drive(
    threads: Option<usize>,
    about: Option<String>,
    open: impl FnOnce() -> Result<Run, Error> + Send,
) -> Result<(), Failure> {
    let stop = stop_on_ctrl_c("finishing this update, then saving")?;
    pool(threads)?.install(|| {
        let mut run = open()?;
        say!("{}", about.unwrap_or_else(|| going_on(&run)));
        let device = run.learner().device();
        if device != "cpu" {
            say!("The networks learn on {device}.");
        }
        run.notes().iter().for_each(|note| say!("{note}"));
        let folder = run.folder().to_path_buf();
        let progress = Progress::new(run.learner());
        let finish = run.train(&mut |run, report| {
            progress.show(run, report);
            if stop.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        progress.clear();
        let finish = finish?;
        let summary = run.summary().expect("training has ended");
        draw(summary, &folder)?;
        if finish == Finish::Interrupted {
            let done = run.learner().progress();
            say!("Saved after {} steps. Go on with:  p3o resume {}", thousands(done.steps as f64), shown(&folder));
            return Err(Failure::Interrupted);
        }
        table(summary, &folder);
        Ok(())
    })
}

/// Where a resumed run stands.
fn going_on(run: &Run) -> String {
    let (config, made) = (run.learner().config(), run.learner().progress().steps);
    let all = config.updates() * config.rollout.batch as u64;
    let folder = shown(run.folder());
    match made < all {
        true => format!("{folder}: going on at step {} of {}", thousands(made as f64), thousands(all as f64)),
        false => format!("{folder}: all of its {} steps are made already", thousands(all as f64)),
    }
}

/// Leaves the run's curves in its folder.
pub fn draw(summary: &Summary, folder: &Path) -> Result<(), Error> {
    let table = ProgressCsv::read(&folder.join("progress.csv"))?;
    let costs: Vec<_> = summary.costs.iter().map(|(name, cost)| (name.clone(), cost.limit)).collect();
    Ok(write_atomic(&folder.join("progress.svg"), p3o_lab::figure::progress(&table, &costs).svg().as_bytes())?)
}

fn table(s: &Summary, folder: &Path) {
    say!(
        "\n{}, {}, seed {}: {} steps in {} ({} steps/s); means over the last tenth\n",
        s.task,
        s.algo,
        s.seed,
        thousands(s.steps as f64),
        duration(s.wall_s),
        thousands(s.steps_per_s)
    );
    let mut grid = Grid::new(&["", "mean", "limit", ""]);
    grid.row(vec!["return".into(), figure(s.return_mean.unwrap_or(f64::NAN))]);
    for (name, cost) in &s.costs {
        let limit = cost.limit.map_or("none".into(), |l| l.to_string());
        let verdict = cost.satisfied.map_or("", |ok| if ok { "satisfied" } else { "violated" });
        grid.row(vec![format!("cost {name}"), figure(cost.mean.unwrap_or(f64::NAN)), limit, verdict.into()]);
        if let Some(ok) = cost.satisfied {
            grid.paint(3, ok);
        }
    }
    grid.print();
    say!("\nIn {0}: progress.svg, progress.csv, tensorboard/, summary.json\nNext:  p3o evaluate {0}", shown(folder));
}

/// A path that can be pasted into a shell.
pub fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+=,".contains(c));
    if plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
