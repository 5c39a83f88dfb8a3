//! `git-diff`: how much changed between the start tree and the end tree, against the limits of the case.

use serde_json::{Map, Value, json};

use super::{Artifact, EvaluatorResult, EvaluatorStatus};
use crate::case::GitDiff;
use crate::diff::Diff;

/// The two trees, and whether there is a patch of their difference.
pub(crate) struct Trees<'a> {
    pub(crate) start: &'a str,
    pub(crate) end: &'a str,
    pub(crate) patch: Option<&'a str>,
}

pub(crate) fn git_diff(name: &str, limits: &GitDiff, diff: &Diff, trees: &Trees<'_>) -> EvaluatorResult {
    let (checks, violations) = check(limits, diff);
    let files: Vec<Value> = diff
        .files
        .iter()
        .map(|file| {
            json!({
                "path": file.display_path(),
                "additions": file.additions(),
                "deletions": file.deletions(),
                "changes": file.changes(),
            })
        })
        .collect();
    let mut metrics = Map::new();
    metrics.insert("files_changed".into(), diff.files_changed().into());
    metrics.insert("lines_added".into(), diff.lines_added().into());
    metrics.insert("lines_removed".into(), diff.lines_removed().into());
    metrics.insert("total_changes".into(), diff.total_changes().into());
    metrics.insert("change_entropy".into(), diff.change_entropy().into());
    metrics.insert("changed_files".into(), files.into());
    metrics.insert("base_commit".into(), trees.start.into());
    metrics.insert("current_commit".into(), trees.end.into());
    let counts = format!(
        "{} changed files (+{}/-{} lines)",
        diff.files_changed(),
        diff.lines_added(),
        diff.lines_removed()
    );
    let (status, message) = if violations.is_empty() {
        (EvaluatorStatus::Passed, format!("✓ {counts}"))
    } else {
        (EvaluatorStatus::Failed, format!("✗ {counts} | Violations: {}", violations.join("; ")))
    };
    if !violations.is_empty() {
        metrics.insert("violations".into(), violations.into());
    }
    let artifacts = trees.patch.map(|path| Artifact {
        kind: "diff",
        path: path.to_owned(),
        description: "all changes, from the start tree to the end tree",
    });
    EvaluatorResult {
        evaluator: name.to_owned(),
        status,
        metrics,
        message,
        duration_ms: 0,
        timestamp: String::new(),
        assertions: checks,
        artifacts: artifacts.into_iter().collect(),
    }
}

/// Each limit with its value, and the sentence for each that does not hold.
fn check(limits: &GitDiff, diff: &Diff) -> (Map<String, Value>, Vec<String>) {
    let mut checks = Map::new();
    let mut violations = Vec::new();
    let most = [
        ("max_files_changed", limits.max_files_changed, "files_changed", diff.files_changed()),
        ("max_lines_added", limits.max_lines_added, "lines_added", diff.lines_added()),
        ("max_lines_removed", limits.max_lines_removed, "lines_removed", diff.lines_removed()),
        ("max_total_changes", limits.max_total_changes, "total_changes", diff.total_changes()),
    ];
    for (name, limit, metric, value) in most {
        if let Some(limit) = limit {
            checks.insert(name.into(), limit.into());
            if value > limit {
                violations.push(format!("{metric} ({value}) exceeds {name} ({limit})"));
            }
        }
    }
    let entropy = diff.change_entropy();
    if let Some(limit) = limits.min_change_entropy {
        checks.insert("min_change_entropy".into(), limit.into());
        if entropy < limit {
            violations.push(format!("change_entropy ({entropy:.2}) below min_change_entropy ({limit})"));
        }
    }
    if let Some(limit) = limits.max_change_entropy {
        checks.insert("max_change_entropy".into(), limit.into());
        if entropy > limit {
            violations.push(format!("change_entropy ({entropy:.2}) exceeds max_change_entropy ({limit})"));
        }
    }
    (checks, violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::{ChangeKind, FileChange, Lines};

    fn diff(files: &[(&str, u64, u64)]) -> Diff {
        let file = |(path, added, removed): &(&str, u64, u64)| FileChange {
            path: path.as_bytes().to_vec(),
            kind: ChangeKind::Modified,
            modes: ("100644".to_owned(), "100644".to_owned()),
            lines: Lines::Text { added: *added, removed: *removed },
        };
        Diff { files: files.iter().map(file).collect() }
    }

    fn run(limits: &GitDiff, files: &[(&str, u64, u64)]) -> EvaluatorResult {
        git_diff("git-diff", limits, &diff(files), &Trees { start: "s", end: "e", patch: None })
    }

    #[test]
    fn without_limits_it_passes_and_measures() {
        let result = run(&GitDiff::default(), &[("a", 3, 1), ("b", 4, 0)]);
        assert_eq!(result.status, EvaluatorStatus::Passed);
        assert_eq!(result.message, "✓ 2 changed files (+7/-1 lines)");
        assert_eq!(result.metrics["change_entropy"], 1.0);
        assert!(result.assertions.is_empty());
    }

    #[test]
    fn each_limit_that_does_not_hold_is_said() {
        let limits = GitDiff {
            max_files_changed: Some(1),
            max_lines_added: Some(7),
            min_change_entropy: Some(2.0),
            ..GitDiff::default()
        };
        let result = run(&limits, &[("a", 3, 1), ("b", 4, 0)]);
        assert_eq!(result.status, EvaluatorStatus::Failed);
        let expected = "✗ 2 changed files (+7/-1 lines) | Violations: files_changed (2) exceeds max_files_changed (1); \
                        change_entropy (1.00) below min_change_entropy (2)";
        assert_eq!(result.message, expected);
        assert_eq!(result.assertions.len(), 3);
    }
}
