//! An agent that is registered from outside, by one file (`examples/yb_with_toy_agent.rs`), works in every command.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use yb_testkit::{Outcome, TestContext};

use crate::YB;

const CASE: &str = "youbencha: 1
name: greeting
description: The script greets by name.
directory: app
agent:
  type: toy
  config: { prompt: Write the greeting., effort: low, toy: { mood: merry } }
evaluators: [{ name: files, config: { assertions: { exists: [greeting.txt] } } }]
";

/// The program that cargo builds from the example.
fn yb_with_toy() -> PathBuf {
    let path = Path::new(YB).with_file_name("examples").join("yb_with_toy_agent");
    assert!(path.is_file(), "no {}; hint: run `cargo build -p youbencha --examples`", path.display());
    path
}

/// A context with the agent's program on its `PATH`.
fn with_toy() -> (TestContext, String) {
    let context = TestContext::new();
    let program = context.root().join("bin/toy");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "#!/bin/sh\ncat > greeting.txt\necho \"$1 at $TOY_BASE_URL\"\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", context.root().join("bin").display(), std::env::var("PATH").unwrap());
    context.write("app/readme", "x");
    context.write("case.yaml", CASE);
    (context, path)
}

fn run(context: &TestContext, path: &str, args: &[&str]) -> Outcome {
    context.command(yb_with_toy()).args(args).env("PATH", path).run()
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

#[test]
fn registered_agent_is_listed_checked_and_in_the_schemas() {
    let (context, path) = with_toy();
    let listed = json(&run(&context, &path, &["list", "agents", "--json"]));
    let toy = listed["agents"].as_array().unwrap().last().unwrap();
    assert_eq!((&toy["name"], &toy["status"]), (&"toy".into(), &"ready".into()), "{toy}");
    assert_eq!(toy["settings"], serde_json::json!(["tools", "effort"]));
    assert_eq!(toy["summary"], "an agent for tests");
    let checks = json(&run(&context, &path, &["doctor", "--json"]));
    let checks = checks["checks"].as_array().unwrap();
    assert!(checks.iter().any(|check| check["check"] == "toy" && check["level"] == "ok"), "{checks:?}");
    for file in ["case", "suite"] {
        let schema = json(&run(&context, &path, &["schema", file]));
        let defs = &schema["$defs"];
        assert!(defs["toyAgent"]["properties"]["mood"].is_object(), "{file}");
        assert_eq!(defs["agentConfig"]["properties"]["toy"]["$ref"], "#/$defs/toyAgent", "{file}");
        let names = defs["agent"]["properties"]["type"]["enum"].as_array().unwrap();
        assert!(names.contains(&"toy".into()), "{file}");
    }
    let unknown = run(&context, &path, &["install-agents", "--cli", "nothing@1.0.0"]);
    assert!(unknown.stderr.contains("`toy`"), "{}", unknown.stderr);
}

#[test]
fn case_of_a_registered_agent_is_validated_and_run() {
    let (context, path) = with_toy();
    let valid = run(&context, &path, &["validate", "case.yaml"]);
    assert_eq!((valid.code, valid.stdout.as_str()), (Some(0), "valid: 1 file\n"), "{}", valid.stderr);
    let without = context.command(YB).args(["validate", "case.yaml"]).run();
    assert_eq!(without.code, Some(2), "the built-in agents have no `toy`");
    context.write(
        "wrong.yaml",
        CASE.replace("mood: merry", "mode: merry").replace("effort: low", "max_turns: 2"),
    );
    let wrong = run(&context, &path, &["validate", "wrong.yaml"]);
    assert!(wrong.stdout.contains("unknown key: `mode`"), "{}", wrong.stdout);
    assert!(wrong.stdout.contains("`toy` has no such setting: `max_turns`"), "{}", wrong.stdout);

    let ran = run(&context, &path, &["run", "-c", "case.yaml", "--isolation", "none"]);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let shown = run(&context, &path, &["show", "latest", "--json"]);
    assert!(shown.stdout.contains("toy"), "{}", shown.stdout);
}

#[test]
fn recording_a_program_sets_the_base_url_variable_of_its_agent() {
    let (context, path) = with_toy();
    let recorded = run(&context, &path, &["tape", "record", "--output", "toy.tape", "--", "toy", "merry"]);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    assert!(recorded.stdout.starts_with("merry at http://127.0.0.1:"), "{}", recorded.stdout);
    assert!(recorded.stdout.ends_with("/v9\n"), "{}", recorded.stdout);
    assert!(recorded.stderr.contains("recording https://api.toy.example into"), "{}", recorded.stderr);
}

#[test]
fn recording_copilot_sets_the_variable_that_copilot_reads() {
    let (context, path) = with_toy();
    let program = context.root().join("bin/copilot");
    std::fs::write(&program, "#!/bin/sh\necho \"$COPILOT_PROVIDER_BASE_URL\"\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let command = context.command(YB).args(["tape", "record", "--output", "c.tape", "--", "copilot"]);
    let recorded = command.env("PATH", &path).run();
    assert!(
        recorded.stdout.starts_with("http://127.0.0.1:") && recorded.stdout.ends_with("/v1\n"),
        "{recorded:?}"
    );
}
