//! Filters: the pure functions that an expression may call.

use std::fmt::Write as _;

use serde_json::Value;

use super::ExpressionError;
use super::evaluate::{describe, number, to_text};

/// All filters with their usage for messages.
const FILTERS: [(&str, &str); 10] = [
    ("abs", "abs(number)"),
    ("capitalize", "capitalize(text)"),
    ("dump", "dump(value)"),
    ("join", "join(list, separator = \", \")"),
    ("lower", "lower(text)"),
    ("replace", "replace(text, old, new)"),
    ("round", "round(number, digits = 0)"),
    ("truncate", "truncate(text, length)"),
    ("upper", "upper(text)"),
    ("urlencode", "urlencode(text)"),
];

pub(super) fn call(name: &str, arguments: &[Value], at: usize) -> Result<Value, ExpressionError> {
    let Some((_, usage)) = FILTERS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = FILTERS.iter().map(|(known, _)| *known).collect();
        return Err(ExpressionError::new(at, format!("unknown filter: `{name}`"))
            .hint(format!("expected one of `{}`", known.join("`, `"))));
    };
    let call = Call { name, usage, arguments, at };
    let (least, most) = match name {
        "replace" => (3, 3),
        "truncate" => (2, 2),
        "join" | "round" => (1, 2),
        _ => (1, 1),
    };
    if !(least..=most).contains(&arguments.len()) {
        return Err(call.usage_error(&format!("found {} arguments", arguments.len())));
    }
    call.result()
}

struct Call<'a> {
    name: &'a str,
    usage: &'a str,
    arguments: &'a [Value],
    at: usize,
}

impl Call<'_> {
    fn usage_error(&self, found: &str) -> ExpressionError {
        ExpressionError::new(self.at, format!("expected `{}`: {found}", self.usage))
    }

    fn value(&self, at: usize) -> &Value {
        self.arguments.get(at).unwrap_or(&Value::Null)
    }

    fn text(&self, at: usize) -> String {
        to_text(self.value(at))
    }

    fn number(&self, at: usize) -> Result<f64, ExpressionError> {
        self.value(at)
            .as_f64()
            .ok_or_else(|| self.usage_error(&format!("found {}", describe(self.value(at)))))
    }

    fn result(&self) -> Result<Value, ExpressionError> {
        Ok(match self.name {
            "abs" => number(self.number(0)?.abs()),
            "capitalize" => {
                let text = self.text(0);
                let mut letters = text.chars();
                let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
                Value::from(first + letters.as_str())
            }
            "dump" => Value::from(serde_json::to_string(self.value(0)).unwrap_or_default()),
            "join" => {
                let Value::Array(items) = self.value(0) else {
                    return Err(self.usage_error(&format!("found {}", describe(self.value(0)))));
                };
                let separator = if self.arguments.len() > 1 { self.text(1) } else { ", ".to_owned() };
                Value::from(items.iter().map(to_text).collect::<Vec<_>>().join(&separator))
            }
            "lower" => Value::from(self.text(0).to_lowercase()),
            "replace" => {
                let (text, old) = (self.text(0), self.text(1));
                if old.is_empty() {
                    Value::from(text)
                } else {
                    Value::from(text.replace(&old, &self.text(2)))
                }
            }
            "round" => {
                let digits = if self.arguments.len() > 1 { self.number(1)? } else { 0.0 };
                number(rounded(self.number(0)?, digits.clamp(0.0, 12.0) as i32))
            }
            "truncate" => {
                let (text, length) = (self.text(0), self.number(1)?.max(0.0) as usize);
                match text.char_indices().nth(length) {
                    Some((end, _)) => Value::from(format!("{}...", text.get(..end).unwrap_or_default())),
                    None => Value::from(text),
                }
            }
            "upper" => Value::from(self.text(0).to_uppercase()),
            _ => {
                let mut out = String::new();
                for byte in self.text(0).bytes() {
                    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                        out.push(char::from(byte));
                    } else {
                        let _ = write!(out, "%{byte:02X}");
                    }
                }
                Value::from(out)
            }
        })
    }
}

/// Rounds half up as templatedx does, which shifts the decimal point in the text of the number: 1.005 becomes 1.01.
fn rounded(value: f64, digits: i32) -> f64 {
    let shift = |value: f64, digits: i32| format!("{value}e{digits}").parse::<f64>().unwrap_or(value);
    shift((shift(value, digits) + 0.5).floor(), -digits)
}
