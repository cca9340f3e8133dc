//! Symmetric matrices over the degrees of freedom of a tree.
//!
//! Entry (i, j) of a mass matrix is zero unless one of i and j moves the other. So row i is kept as its entries along the way
//! from the root to i: the row of an ancestor is as long as the ancestor is deep, and its entries are for the same degrees
//! of freedom as the first ones of row i. Eliminating from the leaves to the root fills in nothing.

#![expect(clippy::needless_range_loop, reason = "several arrays share each index, as in the formulas")]

/// Which degree of freedom moves which.
#[derive(Clone, Debug)]
pub(super) struct Tree<const N: usize, const D: usize> {
    /// How many ancestors each has.
    pub depth: [usize; N],
    /// Its ancestors from the root on, and itself; what follows is not read.
    pub chain: [[usize; D]; N],
}

impl<const N: usize, const D: usize> Tree<N, D> {
    /// From the parent of each, which is a lower number.
    pub fn new(parents: &[Option<usize>]) -> Tree<N, D> {
        const { assert!(D <= 8 || D % 4 == 0, "long rows are taken in fours") };
        let mut tree = Tree { depth: [0; N], chain: [[0; D]; N] };
        for (i, parent) in parents.iter().enumerate() {
            if let Some(parent) = *parent {
                tree.depth[i] = tree.depth[parent] + 1;
                tree.chain[i] = tree.chain[parent];
            }
            tree.chain[i][tree.depth[i]] = i;
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
        for i in (0..N).rev() {
            let (row, chain, depth) = (self.0[i], &tree.chain[i], tree.depth[i]);
            inverse[i] = 1.0 / row[depth];
            let mut factors = [0.0; D];
            for k in (0..depth).rev() {
                let factor = row[k] * inverse[i];
                let above = &mut self.0[chain[k]];
                // Beyond entry k the row above has nothing that is read: whole rows or fours are as good and faster.
                if D <= 8 {
                    for l in 0..D {
                        above[l] -= factor * row[l];
                    }
                } else {
                    for (above, row) in above.chunks_exact_mut(4).zip(row.chunks_exact(4)).take(k / 4 + 1) {
                        for (above, row) in above.iter_mut().zip(row) {
                            *above -= factor * row;
                        }
                    }
                }
                x[chain[k]] -= factor * x[i];
                factors[k] = factor;
            }
            self.0[i] = factors;
        }
        for i in 0..N {
            let (row, chain) = (&self.0[i], &tree.chain[i]);
            let mut sum = x[i] * inverse[i];
            for k in 0..tree.depth[i] {
                sum -= row[k] * x[chain[k]];
            }
            x[i] = sum;
        }
        x
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
