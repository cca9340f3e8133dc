//! What the fuzz targets in `fuzz/` expect of any bytes holds for every input that has been worth keeping.

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

fn all_of(target: &str, function: fn(&[u8])) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut inputs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    assert!(inputs.len() > 3, "{target} has a corpus");
    for path in inputs {
        let input = std::fs::read(&path).unwrap();
        let held = std::panic::catch_unwind(|| function(&input));
        assert!(held.is_ok(), "{}", path.display());
    }
}

#[test]
fn any_checkpoint_is_loaded_or_refused() {
    all_of("checkpoint", targets::checkpoint);
}

#[test]
fn any_config_is_read_or_refused() {
    all_of("config", targets::config);
}

#[test]
fn any_table_is_continued_or_refused() {
    all_of("progress", targets::progress);
}

#[test]
fn any_snapshot_is_restored_or_refused() {
    all_of("snapshot", targets::snapshot);
}

#[test]
fn any_change_is_made_or_refused() {
    all_of("set", targets::set);
}
