//! The acceleration as the minimum of a convex function; the folder's README explains it.

use super::constraints::{Blocks, Values};
use super::tree::{Full, Rows, Tree};
use crate::physics::line;

/// Far more than ever needed (one to three are typical): a bound for states that are not finite.
const MAX_STEPS: usize = 60;
/// The first steps go all the way: mostly that is enough, and no search is needed.
const BOLD_STEPS: usize = 4;

/// Constraints of one moment and the room that the search needs.
#[derive(Clone, Debug)]
pub(super) struct Problem<const N: usize, const D: usize, const K: usize> {
    pub mass: Rows<N, D>,
    pub force: [f64; N],
    pub blocks: Blocks<D, K>,
    /// Of every block at the solution.
    pub values: Vec<Values<K>>,
    ahead: Vec<Values<K>>,
    /// The active edges of every block, and which block that was.
    active: Vec<u16>,
    keys: Vec<usize>,
    before: Vec<(usize, u16)>,
    edges: [[f64; D]; K],
}

impl<const N: usize, const D: usize, const K: usize> Problem<N, D, K> {
    /// With room for so many blocks; more make it grow.
    pub fn with_room(blocks: usize) -> Problem<N, D, K> {
        Problem {
            mass: Rows::zero(),
            force: [0.0; N],
            blocks: Blocks::with_room(blocks),
            values: Vec::with_capacity(blocks),
            ahead: Vec::with_capacity(blocks),
            active: Vec::with_capacity(blocks),
            keys: Vec::with_capacity(blocks),
            before: Vec::with_capacity(blocks),
            edges: [[0.0; D]; K],
        }
    }

    /// argmin over a of `a' M a / 2 - f' a + sum over edges of weight min(0, J a + offset)^2 / 2`, from a guess that affects
    /// only the number of steps.
    pub fn minimize(&mut self, tree: &Tree<N, D>, guess: &[f64; N]) -> [f64; N] {
        self.values.clear();
        if self.blocks.is_empty() {
            self.forget();
            return { self.mass }.solve(tree, &self.force);
        }
        let mut a = *guess;
        self.guess(&a);
        for turn in 0..MAX_STEPS {
            let target = self.solve(tree);
            self.ahead.clear();
            let mut same = true;
            for (block, active) in self.blocks.iter().zip(&self.active) {
                let values = block.values(&target);
                same &= block.below(&values) == *active;
                self.ahead.push(values);
            }
            // Either the same edges push at both ends, and the quadratic's minimum is the function's; or an edge is at its
            // target to the last digit, and it does not matter on which side.
            if same || is_same(&target, &a) {
                std::mem::swap(&mut self.values, &mut self.ahead);
                return target;
            }
            if turn < BOLD_STEPS {
                a = target;
                std::mem::swap(&mut self.values, &mut self.ahead);
                for (i, block) in self.blocks.iter().enumerate() {
                    self.active[i] = block.below(&self.values[i]);
                }
                continue;
            }
            let direction: [f64; N] = std::array::from_fn(|i| target[i] - a[i]);
            let t = self.search(tree, &a, &direction);
            for i in 0..N {
                a[i] += t * direction[i];
            }
            for (i, block) in self.blocks.iter().enumerate() {
                let (values, ahead) = (&mut self.values[i], &self.ahead[i]);
                for k in 0..block.len {
                    values[k] += t * (ahead[k] - values[k]);
                }
                self.active[i] = block.below(values);
            }
        }
        a
    }

    /// Guesses the active edges: for blocks that there were a moment ago those that pushed then, for new ones those that would at `a`.
    fn guess(&mut self, a: &[f64; N]) {
        self.before.clear();
        self.before.extend(self.keys.drain(..).zip(self.active.drain(..)));
        let mut old = self.before.iter().peekable();
        for block in self.blocks.iter() {
            // Keys mostly rise; where they do not, the guess is worse.
            while old.next_if(|(key, _)| *key < block.key).is_some() {}
            let active = match old.next_if(|(key, _)| *key == block.key) {
                Some((_, active)) => *active,
                None => block.below(&block.values(a)),
            };
            self.keys.push(block.key);
            self.active.push(active);
        }
    }

    /// Forgets which edges were active.
    pub fn forget(&mut self) {
        self.active.clear();
        self.keys.clear();
    }

    /// The minimum of the quadratic that the active edges make.
    fn solve(&mut self, tree: &Tree<N, D>) -> [f64; N] {
        let mut right = self.force;
        let edges = &mut self.edges;
        let on = || self.blocks.iter().zip(&self.active).filter(|(_, active)| **active != 0);
        if on().all(|(block, _)| block.is_chain) {
            let mut matrix = self.mass;
            on().for_each(|(block, active)| block.load_tree(*active, &mut matrix, &mut right, edges));
            matrix.solve(tree, &right)
        } else {
            let mut matrix = Full::of(&self.mass, tree);
            on().for_each(|(block, active)| block.load_full(*active, &mut matrix, &mut right, edges));
            matrix.solve(&right)
        }
    }

    /// Where in (0, 1] the function is least on the line `a + t direction`.
    fn search(&self, tree: &Tree<N, D>, a: &[f64; N], direction: &[f64; N]) -> f64 {
        let along = self.mass.times(tree, direction);
        let (mut start, mut bend) = (0.0, 0.0);
        for i in 0..N {
            start += along[i] * a[i] - direction[i] * self.force[i];
            bend += along[i] * direction[i];
        }
        line::least(|t| {
            let (mut slope, mut curvature) = (start + t * bend, bend);
            for (i, block) in self.blocks.iter().enumerate() {
                let (s, c) = block.slope(&self.values[i], &self.ahead[i], t);
                slope += s;
                curvature += c;
            }
            (slope, curvature)
        })
    }
}

/// Whether they are the same to the last digits.
fn is_same<const N: usize>(a: &[f64; N], b: &[f64; N]) -> bool {
    let (mut step, mut size) = (0.0, 0.0);
    for i in 0..N {
        step += (a[i] - b[i]) * (a[i] - b[i]);
        size += a[i] * a[i];
    }
    step <= 1e-30 * size
}
