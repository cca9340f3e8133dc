//! `--shard K/N`: shares of a sweep's runs, made anywhere in any order, come to the runs and the report of the whole.

use crate::util::{Home, contents, outcome, rows, small_of, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Eight runs of milliseconds.
const REPRODUCE: &[&str] = &["reproduce", "pointgoal", "--scale", "smoke", "--seeds", "2"];
/// Four runs.
const COMPARE: &[&str] = &["--algos", "p3o,ppo", "--seeds", "2", "--steps", "1600", "--out", "sweep"];

fn reproduce<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [REPRODUCE, more].concat()
}

fn compare<'a>(more: &[&'a str]) -> Vec<&'a str> {
    small_of("compare", "PointGoal", &[COMPARE, more].concat())
}

/// What every run below a folder came to, by its name.
fn runs(folder: &Path) -> BTreeMap<String, (Vec<u8>, Vec<Vec<String>>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let runs = entries.filter(|path| path.join("config.toml").is_file());
    runs.map(|run| (run.file_name().unwrap().to_string_lossy().into_owned(), outcome(&run))).collect()
}

/// A report's files by their names, without what depends on time and its runs, whose rows tell their time.
fn report(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_page = |path: &Path| path.is_file() && !path.starts_with(folder.join("runs"));
    let files = contents(folder).into_iter().filter(|(path, _)| is_page(path));
    let timeless = |path: &Path, bytes: Vec<u8>| match path.file_name().unwrap().to_str().unwrap() {
        "index.html" | "README.md" => {
            let page = text(&bytes);
            assert_eq!(page.lines().filter(|line| line.contains("hours of training")).count(), 1);
            let kept: Vec<&str> = page.lines().filter(|line| !line.contains("hours of training")).collect();
            kept.join("\n").into_bytes()
        }
        "runs.csv" | "compare.csv" => without_column(&text(&bytes), "wall_s").into_bytes(),
        _ => bytes,
    };
    files.map(|(path, bytes)| (path.strip_prefix(folder).unwrap().to_path_buf(), timeless(&path, bytes))).collect()
}

fn without_column(csv: &str, name: &str) -> String {
    let at = csv.lines().next().unwrap().split(',').position(|column| column == name).unwrap();
    let line = |line: &str| {
        let fields = line.split(',').enumerate().filter(|(i, _)| *i != at);
        fields.map(|(_, field)| field).collect::<Vec<_>>().join(",")
    };
    csv.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn compared(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let names = ["compare.csv", "compare.svg", "compare.png"];
    let mut all = report(folder);
    all.retain(|path, _| names.iter().any(|name| path == Path::new(name)));
    assert_eq!(all.len(), names.len());
    all
}

/// Copies a folder into another one, which may hold something already, but for folders and files of a name.
fn copy(from: &Path, to: &Path, without: &str) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        match () {
            () if name == without => {}
            () if path.is_dir() => copy(&path, &to.join(name), without),
            () => drop(std::fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

/// The command that the last line of a shard names.
fn named_command(told: &str) -> String {
    let last =
        told.lines().rfind(|line| line.starts_with("Shard ")).unwrap_or_else(|| panic!("no last line in {told}"));
    last.split_once("When all shards are:  p3o ").unwrap_or_else(|| panic!("no command in {last}")).1.to_string()
}

/// Runs a command line of the program through a shell.
fn pasted(home: &Home, command: &str) -> String {
    let script = format!("'{}' {command}", env!("CARGO_BIN_EXE_p3o"));
    let shell = Command::new("sh").args(["-c", &script]).current_dir(home.path("")).output().unwrap();
    assert_eq!((shell.status.code(), text(&shell.stderr).as_str()), (Some(0), ""), "{command}");
    text(&shell.stdout)
}

#[test]
fn shards_in_any_order_are_the_whole() {
    let (whole, parts) = (Home::new(), Home::new());
    whole.good(&reproduce(&[]));
    let mut told = String::new();
    for (shard, has) in [("2/3", 3), ("3/3", 2), ("1/3", 3)] {
        told = parts.good(&reproduce(&["--shard", shard]));
        assert!(told.contains(&format!("smoke, shard {shard}: {has} runs in reproduce, 0 of them finished")), "{told}");
        assert!(told.contains(&format!("\nShard {shard}: {has} of its {has} runs are done. When all")), "{told}");
        assert!(!parts.path("reproduce/report").exists(), "a shard makes no report");
    }
    let told = pasted(&parts, &named_command(&told));
    assert!(told.contains("8 of 8 runs are in"), "{told}");
    assert!(runs(&whole.path("reproduce/runs")) == runs(&parts.path("reproduce/runs")));
    assert!(report(&whole.path("reproduce/report")) == report(&parts.path("reproduce/report")));
    // A share is fixed by the runs, not by what is left of them.
    let again = parts.good(&reproduce(&["--shard", "2/3"]));
    assert!(again.contains("3 runs in reproduce, 3 of them finished") && !again.contains("starting"), "{again}");
    assert!(again.contains("Shard 2/3: 3 of its 3 runs are done"), "{again}");
}

#[test]
fn shards_of_a_comparison_are_the_whole() {
    let (whole, parts) = (Home::new(), Home::new());
    whole.good(&compare(&[]));
    let told = parts.good(&compare(&["--shard", "2/2"]));
    assert!(told.contains("\nShard 2/2: 2 of its 2 runs are done. When all"), "{told}");
    assert!(!parts.path("sweep/compare.csv").exists(), "a shard makes no table");
    // Of a part there is a table too.
    let half = parts.good(&compare(&["--report"]));
    assert!(half.contains("2 of 4 runs are in"), "{half}");
    let more = parts.good(&compare(&["--shard", "5/5"]));
    assert!(more.contains("\nShard 5/5: it has none of the runs. When all"), "{more}");
    parts.good(&compare(&["--shard", "1/2"]));
    assert!(pasted(&parts, &named_command(&told)).contains("4 of 4 runs are in"));
    assert!(runs(&whole.path("sweep")) == runs(&parts.path("sweep")));
    assert!(compared(&whole.path("sweep")) == compared(&parts.path("sweep")));
}

#[test]
fn shards_of_trials_make_their_table() {
    let home = Home::new();
    let trials = ["reproduce", "trials", "--scale", "smoke", "--seeds", "1", "--only", "SimpleSpread"];
    let told = home.good(&[&trials[..], &["--shard", "2/2"]].concat());
    assert!(!home.path("reproduce/report").exists());
    let command = named_command(&told);
    assert_eq!(command, "reproduce trials --scale smoke --seeds 1 --report-only");
    let all = pasted(&home, &command);
    assert!(all.contains("In reproduce/report: trials.csv") && home.path("reproduce/report/trials.csv").is_file());
}

/// Starts a sweep whose updates leave time, and waits until this run has rows.
fn under_way(home: &Home, args: &[&str], run: &str) -> Child {
    let child = home.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while rows(&home.path(run)).len() < 3 {
        assert!(start.elapsed() < Duration::from_secs(60), "no second update of {run} within a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

/// Four runs of some seconds, one at a time.
fn slow<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let slow = ["--set", "rollout.batch=2000", "--set", "net.hidden=[64,64]", "--set", "critic.passes=40"];
    let of = ["--algos", "p3o,ppo", "--seeds", "2", "--steps", "30000", "--threads", "1", "--out", "sweep"];
    small_of("compare", "PointGoal", &[&slow[..], &of, more].concat())
}

#[test]
fn two_processes_share_the_runs_of_a_folder() {
    let (alone, both) = (Home::new(), Home::new());
    alone.good(&slow(&[]));
    let first = under_way(&both, &slow(&[]), "sweep/p3o-seed0");
    let second = both.p3o(&slow(&[]));
    let first = first.wait_with_output().unwrap();
    let (told, line) = (text(&second.stdout), text(&second.stderr));
    let passed = "p3o seed 0: another process has this run; going on with the next\n";
    assert_eq!(told.matches(passed).count(), 1, "{told}");
    // Whoever found a run in other hands at the end says so and fails; the table is there once all runs are.
    for output in [&first, &second] {
        let (told, line) = (text(&output.stdout), text(&output.stderr));
        match output.status.code() {
            Some(0) => assert!(told.contains("4 of 4 runs are in"), "{told}"),
            Some(1) => {
                let named = told.lines().filter(|line| line.starts_with("Still another process's: sweep/")).count();
                let end =
                    format!("another process still has {named} of 4 runs, named above; when it has ended, the same");
                assert!(named > 0 && line.contains(&end) && line.lines().count() == 1, "{told}{line}");
            }
            code => panic!("{code:?}: {told}{line}"),
        }
    }
    assert!(first.status.success() || second.status.success(), "nobody saw the end: {told}{line}");
    assert!(runs(&alone.path("sweep")) == runs(&both.path("sweep")));
    assert!(compared(&alone.path("sweep")) == compared(&both.path("sweep")));
    // Nothing is left to do.
    assert!(!both.good(&slow(&[])).contains("starting"));
}

#[cfg(unix)]
#[test]
fn a_run_in_other_hands_is_named_at_the_end_of_a_shard() {
    let home = Home::new();
    // Its first run is under way and then stands still.
    let mut holder = under_way(&home, &slow(&[]), "sweep/p3o-seed0");
    let signal = |name: &str| Command::new("kill").args([name, &holder.id().to_string()]).status().unwrap().success();
    assert!(signal("-STOP"));
    let output = home.p3o(&slow(&["--shard", "1/2"]));
    let (told, line) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{told}{line}");
    assert!(told.contains("\nStill another process's: sweep/p3o-seed0\n"), "{told}");
    assert!(
        told.contains("\nShard 1/2: 1 of its 2 runs are done. When all shards are:  p3o compare PointGoal"),
        "{told}"
    );
    assert_eq!(
        line,
        "p3o: another process still has 1 of 2 runs, named above; when it has ended, the same command sees to them\n"
    );
    // Killed, it lets go of the run, and the same command sees to it.
    holder.kill().unwrap();
    holder.wait().unwrap();
    let told = home.good(&slow(&["--shard", "1/2"]));
    assert!(told.contains("\nShard 1/2: 2 of its 2 runs are done."), "{told}");
}

#[test]
fn a_killed_shard_goes_on_to_the_same_runs() {
    let (whole, parts) = (Home::new(), Home::new());
    whole.good(&slow(&[]));
    // The runs of p3o are dealt out first, one to each shard.
    for (shard, run) in [("1/2", "p3o-seed0"), ("2/2", "p3o-seed1")] {
        let mut child = under_way(&parts, &slow(&["--shard", shard]), &format!("sweep/{run}"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!parts.path(&format!("sweep/{run}/summary.json")).exists(), "it had finished");
        let told = parts.good(&slow(&["--shard", shard]));
        assert!(told.contains(&format!("Shard {shard}: 2 of its 2 runs are done")), "{told}");
    }
    assert!(parts.good(&slow(&["--report-only"])).contains("4 of 4 runs are in"));
    assert!(runs(&whole.path("sweep")) == runs(&parts.path("sweep")));
    assert!(compared(&whole.path("sweep")) == compared(&parts.path("sweep")));
}

#[test]
fn runs_of_many_machines_are_copied_into_one_report() {
    let machines = [Home::new(), Home::new()];
    for (home, shard) in machines.iter().zip(["1/2", "2/2"]) {
        home.good(&reproduce(&["--out", "elsewhere/deep", "--shard", shard]));
    }
    let gather = |order: [usize; 2], without: &str| {
        let home = Home::new();
        order.iter().for_each(|&i| copy(&machines[i].path("elsewhere/deep"), &home.path("reproduce"), without));
        let told = home.good(&reproduce(&["--report"]));
        assert!(told.contains("8 of 8 runs are in"), "{told}");
        let files: Vec<_> = contents(&home.path("reproduce/report")).into_iter().map(|(_, bytes)| bytes).collect();
        (home, told, files)
    };
    let (_, told, files) = gather([0, 1], "");
    assert!(!told.contains("without a checkpoint"));
    assert!(gather([1, 0], "").2 == files, "the order of copies shows in the report");
    // Rows are enough for a report, which says so, and nothing is trained again.
    let (home, told, light) = gather([0, 1], "checkpoints");
    let sentence = "8 runs without a checkpoint: their rows vouch for themselves alone.";
    assert!(told.contains(&format!("\n{sentence}\n")), "{told}");
    let page = std::fs::read_to_string(home.path("reproduce/report/README.md")).unwrap();
    assert!(page.contains(&format!("\n{sentence}\n")));
    let differ = files.iter().zip(&light).filter(|(a, b)| a != b).count();
    assert_eq!((files.len(), differ), (light.len(), 2), "only the two pages say it");
    let before = runs_of_rows(&home);
    let again = home.good(&reproduce(&[]));
    assert!(again.contains("8 of them finished") && !again.contains("starting") && again.contains(sentence), "{again}");
    assert!(runs_of_rows(&home) == before && before.len() == 8);
    // A report has what it was made from, which is enough to make it again, and to go on elsewhere.
    let other = Home::new();
    copy(&home.path("reproduce/report/runs"), &other.path("reproduce/runs"), "");
    let told = other.good(&reproduce(&[]));
    assert!(told.contains("8 of them finished") && !told.contains("starting"), "{told}");
    let files: Vec<_> = contents(&other.path("reproduce/report")).into_iter().map(|(_, bytes)| bytes).collect();
    assert!(files == light, "another report comes of a report's runs");
    assert!(runs_of_rows(&other).values().zip(before.values()).all(|(few, all)| few.len() < all.len() / 2));
    // One altered row is named and left out.
    let run = std::fs::read_dir(home.path("reproduce/runs")).unwrap().next().unwrap().unwrap().path();
    let rows = std::fs::read_to_string(run.join("progress.csv")).unwrap();
    std::fs::write(run.join("progress.csv"), rows.replacen("\n1,", "\n1.5,", 1)).unwrap();
    let told = home.good(&reproduce(&["--report"]));
    assert!(told.contains("7 of 8 runs are in") && told.contains("Left out: "), "{told}");
    assert!(told.contains("progress.csv was altered: line 2 was altered"), "{told}");
}

/// All that a folder has of its runs.
fn runs_of_rows(home: &Home) -> BTreeMap<PathBuf, Vec<u8>> {
    contents(&home.path("reproduce/runs")).into_iter().filter(|(path, _)| path.ends_with("progress.csv")).collect()
}

#[test]
fn a_comparison_of_copied_rows_counts_them() {
    let (machine, home) = (Home::new(), Home::new());
    let none = home.bad(1, &compare(&["--report-only"]));
    assert_eq!(none, "p3o: none of the 4 runs in sweep is finished\n");
    machine.good(&compare(&["--shard", "1/4"]));
    copy(&machine.path("sweep"), &home.path("sweep"), "checkpoints");
    let told = home.good(&compare(&["--report-only"]));
    assert!(told.contains("1 of 4 runs are in"), "{told}");
    assert!(told.contains("\n1 run without a checkpoint: its rows vouch for themselves alone.\n"), "{told}");
    assert!(home.good(&compare(&[])).contains("4 of 4 runs are in"));
    assert!(!home.path("sweep/p3o-seed0/checkpoints").exists(), "it was trained again");
    assert!(compared(&home.path("sweep")).len() == 3);
}

#[test]
fn a_dry_run_shows_a_share() {
    let home = Home::new();
    let told = home.good(&compare(&["--shard", "1/3", "--dry-run"]));
    assert!(told.contains("runs        2 of 4 (shard 1/3): p3o, ppo with seeds 0 to 1\n"), "{told}");
    assert_eq!(home.contents(), []);
}

#[test]
fn wrong_shards_are_refused_in_one_sentence() {
    let home = Home::new();
    for shard in ["0/4", "5/4", "x", "", "1", "1/0", "-1/4", "3/16/2", "1/4 "] {
        for command in [REPRODUCE, &["compare", "PointGoal"]] {
            let line = home.bad(2, &[command, &[&format!("--shard={shard}")]].concat());
            let reason = "for '--shard <K/N>': a shard is K/N, the K-th of N with K from 1 to N, for example 3/16;";
            assert!(line.contains(reason), "{line}");
        }
    }
    for flag in ["--report-only", "--report"] {
        let line = home.bad(2, &reproduce(&["--shard", "1/2", flag]));
        assert!(line.contains("'--shard <K/N>' cannot be used with '--report-only'"), "{line}");
    }
    assert_eq!(home.contents(), []);
}
