//! Durations and fault positions in scripts: `250ms`, `3 events`.

use std::time::Duration;

use super::fault::FaultPosition;
use crate::cursor::Cursor;
use crate::error::ScriptError;

/// Longer durations are probably mistakes.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// Decodes a duration: `250ms`, `1.5s`, `2m`, `1h`; the unit is required.
pub(super) fn duration(at: &Cursor<'_>) -> Result<Duration, ScriptError> {
    const EXPECTED: &str = "a duration with unit, such as `250ms`, `2s` or `1m`, at most one day";
    let wrong = || at.wrong(EXPECTED);
    // A missing unit is a common mistake, for which the general message about strings would not help.
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
    Duration::try_from_secs_f64(number * unit)
        .ok()
        .filter(|duration| *duration <= MAX_DURATION)
        .ok_or_else(wrong)
}

/// Decodes a fault position: `request`, `3 events` or `120 bytes`.
pub(super) fn fault_position(at: &Cursor<'_>) -> Result<FaultPosition, ScriptError> {
    let wrong = || at.wrong("`request`, or a number of events or bytes such as `3 events` or `120 bytes`");
    let text = at.text().map_err(|_| wrong())?;
    if text == "request" {
        return Ok(FaultPosition::Request);
    }
    let (number, unit) = text.split_once(' ').ok_or_else(wrong)?;
    let number: usize = number.parse().map_err(|_| wrong())?;
    match unit.trim() {
        "event" | "events" => Ok(FaultPosition::Events(number)),
        "byte" | "bytes" => Ok(FaultPosition::Bytes(number)),
        _ => Err(wrong()),
    }
}
