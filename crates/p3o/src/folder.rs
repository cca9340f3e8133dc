//! A run as it lies in its folder, read and checked.
//!
//! The checkpoint is the head of a chain: it carries a digest of itself, the settings with the limits, and a digest of the rows
//! of `progress.csv` up to it; every row carries a check of itself and of the rows before it. Whoever reads a run reads it
//! here, so that nothing altered goes unnoticed. A finished run whose checkpoints stayed on another machine can still be read
//! by its rows, which then vouch for themselves alone.

use crate::checkpoint::Checkpoint;
use crate::config::{Config, make_env};
use crate::error::Error;
use crate::provenance;
use crate::record::{MOST_TABLE, ProgressCsv, Table, has_checks, parse_progress, read_file, read_text, write_atomic};
use crate::run::{Summary, summary, write_summary};
use p3o_env::EnvSpec;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// More than any config.toml holds.
const MOST_SETTINGS: u64 = 1 << 20;
/// How often a run is read again that another process is writing meanwhile.
const TRIES: usize = 5;

/// A run that is whole.
pub struct RunFolder {
    folder: PathBuf,
    /// Its settings.
    pub config: Config,
    /// Its progress: all whole rows, which may be ahead of the checkpoint.
    pub table: Table,
    /// What its world looks like.
    pub spec: EnvSpec,
    pub(crate) checkpoint: Checkpoint,
    /// Why it is not the latest checkpoint.
    pub(crate) fell_back: Option<String>,
}

/// A finished run whose checkpoints were left behind.
pub struct RowsOnly {
    /// Its settings, as they stand in config.toml.
    pub config: Config,
    /// Its progress.
    pub table: Table,
    /// What it came to, over the last tenth of its training.
    pub summary: Summary,
}

/// Where a run keeps its settings.
pub(crate) fn config_path(folder: &Path) -> PathBuf {
    folder.join("config.toml")
}

/// Where settings wait that are about to replace config.toml: first they come here, then the checkpoint is saved with them, then
/// they are renamed. A kill in between thus leaves the checkpoint with settings that stand in one of the two files.
pub(crate) fn next_config_path(folder: &Path) -> PathBuf {
    folder.join("config.next.toml")
}

/// The table of a run's progress.
pub(crate) fn progress_path(folder: &Path) -> PathBuf {
    folder.join("progress.csv")
}

/// What a run came to; it is there once training has ended or stopped.
pub(crate) fn summary_path(folder: &Path) -> PathBuf {
    folder.join("summary.json")
}

/// The checkpoint of a run's folder.
pub fn checkpoint_path(folder: &Path) -> PathBuf {
    folder.join("checkpoints").join("latest.safetensors")
}

/// The one before it.
pub fn previous_checkpoint_path(folder: &Path) -> PathBuf {
    folder.join("checkpoints").join("previous.safetensors")
}

/// Whether a folder looks like a run's, whole or not.
pub fn is_run(folder: &Path) -> bool {
    config_path(folder).is_file() || has_checkpoint(folder)
}

/// Whether a folder has a checkpoint to go on from.
pub fn has_checkpoint(folder: &Path) -> bool {
    checkpoint_path(folder).exists() || previous_checkpoint_path(folder).exists()
}

impl RunFolder {
    /// Reads a run, which another process may be writing.
    pub fn open(folder: &Path) -> Result<RunFolder, Error> {
        let mut seen = None;
        for _ in 0..TRIES {
            let checkpoint = Checkpoint::read(&checkpoint_path(folder)).map_err(|error| explain(folder, error))?;
            let digest = checkpoint.digest().map(String::from);
            match RunFolder::check(folder, checkpoint) {
                // Another process may have saved between the files that this one has read: then there is a new checkpoint.
                Err(_) if digest.is_some() && digest != seen => seen = digest,
                result => return result,
            }
        }
        RunFolder::check(folder, Checkpoint::read(&checkpoint_path(folder))?)
    }

    /// The same for a process that has the run's lock. If the latest checkpoint is damaged, the one before it is taken.
    pub(crate) fn open_to_go_on(folder: &Path) -> Result<RunFolder, Error> {
        let latest = Checkpoint::read(&checkpoint_path(folder)).map_err(|error| explain(folder, error));
        let reason = match latest {
            Ok(latest) => return RunFolder::check(folder, latest),
            Err(reason @ (Error::NoRun { .. } | Error::NotARun { .. })) => return Err(reason),
            Err(Error::Io(reason)) if reason.kind() == ErrorKind::PermissionDenied => return Err(reason.into()),
            Err(reason) => reason,
        };
        let Ok(previous) = Checkpoint::read(&previous_checkpoint_path(folder)) else { return Err(reason) };
        Ok(RunFolder { fell_back: Some(reason.to_string()), ..RunFolder::check(folder, previous)? })
    }

    /// That the settings and rows of a folder belong to a checkpoint.
    fn check(folder: &Path, checkpoint: Checkpoint) -> Result<RunFolder, Error> {
        let config = settings(folder, &checkpoint)?;
        let path = progress_path(folder);
        let table = rows(&read_file(&path, MOST_TABLE)?, &checkpoint);
        let table = table.map_err(|what| Error::Altered { folder: folder.to_path_buf(), path, what })?;
        let spec = checkpoint.spec(&config)?;
        Ok(RunFolder { folder: folder.to_path_buf(), config, table, spec, checkpoint, fell_back: None })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Environment steps that its checkpoint has made; the rows may be ahead of it.
    pub fn steps(&self) -> u64 {
        self.checkpoint.steps()
    }

    /// Where its networks learned, sitting by sitting, as `provenance.toml` says, which nothing vouches for.
    pub fn devices(&self) -> Vec<String> {
        provenance::devices(&self.folder)
    }

    /// The digest of its checkpoint; none if an older version wrote it, which did not vouch for settings and rows.
    pub fn digest(&self) -> Option<&str> {
        self.checkpoint.digest()
    }

    /// What it came to, over the last tenth of its training.
    pub fn summary(&self) -> Result<Summary, Error> {
        summary(&self.config, &self.spec, &self.table, &progress_path(&self.folder))
    }
}

impl RowsOnly {
    /// Reads a run of a world known by name. None where there is a checkpoint, which [`RunFolder`] reads, or no summary of
    /// training. Every row must fit its check, and the summary the rows.
    pub fn open(folder: &Path) -> Result<Option<RowsOnly>, Error> {
        if has_checkpoint(folder) || !summary_path(folder).is_file() {
            return Ok(None);
        }
        let altered =
            |path: &Path, what| Error::Altered { folder: folder.to_path_buf(), path: path.to_path_buf(), what };
        let config = load_config(folder)?;
        let path = progress_path(folder);
        let table = rows_alone(&read_file(&path, MOST_TABLE)?).map_err(|what| altered(&path, what))?;
        let spec = make_env(config.method(), &config.task, &config.env)?.spec().clone();
        let summary = summary(&config, &spec, &table, &path)?;
        let path = summary_path(folder);
        check_summary(&read_text(&path, MOST_SETTINGS)?, &summary).map_err(|what| altered(&path, what))?;
        Ok(Some(RowsOnly { config, table, summary }))
    }

    /// Writes it to a folder that [`open`](Self::open) reads.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        std::fs::create_dir_all(folder)?;
        write_atomic(&config_path(folder), self.config.to_toml().as_bytes())?;
        ProgressCsv::write(&progress_path(folder), &self.table)?;
        write_summary(folder, &self.summary)
    }
}

/// A run's settings as they stand in config.toml, which nothing vouches for.
pub fn load_config(folder: &Path) -> Result<Config, Error> {
    let path = config_path(folder);
    let text = read_text(&path, MOST_SETTINGS).map_err(|error| match error.kind() {
        ErrorKind::NotFound => not_a_run(folder, "it has no config.toml"),
        _ => not_a_run(folder, &error.to_string()),
    })?;
    Config::from_toml(&text).map_err(|error| Error::ConfigFile { path, error })
}

/// The settings that a checkpoint was saved with. config.toml must hold the same, or a change must be under way.
fn settings(folder: &Path, checkpoint: &Checkpoint) -> Result<Config, Error> {
    let written = load_config(folder);
    let Some(sealed) = checkpoint.config()? else { return written };
    let next = || read_text(&next_config_path(folder), MOST_SETTINGS).ok().and_then(|t| Config::from_toml(&t).ok());
    let differ = match written {
        Ok(written) => written.difference(&sealed),
        Err(error) if next().as_ref() != Some(&sealed) => return Err(error),
        Err(_) => None,
    };
    let Some((written, sealed_as)) = differ.filter(|_| next().as_ref() != Some(&sealed)) else { return Ok(sealed) };
    let what = format!("it has {written}, and latest.safetensors has {sealed_as}");
    Err(Error::Altered { folder: folder.to_path_buf(), path: config_path(folder), what })
}

/// All rows, if they begin with those that the checkpoint was saved after.
fn rows(bytes: &[u8], checkpoint: &Checkpoint) -> Result<Table, String> {
    let updates = usize::try_from(checkpoint.updates()).unwrap_or(usize::MAX);
    let (table, digest) = parse_progress(bytes, updates)?;
    if table.rows.len() < updates {
        let rows = table.rows.len();
        return Err(format!("it has {rows} rows, and latest.safetensors was saved after {updates}: rows are missing"));
    }
    check_updates(&table)?;
    match checkpoint.rows() {
        Some(sealed) if sealed != digest => {
            Err("its rows are not those that latest.safetensors was saved after".into())
        }
        _ => Ok(table),
    }
}

/// All rows, each with a check of itself and of those before it.
fn rows_alone(bytes: &[u8]) -> Result<Table, String> {
    let (table, _) = parse_progress(bytes, 0)?;
    check_updates(&table)?;
    match has_checks(bytes) {
        true => Ok(table),
        false => Err("its rows carry no checks, and there is no checkpoint to vouch for them".into()),
    }
}

/// That there is a row for every update, in order.
fn check_updates(table: &Table) -> Result<(), String> {
    let update = table.column("update").ok_or("it has no column `update`")?;
    match (0..table.rows.len()).find(|&i| table.rows[i][update] != (i + 1) as f64) {
        Some(i) => Err(format!("line {} is about update {}, not {}", i + 2, table.rows[i][update], i + 1)),
        None => Ok(()),
    }
}

/// That a summary.json says what the rows come to, as far as it says anything.
fn check_summary(text: &str, summary: &Summary) -> Result<(), String> {
    let written: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|error| format!("it is no summary: {error}"))?;
    // By way of text, so that every number is read in the same way.
    let text = serde_json::to_string(summary).expect("plain data can be written to memory");
    let due: serde_json::Value = serde_json::from_str(&text).expect("it was just written");
    match written.iter().find(|(name, value)| due[name.as_str()] != **value) {
        Some((name, _)) => Err(format!("its {name} is not what the rows of progress.csv come to")),
        None => Ok(()),
    }
}

/// What is wrong with a folder whose checkpoint cannot be read.
fn explain(folder: &Path, error: Error) -> Error {
    match &error {
        // It may never have been one.
        Error::Io(io) if io.kind() == ErrorKind::NotFound => load_config(folder).err().unwrap_or(error),
        _ => error,
    }
}

fn not_a_run(folder: &Path, reason: &str) -> Error {
    let (folder, reason) = (folder.to_path_buf(), reason.to_string());
    match () {
        () if folder.is_dir() => Error::NotARun { folder, reason },
        () if folder.exists() => Error::NotARun { folder, reason: "it is a file, not a run's folder".into() },
        () => Error::NoRun { folder },
    }
}
