//! Which runs there are: those of all experiments, each once.

use super::data::{Book, Experiment, Group, PAPER, Scale};
use crate::sweep::Job;
use p3o::config::Run;
use p3o::record::fnv1a;
use p3o::{Config, Error};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// The runs of some experiments at one scale.
pub struct Plan {
    /// How large they are.
    pub scale: Scale,
    /// The experiments.
    pub experiments: Vec<Experiment>,
    /// Every run once, the first seeds of all experiments first, and of these the experiments by their turn.
    pub jobs: Vec<Job>,
    /// A short name for every run.
    pub names: Vec<String>,
    /// For every experiment, group and curve the places of its runs among the jobs, seed by seed.
    pub runs: Vec<Vec<Vec<Vec<usize>>>>,
}

impl Plan {
    /// Experiments at a scale, with another number of seeds if wanted, in `folder`.
    pub fn new(experiments: Vec<Experiment>, scale: Scale, seeds: Option<u16>, folder: &Path) -> Result<Plan, Error> {
        scale.check_seeds(seeds.unwrap_or(scale.most_seeds()))?;
        let configs = |group: &Group| -> Result<Vec<Config>, Error> {
            group.curves.iter().map(|curve| scale.config(&group.task, curve)).collect()
        };
        let configs: Result<Vec<Vec<Vec<Config>>>, Error> =
            experiments.iter().map(|e| e.group.iter().map(configs).collect()).collect();
        let configs = configs?;
        let empty = |e: &Experiment| e.group.iter().map(|g| vec![Vec::new(); g.curves.len()]).collect();
        let mut runs: Vec<Vec<Vec<Vec<usize>>>> = experiments.iter().map(empty).collect();
        let mut order: Vec<usize> = (0..experiments.len()).collect();
        order.sort_by_key(|&e| experiments[e].turn);
        let mut all = Jobs::new(&scale.name, folder);
        for run in 0..seeds.unwrap_or(scale.most_seeds()) {
            let seed = scale.first_seed + u64::from(run);
            for &e in &order {
                for (g, group) in experiments[e].group.iter().enumerate() {
                    if run >= seeds.unwrap_or(scale.seeds_of(&group.task)) {
                        continue;
                    }
                    for (c, config) in configs[e][g].iter().enumerate() {
                        runs[e][g][c].push(all.add(config, seed, &group.curves[c].name));
                    }
                }
            }
        }
        let Jobs { jobs, names, .. } = all;
        Ok(Plan { scale, experiments, jobs, names, runs })
    }

    /// The rows of the contest that each run stands for: one, unless curves share it.
    pub fn rows(&self) -> Vec<BTreeSet<&str>> {
        let mut rows = vec![BTreeSet::new(); self.jobs.len()];
        for (experiment, runs) in self.experiments.iter().zip(&self.runs) {
            for (group, runs) in experiment.group.iter().zip(runs) {
                for (curve, runs) in group.curves.iter().zip(runs) {
                    runs.iter().for_each(|&run| _ = rows[run].insert(curve.row.as_str()));
                }
            }
        }
        rows
    }

    /// What its experiments belong to.
    pub fn book(&self) -> &'static Book {
        self.experiments.first().map_or(&PAPER, |experiment| experiment.book)
    }
}

/// Runs that are collected, each once.
pub(super) struct Jobs {
    /// The runs.
    pub jobs: Vec<Job>,
    /// A short name for every run.
    pub names: Vec<String>,
    known: HashMap<String, usize>,
    scale: String,
    folder: PathBuf,
}

impl Jobs {
    /// None yet, of a scale and in a folder.
    pub fn new(scale: &str, folder: &Path) -> Jobs {
        let (jobs, names, known) = (Vec::new(), Vec::new(), HashMap::new());
        Jobs { jobs, names, known, scale: scale.to_string(), folder: folder.join("runs") }
    }

    /// The place of a run, which is a new one if it is not known yet.
    pub fn add(&mut self, config: &Config, seed: u64, curve: &str) -> usize {
        let name = folder_name(config, &self.scale, seed);
        *self.known.entry(name.clone()).or_insert_with(|| {
            let mut config = config.clone();
            config.run.seed = seed;
            self.names.push(format!("{} {curve} seed {seed}", config.task));
            self.jobs.push(Job { config, folder: self.folder.join(name) });
            self.jobs.len() - 1
        })
    }
}

/// What a run is, as a folder's name: any change of what distinguishes it gives another one, and its seeds stand side by
/// side. Settings at their base values do not count, so that a new setting leaves the names of earlier runs alone.
fn folder_name(config: &Config, scale: &str, seed: u64) -> String {
    let mut lines = vec![config.task.clone(), config.method().to_string(), format!("steps={}", config.run.steps)];
    for (table, numbers) in [("env", &config.env), ("limits", &config.limits)] {
        lines.extend(numbers.iter().map(|(name, x)| format!("{table}.{name}={x}")));
    }
    // The seed stands beside the hash, and the steps are among the lines already.
    let run = Run { checkpoint_every: config.run.checkpoint_every, ..Run::default() };
    let mut settings = Config { run, ..config.clone() }.differences();
    // The order in which the program has its settings does not count either.
    settings.sort();
    lines.extend(settings);
    let hash = fnv1a([lines.join("\n").as_bytes()]);
    let short = (hash ^ (hash >> 32)) as u32;
    format!("{}-{}-{scale}-{short:08x}-seed{seed}", config.task, config.method())
}
