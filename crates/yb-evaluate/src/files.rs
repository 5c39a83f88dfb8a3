//! `files`: which files the result has and what is in them, read from the store: no tree is made and nothing is run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;

use async_trait::async_trait;
use memchr::memmem;
use regex::bytes::Regex;
use serde_json::Value;

use super::{Assertion, Desk, Evaluator, GradeError, Need, Subject, Verdict};
use yb_case::Files;
use yb_repo::diff::{ChangeKind, Diff};
use yb_repo::{PathGlobs, TreeFile};

/// A larger file satisfies nothing that asks for its content.
const LARGEST: u64 = 16 << 20;

#[async_trait]
impl Evaluator for Files {
    fn need(&self) -> Need {
        Need::Objects
    }

    async fn evaluate(&self, subject: &Subject, _desk: &Desk) -> Result<Verdict, GradeError> {
        let end = subject.files().await?;
        let wanted = self.contains.iter().chain(&self.matches).map(|(path, _)| path);
        let wanted = wanted.chain(self.json_schema.iter().map(|(path, _)| path));
        let mut read: BTreeMap<&str, &TreeFile> = BTreeMap::new();
        for path in wanted {
            let path = path.trim_start_matches("./");
            // Where a link leads is not what the case asks about.
            let file = end.iter().find(|file| file.path == path.as_bytes());
            if let Some(file) = file.filter(|file| !file.is_link() && file.size <= LARGEST) {
                read.insert(path, file);
            }
        }
        let files: Vec<&TreeFile> = read.values().copied().collect();
        let contents = subject.store.contents(&files).await?;
        let contents: HashMap<&str, Vec<u8>> = read.into_keys().zip(contents).collect();
        let grader = FilesGrader(self);
        let mut checks = grader.places(end)?;
        checks.extend(grader.insides(&contents)?);
        let (unchanged, changed) = grader.compare(&subject.diff)?;
        checks.extend(unchanged);
        let total = checks.len();
        let mut verdict = Verdict::of(checks);
        let held = total - verdict.failed().count();
        if self.tampering && !changed.is_empty() {
            verdict.cheating = Some(format!("changed what had to stay as it was: {}", shown(&changed)));
        }
        if !changed.is_empty() {
            verdict = verdict.metric("changed", changed);
        }
        let verdict =
            verdict.metric("checks", total).metric("checks_passed", held).metric("files", end.len());
        Ok(verdict.saying(&format!("{held} of {total} hold")))
    }
}

/// Grades by the files of a tree.
struct FilesGrader<'a>(&'a Files);

impl Deref for FilesGrader<'_> {
    type Target = Files;

    fn deref(&self) -> &Files {
        self.0
    }
}

impl FilesGrader<'_> {
    /// What must be there, and what must not.
    fn places(&self, end: &[TreeFile]) -> Result<Vec<Assertion>, GradeError> {
        let matching = |pattern: &String| -> Result<Vec<String>, GradeError> {
            let glob = PathGlobs::new([pattern])?;
            let found = end.iter().filter(|file| glob.matches(&file.path));
            Ok(found.map(TreeFile::display_path).collect())
        };
        let mut checks = Vec::new();
        for pattern in &self.exists {
            let check = Assertion::of(format!("exists: {pattern}"), !matching(pattern)?.is_empty());
            checks.push(check.because(|| format!("not there: `{pattern}`")));
        }
        for pattern in &self.absent {
            let found = matching(pattern)?;
            let check = Assertion::of(format!("absent: {pattern}"), found.is_empty());
            checks.push(check.because(|| format!("there, and must not be: {}", shown(&found))));
        }
        Ok(checks)
    }

    /// What must be in files.
    fn insides(&self, contents: &HashMap<&str, Vec<u8>>) -> Result<Vec<Assertion>, GradeError> {
        let get = |path: &str| contents.get(path.trim_start_matches("./")).map(Vec::as_slice);
        let mut checks = Vec::new();
        for (path, texts) in &self.contains {
            for text in texts {
                let holds = get(path).is_some_and(|content| memmem::find(content, text.as_bytes()).is_some());
                let check =
                    Assertion::of(format!("contains: {path}"), holds).found(Value::Null, text.as_str());
                checks.push(
                    check.because(|| unlike(path, get(path), &format!("does not contain `{}`", cut(text)))),
                );
            }
        }
        for (path, expressions) in &self.matches {
            for expression in expressions {
                let regex = Regex::new(expression).map_err(|error| GradeError::other(error.to_string()))?;
                let holds = get(path).is_some_and(|content| regex.is_match(content));
                let check =
                    Assertion::of(format!("matches: {path}"), holds).found(Value::Null, expression.as_str());
                checks.push(
                    check.because(|| {
                        unlike(path, get(path), &format!("does not match `{}`", cut(expression)))
                    }),
                );
            }
        }
        for (path, schema) in &self.json_schema {
            let validator =
                jsonschema::validator_for(schema).map_err(|error| GradeError::other(error.to_string()))?;
            let wrong = match get(path).map(serde_json::from_slice::<Value>) {
                None => Some(unlike(path, None, "")),
                Some(Err(error)) => Some(format!("`{path}` is not JSON: {error}")),
                Some(Ok(value)) => validator.iter_errors(&value).next().map(|error| {
                    let at = error.instance_path().to_string();
                    let at = if at.is_empty() { String::new() } else { format!(" at `{at}`") };
                    format!("`{path}` does not satisfy its schema{at}: {}", cut(&error.to_string()))
                }),
            };
            let check = Assertion::of(format!("json_schema: {path}"), wrong.is_none());
            checks.push(check.because(|| wrong.unwrap_or_default()));
        }
        Ok(checks)
    }

    /// What must be as it was at the start; and everything of it that is not.
    fn compare(&self, diff: &Diff) -> Result<(Vec<Assertion>, Vec<String>), GradeError> {
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
            let check = Assertion::of(format!("unchanged: {pattern}"), changed.is_empty());
            checks.push(check.because(|| format!("changed: {}", shown(&changed))));
            all.extend(changed);
        }
        Ok((checks, all.into_iter().collect()))
    }
}

/// Why a file does not do.
fn unlike(path: &str, content: Option<&[u8]>, what: &str) -> String {
    match content {
        Some(_) => format!("`{path}` {what}"),
        None => format!("no such file, or too large: `{path}`"),
    }
}

/// The first few of a list.
fn shown(paths: &[String]) -> String {
    let some = paths.iter().take(3).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(3) {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

/// A text that fits into a line.
fn cut(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
