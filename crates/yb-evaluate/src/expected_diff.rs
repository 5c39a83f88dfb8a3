//! `expected-diff`: compares the end tree with the expected tree, file by file.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use yb_figures::percent;

use super::similarity::{BUDGET, similarity};
use super::tree::blocking;
use super::{Assertion, Evaluator, EvaluatorContext, GradeError, Subject, Verdict, into_config};
use yb_case::shape::{Field, Object, SHARE};
use yb_case::{ConfigReader, EvaluatorConfig, EvaluatorInput, EvaluatorSpec};
use yb_repo::TreeFile;

/// The report with the similarity of every file, in the artifacts of the evaluator.
const REPORT_FILE: &str = "expected-diff-report.json";
/// The largest file whose similarity is computed. A larger one counts as 0 unless it is identical.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// How many bytes are loaded and compared at a time.
const BATCH_BYTES: u64 = 64 << 20;
/// How many files the metrics list; the report has all of them.
const MAX_LISTED: usize = 1000;
/// How many of the least similar files the metrics list.
const LEAST_SIMILAR: usize = 20;

pub(crate) static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "expected-diff",
    summary: "how similar the result and the expected one are, from 0 to 1",
    input: EvaluatorInput::Objects,
    config: &CONFIG,
    read,
};

static CONFIG: Object = Object {
    name: "expectedDiff",
    fields: &[Field::new("threshold", SHARE, "Minimum similarity to the expected result, from 0 to 1.")
        .default("0.8")],
};

/// The minimum similarity to the expected tree.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ExpectedDiff {
    threshold: f64,
}

fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    if !reader.has_expected() {
        reader
            .problem(format!("`{}` needs an expected result, and the case names none", SPEC.name))
            .hint("add `expected_source: branch` (or `commit`, `directory`, `patch`) and `expected: …`");
    }
    Some(into_config(ExpectedDiff { threshold: reader.number("threshold").unwrap_or(0.8) }))
}

#[async_trait]
impl Evaluator for ExpectedDiff {
    async fn evaluate(&self, subject: &Subject, context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        let Some(expected) = &subject.expected else {
            return Err(GradeError::other("the case has no `expected`"));
        };
        let expected = expected.as_ref().map_err(|error| GradeError::other(error.clone()))?;
        let (result, wanted) = (subject.files().await?, subject.store.list(expected).await?);
        let files = compare(subject, result, wanted).await?;
        let (verdict, report) = grade(self.threshold, &files, &subject.log.execution.completed_at);
        let artifact = context.write_json("json", REPORT_FILE, "the similarity of every file", &report)?;
        let mut verdict = verdict.metric("expected_tree", expected.as_str());
        verdict.artifacts.push(artifact);
        Ok(verdict)
    }
}

/// A file of either tree, with its similarity to the other.
#[derive(Debug, Clone, PartialEq)]
struct FileSimilarity {
    path: String,
    similarity: f64,
    status: &'static str,
}

async fn compare(
    subject: &Subject,
    result: &[TreeFile],
    wanted: Vec<TreeFile>,
) -> Result<Vec<FileSimilarity>, GradeError> {
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
    let mut pending: Vec<(usize, TreeFile, TreeFile)> = Vec::new();
    for (path, sides) in sides.into_iter().filter(|(path, _)| !subject.is_laid_down(path)) {
        let (similarity, status) = match sides {
            (Some(one), Some(two)) if one.id == two.id && one.is_link() == two.is_link() => (1.0, "matched"),
            (Some(one), Some(two)) => {
                // The similarity of a link and a file is 0, whatever they contain.
                if one.is_link() == two.is_link() && one.size.max(two.size) <= MAX_FILE_BYTES {
                    pending.push((files.len(), one, two));
                }
                (0.0, "changed")
            }
            (Some(_), None) => (0.0, "added"),
            _ => (0.0, "removed"),
        };
        files.push(FileSimilarity { path: String::from_utf8_lossy(&path).into_owned(), similarity, status });
    }
    let mut budget = BUDGET;
    let mut rest = pending.as_slice();
    while !rest.is_empty() {
        let mut sum = 0;
        let fits = rest.iter().take_while(|(_, one, two)| {
            sum += one.size + two.size;
            sum <= BATCH_BYTES
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

fn grade(threshold: f64, files: &[FileSimilarity], completed_at: &str) -> (Verdict, Value) {
    let count = |status: &str| files.iter().filter(|file| file.status == status).count();
    let (matched, changed) = (count("matched"), count("changed"));
    let (added, removed) = (count("added"), count("removed"));
    let aggregate = aggregate(files);
    let mut check = Assertion::new("threshold", aggregate >= threshold)
        .with_values(aggregate, threshold)
        .with_message(|| format!("similarity {} is below {}", percent(aggregate), percent(threshold)));
    (check.score, check.threshold) = (aggregate, threshold);
    // The least similar first: the metrics leave out the end of the list.
    let mut by_similarity: Vec<&FileSimilarity> = files.iter().collect();
    by_similarity
        .sort_by(|one, two| one.similarity.total_cmp(&two.similarity).then_with(|| one.path.cmp(&two.path)));
    let details: Vec<Value> = by_similarity.iter().map(|file| file_detail(file)).collect();
    let least: Vec<Value> = by_similarity
        .iter()
        .filter(|file| file.status != "matched")
        .take(LEAST_SIMILAR)
        .map(|file| file_detail(file))
        .collect();
    let summary = json!({
        "aggregate_similarity": aggregate, "threshold": threshold, "files_matched": matched,
        "files_changed": changed, "files_added": added, "files_removed": removed,
    });
    let mut verdict = Verdict::from_checks(vec![check])
        .metric("aggregate_similarity", aggregate)
        .metric("files_matched", matched)
        .metric("files_changed", changed)
        .metric("files_added", added)
        .metric("files_removed", removed)
        .metric("file_similarities", details.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>())
        .metric("least_similar", least);
    if let more @ 1.. = details.len().saturating_sub(MAX_LISTED) {
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
    // The end of the trial, not the time of grading: grading again gives the same report.
    (verdict, json!({ "summary": summary, "file_details": details, "timestamp": completed_at }))
}

/// Returns the mean similarity of the files in both trees, minus the share of files in only one of them.
fn aggregate(files: &[FileSimilarity]) -> f64 {
    if files.is_empty() {
        return 1.0;
    }
    let common = files.iter().filter(|file| matches!(file.status, "matched" | "changed"));
    let (sum, count) = common.fold((0.0, 0_usize), |(sum, count), file| (sum + file.similarity, count + 1));
    let mean = if count == 0 { 0.0 } else { sum / count as f64 };
    (mean - (files.len() - count) as f64 / files.len() as f64).clamp(0.0, 1.0)
}

fn file_detail(file: &FileSimilarity) -> Value {
    json!({ "path": file.path, "similarity": file.similarity, "status": file.status })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EvaluatorStatus;

    fn file(path: &str, similarity: f64, status: &'static str) -> FileSimilarity {
        FileSimilarity { path: path.to_owned(), similarity, status }
    }

    #[test]
    fn aggregate_is_mean_minus_share_of_unmatched_files() {
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
    fn verdict_has_message_and_least_similar_files() {
        let files = [file("a", 1.0, "matched"), file("b", 0.9, "changed"), file("c", 0.2, "changed")];
        let (verdict, report) = grade(0.825, &files, "2026-01-01T00:00:00Z");
        assert_eq!(verdict.status, EvaluatorStatus::Failed);
        assert_eq!(verdict.message, "✗ Similarity: 70.0% (threshold: 82.5%) | Files: 1 matched, 2 changed");
        assert_eq!(verdict.metrics["least_similar"][0]["path"], "c");
        assert_eq!(verdict.assertions["threshold"], 0.825);
        assert!((verdict.checks[0].score - 0.7).abs() < 1e-12);
        assert_eq!(report["timestamp"], "2026-01-01T00:00:00Z");
    }
}
