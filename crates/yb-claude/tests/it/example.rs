//! The README's example, run as a user would run it.

use std::path::{Path, PathBuf};

use yb_tape::{Script, Server, ServerOptions, Vars};
use yb_testkit::{RealClaude, TestContext};

fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples/ask");
    assert!(example.is_file(), "cargo builds the examples with the tests: {}", example.display());
    example
}

#[test]
fn real_claude_answers_the_readme_example() {
    let script =
        "{ tape: 1, lanes: { main: [ { say: It runs agents., usage: { input: 100, output: 7 } } ] } }";
    let server =
        Server::start(Script::parse(script, &Vars::new()).unwrap(), &ServerOptions::default()).unwrap();
    let claude = RealClaude::new();
    let context = TestContext::new();
    let command = context.command(example()).arg("What does it do?").envs(claude.env(&server.base_url()));
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
