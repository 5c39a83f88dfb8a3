//! Output and arguments of the Gemini CLI.

use yb_claude::{ApiFailureKind, UsageBaseline};

use super::reader::GeminiReader;
use super::*;
use crate::{AgentConfig, Transcript};
use yb_model::log::Role;

/// Returns the transcript of recorded output.
fn read(stdout: &str, stderr: &str) -> Transcript {
    let mut reader = GeminiReader::default();
    let mut transcript = Transcript::default();
    // Chunks end at arbitrary positions.
    for piece in stderr.as_bytes().chunks(7) {
        reader.parse_stderr(piece).iter().for_each(|message| transcript.observe(message));
    }
    for line in stdout.lines() {
        transcript.observe_with(&mut reader, line.as_bytes());
    }
    reader.finish(stderr).iter().for_each(|message| transcript.observe(message));
    transcript
}

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../tests/fixtures/gemini/", $name))
    };
}

#[test]
fn task_becomes_messages_calls_and_figures() {
    let transcript = read(recorded!("edit.jsonl"), "");
    let said: Vec<_> = transcript.messages().iter().map(|m| (m.role, m.content.as_str())).collect();
    use Role::{Assistant, Tool};
    assert_eq!(
        said,
        [
            (Assistant, "Looking."),
            (Assistant, ""),
            (Tool, ""),
            (Assistant, "Editing."),
            (Assistant, ""),
            (Tool, ""),
            (Assistant, ""),
            (Tool, ""),
            (Assistant, ""),
            (Tool, "5"),
            (Assistant, "Fixed `add`.\n\nDone."),
        ]
    );
    let summary = transcript.summary();
    let tools: Vec<_> = summary.tools().iter().map(|call| call.name.as_str()).collect();
    assert_eq!(tools, ["read_file", "replace", "write_file", "run_shell_command"]);
    assert!(
        summary.tools().iter().all(|call| call.outcome.as_ref().is_some_and(|outcome| !outcome.is_error))
    );
    assert_eq!(summary.final_text(), "Fixed `add`.\n\nDone.");
    assert_eq!(summary.session_id(), Some("4ce86a9c-97a6-4c5e-a72a-ab953301e44f"));
    assert_eq!(summary.model().map(|model| model.name), Some("gemini-2.5-flash"));
    let spent = summary.usage(UsageBaseline::NewSession).unwrap();
    let tokens = spent.tokens;
    assert_eq!((tokens.input, tokens.output, tokens.cache_read), (500, 210, 100));
    assert_eq!((spent.cost_usd, summary.api_failure()), (None, None));
    assert!(transcript.problems().is_empty());
}

#[test]
fn api_failure_is_read_from_the_result_or_from_stderr() {
    for (stdout, stderr, kind, message) in [
        (recorded!("err-401.jsonl"), "", ApiFailureKind::Unauthenticated, "fake 401 authentication_error"),
        (
            recorded!("err-429.jsonl"),
            recorded!("err-429.stderr"),
            ApiFailureKind::RateLimited,
            "rate limit reached",
        ),
        (
            recorded!("err-refused.jsonl"),
            "",
            ApiFailureKind::Network,
            "exception TypeError: fetch failed sending request",
        ),
        ("", "Invalid auth method selected.\n", ApiFailureKind::Unauthenticated, "there are no credentials"),
    ] {
        let transcript = read(stdout, stderr);
        let failure = transcript.summary().api_failure().unwrap();
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(message), "{}", failure.message);
        assert!(transcript.summary().usage(UsageBaseline::NewSession).is_none());
    }
    let retried = read(recorded!("err-429.jsonl"), recorded!("err-429.stderr"));
    assert_eq!(retried.summary().api_retries(), 2);
}

#[test]
fn killed_agent_has_not_finished() {
    let transcript = read(recorded!("sig-term.jsonl"), "");
    assert!(transcript.summary().last_result().is_none());
    assert_eq!(transcript.summary().tools().len(), 1);
    let limited = read("", "{\n  \"error\": {\n    \"type\": \"FatalTurnLimitedError\",\n");
    assert_eq!(limited.summary().result_subtype().map(|ending| ending.as_str()), Some("error_max_turns"));
}

fn context(config: AgentConfig, env: &[(&str, &str)]) -> ExecutionContext {
    ExecutionContext::new("/w", "/a", "/p", config, Host::new(env.iter().copied()))
}

fn invocation(context: &ExecutionContext) -> Invocation {
    Gemini.invocation(&Call { context, prompt: "x", folder: Path::new("/a") }).unwrap()
}

#[test]
fn case_becomes_flags_settings_and_files() {
    let mut config = AgentConfig::new("x");
    config.model = Some("gemini-2.5-flash".to_owned());
    config.system_prompt = Some("You are.".to_owned());
    config.append_system_prompt = Some("Be short.".to_owned());
    config.max_turns = Some(7);
    config.disallowed_tools = Some(vec!["web_fetch".to_owned()]);
    config.settings = json!({ "general": { "maxAttempts": 1 } }).as_object().cloned();
    let it = invocation(&context(config, &[("GEMINI_API_KEY", "k")]));
    let args: Vec<_> = it.args.iter().map(|arg| arg.to_str().unwrap()).collect();
    assert_eq!(args, ["--output-format=stream-json", "--approval-mode=yolo", "--model=gemini-2.5-flash"]);
    assert_eq!(it.env["GEMINI_SYSTEM_MD"], "/p/system.md");
    let file = |path: &str| {
        let found = it.files.iter().find(|(own, _)| own == Path::new(path));
        found.map(|(_, text)| text.as_str()).unwrap()
    };
    assert_eq!((file("/p/system.md"), file("/p/home/.gemini/GEMINI.md")), ("You are.", "Be short."));
    let settings: Value = serde_json::from_str(file("/p/home/.gemini/settings.json")).unwrap();
    assert_eq!(settings["model"]["maxSessionTurns"], 7);
    assert_eq!(settings["tools"]["exclude"], json!(["web_fetch"]));
    assert_eq!(settings["security"]["auth"]["selectedType"], "gemini-api-key");
    // Settings of the case take precedence; others are kept.
    assert_eq!(
        (&settings["general"]["maxAttempts"], &settings["general"]["enableAutoUpdate"]),
        (&json!(1), &json!(false))
    );
}

#[test]
fn permission_modes_use_the_names_of_the_cli() {
    for (mode, expected) in [
        ("bypassPermissions", "yolo"),
        ("auto", "yolo"),
        ("acceptEdits", "auto_edit"),
        ("plan", "plan"),
        ("default", "default"),
        ("dontAsk", "default"),
    ] {
        let mut config = AgentConfig::new("x");
        config.permission_mode = Some(mode.to_owned());
        let it = invocation(&context(config, &[]));
        assert!(it.args.contains(&format!("--approval-mode={expected}").into()), "{mode}");
    }
}

#[test]
fn repository_that_brings_settings_needs_trust_or_a_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".gemini")).unwrap();
    std::fs::write(dir.path().join(".gemini/settings.json"), "{}").unwrap();
    let mut context = context(AgentConfig::new("x"), &[]);
    context.workspace = dir.path().to_owned();
    let error =
        Gemini.invocation(&Call { context: &context, prompt: "x", folder: Path::new("/a") }).unwrap_err();
    assert!(error.to_string().contains("`.gemini/settings.json`, which would take effect"), "{error}");
    context.isolation = Isolation::Bubblewrap;
    assert_eq!(of_repository(&context).len(), 1);
    invocation(&context);
    context.isolation = Isolation::None;
    context.config.trust_repo_settings = true;
    invocation(&context);
    assert!(of_repository(&context).is_empty());
}

#[test]
fn model_endpoint_follows_the_variables() {
    let model = |env: &[(&str, &str)]| Gemini.model(&Host::new(env.iter().copied()));
    assert_eq!(model(&[(BASE_URL, "http://127.0.0.1:1")]), [Model::At("http://127.0.0.1:1".to_owned())]);
    assert_eq!(model(&[(API_KEY, "k")]), [Model::On(API)]);
    assert_eq!(model(&[]), LOGIN.map(Model::On));
    assert!(!Gemini.is_authenticated(&Host::default()));
    assert!(Gemini.is_authenticated(&Host::new([(API_KEY, "k")])));
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".gemini")).unwrap();
    std::fs::write(home.path().join(".gemini/oauth_creds.json"), "{}").unwrap();
    assert!(Gemini.is_authenticated(&Host::new([("HOME", home.path())])));
}
