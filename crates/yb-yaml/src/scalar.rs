//! What a plain word of YAML means: the core schema of YAML 1.2, where `yes` and `on` are texts.

use super::Value;

/// The value of a plain scalar without a tag.
pub fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).unwrap_or_else(|| Value::Text(text.to_owned())),
    }
}

/// The value of a scalar with a tag of the core schema.
pub(super) fn tagged(suffix: &str, text: &str) -> Option<Value> {
    let value = plain(text);
    match (suffix, &value) {
        ("str", _) => Some(Value::Text(text.to_owned())),
        ("null", Value::Null) | ("bool", Value::Bool(_)) | ("int", Value::Int(_)) => Some(value),
        ("float", Value::Float(_)) => Some(value),
        ("float", Value::Int(number)) => Some(Value::Float(*number as f64)),
        _ => None,
    }
}

fn number(text: &str) -> Option<Value> {
    let first = *text.as_bytes().first()?;
    if !(first.is_ascii_digit() || b"+-.".contains(&first)) {
        return None;
    }
    let radix = |digits: &str, radix| {
        let plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        plain.then(|| i64::from_str_radix(digits, radix).ok()).flatten().map(Value::Int)
    };
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
        return Some(Value::Float(sign * f64::INFINITY));
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(Value::Float(f64::NAN));
    }
    if !unsigned.is_empty() && unsigned.bytes().all(|digit| digit.is_ascii_digit()) {
        // A whole number that is too large stays a number, as in JSON.
        return text.parse().map(Value::Int).or_else(|_| text.parse().map(Value::Float)).ok();
    }
    is_float(unsigned).then(|| text.parse().ok()).flatten().map(Value::Float)
}

/// `( "." digits | digits ( "." digits? )? ) ( [eE] [-+]? digits )?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let good_mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    good_mantissa && exponent.is_none_or(|text| digits(text.strip_prefix(['+', '-']).unwrap_or(text)))
}

#[cfg(test)]
mod tests {
    use super::{plain, tagged};
    use crate::Value;

    #[test]
    fn plain_words_are_those_of_the_core_schema() {
        for (text, value) in [
            ("", Value::Null),
            ("~", Value::Null),
            ("true", Value::Bool(true)),
            ("42", Value::Int(42)),
            ("-7", Value::Int(-7)),
            ("+7", Value::Int(7)),
            ("0x1F", Value::Int(31)),
            ("0o17", Value::Int(15)),
            ("1.5", Value::Float(1.5)),
            ("1.", Value::Float(1.0)),
            (".5", Value::Float(0.5)),
            ("1e3", Value::Float(1000.0)),
            ("-.inf", Value::Float(f64::NEG_INFINITY)),
            ("99999999999999999999", Value::Float(1e20)),
        ] {
            assert_eq!(plain(text), value, "{text}");
        }
        for text in
            ["yes", "on", "1.2.3", "1_000", "0x", "-", "+", ".", "e5", "1e", "12:30", "inf", "2024-01-01"]
        {
            assert_eq!(plain(text), Value::Text(text.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_tag_must_fit_its_text() {
        assert_eq!(tagged("str", "1"), Some(Value::Text("1".into())));
        assert_eq!(tagged("int", "1"), Some(Value::Int(1)));
        assert_eq!(tagged("float", "1"), Some(Value::Float(1.0)));
        assert_eq!(tagged("int", "x"), None);
    }
}
