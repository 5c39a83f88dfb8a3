//! A secret that a model says in pieces is in no file that a run leaves, whatever the agent's format.

mod everywhere;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use yb_tape::Tape;
use yb_testkit::git::Repo;
use yb_testkit::{Outcome, RealClaude, TestContext};

use crate::YB;

const KEY: &str = "sk-ant-api03-Zq7Xw2Lm9Rt4Vb6Nc8Kd1Fh3";
/// The same, as `base64` prints it.
const BASE64: &str = "c2stYW50LWFwaTAzLVpxN1h3MkxtOVJ0NFZiNk5jOEtkMUZoMw==";

fn world(suite: &str) -> TestContext {
    let context = TestContext::new();
    let repo = context.dir().join("repo");
    std::fs::create_dir(&repo).unwrap();
    Repo::init(&repo).write("greeting.txt", "Hello.\n").commit("start");
    context.write("suite.yaml", suite);
    context
}

fn suite(agent: &str, env: &Value, more: &str) -> String {
    format!(
        "
youbencha: 1
name: redaction
cases:
  - name: said
    description: The key is said.
    repo: repo
    agent: {agent}
    env: {env}{more}
    evaluators: [{{ name: command, config: {{ argv: [cat, greeting.txt] }} }}]
"
    )
}

fn yb(context: &TestContext, args: &[&str]) -> Outcome {
    context.command(YB).args(args).env("PATH", std::env::var("PATH").unwrap()).run()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() && !path.is_symlink() { files(&path) } else { vec![path] })
        .collect()
}

/// Returns a run of 8 characters of the key or its encoding.
fn leak(bytes: &[u8]) -> Option<String> {
    // The last digits of base64 also depend on what follows.
    [KEY, BASE64.trim_end_matches('=')].into_iter().find_map(|secret| {
        let parts = secret.as_bytes().windows(8);
        parts
            .into_iter()
            .find(|part| contains(bytes, part))
            .map(|part| String::from_utf8_lossy(part).into_owned())
    })
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Checks all files of the newest run except the workspace and the captured trees, and returns the frames.
#[track_caller]
fn check_files(context: &TestContext, outcome: &Outcome) -> String {
    for text in [&outcome.stdout, &outcome.stderr] {
        assert_eq!(leak(text.as_bytes()), None, "{text}");
    }
    let runs = context.dir().join(".youbencha-workspace/runs");
    let run = std::fs::read_dir(runs).unwrap().map(|run| run.unwrap().path()).max().unwrap();
    let attempt = run.join("trials/said--default--1/attempt-1");
    let own = [attempt.join("src-modified"), run.join("objects.git")];
    let kept: Vec<PathBuf> =
        files(&run).into_iter().filter(|path| own.iter().all(|own| !path.starts_with(own))).collect();
    assert!(kept.len() >= 8, "{kept:?}\n{}\n{}", outcome.stdout, outcome.stderr);
    for path in kept {
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert_eq!(leak(&bytes), None, "{}: {}", path.display(), String::from_utf8_lossy(&bytes));
    }
    for args in [&["show", "latest", "--json"][..], &["show", "latest", "--diff"], &["show", "latest"]] {
        let shown = yb(context, args);
        assert_eq!(leak(shown.stdout.as_bytes()), None, "{}", shown.stdout);
    }
    std::fs::read_to_string(attempt.join("artifacts/frames.jsonl")).unwrap_or_default()
}

#[test]
fn real_claude_secret_in_pieces_is_in_no_kept_file() {
    let claude = RealClaude::new();
    let env = json!({ "YB_CLAUDE": claude.program(), "DEPLOY_KEY": KEY });
    let agent = "{ type: claude-code, config: { prompt: Say the key. } }";
    let context = world(&suite(agent, &env, "\n    tape: { script: model.yaml }"));
    let command = format!(
        "printf %s {KEY} | fold -w 10; echo; printf %s {KEY} | base64; printf %s {KEY} | fold -w 7 > key.txt; echo {KEY} >> key.txt"
    );
    let model = json!({ "tape": 1, "lanes": { "main": [
        { "think": format!("I know {KEY}."), "say": format!("The key is {KEY}, is it?"),
          "tools": [{ "Bash": { "command": command, "description": "Say it" } }], "pace": { "chunk": 5 } },
        { "say": format!("It was {KEY}"), "pace": { "chunk": 3 } },
    ] } });
    context.write("model.yaml", model.to_string());
    let outcome = yb(&context, &["run", "-c", "suite.yaml", "--record", "tapes", "--json"]);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    let frames = check_files(&context, &outcome);
    let deltas = frames.lines().filter(|line| line.contains("_delta\"")).count();
    assert!(deltas > 20, "the model spoke in pieces: {frames}");
    let redacted = |field: &str| {
        frames.lines().any(|line| line.contains(field) && line.contains("[REDACTED:DEPLOY_KEY]"))
    };
    for field in ["text_delta", "thinking_delta", "input_json_delta", "tool_result", "\"type\":\"result\""] {
        assert!(redacted(field), "{field}: {frames}");
    }
    let tape = Tape::open(context.dir().join("tapes/said--default--1.tape")).unwrap();
    for exchange in tape.exchanges() {
        assert_eq!(
            leak(exchange.response_body()),
            None,
            "{}",
            String::from_utf8_lossy(exchange.response_body())
        );
        let request = tape.request_body(exchange).to_string();
        assert_eq!(leak(request.as_bytes()), None, "{request}");
    }
}

/// A fake CLI: a version, and prepared output.
fn fake_cli(context: &TestContext, output: &str) -> PathBuf {
    let path = context.dir().join("bin/agent");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--version*) echo 1.0.0; exit;; esac\ncat <<'END'\n{output}\nEND\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// Cuts a text at places that depend on a seed.
fn cut(text: &str, mut seed: u64) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (piece, after) = rest.split_at(rest.len().min(1 + usize::try_from(seed >> 33).unwrap() % 11));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

#[track_caller]
fn check_agent(name: &str, variables: &[(&str, &str)], piece: fn(&str) -> Value, end: &Value) {
    for seed in [1, 2, 3] {
        let context = world("");
        let mut output = String::new();
        for text in cut(&format!("The key is {KEY}, is it?"), seed) {
            let _ = writeln!(output, "{}", piece(text));
        }
        let _ = write!(output, "{end}");
        let program = fake_cli(&context, &output);
        let mut env = json!({ "DEPLOY_KEY": KEY });
        for (variable, value) in variables {
            env[variable] = if value.is_empty() { json!(program) } else { json!(value) };
        }
        let agent = match name {
            "command" => format!(
                "{{ type: command, config: {{ prompt: Say the key., command: {{ argv: ['{}'], output: claude-stream-json }} }} }}",
                program.display()
            ),
            _ => format!("{{ type: {name}, config: {{ prompt: Say the key. }} }}"),
        };
        context.write("suite.yaml", suite(&agent, &env, ""));
        let outcome = yb(&context, &["run", "-c", "suite.yaml", "--isolation", "none", "--json"]);
        let frames = check_files(&context, &outcome);
        assert!(frames.contains("[REDACTED:DEPLOY_KEY]"), "{frames}\n{}\n{}", outcome.stdout, outcome.stderr);
    }
}

#[test]
fn secret_in_pieces_of_a_command_with_frames_is_in_no_kept_file() {
    let piece = |text: &str| {
        json!({"type": "stream_event", "event": {"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": text}}})
    };
    check_agent("command", &[], piece, &json!({"type": "result", "subtype": "success", "result": KEY}));
}

#[test]
fn secret_in_pieces_of_gemini_is_in_no_kept_file() {
    let piece = |text: &str| json!({"type": "message", "role": "assistant", "content": text, "delta": true});
    let variables = [("YB_GEMINI", ""), ("GEMINI_API_KEY", "not-a-real-key")];
    check_agent("gemini", &variables, piece, &json!({"type": "result", "status": "success"}));
}

#[test]
fn secret_in_snapshots_of_codex_is_in_no_kept_file() {
    // Each event has the output so far, which may end within the key.
    let piece = |text: &str| {
        let so_far = &KEY[..KEY.len().min(8 + text.len())];
        json!({"type": "item.updated", "item": {"id": "1", "type": "command_execution", "aggregated_output": so_far}})
    };
    let end = json!({"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": KEY}});
    check_agent("codex", &[("YB_CODEX", ""), ("OPENAI_API_KEY", "not-a-real-key")], piece, &end);
}
