//! The trees of spans of the real CLI, with a scripted model: told by hooks and messages together, and by messages alone.

use std::time::{Duration, SystemTime};

use opentelemetry::Context;
use yb_claude::sdk::event::{PreToolUse, PreToolUseOutput};
use yb_claude::sdk::{Hooks, Host};
use yb_claude::{AgentDefinition, Message, Options};
use yb_otel::{
    AgentSpans, AgentSpansConfig, End, OtelHooksConfig, TelemetryContext, Vocabulary, create_otel_hooks,
    merge_hooks,
};
use yb_testkit::{ReceivedSpan, tree};

use crate::support::{Claude, Traced};

const ECHO: &str = "{ Bash: { command: echo one, description: One } }";
const FAIL: &str = "{ Bash: { command: 'exit 3', description: Fail } }";
const WRITE: &str = "{ Write: { file_path: /no/such/place, content: x } }";

/// Hooks in these words, and a host that calls them.
fn hooked(traced: &Traced, host: Host, vocabulary: Vocabulary, more: Hooks) -> (Host, TelemetryContext) {
    let config = OtelHooksConfig::new("greet")
        .with_tracers(traced.pipeline.tracers().clone())
        .with_vocabulary(vocabulary);
    let (hooks, context) = create_otel_hooks(config).unwrap();
    (host.with_hooks(merge_hooks([hooks, more])), context)
}

/// The tree that a run of this script leaves, told by hooks and messages.
async fn both(lanes: &str, vocabulary: Vocabulary) -> Vec<ReceivedSpan> {
    let (traced, claude) = (Traced::new(), Claude::new(lanes));
    let options = with_helpers(claude.options());
    let (host, context) = hooked(&traced, claude.host(options), vocabulary, Hooks::new());
    context.watch(host.query("go")).text().await.unwrap();
    assert!(context.root_span().is_none());
    traced.spans().await
}

/// The same, told by messages alone.
async fn frames(lanes: &str) -> Vec<ReceivedSpan> {
    let (traced, claude) = (Traced::new(), Claude::new(lanes));
    let agent = AgentSpans::start(
        traced.pipeline.tracers(),
        &Context::new(),
        AgentSpansConfig::new("claude-code").with_prompt("go"),
    );
    let mut query = claude.host(with_helpers(claude.options())).query("go");
    while let Some(message) = query.next().await {
        agent.frame(&message.unwrap(), SystemTime::now());
    }
    agent.end(End::Ok);
    traced.spans().await
}

fn with_helpers(options: Options) -> Options {
    ["first", "second"].into_iter().fold(options, |options, name| {
        options.with_agent_definition(name, AgentDefinition::new("Helps", format!("You are {name}.")))
    })
}

fn tools(calls: &str) -> String {
    format!("main: [ {{ say: I look., tools: [ {calls} ] }}, {{ say: Done. }} ]")
}

#[tokio::test]
async fn real_claude_tools_that_work_fail_and_are_not_allowed() {
    let lanes = format!(
        "main: [ {{ say: I look., tools: [ {ECHO} ] }}, {{ tools: [ {FAIL} ] }}, {{ tools: [ {WRITE} ] }}, {{ say: Done. }} ]"
    );
    insta::assert_snapshot!(tree(&both(&lanes, Vocabulary::Seed).await), @r"
    gen_ai.session
      gen_ai.tool.call
      gen_ai.tool.call ERROR tool_error
      gen_ai.tool.call ERROR permission_denied
    ");
    let spans = both(&lanes, Vocabulary::GenAiLatest).await;
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
    insta::assert_snapshot!(tree(&frames(&lanes).await), @r"
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
async fn real_claude_tool_that_a_hook_denies_is_an_error_once() {
    let (traced, claude) = (Traced::new(), Claude::new(&tools(ECHO)));
    let deny = Hooks::new().on("Bash", |_: PreToolUse, _| async { PreToolUseOutput::deny("never here") });
    let (host, context) = hooked(&traced, claude.host(claude.options()), Vocabulary::GenAiLatest, deny);
    context.watch(host.query("go")).text().await.unwrap();
    insta::assert_snapshot!(tree(&traced.spans().await), @r"
    invoke_agent greet
      chat claude-opus-5-5
      execute_tool Bash ERROR tool_error
      chat claude-opus-5-5
    ");
}

#[tokio::test]
async fn real_claude_parallel_subagents_are_told_apart_by_agent_id_c25() {
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
    // Hooks do not know which call began a subagent, so it stands beside the calls.
    let spans = both(&lanes, Vocabulary::Seed).await;
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
    let spans = frames(&lanes).await;
    for kind in ["first", "second"] {
        let name = format!("invoke_agent {kind}");
        let agent = spans.iter().find(|span| span.name == name).unwrap();
        let call = spans.iter().find(|span| span.span_id == agent.parent_id).unwrap();
        assert_eq!(call.name, "execute_tool Agent");
    }
    let calls = spans.iter().filter(|span| span.name == "execute_tool Agent" && span.status == 1);
    assert_eq!(calls.count(), 2, "{}", tree(&spans));
}

#[tokio::test]
async fn real_claude_interrupt_ends_what_is_open_and_the_next_turn_is_a_root_of_its_own() {
    let slow = "{ Bash: { command: 'until false; do :; done', description: Wait } }";
    let (traced, claude) = (Traced::new(), Claude::new(&tools(slow)));
    let (host, context) =
        hooked(&traced, claude.host(claude.options()), Vocabulary::GenAiLatest, Hooks::new());
    let client = host.connect().await.unwrap();
    let mut turn = context.watch(client.turn("wait"));
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
    assert_eq!(context.watch(client.turn("once more")).text().await.unwrap(), "Done.");
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
    let (traced, claude) = (Traced::new(), Claude::new(&tools(slow)));
    let (host, context) =
        hooked(&traced, claude.host(claude.options()), Vocabulary::GenAiLatest, Hooks::new());
    let mut query = host.query("go");
    // The deadline of whoever runs it comes while the tool runs.
    while context.active_tool_spans().is_empty() {
        let next = tokio::time::timeout(Duration::from_secs(60), query.next()).await.unwrap();
        context.frame(&next.unwrap().unwrap());
    }
    drop(query);
    context.end(End::error("timeout", "after 60 s"));
    insta::assert_snapshot!(tree(&traced.spans().await), @r"
    invoke_agent greet ERROR timeout
      chat claude-opus-5-5 ERROR timeout
      execute_tool Bash ERROR timeout
    ");
}

#[tokio::test]
async fn real_claude_that_nobody_reads_on_is_aborted() {
    let (traced, claude) = (Traced::new(), Claude::new(&tools(ECHO)));
    let (host, context) = hooked(&traced, claude.host(claude.options()), Vocabulary::Seed, Hooks::new());
    let mut query = context.watch(host.query("go"));
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
    let (traced, claude) = (Traced::new(), Claude::new(&tools(kill)));
    let (host, context) =
        hooked(&traced, claude.host(claude.options()), Vocabulary::GenAiLatest, Hooks::new());
    let error = context.watch(host.query("go")).text().await.unwrap_err();
    assert!(matches!(error, yb_claude::sdk::Error::Exited(_)), "{error}");
    insta::assert_snapshot!(tree(&traced.spans().await), @r"
    invoke_agent greet ERROR crashed
      chat claude-opus-5-5 ERROR crashed
      execute_tool Bash ERROR crashed
    ");
}

#[tokio::test]
async fn real_claude_api_error_fails_the_call_and_the_agent() {
    let (traced, claude) = (Traced::new(), Claude::new("main: [ { fault: { status: 400 } } ]"));
    let (host, context) =
        hooked(&traced, claude.host(claude.options()), Vocabulary::GenAiLatest, Hooks::new());
    context.watch(host.query("go")).text().await.unwrap_err();
    let spans = traced.spans().await;
    assert_eq!(spans.iter().map(|span| span.status).collect::<Vec<_>>(), [2, 2], "{}", tree(&spans));
}
