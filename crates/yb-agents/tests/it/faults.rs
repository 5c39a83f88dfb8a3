//! Faults around an agent: credentials, directories, permissions, secrets, cancellation.

use std::time::{Duration, Instant};

use serde_json::json;
use yb_agents::{AdapterError, Isolation};
use yb_model::outcome::Outcome;

use crate::support::{KEY, Stage, init, success};

fn api_error(status: u16, text: &str) -> Stage {
    let result = json!({"type": "result", "subtype": "success", "is_error": true, "result": text,
        "api_error_status": status, "terminal_reason": "api_error"});
    Stage::frames(&[init(), result], 1)
}

#[tokio::test]
async fn c29_api_errors_become_outcomes() {
    for (status, text, code, outcome) in [
        (401, "Invalid API key", "CLAUDE_AUTH_FAILED", Outcome::Unauthenticated),
        (429, "API Error: Request rejected (429)", "CLAUDE_RATE_LIMIT", Outcome::RateLimited),
        (529, "API Error: 529 Overloaded", "CLAUDE_RATE_LIMIT", Outcome::RateLimited),
        (500, "API Error: 500 oops", "CLAUDE_API_ERROR", Outcome::Infra),
        (404, "There's an issue with the selected model", "CLAUDE_API_ERROR", Outcome::AgentError),
        (413, "Prompt is too long", "CLAUDE_API_ERROR", Outcome::AgentError),
    ] {
        let done = api_error(status, text).run().await;
        assert_eq!((done.codes(), done.result.outcome), (vec![code], Some(outcome)), "{text}");
        assert!(done.log.errors[0].message.contains(text));
    }
    let message = api_error(401, "Invalid API key").run().await.log.errors[0].message.clone();
    assert!(message.contains("authentication") && message.contains("claude auth login"), "{message}");
}

#[tokio::test]
async fn status_and_ending_of_a_reported_failure_agree_with_its_outcome() {
    let api = json!({"type": "result", "subtype": "success", "is_error": true, "result": "API Error: 500 oops",
        "api_error_status": 500, "terminal_reason": "api_error"});
    let own = json!({"type": "result", "subtype": "success", "is_error": true, "result": "no"});
    for (result, ending, outcome) in [(api, "api_error", Outcome::Infra), (own, "error", Outcome::AgentError)]
    {
        let done = Stage::frames(&[init(), result], 0).run().await;
        assert_eq!(done.result.outcome, Some(outcome));
        let execution = &done.json["execution"];
        assert_eq!((&execution["status"], &execution["ending"]), (&"failed".into(), &ending.into()));
        // The code of the process is in the error.
        assert_eq!(
            (&execution["exit_code"], &done.json["errors"][0]["context"]["exit_code"]),
            (&1.into(), &0.into())
        );
    }
}

#[tokio::test]
async fn real_copilot_that_dies_early_is_known_with_its_error() {
    let stage = Stage::agent_at("copilot-cli", "http://127.0.0.1:9").env("XDG_CACHE_HOME", "/dev/null/x");
    let done = stage.run().await;
    assert_eq!(done.codes(), ["AGENT_EXIT_CODE"]);
    let message = &done.log.errors[0].message;
    assert!(message.contains("Failed to extract bundled package"), "{message}");
    assert_eq!(done.log.model.name, "scripted-1");
}

#[tokio::test]
async fn real_codex_that_dies_early_is_known_with_its_version_and_error() {
    let stage = Stage::agent_at("codex", "http://127.0.0.1:9");
    let done = stage.configured(|config| config.extra_args = vec!["--config=mcp_servers.a={x=1}".to_owned()]);
    let done = done.run().await;
    let message = &done.log.errors[0].message;
    assert!(message.contains("Error loading config.toml: invalid transport"), "{message}");
    assert_eq!(done.log.agent.version, yb_testkit::RealAgent::named("codex").pinned_version());
}

#[tokio::test]
async fn real_claude_that_dies_early_is_known_with_its_version_and_model() {
    let (stage, _server) = Stage::real("{ tape: 1, lanes: { main: [ { say: Hello. } ] } }");
    let stage = stage.configured(|config| {
        config.model = Some("claude-opus-5-5".to_owned());
        config.extra_args = vec!["--no-such-flag".to_owned()];
    });
    // As before every run.
    stage.adapter.check_availability(&stage.context.config, &stage.context.host).await;
    let done = stage.run().await;
    assert_eq!(done.codes(), ["CLAUDE_EXIT_CODE"]);
    assert_eq!(done.log.agent.version, yb_testkit::RealClaude::pinned_version());
    assert_eq!(done.log.model.name, "claude-opus-5-5");
    assert!(done.log.errors[0].message.contains("unknown option '--no-such-flag'"), "{:?}", done.log.errors);
}

/// A `claude` that counts calls of `--version`, and otherwise runs this.
fn counting_version_calls(then: &str) -> Stage {
    Stage::shell(&format!(
        "if [ \"$1\" = --version ]; then echo x >> \"$HOME_OF_TEST/calls\"; echo '2.1.9 (Claude Code)'; exit; fi\n{then}"
    ))
}

#[cfg(unix)]
#[tokio::test]
async fn stopped_agent_is_not_run_again_for_its_version() {
    let stage =
        counting_version_calls("sleep 60").with(|context| context.timeout = Duration::from_millis(300));
    let home = stage.path("users-home");
    let stage = stage.env("HOME_OF_TEST", home.to_str().unwrap());
    let done = stage.run().await;
    assert_eq!((done.codes(), done.log.agent.version.as_str()), (vec!["CLAUDE_TIMEOUT"], "unknown"));
    assert!(!home.join("calls").exists());

    // A version that is known from the check before the run is used.
    stage.adapter.check_availability(&stage.context.config, &stage.context.host).await;
    assert_eq!(stage.run().await.log.agent.version, "2.1.9");
    assert_eq!(std::fs::read_to_string(home.join("calls")).unwrap(), "x\n");
}

#[cfg(unix)]
#[tokio::test]
async fn agent_that_exits_early_is_asked_for_its_version() {
    let stage = counting_version_calls("exit 3");
    let home = stage.path("users-home");
    let done = stage.env("HOME_OF_TEST", home.to_str().unwrap()).run().await;
    assert_eq!((done.codes(), done.log.agent.version.as_str()), (vec!["CLAUDE_EXIT_CODE"], "2.1.9"));
}

/// Without a watchdog, the CLI would retry for three minutes.
#[tokio::test]
async fn fr_017_refused_credentials_end_the_trial_at_once() {
    let retry = json!({"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10,
        "retry_delay_ms": 600, "error_status": 401, "error": "authentication_failed"});
    let steps = json!([{"print": {"json": init()}}, {"print": {"json": retry}}, {"sleep_ms": 60000}]);
    let began = Instant::now();
    let done = Stage::fake(&steps.to_string()).run().await;
    // It would sleep for a minute.
    assert!(began.elapsed() < Duration::from_secs(40));
    assert_eq!(done.codes(), ["CLAUDE_AUTH_FAILED"]);
    assert_eq!(done.result.outcome, Some(Outcome::Unauthenticated));
    assert!(done.result.exit_code != 0 && done.json["execution"]["status"] == "failed");
}

#[tokio::test]
async fn timeout_while_the_api_is_down_is_not_the_agents() {
    let retry = json!({"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": 529, "error": "overloaded"});
    let steps = json!([{"print": {"json": retry}}, {"sleep_ms": 60000}]);
    let stage = Stage::fake(&steps.to_string()).with(|context| context.timeout = Duration::from_millis(300));
    let done = stage.run().await;
    assert_eq!(done.codes(), ["CLAUDE_RATE_LIMIT", "CLAUDE_TIMEOUT"]);
    assert_eq!((done.result.outcome, done.result.exit_code), (Some(Outcome::RateLimited), -1));
}

/// If this outcome were excluded from the pass rate, an agent could avoid any failure.
#[tokio::test]
async fn agent_that_kills_its_supervisor_has_failed() {
    let steps = json!([{"print": {"json": init()}}, {"signal": {"to": "parent", "signal": "KILL"}}, {"sleep_ms": 60000}]);
    let done = Stage::fake(&steps.to_string()).run().await;
    assert_eq!(done.codes(), ["CLAUDE_SUPERVISOR_LOST"]);
    assert_eq!(done.result.outcome, Some(Outcome::AgentError));
    assert_eq!(Outcome::AgentError.pass_credit(), yb_model::outcome::PassCredit::Zero);
}

#[tokio::test]
async fn fr_017_a_cli_that_is_not_installed_is_named() {
    let stage = Stage::fake("[]").with(|context| {
        context.host.env.insert("PATH".into(), "/nowhere".into());
        context.host.env.remove(std::ffi::OsStr::new("HOME"));
        context.host.env.insert("YB_CLAUDE".into(), "/no/such/claude".into());
    });
    let error = stage.refused().await;
    assert_eq!(
        (error.code().for_agent(stage.adapter.spec()).as_str(), error.outcome()),
        ("CLAUDE_CLI_NOT_FOUND", Outcome::Unauthenticated)
    );
    assert!(error.to_string().contains("/no/such/claude") && !error.hints().is_empty(), "{error}");
}

#[tokio::test]
async fn artifacts_that_are_missing_or_not_writable_are_typed_errors() {
    let missing = Stage::dumping().with(|context| context.artifacts_dir = "/no/such/artifacts".into());
    assert!(matches!(missing.refused().await, AdapterError::ArtifactsMissing { .. }));
    assert!(!missing.path("workspace/dump.json").exists());
    let stage = Stage::dumping();
    // A file in place of the directory: even root can't write there.
    stage.write("artifacts/claude-code-logs", "");
    let error = stage.refused().await;
    assert!(matches!(error, AdapterError::ArtifactsNotWritable { .. }), "{error:?}");
    assert!(!error.hints().is_empty());
    let stage = Stage::dumping().with(|context| context.workspace = "/no/such/workspace".into());
    assert!(matches!(stage.refused().await, AdapterError::WorkspaceMissing { .. }));
}

#[tokio::test]
async fn repository_settings_have_no_effect() {
    let stage = Stage::dumping();
    stage.run().await;
    let dump = stage.dump();
    let workspace = stage.context.workspace.display();
    for argument in ["--setting-sources=", "--strict-mcp-config", &format!("--add-dir={workspace}")] {
        assert!(dump.has(argument), "{argument}: {:?}", dump.argv());
    }
    assert_eq!(dump.env("CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD"), Some("1"));

    let trusting = Stage::dumping().configured(|config| config.trust_repo_settings = true);
    let done = trusting.run().await;
    let dump = trusting.dump();
    assert!(dump.has("--setting-sources=project,local") && !dump.has("--strict-mcp-config"));
    assert_eq!(dump.env("CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD"), None);
    assert_eq!(done.json["execution"]["trust_repo_settings"], true);
}

#[tokio::test]
async fn credentials_of_the_environment_get_a_private_home() {
    let stage = Stage::dumping().env("NO_PROXY", "example.org");
    stage.run().await;
    let dump = stage.dump();
    for (name, folder) in [("HOME", "home"), ("CLAUDE_CONFIG_DIR", "config"), ("TMPDIR", "tmp")] {
        let place = stage.path("private").join(folder);
        assert_eq!(dump.env(name), Some(place.to_str().unwrap()), "{name}");
        assert!(place.is_dir());
    }
    assert!(!dump.has("--no-session-persistence"));
    assert_eq!(dump.env("NO_PROXY"), Some("example.org,127.0.0.1,localhost,::1"));
    assert_eq!(dump.env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"), Some("1"));
    assert_eq!(dump.env("CLAUDE_CODE_MAX_RETRIES"), Some("4"));
    assert_eq!(dump.env("DISABLE_AUTOUPDATER"), Some("1"));
}

#[tokio::test]
async fn stored_login_is_used_where_it_is() {
    let stage = Stage::dumping().with(|context| {
        context.host.env.remove(std::ffi::OsStr::new("ANTHROPIC_API_KEY"));
    });
    let stage = stage.env("CLAUDE_CONFIG_DIR", "/the/users/own");
    stage.run().await;
    let dump = stage.dump();
    assert_eq!(dump.env("HOME"), stage.path("users-home").to_str());
    assert_eq!(dump.env("CLAUDE_CONFIG_DIR"), Some("/the/users/own"));
    assert!(dump.has("--no-session-persistence") && dump.has("--setting-sources="));
    assert_eq!(dump.env("TMPDIR"), stage.path("private/tmp").to_str());
}

#[tokio::test]
async fn bypass_permissions_sets_is_sandbox_only_in_a_sandbox() {
    let stage = Stage::dumping().env("IS_SANDBOX", "yes");
    stage.run().await;
    let dump = stage.dump();
    assert_eq!(dump.env("IS_SANDBOX"), Some("1"));
    assert!(dump.has("--permission-mode=bypassPermissions") && !dump.has("--dangerously-skip-permissions"));

    let stage = Stage::dumping().env("IS_SANDBOX", "1").with(|context| context.isolation = Isolation::None);
    let stage = stage.configured(|config| config.permission_mode = Some("acceptEdits".to_owned()));
    stage.run().await;
    assert_eq!(stage.dump().env("IS_SANDBOX"), None);

    let root = std::fs::metadata("/proc/self").is_ok_and(|own| {
        #[cfg(unix)]
        return std::os::unix::fs::MetadataExt::uid(&own) == 0;
        #[cfg(not(unix))]
        return false;
    });
    if root {
        let stage = Stage::dumping().with(|context| context.isolation = Isolation::None);
        let error = stage.refused().await;
        assert!(error.hints()[0].contains("isolation: external"), "{error:?}");
        assert!(!stage.path("workspace/dump.json").exists());
    }
}

#[tokio::test]
async fn secrets_appear_nowhere() {
    let says = json!({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": format!("key is {KEY}")}]}});
    let steps = json!([
        {"print": {"json": init()}}, {"print": {"json": says}},
        {"print": {"line": format!("debug {KEY} and other-secret-987654"), "to": "stderr"}},
        {"print": {"json": success("ok")}}, {"exit": 1},
    ]);
    let stage = Stage::fake(&steps.to_string()).env("OTHER_TOKEN", "other-secret-987654");
    let stage = stage.configured(|config| config.prompt = Some(format!("use {KEY}")));
    let done = stage.run().await;
    let everything = [
        stage.terminal_log(),
        std::fs::read_to_string(stage.path("artifacts/frames.jsonl")).unwrap(),
        std::fs::read_to_string(stage.path("artifacts/youbencha-log.json")).unwrap(),
        done.result.output.clone(),
        format!("{:?}", stage.context),
    ];
    for text in everything {
        assert!(!text.contains(KEY) && !text.contains("other-secret"), "{text}");
    }
    assert_eq!(done.log.messages[0].content, "use [REDACTED:ANTHROPIC_API_KEY]");
    assert_eq!(done.log.messages[1].content, "key is [REDACTED:ANTHROPIC_API_KEY]");
    assert!(done.result.output.contains("[REDACTED:OTHER_TOKEN]"));
}

#[tokio::test]
async fn cancellation_ends_the_agent_and_is_reported() {
    let stage = Stage::fake("[{print: started}, {sleep_ms: 60000}]");
    let token = stage.context.cancellation.clone();
    let (done, ()) = tokio::join!(stage.run(), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        token.cancel();
    });
    assert_eq!((done.codes(), done.result.outcome), (vec!["CLAUDE_CANCELLED"], Some(Outcome::Cancelled)));
    assert!(done.result.exit_code != 0);
}

#[tokio::test]
async fn strict_configuration_turns_warnings_into_errors() {
    let stage = Stage::dumping().configured(|config| {
        config.strict = true;
        config.temperature = Some(0.5);
    });
    assert!(stage.refused().await.to_string().contains("temperature"));
    let stage = Stage::dumping().configured(|config| {
        config.strict = true;
        config.permission_mode = Some("ask".to_owned());
    });
    assert!(stage.refused().await.to_string().contains("ask"));
    let effort = Stage::dumping().configured(|config| config.effort = Some("huge".to_owned()));
    assert!(effort.refused().await.to_string().contains("`effort`"));
}

#[tokio::test]
async fn non_message_lines_are_reported_and_ignored() {
    let steps = json!([{"print": "[debug] hello"}, {"print": "{\"type\": \"assistant\", broken"}, {"print": {"json": success("ok")}}]);
    let done = Stage::fake(&steps.to_string()).run().await;
    assert_eq!(done.codes(), ["CLAUDE_OUTPUT_UNREADABLE"]);
    assert_eq!((done.log.usage.total_tokens, done.result.outcome), (6912, None));
}
