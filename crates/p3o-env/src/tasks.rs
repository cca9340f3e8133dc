//! The tasks by name, with their options: what a command line or a configuration file builds worlds from.

use std::collections::BTreeMap;

use crate::car::Car;
use crate::circle::Circle;
use crate::robot::Point;
use crate::safety_ant::SafetyAnt;
use crate::{
    AntCircle, ButtonLevel, CarButton, CarGoal, CarNavigation, CircleStart, Env, GatherObs, GoalLevel, Joint,
    Navigation, OpenEnv, Pillars, PointButton, PointCircle, PointGather, PointGoal, Runner, SimpleSpread, SpreadReward,
    SpreadSemantics, Team, Vases, Velocity,
};

/// A task that [`make`] can build.
#[derive(Debug)]
pub struct TaskInfo {
    /// Its name.
    pub name: &'static str,
    /// What it is about, in one line.
    pub summary: &'static str,
    /// What can be set.
    pub options: &'static [OptionInfo],
    build: Build<dyn OpenEnv>,
    /// The agents side by side, if there are several.
    team: Option<Build<dyn Env>>,
}

/// Builds a world from checked values.
type Build<E> = fn(&Values) -> Box<E>;

impl TaskInfo {
    /// Whether it has several agents, which [`make_team`] shows side by side.
    pub fn has_team(&self) -> bool {
        self.team.is_some()
    }

    /// Options that show all that it can be: none, and each choice of each option beside what that needs to have an effect.
    pub fn variants(&self) -> Vec<BTreeMap<String, f64>> {
        let mut all = vec![BTreeMap::new()];
        for option in self.options {
            let choices = match option.allowed {
                Allowed::OneOf(choices) => choices.to_vec(),
                Allowed::Words(words) => (0..words.len()).map(|place| place as f64).collect(),
                Allowed::AtLeast(_) => Vec::new(),
            };
            let needed = needs(self, option.name).and_then(|(of, values)| Some((of.name, *values.last()?)));
            let beside = |value: f64| needed.into_iter().chain([(option.name, value)]);
            let named = |value: f64| beside(value).map(|(name, value)| (name.to_owned(), value)).collect();
            all.extend(choices.into_iter().map(named));
        }
        all
    }
}

/// One option of a task.
#[derive(Debug)]
pub struct OptionInfo {
    /// Its name.
    pub name: &'static str,
    /// Its default value.
    pub default: f64,
    /// The values it takes.
    pub allowed: Allowed,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What it needs to have an effect: another option of the task and that one's values; none if it always has one.
    pub needs: Option<(&'static str, &'static [f64])>,
}

/// Which values an option takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// One of these.
    OneOf(&'static [f64]),
    /// One of these words; its number is its place.
    Words(&'static [&'static str]),
    /// Any finite number from this one on.
    AtLeast(f64),
}

impl Allowed {
    /// Whether this value is among them.
    pub fn contains(self, value: f64) -> bool {
        match self {
            Allowed::OneOf(choices) => choices.contains(&value),
            Allowed::Words(words) => (0..words.len()).any(|place| place as f64 == value),
            Allowed::AtLeast(low) => value.is_finite() && value >= low,
        }
    }
}

impl OptionInfo {
    /// Its default value, as it would be written.
    pub fn default_word(&self) -> String {
        self.word(self.default)
    }

    /// A value that is allowed, as it would be written.
    fn word(&self, value: f64) -> String {
        match self.allowed {
            Allowed::Words(words) => words[value as usize].to_owned(),
            _ => value.to_string(),
        }
    }
}

/// The words that a task's option takes, each standing for its place; none if it takes numbers.
pub fn words(task: &str, option: &str) -> Option<&'static [&'static str]> {
    let option = find(task).ok()?.options.iter().find(|known| known.name == option)?;
    if let Allowed::Words(words) = option.allowed { Some(words) } else { None }
}

impl std::fmt::Display for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Allowed::OneOf(choices) => {
                let words: Vec<String> = choices.iter().map(f64::to_string).collect();
                write!(f, "one of {}", words.join(", "))
            }
            Allowed::Words(words) => write!(f, "one of {}", words.join(", ")),
            Allowed::AtLeast(low) => write!(f, "a finite number of at least {low}"),
        }
    }
}

/// Why a task could not be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TaskError {
    /// There is no task of this name.
    #[error("there is no task {name:?}; the tasks are {}", .known.join(", "))]
    UnknownTask {
        /// What was asked for.
        name: String,
        /// The names that exist.
        known: Vec<&'static str>,
    },
    /// A world that only Python can make.
    #[error("{name} is a world of Python, which this program cannot make: in Python, p3o.load(FOLDER) has its run")]
    OfPython {
        /// Its name.
        name: String,
    },
    /// The task has no option of this name.
    #[error("{task} has no option {name:?}; its options are {}", .known.join(", "))]
    UnknownOption {
        /// The task.
        task: &'static str,
        /// What was asked for.
        name: String,
        /// The names that exist.
        known: Vec<&'static str>,
    },
    /// The option does not take this value.
    #[error("{task}: {option} = {value} is not allowed; it must be {allowed}")]
    OutOfRange {
        /// The task.
        task: &'static str,
        /// The option.
        option: &'static str,
        /// The value that was asked for.
        value: f64,
        /// The values it takes.
        allowed: Allowed,
    },
    /// The option has no effect beside another's value.
    #[error("{task}: {option} has no effect where {of} is {value}; it needs {of} = {needs}")]
    NoEffect {
        /// The task.
        task: &'static str,
        /// The option.
        option: &'static str,
        /// The other option.
        of: &'static str,
        /// Its value, as it would be written.
        value: String,
        /// Its values where the option has an effect.
        needs: String,
    },
    /// The task has one agent, and several were asked for.
    #[error("{task} has one agent; the tasks of several agents are {}", .known.join(", "))]
    OneAgent {
        /// The task.
        task: &'static str,
        /// Those that have several.
        known: Vec<&'static str>,
    },
}

/// The option by which a task of several agents says what a joint action is.
pub const JOINT: &str = "joint";

/// The option by which a task that was laid out anew has its former layout too, as the first of its words.
pub const LAYOUT: &str = "layout";

/// The option by which a task has vases that move as they did before they were free bodies, as the first of its words.
pub const VASES: &str = "vases";

const GOAL_BONUS: OptionInfo = OptionInfo {
    name: "goal_bonus",
    default: 1.0,
    allowed: Allowed::AtLeast(0.0),
    summary: "reward added on reaching the goal; 0 leaves the decrease of distance alone",
    needs: None,
};

const LEVEL: OptionInfo = OptionInfo {
    name: "level",
    default: 1.0,
    allowed: Allowed::OneOf(&[0.0, 1.0, 2.0]),
    summary: "0: no obstacles; 1: 8 hazards; 2: 10 hazards and 10 vases, each with a cost",
    needs: None,
};

fn level(values: &Values) -> GoalLevel {
    match values.get("level") {
        0.0 => GoalLevel::Zero,
        2.0 => GoalLevel::Two,
        _ => GoalLevel::One,
    }
}

const VASES_MOVE: OptionInfo = OptionInfo {
    name: VASES,
    default: 2.0,
    allowed: Allowed::Words(&["simple", "free", "auto"]),
    summary: "of levels 1 and 2; simple: vases stop at once; free: they slide on and tip over as in Safety-Gymnasium; auto: free at level 2",
    needs: Some(("level", &[1.0, 2.0])),
};

fn vases(values: &Values) -> Vases {
    match values.get(VASES) {
        0.0 => Vases::Simple,
        1.0 => Vases::Free,
        _ => Vases::of(level(values)),
    }
}

const COSTS: OptionInfo = OptionInfo {
    name: "costs",
    default: 0.0,
    allowed: Allowed::Words(&["separate", "combined"]),
    summary: "of level 2; separate: hazards and vases; combined: one, 1 where either costs, as in Safety-Gymnasium",
    needs: Some(("level", &[2.0])),
};

const BUTTON_LEVEL: OptionInfo = OptionInfo {
    name: "level",
    default: 1.0,
    allowed: Allowed::OneOf(&[0.0, 1.0, 2.0]),
    summary: "0: 4 buttons alone, no costs; 1: 4 hazards and 4 gremlins; 2: 8 hazards and 6 gremlins",
    needs: None,
};

const BUTTON_COSTS: OptionInfo = OptionInfo {
    name: "costs",
    default: 1.0,
    allowed: Allowed::Words(&["separate", "combined"]),
    summary: "of levels 1 and 2; separate: wrong buttons, hazards and gremlins; combined: one, 1 where any of them costs, as in Safety-Gymnasium",
    needs: Some(("level", &[1.0, 2.0])),
};

fn button_level(values: &Values) -> ButtonLevel {
    match values.get("level") {
        0.0 => ButtonLevel::Zero,
        2.0 => ButtonLevel::Two,
        _ => ButtonLevel::One,
    }
}

/// Whose circle task it is.
const RULES: OptionInfo = OptionInfo {
    name: "rules",
    default: 0.0,
    allowed: Allowed::Words(&["paper", "circle1", "circle2"]),
    summary: "circle1, circle2: Safety-Gymnasium's task of that level in place of the paper's, with its robot and observation; no other option is then allowed",
    needs: None,
};

/// For options of the paper's circle tasks alone.
const BY_THE_PAPER: Option<(&str, &[f64])> = Some(("rules", &[0.0]));

/// What an option of a task needs to have an effect: another option and its values; none if it always has one.
pub fn needs(task: &TaskInfo, option: &str) -> Option<(&'static OptionInfo, &'static [f64])> {
    let named = |name: &str| task.options.iter().find(|option| option.name == name);
    let (of, values) = named(option)?.needs?;
    Some((named(of)?, values))
}

/// Whether a task has this option, and among these values of others it has an effect.
pub fn has_effect(task: &str, option: &str, options: &BTreeMap<String, f64>) -> bool {
    let Ok(task) = find(task) else { return false };
    let met = |(of, values): (&OptionInfo, &[f64])| values.contains(options.get(of.name).unwrap_or(&of.default));
    task.options.iter().any(|known| known.name == option) && needs(task, option).is_none_or(met)
}

/// Every task that comes with the crate.
pub static TASKS: &[TaskInfo] = &[
    TaskInfo {
        name: "PointGoal",
        summary: "drive to goal after goal without crossing hazards (Safety Gym's PointGoal)",
        options: &[
            LEVEL,
            GOAL_BONUS,
            OptionInfo {
                name: "hide",
                default: 0.0,
                allowed: Allowed::Words(&["nothing", "velocity"]),
                summary: "velocity: no accelerometer, velocimeter and gyro, so that only memory tells how fast the robot is",
                needs: None,
            },
            VASES_MOVE,
            COSTS,
        ],
        build: |values| {
            let level = level(values);
            let mut world = PointGoal::with_vases(level, vases(values)).with_goal_bonus(values.get("goal_bonus"));
            if values.get("costs") == 1.0 {
                world = world.with_combined_cost();
            }
            if values.get("hide") == 1.0 {
                world = world.with_hidden_velocity();
            }
            Box::new(world)
        },
        team: None,
    },
    TaskInfo {
        name: "Navigation",
        summary: "drive to goal after goal; hazards around the start and solid pillars outside cost separately",
        options: &[
            GOAL_BONUS,
            OptionInfo {
                name: LAYOUT,
                default: 1.0,
                allowed: Allowed::Words(&["scattered", "fence"]),
                summary: "how pillars stand: scattered, so that a learned policy drives around them, or as a fence that it has to pass",
                needs: None,
            },
            OptionInfo {
                name: "robot",
                default: 0.0,
                allowed: Allowed::Words(&["point", "car"]),
                summary: "point: the paper's; car: Safety-Gymnasium's Car, with 24 numbers of its own sensors in place of 12",
                needs: None,
            },
        ],
        build: |values| {
            let layout = if values.get(LAYOUT) == 0.0 { Pillars::Scattered } else { Pillars::Fence };
            let bonus = values.get("goal_bonus");
            if values.get("robot") == 1.0 {
                return Box::new(CarNavigation::with_pillars(layout).with_goal_bonus(bonus));
            }
            Box::new(Navigation::with_pillars(layout).with_goal_bonus(bonus))
        },
        team: None,
    },
    TaskInfo {
        name: "AntCircle",
        summary: "run around a circle on four legs without leaving a band (MuJoCo's Ant)",
        options: &[
            OptionInfo {
                name: "obs",
                default: 113.0,
                allowed: Allowed::OneOf(&[113.0, 29.0]),
                summary: "numbers in an observation; 29 leaves out the original's 84 zeros",
                needs: BY_THE_PAPER,
            },
            OptionInfo {
                name: "start",
                default: 0.0,
                allowed: Allowed::OneOf(&[0.0, 1.0]),
                summary: "0: anywhere on the circle; 1: at its centre",
                needs: BY_THE_PAPER,
            },
            OptionInfo {
                name: "one_sided",
                default: 0.0,
                allowed: Allowed::OneOf(&[0.0, 1.0]),
                summary: "0: |x| > 3 costs; 1: x > 3 costs",
                needs: BY_THE_PAPER,
            },
            RULES,
        ],
        build: |values| {
            if values.get("rules") > 0.0 {
                return Box::new(Circle::<SafetyAnt>::new("AntCircle", values.get("rules") as u8));
            }
            let start = if values.get("start") == 1.0 { CircleStart::Origin } else { CircleStart::Circle };
            let mut world = AntCircle::new(start);
            if values.get("obs") == 29.0 {
                world = world.with_short_observation();
            }
            if values.get("one_sided") == 1.0 {
                world = world.with_one_wall();
            }
            Box::new(world)
        },
        team: None,
    },
    TaskInfo {
        name: "PointCircle",
        summary: "run around a large circle between two lines (CPO's Point-Circle)",
        options: &[
            OptionInfo {
                name: "start",
                default: 0.0,
                allowed: Allowed::OneOf(&[0.0, 1.0]),
                summary: "0: at the origin; 1: anywhere on the circle",
                needs: BY_THE_PAPER,
            },
            RULES,
        ],
        build: |values| {
            if values.get("rules") > 0.0 {
                return Box::new(Circle::<Point>::new("PointCircle", values.get("rules") as u8));
            }
            let start = if values.get("start") == 0.0 { CircleStart::Origin } else { CircleStart::Circle };
            Box::new(PointCircle::new(start))
        },
        team: None,
    },
    TaskInfo {
        name: "PointGather",
        summary: "collect apples and leave the bombs (rllab's PointGather)",
        options: &[OptionInfo {
            name: "obs",
            default: 86.0,
            allowed: Allowed::OneOf(&[86.0, 29.0]),
            summary: "numbers in an observation; 86: rllab's full one; 29: the same without constants",
            needs: None,
        }],
        build: |values| {
            let obs = if values.get("obs") == 86.0 { GatherObs::Full } else { GatherObs::Compact };
            Box::new(PointGather::new(obs))
        },
        team: None,
    },
    TaskInfo {
        name: "SimpleSpread",
        summary: "agents go to their landmarks without colliding (OpenAI's simple_spread), one by one or by a joint action",
        options: &[
            OptionInfo {
                name: "agents",
                default: 3.0,
                allowed: Allowed::OneOf(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
                summary: "number of agents n, each with a landmark and five actions",
                needs: None,
            },
            OptionInfo {
                name: "semantics",
                default: 0.0,
                allowed: Allowed::OneOf(&[0.0, 1.0]),
                summary: "0: OpenAI's order of motion and actions; 1: MPE2's",
                needs: None,
            },
            OptionInfo {
                name: "cover",
                default: 0.0,
                allowed: Allowed::OneOf(&[0.0, 1.0]),
                summary: "0: each agent is paired with a landmark; 1: each landmark counts its nearest agent",
                needs: None,
            },
            OptionInfo {
                name: JOINT,
                default: 0.0,
                allowed: Allowed::Words(&["heads", "product"]),
                summary: "one policy for all agents chooses an action of each (heads) or one of the 5^n combinations (product)",
                needs: None,
            },
        ],
        build: |values| match values.get(JOINT) {
            0.0 => Box::new(Joint::new(spread(values))),
            _ => Box::new(Joint::product(spread(values))),
        },
        team: Some(|values| Box::new(Team::new(spread(values).with_own_first()))),
    },
    TaskInfo {
        name: "CarGoal",
        summary: "the same as PointGoal with a car on two wheels and a ball (Safety-Gymnasium's SafetyCarGoal1-v0)",
        options: &[LEVEL, GOAL_BONUS, VASES_MOVE, COSTS],
        build: |values| {
            let world = CarGoal::with_vases(level(values), vases(values)).with_goal_bonus(values.get("goal_bonus"));
            Box::new(if values.get("costs") == 1.0 { world.with_combined_cost() } else { world })
        },
        team: None,
    },
    TaskInfo {
        name: "CarCircle",
        summary: "run around a circle with a car without crossing lines (Safety-Gymnasium's SafetyCarCircle1-v0)",
        options: &[OptionInfo {
            name: "level",
            default: 1.0,
            allowed: Allowed::OneOf(&[1.0, 2.0]),
            summary: "1: |x| > 1.125 costs; 2: |y| > 1.125 too",
            needs: None,
        }],
        build: |values| Box::new(Circle::<Car>::new("CarCircle", values.get("level") as u8)),
        team: None,
    },
    TaskInfo {
        name: "PointButton",
        summary: "press button after button, only the right ones, among hazards and gremlins that move (Safety-Gymnasium's SafetyPointButton1-v0)",
        options: &[BUTTON_LEVEL, GOAL_BONUS, BUTTON_COSTS],
        build: |values| {
            let world = PointButton::new(button_level(values)).with_goal_bonus(values.get("goal_bonus"));
            Box::new(if values.get("costs") == 1.0 { world.with_combined_cost() } else { world })
        },
        team: None,
    },
    TaskInfo {
        name: "CarButton",
        summary: "the same as PointButton with a car on two wheels and a ball (Safety-Gymnasium's SafetyCarButton1-v0)",
        options: &[BUTTON_LEVEL, GOAL_BONUS, BUTTON_COSTS],
        build: |values| {
            let world = CarButton::new(button_level(values)).with_goal_bonus(values.get("goal_bonus"));
            Box::new(if values.get("costs") == 1.0 { world.with_combined_cost() } else { world })
        },
        team: None,
    },
    TaskInfo {
        name: "AntVelocity",
        summary: "run on four legs below a speed limit, and do not fall (Safety-Gymnasium's SafetyAntVelocity-v1)",
        options: &[],
        build: |_| Box::new(Velocity::new(Runner::Ant)),
        team: None,
    },
    TaskInfo {
        name: "HalfCheetahVelocity",
        summary: "run on two legs in a plane below a speed limit (Safety-Gymnasium's SafetyHalfCheetahVelocity-v1)",
        options: &[],
        build: |_| Box::new(Velocity::new(Runner::HalfCheetah)),
        team: None,
    },
    TaskInfo {
        name: "HopperVelocity",
        summary: "hop on one leg in a plane below a speed limit, and do not fall (Safety-Gymnasium's SafetyHopperVelocity-v1)",
        options: &[],
        build: |_| Box::new(Velocity::new(Runner::Hopper)),
        team: None,
    },
    TaskInfo {
        name: "Walker2dVelocity",
        summary: "walk on two legs in a plane below a speed limit, and do not fall (Safety-Gymnasium's SafetyWalker2dVelocity-v1)",
        options: &[],
        build: |_| Box::new(Velocity::new(Runner::Walker2d)),
        team: None,
    },
    TaskInfo {
        name: "SwimmerVelocity",
        summary: "swim in a plane below a speed limit (Safety-Gymnasium's SafetySwimmerVelocity-v1)",
        options: &[],
        build: |_| Box::new(Velocity::new(Runner::Swimmer)),
        team: None,
    },
    TaskInfo {
        name: "HumanoidVelocity",
        summary: "run on two legs below a speed limit, and do not fall (Safety-Gymnasium's SafetyHumanoidVelocity-v1)",
        options: &[],
        build: |_| Box::new(Velocity::new(Runner::Humanoid)),
        team: None,
    },
];

fn spread(values: &Values) -> SimpleSpread {
    let semantics = if values.get("semantics") == 0.0 { SpreadSemantics::OpenAi } else { SpreadSemantics::Mpe2 };
    let reward = if values.get("cover") == 0.0 { SpreadReward::Matched } else { SpreadReward::Cover };
    SimpleSpread::new(values.get("agents") as usize, semantics).with_reward(reward)
}

/// What stands before the names of worlds that come from Python, as their runs have them.
pub const OF_PYTHON: [&str; 3] = ["gymnasium:", "pettingzoo:", "python:"];

/// The task of this name.
pub fn find(name: &str) -> Result<&'static TaskInfo, TaskError> {
    if OF_PYTHON.iter().any(|prefix| name.starts_with(prefix)) {
        return Err(TaskError::OfPython { name: name.to_owned() });
    }
    TASKS.iter().find(|task| task.name == name).ok_or_else(|| TaskError::UnknownTask {
        name: name.to_owned(),
        known: TASKS.iter().map(|task| task.name).collect(),
    })
}

/// The tasks of several agents.
pub fn teams() -> Vec<&'static str> {
    TASKS.iter().filter(|task| task.has_team()).map(|task| task.name).collect()
}

/// Builds a task; options that are not given have their defaults. Several agents are steered by one joint action.
pub fn make(name: &str, options: &BTreeMap<String, f64>) -> Result<Box<dyn Env>, TaskError> {
    Ok(make_open(name, options)?)
}

/// The same with a state that can be set and read.
pub fn make_open(name: &str, options: &BTreeMap<String, f64>) -> Result<Box<dyn OpenEnv>, TaskError> {
    let values = check(name, options)?;
    Ok((values.task.build)(&values))
}

/// Builds a task of several agents side by side ([`Team`]).
pub fn make_team(name: &str, options: &BTreeMap<String, f64>) -> Result<Box<dyn Env>, TaskError> {
    let values = check(name, options)?;
    let build = values.task.team.ok_or(TaskError::OneAgent { task: values.task.name, known: teams() })?;
    Ok(build(&values))
}

fn check<'a>(name: &str, options: &'a BTreeMap<String, f64>) -> Result<Values<'a>, TaskError> {
    let task = find(name)?;
    for (name, &value) in options {
        let Some(option) = task.options.iter().find(|option| option.name == name) else {
            let known = task.options.iter().map(|option| option.name).collect();
            return Err(TaskError::UnknownOption { task: task.name, name: name.clone(), known });
        };
        if !option.allowed.contains(value) {
            let OptionInfo { name: option, allowed, .. } = *option;
            return Err(TaskError::OutOfRange { task: task.name, option, value, allowed });
        }
    }
    for option in task.options.iter().filter(|option| options.contains_key(option.name)) {
        if let Some((of, values)) = needs(task, option.name).filter(|_| !has_effect(task.name, option.name, options)) {
            let value = of.word(*options.get(of.name).unwrap_or(&of.default));
            let needs = values.iter().map(|value| of.word(*value)).collect::<Vec<_>>().join(" or ");
            return Err(TaskError::NoEffect { task: task.name, option: option.name, of: of.name, value, needs });
        }
    }
    Ok(Values { given: options, task })
}

/// The checked values of one task's options.
struct Values<'a> {
    given: &'a BTreeMap<String, f64>,
    task: &'static TaskInfo,
}

impl Values<'_> {
    fn get(&self, name: &str) -> f64 {
        let default = || self.task.options.iter().find(|option| option.name == name).map(|option| option.default);
        self.given.get(name).copied().or_else(default).expect("a task reads only options it declares")
    }
}
