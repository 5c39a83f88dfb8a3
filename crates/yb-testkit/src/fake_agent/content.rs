//! Byte content in scripts, and the `{{name}}` placeholders in it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Captured values, by name.
pub(crate) type Vars = BTreeMap<String, Value>;

/// A notation for bytes.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// Verbatim.
    Text(String),
    /// With a newline appended.
    Line(String),
    /// With the escapes `\xNN`, `
    /// `, `\r`, `\t`, `\0` and `\\`.
    Escaped(String),
    /// Pairs of hex digits; whitespace is ignored.
    Hex(String),
    /// One line of JSON.
    Json(Value),
    /// The letter `x`, repeated.
    Fill(u64),
}

const KINDS: [&str; 6] = ["text", "line", "escaped", "hex", "json", "fill"];

impl Content {
    /// Removes the content key from the mapping of a step and parses it.
    pub(crate) fn take_from(map: &mut Map<String, Value>) -> Result<Self, String> {
        let named: Vec<&str> = KINDS.into_iter().filter(|kind| map.contains_key(*kind)).collect();
        let [kind] = named[..] else {
            return Err(format!("expected exactly one of {KINDS:?}, found: {named:?}"));
        };
        let value = map.remove(kind).unwrap_or_default();
        let string = || value.as_str().map(str::to_owned).ok_or(format!("`{kind}` takes a string"));
        let content = match kind {
            "text" => Self::Text(string()?),
            "line" => Self::Line(string()?),
            "escaped" => Self::Escaped(string()?),
            "hex" => Self::Hex(string()?),
            "fill" => Self::Fill(value.as_u64().ok_or("`fill` takes a number of bytes")?),
            _ => Self::Json(value),
        };
        if matches!(content, Self::Escaped(_) | Self::Hex(_)) {
            content.bytes(&Vars::new())?;
        }
        Ok(content)
    }

    /// Returns the bytes.
    pub(crate) fn bytes(&self, vars: &Vars) -> Result<Vec<u8>, String> {
        Ok(match self {
            Self::Text(text) => interpolate(text, vars)?.into_bytes(),
            Self::Line(line) => {
                let mut bytes = interpolate(line, vars)?.into_bytes();
                bytes.push(b'\n');
                bytes
            }
            Self::Escaped(text) => unescape(text)?,
            Self::Hex(text) => decode_hex(text)?,
            Self::Json(value) => {
                let mut bytes = interpolate_json(value, vars)?.to_string().into_bytes();
                bytes.push(b'\n');
                bytes
            }
            Self::Fill(count) => {
                let count = usize::try_from(*count).map_err(|error| error.to_string())?;
                vec![b'x'; count]
            }
        })
    }
}

/// Replaces every `{{name}}` with the captured value.
pub(crate) fn interpolate(text: &str, vars: &Vars) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let Some(length) = rest[start..].find("}}") else { break };
        filled.push_str(&rest[..start]);
        match lookup(&rest[start + 2..start + length], vars)? {
            Value::String(text) => filled.push_str(&text),
            other => filled.push_str(&other.to_string()),
        }
        rest = &rest[start + length + 2..];
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Like [`interpolate`] inside JSON. A string that consists of one placeholder keeps the type of the captured
/// value.
fn interpolate_json(value: &Value, vars: &Vars) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => match text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) {
            Some(name) if !name.contains("{{") => lookup(name, vars)?,
            _ => Value::String(interpolate(text, vars)?),
        },
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| interpolate_json(item, vars)).collect::<Result<_, _>>()?)
        }
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| Ok((key.clone(), interpolate_json(value, vars)?)))
                .collect::<Result<_, String>>()?,
        ),
        other => other.clone(),
    })
}

fn lookup(name: &str, vars: &Vars) -> Result<Value, String> {
    let name = name.trim();
    if let Some(value) = vars.get(name) {
        return Ok(value.clone());
    }
    if name == "pid" {
        return Ok(std::process::id().into());
    }
    if let Some(variable) = name.strip_prefix("env.") {
        return std::env::var(variable)
            .map(Value::String)
            .map_err(|error| format!("`{{{{{name}}}}}`: {error}"));
    }
    Err(format!("no captured value: `{name}`"))
}

fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        if letter != '\\' {
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        match rest.next() {
            Some('n') => bytes.push(b'\n'),
            Some('r') => bytes.push(b'\r'),
            Some('t') => bytes.push(b'\t'),
            Some('0') => bytes.push(0),
            Some('\\') => bytes.push(b'\\'),
            Some('x') => {
                let digits: String = rest.by_ref().take(2).collect();
                bytes.extend(decode_hex(&digits)?);
            }
            other => return Err(format!("unknown escape in {text:?}: {other:?}")),
        }
    }
    Ok(bytes)
}

fn decode_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<char> = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| {
            let pair: String = pair.iter().collect();
            if pair.len() != 2 {
                return Err(format!("expected pairs of hex digits, found: {text:?}"));
            }
            u8::from_str_radix(&pair, 16).map_err(|error| format!("invalid hex {pair:?}: {error}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_notation_is_decoded() {
        let check = |step: Value, expect: &[u8]| {
            let mut map = step.as_object().unwrap().clone();
            let bytes = Content::take_from(&mut map).unwrap().bytes(&Vars::new()).unwrap();
            assert_eq!(bytes, expect, "{step}");
        };
        check(json!({"text": "a"}), b"a");
        check(json!({"line": "a"}), b"a\n");
        check(json!({"escaped": "a\\xff\\0\\r\\n\\t\\\\"}), b"a\xff\0\r\n\t\\");
        check(json!({"hex": "61 ff00"}), b"a\xff\0");
        check(json!({"json": {"a": [1, null]}}), b"{\"a\":[1,null]}\n");
        check(json!({"fill": 3}), b"xxx");
    }

    #[test]
    fn placeholders_are_replaced_and_keep_json_types() {
        let vars = Vars::from([("id".to_owned(), json!(7)), ("who".to_owned(), json!("me"))]);
        assert_eq!(interpolate("{{who}} has {{id}}{{", &vars).unwrap(), "me has 7{{");
        let value =
            interpolate_json(&json!({"a": "{{id}}", "b": ["x{{id}}"], "c": "{{who}}"}), &vars).unwrap();
        assert_eq!(value, json!({"a": 7, "b": ["x7"], "c": "me"}));
        assert!(interpolate("{{nobody}}", &vars).unwrap_err().contains("nobody"));
    }

    #[test]
    fn invalid_content_is_rejected() {
        let refused = |step: Value| Content::take_from(&mut step.as_object().unwrap().clone()).unwrap_err();
        assert!(refused(json!({"to": "stdout"})).contains("exactly one of"));
        assert!(refused(json!({"text": "a", "hex": "61"})).contains("exactly one of"));
        assert!(refused(json!({"hex": "6"})).contains("pairs"));
        assert!(refused(json!({"hex": "zz"})).contains("invalid hex"));
        assert!(refused(json!({"escaped": "\\q"})).contains("unknown escape"));
        assert!(refused(json!({"fill": "many"})).contains("number"));
    }
}
