//! What must hold for any bytes: each function takes an input and panics where something does not hold. The fuzz targets call
//! them with inputs that libFuzzer makes up, the tests of the crate `p3o` with those in `corpus/`.

mod altered;
mod checkpoint;
mod text;
mod worlds;

pub use checkpoint::checkpoint;
pub use text::{config, progress, set};
pub use worlds::snapshot;

/// An error's text must be one line, and move no cursor.
fn one_line(error: impl std::fmt::Display) {
    let text = error.to_string();
    assert!(!text.trim().is_empty() && !text.contains(char::is_control), "not one line: {text:?}");
}
