//! What can go wrong, each in one clear line.

use std::path::PathBuf;

/// A setting that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    /// With its one line.
    pub fn new(line: String) -> Self {
        ConfigError(line)
    }
}

/// Why a run did not start or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A task that cannot be made.
    #[error(transparent)]
    Task(#[from] p3o_env::TaskError),
    /// A number that is infinite or NaN where training needs a finite one.
    #[error("update {update}: {what}; training stopped, the last checkpoint is intact")]
    NonFinite {
        /// The update in which it appeared.
        update: u64,
        /// Where it appeared.
        what: String,
    },
    /// A file that could not be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A checkpoint that is damaged or belongs to something else.
    #[error("{}: {reason}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A folder that is not what the command needs.
    #[error("{0}")]
    Folder(String),
}

/// "; did you mean `x`?" for the nearest of `names`, or nothing when none is near.
pub fn suggest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let lower = wrong.to_lowercase();
    names
        .into_iter()
        .map(|n| (strsim::jaro_winkler(&lower, &n.to_lowercase()), n))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(String::new(), |(_, n)| format!("; did you mean `{n}`?"))
}
