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
        Self::with_model(MODEL)
    }

    fn with_model(model: &str) -> Self {
        let context = TestContext::new();
        let repo = context.dir().join("repo");
        std::fs::create_dir(&repo).unwrap();
        Repo::init(&repo).write("greet.sh", "echo Hello!\n").commit("start");
        context.write("case.yaml", CASE);
        let script = Script::parse(model, &Vars::new()).unwrap();
        let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
        Self { context, server, claude: RealClaude::new() }
    }

    pub(crate) fn run(&self, args: &[&str]) -> Invocation {
        self.yb(&["run", "-c", "case.yaml"]).args(args)
    }

    pub(crate) fn yb(&self, args: &[&str]) -> Invocation {
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
run greeting ERROR failed
  trial greeting--default--1 ERROR failed
    invoke_agent claude-code
      chat claude-opus-5-5
      execute_tool Bash
      chat claude-opus-5-5
      execute_tool Agent
        invoke_agent general-purpose
          chat claude-opus-5-5
          execute_tool Read ERROR tool_error
          chat claude-opus-5-5
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
    assert_eq!(
        (&run.attributes["youbencha.outcome"], &run.attributes["youbencha.score"]),
        (&json!("failed"), &json!(0.5))
    );
    assert_eq!(run.message, "0 of 1 trials passed");
    assert_eq!(trial["youbencha.score"], 0.5);
    let agent = &named(&spans, "invoke_agent claude-code").attributes;
    assert_eq!(agent["gen_ai.provider.name"], "anthropic");
    assert!(agent["gen_ai.agent.version"].as_str().unwrap().starts_with("2."), "{agent:?}");
    assert_eq!(named(&spans, "evaluate git-diff").status, 0, "success is not a status");
    for name in ["run greeting", "trial greeting--default--1"] {
        assert!(named(&spans, name).attributes.keys().all(|key| !key.ends_with(".value")), "{name}");
    }
    assert_eq!(run.resource["service.name"], "youbencha");
    let chats: Vec<&ReceivedSpan> = spans.iter().filter(|span| span.name.starts_with("chat ")).collect();
    assert_eq!(chats[0].attributes["gen_ai.usage.output_tokens"], 20);
    assert_eq!(chats[0].attributes["gen_ai.usage.cache_read.input_tokens"], 7);

    // Verdicts refer to the agent span, the outcome to the trial. Spans have them too, for receivers of traces only.
    let result = ["gen_ai.evaluation.result"];
    for name in ["trial greeting--default--1", "evaluate git-diff", "evaluate command"] {
        assert_eq!(named(&spans, name).events, result, "{name}");
    }
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
        [
            (json!("git-diff"), json!("passed"), true),
            (json!("command"), json!("failed"), true),
            (json!("greeting--default--1"), json!("failed"), false),
        ]
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

/// Returns an artifact of the trial.
fn artifact(context: &TestContext, name: &str) -> String {
    let runs = context.dir().join(".youbencha-workspace/runs");
    let run = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    std::fs::read_to_string(run.join("trials/greeting--default--1/attempt-1/artifacts").join(name)).unwrap()
}

/// Returns a file of the workspace.
fn left(context: &TestContext, name: &str) -> String {
    let runs = context.dir().join(".youbencha-workspace/runs");
    let run = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    let path = run.join("trials/greeting--default--1/attempt-1/src-modified").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// A main loop that starts two subagents of three calls each, the second one in the background if `background` is set.
fn two_subagents(background: bool) -> String {
    let agent = |name: &str, background: bool| {
        format!(
            "{{ Agent: {{ description: d, prompt: Help {name}, subagent_type: general-purpose, run_in_background: {background} }} }}"
        )
    };
    let lane = |name: &str, input: u64| {
        let bash = "tools: [{ Bash: { command: echo hi, description: Hi } }]";
        format!(
            "  {name}:
    match: Help {name}
    replies:
      - {{ say: First., {bash}, usage: {{ input: {input}, output: 30, cache_read: 5 }} }}
      - {{ {bash}, usage: {{ input: {input}, output: 41, cache_write: 3 }} }}
      - {{ say: Done., usage: {{ input: {input}, output: 52 }} }}
"
        )
    };
    format!(
        "tape: 1
lanes:
  main:
    - {{ say: Both., tools: [{}, {}], usage: {{ input: 100, output: 20, cache_read: 7 }} }}
    - {{ say: Looking., tools: [{{ Bash: {{ command: echo hi, description: Hi }} }}], usage: {{ input: 110, output: 21 }} }}
    - {{ say: Done., usage: {{ input: 120, output: 22 }} }}
    - {{ say: The other one is done., usage: {{ input: 130, output: 23 }} }}
{}{}",
        agent("first", false),
        agent("second", background),
        lane("first", 200),
        lane("second", 300)
    )
}

/// Every model call has its tokens and its cost, and their sum is what the agent reports.
#[test]
fn real_claude_model_calls_of_two_subagents_add_up_to_the_run() {
    for background in [false, true] {
        let world = World::with_model(&two_subagents(background));
        let outcome = world.run(&["--otel-file", "trace.jsonl"]).run();
        assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
        let spans = world.file();
        let chats: Vec<_> = spans.iter().filter(|span| span.name.starts_with("chat ")).collect();
        let requests =
            world.server.requests().iter().filter(|request| request.path.contains("/v1/messages")).count();
        assert_eq!(chats.len(), requests, "background {background}: {}", span_tree(&spans));
        let sum = |name: &str| -> f64 {
            chats
                .iter()
                .map(|chat| {
                    let value = chat.attributes.get(name).and_then(Value::as_f64);
                    value.unwrap_or_else(|| panic!("no {name}: {:?}", chat.attributes))
                })
                .sum()
        };
        let (input, output) = (sum("gen_ai.usage.input_tokens"), sum("gen_ai.usage.output_tokens"));
        let cost = sum("youbencha.cost_usd");
        let log: Value = serde_json::from_str(&artifact(&world.context, "youbencha-log.json")).unwrap();
        let agent = &named(&spans, "invoke_agent claude-code").attributes;
        assert_eq!((input, output), (agent_usage(agent, "input"), agent_usage(agent, "output")), "{log}");
        assert_eq!(log["usage"]["output_tokens"], output);
        let run = &named(&spans, "run greeting").attributes;
        for total in [&agent["youbencha.cost_usd"], &run["youbencha.cost_usd"]] {
            assert!((cost - total.as_f64().unwrap()).abs() < 1e-9, "{cost} is not {total}");
        }
        for helper in spans.iter().filter(|span| span.name == "invoke_agent general-purpose") {
            let own = chats.iter().filter(|chat| chat.parent_id == helper.span_id);
            assert_eq!(own.count(), 3, "{}", span_tree(&spans));
        }
        // The first call starts with its request, not with the process.
        let agent = named(&spans, "invoke_agent claude-code");
        assert!(chats[0].start > agent.start && chats[0].end >= chats[0].start);
        assert!(!format!("{spans:?}").contains("unattributed"));
    }
}

fn agent_usage(attributes: &serde_json::Map<String, Value>, kind: &str) -> f64 {
    attributes[&format!("gen_ai.usage.{kind}_tokens")].as_f64().unwrap()
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
    let prompt = "Greet $GREET_TOKEN, [REDACTED:GREET_TOKEN].";
    for span in [run, named(&spans, "trial greeting--default--1")] {
        assert_eq!(span.attributes["input.value"], prompt);
        let output = span.attributes["output.value"].as_str().unwrap();
        assert!(output.starts_with("failed, score 0.50\n"), "{output}");
    }
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
    run greeting ERROR failed
      trial greeting--default--1 ERROR failed
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
    let endpoint = ("YB_OTEL_ENDPOINT", "http://127.0.0.1:1".to_owned());
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

/// Variables that are meant for other programs don't stop a run that was not asked for a trace.
#[test]
fn invalid_variables_do_not_stop_a_run_without_a_trace() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    for (variables, warned) in [
        (&[("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_BSP_MAX_QUEUE_SIZE", "many")][..], false),
        (&[endpoint, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")], false),
        (&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke")], true),
        (&[endpoint, ("OTEL_METRICS_EXPORTER", "prometheus")], true),
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere")], true),
        (&[endpoint, ("OTEL_TRACES_SAMPLER_ARG", "x"), ("OTEL_TRACES_SAMPLER", "traceidratio")], true),
    ] {
        let context = plain();
        let mut env: Vec<(&str, String)> =
            variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        env.push(("OTEL_LOGS_EXPORTER", "none".to_owned()));
        let (outcome, _) = traced(&context, &env);
        assert_eq!(outcome.code, Some(1), "{variables:?}: {}{}", outcome.stdout, outcome.stderr);
        let text = &outcome.stderr;
        assert_eq!(text.contains("warning: tracing is off: "), warned, "{variables:?}: {text}");
    }
}

#[test]
fn console_exporter_writes_to_standard_error() {
    let context = plain();
    let (outcome, _) = traced(&context, &[("OTEL_TRACES_EXPORTER", "console".to_owned())]);
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    assert!(!outcome.stdout.contains("resourceSpans"), "{}", outcome.stdout);
    let lines = outcome.stderr.lines().filter(|line| line.starts_with('{'));
    let requests: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        requests.iter().any(|request| request.to_string().contains("run greeting")),
        "{}",
        outcome.stderr
    );
    assert!(
        requests.iter().all(|request| request.get("resourceSpans").is_some()),
        "no other signal was asked for"
    );
}

/// A grading without an agent is a trace of its evaluators, whether it grades a directory or a run.
#[test]
fn grading_is_traced() {
    let context = plain();
    traced(&context, &[]);
    let path = std::env::var_os("PATH").unwrap();
    let eval = |args: &[&str]| context.command(YB).args(["eval"]).args(args).env("PATH", &path).run();
    let outcome = eval(&["--from", "latest", "--otel-file", "again.jsonl"]);
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    // Evaluators start in any order.
    let again = span_tree(&spans_in_file(&context.dir().join("again.jsonl")));
    let mut lines: Vec<&str> = again.lines().collect();
    lines[2..].sort_unstable();
    assert_eq!(
        lines,
        [
            "eval greeting ERROR failed",
            "  trial greeting--default--1 ERROR failed",
            "    evaluate command",
            "    evaluate git-diff",
        ]
    );
    context.write("eval.yaml", "youbencha: 1\nname: tidy\ndescription: d\ndirectory: repo\nevaluators:\n  - { name: command, config: { argv: [\"true\"] } }\n");
    let outcome = eval(&["eval.yaml", "--otel-file", "directory.jsonl"]);
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let spans = spans_in_file(&context.dir().join("directory.jsonl"));
    assert_snapshot!(span_tree(&spans), @"
    eval tidy
      evaluate command
    ");
    assert_eq!(spans[0].attributes["youbencha.score"], 1.0);
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
    run greeting ERROR failed
      trial greeting--default--1 ERROR timeout
        invoke_agent command ERROR timeout
        evaluate git-diff
        evaluate command
        evaluate agentic-judge-style ERROR grader_error
          invoke_agent command
    ");
}
