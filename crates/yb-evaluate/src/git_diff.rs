//! `git-diff`: how much changed between the start tree and the end tree, against the limits of the case.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Artifact, Assertion, Desk, Evaluator, GradeError, Need, Subject, Verdict};
use yb_case::GitDiff;
use yb_repo::PathGlobs;
use yb_repo::diff::{ChangeKind, Diff, FileChange, LineChanges};

/// The patch of everything that changed, in the artifacts of a trial.
pub const PATCH_FILE: &str = "git-diff.patch";

#[async_trait]
impl Evaluator for GitDiff {
    fn need(&self) -> Need {
        Need::Objects
    }

    async fn evaluate(&self, subject: &Subject, _desk: &Desk) -> Result<Verdict, GradeError> {
        let diff = chosen(self, &subject.diff)?;
        let mut verdict = measure(self, &diff)
            .metric("base_commit", subject.start.as_str())
            .metric("current_commit", subject.end.as_str());
        if !subject.diff.files.is_empty() {
            let description = "all changes, from the start tree to the end tree";
            verdict.artifacts.push(Artifact::new("diff", PATCH_FILE, description));
        }
        Ok(verdict)
    }
}

/// The changes that count. One that moved a file counts if either place does.
fn chosen(config: &GitDiff, diff: &Diff) -> Result<Diff, GradeError> {
    let (include, exclude) = (PathGlobs::new(&config.include)?, PathGlobs::new(&config.exclude)?);
    let counts = |path: &[u8]| (include.is_empty() || include.matches(path)) && !exclude.matches(path);
    let files = diff.files.iter().filter(|file| {
        counts(&file.path) || matches!(&file.kind, ChangeKind::Renamed { from } if counts(from))
    });
    Ok(Diff { files: files.cloned().collect() })
}

fn measure(limits: &GitDiff, diff: &Diff) -> Verdict {
    let checks = check(limits, diff);
    let violations: Vec<Value> =
        checks.iter().filter_map(|check| check.message.clone()).map(Value::from).collect();
    let renamed = diff.files.iter().filter(|file| matches!(file.kind, ChangeKind::Renamed { .. })).count();
    let binary = diff.files.iter().filter(|file| file.lines == LineChanges::Binary).count();
    let mut verdict = Verdict::of(checks)
        .metric("files_changed", diff.files_changed())
        .metric("lines_added", diff.lines_added())
        .metric("lines_removed", diff.lines_removed())
        .metric("total_changes", diff.total_changes())
        .metric("change_entropy", diff.change_entropy())
        .metric("files_renamed", renamed)
        .metric("binary_files_changed", binary)
        .metric("changed_files", diff.files.iter().map(file).collect::<Vec<Value>>());
    let counts = format!(
        "{} changed files (+{}/-{} lines)",
        diff.files_changed(),
        diff.lines_added(),
        diff.lines_removed()
    );
    verdict.message = if violations.is_empty() {
        format!("✓ {counts}")
    } else {
        let said: Vec<&str> = violations.iter().filter_map(Value::as_str).collect();
        format!("✗ {counts} | Violations: {}", said.join("; "))
    };
    if !violations.is_empty() {
        verdict = verdict.metric("violations", violations);
    }
    verdict
}

fn file(file: &FileChange) -> Value {
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

/// Each limit, with the sentence for one that does not hold.
fn check(limits: &GitDiff, diff: &Diff) -> Vec<Assertion> {
    let mut checks = Vec::new();
    let most = [
        ("max_files_changed", limits.max_files_changed, "files_changed", diff.files_changed()),
        ("max_lines_added", limits.max_lines_added, "lines_added", diff.lines_added()),
        ("max_lines_removed", limits.max_lines_removed, "lines_removed", diff.lines_removed()),
        ("max_total_changes", limits.max_total_changes, "total_changes", diff.total_changes()),
    ];
    for (name, limit, metric, value) in most {
        if let Some(limit) = limit {
            let holds = Assertion::of(name, value <= limit).found(value, limit);
            checks.push(holds.because(|| format!("{metric} ({value}) exceeds {name} ({limit})")));
        }
    }
    let entropy = diff.change_entropy();
    if let Some(limit) = limits.min_change_entropy {
        let holds = Assertion::of("min_change_entropy", entropy >= limit).found(entropy, limit);
        checks.push(
            holds.because(|| format!("change_entropy ({entropy:.2}) below min_change_entropy ({limit})")),
        );
    }
    if let Some(limit) = limits.max_change_entropy {
        let holds = Assertion::of("max_change_entropy", entropy <= limit).found(entropy, limit);
        checks.push(
            holds.because(|| format!("change_entropy ({entropy:.2}) exceeds max_change_entropy ({limit})")),
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
    fn without_limits_it_passes_and_measures() {
        let result = measure(&GitDiff::default(), &diff(&[("a", 3, 1), ("b", 4, 0)]));
        assert_eq!(result.status, EvaluatorStatus::Passed);
        assert_eq!(result.message, "✓ 2 changed files (+7/-1 lines)");
        assert_eq!(result.metrics["change_entropy"], 1.0);
        assert!(result.assertions.is_empty() && result.checks.is_empty());
    }

    #[test]
    fn each_limit_that_does_not_hold_is_said() {
        let limits = GitDiff {
            max_files_changed: Some(1),
            max_lines_added: Some(7),
            min_change_entropy: Some(2.0),
            ..GitDiff::default()
        };
        let result = measure(&limits, &diff(&[("a", 3, 1), ("b", 4, 0)]));
        assert_eq!(result.status, EvaluatorStatus::Failed);
        let expected = "✗ 2 changed files (+7/-1 lines) | Violations: files_changed (2) exceeds max_files_changed (1); \
                        change_entropy (1.00) below min_change_entropy (2)";
        assert_eq!(result.message, expected);
        assert_eq!(result.assertions["max_lines_added"], 7);
        let scores: Vec<f64> = result.checks.iter().map(|check| check.score).collect();
        assert_eq!(scores, [0.0, 1.0, 0.0]);
    }

    #[test]
    fn globs_choose_and_a_move_counts_at_both_ends() {
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
        let result = measure(&limits, &chosen(&limits, &all).unwrap());
        assert_eq!(result.metrics["files_changed"], 2);
        assert_eq!(result.metrics["lines_added"], 3);
        assert_eq!(result.metrics["files_renamed"], 1);
        assert_eq!(result.metrics["changed_files"][0]["from"], "src/old.rs");
    }
}
