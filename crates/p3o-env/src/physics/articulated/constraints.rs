//! Limits and contacts as blocks of a soft constraint problem; the folder's README explains it.

#![expect(clippy::needless_range_loop, reason = "several arrays share each index, as in the formulas")]

use super::model::Soft;
use super::tree::{Full, Rows, Tree, add_rows};

/// A limit or a contact.
///
/// It has a normal and some tangents, each a row J. Its edges are the normal itself, `plain` times, and normal + mu tangent and
/// normal - mu tangent for each tangent. An edge e wants `J_e a + offset_e >= 0`; falling short by r costs `weight r^2 / 2`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<const W: usize, const K: usize> {
    /// The degrees of freedom of the entries of each row.
    pub dofs: [u8; W],
    /// How many of them there are.
    pub width: usize,
    /// How many ancestors the first of them has.
    pub start: usize,
    /// Whether they are one way from the root to a leaf; otherwise the two touching bodies are on two ways.
    pub is_chain: bool,
    /// The normal's row, then the tangents'.
    pub rows: [[f64; W]; K],
    /// How many rows there are.
    pub len: usize,
    /// Coefficient of friction of each tangent's row; that of the normal is not read.
    pub friction: [f64; K],
    pub plain: f64,
    pub weight: f64,
    pub offset: [f64; K],
    /// Number of the contact, if it is one.
    pub contact: Option<usize>,
    /// By which it is known again a moment later: its number among the blocks, unless something better is known.
    pub key: usize,
}

/// `J a + offset` of every row of a block.
pub(super) type Values<const K: usize> = [f64; K];

/// Stiffness, damping and impedance of a constraint that is violated by `-x`.
pub(super) fn reference(soft: &Soft, x: f64) -> (f64, f64, f64) {
    let [time, ratio] = soft.reference;
    let [low, high, width, middle, power] = soft.impedance;
    let (stiffness, damping) = if time > 0.0 {
        (1.0 / (high * high * time * time * ratio * ratio).max(1e-15), 2.0 / (high * time).max(1e-15))
    } else {
        (-time / (high * high), -ratio / high)
    };
    if low == high || width <= 1e-15 {
        return (stiffness, damping, 0.5 * (low + high));
    }
    let s = (x / width).abs();
    let y = if s >= 1.0 {
        1.0
    } else if power == 1.0 {
        s
    } else if power == 2.0 {
        if s <= middle { s * s / middle } else { 1.0 - (1.0 - s) * (1.0 - s) / (1.0 - middle) }
    } else if s <= middle {
        libm::pow(s, power) / libm::pow(middle, power - 1.0)
    } else {
        1.0 - libm::pow(1.0 - s, power) / libm::pow(1.0 - middle, power - 1.0)
    };
    (stiffness, damping, low + y * (high - low))
}

impl<const W: usize, const K: usize> Block<W, K> {
    /// Room for a block.
    fn new() -> Block<W, K> {
        Block {
            dofs: [0; W],
            width: 0,
            start: 0,
            is_chain: true,
            rows: [[0.0; W]; K],
            len: 1,
            friction: [0.0; K],
            plain: 0.0,
            weight: 0.0,
            offset: [0.0; K],
            contact: None,
            key: 0,
        }
    }

    /// Becomes another block over the same degrees of freedom of a larger problem, in which each is the parent of the next.
    pub fn take<const V: usize>(&mut self, other: &Block<V, K>) {
        let dofs = &other.dofs[..other.width];
        (self.start, self.is_chain) = (0, true);
        (self.len, self.plain, self.weight) = (other.len, other.plain, other.weight);
        (self.friction, self.offset, self.contact) = (other.friction, other.offset, other.contact);
        self.width = dofs.iter().map(|dof| usize::from(*dof) + 1).max().unwrap_or(0);
        for d in 0..self.width {
            self.dofs[d] = d as u8;
        }
        for (row, from) in self.rows.iter_mut().zip(&other.rows).take(other.len) {
            *row = [0.0; W];
            for (entry, dof) in from.iter().zip(dofs) {
                row[usize::from(*dof)] = *entry;
            }
        }
    }

    /// Sets weight and offsets: `x` is the distance beyond the margin, `scale` the scale of `J M^-1 J'`.
    pub fn soften<const N: usize>(&mut self, soft: &Soft, x: f64, scale: f64, v: &[f64; N]) {
        let (stiffness, damping, impedance) = reference(soft, x);
        self.weight = 1.0 / ((1.0 - impedance) * scale / impedance).max(1e-15);
        self.offset = self.times(v).map(|rate| damping * rate);
        self.offset[0] += stiffness * impedance * x;
    }

    /// `J a` of every row.
    #[inline]
    fn times<const N: usize>(&self, a: &[f64; N]) -> [f64; K] {
        let mut products = [0.0; K];
        for (i, dof) in self.dofs.iter().enumerate().take(self.width) {
            let own = a[usize::from(*dof)];
            for (product, row) in products.iter_mut().zip(&self.rows) {
                *product += row[i] * own;
            }
        }
        std::array::from_fn(|k| if k < self.len { products[k] } else { 0.0 })
    }

    pub fn values<const N: usize>(&self, a: &[f64; N]) -> Values<K> {
        let mut values = self.times(a);
        for k in 0..self.len {
            values[k] += self.offset[k];
        }
        values
    }

    /// Which edges are below zero: bit 0 the normal, then two for each tangent.
    pub fn below(&self, values: &Values<K>) -> u16 {
        let mut bits = u16::from(self.plain > 0.0 && values[0] < 0.0);
        for k in 1..self.len {
            let slide = self.friction[k] * values[k];
            bits |= u16::from(values[0] + slide < 0.0) << (2 * k - 1);
            bits |= u16::from(values[0] - slide < 0.0) << (2 * k);
        }
        bits
    }

    /// Slope and curvature of the cost on the way from one point to another.
    pub fn slope(&self, from: &Values<K>, to: &Values<K>, t: f64) -> (f64, f64) {
        let (mut slope, mut curvature) = (0.0, 0.0);
        let mut edge = |count: f64, a: f64, b: f64| {
            let step = b - a;
            let gap = a + t * step;
            if gap < 0.0 {
                slope += count * gap * step;
                curvature += count * step * step;
            }
        };
        edge(self.plain, from[0], to[0]);
        for k in 1..self.len {
            let (a, b) = (self.friction[k] * from[k], self.friction[k] * to[k]);
            edge(1.0, from[0] + a, to[0] + b);
            edge(1.0, from[0] - a, to[0] - b);
        }
        (self.weight * slope, self.weight * curvature)
    }

    /// The force along the normal and each tangent.
    pub fn forces(&self, values: &Values<K>) -> [f64; K] {
        let mut forces = [0.0; K];
        forces[0] = self.plain * self.weight * (-values[0]).max(0.0);
        for k in 1..self.len {
            let slide = self.friction[k] * values[k];
            let [plus, minus] = [values[0] + slide, values[0] - slide].map(|gap| self.weight * (-gap).max(0.0));
            forces[0] += plus + minus;
            forces[k] = self.friction[k] * (plus - minus);
        }
        forces
    }

    /// The active edges' share of the quadratic problem: `-weight J' offset` is added to the right, and `add` is called with the rows and
    /// weights whose sum of `weight J' J` is to be added to the matrix: one for each tangent at most, and one for the normal. `edges` is room.
    #[inline(always)]
    fn load<const N: usize>(
        &self,
        active: u16,
        right: &mut [f64; N],
        edges: &mut [[f64; W]; K],
        add: impl FnOnce(&[(&[f64; W], f64)]),
    ) {
        let mut normal = if active & 1 == 1 { self.plain } else { 0.0 };
        let mut pull = [0.0; K];
        pull[0] = normal * self.offset[0];
        let mut parts = [(&self.rows[0], 0.0); K];
        let mut count = 0;
        for (k, edge) in edges.iter_mut().enumerate().take(self.len).skip(1) {
            let (mu, both) = (self.friction[k], active >> (2 * k - 1) & 3);
            match both {
                0 => continue,
                3 => {
                    parts[count] = (&self.rows[k], 2.0 * mu * mu * self.weight);
                    normal += 2.0;
                    pull[0] += 2.0 * self.offset[0];
                    pull[k] = 2.0 * mu * mu * self.offset[k];
                }
                _ => {
                    let sign = if both == 1 { mu } else { -mu };
                    *edge = std::array::from_fn(|i| self.rows[0][i] + sign * self.rows[k][i]);
                    parts[count] = (edge, self.weight);
                    let offset = self.offset[0] + sign * self.offset[k];
                    pull[0] += offset;
                    pull[k] = sign * offset;
                }
            }
            count += 1;
        }
        if normal > 0.0 {
            parts[count] = (&self.rows[0], normal * self.weight);
            count += 1;
        }
        for k in 0..self.len {
            let factor = self.weight * pull[k];
            if factor != 0.0 {
                for (j, dof) in self.rows[k][..self.width].iter().zip(&self.dofs) {
                    right[usize::from(*dof)] -= factor * j;
                }
            }
        }
        add(&parts[..count]);
    }

    pub fn load_tree<const N: usize>(
        &self,
        active: u16,
        matrix: &mut Rows<N, W>,
        right: &mut [f64; N],
        edges: &mut [[f64; W]; K],
    ) {
        let dofs = &self.dofs[..self.width];
        self.load(active, right, edges, |parts| {
            if self.start > 0 {
                for (row, weight) in parts {
                    for (d, dof) in dofs.iter().enumerate() {
                        let factor = weight * row[d];
                        for (m, j) in matrix.0[usize::from(*dof)][self.start..=self.start + d].iter_mut().zip(*row) {
                            *m += factor * j;
                        }
                    }
                }
                return;
            }
            let mut rest = parts;
            while let [a, b, c, more @ ..] = rest {
                add_products(dofs, matrix, [*a, *b, *c]);
                rest = more;
            }
            match rest {
                [a, b] => add_products(dofs, matrix, [*a, *b]),
                [a] => add_products(dofs, matrix, [*a]),
                _ => {}
            }
        });
    }

    pub fn load_full<const N: usize>(
        &self,
        active: u16,
        matrix: &mut Full<N>,
        right: &mut [f64; N],
        edges: &mut [[f64; W]; K],
    ) {
        let dofs = &self.dofs[..self.width];
        self.load(active, right, edges, |parts| {
            for (row, weight) in parts {
                for (d, dof) in dofs.iter().enumerate() {
                    let sum = &mut matrix.0[usize::from(*dof)];
                    let factor = weight * row[d];
                    for (j, dof) in row[..=d].iter().zip(dofs) {
                        sum[usize::from(*dof)] += factor * j;
                    }
                }
            }
        });
    }

    /// Lays the rows along the way from the root to `leaf`, less the first `start` steps.
    pub fn along<const N: usize, const D: usize>(&mut self, tree: &Tree<N, D>, leaf: usize, start: usize) {
        self.start = start;
        self.width = tree.depth[leaf] + 1 - start;
        for (dof, step) in self.dofs.iter_mut().zip(&tree.chain[leaf][start..=tree.depth[leaf]]) {
            *dof = *step as u8;
        }
    }
}

/// Adds `weight J' J` of each part to the rows of these degrees of freedom, which are the first ones of a tree's way.
#[inline(always)]
fn add_products<const N: usize, const W: usize, const R: usize>(
    dofs: &[u8],
    matrix: &mut Rows<N, W>,
    parts: [(&[f64; W], f64); R],
) {
    let rows = parts.map(|(row, _)| row);
    for (d, dof) in dofs.iter().enumerate() {
        add_rows(&mut matrix.0[usize::from(*dof)], d, parts.map(|(row, weight)| weight * row[d]), rows);
    }
}

/// The blocks of one moment, in room that is used again.
#[derive(Clone, Debug)]
pub(super) struct Blocks<const W: usize, const K: usize> {
    room: Vec<Block<W, K>>,
    len: usize,
}

impl<const W: usize, const K: usize> Blocks<W, K> {
    /// With room for so many; more make it grow.
    pub fn with_room(blocks: usize) -> Blocks<W, K> {
        Blocks { room: vec![Block::new(); blocks], len: 0 }
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// One more, of one row, the normal. What its rows hold is left from before.
    pub fn next(&mut self) -> &mut Block<W, K> {
        if self.len == self.room.len() {
            self.room.push(Block::new());
        }
        let block = &mut self.room[self.len];
        self.len += 1;
        (block.len, block.plain, block.contact, block.is_chain, block.key) = (1, 1.0, None, true, self.len);
        block
    }
}

impl<const W: usize, const K: usize> std::ops::Deref for Blocks<W, K> {
    type Target = [Block<W, K>];

    fn deref(&self) -> &[Block<W, K>] {
        &self.room[..self.len]
    }
}
