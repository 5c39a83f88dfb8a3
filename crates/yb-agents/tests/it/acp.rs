//! Tests of the Agent Client Protocol with real agents from npm and a scripted model.

use std::time::Duration;

use yb_agents::{AcpConfig, Adapters};
use yb_model::log::{ExecutionStatus, Role, UsageSource};
use yb_model::outcome::Outcome;
use yb_tape::MockServer;
use yb_testkit::{RealAgent, assert_no_process_in};

use crate::support::{Done, Stage};

const TASK: &str = r#"
tape: 1
lanes:
  main:
    - say: I write the file.
      tools: [ { write: { path: hello.txt, content: "hi\n" } } ]
      usage: { input: 100, output: 20 }
    - tools: [ { run: { command: "cat hello.txt > copy.txt" } } ]
      usage: { input: 120, output: 10 }
    - say: It is done.
      usage: { input: 140, output: 5 }
"#;

/// Runs one of the pinned CLIs over the protocol.
fn stage(agent: &'static str, arguments: &[&str], script: &str) -> (Stage, MockServer) {
    let (stage, server) = Stage::agent(agent, script);
    let program = RealAgent::named(agent).program().to_string_lossy().into_owned();
    let argv = std::iter::once(program).chain(arguments.iter().map(ToString::to_string));
    let mut spec = AcpConfig::new(argv);
    if agent == "gemini" {
        spec.auth_method = Some("gemini-api-key".to_owned());
    }
    let mut stage = stage.with(|context| {
        context.host.env.remove(std::ffi::OsStr::new("HOME"));
        context.config.section = spec.to_section();
        context.config.model = None;
        context.patience = Duration::from_secs(30);
    });
    stage.adapter = Adapters::builtin().get("acp").unwrap();
    (stage, server)
}

fn gemini(script: &str) -> (Stage, MockServer) {
    let (stage, server) = stage("gemini", &["--acp", "--model=gemini-2.5-flash"], script);
    (stage.env("GEMINI_CLI_TRUST_WORKSPACE", "true").env("GEMINI_CLI_NO_RELAUNCH", "true"), server)
}

fn said(done: &Done) -> Vec<&str> {
    let said = done.log.messages.iter().filter(|message| message.role == Role::Assistant);
    said.map(|message| message.content.as_str()).filter(|text| !text.is_empty()).collect()
}

#[tokio::test]
async fn real_acp_gemini_does_a_task() {
    let (stage, server) = gemini(TASK);
    let done = stage.run().await;
    assert_eq!(
        done.result.status,
        ExecutionStatus::Success,
        "{:#?}\n{}",
        done.log.errors,
        done.result.output
    );
    assert!(done.log.errors.is_empty(), "{:#?}", done.log.errors);
    assert_eq!(std::fs::read_to_string(stage.path("workspace/copy.txt")).unwrap(), "hi\n");
    assert_eq!(said(&done), ["I write the file.", "It is done."]);
    let calls: Vec<_> = done.log.tool_calls.iter().map(|call| (call.name.as_str(), call.is_error)).collect();
    assert_eq!(calls, [("edit", Some(false)), ("execute", Some(false))]);
    let version = RealAgent::named("gemini").pinned_version();
    assert_eq!(done.log.agent.version, format!("gemini-cli {version}"));
    assert_eq!(
        (done.log.usage.source, done.log.usage.input_tokens, done.log.usage.output_tokens),
        (UsageSource::SelfReported, 360, 35)
    );
    assert!(server.unscripted().is_empty());
    assert_no_process_in(&stage.path("workspace"));
}

#[tokio::test]
async fn real_acp_gemini_is_denied_unlisted_tools() {
    let (stage, _server) = gemini(TASK);
    let stage = stage.configured(|config| config.permission_mode = Some("default".to_owned()));
    let done = stage.run().await;
    assert!(!stage.path("workspace/hello.txt").exists(), "{}", done.result.output);
    assert!(done.log.execution.permission_denials > 0);
}

#[tokio::test]
async fn real_acp_gemini_without_a_key_that_is_accepted() {
    let (stage, _server) =
        gemini("{ tape: 1, lanes: { main: [ { fault: { status: 401, message: bad key } } ] } }");
    let done = stage.run().await;
    assert_eq!(done.result.outcome, Some(Outcome::Unauthenticated), "{:#?}", done.log.errors);
}

#[tokio::test]
async fn real_acp_opencode_does_a_task() {
    let (stage, server) = stage("opencode", &["acp"], TASK);
    let settings = serde_json::json!({
        "model": "own/m", "small_model": "own/m", "autoupdate": false,
        "provider": { "own": {
            "npm": "@ai-sdk/openai-compatible", "models": { "m": {} },
            "options": { "baseURL": format!("{}/v1", server.base_url()), "apiKey": "x" },
        } },
    });
    let stage =
        stage.env("OPENCODE_CONFIG_CONTENT", &settings.to_string()).env("OPENCODE_DISABLE_MODELS_FETCH", "1");
    let done = stage.run().await;
    assert_eq!(
        done.result.status,
        ExecutionStatus::Success,
        "{:#?}\n{}",
        done.log.errors,
        done.result.output
    );
    assert_eq!(std::fs::read_to_string(stage.path("workspace/copy.txt")).unwrap(), "hi\n");
    assert_eq!(said(&done), ["I write the file.", "It is done."]);
    assert_eq!(done.log.tool_calls.len(), 2, "{:#?}", done.log.tool_calls);
    assert!(done.log.agent.version.starts_with("OpenCode "), "{}", done.log.agent.version);
}
