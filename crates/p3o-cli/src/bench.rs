//! `p3o bench`: what this machine does, as figures that can be compared within one run.

mod gpu;
mod ranks;

use crate::args::BenchArgs;
use crate::device::Device;
use crate::screen::{Doing, Grid, say, thousands};
use crate::{Failure, pool};
use p3o::actor::Actor;
use p3o::normalize::Normalizer;
use p3o::policy::Policy;
use p3o::rollout::{Collector, env_stream};
use p3o::{Algorithm, Config, ConfigError, Error, Learner, Method, Report};
use p3o_env::{Env, PointGoal, VecEnv, VectorEnv, VectorStep};
use p3o_lab::sweep::{Cpu, Place};
use p3o_nn::{Isa, peak_gflops};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use serde::Serialize;
use std::time::Instant;

/// The figures of one thread count. Speeds are of PointGoal; the networks are 64x64 where the name says nothing.
#[derive(Default, Serialize)]
struct Figures {
    threads: usize,
    /// Environments alone, random actions.
    env_steps_per_s: f64,
    /// Environments and the policy.
    rollout_steps_per_s: f64,
    /// All of training: batch 20,000, 40 passes, no early stop.
    train_steps_per_s: f64,
    /// Matrix products of the update over its whole time, 20,000 rows; the fastest update.
    update_gflops: f64,
    /// The same for 256x256, 30,000 rows.
    update256_gflops: f64,
    /// What the threads reach together in registers alone, at their fastest, or the fastest update if that was faster.
    peak_gflops: f64,
    peak_isa: String,
    /// Whether the peak is the rate of an update.
    peak_from_update: bool,
    update_share: f64,
    update256_share: f64,
    /// Largest memory so far, before the 256x256 networks.
    peak_rss_mb: f64,
}

/// `p3o bench`
pub fn bench(args: &BenchArgs) -> Result<(), Failure> {
    if !(args.seconds.is_finite() && args.seconds > 0.0) {
        return Err(Failure::Usage(format!("--seconds must be positive and finite, not {}", args.seconds)));
    }
    match (&args.as_rank, args.ranks) {
        (Some(what), _) => return ranks::work(what, args),
        (None, Some(count)) => return ranks::bench(usize::from(count), args),
        (None, None) => {}
    }
    let device = Device::of(&args.place)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut counts: Vec<usize> = args.threads.iter().map(|&t| usize::from(t)).collect();
    if counts.is_empty() {
        counts = if cores > 1 && device.is_cpu() { vec![1, cores] } else { vec![cores] };
    }
    if let Some(algo) = &args.algo {
        return compare(algo, &counts, args, &device);
    }
    match &device {
        Device::Cuda { gpu, .. } => return gpu::bench(&device, gpu, &counts, args),
        Device::Cpu if args.against.is_some() => {
            return Err(Failure::Usage("--against is for updates on a GPU: name one with --device".into()));
        }
        Device::Cpu => {}
    }
    let (mut all, doing) = (Vec::new(), Doing::new());
    // Training first for all thread counts: the larger networks would hide its memory.
    for threads in counts {
        let mut figures = Figures { threads, ..Figures::default() };
        steps(&mut figures, &pool(Some(threads))?, args.seconds, &doing);
        all.push(figures);
    }
    for figures in &mut all {
        let pool = pool(Some(figures.threads))?;
        doing.now(measuring("updates of 256x256 networks", figures.threads));
        let wide = learner(&["net.hidden=[256,256]", "rollout.envs=30", "rollout.batch=30000", "policy.passes=10"]);
        let before = peak(&pool, args.seconds / 8.0);
        (_, figures.update256_gflops) = pool.install(|| train(wide, args.seconds));
        let measured = figures.peak_gflops.max(before).max(peak(&pool, args.seconds / 8.0));
        let updates = [figures.update_gflops, figures.update256_gflops];
        let settled = Peak::settle(measured, &updates, || peak(&pool, args.seconds));
        figures.peak_isa = format!("{:?}", Isa::current());
        (figures.peak_gflops, figures.peak_from_update) = (settled.gflops, settled.from_update);
        [figures.update_share, figures.update256_share] = updates.map(|rate| rate / settled.gflops);
    }
    drop(doing);
    if args.json {
        say!("{}", serde_json::to_string_pretty(&all).expect("plain data can be written to memory"));
    } else {
        table(&all);
    }
    Ok(())
}

fn steps(figures: &mut Figures, pool: &rayon::ThreadPool, seconds: f64, doing: &Doing) {
    doing.now(measuring("environments", figures.threads));
    figures.env_steps_per_s = pool.install(|| environments(figures.threads, seconds));
    doing.now(measuring("environments with the policy", figures.threads));
    figures.rollout_steps_per_s = pool.install(|| rollouts(seconds));
    doing.now(measuring("training", figures.threads));
    let before = peak(pool, seconds / 8.0);
    let trained = pool.install(|| train(learner(&["policy.passes=40"]), seconds));
    (figures.train_steps_per_s, figures.update_gflops) = trained;
    figures.peak_gflops = before.max(peak(pool, seconds / 8.0));
    figures.peak_rss_mb = peak_rss_mb();
}

fn measuring(what: &str, threads: usize) -> String {
    format!("measuring {what} on {}", threads_in_words(threads))
}

fn threads_in_words(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// What the pool's threads reach together in registers alone, each at its fastest.
fn peak(pool: &rayon::ThreadPool, seconds: f64) -> f64 {
    pool.broadcast(|_| peak_gflops(Isa::current(), seconds)).iter().sum()
}

/// The rate that counts as 100 %.
#[derive(Debug, PartialEq)]
struct Peak {
    gflops: f64,
    from_update: bool,
}

impl Peak {
    /// The measured peak, unless an update was faster: then the peak is measured again, and if the update is still faster
    /// its rate is the peak. No update is ever above 100 %.
    fn settle(measured: f64, updates: &[f64], again: impl FnOnce() -> f64) -> Peak {
        let fastest = updates.iter().copied().fold(0.0, f64::max);
        let gflops = if fastest > measured { measured.max(again()) } else { measured };
        Peak { gflops: gflops.max(fastest), from_update: fastest > gflops }
    }
}

fn point_goal() -> Box<dyn Env> {
    Box::new(PointGoal::default())
}

/// Steps a second where every thread steps its own environments.
pub fn environments(threads: usize, seconds: f64) -> f64 {
    const WORLDS: usize = 8;
    let start = Instant::now();
    let done: u64 = (0..threads as u64)
        .into_par_iter()
        .map(|thread| {
            let mut worlds = VecEnv::new(&point_goal, WORLDS);
            let mut out = VectorStep::new(worlds.spec(), WORLDS);
            let mut streams: Vec<ChaCha8Rng> = (0..WORLDS).map(|i| env_stream(thread, i)).collect();
            let mut next_seed = |i: usize| streams[i].next_u64();
            let failed = "these worlds do not fail";
            let seeds: Vec<u64> = (0..WORLDS).map(&mut next_seed).collect();
            worlds.reset(&seeds, &mut out.obs).expect(failed);
            let mut steps = 0;
            let mut all = worlds.split(0..WORLDS, WORLDS).expect("these worlds can be split").remove(0);
            while start.elapsed().as_secs_f64() < seconds {
                for t in 0..1000u32 {
                    // Spread over [-1, 1) without the cost of a generator.
                    let noise = |k: u32| (t.wrapping_mul(k) >> 8) as f32 / (1 << 23) as f32 - 1.0;
                    let actions = [[noise(2_654_435_761), noise(2_246_822_519)]; WORLDS];
                    all.step(actions.as_flattened(), &mut next_seed, &mut out).expect(failed);
                }
                steps += 1000 * WORLDS as u64;
            }
            steps
        })
        .sum();
    done as f64 / start.elapsed().as_secs_f64()
}

fn rollouts(seconds: f64) -> f64 {
    let config = config(&[]);
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let spec = PointGoal::default().spec().clone();
    let policy = Policy::new(&config.net, spec.obs_dim, &spec.action, &mut rng);
    let normalizer = Normalizer::new(spec.obs_dim, config.rollout.normalize_obs);
    let actors = [Actor { policy: &policy, normalizer: &normalizer, agents: 0..1 }];
    let (envs, batch) = (config.rollout.envs, config.rollout.batch);
    let worlds = Box::new(VecEnv::new(&point_goal, envs));
    let failed = "these worlds do not fail";
    let mut collector = Collector::new(worlds, batch / envs, 0, true).expect(failed);
    collector.collect(&actors).expect(failed);
    let (start, mut steps) = (Instant::now(), 0);
    while start.elapsed().as_secs_f64() < seconds {
        collector.collect(&actors).expect(failed);
        steps += batch;
    }
    steps as f64 / start.elapsed().as_secs_f64()
}

fn config(settings: &[&str]) -> Config {
    let without_stop = [&["policy.target_kl=1e9"], settings].concat();
    let mut config = config_of(Algorithm::P3o.into(), &without_stop).expect("the preset exists");
    config.critic.passes = config.policy.passes;
    config
}

fn config_of(method: Method, settings: &[&str]) -> Result<Config, ConfigError> {
    // The base values are whole batches, whatever presets make of them.
    let preset = Config::preset("quick", method, PointGoal::default().spec())?;
    let mut config = Config { env: preset.env, limits: preset.limits, ..Config::base("PointGoal", method) };
    let fixed = ["net.hidden=[64,64]", "rollout.envs=20", "rollout.batch=20000"];
    fixed.iter().chain(settings).try_for_each(|assignment| config.set(assignment))?;
    config.check(PointGoal::default().spec())?;
    Ok(config)
}

fn learner(settings: &[&str]) -> Learner {
    learner_on(config(settings), &point_goal, &Cpu).expect("the settings are valid")
}

fn learner_on(config: Config, make: &dyn Fn() -> Box<dyn Env>, place: &dyn Place) -> Result<Learner, Error> {
    Learner::with_engines(config, make, &|networks, several| place.engine(networks, several))
}

/// Some updates of a run.
struct Updates {
    reports: Vec<Report>,
    /// Seconds that they took together, worlds included.
    seconds: f64,
    /// Steps of each.
    batch: usize,
}

impl Updates {
    /// Makes updates for so many seconds, but at least some, after a first one that is not counted.
    fn of(learner: &mut Learner, seconds: f64, at_least: usize) -> Result<Updates, Error> {
        learner.update()?;
        let (start, mut reports) = (Instant::now(), Vec::new());
        while start.elapsed().as_secs_f64() < seconds || reports.len() < at_least {
            reports.push(learner.update()?);
        }
        Ok(Updates { reports, seconds: start.elapsed().as_secs_f64(), batch: learner.config().rollout.batch })
    }

    fn steps_per_s(&self) -> f64 {
        (self.reports.len() * self.batch) as f64 / self.seconds
    }
}

/// Operations of an update's matrix products.
fn flops(learner: &Learner, report: &Report) -> f64 {
    let (forward, backward) = learner.policy().net.flops_per_row();
    let critics = learner.signals().all().len() as f64;
    let passes = (report.passes.steps + report.passes.redone) as f64 + critics * learner.config().critic.passes as f64;
    // Actor and critics differ by one output; the actor's count stands for all. Critics also value the batch.
    learner.config().rollout.batch as f64 * (passes * (forward + backward) + critics * forward)
}

/// Steps per second over whole updates, and GFLOP/s of the matrix products of the fastest update over its time. The peak is
/// a fastest round too: both are what the machine does when its neighbours leave it alone.
fn train(mut learner: Learner, seconds: f64) -> (f64, f64) {
    let updates = Updates::of(&mut learner, seconds, 3).expect("training the preset stays finite");
    let gflops = |report: &Report| flops(&learner, report) / (report.update_ms / 1e3) / 1e9;
    (updates.steps_per_s(), updates.reports.iter().map(gflops).fold(0.0, f64::max))
}

/// The policy's update of an algorithm beside 40 passes of P3O, 20,000 rows, 64x64 networks.
#[derive(Serialize)]
struct Comparison {
    algo: String,
    /// Where the networks learn, if not on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    threads: usize,
    /// One update as the base settings do it, at its fastest.
    update_ms: f64,
    /// 40 passes of P3O, at their fastest.
    passes40_ms: f64,
    ratio: f64,
}

fn compare(algo: &str, counts: &[usize], args: &BenchArgs, place: &Device) -> Result<(), Failure> {
    let (mut all, doing) = (Vec::new(), Doing::new());
    let device = (!place.is_cpu()).then(|| place.device());
    for &threads in counts {
        doing.now(measuring(&format!("updates of {algo} and p3o"), threads));
        let no_stop = ["policy.target_kl=1e9", "critic.passes=0"];
        let configs = [
            config_of(Algorithm::P3o.into(), &[&no_stop[..], &["policy.passes=1"]].concat())?,
            config_of(Algorithm::P3o.into(), &[&no_stop[..], &["policy.passes=41"]].concat())?,
            config_of(Method::named(algo)?, &["critic.passes=0"])?,
        ];
        let [one, more, own] = pool(Some(threads))?.install(|| fastest_updates(configs, args.seconds, place))?;
        let passes40_ms = more - one;
        // What is not the policy's passes, such as the advantages, is the same in all three.
        let update_ms = own - (one - passes40_ms / 40.0);
        let (algo, device, ratio) = (algo.into(), device.clone(), update_ms / passes40_ms);
        all.push(Comparison { algo, device, threads, update_ms, passes40_ms, ratio });
    }
    drop(doing);
    if args.json {
        say!("{}", serde_json::to_string_pretty(&all).expect("plain data can be written to memory"));
        return Ok(());
    }
    device.iter().for_each(|device| say!("The networks learn on {device}.\n"));
    let mut grid = Grid::new(&["policy update, ms", algo, "40 passes of p3o", "ratio"]);
    for c in &all {
        let name = threads_in_words(c.threads);
        let ms = |ms: f64| format!("{ms:.0}");
        grid.row(vec![name, ms(c.update_ms), ms(c.passes40_ms), format!("{:.2}", c.ratio)]);
    }
    grid.print();
    Ok(())
}

/// Milliseconds of the fastest update of each, taking turns so that they share what the machine is up to.
fn fastest_updates(configs: [Config; 3], seconds: f64, place: &Device) -> Result<[f64; 3], Error> {
    let mut learners = Vec::new();
    for config in configs {
        learners.push(learner_on(config, &point_goal, place)?);
    }
    let (start, mut best, mut rounds) = (Instant::now(), [f64::INFINITY; 3], 0);
    while start.elapsed().as_secs_f64() < 3.0 * seconds || rounds < 4 {
        for (learner, best) in learners.iter_mut().zip(&mut best) {
            *best = best.min(learner.update()?.update_ms);
        }
        rounds += 1;
    }
    Ok(best)
}

/// The process's largest resident memory, where the system tells.
fn peak_rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<f64>().ok()).map_or(f64::NAN, |kb| kb / 1024.0)
}

fn table(all: &[Figures]) {
    say!("{:?}, PointGoal; networks 64x64 unless said otherwise\n", Isa::current());
    let headings: Vec<String> = all.iter().map(|f| threads_in_words(f.threads)).collect();
    let headings: Vec<&str> = std::iter::once("").chain(headings.iter().map(String::as_str)).collect();
    let mut grid = Grid::new(&headings);
    let mut row = |name: &str, cell: &dyn Fn(&Figures) -> String| {
        grid.row(std::iter::once(name.to_string()).chain(all.iter().map(cell)).collect());
    };
    row("environment steps/s", &|f| thousands(f.env_steps_per_s));
    row("with inference", &|f| thousands(f.rollout_steps_per_s));
    row("with training (batch 20,000, 40 passes)", &|f| thousands(f.train_steps_per_s));
    row(&format!("peak GFLOP/s, {:?}", Isa::current()), &|f| format!("{:.0}", f.peak_gflops));
    row("update GFLOP/s", &|f| format!("{:.0}", f.update_gflops));
    row("  share of peak", &|f| format!("{:.0} %", 100.0 * f.update_share));
    row("update GFLOP/s, 256x256", &|f| format!("{:.0}", f.update256_gflops));
    row("  share of peak", &|f| format!("{:.0} %", 100.0 * f.update256_share));
    row("peak memory of training, MB", &|f| format!("{:.0}", f.peak_rss_mb));
    grid.print();
    for f in all.iter().filter(|f| f.peak_from_update) {
        say!(
            "\nnote: on {} an update was faster than the peak that was measured, also on the second try; its own rate \
             stands as the peak",
            threads_in_words(f.threads)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_above_all_updates_stands() {
        let settled = Peak::settle(100.0, &[60.0, 100.0], || unreachable!("there is no need to measure again"));
        assert_eq!(settled, Peak { gflops: 100.0, from_update: false });
    }

    #[test]
    fn a_peak_below_an_update_is_measured_again() {
        let settled = Peak::settle(80.0, &[60.0, 90.0], || 95.0);
        assert_eq!(settled, Peak { gflops: 95.0, from_update: false });
    }

    #[test]
    fn an_update_that_stays_faster_is_the_peak() {
        for second in [70.0, 85.0] {
            let settled = Peak::settle(80.0, &[60.0, 90.0], || second);
            assert_eq!(settled, Peak { gflops: 90.0, from_update: true });
        }
    }

    #[test]
    fn no_share_is_above_one() {
        let rates = [0.0, 0.3, 1.0, 7.0, 118.2, 118.3];
        for measured in rates {
            for again in rates {
                for update in rates {
                    let peak = Peak::settle(measured, &[1.0, update], || again);
                    assert!(update / peak.gflops <= 1.0, "{update} of {peak:?}");
                }
            }
        }
    }
}
