//! Foreign files as JSON values: YAML, JSON, and Markdown with a YAML header.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};
use yb_yaml::Syntax;
use yb_yaml::diagnostic::Diagnostics;

use crate::ImportError;

/// Reads a text file of at most 1 MiB.
pub(crate) fn read_text(path: &Path) -> Result<String, ImportError> {
    let bytes = fs::read(path).map_err(ImportError::io(path))?;
    if bytes.len() > yb_yaml::MAX_BYTES {
        return Err(ImportError::invalid(path.display().to_string(), "larger than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| ImportError::invalid(path.display().to_string(), "not UTF-8"))
}

/// Reads a YAML or JSON file with a mapping.
pub(crate) fn read(path: &Path) -> Result<Value, ImportError> {
    parse(path, &read_text(path)?, Syntax::from_path(path))
}

/// Reads a Markdown file: its YAML header, and the text below.
pub(crate) fn read_markdown(path: &Path) -> Result<(Map<String, Value>, String), ImportError> {
    let text = read_text(path)?;
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return Ok((Map::new(), text.trim().to_owned()));
    };
    let mut header = String::new();
    let mut lines = rest.split_inclusive('\n');
    for line in lines.by_ref() {
        if line.trim_end() == "---" {
            let body: String = lines.collect();
            let header = match header.trim().is_empty() {
                true => Value::Object(Map::new()),
                false => parse(path, &header, Syntax::Yaml)?,
            };
            let Value::Object(header) = header else {
                return Err(ImportError::invalid(path.display().to_string(), "the header is not a mapping"));
            };
            return Ok((header, body.trim().to_owned()));
        }
        header.push_str(line);
    }
    Err(ImportError::invalid(path.display().to_string(), "the header does not end with `---`"))
}

fn parse(path: &Path, text: &str, syntax: Syntax) -> Result<Value, ImportError> {
    let mut found = Diagnostics::new(path, text);
    let node = yb_yaml::parse(text, syntax, &mut found);
    if let Some(error) = found.into_vec().into_iter().find(yb_yaml::diagnostic::Diagnostic::is_error) {
        return Err(ImportError::invalid(error.location(), error.message));
    }
    node.map(|node| node.to_json())
        .ok_or_else(|| ImportError::invalid(path.display().to_string(), "the file is empty"))
}
