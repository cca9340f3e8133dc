//! Sums over the parts of a batch.
//!
//! A pass cuts a batch into at most [`MAX_PARTS`] parts, sums the gradient of each apart, and adds these sums in an
//! order that the number of parts alone decides. So the result has the same bits on any number of threads. Sums over
//! several processes will enter here too: each process would sum its own parts, and the additions between parts would
//! cross processes in the same order.

use crate::buffer::Buffer;
use crate::kernels::Kernels;
use crate::matrix;
use crate::real::Real;
use std::ops::Range;

/// The most parts of a batch, whatever the number of threads.
pub const MAX_PARTS: usize = 16;

/// The parts of a batch of `count` tiles or blocks.
pub(crate) fn parts(count: usize) -> usize {
    count.min(MAX_PARTS)
}

/// The tiles or blocks of one part.
pub(crate) fn part(count: usize, part: usize) -> Range<usize> {
    let parts = parts(count);
    part * count / parts..(part + 1) * count / parts
}

/// Runs `run(part, gradient, sum)` for every part and leaves the sum of all gradients in the first one. The entries of
/// `sums` stay apart.
pub(crate) fn sum_parts<E: Real, A: Send>(
    kernels: &Kernels<E>,
    gradients: &mut [Buffer<E>],
    sums: &mut [A],
    run: &(impl Fn(usize, &mut Buffer<E>, &mut A) + Sync),
) {
    sum_from(kernels, 0, gradients, sums, run);
}

/// The parts from `first` on: both halves in parallel, then the second half's sum is added to the first's.
fn sum_from<E: Real, A: Send>(
    kernels: &Kernels<E>,
    first: usize,
    gradients: &mut [Buffer<E>],
    sums: &mut [A],
    run: &(impl Fn(usize, &mut Buffer<E>, &mut A) + Sync),
) {
    if let [gradient] = gradients {
        run(first, gradient, &mut sums[0]);
        return;
    }
    let half = gradients.len() / 2;
    let (left, right) = gradients.split_at_mut(half);
    let (left_sums, right_sums) = sums.split_at_mut(half);
    rayon::join(
        || sum_from(kernels, first, left, left_sums, run),
        || sum_from(kernels, first + half, right, right_sums, run),
    );
    matrix::add(kernels, &mut left[0], &right[0]);
}
