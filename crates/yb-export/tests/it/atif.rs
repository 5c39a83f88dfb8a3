//! Trajectories of other tools, and of our own, as logs.

use serde_json::{Value, json};
use yb_engine::log::{Role, UsageSource};
use yb_export::{AtifError, is_atif, read_atif};

fn trajectory() -> Value {
    json!({
        "schema_version": "ATIF-v1.6",
        "session_id": "s",
        "agent": { "name": "other", "version": "2", "model_name": "m-1" },
        "steps": [
            { "step_id": 1, "source": "user", "message": [{ "type": "text", "text": "Look." },
                { "type": "image", "source": { "media_type": "image/png", "path": "a.png" } }] },
            { "step_id": 2, "source": "agent", "message": "I ask.", "reasoning_content": "Hm.",
              "timestamp": "2026-11-18T08:00:00Z",
              "tool_calls": [
                { "tool_call_id": "c1", "function_name": "Task", "arguments": { "prompt": "Review." } },
                { "tool_call_id": "c2", "function_name": "Bash", "arguments": { "command": "false" } }],
              "observation": { "results": [
                { "source_call_id": "c1", "content": "Fine.", "subagent_trajectory_ref": [{ "trajectory_id": "sub" }] },
                { "source_call_id": "c2", "content": "exit 1", "extra": { "is_error": true } }] } },
            { "step_id": 3, "source": "agent", "message": "Done.", "timestamp": "2026-11-18T08:00:02Z" },
        ],
        "final_metrics": { "total_prompt_tokens": 100, "total_cached_tokens": 40, "total_completion_tokens": 7,
            "total_cost_usd": 0.5 },
        "subagent_trajectories": [{ "schema_version": "ATIF-v1.6", "trajectory_id": "sub",
            "agent": { "name": "other", "version": "2" },
            "steps": [{ "step_id": 1, "source": "agent", "message": "I review.",
                "tool_calls": [{ "tool_call_id": "d1", "function_name": "Read", "arguments": { "path": "x" } }] }] }],
    })
}

#[test]
fn trajectory_of_another_tool_is_a_log() {
    let log = read_atif(trajectory().to_string().as_bytes()).unwrap();
    let said: Vec<_> = log
        .messages
        .iter()
        .map(|one| (one.role, one.content.as_str(), one.parent_tool_call_id.as_deref()))
        .collect();
    assert_eq!(
        said,
        [
            (Role::User, "Look.\n[image: a.png]", None),
            (Role::Assistant, "I ask.", None),
            (Role::Assistant, "I review.", Some("c1")),
            (Role::Tool, "Fine.", None),
            (Role::Tool, "exit 1", None),
            (Role::Assistant, "Done.", None),
        ]
    );
    let calls: Vec<_> = log.tool_calls.iter().map(|one| (one.name.as_str(), one.is_error)).collect();
    assert_eq!(calls, [("Task", Some(false)), ("Bash", Some(true)), ("Read", None)]);
    assert_eq!(log.messages[1].thinking, "Hm.");
    assert_eq!((log.usage.input_tokens, log.usage.cache_read_input_tokens), (60, 40));
    assert_eq!((log.usage.cost_usd, log.usage.source), (Some(0.5), UsageSource::SelfReported));
    assert_eq!((log.model.name.as_str(), log.execution.duration_ms), ("m-1", 2000));
    assert_eq!(log.execution.num_turns, Some(2));
}

#[test]
fn trajectory_without_metrics_has_no_usage() {
    let mut value = trajectory();
    value["final_metrics"] = Value::Null;
    let log = read_atif(value.to_string().as_bytes()).unwrap();
    assert_eq!((log.usage.source, log.usage.cost_usd), (UsageSource::Unreported, None));
}

#[test]
fn invalid_trajectories_are_rejected_with_the_place() {
    let check = |change: &dyn Fn(&mut Value), expected: &str| {
        let mut value = trajectory();
        change(&mut value);
        let error = read_atif(value.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    let other = |value: &mut Value| value["schema_version"] = json!("ATIF-v2.0");
    check(&other, "not an ATIF trajectory of version 1: `schema_version` is `ATIF-v2.0`");
    let source = |value: &mut Value| value["steps"][1]["source"] = json!("robot");
    check(&source, "invalid trajectory: `steps[1].source`: expected `system`, `user` or `agent`");
    let steps = |value: &mut Value| value["steps"] = json!({});
    check(&steps, "invalid trajectory: `steps`: expected a list");
    let call = |value: &mut Value| value["steps"][1]["tool_calls"][0] = json!({});
    check(&call, "invalid trajectory: `steps[1].tool_calls.tool_call_id`: missing");
    assert!(matches!(read_atif(b"{"), Err(AtifError::Json(_))));
    assert!(
        !is_atif(b"{\"schema_version\": \"1.0.0\", \"steps\": []}")
            && is_atif(trajectory().to_string().as_bytes())
    );
}

#[test]
fn subagents_that_contain_themselves_end() {
    let mut value = trajectory();
    for _ in 0..40 {
        let mut outer = trajectory();
        value["trajectory_id"] = json!("sub");
        outer["subagent_trajectories"] = json!([value]);
        value = outer;
    }
    // Whatever limit is reached first, reading ends with an error.
    read_atif(value.to_string().as_bytes()).unwrap_err();
}
