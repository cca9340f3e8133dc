//! The algorithms: pure functions of a batch. Nothing here does IO, knows an environment or starts a thread.
//!
//! A file is an algorithm: its equations, its own settings, its columns of progress.csv, what it needs, and its `update`.
//! To add one, write the file and add its line to `algorithms!` below.

mod descent;
pub mod multiplier;
pub mod natural;
mod report;

pub use descent::{Foresight, Objective, descend};
pub(crate) use report::mean_rows;
pub use report::{Column, Passes};

use crate::batch::TrainingBatch;
use crate::config::{self, Section};
use crate::engine::PolicyEngine;
use multiplier::Multiplier;
use rand_chacha::ChaCha8Rng;

/// What an algorithm is and needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Info {
    /// Its name on a command line and in files.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// How many limits it can keep.
    pub constraints: Constraints,
    /// Which derivatives of the policy it takes.
    pub order: Order,
    /// Whether it has a multiplier for each constraint.
    pub multipliers: bool,
}

/// How many limits an algorithm can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraints {
    /// It ignores costs.
    None,
    /// One.
    One,
    /// Any number.
    Any,
}

/// Which derivatives of the policy an algorithm takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Gradients alone; several passes of Adam, over the whole batch or mini-batches.
    First,
    /// Products with the Fisher matrix too; one step with a line search. Feed-forward networks only.
    Second,
}

impl Info {
    /// Whether several agents can train by it: their networks are recurrent as a rule.
    pub fn several_agents(&self) -> bool {
        self.order == Order::First
    }
}

/// What a policy's update is given. Signals are numbered: 0 is the reward, 1 and up are the constraints.
pub struct Update<'a> {
    /// Where the networks are.
    pub engine: &'a mut dyn PolicyEngine,
    /// The batch with the advantages of every signal.
    pub batch: &'a TrainingBatch,
    /// What stands beside the mean cost surrogate in each L_C_i.
    pub offsets: &'a [f64],
    /// J_C_i - d_i, the cost of an episode over its limit.
    pub excess: &'a [f64],
    /// d_i
    pub limits: &'a [f64],
    /// The settings that all algorithms share.
    pub settings: &'a config::Policy,
    /// The learning rate of this update.
    pub learning_rate: f64,
    /// One per constraint where the algorithm has multipliers, none elsewhere. They outlive the update.
    pub multipliers: &'a mut [Multiplier],
    /// For the order of mini-batches.
    pub rng: &'a mut ChaCha8Rng,
}

/// The closed list of algorithms. Every match on it is exhaustive, so a new line is asked for wherever it matters.
macro_rules! algorithms {
    ($($variant:ident in $module:ident,)*) => {
        $(pub mod $module;)*

        /// The algorithms.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Algorithm { $(#[doc = concat!("See `algo/", stringify!($module), ".rs`.")] $variant,)* }

        /// An algorithm with its own settings.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Settings { $(#[doc = concat!("See `algo/", stringify!($module), ".rs`.")] $variant($module::Settings),)* }

        impl Algorithm {
            /// All of them.
            pub const ALL: &'static [Algorithm] = &[$(Algorithm::$variant),*];

            /// What it is and needs.
            pub fn info(self) -> &'static Info {
                match self { $(Algorithm::$variant => &$module::INFO,)* }
            }

            /// Its own settings at their base values.
            pub fn settings(self) -> Settings {
                match self { $(Algorithm::$variant => Settings::$variant(Default::default()),)* }
            }

            /// Its own columns of progress.csv.
            pub fn columns(self) -> &'static [Column] {
                match self { $(Algorithm::$variant => $module::COLUMNS,)* }
            }
        }

        impl Settings {
            /// Whose they are.
            pub fn algorithm(&self) -> Algorithm {
                match self { $(Settings::$variant(_) => Algorithm::$variant,)* }
            }

            /// As a group of settings.
            pub fn section(&self) -> &dyn Section {
                match self { $(Settings::$variant(own) => own,)* }
            }

            /// As a group of settings to be changed.
            pub fn section_mut(&mut self) -> &mut dyn Section {
                match self { $(Settings::$variant(own) => own,)* }
            }

            /// One update of the policy.
            pub fn update(&self, update: &mut Update) -> Passes {
                match self { $(Settings::$variant(own) => $module::update(own, update),)* }
            }
        }
    };
}

algorithms! {
    P3o in p3o,
    Ppo in ppo,
    PpoLag in ppo_lag,
    Focops in focops,
    Ipo in ipo,
    Trpo in trpo,
    TrpoLag in trpo_lag,
    Cpo in cpo,
    Pcpo in pcpo,
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.info().name)
    }
}

/// Mean of a batch, summed in f64 in order.
pub(crate) fn mean(values: &[f32]) -> f64 {
    values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len() as f64
}
