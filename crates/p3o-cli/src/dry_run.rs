//! `--dry-run`: what a command would do, with its memory and its time, while nothing is trained for keeps and nothing is written.

use crate::device::Device;
use crate::screen::{duration, say, thousands};
use crate::train::shown;
use crate::{Failure, pool};
use p3o::Config;
use p3o::memory::{Estimate, available, bytes, check_all};
use p3o::run::{check_folder, named_task};
use p3o_env::EnvSpec;
use p3o_lab::reproduce::estimate::{estimate, seconds_per_step};
use p3o_lab::sweep::{Job, Place, Workers, memory};
use std::path::Path;

/// Of `p3o train`.
pub fn of_run(
    about: &str,
    config: &Config,
    folder: &Path,
    threads: Option<usize>,
    device: &Device,
) -> Result<(), Failure> {
    check_folder(folder)?;
    pool(threads)?.install(|| {
        let (spec, threads) = (named_task(config)?().spec().clone(), rayon::current_num_threads());
        say!("{about}\n\nfolder      {}", shown(folder));
        training(config);
        limits(config);
        networks(config, &spec);
        let run = [Estimate::of(config, &spec, threads)];
        takes(&run);
        check_all(&run)?;
        let seconds = seconds_per_step(config, device)? * (config.updates() * config.rollout.batch as u64) as f64;
        let on = if threads == 1 { "one thread".to_string() } else { format!("{threads} threads") };
        let on = if device.is_cpu() { on } else { format!("{on} and {}", device.device()) };
        say!("time        about {} on {on}, measured on two small updates", duration(seconds.max(1.0)));
        say!("\nNothing has been written.");
        Ok(())
    })
}

/// Of `p3o compare`.
pub fn of_runs(about: &str, jobs: &[Job], folder: &Path, workers: &Workers) -> Result<(), Failure> {
    say!("runs        {about}");
    say!("folder      {}", shown(folder));
    let config = &jobs[0].config;
    training(config);
    limits(config);
    let runs = memory(jobs, workers)?;
    takes(&runs);
    check_all(&runs)?;
    let estimate = estimate(jobs, workers);
    say!(
        "time        about {} with {}, measured on small updates and on runs that are there ({} finished)",
        duration(estimate.seconds.max(1.0)),
        at_a_time(workers),
        estimate.finished
    );
    say!("\nNothing has been written.");
    Ok(())
}

/// How many runs are made at a time, and where.
pub fn at_a_time(workers: &Workers) -> String {
    let runs = if workers.runs == 1 { "one run".to_string() } else { format!("{} runs", workers.runs) };
    let place = if workers.place.is_cpu() { String::new() } else { format!(" on {}", workers.place.device()) };
    format!("{runs} at a time{place}")
}

fn training(config: &Config) {
    let (updates, batch, envs) = (config.updates(), config.rollout.batch as u64, config.rollout.envs);
    let word = if updates == 1 { "update" } else { "updates" };
    let [steps, updates, batch] = [updates * batch, updates, batch].map(|n| thousands(n as f64));
    say!("training    {updates} {word} of {batch} steps in {envs} environments: {steps} steps");
}

fn limits(config: &Config) {
    let limits: Vec<String> = config.limits.iter().map(|(cost, limit)| format!("{cost} {limit}")).collect();
    say!("limits      {}", if limits.is_empty() { "none".to_string() } else { limits.join(", ") });
}

/// The networks that are trained, with the numbers of their parameters.
fn networks(config: &Config, spec: &EnvSpec) {
    let groups = config.groups(spec).len();
    let line = |inputs: usize, outputs: usize| {
        let widths = config.net.widths(inputs, &outputs.to_string());
        format!("{widths}, {} parameters", thousands(config.net.parameters(inputs, outputs)))
    };
    let each = if groups > 1 { format!(" for each of {groups} agents") } else { String::new() };
    say!("networks    actor{each}: {}", line(spec.obs_dim / spec.agents, spec.action.outputs()));
    let signals: Vec<&str> = std::iter::once("reward").chain(config.limits.keys().map(String::as_str)).collect();
    let (signals, shape) = (signals.join(", "), line(spec.obs_dim / groups, 1));
    say!("            a critic of each of {signals}{each}: {shape}");
}

/// Memory by item against what is free.
fn takes(runs: &[Estimate]) {
    let total: f64 = runs.iter().map(Estimate::total).sum();
    let free = available().map_or(String::new(), |free| format!(" of {} that are free", bytes(free)));
    let at_a_time = if runs.len() > 1 { format!(", {} runs at a time", runs.len()) } else { String::new() };
    say!("memory      about {}{free}{at_a_time}", bytes(total));
    let Some(run) = runs.first() else { return };
    for (i, item) in run.items.iter().enumerate() {
        let sum: f64 = runs.iter().map(|run| run.items[i].bytes).sum();
        say!("            {:<16}{:>8}", item.name, bytes(sum));
    }
}
