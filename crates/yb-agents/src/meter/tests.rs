//! Usage computed from single messages.

use serde_json::json;

use super::*;

const MODEL: &str = "claude-opus-5";

fn answer(id: &str, parent: Option<&str>, usage: &Value, block: &Value) -> Value {
    json!({"type": "assistant", "parent_tool_use_id": parent,
        "message": {"id": id, "model": MODEL, "content": [block], "usage": usage}})
}

fn text() -> Value {
    json!({"type": "text", "text": "Hm."})
}

fn call(name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": "t", "name": name, "input": input})
}

fn event(event: &Value) -> Value {
    json!({"type": "stream_event", "parent_tool_use_id": null, "event": event})
}

fn metered(messages: &[Value]) -> Meter {
    let mut meter = Meter::default();
    for message in messages {
        meter.observe(&Message::parse(message.to_string().as_bytes()).unwrap());
    }
    meter
}

#[track_caller]
fn assert_usd(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|usd| (usd - expected).abs() < 1e-9), "{found:?} is not {expected}");
}

#[test]
fn transcript_is_empty_before_the_first_message() {
    assert_eq!(*metered(&[json!({"type": "system", "subtype": "init"})]).live(), Live::default());
    assert_eq!(Live::default().usd(), None);
}

#[test]
fn parts_of_one_answer_are_one_call_and_its_end_has_the_output() {
    let start = json!({"input_tokens": 1000, "output_tokens": 1, "cache_read_input_tokens": 10_000,
        "cache_creation_input_tokens": 3000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000}});
    let mut messages = vec![
        event(&json!({"type": "message_start", "message": {"id": "m1", "model": MODEL, "usage": start}})),
        answer("m1", None, &start, &text()),
        answer("m1", None, &start, &call("Bash", &json!({"command": "cargo test"}))),
    ];
    // 1000 × 5 + 1 × 25 + 1000 × 6.25 + 2000 × 10 + 10000 × 0.5
    let meter = metered(&messages);
    assert_usd(meter.live().agent_usd, 0.036_275);
    assert_eq!((meter.live().turns, meter.live().subagents_usd), (1, None));
    assert_eq!(meter.live().last_tool.as_deref(), Some("Bash: cargo test"));
    messages.push(event(&json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 101}})));
    let meter = metered(&messages);
    assert_usd(meter.live().agent_usd, 0.038_775);
    assert_eq!((meter.live().input_tokens, meter.live().output_tokens), (1000, 101));
    messages.push(answer("m2", None, &json!({"input_tokens": 1000}), &text()));
    let meter = metered(&messages);
    assert_usd(meter.live().agent_usd, 0.043_775);
    assert_eq!(meter.live().turns, 2);
    assert_eq!(meter.by_model()[MODEL].used.input, 2000);
}

#[test]
fn last_answer_of_a_subagent_is_counted_from_its_result() {
    let spawn = call("Agent", &json!({"description": "Review", "prompt": "x"}));
    let usage = json!({"input_tokens": 1000, "output_tokens": 1});
    let outcome = |usage: &Value| {
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "s1", "content": "ok"}]},
            "tool_use_result": {"agentId": "a", "resolvedModel": "claude-haiku-4-5-20251001", "usage": usage}})
    };
    let mut messages = vec![
        answer("m1", None, &usage, &spawn),
        answer("s-m1", Some("s1"), &usage, &call("Read", &json!({}))),
    ];
    let before = metered(&messages);
    assert_eq!((before.live().turns, before.live().last_tool.as_deref()), (1, Some("Read")));
    assert_usd(before.live().subagents_usd, 0.005_025);
    messages.push(outcome(&json!({"input_tokens": 2000, "output_tokens": 500})));
    let after = metered(&messages);
    assert_usd(after.live().agent_usd, 0.005_025);
    assert_usd(after.live().subagents_usd, 0.005_025 + 0.0045);
    assert_eq!(after.by_model().len(), 2);
    // A result that repeats the last answer is not counted twice.
    messages[2] = outcome(&json!({"input_tokens": 1000, "output_tokens": 500}));
    assert_usd(metered(&messages).live().subagents_usd, 0.001 + 0.0025);
    // The total of the agent takes precedence.
    messages.push(json!({"type": "result", "subtype": "success", "total_cost_usd": 0.1,
        "modelUsage": {MODEL: {"inputTokens": 7, "outputTokens": 8, "costUSD": 0.1}}}));
    let meter = metered(&messages);
    assert_usd(meter.live().agent_usd, 0.005_025);
    assert_usd(meter.live().usd(), 0.1);
    assert_eq!((meter.live().input_tokens, meter.live().output_tokens), (7, 8));
}

#[test]
fn unknown_model_has_the_default_price_and_synthetic_messages_cost_nothing() {
    let unknown = json!({"type": "assistant", "message": {"id": "m", "model": "new-9", "content": [],
        "usage": {"input_tokens": 1_000_000}}});
    let synthetic = json!({"type": "assistant", "message": {"id": "n", "model": "<synthetic>", "content": [],
        "usage": {"input_tokens": 5}}});
    let meter = metered(&[unknown, synthetic]);
    assert_usd(meter.live().agent_usd, 4.0);
    assert_eq!((meter.live().turns, meter.live().input_tokens), (1, 1_000_000));
}

#[test]
fn retry_is_shown_until_the_next_message() {
    let retry = json!({"type": "system", "subtype": "api_retry", "attempt": 1, "retry_delay_ms": 500, "error_status": 529});
    let expected = ApiRetry { status: Some(529), retry_after: Some(Duration::from_millis(500)) };
    assert_eq!(metered(std::slice::from_ref(&retry)).live().api_retry, Some(expected));
    assert_eq!(metered(&[retry, answer("m", None, &json!({}), &text())]).live().api_retry, None);
}

#[test]
fn call_summary_is_one_short_line() {
    let check = |input: &Value, expected: &str| {
        assert_eq!(call_summary("Bash", &input.to_string(), "/w/deep/src-modified"), expected);
    };
    check(&json!({"command": "cargo  test\n\u{1b}[31m-p x", "description": "y"}), "Bash: cargo test -p x");
    check(&json!({"command": "é".repeat(100)}), &format!("Bash: {}…", "é".repeat(MAX_SUMMARY)));
    check(&json!([1, {"a": 2}]), "Bash");
    assert_eq!(call_summary("Bash", "no json", ""), "Bash");
    let long = format!("/{}/src-modified", "d".repeat(120));
    let read = json!({ "file_path": format!("{long}/src/main.rs") }).to_string();
    assert_eq!(call_summary("Read", &read, &long), "Read: src/main.rs", "the prefix hides no file name");
}

/// Token counts are the agent's, so they may be of any size.
#[test]
fn huge_token_counts_do_not_overflow() {
    let huge = json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX, "cache_read_input_tokens": u64::MAX,
        "cache_creation_input_tokens": u64::MAX});
    let meter = metered(&[answer("m1", None, &huge, &text()), answer("m2", None, &huge, &text())]);
    assert_eq!((meter.live().input_tokens, meter.live().output_tokens), (u64::MAX, u64::MAX));
    assert!(meter.live().agent_usd.is_some_and(f64::is_finite));
    assert_eq!(meter.by_model()[MODEL].used.cache_read, u64::MAX);
}
