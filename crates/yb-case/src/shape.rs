//! The words in which the fields of a file are described, once: the decoder checks by them and the schema is made of them.

use super::format::Format;

/// A mapping with known keys.
#[derive(Debug)]
pub(crate) struct Object {
    /// What it is called in the schema.
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
}

/// A key of a mapping.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// What an editor shows.
    pub(crate) doc: &'static str,
    pub(crate) need: Need,
    /// What holds without it, as JSON.
    pub(crate) default: Option<&'static str>,
}

/// Whether a key must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Optional,
    /// Without it a strict file is wrong, and any other gets a warning.
    Wanted,
    Required,
}

/// What a value must be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// A text with so many characters.
    Text {
        min: usize,
        max: usize,
        format: Format,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    Bool,
    /// A whole number.
    Whole {
        min: i64,
        max: i64,
    },
    /// A number; `above` leaves out the minimum itself.
    Number {
        min: f64,
        max: f64,
        above: bool,
    },
    /// Milliseconds, or a text such as `90s`.
    Duration {
        zero: bool,
    },
    List {
        of: &'static Kind,
        min: usize,
    },
    /// A mapping whose keys are free names.
    Map {
        names: Format,
        of: &'static Kind,
    },
    Object(&'static Object),
    /// The same, whose keys are checked once it is merged with others.
    Part(&'static Object),
    /// Whichever of these fits the kind of value that is there.
    Either(&'static [Kind]),
    /// Anything at all.
    Any,
}

impl Object {
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}

impl Field {
    pub(crate) const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, kind, doc, need: Need::Optional, default: None }
    }

    pub(crate) const fn required(mut self) -> Self {
        self.need = Need::Required;
        self
    }

    pub(crate) const fn wanted(mut self) -> Self {
        self.need = Need::Wanted;
        self
    }

    pub(crate) const fn default(mut self, json: &'static str) -> Self {
        self.default = Some(json);
        self
    }
}

/// Any text that is not empty.
pub(crate) const TEXT: Kind = text(1, usize::MAX);
/// Milliseconds above 0.
pub(crate) const MILLISECONDS: Kind = Kind::Duration { zero: false };
pub(crate) const TEXTS: Kind =
    Kind::List { of: &Kind::Text { min: 0, max: usize::MAX, format: Format::Any }, min: 0 };
/// A mapping from names to anything.
pub(crate) const FREE: Kind = Kind::Map { names: Format::Any, of: &Kind::Any };

pub(crate) const fn text(min: usize, max: usize) -> Kind {
    Kind::Text { min, max, format: Format::Any }
}

pub(crate) const fn formatted(max: usize, format: Format) -> Kind {
    Kind::Text { min: 1, max, format }
}

impl Kind {
    /// What a message says that was expected.
    pub(crate) fn expected(&self) -> String {
        match *self {
            Self::Text { format, .. } if format != Format::Any => format.expected().to_owned(),
            Self::Text { min: 0, max: usize::MAX, .. } => "a text".to_owned(),
            Self::Text { max: usize::MAX, .. } => "a text that is not empty".to_owned(),
            Self::Text { min, max, .. } => format!("a text of {min} to {max} characters"),
            Self::Word(words) => format!("one of {}", list_of(words.iter().copied())),
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
                    of => format!("a list{least}, each {}", of.expected()),
                }
            }
            Self::Map { .. } => "a mapping".to_owned(),
            Self::Object(object) | Self::Part(object) => {
                format!("a mapping with {}", list_of(object.names().take(4)))
            }
            Self::Either(kinds) => kinds.iter().map(Self::expected).collect::<Vec<_>>().join(", or "),
            Self::Any => "a value".to_owned(),
        }
    }
}

/// `a`, `b`, `c`
pub(crate) fn list_of<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
