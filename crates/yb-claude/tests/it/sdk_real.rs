//! The SDK with the real CLI and a scripted model.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use yb_claude::sdk::event::{
    MessageDisplay, MessageDisplayOutput, PostToolBatch, PostToolBatchOutput, PostToolUse,
    PostToolUseFailure, PostToolUseFailureOutput, PostToolUseOutput, PreToolUse, PreToolUseOutput, Stop,
    StopOutput, UserPromptSubmit, UserPromptSubmitOutput,
};
use yb_claude::sdk::{Client, Error, Hooks, Matcher, Permission, ToolServer, query, tool};
use yb_claude::{AgentDefinition, ApiFailureKind, Message, PermissionMode, Session, SystemPrompt};

use crate::sdk_support::Trial;

type Log = Arc<Mutex<Vec<String>>>;

fn log() -> Log {
    Arc::default()
}

fn note(log: &Log, what: impl Into<String>) {
    log.lock().unwrap().push(what.into());
}

fn noted(log: &Log) -> Vec<String> {
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
async fn real_claude_gets_large_things_that_no_argument_could_hold() {
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

fn calc(log: &Log) -> ToolServer {
    let seen = Arc::clone(log);
    ToolServer::new("calc")
        .with(
            tool("add", "Adds", move |args: Add, cx: yb_claude::sdk::ToolContext| {
                note(&seen, format!("add {} {}", args.a, cx.tool_use_id().is_some()));
                async move { (args.a + args.b).to_string() }
            })
            .with_annotation("readOnlyHint", true),
        )
        .with(tool("fail", "Fails", |_: Value, _| async { Err::<String, _>("no luck today") }))
        .with(tool("panic", "Panics", |_: Value, _| async { panic!("on purpose") as String }))
}

#[tokio::test]
async fn real_claude_calls_tools_of_the_host_several_at_once() {
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
async fn real_claude_shares_one_tool_server_between_three_queries() {
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
async fn real_claude_takes_back_a_slow_tool_when_it_is_interrupted() {
    let trial = Trial::replies("{ tools: [ { mcp__slow__wait: {} } ] }, { say: Again. }");
    let (began, has_begun) = tokio::sync::mpsc::unbounded_channel();
    let log = log();
    let seen = Arc::clone(&log);
    let server = ToolServer::new("slow").with(tool(
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
        .on(Matcher::any(), move |hook: UserPromptSubmit, _| {
            submit();
            assert_eq!(hook.prompt, "go");
            async { UserPromptSubmitOutput::new().additional_context("CONTEXT-FROM-HOOK") }
        })
        .on("Bash", move |hook: PreToolUse, _| {
            pre();
            assert!(hook.tool_use_id.is_some() && !hook.session_id.is_empty());
            async { PreToolUseOutput::new() }
        })
        .on("Write", |_: PreToolUse, _| async { panic!("another tool") as PreToolUseOutput })
        .on(Matcher::any(), move |_: PostToolUse, _| {
            post();
            async { PostToolUseOutput::new().additional_context("AFTER-THE-TOOL") }
        })
        .on(Matcher::any(), move |hook: PostToolUseFailure, _| {
            fail();
            assert!(hook.error.contains('3'), "{}", hook.error);
            async { PostToolUseFailureOutput::new() }
        })
        .on(Matcher::any(), move |hook: PostToolBatch, _| {
            batch();
            assert_eq!(hook.tool_calls.len(), 1);
            async { PostToolBatchOutput::new() }
        })
        .on(Matcher::any(), move |hook: Stop, _| {
            stop();
            assert_eq!(hook.last_assistant_message.as_deref(), Some("Done."));
            async { StopOutput::new() }
        })
        .on(Matcher::any(), move |_: MessageDisplay, _| {
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

const TOUCH: &str =
    "{ tools: [ { Bash: { command: echo asked > made.txt, description: Make } } ] }, { say: Done. }";

#[tokio::test]
async fn real_claude_obeys_hooks_that_deny_allow_and_change() {
    let deny = Hooks::new().on("Bash", |_: PreToolUse, _| async { PreToolUseOutput::deny("never here") });
    let change = Hooks::new().on("Bash", |_: PreToolUse, _| async {
        PreToolUseOutput::allow()
            .updated_input(json!({"command": "echo changed > made.txt", "description": "Make"}))
    });
    let failing = Hooks::new()
        .on("Bash", |_: PreToolUse, _| async { Err::<PreToolUseOutput, _>("the hook is broken") });
    for (hooks, made, told) in [
        (deny, None, "never here"),
        (change, Some("changed\n"), ""),
        // A hook that fails does not stop anything, unless it was told to.
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
async fn real_claude_does_not_go_on_when_a_hook_fails_that_must_block() {
    let trial = Trial::replies(TOUCH);
    let matcher = Matcher::of("Bash").with_on_failure(yb_claude::sdk::OnFailure::Block);
    let hooks = Hooks::new()
        .on(matcher, |_: PreToolUse, _| async { Err::<PreToolUseOutput, _>("the hook is broken") });
    let options = trial.options().with_allowed_tools(["Bash"]);
    trial.host_with(options).with_hooks(hooks).query("go").text().await.unwrap();
    assert_eq!(trial.file("made.txt"), None);
}

#[tokio::test]
async fn real_claude_asks_for_permission() {
    for (permission, made, told) in [
        (Permission::allow(), Some("asked\n"), ""),
        (
            Permission::allow_with(json!({"command": "echo other > made.txt", "description": "x"})),
            Some("other\n"),
            "",
        ),
        (Permission::deny("by the host"), None, "by the host"),
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
async fn real_claude_ends_the_turn_when_a_denial_says_so() {
    let trial = Trial::replies(TOUCH);
    let host = trial.host().with_can_use_tool(|_, _| async { Permission::deny_and_stop("enough") });
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
async fn real_claude_gives_structured_output_or_a_typed_error() {
    let trial = Trial::replies("{ tools: [ { StructuredOutput: { good: true, why: tested } } ] }");
    let verdict: Verdict = trial.host().query("judge").structured().await.unwrap();
    assert_eq!(verdict, Verdict { good: true, why: "tested".to_owned() });

    let trial = Trial::replies("{ say: I forgot. }, { say: I forgot again. }, { say: And again. }");
    let error = trial.host().query("judge").structured::<Verdict>().await.unwrap_err();
    assert!(matches!(error, Error::NoStructuredOutput(_)), "{error:?}");

    // The schema that the model was given is not that of the type.
    let trial = Trial::replies("{ tools: [ { StructuredOutput: { other: 1 } } ] }");
    let schema = json!({"type": "object", "properties": {"other": {"type": "number"}}});
    let host = trial.host_with(trial.options().with_json_schema(schema));
    let error = host.query("judge").structured::<Verdict>().await.unwrap_err();
    let Error::WrongStructuredOutput { raw, .. } = error else { panic!("{error:?}") };
    assert_eq!(raw.to_value().unwrap(), json!({"other": 1}));
}

#[tokio::test]
async fn real_claude_runs_subagents_in_the_foreground_and_in_the_background() {
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
        let hooks = Hooks::new().on_named("SubagentStop", Matcher::any(), move |input, _| {
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

#[tokio::test]
async fn real_claude_is_interrupted_and_used_again() {
    // What was cut off is no answer, so the second prompt still comes before the first one.
    let trial = Trial::new(
        "{ tape: 1, lanes: { second: { match: once more, replies: [ { say: Still here. } ] }, \
           main: [ { say: one two three four five six, pace: { between: 200ms, chunk: 1 } } ] } }",
    );
    let client =
        trial.host_with(trial.options().with_include_partial_messages(true)).connect().await.unwrap();
    let mut turn = client.turn("count");
    while let Some(message) = turn.next().await {
        if matches!(message.unwrap(), Message::StreamEvent(_)) {
            break;
        }
    }
    client.interrupt().await.unwrap();
    let Err(Error::Result(result)) = turn.result().await else { panic!("it was interrupted") };
    assert_eq!(result.terminal_reason.as_deref(), Some("aborted_streaming"));
    assert_eq!(client.turn("once more").text().await.unwrap(), "Still here.");
    client.close().await.unwrap();
}

#[tokio::test]
async fn real_claude_obeys_a_client() {
    let trial = Trial::replies("{ say: One. }, { say: Two. }, { say: Three. }");
    let log = log();
    let host = trial.host().with_tools(calc(&log));
    let client = Client::connect(&host).await.unwrap();
    assert!(!client.initialized().commands.is_empty());
    // Begun together, answered in order.
    let (one, two) = (client.turn("one"), client.turn("two"));
    assert_eq!(two.text().await.unwrap(), "Two.");
    assert_eq!(one.text().await.unwrap(), "One.");
    client.set_permission_mode(PermissionMode::AcceptEdits).await.unwrap();
    client.set_model(Some("claude-haiku-4-5")).await.unwrap();
    assert_eq!(client.mcp_status().await.unwrap()[0].name, "calc");
    client.mcp_toggle("calc", false).await.unwrap();
    assert_eq!(client.mcp_status().await.unwrap()[0].status, "disabled");
    client.mcp_toggle("calc", true).await.unwrap();
    assert!(client.context_usage().await.unwrap().max_tokens > 0);
    let error = client.control(json!({"subtype": "no_such_thing"})).await.unwrap_err();
    assert!(
        matches!(&error, Error::Control { code: Some(code), .. } if code == "unsupported_request"),
        "{error:?}"
    );
    let third = client.clone().turn("three").result().await.unwrap();
    assert_eq!(third.result.as_deref(), Some("Three."));
    assert!(trial.asked().contains("claude-haiku-4-5"));
    assert!(client.close().await.unwrap().success());
    assert!(client.close().await.unwrap().success(), "the same again");
    assert!(matches!(client.set_model(None).await, Err(Error::Closed)));
}

#[tokio::test]
async fn real_claude_rewinds_files() {
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("a.txt");
    let trial = Trial::replies(&format!(
        "{{ tools: [ {{ Write: {{ file_path: {}, content: new }} }} ] }}, {{ say: Done. }}",
        json!(path)
    ));
    let options = trial
        .options()
        .with_file_checkpointing(true)
        .with_replay_user_messages(true)
        .with_permission_mode(PermissionMode::AcceptEdits)
        .with_add_dir(path.parent().unwrap());
    let client = trial.host_with(options).connect().await.unwrap();
    let (mut turn, mut id) = (client.turn("write"), None);
    while let Some(message) = turn.next().await {
        if let Message::User(user) = message.unwrap()
            && user.is_replay
        {
            id = id.or(user.uuid.clone());
        }
    }
    let id = id.expect("the prompt comes back with its id");
    assert!(path.is_file());
    assert!(client.can_rewind_files(&id).await.unwrap().can_rewind);
    client.rewind_files(&id).await.unwrap();
    assert!(!path.exists());
    client.close().await.unwrap();
}

#[tokio::test]
async fn real_claude_resumes_and_forks() {
    let trial = Trial::replies("{ say: One. }, { say: Two. }, { say: Three. }");
    let first = trial.host().query("one").result().await.unwrap();
    let id = first.session_id.unwrap();
    let resumed = trial.options().with_session(Session::Resume(id.clone()));
    let second = trial.host_with(resumed).query("two").result().await.unwrap();
    assert_eq!((second.result.as_deref(), second.session_id.as_deref()), (Some("Two."), Some(id.as_str())));
    let forked = trial.options().with_session(Session::Fork { of: Some(id.clone()), id: None });
    let third = trial.host_with(forked).query("three").result().await.unwrap();
    assert_eq!(third.result.as_deref(), Some("Three."));
    assert_ne!(third.session_id, Some(id));
}

#[tokio::test]
async fn real_claude_api_faults_are_typed_errors() {
    for (status, kind, retryable) in [
        (401, ApiFailureKind::Unauthenticated, false),
        (429, ApiFailureKind::RateLimited, true),
        (529, ApiFailureKind::Overloaded, true),
    ] {
        let trial = Trial::replies(&format!("{{ fault: {{ status: {status} }} }}"));
        let error = trial.host().query("hi").result().await.unwrap_err();
        assert_eq!(error.api_failure().map(|failure| failure.kind), Some(kind), "{error:?}");
        assert_eq!(error.is_retryable(), retryable, "{error}");
    }
}

#[tokio::test]
async fn real_claude_limits_are_results_with_their_payload() {
    let trial = Trial::replies(TOUCH);
    let options = trial.options().with_max_turns(1);
    let error = trial.host_with(options).query("go").result().await.unwrap_err();
    let Error::Result(result) = &error else { panic!("{error:?}") };
    assert_eq!(result.subtype.as_str(), "error_max_turns");
    assert!(error.to_string().contains("error_max_turns"), "{error}");

    let options =
        trial.options().with_session(Session::Resume("550e8400-e29b-41d4-a716-446655440000".into()));
    let error = trial.host_with(options).query("go").result().await.unwrap_err();
    assert!(error.to_string().contains("No conversation found"), "{error:?}");

    let options = trial.options().with_extra_flag("no-such-flag");
    let error = trial.host_with(options).query("go").result().await.unwrap_err();
    assert!(matches!(&error, Error::Exited(exit) if exit.stderr_tail.contains("no-such-flag")), "{error:?}");
}

#[tokio::test]
async fn real_claude_that_is_killed_is_an_error_and_leaves_nothing() {
    let trial = Trial::replies(
        "{ tools: [ { Bash: { command: 'kill -KILL $PPID; sleep 5; true', description: End } } ] }",
    );
    let options = trial.options().with_allowed_tools(["Bash"]);
    let client = trial.host_with(options).connect().await.unwrap();
    let error = client.turn("go").result().await.unwrap_err();
    assert!(matches!(&error, Error::Exited(exit) if exit.signal == Some(9)), "{error:?}");
    assert!(matches!(client.set_model(None).await, Err(Error::Closed)));
    yb_testkit::assert_no_process_in(trial.workspace.path());
}

#[tokio::test]
async fn real_claude_goes_on_when_nobody_reads() {
    let trial = Trial::replies(TOUCH);
    let log = log();
    let seen = Arc::clone(&log);
    let hooks = Hooks::new().on(Matcher::any(), move |_: Stop, _| {
        note(&seen, "stop");
        async { StopOutput::new() }
    });
    let options = trial.options().with_allowed_tools(["Bash"]);
    let mut query = trial.host_with(options).with_hooks(hooks).query("go");
    query.next().await.unwrap().unwrap();
    while noted(&log).is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(trial.file("made.txt").as_deref(), Some("asked\n"));
    assert_eq!(query.text().await.unwrap(), "Done.");
}

#[tokio::test]
async fn real_claude_dies_with_the_query_that_is_dropped() {
    let trial = Trial::replies(
        "{ tools: [{ Bash: { command: 'cut -d\" \" -f1,22 /proc/$$/stat > t && mv t tool.pid; while :; do sleep 0.2; done', description: Wait } }] }",
    );
    let options = trial.options().with_allowed_tools(["Bash"]);
    let file = trial.workspace.path().join("tool.pid");
    let mut query = trial.host_with(options).query("go");
    let tool = tokio::task::spawn_blocking(move || yb_testkit::Process::from_file(&file));
    tokio::pin!(tool);
    let tool = loop {
        tokio::select! {
            message = query.next() => { message.unwrap().unwrap(); }
            tool = &mut tool => break tool.unwrap(),
        }
    };
    drop(query);
    let gone = tokio::task::spawn_blocking(move || tool.is_gone_within(Duration::from_secs(20)));
    assert!(gone.await.unwrap());
}

#[tokio::test]
async fn real_claude_partial_messages_add_up_to_the_whole() {
    let trial = Trial::replies("{ say: Hello from many small pieces., pace: { chunk: 4 } }");
    let mut query = trial.host_with(trial.options().with_include_partial_messages(true)).query("hi");
    let (mut pieces, mut whole) = (String::new(), String::new());
    while let Some(message) = query.next().await {
        match message.unwrap() {
            Message::StreamEvent(event) => {
                let raw = event.raw().to_value().unwrap();
                pieces.push_str(raw["event"]["delta"]["text"].as_str().unwrap_or_default());
            }
            Message::Assistant(message) => whole.push_str(&message.text()),
            _ => {}
        }
    }
    assert_eq!((pieces.as_str(), whole.as_str()), ("Hello from many small pieces.", whole.as_str()));
    assert_eq!(pieces, whole);
}

#[tokio::test]
async fn real_claude_runs_as_an_agent_that_initialize_defines() {
    let trial = Trial::replies("{ say: Reviewed. }");
    let options = trial
        .options()
        .with_agent_definition(
            "reviewer",
            AgentDefinition::new("Reviews", "You review with a raised eyebrow."),
        )
        .with_agent(yb_claude::Agent::Defined("reviewer".to_owned()));
    assert_eq!(trial.host_with(options).query("look").text().await.unwrap(), "Reviewed.");
    assert!(trial.asked().contains("raised eyebrow"));
}

#[tokio::test]
async fn real_claude_hears_what_is_said_while_it_works() {
    let trial = Trial::replies(
        "{ tools: [ { Bash: { command: 'until test -e go; do sleep 0.1; done', description: Wait } } ] }, \
         { say: Done. }, { say: More. }, { say: Last. }",
    );
    let options = trial.options().with_allowed_tools(["Bash"]);
    let client = trial.host_with(options).connect().await.unwrap();
    let mut turn = client.turn("work");
    while let Some(message) = turn.next().await {
        if matches!(message.unwrap(), Message::Assistant(_)) {
            break;
        }
    }
    client.send("and mind the SECOND THOUGHT").await.unwrap();
    std::fs::write(trial.workspace.path().join("go"), "").unwrap();
    turn.result().await.unwrap();
    // The next turn has its own answer, wherever the second thought went.
    let last = client.turn("the end").text().await.unwrap();
    assert!(["More.", "Last."].contains(&last.as_str()), "{last}");
    client.close().await.unwrap();
    assert!(trial.asked().contains("SECOND THOUGHT"));
}
