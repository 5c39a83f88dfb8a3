//! YAML parsing: converts the diagnostics of the YAML reader to [`ScriptError`].

use std::path::Path;

use yb_yaml::diagnostic::{Diagnostic, Diagnostics};
use yb_yaml::{MAX_BYTES, Node, ParseOptions, Span, Syntax};

use crate::error::{ScriptError, ScriptLocation};

/// Parses one document.
pub(crate) fn parse(text: &str, file: &str) -> Result<Node, ScriptError> {
    if text.len() > MAX_BYTES {
        return Err(ScriptError::new(location(file, Span::WHOLE), "the script is too large")
            .expected(format!("at most {MAX_BYTES} bytes"))
            .found(format!("{} bytes", text.len()))
            .with_hint("pass long texts as variables: `{{name}}`"));
    }
    let options = ParseOptions::new(Syntax::Yaml)
        .with_subject("script")
        .with_empty_hint("start the script with `tape: 1`");
    let mut diagnostics = Diagnostics::new(Path::new(file), text);
    let node = yb_yaml::parse_with(text, &options, &mut diagnostics);
    match (node, diagnostics.into_vec().into_iter().find(Diagnostic::is_error)) {
        (Some(node), None) => Ok(node),
        (_, Some(error)) => Err(convert(error, file)),
        (None, None) => Err(ScriptError::new(location(file, Span::WHOLE), "not valid YAML")),
    }
}

pub(crate) fn location(file: &str, at: Span) -> ScriptLocation {
    ScriptLocation { file: file.to_owned(), line: at.line as u64, column: at.column as u64 }
}

fn convert(diagnostic: Diagnostic, file: &str) -> ScriptError {
    let location = location(file, Span::new(diagnostic.line, diagnostic.column, 1));
    let mut error = match diagnostic.message.split_once(": ") {
        Some((problem, found)) => ScriptError::new(location, problem).found(found),
        None => ScriptError::new(location, diagnostic.message),
    };
    if let Some(expected) = diagnostic.expected {
        error = error.expected(expected);
    }
    match diagnostic.hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
