//! `p3o evaluate`

use crate::args::EvaluateArgs;
use crate::screen::{Grid, Search, figure, say, thousands};
use crate::train::shown;
use crate::{Failure, pool};
use p3o::evaluate::{CostFigure, Evaluation, Settings, Spread, Verdict};
use p3o::memory::check_agent;
use p3o::run::named_task;
use p3o::{Agent, Error};

/// `p3o evaluate`
pub fn evaluate(args: &EvaluateArgs) -> Result<(), Failure> {
    let episodes = args.episodes.unwrap_or(if args.certify { 10_000 } else { 100 }) as usize;
    let settings = Settings { episodes, seed: args.seed, deterministic: args.deterministic };
    let found = pool(args.threads.map(usize::from))?.install(|| -> Result<Evaluation, Failure> {
        let agent = Agent::load(&args.run)?;
        if (args.certify || args.require_safe) && agent.limits().iter().all(|limit| limit.is_infinite()) {
            return Err(Error::NoLimit.into());
        }
        if args.require_safe && agent.digest().is_none() {
            let run = shown(&args.run);
            return Err(Failure::Failed(format!(
                "{run} is of an older version, in which nothing vouches for the limits: p3o adopt {run} seals it as it is"
            )));
        }
        check_agent(&agent, settings.episodes)?;
        let make = named_task(agent.config())?;
        if !args.certify {
            return Ok(p3o::evaluate::evaluate(&agent, &*make, &settings)?);
        }
        let search = Search::new(episodes);
        let found = p3o::evaluate::certify(&agent, &*make, &settings, &mut |standing| search.show(standing));
        search.clear();
        Ok(found?)
    })?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&found).expect("plain data can be written to memory"));
    } else {
        show(&found);
    }
    if args.require_safe && found.safe != Some(true) { Err(Failure::Unsafe(why(&found))) } else { Ok(()) }
}

/// Why a policy is not called safe.
fn why(e: &Evaluation) -> String {
    let worst = [Verdict::Violated, Verdict::NotSure].into_iter().find_map(|verdict| {
        let (name, cost) = e.costs.iter().find(|(_, cost)| cost.verdict == Some(verdict))?;
        Some((name, cost, verdict))
    });
    let (name, cost, verdict) = worst.expect("a policy that is not safe has such a cost");
    let (mean, limit) = (figure(cost.mean), cost.limit.unwrap_or(f64::NAN));
    let Some(bounds) = cost.bounds else {
        return format!("not shown to be safe: no bound of the cost {name} is known");
    };
    if verdict == Verdict::Violated {
        let lower = figure(bounds.lower);
        return format!("not safe: cost {name} has mean {mean} and lower 95 % bound {lower}, limit {limit}");
    }
    let upper = figure(bounds.upper);
    let found =
        format!("not shown to be safe: cost {name} has mean {mean} and upper 95 % bound {upper}, limit {limit}");
    let more = if e.certify { "--episodes allows more" } else { "--certify plays more episodes" };
    let hint = match cost.fewest_episodes {
        None => "no number of episodes shows this limit to be kept".to_string(),
        Some(fewest) if fewest > e.episodes => {
            format!("showing it takes at least {} episodes; {more}", thousands(fewest as f64))
        }
        Some(_) => more.to_string(),
    };
    format!("{found}; {hint}")
}

fn show(e: &Evaluation) {
    let options: Vec<String> = e.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let options = if options.is_empty() { String::new() } else { format!(" ({})", options.join(", ")) };
    let steps = thousands(e.trained_steps as f64);
    say!("{}{options}, {} after {steps} steps with seed {}, judged by {}", e.task, e.algo, e.trained_seed, e.program);
    let actions = if e.deterministic { "likeliest actions" } else { "sampled actions" };
    say!("{} with seed {}, {actions}", episodes(e), e.seed);
    say!("checkpoint {}\n", e.checkpoint.as_deref().unwrap_or("of an older version: nothing vouches for its settings"));
    means(e);
    say!("");
    spreads(e);
    say!("");
    notes(e);
}

fn episodes(e: &Evaluation) -> String {
    if e.episodes == 1 { "1 episode".to_string() } else { format!("{} episodes", thousands(e.episodes as f64)) }
}

/// Means with their bounds against the limits.
fn means(e: &Evaluation) {
    let mut grid = Grid::new(&["", "mean", "sd", "95 % bounds of mean", "limit", ""]);
    let row = |name: &str, mean: f64, sd: f64, bounds| vec![name.into(), figure(mean), figure(sd), range(bounds)];
    grid.row(row("return", e.ret.mean, e.ret.sd, Some(e.ret.ci95)));
    for (name, cost) in &e.costs {
        let bounds = cost.bounds.map(|b| (b.lower, b.upper));
        let mut cells = row(&format!("cost {name}"), cost.mean, cost.sd, bounds);
        cells.push(cost.limit.map_or("none".into(), |limit| limit.to_string()));
        cells.extend(cost.verdict.map(|verdict| verdict.word().to_string()));
        grid.row(cells);
        if let Some(verdict) = cost.verdict {
            grid.paint(5, verdict == Verdict::Safe);
        }
    }
    grid.row(row("length", e.length.mean, e.length.sd, Some(e.length.ci95)));
    grid.print();
}

/// How episodes differ.
fn spreads(e: &Evaluation) {
    let limits = e.costs.values().any(|cost| cost.limit.is_some());
    let over = if limits { "over limit (95 % bounds)" } else { "" };
    let mut grid = Grid::new(&["", "least", "5 %", "25 %", "50 %", "75 %", "95 %", "greatest", over]);
    let row = |name: &str, s: &Spread| {
        let numbers = [s.least, s.q05, s.q25, s.q50, s.q75, s.q95, s.greatest].map(short);
        std::iter::once(name.to_string()).chain(numbers).collect::<Vec<_>>()
    };
    grid.row(row("return", &e.ret.spread));
    for (name, cost) in &e.costs {
        let mut cells = row(&format!("cost {name}"), &cost.spread);
        cells.extend(share(cost));
        grid.row(cells);
    }
    grid.row(row("length", &e.length.spread));
    grid.print();
}

fn share(cost: &CostFigure) -> Option<String> {
    let (share, bounds) = (cost.share_over_limit?, cost.share_bounds?);
    let [share, lower, upper] = [share, bounds.lower, bounds.upper].map(|x| format!("{:.1}", 100.0 * x));
    Some(format!("{share} % ({lower} .. {upper})"))
}

/// What the figures rest on, and the verdict.
fn notes(e: &Evaluation) {
    let most: Vec<String> = e
        .costs
        .iter()
        .filter_map(|(name, cost)| Some(format!("{name} at most {} an episode", short(cost.episode_bound?))))
        .collect();
    if !most.is_empty() {
        say!("Each bound of a cost holds with 95 % whatever its distribution ({}); those of", most.join(", "));
        say!("return and length are Student's t, which is approximate.");
    }
    e.adopted.iter().for_each(|change| say!("Changed by hand and adopted: {change}."));
    let after = if e.certify { format!(" after {}", episodes(e)) } else { String::new() };
    match e.verdict {
        None => say!("No cost has a limit: there is nothing to be safe from."),
        Some(Verdict::Safe) => {
            say!("Safe{after}: the mean of every limited cost is within its limit, with 95 % confidence.")
        }
        Some(_) => {
            let why = why(e);
            let (verdict, reason) = why.split_once(':').expect("a verdict and its reason");
            say!("{}{}{after}:{reason}.", verdict[..1].to_uppercase(), &verdict[1..]);
        }
    }
}

fn range(bounds: Option<(f64, f64)>) -> String {
    match bounds {
        Some((low, high)) if low.is_finite() && high.is_finite() => format!("{} .. {}", figure(low), figure(high)),
        _ => "-".to_string(),
    }
}

/// Two digits behind the point unless they are zero.
fn short(x: f64) -> String {
    let text = figure(x);
    text.strip_suffix(".00").map_or(text.clone(), str::to_string)
}
