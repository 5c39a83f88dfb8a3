//! Expected outputs of a program, and their comparison with the actual ones.

use std::fmt;

use regex::bytes::Regex;
use serde_json::{Map, Value, json};

use super::{read_file, read_files};
use crate::GradeError;
use crate::program::{ProgramExit, ProgramOutput};
use yb_case::ConfigReader;
use yb_case::config_reader::one_or_more;
use yb_yaml::{Node, Value as Yaml};

/// How many characters of a value a verdict contains.
const MAX_SHOWN: usize = 500;
/// How many characters of a value a message contains.
const MAX_IN_MESSAGE: usize = 60;

/// What a program has to put out.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ExpectedOutput {
    /// The accepted exit codes.
    pub(super) exit_codes: Vec<i32>,
    pub(super) stdout: Option<Vec<u8>>,
    pub(super) stdout_matches: Vec<String>,
    pub(super) stdout_json: Option<Value>,
    pub(super) stderr_matches: Vec<String>,
    /// Contents, by path from the working directory.
    pub(super) files: Vec<(String, Vec<u8>)>,
}

/// A difference between an expected and an actual value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch {
    pub(super) what: String,
    pub(super) expected: String,
    pub(super) actual: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, expected, actual } = self;
        write!(formatter, "{what} is {actual}, expected {expected}")
    }
}

impl Mismatch {
    pub(super) fn new(what: impl Into<String>, expected: &[u8], actual: &[u8]) -> Self {
        let quoted = |bytes: &[u8]| format!("{:?}", shorten(&String::from_utf8_lossy(bytes), MAX_IN_MESSAGE));
        Self { what: what.into(), expected: quoted(expected), actual: quoted(actual) }
    }
}

/// Reads `expect` of a probe.
pub(super) fn read(reader: &mut ConfigReader<'_, '_>, probe: &Node, path: &str) -> ExpectedOutput {
    let Some(node) = probe.get("expect") else {
        return ExpectedOutput { exit_codes: vec![0], ..ExpectedOutput::default() };
    };
    let path = format!("{path}.expect");
    let code = |node: &Node| if let Yaml::Int(code) = node.value { i32::try_from(code).ok() } else { None };
    let exit_codes = node.get("exit_code").map_or_else(
        || vec![0],
        |node| match &node.value {
            Yaml::List(items) => items.iter().filter_map(code).collect(),
            _ => code(node).into_iter().collect(),
        },
    );
    let stdout = node.get("stdout").and_then(Node::text).map(|text| text.as_bytes().to_vec());
    let stdout_file = read_file(reader, node, "stdout_file", &path);
    ExpectedOutput {
        exit_codes,
        stdout: stdout.or(stdout_file),
        stdout_matches: read_regexes(reader, node, "stdout_matches", &path),
        stdout_json: node.get("stdout_json").map(Node::to_json),
        stderr_matches: read_regexes(reader, node, "stderr_matches", &path),
        files: read_files(reader, node, &path),
    }
}

/// Reads and checks regular expressions.
pub(super) fn read_regexes(
    reader: &mut ConfigReader<'_, '_>,
    node: &Node,
    key: &str,
    path: &str,
) -> Vec<String> {
    let Some(value) = node.get(key) else { return Vec::new() };
    let expressions = one_or_more(value);
    expressions.iter().for_each(|one| reader.check_regex(one, value.span, &format!("{path}.{key}")));
    expressions
}

impl ExpectedOutput {
    /// Compares the output and the files, which `read` returns by their path.
    pub(super) fn compare(
        &self,
        output: &ProgramOutput,
        read: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<Vec<Mismatch>, GradeError> {
        let mut found = Vec::new();
        let codes = self.exit_codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        match &output.exit {
            ProgramExit::Code(code) if self.exit_codes.contains(code) => {}
            ProgramExit::Code(code) => found.push(Mismatch {
                what: "exit code".to_owned(),
                expected: codes,
                actual: code.to_string(),
            }),
            ProgramExit::Other(text) => found.push(Mismatch {
                what: "exit code".to_owned(),
                expected: codes,
                actual: format!("missing ({text})"),
            }),
        }
        if output.truncated {
            let what = "output".to_owned();
            found.push(Mismatch { what, expected: "at most 10 MB".to_owned(), actual: "larger".to_owned() });
        }
        if let Some(expected) = self.stdout.as_ref().filter(|expected| **expected != output.stdout) {
            found.push(Mismatch::new("stdout", expected, &output.stdout));
        }
        found.extend(compare_text(
            "stdout",
            &self.stdout_matches,
            self.stdout_json.as_ref(),
            &output.stdout,
        )?);
        found.extend(compare_text("stderr", &self.stderr_matches, None, &output.stderr)?);
        for (path, expected) in &self.files {
            match read(path) {
                Some(content) if content == *expected => {}
                Some(content) => found.push(Mismatch::new(format!("`{path}`"), expected, &content)),
                None => found.push(Mismatch {
                    what: format!("`{path}`"),
                    expected: "a file".to_owned(),
                    actual: "missing".to_owned(),
                }),
            }
        }
        Ok(found)
    }

    /// Returns what is expected, for a verdict.
    pub(super) fn describe(&self) -> Value {
        let mut shown = Map::new();
        shown.insert("exit".to_owned(), json!(self.exit_codes));
        shown.extend(self.stdout.as_ref().map(|text| ("stdout".to_owned(), self::shown(text).into())));
        shown.extend(
            self.stdout_json
                .as_ref()
                .map(|value| ("stdout_json".to_owned(), shorten(&value.to_string(), MAX_SHOWN).into())),
        );
        for (key, list) in
            [("stdout_matches", &self.stdout_matches), ("stderr_matches", &self.stderr_matches)]
        {
            if !list.is_empty() {
                shown.insert(key.to_owned(), json!(list));
            }
        }
        if !self.files.is_empty() {
            shown.insert("files".to_owned(), self.files.iter().map(|(path, _)| path.as_str()).collect());
        }
        Value::Object(shown)
    }
}

/// Compares a text with regular expressions and a JSON value.
pub(super) fn compare_text(
    what: &str,
    expressions: &[String],
    json: Option<&Value>,
    actual: &[u8],
) -> Result<Vec<Mismatch>, GradeError> {
    let mut found = Vec::new();
    for expression in expressions {
        let regex = Regex::new(expression).map_err(|error| GradeError::other(error.to_string()))?;
        if !regex.is_match(actual) {
            let Mismatch { what, expected, actual } = Mismatch::new(what, expression.as_bytes(), actual);
            found.push(Mismatch { what, expected: format!("a match of {expected}"), actual });
        }
    }
    if let Some(expected) = json {
        let parsed = serde_json::from_slice::<Value>(actual);
        if !parsed.is_ok_and(|parsed| is_same(&parsed, expected)) {
            let Mismatch { what, expected, actual } =
                Mismatch::new(what, expected.to_string().as_bytes(), actual);
            found.push(Mismatch { what, expected: format!("the JSON value {expected}"), actual });
        }
    }
    Ok(found)
}

/// Compares JSON values; numbers by their value, so that `5` is `5.0`.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Returns output for a verdict.
pub(super) fn shown(bytes: &[u8]) -> String {
    shorten(&String::from_utf8_lossy(bytes), MAX_SHOWN)
}

fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(code: i32, stdout: &str) -> ProgramOutput {
        ProgramOutput {
            exit: ProgramExit::Code(code),
            stdout: stdout.as_bytes().to_vec(),
            stderr: b"warning: x\n".to_vec(),
            combined: String::new(),
            truncated: false,
        }
    }

    fn mismatches(expect: &ExpectedOutput, output: &ProgramOutput) -> Vec<String> {
        let read = |path: &str| (path == "out").then(|| b"content".to_vec());
        expect.compare(output, read).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn outputs_are_compared_exactly_by_expression_or_as_json() {
        let codes = || ExpectedOutput { exit_codes: vec![0, 2], ..ExpectedOutput::default() };
        assert_eq!(mismatches(&codes(), &output(2, "")), [""; 0]);
        assert_eq!(mismatches(&codes(), &output(1, "")), ["exit code is 1, expected 0 or 2"]);
        let exact = ExpectedOutput { stdout: Some(b"5\n".to_vec()), ..codes() };
        assert_eq!(mismatches(&exact, &output(0, "5\n")), [""; 0]);
        assert_eq!(mismatches(&exact, &output(0, "5")), [r#"stdout is "5", expected "5\n""#]);
        let by_regex = ExpectedOutput {
            stdout_matches: vec!["^5$".to_owned()],
            stderr_matches: vec!["^warning".to_owned(), "fatal".to_owned()],
            ..codes()
        };
        assert_eq!(
            mismatches(&by_regex, &output(0, "5")),
            [r#"stderr is "warning: x\n", expected a match of "fatal""#]
        );
        let by_json = ExpectedOutput { stdout_json: Some(json!({ "a": [1, 2.5], "b": null })), ..codes() };
        assert_eq!(mismatches(&by_json, &output(0, "{\"b\":null,\"a\":[1.0,2.5]}\n")), [""; 0]);
        for wrong in ["{\"a\":[1,2.5]}", "{\"a\":[1],\"b\":null}", "no", "{\"a\":[1,2.5],\"b\":null,\"c\":1}"]
        {
            assert_eq!(mismatches(&by_json, &output(0, wrong)).len(), 1, "{wrong}");
        }
        let files = ExpectedOutput {
            files: vec![("out".to_owned(), b"content".to_vec()), ("other".to_owned(), Vec::new())],
            ..codes()
        };
        assert_eq!(mismatches(&files, &output(0, "")), ["`other` is missing, expected a file"]);
        let truncated = ProgramOutput { truncated: true, ..output(0, "") };
        assert_eq!(mismatches(&codes(), &truncated), ["output is larger, expected at most 10 MB"]);
    }
}
