//! Contents of the normalized log (CR-3).

use std::time::Duration;

use serde_json::json;
use yb_model::log::{ModelSource, Role, UsageSource, YouBenchaLog};
use yb_model::outcome::Outcome;

use crate::support::{PROMPT, Stage, init, success};

/// Frames of an answer with a tool call, its result and the final result.
fn conversation() -> Stage {
    Stage::frames(
        &[
            init(),
            json!({"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "\u{1b}[1mI look.\u{1b}[0m"}]}}),
            json!({"type": "assistant", "message": {"id": "m1", "content": [
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.rs"}}]}}),
            json!({"type": "user", "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "\u{1b}[32mfn main\u{1b}[0m"}]}}),
            json!({"type": "assistant", "message": {"id": "m2", "content": [{"type": "text", "text": "Done."}]}}),
            success("Done."),
        ],
        0,
    )
}

/// `log_schema::check` validates every log of every test; this covers all endings.
#[tokio::test]
async fn cr_3_1_every_end_gives_a_log_that_validates() {
    conversation().run().await;
    Stage::fake("[{exit: 0}]").run().await;
    Stage::fake("[{exit: 3}]").run().await;
    Stage::fake("[{die: SEGV}]").run().await;
    let stage = Stage::fake("[{sleep_ms: 60000}]");
    stage.with(|context| context.timeout = Duration::from_millis(200)).run().await;
    Stage::fake("[]").configured(|config| config.prompt = None).refused().await;
}

#[tokio::test]
async fn cr_3_2_the_agent() {
    let done = conversation().run().await;
    let agent = &done.json["agent_info"];
    assert_eq!((&agent["name"], &agent["version"]), (&json!("claude-code"), &json!("2.1.325")));
    assert_eq!(agent["adapter_version"], "1.0.0");
    let silent = Stage::fake("[{exit: 0}]").run().await;
    assert_eq!(silent.json["agent_info"]["version"], "unknown");
    let text = Stage::text("Claude Code CLI v2.0.1\n").run().await;
    assert_eq!(text.json["agent_info"]["version"], "2.0.1");
}

#[tokio::test]
async fn cr_3_3_the_model_of_the_output() {
    let done = conversation().configured(|config| config.model = Some("opus".to_owned())).run().await;
    assert_eq!(done.json["model_info"]["name"], "claude-sonnet-4-5-20250929");
    assert_eq!(done.json["model_info"]["provider"], "anthropic");
    assert_eq!(done.log.model.source, ModelSource::Init);
    let text = Stage::text("Model: claude-sonnet-4\n").run().await;
    assert_eq!((text.log.model.name.as_str(), text.log.model.source), ("claude-sonnet-4", ModelSource::Text));
}

#[tokio::test]
async fn cr_3_4_the_model_of_the_configuration() {
    let stage = Stage::fake("[{exit: 0}]");
    let done = stage.configured(|config| config.model = Some("anthropic/claude-x".to_owned())).run().await;
    assert_eq!((done.log.model.name.as_str(), done.log.model.source), ("claude-x", ModelSource::Config));
    let none = Stage::fake("[{exit: 0}]").run().await;
    assert_eq!((none.log.model.name.as_str(), none.log.model.source), ("unknown", ModelSource::Unknown));
}

#[tokio::test]
async fn cr_3_5_the_execution() {
    let done = Stage::fake("[{exit: 4}]").run().await;
    let (execution, result) = (&done.log.execution, &done.result);
    assert_eq!((&execution.started_at, &execution.completed_at), (&result.started_at, &result.completed_at));
    assert_eq!(
        (execution.duration_ms, execution.exit_code, execution.status),
        (result.duration_ms, 4, result.status)
    );
    let done = conversation().run().await;
    let execution = &done.json["execution"];
    assert_eq!(execution["permission_mode"], "bypassPermissions");
    assert_eq!(execution["isolation"], "external");
    assert!(execution["containment"].is_string());
    assert_eq!((&execution["session_id"], &execution["num_turns"]), (&json!("s-1"), &json!(1)));
    assert_eq!((&execution["ending"], &execution["trust_repo_settings"]), (&json!("success"), &json!(false)));
}

#[tokio::test]
async fn cr_3_6_the_messages() {
    let done = conversation().run().await;
    let said: Vec<_> = done.log.messages.iter().map(|m| (m.role, m.content.as_str())).collect();
    assert_eq!(
        said,
        [
            (Role::User, PROMPT),
            (Role::Assistant, "I look."),
            (Role::Tool, "fn main"),
            (Role::Assistant, "Done.")
        ]
    );
    let text = Stage::text("User: hi\nAssistant: hello\n").run().await;
    let said: Vec<_> = text.log.messages.iter().map(|m| (m.role, m.content.as_str())).collect();
    assert_eq!(said, [(Role::User, PROMPT), (Role::User, "hi"), (Role::Assistant, "hello")]);
}

#[tokio::test]
async fn cr_3_7_the_tool_calls() {
    let text = Stage::text("[TOOL: read_file] path/to/file\n[TOOL:mcp__a-b__c] x\n").run().await;
    assert_eq!(text.json["tool_calls"][0], json!({"name": "read_file", "arguments": "path/to/file"}));
    assert_eq!(text.json["tool_calls"][1], json!({"name": "mcp__a-b__c", "arguments": "x"}));

    let done = conversation().run().await;
    let found = &done.json["tool_calls"][0];
    let (started, completed) = (&found["started_at"], &found["completed_at"]);
    let call = json!({"id": "t1", "name": "Read", "arguments": "{\"file_path\":\"a.rs\"}", "result": "fn main",
        "result_bytes": 16, "is_error": false, "started_at": started, "completed_at": completed});
    assert_eq!(done.json["tool_calls"], json!([call]));
    // The call and its answer have lines of their own, so their times follow those of the messages.
    let time = |value: &serde_json::Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(time(&done.json["messages"][1]["timestamp"]) <= time(started));
    assert!(time(started) <= time(completed));
    let in_message = &done.json["messages"][1]["tool_calls"][0];
    assert_eq!(
        *in_message,
        json!({"id": "t1", "type": "function", "function": {"name": "Read", "arguments": "{\"file_path\":\"a.rs\"}"}})
    );
    assert_eq!(done.json["messages"][2]["tool_call_id"], "t1");
}

#[tokio::test]
async fn cr_3_8_the_usage() {
    let check = |done: &crate::support::Done| {
        let usage = &done.log.usage;
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens), (1234, 5678, 6912));
        assert_eq!(usage.source, UsageSource::SelfReported);
    };
    check(&Stage::text("Input tokens: 1234\nOutput tokens: 5678\n").run().await);
    let done = conversation().run().await;
    check(&done);
    let usage = &done.json["usage"];
    assert_eq!(
        (&usage["cache_read_input_tokens"], &usage["cache_creation_input_tokens"]),
        (&json!(7), &json!(8))
    );
    assert_eq!((&usage["cost_usd"], &usage["estimated_cost_usd"]), (&json!(0.25), &json!(0.25)));
    let model = &usage["by_model"]["claude-sonnet-4-5-20250929"];
    assert_eq!((&model["cost_usd"], &model["cost_basis"]), (&json!(0.25), &json!("list")));
    assert_eq!(model["source"], "self-reported");
}

#[tokio::test]
async fn c28_unknown_usage_is_zero_and_marked_unreported() {
    let done = Stage::text("hello").run().await;
    let usage = &done.json["usage"];
    assert_eq!((&usage["total_tokens"], &usage["source"]), (&json!(0), &json!("unreported")));
    assert!(usage.get("cost_usd").is_none());
}

#[tokio::test]
async fn cr_3_9_terminal_codes_are_stripped() {
    let text = Stage::text("\u{1b}[31mred\u{1b}[0m and \u{1b}]0;title\u{7}plain").run().await;
    assert_eq!(text.log.messages[1].content, "red and plain");
    let failed =
        Stage::fake(r#"[{print: {escaped: '\x1b[31mbad\x1b[0m\n', to: stderr}}, {exit: 1}]"#).run().await;
    assert_eq!(failed.log.errors[0].message, "Claude Code exited with code 1: bad");
}

#[tokio::test]
async fn cr_3_10_errors_are_propagated() {
    let done = Stage::fake("[{die: SEGV}]").run().await;
    assert_eq!((done.result.exit_code, done.result.outcome), (139, Some(Outcome::AgentError)));
    assert_eq!(done.log.errors, done.result.errors);
    assert_eq!(done.codes(), ["CLAUDE_SIGNAL"]);
    assert_eq!(done.log.errors[0].message, "Claude Code was ended by signal 11 (SIGSEGV)");
    done.log.errors[0].timestamp.parse::<jiff::Timestamp>().unwrap();
    assert_eq!(done.json["outcome"], "agent_error");
}

#[tokio::test]
async fn cr_3_11_truncation_is_recorded_and_the_result_still_read() {
    let mut frames =
        vec![json!({"print": {"json": init()}}), json!({"flood": {"bytes": 12000000, "line": 1000}})];
    frames.push(json!({"print": {"json": success("Done.")}}));
    let done = Stage::fake(&serde_json::Value::Array(frames).to_string()).run().await;
    assert_eq!(done.codes(), ["CLAUDE_OUTPUT_TRUNCATED"]);
    assert!(done.log.errors[0].message.contains("10MB"));
    // The result comes last, beyond the part of the output that is kept.
    assert_eq!(done.log.usage.total_tokens, 6912);
    assert_eq!(done.json["output"]["truncated"], true);
    assert_eq!(done.json["output"]["frames"], "frames.jsonl.zst");
    let log = done.json["output"]["terminal_log"].as_str().unwrap();
    assert!(log.starts_with("claude-code-logs/terminal-output-"), "{log}");
}

#[tokio::test]
async fn execution_that_never_started_has_an_empty_log() {
    let stage = Stage::fake("[]").configured(|config| config.permission_mode = Some("yolo".to_owned()));
    let error = stage.refused().await;
    let log = YouBenchaLog::read(&stage.path("artifacts/youbencha-log.json")).unwrap();
    assert_eq!(log.messages, []);
    assert_eq!((log.execution.exit_code, log.errors[0].message.clone()), (1, error.to_string()));
    assert_eq!(log.errors[0].code.as_deref(), Some("CLAUDE_INVALID_CONFIG"));
    assert!(log.errors[0].context["hints"][0].is_string() && log.output.terminal_log.is_none());
}

#[tokio::test]
async fn processes_that_outlive_the_agent_are_reported() {
    let steps = "[{child: {pipes: close, steps: [{pid_file: child.pid}, {sleep_ms: 60000}]}}, {wait_for_file: {path: child.pid}}]";
    let done = Stage::fake(steps).run().await;
    assert!(done.log.warnings.iter().any(|warning| warning.contains("outlived")), "{:?}", done.log.warnings);
}
