//! Output and arguments of opencode.

use yb_claude::{ApiFailureKind, UsageBaseline};

use super::reader::OpencodeReader;
use super::*;
use crate::{AgentConfig, Transcript};
use yb_model::log::Role;

/// Returns the transcript of recorded output with its warnings.
fn read(stdout: &str, stderr: &str) -> (Transcript, Vec<String>) {
    let mut reader = OpencodeReader::new(Some("p/m".to_owned()));
    let mut transcript = Transcript::default();
    for piece in stderr.as_bytes().chunks(11) {
        reader.parse_stderr(piece).iter().for_each(|message| transcript.observe(message));
    }
    for line in stdout.lines() {
        transcript.observe_with(&mut reader, line.as_bytes());
    }
    reader.finish(stderr).iter().for_each(|message| transcript.observe(message));
    (transcript, reader.warnings())
}

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../tests/fixtures/opencode/", $name))
    };
}

#[test]
fn task_becomes_messages_calls_and_figures() {
    let (transcript, warnings) = read(recorded!("edit.jsonl"), "");
    let said = transcript.messages().iter().filter(|message| message.role == Role::Assistant);
    let said: Vec<_> = said.map(|message| (message.content.as_str(), message.tool_calls.len())).collect();
    assert_eq!(said, [("Looking.", 1), ("Editing.", 1), ("", 1), ("", 1), ("Fixed `add`.\n\nDone.", 0)]);
    let summary = transcript.summary();
    let tools: Vec<_> = summary.tools().iter().map(|call| call.name.as_str()).collect();
    assert_eq!(tools, ["read", "write", "edit", "bash"]);
    assert_eq!(summary.tools()[3].outcome.as_ref().unwrap().text, "5\n");
    assert_eq!(summary.final_text(), "Fixed `add`.\n\nDone.");
    assert_eq!(summary.session_id(), Some("ses_e21972adcffeHKHXAJFTiYWhOf"));
    assert_eq!(summary.num_turns(), Some(4));
    let spent = summary.usage(UsageBaseline::NewSession).unwrap();
    assert_eq!((spent.tokens.input, spent.tokens.output, spent.tokens.cache_read), (400, 168, 80));
    // It reports 0 for a model without a known price.
    assert_eq!(spent.cost_usd, None);
    assert!(transcript.problems().is_empty() && warnings.is_empty());
}

#[test]
fn api_failure_is_read_from_the_error_and_retries_from_the_log() {
    for (stdout, stderr, kind, retries) in [
        (recorded!("err-401.jsonl"), "", ApiFailureKind::Unauthenticated, 0),
        (recorded!("err-429.jsonl"), recorded!("err-429.stderr"), ApiFailureKind::RateLimited, 6),
        (recorded!("err-refused.jsonl"), recorded!("err-refused.stderr"), ApiFailureKind::Network, 6),
    ] {
        let (transcript, _) = read(stdout, stderr);
        let failure = transcript.summary().api_failure().unwrap();
        assert_eq!((failure.kind, transcript.summary().api_retries()), (kind, retries));
    }
    // If it is killed while it retries, only its log has the reason.
    for (stderr, kind) in [
        (recorded!("err-429.stderr"), ApiFailureKind::RateLimited),
        (recorded!("err-refused.stderr"), ApiFailureKind::Network),
    ] {
        assert_eq!(read("", stderr).0.summary().pending_failure().unwrap().kind, kind);
    }
}

#[test]
fn other_stop_reasons_keep_their_outcome() {
    let ending =
        |stdout| read(stdout, "").0.summary().result_subtype().map(|ending| ending.as_str().to_owned());
    assert_eq!(ending(recorded!("err-model.jsonl")).as_deref(), Some("error_during_execution"));
    assert_eq!(ending(recorded!("sig-term.jsonl")), None);
    assert_eq!(ending(recorded!("perm-ask.jsonl")), None);
    assert_eq!(ending(recorded!("subagent.jsonl")).as_deref(), Some("success"));
    let (denied, _) = read(recorded!("perm-ask.jsonl"), "");
    assert!(denied.summary().tools()[0].outcome.as_ref().unwrap().is_error);
    let (_, warnings) = read("", recorded!("err-agent.stderr"));
    assert_eq!(warnings, ["agent \"nope\" not found. Falling back to default agent"]);
}

fn settings_of(config: AgentConfig, env: &[(&str, &str)]) -> (Vec<String>, Value) {
    let context = ExecutionContext::new("/w", "/a", "/p", config, Host::new(env.iter().copied()));
    let it = Opencode.invocation(&Call { context: &context, prompt: "x", folder: Path::new("/a") }).unwrap();
    let settings = it.env["OPENCODE_CONFIG_CONTENT"].to_str().unwrap();
    let args = it.args.iter().map(|arg| arg.to_str().unwrap().to_owned());
    (args.collect(), serde_json::from_str(settings).unwrap())
}

#[test]
fn case_becomes_flags_and_settings() {
    let mut config = AgentConfig::new("x");
    config.model = Some("m".to_owned());
    config.system_prompt = Some("You are.".to_owned());
    config.append_system_prompt = Some("Be short.".to_owned());
    config.disallowed_tools = Some(vec!["webfetch".to_owned()]);
    let server = json!({ "command": "srv", "args": ["-x"], "env": { "A": "b" } });
    config.mcp_servers.insert("s".to_owned(), server.as_object().cloned().unwrap());
    let env = [(OPENAI_URL, "http://127.0.0.1:1/v1"), (OPENAI_KEY, "not-in-the-settings")];
    let (args, settings) = settings_of(config, &env);
    assert_eq!(
        args,
        [
            "run",
            "--format=json",
            "--thinking",
            "--print-logs",
            "--log-level=WARN",
            "--model=openai-compatible/m",
            "--agent=youbencha",
            "--auto"
        ]
    );
    assert_eq!(settings["provider"][COMPATIBLE]["options"]["baseURL"], "http://127.0.0.1:1/v1");
    assert!(!settings.to_string().contains("not-in-the-settings"));
    assert_eq!(settings["agent"]["youbencha"], json!({ "prompt": "You are.", "mode": "primary" }));
    assert_eq!(settings["instructions"], json!(["/p/instructions.md"]));
    assert_eq!(settings["permission"], json!({ "*": "allow", "webfetch": "deny" }));
    assert_eq!(
        settings["mcp"]["s"],
        json!({ "type": "local", "command": ["srv", "-x"], "environment": { "A": "b" }, "enabled": true })
    );
}

#[test]
fn model_names_its_provider_unless_there_is_one_address() {
    let check = |model: Option<&str>, env: &[(&str, &str)]| {
        let mut config = AgentConfig::new("x");
        config.model = model.map(str::to_owned);
        let context = ExecutionContext::new("/w", "/a", "/p", config, Host::new(env.iter().copied()));
        super::model(&context).map_err(|error| error.to_string())
    };
    assert_eq!(check(Some("anthropic/claude"), &[]), Ok(Some("anthropic/claude".to_owned())));
    assert_eq!(check(None, &[]), Ok(None));
    assert!(check(Some("claude"), &[]).unwrap_err().contains("names no provider"));
    let env = [(OPENAI_URL, "http://h/v1")];
    assert_eq!(check(Some("meta/llama"), &env), Ok(Some("openai-compatible/meta/llama".to_owned())));
    assert!(check(None, &env).unwrap_err().contains("needs the name of a model"));
}

#[test]
fn unlisted_permissions_are_denied() {
    for (mode, edit, bash) in [
        ("acceptEdits", "allow", "deny"),
        ("auto", "allow", "allow"),
        ("default", "deny", "deny"),
        ("plan", "deny", "deny"),
    ] {
        let mut config = AgentConfig::new("x");
        config.permission_mode = Some(mode.to_owned());
        let (args, settings) = settings_of(config, &[]);
        let permission = &settings["permission"];
        assert_eq!((&permission["edit"], &permission["bash"]), (&json!(edit), &json!(bash)), "{mode}");
        assert!(!args.contains(&"--auto".to_owned()));
    }
    let mut config = AgentConfig::new("x");
    config.tools = Some(vec!["read".to_owned()]);
    assert_eq!(settings_of(config, &[]).1["permission"], json!({ "*": "deny", "read": "allow" }));
}
