//! YAML parsing: converts the diagnostics of the YAML reader to [`PromptError`].

use std::path::Path;

use yb_yaml::diagnostic::{Diagnostic, Diagnostics};
use yb_yaml::{Node, ParseOptions, Span, Syntax, Value};

use crate::error::{PromptError, Source};

const MAX_NODES: usize = 50_000;

/// Parses a header: the start of a file, including the opening `---` line, so that positions are those of the file.
pub(crate) fn parse(text: &str, source: &Source) -> Result<Node, PromptError> {
    if text.lines().skip(1).all(|line| line.trim().is_empty()) {
        return Ok(Node { value: Value::Map(Vec::new()), span: Span::new(2, 1, 1) });
    }
    let options = ParseOptions::new(Syntax::Yaml).with_subject("header").with_max_nodes(MAX_NODES);
    let mut diagnostics = Diagnostics::new(Path::new(&source.name), text);
    let node = yb_yaml::parse_with(text, &options, &mut diagnostics);
    match (node, diagnostics.into_vec().into_iter().find(Diagnostic::is_error)) {
        (Some(node), None) => Ok(node),
        (_, Some(error)) => Err(convert(error, source)),
        (None, None) => Err(source.error_in_line(2, 1, "not valid YAML")),
    }
}

fn convert(diagnostic: Diagnostic, source: &Source) -> PromptError {
    let message = match diagnostic.expected {
        Some(expected) => format!("{}; expected {expected}", diagnostic.message),
        None => diagnostic.message,
    };
    let error = source.error_in_line(diagnostic.line, diagnostic.column, message);
    match diagnostic.hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
