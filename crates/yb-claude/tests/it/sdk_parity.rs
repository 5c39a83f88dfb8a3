//! Features of the official SDKs, with the real CLI and a scripted model.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use yb_claude::sdk::{
    CallContext, Claim, Client, DialogResponse, Error, Host, McpPrompt, McpService, MemorySessionStore,
    PermissionResult, Reload, Resource, ResourceContent, SessionKey, SessionMcpServer, SessionStore,
    Sessions, StoreError, ToolServer, query_stream, tool,
};
use yb_claude::{McpServer, Message, PermissionMode, Prompt, Session, SettingSource};

use crate::sdk_real::{log, note, noted};
use crate::sdk_support::Trial;

/// A stream of prompts that are all available at once.
struct Prompts(Vec<Prompt>);

impl futures_core::Stream for Prompts {
    type Item = Prompt;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Prompt>> {
        let next = if self.0.is_empty() { None } else { Some(self.0.remove(0)) };
        std::task::Poll::Ready(next)
    }
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("not an object") };
    map
}

/// Returns the last model request.
fn last_request(trial: &Trial) -> String {
    trial.server.requests().iter().rfind(|seen| seen.lane.is_some()).unwrap().body.to_string()
}

#[tokio::test]
async fn real_claude_answers_streamed_prompts() {
    let trial = Trial::replies("{ say: One. }, { say: Two. }, { say: Three. }");
    for with_callbacks in [false, true] {
        let mut host = trial.host();
        if with_callbacks {
            host = host.with_can_use_tool(|_, _| async { PermissionResult::allow() });
        }
        // The second prompt is sent after the result of the first one.
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<Prompt>();
        let mut query = host.query_stream(Receiver(receiver));
        sender.send(Prompt::text("first prompt")).unwrap();
        let (mut sender, mut results) = (Some(sender), Vec::new());
        while let Some(message) = query.next().await {
            if let Message::Result(result) = message.unwrap() {
                results.push(result.result.unwrap());
                if let Some(sender) = sender.take() {
                    sender.send(Prompt::text("second prompt")).unwrap();
                }
            }
        }
        assert_eq!(results, ["One.", "Two."]);
        assert!(last_request(&trial).contains("second prompt"));
    }
    let text = query_stream(Prompts(vec![Prompt::text("only prompt")]), trial.host()).text().await;
    assert_eq!(text.unwrap(), "One.");
    let error = query_stream(Prompts(vec![Prompt::text(" ")]), trial.host()).text().await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
}

/// A channel as a stream.
struct Receiver(tokio::sync::mpsc::UnboundedReceiver<Prompt>);

impl futures_core::Stream for Receiver {
    type Item = Prompt;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Prompt>> {
        self.0.poll_recv(cx)
    }
}

fn notes() -> ToolServer {
    ToolServer::new("notes")
        .with_instructions("Notes are short.")
        .with_resource(
            Resource::new("note://live", "live", |_| async {
                Ok::<_, String>(ResourceContent::from("A LIVE NOTE"))
            })
            .with_mime_type("text/plain"),
        )
        .with_resource(Resource::text("note://fixed", "fixed", "A FIXED NOTE"))
        .with_prompt(
            McpPrompt::new("greet", "Greets", |arguments, _| async move {
                format!("Greet {}.", arguments["who"])
            })
            .with_argument("who", "A name"),
        )
        .with_tool(tool("count", "Counts the notes", |_: Value, _| async { "2".to_owned() }))
}

#[tokio::test]
async fn real_claude_reads_resources_of_in_process_server() {
    let trial = Trial::replies(
        "{ tools: [ { ListMcpResourcesTool: {} }, { ReadMcpResourceTool: { server: notes, uri: 'note://live' } }, \
           { ReadMcpResourceTool: { server: notes, uri: 'note://none' } } ] }, { say: Done. }",
    );
    let host =
        trial.host_with(trial.options().with_allowed_tools(["ListMcpResourcesTool", "ReadMcpResourceTool"]));
    assert_eq!(host.with_tools(notes()).query("read").text().await.unwrap(), "Done.");
    let asked = trial.asked();
    for text in ["Notes are short.", "note://fixed", "A LIVE NOTE", "Resource not found"] {
        assert!(asked.contains(text), "{text}: {asked}");
    }
}

/// A server that is not built from tools.
struct Echo;

#[async_trait]
impl McpService for Echo {
    async fn handle(&self, message: Value, _: CallContext) -> Option<Value> {
        let id = message.get("id")?.clone();
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({"protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}}),
            "tools/list" => json!({"tools": [{"name": "say", "description": "Echoes",
                "inputSchema": {"type": "object"}}]}),
            "tools/call" => {
                json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]})
            }
            _ => json!({}),
        };
        Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
}

#[tokio::test]
async fn real_claude_uses_any_in_process_mcp_server() {
    let trial = Trial::replies("{ tools: [ { mcp__echo__say: { text: ECHOED } } ] }, { say: Done. }");
    let options = trial.options().with_allowed_tools(["mcp__echo__say"]);
    let host = trial.host_with(options).with_mcp_service("echo", Echo);
    assert_eq!(host.query("echo").text().await.unwrap(), "Done.");
    assert!(last_request(&trial).contains("ECHOED"));
}

#[tokio::test]
async fn real_claude_mcp_servers_are_replaced_during_session() {
    let trial =
        Trial::replies("{ say: One. }, { tools: [ { mcp__echo__say: { text: ECHOED } } ] }, { say: Two. }");
    let options = trial.options().with_allowed_tools(["mcp__echo__say"]);
    let client = trial.host_with(options).with_tools(notes()).connect().await.unwrap();
    assert_eq!(client.turn("one").text().await.unwrap(), "One.");
    let failing = McpServer::stdio("/no/such/program", ["x"]);
    let changes = client
        .set_mcp_servers([("echo", SessionMcpServer::service(Echo)), ("failing", failing.into())])
        .await
        .unwrap();
    assert!(changes.added.contains(&"echo".to_owned()), "{changes:?}");
    assert_eq!(changes.removed, ["notes"]);
    assert!(changes.errors.contains_key("failing"), "{changes:?}");
    assert_eq!(client.turn("two").text().await.unwrap(), "Two.");
    assert!(last_request(&trial).contains("ECHOED"));
    let servers: Vec<_> = client.mcp_status().await.unwrap().into_iter().map(|server| server.name).collect();
    assert!(servers.contains(&"echo".to_owned()) && !servers.contains(&"notes".to_owned()), "{servers:?}");
    // Only user interfaces of external servers can be read.
    let error = client.read_mcp_resource("echo", "note://live").await.unwrap_err();
    assert!(error.to_string().contains("ui://"), "{error}");
    client.close().await.unwrap();
}

/// A stdio MCP server with one user interface resource.
const UI_SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"resources": {}, "tools": {}},
                             "serverInfo": {"name": "ui", "version": "1"}},
              "tools/list": {"tools": []},
              "resources/list": {"resources": [{"uri": "ui://clock", "name": "clock"}]},
              "resources/read": {"contents": [{"uri": "ui://clock", "mimeType": "text/html", "text": "<p>12:00</p>"}]},
              }.get(message["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

#[tokio::test]
async fn real_claude_reads_ui_resource_of_external_server() {
    let trial = Trial::replies("{ say: One. }");
    let options = trial.options().with_mcp_server("ui", McpServer::stdio("python3", ["-c", UI_SERVER]));
    let client = trial.host_with(options).connect().await.unwrap();
    assert_eq!(client.turn("one").text().await.unwrap(), "One.");
    let contents = client.read_mcp_resource("ui", "ui://clock").await.unwrap();
    assert!(contents[0].as_str().contains("<p>12:00</p>"), "{contents:?}");
    client.close().await.unwrap();
}

#[tokio::test]
async fn real_claude_settings_are_changed_and_reloaded_during_session() {
    let trial = Trial::replies("{ say: One. }, { say: Two. }");
    let client = trial.host().connect().await.unwrap();
    client.turn("one").text().await.unwrap();
    client.apply_flag_settings(object(json!({"model": "claude-sonnet-5"}))).await.unwrap();
    let settings = client.settings().await.unwrap().to_value().unwrap();
    assert_eq!(settings["applied"]["model"], "claude-sonnet-5");
    client.turn("two").text().await.unwrap();
    assert!(last_request(&trial).contains("claude-sonnet-5"));

    let style = object(json!({"outputStyle": "Explanatory"}));
    client.update_settings(SettingSource::Local, style).await.unwrap();
    assert!(trial.file(".claude/settings.local.json").unwrap().contains("Explanatory"));
    let refused = client.update_settings(SettingSource::Local, object(json!({"model": "x"}))).await;
    assert!(matches!(refused, Err(Error::Control { .. })), "{refused:?}");

    let skill = trial.workspace.path().join(".claude/skills/tidy");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "---\nname: tidy\ndescription: Tidies up\n---\nTidy up.\n")
        .unwrap();
    let skills = client.reload(Reload::Skills).await.unwrap();
    assert!(skills.as_str().contains("Tidies up"), "{}", skills.as_str());
    assert!(client.reload(Reload::Plugins).await.unwrap().as_str().contains("mcpServers"));
    assert!(client.reload(Reload::OutputStyles).await.unwrap().as_str().contains("Explanatory"));
    client.close().await.unwrap();
}

#[tokio::test]
async fn real_claude_takes_fields_of_initialize() {
    let trial = Trial::replies("{ tools: [ { Bash: { command: ls, description: List } } ] }, { say: Done. }");
    let log = log();
    let seen = Arc::clone(&log);
    let remote = ToolServer::new("remote").with_tool(tool("bash", "Runs remotely", move |args: Value, _| {
        note(&seen, args["command"].as_str().unwrap());
        async { "REMOTE".to_owned() }
    }));
    let options = trial.options().with_allowed_tools(remote.tool_names());
    let host = trial.host_with(options).with_tools(remote).with_tool_alias("Bash", "mcp__remote__bash");
    let host = host.with_title("An aliased session").with_initialize_field("unknownField", json!({"x": 1}));
    let result = host.query("list").result().await.unwrap();
    assert_eq!(result.result.as_deref(), Some("Done."));
    assert_eq!(noted(&log), ["ls"]);
    assert!(last_request(&trial).contains("REMOTE"));
    let sessions = Sessions::in_config_dir(trial.claude.private().join("config"));
    let info = sessions.info(&result.session_id.unwrap()).unwrap();
    assert_eq!(info.title.as_deref(), Some("An aliased session"));
}

#[tokio::test]
async fn real_claude_suggests_prompts() {
    let trial = Trial::replies("{ say: One. }, { say: Two. }, { say: Three. }, { say: run the tests again }");
    // Suggestions count as nonessential.
    let options = trial.options().without_env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC");
    let client = trial.host_with(options).with_prompt_suggestions(true).connect().await.unwrap();
    let mut unclaimed = client.unclaimed();
    for prompt in ["one", "two", "three"] {
        client.turn(prompt).text().await.unwrap();
    }
    let suggestion = loop {
        let message = unclaimed.next().await.unwrap().unwrap();
        if message.kind() == "prompt_suggestion" {
            break message.raw().as_str().to_owned();
        }
    };
    assert!(suggestion.contains("run the tests again"), "{suggestion}");
    client.close().await.unwrap();
}

#[tokio::test]
async fn real_claude_plan_mode_uses_own_instructions() {
    let trial = Trial::replies("{ say: A plan. }");
    let options = trial.options().with_permission_mode(PermissionMode::Plan);
    let host = trial.host_with(options).with_plan_mode_instructions("WRITE A HAIKU FIRST");
    // The reminder is left out for prompts that are passed verbatim.
    assert_eq!(host.query(Prompt::text("plan").interpreted()).text().await.unwrap(), "A plan.");
    assert!(last_request(&trial).contains("WRITE A HAIKU FIRST"));
}

#[tokio::test]
async fn real_claude_describes_permission_requests() {
    let trial =
        Trial::replies("{ tools: [ { Write: { file_path: /etc/never, content: x } } ] }, { say: Done. }");
    let seen = Arc::new(Mutex::new(None));
    let request = Arc::clone(&seen);
    let host = trial.host().with_can_use_tool(move |asked, _| {
        *request.lock().unwrap() = Some(asked);
        async { PermissionResult::deny("no") }
    });
    host.query("write").text().await.unwrap();
    let request = seen.lock().unwrap().take().unwrap();
    assert_eq!(request.tool_name, "Write");
    assert_eq!(request.display_name.as_deref(), Some("Write"), "{}", request.raw().as_str());
    assert!(request.decision_reason_type.is_some(), "{}", request.raw().as_str());
}

#[tokio::test]
async fn real_claude_prewarmed_process_takes_session() {
    let trial = Trial::replies("{ say: Warm. }");
    let spare = trial.host().with_tools(notes()).prewarm().await.unwrap();
    let claim = Claim::new(trial.workspace.path()).with_model("claude-sonnet-5").with_title("Claimed");
    let client = spare.claim(claim.with_append_system_prompt("APPENDED")).await.unwrap();
    let mut turn = client.turn("hi");
    let mut cwd = None;
    while let Some(message) = turn.next().await {
        if let Message::System(yb_claude::frame::SystemMessage::Init(init)) = message.unwrap() {
            cwd = init.cwd;
        }
    }
    let real = std::fs::canonicalize(trial.workspace.path()).unwrap();
    assert_eq!(std::fs::canonicalize(cwd.unwrap()).unwrap(), real);
    let asked = last_request(&trial);
    assert!(asked.contains("APPENDED") && asked.contains("claude-sonnet-5"), "{asked}");
    client.close().await.unwrap();

    let spare = trial.host().prewarm().await.unwrap();
    let error = spare.claim(Claim::new("/no/such/directory")).await.unwrap_err();
    assert!(matches!(error, Error::Control { .. }), "{error:?}");
}

#[tokio::test]
async fn real_claude_resumes_session_from_store() {
    let trial = Trial::new(
        "{ tape: 1, lanes: { main: [ { say: I delegate., tools: [ { Agent: { description: Look, prompt: Look around., \
           subagent_type: general-purpose } } ] }, { say: One. }, { say: Two. }, { say: Three. } ], \
           sub: { match: Look around, replies: [ { say: Nothing here. } ] } } }",
    );
    let store = MemorySessionStore::new();
    let host =
        trial.host_with(trial.options().with_allowed_tools(["Agent"])).with_session_store(store.clone());
    let client = host.connect().await.unwrap();
    let first = client.turn("first prompt").result().await.unwrap();
    let id = first.session_id.unwrap();
    // The store has the turn when its result arrives.
    let key = SessionKey::in_directory(trial.workspace.path(), &id);
    let stored = |entries: Vec<Value>| Value::Array(entries).to_string();
    let at_result = stored(store.load(&key).await.unwrap().unwrap());
    assert!(at_result.contains("first prompt") && at_result.contains("One."), "{at_result}");
    client.close().await.unwrap();
    assert!(store.keys().iter().any(|key| key.subpath.is_some()), "{:?}", store.keys());

    // The local transcript is gone.
    std::fs::remove_dir_all(trial.claude.private().join("config/projects")).unwrap();
    let options = trial.options().with_session(Session::Resume(id.clone()));
    let host = trial.host_with(options).with_session_store(store.clone());
    let second = host.query("second prompt").result().await.unwrap();
    assert_eq!((second.result.as_deref(), second.session_id.as_ref()), (Some("Two."), Some(&id)));
    let asked = last_request(&trial);
    assert!(asked.contains("first prompt") && asked.contains("second prompt"), "{asked}");
    assert!(stored(store.load(&key).await.unwrap().unwrap()).contains("second prompt"));

    let options = trial.options().with_session(Session::Continue);
    let host = trial.host_with(options).with_session_store(store);
    assert_eq!(host.query("third prompt").text().await.unwrap(), "Three.");
}

/// A store that can't be written.
struct FailingStore;

#[async_trait]
impl SessionStore for FailingStore {
    async fn append(&self, _: &SessionKey, _: &[Value]) -> Result<(), StoreError> {
        Err("the disk is full".into())
    }

    async fn load(&self, _: &SessionKey) -> Result<Option<Vec<Value>>, StoreError> {
        Err("the disk is broken".into())
    }
}

#[tokio::test]
async fn real_claude_store_errors_are_messages() {
    let trial = Trial::replies("{ say: One. }");
    let mut query = trial.host().with_session_store(FailingStore).query("hi");
    let (mut errors, mut result) = (Vec::new(), None);
    while let Some(message) = query.next().await {
        match message.unwrap() {
            Message::Result(message) => result = message.result,
            Message::System(message) if message.subtype() == "mirror_error" => {
                errors.push(message.raw().as_str().to_owned());
            }
            _ => {}
        }
    }
    assert_eq!(result.as_deref(), Some("One."));
    assert!(errors[0].contains("the disk is full"), "{errors:?}");
    let id = "00000000-0000-4000-8000-000000000000".to_owned();
    let resumed = trial.host_with(trial.options().with_session(Session::Resume(id)));
    let error = resumed.with_session_store(FailingStore).query("hi").text().await.unwrap_err();
    assert!(error.to_string().contains("the disk is broken"), "{error}");
}

/// A store that never answers.
struct HangingStore;

#[async_trait]
impl SessionStore for HangingStore {
    async fn append(&self, _: &SessionKey, _: &[Value]) -> Result<(), StoreError> {
        std::future::pending().await
    }

    async fn load(&self, _: &SessionKey) -> Result<Option<Vec<Value>>, StoreError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn store_that_does_not_answer_is_an_error_after_the_timeout() {
    let id = "00000000-0000-4000-8000-000000000000".to_owned();
    let host = Host::new(yb_claude::Options::default().with_session(Session::Resume(id)))
        .with_transport(yb_claude::sdk::ScriptedCli::new([]))
        .with_session_store(HangingStore)
        .with_session_store_timeout(std::time::Duration::from_millis(20));
    let error = host.query("hi").text().await.unwrap_err();
    assert!(error.to_string().contains("`load`: no response within 20ms"), "{error}");
}

#[tokio::test]
async fn real_claude_guards_dropped_turns() {
    let trial = Trial::replies("{ say: One. }, { say: Two. }, { say: Three. }");
    let client = trial.host().connect().await.unwrap();
    client.turn("first").text().await.unwrap();
    let id = client.turn("PROMPT TWO").result().await.unwrap().session_id.unwrap();
    client.close().await.unwrap();
    let sessions = Sessions::in_config_dir(trial.claude.private().join("config"));
    let messages = sessions.messages(&id).unwrap();
    let texts: Vec<String> = messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["first", "One.", "PROMPT TWO", "Two."]);
    let resumed = |drops: &str| {
        let options = trial.options().with_session(Session::Fork { of: Some(id.clone()), id: None });
        let options = options.with_resume_at(&messages[1].uuid).with_resume_drops_turn(drops);
        trial.host_with(options).query("third").text()
    };
    let error = resumed("00000000-0000-4000-8000-000000000000").await.unwrap_err();
    assert!(error.to_string().contains("Resume rejected"), "{error}");
    assert_eq!(resumed(&messages[2].uuid).await.unwrap(), "Two.");
    assert!(!last_request(&trial).contains("PROMPT TWO"));
}

#[tokio::test]
async fn real_claude_sends_client_app() {
    let trial = Trial::replies("{ say: One. }");
    let agent = |options| async {
        trial.host_with(options).query("hi").text().await.unwrap();
        trial.server.requests().last().unwrap().header("user-agent").unwrap().to_owned()
    };
    let version = env!("CARGO_PKG_VERSION");
    let own = agent(trial.options()).await;
    assert!(own.ends_with(&format!("agent-sdk/{version}, client-app/yb-claude/{version})")), "{own}");
    let named = agent(trial.options().with_client_app("my-app/2.0")).await;
    assert!(named.ends_with("client-app/my-app/2.0)"), "{named}");
    let none = agent(trial.options().with_client_app("")).await;
    assert!(!none.contains("client-app"), "{none}");
}

#[tokio::test]
async fn real_claude_offers_all_or_named_skills() {
    let trial = Trial::replies("{ tools: [ { Skill: { skill: tidy } } ] }, { say: Done. }");
    for name in ["tidy", "other"] {
        let skill = trial.workspace.path().join(".claude/skills").join(name);
        std::fs::create_dir_all(&skill).unwrap();
        let text = format!("---\nname: {name}\ndescription: Does {name}\n---\nThe skill {name}.\n");
        std::fs::write(skill.join("SKILL.md"), text).unwrap();
    }
    let cases = [
        (trial.options().with_all_skills(), true, true),
        (trial.options().with_skills(["tidy"]), true, false),
        (trial.options().with_skills(["other"]), false, true),
    ];
    for (options, tidy, other) in cases {
        let client = Client::connect(trial.host_with(options)).await.unwrap();
        assert_eq!(client.turn(Prompt::text("tidy up").interpreted()).text().await.unwrap(), "Done.");
        let asked = last_request(&trial);
        assert_eq!(asked.contains("Does tidy"), tidy, "{asked}");
        assert_eq!(asked.contains("Does other"), other, "{asked}");
        assert_eq!(asked.contains("The skill tidy."), tidy, "{asked}");
        client.close().await.unwrap();
    }
}

#[tokio::test]
async fn real_claude_error_names_api_failure() {
    let trial = Trial::replies("{ fault: { status: 529, message: Overloaded } }");
    let error = trial.host().query("hi").text().await.unwrap_err();
    assert!(error.to_string().starts_with("API error 529: overloaded"), "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn real_claude_receives_tool_schemas_without_type_names() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct VeryRustyName {
        /// The depth.
        depth: u32,
    }
    let trial = Trial::replies("{ tools: [ { mcp__calc__dig: { depth: 3 } } ] }, { say: Done. }");
    let server = ToolServer::new("calc").with_tool(
        tool("dig", "Digs", |args: VeryRustyName, _| async move { args.depth.to_string() })
            .with_annotation("anthropic/alwaysLoad", true),
    );
    let options = trial.options().with_allowed_tools(server.tool_names()).with_tools(["Read"]);
    assert_eq!(trial.host_with(options).with_tools(server).query("dig").text().await.unwrap(), "Done.");
    let asked = trial.asked();
    assert!(asked.contains("The depth."), "{asked}");
    assert!(!asked.contains("VeryRustyName") && !asked.contains("uint32"), "{asked}");
}

/// A store that takes its time.
struct SlowStore(tokio::sync::Semaphore);

#[async_trait]
impl SessionStore for SlowStore {
    async fn append(&self, _: &SessionKey, _: &[Value]) -> Result<(), StoreError> {
        self.0.acquire().await?.forget();
        Ok(())
    }

    async fn load(&self, _: &SessionKey) -> Result<Option<Vec<Value>>, StoreError> {
        Ok(None)
    }
}

#[tokio::test]
async fn control_requests_are_answered_while_result_waits_for_store() {
    use crate::sdk_support::{answer, ask, idle, prompt, result, script};
    let mirror = json!({"type": "transcript_mirror", "filePath": "/c/projects/-w/abc.jsonl",
        "entries": [{"type": "user"}]});
    let question = json!({"subtype": "can_use_tool", "title": "Write a file?", "display_name": "Write",
        "tool_name": "Write", "input": {}, "tool_use_id": "t"});
    let cli = script(
        json!({}),
        [
            prompt(),
            yb_claude::sdk::ScriptStep::Line(mirror),
            result("one"),
            ask("late", question),
            answer("late"),
            result("two"),
            idle(),
        ],
    );
    let store = Arc::new(SlowStore(tokio::sync::Semaphore::new(0)));
    let (gate, log) = (Arc::clone(&store), log());
    let seen = Arc::clone(&log);
    let host = Host::new(yb_claude::Options::default()).with_transport(cli.clone());
    let host = host.with_session_store(store).with_can_use_tool(move |request, _| {
        note(&seen, format!("{} {}", request.title.unwrap(), request.display_name.unwrap()));
        // The store continues only now.
        gate.0.add_permits(1);
        async { PermissionResult::deny("no") }
    });
    let mut results = Vec::new();
    let mut query = host.query("hi");
    while let Some(message) = query.next().await {
        if let Message::Result(result) = message.unwrap() {
            results.push(result.result.unwrap());
        }
    }
    assert_eq!(results, ["one", "two"]);
    assert_eq!(noted(&log), ["Write a file? Write"]);
}

/// No dialog can be provoked offline; the protocol is as documented by the official TypeScript SDK.
#[tokio::test]
async fn dialogs_of_declared_kinds_are_answered() {
    use crate::sdk_support::{answer, answers, ask, idle, prompt, result, script};
    let cli = script(
        json!({}),
        [
            prompt(),
            ask("d1", json!({"subtype": "request_user_dialog", "dialog_kind": "known", "payload": {"a": 1}})),
            answer("d1"),
            ask("d2", json!({"subtype": "request_user_dialog", "dialog_kind": "other", "payload": {}})),
            ask("d3", json!({"subtype": "request_user_dialog", "dialog_kind": "failing", "payload": {}})),
            answer("d3"),
            result("ok"),
            idle(),
        ],
    );
    let host = Host::new(yb_claude::Options::default()).with_transport(cli.clone()).with_user_dialog(
        ["known", "failing"],
        |dialog, _| async move {
            match dialog.dialog_kind.as_str() {
                "known" => Ok(DialogResponse::Completed(dialog.payload.to_value().unwrap())),
                _ => Err("no screen"),
            }
        },
    );
    assert_eq!(host.query("hi").text().await.unwrap(), "ok");
    assert_eq!(cli.sessions()[0].lines[0]["request"]["supportedDialogKinds"], json!(["known", "failing"]));
    assert_eq!(answers(&cli, "d1")[0]["response"], json!({"behavior": "completed", "result": {"a": 1}}));
    assert!(answers(&cli, "d2").is_empty(), "an undeclared dialog is not answered");
    assert_eq!(answers(&cli, "d3")[0]["response"], json!({"behavior": "cancelled"}));
}
