//! The SDK with a scripted CLI, for behavior that a real CLI shows only in failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use yb_claude::sdk::event::{PreToolUse, PreToolUseOutput};
use yb_claude::sdk::{
    Client, Error, Exit, HookMatcher, Hooks, Host, McpPrompt, OnFailure, Resource, ResourceContent,
    ScriptStep, ScriptedCli, ToolServer, tool,
};
use yb_claude::{Message, Options};

use crate::sdk_support::{answer, answers, ask, idle, prompt, result, script};

fn host(cli: &ScriptedCli) -> Host {
    Host::new(Options::default()).with_transport(cli.clone())
}

fn hook(id: &str, callback: &str) -> ScriptStep {
    ask(id, json!({"subtype": "hook_callback", "callback_id": callback, "input": {"tool_name": "Bash"}}))
}

#[tokio::test]
async fn hook_responses_have_request_id_even_after_failure() {
    let cli = script(
        json!({}),
        [
            prompt(),
            // Handled concurrently: the first request is the last to be answered.
            hook("slow", "hook_0"),
            hook("panics", "hook_1"),
            hook("fails", "hook_2"),
            hook("nobody", "hook_9"),
            hook("odd", "something"),
            answer("odd"),
            answer("slow"),
            result("ok"),
            idle(),
        ],
    );
    let hooks = Hooks::new()
        .on(HookMatcher::any(), |_: PreToolUse, _| async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            PreToolUseOutput::deny("slowly")
        })
        .on(HookMatcher::any(), |_: PreToolUse, _| async { panic!("in a hook") as PreToolUseOutput })
        .on(HookMatcher::any(), |_: PreToolUse, _| async { Err::<PreToolUseOutput, _>("as it happens") });
    assert_eq!(host(&cli).with_hooks(hooks).query("hi").text().await.unwrap(), "ok");
    let one = |id: &str| {
        let answers = answers(&cli, id);
        assert_eq!(answers.len(), 1, "{id}: {answers:?}");
        answers[0].clone()
    };
    assert_eq!(
        one("slow")["response"]["hookSpecificOutput"],
        json!({"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "slowly"})
    );
    assert_eq!(one("panics")["error"], "handler panicked: in a hook");
    assert_eq!(one("fails")["error"], "as it happens");
    assert_eq!(one("nobody")["error"], "unknown hook callback: `hook_9`");
    assert_eq!(one("odd")["subtype"], "error");
}

#[tokio::test]
async fn requests_are_handled_during_initialize_and_deduplicated() {
    let handshake = json!({"subtype": "mcp_message", "server_name": "calc", "message":
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}});
    let cli = ScriptedCli::new([
        ScriptStep::Await(
            "init".into(),
            json!({"request": {"subtype": "initialize", "sdkMcpServers": ["calc"]}}),
        ),
        ask("early", handshake.clone()),
        ask("early", handshake),
        answer("early"),
        ScriptStep::Line(json!({"type": "control_response", "response":
            {"subtype": "success", "request_id": "{{init./request_id}}"}})),
        prompt(),
        result("ok"),
        idle(),
    ]);
    let server = ToolServer::new("calc").with_tool(tool("t", "T", |_: Value, _| async { "x" }));
    assert_eq!(host(&cli).with_tools(server).query("hi").text().await.unwrap(), "ok");
    assert_eq!(answers(&cli, "early").len(), 1);
    assert_eq!(answers(&cli, "early")[0]["response"]["mcp_response"]["result"]["serverInfo"]["name"], "calc");
}

#[tokio::test]
async fn cancelled_request_gets_no_response() {
    let cli = script(
        json!({}),
        [
            prompt(),
            hook("gone", "hook_0"),
            hook("stays", "hook_1"),
            ScriptStep::Line(json!({"type": "control_cancel_request", "request_id": "gone"})),
            answer("stays"),
            result("ok"),
            idle(),
        ],
    );
    let dropped = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&dropped);
    let hooks = Hooks::new()
        .on(HookMatcher::any(), move |_: PreToolUse, cx: yb_claude::sdk::CallContext| {
            let seen = Arc::clone(&seen);
            async move {
                cx.cancelled().await;
                seen.fetch_add(1, Ordering::SeqCst);
                PreToolUseOutput::new()
            }
        })
        .on(HookMatcher::any(), |_: PreToolUse, _| async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            PreToolUseOutput::new()
        });
    host(&cli).with_hooks(hooks).query("hi").text().await.unwrap();
    assert!(answers(&cli, "gone").is_empty());
    assert_eq!(answers(&cli, "stays")[0]["response"], json!({}));
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn unsupported_requests_are_rejected_or_ignored() {
    let cli = script(
        json!({}),
        [
            prompt(),
            ask("tool", json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {}})),
            answer("tool"),
            ask("elicit", json!({"subtype": "elicitation", "mcp_server_name": "s", "message": "?"})),
            answer("elicit"),
            ask("dialog", json!({"subtype": "request_user_dialog"})),
            ask("new", json!({"subtype": "from_the_future"})),
            answer("new"),
            ask(
                "server",
                json!({"subtype": "mcp_message", "server_name": "none", "message": {"id": 1, "method": "ping"}}),
            ),
            answer("server"),
            result("ok"),
            idle(),
        ],
    );
    let hooks = Hooks::new().on(HookMatcher::any(), |_: PreToolUse, _| async { PreToolUseOutput::new() });
    host(&cli).with_hooks(hooks).query("hi").text().await.unwrap();
    assert_eq!(answers(&cli, "tool")[0]["subtype"], "error");
    assert_eq!(answers(&cli, "elicit")[0]["response"], json!({"action": "decline"}));
    assert!(answers(&cli, "dialog").is_empty());
    assert_eq!(answers(&cli, "new")[0]["error"], "Unsupported control request subtype: from_the_future");
    assert_eq!(answers(&cli, "new")[0]["error_code"], "unsupported_request");
    assert_eq!(answers(&cli, "server")[0]["response"]["mcp_response"]["error"]["code"], -32601);
}

#[expect(clippy::needless_pass_by_value, reason = "it is written in place")]
fn mcp(id: &str, message: Value) -> ScriptStep {
    ask(id, json!({"subtype": "mcp_message", "server_name": "s", "message": message}))
}

fn call(id: u64, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {}}})
}

#[tokio::test]
async fn tool_server_implements_mcp() {
    let cli = script(
        json!({}),
        [
            prompt(),
            mcp("again", json!({"id": 0, "method": "initialize", "params": {}})),
            mcp("note", json!({"method": "notifications/initialized"})),
            mcp("list", json!({"id": 1, "method": "tools/list"})),
            mcp("ping", json!({"id": "two", "method": "ping"})),
            mcp("unknown", json!({"id": 3, "method": "resources/list"})),
            mcp("no tool", call(4, "none")),
            mcp("slow", call(5, "wait")),
            mcp("cancel", json!({"method": "notifications/cancelled", "params": {"requestId": 5}})),
            answer("slow"),
            result("ok"),
            idle(),
        ],
    );
    let wait = tool("wait", "Waits", |_: Value, _| async { std::future::pending::<String>().await });
    host(&cli).with_tools(ToolServer::new("s").with_tool(wait)).query("hi").text().await.unwrap();
    let response = |id: &str| answers(&cli, id)[0]["response"]["mcp_response"].clone();
    assert_eq!(response("again")["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(response("note"), json!({"jsonrpc": "2.0", "result": {}}));
    assert_eq!(response("list")["result"]["tools"][0]["name"], "wait");
    assert_eq!(response("ping"), json!({"jsonrpc": "2.0", "id": "two", "result": {}}));
    assert_eq!(response("unknown")["error"]["code"], -32601);
    assert_eq!(response("no tool")["result"]["isError"], true);
    assert_eq!(response("slow")["error"]["code"], -32800);
}

#[tokio::test]
async fn tool_server_offers_prompts_and_resources() {
    let get = |id: u64, name: &str| json!({"id": id, "method": "prompts/get", "params": {"name": name, "arguments": {"who": "Bo"}}});
    let cli = script(
        json!({}),
        [
            prompt(),
            mcp("init", json!({"id": 0, "method": "initialize", "params": {}})),
            mcp("prompts", json!({"id": 1, "method": "prompts/list"})),
            mcp("get", get(2, "greet")),
            mcp("none", get(3, "none")),
            mcp("failing", json!({"id": 4, "method": "resources/read", "params": {"uri": "x://failing"}})),
            mcp("templates", json!({"id": 5, "method": "resources/templates/list"})),
            answer("templates"),
            result("ok"),
            idle(),
        ],
    );
    let greet = McpPrompt::new("greet", "Greets", |arguments, _| async move {
        arguments.get("who").map(|who| format!("Greet {who}.")).ok_or("nobody to greet")
    });
    let failing = Resource::new("x://failing", "failing", |_| async { Err::<ResourceContent, _>("gone") });
    let server = ToolServer::new("s").with_prompt(greet.with_argument("who", "A name"));
    host(&cli).with_tools(server.with_resource(failing)).query("hi").text().await.unwrap();
    let response = |id: &str| answers(&cli, id)[0]["response"]["mcp_response"].clone();
    let capabilities = &response("init")["result"]["capabilities"];
    assert!(capabilities["prompts"].is_object() && capabilities["resources"].is_object());
    let listed = &response("prompts")["result"]["prompts"][0];
    assert_eq!((&listed["name"], &listed["arguments"][0]["name"]), (&json!("greet"), &json!("who")));
    assert_eq!(response("get")["result"]["messages"][0]["content"]["text"], "Greet Bo.");
    assert_eq!(response("none")["error"]["code"], -32602);
    assert_eq!(response("failing")["error"], json!({"code": -32603, "message": "gone"}));
    assert_eq!(response("templates")["result"]["resourceTemplates"], json!([]));
}

#[tokio::test]
async fn blocking_hooks_require_cli_support() {
    for (initialized, accepted) in [
        (json!({"hook_on_failure_supported": true}), true),
        (json!({"hook_on_failure_supported": true, "hooks_applied": false}), false),
        (json!({}), false),
    ] {
        let cli = script(initialized.clone(), [prompt(), result("ok"), idle()]);
        let matcher =
            HookMatcher::any().with_on_failure(OnFailure::Block).with_timeout(Duration::from_millis(1500));
        let hooks = Hooks::new().on(matcher, |_: PreToolUse, _| async { PreToolUseOutput::new() });
        let outcome = host(&cli).with_hooks(hooks).query("hi").text().await;
        assert_eq!(
            cli.sessions()[0].lines[0]["request"]["hooks"]["PreToolUse"],
            json!([{"matcher": null, "hookCallbackIds": ["hook_0"], "timeout": 2, "onFailure": "block"}])
        );
        match outcome {
            Ok(_) => assert!(accepted, "{initialized}"),
            Err(error) => assert!(!accepted && matches!(error, Error::Handshake { .. }), "{error:?}"),
        }
    }
}

#[tokio::test]
async fn control_requests_fail_with_error_timeout_or_exit() {
    let request = |subtype: &str| ScriptStep::Await("call".into(), json!({"request": {"subtype": subtype}}));
    let cli = script(
        json!({}),
        [
            request("one"),
            ScriptStep::Line(json!({"type": "control_response", "response":
                {"subtype": "error", "request_id": "{{call./request_id}}", "error": "no", "error_code": "c"}})),
            request("two"),
            ScriptStep::Await("gone".into(), json!({"type": "control_cancel_request"})),
            request("three"),
            ScriptStep::Exit(Exit { stderr_tail: "oh".into(), ..Exit::with_code(7) }),
        ],
    );
    let client = host(&cli).with_control_timeout(Duration::from_millis(300)).connect().await.unwrap();
    let error = client.control(json!({"subtype": "one"})).await.unwrap_err();
    assert!(matches!(&error, Error::Control { code: Some(code), .. } if code == "c"), "{error:?}");
    let error = client.control(json!({"subtype": "two"})).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    let error = client.control(json!({"subtype": "three"})).await.unwrap_err();
    assert_eq!(error.to_string(), "claude CLI exited without a result: exit code 7: oh");
    assert!(matches!(client.turn("x").result().await, Err(Error::Closed)));
}

#[tokio::test]
async fn non_messages_are_skipped_and_malformed_lines_end_session() {
    let noise = ScriptStep::Bytes(
        b"[SandboxDebug] hello\n\n   \n{\"type\":\"from_the_future\",\"x\":1}\r\n".to_vec(),
    );
    let cli = script(
        json!({}),
        [prompt(), noise.clone(), result("ok"), ScriptStep::Bytes(b"{\"type\":\"resu".to_vec())],
    );
    let mut query = host(&cli).query("hi");
    let first = query.next().await.unwrap().unwrap();
    assert!(
        matches!(&first, Message::Unknown { kind, raw } if kind == "from_the_future" && raw.as_str().contains("\"x\":1"))
    );
    assert!(matches!(query.next().await, Some(Ok(Message::Result(_)))));
    assert!(query.next().await.is_none(), "half a line at the end is dropped");

    let cli =
        script(json!({}), [prompt(), ScriptStep::Bytes(b"{\"type\": oops}\n".to_vec()), result("never")]);
    let error = host(&cli).query("hi").text().await.unwrap_err();
    assert!(matches!(error, Error::Protocol(_)), "{error:?}");
}

#[tokio::test]
async fn stdin_stays_open_until_run_is_over() {
    let hooks = || Hooks::new().on(HookMatcher::any(), |_: PreToolUse, _| async { PreToolUseOutput::new() });
    let started = ScriptStep::Line(
        json!({"type": "system", "subtype": "task_started", "task_id": "a", "task_type": "local_agent"}),
    );
    let init = || ScriptStep::Line(json!({"type": "system", "subtype": "init"}));
    // A CLI that reports its state: open through both results, until it is idle.
    let running =
        ScriptStep::Line(json!({"type": "system", "subtype": "session_state_changed", "state": "running"}));
    let steps =
        [prompt(), running, result("one"), hook("late", "hook_0"), answer("late"), result("two"), idle()];
    let cli = script(json!({}), steps);
    let mut results = Vec::new();
    let mut query = host(&cli).with_hooks(hooks()).query("hi");
    while let Some(message) = query.next().await {
        if let Message::Result(result) = message.unwrap() {
            results.push(result.result.unwrap());
        }
    }
    assert_eq!(results, ["one", "two"]);
    assert_eq!(cli.sessions()[0].steps_before_eof, Some(9));
    // A CLI that does not: open until no agent is running.
    let cli = script(
        json!({}),
        [
            prompt(),
            init(),
            started.clone(),
            result("one"),
            hook("late", "hook_0"),
            answer("late"),
            ScriptStep::Line(json!({"type": "system", "subtype": "background_tasks_changed", "tasks": []})),
            init(),
            result("two"),
        ],
    );
    assert_eq!(host(&cli).with_hooks(hooks()).query("hi").text().await.unwrap(), "two");
    // With an agent that never ends: open until the maximum wait.
    let cli = script(json!({}), [prompt(), init(), started, result("one")]);
    let host_in_haste = host(&cli).with_hooks(hooks()).with_background_wait(Duration::from_millis(100));
    assert_eq!(host_in_haste.query("hi").text().await.unwrap(), "one");
    // Without callbacks: closed immediately.
    let cli = script(json!({}), [prompt(), ScriptStep::AwaitEnd, result("one")]);
    assert_eq!(host(&cli).query("hi").text().await.unwrap(), "one");
}

#[tokio::test]
async fn turns_end_with_their_own_result() {
    let notice = json!({"type": "result", "subtype": "success", "result": "a task", "origin": {"kind": "task-notification"}});
    let cli = script(
        json!({}),
        [
            prompt(),
            ScriptStep::Line(notice.clone()),
            result("one"),
            prompt(),
            result("two"),
            ScriptStep::Line(notice),
        ],
    );
    let client = host(&cli).connect().await.unwrap();
    let mut beside = client.unclaimed();
    let (one, never, two) = (client.turn("1"), client.turn("never said"), client.turn("2"));
    drop(never);
    assert_eq!(two.text().await.unwrap(), "two");
    assert_eq!(one.text().await.unwrap(), "one");
    assert!(
        matches!(beside.next().await, Some(Ok(Message::Result(result))) if result.result.as_deref() == Some("a task"))
    );
    client.close().await.unwrap();
    let said: Vec<_> = cli.sessions()[0]
        .lines
        .iter()
        .filter_map(|line| line["message"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(said, ["1", "2"]);
}

#[tokio::test]
async fn concurrent_cancelled_senders_never_split_lines() {
    let cli = script(json!({}), []);
    let client = host(&cli).connect().await.unwrap();
    let long = "x".repeat(100_000);
    let senders: Vec<_> = (0..100)
        .map(|number| {
            let (client, text) = (client.clone(), format!("{number} {long}"));
            tokio::spawn(async move {
                let send = client.send(text);
                if number % 3 == 0 {
                    let _ = tokio::time::timeout(Duration::from_micros(number), send).await;
                } else {
                    send.await.unwrap();
                }
            })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    client.close().await.unwrap();
    let session = &cli.sessions()[0];
    assert!(session.malformed.is_empty());
    assert!(session.lines.iter().filter(|line| line["type"] == "user").count() >= 66);
}

#[tokio::test]
async fn exit_without_result_is_an_error() {
    for code in [0, 1] {
        let cli = script(json!({}), [prompt(), ScriptStep::Exit(Exit::with_code(code))]);
        let error = host(&cli).query("hi").text().await.unwrap_err();
        assert!(matches!(&error, Error::Exited(exit) if exit.code == Some(code)), "{error:?}");
    }
    // An error result takes precedence over the exit code.
    let failed =
        json!({"type": "result", "subtype": "error_max_turns", "is_error": true, "errors": ["enough"]});
    let cli = script(json!({}), [prompt(), ScriptStep::Line(failed), ScriptStep::Exit(Exit::with_code(1))]);
    let mut query = host(&cli).query("hi");
    assert!(matches!(query.next().await, Some(Ok(Message::Result(_)))));
    let error = query.next().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "turn failed: turn limit reached: enough");
    assert!(query.next().await.is_none());
}

#[tokio::test]
async fn invalid_options_and_prompts_start_nothing() {
    let cli = script(json!({}), []);
    let error = host(&cli).query("  ").text().await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    let both = Host::new(Options::default().with_permission_prompt_tool("mcp__a__b"))
        .with_transport(cli.clone())
        .with_can_use_tool(|_, _| async { yb_claude::sdk::PermissionResult::allow() });
    let error = Client::connect(&both).await.unwrap_err();
    assert!(error.to_string().contains("permission_prompt_tool"), "{error}");
    assert!(cli.sessions().is_empty());
}

#[tokio::test]
async fn sandbox_and_skills_are_passed_through() {
    let cli = script(json!({}), [prompt(), result("ok")]);
    let sandbox = json!({"enabled": true}).as_object().unwrap().clone();
    let options = Options::default().with_sandbox(sandbox.clone()).with_skills(["pdf", "team:review"]);
    Host::new(options).with_transport(cli.clone()).query("hi").text().await.unwrap();
    let session = &cli.sessions()[0];
    assert!(
        session.args.contains(&"--settings={\"sandbox\":{\"enabled\":true}}".to_owned()),
        "{:?}",
        session.args
    );
    assert!(session.args.contains(&"--allowedTools=Skill(pdf),Skill(team:review)".to_owned()));
    assert_eq!(session.lines[0]["request"]["skills"], json!(["pdf", "team:review"]));

    let file = Options::default()
        .with_settings(yb_claude::Settings::File("settings.json".into()))
        .with_sandbox(sandbox);
    assert!(file.validate().unwrap_err().to_string().contains("`sandbox`"));
    assert!(Options::default().with_skills(["a,b"]).validate().is_err());
}
