//! Tables that describe the fields of a file. The checker and the JSON Schema are both derived from them.

use super::agent_spec::AgentSpecs;
use super::format::Format;

/// A mapping with known keys.
#[derive(Debug)]
pub struct Object {
    /// The name of its definition in the JSON Schema.
    pub name: &'static str,
    /// Its keys, in the order in which documentation lists them.
    pub fields: &'static [Field],
}

/// A key of a mapping.
#[derive(Debug)]
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// The type of the value.
    pub kind: Kind,
    /// The description that editors show.
    pub(crate) doc: &'static str,
    pub(crate) presence: Presence,
    /// The default value, as JSON.
    pub(crate) default: Option<&'static str>,
}

/// Whether a key may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Optional,
    /// Its absence is an error in a strict file and a warning in any other.
    Wanted,
    /// Its absence is an error.
    Required,
}

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A string, with bounds for its length in characters.
    Text {
        /// The minimum length.
        min: usize,
        /// The maximum length.
        max: usize,
        /// The format of the string.
        format: Format,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// The name of an agent.
    AgentType,
    /// `true` or `false`.
    Bool,
    /// An integer.
    Whole {
        /// The minimum, inclusive.
        min: i64,
        /// The maximum, inclusive.
        max: i64,
    },
    /// A number.
    Number {
        /// The minimum.
        min: f64,
        /// The maximum, inclusive.
        max: f64,
        /// Whether the minimum is exclusive.
        above: bool,
    },
    /// Milliseconds, or a string such as `90s`.
    Duration {
        /// Whether zero is allowed.
        zero: bool,
    },
    /// A list.
    List {
        /// The type of its items.
        of: &'static Kind,
        /// The minimum number of items.
        min: usize,
    },
    /// A mapping with arbitrary keys.
    Map {
        /// The format of its keys.
        names: Format,
        /// The type of its values.
        of: &'static Kind,
    },
    /// A mapping with known keys.
    Object(&'static Object),
    /// A mapping with known keys that are checked only after it was merged with another.
    Part(&'static Object),
    /// The first of these types that accepts the YAML type of the value.
    Either(&'static [Kind]),
    /// Any value.
    Any,
}

impl Object {
    /// The field with this key.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Iterates over the names of the keys.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}

impl Field {
    /// Creates an optional key with the description that editors show.
    #[must_use]
    pub const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, kind, doc, presence: Presence::Optional, default: None }
    }

    /// Makes the key required.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.presence = Presence::Required;
        self
    }

    /// Makes the key required in strict files; elsewhere its absence is a warning.
    pub(crate) const fn wanted(mut self) -> Self {
        self.presence = Presence::Wanted;
        self
    }

    /// Sets the default value that the JSON Schema shows, as JSON.
    #[must_use]
    pub const fn default(mut self, json: &'static str) -> Self {
        self.default = Some(json);
        self
    }
}

/// A non-empty string.
pub const TEXT: Kind = text(1, usize::MAX);
/// A duration above zero.
pub const MILLISECONDS: Kind = Kind::Duration { zero: false };
/// A list of strings, which may be empty.
pub const TEXTS: Kind =
    Kind::List { of: &Kind::Text { min: 0, max: usize::MAX, format: Format::Any }, min: 0 };
/// A mapping with arbitrary keys and values.
pub const FREE: Kind = Kind::Map { names: Format::Any, of: &Kind::Any };
/// A non-negative integer.
pub const COUNT: Kind = Kind::Whole { min: 0, max: i64::MAX };
/// A number from 0 to 1.
pub const SHARE: Kind = Kind::Number { min: 0.0, max: 1.0, above: false };
/// A non-negative number.
pub const NON_NEGATIVE: Kind = Kind::Number { min: 0.0, max: f64::MAX, above: false };
/// A non-empty string, or a non-empty list of them.
pub const ONE_OR_MORE: Kind = Kind::Either(&[TEXT, Kind::List { of: &TEXT, min: 1 }]);
/// A relative path that can't leave its directory.
pub const RELATIVE_PATH: Kind = formatted(500, Format::RelativePath);
/// A list of globs that can't leave their directory.
pub const GLOBS: Kind = Kind::List { of: &formatted(500, Format::Glob), min: 0 };
/// Environment variables: a mapping from names to values, or a list of names to pass on.
pub const ENVIRONMENT: Kind = Kind::Either(&[
    Kind::Map { names: Format::EnvName, of: &text(0, usize::MAX) },
    Kind::List { of: &formatted(200, Format::EnvName), min: 0 },
]);

/// Returns the type of a string with these bounds for its length in characters.
#[must_use]
pub const fn text(min: usize, max: usize) -> Kind {
    Kind::Text { min, max, format: Format::Any }
}

/// Returns the type of a non-empty string with a maximum length and a format.
#[must_use]
pub const fn formatted(max: usize, format: Format) -> Kind {
    Kind::Text { min: 1, max, format }
}

impl Kind {
    /// Returns the text of the `expected` line in messages.
    pub(crate) fn expected(&self, agents: &AgentSpecs) -> String {
        match *self {
            Self::Text { format, .. } if format != Format::Any => format.expected().to_owned(),
            Self::Text { min: 0, max: usize::MAX, .. } => "a string".to_owned(),
            Self::Text { max: usize::MAX, .. } => "a non-empty string".to_owned(),
            Self::Text { min, max, .. } => format!("a string of {min} to {max} characters"),
            Self::Word(words) => format!("one of {}", list_of(words.iter().copied())),
            Self::AgentType => format!("one of {}", list_of(agents.names())),
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Whole { min, max } if max == i64::MAX => format!("an integer, at least {min}"),
            Self::Whole { min, max } if min == max => format!("`{min}`"),
            Self::Whole { min, max } => format!("an integer from {min} to {max}"),
            Self::Number { min: f64::MIN, max: f64::MAX, .. } => "a number".to_owned(),
            Self::Number { min, max, above } if max == f64::MAX => {
                format!("a number {} {min}", if above { "above" } else { "of at least" })
            }
            Self::Number { min, max, .. } => format!("a number from {min} to {max}"),
            Self::Duration { zero } => {
                let none = if zero { "0 for no limit, " } else { "" };
                format!("a duration: {none}milliseconds such as `300000`, or a string such as `5m`")
            }
            Self::List { of, min } => {
                let least = if min > 0 { format!(" of at least {min}") } else { String::new() };
                match of {
                    Self::Any => format!("a list{least}"),
                    of => format!("a list{least}, each {}", of.expected(agents)),
                }
            }
            Self::Map { .. } => "a mapping".to_owned(),
            Self::Object(object) | Self::Part(object) => {
                format!("a mapping with {}", list_of(object.names().take(4)))
            }
            Self::Either(kinds) => {
                kinds.iter().map(|kind| kind.expected(agents)).collect::<Vec<_>>().join(", or ")
            }
            Self::Any => "a value".to_owned(),
        }
    }
}

/// Formats a list of words: `a`, `b`, `c`.
pub(crate) fn list_of<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
