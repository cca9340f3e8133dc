//! Bodies in space.
//!
//! As in MuJoCo, motions and forces of a tree are taken about the centre of mass of that whole tree, with axes of the world:
//! six numbers, turning before moving. Bodies without joints are part of the link that they are fixed to.

#![expect(clippy::needless_range_loop, reason = "several arrays share each index, as in the formulas")]

use super::collide::{Solid, Touch, radius, tangents, touches};
use super::constraints::{Block, Blocks};
use super::cubes;
use super::engine::{Contact, Mechanism, Moments};
use super::model::{Kind, Model, Pair, Shape};
use super::newton::Problem;
use super::obstacle::Obstacle;
use super::tree::{Rows, Tree};
use crate::physics::space::{
    IDENTITY, Mat3, Vec3, about, add, column, cross, dot, matrix, normalized, product, scale, sub, times, turned,
};

type Six = [f64; 6];

fn angular(v: &Six) -> Vec3 {
    [v[0], v[1], v[2]]
}

fn linear(v: &Six) -> Vec3 {
    [v[3], v[4], v[5]]
}

fn six(a: Vec3, b: Vec3) -> Six {
    [a[0], a[1], a[2], b[0], b[1], b[2]]
}

#[inline]
fn accumulate(sum: &mut Six, s: f64, v: &Six) {
    for i in 0..6 {
        sum[i] += s * v[i];
    }
}

#[inline]
fn inner(a: &Six, b: &Six) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3] + a[4] * b[4] + a[5] * b[5]
}

/// How a motion changes that is fixed to something moving at `v`.
#[inline]
fn carried(v: &Six, motion: &Six) -> Six {
    let (w, u) = (angular(v), linear(v));
    let (a, b) = (angular(motion), linear(motion));
    six(cross(w, a), add(cross(w, b), 1.0, cross(u, a)))
}

/// The same for a force.
#[inline]
fn carried_force(v: &Six, force: &Six) -> Six {
    let (w, u) = (angular(v), linear(v));
    let (a, b) = (angular(force), linear(force));
    six(add(cross(w, a), 1.0, cross(u, b)), cross(w, b))
}

/// Inertia times motion; the inertia as in [`Moments`].
#[inline]
fn momentum(i: &[f64; 10], v: &Six) -> Six {
    let (w, u, h) = (angular(v), linear(v), [i[6], i[7], i[8]]);
    let turn = [
        i[0] * w[0] + i[3] * w[1] + i[4] * w[2],
        i[3] * w[0] + i[1] * w[1] + i[5] * w[2],
        i[4] * w[0] + i[5] * w[1] + i[2] * w[2],
    ];
    six(add(turn, 1.0, cross(h, u)), add(scale(i[9], u), -1.0, cross(h, w)))
}

/// Mass, centre of mass and inertia about it.
#[derive(Clone, Copy, Debug)]
struct Mass {
    mass: f64,
    com: Vec3,
    inertia: Mat3,
}

impl Mass {
    const NONE: Mass = Mass { mass: 0.0, com: [0.0; 3], inertia: [[0.0; 3]; 3] };

    /// Of two things together.
    fn with(&self, other: &Mass) -> Mass {
        let mass = self.mass + other.mass;
        if mass == 0.0 {
            return Mass::NONE;
        }
        let com = scale(1.0 / mass, add(scale(self.mass, self.com), other.mass, other.com));
        let mut inertia = [[0.0; 3]; 3];
        for part in [self, other] {
            let arm = sub(part.com, com);
            for i in 0..3 {
                for j in 0..3 {
                    let square = if i == j { dot(arm, arm) } else { 0.0 };
                    inertia[i][j] += part.inertia[i][j] + part.mass * (square - arm[i] * arm[j]);
                }
            }
        }
        Mass { mass, com, inertia }
    }

    /// The inertia across and along an axis beyond that, if it is round about one of these.
    fn round(&self, axes: impl Iterator<Item = Vec3>) -> Option<(f64, Vec3)> {
        let i = &self.inertia;
        let trace = i[0][0] + i[1][1] + i[2][2];
        axes.into_iter().find_map(|axis| {
            let along = dot(axis, times(i, axis));
            let across = (trace - along) / 2.0;
            let fits = |r: usize, c: usize| {
                let straight = if r == c { across } else { 0.0 };
                (i[r][c] - straight - (along - across) * axis[r] * axis[c]).abs() <= 1e-15 * trace
            };
            (0..9)
                .all(|k| fits(k / 3, k % 3))
                .then(|| (across, scale((along - across).abs().sqrt(), axis)))
                .filter(|_| along <= across)
        })
    }

    /// The spatial inertia when its frame has these axes and its centre is at `h` from the tree's centre.
    fn about(&self, axes: &Mat3, h: Vec3) -> [f64; 10] {
        let local = product(axes, &self.inertia);
        let entry = |i: usize, j: usize| dot(local[i], axes[j]);
        let (m, square) = (self.mass, dot(h, h));
        [
            entry(0, 0) + m * (square - h[0] * h[0]),
            entry(1, 1) + m * (square - h[1] * h[1]),
            entry(2, 2) + m * (square - h[2] * h[2]),
            entry(0, 1) - m * h[0] * h[1],
            entry(0, 2) - m * h[0] * h[2],
            entry(1, 2) - m * h[1] * h[2],
            m * h[0],
            m * h[1],
            m * h[2],
            m,
        ]
    }
}

/// The same for one that is round: `across` the same in all directions, less the square of `lack` along it.
#[inline]
fn round_about(mass: f64, across: f64, lack: Vec3, h: Vec3) -> [f64; 10] {
    let [u, k] = [lack, scale(mass, h)];
    let (x, y, z) = (h[0] * k[0], h[1] * k[1], h[2] * k[2]);
    [
        across + y + z - u[0] * u[0],
        across + x + z - u[1] * u[1],
        across + x + y - u[2] * u[2],
        -h[0] * k[1] - u[0] * u[1],
        -h[0] * k[2] - u[0] * u[2],
        -h[1] * k[2] - u[1] * u[2],
        k[0],
        k[1],
        k[2],
        mass,
    ]
}

/// Bodies that move as one.
#[derive(Clone, Debug)]
struct Link {
    parent: usize,
    /// Which tree it belongs to.
    tree: usize,
    pos: Vec3,
    /// None if it is not turned.
    turn: Option<Mat3>,
    mass: Mass,
    round: Option<(f64, Vec3)>,
    joints: std::ops::Range<usize>,
    dofs: std::ops::Range<usize>,
    /// Whether its tree begins with a free joint, and then whether this link does.
    floats: bool,
    is_free: bool,
}

#[derive(Clone, Debug)]
struct Joint {
    kind: Kind,
    dof: usize,
    position: usize,
    pos: Vec3,
    is_centred: bool,
    axis: Vec3,
    /// The number and sign of the axis, if it is one of the frame's.
    plain: Option<(usize, f64)>,
    reference: f64,
}

/// A body in its link's frame.
#[derive(Clone, Debug)]
struct Part {
    link: usize,
    pos: Vec3,
    axes: Mat3,
    mass: Mass,
}

#[derive(Clone, Debug)]
struct Fixed {
    link: usize,
    pos: Vec3,
    axes: Mat3,
    is_angular: bool,
}

impl Fixed {
    /// Moves a solid to where its link is now.
    fn put(&self, node: &Node, solid: &mut Solid) {
        solid.pos = add(node.at, 1.0, times(&node.axes, self.pos));
        solid.axis = times(&node.axes, column(&self.axes, 2));
        if self.is_angular {
            solid.axes = product(&node.axes, &self.axes);
        }
    }
}

/// Where a link is and how it moves.
#[derive(Clone, Copy, Debug)]
struct Node {
    at: Vec3,
    axes: Mat3,
    com: Vec3,
    composite: [f64; 10],
    velocity: Six,
    acceleration: Six,
    force: Six,
}

#[derive(Clone, Debug)]
struct Near {
    pair: &'static Pair,
    /// The trees of the two.
    trees: [usize; 2],
    scale: f64,
    /// Whether the first is a plane.
    on_plane: bool,
    /// From how near on balls around them feel each other.
    reach: f64,
    /// The degrees of freedom that move one of the two and not the other, and which of them that is.
    dofs: Vec<(u8, f64)>,
    start: usize,
    is_chain: bool,
}

/// Pairs that are further apart than this are not looked at until a geom has moved half as far.
const GAP: f64 = 0.1;

/// A body in space with its poses of the last evaluation. The world stands first in every list.
#[derive(Clone, Debug)]
pub(super) struct Spatial<const N: usize, const D: usize, const K: usize> {
    model: &'static Model,
    tree: Tree<N, D>,
    links: Vec<Link>,
    joints: Vec<Joint>,
    parts: Vec<Part>,
    nears: Vec<Near>,
    /// Whether parts of it can touch each other.
    folds: bool,
    /// Pairs on the ground, then those that were less than [`GAP`] apart when places were last kept.
    close: Vec<usize>,
    kept: Vec<Vec3>,
    fixed: Vec<Fixed>,
    solids: Vec<Solid>,
    nodes: [Node; N],
    motions: [Six; N],
    /// Masses and centres of mass of the trees.
    masses: Vec<f64>,
    centres: Vec<Vec3>,
    contacts: Vec<Contact>,
    frames: Vec<[Vec3; 3]>,
    obstacles: Vec<Obstacle>,
}

impl<const N: usize, const D: usize, const K: usize> Spatial<N, D, K> {
    pub fn new(model: &'static Model, tree: Tree<N, D>) -> Spatial<N, D, K> {
        assert!(model.density == 0.0 && model.viscosity == 0.0, "only planar bodies swim");
        let Layout { links, joints, parts, masses } = Layout::new(model);
        assert!(links.len() <= N, "{} has more links than degrees of freedom", model.name);
        let fixed: Vec<Fixed> = model
            .geoms
            .iter()
            .map(|geom| {
                let part = &parts[geom.body];
                let pos = add(part.pos, 1.0, times(&part.axes, geom.pos));
                let is_angular = matches!(geom.shape, Shape::Box | Shape::Cylinder);
                Fixed { link: part.link, pos, axes: product(&part.axes, &matrix(geom.quat)), is_angular }
            })
            .collect();
        let solids = model.geoms.iter().zip(&fixed).map(|(geom, fixed)| Solid {
            shape: geom.shape,
            size: geom.size,
            pos: fixed.pos,
            axis: column(&fixed.axes, 2),
            axes: fixed.axes,
        });
        let node = Node {
            at: [0.0; 3],
            axes: IDENTITY,
            com: [0.0; 3],
            composite: [0.0; 10],
            velocity: [0.0; 6],
            acceleration: six([0.0; 3], scale(-1.0, model.gravity)),
            force: [0.0; 6],
        };
        Spatial {
            model,
            folds: model.pairs.iter().any(|pair| model.geoms[pair.geoms[0]].shape != Shape::Plane),
            close: Vec::with_capacity(model.pairs.len()),
            kept: Vec::with_capacity(model.geoms.len()),
            nears: model.pairs.iter().map(|pair| near(model, pair, &links, &parts, &tree)).collect(),
            tree,
            joints,
            solids: solids.collect(),
            nodes: [node; N],
            motions: [[0.0; 6]; N],
            centres: vec![[0.0; 3]; masses.len()],
            masses,
            contacts: Vec::with_capacity(64),
            frames: Vec::with_capacity(64),
            obstacles: Vec::new(),
            links,
            parts,
            fixed,
        }
    }

    /// Places and axes from the root on. Motions that turn are left as an axis and its place.
    fn pose(&mut self, qpos: &[f64]) {
        self.centres.fill([0.0; 3]);
        for (b, link) in self.links.iter().enumerate().skip(1) {
            let parent = &self.nodes[link.parent];
            let mut at = add(parent.at, 1.0, times(&parent.axes, link.pos));
            let mut axes = link.turn.as_ref().map_or(parent.axes, |turn| product(&parent.axes, turn));
            for joint in &self.joints[link.joints.clone()] {
                let q = &qpos[joint.position..];
                let anchor = if joint.is_centred { at } else { add(at, 1.0, times(&axes, joint.pos)) };
                match joint.kind {
                    Kind::Hinge => {
                        let angle = q[0] - joint.reference;
                        let axis = match joint.plain {
                            Some((k, sign)) => {
                                let axis = scale(sign, column(&axes, k));
                                let (s, c) = libm::sincos(sign * angle);
                                let (i, j) = ((k + 1) % 3, (k + 2) % 3);
                                for row in &mut axes {
                                    (row[i], row[j]) = (c * row[i] + s * row[j], c * row[j] - s * row[i]);
                                }
                                axis
                            }
                            None => {
                                let axis = times(&axes, joint.axis);
                                axes = product(&axes, &about(joint.axis, angle));
                                axis
                            }
                        };
                        self.motions[joint.dof] = six(axis, anchor);
                    }
                    Kind::Slide => {
                        let axis = times(&axes, joint.axis);
                        self.motions[joint.dof] = six([0.0; 3], axis);
                        at = add(at, q[0] - joint.reference, axis);
                        continue;
                    }
                    Kind::Free => {
                        at = [q[0], q[1], q[2]];
                        axes = matrix(normalized([q[3], q[4], q[5], q[6]]));
                        for i in 0..3 {
                            self.motions[joint.dof + i] = [0.0; 6];
                            self.motions[joint.dof + i][3 + i] = 1.0;
                            self.motions[joint.dof + 3 + i] = six(column(&axes, i), at);
                        }
                        continue;
                    }
                    Kind::Ball => {
                        axes = product(&axes, &matrix(normalized([q[0], q[1], q[2], q[3]])));
                        for i in 0..3 {
                            self.motions[joint.dof + i] = six(column(&axes, i), anchor);
                        }
                    }
                }
                if !joint.is_centred {
                    at = sub(anchor, times(&axes, joint.pos));
                }
            }
            let com = add(at, 1.0, times(&axes, link.mass.com));
            self.centres[link.tree] = add(self.centres[link.tree], link.mass.mass, com);
            let node = &mut self.nodes[b];
            (node.at, node.axes, node.com) = (at, axes, com);
        }
        for (centre, mass) in self.centres.iter_mut().zip(&self.masses) {
            *centre = scale(1.0 / mass, *centre);
        }
    }

    /// Motions and inertias about the centres of mass, velocities, and what it takes to keep joints from accelerating.
    fn motion(&mut self, qvel: &[f64; N]) {
        for (b, link) in self.links.iter().enumerate().skip(1) {
            let parent = &self.nodes[link.parent];
            let centre = self.centres[link.tree];
            let (mut v, mut a) = (parent.velocity, parent.acceleration);
            for joint in &self.joints[link.joints.clone()] {
                let mut dof = joint.dof;
                let mut turns = 1;
                match joint.kind {
                    Kind::Slide => {
                        let step: Six = self.motions[dof].map(|m| qvel[dof] * m);
                        accumulate(&mut a, 1.0, &carried(&v, &step));
                        accumulate(&mut v, 1.0, &step);
                        continue;
                    }
                    Kind::Free => {
                        for i in 0..3 {
                            v[3 + i] += qvel[dof + i];
                        }
                        (dof, turns) = (dof + 3, 3);
                    }
                    Kind::Ball => turns = 3,
                    Kind::Hinge => {}
                }
                let mut step = [0.0; 6];
                for dof in dof..dof + turns {
                    let motion = &mut self.motions[dof];
                    let (axis, place) = (angular(motion), linear(motion));
                    *motion = six(axis, cross(axis, sub(centre, place)));
                    accumulate(&mut step, qvel[dof], motion);
                }
                // Where several turn at once, all are carried by what moves before them.
                accumulate(&mut a, 1.0, &carried(&v, &step));
                accumulate(&mut v, 1.0, &step);
            }
            let node = &mut self.nodes[b];
            let h = sub(node.com, centre);
            let inertia = match link.round {
                Some((across, lack)) => round_about(link.mass.mass, across, times(&node.axes, lack), h),
                None => link.mass.about(&node.axes, h),
            };
            let mut force = momentum(&inertia, &a);
            accumulate(&mut force, 1.0, &carried_force(&v, &momentum(&inertia, &v)));
            (node.composite, node.velocity, node.acceleration, node.force) = (inertia, v, a, force);
        }
    }

    /// The mass matrix and the bias, from the leaves to the root.
    fn inertia(&mut self, mass: &mut Rows<N, D>, force: &mut [f64; N]) {
        for (b, link) in self.links.iter().enumerate().skip(1).rev() {
            let (composite, pull) = (self.nodes[b].composite, self.nodes[b].force);
            let mut dofs = link.dofs.clone();
            if link.is_free {
                for i in 0..3 {
                    mass.0[dofs.start + i][..=i].fill(0.0);
                    mass.0[dofs.start + i][i] = composite[9];
                    force[dofs.start + i] -= pull[3 + i];
                }
                dofs.start += 3;
            }
            for dof in dofs {
                let motion = &self.motions[dof];
                force[dof] -= inner(motion, &pull);
                let push = momentum(&composite, motion);
                let (row, chain) = (&mut mass.0[dof], &self.tree.chain[dof][..=self.tree.depth[dof]]);
                let mut first = 0;
                if link.floats {
                    row[..3].copy_from_slice(&push[3..]);
                    first = 3;
                }
                for (m, above) in row.iter_mut().zip(chain).skip(first) {
                    *m = inner(&self.motions[*above], &push);
                }
            }
            if link.parent > 0 {
                let parent = &mut self.nodes[link.parent];
                for i in 0..10 {
                    parent.composite[i] += composite[i];
                }
                accumulate(&mut parent.force, 1.0, &pull);
            }
        }
    }

    /// Finds the pairs that are worth a look, if geoms have moved since the last time.
    fn keep(&mut self) {
        if !self.folds && !self.close.is_empty() {
            return;
        }
        let moved = |(solid, kept): (&Solid, &Vec3)| {
            let way = sub(solid.pos, *kept);
            dot(way, way)
        };
        let most = self.solids.iter().zip(&self.kept).map(moved).fold(0.0, f64::max);
        if self.kept.len() == self.solids.len() && most < GAP * GAP / 4.0 {
            return;
        }
        self.kept.clear();
        self.kept.extend(self.solids.iter().map(|solid| solid.pos));
        self.close.clear();
        for (i, near) in self.nears.iter().enumerate() {
            let [one, two] = near.pair.geoms.map(|geom| self.solids[geom].pos);
            let (apart, reach) = (sub(two, one), near.reach + GAP);
            let is_far = dot(apart, apart) > reach * reach;
            if near.on_plane || !is_far {
                self.close.push(i);
            }
        }
    }

    fn touch(&mut self, v: &[f64; N], blocks: &mut Blocks<D, K>) {
        self.contacts.clear();
        self.frames.clear();
        if self.folds {
            for (solid, fixed) in self.solids.iter_mut().zip(&self.fixed) {
                let node = &self.nodes[fixed.link];
                solid.pos = add(node.at, 1.0, times(&node.axes, fixed.pos));
            }
        }
        self.keep();
        let Spatial { nears, close, solids, contacts, frames, motions, centres, fixed, nodes, .. } = self;
        for near in close.iter().map(|near| &nears[*near]) {
            let [one, two] = near.pair.geoms;
            let is_far = if near.on_plane {
                let (plane, fixed) = (&solids[one], &fixed[two]);
                let node = &nodes[fixed.link];
                let across = [0, 1, 2].map(|j| dot(plane.axis, column(&node.axes, j)));
                dot(plane.axis, sub(node.at, plane.pos)) + dot(across, fixed.pos) > near.reach
            } else {
                let apart = sub(solids[two].pos, solids[one].pos);
                dot(apart, apart) > near.reach * near.reach
            };
            if is_far {
                continue;
            }
            for geom in near.pair.geoms {
                let fixed = &fixed[geom];
                fixed.put(&nodes[fixed.link], &mut solids[geom]);
            }
            let (one, two) = (&solids[one], &solids[two]);
            touches(one, two, near.pair.margin, |touch| {
                let [first, second] = if near.pair.dimensions == 1 { [[0.0; 3]; 2] } else { tangents(&touch) };
                let frame = [touch.normal, first, second];
                let block = blocks.next();
                near.rows(motions, centres, &touch, &frame, block);
                block.soften(&near.pair.soft, touch.distance - near.pair.margin, near.scale, v);
                block.contact = Some(contacts.len());
                frames.push(frame);
                let Touch { pos, normal, distance, .. } = touch;
                let geoms = near.pair.geoms;
                contacts.push(Contact { geoms, pos, normal, distance, force: [0.0; 3], torque: [0.0; 3] });
            });
        }
    }

    /// A geom where it is now, as it touches cubes.
    pub fn part(&self, geom: usize) -> cubes::Part<N> {
        let (fixed, body) = (&self.fixed[geom], self.model.geoms[geom].body);
        let link = &self.links[fixed.link];
        let mut solid = self.solids[geom];
        fixed.put(&self.nodes[fixed.link], &mut solid);
        let mut motions = [[[0.0; 3]; 2]; N];
        let last = link.dofs.end - 1;
        for dof in &self.tree.chain[last][..=self.tree.depth[last]] {
            motions[*dof] = [angular(&self.motions[*dof]), linear(&self.motions[*dof])];
        }
        cubes::Part::of(solid, self.model.bodies[body - 1].weight[0], self.centres[link.tree], motions)
    }

    /// Contacts with obstacles: of every geom that feels the ground, as if the obstacle were the ground.
    fn bump(&mut self, v: &[f64; N], blocks: &mut Blocks<D, K>) {
        let Spatial { model, nears, solids, contacts, frames, motions, centres, fixed, nodes, obstacles, .. } = self;
        for near in nears.iter().filter(|near| near.on_plane) {
            let geom = near.pair.geoms[1];
            fixed[geom].put(&nodes[fixed[geom].link], &mut solids[geom]);
            let solid = &solids[geom];
            for (i, obstacle) in obstacles.iter().enumerate() {
                let (apart, reach) = (sub(solid.pos, obstacle.solid.pos), near.reach + obstacle.reach);
                // Asked so that a body that is nowhere is not near.
                let is_near = dot(apart, apart) < reach * reach;
                if !is_near {
                    continue;
                }
                obstacle.touches(solid, |touch| {
                    let [first, second] = tangents(&touch);
                    let frame = [touch.normal, first, second];
                    let block = blocks.next();
                    near.rows(motions, centres, &touch, &frame, block);
                    block.soften(&near.pair.soft, touch.distance, near.scale, v);
                    block.contact = Some(contacts.len());
                    frames.push(frame);
                    let Touch { pos, normal, distance, .. } = touch;
                    let geoms = [model.geoms.len() + i, geom];
                    contacts.push(Contact { geoms, pos, normal, distance, force: [0.0; 3], torque: [0.0; 3] });
                });
            }
        }
    }
}

impl Near {
    /// The rows of a contact.
    fn rows<const W: usize, const K: usize>(
        &self,
        motions: &[Six],
        centres: &[Vec3],
        touch: &Touch,
        frame: &[Vec3; 3],
        block: &mut Block<W, K>,
    ) {
        block.width = self.dofs.len();
        block.start = self.start;
        block.is_chain = self.is_chain;
        let dimensions = self.pair.dimensions;
        block.len = dimensions;
        block.plain = if dimensions == 1 { 1.0 } else { 0.0 };
        block.friction[1..dimensions].copy_from_slice(&self.pair.friction[..dimensions - 1]);
        // The two may belong to two trees, each with its own centre.
        let arms = self.trees.map(|tree| sub(touch.pos, centres[tree]));
        for (i, (dof, sign)) in self.dofs.iter().enumerate() {
            block.dofs[i] = *dof;
            let motion = &motions[usize::from(*dof)];
            let arm = if *sign < 0.0 { arms[0] } else { arms[1] };
            let turn = scale(*sign, angular(motion));
            let go = add(scale(*sign, linear(motion)), 1.0, cross(turn, arm));
            for k in 0..dimensions {
                block.rows[k][i] = if k < 3 { dot(frame[k], go) } else { dot(frame[k - 3], turn) };
            }
        }
    }
}

/// A model's bodies as links.
struct Layout {
    links: Vec<Link>,
    joints: Vec<Joint>,
    parts: Vec<Part>,
    masses: Vec<f64>,
}

impl Layout {
    fn new(model: &Model) -> Layout {
        let world = Link {
            parent: 0,
            tree: 0,
            pos: [0.0; 3],
            turn: None,
            mass: Mass::NONE,
            round: None,
            joints: 0..0,
            dofs: 0..0,
            floats: false,
            is_free: false,
        };
        let ground = Part { link: 0, pos: [0.0; 3], axes: IDENTITY, mass: Mass::NONE };
        let mut layout = Layout { links: vec![world], joints: Vec::new(), parts: vec![ground], masses: vec![1.0] };
        let (mut dof, mut position) = (0, 0);
        for (i, body) in model.bodies.iter().enumerate() {
            let start = (layout.joints.len(), dof);
            for joint in model.joints.iter().filter(|joint| joint.body == i + 1) {
                layout.joints.push(Joint::new(joint, dof, position, model.qpos[position]));
                dof += joint.kind.velocities();
                position += joint.kind.positions();
            }
            let principal = matrix(body.iquat);
            let entry = |i: usize, j: usize| (0..3).map(|k| principal[i][k] * body.inertia[k] * principal[j][k]).sum();
            let inertia = std::array::from_fn(|i| std::array::from_fn(|j| entry(i, j)));
            let mass = Mass { mass: body.mass, com: body.ipos, inertia };
            layout.add(body, mass, start.0..layout.joints.len(), start.1..dof);
        }
        for (number, link) in layout.links.iter_mut().enumerate() {
            let of_link = |body: usize| layout.parts[body].link == number;
            let geoms = model.geoms.iter().filter(|geom| of_link(geom.body));
            let axes = geoms.map(|geom| column(&product(&layout.parts[geom.body].axes, &matrix(geom.quat)), 2));
            link.round = link.mass.round(IDENTITY.into_iter().chain(axes));
        }
        layout
    }

    fn add(
        &mut self,
        body: &super::model::Body,
        mass: Mass,
        joints: std::ops::Range<usize>,
        dofs: std::ops::Range<usize>,
    ) {
        let above = self.parts[body.parent].clone();
        let turn = matrix(body.quat);
        let pos = add(above.pos, 1.0, times(&above.axes, body.pos));
        let axes = product(&above.axes, &turn);
        if joints.is_empty() {
            // It lies in the frame of the link it is fixed to.
            let local = product(&axes, &mass.inertia);
            let inertia = std::array::from_fn(|i| std::array::from_fn(|j| dot(local[i], axes[j])));
            let moved = Mass { mass: mass.mass, com: add(pos, 1.0, times(&axes, mass.com)), inertia };
            let link = &mut self.links[above.link];
            link.mass = link.mass.with(&moved);
            self.masses[link.tree] += mass.mass;
            self.parts.push(Part { link: above.link, pos, axes, mass });
            return;
        }
        let is_free = self.joints[joints.start].kind == Kind::Free;
        let parent = &self.links[above.link];
        let (tree, floats) = if above.link == 0 {
            self.masses.push(0.0);
            (self.masses.len() - 1, is_free)
        } else {
            (parent.tree, parent.floats)
        };
        self.masses[tree] += mass.mass;
        let turn = (axes != IDENTITY).then_some(axes);
        let parent = above.link;
        self.parts.push(Part { link: self.links.len(), pos: [0.0; 3], axes: IDENTITY, mass });
        self.links.push(Link { parent, tree, pos, turn, mass, round: None, joints, dofs, floats, is_free });
    }
}

impl Joint {
    fn new(joint: &super::model::Joint, dof: usize, position: usize, reference: f64) -> Joint {
        let (kind, pos, axis) = (joint.kind, joint.pos, joint.axis);
        let plain = (0..3).find(|k| axis[*k].abs() == 1.0).map(|k| (k, axis[k]));
        Joint { kind, dof, position, pos, is_centred: pos == [0.0; 3], axis, plain, reference }
    }
}

fn near<const N: usize, const D: usize>(
    model: &'static Model,
    pair: &'static Pair,
    links: &[Link],
    parts: &[Part],
    tree: &Tree<N, D>,
) -> Near {
    let geoms = pair.geoms.map(|geom| &model.geoms[geom]);
    let bodies = geoms.map(|geom| geom.body);
    let of = bodies.map(|body| &links[parts[body].link]);
    let [one, two] = of.map(|link| match link.dofs.end {
        0 => &[][..],
        end => &tree.chain[end - 1][..=tree.depth[end - 1]],
    });
    let start = one.iter().zip(two).take_while(|(a, b)| a == b).count();
    let mut dofs: Vec<(u8, f64)> = one[start..].iter().map(|dof| (*dof as u8, -1.0)).collect();
    dofs.extend(two[start..].iter().map(|dof| (*dof as u8, 1.0)));
    dofs.sort_by_key(|(dof, _)| *dof);
    assert!(dofs.len() <= D, "{}: a contact moves more than one way from the root is long", model.name);
    let is_chain = one.len() == start || two.len() == start;
    let weight: f64 = bodies.iter().filter(|body| **body > 0).map(|body| model.bodies[body - 1].weight[0]).sum();
    let mu = pair.friction[0];
    let scale = if pair.dimensions == 1 { weight } else { 2.0 * mu * mu * (weight + mu * mu * weight) };
    let [a, b] = geoms.map(|geom| radius(geom.shape, geom.size));
    // Of bodies with several geoms, the original compares balls without the margin before it looks closer.
    let several = |body: usize| model.geoms.iter().filter(|geom| geom.body == body).count() > 1;
    let margin = if bodies.into_iter().any(several) { 0.0 } else { pair.margin };
    let on_plane = geoms[0].shape == Shape::Plane;
    let trees = of.map(|link| link.tree);
    Near { pair, trees, scale, on_plane, reach: a + b + margin, dofs, start, is_chain }
}

impl<const N: usize, const D: usize, const K: usize> Mechanism<N, D, K> for Spatial<N, D, K> {
    fn tree(&self) -> &Tree<N, D> {
        &self.tree
    }

    fn evaluate(&mut self, qpos: &[f64], qvel: &[f64; N], problem: &mut Problem<N, D, K>) {
        self.pose(qpos);
        self.motion(qvel);
        self.inertia(&mut problem.mass, &mut problem.force);
        self.touch(qvel, &mut problem.blocks);
        if !self.obstacles.is_empty() {
            self.bump(qvel, &mut problem.blocks);
        }
    }

    fn surround(&mut self, obstacles: &mut dyn Iterator<Item = Obstacle>) {
        self.obstacles.clear();
        self.obstacles.extend(obstacles);
    }

    fn advance(&self, qpos: &mut [f64], v: &[f64; N], seconds: f64) {
        for joint in &self.joints {
            let (q, v) = (&mut qpos[joint.position..], &v[joint.dof..]);
            let turn = |q: &mut [f64], v: &[f64]| {
                let next = turned([q[0], q[1], q[2], q[3]], [v[0], v[1], v[2]], seconds);
                q[..4].copy_from_slice(&next);
            };
            match joint.kind {
                Kind::Free => {
                    for i in 0..3 {
                        q[i] += seconds * v[i];
                    }
                    turn(&mut q[3..], &v[3..]);
                }
                Kind::Ball => turn(q, v),
                Kind::Slide | Kind::Hinge => q[0] += seconds * v[0],
            }
        }
    }

    fn place(&self, body: usize) -> [f64; 3] {
        let part = &self.parts[body];
        let node = &self.nodes[part.link];
        add(node.at, 1.0, times(&node.axes, part.pos))
    }

    fn orientation(&self, body: usize) -> [[f64; 3]; 3] {
        let part = &self.parts[body];
        product(&self.nodes[part.link].axes, &part.axes)
    }

    fn centre(&self, body: usize) -> [f64; 3] {
        add(self.place(body), 1.0, times(&self.orientation(body), self.parts[body].mass.com))
    }

    fn contacts(&self) -> &[Contact] {
        &self.contacts
    }

    fn weigh(&mut self, contact: usize, forces: &[f64; K]) {
        let (contact, frame) = (&mut self.contacts[contact], &self.frames[contact]);
        for (k, force) in forces.iter().enumerate() {
            let (sum, direction) =
                if k < 3 { (&mut contact.force, frame[k]) } else { (&mut contact.torque, frame[k - 3]) };
            *sum = add(*sum, *force, direction);
        }
    }

    fn moments(&self, body: usize) -> Option<Moments> {
        let part = &self.parts[body];
        let centre = self.centres[self.links[part.link].tree];
        let inertia = part.mass.about(&self.orientation(body), sub(self.centre(body), centre));
        let mut force = [0.0; 6];
        for contact in &self.contacts {
            for (geom, sign) in contact.geoms.into_iter().zip([-1.0, 1.0]) {
                if self.model.geoms.get(geom).is_some_and(|geom| geom.body == body) {
                    let torque = add(contact.torque, 1.0, cross(sub(contact.pos, centre), contact.force));
                    accumulate(&mut force, sign, &six(torque, contact.force));
                }
            }
        }
        Some(Moments { inertia, velocity: self.nodes[part.link].velocity, force })
    }
}
