//! Text that people write: settings and tables.

use super::one_line;
use p3o::config::{Resolved, make_env};
use p3o::record::{ProgressCsv, Table};
use p3o::{Config, Method, Request};
use std::path::Path;

/// Written and read again, settings are the same.
fn survives(config: &Config) {
    let text = config.to_toml();
    let again = Config::from_toml(&text).unwrap_or_else(|e| panic!("its own text is refused: {e}\n{text}"));
    assert_eq!(again.to_toml(), text);
    assert_eq!(again.method(), config.method());
}

/// Any text as a config.toml: refused in one line, or settings that survive being written.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let config = match Config::from_toml(text) {
        Ok(config) => config,
        Err(error) => return one_line(error),
    };
    survives(&config);
    match make_env(config.method(), &config.task, &config.env) {
        Ok(env) => match config.check(env.spec()) {
            Ok(()) => assert!(config.updates() > 0 && config.env_steps() > 0),
            Err(error) => one_line(error),
        },
        Err(error) => one_line(error),
    }
}

/// Task, method and preset in the first line, then a change in each: a setting, or a limit after the word `limit`. Refused in one
/// line, or settings that are valid and survive being written.
pub fn set(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.split('\n');
    let mut words = lines.next().unwrap_or_default().split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (task, method, preset) = (word(), word(), word());
    let method = match Method::named(method) {
        Ok(method) => method,
        Err(error) => return one_line(error),
    };
    let mut request = Request { preset: preset.to_string(), ..Request::new(task, method) };
    for line in lines {
        match line.strip_prefix("limit ") {
            Some(limit) => request.limits.push(limit.to_string()),
            None => request.set.push(line.to_string()),
        }
    }
    let Resolved { config, .. } = match request.resolve() {
        Ok(resolved) => resolved,
        Err(error) => return one_line(error),
    };
    survives(&config);
    let env = make_env(config.method(), &config.task, &config.env).expect("it was made to resolve the request");
    config.check(env.spec()).expect("what is resolved is valid");
    assert!(config.updates() > 0 && config.env_steps() > 0);
}

/// Any bytes as a progress.csv, bare and then with the checks that they need: refused, or a table that stays as it is when it
/// is continued.
pub fn progress(data: &[u8]) {
    let file = tempfile::NamedTempFile::new().expect("there is room for temporary files");
    let path = file.path();
    std::fs::write(path, data).expect("there is room for temporary files");
    let before = match ProgressCsv::read(path).or_else(|error| resealed(path, error)) {
        Ok(table) => table,
        Err(error) => return one_line(error),
    };
    let row = |table: &Table| vec![-0.1; table.columns.len()];
    match continued(path, &before).and_then(|mut csv| csv.append(&row(&before))) {
        Ok(()) => {}
        Err(error) => return one_line(error),
    }
    let after = ProgressCsv::read(path).expect("a table that was continued can be read");
    let bits = |rows: &[Vec<f64>]| -> Vec<Vec<u64>> {
        let bits = |x: &f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
        rows.iter().map(|row| row.iter().map(bits).collect()).collect()
    };
    assert_eq!(after.columns, before.columns);
    assert_eq!(bits(&after.rows), bits(&[before.rows.clone(), vec![row(&before)]].concat()));
}

/// What is refused as it is may be right but for its checks.
fn resealed(path: &Path, error: std::io::Error) -> std::io::Result<Table> {
    one_line(error);
    ProgressCsv::reseal(path)?;
    Ok(ProgressCsv::read(path).expect("its checks are right now"))
}

fn continued(path: &Path, table: &Table) -> std::io::Result<ProgressCsv> {
    ProgressCsv::reopen(path, &table.columns, &[], table.rows.len())
}
