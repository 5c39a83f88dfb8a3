//! `files`: asserts which files the end tree has and what they contain. It reads the object store and runs nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use memchr::memmem;
use regex::bytes::Regex;
use serde_json::Value;

use super::{Assertion, Evaluator, EvaluatorContext, GradeError, Subject, Verdict, into_config};
use yb_case::config_reader::one_or_more;
use yb_case::format::Format;
use yb_case::shape::{FREE, Field, GLOBS, Kind, ONE_OR_MORE, Object, RELATIVE_PATH};
use yb_case::{ConfigReader, EvaluatorConfig, EvaluatorInput, EvaluatorSpec};
use yb_repo::diff::{ChangeKind, Diff};
use yb_repo::{PathGlobs, TreeFile};
use yb_yaml::Node;
use yb_yaml::diagnostic::quoted;

/// The largest file whose content is checked. A larger one fails every assertion about its content.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// The largest schema file.
const MAX_SCHEMA_BYTES: usize = 1 << 20;

pub(crate) static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "files",
    summary: "which files exist, what they contain, and which are unchanged",
    input: EvaluatorInput::Objects,
    config: &CONFIG,
    read,
};

static CONFIG: Object = Object {
    name: "files",
    fields: &[
        Field::new("assertions", Kind::Object(&ASSERTIONS), "Assertions."),
        Field::new("tampering", Kind::Bool, "Whether changes to files in `unchanged` count as cheating.")
            .default("false"),
    ],
};

const BY_FILE: Kind = Kind::Map { names: Format::RelativePath, of: &ONE_OR_MORE };

static ASSERTIONS: Object = Object {
    name: "filesAssertions",
    fields: &[
        Field::new("exists", GLOBS, "Globs that must each match a file."),
        Field::new("absent", GLOBS, "Globs that must not match."),
        Field::new("contains", BY_FILE, "Texts that files must contain, by file."),
        Field::new("matches", BY_FILE, "Regular expressions that files must match, by file."),
        Field::new(
            "json_schema",
            Kind::Map { names: Format::RelativePath, of: &Kind::Either(&[RELATIVE_PATH, FREE]) },
            "JSON Schemas that files must match, by file: inline, or a path relative to this file.",
        ),
        Field::new("unchanged", GLOBS, "Globs of files that must not change."),
    ],
};

/// Assertions about files.
#[derive(Debug, Clone, PartialEq, Default)]
struct FilesCheck {
    /// Globs that must each match a file.
    exists: Vec<String>,
    /// Globs that must match no file.
    absent: Vec<String>,
    /// Texts that a file must contain.
    contains: Vec<(String, Vec<String>)>,
    /// Regular expressions that must match in a file.
    matches: Vec<(String, Vec<String>)>,
    /// The JSON Schema that a file must satisfy.
    json_schema: Vec<(String, Value)>,
    /// Globs of files that must not change.
    unchanged: Vec<String>,
    /// Whether changing one of those is cheating.
    tampering: bool,
}

fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    let by_file = |reader: &ConfigReader<'_, '_>, key: &str| -> Vec<(String, Vec<String>)> {
        let entries = reader.entries(key).iter();
        entries.map(|entry| (entry.key.name.clone(), one_or_more(&entry.node))).collect()
    };
    for entry in reader.entries("assertions.matches") {
        for expression in one_or_more(&entry.node) {
            let key = format!("assertions.matches.{}", entry.key.name);
            reader.check_regex(&expression, entry.node.span, &key);
        }
    }
    let mut json_schema = Vec::new();
    for entry in reader.entries("assertions.json_schema") {
        let key = format!("assertions.json_schema.{}", entry.key.name);
        if let Some(schema) = read_schema(reader, &entry.node, &key) {
            json_schema.push((entry.key.name.clone(), schema));
        }
    }
    Some(into_config(FilesCheck {
        exists: reader.texts("assertions.exists"),
        absent: reader.texts("assertions.absent"),
        contains: by_file(reader, "assertions.contains"),
        matches: by_file(reader, "assertions.matches"),
        json_schema,
        unchanged: reader.texts("assertions.unchanged"),
        tampering: reader.flag("tampering"),
    }))
}

/// Reads a schema that is inline or in a file beside the case.
fn read_schema(reader: &mut ConfigReader<'_, '_>, node: &Node, key: &str) -> Option<Value> {
    let schema = match node.text() {
        None => node.to_json(),
        Some(path) => {
            let content = reader.read_file(path, MAX_SCHEMA_BYTES).map_err(|error| error.to_string());
            match content.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))
            {
                Ok(schema) => schema,
                Err(error) => {
                    let message = format!("failed to read the schema ({error}): {}", quoted(path));
                    reader
                        .error(node.span, key, message)
                        .hint("use a JSON file in or below the directory of the case file");
                    return None;
                }
            }
        }
    };
    reader.check_json_schema(&schema, node.span, key).then_some(schema)
}

#[async_trait]
impl Evaluator for FilesCheck {
    fn is_vacuous(&self) -> bool {
        *self == Self { tampering: self.tampering, ..Self::default() }
    }

    async fn evaluate(&self, subject: &Subject, _context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        let end = subject.files().await?;
        let wanted = self.contains.iter().chain(&self.matches).map(|(path, _)| path);
        let wanted = wanted.chain(self.json_schema.iter().map(|(path, _)| path));
        let mut read: BTreeMap<&str, &TreeFile> = BTreeMap::new();
        for path in wanted {
            let path = path.trim_start_matches("./");
            // Symbolic links are not followed.
            let file = end.iter().find(|file| file.path == path.as_bytes());
            if let Some(file) = file.filter(|file| !file.is_link() && file.size <= MAX_FILE_BYTES) {
                read.insert(path, file);
            }
        }
        let files: Vec<&TreeFile> = read.values().copied().collect();
        let contents = subject.store.contents(&files).await?;
        let contents: HashMap<&str, Vec<u8>> = read.into_keys().zip(contents).collect();
        let mut checks = self.check_paths(end)?;
        checks.extend(self.check_contents(&contents)?);
        let (unchanged, changed) = self.check_unchanged(&subject.diff)?;
        checks.extend(unchanged);
        let total = checks.len();
        let mut verdict = Verdict::from_checks(checks);
        let passed = total - verdict.failed_checks().count();
        if self.tampering && !changed.is_empty() {
            verdict.cheating = Some(format!("changed protected files: {}", list_paths(&changed)));
        }
        if !changed.is_empty() {
            verdict = verdict.metric("changed", changed);
        }
        let verdict =
            verdict.metric("checks", total).metric("checks_passed", passed).metric("files", end.len());
        Ok(verdict.with_summary(&format!("{passed} of {total} checks passed")))
    }
}

impl FilesCheck {
    /// Checks which files exist.
    fn check_paths(&self, end: &[TreeFile]) -> Result<Vec<Assertion>, GradeError> {
        let matching = |pattern: &String| -> Result<Vec<String>, GradeError> {
            let glob = PathGlobs::new([pattern])?;
            let found = end.iter().filter(|file| glob.matches(&file.path));
            Ok(found.map(TreeFile::display_path).collect())
        };
        let mut checks = Vec::new();
        for pattern in &self.exists {
            let check = Assertion::new(format!("exists: {pattern}"), !matching(pattern)?.is_empty());
            checks.push(check.with_message(|| format!("no file matches `{pattern}`")));
        }
        for pattern in &self.absent {
            let found = matching(pattern)?;
            let check = Assertion::new(format!("absent: {pattern}"), found.is_empty());
            checks.push(check.with_message(|| format!("must not exist: {}", list_paths(&found))));
        }
        Ok(checks)
    }

    /// Checks what files contain.
    fn check_contents(&self, contents: &HashMap<&str, Vec<u8>>) -> Result<Vec<Assertion>, GradeError> {
        let get = |path: &str| contents.get(path.trim_start_matches("./")).map(Vec::as_slice);
        let mut checks = Vec::new();
        for (path, texts) in &self.contains {
            for text in texts {
                let passed =
                    get(path).is_some_and(|content| memmem::find(content, text.as_bytes()).is_some());
                let check = Assertion::new(format!("contains: {path}"), passed)
                    .with_values(Value::Null, text.as_str());
                checks.push(check.with_message(|| {
                    content_message(path, get(path), &format!("does not contain `{}`", shorten(text)))
                }));
            }
        }
        for (path, expressions) in &self.matches {
            for expression in expressions {
                let regex = Regex::new(expression).map_err(|error| GradeError::other(error.to_string()))?;
                let passed = get(path).is_some_and(|content| regex.is_match(content));
                let check = Assertion::new(format!("matches: {path}"), passed)
                    .with_values(Value::Null, expression.as_str());
                checks.push(check.with_message(|| {
                    content_message(path, get(path), &format!("does not match `{}`", shorten(expression)))
                }));
            }
        }
        for (path, schema) in &self.json_schema {
            let validator =
                jsonschema::validator_for(schema).map_err(|error| GradeError::other(error.to_string()))?;
            let wrong = match get(path).map(serde_json::from_slice::<Value>) {
                None => Some(content_message(path, None, "")),
                Some(Err(error)) => Some(format!("`{path}` is not JSON: {error}")),
                Some(Ok(value)) => validator.iter_errors(&value).next().map(|error| {
                    let at = error.instance_path().to_string();
                    let at = if at.is_empty() { String::new() } else { format!(" at `{at}`") };
                    format!("`{path}` does not satisfy its schema{at}: {}", shorten(&error.to_string()))
                }),
            };
            let check = Assertion::new(format!("json_schema: {path}"), wrong.is_none());
            checks.push(check.with_message(|| wrong.unwrap_or_default()));
        }
        Ok(checks)
    }

    /// Checks which files are unchanged. Also returns the paths of all that changed.
    fn check_unchanged(&self, diff: &Diff) -> Result<(Vec<Assertion>, Vec<String>), GradeError> {
        let mut checks = Vec::new();
        let mut all = BTreeSet::new();
        for pattern in &self.unchanged {
            let glob = PathGlobs::new([pattern])?;
            let from = diff.files.iter().filter_map(|file| match &file.kind {
                ChangeKind::Renamed { from } => Some(from),
                _ => None,
            });
            let paths =
                diff.files.iter().map(|file| &file.path).chain(from).filter(|path| glob.matches(path));
            let changed: BTreeSet<String> =
                paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect();
            let changed: Vec<String> = changed.into_iter().collect();
            let check = Assertion::new(format!("unchanged: {pattern}"), changed.is_empty());
            checks.push(check.with_message(|| format!("changed: {}", list_paths(&changed))));
            all.extend(changed);
        }
        Ok((checks, all.into_iter().collect()))
    }
}

/// Returns why a file fails an assertion about its content.
fn content_message(path: &str, content: Option<&[u8]>, what: &str) -> String {
    match content {
        Some(_) => format!("`{path}` {what}"),
        None => format!("file not found or too large: `{path}`"),
    }
}

/// Lists the first few paths.
fn list_paths(paths: &[String]) -> String {
    let some = paths.iter().take(3).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(3) {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

/// Shortens a text to one line of a message.
fn shorten(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
