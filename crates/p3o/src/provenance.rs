//! `provenance.toml`: which program trained a run on which machine, sitting by sitting. It informs; nothing is decided by it.

use crate::learner::Learner;
use crate::record::{read_text, write_atomic};
use serde::{Deserialize, Serialize};
use std::path::Path;

const HEAD: &str = "# What trained this run, sitting by sitting.\n";
/// More than any such file holds.
const MOST: u64 = 1 << 24;

/// One sitting.
#[derive(Serialize)]
struct Sitting {
    from_step: u64,
    program: &'static str,
    system: String,
    cpu: String,
    instructions: &'static str,
    threads: usize,
    /// Processes, each with so many threads.
    ranks: usize,
    device: String,
}

/// Notes a sitting that starts now, at a step.
pub(crate) fn note(folder: &Path, from_step: u64, learner: &Learner) -> std::io::Result<()> {
    let sitting = Sitting {
        from_step,
        program: env!("CARGO_PKG_VERSION"),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        cpu: cpu(),
        instructions: p3o_nn::instruction_set(),
        threads: rayon::current_num_threads(),
        ranks: learner.ranks().size(),
        device: learner.device(),
    };
    let path = folder.join("provenance.toml");
    // What cannot be read is started anew: the run does not depend on it.
    let before = read_text(&path, MOST).unwrap_or_else(|_| HEAD.to_string());
    let entry = toml::to_string(&sitting).expect("plain data can be written to memory");
    write_atomic(&path, format!("{before}\n[[sitting]]\n{entry}").as_bytes())
}

/// Where a run's networks learned, sitting by sitting. Where nothing says so, it was the CPU: older versions knew no other place.
pub(crate) fn devices(folder: &Path) -> Vec<String> {
    #[derive(Deserialize)]
    struct Sittings {
        sitting: Vec<Place>,
    }
    #[derive(Deserialize)]
    struct Place {
        #[serde(default = "host")]
        device: String,
    }
    fn host() -> String {
        "cpu".into()
    }
    let text = read_text(&folder.join("provenance.toml"), MOST).unwrap_or_default();
    let found: Result<Sittings, _> = toml::from_str(&text);
    found.map_or_else(|_| vec![host()], |all| all.sitting.into_iter().map(|place| place.device).collect())
}

/// As the system names it.
fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "unknown".to_string(), |(_, name)| name.trim().to_string())
}
