//! What a world looks like from above: a few shapes in metres, each with a role in place of a colour.

use crate::layout::Rect;

/// What a shape stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// What the policy steers.
    Agent,
    /// A part of an agent that moves by itself.
    Limb,
    /// Where an agent is to go.
    Goal,
    /// Where one of several agents is to go.
    Landmark,
    /// The path an agent is to follow.
    Track,
    /// Something to collect.
    Apple,
    /// Ground that costs.
    Hazard,
    /// Something solid.
    Pillar,
    /// Something light that should stay where it is.
    Vase,
    /// Something to press.
    Button,
    /// Something that moves by itself and should not be touched.
    Gremlin,
    /// Something not to collect.
    Bomb,
    /// A line that should not be crossed.
    Limit,
    /// A line that cannot be crossed.
    Wall,
}

impl Role {
    /// Its name in a legend.
    pub fn name(self) -> &'static str {
        match self {
            Role::Agent => "agent",
            Role::Limb => "leg",
            Role::Goal => "goal",
            Role::Landmark => "landmark",
            Role::Track => "track",
            Role::Apple => "apple",
            Role::Hazard => "hazard",
            Role::Pillar => "pillar",
            Role::Vase => "vase",
            Role::Button => "button",
            Role::Gremlin => "gremlin",
            Role::Bomb => "bomb",
            Role::Limit => "limit",
            Role::Wall => "wall",
        }
    }
}

/// The outline of a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// A filled circle.
    Disc {
        /// Its centre.
        centre: [f64; 2],
        /// Its radius.
        radius: f64,
    },
    /// The line of a circle.
    Ring {
        /// Its centre.
        centre: [f64; 2],
        /// Its radius.
        radius: f64,
    },
    /// A filled rectangle.
    Block {
        /// Its centre.
        centre: [f64; 2],
        /// Half its sides.
        half: [f64; 2],
        /// How far it is turned counter-clockwise, in radians.
        angle: f64,
    },
    /// A line with round ends.
    Line {
        /// From where to where.
        ends: [[f64; 2]; 2],
        /// Half its width; 0 is as thin as can be seen.
        radius: f64,
    },
}

/// One thing in a world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// What it stands for.
    pub role: Role,
    /// Where it is and how large.
    pub form: Form,
    /// Whether a cost of the last step is due to it.
    pub alarm: bool,
}

/// A world as it is now. A world without a picture leaves it empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// What a picture should show at least.
    pub bounds: Rect,
    /// All things, the lowest first.
    pub shapes: Vec<Shape>,
    /// Where each agent is; a picture can join them into trails.
    pub agents: Vec<[f64; 2]>,
    /// Half the side of a window around the first agent that deserves a closer look.
    pub close_up: Option<f64>,
}

impl Default for Scene {
    /// The empty scene.
    fn default() -> Scene {
        Scene { bounds: Rect::square(1.0), shapes: Vec::new(), agents: Vec::new(), close_up: None }
    }
}

impl Scene {
    /// Adds a shape and returns it, to be changed.
    pub fn add(&mut self, role: Role, form: Form) -> &mut Shape {
        self.shapes.push(Shape { role, form, alarm: false });
        self.shapes.last_mut().expect("it was just added")
    }

    /// Adds a disc.
    pub fn disc(&mut self, role: Role, centre: [f64; 2], radius: f64) -> &mut Shape {
        self.add(role, Form::Disc { centre, radius })
    }

    /// Adds a thin line.
    pub fn line(&mut self, role: Role, from: [f64; 2], to: [f64; 2]) -> &mut Shape {
        self.add(role, Form::Line { ends: [from, to], radius: 0.0 })
    }

    /// Adds the line x = `x` from the lower to the upper bound.
    pub fn upright(&mut self, role: Role, x: f64) -> &mut Shape {
        let Rect { min, max } = self.bounds;
        self.line(role, [x, min[1]], [x, max[1]])
    }
}
