use super::*;
use crate::frame::ApiFailureKind;

fn parse(output: &str) -> TextOutput {
    TextOutput::parse(output)
}

#[test]
fn cr_3_6_messages_are_parsed() {
    let output = parse("User: fix it\nplease\n\nAssistant: done\n[System] bye\n");
    let messages: Vec<_> = output.messages.iter().map(|message| (message.role, &*message.content)).collect();
    assert_eq!(
        messages,
        [(TextRole::User, "fix it\nplease"), (TextRole::Assistant, "done"), (TextRole::System, "bye")]
    );
}

#[test]
fn cr_3_6_plain_output_is_one_answer() {
    let [message] = &parse("Fixed it.\n\nUser: is not a speaker here\n").messages[..] else { panic!() };
    assert_eq!(
        (message.role, &*message.content),
        (TextRole::Assistant, "Fixed it.\n\nUser: is not a speaker here")
    );
    assert!(parse(" \n").messages.is_empty());
}

#[test]
fn cr_3_7_tool_calls_are_parsed() {
    let calls =
        parse("[TOOL: read_file] path/to/file\nand\n[tool: Bash]   ls -la  \n[TOOL: Empty]\nnext").tool_calls;
    let calls: Vec<_> = calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
    assert_eq!(calls, [("read_file", "path/to/file"), ("Bash", "ls -la"), ("Empty", "")]);
}

#[test]
fn c26_tool_names_allow_separators_and_missing_space() {
    let calls = parse(
        "[TOOL:mcp__a-b__c] {\"x\": [1]}\n[TOOL: ns:tool.v2] y\n[TOOL: not a name] z\n[TOOL: ]\n[TOOL:",
    );
    let calls: Vec<_> = calls.tool_calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
    assert_eq!(calls, [("mcp__a-b__c", "{\"x\": [1]}"), ("ns:tool.v2", "y")]);
}

#[test]
fn cr_3_8_usage_is_parsed_and_adds_up() {
    let usage = parse("Input tokens: 1234\nOutput tokens: 5678").usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens), (1234, 5678, 6912));
    let usage = parse("… input TOKENS:\t1,234,567 | output tokens:  8").usage.unwrap();
    assert_eq!(usage.total_tokens, 1_234_575);
}

#[test]
fn c28_incomplete_usage_is_none() {
    let output = parse("Input tokens: 12");
    assert_eq!((output.usage, output.parse_errors.len()), (None, 1));
    let output = parse("Input tokens: 99999999999999999999\nOutput tokens: 1");
    assert_eq!((output.usage, output.parse_errors.len()), (None, 2));
    let output = parse("Input tokens:12\nOutput tokens: many");
    assert_eq!((output.usage, output.parse_errors.len()), (None, 0));
}

#[test]
fn cr_3_9_terminal_codes_are_stripped() {
    let check = |input: &str, expected: &str| {
        assert_eq!(strip_ansi(input), expected, "{input:?}");
        assert_eq!(parse(input).clean, expected);
    };
    check("\u{1b}[1;32mgreen\u{1b}[0m", "green");
    check("\u{1b}[2K\u{1b}[1Gline\u{1b}[?25h", "line");
    check("\u{1b}]0;title\u{7}a\u{1b}]8;;https://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "alink");
    check("\u{1b}(Bplain\u{1b}c\u{1b}=", "plain");
    check("broken \u{1b}", "broken ");
    check("broken \u{1b}[12", "broken ");
    check("broken \u{1b}[1ü", "broken ü");
    check("\u{1b}]never ends\nnext", "\nnext");
    check("no codes", "no codes");
    let output =
        parse("\u{1b}[1m[TOOL: \u{1b}[36mRead\u{1b}[0m] a.rs\r\nModel: \u{1b}[33mclaude-opus-5-5\u{1b}[0m");
    assert_eq!((&*output.tool_calls[0].name, &*output.tool_calls[0].arguments), ("Read", "a.rs"));
    assert_eq!(output.model.as_deref(), Some("claude-opus-5-5"));
    assert_eq!(output.messages[0].content, "[TOOL: Read] a.rs\nModel: claude-opus-5-5");
}

#[test]
fn model_and_version_are_parsed() {
    let check = |output: &str, model: Option<&str>, version: Option<&str>| {
        let output = parse(output);
        assert_eq!(
            (output.model.as_deref(), output.version.as_deref()),
            (model, version),
            "{}",
            output.clean
        );
    };
    check("Model: claude-sonnet-4.5\n", Some("claude-sonnet-4.5"), None);
    check("Claude Code CLI v1.2.3, model:\n  x", Some("x"), Some("1.2.3"));
    check("claude code 2.1.325.", None, Some("2.1.325"));
    check("Claude Code is nice; Claude Code v2", None, Some("2"));
    check("2.1.120 (Claude Code)\n", None, Some("2.1.120"));
    check("Model:none, Model: ü", None, None);
    check("", None, None);
}

#[test]
fn truncation_is_detected_by_its_marker() {
    assert!(parse("abc\n[OUTPUT TRUNCATED at 10485760 bytes]").truncated);
    assert!(!parse("abc").truncated);
}

#[test]
fn outcome_is_parsed_from_error_text() {
    assert_eq!(parse("Error: Reached max turns (1)").outcome(), Some(TextOutcome::MaxTurns));
    assert_eq!(parse("Error: Exceeded USD budget (0.01)").outcome(), Some(TextOutcome::MaxBudget));
    assert_eq!(parse("Execution error").outcome(), Some(TextOutcome::Aborted));
    assert_eq!(parse("All is well.").outcome(), None);
    let check = |text: &str, kind: ApiFailureKind, status: Option<u16>| match parse(text).outcome() {
        Some(TextOutcome::ApiFailure(failure)) => {
            assert_eq!((failure.kind, failure.status), (kind, status), "{text}");
        }
        other => panic!("{text}: {other:?}"),
    };
    check("Not logged in · Please run /login\n", ApiFailureKind::Unauthenticated, None);
    check("Failed to authenticate. API Error: 401 x", ApiFailureKind::Unauthenticated, Some(401));
    check("API Error: Request rejected (429) · x", ApiFailureKind::RateLimited, Some(429));
    check("API Error: 529 overloaded", ApiFailureKind::Overloaded, Some(529));
    check("API Error: Connection refused (ECONNREFUSED)", ApiFailureKind::Network, None);
    check("API Error: something new", ApiFailureKind::Other, None);
}
