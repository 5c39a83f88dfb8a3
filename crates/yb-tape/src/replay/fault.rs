//! Faults injected into a replay, such as `3:429` or `subagent-1/2:cut`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::MAIN;
use crate::error::Error;
use crate::tape::Tape;

/// A fault at a turn of a lane. It happens once; the next attempt of the agent gets the recorded response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayFault {
    /// The lane, `main` for the main thread.
    pub lane: String,
    /// The turn within the lane, from 1.
    pub turn: usize,
    /// The kind of fault.
    pub kind: ReplayFaultKind,
}

/// The kind of a [`ReplayFault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayFaultKind {
    /// An error status instead of the response.
    Status {
        /// From 400 to 599.
        status: u16,
        /// Value of the `retry-after` header.
        retry_after: Option<Duration>,
    },
    /// The connection is dropped in the middle of the response.
    Cut,
    /// The response is delayed.
    Slow(Duration),
}

impl ReplayFault {
    /// Creates a fault at a turn of lane `main`.
    #[must_use]
    pub fn at(turn: usize, kind: ReplayFaultKind) -> Self {
        Self { lane: MAIN.to_owned(), turn, kind }
    }

    /// Sets the lane.
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.lane = lane.into();
        self
    }

    pub(super) fn check(&self, tape: &Tape) -> Result<(), Error> {
        let turns = turns(tape, &self.lane);
        if (1..=turns).contains(&self.turn) {
            return Ok(());
        }
        Err(Error::NoSuchTurn { lane: self.lane.clone(), turn: self.turn, turns })
    }
}

/// Counts the turns of a lane; 0 if there is no such lane.
pub(super) fn turns(tape: &Tape, lane: &str) -> usize {
    let lane = tape.lanes().iter().find(|known| known.name == lane);
    let turns =
        lane.into_iter().flat_map(|lane| &lane.exchanges).map(|index| tape.exchanges()[*index].turn());
    turns.max().unwrap_or(0)
}

impl fmt::Display for ReplayFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lane != MAIN {
            write!(f, "{}/", self.lane)?;
        }
        write!(f, "{}:", self.turn)?;
        match self.kind {
            ReplayFaultKind::Status { status, retry_after: None } => write!(f, "{status}"),
            ReplayFaultKind::Status { status, retry_after: Some(wait) } => {
                write!(f, "{status}={}ms", wait.as_millis())
            }
            ReplayFaultKind::Cut => f.write_str("cut"),
            ReplayFaultKind::Slow(wait) => write!(f, "slow={}ms", wait.as_millis()),
        }
    }
}

/// A text is not a valid [`ReplayFault`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid fault: `{0}`; expected `TURN:KIND` or `LANE/TURN:KIND`, where KIND is a status (`429`, `429=2s`), `cut` or `slow=2s`"
)]
pub struct ParseReplayFaultError(String);

/// Parses `[LANE/]TURN:KIND`, where KIND is a status (`529`, or `429=2s` with a `retry-after` header), `cut` or `slow=2s`.
impl FromStr for ReplayFault {
    type Err = ParseReplayFaultError;

    fn from_str(text: &str) -> Result<Self, ParseReplayFaultError> {
        let invalid = || ParseReplayFaultError(text.to_owned());
        let (position, kind) = text.split_once(':').ok_or_else(invalid)?;
        let (lane, turn) = position.rsplit_once('/').unwrap_or((MAIN, position));
        let turn = turn.parse().ok().filter(|turn| *turn > 0).ok_or_else(invalid)?;
        let (name, wait) = match kind.split_once('=') {
            Some((name, wait)) => (name, Some(duration(wait).ok_or_else(invalid)?)),
            None => (kind, None),
        };
        let kind = match (name, wait) {
            ("cut", None) => ReplayFaultKind::Cut,
            ("slow", Some(wait)) => ReplayFaultKind::Slow(wait),
            (status, retry_after) => {
                let status =
                    status.parse().ok().filter(|status| (400..=599).contains(status)).ok_or_else(invalid)?;
                ReplayFaultKind::Status { status, retry_after }
            }
        };
        Ok(Self { lane: lane.to_owned(), turn, kind })
    }
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
    let number: f64 = number.parse().ok()?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replay_faults_round_trip_through_text() {
        for (text, lane, turn, kind) in [
            ("3:429", "main", 3, ReplayFaultKind::Status { status: 429, retry_after: None }),
            (
                "1:429=1.5s",
                "main",
                1,
                ReplayFaultKind::Status { status: 429, retry_after: Some(Duration::from_millis(1500)) },
            ),
            ("subagent-1/2:cut", "subagent-1", 2, ReplayFaultKind::Cut),
            ("2:slow=20ms", "main", 2, ReplayFaultKind::Slow(Duration::from_millis(20))),
        ] {
            let fault: ReplayFault = text.parse().unwrap();
            assert_eq!(fault, ReplayFault::at(turn, kind).lane(lane), "{text}");
            assert_eq!(fault.to_string().parse(), Ok(fault), "{text}");
        }
        for text in ["", "3", "0:cut", "x:cut", "3:200", "3:cut=1s", "3:slow", "3:429=", "3:429=1h"] {
            assert!(text.parse::<ReplayFault>().unwrap_err().to_string().contains("TURN:KIND"), "{text}");
        }
    }
}
