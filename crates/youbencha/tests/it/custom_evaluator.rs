//! An evaluator beside the built-in ones: `examples/line_length.rs` is one file, and every command knows it.

use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use serde_json::Value;
use yb_testkit::TestContext;
use yb_testkit::git::Repo;

use crate::YB;

/// The example, which Cargo builds together with the tests.
fn program() -> PathBuf {
    let path = Path::new(YB).with_file_name("examples").join("line_length");
    assert!(path.is_file(), "no {}; hint: run `cargo build -p youbencha --examples`", path.display());
    path
}

fn case(config: &str) -> String {
    format!(
        "youbencha: 1
name: lines
description: Lines are short.
repo: repo
agent: {{ type: command, config: {{ prompt: Write a file., command: {{ argv: [sh, -c, 'echo 123456 > new.txt'] }} }} }}
evaluators: [{{ name: line-length-new, config: {config} }}]
"
    )
}

#[test]
fn custom_evaluator_is_listed() {
    let context = TestContext::new();
    let outcome = context.command(program()).args(["list", "evaluators"]).run();
    let line = "  line-length     the longest line of each file, against a limit\n";
    assert!(outcome.stdout.ends_with(line), "{}", outcome.stdout);
    let outcome = context.command(program()).args(["list", "evaluators", "--json"]).run();
    let list: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let last = list["evaluators"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["name"], &last["needs"]), (&"line-length".into(), &"objects".into()));
}

#[test]
fn custom_evaluator_is_in_the_schemas() {
    let context = TestContext::new();
    for of in ["case", "eval", "suite"] {
        let outcome = context.command(program()).args(["schema", of]).run();
        let schema: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(schema["$defs"]["lineLength"]["required"], serde_json::json!(["max"]), "{of}");
        let outcome = context.command(YB).args(["schema", of]).run();
        assert!(!outcome.stdout.contains("lineLength"), "{of}");
    }
}

#[test]
fn config_of_custom_evaluator_is_validated() {
    let context = TestContext::new();
    context.write("repo/.keep", "");
    context.write("case.yaml", case("{ max: 80, includes: ['*.txt'] }"));
    let outcome = context.command(program()).args(["validate", "case.yaml"]).run();
    assert_snapshot!(outcome.snapshot(), @r"
    exit code: 2
    ----- stdout -----
    error: unknown key: `includes`
     --> case.yaml:6:58
    6 | evaluators: [{ name: line-length-new, config: { max: 80, includes: ['*.txt'] } }]
      |                                                          ^^^^^^^^
      = key: `evaluators[0].config.includes`
    hint: did you mean `include`?

    invalid: 1 file, 1 error
    ----- stderr -----
    ");
    let outcome = context.command(YB).args(["validate", "case.yaml"]).run();
    assert!(outcome.stdout.contains("error: unknown evaluator: `line-length-new`"), "{}", outcome.stdout);
}

#[test]
fn custom_evaluator_decides_a_run() {
    let context = TestContext::new();
    std::fs::create_dir(context.dir().join("repo")).unwrap();
    Repo::init(context.dir().join("repo")).write("old.txt", "123456789\n").commit("start");
    for (config, code, line) in [
        ("{ max: 9 }", 0, "line-length-new: passed: ✓ 2 files checked"),
        ("{ max: 5 , include: ['new.*'] }", 1, "failed: ✗ 1 files checked | `new.txt` has a line of 6 bytes"),
    ] {
        context.write("case.yaml", case(config));
        let outcome = context.command(program()).args(["run", "-c", "case.yaml"]).run();
        assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
        assert!(outcome.stdout.contains(line), "{}", outcome.stdout);
    }
}
