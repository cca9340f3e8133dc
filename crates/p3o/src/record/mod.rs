//! What a run leaves on disk, and the statistics read back from it.
//!
//! Every write here either leaves whole records behind or reports an error that names the file; nothing in this
//! module knows about training, policies or environments.

mod append;
mod atomic;
mod csv;
pub(crate) mod protobuf;
mod read;
mod runlock;
mod stats;
mod tensorboard;

pub use atomic::{create_folder, write_atomic, write_keeping};
pub use csv::{MOST_BYTES as MOST_TABLE, ProgressCsv, Table, has_checks, parse_progress};
pub use p3o_env::fnv1a;
pub use read::{read_file, read_text, read_text_stream};
pub use runlock::RunLock;
pub use stats::Summary;
pub use tensorboard::EventWriter;
