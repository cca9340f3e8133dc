//! Scratch space of passes over a batch.

use crate::buffer::Buffer;
use crate::real::Real;
use crate::reduce::Peers;
use std::sync::{Arc, Mutex};

/// Scratch space for passes over a batch: a step workspace `W` for each thread and a gradient for each part of the batch.
pub struct PassBuffers<E, W> {
    /// Each is only ever locked by its own thread, so that it stays in that core's cache.
    per_thread: Vec<Mutex<W>>,
    gradients: Vec<Buffer<E>>,
    /// Who shares the passes.
    peers: Option<Arc<dyn Peers>>,
}

const POISONED: &str = "a panic in another thread has ended the pass already";

impl<E: Real, W> PassBuffers<E, W> {
    /// For one thread so far, and gradients of `params` numbers for up to `parts` parts.
    pub(crate) fn new(step: W, parts: usize, params: usize) -> Self {
        let gradients = (0..parts.max(1)).map(|_| Buffer::zeros(params)).collect();
        PassBuffers { per_thread: vec![Mutex::new(step)], gradients, peers: None }
    }

    /// The gradient of the last pass, summed over the batch, in the order of the network's parameters.
    pub fn gradient(&self) -> &[E] {
        &self.gradients[0]
    }

    /// Lets processes that hold the same batch share the passes from here on, or none.
    pub fn share(&mut self, peers: Option<Arc<dyn Peers>>) {
        self.peers = peers;
    }

    /// Gives every thread of the current pool a step workspace that `new` makes and `prepare` makes ready.
    pub(crate) fn prepare(&mut self, new: impl Fn() -> W, prepare: impl Fn(&mut W)) {
        while self.per_thread.len() < rayon::current_num_threads() {
            self.per_thread.push(Mutex::new(new()));
        }
        self.per_thread.iter_mut().for_each(|step| prepare(step.get_mut().expect(POISONED)));
    }

    /// The step workspaces of all threads, the gradients of so many parts, and who shares them.
    pub(crate) fn split(&mut self, parts: usize) -> (PerThread<'_, W>, &mut [Buffer<E>], Option<&dyn Peers>) {
        let params = self.gradients[0].len();
        while self.gradients.len() < parts {
            self.gradients.push(Buffer::zeros(params));
        }
        (PerThread(&self.per_thread), &mut self.gradients[..parts], self.peers.as_deref())
    }

    /// The step workspaces of all threads.
    pub(crate) fn per_thread(&self) -> PerThread<'_, W> {
        PerThread(&self.per_thread)
    }
}

/// The step workspaces of all threads.
pub(crate) struct PerThread<'a, W>(&'a [Mutex<W>]);

impl<W> PerThread<'_, W> {
    /// Runs `f` on the calling thread's step workspace.
    pub fn with_own<R>(&self, f: impl FnOnce(&mut W) -> R) -> R {
        let own = rayon::current_thread_index().unwrap_or(0);
        f(&mut self.0[own].lock().expect(POISONED))
    }
}
