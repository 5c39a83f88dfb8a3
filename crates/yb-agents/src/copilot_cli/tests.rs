//! Output and arguments of Copilot.

use yb_claude::{ApiFailureKind, UsageBaseline};

use super::reader::CopilotReader;
use super::*;
use crate::{AgentConfig, Transcript};
use yb_model::log::Role;

fn read(lines: &str, usage: &str) -> Transcript {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("usage.json");
    std::fs::write(&path, usage).unwrap();
    follow(lines, path)
}

fn follow(lines: &str, usage: PathBuf) -> Transcript {
    let mut reader = CopilotReader::new(usage);
    let mut transcript = Transcript::default();
    for line in lines.lines() {
        transcript.observe_with(&mut reader, line.as_bytes());
    }
    reader.finish("").iter().for_each(|message| transcript.observe(message));
    transcript
}

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../tests/fixtures/copilot-cli/", $name))
    };
}

#[test]
fn task_becomes_messages_calls_and_figures() {
    let transcript = read(recorded!("edit-openai.jsonl"), recorded!("usage.json"));
    let roles: Vec<_> = transcript.messages().iter().map(|message| message.role).collect();
    use Role::{Assistant, Tool};
    assert_eq!(roles, [Assistant, Tool, Assistant, Tool, Tool, Assistant, Tool, Assistant]);
    assert_eq!(transcript.messages()[0].content, "Looking.");
    assert_eq!(transcript.messages()[2].tool_calls.len(), 2);
    let summary = transcript.summary();
    let tools: Vec<_> = summary.tools().iter().map(|call| call.name.as_str()).collect();
    assert_eq!(tools, ["view", "edit", "create", "bash"]);
    assert_eq!(summary.final_text(), "Fixed `add`.\n\nDone.");
    assert_eq!(summary.model().unwrap().name, "fake-model");
    assert_eq!(summary.num_turns(), Some(4));
    assert!(summary.session_id().is_some());
    let spent = summary.usage(UsageBaseline::NewSession).unwrap();
    assert_eq!((spent.tokens.input, spent.tokens.output, spent.tokens.cache_read), (400, 168, 80));
    assert_eq!(spent.cost_usd, None);
}

#[test]
fn missing_usage_file_leaves_usage_unknown() {
    let transcript = read(recorded!("edit-openai.jsonl"), "no JSON");
    assert!(transcript.summary().usage(UsageBaseline::NewSession).is_none());
    assert!(transcript.summary().last_result().is_some());
}

#[test]
fn refused_key_is_an_authentication_failure() {
    let transcript = read(recorded!("err-401.jsonl"), "");
    let failure = transcript.summary().api_failure().unwrap();
    assert_eq!((failure.kind, failure.status), (ApiFailureKind::Unauthenticated, Some(401)));
    assert_eq!(transcript.summary().api_retries(), 3);
}

#[test]
fn killed_agent_has_no_result_and_a_pending_call() {
    let transcript = read(recorded!("sig-native-term.jsonl"), "");
    assert!(transcript.summary().last_result().is_none());
    assert!(transcript.summary().tools()[0].outcome.is_none());
}

#[test]
fn denials_are_counted_and_subagents_are_distinguished() {
    let transcript = read(recorded!("perm-none.jsonl"), "");
    assert_eq!(transcript.summary().permission_denials().len(), 3);
    let transcript = read(recorded!("subagent.jsonl"), "");
    let of_subagent = transcript.messages().iter().filter(|message| message.parent_tool_call_id.is_some());
    assert!(of_subagent.count() > 0);
    assert_eq!(transcript.summary().final_text(), "main done");
    assert_eq!(transcript.summary().num_turns(), Some(2));
}

fn invocation(config: AgentConfig, host: Host, prompt: &str) -> Invocation {
    let context = ExecutionContext::new("/w", "/a", "/p", config, host);
    CopilotCli.invocation(&Call { context: &context, prompt, folder: Path::new("/a/copilot-logs") }).unwrap()
}

#[test]
fn case_fields_become_copilot_flags() {
    let mut config = AgentConfig::new("x");
    config.model = Some("gpt-5".to_owned());
    config.agent_name = Some("reviewer".to_owned());
    config.effort = Some("high".to_owned());
    config.disallowed_tools = Some(vec!["shell(git:*)".to_owned()]);
    config.mcp_servers.insert("one".to_owned(), serde_json::Map::new());
    let it = invocation(config, Host::default(), "x");
    let args: Vec<_> = it.args.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    for expected in [
        "--model=gpt-5",
        "--agent=reviewer",
        "--reasoning-effort=high",
        "--deny-tool=shell(git:*)",
        "--allow-all-tools",
        "--allow-all-paths",
        "--add-dir=/w",
        "--additional-mcp-config=@/p/mcp.json",
    ] {
        assert!(args.iter().any(|argument| argument == expected), "{expected} in {args:#?}");
    }
    assert_eq!(it.files[0].1, r#"{"mcpServers":{"one":{"tools":["*"]}}}"#);
    assert!(!it.env.contains_key("COPILOT_OFFLINE"));
}

#[test]
fn custom_model_endpoint_takes_long_prompts_and_is_the_only_host() {
    let host = || Host::new([(PROVIDER, "http://127.0.0.1:1/v1")]);
    let short = invocation(AgentConfig::new("x"), host(), "x");
    assert_eq!(short.env["COPILOT_OFFLINE"], "true");
    assert!(!short.env.contains_key("COPILOT_PROVIDER_MAX_PROMPT_TOKENS"));
    let long = invocation(AgentConfig::new("x"), host(), &"x".repeat(1_000_000));
    assert_eq!(long.env["COPILOT_PROVIDER_MAX_PROMPT_TOKENS"], "1128000");
    assert_eq!(CopilotCli.model(&host()), [Model::At("http://127.0.0.1:1/v1".to_owned())]);
    assert!(CopilotCli.is_authenticated(&host()) && !CopilotCli.is_authenticated(&Host::default()));
}

#[test]
fn permissions_can_be_restricted() {
    for (mode, allowed) in
        [("acceptEdits", Some("--allow-tool=write")), ("auto", Some("--allow-all-tools")), ("plan", None)]
    {
        let mut config = AgentConfig::new("x");
        config.permission_mode = Some(mode.to_owned());
        let it = invocation(config, Host::default(), "x");
        let allows = it.args.iter().filter(|argument| argument.to_string_lossy().starts_with("--allow"));
        assert_eq!(allows.map(|argument| argument.to_str().unwrap()).next(), allowed, "{mode}");
    }
}

/// Its tools can write to the directory of its logs and to its usage file as well.
#[cfg(unix)]
#[test]
fn link_targets_are_neither_kept_nor_counted() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for folder in ["outside", "logs", "kept"] {
        std::fs::create_dir(at(folder)).unwrap();
    }
    std::fs::write(at("outside/key"), "secret").unwrap();
    std::fs::write(at("logs/process.log"), "said").unwrap();
    symlink(at("outside/key"), at("logs/key.log")).unwrap();
    symlink(at("outside"), at("linked")).unwrap();
    for folder in ["logs", "linked"] {
        keep_logs(&at(folder), &at("kept"), &Secrets::new([("KEY", "sk-12345678")])).unwrap();
    }
    let kept: Vec<_> =
        std::fs::read_dir(at("kept")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(kept, ["process.log"]);
    std::fs::write(at("outside/usage.json"), recorded!("usage.json")).unwrap();
    for (name, target) in [("usage.json", at("outside/usage.json")), ("endless.json", "/dev/zero".into())] {
        symlink(target, at(name)).unwrap();
        let transcript = follow(recorded!("edit-openai.jsonl"), at(name));
        assert!(transcript.summary().usage(UsageBaseline::NewSession).is_none(), "{name}");
    }
}
