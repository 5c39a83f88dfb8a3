//! Specs of evaluators: the static description of each evaluator that a case may name.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::reader::ConfigReader;
use crate::shape::Object;
use crate::types::EnvVar;

/// The static description of an evaluator: its name, its configuration, and the function that parses it.
///
/// The file that implements an evaluator declares its spec. Validation, the JSON Schemas and `yb list evaluators` are
/// all derived from it.
#[derive(Debug)]
pub struct EvaluatorSpec {
    /// The name that cases use. A case may append a label after `-` or `:`, as in `command-lint`.
    pub name: &'static str,
    /// One line for `yb list evaluators`.
    pub summary: &'static str,
    /// The data that it reads.
    pub input: EvaluatorInput,
    /// The fields of its `config`.
    pub config: &'static Object,
    /// Parses its `config`, which was checked against the fields before. Returns `None` after it reported an error.
    pub read: fn(&mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>>,
}

/// The data that an evaluator reads, from the cheapest to the most expensive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvaluatorInput {
    /// The log of the agent.
    Log,
    /// The start tree and the end tree in the object store.
    Objects,
    /// A checkout of the end tree that is made for this evaluator alone.
    Tree,
}

impl EvaluatorInput {
    /// Returns the word that `yb list evaluators --json` prints.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Objects => "objects",
            Self::Tree => "tree",
        }
    }
}

/// The parsed configuration of an evaluator.
pub trait EvaluatorConfig: fmt::Debug + Send + Sync {
    /// Returns whether it asserts nothing, so that it always passes.
    fn is_vacuous(&self) -> bool {
        false
    }

    /// Returns the environment variables that it reads.
    fn variables(&self) -> &[EnvVar] {
        &[]
    }

    /// Returns the value for downcasting, by which the crate that runs evaluators gets its own type back.
    fn as_any(&self) -> &dyn Any;
}

/// The evaluators that a case may name.
#[derive(Debug, Clone, Default)]
pub struct EvaluatorSpecs {
    specs: Vec<&'static EvaluatorSpec>,
}

impl EvaluatorSpecs {
    /// Creates a list without evaluators.
    #[must_use]
    pub const fn new() -> Self {
        Self { specs: Vec::new() }
    }

    /// Adds an evaluator. It replaces one of the same name.
    #[must_use]
    pub fn with(mut self, spec: &'static EvaluatorSpec) -> Self {
        match self.specs.iter_mut().find(|known| known.name == spec.name) {
            Some(known) => *known = spec,
            None => self.specs.push(spec),
        }
        self
    }

    /// Returns the evaluator that a name in a case refers to: `command`, `command-lint` and `command:lint` are all
    /// `command`. The longest name wins.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'static EvaluatorSpec> {
        let matches = |spec: &&&'static EvaluatorSpec| {
            name.strip_prefix(spec.name)
                .is_some_and(|label| label.is_empty() || label.starts_with(['-', ':']))
        };
        self.specs.iter().filter(matches).max_by_key(|spec| spec.name.len()).copied()
    }

    /// Iterates over the evaluators in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &'static EvaluatorSpec> {
        self.specs.iter().copied()
    }

    /// Iterates over the names of the evaluators.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.iter().map(|spec| spec.name)
    }
}

impl FromIterator<&'static EvaluatorSpec> for EvaluatorSpecs {
    fn from_iter<I: IntoIterator<Item = &'static EvaluatorSpec>>(specs: I) -> Self {
        specs.into_iter().fold(Self::new(), Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static CONFIG: Object = Object { name: "none", fields: &[] };

    const fn spec(name: &'static str, summary: &'static str) -> EvaluatorSpec {
        EvaluatorSpec { name, summary, input: EvaluatorInput::Log, config: &CONFIG, read: |_| None }
    }

    static SHORT: EvaluatorSpec = spec("files", "short");
    static LONG: EvaluatorSpec = spec("files-exact", "long");
    static OTHER: EvaluatorSpec = spec("files", "other");

    #[test]
    fn spec_is_found_by_name_with_label() {
        let specs = EvaluatorSpecs::new().with(&SHORT).with(&LONG);
        let summary = |name: &str| specs.get(name).map(|spec| spec.summary);
        assert_eq!(summary("files"), Some("short"));
        assert_eq!(summary("files-x"), Some("short"));
        assert_eq!(summary("files:exact"), Some("short"));
        assert_eq!(summary("files-exact"), Some("long"));
        assert_eq!(summary("files-exact-x"), Some("long"));
        assert_eq!(summary("filesystem"), None);
        assert_eq!(summary(""), None);
    }

    #[test]
    fn spec_replaces_one_of_the_same_name() {
        let specs = EvaluatorSpecs::new().with(&SHORT).with(&LONG).with(&OTHER);
        assert_eq!(specs.iter().map(|spec| spec.summary).collect::<Vec<_>>(), ["other", "long"]);
    }
}
