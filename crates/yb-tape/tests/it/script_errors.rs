//! Error messages for invalid scripts: location, key, expected value and hint.

use yb_tape::{Error, Script, ScriptLocation, Vars};

/// `expected` is the error as the command line shows it.
fn check(text: &str, expected: &str) {
    let vars = Vars::new().with("workspace", "/w");
    let error = Script::parse(text, &vars).unwrap_err();
    let shown = match error.hint() {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    };
    assert_eq!(shown, expected, "{text}");
}

/// Checks a script with this first reply.
fn check_reply(reply: &str, expected: &str) {
    check(&format!("tape: 1\nlanes:\n  main:\n    - {reply}"), expected);
}

#[test]
fn top_level_errors() {
    check("", "script:1:1: wrong value, expected a mapping with the keys `tape` and `lanes`: nothing");
    check("- a", "script:1:1: wrong value, expected a mapping with the keys `tape` and `lanes`: a list");
    check("lanes: {}", "script:1:1: missing key: `tape`\nhint: start the script with `tape: 1`");
    check(
        "tape: 2\nwhatever: 1",
        "script:1:7: unsupported format version in `tape`, expected `1`: `2`\nhint: the script requires a newer version; update youbencha",
    );
    check("tape: 0", "script:1:7: wrong value in `tape`, expected the format version, `1`: `0`");
    check("tape: one", "script:1:7: wrong value in `tape`, expected a non-negative integer: `one`");
    check(
        "tape: 1",
        "script:1:1: missing key: `lanes`\nhint: add `lanes:` with a list of replies under `main:`",
    );
    check(
        "tape: 1\nlane: {}",
        "script:2:1: unknown key, expected one of `tape`, `model`, `lanes`: `lane`\nhint: did you mean `lanes`?",
    );
    check(
        "tape: 1\nlanes: []",
        "script:2:8: wrong value in `lanes`, expected a mapping of lane names to replies: a list",
    );
    check("tape: 1\nlanes: {}", "script:1:1: no lanes\nhint: add a list of replies under `lanes.main`");
}

#[test]
fn lane_errors() {
    check(
        "tape: 1\nlanes:\n  main: []",
        "script:3:9: no replies in `lanes.main`\nhint: add at least one reply, such as `- say: Done.`",
    );
    check(
        "tape: 1\nlanes:\n  main: hello",
        "script:3:9: wrong value in `lanes.main`, expected a list of replies, or a mapping with the keys `match` and `replies`: `hello`",
    );
    check(
        "tape: 1\nlanes:\n  my lane: []",
        "script:3:3: invalid lane name in `lanes`, expected 1 to 40 letters, digits, `-` or `_`: `my lane`",
    );
    check(
        "tape: 1\nlanes:\n  reviewer:\n    - say: a",
        "script:4:5: missing key in `lanes.reviewer`: `match`\nhint: add `match: TEXT` with a text from the first prompt of the conversation; only `main` can omit it",
    );
    check("tape: 1\nlanes:\n  main:\n    match: a", "script:4:5: missing key in `lanes.main`: `replies`");
    check(
        "tape: 1\nlanes:\n  main:\n    matches: a",
        "script:4:5: unknown key in `lanes.main`, expected one of `match`, `replies`: `matches`\nhint: did you mean `match`?",
    );
    check(
        "tape: 1\nlanes:\n  main:\n    match: ' '\n    replies: []",
        "script:4:12: wrong value in `lanes.main.match`, expected a non-blank string: a blank text",
    );
    check(
        "tape: 1\nlanes:\n  main:\n    match: {}\n    replies: []",
        "script:4:12: nothing to match in `lanes.main.match`, expected `prompt`, `system` or both",
    );
}

#[test]
fn reply_errors() {
    check_reply(
        "sya: a",
        "script:4:7: unknown key in `lanes.main[0]`, expected one of `say`, `think`, `tools`, `blocks`, `stop`, `usage`, `pace`, `fault`: `sya`\nhint: did you mean `say`?",
    );
    check_reply(
        "usage: { input: 1 }",
        "script:4:7: empty reply in `lanes.main[0]`, expected `say`, `think`, `tools` or `blocks`",
    );
    check_reply(
        "say: 42",
        "script:4:12: wrong value in `lanes.main[0].say`, expected a string: `42`\nhint: put it in double quotes",
    );
    check_reply("say: [a]", "script:4:12: wrong value in `lanes.main[0].say`, expected a string: a list");
    check_reply(
        "say: a\n      usage: { input: lots }",
        "script:5:23: wrong value in `lanes.main[0].usage.input`, expected a non-negative integer: `lots`",
    );
    check_reply(
        "say: a\n      usage: { inputs: 1 }",
        "script:5:16: unknown key in `lanes.main[0].usage`, expected one of `input`, `output`, `cache_read`, `cache_write`, `cache_write_1h`: `inputs`\nhint: did you mean `input`?",
    );
    check_reply(
        "say: a\n      usage: { cache_write: 1, cache_write_1h: 2 }",
        "script:5:48: wrong value in `lanes.main[0].usage.cache_write_1h`, expected at most `cache_write`: `2`",
    );
    check_reply(
        "say: a\n      usage: { input: -1 }",
        "script:5:23: wrong value in `lanes.main[0].usage.input`, expected a non-negative integer: `-1`",
    );
    check_reply(
        "say: a\n      stop: end-turn",
        "script:5:13: wrong value in `lanes.main[0].stop`, expected one of `end_turn`, `tool_use`, `max_tokens`, `stop_sequence`, `pause_turn`, `refusal`, `model_context_window_exceeded`: `end-turn`\nhint: did you mean `end_turn`?",
    );
    check_reply(
        "say: a\n      pace: { delay: 5 }",
        "script:5:22: wrong value in `lanes.main[0].pace.delay`, expected a duration with unit, such as `250ms`, `2s` or `1m`, at most one day: `5`",
    );
    check_reply(
        "say: a\n      pace: { delay: 5 parsecs }",
        "script:5:22: wrong value in `lanes.main[0].pace.delay`, expected a duration with unit, such as `250ms`, `2s` or `1m`, at most one day: `5 parsecs`",
    );
    check_reply(
        "say: a\n      pace: { delay: -5s }",
        "script:5:22: wrong value in `lanes.main[0].pace.delay`, expected a duration with unit, such as `250ms`, `2s` or `1m`, at most one day: `-5s`",
    );
    check_reply(
        "say: a\n      pace: { chunk: 0 }",
        "script:5:22: wrong value in `lanes.main[0].pace.chunk`, expected the number of characters per delta, at least 1: `0`",
    );
}

#[test]
fn block_and_tool_errors() {
    check_reply(
        "tools: { Bash: {} }",
        "script:4:14: wrong value in `lanes.main[0].tools`, expected a list of tool calls: a mapping",
    );
    check_reply(
        "tools:\n        - Bash: { command: a }\n          Write: {}",
        "script:5:11: wrong value in `lanes.main[0].tools[0]`, expected a tool name with its input, such as `Bash: { command: ls }`: a mapping with 2 keys",
    );
    check_reply(
        "tools: [ { Bash: ls } ]",
        "script:4:24: wrong value in `lanes.main[0].tools[0].Bash`, expected the tool input as a mapping: `ls`",
    );
    check_reply(
        "tools: [ { 'Ba sh': {} } ]",
        "script:4:18: invalid tool name in `lanes.main[0].tools[0]`, expected letters, digits, `-` or `_`: `Ba sh`",
    );
    check_reply(
        "say: a\n      blocks: [ { say: b } ]",
        "script:5:15: conflicting keys in `lanes.main[0].blocks`, expected either `blocks` or `say`, `think`, `tools`",
    );
    check_reply(
        "blocks: [ { tell: b } ]",
        "script:4:19: unknown block type in `lanes.main[0].blocks[0]`, expected one of `say`, `think`, `tool`: `tell`",
    );
}

#[test]
fn fault_errors() {
    check_reply(
        "fault: { status: 200 }",
        "script:4:24: wrong value in `lanes.main[0].fault.status`, expected an HTTP error status from 400 to 599: `200`",
    );
    check_reply(
        "fault: { staus: 500 }",
        "script:4:16: unknown key in `lanes.main[0].fault`, expected one of `status`, `message`, `retry_after`, `cut`, `stall`, `error`, `times`: `staus`\nhint: did you mean `status`?",
    );
    check_reply(
        "fault: { status: 500, cut: {} }",
        "script:4:14: invalid fault in `lanes.main[0].fault`, expected exactly one of `status`, `cut`, `stall`, `error`",
    );
    check_reply(
        "fault: { times: 1 }",
        "script:4:14: invalid fault in `lanes.main[0].fault`, expected exactly one of `status`, `cut`, `stall`, `error`",
    );
    check_reply(
        "fault: { status: 500, times: 1 }",
        "script:4:7: empty reply in `lanes.main[0]`, expected `say`, `think`, `tools` or `blocks`\nhint: this fault needs a reply to interrupt, or to send afterwards",
    );
    check_reply(
        "fault: { status: 500, times: 0 }\n      say: a",
        "script:4:14: fault never happens in `lanes.main[0].fault`\nhint: remove `fault`, or set `times: 1`",
    );
    check_reply(
        "fault: { cut: { after: 3 }}\n      say: a",
        "script:4:30: wrong value in `lanes.main[0].fault.cut.after`, expected `request`, or a number of events or bytes such as `3 events` or `120 bytes`: `3`",
    );
    check_reply(
        "fault: { cut: {}, message: x }\n      say: a",
        "script:4:34: misplaced key in `lanes.main[0].fault.message`, expected only together with `status`",
    );
    check_reply(
        "fault: { error: { type: overload_error } }\n      say: a",
        "script:4:31: wrong value in `lanes.main[0].fault.error.type`, expected one of `invalid_request_error`, `authentication_error`, `billing_error`, `permission_error`, `not_found_error`, `request_too_large`, `rate_limit_error`, `api_error`, `timeout_error`, `overloaded_error`: `overload_error`\nhint: did you mean `overloaded_error`?",
    );
    check_reply(
        "fault: { stall: 3s }\n      say: a",
        "script:4:23: wrong value in `lanes.main[0].fault.stall`, expected a mapping with the keys `after`, `for`: `3s`",
    );
    check_reply(
        "fault: { cut: {} }",
        "script:4:7: empty reply in `lanes.main[0]`, expected `say`, `think`, `tools` or `blocks`\nhint: this fault needs a reply to interrupt, or to send afterwards",
    );
}

#[test]
fn variable_errors() {
    check_reply(
        "say: in {{workspce}}",
        "script:4:12: undefined variable in `lanes.main[0].say`: `workspce`\nhint: did you mean `workspace`?",
    );
    check_reply(
        "say: in {{repository}}",
        "script:4:12: undefined variable in `lanes.main[0].say`: `repository`\nhint: define it when loading the script; on the command line: `--var repository=VALUE`",
    );
    check_reply(
        "say: '{{ .Name }}'",
        "script:4:12: invalid variable reference in `lanes.main[0].say`, expected `{{name}}`: `{{ .Name }}`\nhint: write `{{{{` for a literal `{{`",
    );
    check_reply(
        "tools:\n        - Write: { file_path: {{workspace}}/a }",
        "script:5:32: not valid YAML: expected string scalar\nhint: put a value that starts with `{{` in double quotes",
    );
    check_reply(
        "tools:\n        - Write:\n            file_path: {{workspace}}/a",
        "script:6:25: not valid YAML: expected string scalar\nhint: put a value that starts with `{{` in double quotes",
    );
}

#[test]
fn yaml_syntax_errors() {
    check_reply(
        "say: I say: no",
        "script:4:17: not valid YAML: mapping values are not allowed in this context\nhint: put a text that contains `: ` in double quotes",
    );
    check_reply("say: a\n      say: b", "script:5:7: key given twice: `say`");
    check("tape: 1\nlanes: *x", "script:2:8: alias of an anchor that does not exist");
    check(
        "tape: 1\n---\ntape: 1",
        "script:3:1: more than one document in the script\nhint: remove the `---` line",
    );
    check("tape: 1\nlanes: [", "script:2:8: not valid YAML: unclosed bracket `[`");
    check(
        "tape: 1\nlanes:\n\tmain: []",
        "script:3:2: not valid YAML: tabs disallowed within this context (block indentation)",
    );
    check_reply(r#"say: "a"#, "script:4:12: not valid YAML: unclosed quote");
    check(
        "tape: 1\nlanes:\n  main:\n   - say: a\n  - say: b",
        "script:5:5: not valid YAML: while parsing a block mapping, did not find expected key",
    );
    check_reply(
        r#"say: "\q""#,
        "script:4:12: not valid YAML: while parsing a quoted scalar, found unknown escape character",
    );
}

#[test]
fn script_error_exposes_its_parts() {
    let error = Script::parse("tape: 1\nlanes:\n  main:\n    - sya: a", &Vars::new()).unwrap_err();
    let Error::Script(error) = error else { panic!("{error}") };
    assert_eq!(error.location(), &ScriptLocation { file: "script".into(), line: 4, column: 7 });
    assert_eq!(error.key_path(), Some("lanes.main[0]"));
    assert!(error.expectation().unwrap().starts_with("one of `say`"));
    assert_eq!(error.hint(), Some("did you mean `say`?"));
}

#[test]
fn errors_name_the_script_file() {
    let directory = std::env::temp_dir().join(format!("yb-tape-errors-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("bad.yaml");
    std::fs::write(&path, "tape: 1\nlanes: 5\n").unwrap();
    let bad = Script::load(&path, &Vars::new()).unwrap_err().to_string();
    let missing = Script::load(directory.join("none.yaml"), &Vars::new()).unwrap_err();
    std::fs::write(&path, b"tape: \xff").unwrap();
    let not_text = Script::load(&path, &Vars::new()).unwrap_err();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(
        bad,
        format!(
            "{}:2:8: wrong value in `lanes`, expected a mapping of lane names to replies: `5`",
            path.display()
        )
    );
    assert_eq!(
        missing.to_string(),
        format!("failed to read script: `{}`", directory.join("none.yaml").display())
    );
    assert!(matches!(missing, Error::ReadScript { .. }) && matches!(not_text, Error::ReadScript { .. }));
}
