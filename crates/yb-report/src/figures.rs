//! Numbers as people read them, the same in every format.

/// A duration, such as `12 ms`, `0.4 s`, `12 s` or `3 min 20 s`.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        1..100 => format!("{ms} ms"),
        0..10_000 => format!("{:.1} s", ms as f64 / 1000.0),
        10_000..120_000 => format!("{} s", (ms + 500) / 1000),
        120_000..7_200_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// Money: cents where there are some, more digits below.
pub(crate) fn dollars(usd: f64) -> String {
    if usd == 0.0 || usd >= 1.0 { format!("${usd:.2}") } else { format!("${usd:.4}") }
}

/// A count with separators, `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun.
pub(crate) fn plural(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{} {noun}s", count(number as u64)) }
}

/// A share, `67%`; never rounded up to all or down to nothing.
pub(crate) fn percent(share: f64) -> String {
    let rounded = (share * 100.0).round();
    let rounded = if share < 1.0 { rounded.min(99.0) } else { rounded };
    let rounded = if share > 0.0 { rounded.max(1.0) } else { rounded };
    format!("{rounded:.0}%")
}

/// A size, `12 KB`.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} KB", bytes / 1_000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// A moment, `2026-11-15 16:45:24Z`; what is none stays as it is.
pub(crate) fn moment(iso: &str) -> String {
    match iso.split_once('T') {
        Some((day, time)) => format!("{day} {}Z", time.get(..8).unwrap_or(time)),
        None => iso.to_owned(),
    }
}

/// The beginning of a text, with a mark if there is more.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A text in one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_as_people_say_them() {
        assert_eq!(
            [12, 400, 9_990, 12_345, 200_000, 7_500_000].map(duration),
            ["12 ms", "0.4 s", "10.0 s", "12 s", "3 min 20 s", "2 h 5 min"]
        );
        assert_eq!([0.0, 0.01234, 12.345].map(dollars), ["$0.00", "$0.0123", "$12.35"]);
        assert_eq!([7, 1_000, 1_234_567].map(count), ["7", "1,000", "1,234,567"]);
        assert_eq!([0.0, 0.001, 0.5, 0.999, 1.0].map(percent), ["0%", "1%", "50%", "99%", "100%"]);
        assert_eq!([999, 12_345, 2_500_000].map(bytes), ["999 bytes", "12 KB", "2.5 MB"]);
        assert_eq!(moment("2026-11-15T16:45:24.123Z"), "2026-11-15 16:45:24Z");
        assert_eq!(shorten("äöü", 2), "äö…");
    }
}
