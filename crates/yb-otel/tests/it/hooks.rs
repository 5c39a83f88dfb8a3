//! The prompt adapter's API with a scripted CLI.

use std::sync::{Arc, Mutex};

use opentelemetry::trace::noop::NoopTracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde_json::{Value, json};
use yb_claude::Options;
use yb_claude::sdk::{Exit, Hooks, Host, ScriptStep, ScriptedCli};
use yb_otel::{
    OtelHooksConfig, OtelHooksError, SemanticConventions, SessionUsage, TelemetryConfig, TelemetryContext,
    TelemetryEvent, Tracers, abort_session, complete_session, create_otel_hooks, create_telemetry_hooks,
    merge_hooks,
};
use yb_testkit::{ReceivedSpan, tree};

use crate::support::Traced;

/// A CLI that calls hooks for these events, in order, and then responds.
fn cli(hooks: &Hooks, events: &[Value]) -> ScriptedCli {
    // The number of each event's hook, as in `initialize`.
    let names = format!("{hooks:?}");
    let number = |event: &str| {
        let before = names.split(&format!("\"{event}\"")).next().unwrap_or_default();
        before.matches("Matcher").count()
    };
    let mut steps = vec![
        ScriptStep::Await("init".into(), json!({"request": {"subtype": "initialize"}})),
        ScriptStep::Line(json!({"type": "control_response", "response":
            {"subtype": "success", "request_id": "{{init./request_id}}", "response": {}}})),
        ScriptStep::Await("prompt".into(), json!({"type": "user"})),
    ];
    for (index, event) in events.iter().enumerate() {
        if event.get("type").is_some() {
            steps.push(ScriptStep::Line(event.clone()));
            continue;
        }
        let id = format!("r{index}");
        let mut input = event.clone();
        input["session_id"] = json!("s1");
        let callback = format!("hook_{}", number(event["hook_event_name"].as_str().unwrap()));
        steps.push(ScriptStep::Line(json!({"type": "control_request", "request_id": id, "request":
            {"subtype": "hook_callback", "callback_id": callback, "input": input}})));
        steps.push(ScriptStep::Await(
            id.clone(),
            json!({"type": "control_response", "response": {"request_id": id}}),
        ));
    }
    steps.push(ScriptStep::Line(
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "Hi."}),
    ));
    ScriptedCli::new(steps)
}

fn event(name: &str, fields: Value) -> Value {
    let mut event = fields;
    event["hook_event_name"] = json!(name);
    event
}

fn prompt() -> Value {
    event("UserPromptSubmit", json!({"prompt": "Say hi."}))
}

fn before(id: &str) -> Value {
    event("PreToolUse", json!({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": id}))
}

fn after(id: &str) -> Value {
    event("PostToolUse", json!({"tool_name": "Bash", "tool_response": {"stdout": "x"}, "tool_use_id": id}))
}

/// Formats the attributes of a span, one per line.
fn shown(span: &ReceivedSpan) -> String {
    span.attributes.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

/// Sends these events to hooks with this configuration, and leaves the session open.
async fn play(config: OtelHooksConfig, events: &[Value]) -> TelemetryContext {
    let (hooks, context) = create_otel_hooks(config).unwrap();
    let cli = cli(&hooks, events);
    let host = Host::new(Options::default()).with_transport(cli).with_hooks(hooks);
    assert_eq!(host.query("Say hi.").text().await.unwrap(), "Hi.");
    context
}

fn config(traced: &Traced) -> OtelHooksConfig {
    OtelHooksConfig::new("greet").with_tracers(traced.pipeline.tracers().clone())
}

#[tokio::test]
async fn hook_events_start_and_end_their_spans() {
    let traced = Traced::new();
    let config = config(&traced)
        .with_model("m1")
        .with_user_id("u1")
        .with_user_prompt("Say hi.")
        .with_attribute("team", "blue")
        .with_content(yb_otel::Redactor::default());
    let events = [
        prompt(),
        before("t1"),
        after("t1"),
        before("t2"),
        event(
            "PostToolUseFailure",
            json!({"tool_name": "Bash", "tool_use_id": "t2", "error": "Exit code 3"}),
        ),
        event("SubagentStart", json!({"agent_id": "a1", "agent_type": "explore"})),
        event(
            "PreToolUse",
            json!({"tool_name": "Read", "tool_input": {}, "tool_use_id": "t3", "agent_id": "a1"}),
        ),
        event(
            "PostToolUse",
            json!({"tool_name": "Read", "tool_response": "x", "tool_use_id": "t3", "agent_id": "a1"}),
        ),
        event("SubagentStop", json!({"agent_id": "a1", "agent_type": "explore"})),
        event("Stop", json!({"last_assistant_message": "Hi."})),
    ];
    let context = play(config, &events).await;
    assert!(context.root_span().is_some(), "`Stop` does not end the session");
    assert!(context.traceparent().starts_with("00-"));
    let usage = SessionUsage { input_tokens: Some(3), output_tokens: Some(4) };
    complete_session(&context, "Hi there.", Some(usage));
    // A second end has no effect.
    complete_session(&context, "again", None);
    let spans = traced.spans().await;
    insta::assert_snapshot!(tree(&spans), @r"
    gen_ai.session
      gen_ai.tool.call
      gen_ai.tool.call ERROR tool_error
      gen_ai.subagent
        gen_ai.tool.call
    ");
    insta::assert_snapshot!(shown(&spans[0]), @r#"
    agentmark.prompt_name = "greet"
    agentmark.session_id = "s1"
    agentmark.user_id = "u1"
    gen_ai.request.input = "Say hi."
    gen_ai.request.model = "m1"
    gen_ai.response.finish_reasons = ["stop"]
    gen_ai.response.output = "Hi there."
    gen_ai.system = "anthropic"
    gen_ai.usage.input_tokens = 3
    gen_ai.usage.output_tokens = 4
    team = "blue"
    "#);
    insta::assert_snapshot!(shown(&spans[1]), @r#"
    agentmark.prompt_name = "greet"
    agentmark.session_id = "s1"
    agentmark.user_id = "u1"
    gen_ai.request.model = "m1"
    gen_ai.system = "anthropic"
    gen_ai.tool.call.id = "t1"
    gen_ai.tool.input = "{\"command\":\"ls\"}"
    gen_ai.tool.name = "Bash"
    gen_ai.tool.output = "{\"stdout\":\"x\"}"
    team = "blue"
    "#);
    insta::assert_snapshot!(shown(&spans[3]), @r#"
    agentmark.agent_id = "a1"
    agentmark.prompt_name = "greet"
    agentmark.session_id = "s1"
    agentmark.subagent_type = "explore"
    agentmark.user_id = "u1"
    gen_ai.request.model = "m1"
    gen_ai.system = "anthropic"
    team = "blue"
    "#);
    assert_eq!(spans[2].message, "Exit code 3");
    assert!(spans.iter().all(|span| span.scope == "agentmark"));
}

#[tokio::test]
async fn content_is_not_recorded_by_default() {
    let traced = Traced::new();
    let context = play(config(&traced), &[prompt(), before("t1"), after("t1")]).await;
    complete_session(&context, json!({"answer": 42}), None);
    let spans = traced.spans().await;
    // A response passed by the host is recorded even without content capture.
    assert_eq!(spans[0].attributes["gen_ai.response.output"], r#"{"answer":42}"#);
    for key in ["gen_ai.request.input", "gen_ai.tool.input", "gen_ai.tool.output"] {
        assert!(spans.iter().all(|span| !span.attributes.contains_key(key)), "{key}");
    }
}

#[tokio::test]
async fn session_that_stopped_ends_without_complete_session() {
    let traced = Traced::new();
    let stop = event("Stop", json!({"last_assistant_message": "Hi."}));
    drop(play(config(&traced), &[prompt(), before("t1"), after("t1"), stop]).await);
    let spans = traced.spans().await;
    insta::assert_snapshot!(tree(&spans), @r"
    gen_ai.session
      gen_ai.tool.call
    ");
    assert_eq!((spans[0].status, spans[1].status), (1, 1), "the prompt adapter's names have status OK");
    assert_eq!(spans[0].attributes["gen_ai.response.finish_reasons"], json!(["stop"]));
    // Without `Stop` it was aborted.
    let traced = Traced::new();
    drop(play(config(&traced), &[prompt()]).await);
    insta::assert_snapshot!(tree(&traced.spans().await), @"gen_ai.session ERROR aborted");
}

#[tokio::test]
async fn second_prompt_ends_the_first_root_span() {
    let traced = Traced::new();
    let context = play(config(&traced), &[prompt(), before("t1"), prompt(), after("t1")]).await;
    complete_session(&context, "Hi.", None);
    let mut trees: Vec<String> = Vec::new();
    let spans = traced.spans().await;
    for root in spans.iter().filter(|span| span.parent_id.is_empty()) {
        let own: Vec<_> = spans.iter().filter(|span| span.trace_id == root.trace_id).cloned().collect();
        trees.push(tree(&own));
    }
    assert_eq!(trees, ["gen_ai.session ERROR superseded\n  gen_ai.tool.call\n", "gen_ai.session\n"]);
}

#[tokio::test]
async fn abort_ends_all_open_spans() {
    let traced = Traced::new();
    let subagent = event("SubagentStart", json!({"agent_id": "a1", "agent_type": "explore"}));
    let context = play(config(&traced), &[prompt(), before("t1"), subagent]).await;
    assert_eq!(context.active_tool_spans(), ["t1"]);
    assert_eq!(context.active_subagent_spans(), ["a1"]);
    abort_session(&context);
    assert_eq!((context.active_tool_spans().len(), context.active_subagent_spans().len()), (0, 0));
    insta::assert_snapshot!(tree(&traced.spans().await), @r"
    gen_ai.session ERROR aborted
      gen_ai.tool.call ERROR aborted
      gen_ai.subagent ERROR aborted
    ");
}

#[tokio::test]
async fn malformed_events_leave_no_span_open() {
    let traced = Traced::new();
    let unnamed = || event("PreToolUse", json!({"tool_name": "Bash", "tool_input": {}}));
    let unnamed_end = || event("PostToolUse", json!({"tool_name": "Bash", "tool_response": ""}));
    let events = [
        // No prompt, no id, an end without a start, a subagent without an id.
        unnamed(),
        unnamed_end(),
        unnamed(),
        unnamed_end(),
        after("never begun"),
        event("SubagentStop", json!({"agent_type": ""})),
        event("SubagentStart", json!({"agent_type": "explore"})),
        event("SubagentStop", json!({"agent_type": "explore"})),
    ];
    let context = play(config(&traced), &events).await;
    assert!(context.active_tool_spans().is_empty() && context.active_subagent_spans().is_empty());
    complete_session(&context, "Hi.", None);
    insta::assert_snapshot!(tree(&traced.spans().await), @r"
    gen_ai.session
      gen_ai.tool.call
      gen_ai.tool.call
      gen_ai.subagent
    ");
}

#[tokio::test]
async fn cli_that_fails_before_the_prompt_has_an_error_span() {
    let traced = Traced::new();
    let (hooks, context) = create_otel_hooks(config(&traced)).unwrap();
    let cli = ScriptedCli::new([ScriptStep::Exit(Exit::with_code(3))]);
    let host = Host::new(Options::default()).with_transport(cli).with_hooks(hooks);
    context.trace(host.query("Say hi.")).text().await.unwrap_err();
    insta::assert_snapshot!(tree(&traced.spans().await), @"gen_ai.session ERROR crashed");
}

#[tokio::test]
async fn v7_noop_provider_costs_nothing_and_does_not_fail() {
    let shut_down = SdkTracerProvider::builder().build();
    shut_down.shutdown().unwrap();
    let config = |tracers| OtelHooksConfig::new("greet").with_tracers(tracers);
    for tracers in [Tracers::new(shut_down), Tracers::new(NoopTracerProvider::new()), Tracers::global()] {
        let context = play(config(tracers), &[prompt(), before("t1")]).await;
        assert!(context.root_span().is_none() && context.active_tool_spans().is_empty());
        complete_session(&context, "Hi.", None);
    }
    let (hooks, context) = create_otel_hooks(config(Tracers::none())).unwrap();
    assert!(hooks.is_empty(), "the CLI is not even asked to call");
    abort_session(&context);
}

#[test]
fn v8_empty_prompt_name_is_refused() {
    for name in ["", "  "] {
        let refused = create_otel_hooks(OtelHooksConfig::new(name)).unwrap_err();
        assert_eq!(refused, OtelHooksError::EmptyPromptName);
        assert!(refused.to_string().contains("hint:"));
    }
    assert!(create_otel_hooks(OtelHooksConfig::new("greet")).is_ok());
}

#[test]
fn merge_hooks_keeps_order_and_inputs() {
    let (first, _) = create_otel_hooks(OtelHooksConfig::new("greet")).unwrap();
    let (second, _) = create_telemetry_hooks(
        TelemetryConfig { is_enabled: true, ..TelemetryConfig::default() },
        |_| async {},
    );
    assert_eq!((first.len(), second.len()), (7, 8));
    let merged = merge_hooks([first.clone(), second.clone()]);
    assert_eq!(merged.len(), 15);
    assert_eq!(format!("{merged:?}"), format!("{:?}", first.clone().and(second.clone())));
    assert_eq!((first.len(), second.len()), (7, 8));
    assert_eq!(merge_hooks([]).len(), 0);
}

#[tokio::test]
async fn telemetry_events_arrive_in_order_with_sessions_from_messages() {
    let seen: Arc<Mutex<Vec<TelemetryEvent>>> = Arc::default();
    let log = Arc::clone(&seen);
    let config = TelemetryConfig {
        is_enabled: true,
        function_id: Some("f1".to_owned()),
        prompt_name: "greet".to_owned(),
        ..TelemetryConfig::default()
    };
    let (hooks, events) = create_telemetry_hooks(config, move |event| {
        log.lock().unwrap().push(event);
        async {}
    });
    let script = [
        json!({"type": "system", "subtype": "init", "session_id": "s1", "cwd": "/w", "model": "m1"}),
        before("t1"),
        after("t1"),
        event("PostToolUseFailure", json!({"tool_name": "Bash", "tool_use_id": "t2", "error": "no"})),
        event("SubagentStart", json!({"agent_id": "a1", "agent_type": "explore"})),
        event("SubagentStop", json!({"agent_id": "a1", "agent_type": "explore"})),
        event("Stop", json!({"last_assistant_message": "Hi."})),
        json!({"type": "system", "subtype": "notification", "session_id": "s1", "text": "look"}),
    ];
    let cli = cli(&hooks, &script);
    let host = Host::new(Options::default()).with_transport(cli).with_hooks(hooks);
    let mut query = host.query("Say hi.");
    let mut messages = Vec::new();
    while let Some(message) = query.next().await {
        messages.push(message.unwrap());
    }
    let count = |name: &str| seen.lock().unwrap().iter().filter(|event| event.event_name == name).count();
    assert_eq!((count("session_start"), count("session_end")), (0, 0), "no hook is called for them");
    for message in &messages {
        events.observe(message).await;
    }
    let seen = seen.lock().unwrap();
    let names: Vec<_> = seen.iter().map(|event| event.event_name).collect();
    assert_eq!(
        names,
        [
            "tool_start",
            "tool_end",
            "tool_error",
            "subagent_start",
            "subagent_stop",
            "agent_stop",
            "session_start",
            "notification",
            "session_end",
        ]
    );
    assert!(seen.iter().all(|event| event.prompt_name == "greet" && event.data["function_id"] == "f1"));
    assert_eq!(seen[0].data["tool_input"], json!({"command": "ls"}));
    assert_eq!(seen[8].data["reason"], "success");
    assert!(seen[0].timestamp > 1_700_000_000_000 && seen[0].session_id == "s1");
}

#[test]
fn disabled_telemetry_has_no_hooks() {
    let (hooks, _) = create_telemetry_hooks(TelemetryConfig::default(), |_| async {});
    assert!(hooks.is_empty());
}

#[test]
fn attribute_constants_have_their_values() {
    use yb_otel::{agentmark_attributes as own, gen_ai_attributes as gen_ai, span_names};
    let gen_ai = [
        (gen_ai::SYSTEM, "system"),
        (gen_ai::REQUEST_MODEL, "request.model"),
        (gen_ai::REQUEST_MAX_TOKENS, "request.max_tokens"),
        (gen_ai::REQUEST_TEMPERATURE, "request.temperature"),
        (gen_ai::RESPONSE_ID, "response.id"),
        (gen_ai::RESPONSE_MODEL, "response.model"),
        (gen_ai::RESPONSE_FINISH_REASONS, "response.finish_reasons"),
        (gen_ai::USAGE_INPUT_TOKENS, "usage.input_tokens"),
        (gen_ai::USAGE_OUTPUT_TOKENS, "usage.output_tokens"),
        (gen_ai::TOOL_NAME, "tool.name"),
        (gen_ai::TOOL_CALL_ID, "tool.call.id"),
        (gen_ai::REQUEST_INPUT, "request.input"),
        (gen_ai::RESPONSE_OUTPUT, "response.output"),
        (gen_ai::TOOL_INPUT, "tool.input"),
        (gen_ai::TOOL_OUTPUT, "tool.output"),
    ];
    for (constant, value) in gen_ai {
        assert_eq!(constant, format!("gen_ai.{value}"));
    }
    let own = [
        (own::PROMPT_NAME, "prompt_name"),
        (own::SESSION_ID, "session_id"),
        (own::USER_ID, "user_id"),
        (own::FUNCTION_ID, "function_id"),
        (own::SUBAGENT_TYPE, "subagent_type"),
        (own::AGENT_ID, "agent_id"),
    ];
    for (constant, value) in own {
        assert_eq!(constant, format!("agentmark.{value}"));
    }
    let spans = [span_names::SESSION, span_names::TOOL_CALL, span_names::SUBAGENT];
    assert_eq!(spans, ["gen_ai.session", "gen_ai.tool.call", "gen_ai.subagent"]);
    assert_eq!(yb_otel::TRACER_SCOPE_NAME, "agentmark");
    assert_eq!(
        SemanticConventions::from_opt_in(Some("gen_ai_latest_experimental"), SemanticConventions::AgentMark),
        SemanticConventions::GenAiLatest
    );
    assert_eq!(
        SemanticConventions::from_opt_in(None, SemanticConventions::AgentMark),
        SemanticConventions::AgentMark
    );
}
