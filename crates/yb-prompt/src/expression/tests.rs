//! Tests of the expression language.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Scope, arrow, parse};

fn evaluate(text: &str) -> Result<Value, String> {
    let props =
        json!({"name": "ann", "n": 3, "f": 2.5, "list": ["a", "b"], "deep": {"x": {"y": "z"}}, "no": false});
    let expression = parse(text).map_err(|error| error.message)?.ok_or("nothing")?;
    let scope = Scope::new("props", &props);
    expression.evaluate(&scope).map_err(|error| format!("{}: {}", error.at, error.message))
}

#[test]
fn expressions_are_evaluated() {
    for (text, expected) in [
        ("props.name", json!("ann")),
        ("props.deep.x.y", json!("z")),
        ("props['name']", json!("ann")),
        ("props.list[1]", json!("b")),
        ("props.list.length", json!(2)),
        ("props.gone", json!("")),
        ("props.gone.further[3].still", json!("")),
        ("1 + 2 * 3", json!(7)),
        ("(1 + 2) * 3", json!(9)),
        ("7 % 4 - -1", json!(4)),
        ("1 / 4", json!(0.25)),
        ("'a' + 1", json!("a1")),
        ("props.n == 3 && 'three'", json!("three")),
        ("props.n === 3.0", json!(true)),
        ("props.no || 'else'", json!("else")),
        ("!props.no", json!(true)),
        ("props.n >= 3 ? 'many' : 'few'", json!("many")),
        ("'a' < 'b'", json!(true)),
        ("[1, 'x', props.n,]", json!([1, "x", 3])),
        ("{a: 1, 'b c': {}}", json!({"a": 1, "b c": {}})),
        ("/* why */ 1 // and\n", json!(1)),
        ("\"a\\n\\u00e9\\\"\"", json!("a\né\"")),
        ("capitalize(props.name)", json!("Ann")),
        ("upper(props.name) + lower('X')", json!("ANNx")),
        ("truncate('héllo', 2)", json!("hé...")),
        ("truncate('hi', 9)", json!("hi")),
        ("abs(-2) + round(2.4) + round(1.25, 1)", json!(5.3)),
        ("join(props.list)", json!("a, b")),
        ("join(props.list, '')", json!("ab")),
        ("replace('a-b-c', '-', '+')", json!("a+b+c")),
        ("urlencode('a b/é')", json!("a%20b%2F%C3%A9")),
        ("dump(props.list)", json!("[\"a\",\"b\"]")),
        ("round(1.005, 2)", json!(1.01)),
        ("round(-2.5)", json!(-2)),
    ] {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }
}

#[test]
fn expression_errors_have_offset_and_message() {
    for (text, expected) in [
        ("a b", "unexpected name: `b`"),
        ("name", "0: unknown name: `name`"),
        ("process.exit(1)", "only filters can be called"),
        ("eval('1')", "0: unknown filter: `eval`"),
        ("props.name = 1", "assignments are not supported"),
        ("() => 1", "expected a value, found `)`"),
        ("props.n < props.gone", "8: expected a number, found an empty string (is the prop missing?)"),
        ("1 / 0", "2: division by zero"),
        ("join(props.name)", "0: expected `join(list, separator = \", \")`: found a string"),
        ("upper()", "0: expected `upper(text)`: found 0 arguments"),
        ("`x`", "template strings are not supported"),
        ("1.2.3", "not a number: `1.2.3`"),
        ("#", "unexpected character: `#`"),
    ] {
        assert_eq!(evaluate(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn unfinished_expression_is_incomplete() {
    for text in ["", "1 +", "'a", "{a: 1", "f(", "[1,", "props.", "/* x", "a ? b"] {
        let found = parse(text);
        let incomplete = match &found {
            Ok(None) => true,
            Err(error) => error.incomplete,
            Ok(Some(_)) => false,
        };
        assert!(incomplete, "{text}: {found:?}");
    }
    assert!(!parse("a b").unwrap_err().incomplete);
}

#[test]
fn large_expressions_do_not_overflow_the_stack() {
    for text in [
        format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        "!".repeat(100_000),
        format!("1{}", "+1".repeat(100_000)),
        format!("props{}", ".a".repeat(100_000)),
        "[".repeat(100_000),
        "a?".repeat(100_000),
    ] {
        assert!(parse(&text).is_err());
    }
}

#[test]
fn arrow_function_has_parameters_and_a_body() {
    let body = |text: &str| {
        let found = arrow(text)?.ok()?;
        Some((found.item.clone(), found.index.clone(), text[found.from..found.to].to_owned()))
    };
    let one = (String::from("x"), None, String::from("<>don't {x}</>"));
    assert_eq!(body("(x) => (<>don't {x}</>)"), Some(one.clone()));
    assert_eq!(body(" x=> <>don't {x}</> "), Some(one));
    let two = (String::from("x"), Some(String::from("i")), String::from("x + i"));
    assert_eq!(body("(x, i) => x + i"), Some(two));
    assert!(arrow("(x) => (<>{x}").is_some_and(|found| found.is_err()));
    assert_eq!(arrow("props.x >= 3"), None);
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_break_the_parser(text in any::<String>()) {
        let _ = (parse(&text), arrow(&text));
    }

    #[test]
    fn expression_like_text_does_not_break_the_parser(
        text in "([a-c]|props|join|upper|[0-9]|[-+*/%!<>=&|?:.,()\\[\\]{}'\" ]){0,40}"
    ) {
        let _ = evaluate(&text);
        let _ = arrow(&text);
    }
}
