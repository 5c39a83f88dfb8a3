//! Medians, and the rows of the output table.

use std::time::Duration;

/// Returns the median.
pub(crate) fn median<T: Copy + Ord>(values: &mut [T]) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Returns the CPU time of all descendants that ended and were waited for. Its resolution is a clock tick, so it is compared over
/// many rounds.
pub(crate) fn children_cpu() -> Result<Duration, crate::Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
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
