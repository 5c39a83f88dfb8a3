//! Instructions of a case reach the model through the settings of each agent, with the real CLIs and a scripted model.

use yb_agents::Isolation;
use yb_claude::AgentDefinition;
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

/// A call of the agent's shell that creates the file `made`.
fn shell_call(agent: &str) -> &'static str {
    match agent {
        "claude-code" => "{ Bash: { command: 'touch made', description: x } }",
        "copilot-cli" => "{ bash: { command: 'touch made', description: x } }",
        "gemini" => "{ run_shell_command: { command: 'touch made', description: x } }",
        _ => "{ bash: { command: 'touch made', description: x } }",
    }
}

/// `allowed_tools` restricts the agent also without `permission_mode`.
async fn allowed_tools_are_an_allowlist(agent: &'static str, reading: &str) {
    let script = format!(
        "{{ tape: 1, lanes: {{ main: [ {{ tools: [ {} ] }}, {{ say: done }}, {{ say: done }} ] }} }}",
        shell_call(agent)
    );
    let (stage, _server) = Stage::agent(agent, &script);
    let _ = stage.run().await;
    assert!(stage.path("workspace/made").exists(), "the script does not make the file");

    let (stage, server) = Stage::agent(agent, &script);
    let stage = stage.configured(|config| config.allowed_tools = Some(vec![reading.to_owned()]));
    let done = stage.run().await;
    assert!(!stage.path("workspace/made").exists(), "{:#?}", done.log.tool_calls);
    assert!(server.requests().len() > 1, "the agent did not go on: {:#?}", done.log.errors);
}

#[tokio::test]
async fn real_claude_allowed_tools_are_an_allowlist() {
    allowed_tools_are_an_allowlist("claude-code", "Read").await;
}

#[tokio::test]
async fn real_copilot_allowed_tools_are_an_allowlist() {
    allowed_tools_are_an_allowlist("copilot-cli", "view").await;
}

#[tokio::test]
async fn real_gemini_allowed_tools_are_an_allowlist() {
    allowed_tools_are_an_allowlist("gemini", "read_file").await;
}

#[tokio::test]
async fn real_opencode_allowed_tools_are_an_allowlist() {
    allowed_tools_are_an_allowlist("opencode", "read").await;
}

/// Definitions of named agents are found beside the case, in the project and in the home, or are inline.
async fn named_agent_is_used(agent: &'static str, files: &[&str]) {
    for file in files {
        let (stage, server) = Stage::agent(agent, HELLO);
        let stage = stage.with(|context| {
            context.project_dir = Some(context.private_dir.with_file_name("project"));
            context.search_roots = vec![context.private_dir.with_file_name("case")];
        });
        stage.write(file, "---\nname: helper\ndescription: Helps.\n---\n\nYou are HELPER-5.\n");
        let stage = stage.configured(|config| config.agent_name = Some("helper".to_owned()));
        let done = stage.run().await;
        assert_eq!(done.result.exit_code, 0, "{file}: {:?}", done.log.errors);
        assert!(asked(&server).contains("HELPER-5"), "{file}");
    }
    let (stage, server) = Stage::agent(agent, HELLO);
    let stage = stage.configured(|config| {
        config.agent_name = Some("helper".to_owned());
        config.agents.insert("helper".to_owned(), AgentDefinition::new("Helps.", "You are HELPER-6."));
    });
    let done = stage.run().await;
    assert_eq!(done.result.exit_code, 0, "{:?}", done.log.errors);
    assert!(asked(&server).contains("HELPER-6"));

    let (stage, _server) = Stage::agent(agent, HELLO);
    let error = stage.configured(|config| config.agent_name = Some("helper".to_owned())).refused().await;
    assert!(error.to_string().contains("no definition of agent `helper`; searched: "), "{error}");
}

#[tokio::test]
async fn real_claude_finds_named_agents() {
    let files =
        ["workspace", "case", "project", "users-home"].map(|root| format!("{root}/.claude/agents/helper.md"));
    named_agent_is_used("claude-code", &files.each_ref().map(String::as_str)).await;
}

#[tokio::test]
async fn real_copilot_finds_named_agents() {
    named_agent_is_used(
        "copilot-cli",
        &[
            "workspace/.github/agents/helper.agent.md",
            "case/.github/agents/helper.md",
            "project/.github/agents/helper.agent.md",
        ],
    )
    .await;
}

#[tokio::test]
async fn real_gemini_finds_named_agents() {
    let files =
        ["workspace", "case", "project", "users-home"].map(|root| format!("{root}/.gemini/agents/helper.md"));
    named_agent_is_used("gemini", &files.each_ref().map(String::as_str)).await;
}

/// Its tools are those of the definition, by any agent's names.
#[tokio::test]
async fn real_gemini_named_agent_has_the_tools_of_its_definition() {
    let script = format!(
        "{{ tape: 1, lanes: {{ main: [ {{ tools: [ {} ] }}, {{ say: done }}, {{ say: done }} ] }} }}",
        shell_call("gemini")
    );
    let (stage, server) = Stage::agent("gemini", &script);
    let text =
        "---\nname: helper\ndescription: Helps.\ntools: [Read, grep_search]\nmax_turns: 7\n---\n\nRead.\n";
    stage.write("workspace/.gemini/agents/helper.md", text);
    let stage = stage.configured(|config| config.agent_name = Some("helper".to_owned()));
    let done = stage.run().await;
    assert!(!stage.path("workspace/made").exists(), "{:#?}", done.log.tool_calls);
    let asked = asked(&server);
    assert!(asked.contains("\"read_file\"") && !asked.contains("\"write_file\""), "{asked}");
}

#[tokio::test]
async fn real_opencode_finds_named_agents() {
    named_agent_is_used(
        "opencode",
        &[
            "workspace/.opencode/agent/helper.md",
            "case/.opencode/agents/helper.md",
            "project/.opencode/agent/helper.md",
        ],
    )
    .await;
}

/// The thinking of the model is in the log of every agent whose CLI prints it.
async fn thinking_is_in_the_log(agent: &'static str) {
    let script = "{ tape: 1, lanes: { main: [ { think: Hm-7 is prime., say: Hello there. } ] } }";
    let (stage, _server) = Stage::agent(agent, script);
    let done = stage.run().await;
    assert_eq!(done.result.status, ExecutionStatus::Success, "{:#?}", done.log.errors);
    let thought: Vec<&str> = done.log.messages.iter().map(|message| message.thinking.as_str()).collect();
    assert!(
        thought.iter().any(|text| text.contains("Hm-7")),
        "{:#?}\n{}",
        done.log.messages,
        done.result.output
    );
}

#[tokio::test]
async fn real_copilot_thinking_is_in_the_log() {
    thinking_is_in_the_log("copilot-cli").await;
}

#[tokio::test]
async fn real_codex_thinking_is_in_the_log() {
    thinking_is_in_the_log("codex").await;
}

#[tokio::test]
async fn real_opencode_thinking_is_in_the_log() {
    thinking_is_in_the_log("opencode").await;
}

#[tokio::test]
async fn real_acp_thinking_is_in_the_log() {
    thinking_is_in_the_log("acp").await;
}

/// Without a model in the case, opencode chooses one; only its log names it.
#[tokio::test]
async fn real_opencode_model_that_it_chose_is_in_the_log() {
    let (stage, server) = Stage::agent("opencode", HELLO);
    let stage = stage.with(|context| {
        context.config.model = None;
        context.host.env.retain(|name, _| !name.to_string_lossy().starts_with("OPENAI_"));
        context.host.env.insert("ANTHROPIC_API_KEY".into(), "not-a-secret-loopback-only".into());
        let url = format!("{}/v1", server.base_url());
        let settings = serde_json::json!({ "provider": { "anthropic": { "options": { "baseURL": url } } } });
        context.config.settings = settings.as_object().cloned();
    });
    let done = stage.run().await;
    assert_eq!(done.result.status, ExecutionStatus::Success, "{:#?}", done.log.errors);
    let requests = server.requests();
    let asked = requests.iter().find(|seen| seen.lane.is_some()).unwrap();
    let model = asked.body["model"].as_str().unwrap();
    assert!(
        done.log.model.name.ends_with(model) && model.starts_with("claude-"),
        "{} and {model}",
        done.log.model.name
    );
    assert_eq!(done.log.model.provider, "anthropic");
}
