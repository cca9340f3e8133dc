//! Which runs there are: those of all experiments, each once.

use super::data::{Experiment, Group, Scale};
use crate::sweep::Job;
use p3o::config::Run;
use p3o::record::fnv1a;
use p3o::{Config, Error};
use std::collections::HashMap;
use std::path::Path;

/// The runs of some experiments at one scale.
pub struct Plan {
    /// How large they are.
    pub scale: Scale,
    /// The experiments.
    pub experiments: Vec<Experiment>,
    /// Every run once, the first seeds of all experiments first.
    pub jobs: Vec<Job>,
    /// A short name for every run.
    pub names: Vec<String>,
    /// For every experiment, group and curve the places of its runs among the jobs, seed by seed.
    pub runs: Vec<Vec<Vec<Vec<usize>>>>,
}

impl Plan {
    /// Experiments at a scale, with another number of seeds if wanted, in `folder`.
    pub fn new(experiments: Vec<Experiment>, scale: Scale, seeds: Option<u16>, folder: &Path) -> Result<Plan, Error> {
        let configs = |group: &Group| -> Result<Vec<Config>, Error> {
            group.curves.iter().map(|curve| scale.config(&group.task, curve)).collect()
        };
        let configs: Result<Vec<Vec<Vec<Config>>>, Error> =
            experiments.iter().map(|e| e.group.iter().map(configs).collect()).collect();
        let configs = configs?;
        let empty = |e: &Experiment| e.group.iter().map(|g| vec![Vec::new(); g.curves.len()]).collect();
        let runs = experiments.iter().map(empty).collect();
        let mut plan = Plan { scale, experiments, jobs: Vec::new(), names: Vec::new(), runs };
        let mut known: HashMap<String, usize> = HashMap::new();
        let most = plan.scale.tasks.values().filter_map(|t| t.seeds).fold(plan.scale.seeds, u16::max);
        for seed in 0..seeds.unwrap_or(most) {
            for (e, configs) in configs.iter().enumerate() {
                for (g, configs) in configs.iter().enumerate() {
                    let group = &plan.experiments[e].group[g];
                    if seed >= seeds.unwrap_or(plan.scale.seeds_of(&group.task)) {
                        continue;
                    }
                    for (c, config) in configs.iter().enumerate() {
                        let name = folder_name(config, &plan.scale.name, seed);
                        let run = *known.entry(name.clone()).or_insert_with(|| {
                            let mut config = config.clone();
                            config.run.seed = u64::from(seed);
                            plan.jobs.push(Job { config, folder: folder.join("runs").join(name) });
                            plan.names.push(format!("{} {} seed {seed}", group.task, group.curves[c].name));
                            plan.jobs.len() - 1
                        });
                        plan.runs[e][g][c].push(run);
                    }
                }
            }
        }
        Ok(plan)
    }
}

/// What a run is, as a folder's name: any change of what distinguishes it gives another one, and its seeds stand side by
/// side. Settings at their base values do not count, so that a new setting leaves the names of earlier runs alone.
fn folder_name(config: &Config, scale: &str, seed: u16) -> String {
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
