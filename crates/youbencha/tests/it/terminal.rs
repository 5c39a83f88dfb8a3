//! Foreign text on a terminal and in a pipe: whatever a case, an agent or a repository says, nothing but our own color and cursor
//! codes reaches the screen, and a verdict is never repainted.

use serde_json::{Value, json};
use yb_testkit::TestContext;
use yb_testkit::git::Repo;

use crate::YB;
use crate::live::Terminal;

/// Every class of characters that a terminal acts on or hides.
fn hostile() -> String {
    let controls: String = (1..0x20).chain(0x7f..0xa0).filter_map(char::from_u32).collect();
    format!(
        "x{controls}\u{1b}[2J\u{1b}[H\u{1b}[32mforged: passed\u{1b}]52;c;Zm9yZ2Vk\u{7}\u{1b}]0;title\u{7}\u{9b}1A\
         \u{202e}\u{2066}\u{200b}\u{2028}\u{2029}\u{feff}\u{e0041}\nforged: passed\rforged: passed\x7f"
    )
}

/// A suite of one trial with hostile text in every field that a case or an agent fills.
fn hostile_world() -> TestContext {
    let context = TestContext::new();
    let repo = context.dir().join("repo");
    std::fs::create_dir(&repo).unwrap();
    let bad = hostile();
    let name: String = bad.chars().filter(|c| *c != '/').take(60).collect();
    // A file name, a fifo's name and a file with raw C1 bytes, the messages and the errors of an agent.
    let assistant = json!({ "type": "assistant", "session_id": bad, "message": { "id": "m", "type": "message",
        "role": "assistant", "model": bad, "content": [
            { "type": "text", "text": bad },
            { "type": "tool_use", "id": "t", "name": bad, "input": { bad.as_str(): bad } } ],
        "usage": { "input_tokens": 1, "output_tokens": 1 } } });
    let frames = [
        json!({ "type": "system", "subtype": "init", "session_id": bad, "model": bad, "tools": [bad], "cwd": "/",
            "claude_code_version": bad }),
        assistant,
        json!({ "type": "user", "session_id": bad, "message": { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "t", "is_error": true, "content": bad } ] } }),
        json!({ "type": "result", "subtype": "error_during_execution", "is_error": true, "result": bad,
            "errors": [bad], "session_id": bad, "num_turns": 1, "duration_ms": 5, "total_cost_usd": 0.25,
            "usage": { "input_tokens": 10, "output_tokens": 5 }, "modelUsage": { bad.as_str(): { "costUSD": 0.25 } } }),
    ];
    let frames: String = frames.iter().map(|frame| format!("{frame}\n")).collect();
    let agent = "cat frames; printf '%s' \"$1\" >&2; mkfifo \"./$2\"; printf '\\233\\033[2Jraw\\r\\n' > out; \
                 cp out \"./f$2\"; sleep 1";
    Repo::init(&repo).write("frames", frames).write("agent.sh", agent).commit("start");
    let grader = "printf '\\033[2J\\233forged: passed\\r'; exit 1";
    let suite = json!({
        "youbencha": 1, "name": bad,
        "cases": [{
            "name": bad, "description": bad, "repo": "repo", "isolation": "none", "tags": [],
            "agent": { "type": "command", "config": { "prompt": bad } },
            "evaluators": [
                { "name": "git-diff", "config": { "assertions": { "max_files_changed": 1 } } },
                { "name": "command", "config": { "shell": grader } },
            ],
        }],
        "variants": [{ "name": "v", "type": "command", "config": { "command": {
            "output": "claude-stream-json", "argv": ["sh", "agent.sh", bad, name] } } }],
    });
    context.write("suite.yaml", ascii(&suite));
    context
}

/// YAML allows no control characters, but their escapes.
fn ascii(value: &Value) -> String {
    let text = value.to_string();
    let escape = |c: char| match u32::from(c) {
        0x20..=0x7e => c.to_string(),
        code @ ..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    };
    text.chars().map(escape).collect()
}

/// Removes our own codes: color, and the redrawing of status lines.
fn without_our_codes(output: &str) -> String {
    let mut out = String::new();
    for (at, part) in output.split("\u{1b}[").enumerate() {
        let code: String = part.chars().take_while(|c| c.is_ascii_digit() || *c == ';').collect();
        let end = part.chars().nth(code.len());
        let ours = match end {
            _ if at == 0 => false,
            Some('m') => {
                ["0", "1", "2", "31", "32", "33", "34", "36", "1;31", "1;33", "1;36"].contains(&code.as_str())
            }
            // Status lines are redrawn from the start of a line.
            Some('A') if out.ends_with('\r') => out.pop().is_some(),
            Some('J') => code.is_empty(),
            _ => false,
        };
        match ours {
            true => out.push_str(&part[code.len() + 1..]),
            false if at == 0 => out.push_str(part),
            false => out.extend(["\u{1b}[", part]),
        }
    }
    out
}

#[track_caller]
fn assert_clean(output: &str, what: &str) {
    // A terminal adds a carriage return to the line break, also to those of CSV.
    let rest = without_our_codes(output).replace("\r\r\n", "\n").replace("\r\n", "\n");
    let found = rest.char_indices().find(|(_, c)| yb_figures::is_hidden(*c) && !matches!(c, '\n' | '\t'));
    assert_eq!(found, None, "{what}: {rest:?}");
    // A script and a document quote whole texts.
    if !what.contains("--command") && !what.contains("report") {
        assert_eq!(rest.lines().find(|line| line.starts_with("forged")), None, "{what}: {rest}");
    }
}

const COMMANDS: &[&[&str]] = &[
    &["show"],
    &["show", "--transcript"],
    &["show", "--diff"],
    &["show", "--command"],
    &["show", "--json", "--transcript", "--diff", "--command"],
    &["show", "no-such-trial"],
    &["list", "runs"],
    &["list", "runs", "--json"],
    &["compare", "latest", "latest"],
    &["compare", "latest", "latest", "--json"],
    &["gate", "latest", "--gate", "min_pass_rate=0.9"],
    &["index", "query", "select * from trials"],
    &["validate", "suite.yaml"],
    &["run", "-c", "suite.yaml", "--dry-run"],
    &["run", "-c", "suite.yaml", "--json"],
    &["report", "--format", "csv", "--output", "-"],
    &["report", "--format", "markdown", "--output", "-"],
    &["report", "--format", "github", "--output", "-"],
    &["report", "--format", "junit", "--output", "-"],
    &["report", "--format", "json", "--output", "-"],
    &["run", "-c", "branch.yaml"],
    &["run", "-c", "\u{1b}[2J\u{9b}1A\rforged.yaml"],
    &["show", "\u{1b}[2J\u{9b}1A\rforged"],
    &["\u{1b}[2J\u{9b}1A\rforged"],
];

fn branch_case() -> String {
    let case = json!({ "name": hostile(), "description": "x", "repo": "repo", "branch": hostile(), "isolation": "none",
        "agent": { "type": "command", "config": { "prompt": "x", "command": { "argv": ["true"] } } },
        "evaluators": ["git-diff"] });
    ascii(&case)
}

#[test]
fn hostile_text_never_reaches_a_terminal() {
    let context = hostile_world();
    context.write("branch.yaml", branch_case());
    let mut terminal = Terminal::start(&context, &["run", "-c", "suite.yaml"], &[]);
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(1), "{screen}");
    assert_clean(&terminal.written(), "run on a terminal");
    assert!(terminal.written().contains(r"\u{1b}[2J"), "the text is shown: {screen}");
    for command in COMMANDS {
        let mut terminal = Terminal::start(&context, command, &[]);
        terminal.end();
        assert_clean(&terminal.written(), &format!("{command:?} on a terminal"));
    }
}

#[test]
fn hostile_text_never_reaches_a_pipe() {
    let context = hostile_world();
    context.write("branch.yaml", branch_case());
    let ran = context.run(YB, ["run", "-c", "suite.yaml"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let mut shown = 0;
    for (outcome, command) in std::iter::once((ran, &["run"][..]))
        .chain(COMMANDS.iter().map(|command| (context.run(YB, *command), *command)))
    {
        for output in [&outcome.stdout, &outcome.stderr] {
            assert!(!output.contains('\u{1b}'), "{command:?}: {output:?}");
            // The test's own decoding would have made this of a raw byte; in JSON, `yb` did.
            let decoded = command[0] == "show" && !output.starts_with('{');
            assert!(!decoded || !output.contains('\u{fffd}'), "{command:?}: {output:?}");
            assert_clean(output, &format!("{command:?} in a pipe"));
            shown += output.matches("[2J").count();
        }
        if command.contains(&"--json") {
            for line in outcome.stdout.lines().filter(|line| line.starts_with("{\"")) {
                serde_json::from_str::<Value>(line).unwrap();
            }
        }
    }
    assert!(shown > 20, "the texts are in the output: {shown}");
}

#[test]
fn raw_diff_has_the_bytes_of_the_patch_and_refuses_a_terminal() {
    let context = hostile_world();
    context.run(YB, ["run", "-c", "suite.yaml"]);
    let shown: Value = serde_json::from_str(&context.run(YB, ["show", "--json"]).stdout).unwrap();
    let artifacts = std::path::Path::new(shown["artifacts"].as_str().unwrap());
    let patch = std::fs::read(artifacts.join("git-diff.patch")).unwrap();
    let raw = context.run(YB, ["show", "--diff", "--raw"]);
    assert_eq!(raw.stdout, String::from_utf8_lossy(&patch));
    assert!(raw.stdout.contains('\u{1b}'));
    let mut terminal = Terminal::start(&context, &["show", "--diff", "--raw"], &[]);
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(2), "{screen}");
    assert!(screen.contains("`--raw` does not write to a terminal"), "{screen}");
}
