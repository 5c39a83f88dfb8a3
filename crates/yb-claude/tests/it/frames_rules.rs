//! The rules of `RunSummary`, one test each.

use yb_claude::frame::{ApiFailure, ApiFailureKind, ModelName, ModelSource, Tokens, UsageSource};
use yb_claude::{Message, ResultSubtype, RunSummary, UsageBaseline};

use crate::frames::Case;

fn summary(lines: &[&str]) -> RunSummary {
    let messages: Vec<_> = lines.iter().map(|line| Message::parse(line.as_bytes()).unwrap()).collect();
    messages.iter().collect()
}

fn model(lines: &[&str]) -> Option<(String, ModelSource)> {
    summary(lines).model().map(|ModelName { name, source, .. }| (name.to_owned(), source))
}

const INIT: &str = r#"{"type":"system","subtype":"init","model":"from-init","session_id":"s1","claude_code_version":"9.9.9"}"#;
const ASSISTANT: &str =
    r#"{"type":"assistant","message":{"model":"from-answer","content":[{"type":"text","text":"hi"}]}}"#;

#[test]
fn c10_model_of_init_takes_precedence() {
    let result = r#"{"type":"result","model":"from-result","modelUsage":{"from-usage":{"costUSD":1}}}"#;
    assert_eq!(model(&[ASSISTANT, INIT, result]), Some(("from-init".into(), ModelSource::Init)));
    assert_eq!(model(&[ASSISTANT, result]), Some(("from-usage".into(), ModelSource::ModelUsage)));
    let bare = r#"{"type":"result","model":"from-result","modelUsage":{}}"#;
    assert_eq!(model(&[ASSISTANT, bare]), Some(("from-answer".into(), ModelSource::Assistant)));
    assert_eq!(model(&[bare]), Some(("from-result".into(), ModelSource::Result)));
    assert_eq!(model(&[r#"{"type":"result"}"#]), None);
    assert_eq!(model(&[]), None);
}

#[test]
fn c10_most_expensive_model_is_selected() {
    let usage = |since: &str| {
        format!(
            r#"{{"type":"result"{since},"modelUsage":{{"helper":{{"inputTokens":90000,"costUSD":0.1}},"main":{{"inputTokens":10,"costUSD":0.4}}}}}}"#
        )
    };
    assert_eq!(model(&[&usage("")]).unwrap().0, "main");
    // The usage of earlier runs does not count, if the CLI reports it separately.
    let since = r#","model_usage_since_last_result":{"helper":{"costUSD":0.01}}"#;
    assert_eq!(model(&[&usage(since)]).unwrap().0, "helper");
    // Tokens decide if there is no cost.
    let tied = r#"{"type":"result","modelUsage":{"a":{"inputTokens":1},"b":{"inputTokens":5},"c":{"outputTokens":2}}}"#;
    assert_eq!(model(&[tied]).unwrap().0, "b");
}

#[test]
fn c10_synthetic_message_has_no_model() {
    let synthetic = r#"{"type":"assistant","message":{"model":"<synthetic>","content":[]}}"#;
    assert_eq!(model(&[synthetic]), None);
    let subagent = r#"{"type":"assistant","parent_tool_use_id":"t","message":{"model":"sub","content":[]}}"#;
    assert_eq!(model(&[subagent]), None);
}

#[test]
fn c10_fallback_model_is_reported_separately() {
    let summary = Case::named("claude", "err-fallback-model").summary();
    assert_eq!(summary.model().unwrap().name, "claude-opus-5-5");
    assert_eq!(summary.fallback_model(), Some("claude-haiku-5-5"));
    assert_eq!((summary.api_retries(), summary.pending_failure()), (2, None));
}

#[test]
fn c12_tokens_and_cost_are_reported() {
    let spent = Case::named("claude", "json").summary().usage(UsageBaseline::NewSession).unwrap();
    assert_eq!((spent.tokens.input, spent.tokens.output), (400, 168));
    assert_eq!((spent.tokens.cache_read, spent.tokens.cache_creation), (80, 40));
    assert_eq!((spent.cost_usd, spent.session_cost_usd), (Some(0.005176), Some(0.005176)));
}

#[test]
fn c12_usage_of_assistant_messages_is_never_summed() {
    let line = r#"{"type":"assistant","message":{"id":"m","content":[],"usage":{"input_tokens":100,"output_tokens":1}}}"#;
    assert_eq!(summary(&[line, line]).usage(UsageBaseline::NewSession), None);
}

#[test]
fn c28_total_excludes_cache() {
    let line =
        r#"{"type":"result","usage":{"input_tokens":1234,"output_tokens":5678,"cache_read_input_tokens":7}}"#;
    let tokens = summary(&[line]).usage(UsageBaseline::NewSession).unwrap().tokens;
    assert_eq!((tokens.total(), tokens.total_with_cache()), (6912, 6919));
}

#[test]
fn c28_missing_usage_is_none() {
    assert_eq!(summary(&[INIT, ASSISTANT]).usage(UsageBaseline::Unknown), None);
    assert_eq!(summary(&[r#"{"type":"result","subtype":"success"}"#]).usage(UsageBaseline::Unknown), None);
}

#[test]
fn exhausted_budget_is_counted_from_model_usage() {
    let summary = Case::named("claude", "budget-json").summary();
    assert_eq!(summary.result_subtype(), Some(&ResultSubtype::ErrorMaxBudgetUsd));
    let spent = summary.usage(UsageBaseline::NewSession).unwrap();
    assert_eq!((spent.tokens.total(), spent.source), (105_000, UsageSource::ModelUsage));
    let spent = summary.usage(UsageBaseline::Unknown).unwrap();
    assert_eq!(
        (spent.tokens.total(), spent.cost_usd, spent.source),
        (105_000, None, UsageSource::WholeSession)
    );
    assert_eq!(summary.api_failure(), None);
}

/// `modelUsage` continues counting in a resumed session.
#[test]
fn resumed_session_usage_is_relative_to_baseline() {
    let first = Case::named("claude", "sess-id").summary();
    let resumed = Case::named("claude", "sess-resume").summary();
    let before = first.session_totals().unwrap();
    let spent = resumed.usage(UsageBaseline::Totals(&before)).unwrap();
    assert_eq!(spent.tokens, first.usage(UsageBaseline::NewSession).unwrap().tokens);
    assert!((spent.cost_usd.unwrap() - 0.001294).abs() < 1e-12);
    assert_eq!(spent.session_cost_usd, Some(0.002588));
    // Without a baseline the tokens of the main thread are known and the cost is not.
    let spent = resumed.usage(UsageBaseline::Unknown).unwrap();
    assert_eq!((spent.tokens.total(), spent.cost_usd), (142, None));
    assert_eq!((spent.session_cost_usd, spent.source), (Some(0.002588), UsageSource::ResultUsage));
}

/// Streams of newer versions report the usage of each run.
#[test]
fn resumed_stream_usage_needs_no_baseline() {
    let line = r#"{"type":"result","result_index":0,"total_cost_usd":3.5,"usage":{"input_tokens":1},
        "modelUsage":{"m":{"inputTokens":900,"costUSD":3.5}},
        "model_usage_since_last_result":{"m":{"inputTokens":11,"outputTokens":7,"costUSD":0.5}}}"#;
    let spent = summary(&[line]).usage(UsageBaseline::Unknown).unwrap();
    assert_eq!(
        (spent.tokens.total(), spent.cost_usd, spent.source),
        (18, Some(0.5), UsageSource::SinceLastResult)
    );
    // Every result must report its usage, not only the last one.
    let second = line.replace("\"result_index\":0", "\"result_index\":1");
    assert_eq!(summary(&[&second]).usage(UsageBaseline::Unknown).unwrap().source, UsageSource::ResultUsage);
}

#[test]
fn decreased_counter_is_treated_as_reset() {
    let totals = |input: u64| {
        summary(&[&format!(
            r#"{{"type":"result","total_cost_usd":0.25,"modelUsage":{{"m":{{"inputTokens":{input}}}}}}}"#
        )])
    };
    let before = totals(500).session_totals().unwrap();
    let spent = totals(100).usage(UsageBaseline::Totals(&before)).unwrap();
    assert_eq!((spent.tokens.input, spent.cost_usd), (100, Some(0.25)));
}

#[test]
fn tokens_never_overflow() {
    let huge = r#"{"type":"result","modelUsage":{"a":{"inputTokens":18446744073709551615,"outputTokens":9},"b":{"inputTokens":5}}}"#;
    let spent = summary(&[huge]).usage(UsageBaseline::NewSession).unwrap();
    assert_eq!((spent.tokens.input, spent.tokens.total()), (u64::MAX, u64::MAX));
    assert_ne!(spent.tokens, Tokens::default());
}

#[test]
fn last_of_several_results_counts() {
    let summary = Case::named("claude", "bg-8s-finishes").summary();
    assert_eq!(summary.results().len(), 2);
    assert_eq!(summary.final_text(), "(fake: script a finished)");
    let last = summary.last_result().unwrap();
    assert_eq!(last.result_index, Some(1));
    assert_eq!(last.origin.as_ref().unwrap().kind, "task-notification");
    assert_eq!(summary.usage(UsageBaseline::NewSession).unwrap().tokens.total(), 426);
}

#[test]
fn c15_partial_text_at_turn_limit_is_from_main_thread() {
    for (family, case) in [
        ("claude", "maxturns-stream-json"),
        ("claude-old", "v2.0.76-maxturns"),
        ("claude-old", "v2.1.120-maxturns"),
    ] {
        let summary = Case::named(family, case).summary();
        assert_eq!(summary.result_subtype(), Some(&ResultSubtype::ErrorMaxTurns));
        assert!(!summary.final_text().is_empty(), "{case}");
        assert_eq!(summary.api_failure(), None);
    }
    let text = |parent: &str, id: &str, text: &str| {
        format!(
            r#"{{"type":"assistant","parent_tool_use_id":{parent},"message":{{"id":"{id}","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    };
    let end = r#"{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["limit"]}"#;
    let lines = [
        text("null", "a", "One, "),
        text("null", "a", "two."),
        text("\"t\"", "b", "Sub."),
        text("null", "c", "Three."),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).chain([end]).collect();
    assert_eq!(summary(&lines).final_text(), "One, two.\n\nThree.");
}

#[test]
fn c15_partial_text_is_from_last_turn() {
    let end = r#"{"type":"result","subtype":"error_max_turns"}"#;
    let second = ASSISTANT.replace("hi", "again");
    assert_eq!(summary(&[INIT, ASSISTANT, end, INIT, &second, end]).final_text(), "again");
    assert_eq!(summary(&[INIT, ASSISTANT, end, INIT, end]).final_text(), "");
    // A run that was killed has no result at all.
    assert_eq!(summary(&[INIT, ASSISTANT]).final_text(), "hi");
}

#[test]
fn c29_api_errors_are_classified() {
    use ApiFailureKind as Kind;
    let cases = [
        ("auth-none-sj", Kind::Unauthenticated, None),
        ("auth-none-json", Kind::Unauthenticated, None),
        ("err-401-max0", Kind::Unauthenticated, Some(401)),
        ("err-403", Kind::Unauthenticated, Some(403)),
        ("err-400", Kind::InvalidRequest, Some(400)),
        ("err-400-credit", Kind::Billing, Some(400)),
        ("err-400-toolong", Kind::TooLarge, Some(400)),
        ("err-404", Kind::ModelNotFound, Some(404)),
        ("err-404-model", Kind::ModelNotFound, Some(404)),
        ("err-413", Kind::TooLarge, Some(413)),
        ("err-429-max2", Kind::RateLimited, Some(429)),
        ("err-500-max0", Kind::ServerError, Some(500)),
        ("err-second-turn-500", Kind::ServerError, Some(500)),
        ("err-529-max2", Kind::Overloaded, Some(529)),
        ("err-refused-max1", Kind::Network, None),
        ("err-timeout", Kind::Network, None),
        ("proxy-env", Kind::Network, None),
    ];
    for (case, kind, status) in cases {
        let summary = Case::named("claude", case).summary();
        let failure = summary.api_failure().unwrap();
        assert_eq!((failure.kind, failure.status), (kind, status), "{case}");
        assert_eq!(Some(&failure.message), summary.last_result().unwrap().result.as_ref(), "{case}");
        let retryable =
            matches!(kind, Kind::RateLimited | Kind::Overloaded | Kind::ServerError | Kind::Network);
        assert_eq!(failure.retryable, retryable, "{case}");
    }
}

#[test]
fn c29_other_errors_are_not_api_failures() {
    for case in [
        "maxturns-json",
        "sig-int-bash-sj",
        "sess-resume-missing-sj",
        "misc-badcfg",
        "perm-default",
        "sj-tools",
    ] {
        assert_eq!(Case::named("claude", case).summary().api_failure(), None, "{case}");
    }
}

#[test]
fn c29_assistant_message_adds_error_details() {
    let limit = r#"{"type":"assistant","error":"rate_limit","message":{"model":"<synthetic>","content":[{"type":"text","text":"Come back at 3pm"}]}}"#;
    let result = r#"{"type":"result","subtype":"success","is_error":true,"result":"Come back at 3pm"}"#;
    assert_eq!(summary(&[limit, result]).api_failure().unwrap().kind, ApiFailureKind::RateLimited);
    assert_eq!(summary(&[limit]).api_failure().unwrap().message, "Come back at 3pm");
    assert_eq!(summary(&[result]).api_failure().unwrap().kind, ApiFailureKind::Other);
    // A recovered error is not a failure.
    assert_eq!(summary(&[limit, ASSISTANT]).api_failure(), None);
}

#[test]
fn stopped_run_reports_pending_api_failure() {
    let failure = Case::named("claude", "err-401").summary().pending_failure().unwrap();
    assert_eq!((failure.kind, failure.status), (ApiFailureKind::Unauthenticated, Some(401)));
    let refused =
        r#"{"type":"system","subtype":"api_retry","attempt":1,"error_status":null,"error":"unknown"}"#;
    let ApiFailure { kind, retryable, .. } = summary(&[refused]).pending_failure().unwrap();
    assert_eq!((kind, retryable), (ApiFailureKind::Network, true));
    assert_eq!(summary(&[refused, ASSISTANT]).pending_failure(), None);
}

#[test]
fn tool_calls_have_caller_and_outcome() {
    let summary = Case::named("claude", "subagent-fg").summary();
    let calls: Vec<_> =
        summary.tools().iter().map(|call| (&*call.name, call.parent_tool_use_id.is_some())).collect();
    assert_eq!(calls, [("Agent", false), ("Write", true)]);
    assert!(
        summary.tools().iter().all(|call| call.outcome.as_ref().is_some_and(|outcome| !outcome.is_error))
    );
    let summary = Case::named("claude", "perm-default").summary();
    let denied: Vec<_> = summary.permission_denials().iter().map(|denial| &denial.tool_use_id).collect();
    assert!(!denied.is_empty());
    for call in summary.tools().iter().filter(|call| denied.contains(&&call.id)) {
        assert!(call.outcome.as_ref().unwrap().is_error);
    }
    assert!(
        summary.permission_denials().iter().all(|denial| denial.tool_input.is_some()),
        "told by the result"
    );
}

#[test]
fn long_tool_output_is_truncated_only_in_summary() {
    let call = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"x"}}]}}"#;
    let result = format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t","content":[{{"type":"text","text":"{}"}}]}}]}}}}"#,
        "ä".repeat(5000)
    );
    let summary = summary(&[call, call, &result]);
    let [call] = summary.tools() else { panic!("the same call twice is one call") };
    let outcome = call.outcome.as_ref().unwrap();
    assert_eq!((outcome.text.len(), outcome.bytes), (4096, 10_000));
    assert_eq!(call.input.to_value().unwrap()["command"], "x");
}

#[test]
fn summary_has_session_version_and_stop_reason() {
    let summary = Case::named("claude", "sj-tools").summary();
    assert_eq!(summary.stop_reason(), Some("end_turn"));
    assert_eq!(summary.session_id().map(str::len), Some(36));
    assert_eq!(self::summary(&[INIT]).cli_version(), Some("9.9.9"));
    // Killed before the result: earlier messages are kept.
    let killed = Case::named("claude", "sig-term-stream-sj").summary();
    assert_eq!((killed.result_subtype(), killed.model().is_some()), (None, true));
}
