//! Errors, with their location in a prompt file where there is one.

use std::fmt;

use yb_claude::sdk;

/// A location in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file name, as given.
    pub file: String,
    /// The line, from 1. 0 means the whole file.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => formatter.write_str(&self.file),
            line => write!(formatter, "{}:{line}:{}", self.file, self.column),
        }
    }
}

/// A prompt that can't be loaded, rendered or queried.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// A prompt file is invalid.
    #[error("{location}: {message}")]
    Template {
        /// The location.
        location: SourceLocation,
        /// The problem.
        message: String,
        /// A suggested fix.
        hint: Option<String>,
    },
    /// A file could not be read.
    #[error("failed to read `{path}`: {reason}")]
    Read {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The props do not match the prompt's `input_schema`.
    #[error("props do not match `input_schema` of `{prompt}`: {}", .findings.join("; "))]
    Props {
        /// The prompt name.
        prompt: String,
        /// All validation errors.
        findings: Vec<String>,
    },
    /// An option is invalid.
    #[error("`{field}`: {message}")]
    Invalid {
        /// The field name, as in the query options.
        field: String,
        /// The expected value.
        message: String,
    },
    /// The Claude Agent SDK does not support this output.
    #[error("the Claude Agent SDK can't generate {what}: `{prompt}`")]
    Unsupported {
        /// The requested kind.
        what: UnsupportedOutput,
        /// The prompt name.
        prompt: String,
    },
    /// The registry has no entry for the model.
    #[error("unknown model: `{name}`")]
    UnknownModel {
        /// The model name.
        name: String,
    },
    /// The prompt has another kind of output.
    #[error("expected a prompt with `{expected}`, found `{found}`: `{prompt}`")]
    WrongKind {
        /// The prompt name.
        prompt: String,
        /// The requested kind.
        expected: &'static str,
        /// The actual kind.
        found: &'static str,
    },
    /// The query failed.
    #[error(transparent)]
    Query(#[from] sdk::Error),
    /// The output does not match the prompt's schema.
    #[error("output does not match the schema: {}", .findings.join("; "))]
    Output {
        /// All validation errors.
        findings: Vec<String>,
    },
}

/// A kind of output that the Claude Agent SDK does not support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsupportedOutput {
    /// Images.
    Images,
    /// Speech.
    Speech,
}

impl UnsupportedOutput {
    /// Returns a suggested alternative.
    #[must_use]
    pub fn alternative(self) -> &'static str {
        match self {
            Self::Images => "call the API of an image model, or register it as a tool and use `text_config`",
            Self::Speech => {
                "call the API of a speech model with the text of a `text_config` prompt, or register it as a tool"
            }
        }
    }
}

impl fmt::Display for UnsupportedOutput {
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

    /// Returns hints for the user.
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

/// A source file.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Source {
    /// Creates an error at a byte offset.
    pub(crate) fn error(&self, at: usize, message: impl Into<String>) -> PromptError {
        let before = self.text.get(..floor_char_boundary(&self.text, at)).unwrap_or_default();
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
        let location = SourceLocation { file: self.name.clone(), line, column };
        PromptError::Template { location, message: message.into(), hint: None }
    }

    /// Returns a part of the text, or an empty string if an offset is not a character boundary.
    pub(crate) fn slice(&self, from: usize, to: usize) -> &str {
        self.text.get(from..to.max(from)).unwrap_or_default()
    }
}

/// Returns the last character boundary at or before a byte offset.
pub(crate) fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
