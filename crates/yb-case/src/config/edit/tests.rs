use proptest::prelude::*;

use super::*;

#[track_caller]
fn check_set(file: &str, before: &str, key: &str, value: impl Into<Json>, after: &str) {
    let edited = set(Path::new(file), before, key, &value.into());
    assert_eq!(edited.unwrap_or_else(|error| panic!("{error}")), after);
}

#[track_caller]
fn check_unset(file: &str, before: &str, key: &str, after: &str) {
    let edited = unset(Path::new(file), before, key).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(edited.as_deref(), Some(after));
}

#[test]
fn comments_order_and_style_stay() {
    let before =
        "# mine\ntimeout_ms: 5  # short\n\nagent:   # who\n    model: 'opus' # best\nlog_level: warn\n";
    check_set("c", before, "timeout_ms", 7, &before.replace("timeout_ms: 5", "timeout_ms: 7"));
    check_set("c", before, "agent.model", "sonnet", &before.replace("'opus'", "sonnet"));
    check_set("c", before, "agent.timeout_ms", 9, &before.replace("best\n", "best\n    timeout_ms: 9\n"));
    check_set("c", before, "keep_workspace", false, &format!("{before}keep_workspace: false\n"));
    check_set("c", before, "variables.A", "x: y", &format!("{before}variables:\n  A: \"x: y\"\n"));
    check_unset("c", before, "timeout_ms", &before.replace("timeout_ms: 5  # short\n", ""));
    check_unset("c", before, "agent.model", "# mine\ntimeout_ms: 5  # short\n\nlog_level: warn\n");
}

#[test]
fn a_text_never_becomes_something_else() {
    for text in
        ["true", "5", "1e3", "null", "~", "", "a b", "#x", "- x", "ä", "\"", "a\nb", "{x}", "*a", "&a"]
    {
        let edited = set(Path::new("c"), "", "variables.A", &text.into()).unwrap();
        let values = read(Path::new("c"), &edited).unwrap().1;
        assert_eq!(values["variables"]["A"], text);
    }
}

#[test]
fn an_empty_file_and_one_of_comments_get_their_first_key() {
    check_set("c", "", "agent.model", "opus", "agent:\n  model: opus\n");
    check_set("c", "# only\n# comments", "timeout_ms", 1, "# only\n# comments\ntimeout_ms: 1\n");
    check_set("c.json", "", "agent.model", "opus", "{\n  \"agent\": {\n    \"model\": \"opus\"\n  }\n}\n");
}

#[test]
fn keys_without_a_value_get_one() {
    check_set("c", "agent:\ntimeout_ms: 1\n", "agent.model", "a", "agent:\n  model: a\ntimeout_ms: 1\n");
    check_set("c", "agent: ~\n", "agent.model", "a", "agent: { model: a }\n");
    check_set("c", "timeout_ms: # how long\n", "timeout_ms", 3, "timeout_ms: 3 # how long\n");
}

#[test]
fn braces_are_kept() {
    check_set("c", "agent: { model: a }\n", "agent.model", "b", "agent: { model: b }\n");
    check_set("c", "agent: {model: a}\n", "agent.timeout_ms", 2, "agent: {model: a, timeout_ms: 2}\n");
    check_set("c", "agent: {}\n", "agent.timeout_ms", 2, "agent: { timeout_ms: 2 }\n");
    check_set("c", "{timeout_ms: 1}", "log_level", "info", "{timeout_ms: 1, log_level: info}");
    check_unset("c", "agent: { model: a, timeout_ms: 2 }\n", "agent.model", "agent: { timeout_ms: 2 }\n");
    check_unset("c", "agent: { model: a, timeout_ms: 2 }\n", "agent.timeout_ms", "agent: { model: a }\n");
    check_unset("c", "agent: { model: a }\n", "agent.model", "agent: {  }\n");
}

#[test]
fn json_stays_json() {
    let before = "{\n  \"timeout_ms\": 5,\n  \"agent\": { \"model\": \"a\" }\n}\n";
    check_set("c.json", before, "timeout_ms", 6, &before.replace('5', "6"));
    check_set("c.json", before, "agent.timeout_ms", 6, &before.replace("\"a\"", "\"a\", \"timeout_ms\": 6"));
    let added = before.replace("\"a\" }", "\"a\" },\n  \"log_level\": \"warn\"");
    check_set("c.json", before, "log_level", "warn", &added);
    let grouped = before.replace("\"a\" }", "\"a\" },\n  \"variables\": { \"A\": \"1\" }");
    check_set("c.json", before, "variables.A", "1", &grouped);
    check_unset("c.json", before, "timeout_ms", "{\n  \"agent\": { \"model\": \"a\" }\n}\n");
}

#[test]
fn what_can_not_be_changed_safely_is_refused() {
    let set = |text: &str, key: &str| set(Path::new("c"), text, key, &"new".into());
    for (text, key) in [
        ("variables:\n  A: |\n    two\n    lines\n", "variables.A"),
        ("variables: &v\n  A: x\nagent: *v\n", "agent.A"),
        ("- a list\n", "workspace_dir"),
    ] {
        assert!(matches!(set(text, key), Err(EditError::ByHand)), "{text}: {:?}", set(text, key));
    }
    assert!(matches!(set("a: [", "workspace_dir"), Err(EditError::Unreadable(found)) if found.len() == 1));
    assert!(matches!(unset(Path::new("c"), "timeout_ms: 1\n", "log_level"), Ok(None)));
}

#[test]
fn a_missing_line_break_and_wide_letters_do_no_harm() {
    check_set("c", "variables: {A: ü, B: x}", "variables.B", "y", "variables: {A: ü, B: y}");
    check_set("c", "timeout_ms: 1\n...\n", "log_level", "info", "timeout_ms: 1\nlog_level: info\n...\n");
    check_set("c", "timeout_ms: 1", "log_level", "info", "timeout_ms: 1\nlog_level: info\n");
}

/// Pieces of which most configurations, and much nonsense, can be made.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "timeout_ms",
        "agent",
        "model",
        "variables",
        "A",
        ":",
        ": ",
        " ",
        "  ",
        "\n",
        "\n  ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "- ",
        "# note",
        "'x'",
        "\"y\"",
        "ü",
        "1",
        "~",
        "|",
        ">",
        "&a ",
        "*a",
        "<<: *a",
        "---",
        "...",
        "? ",
        "\r\n",
        "\t",
        "!!str ",
    ])
}

proptest! {
    /// Whatever a file looks like, it is changed as meant or refused; nothing else of it changes.
    #[test]
    fn no_text_is_damaged(pieces in prop::collection::vec(piece(), 0..24), json: bool) {
        let text = pieces.concat();
        let file = Path::new(if json { "c.json" } else { "c.yaml" });
        for key in ["timeout_ms", "agent.model", "variables.A"] {
            if let Ok(edited) = set(file, &text, key, &"new".into()) {
                let (_, values) = read(file, &edited).unwrap();
                let (group, name) = split(key);
                let found = group.map_or(&values[name], |group| &values[group][name]);
                prop_assert_eq!(found, "new");
                let removed = unset(file, &edited, key);
                prop_assert!(!matches!(removed, Ok(None)), "{}", edited);
            }
            if let Ok(Some(edited)) = unset(file, &text, key) {
                prop_assert!(matches!(unset(file, &edited, key), Ok(None)), "{}", edited);
            }
        }
    }
}
