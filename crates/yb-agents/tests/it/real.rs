//! The claude-code adapter with the real CLI and a scripted model.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use yb_agents::AvailabilityStatus;
use yb_model::log::{ExecutionStatus, ModelSource, Role, UsageSource};
use yb_model::outcome::Outcome;
use yb_tape::MockServer;
use yb_testkit::{RealClaude, assert_no_process_in};

use crate::support::{Stage, files};

const HELLO: &str = "{ tape: 1, lanes: { main: [ { say: Hello., usage: { input: 100, output: 20, cache_read: 3, cache_write: 4 } } ] } }";

/// A model that writes a file, reads it and ends.
const WORK: &str = r#"
tape: 1
lanes:
  main:
    - say: I write the file.
      tools:
        - Write: { file_path: "{{workspace}}/hello.txt", content: "hi\n" }
    - tools:
        - Bash: { command: "cat hello.txt && printf '\\033[31mred\\033[0m'" }
    - say: It is done.
      usage: { input: 120, output: 40 }
"#;

/// The first request of the main thread.
fn asked(server: &MockServer) -> Value {
    let seen = server.requests();
    seen.iter().find(|seen| seen.lane.is_some()).unwrap().body.clone()
}

fn turns(server: &MockServer) -> usize {
    server.requests().iter().filter(|seen| seen.lane.is_some()).count()
}

#[tokio::test]
async fn real_claude_cr_1_1_and_1_4_is_available_with_its_version() {
    let (stage, server) = Stage::real(HELLO);
    let found = stage.adapter.check_availability(&stage.context.config, &stage.context.host).await;
    assert_eq!(found.version, Some(RealClaude::pinned_version()));
    assert_eq!(found.into_contract(), Ok(true));
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn real_claude_cr_1_3_missing_login_is_reported() {
    let (stage, server) = Stage::real(HELLO);
    let stage = stage.with(|context| {
        context.host.env.remove(std::ffi::OsStr::new("ANTHROPIC_API_KEY"));
    });
    let stage = stage.env("NO_PROXY", "127.0.0.1");
    let found = stage.adapter.check_availability(&stage.context.config, &stage.context.host).await;
    assert_eq!(found.status, AvailabilityStatus::NotAuthenticated, "{found:?}");
    let text = found.into_contract().unwrap_err().to_string();
    assert!(text.contains("authentication") && text.contains("API key"), "{text}");
    // Executing it anyway reports the same error.
    let done = stage.run().await;
    assert_eq!(
        (done.codes(), done.result.outcome),
        (vec!["CLAUDE_AUTH_FAILED"], Some(Outcome::Unauthenticated))
    );
    assert_eq!(turns(&server), 0);
}

/// Also US1-AS1 to AS3, US4-AS1 to AS3, CR-2.1, CR-2.10, CR-2.12, CR-3.2, CR-3.3, CR-3.5 to CR-3.9, and the part of CR-4.1
/// that concerns adapters.
#[tokio::test]
async fn real_claude_cr_4_1_a_task_becomes_a_log() {
    let (stage, server) = Stage::real(WORK);
    let stage = stage.configured(|config| config.model = Some("claude-opus-5-5".to_owned()));
    let done = stage.run().await;
    assert_eq!(
        (done.result.status, done.result.exit_code),
        (ExecutionStatus::Success, 0),
        "{:?}",
        done.log.errors
    );
    assert_eq!(std::fs::read_to_string(stage.path("workspace/hello.txt")).unwrap(), "hi\n");
    assert!(server.unscripted().is_empty() && done.log.errors.is_empty() && done.result.outcome.is_none());

    let log = &done.log;
    assert_eq!(log.agent.version, RealClaude::pinned_version());
    assert_eq!((log.model.name.as_str(), log.model.source), ("claude-opus-5-5", ModelSource::Init));
    let roles: Vec<_> = log.messages.iter().map(|message| message.role).collect();
    use Role::{Assistant, Tool, User};
    assert_eq!(roles, [User, Assistant, Tool, Assistant, Tool, Assistant]);
    assert_eq!(
        (log.messages[1].content.as_str(), log.messages[5].content.as_str()),
        ("I write the file.", "It is done.")
    );
    let tools: Vec<_> = log.tool_calls.iter().map(|call| (call.name.as_str(), call.is_error)).collect();
    assert_eq!(tools, [("Write", Some(false)), ("Bash", Some(false))]);
    assert!(log.tool_calls[1].result.as_deref().unwrap().contains("red"));
    assert_eq!((log.usage.input_tokens, log.usage.output_tokens), (140, 50));
    assert!(log.usage.cost_usd.unwrap() > 0.0 && log.usage.source == UsageSource::SelfReported);
    assert_eq!(log.usage.by_model["claude-opus-5-5"].input_tokens, 140);
    assert_eq!(log.execution.permission_mode.as_deref(), Some("bypassPermissions"));
    assert!(log.execution.session_id.is_some() && log.execution.num_turns == Some(3));

    let frames = std::fs::read_to_string(stage.path("artifacts/frames.jsonl")).unwrap();
    assert!(frames.lines().count() > 5 && stage.terminal_log().contains("It is done."));
    // The user's own home is not touched.
    assert_eq!(files(&stage.path("users-home")), Vec::<std::path::PathBuf>::new());
    assert_no_process_in(&stage.path("workspace"));
}

#[tokio::test]
async fn real_claude_cr_2_2_an_api_error_is_a_failed_result() {
    let (stage, _server) =
        Stage::real("{ tape: 1, lanes: { main: [ { fault: { status: 500, message: broken } } ] } }");
    let done = stage.env("CLAUDE_CODE_MAX_RETRIES", "1").run().await;
    assert_eq!((done.result.status, done.result.exit_code), (ExecutionStatus::Failed, 1));
    assert_eq!((done.codes(), done.result.outcome), (vec!["CLAUDE_API_ERROR"], Some(Outcome::Infra)));
    assert_eq!(done.log.execution.api_retries, 1);
}

#[tokio::test]
async fn real_claude_cr_2_3_a_timeout_is_kept_and_nothing_is_left() {
    let script = "{ tape: 1, lanes: { main: [ { say: First words., tools: [ { Bash: { command: 'echo a; sleep 50; echo b' } } ] } ] } }";
    let (stage, _server) = Stage::real(script);
    let stage = stage.with(|context| context.timeout = Duration::from_secs(5));
    let began = Instant::now();
    let done = stage.run().await;
    // The tool would run for 50 s.
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    assert_eq!((done.result.status, done.result.exit_code), (ExecutionStatus::Timeout, -1));
    assert_eq!((done.codes(), done.result.outcome), (vec!["CLAUDE_TIMEOUT"], Some(Outcome::Timeout)));
    assert!(done.log.messages.iter().any(|message| message.content == "First words."));
    // There is no result frame; usage comes from the messages, and the log marks it as metered.
    assert_eq!((done.log.usage.source, done.log.usage.input_tokens), (UsageSource::Metered, 10));
    assert_no_process_in(&stage.path("workspace"));
}

#[tokio::test]
async fn real_claude_fr_017_a_refused_key_ends_at_once() {
    let (stage, server) = Stage::real(
        "{ tape: 1, lanes: { main: [ { fault: { status: 401, message: invalid x-api-key } } ] } }",
    );
    let began = Instant::now();
    let done = stage.env("CLAUDE_CODE_MAX_RETRIES", "10").run().await;
    // Ten retries take three minutes.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(
        (done.codes(), done.result.outcome),
        (vec!["CLAUDE_AUTH_FAILED"], Some(Outcome::Unauthenticated))
    );
    assert!(turns(&server) <= 2, "{}", turns(&server));
}

#[tokio::test]
async fn real_claude_cr_2_6_and_2_7_runs_as_an_agent_with_a_model() {
    let (stage, server) = Stage::real(HELLO);
    let stage = stage.configured(|config| {
        config.agent_name = Some("code-reviewer".to_owned());
        config.model = Some("claude-haiku-5-5".to_owned());
    });
    stage.write(
        "users-home/.claude/agents/code-reviewer.md",
        "---\ndescription: Reviews\n---\nYou are REVIEWER-7.\n",
    );
    let done = stage.run().await;
    assert_eq!(done.result.exit_code, 0, "{:?}", done.log.errors);
    let request = asked(&server);
    assert!(request["system"].to_string().contains("You are REVIEWER-7."));
    assert_eq!(request["model"], "claude-haiku-5-5");
    assert_eq!(done.log.model.name, "claude-haiku-5-5");
}

#[tokio::test]
async fn real_claude_cr_2_5_and_2_13_a_prompt_file_arrives_verbatim() {
    let nasty = "/cost @Cargo.toml say \"it's\" `date` $(id) ${HOME} \\ ; | --model=x é 漢\n";
    let (stage, server) = Stage::real(HELLO);
    let stage = stage.configured(|config| {
        config.prompt = None;
        config.prompt_file = Some("./prompts/task.md".into());
    });
    stage.write("workspace/prompts/task.md", nasty);
    let done = stage.run().await;
    assert_eq!(done.result.exit_code, 0, "{:?}", done.log.errors);
    let request = asked(&server)["messages"].to_string();
    let expected = json!(nasty.trim()).to_string();
    assert!(request.contains(expected.trim_matches('"')), "{request}");
}

#[tokio::test]
async fn real_claude_us5_as1_and_as2_system_prompts_and_plan_mode() {
    let (stage, server) = Stage::real(WORK);
    let stage = stage.configured(|config| {
        config.append_system_prompt = Some("APPENDED-1 words".to_owned());
        config.system_prompt = Some("REPLACED-2 words".to_owned());
        config.permission_mode = Some("plan".to_owned());
    });
    let done = stage.run().await;
    let system = asked(&server)["system"].to_string();
    assert!(system.contains("APPENDED-1 words") && system.contains("REPLACED-2 words"));
    assert!(!stage.path("workspace/hello.txt").exists());
    assert_eq!(done.log.execution.permission_mode.as_deref(), Some("plan"));
    assert_eq!(done.log.tool_calls[0].is_error, Some(true));
}

#[tokio::test]
async fn real_claude_us5_as3_allowed_tools_need_no_permission() {
    for (tools, written) in [(vec!["Read"], false), (vec!["Read", "Write"], true)] {
        let (stage, _server) = Stage::real(WORK);
        let stage = stage.configured(|config| {
            config.permission_mode = Some("default".to_owned());
            config.allowed_tools = Some(tools.iter().map(|&tool| tool.to_owned()).collect());
        });
        let done = stage.run().await;
        assert_eq!(stage.path("workspace/hello.txt").exists(), written, "{tools:?}");
        assert_eq!(done.log.execution.permission_denials > 0, !written, "{tools:?}");
    }
}

#[tokio::test]
async fn real_claude_c15_turn_limit_keeps_the_last_text() {
    let (stage, _server) = Stage::real(WORK);
    let done = stage.configured(|config| config.max_turns = Some(1)).run().await;
    assert_eq!((done.codes(), done.result.outcome), (vec!["CLAUDE_MAX_TURNS"], Some(Outcome::Failed)));
    assert_eq!(done.log.execution.ending.as_deref(), Some("error_max_turns"));
    assert!(done.log.messages.iter().any(|message| message.content == "I write the file."));
    assert!(done.log.usage.total_tokens > 0);
}

/// Instructions of the repository are read; its settings, hooks and servers have no effect.
#[tokio::test]
async fn real_claude_ignores_settings_of_a_foreign_repository() {
    let bring = |stage: &Stage| {
        let mark = |name: &str| format!("touch {}", stage.path(name).display());
        stage.write("workspace/CLAUDE.md", "Project rule INSTRUCTION-9.\n");
        let settings = json!({
            "apiKeyHelper": format!("{}; echo other-key", mark("helper-ran")),
            "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
            "hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": mark("hook-ran")}]}]},
        });
        stage.write("workspace/.claude/settings.json", &settings.to_string());
        let server = json!({"mcpServers": {"evil": {"command": "sh", "args": ["-c", mark("server-ran")]}}});
        stage.write("workspace/.mcp.json", &server.to_string());
    };
    let (stage, server) = Stage::real(HELLO);
    bring(&stage);
    let done = stage.run().await;
    assert_eq!(done.result.exit_code, 0, "{:?}", done.log.errors);
    for name in ["helper-ran", "hook-ran", "server-ran"] {
        assert!(!stage.path(name).exists(), "{name}");
    }
    assert!(asked(&server).to_string().contains("INSTRUCTION-9"));

    let (trusting, _server) = Stage::real(HELLO);
    bring(&trusting);
    let trusting = trusting.configured(|config| config.trust_repo_settings = true);
    // The base URL in the settings is unreachable, so retries are off.
    let trusting = trusting.env("CLAUDE_CODE_MAX_RETRIES", "0");
    trusting.run().await;
    assert!(trusting.path("hook-ran").exists());
}
