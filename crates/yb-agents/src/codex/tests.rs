//! Output and arguments of Codex.

use yb_claude::{ApiFailureKind, UsageBaseline};

use super::reader::CodexReader;
use super::*;
use crate::{AgentConfig, Transcript};
use yb_model::log::Role;

/// Returns the transcript of recorded output with its warnings.
fn read(lines: &str) -> (Transcript, Vec<String>) {
    let mut reader = CodexReader::new(Some("m".to_owned()), PathBuf::new());
    let mut transcript = Transcript::default();
    for line in lines.lines() {
        transcript.observe_with(&mut reader, line.as_bytes());
    }
    reader.finish("").iter().for_each(|message| transcript.observe(message));
    (transcript, reader.warnings())
}

macro_rules! recorded {
    ($name:literal) => {
        read(include_str!(concat!("../../tests/fixtures/codex/", $name, ".jsonl")))
    };
}

#[test]
fn task_becomes_messages_calls_and_figures() {
    let (transcript, warnings) = recorded!("edit-json");
    let said: Vec<_> = transcript.messages().iter().map(|m| (m.role, m.content.as_str())).collect();
    use Role::{Assistant, Tool};
    assert_eq!(
        said,
        [
            (Assistant, "Looking."),
            (Assistant, ""),
            (Tool, "def add(a, b):\n    return a - b\n"),
            (Assistant, "Editing."),
            (Assistant, ""),
            (Tool, "completed"),
            (Assistant, ""),
            (Tool, "5\n"),
            (Assistant, "Fixed `add`.\n\nDone."),
        ]
    );
    let summary = transcript.summary();
    let tools: Vec<_> = summary.tools().iter().map(|call| call.name.as_str()).collect();
    assert_eq!(tools, ["shell", "apply_patch", "shell"]);
    assert_eq!(summary.final_text(), "Fixed `add`.\n\nDone.");
    assert_eq!(summary.session_id(), Some("01a1de54-6150-72e2-83db-b86fa399306c"));
    let spent = summary.usage(UsageBaseline::NewSession).unwrap();
    let tokens = spent.tokens;
    assert_eq!((tokens.input, tokens.output, tokens.cache_read, tokens.cache_creation), (400, 168, 80, 0));
    assert_eq!(spent.cost_usd, None);
    assert!(
        transcript.problems().is_empty() && warnings[0].starts_with("Model metadata for"),
        "{warnings:?}"
    );
}

#[test]
fn failed_tool_is_marked_and_mcp_tool_keeps_its_name() {
    let (transcript, _) = recorded!("failing-command");
    let outcome = transcript.summary().tools()[0].outcome.clone().unwrap();
    assert_eq!((outcome.text.as_str(), outcome.is_error), ("oops\n", true));
    let (transcript, _) = recorded!("mcp-ns");
    let call = &transcript.summary().tools()[0];
    assert_eq!(call.name, "mcp__stdio1__ping");
    assert!(call.outcome.as_ref().unwrap().text.starts_with("pong"));
    let (transcript, _) = recorded!("subagent");
    assert_eq!(transcript.summary().tools()[0].name, "spawn_agent");
}

#[test]
fn api_status_determines_the_kind_of_failure() {
    use ApiFailureKind as Is;
    for (recorded, expected) in [
        (recorded!("err-401"), Is::Unauthenticated),
        (recorded!("err-nokey"), Is::Unauthenticated),
        (recorded!("err-429"), Is::RateLimited),
        (recorded!("err-500"), Is::ServerError),
        (recorded!("err-503"), Is::ServerError),
        (recorded!("err-404"), Is::ModelNotFound),
        (recorded!("err-400"), Is::InvalidRequest),
        (recorded!("err-refused-bounded"), Is::Network),
    ] {
        let failure = recorded.0.summary().api_failure().unwrap();
        assert_eq!(failure.kind, expected, "{failure:?}");
    }
    let (transcript, _) = recorded!("err-400");
    assert_eq!(transcript.summary().api_failure().unwrap().message, "fake 400 invalid_request_error");
}

#[test]
fn endless_retries_are_a_pending_failure() {
    let (transcript, _) = recorded!("err-refused");
    assert_eq!(transcript.summary().api_failure(), None);
    assert_eq!(transcript.summary().pending_failure().unwrap().kind, ApiFailureKind::Network);
    assert!(transcript.summary().api_retries() > 3);
}

#[test]
fn truncated_output_is_kept() {
    let (transcript, _) = recorded!("sig-native-term");
    assert_eq!(transcript.summary().tools().len(), 1);
    assert!(transcript.summary().tools()[0].outcome.is_none());
    assert!(transcript.summary().last_result().is_none());
}

fn args(config: AgentConfig, host: Host) -> Vec<String> {
    let context = ExecutionContext::new("/w", "/a", "/p", config, host);
    let call = Call { context: &context, prompt: "-x", folder: Path::new("/a/codex-logs") };
    let it = Codex.invocation(&call).unwrap();
    it.args.iter().map(|argument| argument.to_string_lossy().into_owned()).collect()
}

#[test]
fn case_fields_become_codex_settings() {
    let mut config = AgentConfig::new("x");
    config.model = Some("gpt-5\"; x".to_owned());
    config.append_system_prompt = Some("be\nbrief".to_owned());
    config.effort = Some("max".to_owned());
    config.permission_mode = Some("acceptEdits".to_owned());
    let server = serde_json::json!({"command": "python3", "args": ["a b"], "env": {"X.Y": "1"}});
    config.mcp_servers.insert("one".to_owned(), server.as_object().cloned().unwrap());
    let args =
        args(config, Host::new([("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")]));
    for expected in [
        r#"model="gpt-5\"; x""#,
        r#"developer_instructions="be\nbrief""#,
        r#"model_reasoning_effort="xhigh""#,
        r#"mcp_servers.one={args=["a b"],command="python3",env={"X.Y"="1"}}"#,
        "--sandbox=workspace-write",
        "--disable=unbounded_connection_retries",
        r#"model_provider="youbencha""#,
    ] {
        assert!(args.iter().any(|argument| argument == expected), "{expected} in {args:#?}");
    }
    assert!(args.iter().any(|argument| argument.contains(r#"base_url="http://127.0.0.1:1/v1""#)));
    assert_eq!(args.last().unwrap(), "-");
    assert!(args.iter().all(|argument| argument != "-x"), "the prompt comes by stdin");
}

#[test]
fn permission_modes_become_codex_sandboxes() {
    for (mode, flag) in [
        (None, "--dangerously-bypass-approvals-and-sandbox"),
        (Some("bypassPermissions"), "--dangerously-bypass-approvals-and-sandbox"),
        (Some("auto"), "--sandbox=workspace-write"),
        (Some("plan"), "--sandbox=read-only"),
        (Some("default"), "--sandbox=read-only"),
    ] {
        let mut config = AgentConfig::new("x");
        config.permission_mode = mode.map(str::to_owned);
        let args = args(config, Host::default());
        assert!(args.iter().any(|argument| argument == flag), "{mode:?}: {args:?}");
    }
}

#[test]
fn api_host_follows_the_credentials() {
    let hosts = |env: &[(&str, &str)]| Codex.model(&Host::new(env.iter().copied()));
    assert_eq!(hosts(&[("OPENAI_API_KEY", "k")]), [Model::At(API.to_owned())]);
    assert_eq!(hosts(&[("OPENAI_BASE_URL", "http://x:1/v1")]), [Model::At("http://x:1/v1".to_owned())]);
    assert_eq!(hosts(&[]).len(), 2);
    let dir = tempfile::tempdir().unwrap();
    let host = Host::new([("HOME", dir.path())]);
    assert!(!Codex.is_authenticated(&host));
    std::fs::create_dir(dir.path().join(".codex")).unwrap();
    std::fs::write(dir.path().join(".codex/auth.json"), "{}").unwrap();
    assert!(Codex.is_authenticated(&host));
    let context = ExecutionContext::new("/w", "/a", "/p", AgentConfig::new("x"), host);
    assert_eq!(Codex.show(Sandbox::new(), &context), Sandbox::new().writable(dir.path().join(".codex")));
}

/// Landlock forbids mounts, so its commands would fail one by one.
#[test]
fn own_sandbox_of_codex_is_rejected_below_landlock() {
    let invocation = |mode: Option<&str>, isolation: Isolation| {
        let mut config = AgentConfig::new("x");
        config.permission_mode = mode.map(str::to_owned);
        let mut context = ExecutionContext::new("/w", "/a", "/p", config, Host::default());
        context.isolation = isolation;
        Codex.invocation(&Call { context: &context, prompt: "x", folder: Path::new("/a/codex-logs") })
    };
    let error = invocation(Some("plan"), Isolation::Landlock).unwrap_err();
    assert!(error.to_string().contains("`permission_mode: plan` needs Codex's own sandbox"), "{error}");
    assert!(invocation(Some("plan"), Isolation::Bubblewrap).is_ok());
    assert!(invocation(None, Isolation::Landlock).is_ok());
}
