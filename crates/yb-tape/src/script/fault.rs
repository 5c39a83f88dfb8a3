//! Faults that a script asks for: an error status, a cut connection, a stall, an error inside the stream.

use std::time::Duration;

use super::units;
use crate::api_error::Kind;
use crate::cursor::Cursor;
use crate::error::ScriptError;

/// Something that goes wrong instead of, or in the middle of, a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// How many requests for this turn meet it; absent means all.
    pub(crate) times: Option<u64>,
}

impl Fault {
    /// Whether the n-th request (from 1) for this turn meets the fault.
    pub(crate) fn meets(&self, attempt: u64) -> bool {
        self.times.is_none_or(|times| attempt <= times)
    }

    /// Whether the reply's own content is never sent.
    pub(super) fn replaces_reply(&self) -> bool {
        let whole = match &self.kind {
            FaultKind::Status { .. } => true,
            FaultKind::Cut { after } | FaultKind::Error { after, .. } => *after == Point::Request,
            FaultKind::Stall { after, length } => *after == Point::Request && length.is_none(),
        };
        whole && self.times.is_none()
    }
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// An HTTP error with the API's own envelope.
    Status { status: u16, message: Option<String>, retry_after: Option<Duration> },
    /// The connection is dropped.
    Cut { after: Point },
    /// Nothing more is sent for a while, or, without a length, until the client gives up.
    Stall { after: Point, length: Option<Duration> },
    /// An `error` event ends the stream.
    Error { kind: Kind, message: Option<String>, after: Point },
}

/// How far an answer gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// The request was read and nothing was answered, not even a status.
    Request,
    /// So many events were sent.
    Events(usize),
    /// So many bytes of the body were sent.
    Bytes(usize),
}

const KINDS: [&str; 4] = ["status", "cut", "stall", "error"];
const KEYS: &[&str] = &["status", "message", "retry_after", "cut", "stall", "error", "times"];
const MIDDLE: Point = Point::Events(3);

/// Reads the `fault` of a reply.
pub(super) fn read(at: &Cursor<'_>) -> Result<Fault, ScriptError> {
    let fields = at.fields(KEYS)?;
    let mut given = KINDS.iter().filter_map(|kind| fields.get(kind).map(|value| (*kind, value)));
    let (Some((name, value)), None) = (given.next(), given.next()) else {
        return Err(at.error("wrong fault").expected("exactly one of `status`, `cut`, `stall`, `error`"));
    };
    if name != "status" {
        for key in ["message", "retry_after"] {
            if let Some(extra) = fields.get(key) {
                return Err(extra.error("key out of place").expected("beside `status` only"));
            }
        }
    }
    let kind = match name {
        "status" => FaultKind::Status {
            status: status(&value)?,
            message: fields.get("message").map(|m| m.text()).transpose()?,
            retry_after: fields.get("retry_after").map(|r| units::duration(&r)).transpose()?,
        },
        "cut" => {
            let inner = value.fields(&["after"])?;
            FaultKind::Cut { after: after(inner.get("after"))? }
        }
        "stall" => {
            let inner = value.fields(&["after", "for"])?;
            FaultKind::Stall {
                after: after(inner.get("after"))?,
                length: inner.get("for").map(|l| units::duration(&l)).transpose()?,
            }
        }
        _ => {
            let inner = value.fields(&["type", "message", "after"])?;
            let kind = inner.get("type").map(|t| t.word(&Kind::NAMES)).transpose()?;
            FaultKind::Error {
                kind: kind.map_or(Kind::Overloaded, Kind::named),
                message: inner.get("message").map(|m| m.text()).transpose()?,
                after: after(inner.get("after"))?,
            }
        }
    };
    let times = fields.get("times").map(|t| t.count()).transpose()?;
    if times == Some(0) {
        return Err(fields
            .error("a fault that never happens")
            .with_hint("leave `fault` out, or set `times: 1`"));
    }
    Ok(Fault { kind, times })
}

fn after(given: Option<Cursor<'_>>) -> Result<Point, ScriptError> {
    given.map_or(Ok(MIDDLE), |at| units::point(&at))
}

fn status(at: &Cursor<'_>) -> Result<u16, ScriptError> {
    at.count()
        .ok()
        .and_then(|number| u16::try_from(number).ok())
        .filter(|number| (400..=599).contains(number))
        .ok_or_else(|| at.wrong("an HTTP error status from 400 to 599"))
}
