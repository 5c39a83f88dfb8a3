//! Clients, sessions, failures and shutdown with the real CLI and a scripted model.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use yb_claude::sdk::event::{Stop, StopOutput};
use yb_claude::sdk::{Client, Error, HookMatcher, Hooks};
use yb_claude::{AgentDefinition, ApiFailureKind, Message, PermissionMode, Session};

use crate::sdk_real::{TOUCH, calc, log, note, noted};
use crate::sdk_support::Trial;

#[tokio::test]
async fn real_claude_session_is_usable_after_interrupt() {
    // The interrupted response does not count, so the model sees both prompts.
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
async fn real_claude_handles_client_requests() {
    let trial = Trial::replies("{ say: One. }, { say: Two. }, { say: Three. }");
    let log = log();
    let host = trial.host().with_tools(calc(&log));
    let client = Client::connect(&host).await.unwrap();
    assert!(!client.initialize_response().commands.is_empty());
    // Created together, answered in order.
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
async fn real_claude_resumes_and_forks_sessions() {
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
async fn real_claude_api_errors_are_classified_by_sdk() {
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
async fn real_claude_limits_are_error_results() {
    let trial = Trial::replies(TOUCH);
    let options = trial.options().with_max_turns(1);
    let error = trial.host_with(options).query("go").result().await.unwrap_err();
    let Error::Result(result) = &error else { panic!("{error:?}") };
    assert_eq!(result.subtype.as_str(), "error_max_turns");
    assert!(error.to_string().contains("turn limit reached"), "{error}");

    let options =
        trial.options().with_session(Session::Resume("550e8400-e29b-41d4-a716-446655440000".into()));
    let error = trial.host_with(options).query("go").result().await.unwrap_err();
    assert!(error.to_string().contains("No conversation found"), "{error:?}");

    let options = trial.options().with_extra_flag("no-such-flag");
    let error = trial.host_with(options).query("go").result().await.unwrap_err();
    assert!(matches!(&error, Error::Exited(exit) if exit.stderr_tail.contains("no-such-flag")), "{error:?}");
}

#[tokio::test]
async fn real_claude_killed_is_an_error_and_leaves_no_process() {
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
async fn real_claude_continues_without_reader() {
    let trial = Trial::replies(TOUCH);
    let log = log();
    let seen = Arc::clone(&log);
    let hooks = Hooks::new().on(HookMatcher::any(), move |_: Stop, _| {
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
async fn real_claude_is_killed_when_query_is_dropped() {
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
async fn real_claude_partial_messages_add_up_to_response() {
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
async fn real_claude_runs_as_agent_from_initialize() {
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
async fn real_claude_receives_message_during_turn() {
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
    // The next turn has its own answer, regardless of the extra message.
    let last = client.turn("the end").text().await.unwrap();
    assert!(["More.", "Last."].contains(&last.as_str()), "{last}");
    client.close().await.unwrap();
    assert!(trial.asked().contains("SECOND THOUGHT"));
}
