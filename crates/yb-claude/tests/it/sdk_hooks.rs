//! Every event has its type: what the real CLI told hooks is read, and what they answer is in the CLI's form.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use yb_claude::sdk::event::{self, *};
use yb_claude::sdk::{Decision, HookEvent, HookOutput, Hooks, Matcher, Permission};
use yb_claude::{AgentDefinition, Prompt, RawJson};

use crate::sdk_support::Trial;

fn recorded(event: &str) -> RawJson {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/hook-inputs/{event}.json"));
    let text = std::fs::read_to_string(path).unwrap().replace('\n', "");
    yb_claude::Message::parse(text.as_bytes()).unwrap().raw().clone()
}

fn read<E: HookEvent>() -> E {
    E::read(&recorded(E::NAME)).unwrap()
}

#[test]
fn what_the_real_cli_told_its_hooks_is_typed() {
    let pre: PreToolUse = read();
    assert_eq!((pre.tool_name.as_str(), pre.permission_mode.as_deref()), ("Read", Some("default")));
    assert!(
        pre.tool_input.as_str().contains("app.py") && pre.tool_use_id.is_some() && pre.prompt_id.is_some()
    );
    assert!(read::<PostToolUse>().tool_response.as_str().contains("numLines"));
    let failure: PostToolUseFailure = read();
    assert_eq!((failure.error.as_str(), failure.is_interrupt), ("Exit code 3\noops", false));
    assert_eq!(read::<PostToolBatch>().tool_calls.len(), 1);
    assert!(!read::<UserPromptSubmit>().prompt.is_empty());
    assert_eq!(read::<Stop>().last_assistant_message.as_deref(), Some("First turn finished."));
    assert!(read::<SubagentStart>().agent_id.is_some());
    assert!(read::<SubagentStop>().agent_transcript_path.is_some());
    assert_eq!(read::<PermissionRequest>().permission_suggestions.len(), 1);
    assert_eq!(read::<PreCompact>().trigger, "manual");
    assert!(!read::<PostCompact>().compact_summary.is_empty());
    assert_eq!(read::<PreModelSwitch>().to_model, "claude-sonnet-5-5");
    assert_eq!(read::<PostModelSwitch>().context_tokens, Some(172));
    assert_eq!(read::<SessionStart>().source, "compact");
    assert!(read::<MessageDisplay>().is_final);
    // These are told only to hooks in settings.
    assert!(!read::<SessionEnd>().reason.is_empty());
    assert!(read::<InstructionsLoaded>().file_path.ends_with("CLAUDE.md"));
    assert_eq!(event::NAMES.len(), 33);
}

#[test]
fn answers_have_the_form_of_the_cli() {
    fn check<O: HookOutput>(output: O, event: &'static str, expected: &serde_json::Value) {
        assert_eq!(output.into_json(event), *expected);
    }
    check(StopOutput::new(), "Stop", &json!({}));
    check(StopOutput::new().block("not yet"), "Stop", &json!({"decision": "block", "reason": "not yet"}));
    check(
        PostToolUseOutput::new().stop("enough").system_message("so").suppress_output(),
        "PostToolUse",
        &json!({"continue": false, "stopReason": "enough", "systemMessage": "so", "suppressOutput": true}),
    );
    check(
        SetupOutput::new().in_background(Some(Duration::from_secs(5))),
        "Setup",
        &json!({"async": true, "asyncTimeout": 5000}),
    );
    check(
        PreToolUseOutput::allow().updated_input(json!({"command": "ls"})).additional_context("more"),
        "PreToolUse",
        &json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow",
            "updatedInput": {"command": "ls"}, "additionalContext": "more"}}),
    );
    check(
        PreModelSwitchOutput::new().permission_decision(Decision::Deny),
        "PreModelSwitch",
        &json!({"hookSpecificOutput": {"hookEventName": "PreModelSwitch", "permissionDecision": "deny"}}),
    );
    check(
        PermissionRequestOutput::deny("no"),
        "PermissionRequest",
        &json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest",
            "decision": {"behavior": "deny", "message": "no"}}}),
    );
    check(
        SessionStartOutput::new().watch_paths(vec!["a".to_owned()]).reload_skills(true),
        "SessionStart",
        &json!({"hookSpecificOutput": {"hookEventName": "SessionStart", "watchPaths": ["a"], "reloadSkills": true}}),
    );
}

#[tokio::test]
async fn real_claude_calls_the_hooks_of_models_agents_permissions_and_compaction() {
    let trial = Trial::new(
        "{ tape: 1, lanes: { \
           helper: { match: Help me now, replies: [ { say: Helped. } ] }, \
           shorter: { match: being continued, replies: [ { say: After., usage: { input: 10, output: 2 } } ] }, \
           main: [ { tools: [ { Agent: { description: d, prompt: Help me now, subagent_type: helper, run_in_background: false } } ] }, \
                   { tools: [ { Bash: { command: echo > made.txt, description: Make } } ] }, { say: Done. }, \
                   { say: '<summary>What was done.</summary>' }, { say: Again. } ] } }",
    );
    let called: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut hooks = Hooks::new();
    for name in event::NAMES {
        let called = Arc::clone(&called);
        hooks = hooks.on_named(*name, Matcher::any(), move |input, _| {
            let value = input.to_value().unwrap();
            called.lock().unwrap().push(value["hook_event_name"].as_str().unwrap().to_owned());
            async { Ok(json!({})) }
        });
    }
    let options = trial.options().with_agent_definition("helper", AgentDefinition::new("Helps", "You help."));
    let host =
        trial.host_with(options).with_hooks(hooks).with_can_use_tool(|_, _| async { Permission::allow() });
    let client = host.connect().await.unwrap();
    assert_eq!(client.turn("go").text().await.unwrap(), "Done.");
    client.set_model(Some("claude-sonnet-5-5")).await.unwrap();
    let _ = client.turn(Prompt::text("/compact").interpreted()).result().await;
    client.close().await.unwrap();
    let called = called.lock().unwrap().clone();
    for name in [
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolBatch",
        "SubagentStart",
        "SubagentStop",
        "PermissionRequest",
        "Stop",
        "MessageDisplay",
        "PreModelSwitch",
        "PostModelSwitch",
        "PreCompact",
        "PostCompact",
        "SessionStart",
    ] {
        assert!(called.iter().any(|call| call == name), "{name} is missing: {called:?}");
    }
}
