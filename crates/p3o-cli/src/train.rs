//! `p3o train` and `p3o resume`.

use crate::args::{AdoptArgs, DeviceArgs, ResumeArgs, TrainArgs};
use crate::device::Device;
use crate::party::Party;
use crate::screen::{Grid, Progress, duration, figure, say, thousands};
use crate::{Failure, dry_run, pool};
use p3o::config::{Resolved, count};
use p3o::error::visible;
use p3o::record::{ProgressCsv, read_text_stream, write_atomic};
use p3o::run::{Opened, Summary, check_folder, follow, named_task};
use p3o::{Config, Error, Finish, Learner, Method, Ranks, Request, Run, checkpoint};
use p3o_lab::sweep::Place;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes of a file of settings, at most.
const LONGEST_CONFIG: u64 = 1 << 20;

/// `p3o train`
pub fn train(args: &TrainArgs) -> Result<(), Failure> {
    let (party, _connection) = Party::join(Duration::from_secs(args.patience.into()))?;
    let plan = party.ranks.is_first().then(|| {
        let Resolved { config, origins } = resolve(args)?;
        let folder = args.out.clone().unwrap_or_else(|| free_folder(&config));
        Ok((differences(&config, &origins), config, folder))
    });
    let plan = party.together(plan.transpose())?;
    let device = device(&party, &args.place)?;
    let threads = args.threads.map(usize::from);
    if args.dry_run {
        let shown = plan.map(|(about, config, folder)| dry_run::of_run(&about, &config, &folder, threads, &device));
        return party.together(shown.transpose()).map(drop);
    }
    let settings = party.ranks.broadcast_value(0, plan.as_ref().map(|(_, config, _)| config.to_toml()))?;
    let config = match &plan {
        Some((_, config, _)) => config.clone(),
        None => Config::from_toml(&settings)?,
    };
    let about = plan.as_ref().map(|(about, ..)| about.clone());
    drive(threads, &party, about, || {
        // Before the networks are built; once more when the folder is this process's own.
        party.together(plan.as_ref().map_or(Ok(()), |(_, _, folder)| Ok(check_folder(folder)?)))?;
        let learner = party.together(learner(config, &device, &party.ranks))?;
        party.together(match &plan {
            Some((_, _, folder)) => {
                Run::start_learner(learner, folder).map(|run| Seat::First(Box::new(run))).map_err(Failure::from)
            }
            None => Ok(Seat::Other(Box::new(learner))),
        })
    })
}

fn learner(config: Config, device: &Device, ranks: &Ranks) -> Result<Learner, Failure> {
    let make = named_task(&config)?;
    Ok(Learner::with_ranks(config, &*make, &|networks, several| device.engine(networks, several), ranks)?)
}

/// Where a process's networks learn: on a GPU everywhere or nowhere.
fn device(party: &Party, args: &DeviceArgs) -> Result<Device, Failure> {
    let device = party.together(Device::of_process(args, party.local))?;
    let all = party.ranks.gather_values(device.is_cpu())?;
    match all.iter().all(|cpu| *cpu == all[0]) {
        true => Ok(device),
        false => {
            let line = format!("--device {}: only some of the processes have a GPU", args.device);
            party.together(Err(Failure::Failed(line)))
        }
    }
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
    let (party, _connection) = Party::join(Duration::from_secs(args.patience.into()))?;
    let steps = party.together(args.steps.as_deref().map(parse_steps).transpose())?;
    let device = device(&party, &args.place)?;
    drive(args.threads.map(usize::from), &party, None, || {
        let opened = party.ranks.is_first().then(|| open(&args.run));
        let opened = party.together(opened.transpose())?;
        // The other processes need not see the folder.
        let sent = opened.as_ref().map(|opened| (opened.config(steps).to_toml(), opened.checkpoint().to_vec()));
        let (settings, checkpoint) = match party.ranks.is_alone() {
            true => sent.unwrap_or_default(),
            false => party.ranks.broadcast_value(0, sent)?,
        };
        let mut learner = party.together(learner(Config::from_toml(&settings)?, &device, &party.ranks))?;
        party.together(match opened {
            Some(opened) => opened.go_on(learner).map(|run| Seat::First(Box::new(run))).map_err(Failure::from),
            None => {
                let loaded = checkpoint::load_bytes(&mut learner, checkpoint);
                loaded.map(|_| Seat::Other(Box::new(learner))).map_err(Failure::from)
            }
        })
    })
}

fn open(folder: &Path) -> Result<Opened, Failure> {
    if folder.is_file() {
        let of = folder.ancestors().skip(1).find(|above| above.join("config.toml").is_file());
        let hint = of.map_or(String::new(), |run| format!("; go on with p3o resume {}", shown(run)));
        return Err(Failure::Failed(format!("{} is a file, not a run's folder{hint}", folder.display())));
    }
    Ok(Run::open(folder)?)
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

/// A process's part in a run: the first has the folder.
enum Seat {
    First(Box<Run>),
    Other(Box<Learner>),
}

/// Opens a run and trains it to its end.
fn drive(
    threads: Option<usize>,
    party: &Party,
    about: Option<String>,
    open: impl FnOnce() -> Result<Seat, Failure> + Send,
) -> Result<(), Failure> {
    let outcome = party.together(pool(threads))?.install(|| match open()? {
        Seat::First(run) => lead(*run, party, about),
        Seat::Other(mut learner) => match follow(&mut learner, &|| party.stop.load(Ordering::SeqCst)) {
            Ok(Finish::Done) => Ok(()),
            Ok(Finish::Interrupted) => Err(Failure::Interrupted),
            Err(e) => Err(e.into()),
        },
    });
    party.together(outcome)
}

/// Says what a run is `about`, and trains it, with a bar, Ctrl-C and a table.
fn lead(mut run: Run, party: &Party, about: Option<String>) -> Result<(), Failure> {
    *party.folder.lock().expect("nothing panics with it") = Some(run.folder().to_path_buf());
    say!("{}", about.unwrap_or_else(|| going_on(&run)));
    let (device, ranks) = (run.learner().device(), party.ranks.size());
    if ranks > 1 {
        say!("{ranks} processes share the work, each on {} threads.", rayon::current_num_threads());
    }
    if device != "cpu" {
        say!("The networks learn on {device}.");
    }
    run.notes().iter().for_each(|note| say!("{note}"));
    let folder = run.folder().to_path_buf();
    let progress = Progress::new(run.learner());
    let finish = run.train(&mut |run, report| {
        progress.show(run, report);
        if party.stop.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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
