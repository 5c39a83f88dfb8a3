//! Durations in files: a number of milliseconds, or a string with a unit.

use yb_yaml::duration::MAX_DURATION;
use yb_yaml::{Node, Value};

/// Returns the milliseconds of a duration, rounded up; `None` if the value is not a valid duration.
pub(crate) fn milliseconds(node: &Node) -> Option<u64> {
    let number = match &node.value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Text(text) => {
            let duration = yb_yaml::parse_duration(text)?;
            return u64::try_from(duration.as_nanos().div_ceil(1_000_000)).ok();
        }
        _ => return None,
    };
    let rounded = number.ceil();
    (number >= 0.0 && rounded <= MAX_DURATION.as_millis() as f64).then_some(rounded as u64)
}

#[cfg(test)]
mod tests {
    use super::milliseconds;
    use yb_yaml::{Node, Span, Value};

    #[test]
    fn durations_are_milliseconds_or_have_a_unit() {
        let read = |value| milliseconds(&Node { value, span: Span::WHOLE });
        let text = |text: &str| read(Value::Text(text.to_owned()));
        assert_eq!(read(Value::Int(5)), Some(5));
        assert_eq!(read(Value::Float(0.5)), Some(1));
        assert_eq!(read(Value::Int(-1)), None);
        assert_eq!(read(Value::Int(i64::MAX)), None);
        assert_eq!(text("250ms"), Some(250));
        assert_eq!(text("0.5ms"), Some(1));
        assert_eq!(text("1.5 s"), Some(1500));
        assert_eq!(text("5m"), Some(300_000));
        assert_eq!(text("1h"), Some(3_600_000));
        for bad in ["", "5", "m", "5 days", "-1s", "1e9h", "5m 3s"] {
            assert_eq!(text(bad), None, "{bad}");
        }
    }
}
