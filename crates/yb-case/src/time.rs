//! Times: milliseconds as the original has them, or a text with a unit.

use yb_yaml::{Node, Value};

/// The longest time that makes sense, 30 days: it keeps sums far from overflowing.
const MAX_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// The milliseconds that a value means; a part of one counts as one.
pub(crate) fn milliseconds(node: &Node) -> Option<u64> {
    let number = match &node.value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Text(text) => with_unit(text)?,
        _ => return None,
    };
    let whole = number.ceil();
    (number >= 0.0 && whole <= MAX_MS as f64).then_some(whole as u64)
}

fn with_unit(text: &str) -> Option<f64> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ms" => 1.0,
        "s" => 1000.0,
        "m" | "min" => 60_000.0,
        "h" => 3_600_000.0,
        _ => return None,
    };
    let number = number.trim_end();
    let plain = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    plain.then(|| number.parse::<f64>().ok()).flatten().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::milliseconds;
    use yb_yaml::{Node, Span, Value};

    #[test]
    fn times_are_numbers_or_have_a_unit() {
        let read = |value| milliseconds(&Node { value, span: Span::WHOLE });
        let text = |text: &str| read(Value::Text(text.to_owned()));
        assert_eq!(read(Value::Int(5)), Some(5));
        assert_eq!(read(Value::Float(0.5)), Some(1));
        assert_eq!(read(Value::Int(-1)), None);
        assert_eq!(read(Value::Int(i64::MAX)), None);
        assert_eq!(text("250ms"), Some(250));
        assert_eq!(text("1.5 s"), Some(1500));
        assert_eq!(text("5m"), Some(300_000));
        assert_eq!(text("1h"), Some(3_600_000));
        for bad in ["", "5", "m", "5 days", "-1s", "1e9h", "5m 3s"] {
            assert_eq!(text(bad), None, "{bad}");
        }
    }
}
