//! One layer of the configuration: a file or an environment variable, as values by dotted key.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::fields::CONFIG;
use crate::agent_spec::AgentSpecs;
use crate::check::{Checker, Mode};
use crate::files::{self, FileError};
use crate::shape::Kind;
use yb_yaml::diagnostic::{Diagnostic, Diagnostics};
use yb_yaml::{Node, Span, Syntax, Value};

/// The names of configuration files; the first one that exists is used.
pub const FILE_NAMES: &[&str] = &[
    ".youbencharc",
    ".youbencharc.yaml",
    ".youbencharc.yml",
    ".youbencharc.json",
    ".youbencha.yaml",
    ".youbencha.yml",
    ".youbencha.json",
];

pub(super) fn find(dir: &Path) -> Option<PathBuf> {
    FILE_NAMES.iter().map(|name| dir.join(name)).find(|file| file.is_file())
}

/// Reads the values of a file, with all errors and warnings. A file with errors has no values.
pub(super) fn read(file: &Path) -> (Vec<(String, Json)>, Vec<Diagnostic>) {
    let bytes = match files::read(file, yb_yaml::MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => {
            let mut found = Diagnostics::new(file, "");
            if let FileError::TooLarge = error {
                yb_yaml::DecodeError::TooLarge.report(&mut found);
            } else {
                found.error(Span::WHOLE, "", format!("failed to read configuration: {error}"));
            }
            return (Vec::new(), found.into_vec());
        }
    };
    let decoded = yb_yaml::decode(&bytes);
    let mut found = Diagnostics::new(file, decoded.unwrap_or_default());
    let text = match decoded {
        Ok(text) => text,
        Err(bad) => {
            bad.report(&mut found);
            return (Vec::new(), found.into_vec());
        }
    };
    if !has_content(text) {
        return (Vec::new(), Vec::new());
    }
    let values = match yb_yaml::parse(text, Syntax::from_path(file), &mut found) {
        None => Vec::new(),
        Some(Node { value: Value::Null, .. }) => Vec::new(),
        Some(tree) => {
            let agents = AgentSpecs::default();
            Checker { mode: Mode::Lenient, agents: &agents, found: &mut found }.check(
                &tree,
                &Kind::Object(&CONFIG),
                "",
            );
            if found.has_errors() { Vec::new() } else { flat(&tree) }
        }
    };
    (values, found.into_vec())
}

/// Returns whether a file has content other than comments, such as a file from `yb config init`.
pub(super) fn has_content(text: &str) -> bool {
    text.lines().any(|line| !matches!(line.trim().chars().next(), None | Some('#')))
}

/// Returns the known values by dotted key.
pub(super) fn flat(tree: &Node) -> Vec<(String, Json)> {
    let mut values = Vec::new();
    for field in CONFIG.fields {
        let Some(node) = tree.get(field.name) else { continue };
        match field.kind {
            Kind::Object(object) => values.extend(object.fields.iter().filter_map(|inner| {
                Some((format!("{}.{}", field.name, inner.name), node.get(inner.name)?.to_json()))
            })),
            Kind::Map { .. } => values.extend(
                node.entries()
                    .iter()
                    .map(|entry| (format!("{}.{}", field.name, entry.key.name), entry.node.to_json())),
            ),
            _ => values.push((field.name.to_owned(), node.to_json())),
        }
    }
    values
}

/// Parses and validates the value of a key from a string.
pub(super) fn from_text(text: &str, kind: &Kind, name: &str) -> Result<Json, Vec<Diagnostic>> {
    let value = match kind {
        Kind::Text { .. } | Kind::Word(_) => Value::Text(text.to_owned()),
        _ => yb_yaml::parse_plain_scalar(text.trim()),
    };
    let node = Node { value, span: Span::WHOLE };
    let mut found = Diagnostics::new(Path::new(name), "");
    let agents = AgentSpecs::default();
    Checker { mode: Mode::Strict, agents: &agents, found: &mut found }.check(&node, kind, name);
    let found = found.into_vec();
    if found.is_empty() { Ok(node.to_json()) } else { Err(found) }
}
