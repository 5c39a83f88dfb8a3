//! Logs for the tests of evaluators.

use yb_model::log::{ToolCallRecord, YouBenchaLog};

/// Returns the log of an agent that reported nothing.
pub(super) fn log() -> YouBenchaLog {
    let agent = serde_json::json!({"name": "command", "version": "unknown", "adapter_version": "1.0.0"});
    let model =
        serde_json::json!({"name": "unknown", "provider": "unknown", "parameters": {}, "source": "unknown"});
    serde_json::from_value(serde_json::json!({
        "version": "1.0.0",
        "schema_version": "1.0.0",
        "agent_info": agent, "agent": agent,
        "model_info": model, "model": model,
        "execution": {
            "started_at": "2026-01-01T00:00:00Z", "completed_at": "2026-01-01T00:00:05Z", "duration_ms": 5000,
            "exit_code": 0, "status": "success", "timed_out": false, "isolation": "none",
            "trust_repo_settings": false, "api_retries": 0, "permission_denials": 0,
        },
        "messages": [], "tool_calls": [],
        "usage": {
            "input_tokens": 0, "prompt_tokens": 0, "output_tokens": 0, "completion_tokens": 0, "total_tokens": 0,
            "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "source": "unreported", "by_model": {},
        },
        "errors": [], "warnings": [],
        "environment": {"os": "x", "node_version": "none", "youbencha_version": "0", "working_directory": "/w"},
        "output": {"truncated": false},
    }))
    .expect("valid log")
}

/// Returns a tool call.
pub(super) fn call(name: &str, arguments: &str, is_error: Option<bool>) -> ToolCallRecord {
    serde_json::from_value(serde_json::json!({"name": name, "arguments": arguments, "is_error": is_error}))
        .expect("valid call")
}
