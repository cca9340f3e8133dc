//! The threads that compute for Python.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex, PoisonError};

/// The pool and the process that it belongs to.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// A pool of as many threads as there are cores, the same one in all of a process. A forked process has none of its
/// parent's threads and gets a pool of its own.
pub fn pool() -> Result<Arc<ThreadPool>, String> {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((owner, pool)) = &*pool
        && *owner == process
    {
        return Ok(Arc::clone(pool));
    }
    let threads = ThreadPoolBuilder::new().thread_name(|i| format!("p3o {i}")).build();
    let threads = Arc::new(threads.map_err(|e| format!("cannot start threads: {e}"))?);
    let parents = pool.replace((process, Arc::clone(&threads)));
    // It would wait for threads that are not in this process.
    std::mem::forget(parents);
    Ok(threads)
}
