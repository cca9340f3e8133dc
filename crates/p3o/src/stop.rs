//! A request to stop, which anyone may make at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether training should stop. All clones are one request.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Makes the request.
    pub fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it has been made.
    pub fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
