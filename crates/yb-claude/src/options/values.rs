//! The enums that options consist of.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Map, Value};

/// The error for a value that is not in the set of an enum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected one of {expected}: `{found}`")]
pub struct UnknownValue {
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// Declares an enum with its command-line spelling and its parser.
macro_rules! string_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the command-line spelling.
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
pub(crate) use string_enum;

string_enum! {
    /// The output format of the CLI.
    #[derive(Default)]
    OutputFormat {
        /// One JSON message per line, streamed. The only format that takes a prompt verbatim.
        #[default]
        StreamJson = "stream-json",
        /// Only the result, as one JSON object.
        Json = "json",
        /// Only the final text.
        Text = "text",
    }
}

string_enum! {
    /// The reasoning effort of the model.
    Effort {
        /// Low effort.
        Low = "low",
        /// Medium effort.
        Medium = "medium",
        /// High effort.
        High = "high",
        /// Extra high effort.
        Xhigh = "xhigh",
        /// Maximum effort.
        Max = "max",
    }
}

string_enum! {
    /// A source of settings.
    SettingSource {
        /// User settings.
        User = "user",
        /// Shared project settings.
        Project = "project",
        /// Local project settings.
        Local = "local",
    }
}

string_enum! {
    /// How thinking is shown.
    ThinkingDisplay {
        /// Summarized.
        Summarized = "summarized",
        /// Omitted.
        Omitted = "omitted",
    }
}

/// The thinking mode. New models decide themselves, regardless of this setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Thinking {
    /// The model decides.
    Adaptive,
    /// At most this many tokens. Ignored by models with adaptive thinking.
    Budget(u32),
    /// No thinking.
    Disabled,
}

/// The system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SystemPrompt {
    /// Claude Code's default system prompt.
    #[default]
    Preset,
    /// A text that replaces it; may be empty.
    Text(String),
    /// A file whose content replaces it.
    File(PathBuf),
}

/// A text, or a file that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextSource {
    /// The text.
    Text(String),
    /// The file.
    File(PathBuf),
}

/// The skills of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skills {
    /// All skills that the CLI finds.
    All,
    /// Skills by name; `plugin:skill` for those of a plugin.
    Named(Vec<String>),
}

impl Skills {
    /// Returns the permission rules.
    pub(crate) fn rules(&self) -> Vec<String> {
        match self {
            Self::All => vec!["Skill".to_owned()],
            Self::Named(names) => names.iter().map(|name| format!("Skill({name})")).collect(),
        }
    }

    /// Returns the names; none for all skills.
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::All => &[],
            Self::Named(names) => names,
        }
    }
}

/// Additional settings.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Settings {
    /// Inline settings.
    Json(Map<String, Value>),
    /// A settings file.
    File(PathBuf),
}

/// Shows only the keys, because settings may hold secrets.
impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(map) => formatter.debug_set().entries(map.keys()).finish(),
            Self::File(path) => formatter.debug_tuple("File").field(path).finish(),
        }
    }
}

/// The session of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Session {
    /// A new session with a generated ID.
    #[default]
    New,
    /// A new session with this ID, a unique UUID.
    WithId(String),
    /// Resumes a session by ID or title.
    Resume(String),
    /// Resumes the latest session of the working directory, or starts a new one.
    Continue,
    /// Resumes a copy of a session, which itself stays unchanged.
    Fork {
        /// The ID of the original session; `None` means the latest of the working directory.
        of: Option<String>,
        /// The UUID of the copy; `None` means a generated ID.
        id: Option<String>,
    },
}

impl Session {
    /// Interprets an ID: a UUID starts a new session, anything else resumes an existing one.
    pub fn from_id(id: impl Into<String>) -> Self {
        let id = id.into();
        if is_uuid(&id) { Self::WithId(id) } else { Self::Resume(id) }
    }
}

/// Whether the text has the format of a UUID, which is all that the CLI checks.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The agent of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Agent {
    /// An agent defined in [`Options::agents`](crate::Options::agents).
    Defined(String),
    /// A built-in agent or one from a plugin. With stream input, the CLI silently ignores an unknown name.
    KnownToCli(String),
}

impl Agent {
    /// Returns the agent's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Defined(name) | Self::KnownToCli(name) => name,
        }
    }
}
