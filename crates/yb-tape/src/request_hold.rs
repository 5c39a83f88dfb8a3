//! Holds model requests that carry results of tool calls, so that the caller can look at the workspace while nothing changes it:
//! such a request is the first moment at which all tool calls of an answer are complete.

use hyper::http::request::Parts;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::conversation::{Conversation, RequestOrigin};
use crate::protocol::Endpoint;

/// Requests that wait for the caller; the others wait for these.
const WAITING: usize = 4;

/// A model request that is answered when this is dropped.
#[derive(Debug)]
#[non_exhaustive]
pub struct HeldRequest {
    /// The number of answers that the conversation already has: the turn of the tape after which a fork continues here.
    pub turn: usize,
    /// The ids of the tool calls whose results it carries; empty for an API without ids.
    pub tool_calls: Vec<String>,
    /// Whether the main loop of the agent sent it, rather than a subagent.
    pub is_main: bool,
    _release: oneshot::Sender<()>,
}

/// The held requests of a server, in order. Dropping it releases all, and later ones are not held.
#[derive(Debug)]
pub struct HeldRequests {
    held: mpsc::Receiver<HeldRequest>,
}

impl HeldRequests {
    /// Waits for the next request; `None` when the server has stopped.
    pub async fn next(&mut self) -> Option<HeldRequest> {
        self.held.recv().await
    }
}

/// The sending side, shared by the requests of a server.
#[derive(Debug, Clone)]
pub(crate) struct RequestHold {
    held: mpsc::Sender<HeldRequest>,
}

impl RequestHold {
    pub(crate) fn new() -> (Self, HeldRequests) {
        let (held, receiver) = mpsc::channel(WAITING);
        (Self { held }, HeldRequests { held: receiver })
    }

    /// Waits until the caller releases the request; returns immediately if it has no tool results.
    pub(crate) async fn wait(&self, parts: &Parts, body: &[u8]) {
        let Some((turn, tool_calls, is_main)) = results_of(parts, body) else { return };
        let (release, released) = oneshot::channel();
        let request = HeldRequest { turn, tool_calls, is_main, _release: release };
        if self.held.send(request).await.is_ok() {
            // Dropping the sender is the release.
            let _ = released.await;
        }
    }
}

/// Returns turn, tool calls and origin of a request that ends with results of tools.
fn results_of(parts: &Parts, body: &[u8]) -> Option<(usize, Vec<String>, bool)> {
    let endpoint = Endpoint::from_path(parts.uri.path(), parts.uri.query().unwrap_or_default());
    let Some(Endpoint::Generate(protocol)) = endpoint else { return None };
    let body: Value = serde_json::from_slice(body).ok()?;
    let items = ["messages", "input", "contents"].iter().find_map(|name| body.get(name)?.as_array())?;
    let mut tool_calls = Vec::new();
    let mut found = false;
    for item in items.iter().rev().take_while(|item| !is_of_model(item)) {
        found |= collect(item, &mut tool_calls);
    }
    if !found {
        return None;
    }
    tool_calls.reverse();
    let request = protocol.read(&body);
    let conversation = Conversation::from_request(&request, &parts.headers)?;
    let origin = conversation.origin();
    Some((conversation.replies(), tool_calls, origin == RequestOrigin::AgentLoop))
}

/// Whether an item of a conversation is part of a model's answer.
fn is_of_model(item: &Value) -> bool {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    matches!(text("role"), "assistant" | "model")
        || matches!(text("type"), "function_call" | "custom_tool_call" | "local_shell_call" | "reasoning")
}

/// Collects the ids of tool results in an item, last first. Returns whether there are results, with or without ids.
fn collect(item: &Value, ids: &mut Vec<String>) -> bool {
    let id = ["tool_use_id", "tool_call_id", "call_id"].iter().find_map(|name| item.get(name)?.as_str());
    if let Some(id) = id {
        ids.push(id.to_owned());
        return true;
    }
    let parts = ["content", "parts"].iter().find_map(|name| item.get(name)?.as_array());
    let mut found = item.get("functionResponse").is_some();
    for part in parts.into_iter().flatten().rev() {
        found |= collect(part, ids);
    }
    found
}

#[cfg(test)]
mod tests {
    use hyper::Request;
    use serde_json::json;

    use super::*;

    fn check(path: &str, body: &Value, expected: Option<(usize, &[&str])>) {
        let (parts, ()) = Request::post(path).body(()).unwrap().into_parts();
        let found = results_of(&parts, body.to_string().as_bytes());
        let found = found.map(|(turn, ids, _)| (turn, ids));
        let expected = expected.map(|(turn, ids)| (turn, ids.iter().map(ToString::to_string).collect()));
        assert_eq!(found, expected, "{body}");
    }

    #[test]
    fn requests_with_tool_results_are_recognized_in_every_protocol() {
        let result = |id: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": "ok" });
        let call = json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": "a", "name": "Bash", "input": {} }] });
        let go = json!({ "role": "user", "content": "go" });
        check("/v1/messages", &json!({ "messages": [go] }), None);
        let two = json!({ "role": "user", "content": [result("a"), result("b")] });
        check("/v1/messages", &json!({ "messages": [go, call, two] }), Some((1, &["a", "b"])));
        check("/v1/messages", &json!({ "messages": [go, call, two, call, go] }), None);
        check("/v1/messages/count_tokens", &json!({ "messages": [go, call, two] }), None);
        let said = json!({ "role": "assistant", "content": null, "tool_calls": [] });
        let tool = json!({ "role": "tool", "tool_call_id": "c", "content": "ok" });
        check("/v1/chat/completions", &json!({ "messages": [go, said, tool] }), Some((1, &["c"])));
        let called = json!({ "type": "function_call", "call_id": "d", "name": "shell", "arguments": "{}" });
        let output = json!({ "type": "function_call_output", "call_id": "d", "output": "ok" });
        check("/v1/responses", &json!({ "input": [go, called, output] }), Some((1, &["d"])));
        let model = json!({ "role": "model", "parts": [{ "functionCall": { "name": "x" } }] });
        let answer =
            json!({ "role": "user", "parts": [{ "functionResponse": { "name": "x", "response": {} } }] });
        let text = json!({ "role": "user", "parts": [{ "text": "go" }] });
        check(
            "/v1beta/models/m:generateContent",
            &json!({ "contents": [text, model, answer] }),
            Some((1, &[])),
        );
        check("/v1beta/models/m:generateContent", &json!({ "contents": [text, model, text] }), None);
    }

    #[tokio::test]
    async fn request_waits_until_it_is_released() {
        let (hold, mut held) = RequestHold::new();
        let (parts, ()) = Request::post("/v1/messages").body(()).unwrap().into_parts();
        let body = json!({ "messages": [
            { "role": "assistant", "content": [] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "a" }] },
        ] });
        let waiting = tokio::spawn({
            let (hold, parts) = (hold.clone(), parts.clone());
            async move { hold.wait(&parts, body.to_string().as_bytes()).await }
        });
        let request = held.next().await.unwrap();
        assert_eq!((request.turn, request.tool_calls.as_slice()), (1, &["a".to_owned()][..]));
        assert!(!waiting.is_finished());
        drop(request);
        waiting.await.unwrap();
        // Without a receiver nothing waits.
        drop(held);
        let body = br#"{"messages":[{"role":"assistant"},{"content":[{"tool_use_id":"a"}]}]}"#;
        hold.wait(&parts, body).await;
    }
}
