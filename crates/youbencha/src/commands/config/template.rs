//! The template of `.youbencharc`: every key documented and commented out.

use std::fmt::Write as _;

use serde_json::Value;
use yb_engine::config;

const HEAD: &str = "\
# Settings of youBencha. Uncomment a line to set its key.
# `yb config list` shows the effective values and their sources; environment variables override this file.
";

/// Renders the template. Writing to a string never fails.
pub(super) fn text() -> String {
    let mut text = HEAD.to_owned();
    let mut group = "";
    for key in &config::known_keys() {
        let (above, name) = key.name.split_once('.').unwrap_or(("", &key.name));
        let indent = if above.is_empty() { "" } else { "  " };
        if above != group {
            let _ = write!(text, "\n#{above}:\n");
            group = above;
        } else if above.is_empty() {
            text.push('\n');
        }
        let value = match &key.default {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None if name == "model" => "sonnet".to_owned(),
            None if name == "endpoint" => "http://127.0.0.1:4318".to_owned(),
            None if name == "file" => "trace.jsonl".to_owned(),
            None => "300000".to_owned(),
        };
        let _ = write!(text, "# {} ({})\n#{indent}{name}: {value}\n", key.doc, key.variable);
    }
    let _ = write!(text, "\n# Values of `${{NAME}}` in cases.\n#variables:\n#  NAME: value\n");
    text
}

#[cfg(test)]
mod tests {
    use yb_engine::config;

    #[test]
    fn template_sets_nothing_and_is_valid_when_uncommented() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(".youbencharc");
        std::fs::write(&file, super::text()).unwrap();
        let (values, found) = config::read_file(&file);
        assert!(values.is_empty() && found.is_empty(), "{found:?}");

        let uncommented: Vec<&str> = super::text()
            .leak()
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(rest) if rest.starts_with("  ") || !rest.starts_with(' ') => rest,
                _ => line,
            })
            .collect();
        std::fs::write(&file, uncommented.join("\n")).unwrap();
        let (values, found) = config::read_file(&file);
        assert!(found.is_empty(), "{found:?}");
        for key in config::known_keys() {
            assert!(values.contains_key(&key.name), "{}", key.name);
        }
        assert_eq!(values["variables.NAME"], "value");
    }
}
