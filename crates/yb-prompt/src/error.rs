//! Why a prompt can't become a query, with its place where there is one.

use std::fmt;

use yb_claude::sdk;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named.
    pub file: String,
    /// From 1; 0 is the whole file.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => formatter.write_str(&self.file),
            line => write!(formatter, "{}:{line}:{}", self.file, self.column),
        }
    }
}

/// Why a prompt can't become a query.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// Something is wrong in a prompt file.
    #[error("{place}: {message}")]
    Template {
        /// Where.
        place: Place,
        /// What.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// A file can't be read.
    #[error("failed to read `{path}`: {reason}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The props do not satisfy the prompt's `input_schema`.
    #[error("the props do not satisfy `input_schema` of `{prompt}`: {}", .findings.join("; "))]
    Props {
        /// The prompt.
        prompt: String,
        /// Everything that is wrong.
        findings: Vec<String>,
    },
    /// A value breaks one of the rules of validation.
    #[error("`{field}`: {message}")]
    Invalid {
        /// The field, as the query's options call it.
        field: String,
        /// What was expected.
        message: String,
    },
    /// Claude Code can't do this at all.
    #[error("the Claude Agent SDK can't make {what}: `{prompt}`")]
    Unsupported {
        /// What was asked for.
        what: Unsupported,
        /// The prompt.
        prompt: String,
    },
    /// No pattern, provider or default of the registry knows the model.
    #[error("no model of the registry is called `{name}`")]
    UnknownModel {
        /// The model.
        name: String,
    },
    /// The file is a prompt of another kind.
    #[error("`{prompt}` has a `{found}`, expected a `{expected}`")]
    WrongKind {
        /// The prompt.
        prompt: String,
        /// What was asked for.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// The conversation with the CLI failed.
    #[error(transparent)]
    Query(#[from] sdk::Error),
    /// The answer does not satisfy the prompt's schema.
    #[error("the answer does not satisfy the schema: {}", .findings.join("; "))]
    Answer {
        /// Everything that is wrong.
        findings: Vec<String>,
    },
}

/// A kind of output that the Claude Agent SDK does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// Pictures.
    Images,
    /// Spoken words.
    Speech,
}

impl Unsupported {
    /// What to do instead.
    #[must_use]
    pub fn alternative(self) -> &'static str {
        match self {
            Self::Images => {
                "call the API of an image model, or offer one to the agent as a tool and use `text_config`"
            }
            Self::Speech => {
                "call the API of a speech model with the text of a `text_config` prompt, or offer one as a tool"
            }
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Images => "images",
            Self::Speech => "speech",
        })
    }
}

impl PromptError {
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), message: message.into() }
    }

    pub(crate) fn with_hint(mut self, text: impl Into<String>) -> Self {
        if let Self::Template { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }

    /// What the user can do about it.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Template { hint, .. } => hint.iter().cloned().collect(),
            Self::Unsupported { what, .. } => vec![what.alternative().to_owned()],
            Self::UnknownModel { .. } => {
                vec!["register it, its provider, or a default: `ModelRegistry::create_default()`".to_owned()]
            }
            Self::Query(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}

/// The text of a file, which knows its places.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Source {
    /// A mistake at a byte of the text.
    pub(crate) fn error(&self, at: usize, message: impl Into<String>) -> PromptError {
        let before = self.text.get(..floor(&self.text, at)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        self.error_in_line(line, column, message)
    }

    pub(crate) fn error_in_line(
        &self,
        line: usize,
        column: usize,
        message: impl Into<String>,
    ) -> PromptError {
        let place = Place { file: self.name.clone(), line, column };
        PromptError::Template { place, message: message.into(), hint: None }
    }

    /// A part of the text; nothing where a border is none.
    pub(crate) fn slice(&self, from: usize, to: usize) -> &str {
        self.text.get(from..to.max(from)).unwrap_or_default()
    }
}

/// The last border of characters that is not after a byte.
pub(crate) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
