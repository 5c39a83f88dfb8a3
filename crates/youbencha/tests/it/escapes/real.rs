//! The real CLI with every isolation level.

use serde_json::json;
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::RealClaude;

use super::World;
use crate::YB;

/// Runs the real CLI as the current user with edits, a shell, an MCP server and a subagent.
fn real_claude_works(level: &str) {
    let world = World::new();
    let server_file = world.context.root().join("server.py");
    std::fs::write(&server_file, MCP_SERVER).unwrap();
    let secret = world.at("hidden-test.sh");
    // The workspace is unknown before the run; the CLI accepts relative paths.
    let script = format!(
        "
tape: 1
lanes:
  main:
    - tools: [{{ Write: {{ file_path: new.txt, content: written }} }}]
    - tools: [{{ Bash: {{ command: 'id -u > who; cat {} && echo reads >> who; git add -A; git commit -qm done', description: Look }} }}]
    - tools: [{{ mcp__words__word: {{}} }}]
    - tools: [{{ Agent: {{ description: Help, prompt: Help me out, subagent_type: general-purpose, run_in_background: false }} }}]
    - say: Done.
  helper:
    match: Help me out
    replies:
      - tools: [{{ Bash: {{ command: 'echo helped > help.txt', description: Help }} }}]
      - say: Helped.
",
        secret.display()
    );
    let server =
        MockServer::start(Script::parse(&script, &Vars::new()).unwrap(), &MockServerOptions::default())
            .unwrap();
    let agent = json!({ "type": "claude-code", "model": "claude-opus-5-5", "config": { "prompt": "Work.",
        "mcp_servers": { "words": { "command": "python3", "args": [server_file] } } } });
    world.context.write("case.yaml", world.case(&agent, level, &json!({})));
    let outcome = world
        .context
        .command(YB)
        .args(["run", "-c", "case.yaml"])
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", "not-a-real-key")
        .env("YB_CLAUDE", RealClaude::new().program())
        .run();
    let run = world.newest();
    let frames = std::fs::read_to_string(run.join("artifacts/frames.jsonl")).unwrap_or_default();
    assert_eq!(outcome.code, Some(0), "{}{}{frames}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains(&format!("isolation: {level}")), "{}", outcome.stdout);
    assert!(server.unscripted().is_empty(), "{frames}");
    let workspace = run.join("trials/escape--default--1/attempt-1/src-modified");
    let read = |file: &str| std::fs::read_to_string(workspace.join(file)).unwrap_or_default();
    assert_eq!((read("new.txt").as_str(), read("help.txt").as_str()), ("written", "helped\n"), "{frames}");
    assert!(frames.contains("the word is sandbox"), "the server answered: {frames}");
    let who = read("who");
    assert_eq!(who.contains("reads"), level == "external", "{who}");
    assert!(level != "bubblewrap" || !who.starts_with("0\n"), "{who}");
    yb_testkit::assert_no_process_in(&world.context.dir());
}

#[test]
fn real_claude_works_under_bubblewrap() {
    real_claude_works("bubblewrap");
}

#[test]
fn real_claude_works_under_landlock() {
    real_claude_works("landlock");
}

/// As root, the CLI rejects `none`.
#[test]
fn real_claude_works_where_the_machine_is_the_sandbox() {
    real_claude_works("external");
}

/// A minimal MCP server with one tool.
pub(crate) const MCP_SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {
        "initialize": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "words", "version": "1"}},
        "tools/list": {"tools": [{"name": "word", "description": "A word", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "the word is sandbox"}]},
    }.get(asked["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;
