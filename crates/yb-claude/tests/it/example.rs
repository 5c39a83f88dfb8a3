//! The README's example, run as a user would run it.

use std::path::{Path, PathBuf};

use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{RealClaude, TestContext};

fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(example.is_file(), "cargo builds the examples with the tests: {}", example.display());
    example
}

#[test]
fn real_claude_answers_the_readme_example() {
    let script =
        "{ tape: 1, lanes: { main: [ { say: It runs agents., usage: { input: 100, output: 7 } } ] } }";
    let server =
        MockServer::start(Script::parse(script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let claude = RealClaude::new();
    let context = TestContext::new();
    let command =
        context.command(example("ask")).arg("What does it do?").envs(claude.env(&server.base_url()));
    let outcome = command.env("YB_CLAUDE", claude.program()).run();
    assert!(outcome.success(), "{}", outcome.stderr);
    let mut lines = outcome.stdout.lines();
    assert_eq!(lines.next(), Some("It runs agents."));
    assert!(lines.next().unwrap().ends_with(", 107 tokens"), "{}", outcome.stdout);
}

#[test]
fn the_readme_shows_the_example_that_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (readme, example) = (read("README.md"), read("examples/ask.rs"));
    let (_, code) = readme.split_once("```rust\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    for line in code.lines() {
        assert!(example.lines().any(|known| known == line), "not in the example: {line}");
    }
}

/// An example of the SDK, run as a user would run it, with the replies of a scripted model.
fn run(name: &str, args: &[&str], script: &str) -> String {
    let server =
        MockServer::start(Script::parse(script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let claude = RealClaude::new();
    let context = TestContext::new();
    let command = context.command(example(name)).args(args).envs(claude.env(&server.base_url()));
    let outcome = command.env("YB_CLAUDE", claude.program()).run();
    assert!(outcome.success(), "{}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.stderr, "", "a library prints nothing");
    outcome.stdout
}

#[test]
fn real_claude_runs_the_one_shot_example() {
    // The second query has a schema, and with it a tool for the answer.
    let output = run(
        "one_shot",
        &["Is it tested?"],
        "{ tape: 1, lanes: { main: [ { say: It is., tools: [ { StructuredOutput: { yes: true, because: 'It says so.' } } ] }, { say: Indeed. } ] } }",
    );
    assert_eq!(output, "says   It is.\nsays   \nsays   Indeed.\nresult success\nyes: It says so.\n");
}

#[test]
fn real_claude_runs_the_example_with_hooks_and_a_tool() {
    let output = run(
        "hooks_and_tool",
        &[],
        "{ tape: 1, lanes: { main: [ \
           { tools: [ { mcp__home__weather: { town: Oslo } }, { Bash: { command: rm -r x, description: Tidy } } ] }, \
           { tools: [ { Bash: { command: ls, description: Look } }, { WebFetch: { url: 'http://127.0.0.1:1/', prompt: p } } ] }, \
           { say: It rains in Oslo. } ] } }",
    );
    let mut lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.pop(), Some("It rains in Oslo."));
    assert!(lines.iter().any(|line| line.starts_with("hook") && line.contains("rm -r x")), "{output}");
    assert!(lines.contains(&"asked  WebFetch"), "{output}");
}

#[test]
fn real_claude_runs_the_example_with_many_turns() {
    let output = run(
        "many_turns",
        &[],
        "{ tape: 1, lanes: { main: [ { say: Nothing much. }, \
           { say: one two three four five, pace: { between: 150ms, chunk: 2 } }, { say: Goodbye. } ] } }",
    );
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "1 Nothing much.");
    assert_eq!(lines[1], "2 aborted_streaming");
    assert!(lines[2].starts_with("3 "), "{output}");
    assert!(lines[3].starts_with("used ") && lines[4] == "ended with exit code 0", "{output}");
}

/// Line by line, however deep it stands.
#[test]
fn the_page_about_the_sdk_shows_what_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let examples = ["one_shot", "hooks_and_tool", "many_turns"]
        .map(|name| std::fs::read_to_string(root.join(format!("examples/{name}.rs"))).unwrap())
        .join("\n");
    let page = std::fs::read_to_string(root.join("../../docs/guides/sdk.md")).unwrap();
    for block in page.split("```rust\n").skip(1) {
        let (code, _) = block.split_once("```").unwrap();
        for line in code.lines().map(str::trim) {
            assert!(examples.lines().any(|known| known.trim() == line), "in no example: {line}");
        }
    }
}
