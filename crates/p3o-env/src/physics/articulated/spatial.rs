//! Bodies in space.
//!
//! As in MuJoCo, motions and forces of a tree are taken about the centre of mass of that whole tree, with axes of the world:
//! six numbers, turning before moving.

#![expect(clippy::needless_range_loop, reason = "several arrays share each index, as in the formulas")]

use super::collide::{Solid, Touch, tangents, touches};
use super::constraints::Block;
use super::engine::{Contact, Mechanism, Moments};
use super::model::{Kind, Model, Pair, Shape};
use super::newton::Problem;
use super::space::{
    Mat3, Vec3, add, column, cross, dot, matrix, normalized, product, scale, sub, times, turned,
};
use super::tree::{Rows, Tree};

type Six = [f64; 6];

const IDENTITY: Mat3 = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

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

#[derive(Clone, Debug)]
struct Link {
    parent: usize,
    /// Which tree it belongs to.
    root: usize,
    pos: Vec3,
    /// None if it is not turned.
    turn: Option<Mat3>,
    mass: f64,
    /// About its centre of mass, in its own frame.
    inertia: Mat3,
    com: Vec3,
    joints: std::ops::Range<usize>,
    /// The last degree of freedom that moves it.
    leaf: Option<usize>,
}

#[derive(Clone, Debug)]
struct Hinge {
    kind: Kind,
    dof: usize,
    position: usize,
    pos: Vec3,
    axis: Vec3,
    reference: f64,
}

/// Where a link is.
#[derive(Clone, Copy, Debug)]
struct Pose {
    at: Vec3,
    axes: Mat3,
    com: Vec3,
}

#[derive(Clone, Debug)]
struct Near {
    pair: &'static Pair,
    bodies: [usize; 2],
    scale: f64,
    /// Whether the first is a plane.
    on_plane: bool,
    /// From how near on balls around them feel each other.
    reach: f64,
    /// The degrees of freedom that move one of the two and not the other, and which of them that is.
    dofs: Vec<(usize, f64)>,
    start: usize,
    is_chain: bool,
}

/// A body in space with its poses of the last evaluation. The world stands first in every list of bodies.
#[derive(Clone, Debug)]
pub(super) struct Spatial<const N: usize, const D: usize, const K: usize> {
    model: &'static Model,
    tree: Tree<N, D>,
    links: Vec<Link>,
    hinges: Vec<Hinge>,
    nears: Vec<Near>,
    /// A geom's axes in its body's frame.
    shapes: Vec<Mat3>,
    poses: Vec<Pose>,
    solids: Vec<Solid>,
    /// Centres of mass of the trees.
    centres: Vec<Vec3>,
    masses: Vec<f64>,
    motions: [Six; N],
    inertias: Vec<[f64; 10]>,
    composite: Vec<[f64; 10]>,
    velocities: Vec<Six>,
    accelerations: Vec<Six>,
    forces: Vec<Six>,
    contacts: Vec<Contact>,
    frames: Vec<[Vec3; 3]>,
}

impl<const N: usize, const D: usize, const K: usize> Spatial<N, D, K> {
    pub fn new(model: &'static Model, tree: Tree<N, D>) -> Spatial<N, D, K> {
        assert!(model.density == 0.0 && model.viscosity == 0.0, "only planar bodies swim");
        let (links, hinges, masses) = lay_out(model);
        let geom_turns = model.geoms.iter().map(|geom| matrix(geom.quat)).collect();
        let solids = model.geoms.iter().map(|geom| Solid {
            shape: geom.shape,
            size: geom.size,
            pos: geom.pos,
            axes: matrix(geom.quat),
        });
        let nears = model.pairs.iter().map(|pair| near(model, pair, &links, &tree));
        let count = links.len();
        let pose = Pose { at: [0.0; 3], axes: IDENTITY, com: [0.0; 3] };
        Spatial {
            model,
            nears: nears.collect(),
            tree,
            hinges,
            shapes: geom_turns,
            poses: vec![pose; count],
            solids: solids.collect(),
            centres: vec![[0.0; 3]; masses.len()],
            masses,
            motions: [[0.0; 6]; N],
            inertias: vec![[0.0; 10]; count],
            composite: vec![[0.0; 10]; count],
            velocities: vec![[0.0; 6]; count],
            accelerations: vec![[0.0; 6]; count],
            forces: vec![[0.0; 6]; count],
            contacts: Vec::with_capacity(64),
            frames: Vec::with_capacity(64),
            links,
        }
    }

    /// Places and axes from the root on. Motions that turn are left as an axis and its place.
    fn pose(&mut self, qpos: &[f64]) {
        self.centres.fill([0.0; 3]);
        for b in 1..self.links.len() {
            let link = &self.links[b];
            let parent = &self.poses[link.parent];
            let mut at = add(parent.at, 1.0, times(&parent.axes, link.pos));
            let mut axes = link.turn.as_ref().map_or(parent.axes, |turn| product(&parent.axes, turn));
            for hinge in &self.hinges[link.joints.clone()] {
                let q = &qpos[hinge.position..];
                if hinge.kind == Kind::Free {
                    at = [q[0], q[1], q[2]];
                    axes = matrix(normalized([q[3], q[4], q[5], q[6]]));
                    for i in 0..3 {
                        let axis = column(&axes, i);
                        self.motions[hinge.dof + i] = [0.0; 6];
                        self.motions[hinge.dof + i][3 + i] = 1.0;
                        self.motions[hinge.dof + 3 + i] = six(axis, at);
                    }
                    continue;
                }
                let anchor = add(at, 1.0, times(&axes, hinge.pos));
                match hinge.kind {
                    Kind::Slide => {
                        let axis = times(&axes, hinge.axis);
                        self.motions[hinge.dof] = six([0.0; 3], axis);
                        at = add(at, q[0] - hinge.reference, axis);
                    }
                    Kind::Hinge => {
                        let axis = times(&axes, hinge.axis);
                        self.motions[hinge.dof] = six(axis, anchor);
                        axes = product(&axes, &about(hinge.axis, q[0] - hinge.reference));
                        at = sub(anchor, times(&axes, hinge.pos));
                    }
                    _ => {
                        axes = product(&axes, &matrix(normalized([q[0], q[1], q[2], q[3]])));
                        for i in 0..3 {
                            let axis = column(&axes, i);
                            self.motions[hinge.dof + i] = six(axis, anchor);
                        }
                        at = sub(anchor, times(&axes, hinge.pos));
                    }
                }
            }
            let com = add(at, 1.0, times(&axes, link.com));
            self.centres[link.root] = add(self.centres[link.root], link.mass, com);
            self.poses[b] = Pose { at, axes, com };
        }
        for (centre, mass) in self.centres.iter_mut().zip(&self.masses) {
            *centre = scale(1.0 / mass, *centre);
        }
    }

    /// Motions and inertias about the centres of mass, then velocities and what it takes to keep joints from accelerating.
    fn inertia(&mut self, qvel: &[f64; N], mass: &mut Rows<N, D>, force: &mut [f64; N]) {
        let count = self.links.len();
        self.accelerations[0] = six([0.0; 3], scale(-1.0, self.model.gravity));
        for b in 1..count {
            let (link, pose) = (&self.links[b], &self.poses[b]);
            let centre = self.centres[link.root];
            self.inertias[b] = inertia_about(link, pose, sub(pose.com, centre));
            self.composite[b] = self.inertias[b];
            let mut v = self.velocities[link.parent];
            let mut a = self.accelerations[link.parent];
            for hinge in &self.hinges[link.joints.clone()] {
                let dofs = hinge.dof..hinge.dof + hinge.kind.velocities();
                let turning = match hinge.kind {
                    Kind::Free => {
                        for dof in dofs.start..dofs.start + 3 {
                            accumulate(&mut v, qvel[dof], &self.motions[dof]);
                        }
                        dofs.start + 3..dofs.end
                    }
                    _ => dofs,
                };
                // Where several turn at once, all are carried by what moves before them.
                let before = v;
                for dof in turning {
                    let motion = &mut self.motions[dof];
                    if hinge.kind != Kind::Slide {
                        let (axis, place) = (angular(motion), linear(motion));
                        *motion = six(axis, cross(axis, sub(centre, place)));
                    }
                    accumulate(&mut a, qvel[dof], &carried(&before, motion));
                    accumulate(&mut v, qvel[dof], motion);
                }
            }
            let inertia = &self.inertias[b];
            let mut f = momentum(inertia, &a);
            accumulate(&mut f, 1.0, &carried_force(&v, &momentum(inertia, &v)));
            (self.velocities[b], self.accelerations[b], self.forces[b]) = (v, a, f);
        }
        for b in (1..count).rev() {
            let link = &self.links[b];
            let (composite, pull) = (self.composite[b], self.forces[b]);
            if let Some(leaf) = link.leaf.filter(|_| !link.joints.is_empty()) {
                let first = self.hinges[link.joints.start].dof;
                for dof in first..=leaf {
                    let motion = &self.motions[dof];
                    force[dof] -= inner(motion, &pull);
                    let push = momentum(&composite, motion);
                    let row = &mut mass.0[dof];
                    for (m, above) in row.iter_mut().zip(&self.tree.chain[dof][..=self.tree.depth[dof]]) {
                        *m = inner(&self.motions[*above], &push);
                    }
                }
            }
            if link.parent > 0 {
                for i in 0..10 {
                    self.composite[link.parent][i] += composite[i];
                }
                accumulate(&mut self.forces[link.parent], 1.0, &pull);
            }
        }
    }

    fn touch(&mut self, v: &[f64; N], blocks: &mut Vec<Block<D, K>>) {
        self.contacts.clear();
        self.frames.clear();
        for (solid, (geom, turn)) in self.solids.iter_mut().zip(self.model.geoms.iter().zip(&self.shapes)) {
            let pose = &self.poses[geom.body];
            solid.pos = add(pose.at, 1.0, times(&pose.axes, geom.pos));
            if geom.shape != Shape::Sphere {
                solid.axes = product(&pose.axes, turn);
            }
        }
        for near in &self.nears {
            let [one, two] = near.pair.geoms.map(|geom| &self.solids[geom]);
            let apart = sub(two.pos, one.pos);
            let is_far = if near.on_plane {
                dot(apart, column(&one.axes, 2)) > near.reach
            } else {
                dot(apart, apart) > near.reach * near.reach
            };
            if is_far {
                continue;
            }
            for touch in touches(one, two, near.pair.margin).iter() {
                let frame = if near.pair.dimensions == 1 {
                    [touch.normal, [0.0; 3], [0.0; 3]]
                } else {
                    let [first, second] = tangents(touch);
                    [touch.normal, first, second]
                };
                let mut block = self.block(near, touch, &frame);
                block.soften(&near.pair.soft, touch.distance - near.pair.margin, near.scale, v);
                block.contact = Some(self.contacts.len());
                blocks.push(block);
                self.frames.push(frame);
                let Touch { pos, normal, distance, .. } = *touch;
                let geoms = near.pair.geoms;
                self.contacts.push(Contact { geoms, pos, normal, distance, force: [0.0; 3], torque: [0.0; 3] });
            }
        }
    }

    /// The rows of a contact.
    fn block(&self, near: &Near, touch: &Touch, frame: &[Vec3; 3]) -> Block<D, K> {
        let mut block = Block::new();
        block.width = near.dofs.len();
        block.start = near.start;
        block.is_chain = near.is_chain;
        let dimensions = near.pair.dimensions;
        block.len = dimensions;
        block.plain = if dimensions == 1 { 1.0 } else { 0.0 };
        block.friction[1..dimensions].copy_from_slice(&near.pair.friction[..dimensions - 1]);
        // The two bodies may belong to two trees, each with its own centre.
        let arms = near.bodies.map(|body| sub(touch.pos, self.centres[self.links[body].root]));
        for (i, (dof, sign)) in near.dofs.iter().enumerate() {
            block.dofs[i] = *dof;
            let motion = &self.motions[*dof];
            let arm = if *sign < 0.0 { arms[0] } else { arms[1] };
            let turn = scale(*sign, angular(motion));
            let move_ = add(scale(*sign, linear(motion)), 1.0, cross(turn, arm));
            for k in 0..dimensions {
                block.rows[k][i] = if k < 3 { dot(frame[k], move_) } else { dot(frame[k - 3], turn) };
            }
        }
        block
    }
}

/// A turn by an angle about an axis of length 1.
fn about(axis: Vec3, angle: f64) -> Mat3 {
    let (s, c) = libm::sincos(angle);
    let [x, y, z] = axis;
    let [a, b, d] = scale(1.0 - c, axis);
    [
        [c + x * a, x * b - z * s, x * d + y * s],
        [y * a + z * s, c + y * b, y * d - x * s],
        [z * a - y * s, z * b + x * s, c + z * d],
    ]
}

fn inertia_about(link: &Link, pose: &Pose, h: Vec3) -> [f64; 10] {
    let axes = &pose.axes;
    let local = product(axes, &link.inertia);
    let entry = |i: usize, j: usize| dot(local[i], axes[j]);
    let (m, square) = (link.mass, dot(h, h));
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

/// Links with the world first, their joints, and the masses of the trees with an empty one for the world.
fn lay_out(model: &Model) -> (Vec<Link>, Vec<Hinge>, Vec<f64>) {
    let world = Link {
        parent: 0,
        root: 0,
        pos: [0.0; 3],
        turn: None,
        mass: 0.0,
        inertia: [[0.0; 3]; 3],
        com: [0.0; 3],
        joints: 0..0,
        leaf: None,
    };
    let (mut links, mut hinges, mut masses) = (vec![world], Vec::new(), vec![1.0]);
    let (mut dof, mut position) = (0, 0);
    for (i, body) in model.bodies.iter().enumerate() {
        let start = hinges.len();
        let mut leaf = links[body.parent].leaf;
        for joint in model.joints.iter().filter(|joint| joint.body == i + 1) {
            let (kind, pos, axis) = (joint.kind, joint.pos, joint.axis);
            hinges.push(Hinge { kind, dof, position, pos, axis, reference: model.qpos[position] });
            dof += kind.velocities();
            position += kind.positions();
            leaf = Some(dof - 1);
        }
        let root = if body.parent == 0 {
            masses.push(0.0);
            masses.len() - 1
        } else {
            links[body.parent].root
        };
        masses[root] += body.mass;
        let principal = matrix(body.iquat);
        let entry = |i: usize, j: usize| (0..3).map(|k| principal[i][k] * body.inertia[k] * principal[j][k]).sum();
        links.push(Link {
            parent: body.parent,
            root,
            pos: body.pos,
            turn: (body.quat != [1.0, 0.0, 0.0, 0.0]).then(|| matrix(body.quat)),
            mass: body.mass,
            inertia: std::array::from_fn(|i| std::array::from_fn(|j| entry(i, j))),
            com: body.ipos,
            joints: start..hinges.len(),
            leaf,
        });
    }
    (links, hinges, masses)
}

fn near<const N: usize, const D: usize>(
    model: &'static Model,
    pair: &'static Pair,
    links: &[Link],
    tree: &Tree<N, D>,
) -> Near {
    let geoms = pair.geoms.map(|geom| &model.geoms[geom]);
    let bodies = geoms.map(|geom| geom.body);
    let [one, two] = bodies.map(|body| {
        links[body].leaf.map_or(Vec::new(), |leaf| tree.chain[leaf][..=tree.depth[leaf]].to_vec())
    });
    let start = one.iter().zip(&two).take_while(|(a, b)| a == b).count();
    let mut dofs: Vec<(usize, f64)> = one[start..].iter().map(|dof| (*dof, -1.0)).collect();
    dofs.extend(two[start..].iter().map(|dof| (*dof, 1.0)));
    dofs.sort_by_key(|(dof, _)| *dof);
    assert!(dofs.len() <= D, "{}: a contact moves more than one way from the root is long", model.name);
    let is_chain = one.len() == start || two.len() == start;
    let weight: f64 = bodies.iter().filter(|body| **body > 0).map(|body| model.bodies[body - 1].weight[0]).sum();
    let mu = pair.friction[0];
    let scale = if pair.dimensions == 1 { weight } else { 2.0 * mu * mu * (weight + mu * mu * weight) };
    let radius = |size: [f64; 3], shape: Shape| match shape {
        Shape::Plane => 0.0,
        Shape::Sphere => size[0],
        Shape::Capsule => size[0] + size[1],
        Shape::Cylinder => (size[0] * size[0] + size[1] * size[1]).sqrt(),
        Shape::Box => dot(size, size).sqrt(),
    };
    let [a, b] = geoms.map(|geom| radius(geom.size, geom.shape));
    // Of bodies with several geoms, the original compares balls without the margin before it looks closer.
    let several = |body: usize| model.geoms.iter().filter(|geom| geom.body == body).count() > 1;
    let margin = if bodies.into_iter().any(several) { 0.0 } else { pair.margin };
    let on_plane = geoms[0].shape == Shape::Plane;
    Near { pair, bodies, scale, on_plane, reach: a + b + margin, dofs, start, is_chain }
}

impl<const N: usize, const D: usize, const K: usize> Mechanism<N, D, D, K> for Spatial<N, D, K> {
    fn tree(&self) -> &Tree<N, D> {
        &self.tree
    }

    fn evaluate(&mut self, qpos: &[f64], qvel: &[f64; N], problem: &mut Problem<N, D, D, K>) {
        self.pose(qpos);
        self.inertia(qvel, &mut problem.mass, &mut problem.force);
        self.touch(qvel, &mut problem.blocks);
    }

    fn advance(&self, qpos: &mut [f64], v: &[f64; N], seconds: f64) {
        for hinge in &self.hinges {
            let (q, v) = (&mut qpos[hinge.position..], &v[hinge.dof..]);
            let turn = |q: &mut [f64], v: &[f64]| {
                let next = turned([q[0], q[1], q[2], q[3]], [v[0], v[1], v[2]], seconds);
                q[..4].copy_from_slice(&next);
            };
            match hinge.kind {
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
        self.poses[body].at
    }

    fn orientation(&self, body: usize) -> [[f64; 3]; 3] {
        self.poses[body].axes
    }

    fn centre(&self, body: usize) -> [f64; 3] {
        self.poses[body].com
    }

    fn contacts(&self) -> &[Contact] {
        &self.contacts
    }

    fn weigh(&mut self, contact: usize, forces: &[f64; K]) {
        let (contact, frame) = (&mut self.contacts[contact], &self.frames[contact]);
        for (k, force) in forces.iter().enumerate() {
            let (sum, direction) = if k < 3 { (&mut contact.force, frame[k]) } else { (&mut contact.torque, frame[k - 3]) };
            *sum = add(*sum, *force, direction);
        }
    }

    fn moments(&self, body: usize) -> Option<Moments> {
        let centre = self.centres[self.links[body].root];
        let mut force = [0.0; 6];
        for contact in &self.contacts {
            for (geom, sign) in contact.geoms.into_iter().zip([-1.0, 1.0]) {
                if self.model.geoms[geom].body == body {
                    let torque = add(contact.torque, 1.0, cross(sub(contact.pos, centre), contact.force));
                    accumulate(&mut force, sign, &six(torque, contact.force));
                }
            }
        }
        Some(Moments { inertia: self.inertias[body], velocity: self.velocities[body], force })
    }
}
