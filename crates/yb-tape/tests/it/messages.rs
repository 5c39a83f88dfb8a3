//! Replies of the Messages API, streamed and as one message.

use serde_json::{Value, json};

use crate::client::{after, go, go_whole, post, request, serve};

const EVERYTHING: &str = r#"- think: Hm, hm.
  say: Grüße aus dem Band.
  tools:
    - Write: { file_path: /w/a.txt, content: "hi\n", n: 3, deep: { list: [1.5, true, null] } }
  usage: { input: 120, output: 40, cache_read: 7, cache_write: 3, cache_write_1h: 1 }
  pace: { chunk: 8 }"#;

#[test]
fn stream_has_all_events_in_order() {
    let server = serve(EVERYTHING);
    let response = post(&server, &go());
    assert_eq!(response.status, Some(200));
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert!(response.complete);

    let events = response.events();
    assert_eq!(
        events[0],
        json!({ "type": "message_start", "message": {
            "id": "msg_main_1", "type": "message", "role": "assistant", "model": "m", "content": [],
            "stop_reason": null, "stop_sequence": null,
            "usage": { "input_tokens": 120, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 7, "cache_creation": { "ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 1 }, "output_tokens": 1 },
        } })
    );
    let block = |index: u64, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let delta =
        |index: u64, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let stop = |index: u64| json!({ "type": "content_block_stop", "index": index });
    assert_eq!(
        events[1..10],
        [
            block(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
            json!({ "type": "ping" }),
            delta(0, json!({ "type": "thinking_delta", "thinking": "Hm, hm." })),
            delta(0, json!({ "type": "signature_delta", "signature": "c2NyaXB0ZWQ=" })),
            stop(0),
            block(1, json!({ "type": "text", "text": "" })),
            delta(1, json!({ "type": "text_delta", "text": "Grüße au" })),
            delta(1, json!({ "type": "text_delta", "text": "s dem Ba" })),
            delta(1, json!({ "type": "text_delta", "text": "nd." })),
        ]
    );
    assert_eq!(events[10], stop(1));
    assert_eq!(
        events[11],
        block(2, json!({ "type": "tool_use", "id": "toolu_main_1_3", "name": "Write", "input": {} }))
    );
    let end = events.len();
    let input: String =
        events[12..end - 3].iter().map(|event| event["delta"]["partial_json"].as_str().unwrap()).collect();
    assert!(end - 3 - 12 > 1, "the input is split into deltas");
    assert_eq!(
        serde_json::from_str::<Value>(&input).unwrap(),
        json!({ "file_path": "/w/a.txt", "content": "hi\n", "n": 3, "deep": { "list": [1.5, true, null] } })
    );
    assert_eq!(
        events[end - 3..],
        [
            stop(2),
            json!({
                "type": "message_delta", "delta": { "stop_reason": "tool_use", "stop_sequence": null },
                "usage": { "input_tokens": 120, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 7, "cache_creation": { "ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 1 }, "output_tokens": 40 },
            }),
            json!({ "type": "message_stop" }),
        ]
    );
}

/// Assembles the message from a stream as a client does.
fn assemble(events: &[Value]) -> Value {
    let mut message = events[0]["message"].clone();
    let mut content: Vec<Value> = Vec::new();
    let mut inputs: Vec<String> = Vec::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                content.push(event["content_block"].clone());
                inputs.push(String::new());
            }
            "content_block_delta" => {
                let index = usize::try_from(event["index"].as_u64().unwrap()).unwrap();
                for (key, value) in event["delta"].as_object().unwrap() {
                    let value = value.as_str().unwrap();
                    match key.as_str() {
                        "type" => {}
                        "partial_json" => inputs[index].push_str(value),
                        key => {
                            content[index][key] =
                                format!("{}{value}", content[index][key].as_str().unwrap()).into();
                        }
                    }
                }
            }
            "message_delta" => {
                message["stop_reason"] = event["delta"]["stop_reason"].clone();
                message["usage"] = event["usage"].clone();
            }
            _ => {}
        }
    }
    for (block, input) in content.iter_mut().zip(inputs) {
        if block["type"] == "tool_use" {
            block["input"] = serde_json::from_str(&input).unwrap();
        }
    }
    message["content"] = content.into();
    message
}

#[test]
fn message_equals_the_assembled_stream() {
    for replies in [
        EVERYTHING,
        "- say: Plain.",
        "- blocks: [ { say: a }, { tool: { Bash: { command: ls } } }, { think: b }, { tool: { Bash: } }, { say: c } ]\n  stop: max_tokens",
    ] {
        let streamed = post(&serve(replies), &go());
        let whole = post(&serve(replies), &go_whole());
        assert_eq!(whole.header("content-type"), Some("application/json"));
        assert!(whole.complete);
        assert_eq!(whole.json(), assemble(&streamed.events()), "{replies}");
    }
}

#[test]
fn stop_reason_usage_and_model_have_defaults() {
    let server = serve("- say: a\n- tools: [ { Bash: { command: ls } } ]\n- say: b\n  stop: refusal");
    let message = |turn| {
        let mut body = after(turn);
        body["stream"] = json!(false);
        post(&server, &body).json()
    };
    assert_eq!(message(0)["stop_reason"], "end_turn");
    assert_eq!(message(1)["stop_reason"], "tool_use");
    assert_eq!(message(2)["stop_reason"], "refusal");
    let usage = message(0)["usage"].clone();
    assert_eq!(usage["input_tokens"], 10);
    assert_eq!(usage["output_tokens"], 5);
    assert_eq!(usage["cache_read_input_tokens"], 0);

    let mut nameless = go_whole();
    nameless.as_object_mut().unwrap().remove("model");
    assert_eq!(post(&server, &nameless).json()["model"], "scripted");
    let server = crate::client::start("{ tape: 1, model: mine, lanes: { main: [ { say: a } ] } }");
    assert_eq!(post(&server, &nameless).json()["model"], "mine");
    assert_eq!(post(&server, &go_whole()).json()["model"], "m");
}

#[test]
fn retry_gets_new_message_and_tool_ids() {
    let server = serve("- tools: [ { Bash: { command: ls } } ]");
    let first = post(&server, &go_whole()).json();
    let second = post(&server, &go_whole()).json();
    assert_eq!((&first["id"], &first["content"][0]["id"]), (&json!("msg_main_1"), &json!("toolu_main_1_1")));
    assert_eq!(
        (&second["id"], &second["content"][0]["id"]),
        (&json!("msg_main_1_try2"), &json!("toolu_main_1_1_try2"))
    );
}

#[test]
fn megabyte_in_small_deltas_arrives_complete() {
    let text = "0123456789äöü".repeat(70_000);
    let vars = yb_tape::Vars::new().with("big", text.as_str());
    let script = "{ tape: 1, lanes: { main: [ { say: '{{big}}', pace: { chunk: 100 } } ] } }";
    let script = yb_tape::Script::parse(script, &vars).unwrap();
    let server = yb_tape::MockServer::start(script, &yb_tape::MockServerOptions::default()).unwrap();
    let response = post(&server, &go());
    assert!(response.complete);
    assert_eq!(response.reply_text().len(), text.len());
    assert_eq!(response.reply_text(), text);
}

#[test]
fn pace_delays_first_byte_and_events() {
    let server = serve("- say: abc\n  pace: { delay: 60ms, between: 20ms, chunk: 1 }");
    let start = std::time::Instant::now();
    let response = post(&server, &go());
    assert!(response.complete);
    // 1 start, 1 block start, 1 ping, 3 deltas, 1 block stop, 2 at the end: 8 gaps.
    assert!(start.elapsed().as_millis() >= 60 + 8 * 20, "{:?}", start.elapsed());
}

#[test]
fn count_tokens_returns_a_nonzero_estimate() {
    let server = serve("- say: a");
    let count = |body: &Value| {
        request(&server, "POST", "/v1/messages/count_tokens?beta=true", &[], body.to_string().as_bytes())
    };
    let short = count(&json!({ "model": "m", "messages": [] }));
    assert_eq!(short.status, Some(200));
    assert_eq!(short.json(), json!({ "input_tokens": 1 }));
    let long = count(&json!({ "messages": [{ "role": "user", "content": "x".repeat(4000) }] }));
    let tokens = long.json()["input_tokens"].as_u64().unwrap();
    assert!((1000..1100).contains(&tokens), "{tokens}");
    assert_eq!(count(&json!({ "model": "m" })).status, Some(400));
}
