//! Bodies in space.
//!
//! As in MuJoCo, motions and forces of a tree are taken about the centre of mass of that whole tree, with axes of the world:
//! six numbers, turning before moving. Bodies without joints are part of the link that they are fixed to.

use super::collide::{Solid, Touch, radius, tangents, touches};
use super::constraints::{Block, Blocks};
use super::cubes;
use super::engine::{Contact, Mechanism, Moments};
use super::links::{
    Form, Frame, Hinge, Mass, Node, Round, Six, angular, go, inner, linear, momentum, plus, scaled, six, turning,
};
use super::model::{Kind, Model, Pair, Shape};
use super::newton::Problem;
use super::obstacle::Obstacle;
use super::tree::{Rows, Tree};
use super::twins::Twins;
use crate::physics::space::{
    IDENTITY, Mat3, Vec3, add, column, cross, dot, matrix, normalized, product, scale, sub, times, turned,
};

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
    fn round(&self, axes: impl Iterator<Item = Vec3>) -> Option<Round> {
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
                .then(|| Round { across, lack: scale((along - across).abs().sqrt(), axis) })
                .filter(|_| along <= across)
        })
    }
}

/// Bodies that move as one.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub parent: usize,
    /// Which tree it belongs to.
    pub tree: usize,
    pub form: Form,
    pub joints: std::ops::Range<usize>,
    pub dofs: std::ops::Range<usize>,
    /// Whether its tree begins with a free joint, and then whether this link does.
    pub floats: bool,
    is_free: bool,
    /// Whether it is no twin.
    is_alone: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Joint {
    pub kind: Kind,
    pub dof: usize,
    pub position: usize,
    pub hinge: Hinge,
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
    fn put(&self, frame: &Frame, solid: &mut Solid) {
        solid.pos = frame.place(self.pos);
        self.turn(frame, solid);
    }

    /// Turns it as its link is.
    fn turn(&self, frame: &Frame, solid: &mut Solid) {
        solid.axis = times(&frame.axes, column(&self.axes, 2));
        if self.is_angular {
            solid.axes = product(&frame.axes, &self.axes);
        }
    }
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

/// What of a pair is looked at first.
#[derive(Clone, Copy, Debug)]
struct Close {
    near: usize,
    geoms: [usize; 2],
    on_plane: bool,
    reach: f64,
}

/// Pairs that are further apart than this are not looked at until a geom has moved half as far.
const GAP: f64 = 0.1;

/// What is higher over the ground than this and its margin has no contact there, whatever rounding does.
const SLACK: f64 = 1e-9;

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
    /// Pairs that were less than [`GAP`] apart when places were last kept; all, where parts cannot touch each other.
    close: Vec<Close>,
    kept: Vec<Vec3>,
    fixed: Vec<Fixed>,
    solids: Vec<Solid>,
    nodes: [Node; N],
    /// Links that are computed two at a time, and all others.
    twins: Twins,
    alone: Vec<usize>,
    motions: [Six; N],
    /// Mass of every link.
    weights: Vec<f64>,
    /// Masses of the trees and their links, and their centres of mass.
    masses: Vec<(f64, std::ops::Range<usize>)>,
    centres: Vec<Vec3>,
    contacts: Vec<Contact>,
    frames: Vec<[Vec3; 3]>,
    obstacles: Vec<Obstacle>,
}

impl<const N: usize, const D: usize, const K: usize> Spatial<N, D, K> {
    pub fn new(model: &'static Model, tree: Tree<N, D>) -> Spatial<N, D, K> {
        assert!(model.density == 0.0 && model.viscosity == 0.0, "only planar bodies swim");
        let Layout { mut links, joints, parts, masses } = Layout::new(model);
        assert!(model.geoms.len() <= 64, "{} has more geoms than a word has bits", model.name);
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
            frame: Frame { at: [0.0; 3], axes: IDENTITY },
            com: [0.0; 3],
            composite: [0.0; 10],
            velocity: [0.0; 6],
            acceleration: six([0.0; 3], scale(-1.0, model.gravity)),
            force: [0.0; 6],
        };
        let twins = Twins::new(&links, &joints);
        for (b, link) in links.iter_mut().enumerate() {
            link.is_alone = !twins.has(b);
        }
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
            alone: (1..links.len()).filter(|b| links[*b].is_alone).collect(),
            twins,
            motions: [[0.0; 6]; N],
            weights: links.iter().map(|link| link.form.mass.mass).collect(),
            centres: vec![[0.0; 3]; masses.len()],
            masses: masses.into_iter().enumerate().map(|(tree, mass)| (mass, span(&links, tree))).collect(),
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
        for b in &self.alone {
            let link = &self.links[*b];
            let mut frame = link.form.begin(&self.nodes[link.parent].frame);
            for joint in &self.joints[link.joints.clone()] {
                let (q, dof) = (&qpos[joint.position..], joint.dof);
                match joint.kind {
                    Kind::Hinge => self.motions[dof] = frame.turn(&joint.hinge, q[0]),
                    Kind::Slide => {
                        let axis = times(&frame.axes, joint.hinge.axis);
                        self.motions[dof] = six([0.0; 3], axis);
                        frame.at = add(frame.at, q[0] - joint.hinge.reference, axis);
                    }
                    Kind::Free => {
                        let axes = matrix(normalized([q[3], q[4], q[5], q[6]]));
                        frame = Frame { at: [q[0], q[1], q[2]], axes };
                        for i in 0..3 {
                            self.motions[dof + i] = [0.0; 6];
                            self.motions[dof + i][3 + i] = 1.0;
                            self.motions[dof + 3 + i] = six(column(&axes, i), frame.at);
                        }
                    }
                    Kind::Ball => {
                        let anchor = frame.place(joint.hinge.pos);
                        frame.axes = product(&frame.axes, &matrix(normalized([q[0], q[1], q[2], q[3]])));
                        for i in 0..3 {
                            self.motions[dof + i] = six(column(&frame.axes, i), anchor);
                        }
                        frame.at = sub(anchor, times(&frame.axes, joint.hinge.pos));
                    }
                }
            }
            let node = &mut self.nodes[*b];
            (node.frame, node.com) = (frame, frame.place(link.form.mass.com));
        }
        self.twins.pose(qpos, &mut self.nodes);
        for (centre, (mass, links)) in self.centres.iter_mut().zip(&self.masses) {
            let mut sum = [0.0; 3];
            for (node, mass) in self.nodes[links.clone()].iter().zip(&self.weights[links.clone()]) {
                sum = add(sum, *mass, node.com);
            }
            *centre = scale(1.0 / mass, sum);
        }
    }

    /// Motions and inertias about the centres of mass, velocities, and what it takes to keep joints from accelerating.
    fn motion(&mut self, qvel: &[f64; N]) {
        for b in &self.alone {
            let link = &self.links[*b];
            let parent = &self.nodes[link.parent];
            let centre = self.centres[link.tree];
            let (mut v, mut a) = (parent.velocity, parent.acceleration);
            for joint in &self.joints[link.joints.clone()] {
                let mut turns = joint.dof..joint.dof + joint.kind.velocities();
                match joint.kind {
                    Kind::Slide => {
                        go(&mut v, &mut a, &scaled(qvel[joint.dof], &self.motions[joint.dof]));
                        continue;
                    }
                    Kind::Free => {
                        for i in 0..3 {
                            v[3 + i] += qvel[joint.dof + i];
                        }
                        turns.start += 3;
                    }
                    Kind::Ball | Kind::Hinge => {}
                }
                let mut step = [0.0; 6];
                for (motion, rate) in self.motions[turns.clone()].iter_mut().zip(&qvel[turns]) {
                    *motion = turning(motion, centre);
                    step = plus(&step, &scaled(*rate, motion));
                }
                // Where several turn at once, all are carried by what moves before them.
                go(&mut v, &mut a, &step);
            }
            let node = &mut self.nodes[*b];
            let (inertia, force) = link.form.weigh(&node.frame.axes, sub(node.com, centre), &v, &a);
            (node.composite, node.velocity, node.acceleration, node.force) = (inertia, v, a, force);
        }
        self.twins.motion(qvel, &self.centres, &self.nodes, &mut self.motions);
    }

    /// The mass matrix and the bias, from the leaves to the root.
    fn inertia(&mut self, mass: &mut Rows<N, D>, force: &mut [f64; N]) {
        self.twins.inertia(&self.motions, mass, force);
        for (b, link) in self.links.iter().enumerate().skip(1).rev() {
            if !link.is_alone {
                self.twins.give(b, &mut self.nodes);
                continue;
            }
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
                let (fork, start) = self.tree.forks[dof];
                let (mut row, mut own) = mass.0[dof].split_at_mut(fork);
                let (mut trunk, mut limb) = (&self.motions[..fork], &self.motions[start..=dof]);
                if link.floats {
                    // The first three motions are the world's axes.
                    let (from, motions) = if fork == 0 { (&mut own, &mut limb) } else { (&mut row, &mut trunk) };
                    let (axes, others) = std::mem::take(from).split_at_mut(3);
                    axes.copy_from_slice(&push[3..]);
                    (*from, *motions) = (others, &motions[3..]);
                }
                for (m, above) in row.iter_mut().zip(trunk) {
                    *m = inner(above, &push);
                }
                for (m, above) in own.iter_mut().zip(limb) {
                    *m = inner(above, &push);
                }
            }
            if link.parent > 0 {
                self.nodes[link.parent].take(&composite, &pull);
            }
        }
    }

    /// Puts geoms in their places, where parts can touch each other; returns whether one has moved since places were kept.
    fn put(&mut self) -> bool {
        let mut has_moved = self.kept.len() < self.solids.len();
        if has_moved {
            self.kept.resize(self.solids.len(), [0.0; 3]);
        }
        for ((solid, fixed), kept) in self.solids.iter_mut().zip(&self.fixed).zip(&self.kept) {
            solid.pos = self.nodes[fixed.link].frame.place(fixed.pos);
            let way = sub(solid.pos, *kept);
            has_moved |= dot(way, way) >= GAP * GAP / 4.0;
        }
        has_moved
    }

    /// Finds the pairs that are worth a look.
    fn keep(&mut self) {
        self.kept.clear();
        self.kept.extend(self.solids.iter().map(|solid| solid.pos));
        self.close.clear();
        for (i, near) in self.nears.iter().enumerate() {
            let [one, two] = near.pair.geoms.map(|geom| &self.solids[geom]);
            let (apart, reach) = (sub(two.pos, one.pos), near.reach + GAP);
            let is_far = if near.on_plane { dot(apart, one.axis) > reach } else { dot(apart, apart) > reach * reach };
            if !self.folds || !is_far {
                let (geoms, on_plane, reach) = (near.pair.geoms, near.on_plane, near.reach);
                self.close.push(Close { near: i, geoms, on_plane, reach });
            }
        }
    }

    /// Puts a geom where its link is, with its axes. Where parts can touch each other, its place is known already.
    fn bring(&mut self, geom: usize) {
        let (solid, fixed) = (&mut self.solids[geom], &self.fixed[geom]);
        if fixed.link == 0 {
            return;
        }
        let frame = &self.nodes[fixed.link].frame;
        if self.folds {
            fixed.turn(frame, solid);
        } else {
            fixed.put(frame, solid);
        }
    }

    fn touch(&mut self, v: &[f64; N], blocks: &mut Blocks<D, K>) {
        self.contacts.clear();
        self.frames.clear();
        let has_moved = if self.folds { self.put() } else { self.close.is_empty() };
        if has_moved {
            self.keep();
        }
        // The geoms that have been brought.
        let mut brought = 0u64;
        let mut side = Side { plane: usize::MAX, link: usize::MAX, across: [0.0; 3], height: 0.0 };
        for close in 0..self.close.len() {
            let Close { near: number, geoms: [one, two], on_plane, reach } = self.close[close];
            let apart = || sub(self.solids[two].pos, self.solids[one].pos);
            // Where places are known, most are far by a height that may differ from the one below by rounding.
            let is_far = if on_plane && self.folds && dot(apart(), self.solids[one].axis) > reach + SLACK {
                true
            } else if on_plane {
                let near = &self.nears[number];
                let (plane, fixed) = (&self.solids[one], &self.fixed[two]);
                if (side.plane, side.link) != (one, fixed.link) {
                    side = Side::of(plane, one, &self.nodes[fixed.link].frame, fixed.link);
                }
                let height = side.height + dot(side.across, fixed.pos);
                height > reach || height - fixed.extent(&self.solids[two], side.across) > near.pair.margin + SLACK
            } else {
                let apart = apart();
                dot(apart, apart) > reach * reach
            };
            if !is_far {
                for geom in [one, two] {
                    if brought >> geom & 1 == 0 {
                        brought |= 1 << geom;
                        self.bring(geom);
                    }
                }
                self.meet(number, v, blocks);
            }
        }
    }

    /// Adds the contacts of a pair.
    fn meet(&mut self, near: usize, v: &[f64; N], blocks: &mut Blocks<D, K>) {
        let Spatial { nears, solids, contacts, frames, motions, centres, .. } = self;
        // After all limits.
        let mut key = N + 8 * near;
        let near = &nears[near];
        let [one, two] = near.pair.geoms;
        touches(&solids[one], &solids[two], near.pair.margin, |touch| {
            let [first, second] = if near.pair.dimensions == 1 { [[0.0; 3]; 2] } else { tangents(&touch) };
            let frame = [touch.normal, first, second];
            let block = blocks.next();
            block.key = key;
            key += 1;
            near.rows(motions, centres, &touch, &frame, block);
            block.soften(&near.pair.soft, touch.distance - near.pair.margin, near.scale, v);
            block.contact = Some(contacts.len());
            frames.push(frame);
            let Touch { pos, normal, distance, .. } = touch;
            let geoms = near.pair.geoms;
            contacts.push(Contact { geoms, pos, normal, distance, force: [0.0; 3], torque: [0.0; 3] });
        });
    }

    /// A geom where it is now, as it touches cubes.
    pub fn part(&self, geom: usize) -> cubes::Part<N> {
        let (fixed, body) = (&self.fixed[geom], self.model.geoms[geom].body);
        let link = &self.links[fixed.link];
        let mut solid = self.solids[geom];
        fixed.put(&self.nodes[fixed.link].frame, &mut solid);
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
        // After all pairs.
        let mut key = N + 8 * nears.len();
        for near in nears.iter().filter(|near| near.on_plane) {
            let geom = near.pair.geoms[1];
            fixed[geom].put(&nodes[fixed[geom].link].frame, &mut solids[geom]);
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
                    block.key = key;
                    key += 1;
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

/// The links of a tree, which follow each other; the world is none.
fn span(links: &[Link], tree: usize) -> std::ops::Range<usize> {
    let own = |link: &Link| link.tree == tree;
    let start = links.iter().skip(1).position(own).map_or(0, |at| at + 1);
    let count = links.iter().skip(1).filter(|link| own(link)).count();
    assert!(links[start..start + count].iter().all(own), "links of a tree follow each other");
    start..start + count
}

/// How a link lies to a plane.
struct Side {
    plane: usize,
    link: usize,
    /// The plane's normal in the link's frame.
    across: Vec3,
    /// Of the frame's origin over the plane.
    height: f64,
}

impl Side {
    fn of(solid: &Solid, plane: usize, frame: &Frame, link: usize) -> Side {
        let across = [0, 1, 2].map(|j| dot(solid.axis, column(&frame.axes, j)));
        Side { plane, link, across, height: dot(solid.axis, sub(frame.at, solid.pos)) }
    }
}

impl Fixed {
    /// How far a geom reaches from its centre along a direction of its link's frame; for cylinders a bound of it.
    fn extent(&self, solid: &Solid, along: Vec3) -> f64 {
        let size = solid.size;
        let on = |j: usize| dot(along, column(&self.axes, j)).abs();
        match solid.shape {
            Shape::Plane => f64::INFINITY,
            Shape::Sphere => size[0],
            Shape::Capsule | Shape::Cylinder => size[0] + size[1] * on(2),
            Shape::Box => size[0] * on(0) + size[1] * on(1) + size[2] * on(2),
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
            for (k, row) in block.rows.iter_mut().enumerate() {
                row[i] = if k < 3 { dot(frame[k], go) } else { dot(frame[k - 3], turn) };
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
            form: Form { pos: [0.0; 3], turn: None, mass: Mass::NONE, round: None },
            joints: 0..0,
            dofs: 0..0,
            floats: false,
            is_free: false,
            is_alone: true,
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
            link.form.round = link.form.mass.round(IDENTITY.into_iter().chain(axes));
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
            link.form.mass = link.form.mass.with(&moved);
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
        let form = Form { pos, turn, mass, round: None };
        self.links.push(Link { parent, tree, form, joints, dofs, floats, is_free, is_alone: true });
    }
}

impl Joint {
    fn new(joint: &super::model::Joint, dof: usize, position: usize, reference: f64) -> Joint {
        let (kind, pos, axis) = (joint.kind, joint.pos, joint.axis);
        let plain = (0..3).find(|k| axis[*k].abs() == 1.0).map(|k| (k, axis[k]));
        let hinge = Hinge { pos, is_centred: pos == [0.0; 3], axis, plain, reference };
        Joint { kind, dof, position, hinge }
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
        self.nodes[part.link].frame.place(part.pos)
    }

    fn orientation(&self, body: usize) -> [[f64; 3]; 3] {
        let part = &self.parts[body];
        product(&self.nodes[part.link].frame.axes, &part.axes)
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
                    let push = six(torque, contact.force);
                    force = plus(&force, &scaled(sign, &push));
                }
            }
        }
        let velocity = self.twins.velocity(part.link).unwrap_or(self.nodes[part.link].velocity);
        Some(Moments { inertia, velocity, force })
    }
}
