//! Traces of runs: the complete tree at a receiver and in a file, whatever the receiver does, and no content
//! asked for.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::{Value, json};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::git::Repo;
use yb_testkit::{
    Invocation, OtlpReceiver, Outcome, RealClaude, ReceivedSpan, TestContext, spans_in_file,
    tree as span_tree,
};

use crate::YB;

/// A realistic API key.
const KEY: &str = "not-a-real-key-but-a-secret";
/// Text that appears only with content enabled.
const SAID: &str = "The reviewer is content.";

const MODEL: &str = "
tape: 1
lanes:
  main:
    - say: I look first.
      tools: [{ Bash: { command: 'cat greet.sh; echo $TRACEPARENT > traceparent', description: Look } }]
      usage: { input: 100, output: 20, cache_read: 7 }
    - tools:
        - Agent:
            description: Review
            prompt: Review the greeting and say whether it is friendly.
            subagent_type: general-purpose
            run_in_background: false
    - tools: [{ Bash: { command: 'exit 3', description: Fail } }]
    - { say: The reviewer is content., usage: { input: 200, output: 30 } }
  reviewer:
    match: Review the greeting
    replies:
      - tools: [{ Read: { file_path: /no/such/file } }]
      - say: It is friendly.
";

const CASE: &str = "
youbencha: 1
name: greeting
description: The script greets by name.
repo: repo
isolation: external
agent: { type: claude-code, model: claude-opus-5-5, config: { prompt: Greet by name. } }
evaluators:
  - { name: git-diff, config: { assertions: { max_files_changed: 1 } } }
  - { name: command, config: { argv: [\"false\"] } }
";

/// A context with a repository, a case and the real agent with a scripted model.
pub(crate) struct World {
    pub(crate) context: TestContext,
    server: MockServer,
    claude: RealClaude,
}

impl World {
    pub(crate) fn new() -> Self {
        let context = TestContext::new();
        let repo = context.dir().join("repo");
        std::fs::create_dir(&repo).unwrap();
        Repo::init(&repo).write("greet.sh", "echo Hello!\n").commit("start");
        context.write("case.yaml", CASE);
        let script = Script::parse(MODEL, &Vars::new()).unwrap();
        let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
        Self { context, server, claude: RealClaude::new() }
    }

    pub(crate) fn run(&self, args: &[&str]) -> Invocation {
        self.yb(&["run", "-c", "case.yaml"]).args(args)
    }

    fn yb(&self, args: &[&str]) -> Invocation {
        self.context
            .command(YB)
            .args(args)
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("ANTHROPIC_BASE_URL", self.server.base_url())
            .env("ANTHROPIC_API_KEY", KEY)
            .env("YB_CLAUDE", self.claude.program())
    }

    fn file(&self) -> Vec<ReceivedSpan> {
        spans_in_file(&self.context.dir().join("trace.jsonl"))
    }
}

/// Returns the only span with this name.
#[track_caller]
fn named<'a>(spans: &'a [ReceivedSpan], name: &str) -> &'a ReceivedSpan {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name}: {}", span_tree(spans));
    found[0]
}

const TREE: &str = "\
run greeting
  trial greeting--default--1
    invoke_agent claude-code
      chat claude-opus-5-5
      execute_tool Bash
      chat claude-opus-5-5
      execute_tool Agent
        invoke_agent general-purpose
          chat claude-opus-5-5
          execute_tool Read ERROR tool_error
      chat claude-opus-5-5
      execute_tool Bash ERROR tool_error
      chat claude-opus-5-5
    evaluate git-diff
    evaluate command
";

/// One trace at a receiver and in a file, with metadata and without content.
#[test]
fn real_claude_run_is_one_trace_at_a_receiver_and_in_a_file() {
    let (world, receiver) = (World::new(), OtlpReceiver::start());
    let outcome = world
        .run(&["--otel-file", "trace.jsonl"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint())
        .run();
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    assert!(!outcome.stderr.contains("trace"), "{}", outcome.stderr);

    let spans = receiver.spans();
    assert_eq!(span_tree(&spans), TREE);
    assert_eq!(span_tree(&world.file()), TREE);
    let traces: std::collections::BTreeSet<_> = spans.iter().map(|span| &span.trace_id).collect();
    assert_eq!(traces.len(), 1, "one run, one trace");

    let trial = &named(&spans, "trial greeting--default--1").attributes;
    for (name, value) in [
        ("youbencha.case", json!("greeting")),
        ("youbencha.variant", json!("default")),
        ("youbencha.repeat", json!(1)),
        ("youbencha.attempt", json!(1)),
        ("youbencha.outcome", json!("failed")),
        ("openinference.span.kind", json!("CHAIN")),
    ] {
        assert_eq!(trial.get(name), Some(&value), "{name}: {trial:?}");
    }
    let run = named(&spans, "run greeting");
    assert_eq!(run.attributes["youbencha.trials.failed"], 1);
    assert_eq!(run.resource["service.name"], "youbencha");
    let chats: Vec<&ReceivedSpan> = spans.iter().filter(|span| span.name.starts_with("chat ")).collect();
    assert_eq!(chats[0].attributes["gen_ai.usage.output_tokens"], 20);
    assert_eq!(chats[0].attributes["gen_ai.usage.cache_read.input_tokens"], 7);

    // Verdicts refer to the agent span.
    let agent = named(&spans, "invoke_agent claude-code");
    let verdicts: Vec<(Value, Value, bool)> = receiver
        .events()
        .into_iter()
        .map(|event| {
            assert_eq!(event.name, "gen_ai.evaluation.result");
            let of = |name: &str| event.attributes.get(name).cloned().unwrap_or_default();
            let (name, label) = (of("gen_ai.evaluation.name"), of("gen_ai.evaluation.score.label"));
            (name, label, event.span_id == agent.span_id)
        })
        .collect();
    assert_eq!(
        verdicts,
        [(json!("git-diff"), json!("passed"), true), (json!("command"), json!("failed"), true)]
    );
    let measured: std::collections::BTreeSet<String> =
        receiver.metrics().into_iter().map(|point| point.name).collect();
    assert_eq!(
        measured.into_iter().collect::<Vec<_>>(),
        [
            "gen_ai.client.operation.duration",
            "gen_ai.client.token.usage",
            "gen_ai.execute_tool.duration",
            "youbencha.agent.cost"
        ]
    );

    // The child got its parent span, and no content was exported.
    let printed = format!("00-{}-{}-01\n", agent.trace_id, agent.span_id);
    assert_eq!(left(&world.context, "traceparent"), printed);
    let all = format!("{spans:?}{}", world.context.read("trace.jsonl"));
    for secret in [SAID, KEY, "Greet by name.", "cat greet.sh", "changed (+"] {
        assert!(!all.contains(secret), "`{secret}` is in the trace");
    }
    yb_testkit::assert_no_process_in(&world.context.dir());
}

/// Returns a file of the workspace.
fn left(context: &TestContext, name: &str) -> String {
    let runs = context.dir().join(".youbencha-workspace/runs");
    let run = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    let path = run.join("trials/greeting--default--1/attempt-1/src-modified").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn real_claude_content_is_traced_on_request_without_secrets() {
    let world = World::new();
    let case = CASE.replace(
        "config: { prompt: Greet by name. }",
        "config: { prompt: 'Greet $GREET_TOKEN, swordfish-swordfish.' }",
    );
    world.context.write("case.yaml", format!("{case}env: {{ GREET_TOKEN: swordfish-swordfish }}\n"));
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let outcome = world.run(&["--otel-file=trace.jsonl", "--otel-content"]).env("TRACEPARENT", parent).run();
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    let spans = world.file();
    let run = named(&spans, "run greeting");
    // The caller has its own trace.
    assert_eq!((run.trace_id.as_str(), run.parent_id.as_str()), (&parent[3..35], &parent[36..52]));
    let text = world.context.read("trace.jsonl");
    for said in [SAID, "Greet $GREET_TOKEN, [REDACTED:GREET_TOKEN].", "cat greet.sh", "✓ 1 file changed"] {
        assert!(text.contains(said), "`{said}` is not in the trace");
    }
    for secret in ["swordfish", KEY] {
        assert!(!text.contains(secret), "`{secret}` is in the trace");
    }
}

#[test]
fn real_claude_answers_a_question_as_a_trace() {
    let world = World::new();
    let receiver = OtlpReceiver::start();
    let outcome = world
        .yb(&["ask", "--otel", "--allowed-tools", "Bash,Agent", "Greet by name."])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint())
        .run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    // Disallowed tools were denied.
    assert_snapshot!(span_tree(&receiver.spans()), @"
    invoke_agent claude-code
      chat claude-opus-5-5
      execute_tool Bash
      chat claude-opus-5-5
      execute_tool Agent
        invoke_agent general-purpose
          chat claude-opus-5-5
          execute_tool Read ERROR permission_denied
      chat claude-opus-5-5
      execute_tool Bash ERROR tool_error
      chat claude-opus-5-5
    ");
    assert!(!format!("{:?}", receiver.spans()).contains(SAID));
}

/// Returns the results that must not depend on the receiver.
fn results(context: &TestContext, outcome: &Outcome) -> Value {
    let runs = context.dir().join(".youbencha-workspace/runs");
    let run = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    let results: Value =
        serde_json::from_slice(&std::fs::read(run.join("artifacts/results.json")).unwrap()).unwrap();
    json!([outcome.code, outcome.stdout.contains("failed"), results["summary"], results["outcome"]])
}

/// A context without an agent CLI, to test receivers.
fn plain() -> TestContext {
    let context = TestContext::new();
    let repo = context.dir().join("repo");
    std::fs::create_dir(&repo).unwrap();
    Repo::init(&repo).write("greet.sh", "echo Hello!\n").commit("start");
    let agent =
        "agent: { type: command, config: { prompt: Greet by name., command: { argv: [touch, a, b] } } }";
    let case: Vec<&str> =
        CASE.lines().map(|line| if line.starts_with("agent:") { agent } else { line }).collect();
    context.write("case.yaml", case.join("\n"));
    context
}

fn traced(context: &TestContext, env: &[(&str, String)]) -> (Outcome, Duration) {
    let path: OsString = std::env::var_os("PATH").unwrap();
    let mut command = context.command(YB).args(["run", "-c", "case.yaml"]).env("PATH", path);
    for (name, value) in env {
        command = command.env(name, value);
    }
    let began = Instant::now();
    let outcome = command.run();
    (outcome, began.elapsed())
}

#[test]
fn unavailable_receiver_does_not_change_results() {
    let untraced = plain();
    let expected = results(&untraced, &traced(&untraced, &[]).0);
    let (hanging, refusing) = (OtlpReceiver::start(), OtlpReceiver::start());
    hanging.hang(true);
    refusing.respond_with(500);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = format!("http://{nobody}");
    for (who, endpoint) in
        [("down", nobody), ("hanging", hanging.endpoint()), ("refusing", refusing.endpoint())]
    {
        let context = plain();
        let patience = ("OTEL_EXPORTER_OTLP_TIMEOUT", "2000".to_owned());
        let (outcome, took) = traced(&context, &[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint), patience]);
        assert_eq!(results(&context, &outcome), expected, "{who}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains("warning: trace is incomplete: "), "{who}: {}", outcome.stderr);
        // A hang guard, in case it waits for the receiver.
        assert!(took < Duration::from_secs(45), "{who}: {took:?}");
    }
}

#[test]
fn agent_without_messages_has_a_span() {
    let context = plain();
    let (outcome, _) = traced(&context, &[("YB_OTEL_FILE", "trace.jsonl".to_owned())]);
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    assert_snapshot!(span_tree(&spans_in_file(&context.dir().join("trace.jsonl"))), @"
    run greeting
      trial greeting--default--1
        invoke_agent command
        evaluate git-diff
        evaluate command
    ");
}

#[test]
fn tracing_is_off_by_default_and_invalid_options_are_rejected() {
    let context = plain();
    let (outcome, _) = traced(&context, &[("OTEL_SERVICE_NAME", "x".to_owned())]);
    assert!(!outcome.stderr.contains("trace"), "{}", outcome.stderr);
    let context = plain();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1".to_owned());
    let (outcome, _) = traced(&context, &[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke".to_owned())]);
    assert_snapshot!(outcome.snapshot(), @"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: unsupported value of `OTEL_EXPORTER_OTLP_PROTOCOL`: `smoke`
    hint: `http/protobuf`, `http/json` or `grpc`
    ");
    assert!(!context.dir().join(".youbencha-workspace").exists());
}

/// A judge is an agent span below its evaluator, and a timeout is an error.
#[test]
fn trace_has_judges_and_timeouts() {
    let context = plain();
    let case = context.read("case.yaml");
    let judge = "  - name: agentic-judge-style
    config:
      type: command
      command: { argv: [sh, -c, 'printf nothing'] }
      assertions: { named: It greets by name. }
";
    let slow = case.replace("argv: [touch, a, b]", "argv: [sleep, '100']");
    context.write("case.yaml", format!("{slow}\n{judge}timeouts: {{ agent: 300ms }}\n"));
    let (outcome, _) = traced(&context, &[("YB_OTEL_FILE", "trace.jsonl".to_owned())]);
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    let spans = spans_in_file(&context.dir().join("trace.jsonl"));
    assert_snapshot!(span_tree(&spans), @"
    run greeting
      trial greeting--default--1 ERROR timeout
        invoke_agent command ERROR timeout
        evaluate git-diff
        evaluate command
        evaluate agentic-judge-style ERROR grader_error
          invoke_agent command
    ");
}
