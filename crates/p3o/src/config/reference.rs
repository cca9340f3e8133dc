//! All settings as one Markdown page, from the same tables that read and check them.

use super::schema::{Needs, Section};
use super::{Agents, Config, Method, PRESETS, Preset, plain};
use crate::algo::Algorithm;
use std::fmt::Write;

/// The text of docs/settings.md.
pub fn reference() -> String {
    let mut text = String::from(HEAD);
    let base = Config::base("", Method::from(Algorithm::P3o));
    let own = base.algorithm().info().name;
    for (name, section) in base.sections().into_iter().filter(|(name, _)| *name != own) {
        write_section(&mut text, &format!("[{name}]"), about(name), name, section);
        if name == "constraint" {
            text += FORMS;
        }
    }
    for &algorithm in Algorithm::ALL {
        let (info, own) = (algorithm.info(), algorithm.settings());
        write_section(&mut text, &format!("[{}]", info.name), info.summary, info.name, own.section());
    }
    let _ = write!(text, "{AGENTS}");
    for agents in [Agents::Single, Agents::Centralised, Agents::Decentralised] {
        let names = Method::all().into_iter().filter(|m| m.agents == agents).map(|m| format!("`{m}`"));
        let _ = writeln!(text, "| `{}` | {} |", agents.word(), names.collect::<Vec<_>>().join(", "));
    }
    for (name, _) in PRESETS {
        let preset = Preset::named(name).expect("a listed preset");
        let _ = write!(text, "\n## Preset `{name}`\n\n{}.\n", capital(&preset.about));
        for layer in &preset.layers {
            let whom = [&layer.tasks, &layer.algos, &layer.agents].into_iter().flatten().cloned().collect::<Vec<_>>();
            let mut whom = if whom.is_empty() { "everything".to_string() } else { whom.join(", ") };
            if layer.from_steps > 0 {
                whom += &format!("; from {} steps on", layer.from_steps);
            }
            let set: Vec<String> = layer.set.iter().map(|(key, value)| format!("`{key}={}`", plain(value))).collect();
            let _ = write!(text, "\n**{}** (for {whom}): {}.\n{}.\n", layer.name, set.join(", "), capital(&layer.why));
        }
    }
    text
}

const HEAD: &str = "\
# Settings

Made by `p3o settings --markdown`; `p3o settings TASK --algo NAME --preset NAME` shows the values of a run and where each comes from.

A run's settings are the base values below, the layers of its preset over them (the end of this page), and single changes over both:
`--set section.name=value`, `--limit COST=NUMBER`, `--seed`, `--steps`. Task, algorithm and preset are chosen first and cannot be set.
Settings of an algorithm stand in its own section; a setting of another algorithm is refused. Options of a task are
`env.NAME` (`p3o list` shows them), limits `limits.COST`. `config.toml` in a run's folder is complete and carries the version of its format.

Base values that measurements chose, on PointGoal at 10^6 steps, seed 0, return at cost with the limit 25 ([experiments](experiments.md)): 14.7 at 19.4 with
all of them; `rollout.cost_lambda` 0.97 instead of 0.5: 20.5 at 34.6; `p3o.kappa` 20 instead of 2: 8.1 at 18.7; without `rollout.normalize_obs`: 4.5 at 28.1;
`constraint.form` per_step instead of scaled: 17.0 at 20.4; with `critic.normalize`: 14.6 at 24.1. IPO with `ipo.barrier` 1000 came to 13.0 at 24.3, with 20 to 0.65 at
13.0. The others are the values that PPO, TRPO and the algorithms' authors commonly use.
";

const FORMS: &str = "
The forms, for an episode of T steps that costs J against the limit d; sigma is the standard deviation of the batch's cost advantages:

| form | J from | offset beside the surrogate | cost advantage | reward advantage |
|---|---|---|---|---|
| `literal` | ended episodes | (1 - gamma)(J - d) | standardised | standardised |
| `scaled` | cost per step times T | (1 - gamma)(J - d) / sigma | standardised | standardised |
| `per_step` | cost per step times T | (J - d) / (T sigma) | standardised | standardised |
| `centred` | cost per step times T | (J - d) / T | its mean taken off | standardised |
| `raw` | ended episodes | (J - d) / T | its mean taken off | as it is |

`literal` is the paper to the letter. With `raw` kappa is in the units of reward per cost, as the theorem's multipliers are.

With `constraint.sum=discounted` J is the mean over ended episodes of the sum of gamma^t c_t, as in FOCOPS's code, in every form, and T in an offset is what
an episode's steps count then, (1 - gamma^T) / (1 - gamma). Limits are to be given as discounted sums too; summaries and evaluations still take the plain sum of an episode.

A team of N agents moves J by T times the sum of its agents' surrogates, and the surrogate is their mean: with `constraint.team=together` every offset is divided
by N, so that the constraint is zero where the team's J is at the limit. With `alone` it is not, as in the paper: all N agents then close the whole gap each.
";

const AGENTS: &str = "
## Several agents

`--algo` names an algorithm and how it is applied to the agents of a world; `config.toml` keeps the two apart as `algo` and `agents`.

| `agents` | `--algo` |
|---|---|
";

fn about(section: &str) -> &'static str {
    match section {
        "run" => "a run as a whole",
        "rollout" => "how experience is gathered",
        "net" => "the networks: an actor and a critic per signal, alike but for their outputs",
        "policy" => "the policy's update: what all algorithms share",
        "constraint" => "how a cost is held against its limit",
        _ => "the critics' update",
    }
}

fn write_section(text: &mut String, title: &str, about: &str, name: &str, section: &dyn Section) {
    let _ = write!(text, "\n## `{title}`: {about}\n\n| setting | base | takes | meaning |\n|---|---|---|---|\n");
    for field in section.fields() {
        let value = plain(&section.get(field.name).expect("a section has its own fields"));
        let whom = match field.needs {
            Needs::Nothing => "",
            Needs::FirstOrder => " First-order algorithms only.",
            Needs::Constraints => " Algorithms that keep limits only.",
        };
        let _ = writeln!(text, "| `{name}.{}` | `{value}` | {} | {}{whom} |", field.name, field.takes, field.about());
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
