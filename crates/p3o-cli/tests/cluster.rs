//! docs/cluster.md: every command line of it works, with stand-ins for the scheduler, for ssh and for the container engine.

#![cfg(unix)]

use crate::util::{Home, json, text};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const DOCUMENT: &str = include_str!("../../../docs/cluster.md");
const CONTAINER: &str = include_str!("../../../tools/container/Containerfile");
/// What the document makes, and the eight runs of milliseconds that are made of it here.
const LARGE: &str = "reproduce all --scale paper";
const SMALL: &str = "reproduce pointgoal --scale smoke --seeds 2";
/// The same for one run.
const LARGE_RUN: &str = "--preset paper --out run";
const SMALL_RUN: &str = "--steps 20000 --out run";

/// Takes options from a script's #SBATCH lines up to its first command, then from its arguments, as Slurm does. All tasks of an
/// array run at once, in the folder that the script was sent from, by a copy of it.
const SBATCH: &str = r#"#!/bin/bash
set -eu
array=1 wrap= parsable= script= output=slurm.out
take() {
    case $1 in
    --array=*) array=${1#*=} ;;
    --cpus-per-task=*) export SLURM_CPUS_PER_TASK=${1#*=} ;;
    --output=*) output=${1#*=} ;;
    --wrap=*) wrap=${1#*=} ;;
    --parsable) parsable=1 ;;
    --dependency=afterany:*) [ -e "$STAND_INS/job-${1#*:}" ] ;;
    --job-name=* | --time=* | --nodes=* | --ntasks-per-node=*) ;;
    *) echo "sbatch: unknown option $1" >&2; exit 1 ;;
    esac
}
for word; do case $word in -*) ;; *) script=$word ;; esac; done
if [ -n "$script" ]; then
    while read -r first rest; do
        case $first in '#SBATCH') take "$rest" ;; '#'*) ;; *) break ;; esac
    done < "$script"
fi
for word; do case $word in -*) take "$word" ;; esac; done
id=$((100 + $(ls "$STAND_INS" | wc -l)))
copy=$STAND_INS/job-$id
if [ -n "$wrap" ]; then printf '#!/bin/sh\n%s\n' "$wrap" > "$copy"; else cp "$script" "$copy"; fi
chmod +x "$copy"
case $array in *-*) tasks=$(seq "${array%-*}" "${array#*-}") ;; *) tasks=${array//,/ } ;; esac
set -- $tasks
for task in $tasks; do
    SLURM_JOB_ID=$id SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_COUNT=$# "$copy" > "${output//%a/$task}" 2>&1 ||
        echo "task $task: $?" >> "$STAND_INS/failed" &
done
wait
if [ -n "$parsable" ]; then echo "$id"; else echo "Submitted batch job $id"; fi
"#;

const SRUN: &str = r#"#!/bin/bash
while :; do
    case $1 in
    --cpus-per-task="$SLURM_CPUS_PER_TASK" | --mpi=pmix | --kill-on-bad-exit=1) shift ;;
    -*) echo "srun: unknown option $1" >&2; exit 1 ;;
    *) exec "$@" ;;
    esac
done
"#;

/// Starts one of the processes, which then is alone: the program of these tests has no MPI.
const MPIRUN: &str = r#"#!/bin/bash
ranks=0
while :; do
    case $1 in
    -n) ranks=$2; shift 2 ;;
    --hostfile) [ "$(wc -l < "$2")" = 2 ] || exit 1; shift 2 ;;
    --mca) shift 3 ;;
    -*) echo "mpirun: unknown option $1" >&2; exit 1 ;;
    *) [ "$ranks" -gt 1 ] && exec "$@" ;;
    esac
done
"#;

/// Every host has a home of its own.
const SSH: &str = r#"#!/bin/bash
[ "$1" = -n ] && shift
mkdir -p "$STAND_INS/host-$1"
cd "$STAND_INS/host-$1" && exec bash -c "$2" < /dev/null
"#;

/// Runs the program of the image, which must have been built, in the folder that is mounted where the image works.
const PODMAN: &str = r#"#!/bin/bash
set -eu
case "$1" in
build) [ "$2 $4" = "-t -f" ] && [ -f "$5" ] && [ "$6" = . ] && touch "$STAND_INS/image-$3" ;;
run) [ "$2 $3 ${4#*:}" = "--rm -v /work" ] && [ -e "$STAND_INS/image-$5" ] && cd "${4%:*}" && exec p3o "${@:6}" ;;
esac
"#;

/// A folder with the stand-ins and the program before all else on the path.
fn stand_ins(home: &Home) -> PathBuf {
    let folder = home.path("stand-ins");
    std::fs::create_dir_all(folder.join("bin")).unwrap();
    for (name, script) in [("sbatch", SBATCH), ("srun", SRUN), ("mpirun", MPIRUN), ("ssh", SSH), ("podman", PODMAN)] {
        let path = folder.join("bin").join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_p3o"), folder.join("bin/p3o")).unwrap();
    folder
}

/// The fenced blocks of every section that has some.
fn sections() -> Vec<(&'static str, Vec<String>)> {
    let blocks = |section: &'static str| -> Vec<String> {
        let fenced = section.split("```sh\n").skip(1);
        fenced
            .map(|rest| rest.split_once("\n```").expect("a block ends").0.replace(LARGE, SMALL))
            .map(|block| block.replace(LARGE_RUN, SMALL_RUN))
            .collect()
    };
    let all = DOCUMENT.split("\n## ").skip(1).map(|s| (s.lines().next().unwrap(), blocks(s)));
    all.filter(|(_, blocks)| !blocks.is_empty()).collect()
}

/// Does what a section says, and returns what was shown. A block with a name, `# NAME.sh`, is a file.
fn follow(home: &Home, title: &str) -> String {
    let stand_ins = stand_ins(home);
    let path = format!("{}:{}", stand_ins.join("bin").display(), std::env::var("PATH").unwrap());
    let (_, blocks) = sections().into_iter().find(|(name, _)| *name == title).expect("the section is there");
    let mut shown = String::new();
    for block in blocks {
        let name = block.lines().find_map(|line| line.strip_prefix("# ")).filter(|name| name.ends_with(".sh"));
        if let Some(name) = name {
            std::fs::write(home.path(name), block.clone() + "\n").unwrap();
            continue;
        }
        let mut shell = Command::new("bash");
        shell.args(["-eu", "-o", "pipefail", "-c", &block]).current_dir(home.path(""));
        let output = shell.env("PATH", &path).env("STAND_INS", &stand_ins).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{block}");
        shown += &text(&output.stdout);
    }
    assert!(!stand_ins.join("failed").exists(), "{}", std::fs::read_to_string(stand_ins.join("failed")).unwrap());
    shown
}

fn read(home: &Home, name: &str) -> String {
    std::fs::read_to_string(home.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn every_block_is_in_a_section_that_is_followed_here() {
    let titles: Vec<&str> = sections().iter().map(|(title, _)| *title).collect();
    let of_runs = ["One run over many processes", "Slurm: one run over many nodes"];
    let sweeps = ["Shards", "Slurm: an array for a sweep", "Machines with ssh", "A container"];
    assert_eq!(titles, [&sweeps[..2], &of_runs, &sweeps[2..]].concat());
    let blocks = sections().iter().map(|(_, blocks)| blocks.len()).sum::<usize>();
    assert_eq!(DOCUMENT.matches("```").count(), 2 * blocks);
    let small = sections().iter().flat_map(|(_, blocks)| blocks.clone()).collect::<String>();
    assert!(!small.contains(LARGE) && small.matches(SMALL).count() == DOCUMENT.matches(LARGE).count());
    assert!(!small.contains(LARGE_RUN) && small.matches(SMALL_RUN).count() == 2);
}

#[test]
fn shards_by_hand() {
    let home = Home::new();
    let shown = follow(&home, "Shards");
    assert!(shown.contains("Shard 1/2: 4 of its 4 runs are done"), "{shown}");
    assert!(shown.contains("8 of 8 runs are in") && home.path("sweep/report/index.html").is_file(), "{shown}");
}

#[test]
fn an_array_of_slurm_and_the_report_after_it() {
    let home = Home::new();
    let shown = follow(&home, "Slurm: an array for a sweep");
    assert!(shown.starts_with("Submitted batch job ") && shown.lines().count() == 2, "{shown}");
    let done =
        |k: usize| read(&home, &format!("shard-{k}.log")).contains(&format!("Shard {k}/16: 1 of its 1 runs are done"));
    assert!((1..=8).all(done));
    let none =
        |k: usize| read(&home, &format!("shard-{k}.log")).contains(&format!("Shard {k}/16: it has none of the runs"));
    assert!((9..=16).all(none));
    assert!(read(&home, "report.log").contains("8 of 8 runs are in"));
    // Sent again, a task has the same share.
    let again = read(&home, "shard-3.log");
    assert!(
        again.contains("shard 3/16: 1 runs in sweep, 1 of them finished") && !again.contains("starting"),
        "{again}"
    );
}

#[test]
fn one_run_under_a_launcher_and_on_hosts() {
    let home = Home::new();
    let shown = follow(&home, "One run over many processes");
    assert!(shown.contains("update 2/2  steps 20,000"), "{shown}");
    assert!(shown.contains("run: all of its 20,000 steps are made already"), "{shown}");
}

#[test]
fn one_run_on_nodes_of_slurm_goes_on_when_it_is_sent_again() {
    let home = Home::new();
    let shown = follow(&home, "Slurm: one run over many nodes");
    assert!(shown.starts_with("Submitted batch job "), "{shown}");
    assert!(read(&home, "run.log").contains("update 2/2  steps 20,000"));
    std::fs::remove_dir_all(home.path("stand-ins")).unwrap();
    follow(&home, "Slurm: one run over many nodes");
    assert!(read(&home, "run.log").contains("run: all of its 20,000 steps are made already"));
}

#[test]
fn a_loop_over_hosts_and_their_rows_in_one_report() {
    let home = Home::new();
    let shown = follow(&home, "Machines with ssh");
    for line in ["Shard 1/3: 3 of its 3", "Shard 2/3: 3 of its 3", "Shard 3/3: 2 of its 2", "8 of 8 runs are in"] {
        assert!(shown.contains(line), "no {line:?} in {shown}");
    }
    assert!(shown.contains("8 runs without a checkpoint: their rows vouch for themselves alone."), "{shown}");
    assert!(!home.path("stand-ins/host-node1/sweep/report").exists());
}

#[test]
fn an_image_runs_the_program() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("tools/container")).unwrap();
    std::fs::write(home.path("tools/container/Containerfile"), CONTAINER).unwrap();
    let shown = follow(&home, "A container");
    assert!(shown.contains("8 of 8 runs are in"), "{shown}");
}

/// The image's lines with this instruction, and what follows it; comments and empty lines have none.
fn lines(instruction: &str) -> Vec<&'static str> {
    CONTAINER.lines().filter_map(|line| line.strip_prefix(instruction)?.strip_prefix(' ')).collect()
}

/// No engine is at hand to build it: what it would copy, run and start is looked for in the project.
#[test]
fn the_image_is_made_of_what_there_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let known = ["FROM", "WORKDIR", "COPY", "RUN", "ENTRYPOINT"];
    let all = CONTAINER.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
    assert_eq!(all, known.iter().map(|word| lines(word).len()).sum::<usize>());
    // Sources: what is copied exists, and everything that the crates are made of is copied.
    let (copies, built): (Vec<&str>, Vec<&str>) =
        lines("COPY").into_iter().partition(|line| !line.starts_with("--from="));
    let sources = copies.iter().flat_map(|line| line.rsplit_once(' ').unwrap().0.split(' '));
    let sources: Vec<PathBuf> = sources.map(|name| root.join(name).canonicalize().unwrap()).collect();
    let is_copied = |path: &Path| sources.iter().any(|source| path.canonicalize().unwrap().starts_with(source));
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(&root)
        .output()
        .unwrap();
    let project = json(&text(&output.stdout));
    let packages = project["packages"].as_array().unwrap();
    assert!(is_copied(&root.join("Cargo.toml")) && is_copied(&root.join("Cargo.lock")));
    for package in packages {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        assert!(is_copied(manifest), "{} is not copied", manifest.display());
        for file in included(&manifest.with_file_name("src")) {
            assert!(is_copied(&file), "{} is not copied", file.display());
        }
    }
    // The command builds a package of the project, whose program is copied to where the image starts it.
    let [run] = lines("RUN")[..] else { panic!("one command") };
    let ["cargo", "build", "--release", "--locked", "-p", name] = run.split(' ').collect::<Vec<_>>()[..] else {
        panic!("not a build of one package: {run}")
    };
    let package = packages.iter().find(|package| package["name"] == name).expect("the package is there");
    let is_program = |target: &&serde_json::Value| target["kind"][0] == "bin";
    let program = package["targets"].as_array().unwrap().iter().find(is_program).expect("it has a program");
    let program = program["name"].as_str().unwrap();
    let [place, _] = lines("WORKDIR")[..] else { panic!("two folders to work in") };
    assert_eq!(built, [format!("--from=build {place}/target/release/{program} /usr/local/bin/{program}")]);
    assert_eq!(lines("ENTRYPOINT"), [format!("[\"/usr/local/bin/{program}\"]")]);
    // The compiler is no older than the project asks for.
    let [compiler, _] = lines("FROM")[..] else { panic!("two images") };
    let version = compiler.strip_prefix("docker.io/library/rust:").unwrap().split('-').next().unwrap();
    let minor = |version: &str| version.split('.').nth(1).unwrap().parse::<u32>().unwrap();
    assert!(minor(version) >= minor(package["rust_version"].as_str().unwrap()), "{version}");
}

/// The files that the sources below a folder include.
fn included(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files.extend(included(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            let after = |word: &'static str| source.split(word).skip(1);
            let names =
                after("include_str!(\"").chain(after("include_bytes!(\"")).filter_map(|rest| rest.split_once('"'));
            files.extend(names.map(|(name, _)| path.with_file_name(name)));
        }
    }
    files
}
