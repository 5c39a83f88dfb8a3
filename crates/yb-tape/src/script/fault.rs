//! Scripted faults: error status, dropped connection, stall, or error event.

use std::time::Duration;

use super::units;
use crate::api_error::ApiErrorKind;
use crate::cursor::Cursor;
use crate::error::ScriptError;

/// A fault instead of, or in the middle of, a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// Number of requests for this turn that fail; `None` means all.
    pub(crate) times: Option<u64>,
}

impl Fault {
    /// Returns whether the n-th request (from 1) for this turn fails.
    pub(crate) fn applies_to(&self, attempt: u64) -> bool {
        self.times.is_none_or(|times| attempt <= times)
    }

    /// Returns whether the content of the reply is never sent.
    pub(super) fn replaces_reply(&self) -> bool {
        let whole = match &self.kind {
            FaultKind::Status { .. } => true,
            FaultKind::Cut { after } | FaultKind::Error { after, .. } => *after == FaultPosition::Request,
            FaultKind::Stall { after, length } => *after == FaultPosition::Request && length.is_none(),
        };
        whole && self.times.is_none()
    }
}

/// The kind of a scripted fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// An HTTP error in the format of the API.
    Status { status: u16, message: Option<String>, retry_after: Option<Duration> },
    /// The connection is dropped.
    Cut { after: FaultPosition },
    /// Nothing is sent for `length`, or until the client gives up.
    Stall { after: FaultPosition, length: Option<Duration> },
    /// An `error` event ends the stream.
    Error { kind: ApiErrorKind, message: Option<String>, after: FaultPosition },
}

/// How much of a response is sent before a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultPosition {
    /// Nothing, not even a status.
    Request,
    /// This many events.
    Events(usize),
    /// This many bytes of the body.
    Bytes(usize),
}

const KINDS: [&str; 4] = ["status", "cut", "stall", "error"];
const KEYS: &[&str] = &["status", "message", "retry_after", "cut", "stall", "error", "times"];
const DEFAULT_POSITION: FaultPosition = FaultPosition::Events(3);

/// Decodes the `fault` of a reply.
pub(super) fn read_fault(at: &Cursor<'_>) -> Result<Fault, ScriptError> {
    let fields = at.fields(KEYS)?;
    let mut given = KINDS.iter().filter_map(|kind| fields.get(kind).map(|value| (*kind, value)));
    let (Some((name, value)), None) = (given.next(), given.next()) else {
        return Err(at.error("invalid fault").expected("exactly one of `status`, `cut`, `stall`, `error`"));
    };
    if name != "status" {
        for key in ["message", "retry_after"] {
            if let Some(extra) = fields.get(key) {
                return Err(extra.error("misplaced key").expected("only together with `status`"));
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
            let kind = inner.get("type").map(|t| t.word(&ApiErrorKind::NAMES)).transpose()?;
            FaultKind::Error {
                kind: kind.map_or(ApiErrorKind::Overloaded, ApiErrorKind::from_name),
                message: inner.get("message").map(|m| m.text()).transpose()?,
                after: after(inner.get("after"))?,
            }
        }
    };
    let times = fields.get("times").map(|t| t.count()).transpose()?;
    if times == Some(0) {
        return Err(fields.error("fault never happens").with_hint("remove `fault`, or set `times: 1`"));
    }
    Ok(Fault { kind, times })
}

fn after(given: Option<Cursor<'_>>) -> Result<FaultPosition, ScriptError> {
    given.map_or(Ok(DEFAULT_POSITION), |at| units::fault_position(&at))
}

fn status(at: &Cursor<'_>) -> Result<u16, ScriptError> {
    at.count()
        .ok()
        .and_then(|number| u16::try_from(number).ok())
        .filter(|number| (400..=599).contains(number))
        .ok_or_else(|| at.wrong("an HTTP error status from 400 to 599"))
}
