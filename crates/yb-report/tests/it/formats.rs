//! Complete small reports.

use serde_json::Value;
use yb_engine::run::RunDir;
use yb_report::Report;

use crate::{hostile, report, small};

/// Replaces the temporary directory.
fn normalize(root: &tempfile::TempDir, text: &str) -> String {
    text.replace(root.path().to_str().unwrap(), "[ROOT]")
}

#[test]
fn markdown() {
    let (root, report) = report(&small());
    insta::assert_snapshot!(normalize(&root, &yb_report::markdown(&report)));
}

#[test]
fn github() {
    let (root, report) = report(&small());
    insta::assert_snapshot!(normalize(&root, &yb_report::github(&report)));
}

#[test]
fn junit() {
    let (root, report) = report(&small());
    insta::assert_snapshot!(normalize(&root, &yb_report::junit(&report)));
}

#[test]
fn csv() {
    let (root, report) = report(&small());
    insta::assert_snapshot!(normalize(&root, &yb_report::csv(&report)).replace('\r', ""));
}

/// The document as it was rendered before it was written trial by trial: one value, pretty-printed.
#[test]
fn json_is_written_trial_by_trial_with_the_same_bytes() {
    let (_root, report) = report(&hostile());
    let text = yb_report::json(&report);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert!(text == format!("{value:#}\n"));
    let mut written = Vec::new();
    yb_report::write_json(&report, &mut written).unwrap();
    assert!(written == text.as_bytes());
}

#[test]
fn json_has_a_version_and_complete_results() {
    let (_root, report) = report(&small());
    let value: Value = serde_json::from_str(&yb_report::json(&report)).unwrap();
    assert_eq!(
        (value["format"].as_str(), value["version"].as_str()),
        (Some("youbencha-report"), Some("1.0.0"))
    );
    let run = &value["runs"][0];
    assert_eq!(run["summary"]["passed"], 1);
    assert_eq!(run["summary"]["counted"], 2);
    assert_eq!(run["matrix"].as_array().unwrap().len(), 2);
    let trial = &run["trials"][1];
    assert_eq!(trial["outcome"], "failed");
    assert_eq!(trial["results"]["evaluators"][2]["assertions"]["tests"]["score"], 0.4);
    assert_eq!(trial["usage"]["source"], "self-reported");
}

#[test]
fn same_run_gives_the_same_bytes() {
    let (_root, report) = report(&hostile());
    let all = || {
        let pages: String = yb_report::html(&report).pages().map(|page| page.text).collect();
        [yb_report::markdown(&report), yb_report::json(&report), yb_report::junit(&report), pages]
    };
    assert_eq!(all(), all());
}

#[test]
fn several_runs_are_distinguished() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let read =
        |root: &tempfile::TempDir| yb_report::read_run(RunDir::at(small().write(root.path()))).unwrap();
    let report = Report::of(vec![read(&one), read(&two)]);
    assert_eq!(yb_report::csv(&report).lines().count(), 5);
    assert_eq!(yb_report::markdown(&report).matches("## Summary").count(), 2);
    let pages: Vec<_> = yb_report::html(&report).pages().collect();
    assert_eq!(pages.len(), 1);
    assert_eq!(pages[0].text.matches("<article").count(), 4);
}

/// Unknown fields in the results of a run are shown.
#[test]
fn gates_and_unknown_fields_are_shown() {
    let root = tempfile::tempdir().unwrap();
    let run = small().write(root.path());
    let gates = r#"{"gates": {"answer": "failed", "gates": [{"gate": "min_pass_rate", "answer": "failed", "reason": "50% is below 80%"}]}}"#;
    std::fs::write(run.join("results.json"), gates).unwrap();
    let report = Report::of(vec![yb_report::read_run(RunDir::at(run)).unwrap()]);
    assert!(yb_report::github(&report).contains("- gate **min\\_pass\\_rate**: failed: 50% is below 80%"));
    assert!(yb_report::markdown(&report).contains("### Gates"));
    assert!(yb_report::markdown(&report).contains("| min\\_pass\\_rate | failed | 50% is below 80% |"));
    assert!(yb_report::github(&report).starts_with("### ❌ nightly"));
    let page = yb_report::html(&report).pages().next().unwrap();
    assert!(page.text.contains("50% is below 80%"));
}
