//! The reader that an evaluator's spec parses its configuration with.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;

use crate::agent_spec::AgentSpecs;
use crate::build::environment;
use crate::check::{Mode, join};
use crate::files::{self, FileError};
use crate::hook::texts;
use crate::prompt;
use crate::time::milliseconds;
use crate::types::EnvVar;
use yb_yaml::diagnostic::{Diagnostic, Diagnostics, quoted};
use yb_yaml::{Entry, Node, Span, Value};

/// Reads the `config` of one evaluator, and reports errors with their positions.
///
/// The configuration was checked against the fields of the spec before, so a value of a wrong type was reported already
/// and reads as absent. Keys are given as paths below `config`, such as `assertions.max_turns`.
#[derive(Debug)]
pub struct ConfigReader<'a, 's> {
    pub(super) config: &'a Node,
    /// The path of the evaluator in the file.
    pub(super) path: &'a str,
    /// The position of the evaluator's name.
    pub(super) at: Span,
    pub(super) dir: &'a Path,
    pub(super) has_expected: bool,
    pub(super) mode: Mode,
    pub(super) agents: &'a AgentSpecs,
    pub(super) found: &'a mut Diagnostics<'s>,
}

impl<'a> ConfigReader<'a, '_> {
    /// Returns the whole configuration; an empty mapping if there is none.
    #[must_use]
    pub fn config(&self) -> &'a Node {
        self.config
    }

    /// Returns the directory of the case file, from which relative paths start.
    #[must_use]
    pub fn dir(&self) -> &'a Path {
        self.dir
    }

    /// Returns the agents that a file may name.
    #[must_use]
    pub fn agents(&self) -> &'a AgentSpecs {
        self.agents
    }

    /// Returns whether the case names an expected result.
    #[must_use]
    pub fn has_expected(&self) -> bool {
        self.has_expected
    }

    /// Returns the value of a key, unless it is absent or null.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a Node> {
        key.split('.').try_fold(self.config, |node, step| node.get(step))
    }

    /// Returns the position of a key itself, or that of the configuration if the key is absent.
    #[must_use]
    pub fn span_of(&self, key: &str) -> Span {
        let (parent, name) = key.rsplit_once('.').unwrap_or(("", key));
        let parent = if parent.is_empty() { Some(self.config) } else { self.get(parent) };
        parent.and_then(|node| node.entry(name)).map_or(self.config.span, |entry| entry.key.span)
    }

    /// Returns a string.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(Node::text).map(str::to_owned)
    }

    /// Returns the strings of a list.
    #[must_use]
    pub fn texts(&self, key: &str) -> Vec<String> {
        texts(self.get(key))
    }

    /// Returns the strings of a value that is one string or a list of them.
    #[must_use]
    pub fn one_or_more(&self, key: &str) -> Vec<String> {
        self.get(key).map(one_or_more).unwrap_or_default()
    }

    /// Returns the entries of a mapping.
    #[must_use]
    pub fn entries(&self, key: &str) -> &'a [Entry] {
        self.get(key).map(Node::entries).unwrap_or_default()
    }

    /// Returns whether a boolean is true; an absent one is false.
    #[must_use]
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.get(key).map(|node| &node.value), Some(Value::Bool(true)))
    }

    /// Returns a non-negative integer.
    #[must_use]
    pub fn count(&self, key: &str) -> Option<u64> {
        self.get(key).and_then(count)
    }

    /// Returns a number.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<f64> {
        self.get(key).and_then(number)
    }

    /// Returns a duration.
    #[must_use]
    pub fn duration(&self, key: &str) -> Option<Duration> {
        self.get(key).and_then(milliseconds).map(Duration::from_millis)
    }

    /// Returns environment variables: a list of names to pass on, or a mapping from names to values.
    #[must_use]
    pub fn environment(&self, key: &str) -> Vec<EnvVar> {
        environment(self.get(key))
    }

    /// Reports an error at a position. `key` is the path of its key below `config`; empty for `config` itself.
    pub fn error(&mut self, at: Span, key: &str, message: impl Into<String>) -> &mut Diagnostic {
        let config = join(self.path, "config");
        let path = if key.is_empty() { config } else { join(&config, key) };
        self.found.error(at, path, message)
    }

    /// Reports a problem with the evaluator as a whole: an error in a strict file, a warning in any other.
    pub fn problem(&mut self, message: impl Into<String>) -> &mut Diagnostic {
        self.found.add(self.mode.severity(), self.at, self.path.to_owned(), message.into())
    }

    /// Reads a file below the directory of the case. Its digest becomes part of the case's.
    ///
    /// # Errors
    /// When the path leads out of the directory, or the file can't be read or is larger than the limit.
    pub fn read_file(&self, path: &str, max_bytes: usize) -> Result<Vec<u8>, FileError> {
        files::find(self.dir, path).and_then(|found| files::read(&found, max_bytes))
    }

    /// Reads a prompt or a template below the directory of the case, without surrounding white space.
    ///
    /// # Errors
    /// As [`read_file`](Self::read_file), and when the file is not UTF-8.
    pub fn read_prompt_file(&self, path: &str) -> Result<String, FileError> {
        prompt::read_file(self.dir, path).map(|(_, text)| text)
    }

    /// Finds a file or directory below the directory of the case. The digests of all files in it become part of the
    /// case's.
    ///
    /// # Errors
    /// When the path leads out of the directory, a file can't be read, or all files together exceed the limit.
    pub fn find_files(&self, path: &str, max_bytes: usize) -> Result<PathBuf, FileError> {
        files::find(self.dir, path).and_then(|found| files::read_all(&found, max_bytes).map(|_| found))
    }

    /// Reports an error unless a regular expression is valid.
    pub fn check_regex(&mut self, expression: &str, at: Span, key: &str) {
        if let Err(error) = regex::bytes::Regex::new(expression) {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let message = format!("invalid regular expression ({last}): {}", quoted(expression));
            self.error(at, key, message).hint("YAML keeps a backslash as it is within single quotes");
        }
    }

    /// Returns whether a JSON Schema is valid; reports an error if not.
    pub fn check_json_schema(&mut self, schema: &Json, at: Span, key: &str) -> bool {
        let invalid = jsonschema::validator_for(schema).err();
        if let Some(error) = &invalid {
            let message = format!("invalid JSON Schema: {error}");
            self.error(at, key, message).hint("references to other files are not followed");
        }
        invalid.is_none()
    }
}

/// Returns the strings of a value that is one string or a list of them.
#[must_use]
pub fn one_or_more(node: &Node) -> Vec<String> {
    node.text().map_or_else(|| texts(Some(node)), |text| vec![text.to_owned()])
}

/// Returns a non-negative integer.
#[must_use]
pub fn count(node: &Node) -> Option<u64> {
    if let Value::Int(number) = node.value { u64::try_from(number).ok() } else { None }
}

/// Returns a number.
#[must_use]
pub fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Int(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}
