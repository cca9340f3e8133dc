//! The one place where totals over a batch are formed from parts.
//!
//! The parts are fixed by the batch, not by threads or processes: an environment's steps for tallies and for the normaliser's
//! moments, at most sixteen runs of rows for the sums of a pass (and, in `p3o_nn::reduce`, for gradients). They are merged in
//! their order, so that the same batch gives the same bits however the work was shared out. Where a batch is spread over
//! several processes, their parts are brought together here.

/// A part of a total.
pub trait Part: Sized {
    /// Takes in the part that follows.
    fn merge(&mut self, next: Self);
}

impl Part for f64 {
    fn merge(&mut self, next: f64) {
        *self += next;
    }
}

/// Merges parts into a total, in their order.
pub fn reduce<P: Part>(mut total: P, parts: impl IntoIterator<Item = P>) -> P {
    parts.into_iter().for_each(|part| total.merge(part));
    total
}
