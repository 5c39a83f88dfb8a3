//! Span trees from messages, without a CLI.

use std::time::{Duration, SystemTime};

use opentelemetry::Context;
use serde_json::{Value, json};
use yb_claude::Message;
use yb_otel::{AgentOutcome, AgentSpans, AgentSpansConfig, Redactor, SemanticConventions};
use yb_testkit::{ReceivedSpan, tree};

use crate::support::Traced;

fn message(value: &Value) -> Message {
    Message::parse(value.to_string().as_bytes()).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "it is written in place")]
fn assistant(id: &str, block: Value) -> Value {
    json!({"type": "assistant", "session_id": "s1", "message": {"id": id, "model": "m1", "role": "assistant",
        "content": [block], "usage": {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5}}})
}

fn tool_use(id: &str, call: &str, tool: &str) -> Value {
    assistant(id, json!({"type": "tool_use", "id": call, "name": tool, "input": {"secret": "s3cret"}}))
}

fn tool_result(call: &str, text: &str, is_error: bool) -> Value {
    json!({"type": "user", "session_id": "s1", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": is_error}]}})
}

fn in_subagent(mut frame: Value, call: &str, agent: &str) -> Value {
    frame["parent_tool_use_id"] = json!(call);
    frame["agent_id"] = json!(agent);
    frame
}

fn result() -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": "Done.", "session_id": "s1",
        "stop_reason": "end_turn", "total_cost_usd": 0.25, "usage": {"input_tokens": 20, "output_tokens": 7},
        "modelUsage": {"m1": {"inputTokens": 20, "outputTokens": 7, "costUSD": 0.25}}})
}

/// Returns the spans of these messages, sent a second apart.
async fn spans(config: AgentSpansConfig, frames: &[Value], end: AgentOutcome) -> Vec<ReceivedSpan> {
    let traced = Traced::new();
    let config = config.with_metrics(traced.pipeline.metrics().unwrap());
    let start = SystemTime::now();
    let agent = AgentSpans::start_at(traced.pipeline.tracers(), &Context::new(), config, start);
    assert!(agent.is_recording());
    let mut at = start;
    for frame in frames {
        at += Duration::from_secs(1);
        agent.observe(&message(frame), at);
    }
    agent.end_at(end, at + Duration::from_secs(1));
    traced.spans().await
}

fn config() -> AgentSpansConfig {
    AgentSpansConfig::new("claude-code").with_prompt("Do it with s3cret.")
}

#[tokio::test]
async fn agent_model_calls_and_tools_are_spans_with_their_times() {
    let frames = [
        json!({"type": "system", "subtype": "init", "session_id": "s1", "model": "m1",
            "claude_code_version": "2.1.325"}),
        assistant("msg1", json!({"type": "text", "text": "I look."})),
        tool_use("msg1", "t1", "Bash"),
        tool_result("t1", "ok", false),
        tool_use("msg2", "t2", "Bash"),
        tool_result("t2", "Exit code 3", true),
        assistant("msg3", json!({"type": "text", "text": "Done."})),
        result(),
    ];
    let spans = spans(config(), &frames, AgentOutcome::Ok).await;
    insta::assert_snapshot!(tree(&spans), @r"
    invoke_agent claude-code
      chat m1
      execute_tool Bash
      chat m1
      execute_tool Bash ERROR tool_error
      chat m1
      chat m1 (unattributed)
    ");
    let [root, chat, tool, ..] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(root.scope, "youbencha");
    assert_eq!(root.attributes["gen_ai.conversation.id"], "s1");
    assert_eq!(root.attributes["gen_ai.usage.output_tokens"], 7);
    assert_eq!(root.attributes["youbencha.cost_usd"], 0.25);
    assert_eq!(root.attributes["gen_ai.response.finish_reasons"], json!(["end_turn"]));
    assert_eq!(root.attributes["gen_ai.provider.name"], "anthropic");
    assert_eq!(root.attributes["gen_ai.agent.version"], "2.1.325");
    assert_eq!((root.status, chat.status, tool.status), (0, 0, 0), "success is not a status");
    assert_eq!((root.kind, chat.kind, tool.kind), (1, 3, 1));
    assert_eq!(chat.attributes["gen_ai.provider.name"], "anthropic");
    assert_eq!(chat.attributes["gen_ai.usage.input_tokens"], 15, "cached tokens are included");
    assert_eq!(chat.attributes["gen_ai.usage.cache_read.input_tokens"], 5);
    assert!(!chat.attributes.contains_key("gen_ai.usage.output_tokens"), "not reported");
    assert_eq!(spans[6].attributes["youbencha.usage.unattributed"], true, "the total has more");
    assert_eq!(tool.attributes["gen_ai.tool.call.id"], "t1");
    // The model call starts when the agent is ready, the tool with the model's response.
    assert_eq!((chat.start - root.start, chat.end - chat.start), (1_000_000_000, 2_000_000_000));
    assert_eq!((tool.start - root.start, tool.end - tool.start), (3_000_000_000, 1_000_000_000));
    let debug = spans.iter().map(|span| format!("{span:?}")).collect::<String>();
    for content in ["s3cret", "I look", "Exit code"] {
        assert!(!debug.contains(content), "{content} was recorded without content capture");
    }
}

#[tokio::test]
async fn content_is_opt_in_and_redacted() {
    let frames = [tool_use("msg1", "t1", "Bash"), tool_result("t1", "s3cret out", false), result()];
    let config = config().with_content(Redactor::from_values([("KEY", "s3cret")]));
    let spans = spans(config, &frames, AgentOutcome::Ok).await;
    let [root, chat, tool, ..] = &spans[..] else { panic!("{spans:?}") };
    let parsed = |value: &Value| serde_json::from_str::<Value>(value.as_str().unwrap()).unwrap();
    let prompt =
        json!([{"role": "user", "parts": [{"type": "text", "content": "Do it with [REDACTED:KEY]."}]}]);
    assert_eq!(parsed(&root.attributes["gen_ai.input.messages"]), prompt);
    assert_eq!(parsed(&chat.attributes["gen_ai.input.messages"]), prompt);
    assert_eq!(
        parsed(&chat.attributes["gen_ai.output.messages"])[0]["parts"][0],
        json!({"type": "tool_call", "id": "t1", "name": "Bash", "arguments": {"secret": "[REDACTED:KEY]"}})
    );
    assert_eq!(parsed(&tool.attributes["gen_ai.tool.call.arguments"]), json!({"secret": "[REDACTED:KEY]"}));
    assert_eq!(tool.attributes["gen_ai.tool.call.result"], "[REDACTED:KEY] out");
}

#[tokio::test]
async fn output_tokens_come_from_message_delta() {
    let event = |event: Value| json!({"type": "stream_event", "session_id": "s1", "event": event});
    let start = json!({"type": "message_start", "message": {"id": "msg1", "model": "m2", "content": [],
        "usage": {"input_tokens": 3, "output_tokens": 1}}});
    let delta =
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}});
    let frames = [
        event(start),
        assistant("msg1", json!({"type": "text", "text": "Hi."})),
        event(delta),
        // A synthetic message is not a model response.
        json!({"type": "assistant", "isApiErrorMessage": true, "is_api_error_message": true, "error": "rate_limit",
            "message": {"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error"}]}}),
        json!({"type": "result", "subtype": "success", "is_error": true, "api_error_type": "rate_limit_error"}),
    ];
    let spans = spans(config().with_model("asked"), &frames, AgentOutcome::Ok).await;
    insta::assert_snapshot!(tree(&spans), @r"
    invoke_agent claude-code ERROR rate_limit_error
      chat asked
      chat asked ERROR rate_limit
    ");
    let chat = &spans[1].attributes;
    assert_eq!(chat["gen_ai.usage.output_tokens"], 9);
    assert_eq!(chat["gen_ai.response.finish_reasons"], json!(["end_turn"]));
    assert_eq!(
        (&chat["gen_ai.request.model"], &chat["gen_ai.response.model"]),
        (&json!("asked"), &json!("m1"))
    );
}

/// A response of a subagent, without output tokens.
fn subagent_response(id: &str, call: &str, input: u64) -> Value {
    let mut frame = in_subagent(assistant(id, json!({"type": "text", "text": "x"})), call, "one");
    frame["message"]["usage"] = json!({"input_tokens": input, "output_tokens": 1});
    frame
}

fn subagent_starts(call: &str) -> Value {
    json!({"type": "system", "subtype": "task_started", "task_id": "one", "tool_use_id": call,
        "task_type": "local_agent", "subagent_type": "one", "session_id": "s1"})
}

/// The result of a subagent with the usage of its last call.
fn subagent_ends(call: &str, input: u64, output: u64) -> Value {
    let mut frame = tool_result(call, "Done.", false);
    frame["tool_use_result"] = json!({"agentId": "one", "resolvedModel": "m1",
        "usage": {"input_tokens": input, "output_tokens": output}});
    frame
}

/// A result with the usage of all calls.
fn result_with(input: u64, output: u64, usd: f64) -> Value {
    let mut frame = result();
    frame["total_cost_usd"] = json!(usd);
    frame["modelUsage"] = json!({"m1[1m]": {"inputTokens": input, "outputTokens": output, "cacheReadInputTokens": 5, "costUSD": usd}});
    frame
}

/// Output tokens, input tokens and cost of the model calls, in order of their start.
fn calls(spans: &[ReceivedSpan]) -> Vec<(Option<u64>, Option<u64>, Option<f64>)> {
    let chats = spans.iter().filter(|span| span.name.starts_with("chat"));
    let of = |span: &ReceivedSpan, name: &str| span.attributes.get(name).cloned().unwrap_or_default();
    chats
        .map(|span| {
            let (output, input) =
                (of(span, "gen_ai.usage.output_tokens"), of(span, "gen_ai.usage.input_tokens"));
            (output.as_u64(), input.as_u64(), of(span, "youbencha.cost_usd").as_f64())
        })
        .collect()
}

/// A cent for each output token.
fn priced() -> AgentSpansConfig {
    config().with_price(|_, usage| usage.output_tokens as f64 / 100.0)
}

#[tokio::test]
async fn call_of_a_subagent_waits_for_its_output_tokens() {
    let frames = [
        tool_use("msg1", "a1", "Agent"),
        subagent_starts("a1"),
        subagent_response("sub1", "a1", 100),
        in_subagent(tool_result("t9", "ok", false), "a1", "one"),
        subagent_response("sub2", "a1", 200),
        subagent_ends("a1", 200, 7),
    ];
    let traced = Traced::new();
    let agent = AgentSpans::start(traced.pipeline.tracers(), &Context::new(), priced());
    frames.iter().for_each(|frame| agent.observe(&message(frame), SystemTime::now()));
    agent.observe(&message(&result_with(610, 50, 0.5)), SystemTime::now());
    // A transcript has a call that was not reported, and subagents of earlier runs.
    for (id, agent_id, input, output) in
        [("sub1", "one", 100, 9), ("sub2", "one", 200, 7), ("sub3", "one", 300, 5), ("old", "two", 1, 1)]
    {
        let mut frame = subagent_response(id, "a1", input);
        frame["message"]["usage"]["output_tokens"] = json!(output);
        let Message::Assistant(response) = message(&frame) else { panic!("{frame}") };
        agent.record_subagent_call(agent_id, &response, SystemTime::now());
    }
    agent.end(AgentOutcome::Ok);
    let spans = traced.spans().await;
    // The total has the output of the only call that no other source reports.
    let mut found = calls(&spans);
    found.sort_by_key(|call| call.0);
    assert_eq!(
        found,
        [
            (Some(5), Some(300), Some(0.05)),
            (Some(7), Some(200), Some(0.07)),
            (Some(9), Some(100), Some(0.09)),
            (Some(29), Some(15), Some(0.29)),
        ],
        "{}",
        tree(&spans)
    );
}

/// The transcript of a subagent that was stopped during a call has that call as well.
#[tokio::test]
async fn open_call_of_a_subagent_is_not_counted_twice() {
    let frames =
        [tool_use("msg1", "a1", "Agent"), subagent_starts("a1"), subagent_response("sub1", "a1", 100)];
    let traced = Traced::new();
    let agent = AgentSpans::start(traced.pipeline.tracers(), &Context::new(), priced());
    frames.iter().for_each(|frame| agent.observe(&message(frame), SystemTime::now()));
    let mut frame = subagent_response("sub1", "a1", 100);
    frame["message"]["usage"]["output_tokens"] = json!(9);
    let Message::Assistant(response) = message(&frame) else { panic!("{frame}") };
    agent.record_subagent_call("one", &response, SystemTime::now());
    agent.end(AgentOutcome::Aborted);
    let spans = traced.spans().await;
    let of_the_subagent = calls(&spans).into_iter().filter(|call| call.1 == Some(100)).count();
    assert_eq!(of_the_subagent, 1, "{}", tree(&spans));
}

#[tokio::test]
async fn usage_that_no_call_has_is_one_more_span() {
    let frames = [
        tool_use("msg1", "a1", "Agent"),
        subagent_starts("a1"),
        subagent_response("sub1", "a1", 100),
        in_subagent(tool_result("t9", "ok", false), "a1", "one"),
        // Without an option the last call is reported only here.
        subagent_ends("a1", 200, 7),
        result_with(400, 50, 0.5),
    ];
    let spans = spans(priced(), &frames, AgentOutcome::Ok).await;
    insta::assert_snapshot!(tree(&spans), @r"
    invoke_agent claude-code
      chat m1
      execute_tool Agent
        invoke_agent one
          chat m1
          chat m1
      chat m1 (unattributed)
    ");
    let rest =
        spans.iter().find(|span| span.attributes.contains_key("youbencha.usage.unattributed")).unwrap();
    assert_eq!(rest.start, rest.end);
    assert_eq!(rest.attributes["gen_ai.usage.output_tokens"], 43, "of two calls and an internal one");
    let sum = |name: &str| {
        let chats = spans.iter().filter(|span| span.name.starts_with("chat m1"));
        chats.map(|span| span.attributes.get(name).and_then(Value::as_f64).unwrap_or_default()).sum::<f64>()
    };
    assert_eq!((sum("gen_ai.usage.input_tokens"), sum("gen_ai.usage.output_tokens")), (405.0, 50.0));
    assert!((sum("youbencha.cost_usd") - 0.5).abs() < 1e-9);
    assert_eq!(spans[0].attributes["gen_ai.usage.output_tokens"], 50, "the agent has the total");
}

#[tokio::test]
async fn model_call_starts_with_its_request() {
    let requesting =
        json!({"type": "system", "subtype": "status", "status": "requesting", "session_id": "s1"});
    let init = json!({"type": "system", "subtype": "init", "session_id": "s1", "model": "m1"});
    let frames = [
        init,
        requesting.clone(),
        // A retry is a part of the call.
        requesting.clone(),
        tool_use("msg1", "t1", "Bash"),
        tool_result("t1", "ok", false),
        requesting,
        assistant("msg2", json!({"type": "text", "text": "Done."})),
        result(),
    ];
    let spans = spans(config(), &frames, AgentOutcome::Ok).await;
    let seconds = |time: u64| (time - spans[0].start) / 1_000_000_000;
    let chats: Vec<_> = spans.iter().filter(|span| span.name == "chat m1").collect();
    let times: Vec<_> = chats.iter().map(|span| (seconds(span.start), seconds(span.end))).collect();
    assert_eq!(times, [(2, 4), (6, 7)]);
}

#[tokio::test]
async fn resumed_session_does_not_count_earlier_usage() {
    let spans = spans(config().with_resumed(), &[result()], AgentOutcome::Ok).await;
    assert!(!spans[0].attributes.contains_key("youbencha.cost_usd"));
    assert_eq!(spans[0].attributes["gen_ai.usage.output_tokens"], 7, "that is the turn's own");
}

#[tokio::test]
async fn parallel_subagents_keep_their_own_tools_and_calls() {
    let started = |call: &str, agent: &str, background: bool| {
        json!({"type": "system", "subtype": "task_started", "task_id": agent, "tool_use_id": call,
            "task_type": "local_agent", "subagent_type": agent, "is_backgrounded": background, "session_id": "s1"})
    };
    let ended = |agent: &str, status: &str| json!({"type": "system", "subtype": "task_notification", "task_id": agent, "status": status});
    let frames = [
        tool_use("msg1", "a1", "Agent"),
        tool_use("msg1", "a2", "Agent"),
        started("a1", "one", false),
        started("a2", "two", true),
        tool_result("a2", "launched", false),
        in_subagent(tool_use("sub1", "t1", "Read"), "a1", "one"),
        in_subagent(tool_use("sub2", "t2", "Write"), "a2", "two"),
        in_subagent(tool_result("t2", "no", true), "a2", "two"),
        in_subagent(tool_result("t1", "ok", false), "a1", "one"),
        ended("one", "completed"),
        tool_result("a1", "it says", false),
        ended("two", "failed"),
        result(),
    ];
    insta::assert_snapshot!(tree(&spans(config(), &frames, AgentOutcome::Ok).await), @r"
    invoke_agent claude-code
      chat m1
      execute_tool Agent
        invoke_agent one
          chat m1
          execute_tool Read
      execute_tool Agent
        invoke_agent two ERROR task_failed
          chat m1
          execute_tool Write ERROR tool_error
      chat m1 (unattributed)
    ");
    // The prompt adapter's names have no span for model calls.
    insta::assert_snapshot!(tree(&spans(config().with_conventions(SemanticConventions::AgentMark), &frames, AgentOutcome::Ok).await), @r"
    gen_ai.session
      gen_ai.tool.call
        gen_ai.subagent
          gen_ai.tool.call
      gen_ai.tool.call
        gen_ai.subagent ERROR task_failed
          gen_ai.tool.call ERROR tool_error
    ");
}

#[tokio::test]
async fn failure_ends_all_open_spans() {
    let open = [
        tool_use("msg1", "a1", "Agent"),
        in_subagent(tool_use("sub1", "t1", "Read"), "a1", "one"),
        tool_use("msg1", "t2", "Bash"),
    ];
    insta::assert_snapshot!(tree(&spans(config(), &open, AgentOutcome::error("timeout", "after 60 s")).await), @r"
    invoke_agent claude-code ERROR timeout
      chat m1 ERROR timeout
      execute_tool Agent ERROR interrupted
        invoke_agent ERROR timeout
          execute_tool Read ERROR interrupted
          chat m1 ERROR timeout
      execute_tool Bash ERROR interrupted
    ");
    insta::assert_snapshot!(tree(&spans(config(), &open[..1], AgentOutcome::Aborted).await), @r"
    invoke_agent claude-code ERROR aborted
      chat m1 ERROR aborted
      execute_tool Agent ERROR aborted
    ");
    // The agent's own error result decides, and open spans end with `no_result`.
    let over = json!({"type": "result", "subtype": "error_max_turns", "is_error": true, "errors": ["3"]});
    insta::assert_snapshot!(tree(&spans(config(), &[open[2].clone(), over], AgentOutcome::Ok).await), @r"
    invoke_agent claude-code ERROR error_max_turns
      chat m1
      execute_tool Bash ERROR error_max_turns
    ");
}

#[tokio::test]
async fn dropped_agent_spans_leave_no_span_open() {
    let traced = Traced::new();
    let agent = AgentSpans::start(traced.pipeline.tracers(), &Context::new(), config());
    agent.observe(&message(&tool_use("msg1", "t1", "Bash")), SystemTime::now());
    drop(agent);
    insta::assert_snapshot!(tree(&traced.spans().await), @r"
    invoke_agent claude-code ERROR aborted
      chat m1 ERROR aborted
      execute_tool Bash ERROR aborted
    ");
}

#[tokio::test]
async fn durations_tokens_and_cost_are_counted_once() {
    let traced = Traced::new();
    let config = config().with_metrics(traced.pipeline.metrics().unwrap());
    let agent = AgentSpans::start(traced.pipeline.tracers(), &Context::new(), config);
    let mut second = result();
    second["total_cost_usd"] = json!(0.75);
    second["modelUsage"]["m1"] = json!({"inputTokens": 50, "outputTokens": 17, "costUSD": 0.75});
    for frame in [tool_use("msg1", "t1", "Bash"), tool_result("t1", "no", true), result(), second] {
        agent.observe(&message(&frame), SystemTime::now());
    }
    agent.end(AgentOutcome::Ok);
    traced.spans().await;
    let points = traced.receiver.metrics();
    let found = points
        .iter()
        .map(|point| {
            let kind = ["gen_ai.token.type", "gen_ai.operation.name", "gen_ai.tool.name"];
            let kind = kind.iter().find_map(|key| point.attributes.get(*key)).unwrap().as_str().unwrap();
            let error = point.attributes.get("error.type").and_then(Value::as_str).unwrap_or("-");
            let sum = if point.unit == "s" { "…".to_owned() } else { point.sum.to_string() };
            format!("{} {kind} {error} {}x {sum} {}", point.name, point.count, point.unit)
        })
        .collect::<Vec<_>>()
        .join("\n");
    insta::assert_snapshot!(found, @r"
    gen_ai.client.operation.duration chat - 1x … s
    gen_ai.client.operation.duration invoke_agent - 1x … s
    gen_ai.client.token.usage input - 2x 50 {token}
    gen_ai.client.token.usage output - 2x 17 {token}
    gen_ai.execute_tool.duration Bash tool_error 1x … s
    youbencha.agent.cost invoke_agent - 1x 0.75 USD
    ");
}
