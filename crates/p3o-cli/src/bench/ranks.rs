//! `p3o bench --ranks`: one run over many processes against one process with as many threads, what messages cost, and what follows from
//! both for many more processes.
//!
//! The program starts itself under the launcher, once for every figure. Rounds alternate between what is compared, so that both share what
//! the machine is up to.

use crate::Failure;
use crate::args::BenchArgs;
use crate::party::Party;
use crate::pool;
use crate::screen::{Doing, Grid, say, thousands};
use p3o::config::Request;
use p3o::engine::on_cpu;
use p3o::run::named_task;
use p3o::{Config, Error, Learner, Method, Ranks, Report};
use p3o_nn::Peers;
use serde::{Deserialize, Serialize};
use std::process::Command;
use std::time::{Duration, Instant};

/// What is trained: a name for the reader, and the settings.
const WORKLOADS: [(&str, &str, &str, &[&str]); 3] = [
    ("quick", "PointGoal, preset quick: mini-batches", "p3o", &["preset=quick"]),
    (
        "paper",
        "PointGoal, the paper's networks and batch, 6 passes",
        "p3o",
        &["preset=paper", "policy.passes=6", "critic.passes=6"],
    ),
    (
        "cpo",
        "PointGoal, CPO, 64x64, whole batches of 20,000",
        "cpo",
        &["preset=quick", "net.hidden=[64,64]", "rollout.batch=20000", "critic.minibatch=0"],
    ),
];
/// The second with fewer passes: the difference is what a pass costs.
const FEWER: (&str, &[&str]) = ("paper-2", &["preset=paper", "policy.passes=2", "critic.passes=2"]);
const PASSES: [f64; 2] = [6.0, 2.0];

/// Bytes of messages that are measured; 400,000 are 100,000 numbers.
const SIZES: [usize; 6] = [8, 1_000, 10_000, 100_000, 400_000, 4_000_000];
const ROUNDS: usize = 5;

/// One of the processes that `--ranks` starts; the first prints a line of JSON.
pub fn work(what: &str, args: &BenchArgs) -> Result<(), Failure> {
    let (party, _connection) = Party::join(Duration::from_secs(120))?;
    let threads = args.threads.first().map(|&threads| usize::from(threads));
    let line = pool(threads)?.install(|| match what {
        "messages" => messages(&party.ranks, args.seconds).map(|found| json(&found)),
        _ => updates(what, &party.ranks, args.seconds).map(|found| json(&found)),
    });
    let line = party.together(line.map_err(Failure::from))?;
    if party.ranks.is_first() {
        say!("{line}");
    }
    Ok(())
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data can be written to memory")
}

fn config(what: &str) -> Result<Config, Error> {
    let known = WORKLOADS.iter().map(|(name, _, algo, set)| (*name, *algo, *set)).chain([(FEWER.0, "p3o", FEWER.1)]);
    let (_, algo, set) = known.into_iter().find(|(name, ..)| *name == what).unwrap_or(("", "p3o", &["preset=quick"]));
    let preset = set[0].trim_start_matches("preset=").to_string();
    let mut set: Vec<String> = set[1..].iter().map(ToString::to_string).collect();
    // As many passes in every update.
    set.push(if algo == "cpo" { "policy.target_kl=0.01".into() } else { "policy.target_kl=1e9".into() });
    let request = Request { preset, set, seed: Some(1000), ..Request::new("PointGoal", Method::named(algo)?) };
    Ok(request.resolve()?.config)
}

/// What the updates of a run took, in milliseconds each.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Took {
    steps_per_s: f64,
    rollout_ms: f64,
    update_ms: f64,
    /// Of a batch, as the processes send it to each other.
    batch_bytes: f64,
    rows: f64,
    parameters: f64,
    critics: f64,
}

fn updates(what: &str, ranks: &Ranks, seconds: f64) -> Result<Took, Error> {
    let config = config(what)?;
    let mut learner = Learner::with_ranks(config.clone(), &*named_task(&config)?, &on_cpu, ranks)?;
    // The first is not counted. The first process decides how many follow.
    let start = Instant::now();
    learner.update()?;
    let each = start.elapsed().as_secs_f64();
    let count = ranks.broadcast_value(0, ranks.is_first().then(|| (seconds / each).ceil().clamp(2.0, 1e6) as usize))?;
    let start = Instant::now();
    let reports = (0..count).map(|_| learner.update()).collect::<Result<Vec<Report>, Error>>()?;
    let seconds = start.elapsed().as_secs_f64();
    let all = |of: fn(&Report) -> f64| median(reports.iter().map(of).collect());
    let spec = learner.spec();
    let numbers = spec.obs_dim + learner.policy().net.outputs() + spec.action_width() + 2 + spec.costs.len();
    Ok(Took {
        steps_per_s: (count * config.rollout.batch) as f64 / seconds,
        rollout_ms: all(|report| report.rollout_ms),
        update_ms: all(|report| report.update_ms),
        batch_bytes: (config.rollout.batch * (4 * numbers + 1)) as f64,
        rows: config.rollout.batch as f64,
        parameters: learner.policy().net.params().len() as f64,
        critics: learner.signals().all().len() as f64,
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// Microseconds of a message of each size: both ways between neighbours, from all to all, from one to all.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Messages {
    bytes: Vec<usize>,
    exchange_us: Vec<f64>,
    gather_us: Vec<f64>,
    broadcast_us: Vec<f64>,
}

/// A message of some bytes, and room for what comes back.
type Act<'a> = dyn Fn(&mut Vec<u8>, &mut Vec<u8>) -> Result<(), Error> + 'a;

fn messages(ranks: &Ranks, seconds: f64) -> Result<Messages, Error> {
    let each = Duration::from_secs_f64(seconds / (3 * SIZES.len()) as f64);
    let opposite = ranks.rank() ^ 1;
    let paired = opposite < ranks.size();
    let exchange = |bytes: &mut Vec<u8>, into: &mut Vec<u8>| {
        if paired {
            ranks.exchange(bytes, &[opposite], into, Some(opposite));
        }
        ranks.check()
    };
    let gather = |bytes: &mut Vec<u8>, into: &mut Vec<u8>| {
        let size = bytes.len();
        into.resize(size * ranks.size(), 0);
        into[ranks.rank() * size..][..size].copy_from_slice(bytes);
        ranks.complete(into, &|rank| rank * size..(rank + 1) * size)
    };
    let broadcast = |bytes: &mut Vec<u8>, _: &mut Vec<u8>| ranks.broadcast(0, bytes);
    let all =
        |act: &Act| -> Result<Vec<f64>, Error> { SIZES.iter().map(|&size| time(ranks, size, each, act)).collect() };
    let (exchange_us, gather_us, broadcast_us) = (all(&exchange)?, all(&gather)?, all(&broadcast)?);
    Ok(Messages { bytes: SIZES.to_vec(), exchange_us, gather_us, broadcast_us })
}

/// The median over blocks of messages, for so long.
fn time(ranks: &Ranks, size: usize, each: Duration, act: &Act) -> Result<f64, Error> {
    let (mut bytes, mut into) = (vec![1; size], vec![0; size]);
    let mut block = |count: usize| -> Result<f64, Error> {
        let start = Instant::now();
        for _ in 0..count {
            act(&mut bytes, &mut into)?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / count as f64)
    };
    block(2)?;
    let one = block(2)?;
    let wanted = (each.as_secs_f64() * 1e6 / one / 9.0).clamp(1.0, 1e5) as usize;
    let count = ranks.broadcast_value(0, ranks.is_first().then_some(wanted))?;
    (0..9).map(|_| block(count)).collect::<Result<Vec<f64>, Error>>().map(median)
}

/// All that `--ranks` finds.
#[derive(Serialize)]
struct Found {
    ranks: usize,
    launcher: String,
    cores: usize,
    workloads: Vec<Compared>,
    messages: Messages,
    model: Model,
    /// Updates of the paper's size on 1, 2 and 4 processes of one thread, measured and by the model, in milliseconds.
    checks: Vec<Check>,
    strong: Vec<Predicted>,
    weak: Vec<Predicted>,
}

/// Steps a second of one process with several threads and of as many processes with one.
#[derive(Serialize)]
struct Compared {
    workload: &'static str,
    threads_steps_per_s: f64,
    ranks_steps_per_s: f64,
    ratio: f64,
}

#[derive(Serialize)]
struct Check {
    ranks: usize,
    measured_ms: f64,
    model_ms: f64,
}

#[derive(Serialize)]
struct Predicted {
    ranks: usize,
    seconds: f64,
    /// Of what so many processes would do if nothing got in their way.
    efficiency: f64,
    /// Shares of the time: worlds, passes, messages, what every process does for itself.
    shares: [f64; 4],
}

/// `p3o bench --ranks`
pub fn bench(ranks: usize, args: &BenchArgs) -> Result<(), Failure> {
    if !cfg!(feature = "mpi") {
        return Err(Failure::Usage("--ranks takes MPI, and this p3o has none: build it with --features mpi".into()));
    }
    let (doing, s) = (Doing::new(), args.seconds);
    let plain = |what: &str, threads: usize| start::<Took>(&[], what, threads, s);
    let launch = |n: usize| -> Vec<String> {
        let words = args.launcher.split_whitespace().map(String::from);
        words.chain(["-n".to_string(), n.to_string()]).collect()
    };
    let mut workloads = Vec::new();
    for (name, about, ..) in WORKLOADS {
        let (mut of_threads, mut of_ranks) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            doing.now(format!("round {} of {ROUNDS}: {about}", round + 1));
            of_threads.push(plain(name, ranks)?.steps_per_s);
            of_ranks.push(start::<Took>(&launch(ranks), name, 1, s)?.steps_per_s);
        }
        let [threads_steps_per_s, ranks_steps_per_s] = [of_threads, of_ranks].map(median);
        let ratio = ranks_steps_per_s / threads_steps_per_s;
        workloads.push(Compared { workload: about, threads_steps_per_s, ranks_steps_per_s, ratio });
    }
    doing.now("messages".into());
    let messages = start::<Messages>(&launch(ranks), "messages", 1, 2.0 * s)?;
    doing.now("updates of one process".into());
    let both = [plain("paper", 1)?, plain(FEWER.0, 1)?];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let model = Model::of(&both, &messages);
    let mut checks = Vec::new();
    for n in [1, 2, 4] {
        doing.now(format!("updates of {n} processes"));
        let took = if n == 1 { both[0].clone() } else { start::<Took>(&launch(n), "paper", 1, s)? };
        let run = Size { rows: both[0].rows, worlds: 30.0, passes: PASSES[0] };
        let model_ms = model.times(&run, n, cores).iter().sum::<f64>() * 1e3;
        checks.push(Check { ranks: n, measured_ms: took.rollout_ms + took.update_ms, model_ms });
    }
    drop(doing);
    let (strong, weak) = (model.strong(), model.weak());
    let found =
        Found { ranks, launcher: args.launcher.clone(), cores, workloads, messages, model, checks, strong, weak };
    if args.json {
        say!("{}", serde_json::to_string_pretty(&found).expect("plain data can be written to memory"));
    } else {
        show(&found);
    }
    Ok(())
}

/// Starts this program under a launcher, if there is one, and reads what it found.
fn start<T: for<'de> Deserialize<'de>>(
    launcher: &[String],
    what: &str,
    threads: usize,
    seconds: f64,
) -> Result<T, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::Failed(format!("cannot find this program: {e}")))?;
    let own = program.display().to_string();
    let (threads, seconds) = (threads.to_string(), seconds.to_string());
    let own = [&own, "bench", "--as-rank", what, "--threads", &threads, "--seconds", &seconds];
    let line: Vec<&str> = launcher.iter().map(String::as_str).chain(own).collect();
    let output = Command::new(line[0]).args(&line[1..]).output();
    let output = output.map_err(|e| Failure::Failed(format!("cannot start {}: {e}", line[0])))?;
    let told = String::from_utf8_lossy(&output.stdout).to_string();
    let found = told.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    found.ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = said.lines().filter(|line| line.chars().any(char::is_alphanumeric)).take(3).collect();
        Failure::Failed(format!("`{}` gave no figures: {}", line.join(" "), last.join(" ")))
    })
}

/// What an update of the paper's networks takes, by the row.
#[derive(Serialize)]
struct Model {
    /// Seconds of a step of a world, of a row in a pass of all networks, and of what every process does for every row.
    step_s: f64,
    pass_s: f64,
    rest_s: f64,
    /// Bytes of a row that a process sends to the others, and of a gradient.
    row_bytes: f64,
    gradient_bytes: f64,
    networks: f64,
    /// Bytes and seconds of exchanges.
    exchange: Vec<(f64, f64)>,
}

/// A run in the model.
struct Size {
    rows: f64,
    worlds: f64,
    passes: f64,
}

impl Model {
    fn of([more, fewer]: &[Took; 2], messages: &Messages) -> Model {
        let pass = (more.update_ms - fewer.update_ms) / (PASSES[0] - PASSES[1]) / 1e3;
        let rest = (more.update_ms / 1e3 - PASSES[0] * pass).max(0.0);
        let exchange = messages.bytes.iter().zip(&messages.exchange_us);
        Model {
            step_s: more.rollout_ms / 1e3 / more.rows,
            pass_s: pass / more.rows,
            rest_s: rest / more.rows,
            row_bytes: more.batch_bytes / more.rows,
            gradient_bytes: 4.0 * more.parameters,
            networks: 1.0 + more.critics,
            exchange: exchange.map(|(bytes, us)| (*bytes as f64, us / 1e6)).collect(),
        }
    }

    /// Seconds of an exchange of so many bytes: between two that were measured, along a straight line; beyond them, along the last one.
    fn message(&self, bytes: f64) -> f64 {
        let after = self.exchange.iter().position(|(size, _)| *size >= bytes).unwrap_or(self.exchange.len() - 1).max(1);
        let [(x0, y0), (x1, y1)] = [self.exchange[after - 1], self.exchange[after]];
        (y0 + (y1 - y0) * (bytes - x0) / (x1 - x0)).max(self.exchange[0].1)
    }

    /// Seconds of worlds, passes, messages and the rest in an update on so many processes of one thread, on so many cores.
    fn times(&self, run: &Size, ranks: usize, cores: usize) -> [f64; 4] {
        let p = ranks as f64;
        // Processes that share a core take turns.
        let slower = (p / cores as f64).max(1.0);
        let parts = p3o_nn::parts((run.rows / p3o_nn::TILE_ROWS as f64).ceil() as usize);
        let own = (0..ranks).map(|rank| p3o_nn::parts_of(rank, ranks, parts).len()).max().unwrap_or(parts);
        let worlds = slower * self.step_s * run.rows * (run.worlds / p).ceil() / run.worlds;
        let passes = slower * self.pass_s * run.rows * run.passes * own as f64 / parts as f64;
        let rest = slower * self.rest_s * run.rows;
        let rounds = (1..).take_while(|k| 1usize << (k - 1) < ranks).count() as f64;
        // Each round of the batch's way doubles what a process has.
        let batch =
            (0..rounds as u32).map(|k| self.message(self.row_bytes * run.rows * 2f64.powi(k as i32) / p)).sum::<f64>();
        let sums = self.message(8.0 * 16.0 * 6.0);
        let passing = rounds * run.passes * self.networks * (self.message(self.gradient_bytes) + sums);
        [worlds, passes, if ranks > 1 { batch + passing } else { 0.0 }, rest]
    }

    fn predict(&self, run: &dyn Fn(usize) -> Size, work: f64) -> Vec<Predicted> {
        let alone = self.times(&run(1), 1, 1).iter().sum::<f64>();
        let of = |ranks: usize| {
            let times = self.times(&run(ranks), ranks, ranks);
            let seconds = times.iter().sum::<f64>();
            let ideal = alone * (ranks as f64).powf(work);
            Predicted { ranks, seconds, efficiency: ideal / seconds, shares: times.map(|time| time / seconds) }
        };
        (0..=10).map(|k| of(1 << k)).collect()
    }

    /// One batch of 1,024,000 steps in 1,024 worlds on ever more processes.
    fn strong(&self) -> Vec<Predicted> {
        self.predict(&|_| Size { rows: 1_024_000.0, worlds: 1024.0, passes: 80.0 }, -1.0)
    }

    /// 30,000 steps in 30 worlds for each process.
    fn weak(&self) -> Vec<Predicted> {
        self.predict(&|p| Size { rows: 30_000.0 * p as f64, worlds: 30.0 * p as f64, passes: 80.0 }, 0.0)
    }
}

fn show(found: &Found) {
    let n = found.ranks;
    say!("{n} processes by `{}` on {} cores\n", found.launcher, found.cores);
    let mut grid =
        Grid::new(&["steps/s", &format!("1 process, {n} threads"), &format!("{n} processes, 1 thread"), "ratio"]);
    for c in &found.workloads {
        let [threads, ranks] = [c.threads_steps_per_s, c.ranks_steps_per_s].map(thousands);
        grid.row(vec![c.workload.into(), threads, ranks, format!("{:.2}", c.ratio)]);
    }
    grid.print();
    say!("");
    let mut grid = Grid::new(&["microseconds", "both ways", "all to all", "one to all"]);
    let Messages { bytes, exchange_us, gather_us, broadcast_us } = &found.messages;
    for (i, size) in bytes.iter().enumerate() {
        let cells = [exchange_us, gather_us, broadcast_us].map(|us| format!("{:.1}", us[i]));
        grid.row([format!("{} bytes", thousands(*size as f64))].into_iter().chain(cells).collect());
    }
    grid.print();
    say!("");
    let mut grid = Grid::new(&["the paper's size, 6 passes, 1 thread each", "ms measured", "ms by the model"]);
    for c in &found.checks {
        grid.row(vec![format!("{} processes", c.ranks), format!("{:.0}", c.measured_ms), format!("{:.0}", c.model_ms)]);
    }
    grid.print();
    let kinds = [
        ("by the model, a core each: 1,024,000 steps in 1,024 worlds", &found.strong),
        ("by the model, a core each: 30,000 steps in 30 worlds for each", &found.weak),
    ];
    for (title, predicted) in kinds {
        say!("");
        let mut grid = Grid::new(&[title, "s an update", "efficiency", "worlds", "passes", "messages", "the rest"]);
        for p in predicted {
            let shares = p.shares.map(|share| format!("{:.0} %", 100.0 * share));
            let cells = [p.ranks.to_string(), format!("{:.2}", p.seconds), format!("{:.2}", p.efficiency)];
            grid.row(cells.into_iter().chain(shares).collect());
        }
        grid.print();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A millisecond for a step of a world, ten for a row in a pass, none for the rest; messages of a microsecond and one for every byte.
    fn model() -> Model {
        let exchange = vec![(0.0, 1e-6), (100.0, 101e-6)];
        Model { step_s: 1e-3, pass_s: 1e-2, rest_s: 0.0, row_bytes: 1.0, gradient_bytes: 9.0, networks: 2.0, exchange }
    }

    #[test]
    fn messages_are_read_off_a_line() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(
            near(model().message(50.0), 51e-6)
                && near(model().message(1000.0), 1001e-6)
                && near(model().message(0.0), 1e-6)
        );
    }

    #[test]
    fn work_is_shared_by_worlds_and_parts_and_messages_go_by_rounds() {
        // 1,920 rows are 16 tiles and parts; 10 worlds are at most 3 for each of 4.
        let run = Size { rows: 1920.0, worlds: 10.0, passes: 3.0 };
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * b.max(1.0), "{a} is not {b}");
        let [worlds, passes, messages, rest] = model().times(&run, 1, 1);
        near(worlds, 1.92);
        near(passes, 57.6);
        assert_eq!((messages, rest), (0.0, 0.0));
        let [worlds, passes, messages, _] = model().times(&run, 4, 4);
        near(worlds, 1.92 * 0.3);
        near(passes, 57.6 / 4.0);
        // Two rounds: 480 and 960 rows, and in each of 3 passes of 2 networks a gradient of 9 bytes and 768 of sums.
        near(messages, 481e-6 + 961e-6 + 2.0 * 3.0 * 2.0 * (10e-6 + 769e-6));
        // On two cores four take turns.
        near(model().times(&run, 4, 2)[1], 57.6 / 2.0);
    }

    #[test]
    fn settings_of_all_workloads_are_valid() {
        for what in WORKLOADS.iter().map(|(name, ..)| *name).chain([FEWER.0]) {
            config(what).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        assert_eq!(config("paper").unwrap().policy.passes as f64, PASSES[0]);
        assert_eq!(config(FEWER.0).unwrap().policy.passes as f64, PASSES[1]);
        assert!(config("quick").unwrap().policy.minibatch > 0 && config("paper").unwrap().policy.minibatch == 0);
    }

    #[test]
    fn medians() {
        assert_eq!((median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 1.0])), (2.0, 2.5));
    }
}
