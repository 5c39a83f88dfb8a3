//! The YAML and JSON reader below all files that users write.

use std::path::Path;

use yb_yaml::diagnostic::Diagnostics;
use yb_yaml::{Node, Syntax, parse};

use super::{Probe, Target, diagnostics, magnitude, require};
use crate::corpus::Seeds;

pub(super) const TARGET: Target = Target {
    name: "yaml",
    about: "YAML and JSON: what is read can be written as JSON and is the same when read again",
    seeds: || {
        Seeds::new()
            .text("a: &x [1, 2.5, .inf, 0x1f, 0o17, ~, yes, 'it''s']\nb: *x\nc: {<<: {d: 1}, d: 2}\n")
            .text("a: |2-\n    text\n  more\nb: >+\n  folded\n\n  text\n\n? complex\n: value\n")
            .text("{\"a\": [1, -0, 1e5, \"\\u00e9\\ud83d\\ude00\", null, true], \"b\": {\"\": {}}}")
            .text("%YAML 1.2\n---\n!!str a: !!int 1\n...\n")
            .files("examples", ".yaml")?
            .blocks(&["yaml", "json"], |_| true)
    },
    check,
};

fn read(probe: &mut Probe, text: &str, syntax: Syntax) -> Result<Option<Node>, String> {
    let file = Path::new("file");
    let mut found = Diagnostics::new(file, text);
    let node = parse(text, syntax, &mut found);
    let failed = found.has_errors();
    let found = found.into_vec();
    diagnostics::check(probe, file, text.as_bytes(), &found)?;
    require(node.is_some() || failed, "a rejected text has an error", || format!("{text:?}"))?;
    Ok(node.filter(|_| !failed))
}

fn check(probe: &mut Probe, input: &[u8]) -> Result<(), String> {
    let Ok(text) = yb_yaml::decode(input) else { return Ok(()) };
    for syntax in [Syntax::Yaml, Syntax::Json] {
        let Some(node) = read(probe, text, syntax)? else { continue };
        let value = node.to_json();
        probe.saw(&(syntax == Syntax::Yaml, node.entries().len(), node.items().len(), node.describe().len()));
        probe.saw(&magnitude(value.to_string().len()));
        let written = value.to_string();
        // A NUL that YAML escapes is rejected by the fields of a file, in JSON by the parser.
        if written.len() <= yb_yaml::MAX_BYTES && !written.contains("\\u0000") {
            let again = read(probe, &written, Syntax::Json)?.map(|node| node.to_json());
            require(
                again.as_ref() == Some(&value),
                "JSON that was written from a file is read as the same value",
                || format!("{written} as {again:?}"),
            )?;
        }
        if syntax == Syntax::Json
            && let Ok(other) = serde_json::from_str::<serde_json::Value>(text)
            && !has_large_integer(&other)
        {
            require(other == value, "JSON means the same as in serde_json", || format!("{value} {other}"))?;
        }
    }
    let _ = yb_yaml::parse_plain_scalar(text);
    let _ = yb_yaml::parse_duration(text);
    Ok(())
}

/// Returns whether a value has an integer above `i64::MAX`, which is read as a floating-point number.
fn has_large_integer(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Number(number) => number.as_i64().is_none() && number.is_u64(),
        serde_json::Value::Array(items) => items.iter().any(has_large_integer),
        serde_json::Value::Object(map) => map.values().any(has_large_integer),
        _ => false,
    }
}
