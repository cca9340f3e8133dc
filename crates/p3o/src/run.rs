//! A run is a folder: settings, progress, checkpoints, TensorBoard events and a summary.

use crate::algo::Passes;
use crate::checkpoint;
use crate::config::{Config, Sum, make_env};
use crate::engine;
use crate::error::Error;
use crate::folder::{RunFolder, config_path, next_config_path, progress_path, summary_path};
pub use crate::folder::{checkpoint_path, has_checkpoint, is_run, load_config, previous_checkpoint_path};
use crate::learner::{Learner, Report};
use crate::provenance;
use crate::ranks::Ranks;
use crate::record::{EventWriter, ProgressCsv, RunLock, Table, create_folder, write_atomic, write_keeping};
use crate::stop::Stop;
use p3o_env::Env;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// All steps were made.
    Done,
    /// The caller asked to stop; everything is saved.
    Interrupted,
}

/// What a run came to, over the last tenth of its training.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The world.
    pub task: String,
    /// The algorithm.
    pub algo: String,
    /// The seed.
    pub seed: u64,
    /// Environment steps made.
    pub steps: u64,
    /// Seconds of training, over all sittings.
    pub wall_s: f64,
    /// Steps per second of training.
    pub steps_per_s: f64,
    /// Mean return of the episodes that ended in the last tenth; none if none ended.
    pub return_mean: Option<f64>,
    /// Every cost.
    pub costs: BTreeMap<String, CostSummary>,
}

/// One cost in a [`Summary`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostSummary {
    /// Mean over the episodes that ended in the last tenth; none if none ended.
    pub mean: Option<f64>,
    /// The limit, if it has one.
    pub limit: Option<f64>,
    /// Whether the mean is within the limit.
    pub satisfied: Option<bool>,
}

/// A run in progress.
pub struct Run {
    folder: PathBuf,
    learner: Learner,
    csv: ProgressCsv,
    events: EventWriter,
    columns: Vec<String>,
    tags: Vec<String>,
    /// The last row of progress.csv.
    row: Vec<f64>,
    /// Seconds of earlier sittings.
    wall_before: f64,
    started: Instant,
    summary: Option<Summary>,
    notes: Vec<String>,
    restarted: bool,
    lock: RunLock,
}

/// An update that takes longer than this can be stopped in its middle.
const PATIENCE: Duration = Duration::from_millis(200);

/// Columns of progress.csv that version 1 wrote for algorithms that have no use for them.
const RETIRED: &[&str] = &["kappa", "redone"];

impl Run {
    /// Makes the folder and everything in it. It must not hold anything yet.
    pub fn start(config: Config, make: &dyn Fn() -> Box<dyn Env>, folder: &Path) -> Result<Run, Error> {
        Run::start_on(config, make, folder, &engine::on_cpu)
    }

    /// The same with the networks where `engines` puts them.
    pub fn start_on(
        config: Config,
        make: &dyn Fn() -> Box<dyn Env>,
        folder: &Path,
        engines: &engine::Maker,
    ) -> Result<Run, Error> {
        // Before the networks are built; once more when the folder is this process's own.
        check_folder(folder)?;
        Run::start_learner(Learner::with_engines(config, make, engines)?, folder)
    }

    /// The same for a fresh learner.
    pub fn start_learner(learner: Learner, folder: &Path) -> Result<Run, Error> {
        check_folder(folder)?;
        create_folder(&folder.join("checkpoints"))?;
        let lock = acquire(folder)?;
        // Another process may have trained here since.
        check_folder(folder)?;
        write_atomic(&config_path(folder), learner.config().to_toml().as_bytes())?;
        let csv = ProgressCsv::create(&progress_path(folder), &columns(&learner))?;
        let events = EventWriter::create(&folder.join("tensorboard"), None)?;
        let mut run = Run::assemble(folder, learner, csv, events, lock);
        run.save()?;
        provenance::note(folder, 0, &run.learner)?;
        Ok(run)
    }

    /// Goes on from a folder's checkpoint, if need be to another number of steps than it was to have.
    pub fn resume(folder: &Path, make: &Maker, steps: Option<u64>) -> Result<Run, Error> {
        Run::resume_on(folder, make, steps, &engine::on_cpu)
    }

    /// The same with the networks where `engines` puts them.
    pub fn resume_on(folder: &Path, make: &Maker, steps: Option<u64>, engines: &engine::Maker) -> Result<Run, Error> {
        let opened = Run::open(folder)?;
        let config = opened.config(steps);
        let env = make(&config)?;
        opened.go_on(Learner::with_engines(config, &*env, engines)?)
    }

    /// Takes a folder to go on from its checkpoint.
    pub fn open(folder: &Path) -> Result<Opened, Error> {
        let lock = lock(folder)?;
        Ok(Opened { found: RunFolder::open_to_go_on(folder)?, lock })
    }

    /// The same for a fresh learner with the run's settings, but perhaps another number of steps.
    pub fn resume_learner(learner: Learner, folder: &Path) -> Result<Run, Error> {
        let lock = lock(folder)?;
        let found = RunFolder::open_to_go_on(folder)?;
        let steps = learner.config().run.steps;
        let mut same = found.config.clone();
        same.run.steps = steps;
        if let Some((theirs, ours)) = same.difference(learner.config()) {
            return Err(Error::OtherSettings { folder: folder.to_path_buf(), theirs, ours });
        }
        Run::go_on(learner, found, lock)
    }

    fn go_on(mut learner: Learner, found: RunFolder, lock: RunLock) -> Result<Run, Error> {
        let folder = found.folder();
        let continued = found.checkpoint.restore(&mut learner)?;
        let made = learner.progress().clone();
        let changed = learner.config() != &found.config;
        if learner.config().run.steps < made.steps && changed {
            return Err(Error::StepsMade { folder: folder.to_path_buf(), made: made.steps });
        }
        let path = progress_path(folder);
        let wall = column(&found.table, "wall_s", &path)?;
        let csv = ProgressCsv::reopen(&path, &columns(&learner), RETIRED, made.updates as usize)?;
        let events = EventWriter::create(&folder.join("tensorboard"), Some(made.steps))?;
        let mut run = Run::assemble(folder, learner, csv, events, lock);
        run.wall_before = made.updates.checked_sub(1).map_or(0.0, |last| found.table.rows[last as usize][wall]);
        if let Some(reason) = &found.fell_back {
            run.set_aside(reason);
        }
        if changed {
            run.save_settings()?;
        } else {
            finish_change(folder, &found.config)?;
        }
        run.restarted = !continued;
        if !continued {
            run.notes.push("These worlds cannot be continued from a checkpoint: new episodes have started.".into());
        }
        provenance::note(folder, made.steps, &run.learner)?;
        // What an earlier sitting came to is no longer what the run came to.
        for stale in ["summary.json", "failure.txt"] {
            std::fs::remove_file(folder.join(stale)).ok();
        }
        Ok(run)
    }

    /// Takes over a config.toml that was changed by hand, and rows of progress.csv as they are, and seals them into the
    /// checkpoint. Returns sentences that say what has changed.
    pub fn adopt(folder: &Path, make: &Maker) -> Result<Vec<String>, Error> {
        let lock = lock(folder)?;
        let written = load_config(folder)?;
        let checkpoint = checkpoint::Checkpoint::read(&checkpoint_path(folder))?;
        let env = make(&written)?;
        let mut learner = Learner::new(written, &*env)?;
        checkpoint.restore(&mut learner)?;
        let (mut changes, at) = (Vec::new(), learner.progress().steps);
        if let Some(sealed) = checkpoint.config()? {
            let of_settings = learner.config().all_differences(&sealed);
            changes = of_settings.iter().map(|(new, old)| format!("{new} (before step {at}: {old})")).collect();
        }
        let path = progress_path(folder);
        let altered = ProgressCsv::reseal(&path)?;
        let updates = learner.progress().updates as usize;
        let csv = ProgressCsv::reopen(&path, &columns(&learner), RETIRED, updates)?;
        if altered > 0 {
            changes
                .push(format!("progress.csv as it was at step {at}: {altered} of its rows did not fit their checks"));
        } else if checkpoint.rows().is_some_and(|sealed| sealed != csv.digest()) {
            changes.push(format!("progress.csv as it was at step {at}: its rows were not those of the checkpoint"));
        }
        learner.adopted.extend(changes.iter().cloned());
        if checkpoint.digest().is_none() {
            changes.push("a checkpoint of an older version, sealed as it is".into());
        }
        if !changes.is_empty() {
            let events = EventWriter::create(&folder.join("tensorboard"), Some(learner.progress().steps))?;
            Run::assemble(folder, learner, csv, events, lock).save_settings()?;
        }
        Ok(changes)
    }

    /// Writes config.toml anew with the settings of the run's checkpoint.
    pub fn discard_changes(folder: &Path) -> Result<(), Error> {
        let _lock = lock(folder)?;
        let checkpoint = checkpoint::Checkpoint::read(&checkpoint_path(folder))?;
        let path = checkpoint_path(folder);
        let none = || Error::Checkpoint { path, reason: "it is of an older version and holds no settings".into() };
        let config = checkpoint.config()?.ok_or_else(none)?;
        Ok(write_atomic(&config_path(folder), config.to_toml().as_bytes())?)
    }

    /// Whether the worlds could not be continued, so that resuming has started new episodes.
    pub fn has_restarted(&self) -> bool {
        self.restarted
    }

    /// What whoever resumes the run should know, each a sentence.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn assemble(folder: &Path, learner: Learner, csv: ProgressCsv, events: EventWriter, lock: RunLock) -> Run {
        let columns = columns(&learner);
        let tags = columns.iter().map(|c| tag(c)).collect();
        Run {
            folder: folder.to_path_buf(),
            learner,
            csv,
            events,
            columns,
            tags,
            row: Vec::new(),
            wall_before: 0.0,
            started: Instant::now(),
            summary: None,
            notes: lock.warning().into_iter().collect(),
            restarted: false,
            lock,
        }
    }

    /// Moves a damaged checkpoint out of the way of the next one, which would otherwise make it the previous.
    fn set_aside(&mut self, reason: &str) {
        let (latest, updates) = (checkpoint_path(&self.folder), self.learner.progress().updates);
        let aside = latest.with_file_name("damaged.safetensors");
        let kept = match std::fs::rename(&latest, &aside) {
            Ok(()) => format!(" (it is now {})", aside.display()),
            Err(_) => String::new(),
        };
        self.notes.push(format!(
            "{reason}{kept}; going on from the checkpoint before it, {}, saved after update {updates}.",
            previous_checkpoint_path(&self.folder).display()
        ));
    }

    /// Saves a checkpoint with settings that differ from those in config.toml, and then these.
    fn save_settings(&mut self) -> Result<(), Error> {
        let config = self.learner.config().clone();
        write_atomic(&next_config_path(&self.folder), config.to_toml().as_bytes())?;
        self.save()?;
        finish_change(&self.folder, &config)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The learner.
    pub fn learner(&self) -> &Learner {
        &self.learner
    }

    /// The last row of progress.csv, column by column; empty before the first update.
    pub fn row(&self) -> impl Iterator<Item = (&str, f64)> {
        self.columns.iter().map(String::as_str).zip(self.row.iter().copied())
    }

    /// Trains to the end, or until `watch` breaks: after every update it sees the report. Saves at the end, at every
    /// checkpoint's turn, and when interrupted. A number that is not finite ends the run with a `failure.txt` and the
    /// last good checkpoint in place.
    pub fn train(&mut self, watch: &mut dyn FnMut(&Run, &Report) -> ControlFlow<()>) -> Result<Finish, Error> {
        self.train_until(None, watch)
    }

    /// The same until somebody asks it to stop, which it does in the middle of an update where one takes long: the run is then
    /// saved as it was before that update. Several processes stop after an update: one that left its middle would leave the others
    /// waiting.
    pub fn train_until(
        &mut self,
        stop: Option<&Stop>,
        watch: &mut dyn FnMut(&Run, &Report) -> ControlFlow<()>,
    ) -> Result<Finish, Error> {
        let (total, every) = (self.learner.config().updates(), self.learner.config().run.checkpoint_every);
        let ranks = self.learner.ranks().clone();
        self.started = Instant::now();
        // Worlds that cannot be frozen may be interrupted themselves, in any step.
        let elsewhere = stop.is_some() && !self.learner.collector.has_snapshots();
        let (mut slow, mut saved) = (true, true);
        while self.learner.progress().updates < total {
            let way_back = stop.filter(|_| slow && ranks.is_alone());
            let before = match way_back {
                Some(_) if !saved => Some(checkpoint::to_bytes(&mut self.learner, Some(self.csv.digest()))?),
                _ => None,
            };
            self.learner.heed(way_back.unwrap_or(&Stop::default()));
            let start = Instant::now();
            let report = match self.learner.update() {
                Err(Error::Stopped { .. }) => {
                    before.map_or(Ok(()), |bytes| self.write(&bytes))?;
                    self.summarize()?;
                    return Ok(Finish::Interrupted);
                }
                result => result.inspect_err(|e| self.explain(e))?,
            };
            slow = elsewhere || start.elapsed() > PATIENCE;
            let recorded = self.record(&report);
            let asked = recorded.is_ok() && watch(self, &report).is_break() | stop.is_some_and(Stop::is_asked_for);
            let asked = agree(&ranks, recorded, asked)?;
            let updates = report.update;
            saved = asked || updates == total || updates.is_multiple_of(every);
            if saved {
                self.learner.collector.gather_worlds()?;
                let written = self.save();
                agree(&ranks, written, false)?;
            }
            if asked && updates < total {
                self.summarize()?;
                return Ok(Finish::Interrupted);
            }
        }
        self.summarize()?;
        Ok(Finish::Done)
    }

    /// Seconds of training so far.
    pub fn wall_s(&self) -> f64 {
        self.wall_before + self.started.elapsed().as_secs_f64()
    }

    fn save(&mut self) -> Result<(), Error> {
        let bytes = checkpoint::to_bytes(&mut self.learner, Some(self.csv.digest()))?;
        self.write(&bytes)
    }

    /// Writes a checkpoint after the rows that there are.
    fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        // The rows first: a checkpoint that survives a power cut must find the rows before it.
        self.csv.sync()?;
        self.lock.check()?;
        Ok(write_keeping(&checkpoint_path(&self.folder), &previous_checkpoint_path(&self.folder), bytes)?)
    }

    fn record(&mut self, report: &Report) -> Result<(), Error> {
        let mut row = values(&self.learner, report);
        row.push(self.wall_s());
        self.lock.check()?;
        self.csv.append(&row)?;
        let scalars: Vec<(&str, f64)> =
            self.tags.iter().zip(&row).skip(2).map(|(tag, value)| (tag.as_str(), *value)).collect();
        self.events.scalars(report.steps, &scalars)?;
        self.row = row;
        Ok(())
    }

    /// Leaves a note about what went wrong. That it cannot be written must not hide the failure itself.
    fn explain(&self, error: &Error) {
        let text = format!(
            "{error}\n\ntask {}, algorithm {}, seed {}\nThe last good checkpoint is {}.\n",
            self.learner.config().task,
            self.learner.config().method(),
            self.learner.config().run.seed,
            checkpoint_path(&self.folder).display()
        );
        write_atomic(&self.folder.join("failure.txt"), text.as_bytes()).ok();
    }

    /// What the run came to; none before [`Run::train`] has returned.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    fn summarize(&mut self) -> Result<(), Error> {
        let path = progress_path(&self.folder);
        let summary = summary(self.learner.config(), self.learner.spec(), &ProgressCsv::read(&path)?, &path)?;
        write_summary(&self.folder, &summary)?;
        self.summary = Some(summary);
        Ok(())
    }
}

/// A folder that this process has, to go on with its run.
pub struct Opened {
    found: RunFolder,
    lock: RunLock,
}

impl Opened {
    /// The run's settings, if need be with another number of steps.
    pub fn config(&self, steps: Option<u64>) -> Config {
        let mut config = self.found.config.clone();
        config.run.steps = steps.unwrap_or(config.run.steps);
        config
    }

    /// The bytes of its checkpoint: what the run's other processes go on from ([`checkpoint::load_bytes`]).
    pub fn checkpoint(&self) -> &[u8] {
        self.found.checkpoint.bytes()
    }

    /// Goes on with a fresh learner with [`Opened::config`].
    pub fn go_on(self, learner: Learner) -> Result<Run, Error> {
        Run::go_on(learner, self.found, self.lock)
    }
}

/// Whether a process of a run has been asked to stop; all of them learn it, or that one cannot go on.
fn agree(ranks: &Ranks, own: Result<(), Error>, asked: bool) -> Result<bool, Error> {
    if ranks.is_alone() {
        return own.map(|()| asked);
    }
    let all = ranks.gather_values((own.is_ok(), asked))?;
    own?;
    match all.iter().all(|(fine, _)| *fine) {
        true => Ok(all.iter().any(|(_, asked)| *asked)),
        false => Err(Error::OtherRank),
    }
}

/// Makes the updates of a run whose folder another process has, as one of its processes, until the end or until one of them is asked to
/// `stop`.
pub fn follow(learner: &mut Learner, stop: &dyn Fn() -> bool) -> Result<Finish, Error> {
    let (total, every) = (learner.config().updates(), learner.config().run.checkpoint_every);
    let ranks = learner.ranks().clone();
    while learner.progress().updates < total {
        let updates = learner.update()?.update;
        let asked = agree(&ranks, Ok(()), stop())?;
        if asked || updates == total || updates.is_multiple_of(every) {
            learner.collector.gather_worlds()?;
            // The first process writes now, which may take its time.
            ranks.be_patient(true);
            agree(&ranks, Ok(()), false)?;
            ranks.be_patient(asked);
        }
        if asked && updates < total {
            return Ok(Finish::Interrupted);
        }
    }
    Ok(Finish::Done)
}

/// Writes `summary.json`.
pub(crate) fn write_summary(folder: &Path, summary: &Summary) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(summary).expect("plain data can be written to memory");
    Ok(write_atomic(&summary_path(folder), (text + "\n").as_bytes())?)
}

/// Writes `summary.json` for a finished run that lacks it: it was killed after its last checkpoint. A process that has the run
/// writes its own.
pub fn add_summary(folder: &Path, summary: &Summary) -> Result<(), Error> {
    if summary_path(folder).is_file() {
        return Ok(());
    }
    match acquire(folder) {
        Err(Error::InUse { .. }) => Ok(()),
        lock => lock.and_then(|_held| write_summary(folder, summary)),
    }
}

/// How many updates a folder's last checkpoint has, if it has a good one.
pub fn last_checkpoint(folder: &Path) -> Option<u64> {
    checkpoint::Checkpoint::read(&checkpoint_path(folder)).ok().map(|checkpoint| checkpoint.updates())
}

/// Finds the maker of a configuration's world.
pub type Maker = dyn Fn(&Config) -> Result<Box<dyn Fn() -> Box<dyn Env>>, Error>;

/// The maker for worlds known by name.
pub fn named_task(config: &Config) -> Result<Box<dyn Fn() -> Box<dyn Env>>, Error> {
    let (method, task, options) = (config.method(), config.task.clone(), config.env.clone());
    make_env(method, &task, &options)?;
    Ok(Box::new(move || make_env(method, &task, &options).expect("it was just made once")))
}

/// The lock of a run's folder, which must be one.
fn lock(folder: &Path) -> Result<RunLock, Error> {
    if !has_checkpoint(folder) {
        load_config(folder)?;
    }
    acquire(folder)
}

fn acquire(folder: &Path) -> Result<RunLock, Error> {
    RunLock::acquire(folder).map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => Error::InUse { folder: folder.to_path_buf() },
        _ => error.into(),
    })
}

/// Puts settings in their place that a checkpoint has been saved with, if they still wait beside it.
fn finish_change(folder: &Path, config: &Config) -> Result<(), Error> {
    if next_config_path(folder).exists() {
        write_atomic(&config_path(folder), config.to_toml().as_bytes())?;
        std::fs::remove_file(next_config_path(folder)).ok();
    }
    Ok(())
}

/// Whether a new run can have this folder.
pub fn check_folder(folder: &Path) -> Result<(), Error> {
    if folder.is_file() || is_occupied(folder) {
        return Err(Error::Occupied { folder: folder.to_path_buf(), resumable: has_checkpoint(folder) });
    }
    Ok(())
}

/// Whether a folder holds anything but what a run leaves that was killed before its first checkpoint.
fn is_occupied(folder: &Path) -> bool {
    let unstarted =
        [".lock", "config.toml", "progress.csv", "provenance.toml", "tensorboard", "checkpoints", "world.json"];
    let known = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|e| {
            // A kill in the middle of an atomic write leaves its scratch file.
            let is_scratch = e.file_name().to_string_lossy().ends_with(".scratch");
            is_scratch || unstarted.iter().any(|name| e.file_name() == *name)
        })
    };
    has_checkpoint(folder) || std::fs::read_dir(folder).is_ok_and(|mut entries| !entries.all(known))
}

/// Columns of progress.csv; only the last two depend on the machine. The table adds a check of its own.
fn columns(learner: &Learner) -> Vec<String> {
    let costs: Vec<&str> = learner.spec().costs.iter().map(|c| c.name.as_str()).collect();
    let constrained = learner.signals().constraint_names();
    let mut columns: Vec<String> = ["update", "steps", "episodes", "return", "length"].map(String::from).to_vec();
    columns.extend(costs.iter().map(|c| format!("cost_{c}")));
    if learner.config().constraint.sum == Sum::Discounted {
        columns.extend(costs.iter().map(|c| format!("discounted_{c}")));
    }
    columns.extend(costs.iter().map(|c| format!("cost_per_step_{c}")));
    columns.extend(constrained.iter().map(|c| format!("offset_{c}")));
    columns.extend(constrained.iter().map(|c| format!("loss_cost_{c}")));
    columns.extend(constrained.iter().zip(&learner.corrections).map(|(c, _)| format!("correction_{c}")));
    columns.extend(["loss", "loss_reward", "kl", "passes", "gradient_norm", "entropy"].map(String::from));
    let none = Passes::new(constrained.len());
    columns.extend(own_figures(learner, &none).into_iter().map(|(name, _)| name));
    for kind in ["value_loss", "explained"] {
        columns.push(format!("{kind}_reward"));
        columns.extend(constrained.iter().map(|c| format!("{kind}_{c}")));
    }
    columns.extend(["steps_per_s", "wall_s"].map(String::from));
    columns
}

/// A report in the order of [`columns`], but for the last one.
fn values(learner: &Learner, r: &Report) -> Vec<f64> {
    let mut row = vec![r.update as f64, r.steps as f64, r.episodes as f64, r.ret, r.length];
    let p = &r.passes;
    for group in [&r.costs, &r.discounted, &r.costs_per_step, &r.offsets, &p.loss_c, &r.corrections] {
        row.extend(group);
    }
    row.extend([p.loss, p.loss_r, p.kl, p.steps as f64, p.gradient_norm, r.entropy]);
    row.extend(own_figures(learner, p).into_iter().map(|(_, value)| value));
    row.extend(r.critic_losses.iter().chain(&r.explained));
    row.push(r.steps as f64 / r.update as f64 / ((r.rollout_ms + r.update_ms) / 1e3));
    row
}

/// What this run's algorithm alone reports: columns of progress.csv and their values.
fn own_figures(learner: &Learner, passes: &Passes) -> Vec<(String, f64)> {
    let costs = learner.signals().constraint_names();
    learner.config().algorithm().columns().iter().flat_map(|column| column.figures(passes, &costs)).collect()
}

/// Groups columns under TensorBoard's headings.
fn tag(column: &str) -> String {
    let group = match column {
        "return" | "length" | "episodes" => "episode",
        "wall_s" | "steps_per_s" => "time",
        c if c.starts_with("cost_") || c.starts_with("discounted_") => "episode",
        c if c.starts_with("value_loss") || c.starts_with("explained") => "critic",
        _ => "policy",
    };
    format!("{group}/{column}")
}

/// A column's value in the last row.
fn last(table: &Table, column: usize) -> f64 {
    table.rows.last().map_or(0.0, |row| row[column])
}

fn column(table: &Table, name: &str, path: &Path) -> Result<usize, Error> {
    table.column(name).ok_or_else(|| Error::NoColumn { path: path.to_path_buf(), column: name.to_string() })
}

/// The figures of the last tenth of training, from the table at `path`.
pub fn summary(config: &Config, spec: &p3o_env::EnvSpec, table: &Table, path: &Path) -> Result<Summary, Error> {
    let at = |name: &str| column(table, name, path);
    let (steps_at, episodes_at, return_at, wall_at) = (at("steps")?, at("episodes")?, at("return")?, at("wall_s")?);
    let (steps, wall_s) = (last(table, steps_at), last(table, wall_at));
    let late: Vec<&Vec<f64>> = table.rows.iter().filter(|row| row[steps_at] > 0.9 * steps).collect();
    let mean = |column: usize| {
        let rows = late.iter().filter(|row| row[episodes_at] > 0.0);
        let (sum, n) = rows.fold((0.0, 0.0), |(s, n), row| (s + row[column] * row[episodes_at], n + row[episodes_at]));
        (n > 0.0).then_some(sum / n)
    };
    let cost = |cost: &p3o_env::CostSpec| {
        let (mean, limit) = (mean(at(&format!("cost_{}", cost.name))?), config.limits.get(&cost.name).copied());
        let satisfied = mean.zip(limit).map(|(mean, limit)| mean <= limit);
        Ok((cost.name.clone(), CostSummary { mean, limit, satisfied }))
    };
    Ok(Summary {
        task: config.task.clone(),
        algo: config.method().to_string(),
        seed: config.run.seed,
        steps: steps as u64,
        wall_s,
        steps_per_s: if wall_s > 0.0 { steps / wall_s } else { 0.0 },
        return_mean: mean(return_at),
        costs: spec.costs.iter().map(cost).collect::<Result<_, Error>>()?,
    })
}
