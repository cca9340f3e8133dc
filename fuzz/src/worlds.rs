//! Worlds from arbitrary snapshots.

use super::altered::{Input, alter};
use super::one_line;
use p3o_env::{ActionSpace, Env, Scene, TASKS, fnv1a, tasks};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Magic bytes, version and checksum, which stand before the kind of world and its state.
const HEADER: usize = 14;

/// How a world is made.
struct Maker {
    task: &'static str,
    options: BTreeMap<String, f64>,
    team: bool,
}

impl Maker {
    fn make(&self) -> Box<dyn Env> {
        let made = if self.team { tasks::make_team } else { tasks::make };
        made(self.task, &self.options).expect("a listed task can be made")
    }
}

/// Every task as it comes and with every choice of one option, and the teams.
fn makers() -> &'static [Maker] {
    static ALL: OnceLock<Vec<Maker>> = OnceLock::new();
    ALL.get_or_init(all_makers)
}

fn all_makers() -> Vec<Maker> {
    let mut all = Vec::new();
    for task in TASKS {
        for options in task.variants() {
            all.push(Maker { task: task.name, options: options.clone(), team: false });
            if task.has_team() {
                all.push(Maker { task: task.name, options, team: true });
            }
        }
    }
    all
}

/// A snapshot of every world after a few steps.
fn snapshots() -> &'static [Vec<u8>] {
    static ALL: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let taken = |maker: &Maker| {
            let mut world = maker.make();
            walk(&mut *world, Some(7), 12);
            world.snapshot().expect("these worlds have snapshots")
        };
        makers().iter().map(taken).collect()
    })
}

/// Makes some steps, from a new episode on if there is a seed; returns whether all that came out was finite.
fn walk(world: &mut dyn Env, seed: Option<u64>, steps: usize) -> bool {
    let spec = world.spec().clone();
    let (mut obs, mut costs) = (vec![0.0; spec.obs_dim], vec![0.0; spec.costs.len()]);
    if let Some(seed) = seed {
        world.reset(seed, &mut obs);
    }
    let mut finite = obs.iter().all(|x| x.is_finite());
    for t in 0..steps {
        let action: Vec<f32> = (0..spec.action_width())
            .map(|i| match &spec.action {
                ActionSpace::Continuous { .. } => [1.0, -0.3, -1.0, 0.7][(i + t) % 4],
                ActionSpace::Discrete { n } => ((i + 2 * t) % n) as f32,
                ActionSpace::MultiDiscrete { sizes } => ((i + 2 * t) % sizes[i % sizes.len()]) as f32,
            })
            .collect();
        let outcome = world.step(&action, &mut obs, &mut costs);
        finite &= outcome.reward.is_finite() && obs.iter().chain(&costs).all(|x| x.is_finite());
        world.draw(&mut Scene::default());
        if outcome.terminated || outcome.truncated {
            world.reset(t as u64, &mut obs);
        }
    }
    finite
}

/// Any bytes as a snapshot, bare or with the checksum that they need: refused, and nothing has changed, or a world that goes on,
/// is the same when taken and restored again, and is as good as new after a reset.
pub fn snapshot(data: &[u8]) {
    let makers = makers();
    let mut input = Input(data);
    let which = input.choice(makers.len());
    let bytes = match input.choice(2) {
        0 => input.0.to_vec(),
        _ => {
            let good = &snapshots()[which];
            // The name of the kind, and the byte that says how long it is.
            let start = HEADER + 1 + usize::from(good[HEADER]);
            let mut state = good[start..].to_vec();
            while !input.is_empty() {
                alter(&mut state, &mut input);
            }
            reseal([&good[..start], &state].concat())
        }
    };
    let mut world = makers[which].make();
    walk(&mut *world, Some(3), 2);
    let before = world.snapshot();
    if let Err(error) = world.restore(&bytes) {
        one_line(error);
        assert_eq!(world.snapshot(), before, "a refused snapshot has changed the world");
        return;
    }
    let taken = world.snapshot().expect("these worlds have snapshots");
    let mut copy = makers[which].make();
    copy.restore(&taken).expect("a world takes its own snapshot");
    assert_eq!(copy.snapshot().as_ref(), Some(&taken), "a snapshot of a snapshot differs");
    walk(&mut *world, None, 4);
    assert!(walk(&mut *world, Some(5), 4), "a new episode is not finite");
}

/// The bytes of a snapshot with the checksum that belongs to them.
fn reseal(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = fnv1a([&bytes[HEADER..]]);
    bytes[6..HEADER].copy_from_slice(&sum.to_le_bytes());
    bytes
}
