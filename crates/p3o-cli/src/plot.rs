//! `p3o plot`: the learning curves of any runs.

use crate::Failure;
use crate::args::PlotArgs;
use crate::screen::{say, thousands};
use crate::train::shown;
use p3o::RunFolder;
use p3o::config::{Config, Method, Setting, plain};
use p3o::record::{Table, write_atomic};
use p3o::run::is_run;
use p3o_lab::figure::{Picture, Row, curves};
use std::cmp::Ordering::Equal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Pixels of a PNG to a point of the SVG.
const SCALE: f32 = 2.0;
/// How far below a named folder runs are looked for.
const DEPTH: usize = 4;

/// A run as it lies in its folder.
struct Found {
    folder: PathBuf,
    config: Config,
    table: Table,
}

/// `p3o plot`
pub fn plot(args: &PlotArgs) -> Result<(), Failure> {
    let outputs = args.output.as_ref().map_or_else(|| vec!["plot.svg".into(), "plot.png".into()], |o| vec![o.clone()]);
    if let Some(wrong) = outputs.iter().find(|o| !matches!(ending(o).as_str(), "svg" | "png")) {
        return Err(Failure::Usage(format!("{} must end in .svg or .png", wrong.display())));
    }
    let (found, unreadable) = find(&args.runs)?;
    let (runs, empty): (Vec<Found>, Vec<Found>) = found.into_iter().partition(|r| !r.table.rows.is_empty());
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
    for failure in &unreadable {
        if let Failure::Failed(line) | Failure::Usage(line) = failure {
            say!("  left out: {line}");
        }
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
fn find(named: &[PathBuf]) -> Result<(Vec<Found>, Vec<Failure>), Failure> {
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
    let (mut runs, mut errors) = (Vec::new(), Vec::new());
    for run in folders.into_iter().map(Found::read) {
        match run {
            Ok(run) => runs.push(run),
            Err(error) => errors.push(error),
        }
    }
    // One run that cannot be read does not keep the others from being drawn.
    if runs.is_empty() { Err(errors.swap_remove(0)) } else { Ok((runs, errors)) }
}

/// Runs at or below a folder, by name; a run's own folder is not searched.
fn collect(folder: &Path, depth: usize, folders: &mut Vec<PathBuf>) {
    if is_run(folder) {
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
        let RunFolder { config, table, .. } = RunFolder::open(&folder)?;
        let path = folder.join("progress.csv");
        match table.column("steps").and(table.column("return")) {
            Some(_) => Ok(Found { folder, config, table }),
            None => Err(Failure::Failed(format!("{}: it has no columns steps and return", path.display()))),
        }
    }

    /// A setting's value, `section.name`.
    fn setting(&self, key: &str) -> Option<toml::Value> {
        self.config.settings().into_iter().find(|setting| setting.key() == key).map(|setting| setting.value)
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.setting(key).and_then(|v| v.as_float().or_else(|| v.as_integer().map(|i| i as f64)))
    }

    fn steps(&self) -> u64 {
        let column = self.table.column("steps").expect("it was checked when the run was read");
        self.table.rows.last().map_or(0, |row| row[column] as u64)
    }

    /// Whole batches.
    fn planned(&self) -> u64 {
        self.config.updates() * self.config.rollout.batch as u64
    }

    /// The task with its options.
    fn task(&self) -> String {
        let options = self.config.env.iter().map(|(name, value)| format!(" {name}={value}"));
        std::iter::once(self.config.task.clone()).chain(options).collect()
    }

    fn costs(&self) -> Vec<(String, Option<f64>)> {
        let names = self.table.columns.iter().filter_map(|c| c.strip_prefix("cost_"));
        let names = names.filter(|name| !name.starts_with("per_step_"));
        names.map(|name| (name.to_string(), self.config.limits.get(name).copied())).collect()
    }
}

/// A row for each task and its limits, algorithm by algorithm. Where runs of an algorithm have
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
        let methods: BTreeSet<Method> = runs.iter().map(|run| run.config.method()).collect();
        let of = |method: Method| runs.iter().filter(|run| run.config.method() == method).copied().collect();
        let groups = methods.into_iter().flat_map(|method| groups(method, of(method))).collect();
        Row { title: runs[0].task(), groups, costs: runs[0].costs() }
    };
    alike.into_iter().map(row).collect()
}

/// The runs of one algorithm, apart where their settings are.
fn groups(method: Method, mut runs: Vec<&Found>) -> Vec<(String, Vec<Table>)> {
    let matters = |setting: &Setting| setting.section != "run";
    let differs = |key: &String| runs.iter().any(|run| run.setting(key) != runs[0].setting(key));
    let all = runs[0].config.settings().into_iter().filter(matters);
    let keys: Vec<String> = all.map(|setting| setting.key()).filter(differs).collect();
    runs.sort_by(|a, b| {
        keys.iter().map(|k| a.number(k)).partial_cmp(keys.iter().map(|k| b.number(k))).unwrap_or(Equal)
    });
    let mut groups: Vec<(String, Vec<Table>)> = Vec::new();
    for run in runs {
        let value = |key: &str| run.setting(key).map_or_else(String::new, |value| plain(&value));
        let own = format!("{}.", method.algorithm);
        let choice = |key: &String| format!(", {}={}", key.trim_start_matches(&own), value(key));
        let name = method.to_string() + &keys.iter().map(choice).collect::<String>();
        match groups.iter_mut().find(|(n, _)| *n == name) {
            Some((_, tables)) => tables.push(run.table.clone()),
            None => groups.push((name, vec![run.table.clone()])),
        }
    }
    groups
}
