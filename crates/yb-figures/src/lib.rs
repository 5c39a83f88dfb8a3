//! One format for each kind of figure: money, durations, percentages, sizes, counts and table cells.
//!
//! Terminal output, reports and messages use these functions, so the same value always looks the same. Machine formats (JSON, CSV,
//! the journal) keep raw numbers.

mod visible;

use std::time::Duration;

use unicode_width::UnicodeWidthChar as _;

pub use visible::{is_hidden, visible, visible_bytes, visible_line};

/// Formats an amount of US dollars: `$0.42`.
///
/// Zero is `$0.00`. Amounts below one cent keep four decimals (`$0.0042`), and smaller ones become `<$0.0001`, so that an amount
/// above zero never looks like zero. Amounts from $1,000 have separators.
#[must_use]
pub fn money(usd: f64) -> String {
    let sign = if usd < 0.0 { "-" } else { "" };
    let usd = usd.abs();
    if usd == 0.0 {
        "$0.00".to_owned()
    } else if usd < 0.000_05 {
        format!("{sign}<$0.0001")
    } else if usd < 0.009_95 {
        format!("{sign}${usd:.4}")
    } else {
        let text = format!("{usd:.2}");
        let (whole, cents) = text.split_once('.').unwrap_or((&text, "00"));
        format!("{sign}${}.{cents}", separated(whole))
    }
}

/// Formats milliseconds: `34 ms`, `1.2 s`, `2m 28s`, `1h 02m`.
#[must_use]
pub fn duration_ms(ms: u64) -> String {
    // The unit is chosen after rounding, so that 59.96 s is `1m 00s` rather than `60.0 s`.
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    if ms < 59_950 {
        return format!("{:.1} s", ms as f64 / 1000.0);
    }
    let seconds = ms.saturating_add(500) / 1000;
    if seconds < 3_600 {
        return format!("{}m {:02}s", seconds / 60, seconds % 60);
    }
    let minutes = ms.saturating_add(30_000) / 60_000;
    format!("{}h {:02}m", minutes / 60, minutes % 60)
}

/// Formats a [`Duration`] as [`duration_ms`] does.
#[must_use]
pub fn duration(duration: Duration) -> String {
    duration_ms(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Formats elapsed time as a running clock: `1:23`, `1:02:03`.
///
/// For live displays only: the width stays the same while the seconds change.
#[must_use]
pub fn clock_ms(ms: u64) -> String {
    let seconds = ms / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours == 0 { format!("{minutes}:{seconds:02}") } else { format!("{hours}:{minutes:02}:{seconds:02}") }
}

/// Formats a share from 0 to 1 as a percentage: `50.0%`.
///
/// Only 0 is `0.0%` and only 1 is `100.0%`: a share just below 1 is `99.9%`.
#[must_use]
pub fn percent(share: f64) -> String {
    let rounded = (share * 1000.0).round() / 10.0;
    let rounded = if share < 1.0 { rounded.min(99.9) } else { rounded };
    let rounded = if share > 0.0 { rounded.max(0.1) } else { rounded };
    format!("{rounded:.1}%")
}

/// Formats a confidence level or another nominal percentage: `95%`, `97.5%`.
#[must_use]
pub fn level(share: f64) -> String {
    format!("{}%", (share * 1000.0).round() / 10.0)
}

/// Formats a difference of two shares in percentage points: `-3.3 pp`.
#[must_use]
pub fn points(share: f64) -> String {
    format!("{} pp", signed_points(share))
}

/// Formats a p-value: `0.012`, `< 0.001`.
#[must_use]
pub fn p_value(value: f64) -> String {
    if value < 0.001 { "< 0.001".to_owned() } else { format!("{value:.3}") }
}

/// Formats an interval of differences of shares in percentage points: `-6.1 to +2.0 pp`.
#[must_use]
pub fn points_range(lower: f64, upper: f64) -> String {
    format!("{} to {} pp", signed_points(lower), signed_points(upper))
}

/// Never `-0.0`.
fn signed_points(share: f64) -> String {
    let rounded = (share * 1000.0).round() / 10.0;
    format!("{:+.1}", if rounded == 0.0 { 0.0 } else { rounded })
}

/// Formats a size in decimal units: `999 B`, `1.2 kB`, `1.3 GB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    for unit in ["kB", "MB", "GB", "TB"] {
        value /= 1000.0;
        // 999.95 kB would round to `1000.0 kB`.
        if value < 999.95 {
            return format!("{value:.1} {unit}");
        }
    }
    format!("{:.1} PB", value / 1000.0)
}

/// Formats a count with separators: `12,345`.
#[must_use]
pub fn count(number: impl TryInto<u64>) -> String {
    separated(&number.try_into().unwrap_or(u64::MAX).to_string())
}

/// Formats a count with its noun: `1 file`, `2 files`. For nouns whose plural is not formed with `s`, see [`counted`].
#[must_use]
pub fn plural(number: impl TryInto<u64>, noun: &str) -> String {
    counted(number, noun, &format!("{noun}s"))
}

/// Formats a count with its noun in singular or plural: `1 reply`, `2 replies`.
#[must_use]
pub fn counted(number: impl TryInto<u64>, singular: &str, plural: &str) -> String {
    let number: u64 = number.try_into().unwrap_or(u64::MAX);
    format!("{} {}", count(number), if number == 1 { singular } else { plural })
}

fn separated(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats an ISO 8601 time in UTC: `2026-11-15 16:45:24Z`. Other texts are returned unchanged.
#[must_use]
pub fn timestamp(iso: &str) -> String {
    match iso.split_once('T') {
        Some((day, time)) => format!("{day} {}Z", time.get(..8).unwrap_or(time)),
        None => iso.to_owned(),
    }
}

/// Returns the median of some milliseconds; of an even count, the mean of the middle two.
#[must_use]
pub fn median_ms(values: impl IntoIterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.into_iter().collect();
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let odd = !values.len().is_multiple_of(2);
    Some(if odd { upper } else { u64::midpoint(values[values.len() / 2 - 1], upper) })
}

/// Returns the median; of an even count, the mean of the middle two.
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let odd = !values.len().is_multiple_of(2);
    Some(if odd { upper } else { f64::midpoint(values[values.len() / 2 - 1], upper) })
}

/// Returns the number of terminal columns that a text without escape codes takes: a CJK character takes two.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Returns the number of terminal columns that a character takes.
#[must_use]
pub fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Pads a text on the right to a display width.
#[must_use]
pub fn pad_end(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Pads a text on the left to a display width.
#[must_use]
pub fn pad_start(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Quotes a word for a POSIX shell, if it needs it.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_keeps_fractions_of_a_cent_and_never_shows_some_as_none() {
        let shown = [0.0, 1e-6, 0.000_05, 0.0042, 0.009_94, 0.009_96, 0.42, 12.345, 1_234_567.891].map(money);
        assert_eq!(
            shown,
            [
                "$0.00",
                "<$0.0001",
                "$0.0001",
                "$0.0042",
                "$0.0099",
                "$0.01",
                "$0.42",
                "$12.35",
                "$1,234,567.89"
            ]
        );
        assert_eq!([-0.5, -0.0042, -0.0].map(money), ["-$0.50", "-$0.0042", "$0.00"]);
    }

    #[test]
    fn duration_changes_unit_after_rounding() {
        let shown = [
            0, 34, 999, 1_000, 1_240, 12_345, 59_949, 59_950, 61_000, 148_000, 3_599_499, 3_599_500,
            3_720_000,
        ]
        .map(duration_ms);
        assert_eq!(
            shown,
            [
                "0 ms", "34 ms", "999 ms", "1.0 s", "1.2 s", "12.3 s", "59.9 s", "1m 00s", "1m 01s",
                "2m 28s", "59m 59s", "1h 00m", "1h 02m"
            ]
        );
        assert_eq!(duration(Duration::from_millis(1_240)), "1.2 s");
        assert_eq!([83_000, 3_723_000].map(clock_ms), ["1:23", "1:02:03"]);
    }

    #[test]
    fn percent_rounds_neither_up_to_all_nor_down_to_none() {
        let shown = [0.0, 0.0001, 0.5, 2.0 / 3.0, 0.999_9, 1.0].map(percent);
        assert_eq!(shown, ["0.0%", "0.1%", "50.0%", "66.7%", "99.9%", "100.0%"]);
        assert_eq!([0.95, 0.975].map(level), ["95%", "97.5%"]);
    }

    #[test]
    fn points_are_signed() {
        assert_eq!([-0.033, 0.0, -0.000_1, 0.25].map(points), ["-3.3 pp", "+0.0 pp", "+0.0 pp", "+25.0 pp"]);
        assert_eq!(points_range(-0.061, 0.02), "-6.1 to +2.0 pp");
    }

    #[test]
    fn bytes_are_decimal() {
        let shown = [0, 999, 1_000, 999_950, 1_234_567, 1_300_000_000, 7_000_000_000_000].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "1.0 MB", "1.2 MB", "1.3 GB", "7.0 TB"]);
    }

    #[test]
    fn counts_have_separators_and_nouns() {
        assert_eq!([7, 1_000, 1_234_567].map(count), ["7", "1,000", "1,234,567"]);
        assert_eq!([0, 1, 2_000].map(|n| plural(n, "file")), ["0 files", "1 file", "2,000 files"]);
        assert_eq!([1, 2].map(|n| counted(n, "reply", "replies")), ["1 reply", "2 replies"]);
    }

    #[test]
    fn timestamp_has_seconds_and_a_zone() {
        assert_eq!(timestamp("2026-11-15T16:45:24.123Z"), "2026-11-15 16:45:24Z");
        assert_eq!(timestamp("?"), "?");
    }

    #[test]
    fn median_of_an_even_count_is_the_mean_of_the_middle_two() {
        let of = |values: &[u64]| median_ms(values.iter().copied());
        assert_eq!([of(&[]), of(&[3]), of(&[9, 1, 5]), of(&[4, 1, 2, 9])], [None, Some(3), Some(5), Some(3)]);
        assert_eq!([median([]), median([2.0, 1.0])], [None, Some(1.5)]);
    }

    #[test]
    fn padding_counts_columns_not_characters() {
        assert_eq!(width("日本語"), 6);
        assert_eq!(pad_end("日本", 6), "日本  ");
        assert_eq!(pad_start("ü", 3), "  ü");
        assert_eq!(pad_end("longer", 3), "longer");
    }
}
