//! Sums over the parts of a batch.
//!
//! A pass cuts a batch into parts, sums the gradient of each apart, and adds these sums along a binary tree that the number of
//! parts alone decides. So the result has the same bits on any number of threads, and of processes: where several share a pass
//! ([`Peers`]), they are halved like the parts at every node of the tree, and a sum that the other half has crosses over. A node
//! with one process is summed by its threads; a single part with several processes is computed by each of them.

use crate::buffer::Buffer;
use crate::kernels::Kernels;
use crate::matrix;
use crate::real::Real;
use std::ops::Range;

/// The most parts of a batch of ordinary size, whatever the number of threads.
pub const MAX_PARTS: usize = 16;
/// Tiles or blocks of a part, at least, where there are more parts.
const LARGE_PART: usize = 64;
/// The most parts of any batch: each has a gradient of its own.
const MOST_PARTS: usize = 1024;

/// Processes that share the passes over a batch which each of them holds. What goes wrong between them is theirs to tell: an
/// exchange that fails leaves numbers that are not finite.
pub trait Peers: Send + Sync {
    /// This process's number, from 0.
    fn rank(&self) -> usize;

    /// How many processes there are.
    fn size(&self) -> usize;

    /// Sends `bytes` to some processes and fills `into` with what one sends.
    fn exchange(&self, bytes: &[u8], to: &[usize], into: &mut [u8], from: Option<usize>);
}

/// The parts of a batch of `count` tiles or blocks.
pub fn parts(count: usize) -> usize {
    count.min(MAX_PARTS.max(count / LARGE_PART)).min(MOST_PARTS)
}

/// The tiles or blocks of one part.
pub(crate) fn part(count: usize, part: usize) -> Range<usize> {
    let parts = parts(count);
    part * count / parts..(part + 1) * count / parts
}

/// Which of so many parts a process computes, of so many processes.
pub fn parts_of(rank: usize, size: usize, parts: usize) -> Range<usize> {
    let (mut node, mut ranks) = (0..parts, 0..size);
    while node.len() > 1 && ranks.len() > 1 {
        let (middle, half) = (node.start + node.len() / 2, ranks.start + ranks.len() / 2);
        (node, ranks) =
            if rank < half { (node.start..middle, ranks.start..half) } else { (middle..node.end, half..ranks.end) };
    }
    node
}

/// Runs `run(part, gradient, sum)` for every part and leaves the sum of all gradients in the first one. The entries of
/// `sums` stay apart; with `peers`, only those of [`parts_of`] this process are filled.
pub(crate) fn sum_parts<E: Real, A: Send>(
    kernels: &Kernels<E>,
    peers: Option<&dyn Peers>,
    gradients: &mut [Buffer<E>],
    sums: &mut [A],
    run: &(impl Fn(usize, &mut Buffer<E>, &mut A) + Sync),
) {
    match peers {
        Some(peers) => sum_between(kernels, (peers, 0..peers.size()), 0, gradients, sums, run),
        None => sum_from(kernels, 0, gradients, sums, run),
    }
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

/// The same by some processes, of which this is one.
fn sum_between<E: Real, A: Send>(
    kernels: &Kernels<E>,
    (peers, ranks): (&dyn Peers, Range<usize>),
    first: usize,
    gradients: &mut [Buffer<E>],
    sums: &mut [A],
    run: &(impl Fn(usize, &mut Buffer<E>, &mut A) + Sync),
) {
    if gradients.len() == 1 || ranks.len() == 1 {
        return sum_from(kernels, first, gradients, sums, run);
    }
    let (half, middle) = (gradients.len() / 2, ranks.start + ranks.len() / 2);
    let (left, right) = gradients.split_at_mut(half);
    let (left_sums, right_sums) = sums.split_at_mut(half);
    // The right side has as many processes as the left one, or one more, which gets its sum from the left one's last.
    let (me, odd) = (peers.rank(), (ranks.len() % 2 == 1).then_some(ranks.end - 1));
    if me < middle {
        let opposite = me - ranks.start + middle;
        let to = [Some(opposite), odd.filter(|odd| opposite + 1 == *odd)];
        let to: Vec<usize> = to.into_iter().flatten().collect();
        sum_between(kernels, (peers, ranks.start..middle), first, left, left_sums, run);
        peers.exchange(bytemuck::cast_slice(&left[0]), &to, bytemuck::cast_slice_mut(&mut right[0]), Some(opposite));
    } else {
        let opposite = me - middle + ranks.start;
        let (to, from) = if odd == Some(me) { (&[][..], opposite - 1) } else { (&[opposite][..], opposite) };
        sum_between(kernels, (peers, middle..ranks.end), first + half, right, right_sums, run);
        peers.exchange(bytemuck::cast_slice(&right[0]), to, bytemuck::cast_slice_mut(&mut left[0]), Some(from));
    }
    matrix::add(kernels, &mut left[0], &right[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_have_all_parts_between_them() {
        for (size, parts) in [(1, 16), (2, 16), (3, 16), (4, 16), (16, 16), (5, 3), (40, 16), (7, 1), (1000, 1024)] {
            let all: Vec<Range<usize>> = (0..size).map(|rank| parts_of(rank, size, parts)).collect();
            // Neighbours have the same part or follow one another.
            let follow = |pair: &[Range<usize>]| pair[0] == pair[1] || pair[0].end == pair[1].start;
            assert!(all.windows(2).all(follow), "{size} processes, {parts} parts: {all:?}");
            assert_eq!((all[0].start, all[size - 1].end), (0, parts));
        }
        let four: Vec<Range<usize>> = (0..4).map(|rank| parts_of(rank, 4, 16)).collect();
        assert_eq!(four, [0..4, 4..8, 8..12, 12..16]);
    }

    #[test]
    fn ordinary_batches_have_sixteen_parts_and_giant_ones_more() {
        // Up to 16 * 64 tiles, 122,880 rows, nothing changes.
        let found = [1, 15, 16, 17, 1024, 1087, 1088, 64_000, 65_536, 1_000_000].map(parts);
        assert_eq!(found, [1, 15, 16, 16, 16, 16, 17, 1000, 1024, 1024]);
    }
}
