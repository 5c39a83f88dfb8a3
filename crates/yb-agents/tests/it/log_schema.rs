//! Schemas of the log: the generated one, and that of the TypeScript youBencha as documented there.

use std::path::Path;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};
use yb_model::log::YouBenchaLog;

static OURS: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::validator_for(&YouBenchaLog::json_schema()).unwrap());
static ORIGINAL: LazyLock<Validator> = LazyLock::new(|| jsonschema::validator_for(&original()).unwrap());

/// Fields that readers of the TypeScript youBencha require.
fn original() -> Value {
    let text = json!({ "type": "string" });
    let count = json!({ "type": "number", "minimum": 0 });
    let object = |required: &[&str], properties: Value| json!({ "type": "object", "required": required, "properties": properties });
    let call = object(
        &["id", "type", "function"],
        json!({"id": text, "type": text, "function": object(&["name", "arguments"], json!({"name": text, "arguments": text}))}),
    );
    let message = object(
        &["role", "content", "timestamp"],
        json!({"role": {"enum": ["system", "user", "assistant", "tool"]}, "content": text, "timestamp": text,
            "tool_calls": {"type": "array", "items": call}, "tool_call_id": text}),
    );
    let error =
        object(&["message", "timestamp"], json!({"message": text, "timestamp": text, "stack_trace": text}));
    object(
        &["version", "agent", "model", "execution", "messages", "usage", "errors", "environment"],
        json!({
            "version": {"const": "1.0.0"},
            "agent": object(&["name", "version", "adapter_version"], json!({"name": text, "version": text, "adapter_version": text})),
            "model": object(&["name", "provider", "parameters"], json!({"name": text, "provider": text, "parameters": {"type": "object"}})),
            "execution": object(
                &["started_at", "completed_at", "duration_ms", "exit_code", "status"],
                json!({
                    "started_at": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$"},
                    "completed_at": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$"},
                    "duration_ms": count, "exit_code": {"type": "number"}, "status": {"enum": ["success", "failed", "timeout"]},
                }),
            ),
            "messages": {"type": "array", "items": message},
            "usage": object(
                &["prompt_tokens", "completion_tokens", "total_tokens"],
                json!({"prompt_tokens": count, "completion_tokens": count, "total_tokens": count, "estimated_cost_usd": count}),
            ),
            "errors": {"type": "array", "items": error},
            "environment": object(
                &["os", "node_version", "youbencha_version", "working_directory"],
                json!({"os": text, "node_version": text, "youbencha_version": text, "working_directory": text}),
            ),
        }),
    )
}

/// Validates a log against both schemas, and checks rules that a schema can't express.
#[track_caller]
pub(crate) fn check(log: &Value) {
    for (name, validator) in [("our", &*OURS), ("the original's", &*ORIGINAL)] {
        let problems: Vec<_> =
            validator.iter_errors(log).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(problems.is_empty(), "against {name} schema: {problems:#?}\n{log:#}");
    }
    assert_eq!(log["agent_info"], log["agent"]);
    assert_eq!(log["model_info"], log["model"]);
    let usage = &log["usage"];
    assert_eq!(usage["input_tokens"], usage["prompt_tokens"]);
    assert_eq!(usage["output_tokens"], usage["completion_tokens"]);
    let number = |value: &Value| value.as_u64().unwrap();
    assert_eq!(
        number(&usage["total_tokens"]),
        number(&usage["input_tokens"]) + number(&usage["output_tokens"])
    );
    let execution = &log["execution"];
    assert_eq!(execution["status"] == "timeout", execution["timed_out"] == true);
    assert_eq!(execution["status"] == "success", execution["exit_code"] == 0);
    assert!(execution["started_at"].as_str() <= execution["completed_at"].as_str());
    assert!(!log.to_string().contains("\\u001b"), "terminal codes in {log:#}");
}

#[test]
fn committed_schema_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/youbencha-log.schema.json");
    let generated = format!("{:#}\n", YouBenchaLog::json_schema());
    if std::env::var_os("YB_UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "{} has drifted; hint: run this test with `YB_UPDATE_SCHEMAS=1`",
        path.display()
    );
}

#[test]
fn both_schemas_reject_an_invalid_log() {
    for validator in [&*OURS, &*ORIGINAL] {
        assert!(!validator.is_valid(&json!({})));
        assert!(!validator.is_valid(&json!({ "version": "2.0.0" })));
    }
}

#[test]
fn log_of_a_newer_version_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("youbencha-log.json");
    std::fs::write(&path, r#"{"schema_version": "2.0.0"}"#).unwrap();
    let error = YouBenchaLog::read(&path).unwrap_err();
    assert!(error.to_string().contains("unsupported log version 2.0.0"), "{error}");
    std::fs::write(&path, "{}").unwrap();
    assert!(YouBenchaLog::read(&path).unwrap_err().to_string().contains("not a log"));
    assert!(YouBenchaLog::read(&dir.path().join("none")).is_err());
}
