//! `p3o export`

use crate::args::ExportArgs;
use crate::screen::{figure, say, thousands};
use crate::train::shown;
use crate::{Failure, pool};
use p3o::evaluate::{Evaluation, Settings};
use p3o::memory::check_agent;
use p3o::record::write_atomic;
use p3o::run::named_task;
use p3o::{Agent, onnx};
use std::path::Path;

/// `p3o export`
pub fn export(args: &ExportArgs) -> Result<(), Failure> {
    let (size, measured) = write(&args.run, &args.output, args.episodes, args.seed, args.threads.map(usize::from))?;
    say!("{}: {} bytes", shown(&args.output), thousands(size as f64));
    match measured {
        Some(measured) => show(&measured),
        None => say!("  nothing was measured"),
    }
    Ok(())
}

/// Writes the file; returns its size and what was measured.
pub fn write(
    run: &Path,
    output: &Path,
    episodes: u32,
    seed: u64,
    threads: Option<usize>,
) -> Result<(usize, Option<Evaluation>), Failure> {
    if output.extension().is_none_or(|extension| extension != "onnx") {
        return Err(Failure::Usage(format!("the output must be named FILE.onnx, not {}", shown(output))));
    }
    // The graph takes the likeliest action, so that is what is measured.
    let settings = Settings { episodes: episodes as usize, seed, deterministic: true };
    let (bytes, measured) = pool(threads)?.install(|| {
        let agent = Agent::load(run)?;
        let make = named_task(agent.config());
        let (labels, measured) = match episodes {
            0 => (make.map(|make| make().labels()).unwrap_or_default(), None),
            _ => {
                check_agent(&agent, settings.episodes)?;
                let make = make.map_err(|e| without_world(e.into()))?;
                let measured = p3o::evaluate::evaluate(&agent, &*make, &settings)?;
                (make().labels(), Some(measured))
            }
        };
        Ok::<_, Failure>((onnx::to_bytes(&agent, &labels, measured.as_ref())?, measured))
    })?;
    write_atomic(output, &bytes).map_err(p3o::Error::from)?;
    Ok((bytes.len(), measured))
}

/// A world that cannot be made by its name cannot be played in either.
fn without_world(failure: Failure) -> Failure {
    const HINT: &str = "--episodes 0 exports the policy without playing in its world";
    match failure {
        Failure::Usage(line) | Failure::Failed(line) => Failure::Failed(format!("{line}; {HINT}")),
        other => other,
    }
}

fn show(e: &Evaluation) {
    let episodes = thousands(e.episodes as f64);
    let (low, high) = e.ret.ci95;
    say!("  return {} ({} .. {}) over {episodes} episodes", figure(e.ret.mean), figure(low), figure(high));
    for (name, cost) in &e.costs {
        let bounds = cost.bounds.map(|b| format!(" ({} .. {})", figure(b.lower), figure(b.upper))).unwrap_or_default();
        let limit = cost.limit.map(|limit| format!(", limit {limit}")).unwrap_or_default();
        let verdict = cost.verdict.map(|verdict| format!(": {}", verdict.word())).unwrap_or_default();
        say!("  cost {name} {}{bounds}{limit}{verdict}", figure(cost.mean));
    }
}
