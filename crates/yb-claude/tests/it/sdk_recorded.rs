//! Recorded sessions of the official Python SDK with the real CLI, replayed with this SDK.

use std::path::Path;

use serde_json::{Value, json};
use yb_claude::sdk::{
    Error, Exit, HookMatcher, Hooks, Host, PermissionResult, ScriptStep, ScriptedCli, ToolServer, tool,
};
use yb_claude::{Message, Options};

struct Recording {
    frames: Vec<(String, Value)>,
}

impl Recording {
    fn read(name: &str) -> Self {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/sdk-python/{name}.jsonl"));
        let text = std::fs::read_to_string(path).unwrap();
        let frames = text.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            (line["dir"].as_str().unwrap().to_owned(), line["v"].take())
        });
        Self { frames: frames.collect() }
    }

    /// The CLI's side: its messages, each after the input that it received from the official SDK.
    fn steps(&self) -> Vec<ScriptStep> {
        let mut initialize = None;
        let mut steps = Vec::new();
        for (direction, frame) in &self.frames {
            let kind = frame["type"].as_str().unwrap_or_default();
            match (direction.as_str(), kind) {
                ("in", "control_request") if frame["request"]["subtype"] == "initialize" => {
                    initialize = Some(frame["request_id"].clone());
                    steps.push(ScriptStep::Await(
                        "init".into(),
                        json!({"request": {"subtype": "initialize"}}),
                    ));
                }
                ("in", "control_response") => {
                    let id = frame["response"]["request_id"].clone();
                    let answer = json!({"type": "control_response", "response": {"request_id": id, "subtype": "success"}});
                    steps.push(ScriptStep::Await("answer".into(), answer));
                }
                ("in", "user") => {
                    let said = json!({"type": "user", "message": {"content": frame["message"]["content"]}});
                    steps.push(ScriptStep::Await("prompt".into(), said));
                }
                ("out", "control_response")
                    if Some(&frame["response"]["request_id"]) == initialize.as_ref() =>
                {
                    let mut frame = frame.clone();
                    frame["response"]["request_id"] = json!("{{init./request_id}}");
                    steps.push(ScriptStep::Line(frame));
                }
                ("out", _) if frame.is_object() => steps.push(ScriptStep::Line(frame.clone())),
                ("exit", _) => {
                    let code = frame.as_i64().unwrap() as i32;
                    steps.extend([ScriptStep::AwaitEnd, ScriptStep::Exit(Exit::with_code(code))]);
                }
                _ => {}
            }
        }
        steps
    }

    fn prompt(&self) -> String {
        let said = self.frames.iter().find(|(direction, frame)| direction == "in" && frame["type"] == "user");
        said.unwrap().1["message"]["content"].as_str().unwrap().to_owned()
    }

    /// The registered hooks, in the order of their IDs.
    fn hooks(&self) -> Hooks {
        let begin =
            self.frames.iter().find(|(_, frame)| frame["request"]["subtype"] == "initialize").unwrap();
        let mut hooks = Vec::new();
        for (event, matchers) in begin.1["request"]["hooks"].as_object().into_iter().flatten() {
            for id in
                matchers.as_array().unwrap().iter().flat_map(|one| one["hookCallbackIds"].as_array().unwrap())
            {
                let number: usize = id.as_str().unwrap().strip_prefix("hook_").unwrap().parse().unwrap();
                hooks.push((number, event.clone()));
            }
        }
        hooks.sort();
        hooks.into_iter().fold(Hooks::new(), |hooks, (_, event)| {
            hooks.on_named(event, HookMatcher::any(), |_, _| async { Ok(json!({})) })
        })
    }

    /// The messages that a user of the SDK should receive.
    fn shown(&self) -> Vec<String> {
        let said = self.frames.iter().filter(|(direction, frame)| direction == "out" && frame.is_object());
        let messages = said.map(|(_, frame)| Message::parse(frame.to_string().as_bytes()).unwrap());
        messages.filter(|message| !message.is_internal()).map(|message| message.kind().to_owned()).collect()
    }
}

async fn replay(name: &str) -> (Vec<String>, Vec<String>, Option<Error>) {
    let recording = Recording::read(name);
    let cli = ScriptedCli::new(recording.steps());
    let calc = ToolServer::new("calc").with_tool(tool("add", "Add", |_: Value, _| async { "5" }));
    let mut host = Host::new(Options::default()).with_transport(cli).with_hooks(recording.hooks());
    if name == "sdk_mcp" {
        host = host.with_tools(calc);
    }
    if name.starts_with("can_use") {
        host = host.with_can_use_tool(|_, _| async { PermissionResult::allow() });
    }
    let mut query = host.query(recording.prompt());
    let (mut kinds, mut error) = (Vec::new(), None);
    while let Some(message) = query.next().await {
        match message {
            Ok(message) => kinds.push(message.kind().to_owned()),
            Err(one) => error = Some(one),
        }
    }
    (kinds, recording.shown(), error)
}

#[tokio::test]
async fn recorded_sessions_are_replayed() {
    for name in [
        "plain",
        "partial",
        "builtin_read",
        "hooks_read",
        "hook_deny",
        "sdk_mcp",
        "can_use_allow",
        "can_use_deny",
        "structured",
        "subagent",
        "resume",
        "fork",
    ] {
        let (kinds, shown, error) = replay(name).await;
        assert!(error.is_none(), "{name}: {error:?}");
        assert_eq!(kinds, shown, "{name}");
    }
    for name in ["max_turns", "budget"] {
        let (kinds, shown, error) = replay(name).await;
        assert!(matches!(error, Some(Error::Result(_))), "{name}: {error:?}");
        assert_eq!(kinds, shown, "{name}");
    }
}
