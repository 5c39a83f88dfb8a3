//! The rules of the provider, with a fake CLI.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use yb_claude::{ClaudeCodeProvider, Context, OutgoingMessage, Provider, ProviderError, StopReason};
use yb_testkit::FakeAgent;

/// A fake `claude` and a provider that uses it.
struct Stage {
    dir: TempDir,
    provider: ClaudeCodeProvider,
}

impl Stage {
    fn new(script: &str) -> Self {
        Self::with(script, ClaudeCodeProvider::new())
    }

    fn with(script: &str, provider: ClaudeCodeProvider) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = FakeAgent::in_dir(dir.path()).name("claude").script(script);
        let environment = [("PATH", std::env::var_os("PATH").unwrap()), ("CLAUDECODE", "1".into())];
        let provider = provider
            .with_program(program)
            .with_shim(yb_testkit::bin("yb-shim"))
            .with_environment(environment);
        Self { dir, provider }
    }

    /// Creates a CLI that prints this result and exits with this code.
    fn saying(result: &Value, exit: i32) -> Self {
        Self::new(&json!([{ "print": { "json": result } }, { "exit": exit }]).to_string())
    }

    async fn ask(&self) -> Result<OutgoingMessage, ProviderError> {
        self.provider.complete(&Context::new("hi")).await
    }

    async fn text(&self) -> String {
        self.ask().await.unwrap().text
    }

    async fn error(&self) -> String {
        self.ask().await.unwrap_err().to_string()
    }
}

#[tokio::test]
async fn result_becomes_answer_with_metadata() {
    let result = json!({"type": "result", "subtype": "success", "result": "The response text from Claude.",
        "is_error": false, "cost_usd": 0.003, "total_cost_usd": 0.003, "session_id": "abc123",
        "model": "claude-sonnet-4-20250514", "num_turns": 1});
    let answer = Stage::saying(&result, 0).ask().await.unwrap();
    assert_eq!(answer.text, "The response text from Claude.");
    let metadata = answer.metadata;
    assert_eq!(metadata.provider_used, "claude-code");
    assert_eq!(metadata.model.as_deref(), Some("claude-sonnet-4-20250514"));
    assert_eq!(metadata.session_id.as_deref(), Some("abc123"));
    assert_eq!(
        (metadata.tokens_used, metadata.turns, metadata.stop_reason),
        (None, Some(1), StopReason::Done)
    );
    assert_eq!((metadata.cost_usd, metadata.session_cost_usd), (Some(0.003), Some(0.003)));
    assert_eq!(answer.reply_target, None);
}

/// With a CLI that counts only per session, the cost of one call in a resumed session is unknown.
#[tokio::test]
async fn c12_cost_of_resumed_session_without_baseline_is_unknown() {
    let result = json!({"type": "result", "subtype": "success", "result": "ok", "session_id": "s", "total_cost_usd": 1.5,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        "modelUsage": {"claude-x": {"inputTokens": 1000, "outputTokens": 500, "costUSD": 1.5}}});
    let stage = Stage::saying(&result, 0);
    let resumed = stage.provider.complete(&Context::new("hi").with_session("s")).await.unwrap().metadata;
    assert_eq!(
        (resumed.tokens_used, resumed.cost_usd, resumed.session_cost_usd),
        (Some(15), None, Some(1.5))
    );
    let new = stage.ask().await.unwrap().metadata;
    assert_eq!((new.tokens_used, new.cost_usd, new.session_cost_usd), (Some(1500), Some(1.5), Some(1.5)));
}

#[tokio::test]
async fn non_json_output_is_the_answer() {
    let answer = Stage::new("[{print: '  plain words  '}]").ask().await.unwrap();
    assert_eq!(answer.text, "plain words");
    assert_eq!((answer.metadata.model, answer.metadata.tokens_used), (None, None));
}

#[tokio::test]
async fn partial_text_is_kept_at_turn_limit() {
    let result = json!({"type": "result", "subtype": "error_max_turns", "result": "Partial response text...",
        "is_error": false, "session_id": "abc123", "num_turns": 10});
    for exit in [0, 1] {
        let answer = Stage::saying(&result, exit).ask().await.unwrap();
        assert_eq!(
            (answer.text.as_str(), answer.metadata.stop_reason),
            ("Partial response text...", StopReason::MaxTurns)
        );
    }
}

/// Each run appends a line; a continuation would append a second one.
#[tokio::test]
async fn continuation_stops_if_cost_is_unknown() {
    let result =
        json!({"type": "result", "subtype": "error_max_turns", "result": "Part.", "session_id": "s"});
    let script = json!([{ "append": { "path": "runs", "line": "x" } }, { "print": { "json": result } }, { "exit": 1 }]);
    for (budget, runs) in [(None, 3), (Some(1.0), 1)] {
        let stage = Stage::with(&script.to_string(), ClaudeCodeProvider::new());
        let mut options = yb_claude::Options::default().with_cwd(stage.dir.path());
        options.max_budget_usd = budget;
        let provider = stage.provider.clone().with_options(options).with_continuations(2);
        assert_eq!(
            provider.complete(&Context::new("hi")).await.unwrap().metadata.stop_reason,
            StopReason::MaxTurns
        );
        let lines = std::fs::read_to_string(stage.dir.path().join("runs")).unwrap();
        assert_eq!(lines.lines().count(), runs, "{budget:?}");
    }
}

#[tokio::test]
async fn empty_result_has_placeholder_text() {
    let empty =
        |is_error| json!({"type": "result", "subtype": "success", "result": "", "is_error": is_error});
    assert_eq!(Stage::saying(&empty(false), 0).text().await, "(No response text returned)");
    let failed = json!({"type": "result", "subtype": "error_max_turns", "is_error": true});
    assert_eq!(Stage::saying(&failed, 1).text().await, "Error from Claude: error_max_turns");
    let nameless = json!({"type": "result", "is_error": true});
    assert_eq!(Stage::saying(&nameless, 0).text().await, "Error from Claude: unknown");
    assert_eq!(Stage::new("[{exit: 0}]").text().await, "(No response text returned)");
}

#[tokio::test]
async fn missing_cli_error_has_path_and_hints() {
    let provider = ClaudeCodeProvider::new().with_program("/no/such/claude");
    let error = provider.complete(&Context::new("hi")).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("failed to run claude CLI: ") && text.contains("/no/such/claude"), "{text}");
    assert!(!error.hints().is_empty());
    assert!(!provider.is_available().await);
}

#[tokio::test]
async fn failed_exit_error_contains_stderr() {
    let stage = Stage::new("[{print: {line: 'error: bad flag', to: stderr}}, {exit: 3}]");
    assert_eq!(stage.error().await, "claude CLI exited with exit status: 3: error: bad flag");
    let stage = Stage::new("[{die: KILL}]");
    assert_eq!(stage.error().await, "claude CLI exited with signal: 9 (SIGKILL): ");
}

#[tokio::test]
async fn c29_api_error_with_success_subtype_is_an_error() {
    let result = json!({"type": "result", "subtype": "success", "is_error": true, "api_error_status": 429,
        "terminal_reason": "api_error", "result": "API Error: slow down"});
    let error = Stage::saying(&result, 1).ask().await.unwrap_err();
    assert_eq!(error.to_string(), "claude CLI exited with exit status: 1: API Error: slow down");
    assert!(error.is_retryable() && error.should_fall_back());
}

#[tokio::test]
async fn timeout_error_has_seconds_and_partial_text() {
    let said = json!({"type": "assistant", "message": {"id": "m", "role": "assistant", "model": "claude-x",
        "content": [{"type": "text", "text": "So far."}]}});
    let script = json!([{ "print": { "json": said } }, { "sleep_ms": 60000 }]).to_string();
    let stage = Stage::with(&script, ClaudeCodeProvider::from_config(10, vec![], 1));
    let error = stage.ask().await.unwrap_err();
    assert_eq!(error.to_string(), "claude CLI timed out after 1s");
    assert!(matches!(error, ProviderError::TimedOut { partial, .. } if partial == "So far."));
    yb_testkit::assert_no_process_in(stage.dir.path());
}

#[tokio::test]
async fn cancellation_kills_cli() {
    let token = yb_supervise::CancellationToken::new();
    let provider = ClaudeCodeProvider::new().with_cancellation(token.clone());
    let stage = Stage::with("[{write: {path: up, line: x}}, {sleep_ms: 60000}]", provider);
    let stage = Stage {
        provider: stage
            .provider
            .clone()
            .with_options(yb_claude::Options::default().with_cwd(stage.dir.path())),
        ..stage
    };
    let up = stage.dir.path().join("up");
    let watch = async {
        while !up.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        token.cancel();
    };
    let (answer, ()) = tokio::join!(stage.ask(), watch);
    assert!(matches!(answer, Err(ProviderError::Cancelled)), "{answer:?}");
    yb_testkit::assert_no_process_in(stage.dir.path());
}

#[tokio::test]
async fn invalid_option_fails_before_start() {
    let stage = Stage::new("[{exit: 0}]");
    let answer = stage.provider.complete(&Context::new("hi").with_model("--flag")).await;
    assert!(matches!(answer, Err(ProviderError::Invalid { .. })), "{answer:?}");
    let answer = stage.provider.complete(&Context::new("hi").with_agent("nobody-knows")).await.unwrap_err();
    assert!(answer.to_string().contains("nobody-knows"), "{answer}");
}

/// The arguments in the order of the specification, without variables of the host's own session.
#[tokio::test]
async fn cr_2_4_legacy_command_line_matches_specification() {
    let dump = "[{dump: dump.json}, {print: {json: {type: result, subtype: success, result: ok}}}]";
    let session = "550e8400-e29b-41d4-a716-446655440000";
    let provider = ClaudeCodeProvider::new().with_legacy_command_line(true).with_session_id(session);
    let stage = Stage::with(dump, provider);
    let options = yb_claude::Options::default().with_cwd(stage.dir.path());
    let provider = stage.provider.clone().with_options(options);
    let context = Context::new("List files").with_system_prompt("Be brief.");
    assert_eq!(provider.complete(&context).await.unwrap().text, "ok");
    let dump: Value =
        serde_json::from_slice(&std::fs::read(stage.dir.path().join("dump.json")).unwrap()).unwrap();
    let argv: Vec<&str> = dump["argv"].as_array().unwrap().iter().skip(1).filter_map(Value::as_str).collect();
    let prompt = "[System]\nBe brief.\n\n[User]\nList files";
    let expected = [
        "-p",
        prompt,
        "--output-format",
        "json",
        "--max-turns",
        "10",
        "--session-id",
        session,
        "--allowedTools",
        "Bash",
        "--allowedTools",
        "Read",
        "--allowedTools",
        "Write",
        "--allowedTools",
        "Edit",
    ];
    assert_eq!(argv, expected);
    assert!(dump["env"].get("CLAUDECODE").is_none());
}
