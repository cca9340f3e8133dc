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
    /// How many of them are the first ones of the trunk, from 0 on, and which the others begin with: these rise by one up to itself.
    pub forks: [(usize, usize); N],
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
        let mut tree = Tree { depth: [0; N], chain: [[0; D]; N], forks: [(0, 0); N], runs: Vec::new() };
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
        for run in &tree.runs {
            tree.forks[run.start..run.end].fill((run.fork, run.start));
        }
        tree
    }
}

/// A matrix of the tree: row i along `chain[i]`.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
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
            let mut pivots = Pivots::of(&self.0[run.start..end], run.fork + end - run.start, |row, _, k| row[k]);
            while let Some(own) = pivots {
                end -= 2;
                pivots = self.eliminate_two(run, end, own, &mut x, &mut inverse);
            }
            if end > run.start {
                self.eliminate_first(run, &mut x, &mut inverse);
            }
        }
        if by_length::<D>() {
            self.substitute(tree, &inverse, &mut x);
            return x;
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

    /// Finds each x from those above it, two of them at a time. These are kept as pairs: a pair is slow to read where its halves have just
    /// been written.
    #[inline(always)]
    fn substitute(&self, tree: &Tree<N, D>, inverse: &[f64; N], x: &mut [f64; N]) {
        let mut trunk = [Two::default(); 8];
        for run in &tree.runs {
            let mut above = trunk;
            let mut last = above[run.fork / 2].numbers()[0];
            let own = run.start..run.end;
            let rows = self.0[own.clone()].iter().zip(&inverse[own.clone()]).zip(&mut x[own]);
            for (i, ((row, inverse), x)) in (run.fork..).zip(rows) {
                let mut sum = *x * inverse;
                sum = match i / 2 {
                    0 => sum,
                    1 => less::<D, 1>(sum, row, *inverse, &above),
                    2 => less::<D, 2>(sum, row, *inverse, &above),
                    3 => less::<D, 3>(sum, row, *inverse, &above),
                    4 => less::<D, 4>(sum, row, *inverse, &above),
                    5 => less::<D, 5>(sum, row, *inverse, &above),
                    6 => less::<D, 6>(sum, row, *inverse, &above),
                    _ => less::<D, 7>(sum, row, *inverse, &above),
                };
                if i % 2 == 1 {
                    sum -= row[i - 1] * inverse * last;
                    above[i / 2] = Two::new([last, sum]);
                }
                (last, *x) = (sum, sum);
            }
            if run.start == 0 {
                if run.end % 2 == 1 {
                    above[run.end / 2] = Two::both(last);
                }
                trunk = above;
            }
        }
    }

    /// Eliminates the first of a run.
    #[inline(always)]
    fn eliminate_first(&mut self, run: &Run, x: &mut [f64; N], inverse: &mut [f64; N]) {
        let i = run.start;
        let (above, row) = self.0.split_at_mut(i);
        let row = &row[0];
        inverse[i] = 1.0 / row[run.fork];
        let gone = Gone { rows: [row], inverses: [inverse[i]], x: [x[i]] };
        gone.leave(&mut above[..run.fork], &mut x[..run.fork]);
    }

    /// Eliminates p and p + 1 of a run at once: the rows above are read and written once. Returns the pivots of the next two.
    #[inline(always)]
    fn eliminate_two(
        &mut self,
        run: &Run,
        p: usize,
        Pivots { factor, inverses }: Pivots,
        x: &mut [f64; N],
        inverse: &mut [f64; N],
    ) -> Option<Pivots> {
        let top = run.fork + p - run.start;
        let (above, rows) = self.0.split_at_mut(p);
        let [second, first, ..] = rows else { unreachable!("there are two") };
        [inverse[p + 1], inverse[p]] = inverses;
        add_rows(second, top, [-factor], [first]);
        x[p] -= factor * x[p + 1];
        let gone = Gone { rows: [first, second], inverses, x: [x[p + 1], x[p]] };
        let (trunk, limb) = above.split_at_mut(run.start);
        let (x_trunk, x_limb) = x[..p].split_at_mut(run.start);
        // Divisions take long: they begin before all else.
        let pivots = Pivots::of(limb, top, |row, last, k| gone.left(row, last, k));
        if run.fork == 0 {
            gone.leave(limb, x_limb);
        } else {
            for (i, (row, x)) in limb.iter_mut().zip(x_limb).enumerate() {
                gone.leave_row(run.fork + i, row, x);
            }
            gone.leave(&mut trunk[..run.fork], &mut x_trunk[..run.fork]);
        }
        pivots
    }
}

/// Of two rows that are eliminated at once.
struct Pivots {
    /// By which the second row is multiplied for the first.
    factor: f64,
    /// Of the pivots.
    inverses: [f64; 2],
}

impl Pivots {
    /// Of the last two of these rows, if there are two. The last one has `len` entries; `entry` gives entry k of a row, which is given with the
    /// number of its last one.
    #[inline(always)]
    fn of<const D: usize>(
        rows: &[[f64; D]],
        len: usize,
        entry: impl Fn(&[f64; D], usize, usize) -> f64,
    ) -> Option<Pivots> {
        let [.., second, first] = rows else { return None };
        let inverse = 1.0 / entry(first, len - 1, len - 1);
        let across = entry(first, len - 1, len - 2);
        let factor = across * inverse;
        Some(Pivots { factor, inverses: [inverse, 1.0 / (entry(second, len - 2, len - 2) - factor * across)] })
    }
}

/// Whether rows are so long, and no longer, that each length has code of its own in which nothing loops over entries.
const fn by_length<const D: usize>() -> bool {
    D > 8 && D <= 16
}

/// `sum` less `row inverse x` for each entry of the first P pairs in turn.
#[inline(always)]
fn less<const D: usize, const P: usize>(mut sum: f64, row: &[f64; D], inverse: f64, x: &[Two; 8]) -> f64 {
    for (pair, x) in row.as_chunks().0.iter().zip(x).take(P) {
        let [one, two] = (Two::new(*pair) * Two::both(inverse) * *x).numbers();
        sum = sum - one - two;
    }
    sum
}

/// Rows that are eliminated at once, one after the other, with what stood right of them.
struct Gone<'a, const D: usize, const R: usize> {
    rows: [&'a [f64; D]; R],
    inverses: [f64; R],
    x: [f64; R],
}

impl<const D: usize, const R: usize> Gone<'_, D, R> {
    /// Subtracts them from the rows above, of which the first has one entry and each one more than that before it.
    #[inline(always)]
    fn leave(&self, rows: &mut [[f64; D]], x: &mut [f64]) {
        if by_length::<D>() {
            let _ = self.leave_two::<0>(rows, x)
                && self.leave_two::<1>(rows, x)
                && self.leave_two::<2>(rows, x)
                && self.leave_two::<3>(rows, x)
                && self.leave_two::<4>(rows, x)
                && self.leave_two::<5>(rows, x)
                && self.leave_two::<6>(rows, x)
                && self.leave_two::<7>(rows, x);
        } else {
            for (k, (row, x)) in rows.iter_mut().zip(x).enumerate() {
                self.leave_row(k, row, x);
            }
        }
    }

    /// Subtracts them from the rows 2 P and 2 P + 1, if there are these; returns whether there may be more.
    #[inline(always)]
    fn leave_two<const P: usize>(&self, rows: &mut [[f64; D]], x: &mut [f64]) -> bool {
        if 2 * P >= D {
            return false;
        }
        match (rows.get_mut(2 * P..), x.get_mut(2 * P..)) {
            (Some([one, two, ..]), Some([x, y, ..])) => {
                let mut both = Two::new([*x, *y]);
                let mut factors = [[0.0; R]; 2];
                for r in 0..R {
                    let factor = Two::new(self.rows[r].as_chunks().0[P]) * Two::both(self.inverses[r]);
                    both = both - factor * Two::both(self.x[r]);
                    [factors[0][r], factors[1][r]] = factor.numbers();
                }
                [*x, *y] = both.numbers();
                self.subtract::<P>(one, factors[0]);
                self.subtract::<P>(two, factors[1]);
                true
            }
            (Some([one, ..]), Some([x, ..])) => {
                let factors = self.factors(2 * P, x);
                self.subtract::<P>(one, factors);
                false
            }
            _ => false,
        }
    }

    /// Subtracts multiples of them from the first P + 1 pairs of a row.
    #[inline(always)]
    fn subtract<const P: usize>(&self, row: &mut [f64; D], factors: [f64; R]) {
        let factors = factors.map(Two::both);
        for (j, pair) in row.as_chunks_mut().0.iter_mut().enumerate().take(P + 1) {
            let mut sum = Two::new(*pair);
            for r in 0..R {
                sum = sum - factors[r] * Two::new(self.rows[r].as_chunks().0[j]);
            }
            *pair = sum.numbers();
        }
    }

    /// Entry k of the row whose last entry is `last` when they will have been subtracted.
    #[inline(always)]
    fn left(&self, row: &[f64; D], last: usize, k: usize) -> f64 {
        (0..R).fold(row[k], |sum, r| sum - self.rows[r][last] * self.inverses[r] * self.rows[r][k])
    }

    /// Subtracts them from a row of any length.
    #[inline(always)]
    fn leave_row(&self, last: usize, row: &mut [f64; D], x: &mut f64) {
        add_rows(row, last, self.factors(last, x).map(|factor| -factor), self.rows);
    }

    /// What each is multiplied by for the row whose last entry is `last`; `x` right of that row is without them then.
    #[inline(always)]
    fn factors(&self, last: usize, x: &mut f64) -> [f64; R] {
        let factors: [f64; R] = std::array::from_fn(|r| self.rows[r][last] * self.inverses[r]);
        for (factor, own) in factors.iter().zip(&self.x) {
            *x -= factor * own;
        }
        factors
    }
}

/// `row += factor other` for each of the others in turn, up to entry `last`, and maybe beyond: there, rows hold nothing that is read, and
/// whole rows or fours of entries are faster.
#[inline(always)]
pub(super) fn add_rows<const D: usize, const R: usize>(
    row: &mut [f64; D],
    last: usize,
    factors: [f64; R],
    others: [&[f64; D]; R],
) {
    let pairs = factors.map(Two::both);
    let add = |j: usize, pair: &mut [f64; 2]| {
        let mut sum = Two::new(*pair);
        for r in 0..R {
            sum = sum + pairs[r] * Two::new(others[r].as_chunks().0[j]);
        }
        *pair = sum.numbers();
    };
    if D <= 8 {
        let (all, rest) = row.as_chunks_mut();
        for (j, pair) in all.iter_mut().enumerate() {
            add(j, pair);
        }
        if let [entry] = rest {
            for r in 0..R {
                *entry += factors[r] * others[r][D - 1];
            }
        }
    } else {
        for (k, four) in row.as_chunks_mut::<4>().0.iter_mut().enumerate().take(last / 4 + 1) {
            for (l, pair) in four.as_chunks_mut().0.iter_mut().enumerate() {
                add(2 * k + l, pair);
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
