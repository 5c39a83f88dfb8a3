//! Scripts in the OpenAI and Gemini protocols: streamed or not, with tool calls, usage and faults.

use serde_json::{Value, json};
use yb_tape::{MockServer, ResponseKind};

use crate::client::{Response, request, serve, start};

const EVERYTHING: &str = r"- think: Hm.
  say: Grüße aus dem Band.
  tools:
    - run: { command: ls }
    - Deploy: { to: [1, null] }
  usage: { input: 120, output: 40, cache_read: 7, cache_write: 3 }
  pace: { chunk: 8 }
- say: Done.";

fn post(server: &MockServer, target: &str, body: &Value) -> Response {
    request(server, "POST", target, &[], body.to_string().as_bytes())
}

/// The data of the events of a stream, without the `[DONE]` marker.
fn data(response: &Response) -> Vec<Value> {
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let text = response.text();
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    lines.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn chat(stream: bool) -> Value {
    json!({ "model": "m", "stream": stream, "stream_options": { "include_usage": true }, "messages": [
        { "role": "system", "content": "You are." }, { "role": "user", "content": "go" },
    ] })
}

#[test]
fn chat_stream_equals_the_completion() {
    let server = serve(EVERYTHING);
    let whole = post(&server, "/v1/chat/completions", &chat(false)).json();
    let message = &whole["choices"][0]["message"];
    assert_eq!(whole["id"], "chatcmpl-main_1");
    assert_eq!(message["content"], "Grüße aus dem Band.");
    assert_eq!(message["reasoning_content"], "Hm.");
    assert_eq!(
        message["tool_calls"][0],
        json!({ "id": "call_main_1_3", "type": "function", "function": { "name": "bash", "arguments": r#"{"command":"ls"}"# } })
    );
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(
        (&whole["usage"]["prompt_tokens"], &whole["usage"]["completion_tokens"]),
        (&json!(130), &json!(40))
    );
    assert_eq!(whole["usage"]["prompt_tokens_details"]["cached_tokens"], 7);

    let server = serve(EVERYTHING);
    let response = post(&server, "/chat/completions", &chat(true));
    assert!(response.complete && response.text().ends_with("data: [DONE]\n\n"));
    let chunks = data(&response);
    let (mut said, mut thought, mut calls) = (String::new(), String::new(), Vec::<Value>::new());
    for delta in chunks.iter().filter_map(|chunk| chunk["choices"].get(0)).map(|choice| &choice["delta"]) {
        said.push_str(delta["content"].as_str().unwrap_or_default());
        thought.push_str(delta["reasoning_content"].as_str().unwrap_or_default());
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            if index == calls.len() {
                calls.push(json!({ "id": call["id"], "type": call["type"], "function": call["function"] }));
            } else {
                let more = call["function"]["arguments"].as_str().unwrap();
                let all = format!("{}{more}", calls[index]["function"]["arguments"].as_str().unwrap());
                calls[index]["function"]["arguments"] = all.into();
            }
        }
    }
    assert_eq!(json!(said), message["content"]);
    assert_eq!(json!(thought), message["reasoning_content"]);
    assert_eq!(json!(calls), message["tool_calls"]);
    let end = chunks.len();
    assert_eq!(chunks[end - 2]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!((&chunks[end - 1]["usage"], &chunks[end - 1]["choices"]), (&whole["usage"], &json!([])));
}

#[test]
fn chat_stream_omits_usage_unless_requested() {
    let server = serve("- say: a");
    let mut body = chat(true);
    body.as_object_mut().unwrap().remove("stream_options");
    let response = post(&server, "/v1/chat/completions", &body);
    assert!(data(&response).iter().all(|chunk| chunk.get("usage").is_none()));
}

fn responses(stream: bool) -> Value {
    json!({ "model": "m", "stream": stream, "instructions": "You are.", "input": [
        { "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": "rules" }] },
        { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "go" }] },
    ] })
}

#[test]
fn responses_stream_equals_the_response() {
    let server = serve(EVERYTHING);
    let whole = post(&server, "/v1/responses", &responses(false)).json();
    assert_eq!((&whole["id"], &whole["status"]), (&json!("resp_main_1"), &json!("completed")));
    let output = whole["output"].as_array().unwrap();
    let kinds: Vec<_> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    assert_eq!(
        output[2],
        json!({ "type": "function_call", "id": "fc_main_1_3", "call_id": "call_main_1_3",
            "status": "completed", "name": "exec_command", "arguments": r#"{"cmd":"ls"}"# })
    );
    assert_eq!(
        whole["usage"],
        json!({ "input_tokens": 130, "input_tokens_details": { "cached_tokens": 7 }, "output_tokens": 40,
            "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 170 })
    );

    let server = serve(EVERYTHING);
    let response = post(&server, "/v1/responses", &responses(true));
    assert!(response.complete);
    let events = response.events();
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..u64::try_from(events.len()).unwrap()).collect::<Vec<_>>());
    assert_eq!(events[0]["type"], "response.created");
    assert_eq!(events[events.len() - 1]["type"], "response.completed");
    assert_eq!(events[events.len() - 1]["response"], whole);
    let done: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| event["item"].clone())
        .collect();
    assert_eq!(json!(done), whole["output"]);
    for (kind, whole) in [
        ("response.output_text.delta", "Grüße aus dem Band."),
        ("response.reasoning_summary_text.delta", "Hm."),
        ("response.function_call_arguments.delta", r#"{"cmd":"ls"}{"to":[1,null]}"#),
    ] {
        let chunks: String = events
            .iter()
            .filter(|event| event["type"] == kind)
            .map(|event| event["delta"].as_str().unwrap())
            .collect();
        assert_eq!(chunks, whole, "{kind}");
    }
}

#[test]
fn custom_tool_is_called_with_text() {
    let server = serve("- tools: [ { apply_patch: { patch: '*** Begin Patch' } } ]");
    let mut body = responses(true);
    body["tools"] = json!([{ "type": "custom", "name": "apply_patch" }]);
    let events = post(&server, "/v1/responses", &body).events();
    let item = &events[events.len() - 1]["response"]["output"][0];
    assert_eq!((&item["type"], &item["input"]), (&json!("custom_tool_call"), &json!("*** Begin Patch")));
    assert!(events.iter().any(|event| event["type"] == "response.custom_tool_call_input.delta"));
}

fn gemini() -> Value {
    json!({ "systemInstruction": { "role": "user", "parts": [{ "text": "You are." }] }, "contents": [
        { "role": "user", "parts": [{ "text": "go" }] },
    ] })
}

#[test]
fn gemini_stream_and_array_equal_the_response() {
    let server = serve(EVERYTHING);
    let whole = post(&server, "/v1beta/models/g-1:generateContent", &gemini()).json();
    assert_eq!((&whole["modelVersion"], &whole["responseId"]), (&json!("g-1"), &json!("resp_main_1")));
    let parts = &whole["candidates"][0]["content"]["parts"];
    assert_eq!(parts[0], json!({ "text": "Hm.", "thought": true }));
    assert_eq!(
        parts[2],
        json!({ "functionCall": { "id": "call_main_1_3", "name": "run_shell_command", "args": { "command": "ls" } } })
    );
    assert_eq!(whole["candidates"][0]["finishReason"], "STOP");
    assert_eq!(
        whole["usageMetadata"],
        json!({ "promptTokenCount": 130, "candidatesTokenCount": 40, "totalTokenCount": 170, "cachedContentTokenCount": 7 })
    );
    let streamed = {
        let server = serve(EVERYTHING);
        data(&post(&server, "/v1beta/models/g-1:streamGenerateContent?alt=sse", &gemini()))
    };
    let listed = {
        let server = serve(EVERYTHING);
        let response = post(&server, "/v1beta/models/g-1:streamGenerateContent", &gemini());
        response.json().as_array().unwrap().clone()
    };
    assert_eq!(streamed, listed);
    let all =
        streamed.iter().flat_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array().unwrap());
    let said: String = all
        .clone()
        .filter(|part| part.get("thought").is_none())
        .filter_map(|part| part["text"].as_str())
        .collect();
    assert_eq!(said, "Grüße aus dem Band.");
    let calls: Vec<_> = all.filter(|part| part.get("functionCall").is_some()).collect();
    assert_eq!(json!(calls), json!([parts[2], parts[3]]));
    let last = streamed.last().unwrap();
    assert_eq!(last["usageMetadata"], whole["usageMetadata"]);
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
}

#[test]
fn turn_is_counted_in_every_protocol() {
    let server = serve(EVERYTHING);
    let mut body = chat(false);
    let messages = body["messages"].as_array_mut().unwrap();
    messages
        .push(json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "a" }, { "id": "b" }] }));
    messages.push(json!({ "role": "tool", "tool_call_id": "a", "content": "x" }));
    messages.push(json!({ "role": "tool", "tool_call_id": "b", "content": "x" }));
    assert_eq!(
        post(&server, "/v1/chat/completions", &body).json()["choices"][0]["message"]["content"],
        "Done."
    );

    let mut body = responses(false);
    let items = body["input"].as_array_mut().unwrap();
    for kind in ["reasoning", "message", "function_call", "function_call"] {
        items.push(json!({ "type": kind, "role": "assistant", "content": [] }));
    }
    for _ in 0..2 {
        items.push(json!({ "type": "function_call_output", "output": "x" }));
    }
    assert_eq!(post(&server, "/v1/responses", &body).json()["output"][0]["content"][0]["text"], "Done.");

    let mut body = gemini();
    let contents = body["contents"].as_array_mut().unwrap();
    contents.push(json!({ "role": "model", "parts": [{ "functionCall": {} }] }));
    contents.push(json!({ "role": "user", "parts": [{ "functionResponse": {} }] }));
    let answer = post(&server, "/v1beta/models/g:generateContent", &body).json();
    assert_eq!(answer["candidates"][0]["content"]["parts"][0]["text"], "Done.");
    let logged = server.requests();
    assert!(logged.iter().all(|logged| logged.turn == Some(2) && logged.lane.as_deref() == Some("main")));
}

#[test]
fn error_has_the_format_of_its_protocol() {
    let server = serve("- fault: { status: 429, message: slow down, retry_after: 2s }");
    let chat = post(&server, "/v1/chat/completions", &chat(true));
    assert_eq!((chat.status, chat.header("retry-after")), (Some(429), Some("2")));
    let error = json!({ "error": { "message": "slow down", "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded" } });
    assert_eq!(chat.json(), error);
    assert_eq!(post(&server, "/v1/responses", &responses(true)).json(), error);
    let gemini = post(&server, "/v1beta/models/g:streamGenerateContent?alt=sse", &gemini());
    assert_eq!(gemini.status, Some(429));
    assert_eq!(
        gemini.json(),
        json!({ "error": { "code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED" } })
    );
}

#[test]
fn stream_can_fail_in_every_protocol() {
    let script = "- say: abcdef\n  fault: { error: { type: overloaded_error, after: 3 events } }\n  pace: { chunk: 1 }";
    let server = serve(script);
    let last = data(&post(&server, "/v1/chat/completions", &chat(true))).pop().unwrap();
    assert_eq!(last["error"]["code"], "server_is_overloaded");
    let last = post(&server, "/v1/responses", &responses(true)).events().pop().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["error"]["code"]),
        (&json!("response.failed"), &json!("server_is_overloaded"))
    );
    let last =
        data(&post(&server, "/v1beta/models/g:streamGenerateContent?alt=sse", &gemini())).pop().unwrap();
    assert_eq!(last["error"]["code"], 503);
    // Without a stream, the error is a status.
    assert_eq!(post(&server, "/v1/chat/completions", &chat(false)).status, Some(503));
    let cut = serve("- say: abc\n  fault: { cut: { after: 2 events } }");
    assert!(!post(&cut, "/v1/responses", &responses(true)).complete);
}

#[test]
fn unscripted_and_invalid_requests_get_errors_of_their_protocol() {
    let server = start("{ tape: 1, lanes: { main: { match: something else, replies: [ { say: a } ] } } }");
    let answer = post(&server, "/v1/responses", &responses(true));
    assert_eq!(answer.status, Some(400));
    assert!(answer.json()["error"]["message"].as_str().unwrap().starts_with("no lane of the script matches"));
    assert_eq!(server.unscripted().len(), 1);
    for (target, missing) in [
        ("/v1/responses", "`input`"),
        ("/v1/chat/completions", "`messages`"),
        ("/v1beta/models/g:generateContent", "`contents`"),
    ] {
        let answer = post(&server, target, &json!({}));
        assert_eq!(answer.status, Some(400), "{target}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(missing), "{target}");
    }
}

#[test]
fn side_requests_of_other_agents_use_no_turn() {
    let server = serve(EVERYTHING);
    let title = json!({ "model": "m", "messages": [{ "role": "user", "content": "Generate a title" }] });
    let agent = [("user-agent", "opencode/1.18.33")];
    let answer = request(&server, "POST", "/v1/chat/completions", &agent, title.to_string().as_bytes());
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "ok");
    let mut choice = gemini();
    choice["generationConfig"] = json!({ "responseJsonSchema": {
        "type": "OBJECT", "properties": { "n": { "type": "INTEGER" } }, "required": ["n"],
    } });
    let answer = post(&server, "/v1beta/models/g:generateContent", &choice).json();
    assert_eq!(answer["candidates"][0]["content"]["parts"][0]["text"], r#"{"n":0}"#);
    assert!(server.requests().iter().all(|logged| logged.response == ResponseKind::SideReply));
    let count = post(&server, "/v1beta/models/g:countTokens", &gemini()).json();
    assert!(count["totalTokens"].as_u64().unwrap() > 0);
}
