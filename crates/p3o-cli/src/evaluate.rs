//! `p3o evaluate`

use crate::args::EvaluateArgs;
use crate::screen::{Grid, figure, say, thousands};
use crate::{Failure, pool};
use p3o::Agent;
use p3o::evaluate::{Evaluation, Figure, Settings};
use p3o::run::named_task;

/// `p3o evaluate`
pub fn evaluate(args: &EvaluateArgs) -> Result<(), Failure> {
    let settings = Settings { episodes: args.episodes as usize, seed: args.seed, deterministic: args.deterministic };
    let found = pool(args.threads.map(usize::from))?.install(|| -> Result<Evaluation, Failure> {
        let agent = Agent::load(&args.run)?;
        let make = named_task(agent.config())?;
        Ok(p3o::evaluate::evaluate(&agent, &*make, &settings))
    })?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&found).expect("plain data can be written to memory"));
    } else {
        table(&found);
    }
    if args.require_safe && !found.safe { Err(Failure::Unsafe) } else { Ok(()) }
}

fn table(e: &Evaluation) {
    let actions = if e.deterministic { "likeliest actions" } else { "sampled actions" };
    say!(
        "{}, {} after {} steps: {} episodes, {actions}\n",
        e.task,
        e.algo,
        thousands(e.trained_steps as f64),
        e.episodes
    );
    let cells = |name: &str, f: &Figure| {
        let (low, high) = f.ci95;
        vec![name.to_string(), figure(f.mean), figure(f.sd), format!("{} .. {}", figure(low), figure(high))]
    };
    let mut grid = Grid::new(&["", "mean", "sd", "95 % bounds of mean", "limit", "episodes over", ""]);
    grid.row(cells("return", &e.ret));
    for (name, cost) in &e.costs {
        let mut row = cells(&format!("cost {name}"), &cost.figure);
        if let (Some(limit), Some(share), Some(safe)) = (cost.limit, cost.share_over_limit, cost.safe) {
            let verdict = match (safe, cost.figure.mean <= limit) {
                (true, _) => "safe",
                (false, true) => "not sure",
                (false, false) => "violated",
            };
            row.extend([limit.to_string(), format!("{:.0} %", 100.0 * share), verdict.to_string()]);
            grid.row(row);
            grid.paint(6, safe);
        } else {
            row.push("none".into());
            grid.row(row);
        }
    }
    grid.row(cells("length", &e.length));
    grid.print();
}
