//! What is wrong or doubtful about options: field by field, with the way out.

use std::fmt;

/// One thing that is wrong or doubtful about one field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The field, as [`Options`](crate::Options) calls it; an element of a list with its position, `tools[2]`.
    pub field: String,
    /// What was expected there, or what will happen instead.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl Finding {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), hint: hint.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`: {}", self.field, self.message)
    }
}

/// Options that can't become a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// Fields break a rule; all of them are listed.
    #[error("invalid options: {}", listed(.0))]
    Invalid(Vec<Finding>),
    /// A value is too large for one argument or variable, and there is no other way for it.
    #[error("{what} has {bytes} bytes, at most {limit} are possible")]
    TooLarge {
        /// The flag or variable.
        what: String,
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// A NUL byte, which no argument and no variable can carry.
    #[error("{what} contains a NUL byte")]
    NulByte {
        /// The flag or variable.
        what: String,
    },
}

impl OptionsError {
    /// What to do about it, one way out in each line.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Invalid(findings) => {
                findings.iter().map(|finding| format!("`{}`: {}", finding.field, finding.hint)).collect()
            }
            Self::TooLarge { .. } => vec!["make it shorter, or use an option that names a file".to_owned()],
            Self::NulByte { .. } => vec!["remove it".to_owned()],
        }
    }
}

fn listed(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("; ")
}
