//! Symmetric matrices over the degrees of freedom of a tree.
//!
//! Entry (i, j) of a mass matrix is zero unless one of i and j moves the other. So row i is kept as its entries along the way
//! from the root to i: the row of an ancestor is as long as the ancestor is deep, and its entries are for the same degrees
//! of freedom as the first ones of row i. Eliminating from the leaves to the root fills in nothing.

#![expect(clippy::needless_range_loop, reason = "several arrays share each index, as in the formulas")]

use crate::physics::lanes::Two;

/// Which degree of freedom moves which.
#[derive(Clone, Debug)]
pub(super) struct Tree<const N: usize, const D: usize> {
    /// How many ancestors each has.
    pub depth: [usize; N],
    /// Its ancestors from the root on, and itself; what follows is not read.
    pub chain: [[usize; D]; N],
    runs: Vec<Run>,
}

/// Degrees of freedom of which each moves the next. The first hangs on one of the trunk, which comes before all others.
#[derive(Clone, Debug)]
struct Run {
    start: usize,
    end: usize,
    /// How many ancestors the first has: all of the trunk up to there.
    fork: usize,
}

impl<const N: usize, const D: usize> Tree<N, D> {
    /// From the parent of each, which is a lower number.
    pub fn new(parents: &[Option<usize>]) -> Tree<N, D> {
        const { assert!(D <= 8 || D.is_multiple_of(4), "long rows are taken in fours") };
        let mut tree = Tree { depth: [0; N], chain: [[0; D]; N], runs: Vec::new() };
        for (i, parent) in parents.iter().enumerate() {
            if let Some(parent) = *parent {
                tree.depth[i] = tree.depth[parent] + 1;
                tree.chain[i] = tree.chain[parent];
            }
            tree.chain[i][tree.depth[i]] = i;
            let fork = tree.depth[i];
            match tree.runs.last_mut() {
                Some(run) if *parent == Some(run.end - 1) => run.end += 1,
                _ => {
                    let is_trunk = tree.chain[i][..fork].iter().enumerate().all(|(k, dof)| *dof == k);
                    assert!(is_trunk, "limbs branch off a trunk, not off each other");
                    tree.runs.push(Run { start: i, end: i + 1, fork });
                }
            }
        }
        tree
    }
}

/// A matrix of the tree: row i along `chain[i]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<const N: usize, const D: usize>(pub [[f64; D]; N]);

impl<const N: usize, const D: usize> Rows<N, D> {
    pub fn zero() -> Rows<N, D> {
        Rows([[0.0; D]; N])
    }

    pub fn times(&self, tree: &Tree<N, D>, x: &[f64; N]) -> [f64; N] {
        let mut y = [0.0; N];
        for i in 0..N {
            let (row, chain, depth) = (&self.0[i], &tree.chain[i], tree.depth[i]);
            let mut sum = row[depth] * x[i];
            for k in 0..depth {
                sum += row[k] * x[chain[k]];
                y[chain[k]] += row[k] * x[i];
            }
            y[i] += sum;
        }
        y
    }

    /// The x of `self * x = right`; the matrix is used up.
    pub fn solve(&mut self, tree: &Tree<N, D>, right: &[f64; N]) -> [f64; N] {
        let mut x = *right;
        let mut inverse = [0.0; N];
        for run in tree.runs.iter().rev() {
            let mut end = run.end;
            while end > run.start + 1 {
                end -= 2;
                self.eliminate_two(run, end, &mut x, &mut inverse);
            }
            if end > run.start {
                self.eliminate_first(run, &mut x, &mut inverse);
            }
        }
        for run in &tree.runs {
            for i in run.start..run.end {
                let (row, inverse) = (&self.0[i], inverse[i]);
                let mut sum = x[i] * inverse;
                for k in 0..run.fork {
                    sum -= row[k] * inverse * x[k];
                }
                for (k, j) in (run.fork..).zip(run.start..i) {
                    sum -= row[k] * inverse * x[j];
                }
                x[i] = sum;
            }
        }
        x
    }

    /// Eliminates the first of a run.
    #[inline(always)]
    fn eliminate_first(&mut self, run: &Run, x: &mut [f64; N], inverse: &mut [f64; N]) {
        let i = run.start;
        let (above, row) = self.0.split_at_mut(i);
        let (row, own) = (&row[0], x[i]);
        inverse[i] = 1.0 / row[run.fork];
        for (k, above) in above[..run.fork].iter_mut().enumerate() {
            let f = row[k] * inverse[i];
            add_row(above, k, -f, row);
            x[k] -= f * own;
        }
    }

    /// Eliminates p and p + 1 of a run at once: the rows above are read and written once.
    #[inline(always)]
    fn eliminate_two(&mut self, run: &Run, p: usize, x: &mut [f64; N], inverse: &mut [f64; N]) {
        let top = run.fork + p - run.start;
        let (above, rows) = self.0.split_at_mut(p);
        let [second, first, ..] = rows else { unreachable!("there are two") };
        inverse[p + 1] = 1.0 / first[top + 1];
        let factor = first[top] * inverse[p + 1];
        add_row(second, top, -factor, first);
        inverse[p] = 1.0 / second[top];
        let own = x[p + 1];
        x[p] -= factor * own;
        let (parents, inverses) = (x[p], [inverse[p + 1], inverse[p]]);
        let (trunk, limb) = above.split_at_mut(run.start);
        let subtract = |k: usize, above: &mut [f64; D], x: &mut f64| {
            let (f, g) = (first[k] * inverses[0], second[k] * inverses[1]);
            add_rows(above, k, [-f, -g], [first, second]);
            *x = *x - f * own - g * parents;
        };
        for (k, above) in trunk[..run.fork].iter_mut().enumerate() {
            subtract(k, above, &mut x[k]);
        }
        for (i, above) in limb.iter_mut().enumerate() {
            subtract(run.fork + i, above, &mut x[run.start + i]);
        }
    }
}

/// `row += factor other` up to entry `last`, and maybe beyond: there, rows hold nothing that is read, and whole rows or fours of
/// entries are faster.
#[inline(always)]
pub(super) fn add_row<const D: usize>(row: &mut [f64; D], last: usize, factor: f64, other: &[f64; D]) {
    let f = Two::both(factor);
    let add = |pair: &mut [f64; 2], other: &[f64; 2]| *pair = (Two::new(*pair) + f * Two::new(*other)).numbers();
    if D <= 8 {
        let ((pairs, rest), (others, last)) = (row.as_chunks_mut(), other.as_chunks());
        for (pair, other) in pairs.iter_mut().zip(others) {
            add(pair, other);
        }
        for (row, other) in rest.iter_mut().zip(last) {
            *row += factor * other;
        }
    } else {
        let (fours, others) = (row.as_chunks_mut::<4>().0, other.as_chunks::<4>().0);
        for (four, other) in fours.iter_mut().zip(others).take(last / 4 + 1) {
            for (pair, other) in four.as_chunks_mut().0.iter_mut().zip(other.as_chunks().0) {
                add(pair, other);
            }
        }
    }
}

/// The same for two others, one after the other.
#[inline(always)]
fn add_rows<const D: usize>(row: &mut [f64; D], last: usize, factors: [f64; 2], others: [&[f64; D]; 2]) {
    let [f, g] = factors.map(Two::both);
    let add = |pair: &mut [f64; 2], one: &[f64; 2], two: &[f64; 2]| {
        *pair = (Two::new(*pair) + f * Two::new(*one) + g * Two::new(*two)).numbers();
    };
    if D <= 8 {
        let (pairs, rest) = row.as_chunks_mut();
        let [(ones, last_one), (twos, last_two)] = others.map(|other| other.as_chunks());
        for (pair, (one, two)) in pairs.iter_mut().zip(ones.iter().zip(twos)) {
            add(pair, one, two);
        }
        for (row, (one, two)) in rest.iter_mut().zip(last_one.iter().zip(last_two)) {
            *row = *row + factors[0] * one + factors[1] * two;
        }
    } else {
        let fours = row.as_chunks_mut::<4>().0;
        let [ones, twos] = others.map(|other| other.as_chunks::<4>().0);
        for (four, (one, two)) in fours.iter_mut().zip(ones.iter().zip(twos)).take(last / 4 + 1) {
            let others = one.as_chunks().0.iter().zip(two.as_chunks().0);
            for (pair, (one, two)) in four.as_chunks_mut().0.iter_mut().zip(others) {
                add(pair, one, two);
            }
        }
    }
}

/// A symmetric matrix without any structure; only the lower triangle is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full<const N: usize>(pub [[f64; N]; N]);

impl<const N: usize> Full<N> {
    pub fn of<const D: usize>(rows: &Rows<N, D>, tree: &Tree<N, D>) -> Full<N> {
        let mut full = Full([[0.0; N]; N]);
        for i in 0..N {
            for k in 0..=tree.depth[i] {
                full.0[i][tree.chain[i][k]] = rows.0[i][k];
            }
        }
        full
    }

    /// The x of `self * x = right`; the matrix is used up.
    pub fn solve(&mut self, right: &[f64; N]) -> [f64; N] {
        let mut x = *right;
        let mut inverse = [0.0; N];
        for i in (0..N).rev() {
            let mut row = self.0[i];
            inverse[i] = 1.0 / row[i];
            for k in (0..i).rev() {
                if row[k] == 0.0 {
                    continue;
                }
                let factor = row[k] * inverse[i];
                for l in 0..=k {
                    self.0[k][l] -= factor * row[l];
                }
                x[k] -= factor * x[i];
                row[k] = factor;
            }
            self.0[i] = row;
        }
        for i in 0..N {
            let mut sum = x[i] * inverse[i];
            for k in 0..i {
                sum -= self.0[i][k] * x[k];
            }
            x[i] = sum;
        }
        x
    }
}
