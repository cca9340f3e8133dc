//! Bodies that stay in a plane: three numbers say where the root is, and each other link turns about one hinge.
//!
//! The plane has two axes, along which places are counted from the root, and angles turn the first towards the second. The
//! pyramid of a contact has two edges out of the plane; no joint moves that way, so both are the normal itself.

#![expect(clippy::needless_range_loop, reason = "several arrays share each index, as in the formulas")]

use super::constraints::Blocks;
use super::engine::{Contact, Mechanism, Moments};
use super::model::{Kind, Model, Pair, Shape};
use super::newton::Problem;
use super::obstacle::Obstacle;
use super::tree::{Rows, Tree};
use crate::physics::space::{matrix, rotate};

type Vec2 = [f64; 2];
/// Normal and the tangent in the plane.
pub(super) const ROWS: usize = 2;

#[inline]
fn dot(a: Vec2, b: Vec2) -> f64 {
    a[0] * b[0] + a[1] * b[1]
}

/// `a + s b`
#[inline]
fn add(a: Vec2, s: f64, b: Vec2) -> Vec2 {
    [a[0] + s * b[0], a[1] + s * b[1]]
}

/// A quarter turn on: the velocity of a place that turns at rate 1.
#[inline]
fn turned(a: Vec2) -> Vec2 {
    [-a[1], a[0]]
}

#[inline]
fn cross(a: Vec2, b: Vec2) -> f64 {
    a[0] * b[1] - a[1] * b[0]
}

#[derive(Clone, Debug)]
struct Link {
    /// None for the root.
    parent: Option<usize>,
    /// In the parent's frame.
    pos: Vec2,
    /// Its hinge's degree of freedom, which way it turns, where it is and its reference angle.
    dof: usize,
    sign: f64,
    anchor: Vec2,
    reference: f64,
    mass: f64,
    inertia: f64,
    com: Vec2,
    /// How it lies in the medium, if there is one.
    drag: Option<Drag>,
}

/// MuJoCo's drag of a box with the same inertia.
#[derive(Clone, Copy, Debug)]
struct Drag {
    /// The box's two axes in the plane.
    axes: [Vec2; 2],
    /// Force per velocity and per its square along each.
    linear: f64,
    square: [f64; 2],
    /// Torque per rate and per its square.
    turn: f64,
    turn_square: f64,
}

/// Where a link is and how it moves.
#[derive(Clone, Copy, Debug, Default)]
struct Pose {
    /// Of its frame, from the root's.
    at: Vec2,
    angle: f64,
    cos: f64,
    sin: f64,
    anchor: Vec2,
    com: Vec2,
    rate: f64,
    /// Acceleration of the anchor if no joint accelerates.
    drift: Vec2,
}

impl Pose {
    #[inline]
    fn turn(&self, v: Vec2) -> Vec2 {
        [self.cos * v[0] - self.sin * v[1], self.sin * v[0] + self.cos * v[1]]
    }
}

/// Masses of a link and all that hang on it, about the root's place, and the forces that keep them from accelerating.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    mass: f64,
    moment: Vec2,
    inertia: f64,
    force: Vec2,
    torque: f64,
}

/// A capsule that may touch the ground.
#[derive(Clone, Debug)]
struct Foot {
    link: usize,
    ends: [Vec2; 2],
    radius: f64,
    ground: f64,
    scale: f64,
    pair: &'static Pair,
}

/// Two capsules of one way from the root to a leaf that may touch each other.
#[derive(Clone, Debug)]
struct Fold {
    links: [usize; 2],
    middles: [Vec2; 2],
    axes: [Vec2; 2],
    radii: [f64; 2],
    scale: f64,
    pair: &'static Pair,
}

/// A planar body with its poses of the last evaluation.
#[derive(Clone, Debug)]
pub(super) struct Planar<const N: usize, const D: usize> {
    model: &'static Model,
    tree: Tree<N, D>,
    /// Numbers of the plane's two axes and of its normal.
    axes: [usize; 3],
    /// Directions of the root's slides.
    slides: [Vec2; 2],
    gravity: Vec2,
    /// The direction away from the ground.
    up: Vec2,
    links: Vec<Link>,
    feet: Vec<Foot>,
    folds: Vec<Fold>,
    poses: [Pose; N],
    root: Vec2,
    contacts: Vec<Contact>,
}

impl<const N: usize, const D: usize> Planar<N, D> {
    /// Lays out a body that stays in a plane; anything else is a mistake in the program.
    pub fn new(model: &'static Model, tree: Tree<N, D>) -> Planar<N, D> {
        let (bodies, joints) = (model.bodies, model.joints);
        let normal = joints[2].axis;
        let axis = (0..3).find(|i| normal[*i].abs() == 1.0).expect("the root's hinge is along an axis");
        let axes = [(axis + 1) % 3, (axis + 2) % 3, axis];
        let flat = |v: [f64; 3]| [v[axes[0]], v[axes[1]]];
        assert!(joints[0].kind == Kind::Slide && joints[1].kind == Kind::Slide, "the root has two slides and a hinge");
        let mut links = Vec::new();
        for (i, body) in bodies.iter().enumerate() {
            let dof = i + 2;
            let joint = &joints[dof];
            assert!(joint.kind == Kind::Hinge && joint.body == i + 1 && body.quat == [1.0, 0.0, 0.0, 0.0]);
            assert!(joint.axis[axis].abs() == 1.0 && body.pos[axis] == 0.0 && body.ipos[axis].abs() < 1e-15);
            let principal = matrix(body.iquat);
            let inertia = (0..3).map(|k| body.inertia[k] * principal[axis][k] * principal[axis][k]).sum();
            links.push(Link {
                parent: body.parent.checked_sub(1),
                pos: flat(body.pos),
                dof,
                sign: joint.axis[axis],
                anchor: flat(joint.pos),
                reference: model.qpos[dof],
                mass: body.mass,
                inertia,
                com: flat(body.ipos),
                drag: drag(model, i, axes),
            });
        }
        let capsule = |g: usize| {
            let geom = &model.geoms[g];
            assert!(geom.shape == Shape::Capsule && geom.pos[axis] == 0.0);
            let turn = matrix(geom.quat);
            let half = flat(std::array::from_fn(|i| turn[i][2] * geom.size[1]));
            (geom.body - 1, flat(geom.pos), half, geom.size[0])
        };
        let weight = |link: usize| bodies[link].weight[0];
        let (mut feet, mut folds) = (Vec::new(), Vec::new());
        for pair in model.pairs {
            let [one, two] = pair.geoms;
            let mu = pair.friction[0];
            let scale = if pair.dimensions == 1 { 1.0 } else { 2.0 * mu * mu * (1.0 + mu * mu) };
            let (link, middle, half, radius) = capsule(two);
            if model.geoms[one].shape == Shape::Plane {
                let ends = [add(middle, 1.0, half), add(middle, -1.0, half)];
                let ground = model.geoms[one].pos[2];
                feet.push(Foot { link, ends, radius, ground, scale: scale * weight(link), pair });
            } else {
                let (other, other_middle, other_half, other_radius) = capsule(one);
                assert!(pair.dimensions == 1 && other < link, "a body folds without friction");
                folds.push(Fold {
                    links: [other, link],
                    middles: [other_middle, middle],
                    axes: [other_half, half],
                    radii: [other_radius, radius],
                    scale: weight(other) + weight(link),
                    pair,
                });
            }
        }
        Planar {
            model,
            tree,
            axes,
            slides: [flat(joints[0].axis), flat(joints[1].axis)],
            gravity: flat(model.gravity),
            up: flat([0.0, 0.0, 1.0]),
            links,
            feet,
            folds,
            poses: [Pose::default(); N],
            root: [0.0; 2],
            contacts: Vec::with_capacity(32),
        }
    }

    fn pose(&mut self, qpos: &[f64], qvel: &[f64; N]) {
        let base = self.links[0].pos;
        let moved = |i: usize| qpos[i] - self.model.qpos[i];
        self.root = add(add(base, moved(0), self.slides[0]), moved(1), self.slides[1]);
        for (i, link) in self.links.iter().enumerate() {
            let mut pose = Pose::default();
            let turn = link.sign * (qpos[link.dof] - link.reference);
            let rate = link.sign * qvel[link.dof];
            match link.parent {
                None => {
                    pose.angle = turn;
                    pose.anchor = link.anchor;
                    pose.rate = rate;
                }
                Some(parent) => {
                    let parent = &self.poses[parent];
                    pose.angle = parent.angle + turn;
                    pose.anchor = add(parent.at, 1.0, parent.turn(add(link.pos, 1.0, link.anchor)));
                    pose.rate = parent.rate + rate;
                    let arm = add(pose.anchor, -1.0, parent.anchor);
                    pose.drift = add(parent.drift, -parent.rate * parent.rate, arm);
                }
            }
            (pose.sin, pose.cos) = libm::sincos(pose.angle);
            pose.at = add(pose.anchor, -1.0, pose.turn(link.anchor));
            pose.com = add(pose.at, 1.0, pose.turn(link.com));
            self.poses[i] = pose;
        }
    }

    /// Mass matrix and bias, by one pass from the leaves to the root.
    fn inertia(&self, mass: &mut Rows<N, D>, bias: &mut [f64; N]) {
        let mut loads = [Load::default(); N];
        for i in (0..self.links.len()).rev() {
            let (link, pose) = (&self.links[i], &self.poses[i]);
            let arm = add(pose.com, -1.0, pose.anchor);
            let acceleration = add(add(pose.drift, -pose.rate * pose.rate, arm), -1.0, self.gravity);
            let load = &mut loads[i];
            let force = [link.mass * acceleration[0], link.mass * acceleration[1]];
            load.mass += link.mass;
            load.moment = add(load.moment, link.mass, pose.com);
            load.inertia += link.inertia + link.mass * dot(pose.com, pose.com);
            load.force = add(load.force, 1.0, force);
            load.torque += cross(pose.com, force);
            let load = *load;
            if let Some(parent) = link.parent {
                let sum = &mut loads[parent];
                sum.mass += load.mass;
                sum.moment = add(sum.moment, 1.0, load.moment);
                sum.inertia += load.inertia;
                sum.force = add(sum.force, 1.0, load.force);
                sum.torque += load.torque;
            }
            bias[link.dof] = link.sign * (load.torque - cross(pose.anchor, load.force));
            let row = &mut mass.0[link.dof];
            let pull = turned(add(load.moment, -load.mass, pose.anchor));
            row[0] = link.sign * dot(self.slides[0], pull);
            row[1] = link.sign * dot(self.slides[1], pull);
            let own = load.inertia - dot(pose.anchor, load.moment);
            let arm = add(load.moment, -load.mass, pose.anchor);
            let (depth, chain) = (self.tree.depth[link.dof], &self.tree.chain[link.dof]);
            for k in 2..=depth {
                let above = chain[k] - 2;
                row[k] = link.sign * self.links[above].sign * (own - dot(self.poses[above].anchor, arm));
            }
        }
        let total = loads[0];
        mass.0[0][0] = total.mass;
        mass.0[1][0] = total.mass * dot(self.slides[0], self.slides[1]);
        mass.0[1][1] = total.mass;
        bias[0] = dot(self.slides[0], total.force);
        bias[1] = dot(self.slides[1], total.force);
    }

    /// The medium's drag, added to the forces.
    fn drag(&self, qvel: &[f64; N], force: &mut [f64; N]) {
        let slide = add([qvel[0] * self.slides[0][0], qvel[0] * self.slides[0][1]], qvel[1], self.slides[1]);
        let mut velocities = [[0.0; 2]; N];
        for (i, (link, pose)) in self.links.iter().zip(&self.poses).enumerate() {
            // Of the anchor, then of the centre of mass.
            velocities[i] = match link.parent {
                None => slide,
                Some(parent) => {
                    let arm = add(pose.anchor, -1.0, self.poses[parent].anchor);
                    add(velocities[parent], self.poses[parent].rate, turned(arm))
                }
            };
            let Some(drag) = link.drag else { continue };
            let velocity = add(velocities[i], pose.rate, turned(add(pose.com, -1.0, pose.anchor)));
            let mut push = [0.0; 2];
            for (axis, square) in drag.axes.into_iter().zip(drag.square) {
                let axis = pose.turn(axis);
                let along = dot(axis, velocity);
                push = add(push, -(drag.linear + square * along.abs()) * along, axis);
            }
            let torque = -(drag.turn + drag.turn_square * pose.rate.abs()) * pose.rate;
            for (slide, force) in self.slides.iter().zip(force.iter_mut()) {
                *force += dot(*slide, push);
            }
            for dof in &self.tree.chain[link.dof][2..=self.tree.depth[link.dof]] {
                let above = dof - 2;
                let arm = add(pose.com, -1.0, self.poses[above].anchor);
                force[*dof] += self.links[above].sign * (torque + cross(arm, push));
            }
        }
    }

    fn touch(&mut self, v: &[f64; N], blocks: &mut Blocks<D, ROWS>) {
        self.contacts.clear();
        let height = dot(self.root, self.up);
        let side = turned(self.up);
        for foot in &self.feet {
            let pose = &self.poses[foot.link];
            for end in foot.ends {
                let centre = add(pose.at, 1.0, pose.turn(end));
                let distance = height + dot(self.up, centre) - foot.ground - foot.radius;
                // Written so that a distance that is NaN is no contact.
                let near = distance < foot.pair.margin;
                if !near {
                    continue;
                }
                let point = add(centre, -(foot.radius + distance / 2.0), self.up);
                let block = blocks.next();
                block.along(&self.tree, self.links[foot.link].dof, 0);
                if foot.pair.dimensions > 1 {
                    (block.len, block.plain) = (2, 2.0);
                    block.friction[1] = foot.pair.friction[0];
                }
                for (row, direction) in block.rows.iter_mut().zip([self.up, side]) {
                    row[0] = dot(self.slides[0], direction);
                    row[1] = dot(self.slides[1], direction);
                    for k in 2..block.width {
                        let above = usize::from(block.dofs[k]) - 2;
                        let arm = add(point, -1.0, self.poses[above].anchor);
                        row[k] = self.links[above].sign * cross(arm, direction);
                    }
                }
                block.soften(&foot.pair.soft, distance - foot.pair.margin, foot.scale, v);
                block.contact = Some(self.contacts.len());
                self.contacts.push(self.contact(foot.pair, point, self.up, distance));
            }
        }
        for f in 0..self.folds.len() {
            self.fold(f, v, blocks);
        }
    }

    fn fold(&mut self, f: usize, v: &[f64; N], blocks: &mut Blocks<D, ROWS>) {
        let fold = &self.folds[f];
        let [one, two] = fold.links.map(|link| self.poses[link]);
        let (a, b) = (add(one.at, 1.0, one.turn(fold.middles[0])), add(two.at, 1.0, two.turn(fold.middles[1])));
        let (s, t) = (one.turn(fold.axes[0]), two.turn(fold.axes[1]));
        for [a, b] in nearest(a, s, b, t).into_iter().flatten() {
            let gap = add(b, -1.0, a);
            let length = dot(gap, gap).sqrt();
            let distance = length - fold.radii[0] - fold.radii[1];
            let near = distance < fold.pair.margin;
            if !near {
                continue;
            }
            // Where the axes cross, the original's normal leaves the plane, and its contact moves nothing.
            let normal = if length < 1e-15 { [0.0; 2] } else { [gap[0] / length, gap[1] / length] };
            let point = add(a, fold.radii[0] + distance / 2.0, normal);
            let block = blocks.next();
            let start = self.tree.depth[self.links[fold.links[0]].dof] + 1;
            block.along(&self.tree, self.links[fold.links[1]].dof, start);
            for k in 0..block.width {
                let above = usize::from(block.dofs[k]) - 2;
                let arm = add(point, -1.0, self.poses[above].anchor);
                block.rows[0][k] = self.links[above].sign * cross(arm, normal);
            }
            block.soften(&fold.pair.soft, distance - fold.pair.margin, fold.scale, v);
            block.contact = Some(self.contacts.len());
            self.contacts.push(self.contact(fold.pair, point, normal, distance));
        }
    }

    fn contact(&self, pair: &Pair, point: Vec2, normal: Vec2, distance: f64) -> Contact {
        let (pos, normal) = (self.world(point), self.direction(normal));
        Contact { geoms: pair.geoms, pos, normal, distance, force: [0.0; 3], torque: [0.0; 3] }
    }

    fn direction(&self, v: Vec2) -> [f64; 3] {
        let mut out = [0.0; 3];
        (out[self.axes[0]], out[self.axes[1]]) = (v[0], v[1]);
        out
    }

    fn world(&self, place: Vec2) -> [f64; 3] {
        self.direction(add(self.root, 1.0, place))
    }
}

/// The nearest points of two lines from `a - s` to `a + s` and from `b - t` to `b + t`: one pair, or up to two if they are parallel.
fn nearest(a: Vec2, s: Vec2, b: Vec2, t: Vec2) -> [Option<[Vec2; 2]>; 2] {
    let apart = add(a, -1.0, b);
    let (ss, st, tt) = (dot(s, s), -dot(s, t), dot(t, t));
    let (u, v) = (-dot(s, apart), dot(t, apart));
    let determinant = ss * tt - st * st;
    let points = |x: f64, y: f64| Some([add(a, x, s), add(b, y, t)]);
    let clip = |x: f64| x.clamp(-1.0, 1.0);
    if determinant.abs() < 1e-15 {
        return [points(1.0, clip((v - st) / tt)), points(-1.0, clip((v + st) / tt))];
    }
    let (mut x, mut y) = ((tt * u - st * v) / determinant, (ss * v - st * u) / determinant);
    if x.abs() > 1.0 {
        x = x.signum();
        y = (v - x * st) / tt;
    }
    if y.abs() > 1.0 {
        y = y.signum();
        x = clip((u - y * st) / ss);
    }
    [points(x, y), None]
}

/// The drag of a body's box, if there is a medium.
fn drag(model: &Model, i: usize, axes: [usize; 3]) -> Option<Drag> {
    if model.density == 0.0 && model.viscosity == 0.0 {
        return None;
    }
    let body = &model.bodies[i];
    let [a, b, c] = body.inertia;
    let side = |square: f64| (square.max(1e-15) / body.mass * 6.0).sqrt();
    let sides = [side(b + c - a), side(a + c - b), side(a + b - c)];
    let out = |k: usize| rotate(body.iquat, std::array::from_fn(|i| f64::from(u8::from(i == k))));
    let normal = (0..3).find(|k| out(*k)[axes[2]].abs() > 1.0 - 1e-12).expect("a principal axis leaves the plane");
    let [p, q] = [(normal + 1) % 3, (normal + 2) % 3];
    let mean = (sides[0] + sides[1] + sides[2]) / 3.0;
    let (pi, density, viscosity) = (std::f64::consts::PI, model.density, model.viscosity);
    let fourth = |k: usize| sides[k] * sides[k] * sides[k] * sides[k];
    let area = |k: usize| sides[(k + 1) % 3] * sides[(k + 2) % 3];
    Some(Drag {
        axes: [p, q].map(|k| [out(k)[axes[0]], out(k)[axes[1]]]),
        linear: 3.0 * pi * mean * viscosity,
        square: [p, q].map(|k| 0.5 * density * area(k)),
        turn: pi * mean * mean * mean * viscosity,
        turn_square: density * sides[normal] * (fourth(p) + fourth(q)) / 64.0,
    })
}

impl<const N: usize, const D: usize> Mechanism<N, D, ROWS> for Planar<N, D> {
    fn tree(&self) -> &Tree<N, D> {
        &self.tree
    }

    fn evaluate(&mut self, qpos: &[f64], qvel: &[f64; N], problem: &mut Problem<N, D, ROWS>) {
        self.pose(qpos, qvel);
        let mut bias = [0.0; N];
        self.inertia(&mut problem.mass, &mut bias);
        for (force, bias) in problem.force.iter_mut().zip(bias) {
            *force -= bias;
        }
        if self.links[0].drag.is_some() {
            self.drag(qvel, &mut problem.force);
        }
        self.touch(qvel, &mut problem.blocks);
    }

    fn advance(&self, qpos: &mut [f64], v: &[f64; N], seconds: f64) {
        for (q, v) in qpos.iter_mut().zip(v) {
            *q += seconds * v;
        }
    }

    fn place(&self, body: usize) -> [f64; 3] {
        self.world(self.poses[body - 1].at)
    }

    fn orientation(&self, body: usize) -> [[f64; 3]; 3] {
        let pose = &self.poses[body - 1];
        let mut m = [[0.0; 3]; 3];
        let [u, w, n] = self.axes;
        (m[u][u], m[u][w], m[w][u], m[w][w], m[n][n]) = (pose.cos, -pose.sin, pose.sin, pose.cos, 1.0);
        m
    }

    fn centre(&self, body: usize) -> [f64; 3] {
        self.world(self.poses[body - 1].com)
    }

    fn contacts(&self) -> &[Contact] {
        &self.contacts
    }

    fn weigh(&mut self, contact: usize, forces: &[f64; ROWS]) {
        let side = self.direction(turned(self.up));
        let contact = &mut self.contacts[contact];
        contact.force = std::array::from_fn(|i| forces[0] * contact.normal[i] + forces[1] * side[i]);
    }

    fn surround(&mut self, obstacles: &mut dyn Iterator<Item = Obstacle>) {
        assert!(obstacles.next().is_none(), "nothing stands in the way of a body in a plane");
    }

    fn moments(&self, _body: usize) -> Option<Moments> {
        None
    }
}
