//! A few of the attacks of `tools/storm`, which has more of them and more patience.

#![cfg(unix)]

use storm::{Program, Storm, cases, kills};

fn storm(home: &std::path::Path, program: &str) -> Storm {
    Storm { program: Program(program.into()), home: home.to_path_buf(), seed: 1, jobs: 2 }
}

#[test]
fn runs_killed_at_random_moments_end_as_if_they_had_not_been() {
    let home = tempfile::tempdir().unwrap();
    let report = kills::attack(&storm(home.path(), env!("CARGO_BIN_EXE_p3o")), &cases(), 12, &|_| {}).unwrap();
    let found: Vec<String> = report.findings.iter().map(|finding| finding.what.clone()).collect();
    assert_eq!(found, [""; 0]);
    assert!(report.kills >= 12 && report.finished > 0, "{report:?}");
}

#[test]
fn a_program_that_does_not_train_is_found_out() {
    let home = tempfile::tempdir().unwrap();
    let finding = kills::attack(&storm(home.path(), "false"), &cases(), 1, &|_| {}).unwrap_err();
    assert!(finding.what.contains("it failed"), "{finding}");
}
