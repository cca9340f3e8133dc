//! Runs of earlier versions go on: they load, and resumed they come to what the program that made them would have come to.

use crate::golden::hashes;
use crate::util::{copy_folder, on_threads};
use p3o::Run;
use p3o::run::{load_config, named_task};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-1")
}

/// Every run of version 1, by name.
fn runs() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|e| e.unwrap());
    let folders = entries.filter(|e| e.path().is_dir());
    let mut names: Vec<String> = folders.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Twice the steps that the run has made, in a copy of its folder.
fn resumed(name: &str) -> (String, String) {
    let home = tempfile::tempdir().unwrap();
    let copy = home.path().join(name);
    copy_folder(&folder().join(name), &copy);
    on_threads(1, || {
        let steps = 2 * load_config(&copy).unwrap().run.steps;
        let mut run = Run::resume(&copy, &named_task, Some(steps)).unwrap_or_else(|e| panic!("{name}: {e}"));
        run.train(&mut |_, _| ControlFlow::Continue(())).unwrap();
    });
    hashes(&copy)
}

#[test]
fn runs_of_version_1_resume_to_what_they_would_have_come_to() {
    let path = folder().join("resumed.toml");
    let found: BTreeMap<String, (String, String)> = runs().into_iter().map(|n| (n.clone(), resumed(&n))).collect();
    assert!(found.len() >= 19, "{} runs", found.len());
    if std::env::var_os("P3O_GOLDEN").is_some_and(|word| word == "record") {
        let line = |(name, (p, c)): (&String, &(String, String))| format!("{name} = [\"{p}\", \"{c}\"]\n");
        let head = "# Hashes of parameters and columns after twice the steps, by the program that made the runs.\n";
        std::fs::write(&path, head.to_string() + &found.iter().map(line).collect::<String>()).unwrap();
        return;
    }
    let recorded: BTreeMap<String, (String, String)> =
        toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let wrong: Vec<&String> =
        found.iter().filter(|(name, hashes)| recorded.get(*name) != Some(hashes)).map(|x| x.0).collect();
    assert!(wrong.is_empty(), "{wrong:?} differ");
}

/// Made by version 0.2.0, whose checkpoints have format 4 and whose progress.csv has no checks; so were the hashes, of the same
/// run taken to 1,600 steps.
#[test]
fn a_run_of_format_4_resumes_to_what_it_would_have_come_to() {
    let home = tempfile::tempdir().unwrap();
    let copy = home.path().join("run");
    copy_folder(&folder().with_file_name("format-4").join("p3o-PointGoal"), &copy);
    assert_eq!(p3o::RunFolder::open(&copy).unwrap().digest(), None);
    on_threads(1, || {
        let mut run = Run::resume(&copy, &named_task, Some(1600)).unwrap();
        run.train(&mut |_, _| ControlFlow::Continue(())).unwrap();
    });
    assert_eq!(hashes(&copy), ("350aa49de4018ec4".to_string(), "fc1a86046b2fbcb2".to_string()));
    assert!(p3o::RunFolder::open(&copy).unwrap().digest().is_some());
}

/// Made by the program whose checkpoints had format 5, in which the normaliser was a byte tensor; so were the hashes, of the
/// same runs taken to 1,600 steps.
#[test]
fn runs_of_format_5_resume_to_what_they_would_have_come_to() {
    for (name, parameters, columns) in [
        ("p3o-PointCircle", "1c4acf9652b261ed", "1a0bfcfff3ec73d8"),
        ("map3o-dec-SimpleSpread", "00f083dfba152e24", "99e02f3bc201e290"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let copy = home.path().join("run");
        copy_folder(&folder().with_file_name("format-5").join(name), &copy);
        let agent = p3o::Agent::load(&copy).unwrap();
        assert!(agent.digest().is_some(), "{name}: the digest of format 5 counts");
        assert!(agent.normalizer(0).affine().0.iter().any(|shift| *shift != 0.0), "{name}: it has seen nothing");
        on_threads(1, || {
            let mut run = Run::resume(&copy, &named_task, Some(1600)).unwrap();
            run.train(&mut |_, _| ControlFlow::Continue(())).unwrap();
        });
        assert_eq!(hashes(&copy), (parameters.to_string(), columns.to_string()), "{name}");
    }
}
