//! What spans cost: a whole conversation with a thousand tool calls, and one span alone.

use std::time::{Duration, Instant, SystemTime};

use opentelemetry::Context;
use opentelemetry::trace::noop::NoopTracerProvider;
use serde_json::{Value, json};
use yb_claude::sdk::{Host, Subprocess, ToolServer, tool};
use yb_claude::{Message, Options};
use yb_otel::{
    AgentSpans, AgentSpansConfig, End, OtelHooksConfig, Pipeline, PipelineConfig, Tracers, Vocabulary,
    create_otel_hooks,
};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{OtlpReceiver, RealClaude};

use crate::Failure;
use crate::stats::{median, ms, row};

const TURNS: usize = 50;
const CALLS: usize = 20;
const ROUNDS: usize = 3;
const SPANS: usize = 100_000;

pub(crate) fn run() -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(conversations())?;
    runtime.block_on(one_span())
}

/// The real CLI calls a tool of this program a thousand times, with hooks that do nothing and with hooks that trace.
async fn conversations() -> Result<(), Failure> {
    let call = "{ mcp__bench__nothing: {} }";
    let turn = format!("{{ tools: [ {} ] }}, ", vec![call; CALLS].join(", "));
    let script = format!("{{ tape: 1, lanes: {{ main: [ {} {{ say: Done. }} ] }} }}", turn.repeat(TURNS));
    let server = MockServer::start(Script::parse(&script, &Vars::new())?, &MockServerOptions::default())?;
    let receiver = OtlpReceiver::start();
    let (mut silent, mut traced, mut spans) = (Vec::new(), Vec::new(), 0);
    for round in 0..=ROUNDS {
        let without = conversation(&server, Tracers::new(NoopTracerProvider::new())).await?;
        let pipeline =
            Pipeline::start(&PipelineConfig::new([("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint())]))?;
        let with = conversation(&server, pipeline.tracers().clone()).await?;
        let dropped = pipeline.shutdown(Duration::from_secs(30)).await;
        if dropped.count > 0 {
            return Err(dropped.to_string().into());
        }
        let all = receiver.spans().len();
        // The first round fills caches.
        if round > 0 {
            silent.push(without);
            traced.push(with);
            spans = all / (round + 1);
        }
    }
    let (silent, traced) = (median(&mut silent), median(&mut traced));
    row(&format!("{} tool calls, hooks that do nothing", TURNS * CALLS), &ms(silent), None);
    row(&format!("the same with {spans} spans"), &ms(traced), None);
    let more = (traced.as_secs_f64() / silent.as_secs_f64() - 1.0) * 100.0;
    row("more", &format!("{more:.2} %"), Some(("at most 2 %", more <= 2.0)));
    Ok(())
}

async fn conversation(server: &MockServer, tracers: Tracers) -> Result<Duration, Failure> {
    let claude = RealClaude::new();
    let config = OtelHooksConfig::new("bench").with_tracers(tracers).with_vocabulary(Vocabulary::GenAiLatest);
    let (hooks, context) = create_otel_hooks(config)?;
    let tools = ToolServer::new("bench")
        .with_tool(tool("nothing", "Does nothing", |_: Value, _| async { String::new() }));
    let options = Options::default()
        .with_cwd(claude.private())
        .with_model("claude-opus-5-5")
        .with_allowed_tools(tools.tool_names());
    let subprocess =
        Subprocess::new().with_program(claude.program()).with_environment(claude.env(&server.base_url()));
    let host = Host::new(options).with_transport(subprocess).with_tools(tools).with_hooks(hooks);
    let began = Instant::now();
    context.watch(host.query("go")).text().await?;
    Ok(began.elapsed())
}

/// What whoever tells of a tool waits for.
async fn one_span() -> Result<(), Failure> {
    let receiver = OtlpReceiver::start();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()),
        ("OTEL_BSP_MAX_QUEUE_SIZE", (2 * SPANS).to_string()),
    ];
    let pipeline = Pipeline::start(&PipelineConfig::new(variables))?;
    let uses = |id: usize| {
        json!({"type": "assistant", "message": {"id": "m", "model": "x", "content": [
            {"type": "tool_use", "id": format!("t{id}"), "name": "Bash", "input": {"command": "ls"}}]}})
    };
    let gives = |id: usize| {
        json!({"type": "user", "message": {"content": [
            {"type": "tool_result", "tool_use_id": format!("t{id}"), "content": "x"}]}})
    };
    let parse = |value: Value| Message::parse(value.to_string().as_bytes());
    let messages =
        (0..SPANS / 2).flat_map(|id| [parse(uses(id)), parse(gives(id))]).collect::<Result<Vec<_>, _>>()?;
    let agent = AgentSpans::start(pipeline.tracers(), &Context::new(), AgentSpansConfig::new("bench"));
    let began = Instant::now();
    for message in &messages {
        agent.frame(message, SystemTime::now());
    }
    let took = began.elapsed();
    agent.end(End::Ok);
    let dropped = pipeline.shutdown(Duration::from_secs(60)).await;
    let spans = receiver.spans().len() as u64 + dropped.count;
    let each = took.as_secs_f64() * 1e6 / spans as f64;
    row(
        &format!("one of {spans} spans, {} dropped", dropped.count),
        &format!("{each:.2} µs"),
        Some(("below 20 µs", each < 20.0)),
    );
    Ok(())
}
