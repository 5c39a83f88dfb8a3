//! Queries, tools, hooks and permissions with the real CLI and a scripted model.

use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use yb_claude::sdk::event::{
    MessageDisplay, MessageDisplayOutput, PostToolBatch, PostToolBatchOutput, PostToolUse,
    PostToolUseFailure, PostToolUseFailureOutput, PostToolUseOutput, PreToolUse, PreToolUseOutput, Stop,
    StopOutput, UserPromptSubmit, UserPromptSubmitOutput,
};
use yb_claude::sdk::{Error, HookMatcher, Hooks, PermissionResult, ToolServer, query, tool};
use yb_claude::{AgentDefinition, Message, SystemPrompt};

use crate::sdk_support::Trial;

pub(crate) type Log = Arc<Mutex<Vec<String>>>;

pub(crate) fn log() -> Log {
    Arc::default()
}

pub(crate) fn note(log: &Log, what: impl Into<String>) {
    log.lock().unwrap().push(what.into());
}

pub(crate) fn noted(log: &Log) -> Vec<String> {
    log.lock().unwrap().clone()
}

#[tokio::test]
async fn real_claude_answers_a_query() {
    let trial = Trial::replies("{ say: Hello. }");
    let mut query = trial.host().query("hi");
    let mut kinds = Vec::new();
    while let Some(message) = query.next().await {
        kinds.push(message.unwrap().kind().to_owned());
    }
    assert_eq!(kinds.first().map(String::as_str), Some("system"));
    assert_eq!(kinds.last().map(String::as_str), Some("result"));
    assert_eq!(trial.host().query("hi").text().await.unwrap(), "Hello.");
}

#[tokio::test]
async fn real_claude_receives_large_options() {
    let trial = Trial::replies("{ say: ok }");
    let long = "long ".repeat(200_000);
    let options = trial
        .options()
        .with_system_prompt(SystemPrompt::Text(format!("{long} end of the prompt")))
        .with_agent_definition("helper", AgentDefinition::new("Helps", long.clone()));
    assert_eq!(query("hi", trial.host_with(options)).text().await.unwrap(), "ok");
    assert!(trial.asked().contains("end of the prompt"));
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

pub(crate) fn calc(log: &Log) -> ToolServer {
    let seen = Arc::clone(log);
    ToolServer::new("calc")
        .with_tool(
            tool("add", "Adds", move |args: Add, cx: yb_claude::sdk::ToolContext| {
                note(&seen, format!("add {} {}", args.a, cx.tool_use_id().is_some()));
                async move { (args.a + args.b).to_string() }
            })
            .with_annotation("readOnlyHint", true),
        )
        .with_tool(tool("fail", "Fails", |_: Value, _| async { Err::<String, _>("no luck today") }))
        .with_tool(tool("panic", "Panics", |_: Value, _| async { panic!("on purpose") as String }))
}

#[tokio::test]
async fn real_claude_calls_in_process_tools_concurrently() {
    let trial = Trial::replies(
        "{ tools: [ { mcp__calc__add: { a: 1, b: 2 } }, { mcp__calc__add: { a: 3, b: 4 } }, \
           { mcp__calc__fail: {} }, { mcp__calc__panic: {} }, { mcp__calc__add: { a: x } } ] }, { say: Done. }",
    );
    let log = log();
    let server = calc(&log);
    let host = trial.host_with(trial.options().with_allowed_tools(server.tool_names())).with_tools(server);
    assert_eq!(host.query("add").text().await.unwrap(), "Done.");
    let mut calls = noted(&log);
    calls.sort();
    assert_eq!(calls, ["add 1 true", "add 3 true"]);
    let asked = trial.asked();
    for told in ["no luck today", "panicked", "invalid arguments", "\"7\""] {
        assert!(asked.contains(told), "{told}");
    }
}

#[tokio::test]
async fn real_claude_queries_share_one_tool_server() {
    let trial = Trial::replies("{ tools: [ { mcp__calc__add: { a: 1, b: 2 } } ] }, { say: Done. }");
    let log = log();
    let server = calc(&log);
    let host = trial.host_with(trial.options().with_allowed_tools(server.tool_names())).with_tools(server);
    let (one, two, three) =
        tokio::join!(host.query("a").text(), host.query("b").text(), host.query("c").text());
    for text in [one, two, three] {
        assert_eq!(text.unwrap(), "Done.");
    }
    assert_eq!(noted(&log).len(), 3);
}

#[tokio::test]
async fn real_claude_interrupt_cancels_slow_tool() {
    let trial = Trial::replies("{ tools: [ { mcp__slow__wait: {} } ] }, { say: Again. }");
    let (began, has_begun) = tokio::sync::mpsc::unbounded_channel();
    let log = log();
    let seen = Arc::clone(&log);
    let server = ToolServer::new("slow").with_tool(tool(
        "wait",
        "Waits",
        move |_: Value, cx: yb_claude::sdk::ToolContext| {
            let (began, seen) = (began.clone(), Arc::clone(&seen));
            async move {
                began.send(()).unwrap();
                cx.cancelled().await;
                note(&seen, "cancelled");
                String::new()
            }
        },
    ));
    let mut has_begun = has_begun;
    let host = trial.host_with(trial.options().with_allowed_tools(server.tool_names())).with_tools(server);
    let client = host.connect().await.unwrap();
    let turn = client.turn("wait");
    has_begun.recv().await.unwrap();
    client.interrupt().await.unwrap();
    let Err(Error::Result(result)) = turn.result().await else { panic!("it was interrupted") };
    assert!(result.terminal_reason.unwrap().starts_with("aborted_"));
    assert_eq!(client.turn("again").text().await.unwrap(), "Again.");
    client.close().await.unwrap();
    assert_eq!(noted(&log), ["cancelled"]);
}

#[tokio::test]
async fn real_claude_calls_every_hook_that_fires_without_a_terminal() {
    let trial = Trial::replies(
        "{ tools: [ { Bash: { command: echo one, description: One } } ] }, \
         { tools: [ { Bash: { command: 'exit 3', description: Fail } } ] }, { say: Done. }",
    );
    let log = log();
    let name = |name: &'static str| {
        let log = Arc::clone(&log);
        move || note(&log, name)
    };
    let (submit, pre, post, fail, batch, stop, show) = (
        name("UserPromptSubmit"),
        name("PreToolUse"),
        name("PostToolUse"),
        name("PostToolUseFailure"),
        name("PostToolBatch"),
        name("Stop"),
        name("MessageDisplay"),
    );
    let hooks = Hooks::new()
        .on(HookMatcher::any(), move |hook: UserPromptSubmit, _| {
            submit();
            assert_eq!(hook.prompt, "go");
            async { UserPromptSubmitOutput::new().with_additional_context("CONTEXT-FROM-HOOK") }
        })
        .on("Bash", move |hook: PreToolUse, _| {
            pre();
            assert!(hook.tool_use_id.is_some() && !hook.session_id.is_empty());
            async { PreToolUseOutput::new() }
        })
        .on("Write", |_: PreToolUse, _| async { panic!("another tool") as PreToolUseOutput })
        .on(HookMatcher::any(), move |_: PostToolUse, _| {
            post();
            async { PostToolUseOutput::new().with_additional_context("AFTER-THE-TOOL") }
        })
        .on(HookMatcher::any(), move |hook: PostToolUseFailure, _| {
            fail();
            assert!(hook.error.contains('3'), "{}", hook.error);
            async { PostToolUseFailureOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: PostToolBatch, _| {
            batch();
            assert_eq!(hook.tool_calls.len(), 1);
            async { PostToolBatchOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: Stop, _| {
            stop();
            assert_eq!(hook.last_assistant_message.as_deref(), Some("Done."));
            async { StopOutput::new() }
        })
        .on(HookMatcher::any(), move |_: MessageDisplay, _| {
            show();
            async { MessageDisplayOutput::new() }
        });
    let options = trial.options().with_allowed_tools(["Bash"]);
    assert_eq!(trial.host_with(options).with_hooks(hooks).query("go").text().await.unwrap(), "Done.");
    let called = noted(&log);
    for name in [
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "Stop",
        "MessageDisplay",
    ] {
        assert!(called.iter().any(|call| call == name), "{name} is missing: {called:?}");
    }
    let asked = trial.asked();
    assert!(asked.contains("CONTEXT-FROM-HOOK") && asked.contains("AFTER-THE-TOOL"));
}

pub(crate) const TOUCH: &str =
    "{ tools: [ { Bash: { command: echo asked > made.txt, description: Make } } ] }, { say: Done. }";

#[tokio::test]
async fn real_claude_applies_hook_decisions() {
    let deny = Hooks::new().on("Bash", |_: PreToolUse, _| async { PreToolUseOutput::deny("never here") });
    let change = Hooks::new().on("Bash", |_: PreToolUse, _| async {
        PreToolUseOutput::allow()
            .with_updated_input(json!({"command": "echo changed > made.txt", "description": "Make"}))
    });
    let failing = Hooks::new()
        .on("Bash", |_: PreToolUse, _| async { Err::<PreToolUseOutput, _>("the hook is broken") });
    for (hooks, made, told) in [
        (deny, None, "never here"),
        (change, Some("changed\n"), ""),
        // A failing hook blocks nothing by default.
        (failing.clone(), Some("asked\n"), ""),
    ] {
        let trial = Trial::replies(TOUCH);
        let options = trial.options().with_allowed_tools(["Bash"]);
        let host = trial.host_with(options).with_hooks(hooks);
        assert_eq!(host.query("go").text().await.unwrap(), "Done.");
        assert_eq!(trial.file("made.txt").as_deref(), made);
        assert!(trial.asked().contains(told));
    }
}

#[tokio::test]
async fn real_claude_blocks_when_blocking_hook_fails() {
    let trial = Trial::replies(TOUCH);
    let matcher = HookMatcher::new("Bash").with_on_failure(yb_claude::sdk::OnFailure::Block);
    let hooks = Hooks::new()
        .on(matcher, |_: PreToolUse, _| async { Err::<PreToolUseOutput, _>("the hook is broken") });
    let options = trial.options().with_allowed_tools(["Bash"]);
    trial.host_with(options).with_hooks(hooks).query("go").text().await.unwrap();
    assert_eq!(trial.file("made.txt"), None);
}

#[tokio::test]
async fn real_claude_calls_permission_callback() {
    for (permission, made, told) in [
        (PermissionResult::allow(), Some("asked\n"), ""),
        (
            PermissionResult::allow_with(json!({"command": "echo other > made.txt", "description": "x"})),
            Some("other\n"),
            "",
        ),
        (PermissionResult::deny("by the host"), None, "by the host"),
    ] {
        let trial = Trial::replies(TOUCH);
        let log = log();
        let seen = Arc::clone(&log);
        let host = trial.host().with_can_use_tool(move |request, _| {
            note(&seen, format!("{} {}", request.tool_name, request.input));
            let permission = permission.clone();
            async move { permission }
        });
        let result = host.query("go").result().await.unwrap();
        assert_eq!(result.result.as_deref(), Some("Done."));
        assert_eq!(trial.file("made.txt").as_deref(), made);
        assert!(noted(&log)[0].starts_with("Bash {\"command\":\"echo asked"), "{:?}", noted(&log));
        assert!(trial.asked().contains(told));
    }
}

#[tokio::test]
async fn real_claude_denial_can_interrupt_turn() {
    let trial = Trial::replies(TOUCH);
    let host =
        trial.host().with_can_use_tool(|_, _| async { PermissionResult::deny_and_interrupt("enough") });
    let Err(Error::Result(result)) = host.query("go").result().await else { panic!("it was ended") };
    assert!(result.terminal_reason.unwrap().starts_with("aborted_"));
    assert_eq!((trial.file("made.txt"), trial.turns()), (None, 1));
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Verdict {
    good: bool,
    why: String,
}

#[tokio::test]
async fn real_claude_returns_structured_output_or_error() {
    let trial = Trial::replies("{ tools: [ { StructuredOutput: { good: true, why: tested } } ] }");
    let verdict: Verdict = trial.host().query("judge").structured().await.unwrap();
    assert_eq!(verdict, Verdict { good: true, why: "tested".to_owned() });

    let trial = Trial::replies("{ say: I forgot. }, { say: I forgot again. }, { say: And again. }");
    let error = trial.host().query("judge").structured::<Verdict>().await.unwrap_err();
    assert!(matches!(error, Error::NoStructuredOutput(_)), "{error:?}");

    // The schema in the options differs from that of the type.
    let trial = Trial::replies("{ tools: [ { StructuredOutput: { other: 1 } } ] }");
    let schema = json!({"type": "object", "properties": {"other": {"type": "number"}}});
    let host = trial.host_with(trial.options().with_json_schema(schema));
    let error = host.query("judge").structured::<Verdict>().await.unwrap_err();
    let Error::WrongStructuredOutput { raw, .. } = error else { panic!("{error:?}") };
    assert_eq!(raw.to_value().unwrap(), json!({"other": 1}));
}

#[tokio::test]
async fn real_claude_runs_foreground_and_background_subagents() {
    for (background, results) in [(false, 1), (true, 2)] {
        let call = format!(
            "{{ Agent: {{ description: d, prompt: Help me now, subagent_type: helper, run_in_background: {background} }} }}"
        );
        let trial = Trial::new(&format!(
            "{{ tape: 1, lanes: {{ helper: {{ match: Help me now, replies: [ {{ say: Helped. }} ] }}, \
               main: [ {{ tools: [ {call} ] }}, {{ say: First end. }}, {{ say: Second end. }} ] }} }}"
        ));
        let log = log();
        let seen = Arc::clone(&log);
        let hooks = Hooks::new().on_named("SubagentStop", HookMatcher::any(), move |input, _| {
            note(&seen, input.as_str().to_owned());
            async { Ok(json!({})) }
        });
        let options = trial
            .options()
            .with_background_tasks(background)
            .with_env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", if background { "" } else { "1" })
            .with_agent_definition("helper", AgentDefinition::new("Helps", "You help."));
        let mut query = trial.host_with(options).with_hooks(hooks).query("go");
        let mut seen = 0;
        while let Some(message) = query.next().await {
            seen += usize::from(matches!(message.unwrap(), Message::Result(_)));
        }
        assert_eq!(seen, results, "background: {background}");
        assert!(noted(&log).iter().any(|input| input.contains("helper")), "{:?}", noted(&log));
        assert!(trial.asked().contains("You help."));
    }
}
