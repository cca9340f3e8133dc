//! Limbs of the same form, such as a left and a right leg, two at a time.

use super::links::{Form, Frame, Hinge, Mass, Node, Round, Six, go, inner, momentum, plus, scaled, turning};
use super::model::Kind;
use super::spatial::{Joint, Link};
use super::tree::Rows;
use crate::physics::lanes::Two;
use crate::physics::space::{Vec3, sub};

/// Two links of the same form.
#[derive(Clone, Debug)]
struct Twin {
    links: [usize; 2],
    parent: Parent,
    tree: usize,
    form: Form<Two>,
    hinges: std::ops::Range<usize>,
    /// The first hinge of the limbs that they belong to; their own follow all others before them.
    limb: usize,
    /// How many degrees of freedom move the limbs: the first ones, up to those of the link that they hang on.
    fork: usize,
    /// Whether their tree begins with a free joint.
    floats: bool,
}

/// What twins hang on.
#[derive(Clone, Copy, Debug)]
enum Parent {
    /// Both on this link.
    Link(usize),
    /// Each on its own of these twins.
    Twin(usize),
}

/// A hinge of each of two links.
#[derive(Clone, Debug)]
struct TwinHinge {
    hinge: Hinge<Two>,
    dofs: [usize; 2],
    positions: [usize; 2],
}

/// All twins of a body, from the trunk outwards, with their poses of the last evaluation.
#[derive(Clone, Debug, Default)]
pub(super) struct Twins {
    twins: Vec<Twin>,
    hinges: Vec<TwinHinge>,
    nodes: Vec<Node<Two>>,
    motions: Vec<Six<Two>>,
    /// The motions of the trunk, each twice.
    trunk: Vec<Six<Two>>,
    /// Of every link that is the first of twins at the trunk, which these are and what they hang on.
    gifts: Vec<Option<(usize, usize)>>,
}

fn pair(values: [f64; 2]) -> Two {
    Two::new(values)
}

fn vector([a, b]: [Vec3; 2]) -> Vec3<Two> {
    [0, 1, 2].map(|i| pair([a[i], b[i]]))
}

#[inline(always)]
fn both<const L: usize>(values: &[f64; L]) -> [Two; L] {
    std::array::from_fn(|i| Two::both(values[i]))
}

/// One lane of several numbers.
#[inline(always)]
fn lane<const L: usize>(values: &[Two; L], lane: usize) -> [f64; L] {
    std::array::from_fn(|i| values[i].numbers()[lane])
}

impl Frame {
    /// The same for both.
    #[inline(always)]
    fn twice(&self) -> Frame<Two> {
        let [x, y, z] = &self.axes;
        Frame { at: both(&self.at), axes: [both(x), both(y), both(z)] }
    }
}

impl Twins {
    /// Finds the links that can be computed two at a time: they have hinges of the same form, and hang on the same link or on twins.
    pub fn new(links: &[Link], joints: &[Joint]) -> Twins {
        let mut found = Twins::default();
        for (b, link) in links.iter().enumerate().skip(1) {
            if found.has(b) {
                continue;
            }
            for (c, other) in links.iter().enumerate().skip(b + 1) {
                let (one, two) = (&joints[link.joints.clone()], &joints[other.joints.clone()]);
                let parent = found.parent([link.parent, other.parent]);
                if let Some(parent) = parent
                    && !found.has(c)
                    && link.tree == other.tree
                    // Between them, nothing else hangs there, so that what they weigh is added at once.
                    && (b + 1..c).all(|between| matches!(parent, Parent::Twin(_)) || links[between].parent != link.parent)
                    && let Some(form) = form([&link.form, &other.form])
                    && let Some(hinges) = hinges(one, two)
                {
                    let first = found.hinges.len();
                    found.hinges.extend(hinges);
                    let hinges = first..found.hinges.len();
                    let (limb, fork) = match parent {
                        Parent::Link(parent) => (first, links[parent].dofs.end),
                        Parent::Twin(twin) => (found.twins[twin].limb, found.twins[twin].fork),
                    };
                    let (tree, floats) = (link.tree, link.floats);
                    found.twins.push(Twin { links: [b, c], parent, tree, form, hinges, limb, fork, floats });
                    break;
                }
            }
        }
        // The others come first, so that none of them may hang on a twin.
        let is_whole = (1..links.len()).all(|b| found.has(b) || !found.has(links[b].parent));
        if !is_whole {
            return Twins::default();
        }
        let rest = Node {
            frame: Frame { at: [Two::default(); 3], axes: [[Two::default(); 3]; 3] },
            com: [Two::default(); 3],
            composite: [Two::default(); 10],
            velocity: [Two::default(); 6],
            acceleration: [Two::default(); 6],
            force: [Two::default(); 6],
        };
        found.nodes = vec![rest; found.twins.len()];
        found.motions = vec![[Two::default(); 6]; found.hinges.len()];
        let dofs = found.twins.iter().map(|twin| twin.fork).max().unwrap_or(0);
        found.trunk = vec![[Two::default(); 6]; dofs];
        found.gifts = vec![None; links.len()];
        for (number, twin) in found.twins.iter().enumerate() {
            if let Parent::Link(parent @ 1..) = twin.parent {
                found.gifts[twin.links[0]] = Some((number, parent));
            }
        }
        found
    }

    /// Whether a link is one of them.
    pub fn has(&self, link: usize) -> bool {
        self.twins.iter().any(|twin| twin.links.contains(&link))
    }

    /// A limb does not fork: its twins stand one after the other.
    fn parent(&self, [one, two]: [usize; 2]) -> Option<Parent> {
        if one == two && !self.has(one) {
            return Some(Parent::Link(one));
        }
        let last = self.twins.len().checked_sub(1)?;
        (self.twins[last].links == [one, two]).then_some(Parent::Twin(last))
    }

    /// Places and axes. Motions are left as axes and their places.
    pub fn pose(&mut self, qpos: &[f64], nodes: &mut [Node]) {
        for (t, twin) in self.twins.iter().enumerate() {
            let parent = match twin.parent {
                Parent::Link(link) => nodes[link].frame.twice(),
                Parent::Twin(twin) => self.nodes[twin].frame,
            };
            let mut frame = twin.form.begin(&parent);
            for (hinge, motion) in self.hinges[twin.hinges.clone()].iter().zip(&mut self.motions[twin.hinges.clone()]) {
                *motion = frame.turn(&hinge.hinge, pair(hinge.positions.map(|at| qpos[at])));
            }
            let com = frame.place(twin.form.mass.com);
            (self.nodes[t].frame, self.nodes[t].com) = (frame, com);
            for (side, link) in twin.links.into_iter().enumerate() {
                let [x, y, z] = &frame.axes;
                let axes = [lane(x, side), lane(y, side), lane(z, side)];
                (nodes[link].frame, nodes[link].com) = (Frame { at: lane(&frame.at, side), axes }, lane(&com, side));
            }
        }
    }

    /// Motions and inertias about the centres of mass, velocities, and forces that keep joints from accelerating.
    pub fn motion<const N: usize>(
        &mut self,
        qvel: &[f64; N],
        centres: &[Vec3],
        nodes: &[Node],
        motions: &mut [Six; N],
    ) {
        for (t, twin) in self.twins.iter().enumerate() {
            let centre = both(&centres[twin.tree]);
            let (mut v, mut a) = match twin.parent {
                Parent::Link(link) => (both(&nodes[link].velocity), both(&nodes[link].acceleration)),
                Parent::Twin(twin) => (self.nodes[twin].velocity, self.nodes[twin].acceleration),
            };
            for (hinge, motion) in self.hinges[twin.hinges.clone()].iter().zip(&mut self.motions[twin.hinges.clone()]) {
                *motion = turning(motion, centre);
                let rate = pair(hinge.dofs.map(|dof| qvel[dof]));
                go(&mut v, &mut a, &scaled(rate, motion));
                for (side, dof) in hinge.dofs.into_iter().enumerate() {
                    motions[dof] = lane(motion, side);
                }
            }
            let node = &mut self.nodes[t];
            let (inertia, force) = twin.form.weigh(&node.frame.axes, sub(node.com, centre), &v, &a);
            (node.composite, node.velocity, node.acceleration, node.force) = (inertia, v, a, force);
        }
    }

    /// Their rows of the mass matrix and their bias, from the leaves on.
    pub fn inertia<const N: usize, const D: usize>(
        &mut self,
        motions: &[Six; N],
        mass: &mut Rows<N, D>,
        force: &mut [f64; N],
    ) {
        for (twice, motion) in self.trunk.iter_mut().zip(motions) {
            *twice = both(motion);
        }
        for (t, twin) in self.twins.iter().enumerate().rev() {
            let (composite, pull) = (self.nodes[t].composite, self.nodes[t].force);
            for j in twin.hinges.clone() {
                let (dofs, motion) = (self.hinges[j].dofs, &self.motions[j]);
                let bias = inner(motion, &pull).numbers();
                let push = momentum(&composite, motion);
                let limb = &self.motions[twin.limb..=j];
                let fork = twin.fork;
                let [one, two] = mass.0.get_disjoint_mut(dofs).expect("twins have two rows");
                let ((one, one_limb), (two, two_limb)) = (one.split_at_mut(fork), two.split_at_mut(fork));
                let (mut one, mut two, mut trunk) = (one, two, &self.trunk[..fork]);
                if twin.floats {
                    // The first three motions are the world's axes.
                    for k in 0..3 {
                        [one[k], two[k]] = push[3 + k].numbers();
                    }
                    (one, two, trunk) = (&mut one[3..], &mut two[3..], &trunk[3..]);
                }
                for ((one, two), above) in one.iter_mut().zip(two).zip(trunk) {
                    [*one, *two] = inner(above, &push).numbers();
                }
                let (one_limb, two_limb) = (&mut one_limb[..limb.len()], &mut two_limb[..limb.len()]);
                for k in 0..limb.len() {
                    [one_limb[k], two_limb[k]] = inner(&limb[k], &push).numbers();
                }
                for (dof, bias) in dofs.into_iter().zip(bias) {
                    force[dof] -= bias;
                }
            }
            if let Parent::Twin(parent) = twin.parent {
                let parent = &mut self.nodes[parent];
                for (sum, own) in parent.composite.iter_mut().zip(composite) {
                    *sum = *sum + own;
                }
                parent.force = plus(&parent.force, &pull);
            }
        }
    }

    /// Gives what twins at the trunk and all that hangs on them weigh to the link that they hang on, if this is the first of them.
    pub fn give(&self, link: usize, nodes: &mut [Node]) {
        if let Some((twin, parent)) = self.gifts[link] {
            let node = &self.nodes[twin];
            // The second first, as links that are alone do.
            for side in [1, 0] {
                nodes[parent].take(&lane(&node.composite, side), &lane(&node.force, side));
            }
        }
    }

    /// The velocity of a link, if it is one of them.
    pub fn velocity(&self, link: usize) -> Option<Six> {
        let twin = self.twins.iter().position(|twin| twin.links.contains(&link))?;
        let side = usize::from(self.twins[twin].links[1] == link);
        Some(lane(&self.nodes[twin].velocity, side))
    }
}

impl Node {
    /// Adds what hangs on a link.
    pub fn take(&mut self, composite: &[f64; 10], pull: &Six) {
        for (sum, own) in self.composite.iter_mut().zip(composite) {
            *sum += own;
        }
        self.force = plus(&self.force, pull);
    }
}

/// Two links' forms as one, if they are of one kind.
fn form([one, two]: [&Form; 2]) -> Option<Form<Two>> {
    let matrix = |a: &[Vec3; 3], b: &[Vec3; 3]| [0, 1, 2].map(|i| vector([a[i], b[i]]));
    let turn = match (&one.turn, &two.turn) {
        (None, None) => None,
        (Some(a), Some(b)) => Some(matrix(a, b)),
        _ => return None,
    };
    let round = match (&one.round, &two.round) {
        (None, None) => None,
        (Some(a), Some(b)) => Some(Round { across: pair([a.across, b.across]), lack: vector([a.lack, b.lack]) }),
        _ => return None,
    };
    let mass = Mass {
        mass: pair([one.mass.mass, two.mass.mass]),
        com: vector([one.mass.com, two.mass.com]),
        inertia: matrix(&one.mass.inertia, &two.mass.inertia),
    };
    Some(Form { pos: vector([one.pos, two.pos]), turn, mass, round })
}

/// Two links' joints as hinges of both, if they are hinges of one kind.
fn hinges(one: &[Joint], two: &[Joint]) -> Option<Vec<TwinHinge>> {
    if one.len() != two.len() {
        return None;
    }
    let join = |(a, b): (&Joint, &Joint)| {
        let plain = match (a.hinge.plain, b.hinge.plain) {
            (None, None) => None,
            (Some((k, s)), Some((l, t))) if k == l => Some((k, pair([s, t]))),
            _ => return None,
        };
        let is_same = a.kind == Kind::Hinge && b.kind == Kind::Hinge && a.hinge.is_centred == b.hinge.is_centred;
        let hinge = Hinge {
            pos: vector([a.hinge.pos, b.hinge.pos]),
            is_centred: a.hinge.is_centred,
            axis: vector([a.hinge.axis, b.hinge.axis]),
            plain,
            reference: pair([a.hinge.reference, b.hinge.reference]),
        };
        is_same.then_some(TwinHinge { hinge, dofs: [a.dof, b.dof], positions: [a.position, b.position] })
    };
    one.iter().zip(two).map(join).collect()
}
