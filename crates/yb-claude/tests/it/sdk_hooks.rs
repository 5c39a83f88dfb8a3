//! Hook inputs recorded from the real CLI are typed, and outputs have the CLI's format.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use yb_claude::sdk::event::{self, *};
use yb_claude::sdk::{HookEvent, HookMatcher, HookOutput, Hooks, PermissionDecision, PermissionResult};
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
fn recorded_hook_inputs_are_typed() {
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
    // These fire only for hooks in settings files.
    assert!(!read::<SessionEnd>().reason.is_empty());
    assert!(read::<InstructionsLoaded>().file_path.ends_with("CLAUDE.md"));
    assert_eq!(event::NAMES.len(), 33);
}

#[test]
fn hook_outputs_have_cli_format() {
    fn check<O: HookOutput>(output: O, event: &'static str, expected: &serde_json::Value) {
        assert_eq!(output.into_json(event), *expected);
    }
    check(StopOutput::new(), "Stop", &json!({}));
    check(StopOutput::new().block("not yet"), "Stop", &json!({"decision": "block", "reason": "not yet"}));
    check(
        PostToolUseOutput::new().stop("enough").with_system_message("so").with_suppressed_output(),
        "PostToolUse",
        &json!({"continue": false, "stopReason": "enough", "systemMessage": "so", "suppressOutput": true}),
    );
    check(
        SetupOutput::new().with_background(Some(Duration::from_secs(5))),
        "Setup",
        &json!({"async": true, "asyncTimeout": 5000}),
    );
    check(
        PreToolUseOutput::allow()
            .with_updated_input(json!({"command": "ls"}))
            .with_additional_context("more"),
        "PreToolUse",
        &json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow",
            "updatedInput": {"command": "ls"}, "additionalContext": "more"}}),
    );
    check(
        PreModelSwitchOutput::new().with_permission_decision(PermissionDecision::Deny),
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
        SessionStartOutput::new().with_watch_paths(vec!["a".to_owned()]).with_reload_skills(true),
        "SessionStart",
        &json!({"hookSpecificOutput": {"hookEventName": "SessionStart", "watchPaths": ["a"], "reloadSkills": true}}),
    );
}

#[tokio::test]
async fn real_claude_calls_model_agent_permission_and_compaction_hooks() {
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
        hooks = hooks.on_named(*name, HookMatcher::any(), move |input, _| {
            let value = input.to_value().unwrap();
            called.lock().unwrap().push(value["hook_event_name"].as_str().unwrap().to_owned());
            async { Ok(json!({})) }
        });
    }
    let options = trial.options().with_agent_definition("helper", AgentDefinition::new("Helps", "You help."));
    let host = trial
        .host_with(options)
        .with_hooks(hooks)
        .with_can_use_tool(|_, _| async { PermissionResult::allow() });
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
