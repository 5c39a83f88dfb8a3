//! Texts that must never be on a tape, and the names that stand for them.

use std::fmt;

use crate::swap::{Ends, Swap};

/// Secrets by name. Their values are never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Vec<(String, String)>);

impl Secrets {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One more; an empty value is left out.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((name.into(), value));
        }
        self
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn swap(&self) -> Swap {
        let pairs = self.0.iter().map(|(name, value)| (value.clone(), format!("[REDACTED:{name}]")));
        Swap::new(pairs, Ends::Anywhere)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
