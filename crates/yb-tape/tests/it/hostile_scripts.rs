//! Malicious scripts are rejected quickly and within limits.

use std::io::Write as _;
use std::time::{Duration, Instant};

use yb_tape::{Error, Script, Vars};

fn rejection(text: &str, vars: &Vars) -> String {
    let start = Instant::now();
    let error = Script::parse(text, vars).unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    error.to_string()
}

#[test]
fn alias_bombs_are_rejected() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let error = rejection(&text, &Vars::new());
    assert!(error.contains("too large or too deep once its aliases are expanded"), "{error}");
}

#[test]
fn script_depth_is_limited() {
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let text = format!("a: {}1{}", open.repeat(5_000), close.repeat(5_000));
        let error = rejection(&text, &Vars::new());
        assert!(error.starts_with("script:"), "{error}");
    }
}

#[test]
fn script_size_is_limited_before_parsing() {
    let text = format!("tape: 1\n# {}\n", "x".repeat(1024 * 1024));
    assert_eq!(
        rejection(&text, &Vars::new()),
        format!("script: the script is too large, expected at most 1048576 bytes: {} bytes", text.len())
    );
    // Of a file, at most one byte over the limit is read.
    let path = std::env::temp_dir().join(format!("yb-tape-large-{}.yaml", std::process::id()));
    let mut file = std::fs::File::create(&path).unwrap();
    for _ in 0..4 {
        file.write_all(text.as_bytes()).unwrap();
    }
    let error = Script::load(&path, &Vars::new()).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(&error, Error::Script(_)));
    assert!(error.to_string().ends_with(": 1048577 bytes"), "{error}");
}

#[test]
fn variable_expansion_is_limited() {
    let vars = Vars::new().with("big", "x".repeat(1024 * 1024));
    let text = format!("{{ tape: 1, lanes: {{ main: [ {{ say: '{}' }} ] }} }}", "{{big}}".repeat(70));
    let error = rejection(&text, &vars);
    assert!(error.contains("too large after variable expansion"), "{error}");
}

#[test]
fn malformed_scripts_never_panic() {
    for text in [
        "",
        "\0",
        "\u{feff}",
        "~",
        "tape",
        "[",
        "{",
        "- ",
        ": :",
        "&a *a",
        "a: &a [*a]",
        "? ",
        "!!binary x",
        "%YAML 9",
        "tape: 99999999999999999999",
        "tape: -1",
        "tape: 1.5",
        "{tape: 1, lanes: {main: [{}]}}",
        "<<: {tape: 1}",
        "tape: 1\nlanes: &a {main: *a}",
        "tape: 1\nlanes: {? [a]: b}",
        "tape: !!int x",
        "\t",
        "'",
        "\"\\",
        "|",
        ">-",
    ] {
        let error = rejection(text, &Vars::new());
        assert!(!error.is_empty() && !error.contains("Options"), "{text}: {error}");
    }
}
