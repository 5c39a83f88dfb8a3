//! Durations with a unit, such as `250ms`, `1.5s`, `5m` or `1h`.

use std::time::Duration;

/// The longest accepted duration, 30 days. It keeps sums of durations far from overflowing.
pub const MAX_DURATION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Parses a non-negative number with a unit: `ms`, `s`, `m`, `min` or `h`.
///
/// Returns `None` without a unit, and for a duration longer than [`MAX_DURATION`].
///
/// ```
/// # use std::time::Duration;
/// assert_eq!(yb_yaml::parse_duration("1.5 s"), Some(Duration::from_millis(1500)));
/// assert_eq!(yb_yaml::parse_duration("5"), None);
/// ```
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number = number.trim_end();
    // `f64` would also parse a sign.
    let unsigned = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number = unsigned.then(|| number.parse::<f64>().ok()).flatten()?;
    Duration::try_from_secs_f64(number * seconds).ok().filter(|duration| *duration <= MAX_DURATION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_a_number_with_unit() {
        let milliseconds = |text| parse_duration(text).map(|duration| duration.as_millis());
        for (text, expected) in [
            ("0s", 0),
            ("7ms", 7),
            ("250ms", 250),
            (" 1.5 s ", 1500),
            ("0.1s", 100),
            ("5m", 300_000),
            ("5min", 300_000),
            ("1h", 3_600_000),
            ("720h", 2_592_000_000),
        ] {
            assert_eq!(milliseconds(text), Some(expected), "{text}");
        }
        for text in ["", "5", "m", "5 days", "5S", "-1s", "+1s", "1e9h", "5m 3s", "1..5s", ".s", "721h"] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
