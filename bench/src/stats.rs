//! Medians, and the rows of the output table.

use std::time::Duration;

/// Returns the median.
pub(crate) fn median<T: Copy + Ord>(values: &mut [T]) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Formats milliseconds with three digits.
pub(crate) fn ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}

/// Prints one row: the subject, the figure, and whether it meets its bound.
pub(crate) fn row(what: &str, figure: &str, bound: Option<(&str, bool)>) {
    let verdict = match bound {
        Some((bound, true)) => format!("{bound}: holds"),
        Some((bound, false)) => format!("{bound}: BROKEN"),
        None => String::new(),
    };
    println!("  {what:<44} {figure:>14}   {verdict}");
}
