//! `p3o bench --device cuda`: a GPU beside the CPU of the same machine, on the same updates and the same trainings.

use super::{Peak, Updates, config, flops, learner_on, measuring, peak, point_goal, threads_in_words};
use crate::args::BenchArgs;
use crate::device::{Device, locked};
use crate::screen::{Doing, Grid, say, thousands};
use crate::{Failure, pool};
use p3o::record::read_text_stream;
use p3o::run::named_task;
use p3o::{Algorithm, Config, Error, Request};
use p3o_gpu::cuda::{Cuda, Peaks};
use p3o_lab::sweep::{Cpu, Place};
use p3o_nn::Isa;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Mutex;

/// Updates that are measured: PointGoal by P3O, whole batches, no early stop.
const SHAPES: [Shape; 2] = [
    Shape { hidden: [64, 64], envs: 20, rows: 20_000, passes: 40 },
    Shape { hidden: [256, 256], envs: 30, rows: 30_000, passes: 80 },
];
/// Whole trainings that are measured, as their presets are.
const TRAININGS: [(&str, &str); 3] = [("PointGoal", "quick"), ("PointGoal", "paper"), ("AntCircle", "paper")];
/// Updates per figure, at least: a GPU makes many in a second, a CPU takes seconds for one.
const FEWEST: usize = 8;
const FEWEST_ON_CPU: usize = 2;
/// Times the passes of an update that shows what a further one takes.
const LONGER: usize = 4;
/// Bytes of a file of another program's figures, at most.
const LONGEST_FILE: u64 = 1 << 20;

/// The size of an update.
struct Shape {
    /// Hidden layers of all networks.
    hidden: [usize; 2],
    envs: usize,
    rows: usize,
    /// Of the policy, and of each critic.
    passes: usize,
}

impl Shape {
    fn config(&self) -> Config {
        let Shape { hidden: [first, second], envs, rows, passes } = self;
        config(&[
            &format!("net.hidden=[{first},{second}]"),
            &format!("rollout.envs={envs}"),
            &format!("rollout.batch={rows}"),
            &format!("policy.passes={passes}"),
        ])
    }
}

/// All that is printed.
#[derive(Serialize)]
struct Figures {
    gpu: GpuFigures,
    /// The GPU, then the CPU with each number of threads.
    places: Vec<PlaceFigures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<Other>,
}

/// What the GPU itself reaches.
#[derive(Serialize)]
struct GpuFigures {
    /// Within its memory, bytes read and bytes written.
    copy_gb_s: f64,
    /// From pinned memory of the host.
    upload_gb_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    fp32_tflops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fp16_tensor_tflops: Option<f64>,
}

impl From<Peaks> for GpuFigures {
    fn from(peaks: Peaks) -> Self {
        let Peaks { copy_gb_s, upload_gb_s, fp32_tflops, fp16_tensor_tflops } = peaks;
        GpuFigures { copy_gb_s, upload_gb_s, fp32_tflops, fp16_tensor_tflops }
    }
}

/// What one place does.
#[derive(Serialize)]
struct PlaceFigures {
    device: String,
    /// Of the host: worlds step there, and on the CPU networks learn there too.
    threads: usize,
    updates: Vec<UpdateFigures>,
    trainings: Vec<TrainingFigures>,
}

/// Updates of one shape.
#[derive(Serialize)]
struct UpdateFigures {
    hidden: [usize; 2],
    rows: usize,
    passes: usize,
    /// How many were measured.
    updates: usize,
    /// Milliseconds of an update divided by its passes, each of which is one of the actor and of every critic.
    best_ms: f64,
    median_ms: f64,
    /// What one more pass takes: the difference between updates of as many passes and of [`LONGER`] times as many, medians both.
    #[serde(skip_serializing_if = "Option::is_none")]
    further_ms: Option<f64>,
    /// Of the matrix products, in the fastest update over its whole time.
    tflops: f64,
    /// Of the place's own peak in single precision.
    #[serde(skip_serializing_if = "Option::is_none")]
    fp32_share: Option<f64>,
    /// Of the tensor cores' peak with fp16.
    #[serde(skip_serializing_if = "Option::is_none")]
    tensor_share: Option<f64>,
    /// The other program's milliseconds divided by those of a further pass: both are of passes alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    times_as_fast: Option<f64>,
}

#[derive(Serialize)]
struct TrainingFigures {
    task: String,
    preset: String,
    steps_per_s: f64,
}

/// Another program's figures, as `tools/torch_update.py` writes them.
#[derive(Deserialize, Serialize)]
struct Other {
    program: String,
    device: String,
    precision: String,
    updates: Vec<OtherUpdate>,
}

#[derive(Deserialize, Serialize)]
struct OtherUpdate {
    hidden: [usize; 2],
    rows: usize,
    median_ms: f64,
}

/// Measures the GPU and then the CPU with these numbers of threads.
pub fn bench(device: &Device, gpu: &Mutex<Cuda>, counts: &[usize], args: &BenchArgs) -> Result<(), Failure> {
    let against = args.against.as_deref().map(Other::read).transpose()?;
    let doing = Doing::new();
    doing.now(format!("measuring {}", device.device()));
    let peaks: GpuFigures = locked(gpu).peaks().map_err(Failure::Failed)?.into();
    let threads = counts.iter().copied().max().unwrap_or(1);
    let mut places = vec![pool(Some(threads))?.install(|| measure(device, threads, args.seconds, FEWEST, &doing))?];
    places[0].compare_with_peaks(peaks.fp32_tflops, peaks.fp16_tensor_tflops);
    for &threads in counts {
        let pool = pool(Some(threads))?;
        let before = peak(&pool, args.seconds / 8.0);
        let mut found = pool.install(|| measure(&Cpu, threads, args.seconds, FEWEST_ON_CPU, &doing))?;
        let measured = before.max(peak(&pool, args.seconds / 8.0));
        let updates: Vec<f64> = found.updates.iter().map(|update| 1e3 * update.tflops).collect();
        let settled = Peak::settle(measured, &updates, || peak(&pool, args.seconds));
        found.compare_with_peaks(Some(settled.gflops / 1e3), None);
        places.push(found);
    }
    drop(doing);
    if let Some(other) = &against {
        places.iter_mut().for_each(|place| place.compare_with(other));
    }
    let all = Figures { gpu: peaks, places, against };
    if args.json {
        say!("{}", serde_json::to_string_pretty(&all).expect("plain data can be written to memory"));
    } else {
        all.lines().iter().for_each(|line| say!("{line}"));
    }
    Ok(())
}

/// Everything of one place, on the current threads.
fn measure(
    place: &dyn Place,
    threads: usize,
    seconds: f64,
    at_least: usize,
    doing: &Doing,
) -> Result<PlaceFigures, Error> {
    let device = place.device();
    let mut found = PlaceFigures { device, threads, updates: Vec::new(), trainings: Vec::new() };
    let on = |what: String| match place.is_cpu() {
        true => measuring(&what, threads),
        false => format!("measuring {what} on {}", place.device()),
    };
    for shape in &SHAPES {
        doing.now(on(format!("updates of {} networks", widths(&shape.hidden))));
        found.updates.push(update(shape, place, seconds, at_least)?);
    }
    for (task, preset) in TRAININGS {
        doing.now(on(format!("training of {task}, preset {preset}")));
        found.trainings.push(training(task, preset, place, seconds, at_least)?);
    }
    Ok(found)
}

fn update(shape: &Shape, place: &dyn Place, seconds: f64, at_least: usize) -> Result<UpdateFigures, Error> {
    let mut learner = learner_on(shape.config(), &point_goal, place)?;
    let made = Updates::of(&mut learner, seconds, at_least)?;
    let times: Vec<(f64, f64)> = made.reports.iter().map(|r| (r.update_ms, flops(&learner, r))).collect();
    let mut figures = UpdateFigures::of(shape, &times);
    if !place.is_cpu() {
        let longer = Shape { passes: LONGER * shape.passes, ..*shape };
        let mut learner = learner_on(longer.config(), &point_goal, place)?;
        let made = Updates::of(&mut learner, seconds, at_least)?;
        let times: Vec<(f64, f64)> = made.reports.iter().map(|r| (r.update_ms, 0.0)).collect();
        figures.compare_with_longer(&UpdateFigures::of(&longer, &times));
    }
    Ok(figures)
}

impl UpdateFigures {
    /// From milliseconds and operations of every update.
    fn of(shape: &Shape, updates: &[(f64, f64)]) -> Self {
        let mut times: Vec<f64> = updates.iter().map(|(ms, _)| ms / shape.passes as f64).collect();
        times.sort_by(f64::total_cmp);
        let tflops = updates.iter().map(|(ms, flops)| flops / (ms / 1e3) / 1e12).fold(0.0, f64::max);
        let middle = times.len() / 2;
        let median_ms = if times.len() % 2 == 1 { times[middle] } else { (times[middle - 1] + times[middle]) / 2.0 };
        UpdateFigures {
            hidden: shape.hidden,
            rows: shape.rows,
            passes: shape.passes,
            updates: times.len(),
            best_ms: times[0],
            median_ms,
            further_ms: None,
            tflops,
            fp32_share: None,
            tensor_share: None,
            times_as_fast: None,
        }
    }
}

impl UpdateFigures {
    /// Finds what a further pass takes, from an update that made more.
    fn compare_with_longer(&mut self, longer: &UpdateFigures) {
        let [short, long] = [&*self, longer].map(|update| update.median_ms * update.passes as f64);
        self.further_ms = Some((long - short) / (longer.passes - self.passes) as f64);
    }
}

fn training_config(task: &str, preset: &str) -> Result<Config, Error> {
    Ok(Request { preset: preset.into(), ..Request::new(task, Algorithm::P3o.into()) }.resolve()?.config)
}

fn training(
    task: &str,
    preset: &str,
    place: &dyn Place,
    seconds: f64,
    at_least: usize,
) -> Result<TrainingFigures, Error> {
    let config = training_config(task, preset)?;
    let make = named_task(&config)?;
    let mut learner = learner_on(config, &*make, place)?;
    let made = Updates::of(&mut learner, seconds, at_least)?;
    Ok(TrainingFigures { task: task.into(), preset: preset.into(), steps_per_s: made.steps_per_s() })
}

impl PlaceFigures {
    fn compare_with_peaks(&mut self, fp32_tflops: Option<f64>, fp16_tensor_tflops: Option<f64>) {
        for update in &mut self.updates {
            update.fp32_share = fp32_tflops.map(|peak| update.tflops / peak);
            update.tensor_share = fp16_tensor_tflops.map(|peak| update.tflops / peak);
        }
    }

    fn compare_with(&mut self, other: &Other) {
        for update in &mut self.updates {
            let ours = update.further_ms.unwrap_or(update.median_ms);
            update.times_as_fast = other.of(update).map(|other| other.median_ms / ours);
        }
    }

    fn heading(&self) -> String {
        if self.device == Cpu.device() { threads_in_words(self.threads) } else { self.device.clone() }
    }
}

impl Other {
    fn read(path: &Path) -> Result<Other, Failure> {
        let text = read_text_stream(path, LONGEST_FILE).map_err(Error::from)?;
        Other::parse(&text).map_err(|reason| Failure::Usage(format!("{}: {reason}", path.display())))
    }

    fn parse(text: &str) -> Result<Other, String> {
        let other: Other =
            serde_json::from_str(text).map_err(|e| format!("this is not what tools/torch_update.py writes: {e}"))?;
        if let Some(update) = other.updates.iter().find(|u| !(u.median_ms.is_finite() && u.median_ms > 0.0)) {
            return Err(format!("median_ms must be positive and finite, not {}", update.median_ms));
        }
        let fits = |shape: &Shape| other.updates.iter().any(|u| (u.hidden, u.rows) == (shape.hidden, shape.rows));
        if !SHAPES.iter().any(fits) {
            let shapes: Vec<String> = SHAPES.iter().map(|s| in_words(&s.hidden, s.rows)).collect();
            return Err(format!("it has no update of {}", shapes.join(" or of ")));
        }
        Ok(other)
    }

    fn of(&self, update: &UpdateFigures) -> Option<&OtherUpdate> {
        self.updates.iter().find(|other| (other.hidden, other.rows) == (update.hidden, update.rows))
    }
}

fn widths(hidden: &[usize; 2]) -> String {
    format!("{}x{}", hidden[0], hidden[1])
}

fn in_words(hidden: &[usize; 2], rows: usize) -> String {
    format!("{} networks with {} rows", widths(hidden), thousands(rows as f64))
}

/// Three digits of what may be large or small.
fn digits(x: f64) -> String {
    match x {
        _ if x >= 99.95 => thousands(x),
        _ if x >= 9.995 => format!("{x:.1}"),
        _ if x >= 0.9995 => format!("{x:.2}"),
        _ if x >= 0.09995 => format!("{x:.3}"),
        _ => format!("{x:.4}"),
    }
}

impl Figures {
    fn lines(&self) -> Vec<String> {
        let GpuFigures { copy_gb_s, upload_gb_s, fp32_tflops, fp16_tensor_tflops } = self.gpu;
        let (device, isa) = (&self.places[0].device, Isa::current());
        let threads = threads_in_words(self.places[0].threads);
        let mut lines =
            vec![format!("{device} with {threads} of its host; beside it the CPU alone, {isa:?}"), String::new()];
        let mut gpu = Grid::new(&["the GPU by itself", ""]);
        let mut row = |name: &str, value: Option<f64>| {
            value.iter().for_each(|value| gpu.row(vec![name.into(), digits(*value)]));
        };
        row("copy within its memory, GB/s read and written", Some(copy_gb_s));
        row("upload from pinned memory, GB/s", Some(upload_gb_s));
        row("peak TFLOP/s, fp32", fp32_tflops);
        row("peak TFLOP/s, fp16 on tensor cores", fp16_tensor_tflops);
        lines.extend(gpu.lines(false));
        lines.push(String::new());
        lines.extend(self.table().lines(false));
        lines.extend(self.notes());
        lines
    }

    fn table(&self) -> Grid {
        let headings: Vec<String> = self.places.iter().map(PlaceFigures::heading).collect();
        let headings: Vec<&str> = std::iter::once("").chain(headings.iter().map(String::as_str)).collect();
        let mut grid = Grid::new(&headings);
        for (i, first) in self.places[0].updates.iter().enumerate() {
            let UpdateFigures { hidden, rows, passes, .. } = first;
            grid.row(vec![format!("update of {}, {passes} passes", in_words(hidden, *rows))]);
            let mut row = |name: &str, cell: &dyn Fn(&UpdateFigures) -> Option<String>| {
                let cells: Vec<Option<String>> = self.places.iter().map(|place| cell(&place.updates[i])).collect();
                if cells.iter().any(Option::is_some) {
                    let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".into()));
                    grid.row(std::iter::once(format!("  {name}")).chain(cells).collect());
                }
            };
            let share = |share: Option<f64>| share.map(|share| format!("{:.0} %", 100.0 * share));
            row("ms a pass, best", &|u| Some(digits(u.best_ms)));
            row("ms a pass, median", &|u| Some(digits(u.median_ms)));
            row("ms of a further pass, median", &|u| u.further_ms.map(digits));
            row("TFLOP/s of its products", &|u| Some(digits(u.tflops)));
            row("  share of the peak, fp32", &|u| share(u.fp32_share));
            row("  share of the peak, fp16 on tensor cores", &|u| share(u.tensor_share));
            if let Some((other, theirs)) = self.against.as_ref().and_then(|other| Some((other, other.of(first)?))) {
                let name = format!("times as fast as {} ({} ms)", other.program, digits(theirs.median_ms));
                row(&name, &|u| u.times_as_fast.map(digits));
            }
        }
        grid.row(vec!["training, steps/s".into()]);
        for (i, TrainingFigures { task, preset, .. }) in self.places[0].trainings.iter().enumerate() {
            let cells = self.places.iter().map(|place| thousands(place.trainings[i].steps_per_s));
            grid.row(std::iter::once(format!("  {task}, preset {preset}")).chain(cells).collect());
        }
        grid
    }

    /// What makes the other program's figures less than comparable.
    fn notes(&self) -> Vec<String> {
        let Some(Other { program, device, precision, .. }) = &self.against else { return Vec::new() };
        let theirs = if precision == "fp32" { device.clone() } else { format!("{device}, {precision}") };
        let ours = &self.places[0].device;
        if theirs == *ours {
            return Vec::new();
        }
        vec![String::new(), format!("note: the figures of {program} are of {theirs}, not of {ours}")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p3o::engine::{Engine, Networks};
    use p3o_gpu::Precision;
    use p3o_gpu::engine::DeviceEngine;
    use p3o_gpu::host::Host;

    const SMALL: Shape = Shape { hidden: [8, 8], envs: 2, rows: 100, passes: 4 };

    /// A device in host memory.
    struct StandIn;

    impl Place for StandIn {
        fn device(&self) -> String {
            "a stand-in".into()
        }

        fn engine(&self, networks: Networks, _: bool) -> Result<Box<dyn Engine>, String> {
            let another = || -> Result<Box<dyn p3o_gpu::device::Device>, String> { Ok(Box::new(Host::default())) };
            Ok(Box::new(DeviceEngine::new(networks, &another, Precision::Fp32)?))
        }
    }

    #[test]
    fn figures_of_updates_by_hand() {
        // 10, 20 and 40 ms over 4 passes; the fastest makes 5e9 operations in 10 ms, 0.5 TFLOP/s.
        let found = UpdateFigures::of(&SMALL, &[(40.0, 6e9), (10.0, 5e9), (20.0, 5e9)]);
        assert_eq!((found.updates, found.best_ms, found.median_ms, found.tflops), (3, 2.5, 5.0, 0.5));
        let even = UpdateFigures::of(&SMALL, &[(40.0, 6e9), (10.0, 5e9)]);
        assert_eq!(even.median_ms, 6.25);
    }

    #[test]
    fn a_further_pass_by_hand() {
        // 20 ms for 4 passes, 80 ms for 16: 60 ms for 12 more.
        let mut found = UpdateFigures::of(&SMALL, &[(20.0, 1e9)]);
        found.compare_with_longer(&UpdateFigures::of(&Shape { passes: 16, ..SMALL }, &[(80.0, 0.0)]));
        assert_eq!(found.further_ms, Some(5.0));
    }

    #[test]
    fn a_stand_in_is_measured_like_a_gpu() {
        let found = update(&SMALL, &StandIn, 0.0, 2).unwrap();
        let shape = (found.hidden, found.rows, found.passes, found.updates);
        assert_eq!(shape, ([8, 8], 100, 4, 2));
        assert!(0.0 < found.best_ms && found.best_ms <= found.median_ms && found.tflops > 0.0);
    }

    #[test]
    fn what_is_measured_is_what_the_table_says() {
        for shape in &SHAPES {
            let config = shape.config();
            assert_eq!((&config.net.hidden[..], config.rollout.batch), (&shape.hidden[..], shape.rows));
            assert_eq!((config.policy.passes, config.critic.passes), (shape.passes, shape.passes));
            assert_eq!((config.policy.minibatch, config.critic.minibatch, config.policy.target_kl), (0, 0, 1e9));
        }
        for (task, preset) in TRAININGS {
            let config = training_config(task, preset).unwrap();
            assert_eq!((config.task.as_str(), config.preset.as_str()), (task, preset));
        }
    }

    /// A GPU beside a CPU, with figures that are easy to divide.
    fn figures(peaks: (Option<f64>, Option<f64>)) -> Figures {
        let place = |device: &str, threads: usize, factor: f64| PlaceFigures {
            device: device.into(),
            threads,
            updates: SHAPES
                .iter()
                .map(|shape| {
                    let ms = factor * shape.passes as f64;
                    // 10 TFLOP/s at factor 1.
                    UpdateFigures::of(shape, &[(ms, 1e10 * shape.passes as f64), (2.0 * ms, 1e10), (3.0 * ms, 1e10)])
                })
                .collect(),
            trainings: TRAININGS
                .iter()
                .map(|(task, preset)| TrainingFigures {
                    task: task.to_string(),
                    preset: preset.to_string(),
                    steps_per_s: 120_000.0 / factor,
                })
                .collect(),
        };
        let (fp32_tflops, fp16_tensor_tflops) = peaks;
        let mut places = vec![place("a GPU", 4, 1.0), place("cpu", 4, 20.0)];
        places[0].compare_with_peaks(fp32_tflops, fp16_tensor_tflops);
        places[1].compare_with_peaks(Some(1.0), None);
        let gpu = GpuFigures { copy_gb_s: 4012.3, upload_gb_s: 55.04, fp32_tflops, fp16_tensor_tflops };
        Figures { gpu, places, against: None }
    }

    #[test]
    fn the_table_by_hand() {
        let mut all = figures((Some(50.0), Some(800.0)));
        let expected = "
  the GPU by itself
  copy within its memory, GB/s read and written  4,012
  upload from pinned memory, GB/s                 55.0
  peak TFLOP/s, fp32                              50.0
  peak TFLOP/s, fp16 on tensor cores               800

                                                            a GPU  4 threads
  update of 64x64 networks with 20,000 rows, 40 passes
    ms a pass, best                                          1.00       20.0
    ms a pass, median                                        2.00       40.0
    TFLOP/s of its products                                  10.0      0.500
      share of the peak, fp32                                20 %       50 %
      share of the peak, fp16 on tensor cores                 1 %          -
  update of 256x256 networks with 30,000 rows, 80 passes
    ms a pass, best                                          1.00       20.0
    ms a pass, median                                        2.00       40.0
    TFLOP/s of its products                                  10.0      0.500
      share of the peak, fp32                                20 %       50 %
      share of the peak, fp16 on tensor cores                 1 %          -
  training, steps/s
    PointGoal, preset quick                               120,000      6,000
    PointGoal, preset paper                               120,000      6,000
    AntCircle, preset paper                               120,000      6,000";
        let told = all.lines();
        assert!(told[0].starts_with("a GPU with 4 threads of its host; beside it the CPU alone, "), "{}", told[0]);
        assert_eq!(told[1..].join("\n"), expected);
        // What is not known is not printed.
        all = figures((None, None));
        let told = all.lines().join("\n");
        assert!(!told.contains("peak TFLOP/s") && !told.contains("tensor") && !told.contains("None"), "{told}");
        assert!(told.contains("share of the peak, fp32                                   -       50 %"), "{told}");
        let json = serde_json::to_value(&all).unwrap();
        assert_eq!(json["gpu"], serde_json::json!({"copy_gb_s": 4012.3, "upload_gb_s": 55.04}));
        assert!(json.get("against").is_none());
        assert_eq!(json["places"][1]["updates"][1]["best_ms"], 20.0);
    }

    const TORCH: &str = r#"{"program": "PyTorch 2.9", "device": "a GPU", "precision": "fp32", "more": 1,
        "updates": [{"hidden": [256, 256], "rows": 30000, "median_ms": 3.0, "passes": 80}]}"#;

    #[test]
    fn another_programs_figures_stand_beside() {
        let mut all = figures((None, None));
        let other = Other::parse(TORCH).unwrap();
        all.places.iter_mut().for_each(|place| place.compare_with(&other));
        all.against = Some(other);
        let told = all.lines().join("\n");
        // Medians: 3 ms against 2 and 40; nothing for the shape that the file does not have.
        let row = "    times as fast as PyTorch 2.9 (3.00 ms)                   1.50     0.0750\n";
        assert_eq!(told.matches("times as fast").count(), 1, "{told}");
        assert!(told.contains(row) && !told.contains("note:"), "{told}");
        let json = serde_json::to_value(&all).unwrap();
        assert_eq!(json["places"][0]["updates"][1]["times_as_fast"], 1.5);
        assert!(json["places"][0]["updates"][0].get("times_as_fast").is_none());
        all.against.as_mut().unwrap().precision = "tf32".into();
        let told = all.lines().join("\n");
        assert!(told.ends_with("\nnote: the figures of PyTorch 2.9 are of a GPU, tf32, not of a GPU"), "{told}");
    }

    #[test]
    fn a_file_that_cannot_be_compared_with_is_refused_in_a_sentence() {
        for (text, reason) in [
            ("", "this is not what tools/torch_update.py writes: "),
            ("{\"updates\": []}", "this is not what tools/torch_update.py writes: missing field `program`"),
            (&TORCH.replace("30000", "1"), "it has no update of 64x64 networks with 20,000 rows or of 256x256"),
            (&TORCH.replace("3.0", "0.0"), "median_ms must be positive and finite, not 0"),
        ] {
            let error = Other::parse(text).err().expect(reason);
            assert!(error.starts_with(reason) && !error.contains('\n'), "{error}");
        }
    }
}
