//! Scripted conversations in the Agent Client Protocol.

use serde_json::json;

use super::super::Transcript;
use super::super::reader::Reader;
use super::reader::AcpReader;
use super::*;

/// The agent's side of the connection.
struct Play {
    reader: AcpReader,
    transcript: Transcript,
}

impl Play {
    fn new(spec: &AcpConfig, change: impl FnOnce(&mut AgentConfig)) -> Self {
        let mut config = AgentConfig::new("Do it.");
        change(&mut config);
        let context = ExecutionContext::new("/w", "/a", "/p", config, Host::default());
        Self { reader: AcpReader::new(spec, &context, "Do it."), transcript: Transcript::default() }
    }

    /// Returns the next message to the agent.
    fn next_message(&mut self) -> Value {
        let said = self.reader.take_input();
        let text = std::str::from_utf8(&said).unwrap();
        assert!(text.ends_with('\n') && text.lines().count() == 1, "{text}");
        serde_json::from_str(text).unwrap()
    }

    fn says(&mut self, message: &Value) {
        self.transcript.observe_with(&mut self.reader, message.to_string().as_bytes());
    }

    fn answers(&mut self, request: &Value, result: &Value) {
        self.says(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    }

    /// Performs the handshake up to the prompt.
    fn begin(&mut self) -> Value {
        let asked = self.next_message();
        assert_eq!(
            (&asked["method"], &asked["params"]["protocolVersion"]),
            (&json!("initialize"), &json!(1))
        );
        self.answers(
            &asked,
            &json!({ "protocolVersion": 1, "agentInfo": { "name": "a", "version": "1.2.3" } }),
        );
        let asked = self.next_message();
        assert_eq!((&asked["method"], &asked["params"]["cwd"]), (&json!("session/new"), &json!("/w")));
        self.answers(&asked, &json!({ "sessionId": "s-1" }));
        let asked = self.next_message();
        assert_eq!(asked["method"], "session/prompt");
        assert_eq!(asked["params"]["prompt"][0]["text"], "Do it.");
        asked
    }

    fn update(&mut self, update: &Value) {
        self.says(&json!({ "method": "session/update", "params": { "sessionId": "s-1", "update": update } }));
    }
}

#[test]
fn conversation_becomes_messages_calls_and_figures() {
    let mut play = Play::new(&AcpConfig::new(["a"]), |_| {});
    let prompt = play.begin();
    for text in ["I lo", "ok."] {
        play.update(
            &json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }),
        );
    }
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "status": "in_progress", "kind": "read",
        "title": "a.txt", "locations": [{ "path": "/w/a.txt" }], "content": [] });
    play.update(&call);
    play.update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed",
        "content": [{ "type": "content", "content": { "type": "text", "text": "hi" } }] }));
    let ask = json!({ "id": 0, "method": "session/request_permission", "params": {
        "options": [{ "optionId": "always", "kind": "allow_always" }, { "optionId": "once", "kind": "allow_once" }],
        "toolCall": { "toolCallId": "c2", "kind": "execute", "title": "ls", "rawInput": { "command": "ls" } } } });
    play.says(&ask);
    assert_eq!(
        play.next_message(),
        json!({ "jsonrpc": "2.0", "id": 0, "result": { "outcome": { "outcome": "selected", "optionId": "once" } } })
    );
    play.update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c2", "status": "failed", "rawOutput": "no" }));
    play.update(
        &json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "Done." } }),
    );
    play.says(&json!({ "id": 7, "method": "fs/read_text_file", "params": {} }));
    assert_eq!(play.next_message()["error"]["code"], -32601);
    let usage = json!({ "inputTokens": 10, "outputTokens": 5, "cachedReadTokens": 3 });
    play.answers(&prompt, &json!({ "stopReason": "end_turn", "usage": usage }));
    assert!(play.reader.is_done());

    let summary = play.transcript.summary();
    let calls: Vec<_> = summary
        .tools()
        .iter()
        .map(|call| {
            (
                call.name.as_str(),
                call.input.as_str(),
                call.outcome.as_ref().map(|it| (it.text.as_str(), it.is_error)),
            )
        })
        .collect();
    assert_eq!(
        calls,
        [
            ("read", r#"{"path":"/w/a.txt","title":"a.txt"}"#, Some(("hi", false))),
            ("execute", r#"{"command":"ls"}"#, Some(("no", true))),
        ]
    );
    assert_eq!((summary.final_text(), summary.cli_version()), ("Done.", Some("a 1.2.3")));
    let spent = summary.usage(yb_claude::UsageBaseline::NewSession).unwrap();
    assert_eq!((spent.tokens.input, spent.tokens.output, spent.tokens.cache_read), (10, 5, 3));
    assert_eq!(summary.api_failure(), None);
}

#[test]
fn call_without_permission_is_rejected_and_reported() {
    let mut play =
        Play::new(&AcpConfig::new(["a"]), |config| config.permission_mode = Some("acceptEdits".to_owned()));
    play.begin();
    for (kind, expected) in [("edit", "yes"), ("execute", "no"), ("read", "yes")] {
        play.says(&json!({ "id": kind, "method": "session/request_permission", "params": {
            "options": [{ "optionId": "yes", "kind": "allow_once" }, { "optionId": "no", "kind": "reject_once" }],
            "toolCall": { "toolCallId": kind, "kind": kind } } }));
        assert_eq!(play.next_message()["result"]["outcome"]["optionId"], expected, "{kind}");
    }
    assert_eq!(play.transcript.summary().permission_denials().len(), 1);
}

#[test]
fn credentials_models_and_servers_follow_the_protocol() {
    let spec = AcpConfig { auth_method: Some("key".to_owned()), ..AcpConfig::new(["a"]) };
    let mut play = Play::new(&spec, |config| {
        config.model = Some("m-1".to_owned());
        let server = json!({ "command": "srv", "env": { "A": "b" } });
        config.mcp_servers.insert("s".to_owned(), server.as_object().cloned().unwrap());
    });
    let asked = play.next_message();
    play.answers(&asked, &json!({ "protocolVersion": 1 }));
    let asked = play.next_message();
    assert_eq!((&asked["method"], &asked["params"]["methodId"]), (&json!("authenticate"), &json!("key")));
    play.answers(&asked, &json!({}));
    let asked = play.next_message();
    assert_eq!(
        asked["params"]["mcpServers"],
        json!([{ "name": "s", "command": "srv", "args": [], "env": [{ "name": "A", "value": "b" }] }])
    );
    play.answers(&asked, &json!({ "sessionId": "s-1", "models": { "currentModelId": "x" } }));
    let asked = play.next_message();
    assert_eq!((&asked["method"], &asked["params"]["modelId"]), (&json!("session/set_model"), &json!("m-1")));
    play.says(&json!({ "id": asked["id"], "error": { "code": -32602, "message": "no such model" } }));
    assert_eq!(play.next_message()["method"], "session/prompt");
    assert_eq!(play.reader.warnings(), ["the agent did not take the model: no such model"]);
}

#[test]
fn error_message_ends_the_run_and_classifies_the_failure() {
    use yb_claude::ApiFailureKind as Is;
    for (error, kind) in [
        (json!({ "code": -32000, "message": "Authentication required" }), Some(Is::Unauthenticated)),
        (json!({ "code": 429, "message": "slow down" }), Some(Is::RateLimited)),
        (
            json!({ "code": -32603, "message": "Internal error", "data": { "details": "fetch failed" } }),
            Some(Is::Network),
        ),
        (json!({ "code": 500, "message": "x" }), Some(Is::ServerError)),
        (json!({ "code": -32603, "message": "Internal error" }), None),
    ] {
        let mut play = Play::new(&AcpConfig::new(["a"]), |_| {});
        let prompt = play.begin();
        play.says(&json!({ "id": prompt["id"], "error": error }));
        assert!(play.reader.is_done());
        let summary = play.transcript.summary();
        assert_eq!(summary.api_failure().map(|failure| failure.kind), kind, "{error}");
        assert!(summary.last_result().unwrap().is_error);
    }
}

#[test]
fn case_names_the_program() {
    let read = |section: Value| AcpConfig::from_section(section.as_object().unwrap());
    assert_eq!(read(json!({ "argv": ["gemini", "--acp"] })).unwrap(), AcpConfig::new(["gemini", "--acp"]));
    assert!(read(json!({})).unwrap_err().to_string().contains("`acp`: "));
    let (config, host) = (AgentConfig::new("x"), Host::default());
    let error = Acp.validate(&Intent::new(&config, &host, Default::default(), &[])).unwrap_err();
    assert!(error.to_string().contains("`acp` names no program"), "{error}");
}
