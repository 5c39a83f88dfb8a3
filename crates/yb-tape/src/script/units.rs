//! Durations and positions as people write them: `250ms`, `3 events`.

use std::time::Duration;

use super::fault::Point;
use crate::cursor::Cursor;
use crate::error::ScriptError;

/// Nobody waits longer on purpose; a larger number is a slip.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// `250ms`, `1.5s`, `2m`, `1h`; the unit is never left out.
pub(super) fn duration(at: &Cursor<'_>) -> Result<Duration, ScriptError> {
    const EXPECTED: &str = "a duration with its unit, such as `250ms`, `2s` or `1m`, of at most a day";
    let wrong = || at.wrong(EXPECTED);
    // A bare number is the usual slip: the general message about texts would not help.
    let text = at.text().map_err(|_| wrong())?;
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let number: f64 = text[..split].trim().parse().map_err(|_| wrong())?;
    let unit = match text[split..].trim() {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * unit).ok().filter(|duration| *duration <= LONGEST).ok_or_else(wrong)
}

/// `request`, `3 events` or `120 bytes`.
pub(super) fn point(at: &Cursor<'_>) -> Result<Point, ScriptError> {
    let wrong =
        || at.wrong("`request`, a number of events such as `3 events`, or of bytes such as `120 bytes`");
    let text = at.text().map_err(|_| wrong())?;
    if text == "request" {
        return Ok(Point::Request);
    }
    let (number, unit) = text.split_once(' ').ok_or_else(wrong)?;
    let number: usize = number.parse().map_err(|_| wrong())?;
    match unit.trim() {
        "event" | "events" => Ok(Point::Events(number)),
        "byte" | "bytes" => Ok(Point::Bytes(number)),
        _ => Err(wrong()),
    }
}
