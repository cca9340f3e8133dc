//! What a setting is: a typed field with a name, a line of documentation and the values it takes. One table per section is
//! written with `settings!`; reading, writing, checking and documenting all go by these tables.

use crate::algo::Info;
use crate::error::{ConfigError, suggest};
use toml::Value;

/// One setting of a section.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name within the section.
    pub name: &'static str,
    /// What it does, in one line; it starts with a space, as doc comments do.
    pub doc: &'static str,
    /// Which values it takes.
    pub takes: Takes,
    /// Which algorithms it is for.
    pub needs: Needs,
}

impl Field {
    /// What it does, in one line.
    pub fn about(&self) -> &'static str {
        self.doc.trim()
    }
}

/// Which values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Takes {
    /// A whole number between these.
    Count(u64, u64),
    /// A number between these; an upper end of the largest number means that there is none.
    Number(f64, f64),
    /// true or false.
    Switch,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A list of whole numbers, each between these.
    Widths(u64, u64),
}

/// Which algorithms a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// All.
    Nothing,
    /// Those that make several steps along gradients.
    FirstOrder,
    /// Those that keep limits.
    Constraints,
}

impl Needs {
    /// Whether an algorithm has the setting.
    pub fn met_by(self, algorithm: &Info) -> bool {
        match self {
            Needs::Nothing => true,
            Needs::FirstOrder => algorithm.order == crate::algo::Order::First,
            Needs::Constraints => algorithm.constraints != crate::algo::Constraints::None,
        }
    }
}

impl std::fmt::Display for Takes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Takes::Count(low, high) if high >= i64::MAX as u64 => write!(f, "a whole number of at least {low}"),
            Takes::Count(low, high) => write!(f, "a whole number between {low} and {high}"),
            Takes::Number(low, high) if high >= f64::MAX => write!(f, "a number of at least {low}"),
            Takes::Number(low, high) => write!(f, "a number between {low} and {high}"),
            Takes::Switch => write!(f, "true or false"),
            Takes::Words(words) => write!(f, "{}", words.join(", ")),
            Takes::Widths(low, high) => write!(f, "whole numbers between {low} and {high} such as [64,64]"),
        }
    }
}

impl Takes {
    /// Reads a value of the right kind; whether it is in range is another question.
    pub fn parse(self, key: &str, text: &str) -> Result<Value, ConfigError> {
        let wrong = |takes: &str| ConfigError::WrongKind { key: key.into(), takes: takes.into(), given: text.into() };
        Ok(match self {
            Takes::Count(..) => Value::Integer(count(text).ok_or_else(|| wrong("a whole number"))?),
            Takes::Switch => Value::Boolean(text.parse().map_err(|_| wrong("true or false"))?),
            Takes::Words(_) => Value::String(within(text, '"', '"').unwrap_or(text).to_string()),
            Takes::Widths(..) => Value::Array(widths(text).ok_or_else(|| wrong("whole numbers such as [64,64]"))?),
            Takes::Number(..) => Value::Float(number(text).ok_or_else(|| wrong("a finite number"))?),
        })
    }

    /// Whether a value is of the right kind and in range.
    pub fn check(self, key: &str, value: &Value) -> Result<(), ConfigError> {
        let within = |ok: bool| {
            let (key, given) = (key.to_string(), value.to_string());
            if ok { Ok(()) } else { Err(ConfigError::OutOfRange { key, takes: self.to_string(), given }) }
        };
        match (self, value) {
            (Takes::Count(low, high), Value::Integer(n)) => {
                within(u64::try_from(*n).is_ok_and(|n| (low..=high).contains(&n)))
            }
            (Takes::Number(low, high), Value::Float(x)) => within(x.is_finite() && *x >= low && *x <= high),
            (Takes::Number(low, high), Value::Integer(n)) => within((low..=high).contains(&(*n as f64))),
            (Takes::Switch, Value::Boolean(_)) => Ok(()),
            (Takes::Words(words), Value::String(word)) => known(key, word, words.iter().copied()),
            (Takes::Widths(low, high), Value::Array(items)) => {
                let ok = |v: &Value| {
                    v.as_integer().and_then(|n| u64::try_from(n).ok()).is_some_and(|n| n >= low && n <= high)
                };
                within(items.iter().all(ok))
            }
            _ => Err(ConfigError::WrongKind { key: key.into(), takes: self.to_string(), given: value.to_string() }),
        }
    }
}

/// A group of settings.
pub trait Section {
    /// Its settings.
    fn fields(&self) -> &'static [Field];
    /// The value of one.
    fn get(&self, name: &str) -> Option<Value>;
    /// Changes one; false if there is none of this name or the value is of another kind.
    fn set(&mut self, name: &str, value: &Value) -> bool;
}

/// A type that settings have.
pub trait SettingValue: Sized {
    /// As it is written.
    fn to_value(&self) -> Value;
    /// As it was read.
    fn from_value(value: &Value) -> Option<Self>;
}

impl SettingValue for f64 {
    fn to_value(&self) -> Value {
        Value::Float(*self)
    }
    fn from_value(value: &Value) -> Option<Self> {
        value.as_float().or_else(|| value.as_integer().map(|n| n as f64))
    }
}

impl SettingValue for usize {
    fn to_value(&self) -> Value {
        Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
    fn from_value(value: &Value) -> Option<Self> {
        value.as_integer().and_then(|n| usize::try_from(n).ok())
    }
}

impl SettingValue for u64 {
    fn to_value(&self) -> Value {
        Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
    fn from_value(value: &Value) -> Option<Self> {
        value.as_integer().and_then(|n| u64::try_from(n).ok())
    }
}

impl SettingValue for bool {
    fn to_value(&self) -> Value {
        Value::Boolean(*self)
    }
    fn from_value(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl SettingValue for Vec<usize> {
    fn to_value(&self) -> Value {
        Value::Array(self.iter().map(SettingValue::to_value).collect())
    }
    fn from_value(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(usize::from_value).collect()
    }
}

/// A section: a struct whose fields are settings with their base values and what they take.
macro_rules! settings {
    ($(#[$about:meta])* $section:ident {
        $($(#[doc = $doc:literal])+ $name:ident: $type:ty = $base:expr, $takes:expr $(, $needs:ident)?;)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $section {
            $($(#[doc = $doc])+ pub $name: $type,)*
        }

        impl Default for $section {
            fn default() -> Self {
                $section { $($name: $base,)* }
            }
        }

        impl $crate::config::schema::Section for $section {
            fn fields(&self) -> &'static [$crate::config::schema::Field] {
                #[allow(unused_imports)]
                use $crate::config::schema::{Field, Needs, Takes::*};
                const FIELDS: &[Field] = &[$(Field {
                    name: stringify!($name),
                    doc: concat!($($doc),+),
                    takes: $takes,
                    needs: $crate::config::schema::needs!($($needs)?),
                },)*];
                FIELDS
            }

            fn get(&self, name: &str) -> Option<toml::Value> {
                #[allow(unused_imports)]
                use $crate::config::schema::SettingValue;
                match name {
                    $(stringify!($name) => Some(self.$name.to_value()),)*
                    _ => None,
                }
            }

            fn set(&mut self, name: &str, value: &toml::Value) -> bool {
                #[allow(unused_imports)]
                use $crate::config::schema::SettingValue;
                match name {
                    $(stringify!($name) => match SettingValue::from_value(value) {
                        Some(value) => {
                            self.$name = value;
                            true
                        }
                        None => false,
                    },)*
                    _ => false,
                }
            }
        }
    };
}
pub(crate) use settings;

/// What a setting needs; nothing unless said.
macro_rules! needs {
    () => {
        Needs::Nothing
    };
    ($needs:ident) => {
        Needs::$needs
    };
}
pub(crate) use needs;

/// An enum whose values are written as words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$about])* $variant,)* }

        impl $name {
            /// All of them, as they are written.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// As it is written.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// The one that is written so.
            pub fn of(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }

        impl $crate::config::schema::SettingValue for $name {
            fn to_value(&self) -> toml::Value {
                toml::Value::String(self.word().to_string())
            }
            fn from_value(value: &toml::Value) -> Option<Self> {
                Self::of(value.as_str()?)
            }
        }
    };
}
pub(crate) use words;

/// What stands between two signs.
fn within(text: &str, open: char, close: char) -> Option<&str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

/// `[64,64]`, or `64,64` for short; `[]` has none.
fn widths(text: &str) -> Option<Vec<Value>> {
    let inside = within(text, '[', ']');
    match inside.map(str::trim) {
        Some("") => Some(Vec::new()),
        _ => inside.unwrap_or(text).split(',').map(|s| count(s.trim()).map(Value::Integer)).collect(),
    }
}

/// A whole number, also written as 2e6.
pub fn count(text: &str) -> Option<i64> {
    if let Ok(n) = text.replace('_', "").parse::<i64>() {
        return (n >= 0).then_some(n);
    }
    let x: f64 = text.parse().ok()?;
    (x >= 0.0 && x.fract() == 0.0 && x < 9e15).then_some(x as i64)
}

/// A finite number. A zero has no sign, so that equal settings are written alike.
pub(super) fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|x: &f64| x.is_finite()).map(|x| x + 0.0)
}

/// Whether a name is among those there are; if not, the nearest of them is proposed.
pub fn known<'a>(kind: &str, name: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> Result<(), ConfigError> {
    if names.clone().into_iter().any(|n| n == name) {
        return Ok(());
    }
    let there_is = names.clone().into_iter().map(String::from).collect();
    Err(ConfigError::Unknown { kind: kind.into(), name: name.into(), hint: suggest(name, names), there_is })
}
