//! Instructions of a case reach the model through the settings of each agent, with the real CLIs and a scripted model.

use yb_agents::Isolation;
use yb_model::log::ExecutionStatus;
use yb_tape::MockServer;

use crate::support::Stage;

const HELLO: &str = "{ tape: 1, lanes: { main: [ { say: Hello there. } ] } }";
const SHELL: &str = r#"
tape: 1
lanes:
  main:
    - tools: [ { run: { command: "echo a > by-shell.txt" } } ]
    - tools: [ { write: { path: by-edit.txt, content: "b\n" } } ]
    - say: Done.
"#;

/// Returns the first request of the conversation, in any protocol.
fn asked(server: &MockServer) -> String {
    let seen = server.requests();
    seen.iter().find(|seen| seen.lane.is_some()).unwrap().body.to_string()
}

async fn instructions_arrive(agent: &'static str) {
    let (stage, server) = Stage::agent(agent, HELLO);
    let stage = stage.configured(|config| {
        config.append_system_prompt = Some("Words that follow: heliotrope.".to_owned());
    });
    let done = stage.run().await;
    assert_eq!(done.result.status, ExecutionStatus::Success, "{:#?}", done.log.errors);
    let first = asked(&server);
    assert!(first.contains("heliotrope"), "{first}");

    let (stage, server) = Stage::agent(agent, HELLO);
    let stage = stage.configured(|config| {
        config.system_prompt = Some("Words instead: amaranth.".to_owned());
    });
    let done = stage.run().await;
    assert_eq!(done.result.status, ExecutionStatus::Success, "{:#?}", done.log.errors);
    let second = asked(&server);
    assert!(second.contains("amaranth"), "{second}");
    assert!(second.len() < first.len(), "its own words are still there");
}

#[tokio::test]
async fn real_gemini_gets_its_instructions() {
    instructions_arrive("gemini").await;
}

#[tokio::test]
async fn real_opencode_gets_its_instructions() {
    instructions_arrive("opencode").await;
}

async fn edits_but_no_shell(agent: &'static str) {
    let (stage, _server) = Stage::agent(agent, SHELL);
    let stage = stage.configured(|config| config.permission_mode = Some("acceptEdits".to_owned()));
    let done = stage.run().await;
    assert!(!stage.path("workspace/by-shell.txt").exists(), "{}", done.result.output);
    assert!(stage.path("workspace/by-edit.txt").exists(), "{}", done.result.output);
    assert_eq!(done.log.execution.permission_mode.as_deref(), Some("acceptEdits"));
    let errors: Vec<_> = done.log.tool_calls.iter().map(|call| call.is_error).collect();
    assert_eq!(errors, [Some(true), Some(false)], "{:#?}", done.log.tool_calls);
}

#[tokio::test]
async fn real_gemini_may_edit_and_not_run() {
    edits_but_no_shell("gemini").await;
}

#[tokio::test]
async fn real_opencode_may_edit_and_not_run() {
    edits_but_no_shell("opencode").await;
}

/// Verified: without a sandbox this command runs.
#[tokio::test]
async fn real_gemini_does_not_see_the_settings_of_a_repository() {
    let (stage, _server) = Stage::agent("gemini", HELLO);
    let settings = r#"{ "tools": { "discoveryCommand": "touch discovered" } }"#;
    stage.write("workspace/.gemini/settings.json", settings);
    let error = stage.refused().await;
    assert!(error.to_string().contains("`.gemini/settings.json`"), "{error}");
    let stage = stage.with(|context| context.isolation = Isolation::Bubblewrap);
    let done = stage.run().await;
    assert_eq!(
        done.result.status,
        ExecutionStatus::Success,
        "{:#?}\n{}",
        done.log.errors,
        done.result.output
    );
    assert!(!stage.path("workspace/discovered").exists());
    assert_eq!(std::fs::read_to_string(stage.path("workspace/.gemini/settings.json")).unwrap(), settings);
}

/// Reaching the turn limit has its own exit code and is not an infrastructure failure.
#[tokio::test]
async fn real_gemini_reaches_its_limit_of_turns() {
    let (stage, _server) = Stage::agent("gemini", SHELL);
    let done = stage.configured(|config| config.max_turns = Some(1)).run().await;
    assert_eq!(done.result.exit_code, 53, "{}", done.result.output);
    assert!(done.codes()[0].ends_with("_MAX_TURNS"), "{:#?}", done.log.errors);
}
