//! `p3o plot`: the learning curves of any runs.

use crate::Failure;
use crate::args::PlotArgs;
use crate::screen::{say, thousands};
use crate::train::shown;
use p3o::config::ALGORITHMS;
use p3o::record::{ProgressCsv, Table, write_atomic};
use p3o_lab::figure::{Picture, Row, curves};
use std::cmp::Ordering::Equal;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Pixels of a PNG to a point of the SVG.
const SCALE: f32 = 2.0;
/// How far below a named folder runs are looked for.
const DEPTH: usize = 4;

/// A run as it lies in its folder.
struct Found {
    folder: PathBuf,
    /// What config.toml says, such as `algo.kappa`. Only a few of them are needed, so that runs made before or after a
    /// setting was added can be drawn together.
    settings: BTreeMap<String, toml::Value>,
    table: Table,
}

/// `p3o plot`
pub fn plot(args: &PlotArgs) -> Result<(), Failure> {
    let outputs = args.output.as_ref().map_or_else(|| vec!["plot.svg".into(), "plot.png".into()], |o| vec![o.clone()]);
    if let Some(wrong) = outputs.iter().find(|o| !matches!(ending(o).as_str(), "svg" | "png")) {
        return Err(Failure::Usage(format!("{} must end in .svg or .png", wrong.display())));
    }
    let (runs, empty): (Vec<Found>, Vec<Found>) = find(&args.runs)?.into_iter().partition(|r| !r.table.rows.is_empty());
    if runs.is_empty() {
        return Err(Failure::Failed(format!("{} has made no update yet", empty[0].folder.display())));
    }
    let rows = rows(&runs);
    let picture = curves(&rows);
    for output in &outputs {
        write(&picture, output)?;
    }
    let names: Vec<String> = outputs.iter().map(|o| shown(o)).collect();
    say!("{}: {} {}", names.join(", "), runs.len(), if runs.len() == 1 { "run" } else { "runs" });
    for row in &rows {
        let groups: Vec<String> =
            row.groups.iter().map(|(name, tables)| format!("{name} ({})", tables.len())).collect();
        say!("  {}: {}", row.title, groups.join(", "));
    }
    for run in runs.iter().chain(&empty).filter(|run| run.steps() < run.planned()) {
        let [made, planned] = [run.steps(), run.planned()].map(|n| thousands(n as f64));
        say!("  unfinished: {} ({made} of {planned} steps)", shown(&run.folder));
    }
    Ok(())
}

/// Writes what the name's ending asks for.
pub fn write(picture: &Picture, path: &Path) -> Result<(), Failure> {
    let bytes = match ending(path).as_str() {
        "png" => picture.png(SCALE).map_err(Failure::Failed)?,
        _ => picture.svg().into_bytes(),
    };
    Ok(write_atomic(path, &bytes).map_err(p3o::Error::from)?)
}

fn ending(path: &Path) -> String {
    path.extension().map_or(String::new(), |e| e.to_string_lossy().to_lowercase())
}

/// The named runs and those in named folders, each once.
fn find(named: &[PathBuf]) -> Result<Vec<Found>, Failure> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for path in named {
        let before = folders.len();
        collect(path, DEPTH, &mut folders);
        if folders.len() == before {
            let line = match path {
                path if path.is_dir() => {
                    format!("{} is not a run (it has no config.toml) and holds none", path.display())
                }
                path if path.exists() => format!("{} is not a run's folder", path.display()),
                path => format!("there is no run at {}", path.display()),
            };
            return Err(Failure::Failed(line));
        }
    }
    let mut seen = BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())));
    folders.into_iter().map(Found::read).collect()
}

/// Runs at or below a folder, by name; a run's own folder is not searched.
fn collect(folder: &Path, depth: usize, folders: &mut Vec<PathBuf>) {
    if folder.join("config.toml").is_file() {
        folders.push(folder.to_path_buf());
    } else if depth > 0 {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut inside: Vec<PathBuf> = entries.map(|e| e.path()).filter(|p| p.is_dir()).collect();
        inside.sort();
        inside.iter().for_each(|path| collect(path, depth - 1, folders));
    }
}

impl Found {
    fn read(folder: PathBuf) -> Result<Found, Failure> {
        let wrong = |path: &Path, what: &str| Failure::Failed(format!("{}: {what}", path.display()));
        let path = folder.join("config.toml");
        let text = std::fs::read_to_string(&path).map_err(|e| wrong(&path, &e.to_string()))?;
        let toml: toml::Table = text.parse().map_err(|e: toml::de::Error| wrong(&path, e.message()))?;
        let mut settings = BTreeMap::new();
        flatten("", toml, &mut settings);
        let needed = ["task", "algo.name", "steps", "rollout.batch"];
        if let Some(key) = needed.iter().find(|key| !settings.contains_key(**key)) {
            return Err(wrong(&path, &format!("it does not say what {key} is, so this is not a run")));
        }
        let path = folder.join("progress.csv");
        let table = ProgressCsv::read(&path).map_err(p3o::Error::from)?;
        match table.column("steps").and(table.column("return")) {
            Some(_) => Ok(Found { folder, settings, table }),
            None => Err(wrong(&path, "it has no columns steps and return")),
        }
    }

    fn text(&self, key: &str) -> &str {
        self.settings.get(key).and_then(|v| v.as_str()).unwrap_or("")
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.settings.get(key).and_then(|v| v.as_float().or_else(|| v.as_integer().map(|i| i as f64)))
    }

    fn steps(&self) -> u64 {
        let column = self.table.column("steps").expect("it was checked when the run was read");
        self.table.rows.last().map_or(0, |row| row[column] as u64)
    }

    /// Whole batches.
    fn planned(&self) -> u64 {
        let [steps, batch] = ["steps", "rollout.batch"].map(|key| self.number(key).unwrap_or(1.0).max(1.0));
        ((steps / batch).ceil() * batch) as u64
    }

    /// The task with its options.
    fn task(&self) -> String {
        let options = self.settings.keys().filter_map(|key| Some((key.strip_prefix("env.")?, self.number(key)?)));
        let options = options.map(|(name, value)| format!(" {name}={value}"));
        std::iter::once(self.text("task").to_string()).chain(options).collect()
    }

    fn costs(&self) -> Vec<(String, Option<f64>)> {
        let names = self.table.columns.iter().filter_map(|c| c.strip_prefix("cost_"));
        let names = names.filter(|name| !name.starts_with("per_step_"));
        names.map(|name| (name.to_string(), self.number(&format!("limits.{name}")))).collect()
    }
}

/// Settings of sections as `section.key`.
fn flatten(section: &str, table: toml::Table, settings: &mut BTreeMap<String, toml::Value>) {
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => flatten(&format!("{section}{key}."), inner, settings),
            value => drop(settings.insert(format!("{section}{key}"), value)),
        }
    }
}

/// A row for each task and its limits, the algorithms in the order of `p3o list`. Where runs of an algorithm have
/// different settings, each choice is a group of its own.
fn rows(runs: &[Found]) -> Vec<Row> {
    let mut alike: Vec<Vec<&Found>> = Vec::new();
    for run in runs {
        match alike.iter_mut().find(|row| row[0].task() == run.task() && row[0].costs() == run.costs()) {
            Some(row) => row.push(run),
            None => alike.push(vec![run]),
        }
    }
    let row = |runs: Vec<&Found>| {
        let of = |algo: &str| runs.iter().filter(|r| r.text("algo.name") == algo).copied().collect();
        let groups = algorithms(&runs).iter().flat_map(|algo| groups(algo, of(algo))).collect();
        Row { title: runs[0].task(), groups, costs: runs[0].costs() }
    };
    alike.into_iter().map(row).collect()
}

/// Those of the runs, in the order of `p3o list`.
fn algorithms(runs: &[&Found]) -> Vec<String> {
    let names: BTreeSet<&str> = runs.iter().map(|run| run.text("algo.name")).collect();
    let mut names: Vec<String> = names.into_iter().map(String::from).collect();
    names.sort_by_key(|name| ALGORITHMS.iter().position(|(known, _)| known == name).unwrap_or(ALGORITHMS.len()));
    names
}

/// The runs of one algorithm, apart where settings are that all of them have.
fn groups(algo: &str, mut runs: Vec<&Found>) -> Vec<(String, Vec<Table>)> {
    let differs = |key: &&String| {
        let values: Vec<_> = runs.iter().filter_map(|run| run.settings.get(*key)).collect();
        values.len() == runs.len() && values.iter().any(|v| *v != values[0])
    };
    let matters = |key: &&String| !matches!(key.as_str(), "seed" | "steps" | "preset") && !key.starts_with("run.");
    let keys: Vec<&String> = runs[0].settings.keys().filter(matters).filter(differs).collect();
    runs.sort_by(|a, b| {
        keys.iter().map(|k| a.number(k)).partial_cmp(keys.iter().map(|k| b.number(k))).unwrap_or(Equal)
    });
    let mut groups: Vec<(String, Vec<Table>)> = Vec::new();
    for run in runs {
        let value = |key: &str| run.number(key).map_or_else(|| run.settings[key].to_string(), |v| v.to_string());
        let choice = |key: &&String| format!(", {}={}", key.trim_start_matches("algo."), value(key));
        let name = algo.to_string() + &keys.iter().map(choice).collect::<String>();
        match groups.iter_mut().find(|(n, _)| *n == name) {
            Some((_, tables)) => tables.push(run.table.clone()),
            None => groups.push((name, vec![run.table.clone()])),
        }
    }
    groups
}
