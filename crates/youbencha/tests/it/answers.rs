//! The evaluator `answer` end to end.

use yb_testkit::TestContext;

use crate::YB;

/// Runs a case whose agent prints this answer.
fn run(said: &str, config: &str) -> yb_testkit::Outcome {
    let context = TestContext::new();
    context.write("start/a.txt", "a\n");
    context.write("more.json", r#"{"contains": ["${NAME}"], "json_schema": {"required": ["n"]}}"#);
    context.write("unknown.json", r#"{"equal": 1}"#);
    let agent = serde_json::to_string(&format!("printf '%s' '{said}'")).unwrap();
    let case = format!(
        "youbencha: 1
name: asking
description: What is it?
directory: start
agent: {{ type: command, config: {{ prompt: Say what it is., command: {{ argv: [sh, -c, {agent}] }} }} }}
evaluators: [{{ name: answer, config: {{ {config} }} }}]
"
    );
    context.write("case.yaml", case);
    context.command(YB).args(["run", "-c", "case.yaml"]).run()
}

#[test]
fn answer_evaluator_compares_text_and_value() {
    for (said, config, code, message) in [
        ("It is Paris. ", "assertions: { equals: It is Paris. }", 0, "✓ 1 of 1 checks passed"),
        (
            "Rome",
            "assertions: { equals: Paris }",
            1,
            "✗ 0 of 1 checks passed | expected `Paris`, found `Rome`",
        ),
        ("Rome", "assertions: { contains: [om, x] }", 1, "✗ 1 of 2 checks passed | `x` is not in `Rome`"),
        ("Rome", "assertions: { matches: '^R..e$' }", 0, "✓ 1 of 1 checks passed"),
        (r#"{"n": 1.0}"#, "assertions: { json: { n: 1 } }", 0, "✓ 1 of 1 checks passed"),
        (r#"{"n": "${NAME}"}"#, "assertions_file: more.json", 0, "✓ 2 of 2 checks passed"),
        ("no", "assertions: { json: 1 }", 1, "✗ 0 of 1 checks passed | not JSON: `no`"),
        ("", "assertions: { matches: '.*' }", 1, "| the agent gave no answer"),
    ] {
        let outcome = run(said, config);
        assert_eq!(outcome.code, Some(code), "{said}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.contains(message), "{said}: {}", outcome.stdout);
    }
}

#[test]
fn answer_errors_are_reported_before_the_run_starts() {
    for (config, message) in [
        ("assertions: { equal: x }", "unknown key: `equal`"),
        ("assertions: { matches: '(' }", "invalid regular expression"),
        ("assertions: { json_schema: { type: 3 } }", "invalid JSON Schema"),
        ("assertions_file: gone.json", "failed to read the assertions"),
        ("assertions_file: unknown.json", "failed to read the assertions (unknown key `equal`)"),
    ] {
        let outcome = run("x", config);
        assert_eq!(outcome.code, Some(2), "{config}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains(message), "{config}: {}", outcome.stderr);
    }
    let vacuous = run("x", "assertions: {}");
    assert!(vacuous.stderr.contains("vacuous: it asserts nothing"), "{}", vacuous.stderr);
}
