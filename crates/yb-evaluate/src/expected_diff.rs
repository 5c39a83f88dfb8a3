//! `expected-diff`: how near the result is to the expected one, file by file.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::{Value, json};
use yb_figures::percent;

use super::similarity::{BUDGET, similarity};
use super::tree::blocking;
use super::{Assertion, Desk, Evaluator, GradeError, Need, Subject, Verdict};
use yb_case::ExpectedDiff;
use yb_repo::TreeFile;

/// All files with their similarity, in the evaluator's folder.
const REPORT_FILE: &str = "expected-diff-report.json";
/// A larger file is alike only if it is the same.
const LARGEST: u64 = 32 << 20;
/// How much is compared at once.
const AT_ONCE: u64 = 64 << 20;
/// How many files the metrics list; the report has all of them.
const LISTED: usize = 1000;
const LEAST: usize = 20;

#[async_trait]
impl Evaluator for ExpectedDiff {
    fn need(&self) -> Need {
        Need::Objects
    }

    async fn evaluate(&self, subject: &Subject, desk: &Desk) -> Result<Verdict, GradeError> {
        let Some(expected) = &subject.expected else {
            return Err(GradeError::other("nothing is expected: the case has no `expected`"));
        };
        let expected = expected.as_ref().map_err(|error| GradeError::other(error.clone()))?;
        let (result, wanted) = (subject.files().await?, subject.store.list(expected).await?);
        let files = compare(subject, result, wanted).await?;
        let (verdict, report) = judge(self.threshold, &files, &subject.log.execution.completed_at);
        let artifact = desk.keep_json(
            "json",
            REPORT_FILE,
            "every file, and how near it is to the expected one",
            &report,
        )?;
        let mut verdict = verdict.metric("expected_tree", expected.as_str());
        verdict.artifacts.push(artifact);
        Ok(verdict)
    }
}

/// A file of either side.
#[derive(Debug, Clone, PartialEq)]
struct Compared {
    path: String,
    similarity: f64,
    status: &'static str,
}

async fn compare(
    subject: &Subject,
    result: &[TreeFile],
    wanted: Vec<TreeFile>,
) -> Result<Vec<Compared>, GradeError> {
    let mut sides: BTreeMap<Vec<u8>, (Option<TreeFile>, Option<TreeFile>)> = BTreeMap::new();
    for file in result {
        let side = sides.entry(file.path.clone()).or_default();
        side.0 = Some(file.clone());
    }
    for file in wanted {
        let side = sides.entry(file.path.clone()).or_default();
        side.1 = Some(file);
    }
    let mut files = Vec::with_capacity(sides.len());
    let mut open: Vec<(usize, TreeFile, TreeFile)> = Vec::new();
    for (path, sides) in sides {
        let (similarity, status) = match sides {
            (Some(one), Some(two)) if one.id == two.id && one.is_link() == two.is_link() => (1.0, "matched"),
            (Some(one), Some(two)) => {
                // A link and a file are nothing alike, whatever is in them.
                if one.is_link() == two.is_link() && one.size.max(two.size) <= LARGEST {
                    open.push((files.len(), one, two));
                }
                (0.0, "changed")
            }
            (Some(_), None) => (0.0, "added"),
            _ => (0.0, "removed"),
        };
        files.push(Compared { path: String::from_utf8_lossy(&path).into_owned(), similarity, status });
    }
    let mut budget = BUDGET;
    let mut rest = open.as_slice();
    while !rest.is_empty() {
        let mut sum = 0;
        let fits = rest.iter().take_while(|(_, one, two)| {
            sum += one.size + two.size;
            sum <= AT_ONCE
        });
        let (now, later) = rest.split_at(fits.count().max(1));
        rest = later;
        let wanted: Vec<&TreeFile> = now.iter().flat_map(|(_, one, two)| [one, two]).collect();
        let contents = subject.store.contents(&wanted).await?;
        let places: Vec<usize> = now.iter().map(|(at, ..)| *at).collect();
        let found: Vec<f64>;
        (found, budget) = blocking(move || {
            let mut left = budget;
            let pairs = contents.chunks_exact(2);
            Ok((pairs.map(|pair| similarity(&pair[0], &pair[1], &mut left)).collect(), left))
        })
        .await?;
        for (at, similarity) in places.into_iter().zip(found) {
            files[at].similarity = similarity;
        }
    }
    Ok(files)
}

fn judge(threshold: f64, files: &[Compared], completed_at: &str) -> (Verdict, Value) {
    let count = |status: &str| files.iter().filter(|file| file.status == status).count();
    let (matched, changed) = (count("matched"), count("changed"));
    let (added, removed) = (count("added"), count("removed"));
    let aggregate = aggregate(files);
    let mut check = Assertion::of("threshold", aggregate >= threshold)
        .found(aggregate, threshold)
        .because(|| format!("similarity {} is below {}", percent(aggregate), percent(threshold)));
    (check.score, check.threshold) = (aggregate, threshold);
    // The least similar first, so that what is left out says the least.
    let mut by_similarity: Vec<&Compared> = files.iter().collect();
    by_similarity
        .sort_by(|one, two| one.similarity.total_cmp(&two.similarity).then_with(|| one.path.cmp(&two.path)));
    let details: Vec<Value> = by_similarity.iter().map(|file| detail(file)).collect();
    let least: Vec<Value> = by_similarity
        .iter()
        .filter(|file| file.status != "matched")
        .take(LEAST)
        .map(|file| detail(file))
        .collect();
    let summary = json!({
        "aggregate_similarity": aggregate, "threshold": threshold, "files_matched": matched,
        "files_changed": changed, "files_added": added, "files_removed": removed,
    });
    let mut verdict = Verdict::of(vec![check])
        .metric("aggregate_similarity", aggregate)
        .metric("files_matched", matched)
        .metric("files_changed", changed)
        .metric("files_added", added)
        .metric("files_removed", removed)
        .metric("file_similarities", details.iter().take(LISTED).cloned().collect::<Vec<_>>())
        .metric("least_similar", least);
    if let more @ 1.. = details.len().saturating_sub(LISTED) {
        verdict = verdict.metric("file_similarities_omitted", more);
    }
    let mark = if aggregate >= threshold { "✓" } else { "✗" };
    verdict.message = format!(
        "{mark} Similarity: {} (threshold: {}) | Files: {matched} matched, {changed} changed",
        percent(aggregate),
        percent(threshold)
    );
    let others: Vec<String> = [(added, "added"), (removed, "removed")]
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if !others.is_empty() {
        verdict.message.push_str(&format!(" | {}", others.join(", ")));
    }
    // When the trial ended, not when it was graded: the same trial gives the same report.
    (verdict, json!({ "summary": summary, "file_details": details, "timestamp": completed_at }))
}

/// The mean over files that both have, less the share of those that only one has.
fn aggregate(files: &[Compared]) -> f64 {
    if files.is_empty() {
        return 1.0;
    }
    let common = files.iter().filter(|file| matches!(file.status, "matched" | "changed"));
    let (sum, count) = common.fold((0.0, 0_usize), |(sum, count), file| (sum + file.similarity, count + 1));
    let mean = if count == 0 { 0.0 } else { sum / count as f64 };
    (mean - (files.len() - count) as f64 / files.len() as f64).clamp(0.0, 1.0)
}

fn detail(file: &Compared) -> Value {
    json!({ "path": file.path, "similarity": file.similarity, "status": file.status })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EvaluatorStatus;

    fn file(path: &str, similarity: f64, status: &'static str) -> Compared {
        Compared { path: path.to_owned(), similarity, status }
    }

    #[test]
    fn the_aggregate_is_that_of_the_original() {
        assert_eq!(aggregate(&[]).to_bits(), 1.0_f64.to_bits());
        assert_eq!(aggregate(&[file("a", 0.0, "added")]).to_bits(), 0.0_f64.to_bits());
        let files = [
            file("a", 1.0, "matched"),
            file("b", 0.5, "changed"),
            file("c", 0.0, "added"),
            file("d", 0.0, "removed"),
        ];
        assert!((aggregate(&files) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn the_message_and_the_least_similar() {
        let files = [file("a", 1.0, "matched"), file("b", 0.9, "changed"), file("c", 0.2, "changed")];
        let (verdict, report) = judge(0.825, &files, "2026-01-01T00:00:00Z");
        assert_eq!(verdict.status, EvaluatorStatus::Failed);
        assert_eq!(verdict.message, "✗ Similarity: 70.0% (threshold: 82.5%) | Files: 1 matched, 2 changed");
        assert_eq!(verdict.metrics["least_similar"][0]["path"], "c");
        assert_eq!(verdict.assertions["threshold"], 0.825);
        assert!((verdict.checks[0].score - 0.7).abs() < 1e-12);
        assert_eq!(report["timestamp"], "2026-01-01T00:00:00Z");
    }
}
