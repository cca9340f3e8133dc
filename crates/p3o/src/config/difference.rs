//! In what two runs differ.

use super::Config;
use std::collections::BTreeSet;
use toml::Value;

impl Config {
    /// The first setting in which two runs differ, as each has it. The name of the preset that they came from may differ.
    pub fn difference(&self, other: &Config) -> Option<(String, String)> {
        self.all_differences(other).into_iter().next()
    }

    /// All of them.
    pub fn all_differences(&self, other: &Config) -> Vec<(String, String)> {
        let (own, others) = (values(self), values(other));
        let value = |values: &[(String, Value)], key: &str| {
            values.iter().find(|(k, _)| k == key).map(|(_, value)| value.clone())
        };
        let mut seen = BTreeSet::new();
        let keys = own.iter().chain(&others).map(|(key, _)| key).filter(|key| seen.insert(*key));
        let show = |key: &str, value: Option<Value>| {
            value.map_or_else(|| format!("no {key}"), |value| format!("{key} = {value}"))
        };
        let both = keys.map(|key| (key, value(&own, key), value(&others, key)));
        both.filter(|(_, a, b)| a != b).map(|(key, a, b)| (show(key, a), show(key, b))).collect()
    }
}

/// Everything that decides a run's numbers, by name.
fn values(config: &Config) -> Vec<(String, Value)> {
    let words = [("task", config.task.clone()), ("algo", config.method().to_string())];
    let words = words.map(|(key, word)| (key.to_string(), Value::String(word)));
    let tables = [("env", &config.env), ("limits", &config.limits)];
    let numbers = tables
        .into_iter()
        .flat_map(|(table, numbers)| numbers.iter().map(move |(key, x)| (format!("{table}.{key}"), Value::Float(*x))));
    let settings = config.settings().into_iter().map(|setting| (setting.key(), setting.value));
    words.into_iter().chain(numbers).chain(settings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algo::Algorithm;
    use crate::config::Request;

    #[test]
    fn the_first_setting_that_differs_is_named() {
        let p3o = Request::new("PointGoal", Algorithm::P3o.into()).resolve().unwrap().config;
        let changed = |assignment: &str| {
            let mut config = p3o.clone();
            config.set(assignment).unwrap();
            p3o.difference(&config)
        };
        let pair = |a: &str, b: &str| Some((a.to_string(), b.to_string()));
        assert_eq!(p3o.difference(&p3o), None);
        assert_eq!(changed("p3o.kappa=3"), pair("p3o.kappa = 4.0", "p3o.kappa = 3.0"));
        assert_eq!(changed("limits.hazards=30"), pair("limits.hazards = 25.0", "limits.hazards = 30.0"));
        assert_eq!(changed("limits.hazards=none"), pair("limits.hazards = 25.0", "no limits.hazards"));
        assert_eq!(changed("env.level=2"), pair("no env.level", "env.level = 2.0"));
        // An algorithm has settings of its own; that it is another one comes first.
        let cpo = Request::new("PointGoal", Algorithm::Cpo.into()).resolve().unwrap().config;
        assert_eq!(p3o.difference(&cpo), pair("algo = \"p3o\"", "algo = \"cpo\""));
        let preset = Config { preset: "paper".into(), ..p3o.clone() };
        assert_eq!(p3o.difference(&preset), None);
    }
}
