//! What a run takes of the machine's memory, estimated before any of it is taken, and what the machine has to give.
//!
//! An [`Estimate`] is a sum over what the parts of a run keep: see [`Estimate::of`]. It says what is resident at the peak,
//! which is the first checkpoint after the first update.

use crate::agent::Agent;
use crate::algo::Order;
use crate::config::Config;
use crate::error::Error;
use crate::evaluate::SIDE_BY_SIDE;
use p3o_env::EnvSpec;
use p3o_nn::{MAX_PARTS, TILE_ROWS};
use std::path::{Path, PathBuf};

/// Bytes of a number.
const NUMBER: f64 = 4.0;
/// Columns to which the kernels pad a matrix.
const PANEL: usize = 32;
/// Sequences that a recurrent network takes through their steps together.
const SEQUENCES: f64 = 12.0;
/// A world with its random stream, its running episode and what surrounds them: the largest of those that come with p3o.
/// Others may keep more, of which nothing is known here.
const WORLD: f64 = 2e3;
/// A world's state in a checkpoint, of which there are several copies while it is written.
const SNAPSHOT: f64 = 500.0;
/// The program itself, with a thread's stack and its part of the allocator.
const PROGRAM: f64 = 8e6;
const THREAD: f64 = 2e5;

/// One part of what a run takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// What it is.
    pub name: &'static str,
    /// How much it takes.
    pub bytes: f64,
    /// The settings that decide it, with their values.
    pub settings: String,
}

/// What a run takes, part by part.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The parts.
    pub items: Vec<Item>,
}

impl Estimate {
    /// For a checked configuration in such a world, on so many threads.
    pub fn of(config: &Config, spec: &EnvSpec, threads: usize) -> Estimate {
        let sizes = Sizes::new(config, spec, threads);
        let batch = format!("rollout.batch={}", config.rollout.batch);
        let per_env = format!("{batch} and rollout.envs={}", config.rollout.envs);
        let of_step = match sizes.outputs > sizes.seen {
            true => format!("{} outputs of the policy", sizes.outputs),
            false => format!("{} numbers of observations", sizes.seen),
        };
        let options: String = config.env.iter().map(|(name, value)| format!(", env.{name}={value}")).collect();
        let of_batch = format!("{batch} with {of_step} in every step{options}");
        let net = of_net(config);
        let workspaces = if config.net.is_recurrent() { format!("{net}, {per_env}") } else { net.clone() };
        let item = |name, bytes, settings: &str| Item { name, bytes, settings: settings.to_string() };
        Estimate {
            items: vec![
                item("worlds", sizes.worlds(), &format!("rollout.envs={}", config.rollout.envs)),
                item("step buffers", sizes.steps(), &of_batch),
                item("training batch", sizes.batch(), &of_batch),
                item("packed batch", sizes.packed(), &of_batch),
                item("networks", sizes.networks(), &net),
                item("workspaces", sizes.workspaces(), &format!("{workspaces} on {threads} threads")),
                item("checkpoint", sizes.checkpoint(), &format!("{net}, rollout.envs={}", config.rollout.envs)),
                item("program", PROGRAM + THREAD * threads as f64, &format!("{threads} threads")),
            ],
        }
    }

    /// For a trained policy that acts in so many worlds at once, each with a workspace of its own.
    pub fn of_agent(config: &Config, spec: &EnvSpec, worlds: usize) -> Estimate {
        let sizes = Sizes::new(config, spec, 1);
        let (net, outputs) = (of_net(config), sizes.outputs);
        let policies = NUMBER * sizes.groups * (3.0 * sizes.actor.parameters + sizes.actor.transposed);
        let workspaces = NUMBER * worlds as f64 * TILE_ROWS as f64 * sizes.actor.row;
        let item = |name, bytes, settings| Item { name, bytes, settings };
        Estimate {
            items: vec![
                item("policies", policies, net.clone()),
                item("workspaces", workspaces, format!("{net}, for {outputs} outputs in {worlds} worlds")),
                item("checkpoint", sizes.checkpoint() / 2.0, net),
                item("program", PROGRAM, String::new()),
            ],
        }
    }

    /// All parts together.
    pub fn total(&self) -> f64 {
        self.items.iter().map(|item| item.bytes).sum()
    }

    /// The largest part.
    pub fn largest(&self) -> &Item {
        self.items.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes)).expect("there are parts")
    }
}

/// The settings that decide the networks.
fn of_net(config: &Config) -> String {
    let hidden: Vec<String> = config.net.hidden.iter().map(usize::to_string).collect();
    format!("net.hidden=[{}] and net.gru={}", hidden.join(","), config.net.gru)
}

/// Refuses a run on the current threads that would take more than the machine has to give.
pub fn check(config: &Config, spec: &EnvSpec) -> Result<(), Error> {
    check_all(&[Estimate::of(config, spec, rayon::current_num_threads())])
}

/// The same for a trained policy that plays so many episodes.
pub fn check_agent(agent: &Agent, episodes: usize) -> Result<(), Error> {
    check_all(&[Estimate::of_agent(agent.config(), agent.spec(), episodes.min(SIDE_BY_SIDE))])
}

/// The same for several runs at a time.
pub fn check_all(runs: &[Estimate]) -> Result<(), Error> {
    available().map_or(Ok(()), |free| fits(runs, free))
}

/// Whether runs fit into so many bytes together.
fn fits(runs: &[Estimate], free: f64) -> Result<(), Error> {
    let takes: f64 = runs.iter().map(Estimate::total).sum();
    if takes <= free {
        return Ok(());
    }
    // Of all runs together, with the settings of the one that takes most for it.
    let mut largest = runs.iter().map(Estimate::largest).max_by(|a, b| a.bytes.total_cmp(&b.bytes)).cloned();
    if let Some(item) = &mut largest {
        let same = runs.iter().flat_map(|run| &run.items).filter(|other| other.name == item.name);
        item.bytes = same.map(|other| other.bytes).sum();
    }
    Err(Error::Memory { runs: runs.len(), takes, free, largest })
}

/// Bytes for a reader: 1.4 GB.
pub fn bytes(n: f64) -> String {
    let units = ["kB", "MB", "GB", "TB", "PB"];
    let mut value = n / 1e3;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        (value, unit) = (value / 1e3, unit + 1);
    }
    if value < 9.95 && unit > 1 { format!("{value:.1} {}", units[unit]) } else { format!("{value:.0} {}", units[unit]) }
}

/// The numbers that decide how much a run takes; floating-point, so that none is too large.
struct Sizes {
    threads: f64,
    envs: f64,
    /// Steps of a batch.
    rows: f64,
    /// Steps of one environment in a batch.
    env_steps: f64,
    /// Steps behind which another value stands than that of the next one.
    open: f64,
    agents: f64,
    /// Groups of agents that share networks.
    groups: f64,
    /// Whether the critics see other rows than the actor.
    stacked: bool,
    /// Numbers that all agents see.
    seen: f64,
    /// Numbers that all actors say.
    outputs: f64,
    /// Numbers in the actions of all agents.
    actions: f64,
    /// Of a recurrent network.
    units: f64,
    bptt: f64,
    costs: f64,
    signals: f64,
    normalized: bool,
    minibatches: [f64; 2],
    second_order: bool,
    actor: Shape,
    critic: Shape,
}

impl Sizes {
    fn new(config: &Config, spec: &EnvSpec, threads: usize) -> Sizes {
        let (rollout, agents) = (&config.rollout, spec.agents);
        let groups = config.groups(spec).len();
        let outputs = spec.action.outputs();
        let env_steps = config.env_steps() as f64;
        let wide = |n: usize| n as f64;
        Sizes {
            threads: wide(threads.max(1)),
            envs: wide(rollout.envs),
            rows: wide(rollout.batch),
            env_steps,
            open: wide(rollout.envs) * ((env_steps / wide(spec.horizon.max(1))).floor() + 1.0),
            agents: wide(agents),
            groups: wide(groups),
            stacked: agents > groups,
            seen: wide(spec.obs_dim),
            outputs: wide(agents) * wide(outputs),
            actions: wide(spec.action_width()),
            units: wide(agents) * wide(config.net.gru),
            bptt: wide(if config.net.is_recurrent() { config.net.bptt } else { 1 }),
            costs: wide(spec.costs.len()),
            signals: 1.0 + config.limits.len() as f64,
            normalized: rollout.normalize_obs,
            minibatches: [config.policy.minibatch, config.critic.minibatch].map(|n| wide(n.min(rollout.batch))),
            second_order: config.algorithm().info().order == Order::Second,
            actor: Shape::new(config, spec.obs_dim / agents, outputs),
            critic: Shape::new(config, spec.obs_dim / groups, 1),
        }
    }

    /// Worlds, what they carry from batch to batch, and their last step.
    fn worlds(&self) -> f64 {
        self.envs * (WORLD + NUMBER * (4.0 * self.seen + self.actions + self.outputs + self.units))
    }

    /// What every environment did during a batch.
    fn steps(&self) -> f64 {
        let observations = if self.normalized { 2.0 * self.seen } else { self.seen };
        let acted = self.units + self.outputs + self.actions + self.agents;
        let row = NUMBER * (observations + acted + 1.0 + self.costs) + 1.0;
        self.rows * row + self.open * NUMBER * (self.seen + 1.0)
    }

    /// The same as the networks see it, with advantages and targets.
    fn batch(&self) -> f64 {
        let observations = if self.stacked { 2.0 * self.seen } else { self.seen };
        let acted = self.units + self.outputs + self.actions + self.agents;
        // Advantages of every agent; targets and values of every critic; the values that follow.
        let estimates = self.signals * (self.agents + 2.0 * self.groups) + self.groups;
        // Some algorithms compare the outputs of the whole batch with the old ones.
        let row = NUMBER * (observations + acted + estimates + self.outputs) + self.agents;
        self.rows * row + self.open * NUMBER * (self.seen + self.groups)
    }

    /// The same as the kernels read it.
    fn packed(&self) -> f64 {
        let recurrent = self.units > 0.0;
        // Beside a row: where it comes from and whether an episode starts with it.
        let row = |shape: &Shape| NUMBER * shape.inputs + if recurrent { 5.0 } else { 0.0 };
        let (actor, critic) = (row(&self.actor), row(&self.critic));
        let of_actor = self.agents * (self.rows + self.minibatches[0]) * actor;
        let states = 2.0 * NUMBER * self.units / self.agents;
        let of_critics = match recurrent {
            // Every critic has sequences and whole ways of its own, and its states before and after every row.
            true => self.signals * (self.rows * (2.0 * critic + states) + self.open * (critic + states)),
            false if self.stacked => (self.rows + self.open) * critic,
            false => self.open * critic,
        };
        let mixed = self.signals * self.minibatches[1] * (critic + NUMBER);
        of_actor + self.groups * (of_critics + mixed)
    }

    /// Parameters, what is derived from them, Adam's moments, a gradient for each part of a batch; for steps of second order
    /// a few vectors of double precision.
    fn networks(&self) -> f64 {
        let tiles = |rows: f64| if self.units > 0.0 { rows / self.bptt / SEQUENCES } else { rows / TILE_ROWS as f64 };
        let gradients = |rows: f64| p3o_nn::parts(tiles(rows).ceil() as usize).max(MAX_PARTS) as f64;
        let of = |shape: &Shape, rows: f64| shape.parameters * (3.0 + gradients(rows)) + shape.transposed;
        // Of a mini-batch as many as of a whole one of its size.
        let rows = |all: f64, minibatch: f64| if minibatch > 0.0 { minibatch } else { all };
        let actor = of(&self.actor, rows(self.rows * self.agents / self.groups, self.minibatches[0]));
        let critic = of(&self.critic, rows(self.rows, self.minibatches[1]));
        let second = if self.second_order { 20.0 * self.actor.parameters } else { 0.0 };
        NUMBER * self.groups * (actor + self.signals * critic + second)
    }

    /// What passes and acting need beside their results, on every thread.
    fn workspaces(&self) -> f64 {
        let tile = TILE_ROWS as f64;
        let rows = |steps: f64| if self.units > 0.0 { tile.max(SEQUENCES * steps) } else { tile };
        let tangents = if self.second_order { self.actor.hidden } else { 0.0 };
        let actor = rows(self.bptt) * (self.actor.row + tangents);
        let critics = self.signals * rows(self.env_steps) * self.critic.row;
        let acting = self.threads.max(self.envs / tile) * tile * self.actor.row;
        NUMBER * (self.groups * self.threads * (actor + critics) + acting)
    }

    /// A checkpoint as tensors and as a file.
    fn checkpoint(&self) -> f64 {
        let parameters = self.groups * (self.actor.parameters + self.signals * self.critic.parameters);
        let carried = NUMBER * (self.seen + self.units * (1.0 + self.signals));
        2.0 * NUMBER * 3.0 * parameters + 3.0 * self.envs * (SNAPSHOT + carried)
    }
}

/// What one network keeps and works on, in numbers, with the padding of the kernels.
struct Shape {
    inputs: f64,
    parameters: f64,
    /// Weights that are kept transposed too.
    transposed: f64,
    /// Scratch space for one row of a tile or block.
    row: f64,
    /// The part of it that holds the hidden layers.
    hidden: f64,
}

impl Shape {
    fn new(config: &Config, inputs: usize, outputs: usize) -> Shape {
        let net = &config.net;
        let wide = |n: usize| n as f64;
        let padded = |n: usize| wide(n.next_multiple_of(PANEL));
        let widths: Vec<usize> = std::iter::once(inputs).chain(net.hidden.iter().copied()).collect();
        let dense: Vec<(f64, f64)> = widths.windows(2).map(|w| (wide(w[0]), padded(w[1]))).collect();
        let (last, units) = (widths[widths.len() - 1], padded(net.gru));
        let hidden: f64 = dense.iter().map(|(_, width)| width).sum();
        let weights: f64 = dense.iter().map(|(from, to)| (from + 1.0) * to).sum();
        let said = padded(outputs) + 3.0 * wide(outputs);
        if net.is_recurrent() {
            let gates = 3.0 * units * (wide(last) + wide(net.gru) + 2.0);
            let norms = 2.0 * (padded(inputs) + hidden + units);
            return Shape {
                inputs: padded(inputs),
                parameters: weights + gates + norms + units * wide(outputs) + padded(outputs),
                transposed: weights + gates,
                row: 2.0 * padded(inputs) + 2.0 * hidden + 8.0 * units + 2.0 * wide(widths.len() + 1) + said,
                hidden,
            };
        }
        let widest = net.hidden.iter().map(|&n| padded(n)).fold(0.0, f64::max);
        Shape {
            inputs: padded(inputs),
            parameters: weights + padded(last) * wide(outputs) + padded(outputs),
            transposed: weights - dense.first().map_or(0.0, |(from, to)| (from + 1.0) * to),
            row: padded(inputs) + hidden + 2.0 * widest + said,
            hidden,
        }
    }
}

/// Bytes that this process can still take: what the machine has left, and what the limits of its control groups and of the
/// process itself leave. `None` where the system does not say.
pub fn available() -> Option<f64> {
    available_under(Path::new("/"))
}

/// The same for the files of another root.
fn available_under(root: &Path) -> Option<f64> {
    let machine = number_after(&read(&root.join("proc/meminfo"))?, "MemAvailable:").map(|kb| kb * 1024.0);
    let groups = read(&root.join("proc/self/cgroup")).map_or(Vec::new(), |list| left_in_groups(root, &list));
    machine.into_iter().chain(groups).chain(left_to_process(root)).reduce(f64::min)
}

/// What the limits of the process's control groups leave, of both versions, those of their ancestors included.
fn left_in_groups(root: &Path, list: &str) -> Vec<f64> {
    let mut left = Vec::new();
    for line in list.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mounts, files): (&[&str], _) = match controllers {
            "" => (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], &VERSION_2),
            list if list.split(',').any(|name| name == "memory") => (&["sys/fs/cgroup/memory"], &VERSION_1),
            _ => continue,
        };
        for mount in mounts.iter().map(|mount| root.join(mount)) {
            // In a container the path may be that outside, where only its root is mounted.
            let ancestors = Path::new(path.trim_start_matches('/')).ancestors().map(|folder| mount.join(folder));
            left.extend(ancestors.filter_map(|folder| files.left(&folder)));
        }
    }
    left
}

/// Where a control group says what it may take and what it takes.
struct GroupFiles {
    limit: &'static str,
    used: &'static str,
    /// Of what is used, the files that it could drop at once.
    dropped: &'static str,
}

const VERSION_1: GroupFiles =
    GroupFiles { limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", dropped: "total_inactive_file" };
const VERSION_2: GroupFiles = GroupFiles { limit: "memory.max", used: "memory.current", dropped: "inactive_file" };

impl GroupFiles {
    /// `None` without a limit.
    fn left(&self, folder: &Path) -> Option<f64> {
        let number = |name: &str| read(&folder.join(name))?.trim().parse::<f64>().ok();
        let (limit, used) = (number(self.limit)?, number(self.used)?);
        let stat = read(&folder.join("memory.stat")).unwrap_or_default();
        let dropped = number_after(&stat, self.dropped).unwrap_or(0.0);
        Some((limit - (used - dropped).max(0.0)).max(0.0))
    }
}

/// What `ulimit -v` and `ulimit -d` leave of the address space.
fn left_to_process(root: &Path) -> Vec<f64> {
    let (limits, status) = (read(&root.join("proc/self/limits")), read(&root.join("proc/self/status")));
    let (limits, status) = (limits.unwrap_or_default(), status.unwrap_or_default());
    let pairs = [("Max address space", "VmSize:"), ("Max data size", "VmData:")];
    let left = |(limit, used): (&str, &str)| {
        Some((number_after(&limits, limit)? - number_after(&status, used)? * 1024.0).max(0.0))
    };
    pairs.into_iter().filter_map(left).collect()
}

fn read(path: &PathBuf) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The number behind a name at the start of a line.
fn number_after(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '\t'])))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Method, Request};

    fn estimate(method: &str, task: &str, set: &[&str]) -> Estimate {
        let set = set.iter().map(ToString::to_string).collect();
        let request = Request { set, ..Request::new(task, Method::named(method).unwrap()) };
        let config = request.resolve().unwrap().config;
        let env = crate::config::make_env(config.method(), task, &config.env).unwrap();
        Estimate::of(&config, env.spec(), 2)
    }

    #[test]
    fn bytes_are_short() {
        let shown = [0.0, 4e3, 999_400.0, 999_600.0, 1.44e9, 71.2e9, 2e12, 3.2e17].map(bytes);
        assert_eq!(shown, ["0 kB", "4 kB", "999 kB", "1 MB", "1.4 GB", "71 GB", "2.0 TB", "320 PB"]);
    }

    #[test]
    fn a_run_that_does_not_fit_is_refused_by_what_it_takes_most_for() {
        let run = estimate("p3o", "PointGoal", &["rollout.batch=1e8"]);
        let refused = |runs: &[Estimate], free: f64| fits(runs, free).unwrap_err().to_string();
        // A step has 60 numbers twice, two outputs, two actions, a log-probability, a reward, a cost and a flag: 509 bytes. The
        // batch has half of that, and 64 numbers packed, which makes it 1054 bytes.
        let line = "this would take about 106 GB of memory, and 22 GB are free: 51 GB of it for the step \
                    buffers (rollout.batch=100000000 with 60 numbers of observations in every step)";
        assert_eq!(refused(std::slice::from_ref(&run), 22e9), line);
        let two = refused(&[estimate("p3o", "PointGoal", &[]), run], 22e9);
        assert!(
            two.starts_with("2 runs at a time would take about 106 GB of memory, and 22 GB are free: 51 GB"),
            "{two}"
        );
        let wide = refused(&[estimate("cpo", "PointGoal", &["net.hidden=[9000,9000]"])], 1e9);
        assert!(wide.ends_with(" GB of it for the networks (net.hidden=[9000,9000] and net.gru=0)"), "{wide}");
        let many = refused(&[estimate("ppo", "PointGoal", &["rollout.envs=50000", "rollout.batch=50000"])], 1e7);
        assert!(many.ends_with("for the worlds (rollout.envs=50000)"), "{many}");
    }

    #[test]
    fn a_run_that_fits_is_not_refused() {
        let run = estimate("p3o", "PointGoal", &[]);
        assert!(fits(std::slice::from_ref(&run), run.total()).is_ok());
        assert!(fits(std::slice::from_ref(&run), run.total() - 1.0).is_err());
        assert!(fits(&[run.clone(), run.clone()], run.total()).is_err());
        assert!(fits(&[], 0.0).is_ok());
    }

    #[test]
    fn parameters_are_counted_exactly() {
        for gru in [0, 24] {
            let net = crate::config::Net { hidden: vec![33, 17], gru, ..Default::default() };
            let mut rng = rand::SeedableRng::seed_from_u64(0);
            let network = crate::policy::network(&net, 7, 3, 1.0, &mut rng);
            let layers = (0..network.depth()).map(|l| network.layer(l));
            let counted: usize = layers.map(|(weights, biases)| weights.len() + biases.len()).sum();
            assert_eq!(net.parameters(7, 3), counted as f64);
            let config = Config { net, ..Config::base("", crate::Algorithm::P3o.into()) };
            assert_eq!(Shape::new(&config, 7, 3).parameters, network.params().len() as f64);
        }
    }

    /// A system of these files and their contents.
    fn left(files: &[(&str, &str)]) -> Option<f64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        available_under(root.path())
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 4000 kB\nMemFree: 100 kB\nMemAvailable:   3000 kB\n");

    #[test]
    fn the_machine_says_what_it_has_left() {
        assert_eq!(left(&[]), None);
        assert_eq!(left(&[("proc/meminfo", "MemTotal: 4000 kB\n")]), None);
        assert_eq!(left(&[MEMINFO]), Some(3000.0 * 1024.0));
        assert_eq!(left(&[MEMINFO, ("proc/self/cgroup", "nonsense\n0::/a\n")]), Some(3000.0 * 1024.0));
    }

    #[test]
    fn control_groups_of_version_2_limit_it_with_all_their_ancestors() {
        let list = ("proc/self/cgroup", "0::/outer/inner\n");
        let inner =
            [("sys/fs/cgroup/outer/inner/memory.max", "max\n"), ("sys/fs/cgroup/outer/inner/memory.current", "9\n")];
        let outer = [("sys/fs/cgroup/outer/memory.max", "1000\n"), ("sys/fs/cgroup/outer/memory.current", "700\n")];
        let all = [&[MEMINFO, list][..], &inner, &outer].concat();
        assert_eq!(left(&all), Some(300.0));
        // Files that are kept in memory are given up for the asking.
        let stat = ("sys/fs/cgroup/outer/memory.stat", "anon 200\ninactive_file 450\nactive_file 50\n");
        assert_eq!(left(&[&all[..], &[stat]].concat()), Some(750.0));
        // More than the limit may be in use for a moment.
        let over = ("sys/fs/cgroup/outer/memory.current", "1200\n");
        assert_eq!(left(&[&all[..], &[over]].concat()), Some(0.0));
        // A container that shows only its own root.
        let own = [("sys/fs/cgroup/memory.max", "500"), ("sys/fs/cgroup/memory.current", "100")];
        assert_eq!(left(&[&[MEMINFO, list][..], &own].concat()), Some(400.0));
    }

    #[test]
    fn control_groups_of_version_1_limit_it_too() {
        let list = ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n");
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
        let used = ("sys/fs/cgroup/memory/memory.usage_in_bytes", "100");
        assert_eq!(left(&[MEMINFO, list, none, used]), Some(3000.0 * 1024.0));
        let inner = [
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "800"),
            ("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "500"),
            ("sys/fs/cgroup/memory/a/b/memory.stat", "inactive_file 1\ntotal_inactive_file 40\n"),
        ];
        assert_eq!(left(&[&[MEMINFO, list, none, used][..], &inner].concat()), Some(340.0));
    }

    #[test]
    fn limits_of_the_process_count() {
        let limits =
            ("proc/self/limits", "Max data size  unlimited  unlimited  bytes\nMax address space  5000  6000  bytes\n");
        let status = ("proc/self/status", "VmPeak: 9 kB\nVmSize:\t 4 kB\nVmData:\t 2 kB\n");
        assert_eq!(left(&[MEMINFO, limits, status]), Some(5000.0 - 4096.0));
    }
}
