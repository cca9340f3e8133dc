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
        const { assert!(D <= 8 || D.is_multiple_of(4), "long rows are taken in fours") };
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
    ///
    /// Where a degree of freedom follows its parent, both are eliminated at once: the rows above are read and written once.
    pub fn solve(&mut self, tree: &Tree<N, D>, right: &[f64; N]) -> [f64; N] {
        let mut x = *right;
        let mut inverse = [0.0; N];
        let mut i = N;
        while i > 0 {
            i -= 1;
            let (chain, depth) = (&tree.chain[i], tree.depth[i]);
            let row = self.0[i];
            inverse[i] = 1.0 / row[depth];
            let own = x[i];
            let mut factors = [0.0; D];
            if depth == 0 || chain[depth - 1] + 1 != i {
                for k in 0..depth {
                    factors[k] = row[k] * inverse[i];
                    let above = &mut self.0[chain[k]];
                    add_row(above, k, -factors[k], &row);
                    x[chain[k]] -= factors[k] * own;
                }
                self.0[i] = factors;
                continue;
            }
            let (top, p) = (depth - 1, i - 1);
            let mut second = self.0[p];
            let factor = row[top] * inverse[i];
            add_row(&mut second, top, -factor, &row);
            factors[top] = factor;
            x[p] -= factor * own;
            inverse[p] = 1.0 / second[top];
            let parents = x[p];
            let mut second_factors = [0.0; D];
            for k in 0..top {
                let (f, g) = (row[k] * inverse[i], second[k] * inverse[p]);
                let above = &mut self.0[chain[k]];
                add_row(above, k, -f, &row);
                add_row(above, k, -g, &second);
                x[chain[k]] = x[chain[k]] - f * own - g * parents;
                (factors[k], second_factors[k]) = (f, g);
            }
            (self.0[i], self.0[p]) = (factors, second_factors);
            i = p;
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

/// `row += factor other` up to entry `last`, and maybe beyond: there, rows hold nothing that is read, and whole rows or fours of
/// entries are faster.
#[inline(always)]
pub(super) fn add_row<const D: usize>(row: &mut [f64; D], last: usize, factor: f64, other: &[f64; D]) {
    if D <= 8 {
        for l in 0..D {
            row[l] += factor * other[l];
        }
    } else {
        for (row, other) in row.chunks_exact_mut(4).zip(other.chunks_exact(4)).take(last / 4 + 1) {
            for l in 0..4 {
                row[l] += factor * other[l];
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
