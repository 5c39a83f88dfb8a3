//! The two digests: what changes each, and what changes neither.

use yb_case::suite::{self, Combination};

use crate::case::options;
use crate::suite::Files;

const COMMIT: &str = "0123456789012345678901234567890123456789";

const CASE: &str = "youbencha: 1
name: one
description: x
repo: https://github.com/example/x.git
branch: main
agent:
  type: claude-code
  model: claude-opus-5-5
  config:
    prompt: Make greet.sh greet.
    allowed_tools: [Read, Write]
    mcp_servers: { a: { command: x, args: [y] }, b: { command: z } }
    extra_args: { betas: x, debug: null }
    claude-code: { max_turns: 3 }
env: { A: '1', B: '${ENV:SECRET}' }
pre_execution: [{ name: script, config: { command: make, args: [setup], env: { X: '1', Y: '2' } } }]
post_evaluation: [{ name: script, config: { command: ./notify } }]
expected_source: branch
expected: done
evaluators:
  - { name: git-diff, config: { assertions: { max_files_changed: 1, max_lines_added: 2 } } }
  - { name: agentic-judge, config: { type: claude-code, prompt_file: judge.md, assertions: [It greets.] } }
  - { file: size.yaml }
timeouts: { agent: 5m, evaluators: 1m, clone: 1m }
capture: { include: [dist] }
";

fn files() -> Files {
    let files = Files::new();
    files.write("judge.md", "Look at the tests.");
    files.write("size.yaml", "name: git-diff\nconfig: { assertions: { max_lines_removed: 3 } }\n");
    files
}

fn only(files: &Files, name: &str, text: &str) -> Combination {
    let loaded = suite::load(&files.write(name, text), &options());
    assert!(loaded.suite.is_some(), "{text}\n{}", files.messages(&loaded));
    loaded.suite.unwrap().combinations.remove(0)
}

fn digests(one: &Combination) -> (String, String) {
    (one.task_digest(COMMIT), one.grade_digest())
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Changes {
    Nothing,
    Task,
    Grade,
}

#[track_caller]
fn changes(replacements: &[(&str, &str)], expected: Changes) {
    let files = files();
    let before = digests(&only(&files, "case.yaml", CASE));
    let mut text = CASE.to_owned();
    for (from, to) in replacements {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let after = digests(&only(&files, "case.yaml", &text));
    let found = match (before.0 != after.0, before.1 != after.1) {
        (false, false) => Some(Changes::Nothing),
        (true, false) => Some(Changes::Task),
        (false, true) => Some(Changes::Grade),
        (true, true) => None,
    };
    assert_eq!(found, Some(expected), "{replacements:?}");
}

#[test]
fn agent_inputs_change_only_the_task_digest() {
    for (from, to) in [
        ("greet.\n    allowed", "greet by name.\n    allowed"),
        ("https://github.com/example/x", "https://github.com/example/y"),
        ("branch: main", "branch: next"),
        ("claude-opus-5-5", "claude-sonnet-4-5"),
        ("type: claude-code\n  model", "type: claude-code\n  agent_name: helper\n  model"),
        ("[Read, Write]", "[Read]"),
        ("command: z", "command: w"),
        ("betas: x", "betas: y"),
        ("max_turns: 3", "max_turns: 4"),
        ("A: '1'", "A: '2'"),
        ("A: '1'", "C: '1'"),
        ("${ENV:SECRET}", "${ENV:OTHER}"),
        ("args: [setup]", "args: [other]"),
        ("agent: 5m", "agent: 6m"),
        ("[dist]", "[out]"),
        ("capture:", "isolation: none\ncapture:"),
        ("capture:", "max_budget_usd: 1\ncapture:"),
    ] {
        changes(&[(from, to)], Changes::Task);
    }
}

#[test]
fn grading_changes_only_the_grade_digest() {
    for (from, to) in [
        ("max_files_changed: 1", "max_files_changed: 2"),
        ("It greets.", "It greets by name."),
        ("  - { file: size.yaml }\n", ""),
        ("expected: done", "expected: other"),
        ("evaluators: 1m", "evaluators: 2m"),
        ("name: agentic-judge", "name: agentic-judge-tests"),
        ("expected: done", "expected: done\nmay_change: [src]"),
    ] {
        changes(&[(from, to)], Changes::Grade);
    }
    for (file, text) in [
        ("judge.md", "Look at the code."),
        ("size.yaml", "name: git-diff\nconfig: { assertions: { max_lines_removed: 4 } }\n"),
    ] {
        let files = files();
        let before = digests(&only(&files, "case.yaml", CASE));
        files.write(file, text);
        let after = digests(&only(&files, "case.yaml", CASE));
        assert!(before.0 == after.0 && before.1 != after.1, "{file}");
    }
}

#[test]
fn formatting_does_not_change_digests() {
    for replacements in [
        &[("name: one", "name: two"), ("description: x", "description: y")][..],
        &[("youbencha: 1\n", "# a comment\nyoubencha: 1\ntags: [a]\n\n")],
        &[(
            "{ a: { command: x, args: [y] }, b: { command: z } }",
            "{ b: { command: z }, a: { args: [y], command: x } }",
        )],
        &[("{ betas: x, debug: null }", "{ debug: true, betas: x }")],
        &[("{ A: '1', B: '${ENV:SECRET}' }", "\n  B: \"${ENV:SECRET}\"\n  A: \"1\"")],
        &[("{ X: '1', Y: '2' }", "{ Y: '2', X: '1' }")],
        &[("{ max_files_changed: 1, max_lines_added: 2 }", "{ max_lines_added: 2, max_files_changed: 1 }")],
        &[(
            "timeouts: { agent: 5m, evaluators: 1m, clone: 1m }",
            "timeouts: { clone: 2m, evaluators: 60000, agent: 300s }",
        )],
        &[("./notify", "./other")],
        &[("prompt: Make greet.sh greet.\n", "prompt: >\n      Make\n      greet.sh greet.\n")],
        &[("https://github.com", "https://user@github.com")],
    ] {
        changes(replacements, Changes::Nothing);
    }
}

#[test]
fn digests_do_not_depend_on_file_locations() {
    let (files, other) = (files(), files());
    let before = digests(&only(&files, "case.yaml", CASE));
    assert_eq!(before, digests(&only(&other, "renamed.yml", CASE)));
    other.write("prompt.md", "Make greet.sh greet.\n");
    let from_file = CASE.replace("prompt: Make greet.sh greet.", "prompt_file: prompt.md");
    assert_eq!(before, digests(&only(&other, "case.yaml", &from_file)));
    other
        .write("size.yaml", "# a comment\nconfig:\n  assertions: { max_lines_removed: 3 }\nname: git-diff\n");
    assert_eq!(before, digests(&only(&other, "case.yaml", CASE)));
    let suite = format!("youbencha: 1\nname: s\ncases:\n  - {}", CASE.trim_end().replace('\n', "\n    "));
    assert_eq!(before, digests(&only(&other, "suite.yaml", &suite)), "inline in a suite");
    let local = CASE
        .replace("repo: https://github.com/example/x.git\nbranch: main", "directory: app")
        .replace("expected_source: branch\nexpected: done\n", "");
    assert_eq!(digests(&only(&files, "case.yaml", &local)), digests(&only(&other, "case.yaml", &local)));
}

#[test]
fn task_digest_includes_commit_variant_and_agent_version() {
    let files = files();
    let one = only(&files, "case.yaml", CASE);
    assert_ne!(one.task_digest(COMMIT), one.task_digest("another"));
    files.write("case.yaml", CASE);
    let variants = "[{ name: a }, { name: b, model: claude-sonnet-4-5 }, { name: c, version: 2.1.0 }]";
    let text = format!("youbencha: 1\nname: s\ncases: [case.yaml]\nvariants: {variants}\n");
    let loaded = suite::load(&files.write("suite.yaml", &text), &options());
    let all = loaded.suite.unwrap().combinations;
    assert_eq!(digests(&all[0]), digests(&one));
    assert_ne!(all[1].task_digest(COMMIT), one.task_digest(COMMIT));
    assert_ne!(all[2].task_digest(COMMIT), one.task_digest(COMMIT));
    assert!(all.iter().all(|other| other.grade_digest() == one.grade_digest()));
    // Written down, so that a change of the format is a decision.
    assert_eq!(one.task_digest(COMMIT)[..16], *"2394f2180c68bbec");
    assert_eq!(one.grade_digest()[..16], *"7413cb3708f17cb5");
}
