//! `git-diff`: limits how much changed between the start tree and the end tree.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::tree::list_ids;
use super::{Artifact, Assertion, Evaluator, EvaluatorContext, GradeError, Subject, Verdict, into_config};
use yb_case::shape::{COUNT, Field, GLOBS, Kind, NON_NEGATIVE, Object, TEXT};
use yb_case::{ConfigReader, EvaluatorConfig, EvaluatorInput, EvaluatorSpec};
use yb_repo::PathGlobs;
use yb_repo::diff::{ChangeKind, Diff, FileChange, LineChanges};

/// The patch with all changes, in the artifacts of a trial.
pub const PATCH_FILE: &str = "git-diff.patch";

pub(crate) static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "git-diff",
    summary: "how much changed, against limits: files, lines, and their distribution",
    input: EvaluatorInput::Objects,
    config: &CONFIG,
    read,
};

static CONFIG: Object = Object {
    name: "gitDiff",
    fields: &[
        Field::new(
            "base_commit",
            TEXT,
            "Ignored, for compatibility: the diff always starts at the start tree.",
        ),
        Field::new(
            "assertions",
            Kind::Object(&ASSERTIONS),
            "Limits; without any, the evaluator always passes.",
        ),
        Field::new("include", GLOBS, "Globs of files to include [default: all]."),
        Field::new("exclude", GLOBS, "Globs of files to exclude."),
    ],
};

static ASSERTIONS: Object = Object {
    name: "gitDiffAssertions",
    fields: &[
        Field::new("max_files_changed", COUNT, "Maximum number of changed files."),
        Field::new("max_lines_added", COUNT, "Maximum number of added lines."),
        Field::new("max_lines_removed", COUNT, "Maximum number of removed lines."),
        Field::new("max_total_changes", COUNT, "Maximum number of added and removed lines."),
        Field::new("min_change_entropy", NON_NEGATIVE, "Minimum entropy of changes over files, in bits."),
        Field::new("max_change_entropy", NON_NEGATIVE, "Maximum entropy of changes over files, in bits."),
    ],
};

/// Limits for the changes.
#[derive(Debug, Clone, PartialEq, Default)]
struct GitDiff {
    max_files_changed: Option<u64>,
    max_lines_added: Option<u64>,
    max_lines_removed: Option<u64>,
    max_total_changes: Option<u64>,
    min_change_entropy: Option<f64>,
    max_change_entropy: Option<f64>,
    /// Globs of the files that count; empty for all.
    include: Vec<String>,
    /// Globs of files that do not count.
    exclude: Vec<String>,
}

fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    Some(into_config(GitDiff {
        max_files_changed: reader.count("assertions.max_files_changed"),
        max_lines_added: reader.count("assertions.max_lines_added"),
        max_lines_removed: reader.count("assertions.max_lines_removed"),
        max_total_changes: reader.count("assertions.max_total_changes"),
        min_change_entropy: reader.number("assertions.min_change_entropy"),
        max_change_entropy: reader.number("assertions.max_change_entropy"),
        include: reader.texts("include"),
        exclude: reader.texts("exclude"),
    }))
}

#[async_trait]
impl Evaluator for GitDiff {
    fn is_vacuous(&self) -> bool {
        *self == Self { include: self.include.clone(), exclude: self.exclude.clone(), ..Self::default() }
    }

    async fn evaluate(&self, subject: &Subject, _context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        let diff = selected(self, &subject.diff)?;
        let mut verdict = measure(self, &diff)
            .metric("base_commit", subject.start.as_str())
            .metric("current_commit", subject.end.as_str());
        if !subject.diff.files.is_empty() {
            let description = "all changes from the start tree to the end tree";
            verdict.artifacts.push(Artifact::new("diff", PATCH_FILE, description));
        }
        Ok(verdict)
    }
}

/// Returns the changes that count. A rename counts if either path does.
fn selected(config: &GitDiff, diff: &Diff) -> Result<Diff, GradeError> {
    let (include, exclude) = (PathGlobs::new(&config.include)?, PathGlobs::new(&config.exclude)?);
    let counts = |path: &[u8]| (include.is_empty() || include.matches(path)) && !exclude.matches(path);
    let files = diff.files.iter().filter(|file| {
        counts(&file.path) || matches!(&file.kind, ChangeKind::Renamed { from } if counts(from))
    });
    Ok(Diff { files: files.cloned().collect() })
}

fn measure(limits: &GitDiff, diff: &Diff) -> Verdict {
    let checks = check_limits(limits, diff);
    let violations: Vec<Value> =
        checks.iter().filter_map(|check| check.message.clone()).map(Value::from).collect();
    let renamed = diff.files.iter().filter(|file| matches!(file.kind, ChangeKind::Renamed { .. })).count();
    let binary = diff.files.iter().filter(|file| file.lines == LineChanges::Binary).count();
    let mut verdict = Verdict::from_checks(checks)
        .metric("files_changed", diff.files_changed())
        .metric("lines_added", diff.lines_added())
        .metric("lines_removed", diff.lines_removed())
        .metric("total_changes", diff.total_changes())
        .metric("change_entropy", diff.change_entropy())
        .metric("files_renamed", renamed)
        .metric("binary_files_changed", binary)
        .metric("changed_files", diff.files.iter().map(file_metric).collect::<Vec<Value>>());
    let files = diff.files_changed();
    let counts = format!(
        "{files} {} changed (+{}/-{} lines)",
        if files == 1 { "file" } else { "files" },
        diff.lines_added(),
        diff.lines_removed()
    );
    verdict.message = if violations.is_empty() {
        format!("✓ {counts}")
    } else {
        let messages: Vec<&str> = violations.iter().filter_map(Value::as_str).collect();
        // The largest changes first, for limits of lines.
        let mut files: Vec<&FileChange> = diff.files.iter().collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.changes()));
        let paths: Vec<String> = files.iter().map(|file| file.display_path()).collect();
        let paths = list_ids(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        format!("✗ {counts}: {paths} | Violations: {}", messages.join("; "))
    };
    if !violations.is_empty() {
        verdict = verdict.metric("violations", violations);
    }
    verdict
}

fn file_metric(file: &FileChange) -> Value {
    let status = match file.kind {
        ChangeKind::Added => "added",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Modified => "modified",
        ChangeKind::TypeChanged => "type_changed",
        ChangeKind::Renamed { .. } => "renamed",
    };
    let mut made = json!({
        "path": file.display_path(),
        "additions": file.additions(),
        "deletions": file.deletions(),
        "changes": file.changes(),
        "status": status,
    });
    if let ChangeKind::Renamed { from } = &file.kind {
        made["from"] = String::from_utf8_lossy(from).into();
    }
    if file.lines == LineChanges::Binary {
        made["binary"] = true.into();
    }
    made
}

/// Checks each limit.
fn check_limits(limits: &GitDiff, diff: &Diff) -> Vec<Assertion> {
    let mut checks = Vec::new();
    let most = [
        ("max_files_changed", limits.max_files_changed, "files_changed", diff.files_changed()),
        ("max_lines_added", limits.max_lines_added, "lines_added", diff.lines_added()),
        ("max_lines_removed", limits.max_lines_removed, "lines_removed", diff.lines_removed()),
        ("max_total_changes", limits.max_total_changes, "total_changes", diff.total_changes()),
    ];
    for (name, limit, metric, value) in most {
        if let Some(limit) = limit {
            let check = Assertion::new(name, value <= limit).with_values(value, limit);
            checks.push(check.with_message(|| format!("{metric} ({value}) exceeds {name} ({limit})")));
        }
    }
    let entropy = diff.change_entropy();
    if let Some(limit) = limits.min_change_entropy {
        let check = Assertion::new("min_change_entropy", entropy >= limit).with_values(entropy, limit);
        checks
            .push(check.with_message(|| {
                format!("change_entropy ({entropy:.2}) below min_change_entropy ({limit})")
            }));
    }
    if let Some(limit) = limits.max_change_entropy {
        let check = Assertion::new("max_change_entropy", entropy <= limit).with_values(entropy, limit);
        checks.push(
            check.with_message(|| {
                format!("change_entropy ({entropy:.2}) exceeds max_change_entropy ({limit})")
            }),
        );
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EvaluatorStatus;

    fn changed(path: &str, kind: ChangeKind, added: u64, removed: u64) -> FileChange {
        FileChange {
            path: path.as_bytes().to_vec(),
            kind,
            modes: ("100644".to_owned(), "100644".to_owned()),
            lines: LineChanges::Text { added, removed },
        }
    }

    fn diff(files: &[(&str, u64, u64)]) -> Diff {
        let file =
            |(path, added, removed): &(&str, u64, u64)| changed(path, ChangeKind::Modified, *added, *removed);
        Diff { files: files.iter().map(file).collect() }
    }

    #[test]
    fn diff_without_limits_passes_with_metrics() {
        let result = measure(&GitDiff::default(), &diff(&[("a", 3, 1), ("b", 4, 0)]));
        assert_eq!(result.status, EvaluatorStatus::Passed);
        assert_eq!(result.message, "✓ 2 files changed (+7/-1 lines)");
        assert_eq!(result.metrics["change_entropy"], 1.0);
        assert!(result.assertions.is_empty() && result.checks.is_empty());
    }

    #[test]
    fn message_names_each_exceeded_limit() {
        let limits = GitDiff {
            max_files_changed: Some(1),
            max_lines_added: Some(7),
            min_change_entropy: Some(2.0),
            ..GitDiff::default()
        };
        let result = measure(&limits, &diff(&[("a", 3, 1), ("b", 4, 0)]));
        assert_eq!(result.status, EvaluatorStatus::Failed);
        let expected = "✗ 2 files changed (+7/-1 lines): `a`, `b` | Violations: files_changed (2) exceeds max_files_changed (1); \
                        change_entropy (1.00) below min_change_entropy (2)";
        assert_eq!(result.message, expected);
        assert_eq!(result.assertions["max_lines_added"], 7);
        let scores: Vec<f64> = result.checks.iter().map(|check| check.score).collect();
        assert_eq!(scores, [0.0, 1.0, 0.0]);
    }

    #[test]
    fn globs_select_files_and_renames_match_either_path() {
        let moved = ChangeKind::Renamed { from: b"src/old.rs".to_vec() };
        let all = Diff {
            files: vec![
                changed("docs/a.md", ChangeKind::Added, 9, 0),
                changed("lib/new.rs", moved, 1, 1),
                changed("src/main.rs", ChangeKind::Modified, 2, 0),
                changed("src/gen/x.rs", ChangeKind::Modified, 50, 0),
            ],
        };
        let limits = GitDiff {
            include: vec!["src".to_owned()],
            exclude: vec!["src/gen".to_owned()],
            ..GitDiff::default()
        };
        let result = measure(&limits, &selected(&limits, &all).unwrap());
        assert_eq!(result.metrics["files_changed"], 2);
        assert_eq!(result.metrics["lines_added"], 3);
        assert_eq!(result.metrics["files_renamed"], 1);
        assert_eq!(result.metrics["changed_files"][0]["from"], "src/old.rs");
    }
}
