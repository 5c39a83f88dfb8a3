//! `results.json` of one trial, also of the original youBencha.

use std::fs;

use serde_json::json;
use yb_report::{ReadError, Report};

use crate::small;

#[test]
fn original_bundle_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.json");
    let bundle = json!({
        "version": "1.0.0",
        "test_case": {"name": "readme", "description": "d", "config_file": "t.yaml", "config_hash": "h", "repo": "https://x/y.git",
            "branch": "main", "commit": "c0ffee", "expected_branch": "done"},
        "execution": {"started_at": "2025-11-20T10:00:00Z", "completed_at": "2025-11-20T10:01:00Z", "duration_ms": 60_000.5,
            "youbencha_version": "0.1.1", "environment": {"os": "linux", "node_version": "v20", "workspace_dir": "w"}},
        "agent": {"type": "copilot-cli", "youbencha_log_path": "youbencha.log.json", "status": "success", "exit_code": 0},
        "evaluators": [{"evaluator": "expected-diff", "status": "skipped", "message": "no reference", "duration_ms": 3, "timestamp": "t",
            "metrics": {"aggregate_similarity": 0.8567, "file_similarities": [{"path": "a|b", "similarity": 0.5, "status": "changed"}]},
            "assertions": {"threshold": 0.8}, "error": {"message": "boom", "stack_trace": "s"}}],
        "summary": {"total_evaluators": 1, "passed": 0, "failed": 0, "skipped": 1, "overall_status": "partial"},
        "artifacts": {"agent_log": "youbencha.log.json", "reports": [], "evaluator_artifacts": []},
    });
    fs::write(&path, bundle.to_string()).unwrap();
    let log = json!({"version": "1.0.0", "model": {"name": "gpt", "provider": "p", "parameters": {}},
        "usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42, "estimated_cost_usd": 0.5},
        "messages": [{"role": "assistant", "content": "hello", "timestamp": "t"}]});
    fs::write(dir.path().join("youbencha.log.json"), log.to_string()).unwrap();

    let run = yb_report::read_bundle(&path).unwrap();
    assert_eq!(run.trials[0].outcome.name, "partial");
    assert_eq!((run.trials[0].tokens, run.trials[0].money.total()), (Some(42), Some(0.5)));
    let report = Report::of(vec![run]);
    let text = yb_report::markdown(&report);
    for expected in [
        "| Expected branch | `done` |",
        "| Tokens | 42 (30 input, 12 output) |",
        "| threshold |  |  |  | 0.8 |",
        "| aggregate similarity | 0.8567 |",
        "| a\\|b | 0.5 | changed |",
        "boom",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains("[object"));
    assert!(
        yb_report::junit(&report)
            .contains("<error message=\"partial: expected-diff: boom\" type=\"partial\">")
    );
    let page = yb_report::html(&report).pages().next().unwrap();
    assert!(page.text.contains("hello"));
}

#[test]
fn bundle_is_read_like_its_run() {
    let root = tempfile::tempdir().unwrap();
    let run = small().write(root.path());
    let path = run.join("trials/fix-login-redirect--sonnet--1/attempt-1/artifacts/results.json");
    let run = yb_report::read_bundle(&path).unwrap();
    assert_eq!(run.trials[0].outcome.name, "failed");
    assert_eq!(run.trials[0].model.as_deref(), Some("claude-opus-5-5"));
}

#[test]
fn invalid_bundle_is_rejected_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.json");
    assert!(matches!(yb_report::read_bundle(&path), Err(ReadError::Io { .. })));
    for (text, expected) in [
        ("{", "invalid JSON"),
        ("{}", "`test_case.name` is missing"),
        (r#"{"test_case": {"name": "x"}}"#, "it has neither `evaluators` nor `outcome`"),
    ] {
        fs::write(&path, text).unwrap();
        let error = yb_report::read_bundle(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, "diff --git a/x b/x\n@@ -1 +1 @@\n+do not show\n").unwrap();
    let artifacts = dir.path().join("artifacts");
    fs::create_dir(&artifacts).unwrap();
    fs::write(artifacts.join("results.json"), r#"{"test_case": {"name": "x"}, "outcome": "passed"}"#)
        .unwrap();
    std::os::unix::fs::symlink(&secret, artifacts.join("git-diff.patch")).unwrap();
    let report = Report::of(vec![yb_report::read_bundle(&artifacts.join("results.json")).unwrap()]);
    let page = yb_report::html(&report).pages().next().unwrap();
    assert!(!page.text.contains("do not show"));
}
