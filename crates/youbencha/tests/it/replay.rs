//! `yb run --record` and `--replay`: identical results, or a readable divergence.

use insta::assert_snapshot;
use serde_json::Value;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::git::Repo;
use yb_testkit::{Outcome, RealClaude, TestContext};

use crate::YB;

const MODEL: &str = r#"
tape: 1
lanes:
  main:
    - say: I look around.
      tools: [{ Bash: { command: cat greeting.txt, description: Look } }]
    - tools: [{ Write: { file_path: "{{workspace}}/greeting.txt", content: "Hello and welcome!\n" } }]
    - say: The greeting is friendlier now.
      usage: { input: 100, output: 20 }
"#;

fn suite(agent: &str) -> String {
    format!(
        "
youbencha: 1
name: replayed
cases:
  - name: greeting
    description: The greeting is friendly.
    repo: repo
    agent: {agent}
    tape: {{ script: model.yaml }}
    evaluators: [{{ name: command, config: {{ argv: [grep, -q, welcome, greeting.txt] }} }}]
"
    )
}

/// A context with a repository, a model script, and a suite with the built-in agent.
fn world() -> TestContext {
    let mut context = TestContext::new();
    context
        .filter(r"run-\d{4}-\d\d-\d\d-(\d+|\[HEX\])", "[RUN]")
        .filter(r"isolation: \w+", "isolation: [LEVEL]");
    let repo = context.dir().join("repo");
    std::fs::create_dir(&repo).unwrap();
    Repo::init(&repo).write("greeting.txt", "Hello.\n").commit("start");
    context.write("model.yaml", MODEL);
    let built_in = format!(
        r#"{{ type: command, config: {{ prompt: Be friendly., command: {{ argv: ["{YB}", scripted-agent], output: claude-stream-json }} }} }}"#
    );
    context.write("suite.yaml", suite(&built_in));
    context
}

fn yb(context: &TestContext, args: &[&str]) -> Outcome {
    context.command(YB).args(args).env("PATH", std::env::var("PATH").unwrap()).run()
}

fn trials(context: &TestContext) -> Vec<Value> {
    let printed = yb(context, &["report", "--format", "json", "--output", "-"]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let runs = context.dir().join(".youbencha-workspace/runs");
    let mut runs: Vec<_> = std::fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    runs.sort();
    let text = std::fs::read_to_string(runs.last().unwrap().join("results.json")).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    results["trials"].as_array().unwrap().clone()
}

fn record(context: &TestContext) {
    let outcome = yb(context, &["run", "-c", "suite.yaml", "--record", "tapes", "--quiet"]);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
}

#[test]
fn recorded_run_is_replayed_without_a_model() {
    let context = world();
    record(&context);
    let live = trials(&context);
    let tape = &live[0]["attempts"][0]["tape"];
    assert_eq!((&tape["how"], &tape["exchanges"]), (&"recorded_script".into(), &3.into()));
    // The script is deleted, so only the tape can answer.
    context.write("model.yaml", "tape: 1\nlanes: { main: [ { say: I am another. } ] }\n");
    let outcome = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--quiet"]);
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 0
    ----- stdout -----
    greeting: passed
      agent: command succeeded after [TIME], model scripted, 150 tokens
      isolation: [LEVEL], network: model-only
      tape: replayed, 3 exchanges: tapes/greeting--default--1.tape
      command: passed (in-process): ✓ exited with code 0
      artifacts: .youbencha-workspace/runs/[RUN]/trials/greeting--default--1/attempt-1/artifacts
    ----- stderr -----
    hint: inspect the trial: yb show latest
    ");
    let replayed = trials(&context);
    let (one, other) = (&live[0]["attempts"][0], &replayed[0]["attempts"][0]);
    assert_eq!(one["trees"], other["trees"]);
    assert_eq!(one["tokens"], other["tokens"]);
    assert_eq!((&other["tape"]["how"], &other["spend"]["agent_usd"]), (&"replayed".into(), &0.0.into()));
    assert_eq!(other["network"], "model-only");
    let log = context.dir().join(".youbencha-workspace/runs");
    let log = std::fs::read_dir(log).unwrap().map(|run| run.unwrap().path()).max().unwrap();
    let log = log.join("trials/greeting--default--1/attempt-1/artifacts/youbencha-log.json");
    let log: Value = serde_json::from_str(&std::fs::read_to_string(log).unwrap()).unwrap();
    assert_eq!(log["usage"]["source"], "observed");
}

#[test]
fn divergence_ends_the_trial_with_details() {
    let mut context = world();
    context.filter(r"after \[TIME\]", "after [TIME]");
    record(&context);
    Repo::init(context.dir().join("repo")).write("greeting.txt", "Good morning.\n").commit("another start");
    let outcome = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--quiet"]);
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 5
    ----- stdout -----
    greeting: diverged
      agent: command failed after [TIME], model scripted, 15 tokens
      isolation: [LEVEL], network: model-only
      tape: replayed, 1 exchange: tapes/greeting--default--1.tape
      error: replay diverged in lane `main`, turn 2: tool result differs
      │   differs:  result of tool call `toolu_main_1_2`
      │   expected: Hello.
      │   actual:   Good morning.
      │   tape:     [TEMP]/work/tapes/greeting--default--1.tape
      hint: make the output of the tool deterministic, or replay in `lenient` mode; if the change is intended, record again
      error: error_during_execution: the agent reports a failure
      command: failed (in-process): ✗ exited with code 1 | expected exit code 0
        output: .youbencha-workspace/runs/[RUN]/trials/greeting--default--1/attempt-1/artifacts/evaluators/1-command/output.log
      artifacts: .youbencha-workspace/runs/[RUN]/trials/greeting--default--1/attempt-1/artifacts
    ----- stderr -----
    hint: inspect the trial: yb show latest
    ");
    assert_eq!(outcome.code, Some(5));
    // Differing tool results can be tolerated and are counted.
    let lenient = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--lenient", "--quiet"]);
    assert_eq!(lenient.code, Some(0), "{}\n{}", lenient.stdout, lenient.stderr);
    assert_eq!(trials(&context)[0]["attempts"][0]["tape"]["tolerated"], 1);
    // A changed prompt diverges.
    let changed = context.read("suite.yaml").replace("Be friendly.", "Be rude.");
    context.write("suite.yaml", changed);
    let outcome = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--lenient", "--quiet"]);
    assert_eq!(outcome.code, Some(5), "{}\n{}", outcome.stdout, outcome.stderr);
}

#[test]
fn repeats_of_one_tape_are_one_observation() {
    let context = world();
    record(&context);
    let run = yb(
        &context,
        &[
            "run",
            "-c",
            "suite.yaml",
            "--replay",
            "tapes",
            "--repeat",
            "4",
            "--quiet",
            "--gate",
            "min_pass_rate=0.5",
        ],
    );
    assert_eq!(run.code, Some(0), "{}\n{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("1 of 1 trial"), "{}", run.stdout);
    let compared = yb(&context, &["compare", "latest", "latest", "--json"]);
    let compared: Value = serde_json::from_str(&compared.stdout).unwrap();
    assert_eq!(compared["cases"][0]["a"]["counted"], 1, "{compared:#}");
    let digests: std::collections::BTreeSet<String> =
        trials(&context).iter().map(|trial| trial["attempts"][0]["tape"]["digest"].to_string()).collect();
    assert_eq!(digests.len(), 1);
}

#[test]
fn fork_continues_live_after_the_tape() {
    let context = world();
    record(&context);
    let other = MODEL.replace("Hello and welcome!", "Hello and a warm welcome!");
    context.write("model.yaml", other);
    let outcome = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--fork", "1", "--quiet"]);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    let tape = &trials(&context)[0]["attempts"][0]["tape"];
    assert_eq!(
        (&tape["how"], &tape["exchanges"], &tape["forwarded"]),
        (&"forked".into(), &1.into(), &2.into())
    );
    let diff = yb(&context, &["show", "latest", "--diff"]);
    assert!(diff.stdout.contains("+Hello and a warm welcome!"), "{}", diff.stdout);
    let far = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--fork", "9"]);
    assert_snapshot!(far.snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: `--fork` refers to step 9, but lane `main` has 3 steps: `[TEMP]/work/tapes/greeting--default--1.tape`
    hint: `yb tape show` lists the steps of a tape
    ");
}

#[test]
fn missing_or_existing_tapes_are_reported_before_the_run_starts() {
    let context = world();
    assert_snapshot!(yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no tape for this trial: `[TEMP]/work/tapes/greeting--default--1.tape`
    hint: record it: `yb run -c FILE --record [TEMP]/work/tapes` makes one for each trial, such as `greeting--default--1.tape`
    ");
    record(&context);
    assert_snapshot!(yb(&context, &["run", "-c", "suite.yaml", "--record", "tapes"]).snapshot(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: tape already exists: `[TEMP]/work/tapes/greeting--default--1.tape`
    hint: record into another directory, or remove that one
    ");
    context.write("tapes/greeting--default--1.tape", "no tape");
    let broken = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes"]);
    assert_eq!(broken.code, Some(2), "{}", broken.stderr);
    assert!(broken.stderr.contains("error: not a recorded tape: `"), "{}", broken.stderr);
    context.write("model.yaml", "tape: 1\nlanes: { main: [ { sya: x } ] }\n");
    let outcome = yb(&context, &["run", "-c", "suite.yaml"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("sya"), "{}", outcome.stderr);
    context.write("suite.yaml", context.read("suite.yaml").replace("script: model.yaml", "mode: lenient"));
    let outcome = yb(&context, &["validate", "suite.yaml"]);
    assert!(format!("{}{}", outcome.stdout, outcome.stderr).contains("missing key: `script` or `replay`"));
}

#[test]
fn case_may_name_its_tape() {
    let context = world();
    record(&context);
    context.write(
        "suite.yaml",
        context.read("suite.yaml").replace("{ script: model.yaml }", "{ replay: tapes, speed: real }"),
    );
    let outcome = yb(&context, &["run", "-c", "suite.yaml", "--quiet"]);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(trials(&context)[0]["attempts"][0]["tape"]["how"], "replayed");
    let both = yb(&context, &["run", "-c", "suite.yaml", "--record", "more"]);
    assert_eq!(both.code, Some(2), "{}", both.stderr);
    assert!(both.stderr.contains("would reproduce the same tape"), "{}", both.stderr);
}

#[test]
fn injected_faults_reach_the_agent() {
    let context = world();
    record(&context);
    // The built-in agent does not retry.
    let outcome =
        yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--fault", "2:500", "--quiet"]);
    assert_ne!(outcome.code, Some(0), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("the agent reports a failure"), "{}", outcome.stdout);
    let nowhere = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--fault", "sub/1:cut"]);
    assert_eq!(nowhere.code, Some(2), "{}", nowhere.stderr);
    assert!(nowhere.stderr.contains("lane `sub` has 0 steps"), "{}", nowhere.stderr);
    assert_eq!(
        yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--fault", "2:x"]).code,
        Some(2)
    );
}

const WORDS: &str = "Be friendly within 30 seconds, by 2026-01-02, as in commit deadbeef1234.";

/// Edits of the prompt that normalization would hide.
const EDITS: [(&str, &str); 3] =
    [("30 seconds", "90 seconds"), ("2026-01-02", "2027-03-04"), ("deadbeef1234", "cafebabe5678")];

#[track_caller]
fn check_case_divergence(context: &TestContext, field: &str, actual: &str) {
    let outcome = yb(context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--quiet"]);
    assert_eq!(outcome.code, Some(5), "{}\n{}", outcome.stdout, outcome.stderr);
    let expected =
        "replay diverged in the case, before the agent started: the case differs from the recorded one";
    for text in [expected, &format!("differs:  `{field}`"), actual, "record again"] {
        assert!(outcome.stdout.contains(text), "{text}: {}", outcome.stdout);
    }
}

#[test]
fn replay_notices_the_words_of_the_case() {
    let context = world();
    let suite = context.read("suite.yaml").replace("prompt: Be friendly.", &format!("prompt: '{WORDS}'"));
    context.write("suite.yaml", &suite);
    record(&context);
    let replay = |more: &[&str]| {
        let args = [&["run", "-c", "suite.yaml", "--replay", "tapes"], more].concat();
        let outcome = yb(&context, &args);
        assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
        outcome.stderr
    };
    replay(&[]);
    for (from, to) in EDITS {
        context.write("suite.yaml", suite.replace(from, to));
        check_case_divergence(&context, "prompt", to);
    }
    // A fork may change the prompt on purpose, and says so.
    let shown = replay(&["--fork", "0"]);
    assert!(shown.contains("the case differs from the recorded one: `prompt`"), "{shown}");
}

#[test]
fn replay_reports_normalization_and_exact_refuses_it() {
    let context = world();
    let model = MODEL.replace("cat greeting.txt", "cat greeting.txt; date +%s.%N");
    context.write("model.yaml", model);
    record(&context);
    let outcome = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--quiet"]);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains(", normalized: 1 time"), "{}", outcome.stdout);
    assert_eq!(trials(&context)[0]["attempts"][0]["tape"]["normalized"], serde_json::json!({ "time": 1 }));
    let shown = yb(&context, &["show", "latest"]);
    assert!(shown.stdout.contains("normalized: 1 time"), "{}", shown.stdout);
    let json = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--json"]);
    assert!(json.stdout.contains(r#""normalized":{"time":1}"#), "{}", json.stdout);
    let exact = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--exact", "--quiet"]);
    assert_eq!(exact.code, Some(5), "{}\n{}", exact.stdout, exact.stderr);
    assert!(exact.stdout.contains("equal only after normalization"), "{}", exact.stdout);
    assert!(exact.stdout.contains("differs:  time in the result of tool call"), "{}", exact.stdout);
}

/// The prompt, and a system prompt that is on the tape only as a hash.
#[test]
fn real_claude_replay_notices_the_words_of_the_case() {
    let claude = RealClaude::new();
    let agent = format!("{{ type: claude-code, config: {{ prompt: '{WORDS}' }} }}");
    let env = format!("env: {{ YB_CLAUDE: '{}' }}\n    tape", claude.program().display());
    let suite = suite(&agent).replacen("tape", &env, 1);
    let context = world();
    context.write("suite.yaml", &suite);
    record(&context);
    // In another directory.
    let other = world();
    other.write("suite.yaml", &suite);
    std::fs::create_dir(other.dir().join("tapes")).unwrap();
    let tape = "tapes/greeting--default--1.tape";
    std::fs::copy(context.dir().join(tape), other.dir().join(tape)).unwrap();
    let outcome = yb(&other, &["run", "-c", "suite.yaml", "--replay", "tapes", "--exact", "--quiet"]);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    for (from, to) in EDITS {
        context.write("suite.yaml", suite.replace(from, to));
        check_case_divergence(&context, "prompt", to);
    }
    let added = format!("{WORDS}', append_system_prompt: 'Answer in French.");
    context.write("suite.yaml", suite.replace(WORDS, &added));
    check_case_divergence(&context, "append_system_prompt", "Answer in French.");
}

/// The real CLI is replayed in another workspace.
#[test]
fn real_claude_is_replayed_and_divergence_is_reported() {
    let context = world();
    let claude = RealClaude::new();
    let agent = "{ type: claude-code, config: { prompt: Make the greeting friendlier. } }";
    let env = format!("env: {{ YB_CLAUDE: '{}' }}\n    tape", claude.program().display());
    context.write("suite.yaml", suite(agent).replacen("tape", &env, 1));
    record(&context);
    let recorded = trials(&context);
    let outcome = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--repeat", "2", "--quiet"]);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    for trial in trials(&context) {
        assert_eq!(trial["attempts"][0]["trees"], recorded[0]["attempts"][0]["trees"]);
        assert_eq!(trial["attempts"][0]["spend"]["agent_usd"], 0.0);
        assert!(trial["attempts"][0]["tape"]["recorded_usd"].as_f64().unwrap() > 0.0);
    }
    Repo::init(context.dir().join("repo")).write("greeting.txt", "Good morning.\n").commit("another start");
    let outcome = yb(&context, &["run", "-c", "suite.yaml", "--replay", "tapes", "--quiet"]);
    assert_eq!(outcome.code, Some(5), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("diverged in lane `main`, turn 2"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("Good morning."), "{}", outcome.stdout);
}

/// After the first step, requests of the real CLI go to the API with another model.
#[test]
fn real_claude_forks_to_another_model_of_its_api() {
    let context = world();
    let claude = RealClaude::new();
    let agent = "{ type: claude-code, config: { prompt: Make the greeting friendlier. } }";
    context.write("suite.yaml", suite(agent).replacen("    tape: { script: model.yaml }\n", "", 1));
    let api = |text: &str| {
        let workspace = Vars::new().with("workspace", ".");
        MockServer::start(Script::parse(text, &workspace).unwrap(), &MockServerOptions::default()).unwrap()
    };
    let run = |server: &MockServer, args: &[&str]| {
        let command = context.command(YB).args(["run", "-c", "suite.yaml", "--quiet"]).args(args);
        let command = command.env("PATH", std::env::var("PATH").unwrap());
        let command = command.env("YB_CLAUDE", claude.program()).env("ANTHROPIC_API_KEY", "not-a-secret");
        let outcome = command.env("ANTHROPIC_BASE_URL", server.base_url()).run();
        assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    };
    run(&api(&MODEL.replace("{{workspace}}/", "")), &["--record", "tapes"]);
    let warmer =
        MODEL.replace("{{workspace}}/", "").replace("Hello and welcome!", "Hello and a warm welcome!");
    let other = api(&warmer);
    run(&other, &["--replay", "tapes", "--fork", "1", "--model", "claude-haiku-4-5"]);
    let asked = other.requests();
    assert_eq!(asked.len(), 2, "{asked:#?}");
    assert!(asked.iter().all(|seen| seen.body["model"] == "claude-haiku-4-5"), "{asked:#?}");
    let diff = yb(&context, &["show", "latest", "--diff"]);
    assert!(diff.stdout.contains("+Hello and a warm welcome!"), "{}", diff.stdout);
}
