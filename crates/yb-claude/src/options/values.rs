//! The closed sets and small sums that options are made of.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Map, Value};

/// A text that is none of the values of its set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected one of {expected}: `{found}`")]
pub struct UnknownValue {
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// A set of words: the enum, its spelling on the command line, and reading it back.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// How the command line spells it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownValue;

            fn from_str(text: &str) -> Result<Self, UnknownValue> {
                let words = [$($word,)+];
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| UnknownValue {
                    expected: words.map(|word| format!("`{word}`")).join(", "),
                    found: text.to_owned(),
                })
            }
        }
    };
}
pub(crate) use words;

words! {
    /// What the CLI prints.
    #[derive(Default)]
    OutputFormat {
        /// Every message as a line of JSON, as it happens. The only one that takes a prompt verbatim.
        #[default]
        StreamJson = "stream-json",
        /// The result alone, as one JSON object.
        Json = "json",
        /// The answer alone.
        Text = "text",
    }
}

words! {
    /// How much effort the model makes.
    Effort {
        /// Little.
        Low = "low",
        /// The middle.
        Medium = "medium",
        /// Much.
        High = "high",
        /// More than much.
        Xhigh = "xhigh",
        /// All it has.
        Max = "max",
    }
}

words! {
    /// Where settings are read from.
    SettingSource {
        /// The user's own.
        User = "user",
        /// Those of the project, shared by all who work on it.
        Project = "project",
        /// Those of the project that are not shared.
        Local = "local",
    }
}

words! {
    /// What is shown of the model's thoughts.
    ThinkingDisplay {
        /// A summary.
        Summarized = "summarized",
        /// Nothing.
        Omitted = "omitted",
    }
}

/// Whether the model thinks before it answers. New models decide for themselves whatever is said here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Thinking {
    /// As much as the model likes.
    Adaptive,
    /// Up to a number of tokens. Only models before the adaptive ones obey it.
    Budget(u32),
    /// Not at all.
    Disabled,
}

/// The system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SystemPrompt {
    /// Claude Code's own.
    #[default]
    Preset,
    /// This text instead; it may be empty.
    Text(String),
    /// What stands in this file instead.
    File(PathBuf),
}

/// A text, or the file in which it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextSource {
    /// The text.
    Text(String),
    /// The file.
    File(PathBuf),
}

/// Settings on top of those that are found.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Settings {
    /// These.
    Json(Map<String, Value>),
    /// Those in a file.
    File(PathBuf),
}

/// Settings may hold variables and helpers with secrets; only the names of the keys are shown.
impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(map) => formatter.debug_set().entries(map.keys()).finish(),
            Self::File(path) => formatter.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Which conversation a run belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Session {
    /// A new one, whose id the CLI makes.
    #[default]
    New,
    /// A new one with this id, a UUID that no other session has.
    WithId(String),
    /// One that exists goes on, under its id or title.
    Resume(String),
    /// The latest of the working directory goes on; a new one, when there is none.
    Continue,
    /// A copy of another goes on, and the other stays as it is.
    Fork {
        /// The id of the other; without one the latest of the working directory.
        of: Option<String>,
        /// The copy's id, a UUID; without one the CLI makes it.
        id: Option<String>,
    },
}

impl Session {
    /// What a bare id means: a UUID names a new session, anything else an existing one.
    pub fn from_id(id: impl Into<String>) -> Self {
        let id = id.into();
        if is_uuid(&id) { Self::WithId(id) } else { Self::Resume(id) }
    }
}

/// Whether a text has the form of a UUID, which is all that the CLI asks for.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The agent that a session runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Agent {
    /// One whose definition is in [`Options::agents`](crate::Options::agents).
    Defined(String),
    /// One that the CLI is trusted to know: built in, or from a plugin. With stream input it ignores a name that it
    /// does not know and works as itself, which is why this is a choice of its own.
    KnownToCli(String),
}

impl Agent {
    /// The agent's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Defined(name) | Self::KnownToCli(name) => name,
        }
    }
}
