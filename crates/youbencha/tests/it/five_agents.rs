//! Five real agents with one case: `examples/five-agents`.

use std::path::{Path, PathBuf};

use serde_json::Value;
use yb_engine::log::YouBenchaLog;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::{Invocation, REAL_AGENTS, TestContext};

use crate::YB;

/// The final answer of each agent.
const SAID: &str = "`greet.sh` greets by name, and the test passes.";

/// A copy of the example and its model.
fn example() -> (TestContext, MockServer) {
    let context = TestContext::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/five-agents");
    let read = |name: &str| std::fs::read_to_string(from.join(name)).unwrap();
    for name in ["case.yaml", "suite.yaml", "app/greet.sh", "app/test.sh"] {
        context.write(name, read(name));
    }
    let script = Script::parse(&read("model.yaml"), &Vars::new()).unwrap();
    (context, MockServer::start(script, &MockServerOptions::default()).unwrap())
}

/// Prepares `yb` with the environment that points each agent to this model.
fn yb(context: &TestContext, server: &MockServer, args: &[&str]) -> Invocation {
    let mut command = context.command(YB).args(args).env("PATH", std::env::var_os("PATH").unwrap());
    for agent in REAL_AGENTS {
        for (name, value) in agent.env(&server.base_url()) {
            command = command.env(name, value);
        }
    }
    command
}

/// Returns the artifacts of the last run by trial.
fn artifacts(context: &TestContext, trial: &str) -> PathBuf {
    let runs = context.dir().join(".youbencha-workspace/runs");
    let mut runs: Vec<_> = std::fs::read_dir(runs).unwrap().map(|run| run.unwrap().path()).collect();
    runs.sort();
    runs.last().unwrap().join("trials").join(trial).join("attempt-1/artifacts")
}

/// Checks the fields that every log must have.
fn check(log: &YouBenchaLog, json: &Value, agent: &str) {
    assert_eq!(log.agent.name, agent);
    let pinned = REAL_AGENTS.into_iter().find(|known| known.name == agent).unwrap();
    assert_eq!(log.agent.version, pinned.pinned_version(), "{agent}");
    assert!(log.errors.is_empty(), "{agent}: {:#?}", log.errors);
    let last = log.messages.last().unwrap();
    assert_eq!(last.content, SAID, "{agent}");
    assert_eq!(log.tool_calls.len(), 3, "{agent}: {:#?}", log.tool_calls);
    for call in &log.tool_calls {
        assert_eq!(call.is_error, Some(false), "{agent}: {call:#?}");
    }
    // Gemini does not report file content.
    let file = log.tool_calls[0].result.as_ref().unwrap();
    assert!(agent == "gemini" || file.contains("Hello!"), "{agent}: {file}");
    assert!(log.tool_calls[2].result.as_ref().unwrap().contains("PASS"), "{agent}");
    assert_eq!((log.usage.input_tokens, log.usage.output_tokens), (700, 80), "{agent}: {:#?}", log.usage);
    // opencode also reports the provider.
    assert_eq!(log.model.name.rsplit('/').next(), Some(pinned.model), "{agent}");
    // All agents fill the same fields.
    for field in [
        "/version",
        "/execution/argv/0",
        "/execution/permission_mode",
        "/execution/session_id",
        "/output/frames",
    ] {
        assert!(json.pointer(field).is_some_and(|value| !value.is_null()), "{agent}: {field}");
    }
}

/// An edit is a difference with a path that is relative to the workspace.
fn check_edit(transcript: &str, agent: &str) {
    assert!(!transcript.contains("src-modified"), "{agent}: {transcript}");
    let call = transcript.lines().position(|line| line.starts_with("  → ") && line.ends_with(" greet.sh"));
    let edit: Vec<&str> =
        transcript.lines().skip(call.unwrap_or_else(|| panic!("no edit in {transcript}"))).collect();
    // Codex reports only the path and the kind of a change.
    let expected = if agent == "codex" { "update" } else { "-" };
    let found = edit.iter().find(|line| line.starts_with(&format!("    {expected}")));
    assert!(found.is_some(), "{agent}: {transcript}");
}

fn read(path: &Path) -> (YouBenchaLog, Value) {
    let path = path.join("youbencha-log.json");
    let json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    (YouBenchaLog::read(&path).unwrap(), json)
}

#[test]
fn real_claude_and_four_others_run_the_example_and_a_page_compares_them() {
    let (context, server) = example();
    let command = yb(&context, &server, &["run", "-c", "suite.yaml", "--quiet"]);
    let outcome = command.timeout(std::time::Duration::from_secs(150)).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(server.unscripted().is_empty(), "{:?}", server.unscripted());
    for agent in REAL_AGENTS {
        let (log, json) = read(&artifacts(&context, &format!("greet-by-name--{}--1", agent.name)));
        check(&log, &json, agent.name);
        let trial = format!("greet-by-name--{}--1", agent.name);
        let shown = yb(&context, &server, &["show", &trial, "--transcript"]).run().stdout;
        check_edit(&shown, agent.name);
    }
    let found = crate::export::read_by_others(&context.dir(), |args| yb(&context, &server, args).run());
    crate::export::check_five_agents(&found);
    let outcome = yb(&context, &server, &["report", "--format", "html", "--output", "page.html"]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let page = context.read("page.html");
    for agent in REAL_AGENTS {
        assert!(page.contains(agent.name), "{}", agent.name);
    }
    assert!(page.contains("<span class=\"d\">-") && page.contains("<span class=\"a\">+"), "{page}");
}

#[test]
fn real_claude_and_four_others_are_recorded_and_replayed_without_their_model() {
    let (context, server) = example();
    let outcome = yb(&context, &server, &["run", "-c", "suite.yaml", "--quiet", "--record", "tapes"]).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let asked = server.requests().len();
    let outcome = yb(&context, &server, &["run", "-c", "suite.yaml", "--quiet", "--replay", "tapes"]).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(server.requests().len(), asked, "a replay asked the model");
    for agent in REAL_AGENTS {
        let (log, json) = read(&artifacts(&context, &format!("greet-by-name--{}--1", agent.name)));
        assert_eq!(log.messages.last().unwrap().content, SAID, "{}", agent.name);
        assert_eq!(json["usage"]["source"], "observed", "{}", agent.name);
        // opencode also requests a title, which it does not count.
        assert!(log.usage.input_tokens >= 700 && log.usage.output_tokens >= 80, "{}", agent.name);
    }
}

#[test]
fn real_claude_codex_copilot_and_opencode_prove_that_they_read_their_instructions() {
    let (context, server) = example();
    context.write("md/rules.md", "# Rules\n\nEvery greeting ends with an exclamation mark.\n");
    let case = context.read("case.yaml");
    let with = case.replacen("  config:\n", "  config:\n    instructions: md/rules.md\n", 1);
    assert_ne!(case, with);
    for (agent, file) in [
        ("claude-code", "CLAUDE.md"),
        ("codex", "AGENTS.md"),
        ("copilot-cli", ".github/copilot-instructions.md"),
        ("opencode", "AGENTS.md"),
    ] {
        context.write("case.yaml", with.replace("  type: claude-code ", &format!("  type: {agent} ")));
        let outcome = yb(&context, &server, &["run", "-c", "case.yaml"]).run();
        assert_eq!(outcome.code, Some(0), "{agent}: {}{}", outcome.stdout, outcome.stderr);
        let (_, json) = read(&artifacts(&context, "greet-by-name--default--1"));
        assert_eq!(json["add_ons"][0]["name"], file, "{agent}");
        assert_eq!(json["add_ons"][0]["status"], "proven", "{agent}: {:#}", json["add_ons"]);
    }
}

/// SC-009, SC-010 and CR-4.2.
#[test]
fn real_claude_sc_009_and_sc_010_one_line_selects_the_agent() {
    let (context, server) = example();
    let case = context.read("case.yaml");
    for agent in REAL_AGENTS {
        let changed = case.replace("  type: claude-code ", &format!("  type: {} ", agent.name));
        let lines = case.lines().zip(changed.lines()).filter(|(before, after)| before != after).count();
        assert_eq!(lines, usize::from(agent.name != "claude-code"));
        context.write("case.yaml", changed);
        let outcome = yb(&context, &server, &["run", "-c", "case.yaml"]).run();
        assert_eq!(outcome.code, Some(0), "{}: {}{}", agent.name, outcome.stdout, outcome.stderr);
        let (log, json) = read(&artifacts(&context, "greet-by-name--default--1"));
        check(&log, &json, agent.name);
    }
}
