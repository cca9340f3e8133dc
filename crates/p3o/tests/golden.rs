//! What is trained does not change: runs of every kind come to the very parameters and figures that were recorded.

use crate::util::on_threads;
use p3o::record::{ProgressCsv, fnv1a};
use p3o::run::{checkpoint_path, named_task};
use p3o::{Config, Run};
use rayon::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// One line of `golden/runs.toml`.
struct Golden {
    name: String,
    config: Config,
    parameters: String,
    columns: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The base settings with some of them changed, as a file of version 1.
fn version_1(base: &toml::Table, run: &toml::Table) -> String {
    let mut config = base.clone();
    let mut set = |key: &str, value: toml::Value| {
        let (group, name) = key.split_once('.').unwrap_or(("", key));
        let table = if group.is_empty() { &mut config } else { config[group].as_table_mut().unwrap() };
        table.insert(name.to_string(), value);
    };
    set("task", run["task"].clone());
    set("algo.name", run["algo"].clone());
    for change in run["set"].as_array().unwrap() {
        let (key, text) = change.as_str().unwrap().split_once('=').unwrap();
        let value = toml::from_str::<toml::Table>(&format!("x = {text}")).ok().map(|mut t| t.remove("x").unwrap());
        set(key, value.unwrap_or_else(|| toml::Value::String(text.to_string())));
    }
    config.to_string()
}

fn runs(text: &str) -> Vec<Golden> {
    let base: toml::Table = std::fs::read_to_string(folder().join("base.toml")).unwrap().parse().unwrap();
    let all: toml::Table = text.parse().unwrap();
    let golden = |run: &toml::Value| {
        let run = run.as_table().unwrap();
        let text = |key: &str| run[key].as_str().unwrap().to_string();
        let config = Config::from_toml(&version_1(&base, run)).unwrap_or_else(|e| panic!("{}: {e}", text("name")));
        Golden { name: text("name"), config, parameters: text("parameters"), columns: text("columns") }
    };
    all["run"].as_array().unwrap().iter().map(golden).collect()
}

/// A hash of all networks with their optimisers, and one of what progress.csv says but for time and speed.
pub fn hashes(run: &Path) -> (String, String) {
    let bytes = std::fs::read(checkpoint_path(run)).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors = file.tensors();
    tensors.retain(|(name, t)| t.dtype() == Dtype::F32 && (name.contains("actor.") || name.contains("critic.")));
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(tensors.iter().any(|(name, _)| name.contains("adam_v")), "no optimiser in {}", run.display());
    let parameters = fnv1a(tensors.iter().flat_map(|(name, t)| [name.as_bytes(), t.data()]));
    let table = ProgressCsv::read(&run.join("progress.csv")).unwrap();
    // Version 1 wrote P3O's kappa and repeated passes for PPO too, which has no penalty.
    let penalty = table.columns.iter().any(|c| c.starts_with("penalized"));
    let left_out = if penalty { &["steps_per_s", "wall_s"][..] } else { &["steps_per_s", "wall_s", "kappa", "redone"] };
    let kept: Vec<usize> = (0..table.columns.len()).filter(|&i| !left_out.contains(&&*table.columns[i])).collect();
    let mut text: String = kept.iter().map(|&i| table.columns[i].clone() + ",").collect();
    table.rows.iter().for_each(|row| text += &kept.iter().map(|&i| format!("{},", row[i])).collect::<String>());
    (format!("{parameters:016x}"), format!("{:016x}", fnv1a([text.as_bytes()])))
}

fn train(config: &Config) -> (String, String) {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    on_threads(1, || {
        let mut run = Run::start(config.clone(), &*named_task(config).unwrap(), &folder).unwrap();
        run.train(&mut |_, _| ControlFlow::Continue(())).unwrap();
    });
    hashes(&folder)
}

#[test]
fn runs_of_every_kind_come_to_what_was_recorded() {
    let path = folder().join("runs.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let runs = runs(&text);
    let found: Vec<(String, String)> = runs.par_iter().map(|run| train(&run.config)).collect();
    if std::env::var_os("P3O_GOLDEN").is_some_and(|word| word == "record") {
        let mut hashes = found.iter().flat_map(|(p, c)| [p, c]);
        let hashed = |line: &str| match line.split_once(" = ") {
            Some((key @ ("parameters" | "columns"), _)) => format!("{key} = \"{}\"\n", hashes.next().unwrap()),
            _ => format!("{line}\n"),
        };
        std::fs::write(&path, text.lines().map(hashed).collect::<String>()).unwrap();
        return;
    }
    let differs = |(run, found): (&Golden, &(String, String))| {
        let (parameters, columns) = (run.parameters != found.0, run.columns != found.1);
        (parameters || columns).then(|| format!("{} (parameters {parameters}, columns {columns})", run.name))
    };
    let wrong: Vec<String> = runs.iter().zip(&found).filter_map(differs).collect();
    assert!(wrong.is_empty(), "{} of {} differ: {}", wrong.len(), runs.len(), wrong.join("; "));
}
