//! A run as a trace: the whole tree at a receiver and in a file, whatever the receiver does, and nothing in it that nobody
//! asked for.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::{Value, json};
use yb_tape::{Script, Server, ServerOptions, Vars};
use yb_testkit::git::Repo;
use yb_testkit::{
    Invocation, OtlpReceiver, Outcome, RealClaude, ReceivedSpan, TestContext, spans_in_file,
    tree as span_tree,
};

use crate::YB;

/// A key that looks like one.
const KEY: &str = "not-a-real-key-but-a-secret";
/// What only the content of a trace may have.
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

/// A repository, a case and the real agent with a scripted model.
pub(crate) struct World {
    pub(crate) context: TestContext,
    server: Server,
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
        let server = Server::start(script, &ServerOptions::default()).unwrap();
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

/// The only span of this name.
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

/// One trace, at a receiver and in a file, with what the case is about and without what was said.
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

    // Verdicts are about the agent.
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

    // The child knew its place, and nobody was told what was said.
    let told = format!("00-{}-{}-01\n", agent.trace_id, agent.span_id);
    assert_eq!(left(&world.context, "traceparent"), told);
    let all = format!("{spans:?}{}", world.context.read("trace.jsonl"));
    for secret in [SAID, KEY, "Greet by name.", "cat greet.sh", "changed files"] {
        assert!(!all.contains(secret), "`{secret}` is in the trace");
    }
    yb_testkit::assert_no_process_in(&world.context.dir());
}

/// What an agent left in its workspace.
fn left(context: &TestContext, name: &str) -> String {
    let runs = context.dir().join(".youbencha-workspace/runs");
    let run = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    let path = run.join("trials/greeting--default--1/attempt-1/src-modified").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn real_claude_is_quoted_when_asked_for_and_secrets_are_not() {
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
    // Whoever started us has a trace of its own.
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
    // What was not allowed was denied.
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

/// What must be the same whether or not there is a receiver.
fn results(context: &TestContext, outcome: &Outcome) -> Value {
    let runs = context.dir().join(".youbencha-workspace/runs");
    let run = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    let results: Value =
        serde_json::from_slice(&std::fs::read(run.join("artifacts/results.json")).unwrap()).unwrap();
    json!([outcome.code, outcome.stdout.contains("failed"), results["summary"], results["outcome"]])
}

/// A world without an agent's CLI: what is tested is who receives.
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
fn a_receiver_that_is_down_hangs_or_refuses_changes_nothing() {
    let untraced = plain();
    let expected = results(&untraced, &traced(&untraced, &[]).0);
    let (hanging, refusing) = (OtlpReceiver::start(), OtlpReceiver::start());
    hanging.hang(true);
    refusing.answer(500);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = format!("http://{nobody}");
    for (who, endpoint) in
        [("down", nobody), ("hanging", hanging.endpoint()), ("refusing", refusing.endpoint())]
    {
        let context = plain();
        let patience = ("OTEL_EXPORTER_OTLP_TIMEOUT", "2000".to_owned());
        let (outcome, took) = traced(&context, &[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint), patience]);
        assert_eq!(results(&context, &outcome), expected, "{who}: {}{}", outcome.stdout, outcome.stderr);
        assert!(
            outcome.stderr.contains("warning: not all of the trace arrived: "),
            "{who}: {}",
            outcome.stderr
        );
        // A hang guard: it would wait for ever if it waited for the receiver.
        assert!(took < Duration::from_secs(45), "{who}: {took:?}");
    }
}

#[test]
fn an_agent_without_messages_has_a_span_too() {
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
fn nothing_is_traced_unless_asked_for_and_what_nobody_understands_is_an_error_before_anything_starts() {
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

/// A judge is an agent below its evaluator, and an agent whose time is over has failed.
#[test]
fn judges_and_timeouts_are_in_the_trace() {
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
