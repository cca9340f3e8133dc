//! What the numbers of observations and actions are, for whoever takes a policy elsewhere.

use serde::Serialize;

/// One number of an observation or an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Label {
    /// Its name; no two numbers of an observation, and no two of an action, have the same.
    pub name: String,
    /// What it is measured in; for a discrete action, what each index stands for.
    pub unit: String,
}

/// Every number in its order. A world that says nothing of itself has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Labels {
    /// Of an observation; for several agents side by side, of one agent's.
    pub observation: Vec<Label>,
    /// Of an action; for several agents side by side, of one agent's.
    pub action: Vec<Label>,
}

impl Labels {
    /// The same for `agents` agents one after another, each name with the agent's number before it.
    pub(crate) fn repeated(&self, agents: usize) -> Labels {
        let of_all = |labels: &[Label]| {
            let of = |agent| move |l: &Label| Label { name: format!("agent_{agent}_{}", l.name), unit: l.unit.clone() };
            (0..agents).flat_map(|agent| labels.iter().map(of(agent))).collect()
        };
        Labels { observation: of_all(&self.observation), action: of_all(&self.action) }
    }
}

/// Numbers in one unit: `of_x`, `of_y` and so on.
pub(crate) fn each<'a>(of: &'a str, parts: &'a [&'a str], unit: &'a str) -> impl Iterator<Item = Label> + 'a {
    parts.iter().map(move |part| Label { name: format!("{of}_{part}"), unit: unit.to_owned() })
}

/// Numbers in one unit, counted from zero: `of_0`, `of_1` and so on.
pub(crate) fn counted(of: &str, count: usize, unit: &str) -> impl Iterator<Item = Label> {
    (0..count).map(move |i| Label { name: format!("{of}_{i}"), unit: unit.to_owned() })
}
