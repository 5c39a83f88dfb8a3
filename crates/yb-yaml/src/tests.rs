//! Trees, positions and limits.

use std::path::Path;

use proptest::prelude::*;

use super::{DecodeError, MAX_BYTES, MAX_DEPTH, Node, Span, Syntax, Value, decode, parse};
use crate::diagnostic::{Diagnostic, Diagnostics};

fn read(text: &str, syntax: Syntax) -> (Option<Node>, Vec<Diagnostic>) {
    let mut found = Diagnostics::new(Path::new("case.yaml"), text);
    let node = parse(text, syntax, &mut found);
    (node, found.into_vec())
}

fn yaml(text: &str) -> Node {
    let (node, found) = read(text, Syntax::Yaml);
    assert_eq!(found, [], "{text}");
    node.unwrap()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let (_, found) = read(text, Syntax::Yaml);
    let messages: Vec<_> =
        found.iter().map(|found| format!("{}:{} {}", found.line, found.column, found.message)).collect();
    assert_eq!(messages.join("\n"), expected);
}

#[test]
fn values_have_positions() {
    let node = yaml("name: Ada\nlist:\n  - 1\n  - \"two\"\n");
    let entry = node.entry("name").unwrap();
    assert_eq!(entry.key.span, Span::new(1, 1, 4));
    assert_eq!((entry.node.span, entry.node.text()), (Span::new(1, 7, 3), Some("Ada")));
    let list = node.get("list").unwrap().items();
    assert_eq!((&list[0].value, list[0].span), (&Value::Int(1), Span::new(3, 5, 1)));
    assert_eq!((list[1].text(), list[1].span), (Some("two"), Span::new(4, 5, 5)));
}

#[test]
fn json_and_yaml_give_the_same_tree() {
    let text = r#"{"name": "Ada \ud83d\ude00", "list": [1, -2.5e1, true, null, {}], "o": {"a": "b"}}"#;
    let (json, found) = read(text, Syntax::Json);
    assert_eq!(found, []);
    let same = yaml("name: Ada 😀\nlist: [1, -25.0, true, ~, {}]\no: {a: b}\n");
    assert_eq!(json.unwrap().to_json(), same.to_json());
}

#[test]
fn json_errors_have_positions() {
    for (text, place, message) in [
        ("", (0, 0), "the file is empty"),
        ("{", (1, 2), "not valid JSON: unexpected end of file"),
        ("{\n  \"a\": 1,\n}", (3, 1), "not valid JSON: `}`"),
        ("{\"a\": nope}", (1, 7), "not valid JSON: `nope`"),
        ("{'a': 1}", (1, 2), "not valid JSON: `'a'`"),
        ("[1 2]", (1, 4), "not valid JSON: `2`"),
        ("{} x", (1, 4), "not valid JSON: `x`"),
        ("[\"a", (1, 2), "not valid JSON: unclosed quote"),
        ("{\"a\": 01}", (1, 7), "not valid JSON: `01`"),
        ("// c\n{}", (1, 1), "not valid JSON: `//`"),
        (r#"["\u0000"]"#, (1, 2), "NUL character in the file"),
        ("{\"a\": 1, \"a\": 2}", (1, 10), "key given twice: `a`"),
    ] {
        let (_, found) = read(text, Syntax::Json);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(((found[0].line, found[0].column), found[0].message.as_str()), (place, message), "{text}");
    }
}

#[test]
fn every_duplicate_key_is_reported_with_both_positions() {
    check("a: 1\nb: {c: 1, c: 2}\na: 2\n", "2:11 key given twice: `c`\n3:1 key given twice: `a`");
    let (node, found) = read("a: 1\nb: 2\na: 3\n", Syntax::Yaml);
    assert_eq!(node.unwrap().get("a").unwrap().value, Value::Int(1), "the first one is used");
    assert_eq!(found[0].hint.as_deref(), Some("the first one is at line 1, column 1; remove one of them"));
}

#[test]
fn aliases_and_merges_are_expanded() {
    let node = yaml("base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}\nboth: {<<: [*b, {z: 4}]}\nsame: *b\n");
    assert_eq!(node.get("use").unwrap().to_json(), serde_json::json!({"y": 3, "x": 1}));
    assert_eq!(node.get("both").unwrap().to_json(), serde_json::json!({"x": 1, "y": 2, "z": 4}));
    assert_eq!(node.get("same").unwrap().span, Span::new(4, 7, 2), "the position of the alias");
    check("a: {<<: 1}", "1:9 only a mapping can be merged");
    check("a: *b", "1:4 alias of an anchor that does not exist");
    check("a: &a [*a]", "1:8 an anchor contains an alias of itself");
}

#[test]
fn alias_bomb_is_rejected() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    let (node, found) = read(&text, Syntax::Yaml);
    assert!(node.is_none());
    assert_eq!(found[0].message, "the file is too large or too deep once its aliases are expanded");
}

#[test]
fn expanded_size_is_limited() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(500_000), vec!["*a"; 100].join(", "));
    assert!(read(&text, Syntax::Yaml).0.is_none());
}

#[test]
fn depth_is_limited_after_alias_expansion() {
    let mut text = String::from("a0: &a0 []\n");
    for level in 1..100 {
        text.push_str(&format!("a{level}: &a{level} [[*a{}]]\n", level - 1));
    }
    assert!(read(&text, Syntax::Yaml).0.is_none());
}

#[test]
fn depth_is_limited() {
    for syntax in [Syntax::Yaml, Syntax::Json] {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(read(&deep(MAX_DEPTH - 1), syntax).0.is_some());
        assert!(read(&deep(MAX_DEPTH + 2), syntax).0.is_none());
        assert!(read(&deep(100_000), syntax).0.is_none());
        assert!(read(&"[".repeat(100_000), syntax).0.is_none());
        assert!(read(&"{\"a\":".repeat(100_000), syntax).0.is_none());
    }
}

#[test]
fn decode_rejects_large_and_binary_files() {
    assert_eq!(decode(&vec![b' '; MAX_BYTES + 1]), Err(DecodeError::TooLarge));
    assert!(decode(&vec![b' '; MAX_BYTES]).is_ok());
    assert_eq!(decode(b"a: 1\nb: \xff"), Err(DecodeError::NotUtf8(Span::new(2, 4, 1))));
    assert_eq!(decode(b"a: 1\nb: \0"), Err(DecodeError::Nul(Span::new(2, 4, 1))));
    assert_eq!(decode(b"a: 1\r\nb: 2\rc\0"), Err(DecodeError::Nul(Span::new(3, 2, 1))));
    assert_eq!(decode("\u{feff}a: 1".as_bytes()), Ok("a: 1"));
}

#[test]
fn yaml_errors_have_messages_and_hints() {
    check("a: 1\n---\nb: 2\n", "2:1 more than one document in the file");
    check("", "0:0 the file is empty");
    check("[a]: 1", "1:1 a list or mapping used as a key");
    check("a: .inf", "1:4 not a finite number: `.inf`");
    check("a: !!int x", "1:10 invalid value for the tag `!!int`: `x`");
    let (_, found) = read("a: this: that\n", Syntax::Yaml);
    assert_eq!(found[0].hint.as_deref(), Some("put a string that contains `: ` in double quotes"));
    let (_, found) = read("a: {{b}}/c\n", Syntax::Yaml);
    assert_eq!(found[0].message, "a list or mapping used as a key");
    assert_eq!(found[0].hint.as_deref(), Some("put a value that starts with `{{` in double quotes"));
    let (_, found) = read("a:\n\tb: 1\n", Syntax::Yaml);
    assert_eq!(found[0].hint.as_deref(), Some("indent with spaces; YAML does not allow tabs"));
}

proptest! {
    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(text) = decode(&bytes) {
            for syntax in [Syntax::Yaml, Syntax::Json] {
                let (node, found) = read(text, syntax);
                prop_assert!(node.is_some() || !found.is_empty(), "no tree and no error: {text:?}");
            }
        }
    }

    #[test]
    fn any_punctuation_never_panics(text in "[-\\[\\]{}:,?&*!|>'\"%@`# \na<~\\\\0-9.é\t]{0,80}") {
        for syntax in [Syntax::Yaml, Syntax::Json] {
            let (node, found) = read(&text, syntax);
            prop_assert!(node.is_some() || !found.is_empty(), "no tree and no error: {text:?}");
        }
    }
}

/// Found by fuzzing: positions and snippets counted lines differently.
#[test]
fn lone_cr_ends_a_line_in_both_syntaxes() {
    for (text, syntax) in [("{\"a\": 1,\r\"a\": 2}", Syntax::Json), ("a: 1\ra: 2\n", Syntax::Yaml)] {
        let (_, found) = read(text, syntax);
        assert_eq!((found[0].line, found[0].column), (2, 1), "{text:?}");
        assert!(found[0].snippet.as_ref().unwrap().text.ends_with(['2', '}']), "{found:?}");
    }
}
