//! Behavior that is specific to Copilot or Codex, with their real CLIs and a scripted model.

use serde_json::Value;
use yb_agents::Isolation;
use yb_case::{Network, NetworkMode};
use yb_model::log::ExecutionStatus;
use yb_tape::MockServer;

use crate::support::{Done, Stage, files};

const HELLO: &str = "{ tape: 1, lanes: { main: [ { say: Hello there. } ] } }";
const WRITE: &str = r#"
tape: 1
lanes:
  main:
    - tools: [ { write: { path: hello.txt, content: "hi\n" } } ]
    - say: That is all.
"#;

fn asked(server: &MockServer) -> String {
    let seen = server.requests();
    seen.iter().find(|seen| seen.lane.is_some()).unwrap().body.to_string()
}

#[track_caller]
fn is_success(done: &Done) {
    assert_eq!(
        done.result.status,
        ExecutionStatus::Success,
        "{:#?}\n{}",
        done.log.errors,
        done.result.output
    );
}

#[tokio::test]
async fn real_copilot_uses_a_custom_agent_beside_the_case_and_keeps_its_logs() {
    let (stage, server) = Stage::agent("copilot-cli", HELLO);
    let definition = "---\nname: reviewer\ndescription: Reviews.\n---\nYou are the reviewer of words-9d1.\n";
    stage.write("case/.github/agents/reviewer.agent.md", definition);
    let beside = stage.path("case");
    let stage = stage.with(|context| {
        context.search_roots = vec![beside];
        context.config.agent_name = Some("reviewer".to_owned());
    });
    let done = stage.run().await;
    is_success(&done);
    assert!(asked(&server).contains("words-9d1"), "{}", asked(&server));
    let names: Vec<String> = files(&stage.path("artifacts/copilot-logs"))
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().any(|name| name.starts_with("terminal-output-")), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("process-")), "{names:?}");
}

#[tokio::test]
async fn real_copilot_with_a_missing_custom_agent_is_not_started() {
    let (stage, _server) = Stage::agent("copilot-cli", HELLO);
    let error = stage.configured(|config| config.agent_name = Some("nobody".to_owned())).refused().await;
    assert!(error.to_string().contains("no definition of agent `nobody`"), "{error}");
}

#[tokio::test]
async fn real_copilot_is_denied_unlisted_tools() {
    let (stage, _server) = Stage::agent("copilot-cli", WRITE);
    let done = stage.configured(|config| config.permission_mode = Some("plan".to_owned()));
    let stage = done;
    let done = stage.run().await;
    is_success(&done);
    assert!(!stage.path("workspace/hello.txt").exists());
    assert_eq!(done.log.execution.permission_denials, 1);
    assert_eq!(done.log.execution.permission_mode.as_deref(), Some("plan"));
    assert_eq!(done.log.tool_calls[0].is_error, Some(true));
}

#[tokio::test]
async fn real_codex_gets_its_instructions() {
    let (stage, server) = Stage::agent("codex", HELLO);
    let stage = stage.configured(|config| {
        config.append_system_prompt = Some("Say \"words-1a2\"\nand no more.".to_owned());
        config.system_prompt = Some("You are words-3b4.".to_owned());
        config.effort = Some("high".to_owned());
    });
    is_success(&stage.run().await);
    let asked: Value = serde_json::from_str(&asked(&server)).unwrap();
    let text = asked.to_string();
    assert!(
        text.contains(r#"Say \"words-1a2\"\nand no more."#) && text.contains("You are words-3b4."),
        "{text}"
    );
}

#[tokio::test]
async fn real_codex_is_read_only_when_the_case_requires_it() {
    let (stage, _server) = Stage::agent("codex", WRITE);
    let stage = stage.configured(|config| config.permission_mode = Some("plan".to_owned()));
    let done = stage.run().await;
    is_success(&done);
    assert!(!stage.path("workspace/hello.txt").exists());
}

#[tokio::test]
async fn real_codex_and_real_copilot_reach_nothing_but_their_model() {
    for agent in ["codex", "copilot-cli"] {
        let (stage, _server) = Stage::agent(agent, WRITE);
        let stage = stage.with(|context| {
            context.isolation = Isolation::Bubblewrap;
            context.network = Network::new(NetworkMode::ModelOnly);
        });
        let done = stage.run().await;
        is_success(&done);
        assert!(stage.path("workspace/hello.txt").exists(), "{agent}");
        assert!(done.result.refused.is_empty(), "{agent}: {:?}", done.result.refused);
    }
}

/// An unsupported limit is a warning, or an error with `--strict`.
#[tokio::test]
async fn real_codex_c33_a_limit_of_cost_is_a_warning() {
    let (stage, _server) = Stage::agent("codex", HELLO);
    let stage = stage.configured(|config| config.max_budget_usd = Some(1.0));
    let done = stage.run().await;
    is_success(&done);
    assert!(done.log.warnings[0].starts_with("`max_budget_usd` has no effect"), "{:?}", done.log.warnings);
    let error = stage.configured(|config| config.strict = true).refused().await;
    assert!(error.to_string().contains("`max_budget_usd` has no effect"), "{error}");
}
