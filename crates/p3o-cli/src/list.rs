//! `p3o list`

use crate::Failure;
use crate::screen::{Grid, figure, say, thousands};
use crate::train::shown;
use p3o::config::{Method, PRESETS, Preset};
use p3o::run::{has_checkpoint, is_run};
use p3o::{Agents, Algorithm, Error, RunFolder};
use std::collections::BTreeMap;
use std::path::Path;

/// `p3o list`
pub fn list() -> Result<(), Failure> {
    say!("Tasks");
    let width = p3o_env::TASKS.iter().map(|task| task.name.len()).fold(12, usize::max);
    for task in p3o_env::TASKS {
        say!("  {:<width$} {}", task.name, task.summary);
        let env = p3o_env::tasks::make(task.name, &BTreeMap::new()).expect("a listed task can be made");
        let costs: Vec<String> = env.spec().costs.iter().map(|c| format!("{} (limit {})", c.name, c.limit)).collect();
        say!("  {:<width$} costs: {}", "", costs.join(", "));
        for option in task.options {
            let (name, default, allowed) = (option.name, option.default_word(), &option.allowed);
            say!("  {:<width$} --set env.{name}={default}  {} ({allowed})", "", option.summary);
        }
    }
    say!("\nAlgorithms");
    for algorithm in Algorithm::ALL {
        say!("  {algorithm:<12} {}", algorithm.info().summary);
    }
    for (agents, what) in [
        (Agents::Centralised, "several agents, one shared actor on an agent's own observation, critics on all of them"),
        (Agents::Decentralised, "several agents, each with its own actor and critics on its own observation"),
    ] {
        let names = Method::all().into_iter().filter(|m| m.agents == agents).map(|m| m.to_string());
        say!("  {}\n  {:<12} {what}", names.collect::<Vec<_>>().join(", "), "");
    }
    say!("\nPresets");
    for (name, _) in PRESETS {
        say!("  {name:<12} {}", Preset::named(name)?.about);
    }
    runs();
    Ok(())
}

/// The runs in ./runs, with what they came to.
fn runs() {
    let mut folders: Vec<_> = std::fs::read_dir("runs")
        .map(|entries| entries.flatten().map(|e| e.path()).filter(|p| is_run(p)).collect())
        .unwrap_or_default();
    if folders.is_empty() {
        return;
    }
    folders.sort();
    say!("\nRuns");
    let mut grid = Grid::new(&["", "steps", "return", "costs"]);
    let mut unreadable = Vec::new();
    for folder in folders {
        match row(&folder) {
            Ok(row) => grid.row(row),
            Err(error) => unreadable.push(error),
        }
    }
    grid.print();
    unreadable.iter().for_each(|error| say!("  left out: {error}"));
}

fn row(folder: &Path) -> Result<Vec<String>, Error> {
    let name = shown(folder);
    if !has_checkpoint(folder) {
        return Ok(vec![name, "not started".into()]);
    }
    let run = RunFolder::open(folder)?;
    let summary = run.summary()?;
    let number = |x: Option<f64>| figure(x.unwrap_or(f64::NAN));
    let costs = summary.costs.iter().map(|(name, cost)| {
        let limit = cost.limit.map_or(String::new(), |limit| format!("/{limit}"));
        format!("{name} {}{limit}", number(cost.mean))
    });
    let all = run.config.updates() * run.config.rollout.batch as u64;
    let steps = match run.steps() < all {
        true => format!("{} of {}", thousands(run.steps() as f64), thousands(all as f64)),
        false => thousands(run.steps() as f64),
    };
    Ok(vec![name, steps, number(summary.return_mean), costs.collect::<Vec<_>>().join(", ")])
}
