//! Errors and warnings about option fields, with hints.

use std::fmt;

/// An error or warning about one option field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionIssue {
    /// The name of the [`Options`](crate::Options) field; list elements have an index: `tools[2]`.
    pub field: String,
    /// The expected value, or the actual effect.
    pub message: String,
    /// How to fix it.
    pub hint: String,
}

impl OptionIssue {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), hint: hint.into() }
    }
}

impl fmt::Display for OptionIssue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`: {}", self.field, self.message)
    }
}

/// The error for options that can't be converted to an invocation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// Invalid fields; all of them are listed.
    #[error("invalid options: {}", listed(.0))]
    Invalid(Vec<OptionIssue>),
    /// A value is too large for an argument or variable and can't be passed as a file.
    #[error("{what} is too large ({bytes} bytes, maximum {limit})")]
    TooLarge {
        /// The flag or variable.
        what: String,
        /// Its size.
        bytes: usize,
        /// The maximum size.
        limit: usize,
    },
    /// A value contains a NUL byte, which arguments and variables can't hold.
    #[error("{what} contains a NUL byte")]
    NulByte {
        /// The flag or variable.
        what: String,
    },
}

impl OptionsError {
    /// Returns hints for fixing the error, one per line.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Invalid(issues) => {
                issues.iter().map(|issue| format!("`{}`: {}", issue.field, issue.hint)).collect()
            }
            Self::TooLarge { .. } => vec!["shorten it, or use an option that takes a file".to_owned()],
            Self::NulByte { .. } => vec!["remove the NUL byte".to_owned()],
        }
    }
}

fn listed(issues: &[OptionIssue]) -> String {
    issues.iter().map(OptionIssue::to_string).collect::<Vec<_>>().join("; ")
}
