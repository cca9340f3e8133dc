//! A sweep's runs can be shared out, passed over and moved: what they come to stays the same.

use crate::sweeps::{checkpoints, jobs};
use p3o::run::{Summary, checkpoint_path};
use p3o::{Algorithm, Error, Report, Request};
use p3o_lab::reproduce::estimate::estimate;
use p3o_lab::reproduce::{PAPER, Plan, Scale};
use p3o_lab::sweep::{Cpu, Ended, Job, Shard, Watch, Workers, sweep};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard};

const ONE: Workers = Workers { runs: 1, threads: 1, place: &Cpu };

fn shard(text: &str) -> Shard {
    text.parse().unwrap()
}

fn plan(scale: &str) -> Plan {
    Plan::new(PAPER.all(), Scale::named(scale).unwrap(), None, Path::new("out")).unwrap()
}

/// How many runs of each sort a share has.
fn count<K: Ord>(jobs: &[Job], share: &[usize], sort: impl Fn(&Job) -> K) -> BTreeMap<K, usize> {
    let mut counts = BTreeMap::new();
    share.iter().for_each(|&i| *counts.entry(sort(&jobs[i])).or_default() += 1);
    counts
}

#[test]
fn every_run_is_in_one_shard_and_no_shard_has_more_than_one_of_a_sort_more() {
    let jobs = plan("cpu").jobs;
    let by_method = |job: &Job| (job.steps(), job.config.task.clone(), job.config.method().to_string());
    let by_task = |job: &Job| (job.steps(), job.config.task.clone());
    for of in [1, 2, 3, 4, 5, 7, 16, 64, jobs.len(), jobs.len() + 9] {
        let shares: Vec<Vec<usize>> = (1..=of).map(|k| shard(&format!("{k}/{of}")).share(&jobs)).collect();
        let mut all = shares.concat();
        all.sort_unstable();
        assert!(all == (0..jobs.len()).collect::<Vec<_>>(), "of {of}");
        let even = |counts: &[usize], total: usize| counts.iter().all(|&n| n == total / of || n == total.div_ceil(of));
        assert!(even(&shares.iter().map(Vec::len).collect::<Vec<_>>(), jobs.len()));
        let of_methods: Vec<_> = shares.iter().map(|share| count(&jobs, share, by_method)).collect();
        for (sort, total) in count(&jobs, &all, by_method) {
            let each: Vec<usize> = of_methods.iter().map(|c| c.get(&sort).copied().unwrap_or(0)).collect();
            assert!(even(&each, total), "{sort:?} in {of}: {each:?}");
        }
        let of_tasks: Vec<_> = shares.iter().map(|share| count(&jobs, share, by_task)).collect();
        for (sort, total) in count(&jobs, &all, by_task) {
            let each: Vec<usize> = of_tasks.iter().map(|c| c.get(&sort).copied().unwrap_or(0)).collect();
            assert!(even(&each, total), "{sort:?} in {of}: {each:?}");
        }
    }
}

/// All machines must come to the same shares, those with another version of the program too.
#[test]
fn a_share_is_fixed() {
    let seeds = |steps: u64, algo: Algorithm| {
        let config = move |seed| {
            let request = Request { seed: Some(seed), steps: Some(steps), ..Request::new("PointGoal", algo.into()) };
            request.resolve().unwrap().config
        };
        (0..3).map(move |seed| Job { config: config(seed), folder: format!("{algo}{seed}").into() })
    };
    // Places:             0 to 2: ppo              3 to 5: cpo, longer               6 to 8: p3o
    let jobs: Vec<Job> = seeds(20_000, Algorithm::Ppo)
        .chain(seeds(40_000, Algorithm::Cpo))
        .chain(seeds(20_000, Algorithm::P3o))
        .collect();
    // Dealt out in the order 3 4 5 (longest), 6 7 8 (p3o), 0 1 2 (ppo).
    assert_eq!(shard("1/2").share(&jobs), [0, 2, 3, 5, 7]);
    assert_eq!(shard("2/2").share(&jobs), [1, 4, 6, 8]);
    assert_eq!(shard("2/4").share(&jobs), [4, 8]);
    assert_eq!(shard("9/9").share(&jobs), [2]);
    assert!(shard("10/10").share(&jobs).is_empty());
}

#[test]
fn a_shard_is_one_of_so_many() {
    assert_eq!(shard("3/16").to_string(), "3/16");
    let wrong = ["0/4", "5/4", "1/0", "0/0", "x", "", "/", "1/", "/4", "1/x", "+1/2", "-1/2", " 1/2", "1/2/3", "1.0/2"];
    for text in wrong.into_iter().chain(["1", "99999999999999999999/99999999999999999999"]) {
        let error = text.parse::<Shard>().unwrap_err();
        assert_eq!(error, "a shard is K/N, the K-th of N with K from 1 to N, for example 3/16", "{text}");
    }
}

/// What a sweep told, and what is done at its first update and at the start of a job.
struct Told<'a> {
    notes: Mutex<Vec<(usize, String)>>,
    at_update: Box<dyn Fn() + Send + Sync + 'a>,
    at_start: Box<dyn Fn(usize) + Send + Sync + 'a>,
}

impl<'a> Told<'a> {
    fn new(at_update: impl Fn() + Send + Sync + 'a, at_start: impl Fn(usize) + Send + Sync + 'a) -> Self {
        Told { notes: Mutex::default(), at_update: Box::new(at_update), at_start: Box::new(at_start) }
    }

    fn notes(&self) -> MutexGuard<'_, Vec<(usize, String)>> {
        self.notes.lock().unwrap()
    }
}

impl Watch for Told<'_> {
    fn started(&self, job: usize, _: u64) {
        (self.at_start)(job);
    }
    fn noted(&self, job: usize, note: &str) {
        self.notes().push((job, note.to_string()));
    }
    fn updated(&self, _: usize, _: &Report) {
        (self.at_update)();
    }
    fn ended(&self, _: usize, _: &Ended) {}
}

/// One sender of a signal and one that waits for it; sent once, it is never waited for again.
fn signal() -> (Sender<()>, Mutex<Receiver<()>>) {
    let (sender, receiver) = channel();
    (sender, Mutex::new(receiver))
}

fn wait(receiver: &Mutex<Receiver<()>>) {
    receiver.lock().unwrap().recv().ok();
}

fn of_whole() -> Vec<Vec<u8>> {
    let home = tempfile::tempdir().unwrap();
    let whole = jobs(home.path());
    let ended = sweep(&whole, &ONE, &AtomicBool::new(false), &Told::new(|| {}, |_| {}));
    assert!(ended.iter().all(|ended| matches!(ended, Ok(Some(_)))));
    checkpoints(&whole)
}

/// A sweep of the first job, held at its first update until the other has come so far, and a sweep of all jobs beside it, which
/// is held at the start of the last one until the first has ended, if it is to. What the other one said and came to.
fn two_at_once(jobs: &[Job], first_ends: bool, stop_first: bool) -> (Vec<(usize, String)>, Vec<Ended>) {
    let (begun, has_begun) = signal();
    let (go_on, may_go_on) = signal();
    let (over, is_over) = signal();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stop, may_go_on) = (&stop, &may_go_on);
        scope.spawn(move || {
            let watch = Told::new(
                || {
                    begun.send(()).ok();
                    wait(may_go_on);
                    stop.store(stop_first, Ordering::SeqCst);
                },
                |_| {},
            );
            let ended = sweep(&jobs[..1], &ONE, stop, &watch);
            assert_eq!(matches!(ended[0], Ok(Some(_))), !stop_first);
            over.send(()).ok();
        });
        wait(&has_begun);
        let go_on = Mutex::new(Some(go_on));
        let let_first_end = |job: usize| {
            if first_ends && job == 2 {
                go_on.lock().unwrap().take();
                wait(&is_over);
            }
        };
        let watch = Told::new(|| {}, let_first_end);
        let ended = sweep(jobs, &ONE, &AtomicBool::new(false), &watch);
        go_on.lock().unwrap().take();
        let notes = watch.notes().clone();
        (notes, ended)
    })
}

#[test]
fn a_run_that_another_has_is_passed_over() {
    let home = tempfile::tempdir().unwrap();
    let jobs = jobs(home.path());
    let (notes, ended) = two_at_once(&jobs, false, false);
    assert_eq!(notes, [(0, "another process has this run; going on with the next".to_string())]);
    assert!(matches!(&ended[0], Err(Error::InUse { folder }) if *folder == jobs[0].folder));
    assert!(matches!(&ended[1..], [Ok(Some(_)), Ok(Some(_))]));
    assert!(checkpoints(&jobs) == of_whole());
}

#[test]
fn a_run_that_another_has_had_is_read_at_the_end() {
    let home = tempfile::tempdir().unwrap();
    let jobs = jobs(home.path());
    let (notes, ended) = two_at_once(&jobs, true, false);
    assert_eq!(notes.len(), 1);
    assert!(matches!(&ended[..], [Ok(Some(_)), Ok(Some(_)), Ok(Some(_))]));
    assert!(checkpoints(&jobs) == of_whole());
}

#[test]
fn a_run_that_another_has_left_is_taken_up_at_the_end() {
    let home = tempfile::tempdir().unwrap();
    let jobs = jobs(home.path());
    let (notes, ended) = two_at_once(&jobs, true, true);
    assert_eq!(notes.len(), 1);
    assert!(matches!(&ended[..], [Ok(Some(_)), Ok(Some(_)), Ok(Some(_))]));
    assert!(checkpoints(&jobs) == of_whole());
}

/// A finished run whose checkpoints are elsewhere.
fn left_behind(folder: &Path) -> (Job, Summary) {
    let job = jobs(folder).swap_remove(0);
    let ended = sweep(std::slice::from_ref(&job), &ONE, &AtomicBool::new(false), &Told::new(|| {}, |_| {}));
    let summary = ended.into_iter().next().unwrap().unwrap().unwrap();
    std::fs::remove_dir_all(job.folder.join("checkpoints")).unwrap();
    (job, summary)
}

#[test]
fn a_run_without_its_checkpoints_is_finished_and_stays_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let (job, summary) = left_behind(home.path());
    let rows = std::fs::read(job.folder.join("progress.csv")).unwrap();
    let run = job.results().unwrap().expect("it is finished");
    assert!(run.summary == summary && !run.sealed && run.table.rows.len() == 3);
    assert_eq!(estimate(std::slice::from_ref(&job), &ONE).finished, 1);
    let trains = |_: usize| panic!("it is trained again");
    let ended = sweep(std::slice::from_ref(&job), &ONE, &AtomicBool::new(false), &Told::new(|| {}, trains));
    assert!(matches!(&ended[0], Ok(Some(again)) if *again == summary));
    assert!(std::fs::read(job.folder.join("progress.csv")).unwrap() == rows && !checkpoint_path(&job.folder).exists());
    // Another run's settings are another run.
    let mut other = job.clone();
    other.config.set("policy.passes=3").unwrap();
    assert!(matches!(other.results(), Err(Error::OtherSettings { .. })));
    // Of a longer run it is no finished one, nor one to go on with.
    let mut longer = job.clone();
    longer.config.run.steps = 2000;
    let config = std::fs::read_to_string(job.folder.join("config.toml")).unwrap();
    std::fs::write(job.folder.join("config.toml"), config.replace("steps = 1200", "steps = 2000")).unwrap();
    assert!(longer.results().unwrap().is_none());
    let ended = sweep(std::slice::from_ref(&longer), &ONE, &AtomicBool::new(false), &Told::new(|| {}, trains));
    assert!(matches!(&ended[0], Err(Error::Occupied { resumable: false, .. })));
    assert!(std::fs::read(job.folder.join("progress.csv")).unwrap() == rows);
}

#[test]
fn rows_without_a_checkpoint_must_vouch_for_themselves() {
    let home = tempfile::tempdir().unwrap();
    let (job, _) = left_behind(home.path());
    let [rows, summary] = ["progress.csv", "summary.json"].map(|name| job.folder.join(name));
    let [good_rows, good_summary] = [&rows, &summary].map(|path| std::fs::read_to_string(path).unwrap());
    let refused = |path: &Path, text: &str, part: &str| {
        let good = std::fs::read_to_string(path).unwrap();
        std::fs::write(path, text).unwrap();
        let error = job.results().map(drop).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(path.to_str().unwrap()), "{error}");
        std::fs::write(path, good).unwrap();
    };
    refused(&rows, &good_rows.replacen("\n1,400,", "\n1,401,", 1), "line 2 was altered");
    let unchecked: Vec<&str> = good_rows.lines().map(|line| line.rsplit_once(',').unwrap().0).collect();
    refused(&rows, &(unchecked.join("\n") + "\n"), "its rows carry no checks");
    refused(
        &summary,
        &good_summary.replacen("\"steps\": 1200", "\"steps\": 1600", 1),
        "its steps is not what the rows",
    );
    refused(&summary, "{", "it is no summary");
    // A row less does not fit the summary.
    let shorter = good_rows.trim_end().rsplit_once('\n').unwrap().0.to_string() + "\n";
    std::fs::write(&rows, shorter).unwrap();
    let error = job.results().map(drop).unwrap_err().to_string();
    assert!(error.contains("summary.json was altered"), "{error}");
    std::fs::write(&rows, good_rows).unwrap();
    assert!(job.results().unwrap().is_some());
}
