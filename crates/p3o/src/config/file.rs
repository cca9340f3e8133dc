//! A configuration as a TOML file, complete and with the version of its format.

use super::{Agents, Config, Method, Setting, known, upgrade};
use crate::algo::Algorithm;
use crate::error::ConfigError;
use std::collections::BTreeMap;
use std::fmt::Write;
use toml::{Table, Value};

/// The version that this program writes. A new setting raises it by one and adds to `upgrade.rs` what older files mean.
pub const VERSION: i64 = 6;

impl Config {
    /// Writes it all, as [`Config::from_toml`] reads it.
    pub fn to_toml(&self) -> String {
        let mut text = format!("version = {VERSION}\n");
        let words = [("task", &*self.task), ("algo", self.algorithm().info().name), ("agents", self.agents.word())];
        for (key, word) in words.into_iter().chain([("preset", &*self.preset)]) {
            let _ = writeln!(text, "{key} = {}", Value::String(word.to_string()));
        }
        for (name, numbers) in [("env", &self.env), ("limits", &self.limits)] {
            let table: Table = numbers.iter().map(|(key, value)| (key.clone(), Value::Float(*value))).collect();
            let _ = write!(text, "\n[{name}]\n{table}");
        }
        let mut last = "";
        for Setting { section, field, value } in self.settings() {
            if section != last {
                let _ = write!(text, "\n[{section}]\n");
                last = section;
            }
            let _ = writeln!(text, "{} = {value}", field.name);
        }
        text
    }

    /// Reads a complete configuration of this or an older version.
    pub fn from_toml(text: &str) -> Result<Config, ConfigError> {
        let table: Table = toml::from_str(text).map_err(|e| ConfigError::Syntax {
            line: e.span().map_or(1, |s| text[..s.start].matches('\n').count() + 1),
            message: e.message().lines().next().unwrap_or_default().to_string(),
        })?;
        match table.get("version") {
            None => upgrade::version_1(text),
            Some(Value::Integer(old @ 2..VERSION)) => {
                let old = *old;
                let table = if old < 4 { upgrade::settings_of_version_3(table) } else { table };
                let table = if old < 5 { upgrade::settings_of_version_4(table) } else { table };
                let mut config = Reader { text, table: upgrade::settings_of_version_5(table) }.read();
                if old < 5 {
                    config = config.map(upgrade::version_4);
                }
                if old < 4 {
                    config = config.map(upgrade::version_3);
                }
                if old == 2 { config.map(upgrade::version_2) } else { config }
            }
            Some(Value::Integer(VERSION)) => Reader { text, table }.read(),
            Some(Value::Integer(newer)) if *newer > VERSION => {
                Err(ConfigError::Newer { version: *newer, known: VERSION })
            }
            Some(other) => Err(ConfigError::Unknown {
                kind: "version".into(),
                name: other.to_string(),
                hint: String::new(),
                there_is: (2..=VERSION).map(|version| version.to_string()).collect(),
            }),
        }
    }
}

/// A parsed file on its way to a configuration.
struct Reader<'a> {
    text: &'a str,
    table: Table,
}

impl Reader<'_> {
    fn read(mut self) -> Result<Config, ConfigError> {
        self.table.remove("version");
        let (task, preset) = (self.word("task")?, self.word("preset")?);
        let algo = self.word("algo")?;
        let names = Algorithm::ALL.iter().map(|a| a.info().name);
        known("algorithm", &algo, names).map_err(|e| self.at("", "algo", e))?;
        let algorithm = *Algorithm::ALL.iter().find(|a| a.info().name == algo).expect("it is known");
        let word = self.word("agents")?;
        known("agents", &word, Agents::WORDS.iter().copied()).map_err(|e| self.at("", "agents", e))?;
        let agents = Agents::of(&word).expect("it is known");
        let mut config = Config { preset, ..Config::base(&task, Method { algorithm, agents }) };
        config.env = self.numbers("env")?;
        config.limits = self.numbers("limits")?;
        let mut missing = None;
        for setting in config.settings() {
            let (key, Setting { section, field, .. }) = (setting.key(), setting);
            let found = self.table.get_mut(section).and_then(Value::as_table_mut).and_then(|t| t.remove(field.name));
            match found {
                Some(value) => config.assign(&key, field, &value).map_err(|e| self.at(section, field.name, e))?,
                None => drop(missing.get_or_insert(key)),
            }
        }
        // A name that is left over says more than the one that is missing for it.
        self.nothing_left(&config)?;
        missing.map_or(Ok(config), |key| Err(ConfigError::Missing(key)))
    }

    fn word(&mut self, key: &str) -> Result<String, ConfigError> {
        match self.table.remove(key) {
            Some(Value::String(word)) => Ok(word),
            Some(other) => {
                let wrong =
                    ConfigError::WrongKind { key: key.into(), takes: "a word".into(), given: other.to_string() };
                Err(self.at("", key, wrong))
            }
            None => Err(ConfigError::Missing(key.to_string())),
        }
    }

    fn numbers(&mut self, section: &str) -> Result<BTreeMap<String, f64>, ConfigError> {
        let table = match self.table.remove(section) {
            Some(Value::Table(table)) => table,
            Some(other) => {
                let (key, given) = (section.to_string(), other.to_string());
                let wrong = ConfigError::WrongKind { key, takes: "a group of numbers".into(), given };
                return Err(self.at("", section, wrong));
            }
            None => return Err(ConfigError::Missing(section.to_string())),
        };
        let number = |(key, value): (String, Value)| match value.as_float().or(value.as_integer().map(|n| n as f64)) {
            Some(number) => Ok((key, number)),
            None => {
                let (name, given) = (format!("{section}.{key}"), value.to_string());
                Err(self.at(section, &key, ConfigError::WrongKind { key: name, takes: "a number".into(), given }))
            }
        };
        table.into_iter().map(number).collect()
    }

    /// What is left over is no setting of this run: those have been taken out.
    fn nothing_left(&self, config: &Config) -> Result<(), ConfigError> {
        let none = "a setting of this run would have been taken out";
        for (key, value) in &self.table {
            let (section, name) = match value {
                Value::Table(section) => match section.keys().next() {
                    Some(name) => (key.as_str(), name),
                    None if config.sections().iter().any(|(section, _)| section == key) => continue,
                    None => ("", key),
                },
                _ => ("", key),
            };
            let whole = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
            return Err(self.at(section, name, config.find(&whole).expect_err(none)));
        }
        Ok(())
    }

    /// The error with the line of its setting.
    fn at(&self, section: &str, name: &str, error: ConfigError) -> ConfigError {
        let mut here = String::new();
        for (i, line) in self.text.lines().enumerate() {
            let line = line.trim();
            if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                here = header.trim().trim_matches('"').to_string();
            }
            let names = line.split_once('=').is_some_and(|(key, _)| key.trim().trim_matches('"') == name);
            if here == section && names {
                return ConfigError::AtLine { line: i + 1, error: Box::new(error) };
            }
        }
        error
    }
}
