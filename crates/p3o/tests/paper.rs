//! PAPER.md points at what exists, and docs/progress.md explains what is written.

use crate::util::{small_task, task_of};
use p3o::record::ProgressCsv;
use p3o::run::named_task;
use p3o::{Method, Run};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// The spans between single backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Why `path::name` leads nowhere, if it does.
fn dangling(root: &Path, reference: &str) -> Option<String> {
    let (path, name) = reference.split_once("::")?;
    let Ok(source) = std::fs::read_to_string(root.join(path)) else {
        return Some(format!("`{reference}`: there is no file {path}"));
    };
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let defined = source
        .match_indices(&format!("fn {name}"))
        .any(|(at, found)| !source[at + found.len()..].starts_with(word) && !source[..at].ends_with(word));
    (!defined).then(|| format!("`{reference}`: {path} has no `fn {name}`"))
}

#[test]
fn every_function_and_test_that_the_table_names_exists() {
    let root = root();
    let text = std::fs::read_to_string(root.join("PAPER.md")).expect("PAPER.md lies beside Cargo.toml");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|') && line.contains("::")).collect();
    assert!(rows.len() >= 10, "only {} rows name a function", rows.len());
    for row in rows {
        let references: Vec<&str> = quoted(row).filter(|q| q.contains("::")).collect();
        let (code, tests): (Vec<&str>, Vec<&str>) = references.iter().partition(|r| r.contains("/src/"));
        assert!(!code.is_empty(), "no function in: {row}");
        assert!(tests.iter().any(|r| r.contains("/tests/")), "no test in: {row}");
        let wrong: Vec<String> = references.iter().filter_map(|r| dangling(&root, r)).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("; "));
    }
}

#[test]
fn every_column_of_progress_csv_is_explained() {
    let explained = std::fs::read_to_string(root().join("docs/progress.md")).unwrap();
    for method in Method::all() {
        let home = tempfile::tempdir().unwrap();
        let config = small_task(&method.to_string(), task_of(method), &[]);
        Run::start(config.clone(), &*named_task(&config).unwrap(), &home.path().join("run")).unwrap();
        let table = ProgressCsv::read(&home.path().join("run/progress.csv")).unwrap();
        for column in table.columns {
            let name = column.replace("hazards", "NAME").replace("collisions", "NAME");
            assert!(explained.contains(&format!("`{name}`")), "docs/progress.md does not explain {column} of {method}");
        }
    }
}

#[test]
fn a_wrong_name_in_the_table_would_be_noticed() {
    let root = root();
    let here = "crates/p3o/tests/paper.rs";
    assert_eq!(dangling(&root, &format!("{here}::dangling")), None);
    assert_eq!(dangling(&root, "no reference at all"), None);
    for wrong in ["dangl", "angling", "nowhere_to_be_found_here"].map(|name| format!("{here}::{name}")) {
        // The last of these names stands in this file, though not as a function.
        assert!(dangling(&root, &wrong).is_some_and(|line| line.contains("has no")), "{wrong}");
    }
    assert!(dangling(&root, "crates/p3o/src/nowhere.rs::loss").is_some_and(|line| line.contains("no file")));
}
