//! Span trees of the real CLI with a scripted model, from hooks and messages together and from messages alone.

use std::time::{Duration, SystemTime};

use opentelemetry::Context;
use yb_claude::sdk::event::{PreToolUse, PreToolUseOutput};
use yb_claude::sdk::{Hooks, Host};
use yb_claude::{AgentDefinition, Message, Options};
use yb_otel::{
    AgentOutcome, AgentSpans, AgentSpansConfig, OtelHooksConfig, SemanticConventions, TelemetryContext,
    create_otel_hooks, merge_hooks,
};
use yb_testkit::{ReceivedSpan, tree};

use crate::support::{Claude, Traced};

const ECHO: &str = "{ Bash: { command: echo one, description: One } }";
const FAIL: &str = "{ Bash: { command: 'exit 3', description: Fail } }";
const WRITE: &str = "{ Write: { file_path: /no/such/place, content: x } }";

/// Creates hooks with these conventions, and a host that calls them.
fn traced_host(
    traced: &Traced,
    host: Host,
    conventions: SemanticConventions,
    more: Hooks,
) -> (Host, TelemetryContext) {
    let config = OtelHooksConfig::new("greet")
        .with_tracers(traced.pipeline.tracers().clone())
        .with_conventions(conventions);
    let (hooks, context) = create_otel_hooks(config).unwrap();
    (host.with_hooks(merge_hooks([hooks, more])), context)
}

/// Returns the spans of a run of this script, from hooks and messages.
async fn spans_from_hooks_and_messages(lanes: &str, conventions: SemanticConventions) -> Vec<ReceivedSpan> {
    let (traced, claude) = (Traced::new(), Claude::new(lanes));
    let options = with_helpers(claude.options());
    let (host, context) = traced_host(&traced, claude.host(options), conventions, Hooks::new());
    context.trace(host.query("go")).text().await.unwrap();
    assert!(context.root_span().is_none());
    traced.spans().await
}

/// Returns the spans of a run of this script, from messages alone.
async fn spans_from_messages(lanes: &str) -> Vec<ReceivedSpan> {
    let (traced, claude) = (Traced::new(), Claude::new(lanes));
    let agent = AgentSpans::start(
        traced.pipeline.tracers(),
        &Context::new(),
        AgentSpansConfig::new("claude-code").with_prompt("go"),
    );
    let mut query = claude.host(with_helpers(claude.options())).query("go");
    while let Some(message) = query.next().await {
        agent.observe(&message.unwrap(), SystemTime::now());
    }
    agent.end(AgentOutcome::Ok);
    traced.spans().await
}

fn with_helpers(options: Options) -> Options {
    ["first", "second"].into_iter().fold(options, |options, name| {
        options.with_agent_definition(name, AgentDefinition::new("Helps", format!("You are {name}.")))
    })
}

/// Returns the tree without model calls: whether the end of a response arrives before its tools run varies.
async fn tree_without_calls(traced: &Traced) -> String {
    let spans = traced.spans().await.into_iter().filter(|span| !span.name.starts_with("chat "));
    tree(&spans.collect::<Vec<_>>())
}

fn tool_calls(calls: &str) -> String {
    format!("main: [ {{ say: I look., tools: [ {calls} ] }}, {{ say: Done. }} ]")
}

#[tokio::test]
async fn real_claude_tools_succeed_fail_and_are_denied() {
    let lanes = format!(
        "main: [ {{ say: I look., tools: [ {ECHO} ] }}, {{ tools: [ {FAIL} ] }}, {{ tools: [ {WRITE} ] }}, {{ say: Done. }} ]"
    );
    insta::assert_snapshot!(tree(&spans_from_hooks_and_messages(&lanes, SemanticConventions::AgentMark).await), @r"
    gen_ai.session
      gen_ai.tool.call
      gen_ai.tool.call ERROR tool_error
      gen_ai.tool.call ERROR permission_denied
    ");
    let spans = spans_from_hooks_and_messages(&lanes, SemanticConventions::GenAiLatest).await;
    insta::assert_snapshot!(tree(&spans), @r"
    invoke_agent greet
      chat claude-opus-5-5
      execute_tool Bash
      chat claude-opus-5-5
      execute_tool Bash ERROR tool_error
      chat claude-opus-5-5
      execute_tool Write ERROR permission_denied
      chat claude-opus-5-5
    ");
    let root = &spans[0];
    assert!(root.attributes["gen_ai.usage.output_tokens"].as_u64().unwrap() > 0);
    assert!(root.attributes["youbencha.cost_usd"].as_f64().unwrap() > 0.0);
    assert_eq!(root.attributes["agentmark.prompt_name"], "greet");
    assert_eq!(root.attributes["gen_ai.response.finish_reasons"][0], "end_turn");
    for span in &spans {
        assert_eq!(span.trace_id, root.trace_id);
        assert!(span.start >= root.start && span.end <= root.end, "{}", span.name);
        assert!(span.attributes.contains_key("gen_ai.conversation.id"), "{}", span.name);
    }
    insta::assert_snapshot!(tree(&spans_from_messages(&lanes).await), @r"
    invoke_agent claude-code
      chat claude-opus-5-5
      execute_tool Bash
      chat claude-opus-5-5
      execute_tool Bash ERROR tool_error
      chat claude-opus-5-5
      execute_tool Write ERROR permission_denied
      chat claude-opus-5-5
    ");
}

#[tokio::test]
async fn real_claude_tool_denied_by_a_hook_is_one_error() {
    let (traced, claude) = (Traced::new(), Claude::new(&tool_calls(ECHO)));
    let deny = Hooks::new().on("Bash", |_: PreToolUse, _| async { PreToolUseOutput::deny("never here") });
    let (host, context) =
        traced_host(&traced, claude.host(claude.options()), SemanticConventions::GenAiLatest, deny);
    context.trace(host.query("go")).text().await.unwrap();
    insta::assert_snapshot!(tree(&traced.spans().await), @r"
    invoke_agent greet
      chat claude-opus-5-5
      execute_tool Bash ERROR tool_error
      chat claude-opus-5-5
    ");
}

#[tokio::test]
async fn real_claude_parallel_subagents_are_distinguished_by_agent_id_c25() {
    let agent = |name: &str| {
        format!(
            "{{ Agent: {{ description: d, prompt: Help {name}, subagent_type: {name}, run_in_background: false }} }}"
        )
    };
    let lane = |name: &str, call: &str| {
        format!("{name}: {{ match: Help {name}, replies: [ {{ tools: [ {call} ] }}, {{ say: Helped. }} ] }}")
    };
    let lanes = format!(
        "{}, {}, main: [ {{ tools: [ {}, {} ] }}, {{ say: Done. }} ]",
        lane("first", ECHO),
        lane("second", FAIL),
        agent("first"),
        agent("second")
    );
    // Hooks don't know which call started a subagent, so its span is a sibling of the calls.
    let spans = spans_from_hooks_and_messages(&lanes, SemanticConventions::AgentMark).await;
    let agents: Vec<_> = spans.iter().filter(|span| span.name == "gen_ai.subagent").collect();
    let [one, two] = &agents[..] else { panic!("{}", tree(&spans)) };
    assert_ne!(one.attributes["agentmark.agent_id"], two.attributes["agentmark.agent_id"]);
    assert_eq!(one.attributes["agentmark.session_id"], two.attributes["agentmark.session_id"]);
    for (agent, kind, status) in [(one, "first", 1), (two, "second", 2)].map(|(agent, kind, status)| {
        let own = agents.iter().find(|agent| agent.attributes["agentmark.subagent_type"] == kind);
        (*own.unwrap_or(agent), kind, status)
    }) {
        let below: Vec<_> = spans.iter().filter(|span| span.parent_id == agent.span_id).collect();
        let [tool] = &below[..] else { panic!("{kind}: {}", tree(&spans)) };
        assert_eq!((tool.name.as_str(), tool.status), ("gen_ai.tool.call", status), "{kind}");
        assert_eq!(agent.status, 1, "{kind}");
    }
    let spans = spans_from_messages(&lanes).await;
    for kind in ["first", "second"] {
        let name = format!("invoke_agent {kind}");
        let agent = spans.iter().find(|span| span.name == name).unwrap();
        let call = spans.iter().find(|span| span.span_id == agent.parent_id).unwrap();
        assert_eq!(call.name, "execute_tool Agent");
    }
    let calls = spans.iter().filter(|span| span.name == "execute_tool Agent" && span.status == 0);
    assert_eq!(calls.count(), 2, "{}", tree(&spans));
}

#[tokio::test]
async fn real_claude_interrupt_ends_open_spans_and_the_next_turn_has_its_own_root() {
    let slow = "{ Bash: { command: 'until false; do :; done', description: Wait } }";
    let (traced, claude) = (Traced::new(), Claude::new(&tool_calls(slow)));
    let (host, context) =
        traced_host(&traced, claude.host(claude.options()), SemanticConventions::GenAiLatest, Hooks::new());
    let client = host.connect().await.unwrap();
    let mut turn = context.trace(client.turn("wait"));
    let mut interrupted = false;
    while let Some(message) = turn.next().await {
        let uses_tool = !context.active_tool_spans().is_empty();
        if matches!(message.unwrap(), Message::Assistant(_)) && uses_tool && !interrupted {
            client.interrupt().await.unwrap();
            interrupted = true;
        }
    }
    drop(turn);
    assert_eq!(context.active_tool_spans(), Vec::<String>::new());
    assert_eq!(context.trace(client.turn("once more")).text().await.unwrap(), "Done.");
    client.close().await.unwrap();
    let spans = traced.spans().await;
    let roots: Vec<_> = spans.iter().filter(|span| span.parent_id.is_empty()).collect();
    let [first, second] = &roots[..] else { panic!("{}", tree(&spans)) };
    let of = |root: &ReceivedSpan| {
        let spans: Vec<_> = spans.iter().filter(|span| span.trace_id == root.trace_id).cloned().collect();
        tree(&spans)
    };
    insta::assert_snapshot!(of(first), @r"
    invoke_agent greet ERROR aborted
      chat claude-opus-5-5
      execute_tool Bash ERROR interrupted
    ");
    insta::assert_snapshot!(of(second), @r"
    invoke_agent greet
      chat claude-opus-5-5
    ");
}

#[tokio::test]
async fn real_claude_timeout_ends_every_open_span_with_error() {
    let slow = "{ Bash: { command: 'until false; do :; done', description: Wait } }";
    let (traced, claude) = (Traced::new(), Claude::new(&tool_calls(slow)));
    let (host, context) =
        traced_host(&traced, claude.host(claude.options()), SemanticConventions::GenAiLatest, Hooks::new());
    let mut query = host.query("go");
    // The host's deadline expires while the tool runs.
    while context.active_tool_spans().is_empty() {
        let next = tokio::time::timeout(Duration::from_secs(60), query.next()).await.unwrap();
        context.observe(&next.unwrap().unwrap());
    }
    drop(query);
    context.end(AgentOutcome::error("timeout", "after 60 s"));
    insta::assert_snapshot!(tree_without_calls(&traced).await, @r"
    invoke_agent greet ERROR timeout
      execute_tool Bash ERROR interrupted
    ");
}

#[tokio::test]
async fn real_claude_stream_dropped_early_is_aborted() {
    let (traced, claude) = (Traced::new(), Claude::new(&tool_calls(ECHO)));
    let (host, context) =
        traced_host(&traced, claude.host(claude.options()), SemanticConventions::AgentMark, Hooks::new());
    let mut query = context.trace(host.query("go"));
    while context.active_tool_spans().is_empty() {
        query.next().await.unwrap().unwrap();
    }
    drop(query);
    insta::assert_snapshot!(tree(&traced.spans().await), @r"
    gen_ai.session ERROR aborted
      gen_ai.tool.call ERROR aborted
    ");
}

#[tokio::test]
async fn real_claude_crash_ends_every_open_span_with_error() {
    let kill = "{ Bash: { command: 'kill -9 $PPID', description: Crash } }";
    let (traced, claude) = (Traced::new(), Claude::new(&tool_calls(kill)));
    let (host, context) =
        traced_host(&traced, claude.host(claude.options()), SemanticConventions::GenAiLatest, Hooks::new());
    let error = context.trace(host.query("go")).text().await.unwrap_err();
    assert!(matches!(error, yb_claude::sdk::Error::Exited(_)), "{error}");
    insta::assert_snapshot!(tree_without_calls(&traced).await, @r"
    invoke_agent greet ERROR crashed
      execute_tool Bash ERROR crashed
    ");
}

#[tokio::test]
async fn real_claude_api_error_fails_the_call_and_the_agent() {
    let (traced, claude) = (Traced::new(), Claude::new("main: [ { fault: { status: 400 } } ]"));
    let (host, context) =
        traced_host(&traced, claude.host(claude.options()), SemanticConventions::GenAiLatest, Hooks::new());
    context.trace(host.query("go")).text().await.unwrap_err();
    let spans = traced.spans().await;
    assert_eq!(spans.iter().map(|span| span.status).collect::<Vec<_>>(), [2, 2], "{}", tree(&spans));
}
