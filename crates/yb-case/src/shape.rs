//! The types that describe the fields of a file once: the decoder checks by them and the schema is generated from them.

use super::agent_spec::AgentSpecs;
use super::format::Format;

/// A mapping with known keys.
#[derive(Debug)]
pub struct Object {
    /// Its name in the JSON Schema, unique among all objects.
    pub name: &'static str,
    /// Its keys.
    pub fields: &'static [Field],
}

/// A key of a mapping.
#[derive(Debug)]
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// The values that are allowed.
    pub kind: Kind,
    /// The description that editors show.
    pub doc: &'static str,
    /// Whether the key must be present.
    pub need: Need,
    /// The default value, as JSON.
    pub default: Option<&'static str>,
}

/// Whether a key must be present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It may be left out.
    Optional,
    /// Its absence is an error in a strict file and a warning in a lenient one.
    Wanted,
    /// Its absence is an error.
    Required,
}

/// The values that are allowed.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A text.
    Text {
        /// The fewest characters.
        min: usize,
        /// The most characters.
        max: usize,
        /// Its form.
        format: Format,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// The name of an agent.
    AgentType,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Whole {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A number.
    Number {
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
        /// Whether the minimum itself is excluded.
        above: bool,
    },
    /// Milliseconds, or a text such as `90s`.
    Duration {
        /// Whether 0 is allowed.
        zero: bool,
    },
    /// A list.
    List {
        /// Its elements.
        of: &'static Kind,
        /// The fewest elements.
        min: usize,
    },
    /// A mapping whose keys are free names.
    Map {
        /// The form of the keys.
        names: Format,
        /// The values.
        of: &'static Kind,
    },
    /// A mapping with known keys.
    Object(&'static Object),
    /// A mapping whose keys are checked after it was merged with others.
    Part(&'static Object),
    /// The first of these that fits the type of the value.
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

    /// The keys.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}

impl Field {
    /// An optional field.
    #[must_use]
    pub const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, kind, doc, need: Need::Optional, default: None }
    }

    /// Makes the field required.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.need = Need::Required;
        self
    }

    /// Makes the field [`Need::Wanted`].
    #[must_use]
    pub const fn wanted(mut self) -> Self {
        self.need = Need::Wanted;
        self
    }

    /// Sets the default value, as JSON.
    #[must_use]
    pub const fn default(mut self, json: &'static str) -> Self {
        self.default = Some(json);
        self
    }
}

/// Any text that is not empty.
pub const TEXT: Kind = text(1, usize::MAX);
/// Milliseconds above 0.
pub const MILLISECONDS: Kind = Kind::Duration { zero: false };
/// A list of texts.
pub const TEXTS: Kind =
    Kind::List { of: &Kind::Text { min: 0, max: usize::MAX, format: Format::Any }, min: 0 };
/// A mapping from names to anything.
pub const FREE: Kind = Kind::Map { names: Format::Any, of: &Kind::Any };

/// A text of `min` to `max` characters.
#[must_use]
pub const fn text(min: usize, max: usize) -> Kind {
    Kind::Text { min, max, format: Format::Any }
}

/// A text of 1 to `max` characters in a form.
#[must_use]
pub const fn formatted(max: usize, format: Format) -> Kind {
    Kind::Text { min: 1, max, format }
}

impl Kind {
    /// A description of the allowed values, for messages.
    pub(crate) fn expected(&self, agents: &AgentSpecs) -> String {
        match *self {
            Self::Text { format, .. } if format != Format::Any => format.expected().to_owned(),
            Self::Text { min: 0, max: usize::MAX, .. } => "a text".to_owned(),
            Self::Text { max: usize::MAX, .. } => "a text that is not empty".to_owned(),
            Self::Text { min, max, .. } => format!("a text of {min} to {max} characters"),
            Self::Word(words) => format!("one of {}", list_of(words.iter().copied())),
            Self::AgentType => format!("one of {}", list_of(agents.names())),
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Whole { min, max } if max == i64::MAX => format!("a whole number, at least {min}"),
            Self::Whole { min, max } if min == max => format!("`{min}`"),
            Self::Whole { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number { min: f64::MIN, max: f64::MAX, .. } => "a number".to_owned(),
            Self::Number { min, max, above } if max == f64::MAX => {
                format!("a number {} {min}", if above { "above" } else { "of at least" })
            }
            Self::Number { min, max, .. } => format!("a number from {min} to {max}"),
            Self::Duration { zero } => {
                let sign = if zero { "0 for none, " } else { "" };
                format!("a time: {sign}milliseconds such as `300000`, or a text such as `5m`")
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

/// `a`, `b`, `c`
pub(crate) fn list_of<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
